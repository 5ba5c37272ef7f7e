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
from pecli.errors import FileError, NoTablesError, ParameterError
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
    """OUTCOMES are seven: two that passed, two that failed, and three errors. EXPECTED, the text of
    the table, is written by hand.
    """
    show_outcomes(OUTCOMES)
    assert capsys.readouterr().out == EXPECTED


def test_a_terminal_shows_the_same_table_of_checks_in_colour(turn_to_terminal) -> None:
    """OUTCOMES are seven of every kind, and EXPECTED their table without colours. The escape
    sequence 1;31 is bold and red.
    """
    shown = turn_to_terminal(200)
    show_outcomes(OUTCOMES)
    assert "\x1b[1;31mFAILED" in shown.getvalue()
    assert [line.rstrip() for line in shown.plain()] == EXPECTED.splitlines()


SHAPE = Verification(
    "c", "learned", (Comparison("wpe", (2, 2), 4, max_abs_error=None, max_ulp_error=None),)
)
_NOT_COMPARED = Comparison(
    "x", (3,), 3, mismatched=None, max_abs_error=None, finding=Stated("its shape")
)
UNLIKE = Verification("d", "rope", (_NOT_COMPARED,))
RESULTS = [
    PASSED_VERIFICATION,
    OFF,
    SHAPE,
    UNLIKE,
    FileError("f", "does not exist"),
    ParameterError("offset", 3, "too far"),
]
RESULTS.append(FileError("config.json", "does not exist"))
OUTCOMES = [
    Outcome(Check("f", lambda: PASSED_VERIFICATION, f"check {k}", "m"), each, 0.0)
    for k, each in enumerate(RESULTS)
]
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


@pytest.mark.parametrize("name", ["plain.npy", *HOSTILE_TEXTS])
def test_the_reasons_of_failures_and_errors_are_in_the_xml(name: str, tmp_path: Path) -> None:
    """Of `outcomes_named`, the first passed and has no text. The second failed for «its shape»; the
    message of a failure is the first line of its text. The third is a file that does not exist.
    """
    ((passed, failed, missing),) = junit_of_outcomes_named(name, tmp_path / "r.xml")
    failure = failed.find("failure")
    first_line, *_ = failure.text.split("\n  ")

    assert len(passed) == 0
    assert failure.get("message") == first_line or "\n" in name
    assert "its shape" in failure.text
    assert missing.find("error").text.endswith("does not exist")


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


@pytest.mark.parametrize("name", ["plain.npy", *HOSTILE_TEXTS])
def test_a_name_with_any_characters_makes_one_annotation(name: str, monkeypatch) -> None:
    """GitHub reads `::error file=…,title=…::message` from one line, with the escapes of
    `unescaped`. Read back, file and title have the name that was given. In the message, line breaks
    of the name are spaces.

    Of `outcomes_named`, the first passed, and has no annotation; the third is a missing file.
    """
    monkeypatch.setattr("pecli.views.screen.printable", str)
    monkeypatch.setattr("builtins.print", lambda line: lines.append(line))
    lines: list[str] = []
    annotate([outcomes_named(name)[0], outcomes_named(name)[2]])
    (line,) = lines

    assert not {"\n", "\r"} & set(line)

    found = re.fullmatch("::error file=(.*?),title=(.*?)::(.*)", line)
    title = f"pecli verify: {name} 2"
    assert unescaped(found[1]) == name
    assert unescaped(found[2]) == title

    one_line = re.sub("\r\n|[\n\x85\u2028]", " ", name)
    assert unescaped(found[3]) == f"{one_line}: does not exist"


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


def test_a_file_without_tables_is_an_error_unless_it_was_named_together_with_others(
    capsys,
) -> None:
    """`pecli verify *` names files of any kind, and those without tables are skipped: their checks
    have a group, «the command line». «::error» is an annotation of GitHub, in which %3A is a colon.
    """
    problem = NoTablesError("f", "has none")
    annotate([Outcome(Check("f", lambda: PASSED_VERIFICATION), problem, 0.0)])

    assert capsys.readouterr().out == "::error file=f,title=pecli verify%3A f::f: has none\n"

    annotate(
        [Outcome(Check("f", lambda: PASSED_VERIFICATION, group="the command line"), problem, 0.0)]
    )
    assert capsys.readouterr().out == ""
