"""Fixtures of all tests: the command line in this process, and as a process of its own."""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

# Dozens of processes are started, each of which would compile the package again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Collected tests live to the end: collecting garbage among them would find none.
gc.disable()
# The matrices are small, and threads that wait for work take CPU time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Failed assertions in helpers show their values, as those in tests do.
pytest.register_assert_rewrite(
    "tests.checks.model_forms.mistakes",
    "tests.layers.formulas",
    "tests.models.facts",
    "tests.pixels",
)

from pecli.cli.app import run  # noqa: E402

SHORTEST_DURATION = 0.005  # seconds; pytest's `--durations` hides what is shorter

SAME_EXAMPLES = settings(
    deadline=None,
    derandomize=True,  # the same examples every time
    database=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.register_profile("pecli", SAME_EXAMPLES)
# It is chosen by `--hypothesis-profile thorough`.
settings.register_profile("thorough", SAME_EXAMPLES, max_examples=1000)
settings.load_profile("pecli")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run all tests of a module by one worker, so that fixtures of modules are made once."""
    from xdist.scheduler import LoadFileScheduling

    parsing_modules = dict.fromkeys(("tests/test_house.py", "tests/test_readability.py"), "syntax")

    class NumberedTests(list[str]):
        """The names of the tests that a worker collected, with the index of each at hand."""

        def __init__(self, names: Iterable[str]) -> None:
            super().__init__(names)
            self._indices = {name: index for index, name in enumerate(self)}

        def index(self, name: str, *limits: Any) -> int:
            return self._indices[name]

    class QuickScheduling(LoadFileScheduling):
        """It takes a time that grows with the number of tests, not with its square."""

        def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
            """Number the tests, each of which is searched for among all when it is assigned."""
            super().add_node_collection(node, collection)
            self.registered_collections[node] = NumberedTests(collection)

        def _split_scope(self, nodeid: str) -> str:
            """Give modules that parse the whole package to one worker, which parses it once."""
            module = super()._split_scope(nodeid)
            return parsing_modules.get(module, module)

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            """Forget modules that are done: every message counts the tests of the others."""
            super().mark_test_complete(node, item_index, duration)
            module = self._split_scope(self.registered_collections[node][item_index])
            modules = self.assigned_work[node]
            if all(modules[module].values()):
                del modules[module]

    return QuickScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Let a worker send one report about a test that passes, instead of five messages.

    Sending and receiving them takes a third of the time of a small test. Set-up and tear-down are
    reported if they fail, or take so long that `--durations` lists them. The last test of a worker
    sends everything, because the progress is complete when a test was reported as finished.
    """
    is_worker = hasattr(item.config, "workerinput")
    if not is_worker or nextitem is None:
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        is_listed = report.duration >= SHORTEST_DURATION
        if report.when == "call" or is_listed or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Skip the thousands of cases of thorough tests if the run excludes them."""
    is_excluded = collector.config.option.markexpr == "not thorough"
    marks = getattr(obj, "pytestmark", [])
    if is_excluded and any(mark.name == "thorough" for mark in marks):
        return []
    return None


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make no cases that the marker `sample` of a test leaves out, if the run excludes them.

    They are a third of all cases, and each would be made, sorted and deselected.
    """
    marker = metafunc.definition.get_closest_marker("sample")
    if marker is None or metafunc.config.option.markexpr != "not thorough":
        return
    calls = metafunc._calls
    left_out = _left_out(metafunc.definition.nodeid, [call.id for call in calls], marker.args)
    metafunc._calls = [call for number, call in enumerate(calls) if number not in left_out]


def _left_out(test: str, ids: Sequence[str], chosen: tuple[Any, ...]) -> set[int]:
    """Return the numbers of the cases of a test that its marker `sample` leaves out.

    `sample(3)` keeps three cases in the default run. They depend only on the name of the test, so
    that they are the same in every run and on every machine. `sample("none", "linear")` keeps the
    cases with these ids, for tests whose cases differ much in the time that they take.

    Args:
        test: The test, without the id of a case.
        ids: The ids of its cases.
        chosen: The arguments of the marker.
    """
    if isinstance(chosen[0], int):
        return {*Random(test).sample(range(len(ids)), max(0, len(ids) - chosen[0]))}
    return {number for number, id in enumerate(ids) if id not in chosen}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as thorough the cases that the marker `sample` of their test leaves out."""
    if config.option.markexpr == "not thorough":
        return  # They were not made.
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test, same in cases.items():
        ids = [item.callspec.id for item in same]
        for number in _left_out(test, ids, same[0].get_closest_marker("sample").args):
            same[number].add_marker(pytest.mark.thorough)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Collect garbage from now on, except among the collected tests.

    There are thousands, they live to the end, and every full collection would visit them all.
    Collecting seldom takes a third of the time, and no more memory.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def pytest_runtest_teardown() -> None:
    """Forget the width of the help, which a command in this process leaves to later processes."""
    os.environ.pop("TERMINAL_WIDTH", None)


@dataclass(frozen=True)
class Outcome:
    """The exit code and the output of a command line."""

    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run_pecli(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def call(*words: object) -> Outcome:
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Run a command line as a process of its own, in an empty folder."""

    def call(*words: object, **settings: Any) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "pecli", *map(str, words)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, **settings)

    return call


MEASURE = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
print(status, usage.ru_maxrss // (2**20 if sys.platform == "darwin" else 2**10))
"""


@pytest.fixture
def peak_memory(tmp_path: Path) -> Callable[..., int]:
    """Return a function that measures the peak memory of a Python process, in MiB.

    A small process starts it, because the peak of a child includes that of the process from which
    it was forked, and the process of the tests is large.
    """

    def call(*words: object) -> int:
        command = [sys.executable, "-c", MEASURE, sys.executable, *map(str, words)]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
        )
        status, size = done.stdout.split()
        assert status == "0", done.stderr
        return int(size)

    return call
