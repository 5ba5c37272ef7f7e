"""Where the rows of a table are: a range, positions given one by one, or the points of a grid.

A scheme whose rows have positions derives from `Positioned`. Positions are exact: a float is the number it is, and a
decimal that was typed is that decimal, not the float nearest to it.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import as_numpy
from pecli.engine.numerics import Frequencies
from pecli.engine.numerics.cos_sin_tables import Rotation
from pecli.engine.numerics.phases import Waves
from pecli.engine.schemes import ListOf, Parameter, Real, Recipe, Whole
from pecli.engine.schemes.scheme import GRID_PICTURES, TABLE_PICTURES, UNSET, AxisBlock, Neighbour, Scheme
from pecli.errors import KindError, ParameterError, bracketed, quoted, spelled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pecli.engine.numerics.axis_tables import Coordinates
    from pecli.engine.runtimes.runtime import Phases
    from pecli.engine.schemes.grid_styles import GridStyle
    from pecli.engine.schemes.recipe_tables import Filler

LAST_POSITION = 2**40  #: positions go up to this, and down to minus this

PLACED: dict[str, Any] = {"panel": "Positions", "omitted_default": None}
"""Parameters about where rows are: younger than the files that lack them."""
_DECIMAL = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?|[+-]?\d+/\d+"
_NO_NUMBER = r"(?i)[+-]?(nan|inf|infinity|)"
"""What nobody calls a file in a list of numbers: it is refused as a number."""
_SEPARATOR = r"\s*[,;]\s*"
_MAX_DIGITS = 48
_MAX_LISTED = 1 << 16  #: positions that a known mistake lists one by one


class PositionList(tuple[Any, ...]):
    """Positions that were checked: numbers, or a tuple of them for each axis. What no float is, is kept as text."""

    @property
    def axes(self) -> tuple[tuple[Any, ...], ...]:
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
            said = f"of shape {bracketed(value.shape)}"
            if value.dtype.kind in "cbOSU":
                raise KindError(name, f"{said} and dtype {value.dtype}", self.rule)
            if value.ndim == 3 and (value == value[:, :1]).all():  # (axes, batch, L), the same in all of the batch
                value = value[:, 0]
            if value.ndim not in (1, 2) or not value.size:
                raise ParameterError(name, said, self.rule)
            value = value.tolist()
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise KindError(name, quoted(value), self.rule)
        items = list(value)
        if not items:
            raise ParameterError(name, "empty", self.rule)
        if not any(isinstance(item, (list, tuple)) for item in items):
            return PositionList(_position(f"{name}[{k}]", item) for k, item in enumerate(items))
        sizes = [len(item) if isinstance(item, (list, tuple)) else 0 for item in items]
        if len({*sizes}) > 1 or not sizes[0]:
            raise ParameterError(name, f"axes of {', '.join(map(str, sizes[:8]))} positions", self.rule)
        rows = enumerate(items)
        return PositionList(tuple(_position(f"{name}[{a}][{k}]", x) for k, x in enumerate(axis)) for a, axis in rows)


def _position(name: str, value: Any) -> int | float | str:
    rule = "a position is a finite number from −2^40 to 2^40"
    if isinstance(value, bool) or type(value).__name__ == "bool":
        raise KindError(name, quoted(value), rule)
    try:
        if isinstance(value, str) and (len(value) > _MAX_DIGITS or not re.fullmatch(_DECIMAL, value)):
            raise ValueError(value)
        is_exact = isinstance(value, (str, Fraction))
        exact = Fraction(value if is_exact else operator.index(value) if hasattr(value, "__index__") else float(value))
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise ParameterError(name, quoted(value), rule) from None
    if abs(exact) > LAST_POSITION:
        raise ParameterError(name, quoted(value), rule)
    return _kept(exact, str(value))


def whole_positions(name: str, given: Any) -> NDArray[np.int64]:
    """Positions as an array of integers, of any shape."""
    ids = as_numpy(name, given)
    if ids.dtype.kind not in "iu":
        raise KindError(name, f"of shape {ids.shape} and dtype {ids.dtype}", "positions are integers")
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) <= LAST_POSITION:
        said = f"{ids.min()} … {ids.max()}, of shape {ids.shape}"
        raise ParameterError(name, said, "positions must be 0 or more and at most 2^40")
    return ids.astype(np.int64)


def _kept(exact: Fraction, text: str = "") -> int | float | str:
    """A number as specs have it: a float where it is one."""
    if exact.denominator == 1:
        return int(exact)
    return float(exact) if Fraction(float(exact)) == exact else text or str(exact)


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
_GIVEN = GivenPositions("numbers, or a file of them, instead of --seq-len and --offset", **PLACED)
_BESIDE = "extra rows for non-patch tokens (CLS, registers), at the origin or as the style has it"
_KEEP = Whole(_BESIDE, low=0, high=2**20, **PLACED)
_GRID_BASE = _sizes("points that an axis of the grid is resampled from", **PLACED)


@dataclass(frozen=True, repr=False)
class Positioned(Scheme):
    """A scheme with a row per position: `seq_len` positions from `offset` on, those of a list, or those of a grid."""

    seq_len: Annotated[int, Whole("rows of the table, unless --positions or --grid is given")] = UNSET
    dim: Annotated[int, Whole("channels of a row", high=65536, default=MISSING)] = UNSET
    base: Annotated[float, Real("base of the frequencies", above=0, default=10000.0)] = UNSET
    _: KW_ONLY
    positions: Annotated[PositionList | None, _GIVEN] = None
    grid: Annotated[GridSize | None, GridParameter("one row per grid point, row-major", **PLACED)] = None
    keep: Annotated[int | None, _KEEP] = None
    grid_base: Annotated[tuple[float, ...] | None, _GRID_BASE] = None
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
        rows = None if self.positions is None else self.positions.shape[-1]
        if self.grid is not None:
            rows = math.prod(self.grid) + (self.keep or 0)
        if rows is not None and self.seq_len not in (None, rows):
            raise self.wrong("seq_len", f"{self.place()} has {rows} rows", "leave it out")
        if rows is not None:
            object.__setattr__(self, "seq_len", rows)
        super()._complete({name: value for name, value in preset.items() if name != "keep"})

    def _check_place(self) -> None:
        style = self.grid_style
        if self.grid is None:
            for name in ("keep", "grid_base", "grid_scale"):
                if getattr(self, name) is not None:
                    raise self.wrong(name, "it belongs to a grid", "add --grid")
            if style is not None and self.positions is None:
                raise self.wrong("grid", f"the {style.name} style is of tables on grids")
        elif self.positions is not None:
            raise self.wrong("grid", "rows are those of a grid or of positions", "leave one out")
        elif style is None:
            axes = ", or 2 or 3 --axes" if "axes" in self.parameters() else ""
            rule = f"the grid {self.grid.spelled()} needs a style, whose conventions it follows{axes}"
            raise ParameterError("style", "missing", rule)

    def place(self) -> str:
        """Where rows are, in words."""
        if self.grid is not None:
            kept = f" with {self.keep} rows beside it" if self.keep else ""
            return f"the grid {self.grid.spelled()}{kept}"
        return "it" if self.positions is None else f"positions of shape {bracketed(self.positions.shape)}"

    def _check(self) -> None:
        if self.grid is not None and self.grid_style is not None:
            self.grid_style.check(self.grid, self.grid_base, self.grid_scale)
        given = not self.is_range and self.first_position
        self.refuse_if(given, "offset", "positions are given otherwise", "leave it out")
        beyond = self.first_position + self.seq_len - 1 > LAST_POSITION
        self.refuse_if(beyond, "offset", "the last position must be at most 2^40")

    @property
    def grid_style(self) -> GridStyle | None:
        return None

    @property
    def in_turns(self) -> bool:
        """Whether positions are turns, so that angles are those times 2π."""
        return self.grid_style is not None and self.grid_style.in_turns

    @property
    def is_range(self) -> bool:
        """Whether rows are those of consecutive positions."""
        return self.positions is None and self.grid is None

    @property
    def inert_parameters(self) -> frozenset[str]:
        if self.is_range:
            return frozenset()
        names = ("keep", "base", "layout") if self.grid_style else ()
        same = (name for name in names if getattr(self, name) == getattr(self.grid_style, name))
        return frozenset({"seq_len", "offset", *same})

    @property
    def picture_kinds(self) -> tuple[str, ...]:
        """Waves over positions are those of a range; a grid has patches."""
        if self.is_range:
            return super().picture_kinds
        return TABLE_PICTURES if self.grid is None else GRID_PICTURES

    def neighbour(self, **changes: Any) -> Neighbour | None:
        """Rows that are others then need not be given."""
        moved = not self.is_range and {"positions", "grid", "keep", "style"} & changes.keys()
        return super().neighbour(**changes, **({"seq_len": None} if moved else {}))

    def place_neighbours(self, others: Mapping[str, GridStyle]) -> Iterator[Neighbour | None]:
        """Known mistakes in where rows are: rows and columns exchanged, rows beside the grid missing or added, the size
        it was resampled from left out, another project's style, axes of positions in another order."""
        style = self.grid_style
        if self.grid is not None:
            yield self.neighbour(grid=GridSize((*self.grid[:-2], self.grid[-1], self.grid[-2])))
            yield from (self.neighbour(keep=keep) for keep in {0, 1} - {self.keep or 0})
            yield from (self.neighbour(**{name: None}) for name in ("grid_base", "grid_scale"))
        for name, other in others.items():
            if style is not None and replace(other, name=style.name) != style:
                yield self.neighbour(style=name, **({"base": None} if self.base == style.base else {}))
        if self.grid and style and self.seq_len <= _MAX_LISTED and not (self.keep and style.layout):
            coordinates, names = self.coordinates(), style.sorted_axes
            index = coordinates.index(0, self.seq_len).tolist()

            def places(moved: str = "", by: Fraction = Fraction(0)) -> list[list[Any]]:
                every = zip([by if axis in moved else 0 for axis in names], coordinates.values, strict=True)
                values = [[_kept(Fraction(value + step)) for value in own] for step, own in every]
                return [[own[k] for k in row] for own, row in zip(values, index, strict=True)]

            yield self._in_order(places(), names, [*map(names.index, names.translate(str.maketrans("hw", "wh")))])
            for counting in dict.fromkeys((names, "hw")):
                rows = {**dict(zip(names, places(), strict=True)), **dict.fromkeys(counting, range(self.seq_len))}
                yield self._at_positions([*rows.values()], ("positions", "those of the grid", "0, 1, 2, …"))
            for moved, by in product((*names, "hw"), (Fraction(1), Fraction(-1), Fraction(1, 2))):
                yield self._at_positions(places(moved, by), (f"positions along {' and '.join(moved)}", 0, float(by)))
        if self.positions is not None and len(axes := self.positions.axes) > 1:
            count = len(axes)
            names = "thw"[-count:] if count < 4 else "".join(map(str, range(count)))
            for a, b in combinations(range(count), 2):
                yield self._in_order(axes, names, [b if k == a else a if k == b else k for k in range(count)])
            yield self._in_order(axes, names, [0] * count)

    def _in_order(self, places: Sequence[Sequence[Any]], names: str, order: Sequence[int]) -> Neighbour | None:
        moved = "axes of positions", ",".join(names), ",".join(names[k] for k in order)
        return self._at_positions([places[k] for k in order], moved)

    def _at_positions(self, places: Sequence[Sequence[Any]], edit: tuple[str, Any, Any]) -> Neighbour | None:
        without = dict.fromkeys(("grid", "keep", "grid_base", "grid_scale"))
        other = self.neighbour(positions=PositionList(map(tuple, places)), **without)
        return other and other._replace(edits=(self.edit(*edit),))

    def coordinates(self) -> Coordinates:
        """The positions of all rows, axis by axis, where these are not consecutive."""
        from pecli.engine.numerics.axis_tables import listed_coordinates

        if self.positions is not None:
            return listed_coordinates(self.positions.exact())
        assert self.grid is not None
        assert self.grid_style is not None
        return self.grid_style.coordinates(self.grid, self.keep or 0, self.grid_base, self.grid_scale)

    @property
    def axis_blocks(self) -> tuple[AxisBlock, ...]:
        """The frequencies of each axis; none where all axes share those of the dim."""
        return ()

    @property
    def pair_axes(self) -> list[int]:
        """Which axis of positions each frequency follows."""
        return [block.axis for block in self.axis_blocks for _ in block.indices]

    @property
    def rotating_pairs(self) -> int:
        """How many waves there are."""
        return sum(block.pairs for block in self.axis_blocks)

    def block_frequencies(self, scale: float = 1.0) -> Frequencies:
        """The frequencies of all blocks, one after the other, exact."""
        return numerics.joined([self._frequencies(b, scale).take(b.indices) for b in self.axis_blocks if b.pairs])

    def _frequencies(self, block: AxisBlock, scale: float) -> Frequencies:
        count = block.last + 1
        if block.law:
            rise = (Fraction(self.base) - 1) / block.denominator
            return numerics.rational([1 + rise * i if block.law == "linear" else Fraction(0) for i in range(count)])
        if block.factor != 1:
            from pecli.engine.scalings.ntk import Ntk

            return Ntk(block.factor).frequencies(self.base, block.channels)
        return numerics.geometric(self.base, block.denominator, count, scale)

    def waves(self, unit: Fraction = Fraction(1)) -> Waves:
        """The frequencies and the amplitude, in integers, over positions in multiples of a unit: what exact tables are
        made from."""
        raise NotImplementedError

    def recipe_phases(self, recipe: Recipe) -> Iterator[tuple[Phases, range]]:
        """The phases that a recipe makes, and which of them the scheme has: those of its waves, in order."""
        from pecli.engine.runtimes.runtime import products
        from pecli.engine.schemes.recipe_tables import geometric_phases, rounded

        for block in self.axis_blocks:
            if block.law or block.factor != 1:  # these are no powers of one ratio
                exact = np.array(self._frequencies(block, 1.0).floats(), np.float32)
                yield products(rounded(exact, recipe.frequencies)), block.indices
            else:
                yield geometric_phases(recipe, self.base, block.denominator, block.last + 1), block.indices

    @property
    def amplitude_value(self) -> float:
        """What cos and sin are multiplied by, as float64."""
        return float(getattr(self, "amplitude", 1.0))

    def filler(self, recipe: Recipe, rows: int, coordinates: Coordinates | None = None) -> Filler:
        """What makes cos and sin of about so many consecutive positions, or at the given coordinates."""
        if coordinates is None and recipe.is_exact and not recipe.table:
            return Rotation(self.waves, rows)
        from pecli.engine.numerics.axis_tables import AxisRotation
        from pecli.engine.schemes.recipe_tables import CastFiller, RecipeFiller

        several = coordinates is not None and len(coordinates.values) > 1
        axes = self.pair_axes[: self.rotating_pairs] if several else [0] * self.rotating_pairs
        if not recipe.is_exact:
            parts, scale = partial(self.recipe_phases, recipe), getattr(self, "scale", 1.0)
            amplitude = self.amplitude_value
            return RecipeFiller(recipe, parts, axes, amplitude, scale, coordinates, in_turns=self.in_turns)
        exact = Rotation(self.waves, rows) if coordinates is None else AxisRotation(self.waves, axes, coordinates)
        return CastFiller(exact, recipe.table) if recipe.table else exact

    def row_filler(self, recipe: Recipe) -> Filler:
        """What makes cos and sin of its rows, wherever they are."""
        return self.filler(recipe, self.seq_len, None if self.is_range else self.coordinates())
