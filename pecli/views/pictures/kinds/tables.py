"""The values of tables: as colours, as curves over positions, as maps of a grid, and how they are distributed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pecli.engine.arrays import Array, Floats, Indices, widened
from pecli.engine.table import Table, results_in_order
from pecli.errors import ParameterError
from pecli.views.pictures import labels
from pecli.views.pictures.downsample import GOLDEN, check_width, envelope, is_sampled, reduced, slab
from pecli.views.pictures.kinds.distance import heads_of
from pecli.views.pictures.kinds.wavelengths import angular_frequencies, informative_pairs
from pecli.views.pictures.panels import (
    MAX_PANELS,
    Chart,
    Curve,
    HeatmapPanel,
    Picture,
    PlotRequest,
    Subject,
    check_panels,
    chosen,
    spread,
)

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
BINS = 96
MAX_SPAN = 1e306
"""How far apart values may be, so that the ends of bins are numbers."""
MAX_SAMPLES = 1 << 26
"""Values of a histogram up to which every one counts; of more, as many are taken, evenly."""
SAMPLE_RUNS = 1024
"""From how many places they are taken."""
MAX_MAP_POINTS = 1 << 18
"""Points of a grid that are drawn."""
MAPS_ACROSS = 4
MIN_VARIATION = 0.2
"""Of the range of all values, what a channel has to vary by to be worth a map."""


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
            yield Table(table.name, table.dtype, (outer, table.shape[-1]), table.fill, table.in_order), name, "head"
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


def histogram(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A density per table; a table on its own is compared with the normal distribution of its mean and spread."""
    curves, parts = [], []
    for subject in subjects:
        tables = [table for table in subject.tables if table.size]
        for table in tables:
            check_width(table, "histogram")
            middles, density, mean, deviation = distribution(table)
            parts += (
                [f"{SAMPLE_RUNS * _run(table) * table.width:,} of {table.size:,} values"] if _is_long(table) else []
            )
            names = [subject.label] * (len(subjects) > 1) + [table.name] * (len(tables) > 1)
            curves.append(Curve(", ".join(names) or table.name, middles, density))
    if not curves:
        raise ParameterError("kind", "histogram", "there are no values")
    if len(curves) == 1 and deviation > 0 and "wavelengths" not in subjects[0].picture_kinds:
        bell = np.exp(-(((middles - mean) / deviation) ** 2) / 2) / (deviation * np.sqrt(2 * np.pi))
        curves.append(Curve(f"normal, mean {mean:.3g}, std {deviation:.3g}", middles, bell))
    several = f"a part of the values of {len(parts)} tables"
    note = f"of {parts[0] if len(parts) == 1 else several}, evenly taken" if parts else ""
    return Picture("distribution of the values", [Chart(note, curves[:6], x="value", y="density", filled=True)])


def distribution(table: Table) -> tuple[Floats, Floats, float, float]:
    """The middles of equal bins, the density in each, the mean and the standard deviation of what is finite.

    Of a long table, all of this is that of the values that are taken.
    """
    low, high, count, total, squares = np.inf, -np.inf, 0, 0.0, 0.0
    for values in _finite(table):
        low, high = min(low, float(values.min())), max(high, float(values.max()))
        with np.errstate(over="ignore", invalid="ignore"):
            count, total, squares = count + values.size, total + float(values.sum()), squares + float((values**2).sum())
    low, high = labels.apart(low, high)
    if not count or not high - low < MAX_SPAN:
        problem = "no finite value" if not count else "values too far apart"
        raise ParameterError("kind", "histogram", f"{table.name} has {problem}")
    tally = np.zeros(BINS, np.int64)
    for values in _finite(table):
        tally += np.histogram(values, BINS, (low, high))[0]
    width, mean = (high - low) / BINS, total / count
    middles: Floats = low + width * (np.arange(BINS, dtype=np.float64) + 0.5)
    return middles, tally / (count * width), mean, math.sqrt(max(0.0, squares / count - mean * mean))


def _finite(table: Table) -> Iterator[Floats]:
    """The finite values, block by block."""
    for values in map(widened, _sampled_blocks(table)):
        kept = values[np.isfinite(values)]
        if kept.size:
            yield kept


def _is_long(table: Table) -> bool:
    """Whether a part stands for all; what can only be read in order is read as a whole."""
    return table.size > MAX_SAMPLES and table.rows > 2 * SAMPLE_RUNS and not table.in_order


def _run(table: Table) -> int:
    """Rows that are taken from each place."""
    return max(1, MAX_SAMPLES // (table.width * SAMPLE_RUNS))


def _sampled_blocks(table: Table) -> Iterator[Array]:
    if not _is_long(table):
        return table.blocks()
    stretch = table.rows / SAMPLE_RUNS

    def read(place: int) -> Array:
        late = place * GOLDEN % 1 * max(0.0, stretch - _run(table))
        start = int(place * stretch + late)
        return table.read(start, min(table.rows, start + _run(table)))

    return results_in_order(read, range(SAMPLE_RUNS))


def maps(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A few channels, each over the rows and columns of the grid; of a video, of its first frame."""
    most = max(1, MAX_PANELS // max(1, len(subjects)))
    panels = []
    for subject in subjects:
        table, name = _first_matrix(subject), subject.axes_of(_first_matrix(subject)).names[-1]
        rows = grid_rows(subject)
        values = widened(table.pick(rows.reshape(-1)))
        varying = np.flatnonzero(np.ptp(values, axis=0) > MIN_VARIATION * np.ptp(values)).tolist() or [0]
        few = [varying[k] for k in spread(len(varying), most)]
        picked = chosen(request, table.width, most) if request.channels is not None else few
        for column in picked:
            title = f"{table.name}, {name} {column}" if len(subjects) == 1 else f"{subject.label}, {name} {column}"
            panels.append(grid_map(title, values[:, column].reshape(rows.shape)))
    return Picture(f"{name}s over the grid", tuple(panels), min(MAPS_ACROSS, len(panels)))


def grid_map(title: str, values: Floats, meaning: str = "") -> HeatmapPanel:
    """A panel of cosines or sines, or of what is made of them, on a grid."""
    return HeatmapPanel(title, values, "row", "column", centred=True, limits=(-1.0, 1.0), meaning=meaning)


def _first_matrix(subject: Subject) -> Table:
    return next(table for table in subject.tables if len(table.shape) == 2)


def grid_rows(subject: Subject) -> Indices:
    """Which row of the table each point of the first frame has: (H, W)."""
    scheme = subject.scheme
    grid, style = getattr(scheme, "grid", None), getattr(scheme, "grid_style", None)
    assert grid is not None
    assert style is not None
    height, width = grid[-2:]
    if height * width > MAX_MAP_POINTS:
        raise ParameterError("the picture", "too large", f"a map has at most {MAX_MAP_POINTS:,} points")
    keep = 0 if style.keep_last else getattr(scheme, "keep", None) or 0
    m = style.merge
    blocks = np.arange(height * width).reshape(height // m, width // m, m, m)
    return keep + blocks.transpose(0, 2, 1, 3).reshape(height, width)
