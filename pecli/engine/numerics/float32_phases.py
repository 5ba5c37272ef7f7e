"""Tables of cos and sin of phases that are float32 products of positions and frequencies, correctly rounded.

The product t of two float32 numbers is exact in float64, and so is d = float32(t) − t, what its rounding adds to the
phase. exp(i·t) is a product of small tables, as in the exact tables; times a short series for exp(i·d), it has the
phase that was rounded. The few values that this leaves in doubt are computed from that phase itself.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats, Indices, Ints, Singles, aligned_buffer
from pecli.engine.numerics import Frequencies
from pecli.engine.numerics.cos_sin_tables import Factors, Rotation, Tile
from pecli.engine.numerics.float32_functions import waves_of
from pecli.engine.numerics.phases import Waves

_MAX_PHASE = 2.0**24  #: up to here, positions are float32 numbers and |d| is at most 1/2
_MIN_LAST_PHASE = 2.0**-14
"""Values below 2**-22 are always in doubt: where the last phase is this large, at most one in 256 of a column."""
_COUNT = 1 << 16  #: positions that the small tables are made for


class RoundedRotation(Rotation):
    """Makes rows of cos and sin of the float32 products of positions and frequencies, in float32."""

    def __init__(self, frequencies: Singles) -> None:
        super().__init__(lambda: Waves.of(_exactly(frequencies, 0)), _COUNT)
        self._frequencies = frequencies.astype(np.float64)
        self._least, self._most = float(frequencies.min(initial=np.inf)), float(frequencies.max(initial=0))

    def suits(self, stop: int) -> bool:
        """Whether positions below `stop` can be made this way, and faster than one by one."""
        last = stop - 1
        return last < _MAX_PHASE and self._most * last < _MAX_PHASE and self._least * last >= _MIN_LAST_PHASE

    def _new_tile(self, factors: Factors, columns: int, dtype: str) -> Tile:
        return _RoundedTile(factors, columns, self._frequencies[factors.columns])

    def _rounded(self, positions: Ints, columns: Indices, sine: Flags, dtype: str) -> Array:
        phases = (positions.astype(np.float64) * self._frequencies[columns]).astype(np.float32)
        cosines, sines = waves_of(phases, ("cos", "sin"))
        return np.where(sine, sines, cosines)


def _exactly(frequencies: Singles, extra: int) -> Frequencies:
    """The same numbers as integers over a power of two."""
    bits = 149 + extra
    values = tuple(int(Fraction(value) * (1 << bits)) for value in frequencies.tolist())
    return Frequencies(values, bits, lambda extra: _exactly(frequencies, extra))


class _RoundedTile(Tile):
    """Pairs of cos and sin whose phases are rounded to float32.

    In units of 2**-53, exp(i·d) is off by 2.4, of which its series cut short is 1, and the product adds √5: with what
    the tables are off by, 26 in all, below the 32 that are half a unit of the test.
    """

    def __init__(self, factors: Factors, columns: int, frequencies: Floats) -> None:
        super().__init__(factors, columns, "float32")
        self._frequencies = frequencies
        shape = factors.height, len(frequencies)
        kinds = (np.float64, np.float64, np.float64, np.float32, np.complex128)
        self._buffers = [aligned_buffer(math.prod(shape), kind).reshape(shape) for kind in kinds]

    def _adjust(self, first: int, values: Floats) -> None:
        """Turn the values by what rounding adds to their phases."""
        pairs = values.view(np.complex128).reshape(-1, len(self._frequencies))
        step, square, series, single, turn = (buffer[: len(pairs)] for buffer in self._buffers)
        np.multiply(np.arange(first, first + len(pairs), dtype=np.float64)[:, None], self._frequencies, step)
        single[...] = step
        square[...] = single
        if self.factors.part == "sin,cos":  # which turn the other way
            np.subtract(step, square, step)
        else:
            np.subtract(square, step, step)
        np.multiply(step, step, square)
        even, odd = _terms(float(np.spacing(single[-1].max())) / 2)
        np.add(_sum(even, square, series), 1, turn.real)
        if odd:
            np.multiply(_sum(odd, square, series), step, series)
            np.add(series, step, turn.imag)
        else:
            turn.imag = step
        np.multiply(pairs, turn, pairs)


def _terms(largest: float) -> tuple[list[float], list[float]]:
    """Of the series of cos d − 1 and sin d / d − 1 in d², for d up to the largest: what is left out is below 2**-53."""
    degree = 2
    while largest ** (degree + 1) / math.factorial(degree + 1) > 2.0**-53:
        degree += 1
    terms = [(-1) ** (k // 2) / math.factorial(k) for k in range(degree + 1)]
    return terms[2::2], terms[3::2]


def _sum(terms: list[float], x: Floats, out: Floats) -> Floats:
    """terms[0]·x + terms[1]·x² + …"""
    np.multiply(x, terms[-1], out)
    for term in terms[-2::-1]:
        out += term
        out *= x
    return out
