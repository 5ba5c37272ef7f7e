"""The initial weights of a learned table: drawn from pecli's own stream, or from torch's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from pecli.engine.arrays import Array, Floats, Singles
from pecli.engine.numerics.dtypes import dtype_name
from pecli.engine.numerics.rounding import as_dtype, round_to
from pecli.engine.numerics.threads import results_in_order
from pecli.engine.schemes import random_streams
from pecli.engine.table import Table

_SLICE = 1 << 14
"""Elements drawn at once, so that intermediate arrays stay in the cache."""
_CHUNK = 1 << 15
"""Elements that torch's stream is drawn in; a multiple of 16."""


@dataclass(frozen=True, eq=False, repr=False)
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
        flat = out.reshape(-1)
        stream = random_streams.Philox(self.seed, start * self.dim)
        for place in range(0, flat.size, _SLICE):
            part = flat[place : place + _SLICE]
            self._fill_few(stream.uniform(part.size), part)
        if not np.shares_memory(flat, out):
            out[...] = flat.reshape(out.shape)

    def _fill_few(self, u: Floats, out: Array) -> None:
        """At most _SLICE elements."""
        if self.init == "normal":
            values = random_streams.normal(u)
        elif self.init == "trunc-normal":
            values = random_streams.normal(random_streams.truncated(u))
        else:
            values = 2 * u - 1
        values *= self._bound if self.init.endswith("uniform") else self.std
        out[...] = round_to(values, self.dtype)

    def _torch_stream(self) -> Iterator[Singles]:
        """What torch's `normal_` or `uniform_` writes into a float32 table, in order."""
        draws, size = random_streams.Mersenne(self.seed), self.max_len * self.dim
        if self.init == "normal" and size < 16:
            yield (random_streams.box_muller_few(draws, size) * self.std).astype(np.float32)
            return
        whole = size - size % 16 if self.init == "normal" else size
        drawn = (draws.uniform(min(_CHUNK, whole - start)) for start in range(0, whole, _CHUNK))
        made = results_in_order(self._torch_values, drawn)  # draws are made here, one after the other
        if whole == size:
            yield from made
            return
        left = size - 16  # the last 16 are drawn anew where they are no whole block
        for values in made:
            yield values[: max(0, left)]
            left -= len(values)
        draws.uniform(size % 16)
        yield self._torch_values(draws.uniform(16))

    def _torch_values(self, u: Singles) -> Singles:
        vectorised = self.rng == "torch-avx2"
        if self.init == "normal":
            return random_streams.box_muller(u, vectorised=vectorised) * np.float32(self.std)
        low, span = np.float32(-self._bound), np.float32(self._bound) - np.float32(-self._bound)
        if vectorised:  # one rounding for both steps
            return (u.astype(np.float64) * float(span) + float(low)).astype(np.float32)
        return u * span + low


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
        out[...] = as_dtype(self._take(out.size), dtype_name(out.dtype)).reshape(out.shape)

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
