"""Work shared with copies of the process: each place once, failures told, nothing left behind.

A process that forks must have no other thread, which that of the tests may have: each test is a process of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pecli.checks.compare.fork_pool import may_fork

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="only Linux tells a process its threads")

START = "import os; os.environ['OPENBLAS_NUM_THREADS'] = '1'\n"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", START + code], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.stdout


def test_every_place_is_worked_at_once() -> None:
    code = """
from pecli.checks.compare.fork_pool import may_fork, shared_out
assert may_fork()
mine = []
for places in (range(5), range(0, 30000, 3)):
    mine.clear()
    told = shared_out(mine.append, places, lambda: list(mine), 3)
    print(len(told), sorted(sum(told, [])) == list(places), mine)
"""
    assert run(code) == "3 True []\n3 True []\n"


@pytest.mark.parametrize("end", ["raise OSError('gone')", "os.kill(os.getpid(), 9)", "os._exit(0)"])
def test_a_copy_that_fails_is_told(end: str) -> None:
    code = f"""
import time
from pecli.checks.compare.fork_pool import shared_out
def work(place):
    if place == 3:
        {end}
    time.sleep(0.05)
print(shared_out(work, range(9), os.getpid, 2))
"""
    assert run(code) == "None\n"


def test_an_interrupt_ends_the_copies() -> None:
    code = """
import signal, time
from pecli.checks.compare.fork_pool import shared_out
start = time.monotonic()
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    shared_out(lambda place: time.sleep(30), range(9), os.getpid, 3)
except KeyboardInterrupt:
    print(time.monotonic() - start < 20)
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("none left")
"""
    assert run(code) == "True\nnone left\n"


def test_a_process_with_threads_is_not_copied() -> None:
    code = """
import threading, time
from pecli.checks.compare.fork_pool import may_fork
done = threading.Event()
thread = threading.Thread(target=done.wait)
thread.start()
print(may_fork())
done.set()
thread.join()
deadline = time.monotonic() + 20
while not may_fork() and time.monotonic() < deadline:  # the system lets go of a thread a little later than Python
    time.sleep(0.001)
print(may_fork())
"""
    assert run(code) == "False\nTrue\n"
    assert may_fork() in (True, False)


def test_where_the_end_of_a_process_is_ignored_none_is_copied() -> None:
    code = """
import signal
from pecli.checks.compare.fork_pool import may_fork
for action in (signal.SIG_IGN, lambda *_: None, signal.SIG_DFL):
    signal.signal(signal.SIGCHLD, action)
    print(may_fork())
"""
    assert run(code) == "False\nFalse\nTrue\n"


def test_a_copy_that_is_interrupted_at_once_does_nothing_else() -> None:
    code = """
import signal
from pecli.checks.compare.fork_pool import shared_out
fork = os.fork
def interrupted():
    process = fork()
    if not process:
        os.kill(os.getpid(), signal.SIGINT)
    return process
os.fork = interrupted
try:
    print(shared_out(lambda place: None, range(9), os.getpid, 2), flush=True)
finally:
    print("the first process", flush=True)
"""
    assert run(code) == "None\nthe first process\n"


COMPARE = """
import numpy as np, pecli
from pecli.checks.compare import fork_pool
fork_pool.WORTH_IT = {least}
print(pecli.diff({a!r}, {b!r}, pecli.Tolerance(atol=1e-4)).tensors)
"""


def test_the_result_is_the_same_with_copies_and_without(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    table = draw.standard_normal((9000, 1024), dtype=np.float32)
    np.save(tmp_path / "a.npy", table)
    table[100:3000] += np.float32(1e-4) * draw.standard_normal((2900, 1024), dtype=np.float32)
    table[8000, 7], table[5000, 1] = np.inf, -3
    np.save(tmp_path / "b.npy", table)
    a, b = str(tmp_path / "a.npy"), str(tmp_path / "b.npy")
    told = [run(COMPARE.format(a=a, b=b, least=least)) for least in (0, 1 << 60)]
    assert told[0] == told[1]
    assert "worst_index=(8000, 7)" in told[0]


def test_a_file_that_shrinks_is_told(tmp_path: Path) -> None:
    """Before it is looked at, and while it is: then the system ends the process that looks."""
    paths = {name: str(tmp_path / f"{name}.npy") for name in "ab"}
    code = """
import pecli, pecli.checks.compare as compare_module
from pecli.checks.compare import compare
from pecli.checks.compare import fork_pool
from pecli.files import open_tensors
fork_pool.WORTH_IT = 0
with open_tensors({a!r}) as a, open_tensors({b!r}) as b:
    if {late}:
        measure = compare_module._Bench.measure
        def cut(self, *rest):
            os.truncate({b!r}, 30_000_000)
            measure(self, *rest)
        compare_module._Bench.measure = cut
    else:
        os.truncate({b!r}, 30_000_000)
    try:
        compare(a.tables[0], b.tables[0])
    except pecli.errors.FileError as error:
        print(error)
"""
    for late in (False, True):
        for path in paths.values():
            np.save(path, np.ones((9000, 1024), np.float32))
        assert "changed while it was read" in run(code.format(late=late, **paths))


def test_copies_end_with_the_command(tmp_path: Path) -> None:
    """A command that is killed outright leaves no process at work."""
    code = """
import time
from pecli.checks.compare.fork_pool import shared_out
print("here", flush=True)
shared_out(lambda place: time.sleep(0.05), range(1000), os.getpid, 2)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", START + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"here\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    out, err = process.communicate(timeout=20)  # the pipes close when the last process has them open no more
    assert (out, err) == (b"", b"")
