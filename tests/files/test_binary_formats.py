"""The binary formats .npy, .npz and .safetensors are those of NumPy, zipfile and the safetensors
package.

What pecli writes is read back by these libraries, and what they write is read by pecli; expected
arrays, bytes and names come from them or from the arrays that the test made. The fixture `arrays`
has a float32 table «cos» with infinities, a float64 vector «inv_freq» and a «bias» of three axes;
`tables` are the same as pecli's tables, and `spec` is the note about their origin that is stored
with them.
"""

import gc
import hashlib
import io
import json
import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

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
from tests.exit_codes import FILE_ERROR

Arrays = dict[str, NDArray[np.generic]]


def are_equal(found: Arrays, expected: Arrays) -> bool:
    return found.keys() == expected.keys() and all(
        np.array_equal(array, expected[name])
        and array.dtype.newbyteorder("=") == expected[name].dtype.newbyteorder("=")
        for name, array in found.items()
    )


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_numpy_and_the_official_library_read_what_is_written(
    working_folder: Path, arrays: Arrays, tables: list[Table], spec: dict, kind: str
) -> None:
    """The stored SHA-256 is that of the data in the order of the file: larger elements first."""
    save_tables(f"a.{kind}", tables, spec)
    if kind == "npz":
        with np.load("a.npz", allow_pickle=False) as loaded:
            others = dict(loaded)
        noted = json.loads(str(others.pop("pecli")))
    else:
        others = safetensors.numpy.load_file("a.safetensors")
        with safe_open("a.safetensors", "numpy") as file:
            noted = json.loads(file.metadata()["pecli"])

    assert are_equal(others, arrays)

    order = ["bias", "inv_freq", "cos"]
    digest = hashlib.sha256(b"".join(arrays[name].tobytes() for name in order)).hexdigest()
    assert noted == {**spec, "sha256": digest}

    found = load_file(f"a.{kind}")
    assert list(found.tensors) == order
    assert json.loads(found.metadata["pecli"]) == noted
    assert are_equal(dict(found.tensors), arrays)


def test_members_are_stored_aligned_and_without_a_date(
    working_folder: Path, tables: list[Table], arrays: Arrays
) -> None:
    """A multiple of 64 bytes lets the data be mapped; 1980 is the earliest date of zip, so that
    equal tables are equal files.
    """
    save_tables("a.npz", tables, None)
    raw = Path("a.npz").read_bytes()

    assert [raw.index(array.tobytes()) % 64 for array in arrays.values()] == [0, 0, 0]
    with zipfile.ZipFile("a.npz") as archive:
        assert archive.testzip() is None
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_archives_of_numpy_are_read(working_folder: Path, arrays: Arrays, write) -> None:
    """NumPy writes arrays of many dtypes, one in Fortran's order under a name beyond ASCII, and
    zeros in big-endian order; or no array at all. `load_file` returns equal arrays.
    """
    fortran = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    more = {**arrays, "größe/x": fortran, "zeros": np.zeros((300, 1000), ">f4")}

    for held in (more, {}):
        write("a.npz", **held)
        assert are_equal(dict(load_file("a.npz").tensors), held)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_a_damaged_member_of_an_archive_is_named(working_folder: Path, write, run_pecli) -> None:
    """One flipped bit in the middle of the file contradicts the checksum of zip. `pecli inspect`
    still lists the shape, which the member's header has, but computes no statistics.
    """
    write("a.npz", a=np.random.default_rng(0).random((300, 40)))
    raw = bytearray(Path("a.npz").read_bytes())
    raw[len(raw) // 2] ^= 1
    Path("a.npz").write_bytes(raw)

    with pytest.raises(FileError, match=r"member 'a\.npy' is damaged"):
        dict(load_file("a.npz").tensors)

    (tensor,) = run_pecli("inspect", "a.npz", "--json").json["tensors"]
    assert tensor["shape"] == [300, 40]
    assert run_pecli("inspect", "a.npz", "--stats").exit_code == FILE_ERROR


@pytest.mark.parametrize("name", ["pecli", "../a", "/a", "a\\b", "", "a/../b"])
def test_names_that_lead_elsewhere_are_not_written(working_folder: Path, name: str) -> None:
    """A member named so could leave the folder in which an archive is unpacked; «pecli» is the
    member of pecli's own notes.
    """
    with pytest.raises(ParameterError, match="cannot be called that"):
        save_tables("a.npz", [table_of(name, np.zeros(2))], None)


def test_a_name_that_is_too_long_in_bytes_for_an_archive_is_refused(working_folder: Path) -> None:
    """A name in a zip archive has at most 65,535 bytes, «.npy» included, so 65,531 are left; ü has
    two bytes.
    """
    longest = "ü" * 32_765 + "y"
    save_tables("a.npz", [table_of(longest, np.arange(3.0))], None)

    assert np.load("a.npz").files == list(load("a.npz")) == [longest]
    with pytest.raises(ParameterError, match=r"at most 65,531 bytes; write \.safetensors"):
        save_tables("b.npz", [table_of(longest + "y", np.arange(3.0))], None)
    assert not Path("b.npz").exists()


@pytest.mark.parametrize(
    "dtype",
    [
        *("f8", "f4", "f2", ml_dtypes.bfloat16),
        *("i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"),
    ],
)
def test_every_dtype_of_safetensors_is_written_and_read_back(
    working_folder: Path, dtype: Any
) -> None:
    """The official library reads what pecli writes, and pecli reads its own file, to the last byte."""
    array = np.arange(12).reshape(3, 4).astype(dtype)
    save_tables("a.safetensors", [table_of("a", array)], None)
    assert are_equal(safetensors.numpy.load_file("a.safetensors"), {"a": array})

    loaded = load_file("a.safetensors")
    assert loaded.metadata == {}
    assert loaded.tensors["a"].tobytes() == array.tobytes()


def test_small_elements_do_not_misalign_large_ones(working_folder: Path) -> None:
    """The float64 tensor «b» comes first in the data, at 0 to 16, although «a», with elements of
    two bytes, was given first; the header's length is a multiple of 8.
    """
    save_tables(
        "a.safetensors",
        [table_of("a", np.zeros(3, ml_dtypes.bfloat16)), table_of("b", np.zeros(2))],
        None,
    )
    raw = Path("a.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")

    assert json.loads(raw[8 : 8 + length])["b"]["data_offsets"] == [0, 16]
    assert length % 8 == 0


def test_files_of_the_safetensors_package_are_read(working_folder: Path, arrays: Arrays) -> None:
    """The metadata and a tensor's name hold quotes, backslashes and letters beyond ASCII, which
    JSON escapes.
    """
    metadata = {"format": "pt", 'quo"te': "back\\slash ünï \U0001f600 \n"}
    more = {**arrays, 'grö"ße': np.zeros((0, 3), "f2")}
    safetensors.numpy.save_file(more, "a.safetensors", metadata)
    loaded = load_file("a.safetensors")

    assert loaded.metadata == metadata
    assert are_equal(dict(loaded.tensors), more)


DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16"]
SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (3, 0), (0, 3), (5, 4), (2, 3, 4)]


