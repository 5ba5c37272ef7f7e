"""Sinusoidal tables: the paper's, and those of other projects.

The angle of pair i is position · scale · base^(−i / (D/2 − freq_shift)), with a sine and a cosine
channel for each i. On a grid every axis has a share of the channels and its own angles.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Array, Flags, Indices
from pecli.engine.numerics.phases import ExactWaves
from pecli.engine.schemes.aliases import with_aliases
from pecli.engine.schemes.axis_blocks import AxisBlock
from pecli.engine.schemes.given_positions import PositionList
from pecli.engine.schemes.parameters import Choice, Flag, Real, Whole
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.recipes import RECIPE, check_base_of_recipe
from pecli.engine.schemes.row_places import RelativeRows, RowPlaces
from pecli.engine.schemes.scheme import UNSET, Axes
from pecli.engine.table import Table

if TYPE_CHECKING:
    from pecli.engine.schemes.grid_styles import GridStyle
    from pecli.engine.schemes.recipe_tables import Filler

_HALVES: Mapping[str, object] = {"layout": "halves"}
_TENSOR2TENSOR: Mapping[str, object] = {"layout": "halves", "freq_shift": 1.0}
_FAIRSEQ: Mapping[str, object] = {**_TENSOR2TENSOR, "padding_idx": 1}
_DIFFUSION: Mapping[str, object] = {"layout": "halves", "cos_first": True}

STYLES: Mapping[str, Mapping[str, object]] = {
    "paper": {},
    "lucid": {},
    "lightwatch": {},
    "roformer": _HALVES,
    "marian": _HALVES,
    "gptj": _HALVES,
    "ctrl": _HALVES,
    "tensor2tensor": _TENSOR2TENSOR,
    "whisper": _TENSOR2TENSOR,
    "fairseq": _FAIRSEQ,
    "m2m100": _FAIRSEQ,
    "fsmt": _FAIRSEQ,
    "ddpm": _TENSOR2TENSOR,
    "stable-diffusion": _DIFFUSION,
    "dit": _DIFFUSION,
    "flux": {**_DIFFUSION, "scale": 1000.0},  # Timesteps from 0 to 1.
    "mlx": _TENSOR2TENSOR,
    "x-transformers": _HALVES,
}
"""The parameters of each project's tables."""

_AMPLITUDES: Mapping[str, Callable[[int], float]] = {
    "mlx": lambda dim: math.sqrt(2 / dim),
    "x-transformers": lambda dim: 1 / math.sqrt(dim),
}
"""Amplitudes that depend on the dim: rows of such tables have length 1, or √½."""

EVEN_ONLY = frozenset({"roformer", "marian", "gptj", "ctrl", "mlx", "x-transformers"})
"""Styles whose projects have no table of an odd dim."""

GRID_STYLES = (
    "mae",
    "vit-mae",
    "sd3",
    "cogvideox",
    "detr",
    "timm",
    "positional-encodings-2d",
    "positional-encodings-3d",
)
"""Styles of tables on grids, which `grid_styles.ADDED` describes."""

_MIN_DENOMINATOR = Fraction(1, 2)
"""The least that freq_shift must leave of D/2: towards 0, the exponents −i/(D/2 − freq_shift) are
unbounded.
"""

_LAYOUT = Choice(
    "sin and cos in turn, or all sin, then all cos",
    default="interleaved",
    options=("interleaved", "halves"),
)
_COS_FIRST = Flag("cos before sin", default=False)
_FREQ_SHIFT = Real("subtracted from D/2 in the exponent", default=0.0)
_OFFSET = Whole("position of the first row", default=0, low=0)
_SCALE = Real("multiplies the positions", default=1.0, above=0)
_AMPLITUDE = Real("multiplies the values", default=1.0, above=1e-30, up_to=1e30)
_PADDING_IDX = Whole("the row of this position is zeros", low=0)
_RELATIVE = Flag(
    "positions L−1, …, −(L−1), L being --seq-len", panel="Positions", omitted_default=False
)
STYLE = Choice(
    "another project's conventions; options given beside it win",
    options=(*STYLES, *GRID_STYLES),
    omitted_default=None,
)
"""Styles of grids are part of the scheme; the others stand for other parameters, and leave no trace
in the spec.
"""


