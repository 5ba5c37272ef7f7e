"""MaxText's configs/models/*.yml, over the defaults of its base.yml."""

import os

from pecli.models.dialects.translation import (
    linear_scaling,
    llama3_scaling,
    ropes_by_hugging_face_rules,
    softmax_warnings,
    values_by_hugging_face_name,
    with_defaults,
    yarn_magnitude,
)
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import DEEPSEEK, HALVES, INTERLEAVED, ModelFamily
from pecli.models.keys import Keys, Setting, Settings, positive, setting_from_key
from pecli.models.table_rules import LearnedRule

#: Values of `decoder_block`.
DEEPSEEK4 = "deepseek4"
#: Gemma 4, and its models with embeddings per layer (E2B, E4B).
GEMMAS_4 = ("gemma4", "gemma4_small")

#: The base of Gemma 4's full layers, which replaces `rope_max_timescale` if it is positive.
FULL_LAYERS_BASE = "global_rope_max_timescale"
LOCAL_PROPORTION = "local_rope_proportion"


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings: a learned table if it has a size, else rotary ones."""
    keys = with_defaults(keys, "MaxText's base.yml")
    if positive(keys.number("trainable_position_size")):
        rule = LearnedRule(rows=("trainable_position_size",), dim=("base_emb_dim",))
        return ParsedEncodings(rule.encodings(keys), [])
    return _rotary_encodings(keys)


def _rotary_encodings(keys: Keys) -> ParsedEncodings:
    """Return the rotary encodings of a MaxText config, read as a config.json of Hugging Face.

    MaxText's settings get Hugging Face's names first: its `rope_max_timescale` is `rope_theta`.
    """
    rope_type = keys.required(keys.word("rope_type"), "rope_type").value
    bases_and_layers = _bases_and_unrotated_layers(keys)
    rope_scaling = {**_scaling_settings(keys, rope_type), **_mrope_sections(keys)}
    family = _family_by_code(keys, rope_type)
    shared_names = _head_keys_shared_with_hugging_face(keys)
    warnings = _warnings_of_latent_attention(keys)
    parsed = ropes_by_hugging_face_rules(
        keys,
        family,
        shared_names=shared_names,
        scaling=rope_scaling,
        settings=bases_and_layers,
    )
    return parsed.with_earlier_warnings(warnings)


def _family_by_code(keys: Keys, rope_type: str) -> ModelFamily:
    """Return the rules of MaxText's code for a model; sliding layers of Gemma 3 and 4 have no scaling."""
    scales_all_layers = keys.data.get("decoder_block") not in ("gemma3", *GEMMAS_4)
    layout = _layout(keys, rope_type)
    return ModelFamily("MaxText", layout=layout, scales_all_layers=scales_all_layers)


def _has_latent_attention(keys: Keys) -> bool:
    return keys.data.get("attention_type") == "mla"


def _warnings_of_latent_attention(keys: Keys) -> list[str]:
    """Return a warning that latent attention multiplies the softmax scale, as in DeepSeek-V3."""
    if not _has_latent_attention(keys):
        return []
    return softmax_warnings(keys.number("rope_factor"), keys.number("mscale"))


def _is_gemma_4(keys: Keys) -> bool:
    return keys.data.get("decoder_block") in GEMMAS_4


def _bases_and_unrotated_layers(keys: Keys) -> Settings:
    """Return the bases of rope, and which layers have none, by Hugging Face's names.

    MaxText calls a base a timescale. Layers with a sliding window and layers that compress their
    attention keys may have bases of their own.
    """
    # Hugging Face's names are on the left, MaxText's on the right.
    settings = values_by_hugging_face_name(
        keys, rope_theta="rope_max_timescale", num_hidden_layers="base_num_decoder_layers"
    )
    # A number up to 0 means that there is none; `positive` then returns None.
    settings["local_rope_theta"] = positive(keys.number("local_rope_max_timescale"))
    settings["compress_rope_theta"] = positive(keys.number("compressed_rope_max_timescale"))
    settings["no_rope_layer_interval"] = positive(keys.number("nope_layer_interval"))
    if _is_gemma_4(keys):
        base_of_full_layers = positive(keys.number(FULL_LAYERS_BASE))
        settings["rope_theta"] = base_of_full_layers or settings["rope_theta"]
        _accept_local_proportion_of_1(keys)
    return settings


