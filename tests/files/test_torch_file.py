"""Files of torch.save: the tensors in them are read, and nothing in them is ever run.

Such a file is a zip archive with a pickle, a program that could call any function; pecli interprets
only the opcodes that build tensors. torch_views.pt was written by torch.save. Hostile pickles are
built here by hand, opcode by opcode, from the tensor of `pickled_tensor`; if one were run, it would
make a file «marker» or exhaust the memory.
"""

import argparse
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pecli.errors import FileError
from pecli.files.load import load
from tests.exit_codes import FILE_ERROR
from tests.files.conftest import count_refused_mutations

DATA = Path(__file__).parent / "data"
NUMBERS = np.arange(24, dtype=np.float32)


MATRIX = NUMBERS.reshape(4, 6)
TENSORS_OF_TORCH_VIEWS = {
    "matrix": MATRIX,
    "transposed": MATRIX.T,
    "permuted": NUMBERS.reshape(2, 3, 4).transpose(1, 0, 2),
    "sliced": MATRIX[1:, ::2],
    "every_third": NUMBERS[::3],
    "expanded": np.tile(NUMBERS[:3], (5, 1)),
    "scalar": NUMBERS[7],
    "empty": np.zeros((4, 0), np.float32),
    "parameter": NUMBERS[:2],
    "nested.list.0": np.array([0.0]),
    "nested.list.1": np.array([1], np.float16),
    "nested.3": np.array([2, 3], ml_dtypes.bfloat16),
    "bool": np.array([False, False, True]),
    "complex": np.array([0, 1j], np.complex64),
    "uint16": np.array([0, 1], np.uint16),
    "float8": np.array([0, 1], ml_dtypes.float8_e4m3fn),
}


def test_all_tensors_of_a_file_of_torch_save_are_read() -> None:
    """torch_views.pt holds 16 tensors, some of them in lists and dicts, whose names are joined by
    dots.
    """
    assert load(DATA / "torch_views.pt").keys() == TENSORS_OF_TORCH_VIEWS.keys()


@pytest.mark.parametrize("name", TENSORS_OF_TORCH_VIEWS)
def test_views_of_one_storage_are_read_by_their_strides(name: str) -> None:
    """torch.save wrote the file; the same views of 0 to 23 (transposed, sliced, repeated), and
    tensors of other dtypes, are made here by NumPy.
    """
    loaded = load(DATA / "torch_views.pt")[name]
    expected = TENSORS_OF_TORCH_VIEWS[name]

    assert loaded.dtype == expected.dtype
    np.testing.assert_array_equal(loaded, expected)


def torch_archive(pickled: bytes, **members: bytes) -> bytes:
    """Return an archive as torch.save writes it; the member data__0 is the storage data/0."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        out.writestr("x/data.pkl", pickled)
        for name, data in members.items():
            out.writestr(f"x/{name.replace('__', '/')}", data)
    return file.getvalue()


class Calls:
    """An object whose pickle calls a function when it is loaded."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call


# Opcodes of pickles (Python's pickletools), each of which works on a stack of values.
PROTOCOL_2 = b"\x80\x02"
EMPTY_DICT = b"}"
EMPTY_LIST = b"]"
MARK = b"("
TUPLE_FROM_MARK = b"t"
TUPLE_OF_ONE = b"\x85"
APPEND_FROM_MARK = b"e"
FALSE = b"\x89"
LOAD_PERSISTENT = b"Q"  # what the tuple before it names: a storage
CALL = b"R"  # a function with a tuple of arguments
SET_ITEM = b"s"  # of a dict
MEMOISE_AS_7 = b"q\x07"
GET_7 = b"h\x07"
STOP = b"."


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value: int) -> bytes:
    """Return the opcode of a number from 0 to 255 (of one byte), or to 2^31 − 1 (of four)."""
    return b"K" + bytes([value]) if value < 256 else b"J" + struct.pack("<i", value)


STORAGE = MARK + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu")
"""The beginning of a tuple that names a storage; the count of its numbers follows."""
REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n" + MARK
"""A function of torch, and the beginning of its arguments: storage, offset, shape, strides, …"""
NO_HOOKS = b"ccollections\nOrderedDict\n)" + CALL


