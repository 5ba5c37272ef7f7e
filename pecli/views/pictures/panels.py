"""What a picture shows, whatever draws it: heatmaps, charts and circles, each with the words for its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.schemes.scheme import TABLE_PICTURES, Axes, Scheme
from pecli.engine.table import Table
from pecli.errors import ParameterError

MAX_PANELS = 12
MIN_OVERLAP = 0.2
"""Share of its points from which on a curve counts as lying on another."""


class Subject(NamedTuple):
    """What is drawn: a scheme, or the tables of a file."""

    label: str
    tables: tuple[Table, ...]
    scheme: Scheme | None = None
    context: int | None = None
    """The longest context that the model says it takes, where it is a model's scheme."""
    window: int | None = None
    """The sliding window of the layers that use the scheme."""

    @property
    def kind(self) -> str:
        return self.scheme.name if self.scheme is not None else "file"

    @property
    def applied_as(self) -> str:
        """How the scheme is applied; of a file, nothing is known."""
        return self.scheme.applied_as if self.scheme is not None else ""

    @property
    def picture_kinds(self) -> tuple[str, ...]:
        """The kinds of pictures that show it."""
        return self.scheme.picture_kinds if self.scheme is not None else TABLE_PICTURES

    def axes_of(self, table: Table) -> Axes:
        """What the axes of one of its tables mean."""
        if self.scheme is not None and any(own.name == table.name for own in self.scheme.tensors()):
            return self.scheme.axes_of(table.name)
        return Axes(("",) * (len(table.shape) - 2) + ("position", "channel"))

    @property
    def is_compact(self) -> bool:
        """Whether there is one column per pair of channels."""
        return bool(self.tables) and self.axes_of(self.tables[0]).names[-1] == "pair"

    @property
    def first(self) -> int:
        """The position of the first row."""
        return self.scheme.first_position if self.scheme is not None else 0


class PlotRequest(NamedTuple):
    """How much can be shown, and what of it was asked for."""

    rows: int = 1000
    columns: int = 1000
    channels: tuple[int, ...] | None = None


class Curve(NamedTuple):
    """Points that belong together, from left to right; where y is not finite there is a gap."""

    label: str
    x: Floats
    y: Floats
    reference: bool = False
    """Whether it is only there for comparison, as the unscaled law is."""


class Band(NamedTuple):
    """A range of the horizontal axis with a name."""

    label: str
    start: float
    stop: float


class Mark(NamedTuple):
    """A point on a curve; open ones tell another thing than filled ones."""

    curve: int
    x: float
    y: float
    is_open: bool = False


