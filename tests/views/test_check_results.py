"""What checks found: as pictures (zero, errors, missing values), as a table of checks, as XML, as annotations."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

import pecli
from pecli.checks.run import Check, Outcome
from pecli.checks.verification import Verification
from pecli.compare.comparison import Comparison
from pecli.errors import FileError, ParameterError
from pecli.views import check_results
from pecli.views.pictures import palettes, terminal_render
from pecli.views.pictures.downsample import Reduction
from pecli.views.pictures.figure import render
from pecli.views.pictures.figure_files import encoded
from pecli.views.pictures.mistakes import comparison_picture, error_picture
from pecli.views.pictures.panels import Chart, Picture
from pecli.views.screen import Terminal
from tests.pixels import decoded


def drawn(a: np.ndarray, b: np.ndarray, **tolerance: float) -> Picture:
    return comparison_picture([pecli.diff(a, b, **tolerance)])


def pixels(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The pixels of the third column, left of its colour bar."""
    return decoded(encoded(render(drawn(a, b)))).astype(int)[50:380, 650:915]


def seen(area: np.ndarray, colour: palettes.Colour) -> int:
    return int((np.abs(area - np.array(colour)).max(axis=2) <= 2).sum())


A = np.sin(np.outer(np.arange(512), 10000.0 ** (-np.arange(64) / 64)))


def with_errors(**at: float) -> np.ndarray:
    b = A.copy()
    for name, value in at.items():
        row, column = map(int, name[1:].split("_"))
        b[row, column] += value
    return b


def test_expected_found_and_difference_have_these_numbers_limits_and_words() -> None:
    b = with_errors(_300_20=2.0, _10_3=1e-5)
    picture = drawn(A, b, atol=1e-3)
    one, other, apart = picture.heatmaps
    assert [panel.title for panel in picture.heatmaps] == ["array, A", "array, B", "difference"]
    reach = float(f"{np.abs(b).max():.3g}")
    assert one.limits == other.limits == (-reach, reach)
    np.testing.assert_array_equal(apart.values > 0, one.values != other.values)
    np.testing.assert_allclose(np.sort(apart.values[apart.values > 0]), [1e-5, 2.0], rtol=1e-9)
    np.testing.assert_allclose(apart.ends, (1e-5, 2.0), rtol=1e-9)
    assert apart.marked == ("tolerance", 1e-3)
    assert apart.reduction is Reduction.MAX
    assert apart.meaning == "|A − B|, none: blank"
    figure = render(picture)
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels[:3] == ["position (worst of 3 rows)", "", "position (maximum of 3 rows)"]
    assert "|A − B|, none: blank, line: tolerance 0.001" in labels
    assert "max error 2 at [300, 20]" in picture.title


def test_the_title_has_the_reason_and_what_is_left_out_is_named() -> None:
    right, wrong = pecli.Rope(64, 32, base=5e5), pecli.Rope(64, 32).tables()
    picture = comparison_picture([pecli.verify(wrong, right, atol=1e-3)])
    assert "FAILED. cos, sin, inv_freq: base is 10000 (the spec says 500000)" in picture.title
    charts = [panel for panel in picture.panels if isinstance(panel, Chart)]
    shown = [("inv_freq", True), ("difference", True)]
    assert [(chart.title, chart.log_y) for chart in charts] == shown, "a vector is lines"
    assert [level for _, level in charts[1].levels] == [1e-5]
    np.testing.assert_allclose(
        charts[1].curves[0].y, [np.nan, *(50 ** (np.arange(1, 16) / 16) - 1)], rtol=1e-9
    )
    assert [curve.x.tolist() for chart in charts for curve in chart.curves] == [[*range(16)]] * 3
    many = {f"t{k}": A[:9] for k in range(6)}
    others = {name: -array for name, array in many.items()} | {"bias": np.ones((2, 2))}
    left = comparison_picture([pecli.diff(many | {"bias": np.ones((3, 3))}, others)])
    shape = "bias (its shape is (2, 2) where (3, 3) is expected)"
    assert (len(left.heatmaps), left.subtitle) == (12, f"Left out: t4, t5, {shape}")
    result = pecli.diff(A, A)
    for files, title in (
        ({}, ""),
        ({"a": "x.npy"}, "A: x.npy"),
        ({"a": "x", "b": "y"}, "A: x, B: y"),
    ):
        picture = comparison_picture([replace(result, **files)])
        assert (picture.panels, picture.title, "all are equal" in picture.subtitle) == (
            [],
            title,
            True,
        )


