"""Showing things to people. Here: the progress of tables as they are made, and the statistics of --json."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pecli.engine.table import Table

MIN_SECONDS = 1.0  #: Before a bar appears


@contextmanager
def counting(label: str, total: int, values: Mapping[str, Any]) -> Iterator[Callable[[int], None]]:
    """A function that counts what is done; after MIN_SECONDS it draws a bar, where that can be erased."""
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
                from rich.console import Console
                from rich.progress import Progress

                bar = drawn.enter_context(Progress(console=Console(stderr=True), transient=True))
                bar.add_task(label, total=total)
            if bar is not None:
                bar.update(bar.task_ids[0], completed=done)

        yield advance


def described(label: str, tables: "Sequence[Table]", values: Mapping[str, Any]) -> dict[str, Any]:
    """What --json says of tables, by their names; `values` are the command's options."""
    from pecli.checks import statistics

    with counting(label, sum(table.nbytes for table in tables), values) as advance:
        return {table.name: statistics.described(table, advance) for table in tables}
