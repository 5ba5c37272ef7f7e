"""What a picture shows, whatever draws it: heatmaps and charts, the words and the round numbers of their axes."""

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from pecli.engine.arrays import Floats
from pecli.errors import number

MAX_VALUE = 1e150  #: Largest end of an axis: the difference of two has to be a number, too
_NUMBER = re.compile(r"(?<![\w.-])-?(?:inf|\d[\d.]*(?:e-?\d+)?)(?![\w-])")
REDUCED = {
    "mean": ("means of {}", "one in {}"),
    "sample": ("one in {}", "one in {}"),
    "max": ("maximum of {} rows", "maximum of {} columns"),
    "worst": ("worst of {} rows", "worst of {} columns"),
}
"""What rows and columns become without room for all: means, every n-th, the largest, or the worst of another matrix."""


class Curve(NamedTuple):
    """Points that belong together, from left to right; where y is not finite there is a gap."""

    label: str
    x: Floats
    y: Floats
    reference: bool = False  #: Whether it is only there for comparison, as the unscaled law is
    marks: Sequence[tuple[float, float]] = ()  #: Points on it that a figure marks
    dash: str = ""  #: Its line in a figure, where the kind says so


class Band(NamedTuple):
    """A range of the horizontal axis with a name."""

    label: str
    start: float
    stop: float


