"""Pictures in a terminal: arrays and curves that are known become characters that are written down here.

Terminals have 2^24 colours, 256 colours, none, or no Unicode.
"""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.views.pictures import palettes, terminal_heatmap, terminal_render
from pecli.views.pictures.downsample import Reduction
from pecli.views.pictures.panels import Chart, Curve, HeatmapPanel, Level, Picture
from pecli.views.screen import Terminal, terminal
from tests.views.pictures.drawing import CASES, SCHEMES, TERMINALS, drawn_picture, without_colours

TERMINAL_OF_ALL_COLOURS, TERMINAL_OF_256_COLOURS, GREY_TERMINAL, ASCII_TERMINAL = TERMINALS.values()
POSITIONS_0_TO_200 = np.arange(201.0)


def heatmap_lines(values: np.ndarray, kind: Terminal, title: str = "", **how: Any) -> list[str]:
    return terminal_render.lines(Picture(title, [HeatmapPanel("", values, **how)]), kind)


def curve_lines(
    lines: list[Curve], kind: Terminal = GREY_TERMINAL, title: str = "", **how: Any
) -> list[str]:
    return terminal_render.lines(Picture(title, [Chart("", lines, **how)]), kind)


FOREGROUND = 38  # «ESC[38;2;255;0;0m» begins red characters,
BACKGROUND = 48  # and «ESC[48;2;255;0;0m» a red background; «ESC[0m» ends both.


