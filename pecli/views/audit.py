"""What an audit found, for people: tables of errors, and a picture of them over positions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pecli.checks.audit import Audit, Drift
from pecli.engine.parameters import spelled
from pecli.views import screen
from pecli.views.pictures import figure
from pecli.views.pictures.ticks import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.text import Text

_SHOWN = 7
"""Frequencies that are shown; they and the names of recipes fit into 80 characters."""


def show(audits: Mapping[str, Audit]) -> None:
    """The tables of an audit; of each kind of layer, where a model has several."""
    for number, (name, audit) in enumerate(audits.items()):
        if number:
            screen.say()
        screen.say_styled((" ".join(part for part in (name, _subject(audit)) if part), "bold"))
        _show_summary(audit)
        _show_decades(audit, "largest error, by positions from", 0)
        _show_decades(audit, "mean error, by positions from", 1)
        _show_frequencies(audit)


def _subject(audit: Audit) -> str:
    """The scheme and its parameters, those that say something."""
    given = audit.scheme.spec()["parameters"]
    names = [
        name for name in ("style", "seq_len", "heads", "dim", "base", "scaling", "offset", "dtype") if name in given
    ]
    said = (f"{name}={spelled(given[name])}" for name in names if given[name] not in (None, "none", 0))
    return " ".join([audit.scheme.name, *said])


def _show_summary(audit: Audit) -> None:
    columns = ["", "max", "mean", "kept", "equal", "worst at"]
    rows = []
    for drift in audit.drifts:
        kept = "all" if drift.first_beyond is None else f"{audit.kept(drift):,}"
        equal = "–" if drift.first_equal is None else f"{drift.first_equal:,}"
        cells = [_error(drift.max_abs_error), _error(audit.mean(drift)), kept, equal, _worst(audit, drift)]
        rows.append([drift.recipe, *cells])
    title = f"errors; positions kept within {audit.tolerance:g}; the first that equals the one before"
    _grid(title, columns, rows, _verdicts(audit))


def _verdicts(audit: Audit) -> list[str]:
    """A colour a recipe: whether all of the context stays within the tolerance."""
    return ["green" if drift.first_beyond is None else "yellow" for drift in audit.drifts]


def _worst(audit: Audit, drift: Drift) -> str:
    if drift.worst is None:
        return ""
    where = "head" if audit.numbers.kind == "slopes" else drift.worst.part
    return f"{drift.worst.position} {where} {drift.worst.frequency}"


def _show_decades(audit: Audit, title: str, which: int) -> None:
    decades = audit.decades()
    rows = [
        [drift.recipe, *(_error(audit.in_decade(drift, decade)[which]) for decade in decades)] for drift in audit.drifts
    ]
    _grid(title, ["", *(_position(first) for first, _ in decades)], rows)


def _show_frequencies(audit: Audit) -> None:
    """Some of the frequencies, from the fastest to the slowest."""
    values = audit.numbers.values
    last = len(values) - 1
    chosen = sorted({round(k * last / (_SHOWN - 1)) for k in range(_SHOWN)})
    rows = [[drift.recipe, *(_error(float(drift.by_frequency[k])) for k in chosen)] for drift in audit.drifts]
    kind = "slope of the head" if audit.numbers.kind == "slopes" else "frequency"
    _grid(f"largest error, by {kind}", ["", *(_error(values[k]) for k in chosen)], rows)


def _error(value: float) -> str:
    """A number in two digits.

    >>> _error(0.00123), _error(0), _error(0.5)
    ('1.2e-3', '0', '0.5')
    """
    if value == 0 or 0.01 <= value < 1000:
        return f"{value:.2g}"
    mantissa, _, power = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(power)}" if power else mantissa


def _position(value: int) -> str:
    text = str(value)
    return text if value < 10**4 or text.rstrip("0") != "1" else f"1e{len(text) - 1}"


def _grid(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str] = ()) -> None:
    """A table under a title; in a pipe, aligned columns."""
    if not screen.is_terminal():
        screen.say()
        screen.say(title)
        screen.say_columns(columns, rows, indent="  ")
        return
    from rich.text import Text

    console = screen.console()
    console.print()
    console.print(Text(title, style="bold cyan"))
    grid = screen.grid([(name, "right" if place else "left") for place, name in enumerate(columns)])
    grid.padding = (0, 1, 0, 0)  # seven decades fit into 80 characters
    for number, row in enumerate(rows):
        cells: list[Text] = [Text(text) for text in row]
        if styles:
            cells[1].stylize(styles[number])
        grid.add_row(*cells)
    console.print(grid)


def picture(audits: Mapping[str, Audit]) -> Figure:
    """The largest error over positions, both on logarithmic scales: a line a recipe, a panel a kind of layer."""
    drawn = figure.new(9.0, 0.6 + 4.4 * len(audits))
    panels: Any = drawn.subplots(len(audits), 1, squeeze=False)
    for panel, (name, audit) in zip(panels[:, 0], audits.items(), strict=True):
        for number, drift in enumerate(audit.drifts):
            places, errors = audit.curve(drift)
            points = [(x, y) for x, y in zip(places, errors, strict=True) if y > 0 and x >= 1 and math.isfinite(y)]
            width = max(1.2, 3.4 - 0.4 * number)  # a thin line shows where it lies on another
            style = ("-", (0, (5, 1.5)))[number // 6 % 2]
            panel.plot([x for x, _ in points], [y for _, y in points], label=drift.recipe, lw=width, ls=style)
        panel.axhline(audit.tolerance or math.nan, color="gray", lw=1, ls=":", label=f"tolerance {audit.tolerance:g}")
        what = "distance" if audit.numbers.kind == "slopes" else "position"
        panel.set(xscale="log", yscale="log", xlabel=what, ylabel="largest absolute error")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter(lambda value, _: short(value))
            axis.set_minor_formatter("")
        panel.grid(visible=True)
        panel.set_title(" ".join(part for part in (name, _subject(audit)) if part))
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return drawn
