"""What torch.save writes: an archive of one pickle, read as data, and the bytes of every storage."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.table import Table
from pecli.errors import quoted
from pecli.files.checkpoints.torch_pickle import BYTES, PickleError, StridedTensor, read_tensors
from pecli.files.source import Source, data_bytes, stored_table
from pecli.files.zip_archive import STORED, Entry, read_directory

PICKLE = "/data.pkl"
MAX_PICKLE = 64 << 20
MAX_VIEW = 256 << 20
"""Bytes of a storage that is read at once, where a tensor takes its elements from here and there in it."""
MAX_REPEATED = 64 << 20
"""Bytes that a tensor may have beyond those of its storage, as an expanded one does."""
_BYTE_ORDERS = {b"little": "<", b"big": ">"}


def is_torch(source: Source) -> bool:
    """Whether an archive is one of torch.save: its first member is the pickle."""
    name_length = int.from_bytes(source.read(26, 2), "little")
    return source.read(30, name_length).endswith(PICKLE.encode())


def read(source: Source) -> tuple[Table, ...]:
    """The tensors of a file of torch.save, their elements still unread."""
    if source.size is None:
        raise source.error("a file of torch.save cannot be read from a pipe", "save it to a file first")
    listed = read_directory(source, source.size)
    root = next((entry.name for entry in listed if entry.name.endswith(PICKLE)), PICKLE).removesuffix(PICKLE)
    entries = {entry.name.removeprefix(f"{root}/"): entry for entry in listed if entry.name.startswith(f"{root}/")}
    order = _BYTE_ORDERS.get(_small_member(source, entries, "byteorder", 16) or b"little")
    if order is None:
        raise source.error("has an unknown byte order")
    pickled = _small_member(source, entries, PICKLE[1:], MAX_PICKLE)
    try:
        tensors = read_tensors(pickled or b"")
    except PickleError as problem:
        raise source.error(str(problem), "write the tensors with safetensors.torch.save_file") from None
    return tuple(_table(source, entries, name, tensor, order) for name, tensor in tensors.items())


def _small_member(source: Source, entries: Mapping[str, Entry], name: str, limit: int) -> bytes | None:
    """The bytes of a small member; None where there is none."""
    entry = entries.get(name)
    if entry is None:
        return None
    if entry.method != STORED or entry.packed != entry.size or entry.size > limit:
        raise source.error(f"member {quoted(name)} is compressed, or larger than {limit} bytes")
    return source.read(entry.data, entry.size)


def _table(source: Source, entries: Mapping[str, Entry], name: str, tensor: StridedTensor, order: str) -> Table:
    storage, dtype = tensor.storage, tensor.dtype
    itemsize = numpy_dtype(dtype).itemsize
    size = data_bytes(tensor.shape, itemsize, lambda problem: source.error(f"tensor {quoted(name)} {problem}"))
    entry = entries.get(f"data/{storage.key}")
    if entry is None:
        raise source.error(f"has no member for the storage {quoted(storage.key)} of {quoted(name)}")
    claimed = storage.count * (1 if storage.dtype == BYTES else itemsize)
    if entry.method != STORED or entry.size != claimed or entry.packed != entry.size:
        raise source.error(f"the storage {quoted(storage.key)} of {quoted(name)} has not the size that it claims")
    if (tensor.offset + tensor.span) * itemsize > entry.size:
        raise source.error(f"tensor {quoted(name)} reaches beyond its storage of {entry.size} bytes")
    if size > entry.size + MAX_REPEATED:
        raise source.error(f"tensor {quoted(name)} claims {size} bytes, of a storage of {entry.size}")
    first = entry.data + tensor.offset * itemsize
    for fortran in (False, True):
        if tensor.is_contiguous(fortran=fortran):
            return stored_table(source, name, dtype, tensor.shape, first, order, fortran)
    if tensor.span * itemsize > MAX_VIEW:
        raise source.error(f"tensor {quoted(name)} is a view of {tensor.span * itemsize} bytes", "save a copy of it")
    return _view(source, name, tensor, first, order)


def _view(source: Source, name: str, tensor: StridedTensor, first: int, order: str) -> Table:
    """A sliced or expanded tensor: the part of the storage that it covers is read once, then viewed."""
    table = Table(name, tensor.dtype, tensor.shape, lambda start, out: None)

    @cache
    def rows() -> Array:
        flat = stored_table(source, name, tensor.dtype, (tensor.span,), first, order).array()
        strides = [stride * flat.itemsize for stride in tensor.strides]
        view = np.lib.stride_tricks.as_strided(flat, tensor.shape, strides, writeable=False)
        return view.reshape(table.rows, table.width)

    def fill(start: int, out: Array) -> None:
        out[...] = rows()[start : start + len(out)]

    return Table(name, tensor.dtype, tensor.shape, fill)
