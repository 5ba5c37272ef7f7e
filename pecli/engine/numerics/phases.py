"""Exact angles: the phase of position p of each wave, and its cosine and sine.

p·θ in float64 loses a digit for every digit of p. Here frequencies are kept in turns instead of
radians, as integers of 160 bits or more. The product with p is exact, whole turns are dropped
(they change no cosine), and only the remaining fraction of a turn is rounded. For example, 0.3
turns per position is 2.1 turns at position 7, of which 0.1 remains.

A fraction of a turn is then split into the nearest of 256 sectors, whose cosines and sines are in
a small table, and a remainder of at most 1/512 turn, for which a few terms of a series suffice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Complex, Floats, Indices, Ints
from pecli.engine.numerics import DoubleDouble, Frequencies, bits_for, exact_sum

SECTORS = 256
TILE = 1 << 15
"""Waves × rows of a tile: half of a second-level cache of 1 MiB in complex128."""
FLOAT64_ERROR = 2.0**-50
"""Bound on the relative error of amplitude · `cos_sin`; 2**-51.5 by analysis."""
PRODUCT_ERROR = 2.0**-91
"""Bound on the relative error of `cos_sin_double_double`; 2**-98 by analysis, with a margin."""

_DIGIT_BITS = np.uint64(32)
_LOW_DIGIT = np.uint64(0xFFFFFFFF)
"""The mask of the lower 32 of 64 bits."""
_SECTOR_SHIFT = np.uint64(24)
"""A fraction's highest digit has 32 bits, of which the first 8 number a sector."""
_SPARE_DIGITS = 1
"""Lowest digits that 53 bits of a cosine do not need: 88 of 120 guard bits are left."""
_CHUNK = 1 << 12
"""Elements of `directions` computed at once, so that arrays stay in the first-level cache."""
_AMPLITUDE_BITS = 200
_FUNCTION_ERROR = 4
"""Units by which an amplitude that is computed by a function may be off."""


Amplitude = Fraction | float | Callable[[int], int]
"""The factor of cosines and sines: a number, or a function for one that is irrational.

The function takes a number of bits, and returns the amplitude as an integer over 2**bits. For ln 2,
it returns 177 for 8 bits, because 177/256 = 0.691 is the nearest.
"""


