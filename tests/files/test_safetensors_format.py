""".safetensors files: read by the official library, and what that writes read here."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import safe_open

from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError
from pecli.files import save_tables
from pecli.files.load import load_file

Arrays = dict[str, NDArray[np.generic]]


def test_the_official_library_reads_it(
    folder: Path, arrays: Arrays, tables: list[Table], spec: dict[str, object]
) -> None:
    save_tables("a.safetensors", tables, spec)
    loaded = safetensors.numpy.load_file("a.safetensors")
    assert sorted(loaded) == sorted(arrays)
    for name, array in arrays.items():
        assert np.array_equal(loaded[name], array)
        assert loaded[name].dtype == array.dtype
    with safe_open("a.safetensors", "numpy") as file:
        noted = json.loads(file.metadata()["pecli"])
    assert {key: noted[key] for key in spec} == spec
    order = [arrays[name] for name in ("bias", "inv_freq", "cos")]
    assert noted["sha256"] == hashlib.sha256(b"".join(array.tobytes() for array in order)).hexdigest()


@pytest.mark.parametrize(
    "dtype", ["f8", "f4", "f2", ml_dtypes.bfloat16, "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"], ids=str
)
def test_every_dtype_there_and_back(folder: Path, dtype: object) -> None:
    array = np.arange(12).reshape(3, 4).astype(dtype)  # type: ignore[call-overload]
    save_tables("a.safetensors", [table_of("a", array)], None)
    official = safetensors.numpy.load_file("a.safetensors")["a"]
    assert official.dtype == array.dtype
    assert official.tobytes() == array.tobytes()
    with load_file("a.safetensors") as loaded:
        assert loaded.metadata == {}
        assert loaded.tensors["a"].tobytes() == array.tobytes()


def test_small_elements_do_not_misalign_large_ones(folder: Path) -> None:
    save_tables("a.safetensors", [table_of("a", np.zeros(3, ml_dtypes.bfloat16)), table_of("b", np.zeros(2))], None)
    raw = Path("a.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    assert header["b"]["data_offsets"] == [0, 16]
    assert int.from_bytes(raw[:8], "little") % 8 == 0


def test_what_the_official_library_writes_is_read(folder: Path, arrays: Arrays) -> None:
    metadata = {"format": "pt", 'quo"te': "back\\slash ünï \U0001f600 \n"}
    safetensors.numpy.save_file({**arrays, 'grö"ße': np.zeros((0, 3), "f2")}, "a.safetensors", metadata)
    with load_file("a.safetensors") as loaded:
        assert loaded.metadata == metadata
        assert len(loaded.tensors) == 4
        for name, array in loaded.tensors.items():
            assert np.array_equal(array, arrays.get(name, np.zeros((0, 3))))


def test_reserved_names_and_unknown_dtypes_are_not_written(folder: Path) -> None:
    with pytest.raises(ParameterError, match="reserved"):
        save_tables("a.safetensors", [table_of("__metadata__", np.zeros(2))], None)
    with pytest.raises(ParameterError, match="cannot hold it"):
        save_tables("a.safetensors", [table_of("a", np.zeros(2, complex))], None)
    assert list(folder.iterdir()) == []
