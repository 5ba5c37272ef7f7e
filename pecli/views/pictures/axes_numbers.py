"""Numbers along the axes of a chart, in plain digits: matplotlib would set powers as formulas, which take time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pecli.views.pictures import ticks
from pecli.views.pictures.panels import Chart

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(axes: Any, panel: Chart, size: tuple[float, float]) -> None:
    """Ticks at round numbers, as many as keep apart in axes of so many inches."""
    for axis, log, room in ((axes.xaxis, panel.log_x, (size[0] - 1) * 1.2), (axes.yaxis, panel.log_y, size[1] * 1.6)):
        low, high = sorted(axis.get_view_interval())
        most = max(4, int(room))
        values = ticks.round_powers(low, high, most) if log else ticks.round_values(low, high, most)
        if axis is axes.xaxis and not log and panel.x != "value":
            values = [value for value in values if value == round(value)]
        axis.set_ticks(values, labels=powers(values) if log else [plain(value) for value in values])
        axis.set_ticks([], minor=True)
        axis.set_view_interval(low, high, ignore=True)


def thin_out(axes: Any, gap: float) -> None:
    """Take away every other number of an axis until they keep so many pixels apart; in axes at their place."""
    renderer = axes.figure.canvas.get_renderer()
    for axis, low, high in ((axes.xaxis, "x0", "x1"), (axes.yaxis, "y0", "y1")):
        while len(axis.get_ticklocs()) > 2:
            boxes = [label.get_window_extent(renderer) for label in axis.get_ticklabels() if label.get_visible()]
            shown = sorted((getattr(box, low), getattr(box, high)) for box in boxes if box.width)
            if all(after[0] - before[1] >= gap for before, after in pairwise(shown)):
                break
            ends = axis.get_view_interval()
            texts = [label.get_text() for label in axis.get_ticklabels()]
            axis.set_ticks(axis.get_ticklocs()[::2], labels=texts[::2])
            axis.set_view_interval(*ends, ignore=True)


def powers(values: Sequence[float]) -> list[str]:
    """Numbers on a logarithmic axis: powers of ten as such where plain digits would be long.

    >>> powers([1.0, 10.0, 100.0]), powers([1e-05, 0.1, 1e3])
    (['1', '10', '100'], ['10⁻⁵', '10⁻¹', '10³'])
    """
    places = [math.log10(value) for value in values]
    even = all(abs(place - round(place)) < 1e-9 for place in places)
    if not even or not places or (max(places) < 6.5 and min(places) > -3.5):
        return [plain(value) for value in values]
    return [f"10{str(round(place)).translate(_RAISED)}" for place in places]


def plain(value: float) -> str:
    """A number in plain digits, as far as that is shorter.

    >>> plain(1000000.0), plain(-0.5), plain(1e-05)
    ('1,000,000', '−0.5', '1e−5')
    """
    value = round(value, 12) + 0.0  # no −0
    text = f"{value:,.0f}" if value == round(value) and abs(value) < 1e7 else ticks.short(value)
    return text.replace("-", "−")
