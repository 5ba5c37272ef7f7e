"""Comparisons in child processes: the same results, failures noticed, no process left behind.

Only a process without other threads forks, and that of the tests may have some: each test starts its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.checks.compare import Comparison, compare
from pecli.engine.table import table_of

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="only Linux reports a process's threads")

START = """
import os, signal, time
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "PECLI_THREADS": "3"}
from pecli.checks.compare.forked import may_fork, work_in_processes
"""


def run(code: str, *words: str | Path) -> str:
    command = [sys.executable, "-X", "faulthandler", "-W", "error", "-c", START + code, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.stdout


def changed(table: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Stretches of rows that are equal, off by a few units, noisy, sparsely changed, negated, and not finite."""
    found = table.copy()
    found[50:100] = (table[50:100].view(np.int32) + draw.integers(-2, 3, table[50:100].shape, np.int32)).view("f4")
    found[100:150] *= 1 + np.float32(1e-4) * draw.standard_normal(table[100:150].shape, np.float32)
    found[draw.integers(150, 200, 20), draw.integers(0, 512, 20)] += np.float32(draw.choice([1e-3, 10]))
    found[200:220, ::3] *= -1
    found[220:250, ::99] = draw.choice(np.array([np.nan, np.inf, 0, 1e-42], "f4"), (30, 6))
    return found


def by_definition(expected: np.ndarray, found: np.ndarray, tolerance: pecli.Tolerance) -> Comparison:
    """The errors of float32 tables, from arrays of all elements."""
    a, b = expected.astype(np.float64).reshape(-1), found.astype(np.float64).reshape(-1)
    bits = [side.view(np.int32).reshape(-1).astype(np.int64) for side in (expected, found)]
    ordinals = [np.where(each < 0, -(each + 2**31), each) for each in bits]
    alike = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.where(alike, 0, np.abs(a - b))
        error[np.isnan(error)] = np.inf
        ulps = np.where(alike, 0, np.abs(ordinals[0] - ordinals[1]))
        ratios = error / np.abs(a)
        off = ~alike & ~(np.isfinite(error) & (error <= tolerance.atol + tolerance.rtol * np.abs(a)))
    off &= (ulps > tolerance.max_ulp) | np.isnan(a) | np.isnan(b)
    worst, first = (tuple(map(int, np.unravel_index(each.argmax(), expected.shape))) for each in (error, off))
    return Comparison(
        *("array", expected.shape, expected.size, "float32", "float32", int(np.count_nonzero(off)), float(error.max())),
        *(float(np.float32(ratios[np.isfinite(ratios)].max())), int(ulps.max()), int(ulps[error.argmax()])),
        *(worst, first if off.any() else None, float(expected[worst]), float(found[worst])),
        *(int(np.count_nonzero(~alike & ~np.isfinite(side))) for side in (a, b)),
    )


COMPARE = """
import sys
import pecli
from pecli.checks import compare
compare.MIN_SHARE, compare.READ_BYTES, compare.PIECE_BYTES = 1, 1 << 15, 1 << 13
fork, forks = os.fork, []
os.fork = lambda: forks.append(fork()) or forks[-1]
for a, b in zip(sys.argv[1::2], sys.argv[2::2]):
    print(pecli.diff(a, b, pecli.Tolerance(1, 1e-4, 1e-6)).tensors[0])
print(len(forks))
"""


def test_results_are_those_of_all_elements_at_once(tmp_path: Path) -> None:
    tolerance, draw = pecli.Tolerance(1, 1e-4, 1e-6), np.random.default_rng(5)
    paths, wanted = [], []

    def keep(expected: np.ndarray, found: np.ndarray, result: Comparison) -> None:
        for array in (expected, found):
            paths.append(tmp_path / f"{len(paths)}.npy")
            np.save(paths[-1], array)
        wanted.append(result)

    for _ in range(4):
        table = draw.standard_normal((300, 512), dtype=np.float32)
        found = changed(table, draw)
        keep(table, found, by_definition(table, found, tolerance))
    for dtype in (np.float64, np.float16, np.int32, np.bool_):
        pair = [np.nan_to_num(side, posinf=9).astype(dtype) for side in (table, found)]
        keep(*pair, compare(*(table_of("array", side) for side in pair), tolerance))
    keep(table.astype(">f4"), found, wanted[3])  # bytes in the other order must be read
    *told, forks = run(COMPARE, *paths).splitlines()
    assert told == list(map(str, wanted))
    assert int(forks) == 3 * len(wanted)


