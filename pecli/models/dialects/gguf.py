"""GGUF metadata as llama.cpp reads them.

They are brought into Hugging Face's spelling, together with llama.cpp's own rules for the
architecture.
"""

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np

from pecli.engine.named_values import NamedValues
from pecli.engine.table import Table, table_of
from pecli.errors import FileError
from pecli.files.gguf_file import header_of
from pecli.models.consistency import inconsistencies
from pecli.models.data import stored
from pecli.models.dialects.gguf_layers import unrotated_layers
from pecli.models.encoding import Encoding, ModelEncodings, ParsedEncodings
from pecli.models.families import HALVES, INTERLEAVED, ModelFamily
from pecli.models.key_names import ORIGINAL
from pecli.models.keys import (
    MAX_NUMBER,
    Keys,
    Origin,
    Setting,
    Settings,
    as_whole,
    computed,
    derived,
    nonzero,
    other_than_one,
    setting_from_key,
    value_of,
)
from pecli.models.rope import rope_encodings
from pecli.models.table_rules import AlibiRule, LearnedRule
from pecli.models.unread import unread_keys

#: A tensor that divides all frequencies; it holds the scaling of Llama 3.1.
ROPE_FREQS_TENSOR = "rope_freqs.weight"
#: Tensors of longrope.
LONG_TENSOR = "rope_factors_long.weight"
SHORT_TENSOR = "rope_factors_short.weight"

#: Architectures by llama.cpp's rules for them.
#: `neighbours`: ggml pairs neighbours (NORMAL), unless there are sections; all others rotate halves
#: (NEOX), of which `halves` are those in no other row. `mixed_sections`: M-RoPE sections are
#: interleaved (IMROPE). `own_sliding`: sliding layers have the base 10000 and no scaling, unless a
#: key differs. `unscaled_sliding`: sliding layers have the base of the others, unscaled.
ARCHITECTURES = {
    rule: frozenset(names.split()) for rule, names in stored("dialects/gguf.json").items()
}
#: Architectures whose sliding layers have no scaling, whatever their base is.
UNSCALED_SLIDING = ARCHITECTURES["own_sliding"] | ARCHITECTURES["unscaled_sliding"]
#: Architectures that llama.cpp gives ALiBi without a key for it.
ALIBI = ("bloom", "jina-bert-v2", "refact")
#: The model of 7B has 32 blocks.
BLOCKS_OF_BAICHUAN_13B = 40
#: The largest bias of ALiBi in the architectures that have it without a key.
IMPLIED_MAX_BIAS = 8.0
NO_ORIGINS: Mapping[str, Origin] = MappingProxyType({})
DEFAULT_BASE = 10000.0
#: Positions from which on a base of 10000 is a surprise.
LONG_CONTEXT = 16384
#: Decimals of a number that was stored as float32.
FLOAT32_DIGITS = 6


class Metadata(Protocol):
    """The header of a GGUF file, or what a log shows of it."""

    @property
    def values(self) -> NamedValues:
        """Metadata by their full keys."""

    def numbers(self, name: str) -> list[float] | None:
        """Return the numbers of a tensor; None if there is none of that name."""


@dataclass(frozen=True)
class Model:
    """The header of a GGUF file, its architecture, and the keys without the architecture's prefix."""

    header: Metadata
    architecture: str
    keys: Keys

    def follows(self, rule: str) -> bool:
        """Return True if the architecture is in the list of a rule, such as `neighbours`."""
        return self.architecture in ARCHITECTURES[rule]

    @property
    def is_known(self) -> bool:
        return any(self.architecture in names for names in ARCHITECTURES.values())


def _model_of(header: Metadata, label: str, origins: Mapping[str, Origin] = NO_ORIGINS) -> Model:
    """Return a file's keys without the name of the architecture: `llama.block_count` is `block_count`."""
    architecture = header.values.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise FileError(label, "has no general.architecture")
    prefix = f"{architecture}."
    values = {name.removeprefix(prefix): value for name, value in header.values.items()}
    keys = Keys(data=values, path=label, prefix=prefix, origins=origins)
    return Model(header=header, architecture=architecture, keys=keys)


