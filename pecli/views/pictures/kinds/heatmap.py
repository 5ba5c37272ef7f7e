"""Tables as colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.views.pictures import ticks
from pecli.views.pictures.downsample import check_width, is_sampled, reduced, slab
from pecli.views.pictures.panels import Heat, Picture, Subject, Wish, check_room, chosen

_BEND = 0.4
"""Slopes fall as powers of two, so that on an even scale all heads but the first few would look alike."""


_SHOWN = {"bias": "bias", "rotation": "cosine and sine"}
"""What the elements of tables are, by how these are applied."""


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """One panel a matrix; panels of one meaning share their colours."""
    panels = []
    sampled = False
    for subject in subjects:
        for table, title, rows in _matrices(subject, wish):
            many = len(subjects) > 1
            sampled |= is_sampled(table)
            check_width(table, "heatmap")
            values = reduced(table, wish.rows, wish.columns)
            panels.append(
                _heat(table, values, ", ".join(filter(None, [subject.label if many else "", title])), rows, subject)
            )
            check_room(len(panels))
    if not panels:
        names = ", ".join(subject.label for subject in subjects)
        advice = "give it a --seq-len" if subjects[0].applied_as == "bias" else ""
        raise ParameterError("kind", "heatmap", f"{names} has no table with rows and columns", advice)
    shows = _shows(subjects, panels[0]) + ", from a part of the rows" * sampled
    return Picture(shows, _alike(panels), across=_across(len(panels)))


def _shows(subjects: Sequence[Subject], panel: Heat) -> str:
    every = {_SHOWN.get(subject.applied_as, "value") for subject in subjects}
    what = every.pop() if len(every) == 1 else "value"
    return f"{what} by {panel.rows} and {panel.columns}"


def _matrices(subject: Subject, wish: Wish) -> Iterator[tuple[Table, str, str]]:
    """Every matrix worth drawing, with what it is called and what its rows are."""
    tables = [table for table in subject.tables if len(table.shape) > 1 and table.size]
    for table in tables:
        name = table.name if len(tables) > 1 or subject.applied_as == "rotation" else ""
        if len(table.shape) == 2:
            yield table, name, "position"
            continue
        outer = table.rows // table.shape[-2]
        if table.shape[-2] == 1:
            yield Table(table.name, table.dtype, (outer, table.shape[-1]), table.fill, table.in_order), name, "head"
            continue
        for index in chosen(wish, outer, 8, "heads"):
            outermost, *_, row, _ = subject.axes_of(table).names
            yield slab(table, index), f"{outermost} {index}" if outermost else f"{table.name}[{index}]", row


def _heat(table: Table, values: Floats, title: str, rows: str, subject: Subject) -> Heat:
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    biased = subject.applied_as == "bias"
    return Heat(
        title,
        values,
        rows=rows,
        columns=subject.axes_of(table).names[-1],
        centred=low < 0 < high and not biased,
        first_row=subject.first if rows == "position" else 0,
        row_count=table.rows,
        column_count=table.width,
        limits=(low, high),
        meaning="bias" if biased else "",
    )


def _alike(panels: Sequence[Heat]) -> list[Heat]:
    """The same limits for all panels, so that the same colour is the same value."""
    from dataclasses import replace

    low, high = min(panel.limits[0] for panel in panels), max(panel.limits[1] for panel in panels)
    centred = any(panel.centred for panel in panels)
    if centred:
        reach = ticks.round_ends(0.0, max(-low, high))[1]
        low, high = -reach, reach
    elif not high > low:
        low, high = low - 0.5, high + 0.5
    heads = len(panels) > 1 or panels[0].rows == "head"
    power = _BEND if heads and {panel.meaning for panel in panels} == {"bias"} else 1.0
    return [replace(panel, limits=(low, high), centred=centred, power=power) for panel in panels]


def _across(count: int) -> int:
    return count if count <= 3 else 2 if count == 4 else 3 if count in (5, 6, 9) else 4
