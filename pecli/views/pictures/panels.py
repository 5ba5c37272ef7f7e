"""The contents of a picture, whatever draws it: heatmaps and charts, with the words on their axes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from pecli.engine.arrays import Flags, Floats
from pecli.views.pictures.axis_labels import MAX_VALUE, apart
from pecli.views.pictures.downsample import Reduction

WIDTH_INCHES = 8.0  #: A picture's width unless it compares expected with found values.
COMPARISON_INCHES = 10.0  #: The width of three panels: expected, found, difference.
TEXT_INCHES = 2.0  #: The height of a picture without panels.


class Spread(NamedTuple):
    """The smallest and largest values that a point of a curve stands for."""

    low: Floats
    high: Floats


class Curve(NamedTuple):
    """Points that belong together, from left to right; there is a gap where y is not finite."""

    label: str
    x: Floats
    y: Floats
    reference: bool = False  #: True if it is only drawn for comparison: unscaled wavelengths, say.
    marks: Sequence[tuple[float, float]] = ()  #: Points (x, y) on it that are marked.
    dash: str = ""  #: Its line style in a figure, if the kind of picture chooses one.
    spread: Spread | None = None  #: The range around it, if a point stands for several values.


class Band(NamedTuple):
    """A range of the horizontal axis with a name."""

    label: str
    start: float
    stop: float


class Level(NamedTuple):
    """A value on an axis or a colour bar that is marked with a line and a name."""

    label: str
    value: float


class TablePoint(NamedTuple):
    """An element of a table, or the middle of the cell that stands for it."""

    row: float
    column: float


class ValueScale:
    """A linear scale of colours."""

    limits_without_values = (0.0, 1.0)

    def has_colour(self, values: Floats) -> Flags:
        """Return which values have a colour."""
        return np.isfinite(values)

    def ends(self, low: float, high: float) -> tuple[float, float]:
        """Return the ends of the colours for limits that may be equal, or too large to be drawn."""
        return apart(low, high)

    def shared_limits(self, panel: "HeatmapPanel") -> tuple[float, float]:
        """Return the limits that a panel needs on a scale that it shares.

        A constant panel would be given a scale around its value if it were alone: ones on 0.5 to
        1.5. It must not widen a scale from −1 to 1 in that way, so only its value counts.
        """
        return panel.data_limits


class LogScale(ValueScale):
    """A logarithmic scale of colours, which spans at least a decade; zero is left blank."""

    limits_without_values = (0.1, 1.0)

    def has_colour(self, values: Floats) -> Flags:
        return np.isfinite(values) & (values > 0)

    def ends(self, low: float, high: float) -> tuple[float, float]:
        return min(low, MAX_VALUE / 10, high / 10), min(high, MAX_VALUE)

    def shared_limits(self, panel: "HeatmapPanel") -> tuple[float, float]:
        return panel.ends


LINEAR = ValueScale()
LOGARITHMIC = LogScale()


@dataclass(frozen=True, eq=False)
class HeatmapPanel:
    """A matrix whose values are colours."""

    share: ClassVar[float] = 1.0  #: See `Chart.share`.
    polar: ClassVar[bool] = False  #: See `Chart.polar`.
    continues: ClassVar[bool] = False  #: See `Chart.continues`.

    title: str
    values: Floats
    rows: str = "position"  #: The name of the vertical axis, on which rows are counted.
    columns: str = "channel"
    first_row: int = 0  #: The number of the first row on the axis.
    table_shape: tuple[int, int] | None = None  #: The table's shape, if `values` is a part of it.
    limits: tuple[float, float] | None = None  #: The ends of the colours; None: those of the data.
    meaning: str = ""  #: The label of the colour bar.
    log: bool = False  #: True if colours follow the logarithm; zero is left blank.
    reduction: Reduction = Reduction.MEAN  #: The rule for rows and columns without room.
    marked: Level | None = None  #: In logarithmic colours, a value that a contour marks.
    worst: TablePoint | None = None  #: The element that a figure marks with a ring.
    quantity: str = ""  #: The name of the values in front of a terminal's colour bar: |bias|.

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the table that the panel stands for."""
        if self.table_shape is not None:
            return self.table_shape
        return len(self.values), self.values.shape[1]

    @property
    def scale(self) -> "ValueScale":
        """The scale of the colours."""
        return LOGARITHMIC if self.log else LINEAR

    @property
    def ends(self) -> tuple[float, float]:
        """The values at the ends of the colours."""
        low, high = self.limits or self.data_limits
        return self.scale.ends(low, high)

    @property
    def _coloured(self) -> Floats:
        """The values that have a colour."""
        return self.values[self.scale.has_colour(self.values)]

    @property
    def has_colours(self) -> bool:
        return bool(self._coloured.size)

    @property
    def data_limits(self) -> tuple[float, float]:
        """The smallest and largest value; around zero if there are values on both sides of it."""
        coloured = self._coloured
        if not coloured.size:
            return self.scale.limits_without_values
        low = float(coloured.min())
        high = float(coloured.max())
        if low < 0 < high:
            reach = max(-low, high)
            return -reach, reach
        return low, high

    @property
    def is_centred(self) -> bool:
        """True if the middle of the colours is zero."""
        low, high = self.ends
        return low == -high

    @property
    def is_square(self) -> bool:
        """True if cells are drawn as squares: patches of an image, or two axes of one kind."""
        if self.rows == "row":
            return True
        height, width = self.shape
        has_equal_axes = self.rows in (self.columns, "query")
        return height == width and has_equal_axes

    @property
    def row_axis(self) -> tuple[object, ...]:
        """Everything that decides the numbers and the name of the vertical axis."""
        return self.shape, self.first_row, self.reduction

    @property
    def is_logarithmic(self) -> bool:
        """True if numbers below zero have no place on the scale of its values."""
        return self.log

    def with_ends(self, low: float, high: float) -> "HeatmapPanel":
        """Return the panel with other ends of its colours."""
        return replace(self, limits=(low, high))

    def axis_names(self, rows: int, columns: int) -> tuple[str, str]:
        """Return the names of both axes when the panel is drawn in so many rows and columns.

        A name states what became of rows or columns that had no room: «channel (one in 4)».
        """
        row_name = _with_note(self.rows, self.row_note(rows))
        column_name = _with_note(self.columns, self.column_note(columns))
        return row_name, column_name

    def row_note(self, rows: int) -> str:
        """Return «means of 4» if each of so many drawn rows stands for several, else nothing."""
        return _note(_REDUCTION_NOTES[self.reduction].rows, self.shape[0] / rows)

    def column_note(self, columns: int) -> str:
        """Return «one in 4» if each of so many drawn columns stands for several, else nothing."""
        return _note(_REDUCTION_NOTES[self.reduction].columns, -(-self.shape[1] // columns))


class _ReductionNote(NamedTuple):
    """The words about cells that stand for several rows or columns; `{}` is their number."""

    rows: str
    columns: str


_REDUCTION_NOTES = {
    Reduction.MEAN: _ReductionNote("means of {}", "one in {}"),
    Reduction.SAMPLE: _ReductionNote("one in {}", "one in {}"),
    Reduction.MAX: _ReductionNote("maximum of {} rows", "maximum of {} columns"),
    Reduction.WORST: _ReductionNote("worst of {} rows", "worst of {} columns"),
}


def _note(words: str, count: float) -> str:
    if count < 1.5:
        return ""
    return words.format(f"{count:,.0f}")


def _with_note(name: str, note: str) -> str:
    if not name or not note:
        return name
    return f"{name} ({note})"


def on_one_scale(panels: Sequence[HeatmapPanel]) -> list[HeatmapPanel]:
    """Return the panels with colours that mean the same in all of them.

    Cosines from −1 to 1 and sines from −0.8 to 0.9 both get the limits −1 and 1.
    """
    limits = [panel.scale.shared_limits(panel) for panel in panels if panel.has_colours]
    if not limits:
        return list(panels)
    lows, highs = zip(*limits, strict=True)
    low = min(lows)
    high = max(highs)
    has_both_signs = low < 0 < high
    if has_both_signs:  # Zero is in the middle.
        # Means of sines hardly ever reach 1: three digits keep the labels of the colour bar short.
        high = float(f"{max(-low, high):.3g}")
        low = -high
    return [replace(panel, limits=(low, high)) for panel in panels]


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves over a common axis."""

    is_square: ClassVar[bool] = False  #: See `HeatmapPanel.is_square`.
    row_axis: ClassVar[tuple[object, ...]] = ()  #: Numbers of rows, which a chart does not have.

    title: str
    curves: Sequence[Curve]
    x: str = "position"  #: The name of the horizontal axis.
    y: str = "value"
    log_x: bool = False
    log_y: bool = False
    y_limits: tuple[float, float] | None = None  #: The ends of the vertical axis; None: the data's.
    levels: Sequence[Level] = ()  #: Horizontal lines.
    bands: Sequence[Band] = ()
    joined: bool = True  #: True if a line joins the points of a curve.
    ordered: bool = False  #: True if curves are steps of one quantity; so are their colours.
    polar: bool = False  #: True if x is an angle and y a radius. Terminals have no such charts.
    continues: bool = False  #: True if its horizontal axis is that of the chart above it.
    share: float = 1.0
    """Its height in a figure as a share of other panels' height. Below 1, terminals omit it."""

    @property
    def is_logarithmic(self) -> bool:
        """True if numbers below zero have no place on its vertical axis."""
        return self.log_y

    def with_ends(self, low: float, high: float) -> "Chart":
        """Return the chart with other ends of its vertical axis.

        A small chart below another shows something else, such as a ratio, and keeps its ends.
        """
        if self.share < 1:
            return self
        return replace(self, y_limits=(low, high))


Panel = HeatmapPanel | Chart


def row_share(row: Sequence[Panel]) -> float:
    """Return the height of a row of panels, as a share of a usual row's height."""
    return min(panel.share for panel in row)


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure: panels in rows of `across`."""

    title: str  #: A kind of picture states what is shown; the source's name is added in front.
    panels: Sequence[Panel] = ()
    across: int = 1
    subtitle: str = ""  #: A caption, below the panels of a figure and above those in a terminal.

    @property
    def heatmaps(self) -> list[HeatmapPanel]:
        return [panel for panel in self.panels if isinstance(panel, HeatmapPanel)]

    @property
    def inches(self) -> tuple[float, float]:
        """The width and height that suit it.

        A comparison has 2.9 inches per row, square matrices are about square, and the picture of a
        single chart is 8 × 5 inches.
        """
        rows = self.rows(self.across)
        if not rows:
            return WIDTH_INCHES, TEXT_INCHES
        if self._is_comparison():
            return COMPARISON_INCHES, _comparison_height(rows)
        if self._starts_with_square_matrices():
            return WIDTH_INCHES, _height_of_square_matrices(rows)
        if len(rows) == 1:
            return WIDTH_INCHES, 5.0
        return WIDTH_INCHES, 6.5

    def _is_comparison(self) -> bool:
        """Return True if rows are expected values, found values and their difference."""
        return any(panel.reduction is Reduction.MAX for panel in self.heatmaps)

    def _starts_with_square_matrices(self) -> bool:
        first_row = self.rows(self.across)[0]
        if not isinstance(first_row[0], HeatmapPanel):
            return False
        matrices = [panel for panel in first_row if isinstance(panel, HeatmapPanel)]
        return all(matrix.shape[0] == matrix.shape[1] for matrix in matrices)

    def rows(self, across: int, *, narrow: bool = False) -> list[list[Panel]]:
        """Return the panels of a picture in rows of at most `across` panels.

        A chart has a row of its own below several heatmaps, and if panels are narrow: its axes need
        more room than the colours of a heatmap.

        Args:
            across: The most panels of a row.
            narrow: True if a panel would be too narrow for a chart.
        """
        charts_stand_alone = narrow or len(self.heatmaps) > 1
        rows: list[list[Panel]] = []
        for panel in self.panels:
            if rows and _has_room_for(panel, rows[-1], across, charts_stand_alone):
                rows[-1].append(panel)
            else:
                rows.append([panel])
        return rows


def _has_room_for(
    panel: Panel, row: Sequence[Panel], across: int, charts_stand_alone: bool
) -> bool:
    """Return True if a row takes another panel: it is not full, and no chart has to be alone in it."""
    if len(row) >= across:
        return False
    has_chart = isinstance(panel, Chart) or isinstance(row[-1], Chart)
    return not (has_chart and charts_stand_alone)


def _comparison_height(rows: Sequence[Sequence[Panel]]) -> float:
    """Return the height of rows of expected values, found values and differences, with a title."""
    title_inches = 1.3
    inches_per_row = 2.9
    return round(title_inches + inches_per_row * sum(map(row_share, rows)), 1)


def _height_of_square_matrices(rows: Sequence[Sequence[Panel]]) -> float:
    """Return the height at which square matrices fill the width, at most 8 inches.

    Two matrices side by side are 3.4 inches wide each, beside 1.2 inches for numbers and the colour
    bar. A row of them takes 3.6 inches, and the title 1: 4.6, which is rounded to halves, 4.5.
    """
    longest_row = max(map(len, rows))
    side = (WIDTH_INCHES - 1.2) / max(longest_row, 1.2)
    height = 1.0 + len(rows) * (side + 0.2)
    in_halves = round(2 * height) / 2
    return min(8.0, in_halves)
