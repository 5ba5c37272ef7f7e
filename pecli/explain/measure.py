"""Numbers taken from data: the frequency of every pair, the position of every row. Nothing is judged here."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Complex, Flags, Floats, Indices
from pecli.explain import wave_measurement
from pecli.explain.time_limit import check_time
from pecli.explain.wave_measurement import (
    MIN_RUN,
    TINY,
    MeasuredWaves,
    sharpened_frequency,
    wrap,
)

COARSE = 1e-5
"""Share of an amplitude by which float32 moves no phasor, while float16 and four decimals move most."""

SOLVER_STEPS = 6
"""Gauss-Newton steps of a fit. Most schedules are straight lines in logarithms, for which one is exact."""

SOLVER_STEPS_OF_SEVERAL = 24
"""Such steps of a fit of several numbers, of which many are halved."""

MAX_HALVED = 6
"""Times that a step of a fit is halved until it leads nearer."""

CONVERGED = 1e-10
"""Step of a logarithm below which a fit is at its end."""

MAX_MOVE = 3.0
"""Largest step of a fit of one number, in logarithms: a factor of e³ = 20. Slopes hold only nearby."""

MAX_MOVE_OF_SEVERAL = 1.0
"""Largest step of a fit of several numbers, which may make up for each other: a factor of e = 2.7."""

RUNAWAY_LOG = 100.0
"""Logarithm of a number from which on a fit ran away: no model has a base of e¹⁰⁰."""

SOLVER_STEP = 1e-4
"""Step of a logarithm for numerical slopes."""

FLOAT32_POWER_ERROR = 1e-6
"""Relative error of frequencies that float32 powers leave."""

FLOAT32_ROUNDING = 2.0**-24
"""Relative error of an angle that is rounded to float32: one of 4000 radians is off by 1.2e-4."""

SIGMAS = 6.0
"""Standard errors within which a measured number may be off."""

NO_MOVE = 6.0
"""Standard errors within which a frequency may be 0."""

MAX_SIGMAS = 12.0
"""Standard errors by which a measured frequency may miss its schedule, since errors are themselves estimates."""

SCANNED = math.log(64)
"""Logarithm by which a number is scanned up and down if rounded limits hide its gradient."""

SCAN_STEPS = 100
"""Numbers that are tried: YaRN's limits move every 2·ln(base)/dim = 0.14 of a logarithm, the steps are 0.08."""

LARGEST_CANDIDATE = 2048
"""Positions that rows of only cosines or only sines are compared with."""

MATCHED_AT_ONCE = 1 << 22
"""Rows times candidates that are compared at once: 32 MiB. All rows of a long table would take gigabytes."""

MANY_SCATTERED = 2 * MIN_RUN
"""Different positions of scattered rows that are not measured: the rows of a table with so many have a run."""

MAX_CERTAIN_ANGLE = 2.5
"""Radians that a pair certainly turns from one place of a grid to the next; π and −π look alike."""

LEAST_ANGLE = 0.1
"""Radians from which on a sign certainly shows."""

LEAST_GROWTH = 0.9
"""Share of a slower pair's angle that a faster one has at least; rounding makes equal ones differ."""

ALIKE = 0.98
"""Correlation of a row with the position that it is taken for, at least."""

MAX_MISMATCH = 0.12
"""Mean distance of a row's phasors from those of its position, as a share of the fastest pair's step to the next
position.
"""

MAX_MISS = 0.25
"""Share of the amplitude by which a pair may miss its wave: one that misses it by more is overwritten, not measured."""

MAX_WAVE_NOISE = 0.006
"""Noise as a share of the amplitude: two decimals leave 0.003, smooth images of which columns look like waves 0.01."""


def is_noise(distances: Floats, errors: Floats) -> Flags:
    """Return which measured numbers miss the expected ones by no more than their standard errors allow.

    >>> is_noise(np.array([12.0, 13.0]), np.array([1.0, 1.0])).tolist()
    [True, False]
    """
    return np.asarray(distances <= MAX_SIGMAS * errors)


class MeasuredFrequencies(NamedTuple):
    """Measured frequencies, radians per position, with one standard error each."""

    values: Floats
    errors: Floats
    amplitude: float
    is_folded: bool  # whether signs are lost, because only cosines or only sines are there
    noise: float = math.nan
    """Standard deviation of what waves leave, as a share of the amplitude; NaN if so few rows do not show it."""
    sharp_errors: Floats | None = None
    """The errors of frequencies that were not computed in float32; None if they are not known."""

    @property
    def sharpened(self) -> "MeasuredFrequencies":
        """The frequencies with the errors of the measurement alone.

        Powers in float32 are off by 1e-6 of a frequency, so that `errors` includes as much. But a table
        in float32 shows a frequency to 1e-10, and many are computed in float64 and only stored in float32.
        """
        return self if self.sharp_errors is None else self._replace(errors=self.sharp_errors)

    def agree_with(self, frequencies: Floats) -> bool:
        """Return True if a schedule gives all measured frequencies, whole turns per position apart."""
        return bool(self.agreeing(frequencies))

    def agreeing(self, frequencies: Floats) -> Flags:
        """Return for each of several lists of frequencies True if they are all as measured.

        Args:
            frequencies: Radians per position, (lists, pairs); each list follows another formula.
        """
        with np.errstate(all="ignore"):
            distances = np.abs(wrap(frequencies - self.values))
            if self.is_folded:  # The sign is not known: f and −f have the same cosines.
                distances_of_negative = np.abs(wrap(frequencies + self.values))
                distances = np.minimum(distances, distances_of_negative)
            return np.asarray(is_noise(distances, self.errors).all(axis=-1))

    @property
    def are_of_waves(self) -> bool:
        """True unless it shows that the channels are not waves."""
        return not self.noise > MAX_WAVE_NOISE

    @property
    def are_clean(self) -> bool:
        """True if many rows show that the channels are waves: then these are the frequencies, wherever rows belong."""
        return self.noise <= MAX_WAVE_NOISE

    @property
    def moving(self) -> Flags:
        """Pairs that certainly turn: their frequency is not 0 within its error."""
        return np.asarray(~(np.abs(self.values) <= NO_MOVE * self.errors))

    @property
    def is_known(self) -> Flags:
        """Frequencies that are measured to within a quarter of their size."""
        return np.asarray((self.errors < 0.25 * np.abs(self.values)) & (self.values != 0))


