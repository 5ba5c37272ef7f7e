"""Figures of pictures: every kind is painted, and nothing leaves the paper."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest

import pecli
from pecli.views.pictures import figure, mpl_render, terminal_render
from pecli.views.pictures import kinds as figures
from pecli.views.pictures.panels import Chart, Curve, HeatmapPanel, Picture, PlotRequest
from pecli.views.pictures.subjects import labelled, of_scheme, title_of
from pecli.views.screen import Terminal

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text

CASES = {
    "sinusoidal": pecli.Sinusoidal(300, 64),
    "rope": pecli.Rope(300, 64),
    "alibi": pecli.Alibi(8, 64, form="causal"),
    "learned-init": pecli.LearnedInit(300, 64),
}
FITTING = [(name, kind) for kind in figures.KINDS for name, scheme in CASES.items() if kind in scheme.picture_kinds]


BESIDE = {
    "sinusoidal": pecli.Sinusoidal(300, 64, base=100.0),
    "rope": pecli.Rope(300, 64, base=5e5, scaling="yarn", factor=4.0, original_max_position_embeddings=4096),
    "alibi": pecli.Alibi(8, 64, form="causal", max_bias=4.0),
    "learned-init": pecli.LearnedInit(300, 64, std=1.0),
}


def picture(name: str, kind: str, *, beside: bool = False) -> Picture:
    schemes = [CASES[name], BESIDE[name]] if beside else [CASES[name]]
    subjects = labelled([subject for scheme in schemes for subject in of_scheme(scheme)])
    made = figures.picture(kind, subjects, PlotRequest(300, 300))
    return Picture(title_of(subjects, made.title), made.panels, made.across)


@pytest.mark.parametrize("size", [None, (3.0, 2.0)], ids=["as it likes", "small"])
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(("name", "kind"), FITTING)
@pytest.mark.sample(19)
def test_every_text_is_inside_the_figure_and_apart_from_the_others(
    name: str, kind: str, beside: bool, size: tuple[float, float] | None
) -> None:
    if beside and (kind == "circle" or (kind, name) == ("heatmap", "alibi")):  # one at a time
        return
    drawn = picture(name, kind, beside=beside)
    width, height = size or mpl_render.size_of(drawn)
    shown = assert_readable(mpl_render.render(drawn, width=width, height=height))
    assert any(text.startswith(name) for text in shown)
    assert any(" ".join(text.split()).lower().endswith(drawn.title[-20:].lower()) for text in shown)


def _not_drawn(axis: Axis) -> list[Text]:
    """The numbers of ticks beyond the ends of an axis."""
    low, high = sorted(axis.get_view_interval())
    slack = 1e-9 * (high - low)
    ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
    return [label for t in ticks if not low - slack <= t.get_loc() <= high + slack for label in (t.label1, t.label2)]


def assert_readable(made: Figure) -> list[str]:
    """No text leaves the paper or lies on another; all of them."""
    from matplotlib.axes import Axes
    from matplotlib.text import Text

    made.canvas.draw()
    renderer = made.canvas.get_renderer()
    boxes = []
    beyond = {label for axes in made.findobj(Axes) for axis in (axes.xaxis, axes.yaxis) for label in _not_drawn(axis)}
    for text in set(made.findobj(Text)) - beyond:
        shown = text.get_visible() and text.get_text().strip() and (text.axes is None or text.axes.get_visible())
        box = text.get_window_extent(renderer)
        if shown and box.width:
            boxes.append((text.get_text(), box))
    inside = [(text, box) for text, box in boxes if box.x1 > 0 and box.x0 < made.bbox.x1]
    for text, box in inside:
        assert box.x0 >= -1, text
        assert box.x1 <= made.bbox.x1 + 1, text
        assert box.y0 >= -1, text
        assert box.y1 <= made.bbox.y1 + 1, text
    for number, (text, box) in enumerate(inside):
        for other, another in inside[:number]:
            across = min(box.x1, another.x1) - max(box.x0, another.x0)
            down = min(box.y1, another.y1) - max(box.y0, another.y0)
            assert across < 1 or down < 2, f"{text!r} lies on {other!r}"
    return [text for text, _ in inside]


def test_long_titles_lose_their_middle_and_legends_nothing() -> None:
    names = [f"{part}_model.layers.embeddings.position_embedding.{part}.weight" for part in ("text", "vision", "audio")]
    values = np.zeros((4, 4))
    made = mpl_render.render(
        Picture("many names", [HeatmapPanel(name, values, limits=(0.0, 1.0)) for name in names], across=3)
    )
    shown = ["".join(text.split()) for text in assert_readable(made)]
    for part, name in zip(("text", "vision", "audio"), names, strict=True):
        assert name in shown or any(text.startswith(f"{part}_model.") and "…" in text for text in shown)
    curves = [Curve(name * 3, np.arange(9.0), np.arange(9.0) + k) for k, name in enumerate(names)]
    legend = [
        "".join(text.split()) for text in assert_readable(mpl_render.render(Picture("legend", [Chart("", curves)])))
    ]
    assert all(name * 3 in legend for name in names)


@pytest.mark.parametrize("size", [(8.0, 5.0), (5.0, 3.0)])
@pytest.mark.parametrize("levels", [(8.0,), (20.0, 60.0), (7.0, 500.0), (1e3, 2e3, 4e4), (9.0, 11.0, 1e5)])
def test_words_on_levels_lie_on_no_curve(size: tuple[float, float], levels: tuple[float, ...]) -> None:
    pairs = np.arange(64.0)
    named = [(f"trained on {level:,.0f}", level) for level in levels]
    chart = Chart(
        "", [Curve("rope", pairs, 6.28 * 1e4 ** (pairs / 64))], "pair", "wavelength", log_y=True, levels=named
    )
    made = mpl_render.render(Picture("waves", [chart]), width=size[0], height=size[1])
    assert_readable(made)
    (axes,) = made.axes
    points = axes.transData.transform(np.stack(axes.lines[0].get_data(), axis=1))
    across = np.linspace(points[0, 0], points[-1, 0], 5000)
    up = np.interp(across, points[:, 0], points[:, 1])
    words = [text for text in axes.texts if text.get_text()]
    assert [text.get_text() for text in words] == [word for word, _ in named]
    for text in words:
        box = text.get_window_extent(made.canvas.get_renderer())
        assert not ((across > box.x0) & (across < box.x1) & (up > box.y0) & (up < box.y1)).any(), text.get_text()


def test_a_curve_on_another_is_dashed_so_that_both_are_seen() -> None:
    x = np.arange(50.0)
    chart = Chart("", [Curve("one", x, x**2), Curve("same", x, x**2), Curve("other", x, 50 * x)], points=True)
    first, second, third = mpl_render.render(Picture("", [chart])).axes[0].lines
    assert [line.get_linestyle() for line in (first, third)] == ["-", "-"]
    assert second.get_linestyle() == "--"
    assert (first.get_marker(), second.get_marker()) == ("o", "")


def test_points_on_other_points_are_rings_around_them() -> None:
    """The first eight of twelve heads have the slopes of eight."""
    subjects = labelled([subject for heads in (12, 8) for subject in of_scheme(pecli.Alibi(heads))])
    below, above = mpl_render.render(figures.picture("slopes", subjects, PlotRequest())).axes[0].lines
    assert above.get_markerfacecolor() == "none"
    assert above.get_markersize() > below.get_markersize() + 3
    assert (below.get_linestyle(), above.get_linestyle()) == ("None", "None")


def test_ten_curves_have_ten_colours() -> None:
    for dark in (False, True):
        chart = Chart("", [Curve(f"curve {k}", np.arange(3.0), np.arange(3.0) * k) for k in range(10)])
        lines = mpl_render.render(Picture("", [chart]), dark=dark).axes[0].lines
        assert len({line.get_color() for line in lines}) == 10


@pytest.mark.parametrize(("width", "marker"), [(8.0, "o"), (3.3, "")])
def test_points_that_would_touch_are_a_line(width: float, marker: str) -> None:
    chart = Chart("", [Curve("", np.arange(64.0), np.arange(64.0))], points=True)
    (line,) = mpl_render.render(Picture("", [chart]), width=width).axes[0].lines
    assert line.get_marker() == marker


def test_a_panel_without_one_below_it_has_its_numbers() -> None:
    heats = [HeatmapPanel(f"panel {k}", np.zeros((4, 4)), limits=(0.0, 1.0)) for k in range(5)]
    made = mpl_render.render(Picture("five", heats, across=3))
    named = [axes.get_xlabel() != "" for axes in made.axes[:5]]
    assert named == [False, False, True, True, True]


def test_matrices_of_other_ends_have_a_bar_each() -> None:
    heats = [HeatmapPanel(f"panel {k}", np.full((4, 4), k), limits=(0.0, 10.0**k), meaning="error") for k in range(3)]
    made = mpl_render.render(Picture("bars", heats), height=8.0)
    assert_readable(made)
    assert len(made.axes) == 6
    for axes, bar in zip(made.axes[:3], made.axes[3:], strict=True):
        assert (axes.bbox.y0, axes.bbox.y1) == pytest.approx((bar.bbox.y0, bar.bbox.y1))
        assert axes.bbox.x1 < bar.bbox.x0


@pytest.mark.parametrize(("name", "kind"), FITTING)
@pytest.mark.parametrize(
    "terminal", [Terminal(), Terminal(colours=1 << 24), Terminal(unicode=False), Terminal(120, 40)]
)
@pytest.mark.sample(19)
def test_every_kind_is_shown_in_every_terminal(name: str, kind: str, terminal: Terminal) -> None:
    if not figures.KINDS[kind].terminal:
        return
    shown = terminal_render.lines(picture(name, kind), terminal)
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown]
    assert max(map(len, plain)) <= terminal.columns
    assert len(plain) <= terminal.lines - 1
    assert plain[0].startswith(name)
    assert ("\x1b" in "".join(shown)) == bool(terminal.colours)


def test_panels_lie_beside_each_other_where_there_is_room() -> None:
    wide = terminal_render.lines(picture("rope", "decay"), Terminal(80, 24))
    assert any("score of q = k" in line and "bound of Su" in line for line in wide)
    assert not any(
        "score of q = k" in line and "bound of Su" in line
        for line in terminal_render.lines(picture("rope", "decay"), Terminal(60, 24))
    )
    assert len(terminal_render.lines(picture("rope", "decay"), Terminal(80, 10))) <= 9


@pytest.mark.parametrize("terminal", [Terminal(80, 24), Terminal(80, 24, unicode=False), Terminal(60, 24, 256)])
def test_titles_in_the_terminal_keep_their_ends(terminal: Terminal) -> None:
    names = [f"{scheme}, rule paper, max-bias 4, head {head}" for scheme in ("a", "b") for head in (1, 11, 111)]
    heats = [HeatmapPanel(name, np.eye(8), limits=(0.0, 1.0)) for name in names]
    shown = [
        re.sub(r"\x1b\[[0-9;]*m", "", line) for line in terminal_render.lines(Picture("six", heats, across=3), terminal)
    ]
    assert max(map(len, shown)) <= terminal.columns
    for head in ("1", "11", "111"):
        assert sum(len(re.findall(rf"head {head}\b", line)) for line in shown) == 2


def test_four_similarities_and_their_chart_fit_a_terminal() -> None:
    subjects = labelled([s for base in (1e4, 1e5, 1e6, 1e7) for s in of_scheme(pecli.Rope(300, 64, base=base))])
    made = figures.picture("similarity", subjects, PlotRequest())
    assert len(terminal_render.lines(made, Terminal(80, 24, 256))) <= 23


def test_colours_reach_as_far_as_the_means_that_are_shown() -> None:
    noise = np.random.default_rng(0).normal(size=(1000, 600))
    heat = HeatmapPanel("", noise, centred=True, row_count=1000, column_count=600, limits=(-4.0, 4.0))
    shown = terminal_render.lines(Picture("noise", [heat]), Terminal(80, 24))[-1].split()
    assert 0.05 < float(shown[-1]) < 1.0  # each character is the mean of about 400
    assert float(shown[-1]) == -min(float(word) for word in shown if re.fullmatch(r"-[0-9.]+", word))


def test_pixels_of_a_constant_and_of_what_is_not_finite() -> None:
    values = np.zeros((8, 8))
    values[:, 4:] = np.nan
    heat = HeatmapPanel("", values, centred=True, row_count=8, column_count=8, limits=(-1.0, 1.0))
    made = mpl_render.render(Picture("", [heat]))
    made.canvas.draw()
    pixels = np.asarray(made.canvas.buffer_rgba())[:, :, :3].astype(int)
    axes = made.axes[0].bbox
    middle = int(made.bbox.y1 - (axes.y0 + axes.y1) / 2)
    left = pixels[middle, int(axes.x0 + axes.width / 4)]
    right = pixels[middle, int(axes.x0 + axes.width * 3 / 4)]
    assert left.min() > 240  # the middle of the diverging palette is next to white
    assert right.tolist() == [128, 128, 128]


def test_extremes_and_long_titles_are_no_trouble(tmp_path) -> None:
    heat = HeatmapPanel("t" * 300, np.array([[1e308, -1e308]]), row_count=1, column_count=2, limits=(-1e308, 1e308))
    figure.save(mpl_render.render(Picture("word " * 200, [heat])), str(tmp_path / "x.png"))
    assert (tmp_path / "x.png").stat().st_size > 1000


@pytest.mark.parametrize(("rows", "columns"), [(512, 64), (5000, 64), (300, 2000), (37, 9)])
def test_rows_of_pixels_are_means_of_rows_and_columns_are_never_mixed(rows: int, columns: int) -> None:
    values = pecli.Sinusoidal(rows, columns, dtype="float64").tables()["pe"]
    panel = HeatmapPanel("", values, centred=True, limits=(-1.0, 1.0))
    made = mpl_render.render(Picture("t", [panel]))
    drawn = np.asarray(made.axes[0].images[0].get_array())
    high, wide = round(made.axes[0].bbox.height), round(made.axes[0].bbox.width)
    step = -(-columns // wide)
    assert drawn.shape == (min(rows, high), -(-columns // step))
    for line in range(0, len(drawn), 13):
        first, stop = line * rows // len(drawn), -(-(line + 1) * rows // len(drawn))
        part = values[first:stop, ::step]
        assert (part.min(axis=0) - 1e-9 <= drawn[line]).all()
        assert (drawn[line] <= part.max(axis=0) + 1e-9).all()
        np.testing.assert_allclose(drawn[line], part.mean(axis=0), atol=2.0 / len(part))


def test_axes_say_what_of_a_table_is_shown() -> None:
    panel = HeatmapPanel("", np.zeros((5000, 2000)), row_count=10_000_000, column_count=4000, column_step=2)
    (axes, _) = mpl_render.render(Picture("t", [panel])).axes
    room = round(axes.bbox.height), round(axes.bbox.width)
    assert axes.get_ylabel() == f"position (means of {1e7 / room[0]:,.0f})"
    every = 2 * -(-2000 // room[1])
    assert axes.get_xlabel() == f"channel (every {every}th)"


def test_a_logarithmic_scale_marks_the_tolerance() -> None:
    values = 10.0 ** -np.arange(1.0, 9.0)[:, None] * np.ones((8, 8))
    panel = HeatmapPanel("e", values, limits=(1e-9, 0.1), log=True, meaning="error", marked=("tolerance", 1e-3))
    made = mpl_render.render(Picture("t", [panel]))
    shown = assert_readable(made)
    assert "error, line: tolerance 0.001" in shown
    assert "10⁻⁵" in shown
    bar = made.axes[1]
    assert bar.get_ylim() == pytest.approx((1e-9, 0.1))
    assert [line.get_ydata()[0] for line in bar.lines] == pytest.approx([1e-3, 1e-3])
