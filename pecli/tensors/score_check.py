"""Attention scores of random vectors, before and after a conversion: they must not change."""

from __future__ import annotations

import math

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.table import Table
from pecli.tensors.head_layout import Heads

_POSITIONS = (0, 3, 17, 1000)
"""Of the random inputs, each at its own: near and far, in no step with one another."""


def change(before: tuple[Table, Table], after: tuple[Table, Table], layout: Heads, source: str, target: str) -> float:
    """The largest change of a score between queries and keys, in shares of the largest score; infinite where scores
    are not numbers.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        old, new = _scores(*before, layout, source), _scores(*after, layout, target)
        off, largest = float(np.abs(new - old).max()), float(np.abs(old).max())
    if not math.isfinite(off):
        return math.inf
    return off / largest if largest else off


def _scores(query: Table, key: Table, layout: Heads, pairing: str) -> Floats:
    queries = _turned(query, layout.heads, layout, pairing)
    keys = _turned(key, layout.kv_heads or 1, layout, pairing)
    keys = np.repeat(keys, layout.heads // (layout.kv_heads or 1), axis=0)
    return np.asarray(np.einsum("hcq,hck->hqk", queries, keys))


def _turned(projection: Table, heads: int, layout: Heads, pairing: str) -> Floats:
    """(heads, channels, vectors): the projections of the vectors, each turned as at its position."""
    inputs = np.random.default_rng(projection.width).standard_normal((projection.width, len(_POSITIONS)))
    products = [widened(block) @ inputs for block in projection.blocks()]
    values = np.concatenate(products).reshape(heads, -1, len(_POSITIONS))
    channels = values.shape[1]
    turning = channels if layout.rotary_dim is None else layout.rotary_dim
    first = channels - turning if layout.trailing else 0
    pairs = np.arange(first, first + turning)
    one, other = (pairs[: turning // 2], pairs[turning // 2 :]) if pairing == "halves" else (pairs[0::2], pairs[1::2])
    angles = 10000.0 ** (-np.arange(0, turning, 2) / turning)[:, None] * np.array(_POSITIONS)
    x, y = values[:, one].copy(), values[:, other].copy()
    values[:, one] = x * np.cos(angles) - y * np.sin(angles)
    values[:, other] = y * np.cos(angles) + x * np.sin(angles)
    return values
