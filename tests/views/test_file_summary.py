"""Rectangles of tables are those that NumPy cuts."""

from __future__ import annotations

import numpy as np
import pytest

from pecli.engine.arrays import indices
from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError
from pecli.views.file_summary import MAX_SHOWN, rectangle

ARRAY = np.arange(35.0).reshape(7, 5)


@pytest.mark.parametrize("rows", ["3", "-1", "0:8", "-4:", ":2", ":", "5:2", "9:"])
@pytest.mark.parametrize("columns", ["0", "1:3", "-2:", ":"])
def test_as_numpy_slices(rows: str, columns: str) -> None:
    def cut(text: str) -> slice:
        parts = [int(part) if part else None for part in text.split(":")]
        return slice(*parts) if len(parts) > 1 else slice(parts[0], (parts[0] or 0) + 1 or None)

    found = rectangle(table_of("t", ARRAY), indices("rows", rows, 7), indices("cols", columns, 5))
    assert found.tolist() == ARRAY[cut(rows), cut(columns)].tolist()


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (2, 3, 0)])
def test_what_has_no_elements_keeps_its_rows(shape: tuple[int, ...]) -> None:
    table = table_of("t", np.empty(shape))
    assert rectangle(table, range(table.rows), range(table.width)).shape == (table.rows, table.width)


@pytest.mark.parametrize("text", ["7", "-8", "1:2:3", "a", "", "1e3"])
def test_what_is_no_part_of_seven_rows(text: str) -> None:
    with pytest.raises(ParameterError, match="rows is"):
        indices("rows", text, 7)


@pytest.mark.parametrize(("rows", "columns"), [(MAX_SHOWN, 2), (MAX_SHOWN + 1, 0)])
def test_more_than_can_be_shown_is_not_read(rows: int, columns: int) -> None:
    table = Table("t", "float32", (rows, columns), lambda start, out: pytest.fail("read"))
    with pytest.raises(ParameterError, match="at most 100,000"):
        rectangle(table, range(rows), range(columns))
