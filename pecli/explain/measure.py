"""Numbers taken from data: the frequency of every pair, the position of every row. Nothing is judged here."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Complex, Flags, Floats, Indices
from pecli.explain import wave_measurement
from pecli.explain.time_limit import check_time
from pecli.explain.wave_measurement import MIN_RUN, wrap

COARSE = 1e-5
"""Share of an amplitude by which float32 moves no turn, while float16 and four decimals move most."""

SOLVER_STEPS = 6
"""Gauss-Newton steps of a fit. Most laws are straight lines in logarithms, for which one is exact."""

MAX_HALVED = 6
"""Times that a step of a fit is halved until it leads nearer."""

CONVERGED = 1e-10
"""Step of a logarithm below which a fit is at its end."""

SOLVER_STEP = 1e-4
"""Step of a logarithm for numerical slopes."""

FLOAT32_DRIFT = 1e-6
"""Relative error of frequencies that float32 powers leave."""

SIGMAS = 6.0
"""Standard errors within which a measured number may be off."""

MAX_SIGMAS = 12.0
"""Standard errors by which a measured frequency may miss its law, since errors are themselves estimates."""

SCANNED = math.log(64)
"""Logarithm by which a number is scanned up and down if rounded limits hide its gradient."""

SCAN_STEPS = 100
"""Numbers that are tried: YaRN's limits move every 2·ln(base)/dim = 0.14 of a logarithm, the steps are 0.08."""

LARGEST_CANDIDATE = 2048
"""Positions that rows of only cosines or only sines are compared with."""

MATCHED_AT_ONCE = 1 << 22
"""Rows times candidates that are compared at once: 32 MiB. All rows of a long table would take gigabytes."""

ALIKE = 0.98
"""Correlation of a row with the position that it is taken for, at least."""

MAX_MISMATCH = 0.12
"""Mean distance of a row's turns from those of its position, in units of the largest frequency."""


MAX_NOISE = 0.25
"""Share of the amplitude by which a pair may miss its wave: one that misses it by more is overwritten, not measured."""

MAX_WAVE_NOISE = 0.006
"""Noise as a share of the amplitude: two decimals leave 0.003, smooth images of which columns look like waves 0.01."""


class Frequencies(NamedTuple):
    """Measured frequencies, radians per position, with one standard error each."""

    values: Floats
    errors: Floats
    amplitude: float
    is_folded: bool  # whether signs are lost, because only cosines or only sines are there
    noise: float = math.nan
    """Standard deviation of what waves leave, as a share of the amplitude; NaN if so few rows do not show it."""

    def agree_with(self, frequencies: Floats) -> bool:
        """Return True if a law gives all measured frequencies, whole turns per position apart."""
        return bool(self.agreeing(frequencies))

    def agreeing(self, frequencies: Floats) -> Flags:
        """Return which of several laws (laws, pairs) give all measured frequencies."""
        with np.errstate(all="ignore"):
            off = np.abs(wrap(frequencies - self.values))
            if self.is_folded:
                off = np.minimum(off, np.abs(wrap(frequencies + self.values)))
            return np.asarray((off <= MAX_SIGMAS * self.errors).all(axis=-1))

    @property
    def are_of_waves(self) -> bool:
        """True unless it shows that the channels are not waves."""
        return not self.noise > MAX_WAVE_NOISE

    @property
    def are_clean(self) -> bool:
        """True if many rows show that the channels are waves: then these are the frequencies, wherever rows belong."""
        return self.noise <= MAX_WAVE_NOISE

    @property
    def known(self) -> Flags:
        """Frequencies that are measured to within a quarter of their size."""
        return np.asarray((self.errors < 0.25 * np.abs(self.values)) & (self.values != 0))


def longest_run(positions: Floats) -> Indices:
    """Return the rows of the longest run of consecutive positions."""
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    runs = np.split(np.arange(len(positions)), breaks)
    return max(runs, key=len)


def frequencies_of(
    values: Complex | Floats, positions: Floats, rounding: float = FLOAT32_DRIFT
) -> Frequencies | None:
    """Measure the frequency of each pair from turns, or from one function of each; None if there are too few rows.

    The longest run of consecutive positions is measured; a table with a break in it is measured on one side.
    """
    if _descend(positions):
        values = values[::-1]
        positions = positions[::-1]
    run = longest_run(positions)
    if len(run) < MIN_RUN:
        return _frequencies_of_few(values, positions, rounding)
    after_run = np.arange(run[-1] + 1, len(positions))
    ascending = after_run[positions[after_run] > positions[run[-1]]]
    is_one_table = len(run) + len(ascending) == len(positions)
    rows = np.concatenate([run, ascending]) if is_one_table else run
    waves = wave_measurement.measure(values[rows], positions[rows])
    if waves is None or not waves.clean:
        return None
    error = np.hypot(waves.error, FLOAT32_DRIFT * np.abs(waves.frequency))
    is_wave = waves.noise <= MAX_NOISE * np.median(waves.amplitude)
    error = np.where(is_wave, error, np.pi)
    noise = float(np.median(waves.noise) / np.median(waves.amplitude))
    return Frequencies(waves.frequency, error, waves.shared_amplitude, not waves.both, noise)


