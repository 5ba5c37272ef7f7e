"""A Table is a tensor that can be made whole, in blocks of rows or row by row, by one thread or
many, with the same bytes.

Expected bytes are those of the whole table made at once by one thread. PECLI_THREADS sets the
number of threads.
"""

import gc
import itertools
import os
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pecli.engine import table as table_module
from pecli.engine.arrays import Array
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import Table, results_in_order, table_of, thread_count, work_through
from tests.engine import strategies
from tests.oracle import DTYPES

LARGE_TABLES = [
    Sinusoidal(3000, 130, offset=17),
    Sinusoidal(1500, 63, style="fairseq", dtype="bfloat16"),
    Sinusoidal(700, 64, dtype="float64", amplitude=0.3),
    Rope(2500, 64, layout="halves", dtype="float16"),
    Alibi(5, 150, form="causal"),
    LearnedInit(900, 33),
]


def bytes_of_blocks(blocks: Iterator[Array]) -> bytes:
    return b"".join(block.tobytes() for block in blocks)


@pytest.mark.parametrize(
    "way", [{"recipe": "bfloat16-phases"}, {"runtime": "llama.cpp"}, {"runtime": "mlx-lm"}, {}]
)
@pytest.mark.parametrize("layout", ["compact", "halves", "interleaved"])
def test_rows_of_a_table_may_be_picked_in_any_order(layout: str, way: dict[str, str]) -> None:
    """`pick` computes single rows without the whole table; they must be the rows of the table, also if
    it is computed by a recipe or as a runtime does. An empty range of rows is an empty array.
    """
    offset = 0 if "runtime" in way else 5
    rope = Rope(
        300, 16, partial_rotary_factor=0.5, offset=offset, layout=layout, dtype="float16", **way
    )
    rows = np.array([299, 3, 4, 5, 0, 3, 128])

    for table in rope.tensors()[:2]:
        assert table.read(9, 9).size == 0
        assert np.array_equal(table.pick(rows), table.array()[rows])


@pytest.mark.parametrize("startable", [0, 1, 3])
def test_work_goes_on_with_the_threads_that_could_be_started(
    monkeypatch: pytest.MonkeyPatch, startable: int
) -> None:
    """A limit on processes makes Thread.start raise RuntimeError after `startable` of 8 threads.
    `results_in_order` goes on with those, and with none in the thread of the caller: all 50 squares
    come in order.
    """
    monkeypatch.setenv("PECLI_THREADS", "8")
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def start_some(thread: threading.Thread) -> None:
        if len(started) == startable:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    squares = list(results_in_order(lambda number: number**2, range(50)))

    assert squares == [number**2 for number in range(50)]
    assert len(started) == startable


def test_an_error_is_raised_even_if_no_thread_could_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """8 threads are requested, but none can be started: the caller does the work itself, and its 1
    // 0 must be raised.
    """
    monkeypatch.setenv("PECLI_THREADS", "8")

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)

    with pytest.raises(ZeroDivisionError):
        work_through(lambda number: 1 // number, [2, 1, 0])


@given(strategies.schemes(), st.integers(1, 70), st.sampled_from(["1", "8"]), st.data())
def test_blocks_ranges_of_rows_and_threads_change_no_byte_of_any_table(
    monkeypatch: pytest.MonkeyPatch,
    scheme: Scheme,
    rows: int,
    threads: str,
    data: st.DataObject,
) -> None:
    """Tables of random schemes are made at once, in blocks of random sizes, and in ranges of rows from
    the last to the first, by one or 8 threads: the bytes must be the same.
    """
    for table in (*scheme.tensors(), scheme.single_array()):
        whole = table.array().tobytes()
        monkeypatch.setenv("PECLI_THREADS", threads)
        assert table.array().tobytes() == whole
        assert bytes_of_blocks(table.blocks(rows)) == whole
        width = len(whole) // table.rows
        cuts = sorted(data.draw(st.sets(st.integers(0, table.rows), max_size=5)) | {0, table.rows})
        for start, stop in reversed(list(itertools.pairwise(cuts))):
            assert table.read(start, stop).tobytes() == whole[start * width : stop * width]


@pytest.mark.parametrize("scheme", LARGE_TABLES, ids=lambda scheme: f"{scheme.name}-{scheme.dtype}")
@pytest.mark.sample(3)
def test_threads_and_blocks_change_no_byte_of_tables_of_several_blocks(
    monkeypatch: pytest.MonkeyPatch, scheme: Scheme
) -> None:
    """Blocks have 64 KiB here instead of their usual size, so that these tables have several, which
    threads compute at the same time. The bytes must be those that one thread makes.
    """
    monkeypatch.setattr(table_module, "BLOCK_BYTES", 1 << 16)
    table = scheme.tensors()[0]
    monkeypatch.setenv("PECLI_THREADS", "1")
    by_one_thread = table.array().tobytes()
    monkeypatch.setenv("PECLI_THREADS", "8")

    assert table.array().tobytes() == by_one_thread
    for rows in (None, 1 + table.rows // 37, table.rows, 10 * table.rows):
        assert bytes_of_blocks(table.blocks(rows)) == by_one_thread
    assert scheme.tables()[table.name].tobytes() == by_one_thread


@pytest.mark.parametrize(
    ("threads", "starts_threads"),
    [
        pytest.param("1", False, id="one thread, the caller's"),
        pytest.param("8", True, id="several threads"),
    ],
)
def test_closing_the_blocks_of_a_table_ends_the_threads_that_make_them(
    monkeypatch: pytest.MonkeyPatch, threads: str, starts_threads: bool
) -> None:
    """A table of 2^40 rows, which could never be made as a whole, is read in blocks of 16 rows. The
    reader takes one block, and closes the generator.
    """
    monkeypatch.setenv("PECLI_THREADS", threads)
    before = threading.active_count()
    blocks = Sinusoidal(2**40, 64).blocks(rows=16)

    assert next(blocks).shape == (16, 64)
    assert (threading.active_count() > before) == starts_threads

    blocks.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "rows", "width"),
    [
        pytest.param((7,), 7, 1, id="a vector"),
        pytest.param((3, 5), 3, 5, id="a matrix"),
        pytest.param((2, 3, 5), 6, 5, id="three axes"),
        pytest.param((4, 1, 9), 4, 9, id="an axis of length 1"),
    ],
)
def test_an_array_is_a_table_of_rows_along_its_last_axis(
    dtype: str, shape: tuple[int, ...], rows: int, width: int
) -> None:
    """(2, 3, 5) is 6 rows of 5 elements; the expected bytes are NumPy's."""
    array = np.arange(np.prod(shape)).reshape(shape).astype(DTYPES[dtype])
    table = table_of("t", array)

    assert table.dtype == dtype
    assert table.shape == shape
    assert table.rows == rows
    assert table.width == width
    assert table.size == array.size
    assert table.nbytes == array.nbytes
    np.testing.assert_array_equal(table.array(), array)
    assert bytes_of_blocks(table.blocks(2)) == array.tobytes()


class CountedTable:
    """A table of 10 rows that records the runs in which its rows are read."""

    def __init__(self) -> None:
        self.array = np.arange(40).reshape(10, 4)
        self.runs: list[tuple[int, int]] = []
        self._whole = table_of("t", self.array)
        self.table: Table = replace(self._whole, fill=self._fill)

    def _fill(self, start: int, out: Array) -> None:
        self.runs.append((start, len(out)))
        self._whole.fill(start, out)


@pytest.mark.parametrize("rows", [[], [3], [0, 1, 2, 7, 8, 3, 3, 4], [9, 8, 7]])
def test_picked_rows_come_in_the_order_of_their_indices(rows: list[int]) -> None:
    """NumPy's indexing gives the expected rows; one may be picked twice."""
    counted = CountedTable()
    picked = counted.table.pick(np.array(rows, np.intp))

    np.testing.assert_array_equal(picked, counted.array[rows])


def test_consecutive_rows_that_are_picked_are_read_in_one_run() -> None:
    """`CountedTable` records its reads as (first row, number of rows). The rows are picked in four
    runs: 0 to 2, 7 and 8, 3, and 3 and 4.
    """
    counted = CountedTable()
    counted.table.pick(np.array([0, 1, 2, 7, 8, 3, 3, 4], np.intp))

    assert counted.runs == [(0, 3), (7, 2), (3, 1), (3, 2)]


@pytest.mark.parametrize(
    ("setting", "threads"),
    [
        pytest.param("1", 1, id="one"),
        pytest.param("3", 3, id="three"),
        pytest.param("8", 4, id="more than four"),
        pytest.param("99999999", 4, id="eight digits"),
    ],
)
def test_pecli_threads_sets_the_number_of_threads_up_to_four(
    monkeypatch: pytest.MonkeyPatch, setting: str, threads: int
) -> None:
    """PECLI_THREADS is an environment variable; more than four threads would wait for each other."""
    monkeypatch.setenv("PECLI_THREADS", setting)
    assert thread_count() == threads


@pytest.mark.parametrize("setting", ["", "0", "-1", "many", "1.5", "²", "9" * 9, None])
def test_without_a_usable_pecli_threads_there_is_a_thread_per_core(
    monkeypatch: pytest.MonkeyPatch, setting: str | None
) -> None:
    """PECLI_THREADS is missing (None) or no positive number of usual length. The process may use the
    cores 0, 2 and 5, which makes three threads.
    """
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    monkeypatch.delenv("PECLI_THREADS", raising=False)
    if setting is not None:
        monkeypatch.setenv("PECLI_THREADS", setting)

    assert thread_count() == 3


@pytest.mark.parametrize(
    ("cores", "threads"),
    [
        pytest.param(2, 2, id="two cores"),
        pytest.param(None, 1, id="an unknown number"),
        pytest.param(100, 4, id="more than four"),
    ],
)
def test_without_affinity_there_is_a_thread_per_core_up_to_four(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, threads: int
) -> None:
    """Systems without sched_getaffinity, such as macOS, do not state which cores the process may use;
    os.cpu_count counts all, or returns None.
    """
    monkeypatch.delenv("PECLI_THREADS", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)

    assert thread_count() == threads


def test_work_is_shared_by_as_many_threads_as_the_setting_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of three items waits for the two others, which takes three threads."""
    monkeypatch.setenv("PECLI_THREADS", "3")
    together = threading.Barrier(3, timeout=10)
    work_through(lambda item: together.wait(), range(3))

    assert not together.broken


@pytest.mark.parametrize("most", [1, 2])
def test_work_is_shared_by_at_most_as_many_threads_as_the_caller_allows(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """The setting allows three threads, and the caller `most`. Items that wait a little make all
    threads take some of them.
    """
    monkeypatch.setenv("PECLI_THREADS", "3")
    threads: set[int] = set()

    def work(item: int) -> None:
        threads.add(threading.get_ident())
        time.sleep(0.001)

    work_through(work, range(12), max_threads=most)

    assert len(threads) == most


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("count", [0, 1, 2, 500])
def test_every_item_is_worked_on_once_and_taken_in_order(
    monkeypatch: pytest.MonkeyPatch, threads: str, count: int
) -> None:
    """`work_through` calls a function for each item of an iterator. Items are taken in order; with
    several threads they may be finished in another order.
    """
    monkeypatch.setenv("PECLI_THREADS", threads)
    taken: list[int] = []
    done: list[int] = []

    def items() -> Iterator[int]:
        for item in range(count):
            taken.append(item)
            yield item

    work_through(done.append, items())

    assert taken == list(range(count))
    assert sorted(done) == list(range(count))


def test_threads_work_ahead_of_the_result_that_is_used_but_not_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There are 3 threads and 500 items. When the first result comes, item 0 was taken for it and at
    least one for each thread, and at most two for each: all results would fill the memory.
    """
    monkeypatch.setenv("PECLI_THREADS", "3")
    items = iter(range(500))
    results = results_in_order(lambda item: item, items)
    next(results)
    taken = next(items)
    results.close()

    assert 1 + 3 <= taken <= 1 + 2 * 3


@pytest.mark.parametrize("threads", ["1", "3"])
def test_work_that_is_done_is_freed_without_the_garbage_collector(
    monkeypatch: pytest.MonkeyPatch, threads: str
) -> None:
    """The work of a table holds the whole table, of which several would fill the memory."""

    class Work:
        def __call__(self, item: int) -> None:
            pass

    monkeypatch.setenv("PECLI_THREADS", threads)
    work = Work()
    reference = weakref.ref(work)
    gc.disable()
    try:
        work_through(work, range(10))
        del work
        assert reference() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("threads", ["1", "3"])
def test_an_error_ends_the_work_of_all_threads(
    monkeypatch: pytest.MonkeyPatch, threads: str
) -> None:
    """Item 5 divides by zero; the other 10^9 items would take hours."""
    monkeypatch.setenv("PECLI_THREADS", threads)
    with pytest.raises(ZeroDivisionError):
        work_through(lambda item: 1 / (item - 5), iter(range(10**9)))


@pytest.mark.parametrize(
    ("problem", "waits"),
    [
        pytest.param(KeyboardInterrupt, False, id="Ctrl-C"),
        pytest.param(ValueError, True, id="another error"),
    ],
)
def test_an_interrupt_does_not_wait_for_threads(
    problem: type[BaseException], waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C returns at once, while a thread is still at work; after any other error the threads
    are waited for. The thread works until `may_end` is set, and then sets `ended`.
    """
    monkeypatch.setenv("PECLI_THREADS", "2")
    may_end = threading.Event()
    ended = threading.Event()

    def items() -> Iterator[int]:
        yield from (0, 1)
        if waits:
            may_end.set()
        raise problem

    def work(number: int) -> None:
        may_end.wait(60)
        ended.set()

    with pytest.raises(problem):
        list(results_in_order(work, items()))
    assert ended.is_set() == waits

    may_end.set()


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_one_item_waits_beside_those_that_threads_work_on(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the first result comes, one item was taken for it, one for each thread, and one more, with
    which the first thread that ends its work goes on.
    """
    monkeypatch.setenv("PECLI_THREADS", str(threads))
    items = iter(range(20))
    results = results_in_order(lambda item: item, items)

    assert next(results) == 0
    taken = next(items)  # Items are numbered from 0: the next one is the number of those taken.
    assert taken == 1 + threads + 1
    results.close()
