"""Tables of other projects, right and wrong, by the formulas of their papers in plain NumPy."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]


def inverse(d: float, base: float, count: int | None = None) -> Array:
    """base^(−2i/d)."""
    return base ** (-2 * np.arange(count or int(d) // 2) / d)


def yarn(
    inv: Array, d: int, base: float, f: float, original: int, truncate: bool = True, fast: float = 32, slow: float = 1
) -> Array:
    def index(turns: float) -> float:
        return d * math.log(original / (2 * math.pi * turns)) / (2 * math.log(base))

    low, high = index(fast), index(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    ramp = np.clip((np.arange(len(inv)) - low) / max(high - low, 0.001), 0, 1)
    return inv / f * ramp + inv * (1 - ramp)


def yarn_factor(f: float) -> float:
    return 0.1 * math.log(f) + 1


def llama3(inv: Array, f: float, original: int, low: float, high: float) -> Array:
    smooth = np.clip((original * inv / (2 * math.pi) - low) / (high - low), 0, 1)
    return (1 - smooth) * inv / f + smooth * inv


def longrope_factor(f: float, original: int) -> float:
    return math.sqrt(1 + math.log(f) / math.log(original))


def ntk(d: int, base: float, f: float) -> Array:
    return inverse(d, base * f ** (d / (d - 2)))


def waves(length: int, inv: Array, first: float = 0, height: float = 1, dtype: str = "float32") -> tuple[Array, Array]:
    """cos and sin, in float64 and then rounded."""
    angles = np.outer(np.arange(length) + first, inv)
    return narrowed(height * np.cos(angles), dtype), narrowed(height * np.sin(angles), dtype)


def float32_waves(length: int, d: int, base: float) -> tuple[Array, Array]:
    """As Hugging Face does it, everything in float32."""
    inv = (1.0 / (np.float32(base) ** (np.arange(0, d, 2).astype(np.float32) / np.float32(d)))).astype(np.float32)
    angles = np.outer(np.arange(length).astype(np.float32), inv).astype(np.float32)
    return np.cos(angles), np.sin(angles)


def narrowed(values: Array, dtype: str) -> Array:
    return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def through(values: Array, dtype: str) -> Array:
    """As if kept in a narrow dtype for a while."""
    return narrowed(values, dtype).astype(np.float64)


def halves(table: Array) -> Array:
    return np.concatenate([table, table], axis=-1)


def interleaved(table: Array) -> Array:
    return np.repeat(table, 2, axis=-1)


def sinusoidal(
    length: int,
    dim: int,
    *,
    base: float = 10000.0,
    shift: float = 0,
    layout: str = "interleaved",
    cos_first: bool = False,
    first: float = 0,
    scale: float = 1,
    height: float = 1,
    dtype: str = "float32",
) -> Array:
    """A table with an even dim."""
    inv = base ** (-np.arange(dim // 2) / (dim / 2 - shift)) * scale
    cos, sin = waves(length, inv, first, height, "float64")
    one, two = (cos, sin) if cos_first else (sin, cos)
    parts = np.stack([one, two], axis=-1).reshape(length, dim)
    return narrowed(parts if layout == "interleaved" else np.concatenate([one, two], axis=1), dtype)


def paper_slopes(heads: int, most: float = 8) -> Array:
    power = 2 ** int(math.log2(heads))
    slopes = 2.0 ** (-most * np.arange(1, power + 1) / power)
    more = 2.0 ** (-most * np.arange(1, 2 * power + 1) / (2 * power))
    return np.concatenate([slopes, more[::2][: heads - power]])


def naive_slopes(heads: int, most: float = 8) -> Array:
    return 2.0 ** (-most * np.arange(1, heads + 1) / heads)


def bias(slopes: Array, length: int, form: str = "symmetric", mask: float = -np.inf) -> Array:
    i, j = np.arange(length)[:, None], np.arange(length)[None]
    if form == "key":
        return slopes[:, None, None] * j
    if form == "key-last":
        return slopes[:, None, None] * (j - (length - 1))
    distances = -slopes[:, None, None] * np.abs(i - j)
    return distances if form == "symmetric" else np.where(j <= i, distances, mask)
