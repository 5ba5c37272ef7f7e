"""cos and sin of float32(position · frequency): correctly rounded, by balls that contain them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from pecli.engine.numerics.float32_phases import RoundedRotation, _RoundedTile, _terms
from pecli.engine.schemes import recipe_tables
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
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
