"""Tables whose elements lie in a file as they are, to be read when they are asked for."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.table import Table
from pecli.engine.text import quoted
from pecli.errors import FileError
from pecli.files.source import CHUNK, KeptSource, Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Indices = NDArray[np.signedinteger]


MAX_AXES = 32  # NumPy 1 has no more
MAX_BYTES = 2**62
MAX_EMPTY_ROWS = 2**31
"""How many rows a table without elements may claim: they take no bytes of the file, but time to step through."""

SHORT_COLUMN = 1 << 14
"""Bytes that are read as fast as they are skipped."""


@dataclass(frozen=True)
class UnreadTensor:
    """A tensor in a type that is named and not read, such as the quantised ones of a .gguf file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int | None


Complain = Callable[[str], FileError]


def data_bytes(shape: tuple[int, ...], itemsize: int, complain: Complain) -> int:
    """How many bytes a tensor of that shape takes; refuses a shape that no file can hold."""
    if len(shape) > MAX_AXES:
        raise complain(f"has {len(shape)} axes, more than {MAX_AXES}")
    size = math.prod(shape) * itemsize
    if size > MAX_BYTES or (size == 0 and math.prod(filter(None, shape)) > MAX_EMPTY_ROWS):
        raise complain("claims an impossible shape, " + quoted(", ".join(map(str, shape))))
    return size


def stored_table(
    source: Source, name: str, dtype: str, shape: tuple[int, ...], offset: int, order: str = "<", fortran: bool = False
) -> Table:
    """The elements from `offset` on as a table; `order` is their byte order, `fortran` that of the axes."""
    swapped = order != ("<" if sys.byteorder == "little" else ">")
    if fortran and len(shape) > 1:
        if source.in_order and source.size is not None:
            source = KeptSource(source, source.size)
        return Table(name, dtype, shape, partial(_fill_columns, source, offset, shape, swapped))
    return Table(name, dtype, shape, partial(_fill_rows, source, offset, swapped), source.in_order)


def _fill_rows(source: Source, offset: int, swapped: bool, start: int, out: Array) -> None:
    if out.flags.c_contiguous:
        _fill_flat(source, offset + start * out.shape[1] * out.itemsize, swapped, out.reshape(-1))
    else:
        rows = np.empty(out.shape, out.dtype)
        _fill_rows(source, offset, swapped, start, rows)
        out[...] = rows


def _fill_columns(source: Source, offset: int, shape: tuple[int, ...], swapped: bool, start: int, out: Array) -> None:
    """Gather rows from a file in Fortran order: each element of a row comes from another part of the file."""
    if not out.size:
        return
    leading = shape[:-1]
    wanted = np.unravel_index(np.arange(start, start + len(out)), leading)
    places = np.ravel_multi_index(wanted, leading, order="F")
    rows = math.prod(leading)
    if rows * out.itemsize <= SHORT_COLUMN:
        _gather_short(source, offset, rows, swapped, places, out)
    else:
        _gather_long(source, offset, rows, swapped, places, out)


def _gather_short(source: Source, offset: int, rows: int, swapped: bool, places: Indices, out: Array) -> None:
    """Short columns are read whole, many at once."""
    step = CHUNK // (rows * out.itemsize)
    for column in range(0, out.shape[1], step):
        piece = np.empty((min(step, out.shape[1] - column), rows), out.dtype)
        _fill_flat(source, offset + column * rows * out.itemsize, swapped, piece.reshape(-1))
        out[:, column : column + step] = piece[:, places].T


def _gather_long(source: Source, offset: int, rows: int, swapped: bool, places: Indices, out: Array) -> None:
    """Of long columns only the part with the wanted rows is read, in pieces."""
    step = CHUNK // out.itemsize
    for low in range(int(places.min()), int(places.max()) + 1, step):
        here = (places >= low) & (places < low + step)
        if not here.any():
            continue
        first = int(places[here].min())
        piece = np.empty(int(places[here].max()) + 1 - first, out.dtype)
        for column in range(out.shape[1]):
            _fill_flat(source, offset + (column * rows + first) * out.itemsize, swapped, piece)
            out[here, column] = piece[places[here] - first]


def _fill_flat(source: Source, offset: int, swapped: bool, out: Array) -> None:
    raw = out.view(np.uint8)
    source.fill(offset, raw.data)
    if swapped:
        out.byteswap(inplace=True)
    if out.dtype == np.bool_:  # any byte but 0 and 1 would be a truth value that equals neither
        np.not_equal(raw, 0, out=out)
