"""Learned tables before learning: the initial values that frameworks give them, reproducible everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from pecli.engine.arrays import Array, Floats, Singles
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
_CHUNK = 1 << 15
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
    def idle(self) -> frozenset[str]:
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
        import numpy as np

        from pecli.engine.schemes.random_streams import Philox

        flat = out.reshape(-1)
        stream = Philox(self.seed, start * self.dim)
        for place in range(0, flat.size, _SLICE):
            part = flat[place : place + _SLICE]
            self._fill_few(stream.uniform(part.size), part)
        if not np.shares_memory(flat, out):
            out[...] = flat.reshape(out.shape)

    def _fill_few(self, u: Floats, out: Array) -> None:
        """At most _SLICE elements."""
        from pecli.engine.numerics.rounding import round_to
        from pecli.engine.schemes import random_streams

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
        import numpy as np

        from pecli.engine.numerics.threads import results_in_order
        from pecli.engine.schemes import random_streams

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
        import numpy as np

        from pecli.engine.schemes import random_streams

        vectorised = self.rng == "torch-avx2"
        if self.init == "normal":
            return random_streams.box_muller(u, vectorised=vectorised) * np.float32(self.std)
        low, span = np.float32(-self._bound), np.float32(self._bound) - np.float32(-self._bound)
        if vectorised:  # one rounding for both steps
            return (u.astype(np.float64) * float(span) + float(low)).astype(np.float32)
        return u * span + low


class _InOrder:
    """Fills rows from a stream that can only be read from its beginning."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._next = stream, 0
        self._chunks: Iterator[Singles] = iter(())
        self._left: Singles | None = None

    def __call__(self, start: int, out: Array) -> None:
        import numpy as np

        from pecli.engine.numerics.dtypes import dtype_name
        from pecli.engine.numerics.rounding import as_dtype

        if start == 0 or start * out.shape[1] < self._next:
            self._chunks, self._next, self._left = self._stream(), 0, np.empty(0, np.float32)
        self._take(start * out.shape[1] - self._next)
        out[...] = as_dtype(self._take(out.size), dtype_name(out.dtype)).reshape(out.shape)

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
