"""Schemes on a grid or at listed positions with a known mistake in placing their rows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import singledispatch
from itertools import combinations, permutations, product
from typing import Generic, NamedTuple, TypeVar

from pecli.engine.edits import Layout, Parameter, edit_of
from pecli.engine.schemes.axis_blocks import AxisBlock
from pecli.engine.schemes.given_positions import GridSize, Position, PositionList
from pecli.engine.schemes.grid_styles import ADDED, ROTARY, GridStyle
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import spelled
from pecli.explain.changed_schemes import SchemeT, permitted

MAX_LISTED = 1 << 16
"""The maximum length of an explicit list of positions in a known mistake."""

PlacedT = TypeVar("PlacedT", bound=Positioned)
MistakenT = TypeVar("MistakenT", bound=Scheme, covariant=True)


class Points(NamedTuple):
    """The points of a grid: the positions of each axis, and which of them each row has."""

    axes: str
    positions: tuple[Sequence[int | Fraction], ...]
    rows: list[list[int]]

    @classmethod
    def of(cls, scheme: Positioned, style: GridStyle) -> "Points":
        """Return the points of a scheme on a grid."""
        coordinates = scheme.coordinates()
        rows = coordinates.index(0, scheme.seq_len).tolist()
        return cls(style.sorted_axes, coordinates.values, rows)

    def listed(self, moved: str = "", by: Fraction = Fraction(0)) -> list[list[Position]]:
        """Return the positions of all rows, axis by axis, some axes shifted."""
        every = []
        for axis, positions, rows in zip(self.axes, self.positions, self.rows, strict=True):
            shift = by if axis in moved else 0
            places = [PositionList.kept(Fraction(position + shift)) for position in positions]
            every.append([places[row] for row in rows])
        return every

    def counting_rows(self, counting: str) -> list[Sequence[Position]]:
        """Return positions that count all rows, 0, 1, 2, …, along some axes."""
        places: list[Sequence[Position]] = []
        for axis, positions in zip(self.axes, self.listed(), strict=True):
            places.append(range(len(positions)) if axis in counting else positions)
        return places

    def numbered_from_one(self) -> list[list[float]]:
        """Return the positions 1, 2, … of all rows along each axis, as DETR has without
        `normalize`.

        DETR's style multiplies positions by 2π, by which they are divided here.
        """
        return [[(row + 1) / (2 * math.pi) for row in rows] for rows in self.rows]


class Neighbour(NamedTuple, Generic[MistakenT]):
    """A known mistake: the edits that describe it, and the scheme with that mistake."""

    edits: tuple[Parameter | Layout, ...]
    scheme: MistakenT


@singledispatch
def neighbours(scheme: Scheme) -> Iterator[Neighbour[Scheme]]:
    """Yield a scheme on a grid or at listed positions with each known mistake in placing its rows.

    Mistakes that any table can have (another base, swapped columns, a missing scaling) are in the
    catalogue.
    """
    yield from ()


def neighbour(scheme: SchemeT, **changes: object) -> Iterator[Neighbour[SchemeT]]:
    """Yield the scheme with other parameters, as a known mistake, if there is such a scheme.

    `neighbour(rope, keep=1)` is the mistake «keep is 1 (the spec says 0)». Parameters that are set
    to None are not stated as edits: they only make room for those that replace them, as a grid for
    a list of positions.
    """
    stated = {name: value for name, value in changes.items() if value is not None}
    edits = [edit_of(name, getattr(scheme, name), value) for name, value in stated.items()]
    yield from neighbour_called(edits, scheme, **changes)


def neighbour_called(
    edits: Sequence[Parameter | Layout], scheme: SchemeT, **changes: object
) -> Iterator[Neighbour[SchemeT]]:
    """Yield the scheme with other parameters, as a mistake that is called by some edits.

    A grid whose axes share frequencies is `rope` with sections of M-RoPE at listed positions, but
    the mistake is called «axis_frequencies are shared».
    """
    changed = permitted(scheme, **changes)
    if changed is not None and changed != scheme:
        yield Neighbour(tuple(edits), changed)


@neighbours.register
def _neighbours_of_sinusoidal(scheme: Sinusoidal) -> Iterator[Neighbour[Scheme]]:
    """Yield exponents over half the dim less 1 (fairseq), unscaled positions, and other places."""
    yield from neighbour(scheme, freq_shift=0.0 if scheme.freq_shift else 1.0)
    yield from neighbour(scheme, scale=1.0)
    yield from _misplaced(scheme, ADDED)


@neighbours.register
def _neighbours_of_rope(scheme: Rope) -> Iterator[Neighbour[Scheme]]:
    """Yield exponents over the whole dim, other places, and the sections of M-RoPE in another
    order.
    """
    yield from _with_exponents_over_head(scheme)
    yield from _misplaced(scheme, ROTARY)
    yield from _with_shared_frequencies(scheme)
    if scheme.positions is not None:
        yield from _with_other_order_of_sections(scheme)


def _with_other_order_of_sections(scheme: Rope) -> Iterator[Neighbour[Rope]]:
    """Yield M-RoPE's sections interleaved for blocks, or the reverse, and in each other order."""
    yield from neighbour(scheme, mrope_interleaved=None if scheme.mrope_interleaved else True)
    for order in permutations(scheme.mrope_section or ()):
        yield from neighbour(scheme, mrope_section=order)


