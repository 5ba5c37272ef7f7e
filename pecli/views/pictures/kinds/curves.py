"""Channels over positions as curves; for attention biases, values over the distance."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats, widened
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.views.pictures.downsample import envelope
from pecli.views.pictures.fitting import is_on_grid
from pecli.views.pictures.kinds.alibi_heads import heads_note, heads_of
from pecli.views.pictures.kinds.frequencies import angular_frequencies, informative_pairs
from pecli.views.pictures.kinds.kind import PictureKind
from pecli.views.pictures.panels import Chart, Curve, Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource, are_biases, values_of
from pecli.views.pictures.titles import count_positions, names_of

MAX_POSITIONS = 1 << 20  #: Positions of a curve; more would look like a band.
MAX_PIECES = 1 << 14  #: Pieces of a curve, more than any picture has columns.
CHOSEN_CURVES = 5  #: Curves of all sources together, if the user names no channels.
MAX_CURVES = 12  #: Curves that have distinct colours; the user cannot name more channels.
MAX_TURNS = 16.0  #: Turns of a curve over the table; more would look like a band.
BIAS_POINTS = 200  #: Points of the straight lines of ALiBi.
DASHES = ("-", "--", ":", "-.")  #: One per table, so that equal curves do not hide each other.


def curves(sources: Sequence[PlotSource], request: PlotRequest) -> Picture:
    """Return one chart; with several sources, the label of a curve names its source."""
    if are_biases(sources):
        return _biases(sources, request)
    if _are_buckets(sources):
        return _bucket_steps(sources)
    return _chosen_channels(sources, request)


def _has_columns(source: PlotSource) -> bool:
    """Return False for the buckets of T5, which have one value per distance, and True otherwise."""
    return not _are_buckets([source])


CURVES = PictureKind(
    "curves",
    "channels over positions; of ALiBi and T5, biases and buckets by distance",
    curves,
    takes_channels=_has_columns,
)


def _biases(sources: Sequence[PlotSource], request: PlotRequest) -> Picture:
    """Return ALiBi's biases −m·d of some heads, with slope m, as straight lines over the distance d."""
    lines = []
    for head in heads_of(sources, request):
        distances = np.linspace(0, head.keys - 1, BIAS_POINTS)
        lines.append(Curve(head.label, distances, -head.slope * distances))
    chart = Chart("", lines, x="distance", y="bias", ordered=len(sources) == 1)
    return Picture("bias by distance", [chart], subtitle=heads_note(sources, request))


def _are_buckets(sources: Sequence[PlotSource]) -> bool:
    return values_of(sources) == {"bucket"}


def _bucket_steps(sources: Sequence[PlotSource]) -> Picture:
    """Return the buckets of T5 or DeBERTa by distance, as steps."""
    steps = []
    for source, name in zip(sources, names_of(sources), strict=True):
        if is_on_grid(source.scheme):
            rule = "distances on a grid have two axes"
            raise ParameterError("kind", "curves", rule, "take heatmap")
        (table,) = source.matrices
        steps.append(_steps_of_buckets(table, name))
    chart = Chart("", steps, x="distance, key − query", y="bucket")
    return Picture("bucket by distance", [chart])


def _steps_of_buckets(table: Table, name: str) -> Curve:
    """Return the bucket of each distance, key − query, as a curve that only rises halfway between.

    A table of 3 queries and 3 keys has the distances −2 to 2. Distance 1 is drawn as a horizontal
    line from 0.5 to 1.5.
    """
    # The last query sees all keys before it, the first one all keys from its own on.
    negative = table.read(table.rows - 1, table.rows)[0, :-1]
    positive = table.read(0, 1)[0]
    buckets = np.concatenate([negative, positive])
    distances = np.arange(1.0 - table.rows, table.rows)
    left_and_right_ends = np.stack([distances - 0.5, distances + 0.5], axis=1)
    return Curve(name, left_and_right_ends.ravel(), np.repeat(widened(buckets), 2))


class _DrawnTable(NamedTuple):
    """A table whose columns become curves."""

    source: PlotSource
    table: Table
    has_pairs: bool  #: True if its columns are pairs of channels, as RoPE's cosines are.
    prefix: str  #: The beginning of its labels.

    @property
    def noun(self) -> str:
        """The name of a column: «pair» or «channel»."""
        return "pair" if self.has_pairs else "channel"


