"""Cosines and sines of float32 angles, correctly rounded to float32.

NumPy's own float32 sines depend on the processor. Here they are computed in float64, with far more
bits than float32 has. If the last of them leave the rounding in doubt, exact angles decide.

In float64, NumPy calls the C library for each angle, which takes 25 ns. Products and sums of whole
arrays are faster (9 ns): an angle is a number of sectors of 1/512 turn, whose directions are in a
table, and a remainder of at most half a sector, for which a few terms of a series suffice. For
example, 10 radians are 815 sectors (one turn and 303 sectors) and −0.0014 radians.
"""

import threading
from collections.abc import Sequence
from functools import cache

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Complex, Floats, Indices, Positions, Singles
from pecli.engine.numerics import Frequencies, bits_for
from pecli.engine.numerics.correct_rounding import round_waves
from pecli.engine.numerics.phases import ExactWaves

_CHUNK = 1 << 14
"""Angles computed at once: arrays of 128 and 256 KiB, few enough for the second-level cache."""

_SECTORS = 512
_SECTORS_PER_RADIAN = _SECTORS / (2 * np.pi)
_SECTOR_BITS = 200
_MAX_ANGLE = 2.0**18
"""Angles below this are less than 2**25 sectors; larger ones are left to the C library."""
_SUMMAND_BITS = 28
"""Bits of a summand of the sector's angle: its product with 25 bits is exact in float64."""

_DROPPED_BITS = 29
"""Bits of a float64 number that float32 does not have."""
_WAVE_ERROR = 1 << 8
"""Bound on the error of float64 waves, in ULPs; any library's, and those here, are within 8."""
_IN_DOUBT = 2 * _WAVE_ERROR
"""The largest distance from a tie at which the error may change the rounding."""

_SINGLE_BITS = 24
_MIN_EXPONENT = -172
_MAX_EXPONENT = 105
"""Exponents of float32 numbers written as 24-bit integers times 2**e; phases are below 2**104."""


