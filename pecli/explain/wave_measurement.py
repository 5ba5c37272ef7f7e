"""Frequency, phase, amplitude and noise of every channel, measured from the data alone.

Neighbouring rows give a rough frequency, longer lags sharpen it, and least squares over ever more rows end it. What the
last fit leaves is the noise, against which everything later is judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

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

FLOAT64_PHASE_ERROR = 4e-16
"""Relative error of phases in float64, two units of the last place."""

FIT_STEPS = 9
"""Gauss-Newton steps per window: the first gives cosine and sine parts, later ones also the frequency."""

SLOW_FIT_STEPS = 12
"""Gauss-Newton steps for channels of less than one turn, which converge more slowly."""

LARGEST_PHASE_CHANGE = 0.5
"""Radians by which one of these steps may turn a row: derivatives say nothing about waves far away."""

LEAST_SLOPE = 1e-3
"""Slope of a cosine, at least, by which its error is divided: at its top it would be 0."""

SINGULAR = 1e-12
"""Share of the largest eigenvalue below which rows do not distinguish two parameters of a fit."""

TINY = 1e-300


@dataclass(frozen=True)
class MeasuredWaves:
    """Waves amplitude · exp(i·(frequency · (row − centre) + phase)), one per channel.

    If the data hold only one function (`has_both_functions` is false), they are the real parts, and frequencies are positive.
    """

    frequency: Floats
    error: Floats  # one standard error of the frequency
    phase: Floats
    phase_error: Floats
    amplitude: Floats
    noise: Floats  # the standard deviation of the data from the wave, per channel
    centre: float
    rows: int
    has_both_functions: bool

    @property
    def shared_amplitude(self) -> float:
        """The mean amplitude of the channels that turn at least once: rounding may move the others to one side.

        A channel that goes from 0.00 to 0.04 in 100 rows shows no amplitude, but one that turns 10 times does.
        """
        is_turning = np.abs(self.frequency) * self.rows > 2 * np.pi
        if is_turning.any():
            return float(np.mean(self.amplitude[is_turning]))
        if self.has_both_functions:
            return float(np.mean(self.amplitude))
        # A slow channel of one function may show any amplitude: the median ignores such outliers.
        return float(np.median(self.amplitude))

    @property
    def is_clean(self) -> bool:
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
    rows_from_0: Floats  # rows, counted from the first
    centre: float

    def phase_at(self, row: float) -> Floats:
        """Return the phase at another row than the centre: 0.3 there is 0.4 one row later, if f = 0.1."""
        return self.phase + self.frequency * (row - self.centre)

    @property
    def common_noise(self) -> Floats:
        """The noise of each channel, at least that of most channels."""
        return np.maximum(self.noise, np.quantile(self.noise, COMMON_QUANTILE))


def wrap(angle: AnyArray) -> Floats:
    """Return an angle between −π and π, whole turns apart."""
    return np.asarray(angle - 2 * np.pi * np.rint(angle / (2 * np.pi)))


def sharpened_frequency(frequency: Floats, angle: Floats, distance: float) -> Floats:
    """Return the frequency nearest to an estimate that turns by an angle over a distance.

    An angle is known only up to whole turns, and the estimate selects among these. Over 20 rows, 0.30
    per row turns by 6.0. If the angle there is −0.24, or 6.04 with a whole turn, 0.04 are missing: the
    frequency is 0.30 + 0.04 / 20 = 0.302.
    """
    missing_angle = wrap(angle - distance * frequency)
    return np.asarray(frequency + missing_angle / distance)


def measure(values: Complex | Floats, rows: Floats) -> MeasuredWaves | None:
    """Measure the frequency, phase, amplitude and noise of each column of a table.

    Args:
        values: The columns (rows, channels): cos + i·sin if the table holds both functions, real
            numbers if it holds only one of them.
        rows: Positions in ascending order, of which the first half or so are consecutive.

    Returns:
        The waves; None for a wide table of which a few columns were tried, and none was a wave.
    """
    channels = values.shape[1]
    with np.errstate(all="ignore"):
        if channels > 4 * TRIED_CHANNELS:
            # Most tables as wide as this hold no waves: a few columns show it much sooner than all.
            tried = np.random.default_rng(0).choice(channels, TRIED_CHANNELS, replace=False)
            tried_waves = _fit_waves(values[:, tried], rows)
            has_only_noise = tried_waves.noise.min() > MAX_NOISE * tried_waves.amplitude.max()
            if has_only_noise:
                return None
        return _fit_waves(values, rows)


def _fit_waves(values: Complex | Floats, rows: Floats) -> MeasuredWaves:
    """Fit a wave to each column of cos + i·sin, or to each column of only cosines or only sines."""
    run_length = _count_consecutive(rows)
    if np.iscomplexobj(values):
        return _measure_cos_and_sin(np.asarray(values, np.complex128), rows, run_length)
    return _measure_one_function(np.asarray(values, np.float64), rows, run_length)


def _count_consecutive(rows: Floats) -> int:
    """Return how many rows are consecutive, from the first one on: 3 of 0 1 2 5 6."""
    is_gap_after = np.diff(rows) != 1
    if not is_gap_after.any():
        return len(rows)
    last_of_run = int(np.argmax(is_gap_after))
    return last_of_run + 1


def _growing_row_counts(rows: Floats, run_length: int) -> list[int]:
    """Return how many rows to fit at a time: the consecutive ones, then twice as far each time, then all.

    A frequency from n rows is known so well that its error does not grow to half a turn over 2n rows.
    Rows 0 … 9, 15, 30 and 70 are fitted as the first 10, 11, 12 and 13: up to rows 9, 15, 30 and 70.

    Args:
        rows: Positions in ascending order.
        run_length: The number of consecutive ones at the beginning.
    """
    rows_from_0 = rows - rows[0]
    counts = [run_length]
    length = rows_from_0[run_length - 1] + 1
    while counts[-1] < len(rows):
        length *= 2
        rows_within_length = int(np.searchsorted(rows_from_0, length))
        counts.append(max(counts[-1] + 1, rows_within_length))
    return counts


def _angles(offsets: Floats, frequency: Floats, phase: Floats | float) -> Floats:
    """Return the angles (rows, channels) of waves at some distances from their centre."""
    return np.asarray(np.multiply.outer(offsets, frequency) + phase)


class UnitWaves(NamedTuple):
    """Waves exp(i·(frequency · (row − centre) + phase)), one per channel."""

    frequency: Floats
    phase: Floats
    centre: float

    def values_at(self, rows: Floats) -> Complex:
        """Return the waves at some rows, (rows, channels)."""
        angles = _angles(rows - self.centre, self.frequency, self.phase)
        return np.asarray(np.exp(1j * angles))

    def refitted(self, data: Complex, rows: Floats) -> "UnitWaves":
        """Return waves nearer to some rows of data (rows, channels), by a line through the angles between both.

        If the angles from the wave to the data are 0.09, 0.10, 0.11 in three rows, the phase in the
        middle is 0.10 too small, and the frequency 0.01. The line is that of least squares:
        slope = Σ (row − mean)·angle / Σ (row − mean)².
        """
        turned_back = data * self.values_at(rows).conj()
        mean_angle = np.angle(turned_back.sum(axis=0))
        middle = float(rows.mean())
        offsets = rows - middle
        angles = wrap(np.angle(turned_back) - mean_angle)
        slope = (offsets @ angles) / (offsets**2).sum()
        phase = self.phase + mean_angle + self.frequency * (middle - self.centre)
        return UnitWaves(self.frequency + slope, phase, middle)

    def in_phase_with(self, data: Complex, rows: Floats) -> "UnitWaves":
        """Return waves of the same frequency, with the mean phase of the data."""
        turned_back = data * self.values_at(rows).conj()
        return self._replace(phase=self.phase + np.angle(turned_back.sum(axis=0)))


def _measure_cos_and_sin(data: Complex, rows: Floats, run_length: int) -> MeasuredWaves:
    """Return the waves amplitude · exp(i·(frequency · row + phase)) nearest to columns of cos + i·sin.

    The consecutive rows at the beginning show each frequency roughly, and ever more rows sharpen it. All
    rows at once would not do: with an error of 0.01 radians per row, the angle at row 314 is off by
    half a turn, so that it does not show how often the wave has turned until then. The first 30 rows
    make the error so small that 60 rows can be fitted, and so on.

    Args:
        data: cos + i·sin, (rows, channels).
        rows: Positions in ascending order.
        run_length: The number of consecutive positions at the beginning.
    """
    rows_from_0 = rows - rows[0]
    first_guess = _estimate_frequency_of_cos_and_sin(data[:run_length])
    waves = UnitWaves(first_guess, phase=np.zeros(data.shape[1]), centre=0.0)
    for count in _growing_row_counts(rows, run_length):
        waves = waves.refitted(data[:count], rows_from_0[:count])
    waves = waves.in_phase_with(data, rows_from_0)
    fit = _with_amplitude_and_noise(waves, data, rows_from_0)
    return _measured_waves(fit, _errors_of_noise(fit), has_both_functions=True)


def _with_amplitude_and_noise(waves: UnitWaves, data: Complex, rows_from_0: Floats) -> WaveFit:
    """Return waves with the amplitude nearest to the data (rows, channels), and the noise that they leave.

    The conjugate of a wave turns the data back to the angle 0: their real part there is the amplitude.
    """
    waves_of_size_1 = waves.values_at(rows_from_0)
    amplitude = (data * waves_of_size_1.conj()).real.mean(axis=0)
    residual = data - amplitude * waves_of_size_1
    # Half of the power is in the real parts, and half in the imaginary ones.
    noise = np.sqrt((np.abs(residual) ** 2).mean(axis=0) / 2)
    return WaveFit(waves.frequency, waves.phase, amplitude, noise, rows_from_0, waves.centre)


def _estimate_frequency_of_cos_and_sin(phasors: Complex) -> Floats:
    """Return a first estimate of each frequency from consecutive rows, by lags of 1, 2, 4, … rows.

    A lag of k compares each row z[p] with the k-th after it: z[p + k] · conj(z[p]) has the angle k·f,
    known up to whole turns. The estimate of the shorter lag selects the turn, and the longer lag
    divides the error of the angle by k.
    """
    frequency: Floats = np.zeros(phasors.shape[1])
    longest_lag = max(1, len(phasors) // 2)
    lag = 1
    while lag <= longest_lag:
        angle = np.angle((phasors[lag:] * phasors[:-lag].conj()).mean(axis=0))
        frequency = sharpened_frequency(frequency, angle, distance=lag)
        lag *= 2
    return frequency


def _measured_waves(
    fit: WaveFit, errors: "FitErrors", *, has_both_functions: bool
) -> MeasuredWaves:
    """Return fitted waves with their errors, and with their phases at the whole row nearest to the centre.

    Waves of the frequencies f and f + 2π cannot be distinguished: from row to row, the second makes just one
    more turn. So both must get the same phase. They have it at row 31 or 32, but not at a centre of 31.5.

    Args:
        fit: The waves that were fitted to the data, with their phases at the middle of all rows.
        errors: The standard errors of their frequencies and phases.
        has_both_functions: Whether the data are cos + i·sin, not only one of the two.
    """
    whole_row = float(round(fit.centre))
    return MeasuredWaves(
        frequency=fit.frequency,
        error=errors.frequency,
        phase=wrap(fit.phase_at(whole_row)),
        phase_error=errors.phase,
        amplitude=fit.amplitude,
        noise=fit.noise,
        centre=whole_row,
        rows=len(fit.rows_from_0),
        has_both_functions=has_both_functions,
    )


class FitErrors(NamedTuple):
    """Standard errors of frequencies and phases, per channel."""

    frequency: Floats
    phase: Floats

    def combined_with(self, other: "FitErrors") -> "FitErrors":
        """Return the errors of two independent causes together: e and f add up to √(e² + f²)."""
        return FitErrors(
            frequency=np.hypot(self.frequency, other.frequency),
            phase=np.hypot(self.phase, other.phase),
        )

    def or_larger(self, other: "FitErrors") -> "FitErrors":
        """Return the larger of two estimates of each error."""
        return FitErrors(
            frequency=np.maximum(self.frequency, other.frequency),
            phase=np.maximum(self.phase, other.phase),
        )


def _errors_of_noise(fit: WaveFit) -> FitErrors:
    """Return the standard errors of fitted frequencies and phases, from three independent causes.

    The causes are noise that differs from row to row, rounding that moves all rows to one side, and float64.
    """
    size = np.maximum(np.abs(fit.amplitude), TINY)
    noise = fit.common_noise / size  # of the angles, in radians
    by_chance = _errors_by_chance(fit, noise)
    of_rounding = _errors_of_one_sided_rounding(fit, noise)
    return by_chance.combined_with(of_rounding).combined_with(_errors_of_float64(fit))


def _errors_by_chance(fit: WaveFit, noise: Floats) -> FitErrors:
    """Return the standard errors of a line that is fitted to noisy angles, one angle per row.

    Its slope is the frequency, and its level at the centre of the rows the phase. With a noise of 0.1
    radians, 100 rows leave an error of the phase of 0.1 / √100 = 0.01.
    """
    offsets = fit.rows_from_0 - fit.centre
    return FitErrors(
        frequency=noise / np.sqrt((offsets**2).sum()),
        phase=noise / np.sqrt(len(fit.rows_from_0)),
    )


def _errors_of_one_sided_rounding(fit: WaveFit, noise: Floats) -> FitErrors:
    """Return the errors of slow waves of which rounding moves all rows to the same side; 0 for others.

    Rounding to 0, 0.1, 0.2, … is like chance for a wave that goes from −1 to 1: the errors of its
    rows average out. A slow wave from 0.00 to 0.14 passes a single step, and all rows may be off by
    a whole step to the same side. Over 100 rows, that is a frequency of 0.1 / 100 too much.
    """
    length = fit.rows_from_0[-1] - fit.rows_from_0[0]
    turned = np.abs(fit.frequency) * length
    step = STEP_IN_SIGMAS * noise  # of rounding, in radians
    passes_few_steps = turned < FEW_STEPS * step
    shift = np.where(passes_few_steps, step, 0.0)
    return FitErrors(frequency=shift / length, phase=shift / 2)


def _errors_of_float64(fit: WaveFit) -> FitErrors:
    """Return the errors of angles that are computed in float64."""
    error_of_angle = FLOAT64_PHASE_ERROR * (1 + np.abs(fit.phase))
    last_row = max(1.0, float(fit.rows_from_0[-1]))
    return FitErrors(frequency=error_of_angle / last_row, phase=error_of_angle)


class CosineWaves(NamedTuple):
    """Waves amplitude · cos(frequency · (row − centre) + phase), one per channel."""

    frequency: Floats
    phase: Floats
    amplitude: Floats

    def changes_towards(self, data: Floats, offsets: Floats) -> Floats:
        """Return the changes of f and of the phase, (2, channels), by which the waves come nearer to data.

        A wave is A·cos(f·p + phase) at offset p. If f changes by δ and the phase by ε, the wave changes by
        nearly −A·sin(f·p + phase) · (p·δ + ε). Least squares find the δ and ε for which this is nearest to
        what the wave leaves of the data. It is a Gauss-Newton step.

        Args:
            data: Columns of only cosines or only sines, (rows, channels).
            offsets: The distance p of each row from the centre.
        """
        cos, sin = _cos_sin(offsets, self.frequency, self.phase)
        derivative_by_phase = -self.amplitude * sin
        derivative_by_frequency = derivative_by_phase * offsets[:, None]
        residual = data - self.amplitude * cos
        return _least_squares((derivative_by_frequency, derivative_by_phase), residual)

    def with_some(self, is_replaced: Flags, replacements: "CosineWaves") -> "CosineWaves":
        """Return the waves with those of some channels replaced."""
        waves = CosineWaves(self.frequency.copy(), self.phase.copy(), self.amplitude.copy())
        waves.frequency[is_replaced] = replacements.frequency
        waves.phase[is_replaced] = replacements.phase
        waves.amplitude[is_replaced] = replacements.amplitude
        return waves


def _measure_one_function(data: Floats, rows: Floats, run_length: int) -> MeasuredWaves:
    """Return the wave amplitude · cos(frequency · row + phase) nearest to each column of a table.

    The table holds only cosines, or only sines.

    Args:
        data: The table, (rows, channels).
        rows: Positions in ascending order.
        run_length: The number of consecutive positions at the beginning.
    """
    rows_from_0 = rows - rows[0]
    frequency = _frequency_of_one_function(data, rows_from_0, run_length)
    waves = _nearest_cosines(data, rows_from_0, frequency)
    # A column of less than one turn hardly shows its amplitude, but all columns of a table have the same.
    amplitude = _shown_amplitude(waves, data, rows_from_0)
    waves = _refit_slow_columns(waves, ~amplitude.is_shown_by, data, rows_from_0)
    return _measured_cosines(waves, data, rows_from_0, amplitude.error)


def _frequency_of_one_function(data: Floats, rows_from_0: Floats, run_length: int) -> Floats:
    """Return the frequency of each column of only cosines or only sines, in radians per row.

    The consecutive rows at the beginning show it roughly, and ever more rows sharpen it. All rows at once
    would not do: with an error of 0.01 radians per row, the angle at row 314 is off by half a turn.

    Args:
        data: The columns, (rows, channels).
        rows_from_0: The rows, counted from the first.
        run_length: The number of consecutive rows at the beginning.
    """
    frequency = _estimate_frequency_of_one_function(data[:run_length])
    for count in _growing_row_counts(rows_from_0, run_length):
        frequency = _frequency_of_nearest_sinusoid(data[:count], rows_from_0[:count], frequency)
    return frequency


class ShownAmplitude(NamedTuple):
    """The columns that show the amplitude of all columns, and its relative error."""

    is_shown_by: Flags  # per column
    error: float


def _shown_amplitude(waves: CosineWaves, data: Floats, rows_from_0: Floats) -> ShownAmplitude:
    """Return which columns show the amplitude of all: those that turn at least once, or else the fastest.

    Args:
        waves: The waves that were fitted to the columns.
        data: Columns of only cosines or only sines, (rows, channels).
        rows_from_0: The rows, counted from the first.
    """
    radians_turned = np.abs(waves.frequency) * (rows_from_0[-1] + 1)
    turns_less_than_once = radians_turned < 2 * np.pi
    if not turns_less_than_once.all():
        # A whole turn goes to the top and to the bottom of a wave: its amplitude has hardly any error.
        return ShownAmplitude(~turns_less_than_once, error=0.0)
    fastest = int(np.abs(waves.frequency).argmax())
    is_fastest = np.arange(len(waves.frequency)) == fastest
    offsets = rows_from_0 - rows_from_0.mean()  # from the middle of the rows
    error = _amplitude_error(data[:, is_fastest], offsets, waves.frequency[is_fastest])
    return ShownAmplitude(is_fastest, error)


def _nearest_cosines(data: Floats, rows_from_0: Floats, frequency: Floats) -> CosineWaves:
    """Return the cosine of a known frequency that comes nearest to each column of data.

    A pair that does not turn has sines of 0 = cos(0·p − π/2), to which any frequency can be fitted:
    such a column gets the frequency 0.
    """
    curve = _fit_sinusoid(data, rows_from_0 - rows_from_0.mean(), frequency)
    amplitude = np.hypot(curve.cosine_part, curve.sine_part)
    phase = np.arctan2(-curve.sine_part, curve.cosine_part)
    is_zero = ~data.any(axis=0)
    return CosineWaves(
        np.where(is_zero, 0.0, frequency), np.where(is_zero, -np.pi / 2, phase), amplitude
    )


def _measured_cosines(
    waves: CosineWaves, data: Floats, rows_from_0: Floats, amplitude_error: float
) -> MeasuredWaves:
    """Return waves that were fitted to only cosines or only sines, with their noise and their errors.

    Frequencies become positive, since one function does not show their sign.

    Args:
        waves: The waves that were fitted to the columns.
        data: Columns of only cosines or only sines, (rows, channels).
        rows_from_0: The rows, counted from the first.
        amplitude_error: The relative error of the amplitude.
    """
    fit = _fit_with_noise(waves, data, rows_from_0)
    errors = _errors_of_cosines(fit, data, amplitude_error)
    return _turning_forwards(_measured_waves(fit, errors, has_both_functions=False))


def _errors_of_cosines(fit: WaveFit, data: Floats, amplitude_error: float) -> FitErrors:
    """Return the errors of waves of only cosines or only sines, the larger of two estimates of each.

    1. As if every row showed the angle of its wave, as it does with cosines and sines together.
    2. As one function shows it: near the top of a cosine, rows hardly show the angle. And a slow
       wave shows its frequency only as well as its amplitude is known.
    """
    if_rows_show_angles = _errors_of_noise(fit)
    if_amplitude_is_right = _errors_of_one_function(data, fit)
    of_one_function = _with_amplitude_error(if_amplitude_is_right, fit.frequency, amplitude_error)
    return if_rows_show_angles.or_larger(of_one_function)


def _fit_with_noise(waves: CosineWaves, data: Floats, rows_from_0: Floats) -> WaveFit:
    """Return fitted waves with their noise: the root mean square of what they leave of the data."""
    centre = float(rows_from_0.mean())
    cos = np.cos(_angles(rows_from_0 - centre, waves.frequency, waves.phase))
    residual = data - waves.amplitude * cos
    noise = np.sqrt((residual**2).mean(axis=0))
    return WaveFit(waves.frequency, waves.phase, waves.amplitude, noise, rows_from_0, centre)


def _with_amplitude_error(
    errors: FitErrors, frequency: Floats, amplitude_error: float
) -> FitErrors:
    """Return errors that include the one that a wrong amplitude of slow waves causes in their frequencies.

    A slow wave a·sin(f·p) is nearly the line a·f·p, of which rows show the slope a·f. If a is taken 1 %
    too large, f is 1 % too small. Both errors are independent, so that their squares add up.

    Args:
        errors: The errors of the waves, if the amplitude is right.
        frequency: Their frequencies.
        amplitude_error: The relative error of the amplitude: 0.01 for 1 %.
    """
    error_by_amplitude = np.abs(frequency) * amplitude_error
    return FitErrors(np.hypot(errors.frequency, error_by_amplitude), errors.phase)


def _turning_forwards(waves: MeasuredWaves) -> MeasuredWaves:
    """Return waves of one function with positive frequencies: cos(−f·p + phase) is cos(f·p − phase).

    A single function does not show in which direction it turns.
    """
    phase = np.where(waves.frequency < 0, -waves.phase, waves.phase)
    return replace(waves, frequency=np.abs(waves.frequency), phase=wrap(phase))


class Sinusoid(NamedTuple):
    """A curve a·cos(f·p) + b·sin(f·p) per channel, at some distances p from the middle row."""

    cosine_part: Floats  # a, per channel
    sine_part: Floats  # b, per channel
    cos: Floats  # cos(f·p), (rows, channels)
    sin: Floats

    def subtracted_from(self, data: Floats) -> Floats:
        """Return data (rows, channels) less the curve."""
        return np.asarray(data - self.cosine_part * self.cos - self.sine_part * self.sin)

    def derivatives(self, offsets: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the derivatives by a, by b and by f: cos(f·p), sin(f·p) and p·(b·cos(f·p) − a·sin(f·p))."""
        slope = self.sine_part * self.cos - self.cosine_part * self.sin
        by_frequency = np.asarray(offsets[:, None] * slope)
        return self.cos, self.sin, by_frequency

    def changes_towards(self, data: Floats, offsets: Floats) -> Floats:
        """Return the changes of a, b and f, (3, channels), by which the curve comes nearer to data.

        What the curve leaves of the data is nearly a sum of its derivatives by a, b and f, each times the
        change of that number. Least squares find these changes: it is a Gauss-Newton step.
        """
        return _least_squares(self.derivatives(offsets), self.subtracted_from(data))