def least_squares_factor(expected: Floats, found: Floats) -> float:
    """Return the factor that minimises Σ (found − factor · expected)²; 0 if all expected numbers are 0.

    It is Σ expected · found / Σ expected²: 2 for the expected numbers 1, 3 and the found ones 2, 6.
    """
    power = float((expected**2).sum())
    return float((expected * found).sum()) / max(power, TINY)


def longest_run(positions: Floats) -> Indices:
    """Return the rows of the longest run of consecutive positions."""
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    runs = np.split(np.arange(len(positions)), breaks)
    return max(runs, key=len)


def frequencies_of(
    values: Complex | Floats, positions: Floats, rounding: float = FLOAT32_POWER_ERROR
) -> MeasuredFrequencies | None:
    """Measure the frequency, in radians per position, of each column of a table.

    Cosines 1, 0.995, 0.980, … and their sines turn by 0.1 from row to row.

    Args:
        values: The columns (rows, pairs): cos + i·sin, or real numbers if only one of both is there.
        positions: The position of each row.
        rounding: Error of each value by the dtype or the text in which it was stored.

    Returns:
        The frequencies; None if there are too few rows, or if most columns are not waves.
    """
    if _are_reversed(positions):  # Rows in reverse order are measured from the last one on.
        values = values[::-1]
        positions = positions[::-1]
    run = longest_run(positions)
    if len(run) < MIN_RUN:
        return _frequencies_of_few(values, positions, rounding)
    rows = _with_later_rows(run, positions)
    waves = wave_measurement.measure(values[rows], positions[rows])
    if waves is None or not waves.is_clean:
        return None
    return _frequencies_of_waves(waves)


def _with_later_rows(run: Indices, positions: Floats) -> Indices:
    """Return a run of consecutive rows, with the rows after it if these are the rest of one table.

    Positions 0 1 2 … 511 700 1200 are one table of which some rows were sampled, and far rows show a
    frequency best. In 0 1 2 … 511 0 1 2, the table has a break: only its longest run is measured.
    """
    after_run = np.arange(run[-1] + 1, len(positions))
    later = after_run[positions[after_run] > positions[run[-1]]]
    # Then every row is in the run, or comes after it and lies beyond it.
    is_one_table = len(run) + len(later) == len(positions)
    return np.concatenate([run, later]) if is_one_table else run


def _frequencies_of_waves(waves: MeasuredWaves) -> MeasuredFrequencies:
    """Return the frequencies of measured waves, one per column, with their errors."""
    usual_amplitude = np.median(waves.amplitude)
    # A column that is far from its wave was overwritten. It may have any frequency up to π, half a turn.
    is_wave = waves.noise <= MAX_MISS * usual_amplitude
    error_of_measurement = np.where(is_wave, waves.error, np.pi)
    # A program may compute frequencies as powers in float32, which are off by 1e-6 of their size.
    error_of_powers = FLOAT32_POWER_ERROR * np.abs(waves.frequency)
    has_one_function = not waves.has_both_functions
    return MeasuredFrequencies(
        values=waves.frequency,
        errors=np.hypot(error_of_measurement, error_of_powers),  # They are independent.
        amplitude=waves.shared_amplitude,
        is_folded=has_one_function,  # Cosines alone do not show the sign of a frequency.
        noise=float(np.median(waves.noise) / usual_amplitude),
        sharp_errors=error_of_measurement,  # for frequencies that were not computed in float32
    )


def _are_reversed(positions: Floats) -> bool:
    """Return True if positions rather count down by 1 than up: 7 6 5 4 3."""
    steps = np.diff(positions)
    return bool(np.count_nonzero(steps == -1) > np.count_nonzero(steps == 1))


def _frequencies_of_few(
    phasors: Complex | Floats, positions: Floats, rounding: float
) -> MeasuredFrequencies | None:
    """Measure frequencies from the angles of a few rows, which are too few for a fit of waves.

    Rows at consecutive positions, 5 6 7, are compared with each other; others, at 1 3 20, with
    position 0, where all angles are 0.

    Args:
        phasors: cos + i·sin of the rows, (rows, pairs), or real numbers if one of both is missing.
        positions: The position of each row.
        rounding: Error of an angle, in radians.

    Returns:
        The frequencies; None if only cosines or only sines are there, which show no angle, or if
        scattered rows do not show the frequencies.
    """
    if not np.iscomplexobj(phasors):
        return None
    phasors = np.asarray(phasors, np.complex128)
    # Values may be coarser than the storage that is supposed so far: those of float16, for example.
    error_of_angle = max(rounding, _storage_error(phasors))
    are_consecutive = len(positions) > 1 and (np.diff(positions) == 1).all()
    if are_consecutive:
        return _frequencies_of_neighbours(phasors, error_of_angle, np.abs(positions).max())
    return _frequencies_of_scattered(phasors, positions, error_of_angle)