def random_numbers(shape: tuple[int, ...], dtype: str) -> NDArray[np.generic]:
    return (
        (np.random.default_rng(1).random(shape) * 100 - 20)
        .astype(dtype.replace("u", "i"))
        .astype(dtype)
    )


def test_an_npy_file_has_the_bytes_that_np_save_writes(working_folder: Path) -> None:
    """A file of pecli is equal to that of np.save, header included, for every dtype and shape."""
    for dtype, shape in product(DTYPES, SHAPES):
        array = random_numbers(shape, dtype)
        save_tables("a.npy", [table_of("a", array)], None)
        file = io.BytesIO()
        np.save(file, array)
        assert Path("a.npy").read_bytes() == file.getvalue(), (dtype, shape)


def test_npy_files_of_every_version_order_and_layout_are_read(working_folder: Path) -> None:
    """Versions 1.0, 2.0 and 3.0 of the .npy header, both byte orders, rows first (C) and columns
    first (F).
    """
    versions = [(1, 0), (2, 0), (3, 0)]
    for dtype, shape, order, layout in product(DTYPES[::2], SHAPES, "<>", "CF"):
        array = np.array(
            random_numbers(shape, dtype), order + np.dtype(dtype).str[1:], order=layout
        )  # type: ignore[call-overload]
        with open("a.npy", "wb") as file:
            np.lib.format.write_array(file, array, versions[len(shape) % 3])
        loaded = load_file("a.npy")
        found = loaded.tensors["array"]
        assert loaded.format == "npy"
        assert found.shape == shape
        assert found.dtype == np.dtype(dtype)
        assert np.array_equal(found, array)


HEADERS_AND_SHAPES = {
    '{"shape":(2,3),"descr":"<f4","fortran_order":False}': (2, 3),
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }": (2, 3),
    "{ 'descr' : '=f4' , 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , } \n": (2, 3),
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2147483647, 0)}": (
        2147483647,
        0,
    ),  # takes no time
    "{'descr': '<f4', 'fortran_order': True, 'shape': (2147483647, 0)}": (2147483647, 0),
}


