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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, Literal

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
from tests.conftest import Outcome
from tests.exit_codes import FILE_ERROR

Arrays = dict[str, NDArray[np.generic]]


def have_equal_arrays(found: Arrays, expected: Arrays) -> bool:
    return found.keys() == expected.keys() and all(
        np.array_equal(array, expected[name])
        and array.dtype.newbyteorder("=") == expected[name].dtype.newbyteorder("=")
        for name, array in found.items()
    )


def read_by_numpy(path: str) -> tuple[Arrays, Any]:
    """Return the arrays of an .npz file, and pecli's note, which is its member «pecli»."""
    with np.load(path, allow_pickle=False) as loaded:
        members = dict(loaded)
    note = json.loads(str(members.pop("pecli")))
    return members, note


def read_by_safetensors(path: str) -> tuple[Arrays, Any]:
    """Return the arrays of a .safetensors file, and pecli's note in its metadata."""
    with safe_open(path, "numpy") as file:
        note = json.loads(file.metadata()["pecli"])
    return safetensors.numpy.load_file(path), note


OFFICIAL_READERS = {"npz": read_by_numpy, "safetensors": read_by_safetensors}
STORED_ORDER = ["bias", "inv_freq", "cos"]
"""The order of the safetensors package, which .npz follows: larger elements first (float64, then
float32), and names by the alphabet among those of equal size.
"""


@pytest.mark.parametrize("kind", OFFICIAL_READERS)
def test_numpy_and_the_safetensors_package_read_what_is_written(
    working_folder: Path, arrays: Arrays, tables: list[Table], spec: dict, kind: str
) -> None:
    """`arrays` are the table cos in float32, and in float64 the vector inv_freq and a bias; `tables`
    are the same as pecli's tables. The official readers must find the same arrays, and the note
    `spec` with the SHA-256 of the data, in STORED_ORDER.
    """
    save_tables(f"a.{kind}", tables, spec)
    official_arrays, official_note = OFFICIAL_READERS[kind](f"a.{kind}")
    data = b"".join(arrays[name].tobytes() for name in STORED_ORDER)

    assert have_equal_arrays(official_arrays, arrays)
    assert official_note == {**spec, "sha256": hashlib.sha256(data).hexdigest()}


@pytest.mark.parametrize("kind", OFFICIAL_READERS)
def test_pecli_reads_what_it_writes(
    working_folder: Path, arrays: Arrays, tables: list[Table], spec: dict, kind: str
) -> None:
    """The arrays are those that were written, in STORED_ORDER; the note about them is the one that
    NumPy, or the safetensors package, finds in the file.
    """
    save_tables(f"a.{kind}", tables, spec)
    loaded = load_file(f"a.{kind}")
    _, official_note = OFFICIAL_READERS[kind](f"a.{kind}")

    assert list(loaded.tensors) == STORED_ORDER
    assert have_equal_arrays(dict(loaded.tensors), arrays)
    assert json.loads(loaded.metadata["pecli"]) == official_note


def test_members_of_an_archive_are_aligned_and_have_no_date(
    working_folder: Path, tables: list[Table], arrays: Arrays
) -> None:
    """`tables` are pecli's tables of the three `arrays`. Data at a multiple of 64 bytes can be
    mapped; 1980 is the earliest date of zip, so that equal tables are equal files.
    """
    save_tables("a.npz", tables, None)
    raw = Path("a.npz").read_bytes()

    assert [raw.index(array.tobytes()) % 64 for array in arrays.values()] == [0, 0, 0]
    with zipfile.ZipFile("a.npz") as archive:
        assert archive.testzip() is None
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_archives_of_numpy_are_read(
    working_folder: Path, arrays: Arrays, write: Callable[..., None]
) -> None:
    """NumPy writes arrays of many dtypes, one in Fortran's order under a name beyond ASCII, and
    zeros in big-endian order. `load` returns equal arrays.
    """
    saved = {
        **arrays,
        "größe/x": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "zeros": np.zeros((300, 1000), ">f4"),
    }
    write("a.npz", **saved)

    assert have_equal_arrays(dict(load_file("a.npz").tensors), saved)


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_an_empty_archive_of_numpy_is_read(
    working_folder: Path, write: Callable[..., None]
) -> None:
    """np.savez without arrays writes an archive without members."""
    write("a.npz")
    assert dict(load_file("a.npz").tensors) == {}


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_a_damaged_member_of_an_archive_is_named(
    working_folder: Path, write: Callable[..., None], run_pecli: Callable[..., Outcome]
) -> None:
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
    assert have_equal_arrays(safetensors.numpy.load_file("a.safetensors"), {"a": array})

    loaded = load_file("a.safetensors")
    assert loaded.metadata == {}
    assert loaded.tensors["a"].tobytes() == array.tobytes()