def _descend(positions: Floats) -> bool:
    """Return True if positions count down, as those of rows in reverse order do."""
    steps = np.diff(positions)
    return bool(np.count_nonzero(steps == -1) > np.count_nonzero(steps == 1))


def _frequencies_of_few(
    turns: Complex | Floats, positions: Floats, rounding: float
) -> Frequencies | None:
    """Read frequencies off the angles of a few rows: roughly at the smallest position, more sharply at larger ones.

    An angle of 0.302 at position 1 and of −0.26 at position 20 is a frequency of (2π − 0.26) / 20 = 0.3012.
    """
    if len(positions) > 1 and np.iscomplexobj(turns) and (np.diff(positions) == 1).all():
        return _frequencies_of_neighbours(np.asarray(turns, np.complex128), rounding)
    _, first = np.unique(positions, return_index=True)  # of rows at one position, the first
    order = first[np.argsort(np.abs(positions[first]))]
    places = positions[order]
    used = np.flatnonzero(places != 0)
    if not np.iscomplexobj(turns) or not len(used) or len(places) >= 2 * MIN_RUN:
        return None
    # At position 8, fast pairs have made a whole turn already.
    if abs(places[used[0]]) > 1:
        return None
    angles = np.angle(turns[order])
    frequencies = angles[used[0]] / places[used[0]]
    for row in used[1:]:
        frequencies = frequencies + wrap(angles[row] - frequencies * places[row]) / places[row]
    error = rounding / np.abs(places[used[-1]]) + FLOAT32_DRIFT * np.abs(frequencies)
    amplitude = float(np.median(np.abs(turns)))
    return Frequencies(frequencies, error, amplitude, False)


def _frequencies_of_neighbours(turns: Complex, rounding: float) -> Frequencies:
    """Read frequencies off the angles between rows, wherever the first one is: neighbours first, then farther ones."""
    frequencies = np.zeros(turns.shape[1])
    lag = 1
    while lag < len(turns):
        angles = np.angle((turns[lag:] * turns[:-lag].conj()).sum(axis=0))
        frequencies = frequencies + wrap(angles - lag * frequencies) / lag
        lag *= 2
    error = 2 * rounding / (lag / 2) + FLOAT32_DRIFT * np.abs(frequencies)
    return Frequencies(frequencies, error, float(np.median(np.abs(turns))), False)


def frequencies_on_grid(
    turns: Complex, positions: Floats, axes: Indices, rounding: float = FLOAT32_DRIFT
) -> Frequencies | None:
    """Measure the frequency of each pair along its own axis.

    Args:
        turns: cos + i·sin (rows, pairs).
        positions: The position of each row on each axis (axes, rows).
        axes: The axis that each pair follows.
        rounding: Error of an angle, in radians.

    Returns:
        The frequencies of all pairs; None if those of any axis cannot be measured.
    """
    values = np.zeros(len(axes))
    errors = np.zeros(len(axes))
    amplitudes = []
    for axis in np.unique(axes):
        pairs = np.flatnonzero(axes == axis)
        measured = _frequencies_along_axis(turns, pairs, positions[axis], rounding)
        if measured is None:
            return None
        values[pairs] = measured.values
        errors[pairs] = measured.errors
        amplitudes.append(measured.amplitude)
    return Frequencies(values, errors, float(np.mean(amplitudes)), False)


