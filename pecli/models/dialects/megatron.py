"""Arguments of Megatron and NeMo, at the top of a file or in an object."""

from pecli.models.dialects import huggingface
from pecli.models.dialects.hyphens import plain_keys
from pecli.models.dialects.translation import (
    linear_scaling,
    llama3_scaling,
    ropes_by_hugging_face_rules,
    values_by_hugging_face_name,
    with_defaults,
    yarn_magnitude,
)
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import DEEPSEEK, ModelFamily
from pecli.models.keys import Keys, Setting, Settings, value_of
from pecli.models.table_rules import LearnedRule

#: The fraction of a head that rotates if no key states it, by the names of models of NeMo whose
#: code has a default of its own.
DEFAULT_FRACTIONS = {"megatron_griffin": 0.5}
#: Keys with the same name and meaning in Hugging Face's config.json.
NAMES_SHARED_WITH_HUGGING_FACE = ("hidden_size", "num_attention_heads", "kv_channels")
#: Keys of YaRN that have Hugging Face's names, after a prefix.
YARN_NAMES = (
    "original_max_position_embeddings",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
)


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings of a training run of Megatron or NeMo, by the arguments in its file.

    NeMo's files have them in an object `model`, and Megatron's test cases in `MODEL_ARGS`, with
    hyphens in their names.
    """
    inner = keys.inner_or_self("model", "MODEL_ARGS")
    plain = plain_keys(keys if "num_attention_heads" in keys else inner)
    return _read_plain(plain, model_name=str(keys.data.get("name")))


def _read_plain(keys: Keys, model_name: str) -> ParsedEncodings:
    """Return the encodings of a Megatron or NeMo config by Megatron's own rules.

    Latent attention comes first: it rotates whatever the type of the encoding is. A type that
    Megatron does not have is left to Hugging Face's rules.

    Args:
        keys: The keys, with underscores in their names.
        model_name: The name of NeMo's model, which implies the fraction of a head that rotates.
    """
    embedding_type = value_of(keys.word("position_embedding_type")) or ""
    if keys.is_true("multi_latent_attention"):
        return _latent_encoding(keys)
    if keys.is_true("use_rotary_position_embeddings"):
        embedding_type = "rope"
    if embedding_type in ("rope", "mrope", "yarn"):
        return _rotary_encoding(keys, model_name, embedding_type)
    if embedding_type in ("", "learned_absolute"):
        return _learned_encoding(keys, embedding_type)
    return huggingface.read(keys)


def _learned_encoding(keys: Keys, embedding_type: str) -> ParsedEncodings:
    """Return Megatron's learned table, with a warning if no type of encoding is stated (empty)."""
    warnings = []
    if not embedding_type:
        warnings.append("position_embedding_type is not given: Megatron then adds a learned table")
    table = LearnedRule(rows=("max_position_embeddings",))
    return ParsedEncodings(table.encodings(keys), warnings)


def _rotary_encoding(keys: Keys, model_name: str, embedding_type: str) -> ParsedEncodings:
    """Return the rotary encoding of a Megatron or NeMo config.

    Its keys are read like those of a config.json that mean the same: `rotary_base` is the
    `rope_theta`, and `rotary_percent` the `partial_rotary_factor`.

    Args:
        keys: The keys, with underscores in their names.
        model_name: The name of NeMo's model. In `megatron_griffin`, half of a head rotates unless a
            key states another fraction.
        embedding_type: `rope`, `yarn` (rope scaled by YaRN), or `mrope`, whose frequencies follow
            time, rows or columns, as many as `mrope_section` states.
    """
    scaling = dict(_scaling(keys, embedding_type))
    if embedding_type == "mrope":
        scaling["mrope_section"] = keys.numbers("mrope_section")
    settings = values_by_hugging_face_name(
        keys, rope_theta="rotary_base", rope_interleave="rotary_interleaved"
    )
    # Megatron has the first name, NeMo the second.
    settings["partial_rotary_factor"] = keys.number("rotary_percent", "rotary_percentage")
    family = ModelFamily("Megatron", partial=DEFAULT_FRACTIONS.get(model_name))
    return ropes_by_hugging_face_rules(
        keys,
        family,
        shared_names=NAMES_SHARED_WITH_HUGGING_FACE,
        scaling=scaling,
        settings=settings,
    )


