"""Rectangles of tables are those that NumPy cuts."""

from __future__ import annotations

import numpy as np
import pytest

from pecli.engine.arrays import indices
from pecli.errors import ParameterError
from pecli.views.file_summary import MAX_SHOWN, numbers

ARRAY = np.arange(35.0).reshape(7, 5)


@pytest.mark.parametrize("rows", ["3", "-1", "0:8", "-4:", ":2", ":", "5:2", "9:"])
def test_numbers_are_cut_as_numpy_cuts(rows: str) -> None:
    def cut(text: str) -> slice:
        parts = [int(part) if part else None for part in text.split(":")]
        return slice(*parts) if len(parts) > 1 else slice(parts[0], (parts[0] or 0) + 1 or None)

    for columns in ("0", "1:3", "-2:", ":"):
        assert numbers(ARRAY, rows, columns)["values"] == ARRAY[cut(rows), cut(columns)].tolist()


@pytest.mark.parametrize("text", ["7", "-8", "1:2:3", "a", "", "1e3"])
def test_what_is_no_part_of_seven_rows(text: str) -> None:
    with pytest.raises(ParameterError, match="rows is"):
        indices("rows", text, 7)


@pytest.mark.parametrize("shape", [(MAX_SHOWN, 2), (MAX_SHOWN + 1, 0)])
def test_more_than_can_be_shown_is_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(ParameterError, match="at most 100,000"):
        numbers(np.empty(shape, np.float32), ":", ":")