def _frequencies_of_scattered(
    phasors: Complex, positions: Floats, error_of_angle: float
) -> MeasuredFrequencies | None:
    """Measure frequencies from the angles of a few rows at any positions, the nearest to 0 first.

    The row nearest to position 0 gives a frequency roughly, and each farther row more sharply: an
    angle of 0.302 at position 1 and of −0.26 at position 20, where the pair has turned once, is a
    frequency of (2π − 0.26) / 20 = 0.3012.

    Args:
        phasors: cos + i·sin of the rows, (rows, pairs).
        positions: The position of each row.
        error_of_angle: Error of an angle, in radians.

    Returns:
        The frequencies; None if there are many rows, or if all are so far from 0 that fast pairs
        may have turned several times.
    """
    rows = _nearest_to_0(positions)
    distances = np.abs(positions[rows])  # ascending, one per position
    are_few = len(np.unique(positions)) < MANY_SCATTERED
    starts_near_0 = (distances <= 1).any()
    if not are_few or not starts_near_0:
        return None
    frequencies = _sharpen_by_rows(phasors[rows], positions[rows])
    return _with_errors_of_angles(frequencies, phasors, error_of_angle, distances[-1])


def _nearest_to_0(positions: Floats) -> Indices:
    """Return one row per position other than 0, the nearest to 0 first: 3 1 0 for rows at 20 3 3 1."""
    _, first_rows = np.unique(positions, return_index=True)
    rows = first_rows[positions[first_rows] != 0]  # At position 0, all angles are 0.
    return np.asarray(rows[np.argsort(np.abs(positions[rows]))])


def _with_errors_of_angles(
    frequencies: Floats, phasors: Complex, error_of_angle: float | Floats, distance: float
) -> MeasuredFrequencies:
    """Return frequencies that follow from angles turned over a distance, with their errors.

    An angle that is off by 0.01 after 20 rows leaves an error of 0.01 / 20 per row.

    Args:
        frequencies: The frequencies, (pairs,).
        phasors: cos + i·sin of the rows, (rows, pairs).
        error_of_angle: Error of an angle, in radians: of all pairs, or of each.
        distance: The rows over which the angles were turned.
    """
    error = error_of_angle / distance + FLOAT32_POWER_ERROR * np.abs(frequencies)
    amplitude = float(np.median(np.abs(phasors)))
    return MeasuredFrequencies(frequencies, error, amplitude, is_folded=False)


def _sharpen_by_rows(phasors: Complex | Floats, positions: Floats) -> Floats:
    """Return the frequency of each pair (rows, pairs), from rows at positions ever farther from 0.

    An angle of 0.30 at position 1 is a frequency of 0.30. One of −0.24 at position 20, after a whole
    turn, makes it 0.302.
    """
    frequencies: Floats = np.zeros(phasors.shape[1])
    for position, phasors_of_row in zip(positions, phasors, strict=True):
        frequencies = sharpened_frequency(frequencies, np.angle(phasors_of_row), position)
    return frequencies


def _frequencies_of_neighbours(
    phasors: Complex, error_of_angle: float, farthest: float
) -> MeasuredFrequencies:
    """Measure frequencies from the angles between consecutive rows, wherever the first one is.

    A frequency becomes sharper with the distance of two rows. If a pair turns by 0.30 ± 0.01 from row
    to row, its frequency is 0.30 ± 0.01. If it turns by 1.21 ± 0.01 over 4 rows, it is 0.3025 ± 0.0025.

    Args:
        phasors: cos + i·sin of two or more consecutive rows, (rows, pairs).
        error_of_angle: Error of an angle, in radians, by the rounding of its cosine and sine.
        farthest: The largest position of these rows, without its sign.
    """
    frequencies = _angles_over_distance(phasors, 1)  # radians per row, sharpened below
    longest_distance = 1
    distance = 2
    while distance < len(phasors):
        # Whole turns over a long distance show in no angle. They follow from the frequency so far.
        angles = _angles_over_distance(phasors, distance)
        frequencies = sharpened_frequency(frequencies, angles, distance)
        longest_distance = distance
        distance *= 2
    # The largest angle, such as 4000 at position 4000, was rounded to float32 before its cosine.
    largest_angles = farthest * np.abs(frequencies)
    error_of_rounded_angle = error_of_angle + FLOAT32_ROUNDING * largest_angles
    error_between_rows = 2 * error_of_rounded_angle  # Both rows are rounded.
    return _with_errors_of_angles(frequencies, phasors, error_between_rows, longest_distance)


def _angles_over_distance(phasors: Complex, distance: int) -> Floats:
    """Return the mean angle by which each pair turns from a row to the row so many rows later.

    exp(i·b) times the conjugate of exp(i·a) is exp(i·(b − a)), so that the product of two rows has the
    angle between them.
    """
    later_rows = phasors[distance:]
    earlier_rows = phasors[:-distance]
    return np.asarray(np.angle((later_rows * earlier_rows.conj()).sum(axis=0)))


def frequencies_on_grid(
    phasors: Complex, positions: Floats, axes: Indices, expected: Floats, rounding: float
) -> MeasuredFrequencies | None:
    """Measure the frequency of each pair of a table over a grid, along the pair's own axis.

    In a vision encoder, for example, the first half of the pairs turns with the height of a patch,
    and the second half with its width. A frequency that no row shows has an infinite error, as those
    of time in a single image have.

    Args:
        phasors: cos + i·sin (rows, pairs).
        positions: The position of each row on each axis (axes, rows).
        axes: The axis that each pair follows: 0 0 1 1 for four pairs of height and width.
        expected: The frequency that each pair should have: it shows which pairs turn faster than others.
        rounding: Error of an angle, in radians.

    Returns:
        The frequencies of all pairs; None if those of no axis can be measured.
    """
    values = np.zeros(len(axes))
    errors = np.full(len(axes), np.inf)
    amplitudes = []
    for axis in np.unique(axes):
        pairs = np.flatnonzero(axes == axis)
        measured = _frequencies_along_axis(phasors, pairs, positions[axis], expected, rounding)
        if measured is not None:
            values[pairs] = measured.values
            errors[pairs] = measured.errors
            amplitudes.append(measured.amplitude)
    if not amplitudes:
        return None
    return MeasuredFrequencies(values, errors, float(np.mean(amplitudes)), is_folded=False)


