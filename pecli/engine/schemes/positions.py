"""Schemes with a row per position: a range, a list of positions, or the points of a grid."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Annotated

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Array, Indices, numpy_dtype
from pecli.engine.named_values import NamedValues, required
from pecli.engine.numerics import Frequencies
from pecli.engine.numerics.cos_sin_tables import ExactFiller
from pecli.engine.numerics.phases import ExactWaves
from pecli.engine.schemes.axis_blocks import AxisBlock
from pecli.engine.schemes.given_positions import (
    LAST_POSITION,
    GivenPositions,
    GridParameter,
    GridSize,
    PositionList,
)
from pecli.engine.schemes.parameters import ListOf, Real, Whole
from pecli.engine.schemes.recipes import PrecisionRecipe, recipe_named
from pecli.engine.schemes.row_places import RANGE, GridOfRows, ListedRows, RowPlaces
from pecli.engine.schemes.scheme import UNSET, Scheme
from pecli.engine.table import ByPosition

if TYPE_CHECKING:
    from pecli.engine.numerics.axis_tables import AxisFiller, Coordinates
    from pecli.engine.runtimes.runtime import AngleFunction
    from pecli.engine.schemes.recipe_tables import Filler, PairAngles, RecipeFiller

PLACED: NamedValues = {"panel": "Positions", "omitted_default": None}
"""Options of the parameters about places of rows; they were added after the first release, so old
specs lack them.
"""

_GRID_ONLY = ("keep", "grid_base", "grid_scale")
_SEQ_LEN = Whole("rows of the table, unless --positions or --grid is given")
_DIM = Whole("channels of a row", high=65536, default=MISSING)
_BASE = Real("base of the frequencies", above=0, default=10000.0)
_POSITIONS = GivenPositions(
    "numbers, or a file of them, instead of --seq-len and --offset", **PLACED
)
_GRID = GridParameter("one row per grid point, row-major", **PLACED)
_KEEP = Whole(
    "extra rows for non-patch tokens (CLS, registers), at the origin or as the style has it",
    low=0,
    high=2**20,
    **PLACED,
)
_GRID_BASE = ListOf(
    "points that an axis of the grid is resampled from", each=Real("a number", above=0), **PLACED
)
_GRID_SCALE = ListOf(
    "divides the positions of a grid's axes", each=Real("a number", above=0), **PLACED
)


@dataclass(frozen=True, repr=False)
class Positioned(Scheme):
    """A scheme with a row per position.

    The positions are `seq_len` numbers from the offset on, those of a list, or those of a grid.
    """

    seq_len: Annotated[int, _SEQ_LEN] = UNSET
    dim: Annotated[int, _DIM] = UNSET
    base: Annotated[float, _BASE] = UNSET
    _: KW_ONLY
    positions: Annotated[PositionList | None, _POSITIONS] = None
    grid: Annotated[GridSize | None, _GRID] = None
    keep: Annotated[int | None, _KEEP] = None
    grid_base: Annotated[tuple[float, ...] | None, _GRID_BASE] = None
    grid_scale: Annotated[tuple[float, ...] | None, _GRID_SCALE] = None

    def _fill_in_and_check(self, preset: Mapping[str, object]) -> None:
        """Fill in the parameters that were left out, and check all of them.

        A list of 5 positions has 5 rows. A grid of 2 × 3 points has 6, and `keep` more for tokens
        beside it, such as CLS. So these parameters are checked first, and decide `seq_len`; then the
        base class fills in and checks the others.

        Args:
            preset: Parameters of the style, for those that the user left out.
        """
        self._check_and_convert("positions", "grid", "keep")
        self._check_positions_or_grid()
        self._fill_in_keep()
        self._fill_in_rows()
        super()._fill_in_and_check(preset)

    def _fill_in_keep(self) -> None:
        """Set `keep`, the rows beside a grid, to those of the style if the user gave no number."""
        if self.grid is None or self.keep is not None:
            return
        style = self.grid_style
        if style is not None:
            self._set("keep", style.keep or None)

    def _fill_in_rows(self) -> None:
        """Set `seq_len` to the number of rows, if a list of positions or a grid decides it.

        Raises:
            ParameterError: The user gave another `seq_len`, or none that is a number.
        """
        places = self._row_places
        rows = places.count
        if rows is None:  # The rows are consecutive positions: only `seq_len` states how many.
            return
        self._check_and_convert("seq_len")  # The user may have given a text, or half a row.
        is_another_number = self.seq_len not in (None, rows)
        rule = f"{places.description} has {rows} rows"
        self._refuse_if(is_another_number, "seq_len", rule, "leave it out")
        self._set("seq_len", rows)

    @property
    def _row_places(self) -> RowPlaces:
        """Return how positions are given: one by one, as a grid, or as a range of `seq_len` rows."""
        if self.positions is not None:
            return ListedRows(self.positions)
        if self.grid is not None:
            keep = self.keep or 0
            return GridOfRows(self.grid, keep, self.grid_style, self.grid_base, self.grid_scale)
        return RANGE

    def _check_positions_or_grid(self) -> None:
        """Raise ParameterError unless rows are a range, a list of positions, or a grid with a style."""
        if self.grid is None:
            self._check_without_grid()
            return
        has_positions = self.positions is not None
        rule = "rows are those of a grid or of positions"
        self._refuse_if(has_positions, "grid", rule, "leave one out")
        rule = f"the grid {self.grid.spelled()} needs a style, whose conventions it follows"
        advice = "of a rotation, --axes will do"
        self._refuse_if(self.grid_style is None, "style", rule, advice)

    def _check_without_grid(self) -> None:
        """Raise ParameterError for parameters that need a grid, and for a style without rows."""
        self._refuse_set(_GRID_ONLY, "it belongs to a grid", "add --grid")
        lacks_rows = self.grid_style is not None and self.positions is None
        self._refuse_if(
            lacks_rows, "grid", f"the {self.value_of('style')} style is of tables on grids"
        )

    def _check(self) -> None:
        """Raise ParameterError for a grid that its style refuses, or positions out of range."""
        if self.grid is not None:  # Then there is a style, as was checked before.
            required(self.grid_style).check(self.grid, self.grid_base, self.grid_scale)
        is_moved = not self.is_range and self.first_position
        self._refuse_if(is_moved, "offset", "positions are given otherwise", "leave it out")
        last = self.first_position + self.seq_len - 1
        self._refuse_if(last > LAST_POSITION, "offset", "the last position must be at most 2^40")

    @property
    def is_range(self) -> bool:
        return self._row_places.is_range

    @property
    def inert_parameters(self) -> frozenset[str]:
        """Return the parameters that a list of positions or a grid, and its style, state already.

        Commands leave them out: 4 positions imply seq_len 4, and mae implies its base and layout.
        """
        if self.is_range:
            return frozenset()
        implied = {"seq_len", "offset"}
        style = self.grid_style
        if style is not None:
            values_of_style = {"keep": style.keep, "base": style.base, "layout": style.layout}
            for name, value in values_of_style.items():
                if getattr(self, name) == value:
                    implied.add(name)
        return frozenset(implied)

    def coordinates(self) -> Coordinates:
        """Return the positions of all rows, axis by axis; only for rows that are not a range."""
        return self._row_places.coordinates()

    @property
    def _in_turns(self) -> bool:
        """Return True if positions are turns: angles are 2π times positions and frequencies."""
        return self.grid_style is not None and self.grid_style.in_turns

    @property
    @abstractmethod
    def axis_blocks(self) -> tuple[AxisBlock, ...]:
        """Return the frequencies of each axis; none if all axes share those of the dim."""

    @property
    def pair_axes(self) -> list[int]:
        """Return the axis of positions that each frequency follows: 0 0 1 1 1 for blocks of 2 and 3."""
        axes: list[int] = []
        for block in self.axis_blocks:
            axes += [block.axis] * block.pairs
        return axes

    @property
    def rotating_pairs(self) -> int:
        """Return the number of frequencies that are not zero."""
        return sum(block.pairs for block in self.axis_blocks)

    def frequencies(self) -> Frequencies:
        """Return the exact frequencies of all pairs, in radians per position.

        They are integers over 2**bits. Some styles of grids have them in turns, of 2π radians each.
        """
        frequencies = self._block_frequencies()
        if not self._in_turns:
            return frequencies
        bits = frequencies.bits
        turn = 2 * numerics.pi(bits)
        radians = [numerics.round_shift(value * turn, bits) for value in frequencies.values]
        return Frequencies(tuple(radians), bits)

    def angular_frequencies(self) -> list[float]:
        scale = self.value_of("scale", 1.0)
        return [scale * value for value in self.frequencies().floats()]

    def _block_frequencies(self, scale: float = 1.0) -> Frequencies:
        """Return the exact frequencies of all axes, one axis after the other.

        Args:
            scale: The factor of the positions, which decides how exact frequencies have to be.
        """
        frequencies_of_axes = []
        for block in self.axis_blocks:  # A block has the frequencies of one axis, perhaps none.
            if block.pairs:
                frequencies = self._progression(block, scale)
                frequencies_of_axes.append(frequencies.take(block.indices))
        return numerics.joined(frequencies_of_axes)

    def _progression(self, block: AxisBlock, scale: float) -> Frequencies:
        """Return the exact frequencies with the indices 0, 1, … up to the last one of a block.

        A block, which has the frequencies of one axis, may leave out some: 0, 2, 4, … in Pixtral.
        """
        return block.progression.frequencies(block, self.base, scale)

    @abstractmethod
    def waves(self, unit: Fraction = Fraction(1)) -> ExactWaves:
        """Return the exact frequencies and the amplitude, for positions that count units.

        With the unit 1/2, the position 1.5 is 3 units, and frequencies are half as large.
        """

    def _angle_functions(self, recipe: PrecisionRecipe) -> Iterator[PairAngles]:
        """Yield the function that computes the angles of each axis of positions.

        A recipe is a precision to imitate: it may round frequencies, positions and angles.
        """
        from pecli.engine.schemes.recipe_tables import PairAngles

        for block in self.axis_blocks:  # A block has the frequencies of one axis.
            yield PairAngles(self._angles_of_block(block, recipe), columns=block.indices)

    def _angles_of_block(self, block: AxisBlock, recipe: PrecisionRecipe) -> AngleFunction:
        """Return a function from positions to the angles of an axis, which rounds as a recipe.

        The angles have a column for each index from 0 to the last one of the block: 7 columns for
        the indices 0, 2, 4 and 6.

        Args:
            block: The frequencies of the axis, by the indices i of base^(−i/denominator).
            recipe: The precision to imitate.
        """
        from pecli.engine.schemes.recipe_tables import geometric_angles, multiples_of, rounded

        if block.progression.is_geometric:
            return geometric_angles(recipe, self.base, block.denominator, count=block.last + 1)
        # Another series, such as frequencies in equal steps: exact ones, rounded to float32.
        exact_frequencies = self._progression(block, scale=1.0).floats()
        singles = np.array(exact_frequencies, np.float32)
        return multiples_of(rounded(singles, recipe.frequency_dtype))

    @property
    def _amplitude(self) -> float:
        """Return the factor of cos and sin."""
        return float(self.value_of("amplitude", 1.0))

    def _filler(
        self, recipe: PrecisionRecipe, rows: int, coordinates: Coordinates | None = None
    ) -> Filler:
        """Return an object whose method `fill` writes rows of cosines and sines into an array.

        A recipe is the precision of a program, to be imitated: frequencies in float16, for example.

        Args:
            recipe: the precision in which they are computed.
            rows: about how many consecutive positions are needed.
            coordinates: the positions, if they are not consecutive.
        """
        if not recipe.is_exact:
            return self._make_filler_of_recipe(recipe, coordinates)
        # Cosines and sines are exact. A program may still store its table in a dtype of its own.
        exact_filler = self._exact_filler(rows, coordinates)
        if not recipe.table_dtype:
            return exact_filler
        from pecli.engine.schemes.recipe_tables import CastFiller

        return CastFiller(exact_filler, recipe.table_dtype)

    def _exact_filler(self, rows: int, coordinates: Coordinates | None) -> ExactFiller | AxisFiller:
        """Return an object that computes correctly rounded rows."""
        if coordinates is None:
            return ExactFiller(self.waves, rows)  # The most usual one needs no further modules.
        from pecli.engine.numerics.axis_tables import AxisFiller

        return AxisFiller(self.waves, self._axis_of_each_pair(coordinates), coordinates)

    def _make_filler_of_recipe(
        self, recipe: PrecisionRecipe, coordinates: Coordinates | None
    ) -> RecipeFiller:
        """Return an object that computes rows of cosines and sines in the precision of a program.

        A recipe states to which dtypes the program rounds positions, frequencies, angles and the table.
        The rows then have the same rounding errors.

        Args:
            recipe: The precision.
            coordinates: The position of each row on each axis; None if positions are consecutive.
        """
        from pecli.engine.schemes.recipe_tables import RecipeFiller, RecipeWaves

        waves = RecipeWaves(
            angle_functions=partial(self._angle_functions, recipe),  # called for the first rows
            axes=self._axis_of_each_pair(coordinates),
            amplitude=self._amplitude,  # the factor of cosines and sines
            scale=self.value_of("scale", 1.0),  # the factor of positions
            in_turns=self._in_turns,  # True if angles are 2π · position · frequency
        )
        return RecipeFiller(waves, recipe, coordinates)

    def _axis_of_each_pair(self, coordinates: Coordinates | None) -> list[int]:
        """Return the axis that each rotating pair follows: 0 if positions have a single axis."""
        has_several_axes = coordinates is not None and len(coordinates.values) > 1
        if has_several_axes:
            return self.pair_axes[: self.rotating_pairs]
        return [0] * self.rotating_pairs

    def _row_filler(self, recipe: PrecisionRecipe) -> Filler:
        """Return an object that fills the rows of the scheme's own tables."""
        coordinates = None if self.is_range else self.coordinates()
        return self._filler(recipe, self.seq_len, coordinates)

    @property
    def _recipe(self) -> PrecisionRecipe:
        return recipe_named(self.value_of("recipe", "exact"))

    @property
    def _rows(self) -> int:
        return self.seq_len

    @property
    def _functions(self) -> tuple[str, str]:
        """Return the functions of a wave, in the order of their channels."""
        return ("cos", "sin")

    def _padding_rows(self, first: int, count: int) -> Indices:
        """Return which of `count` rows from the position `first` on are zeros."""
        return np.empty(0, np.intp)

    def audited_rows(self) -> ByPosition:
        """Return the rows in which an audit measures rounding errors, frequency by frequency.

        A row has the cosine and sine of each frequency, c0 s0 c1 s1 …, or the sines first, whatever
        layout the table has. Rows have the roundings of this scheme; an audit compares them with
        those of the exact scheme.
        """
        frequencies = self._exact_rotating_frequencies()
        # A sinusoidal table of dim 1 in the layout `halves` has only a column of zeros.
        self._refuse_if(not frequencies, "dim", "in halves, that leaves no frequency at all")
        columns = min(2 * len(frequencies), self.dim)  # An odd dim lacks the last column.
        filler = self._row_filler(self._recipe)

        def read(start: int, stop: int) -> Array:
            """Return the rows start … stop − 1."""
            return self._audited_block(filler, columns, start, stop)

        return ByPosition(
            first=self.first_position,
            count=self._rows,
            kind="frequencies",
            values=frequencies,
            groups=np.arange(columns) // 2,  # Errors of c0 and s0 are those of frequency 0.
            read=read,
        )

    def _exact_rotating_frequencies(self) -> list[float]:
        """Return the radians per position of all pairs that rotate, without a recipe's roundings."""
        exact_scheme = self.computed_as("exact")
        frequencies = required(exact_scheme.inverse_frequencies())
        return frequencies[: self.rotating_pairs]  # Pairs that do not rotate come last.

    def _audited_block(self, filler: Filler, columns: int, start: int, stop: int) -> Array:
        """Return the rows start … stop − 1 of `audited_rows`.

        Args:
            filler: Computes the cosines and sines.
            columns: The number of columns, two per frequency.
            start: The first row.
            stop: The row after the last one.
        """
        out = np.empty((stop - start, columns), numpy_dtype(self.dtype))
        first_position = self.first_position + start
        cos_and_sin = ",".join(self._functions)
        filler.fill(cos_and_sin, first_position, out, self.dtype)
        # Tables such as fairseq's have zeros at the position of the padding token.
        out[self._padding_rows(first_position, len(out))] = 0
        return out


def source_of_rows(scheme: Positioned) -> str:
    """Return the place of the rows as the subject of a sentence."""
    return scheme._row_places.description
