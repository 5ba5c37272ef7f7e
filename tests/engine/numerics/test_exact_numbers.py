"""Arithmetic below the tables: fixed-point integers, sums of two float64 numbers, and one rounding
at the end.

A number x with `places` binary places is the integer x · 2^places. A DoubleDouble is hi + lo, two
float64 numbers that hold about 106 bits. Expected values are exact fractions of Python, or balls of
python-flint (Arb) at 1200 bits, which tests/oracle.py rounds once.
"""

import random
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from pecli.engine import numerics
from pecli.engine.arrays import SIGNIFICAND_BITS, round_to
from pecli.engine.numerics import DoubleDouble
from pecli.errors import ParameterError
from tests.oracle import DTYPES, FORMATS, bits, rational, rounded

BITS = (64, 160, 320)
UNITS = 3
"""Units of the last place by which log, exp, powers, cosines and sines may be off, as documented."""


def units_off(found: int, true: arb, places: int) -> float:
    return float(abs(arb(found) - true * arb(2) ** places).upper())


@pytest.fixture(autouse=True)
def precise():
    with ctx.workprec(1200):
        yield


@pytest.mark.parametrize("places", BITS)
def test_pi_is_off_by_at_most_one_unit_of_the_last_place(places):
    """The true π is that of Arb (python-flint), an interval that is sure to contain it."""
    assert units_off(numerics.pi(places), arb.pi(), places) <= 1


LOGARITHM_ARGUMENTS = (
    1e-300,
    0.001,
    0.5,
    2 / 3,
    0.999999,
    1.0,
    1.0000001,
    4 / 3,
    2.0,
    3.7,
    10000.0,
    1e20,
    1e308,
)


@pytest.mark.parametrize("places", BITS)
@pytest.mark.parametrize("value", LOGARITHM_ARGUMENTS)
def test_logarithms_are_off_by_at_most_three_units_of_the_last_place(value, places):
    """The true logarithm is that of Arb (python-flint), an interval that is sure to contain it."""
    assert units_off(numerics.log(Fraction(value), places), arb(value).log(), places) <= UNITS


@pytest.mark.parametrize("places", BITS)
@pytest.mark.parametrize(
    "value", [-700.0, -40.25, -1.0, -1e-9, 0.0, 1e-9, 0.6931471805599453, 1.0, 10.5, 44.0]
)
def test_exponentials_are_off_by_at_most_three_units_of_the_last_place(value, places):
    """Numbers are integers over 2^places. The argument is rounded to this fixed point first, and Arb
    (arbitrary precision) takes the rounded argument; UNITS is 3.
    """
    argument = numerics.fixed(Fraction(value), places)
    true = (arb(argument) / arb(2) ** places).exp()

    assert units_off(numerics.exp(argument, places), true, places) <= UNITS


@pytest.mark.parametrize("places", BITS)
@pytest.mark.parametrize("base", [0.001, 0.5, 1.0, 2.0, 100.0, 10000.0, 500000.0, 1e20, 1e40])
@pytest.mark.sample(6)
def test_powers_are_those_of_arbitrary_precision(base, places):
    """base^exponent is off by at most three units of the last place (UNITS) from the value of Arb
    (python-flint).
    """
    for exponent in (
        Fraction(0),
        Fraction(-1, 64),
        Fraction(-63, 64),
        Fraction(-2, 127),
        Fraction(1, 3),
    ):
        found = numerics.power(Fraction(base), exponent, places)
        assert units_off(found, arb(base) ** rational(exponent), places) <= UNITS