def colours_of_half_blocks(line: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the two colours of every «▀» of a line, the upper and the lower one.

    The upper half is the character, and the lower one its background. A colour is (red, green,
    blue), or the number of one of 256, as an escape sequence before the character sets it.
    """
    colours: dict[int, tuple[int, ...]] = {}
    shown = []
    for escape, character in re.findall(r"\x1b\[([0-9;]*)m|(.)", line):
        if character == "▀":
            shown.append((colours[FOREGROUND], colours[BACKGROUND]))
        elif escape:
            ground, *code = map(int, escape.split(";"))  # 38;2;255;0;0 → 38, [2, 255, 0, 0]
            colours[ground] = tuple(code[1:])
    return shown


def lines_inside_axes(shown: list[str]) -> list[str]:
    return [re.split("[│|]", line, maxsplit=1)[1] for line in shown if "│" in line or "|" in line]


def braille_dots(lines: list[str]) -> np.ndarray:
    """Return the dots inside the axes: True where there is one.

    A character of braille has 4 rows and 2 columns of dots. Unicode numbers the characters from
    0x2800 on, by 8 bits for the dots at `places` (row, column).
    """
    inside = lines_inside_axes(without_colours(lines))
    grid = np.zeros((4 * len(inside), 2 * max(map(len, inside))), bool)
    places = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (3, 0), (3, 1)]
    for row, line in enumerate(inside):
        for column, character in enumerate(line):
            if character == " ":
                continue
            bits = ord(character) - 0x2800
            for bit, (down, right) in enumerate(places):
                grid[4 * row + down, 2 * column + right] = (bits >> bit) & 1
    return grid


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.parametrize("terminal", [*TERMINALS.values(), Terminal(120, 40)])
@pytest.mark.sample(12)
def test_every_kind_of_picture_fits_every_terminal_and_uses_its_colours_only(
    name: str, kind: str, terminal: Terminal
) -> None:
    """CASES are all schemes with the kinds of pictures that they have. A picture has at most as
    many columns as the terminal, and leaves one line for the prompt.

    «38;5;N» selects one of 256 colours, «38;2;R;G;B» any of 2^24; a terminal without colours gets
    no such sequence, and one without Unicode gets ASCII.
    """
    if kind == "circle":  # No terminal draws circles.
        return
    shown = terminal_render.lines(drawn_picture(kind, SCHEMES[name], titled=True), terminal)

    assert max(map(len, without_colours(shown))) <= terminal.columns
    assert len(shown) <= terminal.lines - 1
    assert without_colours(shown)[0].startswith(name)

    spelled = {0: set(), 256: {"5"}}.get(terminal.colours, {"2"})
    assert {*re.findall(r"\x1b\[[34]8;(\d)", "".join(shown))} == spelled
    assert terminal.unicode or "".join(shown).isascii()


@pytest.mark.parametrize(
    ("terminal", "is_beside"),
    [(Terminal(80, 24), True), (Terminal(60, 24), False), (Terminal(80, 10), True)],
    ids=["80 columns", "60 columns", "10 lines"],
)
def test_charts_lie_beside_each_other_if_there_is_room(terminal: Terminal, is_beside: bool) -> None:
    """A chart needs 36 columns beside another. The picture «decay» has two, of scores and of the
    bound of Su et al., whose titles are in one line if they lie beside each other.
    """
    lines = terminal_render.lines(drawn_picture("decay", SCHEMES["rope"]), terminal)
    lines_of_both_titles = [
        line for line in lines if "score of q = k" in line and "bound of Su" in line
    ]

    assert bool(lines_of_both_titles) == is_beside
    assert len(lines) < terminal.lines


def test_four_similarities_and_their_chart_fit_a_terminal_of_24_lines() -> None:
    """Four ropes of different bases are drawn as four maps and a chart. The shell's prompt takes
    one of 24 lines, so 23 are left.
    """
    ropes = [pecli.Rope(300, 64, base=base) for base in (1e4, 1e5, 1e6, 1e7)]
    assert (
        len(terminal_render.lines(drawn_picture("similarity", *ropes), TERMINAL_OF_256_COLOURS))
        <= 23
    )


def test_twelve_maps_fit_a_terminal_of_24_lines() -> None:
    """The shell's prompt takes one of 24 lines, so 23 are left for twelve maps in rows of four."""
    maps = []
    for number in range(12):
        title = f"map {number}"
        maps.append(HeatmapPanel(title, np.eye(16), "row", "column", limits=(0.0, 1.0)))
    assert (
        len(terminal_render.lines(Picture("maps", maps, across=4), TERMINAL_OF_256_COLOURS)) <= 23
    )


def test_zero_has_the_middle_colour_of_the_palette() -> None:
    """All cells of a heatmap from −1 to 1 are 0. The middle of the palette lies between two of its
    256 steps, so that a colour may be 1 of 255 off.
    """
    lines = lines_inside_axes(
        heatmap_lines(np.zeros((64, 32)), TERMINAL_OF_ALL_COLOURS, limits=(-1.0, 1.0))
    )
    middle = np.array(palettes.DIVERGING[len(palettes.DIVERGING) // 2])
    for line in lines:
        assert np.abs(np.array(colours_of_half_blocks(line)) - middle).max() <= 1


GRADIENT = np.tile(np.linspace(-3, 3, 60), (40, 1))
"""40 equal rows that rise from −3 to 3 over 60 columns."""


def test_colours_run_through_the_palette_from_the_lowest_to_the_highest_number() -> None:
    """GRADIENT goes from −3 to 3 over 60 columns, in equal rows; each character shows two cells,
    one above the other.
    """
    for line in lines_inside_axes(heatmap_lines(GRADIENT, TERMINAL_OF_ALL_COLOURS)):
        pairs = colours_of_half_blocks(line)
        assert len(pairs) == 60
        assert pairs[0] == (palettes.DIVERGING[0], palettes.DIVERGING[0])
        assert pairs[-1] == (palettes.DIVERGING[-1], palettes.DIVERGING[-1])


def test_a_gradient_uses_all_colours_of_the_palette_in_a_terminal_of_256_colours() -> None:
    """GRADIENT goes from −3 to 3 over 60 columns. DIVERGING_256 is the palette of numbers with both
    signs, as numbers of the terminal's 256 colours.
    """
    codes = set()
    for line in lines_inside_axes(heatmap_lines(GRADIENT, TERMINAL_OF_256_COLOURS)):
        for (upper,), (lower,) in colours_of_half_blocks(line):
            codes |= {upper, lower}
    assert codes == set(palettes.DIVERGING_256)


def test_ordered_curves_run_through_the_palette_in_a_terminal_of_256_colours() -> None:
    """Three curves are steps of one quantity. The first two colours of the palette, 0 and 1, are
    too dark for curves, so that they are drawn in colours from 2 to the last.
    """
    curves = [Curve("", POSITIONS_0_TO_200, POSITIONS_0_TO_200 * step) for step in range(3)]
    text = "".join(curve_lines(curves, TERMINAL_OF_256_COLOURS, ordered=True))
    codes = {int(code) for code in re.findall(r"38;5;(\d+)", text)}
    assert palettes.SEQUENTIAL_256[2] in codes
    assert palettes.SEQUENTIAL_256[-1] in codes


def test_two_rows_of_a_heatmap_share_a_line_of_half_blocks() -> None:
    """A half block ▀ shows two rows: the upper one as its foreground, the lower one as its
    background. The 40 rows are 0 and 1 in turn, so that every line shows the lowest colour above
    the highest.
    """
    rows = np.array([[0.0] * 40, [1.0] * 40] * 20)
    lines = lines_inside_axes(heatmap_lines(rows, TERMINAL_OF_ALL_COLOURS))

    assert len(lines) == 20
    lowest_above_highest = (palettes.SEQUENTIAL[0], palettes.SEQUENTIAL[-1])
    for line in lines:
        assert colours_of_half_blocks(line) == [lowest_above_highest] * 40


@pytest.mark.parametrize(
    ("terminal", "shades"), [(GREY_TERMINAL, " ░▒▓█"), (ASCII_TERMINAL, " .:-=+*#%@")]
)
def test_without_colours_shades_rise_with_the_value(terminal: Terminal, shades: str) -> None:
    """Each row goes from 0 to 1 in 70 steps; the shades are listed from light to dark."""
    for line in lines_inside_axes(heatmap_lines(np.tile(np.linspace(0, 1, 70), (40, 1)), terminal)):
        ranks = [shades.index(character) for character in line]
        assert ranks == sorted(ranks)
        assert set(ranks) == set(range(len(shades)))


@pytest.mark.parametrize("kind", [*TERMINALS.values(), Terminal(24, 10), Terminal(200, 60, 256)])
@pytest.mark.parametrize("shape", [(1, 1), (3, 500), (500, 3), (2000, 130), (17, 64), (40, 40)])
@pytest.mark.sample(8)
def test_a_picture_fits_the_terminal_and_leaves_a_line_for_the_prompt(
    kind: Terminal, shape: tuple[int, int]
) -> None:
    """The heatmaps are of random matrices that are smaller, wider and higher than the terminals."""
    shown = heatmap_lines(
        np.random.default_rng(0).normal(size=shape), kind, title="a title", first_row=7
    )
    assert len(shown) <= kind.lines - 1
    assert max(map(len, without_colours(shown))) <= kind.columns


def test_cells_that_are_not_finite_have_a_mark_and_a_legend() -> None:
    """Of 16 rows, row 0 is NaN, row 1 is −∞, and all others are 0; the mark is x in ASCII."""
    values = np.zeros((16, 16))
    values[0] = np.nan
    values[1] = -np.inf
    lines = heatmap_lines(values, ASCII_TERMINAL)
    first, second, *_, last = lines_inside_axes(lines)

    assert set(first) == {"x"}
    assert set(second) == {"x"}
    assert "x" not in last
    assert "not finite" in lines[-1]


def test_cells_that_are_not_finite_are_grey_in_a_terminal_with_colours() -> None:
    """The first two of 16 rows are NaN. A character shows two cells, one above the other, so that
    both colours of the first character are grey: no palette has this red = green = blue = 128.
    """
    values = np.zeros((16, 16))
    values[:2] = np.nan
    first_line, *_ = lines_inside_axes(heatmap_lines(values, TERMINAL_OF_ALL_COLOURS))
    upper, lower = colours_of_half_blocks(first_line)[0]

    assert upper == (128, 128, 128)
    assert lower == (128, 128, 128)
    assert palettes.UNKNOWN == (128, 128, 128)


def test_a_logarithmic_heatmap_has_equal_steps_between_powers_of_ten() -> None:
    """The shades of ASCII are « .:-=+*#%@», numbered 0 to 9. On a scale from 1e-3 to 1, the numbers
    1e-2, 1e-1 and 1 are the shades 3, 6 and 9. The lower end is shade 1, as only 0 is blank.
    """
    values = np.array([[0.0, 1e-3, 1e-2, 1e-1, 1.0]] * 20)
    lines = heatmap_lines(values, ASCII_TERMINAL, limits=(1e-3, 1.0), log=True)
    (line,) = set(lines_inside_axes(lines))
    assert re.fullmatch(r" +\.+-+\*+@+", line)


def test_a_heatmap_of_the_largest_numbers_has_the_lightest_and_the_darkest_character() -> None:
    """1.7e308 is next to the largest float64, so that the difference of both numbers overflows."""
    (line,) = set(lines_inside_axes(heatmap_lines(np.array([[-1.7e308, 1.7e308]]), ASCII_TERMINAL)))
    assert line[0] == " "
    assert line[-1] == "@"


def test_a_rising_curve_rises_without_holes() -> None:
    """The line from (0, 0) to (200, 200) is read back as a grid of dots of Braille characters, row
    0 at the top: it begins at the lower left, ends at the top, and has a dot in each column.
    """
    dots = braille_dots(curve_lines([Curve("", POSITIONS_0_TO_200, POSITIONS_0_TO_200)]))
    highest_dots = [np.flatnonzero(column)[0] for column in dots.T if column.any()]

    assert dots[-1, 0]
    assert dots[0].any()
    assert dots.any(axis=0).all()
    assert highest_dots == sorted(highest_dots, reverse=True)


def test_a_steep_curve_has_no_holes() -> None:
    """Three points that lie far apart: every row of dots has one of the line between them."""
    steep = Curve("", np.array([0.0, 1.0, 2.0]), np.array([0.0, 9.0, 0.0]))
    assert braille_dots(curve_lines([steep])).any(axis=1).all()


def test_a_spike_of_a_long_curve_is_drawn_at_its_place() -> None:
    """Of a million points, point 123,456 is 1 and all others are 0: 12.3 % of the width."""
    y = np.zeros(1_000_000)
    y[123_456] = 1.0
    dots = braille_dots(curve_lines([Curve("", np.arange(1e6), y)]))
    first_dot_of_top_row = np.flatnonzero(dots[0])[0]
    assert first_dot_of_top_row / dots.shape[1] == pytest.approx(0.123, abs=0.02)


def test_a_gap_of_a_curve_is_not_bridged() -> None:
    """Positions 81 to 119 of 0 to 200 are NaN, 40 % to 60 % of the axis: the columns of dots from
    45 % to 55 % are empty.
    """
    is_gap = (POSITIONS_0_TO_200 > 80) & (POSITIONS_0_TO_200 < 120)
    dots = braille_dots(curve_lines([Curve("", POSITIONS_0_TO_200, np.where(is_gap, np.nan, 1.0))]))
    width = dots.shape[1]
    assert not dots[:, int(0.45 * width) : int(0.55 * width)].any()


def test_an_axis_ends_where_the_curve_ends() -> None:
    """The curve has values at positions 0 to 39, and NaN from 40 to 200. The numbers of the
    horizontal axis, in the last line but one, have 30 among them but not 100.
    """
    y = np.where(POSITIONS_0_TO_200 < 40, 1.0 + POSITIONS_0_TO_200, np.nan)
    numbers = curve_lines([Curve("", POSITIONS_0_TO_200, y)])[-2].split()
    assert "30" in numbers
    assert "100" not in numbers


def test_axes_number_the_rows_and_columns_of_the_table_that_the_array_stands_for() -> None:
    """100 × 50 cells stand for a table of a million rows, numbered from 1000 on, and 500 columns.
    Numbers of rows stand before «│», those of columns in the last line but one.
    """
    shown = heatmap_lines(
        np.zeros((100, 50)), GREY_TERMINAL, first_row=1000, table_shape=(1_000_000, 500)
    )
    numbers = [
        int(line.split("│")[0]) for line in shown if "│" in line and line.split("│")[0].strip()
    ]

    assert all(1000 <= number < 1_001_000 for number in numbers)
    assert numbers == sorted(numbers)
    assert len(numbers) >= 4

    columns = [int(text) for text in shown[-2].split()]
    assert columns[0] == 0
    assert 400 <= columns[-1] < 500


@pytest.fixture
def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Terminal]:
    """Return the terminal that is found at an encoding of standard output and an environment."""

    def found(*, encoding: str = "utf-8", is_pipe: bool = False, **environment: str) -> Terminal:
        for name in ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        output = SimpleNamespace(encoding=encoding, isatty=lambda: not is_pipe)
        monkeypatch.setattr("sys.stdout", output)
        return terminal()

    return found


@pytest.mark.parametrize(
    ("environment", "colours"),
    [
        pytest.param({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, 2**24, id="truecolor"),
        pytest.param({"TERM": "xterm", "COLORTERM": "24bit"}, 2**24, id="24bit"),
        pytest.param({"TERM": "screen-256color"}, 256, id="256 colours"),
        pytest.param({"TERM": "xterm"}, 0, id="no statement"),
        pytest.param({}, 0, id="no terminal type"),
        pytest.param({"TERM": "dumb", "COLORTERM": "truecolor"}, 0, id="a dumb terminal"),
        pytest.param(
            {"TERM": "xterm", "COLORTERM": "truecolor", "NO_COLOR": "1"}, 0, id="not wanted"
        ),
    ],
)
def test_the_colours_of_a_terminal_follow_from_its_environment(
    terminal_of, environment: dict[str, str], colours: int
) -> None:
    """TERM is the type of the terminal, COLORTERM states that it has 2^24 colours, and NO_COLOR that
    none are wanted.
    """
    assert terminal_of(**environment).colours == colours


def test_a_pipe_has_no_colours(terminal_of) -> None:
    """The environment is that of the terminal in which the pipe is, and states 2^24 colours."""
    assert terminal_of(is_pipe=True, TERM="xterm", COLORTERM="truecolor").colours == 0


@pytest.mark.parametrize(
    ("encoding", "has_unicode"),
    [("utf-8", True), ("UTF8", True), ("ascii", False), ("nonsense", False)],
)
@pytest.mark.parametrize("is_pipe", [False, True], ids=["terminal", "pipe"])
def test_unicode_is_shown_if_the_encoding_is_utf_8(
    terminal_of, encoding: str, has_unicode: bool, is_pipe: bool
) -> None:
    """Of standard output; the name of an encoding has capitals and hyphens or not."""
    assert terminal_of(encoding=encoding, is_pipe=is_pipe).unicode == has_unicode


def test_a_terminal_has_the_size_of_columns_and_lines(terminal_of) -> None:
    """COLUMNS and LINES are variables of the environment."""
    found = terminal_of(TERM="xterm", COLUMNS="132", LINES="40")
    assert found.columns == 132
    assert found.lines == 40


def test_a_pipe_has_80_columns_and_24_lines(terminal_of) -> None:
    """A file must not depend on the terminal in which it was written."""
    found = terminal_of(is_pipe=True, TERM="xterm", COLUMNS="132", LINES="40")
    assert found.columns == 80
    assert found.lines == 24


def key_of_colours(kind: Terminal, columns: int) -> str:
    """Return the line below a heatmap of positions by positions, from "−0.8656" to "0.8656".

    These are 7 and 6 letters. The line may have a minus «−» in any terminal; when a picture is put
    together, it becomes a hyphen where there is no Unicode. Its colours are removed.
    """
    panel = HeatmapPanel("", np.zeros((2, 2)), columns="position", limits=(-0.8656, 0.8656))
    terminal_of_width = kind._replace(columns=columns)
    (line,) = without_colours([terminal_heatmap.key_line([panel], terminal_of_width, (2, 2))])
    assert len(line) <= columns
    return line


@pytest.mark.parametrize("kind", TERMINALS.values(), ids=TERMINALS)
def test_a_key_without_room_for_a_bar_of_4_cells_has_words_instead(kind: Terminal) -> None:
    """The line below a heatmap is the key to its colours, here from −0.8656 (7 letters) to 0.8656
    (6). Both ends, two spaces and a bar of 4 cells need 7 + 6 + 2 + 4 = 19 columns.
    """
    assert key_of_colours(kind, columns=18) == "−0.8656 to 0.8656"


@pytest.mark.parametrize("kind", TERMINALS.values(), ids=TERMINALS)
@pytest.mark.parametrize("columns", [19, 39, 45])
def test_a_key_without_room_for_the_names_of_axes_is_a_bar_between_its_ends(
    kind: Terminal, columns: int
) -> None:
    """The key to the colours below a heatmap is «−0.8656 ▀▀▀▀ 0.8656» from 7 + 1 + 4 + 1 + 6 = 19
    columns on, and the bar grows with them, to 32 cells at most.

    «position ↓  position →   −0.8656 ▀▀▀▀▀▀ 0.8656» has 25 letters for the names of the axes and a
    bar of 6 cells: 25 + 7 + 1 + 6 + 1 + 6 = 46 columns. Names in ASCII are longer.
    """
    line = key_of_colours(kind, columns)
    bar_length = min(32, columns - len("−0.8656 ") - len(" 0.8656"))
    bar = line.removeprefix("−0.8656 ").removesuffix(" 0.8656")

    assert line.startswith("−0.8656 ")
    assert line.endswith(" 0.8656")
    assert len(bar) == bar_length
    assert not re.search("[a-z]", bar)  # Neither names nor «to», which would replace the bar.


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        pytest.param(kind, names, id=f"{terminal_name} terminal")
        for terminal_name, kind, names in [
            ("true-colour", TERMINAL_OF_ALL_COLOURS, "position ↓  position →   "),
            ("256-colour", TERMINAL_OF_256_COLOURS, "position ↓  position →   "),
            ("colourless", GREY_TERMINAL, "position ↓  position →   "),
            ("ASCII", ASCII_TERMINAL, "position down, position right   "),
        ]
    ],
)
def test_a_key_with_room_has_the_names_of_axes_before_the_bar(kind: Terminal, names: str) -> None:
    """The line below a heatmap is the key to its colours. In 80 columns it has the names of the
    rows (↓) and of the columns (→), which are both positions, and then a bar of 32 cells between
    its ends: «position ↓  position →   −0.8656 ▀▀▀▀…▀▀▀▀ 0.8656».
    """
    line = key_of_colours(kind, columns=80)
    bar = line.removeprefix(f"{names}−0.8656 ").removesuffix(" 0.8656")

    assert line.startswith(f"{names}−0.8656 ")
    assert line.endswith(" 0.8656")
    assert len(bar) == 32
    assert not re.search("[a-z]", bar)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        pytest.param(
            80, "position (one in 2) ↓  position (one in 2) →   ", id="80 columns: names and steps"
        ),
        pytest.param(38, "one in 4   ", id="38 columns: the step only"),
    ],
)
def test_the_key_states_one_in_n_even_if_the_names_of_axes_have_no_room(
    columns: int, words: str
) -> None:
    """A matrix of 100 × 100 is drawn, of which every n-th row and column is shown, one per character
    of a line. The numbers of the rows, «99», and the frame take 5 columns: n is 100 / (80 − 5),
    rounded up to 2, and 100 / (38 − 5) = 3.03, rounded up to 4. 60 lines have room for as many rows.
    """
    shown = heatmap_lines(
        np.eye(100),
        TERMINAL_OF_ALL_COLOURS._replace(columns=columns, lines=60),
        columns="position",
        reduction=Reduction.SAMPLE,
    )
    assert without_colours(shown)[-1].startswith(words)


