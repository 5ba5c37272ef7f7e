"""Results of verify, diff and identify as text, and as pictures of expected and found values.

Tables are made wrong in a known way, so that the expected errors are the differences that the tests
themselves add. Sentences are the tool's own.
"""

import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.checks.diff import Difference
from pecli.checks.identify import Identification, Match
from pecli.checks.verification import Verification
from pecli.compare.comparison import Comparison
from pecli.engine.edits import Dtype, Layout, Transposed
from pecli.views import check_results, tensor_lines
from pecli.views.pictures import palettes, terminal_render
from pecli.views.pictures.downsample import Reduction
from pecli.views.pictures.figure import render
from pecli.views.pictures.figure_files import encoded
from pecli.views.pictures.mistakes import comparison_picture, error_picture
from pecli.views.pictures.panels import Chart, Level, Picture
from pecli.views.screen import Terminal
from pecli.views.show import show
from tests.pixels import decoded
from tests.views.problems import Stated


def comparison_picture_of(a: np.ndarray, b: np.ndarray, **tolerance: float) -> Picture:
    return comparison_picture([pecli.diff(a, b, **tolerance)])


def pixels_of_the_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the pixels (rows, columns, 3) of the third heatmap, without anything around it.

    A picture of a comparison has the heatmaps A, B and their difference. The pixels at the edges of
    the third one, which may be mixed with the paper, are left out.
    """
    figure = render(comparison_picture_of(a, b), dpi=100)
    image = decoded(encoded(figure, dpi=100)).astype(int)
    heatmap = figure.axes[2].bbox
    top, bottom = round(len(image) - heatmap.y1), round(len(image) - heatmap.y0)
    left, right = round(heatmap.x0), round(heatmap.x1)
    return image[top + 2 : bottom - 2, left + 2 : right - 2]


def share_of(colour: palettes.Colour, pixels: np.ndarray) -> float:
    """Return the share of pixels that have a colour, give or take 2 of 255 by interpolation."""
    has_colour = np.abs(pixels - np.array(colour)).max(axis=2) <= 2
    return float(has_colour.mean())


TABLE_512_BY_64 = np.sin(np.outer(np.arange(512), 10000.0 ** (-np.arange(64) / 64)))


def with_errors(errors: dict[tuple[int, int], float]) -> np.ndarray:
    """Return TABLE_512_BY_64 with these numbers added to its elements [row, column]."""
    b = TABLE_512_BY_64.copy()
    for place, error in errors.items():
        b[place] += error
    return b


def test_the_map_of_a_difference_shows_one_error_and_missing_values_on_white() -> None:
    """Of 512 rows, 100 to 199 are NaN, which is grey: 100 / 512 = 19.5 % of the map. The element
    [300, 20] is off by 2; as the only error it has the last, brightest colour of the palette. The
    other 80.5 % are white. A ring around the error and the rows of pixels take less than 1 %.
    """
    b = with_errors({(300, 20): 2.0})
    b[100:200] = np.nan
    pixels = pixels_of_the_difference(TABLE_512_BY_64, b)

    assert share_of(palettes.UNKNOWN, pixels) == pytest.approx(100 / 512, abs=0.01)
    assert share_of((255, 255, 255), pixels) == pytest.approx(412 / 512, abs=0.01)
    assert 0 < share_of(palettes.SEQUENTIAL[-1], pixels) < 0.01


def lines_about_three_errors(colours: int) -> list[str]:
    """Return the picture, in a terminal of so many colours, of 4 × 6 cells, three of which have an
    error: the smallest (1e-6), the largest (1), and a NaN.

    In colours it is drawn as follows, between «│» and the right end; ▀ and ▄ have two colours each,
    and 10 lines for 4 rows are 2 and a half lines per cell.

          │          ▀▀▀▀▀▀▀▀▀▀
        0 │          ▀▀▀▀▀▀▀▀▀▀
          │          ▀▀▀▀▀▀▀▀▀▀
        1 │
          │
          │                                        ▀▀▀▀▀▀▀▀▀▀
        2 │                                        ▀▀▀▀▀▀▀▀▀▀
          │                    ▄▄▄▄▄▄▄▄▄▄          ▀▀▀▀▀▀▀▀▀▀
        3 │                    ▀▀▀▀▀▀▀▀▀▀
          │                    ▀▀▀▀▀▀▀▀▀▀
          └────────────────────────────────────────────────────────────
    """
    a = np.zeros((4, 6))
    b = a.copy()
    b[0, 1] = 1e-6
    b[3, 2] = 1.0
    b[2, 4] = np.nan
    picture = error_picture(pecli.diff(a, b, reasons=False).tensors[0], rows=22, columns=80)
    assert picture is not None
    return terminal_render.lines(picture, Terminal(lines=16, colours=colours))


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def lines_of_cells(lines: list[str]) -> list[str]:
    """Return what stands right of the vertical axis, │, without its colours and equally long."""
    cells = [without_colours(line).partition("│")[2] for line in lines if "│" in line]
    (axis,) = [line.partition("└")[2] for line in lines if "└" in line]
    return [line.ljust(len(axis)) for line in cells]


@pytest.mark.parametrize("colours", [0, 256, 1 << 24], ids=["grey", "256 colours", "all colours"])
def test_cells_without_an_error_are_blank_in_a_terminal(colours: int) -> None:
    """Of 6 columns of cells, 0, 3 and 5 have no error, and are blanks from top to bottom. The others
    have one in a cell of four, so that more than half of each is blank. The last line explains it.
    """
    lines = lines_about_three_errors(colours)
    characters = np.array([list(line) for line in lines_of_cells(lines)])
    is_blank_by_column = np.split(characters == " ", 6, axis=1)
    blank_shares = [is_blank.mean() for is_blank in is_blank_by_column]

    for column_without_error in (0, 3, 5):
        assert blank_shares[column_without_error] == 1
    for column_with_error in (1, 2, 4):
        assert 0.5 < blank_shares[column_with_error] < 1
    assert "none: blank" in lines[-1]


def test_small_large_and_undefined_errors_are_three_characters_without_colours() -> None:
    """Cells with the errors 1e-6, 1 and NaN are ░, █ and x; blanks stand for no error."""
    text = "".join(lines_of_cells(lines_about_three_errors(colours=0)))
    assert set(text) == {" ", "░", "█", "x"}


@pytest.mark.parametrize("colours", [256, 1 << 24], ids=["256 colours", "all colours"])
def test_errors_are_half_blocks_in_colours(colours: int) -> None:
    """A character shows two cells, one above the other: ▀ has the colour of the upper one on that of
    the lower one. If only the lower one has an error, the character is ▄.
    """
    text = "".join(lines_of_cells(lines_about_three_errors(colours)))
    assert set(text) == {" ", "▀", "▄"}


@pytest.mark.parametrize(
    ("colours", "darkest"),
    [
        pytest.param(256, "5;17", id="256 colours: number 17"),
        pytest.param(1 << 24, "2;18;16;58", id="all colours: red 18, green 16, blue 58"),
    ],
)
def test_the_darkest_colour_is_that_of_the_smallest_error_only(colours: int, darkest: str) -> None:
    """The palette begins with its darkest colour, a blue. The only cell that has it is [0, 1], with
    the error 1e-6: its two and a half lines are the first three, of which the last has only the
    upper half, and so no dark background.
    """
    lines = [line for line in lines_about_three_errors(colours) if "│" in line]
    with_dark_characters = [k for k, line in enumerate(lines) if f"\x1b[38;{darkest}m" in line]
    with_dark_background = [k for k, line in enumerate(lines) if f"\x1b[48;{darkest}m" in line]

    assert palettes.SEQUENTIAL_256[0] == 17
    assert palettes.SEQUENTIAL[0] == (18, 16, 58)
    assert with_dark_characters == [0, 1, 2]
    assert with_dark_background == [0, 1]


def printed_lines(show: Callable[..., None], *arguments: Any) -> list[str]:
    with redirect_stdout(io.StringIO()) as output:
        show(*arguments)
    return output.getvalue().splitlines()


def off_by_half(worst_ulp: int) -> Comparison:
    """A tensor of two elements, the second of which is 0.5 instead of 0."""
    return Comparison(
        "cos",
        (2,),
        2,
        "float32",
        "float32",
        mismatched=1,
        max_abs_error=0.5,
        max_rel_error=0.5,
        max_ulp_error=2**31,
        worst_ulp=worst_ulp,
        worst_index=(1,),
        first_index=(1,),
        expected=0.0,
        found=0.5,
    )


@pytest.mark.parametrize(("worst_ulp", "units"), [(7, " (7 ulp)"), (2**31, "")])
def test_the_worst_element_has_its_ulps_unless_they_are_too_many(
    worst_ulp: int, units: str
) -> None:
    """The element [1] of two is 0.5 instead of 0. The line about it has its error in units of the
    last place, `worst_ulp`, unless that is more than a million.
    """
    tensor = off_by_half(worst_ulp)
    assert not tensor.passed

    line = tensor_lines.line_parts(tensor, tensor_lines.VERIFIED)[-1]
    assert line == f"max error 0.5{units} at [1]: expected 0, found 0.5"


@pytest.mark.parametrize(("count", "text"), [(None, ""), (10**6, "1,000,000 ulp"), (10**6 + 1, "")])
def test_ulps_are_shown_up_to_a_million(count: int | None, text: str) -> None:
    """A larger distance in units of the last place (ULPs) adds nothing to the error itself. None
    means that it was not measured.
    """
    assert tensor_lines.units(count) == text


@pytest.mark.parametrize(
    ("expected", "found", "shown"),
    [
        (1.0, 1.0000001, "expected 1, found 1.0000001"),
        (0.5, 0.5, "expected 0.5, found 0.5"),
        (1.0, 1.0 + 2.0**-52, "expected 1, found 1.0000000000000002"),
        (None, 2, "expected None, found 2"),
    ],
)
def test_values_have_as_many_digits_as_distinguish_them(
    expected: float | None, found: float, shown: str
) -> None:
    """The line about the worst element shows the expected and the found value in the fewest digits
    that distinguish them; 1 + 2^−52 is the double after 1.
    """
    tensor = replace(off_by_half(7), expected=expected, found=found)
    assert tensor_lines.worst_element(tensor, tensor_lines.VERIFIED).endswith(f": {shown}")


def test_inputs_that_are_not_finite_prove_nothing() -> None:
    """Queries of 4 positions and 128 channels are NaN before and after the rotation. The line about
    the tensor counts 4 · 128 = 512 values that are not numbers, instead of a pass.
    """
    values = np.full((4, 128), np.nan, np.float32)
    result = pecli.verify(values, "llama-3.1-8b", before=values)

    line_of_tensor = str(result).splitlines()[-1]
    assert line_of_tensor.startswith("  array  4 × 128  512 of its values before ")


def test_a_learned_table_of_zeros_fails() -> None:
    """The table has the shape of GPT-2's, 1024 positions of 768 channels. Its values are learned,
    so that any are accepted, except a table of zeros: its weights were never loaded.
    """
    result = pecli.verify({"wpe.weight": np.zeros((1024, 768))}, "gpt2")
    assert str(result).endswith("all its values are 0")


def lines_about_a_tensor(finding: str) -> list[str]:
    """Return the lines about a tensor x of 2 elements, below the line about its file."""
    tensor = Comparison("x", (2,), 2, mismatched=None, max_abs_error=None, finding=Stated(finding))
    result = Verification("f", "rope", (tensor,))
    _, *lines = printed_lines(check_results.show_verification, result)
    return lines


LONGEST_FINDING = 96 - len("x  2  ")
"""Letters of a finding that fits behind a name and a shape: lines have an indent and 96 columns."""


def test_a_line_of_96_columns_about_a_tensor_is_not_broken() -> None:
    """A line about a tensor has an indent of 2 and after it at most 96 columns: the name (x), the
    shape (2) and a finding. One of LONGEST_FINDING = 90 letters just fits.
    """
    finding = "p" * LONGEST_FINDING
    assert lines_about_a_tensor(finding) == [f"  x  2  {finding}"]


def test_a_longer_line_about_a_tensor_is_broken_between_its_parts() -> None:
    """The finding is one letter longer than what fits beside the name (x) and the shape (2) in 96
    columns; it continues below, with a larger indent.
    """
    finding = "p" * (LONGEST_FINDING + 1)
    assert lines_about_a_tensor(finding) == ["  x  2", f"      {finding}"]


def test_no_line_per_tensor_is_printed_about_two_forms_of_a_model() -> None:
    """A model folder and the .gguf file made of it are two forms of one model. Of their difference,
    the number of layers (`forms`) and the reasons (`diagnosis`) are printed; the line about the
    tensor, «blk.0.attn_q  2  values differ», is not.
    """
    tensor = Comparison("blk.0.attn_q", shape=(2,), size=2, finding=Stated("values differ"))
    result = Difference(
        a="folder",
        b="model.gguf",
        tensors=(tensor,),
        diagnosis=("the rows of queries are permuted",),
        forms="of 2 layers",
    )

    assert printed_lines(check_results.show_difference, result) == [
        "DIFFERENT  A: folder  B: model.gguf",
        "  of 2 layers",
        "  the rows of queries are permuted",
    ]


def test_str_of_a_result_is_the_output_of_the_command() -> None:
    """`str()` of a verification has, as `pecli verify` prints, the verdict, what was verified and
    the scheme in its first line.
    """
    rope = pecli.Rope(4, 8)
    assert str(pecli.verify(rope.tables(), rope)).splitlines()[0] == "passed  arrays  rope"


def test_an_object_without_a_view_is_refused() -> None:
    """`show` prints pecli's own results, such as verifications; a dict has no view."""
    with pytest.raises(TypeError, match="cannot show a dict"):
        show({})


