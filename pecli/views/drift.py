"""How far tables drift from their definition, for people: by recipe and by runtime, in words and as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pecli.errors import spelled
from pecli.views import screen
from pecli.views.pictures.labels import short

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.text import Text

    from pecli.checks.audit import Audit, Drift
    from pecli.checks.runtimes import RuntimeComparison, RuntimeResult
    from pecli.views.pictures.panels import Chart

_COLUMNS = {"frequencies": "frequency", "slopes": "slope of the head", "columns": "column"}
"""What the errors of columns go by, in words."""
MAX_FREQUENCIES = 7
"""Frequencies that are shown; they and the names of recipes fit into 80 characters."""
MIN_TOLERANCE = 1e-150
"""The smallest tolerance that is drawn, and one over the largest: a logarithmic axis has no others."""


def show_audit(audits: Mapping[str, Audit]) -> None:
    """The tables of an audit; of each kind of layer, where a model has several."""
    for number, (name, audit) in enumerate(audits.items()):
        if number:
            screen.say()
        screen.say_labelled(" ".join(part for part in (name, _subject(audit)) if part), "bold")
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
        kept = "all" if drift.first_beyond is None else f"{audit.kept_positions(drift):,}"
        equal = "–" if drift.first_equal is None else f"{drift.first_equal:,}"
        cells = [_error(drift.max_abs_error), _error(audit.mean(drift)), kept, equal, _worst(audit, drift)]
        rows.append([drift.recipe, *cells])
    title = f"kept: positions before the error exceeds {audit.tolerance:g}; equal: first repeated row"
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
    chosen = sorted({round(k * last / (MAX_FREQUENCIES - 1)) for k in range(MAX_FREQUENCIES)})
    rows = [[drift.recipe, *(_error(float(drift.by_frequency[k])) for k in chosen)] for drift in audit.drifts]
    _grid(f"largest error, by {_COLUMNS[audit.numbers.kind]}", ["", *(_error(values[k]) for k in chosen)], rows)


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
    """A table under a title; in a pipe, or where a terminal is too narrow for all digits, aligned columns."""
    if not screen.is_terminal() or not screen.fits([columns, *rows]):
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


def audit_picture(audits: Mapping[str, Audit]) -> Figure:
    """The largest error over positions, both on logarithmic scales: a line per recipe, a panel per kind of layer.

    Where no recipe has an error, a sentence says so, and there are no axes.
    """
    from pecli.views.pictures import mpl_render
    from pecli.views.pictures.panels import Picture
    from pecli.views.pictures.subjects import labelled, of_scheme, title_of

    shows = f"largest error by {_axis(next(iter(audits.values())))}"
    titles = [title_of(labelled(of_scheme(audit.scheme)), name or shows) for name, audit in audits.items()]
    if not any(drift.max_abs_error for audit in audits.values() for drift in audit.drifts):
        recipes = ", ".join(drift.recipe for drift in next(iter(audits.values())).drifts)
        nothing = Picture(titles[0], subtitle=f"no error to draw: {recipes} equals the exact table everywhere")
        return mpl_render.render(nothing, height=2.0)
    if len(audits) == 1:
        return mpl_render.render(Picture(titles[0], [_audit_chart("", *audits.values())]))
    charts = [_audit_chart(title, audit) for title, audit in zip(titles, audits.values(), strict=True)]
    return mpl_render.render(Picture(shows.capitalize(), charts), height=1.0 + 3.8 * len(charts))


def _audit_chart(title: str, audit: Audit) -> Chart:
    import numpy as np

    from pecli.views.pictures.panels import Chart, Curve

    curves = []
    for drift in audit.drifts:
        places, errors = map(np.array, audit.curve(drift))
        shown = np.where((errors > 0) & np.isfinite(errors), errors, np.nan)[places >= 1]  # a logarithm has no others
        name = drift.recipe if drift.max_abs_error else f"{drift.recipe} (no error)"
        curves.append(Curve(name, places[places >= 1], shown))
    drawable = MIN_TOLERANCE < audit.tolerance < 1 / MIN_TOLERANCE
    levels = [(f"tolerance {short(audit.tolerance)}", audit.tolerance)] if drawable else []
    return Chart(title, curves, _axis(audit), "largest absolute error", log_x=True, log_y=True, levels=levels)


def _axis(audit: Audit) -> str:
    return "distance" if audit.numbers.kind == "slopes" else "position"


def show_runtimes(found: RuntimeComparison) -> None:
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
        return f"departs by {_error(result.departure)} from position {result.first_beyond:,} on, {pairs}", "yellow"
    words = "as defined" if not result.causes else f"departs by {_error(result.departure)} at most"
    return f"{words}; float32 off by up to {_error(result.max_abs_error)}", "green"


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


def runtimes_picture(found: RuntimeComparison) -> Figure:
    """The largest error over positions, on logarithmic scales: one curve per runtime, one panel per kind of layer."""
    from pecli.views.pictures import mpl_render
    from pecli.views.pictures.panels import Picture

    charts = [_runtimes_chart(name, results, found.tolerance) for name, results in found.layers.items()]
    title = f"{found.model}: what runtimes compute, compared with its definition"
    return mpl_render.render(Picture(title, charts), height=1.0 + 3.8 * len(charts))


def _runtimes_chart(title: str, results: Sequence[RuntimeResult], tolerance: float) -> Chart:
    import numpy as np

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
