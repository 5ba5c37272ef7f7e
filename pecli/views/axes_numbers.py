"""Numbers along the axes of a chart, in plain digits: matplotlib would set powers as formulas, which take time."""

from __future__ import annotations

import math
from typing import Any

from pecli.views import ticks
from pecli.views.panels import Chart


def number(axes: Any, panel: Chart, size: tuple[float, float]) -> None:
    """Ticks at round numbers, as many as keep apart in axes of so many inches."""
    for axis, log, room in ((axes.xaxis, panel.log_x, (size[0] - 1) * 1.2), (axes.yaxis, panel.log_y, size[1] * 1.6)):
        low, high = sorted(axis.get_view_interval())
        most = max(2, int(room))
        values = _powers(low, high, most) if log else ticks.round_values(low, high, most)
        if axis is axes.xaxis and not log and panel.x != "value":
            values = [value for value in values if value == round(value)]
        axis.set_ticks(values, labels=[plain(value) for value in values])
        axis.set_ticks([], minor=True)
        axis.set_view_interval(low, high, ignore=True)


def _powers(low: float, high: float, most: int) -> list[float]:
    """Powers of ten; 2 and 5 times them where there are few; any round numbers where there are none."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, -(-(last - first) // most))
    found = [10.0**power for power in range(first, last + 1, step)]
    if len(found) * 3 <= most + 3 and step == 1:
        found = [part * 10.0**power for power in range(first - 1, last + 1) for part in (1, 2, 5)]
        found = [value for value in found if low <= value <= high]
    return found if len(found) > 2 else [value for value in ticks.round_values(low, high, most) if value > 0]


def plain(value: float) -> str:
    """A number in plain digits, as far as that is shorter.

    >>> plain(1000000.0), plain(-0.5), plain(1e-05)
    ('1,000,000', '−0.5', '1e−5')
    """
    value = round(value, 12)
    text = f"{value:,.0f}" if value == round(value) and abs(value) < 1e7 else ticks.short(value)
    return text.replace("-", "−")