def _scaling(keys: Keys, embedding_type: str) -> Settings:
    """Return the scaling; YaRN takes precedence over Llama 3.1's, and that over a linear one.

    The type `yarn` states YaRN, whose keys then begin with `yarn_`.
    """
    # All keys are read in any case, so that none is reported as a key that nothing reads.
    linear_factor = keys.number(
        "rotary_seq_len_interpolation_factor", "seq_len_interpolation_factor"
    )
    llama3 = llama3_scaling(keys, "use_rope_scaling", factor="rope_scaling_factor")
    if embedding_type == "yarn":
        return {
            **_yarn_parameters(keys, "yarn_"),
            "rope_type": keys.word("position_embedding_type"),
            "truncate": keys.flag("yarn_correction_range_round_to_int"),
        }
    if llama3:
        return llama3
    if linear_factor is not None:
        return linear_scaling(linear_factor)
    return {}


def _latent_encoding(keys: Keys) -> ParsedEncodings:
    """Return the rotary encoding of multi-head latent attention (MLA), as DeepSeek-V3 has it.

    A head has 192 channels. The first 128 carry no position and never rotate (`qk_head_dim`). The
    other 64 do (`qk_pos_emb_head_dim`). The `rope_type` is `yarn`, or `rope` without a scaling.
    """
    keys = with_defaults(keys, "Megatron's MLATransformerConfig")
    rope_type = keys.required(keys.word("rope_type"), "rope_type")
    keys.require_one_of(rope_type, "yarn", "rope")
    # Hugging Face's names on the left, Megatron's on the right.
    settings_at_top = values_by_hugging_face_name(
        keys,
        rope_theta="rotary_base",
        qk_rope_head_dim="qk_pos_emb_head_dim",
        qk_nope_head_dim="qk_head_dim",
    )
    rope_scaling: Settings = {}
    if rope_type.value == "yarn":
        rope_scaling = {**_yarn_parameters(keys), "rope_type": rope_type}
    else:
        # Only without YaRN does Megatron read the fraction of the 64 channels that rotates.
        settings_at_top["partial_rotary_factor"] = keys.number("rotary_percent")
    # Pairs of channels lie side by side before the rotation and in halves after it.
    family = ModelFamily("Megatron", layout=DEEPSEEK)
    return ropes_by_hugging_face_rules(keys, family, scaling=rope_scaling, settings=settings_at_top)


def _yarn_parameters(keys: Keys, prefix: str = "") -> dict[str, Setting[object] | None]:
    """Return the parameters of YaRN by Hugging Face's names, without the type of the scaling.

    Args:
        keys: The keys, with underscores in their names.
        prefix: What the names of YaRN's keys begin with: `yarn_`, or nothing with latent attention.
    """
    megatron_names = {name: prefix + name for name in YARN_NAMES}
    scaling = values_by_hugging_face_name(
        keys, factor=f"{prefix}rotary_scaling_factor", **megatron_names
    )
    return {**scaling, "attention_factor": _attention_factor_of_yarn(keys, prefix)}


def _attention_factor_of_yarn(keys: Keys, prefix: str) -> Setting[float]:
    """Return what YaRN multiplies cos and sin by: g(mscale) / g(mscale_all_dim).

    g(m) is 0.1 · m · ln factor + 1. A factor of 40 and the numbers 1 and 0 make 1.3689 / 1.

    Args:
        keys: The keys, with underscores in their names.
        prefix: What the names of YaRN's keys begin with.
    """
    factor = keys.number(f"{prefix}rotary_scaling_factor")
    magnitude = yarn_magnitude(factor, keys.number(f"{prefix}mscale"))
    magnitude_of_all = yarn_magnitude(factor, keys.number(f"{prefix}mscale_all_dim"))
    quotient = 0.0
    if magnitude_of_all != 0:
        quotient = magnitude / magnitude_of_all
    # A negative mscale_all_dim may make the divisor 0. The scheme refuses an attention factor of 0.
    return Setting(quotient, "g(mscale) / g(mscale_all_dim), g(m) = 0.1 · m · ln factor + 1")
