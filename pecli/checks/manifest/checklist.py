"""Many checks in one process: run side by side, answered in their order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

from pecli.checks.verify.verification import Verification, until
from pecli.errors import FileError, NoTablesError, PecliError
from pecli.files.os_errors import translated


@dataclass(frozen=True)
class Check:
    """A file, what checks it, and the name and manifest that the check has, if any."""

    file: str
    run: Callable[[], Verification]
    name: str = ""
    manifest: str = ""
    group: str = ""
    """What names the files that this one was given with, where they are several."""

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

    @property
    def skipped(self) -> bool:
        """Whether it is one of several files, and has no positional tables."""
        return isinstance(self.result, NoTablesError) and bool(self.check.group)

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
            "status": "skipped" if self.skipped else "error",
        }
        return {**name, "file": self.check.file, **problem}


def without_tables(outcomes: Sequence[Outcome]) -> list[FileError]:
    """A problem for each group of files none of which has positional tables: something was to be checked."""
    groups = dict.fromkeys(outcome.check.group for outcome in outcomes if outcome.skipped)
    own = {group: [outcome for outcome in outcomes if outcome.check.group == group] for group in groups}
    return [
        FileError(
            group, f"none of {len(found)} files has positional tables", "modern checkpoints compute them: use a dump"
        )
        for group, found in own.items()
        if all(outcome.skipped for outcome in found)
    ]


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