@pytest.mark.parametrize(
    "terminal", [GREY_TERMINAL, ASCII_TERMINAL, TERMINAL_OF_256_COLOURS, Terminal(60, 16, 1 << 24)]
)
@pytest.mark.parametrize("count", [1, 2, 9])
def test_a_chart_fits_the_terminal_and_names_its_curves_and_levels_below(
    terminal: Terminal, count: int
) -> None:
    """The last three lines are the legend, with the curves and then the level «limit»; one line of
    the terminal is left for the prompt.
    """
    lines = [
        Curve(f"curve {k}", POSITIONS_0_TO_200, np.sin(POSITIONS_0_TO_200 / (k + 3)))
        for k in range(count)
    ]
    shown = without_colours(curve_lines(lines, terminal, title="t", levels=[Level("limit", 0.5)]))

    assert len(shown) <= terminal.lines - 1
    assert max(map(len, shown)) <= terminal.columns
    assert all(f"curve {k}" in "".join(shown[-3:]) for k in range(count))
    assert "limit" in shown[-1]
    assert terminal.unicode or "".join(shown).isascii()


def test_the_number_in_the_middle_of_an_axis_is_on_the_middle_line() -> None:
    """The curve goes from 0 to 200, which are the numbers at the ends of the vertical axis; 100 is
    on the middle line, or one of the two middle lines. Numbers stand before «│».
    """
    shown = curve_lines([Curve("", POSITIONS_0_TO_200, POSITIONS_0_TO_200)], Terminal(80, 25, 0))
    labels = [line.split("│")[0].strip() for line in shown if "│" in line]
    middle = (len(labels) - 1) / 2

    assert labels[0] == "200"
    assert labels[-1] == "0"
    assert abs(labels.index("100") - middle) <= 0.5


