"""Outcomes of many checks as one table."""

from __future__ import annotations

from collections.abc import Sequence

from pecli.checks.manifest.checklist import Outcome
from pecli.checks.verify.verification import Verification
from pecli.errors import FileError
from pecli.views import screen
from pecli.views.verification import say_failures, units

_HEADS = ("status", "check", "worst error")
_STYLES = {"passed": "green", "skipped": "dim", "FAILED": "bold red", "error": "bold red"}


def show(outcomes: Sequence[Outcome]) -> None:
    """A line a check, what is wrong below it, and the count at the end."""
    rows = [(_status(outcome), screen.printable(outcome.check.label), _worst(outcome)) for outcome in outcomes]
    heads, *lines = screen.aligned([_HEADS, *rows])
    screen.say_styled((heads, "dim"))
    for outcome, (status, *_), line in zip(outcomes, rows, lines, strict=True):
        screen.say_styled((status, _STYLES[status]), (line.removeprefix(status), ""))
        if isinstance(outcome.result, Verification) and not outcome.passed:
            say_failures(outcome.result, " " * len(_HEADS[0]) + "  ")
    screen.say(_count(rows))


def _status(outcome: Outcome) -> str:
    if not isinstance(outcome.result, Verification):
        return "skipped" if outcome.skipped else "error"
    return "passed" if outcome.passed else "FAILED"


def _worst(outcome: Outcome) -> str:
    """The largest error of all tensors; the problem where there is none."""
    result = outcome.result
    if not isinstance(result, Verification):
        problem = str(result)
        if isinstance(result, FileError):  # the line names the check's own file already
            problem = result.problem if result.path == outcome.check.file else f"{result.path}: {result.problem}"
        return screen.printable(" ".join(problem.split()))
    known = [tensor for tensor in result.tensors if tensor.max_abs_error is not None]
    if not known:
        return "the shape is right" if result.passed else "not comparable"
    worst = max(known, key=lambda tensor: tensor.max_abs_error or 0.0)
    if not worst.max_abs_error:
        return "0"
    in_units = "" if worst.worst_ulp is None else f" ({units(worst.worst_ulp)})"
    return f"{worst.max_abs_error:.3g}{in_units}"


def _count(rows: Sequence[Sequence[str]]) -> str:
    found = [row[0] for row in rows]
    errors = found.count("error")
    counts = {"passed": found.count("passed"), "skipped": found.count("skipped"), "failed": found.count("FAILED")}
    counts["error" + "s" * (errors > 1)] = errors
    parts = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{screen.counted(len(rows), 'check')}: {parts}"
