"""A progress bar on standard error, on a terminal only, and only when work takes a while."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

_PATIENCE = 1.0
"""Seconds before a bar appears."""


class Progress:
    """Counts bytes; draws a bar once that is worth it."""

    def __init__(self, label: str, total: int, *, wanted: bool) -> None:
        self.label, self.total, self.done = label, total, 0
        self._wanted = wanted and sys.stderr.isatty()
        self._start = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def advance(self, count: int) -> None:
        self.done += count
        if self._wanted and self._bar is None and time.monotonic() - self._start > _PATIENCE:
            self._open()
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done)

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(True), TransferSpeedColumn())
        self._bar = Bar(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task(self.label, total=self.total)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
