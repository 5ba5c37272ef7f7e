"""Arrays in memory in the place of a file: what checks take from a path, they take from these, too."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.engine.arrays import AnyArray
from pecli.engine.numerics.dtypes import numpy_dtype
from pecli.engine.table import Table, table_of_numbers
from pecli.errors import KindError
from pecli.files.load import LoadedFile, open_tensors
from pecli.files.npy import ARRAY_NAME
from pecli.files.source import Source

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    Given = str | os.PathLike[str] | Mapping[str, ArrayLike | Any] | ArrayLike | Any

NO_FILE = ""
"""The path of arrays in memory."""


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
    tables = tuple(table_in_memory(name, array) for name, array in named.items())
    return NO_FILE, LoadedFile(NO_FILE, "arrays", tables, {}, _Nowhere())


def table_in_memory(name: str, values: Any) -> Table:
    """A table of whatever gives its values up: arrays of NumPy, torch, JAX, MLX, or nested lists."""
    return table_of_numbers(name, _as_numpy(name, values))


def _as_numpy(name: str, values: Any) -> Any:
    """The values as NumPy has them, in their own dtype; bfloat16, which few hand over, by way of float32."""
    if isinstance(values, (np.ndarray, np.generic)) or not hasattr(values, "dtype"):
        return values
    if hasattr(values, "detach"):  # torch: not in a graph, and not on a device that NumPy cannot reach
        values = values.detach().cpu()
    kind = str(values.dtype).rpartition(".")[2]
    for convert in (np.asarray, np.from_dlpack):
        try:
            array: AnyArray = convert(values)
        except (TypeError, ValueError, RuntimeError, BufferError, AttributeError):
            continue
        if array.dtype.kind != "O":
            return array
    try:
        return np.asarray(_as_float32(values)).astype(numpy_dtype(kind))
    except (TypeError, ValueError, RuntimeError, BufferError, AttributeError) as problem:
        rule = "its values cannot be had as a NumPy array"
        raise KindError(name, f"a {type(values).__name__} of dtype {kind}", rule) from problem


def _as_float32(values: Any) -> Any:
    if hasattr(values, "float"):
        return values.float()
    home = sys.modules.get(type(values).__module__)  # MLX has dtypes of its own
    return values.astype(getattr(home, "float32", np.float32))
