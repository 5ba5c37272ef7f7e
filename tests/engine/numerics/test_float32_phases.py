"""Phases, exact and in float32, and the functions that recipes compute them by."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from flint import arb, ctx

from pecli.engine.numerics import DoubleDouble, geometric, phases
from pecli.engine.numerics.float32_functions import as_bfloat16, log_single, power, round_single, torch_powers, waves_of
from pecli.engine.numerics.float32_phases import RoundedRotation, _RoundedTile, _terms
from pecli.engine.schemes import recipe_tables
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from tests import oracle
from tests.oracle import bits, rational, rounded

FREQUENCIES = (np.float32(1) / np.geomspace(1, 3000, 64).astype(np.float32)).astype(np.float32)
ROWS = 4096


def distance_from_tie(values: np.ndarray) -> np.ndarray:
    """In units of the last place of float32, at most 1/2; as float64 tells it."""
    lower = np.abs(values).astype(np.float32)
    return 0.5 - np.abs(np.abs(values) - lower) / np.spacing(lower)


@pytest.mark.parametrize("first", [0, 1, 4095, 60_000, 2**20 - 77, 2**23 - 2048, 2**24 - ROWS])
@pytest.mark.parametrize("part", ["sin,cos", "cos,sin"])
def test_elements_nearest_to_ties_and_others(first, part):
    found = np.empty((ROWS, 2 * len(FREQUENCIES)), np.float32)
    rotation = RoundedRotation(FREQUENCIES)
    assert rotation.suits(first + ROWS)
    rotation.fill(part, first, found, "float32")
    products = np.arange(first, first + ROWS)[:, None] * FREQUENCIES.astype(np.float64)
    assert Fraction(products[-1, 7]) == Fraction(first + ROWS - 1) * Fraction(float(FREQUENCIES[7]))
    phases = products.astype(np.float32)
    rng = np.random.default_rng(first)
    for k, name in enumerate(part.split(",")):
        waves = {"sin": np.sin, "cos": np.cos}[name](phases.astype(np.float64))
        closest = np.argsort(distance_from_tie(waves), axis=None)[:40]
        chosen = np.concatenate([closest, rng.integers(0, phases.size, 300), np.arange(64)])
        balls = [rational(Fraction(float(phase))) for phase in phases.reshape(-1)[chosen]]
        true = rounded(lambda name=name, balls=balls: [getattr(ball, name)() for ball in balls], "float32")
        np.testing.assert_array_equal(bits(np.ascontiguousarray(found[:, k::2]).reshape(-1)[chosen]), true)


@pytest.mark.parametrize("exponent", range(1, 28))
@pytest.mark.sample(9)
def test_short_series(exponent):
    """What the error bound says of them."""
    even, odd = _terms(2.0**-exponent)
    with ctx.workprec(200):
        d = arb(2) ** -exponent
        cosine = 1 + sum(term * d ** (2 * k) for k, term in enumerate(even, 1))
        sine = d + sum(term * d ** (2 * k + 1) for k, term in enumerate(odd, 1))
        assert (cosine - d.cos()) ** 2 + (sine - d.sin()) ** 2 < (arb(1.05) * arb(2) ** -53) ** 2


@pytest.mark.parametrize("first", [0, 2**16, 2**20, 2**24 - ROWS])
def test_products_stay_within_the_bound(monkeypatch, first):
    """Before rounding, against NumPy's float64 functions, which are off by 1 unit; analysis says 26."""
    parts, adjust = [], _RoundedTile._adjust

    def note(tile, first, values):
        adjust(tile, first, values)
        parts.append(values.view(np.complex128).reshape(-1, len(FREQUENCIES)) / tile.factors.unit)

    monkeypatch.setattr(_RoundedTile, "_adjust", note)
    found = np.empty((ROWS, 2 * len(FREQUENCIES)), np.float32)
    RoundedRotation(FREQUENCIES).fill("cos,sin", first, found, "float32")
    phases = np.arange(first, first + ROWS, dtype=np.float32)[:, None] * FREQUENCIES
    true = np.exp(1j * phases.astype(np.float64))
    assert np.abs(np.concatenate(parts) - true).max() <= 27 * 2.0**-53


def test_what_it_is_for():
    assert RoundedRotation(FREQUENCIES).suits(2**24)
    assert not RoundedRotation(FREQUENCIES).suits(2**24 + 2)  # 2**24 + 1 is no float32 number
    assert not RoundedRotation(FREQUENCIES * np.float32(300)).suits(2**16)  # phases are rounded by more than 1/2
    assert not RoundedRotation(np.array([1, 1e-20], np.float32)).suits(2**16)  # sines all in doubt
    assert not RoundedRotation(np.array([np.inf], np.float32)).suits(1)


