"""Reading tables from a file, whose format is told by its first bytes, or from arrays in memory in its place."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pecli.engine.arrays import Array, as_numpy
from pecli.engine.table import Table, table_of_numbers
from pecli.errors import FileError, failure, listed, path_of, quoted
from pecli.files.checkpoints import Shards, shards_of
from pecli.files.npy import ARRAY_NAME, read_table
from pecli.files.source import Source, SourceGroup, UnreadTensor, mapped_rows, open_source

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    Given = str | os.PathLike[str] | Mapping[str, ArrayLike | Any] | ArrayLike | Any

_INSTEAD = "write the tensors with safetensors.torch.save_file or numpy.save"
MAX_NAMES = 8
"""How many names an error lists."""
MAX_COMPARED = 2000


@dataclass(frozen=True)
class LoadedFile:
    """An open file: its tables, whose elements are read when asked for, and its texts; use it with `with`."""

    path: str
    format: str
    tables: tuple[Table, ...]
    metadata: dict[str, str]
    source: Source = field(repr=False)
    checksums: Mapping[str, Callable[[], None]] = field(default_factory=dict, repr=False)
    unread: tuple[UnreadTensor, ...] = ()
    """Tensors that are only named, such as quantised ones."""

    @cached_property
    def tensors(self) -> dict[str, Array]:
        """The tensors by name, as arrays: mapped where their bytes lie plainly in a regular file, else in memory."""
        return {table.name: _as_array(table) for table in self.tables}

    def check(self, tables: Iterable[Table] | None = None) -> None:
        """Read these tables, or all, and compare them with their checksums; only those of a .npz have any."""
        for table in self.tables if tables is None else tables:
            if table.name in self.checksums:
                self.checksums[table.name]()

    def read_as(self, dtype: str) -> LoadedFile:
        """The file with its numbers in a dtype, where its format has none of its own: .csv holds decimals alone."""
        if self.format != "csv":
            return self
        from pecli.engine.table import cast

        return replace(self, tables=tuple(cast(table, dtype) for table in self.tables))

    def close(self) -> None:
        """Let go of the file; its tables cannot be read any more."""
        self.source.close()

    def __enter__(self) -> LoadedFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _as_array(table: Table) -> Array:
    mapped = mapped_rows(table, 0, table.rows) if table.size else None
    return table.array() if mapped is None else mapped.reshape(table.shape)


def load_file(path: str) -> LoadedFile:
    """Open a file of tables, of which only the header is read; or the files of a folder or an index, as one.

    `-` is standard input.
    """
    if path.lower().rstrip("/").endswith(".zarr") and os.path.isdir(path):
        from pecli.files.zarr_store import read_store

        tables, metadata, folder = read_store(path)
        return LoadedFile(path, "zarr", tables, metadata, folder)
    if path != "-" and (shards := shards_of(path)) is not None:
        return _load_shards(path, shards)
    source = open_source(path)
    try:
        return _recognise(source)
    except BaseException:
        source.close()
        raise


def _load_shards(path: str, shards: Shards) -> LoadedFile:
    """Several files as one: their tensors by name, each of which has to be in one of them only."""
    tables: dict[str, Table] = {}
    unread: list[UnreadTensor] = []
    checksums: dict[str, Callable[[], None]] = {}
    opened = SourceGroup(path)
    try:
        for file, names in shards.items():
            loaded = load_file(file)
            opened.add(loaded.source)
            found = {_name_in_folder(loaded, table): table for table in loaded.tables}
            if names is not None:
                missing = {*names} - {*found, *(each.name for each in loaded.unread)}
                if missing:
                    raise FileError(path, f"says that {quoted(min(missing))} is in {quoted(file)}", "it is not")
                found = {name: found[name] for name in names if name in found}
            if both := tables.keys() & found.keys():
                raise FileError(path, f"has {quoted(min(both))} in several files", "name one of them")
            tables |= {name: replace(table, name=name) for name, table in found.items()}
            checksums |= loaded.checksums
            unread += loaded.unread
    except BaseException:
        opened.close()
        raise
    return LoadedFile(path, "folder", tuple(tables.values()), {}, opened, checksums, tuple(unread))


def _name_in_folder(file: LoadedFile, table: Table) -> str:
    """The array of a .npy has no name of its own, and takes the file's."""
    if file.format != "npy":
        return table.name
    return os.path.splitext(os.path.basename(os.fsencode(file.path)))[0].decode("utf-8", "replace")


def open_tensors(text: str) -> LoadedFile:
    """Open `FILE`, or only the tensor NAME of it with `FILE:NAME`; a file of the very name comes first."""
    path, name = split_name(text)
    if name is None:
        return load_file(path)
    loaded = load_file(path)
    chosen = tuple(table for table in loaded.tables if table.name == name)
    if chosen:
        return replace(loaded, tables=chosen, unread=())
    loaded.close()
    for each in loaded.unread:
        if each.name == name:
            raise FileError(path, f"tensor {quoted(name)} is stored as {each.dtype}", "which is not read")
    raise FileError(path, f"has no tensor {quoted(name)}", _offer(name, [table.name for table in loaded.tables]))


