"""A look at tables: their first and last rows and columns, as many as fit."""

from __future__ import annotations

import math

from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.errors import spelled
from pecli.views import screen

_ROWS, _COLUMNS = (4, 2), (5, 2)
"""How much is shown of a long table: from its beginning, and from its end."""
POSITIVE, NEGATIVE = "#c25700", "#2f7fd0"
"""Colours of numbers."""
_WIDTH = 80
"""Characters that it fits into."""


def _chosen(count: int, head: int, tail: int) -> list[int | None]:
    if count <= head + tail + 1:
        return [*range(count)]
    return [*range(head), None, *range(count - tail, count)]


def _across() -> tuple[int, int]:
    """How many columns fit; a narrow terminal would cut their numbers."""
    width = screen.console().width if screen.is_terminal() else _WIDTH
    if width >= _WIDTH:
        return _COLUMNS
    count = max(2, (width - 20) // 10)
    tail = min(_COLUMNS[1], count // 2)
    return count - tail, tail


def corner(table: Table, first: int = 0) -> tuple[list[int | None], list[tuple[str, list[float]] | None]]:
    """The columns and rows of a table worth showing, None for what is left out; a row is its number and its values.

    Rows are numbered from `first`, those of higher tensors by all their indices.
    """
    columns = _chosen(table.width, *_across())
    picked = [column for column in columns if column is not None]
    rows: list[tuple[str, list[float]] | None] = []
    for row in _chosen(table.rows, *_ROWS):
        if row is None:
            rows.append(None)
        else:
            values = table.read(row, row + 1)[0]
            rows.append((_label(table, row, first), [float(values[column]) for column in picked]))
    return columns, rows


def _label(table: Table, row: int, first: int) -> str:
    if len(table.shape) <= 2:
        return str(row + first)
    indices = []
    for length in reversed(table.shape[1:-1]):
        row, index = divmod(row, length)
        indices.append(index)
    return ",".join(map(str, [row, *reversed(indices)]))


def show(scheme: Scheme) -> None:
    """The scheme's parameters and the corners of its tensors."""
    for number, (name, part) in enumerate(scheme.named_parts()):
        if number:
            screen.say()
        if name:
            screen.say(name)
        _show(part)


def _show(scheme: Scheme) -> None:
    first = scheme.first_position
    given = {name: value for name, value in scheme.spec()["parameters"].items() if value is not None}
    if screen.is_terminal():
        named = (f"  {name} {spelled(value)}" for name, value in given.items())
        screen.say_labelled(scheme.name, "bold", "".join(named))
    else:
        screen.say(" ".join([scheme.name, *(f"{name}={spelled(value)}" for name, value in given.items())]))
    number = _coloured if screen.is_terminal() else _number
    dots = "…" if screen.is_terminal() else "..."
    for table in scheme.tensors():
        screen.say()
        screen.say_styled((f"{table.name}  {screen.shape(table.shape)}  {table.dtype}", "bold cyan"))
        columns, rows = corner(table, first if len(table.shape) == 2 else 0)
        width = max(len(row[0] if row else dots) for row in rows)
        lines: list[list[screen.Cell]] = []
        for row in rows:
            values = iter(row[1] if row else ())
            cells = [(dots, "dim") if column is None or row is None else number(next(values)) for column in columns]
            lines.append([((row[0] if row else dots).rjust(width), "dim"), *cells])
        screen.say_table(["", *(dots if column is None else str(column) for column in columns)], lines, right=True)


def _number(value: float) -> str:
    return f"{value:.7g}" if math.isfinite(value) else str(value)


def _coloured(value: float) -> tuple[str, str]:
    """Warm for positive, cool for negative, so that waves can be seen in the numbers; seven characters at most.

    Both are legible on white and on black, which the sixteen colours of a terminal's theme need not be.
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}", "dim"
    style = POSITIVE if value > 0 else NEGATIVE
    return (f"{value:.4f}" if 1e-3 <= abs(value) < 10 else f"{value:.1e}"), style


def show_slopes(scheme: Scheme) -> None:
    """ALiBi's slopes: one per line in a pipe, for a shell to read; a table with their exponents on a terminal."""
    slopes = [float(value) for value in scheme.tables()["slopes"]]
    if not screen.is_terminal():
        for slope in slopes:
            screen.say(_shortest(slope, scheme.dtype))
        return
    rows = [
        [str(head), _shortest(slope, scheme.dtype), f"2^{math.log2(slope):.6g}" if slope else ""]
        for head, slope in enumerate(slopes)
    ]
    screen.say_table(["head", "slope", "as a power of two"], rows, right=True)


def _shortest(value: float, dtype: str) -> str:
    """The shortest decimal that reads back as the same float of that dtype; of bfloat16, all its digits."""
    from pecli.engine.arrays import numpy_dtype

    return str(numpy_dtype(dtype).type(value)) if dtype != "bfloat16" else repr(value)