@pytest.mark.parametrize("places", BITS)
def test_cosines_and_sines_are_those_of_arbitrary_precision(places):
    """The argument is a share of a turn, an integer over 2^places; Arb (python-flint) computes cos and
    sin of 2π times it. They are off by at most three units of the last place (UNITS).
    """
    rng = random.Random(places)
    one = 1 << places

    for turns in [1, one - 1, one // 8, one // 3, *(rng.randrange(one) for _ in range(200))]:
        cosine, sine = numerics.cos_sin(turns, places)
        true_sine, true_cosine = (arb(turns) / arb(2) ** (places - 1)).sin_cos_pi()
        assert units_off(cosine, true_cosine, places) <= UNITS
        assert units_off(sine, true_sine, places) <= UNITS


@pytest.mark.parametrize("base", [2.0, 10000.0, 500000.0, 1e20, 1e300, 0.5, 1.0, 0.001])
@pytest.mark.parametrize(
    ("denominator", "count"), [(Fraction(32), 32), (Fraction(127, 2), 64), (Fraction(512), 512)]
)
@pytest.mark.sample(6)
def test_every_frequency_is_rounded_once(base, denominator, count):
    """Frequency i is base^(-i/denominator); Arb computes it and rounds it once to float64. The
    denominator 127/2 is that of an odd dim, 127.
    """
    found = np.array(numerics.geometric(base, denominator, count).floats())
    true = rounded(
        lambda: [arb(base) ** rational(-i / denominator) for i in range(count)], "float64"
    )

    np.testing.assert_array_equal(bits(found), true)


@pytest.mark.parametrize(("base", "scale"), [(2.0**-64, 1.0), (2.0, 2.0**64), (2.0**-33, 2.0**31)])
def test_a_base_or_scale_that_reaches_the_limit_of_frequencies_is_refused(base, scale):
    """The fixed-point format holds frequencies below 2^64 radians per position. The fastest is
    scale · max(1, 1/base): 2^64 in each case; twice the base at half the scale gives less, and is
    accepted.
    """
    with pytest.raises(ParameterError, match=r"below 2\^64 radians"):
        numerics.check_base(base, 1.0, scale)
    numerics.check_base(base * 2, 1.0, scale / 2)


def test_a_base_whose_frequencies_stay_just_below_the_limit_is_accepted():
    """Frequencies must be below 2^64 radians per position, by the fixed-point format; the fastest of a
    base below 1 is 1 / base, here 2^63.5.
    """
    numerics.check_base(2.0**-63.5, 1.0)


@pytest.mark.parametrize(
    ("quarter", "cosine", "sine"), [(0, 1, 0), (1, 0, 1), (2, -1, 0), (3, 0, -1)]
)
def test_cosines_and_sines_of_quarters_of_a_turn_are_exact(quarter, cosine, sine):
    """A quarter of a turn is 2^158 in fixed point with 160 places; its cosine and sine are 0, 1 or
    −1.
    """
    assert numerics.cos_sin(quarter << 158, 160) == (cosine << 160, sine << 160)


@pytest.mark.parametrize(
    ("value", "bits", "expected"),
    [(5, 2, 1), (6, 2, 2), (7, 2, 2), (-5, 2, -1), (-7, 2, -2), (5, 0, 5)],
)
def test_division_by_a_power_of_two_rounds_to_nearest_even(value, bits, expected):
    """`round_shift` is value / 2^bits: 5/4 is 1.25 and rounds to 1; 6/4 is a tie and goes to 2, the
    even one.
    """
    assert numerics.round_shift(value, bits) == expected


@pytest.mark.parametrize(("fraction", "expected"), [(Fraction(1, 3), 5), (Fraction(-1, 3), -5)])
def test_a_fraction_is_rounded_to_fixed_point(fraction, expected):
    """`fixed` returns an integer over 2^places. With 4 places a third is 16/3 = 5.33 sixteenths, which
    rounds to 5.
    """
    assert numerics.fixed(fraction, 4) == expected


def test_a_single_frequency_is_one_even_with_a_denominator_of_zero():
    """Frequency i is base^(-i/denominator); base^(-0/0) is not computed, as the first one is 1."""
    assert numerics.geometric(10000.0, Fraction(0), 1).floats() == [1.0]


@pytest.mark.parametrize(
    ("low", "in_doubt"),
    [
        (2.0**-53, True),  # halfway between two float64 numbers
        (2.0**-53 - 2.0**-80, True),  # nearer to the tie than the error
        (2.0**-53 - 2.0**-60, False),
        (0.0, False),
    ],
)
def test_only_values_next_to_a_tie_are_undecided(low, in_doubt):
    """`undecided` states whether the error could change how a value is rounded to float64. The value
    is 1 + low with an error of 2^-75; float64 numbers above 1 are 2^-52 apart, so that 1 + 2^-53 is
    the tie.
    """
    value = DoubleDouble(np.array([1.0]), np.array([low]))
    assert numerics.undecided(value, np.array(2.0**-75), "float64").tolist() == [in_doubt]


@pytest.mark.parametrize(("value", "expected"), [(0, 0.0), (1, 0.5), (-1, -0.5)])
def test_fixed_point_numbers_keep_their_sign(value, expected):
    """`round_fixed(value, 1, …)` reads an integer with one binary place: 1 is a half, −1 minus a
    half.
    """
    assert numerics.round_fixed(value, 1, "float32") == expected


def test_a_bit_below_a_tie_of_float32_rounds_up():
    """2**53 + 2**29 is halfway between two float32 numbers, and 1 more is not a float64 number."""
    assert numerics.round_fixed((1 << 53) + (1 << 29) + 1, 0, "float32") == 2.0**53 + 2.0**30


moderate = st.floats(-(2.0**60), 2.0**60, allow_subnormal=False).filter(
    lambda x: x == 0 or abs(x) > 2.0**-300
)


def exact(value: DoubleDouble) -> list[Fraction]:
    return [
        Fraction(hi) + Fraction(lo)
        for hi, lo in zip(np.ravel(value.hi), np.ravel(value.lo), strict=True)
    ]


@given(moderate, moderate)
def test_exact_sums_and_products_of_two_floats_have_no_error(a, b):
    """A sum or product of two float64 numbers is exactly the sum of two float64 numbers; Python's
    fractions are the oracle.
    """
    x, y = np.array([a]), np.array([b])
    assert exact(numerics.exact_sum(x, y)) == [Fraction(a) + Fraction(b)]
    assert exact(DoubleDouble.plain(x) * DoubleDouble.plain(y)) == [Fraction(a) * Fraction(b)]


def random_numbers(seed: int, count: int = 2000) -> DoubleDouble:
    """Return numbers hi + lo of 106 bits, between 2^-41 and 2^39, of both signs."""
    rng = np.random.default_rng(seed)
    hi = (
        rng.uniform(0.5, 1, count)
        * 2.0 ** rng.integers(-40, 40, count)
        * rng.choice([-1, 1], count)
    )
    return DoubleDouble(hi, np.spacing(hi) * rng.uniform(-0.49, 0.49, count))


def nearly_opposite(values: DoubleDouble) -> DoubleDouble:
    """Return −values · (1 + 2^-30), plus numbers of many sizes below 2^-53.

    In a sum with the values, the first 30 bits cancel, and the small numbers have to be rounded.
    """
    opposite = -values.hi * (1 + 2.0**-30)
    small_numbers = random_numbers(4).lo * 2.0**-40
    return numerics.exact_sum(opposite, small_numbers)


def is_normal(value: DoubleDouble) -> bool:
    """Return True if lo is less than the last bit of hi, so that no bits are lost to an overlap."""
    return bool(np.all(value.hi + value.lo == value.hi))


def test_products_of_double_doubles_keep_100_bits():
    """A DoubleDouble is the sum of two floats. 2000 random products are off by at most 2^-101 of
    themselves; `exact` turns DoubleDoubles into fractions.
    """
    a = random_numbers(1)
    b = random_numbers(2)
    product = a * b

    assert is_normal(product)
    for x, y, result in zip(exact(a), exact(b), exact(product), strict=True):
        assert abs(result - x * y) <= abs(x * y) / 2**101


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param(random_numbers(3), random_numbers(5), id="terms of all sizes"),
        pytest.param(random_numbers(3), nearly_opposite(random_numbers(3)), id="terms that cancel"),
    ],
)
def test_sums_of_double_doubles_keep_104_bits_even_when_terms_cancel(a, b):
    """A DoubleDouble is the sum of two float64 numbers, of 106 bits together. 2,000 sums are off by at
    most 2^-104 of themselves. `exact` turns DoubleDoubles into fractions, which Python adds exactly.
    """
    total = a + b

    assert is_normal(total)
    for x, y, found in zip(exact(a), exact(b), exact(total), strict=True):
        assert abs(found - (x + y)) <= abs(x + y) / 2**104


