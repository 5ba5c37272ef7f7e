"""Known mistakes: schemes that are easily taken for another one, with the edits between them."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, replace
from fractions import Fraction
from functools import singledispatch
from itertools import combinations, permutations, product
from typing import Any, Generic, NamedTuple, TypeVar

from pecli.engine.edits import Layout, Parameter, edit_of
from pecli.engine.scalings import PARAMETERS
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.axis_blocks import AxisBlock
from pecli.engine.schemes.given_positions import GridSize, PositionList
from pecli.engine.schemes.grid_styles import ADDED, ROTARY, GridStyle
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.rope import Rope, as_read
from pecli.engine.schemes.scheme import Scheme, default_of
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError, spelled

MAX_LISTED = 1 << 16
"""The maximum length of an explicit list of positions in a known mistake."""
USUAL_FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0)
"""Factors of scalings that models have: one is easily taken for another."""

APPLIED_TWICE = ("linear", "ntk", "ntk-fixed", "proportional")
"""Scalings that are still one of their own kind if they are applied twice: with the square of the factor."""

CONFUSED_FACTORS = ("linear", "ntk", "ntk-fixed", "yarn", "llama3")
"""Scalings whose factor people type, so that they may type another usual one."""

PlacedT = TypeVar("PlacedT", bound=Positioned)
SchemeT = TypeVar("SchemeT", bound=Scheme)
MistakenT = TypeVar("MistakenT", bound=Scheme, covariant=True)


class Points(NamedTuple):
    """The points of a grid: the positions of each axis, and which of them each row has."""

    axes: str
    positions: tuple[Sequence[Any], ...]
    rows: list[list[int]]

    def listed(self, moved: str = "", by: Fraction = Fraction(0)) -> list[list[Any]]:
        """Return the positions of all rows, axis by axis, some axes shifted."""
        every = []
        for axis, positions, rows in zip(self.axes, self.positions, self.rows, strict=True):
            shift = by if axis in moved else 0
            places = [PositionList.kept(Fraction(position + shift)) for position in positions]
            every.append([places[row] for row in rows])
        return every

    def numbered_from_one(self, *, in_turns: bool) -> list[list[float]]:
        """Return the positions 1, 2, … of all rows along each axis, as DETR has without `normalize`.

        A style whose positions are turns multiplies them by 2π, by which they are divided here.
        """
        unit = 1 / (2 * math.pi) if in_turns else 1.0
        return [[unit * (row + 1) for row in rows] for rows in self.rows]


class Neighbour(NamedTuple, Generic[MistakenT]):
    """A known mistake: the edits that describe it, and the scheme with that mistake."""

    edits: tuple[Parameter | Layout, ...]
    scheme: MistakenT


@singledispatch
def neighbours(scheme: Scheme) -> tuple[Neighbour[Scheme], ...]:
    """Return the known mistakes: each parameter at its default, and positions that are off by one."""
    left_out = {"dtype", "recipe", "offset", *scheme.inert_parameters}
    mistakes = []
    for name in scheme.parameters():
        if name in left_out:
            continue
        default = default_of(type(scheme), name)
        if default not in (None, MISSING, getattr(scheme, name)):
            mistakes.append(neighbour(scheme, **{name: default}))
    if "offset" in scheme.parameters():
        mistakes.append(neighbour(scheme, offset=scheme.first_position - 1))
        mistakes.append(neighbour(scheme, offset=scheme.first_position + 1))
    return tuple(mistake for mistake in mistakes if mistake is not None)


_default_neighbours = neighbours.dispatch(Scheme)


def neighbour(scheme: SchemeT, **changes: Any) -> Neighbour[SchemeT] | None:
    """Return the scheme with other parameters; None if that is no scheme, or the same one.

    Changes to None are not reported as edits: they take away what the others replace.
    """
    everything = dict(changes)
    if not scheme.is_range:
        everything["seq_len"] = None  # It follows from the positions or the grid.
    try:
        changed = replace(scheme, **everything)
    except ParameterError:
        return None
    if changed == scheme:
        return None
    named = {name: value for name, value in changes.items() if value is not None}
    edits = [edit_of(name, getattr(scheme, name), value) for name, value in named.items()]
    return Neighbour(tuple(edits), changed)


def _existing(
    candidates: Iterable[Neighbour[SchemeT] | None],
) -> tuple[Neighbour[SchemeT], ...]:
    return tuple(candidate for candidate in candidates if candidate is not None)


@neighbours.register
def _(scheme: Alibi) -> tuple[Neighbour[Scheme], ...]:
    """Return the other rule if it differs, the other forms, and max_bias at its default."""
    changes: list[dict[str, Any]] = [{"max_bias": 8.0}]
    is_power_of_two = scheme.heads & (scheme.heads - 1) == 0
    if not is_power_of_two:
        changes.append({"rule": "naive" if scheme.rule == "paper" else "paper"})
    if "form" not in scheme.inert_parameters:
        changes += [{"form": form} for form in ("symmetric", "causal", "key", "key-last")]
    return _existing(neighbour(scheme, **change) for change in changes)


@neighbours.register
def _(scheme: LearnedInit) -> tuple[Neighbour[Scheme], ...]:
    """Return another seed, and the usual standard deviation."""
    changes: dict[str, Any] = {"seed": 1 if scheme.seed == 0 else 0, "std": 0.02}
    return _existing(
        neighbour(scheme, **{name: value})
        for name, value in changes.items()
        if name not in scheme.inert_parameters
    )


@neighbours.register
def _(scheme: Sinusoidal) -> tuple[Neighbour[Scheme], ...]:
    """Return the other layout, order and exponent, other places, and parameters at their defaults."""
    changes: list[dict[str, Any]] = [
        {"layout": "halves" if scheme.layout == "interleaved" else "interleaved"},
        {"cos_first": not scheme.cos_first},
        {"freq_shift": 0.0 if scheme.freq_shift else 1.0},
    ]
    first = {}
    for change in changes:
        mistake = neighbour(scheme, **change)
        if mistake is not None:
            first[mistake.scheme] = mistake
    more = [*_existing(_misplaced(scheme, ADDED)), *_default_neighbours(scheme)]
    return (*first.values(), *(mistake for mistake in more if mistake.scheme not in first))


@neighbours.register
def _(scheme: Rope) -> tuple[Neighbour[Scheme], ...]:
    """Return mistakes in base, offset, scaling, exponent, places and sections."""
    mistakes = _existing(_rope_candidates(scheme))
    if scheme.runtime == "none":
        return mistakes
    # A runtime may read both alike: such a mistake has no effect.
    read = as_read(scheme)
    return tuple(mistake for mistake in mistakes if as_read(mistake.scheme) != read)


def _rope_candidates(scheme: Rope) -> Iterator[Neighbour[Rope] | None]:
    yield neighbour(scheme, base=10000.0)
    yield neighbour(scheme, offset=scheme.offset - 1)
    yield neighbour(scheme, offset=scheme.offset + 1)
    for change in _other_scalings(scheme):
        yield neighbour(scheme, **change)
    yield _over_the_dim(scheme)
    yield from _misplaced(scheme, ROTARY)
    if scheme.mrope_section is not None and scheme.positions is not None:
        yield neighbour(scheme, mrope_interleaved=None if scheme.mrope_interleaved else True)
        for order in permutations(scheme.mrope_section):
            yield neighbour(scheme, mrope_section=order)


def _over_the_dim(scheme: Rope) -> Neighbour[Rope] | None:
    """Return the exponents over the whole dim, if fewer channels rotate, or each axis has its own.

    With base b over d of D channels, b^(−i/(d/2)) becomes b^(−i/(D/2)), the frequencies of the base
    b^(d/D). If axes have different sizes, the factors of NTK express this per axis.
    """
    sizes = [block.channels for block in sorted(scheme.axis_blocks)] or [scheme.exponent_dim]
    usual = [AxisBlock(*block[:2], Fraction(block.channels, 2)) for block in scheme.axis_blocks]
    has_other_frequencies = [*scheme.axis_blocks] != usual
    if sizes == [scheme.dim] or has_other_frequencies or scheme.scaling not in ("none", "linear"):
        return None
    ratios = [scheme.base ** (size / scheme.dim - 1) for size in sizes]
    expected: Any = sizes[0]
    mistake = neighbour(scheme, base=scheme.base * ratios[0])
    if len({*sizes}) > 1:
        expected = spelled(tuple(sizes))
        factors = [ratio ** (1 - 2 / size) for ratio, size in zip(ratios, sizes, strict=True)]
        mistake = neighbour(scheme, axis_factors=tuple(factors))
    if mistake is None:
        return None
    return Neighbour((edit_of("exponent_dim", expected, scheme.dim),), mistake.scheme)


def _other_scalings(scheme: Rope) -> Iterator[dict[str, Any]]:
    """Yield changes of the scaling: none, twice, another attention factor, ramp, length or factor."""
    if scheme.scaling == "none":
        return
    parameters = [name for name in PARAMETERS if getattr(scheme, name) is not None]
    yield {"scaling": "none", **dict.fromkeys(parameters)}
    yield from _other_factors(scheme)
    yield from _other_attention_factors(scheme)
    if scheme.scaling == "yarn":
        yield {"truncate": scheme.truncate is False}
    if scheme.scaling == "longrope":
        yield from _other_side_of_the_length(scheme)


def _other_factors(scheme: Rope) -> Iterator[dict[str, Any]]:
    """Yield the factor of a scaling that is applied twice, and the usual ones next to it."""
    factor = scheme.factor
    if factor is None:
        return
    twice = factor**2
    if scheme.scaling in APPLIED_TWICE:
        yield {"factor": twice}
    if scheme.scaling not in CONFUSED_FACTORS:
        return
    # Factors farther away differ by more, and would be noticed.
    smaller = [usual for usual in USUAL_FACTORS if usual < factor][-1:]
    larger = [usual for usual in USUAL_FACTORS if usual > factor][:1]
    for usual in (*smaller, *larger):
        if usual != twice:
            yield {"factor": usual}


def _other_attention_factors(scheme: Rope) -> Iterator[dict[str, Any]]:
    """Yield an attention factor that is left out or applied twice, of scalings that have one."""
    attention = scheme.attention_factor_value()
    if scheme.scaling in ("yarn", "longrope") and attention != 1:
        yield {"attention_factor": 1.0}
        yield {"attention_factor": attention**2}


def _other_side_of_the_length(scheme: Rope) -> Iterator[dict[str, Any]]:
    """Yield the length at which LongRoPE uses its other list: short factors up to the original length, then long ones."""
    original = scheme.original_max_position_embeddings
    if original is not None:
        is_long = scheme.effective_length > original
        yield {"length": original if is_long else original + 1}


def _misplaced(
    scheme: PlacedT, styles: Mapping[str, GridStyle]
) -> Iterator[Neighbour[PlacedT] | None]:
    """Yield mistakes in the places of rows: other grids, styles, points or axes."""
    style = scheme.grid_style
    if scheme.grid is not None:
        yield from _other_grids(scheme, scheme.grid)
    if style is not None:
        yield from _other_styles(scheme, style, styles)
    is_listable = scheme.seq_len <= MAX_LISTED and not (scheme.keep and style and style.layout)
    if scheme.grid and style and is_listable:
        yield from _other_points(scheme, style)
    if scheme.positions is not None and len(scheme.positions.axes) > 1:
        yield from _permuted_axes(scheme, scheme.positions.axes)


def _other_grids(scheme: PlacedT, grid: GridSize) -> Iterator[Neighbour[PlacedT] | None]:
    yield neighbour(scheme, grid=GridSize((*grid[:-2], grid[-1], grid[-2])))
    for keep in (0, 1):
        if keep != (scheme.keep or 0):
            yield neighbour(scheme, keep=keep)
    yield neighbour(scheme, grid_base=None)
    yield neighbour(scheme, grid_scale=None)
    style = scheme.grid_style
    if style is not None and style.grid_scale is not None:
        # diffusers does not divide the positions of LTX if rope_interpolation_scale is left out.
        yield neighbour(scheme, grid_scale=(1.0,) * len(style.grid_scale))


def _other_styles(
    scheme: PlacedT, style: GridStyle, styles: Mapping[str, GridStyle]
) -> Iterator[Neighbour[PlacedT] | None]:
    changes: dict[str, Any] = {}
    if scheme.base == style.base:
        changes["base"] = None  # Another style has its own base.
    own_channels = scheme.value_of("axes", None) is not None
    for name, candidate in styles.items():
        # A style that differs in the base only is another base, which has a mistake of its own.
        alike = replace(candidate, name=style.name, base=style.base)
        if own_channels:
            alike = replace(alike, split=style.split)
        if alike != style:
            yield neighbour(scheme, style=name, **changes)


def _other_points(scheme: PlacedT, style: GridStyle) -> Iterator[Neighbour[PlacedT] | None]:
    """Yield rows and columns exchanged, positions that count rows of the table, and shifted ones."""
    coordinates = scheme.coordinates()
    rows = coordinates.index(0, scheme.seq_len).tolist()
    points = Points(style.sorted_axes, coordinates.values, rows)
    exchanged = {"h": "w", "w": "h"}
    order = [points.axes.index(exchanged.get(axis, axis)) for axis in points.axes]
    yield _in_order(scheme, points.listed(), points.axes, order)
    for counting in dict.fromkeys((points.axes, "hw")):
        by_axis: dict[str, Sequence[Any]] = dict(zip(points.axes, points.listed(), strict=True))
        by_axis |= dict.fromkeys(counting, range(scheme.seq_len))
        edit = edit_of("positions", "those of the grid", "0, 1, 2, …")
        yield _at_positions(scheme, [*by_axis.values()], edit)
    for moved, by in product((*points.axes, "hw"), (Fraction(1), Fraction(-1), Fraction(1, 2))):
        edit = edit_of(f"positions along {' and '.join(moved)}", 0, float(by))
        yield _at_positions(scheme, points.listed(moved, by), edit)
    if style.coordinate == "share":
        edit = edit_of("normalize", True, False)
        yield _at_positions(scheme, points.numbered_from_one(in_turns=style.in_turns), edit)


def _permuted_axes(
    scheme: PlacedT, axes: Sequence[Sequence[Any]]
) -> Iterator[Neighbour[PlacedT] | None]:
    """Yield two axes exchanged, and all axes the same as the first."""
    count = len(axes)
    names = "thw"[-count:] if count < 4 else "".join(map(str, range(count)))
    for first, second in combinations(range(count), 2):
        order = [*range(count)]
        order[first] = second
        order[second] = first
        yield _in_order(scheme, axes, names, order)
    yield _in_order(scheme, axes, names, [0] * count)


def _in_order(
    scheme: PlacedT, places: Sequence[Sequence[Any]], names: str, order: Sequence[int]
) -> Neighbour[PlacedT] | None:
    found = ",".join(names[axis] for axis in order)
    edit = edit_of("axes of positions", ",".join(names), found)
    return _at_positions(scheme, [places[axis] for axis in order], edit)


def _at_positions(
    scheme: PlacedT, places: Sequence[Sequence[Any]], edit: Parameter | Layout
) -> Neighbour[PlacedT] | None:
    without_grid = dict.fromkeys(("grid", "keep", "grid_base", "grid_scale"))
    positions = PositionList(map(tuple, places))
    mistake = neighbour(scheme, positions=positions, **without_grid)
    return None if mistake is None else Neighbour((edit,), mistake.scheme)
