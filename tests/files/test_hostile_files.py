"""Hostile files, in which headers lie, records contradict each other, or bytes are damaged: a
FileError of one line, soon and in little memory; and failing writes leave no half file.

Files are made here byte by byte from the specifications of .npy, .npz (zip, PKWARE's APPNOTE.TXT)
and .safetensors. Each is refused for the one mistake that it has, and the message names the
mistake. `is_read` also fails if anything but a FileError of less than 300 letters is raised.
"""

import io
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pecli.engine.table import table_of
from pecli.errors import FileError
from pecli.files import save_tables
from pecli.files.load import load
from tests.exit_codes import SUCCESS
from tests.files.conftest import ENVIRONMENT, SPEC, count_refused_mutations, is_read
from tests.tools.campaigns.faults import attempt_writer

pytestmark = pytest.mark.usefixtures("working_folder")


def assert_refused(data: bytes, problem: str) -> None:
    """Assert that reading these bytes, header and data, fails with that problem, in one line."""
    Path("hostile").write_bytes(data)
    assert not is_read("hostile")
    with pytest.raises(FileError, match=problem):
        load("hostile")


def npy_file(text: str, data: bytes = b"", version: int = 1) -> bytes:
    """Return a .npy file with this header and these elements."""
    width = 2 if version == 1 else 4
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + len(text).to_bytes(width, "little")
        + text.encode()
        + data
    )


def npy_header(descr: str = "'<f4'", fortran: str = "False", shape: str = "(2, 3)") -> str:
    """Return a good header of 2 × 3 float32 numbers (24 bytes), or one with a changed field."""
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def npy_file_with_a_pickle() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}, None], object), allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(
            npy_file_with_a_pickle(),
            r"holds Python objects \(a pickle\), which are never loaded",
            id="pickled objects",
        ),
        pytest.param(
            pickle.dumps([1, 2]),
            "is a pickle without an archive around it, and those are never loaded; write the",
            id="a bare pickle",
        ),
        pytest.param(npy_file(npy_header("'|O'"), bytes(24)), "pickle", id="object dtype"),
        pytest.param(
            npy_file(npy_header("[('a', '<f4')]"), bytes(24)), "structured", id="structured dtype"
        ),
        pytest.param(npy_file(npy_header("'<U3'"), bytes(72)), "only plain numbers", id="texts"),
        pytest.param(npy_file(npy_header("'<M8[s]'"), bytes(48)), "only plain numbers", id="dates"),
        pytest.param(
            npy_file(npy_header("'<f16'"), bytes(96)), "only plain numbers", id="128-bit floats"
        ),
        pytest.param(
            npy_file(npy_header(), bytes(23)),
            "is truncated: its header declares 94 bytes, the file has 93",
            id="a byte is missing",
        ),
        pytest.param(
            npy_file(npy_header(), bytes(25)),
            "has trailing bytes: its header declares 94 bytes, the file has 95",
            id="a byte too many",
        ),
        pytest.param(
            npy_file(npy_header(shape="(1099511627776,)"), bytes(24)),
            "is truncated",
            id="2^40 elements in 24 bytes",
        ),
        pytest.param(
            npy_file(npy_header(shape="(2, -3)"), bytes(24)),
            "impossible shape",
            id="a negative length",
        ),
        pytest.param(
            npy_file(npy_header(shape="(4294967296, 4294967296)")),
            "claims an impossible shape",
            id="2^32 times 2^32 elements",
        ),
        pytest.param(
            npy_file(npy_header(shape="(4611686018427387904, 4)")),
            "claims an impossible shape",
            id="2^62 times 4 elements",
        ),
        pytest.param(
            npy_file(npy_header(shape="(9999999999999999999, 0)")),
            "claims an impossible shape",
            id="a length beyond 64 bits, no elements",
        ),
        pytest.param(
            npy_file(npy_header(shape="(4611686018427387904, 0, 4)")),
            "claims an impossible shape",
            id="2^62 times 0 times 4 elements",
        ),
        pytest.param(
            npy_file(npy_header(shape="(" + "1," * 33 + ")"), bytes(4)), "axes", id="33 axes"
        ),
        pytest.param(
            npy_file(npy_header("'<f3'"), bytes(24)), "broken .npy header", id="unknown dtype"
        ),
        pytest.param(
            npy_file(npy_header(fortran="0"), bytes(24)),
            "broken .npy header",
            id="an order that is no truth value",
        ),
        pytest.param(
            npy_file("{'descr': '<f4', 'fortran_order': False}", bytes(24)),
            "broken .npy header",
            id="no shape",
        ),
        pytest.param(npy_file("", bytes(24)), "broken .npy header", id="empty header"),
        pytest.param(
            npy_file(npy_header(shape="(6)"), bytes(24)),
            "broken .npy header",
            id="a shape that is no tuple",
        ),
        pytest.param(
            npy_file(npy_header(shape="(2, 3.0)"), bytes(24)),
            "broken .npy header",
            id="a length that is a float",
        ),
        pytest.param(
            npy_file(npy_header(shape="(" + "9" * 5000 + ",)"), bytes(24)),
            "broken .npy header",
            id="a length of 5,000 digits",
        ),
        pytest.param(
            npy_file("__import__('os').system('touch owned')", bytes(24)),
            "broken .npy header",
            id="code that would make a file",
        ),
        pytest.param(
            npy_file("-" * 9900 + "1", bytes(24)), "broken .npy header", id="9,900 minus signs"
        ),
        pytest.param(
            npy_file("{'descr': " + "[" * 9900, bytes(24)),
            "broken .npy header",
            id="9,900 levels",
        ),
        pytest.param(
            b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(100),
            "claims a header of 4294967295 bytes",
            id="a header beyond the file",
        ),
        pytest.param(
            b"\x93NUMPY\x01\x00\x00\x10" + bytes(100),
            "broken .npy header",
            id="a header of zeros",
        ),
        pytest.param(
            b"\x93NUMPY\x03\x00\x04\x00\x00\x00\xff\xfe\xfd\xfc",
            "broken .npy header",
            id="a header that is not UTF-8",
        ),
        pytest.param(b"\x93NUMPY\x01", "is not a whole .npy file", id="cut within the version"),
    ],
)
def test_hostile_npy_files_are_refused(data: bytes, problem: str) -> None:
    """A good header declares 2 × 3 numbers of float32, 24 bytes after the 70 of the header; each
    file has one mistake. It is refused by one line that names the mistake, and no code in it is
    run, which would make the file «owned».
    """
    assert_refused(data, problem)
    assert not Path("owned").exists()


