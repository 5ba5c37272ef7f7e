"""What is wrong outside the sample counts all the same."""

from __future__ import annotations

import numpy as np
import pytest

import pecli
from pecli.engine.schemes.sinusoidal import Sinusoidal

ROWS = 4096


@pytest.mark.parametrize("row", [100, 2049, ROWS - 65])
def test_the_error_is_that_of_the_worst_row(row: int) -> None:
    table = Sinusoidal(ROWS, 32).tables()["pe"]
    table[row, 5] += np.float32(0.25)
    (match,) = pecli.identify({"pe": table}).matches
    assert match.scheme == Sinusoidal(ROWS, 32)
    assert match.max_abs_error == pytest.approx(0.25, abs=1e-6)