def _with_shared_frequencies(scheme: Rope) -> Iterator[Neighbour[Rope]]:
    """Yield a grid whose axes share the frequencies of the whole head, one block after the other.

    With 64 channels and two axes, each axis should have 16 frequencies of its own. By mistake rows
    have the first 16 of the head's 32 frequencies, and columns the others. Since M-RoPE divides
    frequencies like this, the mistake is expressed as its sections at the positions of the grid.
    """
    if scheme.grid is None or scheme.seq_len > MAX_LISTED:
        return
    style = _style_of(scheme)
    blocks = scheme.axis_blocks
    if style.in_turns or len(blocks) < 2 or not has_one_block_per_axis(blocks):
        return
    positions_of_axes = Points.of(scheme, style).listed()
    changes: dict[str, object] = {
        "positions": PositionList(tuple(positions_of_axes[block.axis]) for block in blocks),
        "mrope_section": tuple(block.channels // 2 for block in blocks),
    }
    of_grid = ("grid", "keep", "grid_base", "grid_scale", "style", "axes", "axis_factors")
    edit = edit_of("axis_frequencies", "their own", "shared")
    yield from neighbour_called([edit], scheme, **changes, **dict.fromkeys(of_grid))


def has_one_block_per_axis(blocks: Sequence[AxisBlock]) -> bool:
    """Return True if each axis of positions has a single block of frequencies."""
    return len({block.axis for block in blocks}) == len(blocks)


def _with_exponents_over_head(scheme: Rope) -> Iterator[Neighbour[Rope]]:
    """Yield exponents that are divided by the whole head, if only a part of it has the frequencies.

    With 32 of 128 channels per axis, 10000^(−i/16) becomes 10000^(−i/64): the frequencies of the
    base 10000^(32/128) = 10. So the mistake is expressed as another base. If axes have different
    sizes, each needs a base of its own, which a factor of NTK scaling per axis gives.
    """
    sizes = [block.channels for block in sorted(scheme.axis_blocks)] or [scheme.exponent_dim]
    is_whole_head = sizes == [scheme.dim]
    is_scaled = scheme.scaling not in ("none", "linear")
    if is_whole_head or is_scaled or not _has_plain_frequencies(scheme):
        return
    first_size, *_ = sizes
    if len(set(sizes)) == 1:
        edit = edit_of("exponent_dim", first_size, scheme.dim)
        changes: dict[str, object] = {"base": scheme.base ** (first_size / scheme.dim)}
    else:
        edit = edit_of("exponent_dim", spelled(tuple(sizes)), scheme.dim)
        factors = [_factor_for_exponents_over_head(scheme, size) for size in sizes]
        changes = {"axis_factors": tuple(factors)}
    yield from neighbour_called([edit], scheme, **changes)


def _factor_for_exponents_over_head(scheme: Rope, size: int) -> float:
    """Return the factor of NTK scaling that divides the exponents of an axis by the whole head.

    NTK scaling by a factor s stretches the base b to b · s^(size/(size − 2)). It has to become
    b^(size/dim), so that s is b^((size/dim − 1) · (1 − 2/size)).
    """
    stretch_in_logs = size / scheme.dim - 1
    return float(scheme.base ** (stretch_in_logs * (1 - 2 / size)))


def _has_plain_frequencies(scheme: Rope) -> bool:
    """Return True if each axis has the frequencies base^(−2i/size) of its own number of channels."""
    plain = [
        AxisBlock(block.axis, block.channels, Fraction(block.channels, 2))
        for block in scheme.axis_blocks
    ]
    return plain == list(scheme.axis_blocks)


def _misplaced(scheme: PlacedT, styles: Mapping[str, GridStyle]) -> Iterator[Neighbour[PlacedT]]:
    """Yield known mistakes in where rows lie: on another grid, in another style, at other points.

    A style is the way in which one project, such as MAE, lays channels and positions out.

    Args:
        scheme: The right scheme; one at consecutive positions has no such mistakes.
        styles: The styles that it could have by mistake, by name.
    """
    style = scheme.grid_style
    if scheme.grid is not None:
        yield from _on_other_grids(scheme, scheme.grid)
    if style is not None:
        yield from _with_other_styles(scheme, style, styles)
    if scheme.grid is not None and scheme.seq_len <= MAX_LISTED:
        yield from _at_other_points(scheme)
    if scheme.positions is not None and len(scheme.positions.axes) > 1:
        yield from _with_axes_exchanged(scheme, scheme.positions.axes)


def _on_other_grids(scheme: PlacedT, grid: GridSize) -> Iterator[Neighbour[PlacedT]]:
    """Yield a grid of 16×12 for 12×16, a class token forgotten or added, and unstretched positions."""
    yield from neighbour(scheme, grid=GridSize((*grid[:-2], grid[-1], grid[-2])))
    for keep in {0, 1} - {scheme.keep or 0}:
        yield from neighbour(scheme, keep=keep)
    for name in ("grid_base", "grid_scale"):
        edit = edit_of(name, getattr(scheme, name), None)
        yield from neighbour_called([edit], scheme, **{name: None})
    style = _style_of(scheme)
    if style.grid_scale is not None:
        # diffusers does not divide the positions of LTX if rope_interpolation_scale is left out.
        yield from neighbour(scheme, grid_scale=(1.0,) * len(style.grid_scale))


def _with_other_styles(
    scheme: PlacedT, style: GridStyle, styles: Mapping[str, GridStyle]
) -> Iterator[Neighbour[PlacedT]]:
    """Yield the grid as the code of another project places it: that of MAE for DETR's model.

    Args:
        scheme: The right scheme.
        style: Its style.
        styles: The styles that it could have by mistake, by name.
    """
    changes: dict[str, object] = {}
    if scheme.base == style.base:
        changes["base"] = None  # Another style has its own base.
    has_own_channels = scheme.value_of("axes", None) is not None
    for name, other in styles.items():
        # A style that differs in the base only is another base, which has a mistake of its own.
        comparable = replace(other, name=style.name, base=style.base)
        if has_own_channels:
            comparable = replace(comparable, split=style.split)
        if comparable != style:
            yield from neighbour(scheme, style=name, **changes)


def _style_of(scheme: Positioned) -> GridStyle:
    """Return the style of a scheme on a grid, which always has one."""
    assert scheme.grid_style is not None
    return scheme.grid_style


def _at_other_points(scheme: PlacedT) -> Iterator[Neighbour[PlacedT]]:
    """Yield rows of a grid at other positions than their points have.

    Heights are exchanged with widths; all axes, or height and width, count the rows of the table;
    an axis is off by 1 or by 1/2; and positions are 1, 2, … where they should be shares of the
    size.
    """
    style = _style_of(scheme)
    if scheme.keep and style.layout:
        return  # Rows beside the grid have zeros in this layout, which listed positions never have.
    points = Points.of(scheme, style)
    exchanged = {"h": "w", "w": "h"}
    order = [points.axes.index(exchanged.get(axis, axis)) for axis in points.axes]
    yield from _with_axes_in_order(order, scheme, points.listed(), points.axes)
    for counting in dict.fromkeys((points.axes, "hw")):
        edit = edit_of("positions", "those of the grid", "0, 1, 2, …")
        yield from _at_positions(scheme, points.counting_rows(counting), edit)
    for moved, by in product((*points.axes, "hw"), (Fraction(1), Fraction(-1), Fraction(1, 2))):
        edit = edit_of(f"positions along {' and '.join(moved)}", 0, float(by))
        yield from _at_positions(scheme, points.listed(moved, by), edit)
    if style.coordinate == "share":
        edit = edit_of("normalize", True, False)
        yield from _at_positions(scheme, points.numbered_from_one(), edit)


def _with_axes_exchanged(
    scheme: PlacedT, axes: Sequence[Sequence[Position]]
) -> Iterator[Neighbour[PlacedT]]:
    """Yield two axes exchanged, and all axes the same as the first."""
    count = len(axes)
    names = "thw"[-count:] if count < 4 else "".join(map(str, range(count)))
    for first, second in combinations(range(count), 2):
        order = [*range(count)]
        order[first] = second
        order[second] = first
        yield from _with_axes_in_order(order, scheme, axes, names)
    yield from _with_axes_in_order([0] * count, scheme, axes, names)


def _with_axes_in_order(
    order: Sequence[int], scheme: PlacedT, places: Sequence[Sequence[Position]], names: str
) -> Iterator[Neighbour[PlacedT]]:
    found = ",".join(names[axis] for axis in order)
    edit = edit_of("axes of positions", ",".join(names), found)
    yield from _at_positions(scheme, [places[axis] for axis in order], edit)


def _at_positions(
    scheme: PlacedT, places: Sequence[Sequence[Position]], edit: Parameter | Layout
) -> Iterator[Neighbour[PlacedT]]:
    without_grid = dict.fromkeys(("grid", "keep", "grid_base", "grid_scale"))
    positions = PositionList(map(tuple, places))
    yield from neighbour_called([edit], scheme, positions=positions, **without_grid)
