""".npy files: what np.save writes, and everything that np.load reads without a pickle."""

from __future__ import annotations

import io
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pecli.engine.table import table_of
from pecli.errors import FileError, ParameterError
from pecli.files import save_tables
from pecli.files.load import load, load_file

DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16"]
SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (7,), (3, 0), (0, 3), (5, 4), (2, 3, 4), (2, 3, 4, 5)]


def numbers(shape: tuple[int, ...], dtype: str) -> NDArray[np.generic]:
    return (
        (np.random.default_rng(1).random(shape) * 100 - 20).astype("f8").astype(dtype.replace("u", "i")).astype(dtype)
    )


def saved(array: NDArray[np.generic]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_the_bytes_are_those_of_np_save(folder: Path) -> None:
    for dtype, shape in product(DTYPES, SHAPES):
        array = numbers(shape, dtype)
        save_tables("a.npy", [table_of("a", array)], None)
        assert Path("a.npy").read_bytes() == saved(array), (dtype, shape)


def test_what_numpy_writes_is_read_in_every_version(folder: Path) -> None:
    versions = [(1, 0), (2, 0), (3, 0)]
    for dtype, shape, order, layout in product(DTYPES, SHAPES, "<>", "CF"):
        array = np.array(numbers(shape, dtype), order + np.dtype(dtype).str[1:], order=layout)  # type: ignore[call-overload]
        with open("a.npy", "wb") as file:
            np.lib.format.write_array(file, array, versions[len(shape) % 3])
        loaded = load_file("a.npy")
        found = loaded.tensors["array"]
        assert (loaded.format, found.shape, found.dtype) == ("npy", shape, np.dtype(dtype))
        assert np.array_equal(found, array)


@pytest.mark.parametrize("fortran", ["False", "True"])
def test_rows_without_elements_take_no_time(folder: Path, fortran: str) -> None:
    text = f"{{'descr': '<f4', 'fortran_order': {fortran}, 'shape': (2147483647, 0)}}"
    Path("a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())
    with load_file("a.npy") as loaded:
        assert loaded.tensors["array"].shape == (2147483647, 0)


@pytest.mark.parametrize(
    "text",
    [
        '{"shape":(2,3),"descr":"<f4","fortran_order":False}',
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
        "{ 'descr' : '=f4' , 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , } \n",
    ],
)
def test_headers_of_other_writers_are_read(folder: Path, text: str) -> None:
    Path("a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(24))
    with load_file("a.npy") as loaded:
        assert loaded.tensors["array"].shape == (2, 3)


def test_bfloat16_is_refused_before_the_output_is_touched(folder: Path) -> None:
    import ml_dtypes

    table = table_of("a", np.zeros((2, 2), ml_dtypes.bfloat16))
    for suffix in (".npy", ".npz"):
        Path("a" + suffix).write_bytes(b"old")
        with pytest.raises(
            ParameterError, match=f"dtype is bfloat16; {suffix} cannot hold it; write .safetensors or .h"
        ):
            save_tables("a" + suffix, [table], None)
        assert Path("a" + suffix).read_bytes() == b"old"


def test_several_arrays_need_another_format(folder: Path) -> None:
    tables = [table_of("cos", np.zeros(2)), table_of("sin", np.ones(2))]
    with pytest.raises(ParameterError, match=r"holds one array, not cos, sin; write .npz or .safetensors"):
        save_tables("a.npy", tables, None)
    save_tables("a.npy", tables[1:], None)
    assert np.load("a.npy").tolist() == [1, 1]


@pytest.mark.parametrize(("major", "minor"), [(1, 1), (2, 1), (3, 1), (0, 0), (4, 0)])
def test_versions_that_do_not_exist_are_refused_as_numpy_refuses_them(tmp_path: Path, major: int, minor: int) -> None:
    np.save(tmp_path / "a.npy", np.ones(3))
    data = bytearray((tmp_path / "a.npy").read_bytes())
    data[6:8] = major, minor
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(ValueError, match="version"):
        np.load(tmp_path / "a.npy")
    with pytest.raises(FileError, match=rf"has \.npy version {major}\.{minor}, only 1\.0, 2\.0 and 3\.0 exist"):
        load_file(str(tmp_path / "a.npy"))


def test_bfloat16_as_np_save_writes_it(folder: Path) -> None:
    """NumPy has no name for it, and writes two bytes of no kind."""
    import ml_dtypes

    array = np.array([[1.5, -2.0], [0.0, 3.0]]).astype(ml_dtypes.bfloat16)
    np.save("x.npy", array)
    np.savez("x.npz", cos=array)
    assert b"V2" in Path("x.npy").read_bytes()[:128]
    for found in (load("x.npy")["array"], load("x.npz")["cos"]):
        assert found.dtype == array.dtype
        assert found.tolist() == array.tolist()
