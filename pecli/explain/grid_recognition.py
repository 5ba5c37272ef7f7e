"""Identification of tables on grids: styles of public projects, by the sizes that the rows allow.

On a grid a column depends on one axis only. So the sizes show without any frequency: with the right
ones, all rows at the same place of a column's axis are equal.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, product
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Complex, Flags, Floats, Indices, dtype_name, widened
from pecli.engine.schemes.axis_blocks import AxisBlock
from pecli.engine.schemes.grid_styles import ADDED, ROTARY, GridStyle
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError
from pecli.explain.catalogue.placements import OtherAxisFactors, OtherGridBase, OtherGridSpan
from pecli.explain.explanation import Explanation
from pecli.explain.first_choice import explain_by_first
from pecli.explain.hypotheses import explain_by_kind, explain_cases, with_storages
from pecli.explain.hypothesis import Case, Mistake
from pecli.explain.storage import SIGNIFICANT_BITS, half_ulp
from pecli.explain.subject import computation_of
from pecli.explain.time_limit import check_time
from pecli.explain.wave_readings import WaveReading, wave_readings, without_copies

MIN_POINTS = 4
"""Points of a grid: fewer rows are a grid by chance."""

MAX_POINTS = 1 << 14
"""Points of a grid: an image of 128 × 128 patches."""

SLACK = 1e-5
"""Error of other programs' float32 angles of a few radians."""

SLACK_UNITS = 32
"""Half units of the last place by which equal rows may differ."""

MIN_STEP = 0.02
"""Largest step of a column along a slow axis, at least."""

MIN_EQUAL = 0.3
"""Share of rows that equal the one before in such a column: along a slow axis, rows repeat until
the next place.
"""

ROWS_ELEMENTS = 1 << 20
"""Elements of the rows that are compared with their neighbours at once."""

KNOWN_AXES = ((16, 56, 56), (32, 48, 48), (32, 112, 112), (16, 24, 24), (8, 28, 28))
"""Channels of time, height and width in models that do not take the shares of their style."""

StyleAndChannels = tuple[GridStyle, tuple[int, ...] | None]
"""A style, and the channels per axis if they are not the style's own."""

STYLES_OF_ROTARY: tuple[StyleAndChannels, ...] = (
    *((style, None) for style in ROTARY.values()),
    *(
        (ROTARY["flux"], channels) for channels in KNOWN_AXES
    ),  # These models lay them out as Flux does.
)

OTHER_NUMBERS: tuple[type[Mistake], ...] = (OtherGridBase, OtherGridSpan, OtherAxisFactors)
"""Numbers of a style that are solved from the data."""


class GridPrior(NamedTuple):
    """A style that may have made a table, and cos + i·sin of the table in the order of its pairs.

    Attributes:
        style: The way in which one project, such as MAE, lays channels and positions out.
        channels: The channels of each axis, if they are not the style's own.
        blocks: The pairs of each axis: those of the height, then those of the width.
        phasors: cos + i·sin of each row and pair of the table, (rows, pairs).
    """

    style: GridStyle
    channels: tuple[int, ...] | None
    blocks: Sequence[AxisBlock]
    phasors: Complex

    @property
    def axis_of_pair(self) -> Indices:
        """The axis that each pair follows: 0 0 1 1 for two blocks of two pairs."""
        axes_of_blocks = [np.full(block.pairs, block.axis) for block in self.blocks]
        pair_count = self.phasors.shape[1]  # An odd width lacks the last pair.
        return np.concatenate(axes_of_blocks)[:pair_count]

    @property
    def phasors_of_image(self) -> Complex:
        """The phasors of the pairs that follow the height or the width, (rows, pairs)."""
        axes = self.style.sorted_axes
        axes_of_image = [number for number, axis in enumerate(axes) if axis in "hw"]
        return self.phasors[:, np.isin(self.axis_of_pair, axes_of_image)]


def recognise_grid(tensors: Mapping[str, Array]) -> list[Explanation]:
    """Return the first scheme on a grid of image patches or video that makes the tables.

    A style is how one project (MAE, Flux, DETR, …) divides channels between height and width. All
    styles are first tried as their projects have them, on every grid that the table allows: 3×4,
    4×3, … for 12 rows. Only then are they tried with another base or another span.
    """
    return explain_by_first(_readings(tensors), _explain_on_grids)


