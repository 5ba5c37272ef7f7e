"""Reading what torch.save writes: an archive of one pickle, read as data, and the bytes of every storage."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.numerics.dtypes import numpy_dtype
from pecli.engine.table import Table
from pecli.engine.text import quoted
from pecli.files.raw_tensors import data_bytes, stored_table
from pecli.files.source import Source
from pecli.files.torch_pickle import PickleError, StridedTensor, read_tensors
from pecli.files.zip_directory import Entry, read_directory
from pecli.files.zip_layout import STORED

MAX_PICKLE = 64 << 20
MAX_REPEATED = 64 << 20
"""Bytes that a tensor may have beyond those of its storage, as an expanded one does."""
_BYTE_ORDERS = {b"little": "<", b"big": ">"}


def is_torch(source: Source) -> bool:
    """Whether an archive is one of torch.save: its first member is the pickle."""
    name_length = int.from_bytes(source.read(26, 2), "little")
    return source.read(30, name_length).endswith(b"/data.pkl")


def read(source: Source) -> tuple[Table, ...]:
    """The tensors of a file of torch.save, their elements still unread."""
    if source.size is None:
        raise source.error("a file of torch.save cannot be read from a pipe", "save it to a file first")
    entries = {entry.name.partition("/")[2]: entry for entry in read_directory(source, source.size)}
    order = _BYTE_ORDERS.get(_bytes_of(source, entries, "byteorder", 16) or b"little")
    if order is None:
        raise source.error("has an unknown byte order")
    pickled = _bytes_of(source, entries, "data.pkl", MAX_PICKLE)
    try:
        tensors = read_tensors(pickled or b"")
    except PickleError as problem:
        raise source.error(str(problem), "write the tensors with safetensors.torch.save_file") from None
    return tuple(_table(source, entries, name, tensor, order) for name, tensor in tensors.items())


def _bytes_of(source: Source, entries: dict[str, Entry], name: str, limit: int) -> bytes | None:
    """The bytes of a small member; None where there is none."""
    entry = entries.get(name)
    if entry is None:
        return None
    if entry.method != STORED or entry.packed != entry.size or entry.size > limit:
        raise source.error(f"member {quoted(name)} is compressed, or larger than {limit} bytes")
    return source.read(entry.data, entry.size)


def _table(source: Source, entries: dict[str, Entry], name: str, tensor: StridedTensor, order: str) -> Table:
    storage = tensor.storage
    entry = entries.get(f"data/{storage.key}")
    if entry is None:
        raise source.error(f"has no member for the storage {quoted(storage.key)} of {quoted(name)}")
    itemsize = numpy_dtype(storage.dtype).itemsize
    size = data_bytes(tensor.shape, itemsize, lambda problem: source.error(f"tensor {quoted(name)} {problem}"))
    if entry.method != STORED or entry.size != storage.count * itemsize or entry.packed != entry.size:
        raise source.error(f"the storage {quoted(storage.key)} of {quoted(name)} has not the size that it claims")
    if size > entry.size + MAX_REPEATED:
        raise source.error(f"tensor {quoted(name)} claims {size} bytes, of a storage of {entry.size}")
    first = entry.data + tensor.offset * itemsize
    if tensor.contiguous:
        return stored_table(source, name, storage.dtype, tensor.shape, first, order)
    return _strided_table(source, name, tensor, first, order)


def _strided_table(source: Source, name: str, tensor: StridedTensor, first: int, order: str) -> Table:
    """A transposed, sliced or expanded tensor: the part of the storage that it covers is read once, then viewed."""
    dtype = numpy_dtype(tensor.storage.dtype)

    @cache
    def rows() -> Array:
        flat = np.empty(tensor.span, dtype)
        source.fill(first, flat.view(np.uint8).data)
        if order != ("<" if sys.byteorder == "little" else ">"):
            flat.byteswap(inplace=True)
        strides = [stride * dtype.itemsize for stride in tensor.strides]
        view = np.lib.stride_tricks.as_strided(flat, tensor.shape, strides, writeable=False)
        return view.reshape(-1, tensor.shape[-1])

    def fill(start: int, out: Array) -> None:
        out[...] = rows()[start : start + len(out)]

    return Table(name, tensor.storage.dtype, tensor.shape, fill)
