"""One rounding, ties to even, against integer arithmetic on exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pecli.engine.arrays import SIGNIFICAND_BITS, round_to
from pecli.engine.numerics import DoubleDouble, differ, round_double_double, round_fixed, undecided
from tests.oracle import DTYPES, FORMATS, bits, rational, rounded

NARROW = ("float32", "float16", "bfloat16")


def awkward(dtype: str, seed: int = 0) -> np.ndarray:
    """float64 numbers at, beside and far from ties of the dtype; subnormal ones and ones too large among them."""
    rng = np.random.default_rng(seed)
    precision, exponent_bits = FORMATS[dtype]
    limit = 1 << (exponent_bits - 1)
    exponents = rng.integers(-limit - precision - 3, min(limit + 2, 1000), 3000)
    near = rng.integers(1 << precision, 1 << (precision + 1), 3000) * 2.0 ** (exponents - precision)  # floats and ties
    beside = np.concatenate([np.nextafter(near, 0), near, np.nextafter(near, np.inf)])
    anywhere = rng.uniform(0.5, 1, 3000) * 2.0 ** rng.integers(-limit - precision, min(limit + 2, 1000), 3000)
    positive = np.concatenate([beside, anywhere, [0.0, 5e-324, 1.7e308]])
    return np.concatenate([positive, -positive[positive != 0]])


def oracle_bits(values: list[Fraction], dtype: str) -> np.ndarray:
    return rounded(lambda: [rational(value) for value in values], dtype)


@pytest.mark.parametrize("dtype", NARROW)
def test_round_to(dtype):
    values = awkward(dtype)
    assert round_to(values, dtype).dtype == DTYPES[dtype]
    np.testing.assert_array_equal(bits(round_to(values, dtype)), oracle_bits([Fraction(v) for v in values], dtype))


def test_bfloat16_of_zeros_and_ordinary_numbers_alone():
    """Without tiny numbers and not-a-numbers among them, there is a shorter way."""
    values = awkward("bfloat16")
    values = values[(np.abs(values) >= 2.0**-126) | (values == 0)]
    true = oracle_bits([Fraction(v) for v in values], "bfloat16")
    np.testing.assert_array_equal(bits(round_to(values, "bfloat16")), true)
    assert bits(round_to(np.array([-0.0, np.inf, -np.inf]), "bfloat16")).tolist() == [0x8000, 0x7F80, 0xFF80]


@pytest.mark.parametrize("dtype", FORMATS)
def test_what_is_not_finite_stays_so(dtype):
    found = round_to(np.array([np.inf, -np.inf, np.nan, -0.0]), dtype).astype(np.float64)
    assert found[0] == np.inf
    assert found[1] == -np.inf
    assert np.isnan(found[2])
    assert np.signbit(found[3])


def test_bfloat16_through_float32_would_round_twice():
    value = 1 + 2.0**-8 + 2.0**-40  # just above a tie of bfloat16; in float32 it is the tie itself
    assert float(round_to(np.array([value]), "bfloat16")[0]) == 1 + 2.0**-7
    assert float(np.float32(value).astype(DTYPES["bfloat16"])) == 1.0


@pytest.mark.parametrize("dtype", NARROW)
def test_the_low_part_breaks_ties(dtype):
    hi = awkward(dtype)[::3]
    hi = hi[(np.abs(hi) > 2.0**-900) & (np.abs(hi) < 2.0**900)]
    for share in (0.0, 2.0**-52, -(2.0**-52), 0.49, -0.49):
        lo = np.spacing(hi) * share
        true = [Fraction(a) + Fraction(b) for a, b in zip(hi.tolist(), lo.tolist(), strict=True)]
        np.testing.assert_array_equal(bits(round_double_double(DoubleDouble(hi, lo), dtype)), oracle_bits(true, dtype))


@pytest.mark.parametrize("dtype", FORMATS)
def test_round_fixed(dtype):
    values = awkward(dtype)[::7]
    values = values[(np.abs(values) < 2.0**300) & ((np.abs(values) > 2.0**-300) | (values == 0))]
    fixed = [int(Fraction(v) * 2**400) + nudge for v in values.tolist() for nudge in (0, 1, -1)]
    found = np.array([round_fixed(value, 400, dtype) for value in fixed]).astype(DTYPES[dtype])
    np.testing.assert_array_equal(bits(found), oracle_bits([Fraction(value, 2**400) for value in fixed], dtype))


@pytest.mark.parametrize("dtype", NARROW)
def test_undecided_tells_exactly_where_a_tie_is_within_reach(dtype):
    tie = 1 + 2.0 ** -SIGNIFICAND_BITS[dtype]
    error = np.array(2.0**-70)
    lows = np.array([0.0, 2.0**-71, -(2.0**-71), 2.0**-69, -(2.0**-69), 2.0**-55])
    assert undecided(DoubleDouble(np.full(6, tie), lows), error, dtype).tolist() == [True] * 3 + [False] * 3
    assert not undecided(DoubleDouble(np.full(6, 1.0), lows), error, dtype).any()


def test_undecided_in_float64():
    half = 2.0**-53  # half an ulp of 1.0 …
    lows = np.array([half, half - 2.0**-80, half - 2.0**-60, 0.0])
    found = undecided(DoubleDouble(np.full(4, 1.0), lows), np.array(2.0**-75), "float64")
    assert found.tolist() == [True, True, False, False]


def test_differ_looks_at_bits():
    a = np.array([0.0, 1.0, np.nan], np.float32)
    b = np.array([-0.0, 1.0, np.nan], np.float32)
    assert differ(a, b).tolist() == [True, False, False]


@pytest.mark.parametrize("dtype", FORMATS)
def test_bits_of_precision(dtype):
    assert SIGNIFICAND_BITS[dtype] == FORMATS[dtype][0]
