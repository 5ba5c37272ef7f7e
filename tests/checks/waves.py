"""Cosines and sines of angles, and how programs double their columns; scalings are those of `tests.tools.sweeps.tables`."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def inverse_frequencies(base: float, dim: int) -> Array:
    return np.asarray(base ** (-np.arange(0, dim, 2) / dim))


def cos_and_sin_tables(rows: Any, frequencies: Array, dtype: Any = np.float32) -> dict[str, Array]:
    """Return cosines and sines by NumPy, in float64 until they are rounded to the dtype.

    Args:
        rows: The number of positions, from 0 on, or the positions themselves.
        frequencies: The radians per position of each column.
        dtype: The dtype of the tables.
    """
    angles = np.multiply.outer(
        np.arange(rows) if isinstance(rows, int) else np.asarray(rows), frequencies
    )
    return {"cos": np.cos(angles).astype(dtype), "sin": np.sin(angles).astype(dtype)}


def doubled_as_halves(table: Array) -> Array:
    """Return columns c0 c1 … c0 c1 …, for a model that rotates the channels (i, i + d/2)."""
    return np.concatenate([table, table], -1)


def doubled_as_neighbours(table: Array) -> Array:
    """Return columns c0 c0 c1 c1 …, for a model that rotates the channels (2i, 2i + 1)."""
    return np.repeat(table, 2, -1)


def interleaved_columns(first: Array, second: Array) -> Array:
    return np.stack([first, second], -1).reshape(*first.shape[:-1], -1)
