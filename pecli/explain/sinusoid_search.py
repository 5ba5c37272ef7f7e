"""Tables of waves: measured, then explained by a law of frequencies, positions, signs and an amplitude."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice, product
from typing import Any

import numpy as np

from pecli.compare import forms
from pecli.engine.arrays import Complex, Floats, Indices
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.explain import frequency_laws as laws
from pecli.explain import recipe_search, sinusoid_readings, time_limit
from pecli.explain.acceptance import Judge, rounding_mode
from pecli.explain.edits import Edit, Errors, Explanation, Layout, Parameter, Scaled, Swapped
from pecli.explain.frequency_fit import fit_laws, fit_longrope, fit_near_prior
from pecli.explain.frequency_laws import Curve, Fit, WaveScheme, scheme_of
from pecli.explain.sample import BASES, Samples, digits, plainest, rounding
from pecli.explain.sinusoid_readings import Reading, SignsAndOrder, order_of_rows, signs_and_order
from pecli.explain.wave_measurement import (
    DRIFT,
    USUAL,
    Place,
    Waves,
    agreeing_places,
    anchored,
    measure,
    wrap,
)
from pecli.explain.wave_tables import wave_edit, wave_table

ENOUGH = 2.0  # times the noise: what a proposal may leave of a channel that was measured
MAX_LAWS, MAX_FAR_LAWS = 12, 4  # laws of a tier that are tried at likely starts, and at any
FLOAT32_PHASE = (
    16 * 2.0**-24
)  # the relative error of a phase in float32 arithmetic, powers of other libraries included
MAX_FITS = 3  # of waves, each without the rows that stick out of the last one
MAX_DIGITS = 3  # significant digits of a number that somebody wrote, and nobody fitted
RECIPE_MATTERS = 4.0  # times the noise: what is left where the way of computing may explain it


@dataclass(frozen=True)
class Measured:
    """A reading with the waves of some of its rows."""

    reading: Reading
    picked: Reading
    waves: Waves
    prior: WaveScheme | None
    direction: int = 1
    atol: float = 0.0  # an error of the amplitude that does not matter
    start: int | None = None  # the position of row 0, where the phases tell it whatever the law

    @property
    def cos_first(self) -> bool:
        return self.prior is None or self.prior.cos_first

    @cached_property
    def rounding(self) -> float:
        """A unit of the last place of 1, by which digits that are cut off change values at most."""
        return 2 * sum(rounding(np.concatenate(self.picked.parts)))

    @cached_property
    def curve(self) -> Curve:
        frequency, error = (
            self.waves.frequency * self.direction,
            np.maximum(self.waves.error, 1e-15),
        )
        return Curve(
            frequency,
            np.hypot(error, DRIFT / 2 * frequency),
            folded=not self.waves.both,
            drift=DRIFT / 2,
        )


def _measured(
    reading: Reading, prior: WaveScheme | None, most: int, atol: float = 0.0
) -> Iterator[Measured]:
    """The waves of a reading, by the directions in which they may turn: that of the slow half of the channels, or of
    most; both where fast ones disagree, since those that turn by more than π per row seem to turn backwards."""
    wrong, start = np.arange(0), None
    for _ in range(MAX_FITS):  # then without the rows that stick out of the last fit
        time_limit.check_time()
        picked = reading.picked(most, wrong)
        values, rows = (
            picked.values(prior is None or prior.cos_first),
            picked.rows.astype(np.float64),
        )
        waves = measure(values, rows)
        outlying = rows[waves.outlying(values, rows)] if waves is not None else rows[:0]
        if not 0 < len(outlying) <= forms.MAX_WRONG * len(rows):
            break
        wrong = np.union1d(wrong, np.flatnonzero(np.isin(reading.rows, outlying)))
    if waves is None or not waves.clean:
        return
    if prior is None and waves.both:
        waves, start = anchored(waves, np.asarray(values, np.complex128), rows) or (waves, None)
    votes = np.sign(waves.frequency) * (np.abs(waves.frequency) > 4 * waves.error)
    first = (int(np.sign(votes[len(votes) // 2 :].sum() or votes.sum())) or 1) if waves.both else 1
    agreed = not waves.both or abs(votes.sum()) > 0.9 * np.abs(votes).sum()
    for direction in (first,) if agreed else (first, -first):
        yield Measured(reading, picked, waves, prior, direction, atol, start)


def explain_waves(judge: Judge, prior: WaveScheme | None) -> list[Explanation]:
    """Explanations of the waves in some tensors, by a prior or by none."""
    form, channels = (prior.form, prior.law.count) if prior else (None, 0)
    return explain_readings(
        sinusoid_readings.all_readings(judge.samples, form, channels), prior, judge
    )


def recognise_waves(judge: Judge) -> Iterator[Explanation]:
    """What makes waves; cosines, then sines in one array may be a cache of rotary tables as well."""
    two_axes = all(one.values.ndim >= 2 for one in judge.samples.values())
    found = (
        [each for each in explain_waves(judge, None) if each.scheme is not None] if two_axes else []
    )
    yield from found
    for each in found[:1]:
        scheme: Any = each.scheme
        if scheme.value_of("cos_first", False) and (
            scheme.scale,
            scheme.amplitude,
            scheme.freq_shift,
        ) == (1, 1, 0):
            rope = Rope(
                scheme.seq_len,
                scheme.dim // 2 * 2,
                scheme.base,
                offset=scheme.offset,
                dtype=scheme.dtype,
            )
            edits = (*each.edits, Layout("stacked", scheme.layout))
            yield replace(each, scheme=rope, edits=edits, extra=each.extra + 0.5)


def explain_readings(
    readings: Iterable[Reading], prior: WaveScheme | None, judge: Judge
) -> list[Explanation]:
    """The explanations of the first reading that has any."""
    for reading in readings:
        for most in (0, 256, 48):  # angles in float32 or less are right only in the first rows
            if most and len(reading.rows) <= most:
                continue
            out: list[Explanation] = []
            for measured in _measured(reading, prior, most, judge.atol):
                tiers = fit_near_prior(prior, measured.curve) if prior else _any_law(measured)
                explained = (
                    _by_tier(measured, tier, judge)
                    for tier in (islice(tiers, 3) if most else tiers)
                )
                out += next(filter(None, explained), [])
            if out:
                return out
    return []


def _any_law(measured: Measured) -> Iterator[list[Fit]]:
    """Any law: of a rotary table with exponents over the dim; of a sinusoidal one also over D/2 − 1."""
    curve, reading = measured.curve, measured.reading
    if reading.is_sinusoidal:
        own = reading.width // 2 if reading.form.arrangement == "halves" else reading.width / 2
        halves = [each for each in (own, own - 1, own - 0.5) if each > 0.4]
        yield [
            fit.costing(0.05 * k)
            for k, half in enumerate(halves)
            for fit in fit_laws(curve, half, scales=True)
        ]
    yield list(fit_laws(curve, float(reading.channels), scales=False))
    if reading.form.arrangement != "alone" or len(reading.parts) == 2:
        yield list(fit_longrope(curve, float(reading.channels)))


def _by_tier(measured: Measured, tier: Iterable[Fit], judge: Judge) -> list[Explanation]:
    """By the laws of a tier that are within the errors of nearly all frequencies: at likely starts; then at any."""
    good = []
    for fit in sorted(
        (fit for fit in tier if fit.misfit < math.inf), key=lambda fit: (fit.cost, fit.misfit)
    ):
        off = measured.curve.misfits(fit.law.frequencies())
        if np.count_nonzero(off > laws.MAX_MISFIT) <= len(off) // 16:
            good.append(fit)
    found: list[Explanation] = []
    for far, most in ((False, MAX_LAWS), (True, MAX_FAR_LAWS if measured.start is None else 0)):
        for fit in good[: most if not found else 0]:
            if found and (
                measured.prior or found[0].cost <= good[0].cost < fit.cost
            ):  # none can be cheaper
                break
            places = _places(measured, fit.law.frequencies(), far=far)
            found += islice(
                filter(
                    None, (Proposal(measured, fit, place).explanation(judge) for place in places)
                ),
                1,
            )
    return found


def _places(measured: Measured, frequency: Floats, *, far: bool) -> Iterator[Place]:
    """Signs and starts that the phases allow: likely starts, or all, the smallest first."""
    waves, prior, length = measured.waves, measured.prior, measured.reading.length
    centre, offset = int(measured.picked.rows[0]) + waves.centre, prior.offset if prior else 0
    expected = 3 if prior is not None and prior.one == "sin" else 0
    quarters = [(expected + k) % 4 for k in (0, 2, 1, 3)]
    slack = (
        6 * waves.phase_error
        + 6 * np.abs(frequency) * DRIFT * (abs(centre) + offset)
        + 0.02 * waves.level
        + 1e-6
    )
    slack = np.minimum(
        slack + np.where(waves.error > 0.25 * np.abs(frequency) + 1e-12, 0.3, 0.0), 2.0
    )
    starts = dict.fromkeys((offset, measured.start or 0, 0, -(offset + length - 1), -(length - 1)))
    likely = [Place(measured.direction, quarter, start) for start in starts for quarter in quarters]
    places = (
        agreeing_places(waves, frequency, centre, measured.direction, quarters, length)
        if far
        else likely
    )
    for place in places:
        angle = place.direction * frequency * (centre + place.start) + place.quarter * math.pi / 2
        off = np.abs(wrap(angle - waves.phase))
        if not waves.both:
            off = np.minimum(off, np.abs(wrap(angle + waves.phase)))
        if np.count_nonzero(off > slack) <= len(off) // 16:
            yield place


@dataclass(frozen=True)
class Proposal:
    """A law and a place of rows for a reading, with the amplitude that goes with them."""

    measured: Measured
    fit: Fit
    place: Place
    unscaled: bool = False  # whether the amplitude is the usual one, whatever was measured

    @cached_property
    def frequency(self) -> Floats:
        return self.fit.law.frequencies()

    @cached_property
    def usual(self) -> float:
        return laws.expected_amplitude(self.measured.prior, self.fit.law)

    @cached_property
    def amplitude(self) -> float:
        """As somebody wrote it: as usual, as the spec says, 1, a root of the dim, twice applied, or a plain number."""
        waves, prior, dim = self.measured.waves, self.measured.prior, 2 * self.fit.law.count
        measured, level = waves.shared_amplitude, waves.level
        if self.unscaled:
            return self.usual
        rough = (
            2 * level if level > 0.01 * abs(measured) else 0.0
        )  # phases that are off make amplitudes too small
        error = 5 * level / math.sqrt(waves.rows) + 1e-6 * abs(measured) + rough
        roots = (math.sqrt(2 / dim), 1 / math.sqrt(dim)) if prior is None else ()
        every = (
            self.usual,
            prior.amplitude if prior else 1.0,
            1.0,
            *roots,
            self.usual**2,
            math.sqrt(self.usual),
        )
        for slack, known in product((error, self.measured.atol), every):
            if abs(measured - known) <= slack or self._is_truncated(known):
                return float(known)
        error = min(error, max(level, 2e-9 * abs(measured)))
        times, value = (
            plainest(measured / self.usual, error / self.usual),
            plainest(measured, error),
        )
        return self.usual * times if digits(times) < digits(value) else value

    def _is_truncated(self, amplitude: float) -> bool:
        """Whether values have the amplitude, and were rounded toward zero."""
        picked = self.measured.picked
        lost = amplitude - self.measured.waves.shared_amplitude
        if not 0 < lost <= self.measured.rounding * max(1.0, amplitude):
            return False
        values = picked.values(self.measured.cos_first)
        left = values - amplitude * self.unit_waves(picked.rows)
        return bool(
            rounding_mode(Errors(left, values, FLOAT32_PHASE * self.phases(picked.rows)), values)
        )

    @property
    def is_written(self) -> bool:
        """Whether the numbers of the law are as somebody wrote them: fitted ones take up drift and tolerance."""
        law, prior = self.fit.law, self.measured.prior
        known = {prior.law.base, prior.law.scale} if prior else {1.0}
        return all(
            value in known or value in BASES or digits(value) <= MAX_DIGITS
            for value in (law.base, law.scale)
        )

    def unit_waves(self, rows: Indices) -> Complex | Floats:
        waves = self.place.waves(self.frequency, rows)
        return waves if self.measured.waves.both else waves.real

    def phases(self, rows: Indices) -> Floats:
        return np.asarray(
            np.multiply.outer(np.abs(rows + self.place.start), np.abs(self.frequency))
        )

    def left(self, reading: Reading) -> Complex | Floats:
        return reading.values(self.measured.cos_first) - self.amplitude * self.unit_waves(
            reading.rows
        )

    def drift(self, rows: Indices) -> Floats:
        """What float32 arithmetic may leave of each row and unit of frequency."""
        return np.asarray(abs(self.amplitude) * DRIFT * (rows + abs(self.place.start)))

    def residual(self, atol: float) -> float | None:
        """The largest that is left of what was measured; None where more is left of a channel than noise, or drift."""
        waves, picked = self.measured.waves, self.measured.picked
        off = self.left(picked)
        noise = waves.noise * (math.sqrt(2) if waves.both else 1)
        drift = np.abs(self.frequency) * float(np.sqrt(np.mean(self.drift(picked.rows) ** 2)))
        limit = (
            ENOUGH * np.maximum(noise, np.quantile(noise, USUAL)) + drift + 1e-7 * self.amplitude
        )
        limit += self.measured.rounding * max(1.0, self.amplitude)
        if (np.sqrt(np.mean(np.abs(off) ** 2, axis=0)) > np.maximum(limit, atol)).any():
            return None
        return float(max(np.abs(off.real).max(), np.abs(off.imag).max()))

    def wrong_rows(self, atol: float) -> Indices:
        reading = self.measured.reading
        left = np.sqrt(np.mean(np.abs(self.left(reading)) ** 2, axis=1))
        drift = self.drift(reading.rows) * float(np.sqrt(np.mean(self.frequency**2)))
        level = float(np.sqrt(np.mean(self.measured.waves.noise**2)))
        rounding = 1e-6 * self.amplitude + self.measured.rounding * max(1.0, self.amplitude)
        return np.flatnonzero(~(left <= np.maximum(4 * level + drift + rounding, atol)))

    def errors(
        self, samples: Samples, wrong: Indices, computed: Explanation | None, *, drifts: bool
    ) -> Errors:
        """What is left of samples, but for rows that are known to be wrong."""
        own, whole = self.measured.reading, next(iter(samples.values())).whole
        reading = own if whole else sinusoid_readings.same_reading(own, samples)
        if reading is None:
            return Errors(np.full(1, math.inf), np.zeros(1))
        if computed is not None and callable(computed.errors):
            return computed.errors(
                recipe_search.reading_samples(reading, self.measured.prior, computed.scheme)
            )
        names = (
            np.arange(len(own.rows)) if whole else reading.rows
        )  # rows that wrap have other numbers
        right = ~np.isin(names, wrong if whole else own.rows[wrong]) if len(wrong) else slice(None)
        rows, values = reading.rows[right], reading.values(self.measured.cos_first)[right]
        drift = abs(self.amplitude) * FLOAT32_PHASE * self.phases(rows) if drifts else 0.0
        return Errors(values - self.amplitude * self.unit_waves(rows), values, drift)

    def explanation(self, judge: Judge) -> Explanation | None:
        """By this proposal, if all but a few rows follow it, and the judge accepts it."""
        time_limit.check_time()
        if (
            self.amplitude != self.usual
            and (right := replace(self, unscaled=True).explanation(judge)) is not None
        ):
            return right  # no factor is needed
        residual = self.residual(judge.atol)
        reading, prior, waves = self.measured.reading, self.measured.prior, self.measured.waves
        sines = prior.one == "sin" if prior else not waves.both and self.place.quarter % 2 == 1
        last = reading.last + (
            sines and reading.last == reading.length - 2
        )  # sines at position 0 are a row of zeros
        place = _, start, order = signs_and_order(self.place, waves.both, last, 3 if sines else 0)
        found = self._difference(prior, place) if prior else self._description(place, sines=sines)
        if residual is None or found is None:
            return None
        scheme, edits, extra = found
        wrong, computed = self.wrong_rows(judge.atol), None
        matters = len(wrong) or residual > RECIPE_MATTERS * max(
            waves.level, 2.0**-24 * self.amplitude
        )
        made = wave_table(scheme) if scheme is not None and matters else None
        if made is not None and math.isclose(made.amplitude, self.amplitude, rel_tol=1e-6):
            computed = recipe_search.explain_reading(scheme, reading, prior)
            wrong, residual = (wrong[:0], computed.residual) if computed else (wrong, residual)
        offset = prior.offset if prior else start
        by = prior.scheme if prior else scheme
        rows, start = order_of_rows(reading, by, offset, start, wrong, reverse=bool(order))
        if rows is None:
            return None
        edits += [*([Parameter("offset", offset, start)] if start != offset else []), *rows]
        if not (prior or computed):  # an explanation that leaves more than the noise costs more
            extra += 0.8 * max(0.0, math.log10(max(residual, 1e-300) / (6 * waves.level + 1e-9)))
        every: list[Explanation] = []
        for way, drifts in ((computed, False), (None, True))[
            : 1 + self.is_written
        ]:  # or by powers of no recipe
            if every and not every[0].beyond:
                break
            made_by = (
                scheme.computed_as(vars(way.edits[0])["found"])
                if scheme is not None and way
                else scheme
            )
            errors = partial(self.errors, wrong=wrong, computed=way, drifts=drifts)
            named = (*edits, *(way.edits if way else ()))
            proposal = Explanation(named, made_by, reading.tensors, errors, extra, self.fit.open)
            every += filter(None, [judge(proposal, None if self.is_written else 0.0)])
        return min(every, key=lambda each: (each.beyond, len(each.edits)), default=None)

    def _difference(
        self, prior: WaveScheme, place: SignsAndOrder
    ) -> tuple[Scheme | None, list[Edit], float]:
        """The scheme, how the table differs from the prior, and what that costs beside the edits. One function, or each
        column once, is no other layout of rotary tables: any check accepts it."""
        (signs, start, order), reading, law = place, self.measured.reading, self.fit.law
        changes = laws.law_edits(prior, law)
        expected, found = prior.form, reading.form
        both = (
            (found.arrangement, expected.arrangement, "alone"),
            (found.doubled, expected.doubled, ""),
        )
        same = all(own == usual or (prior.rotary and own == single) for own, usual, single in both)
        layout = () if same else (Layout(expected.name, found.name),)
        if prior.rotary and layout and reading.is_sinusoidal and signs == (Swapped(),):
            own = self._scheme(max(0, start), rotary=False, cos_first=False)
            return (
                own,
                [*reading.edits, Parameter("scheme", prior.scheme.name, "sinusoidal"), *order],
                self.fit.cost,
            )
        edits = [*reading.edits, *layout, *signs, *changes, *order]
        if reading.length != prior.length and not reading.edits:
            edits.append(Parameter("seq_len", prior.length, reading.length))
        if self.amplitude != self.usual:
            name, usual, value = wave_edit(
                prior.scheme, "amplitude", prior.amplitude, self.amplitude
            )
            edits.append(
                Parameter(name, usual, value) if name else Scaled(self.amplitude / prior.amplitude)
            )
        cos_first = prior.cos_first != (Swapped() in place[0])
        scheme = self._scheme(max(0, start), rotary=prior.rotary, cos_first=cos_first)
        return scheme, edits, max(0.0, self.fit.cost - sum(edit.cost for edit in changes))

    def _scheme(self, start: int, rotary: bool, **more: Any) -> Scheme | None:
        reading, more = self.measured.reading, {"dtype": self.measured.reading.dtype, **more}
        return scheme_of(
            self.fit.law, start, reading.length, self.amplitude, reading.form, rotary, **more
        )

    def _description(
        self, place: SignsAndOrder, *, sines: bool
    ) -> tuple[Scheme | None, list[Edit], float] | None:
        """The same without a prior: how the scheme's table is laid out in the file is in the edits."""
        (signs, start, order), reading, law = place, self.measured.reading, self.fit.law
        both, sinusoidal = self.measured.waves.both, reading.is_sinusoidal
        if start < 0 or law.base < laws.MIN_BASE:
            return None
        more: dict[str, Any] = {}
        if sinusoidal and law.scaling == laws.NO_SCALING:
            zero = np.flatnonzero(sinusoid_readings.empty_rows(reading.parts))
            more = {"padding_idx": int(reading.rows[zero[0]]) + start} if len(zero) == 1 else {}
            more["dim"] = reading.width
        scheme = self._scheme(
            start, rotary=not sinusoidal, cos_first=Swapped() not in signs or not both, **more
        )
        if scheme is None:
            return None
        kept = [edit for edit in signs if not (both and sinusoidal and isinstance(edit, Swapped))]
        edits: list[Edit] = [*reading.edits, *kept, *order]
        made = wave_table(scheme)
        if made is not None and abs(self.amplitude / made.amplitude - 1) > 1e-6:
            edits.append(Scaled(self.amplitude / made.amplitude))
        if not both:
            edits.append(Layout("cos and sin", "sin alone" if sines else "cos alone"))
        elif not sinusoidal and reading.form.arrangement not in ("alone", "stacked"):
            edits.append(Layout("stacked", reading.form.arrangement))
        unusual = "attention_factor" in law.scaling.names() and self.amplitude != self.usual
        return (
            scheme,
            edits,
            self.fit.cost + 0.5 * (start != 0) + 0.05 * (self.amplitude != 1) + 0.3 * unusual,
        )
