"""Binary formats, .npy, .npz and .safetensors: as NumPy, zipfile and the official library read and write them."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from itertools import product
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import safe_open

from pecli.engine.table import Table, table_of
from pecli.errors import FileError, ParameterError
from pecli.files import save_tables
from pecli.files.load import load, load_file

Arrays = dict[str, NDArray[np.generic]]


def test_numpy_and_zipfile_read_it(folder: Path, arrays: Arrays, tables: list[Table], spec: dict[str, object]) -> None:
    save_tables("a.npz", tables, spec)
    with np.load("a.npz", allow_pickle=False) as loaded:
        assert sorted(loaded.files) == ["bias", "cos", "inv_freq", "pecli"]
        for name, array in arrays.items():
            assert np.array_equal(loaded[name], array)
        noted = json.loads(str(loaded["pecli"]))
    assert {key: noted[key] for key in spec} == spec
    order = [arrays[name] for name in ("bias", "inv_freq", "cos")]
    assert noted["sha256"] == hashlib.sha256(b"".join(array.tobytes() for array in order)).hexdigest()
    with zipfile.ZipFile("a.npz") as archive:
        assert archive.testzip() is None
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
    found = load_file("a.npz")
    found.check()
    assert list(found.tensors) == ["bias", "inv_freq", "cos"]
    assert all(np.array_equal(array, arrays[name]) for name, array in found.tensors.items())
    assert json.loads(found.metadata["pecli"]) == noted


def test_the_data_is_aligned(folder: Path, tables: list[Table], arrays: Arrays) -> None:
    save_tables("a.npz", tables, None)
    raw = Path("a.npz").read_bytes()
    for array in arrays.values():
        assert raw.index(array.tobytes()) % 64 == 0


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(folder: Path, arrays: Arrays, write: object) -> None:
    more = {
        **arrays,
        "größe/x": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "zeros": np.zeros((300, 1000), ">f4"),
    }
    write("a.npz", **more)  # type: ignore[operator]
    with load_file("a.npz") as loaded:
        assert set(loaded.tensors) == set(more)
        for name, array in loaded.tensors.items():
            assert np.array_equal(array, more[name])
        loaded.check()


def test_damage_is_found_by_the_checksum(folder: Path) -> None:
    for write in (np.savez, np.savez_compressed):
        write("a.npz", a=np.arange(1000.0))
        raw = bytearray(Path("a.npz").read_bytes())
        raw[500] ^= 1
        Path("a.npz").write_bytes(raw)
        with pytest.raises(FileError, match=r"member 'a\.npy' is damaged"):
            load_file("a.npz").check()


@pytest.mark.parametrize("name", ["pecli", "../a", "/a", "a\\b", "", "a/../b"])
def test_names_that_lead_elsewhere_are_not_written(folder: Path, name: str) -> None:
    with pytest.raises(ParameterError, match="cannot be called that"):
        save_tables("a.npz", [table_of(name, np.zeros(2))], None)


def test_names_as_long_as_an_archive_has_room_for(folder: Path) -> None:
    longest = "ü" * 32_765 + "y"
    save_tables("a.npz", [table_of(longest, np.arange(3.0))], None)
    assert np.load("a.npz").files == [longest]
    with load_file("a.npz") as loaded:
        assert list(loaded.tensors) == [longest]
    with pytest.raises(ParameterError, match=r"at most 65,531 bytes; write \.safetensors"):
        save_tables("b.npz", [table_of(longest + "y", np.arange(3.0))], None)
    assert not Path("b.npz").exists()


def test_a_compressed_file_is_inspected_by_its_headers(folder: Path, pecli_cli) -> None:
    """Data that cannot be unpacked are no obstacle, until they are asked for."""
    np.savez_compressed("a.npz", a=np.random.default_rng(0).random((300, 40)))
    raw = bytearray(Path("a.npz").read_bytes())
    raw[len(raw) // 2] ^= 1
    Path("a.npz").write_bytes(raw)
    assert pecli_cli("inspect", "a.npz", "--json").json["tensors"][0]["shape"] == [300, 40]
    assert pecli_cli("inspect", "a.npz", "--stats").code == 3


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
