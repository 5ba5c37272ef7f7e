"""Files that are larger than the address space of the process, which `ulimit -v` limits.

A file is usually mapped as a whole. If the system refuses that, the beginning is read, and a format
whose header comes first (.npy, .safetensors, .gguf) is still listed, with every tensor mapped
alone; other formats are refused with advice. Commands run in one process with 900 MiB of address
space on sparse files of 1 GiB, whose headers are written here by hand. Tests of a single file
replace `mmap` instead, so that whole files fail and parts do not; they expect the arrays that were
saved.
"""

import errno
import json
import mmap
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numpy.typing import NDArray

from pecli.engine.table import table_of
from pecli.errors import FileError
from pecli.files import save_tables
from pecli.files.contents import does_not_fit
from pecli.files.gguf_file import header_of
from pecli.files.load import load, load_file
from tests.conftest import Outcome
from tests.exit_codes import FILE_ERROR, SUCCESS
from tests.files.conftest import ENVIRONMENT, SPEC

TINY_GGUF = Path(__file__).parent / "data" / "tiny.gguf"
GIB = 1 << 30
LIMIT = 900 << 20  # bytes of address space, of which Python and NumPy take about a third
SMALL = np.arange(6, dtype="<f4").reshape(2, 3)

RUN_COMMANDS = f"""
import contextlib, io, json, resource, sys
from pecli.cli.app import run
resource.setrlimit(resource.RLIMIT_AS, ({LIMIT}, {LIMIT}))
outcomes = {{}}
for command in json.loads(sys.argv[1]):
    out = io.StringIO()
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(command.split())
    outcomes[command] = (code, out.getvalue(), err.getvalue())
print(json.dumps(outcomes))
"""

COMMANDS_AND_LISTED_TENSORS = [
    ("inspect big.npy --json", [("array", "float32", [1 << 18, 1024])]),
    (
        "inspect big.safetensors --json",
        [("small", "float32", [2, 3]), ("large", "float16", [1 << 19, 1024])],
    ),
    (
        "inspect big.gguf --json",
        [
            ("small", "float32", [2, 3]),
            ("large", "float32", [1 << 18, 1024]),
            ("quantised", "Q4_0", [32, 1024]),
        ],
    ),
    (
        "inspect shards --json",
        [("small", "float32", [2, 3]), ("large", "float16", [1 << 19, 1024])],
    ),
]
COMMANDS_FOR_A_SMALL_TENSOR = [
    "inspect big.safetensors:small --rows 0:2 --json",
    "inspect big.gguf:small --rows 0:2 --json",
    "inspect shards:small --rows 0:2 --json",
]
NO_SPACE = "its 1,024 MiB do not fit into the address space of this process"
RAISE_THE_LIMIT = "raise the limit (ulimit -v)\n"
READ_FEWER = f"read fewer or smaller tensors (FILE:NAME), or {RAISE_THE_LIMIT}"
COMMANDS_AND_ERRORS = [
    ("inspect big.npy --rows 0:2", f"big.npy: {NO_SPACE}; {RAISE_THE_LIMIT}"),
    ("inspect big.npy --stats", f"big.npy: {NO_SPACE}; {RAISE_THE_LIMIT}"),
    (
        "inspect big.safetensors:large --rows 0:2",
        f"big.safetensors: tensor 'large': {NO_SPACE}; {READ_FEWER}",
    ),
    (
        "inspect big.safetensors --stats",
        f"big.safetensors: tensor 'large': {NO_SPACE}; {READ_FEWER}",
    ),
    (
        "inspect shards --stats",
        f"shards/model-1.safetensors: tensor 'large': {NO_SPACE}; {READ_FEWER}",
    ),
    ("inspect big.gguf --stats", f"big.gguf: tensor 'large': {NO_SPACE}; {READ_FEWER}"),
    ("inspect big.csv", f"big.csv: {NO_SPACE}; {RAISE_THE_LIMIT}"),
    ("inspect -", f"standard input: {NO_SPACE}; {RAISE_THE_LIMIT}"),
]
ALL_COMMANDS = (
    [command for command, _ in COMMANDS_AND_LISTED_TENSORS]
    + COMMANDS_FOR_A_SMALL_TENSOR
    + [command for command, _ in COMMANDS_AND_ERRORS]
)


