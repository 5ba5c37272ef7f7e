"""Saving and loading by name: which format a name asks for, which file and tensor FILE:NAME means,
and what is read from pipes and standard input.

«-» is standard input or output. A named pipe (fifo) is read to its end. Files that cannot be read
are refused with advice. Expected values are the arrays that the tests saved.
"""

import bz2
import gzip
import io
import lzma
import os
import pickle
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import pecli
from pecli.engine.table import Table, table_of
from pecli.errors import FileError, KindError, ParameterError
from pecli.files import format_of, save_tables
from pecli.files.load import load_file, open_tensors
from tests.files.conftest import ENVIRONMENT

SUFFIXES = [".npy", ".npz", ".safetensors", ".csv", ".json", ".h"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_pipe_gets_the_same_bytes_as_a_file(
    working_folder: Path, tables: list[Table], spec: dict[str, object], suffix: str
) -> None:
    """The pipe has the name of the file, a.npy for example, which a C header (.h) holds."""
    name = "a" + suffix
    if format_of(name).holds_one_array:
        tables = tables[:1]
    save_tables(name, tables, spec)
    pipe = working_folder / "pipes" / name
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        received = pool.submit(pipe.read_bytes)
        save_tables(str(pipe), tables, spec)

    assert received.result() == Path(name).read_bytes()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_small_blocks_of_several_threads_give_the_same_bytes_as_one_block(
    working_folder: Path,
    tables: list[Table],
    spec: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
) -> None:
    """Tables are computed and written in blocks of megabytes. Blocks of 16 bytes by several
    threads, in reverse order of the tensors, must give the bytes of the usual way. `on_block`
    reports the bytes of each block, which must add up to those of the tables.
    """
    name = "a" + suffix
    if format_of(name).holds_one_array:
        tables = tables[:1]
    save_tables(name, tables, spec)
    expected = Path(name).read_bytes()

    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 16)
    monkeypatch.setattr("pecli.files.writing.MIN_THREADED_BYTES", 0)
    monkeypatch.setattr("pecli.files.decimals.ELEMENTS", 4)
    sizes_of_blocks: list[int] = []
    save_tables(name, tables[::-1], spec, on_block=sizes_of_blocks.append)

    assert sum(sizes_of_blocks) == sum(table.nbytes for table in tables)
    assert Path(name).read_bytes() == expected


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_whose_computation_fails_leaves_the_old_file(
    working_folder: Path, spec: dict[str, object], suffix: str
) -> None:
    """The function that computes the table's rows raises; no temporary file may stay beside the old
    one.
    """

    def fail(start: int, out: object) -> None:
        raise RuntimeError("no more")

    name = "a" + suffix
    Path(name).write_bytes(b"old")
    with pytest.raises(RuntimeError, match="no more"):
        save_tables(name, [Table("a", "float32", (100, 10), fail)], spec)

    assert Path(name).read_bytes() == b"old"
    assert [path.name for path in working_folder.iterdir()] == [name]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        pytest.param("a:b.npy", 3, id="the file a:b.npy"),
        pytest.param("a.npz:dense/kernel:0", 4, id="dense/kernel:0 of a.npz"),
        pytest.param("a.npz::", 5, id="the tensor «:» of a.npz"),
        pytest.param("a.npz:dense:bias:1", 6, id="bias:1 of the file a.npz:dense"),
    ],
)
def test_files_and_tensors_may_both_have_colons_in_their_names(
    working_folder: Path, text: str, size: int
) -> None:
    """The longest part of FILE:NAME that is a file is the file. Each array has another size, which
    shows which of them was opened.
    """
    np.save("a:b.npy", np.arange(3))
    np.savez("a.npz", **{"dense/kernel:0": np.arange(4), ":": np.arange(5)})
    np.savez("a.npz:dense", **{"bias:1": np.arange(6)})
    Path("a.npz:dense.npz").rename("a.npz:dense")  # np.savez appends the suffix.

    (array,) = open_tensors(text).tensors.values()
    assert array.size == size


