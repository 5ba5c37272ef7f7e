"""The rows of a table that lie on a grid, such as the patches of an image."""

import math
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Indices
from pecli.engine.schemes.positions import Positioned
from pecli.errors import ParameterError, listed
from pecli.views.pictures.plot_sources import PlotSource

MAX_POINTS = 1 << 18  #: Points of a grid that are drawn.


class _GridRowOrder(NamedTuple):
    """The order of a grid's points in a table."""

    skipped: int  #: Rows in front of the grid's: class tokens and registers.
    merge: int = 1  #: The side of blocks of patches that follow each other: 2 in Qwen2-VL.


def grid_rows(source: PlotSource) -> Indices:
    """Return the row of the table for each point of the first frame, in shape (H, W).

    A table of 4 × 4 patches in blocks of 2 × 2 counts its rows block by block: the patches at the
    top of the image are the rows 0, 1, 4, 5 of the table.
    """
    grid = _grid(source)
    height, width = grid[-2:]
    if height * width > MAX_POINTS:
        rule = f"a map has at most {MAX_POINTS:,} points"
        raise ParameterError("the picture", "too large", rule)
    order = _row_order(source, grid)
    rows = order.skipped + np.arange(height * width)
    side = order.merge
    # (block down, block across, patch down in its block, patch across in its block)
    by_block = rows.reshape(height // side, width // side, side, side)
    # (block down, patch down, block across, patch across)
    by_place = by_block.transpose(0, 2, 1, 3)
    return by_place.reshape(height, width)


def frame_note(source: PlotSource) -> str:
    """Return «frame 0 of 4» if a grid has frames, of which only the first is drawn."""
    frames = math.prod(_grid(source)[:-2])
    return f"frame 0 of {frames}" if frames > 1 else ""


def _grid(source: PlotSource) -> tuple[int, ...]:
    if source.grid:
        return source.grid
    assert isinstance(source.scheme, Positioned)
    assert source.scheme.grid is not None, "only rows on a grid have the pictures of one"
    return source.scheme.grid


def _row_order(source: PlotSource, grid: tuple[int, ...]) -> _GridRowOrder:
    """Return in which order the rows of a table are the points of a grid.

    A style (one project's conventions) may put points in blocks of 2 × 2, which the model merges,
    or rows for other tokens in front. Rows of a file are taken one by one, and have to be as many
    as there are points.
    """
    scheme = source.scheme
    if isinstance(scheme, Positioned) and scheme.grid_style is not None:
        style = scheme.grid_style
        has_rows_in_front = not style.keep_last
        skipped = scheme.keep or 0
        return _GridRowOrder(skipped if has_rows_in_front else 0, style.merge)
    _check_row_count(source, grid)
    return _GridRowOrder(source.keep)


def _check_row_count(source: PlotSource, grid: tuple[int, ...]) -> None:
    """Raise ParameterError unless tables of a file have a row per point and per token in front."""
    expected = source.keep + math.prod(grid)
    rows = [table.rows for table in source.matrices]
    if set(rows) != {expected}:
        size = "x".join(map(str, grid))
        rule = f"with {source.keep} kept that is {expected:,} rows"
        present = listed(list(map(str, rows)), 4) or "none"
        raise ParameterError("grid", size, rule, f"{source.label} has {present}")