def _fit_sinusoid(data: Floats, offsets: Floats, frequency: Floats) -> Sinusoid:
    """Return the curve of a known frequency that is nearest to each column of data."""
    cos, sin = _cos_sin(offsets, frequency)
    cosine_part, sine_part = _least_squares((cos, sin), data)
    return Sinusoid(cosine_part, sine_part, cos, sin)


def _frequency_of_nearest_sinusoid(
    data: Floats, rows_from_0: Floats, first_guess: Floats
) -> Floats:
    """Return the frequencies f at which a·cos(f·p) + b·sin(f·p) comes nearest to each column of data.

    Gauss-Newton steps improve a, b and f together. They find the right f if the guess is so near that the
    curve is off by less than a quarter turn in every row. So the caller begins with few rows.

    Args:
        data: Columns of only cosines or only sines, (rows, channels).
        rows_from_0: The rows, counted from the first.
        first_guess: A frequency per channel, in radians per row.
    """
    # Each p is the distance from the middle row, so that a change of f turns no row more than it has to.
    offsets = rows_from_0 - float(rows_from_0.mean())
    # Steps lead nearer only if they are small. None turns the last row against the first one by more than
    # a quarter turn, π/2.
    distance_of_last_row = rows_from_0[-1]
    largest_change_of_f = np.pi / (2 * distance_of_last_row)
    frequency = first_guess
    # The curve is 0 at first, whatever f is. So the first step changes only a and b.
    a = np.zeros(data.shape[1])
    b = np.zeros(data.shape[1])
    for _ in range(FIT_STEPS):
        curve = Sinusoid(a, b, *_cos_sin(offsets, frequency))
        change_of_a, change_of_b, change_of_f = curve.changes_towards(data, offsets)
        a = a + change_of_a
        b = b + change_of_b
        frequency = frequency + _limited(change_of_f, largest_change_of_f)
    return frequency