def read(
    header: Metadata, label: str, origins: Mapping[str, Origin] = NO_ORIGINS
) -> ModelEncodings:
    """Return the encodings of a GGUF file, or of a model that llama.cpp's log shows.

    Args:
        header: The metadata of the file, or those that the log shows.
        label: The name of the file or the log.
        origins: For a log, the line that states each value. Its keys have no architecture in front:
            `{"rope.freq_base": origin_at("print_info: freq_base_train")}`.
    """
    model = _model_of(header, label, origins)
    encodings, warnings = _encodings_of_model(model)
    warnings += _warnings_about_unread_keys(model, encodings)
    context = model.keys.whole_number("context_length")
    warnings += _warnings_about_context(model, encodings, context)
    return ModelEncodings(
        file=label,
        model_type=model.architecture,
        encodings=tuple(encodings),
        warnings=tuple(warnings),
        context=value_of(context),
        window=_window(model.keys),
    )


def _warnings_about_context(
    model: Model, encodings: list[Encoding], context: Setting[int] | None
) -> list[str]:
    """Return warnings if the context length does not fit the base or the scaling."""
    warnings = []
    if context is not None and _lacks_base(model, encodings, context.value):
        lacking = f"{context.source} is {context.value}, and rope.freq_base is missing"
        warnings.append(f"{lacking}: llama.cpp then takes 10000")
    warnings += inconsistencies(
        encodings,
        value_of(context),
        model.architecture,
        length_key="context_length",
        scaling_key=ROPE_FREQS_TENSOR,
    )
    return warnings


def _warnings_about_unread_keys(model: Model, encodings: list[Encoding]) -> list[str]:
    """Return warnings about keys on positions that nothing has read.

    `model.keys` records what is read. Therefore this must follow the reading of the encodings.
    """
    model.keys.mark_names_in_file()
    schemes = {encoding.scheme for encoding in encodings}
    return unread_keys(_keys_of_model(model), schemes)


def _window(keys: Keys) -> int | None:
    """Return the window of sliding attention; a list, with one number per layer, counts as none."""
    return as_whole(keys.data.get("attention.sliding_window"))


def _keys_of_model(model: Model) -> Keys:
    """Return the keys about the model itself, under their full names: `llama.block_count`.

    Keys about the file (`general.`) and its tokenizer are left out.
    """
    data = {
        name: value
        for name, value in model.keys.data.items()
        if not name.startswith(("general.", "tokenizer."))
    }
    return replace(model.keys, data={model.architecture: data}, prefix="")


def _lacks_base(model: Model, encodings: list[Encoding], context: int) -> bool:
    """Return True if a long context has the default base, and no scaling that would explain it."""
    if context < LONG_CONTEXT or "rope.freq_base" in model.keys:
        return False
    return any(encoding.parameters.get("scaling") == "none" for encoding in encodings)


def _encodings_of_model(model: Model) -> ParsedEncodings:
    """Return the encodings of a model: ALiBi, none, a learned table, or rotary ones, in this order.

    A file does not name the kind of its encoding. llama.cpp decides by the architecture, except for
    a bias of ALiBi, which has a key.
    """
    keys = model.keys
    bias = _alibi_bias(model)
    if bias is not None:
        settings = {"alibi_bias_max": bias, "num_heads": keys.whole_number("attention.head_count")}
        return ParsedEncodings(AlibiRule().encodings(keys.with_settings(settings)), [])
    if model.follows("position_free"):
        warning = "no positional encoding was found: no key that is read here names one"
        return ParsedEncodings(encodings=[], warnings=[warning])
    has_rotary_size = "rope.dimension_count" in keys
    if model.follows("learned") and not has_rotary_size:
        rule = LearnedRule(rows=("context_length",), dim=("embedding_length",))
        return ParsedEncodings(rule.encodings(keys), [])
    return _rotary_encodings(model)


def _alibi_bias(model: Model) -> Setting[float] | None:
    """Return the largest bias of ALiBi; None if the model does not have ALiBi.

    A key states it. For a few architectures, such as Bloom, llama.cpp's code has 8 without a key.
    """
    bias = model.keys.number_or(0.0, "attention.max_alibi_bias")
    blocks = value_of(model.keys.whole_number("block_count", low=0))
    if bias.value > 0:
        return bias
    if _has_alibi_without_key(model.architecture, blocks):
        return Setting(IMPLIED_MAX_BIAS, f"llama.cpp's {model.architecture}")
    return None


