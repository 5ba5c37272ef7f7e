"""The initial weights of a learned table: drawn from pecli's own stream, or from torch's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pecli.engine.arrays import Array, Singles
from pecli.engine.numerics.dtypes import dtype_name
from pecli.engine.numerics.rounding import round_to
from pecli.engine.schemes import random_streams
from pecli.engine.table import Table

_SLICE = 1 << 14
"""Elements drawn at once, so that intermediate arrays stay in the cache."""
_CHUNK = 1 << 16
"""Elements that torch's stream is drawn in; a multiple of 16."""


@dataclass(frozen=True)
class InitialWeights:
    """What weights are drawn by."""

    max_len: int
    dim: int
    init: str
    std: float
    seed: int
    rng: str
    dtype: str

    def table(self) -> Table:
        """(max_len, dim)."""
        shape = (self.max_len, self.dim)
        if self.init == "zeros":
            return Table("weight", self.dtype, shape, lambda start, out: out.fill(0))
        if self.rng == "pecli":
            return Table("weight", self.dtype, shape, self._fill)
        return Table("weight", self.dtype, shape, _InOrder(self._torch_stream), in_order=True)

    @property
    def _bound(self) -> float:
        """Uniform numbers run from minus this to this."""
        return math.sqrt(6 / (self.max_len + self.dim)) if self.init == "xavier-uniform" else self.std * math.sqrt(3)

    def _fill(self, start: int, out: Array) -> None:
        rows = max(1, _SLICE // self.dim)
        for row in range(0, len(out), rows):
            self._fill_few(start + row, out[row : row + rows])

    def _fill_few(self, start: int, out: Array) -> None:
        """At most about _SLICE elements."""
        u = random_streams.uniform(self.seed, start * self.dim, out.size)
        if self.init == "normal":
            values = self.std * random_streams.normal(u)
        elif self.init == "trunc-normal":
            values = self.std * random_streams.normal(random_streams.truncated(u))
        else:
            values = self._bound * (2 * u - 1)
        out[...] = round_to(values, self.dtype).reshape(out.shape)

    def _torch_stream(self) -> Iterator[Singles]:
        """What torch's `normal_` or `uniform_` writes into a float32 table, in order."""
        draws, size = random_streams.Mersenne(self.seed), self.max_len * self.dim
        if self.init != "normal":
            low, span = np.float32(-self._bound), np.float32(self._bound) - np.float32(-self._bound)
            for start in range(0, size, _CHUNK):
                u = draws.uniform(min(_CHUNK, size - start))
                if self.rng == "torch-avx2":  # there, one rounding for both steps
                    yield (u.astype(np.float64) * float(span) + float(low)).astype(np.float32)
                else:
                    yield u * span + low
        elif size < 16:
            yield (random_streams.box_muller_few(draws, size) * self.std).astype(np.float32)
        else:
            vectorised, std = self.rng == "torch-avx2", np.float32(self.std)
            kept = size - 16 if size % 16 else size  # the last 16 are drawn anew where they are no whole block
            for start in range(0, size - size % 16, _CHUNK):
                u = draws.uniform(min(_CHUNK, size - size % 16 - start))
                yield (random_streams.box_muller(u, vectorised=vectorised) * std)[: max(0, kept - start)]
            if size % 16:
                draws.uniform(size % 16)
                yield random_streams.box_muller(draws.uniform(16), vectorised=vectorised) * std


class _InOrder:
    """Fills rows from a stream that can only be read from its beginning."""

    def __init__(self, stream: Callable[[], Iterator[Singles]]) -> None:
        self._stream, self._next = stream, 0
        self._chunks: Iterator[Singles] = iter(())
        self._left: Singles | None = None

    def __call__(self, start: int, out: Array) -> None:
        if start == 0 or start * out.shape[1] < self._next:
            self._chunks, self._next, self._left = self._stream(), 0, np.empty(0, np.float32)
        self._take(start * out.shape[1] - self._next)
        values = self._take(out.size).astype(np.float64)
        out[...] = round_to(values, dtype_name(out.dtype)).reshape(out.shape)

    def _take(self, count: int) -> Singles:
        parts, missing = [], count
        assert self._left is not None
        while missing > len(self._left):
            parts.append(self._left)
            missing -= len(self._left)
            self._left = next(self._chunks)
        parts.append(self._left[:missing])
        self._left, self._next = self._left[missing:], self._next + count
        return np.concatenate(parts)
