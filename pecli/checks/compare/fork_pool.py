"""Work that is done by copies of this process. Threads that make many short calls spend as much time waiting for each
other as they work; processes do not. And if one of them is ended by the system, this one goes on.
"""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Collection, Sequence
from typing import NoReturn, TypeVar

Result = TypeVar("Result")

WORTH_IT = 1 << 26
"""Bytes of a table from which on a fork takes less time than it saves."""
MOST_SHARES = 1 << 10
"""How many numbers of four bytes a pipe holds before anyone reads it, however little room it has."""


def may_fork() -> bool:
    """Whether this process can be copied safely: only Linux says that it has no other thread, in NumPy or a caller.

    Where whoever started it has it ignore the end of its copies, nobody would learn how they ended.
    """
    try:
        alone = hasattr(os, "fork") and len(os.listdir("/proc/self/task")) == 1
    except OSError:
        return False
    return alone and signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL


def shared_out(
    work: Callable[[int], None], places: Sequence[int], result: Callable[[], Result], processes: int
) -> list[Result] | None:
    """Do the work at each place once, in copies of this process; what `result` then says in each of them.

    None if one of the copies failed: then all has to be done again, here.
    """
    share = Share(work, places, -(-len(places) // MOST_SHARES))
    running: dict[int, int] = {}
    try:
        for _ in range(processes):
            _start(share, result, running)
        found = []
        for process in list(running):
            with open(running[process], "rb", closefd=False) as stream:
                told = stream.read()
            code = os.waitpid(process, 0)[1]
            os.close(running.pop(process))
            if code != 0 or not told:
                return None
            found.append(pickle.loads(told))
        return found
    except OSError:  # no room for another process
        return None
    finally:
        os.close(share.queue)
        for process, pipe in running.items():
            os.close(pipe)
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


class Share:
    """Indices in a queue, some at a time, from which every process takes the next."""

    def __init__(self, work: Callable[[int], None], places: Sequence[int], at_once: int) -> None:
        self._work = work
        self._places = [places[k : k + at_once] for k in range(0, len(places), at_once)]
        self.queue, writing = os.pipe()
        os.write(writing, b"".join(number.to_bytes(4, "little") for number in range(len(self._places))))
        os.close(writing)

    def work_off(self, wanted: Callable[[], bool]) -> None:
        """Work until the queue is empty, or nobody wants the result any more."""
        while wanted() and (taken := os.read(self.queue, 4)):
            for place in self._places[int.from_bytes(taken, "little")]:
                self._work(place)


def _start(share: Share, result: Callable[[], Result], running: dict[int, int]) -> None:
    """Set a copy of this process to work, and note the pipe in which its result comes.

    Signals wait until each of the two knows which it is: a copy that is interrupted would go on as the first process.
    """
    reading, writing = os.pipe()
    parent, held = os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        process = os.fork()
        if not process:
            _work_and_leave(share, result, writing, lambda: os.getppid() == parent, held)
        running[process] = reading
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def _work_and_leave(
    share: Share, result: Callable[[], Result], writing: int, wanted: Callable[[], bool], held: Collection[int]
) -> NoReturn:
    """What the copy does: nothing of what the first process would still do, and no message, whatever happens."""
    code = 1
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        share.work_off(wanted)
        with open(writing, "wb") as stream:
            stream.write(pickle.dumps(result()))
        code = 0
    finally:
        os._exit(code)