def _has_alibi_without_key(architecture: str, blocks: int | None) -> bool:
    """Return True if llama.cpp's code has ALiBi for an architecture, such as Bloom.

    Baichuan 13B has ALiBi, and Baichuan 7B rope. Only the number of blocks distinguishes the two.
    """
    if architecture == "baichuan":
        return blocks == BLOCKS_OF_BAICHUAN_13B
    return architecture in ALIBI


def factor_frequencies(path: str) -> dict[str, Table]:
    """Return the rotary frequencies of a .gguf file, divided by a tensor in it, by tensor names.

    `rope_freqs.weight` of Llama 3.1 holds one divisor per frequency base^(−2i/dim). Longrope has
    two such tensors, for short and for long contexts. Most files have none: the result is empty.
    """
    header = header_of(path)
    tables = {}
    for tensor_name in (ROPE_FREQS_TENSOR, SHORT_TENSOR, LONG_TENSOR):
        divisors = header.numbers(tensor_name)
        if divisors:
            keys = _model_of(header, path).keys
            tables[tensor_name] = _divided_frequencies(tensor_name, keys, divisors)
    return tables


def _divided_frequencies(name: str, keys: Keys, stored_divisors: list[float]) -> Table:
    """Return the frequencies base^(−2i/dim) of a head, each divided by a number.

    Args:
        name: The name of the tensor that holds the divisors.
        keys: The keys of the file, which state the base and the rotary dimension.
        stored_divisors: A divisor per frequency.
    """
    base = keys.number_or(DEFAULT_BASE, "rope.freq_base").value
    sizes = _head_sizes(keys)
    dim = keys.required(sizes.rotary or sizes.size, "rope.dimension_count").value
    # A linear scaling beside the tensor divides all frequencies once more.
    divisors = _times_factor(stored_divisors, _factor_beside_tensors(keys))
    pairs = np.arange(len(divisors))
    # A divisor of 0 makes its frequency infinite.
    with np.errstate(divide="ignore"):
        frequencies = base ** (-2.0 * pairs / dim) / np.array(divisors)
    return table_of(f"{name}/inv_freq", frequencies)


class StoredHeadSizes(NamedTuple):
    """The width of a head, and the channels of it that rotate."""

    size: Setting[int] | None
    rotary: Setting[int] | None


def _head_sizes(keys: Keys) -> StoredHeadSizes:
    """Return the width of a head, and the channels of it that rotate.

    The width is stated, or the model's width over its heads (4096 // 32 = 128 in Llama 2), or else
    all that rotates.
    """
    stated_size = keys.whole_number("attention.key_length")
    width = keys.whole_number("embedding_length")
    size = stated_size or _width_over_heads(keys, width)
    rotary = keys.whole_number("rope.dimension_count")
    return StoredHeadSizes(size=size or rotary, rotary=rotary)


def _width_over_heads(keys: Keys, width: Setting[int] | None) -> Setting[int] | None:
    """Return the model's width over its heads; None if layers have different numbers of heads."""
    if isinstance(keys.data.get("attention.head_count"), list):
        return None
    heads = keys.whole_number("attention.head_count")
    return derived(operator.floordiv, "{} // {}", width, heads)


def _rotary_encodings(model: Model) -> ParsedEncodings:
    """Return the rotary encoding of all layers, or two: of full and of sliding layers.

    The metadata mean the same as keys of a config.json: `rope.freq_base` is its `rope_theta`. They
    are renamed, and read by the rules for a config.json. What llama.cpp's code decides without a
    key, such as the layout of pairs, is passed to these rules as the defaults of a model family.
    """
    scaling = {**_scaling_of_file(model), **_mrope_sections(model)}
    settings = {**_sizes_and_bases(model), **unrotated_layers(model.keys, model.architecture)}
    defaults_of_code = _family(model, has_sections="mrope_section" in scaling)
    config_json = model.keys.as_config_json(settings, scaling)
    encodings, warnings = rope_encodings(config_json, defaults_of_code)
    all_warnings = [*_warnings_of_file(model, scaling), *warnings]
    return ParsedEncodings(_merged_if_equal(encodings), all_warnings)


