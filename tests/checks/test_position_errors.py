"""Errors of tables over positions (their drift), measured against exact tables that are written out
here.
"""

import numpy as np

from pecli.checks.position_errors import measure_drifts
from pecli.engine.table import ByPosition


def rows_of(table: np.ndarray) -> ByPosition:
    """Return a table whose columns are frequencies 0, 1, …"""

    def read(start: int, stop: int) -> np.ndarray:
        return table[start:stop]

    columns = np.arange(table.shape[1])
    return ByPosition(0, len(table), "frequencies", columns.astype(float), columns, read)


def test_an_element_that_is_not_a_number_is_beyond_any_tolerance() -> None:
    """A table of 20 × 2 ones is compared with a copy whose element [7, 1] is NaN: the error exceeds
    even a tolerance of 1e30 at position 7, and is infinite at frequency 1.
    """
    exact = np.ones((20, 2), np.float32)
    wrong = exact.copy()
    wrong[7, 1] = np.nan
    (drift,) = measure_drifts(rows_of(exact), {"table": rows_of(wrong)}, 1e30, range(20)).tables

    assert drift.first_beyond == 7
    assert drift.max_abs_error == np.inf
    assert drift.by_frequency.tolist() == [0, np.inf]
