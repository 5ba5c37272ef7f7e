"""Exact angles: where on the circle is position p of each wave, and its cosine and sine, correctly rounded.

p·θ in float64 loses a digit for every digit of p. Here the frequencies are kept in turns, as integers of 160 bits or
more; the product with p is exact, whole turns fall off, and the rest is rounded once.

Where a rounding is in doubt, more digits are computed until there is none (Ziv, 1991). The values are sines and
cosines of algebraic numbers, never halfway between two floats, so that ends; sin 0 = 0 and cos 0 = 1 are exact.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Array, Complex, Flags, Floats, Indices, Ints
from pecli.engine.numerics import (
    DoubleDouble,
    Frequencies,
    bits_for,
    exact_sum,
    round_double_double,
    undecided,
)

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
SECTORS = 256  #: the circle is cut into this many sectors; a table holds their directions, a short series does the rest

_SPARE_DIGITS = 1
"""Digits at the low end that the 53 bits of a plain cosine can do without; 88 of 120 guard bits are left."""

_AMPLITUDE_BITS = 200
_MAX_EXTRA_BITS = 1 << 16  #: at which deciding a rounding is given up
PRODUCT_ERROR = (
    2.0**-91
)  #: the relative error of `cos_sin_double_double`; 2**-98 by analysis, with a margin
_MIN_PRODUCT = (
    2.0**-800
)  #: below which the low part of amplitude · `cos_sin_double_double` may underflow
_CHUNK = 1 << 12  #: elements of `directions` that are computed at once
TILE = 1 << 15  #: waves × rows of a tile: half of a second-level cache of 1 MiB in complex128


@dataclass(eq=False)
class Waves:
    """Frequencies in turns per position, each an integer over 2**bits, and the amplitude they share, after scaling."""

    turns: tuple[int, ...]
    bits: int
    amplitude: int  #: over 2**amplitude_bits, and how many units it may be off by
    amplitude_bits: int
    amplitude_error: int

    @classmethod
    def of(
        cls, frequencies: Frequencies, *, scale: float | Fraction = 1.0, in_turns: bool = False,
        amplitude: Fraction | float | Callable[[int], int] = 1.0,
    ) -> "Waves":  # fmt: skip
        """The waves with these frequencies over positions times `scale`; in radians per position unless `in_turns`. An
        amplitude that is not a fraction is given as a function: to so many bits after the point, as an integer."""
        smallest = min((value for value in frequencies.values if value), default=1) / (
            1 << frequencies.bits
        )
        bits = bits_for(smallest * float(scale) / 8)
        numerator, denominator = scale.as_integer_ratio()
        turn = (
            1 << frequencies.bits if in_turns else 2 * numerics.pi(frequencies.bits)
        ) * denominator
        turns = tuple(((value * numerator) << bits) // turn for value in frequencies.values)
        places = _AMPLITUDE_BITS + numerics.extra_bits.get()
        if callable(amplitude):
            return cls(turns, bits, amplitude(places), places, 4)
        height = numerics.fixed(Fraction(amplitude), places)
        return cls(turns, bits, height, places, int(Fraction(height, 1 << places) != amplitude))

    @cached_property
    def limbs(self) -> Ints:
        """The fractions of the frequencies as 32-bit digits, lowest first: (digits, waves)."""
        size = self.bits // 8
        mask = (1 << self.bits) - 1
        packed = b"".join((turn & mask).to_bytes(size, "little") for turn in self.turns)
        digits = np.frombuffer(packed, "<u4").reshape(len(self.turns), size // 4)
        return np.ascontiguousarray(digits.T).astype(np.uint64)

    @cached_property
    def factor(self) -> DoubleDouble:
        return DoubleDouble.fixed(self.amplitude, self.amplitude_bits)


@cache
def sectors() -> tuple[DoubleDouble, DoubleDouble]:
    """Cosines and sines of the sectors' directions; a quarter of the circle is computed."""
    bits = 160
    quarter = [
        numerics.cos_sin((sector << bits) // SECTORS, bits) for sector in range(SECTORS // 4)
    ]
    numbers = [[DoubleDouble.fixed(value, bits) for value in pair] for pair in quarter]
    c, s = np.array([[(number.hi, number.lo) for number in pair] for pair in numbers]).transpose(
        1, 2, 0
    )
    cosines = 0.0 + np.concatenate([c, -s, -c, s, c[:, :1]], axis=1)  # without negative zeros
    sines = 0.0 + np.concatenate([s, c, -s, -c, s[:, :1]], axis=1)
    return DoubleDouble(*cosines), DoubleDouble(*sines)


_TURN = DoubleDouble.fixed(2 * numerics.pi(200), 200)
_INVERSE = {n: DoubleDouble.fixed((1 << 200) // n, 200) for n in (2, 6, 24, 120)}


def _sector(digit: Ints) -> tuple[Indices, Floats]:
    """The sector nearest to a fraction, given its highest digit, and how far the digit is beyond it."""
    sector = ((digit >> np.uint64(23)) + np.uint64(1)) >> np.uint64(1)
    beyond = digit.astype(np.int64) - (sector << np.uint64(24)).astype(np.int64)
    return sector.astype(np.intp), beyond.astype(np.float64)


def _multiply(limbs: Ints, positions: Ints) -> list[Ints]:
    """The digits of limbs · positions, without those above the point."""
    product: list[Ints] = []
    low, high = positions & _LOW, positions >> _32
    carry: Ints | np.uint64 = np.uint64(0)
    for limb in limbs:
        step = limb * low + carry
        product.append(step & _LOW)
        carry = step >> _32
    if high.any():
        carry = np.uint64(0)
        for place, limb in enumerate(limbs[:-1], 1):
            step = limb * high + product[place] + carry
            product[place] = step & _LOW
            carry = step >> _32
    return product


def cos_sin(limbs: Ints, positions: Ints) -> tuple[Floats, Floats]:
    """Cosines and sines of position · frequency, within 0.6·2**-53, and within 2**-51.5 of the value itself; `limbs`
    (digits, …) and `positions` broadcast against each other."""
    digits = _multiply(limbs[_SPARE_DIGITS:], positions)
    sector, beyond = _sector(digits[-1])
    scale = 1.0
    for digit in reversed(
        digits[:-1]
    ):  # from the top: where beyond is −1 and the rest almost 1, nothing may be lost
        scale *= 2.0**-32
        beyond = beyond + digit * scale
    cosines, sines = sectors()
    x = beyond * (2.0**-32 * float(_TURN.hi))
    z = x * x
    sine = x + x * z * (-1 / 6 + z * (1 / 120 - z * (1 / 5040)))
    versine = z * (-1 / 2 + z * (1 / 24 - z * (1 / 720 - z * (1 / 40320))))  # cos x − 1
    c, c_low, s, s_low = cosines.hi[sector], cosines.lo[sector], sines.hi[sector], sines.lo[sector]
    return c + (c_low + (c * versine - s * sine)), s + (s_low + (s * versine + c * sine))


def directions(limbs: Ints, positions: Ints) -> Complex:
    """cos + i·sin of rows of positions (n, 1) or (n, waves), few rows at once: arrays stay in the first-level cache."""
    out = np.empty((len(positions), limbs.shape[-1]), np.complex128)
    step = max(1, _CHUNK // limbs.shape[-1])
    for row in range(0, len(out), step):
        part = out[row : row + step]
        part.real, part.imag = cos_sin(limbs, positions[row : row + step])
    return out


def cos_sin_double_double(limbs: Ints, positions: Ints) -> tuple[DoubleDouble, DoubleDouble]:
    """The same to about 98 bits, relative to the value itself even where it is close to zero."""
    digits = _multiply(limbs, positions)
    sector, beyond = _sector(digits[-1])
    hi, scale = beyond * 2.0**-32, 2.0**-32
    lo = np.zeros_like(hi)
    for digit in reversed(digits[:-1]):
        scale *= 2.0**-32
        total = exact_sum(hi, digit.astype(np.float64) * scale)
        hi = total.hi
        lo += total.lo
    x = exact_sum(hi, lo) * _TURN
    z = x * x  # of the series, the first terms have 106 bits, the small ones 53
    tail = z.hi * (-1 / 5040 + z.hi * (1 / 362880 + z.hi * (-1 / 39916800)))
    sine = x + x * (z * (-_INVERSE[6] + z * (_INVERSE[120] + DoubleDouble.plain(tail))))
    tail = z.hi * (-1 / 720 + z.hi * (1 / 40320 + z.hi * (-1 / 3628800 + z.hi * (1 / 479001600))))
    versine = z * (-_INVERSE[2] + z * (_INVERSE[24] + DoubleDouble.plain(tail)))
    cosines, sines = sectors()
    c, s = cosines[sector], sines[sector]
    return c + (c * versine - s * sine), s + (s * versine + c * sine)


FLOAT64_ERROR = 2.0**-50  #: the relative error of amplitude · `cos_sin`; 2**-51.5 by analysis


def round_waves(
    waves: Waves,
    make: Callable[[], Waves],
    positions: Ints,
    columns: Indices,
    sine: Flags,
    dtype: str,
) -> Array:
    """amplitude · sin or cos (where `sine` says so) of the given waves at the given positions, correctly rounded.
    `make` makes the same waves again, with more bits where these do not decide."""
    limbs, relative_error = waves.limbs[:, columns], FLOAT64_ERROR
    if dtype == "float64":
        cosine, sine_ = cos_sin_double_double(limbs, positions)
        relative_error = PRODUCT_ERROR
    else:
        cosine, sine_ = map(DoubleDouble.plain, cos_sin(limbs, positions))
    value = (
        DoubleDouble(np.where(sine, sine_.hi, cosine.hi), np.where(sine, sine_.lo, cosine.lo))
        * waves.factor
    )
    out, size = round_double_double(value, dtype), np.abs(value.hi)
    doubtful = undecided(value, relative_error * size, dtype)
    if dtype == "float64":
        doubtful |= (size < _MIN_PRODUCT) & (positions > 0)
    for k in np.flatnonzero(doubtful):
        place = int(positions[k]), int(columns[k]), bool(sine[k])
        finer, extra = waves, 0
        while (number := _by_integers(finer, *place, dtype)) is None:
            extra = 2 * extra + waves.bits
            if extra > _MAX_EXTRA_BITS:
                raise ArithmeticError(
                    f"{extra} more bits do not say how position {place[0]} of wave {place[1]} rounds"
                )
            before = numerics.extra_bits.set(extra)
            try:
                finer = make()  # which may keep nothing that it made
            finally:
                numerics.extra_bits.reset(before)
        out[k] = number
    return out


def _by_integers(waves: Waves, position: int, column: int, sine: bool, dtype: str) -> float | None:
    """The last resort: two numbers that the value lies between, in integers; None where they do not round alike.

    The frequency is off by less than one unit, so the angle by less than 7·position units; near the top of a wave
    that hardly moves the value. Quarters of a turn are exact.
    """
    bits, work = waves.bits, 2 * waves.bits
    turns = position * waves.turns[column] % (1 << bits)
    cosine, sine_ = numerics.cos_sin(turns << bits, work)
    value, steepness = (sine_, cosine) if sine else (cosine, sine_)
    error = (
        (abs(steepness) * 7 * (position + 1) >> bits) + (8 * (position + 1)) ** 2
        if turns % (1 << bits - 2)
        else 0
    )
    slack = error * waves.amplitude + (abs(value) + error) * waves.amplitude_error
    bounds = (value * waves.amplitude - slack, value * waves.amplitude + slack)
    low, high = (
        numerics.round_fixed(bound, work + waves.amplitude_bits, dtype) for bound in bounds
    )
    return high if low == high else None
