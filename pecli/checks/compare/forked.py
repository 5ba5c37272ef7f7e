"""Work in forked child processes. Threads that make many short NumPy calls wait for the interpreter as long as they
work, processes do not; and a child may map files into memory: if one is cut short meanwhile, only the child is killed.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def may_fork() -> bool:
    """Whether it is safe to fork: this process has one thread, which only Linux reports, and may wait for children."""
    try:
        return len(os.listdir("/proc/self/task")) == 1 and signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
    except OSError:
        return False


def work_in_processes(
    work: Callable[[Item], object], items: Sequence[Item], result: Callable[[], Result], processes: int
) -> list[Result] | None:
    """Do the work on every item in child processes; what `result` then returns in each of them, at most 4 KiB.

    None if one failed, for whatever reason: the work is to be done again here, where errors are reported.
    """
    children: list[int] = []
    unblocked, parent = signal.pthread_sigmask(signal.SIG_BLOCK, []), os.getpid()
    try:
        reading, writing = os.pipe()
        with open(reading, "rb") as stream:
            try:  # children never unblock signals: a handler would have them go on as this process
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
                for number in range(processes):
                    if not (child := os.fork()):
                        _work_and_exit(parent, work, items[number::processes], result, writing)
                    children.append(child)
            finally:
                os.close(writing)
                signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
            results = []
            while stream.peek(1):
                results.append(pickle.load(stream))
    except OSError:  # no more processes or pipes
        return None
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)
    return results if len(results) == processes else None


def _work_and_exit(
    parent: int, work: Callable[[Item], object], items: Sequence[Item], result: Callable[[], Result], writing: int
) -> NoReturn:
    """What a child does; it ends early and silently where anything fails, or its parent is gone."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for item in items:
            if os.getppid() != parent:
                break
            work(item)
        else:
            os.write(writing, pickle.dumps(result()))
    finally:
        os._exit(0)
