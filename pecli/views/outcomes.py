"""Outcomes of many checks: a table for people, JUnit's XML and GitHub's annotations for CI."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pecli.checks.verification import Verification
from pecli.engine.grouping import grouped
from pecli.errors import FileError, PecliError, counted
from pecli.files.load import split_name
from pecli.files.output import open_output
from pecli.views import screen
from pecli.views.check_results import VERDICTS, failures, print_failures
from pecli.views.screen import Styled, escaped
from pecli.views.tensor_lines import error_in_words

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pecli.checks.run import Outcome

STATUS_WIDTH = 8
"""Columns of a status: the longest, «skipped», and a space."""


def show_outcomes(outcomes: Sequence[Outcome]) -> None:
    """Print a line per check with its findings below it, and the counts at the end."""
    labels = [screen.printable(outcome.check.label) for outcome in outcomes]
    label_width = max(map(len, ["check", *labels]))
    heads = f"{'status':<{STATUS_WIDTH}}{'check':<{label_width}}  worst error"
    screen.print_styled(Styled(heads, "dim"))
    for outcome, label in zip(outcomes, labels, strict=True):
        word, style = VERDICTS[outcome.status]
        status = Styled(f"{word:<{STATUS_WIDTH}}", style)
        screen.print_styled(status, Styled(f"{label:<{label_width}}  {_worst_error(outcome)}"))
        if isinstance(outcome.result, Verification):
            print_failures(outcome.result, " " * STATUS_WIDTH)
    screen.print_line(_summary(outcomes))


def _summary(outcomes: Sequence[Outcome]) -> str:
    """Return the number of checks by status.

    Three checks, two of which cannot be made: «3 checks: 1 passed, 2 errors».
    """
    statuses = [str(outcome.status) for outcome in outcomes]
    parts: list[str] = []
    for status in ("passed", "skipped", "weak", "failed", "error"):
        count = statuses.count(status)
        if status == "error" and count > 1:
            parts.append(f"{count} errors")  # The other statuses are no nouns and have no plural.
        elif count:
            parts.append(f"{count} {status}")
    return f"{counted(len(statuses), 'check')}: {', '.join(parts)}"


def _worst_error(outcome: Outcome) -> str:
    """Return the largest error of all tensors, or the problem that kept the check from being made."""
    result = outcome.result
    if isinstance(result, PecliError):
        return _problem(result, outcome.check.file)
    compared = [tensor for tensor in result.tensors if tensor.max_abs_error is not None]
    if not compared:  # A learned table, for example, has no expected values.
        return "the shape is right" if result.passed else "not comparable"
    worst = max(compared, key=lambda tensor: tensor.largest_error)
    if worst.largest_error == 0:
        return "0"
    if result.passed:
        return error_in_words(worst.largest_error, None)
    return error_in_words(worst.largest_error, worst.worst_ulp)


def _problem(problem: PecliError, file: str) -> str:
    """Return a problem in one line; it does not repeat the file's name, which the line has already."""
    text = str(problem)
    if isinstance(problem, FileError):
        text = problem.problem if problem.path == file else f"{problem.path}: {problem.problem}"
    return screen.printable(" ".join(text.split()))


_JUNIT_KINDS = {"failed": "failure", "weak": "failure", "skipped": "skipped", "error": "error"}
"""JUnit's elements for the statuses; a check that passed has none."""


def write_junit(path: str, outcomes: Sequence[Outcome]) -> None:
    """Write a JUnit report: one suite per manifest, and one for the files of the command line."""
    from xml.etree import ElementTree

    root = ElementTree.Element("testsuites", {"name": "pecli verify", **_junit_counts(outcomes)})
    by_manifest = grouped(outcomes, lambda outcome: outcome.check.manifest)
    for manifest, outcomes_of_suite in by_manifest.items():
        name = manifest or "pecli verify"
        attributes = {"name": escaped(name), **_junit_counts(outcomes_of_suite)}
        suite = ElementTree.SubElement(root, "testsuite", attributes)
        for outcome in outcomes_of_suite:
            _add_junit_case(suite, name, outcome)
    ElementTree.indent(root)
    with open_output(path) as output:
        output.write(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _add_junit_case(suite: Element, suite_name: str, outcome: Outcome) -> None:
    """Add a test case to a suite; if the check did not pass, the case has an element with the reasons.

    Characters that XML cannot hold, such as NUL, are escaped.
    """
    from xml.etree import ElementTree

    attributes = {
        "classname": escaped(suite_name),
        "name": escaped(outcome.check.label),
        "file": escaped(outcome.check.file),
        "time": f"{outcome.seconds:.3f}",
    }
    case = ElementTree.SubElement(suite, "testcase", attributes)
    kind = _JUNIT_KINDS.get(outcome.status)
    if kind is None:
        return
    reasons = list(map(escaped, failures(outcome.result)))
    problem = ElementTree.SubElement(case, kind, {"message": reasons[0], "type": kind})
    problem.text = "\n".join(reasons)


def _junit_counts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return the attributes of a suite: its numbers of tests, by kind, and its seconds."""
    kinds = [_JUNIT_KINDS.get(outcome.status) for outcome in outcomes]
    return {
        "tests": str(len(kinds)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
        "time": f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    }


# Workflow commands escape these characters, and in properties also the separators:
# docs.github.com/actions/reference/workflow-commands-for-github-actions
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = _DATA | str.maketrans({":": "%3A", ",": "%2C"})


def annotate(outcomes: Sequence[Outcome]) -> None:
    """Print a GitHub workflow command for each check that did not pass."""
    for outcome in outcomes:
        if outcome.status not in ("passed", "skipped"):
            print(screen.printable(_annotation(outcome)))


def _annotation(outcome: Outcome) -> str:
    """Return the command that shows a failed check beside its file: `::error file=…,title=…::…`."""
    file = outcome.check.file
    with suppress(FileError):  # A name that cannot be split is the file's.
        file, _ = split_name(file)  # GitHub looks for the file, without the tensor of FILE:NAME
    title = f"pecli verify: {outcome.check.label}".translate(_PROPERTY)
    message = "\n".join(failures(outcome.result)).translate(_DATA)
    return f"::error file={file.translate(_PROPERTY)},title={title}::{message}"
