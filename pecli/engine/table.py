"""Tensors that are made whole or block by block, in threads, so that none need fit in memory."""

import math
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pecli.engine.arrays import AnyArray, Array, Indices, dtype_name, numpy_dtype

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from numpy.typing import DTypeLike


BLOCK_BYTES = 1 << 23
"""Size of a block: large enough to keep threads busy, small enough to hold several."""


@dataclass(frozen=True, eq=False)
class Table:
    """A tensor seen as rows: the last axis is a row, and the axes before it are row-major.

    A tensor of shape (4, 6, 8) has 24 rows of 8 elements; a vector of 8 has 8 rows of one.

    Attributes:
        name: The name of the tensor.
        dtype: The name of its dtype.
        shape: Its shape.
        fill: `fill(start, out)` writes rows start, start + 1, … into the two-dimensional array
            `out`, which has the table's dtype. The values may not depend on how rows are cut into
            blocks.
        gathers: True if `fill` also accepts an array of row indices instead of `start`.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    fill: Callable[[Any, Array], None] = field(repr=False, compare=False)
    gathers: bool = field(default=False, repr=False)

    @property
    def width(self) -> int:
        """Elements of a row."""
        return self.shape[-1] if len(self.shape) > 1 else 1

    @property
    def rows(self) -> int:
        """Number of rows."""
        if len(self.shape) > 1:
            return math.prod(self.shape[:-1])
        return self.size

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * numpy_dtype(self.dtype).itemsize

    def read(self, start: int, stop: int) -> Array:
        """Return rows start … stop − 1 as a new array (stop − start, width)."""
        out = self._empty(stop - start)
        self.fill(start, out)
        return out

    def pick(self, rows: Indices) -> Array:
        """Return the rows with these indices, in any order.

        Runs of consecutive rows are read together: 0, 1, 2, 7, 8, 3 as 0–2, 7–8 and 3.
        """
        out = self._empty(len(rows))
        if self.gathers:
            self.fill(rows, out)
            return out
        later_starts = np.flatnonzero(np.diff(rows) != 1) + 1  # [3, 5] in the example
        bounds_of_runs = [0, *later_starts.tolist(), len(rows)]
        for start, stop in pairwise(bounds_of_runs):
            if start < stop:  # Without rows, there is a run of none.
                self.fill(int(rows[start]), out[start:stop])
        return out

    def _empty(self, rows: int) -> Array:
        return np.empty((rows, self.width), numpy_dtype(self.dtype))

    def block_rows(self) -> int:
        """Return the number of rows of a block."""
        row_bytes = self.width * numpy_dtype(self.dtype).itemsize
        return max(1, BLOCK_BYTES // max(1, row_bytes))

    def blocks(self, rows: int | None = None) -> Iterator[Array]:
        """Return the whole table, some rows at a time, in order.

        The next blocks are made in threads meanwhile.
        """
        step = rows or self.block_rows()

        def read_block(start: int) -> Array:
            return self.read(start, min(start + step, self.rows))

        return results_in_order(read_block, self._starts(step))

    def array(self) -> Array:
        """Return the whole table as one array, made in threads.

        Each of 4 threads makes about two blocks: an eighth of the rows, or BLOCK_BYTES if that is
        more.
        """
        out = self._empty(self.rows)
        max_threads = self._max_threads()
        blocks_wanted = 2 * min(thread_count(), max_threads)
        rows_per_block = -(-self.rows // blocks_wanted)  # rounded up
        step = max(self.block_rows(), rows_per_block)

        def fill_block(start: int) -> None:
            self.fill(start, out[start : start + step])

        work_through(fill_block, self._starts(step), max_threads)
        return out.reshape(self.shape)

    def _max_threads(self) -> int:
        """Return how many threads are of use: float64 numbers are computed in many short steps."""
        return MAX_THREADS_OF_SHORT_STEPS if self.dtype == "float64" else MAX_THREADS

    def _starts(self, step: int) -> range:
        """Return the first rows of blocks; a table with rows of no elements has no blocks."""
        return range(0, self.rows if self.size else 0, step)


def table_of(name: str, array: Array) -> Table:
    """Return an array in memory as a table, whose rows are copied from it when they are read."""
    # A table without rows to read, for its numbers of rows and columns.
    shape_only = Table(name, dtype_name(array.dtype), array.shape, lambda start, out: None)
    rows = array.reshape(shape_only.rows, shape_only.width)

    def fill(start: int, out: Array) -> None:
        out[...] = rows[start : start + len(out)]

    return replace(shape_only, fill=fill)


def raw_bytes(block: Array) -> memoryview:
    """Return a block's elements as bytes in C order, without a copy if they are in that order."""
    return np.ascontiguousarray(block).reshape(-1).view(np.uint8).data