def _frequencies_along_axis(
    phasors: Complex, pairs: Indices, positions: Floats, expected: Floats, rounding: float
) -> MeasuredFrequencies | None:
    """Measure the frequencies of the pairs that turn with one axis of a grid.

    The 12 rows of a 3 × 4 grid have three different heights: 0, 1 and 2. The four rows of one height
    should be equal in the pairs that turn with it. Their means are a table of three rows, one per
    height, which is measured like a table along one axis.

    Args:
        phasors: cos + i·sin (rows, pairs).
        pairs: The indices of the pairs that turn with the axis.
        positions: The position of each row on the axis.
        expected: The frequency that each pair of the table should have.
        rounding: Error of an angle, in radians.

    Returns:
        The frequencies; None if all rows have one position on the axis, or if the table of means does
        not show them.
    """
    different_positions = np.unique(positions)
    if len(different_positions) < 2:
        return None
    table = _mean_rows(phasors, pairs, positions, different_positions)
    step = different_positions[1] - different_positions[0]
    has_equal_steps = np.allclose(np.diff(different_positions), step)
    if has_equal_steps:
        return _frequencies_at_equal_steps(table, step, expected[pairs], rounding)
    return _frequencies_at_unequal_steps(table, different_positions, expected[pairs], rounding)


def _mean_rows(
    phasors: Complex, pairs: Indices, positions: Floats, different_positions: Floats
) -> Complex:
    """Return the mean of all rows at each position, (positions, pairs).

    These rows should be equal, except for their rounding, which partly cancels in the mean.

    Args:
        phasors: cos + i·sin (rows, pairs).
        pairs: The indices of the pairs to be returned.
        positions: The position of each row: 0 0 1 1 2 2.
        different_positions: These positions, each once: 0 1 2.
    """
    means = [
        phasors[positions == position][:, pairs].mean(axis=0) for position in different_positions
    ]
    return np.stack(means)


def _frequencies_at_equal_steps(
    table: Complex, step: float, expected: Floats, rounding: float
) -> MeasuredFrequencies | None:
    """Measure the frequencies of a table whose rows are at 0, step, 2·step, …, such as 0, 0.5, 1.

    It is measured as if its rows were at 0, 1, 2. An angle of 0.2 per row is then 0.4 per position, if
    the step is 0.5.

    Args:
        table: cos + i·sin, (rows, pairs).
        step: The distance of neighbouring rows.
        expected: The frequency that each pair should have.
        rounding: Error of an angle, in radians.

    Returns:
        The frequencies; None if the columns are not waves, or are too few and too coarse.
    """
    row_count = len(table)
    # In a few rows of float16, rounding hides the small angles of slow pairs.
    is_too_coarse = row_count < MIN_RUN and _storage_error(table) > COARSE
    if is_too_coarse:
        return None
    row_numbers = np.arange(row_count, dtype=np.float64)
    per_row = frequencies_of(table, row_numbers, rounding)
    if per_row is None:
        return None
    # Whole turns do not show: an angle of π + 0.1 per row is measured as −π + 0.1.
    is_uncertain = _may_turn_half(per_row.values, expected)
    errors = np.where(is_uncertain, np.inf, per_row.errors / step)
    return per_row._replace(values=per_row.values / step, errors=errors)


def _frequencies_at_unequal_steps(
    table: Complex, positions: Floats, expected: Floats, rounding: float
) -> MeasuredFrequencies | None:
    """Measure the frequencies of a table whose rows have unequal distances.

    Text around an image may be at 0, 1, 2, 8, 9, …. A frequency is uncertain, with an infinite error, if
    its pair may turn by half a turn over the shortest distance: angles of π + 0.1 and −π + 0.1 look alike.

    Args:
        table: cos + i·sin, (rows, pairs).
        positions: The position of each row.
        expected: The frequency that each pair should have.
        rounding: Error of an angle, in radians.

    Returns:
        The frequencies; None if the positions do not show them, or if the columns are not waves.
    """
    error_of_angle = max(rounding, _storage_error(table))
    measured = frequencies_of(table, positions, error_of_angle)
    if measured is None:
        return None
    shortest_angles = expected * _shortest_measured_distance(positions)
    is_uncertain = shortest_angles > MAX_CERTAIN_ANGLE
    return measured._replace(errors=np.where(is_uncertain, np.inf, measured.errors))


def _shortest_measured_distance(positions: Floats) -> float:
    """Return the shortest distance over which `frequencies_of` compares angles.

    In a long run of consecutive positions, rows are compared with their neighbours: it is 1. Other rows,
    such as those at 3, 7 and 20, are compared with position 0, of which the nearest is 3 away.
    """
    if len(longest_run(positions)) >= MIN_RUN:
        return 1.0
    nearest_row, *_ = _nearest_to_0(positions)
    return float(np.abs(positions[nearest_row]))


def _may_turn_half(angles: Floats, expected: Floats) -> Flags:
    """Return for each pair True if it may turn by half a turn or more from one row to the next.

    Whole turns do not show: an angle of 3.5 is measured as 3.5 − 2π = −2.8. Right angles grow from the
    slowest pair to the fastest. So a pair may have lost a turn if its angle is near half a turn (π), if
    it is smaller than that of a slower pair, or if it has another sign; all faster pairs then as well.

    >>> _may_turn_half(np.array([1.3, 2.6, -2.4, 1.4]), np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [False, True, True, True]

    Args:
        angles: The measured angle of each pair from row to row, in radians.
        expected: The frequency that each pair should have, which shows the order of the pairs.
    """
    slowest_first = np.argsort(expected, kind="stable")
    growing = angles[slowest_first]
    is_near_half = np.abs(growing) > MAX_CERTAIN_ANGLE
    is_strange = _is_smaller_than_slower(growing) | _is_opposite_to_slower(growing)
    from_first_in_doubt_on = np.logical_or.accumulate(is_near_half | is_strange)
    may_turn_half = np.empty(len(angles), bool)
    may_turn_half[slowest_first] = from_first_in_doubt_on
    return may_turn_half


