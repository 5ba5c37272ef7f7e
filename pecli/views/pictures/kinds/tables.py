"""The values of tables: as colours, as curves over positions, and how similar the rows of two positions are."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pecli.engine.arrays import Floats, Indices, widened
from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError, listed
from pecli.views.pictures.downsample import Reduction, envelope, reduced, stride
from pecli.views.pictures.kinds.frequencies import angular_frequencies, heads_of, informative_pairs
from pecli.views.pictures.panels import Chart, Curve, HeatmapPanel, Picture, on_one_scale
from pecli.views.pictures.subjects import (
    PlotRequest,
    Subject,
    check_panels,
    chosen,
    names_of,
    positions,
)

MAX_POSITIONS = 1 << 20  #: Positions of a curve; more would be a band
MAX_PIECES = 1 << 14  #: Pieces of a curve, more than any picture has columns
CHOSEN_CURVES, MAX_CURVES = (
    5,
    12,
)  #: Curves that are chosen, and those that have colours of their own
DASHES = ("-", "--", ":", "-.")  #: One per table, so that curves of several do not hide each other
MAX_TURNS = 16.0  #: Turns of a curve within the table; more would be a band
MAX_SAMPLES = 512  #: Positions of a similarity matrix
MAX_DISTANCES, MAX_ELEMENTS = (
    2048,
    1 << 24,
)  #: Positions whose distances are looked at, and their elements
MAX_MAP_POINTS, MAX_MAPS = 1 << 18, 8  #: Points of a grid that are drawn, and of how many channels


def heatmap(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """One panel per matrix, all of the same limits; biases fall as powers of two, so their colours are logarithmic."""
    biased = all(subject.applied_as == "bias" for subject in subjects)
    meaning = "|bias|, logarithmic, none: blank" if biased else ""
    panels: list[HeatmapPanel] = []
    elements: dict[str, None] = {}
    for subject, name in zip(subjects, names_of(subjects), strict=True):
        for table, title, rows, columns in _matrices(subject, request, len(subjects)):
            check_panels(len(panels) + 1)
            elements[subject.axes_of(table).value] = None
            reduce = (
                Reduction.SAMPLE if (rows, columns) == ("query", "key") else Reduction.MEAN
            )  # so that a diagonal stays one
            values = reduced(table, request.rows, request.columns, reduce)
            axes = (
                rows,
                columns,
                subject.first if rows == "position" else 0,
                (table.rows, table.width),
            )
            words = ", ".join(filter(None, [name, title]))
            values = np.abs(values) if biased else values
            panels.append(
                HeatmapPanel(words, values, *axes, meaning=meaning, log=biased, reduction=reduce)
            )
    if not panels:
        names = ", ".join(subject.label for subject in subjects)
        advice = "give it a --seq-len" if subjects[0].applied_as == "bias" else ""
        raise ParameterError(
            "kind", "heatmap", f"{names} has no table with rows and columns", advice
        )
    shown = " and ".join(elements) if len(elements) < 3 and "value" not in elements else "value"
    where = f"by {panels[0].rows} and {panels[0].columns}"
    if panels[0].rows == "position":
        where = f"over {positions(panel.shape[0] for panel in panels)}, by {panels[0].columns}"
    across = {4: 2, 5: 3, 6: 3, 9: 3}.get(len(panels), min(4, len(panels)))
    return Picture(f"{shown} {where}", on_one_scale(panels), across)


def _matrices(
    subject: Subject, request: PlotRequest, beside: int
) -> Iterator[tuple[Table, str, str, str]]:
    """Every matrix worth drawing, its name, and what rows and columns are; of a grid, maps of some channels."""
    if "patch" in subject.picture_kinds:
        points = grid_rows(subject)
        for table in subject.matrices:
            values = widened(table.pick(points.reshape(-1)))
            name = f"{table.name}, " if len(subject.matrices) > 1 else ""
            word = subject.axes_of(table).names[-1]
            for column in chosen(
                request,
                table.width,
                max(1, MAX_MAPS // len(subject.matrices) // beside),
                f"{word}s",
            ):
                of_channel = table_of(table.name, values[:, column].reshape(points.shape))
                yield of_channel, f"{name}{word} {column}", "row", "column"
        return
    tables = [table for table in subject.tables if len(table.shape) > 1 and table.size]
    for table in tables:
        name = table.name if len(tables) > 1 or subject.applied_as == "rotation" else ""
        axes = subject.axes_of(table).names
        height = table.shape[-2]
        if len(table.shape) == 2:
            yield table, name, axes[-2], axes[-1]
        elif height == 1:
            yield replace(table, shape=(table.rows, table.width)), name, "head", axes[-1]
        else:
            for index in chosen(request, table.rows // height, 8, "heads"):
                title = f"{axes[0]} {index}" if axes[0] else f"{table.name}[{index}]"
                yield slab(table, index), title, axes[-2], axes[-1]


def slab(table: Table, index: int) -> Table:
    """One matrix of a tensor with more than two axes: those before the last two are run through in order."""
    first = index * table.shape[-2]
    return replace(
        table, shape=table.shape[-2:], fill=lambda start, out: table.fill(first + start, out)
    )


def curves(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """One chart; with several subjects each curve says whose it is."""
    several = len(subjects) > 1
    if all(subject.applied_as == "bias" for subject in subjects):
        heads = [
            (label, np.linspace(0, keys - 1, 200), slope)
            for label, slope, keys in heads_of(subjects, request)
        ]
        biases = [Curve(label, distances, -slope * distances) for label, distances, slope in heads]
        return Picture(
            "bias by distance", [Chart("", biases, x="distance", y="bias", ordered=not several)]
        )
    if all(
        subject.axes_of(table).value == "bucket" for subject in subjects for table in subject.tables
    ):
        return _buckets(subjects)
    words, lines = set(), []
    lengths: list[int] = []
    for subject in subjects:
        rotary = subject.applied_as == "rotation"  # whose sines look like the cosines
        tables = [
            table for table in subject.matrices if not (rotary and table.name.endswith("sin"))
        ]
        for table in tables:
            word = "pair" if subject.axes_of(table).names[-1] == "pair" else "channel"
            own_name = f"{table.name} " if subject.kind == "file" and len(tables) > 1 else ""
            prefix = f"{subject.label}, " if several else own_name
            columns, values = _chosen_columns(
                subject, table, request, max(1, CHOSEN_CURVES // len(subjects)), word
            )
            x = subject.first + np.arange(len(values), dtype=np.float64)
            dash = DASHES[len(lengths) % len(DASHES)]
            for k, column in enumerate(columns):
                lines.append(
                    Curve(
                        f"{prefix}{word} {column}",
                        *envelope(x, values[:, k], MAX_PIECES),
                        dash=dash,
                    )
                )
            words.add(word)
            lengths.append(len(values))
    if not lines:
        raise ParameterError("kind", "curves", "there is no table with rows and columns")
    if request.channels and len(lines) > MAX_CURVES:
        raise ParameterError(
            "channels", f"{len(lines)} lines", f"a picture has room for {MAX_CURVES}", "name fewer"
        )
    rotary, first = words == {"pair"}, "the first " * (MAX_POSITIONS in lengths)
    title = f"chosen {'pairs' if rotary else 'channels'} over {first}{positions(lengths)}"
    name = lines[0].label if len(lines) == 1 else ""  # which has no legend
    return Picture(title, [Chart(name, lines[:MAX_CURVES], y="cosine" if rotary else "value")])


def _buckets(subjects: Sequence[Subject]) -> Picture:
    """Buckets by distance: those of the last query before its own place, and those of the first from there on."""
    curves = []
    for subject, name in zip(subjects, names_of(subjects), strict=True):
        if subject.value_of("grid") is not None:
            raise ParameterError(
                "kind", "curves", "distances on a grid have two axes", "take heatmap"
            )
        (table,) = subject.matrices
        buckets = np.concatenate(
            [table.read(table.rows - 1, table.rows)[0, :-1], table.read(0, 1)[0]]
        )
        distances = np.arange(
            1.0 - table.rows, table.rows
        )  # steps, halfway between which the bucket changes
        curves.append(
            Curve(name, np.ravel(distances[:, None] + (-0.5, 0.5)), np.repeat(widened(buckets), 2))
        )
    return Picture("bucket by distance", [Chart("", curves, x="distance, key − query", y="bucket")])


def _chosen_columns(
    subject: Subject, table: Table, request: PlotRequest, most: int, word: str
) -> tuple[list[int], Floats]:
    """The columns asked for, and their values; else a few that are neither bands nor lines, by frequencies if known."""
    if request.channels:
        columns = chosen(request, table.width, most, f"{word}s")
    elif "wavelengths" in subject.picture_kinds:
        pairs = informative_pairs(angular_frequencies(subject), table.rows, most, MAX_TURNS)
        columns = [subject.axes_of(table).step * pair for pair in pairs]
    elif table.width > most:
        columns = [(k + 1) * table.width // (most + 1) for k in range(most)]
    else:
        columns = [*range(table.width)]
    drawn = replace(table, shape=(min(table.rows, MAX_POSITIONS), table.width))
    return columns, np.concatenate([widened(block[:, columns]) for block in drawn.blocks()])


def similarity(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A matrix per subject, and one chart for all."""
    check_panels(len(subjects))
    heats: list[HeatmapPanel] = []
    curves, looked = [], 0
    for subject, name in zip(subjects, names_of(subjects), strict=True):
        tables = _vectors(subject)
        count, width = tables[0].rows, sum(table.width for table in tables)
        every = stride(count, min(request.rows, MAX_SAMPLES))
        sampled = directions(tables, np.arange(0, count, every))
        words = (
            "pairs of sampled positions" if every > 1 else "" if name else "all pairs of positions"
        )
        title = ", ".join(filter(None, [name, words]))
        axes = ("position", "position", subject.first, (count, count))
        heats.append(HeatmapPanel(title, sampled @ sampled.T, *axes, reduction=Reduction.SAMPLE))
        rows = directions(tables, np.arange(min(count, MAX_DISTANCES, MAX_ELEMENTS // width)))
        looked = max(looked, len(rows)) if count > len(rows) else looked
        curves.append(Curve(name, np.arange(len(rows), dtype=np.float64), by_distance(rows)))
    note = f", of the first {looked:,} positions" if looked else ""
    chart = Chart(f"mean by distance{note}", curves, x="distance", y="cosine similarity")
    across = 2 if len(subjects) in (1, 2, 4) else min(3, len(subjects))
    title = f"cosine similarity of {positions(panel.shape[0] for panel in heats)}"
    return Picture(title, [*_of_one_scale(heats), chart], across)


def _of_one_scale(panels: Sequence[HeatmapPanel]) -> list[HeatmapPanel]:
    """Colours for all that cosines can be; those of the data where none is negative, or few of them would be used."""
    known = np.concatenate([panel.values[np.isfinite(panel.values)] for panel in panels])
    low = float(known.min()) if known.size else -1.0
    return [replace(panel, limits=(low, 1.0) if 0 <= low < 1 else (-1.0, 1.0)) for panel in panels]


def _vectors(subject: Subject) -> list[Table]:
    """The tables whose rows, side by side, stand for positions: one, or RoPE's cosines and sines."""
    tables = subject.matrices
    if subject.applied_as == "rotation":
        return [next(table for table in tables if table.name == name) for name in ("cos", "sin")]
    if len(tables) != 1:
        names = f": {', '.join(table.name for table in tables[:8])}" if tables else ""
        rule = f"{subject.label} has {len(tables)} tables with rows and columns{names}"
        raise ParameterError("kind", "similarity", rule, "name one as FILE:NAME" if tables else "")
    return tables


def directions(tables: Sequence[Table], places: Indices) -> Floats:
    """Rows of tables side by side, each divided by its norm; one of zeros, or one that is not finite, is NaN."""
    rows = np.concatenate([widened(table.pick(places)) for table in tables], axis=1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        rows = rows / np.abs(rows).max(
            axis=1, keepdims=True
        )  # whose squares neither overflow nor vanish
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def by_distance(rows: Floats) -> Floats:
    """The mean of p·q over all positions at each distance; rows of NaN do not count."""
    products = rows @ rows.T
    diagonals = (products.diagonal(distance) for distance in range(len(rows)))
    known = (diagonal[~np.isnan(diagonal)] for diagonal in diagonals)
    return np.array([values.mean() if values.size else np.nan for values in known])


def patch(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """The patch in the middle, compared with every other."""
    panels = []
    for subject in subjects:
        rows = grid_rows(subject)
        patches = directions(subject.matrices, rows.reshape(-1)).reshape(*rows.shape, -1)
        row, column = rows.shape[0] // 2, rows.shape[1] // 2
        title = f"row {row}, column {column}" if len(subjects) == 1 else subject.label
        alike = patches @ patches[row, column]
        panels.append(HeatmapPanel(title, alike, "row", "column", meaning="cosine similarity"))
    title = f"similarity of one patch to all others, {panels[0].shape[0]} × {panels[0].shape[1]}"
    return Picture(title, _of_one_scale(panels), min(2, len(panels)))


def grid_rows(subject: Subject) -> Indices:
    """Which row of the table each point of the first frame has: (H, W)."""
    style = None if subject.scheme is None else subject.scheme.grid_style
    grid: tuple[int, ...] = subject.grid or subject.value_of("grid")
    height, width = grid[-2:]
    if height * width > MAX_MAP_POINTS:
        raise ParameterError(
            "the picture", "too large", f"a map has at most {MAX_MAP_POINTS:,} points"
        )
    rows = [table.rows for table in subject.matrices]
    if style is None and {subject.keep + math.prod(grid)} != {*rows}:
        rule = f"with {subject.keep} kept that is {subject.keep + math.prod(grid):,} rows"
        advice = f"{subject.label} has {listed([*map(str, rows)], 4) or 'none'}"
        raise ParameterError("grid", "x".join(map(str, grid)), rule, advice)
    keep, m = subject.keep, 1
    if style is not None:
        keep, m = 0 if style.keep_last else subject.value_of("keep") or 0, style.merge
    blocks = np.arange(height * width).reshape(height // m, width // m, m, m)
    return keep + blocks.transpose(0, 2, 1, 3).reshape(height, width)