@dataclass(frozen=True, eq=False)
class HeatmapPanel:
    """A matrix whose values are colours."""

    share: ClassVar[float] = 1.0  #: See `Chart`
    polar: ClassVar[bool] = False
    title: str
    values: Floats
    rows: str = "position"
    columns: str = "channel"
    first_row: int = 0
    table_shape: tuple[int, int] | None = (
        None  #: Rows and columns of the table, where `values` has fewer
    )
    limits: tuple[float, float] | None = (
        None  #: Values at the ends of the colours; None for those of the data
    )
    meaning: str = ""
    log: bool = False  #: Whether colours follow the logarithm; zero lies below all of them
    reduce: str = "mean"  #: How rows become fewer where there is no room, one of `REDUCED`
    marked: tuple[str, float] | None = None  #: A value to mark on the colour bar, and its name

    @property
    def shape(self) -> tuple[int, int]:
        return self.table_shape or (len(self.values), self.values.shape[1])

    @property
    def ends(self) -> tuple[float, float]:
        """The values at the ends of the colours; around zero where there are values on both sides of it."""
        shown = self.values[np.isfinite(self.values) & ((self.values > 0) | (not self.log))]
        low, high = (
            (float(shown.min()), float(shown.max()))
            if shown.size
            else (0.1, 1.0)
            if self.log
            else (0.0, 1.0)
        )
        if self.limits is not None:
            low, high = self.limits
        elif low < 0 < high:
            low, high = min(low, -high), max(-low, high)
        return (
            (min(low, MAX_VALUE / 10, high / 10), min(high, MAX_VALUE))
            if self.log
            else apart(low, high)
        )

    @property
    def is_square(self) -> bool:
        """Whether cells are drawn as squares: places in an image, and both axes of one kind."""
        height, width = self.shape
        return self.rows == "row" or (height == width and self.rows in (self.columns, "query"))

    def has_rows_of(self, other: "HeatmapPanel") -> bool:
        """Whether the names and numbers of its rows are those of another."""
        return (self.shape, self.first_row, self.reduce) == (
            other.shape,
            other.first_row,
            other.reduce,
        )

    def axis_names(self, rows: int, columns: int) -> list[str]:
        """What its axes count, and what of it is shown in so many rows and columns, where that is not all."""
        every = (self.shape[0] / rows, -(-self.shape[1] // columns))
        return [
            f"{name} ({words.format(f'{count:,.0f}')})" if name and count >= 1.5 else name
            for name, words, count in zip(
                (self.rows, self.columns), REDUCED[self.reduce], every, strict=True
            )
        ]

    @property
    def is_centred(self) -> bool:
        low, high = self.ends
        return low == -high


def on_one_scale(panels: Sequence[HeatmapPanel]) -> list[HeatmapPanel]:
    """The same with colours that mean the same in all of them."""
    low, high = min(panel.ends[0] for panel in panels), max(panel.ends[1] for panel in panels)
    if any(panel.is_centred for panel in panels):
        high = float(f"{max(-low, high):.3g}")  # means of sines hardly ever reach 1
        low = -high
    return [replace(panel, limits=(low, high)) for panel in panels]


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves over a common axis."""

    title: str
    curves: Sequence[Curve]
    x: str = "position"
    y: str = "value"
    log_x: bool = False
    log_y: bool = False
    levels: Sequence[tuple[str, float]] = ()  #: Horizontal lines, with a word on each
    bands: Sequence[Band] = ()
    joined: bool = True  #: Whether there is a line through the points
    ordered: bool = False  #: Whether the curves are steps of one thing, and their colours too
    polar: bool = False  #: Whether x is an angle and y the distance from the middle; a terminal has no such charts
    share: float = (
        1.0  #: Of the height of the other panels in a figure; below 1, a terminal leaves it out
    )


Panel = HeatmapPanel | Chart


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure: panels in rows of `across`; a kind's title says what they show, and not of what."""

    title: str
    panels: Sequence[Panel] = ()
    across: int = 1
    subtitle: str = ""
    """A caption below the panels of a figure, above them in a terminal; all there is to say where there are none."""

    @property
    def heatmaps(self) -> list[HeatmapPanel]:
        return [panel for panel in self.panels if isinstance(panel, HeatmapPanel)]

    @property
    def inches(self) -> tuple[float, float]:
        """Width and height that it wants: more height for several rows, and square matrices square."""
        rows, heats = self.rows(self.across), self.heatmaps
        if not rows:
            return 8.0, 2.0
        if self.across == 3 and any(
            panel.reduce == "max" for panel in heats
        ):  # expected, found, difference
            return 10.0, round(
                1.3 + 2.9 * sum(min(panel.share for panel in row) for row in rows), 1
            )
        if rows[0][0] in heats and all(
            panel.shape[0] == panel.shape[1] for panel in rows[0] if panel in heats
        ):
            side = (8.0 - 1.2) / max(*map(len, rows), 1.2)
            return 8.0, min(8.0, round(2 * (1.0 + len(rows) * (side + 0.2))) / 2)
        return 8.0, 5.0 if len(rows) == 1 else 6.5

    def rows(self, across: int, *, narrow: bool = False) -> list[list[Panel]]:
        """Rows of so many panels; a chart has one of its own below several heatmaps, or where those are narrow."""
        rows: list[list[Panel]] = []
        apart = narrow or len(self.heatmaps) > 1
        for panel in self.panels:
            alone = apart and (
                isinstance(panel, Chart) or (bool(rows) and isinstance(rows[-1][-1], Chart))
            )
            if rows and not alone and len(rows[-1]) < across:
                rows[-1].append(panel)
            else:
                rows.append([panel])
        return rows


def ticks(low: float, high: float, most: int, *, log: bool = False) -> list[float]:
    """Round numbers between the ends of an axis, about so many; on a logarithmic one powers of ten, if there are two.

    >>> ticks(0, 511, 6), ticks(1, 5000, 8, log=True), ticks(2, 50, 4, log=True), ticks(5.0, 5.0, 4)
    ([0.0, 100.0, 200.0, 300.0, 400.0, 500.0], [1.0, 10.0, 100.0, 1000.0], [20.0, 40.0], [5.0, 5.0])
    """
    if log:
        first, last = math.ceil(math.log10(low) - 0.02), math.floor(math.log10(high) + 0.02)
        if last > first:
            return [
                10.0**power for power in range(first, last + 1, max(1, -(-(last - first) // most)))
            ]
    if (
        not 1e-12 * max(abs(low), abs(high), 1e-280) < high - low < math.inf
    ):  # no room for round numbers
        return [low, high]
    rough = (high - low) / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    return [
        k * step for k in range(math.ceil(low / step - 0.05), math.floor(high / step + 0.05) + 1)
    ]


def typeset(text: str | float) -> str:
    """A number, or a text with numbers, whose minus is no hyphen; names keep theirs.

    >>> typeset(-1e-5), typeset("llama-3-8b: -0.5 at [-1, 2]")
    ('−1e−5', 'llama-3-8b: −0.5 at [−1, 2]')
    """
    shown = text if isinstance(text, str) else number(text)
    return _NUMBER.sub(lambda found: found[0].replace("-", "−"), shown)


def apart(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis, moved apart where hardly any numbers lie between them.

    >>> apart(0.0, 2.0), apart(3.0, 3.0), apart(0.0, 1.7e308)
    ((0.0, 2.0), (2.5, 3.5), (0.0, 1e+150))
    """
    low, high = (min(max(end, -MAX_VALUE), MAX_VALUE) for end in (low, high))
    reach = max(abs(low), abs(high))
    if high - low > max(1e-300, 1e-12 * reach):
        return low, high
    room = max(0.5, 1e-9 * reach)
    return low - room, high + room


def fitted(text: str, room: float, lines: int, mark: str = "…") -> list[str]:
    """At most so many lines of so many letters. The middle goes first: the end often tells a text from its like.

    >>> fitted("rope, base 10000, cos", 12, 2), fitted("vision_model.position_embedding.weight", 16, 1)
    (['rope, base', '10000, cos'], ['vision_m….weight'])
    """
    width = max(3 + len(mark), int(room))
    broken, kept = textwrap.wrap(text, width), min(len(text), width * lines)
    while len(broken) > lines:
        kept -= 1
        broken = textwrap.wrap(
            f"{text[: kept - kept // 2]}{mark}{text[len(text) - kept // 2 :]}", width
        )
    return broken
