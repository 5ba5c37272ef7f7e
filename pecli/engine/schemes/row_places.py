"""The places of a table's rows: a range of positions, a list of them, or the points of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pecli.engine.named_values import required
from pecli.engine.schemes.given_positions import GridSize, PositionList
from pecli.errors import bracketed

if TYPE_CHECKING:
    from pecli.engine.numerics.axis_tables import Coordinates
    from pecli.engine.schemes.grid_styles import GridStyle


@dataclass(frozen=True)
class RowPlaces:
    """The usual places: consecutive positions, as many as `seq_len` states."""

    is_range: ClassVar[bool] = True

    @property
    def count(self) -> int | None:
        """Return the number of rows that the places decide; None if `seq_len` decides it."""
        return None

    @property
    def description(self) -> str:
        """Return the places as the subject of a sentence."""
        return "it"

    def coordinates(self) -> Coordinates:
        """Return the positions of all rows, axis by axis.

        Raises:
            TypeError: The rows are a range, which is computed without listing its positions.
        """
        raise TypeError("rows of a range have no list of coordinates")

    def end(self, first: int, rows: int) -> int:
        """Return the position after the last one, for scalings that depend on the length."""
        return first + rows


RANGE = RowPlaces()


@dataclass(frozen=True)
class ListedRows(RowPlaces):
    """A row for each position of a list, which may have several axes."""

    is_range = False

    positions: PositionList

    @property
    def count(self) -> int:
        return self.positions.shape[-1]

    @property
    def description(self) -> str:
        return f"positions of shape {bracketed(self.positions.shape)}"

    def coordinates(self) -> Coordinates:
        from pecli.engine.numerics.axis_tables import listed_coordinates

        return listed_coordinates(self.positions.exact())

    def end(self, first: int, rows: int) -> int:
        """Return the whole position after the farthest one: 3 for the positions 0, 2.5 and 1."""
        farthest = max(max(axis) for axis in self.positions.exact())
        return max(1, math.floor(farthest) + 1)


@dataclass(frozen=True)
class GridOfRows(RowPlaces):
    """A row for each point of a grid, and some for tokens beside it.

    Attributes:
        grid: the sizes (H, W) or (T, H, W).
        keep: the number of rows beside the grid.
        style: the conventions of the grid; None before they were checked.
        base: `grid_base`, one number or one per axis of the grid.
        scale: `grid_scale`, one number or one per axis of the grid.
    """

    is_range = False

    grid: GridSize
    keep: int
    style: GridStyle | None
    base: Sequence[float] | None
    scale: Sequence[float] | None

    @property
    def count(self) -> int:
        return math.prod(self.grid) + self.keep

    @property
    def description(self) -> str:
        kept = f" with {self.keep} rows beside it" if self.keep else ""
        return f"the grid {self.grid.spelled()}{kept}"

    def coordinates(self) -> Coordinates:
        return required(self.style).coordinates(self.grid, self.keep, self.base, self.scale)


@dataclass(frozen=True)
class RelativeRows(RowPlaces):
    """Rows for the positions L − 1, …, −(L − 1), as in Transformer-XL; L is `seq_len`."""

    is_range = False

    seq_len: int

    def coordinates(self) -> Coordinates:
        from pecli.engine.numerics.axis_tables import listed_coordinates

        return listed_coordinates([range(self.seq_len - 1, -self.seq_len, -1)])
