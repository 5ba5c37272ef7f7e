"""The pairs that follow each axis of positions, as sections of M-RoPE or blocks of a grid."""

from itertools import combinations

import numpy as np

from pecli.engine.arrays import Floats
from pecli.explain.computation import WaveComputation, unit_phasors
from pecli.explain.hypothesis import Case


def best_sections(case: Case, waves: WaveComputation) -> tuple[int, ...]:
    """Return how many pairs follow each of three axes, one after the other, as the data show it.

    Each pair is compared with the cosines and sines that it would have along each axis, time,
    height or width; the 64 pairs of Qwen2-VL are nearest if 16, 24 and 24 follow these.

    Args:
        case: The data, whose cosines and sines are measured as cos + i·sin (rows, pairs).
        waves: The frequency of each pair, and the position of each row along each axis.
    """
    rows = case.observations.sampled_rows
    errors_along_axes = []
    for positions in waves.positions[:, rows]:
        angles = np.multiply.outer(positions, waves.frequencies)  # (rows, pairs)
        expected = waves.amplitude * unit_phasors(angles)
        differences = np.abs(case.phasors - expected)
        errors_along_axes.append((differences**2).sum(axis=0))  # (pairs,)
    return best_split(np.array(errors_along_axes))


def best_split(errors: Floats) -> tuple[int, ...]:
    """Return how many pairs each axis has, if axes take them in order, with the smallest error.

    Four pairs on three axes can be split as (1, 1, 2), (1, 2, 1) and (2, 1, 1). If the first two
    follow axis 0, the third axis 1 and the fourth axis 2, the last split has the smallest error.

    Args:
        errors: The error of each pair if it is supposed to follow an axis, (axes, pairs).
    """
    axes, pairs = errors.shape
    # sums[axis, n] is the error of the first n pairs, so that a block's error is one difference.
    sums = np.cumsum(np.pad(errors, ((0, 0), (1, 0))), axis=1)
    every_axis = np.arange(axes)
    best_sizes: tuple[int, ...] = ()
    least_error = np.inf
    for cuts in combinations(range(1, pairs), axes - 1):
        starts = np.array((0, *cuts))  # of the block of each axis: 0 2 3 for (2, 1, 1)
        ends = np.array((*cuts, pairs))
        errors_of_blocks = sums[every_axis, ends] - sums[every_axis, starts]
        error = errors_of_blocks.sum()
        if not best_sizes or error < least_error:
            best_sizes = tuple((ends - starts).tolist())
            least_error = error
    return best_sizes
