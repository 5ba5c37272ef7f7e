"""Showing things to people. Here: tables as they are made, with a progress bar and the statistics of --json."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pecli.checks.statistics import Statistics
    from pecli.engine.arrays import Array
    from pecli.engine.table import Table


MIN_SECONDS = 1.0
"""Before a bar appears."""


class Progress:
    """Counts bytes, or other things; draws a bar after MIN_SECONDS, on a terminal that can erase it again."""

    def __init__(self, label: str, total: int, *, bytes: bool = True) -> None:
        self._label, self._total, self._done, self._bytes = label, total, 0, bytes
        self._start = time.monotonic()
        self._drawn = os.environ.get("TERM", "") != "dumb"
        self._bar: Any = None

    def advance(self, count: int) -> None:
        """That many more are done."""
        self._done += count
        if self._bar is None and self._drawn and time.monotonic() - self._start > MIN_SECONDS:
            self._open()
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)

    def _open(self) -> None:
        from rich import progress
        from rich.console import Console

        amounts = [progress.DownloadColumn(binary_units=True), progress.TransferSpeedColumn()]
        counts = amounts if self._bytes else [progress.MofNCompleteColumn()]
        columns = [progress.TextColumn("{task.description}"), progress.BarColumn(), *counts]
        self._bar = progress.Progress(
            *columns, progress.TimeRemainingColumn(), console=Console(stderr=True), transient=True
        )
        self._bar.start()
        self._task = self._bar.add_task(self._label, total=self._total)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


@contextmanager
def counting(
    label: str, total: int, values: Mapping[str, Any], *, bytes: bool = True
) -> Iterator[Callable[[int], None]]:
    """A function that counts bytes, or other things; on a terminal it may draw a bar, unless the options `quiet` or
    `no_progress` are given.
    """
    if not sys.stderr.isatty() or values["quiet"] or values["no_progress"]:
        yield lambda count: None
        return
    bar = Progress(label, total, bytes=bytes)
    try:
        yield bar.advance
    finally:
        bar.close()


class BlockObserver(ExitStack):
    """Sees every block of the tables that a command writes; `values` are the command's options.

    `described` are the tables that --json speaks of, where those are not the ones that are written.
    """

    def __init__(
        self, label: str, tables: Sequence[Table], values: Mapping[str, Any], described: Sequence[Table] | None = None
    ) -> None:
        super().__init__()
        self._label, self._values = label, values
        self.tables, self._described = tables, tables if described is None else described
        self._statistics: dict[str, Statistics] = {}
        if values["json"]:
            self._observe(tables)
        self._advance = self.enter_context(counting(label, sum(table.nbytes for table in tables), values))

    def _observe(self, tables: Sequence[Table]) -> None:
        from pecli.checks.statistics import Statistics

        self._statistics |= {table.name: Statistics(table) for table in tables}

    def see(self, table: Table, block: Array) -> None:
        """Add a block to the statistics and the progress."""
        if table.name in self._statistics:
            self._statistics[table.name].add(block)
        self._advance(block.nbytes)

    def tensors(self) -> dict[str, Any]:
        """The statistics of all tables described; those that were not written are made for it."""
        missing = [table for table in self._described if table.name not in self._statistics]
        self._observe(missing)
        with counting(self._label, sum(table.nbytes for table in missing), self._values) as self._advance:
            for table in missing:
                for block in table.blocks():
                    self.see(table, block)
        return {table.name: self._statistics[table.name].as_json() for table in self._described}
