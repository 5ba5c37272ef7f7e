"""The values of tables as colours."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats, Indices, widened
from pecli.engine.schemes.scheme import Axes
from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError
from pecli.views.pictures.downsample import Reduction, reduced
from pecli.views.pictures.kinds.grids import frame_note, grid_rows
from pecli.views.pictures.kinds.kind import PictureKind, check_panels
from pecli.views.pictures.panels import HeatmapPanel, Picture, on_one_scale
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource, are_biases
from pecli.views.pictures.titles import count_positions, names_of

MAX_MAPS = 8  #: Channels of tables on a grid that are drawn, each as a map.
VARIED_SHARE = 0.25  #: The variance of such channels, as a share of the largest.
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
    chosen_from: str = ""  #: «32 heads» if only some of them are drawn, and nobody chose them.


def heatmap(sources: Sequence[PlotSource], request: PlotRequest) -> Picture:
    """Return a picture of tables as colours: one panel per matrix, all with the same colour scale.

    A tensor of several axes is several matrices, such as the heads of a bias; if there are many,
    some are chosen, which the caption states.
    """
    matrices: list[_Matrix] = []
    panels: list[HeatmapPanel] = []
    for source, name in zip(sources, names_of(sources), strict=True):
        for matrix in _matrices(source, request, len(sources)):
            check_panels(len(panels) + 1)  # Before its values are read: a file may hold thousands.
            matrices.append(matrix)
            panels.append(_panel_of_matrix(matrix, source, name, request))
    if not panels:
        raise _no_matrix(sources)
    if are_biases(sources):
        # Biases of ALiBi fall by powers of two from head to head, so their colours are logarithmic.
        panels = list(map(_as_magnitudes, panels))
    title = _picture_title(panels, [matrix.value for matrix in matrices])
    return Picture(title, on_one_scale(panels), _panels_across(panels), _choice_note(matrices))


def _panels_across(panels: Sequence[HeatmapPanel]) -> int:
    """Return the number of panels per row, so that rows are filled: 4 are two rows of 2."""
    return PANELS_ACROSS.get(len(panels), min(MAX_ACROSS, len(panels)))


def _choice_note(matrices: Sequence[_Matrix]) -> str:
    """Return «Some of 32 heads» if not all matrices are drawn, and nobody chose them."""
    chosen_from = dict.fromkeys(matrix.chosen_from for matrix in matrices)
    chosen_from.pop("", None)
    if chosen_from:
        return f"Some of {', '.join(chosen_from)}"
    return ""


def _has_several_panels(source: PlotSource) -> bool:
    """Return True if a source is drawn as several heatmaps, which `--channels` can choose from.

    They are channels on a grid, or the heads of a bias (heads, queries, keys). A table of rows and
    columns is a single heatmap that shows all of its channels.
    """
    if "patch" in source.picture_kinds:
        return True
    return any(len(table.shape) > 2 and table.shape[-2] > 1 for table in source.tables)


HEATMAP = PictureKind(
    "heatmap", "the values, by position and channel", heatmap, takes_channels=_has_several_panels
)


def _no_matrix(sources: Sequence[PlotSource]) -> ParameterError:
    """Return the error for sources that are vectors."""
    names = ", ".join(source.label for source in sources)
    # Without a length, ALiBi is a vector of slopes.
    advice = "give it a --seq-len" if sources[0].applied_as == "bias" else ""
    rule = f"{names} has no table with rows and columns"
    return ParameterError("kind", "heatmap", rule, advice)


def _panel_of_matrix(
    matrix: _Matrix, source: PlotSource, source_name: str, request: PlotRequest
) -> HeatmapPanel:
    """Return a matrix as a panel, reduced to the rows and columns that there is room for.

    Args:
        matrix: The matrix.
        source: The source that it belongs to.
        source_name: The beginning of the title, if there are several sources.
        request: The room.
    """
    reduction = Reduction.MEAN
    if (matrix.rows, matrix.columns) == ("query", "key"):
        reduction = Reduction.SAMPLE  # A mean would blur the diagonal.
    table = matrix.table
    return HeatmapPanel(
        title=", ".join(filter(None, [source_name, matrix.title])),
        values=reduced(table, request.rows, request.columns, reduction),
        rows=matrix.rows,
        columns=matrix.columns,
        first_row=source.first if matrix.rows == "position" else 0,
        table_shape=(table.rows, table.width),
        reduction=reduction,
    )


def _as_magnitudes(panel: HeatmapPanel) -> HeatmapPanel:
    """Return a panel of ALiBi's biases with their magnitudes on a logarithmic scale."""
    quantity = "|bias|"
    meaning = f"{quantity}, logarithmic, none: blank"
    magnitudes = np.abs(panel.values)
    return replace(panel, values=magnitudes, meaning=meaning, quantity=quantity, log=True)


