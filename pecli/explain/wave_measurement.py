"""Frequency, phase, amplitude and noise of every channel, from the data alone.

Neighbouring rows give a frequency roughly; longer lags sharpen it; a fit over ever more rows ends it, and what that fit
leaves is the noise. Everything later is judged against this noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pecli.engine.arrays import AnyArray, Complex, Floats

QUANTUM = 12**0.5  # steps of rounding in standard deviations of what rounding leaves
FEW_STEPS = 30  # a channel that moves by fewer steps of rounding than this is not known better than to a step
USUAL = 0.75  # the quantile of channels' noise that all have at least: where one does not move, rounding leaves none
MAX_NOISE = 0.025  # of the amplitude: beyond it nothing is a wave
TRIED_CHANNELS = (
    24  # measured first: where none of them is a wave, hardly half of all can be (2⁻²⁴)
)
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
