"""Cosines and sines of float32 angles, correctly rounded to float32.

NumPy's own float32 sines depend on the processor. Here they are computed in float64, with far more
bits than float32 has. If the last of them leave the rounding in doubt, exact angles decide.

In float64, NumPy calls the C library for each angle, which takes 25 ns. Products and sums of whole
arrays are faster (7 ns): an angle is a number of sectors of 1/8192 turn, whose directions are in a
table, and a remainder of at most half a sector, for which two terms of a series suffice. For
example, 10 radians are 13,038 sectors (one turn and 4,846 sectors) and −0.00003 radians.
"""

import threading
from collections.abc import Sequence
from functools import cache
from types import ModuleType

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import AnyArray, Complex, Floats, Indices, Singles, aligned_buffer
from pecli.engine.numerics import Frequencies, bits_for
from pecli.engine.numerics.correct_rounding import rounded_elements
from pecli.engine.numerics.kernels import compiled_loops
from pecli.engine.numerics.phases import ExactWaves
from pecli.engine.numerics.tiles import Doubtful

_CHUNK = 1 << 15
"""Angles computed at once. Their arrays, 1.75 MiB in all, are few enough for a second-level cache of
2 MiB. With half as many, one thread is faster, but two are slower: each waits for the interpreter
between NumPy's calls."""

_SECTORS = 8192
_SECTORS_PER_RADIAN = _SECTORS / (2 * np.pi)
_SECTOR_BITS = 200
_MAX_ANGLE = 2.0**18
"""Angles below this are less than 2**29 sectors; larger ones are left to the C library."""
_SUMMAND_BITS = 24
"""Bits of a summand of the sector's angle: its product with 29 bits is exact in float64."""

ROUNDING_CONSTANT = 1.5 * 2.0**52
"""A sum with this number is rounded to an integer, because floats of this size are 1 apart. The lower
bits of the sum are that integer: those of 1.5 · 2**52 + 5.3 end in 101, which is 5.
"""

DROPPED_BITS = 29
"""Bits of a float64 number that float32 does not have."""
_UNUSED_BITS = 32 - DROPPED_BITS
"""Bits of a 32-bit integer beside the dropped ones."""
_WAVE_ERROR = 1 << 8
"""Bound on the error of float64 waves, in ULPs; any library's, and those here, are within 32."""

_SINGLE_BITS = 24
_MIN_EXPONENT = -172
_MAX_EXPONENT = 105
"""Exponents of float32 numbers written as 24-bit integers times 2**e; phases are below 2**104."""


