"""What pairs of channels are multiplied by to rotate them, at any positions: one cache for layers and tensors."""

from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pecli.engine.arrays import Complex
from pecli.engine.numerics import phases
from pecli.engine.schemes.rope import Rope

Positions = range | NDArray[np.int64]

MAX_CACHED_BYTES = (
    1 << 27
)  #: bytes of factors that are kept; those of more positions are made anew for every block
ALWAYS_CACHED_BYTES = (
    1 << 24
)  #: bytes up to which factors are kept however few of them are asked for
MAX_PRECOMPUTED_BYTES = (
    1 << 30
)  #: bytes of the largest table that is made because a layer has a limit on positions
_RUN = 256  #: positions in a row whose factors are products of two
_GROWTH = Lock()  #: held while factors are made to be kept; of the module, so that layers can be copied and pickled


class RotationFactors:
    """The factors of a rotary scheme at any positions, kept as long as there are not too many; used by any thread.

    For amplitude 1 they are within 0.6·2**-53 of the true value; where `exact` is not asked for, those of neighbouring
    positions are products of two such, within 4·2**-53. `dtype` is their precision, float64 or float32. With `inverse`
    they undo the rotation, its amplitude included. With a `limit` on positions, the first call makes those of all
    positions below it. Where rows are listed, or a recipe or runtime computes them, they are those of the tables.
    """

    def __init__(
        self,
        rope: Rope,
        dtype: str = "float64",
        *,
        exact: bool = False,
        inverse: bool = False,
        limit: int = 0,
    ) -> None:
        self.rope, self._exact, self._inverse = rope, exact, inverse
        self._dtype = np.dtype(np.complex128 if dtype == "float64" else np.complex64)
        self._half, self._rotating = rope.rotary_dim // 2, rope.rotating_pairs
        self._row_bytes = self._half * self._dtype.itemsize
        self._limit = limit if limit * self._row_bytes <= MAX_PRECOMPUTED_BYTES else 0
        self._keeps = True
        self.first = 0
        self.kept: NDArray[Any] = np.empty((0, self._half), self._dtype)

    def at(self, positions: Positions) -> NDArray[Any]:
        """The factors (n, d/2) of n positions: a range, an array (n,), or (n, axes) for a scheme with sections."""
        if isinstance(positions, range):
            low, high = positions.start, positions.stop
        else:
            low, high = int(positions.min()), int(positions.max()) + 1
        first, kept = self._covering(low, high, len(positions))
        if not first <= low <= high <= first + len(kept):
            return self._made(positions)
        if isinstance(positions, range):
            return kept[low - first : high - first]
        rows = positions - first
        return (
            kept[rows]
            if rows.ndim == 1
            else kept[rows[:, self.rope.pair_axes], np.arange(self._half)]
        )

    def reserve(self, low: int, high: int) -> None:
        """Make the factors of all these positions now, or, where they are too many to keep, in every call anew."""
        self._keeps = (high - low) * self._row_bytes <= MAX_CACHED_BYTES
        with _GROWTH:
            if self._keeps and not self._covers(low, high):
                self._keep(range(low, high))

    def _covering(self, low: int, high: int, count: int) -> tuple[int, NDArray[Any]]:
        """The first position of the table that is kept, and the table, grown to hold these unless that is too much."""
        with _GROWTH:
            most = MAX_CACHED_BYTES // self._row_bytes
            near = max(ALWAYS_CACHED_BYTES // self._row_bytes, 2 * len(self.kept), 4 * count)
            if (
                self._keeps
                and not self._covers(low, high)
                and high <= max(min(most, near), self._limit)
            ):
                twice = min(most, 2 * len(self.kept))
                self._keep(range(self._limit if high <= self._limit else max(high, twice)))
            return self.first, self.kept

    def _covers(self, low: int, high: int) -> bool:
        return self.first <= low and high <= self.first + len(self.kept)

    def _keep(self, span: range) -> None:
        self.first, self.kept = span.start, self._made(span)
        self.kept.flags.writeable = False

    def _made(self, positions: Positions) -> NDArray[Any]:
        amplitude = self.rope.attention_factor_value()
        if self.rope.rows_are_listed or (self._exact and isinstance(positions, range)):
            factors = self.rope.factors(positions)
        else:
            factors = (
                self._along(positions) if isinstance(positions, range) else self._turns(positions)
            )
            factors[:, : self._rotating] *= amplitude
        if self._inverse and self.rope.rows_are_listed:
            factors = 1 / factors
        elif self._inverse:
            np.conjugate(factors, out=factors)
            factors[:, : self._rotating] /= amplitude**2
        return factors.astype(self._dtype, copy=False)

    @cached_property
    def _limbs(self) -> NDArray[Any]:
        return np.ascontiguousarray(self.rope.waves().limbs[:, None, :])

    @cached_property
    def _small(self) -> Complex:
        return self._turns(np.arange(_RUN))

    def _along(self, positions: range) -> Complex:
        """Neighbours, in runs that begin at the same positions wherever a block does."""
        out = np.empty((len(positions), self._half), np.complex128)
        starts = range(positions.start - positions.start % _RUN, positions.stop, _RUN)
        for anchor, start in zip(self._turns(np.array(starts)), starts, strict=True):
            begin, end = max(start, positions.start), min(start + _RUN, positions.stop)
            place = out[begin - positions.start : end - positions.start]
            np.multiply(anchor, self._small[begin - start : end - start], out=place)
        return out

    def _turns(self, positions: NDArray[np.int64]) -> Complex:
        """Each by itself, without the amplitude: positions (n,), or (n, axes)."""
        positions = positions if positions.ndim == 1 else positions[:, self.rope.pair_axes]
        out = np.ones((len(positions), self._half), np.complex128)
        wanted = positions.astype(np.uint64).reshape(len(positions), -1)[:, : self._rotating]
        out[:, : self._rotating] = phases.directions(self._limbs, wanted)
        return out

    def shift(self, places: int) -> Complex:
        """The factors (1, d/2) that move what was rotated already by so many positions, its amplitude left as it is."""
        turns = self._turns(np.array([abs(places)]))
        return turns if places >= 0 else turns.conj()
