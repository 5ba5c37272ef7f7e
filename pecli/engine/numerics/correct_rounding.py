"""Single elements of tables, correctly rounded however close they are to a tie.

A value with a known error bound decides its rounding unless a tie between two floats lies within
the bound. Then more digits are computed until it does not (Ziv, 1991). That ends: sines and
cosines of algebraic numbers are never exactly halfway between two floats, except at angle 0,
whose values are exact here.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Array, Flags, Indices, Ints
from pecli.engine.numerics import DoubleDouble, phases, round_double_double, undecided
from pecli.engine.numerics.phases import ExactWaves

_MAX_EXTRA_BITS = 1 << 16
"""Bits after which deciding a rounding is given up."""
_MIN_PRODUCT = 2.0**-800
"""Size below which the low part of a product of 106 bits may underflow."""
_RADIANS_PER_TURN = 7
"""2π, rounded up, for bounds of errors."""


class Element(NamedTuple):
    """One element of a table."""

    position: int
    wave: int
    is_sine: bool


def rounded_elements(
    waves: ExactWaves,
    make_waves: Callable[[], ExactWaves],
    positions: Ints,
    wave_indices: Indices,
    is_sine: Flags,
    dtype: str,
) -> Array:
    """Return amplitude · sin or cos of position · frequency, correctly rounded, for some elements.

    All elements are computed with a small error and rounded. The few whose error could change the
    rounding are computed again, with as many bits as that takes.

    Positions, wave indices and `is_sine` broadcast against each other: for a whole table they are
    (rows, 1), (1, waves) and (1, 1).

    Args:
        waves: The frequencies of the table, and the amplitude.
        make_waves: Makes the same waves with more bits; only called for elements that need them.
        positions: The position of each element.
        wave_indices: The index of each element's frequency.
        is_sine: True for each element that is a sine, False for a cosine.
        dtype: The dtype of the result.
    """
    values = _values_before_rounding(waves, positions, wave_indices, is_sine, dtype)
    out = round_double_double(values, dtype)
    all_positions, all_waves, all_is_sine = np.broadcast_arrays(positions, wave_indices, is_sine)
    for indices in np.argwhere(_may_be_wrong(values, positions, dtype)):
        place = tuple(indices)
        element = Element(
            position=int(all_positions[place]),
            wave=int(all_waves[place]),
            is_sine=bool(all_is_sine[place]),
        )
        out[place] = _round_with_enough_bits(element, waves, make_waves, dtype)
    return out


def _may_be_wrong(values: DoubleDouble, positions: Ints, dtype: str) -> Flags:
    """Return True for values whose error leaves two roundings to the dtype possible.

    The error is at most 2**-91 of a value for float64, and 2**-50 for narrower dtypes, for which
    values are computed with fewer bits.
    """
    magnitudes = np.abs(values.hi)
    if dtype != "float64":
        return undecided(values, phases.FLOAT64_ERROR * magnitudes, dtype)
    in_doubt = undecided(values, phases.PRODUCT_ERROR * magnitudes, dtype)
    # A value is a sum of two float64 numbers, high and low. The low part of a tiny one underflows,
    # so that the bound fails. At position 0, values are exact.
    underflows = (magnitudes < _MIN_PRODUCT) & (positions > 0)
    return in_doubt | underflows


def _values_before_rounding(
    waves: ExactWaves, positions: Ints, wave_indices: Indices, is_sine: Flags, dtype: str
) -> DoubleDouble:
    """Return amplitude · sin or cos of position · frequency, with more bits than the dtype has.

    For float64, each value is a sum of two float64 numbers, of which about 98 bits are right. For
    narrower dtypes, it is one float64 number, of which 51 bits are right.

    Args:
        waves: The frequencies of the table, and the amplitude.
        positions: The position of each element; (rows, 1) for a whole table.
        wave_indices: The index of each element's frequency; (1, waves) for a whole table.
        is_sine: True for each element that is a sine, False for a cosine.
        dtype: The dtype that the values will be rounded to.
    """
    # A frequency is a fraction of a turn, which is stored as several integers of 32 bits.
    frequency_digits = waves.digits[:, wave_indices]
    if dtype == "float64":
        precise_cosines, precise_sines = phases.cos_sin_double_double(frequency_digits, positions)
        values = numerics.where(is_sine, precise_sines, precise_cosines)
    else:
        cosines, sines = phases.cos_sin(frequency_digits, positions)
        values = DoubleDouble.plain(np.where(is_sine, sines, cosines))
    return values * waves.amplitude_factor


def _round_with_enough_bits(
    element: Element, waves: ExactWaves, make_waves: Callable[[], ExactWaves], dtype: str
) -> float:
    """Return an element rounded to the dtype, computed with as many bits as that takes.

    With 192 bits, the true value is known to lie in a short interval. If the middle between two
    floats lies in it as well, the nearer float is still unknown. The waves are then made again with
    192 bits more, then with 576, 1344, … more, which shortens the interval until one float is
    nearest to all of it.

    Args:
        element: The position, the wave, and whether its sine or cosine is meant.
        waves: The waves as the table was computed.
        make_waves: Makes the same waves again, with as many extra bits as `numerics.extra_bits`.
        dtype: The dtype to round to.

    Raises:
        ArithmeticError: More than `_MAX_EXTRA_BITS` would be needed.
    """
    rounded = _round_by_integers(waves, element, dtype)
    extra_bits = waves.bits
    while rounded is None:
        if extra_bits > _MAX_EXTRA_BITS:
            place = f"position {element.position} of wave {element.wave}"
            raise ArithmeticError(f"{extra_bits} more bits do not decide how {place} rounds")
        finer_waves = _with_extra_bits(make_waves, extra_bits)
        rounded = _round_by_integers(finer_waves, element, dtype)
        extra_bits = 2 * extra_bits + waves.bits
    return rounded


def _with_extra_bits(make_waves: Callable[[], ExactWaves], extra_bits: int) -> ExactWaves:
    """Return the waves that a function makes while `numerics.extra_bits` is set."""
    token = numerics.extra_bits.set(extra_bits)
    try:
        return make_waves()
    finally:
        numerics.extra_bits.reset(token)


def _round_by_integers(waves: ExactWaves, element: Element, dtype: str) -> float | None:
    """Return the element as computed in integers, or None if its error leaves two roundings.

    The element is v · a, a cosine or sine times the amplitude. If v is off by up to e, and a by up
    to s, the product is off by up to e · a + (|v| + e) · s. Both ends of that interval are rounded;
    if they round alike, so does the true number, which lies between them.
    """
    value, error = _cosine_or_sine(waves, element)
    product = value * waves.amplitude
    product_error = error * waves.amplitude + (abs(value) + error) * waves.amplitude_error
    product_bits = 2 * waves.bits + waves.amplitude_bits
    low = numerics.round_fixed(product - product_error, product_bits, dtype)
    high = numerics.round_fixed(product + product_error, product_bits, dtype)
    return high if low == high else None


class _BoundedValue(NamedTuple):
    """A number whose error is at most `error`, both over 2**(2 · waves.bits)."""

    value: int
    error: int


def _cosine_or_sine(waves: ExactWaves, element: Element) -> _BoundedValue:
    """Return the cosine or sine of an element, without the amplitude, and a bound on its error.

    All numbers are integers over powers of two. The angle has 2**bits, and the result 2**(2 · bits),
    so that rounding the result adds little to its error.
    """
    bits = waves.bits
    full_turn = 1 << bits
    angle = element.position * waves.turns[element.wave] % full_turn  # in turns, without whole ones
    cosine, sine = numerics.cos_sin(angle << bits, 2 * bits)
    if element.is_sine:
        value = sine
        slope = cosine
    else:
        value = cosine
        slope = -sine
    is_exact = angle % (full_turn // 4) == 0  # At quarter turns, the value is 0, 1 or −1.
    if is_exact:
        return _BoundedValue(value, error=0)
    # An error of the angle changes the value by about slope · error.
    return _BoundedValue(value, _error_bound(slope, element.position, bits))


def _error_bound(slope: int, position: int, bits: int) -> int:
    """Return a bound on the error of a cosine or sine, over 2**(2 · bits).

    The frequency is off by less than 2**-bits turns, and so the angle at a position by less than
    e = 7 · (position + 1) · 2**-bits radians, since 2π < 7. A function with the slope s, none of
    whose second derivatives is above 1, is then off by up to e · |s| + e² / 2.

    Args:
        slope: −sin x for cos x, and cos x for sin x, over 2**(2 · bits).
        position: The position of the element.
        bits: The bits of frequencies after the point.
    """
    angle_error = _RADIANS_PER_TURN * (position + 1)  # e, over 2**bits
    error_by_slope = abs(slope) * angle_error >> bits  # over 2**(3 · bits), less bits
    # The square has 2 · bits. It is more than e² / 2, and includes the rounding of `cos_sin`.
    error_by_curvature = angle_error**2
    return error_by_slope + error_by_curvature
