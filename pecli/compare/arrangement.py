"""The ways in which a table lies in an array, all of them enumerated here.

Three questions describe an arrangement, and each has a table of answers:

- how the functions lie beside each other, and how columns are doubled: `forms.ARRANGEMENTS` and `forms.DOUBLINGS`;
- how a program folded, dropped or exchanged axes: `FOLDINGS`, one small function per way;
- which of the axes count rows of the table, and which only copies of it: `_choose_row_axes`.

The answers are factors of the array (see `factors`), from which the views of the tables follow. A new way is a new row
of one of these tables. Nothing is taken on trust: every element of every copy is compared.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import NamedTuple

from pecli.compare.candidate import CandidateTable, TableShape
from pecli.compare.factors import (
    Axis,
    Factor,
    FunctionView,
    Shape,
    View,
    find_steps,
    view_functions,
    without_ones,
)
from pecli.compare.forms import Form
from pecli.engine.arrays import AnyArray
from pecli.errors import bracketed, counted

MAX_AXES = 6  #: axes of a tensor in which rows are looked for


class Folding(NamedTuple):
    """The axes that an array had before a program folded, dropped or exchanged some.

    Attributes:
        shape: The lengths of these axes, in the order in which the array has its elements.
        note: What was assumed; empty if it goes without saying.
        transposed: True if the last two axes were exchanged.
        heads_are_last: True if the last axis before the columns counts heads, which are copies.
        is_guess: True if values must confirm it: other tables have such a shape, too.
    """

    shape: Shape
    note: str = ""
    transposed: bool = False
    heads_are_last: bool = False
    is_guess: bool = False


@dataclass(frozen=True)
class Arrangement:
    """A way in which tables lie in an array: its factors, the slowest first."""

    array_shape: Shape
    factors: tuple[Factor, ...]
    form: Form
    folding: Folding

    @property
    def copy_axes(self) -> tuple[int, ...]:
        """The axes of the array along which the whole table is repeated."""
        sizes = [factor.size for factor in self.factors]
        copies = set()
        for factor, step in zip(self.factors, find_steps(sizes), strict=True):
            if factor.axis == Axis.COPY and factor.size > 1:
                copies.add((factor.size, step))
        axes = zip(self.array_shape, find_steps(self.array_shape), strict=True)
        return tuple(number for number, axis in enumerate(axes) if axis in copies)

    def views(self, array: AnyArray, row_lengths: TableShape) -> list[FunctionView]:
        """Return the views of the functions, with an axis for each axis of the table.

        Axes of length 1 that the table has, and the array had dropped, are added again.
        """
        views = view_functions(array, self.factors)
        rows = sum(factor.axis == Axis.ROW for factor in self.factors)
        if rows == len(row_lengths):
            return views
        dropped_axes = [axis for axis, length in enumerate(row_lengths) if length == 1]
        return [
            function._replace(view=_with_axes_of_length_1(function.view, rows, dropped_axes))
            for function in views
        ]


def _with_axes_of_length_1(view: View, rows: int, dropped_axes: Sequence[int]) -> View:
    """Return a view whose axes of rows have axes of length 1 among them again.

    A bias (1, L, L) that was stored as (L, L) has one axis of rows, and axis 0 was dropped.

    Args:
        view: The view, (copies…, rows…, columns).
        rows: The number of its axes of rows.
        dropped_axes: The places of the others among the axes of rows, in order.
    """
    shape = list(view.values.shape)
    steps = list(view.steps)
    first_row_axis = len(shape) - 1 - rows
    for axis in dropped_axes:
        shape.insert(first_row_axis + axis, 1)
        steps.insert(first_row_axis + axis, 0)
    return view._replace(values=view.values.reshape(shape), steps=tuple(steps))


def make_straight(shape: Shape) -> Arrangement:
    """Return the arrangement of an array that is a table as it stands."""
    rows = [Factor(Axis.ROW, length) for length in shape[:-1]]
    columns = [Factor(Axis.FREQUENCY, length) for length in shape[-1:]]
    return Arrangement(
        array_shape=shape, factors=(*rows, *columns), form=Form("alone"), folding=Folding(shape)
    )


def find_arrangements(
    shape: Shape,
    candidate: CandidateTable,
    form: Form,
    *,
    is_text: bool = False,
    guesses: bool = False,
) -> Iterator[Arrangement]:
    """Yield the ways in which the axes of an array may hold the rows and columns of a table.

    An array (2, 12, 16) may be a batch of two tables with 12 rows, or two rows for each of 12 heads;
    a vector of 192 elements may be a table (12, 16) that was written without its axes.

    Args:
        shape: The shape of the array.
        candidate: The table, or the cosines and sines, that it should hold.
        form: How cosines and sines lie beside each other, and whether each column is there twice.
        is_text: True for the rows of a .csv file, which have no axes other than lines and columns.
        guesses: True for the ways that only values can confirm, False for the others.
    """
    unread = _Unread(shape=shape, candidate=candidate, form=form, is_text=is_text)
    # A signed form is a guess by itself: its axes are not folded in unusual ways as well.
    wants_guesses = guesses and not form.is_signed
    seen = set()
    for folding in _find_foldings(unread):
        key = (folding.shape, folding.transposed)
        if folding.is_guess != wants_guesses or key in seen or len(folding.shape) > MAX_AXES:
            continue
        seen.add(key)
        for factors in _find_factors(folding, candidate, form):
            yield Arrangement(array_shape=shape, factors=factors, form=form, folding=folding)


def _find_foldings(unread: "_Unread") -> Iterator[Folding]:
    """Yield the shapes that an array may have had before a program folded its axes."""
    for find_foldings in (*FOLDINGS, *GUESSES):
        yield from find_foldings(unread)


def _find_factors(
    folding: Folding, candidate: CandidateTable, form: Form
) -> Iterator[tuple[Factor, ...]]:
    """Yield what the axes of an array count, with every choice of the axes that count rows.

    (2, 12, 16) with 8 frequencies, doubled as halves, is `copy 2, row 12, double 2, frequency 8`, or
    `row 2, copy 12, double 2, frequency 8` if 12 heads have the same two rows. Nothing is yielded if
    the last axes do not have the lengths that columns of this form have.
    """
    shape = folding.shape[::-1] if folding.transposed else folding.shape
    leading = form.axes_before_columns(shape, candidate.width)
    if leading is None:
        return
    columns = [*chain(*form.last_axes(candidate.width))]
    row_places = [place for place, factor in enumerate(leading) if factor.axis == Axis.ROW]
    lengths = tuple(leading[place].size for place in row_places)
    for row_axes in _choose_row_axes(lengths, candidate.row_lengths):
        copy_places = [place for axis, place in enumerate(row_places) if axis not in row_axes]
        if folding.heads_are_last and row_places[-1] not in copy_places:
            continue  # That axis counts heads, which are copies.
        rows_and_copies = _mark_copies(leading, copy_places)
        if folding.transposed:
            yield (*columns, *rows_and_copies)
        else:
            yield (*rows_and_copies, *columns)


def _mark_copies(factors: Sequence[Factor], copy_places: Collection[int]) -> list[Factor]:
    """Return factors of which those at some places count copies of the table.

    `row 2, row 12` with a copy at place 0 is a batch of two tables: `copy 2, row 12`.
    """
    marked = [*factors]
    for place in copy_places:
        marked[place] = Factor(Axis.COPY, factors[place].size)
    return marked


def _choose_row_axes(lengths: Shape, wanted: TableShape) -> Iterator[tuple[int, ...]]:
    """Yield the axes that may count the rows of a table; the others count copies of it.

    Later axes come first: (12, 12, d) is rather a batch of 12 than 12 rows with 12 heads. A table
    with many rows is never taken for copies of a table with one row.

    >>> [*_choose_row_axes((2, 12), (None,))]  # 12 rows in a batch of 2, or 2 rows for 12 heads
    [(1,), (0,)]

    Args:
        lengths: The lengths of all axes of the array that do not belong to columns.
        wanted: The lengths that the axes of rows should have; None for any length.
    """
    row_lengths = wanted
    if len(lengths) < len(wanted):  # The array may have dropped axes of length 1.
        row_lengths = without_ones(wanted)
        if len(row_lengths) != len(lengths):
            return
    has_one_row = all(length == 1 for length in lengths)
    later_axes_first = reversed([*combinations(range(len(lengths)), len(row_lengths))])
    for axes in later_axes_first:
        axes_with_lengths = zip(axes, row_lengths, strict=True)
        if all(
            _may_count_rows(lengths[axis], row_length, has_one_row)
            for axis, row_length in axes_with_lengths
        ):
            yield axes


def _may_count_rows(length: int, wanted: int | None, has_one_row: bool) -> bool:
    """Return True if an axis of this length may count rows, of which `wanted` (None: any) should be there.

    An axis of length 1 rather counts one copy, unless the whole tensor has one row.
    """
    if wanted is None:
        return length > 1 or has_one_row
    return length == wanted


class _Unread(NamedTuple):
    """An array whose axes are not known yet, and the tables that it may hold.

    Attributes:
        shape: The shape of the array.
        candidate: The table, or the cosines and sines, that it may hold.
        form: How cosines and sines lie beside each other, and how columns are doubled.
        is_text: True for the rows of a .csv file.
    """

    shape: Shape
    candidate: CandidateTable
    form: Form
    is_text: bool

    @property
    def long_axes(self) -> Shape:
        """The shape without axes of length 1."""
        return without_ones(self.shape) or (1,)

    @property
    def is_vector(self) -> bool:
        """True for one axis; the lines of a text may be (1, 96) or (96, 1)."""
        return len(self.shape) == 1 or (self.is_text and len(self.long_axes) == 1)

    @property
    def last_axes(self) -> Shape:
        """The lengths of the last axes of an array in this form."""
        return self.form.axes(self.candidate.width)


def _as_it_is(unread: _Unread) -> Iterator[Folding]:
    yield Folding(unread.shape)


def _without_axes_of_length_1(unread: _Unread) -> Iterator[Folding]:
    yield Folding(unread.long_axes)


def _flat_vector(unread: _Unread) -> Iterator[Folding]:
    """Yield the shape of a table that was written as one long vector: (96,) for 12 rows of 8.

    C programs dump a buffer without its shape. The columns are known from the expected table, and
    the number of rows follows from the size: 96 / 8.
    """
    if not unread.is_vector or not unread.candidate.row_lengths:
        return
    # Only the axis of rows may be of unknown length, which follows from the size.
    *outer, expected_rows = unread.candidate.row_lengths
    outer_axes = tuple(filter(None, outer))  # the heads of a bias (heads, L, L)
    if unread.form.arrangement == "stacked":
        outer_axes = (2, *outer_axes)  # cosines, then sines
    size = unread.long_axes[0]
    rows = size // math.prod(unread.last_axes) // math.prod(outer_axes)
    shape = (*outer_axes, rows, *unread.last_axes)
    uses_all_elements = math.prod(shape) == size
    has_expected_rows = expected_rows in (None, rows)
    if uses_all_elements and has_expected_rows and rows > 1:
        yield Folding(shape, f"read as {bracketed(shape)}")


def _heads_in_batch(unread: _Unread) -> Iterator[Folding]:
    """Yield the shape of biases whose heads lie in one axis with the batch: (2·4, L, L), as BLOOM has them."""
    if len(unread.candidate.row_lengths) != 2 or len(unread.shape) < 2:
        return
    heads = unread.candidate.row_lengths[0]
    first, *rest = unread.shape
    if heads and first > heads and first % heads == 0:
        batch = first // heads
        yield Folding((batch, heads, *rest), f"{batch} × {heads} heads along axis 0")


def _lines_of_text(unread: _Unread) -> Iterator[Folding]:
    """Yield the shape of a table with more than two axes that was written line by line: (4·6, 6) for (4, 6, 6)."""
    lengths = unread.candidate.row_lengths
    if not unread.is_text or len(unread.long_axes) > 2 or len(lengths) < 2:
        return
    shape = (*filter(None, lengths), *unread.last_axes)
    if math.prod(shape) == math.prod(unread.shape):
        yield Folding(shape)


def _transposed_table(unread: _Unread) -> Iterator[Folding]:
    """Yield the shape of a table (frequencies, positions), as ggml's (ne0, ne1) reads in a dump."""
    if (
        not unread.candidate.transposable
        or len(unread.long_axes) != 2
        or len(unread.last_axes) != 1
    ):
        return
    if unread.long_axes[0] == unread.last_axes[0]:
        yield Folding(unread.long_axes, "transposed", transposed=True)


