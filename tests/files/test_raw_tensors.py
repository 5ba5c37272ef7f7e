"""Rows looked at where they lie in a file, and those that have to be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.files import open_tensors
from pecli.files.raw_tensors import mapped_rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int8, np.complex64, ml_dtypes.bfloat16])
def test_rows_are_seen_as_they_are_read(tmp_path: Path, dtype) -> None:
    values = np.random.default_rng(0).integers(0, 99, (3000, 7)).astype(dtype)
    path = tmp_path / "x.safetensors"
    pecli.save(path, {"first": np.zeros(3, np.int8), "values": values})
    with open_tensors(str(path)) as file:
        table = next(table for table in file.tables if table.name == "values")
        for start, stop in ((0, 3000), (0, 1), (1234, 1300), (2999, 3000)):
            seen = mapped_rows(table, start, stop)
            if seen is not None:  # they may lie at odd bytes
                assert not seen.flags.writeable
                assert seen.tobytes() == values[start:stop].tobytes()
                assert (seen.dtype, seen.shape) == (values.dtype, (stop - start, 7))


def test_what_must_be_changed_or_made_is_not_looked_at(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(3, 4)
    arrays = {
        "plain": values,
        "swapped": values.astype(">f8"),
        "columns": np.asfortranarray(values),
        "flags": values > 3,
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.savez_compressed(tmp_path / "packed.npz", values)
    for name in [*(f"{name}.npy" for name in arrays), "packed.npz"]:
        with open_tensors(str(tmp_path / name)) as file:
            seen = mapped_rows(file.tables[0], 1, 3)
            assert (seen is None) == (name != "plain.npy")
    with open_tensors(str(tmp_path / "plain.npy")) as file:
        table = file.tables[0]
        assert mapped_rows(replace(table, fill=lambda start, out: None), 0, 1) is None
    assert mapped_rows(pecli.Sinusoidal(8, 4).tensors()[0], 0, 8) is None