def _chosen_channels(sources: Sequence[PlotSource], request: PlotRequest) -> Picture:
    """Return one chart with some columns of every table as curves over positions.

    The curves of a table share a dash (solid, dashed, …), so that the same column of two tables can
    be seen although they coincide. Of rotary tables, only cosines are drawn.
    """
    tables: list[_DrawnTable] = []
    for source in sources:
        tables += _drawn_tables(source, is_one_of_several=len(sources) > 1)
    most_per_table = max(1, CHOSEN_CURVES // len(sources))
    curves: list[Curve] = []
    lengths = []
    for number, drawn in enumerate(tables):
        columns = _columns_to_draw(drawn, request, most_per_table)
        values = _first_rows(drawn.table, columns)  # (positions, columns)
        lengths.append(len(values))
        dash = DASHES[number % len(DASHES)]
        curves += _column_curves(drawn, columns, values, dash)
    _check_curves(curves, request)
    has_pairs = all(drawn.has_pairs for drawn in tables)
    chart = _chart_of_columns(curves, has_pairs=has_pairs)
    return Picture(_title_of_columns(lengths, has_pairs=has_pairs), [chart])


def _chart_of_columns(curves: Sequence[Curve], *, has_pairs: bool) -> Chart:
    """Return a chart of the first curves; many files can have more than there are colours."""
    # A single curve has no legend, so that its name is the title of the chart.
    title = curves[0].label if len(curves) == 1 else ""
    return Chart(title, curves[:MAX_CURVES], y="cosine" if has_pairs else "value")


def _title_of_columns(lengths: Sequence[int], *, has_pairs: bool) -> str:
    """Return «chosen pairs over 512 positions»; long tables are drawn from their first positions."""
    nouns = "pairs" if has_pairs else "channels"
    start = "the first " if MAX_POSITIONS in lengths else ""
    return f"chosen {nouns} over {start}{count_positions(lengths)}"


def _drawn_tables(source: PlotSource, *, is_one_of_several: bool) -> list[_DrawnTable]:
    """Return the tables of a source that are drawn, with the beginning of their curves' labels.

    Beside other sources, the curves of `a.npy` are «a.npy, channel 3», and so on.

    Args:
        source: The source. Of its cosines and sines, only the cosines are drawn: sines would look
            like them.
        is_one_of_several: True if the picture has other sources, so that labels name this one.
            Otherwise labels name the tables of a file that has several.
    """
    tables = source.matrices
    if source.applied_as == "rotation":
        tables = [table for table in tables if not table.name.endswith("sin")]
    drawn = []
    for table in tables:
        prefix = ""
        if is_one_of_several:
            prefix = f"{source.label}, "
        elif source.kind == "file" and len(tables) > 1:
            prefix = f"{table.name} "
        has_pairs = source.axes_of(table).names[-1] == "pair"
        drawn.append(_DrawnTable(source, table, has_pairs, prefix))
    return drawn


def _columns_to_draw(drawn_table: _DrawnTable, request: PlotRequest, max_columns: int) -> list[int]:
    """Return the columns of a table that become curves.

    They are those that the user requests. By default, they belong to pairs of channels that are
    seen to oscillate; of a table without frequencies, they are evenly spaced.

    Args:
        drawn_table: The table.
        request: The user's request, with column numbers or without.
        max_columns: The most columns, unless some were requested.
    """
    source = drawn_table.source
    table = drawn_table.table
    if request.channels:
        return request.choose(table.width, max_columns, f"{drawn_table.noun}s")
    has_frequencies = "wavelengths" in source.picture_kinds
    if not has_frequencies:
        return _inner_columns(table.width, max_columns)
    frequencies = angular_frequencies(source)
    # Slow pairs would be flat lines, and fast ones bands: those between them are drawn.
    pairs = informative_pairs(frequencies, table.rows, max_columns, MAX_TURNS)
    # The first column of pair 3 is column 3, or 6 if a pair's sine and cosine are neighbours.
    columns_per_pair = source.axes_of(table).step
    return [columns_per_pair * pair for pair in pairs]


def _inner_columns(width: int, max_columns: int) -> list[int]:
    """Return columns that are evenly spaced, without the first and the last; all if they are few.

    >>> _inner_columns(64, 3), _inner_columns(2, 3)
    ([16, 32, 48], [0, 1])
    """
    if width <= max_columns:
        return list(range(width))
    intervals = max_columns + 1
    return [number * width // intervals for number in range(1, intervals)]


def _first_rows(table: Table, columns: Sequence[int]) -> Floats:
    """Return these columns of the first `MAX_POSITIONS` rows."""
    shortened = replace(table, shape=(min(table.rows, MAX_POSITIONS), table.width))
    blocks = [widened(block[:, columns]) for block in shortened.blocks()]
    return np.concatenate(blocks)


def _column_curves(
    drawn: _DrawnTable, columns: Sequence[int], values: Floats, dash: str
) -> list[Curve]:
    """Return a curve per column; `values` are the rows of only these columns."""
    positions = drawn.source.first + np.arange(len(values), dtype=np.float64)
    lines = []
    for column, column_values in zip(columns, values.T, strict=True):
        x, y = envelope(positions, column_values, MAX_PIECES)
        lines.append(Curve(f"{drawn.prefix}{drawn.noun} {column}", x, y, dash=dash))
    return lines


def _check_curves(lines: Sequence[Curve], request: PlotRequest) -> None:
    """Raise ParameterError if there are no curves, or too many of them were requested."""
    if not lines:
        raise ParameterError("kind", "curves", "there is no table with rows and columns")
    if request.channels and len(lines) > MAX_CURVES:
        rule = f"a picture has room for {MAX_CURVES}"
        raise ParameterError("channels", f"{len(lines)} lines", rule, "name fewer")
