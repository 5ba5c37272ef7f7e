"""Checks, and running them: each has a file and a function that verifies it.

A check that raises does not stop the others.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from enum import StrEnum

from pecli.checks.verification import Verification
from pecli.engine.grouping import grouped
from pecli.engine.named_values import JsonObject
from pecli.engine.table import thread_count
from pecli.engine.thread_pool import ThreadPool
from pecli.errors import FileError, NoTablesError, PecliError, translated


class Status(StrEnum):
    """The result of a check in one word.

    WEAK is a strict check that passed, though a known mistake would have passed as well. SKIPPED is
    a file without positional tables, if it is one of several.
    """

    PASSED = "passed"
    FAILED = "failed"
    WEAK = "weak"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Check:
    """A file and the function that verifies it.

    Attributes:
        file: The path of the file.
        run: Verifies the file.
        name: The name of the check, if it has one.
        manifest: The manifest that lists it; empty for a file on the command line.
        group: A description of the files that it was named with; empty if it was named alone.
    """

    file: str
    run: Callable[[], Verification]
    name: str = ""
    manifest: str = ""
    group: str = ""

    @property
    def label(self) -> str:
        return self.name or self.file


@dataclass(frozen=True)
class Outcome:
    """The result of a check, or the error that it ended with.

    Attributes:
        check: The check.
        result: Its result, or the error.
        seconds: The time that it took.
        strict: True if a check that is too weak to rule out a known mistake counts as failed.
    """

    check: Check
    result: Verification | PecliError
    seconds: float
    strict: bool = False

    @property
    def status(self) -> Status:
        """The result in one word, for the last line of a report and for JSON.

        A file without positional tables is an error if it was named by itself, and is skipped if it
        is one of those that `dumps/*.npz` matches.
        """
        if isinstance(self.result, NoTablesError) and self.check.group:
            return Status.SKIPPED
        if isinstance(self.result, PecliError):
            return Status.ERROR
        if not self.result.passed:
            return Status.FAILED
        if self.strict and self.result.weak:
            return Status.WEAK
        return Status.PASSED

    def without_arrays(self) -> "Outcome":
        """Drop the arrays that were compared, which may take much memory; return the outcome."""
        if isinstance(self.result, Verification):
            for tensor in self.result.tensors:
                tensor.parts = ()
        return self

    def as_json(self) -> JsonObject:
        """Return the object that `pecli verify --json` prints for a file.

        Programs that read it find the same fields after an error: those of a verification that has
        failed, with no tensors, and the error as its problem.
        """
        fields: JsonObject = {}
        if self.check.manifest:
            fields["name"] = self.check.label
        if isinstance(self.result, Verification):
            return {**fields, **self.result.as_json(), "status": self.status}
        message = str(self.result)
        failed = Verification(file=self.check.file, scheme="", tensors=(), problems=(message,))
        # What the file should have been compared with was perhaps not even read.
        return {**fields, **failed.as_json(), "scheme": None, "status": self.status}


def without_tables(outcomes: Sequence[Outcome]) -> list[FileError]:
    """Return an error for each pattern, such as `dumps/*.npz`, none of whose files has tables.

    One file of several may be skipped since it has no positional tables. If all are, nothing was
    checked, which must not look like a pass.
    """
    outcomes_by_pattern = grouped(outcomes, lambda outcome: outcome.check.group)
    errors = []
    for pattern, of_pattern in outcomes_by_pattern.items():
        if all(outcome.status == Status.SKIPPED for outcome in of_pattern):
            problem = f"none of {len(of_pattern)} files has positional tables"
            advice = "modern checkpoints compute them: use a dump"
            errors.append(FileError(pattern, problem, advice))
    return errors


def run_all(checks: Sequence[Check], *, strict: bool = False) -> Iterator[Outcome]:
    """Run checks in several threads; yield their outcomes in order, as soon as they are there.

    Args:
        checks: Files, each with the function that verifies it.
        strict: True if a pass that does not exclude a known mistake counts as failed.
    """
    workers = min(thread_count(), len(checks))
    if workers < 2:
        for check in checks:
            yield _run_check(check, strict)
        return
    pool = ThreadPool(workers)
    try:
        # A thread has an empty context: without a copy, it would not know how raw files are read.
        contexts = [copy_context() for _ in checks]
        yield from pool.map(
            lambda check, context: context.run(_run_check, check, strict), checks, contexts
        )
    finally:
        # After an interrupt, nobody waits for the checks that are still running.
        pool.shutdown(wait=False, cancel_futures=True)


def _run_check(check: Check, strict: bool) -> Outcome:
    """Run a check, and measure its time."""
    start = time.perf_counter()
    result: Verification | PecliError
    try:
        result = check.run()
    except Exception as problem:
        # An error is the outcome of this check: the others go on.
        result = translated(problem)
    return Outcome(check=check, result=result, seconds=time.perf_counter() - start, strict=strict)


def is_manifest(path: str) -> bool:
    """Return True if the name of a file is that of a manifest."""
    return path.lower().endswith(".toml")
