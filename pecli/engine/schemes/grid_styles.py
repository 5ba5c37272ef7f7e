"""Tables on grids as other projects make them: axes, shares of the channels, positions.

An axis of d channels has the angles p · base^(−i/(d/2)), i < d/2, at position p. A style is data:
`ADDED` has those of tables that are added (`Sinusoidal`), `ROTARY` those of rotations (`Rope`). To
add a project, add a row.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Indices
from pecli.engine.numerics.axis_tables import Coordinates
from pecli.engine.schemes.axis_blocks import AxisBlock
from pecli.engine.schemes.axis_divisions import (
    ALTERNATING,
    LINEAR_RISE,
    MIXED,
    OWN,
    RISING,
    SHARED,
    AxisShare,
    Division,
)
from pecli.errors import ParameterError, spelled

AXIS_LETTERS = "thwl"
"""Time, rows (height) and columns (width) of a grid, and text (l) beside it: the order of the axes
of positions.
"""

Split = Callable[[int], Sequence[int]]
"""Returns how many of dim channels each axis has."""

_HALF = Fraction(1, 2)


def shares(*parts: Fraction) -> Split:
    """Return a split into these proportions, rounded down.

    >>> shares(Fraction(1, 8), Fraction(7, 16), Fraction(7, 16))(128)
    [16, 56, 56]
    """
    return lambda dim: [math.floor(dim * part) for part in parts]


def _two_thirds_for_space(dim: int) -> list[int]:
    """Return the split of Wan and Cosmos: even thirds for rows and columns, the rest for time.

    128 channels are 44 for time, 42 for rows and 42 for columns.
    """
    third = 2 * (dim // 6)
    return [dim - 2 * third, third, third]


def _in_even_parts(count: int) -> Split:
    """Return the split of the package positional-encodings: equal even parts, rounded up.

    12 channels on three axes are 4 each; 10 channels on two axes are 6 each, of which the last two
    are cut off.
    """
    return lambda dim: [math.ceil(Fraction(dim, 2 * count)) * 2] * count


def _index(i: int, n: int, axis: str) -> Fraction:
    return Fraction(i)


def _from_one(i: int, n: int, axis: str) -> Fraction:
    return Fraction(i + 1)


def _centred(i: int, n: int, axis: str) -> Fraction:
    """Return −2, −1, 0, 1 for four points, as Qwen-Image has them; time starts at 0."""
    if axis == "t":
        return Fraction(i)
    return Fraction(i - (n - n // 2))


def _middle_of_latent(i: int, n: int, axis: str) -> Fraction:
    """Return the middle of a latent of LTX-2: of 8 frames, except for the first, of one frame.

    Time has the middles 1/16, 5/8, 13/8, …, in latents of 8 frames; rows and columns have 1/2, 3/2,
    …
    """
    if axis != "t":
        return i + _HALF
    if i == 0:
        return Fraction(1, 16)
    return i - Fraction(3, 8)


def _edge_to_edge(i: int, n: int, axis: str) -> Fraction:
    """Return −1/2 for the first point and 1/2 for the last."""
    return Fraction(i, max(1, n - 1)) - _HALF


def _minus_one_to_one(i: int, n: int, axis: str) -> Fraction:
    """Return the middles of n equal parts of −1 to 1: −3/4, −1/4, 1/4, 3/4 for four."""
    return Fraction(2 * i + 1, n) - 1


def _share(i: int, n: int, axis: str) -> Fraction:
    """Return 1/n, 2/n, …, 1, except for the 1e-6 that DETR adds to n against a division by zero."""
    return (i + 1) / (n + Fraction(1, 10**6))


COORDINATES: Mapping[str, Callable[[int, int, str], Fraction]] = {
    "index": _index,
    "from one": _from_one,
    "centred": _centred,
    "video latents": _middle_of_latent,
    "edge to edge": _edge_to_edge,
    "-1 to 1": _minus_one_to_one,
    "share": _share,
}
"""The position of point i of n along an axis."""


def _as_it_is(position: Fraction) -> Fraction:
    return position


def _rounded_down(position: Fraction) -> Fraction:
    """Return a whole position, as CogView4 has it."""
    return Fraction(math.floor(position))


def _middle_of_two(position: Fraction) -> Fraction:
    """Return p/2 − 1/4, the place of LTX's latents: 1/4 for p = 1."""
    return position / 2 - Fraction(1, 4)


