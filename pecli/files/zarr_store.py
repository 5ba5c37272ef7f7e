"""Zarr stores: a folder in which every chunk of a table is a file of its own.

A chunk is made and put in place as a whole, so several processes or machines may write one store at the same time, and
what was interrupted goes on where it stopped: chunks that are there are left alone. Chunks are not compressed; their
bytes are those of the table's rows, and one of them is as large as a block.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import Array, dtype_name, indices, numpy_dtype
from pecli.engine.table import Table, results_in_order
from pecli.errors import FileError, ParameterError
from pecli.files.npy import ARRAY_NAME
from pecli.files.output import OnBlock, Spec, check_free_space
from pecli.files.provenance import KEY
from pecli.files.source import Source, SourceGroup

EXTRA = "pip install 'pecli[zarr]'"
DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
MAX_METADATA = 1 << 24
MAX_MISSING = 1 << 30
"""Bytes that chunks which are not there may stand for."""

Region = tuple[slice, ...]


class Chunk(NamedTuple):
    """Rows start … stop − 1 of a table, and where they are in it."""

    start: int
    stop: int
    place: tuple[int, ...]
    region: Region


def chunk_shape(table: Table) -> tuple[int, ...]:
    """A box of whole rows that follow each other, of about the size of a block.

    >>> chunk_shape(Table("bias", "float32", (8, 1024, 1024), lambda start, out: None))
    (2, 1024, 1024)
    """
    left = table.block_rows()
    sides = []
    for side in reversed(table.shape[:-1] if len(table.shape) > 1 else table.shape):
        sides.append(max(1, min(side, left)))
        left = left // side if side and left >= side else 1
    return (*reversed(sides), *table.shape[-1:]) if len(table.shape) > 1 else tuple(sides)


def chunks_of(table: Table) -> Iterator[Chunk]:
    """All chunks of a table, in the order of its rows."""
    shape = chunk_shape(table)
    leading = shape[:-1] if len(shape) > 1 else shape
    for index in product(*(range(-(-side // step)) for side, step in zip(table.shape, leading, strict=False))):
        region = tuple(
            slice(k * step, min((k + 1) * step, side))
            for k, step, side in zip(index, leading, table.shape, strict=False)
        )
        start = 0
        for part, side in zip(region, table.shape, strict=False):
            start = start * side + part.start
        stop = start + math.prod(part.stop - part.start for part in region)
        yield Chunk(start, stop, index + (0,) * (len(shape) > 1), region)


def save_store(
    path: str, tables: Sequence[Table], spec: Spec | None, *, on_block: OnBlock | None = None, rows: str | None = None
) -> None:
    """Write the chunks that a store does not have yet, all of them or those of some rows of its largest tensor."""
    zarr = _module("output", path)
    for table in tables:
        if table.dtype not in DTYPES:
            raise ParameterError("dtype", table.dtype, ".zarr cannot hold it", "write .safetensors")
        if not table.size:
            raise ParameterError("output", f".zarr for {table.shape}", "a store has at least one chunk", "write .npy")
    wanted = _wanted(tables, rows)
    check_free_space(path, sum(table.nbytes // table.rows * (chunk.stop - chunk.start) for table, chunk in wanted))
    try:
        group = _opened(zarr, path, tables, spec)
        for table in tables:
            array = group[table.name]
            missing = [chunk for of, chunk in wanted if of is table and not _is_there(path, array, chunk)]
            for chunk, block in _made(table, missing):
                sides = tuple(part.stop - part.start for part in chunk.region)
                array[chunk.region] = block.reshape(*sides, -1) if len(table.shape) > 1 else block.reshape(sides)
                if on_block is not None:
                    on_block(table, block)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(path, f"cannot be written as a Zarr store: {_line(error)}") from None


def _made(table: Table, chunks: list[Chunk]) -> Iterator[tuple[Chunk, Array]]:
    """Chunks, and what they hold; the next ones are made meanwhile, in threads."""

    def read(chunk: Chunk) -> tuple[Chunk, Array]:
        return chunk, table.read(chunk.start, chunk.stop)

    return map(read, chunks) if table.in_order else results_in_order(read, chunks)


def _wanted(tables: Sequence[Table], rows: str | None) -> list[tuple[Table, Chunk]]:
    """Every chunk that is to be there; rows are those of the largest tensor, and of others that have as many."""
    largest = max(tables, key=lambda table: table.nbytes)
    every = [(table, chunk) for table in tables for chunk in chunks_of(table)]
    if rows is None:
        return every
    part = indices("rows", rows, largest.rows)
    edges = {edge for table, chunk in every if table is largest for edge in (chunk.start, chunk.stop)}
    if part.start not in edges or part.stop not in edges:
        step = max(chunk.stop - chunk.start for table, chunk in every if table is largest)
        raise ParameterError("rows", rows, f"a chunk has {step} rows, and only whole ones are written", "see --help")
    return [
        (table, chunk)
        for table, chunk in every
        if table.rows != largest.rows or (part.start <= chunk.start and chunk.stop <= part.stop)
    ]


def _opened(zarr: Any, path: str, tables: Sequence[Table], spec: Spec | None) -> Any:
    """The group to write to; made by whoever comes first, and what others make at the same time has the same bytes."""
    store = zarr.storage.LocalStore(path)  # a name such as s3://… is a name
    said = {} if spec is None else {KEY: json.loads(json.dumps(dict(spec)))}
    other = FileError(path, "is a store of another table", "remove it, or name another")
    if spec is None and os.path.isdir(path) and os.listdir(path):
        raise other
    try:
        group = zarr.open_group(store, mode="a", zarr_format=3, attributes=said)
    except zarr.errors.ContainsGroupError:
        group = zarr.open_group(store, mode="r+")
    if dict(group.attrs) != said:
        raise other
    for table in tables:
        with suppress(zarr.errors.ContainsArrayError):
            group.create_array(
                table.name,
                shape=table.shape,
                chunks=chunk_shape(table),
                dtype=numpy_dtype(table.dtype),
                compressors=None,
                fill_value=0,
                config={"write_empty_chunks": True},
            )
    return group


def _is_there(path: str, array: Any, chunk: Chunk) -> bool:
    return os.path.exists(os.path.join(path, array.basename, array.metadata.encode_chunk_key(chunk.place)))


def read_store(path: str) -> tuple[tuple[Table, ...], dict[str, str], Source]:
    """The tables of a store, whose chunks are read when asked for, by any thread."""
    zarr = _module("", path)
    files = _plain_files(path)
    try:
        found = zarr.open(zarr.storage.LocalStore(path, read_only=True), mode="r")
        arrays = {ARRAY_NAME: found} if isinstance(found, zarr.Array) else dict(sorted(found.arrays()))
        spec = None if isinstance(found, zarr.Array) else found.attrs.get(KEY)
        for name, array in arrays.items():
            folder = os.path.normpath(os.path.join(path, array.path))
            chunks = [file for file in files if os.path.normpath(file).startswith(folder + os.sep)]
            _check_chunks(path, name, array, chunks, complete=spec is not None)
        tables = tuple(_table(path, name, array) for name, array in arrays.items())
    except (FileError, MemoryError):
        raise
    except Exception as error:  # whatever a codec or a store raises, it is the file that is wrong
        raise FileError(path, f"is not a Zarr store that can be read: {_line(error)}") from None
    if not tables:
        raise FileError(path, "is a Zarr store without arrays")
    return tables, {} if spec is None else {KEY: json.dumps(spec)}, SourceGroup(path)


def _plain_files(path: str) -> list[str]:
    """The chunks of a store; links, pipes and devices are refused: what they lead to is no part of it."""
    found, folders = [], [path]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    raise FileError(path, f"{entry.name} in it is not a plain file")
                elif entry.name not in METADATA:
                    found.append(entry.path)
                elif (size := entry.stat().st_size) > MAX_METADATA:
                    raise FileError(path, f"{entry.name} in it has {size:,} bytes, at most {MAX_METADATA:,} are read")
    return found


def _check_chunks(path: str, name: str, array: Any, files: list[str], *, complete: bool) -> None:
    """Refuse chunks that are missing or that claim to be larger than they may be."""
    size = math.prod(array.chunks) * array.dtype.itemsize
    if array.ndim and not all(array.chunks):
        raise FileError(path, f"the chunks of {name} are empty")
    missing = array.nchunks - len(files)
    if missing > 0 and (complete or missing * size > MAX_MISSING):
        count = f"{missing} of {array.nchunks} chunks of {name}"
        raise FileError(path, f"is not complete: {count} are missing", "make it again to have them written")
    codecs = [type(codec).__name__.removesuffix("Codec").lower() for codec in (*array.filters, *array.compressors)]
    if unknown := [codec for codec in codecs if codec not in _UNPACKED] or ["sharding"] * bool(array.shards):
        raise FileError(
            path, f"{name} is stored with {unknown[0]}, which is not read", "store it without, or with zstd"
        )
    for file in files if codecs else ():
        with open(file, "rb") as chunk:
            unpacked = _UNPACKED[codecs[0]](chunk.read(18))
        if unpacked is None or unpacked > size:
            raise FileError(path, f"a chunk of {name} is not what its {codecs[0]} header says")


def _zstd_size(head: bytes) -> int | None:
    """The size that a Zstandard frame says its content has."""
    if len(head) < 6 or head[:4] != b"\x28\xb5\x2f\xfd":
        return None
    flag, single = head[4] >> 6, head[4] >> 5 & 1
    start = 5 + (not single) + (0, 1, 2, 4)[head[4] & 3]
    count = (single, 2, 4, 8)[flag]
    return int.from_bytes(head[start : start + count], "little") + 256 * (flag == 1) if count else None


def _blosc_size(head: bytes) -> int | None:
    return int.from_bytes(head[4:8], "little") if len(head) >= 16 else None


_UNPACKED: dict[str, Callable[[bytes], int | None]] = {"zstd": _zstd_size, "blosc": _blosc_size}
"""How large a chunk will be, by its first bytes: of other codecs only unpacking it would tell."""


def _table(path: str, name: str, array: Any) -> Table:
    dtype = dtype_name(array.dtype)
    if dtype not in (*DTYPES, "bool", "complex64", "complex128"):
        raise FileError(path, f"the array {name} has dtype {dtype}, which is not known")
    return Table(name, dtype, tuple(array.shape), partial(_fill, path, array))


def _fill(path: str, array: Any, start: int, out: Array) -> None:
    leading = array.shape[:-1] if array.ndim > 1 else array.shape
    row = 0
    try:
        for box in _boxes(leading, start, start + len(out)):
            values = np.asarray(array[box]).reshape(-1, out.shape[1])
            out[row : row + len(values)] = values
            row += len(values)
    except MemoryError:
        raise
    except Exception as error:  # whatever a codec raises
        raise FileError(path, f"a chunk cannot be read: {_line(error)}") from None


def _boxes(sides: tuple[int, ...], start: int, stop: int) -> Iterator[Region]:
    """Rows start … stop − 1, counted over several axes, as few boxes.

    >>> [tuple((part.start, part.stop) for part in box) for box in _boxes((3, 4), 2, 12)]
    [((0, 1), (2, 4)), ((1, 3),)]
    """
    if len(sides) < 2:
        yield (slice(start, stop),) * len(sides)
        return
    inner = math.prod(sides[1:])
    at = start
    while at < stop:
        place, inside = divmod(at, inner)
        whole = (stop - at) // inner if not inside else 0
        if whole:
            yield (slice(place, place + whole),)
            at += whole * inner
        else:
            end = min(inner, inside + stop - at)
            for box in _boxes(sides[1:], inside, end):
                yield (slice(place, place + 1), *box)
            at += end - inside


def _module(name: str, path: str) -> Any:
    """Zarr itself, which does not come with pecli."""
    try:
        import zarr
    except ImportError:
        if name:
            raise ParameterError(name, path, "Zarr stores take the extra pecli[zarr]", EXTRA) from None
        raise FileError(path, "is a Zarr store, which takes the extra pecli[zarr] to read", EXTRA) from None
    return zarr


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
