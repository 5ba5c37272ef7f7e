"""Positions that were used, solved from rotations by a formula of the test's own."""

import ml_dtypes
import numpy as np
import pytest

from pecli.explain.rotation import UNKNOWN, solve

INVERSE = 10000.0 ** (-np.arange(32) / 32)
PADDED = np.r_[np.zeros(9, int), np.arange(15)]
PADDED_BY_1 = np.r_[np.ones(9, int), np.arange(15)]


def turned(
    places: np.ndarray, dtype: type = np.float32, inverse: np.ndarray = INVERSE
) -> np.ndarray:
    rng = np.random.default_rng(0)
    before = rng.normal(size=(4, len(places), len(inverse))) + 1j * rng.normal(
        size=(4, len(places), len(inverse))
    )
    before = before.real.astype(dtype).astype(float) + 1j * before.imag.astype(dtype).astype(float)
    after = before * np.exp(1j * np.outer(places, inverse))
    after = after.real.astype(dtype).astype(float) + 1j * after.imag.astype(dtype).astype(float)
    return (after * before.conj()).sum(axis=0) / (np.abs(before) ** 2).sum(axis=0)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_positions_are_solved(dtype: type) -> None:
    """Plain ones, padded, padded by 1, packed, far, negative, constant, with one row stale."""
    cases = [
        np.arange(40),
        PADDED,
        PADDED_BY_1,
        np.r_[np.arange(20), np.arange(12)],
        np.arange(40) + 3777,
    ]
    cases += [np.arange(40) - 17, np.full(40, 5), np.r_[np.arange(10), 9, np.arange(11, 30)]]
    for places in cases:
        np.testing.assert_array_equal(
            solve(turned(places, dtype), INVERSE, np.arange(len(places))), places
        )


def test_rows_that_are_no_rotation_are_unknown() -> None:
    rows = turned(np.arange(20))
    rows[7] = np.random.default_rng(1).normal(size=32) + 1j
    found = solve(rows, INVERSE, np.arange(20))
    assert found[7] == UNKNOWN
    assert (np.delete(found, 7) == np.delete(np.arange(20), 7)).all()
