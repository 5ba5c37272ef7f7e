"""Audits as text: how far each precision recipe drifts from the exact table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pecli.checks.audit import Audit
from pecli.checks.position_errors import Drift
from pecli.engine.grouping import grouped
from pecli.engine.schemes.scheme import stated_parameters
from pecli.errors import number, spelled
from pecli.views import screen
from pecli.views.pictures.downsample import evenly_spaced
from pecli.views.screen import Cell, Styled
from pecli.views.text_table import print_table

_COLUMN_NOUNS = {
    "frequencies": "frequency",
    "slopes": "slope of the head",
    "columns": "column",
}
"""The noun for a column of the errors, by the kind of the audited numbers."""

_TITLE_PARAMETERS = ("style", "seq_len", "heads", "dim", "base", "scaling", "offset", "dtype")

MAX_FREQUENCIES = 7
"""Frequencies that are shown; they and the names of recipes fit into 80 columns."""


def show_audit(audit: Audit) -> None:
    """Print the verdicts of an audit."""
    show_audits({"": audit})


def show_audits(audits: Mapping[str, Audit], *, details: bool = False) -> None:
    """Print how far each way of rounding drifts from the exact table, per layer type.

    Args:
        audits: Audits by layer type; the name is empty if a model has only one.
        details: Also print tables of errors by position and by frequency.
    """
    for index, (layer_type, audit) in enumerate(audits.items()):
        if index > 0:
            screen.print_line()
        screen.print_labelled(_title(layer_type, audit), "bold")
        for verdict in verdicts(audit):
            screen.print_labelled(verdict.words, verdict.style, verdict.recipes)
        if details:
            _print_details(audit)
    if not details:
        screen.print_wrapped(
            "(The largest error of each is in parentheses; --details has errors by position and frequency.)"
        )


def _title(layer_type: str, audit: Audit) -> str:
    """Return the layer type, the scheme and its parameters: «sliding rope seq_len=512 dim=64 base=10000»."""
    # A model with one type of layers has no name for it.
    words = [f"{layer_type} {audit.scheme.name}".strip()]
    parameters = stated_parameters(audit.scheme)
    if "inv_freq" in parameters:  # They replace the base.
        del parameters["base"]
    for name in _TITLE_PARAMETERS:
        value = parameters.get(name, 0)
        is_set = value not in ("none", 0)
        if is_set:
            words.append(f"{name}={spelled(value)}")
    return " ".join(words)


class Verdict(NamedTuple):
    """The recipes that stay within the tolerance equally far."""

    words: str
    style: str
    recipes: str


def verdicts(audit: Audit) -> list[Verdict]:
    """Return lines with the number of positions at which recipes keep the tolerance, the best first.

    A recipe is a way of rounding, such as frequencies in float16. Recipes that keep the same number
    of positions share a line: «within 0.001 at all 4,096 positions: float32 (1.5e-4), …».
    """
    drifts_by_count = grouped(audit.drifts, audit.kept_positions)
    lines: list[Verdict] = []
    for count in sorted(drifts_by_count, reverse=True):
        style = "green" if count == audit.numbers.count else "yellow"
        recipes = ", ".join(map(_recipe_with_error, drifts_by_count[count]))
        lines.append(Verdict(f"  {_kept_positions_in_words(audit, count)}", style, f": {recipes}"))
    return lines


def _recipe_with_error(drift: Drift) -> str:
    """Return a recipe with its largest error: «float32 (1.5e-4)»."""
    return f"{drift.recipe} ({number(drift.max_abs_error, 2)})"


def _kept_positions_in_words(audit: Audit, count: int) -> str:
    """Return in words how far the error stays within the tolerance: for the first `count` positions."""
    tolerance = f"{audit.tolerance:g}"
    last_position = audit.numbers.first + count - 1
    if count == audit.numbers.count:
        return f"within {tolerance} at all {count:,} positions"
    if last_position > 0:
        return f"within {tolerance} to position {last_position:,}"
    return f"not within {tolerance}"  # position 0 is exact in every recipe: it proves nothing


def _print_details(audit: Audit) -> None:
    """Print the errors of each recipe (a way of rounding): in total, by position, by frequency."""
    title = (
        f"kept: positions before the error exceeds {audit.tolerance:g}; equal: first repeated row"
    )
    summary = [_summary_row(audit, drift) for drift in audit.drifts]
    _print_errors(title, ("max", "mean", "kept", "equal"), summary)
    _print_decades(audit)
    _print_frequencies(audit)


def _summary_row(audit: Audit, drift: Drift) -> list[Cell]:
    """Return the row of a recipe: its largest and mean error, and the positions that it keeps.

    The last cell is the first position whose row equals the one before it, because the positions
    are rounded: in bfloat16, 257 is 256. «–» if there is none.
    """
    is_within = drift.first_beyond is None
    kept = "all" if is_within else f"{audit.kept_positions(drift):,}"
    equal = "–" if drift.first_equal is None else f"{drift.first_equal:,}"
    largest = Styled(number(drift.max_abs_error, 2), "green" if is_within else "yellow")
    return [drift.recipe, largest, number(audit.mean(drift), 2), kept, equal]


def _print_decades(audit: Audit) -> None:
    """Print a table of the largest errors and one of the mean errors, by decades of positions.

    A row is a recipe, a way of rounding. The columns are the positions from 0, from 10, from 100, ….
    """
    decades = audit.decades()
    rows_of_largest: list[list[Cell]] = []
    rows_of_means: list[list[Cell]] = []
    for drift in audit.drifts:
        largest: list[Cell] = [drift.recipe]
        means: list[Cell] = [drift.recipe]
        for decade in decades:
            error, mean = audit.in_decade(drift, decade)
            largest.append(number(error, 2))
            means.append(number(mean, 2))
        rows_of_largest.append(largest)
        rows_of_means.append(means)
    starts = [str(first) for first, _ in decades]
    _print_errors("largest error, by positions from", starts, rows_of_largest)
    _print_errors("mean error, by positions from", starts, rows_of_means)


def _print_frequencies(audit: Audit) -> None:
    """Print the largest error of each recipe at some frequencies, evenly chosen.

    A row is a recipe, a way of rounding. If biases are audited, the columns are slopes of heads
    instead of frequencies.
    """
    frequencies = audit.numbers.values
    chosen = evenly_spaced(len(frequencies), MAX_FREQUENCIES)
    heads = [number(frequencies[index], 2) for index in chosen]
    rows: list[list[Cell]] = []
    for drift in audit.drifts:
        errors = [number(float(drift.by_frequency[index]), 2) for index in chosen]
        rows.append([drift.recipe, *errors])
    noun = _COLUMN_NOUNS[audit.numbers.kind]
    _print_errors(f"largest error, by {noun}", heads, rows)


def _print_errors(title: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    screen.print_heading(title)
    print_table(["", *heads], rows, indent="  ", right=True)
