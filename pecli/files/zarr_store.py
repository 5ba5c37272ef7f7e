"""Zarr stores, by the `zarr` package: folders in which every chunk of a table is a file."""

import json
import math
import os
import shutil
import stat
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.named_values import JsonObject, MutableValues
from pecli.engine.table import Table
from pecli.errors import FileError, ParameterError, PecliError, counted
from pecli.files.contents import Contents, LazyTensors, LoadedFile, package
from pecli.files.npy import ARRAY_NAME, CODES
from pecli.files.output import KEY, check_free_space, temporary_name
from pecli.files.writing import OnBlock, Spec, WriteRequest, check_storable

MAX_METADATA = 1 << 24  # bytes of one metadata file
MAX_BYTES = 4 << 30  # of all arrays of a store, which are read into memory
ZarrArray = Any
"""A `zarr.Array` or a group of them; the package is optional, and is imported when a store is read or written."""
_UNREADABLE = "is not a Zarr store that can be read"


def chunk_shape(table: Table) -> tuple[int, ...]:
    """Return the shape of a chunk: whole rows that follow each other, about as many as in a block.

    Each head of a bias (8, 1024, 1024) has 1024 rows. With blocks of 2048 rows, a chunk holds 2 heads:

    >>> chunk_shape(Table("bias", "float32", (8, 1024, 1024), lambda start, out: None))
    (2, 1024, 1024)
    """
    axes_of_rows, row_shape = _split_rows(table.shape)
    sides: list[int] = []
    for axis, length in enumerate(axes_of_rows):
        rows_per_index = math.prod(axes_of_rows[axis + 1 :])  # 1024 rows per head
        sides.append(_chunk_length(length, rows_per_index, table.block_rows()))
    return (*sides, *row_shape)