def test_a_missing_tensor_with_a_colon_in_its_name_is_named_as_a_whole(
    working_folder: Path,
) -> None:
    """a.npz is the longest part that is a file, so that «bias:0» is the tensor."""
    np.savez("a.npz", a=np.arange(4))
    with pytest.raises(FileError, match=r"^a.npz: has no tensor 'bias:0'"):
        open_tensors("a.npz:bias:0")


def test_the_error_about_a_missing_tensor_lists_eight_names(working_folder: Path) -> None:
    """The file has 21 tensors; the message lists eight of them and counts the other 13."""
    names = ["cos", *(f"layer{number}" for number in range(20))]
    save_tables("a.npz", [table_of(name, np.zeros(1)) for name in names], None)

    problem = r"^a.npz: has no tensor 'coss'; it has 'cos', 'layer0', .* and 13 more$"
    with pytest.raises(FileError, match=problem):
        open_tensors("a.npz:coss")


@pytest.mark.parametrize("source", ["pipe", "file"])
@pytest.mark.parametrize("count", [0, 6, 300_000])
@pytest.mark.sample("300000-pipe", "300000-file")
def test_standard_input_is_read_from_a_pipe_and_from_a_file(
    working_folder: Path, count: int, source: str
) -> None:
    """A process prints the name of its input and the sum of the numbers 0 to n − 1, which is
    n (n − 1) / 2. 300,000 numbers are more than a pipe holds at once.
    """
    np.save("a.npy", np.arange(count))
    script = """
from pecli.files.load import load_file
loaded = load_file("-")
print(f"{loaded.path}: {loaded.tensors['array'].sum()}")
"""
    command = [sys.executable, "-c", script]
    if source == "pipe":
        data = Path("a.npy").read_bytes()
        done = subprocess.run(command, capture_output=True, env=ENVIRONMENT, input=data)
    else:
        with open("a.npy", "rb") as file:
            done = subprocess.run(command, capture_output=True, env=ENVIRONMENT, stdin=file)

    expected_sum = count * (count - 1) // 2
    assert done.stdout.decode() == f"standard input: {expected_sum}\n", done.stderr


@pytest.mark.parametrize("suffix", [".npy", ".safetensors", ".npz"])
def test_a_named_pipe_is_read_like_a_file(
    working_folder: Path, tables: list[Table], suffix: str
) -> None:
    """A thread writes the bytes of a good file to the pipe. A .npy file holds one array, and the
    others hold all `tables`.
    """
    saved = tables[:1] if suffix == ".npy" else tables
    save_tables("a" + suffix, saved, None)
    os.mkfifo("pipe")
    with ThreadPoolExecutor() as pool:
        pool.submit(Path("pipe").write_bytes, Path("a" + suffix).read_bytes())
        loaded = load_file("pipe").tensors

    if suffix == ".npy":
        np.testing.assert_array_equal(loaded["array"], saved[0].array())
    else:
        assert loaded.keys() == {table.name for table in saved}
        for table in saved:
            np.testing.assert_array_equal(loaded[table.name], table.array())


@pytest.mark.parametrize("suffix", [".npy", ".safetensors", ".npz"])
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(
            lambda data: data + b"more", "trailing bytes|follows its end", id="more bytes"
        ),
        pytest.param(lambda data: data[:-1], "truncated", id="a byte less"),
    ],
)
def test_a_named_pipe_with_more_or_fewer_bytes_than_its_header_declares_is_refused(
    working_folder: Path,
    tables: list[Table],
    suffix: str,
    change: Callable[[bytes], bytes],
    problem: str,
) -> None:
    """A thread writes the changed bytes of a good file to the pipe."""
    save_tables("a" + suffix, tables[:1] if suffix == ".npy" else tables, None)
    data = Path("a" + suffix).read_bytes()
    os.mkfifo("pipe")
    with ThreadPoolExecutor() as pool:
        pool.submit(Path("pipe").write_bytes, change(data))
        with pytest.raises(FileError, match=problem):
            load_file("pipe")


