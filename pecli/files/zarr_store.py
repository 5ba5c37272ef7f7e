"""Zarr stores, by the `zarr` package: a folder in which every chunk of a table is a file of its own."""

import json
import math
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.table import Table
from pecli.errors import FileError, ParameterError, PecliError
from pecli.files.contents import Contents, LazyTensors, LoadedFile, package
from pecli.files.npy import ARRAY_NAME, CODES, check_storable
from pecli.files.output import KEY, OnBlock, Spec, Texts, check_free_space, temporary_name

MAX_METADATA = 1 << 24
MAX_BYTES = 4 << 30  # of all arrays of a store, which are read into memory


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
        raise FileError(
            path, f"{problem}: {' '.join(str(error).split()) or type(error).__name__}"
        ) from None


def write(
    path: str, tables: Sequence[Table], spec: Spec | None, texts: Texts, on_block: OnBlock
) -> None:
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
    zarr = package(
        "zarr",
        ParameterError(
            "output", ".zarr", "the zarr package writes Zarr stores", "pip install zarr"
        ),
    )
    check_storable(tables, ".zarr", CODES, empty=False)
    attributes: Any = {} if spec is None else {KEY: json.loads(json.dumps(dict(spec)))}
    group = zarr.open_group(
        zarr.storage.LocalStore(path), mode="w", zarr_format=3, attributes=attributes
    )
    same: Any = {"compressors": None, "fill_value": 0, "config": {"write_empty_chunks": True}}
    return [
        group.create_array(
            t.name, shape=t.shape, chunks=chunk_shape(t), dtype=numpy_dtype(t.dtype), **same
        )
        for t in tables
    ]


def read_store(path: str) -> LoadedFile:
    """The arrays of a store in memory, and its metadata."""
    contents = Contents(path, memoryview(b""))  # for its errors alone
    zarr = package(
        "zarr", contents.error("is a Zarr store, which the zarr package reads", "pip install zarr")
    )
    files = [file for file in Path(path).rglob("*") if file.is_symlink() or not file.is_dir()]
    odd = next((file.name for file in files if file.is_symlink() or not file.is_file()), "")
    contents.refuse_if(
        odd, f"{odd} in it is not a plain file"
    )  # what it leads to is no part of the store
    sizes = {file: file.stat().st_size for file in files}
    large = max(
        (sizes[file] for file in files if file.name.startswith(("zarr.json", ".z"))), default=0
    )
    contents.refuse_if(
        large > MAX_METADATA,
        f"has metadata of {large:,} bytes in one file, more than any store needs",
    )
    broken = "is not a Zarr store that can be read"
    with _blamed_on(path, broken), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of files that are no part of the store
        group: Any = zarr.open(zarr.storage.LocalStore(path, read_only=True), mode="r")
        is_array = isinstance(group, zarr.Array)
        arrays = {ARRAY_NAME: group} if is_array else dict(sorted(group.arrays()))
        unread = not arrays or sum(array.nbytes for array in arrays.values()) > MAX_BYTES
        contents.refuse_if(
            unread, f"has no arrays, or more than {MAX_BYTES:,} bytes of them, which are not read"
        )
        for name, array in arrays.items():
            unknown = f"the array {name} has dtype {array.dtype}, which is not known"
            contents.refuse_if(str(array.dtype) not in CODES, unknown)
            codecs = [
                type(codec).__name__.removesuffix("Codec")
                for codec in (*array.filters, *array.compressors)
            ]
            said = ", ".join(codecs).lower() or "shards"  # which could unpack to any size
            contents.refuse_if(
                array.shards or codecs, f"{name} is stored with {said}, which is not read"
            )
            size, own = math.prod(array.chunks) * array.dtype.itemsize, Path(path, array.path)
            keys = np.ndindex(array.cdata_shape) if array.nchunks <= len(sizes) else ()
            found = sum(
                sizes.get(own / array.metadata.encode_chunk_key(key)) == size for key in keys
            )
            missing = (
                f"{array.nchunks - found} of {array.nchunks} chunks are missing, or of another size"
            )
            contents.refuse_if(found < array.nchunks, f"is not complete: {missing}")

    def elements(name: str) -> Array:
        with _blamed_on(path, broken):
            return np.asarray(arrays[name][...])

    spec = None if is_array else group.attrs.get(KEY)
    return LoadedFile(
        path, "zarr", LazyTensors(arrays, elements), {} if spec is None else {KEY: json.dumps(spec)}
    )