def test_larger_elements_are_stored_before_smaller_ones(working_folder: Path) -> None:
    """Two elements of 8 bytes take the places 0 to 16 of the data, although elements of 2 bytes
    were given first: behind 3 · 2 = 6 bytes they would not be aligned. So that the data are
    aligned as well, the length of the header is a multiple of 8.
    """
    small_elements = table_of("small", np.zeros(3, ml_dtypes.bfloat16))
    large_elements = table_of("large", np.zeros(2, np.float64))
    save_tables("a.safetensors", [small_elements, large_elements], None)
    raw = Path("a.safetensors").read_bytes()
    header_length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + header_length])

    assert header["large"]["data_offsets"] == [0, 16]
    assert header_length % 8 == 0


def test_files_of_the_safetensors_package_are_read(working_folder: Path, arrays: Arrays) -> None:
    """The metadata and a tensor's name hold quotes, backslashes and letters beyond ASCII, which
    JSON escapes.
    """
    metadata = {"format": "pt", 'quo"te': "back\\slash ünï \U0001f600 \n"}
    more = {**arrays, 'grö"ße': np.zeros((0, 3), "f2")}
    safetensors.numpy.save_file(more, "a.safetensors", metadata)
    loaded = load_file("a.safetensors")

    assert loaded.metadata == metadata
    assert have_equal_arrays(dict(loaded.tensors), more)


DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16"]
SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (3, 0), (0, 3), (5, 4), (2, 3, 4)]


def random_numbers(shape: tuple[int, ...], dtype: str) -> NDArray[np.generic]:
    return (
        (np.random.default_rng(1).random(shape) * 100 - 20)
        .astype(dtype.replace("u", "i"))
        .astype(dtype)
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_npy_file_has_the_bytes_that_np_save_writes(
    working_folder: Path, shape: tuple[int, ...]
) -> None:
    """A file of pecli is equal to that of np.save, header included, for every dtype of NumPy."""
    for dtype in DTYPES:
        array = random_numbers(shape, dtype)
        save_tables("a.npy", [table_of("a", array)], None)
        file = io.BytesIO()
        np.save(file, array)
        assert Path("a.npy").read_bytes() == file.getvalue(), dtype


@pytest.mark.parametrize("layout", ["C", "F"], ids=["rows first", "columns first"])
@pytest.mark.parametrize("byte_order", ["<", ">"], ids=["little-endian", "big-endian"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)], ids=str)
def test_npy_files_of_every_version_order_and_layout_are_read(
    working_folder: Path, version: tuple[int, int], byte_order: str, layout: Literal["C", "F"]
) -> None:
    """NumPy writes arrays of several dtypes and shapes; pecli reads the same numbers, in the byte
    order of the machine.
    """
    for dtype, shape in product(DTYPES[::2], SHAPES):
        stored_dtype = np.dtype(dtype).newbyteorder(byte_order)
        array = np.array(random_numbers(shape, dtype), stored_dtype, order=layout)
        with open("a.npy", "wb") as file:
            np.lib.format.write_array(file, array, version)
        loaded = load_file("a.npy")

        assert loaded.format == "npy"
        assert loaded.tensors["array"].dtype == np.dtype(dtype)
        np.testing.assert_array_equal(loaded.tensors["array"], array)
        assert loaded.tensors["array"].shape == shape


TWO_TO_THE_31_MINUS_1 = 2147483647


@pytest.mark.parametrize(
    ("header", "shape"),
    [
        pytest.param(
            '{"shape":(2,3),"descr":"<f4","fortran_order":False}', (2, 3), id="double quotes"
        ),
        pytest.param(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
            (2, 3),
            id="long integers of Python 2",
        ),
        pytest.param(
            "{ 'descr' : '=f4' , 'fortran_order' : False , 'shape' : ( 2 , 3 , ) , } \n",
            (2, 3),
            id="more spaces",
        ),
        pytest.param(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2147483647, 0)}",
            (TWO_TO_THE_31_MINUS_1, 0),
            id="many rows without elements",
        ),
        pytest.param(
            "{'descr': '<f4', 'fortran_order': True, 'shape': (2147483647, 0)}",
            (TWO_TO_THE_31_MINUS_1, 0),
            id="many rows without elements, columns first",
        ),
    ],
)
def test_npy_headers_of_other_writers_are_read(
    working_folder: Path, header: str, shape: tuple[int, int]
) -> None:
    """A file of version 1.0 is the mark \\x93NUMPY, the version, the length of the header in two
    bytes, the header, and the elements of 4 bytes each. Reading 2^31 − 1 rows without elements
    takes no time.
    """
    version = b"\x01\x00"
    length = len(header).to_bytes(2, "little")
    elements = bytes(4 * shape[0] * shape[1])
    Path("a.npy").write_bytes(b"\x93NUMPY" + version + length + header.encode() + elements)

    assert load_file("a.npy").tensors["array"].shape == shape


