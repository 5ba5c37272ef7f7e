"""Schemes on a grid or at listed positions with a known mistake in placing their rows."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import singledispatch
from itertools import combinations, permutations, product
from typing import Generic, NamedTuple, TypeVar

from pecli.engine.edits import Parameter
from pecli.engine.named_values import without_none
from pecli.engine.schemes.axis_blocks import AxisBlock
from pecli.engine.schemes.given_positions import GridSize, Position, PositionList
from pecli.engine.schemes.grid_styles import ADDED, ROTARY, GridStyle
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import spelled
from pecli.explain.changed_schemes import SchemeT, permitted

MAX_LISTED_EXAMPLE = 1 << 16
"""The maximum length of an explicit list of positions in a known mistake."""

GRID_PARAMETERS = ("grid", "keep", "grid_base", "grid_scale")
"""Parameters of schemes on a grid, which those at listed positions do not have."""

ROTARY_GRID_PARAMETERS = (*GRID_PARAMETERS, "style", "axes", "axis_factors")
"""The same of rotary schemes, with the parameters that divide channels among the axes."""

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
        """Return the positions of all rows, axis by axis, some axes shifted.

        Along the height of a 2 × 3 grid they are 0 0 0 1 1 1, and 1 1 1 2 2 2 if `moved` is "h" and
        `by` is 1.
        """
        positions_of_axes = []
        for axis, positions, rows in zip(self.axes, self.positions, self.rows, strict=True):
            shift = by if axis in moved else 0
            shifted = [
                PositionList.number_or_text(Fraction(position + shift)) for position in positions
            ]
            positions_of_axes.append([shifted[row] for row in rows])
        return positions_of_axes

    def counting_rows(self, counting: str) -> list[Sequence[Position]]:
        """Return positions that count all rows, 0, 1, 2, …, along some axes.

        The six rows of a 2 × 3 grid are at 0 1 2 3 4 5 along an axis in `counting`.
        """
        positions_of_axes: list[Sequence[Position]] = []
        for axis, positions in zip(self.axes, self.listed(), strict=True):
            positions_of_axes.append(range(len(positions)) if axis in counting else positions)
        return positions_of_axes

    def numbered_from_one(self) -> list[list[float]]:
        """Return the positions 1, 2, … of all rows along each axis, as DETR has without
        `normalize`.

        DETR's style multiplies positions by 2π, by which they are divided here.
        """
        return [[(row + 1) / (2 * math.pi) for row in rows] for rows in self.rows]


class Mistaken(NamedTuple, Generic[MistakenT]):
    """A scheme with a known mistake in it, and the edits that name the mistake."""

    edits: tuple[Parameter, ...]
    scheme: MistakenT


@singledispatch
def mistaken_schemes(scheme: Scheme) -> Iterator[Mistaken[Scheme]]:
    """Yield a scheme on a grid or at listed positions with each known mistake in placing its rows.

    Mistakes that any table can have (another base, swapped columns, a missing scaling) are in the
    catalogue.
    """
    yield from ()


def _with_other_parameters(scheme: SchemeT, **changes: object) -> Iterator[Mistaken[SchemeT]]:
    """Yield the scheme with other parameters, as a known mistake, if there is such a scheme.

    `_with_other_parameters(rope, keep=1)` is the mistake «keep is 1 (the spec says 0)». Parameters that are set
    to None are not stated as edits: they only make room for those that replace them, as a grid for
    a list of positions.
    """
    stated = without_none(changes)
    edits = [Parameter(name, getattr(scheme, name), value) for name, value in stated.items()]
    yield from _with_mistake_named(edits, scheme, **changes)


def _without_parameter(scheme: SchemeT, name: str) -> Iterator[Mistaken[SchemeT]]:
    """Yield the scheme without its value of a parameter, as a program that ignores it would make it."""
    edit = Parameter(name, getattr(scheme, name), None)
    yield from _with_mistake_named([edit], scheme, **{name: None})


def _with_mistake_named(
    edits: Sequence[Parameter], scheme: SchemeT, **changes: object
) -> Iterator[Mistaken[SchemeT]]:
    """Yield the scheme with other parameters, as a mistake that some edits name.

    A grid whose axes share frequencies is `rope` with sections of M-RoPE at listed positions, but
    the mistake is named «axis_frequencies are shared». Nothing is yielded if the scheme refuses the
    parameters, or has them already.
    """
    changed = permitted(scheme, **changes)
    if changed is not None and changed != scheme:
        yield Mistaken(tuple(edits), changed)


@mistaken_schemes.register
def _mistaken_sinusoidal_schemes(scheme: Sinusoidal) -> Iterator[Mistaken[Scheme]]:
    """Yield a sinusoidal scheme with each known mistake in its exponents, its scale or its rows' places.

    fairseq divides exponents by half the dim less 1, for example.
    """
    yield from _with_other_parameters(scheme, freq_shift=0.0 if scheme.freq_shift else 1.0)
    yield from _with_other_parameters(scheme, scale=1.0)
    yield from _misplaced(scheme, ADDED)


@mistaken_schemes.register
def _mistaken_rotary_schemes(scheme: Rope) -> Iterator[Mistaken[Scheme]]:
    """Yield a rotary scheme with each known mistake in its exponents, its rows' places or M-RoPE's sections."""
    yield from _with_exponents_over_head(scheme)
    yield from _misplaced(scheme, ROTARY)
    yield from _with_shared_frequencies(scheme)
    if scheme.positions is not None:
        yield from _with_other_order_of_sections(scheme)


def _with_other_order_of_sections(scheme: Rope) -> Iterator[Mistaken[Rope]]:
    """Yield M-RoPE's sections interleaved for blocks, or the reverse, and in each other order."""
    yield from _with_other_parameters(
        scheme, mrope_interleaved=None if scheme.mrope_interleaved else True
    )
    for order in permutations(scheme.mrope_section or ()):
        yield from _with_other_parameters(scheme, mrope_section=order)


