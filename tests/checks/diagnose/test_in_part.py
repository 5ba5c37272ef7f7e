"""Where a few rows or columns are wrong they are named, with what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pecli.checks.diagnose.in_part import wrong_in_part
from pecli.checks.tolerance import Tolerance
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import table_of
from tests.checks.diagnose.conftest import Diagnosed
from tests.checks.diagnose.formulas import float32_waves, sinusoidal


def changed(**at: Any) -> np.ndarray[Any, Any]:
    pe = sinusoidal(300, 64)
    for name, value in at.items():
        kind, k = name.split("_")
        if kind == "row":
            pe[int(k)] = value
        else:
            pe[:, int(k)] = value
    return pe


@pytest.mark.parametrize(
    ("pe", "words"),
    [
        (changed(row_222=sinusoidal(1, 64, first=223)), "row 222, which is row 223"),
        (changed(row_5=0.25), "row 5, which is 0.25 everywhere"),
        (changed(row_77=np.linspace(0, 1, 64)), "row 77, which is none of the table's"),
        (changed(column_10=0), "column 10, which is zero"),
        (changed(column_10=sinusoidal(300, 64)[:, 8]), "column 10, which is column 8"),
        (changed(column_10=0, column_63=1), "column 10, which is zero, column 63, which is 1 everywhere"),
    ],
)
def test_all_is_right_but(diagnosed: Diagnosed, pe: Any, words: str) -> None:
    assert diagnosed(Sinusoidal(300, 64), pe=pe) == f"pe: all is right but {words}"


@pytest.mark.parametrize("row", [5, 222])
def test_a_row_among_those_of_float32(diagnosed: Diagnosed, row: int) -> None:
    cos, sin = float32_waves(300, 64, 5e5)
    cos[row] = np.linspace(-1, 1, 32)
    text = diagnosed(Rope(300, 64, base=5e5), Tolerance(atol=1e-4), cos=cos)
    assert text == f"cos: all is right but row {row}, which is none of the table's"
    assert wrong_in_part(Rope(300, 64, base=5e5), "sin", table_of("sin", sin)) == ""


def test_elements_and_whole_tables_are_not_rows() -> None:
    pe = sinusoidal(300, 64)
    assert wrong_in_part(Sinusoidal(300, 64), "pe", table_of("pe", pe)) == ""
    pe[7, 3] = 0.5
    assert wrong_in_part(Sinusoidal(300, 64), "pe", table_of("pe", pe)) == ""
    assert wrong_in_part(Sinusoidal(300, 64), "pe", table_of("pe", sinusoidal(300, 64, base=500.0))) == ""
