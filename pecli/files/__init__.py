"""Files of tables: one reader and writer for each format, atomic output in one place.

Writing is here, in the format that a name asks for; readers are imported when first used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pecli.engine import __version__
from pecli.engine.arrays import numbers
from pecli.engine.table import Table, table_of
from pecli.errors import KindError, ParameterError, path_of, quoted
from pecli.files.output import OnBlock, Spec, Write, check_free_space, is_stream, is_text, open_output

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from pecli.engine.schemes.scheme import Scheme
    from pecli.files.load import LoadedFile, load_file, open_tensors

__all__ = ["LoadedFile", "format_of", "load_file", "open_output", "open_tensors", "save", "save_scheme", "save_tables"]

_WRITERS = {
    "npy": "npy",
    "npz": "npz",
    "safetensors": "safetensors",
    "csv": "text_tables",
    "json": "json_tables",
    "h": "c_header",
    "zarr": "zarr_store",
}
FORMATS = tuple(_WRITERS)
SINGLE = ("npy", "csv")
"""Formats that hold one array."""


def format_of(path: str) -> str:
    """The format that a path's suffix asks for; a stream without a suffix takes .npy.

    >>> format_of("tables/PE.NPY")
    'npy'
    """
    suffix = os.path.splitext(path)[1]
    if suffix[1:].lower() in FORMATS:
        return suffix[1:].lower()
    if is_stream(path):
        return "npy"
    known = ["." + name for name in FORMATS]
    rule = f"the suffix must be one of {', '.join(known)}"
    raise ParameterError("output", path or "''", rule, _nearest(suffix.lower()))


def tables_written(path: str, scheme: Scheme) -> list[Table]:
    """The tensors of a scheme that a file of that name would hold."""
    return [scheme.single_array()] if format_of(path) in SINGLE else list(scheme.tensors())


def save_scheme(path: str, scheme: Scheme, on_block: OnBlock | None = None) -> None:
    """Write a scheme's tables, block by block, with the spec where the format has a place for it."""
    spec = {**scheme.spec(), "version": __version__}
    save_tables(path, tables_written(path, scheme), spec, on_block=on_block)


def save(path: str | os.PathLike[str], tables: Scheme | Mapping[str, ArrayLike] | ArrayLike) -> None:
    """Write a scheme's tables, arrays by name, or one array, in the format that the suffix asks for.

    A scheme's .safetensors or .npz file carries its spec and can be verified with no other word.
    """
    from pecli.engine.schemes.scheme import Scheme  # files are compared without schemes

    path = path_of("path", path)
    if isinstance(tables, Scheme):
        save_scheme(path, tables)
    else:
        named: Mapping[str, Any] = tables if isinstance(tables, Mapping) else {"table": tables}
        save_tables(path, [table_of(name, numbers(name, array)) for name, array in named.items()], None)


def save_tables(
    path: str,
    tables: Sequence[Table],
    spec: Spec | None,
    *,
    metadata: Mapping[str, str] | None = None,
    on_block: OnBlock | None = None,
) -> None:
    """Write the tables, and the spec that made them where the format has a place for it.

    A format that holds one array takes the only table there is. Texts in `metadata` have a place in .safetensors
    alone. The file appears when it is complete.
    """
    kind = format_of(path)
    if kind in SINGLE:
        tables = [_only(path, kind, tables)]
    _check_names(tables)
    if kind == "zarr":
        from pecli.files.zarr_store import save_store

        save_store(path, tables, spec, on_block)
        return
    write_file(path, _prepare(kind, tables, spec, metadata), sum(table.nbytes for table in tables), on_block)


def write_file(path: str, write: Write, size: int, on_block: OnBlock | None = None) -> None:
    """Open the output and have it written; about `size` bytes are to come."""
    check_free_space(path, size)
    with open_output(path) as output:
        write(output, on_block)


def _prepare(kind: str, tables: Sequence[Table], spec: Spec | None, metadata: Mapping[str, str] | None) -> Write:
    """What will write the file; all refusals come from here, before the output is touched."""
    texts = {"texts": metadata} if kind == "safetensors" else {}
    write: Write = import_module(f"pecli.files.{_WRITERS[kind]}").prepare(tables, spec, **texts)
    return write


def _only(path: str, kind: str, tables: Sequence[Table]) -> Table:
    if len(tables) == 1:
        return tables[0]
    names = ", ".join(table.name for table in tables)
    raise ParameterError("output", path, f"a .{kind} file holds one array, not {names}", "write .npz or .safetensors")


def _check_names(tables: Sequence[Table]) -> None:
    names = [table.name for table in tables]
    for name in names:
        if not is_text(name):
            raise KindError("name", quoted(name), "a tensor's name must be a text")
    if len(set(names)) < len(names):
        raise ParameterError("tables", ", ".join(names), "every table needs a name of its own")


def _nearest(suffix: str) -> str:
    from difflib import SequenceMatcher

    near = {name: SequenceMatcher(None, suffix, "." + name).ratio() for name in FORMATS}
    best = max(FORMATS, key=near.__getitem__)
    return f"did you mean .{best}?" if near[best] > 0.5 else ""


def __getattr__(name: str) -> Any:
    if name in ("LoadedFile", "load_file", "open_tensors"):
        return getattr(import_module("pecli.files.load"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
