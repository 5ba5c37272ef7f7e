"""MaxText's configs/models/*.yml, over the defaults of its base.yml."""

import os

from pecli.models.dialects.translation import (
    linear_scaling,
    llama3_scaling,
    renamed,
    softmax_warnings,
    translated_ropes,
    with_defaults,
    yarn_magnitude,
)
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import DEEPSEEK, HALVES, INTERLEAVED, ModelFamily
from pecli.models.keys import Keys, Setting, Settings, stated
from pecli.models.table_rules import LearnedRule

#: Values of `decoder_block`.
DEEPSEEK4 = "deepseek4"
#: Gemma 4, and its models with embeddings per layer (E2B, E4B).
GEMMAS_4 = ("gemma4", "gemma4_small")

#: The base of Gemma 4's full layers, which replaces `rope_max_timescale` if it is positive.
GLOBAL_BASE = "global_rope_max_timescale"
LOCAL_PROPORTION = "local_rope_proportion"


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings: a learned table if it has a size, else rotary ones."""
    keys = with_defaults(keys, "MaxText's base.yml")
    if keys.number_or(-1, "trainable_position_size").value > 0:
        rule = LearnedRule(rows=("trainable_position_size",), dim=("base_emb_dim",))
        return ParsedEncodings(rule.encodings(keys), [])
    kind = keys.required(keys.word("rope_type"), "rope_type").value
    settings = renamed(
        keys, rope_theta="rope_max_timescale", num_hidden_layers="base_num_decoder_layers"
    )
    settings["local_rope_theta"] = _if_positive(keys, "local_rope_max_timescale")
    settings["compress_rope_theta"] = _if_positive(keys, "compressed_rope_max_timescale")
    settings["no_rope_layer_interval"] = _if_positive(keys, "nope_layer_interval")
    block = keys.data.get("decoder_block")
    if block in GEMMAS_4:
        settings["rope_theta"] = _if_positive(keys, GLOBAL_BASE) or settings["rope_theta"]
        _account_for_local_proportion(keys)
    layout = _layout(keys, kind)
    scaling = _scaling_settings(keys, kind)
    if keys.is_true("use_mrope"):
        sections = keys.numbers("mrope_section")
        interleaved = stated(True, "use_mrope")
        scaling = {**scaling, "mrope_section": sections, "mrope_interleaved": interleaved}
    is_latent = keys.data.get("attention_type") == "mla"
    warnings = []
    reads: tuple[str, ...] = ("head_dim", "partial_rotary_factor")
    if is_latent:
        reads = ("qk_rope_head_dim", "qk_nope_head_dim")
        warnings += softmax_warnings(keys.number("rope_factor"), keys.number("mscale"))
    if block == DEEPSEEK4:
        reads = ("head_dim", "qk_rope_head_dim")
    if block in GEMMAS_4:
        reads = (*reads, "global_head_dim")
    # Only Gemma 3 and 4 leave their sliding layers unscaled.
    scales_all = block not in ("gemma3", *GEMMAS_4)
    family = ModelFamily("MaxText", layout=layout, scales_all_layers=scales_all)
    parsed = translated_ropes(keys, family, reads=reads, scaling=scaling, settings=settings)
    return parsed.after(warnings)


def _account_for_local_proportion(keys: Keys) -> None:
    """Record that all channels of sliding layers rotate; another proportion is reported as unread."""
    if keys.data.get(LOCAL_PROPORTION) == 1:
        keys.mark_as_read(LOCAL_PROPORTION)


def _if_positive(keys: Keys, name: str) -> Setting[float] | None:
    """Return a number; 0 and −1 stand for none."""
    number = keys.number_or(-1, name)
    return number if number.value > 0 else None


def _is_llama3(keys: Keys, kind: str) -> bool:
    """Return True for Llama 3.1, which a model's name selects as well as its rope type; the name
    may be the file's.
    """
    name = str(keys.data.get("model_name") or os.path.basename(keys.path))
    return kind.startswith("llama3.1") or name.startswith("llama3.1")


def _layout(keys: Keys, kind: str) -> str:
    """Return the layout: MaxText interleaves pairs only for Llama 3.1 and DeepSeek-V4, and as DeepSeek-V3
    does for YaRN.
    """
    if _is_llama3(keys, kind) or keys.data.get("decoder_block") == DEEPSEEK4:
        return INTERLEAVED
    if not kind.startswith("yarn"):
        return HALVES
    return HALVES if keys.is_false("rope_interleave") else DEEPSEEK


def _scaling_settings(keys: Keys, kind: str) -> Settings:
    """Return the scaling of a rope type: Llama 3.1's, YaRN, or linear if a factor is given."""
    linear = keys.number_or(1.0, "rope_linear_scaling_factor")
    if _is_llama3(keys, kind):
        return llama3_scaling(keys, "rope_use_scale")
    if kind.startswith("yarn"):
        return _yarn_settings(keys)
    if linear.value != 1:
        return linear_scaling(linear)
    proportion = keys.number("global_rope_proportion")
    if proportion is not None and keys.data.get("decoder_block") in GEMMAS_4:
        # The pairs of full layers beyond this fraction have frequency 0.
        kind_of_gemma = proportion.with_value("proportional")
        return {"rope_type": kind_of_gemma, "partial_rotary_factor": proportion}
    return {}


def _yarn_settings(keys: Keys) -> Settings:
    """Return YaRN, which multiplies cos and sin only with `rope_attention_scaling`."""
    attention = 1.0
    if keys.is_true("rope_attention_scaling"):
        attention = yarn_magnitude(keys.number("rope_factor"), Setting(1.0, ""))
    source = "rope_attention_scaling, which is false by default"
    return {
        **renamed(
            keys,
            rope_type="rope_type",
            factor="rope_factor",
            original_max_position_embeddings="original_max_position_embeddings",
            beta_fast="beta_fast",
            beta_slow="beta_slow",
            truncate="rope_truncate",
        ),
        "attention_factor": Setting(attention, source),
    }
