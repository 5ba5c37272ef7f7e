"""Data that show something of a scheme: only then can several mistakes at once be found in them."""

from collections.abc import Iterator

import numpy as np

from pecli.engine.arrays import Floats, Indices
from pecli.explain.bias_computation import BiasComputation, is_unmasked
from pecli.explain.catalogue import MISTAKES
from pecli.explain.catalogue.rotation_mistakes import (
    OtherChannels,
    OtherFormula,
    OtherPairs,
    OtherRotaryDim,
)
from pecli.explain.computation import WaveComputation
from pecli.explain.hypothesis import Case, Mistake
from pecli.explain.rotated_computation import RotatedComputation, rotation_fit
from pecli.explain.time_limit import check_time
from pecli.explain.wave_measurement import MIN_RUN

MIN_KEYS = 5
"""Keys of a bias in which lines can be seen: fewer are nearly on one whatever they hold."""

STRAIGHT = 0.05
"""Share of the largest value by which neighbouring biases may bend: bfloat16 rounds to a tenth of this."""


def may_have_several_mistakes(case: Case) -> bool:
    """Return True if the numbers of a file are not mere noise, so that several mistakes can be found in them.

    Three mistakes together explain nearly anything, noise included. So the numbers must have an order
    that noise does not have. The rows of an ALiBi bias must be straight lines, for example.

    Args:
        case: The numbers, and the computation that should have made them.
    """
    computation = case.computation
    if isinstance(computation, BiasComputation):
        return _has_straight_rows(case)
    if isinstance(computation, WaveComputation):
        return _may_waves_have_several_mistakes(case, computation)
    return True  # No order is known that other numbers, such as indices of buckets, must have.


def _may_waves_have_several_mistakes(case: Case, computation: WaveComputation) -> bool:
    """Return True if several mistakes can be found in a table of cosines and sines, or in rotated heads.

    All heads of rotated queries must be rotated by the same angles. The columns of a table must be waves,
    or its rows at many positions.

    Args:
        case: The numbers of the file.
        computation: The computation that should have made them.
    """
    if agrees_with_measurements(case):
        return False  # Frequencies, positions and amplitude are right: no mistake is left.
    if isinstance(computation, RotatedComputation):
        return _shows_rotated_heads(case, computation)
    return _shows_waves_or_positions(case)


def _shows_waves_or_positions(case: Case) -> bool:
    """Return True if columns are waves, or if rows are at many positions."""
    return _shows_waves(case) or _has_positions(case)


def _shows_rotated_heads(case: Case, rotated: RotatedComputation) -> bool:
    """Return True if the data are rotated heads: all heads of a row were rotated by the same angles.

    Some rotation leads from any single head to any other numbers, so that one head shows nothing by
    that: its angles have to be those of waves, or of many positions.
    """
    if not _shows_rotation(case, rotated):
        return False
    has_several_heads = rotated.heads.before.count > 1
    return has_several_heads or _shows_waves_or_positions(case)


def _shows_rotation(case: Case, rotated: RotatedComputation) -> bool:
    """Return True if all heads of a row were rotated by the same angles, in some choice of channels.

    The angles are solved from all heads together, which agree on them only if channels are paired as
    in the file. So each usual way to pair channels is tried. If the expected rotation is as near as the
    best one, only noise is left, which no rotation explains.
    """
    rows = case.observations.tested_rows
    heads = case.observations.measured(rows)
    if rotation_fit(rotated, heads, rows).is_noise:
        return False
    return any(_rotates_alike(reading, heads, rows) for reading in _readings_of_heads(case))


def _readings_of_heads(case: Case) -> list[Case]:
    """Return the case with each combination of a wrong formula, wrong pairs and wrong channels.

    With 2 formulas, 2 ways to pair and 2 sets of channels beside the right ones, these are 3 · 3 · 3 cases.
    """
    readings = [case]
    kinds: tuple[type[Mistake], ...] = (OtherFormula, OtherPairs, OtherChannels, OtherRotaryDim)
    for kind in kinds:
        for reading in tuple(readings):
            readings += [reading.supposing(mistake) for mistake in kind.proposals(reading)]
    return readings


