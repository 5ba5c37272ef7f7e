"""Whole or piece by piece, with one thread or many: the same bytes; what gives no numbers is refused in one line."""

import itertools
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pecli
from pecli.engine import table as table_module
from pecli.engine.arrays import CACHE_LINE, aligned_buffer, like, numbers
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import Table, results_in_order, table_of, thread_count, work_through
from pecli.errors import KindError
from tests.engine import strategies
from tests.oracle import DTYPES

LARGE = [
    Sinusoidal(3000, 130, offset=17),
    Sinusoidal(1500, 63, style="fairseq", dtype="bfloat16"),
    Sinusoidal(700, 64, dtype="float64", amplitude=0.3),
    Rope(2500, 64, layout="halves", dtype="float16"),
    Alibi(5, 150, form="causal"),
    LearnedInit(900, 33),
]


@pytest.mark.parametrize(
    "way", [{"recipe": "bfloat16-phases"}, {"runtime": "llama.cpp"}, {"runtime": "mlx-lm"}, {}]
)
@pytest.mark.parametrize("layout", ["compact", "halves", "interleaved"])
def test_rows_in_any_order(layout: str, way: dict[str, str]) -> None:
    offset = 0 if "runtime" in way else 5
    rope = Rope(
        300, 16, partial_rotary_factor=0.5, offset=offset, layout=layout, dtype="float16", **way
    )
    rows = np.array([299, 3, 4, 5, 0, 3, 128])
    for table in rope.tensors()[:2]:
        assert table.read(9, 9).size == 0
        assert np.array_equal(table.pick(rows), table.array()[rows])


def tables_of(scheme) -> list[Table]:
    return [*scheme.tensors(), scheme.single_array()]


@given(strategies.schemes(), st.integers(1, 70), st.sampled_from(["1", "8"]), st.data())
def test_any_split_in_any_order_with_any_threads_gives_the_same_bytes(
    monkeypatch, scheme, rows, threads, data
):
    for table in tables_of(scheme):
        whole = table.array().tobytes()
        width = len(whole) // table.rows
        monkeypatch.setenv("PECLI_THREADS", threads)
        assert (
            b"".join(block.tobytes() for block in table.blocks(rows))
            == whole
            == table.array().tobytes()
        )
        cuts = sorted(data.draw(st.sets(st.integers(0, table.rows), max_size=5)) | {0, table.rows})
        for start, stop in [*itertools.pairwise(cuts)][::-1]:
            assert table.read(start, stop).tobytes() == whole[start * width : stop * width]


@pytest.mark.parametrize("scheme", LARGE, ids=lambda scheme: f"{scheme.name}-{scheme.dtype}")
def test_threads_and_blocks_of_larger_tables(monkeypatch, scheme):
    monkeypatch.setattr(
        table_module, "BLOCK_BYTES", 1 << 16
    )  # so that several threads have something to do
    table = scheme.tensors()[0]
    monkeypatch.setenv("PECLI_THREADS", "1")
    one = table.array().tobytes()
    monkeypatch.setenv("PECLI_THREADS", "8")
    assert table.array().tobytes() == one
    for rows in (None, 1 + table.rows // 37, table.rows, 10 * table.rows):
        assert b"".join(block.tobytes() for block in table.blocks(rows)) == one
    assert scheme.tables()[table.name].tobytes() == one


@pytest.mark.parametrize("threads", ["1", "8"])
def test_a_reader_that_stops_early_leaves_nothing_running(monkeypatch, threads):
    import threading

    monkeypatch.setenv("PECLI_THREADS", threads)
    before = threading.active_count()
    blocks = Sinusoidal(2**40, 64).blocks(rows=16)
    assert next(blocks).shape == (16, 64)
    assert (threading.active_count() > before) == (threads == "8")
    blocks.close()
    assert threading.active_count() == before


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "rows", "width"), [((7,), 7, 1), ((3, 5), 3, 5), ((2, 3, 5), 6, 5), ((4, 1, 9), 4, 9)]
)
def test_an_array_as_a_table(dtype, shape, rows, width):
    array = np.arange(np.prod(shape)).reshape(shape).astype(DTYPES[dtype])
    table = table_of("t", array)
    assert (table.dtype, table.shape, table.rows, table.width) == (dtype, shape, rows, width)
    assert (table.size, table.nbytes) == (array.size, array.nbytes)
    np.testing.assert_array_equal(table.array(), array)
    assert b"".join(block.tobytes() for block in table.blocks(2)) == array.tobytes()