def _heads_in_columns(unread: _Unread) -> Iterator[Folding]:
    """Yield the shape of a table whose columns are repeated for each head.

    A program whose queries are (L, H·D) may store cosines beside them in the same shape: (64, 512)
    is read as (64, 4, 128), four heads with a copy of the table each.
    """
    has_one_column_axis = len(unread.last_axes) == 1
    if not unread.candidate.has_frequencies or not has_one_column_axis or len(unread.shape) < 2:
        return
    if (
        unread.form.arrangement == "rows"
    ):  # Rows of cosines, then of sines, would lie between heads.
        return
    *outer, columns = unread.shape
    width = unread.last_axes[0]
    if columns > width and columns % width == 0:
        heads = columns // width
        note = f"{counted(heads, 'head')} of {width} folded into columns"
        yield Folding((*outer, heads, width), note, heads_are_last=True, is_guess=True)


def _axes_of_grid(unread: _Unread) -> Iterator[Folding]:
    """Yield the shape of a table that has an axis for each side of a grid of image patches.

    A table of 12 rows may be (3, 4, D) for the patches of 3 × 4, or (2, 3, 2, D) with an axis of
    frames. If the model states that grid, also with sides exchanged, it is read so. Otherwise 12
    may be the length of a sequence, and the values have to confirm the grid.
    """
    first_column_axis = len(unread.long_axes) - len(unread.last_axes)
    leading = unread.long_axes[:first_column_axis]
    has_columns = unread.long_axes[first_column_axis:] == unread.last_axes
    has_one_row_axis = len(unread.candidate.row_lengths) == 1
    if not has_columns or not has_one_row_axis:
        return
    (rows,) = unread.candidate.row_lengths
    for first_side in range(len(leading) - 1):  # A grid has two sides, or more.
        copies = leading[:first_side]
        grid = leading[first_side:]
        if math.prod(grid) == rows:
            shape = (*copies, rows, *unread.last_axes)
            note = f"a grid of {' × '.join(map(str, grid))}, row by row"
            is_known = sorted(grid) == sorted(unread.candidate.grid)
            yield Folding(shape, note, is_guess=not is_known)


def _single_row(unread: _Unread) -> Iterator[Folding]:
    """Yield the shape of one row (D,) of a table, as of one token in decoding."""
    if unread.candidate.row_lengths == (None,) and unread.shape == unread.last_axes:
        yield Folding((1, *unread.shape), "a single row", is_guess=True)


FOLDINGS: tuple[Callable[[_Unread], Iterator[Folding]], ...] = (
    _as_it_is,
    _without_axes_of_length_1,
    _flat_vector,
    _heads_in_batch,
    _lines_of_text,
    _transposed_table,
)
"""The ways to fold axes, the likelier ones first."""

GUESSES: tuple[Callable[[_Unread], Iterator[Folding]], ...] = (
    _heads_in_columns,
    _axes_of_grid,
    _single_row,
)
"""Ways that only values can confirm: other tables have such shapes, too."""