@pytest.mark.parametrize("numerator", [0, 1, -1, 3**100, -(7**70), 1 << 199])
def test_a_fixed_point_number_becomes_two_floats_of_105_bits(numerator):
    """numerator / 2^200; the high float is the nearest one, as Python rounds a fraction."""
    true = Fraction(numerator, 1 << 200)
    value = DoubleDouble.fixed(numerator, 200)

    assert float(value.hi) == float(true)
    assert abs(exact(value)[0] - true) <= abs(true) / 2**105


def test_negation_of_a_double_double_is_exact():
    """A DoubleDouble is the sum of two floats, which `exact` turns into a fraction."""
    values = random_numbers(6, 4)
    assert exact(-values) == [-x for x in exact(values)]


def test_a_slice_of_a_double_double_takes_the_same_elements_of_both_floats():
    """A DoubleDouble holds two arrays, whose sums `exact` turns into fractions."""
    values = random_numbers(6, 4)
    assert exact(values[1:3]) == exact(values)[1:3]


NARROW_DTYPES = ("float32", "float16", "bfloat16")


def awkward(dtype: str, seed: int = 0) -> np.ndarray:
    """Return float64 numbers at, beside and far from ties of a dtype (middles between two numbers).

    They have both signs; some are subnormal numbers of the dtype or beyond its range.
    """
    rng = np.random.default_rng(seed)
    precision, exponent_bits = FORMATS[dtype]
    most = 1 << (exponent_bits - 1)  # Numbers of the dtype are below 2^most.
    highest = min(most + 2, 1000)

    # Of integers with one bit more than the dtype has, even ones are its numbers, odd ones are ties.
    exponents = rng.integers(-most - precision - 3, highest, 800)
    integers = rng.integers(1 << precision, 1 << (precision + 1), 800)
    ties = integers * 2.0 ** (exponents - precision)
    beside_ties = [np.nextafter(ties, 0), np.nextafter(ties, np.inf)]
    anywhere = rng.uniform(0.5, 1, 800) * 2.0 ** rng.integers(-most - precision, highest, 800)

    positive = np.concatenate([ties, *beside_ties, anywhere, [0.0, 5e-324, 1.7e308]])
    return np.concatenate([positive, -positive[positive != 0]])