def pickled_tensor(
    count: bytes = number(4),
    offset: bytes = number(0),
    shape: bytes = number(4) + TUPLE_OF_ONE,
    strides: bytes = number(1) + TUPLE_OF_ONE,
) -> bytes:
    """Return the pickle of a dict with one tensor «a» of four float32 numbers, as torch.save writes it.

    The numbers themselves are in the storage 0. Other arguments are opcodes by which the tensor
    claims another count, offset or shape.
    """
    storage = STORAGE + count + TUPLE_FROM_MARK + LOAD_PERSISTENT
    needs_gradient = FALSE
    arguments = storage + offset + shape + strides + needs_gradient + NO_HOOKS
    tensor = REBUILD + arguments + TUPLE_FROM_MARK + CALL
    return PROTOCOL_2 + EMPTY_DICT + text("a") + tensor + SET_ITEM + STOP


FOUR_FLOATS = {"data__0": np.arange(4, dtype="<f4").tobytes()}
"""The member data/0 of an archive, which is the storage 0: the numbers 0 to 3 in float32."""
MARKER = "touch marker"
LONG = b"\x8a\x08" + (2**60).to_bytes(8, "little")


def deeply_nested_lists(levels: int) -> bytes:
    return b"\x80\x02" + b"]" * levels + b"a" * (levels - 1) + b"."


def ten_to_the_40_items() -> bytes:
    """Return a pickle of forty lists, each with the one before it ten times: 10**40 items."""
    levels = (
        b"](" + (b"h" + bytes([level])) * 10 + b"eq" + bytes([level + 1]) for level in range(40)
    )
    return b"\x80\x02]q\x00" + b"".join(levels) + b"."


NAMES = (
    "os\nsystem",
    "builtins\neval",
    "builtins\n__import__",
    "torch\n",
    "torch._utils\n_rebuild_tensor",
)


def hostile_pickles() -> dict[str, bytes]:
    calls = {
        "os.system": Calls(os.system, MARKER),
        "eval": Calls(eval, "open('marker', 'w')"),
        "getattr": Calls(getattr, "marker", "upper"),
        "subprocess": Calls(subprocess.Popen, "touch marker"),
        "loads": Calls(pickle.loads, pickle.dumps(Calls(os.system, MARKER))),
        "bytearray": Calls(bytearray, 1 << 40),
        "numpy": Calls(np.ones, (1 << 20, 1 << 20)),
        "dict that is filled by a call": OrderedDict(a=Calls(os.system, MARKER)),
        "object": argparse.Namespace(a=1),
        "class": argparse.Namespace,
        "complex": 1j,
    }
    made = {
        f"{name}, protocol {k}": pickle.dumps(value, k)
        for name, value in calls.items()
        for k in (0, 1, 2, 4, 5)
    }
    opcodes = {
        "INST": b"(S'touch marker'\nios\nsystem\n.",
        "OBJ": b"(cos\nsystem\nX\x0c\x00\x00\x00touch markero.",
        "NEWOBJ": b"\x80\x02cposix\nsystem\nX\x0c\x00\x00\x00touch marker\x85\x81.",
        "extension registry": b"\x80\x02\x82\x01.",
        "persistent text": b"Pos.system\n.",
        "state of a tensor": pickled_tensor()[:-2] + b"}bs.",
        "call of a storage type": b"\x80\x02ctorch\nFloatStorage\n)R.",
        "call of a dtype": b"\x80\x02ctorch\nfloat32\n)R.",
        "call of a text": b"\x80\x02" + text("system") + b")R.",
        "global with a dot": b"\x80\x02ctorch\n_utils.os.system\n.",
        **{f"GLOBAL {name}": b"c%b\n)R." % name.encode() for name in NAMES},
        **{
            f"STACK_GLOBAL {name}": b"\x80\x04%b\x93)R." % b"".join(map(text, name.split("\n")))
            for name in NAMES
        },
        "torch.load": b"\x80\x02ctorch\nload\n" + text("marker") + b"\x85R.",
        "deep": deeply_nested_lists(5000),
        "wide": ten_to_the_40_items(),
        "holds itself": b"\x80\x02]q\x00h\x00a.",
        "huge text": b"\x80\x02X\xff\xff\xff\xffa.",
        "huge storage": pickled_tensor(count=LONG),
        "huge tensor": pickled_tensor(shape=LONG + b"\x85"),
        "tensor beyond its storage": pickled_tensor(offset=b"K\x01"),
        "repeated without end": pickled_tensor(shape=LONG + b"\x85", strides=b"K\x00\x85"),
        "negative offset": pickled_tensor(offset=b"J\xff\xff\xff\xff"),
        "negative stride": pickled_tensor(
            shape=b"K\x02K\x02\x86", strides=b"K\x03J\xff\xff\xff\xff\x86"
        ),
        "bytes of no dtype": pickled_tensor(count=b"K\x10").replace(
            b"torch\nFloat", b"torch.storage\nUntyped"
        ),
        "too many axes": pickled_tensor(
            shape=b"(" + b"K\x01" * 70 + b"t", strides=b"(" + b"K\x01" * 70 + b"t"
        ),
        "shape of texts": pickled_tensor(shape=text("a") + b"\x85"),
        "outside the archive": pickled_tensor().replace(text("0"), text("../../../etc/passwd")),
        "absolute": pickled_tensor().replace(text("0"), text("/etc/passwd")),
        "no storage of that name": pickled_tensor().replace(text("0"), text("9")),
        "mark as a value": b"\x80\x02(.",
        "items of nothing": b"\x80\x02u.",
        "unknown memo": b"\x80\x02h\x07.",
        "breaks off": pickled_tensor()[:60],
        "empty": b"",
        "not UTF-8": b"\x80\x02X\x01\x00\x00\x00\xff.",
    }
    return {**made, **opcodes, **nested()}


