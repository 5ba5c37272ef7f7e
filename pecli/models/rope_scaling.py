"""The rope type of a layer, and the parameters of its scaling."""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from pecli.engine.named_values import without_none
from pecli.engine.runtimes.runtime import StatedLengths
from pecli.engine.scalings import SCALINGS, yarn
from pecli.errors import FileError
from pecli.models.key_names import LENGTH, LENGTHS, ORIGINAL
from pecli.models.keys import Keys, Setting, computed, contradictions, derived, nonzero, value_of
from pecli.models.layer_types import Layer

#: pecli's scaling by the names that rope types have in configurations.
KINDS = {
    **{name: name for name in SCALINGS},
    "default": "none",
    # Sections and axes change positions, not frequencies.
    "mrope": "none",
    "axial": "none",
    # MLC's configurations of GPT-J name its pairs so.
    "gptj": "none",
    "xdrope": "dynamic",
    "su": "longrope",
    "deepseek_yarn": "yarn",
    "telechat3-yarn": "yarn",
}
#: Parameters that a scaling has if a file leaves them out: betas of YaRN.
DEFAULTS: dict[object, dict[str, float]] = {"yarn": yarn.DEFAULTS}
#: The number that multiplies ln(factor) in the attention factor of a rope type, if it is not YaRN's
#: 0.1.
MAGNITUDES = {"telechat3-yarn": 0.07}
MEANINGS_OF_NTK = (
    "base b·f^(d/(d−2)), as read here, "
    "or (b·f)^(−2i/d) / f^(2/d), as in vLLM and GTE, which is --scaling ntk-fixed"
)


@dataclass(frozen=True)
class RopeType:
    """The rope type that a configuration names, and pecli's scaling for it."""

    given: Setting[str]
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.given.value

    @property
    def scaling(self) -> str:
        return KINDS[self.name]


class ScalingSettings(NamedTuple):
    """The scaling of a layer.

    Attributes:
        kind: pecli's name of it.
        settings: The parameters of the rotary scheme, `scaling` included.
        warnings: What the configuration leaves open.
        lacks_original_length: The original context length is not given; the model's context length
            stands in.
        stated_lengths: The original context lengths that the configuration gives, by their places;
            None if the scaling has none.
        ignored_alpha: An `alpha` that the model's own code does not read.
    """

    kind: str
    settings: dict[str, Setting[object]]
    warnings: list[str]
    lacks_original_length: bool = False
    stated_lengths: StatedLengths | None = None
    ignored_alpha: object = None


def rope_type_of(layer: Layer) -> RopeType:
    """Return the type of scaling that a layer's rotary settings name, such as «yarn».

    Some families mean another type by a name: «yarn» is longrope in Phi-3.

    Raises:
        FileError: The type is not known.
    """
    stated = layer.settings.word("rope_type", "type")
    if stated is None:
        return RopeType(Setting("default", "default: no scaling is asked for"))
    name = stated.with_value(stated.value.lower())
    warnings = _warnings_about_type(layer, name)
    renamed = layer.family.renamed
    means_another_type = renamed.before != "" and name.value == renamed.before
    if means_another_type:
        meaning = f"{renamed.before} means {renamed.after} in {layer.family.name}"
        return RopeType(name.implying(renamed.after, f"{name.source} ({meaning})"), warnings)
    if name.value not in KINDS:
        problem = f"{name.source} is {stated.value[:40]!r}"
        raise FileError(layer.settings.path, problem, f"known are {', '.join(KINDS)}")
    return RopeType(name, warnings)


