"""What channels are turned by: amplitude · (cos + i·sin) of position · frequency, in float64, at any positions.

Where float32 results have to go there and back, float32 factors and products are not enough: such a rotation is off
by up to 1.8 units of the last place of the pair's length, and undone again by 3 (measured). Factors and products in
float64 leave one rounding that counts, the last: half a unit there, and at most 1.21 there and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import numpy as np

from pecli.engine.arrays import Complex, Floats
from pecli.engine.numerics import phases
from pecli.engine.numerics.float32_functions import waves_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pecli.engine.runtimes.runtime import Phases

    Positions = range | NDArray[np.int64]


KEPT = 1 << 27
"""Bytes of factors that are kept; those of more positions are made anew for every block."""
_RUN = 256
"""Positions in a row whose factors are products of two."""
_CHUNK = 1 << 12
"""Factors computed directly at once, so that intermediate arrays stay in the first-level cache."""


class Rotary(Protocol):
    """What is asked of a rotary scheme."""

    @property
    def rotary_dim(self) -> int: ...
    @property
    def rotating_pairs(self) -> int: ...
    @property
    def pair_axes(self) -> Sequence[int]: ...
    def waves(self) -> phases.Waves: ...
    def runtime_phases(self) -> Phases | None: ...
    def attention_factor_value(self) -> float: ...


class RotationFactors:
    """The factors of a rotary scheme for positions from `low` to below `high`; used by any number of threads.

    Computed directly they are within 0.6·2**-53 of the true value, for amplitude 1. Where `exact` is not asked for,
    those of neighbouring positions are products of two such, within 4·2**-53. With `inverse` they undo the rotation,
    its amplitude included. As a runtime computes them, they are float32 numbers.
    """

    def __init__(self, rope: Rotary, low: int, high: int, *, exact: bool = False, inverse: bool = False) -> None:
        self.rope, self.low, self.high = rope, low, high
        self._exact, self._inverse = exact, inverse
        self._half, self._moving = rope.rotary_dim // 2, rope.rotating_pairs
        self.axes = np.array(rope.pair_axes, np.intp)
        self._lock = Lock()

    def at(self, positions: Positions) -> Complex:
        """The factors (n, d/2) of n positions: a range, an array (n,), or (n, axes) for a scheme with sections."""
        kept = self._kept()
        if isinstance(positions, range):
            if kept is not None:
                return kept[positions.start - self.low : positions.stop - self.low]
            return self._finished(self._along(positions))
        if positions.ndim == 2:
            positions = positions[:, self.axes]
        if kept is not None:
            rows = positions - self.low
            return kept[rows] if rows.ndim == 1 else kept[rows, np.arange(self._half)]
        return self._finished(self._direct(positions))

    def _kept(self) -> Complex | None:
        if (self.high - self.low) * self._half * 16 > KEPT:
            return None
        with self._lock:
            return self._table

    @cached_property
    def _table(self) -> Complex:
        return self._finished(self._along(range(self.low, self.high)))

    @cached_property
    def _waves(self) -> phases.Waves:
        return self.rope.waves()

    @cached_property
    def _phases(self) -> Phases | None:
        return self.rope.runtime_phases()

    @cached_property
    def _small(self) -> Complex:
        return self._direct(np.arange(_RUN))

    def _along(self, positions: range) -> Complex:
        """Neighbours, in runs that begin at the same positions wherever a block does."""
        if self._exact or self._phases is not None or not len(positions):
            return self._direct(np.arange(positions.start, positions.stop))
        out = np.empty((len(positions), self._half), np.complex128)
        first = positions.start - positions.start % _RUN
        anchors = self._direct(np.arange(first, positions.stop, _RUN))
        for anchor, start in zip(anchors, range(first, positions.stop, _RUN), strict=True):
            begin, end = max(start, positions.start), min(start + _RUN, positions.stop)
            place = out[begin - positions.start : end - positions.start]
            np.multiply(anchor, self._small[begin - start : end - start], out=place)
        return out

    def _direct(self, positions: NDArray[np.int64]) -> Complex:
        """Each by itself: positions (n,), or (n, d/2) where every pair has its own."""
        out = np.ones((len(positions), self._half), np.complex128)
        if self._phases is not None:
            for axis in np.unique(self.axes[: self._moving]):
                pairs = np.flatnonzero(self.axes[: self._moving] == axis)
                places = positions.reshape(len(positions), -1)[:, pairs[0] if positions.ndim == 2 else 0]
                angles = self._phases.angles(places.astype(np.float32)[:, None])[:, pairs]
                out.real[:, pairs], out.imag[:, pairs] = waves_of(angles, ("cos", "sin"))
            return out
        limbs = np.ascontiguousarray(self._waves.limbs[:, None, :])
        wanted = positions.astype(np.uint64).reshape(len(positions), -1)[:, : self._moving]
        rows = max(1, _CHUNK // self._half)
        for row in range(0, len(out), rows):
            cosines, sines = phases.cos_sin(limbs, wanted[row : row + rows])
            out.real[row : row + rows, : self._moving] = cosines
            out.imag[row : row + rows, : self._moving] = sines
        return out

    def _finished(self, factors: Complex) -> Complex:
        """With the amplitude, or turning back."""
        if self._inverse:
            np.conjugate(factors, out=factors)
        if self._amplitude != 1:
            factors[:, : self._moving] *= self._amplitude
        return factors

    @cached_property
    def _amplitude(self) -> float:
        factor = self.rope.attention_factor_value()
        return 1 / factor if self._inverse else factor


class RowFactors:
    """The factors of a scheme's own rows, where their positions are no range; `at` takes the numbers of rows."""

    def __init__(self, cos: Floats, sin: Floats, *, inverse: bool = False) -> None:
        """`cos` and `sin` are (rows, d/2); the amplitude that they share is undone, too, by `inverse`."""
        self._table: Complex = cos + 1j * sin
        if inverse:
            self._table = 1 / self._table

    def at(self, rows: Positions) -> Complex:
        """The factors (n, d/2) of n rows."""
        return self._table[rows.start : rows.stop] if isinstance(rows, range) else self._table[rows]


def shift_of(rope: Rotary, places: int) -> Complex:
    """The factors (1, d/2) that move what was turned already by so many positions, its amplitude left as it is."""
    turns = RotationFactors(rope, abs(places), abs(places) + 1, exact=True)._direct(np.array([abs(places)]))
    return turns if places >= 0 else turns.conj()
