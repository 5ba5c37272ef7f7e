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


def round_waves(
    waves: ExactWaves,
    make_waves: Callable[[], ExactWaves],
    positions: Ints,
    wave_indices: Indices,
    is_sine: Flags,
    dtype: str,
) -> Array:
    """Return amplitude · sin or cos of some elements of a table, correctly rounded.

    Positions, wave indices and `is_sine` broadcast against each other: for a whole table they are
    (rows, 1), (1, waves) and (1, 1).

    An element is computed with an error bound. If all numbers within the bound round alike, that is
    the result; the others are computed again in integers, with as many bits as it takes.

    Args:
        waves: The waves of the table.
        make_waves: Makes the same waves again, with as many extra bits as `numerics.extra_bits`.
        positions: The position of each element.
        wave_indices: The wave of each element.
        is_sine: True for each element that is a sine, False for a cosine.
        dtype: The dtype of the result.
    """
    products = _wave_products(waves, positions, wave_indices, is_sine, dtype)
    out = round_double_double(products, dtype)
    position_of, wave_of, is_sine_of = np.broadcast_arrays(positions, wave_indices, is_sine)
    for indices in np.argwhere(_in_doubt(products, positions, dtype)):
        place = tuple(indices)
        element = Element(int(position_of[place]), int(wave_of[place]), bool(is_sine_of[place]))
        out[place] = _round_with_more_bits(element, waves, make_waves, dtype)
    return out


def _in_doubt(products: DoubleDouble, positions: Ints, dtype: str) -> Flags:
    """Return True for elements that their error bound could make round differently.

    The bound is relative to the element: 2**-91 for float64, whose products have about 98 bits, and
    2**-50 for narrower dtypes, whose products have about 51.
    """
    magnitudes = np.abs(products.hi)
    if dtype != "float64":
        return undecided(products, phases.FLOAT64_ERROR * magnitudes, dtype)
    in_doubt = undecided(products, phases.PRODUCT_ERROR * magnitudes, dtype)
    # A product is a sum of two float64 numbers, high and low. The low part of a tiny one underflows,
    # so that the bound fails. At position 0, products are exact.
    underflows = (magnitudes < _MIN_PRODUCT) & (positions > 0)
    return in_doubt | underflows


def _wave_products(
    waves: ExactWaves, positions: Ints, wave_indices: Indices, is_sine: Flags, dtype: str
) -> DoubleDouble:
    """Return amplitude · sin or cos of each element, not yet rounded to the dtype.

    They have about 98 bits for float64, and 51 for narrower dtypes, which are computed faster.
    Arguments are those of `round_waves`.
    """
    frequency_digits = waves.digits[:, wave_indices]  # (digits, rows, waves)
    if dtype == "float64":
        cosines, sines = phases.cos_sin_double_double(frequency_digits, positions)
        hi = np.where(is_sine, sines.hi, cosines.hi)
        lo = np.where(is_sine, sines.lo, cosines.lo)
        return DoubleDouble(hi, lo) * waves.factor
    plain_cosines, plain_sines = phases.cos_sin(frequency_digits, positions)
    values = np.where(is_sine, plain_sines, plain_cosines)
    return DoubleDouble.plain(values) * waves.factor  # The product has a low part.


def _round_with_more_bits(
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
    """Return the cosine or sine of an element, with amplitude 1, and a bound of its error.

    If an angle x is off by up to e, then

        |cos(x + e) − cos x| ≤ e · |sin x| + e² / 2,
        |sin(x + e) − sin x| ≤ e · |cos x| + e² / 2.

    The frequency is off by less than one unit of 2**-bits, in turns; the phase by less than
    `position` units; the angle in radians by less than 7 times as many, since 2π < 7. At position 3
    with 192 bits, e is at most 7 · (3 + 1) = 28 units of 2**-192. The squared term is rounded up to
    (8 · 4)², to include the rounding of `cos_sin`.

    Phases and their errors are integers over 2**bits; values, slopes and the result have twice as
    many bits, so that rounding the value is a small error beside the phase's.
    """
    bits = waves.bits
    phase = element.position * waves.turns[element.wave] % (1 << bits)  # without whole turns
    cosine, sine = numerics.cos_sin(phase << bits, 2 * bits)
    value = cosine
    slope = sine  # except for the sign
    if element.is_sine:
        value = sine
        slope = cosine
    is_multiple_of_quarter_turn = phase % (1 << (bits - 2)) == 0
    if is_multiple_of_quarter_turn:  # There cosine and sine are exact.
        return _BoundedValue(value, error=0)
    phase_error = element.position + 1
    angle_error = _RADIANS_PER_TURN * phase_error
    first_order_error = abs(slope) * angle_error >> bits  # 3·bits of the product, less bits
    second_order_error = (8 * phase_error) ** 2  # The square has 2·bits.
    return _BoundedValue(value, first_order_error + second_order_error)