ORDERED = b"ccollections\nOrderedDict\n"
NESTING: dict[str, tuple[bytes, bytes, bytes]] = {
    "TUPLE1": (b"", b")", b"\x85"), "TUPLE2": (b"N", b")", b"\x86"), "TUPLE3": (b"NN", b")", b"\x87"),
    "TUPLE": (b"(", b")", b"t"), "MEMOIZE": (b"", b")", b"\x85\x94"), "LIST": (b"(", b")", b"l"),
    "DICT": (b"(" + text("a"), b"N", b"d"), "APPEND": (b"]", b"]", b"a"), "APPENDS": (b"](", b"]", b"e"),
    "SETITEM": (b"}" + text("a"), b"N", b"s"), "SETITEMS": (b"}(" + text("a"), b"N", b"u"),
    "REDUCE": (ORDERED, b")", b"R\x85"), "BUILD": (ORDERED + b")R", b"N", b"b"), "NEWOBJ": (ORDERED, b")", b"\x81\x85"),
    "NEWOBJ_EX": (ORDERED + b")", b"}", b"\x92"), "OBJ": (b"(" + ORDERED, b")", b"o"),
    "BINPERSID": (b"", b")", b"\x85Q"), "FROZENSET": (b"(", b")", b"\x91"), "ADDITEMS": (b"\x8f(", b")", b"\x90"),
}  # fmt: skip
"""What opens a level, what is inside of all, and what closes a level."""
PLACES = {
    "alone": b"%b.", "key": b"}%bNs.", "keys": b"}(%bNu.", "name": text("os") + b"%b\x93.",
    "module": b"%b" + text("system") + b"\x93.", "storage": b"%bQ.", "argument": ORDERED + b"%bR.",
    "state": ORDERED + b")R%bb.",
}  # fmt: skip
"""Where Python would hash, compare, call or free it."""


