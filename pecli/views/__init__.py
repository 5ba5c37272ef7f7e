"""Showing things to people. Here: tables as they are made, with a progress bar and the statistics of --json."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from pecli.views.screen import size

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
            self._bar.update(self._task, completed=self._done, amount=self._amount())

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn())
        counts = (TextColumn("{task.fields[amount]}"),) if self._bytes else (MofNCompleteColumn(),)
        every: list[ProgressColumn] = [*columns, *counts, TimeRemainingColumn()]
        self._bar = Bar(*every, console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task(self._label, total=self._total, amount="")

    def _amount(self) -> str:
        """How much of how much, and how fast."""
        speed = self._done / max(1e-9, time.monotonic() - self._start)
        return f"{size(self._done)} of {size(self._total)}, {size(round(speed))}/s"

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()


def is_wanted(values: Mapping[str, Any]) -> bool:
    """Whether a bar may be drawn: on a terminal, unless the options `quiet` or `no_progress` are given."""
    return sys.stderr.isatty() and not (values["quiet"] or values["no_progress"])


@contextmanager
def counting(
    label: str, total: int, values: Mapping[str, Any], *, bytes: bool = True
) -> Iterator[Callable[[int], None]]:
    """A function that counts bytes, or other things, and may draw a bar."""
    if not is_wanted(values):
        yield lambda count: None
        return
    bar = Progress(label, total, bytes=bytes)
    try:
        yield bar.advance
    finally:
        bar.close()


class BlockObserver:
    """Sees every block of the tables that a command writes; `values` are the command's options.

    `described` are the tables that --json speaks of, where those are not the ones that are written.
    """

    def __init__(
        self, label: str, tables: Sequence[Table], values: Mapping[str, Any], described: Sequence[Table] | None = None
    ) -> None:
        self.tables, self._described = tables, tables if described is None else described
        self._statistics: dict[str, Statistics] = {}
        if values["json"]:
            self._statistics = {table.name: _statistics(table) for table in tables}
        self._progress: Progress | None = None
        if is_wanted(values):
            self._progress = Progress(label, sum(table.nbytes for table in tables or self._described))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        if self._progress is not None:
            self._progress.close()

    def see(self, table: Table, block: Array) -> None:
        """Add a block to the statistics and the progress."""
        if table.name in self._statistics:
            self._statistics[table.name].add(block)
        if self._progress is not None:
            self._progress.advance(block.nbytes)

    def tensors(self) -> dict[str, Any]:
        """The statistics of all tables described; those that were not written are made for it."""
        with self:
            for table in self._described:
                if table.name not in self._statistics:
                    self._statistics[table.name] = _statistics(table)
                    for block in table.blocks():
                        self.see(table, block)
        return {table.name: self._statistics[table.name].as_json() for table in self._described}


def _statistics(table: Table) -> Statistics:
    from pecli.checks.statistics import Statistics

    return Statistics(table)