def _frequencies_along_axis(
    turns: Complex, pairs: Indices, positions: Floats, rounding: float
) -> Frequencies | None:
    """Measure the frequencies of some pairs, all of which follow one axis.

    Rows at the same place of the axis have the same turns, so their means are a short table with
    one row per place: the 12 rows of a 3 × 4 grid become a table of 3 rows for the height.

    Returns:
        The frequencies; None if all rows are at one place, if so few places are stored so coarsely
        that their angles show no frequency, or if the turns are not those of waves.
    """
    places, place_of_row = np.unique(positions, return_inverse=True)
    if len(places) < 2:
        return None
    rows_by_place = [turns[place_of_row == place] for place in range(len(places))]
    means = np.stack([rows[:, pairs].mean(axis=0) for rows in rows_by_place])
    step = places[1] - places[0]
    is_even = np.allclose(np.diff(places), step)
    if not is_even:
        # Text around an image is at 0, 1, 2, 8, 9, …: each place counts as it is.
        return frequencies_of(means, places, max(rounding, _roughness(means)))
    if len(places) < MIN_RUN and _roughness(means) > COARSE:
        return None
    # Places of a stretched grid may be 0, 0.5, 1, …: they are measured as 0, 1, 2, … steps.
    per_step = frequencies_of(means, np.arange(len(places), dtype=np.float64), rounding)
    if per_step is None:
        return None
    return per_step._replace(values=per_step.values / step, errors=per_step.errors / step)


def _roughness(turns: Complex) -> float:
    """Return the share of the amplitude by which storage moved turns: 5e-4 in float16, at most."""
    sizes = np.abs(turns)
    typical = np.median(sizes)
    return float(np.abs(sizes - typical).max() / typical) if typical else math.inf


class Fit(NamedTuple):
    """A fitted number, and how far it may be off."""

    value: float
    error: float


def fit_number(
    law: Callable[[float], Floats], measured: Frequencies, starts: Sequence[float]
) -> Fit | None:
    """Return the positive number for which a law gives the measured frequencies, by Gauss-Newton in logarithms.

    Laws with rounded limits (YaRN's) have several local solutions: the search begins at the start that comes nearest.
    """
    known = measured.known & (measured.values > 0)
    if not known.any() or _mostly_ascend(measured.values[known]):
        return None
    logs = np.log(measured.values[known])
    errors = measured.errors[known] / measured.values[known]
    weights = errors**-2

    def misfit(position: float) -> float:
        error = np.sum(weights * np.minimum((_logs(law, position)[known] - logs) ** 2, 1.0))
        return float(error) if math.isfinite(error) else math.inf

    with np.errstate(all="ignore"):
        positions = [math.log(start) for start in starts if start > 0] or [0.0]
        tried = np.array([_logs(law, position)[known] for position in positions])
        is_fixed = np.ptp(tried, axis=0) <= errors
        is_wrong = np.abs(tried[0] - logs) > MAX_SIGMAS * errors
        if (is_fixed & is_wrong).any():
            return None  # YaRN's factor changes slow pairs only: it explains no other frequency of a fast one.
        misfits = (np.minimum((tried - logs) ** 2, 1.0) * weights).sum(axis=1)
        position = positions[int(np.argmin(np.nan_to_num(misfits, nan=math.inf)))]
        curvature = 0.0
        for _ in range(SOLVER_STEPS):
            check_time()
            now = _logs(law, position)[known]
            slope = (_logs(law, position + SOLVER_STEP)[known] - now) / SOLVER_STEP
            curvature = float((weights * slope) @ slope)
            if not math.isfinite(curvature):
                return None
            if curvature <= 0:  # rounded limits (YaRN's) do not move with the number
                return _fit_by_scanning(misfit, position)
            move = float((weights * slope) @ (logs - now)) / curvature
            if abs(move) < CONVERGED:
                break
            position += min(max(move, -3.0), 3.0)
    if not math.isfinite(position) or abs(position) > 100:
        return None
    value = math.exp(position)
    return Fit(value, SIGMAS * value / math.sqrt(curvature))


def _mostly_ascend(frequencies: Floats) -> bool:
    """Return True if later pairs turn faster, as they do in no law: the pairs were read in the wrong order."""
    return bool(2 * np.count_nonzero(np.diff(frequencies) > 0) > len(frequencies))


def _fit_by_scanning(misfit: Callable[[float], float], start: float) -> Fit:
    """Return the middle and half the width of the interval of numbers that fit best, on a fine grid of logarithms."""
    grid = start + np.linspace(-SCANNED, SCANNED, SCAN_STEPS)
    misfits = np.array([misfit(position) for position in grid])
    best = np.flatnonzero(misfits <= misfits.min() + 1.0)
    run = np.split(best, np.flatnonzero(np.diff(best) != 1) + 1)[0]
    low = math.exp(grid[run[0]])
    high = math.exp(grid[run[-1]])
    # The interval may reach beyond the last number that was tried, by less than a step.
    beyond = high * (grid[1] - grid[0])
    return Fit((low + high) / 2, (high - low) / 2 + beyond)