def nested() -> dict[str, bytes]:
    """Return pickles of containers in containers, as each opcode makes them, some levels and very
    many.
    """
    found = {}
    for opcode, (opens, inside, closes) in NESTING.items():
        many = 100_000 if opcode == "TUPLE1" else 20_000
        for count, places in (
            (101, [*PLACES][:-1]),
            (many, ["module" if opcode in ("APPEND", "BUILD") else "alone"]),
        ):
            opened_and_closed = b"\x80\x04" + opens * count + inside + closes * count
            rows = {
                f"{opcode} nested {count} times, {place}": PLACES[place].replace(
                    b"%b", opened_and_closed
                )
                for place in places
            }
            found |= rows
    for harmless in ("alone", "argument"):  # the state of an OrderedDict is left alone
        del found[f"BUILD nested 101 times, {harmless}"]
    doubled = b"".join(b"h%ch%c\x86q%c" % (level, level, level + 1) for level in range(60))
    found["a key that takes for ever to hash"] = b"\x80\x02}N)q\x00" + doubled + b"Ns."
    found["state of a storage"] = pickled_tensor().replace(b"tQ", b"tQ}b")
    found["state of a class"] = (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nN}" + text("call") + b"Ns\x86b."
    )
    return found


HOSTILE_PICKLES = hostile_pickles()


def test_a_tensor_made_by_hand_is_read(working_folder: Path) -> None:
    """The pickle names a storage, data/0, which holds 0 to 3, and how the tensor «a» lies in it. It is
    written by hand, opcode by opcode, and must be good: the hostile files of other tests are changed
    from it.
    """
    storage = np.arange(4, dtype="<f4").tobytes()
    archive = torch_archive(pickled_tensor(), byteorder=b"little", data__0=storage)
    Path("x.pt").write_bytes(archive)

    expected = np.array([0, 1, 2, 3], np.float32)
    np.testing.assert_array_equal(load("x.pt")["a"], expected, strict=True)


def test_hostile_pickles_are_refused_in_one_line(
    working_folder: Path, run_pecli: Callable[..., Any]
) -> None:
    """`pecli inspect` of .pt files whose pickles would call os.system or eval, allocate terabytes,
    or nest too deep: each is an error of one line, and no file may appear. Pickles of tens of
    thousands of levels are left to the test of the audit hook.
    """
    for name, hostile_pickle in HOSTILE_PICKLES.items():
        if "0000 times" in name:
            continue
        Path("x.pt").write_bytes(torch_archive(hostile_pickle, **FOUR_FLOATS))
        result = run_pecli("inspect", "x.pt")
        assert result.exit_code == FILE_ERROR, (name, result)
        assert result.out == "", (name, result)
        assert result.err.count("\n") == 1, (name, result)
        assert result.err.startswith("pecli: error: x.pt: "), name
        assert len(result.err) < 300, name
        assert os.listdir() == ["x.pt"], name


LOAD_UNDER_AN_AUDIT_HOOK = """
import json, sys
from pathlib import Path
from pecli.errors import FileError
from pecli.files.load import load
load("good.pt")
try:
    load("bad.pt")
except FileError:
    pass
events = set()
files_that_were_read = []
is_watching = True  # A hook cannot be removed; it only stops to watch before the results are printed.
ignored = {
    "mmap.__new__",  # The file is mapped.
    "object.__getattr__",  # Python looks at frames of its own.
}
def hook(event, arguments):
    opens_the_file = event == "open" and arguments[0] == path
    if is_watching and event not in ignored and not opens_the_file:
        events.add(f"{event} {arguments[:1]}")
paths = [str(path) for path in sorted(Path().glob("*.hostile"))]
path = ""
sys.addaudithook(hook)
for path in paths:
    try:
        load(path)
        files_that_were_read.append(path)
    except FileError:
        pass
is_watching = False
print(json.dumps({"events": sorted(events), "read": files_that_were_read, "tried": len(paths)}))
"""


def test_loading_hostile_pickles_runs_and_imports_nothing(working_folder: Path) -> None:
    """A process loads all hostile pickles under an audit hook of Python, which sees imports, calls of
    exec, processes and opened files: only opening and mapping each file itself is expected. A good
    and a bad file are loaded before, so that pecli's own imports are done.
    """
    Path("good.pt").write_bytes(torch_archive(pickled_tensor(), **FOUR_FLOATS))
    Path("bad.pt").write_bytes(torch_archive(b"?"))
    for number, hostile_pickle in enumerate(HOSTILE_PICKLES.values()):
        Path(f"{number}.hostile").write_bytes(torch_archive(hostile_pickle, **FOUR_FLOATS))
    done = subprocess.run(
        [sys.executable, "-c", LOAD_UNDER_AN_AUDIT_HOOK],
        capture_output=True,
        text=True,
        check=True,
    )
    result = json.loads(done.stdout)

    assert result == {"events": [], "read": [], "tried": len(HOSTILE_PICKLES)}
    assert not Path("marker").exists()


