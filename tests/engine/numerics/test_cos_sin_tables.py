"""Tables made by rotation: every part, start, width and length gives the same elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pecli.engine.numerics import cos_sin_tables, geometric, phases
from pecli.engine.numerics.cos_sin_tables import Rotation
from pecli.engine.numerics.phases import Waves
from tests import oracle
from tests.engine.strategies import dtypes, quick

ALL = ("float32", "float16", "bfloat16", "float64")


def make(width: int, count: int, base: float = 10000.0, amplitude: float = 1.0) -> Rotation:
    return Rotation(lambda: Waves.of(geometric(base, oracle.Fraction(width), width), amplitude=amplitude), count)


def fill(made: Rotation, part: str, first: int, rows: int, columns: int, dtype: str) -> np.ndarray:
    out = np.empty((rows, columns), oracle.DTYPES[dtype])
    made.fill(part, first, out, dtype)
    return out


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("first", [0, 777, 2**40 - 300])
@pytest.mark.parametrize("amplitude", [1.0, 0.3, 5.0])
@pytest.mark.sample(12)
def test_every_element_of_a_table(first, dtype, amplitude):
    made = make(12, 300, amplitude=amplitude)
    row, wave = (grid.ravel() for grid in np.indices((300, 12)))
    sines, cosines = oracle.waves(10000.0, 12, (row + first).tolist(), wave.tolist(), amplitude=amplitude)
    for part, digits in (("sin", sines), ("cos", cosines)):
        found = fill(made, part, first, 300, 12, dtype)
        np.testing.assert_array_equal(oracle.bits(found).ravel(), digits.round(dtype))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("width", [1, 5, 512, 513, 1100])
def test_pairs_are_the_single_parts_side_by_side(width, dtype):
    made = make(width, 40)
    sine, cosine = (fill(made, part, 12345, 40, width, dtype) for part in ("sin", "cos"))
    for part, first, second in (("sin,cos", sine, cosine), ("cos,sin", cosine, sine)):
        pairs = fill(made, part, 12345, 40, 2 * width, dtype)
        assert pairs[:, 0::2].tobytes() == first.tobytes()
        assert pairs[:, 1::2].tobytes() == second.tobytes()
        short = fill(made, part, 12345, 40, 2 * width - 1, dtype)
        assert short.tobytes() == pairs[:, :-1].tobytes()


@given(st.integers(1, 700), st.integers(1, 5000), st.integers(0, 2**40 - 50), st.integers(0, 49), dtypes)
@quick
def test_rows_do_not_depend_on_the_table_they_are_in(width, count, first, row, dtype):
    """Nor on how long the table was said to be."""
    whole = fill(make(width, 50), "cos", first, 50, width, dtype)
    alone = fill(make(width, count), "cos", first + row, 1, width, dtype)
    assert alone.tobytes() == whole[row : row + 1].tobytes()


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("part", ["cos", "sin", "cos,sin", "sin,cos"])
@pytest.mark.parametrize("size", [1 << 15, 1 << 16])
@pytest.mark.sample(12)
def test_whole_leaps_and_what_lies_beside_them(monkeypatch, size, part, dtype):
    """A table that begins and ends within a leap, held against rows that were made one by one."""
    monkeypatch.setattr(phases, "TILE", size)
    width, first, rows = 300, 2**33 - 700, 2600
    columns = width * len(part.split(","))
    made, alone = make(width, 4000), make(width, 1)
    assert dtype == "float64" or cos_sin_tables.Factors(made.waves, slice(0, width), part, 4000).leap < rows // 2
    whole = fill(made, part, first, rows, columns, dtype)
    for row in (0, 1, *range(150, rows, 197), rows - 1):
        assert whole[row].tobytes() == fill(alone, part, first + row, 1, columns, dtype).tobytes()


@pytest.mark.parametrize("part", ["cos", "sin", "cos,sin", "sin,cos"])
def test_products_stay_within_the_bound(monkeypatch, part):
    """Before rounding, no element is off by more than ERROR: the doubt test rests on it."""
    made, first, rows, width = make(40, 4096), 2**39 + 999, 600, 40
    columns, parts = width * len(part.split(",")), []

    def note(tile, _, values):
        parts.append(values.reshape(-1, columns) / tile.factors.unit)

    monkeypatch.setattr(cos_sin_tables.Tile, "_adjust", note)
    fill(made, part, first, rows, columns, "float32")
    found = np.concatenate(parts)
    exact = fill(made, part, first, rows, columns, "float64")  # held against the oracle above
    assert np.abs(found - exact).max() <= cos_sin_tables.ERROR * 0.8


@pytest.mark.parametrize("places", [[0], [9], [99], [0, 1], [3, 98, 99], [5, 6, 7, 50, 51], list(range(0, 100, 9))])
def test_all_that_are_in_doubt_are_found_few_or_many(places):
    bits = np.arange(1, 101, dtype=np.uint64)
    bits[places] = 0
    assert cos_sin_tables._zeros(bits, places[0]).tolist() == places