class GridRows(NamedTuple):
    """The sizes of an image or video, and the number of tokens that are not in it, such as CLS."""

    time: int
    height: int
    width: int
    tokens: int

    @classmethod
    def of(cls, grid: Sequence[int], tokens: int) -> "GridRows":
        """Return the sizes of a grid (T, H, W), or (H, W) for a single image."""
        *times, height, width = grid
        return cls(time=math.prod(times), height=height, width=width, tokens=tokens)

    @property
    def points(self) -> int:
        return self.time * self.height * self.width

    def size_of(self, axis: str) -> int:
        """Return the number of points along an axis; text has one."""
        return {"t": self.time, "h": self.height, "w": self.width, "l": 1}[axis]


@dataclass(frozen=True)
class GridStyle:
    """One project's conventions for tables on grids.

    Attributes:
        name: the name of the style.
        axes: the axes in the order of their channels: t time, h rows, w columns, l text.
        split: how many of dim channels each of them has.
        base: the base of the frequencies, unless another is given.
        layout: the order of sines and cosines of an axis in a table that is added: halves or
            interleaved.
        sines_first: all sines come before all cosines; otherwise each axis has its own halves.
        coordinate: the positions along an axis, a name in `COORDINATES`.
        in_turns: positions are multiplied by 2π.
        keep: rows for tokens beside the grid, unless another number is given.
        keep_last: these rows come after the grid.
        counted: the axes along which these rows count, from `first` on. If time is one, the grid
            comes at the next time.
        first: the first number of these rows.
        merge: points come in blocks of merge × merge, of which the model makes one token.
        repeats_time: every image of a video has the same rows.
        division: the way in which frequencies are divided among the axes.
        cut: the last channels are left out if the axes have more than dim.
        factors: factors by which NTK stretches the base of each axis.
        grid_base: the default of `grid_base`.
        grid_scale: the default of `grid_scale`.
        settled: returns the position of a point from the one that it has after resampling.
    """

    name: str
    axes: str
    split: Split
    base: float = 10000.0
    layout: str = ""
    sines_first: bool = False
    coordinate: str = "index"
    in_turns: bool = False
    keep: int = 0
    keep_last: bool = False
    counted: str = ""
    first: int = 0
    merge: int = 1
    repeats_time: bool = False
    division: Division = OWN
    cut: bool = False
    factors: tuple[float, ...] = ()
    grid_base: tuple[float, ...] | None = None
    grid_scale: tuple[float, ...] | None = None
    settled: Callable[[Fraction], Fraction] = _as_it_is

    @property
    def counts_points(self) -> bool:
        """True if the position of a point is its index, so that whole numbers state it.

        Flux's patches are at 0, 1, 2, … DINOv3's are at fractions between −1 and 1.
        """
        is_resampled = self.grid_base is not None or self.grid_scale is not None
        return self.coordinate == "index" and not is_resampled

    @property
    def sorted_axes(self) -> str:
        """Return the axes in the order of a grid's sizes."""
        return "".join(sorted(self.axes, key=AXIS_LETTERS.index))

    @property
    def _axis_numbers(self) -> list[int]:
        """Return the number of each axis among those of positions: [1, 0] for w before h."""
        return [self.sorted_axes.index(axis) for axis in self.axes]

    def blocks(self, dim: int, channels: Sequence[int] | None = None) -> tuple[AxisBlock, ...]:
        """Return the blocks into which the `dim` channels are divided among the axes of an image.

        A block is some neighbouring pairs of channels that are rotated by the position on one axis.
        Most styles have one block per axis: with 8 channels, 4 for the row of a point and 4 for its
        column. In a few, such as MoonViT's, the axes take turns, and every pair is a block.

        Args:
            dim: the channels of all axes.
            channels: the channels of each axis; None to divide them as the style does.

        Raises:
            ParameterError: the channels do not fit the axes.
        """
        if channels is not None:
            axis_channels = tuple(channels)
            self._check_given_channels(axis_channels, dim)
            return self._block_per_axis(axis_channels, dim)
        blocks_in_turns = self.division.in_turns(self._axis_numbers, dim)
        if blocks_in_turns:
            return blocks_in_turns
        axis_channels = tuple(self.split(dim))
        if not self._fits(axis_channels, dim):
            raise ParameterError("dim", dim, self._rule_of_channels(axis_channels))
        return self._block_per_axis(axis_channels, dim)

    def _block_per_axis(self, axis_channels: tuple[int, ...], dim: int) -> tuple[AxisBlock, ...]:
        """Return one block for each axis, which has so many of the `dim` channels."""
        axis_count = len(self.axes)
        shares_of_axes = map(AxisShare, self._axis_numbers, range(axis_count), axis_channels)
        return tuple(self.division.block(share, axis_count, dim) for share in shares_of_axes)

    def _check_given_channels(self, axis_channels: tuple[int, ...], dim: int) -> None:
        """Raise ParameterError unless the user gave each axis an even number of channels, dim in all.

        Args:
            axis_channels: The channels of each axis.
            dim: The channels of all axes.
        """
        if len(axis_channels) != len(self.axes):
            rule = f"the {self.name} style has the axes {', '.join(self.axes)}"
            raise ParameterError("axes", spelled(axis_channels), rule, "give the channels of each")
        if not self._fits(axis_channels, dim):
            rule = self._rule_of_channels(axis_channels)
            raise ParameterError("axes", spelled(axis_channels), rule)

    def _rule_of_channels(self, axis_channels: tuple[int, ...]) -> str:
        """Return the rule that channels of the axes break, for an error message."""
        counts = zip(self.axes, axis_channels, strict=True)
        parts = [f"{axis} {count}" for axis, count in counts]
        return (
            f"the {self.name} style gives its axes {', '.join(parts)} channels, "
            "which must be even and add up to dim"
        )

    def _fits(self, axis_channels: tuple[int, ...], dim: int) -> bool:
        """Return True if every axis has whole pairs of channels, and all of them make up dim.

        A style that cuts its last channels may have more than dim.
        """
        have_whole_pairs = all(count >= 2 and count % 2 == 0 for count in axis_channels)
        total = sum(axis_channels)
        makes_up_dim = total >= dim if self.cut else total == dim
        return have_whole_pairs and makes_up_dim

    def check(
        self,
        grid: Sequence[int],
        base: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
    ) -> None:
        """Raise ParameterError for a grid, grid_base or grid_scale that does not fit the style.

        Args:
            grid: The sizes (H, W), or (T, H, W) of a video, which some styles do not have.
            base: `grid_base`, one number or one per axis of the grid; None if it was left out.
            scale: `grid_scale`, likewise.
        """
        sizes = "x".join(map(str, grid))
        *times, height, width = grid
        has_place_for_time = "t" in self.axes or self.repeats_time
        if times and not has_place_for_time:
            rule = f"the {self.name} style has no axis of time"
            raise ParameterError("grid", sizes, rule, "give HxW")
        if height % self.merge or width % self.merge:
            points = f"{self.merge} x {self.merge} points"
            rule = f"the {self.name} style merges {points}; H and W are not multiples"
            raise ParameterError("grid", sizes, rule)
        self._check_resampling("grid_base", base, grid)
        self._check_resampling("grid_scale", scale, grid)

    def _check_resampling(
        self, name: str, values: Sequence[float] | None, grid: Sequence[int]
    ) -> None:
        """Raise ParameterError for numbers that cannot change the spacing of a grid's points.

        A grid 28x28 may have one number for both axes, such as 14, or two of them.

        Args:
            name: `grid_base` or `grid_scale`.
            values: Its numbers; None if it was left out.
            grid: The sizes of the grid.
        """
        if values is None:
            return
        if not self._can_be_resampled:
            rule = f"the {self.name} style has positions of its own along a grid"
            raise ParameterError(name, spelled(values), rule, "leave it out")
        allowed_counts = (1, len(grid))
        if len(values) not in allowed_counts:
            sizes = "x".join(map(str, grid))
            rule = f"it must be one number, or one for each axis of the grid {sizes}"
            raise ParameterError(name, spelled(values), rule)

    @property
    def _can_be_resampled(self) -> bool:
        """True if users may space the points of a grid differently than the style does.

        They may if the points are at 0, 1, 2, …, or if the style has a `grid_scale` of its own to
        replace, as LTX-2's has. Other styles, such as those of points from −1 to 1, define the
        spacing.
        """
        return self.coordinate == "index" or bool(self.grid_scale)

    def coordinates(
        self,
        grid: Sequence[int],
        keep: int,
        base: Sequence[float] | None,
        scale: Sequence[float] | None,
    ) -> Coordinates:
        """Return the position of every row of the table along every axis.

        Rows are the points of the grid, and `keep` rows beside it for tokens such as CLS. Each axis
        has a short list of positions, and each row an index into it: 16 points of a grid of 4 × 4
        share the positions 0 1 2 3.

        Args:
            grid: the sizes (H, W) or (T, H, W).
            keep: the number of rows beside the grid.
            base: numbers of points from which the axes are resampled: one for all axes of the grid,
                or one for each; None to take those of the style.
            scale: numbers that divide the positions, likewise.
        """
        rows = GridRows.of(grid, tokens=keep)
        positions_by_axis = []
        for axis in self.sorted_axes:
            spacing = self._distance_of_points(axis, grid, base, scale)
            positions = self._positions_of_points_and_tokens(axis, rows, spacing)
            positions_by_axis.append(positions)

        # The indices are computed for some rows at a time, because a table may have 2**40 rows.
        def indices_of_rows(start: int, stop: int) -> Indices:
            return self._indices_into_positions(rows, start, stop)

        return Coordinates(tuple(positions_by_axis), rows.points + keep, indices_of_rows)

    def _distance_of_points(
        self,
        axis: str,
        grid: Sequence[int],
        base: Sequence[float] | None,
        scale: Sequence[float] | None,
    ) -> Fraction:
        """Return the distance of neighbouring points along an axis, 1 unless they are resampled.

        A model that was trained with 14 points along an axis may be used with 28. They are then
        placed among the positions 0 … 14 of training, 14/28 = 1/2 apart: 14 is the `grid_base`. The
        `grid_scale` divides positions: with 2, the points lie 1/4 apart.

        Args:
            axis: "t" for time, "h" for rows, "w" for columns, or "l" for text.
            grid: The sizes (H, W) or (T, H, W).
            base: The user's `grid_base`, one number or one per axis of the grid; None if there is none.
            scale: The user's `grid_scale`, likewise.
        """
        points = Fraction(GridRows.of(grid, tokens=0).size_of(axis))
        trained_points = self._numbers_by_axis(grid, base, self.grid_base)
        divisors = self._numbers_by_axis(grid, scale, self.grid_scale)
        # An axis without a number is not resampled: it was trained with as many points.
        return trained_points.get(axis, points) / points / divisors.get(axis, Fraction(1))

    def _numbers_by_axis(
        self,
        grid: Sequence[int],
        user_numbers: Sequence[float] | None,
        style_numbers: Sequence[float] | None,
    ) -> dict[str, Fraction]:
        """Return `grid_base` or `grid_scale` by axis: the user's numbers, or else the style's.

        The user gives numbers for the axes of the grid, such as {"h": 14, "w": 16}. A style has them
        for its own axes: LTX also has one for time, which an image does not use.

        Args:
            grid: The sizes (H, W) or (T, H, W).
            user_numbers: One for all axes, or one per axis of the grid; None if the user gave none.
            style_numbers: One for all axes, or one per axis of the style; None if it sets none.
        """
        if user_numbers is not None:
            axes_of_grid = "thw" if len(grid) == 3 else "hw"
            return _by_axis(axes_of_grid, user_numbers)
        if style_numbers is not None:
            return _by_axis(self.axes, style_numbers)
        return {}

    def _positions_of_points_and_tokens(
        self, axis: str, rows: GridRows, spacing: Fraction
    ) -> list[Fraction]:
        """Return the positions of image points along an axis, followed by those of other tokens.

        With 3 points along the axis, and 2 tokens that are not in the image, such as text:

        - 0 1 2 | 0, if the tokens are not numbered along this axis: both have the position 0;
        - 0 1 2 | 0 1, if they are;
        - 2 3 4 | 0 1, if they are and the axis is time: the image comes after the tokens.

        Args:
            axis: "t", "h", "w" or "l".
            rows: The sizes of the grid, and the number of other tokens.
            spacing: The distance of two points, such as 14/28 if 28 points are resampled from 14.
        """
        point_positions = self._positions_of_points(axis, rows.size_of(axis), spacing)
        tokens_are_numbered = axis in self.counted
        if not tokens_are_numbered:
            return [*point_positions, Fraction(0)]
        # The first number is 0 in most styles. In Z-Image it is 1: 3 tokens of text have the times
        # 1, 2, 3, and the image has 4.
        end_of_tokens = self.first + rows.tokens
        token_positions = map(Fraction, range(self.first, end_of_tokens))
        if axis == "t":
            point_positions = [position + end_of_tokens for position in point_positions]
        return [*point_positions, *token_positions]

    def _positions_of_points(self, axis: str, size: int, spacing: Fraction) -> list[Fraction]:
        """Return the positions of the points along an axis, as many as its size.

        CogView4 resamples positions from a grid of 256 points, and rounds them down; LTX's are in
        the middle of latents: position p is at p/2 − 1/4.
        """
        position_of = COORDINATES[self.coordinate]
        return [self.settled(position_of(i, size, axis) * spacing) for i in range(size)]

    def _indices_into_positions(self, rows: GridRows, start: int, stop: int) -> Indices:
        """Return the index of each row's position in the list of each axis, (axes, stop − start).

        A row is a point of an image, or a token that is not in it, such as text. The lists have the
        positions of points, then those of tokens. For example, with two tokens before an image of
        three points, one axis may have

            the list of positions    0 1 2 | 0 1
            the rows of the table    token 0, token 1, point 0, point 1, point 2
            their indices            3        4        0        1        2

        Args:
            rows: The sizes of the grid, and the number of tokens.
            start: The first row of the table.
            stop: The row after the last one.
        """
        table_rows = np.arange(start, stop)
        tokens_come_last = self.keep_last
        row_of_first_point = 0 if tokens_come_last else rows.tokens
        row_of_first_token = rows.points if tokens_come_last else 0
        point_numbers = table_rows - row_of_first_point  # negative before the first point
        is_point = (point_numbers >= 0) & (point_numbers < rows.points)
        is_token = ~is_point
        token_numbers = table_rows[is_token] - row_of_first_token

        indices_of_points = self._places_of_points(rows, point_numbers[is_point])
        indices_by_axis = []
        for axis in self.sorted_axes:
            indices = np.empty(len(table_rows), np.intp)
            indices[is_point] = indices_of_points[axis]
            indices[is_token] = self._indices_of_tokens(axis, rows, token_numbers)
            indices_by_axis.append(indices)
        return np.stack(indices_by_axis)

    def _indices_of_tokens(self, axis: str, rows: GridRows, tokens: Indices) -> Indices:
        """Return the indices of tokens in the list of positions of an axis.

        The list begins with the points of the image; tokens follow them. Along an axis on which
        tokens are not numbered, all of them share the first place after the points.

        Args:
            axis: "t", "h", "w" or "l".
            rows: The sizes of the grid.
            tokens: The numbers of the tokens, from 0 on.
        """
        first_index = rows.size_of(axis)
        if axis in self.counted:
            return first_index + tokens
        return np.full_like(tokens, first_index)

    def _places_of_points(self, rows: GridRows, points: Indices) -> dict[str, Indices]:
        """Return the frame, the row and the column of points by their numbers; text has one place.

        Points are numbered block by block, each of merge × merge points, of which Qwen2-VL makes
        one token. With merge 2 and a grid of 2 × 4, the points 0 1 2 3 | 4 5 6 7 are in the rows
        0 0 1 1 | 0 0 1 1 and the columns 0 1 0 1 | 2 3 2 3.

        Args:
            rows: The sizes of the grid.
            points: The numbers of the points (n,).
        """
        block = self.merge
        blocks_down = rows.height // block
        blocks_across = rows.width // block
        shape = (rows.time, blocks_down, blocks_across, block, block)
        frame, block_row, block_column, row_in_block, column_in_block = np.unravel_index(
            points, shape
        )
        return {
            "t": frame,
            "h": block_row * block + row_in_block,
            "w": block_column * block + column_in_block,
            "l": np.zeros_like(frame),
        }