@pytest.mark.parametrize("rows", [[], [3], [0, 1, 2, 7, 8, 3, 3, 4], [9, 8, 7]])
def test_picked_rows_are_read_in_runs(rows):
    array, asked = np.arange(40).reshape(10, 4), []
    whole = table_of("t", array)

    def fill(start, out):
        asked.append((start, len(out)))
        whole.fill(start, out)

    picked = replace(whole, fill=fill).pick(np.array(rows, np.intp))
    np.testing.assert_array_equal(picked, array[rows])
    if len(rows) > 4:
        assert asked == [(0, 3), (7, 2), (3, 1), (3, 2)]


def test_thread_count_is_what_was_wished_for_or_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 2, 5}, raising=False)
    wishes = {
        "1": 1,
        "8": 8,
        "99999999": 64,
        **dict.fromkeys(("", "0", "-1", "many", "1.5", "²", "9" * 9), 3),
    }
    for wish, threads in wishes.items():
        monkeypatch.setenv("PECLI_THREADS", wish)
        assert thread_count() == threads
    monkeypatch.delenv("PECLI_THREADS")
    assert thread_count() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    for cores, threads in ((2, 2), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        assert thread_count() == threads


@pytest.mark.parametrize("threads", ["1", "3"])
def test_every_item_is_worked_on_once_and_taken_in_order(monkeypatch, threads):
    monkeypatch.setenv("PECLI_THREADS", threads)
    for count in (0, 1, 2, 500):
        taken, done = [], []
        work_through(done.append, (taken.append(item) or item for item in range(count)))
        assert taken == sorted(done) == list(range(count))


@pytest.mark.parametrize("threads", ["1", "3"])
def test_an_error_ends_the_work_of_all_threads(monkeypatch, threads):
    monkeypatch.setenv("PECLI_THREADS", threads)
    with pytest.raises(ZeroDivisionError):
        work_through(lambda item: 1 / (item - 5), iter(range(10**9)))


def test_buffers_begin_at_a_cache_line():
    for count in (1, 7, 4096):
        for dtype in (np.float32, np.bool_, ml_dtypes.bfloat16):
            buffer = aligned_buffer(count, dtype)
            assert (buffer.size, buffer.dtype, buffer.ctypes.data % CACHE_LINE) == (
                count,
                np.dtype(dtype),
                0,
            )


class BrokenTensor:
    dtype = "float32"

    def detach(self):
        raise OSError("the device is gone")


class BrokenArray:
    def __array__(self, dtype=None, copy=None):
        raise ZeroDivisionError


def test_what_gives_no_numbers_is_refused():
    for values, who in (
        (BrokenTensor(), "a BrokenTensor of dtype float32"),
        (BrokenArray(), "a BrokenArray"),
    ):
        with pytest.raises(KindError, match=f"^pe is {who}; its values cannot be had"):
            numbers("pe", values)


class TensorOf(tuple):
    """What was asked of a tensor, in order."""

    device = "meta"

    def view(self, dtype):
        return TensorOf((*self, dtype))

    to = view


def test_arrays_come_back_as_those_of_the_library_that_they_came_from(monkeypatch):
    ours, of_torch = (
        np.ones(2, ml_dtypes.bfloat16),
        {"float32": "torch.float32", "bfloat16": "torch.bfloat16"},
    )
    of_torch |= {"Tensor": TensorOf, "from_numpy": lambda bits: TensorOf([bits.dtype.name])}
    of_mlx = {
        "bfloat16": ml_dtypes.bfloat16,
        "array": lambda array: np.array(array) * (array.dtype == np.float32),
    }
    for name, values in {"torch": of_torch, "jax": {"numpy": np.ma}, "mlx.core": of_mlx}.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**values))
    assert like(TensorOf(), ours) == ("int16", "torch.bfloat16", "meta")
    assert like(TensorOf(), ours.astype(np.float32)) == ("float32", "torch.float32", "meta")
    assert type(like(type("Array", (), {"__module__": "jaxlib.xla"})(), ours)) is np.ma.MaskedArray
    found = like(type("array", (), {"__module__": "mlx.core"})(), ours)
    assert (found.dtype, found.tolist(), like(ours, ours) is ours) == (
        ml_dtypes.bfloat16,
        [1, 1],
        True,
    )


def test_a_mask_that_hides_nothing_is_no_mask():
    table = np.ma.array([[1.0, 2.0]])
    assert type(numbers("pe", table)) is np.ndarray
    assert pecli.diff(table, np.array([[1.0, 2.0]]))


@pytest.mark.parametrize(("problem", "waits"), [(KeyboardInterrupt, False), (ValueError, True)])
def test_an_interrupt_waits_for_no_thread(
    problem: type[BaseException], waits: bool, monkeypatch
) -> None:
    monkeypatch.setenv("PECLI_THREADS", "2")
    going, ended = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield from (0, 1)
        if waits:
            going.set()
        raise problem

    def work(number: int) -> None:
        going.wait(60)
        ended.set()

    with pytest.raises(problem):
        list(results_in_order(work, items()))
    assert ended.is_set() == waits
    going.set()
