"""Data that show something of a scheme: only then can several mistakes at once be found in them."""

import numpy as np

from pecli.engine.arrays import Flags, Floats, Indices
from pecli.explain.bias_making import MASKED, BiasMaking
from pecli.explain.catalogue.columns import OtherLayout, SwappedFunctions
from pecli.explain.catalogue.placements import OtherAxes, OtherPlacement
from pecli.explain.catalogue.rotation_mistakes import (
    OtherChannels,
    OtherFormula,
    OtherPairs,
    OtherRotaryDim,
)
from pecli.explain.hypothesis import Case, Mistake
from pecli.explain.measure import MAX_SIGMAS, Frequencies
from pecli.explain.rotated_making import RotatedMaking, turn_fit
from pecli.explain.wave_measurement import MIN_RUN

PAIRS = 5
"""Neighbouring pairs that are looked at: two numbers fit any two, so three are left to show whether they follow a law."""

MIN_PAIRS = 3
"""Pairs of which a law can be seen at all."""

MAX_NOISE = 0.006
"""Noise as a share of the amplitude: two decimals leave 0.003, smooth images of which columns look like waves 0.01."""

STRAIGHT = 0.05
"""Share of the largest value by which neighbouring biases may bend: bfloat16 rounds to a tenth of this."""


def is_readable(case: Case) -> bool:
    """Return True if the data show a part of what the scheme makes, and another part that is wrong."""
    if isinstance(case.making, BiasMaking):
        return _has_straight_rows(case)
    waves = case.waves
    if waves is None:
        return True
    if is_as_supposed(case):
        return False  # The rest is noise.
    if isinstance(waves, RotatedMaking):
        is_rotated = _shows_rotation(case, waves)
        if waves.heads.before.count > 1 or not is_rotated:
            return is_rotated
    return _has_lawful_frequencies(case) or _has_positions(case)


def _shows_rotation(case: Case, rotated: RotatedMaking) -> bool:
    """Return True if all heads are turned alike in some reading of their channels, and not as they should be.

    One head is turned by whatever turns it takes, and shows less.
    """
    rows = case.observations.tested_rows
    matrix = case.observations.measured(rows)
    fit = turn_fit(rotated, matrix, rows)
    if fit is not None and fit.is_noise:
        return False
    readings = [case]
    kinds: tuple[type[Mistake], ...] = (OtherFormula, OtherPairs, OtherChannels, OtherRotaryDim)
    for kind in kinds:
        for reading in tuple(readings):
            readings += [reading.given(mistake) for mistake in kind.proposals(reading)]
    for reading in readings:
        assert isinstance(reading.making, RotatedMaking)
        fit = turn_fit(reading.making, matrix, rows)
        if fit is not None and fit.shows_turns:
            return True
    return False


def is_as_supposed(case: Case) -> bool:
    """Return True if frequencies, positions and the amplitude are measured, and are those of the making."""
    waves = case.waves
    if waves is None or not case.frequencies_agree:
        return False
    if case.used_positions is None or case.amplitude is None:
        return False
    expected = waves.positions[:, case.observations.located_rows]
    amplitude, error = case.amplitude
    has_amplitude = abs(amplitude - waves.amplitude) <= error
    return has_amplitude and np.array_equal(case.used_positions, expected)


def _has_lawful_frequencies(case: Case) -> bool:
    """Return True if frequencies follow a law in some form of the table, or in some places of its rows."""
    if _is_lawful_case(case):
        return True
    kinds: tuple[type[Mistake], ...] = (
        OtherLayout,
        SwappedFunctions,
        OtherPairs,
        OtherChannels,
        OtherAxes,
        OtherPlacement,
    )
    for kind in kinds:
        for mistake in kind.proposals(case):
            if _is_lawful_case(case.given(mistake)):
                return True
    return False


def _is_lawful_case(case: Case) -> bool:
    waves = case.waves
    if waves is None or case.frequencies is None:
        return False
    return is_lawful(case.frequencies, waves.frequencies)


def _has_positions(case: Case) -> bool:
    """Return True if rows are at many positions: rows of any constant are all near one."""
    used = case.used_positions
    if used is None:
        return False
    places = np.unique(used[np.isfinite(used)])
    return bool(len(places) >= min(MIN_RUN, used.shape[1] // 2))


def is_lawful(measured: Frequencies, expected: Floats) -> bool:
    """Return True if some neighbouring frequencies follow a law, as those of rotary tables do and noise does not.

    Scalings change a part of the frequencies: llama3 and YaRN leave the fast ones as they are, and divide the slow ones
    by one factor. So it is enough that either the fastest or the slowest follow one.
    """
    if measured.noise > MAX_NOISE:
        return False
    known = np.flatnonzero(measured.known & (expected != 0))
    if len(known) < MIN_PAIRS:
        return len(expected) <= PAIRS  # A small head has too few pairs to show a law.
    fastest = known[:PAIRS]
    slowest = known[-PAIRS:]
    return _follow_law(measured, expected, fastest) or _follow_law(measured, expected, slowest)


def _follow_law(measured: Frequencies, expected: Floats, pairs: Indices) -> bool:
    """Return True if frequencies are a geometric series b^(−i/d), or the expected ones times such a series.

    Logarithms of a geometric series lie on a line.
    """
    values = np.abs(measured.values[pairs])
    errors = measured.errors[pairs] / values
    logs = np.log(values)
    ratios = logs - np.log(np.abs(expected[pairs]))
    return _is_line(pairs, logs, errors) or _is_line(pairs, ratios, errors)


def _is_line(places: Indices, values: Floats, errors: Floats) -> bool:
    slope, start = np.polyfit(places, values, 1, w=1 / errors)
    off = np.abs(values - slope * places - start)
    return bool((off <= MAX_SIGMAS * errors).all())


def _has_straight_rows(case: Case) -> bool:
    """Return True if most biases are on a line with their neighbours: every form bends only at the diagonal."""
    values = case.observations.sample
    if values.shape[1] < PAIRS:
        return True
    bends = values[:, 2:] - 2 * values[:, 1:-1] + values[:, :-2]
    is_used: Flags = (
        (values[:, 2:] > MASKED) & (values[:, 1:-1] > MASKED) & (values[:, :-2] > MASKED)
    )
    if not is_used.any():
        return True
    size = np.abs(values[values > MASKED]).max()
    return bool((np.abs(bends[is_used]) <= STRAIGHT * size).mean() > 0.5)
