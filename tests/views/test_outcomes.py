"""Outcomes of many checks: a table for people, JUnit's XML and GitHub's annotations for CI.

Expected XML is what an XML parser reads back; expected annotations follow GitHub's rules of escaping.
"""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pecli.checks.run import Check, Outcome
from pecli.checks.verification import Verification
from pecli.compare.comparison import Comparison
from pecli.errors import FileError, NoTablesError, ParameterError, PecliError
from pecli.views.outcomes import annotate, show_outcomes, write_junit
from tests.views.problems import Stated

PASSED_VERIFICATION = Verification("a", "rope", (Comparison("cos", (2, 2), 4),))
ONE_ELEMENT_IS_HALF_OFF = Comparison(
    "cos",
    (2, 2),
    4,
    "float32",
    "float32",
    mismatched=1,
    max_abs_error=0.5,
    max_rel_error=0.5,
    max_ulp_error=7,
    worst_ulp=7,
    worst_index=(1, 1),
    first_index=(1, 1),
    expected=0.0,
    found=0.5,
)


OFF = Verification("b", "rope", (ONE_ELEMENT_IS_HALF_OFF,), reasons=("cos: matches if …",))


def test_checks_are_printed_as_a_table_with_the_reasons_of_failures(capsys) -> None:
    """RESULTS_AND_LINES has seven results and, written by hand, the lines about each: two that
    passed, two that failed, whose reasons are below, and three errors. The first and the last line
    of the table, HEADING and SUMMARY, are the names of the columns and the counts.
    """
    show_outcomes(OUTCOMES)

    heading, *lines, summary = capsys.readouterr().out.splitlines()
    assert heading == HEADING
    assert lines == lines_about_results()
    assert summary == SUMMARY


def test_a_terminal_shows_the_same_table_of_checks_in_colour(turn_to_terminal) -> None:
    """RESULTS_AND_LINES has results of every kind, and the lines about each without colours. The
    escape sequence 1;31 is bold and red.
    """
    shown = turn_to_terminal(200)
    show_outcomes(OUTCOMES)

    assert "\x1b[1;31mFAILED" in shown.getvalue()
    lines = [line.rstrip() for line in shown.plain()]
    assert lines == [HEADING, *lines_about_results(), SUMMARY]


SHAPE = Verification(
    "c", "learned", (Comparison("wpe", (2, 2), 4, max_abs_error=None, max_ulp_error=None),)
)
_NOT_COMPARED = Comparison(
    "x", (3,), 3, mismatched=None, max_abs_error=None, finding=Stated("its shape")
)
UNLIKE = Verification("d", "rope", (_NOT_COMPARED,))
HEADING = "status  check    worst error"
WORST = "max error 0.5 (7 ulp) at [1, 1]: expected 0, found 0.5"
RESULTS_AND_LINES: list[tuple[Verification | PecliError, list[str]]] = [
    (PASSED_VERIFICATION, ["passed  check 0  0"]),
    (
        OFF,
        [
            "FAILED  check 1  0.5 (7 ulp)",
            "        cos: matches if …",  # a reason of the failure
            f"        cos  2 × 2  1 of 4 out of tolerance  {WORST}",
        ],
    ),
    (SHAPE, ["passed  check 2  the shape is right"]),
    (UNLIKE, ["FAILED  check 3  not comparable", "        x  3  its shape"]),
    (FileError("f", "does not exist"), ["error   check 4  does not exist"]),
    (ParameterError("offset", 3, "too far"), ["error   check 5  offset is 3; too far"]),
    (FileError("config.json", "does not exist"), ["error   check 6  config.json: does not exist"]),
]
"""Results of checks of the file f, and the lines about each in the table."""

SUMMARY = "7 checks: 2 passed, 2 failed, 3 errors"


def lines_about_results() -> list[str]:
    lines: list[str] = []
    for _, lines_about_result in RESULTS_AND_LINES:
        lines += lines_about_result
    return lines


OUTCOMES = [
    Outcome(Check("f", lambda: PASSED_VERIFICATION, f"check {k}", "m"), result, 0.0)
    for k, (result, _) in enumerate(RESULTS_AND_LINES)
]


