"""ALiBi: slopes, or a bias whose slopes can be read off, held against the rules that choose slopes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.identify.beginning import MOST
from pecli.checks.identify.bias import SlopeReading, readings
from pecli.checks.identify.intervals import Interval, spacing
from pecli.checks.identify.match import Match
from pecli.engine.arrays import Floats
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import holds, round_to, widened
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.recipes import BIAS_RECIPE

if TYPE_CHECKING:
    from pecli.checks.identify.beginning import Beginning


_ROOM = {"float64": (0.51, 16.0), "float32": (0.51, 2.0, 16.0, 128.0), "float16": (0.51, 2.0), "bfloat16": (0.51, 2.0)}
"""Units of the last place that elements may be off: rounded once, computed in the dtype, or as powers of a power."""
_LARGEST = 256.0
_FEW_DIGITS = 4
_MOST_POINTS = 1 << 17


@dataclass(frozen=True)
class Fit:
    """A rule for the slopes, and which max_bias the data allow under it."""

    rule: str
    heads: int
    max_bias: Interval
    repeats: int = 1


_MOST_HEADS = 1 << 16


def recognise(sample: Beginning) -> list[Match]:
    """The ALiBi schemes that a tensor is, the closest first; at most one for each way to read it."""
    if not sample.floating or np.isnan(sample.array).any():
        return []
    matches = [match for reading in readings(sample) for match in _explain(reading, sample)]
    return sorted(matches, key=lambda match: match.max_abs_error)


def describe(sample: Beginning) -> list[str]:
    """What can be said of a tensor that has slopes, but by no known rule."""
    if not sample.floating or np.isnan(sample.array).any():
        return []
    for reading in readings(sample):
        if reading.form and reading.proportional(sample.dtype):
            slopes = ", ".join(f"{slope:.6g}" for slope in reading.slopes()[:8])
            return [f"an ALiBi bias ({reading.words}) whose slopes follow no known rule: {slopes}"]
    return []


def with_slopes(matches: list[Match]) -> list[Match]:
    """Matches in which slopes count to the bias that lies in the same file and has them."""
    found = list(matches)
    for match in matches:
        if not isinstance(match.scheme, Alibi) or not match.scheme.slopes or match.form:
            continue
        for k, bias in enumerate(found):
            if isinstance(bias.scheme, Alibi) and not bias.scheme.slopes and _same_slopes(bias.scheme, match.scheme):
                found[k] = replace(bias, tensors=(*bias.tensors, *match.tensors))
                found.remove(match)
                break
    return found


def _same_slopes(one: Alibi, other: Alibi) -> bool:
    mine, yours = (replace(scheme, slopes=True).single_array().array() for scheme in (one, other))
    return np.array_equal(mine, yours)


def _explain(reading: SlopeReading, sample: Beginning) -> Iterator[Match]:
    for fit in _fits(reading, sample.dtype):
        if fit.heads > _MOST_HEADS:
            continue
        schemes = [
            Alibi(
                heads=fit.heads,
                seq_len=reading.length,
                rule=fit.rule,
                max_bias=fit.max_bias.plainest(),
                form=reading.form or "symmetric",
                slopes=not reading.form,
                dtype=sample.dtype,
                recipe=recipe,
            )
            for recipe in BIAS_RECIPE.options
        ]
        errors = [_error(scheme, reading, fit) for scheme in schemes]
        best = [scheme for scheme, error in zip(schemes, errors, strict=True) if error == min(errors)]
        batch = "" if fit.repeats == 1 else f"repeated {fit.repeats} times, once for each of a batch"
        yield Match(
            best[0],
            min(errors),
            (sample.name,),
            form=", ".join(filter(None, [reading.words, batch])),
            undetermined=tuple(_open_questions(fit, best)),
        )


def _open_questions(fit: Fit, best: list[Alibi]) -> Iterator[str]:
    if fit.heads & (fit.heads - 1) == 0:
        yield "rule: paper and naive are the same for a number of heads that is a power of two"
    if fit.max_bias.high - fit.max_bias.low > 1e-4 * best[0].max_bias:
        yield f"max_bias: the data allow {fit.max_bias.words()}"
    if len(best) > 1:
        *others, last = (scheme.recipe for scheme in best)
        yield f"recipe: {', '.join(others)} and {last} come equally near"


def _fits(reading: SlopeReading, dtype: str) -> Iterator[Fit]:
    """The rules under which the slopes are what they are; the strictest reading of the roundings that has any."""
    count, shown = reading.heads, len(reading.values)
    batched = reading.form and shown == count
    periods = [heads for heads in range(3, count) if batched and count % heads == 0] + [count]
    for coarse in _held_by(reading.values, dtype):
        for room in _ROOM[coarse]:
            for heads in periods:
                found = False
                for rule in ("paper", "naive") if heads & (heads - 1) else ("paper",):
                    exponents = np.tile(slope_exponents(rule, heads), count // heads)[:shown]
                    limits = _limits(reading, exponents, coarse, room)
                    if limits is not None and _plausible(limits, heads):
                        wide = _limits(reading, exponents, coarse, _ROOM[coarse][-1]) or limits
                        better = not _plain(limits) and _plain(wide)
                        yield Fit(rule, heads, wide if better else limits, count // heads)
                        found = True
                if found:
                    return


def _held_by(values: Floats, dtype: str) -> Iterator[str]:
    """The dtype, and coarser ones that hold the values too: those in which they may have been made."""
    yield dtype
    names = list(SIGNIFICAND_BITS)
    for coarse in names[names.index(dtype) + 1 :]:
        if holds(coarse, values):
            yield coarse


def slope_exponents(rule: str, heads: int) -> Floats:
    """The e of 2 ** (−max_bias · e), head by head."""
    power = 1 << (heads.bit_length() - 1)
    if rule == "naive" or power == heads:
        return np.arange(1, heads + 1) / heads
    return np.concatenate([np.arange(1, power + 1) / power, np.arange(1, 2 * (heads - power), 2) / (2 * power)])


def _limits(reading: SlopeReading, exponents: Floats, dtype: str, room: float) -> Interval | None:
    """What max_bias may be, if every element is off by `room` units at most; None if nothing."""
    stride = -(-reading.values.size // _MOST_POINTS)
    values, distances = reading.values[:, ::stride], reading.distances[::stride]
    off = room * spacing(values, dtype) + 4e-16 * np.abs(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = -np.log2((values + off) / distances) / exponents[:, None]
        high = -np.log2(np.maximum(values - off, 0) / distances) / exponents[:, None]
    found = Interval(float(low.max()), float(high.min()))
    return None if found.empty or found.low <= 0 or found.high > _LARGEST else found


def _plausible(limits: Interval, heads: int) -> bool:
    """One or two slopes fit some max_bias too easily: there it must be a plain number."""
    return heads > 2 or _plain(limits)


def _plain(limits: Interval) -> bool:
    """Whether a number that people choose is among them; powers of a rounded base are off by a little, all one way."""
    return len(f"{limits.plainest():.9g}".replace(".", "").strip("0")) < _FEW_DIGITS


def _error(scheme: Alibi, reading: SlopeReading, fit: Fit) -> float:
    """The largest distance of an element from the scheme's."""
    farthest = int(reading.distances.max())
    if fit.heads * (farthest + 1) <= MOST:
        keys = replace(scheme, seq_len=farthest + 1, form="key", slopes=False).single_array().array()[:, 0]
        multiples = widened(keys)[:, reading.distances.astype(np.intp)]
    else:
        exact = replace(scheme, slopes=True, dtype="float64").single_array().array()
        multiples = widened(round_to(widened(exact)[:, None] * reading.distances, scheme.dtype))
    expected = np.tile(multiples, (fit.repeats, 1))[: len(reading.values)]
    return float(np.abs(expected - reading.values).max())