def _merged_if_equal(encodings: list[Encoding]) -> list[Encoding]:
    """Return a single encoding, for all layers, if those of full and sliding layers are equal.

    Its layer type is empty, which stands for all layers. If the parameters differ, as in Gemma 3,
    the encodings stay as they are: that of the full layers, then that of the sliding ones.
    """
    first, *others = encodings
    sliding_differs = any(encoding.parameters != first.parameters for encoding in others)
    if sliding_differs:
        return encodings
    return [replace(first, layer_type="")]


def _warnings_of_file(model: Model, scaling: Settings) -> list[str]:
    """Return warnings about divisors in a tensor, and about an unknown architecture."""
    warnings = _warnings_about_divisors(model.keys, scaling)
    if not model.is_known:
        warnings.append(
            f"architecture {model.architecture[:60]!r} is unknown:"
            " read by the general rules; check layout and defaults"
        )
    return warnings


def _warnings_about_divisors(keys: Keys, scaling: Settings) -> list[str]:
    """Return a warning if a tensor divides frequencies and another setting contradicts it.

    A factor such as `rope.scaling.factor` then divides once more. The tensor `rope_freqs.weight`
    replaces `rope.scaling.type`, whatever that is.
    """
    divisors = scaling.get("long_factor")  # In a .gguf, only a tensor holds them.
    if divisors is None:
        return []
    is_rope_freqs = ROPE_FREQS_TENSOR in divisors.stated_by
    factor = _factor_beside_tensors(keys)
    if factor is not None:
        tensors = ROPE_FREQS_TENSOR if is_rope_freqs else f"{SHORT_TENSOR} or {LONG_TENSOR}"
        return [
            f"llama.cpp scales twice: it divides frequencies by the tensor {tensors},"
            f" and positions by {factor.source} {factor.value:g}"
        ]
    if is_rope_freqs:
        return [
            f"frequencies are divided by the tensor {ROPE_FREQS_TENSOR}, whatever rope.scaling.type says"
        ]
    return []


def _sizes_and_bases(model: Model) -> Settings:
    """Return the base, the head size and the rotary size by Hugging Face's names."""
    keys = model.keys
    base = keys.number_or(DEFAULT_BASE, "rope.freq_base")
    sizes = _head_sizes(keys)
    return {
        "rope_theta": base,
        "local_rope_theta": _base_of_sliding_layers(model, base),
        "rotary_dim": sizes.rotary,
        "head_dim": keys.required(sizes.size, "rope.dimension_count"),
        "swa_head_dim": keys.whole_number("attention.key_length_swa"),
        "swa_rotary_dim": keys.whole_number("rope.dimension_count_swa"),
    }


def _base_of_sliding_layers(model: Model, base: Setting[float]) -> Setting[float] | None:
    """Return the base of sliding layers (swa: sliding window attention); None if there are none.

    A key states it, or llama.cpp's code has 10000 for some architectures; otherwise it is the base
    of the other layers.
    """
    stated_base = model.keys.number("rope.freq_base_swa")
    has_sliding_layers = bool(model.keys.data.get("attention.sliding_window"))
    if stated_base is not None or not has_sliding_layers:
        return stated_base
    if model.follows("own_sliding"):
        return Setting(DEFAULT_BASE, "llama.cpp's sliding layers")
    return base


def _family(model: Model, *, has_sections: bool) -> ModelFamily:
    """Return what llama.cpp's code decides by the architecture, without a key in the file.

    It pairs neighbouring channels for `llama`, and halves for `qwen2`. The scaling is for all layers,
    except for a few architectures whose sliding layers have none.

    Args:
        model: The file.
        has_sections: True for M-RoPE, which always pairs halves.
    """
    name = "of no known architecture"
    if model.is_known:
        name = f"ggml's rope type of {model.architecture}"
    is_normal = model.follows("neighbours") and not has_sections
    layout = INTERLEAVED if is_normal else HALVES
    scales_all_layers = model.architecture not in UNSCALED_SLIDING
    return ModelFamily(name, layout=layout, scales_all_layers=scales_all_layers)


