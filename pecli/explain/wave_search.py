"""Tables of waves: measured, then explained by a law of frequencies, positions, signs and a height."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from pecli.engine.arrays import Complex, Floats, Indices
from pecli.explain.computed_tables import recipe_edit
from pecli.explain.edits import (
    ColumnsWrong,
    Edit,
    Explanation,
    Layout,
    Negated,
    Parameter,
    Rows,
    RowsWrong,
    Scaled,
    Swapped,
)
from pecli.explain.law_search import divided, laws, laws_with_prior
from pecli.explain.laws import MAX_MISFIT, Curve, Fit, Law
from pecli.explain.readings import (
    MAX_WRONG,
    Reading,
    copies_of_rows,
    empty_rows,
    order_of_rows,
    padded,
    readings,
    turned,
    wrapped,
)
from pecli.explain.sample import Sample
from pecli.explain.wave_schemes import (
    WaveScheme,
    expected_height,
    found_scheme,
    height_edit,
    law_edits,
    layout_edit,
    plain_amplitude,
    rope_of,
    written_height,
    yarn_height,
)
from pecli.explain.waves import DRIFT, USUAL, Place, Waves, agreeing_places, measure, wrap

ENOUGH = 2.0
"""Times the noise: what an explanation may leave of a channel."""
MIN_BASE = 2.0
"""Of a law that is claimed of any table: below it, all frequencies are about the same."""
MAX_LAWS, MAX_FAR_LAWS = 12, 4
"""Laws of a tier that are tried at likely starts, and at any."""
MAX_RESIDUAL = 0.25
"""Of the amplitude: an explanation that leaves more of any element is none."""
RECIPE_MATTERS = 4.0
"""Times the noise: what is left where the way of computing may explain it."""


@dataclass(frozen=True)
class Measured:
    """A reading with its waves."""

    reading: Reading
    waves: Waves
    values: Complex | Floats
    first: float
    """The row number that the waves count from."""
    direction: int
    cos_first: bool

    @property
    def curve(self) -> Curve:
        waves = self.waves
        frequency = waves.frequency * self.direction
        error = np.maximum(waves.error, 1e-15)
        return Curve(frequency, np.hypot(error, DRIFT / 2 * frequency), folded=not waves.both, drift=DRIFT / 2)

    @property
    def height_error(self) -> float:
        waves = self.waves
        rough = 2 * waves.level if waves.level > 0.01 * abs(waves.height) else 0.0  # phases off make heights too small
        return 5 * waves.level / math.sqrt(waves.rows) + 1e-6 * abs(waves.height) + rough


def measured(reading: Reading, cos_first: bool, most: int = 0) -> Measured | None:
    """The waves of a reading; None where it has none."""
    picked = reading.picked(most)
    values = picked.values(cos_first)
    waves = measure(values, picked.rows.astype(np.float64))
    if waves is None or not waves.clean:
        return None
    return Measured(picked, waves, values, float(picked.rows[0]), _directions(waves)[0], cos_first)


def _directions(waves: Waves) -> tuple[int, ...]:
    """Which way most channels turn; the other way, too, where fast ones that whole turns are lost of disagree."""
    if not waves.both:
        return (1,)
    votes = np.sign(waves.frequency) * (np.abs(waves.frequency) > 4 * waves.error)
    slow = votes[len(votes) // 2 :].sum() or votes.sum()
    first = int(np.sign(slow)) or 1
    return (first,) if abs(votes.sum()) > 0.9 * np.abs(votes).sum() else (first, -first)


def explain_waves(found: Mapping[str, Sample], prior: WaveScheme | None, atol: float = 0.0) -> list[Explanation]:
    """Explanations of the waves in some tensors, by a prior or by none."""
    return explain_readings(_all_readings(found, prior), prior, atol)


def explain_readings(readings: Iterable[Reading], prior: WaveScheme | None, atol: float) -> list[Explanation]:
    """The explanations of the first reading that has any."""
    out: list[Explanation] = []
    for reading in readings:
        for most in (0, 256, 48):  # angles in float32 or less are right only in the first rows
            if most and len(reading.rows) <= most:
                continue
            seen = measured(reading, prior.cos_first if prior else True, most)
            if seen is None:
                continue
            for direction in _directions(seen.waves):
                out += _explained(replace(seen, direction=direction), reading, prior, atol, quick=bool(most))
            if out:
                return out
    return out


def _all_readings(found: Mapping[str, Sample], prior: WaveScheme | None) -> Iterator[Reading]:
    """Rows that wrap show at once, and come first; padding last. Readings with the expected channels before others."""
    plain = list(readings(found, prior.form if prior else None))
    plain.sort(key=lambda reading: prior is not None and reading.channels != prior.law.count)
    for reading in plain[:1]:
        yield from wrapped(reading)
    yield from plain
    for reading in plain[:2]:
        yield from padded(reading)


def _explained(
    seen: Measured, whole: Reading, prior: WaveScheme | None, atol: float, *, quick: bool
) -> Iterator[Explanation]:
    """Explanations by the first tier of laws that has any; only likely laws where that is to be `quick`."""
    curve, in_part = seen.curve, list[Explanation]()
    tiers = laws_with_prior(prior, curve) if prior is not None else _without_prior(seen, curve)
    for tier in islice(tiers, 3) if quick else tiers:
        fits = sorted((fit for fit in tier if fit.misfit < math.inf), key=lambda fit: (fit.cost, fit.misfit))
        good = [fit for fit in fits if _near(curve, fit.law)]
        some: list[Explanation] = []
        for far, most in ((False, MAX_LAWS), (True, MAX_FAR_LAWS)):
            for fit in good[: most if not some else 0]:
                if some and (prior is not None or some[0].cost <= good[0].cost < fit.cost):  # none can be cheaper
                    break
                one = _placed(seen, whole, prior, fit, atol, far=far)
                if one is not None:
                    (in_part if any(isinstance(edit, ColumnsWrong) for edit in one.edits) else some).append(one)
        if some:
            yield from some
            return
    yield from in_part[:1]


def _near(curve: Curve, law: Law) -> bool:
    """Whether a law is within the errors of nearly all frequencies."""
    off = curve.misfits(law.frequencies())
    return bool(np.count_nonzero(off > MAX_MISFIT) <= len(off) // 16)


def _without_prior(seen: Measured, curve: Curve) -> Iterator[list[Fit]]:
    """Any law: of a rotary table with exponents over the dim; of a sinusoidal one also over D/2 − 1."""
    count, reading = float(seen.waves.count), seen.reading
    if _is_sinusoidal(reading):
        whole = reading.width // 2 if reading.form.arrangement == "halves" else reading.width / 2
        halves = [each for each in (whole, whole - 1, whole - 0.5) if each > 0.4]
        yield [
            replace(fit, cost=fit.cost + 0.05 * k)
            for k, h in enumerate(halves)
            for fit in laws(curve, [h], scales=True)
        ]
    yield list(laws(curve, [count], scales=False))
    loose = curve.loosened(2.0**-8)
    yield [replace(fit, cost=fit.cost + 1) for fit in laws(loose, [count], scales=_is_sinusoidal(reading))]
    if reading.form.arrangement != "alone" or len(reading.parts) == 2:
        yield list(divided(curve, count))


def _is_sinusoidal(reading: Reading) -> bool:
    return reading.form.arrangement in ("interleaved", "halves") and len(reading.tensors) == 1


# Positions, signs, height.


def _placed(
    seen: Measured, whole: Reading, prior: WaveScheme | None, fit: Fit, atol: float, *, far: bool
) -> Explanation | None:
    """The explanation with a law, if positions, signs and a height go with it; by any start where that is `far`."""
    frequency = fit.law.frequencies()
    for place in _places(seen, frequency, prior, whole.length, far=far):
        usual = expected_height(prior, fit.law) if prior else _usual_height(seen, fit.law)
        height = usual
        if abs(seen.waves.height - usual) > seen.height_error:
            height = written_height(seen.waves.height, seen.height_error, usual, prior.height if prior else 1.0)
        check = _check(seen, frequency, place, height, atol)
        if check is None:
            continue
        maker = _prior_explanation if prior else _free_explanation
        made = maker(seen, whole, prior, fit, place, height, usual, check)  # type: ignore[arg-type]
        if made is not None:
            return made
    return None


def _usual_height(seen: Measured, law: Law) -> float:
    if law.scaling == "yarn":
        return yarn_height(law.factor)
    return plain_amplitude(seen.waves.height, seen.height_error, seen.waves.level, 2 * law.count)


@dataclass(frozen=True)
class Check:
    """How a table compares with a proposal: what is left, and which channels it does not explain."""

    residual: float
    wrong: tuple[int, ...]
    atol: float


def _model(seen: Measured, frequency: Floats, place: Place, height: float, rows: Floats) -> Complex | Floats:
    angles = place.angles(frequency, rows)
    return height * (np.exp(1j * angles) if seen.waves.both else np.cos(angles))


def _check(seen: Measured, frequency: Floats, place: Place, height: float, atol: float) -> Check | None:
    """Whether every channel but a few is explained: what is left of it is noise, or float32 drift."""
    rows = seen.reading.rows.astype(np.float64)
    off = seen.values - _model(seen, frequency, place, height, rows)
    noise = seen.waves.noise * (math.sqrt(2) if seen.waves.both else 1)
    floor = np.maximum(noise, np.quantile(noise, USUAL))
    drift = height * DRIFT * np.abs(frequency) * float(np.sqrt(np.mean((rows + abs(place.start)) ** 2)))
    limit = np.maximum(ENOUGH * floor + drift + 1e-7 * height, atol)
    wrong = np.flatnonzero(np.sqrt(np.mean(np.abs(off) ** 2, axis=0)) > limit)
    if len(wrong) > off.shape[1] // 16 or (len(wrong) and off.shape[1] < 8):
        return None
    left = np.delete(np.maximum(np.abs(off.real), np.abs(off.imag)), wrong, axis=1)
    return Check(float(left.max()), tuple(wrong.tolist()), atol)


def _places(seen: Measured, frequency: Floats, prior: WaveScheme | None, length: int, *, far: bool) -> Iterator[Place]:
    """Positions and signs that the phases allow: starts that are likely, or all, the smallest first.

    Of one function alone, turning the other way is another quarter.
    """
    waves = seen.waves
    centre = seen.first + waves.centre
    offset = prior.offset if prior else 0
    expected = 3 if prior is not None and prior.one == "sin" else 0
    quarters = [(expected + k) % 4 for k in (0, 2, 1, 3)]
    slack = 6 * waves.phase_error + 6 * np.abs(frequency) * DRIFT * (abs(centre) + offset) + 0.02 * waves.level + 1e-6
    slack = np.minimum(slack + np.where(waves.error > 0.25 * np.abs(frequency) + 1e-12, 0.3, 0.0), 2.0)

    def fits(place: Place) -> bool:
        angle = place.direction * frequency * (centre + place.start) + place.quarter * math.pi / 2
        off = np.abs(wrap(angle - waves.phase))
        if not waves.both:
            off = np.minimum(off, np.abs(wrap(angle + waves.phase)))
        return int(np.count_nonzero(off > slack)) <= len(off) // 16

    starts = dict.fromkeys((offset, 0, -(offset + length - 1), -(length - 1)))
    likely = [Place(seen.direction, quarter, start) for start in starts for quarter in quarters]
    places = agreeing_places(waves, frequency, centre, seen.direction, quarters, length) if far else likely
    yield from (place for place in places if fits(place))


_SIGNS: dict[tuple[int, int], tuple[Edit, ...]] = {
    (1, 0): (),
    (1, 2): (Negated("all"),),
    (-1, 0): (Negated("sin"),),
    (-1, 2): (Negated("cos"),),
    (-1, 1): (Swapped(),),
    (-1, 3): (Swapped(), Negated("all")),
    (1, 1): (Swapped(), Negated("cos")),
    (1, 3): (Swapped(), Negated("sin")),
}
"""What turning the other way, and quarter turns, mean."""
_ALONE: dict[int, tuple[Edit, ...]] = {0: (), 1: (Swapped(), Negated("all")), 2: (Negated("all"),), 3: (Swapped(),)}


def _positions(
    place: Place, both: bool, last: int, expected_quarter: int
) -> tuple[tuple[Edit, ...], int, tuple[Edit, ...]]:
    """Signs, the position of the first row, and the order of rows; `last` is the last of them."""
    direction, quarter, start = place.direction, place.quarter, place.start
    rows: tuple[Edit, ...] = ()
    if start < 0 and -start - last >= 0 and (direction < 0 or not both):
        rows, start = (Rows("reversed"),), -start - last
        direction, quarter = (1, quarter) if direction < 0 else (1, -quarter % 4)
    if both:
        return _SIGNS[direction, quarter], start, rows
    turn = (direction * quarter - expected_quarter) % 4
    if expected_quarter == 3:  # sines: a quarter further on are cosines
        turn = {0: 0, 1: 3, 2: 2, 3: 1}[turn]
    return _ALONE[turn], start, rows


def _prior_explanation(
    seen: Measured, whole: Reading, prior: WaveScheme, fit: Fit, place: Place, height: float, usual: float, check: Check
) -> Explanation | None:
    expected_quarter = 3 if prior.one == "sin" else 0
    signs, start, rows = _positions(place, seen.waves.both, whole.last, expected_quarter)
    told = law_edits(prior, fit.law)
    edits: list[Edit] = [
        *copies_of_rows(turned(whole.edits) if rows else whole.edits, whole.length, prior.length),
        *layout_edit(prior, whole.form),
        *signs,
    ]
    edits += [*told, *rows]
    if height != usual:
        edits.append(height_edit(prior, prior.height, height))
    if check.wrong:
        edits.append(ColumnsWrong(check.wrong))
    scheme = found_scheme(
        prior,
        fit.law,
        max(0, start),
        whole.length,
        height,
        whole.form,
        cos_first=prior.cos_first != (Swapped() in signs),
        more={"dtype": _dtype(whole)},
    )
    wrong = _wrong_rows(seen, whole, fit.law.frequencies(), place, height, check)
    recipe, residual = tuple[Edit, ...](), check.residual
    if len(wrong) > MAX_WRONG * len(whole.rows) or check.residual > RECIPE_MATTERS * max(
        seen.waves.level, 2.0**-24 * height
    ):
        recipe, left = recipe_edit(scheme, whole, prior, wrong, (fit.law.frequencies(), place, height))
        wrong, residual = (np.zeros(0, np.intp), min(left, residual)) if recipe else (wrong, residual)
    padded, start = order_of_rows(whole, prior, start, wrong, reverse=bool(rows))
    if padded is None:
        return None
    edits += padded
    level = seen.waves.level
    if any(isinstance(edit, RowsWrong) for edit in padded):
        residual, level = _without_rows(seen, whole, fit.law.frequencies(), place, height, wrong)
    if residual > max(check.atol, MAX_RESIDUAL * abs(height)):
        return None
    if start != prior.offset:
        edits.append(Parameter("offset", prior.offset, start))
    extra = max(0.0, fit.cost - sum(edit.cost for edit in told))
    return Explanation((*edits, *recipe), scheme, residual, level, whole.tensors, fit.open, extra)


def _wrong_rows(
    seen: Measured, whole: Reading, frequency: Floats, place: Place, height: float, check: Check
) -> Indices:
    """Which rows of the whole reading are not explained."""
    values = whole.values(seen.cos_first)
    rows = whole.rows.astype(np.float64)
    angles = place.angles(frequency, rows)
    left = np.abs(values - height * (np.exp(1j * angles) if seen.waves.both else np.cos(angles)))
    left = np.delete(left, check.wrong, axis=1)
    drift = DRIFT * height * float(np.sqrt(np.mean(frequency**2))) * (rows + abs(place.start))
    level = float(np.sqrt(np.mean(seen.waves.noise**2)))
    wrong = np.sqrt(np.mean(left**2, axis=1)) > np.maximum(4 * level + drift + 1e-6 * height, check.atol)
    return np.flatnonzero(wrong if whole.wrong is None else wrong & ~whole.wrong)


def _without_rows(
    seen: Measured, whole: Reading, frequency: Floats, place: Place, height: float, wrong: Indices
) -> tuple[float, float]:
    """What is left of the other rows: at most, and root mean square."""
    right = np.delete(np.arange(len(whole.rows)), wrong)
    off = whole.values(seen.cos_first)[right] - _model(seen, frequency, place, height, whole.rows[right].astype(float))
    left = np.abs(np.concatenate([off.real, off.imag]))
    return float(left.max()), float(np.sqrt(np.mean(left**2)))


def _dtype(reading: Reading) -> str:
    return {"complex64": "float32", "complex128": "float64"}.get(
        reading.dtype, reading.dtype if reading.dtype in ("float64", "float32", "float16", "bfloat16") else "float32"
    )


def _free_explanation(
    seen: Measured, whole: Reading, prior: None, fit: Fit, place: Place, height: float, usual: float, check: Check
) -> Explanation | None:
    """The scheme itself; how it is laid out in the file is in the edits."""
    both = seen.waves.both
    sinusoidal = _is_sinusoidal(whole)
    more: dict[str, Any] = {"dtype": _dtype(whole)}
    if both:
        signs, start, rows = _positions(place, True, whole.last, 0)
        cos_first = Swapped() not in signs
        signs = tuple(edit for edit in signs if not (sinusoidal and isinstance(edit, Swapped)))
    else:
        expected = 3 if place.quarter % 2 else 0
        signs, start, rows = _positions(place, False, whole.last, expected)
        cos_first = True
    if start < 0 or fit.law.base < MIN_BASE:
        return None
    if sinusoidal and fit.law.scaling == "none":
        zero = _padding_idx(whole, start)
        more |= {"dim": whole.width} | ({"padding_idx": zero} if zero is not None else {})
        scheme = found_scheme(None, fit.law, start, whole.length, height, whole.form, cos_first=cos_first, more=more)
    else:
        scheme = rope_of(fit.law, start, whole.length, height, whole.form.doubled or "compact", **more)
    if scheme is None:
        return None
    edits = [*whole.edits, *signs, *rows, *([ColumnsWrong(check.wrong)] if check.wrong else [])]
    made = scheme.wave_table()
    if made is not None and abs(height / made.amplitude - 1) > 1e-6:
        edits.append(Scaled(height / made.amplitude))
    if not both:
        edits.append(Layout("cos and sin", "sin alone" if place.quarter % 2 else "cos alone"))
    elif not sinusoidal and whole.form.arrangement not in ("alone", "stacked"):
        edits.append(Layout("stacked", whole.form.arrangement))
    wrong, residual = _wrong_rows(seen, whole, fit.law.frequencies(), place, height, check), check.residual
    if check.residual > RECIPE_MATTERS * max(seen.waves.level, 2.0**-24 * height) or len(wrong) > MAX_WRONG * len(
        whole.rows
    ):
        recipe, left = recipe_edit(scheme, whole, None, wrong, (fit.law.frequencies(), place, height))
        wrong, residual = (np.zeros(0, np.intp), min(left, residual)) if recipe else (wrong, residual)
        edits += recipe
    if len(wrong) > MAX_WRONG * len(whole.rows):
        return None
    wrong = np.array([row for row in wrong if whole.rows[row] + start != more.get("padding_idx")], np.intp)
    edits += [RowsWrong(tuple(whole.rows[wrong].tolist()))] if len(wrong) else []
    extra = (
        fit.cost + (0.5 if start else 0.0) + 0.05 * (height != 1) + 0.3 * (height != usual) + _excess(seen, residual)
    )
    return Explanation(tuple(edits), scheme, residual, seen.waves.level, whole.tensors, fit.open, extra)


def _excess(seen: Measured, residual: float) -> float:
    """What an explanation costs that leaves more than the noise."""
    return 0.8 * max(0.0, math.log10(max(residual, 1e-300) / (6 * seen.waves.level + 1e-9)))


def _padding_idx(whole: Reading, start: int) -> int | None:
    zero = np.flatnonzero(empty_rows(whole.parts))
    return int(whole.rows[zero[0]]) + start if len(zero) == 1 else None