def _rotates_alike(case: Case, heads: Floats, rows: Indices) -> bool:
    """Return True if one rotation per row explains all heads, if channels are paired as in a case."""
    assert isinstance(case.computation, RotatedComputation)
    check_time()
    return rotation_fit(case.computation, heads, rows).shows_rotation


def agrees_with_measurements(case: Case) -> bool:
    """Return True if a file was measured to have the frequencies, positions and amplitude that it should have.

    An example: frequencies of base 10000, positions 0 1 2 … and an amplitude of 1.0000 ± 0.0001. What is
    wrong in such a file is noise. False is returned if one of the three could not be measured.

    Args:
        case: The numbers of the file, and the computation that should have made them.
    """
    waves = case.waves
    if waves is None or not case.frequencies_are_confirmed:
        return False
    return _has_amplitude_of(waves, case) and _has_positions_of(waves, case)


def _has_amplitude_of(waves: WaveComputation, case: Case) -> bool:
    """Return True if cosines and sines were measured to have the amplitude of a computation."""
    if case.measured_amplitude is None:
        return False
    amplitude, error = case.measured_amplitude
    return abs(amplitude - waves.amplitude) <= error


def _has_positions_of(waves: WaveComputation, case: Case) -> bool:
    """Return True if rows were measured to be at the positions of a computation."""
    if case.measured_positions is None:
        return False
    # A long table was measured in some of its rows only.
    positions_of_measured_rows = waves.positions[:, case.observations.located_rows]
    return np.array_equal(case.measured_positions, positions_of_measured_rows)


def _shows_waves(case: Case) -> bool:
    """Return True if the columns are waves of any frequency, read as expected or after one mistake.

    Such a mistake changes how columns are read: cosines and sines that are exchanged, or rows in reverse
    order, for example.
    """
    return any(map(_has_waves, _readings_of_columns(case)))


def _readings_of_columns(case: Case) -> Iterator[Case]:
    """Yield the case, then the case with each mistake that changes how columns are read."""
    yield case
    for kind in MISTAKES:
        if kind.changes_reading:
            yield from map(case.supposing, kind.suppositions(case))


def _has_waves(case: Case) -> bool:
    """Return True if frequencies could be measured, and nothing shows that the columns are not waves."""
    check_time()  # Measuring takes most of the time that is spent on arrays of no scheme.
    return case.measured_frequencies is not None and case.measured_frequencies.are_of_waves


def _has_positions(case: Case) -> bool:
    """Return True if rows were measured to be at many positions: rows of any constant are all near one."""
    positions = case.measured_positions
    if positions is None:
        return False
    row_count = positions.shape[1]
    different_positions = np.unique(positions[np.isfinite(positions)])
    return bool(len(different_positions) >= min(MIN_RUN, row_count // 2))


def _has_straight_rows(case: Case) -> bool:
    """Return True if most biases lie on a line with their neighbours, as those of ALiBi do.

    A row −2 −1 0 −1 −2 bends only at the diagonal: of b[k−1] − 2·b[k] + b[k+1], which is 0 on a line, only
    the middle one is not. Masked elements (−inf) are left out.
    """
    values = case.observations.sample  # (queries of all heads, keys)
    if values.shape[1] < MIN_KEYS:
        return True
    left = values[:, :-2]
    middle = values[:, 1:-1]
    right = values[:, 2:]
    is_used = is_unmasked(right) & is_unmasked(middle) & is_unmasked(left)
    bends = (right - 2 * middle + left)[is_used]
    largest = np.abs(values[is_unmasked(values)]).max(initial=0.0)
    is_bent = np.abs(bends) > STRAIGHT * largest
    return bool(np.count_nonzero(is_bent) <= 0.5 * len(bends))
