"""Frequency, phase, amplitude and noise of every channel, from the data alone.

Neighbouring rows give a frequency roughly; products over growing lags sharpen it; one linear fit of the angle over all
rows ends it, and what that fit leaves is the noise. Everything later is judged against this noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pecli.engine.arrays import AnyArray, Complex, Floats, Indices

QUANTUM = 12**0.5
"""Steps of rounding in standard deviations of what rounding leaves."""
FEW_STEPS = 30
"""A channel that moves by fewer steps of rounding than this is not known better than to a step."""
USUAL = 0.75
"""The quantile of the channels' noise that all have at least: rounding leaves none where a channel does not move."""
MAX_NOISE = 0.025
"""Of the amplitude: beyond it nothing is a wave."""
TRIED_CHANNELS = 24
"""Measured first: where none of them is a wave, hardly half of all can be (2⁻²⁴)."""
DRIFT = 4e-6
"""Relative error of frequencies that float32 arithmetic makes, over hundreds of real tables."""
MAX_OFFSET = 1 << 24
"""Positions that a table is taken to start at."""
SLACK = 6.0
"""Standard errors that a phase may be off."""
MAX_START, MIN_BITS = 1 << 16, 16
"""First positions that phases alone are tried for, and the bits of evidence that one takes beyond its own."""
MAX_TURNS = 1 << 18
"""Of the slowest channel: of faster waves, offsets are sought no further."""
MAX_CANDIDATES = 4096


@dataclass(frozen=True)
class Waves:
    """Waves amplitude · exp(i·(frequency · (row − centre) + phase)), one per channel.

    Of one function alone (`both` is false) the data are the real parts, and frequencies are positive.
    """

    frequency: Floats
    error: Floats
    """One standard error of the frequency."""
    phase: Floats
    phase_error: Floats
    amplitude: Floats
    noise: Floats
    """The standard deviation of what is left, by channel."""
    centre: float
    rows: int
    both: bool

    @property
    def count(self) -> int:
        return len(self.frequency)

    @property
    def level(self) -> float:
        """The noise of the whole table, as most channels that move at all have it."""
        return float(np.quantile(self.noise, USUAL))

    @property
    def shared_amplitude(self) -> float:
        """The amplitude that the channels share, as those that turn say: in others rounding may be off the same way in
        all rows.
        """
        turning = np.abs(self.frequency) * self.rows > 2 * np.pi
        if not turning.any() and not self.both:
            return float(np.median(self.amplitude))
        return float(np.mean(self.amplitude[turning] if turning.any() else self.amplitude))

    @property
    def clean(self) -> bool:
        """Whether the channels are waves at all: most of them with little noise."""
        usual = np.median(self.amplitude)
        return bool(usual > 0 and np.isfinite(self.noise).all() and np.median(self.noise) < MAX_NOISE * usual)


def wrap(angle: AnyArray) -> Floats:
    """An angle between −π and π."""
    return np.asarray(angle - 2 * np.pi * np.rint(angle / (2 * np.pi)))


def measure(values: Complex | Floats, rows: Floats) -> Waves | None:
    """The waves of (rows, channels): complex numbers hold both functions, real ones one alone.

    Rows are positions in ascending order, of which the first half or so follow each other.
    """
    run = _run(rows)
    if run < 8 or values.ndim != 2 or not values.shape[1] or not np.isfinite(values).all():
        return None
    with np.errstate(all="ignore"):
        if values.shape[1] > 4 * TRIED_CHANNELS:
            some = np.random.default_rng(0).choice(values.shape[1], TRIED_CHANNELS, replace=False)
            tried = _measure(values[:, some], rows, run)
            if tried.noise.min() > MAX_NOISE * tried.amplitude.max():  # noise: far more than half are no waves
                return None
        return _measure(values, rows, run)


def _measure(values: Complex | Floats, rows: Floats, run: int) -> Waves:
    if np.iscomplexobj(values):
        return _measure_both(np.asarray(values, np.complex128), rows, run)
    return _measure_one(values.real, rows, run)


def _run(rows: Floats) -> int:
    """How many rows follow each other from the first on."""
    steps = np.diff(rows) != 1
    return int(np.argmax(steps)) + 1 if steps.any() else len(rows)


def _windows(rows: Floats, run: int) -> list[int]:
    """How many rows to fit at once, more each time: an error of the frequency must not grow to half a turn."""
    counts, last = [run], rows[run - 1] - rows[0] + 1
    while counts[-1] < len(rows):
        last *= 2
        counts.append(max(counts[-1] + 1, int(np.searchsorted(rows - rows[0], last))))
    return counts


