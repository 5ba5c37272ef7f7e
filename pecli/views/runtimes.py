"""What runtimes compute for a model, for people: a line for each, the causes below it, and a picture of the errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pecli.checks.runtimes import RuntimeComparison, RuntimeResult
from pecli.views import screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from pecli.views.pictures.panels import Chart


def show(found: RuntimeComparison) -> None:
    """A line for each runtime, of every kind of layer."""
    screen.say_styled((f"{found.model}, served with a context of {found.length:,}", "bold"))
    for name, results in found.layers.items():
        if name:
            screen.say()
            screen.say_styled((name, "bold cyan"))
        heads = screen.aligned([[f"{each.runtime} ({each.version})", ""] for each in results])
        for head, result in zip(heads, results, strict=True):
            screen.say_styled((f"{head.rstrip().ljust(max(map(len, heads)))}  ", ""), verdict(result))
            for cause in reasons(result):
                screen.say_wrapped(f"  {cause}")
    screen.say()
    screen.say(summary(found))


def verdict(result: RuntimeResult) -> tuple[str, str]:
    """What a runtime does, and the style of saying it."""
    if result.lacks:
        return "lacks it", "red"
    if result.first_beyond is not None:
        first, last = result.pairs or (0, 0)
        pairs = f"pair {first}" if first == last else f"pairs {first}–{last}"
        return f"departs by {number(result.departure)} from position {result.first_beyond:,} on, {pairs}", "yellow"
    words = "as defined" if not result.causes else f"departs by {number(result.departure)} at most"
    return f"{words}; float32 off by up to {number(result.max_abs_error)}", "green"


def reasons(result: RuntimeResult) -> list[str]:
    """Why, and what else is worth knowing."""
    ends = [] if result.rows is None else [f"its table ends: there are positions up to {result.rows - 1:,} only"]
    return [*filter(None, [result.lacks]), *result.causes, *ends, *result.notes]


def summary(found: RuntimeComparison) -> str:
    """All of it in one sentence."""
    every = [result for results in found.layers.values() for result in results]
    departing = list(dict.fromkeys(result.runtime for result in every if result.departs))
    if not departing:
        return "All agree but for float32."
    return f"Not as defined: {', '.join(departing)} (tolerance {found.tolerance:g})."


def number(value: float) -> str:
    """A number in two digits.

    >>> number(0.0063), number(2.71)
    ('6.3e-3', '2.7')
    """
    mantissa, _, power = f"{value:.1e}".partition("e")
    return f"{value:.2g}" if value == 0 or value >= 0.01 else f"{mantissa}e{int(power)}"


def picture(found: RuntimeComparison) -> Figure:
    """The largest error over positions, on logarithmic scales: one curve per runtime, one panel per kind of layer."""
    from pecli.views.pictures import mpl_render
    from pecli.views.pictures.panels import Picture

    charts = [_chart(name, results, found.tolerance) for name, results in found.layers.items()]
    title = f"{found.model}: what runtimes compute, compared with its definition"
    return mpl_render.render(Picture(title, charts), height=1.0 + 3.8 * len(charts))


def _chart(title: str, results: Sequence[RuntimeResult], tolerance: float) -> Chart:
    import numpy as np

    from pecli.views.audit import MIN_TOLERANCE
    from pecli.views.pictures.labels import short
    from pecli.views.pictures.panels import Chart, Curve

    curves = []
    for result in results:
        if result.curve is None:
            continue
        places, errors = result.curve
        edges = np.unique(np.geomspace(1, places[-1] + 1, 200).astype(np.int64))
        starts = np.unique(np.searchsorted(places, edges[:-1]))  # the largest of each stretch, or the noise hides it
        shown = np.maximum.reduceat(errors, starts)
        curves.append(Curve(result.runtime, places[starts].astype(np.float64), np.where(shown > 0, shown, np.nan)))
    levels = [(f"tolerance {short(tolerance)}", tolerance)] if MIN_TOLERANCE < tolerance < 1 / MIN_TOLERANCE else []
    return Chart(title, curves, "position", "largest absolute error", log_x=True, log_y=True, levels=levels)
