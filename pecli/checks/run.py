"""Checks, and running them: each has a file and what compares it; whatever becomes of one, the others go on."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pecli.checks.verification import Verification
from pecli.engine.table import thread_count
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
    strict: bool = (
        False  #: whether a check that known mistakes would have passed, too, counts as failed
    )

    @property
    def status(self) -> str:
        """`passed`, `failed`, `weak` (which only a strict check is), `error`, or of several files one that has no
        positional tables, `skipped`."""
        if isinstance(self.result, PecliError):
            return (
                "skipped"
                if isinstance(self.result, NoTablesError) and self.check.group
                else "error"
            )
        if not self.result.passed:
            return "failed"
        return "weak" if self.strict and self.result.weak else "passed"

    def forgotten(self) -> "Outcome":
        """The same without what was compared, which may take much memory."""
        for tensor in self.result.tensors if isinstance(self.result, Verification) else ():
            tensor.parts = ()
        return self

    def as_json(self) -> dict[str, Any]:
        name = {"name": self.check.label} if self.check.manifest else {}
        if isinstance(self.result, Verification):
            return {**name, **self.result.as_json(), "status": self.status}
        found = Verification(self.check.file, "", (), problems=(str(self.result),)).as_json()
        return {**name, **found, "scheme": None, "passed": False, "status": self.status}


def without_tables(outcomes: Sequence[Outcome]) -> list[FileError]:
    """A problem for each group of files none of which has positional tables: something was to be checked."""
    advice = "modern checkpoints compute them: use a dump"
    files = Counter(outcome.check.group for outcome in outcomes)
    skipped = Counter(outcome.check.group for outcome in outcomes if outcome.status == "skipped")
    empty = [group for group, count in files.items() if count == skipped[group]]
    return [
        FileError(group, f"none of {files[group]} files has positional tables", advice)
        for group in empty
    ]


def run_all(checks: Sequence[Check], *, strict: bool = False) -> Iterator[Outcome]:
    """The outcomes in the order of the checks, as soon as they are there."""
    workers = min(thread_count(), len(checks))

    def run(check: Check) -> Outcome:
        start = time.perf_counter()
        result: Verification | PecliError
        try:
            result = check.run()
        except Exception as problem:  # whatever becomes of one check, the others go on
            result = translated(problem)
        return Outcome(check, result, time.perf_counter() - start, strict)

    if workers < 2:
        yield from map(run, checks)
        return
    pool = ThreadPoolExecutor(workers)
    try:
        yield from pool.map(run, checks)
    finally:  # an interrupt waits for no check
        pool.shutdown(wait=False, cancel_futures=True)


def is_manifest(path: str) -> bool:
    """Whether a file is a manifest, going by its name."""
    return path.lower().endswith(".toml")
