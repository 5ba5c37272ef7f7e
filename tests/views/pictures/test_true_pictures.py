"""Pictures do not mislead: scales, samples and means are what the labels state, on the drawn data.

Examples are a mean that hides a spike, a scale that a constant panel widens, and a title that names
all rows although every second is drawn. Expected values are computed from the whole table, or
counted by hand: 19 lines of a terminal are left for the rows of a heatmap.
"""

import math

import numpy as np
import pytest

import pecli
from pecli.files.load import opened
from pecli.views.pictures import kinds, terminal_render
from pecli.views.pictures.figure import render
from pecli.views.pictures.panels import Chart, Curve, Picture, Spread
from pecli.views.pictures.plot_sources import PlotRequest, of_file
from pecli.views.screen import Terminal
from tests.views.pictures.drawing import drawn_picture, without_colours

ROPE_OF_4_FRAMES = pecli.Rope(grid=(4, 6, 6), axes=(8, 12, 12))
"""The rotary table of a video: 4 frames of 6 × 6 patches, with 8, 12 and 12 channels."""


def last_line(kind: str, scheme: pecli.Scheme, terminal: Terminal) -> str:
    return without_colours(terminal_render.lines(drawn_picture(kind, scheme), terminal))[-1]


def test_a_constant_panel_does_not_widen_the_common_scale() -> None:
    """Of a video, the first frame is drawn, in a panel for each of the pairs 0, 4 and 10. Pair 0
    turns with the time, which is 0 in this frame: its panel is constant, cos 0 = 1. The scale of
    colours that all panels share stays −1 to 1, the range of a cosine.
    """
    picture = drawn_picture("heatmap", ROPE_OF_4_FRAMES, request=PlotRequest(channels=(0, 4, 10)))
    assert any(np.ptp(panel.values) == 0 for panel in picture.heatmaps)
    for panel in picture.heatmaps:
        assert panel.ends == (-1.0, 1.0)


def test_panels_of_one_constant_have_a_scale_around_it() -> None:
    """All numbers are 0: the colours range from 0 − 0.5 to 0 + 0.5, as a range of zero width has no
    colours.
    """
    picture = drawn_picture("heatmap", pecli.LearnedInit(max_len=4, dim=4, init="zeros"))
    assert picture.heatmaps[0].ends == (0 - 0.5, 0 + 0.5)


@pytest.mark.parametrize("kind", ["heatmap", "patch"])
def test_the_frame_of_a_video_is_named(kind: str) -> None:
    """ROPE_OF_4_FRAMES has a grid of 4 frames, of which only the first (0) is drawn; the title of
    each panel states it.
    """
    for panel in drawn_picture(kind, ROPE_OF_4_FRAMES).panels:
        assert panel.title.endswith(", frame 0 of 4")


@pytest.mark.parametrize("kind", ["heatmap", "patch"])
def test_an_image_has_no_frames(kind: str) -> None:
    """A grid of 6 × 6 has rows and columns, and no axis of time: no title may mention a frame."""
    image = pecli.Rope(grid=(6, 6), axes=(16, 16))
    for panel in drawn_picture(kind, image).panels:
        assert "frame" not in panel.title


@pytest.mark.parametrize("terminal", [Terminal(), Terminal(colours=256)], ids=["grey", "colour"])
def test_a_terminal_states_of_how_many_rows_a_line_is_the_mean(terminal: Terminal) -> None:
    """A terminal has 24 lines by default, of which 19 are left for the 512 positions. In colours, a
    line shows two rows of cells, one above the other. The last line explains the axes.
    """
    line = last_line("heatmap", pecli.Sinusoidal(seq_len=512, dim=64), terminal)
    drawn_rows = 19 * (2 if terminal.colours else 1)

    assert line.startswith(f"position (means of {512 / drawn_rows:.0f}) ↓  channel →")


def test_a_narrow_terminal_states_means_without_the_names_of_the_axes() -> None:
    """The last line explains the axes and the colours. In 120 columns it begins with «position
    (means of 27) ↓  channel →   −1 ░░▒▒▓▓██ 1»; 40 columns have no room for the names.

    Of the 24 lines, 5 are the title, the frame, the numbers of the channels, that last line and the
    prompt: 512 positions in 19 lines are means of 26.9, rounded to 27. 40 columns have no room for
    64 channels, so that every second is drawn.
    """
    table = pecli.Sinusoidal(seq_len=512, dim=64)
    wide = last_line("heatmap", table, Terminal(columns=120, lines=24))
    narrow = last_line("heatmap", table, Terminal(columns=40, lines=24))

    assert wide.startswith("position (means of 27) ↓  channel →   −1 ")
    assert narrow.startswith("means of 27, one in 2   −1 ")