def _is_smaller_than_slower(angles: Floats) -> Flags:
    """Return for each angle True if one before it, of a slower pair, is clearly larger, whatever their signs.

    >>> _is_smaller_than_slower(np.array([1.0, -2.0, 1.5])).tolist()
    [False, False, True]
    """
    sizes = np.abs(angles)
    largest_so_far = np.maximum.accumulate(sizes)
    return np.asarray(sizes < LEAST_GROWTH * largest_so_far)


def _is_opposite_to_slower(angles: Floats) -> Flags:
    """Return for each angle True if its sign is not that of the angles before it, of slower pairs.

    Their sum decides on the sign. Angles of less than LEAST_ANGLE are opposite to none, since noise may
    change their signs.

    >>> _is_opposite_to_slower(np.array([0.5, 1.0, -1.2])).tolist()
    [False, False, True]
    """
    sums_before = np.cumsum(angles) - angles
    has_other_sign = angles * sums_before < 0
    return np.asarray(has_other_sign & (np.abs(angles) > LEAST_ANGLE))


def _storage_error(phasors: Complex) -> float:
    """Return the share of the amplitude by which storage moved phasors: 5e-4 in float16, at most.

    All phasors of a table have one size, the amplitude, unless they were rounded.
    """
    sizes = np.abs(phasors)
    typical = np.median(sizes)
    return float(np.abs(sizes - typical).max() / typical) if typical else math.inf


class Fit(NamedTuple):
    """A fitted number, and how far it may be off."""

    value: float
    error: float


class _MoveOfOne(NamedTuple):
    """The change of a number's logarithm that leads nearest to the measured frequencies.

    If the logarithm grows by 0.01 and that of frequency i by 0.003, frequency i has the slope
    dᵢ = 0.3. With the residual rᵢ by which it misses the measured one, and the weight wᵢ, the sum
    Σ wᵢ·(rᵢ − dᵢ·move)² is smallest for move = Σ wᵢ·dᵢ·rᵢ / Σ wᵢ·dᵢ². This denominator is the inverse
    of the variance of the logarithm, and 0 if the number moves no frequency: then there is no move.
    """

    numerator: float
    inverse_variance: float

    @property
    def has_effect(self) -> bool:
        """True unless a small change of the number moves no frequency."""
        return not self.inverse_variance <= 0

    @property
    def move(self) -> float:
        return self.numerator / self.inverse_variance


class _FitOfOneNumber(NamedTuple):
    """A schedule with one unknown number, and measured frequencies that it should give, as logarithms.

    A *schedule* computes the frequencies of all pairs, such as base^(−i/denominator) from a base. In logarithms most
    schedules are straight lines, so that a number is called by its logarithm as well.
    """

    schedule: Callable[[float], Floats]
    is_known: Flags  # pairs whose frequencies are positive and measured well enough
    logs: Floats  # of the known frequencies
    errors: Floats  # of these logarithms

    @property
    def weights(self) -> Floats:
        return np.asarray(self.errors**-2)

    def predicted(self, log: float) -> Floats:
        """Return the logarithms of the known frequencies for a number."""
        frequencies = np.maximum(self.schedule(math.exp(log)), TINY)
        return np.asarray(np.log(frequencies)[self.is_known])

    def best_move(self, log: float) -> _MoveOfOne:
        """Return the change of a number's logarithm after which its frequencies are nearest to the measured ones.

        It is found by weighted least squares, Σ w·s·r / Σ w·s²: each log-frequency is r below the
        measured one, and grows by s if the number's logarithm grows by 1.
        """
        predicted = self.predicted(log)
        slopes = (self.predicted(log + SOLVER_STEP) - predicted) / SOLVER_STEP
        weighted_slopes = self.weights * slopes
        residuals = self.logs - predicted
        return _MoveOfOne(
            numerator=float(weighted_slopes @ residuals),
            inverse_variance=float(weighted_slopes @ slopes),
        )

    def may_explain(self, predictions: Floats) -> bool:
        """Return True unless a pair is wrong that the number does not change.

        YaRN's factor, for example, changes slow pairs only: if pair 0 should turn by 1 and turns by 0.9, no
        factor explains that.

        Args:
            predictions: The logarithms of the known frequencies for several numbers, (numbers, pairs);
                the first number is the expected one.
        """
        is_unchanged = np.ptp(predictions, axis=0) <= self.errors
        is_wrong = ~is_noise(np.abs(predictions[0] - self.logs), self.errors)
        return not (is_unchanged & is_wrong).any()

    def weighted_squares(self, predicted: Floats) -> Floats:
        """Return the weighted sum of the squares by which predicted logarithms (…, pairs) miss the measured ones.

        A pair that is far off counts no more for being farther: it may follow something else.
        """
        squares = np.minimum((predicted - self.logs) ** 2, 1.0)
        sums = np.sum(self.weights * squares, axis=-1)
        return np.asarray(np.nan_to_num(sums, nan=np.inf, posinf=np.inf))


