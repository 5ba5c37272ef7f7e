"""Pictures of known arrays in every kind of terminal."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest

from pecli.views.pictures import palettes, terminal_render
from pecli.views.pictures.panels import HeatmapPanel, Picture
from pecli.views.screen import Terminal, terminal

TRUE, FEW, GREY, ASCII = (Terminal(colours=1 << 24), Terminal(colours=256), Terminal(), Terminal(unicode=False))
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def lines(values: np.ndarray, kind: Terminal, title: str = "", **how: Any) -> list[str]:
    return terminal_render.heatmap_lines(HeatmapPanel(title, values, **how), kind)


def pixels(line: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The two colours of every half block of a line, as a terminal would have it."""
    ink: tuple[int, ...] = ()
    paper: tuple[int, ...] = ()
    found = []
    for escape, character in re.findall(r"\x1b\[([0-9;]*)m|(.)", line):
        if character:
            if character == "▀":
                found.append((ink, paper))
            continue
        numbers = [int(number) for number in escape.split(";")]
        if numbers[0] == 38:
            ink = tuple(numbers[2:])
        elif numbers[0] == 48:
            paper = tuple(numbers[2:])
    return found


def picture(shown: list[str]) -> list[str]:
    return [line.split("│" if "│" in line else "|", 1)[1] for line in shown if "│" in line or "|" in line]


