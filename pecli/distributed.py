"""Tables beyond one process: any rows of a table are a pure function of its spec, so Dask can spread them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table, share_of_threads
from pecli.errors import ParameterError
from pecli.files.save import save_scheme, tables_written
from pecli.files.zarr_store import chunk_shape, chunks_of

EXTRA = "pip install 'pecli[dask]'"
CHUNKS_PER_TASK = 16
"""Chunks that a worker writes in one go: opening a store takes as long as one of them."""


def dask(scheme: Scheme) -> dict[str, Any]:
    """A scheme's tensors as lazy Dask arrays by name: their chunks are computed where they are needed.

    A chunk is some whole rows, about 8 MiB of them. Draws that can only be made in order (`rng` torch) are one chunk.
    """
    array = _module("array", scheme)
    return {table.name: _lazy(array, scheme, table) for table in scheme.tensors()}


def _lazy(array: Any, scheme: Scheme, table: Table) -> Any:
    sides = table.shape if table.in_order else chunk_shape(table)
    chunks = tuple(
        tuple(min(step, side - start) for start in range(0, side, step))
        for side, step in zip(table.shape, sides, strict=True)
    )
    return array.map_blocks(
        _block,
        scheme,
        table.name,
        chunks=chunks,
        dtype=numpy_dtype(table.dtype),
        meta=array.empty((0,) * len(chunks), dtype=numpy_dtype(table.dtype))._meta,
        name=f"pecli-{table.name}-{_token(scheme)}",
    )


def _token(scheme: Scheme) -> str:
    from hashlib import sha256

    return sha256(repr(scheme).encode()).hexdigest()[:32]


def _block(scheme: Scheme, name: str, block_info: Any = None) -> Array:
    """What one chunk holds, made by whichever worker is asked."""
    location = block_info[None]["array-location"]
    table = _tables(scheme)[name]
    start = 0
    for (first, _), side in zip(location[: max(1, len(location) - 1)], table.shape, strict=False):
        start = start * side + first
    shape = tuple(stop - first for first, stop in location)
    rows = 1
    for side in shape[: max(1, len(shape) - 1)]:
        rows *= side
    return table.read(start, start + rows).reshape(shape)


@lru_cache(maxsize=4)
def _tables(scheme: Scheme) -> dict[str, Table]:
    """The tables of a scheme, whose small factors a worker makes once."""
    return {table.name: table for table in scheme.tensors()}


def save(path: str, scheme: Scheme) -> None:
    """Write a scheme to a Zarr store, its chunks made and written by the workers of the Dask scheduler in use.

    Chunks that are there already are left alone: what was interrupted goes on where it stopped.
    """
    delayed = _module("delayed", scheme)
    chunks = list(chunks_of(max(tables_written(path, scheme), key=lambda table: table.nbytes)))
    groups = [chunks[place : place + CHUNKS_PER_TASK] for place in range(0, len(chunks), CHUNKS_PER_TASK)]
    first, *rest = [f"{group[0].start}:{group[-1].stop}" for group in groups]
    _write(path, scheme, first)  # which makes the store
    import dask as scheduler

    scheduler.compute(*(delayed.delayed(_write)(path, scheme, rows) for rows in rest))


def _write(path: str, scheme: Scheme, rows: str) -> None:
    with share_of_threads(1):
        save_scheme(path, scheme, rows=rows)


def _module(name: str, scheme: Scheme) -> Any:
    """A part of Dask, which does not come with pecli."""
    from importlib import import_module

    try:
        return import_module(f"dask.{name}")
    except ImportError:
        raise ParameterError("scheme", scheme.name, "Dask comes with the extra pecli[dask]", EXTRA) from None