def _picture_title(panels: Sequence[HeatmapPanel], elements: Sequence[str]) -> str:
    """Return the title, such as «cosine and sine over 512 positions, by pair».

    Args:
        panels: The heatmaps, whose axes have the names of the first one's.
        elements: The name of an element of each, such as «cosine»; a title names at most two.
    """
    distinct = list(dict.fromkeys(elements))
    can_be_named = len(distinct) <= 2 and "value" not in distinct
    subject = " and ".join(distinct) if can_be_named else "value"
    first = panels[0]
    if first.rows != "position":
        return f"{subject} by {first.rows} and {first.columns}"
    extent = count_positions(panel.shape[0] for panel in panels)
    return f"{subject} over {extent}, by {first.columns}"


def _matrices(source: PlotSource, request: PlotRequest, source_count: int) -> Iterator[_Matrix]:
    """Yield the matrices of a source: of tables on a grid its channels as maps, else its tables.

    A single table needs no title, except RoPE's: a file may hold the cosines without the sines.
    """
    if "patch" in source.picture_kinds:
        yield from _maps_of_channels(source, request, source_count)
        return
    tables = [table for table in source.tables if len(table.shape) > 1 and table.size]
    is_named = len(tables) > 1 or source.applied_as == "rotation"
    for table in tables:
        title = table.name if is_named else ""
        yield from _matrices_of(table, source, title, request)