def _with_shared_frequencies(scheme: Rope) -> Iterator[Mistaken[Rope]]:
    """Yield the mistake that the axes of a grid divide the head's frequencies instead of having their own.

    With 64 channels, height and width should have 16 frequencies each, both 1, 10000^(−1/16), ….
    By mistake, the 32 frequencies of the head, 10000^(−i/32), are divided: the height has the first
    16, and the width the last 16.

    Only schemes with a list of positions divide frequencies like this. So nothing is yielded if the
    points of the grid cannot be listed.
    """
    if scheme.grid is None or not have_an_axis_each(scheme.axis_blocks):
        return
    style = _style_of(scheme)
    if _can_list_points(scheme, style):
        edit = Parameter("axis_frequencies", expected="their own", found="shared")
        parameters = _parameters_for_divided_frequencies(scheme, style)
        yield from _with_mistake_named([edit], scheme, **parameters)


def _can_list_points(scheme: Rope, style: GridStyle) -> bool:
    """Return True if a list can hold the positions of all points of a grid: few, and no multiples of 2π."""
    are_multiples_of_2_pi = style.in_turns
    return scheme.seq_len <= MAX_LISTED_EXAMPLE and not are_multiples_of_2_pi


def _parameters_for_divided_frequencies(scheme: Rope, style: GridStyle) -> dict[str, object]:
    """Return the parameters by which the axes of a grid divide the frequencies of the head.

    M-RoPE, the encoding of Qwen2-VL, does that: `mrope_section` (16, 16) gives the first 16 frequencies
    to the first axis, and the other 16 to the second. It has a list of positions instead of a grid.
    """
    blocks = scheme.axis_blocks  # the frequencies of one axis each
    positions_of_axes = Points.of(scheme, style).listed()
    parameters: dict[str, object] = dict.fromkeys(ROTARY_GRID_PARAMETERS)  # None for each: no grid
    parameters["positions"] = PositionList(tuple(positions_of_axes[block.axis]) for block in blocks)
    parameters["mrope_section"] = tuple(block.pairs for block in blocks)
    return parameters


def have_an_axis_each(blocks: Sequence[AxisBlock]) -> bool:
    """Return True if there are several blocks of frequencies, each for another axis of positions."""
    axes = {block.axis for block in blocks}
    return 1 < len(blocks) == len(axes)


