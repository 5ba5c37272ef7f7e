"""Many checks in one process: run side by side, answered in their order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

from pecli.checks.verify.verification import Verification, until
from pecli.errors import PecliError
from pecli.files.os_errors import translated


@dataclass(frozen=True)
class Check:
    """A file, what checks it, and the name and manifest that the check has, if any."""

    file: str
    run: Callable[[], Verification]
    name: str = ""
    manifest: str = ""

    @property
    def label(self) -> str:
        return self.name or self.file


@dataclass(frozen=True)
class Outcome:
    """What became of a check: a result, or the problem that there is none."""

    check: Check
    result: Verification | PecliError
    seconds: float

    @property
    def passed(self) -> bool:
        return isinstance(self.result, Verification) and self.result.passed

    def as_json(self) -> dict[str, Any]:
        name = {"name": self.check.label} if self.check.manifest else {}
        if isinstance(self.result, Verification):
            return {**name, **self.result.as_json(), "status": "passed" if self.passed else "failed"}
        problem: dict[str, Any] = {
            "scheme": None,
            "passed": False,
            "tensors": [],
            "diagnosis": [str(self.result)],
            "readings": {},
            "status": "error",
        }
        return {**name, "file": self.check.file, **problem}


def run_all(checks: Sequence[Check]) -> Iterator[Outcome]:
    """The outcomes in the order of the checks, as soon as they are there."""
    from pecli.engine.numerics.threads import share_of_threads, thread_count

    threads = thread_count()
    workers = min(threads, len(checks))
    if workers < 2:
        yield from map(_run, checks)
        return
    from concurrent.futures import ThreadPoolExecutor

    stop = Event()

    def run(check: Check) -> Outcome:
        with share_of_threads(max(1, threads // workers)), until(stop):
            return _run(check)

    with ThreadPoolExecutor(workers) as pool:
        try:
            for running in [pool.submit(run, check) for check in checks]:
                yield running.result()
        finally:  # an interrupt waits for no check
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


def _run(check: Check) -> Outcome:
    start = time.perf_counter()
    result: Verification | PecliError
    try:
        result = check.run()
    except Exception as problem:  # whatever becomes of one check, the others go on
        result = translated(problem)
    return Outcome(check, result, time.perf_counter() - start)