def _explain_on_grids(reading: WaveReading) -> list[Explanation]:
    """Return the explanation of a table by the first style and grid that make it.

    A style is how one project, such as MAE, lays a table out. If none makes the table as its project
    has it, all are tried with another base, or with positions that span another range.
    """
    if not MIN_POINTS <= reading.rows <= MAX_POINTS or not _may_be_on_grid(reading):
        return []
    schemes = list(_possible_schemes(reading))
    by_style = explain_by_first(schemes, partial(_explain_by_style, reading), most=1)
    if by_style:
        return by_style
    return explain_by_first(schemes, partial(_explain_by_style_with_other_numbers, reading), most=1)


def _may_be_on_grid(reading: WaveReading) -> bool:
    """Return True if some column often has the same value in the next row, as on a grid.

    Row by row through an image of 4×4 patches, the columns of the height change only after every
    fourth row. This rules out most large files, before pairs of columns are made of all their numbers.
    """
    limit = _largest_difference_of_equals(reading)
    for table in reading.tensors.values():
        equal_steps = _count_equal_steps(table, limit)
        # Rows beside the grid are left out later: then more than MIN_EQUAL of the others must be equal.
        if (equal_steps > MIN_EQUAL / 2 * len(table)).any():
            return True
    return False


def _count_equal_steps(table: Array, limit: float) -> Indices:
    """Return, per column, the number of rows after which the next one has the same value.

    A column 0 0 1 1 2 has two. Some rows are compared at a time, so that large files are never in
    memory as a whole.

    Args:
        table: The numbers, (rows, columns).
        limit: How much equal numbers may differ.
    """
    rows_at_once = max(2, ROWS_ELEMENTS // max(1, table.shape[1]))
    equal_steps = np.zeros(table.shape[1], np.intp)
    for start in range(0, len(table), rows_at_once):
        first_of_next = start + rows_at_once
        rows = widened(table[start : first_of_next + 1])
        with np.errstate(all="ignore"):
            equal_steps += np.count_nonzero(np.abs(np.diff(rows, axis=0)) <= limit, axis=0)
    return equal_steps


def _largest_difference_of_equals(reading: WaveReading) -> float:
    """Return by how much equal numbers may differ in a table of some dtype: 1e-5, and some rounding."""
    return SLACK + SLACK_UNITS * float(half_ulp(np.ones(1), reading.dtype)[0])


def _readings(tensors: Mapping[str, Array]) -> Iterator[WaveReading]:
    """Yield how tensors may be read: as one table that is added to embeddings, or as two rotary tables.

    Which columns of an added table are sines depends on the style, which is not known yet. So it is
    not split into cosines and sines here.
    """
    if len(tensors) == 1:
        (tensor,) = tensors.values()
        array, edits = next(without_copies(tensor))
        if array.ndim == 2 and dtype_name(array.dtype) in SIGNIFICANT_BITS:
            yield WaveReading({"pe": array}, "compact", edits)
    for reading in chain.from_iterable(wave_readings(tensors)):
        if len(reading.tensors) == 2:
            yield reading


def _case(reading: WaveReading, scheme: Positioned) -> Case:
    """Return the tables as those of a scheme."""
    computation = computation_of(scheme, tuple(reading.tensors))
    return Case.of(scheme, computation, reading.observations, reading.edits)


def _explain_by_style(reading: WaveReading, scheme: Positioned) -> Iterator[Explanation]:
    """Yield explanations by the scheme of a style with the base and the span that its project has."""
    yield from explain_cases([_case(reading, scheme)], tolerance=0.0, most_mistakes=0)


def _explain_by_style_with_other_numbers(
    reading: WaveReading, scheme: Positioned
) -> Iterator[Explanation]:
    """Yield explanations by the scheme of a style with a base or a span that are solved from the data."""
    for stored, kind in product(with_storages(_case(reading, scheme)), OTHER_NUMBERS):
        yield from explain_by_kind(stored, kind)


def _possible_schemes(reading: WaveReading) -> Iterator[Positioned]:
    """Yield a scheme for every style and grid that a table may have, judging by equal rows.

    With 13 rows and one row for a class token, 12 points may be 3×4 or 4×3. On a grid of 3×4 the
    columns of the height are equal in rows 1–4, 5–8 and 9–12; if they are not, it is no such grid.
    This needs no frequencies, and rules out nearly all grids.
    """
    limit = _largest_difference_of_equals(reading)
    for prior in _styles_of_tables(reading):
        for rows_beside_grid in _possible_keeps(prior, limit):
            for grid in _possible_grids(prior, rows_beside_grid, limit):
                scheme = _scheme_on_grid(grid, rows_beside_grid, prior, reading)
                if scheme is not None:
                    yield scheme


def _possible_grids(prior: GridPrior, keep: int, limit: float) -> Iterator[tuple[int, ...]]:
    """Yield the grids of a style by which rows at equal places are equal.

    Of 13 rows with one for a class token, 12 are points. They are 3×4 if the columns of the height
    are the same in rows 1–4, in rows 5–8 and in rows 9–12.

    Args:
        prior: The style, and the phasors of all rows, (rows, pairs).
        keep: The rows beside the grid, such as that of a class token.
        limit: How much equal numbers may differ.
    """
    phasors = _phasors_of_points(prior, keep)
    if len(phasors) < MIN_POINTS or not _has_slow_axis(phasors, limit):
        return
    for grid in _grids_of(len(phasors), prior.style):
        check_time()
        if _may_lie_on_grid(prior, grid, keep, limit):
            yield grid


def _scheme_on_grid(
    grid: tuple[int, ...], keep: int, prior: GridPrior, reading: WaveReading
) -> Positioned | None:
    """Return the scheme of a style on a grid; None if the style refuses the combination.

    A refusal is not an error here: sizes are guessed from the number of rows, and not every style
    takes every grid, every number of channels per axis, or rows beside the grid.

    Args:
        grid: Points along each axis.
        keep: Rows beside the grid, such as a class token.
        prior: The style, and the channels per axis if they are not the style's own.
        reading: The table, with its width and dtype.
    """
    options: dict[str, Any] = {"grid": grid, "style": prior.style.name, "dtype": reading.dtype}
    # Only what differs from the style is an option, so that the printed command is short.
    if prior.channels is not None:
        options["axes"] = prior.channels
    if keep != prior.style.keep:
        options["keep"] = keep
    try:
        if reading.is_added:
            return Sinusoidal(dim=reading.width, **options)
        return Rope(dim=2 * reading.pairs, layout=reading.layout, **options)
    except ParameterError:
        return None


def _styles_of_tables(reading: WaveReading) -> Iterator[GridPrior]:
    """Yield the styles that have tables of this width, with cos + i·sin of all rows as each reads them.

    Nothing is yielded if a number is NaN or infinite, which no style makes.

    Args:
        reading: A table that is added to embeddings, or a pair of rotary tables.
    """
    every_row = slice(None)
    values = reading.observations.matrix(every_row)  # (rows, columns)
    if not np.isfinite(values).all():
        return
    if reading.is_added:
        yield from _styles_of_added_table(values)
    else:
        yield from _styles_of_rotary_tables(_phasors_of_rotary_tables(values, reading))


def _styles_of_added_table(values: Floats) -> Iterator[GridPrior]:
    """Yield the styles of a table that is added to embeddings, (rows, columns).

    It depends on the style which columns are sines, and which are cosines.
    """
    dim = values.shape[1]
    for style in ADDED.values():
        blocks = _blocks_of_style(style, dim)
        if blocks is not None:
            yield GridPrior(style, None, blocks, _phasors_of_added_table(values, style, blocks))


def _styles_of_rotary_tables(phasors: Complex) -> Iterator[GridPrior]:
    """Yield the styles that have rotary tables with so many pairs.

    Some models have the style of Flux with channels per axis of their own, such as 16 56 56 for time,
    height and width, which are yielded as well.

    Args:
        phasors: cos + i·sin of each row and pair, (rows, pairs).
    """
    dim = 2 * phasors.shape[1]
    for style, channels in STYLES_OF_ROTARY:
        blocks = _blocks_of_style(style, dim, channels)
        if blocks is not None:
            yield GridPrior(style, channels, blocks, phasors)


def _blocks_of_style(
    style: GridStyle, dim: int, channels: tuple[int, ...] | None = None
) -> tuple[AxisBlock, ...] | None:
    """Return how a style divides `dim` channels among the axes; None if it has tables of other widths.

    Args:
        style: The style.
        dim: The channels of all axes.
        channels: The channels of each axis, if they are not the style's own.
    """
    try:
        return style.blocks(dim, channels)
    except ParameterError:
        return None


def _phasors_of_rotary_tables(values: Floats, reading: WaveReading) -> Complex:
    """Return cos + i·sin of all rows of `cos` and `sin`, (rows, pairs): their columns state the pairs."""
    every_row = np.arange(len(values))
    return np.asarray(reading.columns.phasors(values, every_row))


def _phasors_of_added_table(
    values: Floats, style: GridStyle, blocks: Sequence[AxisBlock]
) -> Complex:
    """Return cos + i·sin of a table that is added to embeddings, (rows, pairs): one column per frequency.

    Args:
        values: The table, (rows, columns).
        style: The style of a project, which decides on the order of sines and cosines.
        blocks: The frequencies of each axis, such as those of the height and of the width.
    """
    if style.layout == "interleaved":  # s0 c0 s1 c1
        return _phasors_of_interleaved(values)
    if style.sines_first:  # s0 s1 s2 s3 c0 c1 c2 c3: the sines of all axes, then all cosines
        return _phasors_of_halves(values)
    # s0 s1 c0 c1 | s2 s3 c2 c3: each axis has its sines before its cosines.
    columns_by_axis = _split_by_axis(values, blocks)
    return np.concatenate([_phasors_of_halves(columns) for columns in columns_by_axis], axis=1)


def _split_by_axis(values: Floats, blocks: Sequence[AxisBlock]) -> list[Floats]:
    """Return the columns of each axis of a table (rows, columns), two for each of its frequencies.

    Of 7 columns, axes with two frequencies and with one have the first 4 and the next 2. The last
    column belongs to no axis and is left out.
    """
    ends = np.cumsum([2 * block.pairs for block in blocks])
    *columns_by_axis, _ = np.split(values, ends, axis=1)
    return columns_by_axis


def _phasors_of_interleaved(columns: Floats) -> Complex:
    """Return c0 + i·s0, c1 + i·s1, … of columns s0 c0 s1 c1 …; an odd last column is left out."""
    end = columns.shape[1] // 2 * 2
    sines = columns[:, 0:end:2]
    cosines = columns[:, 1:end:2]
    return np.asarray(cosines + 1j * sines)


def _phasors_of_halves(columns: Floats) -> Complex:
    """Return c0 + i·s0, c1 + i·s1, … of columns s0 s1 … c0 c1 …; an odd last column is left out."""
    pairs = columns.shape[1] // 2
    sines = columns[:, :pairs]
    cosines = columns[:, pairs : 2 * pairs]
    return np.asarray(cosines + 1j * sines)


def _possible_keeps(prior: GridPrior, limit: float) -> list[int]:
    """Return how many rows beside the grid there may be, the usual number of the style first.

    Such rows, as that of a class token, have no height and width or are zeros. The first point of
    most grids has none either: if rows 0 and 1 have none, one row or both are beside the grid.

    Args:
        prior: The style, and cos + i·sin of all rows, (rows, pairs).
        limit: How much cos + i·sin may differ from 1 if the angle is 0.
    """
    usual = prior.style.keep
    most = _count_edge_rows_without_place(prior, limit)
    all_but_first_point = max(0, most - 1)
    others = sorted({most, all_but_first_point} - {usual})
    return [usual, *others]


def _count_edge_rows_without_place(prior: GridPrior, limit: float) -> int:
    """Return how many rows at the edge of a table have no place in the image, as that of a class token.

    Such rows are zeros, or lie at height 0 and width 0, where each cos + i·sin is 1. Rows of text in a
    table for images have no place either. They come before the rows of the grid, or after them if the
    style has `keep_last`. If no row has a place, all are counted.

    Args:
        prior: The style, and cos + i·sin of all rows, (rows, pairs).
        limit: How much cos + i·sin may differ from 1 if the angle is 0.
    """
    phasors = prior.phasors_of_image  # of height and width; small tables may have no pair for these
    is_zeros = ~phasors.any(axis=1)
    distance_from_1 = np.abs(phasors - 1).max(axis=1, initial=0.0)
    has_place = (distance_from_1 > limit) & ~is_zeros
    if prior.style.keep_last:
        has_place = has_place[::-1]
    return _count_before_first_true(has_place)


def _count_before_first_true(flags: Flags) -> int:
    """Return how many flags come before the first True: 2 for 0 0 1 0, and all 3 for 0 0 0."""
    return int(np.append(flags, True).argmax())


def _phasors_of_points(prior: GridPrior, keep: int) -> Complex:
    """Return the phasors of the grid's points, without the `keep` rows beside the grid."""
    if prior.style.keep_last:
        return prior.phasors[: len(prior.phasors) - keep]
    return prior.phasors[keep:]


def _has_slow_axis(phasors: Complex, limit: float) -> bool:
    """Return True if some column moves, and stays for several rows where it is."""
    steps = np.abs(np.diff(phasors, axis=0))
    moves = steps.max(axis=0) > MIN_STEP
    stays = np.mean(steps <= limit, axis=0) > MIN_EQUAL
    return bool((moves & stays).any())


def _may_lie_on_grid(prior: GridPrior, grid: tuple[int, ...], keep: int, limit: float) -> bool:
    """Return True if points at one height have equal columns for the height, and so on for each axis.

    The points 0, 1 and 2 of a 2×3 grid have one height, and the points 0 and 3 one width. So columns
    for the height must be equal at 0, 1 and 2, and those for the width at 0 and 3.

    Args:
        prior: The style, and cos + i·sin of all rows of the table, (rows, pairs).
        grid: The supposed points along each axis.
        keep: The supposed rows beside the grid, such as that of a class token.
        limit: How much equal numbers may differ.
    """
    cos_and_sin = _phasors_of_points(prior, keep)  # (points, pairs)
    axis_of_pair = prior.axis_of_pair
    coordinates_by_axis = _coordinates_of_points(prior.style, grid, keep)
    for axis, coordinates in enumerate(coordinates_by_axis):
        columns_of_axis = cos_and_sin[:, axis_of_pair == axis]
        if not _are_equal_by_coordinate(columns_of_axis, coordinates, limit):
            return False
    return True


def _coordinates_of_points(style: GridStyle, grid: tuple[int, ...], keep: int) -> Indices:
    """Return where each point of a grid lies along each axis, (axes, points).

    The points of a grid of 2×3 have the heights 0 0 0 1 1 1 and the widths 0 1 2 0 1 2.

    Args:
        style: The style, which decides on the order of the points.
        grid: The points along each axis.
        keep: The rows beside the grid, which come before its points, or after them in some styles.
    """
    table = style.coordinates(grid, keep, base=None, scale=None)
    points = table.rows - keep
    first_point = 0 if style.keep_last else keep
    return table.index(first_point, first_point + points)


def _are_equal_by_coordinate(phasors: Complex, coordinates: Indices, limit: float) -> bool:
    """Return True if all rows with one coordinate have the phasors of the first such row.

    Rows with the coordinates 0 0 1 1 are compared with the rows 0 0 2 2.
    """
    _distinct, first_rows, index = np.unique(coordinates, return_index=True, return_inverse=True)
    first_row_alike = first_rows[index]  # 0 0 2 2
    differences = np.abs(phasors[first_row_alike] - phasors)
    return bool(differences.max(initial=0.0) <= limit)


def _grids_of(points: int, style: GridStyle) -> Iterator[tuple[int, ...]]:
    """Yield the grids with so many points: images first, the squarest first, then videos.

    12 points are 3×4, 4×3, 2×6 and 6×2, and with time 2×2×3, 2×3×2 and 3×2×2. A grid of one row or
    one column is a sequence.
    """
    images = sorted(_factors(points), key=lambda sizes: abs(sizes[0] - sizes[1]))
    grids: list[tuple[int, ...]] = [*images]
    if "t" in style.axes or style.repeats_time:
        for frames, points_per_frame in _factors(points)[1:]:  # A single image has no time.
            grids += [(frames, *image) for image in _factors(points_per_frame)]
    for grid in grids:
        if min(grid[-2:]) > 1 and _is_possible(style, grid):
            yield grid


def _factors(number: int) -> list[tuple[int, int]]:
    """Return the pairs of numbers whose product is a number: (1, 6), (2, 3), (3, 2), (6, 1) for 6."""
    return [(k, number // k) for k in range(1, number + 1) if number % k == 0]


def _is_possible(style: GridStyle, grid: tuple[int, ...]) -> bool:
    try:
        style.check(grid)
    except ParameterError:
        return False
    return True