def _by_axis(axes: str, numbers: Sequence[float]) -> dict[str, Fraction]:
    """Return the number of each axis: one number is for all axes, several are in their order.

    The axes "hw" with the numbers 14 and 16 have {"h": 14, "w": 16}.
    """
    if len(numbers) == 1:
        return dict.fromkeys(axes, Fraction(numbers[0]))
    return dict(zip(axes, map(Fraction, numbers), strict=True))


_HALVES = shares(_HALF, _HALF)
_VIDEO = shares(Fraction(1, 4), Fraction(3, 8), Fraction(3, 8))
_FLUX = shares(Fraction(1, 8), Fraction(7, 16), Fraction(7, 16))
_THIRDS = shares(Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))
_QUARTERS = shares(*[Fraction(1, 4)] * 4)
_TIME_HALF = shares(_HALF, _HALF / 2, _HALF / 2)

_ADDED = (
    # MAE's meshgrid puts columns first, although its code calls that half emb_h; the port of
    # Hugging Face has rows first.
    GridStyle("mae", "wh", _HALVES, layout="halves"),
    GridStyle("vit-mae", "hw", _HALVES, layout="halves"),
    GridStyle("sd3", "wh", _HALVES, layout="halves"),
    GridStyle("cogvideox", "twh", _VIDEO, layout="halves"),
    GridStyle("detr", "hw", _HALVES, layout="interleaved", coordinate="share", in_turns=True),
    GridStyle("timm", "hw", _HALVES, layout="halves", sines_first=True),
    GridStyle("positional-encodings-2d", "hw", _in_even_parts(2), layout="interleaved", cut=True),
    GridStyle("positional-encodings-3d", "thw", _in_even_parts(3), layout="interleaved", cut=True),
)
ADDED = {style.name: style for style in _ADDED}
"""The styles of tables that are added."""