def oracle_bits(values: list[Fraction], dtype: str) -> np.ndarray:
    """Return the bits of exact values that are rounded once, to nearest even, by Arb's oracle."""
    return rounded(lambda: [rational(value) for value in values], dtype)


@pytest.mark.parametrize("dtype", NARROW_DTYPES)
@pytest.mark.parametrize("has_tiny_numbers", [True, False], ids=["tiny numbers", "none tiny"])
@pytest.mark.sample(4)
def test_rounding_to_a_narrow_dtype_is_to_nearest_even(dtype, has_tiny_numbers):
    """`awkward` numbers are ties of the dtype, floats beside them, subnormal and too large ones; Arb
    rounds the exact fractions. bfloat16 is rounded by a longer way if there are numbers below 2^-126,
    its smallest normal number.
    """
    values = awkward(dtype)
    if not has_tiny_numbers:
        values = values[(np.abs(values) >= 2.0**-126) | (values == 0)]
    found = round_to(values, dtype)

    assert found.dtype == DTYPES[dtype]
    np.testing.assert_array_equal(bits(found), oracle_bits([Fraction(v) for v in values], dtype))


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("beside", [[], [-0.0, np.nan]], ids=["alone", "beside NaN"])
def test_infinities_stay_infinite_in_every_dtype(dtype, beside):
    """bfloat16 is rounded by a longer way if there are tiny numbers or NaN in the array, hence the
    cases beside NaN.
    """
    rounded_values = round_to(np.array([np.inf, -np.inf, *beside]), dtype).astype(np.float64)
    assert rounded_values[:2].tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("dtype", FORMATS)