def _chunk_length(length: int, rows_per_index: int, max_rows: int) -> int:
    """Return how many indices of an axis a chunk has: as many as have at most `max_rows` rows.

    A chunk has at least one index, and at most the length of the axis.

    >>> _chunk_length(8, 1024, max_rows=2048), _chunk_length(8, 4096, max_rows=2048)
    (2, 1)
    """
    is_empty = length == 0 or rows_per_index == 0
    if is_empty:
        return 1
    indices_that_fit = max(1, max_rows // rows_per_index)
    return min(length, indices_that_fit)


def _split_rows(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the axes that count rows, and the shape of a row; elements of a vector are its rows.

    >>> _split_rows((8, 1024, 64)), _split_rows((64,))
    (((8, 1024), (64,)), ((64,), ()))
    """
    if len(shape) < 2:
        return shape, ()
    return shape[:-1], shape[-1:]


def chunk_of(table: Table, place: tuple[int, ...]) -> Array:
    """Return the elements of a chunk, by its index along each axis of the grid of chunks.

    A bias (8, 1024, 1024) has 4 chunks of (2, 1024, 1024). The second one, at (1, 0, 0), is the rows
    2048 to 4095 of the 8 · 1024 rows.
    """
    if not table.shape:  # A table without axes has one number.
        return table.read(0, 1).reshape(())
    first_element, shape = _extent_of_chunk(table, place)  # (2, 0, 0) and (2, 1024, 1024)
    axes_of_rows, _ = _split_rows(table.shape)  # (8, 1024)
    row_axis_count = len(axes_of_rows)
    # Row (2, 0) is the row 2 · 1024 + 0 of the table.
    first_row = int(np.ravel_multi_index(first_element[:row_axis_count], axes_of_rows))
    # The rows of a chunk follow each other: `chunk_shape` divides a table in this way.
    row_count = math.prod(shape[:row_axis_count])
    return table.read(first_row, first_row + row_count).reshape(shape)


class _Extent(NamedTuple):
    """The place of a chunk in its table."""

    first_element: tuple[int, ...]  #: The index of its first element.
    shape: tuple[int, ...]


def _extent_of_chunk(table: Table, place: tuple[int, ...]) -> _Extent:
    """Return where a chunk begins and its shape; the last chunk along an axis can be smaller."""
    first_element: list[int] = []
    shape: list[int] = []
    for index, side, length in zip(place, chunk_shape(table), table.shape, strict=True):
        start = index * side
        first_element.append(start)
        shape.append(min(side, length - start))
    return _Extent(tuple(first_element), tuple(shape))


@contextmanager
def _as_file_errors(path: str, problem: str) -> Iterator[None]:
    """Turn any exception of a codec or store into a FileError about `path`."""
    try:
        yield
    except (PecliError, MemoryError):
        raise
    except Exception as error:
        raise FileError(path, f"{problem}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """Return why zarr failed, in words that do not presume knowledge of its classes.

    Its own FileNotFoundError has no number of the system, as those of the system have.
    """
    if isinstance(error, json.JSONDecodeError):
        return "its metadata are not JSON"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, FileNotFoundError):
        return "it has no metadata (zarr.json, .zgroup or .zarray)"
    return "its metadata are broken, or name a version, dtype or codec that is not known"


def write(request: WriteRequest) -> None:
    """Write a store, which appears when it is complete; an existing one is not replaced.

    A folder with files in it cannot be replaced in one step, as a file can.
    """
    path = request.path
    if os.path.lexists(path):
        raise FileError(path, "is there already", "remove it, or name another")
    check_free_space(path, request.tables)
    folder, name = os.path.split(path.rstrip("/"))
    temporary = os.path.join(folder, temporary_name(name))
    try:
        with _as_file_errors(path, "cannot be written as a Zarr store"):
            arrays = create_arrays(temporary, request.tables, request.spec)
            for table, array in zip(request.tables, arrays, strict=True):
                _write_chunks(table, array, request.on_block)
            os.rename(temporary, path)
    except BaseException:  # An interrupt must leave no temporary folder either.
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _write_chunks(table: Table, array: ZarrArray, on_block: OnBlock) -> None:
    """Write the chunks of a table, each of which is a file."""
    for place in np.ndindex(*array.cdata_shape):
        chunk = chunk_of(table, place)
        array.blocks[place] = chunk
        on_block(chunk.nbytes)


def create_arrays(path: str, tables: Sequence[Table], spec: Spec | None) -> list[ZarrArray]:
    """Create a store and return its arrays, of which no chunk is written yet.

    Args:
        path: The folder.
        tables: The tables, whose chunks are whole rows, uncompressed.
        spec: What made the tables; an attribute of the store.
    """
    rule = "the zarr package writes Zarr stores"
    zarr = package("zarr", ParameterError("output", ".zarr", rule, "pip install zarr"))
    check_storable(tables, ".zarr", CODES, empty=False)
    attributes: JsonObject = {}
    if spec is not None:
        attributes[KEY] = json.loads(json.dumps(dict(spec)))
    group = zarr.open_group(
        zarr.storage.LocalStore(path), mode="w", zarr_format=3, attributes=attributes
    )
    arrays = []
    for table in tables:
        array = group.create_array(
            table.name,
            shape=table.shape,
            chunks=chunk_shape(table),
            dtype=numpy_dtype(table.dtype),
            compressors=None,
            fill_value=0,
            config={"write_empty_chunks": True},
        )
        arrays.append(array)
    return arrays


def read_store(path: str) -> LoadedFile:
    """Return the arrays of a Zarr store, which is a folder; elements are read on first access.

    The folder may come from anywhere. Links, compression, missing chunks and sizes beyond all limits
    are refused before any elements are read.
    """
    contents = Contents(path, memoryview(b""))  # A folder has no bytes: this makes only errors.
    not_installed = contents.error(
        "is a Zarr store, which the zarr package reads", "pip install zarr"
    )
    zarr = package("zarr", not_installed)
    file_sizes = _file_sizes(contents)
    with _as_file_errors(path, _UNREADABLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zarr warns of files that are not part of the store.
        store: ZarrArray = zarr.open(zarr.storage.LocalStore(path, read_only=True), mode="r")
        is_single_array = isinstance(store, zarr.Array)
        arrays = {ARRAY_NAME: store} if is_single_array else dict(sorted(store.arrays()))
        _check_total(contents, arrays)
        for name, array in arrays.items():
            _check_array(contents, name, array, file_sizes)

    def read_elements(name: str) -> Array:
        """Return the elements of an array in memory."""
        with _as_file_errors(path, _UNREADABLE):
            return np.asarray(arrays[name][...])

    metadata = _carried_spec(store)
    return LoadedFile(path, "zarr", LazyTensors(arrays, read_elements), metadata)


def _carried_spec(store: ZarrArray) -> dict[str, str]:
    """Return what made the tables of a store, as JSON by the metadata key; empty if not stated."""
    spec = store.attrs.get(KEY)
    return {} if spec is None else {KEY: json.dumps(spec)}


def _check_total(contents: Contents, arrays: MutableValues) -> None:
    """Refuse a store without arrays, or with more than is read into memory."""
    total = sum(array.nbytes for array in arrays.values())
    contents.refuse_if(
        not arrays or total > MAX_BYTES,
        f"has no arrays, or more than {MAX_BYTES:,} bytes of them, which are not read",
    )


def _file_sizes(contents: Contents) -> dict[Path, int]:
    """Return the sizes of all files of a store by their paths.

    Raises:
        FileError: one of them is a link or a pipe, which may lead anywhere, or has more metadata
            than any store needs.
    """
    sizes: dict[Path, int] = {}
    for path in Path(contents.path).rglob("*"):
        status = path.lstat()  # of a link itself, which is no plain file
        if stat.S_ISDIR(status.st_mode):
            continue
        is_plain_file = stat.S_ISREG(status.st_mode)
        contents.require(is_plain_file, f"{path.name} in it is not a plain file")
        sizes[path] = status.st_size
    metadata = [size for path, size in sizes.items() if path.name.startswith(("zarr.json", ".z"))]
    largest = max(metadata, default=0)
    contents.refuse_if(
        largest > MAX_METADATA,
        f"has metadata of {largest:,} bytes in one file, more than any store needs",
    )
    return sizes


def _check_array(
    contents: Contents, name: str, array: ZarrArray, sizes: Mapping[Path, int]
) -> None:
    """Refuse an array that is compressed or not complete.

    A compressed chunk could unpack to any size; a missing one would be read as zeros.
    """
    contents.refuse_if(
        str(array.dtype) not in CODES,
        f"the array {name} has dtype {array.dtype}, which is not known",
    )
    codecs = [
        type(codec).__name__.removesuffix("Codec") for codec in (*array.filters, *array.compressors)
    ]
    packing = ", ".join(codecs).lower() or "shards"
    is_packed = array.shards or codecs
    contents.refuse_if(is_packed, f"{name} is stored with {packing}, which is not read")
    # The chunks of an array that claims a billion of them would take too long to count.
    chunks = counted(array.nchunks, "chunk")
    files = counted(len(sizes), "file")
    problem = f"is not complete: {name} has {chunks}, and the store {files}"
    contents.refuse_if(array.nchunks > len(sizes), problem)
    missing = array.nchunks - _complete_chunks(contents, array, sizes)
    contents.refuse_if(
        missing > 0,
        f"is not complete: {missing} of {array.nchunks} chunks are missing, or of another size",
    )


def _complete_chunks(contents: Contents, array: ZarrArray, sizes: Mapping[Path, int]) -> int:
    """Return how many chunks of an array have the size of a whole chunk."""
    folder = Path(contents.path, array.path)
    chunk_bytes = math.prod(array.chunks) * array.dtype.itemsize
    encode = array.metadata.encode_chunk_key
    files = [folder / encode(place) for place in np.ndindex(array.cdata_shape)]
    return [sizes.get(file) for file in files].count(chunk_bytes)