def test_of_heads_the_worst_is_drawn_and_what_passed_is_named() -> None:
    zeros = {
        "bias": np.zeros((2, 4, 4)),
        "q": np.zeros((3, 5, 4)),
        "same": np.ones((3, 3)),
        "near": np.ones((2, 2)),
    }
    off = {
        "bias": np.stack([np.zeros((4, 4)), -np.eye(4)]),
        "q": np.eye(4)[[0, 1, 2, 3, 3]] * np.ones((3, 1, 1)),
    }
    picture = drawn(
        zeros, off | {"same": np.ones((3, 3)), "near": np.ones((2, 2)) + 1e-6}, atol=1e-3
    )
    titles = [panel.title for panel in picture.heatmaps if "worst" in panel.title]
    assert titles == ["difference, the worst of 2 heads", "difference, the worst of 3 matrices"]
    np.testing.assert_array_equal(picture.heatmaps[1].values, -np.eye(4))
    assert picture.subtitle == "Left out: same (no error)"
    assert (
        "found −1" not in picture.title
    )  # a picture holds plain text, and what draws it sets a minus
    assert "B −1" in render(picture).get_suptitle()


def test_pixels_of_zero_errors_and_missing_values() -> None:
    b = with_errors(_300_20=2.0)
    b[100:200] = np.nan
    area = pixels(A, b)
    assert seen(area, palettes.SEQUENTIAL[-1]) >= 1, (
        "one error among many has the colour of the largest"
    )
    assert (area == 255).mean() > 0.79, "no error is as blank as the paper"
    assert seen(area, palettes.UNKNOWN) > 10_000


@pytest.mark.parametrize("colours", [0, 256, 1 << 24])
def test_zero_is_blank_in_the_terminal(colours: int) -> None:
    a = np.zeros((4, 6))
    b = a.copy()
    b[0, 1], b[3, 2], b[2, 4] = 1e-6, 1.0, np.nan
    picture = error_picture(pecli.diff(a, b).tensors[0], 22, 80)
    assert picture is not None
    cells = terminal_render.lines(picture, Terminal(lines=16, colours=colours))
    shown = [line.partition("│")[2] for line in cells if "│" in line]
    bare = re.sub(r"\x1b\[[0-9;]*m", "", "".join(shown))
    assert len(set(bare) - {" "}) in ((3,) if not colours else (1, 2)), (
        "the smallest error, the largest, and a NaN"
    )
    assert bare.count(" ") >= 0.7 * len(bare)
    if colours:
        darkest = "48;2;18;16;58" if colours > 256 else f"48;5;{palettes.SEQUENTIAL_256[0]}"
        assert "".join(shown).count(darkest) <= 4, "no zero has the colour of the smallest error"
    assert "none: blank" in cells[-1]


