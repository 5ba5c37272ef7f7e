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
from pecli.files import format_of, save_tables
from pecli.files.load import load
from tests.exit_codes import SUCCESS
from tests.files.conftest import ENVIRONMENT, SPEC, count_refused_mutations, is_read
from tests.tools.campaigns.faults import attempt_writer

MEMORY = 200 << 20
pytestmark = pytest.mark.usefixtures("working_folder")


def assert_refused(data: bytes, problem: str) -> None:
    """Reading these bytes, header and data, fails with that problem."""
    Path("hostile").write_bytes(data)
    assert not is_read("hostile")
    with pytest.raises(FileError, match=problem):
        load("hostile")


def npy_file(text: str, data: bytes = b"", version: int = 1) -> bytes:
    width = 2 if version == 1 else 4
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + len(text).to_bytes(width, "little")
        + text.encode()
        + data
    )


def npy_header(descr: str = "'<f4'", fortran: str = "False", shape: str = "(2, 3)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def pickled() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}, None], object), allow_pickle=True)
    return file.getvalue()


IMPOSSIBLE_SHAPES = [
    "(4294967296, 4294967296)",
    "(4611686018427387904, 4)",
    "(9999999999999999999, 0)",
]
IMPOSSIBLE_SHAPES += ["(4611686018427387904, 0, 4)"]
BROKEN_HEADERS = [
    npy_header("'<f3'"),
    npy_header(fortran="0"),
    "{'descr': '<f4', 'fortran_order': False}",
    "",
]
BROKEN_HEADERS += [
    npy_header(shape=shape) for shape in ("(6)", "(2, 3.0)", "(" + "9" * 5000 + ",)")
]
BROKEN_HEADERS += [
    "__import__('os').system('touch owned')",
    "-" * 9900 + "1",
    "{'descr': " + "[" * 9900,
]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (pickled(), r"holds Python objects \(a pickle\), which are never loaded"),
        (
            pickle.dumps([1, 2]),
            "is a pickle without an archive around it, and those are never loaded; write the",
        ),
        (npy_file(npy_header("'|O'"), bytes(24)), "pickle"),
        (npy_file(npy_header("[('a', '<f4')]"), bytes(24)), "structured"),
        (npy_file(npy_header("'<U3'"), bytes(72)), "only plain numbers"),
        (npy_file(npy_header("'<M8[s]'"), bytes(48)), "only plain numbers"),
        (npy_file(npy_header("'<f16'"), bytes(96)), "only plain numbers"),
        (
            npy_file(npy_header(), bytes(23)),
            "is truncated: its header declares 94 bytes, the file has 93",
        ),
        (
            npy_file(npy_header(), bytes(25)),
            "has trailing bytes: its header declares 94 bytes, the file has 95",
        ),
        (npy_file(npy_header(shape="(2, -3)"), bytes(24)), "impossible shape"),
        *(
            (npy_file(npy_header(shape=shape)), "claims an impossible shape")
            for shape in IMPOSSIBLE_SHAPES
        ),
        *((npy_file(header, bytes(24)), "broken .npy header") for header in BROKEN_HEADERS),
        (npy_file(npy_header(shape="(1099511627776,)"), bytes(24)), "is truncated"),
        (npy_file(npy_header(shape="(" + "1," * 33 + ")"), bytes(4)), "axes"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(100), "claims a header of 4294967295 bytes"),
        (b"\x93NUMPY\x01\x00\x00\x10" + bytes(100), "broken .npy header"),
        (b"\x93NUMPY\x03\x00\x04\x00\x00\x00\xff\xfe\xfd\xfc", "broken .npy header"),
        (b"\x93NUMPY\x01", "is not a whole .npy file"),
    ],
)
def test_hostile_npy_files_are_refused(data: bytes, problem: str) -> None:
    """Pickles, lying shapes and sizes, broken headers: one line that names the problem, and no code
    is run.
    """
    assert_refused(data, problem)
    assert not Path("owned").exists()