def _limited(changes: Floats, largest: float) -> Floats:
    """Return changes that are at most as large as allowed, in either direction: −0.5 for −2 and 0.5."""
    return np.clip(changes, -largest, largest)


def _amplitude_error(data: Floats, offsets: Floats, frequency: Floats) -> float:
    """Return the relative standard error of the amplitude of one column (rows, 1) of less than one turn.

    The column is a·cos(f·p) + b·sin(f·p). Its amplitude √(a² + b²) is the distance of the point (a, b)
    from 0. If the point is off by √(δa² + δb²), its distance is off by that at most: this is returned,
    divided by the amplitude.

    The errors of a and b are large, since another frequency nearly makes up for a wrong amplitude: over
    20 rows, sin(0.01·p) and 2·sin(0.005·p) differ by 0.001 at most.

    Args:
        data: The column of only cosines or only sines, (rows, 1).
        offsets: The distance p of each row from the middle.
        frequency: The frequency f, one number in an array.
    """
    curve = _fit_sinusoid(data, offsets, frequency)
    amplitude = float(np.hypot(curve.cosine_part, curve.sine_part).max(initial=TINY))
    noise = _noise_beside(curve, data, amplitude)
    variances = _variances_at_unit_noise(curve.derivatives(offsets))
    variance_of_a, variance_of_b, _variance_of_f = variances  # if the noise had size 1
    error_of_point = noise * np.sqrt((variance_of_a + variance_of_b).sum())
    return float(error_of_point) / amplitude