@pytest.mark.parametrize("read", [pecli.load, pecli.load_config, pecli.load_model])
def test_a_pipe_that_no_program_opens_to_write_is_refused(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[str], object]
) -> None:
    """Opening a named pipe blocks until a program opens it to write, which may never happen. The
    longest wait, WRITER_SECONDS, is 0.05 s here.
    """
    monkeypatch.setattr("pecli.files.named_pipe.WRITER_SECONDS", 0.05)
    os.mkfifo("pipe")

    with pytest.raises(FileError, match="is a pipe that no program has opened to write"):
        read("pipe")


def test_a_pipe_that_is_open_to_write_is_read_to_its_end_however_late_that_comes(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program must open the pipe to write within WRITER_SECONDS, 0.05 s here, but it may write
    its numbers later, after 0.2 s here.
    """
    monkeypatch.setattr("pecli.files.named_pipe.WRITER_SECONDS", 0.05)
    os.mkfifo("pipe")
    is_open = threading.Event()

    def write_late() -> None:
        with open("pipe", "wb") as file:
            is_open.set()
            time.sleep(0.2)
            file.write(b"1.5 2.5\n")

    with ThreadPoolExecutor() as pool:
        pool.submit(write_late)
        reader = os.open("pipe", os.O_RDONLY)  # The writer's `open` waits for a reader.
        is_open.wait()
        numbers = pecli.load("pipe")["array"]
        os.close(reader)

    assert numbers.tolist() == [[1.5, 2.5]]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a.npy", "npy"),
        ("A.NPZ", "npz"),
        ("x/y.SafeTensors", "safetensors"),
        ("t.csv", "csv"),
        ("t.json", "json"),
        ("a.b.h", "h"),
        ("-", "npy"),
        ("/dev/null", "npy"),
        ("/dev/stdout", "npy"),
        ("/dev/fd/1", "npy"),
        ("pipe", "npy"),
    ],
)
def test_the_suffix_selects_the_format_that_is_written(
    working_folder: Path, path: str, name: str
) -> None:
    """Letters count in either case. Streams, devices and pipes without a suffix get .npy."""
    os.mkfifo("pipe")
    assert format_of(path).name == name


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("a.nppy", "did you mean .npy?"),
        ("a.safetensor", "did you mean .safetensors?"),
        ("a.xlsx", ""),
        ("a", ""),
        ("", ""),
    ],
)
def test_an_unknown_suffix_is_refused_with_a_similar_one(path: str, advice: str) -> None:
    """The rule lists all suffixes; the advice is empty if none is similar."""
    with pytest.raises(ParameterError) as caught:
        format_of(path)
    suffixes = ".npy, .npz, .csv, .json, .safetensors, .h, .zarr"
    assert caught.value.rule == f"the suffix must be one of {suffixes}"
    assert caught.value.advice == advice


@pytest.mark.parametrize("suffix", ["npz", "safetensors", "json", "h"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("\ud800", id="half a surrogate pair"),
        pytest.param(1, id="a number"),
        pytest.param(None, id="None"),
    ],
)
def test_a_name_of_a_tensor_that_is_no_text_is_refused(
    working_folder: Path, name: Any, suffix: str
) -> None:
    """UTF-8, in which all formats store names, has no half of a surrogate pair."""
    with pytest.raises(KindError, match="must be a text"):
        pecli.save(f"a.{suffix}", {name: np.ones(3)})
    assert not list(working_folder.iterdir())


@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param("V4", id="bytes of no kind"),
        pytest.param("f4,f4", id="structured"),
        pytest.param("O", id="Python objects"),
        pytest.param("U3", id="texts"),
        pytest.param("M8[s]", id="dates"),
    ],
)
def test_an_array_that_holds_no_numbers_is_refused(working_folder: Path, dtype: str) -> None:
    """The error is that «a tensor holds numbers»; nothing may be written."""
    with pytest.raises(KindError, match="holds numbers"):
        pecli.save("a.npz", np.zeros(3, dtype))
    assert not list(working_folder.iterdir())


def test_two_tables_of_one_name_are_not_saved(working_folder: Path) -> None:
    """In the file, one of them would hide the other; nothing may be written."""
    tables = [table_of("a", np.zeros(1)), table_of("a", np.ones(1))]
    with pytest.raises(ParameterError, match="a name of its own"):
        save_tables("a.npz", tables, None)
    assert not list(working_folder.iterdir())


def archive_of_a_pickle(name: str) -> bytes:
    """Return a zip archive with one member, which is a pickle of the function `print`."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr(name, pickle.dumps(print))
    return file.getvalue()


NO_FILE_OF_TABLES = (
    "is not a .npy, .npz, .pt, .gguf, .csv, .json, .safetensors, .onnx, .h or .txt file of tables"
)


def assert_refused(path: str, message: str) -> None:
    """Assert that opening the tensors of a path fails with a FileError that has this text."""
    with pytest.raises(FileError, match=re.escape(message)):
        open_tensors(path)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        pytest.param("a.npy", b"hello, world", id="words"),
        pytest.param("a.npy", b"\x93NUMPX" + bytes(20), id="X for the last letter of NUMPY"),
        pytest.param("a.npy", b"x", id="one letter"),
        pytest.param("a.npy", bytes(9), id="zeros"),
        pytest.param("a.npy", b"1 2 3\n", id="numbers as text"),
        pytest.param(
            "a.npy", b"PK\x07\x08" + bytes(100), id="a mark of zip that begins no archive"
        ),
        pytest.param("a.zarr", b"PK\x07\x08" + bytes(100), id="the same, called zarr"),
        pytest.param("a.h", b"/* pecli */", id="a C header of a comment"),
    ],
)
def test_a_file_that_begins_as_none_of_the_formats_is_refused(
    working_folder: Path, path: str, data: bytes
) -> None:
    """A .npy file begins with 93 «NUMPY», a zip archive with «PK» 03 04 or 05 06. The suffix does not
    count for bytes that are no such file; the message lists all formats.
    """
    Path(path).write_bytes(data)
    assert_refused(path, NO_FILE_OF_TABLES)


