"""Axes as large as their figure allows, with room for every label; measured once, where matplotlib does it thrice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GAP, _BAR = 0.12, 0.15
"""Inches between panels, and of a colour bar's width."""


class Place(NamedTuple):
    """Axes in a grid; some span several columns."""

    axes: Any
    row: int
    column: int
    span: int = 1


class Bar(NamedTuple):
    """A colour bar, to the right of the axes that it speaks for."""

    axes: Any
    beside: Sequence[Place]


def arrange(
    made: Figure, places: Sequence[Place], title: Any = None, bars: Sequence[Bar] = (), scale: float = 1.0
) -> tuple[float, float]:
    """Put axes where the grid has them, bars beside them, a title above all; inches of each of the axes."""
    before = min(place.axes.bbox.width / place.span for place in places), min(p.axes.bbox.height for p in places)
    room = _put(made, places, title, bars, scale)
    if room[0] < before[0] or room[1] < before[1]:  # what hangs over smaller axes hangs over by more
        room = _put(made, places, title, bars, scale)
    return room[0] / made.dpi, room[1] / made.dpi


def _put(made: Figure, places: Sequence[Place], title: Any, bars: Sequence[Bar], scale: float) -> tuple[float, float]:
    """The pixels of each of the axes, given what hangs over where they are now."""
    renderer = made.canvas.get_renderer()  # type: ignore[attr-defined]
    gap, thick = _GAP * scale * made.dpi, _BAR * scale * made.dpi
    rows, columns = 1 + max(p.row for p in places), max(p.column + p.span for p in places)
    left, right, top, bottom = [0.0] * columns, [0.0] * columns, [0.0] * rows, [0.0] * rows
    for axes, row, column, span in places:
        whole = axes.get_tightbbox(renderer)
        inner, last = axes.bbox, column + span - 1
        left[column] = max(left[column], inner.x0 - whole.x0)
        right[last] = max(right[last], whole.x1 - inner.x1)
        top[row], bottom[row] = max(top[row], whole.y1 - inner.y1), max(bottom[row], inner.y0 - whole.y0)
    strip, after = 0.0, -1
    if bars:
        after = max(place.column for bar in bars for place in bar.beside)
        strip = right[after] + gap
        right[after] = strip + thick + max(bar.axes.get_tightbbox(renderer).x1 - bar.axes.bbox.x1 for bar in bars)
    above = title.get_window_extent(renderer).height + 2 * gap if title is not None else gap
    wide = max(1.0, (made.bbox.width - sum(left) - sum(right) - gap * (columns + 1)) / columns)
    high = max(1.0, (made.bbox.height - above - sum(top) - sum(bottom) - gap * rows) / rows)
    starts = [gap * (c + 1) + sum(left[: c + 1]) + sum(right[:c]) + wide * c for c in range(columns)]
    floors = [
        made.bbox.height - above - sum(top[: r + 1]) - sum(bottom[:r]) - gap * r - high * (r + 1) for r in range(rows)
    ]

    def put(axes: Any, x0: float, y0: float, x1: float, y1: float) -> None:
        size = made.bbox
        axes.set_position((x0 / size.width, y0 / size.height, (x1 - x0) / size.width, (y1 - y0) / size.height))

    for axes, row, column, span in places:
        put(axes, starts[column], floors[row], starts[column + span - 1] + wide, floors[row] + high)
    for bar in bars:
        x0 = starts[after] + wide + strip
        lowest, highest = max(p.row for p in bar.beside), min(p.row for p in bar.beside)
        put(bar.axes, x0, floors[lowest], x0 + thick, floors[highest] + high)
    return wide, high
