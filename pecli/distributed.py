"""Tables beyond one process: any rows of a table are a pure function of its spec, so Dask can spread them."""

from functools import partial
from typing import Any

from pecli.engine import __version__
from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import KindError, ParameterError
from pecli.files.contents import package
from pecli.files.zarr_store import chunk_of, chunk_shape, create_arrays


def dask(scheme: Scheme) -> dict[str, Any]:
    """A scheme's tensors as lazy Dask arrays by name: their chunks are computed where they are needed.

    A chunk is some whole rows, about 8 MiB of them. Dask's own `to_zarr` writes them, or `save` below.
    """
    if not isinstance(scheme, Scheme):
        raise KindError(
            "scheme", repr(scheme), "it must be a scheme, such as pecli.Rope(4096, 128)"
        )
    missing = ParameterError("scheme", scheme.name, "Dask makes its arrays", "pip install dask")
    dask_array = package("dask.array", missing)
    arrays = {}
    for table in scheme.tensors():
        chunks = dask_array.core.normalize_chunks(chunk_shape(table), table.shape)
        make = partial(_chunk, scheme, table.name)
        arrays[table.name] = dask_array.map_blocks(
            make, chunks=chunks, dtype=numpy_dtype(table.dtype)
        )
    return arrays


def save(path: str, scheme: Scheme) -> None:
    """Write a scheme to a Zarr store, its chunks made and written by the workers of the Dask scheduler in use."""
    arrays = dask(scheme)
    from dask.array import store

    targets = create_arrays(path, scheme.tensors(), {**scheme.spec(), "version": __version__})
    store(list(arrays.values()), targets, lock=False)


def _chunk(scheme: Scheme, name: str, block_info: Any = None) -> Array:
    table = next(table for table in scheme.tensors() if table.name == name)
    return chunk_of(table, block_info[None]["chunk-location"])