def load(path: str | os.PathLike[str]) -> dict[str, Array]:
    """All tensors of a file by name, or one with `FILE:NAME`; that of a .npy or .csv file is called "array"."""
    with open_tensors(path_of("path", path)) as file:
        file.check()
        return {table.name: table.array() for table in file.tables}


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


def _recognise(source: Source) -> LoadedFile:
    start = source.read(0, 9)
    if not start:
        raise source.error("is empty")
    if start.startswith(b"\x93NUMPY"):
        return LoadedFile(source.path, "npy", (read_table(source, ARRAY_NAME),), {}, source)
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        from pecli.files import npz
        from pecli.files.checkpoints import torch_file

        if torch_file.is_torch(source):
            return LoadedFile(source.path, "torch", torch_file.read(source), {}, source)
        tables, metadata, checksums = npz.read(source)
        return LoadedFile(source.path, "npz", tables, metadata, source, checksums)
    if kind := _text_kind(source.path, start):
        tables, metadata = _text_reader(kind)(source)
        return LoadedFile(source.path, kind, tables, metadata, source)
    if start[8:] == b"{":
        from pecli.files import safetensors

        tables, metadata = safetensors.read(source)
        return LoadedFile(source.path, "safetensors", tables, metadata, source)
    if source.path.lower().endswith(".onnx"):
        from pecli.files.checkpoints import onnx_file

        found = onnx_file.read(source)
        group = SourceGroup(source.path, source, *found.beside.values())
        return LoadedFile(source.path, "onnx", tuple(found.tables), {}, group, unread=tuple(found.unread))
    if start.startswith(b"\x80"):
        raise source.error("is a pickle without an archive around it, and those are never loaded", _INSTEAD)
    if start.startswith(b"GGUF"):
        from pecli.files.checkpoints import gguf_file

        tables, unread = gguf_file.read(source)
        return LoadedFile(source.path, "gguf", tables, {}, source, unread=unread)
    raise source.error(
        "is not a .npy, .npz, .safetensors, .gguf, .onnx, .pt, .csv, .txt, .json or .h file of tables",
        _advice(source.path),
    )


def _text_reader(kind: str) -> Callable[[Source], tuple[tuple[Table, ...], dict[str, str]]]:
    if kind == "csv":
        from pecli.files.text_tables import read_csv as read
    elif kind == "json":
        from pecli.files.json_tables import read_json as read
    else:
        from pecli.files.c_header import read_header as read
    return read


def _advice(path: str) -> str:
    """What to do about a file that is none of these, going by its name."""
    suffix = os.path.splitext(path.lower())[1]
    if suffix in (".bin", ".raw", ".dat", ".f32", ".f16", ".f64", ".bf16", ".fp32", ".fp16"):
        return "raw numbers have no shape: numpy.save('x.npy', numpy.fromfile(FILE, 'f4').reshape(rows, columns))"
    if suffix == ".json":
        from pecli.files.json_tables import JSON_FORM

        return JSON_FORM
    return ""


def _text_kind(path: str, start: bytes) -> str:
    """Which kind of text it is, if any: a .safetensors file begins with a number below 2**24, in eight bytes."""
    if start.startswith((b"/* pecli", b"#ifndef P")):
        return "h"
    if start[:1] == b"{" and len(start) > 8 and start[4:8] != bytes(4):
        return "json"
    return "csv" if path.lower().endswith((".csv", ".txt", ".tsv")) else ""


def _offer(name: str, names: Sequence[str]) -> str:
    """The names there are, the likeliest first."""
    import difflib

    close = difflib.get_close_matches(name, names[:MAX_COMPARED], n=MAX_NAMES, cutoff=0.4)
    likeliest = [*close, *(other for other in names if other not in close)]
    return f"it has {listed(likeliest, MAX_NAMES, quoted) or 'none'}"


NO_FILE = ""
"""The path of arrays in memory."""


def opened(given: Given) -> tuple[str, LoadedFile]:
    """A file (or FILE:NAME), an array, or arrays by name: what it was asked for by, and its tables."""
    if isinstance(given, (str, os.PathLike)):
        path = os.fspath(given)
        return path, open_tensors(path)
    named: Mapping[str, Any] = given if isinstance(given, Mapping) else {ARRAY_NAME: given}
    tables = tuple(table_in_memory(name, array) for name, array in named.items())
    return NO_FILE, LoadedFile(NO_FILE, "arrays", tables, {}, SourceGroup(NO_FILE))


def table_in_memory(name: str, values: Any) -> Table:
    """A table of whatever gives its values up: arrays of NumPy, torch, JAX, MLX, or nested lists."""
    return table_of_numbers(name, as_numpy(name, values))
