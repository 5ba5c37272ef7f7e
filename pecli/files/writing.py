"""Helpers of all writers: the request, blocks of tables, and the spec as JSON."""

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pecli.engine.arrays import numpy_dtype
from pecli.engine.table import Table, raw_bytes
from pecli.errors import ParameterError

MIN_THREADED_BYTES = 1 << 18  # Smaller tables are hashed before threads would wake up.
NO_DIGEST = "0" * 64  # stands in for a sha256 until it is known

OnBlock = Callable[[int], None]  #: called with the size of every block that was written
Spec = Mapping[str, object]  #: what made the tables: scheme, parameters, version
Sink = Callable[[memoryview], object]


def no_progress(size: int) -> None:
    """Ignore a block that was written."""


@dataclass(frozen=True)
class WriteRequest:
    """Tables to write to a file.

    Attributes:
        path: the file.
        tables: the tables, at least one.
        spec: what made them; .safetensors, .npz, .json, .h and .zarr have a place for it.
        metadata: texts by name; only .safetensors has a place for them.
        on_block: called with the size of every block that was written.
        header: begin a .csv with the names of its columns.
        prefix: what names in a .h begin with; the file's name by default.
    """

    path: str
    tables: Sequence[Table]
    spec: Spec | None = None
    metadata: Mapping[str, str] | None = None
    on_block: OnBlock = no_progress
    header: bool = True
    prefix: str | None = None


def check_storable(
    tables: Sequence[Table], suffix: str, dtypes: Container[str], *, empty: bool = True
) -> None:
    """Raise a ParameterError for tables that a format cannot hold, before output is touched.

    Args:
        tables: the tables to write.
        suffix: the suffix of the format.
        dtypes: the dtypes that it holds.
        empty: whether it holds tables without elements.
    """
    for table in tables:
        if table.dtype not in dtypes:
            is_complex = table.dtype.startswith("complex")
            suitable = ".npy or .npz" if is_complex else ".safetensors"
            rule = f"{suffix} cannot hold it"
            raise ParameterError("dtype", table.dtype, rule, f"write {suitable}")
        is_empty = table.size == 0
        if is_empty and not empty:
            rule = f"a table in {suffix} has at least one number"
            raise ParameterError("output", f"{suffix} for {table.shape}", rule, "write .npy")


def file_order(tables: Sequence[Table]) -> list[Table]:
    """Sort tables by element size, largest first, then by name.

    Tensors that are packed tightly are all aligned in this order.
    """
    return sorted(tables, key=lambda table: (-numpy_dtype(table.dtype).itemsize, table.name))


def write_blocks(tables: Sequence[Table], sinks: Sequence[Sink], on_block: OnBlock) -> None:
    """Pass every block of the tables to all sinks, in order.

    Large tables are hashed and written by one thread per sink.
    """
    size = sum(table.nbytes for table in tables)
    if len(sinks) > 1 and size >= MIN_THREADED_BYTES:
        _write_in_threads(tables, sinks, on_block)
        return
    for data in _raw_blocks(tables):
        for sink in sinks:
            sink(data)
        on_block(data.nbytes)


def _write_in_threads(tables: Sequence[Table], sinks: Sequence[Sink], on_block: OnBlock) -> None:
    """Pass every block to all sinks at once; the next block comes when all have taken this one."""
    from pecli.engine.thread_pool import ThreadPool  # concurrent.futures takes 5 ms to import.

    with ThreadPool(len(sinks)) as pool:
        for data in _raw_blocks(tables):
            pending = [pool.submit(sink, data) for sink in sinks]
            for future in pending:
                future.result()
            on_block(data.nbytes)


def _raw_blocks(tables: Sequence[Table]) -> Iterator[memoryview]:
    for table in tables:
        for block in table.blocks():
            yield raw_bytes(block)


def compact(value: object) -> str:
    """Return JSON that depends on the value only: no spaces, keys sorted, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def provenance(spec: Spec, digest: str = NO_DIGEST) -> str:
    """Return the spec and the sha256 of the tensors' bytes as JSON.

    The default has the length of any digest, so that a header can be patched once it is known.
    """
    return compact({**spec, "sha256": digest})
