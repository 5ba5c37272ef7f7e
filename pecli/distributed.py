"""Tables beyond one process: rows are a pure function of the spec, so Dask can spread them."""

from functools import partial
from typing import Any

from pecli.engine import __version__
from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import KindError, ParameterError, quoted
from pecli.files.contents import package
from pecli.files.zarr_store import chunk_of, chunk_shape, create_arrays


def dask(scheme: Scheme) -> dict[str, Any]:
    """Return a scheme's tensors as lazy Dask arrays, whose chunks are computed by workers.

    A chunk is some whole rows, about 8 MiB of them. Dask's own `to_zarr` writes them, or
    `pecli.distributed.save`.

    Args:
        scheme: a scheme, such as pecli.Rope(4096, 128).

    Returns:
        A dict of `dask.array.Array` by the names of the tensors.

    Raises:
        ParameterError: Dask is not installed.
        TypeError: it is not a scheme.

    >>> import pecli
    >>> pecli.dask(pecli.Rope(4096, 128))["cos"].shape
    (4096, 64)
    """
    if not isinstance(scheme, Scheme):
        rule = "it must be a scheme, such as pecli.Rope(4096, 128)"
        raise KindError("scheme", quoted(scheme), rule)
    missing = ParameterError("scheme", scheme.name, "Dask makes its arrays", "pip install dask")
    dask_array = package("dask.array", missing)
    arrays = {}
    for table in scheme.tensors():
        chunks = dask_array.core.normalize_chunks(chunk_shape(table), table.shape)
        arrays[table.name] = dask_array.map_blocks(
            partial(_chunk, scheme, table.name), chunks=chunks, dtype=numpy_dtype(table.dtype)
        )
    return arrays


def save(path: str, scheme: Scheme) -> None:
    """Write a scheme to a Zarr store, whose chunks are computed by the workers of Dask."""
    arrays = dask(scheme)
    from dask.array import store

    targets = create_arrays(path, scheme.tensors(), {**scheme.spec(), "version": __version__})
    store(list(arrays.values()), targets, lock=False)


def _chunk(scheme: Scheme, name: str, block_info: Any = None) -> Array:
    """Return the chunk that Dask asks for; `block_info[None]` describes the output."""
    table = next(table for table in scheme.tensors() if table.name == name)
    return chunk_of(table, block_info[None]["chunk-location"])