def _mrope_sections(model: Model) -> Settings:
    """Return how many frequencies of M-RoPE follow time, rows and columns: 16, 24 and 24.

    GGUF has four numbers, 16, 24, 24, 0, of which the last is for an axis that no model uses. Empty
    for models without M-RoPE.
    """
    sections = model.keys.numbers("rope.dimension_sections")
    if sections is None:
        return {}
    padded_counts = np.array(sections.value, np.int64)
    counts = np.trim_zeros(padded_counts, trim="b").tolist()  # "b" is the back.
    if not counts:
        return {}
    # No key states whether time, rows and columns take turns: llama.cpp decides by the architecture.
    axes_take_turns = Setting(
        model.follows("mixed_sections"), f"ggml's rope type of {model.architecture}"
    )
    return {"mrope_section": sections.with_value(counts), "mrope_interleaved": axes_take_turns}


class _ScalingKeys(NamedTuple):
    """The keys of a GGUF file about its scaling.

    Attributes:
        type: None, linear, yarn or longrope; linear if the file has no type, as in llama.cpp.
        factor: The factor by which the context is extended.
        original: The context before it is extended.
        attention_factor: What cos and sin are multiplied by.
    """

    type: Setting[str]
    factor: Setting[float] | None
    original: Setting[int] | None
    attention_factor: Setting[float] | None


def _scaling_keys(keys: Keys) -> _ScalingKeys:
    """Return the keys about the scaling.

    All of them are read, also those that do not count beside others, so that no warning reports them
    as keys that nothing reads.
    """
    return _ScalingKeys(
        type=keys.word_or("linear", "rope.scaling.type"),
        attention_factor=keys.number("rope.scaling.attn_factor"),
        factor=_stated_factor(keys),
        original=keys.whole_number("rope.scaling.original_context_length", "context_length"),
    )


def _scaling_of_file(model: Model) -> Settings:
    """Return the scaling of a GGUF file by the names of Hugging Face's `rope_scaling`.

    Files hold Llama 3.1's scaling and longrope as tensors of divisors, one per frequency, which count
    whatever `rope.scaling.type` says. A factor of a linear scaling beside them counts as well.
    Without such a tensor the type counts: none, linear or YaRN.

    Raises:
        FileError: The type is not known, it is longrope without the tensors, or it is YaRN beside
            them.
    """
    stated = _scaling_keys(model.keys)
    from_tensors = _scaling_by_tensors(model, stated.type, stated.original)
    if from_tensors:
        attention_factor = stated.attention_factor or Setting(1.0, "default")
        return {**from_tensors, "attention_factor": attention_factor}
    return _scaling_by_type(model, stated)


def _scaling_by_type(model: Model, stated: _ScalingKeys) -> Settings:
    """Return the scaling that `rope.scaling.type` names: none, linear or YaRN.

    It counts only in files without tensors that divide the frequencies.

    Raises:
        FileError: The type is not known, or it is longrope, which needs such tensors.
    """
    keys = model.keys
    is_linear_without_factor = stated.type.value == "linear" and stated.factor is None
    if stated.type.value == "none" or is_linear_without_factor:
        return _no_scaling(keys, stated.type)
    keys.require_one_of(stated.type, "none", "linear", "yarn", "longrope")
    _refuse_longrope_without_tensors(keys, stated.type)
    scaling: dict[str, Setting[object] | None] = {
        "rope_type": stated.type,
        "factor": stated.factor,
        ORIGINAL: stated.original,
    }
    if stated.type.value == "yarn":
        scaling |= _yarn_parameters(model, stated.attention_factor, stated.factor)
    return scaling


def _stated_factor(keys: Keys) -> Setting[float] | None:
    """Return the factor that a file states, under its name or the older one; None for 0."""
    return nonzero(keys.number("rope.scaling.factor", "rope.scale_linear"))


