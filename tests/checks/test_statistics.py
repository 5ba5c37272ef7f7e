"""What is told of a table is what NumPy finds in it, however it is cut into slices."""

import hashlib
import math

import ml_dtypes
import numpy as np
import pytest

from pecli.checks import statistics
from pecli.checks.statistics import SHARES, described, profile
from pecli.engine.table import table_of


@pytest.fixture(params=[1 << 16, 60], ids=["one slice", "many"])
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "SLICE_ELEMENTS", request.param)
    monkeypatch.setattr(
        statistics, "SAMPLED", request.param
    )  # elements that say where quantiles lie


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int32]
)
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


def test_quantiles_of_a_table_whose_sample_is_not_fair() -> None:
    array = np.where(np.arange(1 << 18) % 5, 0, 1)[:, None]  # every fifth element is looked at
    assert list(profile(array)["quantiles"].values()) == [0, 0, 0, 0, 1]


@pytest.mark.usefixtures("slices")
def test_constant_rows_are_counted() -> None:
    array = np.random.default_rng(2).standard_normal((90, 17)).astype(np.float32)
    array[[5, 70]] = 2.5
    assert profile(array)["rows"]["constant"] == 2


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_blocks_do_not_matter(rows: int, monkeypatch) -> None:
    array = np.random.default_rng(1).standard_normal((101, 7)).astype(np.float32)
    whole = described(table_of("t", array))
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", rows * 7 * 4)
    found = described(table_of("t", array))
    assert (found["min"], found["max"]) == (array.min(), array.max())
    assert found["mean"] == pytest.approx(array.astype(np.float64).mean(), abs=1e-15)
    assert found["sha256"] == hashlib.sha256(array.tobytes()).hexdigest()
    assert whole == found
