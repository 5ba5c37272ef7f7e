"""The cosine similarity of rows: of all positions with each other, or of one patch with all."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pecli.engine.arrays import Floats, Indices, widened
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.views.pictures.downsample import Reduction, stride
from pecli.views.pictures.kinds.grids import frame_note, grid_rows
from pecli.views.pictures.kinds.kind import PictureKind, check_panels
from pecli.views.pictures.panels import Chart, Curve, HeatmapPanel, Panel, Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource
from pecli.views.pictures.titles import count_positions, names_of

MAX_SAMPLES = 512  #: Positions of a similarity matrix.
MAX_DISTANCES = 2048  #: Positions whose distances are averaged.
MAX_ELEMENTS = 1 << 24  #: Elements of the rows whose distances are averaged.


def similarity(sources: Sequence[PlotSource], request: PlotRequest) -> Picture:
    """Return the cosine similarity of the rows of each table, as a matrix of positions.

    A chart beside the matrices has the mean similarity of rows at each distance: of a good encoding
    it falls with the distance. Long tables are averaged over their first rows only.
    """
    check_panels(len(sources))
    matrices = []
    curves = []
    truncated_lengths = []  # The lengths of curves that do not average all rows.
    for source, name in zip(sources, names_of(sources), strict=True):
        tables = _tables_of_rows(source)
        matrices.append(_similarity_panel(source, name, tables, request))
        curve = _mean_curve(tables, name)
        curves.append(curve)
        if len(curve.x) < tables[0].rows:
            truncated_lengths.append(len(curve.x))
    chart_title = "mean by distance"
    longest_truncated = max(truncated_lengths, default=0)
    if longest_truncated > 0:
        chart_title += f", of the first {longest_truncated:,} positions"
    chart = Chart(chart_title, curves, x="distance", y="cosine similarity")
    panels: list[Panel] = [*_on_cosine_scale(matrices), chart]
    extent = count_positions(matrix.shape[0] for matrix in matrices)
    return Picture(f"cosine similarity of {extent}", panels, _panels_across(len(matrices)))


def _panels_across(matrix_count: int) -> int:
    """Return the panels per row: two if that fills the rows of matrices, else at most three."""
    if matrix_count in (1, 2, 4):
        return 2
    return min(3, matrix_count)


def _mean_curve(tables: Sequence[Table], name: str) -> Curve:
    """Return the mean similarity at each distance, of as many of the first rows as there is time for."""
    width = sum(table.width for table in tables)
    count = min(tables[0].rows, MAX_DISTANCES, MAX_ELEMENTS // width)
    means = by_distance(directions(tables, np.arange(count)))
    return Curve(name, np.arange(count, dtype=np.float64), means)


SIMILARITY = PictureKind(
    "similarity", "cosine similarity of all positions with each other", similarity
)


def _similarity_panel(
    source: PlotSource, name: str, tables: Sequence[Table], request: PlotRequest
) -> HeatmapPanel:
    """Return the matrix of similarities of a table's rows, of every n-th row if there is less room.

    Rows are scaled to length 1, so that the product of two rows is the cosine of their angle.
    """
    row_count = tables[0].rows
    step = stride(row_count, min(request.rows, MAX_SAMPLES))
    unit_rows = directions(tables, np.arange(0, row_count, step))  # (positions, channels)
    return HeatmapPanel(
        title=name or "pairs of positions",
        values=unit_rows @ unit_rows.T,
        rows="position",
        columns="position",
        first_row=source.first,
        table_shape=(row_count, row_count),
        reduction=Reduction.SAMPLE,
    )


def _on_cosine_scale(panels: Sequence[HeatmapPanel]) -> list[HeatmapPanel]:
    """Return panels with colours from −1 to 1, or from the data's minimum if none is negative."""
    values = np.concatenate([panel.values.ravel() for panel in panels])
    finite = values[np.isfinite(values)]
    low = -1.0
    if finite.size and 0 <= finite.min() < 1:
        low = float(finite.min())
    limits = (low, 1.0)
    return [replace(panel, limits=limits) for panel in panels]


def _tables_of_rows(source: PlotSource) -> list[Table]:
    """Return the tables whose rows, side by side, stand for positions.

    They are RoPE's cosines and sines, or the only table of another source. Of several tables it is
    not known which belong together, so that they are an error.
    """
    tables = source.matrices
    if source.applied_as == "rotation":
        by_name = {table.name: table for table in tables}
        return [by_name["cos"], by_name["sin"]]
    if len(tables) == 1:
        return tables
    rule = f"{source.label} has {len(tables)} tables with rows and columns"
    if not tables:
        raise ParameterError("kind", "similarity", rule)
    names = ", ".join(table.name for table in tables[:8])
    raise ParameterError("kind", "similarity", f"{rule}: {names}", "name one as FILE:NAME")


def directions(tables: Sequence[Table], places: Indices) -> Floats:
    """Return rows of tables side by side, each divided by its norm: [3, 4] becomes [0.6, 0.8].

    A row of zeros, or one that is not finite, becomes NaN.
    """
    rows = np.concatenate([widened(table.pick(places)) for table in tables], axis=1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # The largest element of each row becomes 1, so that no square overflows or vanishes.
        rows = rows / np.abs(rows).max(axis=1, keepdims=True)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def by_distance(rows: Floats) -> Floats:
    """Return the mean of the scalar products of rows at each distance; NaN is left out.

    Of three rows, the distance 1 has the mean of row 0 · row 1 and row 1 · row 2.
    """
    products = rows @ rows.T
    means = np.full(len(rows), np.nan)
    for distance in range(len(rows)):
        diagonal = products.diagonal(distance)
        valid = diagonal[~np.isnan(diagonal)]
        if valid.size:
            means[distance] = valid.mean()
    return means


def patch(sources: Sequence[PlotSource], request: PlotRequest) -> Picture:
    """Return a map per table over the patches of an image: how similar each is to the middle one.

    An encoding that knows rows and columns shows a peak around the middle.
    """
    panels = [_patch_panel(source, is_alone=len(sources) == 1) for source in sources]
    height, width = panels[0].shape
    title = f"similarity of one patch to all others, {height} × {width}"
    return Picture(title, _on_cosine_scale(panels), across=min(2, len(panels)))


def _patch_panel(source: PlotSource, *, is_alone: bool) -> HeatmapPanel:
    """Return a map of an image: how similar the encoding of each patch is to the middle one's.

    Args:
        source: Tables on a grid.
        is_alone: True if the picture has no other map; otherwise the title is the source's name.
    """
    table_rows = grid_rows(source)  # (rows, columns) of the image: the table's row of each patch
    height, width = table_rows.shape
    row = height // 2
    column = width // 2
    middle_patch = table_rows[row, column]
    # `directions` returns vectors of the norm 1, so that their products are the cosines of angles.
    (middle_vector,) = directions(source.matrices, np.array([middle_patch]))
    # Patches are taken by rows of the image: all of them, as float64, would be several times the
    # table.
    similarities = [directions(source.matrices, patches) @ middle_vector for patches in table_rows]
    title = f"row {row}, column {column}" if is_alone else source.label
    return HeatmapPanel(
        title=", ".join(filter(None, [title, frame_note(source)])),
        values=np.array(similarities),
        rows="row",
        columns="column",
        meaning="cosine similarity",
    )


PATCH = PictureKind("patch", "the similarity of one patch of a grid to all others", patch)