def heatmaps_of_two_errors() -> Picture:
    """Return a picture of a table of 512 × 64: [300, 20] is off by 2, and [10, 3] by 1e-5."""
    b = with_errors({(300, 20): 2.0, (10, 3): 1e-5})
    return comparison_picture_of(TABLE_512_BY_64, b, atol=1e-3)


def test_both_sides_of_a_difference_have_one_scale() -> None:
    """`heatmaps_of_two_errors` draws A, B = A with two errors, and the difference. The ends of the
    colours of both sides are the largest magnitude of B, which has the larger, in three digits.
    """
    left, right, _ = heatmaps_of_two_errors().heatmaps
    largest = np.abs(with_errors({(300, 20): 2.0, (10, 3): 1e-5})).max()
    end = float(f"{largest:.3g}")

    assert left.title == "array, A"
    assert right.title == "array, B"
    assert left.limits == (-end, end)
    assert right.limits == (-end, end)


def test_only_wrong_elements_have_a_colour_in_the_difference() -> None:
    """`heatmaps_of_two_errors` draws tables that differ by 1e-5 and by 2, in one element each. The
    cells of the third heatmap are maxima, so that no error is averaged away.
    """
    left, right, difference = heatmaps_of_two_errors().heatmaps
    has_colour = difference.values > 0

    assert difference.title == "difference"
    assert difference.reduction is Reduction.MAX
    np.testing.assert_array_equal(has_colour, left.values != right.values)
    np.testing.assert_allclose(np.sort(difference.values[has_colour]), [1e-5, 2.0], rtol=1e-9)