def fit_number(
    schedule: Callable[[float], Floats], measured: MeasuredFrequencies, starts: Sequence[float]
) -> Fit | None:
    """Return the positive number, such as a base, for which a schedule gives the measured frequencies.

    Frequencies 1, 0.1 and 0.01 of the schedule b^(−i/4) lead to b = 10000. Their logarithms are fitted,
    since those of most schedules are straight lines: ln f = −i/4 · ln b.

    Args:
        schedule: Returns the frequencies of all pairs for a number.
        measured: The frequencies of a table.
        starts: First guesses, the expected number first. The fit begins with the best of them, since
            schedules with rounded limits (YaRN's) have several local solutions.

    Returns:
        The number and its error. None if no frequency is known, or if no number gives the known ones.
    """
    is_known = measured.is_known & (measured.values > 0)
    if not is_known.any():
        return None
    known_frequencies = measured.values[is_known]
    expected_number, *_ = starts
    expected_frequencies = schedule(expected_number)[is_known]
    if _are_in_other_order(known_frequencies, expected_frequencies):
        return None  # The columns were read from the last to the first: a fit would be nonsense.
    fit = _FitOfOneNumber(
        schedule=schedule,
        is_known=is_known,
        logs=np.log(known_frequencies),
        errors=measured.errors[is_known] / known_frequencies,  # 1 % of f is 0.01 of ln f.
    )
    log_starts = [math.log(start) for start in starts if start > 0]
    with np.errstate(all="ignore"):
        return _fit_from_nearest(fit, log_starts)


def _fit_from_nearest(fit: _FitOfOneNumber, log_starts: Sequence[float]) -> Fit | None:
    """Return the number that is found from the best of several first guesses, given as logarithms."""
    predictions = np.array([fit.predicted(log) for log in log_starts])  # (starts, known pairs)
    if not fit.may_explain(predictions):
        return None  # A frequency is wrong that does not depend on the number.
    nearest_start = log_starts[int(np.argmin(fit.weighted_squares(predictions)))]
    return _fit_by_gauss_newton(fit, nearest_start)


def _fit_by_gauss_newton(fit: _FitOfOneNumber, log_start: float) -> Fit | None:
    """Return the number, such as a base, whose frequencies come nearest to the measured ones.

    Gauss-Newton: in logarithms, frequencies change nearly along straight lines with the number. Each
    step moves to the number at which these lines are nearest to the measured frequencies.

    Args:
        fit: The schedule, which gives the frequencies for a number, and the measured ones.
        log_start: The logarithm of the first guess.

    Returns:
        The number and its error; None if the steps led to NaN or to a huge number.
    """
    log_number = log_start
    inverse_variance = 0.0  # of the logarithm
    for _ in range(SOLVER_STEPS):
        check_time()
        best = fit.best_move(log_number)
        if not best.has_effect:
            # YaRN's limits, for example, are rounded to whole pairs, and jump from pair to pair.
            return _fit_by_scanning(fit, log_number)
        inverse_variance = best.inverse_variance
        log_number += min(max(best.move, -MAX_MOVE), MAX_MOVE)
        if abs(best.move) < CONVERGED:
            break
    return _number_unless_diverged(log_number, inverse_variance)


def _number_unless_diverged(log_number: float, inverse_variance: float) -> Fit | None:
    """Return a number and how far it may be off, given its logarithm; None if this is NaN or huge.

    The standard error of the logarithm is 1/√inverse_variance. If it is 0.01, the number is off by 1 %.
    """
    is_possible = abs(log_number) <= RUNAWAY_LOG  # False of NaN as well.
    if not is_possible:
        return None
    number = math.exp(log_number)
    return Fit(number, SIGMAS * number / math.sqrt(inverse_variance))


def _are_in_other_order(frequencies: Floats, expected: Floats) -> bool:
    """Return True if most pairs turn faster than the one before although they should not: they were read in
    the wrong order.

    Nearly all schedules descend: 1, 0.1, 0.01. Those of some grids ascend.
    """
    is_wrongly_faster = (np.diff(frequencies) > 0) & ~(np.diff(expected) > 0)
    return bool(2 * np.count_nonzero(is_wrongly_faster) > len(frequencies))


def _fit_by_scanning(fit: _FitOfOneNumber, log_start: float) -> Fit:
    """Return the number of a schedule with which it comes nearest to measured frequencies, by trying many.

    The number may be YaRN's `beta_fast`, which frequencies show only roughly: it is rounded to a whole
    pair, so that all numbers from 28 to 32 may give the same frequencies. Then the result is 30 ± 2. A
    hundred numbers are tried, from 1/64 to 64 times a first guess, each 9 % larger than the one before.

    Args:
        fit: The schedule and the measured frequencies.
        log_start: The logarithm of the first guess.
    """
    tried_logs = log_start + np.linspace(-SCANNED, SCANNED, SCAN_STEPS)
    predictions = np.array([fit.predicted(log) for log in tried_logs])  # (numbers, known pairs)
    chi_squares = fit.weighted_squares(predictions)
    # A number that is off by one standard error has a sum of weighted squares that is larger by 1.
    fits_best = chi_squares <= chi_squares.min() + 1.0
    # There is hardly ever more than one interval. The number is only a guess, which is tested later.
    interval = _first_interval(fits_best)
    lowest = math.exp(tried_logs[interval[0]])
    highest = math.exp(tried_logs[interval[-1]])
    # The interval may reach up to the next number that was tried, highest · e^step ≈ highest + highest · step.
    step = tried_logs[1] - tried_logs[0]
    width_beyond = highest * step
    return Fit(
        value=(lowest + highest) / 2,
        error=(highest - lowest) / 2 + width_beyond,
    )


def _first_interval(flags: Flags) -> Indices:
    """Return the indices of the first flags that are True without a gap: 1 2 for 0 1 1 0 0 1."""
    indices = np.flatnonzero(flags)
    is_gap_after = np.diff(indices) != 1
    intervals = np.split(indices, np.flatnonzero(is_gap_after) + 1)
    return intervals[0]