@dataclass(frozen=True, eq=False)
class HeatmapPanel:
    """A matrix whose values are colours."""

    title: str
    values: Floats
    rows: str = "position"
    columns: str = "channel"
    centred: bool = False
    first_row: int = 0
    row_count: int = 0
    """Rows of the table, where `values` has fewer; likewise the columns."""
    column_count: int = 0
    column_step: int = 1
    """Every how many columns of the table `values` has one."""
    limits: tuple[float, float] | None = None
    """Values at the ends of the colours; None for those of the data."""
    meaning: str = ""
    power: float = 1.0
    """Colours follow this power of a value's magnitude, so that small ones differ, too."""
    log: bool = False
    """Whether colours follow the logarithm; zero lies below all of them."""
    reduce: str = "mean"
    """How rows become fewer where there is no room: their mean; the largest magnitude; or every n-th ("sample")."""
    marked: tuple[str, float] | None = None
    """A value to mark on the colour bar, and its name."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the table."""
        return self.row_count or len(self.values), self.column_count or self.values.shape[1]

    def ends(self) -> tuple[float, float]:
        """The values at the ends of the colours."""
        if self.limits is not None:
            return self.limits
        shown = self.values[np.isfinite(self.values) & ((self.values > 0) | (not self.log))]
        if not shown.size:
            return (-1.0, 1.0) if self.centred else (0.1, 1.0) if self.log else (0.0, 1.0)
        low, high = float(shown.min()), float(shown.max())
        reach = max(-low, high) or 1.0
        return (-reach, reach) if self.centred else (low, high)

    def scaled(self, values: Floats) -> Floats:
        """Values as colours follow them."""
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.log10(values)
        return values if self.power == 1.0 else np.sign(values) * np.abs(values) ** self.power

    def scaled_ends(self) -> tuple[float, float]:
        low, high = self.scaled(np.array(self.ends())).tolist()
        return low, high


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves over a common axis."""

    title: str
    curves: Sequence[Curve]
    x: str = "position"
    y: str = "value"
    log_x: bool = False
    log_y: bool = False
    levels: Sequence[tuple[str, float]] = ()
    """Horizontal lines, with a word on each."""
    bands: Sequence[Band] = ()
    marks: Sequence[Mark] = ()
    mark_names: tuple[str, str] = ("trained context", "extended context or window")
    """What filled and open marks mean."""
    inverse_axis: tuple[str, float] | None = None
    """A second vertical axis, whose numbers are this constant divided by those of the first; and its name."""
    points: bool = False
    """Whether the points themselves count, and not only the line through them."""
    joined: bool = True
    """Whether there is a line through them at all."""
    ordered: bool = False
    """Whether the curves are steps of one thing, and their colours too."""
    ticks: Sequence[float] = ()
    """Numbers of the vertical axis, where they are not just round ones."""
    share: float = 1.0
    """Of the height of the other panels in a figure; below 1, a terminal leaves it out."""


@dataclass(frozen=True, eq=False)
class CirclePanel:
    """Where a pair of channels points, position after position, the first ones in the middle."""

    title: str
    angles: Floats
    positions: Floats


Panel = HeatmapPanel | Chart | CirclePanel


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure: panels in rows of `across`; a kind's title says what they show, and not of what."""

    title: str
    panels: Sequence[Panel] = field(default_factory=tuple)
    across: int = 1
    subtitle: str = ""
    """A caption below the panels of a figure, above them in a terminal; all there is to say where there are none."""


def coinciding(panel: Chart) -> list[bool]:
    """Which curves lie on an earlier one for a good part of their way, and would hide it."""
    found = []
    with np.errstate(invalid="ignore", divide="ignore"):
        heights = [np.log10(curve.y) if panel.log_y else curve.y for curve in panel.curves]
        finite = np.concatenate([each[np.isfinite(each)] for each in heights] or [np.empty(0)])
        near = 1e-3 * (np.ptp(finite) if finite.size else 0.0)
        for number, (curve, own) in enumerate(zip(panel.curves, heights, strict=True)):
            earlier = [each for each in zip(panel.curves[:number], heights, strict=False) if len(each[0].x)]
            alike = [np.interp(curve.x, each.x, other, left=np.nan, right=np.nan) for each, other in earlier]
            found.append(any(np.mean(np.abs(own - other) <= near) > MIN_OVERLAP for other in alike))
    return found


def spread(count: int, most: int) -> list[int]:
    """At most so many of 0 … count − 1, evenly, the first and the last among them.

    >>> spread(12, 4), spread(3, 8)
    ([0, 4, 7, 11], [0, 1, 2])
    """
    if count <= most:
        return list(range(count))
    return [round(k * (count - 1) / (most - 1)) for k in range(most)] if most > 1 else [0]


def check_panels(count: int) -> None:
    """Refuse a picture of so many panels that none of them could be seen."""
    if count > MAX_PANELS:
        rule = f"it would take more than {MAX_PANELS} panels"
        raise ParameterError("the picture", "too large", rule, "draw fewer, or name one tensor as FILE:NAME")


def chosen(request: PlotRequest, count: int, most: int, name: str = "channels") -> list[int]:
    """The channels (or `name`) that were asked for, or a few of all."""
    if request.channels is None:
        return spread(count, most)
    for channel in request.channels:
        if not channel < count:
            raise ParameterError("channels", channel, f"there are {count} {name}, numbered from 0")
    return list(request.channels)
