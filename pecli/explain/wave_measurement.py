"""Frequency, phase, amplitude and noise of every channel, from the data alone.

Neighbouring rows give a frequency roughly; longer lags sharpen it; a fit over ever more rows ends it, and what that fit
leaves is the noise. Everything later is judged against this noise.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pecli.engine.arrays import AnyArray, Complex, Flags, Floats, Indices

QUANTUM = 12**0.5  # steps of rounding in standard deviations of what rounding leaves
FEW_STEPS = 30  # a channel that moves by fewer steps of rounding than this is not known better than to a step
USUAL = 0.75  # the quantile of channels' noise that all have at least: where one does not move, rounding leaves none
MAX_NOISE = 0.025  # of the amplitude: beyond it nothing is a wave
MAX_SIGMAS = 12.0  # of the usual error of a channel: an element that is further off is no wave
MAX_OFF = 0.1  # of the amplitude: an element that is less off is never an outlier
TRIED_CHANNELS = (
    24  # measured first: where none of them is a wave, hardly half of all can be (2⁻²⁴)
)
DRIFT = 4e-6  # relative error of frequencies that float32 arithmetic makes, over hundreds of real tables
MAX_OFFSET = 1 << 24  # positions that a table is taken to start at
SLACK = 6.0  # standard errors that a phase may be off
MAX_START = 1 << 16  # positions that are tried by phases alone
MIN_BITS = 16  # bits of evidence that such a position takes
MAX_TURNS = 1 << 18  # of the slowest channel: of faster waves, offsets are sought no further
MAX_CANDIDATES = 4096
TINY = 1e-300


@dataclass(frozen=True)
class Waves:
    """Waves amplitude · exp(i·(frequency · (row − centre) + phase)), one per channel. Of one function alone (`both` is
    false) the data are the real parts, and frequencies are positive."""

    frequency: Floats
    error: Floats  # one standard error of the frequency
    phase: Floats
    phase_error: Floats
    amplitude: Floats
    noise: Floats  # the standard deviation of what is left, by channel
    centre: float
    rows: int
    both: bool

    @property
    def level(self) -> float:
        """The noise of the whole table, as most channels that move at all have it."""
        return float(np.quantile(self.noise, USUAL))

    @property
    def shared_amplitude(self) -> float:
        """The amplitude that channels share, going by those that turn: in others rounding may be off in all rows."""
        turning = np.abs(self.frequency) * self.rows > 2 * np.pi
        if not turning.any() and not self.both:
            return float(np.median(self.amplitude))
        return float(np.mean(self.amplitude[turning] if turning.any() else self.amplitude))

    @property
    def clean(self) -> bool:
        """Whether the channels are waves at all: most of them with little noise."""
        usual = np.median(self.amplitude)
        return bool(
            usual > 0
            and np.isfinite(self.noise).all()
            and np.median(self.noise) < MAX_NOISE * usual
        )

    def outlying(self, values: Complex | Floats, rows: Floats) -> Flags:
        """Which rows of those that were measured have an element that is no part of the waves."""
        angles = np.multiply.outer(rows - rows[0] - self.centre, self.frequency) + self.phase
        off = np.abs(
            values - self.amplitude * (np.exp(1j * angles) if self.both else np.cos(angles))
        )
        usual = np.maximum(
            MAX_SIGMAS * np.median(off, axis=0), MAX_OFF * float(np.median(self.amplitude))
        )
        return np.asarray((off > usual).any(axis=1))


def wrap(angle: AnyArray) -> Floats:
    """An angle between −π and π."""
    return np.asarray(angle - 2 * np.pi * np.rint(angle / (2 * np.pi)))


def measure(values: Complex | Floats, rows: Floats) -> Waves | None:
    """The waves of (rows, channels): complex numbers hold both functions, real ones one alone. Rows are positions in
    ascending order, of which the first half or so follow each other."""
    gaps = np.diff(rows) != 1
    run = int(np.argmax(gaps)) + 1 if gaps.any() else len(rows)
    if run < 8 or values.ndim != 2 or not values.shape[1] or not np.isfinite(values).all():
        return None
    fit: Callable[..., Waves] = _measure_both if np.iscomplexobj(values) else _measure_one
    with np.errstate(all="ignore"):
        if values.shape[1] > 4 * TRIED_CHANNELS:
            some = np.random.default_rng(0).choice(values.shape[1], TRIED_CHANNELS, replace=False)
            tried = fit(values[:, some], rows, run)
            if (
                tried.noise.min() > MAX_NOISE * tried.amplitude.max()
            ):  # noise: far more than half are no waves
                return None
        return fit(values, rows, run)


def _windows(rows: Floats, run: int) -> list[int]:
    """How many rows to fit at once, more each time: an error of the frequency must not grow to half a turn."""
    counts, last = [run], rows[run - 1] - rows[0] + 1
    while counts[-1] < len(rows):
        last *= 2
        counts.append(max(counts[-1] + 1, int(np.searchsorted(rows - rows[0], last))))
    return counts


def _frequency_by_lags(z: Complex) -> Floats:
    """Return a first estimate of each frequency from consecutive rows, by lags of 1, 2, 4, … rows.

    z[p + k] · conj(z[p]) has the angle k·f, known up to whole turns. The estimate of the shorter
    lag tells which turn it is, and the longer lag divides the error of the angle by k.
    """
    frequency = np.zeros(z.shape[1])
    lag = 1
    while lag <= max(1, len(z) // 2):
        product = (z[lag:] * z[:-lag].conj()).mean(axis=0)
        frequency += wrap(np.angle(product) - lag * frequency) / lag
        lag *= 2
    return frequency


def _measure_both(z: Complex, rows: Floats, run: int) -> Waves:
    """Measure the waves of complex numbers, (rows, channels), whose first `run` rows are consecutive.

    In ever larger windows, the data are turned back by the wave as it is known. The angle of their
    sum corrects the phase, and the slope of the angles that are left, by least squares over the
    rows, corrects the frequency: Δf = Σ (p − p̄)·angle(p) / Σ (p − p̄)².
    """
    frequency = _frequency_by_lags(z[:run])
    phase = np.zeros(z.shape[1])
    centre = 0.0
    for count in _windows(rows, run):
        at = rows[:count] - rows[0]
        turned = z[:count] * np.exp(-1j * (np.multiply.outer(at - centre, frequency) + phase))
        middle = np.angle(turned.sum(axis=0))
        phase = phase + middle + frequency * (at.mean() - centre)
        centre = float(at.mean())
        rest = wrap(np.angle(turned) - middle)
        frequency = frequency + ((at - centre) @ rest) / ((at - centre) ** 2).sum()
    phase = phase + np.angle(
        (z * np.exp(-1j * (np.multiply.outer(at - centre, frequency) + phase))).sum(axis=0)
    )
    unit = np.exp(1j * (np.multiply.outer(at - centre, frequency) + phase))
    amplitude = (z * unit.conj()).real.mean(axis=0)
    noise = np.sqrt((np.abs(z - amplitude * unit) ** 2).mean(axis=0) / 2)
    return _with_errors(frequency, phase, amplitude, noise, at, centre, both=True)


def _with_errors(
    frequency: Floats,
    phase: Floats,
    amplitude: Floats,
    noise: Floats,
    at: Floats,
    centre: float,
    *,
    both: bool,
) -> Waves:
    """Errors from the noise: white where a channel passes many steps of rounding, a step over all rows where not."""
    floor = np.maximum(noise, np.quantile(noise, USUAL))
    size = np.maximum(np.abs(amplitude), TINY)
    spread = np.sqrt(((at - centre) ** 2).sum())
    error, phase_error = floor / size / spread, floor / size / np.sqrt(len(at))
    few = np.abs(frequency) * (at[-1] - at[0]) * size < FEW_STEPS * QUANTUM * floor
    step = np.where(few, QUANTUM * floor / size, 0.0)
    precision = 4e-16 * (1 + np.abs(phase))
    middle = float(round(centre))  # at a whole row, whole turns per row that were lost do not show
    phase, span = phase + frequency * (middle - centre), max(1.0, float(at[-1]))
    error = np.hypot(np.hypot(error, step / (at[-1] - at[0])), precision / span)
    phase_error = np.hypot(np.hypot(phase_error, step / 2), precision)
    return Waves(
        frequency, error, wrap(phase), phase_error, amplitude, noise, middle, len(at), both
    )


def _measure_one(x: Floats, rows: Floats, run: int) -> Waves:
    """x[p + k] + x[p − k] = 2·cos(k·f)·x[p] gives f; then least squares for f and x = a·cos + b·sin."""
    frequency = _from_sums(x[:run])
    for count in _windows(rows, run):
        at = rows[:count] - rows[0]
        centre, most = float(at.mean()), np.pi / (2 * at[-1])
        a, b = np.zeros((2, x.shape[1]))
        for _ in range(9):  # the first step gives a and b, those after it f, too
            cos, sin = _waves(at - centre, frequency)
            left, slope = (
                x[:count] - a * cos - b * sin,
                (at - centre)[:, None] * (b * cos - a * sin),
            )
            (more_a, more_b, move), _ = _least_squares((cos, sin, slope), left)
            a, b, frequency = a + more_a, b + more_b, frequency + np.clip(move, -most, most)
    cos, sin = _waves(at - centre, frequency)
    (a, b), _ = _least_squares((cos, sin), x)
    amplitude, phase = np.hypot(a, b), np.arctan2(-b, a)
    slow = np.abs(frequency) * (at[-1] + 1) < 2 * np.pi
    if (
        slow.any() and not slow.all()
    ):  # channels that do not turn once: their amplitude is that of the others
        amplitude[slow] = shared = float(np.median(amplitude[~slow]))
        for _ in range(12):
            cos, sin = _waves(at - centre, frequency[slow], phase[slow])
            slope = -shared * sin
            (move, turn), _ = _least_squares(
                (slope * (at - centre)[:, None], slope), x[:, slow] - shared * cos
            )
            frequency[slow] += np.clip(move, -0.5 / at[-1], 0.5 / at[-1])
            phase[slow] += np.clip(turn, -0.5, 0.5)
    unit, slope = _waves(at - centre, frequency, phase)
    noise = np.sqrt(((x - amplitude * unit) ** 2).mean(axis=0))
    found = _with_errors(frequency, phase, amplitude, noise, at, centre, both=False)
    floor = np.maximum(noise, np.quantile(noise, USUAL))
    _, variances = _least_squares(
        (slope * (at - centre)[:, None], slope), x
    )  # a cosine near its top tells them badly
    errors = np.sqrt(variances) * floor / np.maximum(np.abs(amplitude), TINY)
    steps = np.ptp(x, axis=0) / np.maximum(QUANTUM * floor, TINY)
    errors = np.where(
        steps < 3, np.pi, np.where(steps < FEW_STEPS, 4 * errors, errors)
    )  # below 3 nothing is seen
    return replace(
        found,
        frequency=np.abs(frequency),
        error=np.maximum(found.error, errors[0]),
        phase=wrap(np.where(frequency < 0, -found.phase, found.phase)),
        phase_error=np.maximum(found.phase_error, errors[1]),
    )


def _waves(at: Floats, frequency: Floats, phase: Floats | float = 0.0) -> tuple[Floats, Floats]:
    angle = np.multiply.outer(at, frequency) + phase
    return np.cos(angle), np.sin(angle)


def _least_squares(columns: Sequence[Floats], left: Floats) -> tuple[Floats, Floats]:
    """What times each of some (rows, channels) comes nearest to what is left of each channel, and the variances of
    these numbers at noise of 1; nothing along directions that the rows do not tell apart."""
    size = [np.sqrt((column**2).sum(axis=0)) + TINY for column in columns]
    unit = [column / length for column, length in zip(columns, size, strict=True)]
    normal = np.array([[(one * other).sum(axis=0) for other in unit] for one in unit])
    inverse = np.linalg.pinv(np.moveaxis(normal, -1, 0), rcond=1e-12, hermitian=True)
    right = np.stack([(column * left).sum(axis=0) for column in unit], axis=-1)
    moves = (inverse @ right[..., None])[..., 0].T / size
    return moves, np.maximum(np.diagonal(inverse, axis1=1, axis2=2).T, 0) / np.square(size)


def _from_sums(x: Floats) -> Floats:
    """A first estimate of each frequency, by lags that grow while they help."""
    count, frequency, doubt = len(x), np.zeros(x.shape[1]), np.full(x.shape[1], np.inf)
    lag = 1
    while lag <= max(1, count // 3):
        middle, around = x[lag:-lag], x[2 * lag :] + x[: -2 * lag]
        power = np.maximum((middle**2).sum(axis=0), TINY)
        cosine = np.clip((around * middle).sum(axis=0) / (2 * power), -1, 1)
        angle = np.arccos(cosine)
        left = ((around - 2 * cosine * middle) ** 2).sum(axis=0)
        unsure = np.sqrt(left / power / max(1, len(middle))) / np.maximum(np.sin(angle), 1e-3) / lag
        turns = lag * frequency
        forward, backward = wrap(angle - turns), wrap(-angle - turns)
        nearer = turns + np.where(np.abs(forward) <= np.abs(backward), forward, backward)
        better = unsure < doubt
        frequency = np.where(better, angle if lag == 1 else nearer / lag, frequency)
        doubt = np.where(better, unsure, doubt)
        lag *= 2
    return np.asarray(frequency)


def anchored(waves: Waves, values: Complex, rows: Floats) -> tuple[Waves, int] | None:
    """The position of row 0 that all phases agree on, whatever law the frequencies follow, and the waves with
    frequencies by the angles from position 0 on, which are sharper; None where phases may agree by chance."""
    starts, centre = np.arange(MAX_START), rows[0] + waves.centre
    known = np.flatnonzero(np.abs(waves.frequency) > 4 * waves.error)
    for k in known[np.argsort(waves.error[known])]:
        slack = SLACK * (waves.phase_error[k] + waves.error[k] * (centre + starts)) + 1e-6
        starts = starts[
            np.abs(wrap(waves.frequency[k] * (centre + starts) - waves.phase[k])) <= slack
        ]
    start = int(starts[0]) if len(starts) else 0
    chances = SLACK * (waves.phase_error + waves.error * (centre + start))[known] / np.pi
    if not len(starts) or -np.log2(np.minimum(chances, 1)).sum() < MIN_BITS + np.log2(1 + start):
        return None
    at, frequency = rows + start, waves.frequency
    for _ in range(2):
        left = np.angle(values * np.exp(-1j * np.multiply.outer(at, frequency)))
        frequency = frequency + at @ left / (at @ at)
    error, phase = (
        waves.phase_error * np.sqrt(len(at) / (at @ at)),
        wrap(frequency * (centre + start)),
    )
    return replace(waves, frequency=frequency, error=error, phase=phase), start


@dataclass(frozen=True)
class Place:
    """Where rows are: angle = frequency · direction · (row + start) + quarter · π/2."""

    direction: int
    quarter: int
    start: int

    def angles(self, frequency: Floats, rows: Indices) -> Floats:
        angles = np.multiply.outer(self.direction * (rows + self.start), frequency)
        return np.asarray(angles + self.quarter * math.pi / 2)

    def waves(self, frequency: Floats, rows: Indices) -> Complex:
        """cos + i·sin of the angles: of consecutive rows by products of a few, which is ten times faster."""
        step = math.isqrt(len(rows))
        if step < 2 or (np.diff(rows) != 1).any():
            return np.asarray(np.exp(1j * self.angles(frequency, rows)))
        turns = np.exp(1j * np.multiply.outer(self.direction * np.arange(step), frequency))
        products = np.exp(1j * self.angles(frequency, rows[::step]))[:, None] * turns
        return np.asarray(products.reshape(-1, len(frequency))[: len(rows)])


def agreeing_places(
    waves: Waves,
    frequency: Floats,
    centre: float,
    direction: int,
    quarters: Sequence[int],
    length: int,
) -> Iterator[Place]:
    """Starts at which all phases agree, the smallest first: the slowest channel leaves few, each faster one fewer."""
    known = np.flatnonzero((waves.phase_error < 0.3) & (frequency != 0))
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


def _agreeing(
    frequency: Floats, phase: Floats, error: Floats, order: Indices, least: float
) -> list[float]:
    """Positions from `least` to MAX_OFFSET at which frequency · position is the phase of all channels."""
    turn, slow = 2 * math.pi, float(frequency[order[0]])
    low, high = sorted((slow * least - phase[order[0]], slow * MAX_OFFSET - phase[order[0]]))
    if not math.isfinite(high - low):
        return []
    low, high = (
        (low, min(high, low + MAX_TURNS * turn))
        if slow > 0
        else (max(low, high - MAX_TURNS * turn), high)
    )
    at = (
        phase[order[0]] + turn * np.arange(math.ceil(low / turn), math.floor(high / turn) + 1)
    ) / slow
    width = (SLACK * error[order[0]] + 1e-3) / abs(slow)
    for k in order[1:]:
        one, slack = float(frequency[k]), SLACK * float(error[k]) + 1e-3
        branches = np.arange(-3, 4) if width * abs(one) > math.pi else np.zeros(1)
        nearest = np.rint((one * at - phase[k]) / turn)
        options = (phase[k] + turn * (nearest[:, None] + branches)) / one
        room = width + (slack + abs(one) * DRIFT * np.abs(at)[:, None]) / abs(one)
        chosen = options[np.abs(options - at[:, None]) <= room]
        if len(chosen):
            at, width = (
                chosen[np.argsort(np.abs(chosen))][:MAX_CANDIDATES],
                min(width, slack / abs(one)),
            )
    return [float(each) for each in at[:8]]