def fit_several_numbers(
    schedule: Callable[[Sequence[float]], Floats],
    measured: MeasuredFrequencies,
    start: Sequence[float],
) -> list[Fit] | None:
    """Return several positive numbers, such as a base and a factor, that give the measured frequencies.

    As in `fit_number`, logarithms are fitted by Gauss-Newton steps. Several numbers may make up for
    each other, so that a step may lead too far: then it is halved.

    Args:
        schedule: Returns the frequencies of all pairs for the numbers.
        measured: The frequencies of a table.
        start: A first guess of each number.

    Returns:
        The numbers and their errors. None if there are no more known frequencies than numbers, or if
        no numbers give the known ones.
    """
    is_known = measured.is_known & (measured.values > 0)
    if np.count_nonzero(is_known) <= len(start):
        return None
    known_frequencies = measured.values[is_known]
    expected_frequencies = schedule(start)[is_known]
    if _are_in_other_order(known_frequencies, expected_frequencies):
        return None  # The columns were read from the last to the first: a fit would be nonsense.
    fit = _FitOfSeveralNumbers(
        schedule=schedule,
        is_known=is_known,
        logs=np.log(known_frequencies),
        # The error of ln f is error / f. Least squares weights each residual by its inverse.
        weights=known_frequencies / measured.errors[is_known],
    )
    with np.errstate(all="ignore"):
        return _fit_all_by_gauss_newton(fit, np.log(np.array(start)))


class _FitOfSeveralNumbers(NamedTuple):
    """A schedule with several unknown numbers, and measured frequencies that it should give, as logarithms."""

    schedule: Callable[[Sequence[float]], Floats]
    is_known: Flags  # pairs whose frequencies are positive and measured well enough
    logs: Floats  # of the known frequencies
    weights: Floats  # the inverse errors of these logarithms

    def residuals(self, logs: Floats) -> Floats:
        """Return how far known frequencies are from the measured ones, in standard errors.

        Args:
            logs: The logarithms of the unknown numbers.
        """
        frequencies = np.maximum(self.schedule(np.exp(logs).tolist())[self.is_known], TINY)
        return np.asarray(self.weights * (np.log(frequencies) - self.logs))

    def slopes(self, logs: Floats, residuals: Floats) -> Floats:
        """Return the derivatives (residuals, numbers) of the residuals, by a small step of each logarithm.

        Args:
            logs: The logarithms of the unknown numbers.
            residuals: The residuals for these numbers.
        """
        columns = []
        steps_of_one_number = SOLVER_STEP * np.eye(len(logs))  # One number moves in each row.
        for step in steps_of_one_number:
            residuals_after_step = self.residuals(logs + step)
            columns.append((residuals_after_step - residuals) / SOLVER_STEP)
        return np.stack(columns, axis=1)


def _fit_all_by_gauss_newton(fit: _FitOfSeveralNumbers, log_starts: Floats) -> list[Fit] | None:
    """Return the numbers, such as a base and a factor, whose frequencies come nearest to the measured ones.

    Gauss-Newton, in logarithms: residuals (computed minus measured frequencies) change nearly along
    straight lines with the numbers. Each step minimises the sum of their squares along these lines.

    Args:
        fit: The schedule, which gives the frequencies for some numbers, and the measured ones.
        log_starts: The logarithms of a first guess of each number.

    Returns:
        The numbers and their errors; None if the schedule has no finite frequencies.
    """
    logs = log_starts
    covariance: Floats = np.zeros((len(logs), len(logs)))  # of the logarithms
    for _ in range(SOLVER_STEPS_OF_SEVERAL):
        check_time()
        residuals = fit.residuals(logs)
        slopes = fit.slopes(logs, residuals)
        if not np.isfinite(slopes).all():
            return None
        # After a step, this is the covariance before it, which a last, short step hardly changes.
        best_move, covariance = _solve_for_move(slopes, residuals)
        short_move = np.clip(best_move, -MAX_MOVE_OF_SEVERAL, MAX_MOVE_OF_SEVERAL)
        nearer_logs = _logs_after_helpful_part(short_move, fit, logs, residuals)
        if nearer_logs is None:
            break  # These numbers are the nearest.
        logs = nearer_logs
    return _numbers_of_logarithms(logs, covariance)


class _MoveOfSeveral(NamedTuple):
    """The best change of several logarithms, and the covariance of these."""

    move: Floats  # (numbers,)
    covariance: Floats  # (numbers, numbers)


def _solve_for_move(slopes: Floats, residuals: Floats) -> _MoveOfSeveral:
    """Return the move of all logarithms for which residuals + slopes · move is nearest to 0.

    By least squares: (slopesᵀ · slopes) · move = −slopesᵀ · residuals. Residuals are in standard
    errors, so that the inverse of slopesᵀ · slopes is the covariance of the logarithms.

    Args:
        slopes: The derivatives of the residuals, (residuals, numbers).
        residuals: How far the frequencies are from the measured ones, in standard errors.
    """
    covariance = np.asarray(np.linalg.pinv(slopes.T @ slopes), np.float64)
    move = -covariance @ (slopes.T @ residuals)
    return _MoveOfSeveral(move, covariance)


def _numbers_of_logarithms(logs: Floats, covariance: Floats) -> list[Fit]:
    """Return fitted numbers, given their logarithms and the covariance of these.

    If ln x is off by 0.01, x is off by 1 %: an error of a logarithm is a relative error.
    """
    values = np.exp(logs)
    errors_of_logs = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    errors = SIGMAS * values * errors_of_logs
    return list(map(Fit, values.tolist(), errors.tolist()))


def _logs_after_helpful_part(
    move: Floats, fit: _FitOfSeveralNumbers, logs: Floats, residuals: Floats
) -> Floats | None:
    """Return logarithms after the largest part of a move that leads nearer: all, a half, a quarter, …

    A whole move may lead too far, since it follows slopes that hold only nearby. None is returned if
    no part leads nearer.

    Args:
        move: The change of each logarithm.
        fit: The schedule and the measured frequencies.
        logs: The logarithms of the numbers before the move.
        residuals: The residuals before the move.
    """
    squares_before = _sum_of_squares(residuals)
    for halvings in range(MAX_HALVED):
        moved = logs + 0.5**halvings * move
        if _sum_of_squares(fit.residuals(moved)) < squares_before:
            return np.asarray(moved)
    return None