def _noise_beside(curve: Sinusoid, data: Floats, amplitude: float) -> float:
    """Return the noise of data: the root mean square of what a curve leaves, plus the error of float32.

    Numbers in float32 are off by that error, even if those of one channel happen to leave less.
    """
    residual = curve.subtracted_from(data)
    float32_error = np.finfo(np.float32).eps * amplitude
    rms_of_residual = float(np.sqrt((residual**2).mean()))
    return float(rms_of_residual + float32_error)


def _refit_slow_columns(
    waves: CosineWaves, is_slow: Flags, data: Floats, rows_from_0: Floats
) -> CosineWaves:
    """Return waves in which slow columns are fitted again, with the amplitude of the others.

    The first fit of a slow column may have another amplitude, and so a wrong frequency: over 20 rows,
    sin(0.01·p) and 2·sin(0.005·p) differ by 0.001 at most. But all columns of a table have one
    amplitude, which faster ones show.

    Args:
        waves: The waves that were fitted to all columns.
        is_slow: True for columns of less than one turn; if all are, for all but the fastest.
        data: The columns, (rows, channels).
        rows_from_0: The rows, counted from the first.
    """
    if not is_slow.any():
        return waves
    shared_amplitude = float(np.median(waves.amplitude[~is_slow]))
    guess = CosineWaves(
        frequency=waves.frequency[is_slow],
        phase=waves.phase[is_slow],
        amplitude=np.full(np.count_nonzero(is_slow), shared_amplitude),
    )
    slow_waves = _with_fitted_frequency_and_phase(guess, data[:, is_slow], rows_from_0)
    return waves.with_some(is_slow, slow_waves)