def fit_numbers(
    law: Callable[[Sequence[float]], Floats], measured: Frequencies, start: Sequence[float]
) -> list[Fit] | None:
    """Return several positive numbers for which a law gives the measured frequencies, by damped Gauss-Newton."""
    known = measured.known & (measured.values > 0)
    if np.count_nonzero(known) <= len(start) or _mostly_ascend(measured.values[known]):
        return None
    logs = np.log(measured.values[known])
    weights = measured.values[known] / measured.errors[known]

    def residuals(position: Floats) -> Floats:
        frequencies = np.maximum(law(np.exp(position).tolist())[known], 1e-300)
        return np.asarray(weights * (np.log(frequencies) - logs))

    position = np.log(np.array(start))
    covariance: Floats = np.zeros((len(start), len(start)))
    with np.errstate(all="ignore"):
        for _ in range(4 * SOLVER_STEPS):
            check_time()
            now = residuals(position)
            slopes = [
                (residuals(position + SOLVER_STEP * unit) - now) / SOLVER_STEP
                for unit in np.eye(len(start))
            ]
            jacobian = np.stack(slopes, axis=1)
            if not np.isfinite(jacobian).all():
                return None
            covariance = np.asarray(np.linalg.pinv(jacobian.T @ jacobian), np.float64)
            move = np.clip(-covariance @ (jacobian.T @ now), -1.0, 1.0)
            moves = (0.5**halved * move for halved in range(MAX_HALVED))
            nearer = (step for step in moves if _size(residuals(position + step)) < _size(now))
            step = next(nearer, None)
            if step is None:
                break
            position = position + step
    values = np.exp(position)
    errors = SIGMAS * values * np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return [Fit(float(value), float(error)) for value, error in zip(values, errors, strict=True)]


def _size(residuals: Floats) -> float:
    return float((residuals**2).sum())


def _logs(law: Callable[[float], Floats], position: float) -> Floats:
    return np.log(np.maximum(law(math.exp(position)), 1e-300))


def steady_pairs(turns: Complex) -> Flags:
    """Return which pairs have turns of one size (rows, pairs): if a column was overwritten, those of its pair vary."""
    sizes = np.nan_to_num(np.abs(turns))
    usual = np.median(sizes, axis=0)
    spread = np.median(np.abs(sizes - usual), axis=0)
    return np.asarray(spread <= MAX_NOISE * usual)


def solve_positions(turns: Complex, frequencies: Floats, expected: Floats) -> Floats:
    """Return the position of each row of turns (rows, pairs); NaN for a row that is at no position.

    The slowest pair gives a position roughly, near the expected one if it turns many times; each faster pair gives it
    more sharply. With frequencies 0.001 and 1, an angle of 0.0371 ± 0.0004 of the first is position 37.1 ± 0.4, and
    the angle of the second then selects 37.
    """
    size = np.abs(turns)
    weight = (size > 0) * np.abs(frequencies)
    positions = expected.astype(np.float64)
    for pair in np.argsort(np.abs(frequencies)):
        if frequencies[pair] == 0:
            continue
        left = np.angle(turns[:, pair] * np.exp(-1j * positions * frequencies[pair]))
        positions = positions + np.where(size[:, pair] > 0, left, 0.0) / frequencies[pair]
    positions = np.rint(positions)
    unit = turns / np.where(size > 0, size, 1.0)
    distance = np.abs(unit - np.exp(1j * np.multiply.outer(positions, frequencies)))
    allowed = MAX_MISMATCH * np.minimum(weight.max(axis=1, initial=0.0), 1.0) * weight.sum(axis=1)
    is_at_position = (distance * weight).sum(axis=1) <= allowed
    return np.where(is_at_position & (weight.sum(axis=1) > 0), positions, np.nan)


def match_positions(matrix: Floats, render: Callable[[Floats], Floats], expected: Floats) -> Floats:
    """Return the candidate position whose rendered row is nearest to each row; NaN if none is near.

    Candidates are 0 to 2,047 and the expected ones: tables of only cosines or only sines do not show a direction.
    """
    candidates = np.unique(np.concatenate([np.arange(LARGEST_CANDIDATE, dtype=float), expected]))
    rendered = render(candidates)
    with np.errstate(all="ignore"):
        directions = rendered / np.linalg.norm(rendered, axis=1, keepdims=True)
        units = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    step = max(1, MATCHED_AT_ONCE // len(candidates))
    positions = []
    for start in range(0, len(units), step):
        check_time()
        likeness = np.nan_to_num(units[start : start + step] @ directions.T, nan=-1.0)
        nearest = candidates[likeness.argmax(axis=1)]
        positions.append(np.where(likeness.max(axis=1) >= ALIKE, nearest, np.nan))
    return np.concatenate(positions)


__all__ = ["Fit", "Frequencies", "fit_number", "frequencies_of", "solve_positions", "wrap"]
