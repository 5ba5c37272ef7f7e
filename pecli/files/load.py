"""Reading tensors from a file, whose format is told by its first bytes, or from arrays in memory in its place."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.engine.arrays import SIGNIFICAND_BITS, Array, dtype_name, numbers, round_to, widened
from pecli.engine.table import Table, table_of
from pecli.errors import FileError, failure, listed, path_of, quoted
from pecli.files.contents import Contents, UnreadTensor, read_contents
from pecli.files.npy import ARRAY_NAME, read_array

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    Given = str | os.PathLike[str] | Mapping[str, ArrayLike | Any] | ArrayLike | Any

MAX_NAMES = 8
"""How many names an error lists."""
MAX_COMPARED = 2000
NO_FILE = ""
"""The path of arrays in memory."""


@dataclass(frozen=True)
class LoadedFile:
    """The tensors of a file by name, mapped where their bytes lie plainly in a regular file, and its texts."""

    path: str
    format: str
    tensors: dict[str, Array]
    metadata: dict[str, str] = field(default_factory=dict)
    unread: tuple[UnreadTensor, ...] = ()
    """Tensors that are only named, such as quantised ones."""
    checksums: Mapping[str, Callable[[], None]] = field(default_factory=dict, repr=False)
    contents: Contents | None = field(default=None, repr=False)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The tensors as tables."""
        return tuple(table_of(name, array) for name, array in self.tensors.items())

    def check(self, chosen: Iterable[Any] | None = None) -> None:
        """Compare these tensors, or all, with their checksums; only those of a .npz have any."""
        names = self.tensors if chosen is None else [getattr(each, "name", each) for each in chosen]
        for name in names:
            if name in self.checksums:
                self.checksums[name]()

    def read_as(self, dtype: str) -> LoadedFile:
        """The file with its numbers in a dtype, where its format has none of its own: .csv holds decimals alone."""
        if self.format != "csv":
            return self
        floats = {name for name, array in self.tensors.items() if dtype_name(array.dtype) in SIGNIFICAND_BITS}
        rounded = {name: round_to(widened(self.tensors[name]), dtype) for name in floats}
        return replace(self, tensors={**self.tensors, **rounded})

    def close(self) -> None:
        """Nothing is held open: a mapping goes with its arrays."""

    def __enter__(self) -> LoadedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def load_file(path: str) -> LoadedFile:
    """Read a file of tensors, or the files of a folder or an index, as one; `-` is standard input."""
    if path.lower().rstrip("/").endswith(".zarr") and os.path.isdir(path):
        from pecli.files.zarr_store import read_store

        tensors, metadata = read_store(path)
        return LoadedFile(path, "zarr", tensors, metadata)
    if path != "-" and (os.path.isdir(path) or path.lower().endswith(".index.json")):
        return _load_shards(path)
    contents = read_contents(path, format_of_bytes)
    return _READERS[format_of_bytes(contents.path, bytes(contents.data[:64]))](contents)


def _load_shards(path: str) -> LoadedFile:
    """Several files as one: their tensors by name, each of which has to be in one of them only."""
    from pecli.files.checkpoints import shards_of

    tensors: dict[str, Array] = {}
    unread: list[UnreadTensor] = []
    checksums: dict[str, Callable[[], None]] = {}
    for file, names in shards_of(path).items():
        loaded = load_file(file)
        shard = {_name_in_folder(loaded, name): array for name, array in loaded.tensors.items()}
        if names is not None:
            missing = {*names} - {*shard, *(tensor.name for tensor in loaded.unread)}
            if missing:
                raise FileError(path, f"index lists {quoted(min(missing))} in {quoted(file)}", "which lacks it")
            shard = {name: shard[name] for name in names if name in shard}
        if both := tensors.keys() & shard.keys():
            raise FileError(path, f"has {quoted(min(both))} in several files", "name one of them")
        tensors |= shard
        checksums |= loaded.checksums
        unread += loaded.unread
    return LoadedFile(path, "folder", tensors, {}, tuple(unread), checksums)


def _name_in_folder(file: LoadedFile, name: str) -> str:
    """The array of a .npy has no name of its own, and takes the file's."""
    if file.format != "npy":
        return name
    return os.path.splitext(os.path.basename(os.fsencode(file.path)))[0].decode("utf-8", "replace")


def open_tensors(text: str) -> LoadedFile:
    """Read `FILE`, or only the tensor NAME of it with `FILE:NAME`; a file of the very name comes first."""
    path, name = split_name(text)
    loaded = load_file(path)
    if name is None:
        return loaded
    if name in loaded.tensors:
        return replace(loaded, tensors={name: loaded.tensors[name]}, unread=())
    for tensor in loaded.unread:
        if tensor.name == name:
            raise FileError(path, f"tensor {quoted(name)} is stored as {tensor.dtype}", "which is not read")
    raise FileError(path, f"has no tensor {quoted(name)}", _offer(name, list(loaded.tensors)))


def load(path: str | os.PathLike[str]) -> dict[str, Array]:
    """All tensors of a file by name, or one with `FILE:NAME`; that of a .npy or .csv file is called "array".

    They are in memory, and yours to change: what becomes of the file is no matter to them.
    """
    file = open_tensors(path_of("path", path))
    file.check()
    return {name: np.array(array, order="C") for name, array in file.tensors.items()}