def _with_fitted_frequency_and_phase(
    guess: CosineWaves, data: Floats, rows_from_0: Floats
) -> CosineWaves:
    """Return the waves of given amplitudes whose frequencies and phases come nearest to the data.

    A few steps improve the frequencies and phases of the guess together.

    Args:
        guess: The first frequency and phase of each channel, and its amplitude, which is not changed.
        data: Columns of only cosines or only sines, (rows, channels).
        rows_from_0: The rows, counted from the first.
    """
    waves = guess
    # The phase of a wave is its angle in the middle row.
    offsets = rows_from_0 - float(rows_from_0.mean())
    # Steps lead nearer only if they are small. None turns the last row by more than 0.5 radians against
    # the first one, or all rows by more than that.
    distance_of_last_row = rows_from_0[-1]
    largest_frequency_change = LARGEST_PHASE_CHANGE / distance_of_last_row
    for _ in range(SLOW_FIT_STEPS):
        frequency_change, phase_change = waves.changes_towards(data, offsets)
        waves = waves._replace(
            frequency=waves.frequency + _limited(frequency_change, largest_frequency_change),
            phase=waves.phase + _limited(phase_change, LARGEST_PHASE_CHANGE),
        )
    return waves


def _errors_of_one_function(data: Floats, fit: WaveFit) -> FitErrors:
    """Return the standard errors of frequencies and phases that are fitted to only one function.

    A channel is amplitude · cos(f·p + phase) at offset p, with noise of size σ. Its derivatives by f
    and by the phase are amplitude · p · sin and amplitude · sin, without their sign, which changes no
    error. If J holds p · sin and sin of all rows, least squares gives the errors
    (σ / amplitude) · √diag(inverse(Jᵀ·J)): twice the amplitude halves them. Rows near the top of the
    cosine, where sin is nearly 0, show little of either number.

    Args:
        data: Columns of only cosines or only sines, (rows, channels).
        fit: The waves that were fitted to them.
    """
    offsets = fit.rows_from_0 - fit.centre
    sin = np.sin(_angles(offsets, fit.frequency, fit.phase))
    variances = _variances_at_unit_noise((sin * offsets[:, None], sin))
    amplitude = np.maximum(np.abs(fit.amplitude), TINY)
    noise = fit.common_noise
    errors = np.sqrt(variances) * noise / amplitude  # (2, channels)
    frequency_error, phase_error = _with_errors_of_steps(errors, data, noise)
    return FitErrors(frequency=frequency_error, phase=phase_error)


