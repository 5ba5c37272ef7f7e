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
    """
    rows = case.observations.sampled_rows
    left = []
    for positions in waves.positions[:, rows]:
        phasors = waves.amplitude * unit_phasors(np.multiply.outer(positions, waves.frequencies))
        left.append((np.abs(case.phasors - phasors) ** 2).sum(axis=0))
    return best_split(np.array(left))


def best_split(left: Floats) -> tuple[int, ...]:
    """Return how many pairs each axis has, if axes take them one after the other and least is left.

    Four pairs on three axes can be split as (1, 1, 2), (1, 2, 1) and (2, 1, 1). If the first two
    follow axis 0, the third axis 1 and the fourth axis 2, the last split leaves least.

    Args:
        left: The error of each pair if it is supposed to follow an axis, (axes, pairs).
    """
    axes, pairs = left.shape
    # sums[axis, n] is the error of the first n pairs, so that a block's error is one difference.
    sums = np.cumsum(np.pad(left, ((0, 0), (1, 0))), axis=1)
    axis = np.arange(axes)
    best_sizes: tuple[int, ...] = ()
    least_error = np.inf
    for cuts in combinations(range(1, pairs), axes - 1):
        starts = np.array((0, *cuts))
        ends = np.array((*cuts, pairs))
        error = (sums[axis, ends] - sums[axis, starts]).sum()
        if not best_sizes or error < least_error:
            best_sizes = tuple((ends - starts).tolist())
            least_error = error
    return best_sizes
