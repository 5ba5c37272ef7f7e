"""Tables that were written before they were complete: half of the columns, or the angles, are there."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from pecli.engine.arrays import Array, Floats, widened

LINEAR = 1e-5
"""Relative error of angles that grow in equal steps, computed in float32."""


PairLayout = Literal["halves", "interleaved"]

PAIR_LAYOUTS: tuple[PairLayout, ...] = ("halves", "interleaved")


def with_second_columns(
    layout: PairLayout, tensors: Mapping[str, Array]
) -> dict[str, Array] | None:
    """Return cosines and sines with the second copy of every column, if a file has zeros there.

    Models that multiply all channels by `cos` have each column twice. A port that fills only the first
    one leaves (c0, c1, 0, 0) in halves, which becomes (c0, c1, c0, c1); interleaved, (c0, 0, c1, 0)
    becomes (c0, c0, c1, c1).

    Returns:
        The completed tables; None if the tensors are not matrices of cosines and sines, or if any
        of them has an odd width, values in its second columns, or none in its first.
    """
    if not _are_cos_and_sin(tensors):
        return None
    tables: dict[str, Array] = {}
    for name, array in tensors.items():
        table = _doubled(layout, array)
        if table is None:
            return None
        tables[name] = table.astype(np.float32)
    return tables


def functions_of_angles(tensors: Mapping[str, Array]) -> dict[str, Array] | None:
    """Return the cosines and sines of tables that hold the angles instead.

    A port that forgets to call cos writes position × frequency: a column 0, 1.2, 2.4, … of «cos»
    becomes cos(0), cos(1.2), cos(2.4), ….

    Returns:
        The completed tables; None if the tensors are not matrices with the names of cosines and
        sines, or if any of them does not hold angles.
    """
    if not _are_cos_and_sin(tensors):
        return None
    tables: dict[str, Array] = {}
    for name, array in tensors.items():
        if not are_angles(array):
            return None
        angles = widened(array)
        values = np.cos(angles) if name == "cos" else np.sin(angles)
        tables[name] = values.astype(np.float32)
    return tables


def _are_cos_and_sin(tensors: Mapping[str, Array]) -> bool:
    are_named = {"cos", "sin"}.issuperset(tensors)
    return are_named and all(array.ndim == 2 for array in tensors.values())


def _doubled(layout: PairLayout, values: Array) -> Floats | None:
    """Return a table whose second columns, which are zeros, are filled with copies of the first ones.

    The second column of pair i is i + width/2 in halves, and 2i + 1 interleaved.

    Returns:
        The table; None if other columns are zeros, or if these are not.
    """
    width = values.shape[1]
    if width == 0 or width % 2:
        return None
    if layout == "halves":
        first = slice(0, width // 2)
        second = slice(width // 2, None)
    else:
        first = slice(0, None, 2)
        second = slice(1, None, 2)
    if values[:, second].any() or not values[:, first].any():
        return None
    table = widened(values)
    table[:, second] = table[:, first]
    return table


BLOCK_ELEMENTS = 1 << 20
"""Elements that are looked at together: a large table is not widened as a whole."""
LARGEST_COSINE = 1.5
"""Cosines with an attention factor exceed 1: YaRN's is 0.1·ln(40) + 1 = 1.37 for a factor of 40."""

LARGEST_ANGLE = 1e9
"""Radians of the farthest position that anybody uses: larger numbers are none of a table of angles."""


def are_angles(values: Array) -> bool:
    """Return True if a table (rows, columns) holds angles: position × frequency, not yet their cosines.

    Each column then grows in equal steps, 0 1.2 2.4 3.6, and some values are larger than a cosine times
    any usual amplitude.
    """
    if len(values) < 3 or values.shape[1] == 0:
        return False
    block_rows = max(1, BLOCK_ELEMENTS // values.shape[1])
    lowest, highest = _ranges_of_columns(values, block_rows)
    size = np.maximum(highest, -lowest)
    # A NaN or an infinity in a column makes its size one, too.
    if not np.isfinite(size).all() or not LARGEST_COSINE < size.max() <= LARGEST_ANGLE:
        return False
    first_rows = widened(values[:2])
    first_step = first_rows[1] - first_rows[0]
    # Tables that are not angles are often large, and end here with their first block.
    for start in range(0, len(values) - 1, block_rows):
        steps = np.diff(widened(values[start : start + block_rows + 1]), axis=0)
        is_even = np.abs(steps - first_step) <= LINEAR * size + LINEAR
        if not is_even.all():
            return False
    return bool((lowest < highest).any())


def _ranges_of_columns(values: Array, block_rows: int) -> tuple[Floats, Floats]:
    """Return the least and the largest number of every column; NaN if one of them is."""
    lowest = np.full(values.shape[1], np.inf)
    highest = np.full(values.shape[1], -np.inf)
    for start in range(0, len(values), block_rows):
        block = widened(values[start : start + block_rows])
        np.minimum(lowest, block.min(axis=0), out=lowest)
        np.maximum(highest, block.max(axis=0), out=highest)
    return lowest, highest
