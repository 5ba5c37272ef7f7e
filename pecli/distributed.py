"""Tables beyond one process: rows are a pure function of the spec, so Dask can spread them."""

from functools import partial
from typing import Any

from pecli.engine import __version__
from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.schemes.scheme import Scheme, tensors_by_name
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
    not_installed = ParameterError(
        "scheme", scheme.name, "Dask makes its arrays", "pip install dask"
    )
    dask_array = package("dask.array", not_installed)
    arrays = {}
    for table in scheme.tensors():
        make_chunk = partial(_make_chunk, scheme, table.name)
        chunks = dask_array.core.normalize_chunks(chunk_shape(table), table.shape)
        dtype = numpy_dtype(table.dtype)
        arrays[table.name] = dask_array.map_blocks(make_chunk, chunks=chunks, dtype=dtype)
    return arrays


def save(path: str, scheme: Scheme) -> None:
    """Write a scheme to a Zarr store, whose chunks are computed by the workers of Dask."""
    arrays = dask(scheme)
    from dask.array import store

    targets = create_arrays(path, scheme.tensors(), {**scheme.spec(), "version": __version__})
    store(list(arrays.values()), targets, lock=False)


def _make_chunk(scheme: Scheme, name: str, block_info: Any = None) -> Array:
    """Return a chunk of a tensor; Dask describes its place as `block_info[None]`."""
    table = tensors_by_name(scheme)[name]
    return chunk_of(table, block_info[None]["chunk-location"])