def test_the_difference_has_a_logarithmic_scale_with_the_tolerance() -> None:
    """`heatmaps_of_two_errors` draws tables that differ by 1e-5 and by 2, which are the ends of the
    scale; the tolerance that was given is 1e-3.
    """
    difference = heatmaps_of_two_errors().heatmaps[2]
    assert difference.log
    np.testing.assert_allclose(difference.ends, (1e-5, 2.0), rtol=1e-9)
    assert difference.marked == Level("tolerance", 1e-3)
    assert difference.meaning == "|A − B|, none: blank"


def test_a_figure_of_a_difference_states_what_its_rows_and_colours_are() -> None:
    """A comparison is drawn in at most 192 cells below each other: of 512 rows, a cell stands for
    512 / 192 = 2.7, which is rounded to 3. In A and B it shows the value of the row that is farthest
    off (worst), and in the difference the largest error (maximum). B has the axis of A, and no name.
    """
    figure = render(heatmaps_of_two_errors())
    a, b, difference, *colour_bars = [axes.get_ylabel() for axes in figure.axes]

    assert a == "position (worst of 3 rows)"
    assert b == ""
    assert difference == "position (maximum of 3 rows)"
    assert "|A − B|, none: blank, line: tolerance 0.001" in colour_bars


def test_the_title_of_a_difference_has_its_worst_element() -> None:
    """Of the two errors that were added to the table, the larger one, 2 at [300, 20], is in the
    title.
    """
    assert "max error 2 at [300, 20]" in heatmaps_of_two_errors().title