@dataclass(eq=False)
class ExactWaves:
    """Frequencies in turns per position, and the amplitude that they share.

    Attributes:
        turns: The frequencies, each an integer over 2**bits, rounded down.
        bits: A multiple of 32.
        amplitude: An integer over 2**amplitude_bits.
        amplitude_bits: The amplitude's number of bits after the point.
        amplitude_error: The units by which the amplitude may be off; 0 if it is exact.
    """

    turns: tuple[int, ...]
    bits: int
    amplitude: int
    amplitude_bits: int
    amplitude_error: int

    @classmethod
    def from_frequencies(
        cls,
        frequencies: Frequencies,
        *,
        scale: float | Fraction = 1.0,
        in_turns: bool = False,
        amplitude: Amplitude = 1.0,
    ) -> ExactWaves:
        """Return the waves amplitude · cos and sin of position · scale · frequency.

        Frequencies are converted from radians to turns, of 2π radians each: whole turns of an angle
        can then be dropped. 1 radian is 0.159 turns. Every number is stored as an integer over a
        power of two, 0.159 · 2**bits, with more digits than a float64 has.

        Args:
            frequencies: Radians per position, or turns per position if `in_turns` is set.
            scale: A factor of the positions.
            in_turns: True if the frequencies are in turns already.
            amplitude: The factor of all cosines and sines.
        """
        bits = _bits_for_turns(frequencies, scale)  # enough for positions up to 2**40
        turns = _turns_per_position(frequencies, Fraction(scale), in_turns, bits)
        fixed_point_amplitude = _fixed_point_amplitude(amplitude)
        return cls(
            turns=turns,
            bits=bits,
            amplitude=fixed_point_amplitude.value,
            amplitude_bits=fixed_point_amplitude.bits,
            amplitude_error=fixed_point_amplitude.error,
        )

    @cached_property
    def digits(self) -> Ints:
        """The frequencies' fractions as 32-bit digits, lowest first: (digits, waves).

        With 64 bits, 1/4 turn has the digits 0 and 2**30. Whole turns per position are left out,
        because they change no cosine.
        """
        bytes_per_frequency = self.bits // 8
        fraction_mask = (1 << self.bits) - 1
        fractions = [turns & fraction_mask for turns in self.turns]
        packed = b"".join(number.to_bytes(bytes_per_frequency, "little") for number in fractions)
        digits = np.frombuffer(packed, "<u4").reshape(len(fractions), bytes_per_frequency // 4)
        return np.ascontiguousarray(digits.T).astype(np.uint64)

    @cached_property
    def amplitude_factor(self) -> DoubleDouble:
        """The amplitude as two float64 numbers."""
        return DoubleDouble.fixed(self.amplitude, self.amplitude_bits)


def _bits_for_turns(frequencies: Frequencies, scale: float | Fraction) -> int:
    """Return the bits after the point that the smallest frequency needs, in turns per position.

    Small numbers begin with zeros, and need more bits for as many digits. Frequencies of 0 are
    exact with any number of bits.
    """
    nonzero = (value for value in frequencies.values if value)
    smallest = min(nonzero, default=1) / (1 << frequencies.bits)
    # A frequency in turns is smaller than in radians by 2π, which is less than 8.
    return bits_for(smallest * float(scale) / 8)


def _turns_per_position(
    frequencies: Frequencies, scale: Fraction, in_turns: bool, bits: int
) -> tuple[int, ...]:
    """Return frequency · scale / turn for each frequency, as an integer over 2**bits, rounded down.

    There is one division for each frequency, so that it is rounded only once. The frequency and the
    turn are both integers over 2**frequencies.bits, which cancels out: 3 radians at a scale of 1/2
    are (3 · 1 << bits) // (2π · 2).

    Args:
        frequencies: Radians per position, or turns if `in_turns` is set.
        scale: A factor of the positions.
        in_turns: True if the frequencies are in turns: a turn is then 1, not 2π.
        bits: The bits after the point of the result.
    """
    turn = 1 << frequencies.bits
    if not in_turns:
        turn = 2 * numerics.pi(frequencies.bits)
    divisor = turn * scale.denominator
    return tuple(((value * scale.numerator) << bits) // divisor for value in frequencies.values)


class _FixedPointAmplitude(NamedTuple):
    """An amplitude value / 2**bits, and the units by which the value may be off."""

    value: int
    bits: int
    error: int


def _fixed_point_amplitude(amplitude: Amplitude) -> _FixedPointAmplitude:
    """Return an amplitude as an integer over a power of two, and how far it may be off.

    1.5 is exact. 1/10 is rounded to the nearest integer, and may be off by one. An irrational
    number such as 1 + ln(4)/10, which YaRN multiplies cosines by, is given as a function from bits
    to an integer, which may be off by a few.
    """
    bits = _AMPLITUDE_BITS + numerics.extra_bits.get()
    if callable(amplitude):
        return _FixedPointAmplitude(amplitude(bits), bits, _FUNCTION_ERROR)
    value = numerics.fixed(Fraction(amplitude), bits)
    is_exact = Fraction(value, 1 << bits) == amplitude
    return _FixedPointAmplitude(value, bits, 0 if is_exact else 1)


class Directions(NamedTuple):
    """Cosines and sines of the same angles."""

    cosines: DoubleDouble
    sines: DoubleDouble

    def part(self, row: int, width: int) -> Directions:
        """Return the first directions of one row, if they are (rows, waves)."""
        return Directions(self.cosines[row, :width], self.sines[row, :width])


@cache
def sectors() -> Directions:
    """Return the cosines and sines of 257 angles in equal steps, from 0 to a whole turn.

    Each is a sum of two float64 numbers, of about 106 bits. Only a quarter of the circle is
    computed: cos(a + 90°) = −sin a, and sin(a + 90°) = cos a.
    """
    bits = 160  # `numerics.cos_sin` takes and returns integers over 2**bits.
    angles_in_turns = [(sector << bits) // SECTORS for sector in range(SECTORS // 4)]
    first_quarter = [numerics.cos_sin(angle, bits) for angle in angles_in_turns]
    # (2, 64): the first row has the numbers in float64, the second one what these lack.
    cosines = _high_and_low([cosine for cosine, _ in first_quarter], bits)
    sines = _high_and_low([sine for _, sine in first_quarter], bits)
    all_cosines = [cosines, -sines, -cosines, sines, cosines[:, :1]]
    all_sines = [sines, cosines, -sines, -cosines, sines[:, :1]]
    return Directions(_joined_quarters(all_cosines), _joined_quarters(all_sines))


def _joined_quarters(quarters: list[Floats]) -> DoubleDouble:
    """Return numbers (2, n) of all quarters of the circle as sums of high and low parts."""
    # Adding 0.0 turns −0 into 0.
    high, low = 0.0 + np.concatenate(quarters, axis=1)
    return DoubleDouble(high, low)


def _high_and_low(values: list[int], bits: int) -> Floats:
    """Return fixed-point numbers as an array (2, n) of high and low parts."""
    numbers = [DoubleDouble.fixed(value, bits) for value in values]
    return np.array([[number.hi for number in numbers], [number.lo for number in numbers]])


_TURN = DoubleDouble.fixed(2 * numerics.pi(200), 200)
"""A turn in radians, 2π."""
_RADIANS_PER_DIGIT_UNIT = 2.0**-32 * float(_TURN.hi)
"""Radians in 2**-32 turns, the unit of the highest digit of a fraction of a turn."""


def _reciprocal(number: int) -> DoubleDouble:
    return DoubleDouble.fixed((1 << 200) // number, 200)


_1_OVER_2 = _reciprocal(2)
_1_OVER_6 = _reciprocal(6)
_1_OVER_24 = _reciprocal(24)
_1_OVER_120 = _reciprocal(120)


def _nearest_sector(highest_digit: Ints) -> tuple[Indices, Floats]:
    """Return the nearest of 256 sectors of the circle, and the distance of an angle from it.

    The angle is given as the first 32 bits of a fraction of a turn, and so is the distance. 0.1
    turns are 25.6 sectors, that is sector 26 and a distance of −0.4 sectors, −0.4 · 2**24.
    """
    half_sectors = highest_digit >> (_SECTOR_SHIFT - np.uint64(1))
    sector = (half_sectors + np.uint64(1)) >> np.uint64(1)  # rounded to the nearest
    start_of_sector = sector << _SECTOR_SHIFT
    distance = highest_digit.astype(np.int64) - start_of_sector.astype(np.int64)
    return sector.astype(np.intp), distance.astype(np.float64)


def _multiply_digits(frequency_digits: Ints, positions: Ints) -> list[Ints]:
    """Return the digits of frequency · position after the point, in base 2**32, lowest first.

    This is long multiplication. A position has up to two digits, and is multiplied by the low one,
    then by the high one, if there is any. No step overflows 64 bits: a digit times a digit, plus a
    digit, plus a carry is at most (2**32 − 1)² + 2·(2**32 − 1) = 2**64 − 1. Carries out of the
    highest digit are whole turns and are dropped.

    Args:
        frequency_digits: The digits of the frequencies after the point (digits, …), lowest first.
        positions: Positions that broadcast against the digits.
    """
    product: list[Ints] = []
    low_digit = positions & _LOW_DIGIT
    carry: Ints | np.uint64 = np.uint64(0)
    for digit in frequency_digits:
        total = digit * low_digit + carry
        product.append(total & _LOW_DIGIT)
        carry = total >> _DIGIT_BITS
    high_digit = positions >> _DIGIT_BITS
    if high_digit.any():
        # Its products are one digit higher, and that of the highest one is whole turns.
        carry = np.uint64(0)
        for place, digit in enumerate(frequency_digits[:-1], 1):
            total = digit * high_digit + product[place] + carry
            product[place] = total & _LOW_DIGIT
            carry = total >> _DIGIT_BITS
    return product


def cos_sin(frequency_digits: Ints, positions: Ints) -> tuple[Floats, Floats]:
    """Return the cosines and sines of position · frequency in float64.

    An angle is a + x: a is the nearest of 256 sectors of the circle, whose cosines and sines are in
    a table, and x is a small rest. Position 7 of the frequency 0.3 turns is at 2.1 turns, or 0.1
    without the whole turns: sector 26, which is at 26/256 = 0.1016 turns, and x = −0.0016 turns.

    The results are within 0.6·2**-53 absolutely, and within 2**-51.5 of the value itself.

    Args:
        frequency_digits: The frequencies in turns per position: their digits after the point in
            base 2**32, lowest first (digits, …).
        positions: Positions that broadcast against the digits.
    """
    # Float64 does not need the lowest digit of a frequency.
    digits_of_angles = _multiply_digits(frequency_digits[_SPARE_DIGITS:], positions)
    sector, x = _sector_and_rest(digits_of_angles)
    sector_cosines, sector_sines = sectors()
    return _add_small_angle(sector_cosines[sector], sector_sines[sector], x)


def _sector_and_rest(digits_of_angles: list[Ints]) -> tuple[Indices, Floats]:
    """Return the nearest of 256 sectors of the circle to each angle, and the radians from it.

    0.1 turns are 25.6 sectors: that is sector 26, and −0.4 sectors or −0.0098 radians.

    Args:
        digits_of_angles: Angles in turns: their digits after the point in base 2**32, lowest first.
    """
    *lower_digits, highest_digit = digits_of_angles
    sector, distance = _nearest_sector(highest_digit)
    return sector, _add_lower_digits(distance, lower_digits) * _RADIANS_PER_DIGIT_UNIT


def _add_small_angle(cos_a: DoubleDouble, sin_a: DoubleDouble, x: Floats) -> tuple[Floats, Floats]:
    """Return cos(a + x) and sin(a + x) in float64, for |x| ≤ π/256.

    By the addition theorem, cos(a + x) = cos a + (cos a · (cos x − 1) − sin a · sin x). The terms
    in brackets are small, and so are their rounding errors. Added to them is `lo`, the digits of
    cos a that float64 does not have; `hi`, the float64 number itself, comes last.
    """
    sin_x, cos_x_minus_1 = _small_angle(x)
    cosines = cos_a.hi + (cos_a.lo + (cos_a.hi * cos_x_minus_1 - sin_a.hi * sin_x))
    sines = sin_a.hi + (sin_a.lo + (sin_a.hi * cos_x_minus_1 + cos_a.hi * sin_x))
    return cosines, sines


def _add_lower_digits(distance: Floats, lower_digits: list[Ints]) -> Floats:
    """Return a distance, an integer, plus the digits after its point, in base 2**32.

    The distance −1 and the digits 0 and 2**31, lowest first, are −1 + 2**31 · 2**-32 = −0.5.

    The highest digit is added first: just below a sector, the distance is −1 and the digits add up
    to almost 1, so that the sum is tiny and has to keep all of its bits.
    """
    unit = 1.0
    for digit in reversed(lower_digits):
        unit *= 2.0**-32
        distance = distance + digit * unit
    return distance


def _small_angle(x: Floats) -> tuple[Floats, Floats]:
    """Return sin x and cos x − 1 for |x| ≤ π/256, by the series in z = x².

        sin x = x + x·z·(−1/3! + z/5! − z²/7! …), cos x − 1 = z·(−1/2! + z/4! − z²/6! + z³/8! …)

    The first terms that are left out, x⁹/9! and x¹⁰/10!, are below 2**-75.
    """
    z = x * x
    sine = x + x * z * (-1 / 6 + z * (1 / 120 - z * (1 / 5040)))
    cosine_minus_1 = z * (-1 / 2 + z * (1 / 24 - z * (1 / 720 - z * (1 / 40320))))
    return sine, cosine_minus_1


def directions(frequency_digits: Ints, positions: Ints) -> Complex:
    """Return cos + i·sin for rows of positions (n, 1) or (n, waves)."""
    waves = frequency_digits.shape[-1]
    out = np.empty((len(positions), waves), np.complex128)
    step = max(1, _CHUNK // waves)
    for start in range(0, len(out), step):
        chunk = out[start : start + step]
        chunk.real, chunk.imag = cos_sin(frequency_digits, positions[start : start + step])
    return out


def cos_sin_double_double(frequency_digits: Ints, positions: Ints) -> Directions:
    """Return the cosines and sines of position · frequency to about 98 bits, also of tiny values.

    An angle is a + x: a is the nearest of 256 sectors of the circle, whose cosines and sines are in
    a table, and x is a small rest. Position 7 of the frequency 0.3 turns is at 2.1 turns, or 0.1
    without the whole turns: sector 26, which is at 26/256 = 0.1016 turns, and x = −0.0016 turns.

    Args:
        frequency_digits: The frequencies in turns per position: their digits after the point in
            base 2**32, lowest first (digits, …).
        positions: Positions that broadcast against the digits.
    """
    digits_of_angles = _multiply_digits(frequency_digits, positions)
    sector, x = _sector_and_rest_double_double(digits_of_angles)
    sector_cosines, sector_sines = sectors()
    return _add_small_angle_double_double(sector_cosines[sector], sector_sines[sector], x)


def _sector_and_rest_double_double(digits_of_angles: list[Ints]) -> tuple[Indices, DoubleDouble]:
    """Return what `_sector_and_rest` does, the radians as a sum of two float64 numbers."""
    *lower_digits, highest_digit = digits_of_angles
    sector, distance = _nearest_sector(highest_digit)
    return sector, _turns_from_sector(distance, lower_digits) * _TURN


def _add_small_angle_double_double(
    cos_a: DoubleDouble, sin_a: DoubleDouble, x: DoubleDouble
) -> Directions:
    """Return cos(a + x) and sin(a + x), for |x| ≤ π/256.

    By the addition theorem, cos(a + x) = cos a + (cos a · (cos x − 1) − sin a · sin x). The terms
    in brackets are small, and so are their errors. The operators of double-doubles, sums of two
    float64 numbers, keep about 104 bits.
    """
    sin_x, cos_x_minus_1 = _small_angle_double_double(x)
    cosines = cos_a + (cos_a * cos_x_minus_1 - sin_a * sin_x)
    sines = sin_a + (sin_a * cos_x_minus_1 + cos_a * sin_x)
    return Directions(cosines, sines)


def _turns_from_sector(distance: Floats, lower_digits: list[Ints]) -> DoubleDouble:
    """Return distance · 2**-32 + digit · 2**-64 + digit · 2**-96 + …, to about 106 bits.

    It is an angle, in turns, from the nearest of 256 directions. The distance −1 with the digit
    2**31, which is a half, is −1/2 · 2**-32.

    Args:
        distance: The whole number of 2**-32 turns, which may be negative.
        lower_digits: The digits after its point in base 2**32. The last one is the highest, and
            counts 2**-64.
    """
    unit = 2.0**-32
    rounded_total = distance * unit
    lost_by_rounding = np.zeros_like(rounded_total)
    for digit in reversed(lower_digits):  # from the highest on
        unit *= 2.0**-32
        # `hi` is the sum rounded to float64, and `lo` what it lost, at most 2**-53 of it.
        total = exact_sum(rounded_total, digit.astype(np.float64) * unit)
        rounded_total = total.hi
        lost_by_rounding += total.lo
    # The losses were rounded as well, by 2**-53 of 2**-53 of the sum: 106 bits are right.
    return exact_sum(rounded_total, lost_by_rounding)


def _small_angle_double_double(x: DoubleDouble) -> tuple[DoubleDouble, DoubleDouble]:
    """Return sin x and cos x − 1 for |x| ≤ π/256, by the series in z = x².

        sin x = x + x·z·(−1/3! + z/5! − z²/7! …), cos x − 1 = z·(−1/2! + z/4! − z²/6! …)

    z is below 2**-12, so that the terms from z²/7! and z²/6! on, the tails, are small and 53 bits
    of them suffice.
    """
    z = x * x
    sine_tail = z.hi * (-1 / 5040 + z.hi * (1 / 362880 + z.hi * (-1 / 39916800)))
    sine_series = -_1_OVER_6 + z * (_1_OVER_120 + DoubleDouble.plain(sine_tail))
    cosine_tail = z.hi * (
        -1 / 720 + z.hi * (1 / 40320 + z.hi * (-1 / 3628800 + z.hi * (1 / 479001600)))
    )
    cosine_series = -_1_OVER_2 + z * (_1_OVER_24 + DoubleDouble.plain(cosine_tail))
    return x + x * (z * sine_series), z * cosine_series
