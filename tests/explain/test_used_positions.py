"""Positions that were used, solved from rotations by a formula of the test's own."""

import ml_dtypes
import numpy as np
import pytest

from pecli.explain.rotation import UNKNOWN, solve
from pecli.explain.used_positions import runs, situation

INVERSE = 10000.0 ** (-np.arange(32) / 32)
PADDED = np.r_[np.zeros(9, int), np.arange(15)]
PADDED_BY_1 = np.r_[np.ones(9, int), np.arange(15)]


def turned(places: np.ndarray, dtype: type = np.float32, inverse: np.ndarray = INVERSE) -> np.ndarray:
    rng = np.random.default_rng(0)
    before = rng.normal(size=(4, len(places), len(inverse))) + 1j * rng.normal(size=(4, len(places), len(inverse)))
    before = before.real.astype(dtype).astype(float) + 1j * before.imag.astype(dtype).astype(float)
    after = before * np.exp(1j * np.outer(places, inverse))
    after = after.real.astype(dtype).astype(float) + 1j * after.imag.astype(dtype).astype(float)
    return (after * before.conj()).sum(axis=0) / (np.abs(before) ** 2).sum(axis=0)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_positions_are_solved(dtype: type) -> None:
    """Plain ones, padded, padded by 1, packed, far, negative, constant, with one row stale."""
    cases = [np.arange(40), PADDED, PADDED_BY_1, np.r_[np.arange(20), np.arange(12)], np.arange(40) + 3777]
    cases += [np.arange(40) - 17, np.full(40, 5), np.r_[np.arange(10), 9, np.arange(11, 30)]]
    for places in cases:
        np.testing.assert_array_equal(solve(turned(places, dtype), INVERSE, np.arange(len(places))), places)


def test_rows_that_are_no_rotation_are_unknown() -> None:
    rows = turned(np.arange(20))
    rows[7] = np.random.default_rng(1).normal(size=32) + 1j
    found = solve(rows, INVERSE, np.arange(20))
    assert found[7] == UNKNOWN
    assert (np.delete(found, 7) == np.delete(np.arange(20), 7)).all()


def test_runs_of_positions() -> None:
    assert runs(np.arange(24)) == "0 … 23"
    assert runs(PADDED) == "0 × 9, then 0 … 14"
    assert runs(PADDED_BY_1) == "1 × 9, then 0 … 14"
    assert runs(np.r_[np.arange(512), np.arange(3)]) == "0 … 511, then 0 … 2"
    assert runs(np.array([7])) == "7"
    assert runs(np.array([4, 2, 9])) == "4, then 2, then 9"
    assert runs(np.array([0, UNKNOWN, UNKNOWN, 3])) == "0, then unknown, then 3"
    assert runs(np.arange(20)[::-1]) == "19, then 18, then 17, then 16, then 15, then 14, then …"


ROWS, FIVE = np.arange(24), np.full(24, 5)
TWICE = np.r_[np.arange(12), np.arange(12)]


@pytest.mark.parametrize(
    ("expected", "used", "text"),
    [
        (PADDED, ROWS, "left padding is ignored"), (ROWS, 0 * ROWS, "nothing is rotated"),
        (ROWS, 0 * ROWS + 3, "every row is at one position"), (TWICE, ROWS, "not reset"),
        (ROWS, TWICE, "positions restart"), (ROWS, ROWS + 7, "all 7 too far"), (ROWS, ROWS - 4, "all 4 too low"),
        (ROWS, -ROWS, "direction"), (ROWS, np.r_[0, ROWS[:-1]], "the row before"), (ROWS, ROWS // 2, "given to 2 rows"),
        (ROWS, np.where(ROWS == 9, 0, ROWS), ""), (FIVE, 0 * ROWS, "not moved"), (FIVE, FIVE + 5, "moved twice"),
        (FIVE, -FIVE, "moved back"), (FIVE, FIVE - 1, "moved by 4, not 5"), (ROWS, np.r_[ROWS[:-1], UNKNOWN], ""),
        (ROWS, 3 * ROWS, ""), (PADDED, np.where(ROWS == 20, 0, ROWS), ""), (np.array([7]), np.array([7]), ""),
    ],
)  # fmt: skip
def test_situations_are_named(expected: np.ndarray, used: np.ndarray, text: str) -> None:
    padding = 9 if expected is PADDED else 0
    assert text in situation(expected, used, padding)
    assert bool(text) == bool(situation(expected, used, padding))