HOSTILE_TEXTS = [
    "<&\"'>]]>",
    "a\x1b[2Jb\x00",
    "two\nlines\r\n",
    "\udcff\ud800",
    "\ufffe\uffff",
    "é😀\x85\u2028",
    "%0A::x,y",
]


def outcomes_named(name: str) -> list[Outcome]:
    """Return three outcomes about a file and a tensor with this name: passed, failed, an error.

    The check that failed found another shape, and the error is that the file does not exist.
    """
    passed = Verification(name, "rope", (Comparison(name, (2, 2), 4),))
    failed = Verification(
        name,
        "rope",
        (Comparison(name, (2,), 2, finding=Stated("its shape")),),
        (f"{name}: its shape",),
    )
    results = [passed, failed, FileError(name, "does not exist")]
    return [
        Outcome(Check(name, lambda: passed, f"{name} {k}", "m.toml"), result, 0.25)
        for k, result in enumerate(results)
    ]


def junit_of_outcomes_named(name: str, path: Path) -> ElementTree.Element:
    """Write JUnit's XML about `outcomes_named`, read it with an XML parser, and return its root."""
    write_junit(str(path), outcomes_named(name))
    return ElementTree.parse(path).getroot()


@pytest.mark.parametrize("name", ["plain.npy", *HOSTILE_TEXTS])
def test_a_name_with_any_characters_makes_valid_xml(name: str, tmp_path: Path) -> None:
    """Control characters and lone surrogates are not allowed in XML, but a parser must read the
    file. `outcomes_named` are three checks of a manifest m.toml, of 0.25 s each, whose file and
    tensor have the name: one passed, one failed, and one is an error.
    """
    root = junit_of_outcomes_named(name, tmp_path / "r.xml")
    (suite,) = root

    assert root.tag == "testsuites"
    assert suite.attrib == {
        "name": "m.toml",
        "tests": "3",
        "failures": "1",
        "errors": "1",
        "skipped": "0",
        "time": "0.750",
    }


def test_the_reasons_of_failures_and_errors_are_in_the_xml(tmp_path: Path) -> None:
    """`outcomes_named` are a check of plain.npy that passed, which has no element in the XML, one
    that failed because of its shape, and one that could not read the file.
    """
    ((passed, failed, missing),) = junit_of_outcomes_named("plain.npy", tmp_path / "r.xml")

    assert len(passed) == 0
    failure_text = "plain.npy  2  its shape  the values themselves are equal"
    assert failed.find("failure").text == failure_text
    assert missing.find("error").text == "plain.npy: does not exist"


@pytest.mark.parametrize("name", ["plain.npy", *HOSTILE_TEXTS])
def test_the_message_of_a_failure_is_its_reason_in_one_line(name: str, tmp_path: Path) -> None:
    """JUnit's elements <failure> and <error> have an attribute `message`, which CI systems list, and
    a text. With one reason, both are the same: one line, even if the name has line breaks.
    """
    ((_, failed, missing),) = junit_of_outcomes_named(name, tmp_path / "r.xml")
    failure = failed.find("failure")
    error = missing.find("error")

    assert failure.text.endswith("  2  its shape  the values themselves are equal")
    assert error.text.endswith(": does not exist")
    for element in (failure, error):
        assert element.get("message") == element.text
        assert len(element.text.splitlines()) == 1


@pytest.mark.parametrize("name", ["plain.npy", "<&\"'>]]>", "%0A::x,y"])
def test_a_name_that_can_be_printed_is_read_back_from_the_xml(name: str, tmp_path: Path) -> None:
    """The file of a check has the name, and the name of the third check is NAME 2."""
    ((_, failed, missing),) = junit_of_outcomes_named(name, tmp_path / "r.xml")
    assert failed.get("file") == name
    assert missing.get("name") == f"{name} 2"


def test_files_without_a_manifest_have_a_suite_of_their_own(tmp_path) -> None:
    """One check is of the file a.npy, which was named on the command line; `outcomes_named` are
    three of the manifest m.toml.
    """
    plain = Outcome(
        Check("a.npy", lambda: PASSED_VERIFICATION), Verification("a.npy", "rope", ()), 0
    )
    write_junit(str(tmp_path / "r.xml"), [plain, *outcomes_named("b")])
    suites = ElementTree.parse(tmp_path / "r.xml").getroot()

    assert [(suite.get("name"), suite.get("tests")) for suite in suites] == [
        ("pecli verify", "1"),
        ("m.toml", "3"),
    ]
    assert suites.get("tests") == "4"
    assert suites[0][0].get("name") == "a.npy"