def test_a_constant_is_one_colour_the_middle_of_the_palette() -> None:
    body = picture(lines(np.zeros((64, 32)), TRUE, centred=True))
    middle = np.array(palettes.DIVERGING[len(palettes.DIVERGING) // 2])
    found = {colour for line in body for pair in pixels(line) for colour in pair}
    assert len(found) == 1
    assert np.abs(np.array(found.pop()) - middle).max() <= 1  # the middle lies between two of 256 steps


def test_a_gradient_runs_through_the_palette_from_end_to_end() -> None:
    body = picture(lines(np.tile(np.linspace(-3, 3, 60), (40, 1)), TRUE, centred=True))
    for line in body:
        pairs = pixels(line)
        assert pairs[0] == (palettes.DIVERGING[0],) * 2
        assert pairs[-1] == (palettes.DIVERGING[-1],) * 2
        assert len(pairs) == 60


def test_two_rows_share_a_line() -> None:
    body = picture(lines(np.array([[0.0] * 40, [1.0] * 40] * 20), TRUE))
    assert len(body) == 20
    low, high = palettes.SEQUENTIAL[0], palettes.SEQUENTIAL[-1]
    assert all(pixels(line) == [(low, high)] * 40 for line in body)


def test_256_colours_are_of_the_256() -> None:
    body = picture(lines(np.tile(np.linspace(0, 1, 70), (40, 1)), FEW))
    codes = {colour for line in body for pair in pixels(line) for (colour,) in pair}
    assert min(codes) >= 16
    assert max(codes) <= 255
    assert len(codes) > 8


@pytest.mark.parametrize(("terminal", "shades"), [(GREY, " ░▒▓█"), (ASCII, " .:-=+*#%@")])
def test_without_colours_shades_rise_with_the_value(terminal: Terminal, shades: str) -> None:
    shown = lines(np.tile(np.linspace(0, 1, 70), (40, 1)), terminal, title="t")
    for line in picture(shown):
        ranks = [shades.index(character) for character in line]
        assert ranks == sorted(ranks)
        assert set(ranks) == set(range(len(shades)))
    if not terminal.unicode:
        assert "".join(shown).isascii()


@pytest.mark.parametrize("kind", [TRUE, FEW, GREY, ASCII, Terminal(24, 10), Terminal(200, 60, 256)])
@pytest.mark.parametrize("shape", [(1, 1), (3, 500), (500, 3), (2000, 130), (17, 64), (40, 40)])
@pytest.mark.sample(12)
def test_a_picture_fits_the_terminal_and_leaves_a_line_for_the_prompt(kind: Terminal, shape: tuple[int, int]) -> None:
    shown = lines(np.random.default_rng(0).normal(size=shape), kind, title="a title", first_row=7)
    assert len(shown) <= kind.lines - 1
    assert max(len(ESCAPE.sub("", line)) for line in shown) <= kind.columns


def test_what_is_not_finite_has_a_mark_and_a_legend() -> None:
    values = np.zeros((16, 16))
    values[0], values[1] = np.nan, -np.inf
    shown = lines(values, ASCII)
    body = picture(shown)
    assert set(body[0]) == set(body[1]) == {"x"}
    assert "x" not in body[-1]
    assert "not finite" in shown[-1]
    assert pixels(picture(lines(values, TRUE))[0])[0] == (palettes.UNKNOWN,) * 2


def test_axes_number_the_rows_and_columns_of_the_table_that_the_array_stands_for() -> None:
    shown = lines(np.zeros((100, 50)), GREY, first_row=1000, row_count=1_000_000, column_count=500)
    numbers = [int(line.split("│")[0]) for line in shown if "│" in line and line.split("│")[0].strip()]
    assert all(1000 <= number < 1_001_000 for number in numbers)
    assert numbers == sorted(numbers)
    assert len(numbers) >= 4
    columns = [int(text) for text in shown[-2].split()]
    assert columns[0] == 0
    assert 400 <= columns[-1] < 500


@pytest.mark.parametrize("values", [np.empty((0, 4)), np.empty((4, 0))])
def test_nothing_is_said_to_be_nothing(values: np.ndarray) -> None:
    assert lines(values, GREY, title="t") == ["t", "(empty)"]


def test_extreme_numbers_are_drawn() -> None:
    body = picture(lines(np.array([[-1.7e308, 1.7e308]]), ASCII))
    assert body[0][0] == " "
    assert body[0][-1] == "@"


class Screen(io.StringIO):
    def __init__(self, encoding: str, tty: bool) -> None:
        super().__init__()
        self._encoding, self._tty = encoding, tty

    @property
    def encoding(self) -> str:
        return self._encoding

    def isatty(self) -> bool:
        return self._tty


@pytest.mark.parametrize(
    ("environment", "colours"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, 1 << 24),
        ({"TERM": "xterm", "COLORTERM": "24bit"}, 1 << 24),
        ({"TERM": "screen-256color"}, 256),
        ({"TERM": "xterm"}, 0),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, 0),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, 0),
        ({}, 0),
    ],
)
def test_colours_by_what_the_terminal_says(monkeypatch, environment: dict[str, str], colours: int) -> None:
    for name in ("TERM", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout", Screen("utf-8", tty=True))
    assert terminal() == Terminal(80, 24, colours, unicode=True)


@pytest.mark.parametrize(
    ("encoding", "unicode"), [("utf-8", True), ("UTF8", True), ("ascii", False), ("nonsense", False)]
)
def test_a_pipe_is_80_columns_of_plain_characters(monkeypatch, encoding: str, unicode: bool) -> None:
    for name, value in {"TERM": "xterm-256color", "COLORTERM": "truecolor", "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    pipe = Screen(encoding, tty=False)
    monkeypatch.setattr("sys.stdout", pipe)
    assert terminal() == Terminal(80, 24, 0, unicode)
    if encoding == "nonsense":
        return
    print("\n".join(lines(np.random.default_rng(0).normal(size=(64, 64)), terminal(), title="t")))
    assert "\x1b" not in pipe.getvalue()
    assert max(map(len, pipe.getvalue().splitlines())) <= 80


def test_a_wish_for_another_size_is_heard(monkeypatch) -> None:
    monkeypatch.setattr("sys.stdout", Screen("utf-8", tty=True))
    monkeypatch.setenv("COLUMNS", "132")
    monkeypatch.setenv("LINES", "40")
    assert terminal()[:2] == (132, 40)


@pytest.mark.parametrize("kind", [TRUE, FEW, GREY, ASCII])
@pytest.mark.parametrize("columns", [20, 39, 45, 80])
def test_both_ends_of_the_colours_are_whole_however_narrow(kind: Terminal, columns: int) -> None:
    panel = HeatmapPanel("", np.zeros((2, 2)), columns="position", centred=True, limits=(-0.8656, 0.8656))
    line = terminal_render.key_line(kind._replace(columns=columns), panel)
    plain = ESCAPE.sub("", line)
    assert len(plain) <= columns
    assert re.search(r"-0\.8656( |\S)* 0\.8656$", plain)
    assert ("position" in plain) == (columns == 80)


def test_a_sample_is_called_one_even_where_the_names_of_axes_have_no_room() -> None:
    for columns, words in ((80, "position ↓  position (every 2nd) →   "), (38, "every 4th   ")):
        shown = lines(np.eye(100), TRUE._replace(columns=columns, lines=50), columns="position", reduce="sample")
        assert ESCAPE.sub("", shown[-1]).startswith(words)


def test_twelve_maps_fit_a_screen() -> None:
    heats = [HeatmapPanel(f"map {k}", np.eye(16), "row", "column", limits=(0.0, 1.0)) for k in range(12)]
    lines = terminal_render.lines(Picture("maps", heats, across=4), Terminal(80, 24, 256))
    assert len(lines) <= 23
