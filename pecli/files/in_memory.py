"""Arrays at hand in the place of a file: what checks take from a path, they take from these, too."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pecli.engine.table import table_of_numbers
from pecli.files.load import LoadedFile, open_tensors
from pecli.files.npy import ARRAY_NAME
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
    tables = tuple(table_of_numbers(name, array) for name, array in named.items())
    return NO_FILE, LoadedFile(NO_FILE, "arrays", tables, {}, _Nowhere())