def write_sparse(path: Path, beginning: bytes, size: int) -> None:
    """Write a file that takes hardly any place on the disk: after its beginning, it is zero."""
    with path.open("wb") as file:
        file.write(beginning)
        file.truncate(size)


def write_npy(path: Path) -> None:
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (1 << 18, 1024))
    del rows


def write_safetensors(path: Path) -> None:
    small = {"dtype": "F32", "shape": SMALL.shape, "data_offsets": (0, 24)}
    large = {"dtype": "F16", "shape": (1 << 19, 1024), "data_offsets": (24, 24 + GIB)}
    header = json.dumps({"small": small, "large": large}).encode()
    start = struct.pack("<Q", len(header)) + header
    write_sparse(path, start + SMALL.tobytes(), len(start) + 24 + GIB)


def write_shards(folder: Path) -> None:
    """Write a model of one shard, whose index lists its tensors."""
    folder.mkdir()
    write_safetensors(folder / "model-1.safetensors")
    weight_map = {"small": "model-1.safetensors", "large": "model-1.safetensors"}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")


def gguf_entry(name: str, shape: tuple[int, int], kind: int, offset: int) -> bytes:
    rows, columns = shape
    place = struct.pack("<IQQIQ", 2, columns, rows, kind, offset)
    return struct.pack("<Q", len(name)) + name.encode() + place


def write_gguf(path: Path) -> None:
    """Write float32 (0) and Q4_0 (2), of which 32 elements take 18 bytes; data begin at 32 n."""
    header = b"GGUF" + struct.pack("<IQQ", 3, 3, 0)
    header += gguf_entry("small", (2, 3), 0, 0)
    header += gguf_entry("large", (1 << 18, 1024), 0, 32)
    header += gguf_entry("quantised", (32, 1024), 2, 32 + GIB)
    header += bytes(-len(header) % 32)
    write_sparse(path, header + SMALL.tobytes(), len(header) + 32 + GIB + 32 * 32 * 18)


