"""Saving and loading by name: which format a name asks for, which file and tensor FILE:NAME means,
and what is read from pipes and standard input.

«-» is standard input or output. A named pipe (fifo) is read to its end. Files that cannot be read
are refused with advice. Expected values are the arrays that the tests saved.
"""

import io
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
from itertools import product
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
def test_a_pipe_and_small_blocks_get_the_same_bytes_as_a_file(
    working_folder: Path,
    tables: list[Table],
    spec: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
) -> None:
    """Tables are computed and written in blocks; here blocks of 16 bytes by several threads, in
    reverse order of the tensors, must give the bytes of the usual way. `on_block` reports the bytes
    written so far, which must add up.
    """
    if format_of("a" + suffix).holds_one_array:
        tables = tables[:1]
    save_tables("a" + suffix, tables, spec)
    expected = Path("a" + suffix).read_bytes()
    pipe = working_folder / "pipes" / f"a{suffix}"  # of the same name, which a .h file holds
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        received = pool.submit(pipe.read_bytes)
        save_tables(str(pipe), tables, spec)

    assert received.result() == expected

    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 16)
    monkeypatch.setattr("pecli.files.writing.MIN_THREADED_BYTES", 0)
    monkeypatch.setattr("pecli.files.decimals.ELEMENTS", 4)
    seen: list[int] = []
    save_tables("a" + suffix, tables[::-1], spec, on_block=seen.append)

    assert sum(seen) == sum(table.nbytes for table in tables)
    assert Path("a" + suffix).read_bytes() == expected


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_that_fails_leaves_the_old_file(
    working_folder: Path, spec: dict[str, object], suffix: str
) -> None:
    """The function that computes the table's rows raises; no temporary file may stay beside the old
    one.
    """

    def fail(start: int, out: object) -> None:
        raise RuntimeError("no more")

    Path("a" + suffix).write_bytes(b"old")
    with pytest.raises(RuntimeError, match="no more"):
        save_tables("a" + suffix, [Table("a", "float32", (100, 10), fail)], spec)
    assert Path("a" + suffix).read_bytes() == b"old"
    assert [path.name for path in working_folder.iterdir()] == ["a" + suffix]


def test_files_and_tensors_may_both_have_colons_in_their_names(working_folder: Path) -> None:
    """FILE:NAME means the longest part that is a file; each array has another size (3 to 6), which
    tells the one that was opened.
    """
    np.save("a:b.npy", np.arange(3))
    np.savez("a.npz", **{"dense/kernel:0": np.arange(4), ":": np.arange(5)})
    np.savez("a.npz:dense", **{"bias:1": np.arange(6)})
    Path("a.npz:dense.npz").rename("a.npz:dense")
    sizes = {"a:b.npy": 3, "a.npz:dense/kernel:0": 4, "a.npz::": 5, "a.npz:dense:bias:1": 6}

    for text, size in sizes.items():
        assert [array.size for array in open_tensors(text).tensors.values()] == [size]
    with pytest.raises(FileError, match=r"^a.npz: has no tensor 'bias:0'"):
        open_tensors("a.npz:bias:0")


def test_a_missing_tensor_is_answered_with_the_names_that_exist(working_folder: Path) -> None:
    """The file has 21 tensors; a message lists eight of them and counts 13."""
    save_tables(
        "a.npz",
        [table_of(name, np.zeros(1)) for name in ["cos", *(f"layer{at}" for at in range(20))]],
        None,
    )
    with pytest.raises(
        FileError, match=r"^a.npz: has no tensor 'coss'; it has 'cos', 'layer0', .* and 13 more$"
    ):
        open_tensors("a.npz:coss")


@pytest.mark.parametrize("count", [0, 6, 300_000])
@pytest.mark.sample("300000")
def test_standard_input_is_read_from_a_pipe_and_from_a_file(
    working_folder: Path, count: int
) -> None:
    """The sum of 0 to n − 1 is n (n − 1) / 2; 300,000 numbers are more than a pipe holds at once."""
    np.save("a.npy", np.arange(count))
    script = "from pecli.files.load import load_file; a = load_file('-'); print(a.path, a.tensors['array'].sum())"

    with open("a.npy", "rb") as file:
        for given in ({"input": Path("a.npy").read_bytes()}, {"stdin": file}):
            done = subprocess.run(
                [sys.executable, "-c", script], capture_output=True, env=ENVIRONMENT, **given
            )
            assert done.stdout.split() == [
                b"standard",
                b"input",
                b"%d" % (count * (count - 1) // 2),
            ], done.stderr


@pytest.mark.parametrize("suffix", [".npy", ".safetensors", ".npz"])
@pytest.mark.parametrize("change", [b"", b"more", None])
def test_a_named_pipe_is_read_and_refused_if_it_has_more_or_fewer_bytes(
    working_folder: Path, tables: list[Table], suffix: str, change: bytes | None
) -> None:
    """The whole file (no change), one with more bytes after it, and one without its last byte
    (None).
    """
    save_tables("a" + suffix, tables[:1] if suffix == ".npy" else tables, None)
    data = Path("a" + suffix).read_bytes()
    data = data[:-1] if change is None else data + change
    os.mkfifo("pipe")

    with ThreadPoolExecutor() as pool:
        pool.submit(Path("pipe").write_bytes, data)
        if change == b"":
            by_name = {table.name: table for table in tables}
            for name, array in load_file("pipe").tensors.items():
                assert np.array_equal(array, by_name.get(name, tables[0]).array())
        else:
            with pytest.raises(
                FileError, match="trailing bytes|follows its end" if change else "truncated"
            ):
                load_file("pipe")


@pytest.mark.parametrize("read", [pecli.load, pecli.load_config, pecli.load_model])
def test_a_pipe_without_a_writer_is_not_waited_for_for_ever(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[str], object]
) -> None:
    """Opening a named pipe blocks until a program opens it to write; the time is 0.05 s here."""
    monkeypatch.setattr("pecli.files.named_pipe.WRITER_SECONDS", 0.05)
    os.mkfifo("pipe")

    with pytest.raises(FileError, match="is a pipe that no program has opened to write"):
        read("pipe")


