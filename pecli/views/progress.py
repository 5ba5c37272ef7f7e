"""A progress bar on standard error, once work has taken a while."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pecli.views.screen import size

MIN_SECONDS = 1.0
"""Before a bar appears."""


class Progress:
    """Counts bytes, or other things; draws a bar once that is worth it, on a terminal that can take it away again."""

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
        """How much of how much, and how fast: in the units of everything else that is said of sizes."""
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
    """A function to tell of bytes that are done, or of other things, which may draw a bar."""
    if not is_wanted(values):
        yield lambda count: None
        return
    bar = Progress(label, total, bytes=bytes)
    try:
        yield bar.advance
    finally:
        bar.close()
