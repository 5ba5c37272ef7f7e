"""What the search of waves asks of schemes: their law, amplitude, offset and layout; and the scheme that a law is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pecli.engine.scalings import name_of
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.engine.schemes.scheme import Scheme, WaveTable
from pecli.explain.edits import Edit, Parameter
from pecli.explain.forms import Form
from pecli.explain.frequency_laws import NO_SCALING, Law

COMPACT = Form("alone")
ATTENTION_BITS = 64
SCALES = (180 / math.pi, math.pi / 180, 2 * math.pi)
"""Of positions: degrees for radians, the other way round, and turns."""


@dataclass(frozen=True)
class WaveScheme:
    """A scheme of waves as the search sees it."""

    scheme: Any
    law: Law
    amplitude: float
    offset: int
    length: int
    cos_first: bool
    form: Form
    one: str = ""  # the only function, where one tensor alone is looked at
    rotary: bool = False


def wave_scheme(scheme: Scheme, names: tuple[str, ...]) -> WaveScheme | None:
    """The scheme as seen by the search, for tensors of these names; None where it has no waves, or its rows do not
    follow each other.
    """
    waves = scheme.wave_table()
    if waves is None:
        return None
    form, one = Form(waves.layout, padded=waves.layout == "halves" and waves.dim % 2 == 1), ""
    if waves.separate:
        alone = len(names) == 2 or names[0] in ("cos", "sin")
        form = Form("alone" if alone else "stacked", "" if waves.layout == "compact" else waves.layout)
        one = names[0] if len(names) == 1 and alone else ""
    law, rotary = wave_law(waves), scheme.applied_as == "rotation"
    return WaveScheme(scheme, law, waves.amplitude, waves.offset, waves.length, waves.cos_first, form, one, rotary)


def wave_law(waves: WaveTable) -> Law:
    """The law of the frequencies of some waves."""
    pairs = max(1, waves.dim // 2)
    rotating = waves.rotating if waves.rotating < pairs else None
    return Law(pairs, waves.exponent, waves.base, waves.scale, waves.scaling.complete(), rotating=rotating)


def neighbours(prior: WaveScheme) -> Iterator[Law]:
    """Laws of known mistakes that no single number makes of the prior's."""
    law = prior.law
    if law.scaling != NO_SCALING:
        yield replace(law, scaling=NO_SCALING, rotating=None)
        yield replace(law, times=2)
    for each in map(wave_law, prior.scheme.wave_neighbours()):
        yield replace(each, count=law.count, half=each.half * law.count / each.count)  # where the prior was resized
    yield from (replace(law, scale=law.scale * scale) for scale in SCALES)
    if law.scale != 1:
        yield replace(law, scale=1.0)


def law_edits(expected: WaveScheme, law: Law) -> tuple[Edit, ...]:
    """The difference of two laws, parameter by parameter."""
    prior, edits = expected.law, []
    if law.count != prior.count:
        edits.append(Parameter("dim", expected.scheme.wave_table().dim, 2 * law.count))
        prior = replace(prior, count=law.count, half=prior.half * law.count / prior.count)
    if law.base != prior.base:
        edits.append(Parameter("base", prior.base, law.base))
    if law.half != prior.half:
        name, *values = expected.scheme.wave_edit("exponent", prior.half, law.half)
        edits.append(Parameter(name, *(round(each) if abs(each - round(each)) < 1e-9 else each for each in values)))
    if law.scale != prior.scale:
        edits.append(Parameter("scale", prior.scale, law.scale))
    kind, other = name_of(prior.scaling), name_of(law.scaling)
    if (other, law.times) != (kind, prior.times):
        edits.append(Parameter("scaling", kind, other if law.times == prior.times else f"{other}, applied twice"))
    brief = law.scaling.brief()
    for name in law.scaling.frequency_parameters():
        ours = getattr(prior.scaling, name) if kind == other else None
        value = getattr(law.scaling if kind == other else brief, name)
        if value != ours and name == "divisors" and ours is not None:
            ours, value = _which_divisors(expected.scheme, ours, value)
        if value != ours:
            edits.append(Parameter(name, ours, value))
    if law.rotating != prior.rotating and kind == other:
        edits.append(Parameter("rotating_pairs", *(each.rotating or each.count for each in (prior, law))))
    return tuple(edits)


def _which_divisors(scheme: Scheme, ours: tuple[float, ...], theirs: tuple[float, ...]) -> tuple[str, str]:
    names = {getattr(scheme, "long_factor", None): "long_factor", getattr(scheme, "short_factor", None): "short_factor"}
    changed = {ours[::-1]: "reversed", tuple(1 / each for each in ours): "multiplied"}
    return names.get(ours, "factor"), names.get(theirs) or changed.get(theirs, "other")


def expected_amplitude(prior: WaveScheme | None, law: Law) -> float:
    """What the values are multiplied by where a law stands for the prior's."""
    if prior is not None and not prior.rotary:
        return prior.amplitude
    return float(law.scaling.attention(ATTENTION_BITS) / 2**ATTENTION_BITS)


def scheme_of(
    law: Law,
    offset: int,
    length: int,
    amplitude: float,
    form: Form = COMPACT,
    rotary: bool = True,
    cos_first: bool = True,
    **more: Any,
) -> Scheme | None:
    """The scheme with that law; None where there is none. Of rotary ones, cosines and sines are separate tensors."""
    rotary = rotary or law.scaling != NO_SCALING
    if law.times != 1:
        return None
    scaling = law.scaling.brief()
    lengths = [name for name in vars(scaling) if name.endswith("embeddings") and getattr(scaling, name) is not None]
    scaling = replace(scaling, **{name: int(getattr(scaling, name)) for name in lengths})
    dim = int(more.pop("dim", 2 * law.count + (form.padded and not rotary)))
    layout = (form.doubled or "compact") if rotary else form.arrangement
    rotating = law.count if law.rotating is None else law.rotating
    place = (amplitude, offset, length, layout, cos_first or rotary, rotary)
    waves = WaveTable(dim, law.half, law.base, law.scale, scaling, rotating, *place)
    found = (scheme_named(name).from_waves(waves, **more) for name in SCHEMES)
    return next((scheme for scheme in found if scheme is not None), None)
