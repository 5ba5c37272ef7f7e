"""Sums of two float64, against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pecli.engine.numerics import DoubleDouble, exact_product, exact_sum
from tests.engine.strategies import quick

moderate = st.floats(-(2.0**60), 2.0**60, allow_subnormal=False).filter(lambda x: x == 0 or abs(x) > 2.0**-300)


def exact(value: DoubleDouble) -> list[Fraction]:
    return [
        Fraction(float(hi)) + Fraction(float(lo)) for hi, lo in zip(np.ravel(value.hi), np.ravel(value.lo), strict=True)
    ]


@given(moderate, moderate)
@quick
def test_sums_and_products_have_no_error(a, b):
    x, y = np.array([a]), np.array([b])
    assert exact(exact_sum(x, y)) == [Fraction(a) + Fraction(b)]
    assert exact(exact_product(x, y)) == [Fraction(a) * Fraction(b)]


def some(seed: int, count: int = 2000) -> DoubleDouble:
    """Numbers of 106 bits between 2^-40 and 2^40, of both signs."""
    rng = np.random.default_rng(seed)
    hi = rng.uniform(0.5, 1, count) * 2.0 ** rng.integers(-40, 40, count) * rng.choice([-1, 1], count)
    return DoubleDouble(hi, np.spacing(hi) * rng.uniform(-0.49, 0.49, count))


def is_normal(value: DoubleDouble) -> bool:
    return bool(np.all(value.hi + value.lo == value.hi))


def test_multiply_and_scaled_keep_100_bits():
    a, b = some(1), some(2)
    product, multiple = a * b, a.times(b.hi)
    assert is_normal(product)
    assert is_normal(multiple)
    for x, y, found, times, plain in zip(exact(a), exact(b), exact(product), exact(multiple), b.hi, strict=True):
        assert abs(found - x * y) <= abs(x * y) / 2**101
        assert abs(times - x * Fraction(float(plain))) <= abs(times) / 2**101


def test_add_keeps_100_bits_even_when_terms_cancel():
    a = some(3)
    b = DoubleDouble(-a.hi * (1 + 2.0**-30), some(4).lo * 2.0**-40)
    b = exact_sum(b.hi, b.lo)
    for terms in ((a, some(5)), (a, b)):
        total = terms[0] + terms[1]
        assert is_normal(total)
        for x, y, found in zip(exact(terms[0]), exact(terms[1]), exact(total), strict=True):
            assert abs(found - (x + y)) <= (abs(x) + abs(y)) / 2**104 + abs(x + y) / 2**104


@pytest.mark.parametrize("numerator", [0, 1, -1, 3**100, -(7**70), 1 << 199])
def test_constant(numerator):
    true = Fraction(numerator, 1 << 200)
    value = DoubleDouble.fixed(numerator, 200)
    assert float(value.hi) == float(true)
    assert abs(exact(value)[0] - true) <= abs(true) / 2**105


def test_negation_and_picking():
    a = some(6, 4)
    assert exact(-a) == [-x for x in exact(a)]
    assert exact(a[1:3]) == exact(a)[1:3]
