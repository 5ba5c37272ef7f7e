"""Frequency, phase, amplitude and noise of every channel, measured from the data alone.

Neighbouring rows give a rough frequency, longer lags sharpen it, and least squares over ever more rows end it. What the
last fit leaves is the noise, against which everything later is judged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray, Complex, Flags, Floats

MIN_RUN = 8
"""Consecutive rows from which a frequency can be measured."""

STEP_IN_SIGMAS = 12**0.5
"""A step of rounding, in standard deviations of what it leaves: errors are uniform within ± half a step."""

FEW_STEPS = 30
"""Steps of rounding that a channel must pass for its errors to average out; of fewer, all rows may err to one side."""

INVISIBLE_STEPS = 3
"""Steps of rounding below which the course of a single function cannot be seen at all."""

FEW_STEPS_PENALTY = 4
"""Factor on the standard errors of a single function that passes few steps: these are not independent."""

COMMON_QUANTILE = 0.75
"""Quantile of the channels' noise that every channel is given at least: slow channels often show none by chance."""

MAX_NOISE = 0.025
"""Noise as a share of the amplitude, beyond which a channel is not a wave."""

TRIED_CHANNELS = 24
"""Channels of a wide table that are measured first: if none of them is a wave, more than half of all are hardly (2⁻²⁴)."""

FLOAT64_ERROR = 4e-16
"""Relative error of phases in float64, two units of the last place."""

FIT_STEPS = 9
"""Gauss-Newton steps per window: the first gives cosine and sine parts, later ones also the frequency."""

SLOW_FIT_STEPS = 12
"""Gauss-Newton steps for channels of less than one turn, which converge more slowly."""

SINGULAR = 1e-12
"""Share of the largest eigenvalue below which rows do not distinguish two parameters of a fit."""

TINY = 1e-300


@dataclass(frozen=True)
class Waves:
    """Waves amplitude · exp(i·(frequency · (row − centre) + phase)), one per channel.

    If the data hold only one function (`both` is false), they are the real parts, and frequencies are positive.
    """

    frequency: Floats
    error: Floats  # one standard error of the frequency
    phase: Floats
    phase_error: Floats
    amplitude: Floats
    noise: Floats  # the standard deviation of what is left, per channel
    centre: float
    rows: int
    both: bool

    @property
    def shared_amplitude(self) -> float:
        """The mean amplitude of the channels that turn at least once: rounding may move the others to one side."""
        is_turning = np.abs(self.frequency) * self.rows > 2 * np.pi
        if is_turning.any():
            return float(np.mean(self.amplitude[is_turning]))
        if self.both:
            return float(np.mean(self.amplitude))
        return float(np.median(self.amplitude))

    @property
    def clean(self) -> bool:
        """True if most channels are waves with little noise."""
        usual = np.median(self.amplitude)
        if usual <= 0 or not np.isfinite(self.noise).all():
            return False
        return bool(np.median(self.noise) < MAX_NOISE * usual)


class WaveFit(NamedTuple):
    """Waves that least squares found, one per channel, and the rows that they were fitted to."""

    frequency: Floats
    phase: Floats
    amplitude: Floats
    noise: Floats
    at: Floats  # rows, counted from the first
    centre: float

    @property
    def common_noise(self) -> Floats:
        """The noise of each channel, at least that of most channels."""
        return np.maximum(self.noise, np.quantile(self.noise, COMMON_QUANTILE))


def wrap(angle: AnyArray) -> Floats:
    """Return an angle between −π and π, whole turns apart."""
    return np.asarray(angle - 2 * np.pi * np.rint(angle / (2 * np.pi)))


def measure(values: Complex | Floats, rows: Floats) -> Waves | None:
    """Measure the waves of (rows, channels); None if there are too few rows, or if most channels are noise.

    Args:
        values: Complex numbers hold cosines and sines, real ones only one of them.
        rows: Positions in ascending order, of which the first half or so are consecutive.
    """
    run = _first_run(rows)
    if run < MIN_RUN or values.ndim != 2 or not values.shape[1] or not np.isfinite(values).all():
        return None
    fit: Callable[..., Waves] = _measure_both if np.iscomplexobj(values) else _measure_one
    with np.errstate(all="ignore"):
        if values.shape[1] > 4 * TRIED_CHANNELS:
            some = np.random.default_rng(0).choice(values.shape[1], TRIED_CHANNELS, replace=False)
            tried = fit(values[:, some], rows, run)
            if tried.noise.min() > MAX_NOISE * tried.amplitude.max():
                return None
        return fit(values, rows, run)