def unescaped(text: str) -> str:
    """Return the text of an annotation as GitHub reads it: %0A is a line break, for example."""
    escapes = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ","}
    for code, sign in escapes.items():
        text = text.replace(code, sign)
    # The sign % is last, so that %250A does not become a break.
    return text.replace("%25", "%")


LINE_BREAKS = re.compile("\r\n|[\n\x85\u2028]")
"""What Python's `str.splitlines` takes for the end of a line in HOSTILE_TEXTS."""


@pytest.mark.parametrize("name", ["plain.npy", *HOSTILE_TEXTS])
def test_a_name_with_any_characters_makes_one_annotation(name: str, monkeypatch) -> None:
    """GitHub reads `::error file=…,title=…::message` from one line, with the escapes of
    `unescaped`. Read back, file and title have the name that was given. In the message, line breaks
    of the name are spaces.

    Of `outcomes_named`, the first passed, and has no annotation; the third is a missing file.
    """
    lines: list[str] = []
    monkeypatch.setattr("builtins.print", lines.append)
    # `printable` writes control characters as «\x1b» in the end, which cannot be read back.
    monkeypatch.setattr("pecli.views.screen.printable", str)
    passed, _, missing = outcomes_named(name)
    annotate([passed, missing])
    (line,) = lines

    assert not {"\n", "\r"} & set(line)

    parts = re.fullmatch("::error file=(?P<file>.*?),title=(?P<title>.*?)::(?P<message>.*)", line)
    assert unescaped(parts["file"]) == name
    assert unescaped(parts["title"]) == f"pecli verify: {name} 2"

    name_in_one_line = LINE_BREAKS.sub(" ", name)
    assert unescaped(parts["message"]) == f"{name_in_one_line}: does not exist"


def test_annotations_name_the_file_without_its_tensor(tmp_path, capsys) -> None:
    """The check is of one tensor of a file, a.npz:cos. GitHub shows an annotation beside a file, so
    that its name is a.npz.
    """
    (tmp_path / "a.npz").write_bytes(b"")
    file = f"{tmp_path / 'a.npz'}:cos"
    outcome = Outcome(Check(file, lambda: PASSED_VERIFICATION), FileError(file, "is empty"), 0)
    annotate([outcome])

    assert f"file={tmp_path / 'a.npz'},title=" in capsys.readouterr().out


@pytest.mark.parametrize(("count", "summary"), [(1, "1 check: 1 error"), (2, "2 checks: 2 errors")])
def test_the_last_line_counts_checks_in_singular_or_plural(
    count: int, summary: str, capsys
) -> None:
    """The outcome is a file that could not be read, once and twice."""
    outcome = Outcome(Check("f", lambda: PASSED_VERIFICATION), FileError("f", "is empty"), 0.0)
    show_outcomes([outcome] * count)
    *_, row, last = capsys.readouterr().out.splitlines()

    assert row == "error   f      is empty"
    assert last == summary


def test_a_file_without_tables_that_was_named_alone_is_an_error(capsys) -> None:
    """An annotation of GitHub is `::error file=FILE,title=TITLE::MESSAGE`. Here the file is f, the
    title «pecli verify: f», whose colon is escaped as %3A, and the message «f: has none».
    """
    check = Check("f", lambda: PASSED_VERIFICATION, group="")
    annotate([Outcome(check, NoTablesError("f", "has none"), 0.0)])

    assert capsys.readouterr().out == "::error file=f,title=pecli verify%3A f::f: has none\n"


def test_a_file_without_tables_that_was_named_together_with_others_is_skipped(capsys) -> None:
    """`pecli verify *` names files of any kind, and those without tables are no errors. The group of
    a check is what named its file together with others, here the command line.
    """
    check = Check("f", lambda: PASSED_VERIFICATION, group="the command line")
    annotate([Outcome(check, NoTablesError("f", "has none"), 0.0)])

    assert capsys.readouterr().out == ""
