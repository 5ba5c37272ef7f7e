"""The contents of pictures: ends of colours, names of axes, sizes of figures and rows of panels.

Panels are made of small arrays; expected values follow from them by the rules in panels.py.
"""

import numpy as np
import pytest

from pecli.views.pictures.downsample import Reduction
from pecli.views.pictures.panels import Chart, HeatmapPanel, Picture

HEATMAP_2_BY_2 = HeatmapPanel("", np.eye(2))
EMPTY_CHART = Chart("", [])


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([-1.0, 2.0], (-2.0, 2.0)),
        ([-3.0, 2.0], (-3.0, 3.0)),
        ([0.0, 2.0], (0.0, 2.0)),
        ([-2.0, 0.0], (-2.0, 0.0)),
        ([np.nan], (0.0, 1.0)),
    ],
    ids=["mostly positive", "mostly negative", "not negative", "not positive", "no number"],
)
def test_colours_end_at_the_data_and_are_centred_around_a_change_of_sign(
    values: list[float], ends: tuple[float, float]
) -> None:
    """Values of both signs have −m and m as ends, m being the largest magnitude; without any finite
    number they are 0 and 1.
    """
    assert HeatmapPanel("", np.array([values])).ends == ends


@pytest.mark.parametrize(
    ("values", "ends"),
    [([0.0, 2.0], (2.0 / 10, 2.0)), ([0.1, 2.0], (0.1, 2.0)), ([0.0], (1.0 / 10, 1.0))],
    ids=["one positive", "two positive", "none"],
)
def test_logarithmic_colours_leave_zero_out_and_span_a_decade(
    values: list[float], ends: tuple[float, float]
) -> None:
    """The lower end is the smallest positive value, but at most a tenth of the largest, so that the
    scale spans a decade at least. Without any positive value, the ends are 0.1 and 1.
    """
    assert HeatmapPanel("", np.array([values]), log=True).ends == ends


@pytest.mark.parametrize(
    ("rows", "columns", "width", "is_square"),
    [
        ("position", "position", 2, True),
        ("query", "key", 2, True),
        ("position", "channel", 2, False),
        ("query", "key", 3, False),
        ("row", "column", 3, True),
    ],
)
def test_cells_are_squares_on_images_and_if_both_axes_are_alike(
    rows: str, columns: str, width: int, is_square: bool
) -> None:
    """The heatmap has 2 rows, and as many columns as `width`. Cells are squares if both axes are
    positions, or patches of an image, or queries and keys of which there are as many. A table of
    positions and channels fills the room that there is.
    """
    assert HeatmapPanel("", np.zeros((2, width)), rows, columns).is_square is is_square


@pytest.mark.parametrize(
    ("neighbour", "has_same_rows"),
    [
        (HeatmapPanel("", np.zeros((2, 3))), True),
        (HeatmapPanel("", np.zeros((3, 3))), False),
        (HeatmapPanel("", np.zeros((2, 3)), first_row=1), False),
        (HeatmapPanel("", np.zeros((2, 3)), reduction=Reduction.MAX), False),
    ],
    ids=["the same", "more rows", "another first row", "maxima instead of means"],
)
def test_panels_share_the_axis_of_rows_if_the_same_rows_are_drawn_alike(
    neighbour: HeatmapPanel, has_same_rows: bool
) -> None:
    """A panel of the rows 0 and 1 stands on the left of `neighbour`, whose numbers of rows are left
    out if both have the same axis. The axis is another one if there are more rows, if they are
    counted from another one, or if rows without room would not become means, as by default.
    """
    left = HeatmapPanel("", np.zeros((2, 3)), first_row=0, reduction=Reduction.MEAN)
    is_one_axis = left.row_axis == neighbour.row_axis

    assert is_one_axis is has_same_rows