EXACT = Verification("a", "rope", (Comparison("cos", (2, 2), 4),))
_DIFFERENT = Comparison(
    "cos", (2, 2), 4, "float32", "float32", 1, 0.5, 0.5, 7, 7, (1, 1), (1, 1), 0.0, 0.5
)
OFF = Verification("b", "rope", (_DIFFERENT,), reasons=("cos: matches if …",))
SHAPE = Verification(
    "c", "learned", (Comparison("wpe", (2, 2), 4, max_abs_error=None, max_ulp_error=None),)
)
_NOT_COMPARED = Comparison("x", (3,), 3, mismatched=None, max_abs_error=None, problem="its shape")
UNLIKE = Verification("d", "rope", (_NOT_COMPARED,))
RESULTS = [
    EXACT,
    OFF,
    SHAPE,
    UNLIKE,
    FileError("f", "does not exist"),
    ParameterError("offset", 3, "too far"),
]
RESULTS.append(FileError("config.json", "does not exist"))
OUTCOMES = [
    Outcome(Check("f", lambda: EXACT, f"check {k}", "m"), each, 0.0)
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


def test_checks_in_a_pipe_and_on_a_terminal(capsys, terminal) -> None:
    check_results.show_outcomes(OUTCOMES)
    assert capsys.readouterr().out == EXPECTED
    shown = terminal(200)
    check_results.show_outcomes(OUTCOMES)
    assert "\x1b[1;31mFAILED" in shown.getvalue()
    assert [line.rstrip() for line in shown.plain()] == EXPECTED.splitlines()


HOSTILE = [
    "<&\"'>]]>",
    "a\x1b[2Jb\x00",
    "two\nlines\r\n",
    "\udcff\ud800",
    "\ufffe\uffff",
    "é😀\x85\u2028",
    "%0A::x,y",
]


def outcomes(name: str) -> list[Outcome]:
    passed = Verification(name, "rope", (Comparison(name, (2, 2), 4),))
    failed = Verification(
        name, "rope", (Comparison(name, (2,), 2, problem="its shape"),), (f"{name}: its shape",)
    )
    results = [passed, failed, FileError(name, "does not exist")]
    return [Outcome(Check(name, lambda: passed, f"{name} {k}", "m.toml"), result, 0.25)
            for k, result in enumerate(results)]  # fmt: skip


@pytest.mark.parametrize("name", ["plain.npy", *HOSTILE])
def test_every_name_makes_xml(name: str, tmp_path) -> None:
    check_results.write_junit(str(tmp_path / "r.xml"), outcomes(name))
    suites = ElementTree.parse(tmp_path / "r.xml").getroot()
    assert suites.tag == "testsuites"
    (suite,) = suites
    assert {key: suite.get(key) for key in ("name", "tests", "failures", "errors", "skipped", "time")} == {
        "name": "m.toml", "tests": "3", "failures": "1", "errors": "1", "skipped": "0", "time": "0.750"
    }  # fmt: skip
    passed, failed, missing = suite
    assert len(passed) == 0
    assert (
        failed.find("failure").get("message") == failed.find("failure").text.split("\n  ")[0]
        or "\n" in name
    )
    assert "its shape" in failed.find("failure").text
    assert missing.find("error").text.endswith("does not exist")
    if name.isprintable() and "\ud800" not in name:
        assert failed.get("file") == name
        assert missing.get("name") == f"{name} 2"


def test_files_without_a_manifest_have_a_suite_of_their_own(tmp_path) -> None:
    plain = Outcome(Check("a.npy", lambda: EXACT), Verification("a.npy", "rope", ()), 0)
    check_results.write_junit(str(tmp_path / "r.xml"), [plain, *outcomes("b")])
    suites = ElementTree.parse(tmp_path / "r.xml").getroot()
    assert [(suite.get("name"), suite.get("tests")) for suite in suites] == [
        ("pecli verify", "1"),
        ("m.toml", "3"),
    ]
    assert suites.get("tests") == "4"
    assert suites[0][0].get("name") == "a.npy"


@pytest.mark.parametrize("name", ["plain.npy", *HOSTILE])
def test_every_name_makes_an_annotation(name: str, monkeypatch) -> None:
    def unescaped(text: str) -> str:
        for code, sign in (
            ("%0D", "\r"),
            ("%0A", "\n"),
            ("%3A", ":"),
            ("%2C", ","),
            ("%25", "%"),
        ):  # the last is last
            text = text.replace(code, sign)
        return text

    monkeypatch.setattr("pecli.views.screen.printable", str)
    monkeypatch.setattr("builtins.print", lambda line: lines.append(line))
    lines: list[str] = []
    check_results.annotate([outcomes(name)[0], outcomes(name)[2]])
    (line,) = lines
    assert not {"\n", "\r"} & set(line)
    found = re.fullmatch("::error file=(.*?),title=(.*?)::(.*)", line)
    title = f"pecli verify: {name} 2"
    assert [unescaped(part) for part in found.groups()] == [name, title, f"{name}: does not exist"]


def test_annotations_name_the_file_without_its_tensor(tmp_path, capsys) -> None:
    (tmp_path / "a.npz").write_bytes(b"")
    file = f"{tmp_path / 'a.npz'}:cos"
    outcome = Outcome(Check(file, lambda: EXACT), FileError(file, "is empty"), 0)
    check_results.annotate([outcome])
    assert f"file={tmp_path / 'a.npz'},title=" in capsys.readouterr().out
