"""Threads that compute tables and run checks, as many as the system starts.

Limits of processes and containers (ulimit -u, pids.max) count threads as well.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

import numpy as np

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _ignore_overflow() -> None:
    """Let NumPy not warn in this thread: a thread does not have the settings of its caller."""
    np.seterr(all="ignore")


def _done_at_once(call: Callable[[], _Result]) -> Future[_Result]:
    """Return the future of a call that is made in this thread, with its result or exception."""
    done: Future[_Result] = Future()
    try:
        done.set_result(call())
    except Exception as problem:
        done.set_exception(problem)
    return done


class ThreadPool(ThreadPoolExecutor):
    """A pool that goes on with the threads it has, or without any, if the system starts no more."""

    _works_alone = False  # True once not even the first thread could be started

    def __init__(self, max_workers: int) -> None:
        super().__init__(max_workers, initializer=_ignore_overflow)

    def submit(
        self,
        fn: Callable[_Arguments, _Result],
        /,
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> Future[_Result]:
        """Call a function in a thread; at once, in this thread, if the system starts none."""
        if not self._works_alone:
            try:
                return super().submit(fn, *args, **kwargs)
            except RuntimeError:
                # «can't start new thread», and there is none yet that could do the work.
                self._works_alone = True
        return _done_at_once(partial(fn, *args, **kwargs))

    def _adjust_thread_count(self) -> None:
        """Start another thread if there is work for it, and it is possible."""
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise
