"""A tensor that is made whole or piece by piece, and the threads that make it: nothing needs all of it in memory."""

import math
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pecli.engine.arrays import Array, Indices, dtype_name, numpy_dtype

if TYPE_CHECKING:
    from concurrent.futures import Future


BLOCK_BYTES = 1 << 23
"""How much of a table is made at once: large enough to keep threads busy, small enough to hold several."""


@dataclass(frozen=True, eq=False)
class Table:
    """A tensor seen as rows: the last axis is a row, all axes before it are run through in order.

    `fill(start, out)` writes rows start, start + 1, … into the two-dimensional array `out`, of the table's dtype.
    It must give the same values however the rows are cut into blocks. A table that `gathers` takes the numbers of any
    rows in the place of `start`, too.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    fill: Callable[[Any, Array], None] = field(repr=False, compare=False)
    gathers: bool = field(default=False, repr=False)

    @property
    def width(self) -> int:
        """Elements in a row; a vector's rows are its elements."""
        return self.shape[-1] if len(self.shape) > 1 else 1

    @property
    def rows(self) -> int:
        return math.prod(self.shape[:-1]) if len(self.shape) > 1 else math.prod(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * numpy_dtype(self.dtype).itemsize

    def read(self, start: int, stop: int) -> Array:
        """Rows start … stop − 1, as a new (stop − start, width) array."""
        out = np.empty((stop - start, self.width), numpy_dtype(self.dtype))
        self.fill(start, out)
        return out

    def pick(self, rows: Indices) -> Array:
        """The rows of those numbers, in any order."""
        out = np.empty((len(rows), self.width), numpy_dtype(self.dtype))
        if self.gathers:
            self.fill(rows, out)
            return out
        for low, high in pairwise(
            [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
        ):
            if high > low:
                self.fill(int(rows[low]), out[low:high])
        return out

    def block_rows(self) -> int:
        return max(1, BLOCK_BYTES // max(1, self.width * numpy_dtype(self.dtype).itemsize))

    def blocks(self, rows: int | None = None) -> Iterator[Array]:
        """The whole table, some rows at a time, in order; the next blocks are made meanwhile, in threads."""
        step = rows or self.block_rows()
        starts = range(0, self.rows if self.size else 0, step)
        return results_in_order(
            lambda start: self.read(start, min(start + step, self.rows)), starts
        )

    def array(self) -> Array:
        out = np.empty((self.rows, self.width), numpy_dtype(self.dtype))
        step = max(self.block_rows(), -(-self.rows // (2 * thread_count())))
        starts = range(0, self.rows if self.size else 0, step)
        work_through(lambda start: self.fill(start, out[start : start + step]), starts)
        return out.reshape(self.shape)


def table_of(name: str, array: Array) -> Table:
    """An array as a table."""
    table = Table(name, dtype_name(array.dtype), array.shape, lambda start, out: None)
    rows = array.reshape(table.rows, table.width)

    def fill(start: int, out: Array) -> None:
        out[...] = rows[start : start + len(out)]

    return replace(table, fill=fill)


def raw_bytes(block: Array) -> memoryview:
    """A block's elements as they lie in a file: little-endian, in C order, not copied if they are so already."""
    return np.ascontiguousarray(block).reshape(-1).view(np.uint8).data


def stacked(name: str, parts: Sequence[Table]) -> Table:
    """Tables of one shape and dtype, one after the other along a new first axis."""
    first = parts[0]

    def fill(start: int, out: Array) -> None:
        for k, part in enumerate(parts):
            begin, end = max(start, k * part.rows), min(start + len(out), (k + 1) * part.rows)
            if begin < end:
                part.fill(begin - k * part.rows, out[begin - start : end - start])

    return Table(name, first.dtype, (len(parts), *first.shape), fill)


@dataclass(frozen=True, eq=False, repr=False)
class ByPosition:
    """`read(start, stop)` gives rows, from the position `first` on; a column belongs to a frequency, or to a head."""

    first: int
    count: int
    kind: str  #: what the columns go by: frequencies, slopes or columns
    values: list[float]  #: those frequencies or slopes, or the numbers of the columns
    groups: Indices  #: which of them each column belongs to
    read: Callable[[int, int], Array]


Item = TypeVar("Item")
Result = TypeVar("Result")

DEFAULT_MAX_THREADS = 4
"""Threads used without being asked: more of them mostly wait for the interpreter (16 take as long as one)."""
MAX_THREADS = 64


def thread_count() -> int:
    """How many threads fill tables: the environment's PECLI_THREADS, or the cores, up to DEFAULT_MAX_THREADS."""
    wish = os.environ.get("PECLI_THREADS", "")
    if wish.isascii() and wish.isdigit() and len(wish) < 9 and int(wish) > 0:
        return min(int(wish), MAX_THREADS)
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return min(cores, DEFAULT_MAX_THREADS)


def results_in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """What `work` makes of each item, in order; the next few are made meanwhile, in threads. Items are taken here."""
    rest = iter(items)
    first = list(islice(rest, 2))
    if len(first) < 2 or thread_count() < 2:
        yield from map(work, chain(first, rest))
        return
    from concurrent.futures import ThreadPoolExecutor  # takes 5 ms to import

    ahead: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(thread_count())
    try:
        for item in chain(first, rest):
            ahead.append(pool.submit(work, item))
            if len(ahead) > thread_count() + 1:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:  # an interrupt may leave a lock behind, for which nobody should wait
        problem = sys.exception()
        pool.shutdown(
            wait=problem is None or isinstance(problem, (Exception, GeneratorExit)),
            cancel_futures=True,
        )


def work_through(work: Callable[[Item], object], items: Iterable[Item]) -> None:
    """Do the work on every item, in threads, for what it does and not for what it returns."""
    deque(results_in_order(work, items), maxlen=0)