def _factor_beside_tensors(keys: Keys) -> Setting[float] | None:
    """Return the factor that divides positions of a file whose tensors divide frequencies as well.

    llama.cpp divides positions by `rope.scaling.factor`, unless `rope.scaling.type` is none. With a
    factor of 8, a frequency that `rope_freqs.weight` divides by 4 is divided by 32. Such a file was
    mostly edited by hand: a converter writes either the tensor or the factor.

    Raises:
        FileError: The factor belongs to YaRN, which divides each frequency by another number.
    """
    scaling_type = keys.word_or("linear", "rope.scaling.type")
    factor = other_than_one(_stated_factor(keys))
    if factor is None or scaling_type.value == "none":
        return None
    if scaling_type.value == "yarn":
        problem = f"{scaling_type.source} is 'yarn', and a tensor divides the frequencies as well"
        rule = "llama.cpp scales twice, which is not read here; leave out one of the two"
        raise FileError(keys.path, problem, rule)
    return factor


def _times_factor(divisors: list[float], factor: Setting[float] | None) -> list[float]:
    """Return divisors of frequencies, multiplied by a factor that divides all of them as well."""
    if factor is None:
        return divisors
    # Gemma 4's divisors of pairs that do not rotate, 1e30, are the largest number of a key already.
    return [min(divisor * factor.value, MAX_NUMBER) for divisor in divisors]


def _refuse_longrope_without_tensors(keys: Keys, kind: Setting[str]) -> None:
    if kind.value == "longrope":
        problem = f"{kind.source} is 'longrope'"
        raise FileError(
            keys.path, problem, f"it needs the tensors {SHORT_TENSOR} and {LONG_TENSOR}"
        )


def _no_scaling(keys: Keys, kind: Setting[str]) -> Settings:
    """Return the scaling «none» with the key that states it; nothing if no key does."""
    if "rope.scaling.type" not in keys:
        return {}
    return {"rope_type": kind.with_value("none")}


def _scaling_by_tensors(
    model: Model, scaling_type: Setting[str], original: Setting[int] | None
) -> Settings:
    """Return the scaling that a file's tensors hold, as longrope; empty if it has no such tensors.

    Phi-3's files have two tensors of longrope, for short and for long contexts. Llama 3.1's have a
    single one, which counts at any length. It becomes a longrope whose two lists are the same.

    Args:
        model: The file.
        scaling_type: The word of `rope.scaling.type`.
        original: The context up to which the short factors count.
    """
    divisors_at_any_length = _divisors_of_tensor(model, ROPE_FREQS_TENSOR)
    if divisors_at_any_length is not None:
        return _longrope(
            setting_from_key("longrope", ROPE_FREQS_TENSOR),
            original=original,
            short=divisors_at_any_length,
            long=divisors_at_any_length,
        )
    short_divisors = _divisors_of_tensor(model, SHORT_TENSOR)
    long_divisors = _divisors_of_tensor(model, LONG_TENSOR)
    if short_divisors is None or long_divisors is None:
        return {}
    return _longrope(
        scaling_type.with_value("longrope"),
        original=original,
        short=short_divisors,
        long=long_divisors,
    )


def _divisors_of_tensor(model: Model, tensor_name: str) -> Setting[list[float]] | None:
    """Return the numbers that divide the frequencies of a file that has a tensor of them.

    They are those of the tensor, multiplied by a factor that divides all positions.
    """
    numbers = model.header.numbers(tensor_name)
    if not numbers:
        return None
    divisors = setting_from_key(numbers, tensor_name)
    factor = _factor_beside_tensors(model.keys)
    if factor is None:
        return divisors
    return computed(_times_factor(numbers, factor), "{} · {}", divisors, factor)


def _longrope(
    rope_type: Setting[str],
    *,
    original: Setting[int] | None,
    short: Setting[list[float]],
    long: Setting[list[float]],
) -> Settings:
    """Return longrope by the names of `rope_scaling`.

    Args:
        rope_type: The word longrope, with its source.
        original: The context up to which the short factors count.
        short: A divisor per frequency, up to the original context.
        long: A divisor per frequency, beyond it.
    """
    return {
        "rope_type": rope_type,
        ORIGINAL: original,
        "short_factor": short,
        "long_factor": long,
    }


