"""Tables of cos and sin of phases that are float32 products of positions and frequencies, many rows at once.

The product t of two float32 numbers is exact in float64, and so is d = float32(t) − t, what its rounding adds to the
phase. exp(i·t) is a product of small tables, as in the exact tables; times a short series for exp(i·d), it has the
phase that was rounded. The few values that this leaves in doubt are computed from that phase itself.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats, Indices, Ints, Singles, aligned_buffer
from pecli.engine.numerics import Frequencies
from pecli.engine.numerics.cos_sin_tables import Factors, Rotation, Tile
from pecli.engine.numerics.float32_functions import waves_of
from pecli.engine.numerics.phases import Waves

_MAX_PHASE = 2.0**17  #: below which positions are float32 numbers, and |d| is at most 2**-8
_MIN_LAST_PHASE = 2.0**-14  #: values below 2**-22 are always in doubt: then at most one in 256 of a column
_MIN_WAVES = 1 << 18  #: of a block, for which it pays to make small tables first
_BITS = 149  #: after the binary point of any float32 number
_COUNT = 1 << 16  #: positions that the small tables are made for


class RoundedRotation(Rotation):
    """Makes rows of cos and sin of the float32 products of positions and frequencies, in float32 and in pairs."""

    def __init__(self, frequencies: Singles) -> None:
        numbers = tuple(int(Fraction(value) * (1 << _BITS)) for value in frequencies.tolist())
        super().__init__(lambda: Waves.of(Frequencies(numbers, _BITS)), _COUNT)
        self._frequencies = frequencies.astype(np.float64)

    def suits(self, first: int, rows: int) -> bool:
        """Whether so many rows can be made this way, and faster than one by one."""
        least, most = self._frequencies.min(initial=np.inf), self._frequencies.max(initial=1)
        last, many = first + rows - 1, rows * len(self._frequencies) >= _MIN_WAVES
        return bool(many and first >= 0 and most * last < _MAX_PHASE and least * last >= _MIN_LAST_PHASE)

    def _new_tile(self, factors: Factors, columns: int, dtype: str) -> Tile:
        return _RoundedTile(factors, columns, self._frequencies[factors.columns])

    def _decided(self, positions: Ints, columns: Indices, sine: Flags, dtype: str) -> Array:
        angles = (positions.astype(np.float64) * self._frequencies[columns]).astype(np.float32)
        cosines, sines = waves_of(angles, ("cos", "sin"))
        return np.where(sine, sines, cosines)


class _RoundedTile(Tile):
    """Pairs of cos and sin whose phases are rounded to float32.

    In units of 2**-53, exp(i·d) is off by 1, of which its series cut short is a tenth, and the product adds √5: with
    what the tables are off by, 19 in all, below the 32 that are half a unit of the test.
    """

    def __init__(self, factors: Factors, columns: int, frequencies: Floats) -> None:
        super().__init__(factors, columns, "float32")
        shape = factors.height, len(frequencies)
        self._frequencies = -frequencies if factors.part == "sin,cos" else frequencies  # which turn the other way
        self._buffers = [aligned_buffer(shape[0] * shape[1], np.float64).reshape(shape) for _ in range(3)]
        self._turn_by = aligned_buffer(shape[0] * shape[1], np.complex128).reshape(shape)

    def _adjust(self, first: int, values: Floats) -> None:
        """Turn the values by what rounding adds to their phases."""
        pairs = values.view(np.complex128).reshape(-1, len(self._frequencies))
        turn = self._turn_by[: len(pairs)]
        off, square, series = (buffer[: len(pairs)] for buffer in self._buffers)
        np.multiply(np.arange(first, first + len(pairs), dtype=np.float64)[:, None], self._frequencies, off)
        np.subtract(off.astype(np.float32), off, off)
        np.multiply(off, off, square)
        np.multiply(square, 1 / 24, series)
        series -= 1 / 2
        series *= square
        np.add(series, 1, turn.real)
        np.multiply(square, 1 / 120, series)
        series -= 1 / 6
        series *= square
        series *= off
        np.add(series, off, turn.imag)
        np.multiply(pairs, turn, pairs)
