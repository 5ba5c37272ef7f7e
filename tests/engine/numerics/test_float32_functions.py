"""float32 functions: every value is the correctly rounded one, by balls that contain it."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from flint import arb

from pecli.engine.numerics.float32_functions import as_bfloat16, log_single, power, round_single, torch_powers, waves_of
from tests.oracle import bits, rational, rounded

f32 = np.float32
TORCH = np.load(Path(__file__).with_name("torch_powers.npz"))
"""Powers of PyTorch (make_data.py)."""


def hold(angles: np.ndarray) -> None:
    cosines, sines = waves_of(angles, ("cos", "sin"))
    assert cosines.dtype == sines.dtype == np.float32
    balls = [rational(Fraction(float(angle))) for angle in angles]
    np.testing.assert_array_equal(bits(cosines), rounded(lambda: [ball.cos() for ball in balls], "float32"))
    np.testing.assert_array_equal(bits(sines), rounded(lambda: [ball.sin() for ball in balls], "float32"))


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
    sines, cosines = waves_of(np.zeros((2, 3), np.float32), ("sin", "cos"))
    assert (sines.tolist(), cosines.tolist()) == ([[0.0] * 3] * 2, [[1.0] * 3] * 2)
    assert waves_of(np.zeros((0, 3), np.float32), ["cos"])[0].shape == (0, 3)
    angles = np.array([[1, 2**30], [2**23, 3]], np.float32)
    (square,), (line,) = waves_of(angles, ["sin"]), waves_of(angles.reshape(-1), ["sin"])
    assert square.reshape(-1).tolist() == line.tolist()


@pytest.mark.parametrize("base", [10000.0, 500000.0, 1e6, 0.5, 1.0, 3e38, 2.0**-126, 9999.9])
def test_powers(base):
    base = round_single(base)
    exponents = [float(np.float32(i) / np.float32(64)) for i in range(64)] + [float(np.float32(-2 / 96)), 0.7, -0.1]
    exponents = [round_single(exponent) for exponent in exponents if exponent not in (0.25, 0.5, 0.75)]
    true = rounded(lambda: [arb(base) ** rational(exponent) for exponent in exponents], "float32")
    found = np.array([power(base, exponent) for exponent in exponents], np.float32)
    np.testing.assert_array_equal(bits(found), true)


def test_powers_that_are_floats_or_too_large():
    assert [power(10000.0, exponent) for exponent in (0.25, 0.5, 0.75, -0.25)] == [10.0, 100.0, 1000.0, float(f32(0.1))]
    assert power(1e30, 3.0) == math.inf


def test_bfloat16():
    rng = np.random.default_rng(5)
    values = np.ldexp(rng.uniform(1, 2, 2000), rng.integers(-30, 60, 2000)).astype(f32)
    ties = (np.arange(256, 512) + f32(0.5)) / f32(2)
    for each in (values, ties.astype(f32)):
        assert as_bfloat16(each).tolist() == each.astype(ml_dtypes.bfloat16).tolist()
    assert as_bfloat16(np.array([257, 1 / 3], f32)).tolist() == [256.0, 0.333984375]


@pytest.mark.parametrize("name", TORCH.files)
@pytest.mark.sample(8)
def test_powers_are_those_of_pytorch(name: str) -> None:
    base, dim = (float(part) for part in name.split(","))
    exponents = np.arange(0, dim, 2, dtype=f32) / f32(dim)
    np.testing.assert_array_equal(torch_powers(base, exponents), TORCH[name])


@pytest.mark.parametrize("value", [0.25, 1.0, 3.0, 150000.0])
def test_logarithms_are_rounded_once(value: float) -> None:
    assert log_single(value) == f32(np.log(value))
