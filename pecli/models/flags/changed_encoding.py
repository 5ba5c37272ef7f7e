"""Encodings whose parameters flags have replaced."""

from dataclasses import replace
from typing import Any, TypeVar

from pecli.engine.named_values import MutableValues
from pecli.errors import ParameterError
from pecli.models.encoding import Encoding
from pecli.models.key_names import ORIGINAL, PARTIAL
from pecli.models.keys import Setting, origins_of, values_of

Parameters = dict[str, Setting[Any]]
"""Parameters of a rotary scheme by name; an empty source means the model's own value."""

T = TypeVar("T")


def model_value(value: T) -> Setting[T]:
    """Return the model's own value of a parameter: it has no source, since no flag states it."""
    return Setting(value, source="")


#: Parameters that have nothing to do with a scaling.
UNSCALED = ("dim", "base", PARTIAL)


def unscaled_parameters(encoding: Encoding) -> MutableValues:
    """Return the parameters that have nothing to do with a scaling."""
    return {name: value for name, value in encoding.parameters.items() if name in UNSCALED}


def with_parameters(encoding: Encoding, parameters: Parameters) -> Encoding:
    """Return an encoding with the parameters that flags set, and the flags as their sources.

    A new base leaves all else as it is. A new scaling replaces the old one entirely: no beta of YaRN
    is left beside a linear scaling.
    """
    if "scaling" in parameters:
        return _with_other_scaling(encoding, parameters)
    return replace(
        encoding,
        parameters={**encoding.parameters, **values_of(parameters)},
        origins={**encoding.origins, **origins_of(parameters)},
    )


def _with_other_scaling(encoding: Encoding, parameters: Parameters) -> Encoding:
    """Return an encoding with the scaling and other parameters that flags set."""
    values = {**unscaled_parameters(encoding), **values_of(parameters)}
    # Parameters that are gone have no source; other facts, such as the layout, keep theirs.
    removed = {*encoding.parameters, "mscales"} - values.keys()
    kept_origins = {
        name: origin for name, origin in encoding.origins.items() if name not in removed
    }
    return replace(
        encoding,
        parameters=values,
        origins={**kept_origins, **origins_of(parameters)},
        # These are facts about the old scaling: YaRN's original length and longrope's mscales.
        lacks_original_length=False,
        stated_lengths=None,
        mscales=None,
    )


def divisors_of_scaling(encoding: Encoding, length: int | None = None) -> tuple[float, ...]:
    """Return the number by which an encoding's scaling divides each frequency, at a context length.

    Raises:
        ParameterError: The scaling is Gemma 4's, of which some pairs have no frequency.
    """
    if encoding.parameters["scaling"] == "proportional":
        rule = "its proportional frequencies, of which a part rotates, take no other scaling"
        raise ParameterError("flags", f"given for {encoding.layer_type or 'the model'}", rule)
    plain = replace(encoding, parameters={**unscaled_parameters(encoding), "scaling": "none"})
    unscaled = plain.frequency_rope().frequencies().floats()
    scaled = encoding.frequency_rope(length).frequencies().floats()
    return tuple(before / after for before, after in zip(unscaled, scaled, strict=True))


def divisor_parameters(
    divisors: Setting[tuple[float, ...]], attention: Setting[float], original: int | None
) -> Parameters:
    """Return a scaling that divides each frequency by a number of its own, written as longrope.

    It stands for effects that no other scaling of config.json expresses, such as a scaling on top
    of another one. Both lists of longrope are the same, so that the context does not matter.

    Args:
        divisors: A divisor per frequency.
        attention: The number that cos and sin are multiplied by.
        original: The trained context, if it is known; longrope must have one.
    """
    return {
        "scaling": divisors.with_value("longrope"),
        ORIGINAL: model_value(original or 1),
        "short_factor": divisors,
        "long_factor": divisors,
        "attention_factor": attention,
    }
