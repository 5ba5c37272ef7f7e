"""Checks, and running them: each has a file and what compares it; whatever becomes of one, the others go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pecli.checks.verify.verification import Verification
from pecli.engine.table import share_of_threads, thread_count
from pecli.errors import FileError, NoTablesError, PecliError, translated


@dataclass(frozen=True)
class Check:
    """A file, what checks it, and the name and manifest that the check has, if any."""

    file: str
    run: Callable[[], Verification]
    name: str = ""
    manifest: str = ""
    group: str = ""  #: what names the files that this one was given with, where they are several

    @property
    def label(self) -> str:
        return self.name or self.file


@dataclass(frozen=True)
class Outcome:
    """What became of a check: a result, or the problem that there is none."""

    check: Check
    result: Verification | PecliError
    seconds: float
    strict: bool = False  #: whether a check that known mistakes would have passed, too, counts as failed

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    @property
    def status(self) -> str:
        """`passed`, `failed`, `weak` (which only a strict check is), `skipped` or `error`."""
        if not isinstance(self.result, Verification):
            return "skipped" if self.skipped else "error"
        if not self.result.passed:
            return "failed"
        return "weak" if self.strict and self.result.weak else "passed"

    @property
    def skipped(self) -> bool:
        """Whether it is one of several files, and has no positional tables."""
        return isinstance(self.result, NoTablesError) and bool(self.check.group)

    def forgotten(self) -> Outcome:
        """The same without what was compared, which may take much memory."""
        for tensor in self.result.tensors if isinstance(self.result, Verification) else ():
            tensor.parts = ()
        return self

    def as_json(self) -> dict[str, Any]:
        name = {"name": self.check.label} if self.check.manifest else {}
        if isinstance(self.result, Verification):
            return {**name, **self.result.as_json(), "status": self.status}
        found = Verification(self.check.file, "", (), diagnosis=(str(self.result),)).as_json()
        return {**name, **found, "scheme": None, "passed": False, "status": self.status}


def without_tables(outcomes: Sequence[Outcome]) -> list[FileError]:
    """A problem for each group of files none of which has positional tables: something was to be checked."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.check.group, []).append(outcome)
    empty = {group: len(found) for group, found in groups.items() if all(outcome.skipped for outcome in found)}
    advice = "modern checkpoints compute them: use a dump"
    return [FileError(group, f"none of {count} files has positional tables", advice) for group, count in empty.items()]


def run_all(checks: Sequence[Check], *, strict: bool = False) -> Iterator[Outcome]:
    """The outcomes in the order of the checks, as soon as they are there."""
    threads = thread_count()
    workers = min(threads, len(checks))
    if workers < 2:
        yield from (_run(check, strict) for check in checks)
        return

    def run(check: Check) -> Outcome:
        with share_of_threads(max(1, threads // workers)):
            return _run(check, strict)

    pool = ThreadPoolExecutor(workers)
    try:
        for running in [pool.submit(run, check) for check in checks]:
            yield running.result()
    finally:  # an interrupt waits for no check
        pool.shutdown(wait=False, cancel_futures=True)


def _run(check: Check, strict: bool) -> Outcome:
    start = time.perf_counter()
    result: Verification | PecliError
    try:
        result = check.run()
    except Exception as problem:  # whatever becomes of one check, the others go on
        result = translated(problem)
    return Outcome(check, result, time.perf_counter() - start, strict)


def is_manifest(path: str) -> bool:
    """Whether a file is a manifest, going by its name."""
    return path.lower().endswith(".toml")
