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
from pecli.views.pictures.subjects import PlotRequest, Subject, are_biases
from pecli.views.pictures.titles import count_positions, names_of

MAX_POSITIONS = 1 << 20  #: Positions of a curve; more would look like a band.
MAX_PIECES = 1 << 14  #: Pieces of a curve, more than any picture has columns.
CHOSEN_CURVES = 5  #: Curves that are chosen if the user names no channels.
MAX_CURVES = 12  #: Curves that have distinct colours.
MAX_TURNS = 16.0  #: Turns of a curve over the table; more would look like a band.
BIAS_POINTS = 200  #: Points of the straight lines of ALiBi.
DASHES = ("-", "--", ":", "-.")  #: One per table, so that equal curves do not hide each other.


def curves(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """Return one chart; with several subjects, the label of a curve names its subject."""
    if are_biases(subjects):
        return _biases(subjects, request)
    if _are_buckets(subjects):
        return _buckets(subjects)
    return _channels(subjects, request)


CURVES = PictureKind(
    "curves",
    "channels over positions; of ALiBi and T5, biases and buckets by distance",
    curves,
    takes_channels=True,
)


def _biases(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """Return ALiBi's biases −m·d of some heads, with slope m, as straight lines over the distance d."""
    lines = []
    for head in heads_of(subjects, request):
        distances = np.linspace(0, head.keys - 1, BIAS_POINTS)
        lines.append(Curve(head.label, distances, -head.slope * distances))
    chart = Chart("", lines, x="distance", y="bias", ordered=len(subjects) == 1)
    return Picture("bias by distance", [chart], subtitle=heads_note(subjects, request))


def _are_buckets(subjects: Sequence[Subject]) -> bool:
    values = set()
    for subject in subjects:
        values |= subject.values
    return values == {"bucket"}


def _buckets(subjects: Sequence[Subject]) -> Picture:
    """Return the buckets of T5 or DeBERTa by distance, as steps."""
    steps = []
    for subject, name in zip(subjects, names_of(subjects), strict=True):
        if is_on_grid(subject.scheme):
            rule = "distances on a grid have two axes"
            raise ParameterError("kind", "curves", rule, "take heatmap")
        (table,) = subject.matrices
        # The last query sees all keys before it, the first one all keys from its own on.
        negative = table.read(table.rows - 1, table.rows)[0, :-1]
        positive = table.read(0, 1)[0]
        buckets = np.concatenate([negative, positive])
        distances = np.arange(1.0 - table.rows, table.rows)
        # The bucket changes halfway between two distances.
        edges = np.ravel(distances[:, None] + (-0.5, 0.5))
        steps.append(Curve(name, edges, np.repeat(widened(buckets), 2)))
    chart = Chart("", steps, x="distance, key − query", y="bucket")
    return Picture("bucket by distance", [chart])


class _DrawnTable(NamedTuple):
    """A table whose columns become curves."""

    subject: Subject
    table: Table
    word: str  #: The name of its columns: pair or channel.
    prefix: str  #: The beginning of its labels.


def _channels(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """Return some columns of all tables over positions, each table with a dash of its own."""
    drawn = [table for subject in subjects for table in _drawn_tables(subject, len(subjects))]
    most = max(1, CHOSEN_CURVES // len(subjects))
    lines: list[Curve] = []
    lengths = []
    for k, table in enumerate(drawn):
        columns = _columns(table, request, most)
        values = _first_rows(table.table, columns)
        lengths.append(len(values))
        lines += _column_curves(table, columns, values, DASHES[k % len(DASHES)])
    _check_curves(lines, request)
    words = {table.word for table in drawn}
    is_rotary = words == {"pair"}
    things = "pairs" if is_rotary else "channels"
    start = "the first " if MAX_POSITIONS in lengths else ""
    title = f"chosen {things} over {start}{count_positions(lengths)}"
    # A single curve has no legend, so that its name is the title of the chart.
    chart_title = lines[0].label if len(lines) == 1 else ""
    chart = Chart(chart_title, lines[:MAX_CURVES], y="cosine" if is_rotary else "value")
    return Picture(title, [chart])


def _drawn_tables(subject: Subject, subject_count: int) -> list[_DrawnTable]:
    """Return the tables of a subject that are drawn, with the beginning of their curves' labels.

    The label names what differs: the subject if there are several, or the table of a file.
    """
    tables = subject.matrices
    if subject.applied_as == "rotation":
        # The sines would look like the cosines.
        tables = [table for table in tables if not table.name.endswith("sin")]
    drawn = []
    for table in tables:
        prefix = ""
        if subject_count > 1:
            prefix = f"{subject.label}, "
        elif subject.kind == "file" and len(tables) > 1:
            prefix = f"{table.name} "
        is_pair = subject.axes_of(table).names[-1] == "pair"
        drawn.append(_DrawnTable(subject, table, "pair" if is_pair else "channel", prefix))
    return drawn


def _columns(drawn: _DrawnTable, request: PlotRequest, most: int) -> list[int]:
    """Return the requested columns, or some whose curves are neither bands nor flat lines."""
    subject, table = drawn.subject, drawn.table
    if request.channels:
        return request.choose(table.width, most, f"{drawn.word}s")
    if "wavelengths" in subject.picture_kinds:
        pairs = informative_pairs(angular_frequencies(subject), table.rows, most, MAX_TURNS)
        step = subject.axes_of(table).step
        return [step * pair for pair in pairs]
    if table.width > most:
        # Evenly spaced, without the first and the last column: 3 of 64 are 16, 32 and 48.
        return [(k + 1) * table.width // (most + 1) for k in range(most)]
    return list(range(table.width))


def _first_rows(table: Table, columns: Sequence[int]) -> Floats:
    """Return these columns of the first `MAX_POSITIONS` rows."""
    shortened = replace(table, shape=(min(table.rows, MAX_POSITIONS), table.width))
    blocks = [widened(block[:, columns]) for block in shortened.blocks()]
    return np.concatenate(blocks)


def _column_curves(
    drawn: _DrawnTable, columns: Sequence[int], values: Floats, dash: str
) -> list[Curve]:
    """Return a curve per column; `values` are the rows of only these columns."""
    positions = drawn.subject.first + np.arange(len(values), dtype=np.float64)
    lines = []
    for k, column in enumerate(columns):
        x, y = envelope(positions, values[:, k], MAX_PIECES)
        lines.append(Curve(f"{drawn.prefix}{drawn.word} {column}", x, y, dash=dash))
    return lines


def _check_curves(lines: Sequence[Curve], request: PlotRequest) -> None:
    """Raise ParameterError if there are no curves, or too many of them were requested."""
    if not lines:
        raise ParameterError("kind", "curves", "there is no table with rows and columns")
    if request.channels and len(lines) > MAX_CURVES:
        rule = f"a picture has room for {MAX_CURVES}"
        raise ParameterError("channels", f"{len(lines)} lines", rule, "name fewer")
