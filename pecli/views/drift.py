"""What is computed, in words and pictures: drift by recipe and by runtime, and the settings of a longer context."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pecli.engine.arrays import Floats
from pecli.errors import counted, number, spelled
from pecli.models.encoding import ModelEncodings
from pecli.views import screen
from pecli.views.pictures import figure, kinds
from pecli.views.pictures.axis_labels import typeset
from pecli.views.pictures.figure import Figure
from pecli.views.pictures.panels import Chart, Curve, Level, Picture
from pecli.views.pictures.subjects import PlotRequest, labelled, of_model, of_scheme, title_of

if TYPE_CHECKING:
    from pecli.checks.audit import Audit, Drift
    from pecli.checks.extend import Extension
    from pecli.checks.runtimes import RuntimeComparison, RuntimeResult

_COLUMNS = {"frequencies": "frequency", "slopes": "slope of the head", "columns": "column"}
"""What the errors of columns go by, in words."""
MAX_FREQUENCIES = (
    7  #: Frequencies that are shown; they and the names of recipes fit into 80 characters
)


def show_audit(audited: Audit | Mapping[str, Audit], *, details: bool = False) -> None:
    """The verdicts of an audit, and its tables with details; of each kind of layer, where a model has several."""
    audits = audited if isinstance(audited, Mapping) else {"": audited}
    for place, (name, audit) in enumerate(audits.items()):
        if place:
            screen.say()
        given = audit.scheme.spec()["parameters"]
        names = ("style", "seq_len", "heads", "dim", "base", "scaling", "offset", "dtype")
        said = [
            f"{key}={spelled(given[key])}"
            for key in names
            if given.get(key) not in (None, "none", 0)
        ]
        screen.say_labelled(" ".join(filter(None, [name, audit.scheme.name, *said])), "bold")
        for verdict, style, recipes in verdicts(audit):
            screen.say_labelled(verdict, style, recipes)
        if details:
            _show_tables(audit)
    if not details:
        where = "--details has errors by position and frequency"
        screen.say_wrapped(f"(The largest error of each is in parentheses; {where}.)")


def verdicts(audit: Audit) -> list[tuple[str, str, str]]:
    """How far recipes stay within the tolerance, the best first: words, their style, and which do."""
    by_count: dict[int, list[Drift]] = {}
    for drift in audit.drifts:
        by_count.setdefault(audit.kept_positions(drift), []).append(drift)
    lines = []
    for count in sorted(by_count, reverse=True):
        last = audit.numbers.first + count - 1
        errors = [f"{each.recipe} ({number(each.max_abs_error, 2)})" for each in by_count[count]]
        is_whole = count == audit.numbers.count
        extent = f"at all {count:,} positions" if is_whole else f"to position {last:,}"
        words = (
            f"within {audit.tolerance:g} {extent}"
            if last > 0 or is_whole
            else f"not within {audit.tolerance:g}"
        )
        lines.append((f"  {words}", "green" if is_whole else "yellow", f": {', '.join(errors)}"))
    return lines


def _show_tables(audit: Audit) -> None:
    """One row per recipe: its errors, the positions within the tolerance, where rows repeat; and errors by place."""
    decades, values = audit.decades(), audit.numbers.values
    chosen = sorted(
        {round(k * (len(values) - 1) / (MAX_FREQUENCIES - 1)) for k in range(MAX_FREQUENCIES)}
    )
    starts, frequencies = (
        [str(first) for first, _ in decades],
        [number(values[k], 2) for k in chosen],
    )
    summary: list[list[screen.Cell]] = []
    largest, means, by_frequency = [], [], []
    for drift in audit.drifts:
        within = drift.first_beyond is None
        kept = "all" if within else f"{audit.kept_positions(drift):,}"
        equal = "–" if drift.first_equal is None else f"{drift.first_equal:,}"
        worst = (number(drift.max_abs_error, 2), "green" if within else "yellow")
        summary.append([drift.recipe, worst, number(audit.mean(drift), 2), kept, equal])
        errors = [audit.in_decade(drift, decade) for decade in decades]
        largest.append([drift.recipe, *(number(error, 2) for error, _ in errors)])
        means.append([drift.recipe, *(number(mean, 2) for _, mean in errors)])
        by_frequency.append(
            [drift.recipe, *(number(float(drift.by_frequency[k]), 2) for k in chosen)]
        )
    title = (
        f"kept: positions before the error exceeds {audit.tolerance:g}; equal: first repeated row"
    )
    _show(title, ("max", "mean", "kept", "equal"), summary)
    _show("largest error, by positions from", starts, largest)
    _show("mean error, by positions from", starts, means)
    _show(f"largest error, by {_COLUMNS[audit.numbers.kind]}", frequencies, by_frequency)


def _show(title: str, heads: Sequence[str], rows: Sequence[Sequence[screen.Cell]]) -> None:
    screen.say_heading(title)
    screen.say_table(["", *heads], rows, indent="  ", right=True)


def audit_picture(audited: Audit | Mapping[str, Audit]) -> Figure:
    """The largest error over positions: a line per recipe, a panel per kind of layer; a sentence if there is none."""
    audits = audited if isinstance(audited, Mapping) else {"": audited}
    first = next(iter(audits.values()))
    axis = "distance" if first.numbers.kind == "slopes" else "position"
    shows = f"largest error by {axis}"
    titles = [
        title_of(labelled(of_scheme(audit.scheme)), name or shows) for name, audit in audits.items()
    ]
    if not any(drift.max_abs_error for audit in audits.values() for drift in audit.drifts):
        recipes = ", ".join(drift.recipe for drift in first.drifts)
        return _figure(
            titles[0], [], f"no error to draw: {recipes} equals the exact table everywhere"
        )
    charts = []
    for title, audit in zip(titles, audits.values(), strict=True):
        names = [drift.recipe + " (no error)" * (not drift.max_abs_error) for drift in audit.drifts]
        curves = dict(zip(names, map(audit.curve, audit.drifts), strict=True))
        charts.append(_chart(title if len(audits) > 1 else "", curves, audit.tolerance, axis))
    return _figure(shows.capitalize() if len(audits) > 1 else titles[0], charts)


def runtimes_picture(found: RuntimeComparison) -> Figure:
    """The largest error over positions: a line per runtime, a panel per kind of layer."""
    charts = [
        _chart(
            name,
            {each.runtime: each.curve for each in results if each.curve is not None},
            found.tolerance,
        )
        for name, results in found.layers.items()
    ]
    return _figure(f"{found.model}: what runtimes compute, compared with its definition", charts)


def _chart(
    title: str,
    curves: Mapping[str, tuple[Floats, Floats]],
    tolerance: float,
    axis: str = "position",
) -> Chart:
    """Errors over positions, both on logarithmic scales, with the tolerance."""
    is_drawn = 1e-150 < tolerance < 1e150  # a logarithmic axis has no others
    levels = [Level(f"tolerance {typeset(tolerance)}", tolerance)] if is_drawn else []
    alike: dict[tuple[bytes, ...], list[str]] = {}  # by their points
    for name, points in curves.items():
        alike.setdefault(tuple(each.tobytes() for each in points), []).append(name)
    lines = [Curve(", ".join(names), *curves[names[0]]) for names in alike.values()]
    return Chart(
        title, lines, axis, "largest absolute error", log_x=True, log_y=True, levels=levels
    )


def _figure(title: str, charts: Sequence[Chart], subtitle: str = "") -> Figure:
    height = {0: 2.0, 1: 5.0}.get(len(charts), 1.0 + 3.8 * len(charts))
    return figure.render(Picture(title, charts, subtitle=subtitle), size=(8.0, height))


def show_runtimes(found: RuntimeComparison) -> None:
    """A line for each runtime, of every kind of layer."""
    screen.say_styled((f"{found.model}, served with a context of {found.length:,}", "bold"))
    for name, results in found.layers.items():
        if name:
            screen.say_heading(name)
        _say_runtimes(results)
    departing = dict.fromkeys(
        each.runtime for results in found.layers.values() for each in results if each.departs
    )
    screen.say()
    if departing:
        screen.say(f"Not as defined: {', '.join(departing)} (tolerance {found.tolerance:g}).")
    else:
        screen.say("All agree up to float32 rounding.")


def _say_runtimes(results: Sequence[RuntimeResult], indent: str = "") -> None:
    width = max(len(f"{each.runtime} ({each.version})") for each in results)
    for result in results:
        screen.say_styled(
            (f"{indent}{f'{result.runtime} ({result.version})':<{width}}  ", ""), _verdict(result)
        )
        ends = "" if result.rows is None else f"its table ends at position {result.rows - 1:,}"
        for reason in filter(None, [result.lacks, *result.causes, ends, *result.notes]):
            screen.say_wrapped(f"{indent}  {reason}")


def _verdict(result: RuntimeResult) -> tuple[str, str]:
    if result.lacks:
        return "lacks it" if result.no_scaling else "not computed", "red"
    departure = f"deviates by up to {number(result.departure, 2)}"
    if result.first_beyond is not None:
        first, last = result.pairs or (0, 0)
        pairs = f"pair {first}" if first == last else f"pairs {first}–{last}"
        return f"{departure}, from position {result.first_beyond:,}, {pairs}", "yellow"
    words = (
        departure
        if result.causes
        else f"as defined{' for long prompts' * bool(result.short_prompts)}"
    )
    return f"{words}; float32 off by up to {number(result.max_abs_error, 2)}", "green"


def show_extension(found: Extension) -> None:
    """What to write where, who honours it, and what it changes."""
    to = f"{found.longest:,} → {found.to:,} positions by {found.method}, factor {found.factor:g}"
    if found.longest != found.original:
        to += f" of the original {found.original:,}"
    screen.say_styled((f"{found.model}: {to}", "bold"))
    if found.reason:
        screen.say_wrapped(found.reason)
    spellings = {
        "config.json": json.dumps(found.config)[1:-1],
        "config.json, transformers 5": json.dumps(found.newer_config)[1:-1],
        **found.commands,
        "GGUF": ", ".join(f"ARCH.{key} = {value}" for key, value in found.gguf.items()),
    }
    for name, text in spellings.items():
        if text:
            screen.say_heading(name)
            screen.say(f"  {text}")
    screen.say_heading("runtimes")
    _say_runtimes(found.runtimes, "  ")
    waves = found.wavelengths()
    screen.say()
    kept = counted(waves["kept"], "wavelength")
    factor = f"{found.factor:g}×"
    screen.say(
        f"{kept} kept, {waves['blended']} stretched by less than {factor}, {waves['stretched']} by {factor}"
    )
    for note in found.notes:
        screen.say_wrapped(note)


def extension_picture(found: Extension) -> Figure:
    """The wavelengths before and after."""
    lengths = {found.longest: found.before, found.to: found.after}
    models = [
        ModelEncodings(found.model, None, (each,), context=length)
        for length, each in lengths.items()
    ]
    subjects = [subject for model in models for subject in of_model(model, found.model)]
    names = ["as it is", f"{found.method}, factor {found.factor:g}"]
    title = f"{found.model}: wavelength of each rotary pair"
    return figure.render(
        kinds.titled(labelled(subjects, names), PlotRequest(), "wavelengths", title)
    )
