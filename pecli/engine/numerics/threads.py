"""Threads: how many there are to work with, and work that they do ahead while its results are taken in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from threading import Event, Lock, local
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

Item = TypeVar("Item")
Result = TypeVar("Result")

_share = local()


@contextmanager
def share_of_threads(count: int) -> Iterator[None]:
    """Tables that this thread makes inside the block are filled by that many threads: others are at work, too."""
    before = getattr(_share, "count", None)
    _share.count = count
    try:
        yield
    finally:
        _share.count = before


def thread_count() -> int:
    """How many threads fill tables: this thread's share, the environment's PECLI_THREADS, or the cores there are."""
    share: int | None = getattr(_share, "count", None)
    if share is not None:
        return share
    wish = os.environ.get("PECLI_THREADS", "")
    if wish.isascii() and wish.isdigit() and len(wish) < 9 and int(wish) > 0:
        return min(int(wish), 64)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def results_in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """What `work` makes of each item, in order; the next few are made meanwhile, in threads. The items themselves are
    taken here, one after the other.
    """
    rest = iter(items)
    first = list(islice(rest, 2))
    if len(first) < 2 or thread_count() < 2:
        yield from map(work, chain(first, rest))
        return
    from concurrent.futures import ThreadPoolExecutor

    ahead: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(thread_count()) as pool:
        try:
            for item in chain(first, rest):
                ahead.append(pool.submit(work, item))
                if len(ahead) > thread_count() + 1:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:  # an interrupt does not wait for what is still in the queue
            pool.shutdown(wait=True, cancel_futures=True)


def work_through(work: Callable[[Item], object], items: Iterable[Item]) -> None:
    """Do the work on every item, in threads, for what it does and not for what it returns. Each thread takes the next
    item as soon as it is free, one thread at a time.
    """
    rest = iter(items)
    first = list(islice(rest, 2))
    if len(first) < 2 or thread_count() < 2:
        for item in chain(first, rest):
            work(item)
        return
    from concurrent.futures import ThreadPoolExecutor

    rest, taking, stopped = chain(first, rest), Lock(), Event()

    def work_off() -> None:
        try:
            while not stopped.is_set():
                with taking:
                    taken = list(islice(rest, 1))
                if not taken:
                    break
                work(taken[0])
        finally:  # an error ends the work of the others, too
            stopped.set()

    with ThreadPoolExecutor(thread_count()) as pool:
        running = [pool.submit(work_off) for _ in range(thread_count())]
        try:
            for each in running:
                each.result()
        finally:
            stopped.set()