def picture_of_another_base() -> Picture:
    """Return the picture of tables of base 10000, verified against base 500000, for 16 pairs."""
    right = pecli.Rope(64, 32, base=5e5)
    return comparison_picture([pecli.verify(pecli.Rope(64, 32).tables(), right, atol=1e-3)])


def test_the_title_of_a_failure_has_the_reason() -> None:
    """`picture_of_another_base` is of tables of base 10000 that were verified against base 500000,
    which fails for the cosines, the sines and the frequencies.
    """
    reason = "FAILED. cos, sin, inv_freq: base is 10000 (the spec says 500000)"
    assert reason in picture_of_another_base().title


def charts_of_another_base() -> tuple[Chart, Chart]:
    """Return the charts of the frequencies, expected beside found, and of their difference."""
    frequencies, difference = [
        panel for panel in picture_of_another_base().panels if isinstance(panel, Chart)
    ]
    return frequencies, difference


def test_frequencies_are_drawn_as_curves_on_logarithmic_axes() -> None:
    """A table is a heatmap; inv_freq has one axis, the 16 pairs. 1e-5 is the tolerance of all
    frequencies, which is a level of the chart of the difference.
    """
    frequencies, difference = charts_of_another_base()

    assert frequencies.title == "inv_freq"
    assert frequencies.log_y
    assert difference.title == "difference"
    assert difference.log_y
    assert [level.value for level in difference.levels] == [1e-5]
    for curve in (*frequencies.curves, *difference.curves):
        assert curve.x.tolist() == list(range(16))


