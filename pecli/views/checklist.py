"""Outcomes of many checks: as a table, as JUnit XML, and as annotations of GitHub Actions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pecli.checks.run import Outcome
from pecli.checks.verify.verification import Verification
from pecli.errors import FileError, number
from pecli.files.load import split_name
from pecli.files.output import open_output
from pecli.views import screen
from pecli.views.check_results import VERDICTS, failures, say_findings, units

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


def show(outcomes: Sequence[Outcome]) -> None:
    """One line per check, what is wrong below it, and the count at the end."""
    labels = [screen.printable(outcome.check.label) for outcome in outcomes]
    width = max(map(len, ["check", *labels]))
    screen.say_styled((f"status  {'check':<{width}}  worst error", "dim"))
    for outcome, label in zip(outcomes, labels, strict=True):
        word, style = VERDICTS[outcome.status]
        screen.say_styled((f"{word:<8}", style), (f"{label:<{width}}  {_worst(outcome)}", ""))
        if isinstance(outcome.result, Verification):
            say_findings(outcome.result, " " * 8, passed=False)
    found = [outcome.status for outcome in outcomes]
    counts = {status: found.count(status) for status in ("passed", "skipped", "weak", "failed", "error")}
    words = {**{status: status for status in counts}, "error": "errors" if counts["error"] > 1 else "error"}
    parts = ", ".join(f"{count} {words[status]}" for status, count in counts.items() if count)
    screen.say(f"{screen.counted(len(found), 'check')}: {parts}")


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
    in_units = "" if result.passed else units(worst.worst_ulp)
    return f"{number(worst.max_abs_error, 3)}{in_units and f' ({in_units})'}"


_ILLEGAL = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML cannot hold, or would not give back: control characters, halves of pairs, undecodable bytes of names."""


def write_junit(path: str, outcomes: Sequence[Outcome]) -> None:
    """Write the report, whole or not at all."""
    with open_output(path) as output:
        output.write(junit_report(outcomes))


def junit_report(outcomes: Sequence[Outcome]) -> bytes:
    """The XML text: one test suite per manifest, and one for files that stand for themselves."""
    from xml.etree import ElementTree

    suites = ElementTree.Element("testsuites", {"name": "pecli verify", **_junit_counts(outcomes)})
    for manifest in dict.fromkeys(outcome.check.manifest for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.check.manifest == manifest]
        name = manifest or "pecli verify"
        suite = ElementTree.SubElement(suites, "testsuite", {"name": _xml_text(name), **_junit_counts(own)})
        for outcome in own:
            suite.append(_junit_case(outcome, name))
    ElementTree.indent(suites)
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _junit_case(outcome: Outcome, suite: str) -> Element:
    from xml.etree import ElementTree

    check = outcome.check
    names = {"classname": suite, "name": check.label, "file": check.file}
    case = ElementTree.Element("testcase", {key: _xml_text(value) for key, value in names.items()})
    case.set("time", f"{outcome.seconds:.3f}")
    if not outcome.passed:
        lines = failures(outcome.result)
        kind = "skipped" if outcome.skipped else "failure" if isinstance(outcome.result, Verification) else "error"
        element = ElementTree.SubElement(case, kind, {"message": _xml_text(lines[0]), "type": kind})
        element.text = _xml_text("\n".join(lines))
    return case


def _junit_counts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    skipped = sum(outcome.skipped for outcome in outcomes)
    errors = sum(not isinstance(outcome.result, Verification) for outcome in outcomes) - skipped
    failed = sum(not outcome.passed for outcome in outcomes) - errors - skipped
    seconds = sum(outcome.seconds for outcome in outcomes)
    counts = {"tests": len(outcomes), "failures": failed, "errors": errors, "skipped": skipped}
    return {**{key: str(count) for key, count in counts.items()}, "time": f"{seconds:.3f}"}


def _xml_text(text: str) -> str:
    """A text with what XML cannot hold escaped, as Python would write it."""
    return _ILLEGAL.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = {**_DATA, **str.maketrans({":": "%3A", ",": "%2C"})}


def annotate(outcomes: Sequence[Outcome]) -> None:
    """Print an annotation for each check that did not pass."""
    for outcome in outcomes:
        if not outcome.passed and not outcome.skipped:
            print(screen.printable(annotation(outcome)))


def annotation(outcome: Outcome) -> str:
    """The workflow command; a tensor's name after the file's is left to the title."""
    check = outcome.check
    try:
        file = split_name(check.file)[0]
    except FileError:
        file = check.file
    title = f"pecli verify: {check.label}".translate(_PROPERTY)
    message = "\n".join(failures(outcome.result)).translate(_DATA)
    return f"::error file={file.translate(_PROPERTY)},title={title}::{message}"
