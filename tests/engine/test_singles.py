"""float32 functions: every value is the correctly rounded one, by balls that contain it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from pecli.engine.singles import power, round_single, rounded, waves_of
from tests.oracle import bits, rational
from tests.oracle import rounded as true_bits

f32 = np.float32


def hold(angles: np.ndarray) -> None:
    for sine in (False, True):
        found = waves_of(angles, sine=sine)
        assert found.dtype == np.float32
        balls = [rational(Fraction(float(angle))) for angle in angles]
        true = true_bits(lambda: [(ball.sin() if sine else ball.cos()) for ball in balls], "float32")  # noqa: B023
        np.testing.assert_array_equal(bits(found), true)


@pytest.mark.parametrize("exponent", [-149, -126, -60, -24, -12, -6, -1, 0, 1, 7, 14, 20, 21, 22, 30, 40, 64, 103])
def test_sines_and_cosines(exponent):
    rng = np.random.default_rng(exponent + 200)
    hold(np.ldexp(rng.uniform(1, 2, 300), exponent).astype(np.float32))


def test_where_waves_cross_zero():
    """Floats next to multiples of π/2, where a result has far fewer digits than its argument."""
    turns = np.concatenate([np.arange(1, 150), np.geomspace(200, 2.6e6, 150).astype(int)])
    crossings = (turns * (math.pi / 2)).astype(np.float32)
    hold(np.concatenate([crossings, np.nextafter(crossings, np.float32(0)), np.nextafter(crossings, np.float32(1e9))]))


def test_edges_of_sectors():
    edges = ((np.arange(1, 257) - 0.5) * (math.tau / 256)).astype(np.float32)
    hold(np.concatenate([edges, edges + np.float32(math.tau)]))


def test_zero_and_two_dimensions():
    assert waves_of(np.zeros((2, 3), np.float32), sine=True).tolist() == [[0.0] * 3] * 2
    assert waves_of(np.zeros((2, 3), np.float32), sine=False).tolist() == [[1.0] * 3] * 2
    assert waves_of(np.zeros((0, 3), np.float32), sine=False).shape == (0, 3)
    angles = np.array([[1, 2**30], [2**23, 3]], np.float32)
    assert waves_of(angles, sine=True).reshape(-1).tolist() == waves_of(angles.reshape(-1), sine=True).tolist()


@pytest.mark.parametrize("base", [10000.0, 500000.0, 1e6, 0.5, 1.0, 3e38, 2.0**-126, 9999.9])
def test_powers(base):
    base = round_single(base)
    exponents = [float(np.float32(i) / np.float32(64)) for i in range(64)] + [float(np.float32(-2 / 96)), 0.7, -0.1]
    exponents = [round_single(exponent) for exponent in exponents if exponent not in (0.25, 0.5, 0.75)]
    true = true_bits(lambda: [arb(base) ** rational(exponent) for exponent in exponents], "float32")
    found = np.array([power(base, exponent) for exponent in exponents], np.float32)
    np.testing.assert_array_equal(bits(found), true)


def test_powers_that_are_floats_or_too_large():
    assert [power(10000.0, exponent) for exponent in (0.25, 0.5, 0.75, -0.25)] == [10.0, 100.0, 1000.0, float(f32(0.1))]
    assert power(1e30, 3.0) == math.inf


def test_rounded_keeps_what_the_dtype_keeps():
    values = np.array([257, 258.999, 1 / 3], np.float32)
    assert rounded(values, "float32") is values
    assert rounded(values, "bfloat16").tolist() == [256.0, 258.0, 0.333984375]
    assert rounded(values, "float16").tolist() == [257.0, 259.0, 0.333251953125]
