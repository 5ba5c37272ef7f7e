"""Sending a file to the disk while more of it is being made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

SYNC_BYTES = 1 << 26
"""How much is written before it is sent on: a small part of a large file, and not so little that syncs queue up."""


class SyncAhead:
    """A thread that syncs a file now and then, so that the last sync has little left to do."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = 0
        self._pool: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None

    def wrote(self, count: int) -> None:
        """Take note of more bytes; sync if they are many and the last sync is done."""
        self._waiting += count
        if self._waiting >= SYNC_BYTES and (self._running is None or self._running.done()):
            self._sync()

    def _sync(self) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self.settle()
        self._pool = self._pool or ThreadPoolExecutor(1)
        sync = getattr(os, "fdatasync", os.fsync)  # macOS has only the latter
        self._running, self._waiting = self._pool.submit(sync, self._descriptor), 0

    def settle(self) -> None:
        """Wait for the thread; an error that it met is raised here, the system would not report it to the last sync."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def close(self) -> None:
        """Be done with the file, whatever became of it."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
