"""What the search of waves asks of schemes: their law, height, offset and layout; and the scheme that a law is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pecli.engine.arrays import Floats, Indices
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError
from pecli.explain.edits import Edit, Layout, Parameter, Scaled
from pecli.explain.forms import Form
from pecli.explain.laws import PARAMETERS, Law
from pecli.explain.sample import digits, plainest

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
    seen = _SEEN.get(scheme.name) if getattr(scheme, "is_range", True) else None
    return seen(scheme, names) if seen is not None else None


def _sinusoidal(scheme: Any, names: tuple[str, ...]) -> WaveScheme:
    waves = len(scheme.inverse_frequencies())
    half = (scheme.dim // 2 if scheme.layout == "halves" else scheme.dim / 2) - scheme.freq_shift
    law = Law(max(1, scheme.dim // 2), half if waves > 1 else 1.0, scheme.base, scheme.scale)
    form = Form(scheme.layout, padded=scheme.layout == "halves" and scheme.dim % 2 == 1)
    return WaveScheme(scheme, law, scheme.amplitude, scheme.offset, scheme.seq_len, scheme.cos_first, form)


def _rotary(scheme: Any, names: tuple[str, ...]) -> WaveScheme:
    doubled = "" if scheme.layout == "compact" else scheme.layout
    alone = len(names) == 2 or names[0] in ("cos", "sin")
    form = Form("alone" if alone else "stacked", doubled)
    one = names[0] if len(names) == 1 and alone else ""
    return WaveScheme(
        scheme, rope_law(scheme), scheme.attention_factor_value(), scheme.offset, scheme.seq_len, True, form, one, True
    )


_SEEN = {"sinusoidal": _sinusoidal, "rope": _rotary}
"""How the search sees schemes of waves, by name."""


def rope_law(rope: Rope) -> Law:
    """The law of a rotary scheme's frequencies."""
    known: dict[str, Any] = {"scaling": rope.scaling}
    if rope.scaling == "yarn" and rope.factor is None:
        known["factor"] = (rope.max_position_embeddings or 1) / (rope.original_max_position_embeddings or 1)
    if rope.scaling == "longrope":
        long = rope.effective_length > (rope.original_max_position_embeddings or 0)
        known["divisors"] = rope.long_factor if long else rope.short_factor
    if rope.scaling == "dynamic":
        known["length"] = float(rope.effective_length)
    if rope.scaling == "proportional":
        known["turning"] = rope.rotating_pairs
    for field in PARAMETERS[rope.scaling]:
        value = getattr(rope, NAMES.get(field, field), None)
        if value is not None and field not in known:
            known[field] = value if isinstance(value, bool) else float(value)
    return Law(rope.rotary_dim // 2, rope.exponent_dim / 2, rope.base, **known)


def neighbours(prior: WaveScheme) -> Iterator[Law]:
    """Laws of known mistakes that no single number makes of the prior's."""
    law, scheme = prior.law, prior.scheme
    if law.scaling != "none":
        yield replace(law, scaling="none")
        yield replace(law, times=2)
    if law.scaling == "yarn":
        yield replace(law, truncate=not law.truncate)
    if prior.rotary and scheme.scaling == "longrope":
        for divisors in (scheme.short_factor, scheme.long_factor):
            if divisors != law.divisors:
                yield replace(law, divisors=divisors or ())
    if not prior.rotary:
        shift = scheme.freq_shift
        yield from (replace(law, half=law.half + shift - other) for other in (0.0, 1.0) if other != shift)
    if prior.rotary and law.half > 1:
        yield replace(law, half=law.half - 1)
    for times in (2, 4, 0.5):
        if prior.rotary and law.half * times >= 1:
            yield replace(law, half=law.half * times)
    if prior.rotary and scheme.partial_rotary_factor is not None:
        yield replace(law, half=scheme.dim / 2)
    for scale in (180 / math.pi, math.pi / 180, 2 * math.pi):
        yield replace(law, scale=law.scale * scale)
    if law.scale != 1:
        yield replace(law, scale=1.0)


def law_edits(expected: WaveScheme, law: Law) -> tuple[Edit, ...]:
    """The difference of two laws, parameter by parameter."""
    prior, edits = expected.law, []
    if law.count != prior.count:
        edits.append(Parameter("dim", *_dims(expected, law.count)))
        prior = replace(prior, count=law.count, half=prior.half * law.count / prior.count)
    if law.base != prior.base:
        edits.append(Parameter("base", prior.base, law.base))
    if law.half != prior.half:
        edits.append(_exponent(expected, prior.half, law.half))
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


def _dims(expected: WaveScheme, count: int) -> tuple[int, int]:
    if expected.rotary:
        return expected.scheme.rotary_dim, 2 * count
    return int(getattr(expected.scheme, "dim", 2 * expected.law.count)), 2 * count


def _exponent(expected: WaveScheme, ours: float, theirs: float) -> Parameter:
    shift = getattr(expected.scheme, "freq_shift", None)
    if shift is not None and theirs in (ours + shift, ours + shift - 1, ours + shift - 0.5):
        return Parameter("freq_shift", shift, ours + shift - theirs)
    return Parameter("exponent_dim", _whole(2 * ours), _whole(2 * theirs))


def _which_divisors(scheme: Scheme, ours: tuple[float, ...], theirs: tuple[float, ...]) -> tuple[str, str]:
    names = {getattr(scheme, "long_factor", None): "long_factor", getattr(scheme, "short_factor", None): "short_factor"}
    return names.get(ours, "other"), names.get(theirs, "other")


def _whole(value: float) -> float | int:
    return round(value) if abs(value - round(value)) < 1e-9 else value


def expected_height(prior: WaveScheme | None, law: Law) -> float:
    """What the values are multiplied by where a law stands for the prior's."""
    if prior is None or not prior.rotary:
        return 1.0 if prior is None else prior.height
    scheme = prior.scheme
    if law.scaling == prior.law.scaling and (scheme.attention_factor is not None or scheme.scaling != "yarn"):
        return prior.height
    if law.scaling != "yarn":
        return 1.0
    if law.factor == prior.law.factor:
        return prior.height
    try:
        return (
            replace(scheme, factor=law.factor).attention_factor_value()
            if scheme.scaling == "yarn"
            else yarn_height(law.factor)
        )
    except ParameterError:
        return prior.height


def yarn_height(factor: float) -> float:
    """YaRN's attention factor, by its rule."""
    return 0.1 * math.log(factor) + 1 if factor > 1 else 1.0


def height_edit(prior: WaveScheme, usual: float, found: float) -> Edit:
    """Values multiplied by something else than they should be."""
    if not prior.rotary:
        return Parameter("amplitude", usual, found)
    if getattr(prior.scheme, "scaling", "none") in ("yarn", "longrope"):
        return Parameter("attention_factor", usual, found)
    return Scaled(found / usual)


def written_height(measured: float, error: float, usual: float) -> float:
    """An amplitude as somebody wrote it: as usual, 1, twice applied, or a plain number."""
    for known in (usual, 1.0, usual**2, math.sqrt(usual)):
        if abs(measured - known) <= error:
            return known
    times = plainest(measured / usual, error / usual)
    value = plainest(measured, error)
    return usual * times if digits(times) < digits(value) else value


def layout_edit(expected: Form, found: Form) -> tuple[Edit, ...]:
    """Another layout, if it is one: axes and copies aside."""
    if (expected.arrangement, expected.doubled) == (found.arrangement, found.doubled):
        return ()
    return (Layout(expected.name, found.name),)


def found_scheme(
    prior: WaveScheme | None,
    law: Law,
    offset: int,
    length: int,
    height: float,
    form: Form,
    *,
    cos_first: bool,
    more: Mapping[str, Any],
) -> Scheme | None:
    """The scheme with that law; None where no scheme has it."""
    try:
        if prior is None or not prior.rotary:
            dim = int(more.get("dim", 2 * law.count + form.padded))
            shift = dim // 2 - law.half if form.arrangement == "halves" else dim / 2 - law.half
            if prior is None or law.scaling == "none":
                return Sinusoidal(
                    length, int(more.get("dim", dim)), base=law.base, layout=form.arrangement, cos_first=cos_first,
                    freq_shift=shift, offset=offset, scale=law.scale, amplitude=height,
                    **{key: value for key, value in more.items() if key != "dim"},
                )  # fmt: skip
        return rope_of(law, offset, length, height, form.doubled or "compact", **more)
    except ParameterError:
        return None


def rope_of(law: Law, offset: int, length: int, height: float, layout: str, **more: Any) -> Rope | None:
    """The rotary scheme with that law; None where there is none."""
    try:
        return _rope_of(law, offset, length, height, layout, **more)
    except ParameterError:
        return None


def _rope_of(law: Law, offset: int, length: int, height: float, layout: str, **more: Any) -> Rope | None:
    given: dict[str, Any] = {"scaling": law.scaling, **more}
    if law.times != 1 or law.half != law.count or law.scale != 1:
        return None
    for field in PARAMETERS[law.scaling]:
        value = getattr(law, field)
        if field in ("turning", "divisors", "length") or value == getattr(Law(1, 1.0), field):
            continue
        name = NAMES.get(field, field)
        given[name] = int(value) if name.endswith("embeddings") else value
    if law.scaling in ("linear", "ntk", "yarn", "llama3", "dynamic"):
        given.setdefault("factor", law.factor)
    if law.scaling == "llama3":
        given |= {"low_freq_factor": law.low, "high_freq_factor": law.high}
    if law.scaling == "proportional":
        share = plainest(law.turning / law.count, 0.0)
        given["partial_rotary_factor"] = (
            share if int(2 * law.count * share // 2) == law.turning else math.nextafter(share, 2.0)
        )
    usual = yarn_height(law.factor) if law.scaling == "yarn" else 1.0
    if law.scaling == "longrope":
        given |= {"short_factor": law.divisors, "long_factor": law.divisors, "attention_factor": height}
        given.setdefault("original_max_position_embeddings", 4096)
    elif law.scaling == "yarn" and not math.isclose(height, usual, rel_tol=1e-9):
        given["attention_factor"] = height
    elif height != usual and law.scaling == "none":  # the only scaling that leaves frequencies alone and has a factor
        ones = (1.0,) * law.count
        given |= {"scaling": "longrope", "short_factor": ones, "long_factor": ones, "attention_factor": height}
        given["original_max_position_embeddings"] = 4096
    return Rope(length, 2 * law.count, base=law.base, offset=offset, layout=layout, **given)


def rendered(scheme: Scheme, recipe: str, rows: Indices, form: Form, prior: WaveScheme | None) -> Floats | None:
    """The parts of a table at some rows, as a recipe computes them; in the order of the prior's tensors."""
    try:
        changes: dict[str, Any] = {"recipe": recipe, "dtype": "float32" if scheme.dtype == "float64" else scheme.dtype}
        made: Any = replace(scheme, **changes)
    except ParameterError:
        return None
    if made.name in _SEEN and made.applied_as == "rotation":
        tables = {table.name: table for table in replace(made, layout="compact").tensors()}
        names = (prior.one,) if prior is not None and prior.one else ("cos", "sin")
        if max(rows) >= made.seq_len:
            return None
        return np.stack([widened(tables[name].pick(rows)) for name in names])
    parts = form.split(made.tensors()[0].pick(rows))
    return None if parts is None else np.stack([widened(part) for part in parts])


def plain_amplitude(measured: float, error: float, noise: float, dim: int) -> float:
    """An amplitude as projects have it: one, a root of the dim, or a plain number within the noise."""
    for usual in (1.0, math.sqrt(2 / dim), 1 / math.sqrt(dim)):
        if abs(measured - usual) <= max(error, 1e-6 * usual):
            return usual
    return plainest(measured, min(error, max(noise, 2e-9 * abs(measured))))