def _with_errors_of_steps(errors: Floats, data: Floats, noise: Floats) -> Floats:
    """Return errors that are larger for channels that pass few steps of rounding.

    Numbers that are rounded to 0, 0.1, 0.2, … have steps of 0.1. A channel from 0.00 to 0.14 passes 1.4
    steps, which shows nothing: its errors are half a turn. If a channel passes a few steps, its errors
    are larger than those of least squares, which suppose that the rounding of many rows averages out.

    Args:
        errors: The errors of least squares, (numbers, channels).
        data: The channels, (rows, channels).
        noise: The standard deviation of each channel, from which the step follows.
    """
    step_of_rounding = np.maximum(STEP_IN_SIGMAS * noise, TINY)
    steps_passed = np.ptp(data, axis=0) / step_of_rounding
    passes_few_steps = steps_passed < FEW_STEPS
    shows_nothing = steps_passed < INVISIBLE_STEPS
    larger_errors = np.where(passes_few_steps, FEW_STEPS_PENALTY * errors, errors)
    return np.where(shows_nothing, np.pi, larger_errors)


def _cos_sin(
    offsets: Floats, frequency: Floats, phase: Floats | float = 0.0
) -> tuple[Floats, Floats]:
    """Return cos(frequency · offset + phase) and its sine, (rows, channels) each."""
    angles = _angles(offsets, frequency, phase)
    return np.cos(angles), np.sin(angles)


