"""The table of checks, on a terminal and in a pipe."""

from __future__ import annotations

import re

import pytest

from pecli.checks.compare import Comparison
from pecli.checks.manifest.checklist import Check, Outcome
from pecli.checks.verify.verification import Verification
from pecli.errors import FileError, ParameterError
from pecli.views import checklist

EXACT = Verification("a", "rope", (Comparison("cos", (2, 2), 4),))
OFF = Verification(
    "b",
    "rope",
    (Comparison("cos", (2, 2), 4, "float32", "float32", 1, 0.5, 0.5, 7, 7, (1, 1), (1, 1), 0.0, 0.5),),
    diagnosis=("cos: matches if …",),
)
SHAPE = Verification("c", "learned", (Comparison("wpe", (2, 2), 4, max_abs_error=None, max_ulp_error=None),))
_NOT_COMPARED = Comparison("x", (3,), 3, mismatched=None, max_abs_error=None, problem="its shape")
UNLIKE = Verification("d", "rope", (_NOT_COMPARED,))
RESULTS = [EXACT, OFF, SHAPE, UNLIKE, FileError("f", "does not exist"), ParameterError("offset", 3, "too far")]
RESULTS.append(FileError("config.json", "does not exist"))
OUTCOMES = [Outcome(Check("f", lambda: EXACT, f"check {k}", "m"), each, 0.0) for k, each in enumerate(RESULTS)]
EXPECTED = """\
status  check    worst error
passed  check 0  0
FAILED  check 1  0.5 (7 ulp)
        cos: matches if …
        cos  2 × 2  1 of 4 out of tolerance  max error 0.5 (7 ulp) at [1, 1]: expected 0, found 0.5
passed  check 2  the shape is right
FAILED  check 3  not comparable
        x  3  its shape
error   check 4  does not exist
error   check 5  offset is 3; too far
error   check 6  config.json: does not exist
7 checks: 2 passed, 2 failed, 3 errors
"""


def test_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    checklist.show(OUTCOMES)
    assert capsys.readouterr().out == EXPECTED


def test_on_a_terminal(terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = terminal()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    checklist.show(OUTCOMES)
    assert "\x1b[1;31mFAILED" in shown.getvalue()
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.getvalue())
    assert [line.rstrip() for line in plain.splitlines()] == EXPECTED.splitlines()
