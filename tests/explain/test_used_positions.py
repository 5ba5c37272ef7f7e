"""Positions that were used, solved from rotations by a formula of the test's own."""

import ml_dtypes
import numpy as np
import pytest

from pecli.explain.rotation import UNKNOWN, solve
from pecli.explain.used_positions import runs, situation

INVERSE = 10000.0 ** (-np.arange(32) / 32)
PADDED = np.r_[np.zeros(9, int), np.arange(15)]


def turned(places: np.ndarray, dtype: type = np.float32, inverse: np.ndarray = INVERSE) -> np.ndarray:
    rng = np.random.default_rng(0)
    before = rng.normal(size=(4, len(places), len(inverse))) + 1j * rng.normal(size=(4, len(places), len(inverse)))
    before = before.real.astype(dtype).astype(float) + 1j * before.imag.astype(dtype).astype(float)
    after = before * np.exp(1j * np.outer(places, inverse))
    after = after.real.astype(dtype).astype(float) + 1j * after.imag.astype(dtype).astype(float)
    return (after * before.conj()).sum(axis=0) / (np.abs(before) ** 2).sum(axis=0)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "places",
    [
        np.arange(40),
        PADDED,
        np.r_[np.ones(9, int), np.arange(15)],
        np.r_[np.arange(20), np.arange(12)],
        np.arange(40) + 3777,
        np.arange(40) - 17,
        np.full(40, 5),
        np.r_[np.arange(10), 9, np.arange(11, 30)],
    ],
    ids=["plain", "padded", "padded by 1", "packed", "far", "negative", "constant", "one row stale"],
)
def test_positions_are_solved(places: np.ndarray, dtype: type) -> None:
    np.testing.assert_array_equal(solve(turned(places, dtype), INVERSE, np.arange(len(places))), places)


def test_rows_that_are_no_rotation_are_unknown() -> None:
    rows = turned(np.arange(20))
    rows[7] = np.random.default_rng(1).normal(size=32) + 1j
    found = solve(rows, INVERSE, np.arange(20))
    assert found[7] == UNKNOWN
    assert (np.delete(found, 7) == np.delete(np.arange(20), 7)).all()


@pytest.mark.parametrize(
    ("places", "text"),
    [
        (np.arange(24), "0 … 23"),
        (PADDED, "0 × 9, then 0 … 14"),
        (np.r_[np.ones(9, int), np.arange(15)], "1 × 9, then 0 … 14"),
        (np.r_[np.arange(512), np.arange(3)], "0 … 511, then 0 … 2"),
        (np.array([7]), "7"),
        (np.array([4, 2, 9]), "4, then 2, then 9"),
        (np.array([0, UNKNOWN, UNKNOWN, 3]), "0, then unknown, then 3"),
        (np.arange(20)[::-1], "19, then 18, then 17, then 16, then 15, then 14, then …"),
    ],
)
def test_runs_of_positions(places: np.ndarray, text: str) -> None:
    assert runs(places) == text


@pytest.mark.parametrize(
    ("expected", "used", "padding", "text"),
    [
        (PADDED, np.arange(24), 9, "left padding is ignored"),
        (np.arange(24), np.zeros(24, int), 0, "nothing is rotated"),
        (np.arange(24), np.full(24, 3), 0, "every row is at one position"),
        (np.r_[np.arange(12), np.arange(12)], np.arange(24), 0, "not reset"),
        (np.arange(24), np.r_[np.arange(12), np.arange(12)], 0, "positions restart"),
        (np.arange(24), np.arange(24) + 7, 0, "all 7 too far"),
        (np.arange(24), np.arange(24) - 4, 0, "all 4 too low"),
        (np.arange(24), -np.arange(24), 0, "direction"),
        (np.arange(24), np.r_[0, np.arange(23)], 0, "the row before"),
        (np.arange(24), np.r_[np.arange(9), 0, np.arange(10, 24)], 0, ""),
        (np.full(24, 5), np.zeros(24, int), 0, "not moved"),
        (np.full(24, 5), np.full(24, 10), 0, "moved twice"),
        (np.full(24, 5), np.full(24, -5), 0, "moved back"),
        (np.full(24, 5), np.full(24, 4), 0, "moved by 4, not 5"),
        (np.arange(24), np.r_[np.arange(23), UNKNOWN], 0, ""),
        (np.arange(24), np.arange(24) * 3, 0, ""),
        (np.array([7]), np.array([7]), 0, ""),
    ],
)
def test_situations_are_named(expected: np.ndarray, used: np.ndarray, padding: int, text: str) -> None:
    assert text in situation(expected, used, padding)
    assert bool(text) == bool(situation(expected, used, padding))
