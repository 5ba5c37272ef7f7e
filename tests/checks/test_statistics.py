"""What is told of a table is what NumPy finds in it, however it is cut into slices."""

import hashlib
import math

import ml_dtypes
import numpy as np
import pytest

from pecli.checks import statistics
from pecli.checks.statistics import SHARES, Statistics, profile
from pecli.engine.table import table_of


@pytest.fixture(params=[1 << 16, 60], ids=["one slice", "many"])
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "SLICE_ELEMENTS", request.param)


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int32])
def test_values(dtype: type) -> None:
    array = (np.random.default_rng(1).standard_normal((97, 33)) * 50).astype(dtype)
    array[3, 4] = 0
    found, values = profile(array), array.astype(np.float64)
    ordered = np.sort(values, axis=None)
    expected = {f"{share:g}": float(ordered[int(share * (array.size - 1))]) for share in SHARES}
    assert found["quantiles"] == expected
    assert math.isclose(found["std"], values.std(), rel_tol=1e-12)
    assert found["zeros"] == np.count_nonzero(values == 0)
    norms = np.linalg.norm(values, axis=1)
    assert math.isclose(found["rows"]["norm"]["mean"], norms.mean(), rel_tol=1e-12)
    assert math.isclose(found["rows"]["norm"]["max"], norms.max(), rel_tol=1e-12)


def test_quantiles_beyond_float32() -> None:
    array = np.array([-1e300, -1e-300, 0.1, 2e-310, 1e200])
    assert profile(array)["quantiles"] == {"0.01": -1e300, "0.25": -1e-300, "0.5": 2e-310, "0.75": 0.1, "0.99": 0.1}
    assert profile(np.array([2**24 + 1, 2**40 + 1]))["quantiles"]["0.5"] == 2**24 + 1


@pytest.mark.usefixtures("slices")
def test_constant_rows_are_counted() -> None:
    array = np.random.default_rng(2).standard_normal((90, 17)).astype(np.float32)
    array[[5, 70]] = 2.5
    assert profile(array)["rows"]["constant"] == 2


def test_what_is_not_finite_or_complex_is_counted() -> None:
    array = np.array([[1.0, np.nan], [np.inf, 3.0], [2.0, -np.inf]], np.float32)
    found = profile(array)
    assert (found["nan"], found["inf"], found["quantiles"]["0.5"]) == (1, 2, 2.0)
    assert found["mean"] is None
    assert found["std"] is None
    found = profile(np.array([[0, 1j, complex(1, np.nan), complex(-np.inf, 2)]], np.complex64))
    assert (found["zeros"], found["nan"], found["inf"], found["min"], found["quantiles"]) == (1, 1, 1, None, None)


ODD = [np.empty((0, 3)), np.empty(0), np.array(4.0), np.array([1j]), np.full((2, 2), np.nan), np.full((2, 2), -1e308)]


@pytest.mark.parametrize("array", ODD, ids=str)
def test_odd_tables_have_no_deviation_and_give_no_warning(array: np.ndarray) -> None:
    assert profile(array)["std"] in (None, 0.0)


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_blocks_do_not_matter(rows: int) -> None:
    array = np.random.default_rng(1).standard_normal((101, 7)).astype(np.float32)
    table = table_of("t", array)
    statistics, single = Statistics(table), Statistics(table)
    for block in table.blocks(rows):
        statistics.add(block)
    for block in table.blocks(1):
        single.add(block)
    found = statistics.as_json()
    assert (found["min"], found["max"]) == (array.min(), array.max())
    assert found["mean"] == pytest.approx(array.astype(np.float64).mean(), abs=1e-15)
    assert found["sha256"] == hashlib.sha256(array.tobytes()).hexdigest()
    assert single.as_json() == found
