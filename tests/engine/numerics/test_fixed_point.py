"""Integers as real numbers, against flint's balls."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from pecli.engine import numerics
from pecli.engine.numerics import check_base, geometric
from pecli.errors import ParameterError
from tests.oracle import bits as bits_of
from tests.oracle import rational, rounded

BITS = (64, 160, 320)
UNITS = 3
"""«Within a few units of the last place.»"""


def units_off(found: int, true: arb, bits: int) -> float:
    return float(abs(arb(found) - true * arb(2) ** bits).upper())


@pytest.fixture(autouse=True)
def precise():
    before, ctx.prec = ctx.prec, 1200
    yield
    ctx.prec = before


@pytest.mark.parametrize("bits", BITS)
def test_pi_log_and_exp(bits):
    assert units_off(numerics.pi(bits), arb.pi(), bits) <= 1
    for value in (1e-300, 0.001, 0.5, 2 / 3, 0.999999, 1.0, 1.0000001, 4 / 3, 2.0, 3.7, 10000.0, 1e20, 1e308):
        assert units_off(numerics.log(Fraction(value), bits), arb(value).log(), bits) <= UNITS
    for value in (-700.0, -40.25, -1.0, -1e-9, 0.0, 1e-9, 0.6931471805599453, 1.0, 10.5, 44.0):
        given = numerics.fixed(Fraction(value), bits)
        assert units_off(numerics.exp(given, bits), (arb(given) / arb(2) ** bits).exp(), bits) <= UNITS


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("base", [0.001, 0.5, 1.0, 2.0, 100.0, 10000.0, 500000.0, 1e20, 1e40])
@pytest.mark.sample(9)
def test_power(base, bits):
    for exponent in (Fraction(0), Fraction(-1, 64), Fraction(-63, 64), Fraction(-2, 127), Fraction(1, 3)):
        assert units_off(numerics.power(Fraction(base), exponent, bits), arb(base) ** rational(exponent), bits) <= UNITS


@pytest.mark.parametrize("bits", BITS)
def test_cos_sin(bits):
    rng = random.Random(bits)
    one = 1 << bits
    for turns in [1, one - 1, one // 8, one // 3, *(rng.randrange(one) for _ in range(200))]:
        cosine, sine = numerics.cos_sin(turns, bits)
        true_sine, true_cosine = (arb(turns) / arb(2) ** (bits - 1)).sin_cos_pi()
        assert units_off(cosine, true_cosine, bits) <= UNITS
        assert units_off(sine, true_sine, bits) <= UNITS


@pytest.mark.parametrize(("quarter", "expected"), [(0, (1, 0)), (1, (0, 1)), (2, (-1, 0)), (3, (0, -1))])
def test_cos_sin_is_exact_at_quarter_turns(quarter, expected):
    assert numerics.cos_sin(quarter << 158, 160) == tuple(part << 160 for part in expected)


def test_nearest_integers():
    assert [numerics.round_shift(value, 2) for value in (5, 6, 7, -5, -7)] == [1, 2, 2, -1, -2]
    assert numerics.round_shift(5, 0) == 5
    assert numerics.fixed(Fraction(1, 3), 4) == 5  # 5.33
    assert numerics.fixed(Fraction(-1, 3), 4) == -5
    assert numerics.fixed(Fraction(5, 32), 4) in (2, 3)


@pytest.mark.parametrize("base", [2.0, 10000.0, 500000.0, 1e20, 1e300, 0.5, 1.0, 0.001])
@pytest.mark.parametrize(("denominator", "count"), [(Fraction(32), 32), (Fraction(127, 2), 64), (Fraction(512), 512)])
@pytest.mark.sample(8)
def test_every_frequency_is_rounded_once(base, denominator, count):
    found = np.array(geometric(base, denominator, count).floats())
    true = rounded(lambda: [arb(base) ** rational(-i / denominator) for i in range(count)], "float64")
    np.testing.assert_array_equal(bits_of(found), true)


def test_one_frequency_needs_no_denominator():
    assert geometric(10000.0, Fraction(0), 1).floats() == [1.0]


@pytest.mark.parametrize(
    ("base", "largest", "scale"), [(2.0**-64, 1.0, 1.0), (2.0, 1.0, 2.0**64), (2.0**-33, 1.0, 2.0**31)]
)
def test_frequencies_have_a_limit(base, largest, scale):
    with pytest.raises(ParameterError, match=r"below 2\^64 radians"):
        check_base(base, largest, scale)
    check_base(base * 2, largest, scale / 2)
