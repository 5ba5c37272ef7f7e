"""Whole files in one call: a scheme, or arrays at hand, to a file; a file to arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pecli.engine.arrays import Array
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table, table_of_numbers
from pecli.files.save import SINGLE, format_of, save_tables
from pecli.files.tee_blocks import OnBlock
from pecli.version import __version__

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


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
    if isinstance(tables, Scheme):
        save_scheme(os.fspath(path), tables)
    else:
        named: Mapping[str, Any] = tables if isinstance(tables, Mapping) else {"table": tables}
        save_tables(os.fspath(path), [table_of_numbers(name, array) for name, array in named.items()], None)


def load(path: str | os.PathLike[str]) -> dict[str, Array]:
    """All tensors of a file by name, or one with `FILE:NAME`; that of a .npy or .csv file is called "array"."""
    from pecli.files.load import open_tensors

    with open_tensors(os.fspath(path)) as file:
        file.check()
        return {table.name: table.array() for table in file.tables}