def _warnings_about_type(layer: Layer, rope_type: Setting[str]) -> tuple[str, ...]:
    """Return warnings that programs may read the name of a scaling, such as «yarn», differently.

    Args:
        layer: The layer type, with its family of models and its rotary settings.
        rope_type: The name of the scaling, with the key that states it.
    """
    family = layer.family
    statement = f"{rope_type.source} is {rope_type.value}"
    warnings = []
    is_under_old_key = "rope_type" not in layer.settings  # The old key is `type`.
    # For families such as Gemma 3, with settings by layer type, transformers 5 ignores the old key.
    if is_under_old_key and family.has_settings_by_layer_type:
        consequence = f"transformers 5 reads rope_type alone in {family.name}"
        warnings.append(f"{statement}: {consequence}, and would leave it unscaled")
    # Elsewhere «ntk» has two meanings. A family that renames it, such as GTE, defines its meaning.
    family_defines_ntk = family.renamed.before == "ntk"
    if rope_type.value == "ntk" and not family_defines_ntk:
        warnings.append(f"{statement}, which has two meanings: {MEANINGS_OF_NTK}")
    return tuple(warnings)


def scaling_of(layer: Layer, rope_type: RopeType) -> ScalingSettings:
    """Return the scaling of a layer (YaRN, dynamic NTK, …) with all its parameters.

    The parameters are those of `rope_scaling` in the file, and defaults of the scaling.
    """
    # An `alpha` of a Hunyuan model makes the scaling NTK by a constant factor. Its other parameters
    # then do not count.
    alpha = _alpha_of_constant_ntk(layer, rope_type)
    if alpha is not None:
        return _ntk_by_alpha(layer.settings, alpha, rope_type)
    scaling = rope_type.scaling
    stated = _stated_parameters(layer, scaling)
    name_of_scaling = rope_type.given.with_value(scaling)
    stated_settings = {"scaling": name_of_scaling, **stated.parameters}
    # TeleChat 3 has 1 + 0.07 · ln(factor) as its attention factor. None stands for YaRN's 0.1.
    magnitude = MAGNITUDES.get(rope_type.name)
    return ScalingSettings(
        kind=scaling,
        settings=_with_defaults(stated_settings, magnitude),
        warnings=stated.warnings,
        lacks_original_length=stated.lacks_original_length,
        stated_lengths=stated.stated_lengths,
        ignored_alpha=_unread_alpha(layer, rope_type),
    )


def _alpha_of_constant_ntk(layer: Layer, rope_type: RopeType) -> Setting[float] | None:
    """Return the `alpha` of a dynamic scaling, which makes it NTK with a constant factor.

    Hunyuan's code reads it, and perhaps that of an unknown family.
    """
    if rope_type.scaling != "dynamic" or not layer.family.reads_alpha:
        return None
    return nonzero(layer.settings.number("alpha"))


def _unread_alpha(layer: Layer, rope_type: RopeType) -> object:
    """Return the `alpha` of a dynamic scaling that the model's own code has not read."""
    return layer.settings.data.get("alpha") if rope_type.scaling == "dynamic" else None


def _ntk_by_alpha(settings: Keys, alpha: Setting[float], rope_type: RopeType) -> ScalingSettings:
    """Return NTK scaling by alpha: Hunyuan has 1000, which multiplies the base by 1000^(d / (d − 2))."""
    # Hunyuan's files have these keys of YaRN as well, which its code does not read.
    settings.mark_as_read("factor", "mscale", "mscale_all_dim", "beta_fast", "beta_slow")
    scaling = computed("ntk", "{} with alpha", rope_type.given)
    return ScalingSettings(
        kind=rope_type.scaling, settings={"scaling": scaling, "factor": alpha}, warnings=[]
    )


class _StatedParameters(NamedTuple):
    """The parameters of a scaling that a configuration gives, and what it leaves open."""

    parameters: dict[str, Setting[object]]
    warnings: list[str]
    lacks_original_length: bool
    stated_lengths: StatedLengths | None


