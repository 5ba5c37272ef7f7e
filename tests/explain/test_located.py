"""Reasons for mistakes that people make: the part that is wrong, the number at hand, and no edit of the whole invented.

All tables are made by NumPy's own formulas.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pecli
from pecli.explain.search import recognise
from pecli.explain.time_limit import OutOfTimeError, check_time, time_limit

LENGTH, DIM = 1024, 64
INDEX = np.arange(DIM // 2)
INV_FREQ = 10000.0 ** (-2 * INDEX / DIM)
SINGLE = np.float32(1) / (10000.0 ** (2 * INDEX / DIM)).astype(np.float32)
PLAIN = pecli.Rope(LENGTH, DIM)
YARN = pecli.Rope(LENGTH, DIM, scaling="yarn", factor=4.0, original_max_position_embeddings=256)
ALIBI = pecli.Alibi(8, 64)
SLOPES = 2.0 ** -np.arange(1, 9)
DISTANCE = np.abs(np.subtract.outer(np.arange(64), np.arange(64)))

Tables = dict[str, np.ndarray]


def rotary(inv_freq: np.ndarray = INV_FREQ, height: float = 1.0) -> Tables:
    return of_angles(np.outer(np.arange(LENGTH), inv_freq), height)


def of_angles(angles: np.ndarray, height: float = 1.0) -> Tables:
    return {"cos": (height * np.cos(angles)).astype(np.float32), "sin": (height * np.sin(angles)).astype(np.float32)}


def changed(tables: Tables, change: Callable[[Tables], None]) -> Tables:
    change(tables)
    return tables


def element(tables: Tables) -> None:
    tables["cos"][77, 3] += 0.5


def rows(tables: Tables) -> None:
    tables["cos"][[300, 301, 302, 303]] = tables["sin"][[9, 9, 8, 7]]


def other_law(tables: Tables) -> None:
    for name, other in rotary(1e5 ** (-2 * INDEX / DIM)).items():
        tables[name][512:] = other[512:]


def factors(which: slice, by: float) -> np.ndarray:
    found = np.ones(DIM // 2)
    found[which] = by
    return found


def bias(distance: np.ndarray = DISTANCE) -> np.ndarray:
    return (-SLOPES[:, None, None] * distance).astype(np.float32)


def zeroed() -> np.ndarray:
    table = bias()
    table[3, 10] = 0
    return table


stale = (10000.0 * ((4 * 512 / 256) - 3) ** (DIM / (DIM - 2))) ** (-2 * INDEX / DIM)
DYNAMIC = pecli.Rope(LENGTH, DIM, scaling="dynamic", factor=4.0, max_position_embeddings=256, length=1024)
HEIGHT = 0.1 * np.log(4) + 1
CASES: dict[str, tuple[Tables, pecli.Rope | pecli.Alibi, str]] = {
    "element": (changed(rotary(), element), PLAIN, "cos: only element [77, 3] differs"),
    "rows": (changed(rotary(), rows), PLAIN, "cos: only rows 300–303 differ"),
    "one frequency": (rotary(INV_FREQ * factors(slice(7, 8), 1.0001)), PLAIN, "only column 7 differs"),
    "some frequencies": (rotary(INV_FREQ * factors(slice(12, 18), 0.7)), PLAIN, "only columns 12–17 differ"),
    "two regimes": (changed(rotary(), other_law), PLAIN, "base is 100000 (the spec says 10000), and only in rows 512"),
    "exponent over hidden_size": (rotary(10000.0 ** (-2 * INDEX / 2048)), PLAIN, "the exponent is over 2048"),
    "exponent without scaling": (
        rotary(10000.0 ** (-INDEX / (DIM // 2 - 1))),
        YARN,
        "the exponent is over 62 (the spec says 64), and the yarn scaling is missing",
    ),
    "half the exponent": (rotary(10000.0 ** (-4 * INDEX / DIM)), PLAIN, "the exponent is over 32 (the spec says 64)"),
    "stale length": (rotary(stale), DYNAMIC, "length is 512 (the spec says 1024)"),
    "attention factor twice": (
        {name: np.float32(HEIGHT) * YARN.tables()[name] for name in ("cos", "sin")},
        YARN,
        "the attention factor is applied twice",
    ),
    "float16 frequencies": (rotary(INV_FREQ.astype(np.float16).astype(np.float64)), PLAIN, "recipe float16-inv-freq"),
    "float16 phases": (
        of_angles(
            np.outer(np.arange(LENGTH, dtype=np.float32), INV_FREQ.astype(np.float32))
            .astype(np.float16)
            .astype(np.float64)
        ),
        PLAIN,
        "recipe float16-phases",
    ),
    "float16 table": (
        {name: table.astype(np.float16).astype(np.float32) for name, table in rotary().items()},
        PLAIN,
        "rounded to float16",
    ),
    "uninitialised": ({"inv_freq": np.full(DIM // 2, 1e-19, np.float32)}, PLAIN, "inv_freq was never initialised"),
    "one of inv_freq": ({"inv_freq": INV_FREQ * factors(slice(7, 8), 1.0001)}, PLAIN, "only element 7 differs"),
    "a row of a bias": ({"bias": zeroed()}, ALIBI, "bias: only row 10 differs"),
    "distance": ({"bias": bias(DISTANCE + 1)}, ALIBI, "distances are off by one: i − j + 1, not i − j"),
    "heads": ({"bias": bias()[[1, 0, 2, 3, 5, 4, 6, 7]]}, ALIBI, "heads are in another order (1, 0, 2, 3, 5, 4, 6, 7)"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_reason_of_a_mistake(name: str) -> None:
    tables, spec, words = CASES[name]
    result = pecli.verify(tables, spec, atol=1e-6)
    assert not result.passed
    assert words in result.diagnosis[0]
    assert "noise" not in result.diagnosis[0]
    assert all(why.residual <= 0.02 for why in result.explanations if np.isfinite(why.residual))


def test_float16_positions_far_out() -> None:
    spec = pecli.Rope(4096, DIM)
    tables = of_angles(np.outer(np.arange(4096).astype(np.float16).astype(np.float64), INV_FREQ))
    assert "recipe float16-positions" in pecli.verify(tables, spec, atol=1e-4).diagnosis[0]


@pytest.mark.parametrize(
    "table",
    [
        np.full((4, LENGTH, DIM // 2), 0.3, np.float32),
        np.tanh(2 * np.cos(np.outer(np.arange(LENGTH), INV_FREQ))).astype(np.float32),
        rotary()["cos"] ** 2,
    ],
    ids=["constant", "tanh", "square"],
)
def test_no_reason_is_invented(table: np.ndarray) -> None:
    assert pecli.verify({"cos": table}, PLAIN, atol=1e-4).explanations == ()
    assert not pecli.identify(table).identified


@pytest.mark.parametrize(
    "vector", [np.ones(1_000_000), np.exp(-np.arange(60_000) / 5000), np.linspace(1, 0, 100_000)], ids=len
)
def test_long_vectors_are_no_frequencies(vector: np.ndarray) -> None:
    assert recognise({"x": vector}) == []


def test_time_that_is_up_ends_a_search() -> None:
    with time_limit(-1.0):
        with pytest.raises(OutOfTimeError):
            check_time()
        with time_limit(60.0), pytest.raises(OutOfTimeError):  # a limit inside does not move the one outside
            check_time()
        assert recognise(rotary()) == []
    check_time()
    assert recognise(rotary())
