"""Zarr stores, by the `zarr` package: a folder in which every chunk of a table is a file of its own."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.table import Table
from pecli.errors import FileError, ParameterError, PecliError
from pecli.files.contents import LazyTensors, LoadedFile, outline
from pecli.files.npy import ARRAY_NAME, CODES, check_storable
from pecli.files.output import KEY, OnBlock, Spec, Texts, check_free_space, temporary_name

MAX_BYTES = 4 << 30  # of all arrays of a store, which are read into memory
MAX_METADATA = 1 << 24


def chunk_shape(table: Table) -> tuple[int, ...]:
    """A box of whole rows that follow each other, of about the size of a block.

    >>> chunk_shape(Table("bias", "float32", (8, 1024, 1024), lambda start, out: None))
    (2, 1024, 1024)
    """
    rows = table.block_rows()
    sides = list(table.shape[-1:]) if len(table.shape) > 1 else []
    for side in reversed(table.shape[: len(table.shape) - len(sides)]):
        sides.insert(0, max(1, min(side, rows)))
        rows = rows // side if side and rows >= side else 1
    return tuple(sides)


def chunk_of(table: Table, place: tuple[int, ...]) -> Array:
    """A chunk by its place among the chunks of each axis."""
    starts = [number * side for number, side in zip(place, chunk_shape(table), strict=True)]
    box = zip(chunk_shape(table), table.shape, starts, strict=True)
    shape = [min(side, whole - start) for side, whole, start in box]
    axes = max(1, len(shape) - 1)  # a vector's rows are its elements
    row = int(np.ravel_multi_index(starts[:axes], table.shape[:axes])) if starts else 0
    return table.read(row, row + math.prod(shape[:axes])).reshape(shape)


@contextmanager
def _blamed_on(path: str, problem: str) -> Iterator[None]:
    """Errors, whatever codec or store raises them, say that the file is wrong."""
    try:
        yield
    except (PecliError, MemoryError):
        raise
    except Exception as error:
        raise FileError(path, f"{problem}: {' '.join(str(error).split()) or type(error).__name__}") from None


def write(path: str, tables: Sequence[Table], spec: Spec | None, texts: Texts, on_block: OnBlock) -> None:
    """Write a store, which appears when it is complete; one that is there is not written over."""
    if os.path.lexists(path):
        raise FileError(path, "is there already", "remove it, or name another")
    check_free_space(path, tables)
    folder, name = os.path.split(path.rstrip("/"))
    temporary = os.path.join(folder, temporary_name(name))
    try:
        with _blamed_on(path, "cannot be written as a Zarr store"):
            for table, array in zip(tables, create_arrays(temporary, tables, spec), strict=True):
                for place in np.ndindex(*array.cdata_shape):
                    array.blocks[place] = block = chunk_of(table, place)
                    on_block(block.nbytes)
            os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def create_arrays(path: str, tables: Sequence[Table], spec: Spec | None) -> list[Any]:
    """The arrays of a new store, of which no chunk is written yet."""
    try:
        import zarr
    except ImportError:
        raise ParameterError("output", ".zarr", "the zarr package writes Zarr stores", "pip install zarr") from None
    check_storable(tables, ".zarr", CODES, empty=False)
    attributes: Any = {} if spec is None else {KEY: json.loads(json.dumps(dict(spec)))}
    group = zarr.open_group(zarr.storage.LocalStore(path), mode="w", zarr_format=3, attributes=attributes)
    same: Any = {"compressors": None, "fill_value": 0, "config": {"write_empty_chunks": True}}
    return [
        group.create_array(t.name, shape=t.shape, chunks=chunk_shape(t), dtype=numpy_dtype(t.dtype), **same)
        for t in tables
    ]


def read_store(path: str) -> LoadedFile:
    """The arrays of a store in memory, and its metadata."""
    try:
        import zarr
    except ImportError:
        raise FileError(path, "is a Zarr store, which the zarr package reads", "pip install zarr") from None
    files = _chunk_files(path)
    broken = "is not a Zarr store that can be read"
    with _blamed_on(path, broken):
        group: Any = zarr.open(zarr.storage.LocalStore(path, read_only=True), mode="r")
        is_array = isinstance(group, zarr.Array)
        arrays = {ARRAY_NAME: group} if is_array else dict(sorted(group.arrays()))
        if not arrays or sum(array.nbytes for array in arrays.values()) > MAX_BYTES:
            raise FileError(path, f"has no arrays, or more than {MAX_BYTES:,} bytes of them, which are not read")
        for name, array in arrays.items():
            if str(array.dtype) not in CODES:
                raise FileError(path, f"the array {name} has dtype {array.dtype}, which is not known")
            folder = os.path.join(os.path.normpath(path), array.path, "")
            if (missing := array.nchunks - sum(file.startswith(folder) for file in files)) > 0:
                raise FileError(path, f"is not complete: {missing} of {array.nchunks} chunks are missing")
            codecs = [type(codec).__name__.removesuffix("Codec") for codec in (*array.filters, *array.compressors)]
            if array.shards or codecs:  # which could unpack to any size
                said = ", ".join(codecs).lower() or "shards"
                raise FileError(path, f"{name} is stored with {said}, which is not read")
        outlines = {name: outline(str(array.dtype), array.shape) for name, array in arrays.items()}

    def elements(name: str) -> Array:
        with _blamed_on(path, broken):
            return np.asarray(arrays[name][...])

    spec = None if is_array else group.attrs.get(KEY)
    return LoadedFile(path, "zarr", LazyTensors(outlines, elements), {} if spec is None else {KEY: json.dumps(spec)})


def _chunk_files(path: str) -> list[str]:
    """The chunks of a store; links, pipes and devices are refused: what they lead to is no part of it."""
    chunks = []
    for folder, folders, names in os.walk(os.path.normpath(path)):
        for name in [*folders, *names]:
            file = os.path.join(folder, name)
            if os.path.islink(file) or not (os.path.isfile(file) or os.path.isdir(file)):
                raise FileError(path, f"{name} in it is not a plain file")
            is_metadata = name == "zarr.json" or name.startswith(".z")
            if is_metadata and os.path.getsize(file) > MAX_METADATA:
                raise FileError(path, f"{name} in it has more than {MAX_METADATA:,} bytes")
            if name in names and not is_metadata:
                chunks.append(file)
    return chunks
