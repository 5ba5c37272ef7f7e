"""Where a file's bytes come from: a regular file, read at any place by any thread, or a pipe, kept as far as read.

Tables whose elements lie there as they are are read when they are asked for.
"""

from __future__ import annotations

import math
import mmap
import os
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.table import Table
from pecli.errors import FileError, failure, quoted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pecli.files.output import Output

    Indices = NDArray[np.signedinteger]

CHUNK = 1 << 20


class Source(ABC):
    """Bytes that can be read at any offset; `size` is how many there are, None while that is not known."""

    path: str
    size: int | None
    in_order = False  #: whether reading backwards is slow and threads gain nothing

    def error(self, problem: str, advice: str = "") -> FileError:
        """The problem, as one of this file."""
        return FileError(self.path, problem, advice)

    @abstractmethod
    def read_into(self, offset: int, out: memoryview) -> int:
        """Fill `out` with the bytes from `offset` on; how many were there, fewer only where the bytes end."""

    def read(self, offset: int, count: int) -> bytes:
        """The `count` bytes from `offset` on, or as many as there are; memory for `count` is taken at once."""
        buffer = memoryview(bytearray(count))
        return bytes(buffer[: self.read_into(offset, buffer)])

    def fill(self, offset: int, out: memoryview) -> None:
        """Fill all of `out`, from bytes that were there when the file was opened."""
        if self.read_into(offset, out) < len(out):
            raise self.error("changed while it was read: bytes are missing now")

    def copy_to(self, output: Output, offset: int, count: int) -> None:
        """Append the `count` bytes from `offset` on to an output."""
        buffer = memoryview(bytearray(min(count, CHUNK)))
        while count > 0:
            piece = buffer[: min(count, len(buffer))]
            self.fill(offset, piece)
            output.write(piece)
            offset, count = offset + len(piece), count - len(piece)

    def check_size(self, expected: int) -> None:
        """Refuse the file unless it has exactly as many bytes as its header says."""
        found = self.size if self.size is not None else self.available(expected + 1)
        if found < expected:
            raise self.error(f"is truncated: its header asks for {expected} bytes in all, {found} are there")
        if found > expected:
            more = "more" if self.size is None else str(found)
            raise self.error(f"has trailing bytes: its header asks for {expected} bytes in all, {more} are there")

    def available(self, count: int) -> int:
        """How many of the first `count` bytes there are."""
        return min(self.size or 0, count)

    def close(self) -> None:  # noqa: B027  (most sources hold nothing of their own)
        """Let go of the file; reading ends here."""


class _OpenSource(Source):
    """A source behind a descriptor."""

    _descriptor = -1

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):  # all that was wanted of it is read
                os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class FileSource(_OpenSource):
    """A regular file."""

    def __init__(self, path: str, descriptor: int, size: int) -> None:
        self.path, self._descriptor, self.size = path, descriptor, size

    def read_into(self, offset: int, out: memoryview) -> int:
        if self._descriptor < 0:
            raise self.error("is closed already")
        done = 0
        try:
            while done < len(out):
                count = os.preadv(self._descriptor, [out[done:]], offset + done)
                if not count:
                    break
                done += count
        except OSError as error:
            raise failure(self.path, error) from None
        return done

    def copy_to(self, output: Output, offset: int, count: int) -> None:
        while count > 0 and (copied := output.copy(self._descriptor, offset, count)):
            offset, count = offset + copied, count - copied
        super().copy_to(output, offset, count)


class PipeSource(_OpenSource):
    """A pipe or a terminal: read as far as was ever asked for, and no further."""

    size = None

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._kept = bytearray()
        self._descriptor = descriptor

    def available(self, count: int) -> int:
        """Read on until `count` bytes are here; memory grows with what arrives, not with what is claimed."""
        try:
            while len(self._kept) < count:
                piece = os.read(self._descriptor, min(CHUNK, count - len(self._kept)))
                if not piece:
                    break
                self._kept += piece
        except OSError as error:
            raise failure(self.path, error) from None
        return min(len(self._kept), count)

    def read_into(self, offset: int, out: memoryview) -> int:
        there = max(0, self.available(offset + len(out)) - offset)
        with memoryview(self._kept) as kept:
            out[:there] = kept[offset : offset + there]
        return there


class BufferedSource(Source):
    """Another source, read whole at the first call: for bytes that come in order and are wanted crosswise."""

    def __init__(self, source: Source, size: int) -> None:
        self.path, self._source, self.size = source.path, source, size

    @cached_property
    def _kept(self) -> memoryview:
        kept = memoryview(bytearray(self.size or 0))
        self._source.fill(0, kept)
        return kept

    def read_into(self, offset: int, out: memoryview) -> int:
        piece = self._kept[offset : offset + len(out)]
        out[: len(piece)] = piece
        return len(piece)


class SourceGroup(Source):
    """Several sources that are let go of together; it has no bytes of its own."""

    size = 0

    def __init__(self, path: str, *sources: Source) -> None:
        self.path, self._sources = path, [*sources]

    def add(self, source: Source) -> None:
        """One more that `close` closes."""
        self._sources.append(source)

    def read_into(self, offset: int, out: memoryview) -> int:
        return 0

    def close(self) -> None:
        for source in self._sources:
            source.close()


def open_source(path: str) -> Source:
    """Open a file, a pipe, or with `-` standard input, for reading."""
    label = "standard input" if path == "-" else path
    try:
        descriptor = os.dup(0) if path == "-" else os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise failure(label, error) from None
    try:
        found = os.fstat(descriptor)
        at_start = path != "-" or not stat.S_ISREG(found.st_mode) or os.lseek(descriptor, 0, os.SEEK_CUR) == 0
        if stat.S_ISDIR(found.st_mode):
            raise FileError(label, "is a folder", "name a file in it")
    except (OSError, FileError) as error:
        with suppress(OSError):
            os.close(descriptor)
        raise (failure(label, error) if isinstance(error, OSError) else error) from None
    if stat.S_ISREG(found.st_mode) and at_start:
        return FileSource(label, descriptor, found.st_size)
    return PipeSource(label, descriptor)


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
            source = BufferedSource(source, source.size)
        return Table(name, dtype, shape, partial(_fill_columns, source, offset, shape, swapped))
    return Table(name, dtype, shape, partial(_fill_rows, source, offset, swapped), source.in_order)


def lies_in_rows(table: Table) -> bool:
    """Whether a table's rows lie in a file as they are: reading them a few at a time costs hardly more."""
    fill = table.fill
    return isinstance(fill, partial) and fill.func is _fill_rows and not table.in_order


def mapped_rows(table: Table, start: int, stop: int) -> Array | None:
    """Rows start … stop − 1 of a table, mapped into memory where they lie in a file; None where they must be read.

    If the file is cut short meanwhile, using them kills the process: only for one that may be killed.
    """
    fill, dtype = table.fill, numpy_dtype(table.dtype)
    if not isinstance(fill, partial) or fill.func is not _fill_rows or dtype == np.bool_:
        return None
    source, offset, swapped = fill.args
    if swapped or offset % dtype.itemsize or not isinstance(source, FileSource) or source._descriptor < 0:
        return None
    row = table.width * dtype.itemsize
    low, high = offset + start * row, offset + stop * row
    first = low - low % mmap.ALLOCATIONGRANULARITY
    mapped = mmap.mmap(source._descriptor, high - first, offset=first, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped, dtype, offset=low - first).reshape(stop - start, table.width)


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
