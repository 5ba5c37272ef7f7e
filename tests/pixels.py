"""PNG files as pixels, and whether two of them show the same picture."""

from io import BytesIO

import numpy as np
from PIL import Image

TILE = 20
"""Pixels of the squares that are compared: larger than what another version of a font moves."""


def decoded(data: bytes) -> np.ndarray:
    with Image.open(BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def assert_alike(found: bytes, expected: bytes) -> None:
    """The same size, something to see, and the same to the eye: nearly all squares of the same mean colour."""
    one = decoded(found).astype(float)
    other = decoded(expected).astype(float)
    assert one.shape == other.shape
    paper = (one == one[0, 0]).all(axis=2)
    assert 0.02 < paper.mean() < 0.97
    assert np.abs(one - other).mean() < 3
    rows, columns = one.shape[0] // TILE, one.shape[1] // TILE
    inside = (one - other)[: rows * TILE, : columns * TILE].reshape(rows, TILE, columns, TILE, 3)
    apart = np.abs(inside.mean(axis=(1, 3))).max(axis=2) > 12
    assert apart.mean() < 0.01