class HalfColumns(NamedTuple):
    """The columns of one block in the layout `halves`: all its sines, then all its cosines.

    With `cos_first` the left half has the cosines. A block of 2 pairs from column 4 on has the
    left half 4:6 and the right half 6:8.
    """

    left: slice
    right: slice


@with_aliases
@dataclass(frozen=True, repr=False)
class Sinusoidal(Positioned):
    """Sinusoidal positional encoding (Vaswani et al., 2017, https://arxiv.org/abs/1706.03762).

    The tensor is `pe` (seq_len, dim), whose rows are added to the input.

    Args:
        seq_len: rows of the table: positions offset, offset + 1, … Not with `positions` or `grid`.
        dim: channels of a row, D.
        base: base of the frequencies.
        layout: `interleaved` has sin and cos in turn, `halves` all sines, then all cosines.
        cos_first: cosines before sines.
        freq_shift: number subtracted from D/2 in the exponent; 1 in tensor2tensor, Whisper and
            fairseq.
        offset: position of the first row.
        scale: factor of the positions.
        amplitude: factor of the values.
        padding_idx: the row of this position is zeros.
        style: another project's conventions, such as whisper, fairseq or stable-diffusion, or on a
            grid mae, detr, timm; parameters given beside it win.
        positions: a row for each of these numbers, (L,), or (axes, L) with a style of grids.
        grid: a row for each point of a grid, (H, W) or (T, H, W), row-major; needs a `style`.
        keep: extra rows, zeros, for tokens beside the grid, such as CLS.
        grid_base: points from which the axes of the grid are resampled: one number, or one per
            axis.
        grid_scale: numbers that divide the positions of the grid's axes: one, or one per axis.
        relative: positions seq_len − 1, …, −(seq_len − 1), as in Transformer-XL.
        recipe: precision recipe that is emulated, such as float32; exact rounds once.
        dtype: type of the numbers in the table: float64, float32, float16 or bfloat16.

    Raises:
        ParameterError: a value breaks the rule of its parameter, or parameters contradict each
        other.

    >>> Sinusoidal(seq_len=2, dim=2, dtype="float64").tables()["pe"].tolist()
    [[0.0, 1.0], [0.8414709848078965, 0.5403023058681398]]
    >>> Sinusoidal(seq_len=1500, dim=384, style="whisper").layout
    'halves'
    """

    name = "sinusoidal"

    layout: Annotated[str, _LAYOUT] = UNSET
    cos_first: Annotated[bool, _COS_FIRST] = UNSET
    freq_shift: Annotated[float, _FREQ_SHIFT] = UNSET
    offset: Annotated[int, _OFFSET] = UNSET
    scale: Annotated[float, _SCALE] = UNSET
    amplitude: Annotated[float, _AMPLITUDE] = UNSET
    padding_idx: Annotated[int | None, _PADDING_IDX] = UNSET
    style: Annotated[str | None, STYLE] = None
    _: KW_ONLY
    relative: Annotated[bool, _RELATIVE] = False
    recipe: Annotated[str, RECIPE] = "exact"

    def __post_init__(self) -> None:
        """Fill in the parameters that the style stands for, and check all of them.

        A style of grids, such as "mae", is kept: it also defines the positions on the grid. Any
        other style, such as "fairseq", only stands for parameters, and is replaced by them.
        """
        self._check_and_convert("style", "dim", "relative")
        self._refuse_if(self.dim is None, "dim", self.parameters()["dim"].rule)
        style = self.grid_style
        if style is not None:
            self._fill_in_and_check({"layout": style.layout, "base": style.base})
        else:
            self._fill_in_and_check(self._replace_style())

    def _replace_style(self) -> dict[str, object]:
        """Remove a style without a grid, and return the parameters that it stands for.

        So equal tables have equal specs: Sinusoidal(8, 4, style="whisper") is the same scheme as
        with layout="halves" and freq_shift=1.
        """
        style = self.style
        rule = f"on grids it must be one of {', '.join(GRID_STYLES)}"
        self._refuse_if(self.grid is not None and style, "style", rule)
        is_odd = self.dim % 2 == 1
        rule = f"the {style} style has even dims only"
        self._refuse_if(style in EVEN_ONLY and is_odd, "dim", rule)
        self._set("style", None)
        return self._parameters_of_style(style or "paper")

    def _parameters_of_style(self, style: str) -> dict[str, object]:
        """Return the parameters of a project's tables of this dim."""
        preset = dict(STYLES[style])
        if style in _AMPLITUDES:
            preset["amplitude"] = _AMPLITUDES[style](self.dim)
        return preset

    def _check(self) -> None:
        """Raise ParameterError for parameters that exclude each other."""
        super()._check()
        self._check_relative()
        if self.positions is not None:
            self._check_axes_of_positions(self.positions)
        self._check_cut_halves()
        for block in self.axis_blocks:
            self._check_block(block)
        check_base_of_recipe(self.recipe, self.base)

    def _check_relative(self) -> None:
        """Raise ParameterError for relative positions beside others, and padding without a token.

        Relative positions run from L − 1 to −(L − 1), so that a list or a grid contradicts them.
        Neither they nor the points of a grid have a padding token.
        """
        if self.relative:
            has_other_positions = not super()._row_places.is_range
            rule = "it has positions of its own"
            self._refuse_if(has_other_positions, "relative", rule, "give --seq-len alone")
        if self.relative or self.grid is not None:
            rule = "such a table has no row of padding"
            self._refuse_if(self.padding_idx is not None, "padding_idx", rule, "leave it out")

    def _check_cut_halves(self) -> None:
        """Raise ParameterError for the layout `halves` if the last channels are cut off.

        The axes of a style may have more pairs than fit into `dim`. In halves, the channels that
        are cut off would be all cosines of the last pairs.
        """
        is_cut = 2 * self.rotating_pairs > self.dim
        rule = f"the {self.style} style leaves out channels, which are interleaved"
        self._refuse_if(is_cut and self.layout == "halves", "layout", rule)

    def _check_axes_of_positions(self, positions: PositionList) -> None:
        """Raise ParameterError unless positions have as many axes as the style of grids has.

        MAE's style has the axes h and w, and positions (2, L); without a style they are (L,).
        """
        axis_count = len(positions.axes)
        style = self.grid_style
        if style is None:
            rule = "without a style of grids they must be of shape (L,)"
            self._refuse_if(axis_count != 1, "positions", rule)
            return
        axes = style.sorted_axes
        rule = (
            f"the {style.name} style has the axes {', '.join(axes)}: "
            f"they must be of shape ({len(axes)}, L)"
        )
        self._refuse_if(axis_count != len(axes), "positions", rule)

    def _check_block(self, block: AxisBlock) -> None:
        """Raise ParameterError if the exponents −i / (D/2 − freq_shift) of an axis are too large.

        dim 4 with freq_shift 1.75 leaves 2 − 1.75 = 0.25 as the denominator, and is refused.
        """
        half_dim = float(block.denominator + Fraction(self.freq_shift))
        has_powers = block.pairs >= 2  # A single frequency is base^0, whatever the denominator.
        is_too_small = has_powers and block.denominator < _MIN_DENOMINATOR
        rule = f"it must leave at least 0.5 of D/2 = {half_dim:g}"
        self._refuse_if(is_too_small, "freq_shift", rule)
        largest_exponent = float(block.last / block.denominator)
        numerics.check_base(self.base, largest_exponent, self.scale)

    @property
    def grid_style(self) -> "GridStyle | None":
        """Return the conventions of a style of grids, such as "mae"; None for any other style."""
        if self.style not in GRID_STYLES:
            return None
        from pecli.engine.schemes.grid_styles import ADDED

        return ADDED[self.style]

    @property
    def _row_places(self) -> RowPlaces:
        places = super()._row_places
        if self.relative and places.is_range:
            return RelativeRows(self.seq_len)
        return places

    @property
    def inert_parameters(self) -> frozenset[str]:
        inert = super().inert_parameters
        return inert - {"seq_len"} if self.relative else inert

    @property
    def _rows(self) -> int:
        return 2 * self.seq_len - 1 if self.relative else self.seq_len

    @cached_property
    def axis_blocks(self) -> tuple[AxisBlock, ...]:
        """Return the frequencies base^(−i / (D/2 − freq_shift)) of each axis of positions.

        Most tables have one axis of D channels; on a grid, each axis has a share of the channels.
        """
        shift = Fraction(self.freq_shift)
        blocks = []
        for block in self._unshifted_blocks():
            # A single frequency is base^0 = 1, even if the shift makes its denominator 0.
            denominator = block.denominator - shift if block.pairs > 1 else Fraction(1)
            blocks.append(block._replace(denominator=denominator))
        return tuple(blocks)

    def _unshifted_blocks(self) -> tuple[AxisBlock, ...]:
        """Return the frequencies base^(−i / (D/2)) of each axis of positions, i < pairs.

        With an odd dim, projects with halves have a last column of zeros: dim 5 has 2 pairs, over
        D/2 = 2. Interleaved tables end on a sine without its cosine: dim 5 has 3 pairs, over 2.5.
        """
        style = self.grid_style
        if style is not None:
            return style.blocks(self.dim)
        if self.layout == "halves":
            pairs = self.dim // 2
            return (AxisBlock(0, 2 * pairs, Fraction(pairs)),)
        pairs = (self.dim + 1) // 2
        return (AxisBlock(0, 2 * pairs, Fraction(self.dim, 2)),)

    def inverse_frequencies(self) -> list[float]:
        """Return base^(−i / (D/2 − freq_shift)), axis by axis; dim 1 in halves has none."""
        return self.frequencies().floats()

    def waves(self, unit: Fraction = Fraction(1)) -> ExactWaves:
        """Return the frequencies of all axes times the scale of positions, and the amplitude."""
        frequencies = self._block_frequencies(self.scale)
        scale = unit * Fraction(self.scale)
        return ExactWaves.from_frequencies(
            frequencies, scale=scale, amplitude=self.amplitude, in_turns=self._in_turns
        )

    def tensors(self) -> tuple[Table, ...]:
        """Return the table `pe` (rows, dim), whose rows are computed when they are read."""
        filler = self._row_filler(self._recipe)
        fill = partial(self._fill_rows, filler, self.half_columns())
        return (Table("pe", self.dtype, (self._rows, self.dim), fill),)

    def _fill_rows(
        self, filler: "Filler", half_columns: list[HalfColumns], start_row: int, out: Array
    ) -> None:
        """Write the rows start_row, start_row + 1, … of the table into `out`.

        Rows of tokens beside a grid, and of a padding token, are zeros.

        Args:
            filler: Computes the sines and cosines.
            half_columns: The columns of each block, for the layout `halves`.
            start_row: The first row.
            out: The rows (n, dim).
        """
        start_position = self.offset + start_row
        if self.layout == "interleaved":
            filler.fill(",".join(self._functions), start_position, out, self.dtype)
        else:
            self._fill_halves(filler, half_columns, start_position, out)
        out[: self._rows_beside_grid(start_row)] = 0
        out[self._padding_rows(start_position, len(out))] = 0

    def _rows_beside_grid(self, start_row: int) -> int:
        """Return how many of the rows from `start_row` on belong to tokens beside the grid.

        The first `keep` rows do, such as that of CLS. They have no place on the grid, and MAE's
        tables have zeros there.
        """
        return max(0, (self.keep or 0) - start_row)

    def _fill_halves(
        self, filler: "Filler", half_columns: list[HalfColumns], start_position: int, out: Array
    ) -> None:
        """Write rows of the layout `halves` into `out`: all sines, then all cosines, or vice versa.

        Tables of images have two such blocks of columns, one for the row of an image point and one
        for its column: s0 s1 | c0 c1, then s2 s3 | c2 c3.

        Args:
            filler: Computes the sines or cosines of all pairs at consecutive positions.
            half_columns: The left and the right half of each block: in the example the columns 0:2
                and 2:4, then 4:6 and 6:8.
            start_position: The position of the first row.
            out: The rows (positions, dim).
        """
        used_columns = 2 * self.rotating_pairs
        out[:, used_columns:] = 0  # An odd dim has one more column.
        if not used_columns:  # A dim of 1 has only that.
            return
        left_function, right_function = self._functions  # "sin", "cos", or the other way round
        left_halves = [columns.left for columns in half_columns]  # 0:2 and 4:6 in the example
        right_halves = [columns.right for columns in half_columns]  # 2:4 and 6:8
        self._fill_function(filler, left_function, left_halves, start_position, out)
        self._fill_function(filler, right_function, right_halves, start_position, out)

    def _fill_function(
        self,
        filler: "Filler",
        function: str,
        places: list[slice],
        start_position: int,
        out: Array,
    ) -> None:
        """Write one function, "sin" or "cos", of all pairs into its columns of a table.

        The columns may be in several places: MAE's tables have sines and cosines of one axis, then
        those of another. With 2 pairs per axis, the sines have the columns 0:2 and 4:6.

        Args:
            filler: Computes the function at consecutive positions.
            function: "sin" or "cos".
            places: The columns of the function.
            start_position: The position of the first row.
            out: The rows (positions, dim).
        """
        if len(places) == 1:
            (columns,) = places
            filler.fill(function, start_position, out[:, columns], self.dtype)
            return
        # The filler writes neighbouring columns only: all pairs are computed elsewhere, and copied.
        all_pairs = np.empty((len(out), self.rotating_pairs), out.dtype)
        filler.fill(function, start_position, all_pairs, self.dtype)
        _copy_columns(all_pairs, places, out)

    @property
    def _functions(self) -> tuple[str, str]:
        """Return the function of the left half, or of even channels, and that of the others."""
        return ("cos", "sin") if self.cos_first else ("sin", "cos")

    def half_columns(self) -> list[HalfColumns]:
        """Return the columns of each block of pairs, in halves.

        Two axes of 2 pairs each, rows and columns of an image: MAE has the columns sin cos of one
        axis, then of the other, so 0:2 and 2:4, then 4:6 and 6:8. timm has all sines before all
        cosines: one block, 0:4 and 4:8.
        """
        columns = []
        start = 0
        for pairs in self._pairs_of_blocks():
            middle = start + pairs
            end = middle + pairs
            columns.append(HalfColumns(left=slice(start, middle), right=slice(middle, end)))
            start = end
        return columns

    def _pairs_of_blocks(self) -> list[int]:
        """Return the pairs of each block of halves: of each axis, or all pairs in one block."""
        style = self.grid_style
        has_halves_per_axis = style is not None and not style.sines_first
        if has_halves_per_axis:
            return [block.pairs for block in self.axis_blocks]
        return [self.rotating_pairs]

    def _padding_rows(self, first: int, count: int) -> Indices:
        """Return which of `count` rows have the position padding_idx, counted from the first one.

        With padding_idx 1, as in fairseq, rows of the positions 0, 1, 2 return [1].

        Args:
            first: The position of the first row, or its index if positions are listed.
            count: The number of rows.
        """
        if self.padding_idx is None:
            return super()._padding_rows(first, count)
        if self.is_range:
            positions = np.arange(first, first + count)
            return np.flatnonzero(positions == self.padding_idx)
        return np.flatnonzero(self._has_listed_position(self.padding_idx, first, count))

    def _has_listed_position(self, position: int, first_row: int, count: int) -> Flags:
        """Return True for each of some rows that has this position in the list of positions.

        Coordinates have each different position once, and the index of each row's position there.
        For the list 7, 1, 7, these are 1 and 7, with the indices 1, 0, 1: of the three rows, only
        the second has the position 1.
        """
        coordinates = self.coordinates()
        # A table with a padding row has a single axis.
        (distinct_positions,) = coordinates.values
        (index_of_row,) = coordinates.index(first_row, first_row + count)
        is_position = np.array([distinct == position for distinct in distinct_positions])
        has_position: Flags = is_position[index_of_row]
        return has_position

    def axes_of(self, tensor: str) -> Axes:
        step = 2 if self.layout == "interleaved" else 1
        return Axes(("position", "channel"), self.offset, step=step)


def _copy_columns(columns: Array, places: list[slice], out: Array) -> None:
    """Copy neighbouring columns into places of a table that are apart, from left to right.

    With the places 0:2 and 4:6, the columns 0, 1, 2 and 3 become the columns 0, 1, 4 and 5.
    """
    start = 0
    for place in places:
        stop = start + place.stop - place.start
        out[:, place] = columns[:, start:stop]
        start = stop
