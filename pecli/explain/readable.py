"""Data that show something of a scheme: only then can several mistakes at once be found in them."""

import numpy as np

from pecli.engine.arrays import Flags
from pecli.explain.bias_making import MASKED, BiasMaking
from pecli.explain.catalogue import MISTAKES
from pecli.explain.catalogue.rotation_mistakes import (
    OtherChannels,
    OtherFormula,
    OtherPairs,
    OtherRotaryDim,
)
from pecli.explain.hypothesis import Case, Mistake
from pecli.explain.rotated_making import RotatedMaking, turn_fit
from pecli.explain.wave_measurement import MIN_RUN

MIN_KEYS = 5
"""Keys of a bias in which lines can be seen: fewer are nearly on one whatever they hold."""

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
    return _shows_waves(case) or _has_positions(case)


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


def turns_heads_alike(case: Case) -> bool:
    """Return True unless heads are turned differently if their channels are read as supposed.

    Tables have no heads, and one head is turned by whatever turns it takes.
    """
    rotated = case.waves
    if not isinstance(rotated, RotatedMaking):
        return True
    rows = case.observations.tested_rows
    fit = turn_fit(rotated, case.observations.measured(rows), rows)
    return fit is None or fit.shows_turns


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


def _shows_waves(case: Case) -> bool:
    """Return True if the channels are clean waves in some reading of the table, whatever law they follow."""
    if _has_waves(case):
        return True
    for kind in MISTAKES:
        if not kind.changes_reading:
            continue
        for mistake in kind.suppositions(case):
            if _has_waves(case.given(mistake)):
                return True
    return False


def _has_waves(case: Case) -> bool:
    return case.frequencies is not None and case.frequencies.are_of_waves


def _has_positions(case: Case) -> bool:
    """Return True if rows are at many positions: rows of any constant are all near one."""
    used = case.used_positions
    if used is None:
        return False
    places = np.unique(used[np.isfinite(used)])
    return bool(len(places) >= min(MIN_RUN, used.shape[1] // 2))


def _has_straight_rows(case: Case) -> bool:
    """Return True if most biases are on a line with their neighbours: every form bends only at the diagonal."""
    values = case.observations.sample
    if values.shape[1] < MIN_KEYS:
        return True
    bends = values[:, 2:] - 2 * values[:, 1:-1] + values[:, :-2]
    is_used: Flags = (
        (values[:, 2:] > MASKED) & (values[:, 1:-1] > MASKED) & (values[:, :-2] > MASKED)
    )
    if not is_used.any():
        return True
    size = np.abs(values[values > MASKED]).max()
    return bool((np.abs(bends[is_used]) <= STRAIGHT * size).mean() > 0.5)
