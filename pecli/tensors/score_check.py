"""Attention scores of random vectors, before and after a conversion: they must not change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.table import Table
from pecli.tensors.head_layout import Heads
from pecli.tensors.projections import Layer

_POSITIONS = (0, 3, 17, 1000)
"""Of the random inputs, each at its own: near and far, in no step with one another."""


@dataclass(frozen=True)
class Scores:
    """The tensors of a checkpoint, and how their heads rotate."""

    tables: Mapping[str, Table]
    heads: Heads
    pairing: str

    def of(self, layer: Layer) -> list[Floats]:
        """Scores (heads, queries, keys); for a latent key those of the rotary channels, and the others as they are."""
        queries = self._rotated(layer.query, "q", layer.query_norm)
        keys = self._rotated(layer.key, "k", layer.key_norm)
        keys = np.repeat(keys, len(queries) // len(keys), axis=0)
        width = min(queries.shape[1], keys.shape[1], self.heads.rotary_dim or queries.shape[1])
        if queries.shape[1] == keys.shape[1]:
            return [np.einsum("hcq,hck->hqk", queries, keys)]
        scores = np.einsum("hcq,hck->hqk", queries[:, -width:], keys[:, -width:])
        return [scores, queries[:, :-width], keys[:, :-width]]

    def _rotated(self, name: str, part: str, norm: str | None) -> Floats:
        """(heads, channels, vectors): the projections of the vectors, each rotated as at its position."""
        table = self.tables[name]
        inputs = np.random.default_rng(table.width).standard_normal((table.width, len(_POSITIONS)))
        products = np.concatenate([widened(block) @ inputs for block in table.blocks()])
        bias = self.tables.get(self.heads.named(table).bias)
        if bias is not None and bias.shape == table.shape[:1]:
            products += widened(bias.read(0, bias.rows))
        slots = np.array(list(self.heads.slots(table)))
        values: Floats = products.reshape(len(slots), -1, len(_POSITIONS))[slots == part]
        weight = self.tables[norm] if norm is not None else None
        if weight is not None and weight.size in (values.shape[1], len(values) * values.shape[1]):
            values = values * widened(weight.read(0, weight.rows)).reshape(-1, values.shape[1], 1)
        return self._rotate(values)

    def _rotate(self, values: Floats) -> Floats:
        channels = values.shape[1]
        rotary = channels if self.heads.rotary_dim is None else self.heads.rotary_dim
        first = channels - rotary if self.heads.trailing else 0
        pairs = np.arange(first, first + rotary)
        halves = self.pairing == "halves"
        one, other = (pairs[: rotary // 2], pairs[rotary // 2 :]) if halves else (pairs[0::2], pairs[1::2])
        angles = 10000.0 ** (-np.arange(0, rotary, 2) / rotary)[:, None] * np.array(_POSITIONS)
        x, y = values[:, one].copy(), values[:, other].copy()
        values[:, one] = x * np.cos(angles) - y * np.sin(angles)
        values[:, other] = y * np.cos(angles) + x * np.sin(angles)
        return values


def change(before: Scores, after: Scores, layer: Layer) -> float:
    """The largest change of a layer's scores, relative to the largest; infinite where scores are not numbers."""
    with np.errstate(invalid="ignore", over="ignore"):
        return max(_change(old, new) for old, new in zip(before.of(layer), after.of(layer), strict=True))


def _change(old: Floats, new: Floats) -> float:
    off, largest = float(np.abs(new - old).max(initial=0)), float(np.abs(old).max(initial=0))
    if not math.isfinite(off):
        return math.inf
    return off / largest if largest else off