@pytest.mark.parametrize(
    ("suffix", "arrays", "problem"),
    [
        pytest.param(
            ".npy",
            {"a": np.zeros((2, 2), ml_dtypes.bfloat16)},
            r"dtype is bfloat16; \.npy cannot hold it",
            id="npy: bfloat16",
        ),
        pytest.param(
            ".npz",
            {"a": np.zeros(2, ml_dtypes.bfloat16)},
            r"\.npz cannot hold it; write \.safetensors",
            id="npz: bfloat16",
        ),
        pytest.param(
            ".npy",
            {"cos": np.zeros(2), "sin": np.ones(2)},
            "holds one array, not cos, sin; write .npz",
            id="npy: two arrays",
        ),
        pytest.param(
            ".safetensors", {"__metadata__": np.zeros(2)}, "reserved", id="safetensors: metadata"
        ),
        pytest.param(
            ".safetensors", {"a": np.zeros(2, complex)}, "cannot hold it", id="safetensors: complex"
        ),
    ],
)
def test_tables_that_a_format_cannot_hold_are_refused_and_the_old_file_stays(
    working_folder: Path, suffix: str, arrays: Arrays, problem: str
) -> None:
    """NumPy has no bfloat16, .npy holds one array, and safetensors reserves «__metadata__» and has
    no complex numbers. `save_tables` must refuse such tables and leave the existing file as it was.
    """
    path = "a" + suffix
    Path(path).write_bytes(b"old")
    tables = [table_of(name, array) for name, array in arrays.items()]

    with pytest.raises(ParameterError, match=problem):
        save_tables(path, tables, None)
    assert Path(path).read_bytes() == b"old"


@pytest.mark.parametrize(("major", "minor"), [(1, 1), (2, 1), (3, 1), (0, 0), (4, 0)])
def test_npy_versions_that_do_not_exist_are_refused_as_numpy_refuses_them(
    working_folder: Path, major: int, minor: int
) -> None:
    """Bytes 6 and 7 of a .npy file are its version; NumPy itself refuses the changed file, too."""
    np.save("a.npy", np.ones(3))
    data = bytearray(Path("a.npy").read_bytes())
    data[6:8] = major, minor
    Path("a.npy").write_bytes(data)

    with pytest.raises(ValueError, match="version"):
        np.load("a.npy")
    problem = rf"has \.npy version {major}\.{minor}, only 1\.0, 2\.0 and 3\.0 exist"
    with pytest.raises(FileError, match=problem):
        load_file("a.npy")


def test_the_version_of_the_shortest_npy_file_is_read(working_folder: Path) -> None:
    """Twelve bytes are the magic, the version, and the length of a header of version 2 or 3."""
    Path("a.npy").write_bytes(b"\x93NUMPY\x04\x00" + bytes(4))
    with pytest.raises(FileError, match=r"has \.npy version 4\.0"):
        load_file("a.npy")


def test_bfloat16_that_numpy_wrote_without_a_name_is_read(working_folder: Path) -> None:
    """NumPy has no name for bfloat16, and writes elements of two bytes of no kind (V2); they are
    read as bfloat16.
    """
    array = np.array([[1.5, -2.0], [0.0, 3.0]]).astype(ml_dtypes.bfloat16)
    np.save("x.npy", array)
    np.savez("x.npz", cos=array)
    assert b"V2" in Path("x.npy").read_bytes()[:128]

    assert have_equal_arrays(load("x.npy"), {"array": array})
    assert have_equal_arrays(load("x.npz"), {"cos": array})


def test_headers_are_read_correctly_by_several_threads_at_once(working_folder: Path) -> None:
    """The header of a .npy file is a Python literal. In Python 3.11, ast.literal_eval fails with
    «AST constructor recursion depth mismatch» if another thread parses before it is done
    (python/cpython#106905). Here each collection of garbage, after every 5 objects, lets another
    thread in, while 8 threads read a file 400 times; every time its shape must be (3, 4).
    """
    np.save("x.npy", np.arange(12.0).reshape(3, 4))
    usual = gc.get_threshold()
    interval = sys.getswitchinterval()
    gc.callbacks.append(lambda *_: time.sleep(0))  # Another thread goes on meanwhile.
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
    """A name in a zip archive has at most 2^16 − 1 = 65,535 bytes, of which «.npy» takes 4."""
    longest = "a" * (65_535 - len(".npy"))
    save_tables("a.npz", [table_of(longest, np.zeros(1))], None)

    assert [*load("a.npz")] == [longest]
    with pytest.raises(ParameterError, match="at most 65,531 bytes"):
        save_tables("a.npz", [table_of(f"{longest}a", np.zeros(1))], None)
