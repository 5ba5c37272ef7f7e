"""PNG files as pixels, and whether two of them show the same picture."""

from __future__ import annotations

import struct
import zlib

import numpy as np

TILE = 20
"""Pixels of the squares that are compared: larger than what another version of a font moves."""


def decoded(data: bytes) -> np.ndarray:
    """The pixels of an RGB PNG whose lines are not filtered."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    place, found = 8, b""
    while place < len(data):
        (length,), kind = struct.unpack(">I", data[place : place + 4]), data[place + 4 : place + 8]
        body = data[place + 8 : place + 8 + length]
        assert struct.unpack(">I", data[place + 8 + length :][:4])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        found += body if kind == b"IDAT" else b""
        place += 12 + length
    lines = np.frombuffer(zlib.decompress(found), np.uint8).reshape(height, -1)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, 3)


def assert_alike(found: bytes, expected: bytes) -> None:
    """The same size, something to see, and the same to the eye: nearly all squares of the same mean colour."""
    one, other = decoded(found).astype(float), decoded(expected).astype(float)
    assert one.shape == other.shape
    paper = (one == one[0, 0]).all(axis=2)
    assert 0.02 < paper.mean() < 0.97
    assert np.abs(one - other).mean() < 3
    rows, columns = one.shape[0] // TILE, one.shape[1] // TILE
    inside = (one - other)[: rows * TILE, : columns * TILE].reshape(rows, TILE, columns, TILE, 3)
    apart = np.abs(inside.mean(axis=(1, 3))).max(axis=2) > 12
    assert apart.mean() < 0.01
