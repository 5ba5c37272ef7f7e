"""Right rows in wrong places are said to be there, and rows that are in their places are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pecli.checks.diagnose.rows import misplaced
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import table_of
from tests.checks.diagnose.conftest import Diagnosed
from tests.checks.diagnose.formulas import float32_waves, halves, inverse, narrowed, sinusoidal, waves

LENGTH = 300
ROWS = np.arange(LENGTH)
SHUFFLED = np.random.default_rng(3).permutation(LENGTH)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_rows_in_reverse_order(diagnosed: Diagnosed, dtype: str) -> None:
    cos, sin = (each[::-1] for each in waves(LENGTH, inverse(64, 5e5), dtype=dtype))
    words = "the rows are in reverse order: row 0 is the last one"
    assert diagnosed(Rope(LENGTH, 64, base=5e5, dtype=dtype), cos=cos, sin=sin) == f"cos, sin: {words}"
    wrong = sinusoidal(LENGTH, 64, layout="halves", dtype=dtype)[::-1]
    assert diagnosed(Sinusoidal(LENGTH, 64, layout="halves", dtype=dtype), pe=wrong) == f"pe: {words}"


def test_reversed_rows_in_another_layout(diagnosed: Diagnosed) -> None:
    cos, sin = (halves(each)[::-1] for each in waves(LENGTH, inverse(64, 1e4)))
    words = "the rows are in reverse order: row 0 is the last one"
    assert diagnosed(Rope(LENGTH, 64), cos=cos, sin=sin) == f"cos, sin: {words}"


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (SHUFFLED, f"the rows are in another order: row 0 is row {SHUFFLED[0]}, row 1 is row {SHUFFLED[1]}"),
        (ROWS ^ 1, "every two rows have changed places: row 0 is row 1, row 1 is row 0, and so on"),
        (np.roll(ROWS, -100), "the rows are rolled: row 0 is row 100, and the first ones come last"),
        (ROWS.reshape(10, 30).T.ravel(), "the rows are those of a transposed grid: row 1 is row 30, row 2 is row 60"),
        (ROWS // 2, "every row is there 2 times: rows 2 … 3 are all row 1, and so on"),
        (np.maximum(ROWS - 5, 0), "the rows come 5 late: rows 0 … 4 are all row 0, and row 5 is row 0, and so on"),
        (np.where(ROWS < 7, 1, ROWS - 7), "the rows come 7 late: rows 0 … 6 are all row 1, and row 7 is row 0"),
        (np.maximum(ROWS - 1, 0), "the rows come 1 late: row 0 is row 0, and row 1 is row 0, and so on"),
        (np.where(ROWS == 7, 200, ROWS), "all rows are in their places but 1: row 7 is row 200"),
    ],
    ids=["shuffled", "pairs", "rolled", "grid", "repeated", "padded", "padded with 1", "once more", "one"],
)
def test_rows_elsewhere(diagnosed: Diagnosed, places: Any, words: str) -> None:
    pe = sinusoidal(LENGTH, 64)
    assert diagnosed(Sinusoidal(LENGTH, 64), pe=pe[places]).startswith(f"pe: {words}")
    cos, sin = float32_waves(LENGTH, 64, 5e5)
    text = diagnosed(Rope(LENGTH, 64, base=5e5), cos=cos[places], sin=sin[places])
    assert text.startswith(f"cos, sin: {words}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_in_their_places(dtype: str) -> None:
    scheme = Sinusoidal(LENGTH, 64, dtype=dtype)
    right = sinusoidal(LENGTH, 64, dtype=dtype)
    assert misplaced(scheme, "pe", table_of("pe", right)) == ""
    noisy = narrowed(right + np.random.default_rng(0).normal(0, 1e-5, right.shape), dtype)
    assert misplaced(scheme, "pe", table_of("pe", noisy)) == ""


def test_rows_that_cannot_be_told_apart() -> None:
    """Waves that hardly turn are alike from row to row, so that rows may seem to be anywhere."""
    scheme = Sinusoidal(LENGTH, 16, scale=1e-5)
    found = sinusoidal(LENGTH, 16, scale=1e-5)[::-1]
    assert misplaced(scheme, "pe", table_of("pe", found)) == ""
    assert misplaced(Alibi(4, 30), "bias", table_of("bias", np.zeros((4, 30, 30), np.float32))) == ""


def test_rows_of_another_table() -> None:
    found = sinusoidal(LENGTH, 64, base=500.0)[::-1]
    assert misplaced(Sinusoidal(LENGTH, 64), "pe", table_of("pe", found)) == ""
    found[0] = sinusoidal(1, 64)[0]
    assert misplaced(Sinusoidal(LENGTH, 64), "pe", table_of("pe", found)) == ""