@pytest.mark.parametrize("late", [False, True])
def test_a_file_that_is_cut_short_is_an_error(tmp_path: Path, late: bool) -> None:
    """Before it is read, or while it is mapped: then the system kills the child."""
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for path in paths:
        np.save(path, np.ones((900, 1024), np.float32))
    code = f"""
import sys
from pecli.checks import compare
from pecli.errors import FileError
from pecli.files import open_tensors
compare.MIN_SHARE = 1
wait, ends, measure = os.waitpid, set(), compare.ErrorMeter.measure
def waitpid(*words):
    done = wait(*words)
    ends.add(done[1])
    return done
def cut(*words):
    os.truncate(sys.argv[2], 30_000)
    measure(*words)
os.waitpid = waitpid
with open_tensors(sys.argv[1]) as a, open_tensors(sys.argv[2]) as b:
    if {late}:
        compare.ErrorMeter.measure = cut
    else:
        os.truncate(sys.argv[2], 30_000)
    try:
        compare.compare(a.tables[0], b.tables[0])
    except FileError as error:
        print(error, signal.SIGBUS in ends)
"""
    assert run(code, *paths) == f"{paths[1]}: changed while it was read: bytes are missing now {late}\n"


def test_a_child_that_fails_is_noticed_and_none_is_left() -> None:
    code = """
def fail(how):
    def work(item):
        if item == 3:
            how()
    return work
mine = []
print(may_fork(), sorted(sum(work_in_processes(mine.append, range(8), lambda: list(mine), 3), [])), mine)
for how in (lambda: 1 // 0, lambda: os.kill(os.getpid(), 9), lambda: os._exit(0)):
    print(work_in_processes(fail(how), range(8), os.getpid, 2))
def no_room():
    raise BlockingIOError(11, "Resource temporarily unavailable")
fork, os.fork = os.fork, no_room
print(work_in_processes(fail(print), range(8), os.getpid, 2))
def interrupted():
    child = fork()
    if not child:
        os.kill(os.getpid(), signal.SIGINT)
    return child
os.fork = interrupted  # a child does not go on as its parent would
print(len(work_in_processes(mine.append, range(8), os.getpid, 2)), len(os.listdir("/proc/self/fd")))
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("none left")
"""
    assert run(code) == f"True {list(range(8))} []\nNone\nNone\nNone\nNone\n2 4\nnone left\n"


def test_an_interrupt_ends_the_children() -> None:
    code = """
start = time.monotonic()
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    work_in_processes(lambda item: time.sleep(30), range(9), os.getpid, 3)
except KeyboardInterrupt:
    print(time.monotonic() - start < 20)
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("none left")
"""
    assert run(code) == "True\nnone left\n"


def test_children_end_with_their_parent() -> None:
    code = """
def work(item):
    if item == 0:
        os.write(1, b"here\\n")
    time.sleep(0.05)
work_in_processes(work, range(10_000), os.getpid, 2)
"""
    with subprocess.Popen([sys.executable, "-c", START + code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGKILL)
        assert process.communicate(timeout=20)[0] == b""  # the pipe is closed when no process has it open


def test_a_process_that_has_threads_or_cannot_wait_does_not_fork() -> None:
    code = """
import threading
done = threading.Event()
thread = threading.Thread(target=done.wait)
thread.start()
print(may_fork())
done.set()
thread.join()
deadline = time.monotonic() + 20
while not may_fork() and time.monotonic() < deadline:  # the system forgets a thread a little later than Python
    time.sleep(0.001)
for action in (signal.SIG_IGN, lambda *_: None, signal.SIG_DFL):
    signal.signal(signal.SIGCHLD, action)
    print(may_fork())
"""
    assert run(code) == "False\nFalse\nFalse\nTrue\n"
