"""Reading tensors from a file, whose format is told by its first bytes, or from arrays in memory in its place."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.engine.arrays import Array, numbers
from pecli.errors import FileError, failure, listed, path_of, quoted
from pecli.files.contents import GGUF, INDEX, START, LazyTensors, UnreadTensor, read_contents
from pecli.files.contents import LoadedFile as LoadedFile
from pecli.files.npy import ARRAY_NAME

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    Given = str | os.PathLike[str] | Mapping[str, ArrayLike | Any] | ArrayLike | Any

MAX_NAMES = 8
"""How many names an error lists."""
MAX_COMPARED = 2000
NO_FILE = ""
"""The path of arrays in memory."""


def load_file(path: str) -> LoadedFile:
    """Read a file of tensors, or the files of a folder or an index, as one; `-` is standard input."""
    if path.lower().rstrip("/").endswith(".zarr") and os.path.isdir(path):
        from pecli.files.zarr_store import read_store

        return read_store(path)
    if path != "-" and (os.path.isdir(path) or path.lower().endswith(INDEX)):
        return _load_shards(path)
    contents = read_contents(path, format_of_bytes)
    module = _READERS[format_of_bytes(contents.path, bytes(contents.data[:START]))]
    loaded: LoadedFile = import_module(f"pecli.files.{module}").read(contents)
    return loaded


def _load_shards(path: str) -> LoadedFile:
    """Several files as one: their tensors by name, each of which has to be in one of them only."""
    from pecli.files.checkpoints import shards_of

    tensors: dict[str, Array] = {}
    unread: list[UnreadTensor] = []
    checksums: dict[str, Callable[[], object]] = {}
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
        one = LazyTensors({name: loaded.outlines[name]}, loaded.tensors.__getitem__)
        return replace(loaded, tensors=one, unread=())
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
        first = start[30 : 30 + int.from_bytes(start[26:28], "little")]
        return "torch" if first.endswith(b"/data.pkl") else "npz"
    if start.startswith(GGUF):
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


_READERS = {
    "npy": "npy",
    "npz": "npz",
    "safetensors": "safetensors",
    "csv": "text_tables",
    "json": "json_tables",
    "torch": "checkpoints.torch_file",
    "gguf": "checkpoints.gguf_file",
    "onnx": "checkpoints.onnx_file",
}
"""Modules whose `read` takes the contents of a file."""


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
    return NO_FILE, LoadedFile(NO_FILE, "arrays", {name: numbers(name, array) for name, array in named.items()})