def test_a_logarithmic_axis_has_powers_of_ten() -> None:
    """The curve is 10^(x/40), which is a straight line on a logarithmic axis: neighbouring columns
    of its dots differ by one row at most. Numbers stand before «│».
    """
    shown = curve_lines(
        [Curve("", POSITIONS_0_TO_200, 10 ** (POSITIONS_0_TO_200 / 40))], log_y=True
    )
    labels = [
        float(line.split("│")[0]) for line in shown if "│" in line and line.split("│")[0].strip()
    ]

    assert all(np.log10(label) == pytest.approx(round(np.log10(label))) for label in labels)

    heights = np.array(
        [np.flatnonzero(column)[0] for column in braille_dots(shown).T if column.any()]
    )
    assert np.abs(np.diff(heights)).max() <= 1


BOTH_ALPHABETS = pytest.mark.parametrize(
    ("kind", "signs"),
    [
        pytest.param(GREY_TERMINAL, {"mark": "●", "second": "○", "minus": "−"}, id="unicode"),
        pytest.param(ASCII_TERMINAL, {"mark": "*", "second": "o", "minus": "-"}, id="ascii"),
    ],
)
"""Terminals with and without Unicode, and the characters by which they draw the same."""

THREE_POINTS = Curve("first", np.array([0.0, 1.0, 2.0]), np.array([-10.0, 9.0, -10.0]))
THREE_LATER_POINTS = THREE_POINTS._replace(label="second", x=THREE_POINTS.x + 3)