def test_the_difference_of_frequencies_is_relative() -> None:
    """Pair i of 16 is 10000^(−i/16) instead of 500000^(−i/16): a relative error of 50^(i/16) − 1,
    which is 0 for pair 0, and 0 has no place on a logarithmic axis.
    """
    _, difference = charts_of_another_base()
    (errors,) = difference.curves

    expected = [np.nan, *(50 ** (np.arange(1, 16) / 16) - 1)]
    np.testing.assert_allclose(errors.y, expected, rtol=1e-9)


def test_tensors_beyond_the_fourth_are_named_in_the_caption() -> None:
    """Of the tensors t0 to t5, the first four are drawn, with three heatmaps each: expected, found
    and difference. A bias of another shape cannot be drawn.
    """
    right = {f"t{k}": TABLE_512_BY_64[:9] for k in range(6)}
    wrong = {name: -array for name, array in right.items()}
    right["bias"] = np.ones((3, 3))
    wrong["bias"] = np.ones((2, 2))
    picture = comparison_picture([pecli.diff(right, wrong)])

    assert len(picture.heatmaps) == 4 * 3
    shape = "bias (its shape is (2, 2) where (3, 3) is expected)"
    assert picture.subtitle == f"Ring: the largest error of a table. Left out: t4, t5, {shape}"