def _stated_parameters(layer: Layer, scaling: str) -> _StatedParameters:
    """Return the parameters of a scaling that the keys of a layer type state, without defaults.

    Of YaRN's parameters, many files state two: `{"factor": 4, "original_max_position_embeddings":
    32768}`.

    Args:
        layer: The layer type, with its rotary settings.
        scaling: The name of the scaling, which has its own set of parameters.
    """
    names = SCALINGS[scaling].names()
    # The length of the context that the model was trained on, before the scaling extended it.
    trained_context = NO_ORIGINAL_CONTEXT
    if ORIGINAL in names:
        trained_context = _original_context(layer)
    parameters: dict[str, Setting[object] | None] = {}
    for name in names:
        if name == ORIGINAL:
            # If no key states it, the model's whole context stands in, with a warning.
            parameters[name] = trained_context.length
        else:
            parameters[name] = _scaling_parameter(layer, name)
    return _StatedParameters(
        parameters=_without_unused_context(without_none(parameters), scaling),
        warnings=[*trained_context.warnings, *_unused_values(layer.settings, scaling)],
        lacks_original_length=trained_context.is_substitute,
        stated_lengths=trained_context.stated_lengths,
    )


def _without_unused_context(
    parameters: dict[str, Setting[object]], scaling: str
) -> dict[str, Setting[object]]:
    """Return parameters without the model's context, `max_position_embeddings`, unless it counts.

    Dynamic scaling always needs it. YaRN and longrope only need it if there is no factor, which is
    then the context over the original one: 131072 / 32768 is 4.
    """
    needs_context = scaling == "dynamic" or "factor" not in parameters
    if needs_context:
        return parameters
    without_context = dict(parameters)
    without_context.pop(LENGTH, None)
    return without_context


def _unused_values(settings: Keys, scaling: str) -> list[str]:
    """Return a warning about numbers of a scaling beside a type that scales nothing."""
    scales = settings.has_any("factor", "short_factor", "low_freq_factor", "beta_fast")
    if scaling != "none" or not scales:
        return []
    return [f"{settings.prefix}rope_type is default, so the scaling values beside it are not used"]


def _scaling_parameter(layer: Layer, name: str) -> Setting[object] | None:
    """Return a parameter of a scaling from the rotary settings, or from the top of config.json.

    `length`, the length of a table, is a parameter that no configuration has.
    """
    if name == "length":
        return None
    if name == LENGTH:
        return layer.keys.whole_number(*LENGTHS)
    read = READERS.get(name, Keys.number)  # Most parameters are numbers.
    return read(layer.settings, name)


Reader = Callable[[Keys, str], Setting[object] | None]
READERS: dict[str, Reader] = {
    "short_factor": Keys.numbers,
    "long_factor": Keys.numbers,
    "truncate": Keys.flag,
}
"""How parameters are read that are not a number."""


class _OriginalContext(NamedTuple):
    """The context length before scaling; a substitute if the configuration does not give it."""

    length: Setting[int] | None
    warnings: tuple[str, ...] = ()
    is_substitute: bool = False
    stated_lengths: StatedLengths | None = None


NO_ORIGINAL_CONTEXT = _OriginalContext(None)


def _original_context(layer: Layer) -> _OriginalContext:
    """Return the context length that a model was trained on, before a scaling extended it.

    `original_max_position_embeddings` of Llama 3.1 is 8192. If the key is missing, the context
    length of the model stands in.
    """
    stated = _stated_original_context(layer)
    # Keys that nothing reads are reported. The model's context is read even if it is not needed, so
    # that it is never reported.
    model_context = layer.keys.whole_number(*LENGTHS)
    if stated.length is not None:
        return stated
    if model_context is None:
        return NO_ORIGINAL_CONTEXT
    source = f"{model_context.source} ({ORIGINAL} is missing)"
    return _OriginalContext(
        length=replace(model_context, source=source),
        warnings=_warnings_of_substitute(layer, model_context),
        is_substitute=True,
        stated_lengths=stated.stated_lengths,
    )


