"""The hardest elements, and the three ways by which they are settled."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pecli.engine.numerics import cos_sin_tables, geometric, phases
from pecli.engine.schemes.sinusoidal import Sinusoidal
from tests import oracle

CASES = json.loads(Path(__file__).with_name("hard_cases.json").read_text())
NARROW = ("float32", "float16", "bfloat16")


def name_of(case: dict) -> str:
    return f"{case['dtype']}-{case['base']:g}-{case['dim']}-{case['position']}-{case['wave']}{case['part']}"


def truth(case: dict) -> int:
    """The bits that the element must have."""
    sine = np.array([case["part"] == "sin"])
    place = (case["base"], oracle.Fraction(case["dim"], 2), [case["position"]], [case["wave"]])
    return int(oracle.wave_bits(case["dtype"], sine, *place, amplitude=case["amplitude"])[0])


@pytest.mark.parametrize("before", [0, 1, 70])
@pytest.mark.parametrize("case", CASES, ids=name_of)
@pytest.mark.sample(20)
def test_hardest_elements(case, before):
    """Alone, and as part of a table that begins before it."""
    before = min(before, case["position"])
    numbers = {name: case[name] for name in ("base", "amplitude", "dtype")}
    scheme = Sinusoidal(before + 1, case["dim"], offset=case["position"] - before, **numbers)
    column = 2 * case["wave"] + (case["part"] == "cos")
    assert oracle.bits(scheme.tables()["pe"][before])[column] == truth(case)


def every_element(dtype: str, amplitude: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Elements settled one by one, and the oracle's."""
    rng = np.random.default_rng(8)
    count = 400
    position, column = rng.integers(0, 2**40, count), rng.integers(0, 24, count)
    position[:40] = rng.integers(0, 3, 40)
    sine = rng.random(count) < 0.5
    some = phases.Waves.of(geometric(10000.0, oracle.Fraction(24), 24), amplitude=amplitude)
    found = phases.round_waves(some, position.astype(np.uint64), column, sine, dtype)
    true = oracle.wave_bits(dtype, sine, 10000.0, 24, position.tolist(), column.tolist(), amplitude=amplitude)
    return oracle.bits(found), true


@pytest.fixture
def tiers(monkeypatch):
    """Counts how many elements reach the second and the third way."""
    reached = {"second": 0, "third": 0}
    second, third = phases.cos_sin_double_double, phases._by_integers

    def count_second(limbs, positions):
        reached["second"] += positions.size
        return second(limbs, positions)

    def count_third(*args):
        reached["third"] += 1
        return third(*args)

    monkeypatch.setattr(phases, "cos_sin_double_double", count_second)
    monkeypatch.setattr(phases, "_by_integers", count_third)
    return reached


@pytest.mark.parametrize("dtype", [*NARROW, "float64"])
@pytest.mark.parametrize("amplitude", [1.0, 0.3])
def test_all_three_tiers_are_right(monkeypatch, tiers, dtype, amplitude):
    """The first settles nearly all; with coarse error bounds, all reach the second, and then the third."""
    for coarse, limits in ((None, (0, 20)), ("FLOAT64_ERROR", (350, 20)), ("PRODUCT_ERROR", (350, 401))):
        tiers.update(second=0, third=0)
        if coarse:
            monkeypatch.setattr(phases, coarse, 0.5)
        found, true = every_element(dtype, amplitude)
        np.testing.assert_array_equal(found, true)
        assert tiers["second"] >= limits[0]
        assert tiers["third"] < limits[1]
        assert coarse or dtype == "float64" or tiers["second"] < 20
    assert tiers["third"] > 350


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("amplitude", [1.0, 0.3])
def test_a_table_settled_throughout_is_the_same(monkeypatch, dtype, amplitude):
    """With a coarser unit every element is in doubt; the bytes do not change."""
    scheme = Sinusoidal(90, 14, offset=999_000, amplitude=amplitude, dtype=dtype)
    usual = scheme.tables()["pe"].tobytes()
    seen = []
    monkeypatch.setattr(cos_sin_tables, "_UNIT", 2.0**6)
    monkeypatch.setattr(
        cos_sin_tables, "round_waves", lambda *args: seen.append(len(args[1])) or phases.round_waves(*args)
    )
    assert scheme.tables()["pe"].tobytes() == usual
    assert sum(seen) > 90 * 14 * 0.9


@pytest.mark.parametrize(("dtype", "significand"), [("float32", 24), ("float16", 11), ("bfloat16", 8)])
def test_ties_at_position_zero_go_to_even(tiers, dtype, significand):
    """amplitude · cos 0 is exact, so it may be a tie; all ways see that, and the last one says so."""
    for odd in (0, 1):
        amplitude = 1 + odd * 2.0 ** (1 - significand) + 2.0**-significand
        cosine = Sinusoidal(1, 2, amplitude=amplitude, dtype=dtype).tables()["pe"][0, 1]
        assert float(cosine) == 1 + odd * 2.0 ** (2 - significand)
    assert tiers["third"] == 2
