"""The values of tables: as colours, and as curves over positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pecli.engine.arrays import Floats, widened
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.views.pictures import labels
from pecli.views.pictures.downsample import check_width, envelope, is_sampled, reduced, slab
from pecli.views.pictures.kinds.distance import heads_of
from pecli.views.pictures.kinds.wavelengths import angular_frequencies, informative_pairs
from pecli.views.pictures.panels import Chart, Curve, HeatmapPanel, Picture, PlotRequest, Subject, check_panels, chosen

BIAS_POWER = 0.4
"""Slopes fall as powers of two, so that on an even scale all heads but the first few would look alike."""
MAX_POSITIONS = 1 << 20
"""Positions of a curve; more would be a band."""
MAX_PIECES = 1 << 14
"""Pieces of a curve, more than any picture has columns."""
CHOSEN_CURVES, MAX_CURVES = 5, 12
"""Curves that are chosen, and those that have colours of their own."""
MAX_TURNS = 16.0
"""Turns of a curve within the table; more would be a band."""


def heatmap(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """One panel per matrix; panels of one meaning share their colours."""
    panels = []
    values: dict[str, None] = {}
    sampled = False
    for subject in subjects:
        for table, title, rows in _matrices(subject, request):
            many = len(subjects) > 1
            sampled |= is_sampled(table)
            values[subject.axes_of(table).value] = None
            check_width(table, "heatmap")
            name = ", ".join(filter(None, [subject.label if many else "", title]))
            panels.append(_panel(table, reduced(table, request.rows, request.columns), name, rows, subject))
            check_panels(len(panels))
    if not panels:
        names = ", ".join(subject.label for subject in subjects)
        advice = "give it a --seq-len" if subjects[0].applied_as == "bias" else ""
        raise ParameterError("kind", "heatmap", f"{names} has no table with rows and columns", advice)
    elements = " and ".join(values) if len(values) < 3 and "value" not in values else "value"
    shows = f"{elements} by {panels[0].rows} and {panels[0].columns}" + ", from a part of the rows" * sampled
    return Picture(shows, _with_common_limits(panels), across=_across(len(panels)))


def _matrices(subject: Subject, request: PlotRequest) -> Iterator[tuple[Table, str, str]]:
    """Every matrix worth drawing, with what it is called and what its rows are."""
    tables = [table for table in subject.tables if len(table.shape) > 1 and table.size]
    for table in tables:
        name = table.name if len(tables) > 1 or subject.applied_as == "rotation" else ""
        if len(table.shape) == 2:
            yield table, name, subject.axes_of(table).names[-2]
            continue
        outer = table.rows // table.shape[-2]
        if table.shape[-2] == 1:
            yield Table(table.name, table.dtype, (outer, table.shape[-1]), table.fill), name, "head"
            continue
        for index in chosen(request, outer, 8, "heads"):
            outermost, *_, row, _ = subject.axes_of(table).names
            yield slab(table, index), f"{outermost} {index}" if outermost else f"{table.name}[{index}]", row


def _panel(table: Table, found: tuple[Floats, int], title: str, rows: str, subject: Subject) -> HeatmapPanel:
    values, step = found
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    biased = subject.applied_as == "bias"
    return HeatmapPanel(
        title,
        values,
        rows=rows,
        columns=subject.axes_of(table).names[-1],
        centred=low < 0 < high and not biased,
        first_row=subject.first if rows == "position" else 0,
        row_count=table.rows,
        column_count=table.width,
        column_step=step,
        limits=(low, high),
        meaning="bias" if biased else "",
    )


def _with_common_limits(panels: Sequence[HeatmapPanel]) -> list[HeatmapPanel]:
    """The same limits for all panels, so that the same colour is the same value."""
    low, high = min(panel.ends()[0] for panel in panels), max(panel.ends()[1] for panel in panels)
    centred = any(panel.centred for panel in panels)
    if centred:
        reach = labels.round_ends(0.0, max(-low, high))[1]
        low, high = -reach, reach
    elif not high > low:
        low, high = low - 0.5, high + 0.5
    heads = len(panels) > 1 or panels[0].rows == "head"
    power = BIAS_POWER if heads and {panel.meaning for panel in panels} == {"bias"} else 1.0
    return [replace(panel, limits=(low, high), centred=centred, power=power) for panel in panels]


def _across(count: int) -> int:
    return count if count <= 3 else 2 if count == 4 else 3 if count in (5, 6, 9) else 4


def curves(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """One chart; with several subjects each curve says whose it is."""
    if all(subject.applied_as == "bias" for subject in subjects):
        return Picture("bias by distance", [_biases(subjects, request)])
    most = max(1, CHOSEN_CURVES // len(subjects))
    found: list[Curve] = []
    drawn: list[Table] = []
    for subject in subjects:
        for table in _waves(subject):
            drawn.append(table)
            prefix = f"{subject.label}, " if len(subjects) > 1 else f"{table.name} " if _is_one_of_many(subject) else ""
            word = "pair" if subject.is_compact else "channel"
            picked = (
                chosen(request, table.width, most, f"{word}s") if request.channels else _picked(subject, table, most)
            )
            rows = _columns(table, picked)
            shown = min(2, most) if request.channels is None and _is_restless(rows) else len(picked)
            x = subject.first + np.arange(len(rows), dtype=np.float64)
            found += [
                Curve(f"{prefix}{word} {k}", *envelope(x, rows[:, j], MAX_PIECES)) for j, k in enumerate(picked[:shown])
            ]
    if not found:
        raise ParameterError("kind", "curves", "there is no table with rows and columns")
    if request.channels and len(found) > MAX_CURVES:
        raise ParameterError("channels", f"{len(found)} lines", f"a picture has room for {MAX_CURVES}", "name fewer")
    rotary = all(subject.is_compact for subject in subjects)
    title = "chosen pairs over positions" if rotary else "chosen channels over positions"
    cut = f"the first {MAX_POSITIONS:,} positions" if any(table.rows > MAX_POSITIONS for table in drawn) else ""
    alone = found[0].label if len(found) == 1 else ""  # which has no legend
    chart = Chart(", ".join(filter(None, [alone, cut])), found[:MAX_CURVES], y="cosine" if rotary else "value")
    return Picture(title, [chart])


def _is_one_of_many(subject: Subject) -> bool:
    return subject.kind == "file" and len(_waves(subject)) > 1


def _waves(subject: Subject) -> list[Table]:
    """What has rows and columns; of a rotation the cosines, as the sines look alike."""
    rotary = subject.applied_as == "rotation"
    found = [table for table in subject.tables if len(table.shape) == 2 and table.size]
    for table in found:
        check_width(table, "curves")
    return [table for table in found if not (rotary and table.name.endswith("sin"))]


def _picked(subject: Subject, table: Table, most: int) -> list[int]:
    """A few channels that are neither bands nor lines: by their frequencies where those are known."""
    if "wavelengths" not in subject.picture_kinds:
        return (
            [(k + 1) * table.width // (most + 1) for k in range(most)] if table.width > most else [*range(table.width)]
        )
    pairs = informative_pairs(angular_frequencies(subject), table.rows, most, MAX_TURNS)
    return [subject.axes_of(table).step * pair for pair in pairs]


def _is_restless(rows: Floats) -> bool:
    """Whether curves go up and down at every step, so that more than two of them hide each other."""
    start = rows[:4096]
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.abs(np.diff(start, axis=0))
        finite, known = steps[np.isfinite(steps)], start[np.isfinite(start)]
        return len(rows) > 64 and finite.size > 0 and bool(finite.mean() > known.std())


def _columns(table: Table, picked: Sequence[int]) -> Floats:
    """Some columns of a table, read block by block."""
    found, seen = np.empty((min(table.rows, MAX_POSITIONS), len(picked))), 0
    for block in table.blocks():
        part = widened(block[: len(found) - seen, list(picked)])
        found[seen : seen + len(part)] = part
        seen += len(part)
        if seen == len(found):
            break
    return found


def _biases(subjects: Sequence[Subject], request: PlotRequest) -> Chart:
    curves = []
    for head in heads_of(subjects, request):
        distances = np.linspace(0, head.keys - 1, 200)
        curves.append(Curve(head.label, distances, -head.slope * distances))
    return Chart("", curves, x="distance", y="bias", ordered=len(subjects) == 1)
