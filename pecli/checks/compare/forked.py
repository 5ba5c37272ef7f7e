"""Work in copies of this process. Threads that make many short NumPy calls wait for the interpreter as long as they
work, processes do not; and a process may look at a file in place: if the file is cut short, only the copy is ended.
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
    """Whether this process can be copied safely: it has one thread, which only Linux reports, and learns of the end of
    its copies.
    """
    try:
        return len(os.listdir("/proc/self/task")) == 1 and signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
    except OSError:
        return False


def work_in_processes(
    work: Callable[[Item], object], items: Sequence[Item], result: Callable[[], Result], processes: int
) -> list[Result] | None:
    """Do the work on every item in copies of this process; what `result` then returns in each, at most 4 KiB.

    None if a copy failed, for whatever reason: the work is to be done again here, where errors can be reported.
    """
    reading, writing = os.pipe()
    children: list[int] = []
    unblocked, parent = signal.pthread_sigmask(signal.SIG_BLOCK, []), os.getpid()
    try:
        with open(reading, "rb") as stream:
            try:  # copies never unblock signals: none of them may go on as this process would
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
    except OSError:  # there is no room for another process
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
    """What a copy does; it ends early, and silently, if anything fails or the first process is gone."""
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
