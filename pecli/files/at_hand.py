"""Arrays at hand in the place of a file: what checks take from a path, they take from these, too."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.engine.table import Table, table_of
from pecli.errors import KindError
from pecli.files.load import LoadedFile, open_tensors
from pecli.files.npy_reader import ARRAY_NAME
from pecli.files.source import Source

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    Given = str | os.PathLike[str] | Mapping[str, ArrayLike] | ArrayLike

NO_FILE = ""
"""The path of arrays at hand."""


class _Nowhere(Source):
    """No bytes at all."""

    path, size = NO_FILE, 0

    def read_into(self, offset: int, out: memoryview) -> int:
        return 0


def opened(given: Given, open_path: Callable[[str], LoadedFile] = open_tensors) -> tuple[str, LoadedFile]:
    """A file (or FILE:NAME), an array, or arrays by name: what it was asked for by, and its tables."""
    if isinstance(given, (str, os.PathLike)):
        path = os.fspath(given)
        return path, open_path(path)
    named: Mapping[str, Any] = given if isinstance(given, Mapping) else {ARRAY_NAME: given}
    tables = tuple(at_hand(name, array) for name, array in named.items())
    return NO_FILE, LoadedFile(NO_FILE, "arrays", tables, {}, _Nowhere())


def at_hand(name: str, array: ArrayLike) -> Table:
    """An array of numbers as a table."""
    found = np.asarray(array)
    if found.dtype.kind not in "biufcV" or found.dtype.hasobject or found.dtype.names:
        raise KindError(name, f"of dtype {found.dtype}", "a table holds numbers")
    return table_of(name, found)