@pytest.mark.parametrize(
    ("files", "title"),
    [({}, ""), ({"a": "x.npy"}, "A: x.npy"), ({"a": "x", "b": "y"}, "A: x, B: y")],
    ids=["arrays", "a file and an array", "two files"],
)
def test_a_picture_of_equal_tables_is_a_sentence(files: dict[str, str], title: str) -> None:
    """A table is compared with itself: there is no error to draw. The title has the names of the
    files A and B; arrays have none.
    """
    result = pecli.diff(TABLE_512_BY_64, TABLE_512_BY_64)
    picture = comparison_picture([replace(result, **files)])

    assert picture.panels == []
    assert picture.title == title
    assert "all are equal" in picture.subtitle


def picture_of_heads() -> Picture:
    """Return a picture of a bias and queries, of which some heads or matrices are wrong.

    The second of two heads of the bias is −1 on its diagonal instead of 0; `same` is equal, and
    `near` is 1e-6 off, which is within the tolerance.
    """
    right = {
        "bias": np.zeros((2, 4, 4)),
        "q": np.zeros((3, 5, 4)),
        "same": np.ones((3, 3)),
        "near": np.ones((2, 2)),
    }
    wrong = {
        "bias": np.stack([np.zeros((4, 4)), -np.eye(4)]),
        "q": np.eye(4)[[0, 1, 2, 3, 3]] * np.ones((3, 1, 1)),
        "same": np.ones((3, 3)),
        "near": np.ones((2, 2)) + 1e-6,
    }
    return comparison_picture_of(right, wrong, atol=1e-3)


def test_of_several_heads_the_worst_element_is_drawn() -> None:
    """`picture_of_heads` is of a bias with 2 heads, of which the second is −1 on its diagonal
    instead of 0, and of queries q with 3 matrices. A cell shows the worst element over all heads:
    panel 1, the bias that was found, is −1 on the diagonal and 0 elsewhere.
    """
    heatmaps = picture_of_heads().heatmaps
    titles = [panel.title for panel in heatmaps if "worst" in panel.title]

    assert titles == ["difference, the worst of 2 heads", "difference, the worst of 3 matrices"]
    np.testing.assert_array_equal(heatmaps[1].values, -np.eye(4))


def test_equal_tensors_are_named_in_the_caption() -> None:
    """In `picture_of_heads`, the tensor «same» is equal in both files, and so has no heatmap.
    «near» is off by less than the tolerance; it has one.
    """
    caption = "Ring: the largest error of a table. Left out: same (no error)"
    assert picture_of_heads().subtitle == caption


def test_numbers_of_a_drawn_title_have_a_minus_sign() -> None:
    """The title of a comparison states its worst element. A is zero, and B is −1 on its diagonal:
    in the text of a picture, this is «-1» with a hyphen; the figure draws a minus.
    """
    picture = comparison_picture_of({"x": np.zeros((4, 4))}, {"x": -np.eye(4)}, atol=1e-3)

    assert picture.title == "x: max error 1 at [0, 0]: A 0, B -1"
    assert render(picture).get_suptitle() == "x: max error 1 at [0, 0]: A 0, B −1"


MATCH = Match(pecli.Rope(4, 8), 1.5e-8, ("cos", "sin"))
MATCH_LINES = [
    "  cos, sin: rope, recipe exact, max error 1.5e-8",
    "  seq_len=4  dim=8  base=10000  offset=0  layout=compact  scaling=none  dtype=float32",
]
COMMAND = "pecli rope --seq-len 4 --dim 8 -o again.safetensors"