def _with_exponents_over_head(scheme: Rope) -> Iterator[Mistaken[Rope]]:
    """Yield the mistake of dividing exponents by the channels of the head, not by those of an axis.

    If 32 of 128 channels follow the height, its frequencies should be 10000^(−2i/32). By mistake they
    are 10000^(−2i/128). A scheme has no parameter for that, but another base gives the same frequencies:
    10000^(−2i/128) = 10^(−2i/32).
    """
    channels_by_axis = _channels_in_exponents(scheme)
    are_all_of_head = channels_by_axis == [scheme.dim]  # Then the mistake changes nothing.
    if are_all_of_head or not _has_frequencies_of_base_only(scheme):
        return
    if len(set(channels_by_axis)) == 1:
        yield from _with_exponents_over_head_on_all_axes(scheme, channels_by_axis[0])
    else:
        yield from _with_exponents_over_head_on_each_axis(scheme, channels_by_axis)


def _channels_in_exponents(scheme: Rope) -> list[int]:
    """Return the channels of each axis, d in its exponents −2i/d: [16, 56, 56] for time, height and width.

    It is one number, the channels that rotate, if all axes share their frequencies.
    """
    channels_by_axis = [block.channels for block in sorted(scheme.axis_blocks)]
    return channels_by_axis or [scheme.exponent_dim]


def _has_frequencies_of_base_only(scheme: Rope) -> bool:
    """Return True if a scheme's frequencies are base^(−2i/d), perhaps all divided by one factor.

    Then a wrong number d is the same as a wrong base. With YaRN's scaling it is not: another base would
    also change which frequencies are divided.
    """
    has_simple_scaling = scheme.scaling in ("none", "linear")
    return has_simple_scaling and _has_plain_frequencies(scheme)


def _with_exponents_over_head_on_all_axes(scheme: Rope, channels: int) -> Iterator[Mistaken[Rope]]:
    """Yield exponents that are divided by the head, if all axes have the same number of channels.

    10000^(−2i/128) is b^(−2i/32) with b = 10000^(32/128) = 10. So the scheme has the base b, and the
    mistake is named by the divisor of the exponents.
    """
    base = scheme.base ** (channels / scheme.dim)
    edit = Parameter("exponent_dim", channels, scheme.dim)
    yield from _with_mistake_named([edit], scheme, base=base)


def _with_exponents_over_head_on_each_axis(
    scheme: Rope, channels_by_axis: Sequence[int]
) -> Iterator[Mistaken[Rope]]:
    """Yield exponents that are divided by the head, if axes have different numbers of channels.

    Each axis needs a base of its own then: with 16 and 56 of 128 channels, 10000^(16/128) and
    10000^(56/128). The scheme has one base, which a factor of NTK scaling per axis stretches to these.
    """
    factors = [_factor_for_exponents_over_head(scheme, size) for size in channels_by_axis]
    edit = Parameter("exponent_dim", spelled(tuple(channels_by_axis)), scheme.dim)
    yield from _with_mistake_named([edit], scheme, axis_factors=tuple(factors))