def test_a_terminal_names_the_unit_of_its_colours() -> None:
    """The scale of |bias| begins at the bias of the smallest of 8 slopes at distance 1, which is
    2^−8 = 0.003906 by the paper. The last line is the legend of the heatmap.
    """
    line = last_line("heatmap", pecli.Alibi(heads=8, seq_len=64), Terminal(columns=120))
    assert " |bias| 0.003906 " in line


def test_pairs_of_positions_are_not_called_all_if_some_are_left_out() -> None:
    """A similarity is drawn by position and position, and 100 do not fit a terminal of 24 lines:
    the legend states that every n-th is drawn.
    """
    picture = drawn_picture("similarity", pecli.Rope(seq_len=100, dim=32))
    shown = without_colours(terminal_render.lines(picture, Terminal(columns=120)))
    assert not any("all pairs" in line for line in shown)
    assert "position (one in " in shown[-1]


def test_matrices_of_an_array_of_four_axes_are_named_by_their_two_indices() -> None:
    """The array has 2 × 3 matrices of 4 × 5 numbers; panel 4 is the matrix [1, 1]."""
    array = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    (subject,) = of_file("x", opened({"x": array})[1])
    panels = kinds.picture("heatmap", [subject], PlotRequest()).heatmaps

    assert [panel.title for panel in panels] == [
        "x[0, 0]",
        "x[0, 1]",
        "x[0, 2]",
        "x[1, 0]",
        "x[1, 1]",
        "x[1, 2]",
    ]
    np.testing.assert_array_equal(panels[4].values, array[1, 1])


def test_a_curve_is_named_by_a_parameter_that_only_the_other_table_has() -> None:
    """The two tables differ in padding_idx only, which is not set in the first. The last word of a
    label is its channel.
    """
    plain = pecli.Sinusoidal(seq_len=9, dim=4)
    padded = pecli.Sinusoidal(seq_len=9, dim=4, padding_idx=0)
    picture = drawn_picture("curves", plain, padded)
    labels = {curve.label.rpartition(", ")[0] for curve in picture.panels[0].curves}

    assert labels == {"sinusoidal, no padding_idx", "sinusoidal, padding_idx 0"}


ROPE_20000_BY_16 = pecli.Rope(20_000, 16, base=5e5)


def exact_scores(distances: range) -> list[float]:
    """The mean of cos(d·θ) over the eight pairs of `ROPE_20000_BY_16`, by its definition."""
    frequencies = [5e5 ** (-pair / 8) for pair in range(8)]
    return [sum(math.cos(d * theta) for theta in frequencies) / 8 for d in distances]


def test_the_decay_of_a_long_table_is_drawn_by_at_most_300_points() -> None:
    """The table has 20,000 positions, and so the distances 1 to 19,999."""
    (curve,) = drawn_picture("decay", ROPE_20000_BY_16).panels[0].curves

    assert len(curve.x) <= 300
    assert curve.x[0] == 1.0
    assert curve.x[-1] == 19_999.0


def test_the_decay_of_a_long_table_shows_its_largest_and_smallest_scores() -> None:
    """A point of the curve stands for the distances after the point before, the last one for more
    than 100 of them: it is the median of their scores, and the spread ends at minimum and maximum.

    `exact_scores` is the mean of cos(distance · 500000^(−i/8)) over the 8 pairs of the table.
    """
    (curve,) = drawn_picture("decay", ROPE_20000_BY_16).panels[0].curves
    last_piece = range(int(curve.x[-2]) + 1, 20_000)
    expected = exact_scores(last_piece)

    assert len(last_piece) > 100
    assert curve.spread.high[-1] == pytest.approx(max(expected), abs=1e-9)
    assert curve.spread.low[-1] == pytest.approx(min(expected), abs=1e-9)
    assert curve.y[-1] == pytest.approx(float(np.median(expected)), abs=1e-9)


def test_the_title_of_a_decay_states_that_points_stand_for_ranges() -> None:
    """Up to 1,200 distances are drawn one by one: so are those of 1,000 positions. Of 20,000
    positions, a point stands for several distances.
    """
    assert drawn_picture("decay", ROPE_20000_BY_16).panels[0].title.endswith(": median, min–max")
    assert "median" not in drawn_picture("decay", pecli.Rope(1000, 16)).panels[0].title


def test_a_figure_fills_the_range_around_a_curve() -> None:
    """Of 20,000 positions, a point stands for several distances. The area that matplotlib fills
    goes from their minimum to their maximum.
    """
    picture = drawn_picture("decay", ROPE_20000_BY_16)
    (fill,) = render(picture).axes[0].collections
    heights = fill.get_paths()[0].vertices[:, 1]
    spread = picture.panels[0].curves[0].spread

    assert heights.max() == pytest.approx(spread.high.max())
    assert heights.min() == pytest.approx(spread.low.min())