def _mrope_sections(keys: Keys) -> Settings:
    """Return the sections of M-RoPE, which MaxText interleaves as Qwen3-VL does."""
    if not keys.is_true("use_mrope"):
        return {}
    interleaved = setting_from_key(True, "use_mrope")
    return {"mrope_section": keys.numbers("mrope_section"), "mrope_interleaved": interleaved}


def _head_keys_shared_with_hugging_face(keys: Keys) -> tuple[str, ...]:
    """Return the keys about heads that the code of a model reads under Hugging Face's names."""
    if keys.data.get("decoder_block") == DEEPSEEK4:
        return ("head_dim", "qk_rope_head_dim")
    names: tuple[str, ...] = ("head_dim", "partial_rotary_factor")
    if _has_latent_attention(keys):
        names = ("qk_rope_head_dim", "qk_nope_head_dim")
    if _is_gemma_4(keys):
        names = (*names, "global_head_dim")
    return names


def _accept_local_proportion_of_1(keys: Keys) -> None:
    """Record a `local_rope_proportion` of 1 as read, so that no warning reports it.

    With 1, all channels of sliding layers rotate, as without the key. Any other proportion is
    reported as a key that nothing reads.
    """
    if keys.data.get(LOCAL_PROPORTION) == 1:
        keys.mark_as_read(LOCAL_PROPORTION)


def _is_llama3(keys: Keys, kind: str) -> bool:
    """Return True for Llama 3.1, which a model's name selects as well as its rope type; the name
    may be the file's.
    """
    name = str(keys.data.get("model_name") or os.path.basename(keys.path))
    return kind.startswith("llama3.1") or name.startswith("llama3.1")


def _layout(keys: Keys, kind: str) -> str:
    """Return how MaxText pairs channels: in halves, with two exceptions.

    Neighbours are pairs for Llama 3.1 and DeepSeek-V4. With YaRN, they are read as pairs and written
    as halves (DeepSeek-V3's way), unless `rope_interleave` is false.
    """
    if _is_llama3(keys, kind) or keys.data.get("decoder_block") == DEEPSEEK4:
        return INTERLEAVED
    if not kind.startswith("yarn") or keys.is_false("rope_interleave"):
        return HALVES
    return DEEPSEEK


def _scaling_settings(keys: Keys, kind: str) -> Settings:
    """Return the scaling of a rope type: Llama 3.1's, YaRN, or linear if a factor is given."""
    linear = keys.number_or(1.0, "rope_linear_scaling_factor")
    if _is_llama3(keys, kind):
        return llama3_scaling(keys, "rope_use_scale")
    if kind.startswith("yarn"):
        return _yarn_settings(keys)
    if linear.value != 1:
        return linear_scaling(linear)
    return _proportional_scaling(keys)


def _proportional_scaling(keys: Keys) -> Settings:
    """Return Gemma 4's scaling: pairs of full layers beyond a fraction have the frequency 0.

    With a proportion of 0.25, the first quarter of the pairs rotates.
    """
    proportion = keys.number("global_rope_proportion")
    if proportion is None or not _is_gemma_4(keys):
        return {}
    return {
        "rope_type": proportion.with_value("proportional"),
        "partial_rotary_factor": proportion,
    }


def _yarn_settings(keys: Keys) -> Settings:
    """Return YaRN by the names of Hugging Face's `rope_scaling`."""
    return {
        **values_by_hugging_face_name(
            keys,
            rope_type="rope_type",
            factor="rope_factor",
            original_max_position_embeddings="original_max_position_embeddings",
            beta_fast="beta_fast",
            beta_slow="beta_slow",
            truncate="rope_truncate",
        ),
        "attention_factor": _attention_factor_of_yarn(keys),
    }


def _attention_factor_of_yarn(keys: Keys) -> Setting[float]:
    """Return the factor of cos and sin: 1, or YaRN's own with `rope_attention_scaling: true`.

    YaRN's own is 0.1 · ln(rope_factor) + 1: 1.3689 for a factor of 40.
    """
    source = "rope_attention_scaling, which is false by default"
    if not keys.is_true("rope_attention_scaling"):
        return Setting(1.0, source)
    no_mscale = Setting(1.0, "")  # MaxText's code has no mscale here, which is the same as 1.
    return Setting(yarn_magnitude(keys.number("rope_factor"), no_mscale), source)