@pytest.fixture(scope="module")
def outcomes_within_900_mib(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """The outcomes of all commands in one process that may not map the files."""
    if sys.platform != "linux":
        pytest.skip("only Linux limits the address space")
    folder = tmp_path_factory.mktemp("big")
    write_npy(folder / "big.npy")
    write_safetensors(folder / "big.safetensors")
    write_gguf(folder / "big.gguf")
    write_shards(folder / "shards")
    write_sparse(folder / "big.csv", b"1,2\n", GIB)
    with (folder / "big.npy").open("rb") as standard_input:
        process = subprocess.run(
            [sys.executable, "-c", RUN_COMMANDS, json.dumps(ALL_COMMANDS)],
            cwd=folder,
            env=ENVIRONMENT,
            stdin=standard_input,
            capture_output=True,
            text=True,
            check=True,
        )
    return {command: Outcome(*values) for command, values in json.loads(process.stdout).items()}


@pytest.mark.parametrize(("command", "tensors"), COMMANDS_AND_LISTED_TENSORS)
def test_tensors_of_a_file_beyond_the_address_space_are_listed(
    outcomes_within_900_mib: dict[str, Outcome],
    command: str,
    tensors: list[tuple[str, str, list[int]]],
) -> None:
    """A process with 900 MiB of address space inspects files of 1 GiB. Name, dtype and shape of
    the tensors are those that the test wrote into the headers (.npy, .safetensors, .gguf), which
    are read without mapping the data after them.
    """
    outcome = outcomes_within_900_mib[command]

    assert outcome.exit_code == SUCCESS
    listed = outcome.json["tensors"]
    assert [(entry["name"], entry["dtype"], entry["shape"]) for entry in listed] == tensors


@pytest.mark.parametrize("command", COMMANDS_FOR_A_SMALL_TENSOR)
def test_a_small_tensor_of_a_file_beyond_the_address_space_is_read(
    outcomes_within_900_mib: dict[str, Outcome], command: str
) -> None:
    """A process with 900 MiB of address space prints the tensor «small» of files of 1 GiB: only
    the tensor's own 24 bytes are mapped.
    """
    outcome = outcomes_within_900_mib[command]

    assert outcome.exit_code == SUCCESS
    assert outcome.json["tensors"][0]["numbers"]["values"] == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(("command", "message"), COMMANDS_AND_ERRORS)
def test_elements_beyond_the_address_space_are_refused_with_advice(
    outcomes_within_900_mib: dict[str, Outcome], command: str, message: str
) -> None:
    """A process with 900 MiB of address space is asked for a tensor of 1 GiB. The advice is to read
    fewer tensors, if the format can map each of them alone, or to raise the limit.
    """
    outcome = outcomes_within_900_mib[command]

    assert outcome.exit_code == FILE_ERROR
    assert outcome.err == f"pecli: error: {message}"


def test_a_pipe_that_does_not_fit_into_memory_is_refused(tmp_path: Path) -> None:
    """1 GiB is piped into a process with 900 MiB of address space. A pipe has no size that could
    be compared with the limit before all of it is read, so reading it fails in the middle.
    """
    if sys.platform != "linux":
        pytest.skip("only Linux limits the address space")
    write_safetensors(tmp_path / "big.safetensors")
    limit_in_kib = LIMIT >> 10  # the unit of `ulimit -v`
    inspect = f"ulimit -v {limit_in_kib}; exec {sys.executable} -m pecli inspect -"
    with subprocess.Popen(["cat", "big.safetensors"], cwd=tmp_path, stdout=subprocess.PIPE) as pipe:
        process = subprocess.run(
            ["bash", "-c", inspect],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stdin=pipe.stdout,
            capture_output=True,
            text=True,
        )
        pipe.kill()

    assert process.returncode == FILE_ERROR
    problem = "does not fit into the memory that this process may use"
    advice = "save it to a file first, which is mapped"
    assert process.stderr == f"pecli: error: standard input: {problem}; {advice}\n"


class MappingOfParts(mmap.mmap):
    """A mapping that fails for want of memory, unless it is one of a part of a file."""

    def __new__(cls, fileno: int, length: int, **settings: int) -> "MappingOfParts":
        if "offset" not in settings:
            raise OSError(errno.ENOMEM, "no memory")
        return super().__new__(cls, fileno, length, **settings)


def let_mapping_of_whole_files_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system refuse to map a whole file, as if there were too little address space.

    Small files would then be read instead of mapped; with MAX_READ 0, no file is small.
    """
    monkeypatch.setattr("pecli.files.contents.MAX_READ", 0)
    monkeypatch.setattr("pecli.files.contents.mmap.mmap", MappingOfParts)


ARRAYS: dict[str, NDArray[Any]] = {
    "plain": SMALL,
    "big-endian": SMALL.astype(">f8"),
    "columns first": np.asfortranarray(SMALL),
    "truth values": SMALL > 2,
    "no elements": np.zeros((3, 0)),
    "no axes": np.array(2.5),
    "several pages": np.arange(5000.0),
}


@pytest.mark.usefixtures("working_folder")
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_has_the_saved_values_if_only_its_part_of_the_file_can_be_mapped(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ARRAYS are of several shapes and dtypes. Big-endian numbers become native ones when they
    are loaded, so their dtype is not compared with that of the saved array.
    """
    saved = ARRAYS[name]
    np.save("array.npy", saved)
    let_mapping_of_whole_files_fail(monkeypatch)
    file = load_file("array.npy")

    assert file.outlines["array"].shape == saved.shape
    assert file.outlines["array"].dtype == file.tensors["array"].dtype
    has_same_dtype = name != "big-endian"
    np.testing.assert_array_equal(file.tensors["array"], saved, strict=has_same_dtype)


@pytest.mark.usefixtures("working_folder")
def test_tensors_of_safetensors_are_the_same_if_each_is_mapped_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file is read twice: mapped as a whole, and with a mapping per tensor, because mapping of
    the whole file fails. Three tensors, one of them empty, must be equal.
    """
    tables = [
        table_of("a", np.arange(3000.0)),
        table_of("b", np.zeros((0, 2))),
        table_of("c", SMALL),
    ]
    save_tables("t.safetensors", tables, SPEC)
    whole = load("t.safetensors")
    let_mapping_of_whole_files_fail(monkeypatch)
    mapped_alone = load("t.safetensors")

    assert list(mapped_alone) == list(whole)
    for name, array in whole.items():
        np.testing.assert_array_equal(mapped_alone[name], array, strict=True)


def test_tensors_of_gguf_are_the_same_if_each_is_mapped_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """tiny.gguf is read twice: mapped as a whole, and with a mapping per tensor. `unread` are the
    quantised tensors, which are listed with the bytes of their blocks.
    """
    whole = load_file(str(TINY_GGUF))
    let_mapping_of_whole_files_fail(monkeypatch)
    mapped_alone = load_file(str(TINY_GGUF))

    assert list(mapped_alone.tensors) == list(whole.tensors)
    for name, array in whole.tensors.items():
        np.testing.assert_array_equal(mapped_alone.tensors[name], array, strict=True)
    for tensor, expected in zip(mapped_alone.unread, whole.unread, strict=True):
        np.testing.assert_array_equal(tensor.blocks, expected.blocks, strict=True)


def test_divisors_of_frequencies_in_gguf_are_read_if_the_whole_file_cannot_be_mapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """llama.cpp stores the divisors of frequencies, which belong to the settings of a model, as a
    tensor, rope_freqs.weight; tiny.gguf has 1, 2, 4 and 8 there. The header has them although the
    system maps only parts of the file.
    """
    let_mapping_of_whole_files_fail(monkeypatch)

    assert header_of(str(TINY_GGUF)).numbers("rope_freqs.weight") == [1.0, 2.0, 4.0, 8.0]


def test_a_gguf_header_is_refused_if_it_is_longer_than_what_is_read_without_mapping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a file cannot be mapped, its first MAX_BEGINNING bytes are read. The limit is 100 bytes
    here, and the header of tiny.gguf has more than 2,000.
    """
    let_mapping_of_whole_files_fail(monkeypatch)
    monkeypatch.setattr("pecli.files.contents.MAX_BEGINNING", 100)

    with pytest.raises(FileError, match="do not fit into the address space"):
        load_file(str(TINY_GGUF))


PADDING = 28
"""Zeros at the end of tiny.gguf: its last tensor has 36 bytes, and GGUF fills up to 64 = 2 · 32."""


@pytest.mark.usefixtures("working_folder")
@pytest.mark.parametrize(
    "kept_bytes",
    [
        pytest.param(slice(100), id="cut within the header"),
        pytest.param(slice(-(PADDING + 12)), id="the last 12 bytes of the last tensor are missing"),
    ],
)
def test_a_cut_gguf_is_reported_as_truncated_if_only_parts_can_be_mapped(
    kept_bytes: slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header of tiny.gguf has more than 2,000 bytes. It ends with the 36 bytes of its last tensor
    and PADDING, so that 24 bytes of that tensor are left if 12 more are missing.
    """
    Path("cut.gguf").write_bytes(TINY_GGUF.read_bytes()[kept_bytes])
    let_mapping_of_whole_files_fail(monkeypatch)

    with pytest.raises(FileError, match="is truncated"):
        load_file("cut.gguf")


@pytest.mark.usefixtures("working_folder")
def test_a_file_that_changes_before_its_elements_are_read_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An array of one row replaces that of two rows between reading the header and mapping the
    elements.
    """
    np.save("array.npy", SMALL)
    let_mapping_of_whole_files_fail(monkeypatch)
    file = load_file("array.npy")
    np.save("array.npy", SMALL[:1])

    with pytest.raises(FileError, match="changed while it was read"):
        file.tensors["array"]


@pytest.mark.usefixtures("working_folder")
def test_a_file_that_is_deleted_before_its_elements_are_read_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The array is deleted between reading the header and mapping the elements."""
    np.save("array.npy", SMALL)
    let_mapping_of_whole_files_fail(monkeypatch)
    file = load_file("array.npy")
    Path("array.npy").unlink()

    with pytest.raises(FileError, match=r"^array\.npy: does not exist"):
        file.tensors["array"]


@pytest.mark.usefixtures("working_folder")
def test_an_archive_is_refused_if_it_cannot_be_mapped_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The list of the members of an .npz archive is at its end, so its beginning is of no use. The
    archive has some hundred bytes, which are rounded to 0 MiB.
    """
    np.savez("arrays.npz", a=SMALL)
    let_mapping_of_whole_files_fail(monkeypatch)

    with pytest.raises(FileError, match=r"^arrays\.npz: its 0 MiB do not fit"):
        load_file("arrays.npz")


@pytest.mark.usefixtures("working_folder")
def test_a_tensor_that_cannot_be_mapped_even_alone_is_named_with_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The header was read, and a mapping of the tensor's own bytes fails as well."""
    save_tables("t.safetensors", [table_of("a", np.arange(9.0)), table_of("b", SMALL)], None)
    let_mapping_of_whole_files_fail(monkeypatch)
    file = load_file("t.safetensors")
    no_memory = OSError(errno.ENOMEM, "no memory")
    monkeypatch.setattr("pecli.files.contents.mmap.mmap", Mock(side_effect=no_memory))

    message = r"^t.safetensors: tensor 'a': its 0 MiB do not fit .*; read fewer or smaller tensors"
    with pytest.raises(FileError, match=message):
        file.tensors["a"]


@pytest.mark.usefixtures("working_folder")
def test_a_file_is_refused_if_not_even_its_beginning_can_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file that cannot be mapped as a whole has its beginning read. That this raises MemoryError,
    too, is a FileError to users.
    """
    np.save("array.npy", SMALL)
    let_mapping_of_whole_files_fail(monkeypatch)
    monkeypatch.setattr("pecli.files.contents._read_beginning", Mock(side_effect=MemoryError))

    with pytest.raises(FileError, match="do not fit into the address space"):
        load_file("array.npy")


@pytest.mark.usefixtures("working_folder")
def test_a_file_of_which_the_beginning_was_read_is_copied_to_the_last_byte(
    run_pecli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has 24,000 bytes of numbers, but only its first 600 are read when mapping of the
    whole file fails. `convert` to the same format copies bytes, and must copy all of them.
    """
    save_tables("t.safetensors", [table_of("a", np.arange(3000.0)), table_of("b", SMALL)], None)
    let_mapping_of_whole_files_fail(monkeypatch)
    monkeypatch.setattr("pecli.files.contents.MAX_BEGINNING", 600)
    outcome = run_pecli("convert", "t.safetensors", "-o", "copy.safetensors")

    assert outcome.exit_code == SUCCESS
    assert Path("copy.safetensors").read_bytes() == Path("t.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("part", "words"),
    [
        pytest.param(
            "",
            "x.npy: its 1,024 MiB do not fit into the address space of this process; "
            "raise the limit (ulimit -v)",
            id="a file",
        ),
        pytest.param(
            "cos",
            "x.npy: cos: its 1,024 MiB do not fit into the address space of this process; "
            "read fewer or smaller tensors (FILE:NAME), or raise the limit (ulimit -v)",
            id="a tensor of it",
        ),
    ],
)
def test_a_file_or_a_part_that_does_not_fit_is_named(part: str, words: str) -> None:
    """1 GiB of the file x.npy, or of its tensor cos, cannot be mapped. If a tensor is named, fewer or
    smaller ones may be read instead, which is the advice.
    """
    assert str(does_not_fit("x.npy", 1 << 30, part)) == words