def stacked(name: str, parts: Sequence[Table]) -> Table:
    """Return tables of one shape and dtype as one table, joined along a new first axis.

    Of two tables of 10 rows, rows 8 … 12 of the result are rows 8 and 9 of the first and rows 0 to
    2 of the second. Nothing is computed before rows are read.
    """
    first_part, *_ = parts  # All have its shape and dtype.

    def fill(start: int, out: Array) -> None:
        """Write the rows start, start + 1, … of the joined table into `out`."""
        stop = start + len(out)
        for number, part in enumerate(parts):
            part_start = number * part.rows
            part_stop = part_start + part.rows
            rows_of_part = range(max(start, part_start), min(stop, part_stop))
            if rows_of_part:
                target = out[rows_of_part.start - start : rows_of_part.stop - start]
                part.fill(rows_of_part.start - part_start, target)

    return Table(name, first_part.dtype, (len(parts), *first_part.shape), fill)


@dataclass(frozen=True, eq=False, repr=False)
class ByPosition:
    """A table with one row per position, whose columns belong to frequencies or heads.

    Attributes:
        first: The position of the first row.
        count: The number of rows.
        kind: "frequencies", "slopes" or "columns".
        values: The frequencies or slopes, or the indices of the columns.
        groups: The index into `values` of each column.
        read: `read(start, stop)` returns rows.
    """

    first: int
    count: int
    kind: str
    values: list[float]
    groups: Indices
    read: Callable[[int, int], Array]


Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_THREADS = 4
"""Threads that work at once: more mostly wait for the interpreter (16 take as long as one)."""
MAX_THREADS_OF_SHORT_STEPS = 2
"""Threads that work at once on steps of some microseconds, each of which needs the interpreter: on 16
cores, four took 1.8 times as long as two to make a table of float64 numbers.
"""
_HUGE_PAGE = 1 << 21
_TOUCHED_BYTES = 1 << 10
"""Bytes of a page that are written first: NumPy keeps the interpreter for fewer than 500."""


def thread_count() -> int:
    """Return how many threads fill tables, at most MAX_THREADS.

    That is PECLI_THREADS if the environment has a positive number of up to 8 digits there, otherwise
    the number of cores.
    """
    setting = os.environ.get("PECLI_THREADS", "")
    is_positive_number = re.fullmatch("0*[1-9][0-9]{0,7}", setting)
    if is_positive_number:
        return min(int(setting), MAX_THREADS)
    return min(_available_cores(), MAX_THREADS)


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def results_in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield work(item) for every item, in order; the next few are computed in threads.

    Items are taken in the caller's thread.
    """
    every_item, are_several = _items_and_whether_several(items)
    has_work_for_threads = are_several and thread_count() > 1
    if has_work_for_threads:
        yield from _results_of_threads(work, every_item)
    else:
        yield from map(work, every_item)


def _items_and_whether_several(items: Iterable[Item]) -> tuple[Iterator[Item], bool]:
    """Return all items, and True if there are two or more; only two are taken to find that out."""
    rest = iter(items)
    first_two = list(islice(rest, 2))
    return chain(first_two, rest), len(first_two) == 2


def _results_of_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield work(item) for every item, in order, while threads work on the next ones.

    With 4 threads, at most 5 items wait for the caller: results may be large.
    """
    from pecli.engine.thread_pool import ThreadPool  # concurrent.futures takes 5 ms to import.

    pending: deque[Future[Result]] = deque()
    pool = ThreadPool(thread_count())
    try:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) > thread_count() + 1:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        _shut_down(pool)


