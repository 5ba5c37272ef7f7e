"""In a .png, all cells of a heatmap have the same whole number of pixels, down and across.

A cell is a value of the heatmap. Expected is that its width and height in pixels are whole numbers.
"""

import numpy as np
import pytest

from pecli.views.pictures.figure import render
from pecli.views.pictures.figure_pixels import whole_pixels
from pecli.views.pictures.panels import HeatmapPanel, Picture


@pytest.mark.parametrize("shape", [(96, 64), (14, 14), (32, 7), (1, 3)], ids=str)
@pytest.mark.sample(2)
def test_cells_of_a_heatmap_have_whole_pixels(shape: tuple[int, int]) -> None:
    """Cells of 2 and 3 pixels in turn would look like a pattern of the data. At 200 pixels per
    inch, the width and height of each of two heatmaps, divided by their cells, are whole numbers;
    the colour bar is as high as the heatmap beside it. Afterwards the figure has its layout again.
    """
    rows, columns = shape
    values = np.arange(rows * columns, dtype=float).reshape(shape)
    figure = render(Picture("t", [HeatmapPanel("a", values), HeatmapPanel("b", values)], across=2))
    figure.set_dpi(200)

    with whole_pixels(figure):
        for axes in figure.axes[:2]:
            box = axes.get_window_extent()
            assert box.width / columns == pytest.approx(round(box.width / columns), abs=1e-6)
            assert box.height / rows == pytest.approx(round(box.height / rows), abs=1e-6)
            assert box.x0 == pytest.approx(round(box.x0), abs=1e-6)
        bar = figure.axes[2].get_window_extent()
        panel = figure.axes[1].get_window_extent()
        assert bar.y0 == pytest.approx(panel.y0, abs=1e-6)
        assert bar.y1 == pytest.approx(panel.y1, abs=1e-6)
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