def _measure_both(z: Complex, rows: Floats, run: int) -> Waves:
    head = z[:run]
    frequency, lag = np.zeros(z.shape[1]), 1
    while lag <= max(1, run // 2):
        product = (head[lag:] * head[:-lag].conj()).mean(axis=0)
        frequency += wrap(np.angle(product) - lag * frequency) / lag
        lag *= 2
    phase, centre = np.zeros(z.shape[1]), 0.0
    for count in _windows(rows, run):
        at = rows[:count] - rows[0]
        turned = z[:count] * np.exp(-1j * (np.multiply.outer(at - centre, frequency) + phase))
        middle = np.angle(turned.sum(axis=0))
        phase = phase + middle + frequency * (at.mean() - centre)
        centre = float(at.mean())
        rest = wrap(np.angle(turned) - middle)
        moved = ((at - centre) @ rest) / ((at - centre) ** 2).sum()
        frequency = frequency + moved
    phase = phase + np.angle((z * np.exp(-1j * (np.multiply.outer(at - centre, frequency) + phase))).sum(axis=0))
    unit = np.exp(1j * (np.multiply.outer(at - centre, frequency) + phase))
    amplitude = (z * unit.conj()).real.mean(axis=0)
    left = z - amplitude * unit
    noise = np.sqrt((np.abs(left) ** 2).mean(axis=0) / 2)
    return _with_errors(frequency, phase, amplitude, noise, at, centre, both=True)


def _with_errors(
    frequency: Floats, phase: Floats, amplitude: Floats, noise: Floats, at: Floats, centre: float, *, both: bool
) -> Waves:
    """Errors from the noise: white where a channel passes many steps of rounding, a step over all rows where not."""
    floor = np.maximum(noise, np.quantile(noise, USUAL))
    size = np.maximum(np.abs(amplitude), 1e-300)
    spread = np.sqrt(((at - centre) ** 2).sum())
    error, phase_error = floor / size / spread, floor / size / np.sqrt(len(at))
    few = np.abs(frequency) * (at[-1] - at[0]) * size < FEW_STEPS * QUANTUM * floor
    step = QUANTUM * floor / size
    error = np.where(few, np.hypot(error, step / (at[-1] - at[0])), error)
    phase_error = np.where(few, np.hypot(phase_error, step / 2), phase_error)
    precision = 4e-16 * (1 + np.abs(phase))
    middle = float(round(centre))  # at a whole row, whole turns per row that were lost do not show
    phase, centre = phase + frequency * (middle - centre), middle
    error = np.hypot(error, precision / max(1.0, float(at[-1])))
    phase_error = np.hypot(phase_error, precision)
    return Waves(frequency, error, wrap(phase), phase_error, amplitude, noise, centre, len(at), both)


def _measure_one(x: Floats, rows: Floats, run: int) -> Waves:
    """x[p + k] + x[p − k] = 2·cos(k·f)·x[p] gives f; then least squares for f, phase and amplitude."""
    frequency = _from_sums(x[:run])
    for count in _windows(rows, run):
        at = rows[:count] - rows[0]
        centre = float(at.mean())
        for _ in range(8):
            frequency = frequency + _step(x[:count], at - centre, frequency, np.pi / (2 * at[-1]))
    angle = np.multiply.outer(at - centre, frequency)
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = _two(x, cos, sin)
    amplitude, phase = np.hypot(a, b), np.arctan2(-b, a)
    slow = np.abs(frequency) * (at[-1] + 1) < 2 * np.pi
    if slow.any() and not slow.all():
        shared = float(np.median(amplitude[~slow]))
        start = frequency[slow], phase[slow]
        frequency[slow], phase[slow] = _slow(x[:, slow], at - centre, shared, *start)
        amplitude[slow] = shared
    unit = np.cos(np.multiply.outer(at - centre, frequency) + phase)
    slope = np.sin(np.multiply.outer(at - centre, frequency) + phase)
    noise = np.sqrt(((x - amplitude * unit) ** 2).mean(axis=0))
    found = _with_errors(frequency, phase, amplitude, noise, at, centre, both=False)
    wide, unsure = _joint_errors(found, slope, at - centre)
    steps = np.ptp(x, axis=0) / np.maximum(QUANTUM * np.maximum(noise, np.quantile(noise, USUAL)), 1e-300)
    wide, unsure = (np.where(steps < FEW_STEPS, 4 * error, error) for error in (wide, unsure))
    wide, unsure = (np.where(steps < 3, np.pi, error) for error in (wide, unsure))  # nothing to be seen
    return replace(
        found,
        frequency=np.abs(frequency),
        error=np.maximum(found.error, wide),
        phase=wrap(np.where(frequency < 0, -found.phase, found.phase)),
        phase_error=np.maximum(found.phase_error, unsure),
    )


def _joint_errors(found: Waves, slope: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Errors of frequency and phase that are fitted together: a cosine near its top tells them badly apart."""
    one, two, three = _moments(slope, at)
    determinant = np.maximum(one * three - two**2, 1e-300)
    floor = np.maximum(found.noise, np.quantile(found.noise, USUAL)) / np.maximum(np.abs(found.amplitude), 1e-300)
    return np.asarray(floor * np.sqrt(one / determinant)), np.asarray(floor * np.sqrt(three / determinant))


def _from_sums(x: Floats) -> Floats:
    """A first estimate of each frequency, by lags that grow while they help."""
    count, frequency, doubt = len(x), np.zeros(x.shape[1]), np.full(x.shape[1], np.inf)
    lag = 1
    while lag <= max(1, count // 3):
        middle = x[lag:-lag]
        power = np.maximum((middle**2).sum(axis=0), 1e-300)
        cosine = np.clip(((x[2 * lag :] + x[: -2 * lag]) * middle).sum(axis=0) / (2 * power), -1, 1)
        angle = np.arccos(cosine)
        left = x[2 * lag :] + x[: -2 * lag] - 2 * cosine * middle
        unsure = np.sqrt((left**2).sum(axis=0) / power / max(1, len(middle))) / np.maximum(np.sin(angle), 1e-3) / lag
        if lag == 1:
            candidate = angle
        else:
            turns = lag * frequency
            near = np.stack([turns + wrap(angle - turns), turns + wrap(-angle - turns)])
            candidate = near[np.argmin(np.abs(near - turns), axis=0), np.arange(x.shape[1])] / lag
        better = unsure < doubt
        frequency, doubt = np.where(better, candidate, frequency), np.where(better, unsure, doubt)
        lag *= 2
    return np.asarray(frequency)


def _two(x: Floats, cos: Floats, sin: Floats) -> tuple[Floats, Floats]:
    """x as a·cos + b·sin, by least squares."""
    cc, ss, cs = (cos**2).sum(axis=0), (sin**2).sum(axis=0), (cos * sin).sum(axis=0)
    xc, xs = (x * cos).sum(axis=0), (x * sin).sum(axis=0)
    determinant = cc * ss - cs**2
    safe = np.where(np.abs(determinant) > 1e-12 * cc * np.maximum(ss, 1e-300), determinant, np.inf)
    a, b = (xc * ss - xs * cs) / safe, (xs * cc - xc * cs) / safe
    flat = ~np.isfinite(safe)
    return np.where(flat, xc / np.maximum(cc, 1e-300), a), np.where(flat, 0.0, b)


def _step(x: Floats, at: Floats, frequency: Floats, most: float) -> Floats:
    """The Gauss–Newton step of a frequency, amplitude and phase being fitted at the same time."""
    angle = np.multiply.outer(at, frequency)
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = _two(x, cos, sin)
    left = x - a * cos - b * sin
    slope = at[:, None] * (b * cos - a * sin)
    c, s = _two(slope, cos, sin)
    slope = slope - c * cos - s * sin
    power = (slope**2).sum(axis=0)
    move = np.where(power > 1e-14 * len(at), (slope * left).sum(axis=0) / np.maximum(power, 1e-300), 0.0)
    return np.asarray(np.clip(move, -most, most))


def _slow(x: Floats, at: Floats, amplitude: float, frequency: Floats, phase: Floats) -> tuple[Floats, Floats]:
    """Frequency and phase of channels that do not turn once, their amplitude being that of the others: least squares
    from the free fit, and from a line through the arc cosines; the better of the two.
    """
    angle = np.arccos(np.clip(x / amplitude, -1, 1)) * np.where(x[-1] > x[0], -1.0, 1.0)
    slope = at @ angle / (at**2).sum()
    tries = [_refined(x, at, amplitude, *start) for start in ((frequency, phase), (slope, angle.mean(axis=0)))]
    left = [((x - amplitude * np.cos(np.multiply.outer(at, f) + p)) ** 2).sum(axis=0) for f, p in tries]
    first = np.nan_to_num(left[0], nan=np.inf) <= np.nan_to_num(left[1], nan=np.inf)
    return np.where(first, tries[0][0], tries[1][0]), np.where(first, tries[0][1], tries[1][1])


def _refined(x: Floats, at: Floats, amplitude: float, frequency: Floats, phase: Floats) -> tuple[Floats, Floats]:
    for _ in range(12):
        turned = np.multiply.outer(at, frequency) + phase
        left, slope = x - amplitude * np.cos(turned), -amplitude * np.sin(turned)
        one, two, three = _moments(slope, at)
        here, there = (left * slope).sum(axis=0), (left * slope * at[:, None]).sum(axis=0)
        determinant = one * three - two**2
        safe = np.where(determinant > 1e-12 * one * np.maximum(three, 1e-300), determinant, np.inf)
        phase = phase + np.clip((here * three - there * two) / safe, -0.5, 0.5)
        frequency = frequency + np.clip((there * one - here * two) / safe, -0.5 / at[-1], 0.5 / at[-1])
    return np.asarray(frequency), np.asarray(phase)


def _moments(slope: Floats, at: Floats) -> tuple[Floats, Floats, Floats]:
    """Sums of slope² · at^k for k = 0, 1, 2."""
    square = slope**2
    return square.sum(axis=0), (square * at[:, None]).sum(axis=0), (square * at[:, None] ** 2).sum(axis=0)


def anchored(waves: Waves, values: Complex, rows: Floats) -> tuple[Waves, int] | None:
    """The position of row 0 that all phases agree on, whatever law the frequencies follow, and the waves with
    frequencies by the angles from position 0 on, which are sharper; None where phases may agree by chance.
    """
    starts, centre = np.arange(MAX_START), rows[0] + waves.centre
    known = np.flatnonzero(np.abs(waves.frequency) > 4 * waves.error)
    for k in known[np.argsort(waves.error[known])]:
        slack = SLACK * (waves.phase_error[k] + waves.error[k] * (centre + starts)) + 1e-6
        starts = starts[np.abs(wrap(waves.frequency[k] * (centre + starts) - waves.phase[k])) <= slack]
    start = int(starts[0]) if len(starts) else 0
    chances = SLACK * (waves.phase_error + waves.error * (centre + start))[known] / np.pi
    if not len(starts) or -np.log2(np.minimum(chances, 1)).sum() < MIN_BITS + np.log2(1 + start):
        return None
    at, frequency = rows + start, waves.frequency
    for _ in range(2):
        left = np.angle(values * np.exp(-1j * np.multiply.outer(at, frequency)))
        frequency = frequency + at @ left / (at @ at)
    error, phase = waves.phase_error * np.sqrt(len(at) / (at @ at)), wrap(frequency * (centre + start))
    return replace(waves, frequency=frequency, error=error, phase=phase), start


@dataclass(frozen=True)
class Place:
    """Where rows are: angle = frequency · direction · (row + start) + quarter · π/2."""

    direction: int
    quarter: int
    start: int

    def angles(self, frequency: Floats, rows: Floats) -> Floats:
        angles = np.multiply.outer(self.direction * (rows + self.start), frequency)
        return np.asarray(angles + self.quarter * math.pi / 2)


def agreeing_places(
    waves: Waves, frequency: Floats, centre: float, direction: int, quarters: Sequence[int], length: int
) -> Iterator[Place]:
    """Starts at which all phases agree, the smallest first: the slowest channel leaves few, each faster one fewer."""
    known = np.flatnonzero((waves.phase_error < 0.3) & (np.abs(frequency) * MAX_OFFSET > 1))
    order = known[np.argsort(np.abs(frequency[known]))]
    if len(order) < 2:
        return
    found: set[tuple[int, Place]] = set()
    signs = (1, -1) if not waves.both else (1,)
    for quarter in quarters:
        for sign in signs:  # of one function alone, either sign of the phase
            phase = direction * (sign * waves.phase - quarter * math.pi / 2)
            for at in _agreeing(frequency, phase, waves.phase_error, order, centre - length - 4096):
                start = round(at - centre)
                if abs(at - centre - start) < 0.3:
                    found.add((abs(start), Place(direction, quarter, start)))
    yield from (place for _, place in sorted(found, key=lambda each: each[0]))


def _agreeing(frequency: Floats, phase: Floats, error: Floats, order: Indices, least: float) -> list[float]:
    """Positions from `least` to MAX_OFFSET at which frequency · position is the phase of all channels."""
    turn, slow = 2 * math.pi, float(frequency[order[0]])
    low, high = sorted((slow * least - phase[order[0]], slow * MAX_OFFSET - phase[order[0]]))
    if not math.isfinite(high - low):
        return []
    low, high = (low, min(high, low + MAX_TURNS * turn)) if slow > 0 else (max(low, high - MAX_TURNS * turn), high)
    at = (phase[order[0]] + turn * np.arange(math.ceil(low / turn), math.floor(high / turn) + 1)) / slow
    width = (SLACK * error[order[0]] + 1e-3) / abs(slow)
    for k in order[1:]:
        one, slack = float(frequency[k]), SLACK * float(error[k]) + 1e-3
        branches = np.arange(-3, 4) if width * abs(one) > math.pi else np.zeros(1)
        nearest = np.rint((one * at - phase[k]) / turn)
        options = (phase[k] + turn * (nearest[:, None] + branches)) / one
        room = width + (slack + abs(one) * DRIFT * np.abs(at)[:, None]) / abs(one)
        chosen = options[np.abs(options - at[:, None]) <= room]
        if len(chosen):
            at, width = chosen[np.argsort(np.abs(chosen))][:MAX_CANDIDATES], min(width, slack / abs(one))
    return [float(each) for each in at[:8]]
