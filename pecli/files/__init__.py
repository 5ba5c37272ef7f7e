"""Files of tables, one reader and writer for each format. Writing is here, as a name asks for it; `load` reads."""

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from pecli.engine import __version__
from pecli.engine.arrays import ArrayLike, numbers
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table, table_of
from pecli.errors import KindError, ParameterError, nearest, path_of, quoted
from pecli.files.output import OnBlock, Spec, Texts, is_stream, is_text

_WRITERS = {
    **{name: f"{name}.write" for name in ("npy", "npz", "safetensors")},
    **{
        "csv": "text.write_csv",
        "json": "text.write_json",
        "h": "text.write_header",
        "zarr": "zarr_store.write",
    },
}  #: Functions of this folder that check what is to be written, open the output and write it
SINGLE = ("npy", "csv")  # formats that hold one array


def format_of(path: str) -> str:
    """The format that a path's suffix asks for; a stream without a suffix takes .npy.

    >>> format_of("tables/PE.NPY")
    'npy'
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix[1:] in _WRITERS:
        return suffix[1:]
    if is_stream(path):
        return "npy"
    known = ["." + name for name in _WRITERS]
    rule = f"the suffix must be one of {', '.join(known)}"
    raise ParameterError("output", path or "''", rule, nearest(suffix, known, str))


def tables_written(path: str, scheme: Scheme) -> list[Table]:
    """The tensors of a scheme that a file of that name would hold."""
    return [scheme.single_array()] if format_of(path) in SINGLE else list(scheme.tensors())


def save(
    path: str | os.PathLike[str],
    tables: Scheme | Mapping[str, ArrayLike] | ArrayLike,
    *,
    header: bool = True,
) -> None:
    """Write a scheme's tables, arrays by name, or one array, in the format that the suffix asks for.

    A scheme's .safetensors or .npz file carries its spec and can be verified with no other word. A .csv begins with
    the names of its columns, unless `header` is false.
    """
    path = path_of("path", path)
    if isinstance(tables, Scheme):
        save_tables(
            path,
            tables_written(path, tables),
            {**tables.spec(), "version": __version__},
            header=header,
        )
    else:
        named: Mapping[str, Any] = tables if isinstance(tables, Mapping) else {"table": tables}
        save_tables(
            path,
            [table_of(name, numbers(name, array)) for name, array in named.items()],
            None,
            header=header,
        )


def save_tables(
    path: str, tables: Sequence[Table], spec: Spec | None, *, metadata: Texts = None,
    on_block: OnBlock = lambda count: None, header: bool = True,
) -> None:  # fmt: skip
    """Write the tables, and the spec that made them where the format has a place for it, as .safetensors alone has one
    for texts in `metadata`. The file appears when it is complete; all refusals come before the output is touched."""
    kind = format_of(path)
    names = [table.name for table in tables]
    if kind in SINGLE and len(names) != 1:
        rule = f"a .{kind} file holds one array, not {', '.join(names)}"
        raise ParameterError("output", path, rule, "write .npz or .safetensors")
    for name in names:
        if not is_text(name):
            raise KindError("name", quoted(name), "a tensor's name must be a text")
    if len(set(names)) < len(names):
        raise ParameterError("tables", ", ".join(names), "every table needs a name of its own")
    module, _, write = _WRITERS[kind].partition(".")
    more = {"header": header} if kind == "csv" else {}
    getattr(import_module(f"pecli.files.{module}"), write)(
        path, tables, spec, metadata, on_block, **more
    )
