"""Checks in threads that end soon when nobody waits for them any more: after the block that they are reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event, local
from typing import TYPE_CHECKING

from pecli.engine.arrays import Array
from pecli.errors import FileError
from pecli.files import LoadedFile, open_tensors

if TYPE_CHECKING:
    from pecli.engine.table import Table


_thread = local()


@contextmanager
def until(stop: Event) -> Iterator[None]:
    """Files that this thread opens inside the block are read until `stop` is set."""
    _thread.stop = stop
    try:
        yield
    finally:
        del _thread.stop


def open_for_checks(path: str) -> LoadedFile:
    """Open FILE or FILE:NAME; reading on after the end of all checks is an error."""
    file, stop = open_tensors(path), getattr(_thread, "stop", None)
    if stop is None:
        return file
    return replace(file, tables=tuple(_stoppable(table, path, stop) for table in file.tables))


def _stoppable(table: Table, path: str, stop: Event) -> Table:
    def fill(start: int, out: Array) -> None:
        if stop.is_set():
            raise FileError(path, "is not read any further")
        table.fill(start, out)

    return replace(table, fill=fill)