def _shut_down(pool: "ThreadPoolExecutor") -> None:
    """End a pool of threads, and wait for them unless the program is being interrupted.

    A KeyboardInterrupt may leave a lock behind, on which a thread would wait for ever.
    """
    problem = sys.exception()
    is_interrupt = problem is not None and not isinstance(problem, (Exception, GeneratorExit))
    pool.shutdown(wait=not is_interrupt, cancel_futures=True)


def new_array(shape: Sequence[int], dtype: "DTypeLike") -> AnyArray:
    """Return an uninitialised array that threads may fill in any order.

    The system clears memory when it is first written to, 2 MiB at a time if the memory is in huge
    pages. Two threads that write to different rows of a page at that moment would clear it twice,
    so each page is written to by one thread first.
    """
    array = np.empty(shape, dtype)
    if array.nbytes >= 2 * _HUGE_PAGE:
        every_byte = array.reshape(-1).view(np.uint8)

        def touch(start: int) -> None:
            every_byte[start : start + _TOUCHED_BYTES] = 0

        work_through(touch, range(0, array.nbytes, _HUGE_PAGE))
    return array


class _SharedItems(Iterator[Item]):
    """Items that several threads take, one after the other."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = iter(items)
        self._lock = Lock()  # Only one thread at a time may run a generator.

    def __next__(self) -> Item:
        with self._lock:
            return next(self._items)

    def stop(self) -> None:
        """Let no thread take another item. The lock is not needed, and may never be released."""
        self._items = iter(())


class _Crew:
    """Threads that share work: the caller's, and helpers, each of which starts the next one.

    It is an object, and not a function that submits itself: such a function is a reference cycle,
    which would keep the arrays that it fills until Python collects garbage.
    """

    def __init__(
        self,
        work: Callable[[Item], object],
        items: _SharedItems[Item],
        pool: "ThreadPoolExecutor",
        max_helpers: int,
    ) -> None:
        """Prepare the work; nothing is done, and no helper started, before `work_on`."""
        self._pool = pool
        self._helpers: list[Future[None]] = []
        self._work = work
        self._items = items
        # A number for each helper that may still be started; threads take one without a lock.
        self._vacancies = iter(range(max_helpers))

    def work_on(self) -> None:
        """Work until no item is left; with each item, start a helper until there are enough."""
        try:
            for item in self._items:
                has_vacancy = next(self._vacancies, None) is not None
                if has_vacancy:
                    self._helpers.append(self._pool.submit(self.work_on))
                self._work(item)
        finally:
            self._items.stop()  # After an error, the other threads end as well.

    def wait_for_helpers(self) -> None:
        """Wait until all helpers have ended, and raise the error of the first that failed.

        The list of helpers may grow meanwhile. A helper adds those that it starts before it ends, so
        that the loop reaches all of them.
        """
        for helper in self._helpers:
            helper.result()

    def disband(self) -> None:
        """Let no thread take another item, and end the helpers, also after an error."""
        self._items.stop()
        _shut_down(self._pool)


def work_through(
    work: Callable[[Item], object], items: Iterable[Item], max_threads: int = MAX_THREADS
) -> None:
    """Call work(item) for every item, in at most `max_threads` threads, for its side effects.

    The caller's thread does a share of the work. If it waited for the others, it would wake up for
    every item, and each time a working thread would have to wait for the interpreter.
    """
    every_item, are_several = _items_and_whether_several(items)
    max_helpers = min(thread_count(), max_threads) - 1  # threads beside the caller's
    has_work_for_helpers = are_several and max_helpers > 0
    if has_work_for_helpers:
        _work_in_threads(work, _SharedItems(every_item), max_helpers)
        return
    for item in every_item:
        work(item)


def _work_in_threads(
    work: Callable[[Item], object], items: _SharedItems[Item], max_helpers: int
) -> None:
    """Call work(item) for every item, in this thread and at most `max_helpers` others.

    Starting a thread takes some 60 microseconds, so this one does not start all others first. It
    takes an item, starts one helper, and works; each helper does the same. No more threads are
    started than there are items.
    """
    from pecli.engine.thread_pool import ThreadPool  # concurrent.futures takes 5 ms to import.

    crew = _Crew(work, items, ThreadPool(max_helpers), max_helpers)
    try:
        with np.errstate(all="ignore"):  # NumPy warns of no overflow in the helpers either.
            crew.work_on()
        crew.wait_for_helpers()
    finally:
        crew.disband()