@pytest.mark.parametrize("data", [bytes(64), b"\x80\x3f" + bytes(62)], ids=["zeros", "1.0, zeros"])
def test_bytes_called_bin_are_refused_with_the_options_for_raw_numbers(
    working_folder: Path, data: bytes
) -> None:
    """Raw numbers state neither shape nor dtype, so that the message names the options for both.
    80 3f is 1.0 in bfloat16, although a pickle begins with 80 as well.
    """
    Path("a.bin").write_bytes(data)
    assert_refused("a.bin", "state them: --shape 2,8,24,128 --raw-dtype f16")


@pytest.mark.parametrize(
    ("suffix", "data", "program"),
    [
        pytest.param("gz", gzip.compress(b"numbers", mtime=0), "gzip", id="gzip"),
        pytest.param("bz2", bz2.compress(b"numbers"), "bzip2", id="bzip2"),
        pytest.param("xz", lzma.compress(b"numbers"), "xz", id="xz"),
        pytest.param("zst", b"\x28\xb5\x2f\xfd" + bytes(9), "zstd", id="zstd"),
    ],
)
def test_a_compressed_file_is_refused_with_the_command_that_unpacks_it(
    working_folder: Path, suffix: str, data: bytes, program: str
) -> None:
    """28 b5 2f fd is the mark of zstd (RFC 8878), which Python 3.11 cannot write."""
    path = f"a.npy.{suffix}"
    Path(path).write_bytes(data)
    assert_refused(path, f"is compressed by {program}; unpack it: {program} -dk FILE")


@pytest.mark.parametrize(
    ("path", "data", "message"),
    [
        pytest.param("empty", b"", "is empty", id="an empty file"),
        pytest.param("b.h", b"#define N 3\n", "holds no numbers", id="a C header without numbers"),
        pytest.param(
            "a.txt", b"the words\nof a text\n", "holds no numbers", id="text without numbers"
        ),
        pytest.param(
            "a.gguf",
            b"GGUF" + bytes(60),
            "is GGUF version 0; versions 2 and 3 can be read",
            id="version 0 of GGUF",
        ),
        pytest.param(
            "b.json",
            b'{"tensors": {"cos": [[1.0, 0.5]]}}',
            'has a tensor that is not one; a .json has the form {"cos": [[1.0, 0.5]]}, or with dtypes ',
            id="JSON without the key data",
        ),
        pytest.param(
            "a.pt",
            archive_of_a_pickle("a/data.pkl"),
            "constructors of state dicts; it is not run; write the tensors with safetensors",
            id="a pickle of the function print",
        ),
    ],
)
def test_a_file_of_a_format_without_readable_tensors_is_refused_with_the_reason(
    working_folder: Path, path: str, data: bytes, message: str
) -> None:
    """The path is a file with these bytes. A pickle in a file of torch.save could call any function,
    and only those are accepted that build tensors.
    """
    Path(path).write_bytes(data)
    assert_refused(path, message)