def lines_about_match(match: Match) -> list[str]:
    """Return what `pecli identify` prints about a file «f» with one match."""
    return printed_lines(check_results.show_identification, Identification("f", (match,)))


def test_a_match_is_printed_with_its_command() -> None:
    """MATCH is a rope of 4 positions and 8 channels, and MATCH_LINES the two lines about it. The
    command is the whole last line, so that it can be copied.
    """
    assert lines_about_match(MATCH) == ["identified  f", *MATCH_LINES, COMMAND]


@pytest.mark.parametrize(
    ("runtimes", "line"),
    [
        (("vllm",), "  as vllm computes it"),
        (("vllm", "sglang"), "  as vllm and sglang compute it"),
    ],
    ids=["a runtime", "two runtimes"],
)
def test_a_match_has_the_runtimes_that_make_such_tables(
    runtimes: tuple[str, ...], line: str
) -> None:
    """The line stands between those about the scheme and the command."""
    match = replace(MATCH, runtimes=runtimes)
    assert lines_about_match(match) == ["identified  f", *MATCH_LINES, line, COMMAND]


@pytest.mark.parametrize(
    ("difference", "line"),
    [
        pytest.param(
            Layout("compact", "stacked"),
            "  in the file: layout is stacked",
            id="the command makes the same numbers, in two tables",
        ),
        pytest.param(
            Transposed((1, 0)),
            "  in the file: the table is transposed; the command makes the table without that",
            id="the command makes another table",
        ),
        pytest.param(
            Dtype("bfloat16"),
            "  in the file: rounded to bfloat16; the command makes the table without that",
            id="the command rounds to float32",
        ),
    ],
)
def test_a_match_states_how_the_file_stores_the_table_of_the_command(
    difference: Dtype | Layout | Transposed, line: str
) -> None:
    """A file may have cosines and sines stacked in one array. The command makes these as two tables,
    which is no difference in the rows and columns. It cannot make a transposed table (positions as
    columns), and the line warns of that.
    """
    match = replace(MATCH, edits=(difference,))
    assert lines_about_match(match) == ["identified  f", *MATCH_LINES, line, COMMAND]


def test_a_match_has_a_line_for_each_parameter_that_is_not_determined() -> None:
    """The numbers of a small table may be those of several schemes."""
    match = replace(MATCH, undetermined=("base may also be 2", "dim is open"))
    lines = ["  not determined: base may also be 2", "  not determined: dim is open"]
    assert lines_about_match(match) == ["identified  f", *MATCH_LINES, *lines, COMMAND]


def test_the_recipe_of_a_match_is_beside_its_error() -> None:
    """MATCH has a largest error of 1.5e-8. The recipe, here float32, is not repeated among the
    parameters of the scheme.
    """
    match = replace(MATCH, scheme=pecli.Rope(4, 8, recipe="float32"))
    _, first, parameters, *_ = printed_lines(
        check_results.show_identification, Identification("f", (match,))
    )
    assert first == "  cos, sin: rope, recipe float32, max error 1.5e-8"
    assert "recipe" not in parameters


def test_a_command_that_is_too_long_is_not_printed() -> None:
    """This longrope has two lists of 64 factors, most of them with 16 digits."""
    factors = tuple(1.0 + k / 7 for k in range(64))
    scheme = pecli.Rope(
        4,
        128,
        scaling="longrope",
        short_factor=factors,
        long_factor=factors,
        original_max_position_embeddings=2,
        attention_factor=1.0,
    )
    match = replace(MATCH, scheme=scheme)
    last = printed_lines(check_results.show_identification, Identification("f", (match,)))[-1]

    assert last == f"  its command has {len(match.command):,} letters: --json prints it"


