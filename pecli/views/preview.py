"""A look at tables: their first and last rows and columns, as many as fit."""

import math

import numpy as np

from pecli.engine.arrays import numpy_dtype
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.errors import brief
from pecli.views import screen

_ROWS, _COLUMNS = (
    (4, 2),
    (5, 2),
)  #: How much is shown of a long table: from its beginning, and from its end
POSITIVE, NEGATIVE = "#c25700", "#2f7fd0"
"""Colours of numbers."""


def _chosen(count: int, head: int, tail: int) -> list[int | None]:
    if count <= head + tail + 1:
        return [*range(count)]
    return [*range(head), None, *range(count - tail, count)]


def corner(
    table: Table, first: int = 0
) -> tuple[list[int | None], list[tuple[str, list[float | None]]]]:
    """The columns and rows of a table worth showing, None for what is left out; a row is its number and its values.
    Rows are numbered from `first`, those of higher tensors by all their indices."""
    columns = _chosen(table.width, *_COLUMNS)
    rows: list[tuple[str, list[float | None]]] = []
    for row in _chosen(table.rows, *_ROWS):
        if row is None:
            rows.append(("", [None] * len(columns)))
            continue
        indices = np.unravel_index(row, table.shape[:-1]) if len(table.shape) > 2 else [row + first]
        values = table.read(row, row + 1)[0]
        rows.append(
            (
                ",".join(map(str, indices)),
                [None if k is None else float(values[k]) for k in columns],
            )
        )
    return columns, rows


def show(scheme: Scheme) -> None:
    """The scheme's parameters and the corners of its tensors."""
    terminal = screen.is_terminal()
    gap, sign, dots = ("  ", " ", "…") if terminal else (" ", "=", "...")
    for place, (name, part) in enumerate(scheme.named_parts()):
        if place:
            screen.say()
        if name:
            screen.say(name)
        given = {
            key: value for key, value in part.spec()["parameters"].items() if value is not None
        }
        words = "".join(f"{gap}{key}{sign}{brief(value)}" for key, value in given.items())
        screen.say_labelled(part.name, "bold", words)
        for table in part.tensors():
            screen.say_heading(f"{table.name}  {screen.shape(table.shape)}  {table.dtype}")
            columns, rows = corner(table, part.first_position if len(table.shape) == 2 else 0)
            width = max(len(label or dots) for label, _ in rows)
            lines: list[list[screen.Cell]] = []
            for label, values in rows:
                cells = [
                    (dots, "dim") if value is None else _cell(value, terminal) for value in values
                ]
                lines.append([((label or dots).rjust(width), "dim"), *cells])
            screen.say_table(
                ["", *(dots if k is None else str(k) for k in columns)], lines, right=True
            )


def _cell(value: float, terminal: bool) -> screen.Cell:
    """On a terminal warm for positive, cool for negative, so that waves can be seen; seven characters at most. Both are
    legible on white and on black, which the sixteen colours of a terminal's theme need not be."""
    if not terminal:
        return f"{value:.7g}"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}", "dim"
    style = POSITIVE if value > 0 else NEGATIVE
    return (f"{value:.4f}" if 1e-3 <= abs(value) < 10 else f"{value:.1e}"), style


def show_slopes(scheme: Scheme) -> None:
    """ALiBi's slopes in the shortest decimals that read back the same: one per line in a pipe, a table on terminals."""
    slopes = [float(value) for value in scheme.tables()["slopes"]]
    exact = numpy_dtype(scheme.dtype).type
    shortest = [
        repr(slope) if scheme.dtype == "bfloat16" else str(exact(slope)) for slope in slopes
    ]
    if screen.is_terminal():
        screen.say_table(
            ["head", "slope"],
            [*zip(map(str, range(len(slopes))), shortest, strict=True)],
            right=True,
        )
        return
    for text in shortest:
        screen.say(text)