def pickle_with_one_name_twice() -> bytes:
    """Return a pickle of a dict with the keys 0 and "0", which are one name of a tensor."""
    tensor_and_end = pickled_tensor().removeprefix(PROTOCOL_2 + EMPTY_DICT + text("a"))
    tensor_item = tensor_and_end.removesuffix(STOP)
    return PROTOCOL_2 + EMPTY_DICT + number(0) + tensor_item + text("0") + tensor_item + STOP


def compressed_torch_archive() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("x/data.pkl", pickled_tensor())
    return file.getvalue()


def assert_refused(archive: bytes, problem: str) -> None:
    Path("x.pt").write_bytes(archive)
    with pytest.raises(FileError, match=problem):
        load("x.pt")


def test_two_tensors_of_one_name_in_a_torch_file_are_refused(working_folder: Path) -> None:
    """The keys of a dict are 0 and "0": two keys, and one name of a tensor."""
    archive = torch_archive(pickle_with_one_name_twice(), **FOUR_FLOATS)
    assert_refused(archive, "names the tensor '0' twice")


@pytest.mark.parametrize(
    ("archive", "problem"),
    [
        pytest.param(
            torch_archive(pickled_tensor().replace(text("storage"), text("module")), **FOUR_FLOATS),
            "names a storage in an unknown way",
            id="«module» in the place of «storage»",
        ),
        pytest.param(
            torch_archive(pickled_tensor(), data__1=bytes(16)),
            "has no member for the storage '0'",
            id="only a storage 1",
        ),
        pytest.param(
            torch_archive(pickled_tensor(), data__0=bytes(15)),
            "the storage '0' has not the size that it claims",
            id="15 bytes instead of 16",
        ),
    ],
)
def test_a_tensor_without_the_storage_that_it_names_is_refused(
    working_folder: Path, archive: bytes, problem: str
) -> None:
    """The tensor names the storage 0 of four float32 numbers, which must be a member data/0 of 16
    bytes. A good archive has FOUR_FLOATS there.
    """
    assert_refused(archive, problem)


def test_a_small_torch_file_of_a_tensor_that_repeats_elements_is_refused(
    working_folder: Path,
) -> None:
    """With a stride of 0, an element is repeated: 2^25 · 4 = 134,217,728 bytes of 16 in the file. At
    most 64 MiB (67,108,864 bytes) may be repeated, so that a small file does not fill the memory.
    """
    repeated = pickled_tensor(shape=number(2**25) + TUPLE_OF_ONE, strides=number(0) + TUPLE_OF_ONE)
    problem = "a tensor of 134217728 bytes that reaches beyond its storage of 16"
    assert_refused(torch_archive(repeated, **FOUR_FLOATS), problem)


def test_a_torch_file_of_a_big_endian_machine_is_refused(working_folder: Path) -> None:
    """torch.save writes the byte order as a member."""
    archive = torch_archive(pickled_tensor(), byteorder=b"big", **FOUR_FLOATS)
    assert_refused(archive, "has another byte order than little-endian")


def test_a_torch_file_of_compressed_members_is_refused(working_folder: Path) -> None:
    """torch.save stores members as they are, so that tensors can be mapped."""
    assert_refused(compressed_torch_archive(), "is compressed")


TORCH_VIEWS = (DATA / "torch_views.pt").read_bytes()
END_OF_TORCH_VIEWS = TORCH_VIEWS.rindex(b"PK\x05\x06")
MEMBERS_OF_TORCH_VIEWS = int.from_bytes(
    TORCH_VIEWS[END_OF_TORCH_VIEWS + 8 : END_OF_TORCH_VIEWS + 10], "little"
)


ONE_MEMBER_LESS = (MEMBERS_OF_TORCH_VIEWS - 1).to_bytes(2, "little")
ZIP64_LOCATOR = END_OF_TORCH_VIEWS - 20
"""The Zip64 locator, of 20 bytes, has the place of the Zip64 record at its byte 8."""
ZIP64_RECORD = ZIP64_LOCATOR - 56
"""The Zip64 end record, of 56 bytes, begins with its mark, PK and the bytes 6 and 6."""


