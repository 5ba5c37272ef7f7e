"""What the search of waves asks of schemes: their law, height, offset and layout; and the scheme that a law is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pecli.engine.scalings import SCALINGS, name_of
from pecli.engine.scalings.scaling import Scaling
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.engine.schemes.scheme import Scheme, WaveTable
from pecli.errors import ParameterError
from pecli.explain.edits import Edit, Layout, Parameter, Scaled
from pecli.explain.forms import Form
from pecli.explain.laws import PARAMETERS, Law

COMPACT = Form("alone")
NAMES = {
    "original": "original_max_position_embeddings",
    "longest": "max_position_embeddings",
    "low": "low_freq_factor",
    "high": "high_freq_factor",
}
"""Fields of a law under the names of the scheme's parameters."""


@dataclass(frozen=True)
class WaveScheme:
    """A scheme of waves as the search sees it."""

    scheme: Any
    law: Law
    height: float
    offset: int
    length: int
    cos_first: bool
    form: Form
    one: str = ""
    """The only function, where one tensor alone is looked at."""

    rotary: bool = False


def wave_scheme(scheme: Scheme, names: tuple[str, ...]) -> WaveScheme | None:
    """The scheme as seen by the search, for tensors of these names; None where it has no waves, or its rows do not
    follow each other.
    """
    waves = scheme.wave_table()
    if waves is None or name_of(waves.scaling) not in PARAMETERS:
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
    scaling = waves.scaling
    known: dict[str, Any] = {"scaling": name_of(scaling)}
    for field in PARAMETERS[known["scaling"]]:
        value = waves.rotating if field == "turning" else getattr(scaling, NAMES.get(field, field), None)
        if value is not None:
            known[field] = float(value) if type(value) is int and field != "turning" else value
    if "factor" in PARAMETERS[known["scaling"]] and known.get("original"):
        known.setdefault("factor", float(getattr(scaling, "max_position_embeddings", 0) or 1) / known["original"])
    return Law(max(1, waves.dim // 2), waves.exponent, waves.base, waves.scale, **known)


def neighbours(prior: WaveScheme) -> Iterator[Law]:
    """Laws of known mistakes that no single number makes of the prior's."""
    law = prior.law
    if law.scaling != "none":
        yield replace(law, scaling="none")
        yield replace(law, times=2)
    if law.scaling == "yarn":
        yield replace(law, beta_fast=law.beta_slow, beta_slow=law.beta_fast)
    if law.divisors:
        yield from (replace(law, divisors=other) for other in (law.divisors[::-1], _inverse(law.divisors)))
    for each in map(wave_law, prior.scheme.wave_neighbours()):
        yield replace(each, count=law.count, half=each.half * law.count / each.count)  # where the prior was resized
    for scale in (180 / math.pi, math.pi / 180, 2 * math.pi):
        yield replace(law, scale=law.scale * scale)
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
        edits.append(Parameter(name, *map(_whole, values)))
    if law.scale != prior.scale:
        edits.append(Parameter("scale", prior.scale, law.scale))
    if (law.scaling, law.times) != (prior.scaling, prior.times):
        found = law.scaling if law.times == prior.times else f"{law.scaling}, applied twice"
        edits.append(Parameter("scaling", prior.scaling, found))
    for field in PARAMETERS[law.scaling]:
        ours = getattr(prior, field) if law.scaling == prior.scaling else None
        value = getattr(law, field)
        if value != ours and (ours is not None or value != getattr(Law(1, 1.0), field)):
            if field == "divisors" and ours is not None:
                edits.append(Parameter("divisors", *_which_divisors(expected.scheme, ours, value)))
            else:
                edits.append(Parameter(NAMES.get(field, field), ours, value))
    return tuple(edits)


def _which_divisors(scheme: Scheme, ours: tuple[float, ...], theirs: tuple[float, ...]) -> tuple[str, str]:
    names = {getattr(scheme, "long_factor", None): "long_factor", getattr(scheme, "short_factor", None): "short_factor"}
    changed = {ours[::-1]: "reversed", _inverse(ours): "multiplied"}
    return names.get(ours, "factor"), names.get(theirs) or changed.get(theirs, "other")


def _inverse(divisors: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(1 / each for each in divisors)


def _whole(value: float) -> float | int:
    return round(value) if abs(value - round(value)) < 1e-9 else value


def expected_height(prior: WaveScheme | None, law: Law) -> float:
    """What the values are multiplied by where a law stands for the prior's."""
    by_rule = yarn_height(law.factor) if law.scaling == "yarn" else 1.0
    if prior is None:
        return by_rule
    scheme = prior.scheme
    same = law.scaling == prior.law.scaling
    if not prior.rotary or (same and (scheme.attention_factor is not None or law.scaling != "yarn")):
        return prior.height
    try:
        return replace(scheme, factor=law.factor).attention_factor_value() if same else by_rule
    except ParameterError:
        return prior.height


def yarn_height(factor: float) -> float:
    """YaRN's attention factor, by its rule."""
    return 0.1 * math.log(factor) + 1 if factor > 1 else 1.0


def height_edit(prior: WaveScheme, usual: float, found: float) -> Edit:
    """Values multiplied by something else than they should be."""
    name, expected, value = prior.scheme.wave_edit("amplitude", usual, found)
    return Parameter(name, expected, value) if name else Scaled(found / usual)


def layout_edit(prior: WaveScheme, found: Form) -> tuple[Edit, ...]:
    """Another layout, if it is one: axes and copies aside, and one function alone, or each column once, of rotary
    tables, which any check accepts.
    """
    expected = prior.form
    arrangements, doublings = {expected.arrangement}, {expected.doubled}
    if prior.rotary:
        arrangements, doublings = arrangements | {"alone"}, doublings | {""}
    if found.arrangement in arrangements and found.doubled in doublings:
        return ()
    return (Layout(expected.name, found.name),)


def scheme_of(
    law: Law,
    offset: int,
    length: int,
    height: float,
    form: Form = COMPACT,
    rotary: bool = True,
    cos_first: bool = True,
    **more: Any,
) -> Scheme | None:
    """The scheme with that law; None where there is none. Of rotary ones, cosines and sines are separate tensors."""
    rotary = rotary or law.scaling != "none"
    scaling = _scaling(law, height)
    if law.times != 1 or scaling is None:
        return None
    dim = int(more.pop("dim", 2 * law.count + (form.padded and not rotary)))
    layout = (form.doubled or "compact") if rotary else form.arrangement
    rotating = law.turning if law.scaling == "proportional" else law.count
    waves = WaveTable(
        dim,
        law.half,
        law.base,
        law.scale,
        scaling,
        rotating,
        height,
        offset,
        length,
        layout,
        cos_first or rotary,
        rotary,
    )
    found = (scheme_named(name).from_waves(waves, **more) for name in SCHEMES)
    return next((scheme for scheme in found if scheme is not None), None)


def _scaling(law: Law, height: float) -> Scaling | None:
    """The scaling of a law, with the values that are not its defaults; None where one is missing."""
    kind, usual = SCALINGS[law.scaling], Law(1, 1.0)
    given: dict[str, Any] = {}
    for field in PARAMETERS[law.scaling]:
        name, value = NAMES.get(field, field), getattr(law, field)
        if name in kind.required() or (name in kind.optional() and value != getattr(usual, field) and name != "length"):
            given[name] = int(value) if name.endswith("embeddings") else value
    if law.scaling == "yarn":
        given.setdefault("factor", law.factor)
    if law.scaling == "longrope":
        given |= {"short_factor": law.divisors, "long_factor": law.divisors, "attention_factor": height}
        given.setdefault("original_max_position_embeddings", 4096)
    return kind(**given) if given.keys() >= {*kind.required()} else None