def safetensors_file(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensor(
    begin: int = 0, end: int = 8, dtype: str = "F32", shape: object = (2,)
) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


GOOD = b'{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'
NAMED = [(b"a\xff", b""), (b"\\ud800", b""), (b"a\nb", b""), (b"a", b"x")]
"""Names, and what follows the header."""


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (safetensors_file({"a": tensor()}, bytes(7)), "is truncated"),
        (safetensors_file({"a": tensor()}, bytes(9)), "has trailing bytes"),
        (safetensors_file({}, bytes(1)), "has trailing bytes"),
        (
            safetensors_file({"a": tensor(), "b": tensor(12, 20)}, bytes(20)),
            "tensor 'b' leaves a hole of 4 bytes before it",
        ),
        (
            safetensors_file({"a": tensor(), "b": tensor(4, 12)}, bytes(12)),
            "tensor 'b' overlaps the tensor before it",
        ),
        (
            safetensors_file({"a": tensor(8, 0)}, bytes(8)),
            "needs 8 bytes, its data_offsets are 8 and 0",
        ),
        (safetensors_file({"a": tensor(0, 12)}, bytes(12)), "needs 8 bytes"),
        (
            safetensors_file({"a": tensor(shape=(2**40, 2**40))}, bytes(8)),
            "claims an impossible shape",
        ),
        (safetensors_file({"a": tensor(0, 0, shape=(2**60, 0))}), "claims an impossible shape"),
        *(
            (safetensors_file({"a": tensor(shape=shape)}, bytes(8)), "broken header")
            for shape in ((2**80,), (-2,), (2.0,), "2")
        ),
        *(
            (safetensors_file({"a": entry}, bytes(8)), "broken header")
            for entry in ({**tensor(), "more": 1}, None)
        ),
        *(
            (safetensors_file({"__metadata__": texts}), "broken header")
            for texts in ({"a": 1}, "text")
        ),
        *(
            (safetensors_file(b'{"%b":%b}%b' % (name, GOOD, rest), bytes(8)), "broken header")
            for name, rest in NAMED
        ),
        (safetensors_file(b"{"), "broken header"),
        (
            safetensors_file({"a": tensor(), "b": tensor(9, 17)}, bytes(17)),
            "tensor 'b' leaves a hole of 1 bytes before it",
        ),
        (safetensors_file(b'{"a":' * 100_000), "broken header, which is nested too deeply"),
        (safetensors_file({"a": tensor(shape=[1] * 40)}, bytes(8)), "axes"),
        (
            safetensors_file({"a" * 1_000_000: tensor(shape=[2**60] * 30)}, bytes(8)),
            "claims an impossible shape",
        ),
        (
            safetensors_file({"a\n" * 1_000_000: tensor(dtype="F33")}, bytes(8)),
            "which is not known",
        ),
        (safetensors_file({"a": tensor(dtype="F33")}, bytes(8)), "dtype 'F33', which is not known"),
        (safetensors_file(b'{"a":' + GOOD + b',"a":' + GOOD + b"}", bytes(8)), "names 'a' twice"),
        (
            safetensors_file(b'{"a":' + GOOD + b',"\\u0061":' + GOOD + b"}", bytes(8)),
            "names 'a' twice",
        ),
        (safetensors_file(b'{"__metadata__":{},"__metadata__":{}}'), "twice"),
        (
            safetensors_file(b'{"a":{"dtype":"F32","dtype":"F32","shape":[2]}}', bytes(8)),
            "names 'dtype' twice",
        ),
        (
            safetensors_file(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,NaN]}}', bytes(8)),
            "'NaN', a number out of range",
        ),
        (
            safetensors_file(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}}', bytes(8)),
            "broken header",
        ),
        (b"\xff" * 7 + b"\x7f{" + bytes(100), "claims a header of"),
        (struct.pack("<Q", 1000) + b"{}", "is truncated"),
    ],
)
def test_hostile_safetensors_files_are_refused(data: bytes, problem: str) -> None:
    """Holes, overlaps, lying sizes, repeated names and broken JSON: one line that names the
    problem.
    """
    assert_refused(data, problem)