def safetensors_file(header: object, data: bytes = b"") -> bytes:
    """Return a .safetensors file with this header, an object or JSON text, and these elements."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensor_entry(
    begin: int = 0, end: int = 8, dtype: str = "F32", shape: object = (2,)
) -> dict[str, object]:
    """Return a good entry of two float32 numbers (8 bytes), or one with a changed field."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


ENTRY = b'{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(
            safetensors_file({"a": tensor_entry()}, bytes(7)), "is truncated", id="data end early"
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry()}, bytes(9)),
            "has trailing bytes",
            id="a byte too many",
        ),
        pytest.param(
            safetensors_file({}, bytes(1)), "has trailing bytes", id="data without tensors"
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry(0, 8), "b": tensor_entry(12, 20)}, bytes(20)),
            "tensor 'b' leaves a hole of 4 bytes before it",
            id="a hole from 8 to 12",
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry(0, 8), "b": tensor_entry(9, 17)}, bytes(17)),
            "tensor 'b' leaves a hole of 1 bytes before it",
            id="a hole from 8 to 9",
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry(0, 8), "b": tensor_entry(4, 12)}, bytes(12)),
            "tensor 'b' overlaps the tensor before it",
            id="tensors that overlap from 4 to 8",
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry(8, 0)}, bytes(8)),
            "needs 8 bytes, its data_offsets are 8 and 0",
            id="end before begin",
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry(0, 12)}, bytes(12)),
            "needs 8 bytes",
            id="12 bytes for 8",
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry(shape=(2**40, 2**40))}, bytes(8)),
            "claims an impossible shape",
            id="2^80 elements",
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry(0, 0, shape=(2**60, 0))}),
            "claims an impossible shape",
            id="2^60 times 0 elements",
        ),
        pytest.param(
            safetensors_file({"a" * 1_000_000: tensor_entry(shape=[2**60] * 30)}, bytes(8)),
            "claims an impossible shape",
            id="2^1800 elements under a name of a million letters",
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry(shape=[1] * 40)}, bytes(8)), "axes", id="40 axes"
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry(shape=(2**80,))}, bytes(8)),
            "broken header",
            id="a length beyond 64 bits",
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry(shape=(-2,))}, bytes(8)),
            "broken header",
            id="a negative length",
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry(shape=(2.0,))}, bytes(8)),
            "broken header",
            id="a length that is a float",
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry(shape="2")}, bytes(8)),
            "broken header",
            id="a shape that is a text",
        ),
        pytest.param(
            safetensors_file({"a": {**tensor_entry(), "more": 1}}, bytes(8)),
            "broken header",
            id="an unknown field",
        ),
        pytest.param(
            safetensors_file({"a": None}, bytes(8)), "broken header", id="an entry that is null"
        ),
        pytest.param(
            safetensors_file({"__metadata__": {"a": 1}}),
            "broken header",
            id="a note that is a number",
        ),
        pytest.param(
            safetensors_file({"__metadata__": "text"}),
            "broken header",
            id="notes that are no object",
        ),
        pytest.param(
            safetensors_file(b'{"a\xff":' + ENTRY + b"}", bytes(8)),
            "broken header",
            id="a name that is not UTF-8",
        ),
        pytest.param(
            safetensors_file(b'{"\\ud800":' + ENTRY + b"}", bytes(8)),
            "broken header",
            id="half a surrogate pair as a name",
        ),
        pytest.param(
            safetensors_file(b'{"a\nb":' + ENTRY + b"}", bytes(8)),
            "broken header",
            id="a line break in a name",
        ),
        pytest.param(
            safetensors_file(b'{"a":' + ENTRY + b"}x", bytes(8)),
            "broken header",
            id="a letter after the header",
        ),
        pytest.param(safetensors_file(b"{"), "broken header", id="cut JSON"),
        pytest.param(
            safetensors_file(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}}', bytes(8)),
            "broken header",
            id="three offsets",
        ),
        pytest.param(
            safetensors_file(b'{"a":' * 100_000),
            "broken header, which is nested too deeply",
            id="100,000 levels",
        ),
        pytest.param(
            safetensors_file({"a": tensor_entry(dtype="F33")}, bytes(8)),
            "dtype 'F33', which is not known",
            id="unknown dtype",
        ),
        pytest.param(
            safetensors_file({"a\n" * 1_000_000: tensor_entry(dtype="F33")}, bytes(8)),
            "which is not known",
            id="unknown dtype under a name of a million lines",
        ),
        pytest.param(
            safetensors_file(b'{"a":' + ENTRY + b',"a":' + ENTRY + b"}", bytes(8)),
            "names 'a' twice",
            id="one name twice",
        ),
        pytest.param(
            safetensors_file(b'{"a":' + ENTRY + b',"\\u0061":' + ENTRY + b"}", bytes(8)),
            "names 'a' twice",
            id="one name twice, escaped",
        ),
        pytest.param(
            safetensors_file(b'{"__metadata__":{},"__metadata__":{}}'), "twice", id="notes twice"
        ),
        pytest.param(
            safetensors_file(b'{"a":{"dtype":"F32","dtype":"F32","shape":[2]}}', bytes(8)),
            "names 'dtype' twice",
            id="a field twice",
        ),
        pytest.param(
            safetensors_file(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,NaN]}}', bytes(8)),
            "'NaN', a number out of range",
            id="an offset that is NaN",
        ),
        pytest.param(
            b"\xff" * 7 + b"\x7f{" + bytes(100),
            "claims a header of",
            id="a header of 2^63 − 1 bytes",
        ),
        pytest.param(
            struct.pack("<Q", 1000) + b"{}", "is truncated", id="a header of 1,000 bytes, cut"
        ),
    ],
)
def test_hostile_safetensors_files_are_refused(data: bytes, problem: str) -> None:
    """A good entry is two numbers of float32, from 0 to 8 in the data; each file has one mistake,
    and is refused by one line that names the mistake.
    """
    assert_refused(data, problem)