@pytest.mark.parametrize(
    ("matches", "description", "lines"),
    [
        ((), ("x: 2 × 2",), ["not identified  f", "  x: 2 × 2"]),
        (
            (MATCH,),
            ("y: 3",),
            ["partly identified  f", *MATCH_LINES, COMMAND, "  y: 3"],
        ),
    ],
    ids=["nothing", "some tensors"],
)
def test_tensors_that_are_not_identified_are_described(
    matches: tuple[Match, ...], description: tuple[str, ...], lines: list[str]
) -> None:
    """A file of which nothing was identified, and one of which the tensor y was not: its shape, 3,
    is printed. MATCH, MATCH_LINES and COMMAND are what was identified.
    """
    result = Identification("f", matches, description)
    assert printed_lines(check_results.show_identification, result) == lines


EQUAL = Comparison("x", (2,), 2)
NEAR = replace(EQUAL, max_abs_error=1e-9, worst_index=(1,), expected=0.0, found=1e-9)
"""Tensors of two elements: x without errors, and x with an error of 1e-9 within the tolerance."""


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        pytest.param(Difference("a", "", (EQUAL,)), "equal", id="all elements equal"),
        pytest.param(Difference("a", "", (EQUAL, NEAR)), "within tolerance", id="an error of 1e-9"),
        pytest.param(
            Difference("a", "", (EQUAL,), forms="of 2 layers"),
            "same model",
            id="two forms of a model, such as a checkpoint and its GGUF",
        ),
        pytest.param(
            Difference("a", "", (EQUAL,), diagnosis=("y is missing",)),
            "DIFFERENT",
            id="a tensor is missing",
        ),
        pytest.param(Difference("a", "", (off_by_half(7),)), "DIFFERENT", id="0.5 instead of 0"),
    ],
)
def test_a_difference_begins_with_its_verdict(result: Difference, verdict: str) -> None:
    """The file «a» was compared with arrays, which have no name. An error within the tolerance is
    no difference, but not equality either.
    """
    first_line, *_ = printed_lines(check_results.show_difference, result)
    assert first_line == f"{verdict}  A: a  B: arrays"


def lines_below_verdict(result: Difference) -> list[str]:
    _, *lines = printed_lines(check_results.show_difference, result)
    return lines


def test_a_difference_has_a_line_per_tensor_below_its_reasons() -> None:
    """`diagnosis` are the reasons why files differ, here a tensor y that is only in one of them."""
    result = Difference("a", "", (EQUAL, NEAR), diagnosis=("y is missing",))
    assert lines_below_verdict(result) == [
        "  y is missing",
        "  x  2  every element is equal",
        "  x  2  0 of 2 out of tolerance  max error 1e-9 at [1]: A 0, B 1e-09",
    ]


def test_a_difference_without_a_reason_ends_with_advice() -> None:
    """`off_by_half` is 0.5 instead of 0 at one of two places, which nothing explains."""
    *lines_of_tensors, advice = lines_below_verdict(Difference("a", "", (off_by_half(7),)))

    assert len(lines_of_tensors) == 1
    assert advice == (
        "  no known transform maps A to B; pecli identify may say what each of them is"
    )


def test_two_forms_of_a_model_that_agree_have_no_lines_of_tensors() -> None:
    """There may be thousands; `forms` sums them up."""
    assert lines_below_verdict(Difference("a", "", (EQUAL,), forms="of 2 layers")) == [
        "  of 2 layers"
    ]


def test_weaknesses_and_unchecked_tensors_are_listed() -> None:
    """A verification of arrays passed by 2 rows only, which is weak, and left y and z out. A strict
    check calls it WEAK.
    """
    result = Verification("", "rope", (EQUAL,), weak=("2 rows",), unchecked=("y", "z"))
    assert printed_lines(check_results.show_verification, result) == [
        "passed  arrays  rope",
        "  weak: 2 rows",
        "  x  2, exact",
        "  not checked: y, z",
    ]
    status, *_ = printed_lines(check_results.show_verification, result, "weak")
    assert status == "WEAK  arrays  rope"
