"""Progress bars on standard error."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from pecli.engine.table import Table

MIN_SECONDS = 1.0
"""Work that takes less time than this shows no bar, which would only flicker."""

Advance = Callable[[int], None]
"""A function that counts work that was done."""


@contextmanager
def counting(label: str, total: int, *, wanted: bool) -> Iterator[Advance]:
    """Yield a function that counts work, and draw a bar if that can be erased again.

    Args:
        label: The name of the work.
        total: All the work there is, in the unit that the function counts.
        wanted: False if the user asked for silence.
    """
    is_erasable = sys.stderr.isatty() and os.environ.get("TERM", "") != "dumb"
    if not wanted or not is_erasable:
        yield lambda count: None
        return
    with ExitStack() as resources:
        yield _Counter(label, total, resources).advance


class _Counter:
    """The work that is done so far, and its bar once there is one."""

    def __init__(self, label: str, total: int, resources: ExitStack) -> None:
        self._label = label
        self._total = total
        self._resources = resources
        self._start = time.monotonic()
        self._done = 0
        self._bar: Progress | None = None

    def advance(self, count: int) -> None:
        """Count work; the first call after MIN_SECONDS creates the bar."""
        self._done += count
        if self._bar is None and time.monotonic() - self._start > MIN_SECONDS:
            self._bar = self._new_bar()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)

    def _new_bar(self) -> Progress:
        from rich.console import Console
        from rich.progress import Progress

        bar = Progress(console=Console(stderr=True), transient=True)
        bar.add_task(self._label, total=self._total)
        return self._resources.enter_context(bar)


def described(label: str, tables: Sequence[Table], *, wanted: bool = True) -> dict[str, object]:
    """Return the statistics of tables by their names, with a bar while they are computed."""
    from pecli.checks import statistics

    total = sum(table.nbytes for table in tables)
    with counting(label, total, wanted=wanted) as advance:
        return {table.name: statistics.described(table, advance) for table in tables}