@BOTH_ALPHABETS
def test_points_of_two_curves_have_two_marks(kind: Terminal, signs: dict[str, str]) -> None:
    """Each curve has three points, which no line joins. The legend below has both marks."""
    shown = curve_lines([THREE_POINTS, THREE_LATER_POINTS], kind, joined=False)
    drawn = "".join(lines_inside_axes(shown))

    assert drawn.count(signs["mark"]) == 3
    assert drawn.count(signs["second"]) == 3
    assert shown[-1] == f"{signs['mark']} first   {signs['second']} second"


@BOTH_ALPHABETS
def test_a_hyphen_before_a_number_of_a_title_is_a_minus(
    kind: Terminal, signs: dict[str, str]
) -> None:
    """-1e-5 is a number; the hyphen of «x-1» stands after a letter and stays."""
    title, *_ = curve_lines([THREE_POINTS], kind, "at -1e-5 of x-1")
    assert title == f"at {signs['minus']}1e{signs['minus']}5 of x-1"


@BOTH_ALPHABETS
def test_a_number_below_zero_at_an_axis_has_a_minus(kind: Terminal, signs: dict[str, str]) -> None:
    """The lowest point of the curve is −10, which is the last number before «│»."""
    lines = curve_lines([THREE_POINTS], kind)
    labels = [re.split("[│|]", line)[0].strip() for line in lines if re.search("[│|]", line)]

    assert labels[-1] == f"{signs['minus']}10"


