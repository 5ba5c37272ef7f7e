"""The pairs that follow each axis of positions, as sections of M-RoPE or blocks of a grid."""

from itertools import combinations, pairwise

import numpy as np

from pecli.engine.arrays import Complex, Floats
from pecli.explain.hypothesis import Case
from pecli.explain.making import WaveMaking, turned


def best_sections(case: Case, measured: Complex, waves: WaveMaking) -> tuple[int, ...]:
    """Return how many pairs follow each of three axes, one after the other, so that least is left of the turns."""
    rows = case.observations.sampled_rows
    left = []
    for positions in waves.positions[:, rows]:
        turns = waves.amplitude * turned(np.multiply.outer(positions, waves.frequencies))
        left.append((np.abs(measured - turns) ** 2).sum(axis=0))
    return best_split(np.array(left))


def best_split(left: Floats) -> tuple[int, ...]:
    """Return how many pairs each axis has if the axes have them one after the other.

    If the first two of four pairs are nearest to axis 0, the third to axis 1 and the fourth to axis 2, this is (2, 1, 1).

    Args:
        left: What is left of each pair (axes, pairs) if it follows an axis.
    """
    axes, pairs = left.shape
    sums = np.cumsum(np.pad(left, ((0, 0), (1, 0))), axis=1)

    def total(inner: tuple[int, ...]) -> float:
        ends = pairwise((0, *inner, pairs))
        return float(
            sum(sums[axis, end] - sums[axis, start] for axis, (start, end) in enumerate(ends))
        )

    best = min(combinations(range(1, pairs), axes - 1), key=total)
    return tuple(end - start for start, end in pairwise((0, *best, pairs)))