MIB16 = 16 << 20
SHAPE = b'{"a":{"dtype":"F32","shape":['
EMPTY_TENSOR = b'"%x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
BOMBS: dict[str, Callable[[], bytes]] = {
    "lists in lists": lambda: b'{"a":' + MIB16 * b"[",
    "a name of quotes": lambda: b'{"' + MIB16 * b'\\"',
    "a note of quotes": lambda: b'{"__metadata__":{"a":"' + (MIB16 // 2 - 50) * b'\\"' + b'"}}',
    "spaces": lambda: b"{" + MIB16 * b" ",
    "a shape of many sides": lambda: SHAPE + (MIB16 // 2 - 50) * b"1," + b"1]}}",
    "a side of many digits": lambda: SHAPE + (MIB16 - 100) * b"1" + b"]}}",
    "many tensors": lambda: b"{" + many(EMPTY_TENSOR, MIB16 // 58) + b"}",
    "many notes": lambda: b'{"__metadata__":{' + many(b'"%x":""', MIB16 // 12) + b"}}",
    "commas": lambda: b'{"a":{"dtype":"F32"' + MIB16 * b",",
}
"""Functions that make a header of about 16 MiB, which is then cut there.

The numbers that are subtracted leave room for the end of those that are whole JSON. An empty tensor
takes at most 58 bytes with its name and comma, and a note 12.
"""


def many(entry: bytes, count: int) -> bytes:
    """Return entries with commas between them, whose names are the numbers 0, 1, 2, … in hexadecimal."""
    return b",".join(entry % number for number in range(count))


PROGRAM_WITH_LITTLE_MEMORY = """
import sys, numpy, pecli.files.safetensors
from pecli.errors import FileError
from pecli.files.load import load_file
try: load_file(sys.argv[1]); print("read")
except FileError as error: print("refused")
print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")])
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", BOMBS)
def test_a_large_hostile_header_takes_little_memory(kind: str) -> None:
    """A header of .safetensors of 16 MiB, such as millions of «[», would make a JSON parser allocate
    gigabytes. A new process refuses it, and the peak of its memory (VmHWM, in KiB) must stay below
    200 MiB: about 30 for Python and NumPy, and ten times the header. `sample(1)`: one of the headers
    is tested by default.
    """
    header = BOMBS[kind]()[:MIB16]
    Path("hostile").write_bytes(safetensors_file(header))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM_WITH_LITTLE_MEMORY, "hostile"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    verdict, peak_in_kib = done.stdout.split()

    assert verdict == "refused", done.stderr
    assert int(peak_in_kib) < 200 << 10


def npy_member(data: bytes = b"", shape: str = "(2, 3)") -> bytes:
    return npy_file(npy_header(shape=shape), data or bytes(24))


def zip_archive_of(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytearray:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as out:
        for name, data in members:
            out.writestr(zipfile.ZipInfo(name), data, method)
    return bytearray(file.getvalue())


LOCAL_RECORD = b"PK\3\4"  # the marks of zip's structures
DIRECTORY_ENTRY = b"PK\1\2"
END_RECORD = b"PK\5\6"

# Offsets of fields in an entry of the central directory, in bytes from its mark (APPNOTE.TXT, 4.3.12).
FLAGS = 8
CHECKSUM = 16
PACKED_SIZE = 20
UNPACKED_SIZE = 24
PLACE_OF_MEMBER = 42
NAME = 46

# Offset of a field in the record before each member, from its mark (4.3.7).
PACKED_SIZE_IN_RECORD = 18

# Offsets of fields in the record at the end, from its mark (4.3.16).
ENTRIES_ON_DISK = 8
ENTRIES = 10
PLACE_OF_DIRECTORY = 16


def with_field(data: bytearray, mark: bytes, offset: int, value: bytes) -> bytes:
    """Return the archive with some bytes changed, at an offset after the first such mark."""
    at = data.index(mark) + offset
    return bytes(data[:at] + value + data[at + len(value) :])


def archive_with_field(mark: bytes, offset: int, value: bytes) -> bytes:
    """Return GOOD_ARCHIVE with some bytes changed, at an offset after the first such mark."""
    return with_field(GOOD_ARCHIVE, mark, offset, value)


GOOD_ARCHIVE = zip_archive_of(("a.npy", npy_member()))
"""An archive of one member of 94 bytes, with a table of 2 × 3 float32 zeros."""


def test_the_archive_that_the_tests_damage_is_read() -> None:
    Path("good.npz").write_bytes(GOOD_ARCHIVE)
    np.testing.assert_array_equal(load("good.npz")["a"], np.zeros((2, 3)))


@pytest.mark.parametrize(
    "name", ["../a.npy", "/a.npy", "a/../../b.npy", "a\\b.npy", "a.txt", "a.npy/", ".npy", "a"]
)
def test_members_of_npz_with_other_names_are_refused(name: str) -> None:
    """Members of an .npz are arrays NAME.npy; paths that lead elsewhere, folders, other suffixes
    and empty names are not. The name is written over one of as many letters x, because Python's
    zipfile would correct it.
    """
    placeholder = "x" * len(name)
    archive = zip_archive_of((placeholder, npy_member()))
    archive = archive.replace(placeholder.encode(), name.encode())

    assert_refused(bytes(archive), "has no place in a .npz file")


@pytest.mark.parametrize(
    ("member", "problem"),
    [
        pytest.param(npy_file_with_a_pickle(), "holds Python objects", id="pickled objects"),
        pytest.param(npy_member() + b"x", "has trailing bytes", id="a byte after the array"),
        pytest.param(npy_member()[:-1], "is truncated", id="an array that is cut"),
        pytest.param(b"", "is not a whole .npy file", id="an empty member"),
    ],
)
def test_a_member_of_npz_is_refused_as_the_npy_file_that_it_is(member: bytes, problem: str) -> None:
    """Each member of an .npz archive is a whole .npy file; the message names the member."""
    archive = zip_archive_of(("a.npy", member))
    assert_refused(bytes(archive), f"member 'a.npy' {problem}")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(
            GOOD_ARCHIVE + b"x", "something follows its end", id="a byte after the archive"
        ),
        pytest.param(GOOD_ARCHIVE[:-1], "is truncated", id="the last byte is missing"),
        pytest.param(GOOD_ARCHIVE[:50], "is truncated", id="cut within the first member"),
        pytest.param(LOCAL_RECORD, "is truncated", id="only the first four bytes"),
        pytest.param(
            LOCAL_RECORD + GOOD_ARCHIVE,
            "its end records contradict each other",
            id="four bytes before the archive",
        ),
    ],
)
def test_an_npz_with_missing_or_additional_bytes_is_refused(data: bytes, problem: str) -> None:
    """GOOD_ARCHIVE has one member a.npy. A zip archive ends with the END_RECORD, which states where
    the directory begins: that is wrong if something stands before the archive.
    """
    assert_refused(bytes(data), problem)


def test_an_npz_with_two_members_of_one_name_is_refused() -> None:
    """One of the two arrays could not be reached by its name."""
    archive = zip_archive_of(("a.npy", npy_member()), ("b.npy", npy_member()))
    assert_refused(bytes(archive.replace(b"b.npy", b"a.npy")), "has two members called 'a.npy'")


@pytest.mark.parametrize(
    ("offset", "value", "problem"),
    [
        pytest.param(FLAGS, b"\1", "is encrypted", id="the flag of encryption"),
        pytest.param(CHECKSUM, b"abcd", "is damaged: its checksum", id="another checksum"),
        pytest.param(
            UNPACKED_SIZE,
            (65536).to_bytes(4, "little"),
            "claims two sizes, 94 and 65536 bytes",
            id="an unpacked size that is not the packed one",
        ),
        pytest.param(
            PLACE_OF_MEMBER, b"\7", "is not where the directory says", id="a place 7 bytes too far"
        ),
        pytest.param(
            PLACE_OF_MEMBER,
            b"\xff\xff\xff\x7f",
            "is not where the directory says",
            id="a place at 2 GiB",
        ),
        pytest.param(
            PLACE_OF_MEMBER,
            b"\xff\xff\xff\xff",
            "is not where the directory says",
            id="a place that means Zip64",
        ),
        pytest.param(
            NAME, b"b", "disagrees with the central directory", id="the name b.npy for a.npy"
        ),
    ],
)
def test_an_npz_whose_directory_contradicts_a_member_is_refused(
    offset: int, value: bytes, problem: str
) -> None:
    """The member a.npy of GOOD_ARCHIVE is stored at 0, unpacked, in 94 bytes: a header of 70 and 24
    of numbers. One field of its entry in the central directory is changed, and it alone.
    """
    assert_refused(archive_with_field(DIRECTORY_ENTRY, offset, value), problem)


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        pytest.param(ENTRIES, b"\2", id="2 members of 1"),
        pytest.param(ENTRIES_ON_DISK, b"\2\0" + b"\2\0", id="2 members of 1, in both counts"),
        pytest.param(ENTRIES_ON_DISK, b"\0\0" + b"\0\0", id="0 members of 1, in both counts"),
        pytest.param(ENTRIES_ON_DISK, b"\xff" * 4, id="both counts mean Zip64"),
        pytest.param(PLACE_OF_DIRECTORY, b"\xff" * 4, id="a directory whose place means Zip64"),
    ],
)
def test_an_npz_whose_end_record_contradicts_the_directory_is_refused(
    offset: int, value: bytes
) -> None:
    """GOOD_ARCHIVE has one member, which the record at its end counts twice, in two fields of 16 bits.
    Fields of ones mean that a Zip64 record has the number; the archive has none.
    """
    changed = archive_with_field(END_RECORD, offset, value)
    assert_refused(changed, "its end records contradict each other")


@pytest.mark.parametrize(
    ("method", "number"),
    [
        pytest.param(zipfile.ZIP_BZIP2, 12, id="bzip2"),
        pytest.param(zipfile.ZIP_LZMA, 14, id="LZMA"),
    ],
)
def test_a_member_of_npz_that_is_packed_by_an_unusual_method_is_refused(
    method: int, number: int
) -> None:
    """NumPy writes members that are stored (method 0) or deflated (8), and those are read. The numbers
    of the methods are those of APPNOTE.TXT, 4.4.5.
    """
    archive = zip_archive_of(("a.npy", npy_member()), method=method)
    assert_refused(bytes(archive), rf"compressed in a way that is not read \(method {number}\)")


@pytest.mark.parametrize(
    ("note", "problem"),
    [
        pytest.param(
            npy_file(npy_header("'<f4'", shape="()"), bytes(4)),
            "member 'pecli.npy' should hold one text",
            id="a number",
        ),
        pytest.param(
            npy_file(npy_header("'<U1'", shape="(1,)"), bytes(4)),
            "member 'pecli.npy' should hold one text",
            id="a list of texts",
        ),
        pytest.param(
            npy_file(npy_header("'<U1'", shape="()"), b"\xff\xff\xff\xff"),
            "not Unicode",
            id="not Unicode",
        ),
        pytest.param(
            npy_file(npy_header("'<U999999999'", shape="()")),
            "broken .npy header",
            id="999,999,999 letters",
        ),
    ],
)
def test_an_npz_with_a_broken_note_of_pecli_is_refused(note: bytes, problem: str) -> None:
    """pecli writes a note about the origin of the arrays as the member pecli.npy: one Unicode text,
    of NumPy's dtype <U with the number of its letters. Here it is something else.
    """
    assert_refused(bytes(zip_archive_of(("pecli.npy", note))), problem)


def test_npz_entries_that_share_a_member_are_refused() -> None:
    """The entry of b.npy in the central directory is given the place of the first member, 0. A member
    has a record with its own name, and there it is a.npy.
    """
    data = zip_archive_of(("a.npy", npy_member()), ("b.npy", npy_member()))
    first_entry = data.index(DIRECTORY_ENTRY)
    second_entry = data.index(DIRECTORY_ENTRY, first_entry + 1)
    place_of_member = second_entry + PLACE_OF_MEMBER
    data[place_of_member : place_of_member + 4] = bytes(4)

    assert_refused(
        bytes(data),
        "member 'b.npy' has a local header that disagrees with the central directory",
    )


def test_npz_members_that_overlap_are_refused() -> None:
    """An entry of the central directory has the packed and the unpacked size at bytes 20 and 24.
    Those of the first of two members are 60 bytes too large, so that it reaches into the second.
    """
    data = zip_archive_of(("a.npy", npy_member()), ("b.npy", npy_member()))
    first_entry = data.index(DIRECTORY_ENTRY)
    size = len(npy_member()) + 60
    for at in (first_entry + PACKED_SIZE, first_entry + UNPACKED_SIZE):
        data[at : at + 4] = size.to_bytes(4, "little")

    assert_refused(bytes(data), "member 'a.npy' overlaps what follows it")


def test_an_archive_that_unpacks_to_a_thousand_times_its_size_is_refused() -> None:
    """The members of an archive may together unpack to 100 times their size, and to 64 MiB in any case.
    Twenty of 4 MiB of zeros make 80 MiB, and are packed to a thousandth: a zip bomb.
    """
    zeros = npy_member(bytes(4 << 20), "(1024, 1024)")
    members = [(f"{number}.npy", zeros) for number in range(20)]
    bomb = zip_archive_of(*members, method=zipfile.ZIP_DEFLATED)

    assert_refused(bytes(bomb), "zip bomb")


def test_a_member_that_claims_to_unpack_to_a_gibibyte_is_refused() -> None:
    """A member may unpack to 100 times its size, and to 64 MiB in any case. This one has 4 MiB of
    zeros in about 4 KiB, which would be read; but its directory entry claims 2^30 = 1,073,741,824
    bytes.
    """
    zeros = npy_member(bytes(4 << 20), "(1024, 1024)")
    archive = zip_archive_of(("a.npy", zeros), method=zipfile.ZIP_DEFLATED)
    claimed_size = (1 << 30).to_bytes(4, "little")
    bomb = with_field(archive, DIRECTORY_ENTRY, UNPACKED_SIZE, claimed_size)

    assert_refused(bomb, r"looks like a zip bomb: 4\d\d\d bytes of it unpack to 1073741824$")


SIZE_OF_MEMBER = 94
"""Bytes of a.npy once it is unpacked: a header of 70, and 2 · 3 numbers of 4 bytes."""


def compressed_archive(*, shape: str, size_in_directory: int) -> bytes:
    """Return an archive with a compressed a.npy of SIZE_OF_MEMBER bytes.

    The .npy header in it declares a shape, and the archive's directory declares an unpacked size.
    """
    data = npy_member(np.arange(6, dtype="f4").tobytes(), shape)
    assert len(data) == SIZE_OF_MEMBER
    archive = zip_archive_of(("a.npy", data), method=zipfile.ZIP_DEFLATED)
    size = size_in_directory.to_bytes(4, "little")
    return with_field(archive, DIRECTORY_ENTRY, UNPACKED_SIZE, size)


@pytest.mark.parametrize("size_in_directory", [SIZE_OF_MEMBER - 4, SIZE_OF_MEMBER + 4])
def test_a_compressed_member_is_refused_if_directory_and_header_declare_different_sizes(
    size_in_directory: int,
) -> None:
    """The header is right: 70 bytes and (2, 3) numbers are 94. The directory is wrong by 4 bytes."""
    archive = compressed_archive(shape="(2, 3)", size_in_directory=size_in_directory)
    sizes = f"its header declares 94 bytes, the file has {size_in_directory}"
    assert_refused(archive, sizes)


@pytest.mark.parametrize(("shape", "declared_size"), [("(2, 2)", 86), ("(2, 4)", 102)])
def test_a_compressed_member_is_refused_if_it_unpacks_to_another_size_than_is_declared(
    shape: str, declared_size: int
) -> None:
    """Header and directory agree: 70 bytes and (2, 2) numbers are 86, or 102 for (2, 4). But the member
    unpacks to 94 bytes.
    """
    archive = compressed_archive(shape=shape, size_in_directory=declared_size)
    assert_refused(archive, f"does not unpack to the {declared_size} bytes that it declares")


def test_a_compressed_member_with_another_checksum_is_refused() -> None:
    """The checksum of a member is at byte 16 of its directory entry."""
    good = zip_archive_of(("a.npy", npy_member()), method=zipfile.ZIP_DEFLATED)
    damaged = with_field(good, DIRECTORY_ENTRY, CHECKSUM, b"abcd")
    assert_refused(damaged, "checksum does not match")


def test_an_npz_member_with_bytes_after_its_compressed_data_is_refused() -> None:
    """The compressed stream states where it ends, and four bytes «rest» follow it. All records of the
    archive agree that they belong to the member, so that only unpacking shows them. 94 bytes are
    a header of 70, and 24 of numbers.
    """
    good = zip_archive_of(("a.npy", npy_member()), method=zipfile.ZIP_DEFLATED)
    longer = with_bytes_after_the_only_member(good, b"rest")

    Path("good.npz").write_bytes(good)
    assert load("good.npz")["a"].shape == (2, 3)
    assert_refused(longer, "is damaged: it does not unpack to the 94 bytes that it declares")


def with_bytes_after_the_only_member(archive: bytearray, rest: bytes) -> bytes:
    """Return an archive with more bytes in its member, whose records count them as packed bytes."""
    directory = archive.index(DIRECTORY_ENTRY)
    field = slice(directory + PACKED_SIZE, directory + PACKED_SIZE + 4)
    longer_size = int.from_bytes(archive[field], "little") + len(rest)
    changes = [
        (DIRECTORY_ENTRY, PACKED_SIZE, longer_size),
        (LOCAL_RECORD, PACKED_SIZE_IN_RECORD, longer_size),
        (END_RECORD, PLACE_OF_DIRECTORY, directory + len(rest)),
    ]
    longer = archive[:directory] + rest + archive[directory:]
    for mark, offset, number in changes:
        longer = bytearray(with_field(longer, mark, offset, number.to_bytes(4, "little")))
    return bytes(longer)


@pytest.mark.parametrize(
    ("size", "problem"),
    [
        pytest.param((1 << 20) + 1, "is a pipe of more than", id="one byte more than 1 MiB"),
        pytest.param(1 << 20, "is truncated", id="1 MiB, which is read"),
    ],
)
def test_a_pipe_of_more_than_the_limit_is_refused(
    monkeypatch: pytest.MonkeyPatch, size: int, problem: str
) -> None:
    """The limit is 1 MiB here. A pipe of exactly 1 MiB is read, and then refused for another
    reason: its header promises `size` elements of 4 bytes.
    """
    monkeypatch.setattr("pecli.files.load.MAX_STREAM", 1 << 20)
    os.mkfifo("pipe")
    data = npy_file(npy_header(shape=f"({size},)")).ljust(size)
    with ThreadPoolExecutor() as pool:
        pool.submit(Path("pipe").write_bytes, data)
        with pytest.raises(FileError, match=problem):
            load("pipe")


def test_a_pipe_of_text_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is 1 MiB here, and the pipe has 24 MiB."""
    monkeypatch.setattr("pecli.files.load.MAX_TEXT", 1 << 20)
    os.mkfifo("pipe")
    with ThreadPoolExecutor() as pool:
        pool.submit(Path("pipe").write_bytes, b"1.5 2.5\n" * (3 << 20))
        with pytest.raises(FileError, match="is a pipe of more than 1 MiB"):
            load("pipe")


TABLES = [
    table_of("cos", np.cos(np.arange(6.0)).reshape(2, 3).astype(np.float32)),
    table_of("inv_freq", np.arange(3.0)),
    table_of("é", np.array([[True, False]])),
]


GOOD_FILES: dict[str, Callable[[str], None]] = {
    "npy": lambda path: save_tables(path, TABLES[:1], SPEC),
    "fortran.npy": lambda path: np.save(path, np.arange(6.0).reshape(2, 3).astype(">f8", "F")),
    "npz": lambda path: save_tables(path, TABLES, SPEC),
    "deflated.npz": lambda path: np.savez_compressed(
        path, cos=np.arange(6.0).reshape(2, 3), b=np.zeros(50)
    ),
    "safetensors": lambda path: save_tables(path, TABLES, SPEC),
    "json": lambda path: save_tables(path, TABLES, SPEC),
    "csv": lambda path: save_tables(path, TABLES[:1], SPEC),
}
"""Functions that write a good file of each kind."""


def good_file(kind: str) -> bytes:
    suffix = kind.split(".")[-1]
    GOOD_FILES[kind](f"good.{suffix}")
    return Path(f"good.{suffix}").read_bytes()


def name_of_damaged_file(kind: str) -> str:
    """Return a name without a suffix, since every format is known by its first bytes except CSV.

    Text that is not CSV any more would be searched for printed numbers.
    """
    return "mutated.csv" if kind == "csv" else "mutated"


EVERY_41ST_BYTE = pytest.mark.parametrize(
    "step", [41, pytest.param(1, marks=pytest.mark.thorough)], ids=lambda step: f"step {step}"
)


@EVERY_41ST_BYTE
@pytest.mark.parametrize("kind", GOOD_FILES)
def test_files_with_a_changed_byte_are_read_or_refused_in_one_line(kind: str, step: int) -> None:
    """Every `step`-th byte of a good file is replaced by zero, a space, a comma, the digit 9, 255,
    and itself with its lowest or highest bit flipped. `count_refused_mutations` reads each file, and
    fails if anything but a FileError of one line is raised. No text in UTF-8 has a byte 255, and more
    than half of each file is text or has a checksum: at so many places a change must be refused.
    """
    good = good_file(kind)
    path = name_of_damaged_file(kind)
    characters = {0x00, ord(" "), ord(","), ord("9"), 0xFF}
    refused = count_refused_mutations(
        good,
        path,
        step,
        replacements=lambda byte: {*characters, byte ^ 0x01, byte ^ 0x80} - {byte},
    )

    changed_places = len(range(0, len(good), step))
    assert refused > changed_places / 2
    Path(path).write_bytes(good)
    assert is_read(path)


@EVERY_41ST_BYTE
@pytest.mark.parametrize("kind", GOOD_FILES)
def test_files_of_which_a_byte_is_missing_or_doubled_are_read_or_refused(
    kind: str, step: int
) -> None:
    """`is_read` fails if anything but a FileError of one line is raised."""
    good = good_file(kind)
    path = name_of_damaged_file(kind)
    for place in range(0, len(good), step):
        without_the_byte = good[:place] + good[place + 1 :]
        with_the_byte_twice = good[: place + 1] + good[place:]
        for data in (without_the_byte, with_the_byte_twice):
            Path(path).write_bytes(data)
            is_read(path)


@EVERY_41ST_BYTE
@pytest.mark.parametrize("kind", [kind for kind in GOOD_FILES if kind != "csv"])
def test_files_that_are_cut_are_refused(kind: str, step: int) -> None:
    """A file is cut before every `step`-th byte. JSON ends with a bracket, and the other formats state
    their size. Only the line break after the bracket may be missing.
    """
    good = good_file(kind)
    end = good.rindex(b"}") + 1 if kind == "json" else len(good)
    for place in range(0, end, step):
        Path("mutated").write_bytes(good[:place])
        assert not is_read("mutated")


@EVERY_41ST_BYTE
def test_a_csv_file_that_is_cut_is_read_or_refused(step: int) -> None:
    """The file is cut before every `step`-th byte. Its numbers have no end that could be missing: the
    rows that are left may be read. `is_read` fails if anything but a FileError of one line is raised.
    """
    good = good_file("csv")
    for place in range(0, len(good), step):
        Path("mutated.csv").write_bytes(good[:place])
        is_read("mutated.csv")


def can_trace() -> bool:
    """Return True if strace is there and may look into other processes."""
    if shutil.which("strace") is None:
        return False
    return (
        subprocess.run(
            ["strace", "-qq", "-e", "trace=none", "true"], capture_output=True
        ).returncode
        == SUCCESS
    )


@pytest.mark.skipif(not can_trace(), reason="strace is not installed, or may not trace")
@pytest.mark.parametrize(
    ("writer", "failures"),
    [
        ("safetensors", 2),
        pytest.param("golden", 1, marks=pytest.mark.thorough),
        pytest.param("safetensors", 12, marks=pytest.mark.thorough),
        pytest.param("golden", 6, marks=pytest.mark.thorough),
        pytest.param("copy", 6, marks=pytest.mark.thorough),
    ],
)
def test_a_system_call_that_fails_leaves_the_old_file_or_the_new_one(
    writer: str, failures: int
) -> None:
    """`attempt_writer` runs a program that writes (one file, a golden suite, or a copy) so many
    times. In each run strace makes another of its system calls fail, chosen by the seed; a problem
    would be half a file, or a traceback.
    """
    result = attempt_writer(writer, failures, seed=1)
    assert result.cases == failures
    assert result.problems == []