@pytest.mark.parametrize(
    ("sign", "in_ascii"),
    [("−", "-"), ("–", "-"), ("×", "x"), ("·", "*"), ("→", "->"), ("…", "...")],
)
def test_a_sign_in_a_name_is_replaced_in_ascii_only(sign: str, in_ascii: str) -> None:
    """The name of the only curve, «a SIGN b», is in the legend, which is the last line."""
    curve = THREE_POINTS._replace(label=f"a {sign} b")
    *_, in_unicode_legend = curve_lines([curve], GREY_TERMINAL, joined=False)
    *_, in_ascii_legend = curve_lines([curve], ASCII_TERMINAL, joined=False)

    assert in_unicode_legend == f"● a {sign} b"
    assert in_ascii_legend == f"* a {in_ascii} b"


@pytest.mark.parametrize(("columns", "has_names"), [(34, False), (35, True)])
def test_axes_are_named_if_six_characters_are_left_for_the_colour_bar(
    columns: int, has_names: bool
) -> None:
    """«position ↓  channel →   » has 24 characters, and «−1», «1» and the spaces around the bar have 5
    more. With 6 for the bar, these are 35 columns.
    """
    panel = HeatmapPanel("", np.zeros((8, 8)), "position", "channel", limits=(-1.0, 1.0))
    last_line = terminal_render.lines(Picture("", [panel]), Terminal(columns, 24))[-1]

    assert last_line.startswith("position ↓  channel →   −1") == has_names


def test_numbers_of_rows_before_zero_have_a_minus() -> None:
    """The rows of the heatmap are numbered from −4 on, before «│»."""
    rows = heatmap_lines(np.zeros((8, 8)), GREY_TERMINAL, first_row=-4, limits=(-1.0, 1.0))
    numbers = [line.split("│")[0].strip() for line in rows if "│" in line]
    assert next(filter(None, numbers)) == "−4"


