"""Rows of query and key weights in another order: the pairs of every head in halves here, interleaved there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pecli.checks.layout_words import ARRANGEMENTS
from pecli.engine.apply_rotation import reorder
from pecli.engine.arrays import Floats, Indices
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import widened
from pecli.engine.table import Table

LOOKED_AT = 24
"""Rows that tell."""
LARGEST_HEAD = 4096
GOLDEN = (5**0.5 - 1) / 2
"""Its multiples, less their whole parts, are spread without a pattern."""


def moved_in_heads(one: Table, other: Table, limit: float) -> tuple[str, float] | None:
    """How the rows of two projections stand to each other, and the largest difference that is left of those looked at;
    None unless that is within the limit.
    """
    rows = one.shape[0] if one.shape else 0
    if (
        one.shape != other.shape
        or len(one.shape) > 2
        or rows < 8
        or not {one.dtype, other.dtype} <= {*SIGNIFICAND_BITS}
    ):
        return None
    places = np.array(sorted({int(k * GOLDEN % 1 * rows) for k in range(1, LOOKED_AT + 1)}))
    found = [widened(other.read(int(place), int(place) + 1)) for place in places]
    for head in range(4, min(rows, LARGEST_HEAD) + 1, 2):
        if rows % head:
            continue
        for source, target in (("interleaved", "halves"), ("halves", "interleaved")):
            origin = places // head * head + reorder(head, source, target)[places % head]
            left = _left(one, origin, found, limit)
            if left is not None and (origin != places).any():
                here, there = ARRANGEMENTS[source].short, ARRANGEMENTS[target].short
                return f"A's rows are {here} in heads of {head}, B's {there}", left
    return None


def _left(one: Table, origin: Indices, found: Sequence[Floats], limit: float) -> float | None:
    """The largest difference of rows; None as soon as one is beyond the limit."""
    largest = 0.0
    for place, row in zip(origin, found, strict=True):
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(widened(one.read(int(place), int(place) + 1)) - row).max()
        if not gap <= limit:
            return None
        largest = max(largest, float(gap))
    return largest
