"""Tables of waves: measured, then explained by a law of frequencies, positions, signs and an amplitude."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from pecli.engine.arrays import Complex, Floats, Indices
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.acceptance import storage_of
from pecli.explain.edits import (
    Edit,
    Errors,
    Explanation,
    Layout,
    Parameter,
    Recipe,
    Scaled,
    Swapped,
)
from pecli.explain.frequency_estimation import DRIFT, USUAL, Place, Waves, agreeing_places, anchored, measure, wrap
from pecli.explain.frequency_fit import fit_laws, fit_longrope, fit_near_prior
from pecli.explain.frequency_laws import MAX_MISFIT, NO_SCALING, Curve, Fit, Law
from pecli.explain.recipe_search import explain_reading, reading_samples
from pecli.explain.sample import BASES, Sample, digits, plainest
from pecli.explain.sinusoid_readings import (
    MAX_WRONG,
    Reading,
    SignsAndOrder,
    all_readings,
    empty_rows,
    order_of_rows,
    same_reading,
    signs_and_order,
)
from pecli.explain.sinusoid_schemes import (
    WaveScheme,
    amplitude_edit,
    expected_amplitude,
    law_edits,
    layout_edit,
    scheme_of,
)
from pecli.explain.time_limit import check_time

ENOUGH = 2.0
"""Times the noise: what an explanation may leave of a channel."""
MIN_BASE = 2.0
"""Of a law that is claimed of any table: below it, all frequencies are about the same."""
MAX_LAWS, MAX_FAR_LAWS = 12, 4
"""Laws of a tier that are tried at likely starts, and at any."""
FLOAT32_PHASE = 16 * 2.0**-24
"""The relative error of a phase in float32 arithmetic, powers of other libraries included."""
MAX_DIGITS = 3
"""Significant digits of a number that somebody wrote, and nobody fitted."""
RECIPE_MATTERS = 4.0
"""Times the noise: what is left where the way of computing may explain it."""


@dataclass(frozen=True)
class Measured:
    """A reading with its waves."""

    reading: Reading
    waves: Waves
    values: Complex | Floats
    direction: int
    cos_first: bool
    start: int | None = None
    """The position of row 0, where the phases tell it whatever the law."""

    @property
    def curve(self) -> Curve:
        waves = self.waves
        frequency = waves.frequency * self.direction
        error = np.maximum(waves.error, 1e-15)
        return Curve(frequency, np.hypot(error, DRIFT / 2 * frequency), folded=not waves.both, drift=DRIFT / 2)

    @property
    def amplitude_error(self) -> float:
        level, amplitude = self.waves.level, abs(self.waves.shared_amplitude)
        rough = 2 * level if level > 0.01 * amplitude else 0.0  # phases that are off make amplitudes too small
        return 5 * level / math.sqrt(self.waves.rows) + 1e-6 * amplitude + rough


def measure_reading(reading: Reading, prior: WaveScheme | None, most: int = 0) -> Measured | None:
    """The waves of a reading; None where it has none."""
    picked, cos_first = reading.picked(most), prior is None or prior.cos_first
    values, rows = picked.values(cos_first), picked.rows.astype(np.float64)
    waves, start = measure(values, rows), None
    if waves is None or not waves.clean:
        return None
    if prior is None and waves.both:
        waves, start = anchored(waves, np.asarray(values, np.complex128), rows) or (waves, None)
    return Measured(picked, waves, values, _directions(waves)[0], cos_first, start)


def _directions(waves: Waves) -> tuple[int, ...]:
    """Which way the slow half of the channels turns, or most; both ways where fast ones disagree, since those that turn
    by more than π per row seem to turn backwards.
    """
    if not waves.both:
        return (1,)
    votes = np.sign(waves.frequency) * (np.abs(waves.frequency) > 4 * waves.error)
    slow = votes[len(votes) // 2 :].sum() or votes.sum()
    first = int(np.sign(slow)) or 1
    return (first,) if abs(votes.sum()) > 0.9 * np.abs(votes).sum() else (first, -first)


def explain_waves(found: Mapping[str, Sample], prior: WaveScheme | None, atol: float = 0.0) -> list[Explanation]:
    """Explanations of the waves in some tensors, by a prior or by none."""
    return explain_readings(
        all_readings(found, prior.form if prior else None, prior.law.count if prior else 0), prior, atol
    )


def explain_readings(readings: Iterable[Reading], prior: WaveScheme | None, atol: float) -> list[Explanation]:
    """The explanations of the first reading that has any."""
    out: list[Explanation] = []
    for reading in readings:
        for most in (0, 256, 48):  # angles in float32 or less are right only in the first rows
            measured = measure_reading(reading, prior, most) if not most or len(reading.rows) > most else None
            if measured is None:
                continue
            for direction in _directions(measured.waves):
                each = replace(measured, direction=direction)
                tiers = fit_near_prior(prior, each.curve) if prior else _without_prior(each)
                out += _explained(each, reading, prior, atol, islice(tiers, 3) if most else tiers)
            if out:
                return out
    return []


def _explained(
    measured: Measured, reading: Reading, prior: WaveScheme | None, atol: float, tiers: Iterable[list[Fit]]
) -> Iterator[Explanation]:
    """Explanations by the first tier of laws that has any."""
    curve = measured.curve
    for tier in tiers:
        fits = sorted((fit for fit in tier if fit.misfit < math.inf), key=lambda fit: (fit.cost, fit.misfit))
        good = [fit for fit in fits if _near(curve, fit.law)]
        some: list[Explanation] = []
        for far, most in ((False, MAX_LAWS), (True, MAX_FAR_LAWS if measured.start is None else 0)):
            for fit in good[: most if not some else 0]:
                if some and (prior is not None or some[0].cost <= good[0].cost < fit.cost):  # none can be cheaper
                    break
                places = _places(measured, fit.law.frequencies(), prior, reading.length, far=far)
                made = (_explanation(Proposal(measured, reading, prior, fit, place, atol)) for place in places)
                if (one := next(filter(None, made), None)) is not None:
                    some.append(one)
        if some:
            yield from some
            return


def _near(curve: Curve, law: Law) -> bool:
    """Whether a law is within the errors of nearly all frequencies."""
    off = curve.misfits(law.frequencies())
    return bool(np.count_nonzero(off > MAX_MISFIT) <= len(off) // 16)


def _without_prior(measured: Measured) -> Iterator[list[Fit]]:
    """Any law: of a rotary table with exponents over the dim; of a sinusoidal one also over D/2 − 1."""
    curve, count, reading = measured.curve, float(measured.waves.count), measured.reading
    if _is_sinusoidal(reading):
        own = reading.width // 2 if reading.form.arrangement == "halves" else reading.width / 2
        halves = [each for each in (own, own - 1, own - 0.5) if each > 0.4]
        every = ((0.05 * k, fit) for k, half in enumerate(halves) for fit in fit_laws(curve, half, scales=True))
        yield [replace(fit, cost=fit.cost + cost) for cost, fit in every]
    yield list(fit_laws(curve, count, scales=False))
    if reading.form.arrangement != "alone" or len(reading.parts) == 2:
        yield list(fit_longrope(curve, count))


def _is_sinusoidal(reading: Reading) -> bool:
    return reading.form.arrangement in ("interleaved", "halves") and len(reading.tensors) == 1


# Positions, signs, amplitude.


@dataclass(frozen=True)
class Proposal:
    """A law and a place of rows for a reading, with the amplitude that goes with them."""

    measured: Measured
    reading: Reading
    prior: WaveScheme | None
    fit: Fit
    place: Place
    atol: float

    @cached_property
    def frequency(self) -> Floats:
        return self.fit.law.frequencies()

    @cached_property
    def usual(self) -> float:
        return expected_amplitude(self.prior, self.fit.law)

    @cached_property
    def amplitude(self) -> float:
        """As somebody wrote it: as usual, as the spec says, 1, a root of the dim, twice applied, or a plain number."""
        measured, error = self.measured.waves.shared_amplitude, self.measured.amplitude_error
        dim = 2 * self.fit.law.count
        roots = (math.sqrt(2 / dim), 1 / math.sqrt(dim)) if self.prior is None else ()
        spec = self.prior.amplitude if self.prior else 1.0
        likely: tuple[float, ...] = (self.usual, spec, 1.0, *roots, self.usual**2, math.sqrt(self.usual))
        for known in likely:
            if abs(measured - known) <= error:
                return known
        error = min(error, max(self.measured.waves.level, 2e-9 * abs(measured)))
        times, value = plainest(measured / self.usual, error / self.usual), plainest(measured, error)
        return self.usual * times if digits(times) < digits(value) else value

    def left(self, values: Complex | Floats, rows: Indices) -> Complex | Floats:
        """What the waves leave of values at some rows."""
        angles = self.place.angles(self.frequency, rows.astype(np.float64))
        return values - self.amplitude * (np.exp(1j * angles) if self.measured.waves.both else np.cos(angles))

    def drift(self, rows: Indices) -> Floats:
        """What float32 arithmetic may leave of each row and unit of frequency."""
        return np.asarray(abs(self.amplitude) * DRIFT * (rows + abs(self.place.start)))


def _residual(by: Proposal) -> float | None:
    """The largest that is left of what was measured; None where more is left of a channel than noise, or drift."""
    measured, rows = by.measured, by.measured.reading.rows
    off = by.left(measured.values, rows)
    noise = measured.waves.noise * (math.sqrt(2) if measured.waves.both else 1)
    floor = np.maximum(noise, np.quantile(noise, USUAL))
    drift = np.abs(by.frequency) * float(np.sqrt(np.mean(by.drift(rows) ** 2)))
    limit = np.maximum(ENOUGH * floor + drift + 1e-7 * by.amplitude, by.atol)
    if (np.sqrt(np.mean(np.abs(off) ** 2, axis=0)) > limit).any():
        return None
    return float(max(np.abs(off.real).max(), np.abs(off.imag).max()))


def _wrong_rows(by: Proposal) -> Indices:
    """Which rows of the whole reading are not explained."""
    reading = by.reading
    left = np.abs(by.left(reading.values(by.measured.cos_first), reading.rows))
    drift = by.drift(reading.rows) * float(np.sqrt(np.mean(by.frequency**2)))
    level = float(np.sqrt(np.mean(by.measured.waves.noise**2)))
    wrong = np.sqrt(np.mean(left**2, axis=1)) > np.maximum(4 * level + drift + 1e-6 * by.amplitude, by.atol)
    return np.flatnonzero(wrong if reading.wrong is None else wrong & ~reading.wrong)


def _errors(
    by: Proposal, wrong: Indices, computed: Explanation | None, *, drifts: bool
) -> Callable[[Mapping[str, Sample] | None], Errors]:
    """What a proposal leaves of samples, or of its own reading, but for rows that are known to be wrong."""
    given = by.reading.wrong if by.reading.wrong is not None else np.zeros(len(by.reading.rows), bool)
    which = by.reading.rows[np.union1d(wrong, np.flatnonzero(given))]

    def errors(samples: Mapping[str, Sample] | None) -> Errors:
        whole = samples is None or next(iter(samples.values())).whole
        reading = by.reading if samples is None or whole else same_reading(by.reading, samples)
        if reading is None:
            return Errors(np.full(1, math.inf), np.zeros(1))
        if computed is not None and computed.errors is not None:
            return computed.errors(reading_samples(reading, by.prior, computed.scheme))
        right = ~np.isin(reading.rows, which)
        rows, values = reading.rows[right], reading.values(by.measured.cos_first)[right]
        phases = np.multiply.outer(np.abs(rows + by.place.start), np.abs(by.frequency))
        drift = abs(by.amplitude) * FLOAT32_PHASE * phases if drifts else 0.0
        return Errors(by.left(values, rows), values, drift)

    return errors


def _places(
    measured: Measured, frequency: Floats, prior: WaveScheme | None, length: int, *, far: bool
) -> Iterator[Place]:
    """Positions and signs that the phases allow: starts that are likely, or all, the smallest first.

    Of one function alone, turning the other way is another quarter.
    """
    waves = measured.waves
    centre, offset = int(measured.reading.rows[0]) + waves.centre, prior.offset if prior else 0
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

    starts = dict.fromkeys((offset, measured.start or 0, 0, -(offset + length - 1), -(length - 1)))
    likely = [Place(measured.direction, quarter, start) for start in starts for quarter in quarters]
    places = agreeing_places(waves, frequency, centre, measured.direction, quarters, length) if far else likely
    yield from (place for place in places if fits(place))


def _explanation(by: Proposal) -> Explanation | None:
    """The explanation by a proposal, if all but a few rows follow it."""
    check_time()
    residual = _residual(by)
    if residual is None:
        return None
    reading, prior, level = by.reading, by.prior, by.measured.waves.level
    sines = prior.one == "sin" if prior else not by.measured.waves.both and by.place.quarter % 2 == 1
    place = _, start, order = signs_and_order(by.place, by.measured.waves.both, reading.last, 3 if sines else 0)
    found = _difference(by, prior, place) if prior else _description(by, place, sines=sines)
    if found is None:
        return None
    scheme, edits, extra = found
    wrong, computed = _wrong_rows(by), None
    many = MAX_WRONG * len(reading.rows)
    if len(wrong) > many or residual > RECIPE_MATTERS * max(level, 2.0**-24 * by.amplitude):
        computed = explain_reading(scheme, reading, prior)
        wrong, residual = (np.zeros(0, np.intp), computed.residual) if computed else (wrong, residual)
    offset = prior.offset if prior else start
    rows, start = order_of_rows(reading, prior.scheme if prior else scheme, offset, start, wrong, reverse=bool(order))
    if rows is None:
        return None
    edits += rows
    edits += [Parameter("offset", offset, start)] if start != offset else []
    edits += computed.edits if computed else ()
    if not (prior or computed):  # an explanation that leaves more than the noise costs more
        extra += 0.8 * max(0.0, math.log10(max(residual, 1e-300) / (6 * level + 1e-9)))
    written, stored = _is_written(by), np.concatenate(reading.parts)
    for drifts in (False, True) if written and not computed else (False,):  # float32 arithmetic, by powers of no recipe
        errors = _errors(by, wrong, computed, drifts=drifts)
        is_own = prior is not None and getattr(prior.scheme, "recipe", "") == "float32"
        every = (*edits, *([Recipe("float32")] if drifts and not is_own else []))
        if storage_of(errors(None), stored, reading.dtype, every, by.atol if written else 0, reading.dtype) is not None:
            return Explanation(every, scheme, residual, level, reading.tensors, by.fit.open, extra, errors)
    return None


def _is_written(by: Proposal) -> bool:
    """Whether the numbers of a law are as somebody wrote them: fitted ones would take up drift and tolerance."""
    law, prior = by.fit.law, by.prior.law if by.prior else None
    known = {prior.base, prior.scale} if prior else {1.0}
    return all(value in known or value in BASES or digits(value) <= MAX_DIGITS for value in (law.base, law.scale))


Description = tuple[Scheme | None, list[Edit], float]
"""A scheme, how the table differs from it or from the prior, and what that costs beside the edits."""


def _difference(by: Proposal, prior: WaveScheme, place: SignsAndOrder) -> Description:
    """What differs from the prior."""
    (signs, start, order), reading, law = place, by.reading, by.fit.law
    changes = law_edits(prior, law)
    layout = layout_edit(prior, reading.form)
    if prior.rotary and layout and _is_sinusoidal(reading) and signs == (Swapped(),):
        layout, signs = (Parameter("scheme", prior.scheme.name, "sinusoidal"),), ()
    edits = [*reading.edits, *layout, *signs, *changes, *order]
    if reading.length != prior.length and not reading.edits:
        edits.append(Parameter("seq_len", prior.length, reading.length))
    if by.amplitude != by.usual:
        edits.append(amplitude_edit(prior, prior.amplitude, by.amplitude))
    cos_first, more = prior.cos_first != (Swapped() in place[0]), {"dtype": reading.dtype}
    scheme = scheme_of(law, max(0, start), reading.length, by.amplitude, reading.form, prior.rotary, cos_first, **more)
    return scheme, edits, max(0.0, by.fit.cost - sum(edit.cost for edit in changes))


def _description(by: Proposal, place: SignsAndOrder, *, sines: bool) -> Description | None:
    """The scheme itself; how it is laid out in the file is in the edits."""
    (signs, start, order), reading, law = place, by.reading, by.fit.law
    amplitude, both = by.amplitude, by.measured.waves.both
    sinusoidal, cos_first = _is_sinusoidal(reading), Swapped() not in signs or not both
    if start < 0 or law.base < MIN_BASE:
        return None
    more: dict[str, Any] = {"dtype": reading.dtype}
    if sinusoidal and law.scaling == NO_SCALING:
        zero = np.flatnonzero(empty_rows(reading.parts))
        more |= {"dim": reading.width} | ({"padding_idx": int(reading.rows[zero[0]]) + start} if len(zero) == 1 else {})
    scheme = scheme_of(law, start, reading.length, amplitude, reading.form, not sinusoidal, cos_first, **more)
    if scheme is None:
        return None
    kept = [edit for edit in signs if not (both and sinusoidal and isinstance(edit, Swapped))]
    edits: list[Edit] = [*reading.edits, *kept, *order]
    made = scheme.wave_table()
    if made is not None and abs(amplitude / made.amplitude - 1) > 1e-6:
        edits.append(Scaled(amplitude / made.amplitude))
    if not both:
        edits.append(Layout("cos and sin", "sin alone" if sines else "cos alone"))
    elif not sinusoidal and reading.form.arrangement not in ("alone", "stacked"):
        edits.append(Layout("stacked", reading.form.arrangement))
    unusual = "attention_factor" in law.scaling.optional() and amplitude != by.usual
    return scheme, edits, by.fit.cost + 0.5 * (start != 0) + 0.05 * (amplitude != 1) + 0.3 * unusual
