"""Curves with dots and letters."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from pecli.views.pictures import braille
from pecli.views.pictures.panels import Chart, Curve
from pecli.views.screen import Terminal

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
X = np.arange(201.0)


def drawn(curves: list[Curve], terminal: Terminal, title: str = "", **how: Any) -> list[str]:
    return braille.lines(Chart(title, curves, **how), terminal)


def dots(lines: list[str]) -> np.ndarray:
    """The picture as a grid of dots, decoded by Unicode's numbering of them."""
    body = [ESCAPE.sub("", line).split("│", 1)[1] for line in lines if "│" in line]
    grid = np.zeros((4 * len(body), 2 * max(map(len, body))), bool)
    places = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (3, 0), (3, 1)]
    for row, line in enumerate(body):
        for column, character in enumerate(line):
            if character != " ":
                for bit, (down, right) in enumerate(places):
                    grid[4 * row + down, 2 * column + right] = (ord(character) - 0x2800) >> bit & 1
    return grid


def test_a_straight_line_runs_from_corner_to_corner() -> None:
    grid = dots(drawn([Curve("", X, X)], Terminal()))
    assert grid[-1, 0]
    assert grid[0].any()
    heights = [np.flatnonzero(column)[0] for column in grid.T if column.any()]
    assert heights == sorted(heights, reverse=True)
    assert grid.any(axis=0).all(), "the line has holes"


def test_a_steep_curve_has_no_holes() -> None:
    grid = dots(drawn([Curve("", np.array([0.0, 1.0, 2.0]), np.array([0.0, 9.0, 0.0]))], Terminal()))
    assert grid.any(axis=1).all()


def test_a_spike_in_a_long_curve_is_seen() -> None:
    y = np.zeros(1_000_000)
    y[123_456] = 1.0
    grid = dots(drawn([Curve("", np.arange(1e6), y)], Terminal()))
    assert grid[0].any()
    assert abs(np.flatnonzero(grid[0])[0] / grid.shape[1] - 0.123) < 0.02


def test_gaps_stay_gaps() -> None:
    y = np.where((X > 80) & (X < 120), np.nan, 1.0)
    grid = dots(drawn([Curve("", X, y)], Terminal()))
    assert not grid[:, int(0.45 * grid.shape[1]) : int(0.55 * grid.shape[1])].any()


@pytest.mark.parametrize(
    "terminal", [Terminal(), Terminal(unicode=False), Terminal(colours=256), Terminal(60, 16, 1 << 24)]
)
@pytest.mark.parametrize("count", [1, 2, 9])
def test_curves_fit_and_are_named(terminal: Terminal, count: int) -> None:
    curves = [Curve(f"curve {k}", X, np.sin(X / (k + 3))) for k in range(count)]
    shown = drawn(curves, terminal, title="t", y="value", levels=[("limit", 0.5)])
    plain = [ESCAPE.sub("", line) for line in shown]
    assert len(plain) <= terminal.lines - 1
    assert max(map(len, plain)) <= terminal.columns
    assert all(f"curve {k}" in "".join(plain[-3:]) for k in range(count))
    assert "limit" in plain[-1]
    assert ("\x1b" in "".join(shown)) == bool(terminal.colours)
    if not terminal.unicode:
        assert "".join(plain).isascii()


def test_curves_that_colours_cannot_tell_apart_have_letters() -> None:
    shown = drawn([Curve("a", X, X), Curve("b", X, -X)], Terminal())
    body = "".join(line.split("│")[1] for line in shown if "│" in line)
    assert set(body) == {" ", "*", "o"}
    assert "* a" in shown[-1]
    assert "o b" in shown[-1]


def test_a_logarithmic_axis_has_powers_of_ten() -> None:
    shown = drawn([Curve("", X, 10 ** (X / 40))], Terminal(), log_y=True)
    labels = [float(line.split("│")[0]) for line in shown if "│" in line and line.split("│")[0].strip()]
    assert all(np.log10(label) == pytest.approx(round(np.log10(label))) for label in labels)
    grid = dots(shown)
    heights = np.array([np.flatnonzero(column)[0] for column in grid.T if column.any()])
    assert np.abs(np.diff(heights)).max() <= 1, "an exponential is a straight line"


@pytest.mark.parametrize("y", [np.full(201, 3.0), np.full(201, np.nan), np.full(201, -1.0)])
def test_curves_without_extent_are_no_trouble(y: np.ndarray) -> None:
    assert drawn([Curve("c", X, y)], Terminal())
    assert drawn([Curve("c", X, y)], Terminal(), log_y=True)


def test_letters_have_the_colours_of_the_legend() -> None:
    shown = drawn([Curve("a", X, X), Curve("b", X, -X)], Terminal(colours=256, unicode=False))
    for mark in "*o":
        (colour,) = re.findall(rf"(\x1b\[38[0-9;]*m){re.escape(mark)}\x1b\[0m [ab]", shown[-1])
        assert sum(f"{colour}{mark}" in line for line in shown[:-1]) > 5


@pytest.mark.parametrize("terminal", [Terminal(), Terminal(colours=256), Terminal(unicode=False)])
@pytest.mark.parametrize("count", [2, 3])
def test_curves_on_each_other_are_all_seen(terminal: Terminal, count: int) -> None:
    shown = drawn([Curve("abc"[k], X, np.sqrt(X)) for k in range(count)], terminal)
    body = "".join(line for line in shown if "│" in line or "|" in line)
    if terminal.colours:
        assert len(set(re.findall(r"\x1b\[38[0-9;]*m", body))) == count
    else:
        assert set("*o+"[:count]) <= set(body)


def test_an_axis_ends_where_the_curves_end() -> None:
    y = np.where(X < 40, 1.0 + X, np.nan)
    shown = drawn([Curve("", X, y)], Terminal())
    assert "40" in shown[-2].split()
    assert "100" not in shown[-2].split()
