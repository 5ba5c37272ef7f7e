"""Values of the layers written out in plain Python, and what their tests share."""

import math

import ml_dtypes
import numpy as np
import pytest

from tests.oracle import turned

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16), BF16]
TOLERANCE = {"float64": 1e-14, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}


def sinusoids(length: int, dim: int) -> np.ndarray:
    angles = [
        [position / 10000 ** (2 * (c // 2) / dim) for c in range(dim)] for position in range(length)
    ]
    return np.array(
        [[math.cos(a) if c % 2 else math.sin(a) for c, a in enumerate(row)] for row in angles]
    )


def pairs(dim: int, interleaved: bool) -> list[tuple[int, int]]:
    return [(2 * i, 2 * i + 1) if interleaved else (i, i + dim // 2) for i in range(dim // 2)]


def rotated(
    x: np.ndarray, positions, interleaved: bool = True, base: float = 10000.0, sign: int = 1
) -> np.ndarray:
    angles = np.outer(positions, sign * base ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1]))
    return turned(x, angles, "interleaved" if interleaved else "halves")


def random_uniform(*shape: int, dtype=np.float64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(dtype)


def assert_near(found: np.ndarray, expected: np.ndarray) -> None:
    tolerance = TOLERANCE[found.dtype.name]
    np.testing.assert_allclose(
        found.astype(np.float64), expected, rtol=tolerance, atol=4 * tolerance
    )


def assert_same_bits(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def gradient(loss, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    out = np.empty_like(x)
    for index in np.ndindex(x.shape):
        above, below = x.copy(), x.copy()
        above[index] += step
        below[index] -= step
        out[index] = (loss(above) - loss(below)) / (2 * step)
    return out


every_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
both_layouts = pytest.mark.parametrize("interleaved", [True, False], ids=["interleaved", "halves"])