@pytest.mark.parametrize(
    "path", ["m.npz", "m.npz:cos", "m.npz:cos:0", ":cos", "cos:", "::", ""], ids=repr
)
def test_a_path_of_a_missing_file_is_refused(working_folder: Path, path: str) -> None:
    """«m.npz:cos» means the tensor cos in m.npz. The folder is empty, so that there is neither such a
    file nor one with a colon in its name.
    """
    assert_refused(path, "does not exist")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        pytest.param(".", "is a folder", id="a folder"),
        pytest.param("file/a", "not a folder", id="a path through a file"),
        pytest.param("a\0b", "not a possible file name", id="a NUL in the name"),
        pytest.param("/dev/null", "is empty", id="a device without bytes"),
        pytest.param("/dev/zero", NO_FILE_OF_TABLES, id="a device of endless zeros"),
    ],
)
def test_a_path_that_is_no_file_is_refused(working_folder: Path, path: str, message: str) -> None:
    """A device is read as a pipe is. No format begins with zeros, so that those of /dev/zero are
    refused as soon as the first of them are read.
    """
    Path("file").touch()
    assert_refused(path, message)


class _BrokenMapping(dict[str, Any]):
    """A mapping of a user whose items cannot be listed."""

    def items(self) -> NoReturn:
        raise RuntimeError("the file is closed")


def test_a_mapping_whose_items_cannot_be_listed_is_named() -> None:
    """The mapping is of a class of the user, `_BrokenMapping`, whose items() raises RuntimeError;
    users see one error of pecli that names the class.
    """
    with pytest.raises(pecli.KindError, match="is a _BrokenMapping; its items cannot be had"):
        pecli.identify(_BrokenMapping())


def test_a_pipe_that_is_closed_without_data_is_refused_as_empty(working_folder: Path) -> None:
    """A thread opens the named pipe and closes it at once; `load` must raise the error of an empty
    file instead of waiting.
    """
    os.mkfifo("pipe.npy")
    writer = threading.Thread(target=lambda: open("pipe.npy", "wb").close())
    writer.start()
    with pytest.raises(FileError, match="is empty"):
        pecli.load("pipe.npy")
    writer.join()


def test_a_folder_called_dash_does_not_hide_standard_input(working_folder: Path) -> None:
    """The path «-» is always standard input, even if there is a folder of that name, which is meant
    by «./-».
    """
    np.save("x.npy", np.arange(3))
    Path("-").mkdir()
    command = [sys.executable, "-c", "import pecli; print(pecli.load('-')['array'].tolist())"]
    with open("x.npy", "rb") as file:
        done = subprocess.run(command, stdin=file, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.stdout == "[0, 1, 2]\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "its pecli metadata is not JSON: Expecting property name"),
        ("[1]", "its pecli metadata are not a JSON object"),
        ('{"parameters": [1]}', "the parameters in its pecli metadata are not a JSON object"),
        ('{"base": NaN}', "its pecli metadata holds 'NaN', a number out of range"),
    ],
)
def test_broken_metadata_are_named_when_they_are_needed(
    working_folder: Path, text: str, problem: str
) -> None:
    """The arrays can be loaded all the same; verify needs the spec."""
    np.savez("t.npz", cos=np.ones((2, 4)), pecli=np.array(text))
    assert list(pecli.load("t.npz")) == ["cos"]

    with pytest.raises(FileError, match=re.escape(f"t.npz: {problem}")):
        pecli.verify("t.npz")
