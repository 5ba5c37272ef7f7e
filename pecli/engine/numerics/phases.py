"""Exact angles: where on the circle is position p of each wave, and its cosine and sine, correctly rounded.

p·θ in float64 loses a digit for every digit of p. Here the frequencies are kept in turns, as integers of 160 bits or
more; the product with p is exact, whole turns fall off, and the rest is rounded once.

Where a rounding is in doubt, more digits are computed until there is none (Ziv, 1991). The values are sines and
cosines of algebraic numbers, never halfway between two floats, so that ends; sin 0 = 0 and cos 0 = 1 are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Array, Flags, Floats, Indices, Ints, numpy_dtype
from pecli.engine.numerics import DoubleDouble, Frequencies, bits_for, exact_sum, round_double_double, undecided

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
SECTORS = 256  #: the circle is cut into this many sectors; a table holds their directions, a short series does the rest

_SPARE_DIGITS = 1
"""Digits at the low end that the 53 bits of a plain cosine can do without; 88 of 120 guard bits are left."""

PRODUCT_ERROR = 2.0**-91  #: the relative error of `cos_sin_double_double`; 2**-98 by analysis, with a margin


TILE = 1 << 15  #: waves × rows of a tile: half of a second-level cache of 1 MiB in complex128


@dataclass(eq=False)
class Waves:
    """Frequencies in turns per position, each an integer over 2**bits, and the amplitude they share.

    This is all that rotating tables needs to know of a scheme: scalings act on `turns` and `amplitude` before they
    come here.
    """

    turns: tuple[int, ...]
    bits: int
    amplitude: int
    amplitude_bits: int
    amplitude_error: int
    more: Callable[[int], Waves]  #: the same waves with that many bits more

    @classmethod
    def of(
        cls,
        frequencies: Frequencies,
        *,
        scale: float | Fraction = 1.0,
        amplitude: Fraction | float | Callable[[int], int] = 1.0,
        extra: int = 0,
        in_turns: bool = False,
    ) -> Waves:
        """The waves with these frequencies over positions times `scale`; in radians per position unless `in_turns`.

        An amplitude that is not a fraction is given as a function: to so many bits after the point, as an integer.
        """
        smallest = min((value for value in frequencies.values if value), default=1) / (1 << frequencies.bits)
        bits = bits_for(smallest * float(scale) / 8) + extra
        numerator, denominator = scale.as_integer_ratio()
        turn = (1 << frequencies.bits if in_turns else 2 * numerics.pi(frequencies.bits)) * denominator
        turns = tuple(((value * numerator) << bits) // turn for value in frequencies.values)
        places = _AMPLITUDE_BITS + extra
        height = amplitude(places) if callable(amplitude) else numerics.fixed(Fraction(amplitude), places)
        error = 4 if callable(amplitude) else int(Fraction(height, 1 << places) != amplitude)

        def more(extra: int) -> Waves:
            return cls.of(frequencies.more(extra), scale=scale, amplitude=amplitude, extra=extra, in_turns=in_turns)

        return cls(turns, bits, height, places, error, more)

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
    quarter = [numerics.cos_sin((sector << bits) // SECTORS, bits) for sector in range(SECTORS // 4)]
    numbers = [[DoubleDouble.fixed(value, bits) for value in pair] for pair in quarter]
    c, s = np.array([[(number.hi, number.lo) for number in pair] for pair in numbers]).transpose(1, 2, 0)
    cosines = 0.0 + np.concatenate([c, -s, -c, s, c[:, :1]], axis=1)  # without negative zeros
    sines = 0.0 + np.concatenate([s, c, -s, -c, s[:, :1]], axis=1)
    return DoubleDouble(*cosines), DoubleDouble(*sines)


_TURN = DoubleDouble.fixed(2 * numerics.pi(200), 200)
_INVERSE = {n: DoubleDouble.fixed((1 << 200) // n, 200) for n in (2, 6, 24, 120)}


def _reduce(limbs: Ints, positions: Ints) -> tuple[Indices, DoubleDouble]:
    """position · frequency modulo one turn: the nearest sector, and the turns from its direction."""
    digits = _multiply(limbs, positions)
    sector, beyond = _sector(digits[-1])
    hi: Floats = beyond * 2.0**-32
    lo = np.zeros_like(hi)
    scale = 2.0**-32
    for digit in reversed(digits[:-1]):
        scale *= 2.0**-32
        total = exact_sum(hi, digit.astype(np.float64) * scale)
        hi = total.hi
        lo += total.lo
    return sector, exact_sum(hi, lo)


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
    """Cosines and sines of position · frequency, within 0.6·2**-53, and within 2**-51.5 of the value itself.

    `limbs` (digits, …) and `positions` broadcast against each other.
    """
    digits = _multiply(limbs[_SPARE_DIGITS:], positions)
    sector, beyond = _sector(digits[-1])
    scale = 1.0
    for digit in reversed(digits[:-1]):  # from the top: where beyond is −1 and the rest almost 1, nothing may be lost
        scale *= 2.0**-32
        beyond = beyond + digit * scale
    cosines, sines = sectors()
    x = beyond * (2.0**-32 * float(_TURN.hi))
    z = x * x
    sine = x + x * z * (-1 / 6 + z * (1 / 120 - z * (1 / 5040)))
    versine = z * (-1 / 2 + z * (1 / 24 - z * (1 / 720 - z * (1 / 40320))))  # cos x − 1
    c, c_low, s, s_low = cosines.hi[sector], cosines.lo[sector], sines.hi[sector], sines.lo[sector]
    return c + (c_low + (c * versine - s * sine)), s + (s_low + (s * versine + c * sine))


def cos_sin_double_double(limbs: Ints, positions: Ints) -> tuple[DoubleDouble, DoubleDouble]:
    """The same to about 98 bits, relative to the value itself even where it is close to zero."""
    sector, turns = _reduce(limbs, positions)
    sine, versine = _series(turns * _TURN)
    cosines, sines = sectors()
    c, s = cosines[sector], sines[sector]
    return c + (c * versine - s * sine), s + (s * versine + c * sine)


def _series(x: DoubleDouble) -> tuple[DoubleDouble, DoubleDouble]:
    """sin x and cos x − 1 for |x| ≤ π/256: the first terms in 106 bits, the small ones in 53."""
    z = x * x
    tail = z.hi * (-1 / 5040 + z.hi * (1 / 362880 + z.hi * (-1 / 39916800)))
    sine = x + x * (z * (-_INVERSE[6] + z * (_INVERSE[120] + DoubleDouble.plain(tail))))
    tail = z.hi * (-1 / 720 + z.hi * (1 / 40320 + z.hi * (-1 / 3628800 + z.hi * (1 / 479001600))))
    return sine, z * (-_INVERSE[2] + z * (_INVERSE[24] + DoubleDouble.plain(tail)))


_MAX_BITS = 1 << 16  #: bits more than usual at which deciding a rounding is given up
_AMPLITUDE_BITS = 200

FLOAT64_ERROR = 2.0**-50  #: the relative error of amplitude · `cos_sin`; 2**-51.5 by analysis


def round_waves(waves: Waves, positions: Ints, columns: Indices, sine: Flags, dtype: str) -> Array:
    """amplitude · sin or cos (where `sine` says so) of the given waves at the given positions, correctly rounded."""
    out = np.empty(len(positions), numpy_dtype(dtype))
    limbs = waves.limbs[:, columns]
    cosines, sines = cos_sin(limbs, positions)
    value = DoubleDouble.plain(np.where(sine, sines, cosines)) * waves.factor
    out[...] = round_double_double(value, dtype)
    open_ = np.flatnonzero(undecided(value, FLOAT64_ERROR * np.abs(value.hi), dtype))
    if open_.size:
        cosine, sine_ = cos_sin_double_double(limbs[:, open_], positions[open_])
        hi, lo = np.where(sine[open_], sine_.hi, cosine.hi), np.where(sine[open_], sine_.lo, cosine.lo)
        value = DoubleDouble(hi, lo) * waves.factor
        out[open_] = round_double_double(value, dtype)
        open_ = open_[undecided(value, PRODUCT_ERROR * np.abs(value.hi), dtype)]
    for k in open_:
        out[k] = _by_integers(waves, int(positions[k]), int(columns[k]), bool(sine[k]), dtype)
    return out


def _by_integers(waves: Waves, position: int, column: int, sine: bool, dtype: str) -> float:
    """The last resort, in integers of as many bits as it takes."""
    extra = 0
    while extra <= _MAX_BITS:
        finer = waves.more(extra) if extra else waves
        low, high = (
            numerics.round_fixed(bound, scale, dtype) for bound, scale in _bounds(finer, position, column, sine)
        )
        if low == high:
            return low
        extra = 2 * extra + finer.bits
    raise ArithmeticError(f"{extra} bits more do not decide how position {position} of wave {column} rounds")


def _bounds(waves: Waves, position: int, column: int, sine: bool) -> Iterator[tuple[int, int]]:
    """Two fixed-point numbers, with their bits, that the value lies between.

    The frequency is off by less than one unit, so the angle by less than 7·position units; near the top of a wave
    that hardly moves the value.
    """
    bits, work = waves.bits, 2 * waves.bits
    turns = position * waves.turns[column] % (1 << bits)
    cosine, sine_ = numerics.cos_sin(turns << bits, work)
    value, steepness = (sine_, cosine) if sine else (cosine, sine_)
    error = (abs(steepness) * 7 * (position + 1) >> bits) + (8 * (position + 1)) ** 2 if turns else 0
    for way in (-1, 1):
        bound = (value + way * error) * waves.amplitude + way * (abs(value) + error) * waves.amplitude_error
        yield bound, work + waves.amplitude_bits
