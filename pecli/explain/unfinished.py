"""Tables that were written before they were complete: half of the columns, or the angles, are there."""

from collections.abc import Mapping

import numpy as np

from pecli.engine.arrays import Array, Floats, widened

LINEAR = 1e-5
"""Relative error of angles that grow in equal steps, computed in float32."""


def completed(how: str, tensors: Mapping[str, Array]) -> dict[str, Array] | None:
    """Return cosines and sines with their missing columns, or of their angles; None if nothing of them is missing.

    Args:
        how: «halves» or «interleaved» if the second copy of every column is zeros, or «angles».
        tensors: Tables of cosines and sines, (positions, channels) each.
    """
    if not set(tensors) <= {"cos", "sin"} or any(array.ndim != 2 for array in tensors.values()):
        return None
    tables: dict[str, Array] = {}
    for name, array in tensors.items():
        values = widened(array)
        table = _taken(name, values) if how == "angles" else _doubled(how, values)
        if table is None:
            return None
        tables[name] = table.astype(np.float32)
    return tables


def _doubled(layout: str, values: Floats) -> Floats | None:
    """Return a table with the columns that are zeros filled from their copies; None if none are zeros."""
    half = values.shape[1] // 2
    if layout == "halves":
        filled, empty = slice(0, half), slice(half, None)
    else:
        filled, empty = slice(0, None, 2), slice(1, None, 2)
    is_half_empty = values.shape[1] % 2 == 0 and half and not values[:, empty].any()
    if not is_half_empty or not values[:, filled].any():
        return None
    table = values.copy()
    table[:, empty] = values[:, filled]
    return table


def _taken(name: str, angles: Floats) -> Floats | None:
    """Return the cosines or sines of angles that grow in equal steps; None if they do not."""
    if not are_angles(angles):
        return None
    return np.cos(angles) if name == "cos" else np.sin(angles)


LARGEST_ANGLE = 1e9
"""Radians of the farthest position that anybody uses: larger numbers are none of a table of angles."""


def are_angles(values: Floats) -> bool:
    """Return True if the rows of a table grow in equal steps, and are larger than cosines and sines."""
    if len(values) < 3 or not np.isfinite(values).all() or np.abs(values).max() <= 1.5:
        return False
    if np.abs(values).max() > LARGEST_ANGLE:
        return False
    steps = np.diff(values, axis=0)
    size = np.abs(values).max(axis=0)
    is_even = np.abs(steps - steps[0]) <= LINEAR * size + LINEAR
    return bool(is_even.all()) and bool(steps.any())