def _least_squares(columns: Sequence[Floats], data: Floats) -> Floats:
    """Return the numbers a, b, … for which a·columns[0] + b·columns[1] + … comes nearest to the data.

    Each channel has its own numbers. With its columns scaled to length 1 in a matrix U, they are
    inverse(Uᵀ·U) · Uᵀ·data, divided by the lengths.

    Args:
        columns: The columns of all channels, (rows, channels) each.
        data: The data of all channels, (rows, channels).

    Returns:
        The numbers, (columns, channels).
    """
    scaled = UnitColumns.of(columns)
    projections = [(column * data).sum(axis=0) for column in scaled.columns]  # Uᵀ·data
    vectors = np.stack(projections, axis=-1)[..., None]  # one per channel, (channels, columns, 1)
    solutions = scaled.inverses() @ vectors
    return np.asarray(solutions[..., 0].T / scaled.lengths)


def _variances_at_unit_noise(columns: Sequence[Floats]) -> Floats:
    """Return the variances (columns, channels) of the numbers that `_least_squares` finds for these columns.

    They hold for data with noise of size 1, and are the diagonal of inverse(Uᵀ·U), divided by the squares
    of the lengths. The more alike two columns are, the larger are the variances of their numbers.
    """
    scaled = UnitColumns.of(columns)
    variances = np.diagonal(scaled.inverses(), axis1=1, axis2=2).T
    return np.asarray(np.maximum(variances, 0) / np.square(scaled.lengths))