def write_waves(angles: Singles, functions: Sequence[str], out: Singles) -> None:
    """Write the cosines or sines of float32 angles, correctly rounded to float32.

    Args:
        angles: Angles in radians, none of them negative.
        functions: "cos", "sin", or both in the order of the result.
        out: Contiguous memory for the result, with one more axis than the angles: the functions.
    """
    flat_angles = angles.reshape(-1)
    waves = out.reshape(-1, len(functions))
    for start in range(0, flat_angles.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        _MAKER.write_waves(flat_angles[chunk], functions, waves[chunk])


class _WaveMaker(threading.local):
    """Makes the waves of up to _CHUNK angles at a time, in memory of its own for each thread.

    All steps write into the same few arrays. With new ones for each step, a table takes three times
    as long, because the system clears new memory. Arrays serve several times, also as integers, so
    that all of them fit into the cache.

    A direction is a complex number, cos a + i·sin a or, if sines come first, sin a + i·cos a. So
    its parts are in the order of the result, and rounding all of them takes one pass.
    """

    def __init__(self) -> None:
        """Allocate the arrays that all steps write into.

        A NumPy loop is faster if the arrays that it uses begin at different places of a memory page.
        `place` is 0 … 3: the quarter of the page.
        """
        # For NumPy. An angle is split into a number of sectors of the circle and a remainder.
        self._remainders: Floats = aligned_buffer(_CHUNK, np.float64, place=0)
        self._sector_counts: Floats = aligned_buffer(_CHUNK, np.float64, place=1)
        # When remainders are squared, the counts are not needed any more: this is their memory.
        self._squared_remainders = self._sector_counts
        # Numbers that only one step needs: indices, products, sums of a series.
        self._scratch: Floats = aligned_buffer(_CHUNK, np.float64, place=2)
        self._sector_directions: Complex = aligned_buffer(_CHUNK, np.complex128, place=3)
        # Place 1 is used twice, because no loop needs the directions and the counts.
        self._directions: Complex = aligned_buffer(_CHUNK, np.complex128, place=1)

        # For the compiled loop: cosines and sines, if the table needs only one of them, and the
        # numbers that may be rounded wrongly.
        self._pairs: Singles = aligned_buffer(2 * _CHUNK, np.float32).reshape(_CHUNK, 2)
        self._doubtful_numbers = np.empty(2 * _CHUNK, np.int64)

    def write_waves(self, angles: Singles, functions: Sequence[str], out: Singles) -> None:
        """Write the cosines or sines of some angles (n,) into an array (n, functions)."""
        doubtful = self._write_from_float64(angles, out, sine_first=functions[0] == "sin")
        for column, function in enumerate(functions):
            rows = doubtful.rows[doubtful.columns == column]
            if rows.size:
                out[rows, column] = _exact_waves(angles[rows], function)

    def _write_from_float64(self, angles: Singles, out: Singles, *, sine_first: bool) -> Doubtful:
        """Write the cosines or sines of some angles, and return those that may be rounded wrongly.

        They are computed in float64 and rounded to float32: by the C library for large angles, by a
        compiled loop if it is loaded, and otherwise by NumPy.

        Args:
            angles: The angles (n,).
            out: The array for the result: (n, 2) for both functions, (n, 1) for the first one.
            sine_first: True if the first function is the sine.
        """
        # Frequencies may overflow, so that angles are infinite or NaN. These are not small either.
        all_are_small = angles.max() < _MAX_ANGLE
        if not all_are_small:
            directions = _directions_by_c_library(angles.astype(np.float64), sine_first=sine_first)
            return self._round_into(out, directions)
        number_count = 2 * len(angles)  # a cosine and a sine of each angle
        loops = compiled_loops(number_count)
        if loops is not None:
            return self._write_by_compiled_loop(loops, angles, out, sine_first=sine_first)
        directions = self._directions_by_numpy(angles, sine_first=sine_first)
        return self._round_into(out, directions)

    def _round_into(self, out: Singles, directions: Complex) -> Doubtful:
        """Write directions, rounded to float32, and return the parts whose rounding is in doubt."""
        _write_rounded(directions, out)
        return self._in_doubt(directions)

    def _write_by_compiled_loop(
        self, loops: ModuleType, angles: Singles, out: Singles, *, sine_first: bool
    ) -> Doubtful:
        """Write the cosines or sines of angles by a compiled loop, and return those in doubt.

        The loop makes both cosines and sines. If the table has only one function, they are made in
        other memory, from which that function is copied.

        Args:
            loops: The module of compiled loops.
            angles: The angles (n,).
            out: The array for the result: (n, 2) for both functions, (n, 1) for the first one.
            sine_first: True if the first function is the sine.
        """
        if out.shape[1] == 2:
            return self._write_pairs(loops, angles, out, sine_first=sine_first)
        pairs = self._pairs[: len(angles)]
        doubtful = self._write_pairs(loops, angles, pairs, sine_first=sine_first)
        out[:, 0] = pairs[:, 0]
        return doubtful

    def _write_pairs(
        self, loops: ModuleType, angles: Singles, pairs: Singles, *, sine_first: bool
    ) -> Doubtful:
        """Write (cosine, sine) of angles by a compiled loop; return those that may be rounded wrongly.

        The loop takes the direction, cosine and sine, of the nearest of 8192 angles from a table,
        and turns it by the rest of the angle.

        Args:
            loops: The module of compiled loops.
            angles: The angles (n,).
            pairs: The array for the result (n, 2).
            sine_first: True if the pairs are (sine, cosine).
        """
        # The loop needs neighbouring numbers, and the angles may be every second column of a table.
        adjacent_angles = np.ascontiguousarray(angles)
        table: Complex = _sector_directions(sine_first=sine_first)
        table_numbers = table.view(np.float64)  # cosine, sine, cosine, sine, …
        sign_of_turn = _sign(sine_first=sine_first)
        result = pairs.reshape(-1)  # the same memory as `pairs`
        # The arguments have no keywords, for which numba would need 3 µs more.
        doubtful_count = loops.write_directions(
            adjacent_angles,
            table_numbers,
            _SECTOR_ANGLE_SUMMANDS,  # Their sum is 2π / 8192, the distance of angles in the table.
            sign_of_turn,
            _WAVE_ERROR,  # the largest error of a number before it is rounded, in ULPs of float64
            result,  # The loop writes the cosines and sines here.
            self._doubtful_numbers,  # It writes here which of them may be rounded wrongly.
        )
        return _doubtful(self._doubtful_numbers[:doubtful_count])

    def _directions_by_numpy(self, angles: Singles, *, sine_first: bool) -> Complex:
        """Return the direction of each angle, both parts within _WAVE_ERROR ULPs.

        An angle is a number of sectors and a remainder, and its direction is the product of theirs.
        """
        sector_counts = self._count_sectors(angles)
        self._look_up_sectors(sector_counts, _sector_directions(sine_first=sine_first))
        self._subtract_sectors(sector_counts)
        directions = self._directions_of_remainders(len(angles), _sign(sine_first=sine_first))
        directions *= self._sector_directions[: len(angles)]
        return directions

    def _count_sectors(self, angles: Singles) -> Floats:
        """Return the number of sectors that is nearest to each angle, plus ROUNDING_CONSTANT.

        Whole turns are counted as well: 355 is 462,848 sectors (113 half turns). The angles are
        kept in `_remainders`, from which the sectors are subtracted later.
        """
        remainders = self._remainders[: len(angles)]
        sector_counts = self._sector_counts[: len(angles)]
        remainders[:] = angles
        np.multiply(remainders, _SECTORS_PER_RADIAN, out=sector_counts)
        sector_counts += ROUNDING_CONSTANT  # The sums are rounded to integers, in their lower bits.
        return sector_counts

    def _look_up_sectors(self, sector_counts: Floats, table: Complex) -> None:
        """Write the direction of each number of sectors into `_sector_directions`.

        The direction of 462,848 sectors is that of 4,096, the number without whole turns, which is
        the lower bits of the rounded count.

        Args:
            sector_counts: The numbers plus ROUNDING_CONSTANT (n,).
            table: The directions of sectors 0 … 8191.
        """
        size = len(sector_counts)
        sectors = self._scratch[:size].view(np.int64)
        np.bitwise_and(sector_counts.view(np.int64), _SECTORS - 1, out=sectors)
        table.take(sectors, out=self._sector_directions[:size], mode="clip")

    def _subtract_sectors(self, sector_counts: Floats) -> None:
        """Subtract the angles of sectors from `_remainders`; what is left is at most half a sector.

        All digits are kept, however small a remainder is: 355 less 462,848 sectors is 0.00003
        radians. `sector_counts` are overwritten by the numbers without ROUNDING_CONSTANT.
        """
        size = len(sector_counts)
        remainders = self._remainders[:size]
        products = self._scratch[:size]
        sector_counts -= ROUNDING_CONSTANT
        for summand in _SECTOR_ANGLE_SUMMANDS:
            np.multiply(sector_counts, summand, out=products)
            remainders -= products

    def _directions_of_remainders(self, size: int, sign: int) -> Complex:
        """Return cos x + i·sign·sin x of the remainders x, none of them above π/8192.

        cos x is 1 − x²/2 and sin x is (1 − x²/6)·x: the first terms that are left out, x⁴/4! and
        x⁵/5!, are below 2**-49 of the results.

        Args:
            size: The number of remainders.
            sign: 1, or −1 if sines come first in directions.
        """
        x = self._remainders[:size]
        x_squared = self._squared_remainders[:size]
        series = self._scratch[:size]
        directions = self._directions[:size]
        np.multiply(x, x, out=x_squared)

        # cos x
        np.multiply(x_squared, -1 / 2, out=series)
        np.add(series, 1, out=directions.real)

        # sign·sin x. Both numbers of 1 − x²/6 have the sign, so that it takes no step of its own.
        np.multiply(x_squared, -sign / 6, out=series)
        series += sign
        np.multiply(series, x, out=directions.imag)
        return directions

    def _in_doubt(self, directions: Complex) -> Doubtful:
        """Return the cosines and sines that float32 may have rounded wrongly.

        Those are within the error of float64, 256 ULPs, of a tie, which is halfway between two
        float32 numbers.

        Args:
            directions: cos + i·sin of angles (n,), complex numbers with two parts each.
        """
        distances = self._distances_to_ties(directions)
        # One part in a million is in doubt: a minimum takes less time than looking for it.
        if distances.min() > _LARGEST_IN_DOUBT:
            return _NOTHING_IN_DOUBT
        is_in_doubt = distances <= _LARGEST_IN_DOUBT
        # The pairs are read as one row of numbers, in which NumPy searches 40 times as fast.
        numbers_in_doubt = np.flatnonzero(is_in_doubt)
        return _doubtful(numbers_in_doubt)

    def _distances_to_ties(self, directions: Complex) -> AnyArray:
        """Return how far each part of directions is above the number 256 ULPs below a tie.

        float32 drops the lower 29 bits of a float64 number. At a tie, halfway between two float32
        numbers, these are 100…0, or 2**28. So the distance is the dropped bits, read as an integer,
        minus 2**28 plus 256, modulo 2**29: 256 at a tie, 253 for the number 3 ULPs below it, and at
        most 512 for all numbers that are within 256 ULPs of a tie.

        Args:
            directions: cos + i·sin of angles (n,), complex numbers with two parts each.

        Returns:
            The distances (n, 2), times 2**3. These are integers of 32 bits, so that the sum
            overflows modulo 2**29 by itself; and they take half the time of 64 bits.
        """
        bits = directions.view(np.int64)  # (2n,)
        # The directions of sectors are not needed any more: their memory is free.
        free_memory = self._sector_directions[: len(directions)].view(np.uint32)
        distances = free_memory[: len(bits)]
        np.copyto(distances, bits, casting="unsafe")  # the lower 32 bits, of which 29 are dropped
        distances <<= _UNUSED_BITS
        distances += _WINDOW_BELOW_TIE
        return distances.reshape(-1, 2)


_TIE = 1 << (DROPPED_BITS - 1)
"""The bits that float32 drops, at a tie."""
_WINDOW_BELOW_TIE = np.uint32(((_WAVE_ERROR - _TIE) << _UNUSED_BITS) % 2**32)
"""_WAVE_ERROR − _TIE in the upper bits of an integer: a negative number, modulo 2**32."""
_LARGEST_IN_DOUBT = (2 * _WAVE_ERROR) << _UNUSED_BITS
"""The largest distance that is in doubt, in the upper bits of an integer."""
_NOTHING_IN_DOUBT = Doubtful(np.empty(0, np.intp), np.empty(0, np.intp))
_MAKER = _WaveMaker()


def _sign(*, sine_first: bool) -> int:
    """Return by what the imaginary part of a remainder's direction is multiplied.

    With sines first, sin(s + x) + i·cos(s + x) = (sin s + i·cos s) · (cos x − i·sin x).
    """
    return -1 if sine_first else 1


def _doubtful(numbers: Indices) -> Doubtful:
    """Return the rows and columns of some numbers of pairs: number 5 is in row 2 and column 1."""
    rows, columns = np.divmod(numbers, 2)
    return Doubtful(rows, columns)


def _write_rounded(directions: Complex, out: Singles) -> None:
    """Write both parts of directions, or the first ones, into an array (n, functions)."""
    if out.shape[1] == 2:
        out.view(np.complex64)[:, 0] = directions
    else:
        out[:, 0] = directions.real


def _directions_by_c_library(angles: Floats, *, sine_first: bool) -> Complex:
    """Return cos a + i·sin a of angles a of any size, as the C library has them.

    With sines first, they are sin a + i·cos a.
    """
    directions = np.empty(angles.shape, np.complex128)
    cosines = directions.real
    sines = directions.imag
    if sine_first:
        cosines, sines = sines, cosines
    np.cos(angles, out=cosines)
    np.sin(angles, out=sines)
    return directions


@cache
def _sector_directions(*, sine_first: bool) -> Complex:
    """Return cos a + i·sin a of the angles a of all sectors; sin a + i·cos a with sines first.

    Only a quarter of the circle is computed; a quarter turn is a product with i.
    """
    quarter = np.array(_directions_of_first_quarter())
    directions = np.concatenate([quarter, 1j * quarter, -quarter, -1j * quarter])
    return 1j * directions.conj() if sine_first else directions


def _directions_of_first_quarter() -> list[complex]:
    """Return cos a + i·sin a of the first quarter of the sectors, each turned from the one before.

    Cosines and sines are integers over 2**_SECTOR_BITS, so that the errors of all steps together
    are below 2**-180.
    """
    unit = 1 << _SECTOR_BITS
    step_cosine, step_sine = numerics.cos_sin(unit // _SECTORS, _SECTOR_BITS)
    cosine = unit
    sine = 0
    directions = []
    for _ in range(_SECTORS // 4):
        directions.append(complex(cosine / unit, sine / unit))
        next_cosine = (cosine * step_cosine - sine * step_sine) >> _SECTOR_BITS
        next_sine = (sine * step_cosine + cosine * step_sine) >> _SECTOR_BITS
        cosine = next_cosine
        sine = next_sine
    return directions


def _summands_of_sector_angle() -> tuple[float, float, float]:
    """Return 2π / 8192 as a sum of three floats, of which the first two have only 24 bits.

    Such a float times a number of sectors, which has 29 bits, has 53 bits: the product is exact in
    float64. In decimal, 0.785398163 is 0.785 + 0.000398 + 0.000000163 with summands of 3 digits.
    """
    angle = 2 * numerics.pi(_SECTOR_BITS) // _SECTORS  # an integer over 2**_SECTOR_BITS
    length = angle.bit_length()
    upper_24_bits = _without_lower_bits(angle, length - _SUMMAND_BITS)
    next_24_bits = _without_lower_bits(angle - upper_24_bits, length - 2 * _SUMMAND_BITS)
    rest = angle - upper_24_bits - next_24_bits

    unit = 1 << _SECTOR_BITS
    return upper_24_bits / unit, next_24_bits / unit, rest / unit


def _without_lower_bits(number: int, count: int) -> int:
    """Return an integer with 0 for some of its lower bits.

    >>> bin(_without_lower_bits(0b10111, 3))
    '0b10000'
    """
    return number >> count << count


_SECTOR_ANGLE_SUMMANDS = _summands_of_sector_angle()
"""Three numbers, whose sum is the angle of a sector, 2π / 8192."""


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
    rounded = rounded_elements(waves, _powers_of_two, positions, wave_indices, is_sine, "float32")
    return rounded.astype(np.float32)


def _powers_of_two() -> ExactWaves:
    """Return waves whose frequencies are the powers of two from _MIN_EXPONENT on."""
    # After the product with a position, the smallest keeps 352 bits and the largest 105.
    bits = 640 + bits_for(1.0)
    values = tuple(1 << (bits + exponent) for exponent in range(_MIN_EXPONENT, _MAX_EXPONENT))
    return ExactWaves.from_frequencies(Frequencies(values, bits))


_cached_powers_of_two = cache(_powers_of_two)