def waves_of(angles: Singles, functions: Sequence[str]) -> list[Singles]:
    """Return the cosines or sines of float32 angles, correctly rounded to float32.

    Args:
        angles: Angles in radians, none of them negative.
        functions: "cos" or "sin", for each array of the result.
    """
    flat_angles = angles.reshape(-1)
    flat_waves = [np.empty_like(flat_angles) for _ in functions]
    for start in range(0, angles.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        chunk_waves = [waves[chunk] for waves in flat_waves]
        _MAKER.write_waves(flat_angles[chunk], functions, chunk_waves)
    return [waves.reshape(angles.shape) for waves in flat_waves]


class _WaveMaker(threading.local):
    """Makes the waves of up to _CHUNK angles at a time, in memory of its own for each thread.

    All steps write into the same few arrays. With new ones for each step, a table takes three times
    as long, because the system clears new memory.
    """

    def __init__(self) -> None:
        self._remainders: Floats = np.empty(_CHUNK)
        self._sector_counts: Floats = np.empty(_CHUNK)
        self._products: Floats = np.empty(_CHUNK)
        self._sectors: Indices = np.empty(_CHUNK, np.intp)
        self._sector_directions: Complex = np.empty(_CHUNK, np.complex128)
        self._directions: Complex = np.empty(_CHUNK, np.complex128)
        self._distances: Positions = np.empty(2 * _CHUNK, np.int64)

    def write_waves(self, angles: Singles, functions: Sequence[str], out: list[Singles]) -> None:
        """Write the cosines or sines of some angles (n,) into arrays (n,), one per function."""
        directions = self._directions_of(angles)
        for function, waves in zip(functions, out, strict=True):
            waves[:] = directions.imag if function == "sin" else directions.real
        distances = self._distances_from_ties(directions)
        # One wave in a million is in doubt: a minimum takes less time than looking for it.
        if distances.min() > _IN_DOUBT:
            return
        in_doubt = distances.reshape(-1, 2) <= _IN_DOUBT  # (n, cosine and sine)
        for function, waves in zip(functions, out, strict=True):
            rows = np.flatnonzero(in_doubt[:, 1] if function == "sin" else in_doubt[:, 0])
            if rows.size:
                waves[rows] = _exact_waves(angles[rows], function)

    def _directions_of(self, angles: Singles) -> Complex:
        """Return cos a + i·sin a of each angle a, both within _WAVE_ERROR ULPs."""
        # Infinity and NaN, from frequencies that overflow, are not below the limit either.
        if not angles.max() < _MAX_ANGLE:
            distant_angles = angles.astype(np.float64)
            return np.cos(distant_angles) + 1j * np.sin(distant_angles)
        size = len(angles)
        self._split_into_sectors(angles)
        sectors = self._sectors[:size]
        np.copyto(sectors, self._sector_counts[:size], casting="unsafe")
        sectors &= _SECTORS - 1  # without whole turns
        sector_directions = self._sector_directions[:size]
        _sector_directions().take(sectors, out=sector_directions, mode="clip")
        directions = self._directions_of_remainders(size)
        directions *= sector_directions
        return directions

    def _split_into_sectors(self, angles: Singles) -> None:
        """Split angles into numbers of sectors and remainders of at most half a sector.

        Remainders have all of their digits, however small they are: 355 is 28,928 sectors (113 half
        turns) and 0.00003 radians.
        """
        size = len(angles)
        sector_counts = self._sector_counts[:size]
        remainders = self._remainders[:size]
        products = self._products[:size]
        remainders[:] = angles
        np.multiply(remainders, _SECTORS_PER_RADIAN, out=sector_counts)
        np.rint(sector_counts, out=sector_counts)
        for summand in _SECTOR_ANGLE:
            np.multiply(sector_counts, summand, out=products)
            remainders -= products

    def _directions_of_remainders(self, size: int) -> Complex:
        """Return cos x + i·sin x of the remainders x, none of them above π/512.

        The first terms that are left out, x⁶/6! and x⁷/7!, are below 2**-53 of the results.
        """
        x = self._remainders[:size]
        square = np.multiply(x, x, out=self._sector_counts[:size])
        series = self._products[:size]
        directions = self._directions[:size]

        np.multiply(square, 1 / 24, out=series)
        series -= 1 / 2
        series *= square
        np.add(series, 1, out=directions.real)

        np.multiply(square, 1 / 120, out=series)
        series -= 1 / 6
        series *= square
        series += 1
        np.multiply(series, x, out=directions.imag)
        return directions

    def _distances_from_ties(self, directions: Complex) -> Positions:
        """Return how far each wave is above a float32 tie, in ULPs, plus _WAVE_ERROR.

        The 29 bits that float32 drops are 100…0 at a tie. That is taken off and the error added, so
        that waves within the error of a tie, on either side, have distances from 0 to _IN_DOUBT.
        """
        tie = 1 << (_DROPPED_BITS - 1)
        bits = directions.view(np.int64)
        distances = np.add(bits, _WAVE_ERROR - tie, out=self._distances[: len(bits)])
        distances &= (1 << _DROPPED_BITS) - 1
        return distances


_MAKER = _WaveMaker()


@cache
def _sector_directions() -> Complex:
    """Return cos + i·sin of the angles of all sectors.

    Only a quarter of the circle is computed; a quarter turn is a product with i.
    """
    quarter = []
    for sector in range(_SECTORS // 4):
        cosine, sine = numerics.cos_sin((sector << _SECTOR_BITS) // _SECTORS, _SECTOR_BITS)
        quarter.append(complex(cosine / (1 << _SECTOR_BITS), sine / (1 << _SECTOR_BITS)))
    first = np.array(quarter)
    return np.concatenate([first, 1j * first, -first, -1j * first])


def _summands_of_sector_angle() -> tuple[float, float, float]:
    """Return 2π / 512 as the sum of three numbers, the first two of which have only 28 bits.

    Products of these two with numbers of sectors are exact, and the sum has more than 100 bits.
    """
    angle = 2 * numerics.pi(_SECTOR_BITS) // _SECTORS
    first_shift = angle.bit_length() - _SUMMAND_BITS
    second_shift = first_shift - _SUMMAND_BITS
    first = angle >> first_shift << first_shift
    second = (angle - first) >> second_shift << second_shift
    third = angle - first - second
    unit = 1 << _SECTOR_BITS
    return first / unit, second / unit, third / unit


_SECTOR_ANGLE = _summands_of_sector_angle()


def _exact_waves(angles: Singles, function: str) -> Singles:
    """Return cosines or sines by exact angles.

    A float32 angle is a 24-bit integer times a power of two: the integer is taken for a position,
    the power of two for the frequency of its wave. The angle 3 = 0.75 · 2**2 has the position
    0.75 · 2**24 and the frequency 2**(2 − 24).
    """
    fractions, exponents = np.frexp(angles.astype(np.float64))
    positions = (fractions * 2.0**_SINGLE_BITS).astype(np.uint64)
    frequency_exponents = exponents - _SINGLE_BITS
    wave_indices = (frequency_exponents - _MIN_EXPONENT).astype(np.intp)
    is_sine = np.full(len(positions), function == "sin")
    waves = _cached_powers_of_two()
    rounded = round_waves(waves, _powers_of_two, positions, wave_indices, is_sine, "float32")
    return rounded.astype(np.float32)


def _powers_of_two() -> ExactWaves:
    """Return waves whose frequencies are the powers of two from _MIN_EXPONENT on."""
    # After the product with a position, the smallest keeps 352 bits and the largest 105.
    bits = 640 + bits_for(1.0)
    values = tuple(1 << (bits + exponent) for exponent in range(_MIN_EXPONENT, _MAX_EXPONENT))
    return ExactWaves.of(Frequencies(values, bits))


_cached_powers_of_two = cache(_powers_of_two)
