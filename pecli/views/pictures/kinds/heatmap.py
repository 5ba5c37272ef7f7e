"""The values of tables as colours."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import widened
from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError
from pecli.views.pictures.downsample import Reduction, reduced
from pecli.views.pictures.kinds.grids import frame_note, grid_rows
from pecli.views.pictures.kinds.kind import PictureKind, check_panels
from pecli.views.pictures.panels import HeatmapPanel, Picture, on_one_scale
from pecli.views.pictures.subjects import PlotRequest, Subject, are_biases
from pecli.views.pictures.titles import count_positions, names_of

MAX_MAPS = 8  #: Channels of tables on a grid that are drawn, each as a map.
MAX_HEADS = 8  #: Matrices of one tensor that are drawn, such as the heads of a bias.
PANELS_ACROSS = {4: 2, 5: 3, 6: 3, 9: 3}  #: By the number of panels; otherwise as many as fit.
MAX_ACROSS = 4


class _Matrix(NamedTuple):
    """A matrix that becomes a panel."""

    table: Table
    title: str
    rows: str  #: The name of its rows: position, head, query, row.
    columns: str
    value: str  #: The name of its elements: cosine, sine, bias, value.


def heatmap(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """Return one panel per matrix, all with the same colours."""
    # Biases of ALiBi fall by powers of two from head to head, so their colours are logarithmic.
    is_bias = are_biases(subjects)
    panels: list[HeatmapPanel] = []
    values: list[str] = []
    for subject, name in zip(subjects, names_of(subjects), strict=True):
        for matrix in _matrices(subject, request, len(subjects)):
            check_panels(len(panels) + 1)
            first_row = subject.first if matrix.rows == "position" else 0
            panels.append(_panel(matrix, name, first_row, request, is_bias))
            values.append(matrix.value)
    if not panels:
        raise _no_matrix(subjects)
    across = PANELS_ACROSS.get(len(panels), min(MAX_ACROSS, len(panels)))
    return Picture(_title(panels, values), on_one_scale(panels), across)


HEATMAP = PictureKind(
    "heatmap", "the values, by position and channel", heatmap, takes_channels=True
)


def _no_matrix(subjects: Sequence[Subject]) -> ParameterError:
    names = ", ".join(subject.label for subject in subjects)
    # Without a length, ALiBi is a vector of slopes.
    advice = "give it a --seq-len" if subjects[0].applied_as == "bias" else ""
    rule = f"{names} has no table with rows and columns"
    return ParameterError("kind", "heatmap", rule, advice)


def _panel(
    matrix: _Matrix, subject_name: str, first_row: int, request: PlotRequest, is_bias: bool
) -> HeatmapPanel:
    reduction = Reduction.MEAN
    if (matrix.rows, matrix.columns) == ("query", "key"):
        reduction = Reduction.SAMPLE  # A mean would blur the diagonal.
    table = matrix.table
    values = reduced(table, request.rows, request.columns, reduction)
    title = ", ".join(filter(None, [subject_name, matrix.title]))
    panel = HeatmapPanel(
        title,
        values,
        matrix.rows,
        matrix.columns,
        first_row,
        (table.rows, table.width),
        reduction=reduction,
    )
    if is_bias:
        quantity = "|bias|"
        meaning = f"{quantity}, logarithmic, none: blank"
        return replace(panel, values=np.abs(values), meaning=meaning, quantity=quantity, log=True)
    return panel


def _title(panels: Sequence[HeatmapPanel], values: Sequence[str]) -> str:
    """Return the title, such as «cosine and sine over 512 positions, by pair»."""
    distinct = list(dict.fromkeys(values))
    value = "value"
    if len(distinct) < 3 and "value" not in distinct:
        value = " and ".join(distinct)
    first = panels[0]
    if first.rows != "position":
        return f"{value} by {first.rows} and {first.columns}"
    extent = count_positions(panel.shape[0] for panel in panels)
    return f"{value} over {extent}, by {first.columns}"


def _matrices(subject: Subject, request: PlotRequest, subject_count: int) -> Iterator[_Matrix]:
    if "patch" in subject.picture_kinds:
        yield from _maps(subject, request, subject_count)
        return
    tables = [table for table in subject.tables if len(table.shape) > 1 and table.size]
    is_named = len(tables) > 1 or subject.applied_as == "rotation"
    for table in tables:
        yield from _slabs(subject, table, table.name if is_named else "", request)


def _maps(subject: Subject, request: PlotRequest, subject_count: int) -> Iterator[_Matrix]:
    """Yield a map of the grid per channel, for a few channels of each table."""
    points = grid_rows(subject)
    frame = frame_note(subject)
    suffix = f", {frame}" if frame else ""
    tables = subject.matrices
    most = max(1, MAX_MAPS // len(tables) // subject_count)
    for table in tables:
        axes = subject.axes_of(table)
        word = axes.names[-1]
        prefix = f"{table.name}, " if len(tables) > 1 else ""
        values = widened(table.pick(points.reshape(-1)))
        for column in request.choose(table.width, most, f"{word}s"):
            channel = table_of(table.name, values[:, column].reshape(points.shape))
            title = f"{prefix}{word} {column}{suffix}"
            yield _Matrix(channel, title, "row", "column", axes.value)


def _slabs(subject: Subject, table: Table, name: str, request: PlotRequest) -> Iterator[_Matrix]:
    """Yield the matrices of a tensor: itself, or some of those along its leading axes."""
    axes = subject.axes_of(table)
    row_name, column_name = axes.names[-2:]
    height = table.shape[-2]
    if len(table.shape) == 2:
        yield _Matrix(table, name, row_name, column_name, axes.value)
        return
    if height == 1:
        # A bias per head and key, the same for all queries, is one matrix.
        heads_by_keys = replace(table, shape=(table.rows, table.width))
        yield _Matrix(heads_by_keys, name, "head", column_name, axes.value)
        return
    for number in request.choose(table.rows // height, MAX_HEADS, "heads"):
        if axes.names[0]:
            title = f"{axes.names[0]} {number}"
        else:
            index = ", ".join(map(str, np.unravel_index(number, table.shape[:-2])))
            title = f"{table.name}[{index}]"
        yield _Matrix(slab(table, number), title, row_name, column_name, axes.value)


def slab(table: Table, index: int) -> Table:
    """Return one matrix of a tensor; those of all leading axes are counted in order."""
    height = table.shape[-2]
    first = index * height
    return replace(
        table, shape=table.shape[-2:], fill=lambda start, out: table.fill(first + start, out)
    )
