"""Figures of pictures: every kind is painted, and nothing leaves the paper."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pecli
from pecli.views.pictures import figure, paint, show
from pecli.views.pictures import kinds as figures
from pecli.views.pictures.panels import Heat, Picture, Wish
from pecli.views.pictures.subjects import labelled, of_scheme, title_of
from pecli.views.pictures.terminal import Terminal

CASES = {
    "sinusoidal": pecli.Sinusoidal(300, 64),
    "rope": pecli.Rope(300, 64),
    "alibi": pecli.Alibi(8, 64, form="causal"),
    "learned-init": pecli.LearnedInit(300, 64),
}
FITTING = [(name, kind) for kind, each in figures.KINDS.items() for name in CASES if name in each.fits]


BESIDE = {
    "sinusoidal": pecli.Sinusoidal(300, 64, base=100.0),
    "rope": pecli.Rope(300, 64, base=5e5, scaling="yarn", factor=4.0, original_max_position_embeddings=4096),
    "alibi": pecli.Alibi(8, 64, form="causal", max_bias=4.0),
    "learned-init": pecli.LearnedInit(300, 64, std=1.0),
}


def picture(name: str, kind: str, *, beside: bool = False) -> Picture:
    schemes = [CASES[name], BESIDE[name]] if beside else [CASES[name]]
    subjects = labelled([subject for scheme in schemes for subject in of_scheme(scheme)])
    made = figures.picture(kind, subjects, Wish(300, 300))
    return Picture(title_of(subjects, made.title), made.panels, made.across)


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(("name", "kind"), FITTING)
def test_every_text_is_inside_the_figure_and_apart_from_the_others(name: str, kind: str, beside: bool) -> None:
    from matplotlib.text import Text

    if beside and (kind == "circle" or (kind, name) == ("heatmap", "alibi")):  # one at a time
        return
    drawn = picture(name, kind, beside=beside)
    width, height = paint.size_of(drawn)
    made = paint.paint(drawn, width=width, height=height)
    made.canvas.draw()
    renderer = made.canvas.get_renderer()
    boxes = []
    for text in made.findobj(Text):
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
    assert any(text.startswith(name) for text, _ in inside)
    assert any(text.lower().endswith(drawn.title[-20:].lower()) for text, _ in inside)


@pytest.mark.parametrize(("name", "kind"), FITTING)
@pytest.mark.parametrize(
    "terminal", [Terminal(), Terminal(colours=1 << 24), Terminal(unicode=False), Terminal(120, 40)]
)
def test_every_kind_is_shown_in_every_terminal(name: str, kind: str, terminal: Terminal) -> None:
    if not figures.KINDS[kind].terminal:
        return
    shown = show.lines(picture(name, kind), terminal)
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in shown]
    assert max(map(len, plain)) <= terminal.columns
    assert len(plain) <= terminal.lines - 1
    assert plain[0].startswith(name)
    assert ("\x1b" in "".join(shown)) == bool(terminal.colours)


def test_pixels_of_a_constant_and_of_what_is_not_finite() -> None:
    values = np.zeros((8, 8))
    values[:, 4:] = np.nan
    heat = Heat("", values, centred=True, row_count=8, column_count=8, limits=(-1.0, 1.0))
    made = paint.paint(Picture("", [heat]))
    made.canvas.draw()
    pixels = np.asarray(made.canvas.buffer_rgba())[:, :, :3].astype(int)
    axes = made.axes[0].bbox
    middle = int(made.bbox.y1 - (axes.y0 + axes.y1) / 2)
    left = pixels[middle, int(axes.x0 + axes.width / 4)]
    right = pixels[middle, int(axes.x0 + axes.width * 3 / 4)]
    assert left.min() > 240  # the middle of the diverging palette is next to white
    assert right.tolist() == [128, 128, 128]


def test_extremes_and_long_titles_are_no_trouble(tmp_path) -> None:
    heat = Heat("t" * 300, np.array([[1e308, -1e308]]), row_count=1, column_count=2, limits=(-1e308, 1e308))
    figure.save(
        paint.paint(
            Picture("word " * 200, [heat]),
        ),
        str(tmp_path / "x.png"),
    )
    assert (tmp_path / "x.png").stat().st_size > 1000
