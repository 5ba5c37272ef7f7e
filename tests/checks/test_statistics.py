"""Statistics gathered block by block are those of the whole."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from pecli.checks.statistics import Statistics
from pecli.engine.table import table_of


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_blocks_do_not_matter(rows: int) -> None:
    array = np.random.default_rng(1).standard_normal((101, 7)).astype(np.float32)
    table = table_of("t", array)
    statistics = Statistics(table)
    for block in table.blocks(rows):
        statistics.add(block)
    found = statistics.as_json()
    assert (found["min"], found["max"]) == (array.min(), array.max())
    assert found["mean"] == pytest.approx(array.astype(np.float64).mean(), abs=1e-15)
    assert found["sha256"] == hashlib.sha256(array.tobytes()).hexdigest()
    if rows > 1:
        single = Statistics(table)
        for block in table.blocks(1):
            single.add(block)
        assert single.as_json() == found
