"""Where the rows of a table are: a range, positions given one by one, or the points of a grid.

A scheme whose rows have positions derives from `Positioned`. Positions are exact: a float is the number it is, and a
decimal that was typed is that decimal, not the float nearest to it.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

from pecli.engine.numerics.cos_sin_tables import Rotation
from pecli.engine.numerics.phases import Waves
from pecli.engine.schemes import EXACT, ListOf, Parameter, Real, Recipe, Whole
from pecli.engine.schemes.scheme import TABLE_PICTURES, Neighbour, Scheme
from pecli.errors import KindError, ParameterError, bracketed, quoted, spelled

if TYPE_CHECKING:
    from pecli.engine.numerics.axis_tables import Coordinates
    from pecli.engine.schemes.grid_styles import GridStyle
    from pecli.engine.schemes.recipe_tables import AxisWaves, Filler, FrequencyRecipe, RangeFiller

LAST_POSITION = 2**40
"""Positions go up to this, and down to minus this."""

PLACED: dict[str, Any] = {"panel": "Positions", "omitted_default": None}
"""Parameters about where rows are: younger than the files that lack them."""
_DECIMAL = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?|[+-]?\d+/\d+"
_NO_NUMBER = r"(?i)[+-]?(nan|inf|infinity|)"
"""What nobody calls a file in a list of numbers: it is refused as a number."""
_SEPARATOR = r"\s*[,;]\s*"
_MAX_DIGITS = 48
_MAX_LISTED = 1 << 16
"""Positions that a known mistake lists one by one."""


def check_last(offset: int, count: int) -> None:
    """Refuse a table that goes on beyond the last position."""
    if offset + count - 1 > LAST_POSITION:
        raise ParameterError("offset", offset, "the last position must be at most 2^40")


class PositionList(tuple[Any, ...]):
    """Positions that were checked: numbers, or a tuple of them for each axis. What no float is, is kept as text."""

    @property
    def axes(self) -> tuple[tuple[Any, ...], ...]:
        """The positions of each axis."""
        return tuple(self) if isinstance(self[0], tuple) else (tuple(self),)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), len(self[0])) if isinstance(self[0], tuple) else (len(self),)

    def exact(self) -> list[list[int | Fraction]]:
        """The numbers themselves, axis by axis."""
        return [[value if isinstance(value, int) else Fraction(value) for value in axis] for axis in self.axes]

    def spelled(self) -> str:
        return ";".join(map(spelled, self.axes))


class GridSize(tuple[int, ...]):
    """Points along each axis of a grid: (H, W) or (T, H, W)."""

    def spelled(self) -> str:
        return "x".join(map(str, self))


class GivenPositions(Parameter):
    """Numbers one by one: (L,), or (axes, L)."""

    metavar = "LIST|FILE"
    rule = "they must be numbers from −2^40 to 2^40, of shape (L,) or (axes, L)"
    reads_file = True

    def is_value(self, text: str) -> bool:
        parts = re.split(_SEPARATOR, text)
        return all(re.fullmatch(_DECIMAL, part) or re.fullmatch(_NO_NUMBER, part) for part in parts)

    def parse(self, name: str, text: str) -> PositionList:
        """`0,0.5,1`, or `0,1;2,3` for two axes."""
        axes = [[part.strip() for part in axis.split(",")] for axis in text.split(";")]
        return self.check(name, axes if len(axes) > 1 else axes[0])

    def check(self, name: str, value: Any) -> PositionList:
        if isinstance(value, PositionList):
            return value
        if hasattr(value, "tolist"):
            if value.dtype.kind in "cbOSU":
                raise KindError(name, f"of shape {bracketed(value.shape)} and dtype {value.dtype}", self.rule)
            if value.ndim == 3 and (value == value[:, :1]).all():  # (axes, batch, L), the same in all of the batch
                value = value[:, 0]
            if value.ndim not in (1, 2) or not value.size:
                raise ParameterError(name, f"of shape {bracketed(value.shape)}", self.rule)
            value = value.tolist()
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise KindError(name, quoted(value), self.rule)
        items = list(value)
        if not items:
            raise ParameterError(name, "empty", self.rule)
        if not any(isinstance(item, (list, tuple)) for item in items):
            return PositionList(self._number(f"{name}[{k}]", item) for k, item in enumerate(items))
        sizes = [len(item) if isinstance(item, (list, tuple)) else 0 for item in items]
        if len({*sizes}) > 1 or not sizes[0]:
            raise ParameterError(name, f"axes of {', '.join(map(str, sizes[:8]))} positions", self.rule)
        return PositionList(
            tuple(self._number(f"{name}[{a}][{k}]", item) for k, item in enumerate(axis))
            for a, axis in enumerate(items)
        )

    def _number(self, name: str, value: Any) -> int | float | str:
        rule = "a position is a finite number from −2^40 to 2^40"
        if isinstance(value, bool) or type(value).__name__ == "bool":
            raise KindError(name, quoted(value), rule)
        try:
            exact = Fraction(_exact(value))
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):
            raise ParameterError(name, quoted(value), rule) from None
        if abs(exact) > LAST_POSITION:
            raise ParameterError(name, quoted(value), rule)
        return _kept(exact, str(value))


def _kept(exact: Fraction, text: str = "") -> int | float | str:
    """A number as specs have it: a float where it is one."""
    if exact.denominator == 1:
        return int(exact)
    return float(exact) if Fraction(float(exact)) == exact else text or str(exact)


def _exact(value: Any) -> Fraction | int:
    if isinstance(value, str):
        if not re.fullmatch(_DECIMAL, value) or len(value) > _MAX_DIGITS:
            raise ValueError(value)
        return Fraction(value)
    if isinstance(value, Fraction):
        return value
    try:
        return operator.index(value)
    except TypeError:
        number = float(value)
        if not math.isfinite(number):
            raise ValueError(value) from None
        return Fraction(number)


class GridParameter(Parameter):
    """HxW or TxHxW."""

    metavar = "[Tx]HxW"
    rule = "it must be HxW or TxHxW, whole numbers from 1 to 2^20 whose product is at most 2^40"

    def parse(self, name: str, text: str) -> GridSize:
        parts = re.split("[x×,]", text.strip().lower())
        if not all(re.fullmatch(r"\s*\d{1,13}\s*", part) for part in parts):
            raise ParameterError(name, quoted(text), self.rule)
        return self.check(name, [int(part) for part in parts])

    def check(self, name: str, value: Any) -> GridSize:
        if isinstance(value, GridSize):
            return value
        try:
            sizes = [operator.index(each) for each in value]
        except TypeError:
            raise KindError(name, quoted(value), self.rule) from None
        if len(sizes) not in (2, 3) or not 1 <= min(sizes) <= max(sizes) <= 2**20 or math.prod(sizes) > LAST_POSITION:
            raise ParameterError(name, quoted(value), self.rule)
        return GridSize(sizes)


_sizes = partial(ListOf, each=Real("a number", above=0))


@dataclass(frozen=True, repr=False)
class Positioned(Scheme):
    """A scheme with a row per position: `seq_len` positions from `offset` on, those of a list, or those of a grid."""

    _: KW_ONLY
    positions: Annotated[
        PositionList | None, GivenPositions("numbers, or a file of them, instead of --seq-len and --offset", **PLACED)
    ] = None
    grid: Annotated[GridSize | None, GridParameter("one row per grid point, row-major", **PLACED)] = None
    keep: Annotated[
        int | None, Whole("rows for other tokens beside a grid, at the origin", low=0, high=2**20, **PLACED)
    ] = None
    grid_base: Annotated[
        tuple[float, ...] | None, _sizes("points that an axis of the grid is resampled from", **PLACED)
    ] = None
    grid_scale: Annotated[tuple[float, ...] | None, _sizes("divides the positions of a grid's axes", **PLACED)] = None

    def _complete(self, preset: Mapping[str, Any]) -> None:
        """Rows that positions or a grid decide need not be given."""
        for name in ("positions", "grid"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, type(self).parameters()[name].check(name, value))
        self._check_place()
        if self.grid is not None and self.keep is None and preset.get("keep"):
            object.__setattr__(self, "keep", preset["keep"])
        rows = self._given_rows()
        given = getattr(self, "seq_len", None)
        if rows is not None and given is None:
            object.__setattr__(self, "seq_len", rows)
        elif rows is not None and given != rows:
            rule = f"{self.place()} has {rows} rows"
            raise ParameterError("seq_len", given, rule, "leave it out")
        super()._complete({name: value for name, value in preset.items() if name != "keep"})

    def _check_place(self) -> None:
        if self.positions is not None and self.grid is not None:
            raise ParameterError(
                "grid", self.grid.spelled(), "rows are those of a grid or of positions", "leave one out"
            )
        if self.grid is None:
            for name in ("keep", "grid_base", "grid_scale"):
                if getattr(self, name) is not None:
                    raise ParameterError(name, spelled(getattr(self, name)), "it belongs to a grid", "add --grid")
        style = self.grid_style
        if self.grid is not None and style is None:
            raise ParameterError(
                "style", "missing", f"the grid {self.grid.spelled()} needs a style, whose conventions it follows"
            )
        if style is not None and self.grid is None and self.positions is None:
            raise ParameterError("grid", "missing", f"the {style.name} style is of tables on grids")

    def _given_rows(self) -> int | None:
        if self.positions is not None:
            return self.positions.shape[-1]
        return None if self.grid is None else math.prod(self.grid) + (self.keep or 0)

    def place(self) -> str:
        """Where rows are, in words."""
        if self.grid is not None:
            kept = f" with {self.keep} rows beside it" if self.keep else ""
            return f"the grid {self.grid.spelled()}{kept}"
        return "it" if self.positions is None else f"positions of shape {bracketed(self.positions.shape)}"

    def _check(self) -> None:
        if self.grid is not None and self.grid_style is not None:
            self.grid_style.check(self.grid, self.grid_base, self.grid_scale)
        if not self.is_range and getattr(self, "offset", None):
            raise ParameterError("offset", self.first_position, "positions are given otherwise", "leave it out")

    @property
    def grid_style(self) -> GridStyle | None:
        """Whose conventions a grid follows."""
        return None

    @property
    def is_range(self) -> bool:
        """Whether rows are those of consecutive positions."""
        return self.positions is None and self.grid is None

    @property
    def inert_parameters(self) -> frozenset[str]:
        style = self.grid_style
        same = {
            name for name in ("keep", "base", "layout") if style and getattr(self, name, None) == getattr(style, name)
        }
        return frozenset() if self.is_range else frozenset({"seq_len", "offset", *same})

    @property
    def picture_kinds(self) -> tuple[str, ...]:
        """Waves over positions are those of a range; a grid has patches."""
        if self.is_range:
            return super().picture_kinds
        return (*TABLE_PICTURES, *(("patch",) if self.grid is not None else ()))

    def neighbour(self, **changes: Any) -> Neighbour | None:
        """Rows that are others then need not be given."""
        moved = not self.is_range and {"positions", "grid", "keep", "style"} & changes.keys()
        return super().neighbour(**changes, **({"seq_len": None} if moved else {}))

    def place_neighbours(self, others: Mapping[str, GridStyle]) -> Iterator[Neighbour | None]:
        """Known mistakes in where rows are: rows and columns exchanged, rows beside the grid missing or added, the size
        it was resampled from left out, another project's style, axes of positions in another order.
        """
        style = self.grid_style
        if self.grid is not None and style is not None:
            yield self.neighbour(grid=GridSize((*self.grid[:-2], self.grid[-1], self.grid[-2])))
            yield from (self.neighbour(keep=keep) for keep in {0, 1} - {self.keep or 0})
            yield from (self.neighbour(**{name: None}) for name in ("grid_base", "grid_scale"))
        for name, other in others.items():
            if style is not None and replace(other, name=style.name) != style:
                own = {"base": None} if getattr(self, "base", None) == style.base else {}
                yield self.neighbour(style=name, **own)
        if self.grid is not None and style is not None:
            yield from self._exchanged(style)
        if self.positions is not None and len(self.positions.axes) > 1:
            yield from self._other_axes(self.positions)

    def _exchanged(self, style: GridStyle) -> Iterator[Neighbour | None]:
        """Rows where columns should be: the same at positions that are given."""
        if "t" in style.axes or self.keep or style.merge > 1 or math.prod(self.grid or ()) > _MAX_LISTED:
            return
        coordinates = self.coordinates()
        index = coordinates.index(0, coordinates.rows)
        places = [[coordinates.values[axis][k] for k in row] for axis, row in enumerate(index.tolist())]
        yield self._at_positions(places[::-1], style.sorted_axes, style.sorted_axes[::-1])

    def _other_axes(self, positions: PositionList) -> Iterator[Neighbour | None]:
        from pecli.engine.schemes.grid_styles import AXES

        axes = positions.exact()
        names = AXES if len(axes) == 3 else AXES[1:] if len(axes) == 2 else "".join(map(str, range(len(axes))))
        for a, b in combinations(range(len(axes)), 2):
            order = list(range(len(axes)))
            order[a], order[b] = b, a
            yield self._at_positions([axes[k] for k in order], names, "".join(names[k] for k in order))
        yield self._at_positions([axes[0]] * len(axes), names, names[0] * len(axes))

    def _at_positions(self, places: Sequence[Sequence[Any]], expected: str, found: str) -> Neighbour | None:
        given = PositionList(tuple(_kept(Fraction(value)) for value in axis) for axis in places)
        other = self.neighbour(positions=given, grid=None, keep=None, grid_base=None, grid_scale=None)
        if other is None:
            return None
        edit = self.edit("axes of positions", ",".join(expected), ",".join(found))
        return Neighbour((edit,), other.scheme)

    def coordinates(self) -> Coordinates:
        """The positions of all rows, axis by axis, where these are not consecutive."""
        from pecli.engine.numerics.axis_tables import listed_coordinates

        if self.positions is not None:
            return listed_coordinates(self.positions.exact())
        assert self.grid is not None
        assert self.grid_style is not None
        return self.grid_style.coordinates(self.grid, self.keep or 0, self.grid_base, self.grid_scale)

    def waves(self) -> Waves:
        """The frequencies and the amplitude, in integers: what exact tables of consecutive positions are made from."""
        raise NotImplementedError

    def frequency_recipe(self) -> FrequencyRecipe:
        """The same, as recipes need to know it."""
        raise NotImplementedError

    def axis_waves(self) -> AxisWaves:
        """The waves at positions that are not consecutive."""
        raise NotImplementedError

    def range_filler(self, recipe: Recipe, rows: int) -> RangeFiller:
        """What makes cos and sin of consecutive positions, of about so many."""
        exact = Rotation(self.waves, rows)
        if recipe == EXACT:
            return exact
        from pecli.engine.schemes.recipe_tables import CastFiller, RecipeFiller

        return CastFiller(exact, recipe.table) if recipe.is_exact else RecipeFiller(recipe, self.frequency_recipe())

    def row_filler(self, recipe: Recipe, rows: int) -> Filler:
        """What makes cos and sin of its rows, wherever they are."""
        return self.range_filler(recipe, rows) if self.is_range else self.axis_waves().filler(recipe)