BY_PRODUCTS = [
    Sinusoidal(3000, 96, recipe="float32", offset=70_000),
    Sinusoidal(3000, 95, recipe="float32-bfloat16-table", cos_first=True),
    Sinusoidal(700, 512, recipe="bfloat16-inv-freq", amplitude=0.3, offset=2**22),
    Sinusoidal(600, 1200, recipe="float32", layout="halves", base=500000.0),
    Rope(3000, 128, recipe="bfloat16-module", dtype="bfloat16", scaling="linear", factor=4.0),
    Rope(3000, 64, recipe="float32", layout="interleaved", partial_rotary_factor=0.75),
]
BY_PHASES = [
    Sinusoidal(3000, 96, recipe="float32", dtype="float64", scale=0.3),
    Sinusoidal(3000, 96, recipe="float32", offset=2**24 - 300),
    Sinusoidal(3000, 96, recipe="float32-recurrence"),
    Sinusoidal(3000, 96, recipe="bfloat16-positions"),
]


@pytest.mark.parametrize("scheme", BY_PRODUCTS + BY_PHASES, ids=range(len(BY_PRODUCTS + BY_PHASES)))
def test_large_blocks_are_what_small_ones_are(monkeypatch, scheme):
    """Small blocks are made from the phases, large ones from products, where that can be done."""
    made, fill = [], RoundedRotation.fill
    monkeypatch.setattr(RoundedRotation, "fill", lambda *given: (made.append(given), fill(*given)))
    tables = [table for table in scheme.tensors() if table.width > 1]
    small = [bits(table.read(5, 502)) for table in tables]
    assert not made
    monkeypatch.setattr(recipe_tables, "_MIN_ROTATED", 1)
    assert [bits(table.read(5, 502)).tolist() for table in tables] == [each.tolist() for each in small]
    assert bool(made) == (scheme in BY_PRODUCTS)


POSITIONS = [1, 2, 3, 255, 65535, 10**6, 2**32 - 1, 2**32, 2**32 + 1, 2**39 + 12345, 2**40 - 1]
BASES = [2.0, 100.0, 10000.0, 500000.0, 1e20, 1e300, 0.5, 1.0]


def some_waves(base: float) -> tuple[phases.Waves, np.ndarray, np.ndarray]:
    wanted = phases.Waves.of(geometric(base, oracle.Fraction(16), 16))
    column, position = (grid.ravel() for grid in np.meshgrid(np.arange(16), np.array(POSITIONS, np.uint64)))
    return wanted, column, position


@pytest.mark.parametrize("base", BASES)
def test_cos_sin_in_float64(base):
    """What the tables are built on (an absolute error), and what the second look relies on (a relative one)."""
    wanted, column, position = some_waves(base)
    cosines, sines = phases.cos_sin(wanted.limbs[:, column], position)
    absolute, relative = _errors(base, column, position, DoubleDouble.plain(cosines), DoubleDouble.plain(sines))
    assert absolute <= 0.6 * 2.0**-53
    assert relative <= phases.FLOAT64_ERROR / 2


@pytest.mark.parametrize("base", BASES)
def test_cos_sin_in_106_bits(base):
    wanted, column, position = some_waves(base)
    _, relative = _errors(base, column, position, *phases.cos_sin_double_double(wanted.limbs[:, column], position))
    assert relative <= phases.PRODUCT_ERROR / 8  # there is a margin


def _errors(
    base: float, column: np.ndarray, position: np.ndarray, cosines: DoubleDouble, sines: DoubleDouble
) -> tuple[float, float]:
    """The largest error, and the largest in relation to the value."""
    before, ctx.prec = ctx.prec, 1500
    absolute, relative = 0.0, 0.0
    for k, (i, p) in enumerate(zip(column.tolist(), position.tolist(), strict=True)):
        sine, cosine = (arb(base) ** (arb(-i) / 16) * p).sin_cos()
        for found, true in ((sines, sine), (cosines, cosine)):
            error = abs(arb(float(found.hi[k])) + arb(float(found.lo[k])) - true)
            absolute, relative = max(absolute, float(error.upper())), max(relative, float((error / abs(true)).upper()))
    ctx.prec = before
    return absolute, relative


def test_angles_just_below_a_sector_keep_their_digits():
    """p·θ a hair below a whole number of turns: the highest digit says −1, all others together almost 1."""
    from pecli.engine.schemes.sinusoidal import Sinusoidal

    checked = 0
    for position in range(1_373_000, 1_373_400):
        scale = 2 * math.pi / position
        found = Sinusoidal(1, 1, scale=scale, offset=position).tables()["pe"].view(np.uint32)
        wanted = oracle.sinusoidal_bits(np.array([position]), np.array([0]), dim=1, scale=scale)
        checked += int(found[0, 0] == wanted[0])
    assert checked == 400


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
