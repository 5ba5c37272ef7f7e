"""A look at tables: their first and last rows and columns, as many as fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pecli.engine.scheme import Scheme
from pecli.engine.table import Table
from pecli.views import screen

_HEAD, _TAIL = 4, 2
"""Rows and pairs of columns shown of a long table: from its beginning, and from its end."""


@dataclass(frozen=True)
class Corner:
    """The rows and columns of a table worth showing; None stands for what is left out."""

    title: str
    columns: tuple[int | None, ...]
    rows: tuple[tuple[str, tuple[float, ...]] | None, ...]


def _chosen(count: int, head: int, tail: int) -> tuple[int | None, ...]:
    if count <= head + tail + 1:
        return tuple(range(count))
    return (*range(head), None, *range(count - tail, count))


def corner(table: Table, first: int = 0) -> Corner:
    """The corners of a table; rows are numbered from `first`, those of higher tensors by all their indices."""
    columns = _chosen(table.width, _HEAD + 2, _TAIL)
    picked = [column for column in columns if column is not None]
    rows: list[tuple[str, tuple[float, ...]] | None] = []
    for row in _chosen(table.rows, _HEAD, _TAIL):
        if row is None:
            rows.append(None)
        else:
            values = table.read(row, row + 1)[0]
            rows.append((_label(table, row, first), tuple(float(values[column]) for column in picked)))
    title = f"{table.name}  {screen.shape(table.shape)}  {table.dtype}"
    return Corner(title, columns, tuple(rows))


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
    first = int(getattr(scheme, "offset", 0))
    corners = [corner(table, first if len(table.shape) == 2 else 0) for table in scheme.tensors()]
    given = {name: value for name, value in scheme.spec()["parameters"].items() if value is not None}
    if screen.is_terminal():
        _show_rich(scheme, given, corners)
    else:
        _show_plain(scheme, given, corners)


def _number(value: float) -> str:
    return f"{value:.7g}" if math.isfinite(value) else str(value)


def _show_plain(scheme: Scheme, given: dict[str, object], corners: Sequence[Corner]) -> None:
    screen.say(" ".join([scheme.name, *(f"{name}={value}" for name, value in given.items())]))
    for part in corners:
        screen.say()
        screen.say(part.title)
        gap = part.columns.index(None) if None in part.columns else len(part.columns)
        lines = [["", *("..." if column is None else str(column) for column in part.columns)]]
        for row in part.rows:
            cells = ["..."] * len(part.columns) if row is None else [_number(value) for value in row[1]]
            if row is not None and None in part.columns:
                cells.insert(gap, "...")
            lines.append([row[0] if row else "...", *cells])
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            screen.say("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _show_rich(scheme: Scheme, given: dict[str, object], corners: Sequence[Corner]) -> None:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    console = screen.console()
    heading = Text(scheme.name, style="bold")
    for name, value in given.items():
        heading.append(f"  {name} ", style="dim").append(str(value))
    console.print(heading)
    for part in corners:
        grid = Grid(
            title=part.title, title_justify="left", title_style="bold cyan", box=box.SIMPLE_HEAD, pad_edge=False
        )
        grid.add_column("", justify="right", style="dim", no_wrap=True)
        for column in part.columns:
            grid.add_column("…" if column is None else str(column), justify="right", no_wrap=True)
        for row in part.rows:
            if row is None:
                grid.add_row(*["…"] * (1 + len(part.columns)), style="dim")
                continue
            values = iter(row[1])
            cells = [Text("…", style="dim") if column is None else _coloured(next(values)) for column in part.columns]
            grid.add_row(row[0], *cells)
        console.print(grid)


def _coloured(value: float):  # type: ignore[no-untyped-def]
    """Warm for positive, cool for negative, so that waves can be seen in the numbers."""
    from rich.text import Text

    style = "dim" if value == 0 or not math.isfinite(value) else "yellow" if value > 0 else "blue"
    return Text(f"{value:.4g}", style=style)


def show_slopes(scheme: Scheme) -> None:
    """ALiBi's slopes: one a line in a pipe, for a shell to read; a table with their exponents on a terminal."""
    slopes = [float(value) for value in scheme.tables()["slopes"]]
    if not screen.is_terminal():
        for slope in slopes:
            screen.say(_shortest(slope, scheme.dtype))
        return
    from rich import box
    from rich.table import Table as Grid

    grid = Grid(title=f"{len(slopes)} slopes  {scheme.dtype}", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("head", "slope", "as a power of two"):
        grid.add_column(name, justify="right")
    for head, slope in enumerate(slopes):
        grid.add_row(str(head), _shortest(slope, scheme.dtype), f"2^{math.log2(slope):.6g}" if slope else "")
    screen.console().print(grid)


def _shortest(value: float, dtype: str) -> str:
    """The shortest decimal that reads back as the same float of that dtype."""
    from pecli.engine.dtypes import numpy_dtype

    return str(numpy_dtype(dtype).type(value)) if dtype != "bfloat16" else repr(value)