@pytest.mark.parametrize(
    ("kind", "mark"), [(GREY_TERMINAL, "●"), (TERMINAL_OF_ALL_COLOURS, "●"), (ASCII_TERMINAL, "O")]
)
def test_marked_points_lie_on_their_curve(kind: Terminal, mark: str) -> None:
    """A straight line from the bottom left to the top right has marks at both ends, and no
    others.
    """
    line = Curve(
        "",
        POSITIONS_0_TO_200,
        POSITIONS_0_TO_200,
        marks=[(0.0, 0.0), (POSITIONS_0_TO_200[-1], POSITIONS_0_TO_200[-1])],
    )
    drawn = lines_inside_axes(without_colours(curve_lines([line], kind)))

    top_right = drawn[0].strip()[-1]
    bottom_left = drawn[-1][0]
    assert top_right == mark
    assert bottom_left == mark
    assert "".join(drawn).count(mark) == 2


def test_marked_points_beyond_the_range_are_not_drawn() -> None:
    """The marks «●» are at both ends of a line, and the vertical axis begins and ends one point
    further inside.
    """
    line = Curve(
        "",
        POSITIONS_0_TO_200,
        POSITIONS_0_TO_200,
        marks=[(0.0, 0.0), (POSITIONS_0_TO_200[-1], POSITIONS_0_TO_200[-1])],
    )
    assert "●" not in "".join(
        curve_lines([line], GREY_TERMINAL, y_limits=(POSITIONS_0_TO_200[1], POSITIONS_0_TO_200[-2]))
    )


@pytest.mark.parametrize("y", [3.0, np.nan, -1.0], ids=["constant", "NaN", "negative"])
@pytest.mark.parametrize("log", [False, True], ids=["linear", "logarithmic"])
def test_a_chart_of_a_curve_without_extent_is_drawn(y: float, log: bool) -> None:
    """A constant has no range for an axis, NaN has no place, and a logarithmic axis has no negative
    numbers. The chart still has its lines: 24 of the terminal, less those of axis and legend.
    """
    curve = Curve("c", POSITIONS_0_TO_200, np.full(len(POSITIONS_0_TO_200), y))
    assert len(curve_lines([curve], log_y=log)) > 10


RISING_AND_FALLING = [
    Curve("a", POSITIONS_0_TO_200, POSITIONS_0_TO_200),
    Curve("b", POSITIONS_0_TO_200, -POSITIONS_0_TO_200),
]
COLOURS_BUT_ASCII = TERMINAL_OF_256_COLOURS._replace(unicode=False)


@pytest.mark.parametrize(
    "terminal", [GREY_TERMINAL, COLOURS_BUT_ASCII], ids=["no colours", "colours but no Unicode"]
)
def test_curves_that_dots_cannot_distinguish_have_letters_and_a_legend(terminal: Terminal) -> None:
    """A chart is drawn in Braille dots, each curve in its colour. Without colours, or without
    Unicode and so without Braille, two curves are drawn with «*» and «o», which the last line
    explains.
    """
    shown = without_colours(curve_lines(RISING_AND_FALLING, terminal))
    assert set("".join(lines_inside_axes(shown))) == {" ", "*", "o"}
    assert shown[-1] == "* a   o b"


def colour_before(mark: str, line: str) -> str:
    """Return the escape sequence, such as «ESC[38;5;74m», that colours a mark of a legend."""
    found = re.search(rf"(\x1b\[38;5;\d+m){re.escape(mark)}", line)
    assert found, f"{mark} has no colour"
    return found[1]


@pytest.mark.parametrize("mark", ["*", "o"])
def test_a_mark_in_the_legend_has_the_colour_of_its_curve(mark: str) -> None:
    """A terminal with colours but without Unicode draws one curve with «*» and another with «o». A
    curve crosses all lines of the chart; in more than five it begins with the same colour.
    """
    *chart, legend = curve_lines(RISING_AND_FALLING, COLOURS_BUT_ASCII)
    colour = colour_before(mark, legend)

    assert sum(f"{colour}{mark}" in line for line in chart) > 5
    assert colour_before("*", legend) != colour_before("o", legend)


@pytest.mark.parametrize("terminal", [GREY_TERMINAL, TERMINAL_OF_256_COLOURS, ASCII_TERMINAL])
@pytest.mark.parametrize("count", [2, 3])
def test_curves_on_each_other_are_all_seen(terminal: Terminal, count: int) -> None:
    """Equal curves take turns along their common line: each has its colour somewhere, or without
    colours its mark, «*», «o» or «+».
    """
    inside = "".join(
        lines_inside_axes(
            curve_lines(
                [
                    Curve("abc"[k], POSITIONS_0_TO_200, np.sqrt(POSITIONS_0_TO_200))
                    for k in range(count)
                ],
                terminal,
            )
        )
    )
    if terminal.colours:
        assert len(set(re.findall(r"\x1b\[38[0-9;]*m", inside))) == count
    else:
        assert set("*o+"[:count]) <= set(inside)