def test_negative_zero_and_nan_stay_what_they_are(dtype):
    """`round_to` rounds float64 numbers to the dtype; −0 equals 0 and has the sign bit."""
    zero, nan = round_to(np.array([-0.0, np.nan]), dtype).astype(np.float64)
    assert zero == 0
    assert np.signbit(zero)
    assert np.isnan(nan)


@pytest.mark.parametrize("dtype", NARROW_DTYPES)
@pytest.mark.parametrize(
    "lo_in_spacings",
    [
        pytest.param(0.0, id="lo is 0"),
        pytest.param(2.0**-52, id="a little above hi"),
        pytest.param(-(2.0**-52), id="a little below hi"),
        pytest.param(0.49, id="nearly half a spacing above"),
        pytest.param(-0.49, id="nearly half a spacing below"),
    ],
)
@pytest.mark.sample(10)
def test_the_low_part_of_a_double_double_breaks_ties(dtype, lo_in_spacings):
    """A DoubleDouble is hi + lo: if hi is a tie of the dtype, the sign of lo decides. Every third of
    the `awkward` numbers is a hi, ties among them; `oracle_bits` rounds the exact sums with Arb.
    """
    hi = awkward(dtype)[::3]
    # lo is as small as 2^-104 of hi, and has to be a float64 number, which end at 2^-1074.
    hi = hi[(np.abs(hi) > 2.0**-900) & (np.abs(hi) < 2.0**900)]
    lo = np.spacing(hi) * lo_in_spacings
    sums = [Fraction(a) + Fraction(b) for a, b in zip(hi.tolist(), lo.tolist(), strict=True)]

    found = numerics.round_double_double(DoubleDouble(hi, lo), dtype)
    np.testing.assert_array_equal(bits(found), oracle_bits(sums, dtype))


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.sample(2)
def test_fixed_point_numbers_are_rounded_to_nearest_even(dtype):
    """`round_fixed` takes integers over 2^400: here ties of the dtype (`awkward`), and one unit above
    and below them. `oracle_bits` rounds the exact fractions with Arb.
    """
    values = awkward(dtype)[::7]
    values = values[(np.abs(values) < 2.0**300) & ((np.abs(values) > 2.0**-300) | (values == 0))]
    fixed = [int(Fraction(v) * 2**400) + nudge for v in values.tolist() for nudge in (0, 1, -1)]
    found = np.array([numerics.round_fixed(value, 400, dtype) for value in fixed]).astype(
        DTYPES[dtype]
    )

    np.testing.assert_array_equal(
        bits(found), oracle_bits([Fraction(value, 2**400) for value in fixed], dtype)
    )


@pytest.mark.parametrize("dtype", NARROW_DTYPES)
def test_values_are_undecided_only_within_the_error_of_a_tie(dtype):
    """The error is 2^-70: low parts up to half of it leave a tie undecided, those of twice it do
    not; and no low part makes 1 undecided, which is a number of the dtype and no tie.
    """
    tie = 1 + 2.0 ** -SIGNIFICAND_BITS[dtype]
    error = np.array(2.0**-70)
    lows = np.array([0.0, 2.0**-71, -(2.0**-71), 2.0**-69, -(2.0**-69), 2.0**-55])
    next_to_tie = numerics.undecided(DoubleDouble(np.full(6, tie), lows), error, dtype)

    assert next_to_tie.tolist() == [True] * 3 + [False] * 3
    assert not numerics.undecided(DoubleDouble(np.full(6, 1.0), lows), error, dtype).any()