def _first_run(rows: Floats) -> int:
    """Return how many rows are consecutive, from the first one on."""
    has_gap = np.diff(rows) != 1
    return int(np.argmax(has_gap)) + 1 if has_gap.any() else len(rows)


def _windows(rows: Floats, run: int) -> list[int]:
    """Return how many rows to fit at once: the run, then twice as far each time, then all.

    A frequency from a window of n rows is known so well that its error does not grow to half a turn over 2n rows.
    """
    counts = [run]
    last = rows[run - 1] - rows[0] + 1
    while counts[-1] < len(rows):
        last *= 2
        counts.append(max(counts[-1] + 1, int(np.searchsorted(rows - rows[0], last))))
    return counts


def _angles(offsets: Floats, frequency: Floats, phase: Floats | float = 0.0) -> Floats:
    """Return the angles (rows, channels) of waves at some distances from their centre."""
    return np.asarray(np.multiply.outer(offsets, frequency) + phase)


def _measure_both(z: Complex, rows: Floats, run: int) -> Waves:
    """Measure the waves of complex numbers, (rows, channels), whose first `run` rows are consecutive.

    In ever larger windows, the data are turned back by the wave as it is known. The angle of their sum corrects the
    phase, and the slope of the angles that are left, by least squares over the rows, corrects the frequency:
    Δf = Σ (p − p̄)·angle(p) / Σ (p − p̄)².
    """
    frequency = _frequency_by_lags(z[:run])
    phase = np.zeros(z.shape[1])
    centre = 0.0
    for count in _windows(rows, run):
        at = rows[:count] - rows[0]
        turned_back = z[:count] * np.exp(-1j * _angles(at - centre, frequency, phase))
        middle = np.angle(turned_back.sum(axis=0))
        phase = phase + middle + frequency * (at.mean() - centre)
        centre = float(at.mean())
        rest = wrap(np.angle(turned_back) - middle)
        frequency = frequency + ((at - centre) @ rest) / ((at - centre) ** 2).sum()
    turned_back = z * np.exp(-1j * _angles(at - centre, frequency, phase))
    phase = phase + np.angle(turned_back.sum(axis=0))
    unit = np.exp(1j * _angles(at - centre, frequency, phase))
    amplitude = (z * unit.conj()).real.mean(axis=0)
    noise = np.sqrt((np.abs(z - amplitude * unit) ** 2).mean(axis=0) / 2)
    return _with_errors(WaveFit(frequency, phase, amplitude, noise, at, centre), both=True)


