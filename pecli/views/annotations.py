"""Lines that GitHub Actions turn into annotations of a file."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pecli.checks.manifest.checklist import Outcome
from pecli.errors import FileError
from pecli.files.load import split_name
from pecli.views import screen
from pecli.views.verification import failures

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def wanted() -> bool:
    """Whether this runs there."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def annotate(outcomes: Sequence[Outcome]) -> None:
    """One line a check that did not pass."""
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
    message = "\n".join(failures(outcome.result))
    title = f"pecli verify: {check.label}"
    return f"::error file={_escaped(file, _PROPERTY)},title={_escaped(title, _PROPERTY)}::{_escaped(message, _DATA)}"


def _escaped(text: str, signs: dict[str, str]) -> str:
    return "".join(signs.get(sign, sign) for sign in text)