class UnitColumns(NamedTuple):
    """Columns of a fit by least squares, divided by their lengths so that each has length 1."""

    columns: list[Floats]  # (rows, channels) each
    lengths: Floats  # (columns, channels)

    @classmethod
    def of(cls, columns: Sequence[Floats]) -> Self:
        """Return columns (rows, channels) divided by their lengths."""
        lengths = np.array([np.sqrt((column**2).sum(axis=0)) + TINY for column in columns])
        return cls([*map(np.divide, columns, lengths)], lengths)

    def inverses(self) -> Floats:
        """Return inverse(Uᵀ·U) for each channel, (channels, columns, columns); U holds its columns.

        With columns of length 1, one threshold shows which columns the rows do not distinguish, whatever
        their units are. The pseudo-inverse leaves these out: they get the number 0.
        """
        products = [[(a * b).sum(axis=0) for b in self.columns] for a in self.columns]
        matrices = np.moveaxis(np.array(products), -1, 0)
        return np.asarray(np.linalg.pinv(matrices, rcond=SINGULAR, hermitian=True))


def _estimate_frequency_of_one_function(data: Floats) -> Floats:
    """Return a first estimate of each frequency of only cosines or only sines, from consecutive rows.

    A frequency of 0.1 turns by 0.8 over 8 rows. If that angle is measured as 0.84, the frequency is only
    off by 0.04 / 8. So angles are measured over 1, 2, 4, … rows. Each column keeps the frequency with the
    smallest error.

    Args:
        data: Consecutive rows, (rows, channels).
    """
    frequency: Floats = np.zeros(data.shape[1])
    smallest_error = np.full(data.shape[1], np.inf)
    # A third of the rows still has neighbours on both sides at the longest lag.
    longest_lag = max(1, len(data) // 3)
    lag = 1
    while lag <= longest_lag:
        measured = _angle_over_lag(data, lag)
        # The data show only a cosine, which 0.8, −0.8 and 2π − 0.8 have. The frequency so far shows which
        # of these angles it is. Over one row, it is the one from 0 to π, since the frequency so far is 0.
        angle = _nearest_with_same_cosine(measured.angle, estimate=lag * frequency)
        error = measured.error / lag
        is_better: Flags = error < smallest_error
        frequency = np.where(is_better, angle / lag, frequency)
        smallest_error = np.where(is_better, error, smallest_error)
        lag *= 2
    return frequency


class MeasuredAngle(NamedTuple):
    """The angle from 0 to π by which each channel turns over some rows, and its standard error."""

    angle: Floats
    error: Floats


def _angle_over_lag(data: Floats, lag: int) -> MeasuredAngle:
    """Return the angle α from 0 to π by which each column of a table turns over some rows, the lag.

    If x is a cosine or a sine, the rows before and after x[p] have the mean
    (x[p − lag] + x[p + lag]) / 2 = cos(α) · x[p]. So all means, drawn over x, lie on a line through 0
    with the slope cos(α).

    Args:
        data: Consecutive rows of only cosines or only sines, (rows, channels).
        lag: The number of rows.
    """
    x = data[lag:-lag]
    means = (data[: -2 * lag] + data[2 * lag :]) / 2
    # By least squares, the slope is Σ mean·x / Σ x². If the line leaves r of the n means, the error of the
    # slope is √(Σ r² / n / Σ x²). The true error is smaller, but this one shows which lag is better.
    sum_of_squares = np.maximum((x**2).sum(axis=0), TINY)
    cosine = np.clip((means * x).sum(axis=0) / sum_of_squares, -1, 1)
    residual = means - cosine * x
    row_count = max(1, len(residual))
    error_of_cosine = np.sqrt((residual**2).sum(axis=0) / sum_of_squares / row_count)
    angle = np.arccos(cosine)
    # The cosine changes by sin(angle) per radian. That is 0 at its top, where it does not show the angle.
    change_per_radian = np.maximum(np.sin(angle), LEAST_SLOPE)
    return MeasuredAngle(angle, np.asarray(error_of_cosine / change_per_radian))


def _nearest_with_same_cosine(angle: Floats, estimate: Floats) -> Floats:
    """Return the angle nearest to an estimate that has the cosine of a given one: 2π − 0.8 for 0.8 and 5.4."""
    forward = wrap(angle - estimate)
    backward = wrap(-angle - estimate)
    return np.asarray(estimate + np.where(np.abs(forward) <= np.abs(backward), forward, backward))