def _sum_of_squares(residuals: Floats) -> float:
    return float((residuals**2).sum())


def are_intact(phasors: Complex) -> Flags:
    """Return for each pair True unless one of its columns was overwritten.

    Phasors cos + i·sin (rows, pairs) of one pair all have the same size; if something was written over
    its cosines or sines, their sizes vary from row to row.
    """
    sizes = np.nan_to_num(np.abs(phasors))
    usual = np.median(sizes, axis=0)
    spread = np.median(np.abs(sizes - usual), axis=0)
    return np.asarray(spread <= MAX_MISS * usual)


def solve_positions(phasors: Complex, frequencies: Floats, expected: Floats) -> Floats:
    """Return the position at which each row of cosines and sines was computed; NaN for a row that is at none.

    The slowest pair gives a position roughly, and each faster pair gives it more sharply. With the
    frequencies 0.001 and 1, an angle of 0.0371 ± 0.0004 of the first is position 37.1 ± 0.4. The angle
    of the second then selects 37.

    Args:
        phasors: cos + i·sin of the rows, (rows, pairs).
        frequencies: Radians per position, one per pair.
        expected: The position that each row should have. If even the slowest pair turns many times,
            the solution nearest to it is taken.
    """
    positions = expected.astype(np.float64)
    slowest_first = np.argsort(np.abs(frequencies))
    for pair in slowest_first:
        if frequencies[pair] == 0:
            continue  # It has one angle at all positions.
        missing_angles = _angles_ahead(phasors[:, pair], angles=positions * frequencies[pair])
        positions = positions + missing_angles / frequencies[pair]
    whole_positions = np.rint(positions)
    is_solved = _are_near_rows_of_positions(whole_positions, phasors, frequencies)
    return np.where(is_solved, whole_positions, np.nan)


def _angles_ahead(phasors: Complex, angles: Floats) -> Floats:
    """Return by how much the angle of each phasor r·exp(i·a) is ahead of a given one, from −π to π.

    The product of exp(i·a) and exp(−i·b) is exp(i·(a − b)). A phasor of 0 has no angle: 0 is returned.
    """
    differences = np.angle(phasors * np.exp(-1j * angles))
    return np.where(np.abs(phasors) > 0, differences, 0.0)


def _are_near_rows_of_positions(positions: Floats, phasors: Complex, frequencies: Floats) -> Flags:
    """Return for each row of cos + i·sin (rows, pairs) True if it is nearly exp(i · position · frequency).

    It is near if the mean distance of its pairs is a small share of a step: of the distance by which
    its fastest pair moves to the next position.

    Args:
        positions: The position of each row, as it was solved from the phasors.
        phasors: cos + i·sin of the rows. A row without any phasor, all zeros, is at no position.
        frequencies: Radians per position, one per pair.
    """
    expected = np.exp(1j * np.multiply.outer(positions, frequencies))
    distances = np.abs(_scaled_to_size_1(phasors) - expected)
    has_phasor = np.abs(phasors) > 0
    speeds = np.where(has_phasor, np.abs(frequencies), 0.0)  # (rows, pairs), 0 for a missing pair
    # Faster pairs show more of a position, and count as much more.
    mean_distances = _weighted_means(distances, weights=speeds)
    # A pair that turns by f radians moves by about f, if f is small. Two points of a circle of radius 1
    # are never far apart, so that a step counts as 1 at most.
    fastest = speeds.max(axis=1, initial=0.0)
    steps = np.minimum(fastest, 1.0)
    return np.asarray(mean_distances <= MAX_MISMATCH * steps)


def _scaled_to_size_1(phasors: Complex) -> Complex:
    """Return each phasor divided by its size; those of size 0 stay 0."""
    sizes = np.abs(phasors)
    return np.asarray(phasors / np.where(sizes > 0, sizes, 1.0))


def _weighted_means(values: Floats, weights: Floats) -> Floats:
    """Return the weighted mean of each row; infinity for a row whose weights are all 0."""
    sums = (values * weights).sum(axis=1)
    total_weights = weights.sum(axis=1)
    infinities = np.full(len(values), np.inf)
    return np.asarray(np.divide(sums, total_weights, out=infinities, where=total_weights > 0))


def match_positions(matrix: Floats, render: Callable[[Floats], Floats], expected: Floats) -> Floats:
    """Return the position whose row in the right table is nearest to each row; NaN if none is near.

    For tables of only cosines or only sines: their angles are ambiguous, so that no position can be
    solved. Rows are compared with those of 0 to 2,047 and of all expected positions, up to a factor.

    Args:
        matrix: The rows of a table.
        render: Returns the right rows of some positions.
        expected: The position that each row should have.
    """
    candidates = np.unique(np.concatenate([np.arange(LARGEST_CANDIDATE, dtype=float), expected]))
    candidate_directions = _scaled_to_length_1(render(candidates))
    directions = _scaled_to_length_1(matrix)
    block_rows = max(1, MATCHED_AT_ONCE // len(candidates))
    positions = []
    for start in range(0, len(directions), block_rows):
        check_time()
        block = directions[start : start + block_rows]
        likeness = np.nan_to_num(block @ candidate_directions.T, nan=-1.0)  # (rows, candidates)
        nearest = candidates[likeness.argmax(axis=1)]
        positions.append(np.where(likeness.max(axis=1) >= ALIKE, nearest, np.nan))
    return np.concatenate(positions)


def _scaled_to_length_1(rows: Floats) -> Floats:
    """Return each row divided by its length; rows of zeros become NaN."""
    with np.errstate(all="ignore"):
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


__all__ = ["Fit", "MeasuredFrequencies", "fit_number", "frequencies_of", "solve_positions", "wrap"]
