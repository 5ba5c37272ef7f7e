"""Learned tables before learning: the initial values that frameworks give them, reproducible everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from pecli.engine.arrays import Array, Singles
from pecli.engine.schemes.parameters import Choice, Real, Whole
from pecli.engine.schemes.positions import LAST_POSITION
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.table import Table


_DRAWN = frozenset({"std", "seed", "rng"})
_IDLE = {"xavier-uniform": frozenset({"std"}), "zeros": _DRAWN, "sinusoidal": _DRAWN}
"""What makes no difference to some ways to begin."""
_SLICE = 1 << 14
"""Elements drawn at once, so that intermediate arrays stay in the cache."""
_CHUNK = 1 << 16
"""Elements that torch's stream is drawn in; a multiple of 16."""


@dataclass(frozen=True)
class LearnedInit(Scheme):
    """The initial weights of a learned positional embedding.

    >>> LearnedInit(max_len=2, dim=2, init="zeros").tables()["weight"].tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """

    name = "learned-init"
    summary = "Make, show or check the initial weights of a learned table."
    examples = (
        "pecli learned-init --max-len 1024 --dim 768 -o wpe.safetensors",
        "pecli learned-init --max-len 512 --dim 768 --init trunc-normal -o pos.npy",
        "pecli learned-init --max-len 64 --dim 8 --rng torch --verify w.npy --max-ulp 4",
    )

    max_len: Annotated[int, Whole(help="rows of the table", high=LAST_POSITION)]
    dim: Annotated[int, Whole(help="channels of a row", high=65536)]
    init: Annotated[
        str,
        Choice(
            help="trunc-normal is cut at ±2 std; uniform has that std; the last three have none",
            options=("normal", "trunc-normal", "uniform", "xavier-uniform", "zeros", "sinusoidal"),
        ),
    ] = "normal"
    std: Annotated[float, Real(help="standard deviation", above=0, up_to=1e30)] = 0.02
    seed: Annotated[int, Whole(help="another seed, another table", low=0, high=2**64 - 1)] = 0
    rng: Annotated[
        str,
        Choice(
            help="pecli's own generator, torch's on the CPU, or torch's on x86 with AVX2",
            options=("pecli", "torch", "torch-avx2"),
        ),
    ] = "pecli"

    def _check(self) -> None:
        if self.init == "trunc-normal" and self.rng != "pecli":
            raise ParameterError("init", repr(self.init), f"`rng` {self.rng} does not offer it", "take `rng` pecli")

    @property
    def inert_parameters(self) -> frozenset[str]:
        return _IDLE.get(self.init, frozenset())

    def tensors(self) -> tuple[Table, ...]:
        from pecli.engine.table import Table

        shape = (self.max_len, self.dim)
        if self.init == "sinusoidal":
            (table,) = Sinusoidal(self.max_len, self.dim, dtype=self.dtype).tensors()
            return (replace(table, name="weight"),)
        if self.init == "zeros":
            return (Table("weight", self.dtype, shape, lambda start, out: out.fill(0)),)
        if self.rng == "pecli":
            return (Table("weight", self.dtype, shape, self._fill),)
        return (Table("weight", self.dtype, shape, _InOrder(self._torch_stream), in_order=True),)

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
        from pecli.engine.numerics.rounding import round_to
        from pecli.engine.schemes import random_streams

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
        import numpy as np

        from pecli.engine.schemes import random_streams

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

    def __init__(self, stream: Any) -> None:
        self._stream, self._next = stream, 0
        self._chunks: Iterator[Singles] = iter(())
        self._left: Singles | None = None

    def __call__(self, start: int, out: Array) -> None:
        import numpy as np

        from pecli.engine.numerics.dtypes import dtype_name
        from pecli.engine.numerics.rounding import round_to

        if start == 0 or start * out.shape[1] < self._next:
            self._chunks, self._next, self._left = self._stream(), 0, np.empty(0, np.float32)
        self._take(start * out.shape[1] - self._next)
        values = self._take(out.size).astype(np.float64)
        out[...] = round_to(values, dtype_name(out.dtype)).reshape(out.shape)

    def _take(self, count: int) -> Singles:
        import numpy as np

        parts, missing = [], count
        assert self._left is not None
        while missing > len(self._left):
            parts.append(self._left)
            missing -= len(self._left)
            self._left = next(self._chunks)
        parts.append(self._left[:missing])
        self._left, self._next = self._left[missing:], self._next + count
        return np.concatenate(parts)