def _yarn_parameters(
    model: Model, attn_factor: Setting[float] | None, factor: Setting[float] | None
) -> dict[str, Setting[object] | None]:
    """Return the parameters of YaRN in a GGUF file: its betas, mscales and attention factor.

    Args:
        model: The file.
        attn_factor: Its `rope.scaling.attn_factor`, if it has one.
        factor: The factor by which the context is extended.
    """
    keys = model.keys
    mscales = _mscales_of_multiplier(model)
    parameters: dict[str, Setting[object] | None] = {
        "beta_fast": keys.number("rope.scaling.yarn_beta_fast"),
        "beta_slow": keys.number("rope.scaling.yarn_beta_slow"),
        "attention_factor": _attention_factor_of_yarn(attn_factor, factor, mscales),
    }
    if mscales is not None:
        parameters |= mscales._asdict()
    return parameters


class _Mscales(NamedTuple):
    """Two numbers of YaRN, which multiplies cos and sin by g(mscale) / g(mscale_all_dim).

    g(m) is 1 + 0.1 · m · ln factor. With mscale 1 and mscale_all_dim 0, as YaRN has them without
    such numbers, the quotient is 1 + 0.1 · ln factor.
    """

    mscale: Setting[float]
    mscale_all_dim: Setting[float]

    def magnitude(self, factor: float) -> float:
        """Return the number that cos and sin are multiplied by, for a factor above 1."""
        logarithm = 0.1 * math.log(factor)
        return (1 + self.mscale.value * logarithm) / (1 + self.mscale_all_dim.value * logarithm)


_USUAL_MSCALES = _Mscales(Setting(1.0, "YaRN"), Setting(0.0, "YaRN"))


def _attention_factor_of_yarn(
    attn_factor: Setting[float] | None, factor: Setting[float] | None, mscales: _Mscales | None
) -> Setting[float] | None:
    """Return the number that cos and sin are multiplied by; None if YaRN's formula gives it.

    YaRN's formula is 1 + 0.1 · ln factor. llama.cpp multiplies it by the key `attn_factor`: 0.5 and
    a factor of 4 make 0.5 · (1 + 0.1 · ln 4) = 0.5693.

    Args:
        attn_factor: The key of the file; None if it is absent, so that YaRN's formula is unchanged.
        factor: The factor by which the context is extended.
        mscales: Two numbers that change the formula; None if the file has none.
    """
    if attn_factor is None:
        return None
    if factor is None or factor.value <= 1:
        return None  # The context is not extended: YaRN changes nothing.
    if mscales is None:
        product = attn_factor.value * _USUAL_MSCALES.magnitude(factor.value)
        return computed(product, "{} · (1 + 0.1 ln factor)", attn_factor)
    product = attn_factor.value * mscales.magnitude(factor.value)
    return computed(product, "{} · YaRN's own by {}", attn_factor, mscales.mscale_all_dim)


def _mscales_of_multiplier(model: Model) -> _Mscales | None:
    """Return the numbers mscale and mscale_all_dim, by which YaRN multiplies cos and sin.

    The multiplier is g(mscale) / g(mscale_all_dim), with g(m) = 1 + 0.1 · m · ln factor. The key
    `yarn_log_multiplier` gives mscale_all_dim; without it, the result is None. llama.cpp's code
    gives mscale.
    """
    log_multiplier = nonzero(model.keys.number("rope.scaling.yarn_log_multiplier"))
    if log_multiplier is None:
        return None
    mscale_all_dim = _mscale_all_dim(model.architecture, log_multiplier.value)
    mscale = 1.0
    if model.architecture == "deepseek2":
        mscale = mscale_all_dim  # Both g are then equal: cos and sin stay as they are.
    return _Mscales(
        mscale=Setting(mscale, f"as llama.cpp has it for {model.architecture}"),
        mscale_all_dim=log_multiplier.with_value(mscale_all_dim),
    )


def _mscale_all_dim(architecture: str, log_multiplier: float) -> float:
    """Return the mscale_all_dim that a `yarn_log_multiplier` stands for.

    It is the same number, except for DeepSeek, whose converters write 0.1 · mscale_all_dim: the
    multiplier 0.0707, which as a float32 is 0.07069999724, stands for 0.707.
    """
    per_unit = 10 if architecture.startswith("deepseek") else 1
    return round(per_unit * log_multiplier, FLOAT32_DIGITS)