@pytest.mark.parametrize(
    ("place", "changed"),
    [
        pytest.param(
            END_OF_TORCH_VIEWS + 8,
            ONE_MEMBER_LESS + ONE_MEMBER_LESS,
            id="one member less, in both counts of the end record",
        ),
        pytest.param(ZIP64_LOCATOR + 8, b"\1", id="another place of the Zip64 record"),
        pytest.param(ZIP64_RECORD, b"X", id="another mark of the Zip64 record"),
    ],
)
def test_zip64_records_that_contradict_the_end_record_are_refused(
    working_folder: Path, place: int, changed: bytes
) -> None:
    """A .pt file ends with the Zip64 record, its locator and the old end record, which must agree.
    In torch_views.pt, the bytes from `place` on are changed; places are by the ZIP format.
    """
    data = TORCH_VIEWS[:place] + changed + TORCH_VIEWS[place + len(changed) :]
    Path("x.pt").write_bytes(data)
    with pytest.raises(FileError, match="contradict"):
        load("x.pt")


def pickled_list_of_one_tensor(name: str, count: int) -> bytes:
    """Return the pickle of a dict that has, under a name, a list with the same tensor many times.

    The tensor is made once; each of the others is a reference of two bytes.
    """
    whole = pickled_tensor()
    tensor = whole[whole.index(REBUILD) :].removesuffix(SET_ITEM + STOP)
    items = MARK + tensor + MEMOISE_AS_7 + GET_7 * (count - 1) + APPEND_FROM_MARK
    return PROTOCOL_2 + EMPTY_DICT + text(name) + EMPTY_LIST + items + SET_ITEM + STOP


def test_a_small_torch_file_of_which_the_names_would_fill_the_memory_is_refused(
    working_folder: Path,
) -> None:
    """A list of 9,000 tensors under a name of 4,000 letters takes 22 KB in the file; but each tensor
    is called NAME.0, NAME.1, …, which are 36 MB. At most 32 MiB of names are made. With 3 tensors
    the file is read.
    """
    name = "n" * 4000
    few = pickled_list_of_one_tensor(name, count=3)
    many = pickled_list_of_one_tensor(name, count=9000)

    Path("few.pt").write_bytes(torch_archive(few, **FOUR_FLOATS))
    assert [*load("few.pt")] == [f"{name}.0", f"{name}.1", f"{name}.2"]
    assert_refused(torch_archive(many, **FOUR_FLOATS), "nests its containers deeper or wider")


def test_changed_bytes_of_a_small_torch_file_are_read_or_refused(working_folder: Path) -> None:
    """Every fifth byte has its lowest, its highest, or all bits flipped, in turn, and each file is
    read; `count_refused_mutations` fails if anything but a FileError of one line is raised. A third
    must be refused: of the 360 bytes, 76 are names of functions and classes in the pickle, 36 are
    names of members, and 20 marks of zip. The others are sizes, opcodes, numbers and dates.
    """
    small = torch_archive(pickled_tensor(), **FOUR_FLOATS)
    assert len(small) == 360
    refused = count_refused_mutations(
        small,
        "x.pt",
        step=5,
        replacements=lambda byte: [byte ^ 0x01, byte ^ 0x80, byte ^ 0xFF],
    )

    files = 3 * len(range(0, len(small), 5))
    assert refused > files / 3


def test_changed_bytes_of_a_file_of_torch_save_are_read_or_refused(working_folder: Path) -> None:
    """Every 29th byte of torch_views.pt has its lowest bit flipped, in turn, and each file is read;
    `count_refused_mutations` fails if anything but a FileError of one line is raised. A quarter must
    be refused: the pickle, the names of members and the marks of zip are half of the bytes, and most
    of their changes are mistakes. The others change numbers or dates.
    """
    refused = count_refused_mutations(TORCH_VIEWS, "y.pt", step=29)

    files = len(range(0, len(TORCH_VIEWS), 29))
    assert refused > files / 4