_ROTARY = (
    GridStyle("flux", "thw", _FLUX),
    GridStyle("wan", "thw", _two_thirds_for_space),
    GridStyle("cogvideox", "thw", _VIDEO),
    GridStyle("hunyuan-video", "thw", _FLUX, base=256.0),
    GridStyle("qwen2-vl", "hw", _HALVES, merge=2, repeats_time=True),
    GridStyle("pixtral", "hw", _HALVES, division=SHARED),
    GridStyle("llama4-vision", "wh", _HALVES, coordinate="from one", keep=1, keep_last=True),
    GridStyle("dinov3", "hw", _HALVES, base=100.0, coordinate="-1 to 1", in_turns=True),
    GridStyle("eva", "hw", _HALVES),
    GridStyle("sam2", "wh", _HALVES),
    GridStyle("moonvit", "wh", _HALVES, division=ALTERNATING),
    GridStyle("qwen-image", "thw", _FLUX, coordinate="centred"),
    GridStyle("qwen-image-2.1", "thw", _FLUX, coordinate="centred", counted="thw"),
    GridStyle("flux2", "thwl", _QUARTERS, base=2000.0, counted="l"),
    GridStyle("z-image", "thw", _VIDEO, base=256.0, keep_last=True, counted="t", first=1),
    GridStyle("lumina2", "thw", _THIRDS, counted="t"),
    GridStyle("hidream", "thw", _TIME_HALF, keep_last=True),
    GridStyle("kandinsky5", "thw", _VIDEO),
    GridStyle("hunyuan-image", "hw", _HALVES, base=256.0),
    GridStyle("cogview4", "hw", _HALVES, grid_base=(256.0,), settled=_rounded_down),
    GridStyle("glm-image", "hw", _HALVES),
    GridStyle("cosmos", "thw", _two_thirds_for_space, factors=(2.0, 1.0, 1.0)),
    GridStyle(
        "ltx",
        "thw",
        _THIRDS,
        division=MIXED,
        in_turns=True,
        grid_scale=(62.5, 64.0, 64.0),
        settled=_middle_of_two,
    ),
    GridStyle(
        "ltx2",
        "thw",
        _THIRDS,
        division=MIXED,
        in_turns=True,
        grid_scale=(60.0, 64.0, 64.0),
        coordinate="video latents",
        settled=_middle_of_two,
    ),
    GridStyle(
        "pixel",
        "hw",
        _HALVES,
        base=5.0,
        division=LINEAR_RISE,
        coordinate="edge to edge",
        in_turns=True,
    ),
    GridStyle(
        "timm-pixel",
        "hw",
        _HALVES,
        base=112.0,
        division=RISING,
        coordinate="edge to edge",
        in_turns=True,
    ),
)
ROTARY = {style.name: style for style in _ROTARY}
"""The styles of rotations."""
PLAIN = {2: replace(ROTARY["eva"], name="axes"), 3: replace(ROTARY["flux"], name="axes")}
"""The styles of grids without a style, whose axes, two or three, have given channels."""
