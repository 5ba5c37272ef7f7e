"""Previews of tables: their first and last rows and columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import numpy_dtype
from pecli.engine.schemes.scheme import Scheme, stated_parameters
from pecli.engine.table import Table
from pecli.errors import brief
from pecli.views import screen
from pecli.views.screen import Cell, Styled
from pecli.views.text_table import print_table

FIRST_ROWS = 4
LAST_ROWS = 2
FIRST_COLUMNS = 5
LAST_COLUMNS = 2
"""Rows and columns that are shown of a large table."""

POSITIVE = "#c25700"
NEGATIVE = "#2f7fd0"
"""Colours of numbers. Both are legible on white and on black, unlike the sixteen colours of some themes."""


class CornerRow(NamedTuple):
    """A row of a preview; without a label, it stands for the rows that are left out."""

    label: str
    values: list[float | None]


class Corner(NamedTuple):
    """The columns and rows of a preview; None stands for those that are left out."""

    columns: list[int | None]
    rows: list[CornerRow]


def corner(table: Table, first_row: int = 0) -> Corner:
    """Return the first and last rows and columns of a table, for a preview on the screen.

    None stands for the row or column of dots between them.

    Args:
        table: The table.
        first_row: The number of the first row. Rows of tensors with more than two axes are labelled
            with their indices instead, such as `1,0` for head 1 and query 0.
    """
    columns = _ends(table.width, FIRST_COLUMNS, LAST_COLUMNS)
    rows: list[CornerRow] = []
    for row in _ends(table.rows, FIRST_ROWS, LAST_ROWS):
        if row is None:
            rows.append(CornerRow("", [None] * len(columns)))
        else:
            label = _row_label(table, row, first_row)
            rows.append(CornerRow(label, _values_in_columns(table, row, columns)))
    return Corner(columns, rows)


def _values_in_columns(table: Table, row: int, columns: Sequence[int | None]) -> list[float | None]:
    """Return the values of one row in some columns; None for the columns that are left out."""
    (row_values,) = table.read(row, row + 1)
    values: list[float | None] = []
    for column in columns:
        values.append(None if column is None else float(row_values[column]))
    return values


def _row_label(table: Table, row: int, first_row: int) -> str:
    """Return the number of a row, or its indices: row 9 of a tensor (2, 8, 64) is `1,1`."""
    if len(table.shape) <= 2:
        return str(row + first_row)
    *outer_axes, _ = table.shape
    indices = np.unravel_index(row, outer_axes)
    return ",".join(map(str, indices))


def _ends(count: int, first: int, last: int) -> list[int | None]:
    """Return the first and last indices with None between them; all if at most one would be left out.

    >>> _ends(9, 4, 2)
    [0, 1, 2, 3, None, 7, 8]
    """
    if count <= first + last + 1:
        return list(range(count))
    return [*range(first), None, *range(count - last, count)]


class _Style(NamedTuple):
    """The characters of a preview; those in a pipe are ASCII and can be split at spaces."""

    gap: str  #: before a parameter
    equals: str  #: between a parameter and its value
    dots: str  #: for rows and columns that are left out


_ON_TERMINAL = _Style(gap="  ", equals=" ", dots="…")
_IN_PIPE = _Style(gap=" ", equals="=", dots="...")


def show(scheme: Scheme) -> None:
    """Print the parameters of a scheme and the corners of its tensors, per type of layer."""
    style = _ON_TERMINAL if screen.is_terminal() else _IN_PIPE
    for index, (layer_type, layer_scheme) in enumerate(scheme.by_layer_type()):
        if index > 0:
            screen.print_line()
        if layer_type:
            screen.print_line(layer_type)
        screen.print_labelled(layer_scheme.name, "bold", _parameters(layer_scheme, style))
        for table in layer_scheme.tensors():
            has_positions = len(table.shape) == 2
            first_row = layer_scheme.first_position if has_positions else 0
            _show_table(table, first_row, style)


def _parameters(scheme: Scheme, style: _Style) -> str:
    """Return the parameters that are set, after the scheme's name: «  dim 64  base 10000»."""
    words = ""
    for name, value in stated_parameters(scheme).items():
        words += f"{style.gap}{name}{style.equals}{brief(value)}"
    return words


def _show_table(table: Table, first_row: int, style: _Style) -> None:
    """Print the corner of a table under a heading; `first_row` is the position of its first row."""
    screen.print_heading(f"{table.name}  {screen.shape(table.shape)}  {table.dtype}")
    columns, rows = corner(table, first_row)
    heads = [""]
    for column in columns:
        heads.append(style.dots if column is None else str(column))
    labels = [row.label or style.dots for row in rows]
    label_width = max(map(len, labels))
    lines: list[list[Cell]] = []
    for label, row in zip(labels, rows, strict=True):
        dim_label = Styled(label.rjust(label_width), "dim")
        lines.append([dim_label, *(_cell(value, style) for value in row.values)])
    print_table(heads, lines, right=True)


def _cell(value: float | None, style: _Style) -> Cell:
    """Format a number: coloured on a terminal, with all digits of a float32 in a pipe; None is «…»."""
    if value is None:
        return Styled(style.dots, "dim")
    if style is _IN_PIPE:
        return f"{value:.7g}"
    return _coloured(value)


def _coloured(value: float) -> Styled:
    """Return a number in at most seven characters, warm if positive and cool if negative.

    The colours make the waves of a table visible.
    """
    if value == 0 or not math.isfinite(value):
        return Styled(f"{value:g}", "dim")
    is_plain = 1e-3 <= abs(value) < 10
    text = f"{value:.4f}" if is_plain else f"{value:.1e}"
    return Styled(text, POSITIVE if value > 0 else NEGATIVE)


def show_slopes(scheme: Scheme) -> None:
    """Print ALiBi's slopes: a table on a terminal, one number per line in a pipe."""
    slopes = [_shortest(float(slope), scheme.dtype) for slope in scheme.tables()["slopes"]]
    if screen.is_terminal():
        print_table(
            ["head", "slope"], [[str(k), slope] for k, slope in enumerate(slopes)], right=True
        )
        return
    for slope in slopes:
        screen.print_line(slope)


def _shortest(value: float, dtype: str) -> str:
    """Return the shortest decimal that reads back as the same number of that dtype."""
    if dtype == "bfloat16":  # NumPy has no such dtype; as float64 it is exact
        return repr(value)
    return str(numpy_dtype(dtype).type(value))
