"""Showing things to people. Here: tables as they are made, with a progress bar and the statistics of --json."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich import progress

    from pecli.checks.statistics import Statistics
    from pecli.engine.arrays import Array
    from pecli.engine.table import Table

MIN_SECONDS = 1.0  #: Before a bar appears


@contextmanager
def counting(
    label: str, total: int, values: Mapping[str, Any], *, bytes: bool = True
) -> Iterator[Callable[[int], None]]:
    """A function that counts bytes, or other things; after MIN_SECONDS it draws a bar, where that can be erased."""
    unwanted = values["quiet"] or values["no_progress"] or os.environ.get("TERM", "") == "dumb"
    if unwanted or not sys.stderr.isatty():
        yield lambda count: None
        return
    start, done, bar = time.monotonic(), 0, None
    with ExitStack() as drawn:

        def advance(count: int) -> None:
            nonlocal done, bar
            done += count
            if bar is None and time.monotonic() - start > MIN_SECONDS:
                bar = drawn.enter_context(_bar(label, total, bytes))
            if bar is not None:
                bar.update(bar.task_ids[0], completed=done)

        yield advance


def _bar(label: str, total: int, bytes: bool) -> progress.Progress:
    from rich import progress
    from rich.console import Console

    amounts = [progress.DownloadColumn(binary_units=True), progress.TransferSpeedColumn()]
    counts = amounts if bytes else [progress.MofNCompleteColumn()]
    columns = ["{task.description}", progress.BarColumn(), *counts, progress.TimeRemainingColumn()]
    bar = progress.Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(label, total=total)
    return bar


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