@pytest.mark.parametrize(("unicode", "name"), [(True, "abcd…mnop"), (False, "abc...nop")])
def test_a_long_name_of_a_curve_loses_its_middle(unicode: bool, name: str) -> None:
    """A terminal of 13 columns has room for nine characters in the legend: of sixteen letters, the
    ends are shown around «…», or «...» in ASCII.
    """
    chart = Chart("", [Curve("abcdefghijklmnop", POSITIONS_0_TO_200, POSITIONS_0_TO_200)])
    shown = terminal_render.lines(Picture("", [chart]), Terminal(13, unicode=unicode))

    assert shown[-1].endswith(f" {name}")


def test_the_name_of_a_curve_is_not_wider_than_the_terminal() -> None:
    """The name has 100 letters, the terminal 40 columns."""
    shown = curve_lines(
        [Curve("x" * 100, POSITIONS_0_TO_200, POSITIONS_0_TO_200)], Terminal(40, 16)
    )
    assert max(len(line) for line in shown) <= 40


@pytest.mark.parametrize(("columns", "is_beside"), [(72, True), (71, False)])
def test_a_chart_stands_beside_a_heatmap_if_both_have_36_columns(
    columns: int, is_beside: bool
) -> None:
    """72 columns are twice 36. The picture of similarities has a heatmap «pairs of positions» and a
    chart «mean by distance», whose titles are in one line if they stand beside each other.
    """
    shown = terminal_render.lines(
        drawn_picture("similarity", pecli.Rope(16, 8)), Terminal(columns, 24)
    )
    beside = [line for line in shown if "pairs of" in line and "mean by" in line]

    assert bool(beside) is is_beside


@pytest.mark.parametrize(("lines", "is_below"), [(17, True), (16, False)])
def test_heatmaps_stand_below_each_other_if_each_has_7_lines(lines: int, is_below: bool) -> None:
    """A heatmap needs 7 lines, and a terminal of 17 has just enough for two of them with a title, a
    legend and the prompt. Otherwise they stand beside each other, and «a» and «b» share a line.
    """
    heats = [HeatmapPanel("a", np.eye(4)), HeatmapPanel("b", np.eye(4))]
    shown = terminal_render.lines(Picture("t", heats), Terminal(80, lines))
    own_lines = [line for line in shown if line.strip() in ("a", "b")]

    assert bool(own_lines) is is_below


def test_a_point_at_zero_is_not_joined_on_a_logarithmic_axis() -> None:
    """The curve goes through (0, 5), (1, 1) and (10, 2). A logarithmic axis has no 0, so that only
    the line from 1 to 2 is drawn. The vertical axis goes up to 5: the upper half is empty.
    """
    curve = Curve("", np.array([0.0, 1.0, 10.0]), np.array([5.0, 1.0, 2.0]))
    grid = braille_dots(curve_lines([curve], log_x=True))
    upper_half, lower_half = np.vsplit(grid, 2)

    assert not upper_half.any()
    assert lower_half.any()


CHARTS = [case for case in CASES if case[1] in ("curves", "wavelengths", "decay", "slopes")]


@pytest.mark.parametrize(("name", "kind"), CHARTS)
def test_a_chart_of_60_columns_and_24_lines_has_three_numbers_at_its_vertical_axis(
    name: str, kind: str
) -> None:
    """CHARTS are all schemes with the pictures of curves that they have. The numbers of the
    vertical axis stand before «│».
    """
    small = Terminal(columns=60, lines=24)
    drawn = without_colours(terminal_render.lines(drawn_picture(kind, SCHEMES[name]), small))
    numbers: list[str] = []
    for line in drawn:
        numbers += re.findall(r"^ *([−\d.e]+) │", line)

    assert len(numbers) >= 3


def test_every_level_has_a_mark_of_its_own() -> None:
    """A level is a horizontal line across a chart, dashed differently for each of three: the legend
    shows its pattern of dots before the name.
    """
    levels = [Level(f"level {k}", float(k)) for k in range(3)]
    chart = Chart("", [Curve("", np.arange(4.0), np.arange(4.0))], levels=levels)
    legend = " ".join(terminal_render.lines(Picture("", [chart]), Terminal()))
    samples = re.findall(r"([⠂ ]+) level \d", legend)

    assert len({sample.strip() for sample in samples}) == 3


def test_ordered_curves_go_from_dark_to_bright_in_true_colours() -> None:
    """Three ordered curves take steps of the sequential palette. The last has its last colour; the
    first has step 0 of 3 of its bright part, which can be seen on a dark terminal.
    """
    curves = [Curve("", POSITIONS_0_TO_200, POSITIONS_0_TO_200 * k) for k in range(3)]
    shown = "".join(curve_lines(curves, TERMINAL_OF_ALL_COLOURS, ordered=True))
    codes = re.findall(r"38;2;(\d+);(\d+);(\d+)", shown)

    colours = {tuple(map(int, code)) for code in codes}
    assert palettes.SEQUENTIAL[-1] in colours
    assert palettes.step(0, 3, dark=True) in colours