def _maps_of_channels(
    source: PlotSource, request: PlotRequest, source_count: int
) -> Iterator[_Matrix]:
    """Yield a map of the image per channel, for tables whose rows are the patches of an image.

    A channel has one value per patch, which is drawn at the patch's row and column. The requested
    channels are drawn, or a few of those that vary most over the image.
    """
    patch_rows = grid_rows(source)  # (rows, columns) of the image: the table's row of each patch
    tables = source.matrices
    most_per_table = max(1, MAX_MAPS // len(tables) // source_count)
    for table in tables:
        yield from _maps_of_table(table, source, patch_rows, request, most_per_table)


def _maps_of_table(
    table: Table, source: PlotSource, patch_rows: Indices, request: PlotRequest, max_maps: int
) -> Iterator[_Matrix]:
    """Yield an image per chosen column of a table, whose pixels are the patches of an image.

    Args:
        table: The table, with a row per patch and a column per channel, or per pair of channels.
        source: The scheme or the file that the table belongs to.
        patch_rows: The row of the table for each patch, (rows, columns) of the image.
        request: The columns that the user chose, if any.
        max_maps: The most columns if the user chose none.
    """
    axes = source.axes_of(table)
    column_noun = axes.names[-1]  # «channel» or «pair»
    choice = _chosen_columns(table, patch_rows, column_noun, request, max_maps)
    images = _images_of_columns(table, patch_rows, choice.columns)  # (rows, columns, channels)
    # A title such as «cos, pair 3, frame 0 of 8» names the table if there are several.
    table_name = table.name if len(source.matrices) > 1 else ""
    note_on_frame = frame_note(source)  # empty unless the rows are patches of a video
    for index, column in enumerate(choice.columns):
        title_words = [table_name, f"{column_noun} {column}", note_on_frame]
        yield _Matrix(
            table=table_of(table.name, images[:, :, index]),
            title=", ".join(filter(None, title_words)),
            rows="row",  # of the image
            columns="column",
            value=axes.value,  # «cosine», for example
            chosen_from=choice.chosen_from,
        )


class _ColumnChoice(NamedTuple):
    """Columns of a table that are drawn."""

    columns: list[int]
    chosen_from: str = ""  #: See `_Matrix.chosen_from`.


def _chosen_columns(
    table: Table, points: Indices, noun: str, request: PlotRequest, max_columns: int
) -> _ColumnChoice:
    """Return the requested columns, or at most `max_columns` of those that vary."""
    if request.channels is not None:
        return _ColumnChoice(request.choose(table.width, max_columns, f"{noun}s"))
    columns = _varied_columns(table, points, max_columns)
    if len(columns) == table.width:
        return _ColumnChoice(columns)
    return _ColumnChoice(columns, f"{table.width} {noun}s, by their variance")


def _varied_columns(table: Table, points: Indices, max_columns: int) -> list[int]:
    """Return at most `max_columns` columns that vary over the grid, evenly spaced among those that do.

    The slow half of a table's channels is nearly constant over an image of 14 × 14 patches. A
    column varies if its variance is at least a quarter of the largest.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        variances = np.nan_to_num(_variances_over_grid(table, points))
    varied = np.flatnonzero(variances >= VARIED_SHARE * variances.max())
    chosen = PlotRequest().choose(len(varied), max_columns)
    return [int(varied[index]) for index in chosen]


def _variances_over_grid(table: Table, points: Indices) -> Floats:
    """Return the variance of each column over the points (H, W) of a grid.

    One line of points is read at a time, because all of them in float64 may be gigabytes. Lines
    have the same length, so that the variance over all points is the mean of the variances within
    lines plus the variance of their means.
    """
    means = []
    variances = []
    for line in points:
        values = widened(table.pick(line))
        means.append(values.mean(axis=0))
        variances.append(values.var(axis=0))
    return np.asarray(np.mean(variances, axis=0) + np.var(means, axis=0))


def _images_of_columns(table: Table, points: Indices, columns: list[int]) -> Floats:
    """Return some columns of a table at the points (H, W) of a grid: (H, W, columns)."""
    return widened(np.stack([table.pick(line)[:, columns] for line in points]))


def _matrices_of(
    table: Table, source: PlotSource, title: str, request: PlotRequest
) -> Iterator[_Matrix]:
    """Yield the matrices of a tensor.

    A tensor (512, 64) is one matrix, with the given title. A bias (8, 1, 512), the same for all
    queries, is one matrix of heads and keys. A bias (32, 512, 512) is 32 matrices, of which the
    requested heads, or a few evenly spaced ones, are yielded: «head 0», «head 4», ….
    """
    axes = source.axes_of(table)
    row_name, column_name = axes.names[-2:]
    is_same_for_all_queries = table.shape[-2] == 1
    if len(table.shape) == 2:
        yield _Matrix(table, title, row_name, column_name, axes.value)
    elif is_same_for_all_queries:
        heads_by_keys = replace(table, shape=(table.rows, table.width))
        yield _Matrix(heads_by_keys, title, "head", column_name, axes.value)
    else:
        yield from _matrices_of_stack(table, axes, request)


def _matrices_of_stack(table: Table, axes: Axes, request: PlotRequest) -> Iterator[_Matrix]:
    """Yield the requested matrices of a tensor of more than two axes, or a few evenly spaced ones.

    A bias (32, 512, 512) is a stack of 32 matrices, one per head. If the user chose none and there
    are too many to show, the picture says that the ones shown are chosen from «32 heads».
    """
    stack_name = axes.names[0]  # «head» for a bias; empty for an axis of a file
    row_name, column_name = axes.names[-2:]
    matrix_count = math.prod(table.shape[:-2])
    chosen_from = ""
    user_chose_none = request.channels is None
    if user_chose_none and matrix_count > MAX_HEADS:
        nouns = f"{stack_name}s" if stack_name else "matrices"
        chosen_from = f"{matrix_count:,} {nouns}"
    for number in request.choose(matrix_count, MAX_HEADS, "heads"):
        title = _title_in_stack(table, stack_name, number)
        matrix = slab(table, number)
        yield _Matrix(matrix, title, row_name, column_name, axes.value, chosen_from)


def _title_in_stack(table: Table, stack_name: str, number: int) -> str:
    """Return «head 4»; a matrix of an axis without a name has its index, as in NumPy: «x[1, 0]»."""
    if stack_name:
        return f"{stack_name} {number}"
    index = ", ".join(map(str, np.unravel_index(number, table.shape[:-2])))
    return f"{table.name}[{index}]"


def slab(table: Table, index: int) -> Table:
    """Return one matrix of a tensor by its number, counted over all leading axes.

    Of a tensor (2, 3, L, D), matrix 4 is [1, 1]. It is a view: its rows are computed when needed.
    """
    height = table.shape[-2]
    first = index * height
    return replace(
        table, shape=table.shape[-2:], fill=lambda start, out: table.fill(first + start, out)
    )