def _factor_for_exponents_over_head(scheme: Rope, size: int) -> float:
    """Return the factor of NTK scaling that divides the exponents of an axis by the whole head.

    NTK scaling by a factor s stretches the base b to b · s^(size/(size − 2)), for an axis of `size`
    channels. It has to become b^(size/dim), so that s is b^((size/dim − 1) · (1 − 2/size)).
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


def _misplaced(scheme: PlacedT, styles: Mapping[str, GridStyle]) -> Iterator[Mistaken[PlacedT]]:
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
    if scheme.grid is not None and scheme.seq_len <= MAX_LISTED_EXAMPLE:
        yield from _with_points_at_wrong_positions(scheme)
    if scheme.positions is not None and len(scheme.positions.axes) > 1:
        yield from _with_axes_exchanged(scheme, scheme.positions.axes)


def _on_other_grids(scheme: PlacedT, grid: GridSize) -> Iterator[Mistaken[PlacedT]]:
    """Yield each known mistake in the sizes of a grid, in its class token and in its spacing.

    For a grid of 12×16 after a class token, these are

    - a grid of 16×12;
    - no class token, so that all points are one row earlier; if there should be none, one is added;
    - positions 0, 1, 2, … instead of those that are stretched to the size in training (`grid_base`) or
      divided by a number (`grid_scale`).

    Args:
        scheme: The right scheme.
        grid: Its grid, (height, width) or (time, height, width).
    """
    *time, height, width = grid
    yield from _with_other_parameters(scheme, grid=GridSize((*time, width, height)))
    class_tokens = scheme.keep or 0
    for possible_class_tokens in (0, 1):
        if possible_class_tokens != class_tokens:
            yield from _with_other_parameters(scheme, keep=possible_class_tokens)
    yield from _without_parameter(scheme, "grid_base")
    yield from _without_parameter(scheme, "grid_scale")
    style = _style_of(scheme)
    if style.grid_scale is not None:
        # diffusers does not divide the positions of LTX if rope_interpolation_scale is left out.
        undivided = (1.0,) * len(style.grid_scale)
        yield from _with_other_parameters(scheme, grid_scale=undivided)


def _with_other_styles(
    scheme: PlacedT, style: GridStyle, styles: Mapping[str, GridStyle]
) -> Iterator[Mistaken[PlacedT]]:
    """Yield the scheme in the style of each other project, such as that of MAE instead of that of DETR.

    A style is how one project lays channels and positions out; it also has a usual base.

    Args:
        scheme: The right scheme.
        style: Its style.
        styles: The styles that it could have by mistake, by name.
    """
    has_usual_base = scheme.base == style.base
    for name, other_style in styles.items():
        if not _places_differently(scheme, other_style):
            continue
        if has_usual_base:
            # No base is stated, so that the scheme has the usual one of the other style.
            yield from _with_other_parameters(scheme, style=name, base=None)
        else:
            yield from _with_other_parameters(scheme, style=name)


def _places_differently(scheme: Positioned, other_style: GridStyle) -> bool:
    """Return True if another style would give a scheme other channels or positions than its own does.

    A style splits dim channels among the axes. That does not matter if the scheme has a number of
    channels for each axis, such as `axes=(16, 56, 56)`.
    """
    style = _style_of(scheme)
    # Names do not matter, nor usual bases: another base is a mistake of its own.
    compared = replace(other_style, name=style.name, base=style.base)
    has_channels_per_axis = scheme.value_of("axes", None) is not None
    if has_channels_per_axis:
        compared = replace(compared, split=style.split)
    return compared != style


def _style_of(scheme: Positioned) -> GridStyle:
    """Return the style of a scheme on a grid, which always has one."""
    assert scheme.grid_style is not None
    return scheme.grid_style


def _with_points_at_wrong_positions(scheme: PlacedT) -> Iterator[Mistaken[PlacedT]]:
    """Yield a scheme on a grid with each known mistake in the positions of its points.

    The point at height 2 and width 5 of a grid with 16 points per row may be by mistake

    - at (5, 2), with height and width exchanged;
    - at (37, 37), if both axes count the rows of the table, of which it is row 2 · 16 + 5;
    - at (3, 5), shifted along the height;
    - at 3 and 6 in DETR without `normalize`, instead of shares of the size such as 3/12 and 6/16.

    A wrong scheme has a list of positions instead of the grid. Rows of zeros have no position, so that
    nothing is yielded for a table with such rows.
    """
    style = _style_of(scheme)
    if _has_rows_of_zeros(scheme, style):
        return
    points = Points.of(scheme, style)
    yield from _with_height_and_width_exchanged(scheme, points)
    yield from _counting_rows(scheme, points)
    yield from _shifted_along_axes(scheme, points)
    has_shares_of_size = style.coordinate == "share"
    if has_shares_of_size:
        edit = Parameter("normalize", True, False)
        yield from _at_positions(scheme, points.numbered_from_one(), edit)


def _has_rows_of_zeros(scheme: Positioned, style: GridStyle) -> bool:
    """Return True if the table of a scheme on a grid has rows of zeros, which are those of class tokens.

    Tables that are added to embeddings have them, and rotary ones give class tokens a position. Only
    styles of added tables have a `layout`, the order of their sines and cosines.
    """
    is_added_to_embeddings = style.layout != ""
    has_class_tokens = bool(scheme.keep)
    return is_added_to_embeddings and has_class_tokens


def _with_height_and_width_exchanged(
    scheme: PlacedT, points: Points
) -> Iterator[Mistaken[PlacedT]]:
    """Yield a grid whose axes h and w are exchanged: those of a video, t h w, become t w h."""
    exchanged = {"h": "w", "w": "h"}
    order = [points.axes.index(exchanged.get(axis, axis)) for axis in points.axes]
    yield from _with_axes_in_order(order, scheme, points.listed(), points.axes)


def _counting_rows(scheme: PlacedT, points: Points) -> Iterator[Mistaken[PlacedT]]:
    """Yield rows at 0, 1, 2, … along all axes, or along h and w, as if they were tokens of a text."""
    edit = Parameter("positions", "those of the grid", "0, 1, 2, …")
    for counting_axes in dict.fromkeys((points.axes, "hw")):
        yield from _at_positions(scheme, points.counting_rows(counting_axes), edit)


def _shifted_along_axes(scheme: PlacedT, points: Points) -> Iterator[Mistaken[PlacedT]]:
    """Yield positions that are off by 1 or 1/2 along one axis, or along h and w.

    A pixel is at 0 or at its centre, 1/2, and counting may begin with 0 or 1.
    """
    moved_axes = (*points.axes, "hw")
    shifts = (Fraction(1), Fraction(-1), Fraction(1, 2))
    for moved, by in product(moved_axes, shifts):
        edit = Parameter(f"positions along {' and '.join(moved)}", 0, float(by))
        yield from _at_positions(scheme, points.listed(moved, by), edit)


def _with_axes_exchanged(
    scheme: PlacedT, axes: Sequence[Sequence[Position]]
) -> Iterator[Mistaken[PlacedT]]:
    """Yield every two axes exchanged, and all axes the same as the first.

    Of the axes t h w, these are h t w, w h t and t w h, and at last t t t, as in a port that knows
    only text.

    Args:
        scheme: The right scheme, at listed positions.
        axes: The position of each row along each axis.
    """
    axis_count = len(axes)
    names = _names_of_axes(axis_count)
    for first, second in combinations(range(axis_count), 2):
        exchanged = [*range(axis_count)]
        exchanged[first] = second
        exchanged[second] = first
        yield from _with_axes_in_order(exchanged, scheme, axes, names)
    only_first = [0] * axis_count
    yield from _with_axes_in_order(only_first, scheme, axes, names)


def _names_of_axes(count: int) -> str:
    """Return a letter for each axis: «hw» for two, «thw» for three, and «0123» for four."""
    if count < 4:
        return "thw"[-count:]
    return "".join(map(str, range(count)))


def _with_axes_in_order(
    order: Sequence[int],
    scheme: PlacedT,
    positions_of_axes: Sequence[Sequence[Position]],
    names: str,
) -> Iterator[Mistaken[PlacedT]]:
    """Yield a scheme whose axes have each other's positions: w's for h and h's for w.

    Args:
        order: The index of the axis whose positions each axis gets: 0 2 1 for t w h.
        scheme: The right scheme.
        positions_of_axes: The position of each row along each axis, as it should be.
        names: A letter for each axis.
    """
    found = ",".join(names[axis] for axis in order)
    edit = Parameter("axes of positions", ",".join(names), found)
    yield from _at_positions(scheme, [positions_of_axes[axis] for axis in order], edit)


def _at_positions(
    scheme: PlacedT, positions_of_axes: Sequence[Sequence[Position]], edit: Parameter
) -> Iterator[Mistaken[PlacedT]]:
    """Yield a scheme at listed positions instead of its own, as a mistake that an edit names."""
    without_grid = dict.fromkeys(GRID_PARAMETERS)
    positions = PositionList(map(tuple, positions_of_axes))
    yield from _with_mistake_named([edit], scheme, positions=positions, **without_grid)