def test_a_terminal_fills_the_range_around_a_curve() -> None:
    """The curve is 0.5 everywhere, and its range is 0 to 1, which is the whole vertical axis: the
    first character of every line is filled. «│» is the axis, at the left of the chart.
    """
    x = np.array([0.0, 1.0, 2.0])
    spread = Spread(np.zeros(3), np.ones(3))
    chart = Chart("", [Curve("", x, np.full(3, 0.5), spread=spread)])
    shown = without_colours(terminal_render.lines(Picture("", [chart]), Terminal(12, 12)))
    columns = [line.partition("│")[2] for line in shown if "│" in line]

    assert all(line[:1].strip() for line in columns)


def bound_by_definition(distance: int, dim: int, base: float) -> float:
    """Return the bound of Su et al. (RoFormer, 2021, section 3.4.3), relative to distance 0.

    It is the mean of |S_j|, S_j being the sum of the phases e^(i · distance · θ) of the pairs 0 to
    j. At distance 0 all phases are 1 and |S_j| is j + 1, whose mean is (pairs + 1) / 2.
    """
    pairs = dim // 2
    angles = distance * base ** (-2 * np.arange(pairs) / dim)
    sums = np.cumsum(np.exp(1j * angles))
    return float(np.abs(sums).mean()) / ((pairs + 1) / 2)


@pytest.mark.parametrize("dim", [8, 128])
def test_the_bound_of_scores_is_nearly_1_if_phases_agree_whatever_the_dimension(dim: int) -> None:
    """The second panel of the picture «decay» has the bound of scores by distance, from 1 on. With a
    base of 1e30, the first pair turns by 1 radian per position and most others hardly turn, so that
    the bound at distance 1 is a little less than 1: 0.907 with 8 channels, 0.986 with 128.
    """
    chart = drawn_picture("decay", pecli.Rope(seq_len=3, dim=dim, base=1e30)).panels[1]
    (curve,) = chart.curves

    assert curve.x[0] == 1
    assert curve.y[0] == pytest.approx(bound_by_definition(distance=1, dim=dim, base=1e30))
    assert 0.9 < curve.y[0] < 1


@pytest.mark.parametrize("dim", [8, 128])
def test_no_bound_of_scores_exceeds_1(dim: int) -> None:
    """The bound is the mean of |S_j|, sums of j + 1 phases of magnitude 1, so that it is largest at
    distance 0. The drawn one is divided by that, which is 2.5 for 4 pairs and 32.5 for 64, and
    wide and narrow heads can share an axis that ends at 1.
    """
    chart = drawn_picture("decay", pecli.Rope(seq_len=64, dim=dim, base=10000.0)).panels[1]
    (curve,) = chart.curves

    assert curve.y.max() <= 1
    assert curve.y[0] == pytest.approx(bound_by_definition(distance=1, dim=dim, base=10000.0))


def test_a_spiral_states_what_its_radius_is() -> None:
    """The picture «circle» draws the angle of a pair at each position as a spiral."""
    picture = drawn_picture("circle", pecli.Rope(seq_len=64, dim=8))
    assert picture.subtitle == "Radius = position"


def test_maps_of_a_grid_are_of_channels_that_vary() -> None:
    """Channels that hardly change over the image would be blank maps. By the rule of choice, a
    channel may be drawn if its variance over the image is at least a quarter of the largest one, and
    eight of those are. The variances are NumPy's; 50 of the 64 channels have less than a quarter.
    """
    image = pecli.Sinusoidal(grid=(14, 14), dim=64, style="mae")
    picture = drawn_picture("heatmap", image)
    variances = image.tables()["pe"].var(axis=0)

    assert np.count_nonzero(variances < variances.max() / 4) == 50
    assert len(picture.heatmaps) == 8
    for panel in picture.heatmaps:
        assert np.var(panel.values) >= variances.max() / 4
    assert picture.subtitle == "Some of 64 channels, by their variance"


@pytest.mark.parametrize("kind", ["curves", "decay", "heatmap"])
def test_heads_that_are_left_out_are_counted(kind: str) -> None:
    """ALiBi with 16 heads: pictures have room for 8, and the subtitle must say of how many."""
    picture = drawn_picture(kind, pecli.Alibi(16, 8))
    assert "of 16 heads" in picture.subtitle


@pytest.mark.parametrize("kind", ["curves", "decay", "heatmap"])
def test_all_of_eight_heads_are_drawn(kind: str) -> None:
    """ALiBi with 8 heads: none is left out, so the subtitle is empty."""
    assert drawn_picture(kind, pecli.Alibi(8, 8)).subtitle == ""
