"""Values of the layers written out in plain Python, and what their tests share."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16), BF16]
NOT_FLOATS = [np.int64, np.uint8, np.bool_, np.complex64, np.dtype("U1"), object, ml_dtypes.float8_e5m2]
TOLERANCE = {"float64": 1e-14, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}

NOT_WHOLE = [True, 4.0, "4", np.float64(4), np.True_, [4]]
NOT_POSITIVE = [0, -1, np.int64(-3)]


def sinusoid(position: int, channel: int, dim: int) -> float:
    angle = position / 10000 ** (2 * (channel // 2) / dim)
    return math.cos(angle) if channel % 2 else math.sin(angle)


def sinusoids(length: int, dim: int) -> np.ndarray:
    return np.array([[sinusoid(p, c, dim) for c in range(dim)] for p in range(length)])


def pairs(dim: int, interleaved: bool) -> list[tuple[int, int]]:
    return [(2 * i, 2 * i + 1) if interleaved else (i, i + dim // 2) for i in range(dim // 2)]


def rotated(x: np.ndarray, positions, interleaved: bool = True, base: float = 10000.0, sign: int = 1) -> np.ndarray:
    """Rotation written out, element by element."""
    x = x.astype(np.float64)
    out = np.empty_like(x)
    dim = x.shape[-1]
    for lead in np.ndindex(x.shape[:-2]):
        for row, position in enumerate(positions):
            for i, (a, b) in enumerate(pairs(dim, interleaved)):
                angle = sign * position * base ** (-2 * i / dim)
                u, v = x[(*lead, row, a)], x[(*lead, row, b)]
                out[(*lead, row, a)] = u * math.cos(angle) - v * math.sin(angle)
                out[(*lead, row, b)] = v * math.cos(angle) + u * math.sin(angle)
    return out


def random(*shape: int, dtype=np.float64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(dtype)


def near(found: np.ndarray, expected: np.ndarray, dtype=None) -> None:
    tolerance = TOLERANCE[np.dtype(dtype or found.dtype).name]
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance, atol=4 * tolerance)


def same_bits(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def numerical_gradient(loss, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    out = np.empty_like(x)
    for index in np.ndindex(x.shape):
        above, below = x.copy(), x.copy()
        above[index] += step
        below[index] -= step
        out[index] = (loss(above) - loss(below)) / (2 * step)
    return out


every_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
both_layouts = pytest.mark.parametrize("interleaved", [True, False], ids=["interleaved", "halves"])