def split_name(text: str) -> tuple[str, str | None]:
    """The path in `FILE`, or the path and the name in `FILE:NAME`; a file of the very name comes first.

    Either may have colons, as in `dense/kernel:0`: of several files, the one with the longest name is meant.
    """
    drive, path = ("", text) if text.startswith("-:") else os.path.splitdrive(text)  # C: is no file
    if text == "-" or not path.rfind(":") > 0 or os.path.exists(text):
        return text, None
    while (path := path.rpartition(":")[0]) and drive + path != "-" and not os.path.exists(drive + path):
        pass
    if not path:
        raise failure(text, FileNotFoundError(errno.ENOENT, ""))
    path = drive + path
    return path, text[len(path) + 1 :]


def format_of_bytes(path: str, start: bytes) -> str:
    """Which format a file has, by its first bytes and for some by its name; a FileError where it is none."""
    if not start:
        raise FileError(path, "is empty")
    suffix = os.path.splitext(path.lower())[1]
    if start.startswith(b"\x93NUMPY"):
        return "npy"
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if start.startswith(b"GGUF"):
        return "gguf"
    if suffix in (".csv", ".txt", ".tsv"):
        return "csv"
    if start[:1] == b"{" and len(start) > 8 and start[4:8] != bytes(4):  # a .safetensors begins with a small number
        return "json"
    if start[8:9] == b"{":
        return "safetensors"
    if suffix == ".onnx":
        return "onnx"
    if start.startswith(b"\x80"):
        way = "write the tensors with safetensors.torch.save_file or numpy.save"
        raise FileError(path, "is a pickle without an archive around it, and those are never loaded", way)
    known = ".npy, .npz, .safetensors, .gguf, .onnx, .pt, .csv, .txt or .json"
    raise FileError(path, f"is not a {known} file of tables", _advice(suffix))


def _advice(suffix: str) -> str:
    """What to do about a file that is none of these, going by its name."""
    if suffix in (".bin", ".raw", ".dat", ".f32", ".f16", ".f64", ".bf16", ".fp32", ".fp16"):
        return "raw numbers have no shape: numpy.save('x.npy', numpy.fromfile(FILE, 'f4').reshape(rows, columns))"
    if suffix == ".h":
        return "C headers are written, not read: write .npz or .safetensors as well"
    if suffix == ".json":
        from pecli.files.json_tables import JSON_FORM

        return JSON_FORM
    return ""


def _read_npy(contents: Contents) -> LoadedFile:
    return LoadedFile(contents.path, "npy", {ARRAY_NAME: read_array(contents)})


def _read_zip(contents: Contents) -> LoadedFile:
    from pecli.files import npz

    members = npz.members_of(contents)
    if any(name.endswith("/data.pkl") for name in members):
        from pecli.files.checkpoints import torch_file

        return LoadedFile(contents.path, "torch", torch_file.read(contents, members))
    tensors, metadata, checksums = npz.read(contents, members)
    return LoadedFile(contents.path, "npz", tensors, metadata, checksums=checksums)


def _read_safetensors(contents: Contents) -> LoadedFile:
    from pecli.files import safetensors

    tensors, metadata = safetensors.read(contents)
    return LoadedFile(contents.path, "safetensors", tensors, metadata, contents=contents)


def _read_gguf(contents: Contents) -> LoadedFile:
    from pecli.files.checkpoints import gguf_file

    tensors, unread = gguf_file.read(contents)
    return LoadedFile(contents.path, "gguf", tensors, unread=unread)


def _read_onnx(contents: Contents) -> LoadedFile:
    from pecli.files.checkpoints import onnx_file

    tensors, unread = onnx_file.read(contents)
    return LoadedFile(contents.path, "onnx", tensors, unread=unread)


def _read_csv(contents: Contents) -> LoadedFile:
    from pecli.files.text_tables import read_csv

    return LoadedFile(contents.path, "csv", {ARRAY_NAME: read_csv(contents)})


def _read_json(contents: Contents) -> LoadedFile:
    from pecli.files.json_tables import read_json

    return LoadedFile(contents.path, "json", *read_json(contents))


_READERS: dict[str, Callable[[Contents], LoadedFile]] = {
    "npy": _read_npy,
    "zip": _read_zip,
    "safetensors": _read_safetensors,
    "gguf": _read_gguf,
    "onnx": _read_onnx,
    "csv": _read_csv,
    "json": _read_json,
}


def _offer(name: str, names: Sequence[str]) -> str:
    """The names there are, the likeliest first."""
    import difflib

    close = difflib.get_close_matches(name, names[:MAX_COMPARED], n=MAX_NAMES, cutoff=0.4)
    likeliest = [*close, *(other for other in names if other not in close)]
    return f"it has {listed(likeliest, MAX_NAMES, quoted) or 'none'}"


def opened(given: Given) -> tuple[str, LoadedFile]:
    """A file (or FILE:NAME), an array, or arrays by name: what it was asked for by, and its tensors."""
    if isinstance(given, (str, os.PathLike)):
        path = os.fspath(given)
        return path, open_tensors(path)
    named: Mapping[str, Any] = given if isinstance(given, Mapping) else {ARRAY_NAME: given}
    return NO_FILE, LoadedFile(NO_FILE, "arrays", {name: table_in_memory(name, a).array() for name, a in named.items()})


def table_in_memory(name: str, values: Any) -> Table:
    """A table of whatever gives its values up: arrays of NumPy, torch, JAX, MLX, or nested lists."""
    return table_of(name, numbers(name, values))
