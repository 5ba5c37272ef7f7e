"""What a picture shows, whatever draws it: matrices, curves and circles, each with the words for its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.schemes.scheme import TABLE_PICTURES, Axes, Scheme
from pecli.engine.table import Table

MOST_PANELS = 12
"""Panels that a picture has room for."""
_GOOD_PART = 0.2


class Curve(NamedTuple):
    """Points that belong together, from left to right; where y is no finite number there is a gap."""

    label: str
    x: Floats
    y: Floats


class Subject(NamedTuple):
    """What is drawn: a scheme, or the tables of a file."""

    label: str
    tables: tuple[Table, ...]
    scheme: Scheme | None = None
    context: int | None = None
    """The longest context that the model says it takes, where it is a model's scheme."""

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
        """Whether a column is a pair of channels."""
        return bool(self.tables) and self.axes_of(self.tables[0]).names[-1] == "pair"

    @property
    def first(self) -> int:
        """The position of the first row."""
        return self.scheme.first_position if self.scheme is not None else 0


class Wish(NamedTuple):
    """How much can be shown, and what of it was asked for."""

    rows: int = 1000
    columns: int = 1000
    channels: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class Heat:
    """A matrix, whose values are colours."""

    title: str
    values: Floats
    rows: str = "position"
    columns: str = "channel"
    centred: bool = False
    first_row: int = 0
    row_count: int = 0
    column_count: int = 0
    limits: tuple[float, float] = (0.0, 1.0)
    meaning: str = ""
    power: float = 1.0
    """Colours follow this power of a value's magnitude, so that small ones differ, too."""
    sharp: bool = False
    """Whether a single value is to be seen, and is not to be blurred with those around it."""

    def bent(self, values: Floats) -> Floats:
        """Values as colours follow them."""
        return values if self.power == 1.0 else np.sign(values) * np.abs(values) ** self.power


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
    points: bool = False
    """Whether the points themselves count, and not only the line through them."""
    ordered: bool = False
    """Whether the curves are steps of one thing, and their colours too."""
    filled: bool = False
    """Whether the area below the first curve counts."""


@dataclass(frozen=True, eq=False)
class Circle:
    """Where a pair of channels points, position after position, the first ones in the middle."""

    title: str
    angles: Floats
    positions: Floats


Panel = Heat | Chart | Circle


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure: panels in rows of `across`; a kind's title says what they show, and not of what."""

    title: str
    panels: Sequence[Panel] = field(default_factory=tuple)
    across: int = 1


def coinciding(panel: Chart) -> list[bool]:
    """Which curves lie on an earlier one for a good part of their way, and would hide it."""
    found = []
    with np.errstate(invalid="ignore", divide="ignore"):
        heights = [np.log10(curve.y) if panel.log_y else curve.y for curve in panel.curves]
        finite = np.concatenate([each[np.isfinite(each)] for each in heights] or [np.empty(0)])
        near = 1e-3 * (np.ptp(finite) if finite.size else 0.0)
        for number, (curve, own) in enumerate(zip(panel.curves, heights, strict=True)):
            earlier = zip(panel.curves[:number], heights, strict=False)
            alike = [other for each, other in earlier if np.array_equal(each.x, curve.x)]
            found.append(any(np.mean(np.abs(own - other) <= near) > _GOOD_PART for other in alike))
    return found


def spread(count: int, most: int) -> list[int]:
    """At most so many of 0 … count − 1, evenly, the first and the last among them.

    >>> spread(12, 4), spread(3, 8)
    ([0, 4, 7, 11], [0, 1, 2])
    """
    if count <= most:
        return list(range(count))
    return [round(k * (count - 1) / (most - 1)) for k in range(most)] if most > 1 else [0]


def check_room(count: int) -> None:
    """Refuse a picture of so many panels that none of them could be seen."""
    from pecli.errors import ParameterError

    if count > MOST_PANELS:
        rule = f"it would take more than {MOST_PANELS} panels"
        raise ParameterError("the picture", "too large", rule, "draw fewer, or name one tensor as FILE:NAME")


def chosen(wish: Wish, count: int, most: int, name: str = "channels") -> list[int]:
    """The channels (or `name`) that were asked for, or a few of all."""
    from pecli.errors import ParameterError

    if wish.channels is None:
        return spread(count, most)
    for channel in wish.channels:
        if not channel < count:
            raise ParameterError("channels", channel, f"there are {count} {name}, numbered from 0")
    return list(wish.channels)
