"""Where the rows of a table are: a range, positions given one by one, or the points of a grid."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Array, Indices, numpy_dtype
from pecli.engine.numerics import Frequencies
from pecli.engine.numerics.cos_sin_tables import Rotation
from pecli.engine.numerics.phases import Waves
from pecli.engine.schemes import ListOf, Real, Recipe, Whole, recipe_named
from pecli.engine.schemes.axis_blocks import AxisBlock
from pecli.engine.schemes.given_positions import (
    LAST_POSITION,
    GivenPositions,
    GridParameter,
    GridSize,
    PositionList,
)
from pecli.engine.schemes.scheme import UNSET, Scheme
from pecli.engine.table import ByPosition
from pecli.errors import ParameterError, bracketed

if TYPE_CHECKING:
    from pecli.engine.numerics.axis_tables import Coordinates
    from pecli.engine.runtimes.runtime import Phases
    from pecli.engine.schemes.recipe_tables import Filler

_MAX_LISTED = 1 << 16  #: positions that a known mistake lists one by one
PLACED: dict[str, Any] = {"panel": "Positions", "omitted_default": None}
"""Parameters about where rows are: younger than the files that lack them."""
_sizes = partial(ListOf, each=Real("a number", above=0))
_GIVEN = GivenPositions("numbers, or a file of them, instead of --seq-len and --offset", **PLACED)
_BESIDE = "extra rows for non-patch tokens (CLS, registers), at the origin or as the style has it"
_KEEP = Whole(_BESIDE, low=0, high=2**20, **PLACED)
_GRID_BASE = _sizes("points that an axis of the grid is resampled from", **PLACED)


@dataclass(frozen=True, repr=False)
class Positioned(Scheme):
    """A scheme with a row per position: `seq_len` positions from `offset` on, those of a list, or those of a grid."""

    seq_len: Annotated[int, Whole("rows of the table, unless --positions or --grid is given")] = (
        UNSET
    )
    dim: Annotated[int, Whole("channels of a row", high=65536, default=MISSING)] = UNSET
    base: Annotated[float, Real("base of the frequencies", above=0, default=10000.0)] = UNSET
    _: KW_ONLY
    positions: Annotated[PositionList | None, _GIVEN] = None
    grid: Annotated[
        GridSize | None, GridParameter("one row per grid point, row-major", **PLACED)
    ] = None
    keep: Annotated[int | None, _KEEP] = None
    grid_base: Annotated[tuple[float, ...] | None, _GRID_BASE] = None
    grid_scale: Annotated[
        tuple[float, ...] | None, _sizes("divides the positions of a grid's axes", **PLACED)
    ] = None

    def _complete(self, preset: Mapping[str, Any]) -> None:
        """Rows that positions or a grid decide need not be given."""
        self._check_first("positions", "grid")
        self._check_place()
        if self.grid is not None and self.keep is None and preset.get("keep"):
            object.__setattr__(self, "keep", preset["keep"])
        if self.grid is not None or self.positions is not None:
            rows = (
                self.positions.shape[-1]
                if self.positions
                else math.prod(self.grid or ()) + (self.keep or 0)
            )
            other = self.seq_len not in (None, rows)
            self.refuse_if(other, "seq_len", f"{self.place()} has {rows} rows", "leave it out")
            object.__setattr__(self, "seq_len", rows)
        super()._complete({name: value for name, value in preset.items() if name != "keep"})

    def _check_place(self) -> None:
        style = self.grid_style
        if self.grid is None:
            for name in ("keep", "grid_base", "grid_scale"):
                self.refuse_if(
                    getattr(self, name) is not None, name, "it belongs to a grid", "add --grid"
                )
            if style is not None and self.positions is None:
                raise self.wrong("grid", f"the {style.name} style is of tables on grids")
        elif self.positions is not None:
            raise self.wrong("grid", "rows are those of a grid or of positions", "leave one out")
        elif style is None:
            axes = ", or 2 or 3 --axes" if "axes" in self.parameters() else ""
            rule = (
                f"the grid {self.grid.spelled()} needs a style, whose conventions it follows{axes}"
            )
            raise ParameterError("style", "missing", rule)

    def place(self) -> str:
        """Where rows are, in words."""
        if self.grid is not None:
            kept = f" with {self.keep} rows beside it" if self.keep else ""
            return f"the grid {self.grid.spelled()}{kept}"
        return (
            "it"
            if self.positions is None
            else f"positions of shape {bracketed(self.positions.shape)}"
        )

    def _check(self) -> None:
        if self.grid is not None and self.grid_style is not None:
            self.grid_style.check(self.grid, self.grid_base, self.grid_scale)
        given = not self.is_range and self.first_position
        self.refuse_if(given, "offset", "positions are given otherwise", "leave it out")
        beyond = self.first_position + self.seq_len - 1 > LAST_POSITION
        self.refuse_if(beyond, "offset", "the last position must be at most 2^40")

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

    def coordinates(self) -> Coordinates:
        """The positions of all rows, axis by axis, where these are not consecutive."""
        from pecli.engine.numerics.axis_tables import listed_coordinates

        if self.positions is not None:
            return listed_coordinates(self.positions.exact())
        assert self.grid is not None
        assert self.grid_style is not None
        return self.grid_style.coordinates(
            self.grid, self.keep or 0, self.grid_base, self.grid_scale
        )

    @property
    @abstractmethod
    def axis_blocks(self) -> tuple[AxisBlock, ...]:
        """The frequencies of each axis; none where all axes share those of the dim."""

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
        return numerics.joined(
            [self._frequencies(b, scale).take(b.indices) for b in self.axis_blocks if b.pairs]
        )

    def frequencies(self) -> Frequencies:
        """Those of all waves, in radians per position."""
        values, bits = self.block_frequencies()
        turn = 2 * numerics.pi(bits) if self.in_turns else 1 << bits
        return Frequencies(
            tuple(numerics.round_shift(value * turn, bits) for value in values), bits
        )

    def angular_frequencies(self) -> list[float]:
        return [self.value_of("scale", 1.0) * value for value in self.frequencies().floats()]

    def _frequencies(self, block: AxisBlock, scale: float) -> Frequencies:
        count = block.last + 1
        if block.law:
            rise, bits = (Fraction(self.base) - 1) / block.denominator, numerics.bits_for(1.0) + 64
            values = [1 + rise * i if block.law == "linear" else Fraction(0) for i in range(count)]
            return Frequencies(tuple(numerics.fixed(value, bits) for value in values), bits)
        if block.factor != 1:
            from pecli.engine.scalings.ntk import Ntk

            return Ntk(block.factor).frequencies(self.base, block.channels)
        return numerics.geometric(self.base, block.denominator, count, scale)

    @abstractmethod
    def waves(self, unit: Fraction = Fraction(1)) -> Waves:
        """What exact tables are made from: frequencies, over positions in multiples of a unit, and the amplitude."""

    def recipe_phases(self, recipe: Recipe) -> Iterator[tuple[Phases, range]]:
        """The phases that a recipe makes, and which of them the scheme has: those of its waves, in order."""
        from pecli.engine.schemes.recipe_tables import geometric_phases, rounded

        for block in self.axis_blocks:
            if block.law or block.factor != 1:  # these are no powers of one ratio
                exact = np.array(self._frequencies(block, 1.0).floats(), np.float32)
                yield partial(np.multiply, rounded(exact, recipe.frequencies)), block.indices
            else:
                yield (
                    geometric_phases(recipe, self.base, block.denominator, block.last + 1),
                    block.indices,
                )

    @property
    def amplitude_value(self) -> float:
        """What cos and sin are multiplied by, as float64."""
        return float(self.value_of("amplitude", 1.0))

    def filler(self, recipe: Recipe, rows: int, coordinates: Coordinates | None = None) -> Filler:
        """What makes cos and sin of about so many consecutive positions, or at the given coordinates."""
        if coordinates is None and recipe.is_exact and not recipe.table:
            return Rotation(self.waves, rows)
        from pecli.engine.numerics.axis_tables import AxisRotation
        from pecli.engine.schemes.recipe_tables import CastFiller, RecipeFiller

        several = coordinates is not None and len(coordinates.values) > 1
        axes = self.pair_axes[: self.rotating_pairs] if several else [0] * self.rotating_pairs
        if not recipe.is_exact:
            return RecipeFiller(self, recipe, axes, coordinates)
        exact = (
            Rotation(self.waves, rows)
            if coordinates is None
            else AxisRotation(self.waves, axes, coordinates)
        )
        return CastFiller(exact, recipe.table) if recipe.table else exact

    def row_filler(self, recipe: Recipe) -> Filler:
        """What makes cos and sin of its rows, wherever they are."""
        return self.filler(recipe, self.seq_len, None if self.is_range else self.coordinates())

    @property
    def _recipe(self) -> Recipe:
        return recipe_named(self.value_of("recipe", "exact"))

    @property
    def rows(self) -> int:
        return self.seq_len

    @property
    def parts(self) -> tuple[str, str]:
        """The functions of a wave, in the order of their channels."""
        return ("cos", "sin")

    def padding_rows(self, first: int, count: int) -> Indices:
        """Which of so many rows are zeros."""
        return np.empty(0, np.intp)

    def by_position(self) -> ByPosition:
        """Both functions of each wave side by side: layouts only arrange them."""
        frequencies = (self.computed_as("exact").inverse_frequencies() or [])[: self.rotating_pairs]
        self.refuse_if(not frequencies, "dim", "in halves, that leaves no frequency at all")
        filler, groups = (
            self.row_filler(self._recipe),
            np.arange(min(2 * len(frequencies), self.dim)) // 2,
        )

        def read(start: int, stop: int) -> Array:
            out = np.empty((stop - start, len(groups)), numpy_dtype(self.dtype))
            filler.fill(",".join(self.parts), self.first_position + start, out, self.dtype)
            out[self.padding_rows(self.first_position + start, len(out))] = 0
            return out

        return ByPosition(self.first_position, self.rows, "frequencies", frequencies, groups, read)
