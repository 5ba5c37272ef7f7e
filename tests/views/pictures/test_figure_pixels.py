"""In a .png, all cells of a heatmap have the same whole number of pixels, down and across.

A cell is a value of the heatmap. Expected is that its width and height in pixels are whole numbers.
"""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from pecli.views.pictures.figure import render
from pecli.views.pictures.figure_pixels import whole_pixels
from pecli.views.pictures.panels import HeatmapPanel, Picture


def figure_of_two_heatmaps(shape: tuple[int, int]) -> Figure:
    """Return a figure of two equal heatmaps side by side and their colour bar, at 200 pixels per
    inch.
    """
    values = np.arange(math.prod(shape), dtype=float).reshape(shape)
    panels = [HeatmapPanel("a", values), HeatmapPanel("b", values)]
    figure = render(Picture("t", panels, across=2))
    figure.set_dpi(200)
    return figure


SHAPES = [(96, 64), (14, 14), (32, 7), (1, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.sample(2)
def test_cells_of_a_heatmap_have_whole_pixels(shape: tuple[int, int]) -> None:
    """Cells of 2 and 3 pixels in turn would look like a pattern of the data: so width and height,
    divided by the numbers of cells, are whole numbers, and the left edge is at a whole pixel.
    """
    rows, columns = shape
    figure = figure_of_two_heatmaps(shape)

    with whole_pixels(figure):
        for axes in figure.axes[:2]:
            box = axes.get_window_extent()
            assert box.width / columns == pytest.approx(round(box.width / columns), abs=1e-6)
            assert box.height / rows == pytest.approx(round(box.height / rows), abs=1e-6)
            assert box.x0 == pytest.approx(round(box.x0), abs=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.sample(2)
def test_the_colour_bar_is_as_high_as_a_heatmap_of_whole_pixels(shape: tuple[int, int]) -> None:
    """Whole pixels make the heatmaps lower. The colour bar beside the second one follows it."""
    figure = figure_of_two_heatmaps(shape)
    _, heatmap, colour_bar = figure.axes

    with whole_pixels(figure):
        bar = colour_bar.get_window_extent()
        panel = heatmap.get_window_extent()
        assert bar.y0 == pytest.approx(panel.y0, abs=1e-6)
        assert bar.y1 == pytest.approx(panel.y1, abs=1e-6)


def test_a_figure_has_its_layout_again_after_whole_pixels() -> None:
    """matplotlib's layout engine would move the heatmaps again; it is switched off meanwhile."""
    figure = figure_of_two_heatmaps(shape=(14, 14))
    with whole_pixels(figure):
        pass
    assert figure.get_layout_engine() is not None


def test_square_cells_stay_square_when_they_get_whole_pixels() -> None:
    """37 cells do not divide the pixels of the figure, at 200 per inch: the heatmap is made a
    little smaller, in both directions.
    """
    values = np.eye(37)
    figure = render(Picture("t", [HeatmapPanel("a", values, "query", "key")]))
    figure.set_dpi(200)

    with whole_pixels(figure):
        figure.canvas.draw()
        box = figure.axes[0].get_window_extent()
        assert box.width == pytest.approx(box.height, abs=1e-6)
        assert box.width / 37 == pytest.approx(round(box.width / 37), abs=1e-6)
