"""Outcomes of checks as JUnit XML, which CI systems show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pecli.checks.manifest.checklist import Outcome
from pecli.checks.verify.verification import Verification
from pecli.files.output import open_output
from pecli.views.verification import failures

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_ILLEGAL = re.compile("[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML cannot hold, or would not give back: control characters, halves of pairs, undecodable bytes of names."""


def write(path: str, outcomes: Sequence[Outcome]) -> None:
    """Write the report, whole or not at all."""
    text = report(outcomes)
    with open_output(path) as output:
        output.write(text)


def report(outcomes: Sequence[Outcome]) -> bytes:
    """The XML text: one test suite per manifest, and one for files that stand for themselves."""
    from xml.etree import ElementTree

    suites = ElementTree.Element("testsuites", {"name": "pecli verify", **_counts(outcomes)})
    for manifest in dict.fromkeys(outcome.check.manifest for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.check.manifest == manifest]
        name = manifest or "pecli verify"
        suite = ElementTree.SubElement(suites, "testsuite", {"name": _legal(name), **_counts(own)})
        for outcome in own:
            suite.append(_case(outcome, name))
    ElementTree.indent(suites)
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _case(outcome: Outcome, suite: str) -> Element:
    from xml.etree import ElementTree

    check = outcome.check
    names = {"classname": suite, "name": check.label, "file": check.file}
    case = ElementTree.Element("testcase", {key: _legal(value) for key, value in names.items()})
    case.set("time", f"{outcome.seconds:.3f}")
    if not outcome.passed:
        lines = failures(outcome.result)
        kind = "skipped" if outcome.skipped else "failure" if isinstance(outcome.result, Verification) else "error"
        element = ElementTree.SubElement(case, kind, {"message": _legal(lines[0]), "type": kind})
        element.text = _legal("\n".join(lines))
    return case


def _counts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    skipped = sum(outcome.skipped for outcome in outcomes)
    errors = sum(not isinstance(outcome.result, Verification) for outcome in outcomes) - skipped
    failed = sum(not outcome.passed for outcome in outcomes) - errors - skipped
    seconds = sum(outcome.seconds for outcome in outcomes)
    counts = {"tests": len(outcomes), "failures": failed, "errors": errors, "skipped": skipped}
    return {**{key: str(count) for key, count in counts.items()}, "time": f"{seconds:.3f}"}


def _legal(text: str) -> str:
    """A text with what XML cannot hold escaped, as Python would write it."""
    return _ILLEGAL.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)
