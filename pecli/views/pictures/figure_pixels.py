"""Whole pixels per cell: in a .png, all cells of a heatmap are equally wide and equally high.

A layout gives a panel the room that its numbers and names leave. If 64 columns had 450 pixels, some
would be 7 pixels wide and some 8, which looks like a pattern of the data. So the panel is made a
little smaller: 448 pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pecli.views.pictures.matplotlib_types import Axes, Figure

MAX_LOSS = 0.25
"""The share of a panel's width or height that may be given up: cells of 1.4 pixels would cost more."""

COLOUR_BAR = "<colorbar>"  #: The label that matplotlib gives to the axes of a colour bar.


@contextmanager
def whole_pixels(figure: Figure) -> Iterator[None]:
    """Give all cells of heatmaps whole pixels while a figure is drawn: a context manager.

    The figure must have the resolution that it is drawn with. Afterwards the layout engine arranges
    it again, so that it can still be changed.
    """
    heatmaps = [axes for axes in figure.axes if axes.images]
    if not heatmaps:
        yield
        return
    figure.draw_without_rendering()  # The layout engine places the panels.
    engine = figure.get_layout_engine()
    figure.set_layout_engine("none")  # It would move them back when the figure is drawn.
    _move_to_whole_pixels(figure, heatmaps)
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


def _move_to_whole_pixels(figure: Figure, heatmaps: Sequence[Axes]) -> None:
    """Make heatmaps a little smaller, and move the colour bars beside them."""
    moves = [_Move(_box(axes), _in_whole_pixels(axes)) for axes in heatmaps]
    for axes, move in zip(heatmaps, moves, strict=True):
        _move_to(axes, move.after)
    for axes in figure.axes:
        if axes.get_label() == COLOUR_BAR:
            _move_to(axes, _beside(_box(axes), moves))


class _Box(NamedTuple):
    """The edges of axes in pixels, from the lower left corner of the figure."""

    left: float
    bottom: float
    right: float
    top: float


class _Move(NamedTuple):
    """The edges of a heatmap by the layout, and those of whole pixels."""

    before: _Box
    after: _Box


def _box(axes: Axes) -> _Box:
    extent = axes.get_window_extent()
    return _Box(extent.x0, extent.y0, extent.x1, extent.y1)


def _in_whole_pixels(axes: Axes) -> _Box:
    """Return the box of a heatmap with the same whole number of pixels for every cell.

    Otherwise some rows would be drawn a pixel higher than others, which looks like a pattern. The
    box shrinks from 250 to 200 pixels for 100 columns; its upper left corner stays. A direction
    with too many cells for that is left as it is.
    """
    box = _box(axes)
    rows, columns = axes.images[0].get_size()
    cell = _cell_in_pixels(axes, box, rows, columns)
    left = round(box.left)
    top = round(box.top)
    right = box.right
    bottom = box.bottom
    if cell.width > 0:
        right = left + cell.width * columns
    if cell.height > 0:
        bottom = top - cell.height * rows
    return _Box(left, bottom, right, top)


class _Cell(NamedTuple):
    """The size of a cell in whole pixels; 0 in a direction with too many cells."""

    width: int
    height: int


def _cell_in_pixels(axes: Axes, box: _Box, rows: int, columns: int) -> _Cell:
    """Return the pixels of each cell of a heatmap; cells stay square if they were."""
    width = _pixels_per_cell(box.right - box.left, columns)
    height = _pixels_per_cell(box.top - box.bottom, rows)
    has_square_cells = axes.get_box_aspect() is not None
    if has_square_cells and width > 0 and height > 0:
        side = min(width, height)
        return _Cell(side, side)
    return _Cell(width, height)


def _pixels_per_cell(pixels: float, cells: int) -> int:
    """Return the whole pixels of each cell; 0 if that would cost too much room.

    >>> _pixels_per_cell(450.0, 64), _pixels_per_cell(450.0, 300)
    (7, 0)
    """
    per_cell = int(pixels // cells)
    loss = 1 - per_cell * cells / pixels
    return per_cell if loss <= MAX_LOSS else 0


def _move_to(axes: Axes, box: _Box) -> None:
    """Move axes to a box; positions of axes are shares of the figure."""
    figure = axes.get_figure(root=True)
    assert figure is not None, "axes belong to a figure"
    width, height = figure.bbox.size
    place = (
        box.left / width,
        box.bottom / height,
        (box.right - box.left) / width,
        (box.top - box.bottom) / height,
    )
    axes.set_position(place)


def _beside(bar: _Box, moves: Sequence[_Move]) -> _Box:
    """Return a colour bar that is as far from the heatmaps beside it, and as high, as before."""
    lowest = min(moves, key=lambda move: abs(move.before.bottom - bar.bottom))
    highest = min(moves, key=lambda move: abs(move.before.top - bar.top))
    nearest = min(moves, key=lambda move: abs(move.before.right - bar.left))
    shift = nearest.after.right - nearest.before.right
    return _Box(bar.left + shift, lowest.after.bottom, bar.right + shift, highest.after.top)
