"""A table's bytes, block by block, to everything that wants them: the file, a hash, a checksum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pecli.engine.arrays import Array
from pecli.engine.table import Table, raw_bytes
from pecli.files.output import Output

Sink = Callable[[memoryview], object]
OnBlock = Callable[[Table, "Array"], None]
"""Told of every block that was written."""
Spec = Mapping[str, object]
"""What made the tables: scheme, parameters, version."""
Write = Callable[[Output, OnBlock | None], None]
"""What a format's `prepare` returns: everything is checked, the output may be opened."""

WORTH_A_THREAD = 1 << 18
"""Tables of fewer bytes are hashed sooner than threads wake up."""


def write_blocks(table: Table, sinks: Sequence[Sink], on_block: OnBlock | None = None) -> None:
    """Hand every block of the table to all the sinks, in order; the sinks work side by side where that is worth it."""
    if len(sinks) < 2 or table.nbytes < WORTH_A_THREAD:
        _write_blocks(table, lambda data: [sink(data) for sink in sinks], on_block)
        return
    from concurrent.futures import ThreadPoolExecutor

    first, *others = sinks
    with ThreadPoolExecutor(len(others)) as pool:

        def side_by_side(data: memoryview) -> None:
            working = [pool.submit(sink, data) for sink in others]
            first(data)
            for future in working:
                future.result()

        _write_blocks(table, side_by_side, on_block)


def _write_blocks(table: Table, sink: Sink, on_block: OnBlock | None) -> None:
    for block in table.blocks():
        sink(raw_bytes(block))
        if on_block is not None:
            on_block(table, block)