def test_a_writer_may_take_its_time(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that is open to write is read to its end, however late that comes."""
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


def test_the_suffix_selects_the_format_that_is_written(working_folder: Path) -> None:
    """Letters count in either case. Streams and pipes without a suffix get .npy; a suffix that is
    unknown is refused, with a similar one if there is any.
    """
    os.mkfifo("pipe")
    kinds = {
        "a.npy": "npy",
        "A.NPZ": "npz",
        "x/y.SafeTensors": "safetensors",
        "t.csv": "csv",
        "t.json": "json",
    }
    kinds |= {"a.b.h": "h"} | dict.fromkeys(
        ("-", "/dev/null", "/dev/stdout", "/dev/fd/1", "pipe"), "npy"
    )

    assert {path: format_of(path).name for path in kinds} == kinds

    advice = {"a.nppy": "did you mean .npy?", "a.safetensor": "did you mean .safetensors?"}
    advice |= dict.fromkeys(("a.xlsx", "a", ""), "")
    for path, words in advice.items():
        with pytest.raises(ParameterError) as caught:
            format_of(path)
        assert (
            caught.value.rule
            == "the suffix must be one of .npy, .npz, .csv, .json, .safetensors, .h, .zarr"
        )
        assert caught.value.advice == words


def test_names_and_arrays_that_no_format_holds_are_refused(working_folder: Path) -> None:
    """Names that are no text (half a surrogate pair is none), arrays that hold no numbers, and one
    name for two tensors; nothing may be written.
    """
    for name, suffix in product(("\ud800", 1, None), ("npz", "safetensors", "json", "h")):
        with pytest.raises(KindError, match="must be a text"):
            pecli.save(f"a.{suffix}", {name: np.ones(3)})  # type: ignore[dict-item]
    for dtype in ("V4", "f4,f4", "O", "U3", "M8[s]"):
        with pytest.raises(KindError, match="holds numbers"):
            pecli.save("a.npz", np.zeros(3, dtype))

    with pytest.raises(ParameterError, match="a name of its own"):
        save_tables("a.npz", [table_of("a", np.zeros(1)), table_of("a", np.ones(1))], None)
    assert not list(working_folder.iterdir())


def archive(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr(name, pickle.dumps(print))
    return file.getvalue()


NO_TABLES = (
    "is not a .npy, .npz, .pt, .gguf, .csv, .json, .safetensors, .onnx or .txt file of tables"
)
UNREADABLE_FILES: list[tuple[str, bytes | None, str]] = [
    (".", None, "is a folder"),
    *(
        ("a.npy", data, NO_TABLES)
        for data in (b"hello, world", b"\x93NUMPX" + bytes(20), b"x", bytes(9))
    ),
    *((name, b"PK\x07\x08" + bytes(100), NO_TABLES) for name in ("a.npy", "a.zarr")),
    (
        "a.pt",
        archive("a/data.pkl"),
        "constructors of state dicts; it is not run; write the tensors with safetensors",
    ),
    ("a.bin", bytes(64), "state them: --shape 2,8,24,128 --raw-dtype f16"),
    ("a.h", b"/* pecli */", "is not a .npy"),
    ("b.h", b"#define N 3\n", "holds no numbers"),
    ("a.npy", b"1 2 3\n", NO_TABLES),
    ("b.json", b'{"tensors": {"cos": [[1.0, 0.5]]}}', '{"tensors": {"cos": {"data": '),
    ("a.txt", b"the words\nof a text\n", "holds no numbers"),
    ("a.gguf", b"GGUF" + bytes(60), "versions 2 and 3 can be read"),
    ("empty", b"", "is empty"),
    ("empty/a", None, "not a folder"),
    ("a\0b", None, "not a possible file name"),
    ("/dev/null", None, "is empty"),
    ("/dev/zero", None, "is not a .npy"),
    *(
        (text, None, "does not exist")
        for text in ("m.npz:cos", "m.npz", "m.npz:cos:0", ":cos", "cos:", "::")
    ),
    ("", None, "'': does not exist"),
]


@pytest.mark.parametrize(
    ("path", "data", "said"),
    UNREADABLE_FILES,
    ids=[f"{path}: {said[:40]}" for path, _, said in UNREADABLE_FILES],
)
def test_a_file_that_cannot_be_read_is_refused_with_advice(
    working_folder: Path, path: str, data: bytes | None, said: str
) -> None:
    """Each row of UNREADABLE_FILES is a path, the bytes to write there (None: nothing is written),
    and a part of the message: folders, damaged or empty files, pickles, text without numbers,
    devices and missing files.
    """
    Path("empty").touch()  # which the path empty/a leads through
    if data is not None:
        Path(path).write_bytes(data)
    with pytest.raises(FileError, match=re.escape(said)):
        open_tensors(path)


class _BrokenMapping(dict[str, Any]):
    """A mapping of a user whose items cannot be listed."""

    def items(self) -> NoReturn:
        raise RuntimeError("the file is closed")


def test_a_mapping_whose_items_cannot_be_listed_is_named() -> None:
    """Its items() raises RuntimeError, which users see as one error of pecli with the class's name."""
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
    """«-» is always standard input; the folder is meant by «./-»."""
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