@pytest.mark.parametrize(
    ("rows", "name", "shown"),
    [(14, "pair", "pair"), (15, "pair", "pair (one in 2)"), (20, "", "")],
)
def test_an_axis_states_how_many_rows_a_cell_stands_for(rows: int, name: str, shown: str) -> None:
    """The panel has 10 cells for its rows. 14 rows are 1.4 to a cell, about one, and are not
    mentioned; 15 are 1.5, which is rounded to 2. An axis without a name states nothing.
    """
    panel = HeatmapPanel("", np.zeros((rows, 1)), name, reduction=Reduction.SAMPLE)
    name_of_rows, _ = panel.axis_names(rows=10, columns=1)

    assert name_of_rows == shown


HEATMAP_2_BY_3 = HeatmapPanel("", np.zeros((2, 3)))
ERROR_MAP_2_BY_3 = HeatmapPanel("", np.zeros((2, 3)), reduction=Reduction.MAX)


@pytest.mark.parametrize(
    ("picture", "inches"),
    [
        (Picture(""), (8.0, 2.0)),
        (Picture("", [ERROR_MAP_2_BY_3] * 6, 3), (10.0, 1.3 + 2 * 2.9)),
        (Picture("", [HEATMAP_2_BY_3] * 3, 3), (8.0, 5.0)),
        (Picture("", [HEATMAP_2_BY_3] * 4, 3), (8.0, 6.5)),
    ],
    ids=["no panels", "two rows of comparisons", "one row", "two rows"],
)
def test_a_picture_is_as_large_as_its_panels_need(
    picture: Picture, inches: tuple[float, float]
) -> None:
    """Width and height in inches; 3 panels stand in a row. Comparisons are 10 wide, and 1.3 high
    with 2.9 for each row of panels; other pictures are 8 wide, and 5 or 6.5 high for one or more
    rows. A sentence without panels is 2 high.
    """
    assert picture.inches == pytest.approx(inches)


@pytest.mark.parametrize(
    ("heatmaps", "narrow", "lengths"),
    [
        (1, False, [2, 1]),
        (1, True, [1, 1, 1]),
        (2, False, [2, 1, 1]),
        (3, False, [2, 1, 1, 1]),
    ],
    ids=["one heatmap", "narrow panels", "two heatmaps", "three heatmaps"],
)
def test_a_chart_has_its_own_row_below_several_heatmaps_or_if_panels_are_narrow(
    heatmaps: int, narrow: bool, lengths: list[int]
) -> None:
    """The picture has some heatmaps and two charts, and room for two panels in a row. `lengths` are
    the numbers of panels in each row, from above: a single heatmap shares its row with a chart.
    """
    picture = Picture("", [*[HEATMAP_2_BY_2] * heatmaps, EMPTY_CHART, EMPTY_CHART])
    assert [len(row) for row in picture.rows(2, narrow=narrow)] == lengths


def test_a_chart_stands_beside_a_single_heatmap() -> None:
    """`Picture.rows(2)` arranges panels in rows of up to two: a heatmap and a chart share one."""
    (row,) = Picture("", [HEATMAP_2_BY_2, EMPTY_CHART]).rows(2)
    assert row == [HEATMAP_2_BY_2, EMPTY_CHART]


def test_a_square_matrix_fills_the_width() -> None:
    """A figure is 8 inches wide. Numbers and the colour bar take 1.2, and a lone matrix 1 / 1.2 of
    the other 6.8, so that a little paper is left: 5.67. It is as high, and the title takes 1.0 and
    the numbers below it 0.2: 6.87, which is rounded to halves of an inch.
    """
    width_of_figure = 8.0
    side = (width_of_figure - 1.2) / 1.2
    height = 1.0 + side + 0.2
    square_matrix = Picture("", [HeatmapPanel("", np.zeros((4, 4)))])

    assert round(height * 2) / 2 == 7.0
    assert square_matrix.inches == (8.0, 7.0)


def test_one_row_of_panels_that_are_not_square_is_5_inches_high() -> None:
    """A heatmap of 4 × 6 is stretched to the usual size of a figure, 8 × 5 inches."""
    wide_matrix = Picture("", [HeatmapPanel("", np.zeros((4, 6)))])
    assert wide_matrix.inches == (8.0, 5.0)
