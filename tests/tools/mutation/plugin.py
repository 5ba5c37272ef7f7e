"""A plugin of pytest that records which tests pass which switch, or tries mutants.

`MUTATE_RECORDS` is a folder for the records. `MUTATE_TRIALS` is a file of trials, and
`MUTATE_VERDICTS` the descriptor that their verdicts are written to, a line each.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, NoReturn

import pytest

PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", __name__]
SURVIVED = "SURVIVED"
SLOWER = 10
"""How many times longer than when they were recorded tests may take: the machine may be busy."""
MIN_SECONDS = 60


class Trial(NamedTuple):
    """A mutant, and the tests to try it with.

    Attributes:
        number: The number of the mutant's switch.
        tests: The names of tests, likeliest to notice the change first.
        seconds: The CPU time that they took when they were recorded.
        runs_late: True if the mutant can be switched after everything is imported.
    """

    number: int
    tests: list[str]
    seconds: float
    runs_late: bool


class Verdict(NamedTuple):
    """The outcome of a trial: `SURVIVED`, or what noticed the mutant."""

    number: int
    outcome: str


class Record(NamedTuple):
    """The CPU time of a test, and the switches that it passed here and in other processes."""

    seconds: float
    here: list[int]
    elsewhere: list[int]


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("MUTATE_TRIALS"):
        config.pluginmanager.register(Trials())
    elif os.environ.get("MUTATE_RECORDS"):
        config.pluginmanager.register(Recorder())


def import_switch() -> ModuleType:
    """Return the module that only the copy of the repository has."""
    from pecli import mutant_switch  # type: ignore[attr-defined]

    switch: ModuleType = mutant_switch
    return switch


class Recorder:
    """Records which switches each test passes, and its CPU time."""

    def __init__(self) -> None:
        self.switch = import_switch()
        self.folder = Path(tempfile.mkdtemp(dir=os.environ["MUTATE_RECORDS"]))
        self.records: dict[str, Record] = {}
        self.failed: set[str] = set()
        os.environ["MUTATE_PASSED"] = str(self.folder)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.switch.passed.clear()
        before = sum(os.times()[:4])
        yield
        seconds = sum(os.times()[:4]) - before
        elsewhere: set[int] = set()
        for path in self.folder.iterdir():
            elsewhere.update(int(number) for number in path.read_text(encoding="utf-8").split())
            path.unlink()
        here = sorted(self.switch.passed)
        self.records[item.nodeid] = Record(seconds, here, sorted(elsewhere))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # Some tests fail because of the switches themselves: those that read the source.
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        records = {name: record for name, record in self.records.items() if name not in self.failed}
        (self.folder / "records").write_text(json.dumps(records), encoding="utf-8")


class Trials:
    """Tries mutants by forks of this process, instead of running the tests that it collected."""

    verdict_pipe = -1  #: where a fork writes its verdict

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        verdicts = int(os.environ["MUTATE_VERDICTS"])
        trials = json.loads(Path(os.environ["MUTATE_TRIALS"]).read_text(encoding="utf-8"))
        for fields in trials:
            trial = Trial(*fields)
            os.environ["MUTANT"] = str(trial.number)
            if trial.runs_late:
                outcome = self.try_by_fork(trial, [items[name] for name in trial.tests])
            else:
                outcome = try_by_process(trial)
            line = json.dumps(Verdict(trial.number, outcome))
            os.write(verdicts, f"{line}\n".encode())
        return True

    def try_by_fork(self, trial: Trial, items: list[pytest.Item]) -> str:
        """Run tests in a fork of this process, which has imported everything already."""
        reader, self.verdict_pipe = os.pipe()
        child = os.fork()
        if child == 0:
            self.run_in_fork(trial.number, items)
        os.close(self.verdict_pipe)
        timeout = MIN_SECONDS + SLOWER * trial.seconds
        ready, _, _ = select.select([reader], [], [], timeout)
        verdict = "killed by the clock"
        if ready:
            verdict = os.read(reader, 4096).decode() or "killed by its end"
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        for path in Path(tempfile.gettempdir()).iterdir():
            shutil.rmtree(path, ignore_errors=True)
        return verdict

    def run_in_fork(self, number: int, items: list[pytest.Item]) -> NoReturn:
        """Run tests until one fails, which ends the process."""
        os.setpgid(0, 0)
        import_switch().chosen = number  # type: ignore[attr-defined]
        try:
            for item, following in zip_longest(items, items[1:]):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self.end_fork(SURVIVED)
        except BaseException as problem:
            self.end_fork(f"killed by {type(problem).__name__}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.end_fork(f"killed by {report.nodeid}")

    def end_fork(self, verdict: str) -> NoReturn:
        os.write(self.verdict_pipe, verdict.encode())
        os._exit(0)


def try_by_process(trial: Trial) -> str:
    """Run tests in a process that imports the package anew, with the mutant switched on.

    A trial without tests runs the whole suite: all of it imports `pecli/__init__.py`, for example.
    """
    settings = {name: value for name, value in os.environ.items() if not name.startswith("MUTATE")}
    command = [*PYTEST, "-x", *trial.tests]
    done = subprocess.run(command, env=settings, capture_output=True, text=True)
    if done.returncode == 0:
        return SURVIVED
    for line in done.stdout.splitlines():
        if line.startswith("FAILED "):
            return f"killed by {line.split()[1]}"
    return "killed by an error"