MIB16 = 16 << 20
EMPTY = b'":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},'
BOMBS: dict[str, Callable[[], bytes]] = {
    "nesting": lambda: b'{"a":' + b"[" * (MIB16 - 5),
    "escapes": lambda: b'{"' + b'\\"' * (MIB16 // 2 - 10),
    "escaped text": lambda: b'{"__metadata__":{"a":"' + b'\\"' * (MIB16 // 2 - 50) + b'"}}',
    "spaces": lambda: b"{" + b" " * (MIB16 - 1),
    "numbers": lambda: b'{"a":{"dtype":"F32","shape":[' + b"1," * (MIB16 // 2 - 50) + b"1]}}",
    "digits": lambda: b'{"a":{"dtype":"F32","shape":[' + b"1" * (MIB16 - 100) + b"]}}",
    "tensors": lambda: b"{" + b"".join(b'"%x%b' % (at, EMPTY) for at in range(MIB16 // 58)) + b"}",
    "texts": lambda: (
        b'{"__metadata__":{' + b",".join(b'"%x":""' % at for at in range(MIB16 // 12)) + b"}}"
    ),
    "commas": lambda: b'{"a":{"dtype":"F32"' + b"," * (MIB16 - 100),
}


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
    """Headers of 16 MiB that would make a JSON parser allocate gigabytes; 200 MB are allowed."""
    Path("hostile").write_bytes(safetensors_file(BOMBS[kind]()[:MIB16]))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM_WITH_LITTLE_MEMORY, "hostile"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    verdict, memory = done.stdout.split()

    assert verdict == "refused", done.stderr
    assert int(memory) << 10 < MEMORY


def npy_member(data: bytes = b"", shape: str = "(2, 3)") -> bytes:
    return npy_file(npy_header(shape=shape), data or bytes(24))


def zip_archive_of(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytearray:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as out:
        for name, data in members:
            out.writestr(zipfile.ZipInfo(name), data, method)
    return bytearray(file.getvalue())


def with_field(data: bytearray, mark: bytes, offset: int, value: bytes) -> bytes:
    """The archive with some bytes after a structure's mark changed."""
    at = data.index(mark) + offset
    return bytes(data[:at] + value + data[at + len(value) :])


def archive_with_changed_bytes(mark: bytes, offset: int, value: bytes) -> bytes:
    """An archive of one good member, with some bytes changed."""
    return with_field(zip_archive_of(("a.npy", npy_member())), mark, offset, value)


NO_TEXTS = (
    npy_file(npy_header(shape="()"), bytes(4)),
    npy_file(npy_header("'<U1'", shape="(1,)"), bytes(4)),
)


@pytest.mark.parametrize(
    "name", ["../a.npy", "/a.npy", "a/../../b.npy", "a\\b.npy", "a.txt", "a.npy/", ".npy", "a"]
)
def test_members_of_npz_with_other_names_are_refused(name: str) -> None:
    """Members of an .npz are arrays NAME.npy; paths that lead elsewhere, folders, other suffixes
    and empty names are not.
    """
    data = zip_archive_of(("x" * len(name), npy_member())).replace(b"x" * len(name), name.encode())
    assert_refused(bytes(data), "has no place in a .npz file")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (zip_archive_of(("a.npy", pickled())), "member 'a.npy' holds Python objects"),
        (zip_archive_of(("a.npy", npy_member() + b"x")), "member 'a.npy' has trailing bytes"),
        (zip_archive_of(("a.npy", npy_member()[:-1])), "member 'a.npy' is truncated"),
        (zip_archive_of(("a.npy", b"")), "not a whole .npy file"),
        (zip_archive_of(("a.npy", npy_member())) + b"x", "something follows its end"),
        (zip_archive_of(("a.npy", npy_member()))[:-1], "is truncated"),
        (zip_archive_of(("a.npy", npy_member()))[:50], "is truncated"),
        (b"PK\x03\x04", "is truncated"),
        (b"PK\x03\x04" + zip_archive_of(("a.npy", npy_member())), "contradict"),
        (
            zip_archive_of(("a.npy", npy_member()), ("b.npy", npy_member())).replace(
                b"b.npy", b"a.npy"
            ),
            "two members called 'a.npy'",
        ),
        (archive_with_changed_bytes(b"PK\1\2", 46, b"b"), "disagrees with the central directory"),
        (archive_with_changed_bytes(b"PK\1\2", 8, b"\1"), "is encrypted"),
        (archive_with_changed_bytes(b"PK\1\2", 24, b"\0\0\1\0"), "claims two sizes"),
        (archive_with_changed_bytes(b"PK\1\2", 16, b"abcd"), "is damaged: its checksum"),
        (archive_with_changed_bytes(b"PK\1\2", 42, b"\7"), "is not where the directory says"),
        (
            archive_with_changed_bytes(b"PK\1\2", 42, b"\xff\xff\xff\x7f"),
            "is not where the directory says",
        ),
        (
            archive_with_changed_bytes(b"PK\1\2", 42, b"\xff\xff\xff\xff"),
            "is not where the directory says",
        ),
        (archive_with_changed_bytes(b"PK\5\6", 10, b"\2"), "contradict"),
        (archive_with_changed_bytes(b"PK\5\6", 8, b"\2\0\2"), "contradict"),
        (archive_with_changed_bytes(b"PK\5\6", 8, b"\0\0\0"), "contradict"),
        (archive_with_changed_bytes(b"PK\5\6", 8, b"\xff\xff\xff\xff"), "contradict|is not where"),
        (archive_with_changed_bytes(b"PK\5\6", 16, b"\xff\xff\xff\xff"), "contradict|is not where"),
        (
            zip_archive_of(("a.npy", npy_member()), method=zipfile.ZIP_LZMA),
            r"not read \(method 14\)",
        ),
        (
            zip_archive_of(("a.npy", npy_member()), method=zipfile.ZIP_BZIP2),
            r"not read \(method 12\)",
        ),
        *(
            (zip_archive_of(("pecli.npy", data)), "member 'pecli.npy' should hold one text")
            for data in NO_TEXTS
        ),
        (
            zip_archive_of(
                ("pecli.npy", npy_file(npy_header("'<U1'", shape="()"), b"\xff\xff\xff\xff"))
            ),
            "not Unicode",
        ),
        (
            zip_archive_of(("pecli.npy", npy_file(npy_header("'<U999999999'", shape="()")))),
            "broken .npy header",
        ),
    ],
)
def test_hostile_npz_files_are_refused(data: bytes, problem: str) -> None:
    """Fields of the zip format are changed at their offsets (PKWARE's APPNOTE.TXT), so that records
    contradict each other.
    """
    assert_refused(bytes(data), problem)


def test_npz_members_that_overlap_are_refused() -> None:
    """An entry of the central directory has its sizes at bytes 20 and 24, and its member's place at
    42. The second entry is made to name the first member; then the first member is made longer.
    """
    data = zip_archive_of(("a.npy", npy_member()), ("b.npy", npy_member()))
    second = data.index(b"PK\1\2", data.index(b"PK\1\2") + 1)
    renamed = data.replace(b"b.npy", b"a.npy", 1)
    renamed[second + 42 : second + 46] = bytes(4)

    assert_refused(bytes(renamed), "disagrees with the central directory")

    first = data.index(b"PK\1\2")
    longer = bytearray(data)
    size = len(npy_member()) + 60
    for at in (20, 24):
        longer[first + at : first + at + 4] = size.to_bytes(4, "little")

    assert_refused(bytes(longer), "member 'a.npy' overlaps what follows it")


def test_zip_bombs_are_refused() -> None:
    """Twenty members of 4 MiB of zeros, which pack to a thousandth, and one that claims to unpack
    to 1 GiB (size at byte 24 of its directory entry).
    """
    zeros = npy_member(bytes(4 << 20), "(1024, 1024)")
    assert_refused(
        bytes(
            zip_archive_of(*((f"{at}.npy", zeros) for at in range(20)), method=zipfile.ZIP_DEFLATED)
        ),
        "zip bomb",
    )

    one = zip_archive_of(("a.npy", zeros), method=zipfile.ZIP_DEFLATED)
    lying = with_field(one, b"PK\1\2", 24, (1 << 30).to_bytes(4, "little"))
    assert_refused(lying, r"zip bomb: \d+ bytes of it unpack to 1073741")


def test_compressed_members_that_lie_about_their_size_are_refused() -> None:
    """The size is at byte 24 of a directory entry, the checksum at 16: a size of 4 bytes too few or
    too many, one that fits the array's header but not the data, and a wrong checksum.
    """
    good = zip_archive_of(
        ("a.npy", npy_member(np.arange(6, dtype="f4").tobytes())), method=zipfile.ZIP_DEFLATED
    )
    size = int.from_bytes(good[good.index(b"PK\1\2") + 24 :][:4], "little")
    for claimed in (size - 4, size + 4):
        assert_refused(
            with_field(good, b"PK\1\2", 24, claimed.to_bytes(4, "little")),
            "header declares 94 bytes",
        )
    for shape, length, problem in (
        ("(2, 4)", size + 8, "to the 102 bytes"),
        ("(2, 2)", size - 8, "does not unpack to"),
    ):
        lying = zip_archive_of(("a.npy", npy_member(bytes(24), shape)), method=zipfile.ZIP_DEFLATED)
        assert_refused(with_field(lying, b"PK\1\2", 24, length.to_bytes(4, "little")), problem)

    assert_refused(with_field(good, b"PK\1\2", 16, b"abcd"), "checksum does not match")


def test_an_npz_member_with_bytes_after_its_compressed_data_is_refused() -> None:
    """Four bytes «rest» follow the compressed stream, and all records of the archive count them in."""
    good = zip_archive_of(
        ("a.npy", npy_member(np.arange(6, dtype="f4").tobytes())), method=zipfile.ZIP_DEFLATED
    )
    packed_bytes = int.from_bytes(good[good.index(b"PK\1\2") + 20 :][:4], "little")
    directory = good.index(b"PK\1\2")
    longer = good[:directory] + b"rest" + good[directory:]
    for field in (b"PK\1\2", b"PK\3\4"):
        offset = 20 if field == b"PK\1\2" else 18
        longer = with_field(longer, field, offset, (packed_bytes + 4).to_bytes(4, "little"))
    longer = with_field(longer, b"PK\5\6", 16, (directory + 4).to_bytes(4, "little"))
    assert_refused(longer, "is damaged: it does not unpack to")


def test_a_pipe_of_more_than_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is 1 MiB here. A pipe of exactly 1 MiB is read, and then refused for another
    reason: its header promises more elements than follow.
    """
    monkeypatch.setattr("pecli.files.load.MAX_STREAM", 1 << 20)
    os.mkfifo("pipe")
    for size, said in (((1 << 20) + 1, "is a pipe of more than"), (1 << 20, "is truncated")):
        with ThreadPoolExecutor() as pool:
            pool.submit(
                Path("pipe").write_bytes, npy_file(npy_header(shape=f"({size},)")).ljust(size)
            )
            with pytest.raises(FileError, match=said):
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


def write_good(kind: str) -> None:
    path = f"good.{kind.removeprefix('fortran.').removeprefix('deflated.')}"
    if kind == "fortran.npy":
        np.save(path, np.asfortranarray(np.arange(6.0).reshape(2, 3)).astype(">f8"))
    elif kind == "deflated.npz":
        np.savez_compressed(path, cos=np.arange(6.0).reshape(2, 3), b=np.zeros(50))
    else:
        single = format_of(path).holds_one_array
        save_tables(path, TABLES[:1] if single else TABLES, SPEC)
    Path(path).rename("good")


@pytest.mark.parametrize("step", [41, pytest.param(1, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "kind", ["npy", "fortran.npy", "npz", "deflated.npz", "safetensors", "json", "csv"]
)
def test_mutated_files_are_read_or_refused_in_one_line(kind: str, step: int) -> None:
    """Every 41st byte is changed to several others, removed, doubled, or the last one. At least one
    change must be refused for every four of these places; a file that was cut is never read, except
    for text, which may end anywhere.
    """
    write_good(kind)
    good = Path("good").read_bytes()
    name = "mutated.csv" if kind == "csv" else "mutated"
    others = {0, 0x20, 0x2C, 0x39, 0xFF}
    refused = count_refused_mutations(
        good, name, step, replacements=lambda byte: {*others, byte ^ 1, byte ^ 0x80} - {byte}
    )

    assert refused > len(good) // step // 4
    for place in range(0, len(good), step):
        for data in (
            good[:place],
            good[:place] + good[place + 1 :],
            good[: place + 1] + good[place:],
        ):
            Path(name).write_bytes(data)
            read = is_read(name)
            assert not (read and data == good[:place]) or kind in ("csv", "json")

    Path(name).write_bytes(good)
    assert is_read(name)


def can_trace() -> bool:
    """Whether strace is there and may look into other processes."""
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
    ("writer", "most"),
    [
        ("safetensors", 2),
        pytest.param("golden", 1, marks=pytest.mark.thorough),
        pytest.param("safetensors", 12, marks=pytest.mark.thorough),
        pytest.param("golden", 6, marks=pytest.mark.thorough),
        pytest.param("copy", 6, marks=pytest.mark.thorough),
    ],
)
def test_a_system_call_that_fails_leaves_the_old_file_or_the_new_one(
    writer: str, most: int
) -> None:
    """strace makes the n-th system call of a writer fail, for `most` values of n, chosen by a seed."""
    result = attempt_writer(writer, most, seed=1)
    assert result.cases == most
    assert result.problems == []