def _stated_original_context(layer: Layer) -> _OriginalContext:
    """Return the `original_max_position_embeddings` of a file, with a warning if two keys differ.

    It stands in the rotary settings or at the top of config.json. As in transformers, the top takes
    precedence, except over settings of this layer type only.
    """
    in_settings = layer.settings.whole_number(ORIGINAL)
    at_top = layer.keys.whole_number(ORIGINAL)
    has_settings_by_type = layer.name != ""
    by_precedence = (in_settings, at_top) if has_settings_by_type else (at_top, in_settings)
    first, second = by_precedence
    warnings = tuple(contradictions(first, second))
    stated = StatedLengths(value_of(in_settings), value_of(at_top))
    return _OriginalContext(first or second, warnings, stated_lengths=stated)


def _warnings_of_substitute(layer: Layer, length: Setting[int]) -> tuple[str, ...]:
    """Return a warning that a length stands in; none for Phi-3, which is documented to leave it out."""
    is_phi_3 = layer.family.renamed.before == "yarn"
    if is_phi_3:
        return ()
    missing = f"{layer.settings.prefix}{ORIGINAL} is missing"
    return (f"{missing}: {length.source} is used instead, as in transformers",)


def _with_defaults(
    given: Mapping[str, Setting[object]], magnitude: float | None
) -> dict[str, Setting[object]]:
    """Return the parameters of a scaling, with defaults for the ones that are not given.

    YaRN has betas of 32 and 1 by default. A factor, and an attention factor, may follow from other
    parameters.

    Args:
        given: The parameters that the configuration gives, `scaling` included.
        magnitude: The number that multiplies ln(factor) in the attention factor; None for YaRN's
            usual 0.1, which the scheme computes itself.
    """
    default_numbers = DEFAULTS.get(given["scaling"].value, {})
    parameters: dict[str, Setting[object]] = dict(given)
    for name, number in default_numbers.items():
        parameters.setdefault(name, Setting(number, "default"))
    if "attention_factor" not in given:
        parameters |= _implied_factors(given, magnitude)
    return parameters


def _implied_factors(
    given: Mapping[str, Setting[object]], magnitude: float | None
) -> dict[str, Setting[object]]:
    """Return the factor and the attention factor of a scaling, if they follow from other parameters.

    The ratio of the two contexts is the factor: 131072 / 32768 is 4. The attention factor, which
    multiplies cos and sin, is 1 + magnitude · ln(factor).

    Args:
        given: The parameters that the configuration gives.
        magnitude: The number that multiplies ln(factor) in the attention factor; None for YaRN's.
    """
    implied: dict[str, Setting[object]] = {}
    factor = given.get("factor")
    ratio = _ratio_of_lengths(given)
    if ratio is not None:
        factor = ratio
    if ratio is not None and ratio.value.is_integer():
        # A ratio such as 100000 / 30000 is a rounded number. It is left out, and the scheme computes
        # it exactly from the two lengths.
        implied["factor"] = ratio
    if magnitude is not None and factor is not None:
        attention_factor = _attention_of_magnitude(magnitude, factor, given["scaling"])
        implied["attention_factor"] = attention_factor
    return implied


def _attention_of_magnitude(
    magnitude: float, factor: Setting[object], scaling: Setting[object]
) -> Setting[float]:
    """Return the attention factor 1 + magnitude · ln(factor), which is 1 if nothing is stretched.

    The scaling is what makes it count, and therefore its source.
    """
    stretch = max(_number(factor), 1.0)
    attention = 1 + magnitude * math.log(stretch)
    formula = f"1 + {magnitude:g} · ln factor, as {scaling.source} has it"
    return scaling.implying(attention, formula)


def _ratio_of_lengths(given: Mapping[str, Setting[object]]) -> Setting[float] | None:
    """Return the context over the original context: 4 for 131072 and 32768; None without both."""
    return derived(operator.truediv, "{} / {}", given.get(LENGTH), given.get(ORIGINAL))


def _number(setting: Setting[object]) -> float:
    """Return the value of a setting whose key was read as a number."""
    assert isinstance(setting.value, (int, float))
    return setting.value