def _frequency_by_lags(z: Complex) -> Floats:
    """Return a first estimate of each frequency from consecutive rows, by lags of 1, 2, 4, … rows.

    z[p + k] · conj(z[p]) has the angle k·f, known up to whole turns. The estimate of the shorter lag selects the turn,
    and the longer lag divides the error of the angle by k.
    """
    frequency = np.zeros(z.shape[1])
    lag = 1
    while lag <= max(1, len(z) // 2):
        product = (z[lag:] * z[:-lag].conj()).mean(axis=0)
        frequency += wrap(np.angle(product) - lag * frequency) / lag
        lag *= 2
    return frequency


def _with_errors(fit: WaveFit, *, both: bool) -> Waves:
    """Return waves with the standard errors that follow from their noise.

    If a channel passes many steps of rounding, the errors of its rows are independent, and average out. If it passes
    few, all rows may err by a step to the same side.
    """
    noise = fit.common_noise
    size = np.maximum(np.abs(fit.amplitude), TINY)
    offsets = fit.at - fit.centre
    length = fit.at[-1] - fit.at[0]
    independent_error = noise / size / np.sqrt((offsets**2).sum())
    independent_phase_error = noise / size / np.sqrt(len(fit.at))
    passes_few_steps = np.abs(fit.frequency) * length * size < FEW_STEPS * STEP_IN_SIGMAS * noise
    step = np.where(passes_few_steps, STEP_IN_SIGMAS * noise / size, 0.0)
    precision = FLOAT64_ERROR * (1 + np.abs(fit.phase))
    error = np.hypot(
        np.hypot(independent_error, step / length), precision / max(1.0, float(fit.at[-1]))
    )
    phase_error = np.hypot(np.hypot(independent_phase_error, step / 2), precision)
    # Frequencies are known up to whole turns per row, which change no phase at a whole row.
    middle_row = float(round(fit.centre))
    phase = fit.phase + fit.frequency * (middle_row - fit.centre)
    return Waves(
        fit.frequency,
        error,
        wrap(phase),
        phase_error,
        fit.amplitude,
        fit.noise,
        middle_row,
        len(fit.at),
        both,
    )


def _measure_one(x: Floats, rows: Floats, run: int) -> Waves:
    """Measure the waves of which only one function is there, (rows, channels): x = a·cos(f·p) + b·sin(f·p)."""
    frequency = _frequency_by_sums(x[:run])
    for count in _windows(rows, run):
        at = rows[:count] - rows[0]
        centre = float(at.mean())
        frequency = _refined(x[:count], at, centre, frequency)
    cos, sin = _cos_sin(at - centre, frequency)
    cosine_part, sine_part = _least_squares((cos, sin), x).solution
    amplitude = np.hypot(cosine_part, sine_part)
    phase = np.arctan2(-sine_part, cosine_part)
    is_slow = np.abs(frequency) * (at[-1] + 1) < 2 * np.pi
    amplitude_error = 0.0
    if is_slow.all():
        fastest = int(np.abs(frequency).argmax())
        is_slow[fastest] = False
        amplitude_error = _amplitude_error(
            x[:, fastest, None], at - centre, frequency[fastest, None]
        )
    if is_slow.any():
        # A part of a turn does not show its amplitude: it is taken from the channels that turn.
        amplitude[is_slow] = shared = float(np.median(amplitude[~is_slow]))
        slow = _SlowWaves(x[:, is_slow], at, centre, shared)
        frequency[is_slow], phase[is_slow] = slow.fitted(frequency[is_slow], phase[is_slow])
    unit, slope = _cos_sin(at - centre, frequency, phase)
    noise = np.sqrt(((x - amplitude * unit) ** 2).mean(axis=0))
    fit = WaveFit(frequency, phase, amplitude, noise, at, centre)
    waves = _with_errors(fit, both=False)
    frequency_error, phase_error = _errors_of_one(x, fit, slope)
    # A slow wave is nearly a line, whose slope is amplitude times frequency.
    frequency_error = np.hypot(frequency_error, np.abs(frequency) * amplitude_error)
    return replace(
        waves,
        frequency=np.abs(frequency),
        error=np.maximum(waves.error, frequency_error),
        phase=wrap(np.where(frequency < 0, -waves.phase, waves.phase)),
        phase_error=np.maximum(waves.phase_error, phase_error),
    )


def _refined(x: Floats, at: Floats, centre: float, frequency: Floats) -> Floats:
    """Return frequencies after Gauss-Newton steps on a·cos(f·p) + b·sin(f·p); none moves by more than a quarter turn."""
    largest_move = np.pi / (2 * at[-1])
    offsets = at - centre
    cosine_part = np.zeros(x.shape[1])
    sine_part = np.zeros(x.shape[1])
    for _ in range(FIT_STEPS):
        cos, sin = _cos_sin(offsets, frequency)
        left = x - cosine_part * cos - sine_part * sin
        slope = offsets[:, None] * (sine_part * cos - cosine_part * sin)
        more_cosine, more_sine, move = _least_squares((cos, sin, slope), left).solution
        cosine_part = cosine_part + more_cosine
        sine_part = sine_part + more_sine
        frequency = frequency + np.clip(move, -largest_move, largest_move)
    return frequency


def _amplitude_error(x: Floats, offsets: Floats, frequency: Floats) -> float:
    """Return the relative standard error of the amplitude of a wave (rows, 1) that turns less than once.

    The less it turns, the more its frequency makes up for a wrong amplitude: sin(f·p) and 2·sin(f·p/2) are alike at
    small angles.
    """
    cos, sin = _cos_sin(offsets, frequency)
    cosine_part, sine_part = _least_squares((cos, sin), x).solution
    amplitude = float(np.hypot(cosine_part, sine_part).max(initial=TINY))
    left = x - cosine_part * cos - sine_part * sin
    slope = offsets[:, None] * (sine_part * cos - cosine_part * sin)
    variances = _least_squares((cos, sin, slope), x).variances
    # Numbers in float32 are off by that much, even if those of one channel happen to leave less.
    noise = float(np.sqrt((left**2).mean())) + np.finfo(np.float32).eps * amplitude
    return float(noise * np.sqrt(variances[:2].sum())) / amplitude


class _SlowWaves(NamedTuple):
    """Channels that turn less than once, and the amplitude that they share with the others."""

    x: Floats
    at: Floats
    centre: float
    amplitude: float

    def fitted(self, frequency: Floats, phase: Floats) -> tuple[Floats, Floats]:
        """Return frequency and phase by Gauss-Newton steps of at most half a radian over all rows."""
        offsets = self.at - self.centre
        largest_move = 0.5 / self.at[-1]
        for _ in range(SLOW_FIT_STEPS):
            cos, sin = _cos_sin(offsets, frequency, phase)
            slope = -self.amplitude * sin
            left = self.x - self.amplitude * cos
            move, turn = _least_squares((slope * offsets[:, None], slope), left).solution
            frequency = frequency + np.clip(move, -largest_move, largest_move)
            phase = phase + np.clip(turn, -0.5, 0.5)
        return frequency, phase


class FitErrors(NamedTuple):
    """Standard errors of frequencies and phases, per channel."""

    frequency: Floats
    phase: Floats


def _errors_of_one(x: Floats, fit: WaveFit, slope: Floats) -> FitErrors:
    """Return errors of waves of which only one function is there: near its top, a cosine hardly depends on either."""
    offsets = (fit.at - fit.centre)[:, None]
    variances = _least_squares((slope * offsets, slope), x).variances
    noise = fit.common_noise
    errors = np.sqrt(variances) * noise / np.maximum(np.abs(fit.amplitude), TINY)
    steps = np.ptp(x, axis=0) / np.maximum(STEP_IN_SIGMAS * noise, TINY)
    errors = np.where(steps < FEW_STEPS, FEW_STEPS_PENALTY * errors, errors)
    errors = np.where(steps < INVISIBLE_STEPS, np.pi, errors)
    return FitErrors(*errors)


def _cos_sin(
    offsets: Floats, frequency: Floats, phase: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    angles = _angles(offsets, frequency, phase)
    return np.cos(angles), np.sin(angles)


class LeastSquares(NamedTuple):
    """The numbers by which columns are multiplied to come nearest to the data, and their variances at noise of 1."""

    solution: Floats  # (columns, channels)
    variances: Floats  # (columns, channels)


def _least_squares(columns: Sequence[Floats], data: Floats) -> LeastSquares:
    """Solve the least squares of each channel for some columns, (rows, channels) each.

    Columns are made unit vectors first, so that one threshold tells which of them the rows do not distinguish: numbers
    along such directions are 0.
    """
    sizes = [np.sqrt((column**2).sum(axis=0)) + TINY for column in columns]
    units = [column / size for column, size in zip(columns, sizes, strict=True)]
    products = [[(first * second).sum(axis=0) for second in units] for first in units]
    normal = np.moveaxis(np.array(products), -1, 0)  # (channels, columns, columns)
    inverse = np.linalg.pinv(normal, rcond=SINGULAR, hermitian=True)
    projections = np.stack([(unit * data).sum(axis=0) for unit in units], axis=-1)
    solution = (inverse @ projections[..., None])[..., 0].T / sizes
    variances = np.diagonal(inverse, axis1=1, axis2=2).T
    return LeastSquares(solution, np.maximum(variances, 0) / np.square(sizes))


def _frequency_by_sums(x: Floats) -> Floats:
    """Return a first estimate of each frequency of one function, by lags of 1, 2, 4, … rows while they help.

    x[p + k] + x[p − k] = 2·cos(k·f)·x[p] gives the angle k·f without its sign, up to whole turns. The estimate of the
    shorter lag selects both.
    """
    frequency = np.zeros(x.shape[1])
    smallest_error = np.full(x.shape[1], np.inf)
    lag = 1
    while lag <= max(1, len(x) // 3):
        middle = x[lag:-lag]
        around = x[2 * lag :] + x[: -2 * lag]
        power = np.maximum((middle**2).sum(axis=0), TINY)
        cosine = np.clip((around * middle).sum(axis=0) / (2 * power), -1, 1)
        angle = np.arccos(cosine)
        error = _error_of_lag(around - 2 * cosine * middle, power, angle) / lag
        estimate = angle if lag == 1 else _nearest_turn(angle, lag * frequency) / lag
        is_better: Flags = error < smallest_error
        frequency = np.where(is_better, estimate, frequency)
        smallest_error = np.where(is_better, error, smallest_error)
        lag *= 2
    return np.asarray(frequency)


def _error_of_lag(left: Floats, power: Floats, angle: Floats) -> Floats:
    """Return the error of an angle whose cosine was fitted: that of the cosine divided by the sine."""
    error_of_cosine = np.sqrt((left**2).sum(axis=0) / power / max(1, len(left)))
    return np.asarray(error_of_cosine / np.maximum(np.sin(angle), 1e-3))


def _nearest_turn(angle: Floats, estimate: Floats) -> Floats:
    """Return ± angle, whole turns apart, whichever is nearest to an estimate."""
    forward = wrap(angle - estimate)
    backward = wrap(-angle - estimate)
    return np.asarray(estimate + np.where(np.abs(forward) <= np.abs(backward), forward, backward))