@pytest.mark.parametrize("text", HEADERS_AND_SHAPES)
def test_headers_of_other_writers_are_read(working_folder: Path, text: str) -> None:
    """Headers with double quotes, the L of Python 2, and other spaces; an array without elements
    may claim 2^31 − 1 rows, and takes no time.
    """
    shape = HEADERS_AND_SHAPES[text]
    data = (
        b"\x93NUMPY\x01\x00"
        + len(text).to_bytes(2, "little")
        + text.encode()
        + bytes(4 * shape[0] * shape[1])
    )
    Path("a.npy").write_bytes(data)

    assert load_file("a.npy").tensors["array"].shape == shape


REFUSED_TABLES = [
    (
        ".npy",
        [table_of("a", np.zeros((2, 2), ml_dtypes.bfloat16))],
        r"dtype is bfloat16; \.npy cannot hold it",
    ),
    (
        ".npz",
        [table_of("a", np.zeros(2, ml_dtypes.bfloat16))],
        r"\.npz cannot hold it; write \.safetensors",
    ),
    (
        ".npy",
        [table_of("cos", np.zeros(2)), table_of("sin", np.ones(2))],
        "holds one array, not cos, sin; write .npz",
    ),
    (".safetensors", [table_of("__metadata__", np.zeros(2))], "reserved"),
    (".safetensors", [table_of("a", np.zeros(2, complex))], "cannot hold it"),
]


@pytest.mark.parametrize(
    ("suffix", "tables", "problem"), REFUSED_TABLES, ids=[row[2] for row in REFUSED_TABLES]
)
def test_tables_that_a_format_cannot_hold_are_refused_and_the_old_file_stays(
    working_folder: Path, suffix: str, tables: list[Table], problem: str
) -> None:
    """NumPy has no bfloat16, .npy holds one array, and safetensors reserves «__metadata__» and has
    no complex numbers. `save_tables` must refuse such tables and leave the existing file as it was.
    """
    Path("a" + suffix).write_bytes(b"old")
    with pytest.raises(ParameterError, match=problem):
        save_tables("a" + suffix, tables, None)
    assert Path("a" + suffix).read_bytes() == b"old"


@pytest.mark.parametrize(("major", "minor"), [(1, 1), (2, 1), (3, 1), (0, 0), (4, 0)])
def test_versions_that_do_not_exist_are_refused_as_numpy_refuses_them(
    working_folder: Path, major: int, minor: int
) -> None:
    """Bytes 6 and 7 of a .npy file are its version; NumPy itself refuses the changed file, too."""
    np.save("a.npy", np.ones(3))
    data = bytearray(Path("a.npy").read_bytes())
    data[6:8] = major, minor
    Path("a.npy").write_bytes(data)

    with pytest.raises(ValueError, match="version"):
        np.load("a.npy")
    with pytest.raises(
        FileError, match=rf"has \.npy version {major}\.{minor}, only 1\.0, 2\.0 and 3\.0 exist"
    ):
        load_file("a.npy")


def test_bfloat16_is_read_as_np_save_writes_it(working_folder: Path) -> None:
    """NumPy has no name for it, and writes elements of two bytes of no kind (V2); they are read as
    bfloat16.
    """
    array = np.array([[1.5, -2.0], [0.0, 3.0]]).astype(ml_dtypes.bfloat16)
    np.save("x.npy", array)
    np.savez("x.npz", cos=array)

    assert b"V2" in Path("x.npy").read_bytes()[:128]
    assert are_equal(
        {"npy": load("x.npy")["array"], "npz": load("x.npz")["cos"]}, {"npy": array, "npz": array}
    )


def test_headers_are_read_correctly_by_several_threads_at_once(working_folder: Path) -> None:
    """Python 3.11 parses in one thread at a time; here every collection of garbage lets another one
    in. The file is read 400 times by 8 threads.
    """
    np.save("x.npy", np.arange(12.0).reshape(3, 4))
    usual = gc.get_threshold()
    interval = sys.getswitchinterval()
    gc.callbacks.append(lambda *_: time.sleep(0))
    gc.set_threshold(5, 2, 2)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            shapes = {file.tensors["array"].shape for file in pool.map(load_file, ["x.npy"] * 400)}
    finally:
        gc.callbacks.pop()
        gc.set_threshold(*usual)
        sys.setswitchinterval(interval)

    assert shapes == {(3, 4)}


def test_a_name_of_65531_letters_is_stored_in_an_archive_and_a_longer_one_refused(
    working_folder: Path,
) -> None:
    """A name in a zip archive has at most 65,535 bytes, «.npy» included."""
    name = "a" * (0xFFFF - len(".npy"))
    save_tables("a.npz", [table_of(name, np.zeros(1))], None)

    assert [*load("a.npz")] == [name]
    with pytest.raises(ParameterError, match="at most 65,531 bytes"):
        save_tables("a.npz", [table_of(f"{name}a", np.zeros(1))], None)
