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
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from pecli.compare.candidate import CandidateTable, TableShape
from pecli.compare.doubled_columns import FormError
from pecli.compare.factors import Axis, Factor, Shape, find_steps, without_ones
from pecli.compare.forms import Factors, Form
from pecli.errors import bracketed, counted

MAX_AXES = 6  #: axes of a tensor in which rows are looked for


class Folding(NamedTuple):
    """The axes that an array had before a program folded, dropped or exchanged some.

    Attributes:
        shape: The lengths of these axes, in the order in which the array has its elements. Heads that are folded
            into columns have no axis of their own.
        note: What was assumed; empty if it goes without saying.
        transposed: True if all axes are in the reverse order, as frequencies × positions are.
        heads_in_columns: Four copies of the table side by side in each row are `copy 4`; empty if there are none.
        is_guess: True if values must confirm it: other tables have such a shape, too.
    """

    shape: Shape
    note: str = ""
    transposed: bool = False
    heads_in_columns: Factors = ()
    is_guess: bool = False

    @property
    def upright_shape(self) -> Shape:
        """The lengths of the axes with rows before columns."""
        return self.shape[::-1] if self.transposed else self.shape

    def in_order(self, rows: Factors, columns: Factors) -> Factors:
        """Return the factors of an array: those of rows and copies, and those of columns, the slowest first."""
        if self.transposed:
            return (*columns, *rows)
        return (*rows, *self.heads_in_columns, *columns)


@dataclass(frozen=True)
class Arrangement:
    """A way in which tables lie in an array: its factors, the slowest first."""

    array_shape: Shape
    factors: tuple[Factor, ...]
    form: Form
    folding: Folding

    @property
    def copy_axes(self) -> tuple[int, ...]:
        """The axes of the array along which the whole table is repeated.

        An array (2, 64, 128) that holds `copy 2, row 64, frequency 128` is repeated along axis 0. Its
        factor `copy 2` and its axis 0 both have 2 indices, each 64 · 128 elements after the other: an
        axis is a factor if they agree in both. Heads folded into columns are copies as well, but have
        no axis of their own.
        """
        factor_sizes = [factor.size for factor in self.factors]
        copies = set()  # sizes and steps
        for factor, step in zip(self.factors, find_steps(factor_sizes), strict=True):
            if factor.axis == Axis.COPY and factor.size > 1:
                copies.add((factor.size, step))
        axes = zip(self.array_shape, find_steps(self.array_shape), strict=True)
        return tuple(number for number, size_and_step in enumerate(axes) if size_and_step in copies)

    @property
    def begins_with_two_copies(self) -> bool:
        """True if the first axis counts two copies of the whole table, as in (2, 64, 128) or (1, 2, 64, 128).

        Stacked cosines and sines have such shapes, too.
        """
        shape = self.array_shape
        is_two_long = without_ones(shape)[:1] == (2,)
        return is_two_long and shape.index(2) in self.copy_axes


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

    For each way, two questions are answered in turn:

    1. Which shape did the array have before a program reshaped it? This is its *folding*: a vector
       of 192 elements may be a table (12, 16) that was written without its axes.
    2. What do the axes of that shape count? These are its *factors*: (2, 12, 16) may be a batch of
       two tables with 12 rows, `copy 2, row 12, frequency 16`, or two rows for each of 12 heads,
       `row 2, copy 12, frequency 16`.

    Args:
        shape: The shape of the array.
        candidate: The table, or the cosines and sines, that it should hold.
        form: How cosines and sines lie beside each other, and whether each column is there twice.
        is_text: True for the rows of a .csv file, which have no axes other than lines and columns.
        guesses: True for the ways that only values can confirm, False for the others.
    """
    unread = _UnreadArray(shape=shape, candidate=candidate, form=form, is_text=is_text)
    for folding in _find_foldings(unread, guesses=guesses):
        for factors in _find_factors(folding, candidate, form):
            yield Arrangement(array_shape=shape, factors=factors, form=form, folding=folding)


def _find_foldings(unread: "_UnreadArray", *, guesses: bool) -> Iterator[Folding]:
    """Yield the shapes that an array may have had before a program folded its axes.

    A vector of 192 elements may have been a table (12, 16). An array (64, 512) may have been (64, 128)
    for each of 4 heads: only equal values in all heads confirm this one, which is a guess.

    Args:
        unread: The array, and the table that it may hold.
        guesses: True for the shapes that only values can confirm, False for the others.
    """
    # A signed form is a guess by itself: its axes are not folded in unusual ways as well.
    wants_guesses = guesses and not unread.form.is_signed
    for find_foldings in (*FOLDINGS, *GUESSES):
        for folding in find_foldings(unread):
            if folding.is_guess == wants_guesses and len(folding.shape) <= MAX_AXES:
                yield folding


def _find_factors(folding: Folding, candidate: CandidateTable, form: Form) -> Iterator[Factors]:
    """Yield what the axes of an array count, with every choice of the axes that count rows.

    (2, 12, 16) with 8 frequencies, doubled as halves, is `copy 2, row 12, double 2, frequency 8`, or
    `row 2, copy 12, double 2, frequency 8` if 12 heads have the same two rows. Nothing is yielded if
    the last axes do not have the lengths that columns of this form have.
    """
    columns = form.column_factors(candidate.width)
    with suppress(FormError):
        before_columns = form.factors_before_columns(folding.upright_shape, candidate.width)
        rows_and_copies = _restore_dropped_axes(before_columns, candidate.row_lengths)
        for rows in _choose_row_axes(rows_and_copies, candidate.row_lengths):
            yield folding.in_order(rows, columns)


def _restore_dropped_axes(factors: Sequence[Factor], row_lengths: TableShape) -> Sequence[Factor]:
    """Return the axes of an array before its columns, with those of length 1 that a program dropped.

    A bias (1, 64, 64) has two axes of rows before its columns: 1 head and 64 queries. If a program
    stored it as (64, 64), the axis of heads is added:

    >>> _restore_dropped_axes([Factor(Axis.ROW, 64)], (1, 64))
    [Factor(axis=<Axis.ROW: 6>, size=1), Factor(axis=<Axis.ROW: 6>, size=64)]

    Args:
        factors: The axes of the array: what each counts, and its length. Those of rows are the last.
        row_lengths: The lengths that the axes of rows should have; None for any length.
    """
    rows_in_array = [factor for factor in factors if factor.axis == Axis.ROW]
    missing_count = len(row_lengths) - len(rows_in_array)
    dropped_count = row_lengths.count(1)  # Programs drop all axes of length 1 (`squeeze`) or none.
    if missing_count != dropped_count:
        return factors
    axes_before_rows = len(factors) - len(rows_in_array)
    complete = [*factors[:axes_before_rows]]
    next_row_in_array = iter(rows_in_array)
    for length in row_lengths:
        was_dropped = length == 1
        complete.append(Factor(Axis.ROW, 1) if was_dropped else next(next_row_in_array))
    return complete


def _choose_row_axes(factors: Sequence[Factor], row_lengths: TableShape) -> Iterator[Factors]:
    """Yield each choice of the axes that count rows of the table; all others count copies of it.

    Before the columns of (2, 12, d) are the axes `row 2, row 12`. They may be 12 rows in a batch of 2,
    `copy 2, row 12`, or 2 rows for 12 heads, `row 2, copy 12`. Later axes are likelier to be rows, so
    that the batch comes first. A table of many rows is never taken for copies of a single row.

    Args:
        factors: The factors before those of columns; all that may count rows do.
        row_lengths: The lengths that the axes of rows should have; None for any length.
    """
    possible_axes = [axis for axis, factor in enumerate(factors) if factor.axis == Axis.ROW]
    # An axis of length 1 rather counts one copy of the table, unless the whole tensor has one row.
    min_length = min(2, math.prod(factors[axis].size for axis in possible_axes))
    later_axes_first = reversed([*combinations(possible_axes, len(row_lengths))])
    for row_axes in later_axes_first:
        lengths = [factors[axis].size for axis in row_axes]
        if _may_count_rows(lengths, row_lengths, min_length):
            copy_axes = set(possible_axes).difference(row_axes)
            yield _with_copies(factors, copy_axes)


def _with_copies(factors: Sequence[Factor], copy_axes: Collection[int]) -> Factors:
    """Return factors of which some count copies: `copy 2, row 12` for `row 2, row 12` and axis 0."""
    marked = [*factors]
    for axis in copy_axes:
        marked[axis] = Factor(Axis.COPY, factors[axis].size)
    return tuple(marked)


def _may_count_rows(lengths: Sequence[int], row_lengths: TableShape, min_length: int) -> bool:
    """Return True if axes of these lengths may count the rows of a table.

    Args:
        lengths: The lengths of the axes, such as heads and positions.
        row_lengths: The lengths that they should have; None for any from `min_length` on.
        min_length: 2, or 1 if the whole tensor has one row.
    """
    for length, expected_length in zip(lengths, row_lengths, strict=True):
        fits = length >= min_length if expected_length is None else length == expected_length
        if not fits:
            return False
    return True


class _UnreadArray(NamedTuple):
    """An array of which it is not known yet what its axes count, and the tables that it may hold.

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
    def column_axes(self) -> Shape:
        """The lengths of the last axes, which hold the columns: (16,), or (8, 2) for 8 pairs."""
        return self.form.column_lengths(self.candidate.width)


def _with_or_without_axes_of_length_1(unread: _UnreadArray) -> Iterator[Folding]:
    """Yield the shape as it is, and without its axes of length 1: (1, 64, 128), and (64, 128)."""
    for shape in dict.fromkeys((unread.shape, unread.long_axes)):
        yield Folding(shape)


def _flat_vector(unread: _UnreadArray) -> Iterator[Folding]:
    """Yield the shape of a table that was written as one long vector: (12, 8) for 96 elements.

    C programs dump a buffer without its shape. If the expected table has 8 columns, 96 elements are
    96 / 8 = 12 rows. If cosines and then sines are expected, 192 elements are 192 / (2 · 8) = 12
    rows of each, (2, 12, 8).
    """
    expects_rows = bool(unread.candidate.row_lengths)  # Frequencies are a vector as they stand.
    if not unread.is_vector or not expects_rows:
        return
    axes_before_rows = _axes_before_rows(unread)  # () in the first example, (2,) in the second
    axes_after_rows = unread.column_axes  # (8,)
    elements_per_row = math.prod((*axes_before_rows, *axes_after_rows))  # 8, or 2 · 8
    rows, elements_over = divmod(math.prod(unread.shape), elements_per_row)
    if elements_over == 0 and rows > 1 and _may_have_rows(unread.candidate, rows):
        shape = (*axes_before_rows, rows, *axes_after_rows)
        yield Folding(shape, f"read as {bracketed(shape)}")


def _may_have_rows(candidate: CandidateTable, rows: int) -> bool:
    """Return True if a table is expected to have so many rows, or any number of them."""
    expected_rows = candidate.row_lengths[-1]
    return expected_rows in (None, rows)


def _axes_before_rows(unread: _UnreadArray) -> Shape:
    """Return the lengths of a table's axes before that of rows: (heads,) of a bias (heads, L, L).

    In the form `stacked`, cosines and then sines, an axis of 2 comes before them.
    """
    *outer_lengths, _ = unread.candidate.row_lengths
    outer_axes = tuple(filter(None, outer_lengths))
    if unread.form.arrangement == "stacked":
        return (2, *outer_axes)
    return outer_axes


def _heads_in_batch(unread: _UnreadArray) -> Iterator[Folding]:
    """Yield the shape of biases whose heads lie in one axis with the batch, as BLOOM has them.

    For the bias (4, L, L) of a model with 4 heads, (8, L, L) is read as (2, 4, L, L): the heads of
    the first sequence, then those of the second.
    """
    if len(unread.candidate.row_lengths) != 2 or len(unread.shape) < 2:
        return
    heads = unread.candidate.row_lengths[0]
    sequences_and_heads, *rest = unread.shape
    if heads and sequences_and_heads > heads and sequences_and_heads % heads == 0:
        sequences = sequences_and_heads // heads
        yield Folding((sequences, heads, *rest), f"{sequences} × {heads} heads along axis 0")


def _lines_of_text(unread: _UnreadArray) -> Iterator[Folding]:
    """Yield the shape of a table with more than two axes that was written line by line.

    A bias (4, 6, 6) is written as 4 · 6 lines of 6 numbers, (24, 6).
    """
    lengths = unread.candidate.row_lengths
    if not unread.is_text or len(unread.long_axes) > 2 or len(lengths) < 2:
        return
    shape = (*filter(None, lengths), *unread.column_axes)
    if math.prod(shape) == math.prod(unread.shape):
        yield Folding(shape)


def _transposed_table(unread: _UnreadArray) -> Iterator[Folding]:
    """Yield the shape of a table with a row per frequency and a column per position.

    ggml lists the axes of a tensor in reverse, so that its (64, 4096) may be meant as 4096 positions
    of 64 frequencies.
    """
    is_matrix = len(unread.long_axes) == 2
    if is_matrix and unread.candidate.transposable:
        yield Folding(unread.long_axes, "transposed", transposed=True)


def _heads_in_columns(unread: _UnreadArray) -> Iterator[Folding]:
    """Yield the shape of a table whose columns are repeated in each row, once per head.

    Some programs have the queries of all heads in one row, (L, heads · D), and store cosines in the
    same shape. If a table of 128 columns is expected, a found array (64, 512) may have 512 / 128 = 4
    copies of it side by side. It is read as (64, 128), with 4 copies in each row.
    """
    found_shape = unread.shape
    expected_columns = unread.column_axes
    is_vector = len(found_shape) < 2
    if is_vector or not unread.candidate.has_frequencies:
        return  # Only tables of cosines and sines are the same for all heads.
    if len(expected_columns) != 1:
        return  # The columns are several axes, as in pairs (…, D/2, 2).
    *axes_before_columns, found_columns = found_shape
    (columns_per_head,) = expected_columns
    heads, columns_left = divmod(found_columns, columns_per_head)
    if heads > 1 and columns_left == 0:
        yield Folding(
            shape=(*axes_before_columns, columns_per_head),
            note=f"{counted(heads, 'head')} of {columns_per_head} folded into columns",
            heads_in_columns=(Factor(Axis.COPY, heads),),
            is_guess=True,
        )


def _axes_of_grid(unread: _UnreadArray) -> Iterator[Folding]:
    """Yield the shape of a table whose rows are patches of an image, with one axis for all patches.

    If the table has 12 rows, an array (3, 4, D) may hold them for an image of 3 × 4 patches: it is
    read as (12, D). A batch of 5 such images, (5, 3, 4, D), is read as (5, 12, D).
    """
    if len(unread.candidate.row_lengths) != 1:
        return  # The table has several axes of rows, as a bias (heads, queries, keys) has.
    (row_count,) = unread.candidate.row_lengths
    if row_count is None:  # The table may have any number of rows.
        return
    axes = unread.long_axes  # (5, 3, 4, D); axes of length 1 are left out
    first_column_axis = len(axes) - len(unread.column_axes)
    columns = axes[first_column_axis:]  # (D,)
    for batch, sides in _split_off_grid(axes[:first_column_axis], points=row_count):
        note = f"a grid of {' × '.join(map(str, sides))}, row by row"
        # (3, 4, D) may be 3 sequences of 4 rows as well, unless the model has a grid with these sides.
        has_sides_of_model = sorted(sides) == sorted(unread.candidate.grid)
        yield Folding((*batch, row_count, *columns), note, is_guess=not has_sides_of_model)


def _split_off_grid(axes: Shape, points: int) -> Iterator[tuple[Shape, Shape]]:
    """Yield the axes before those of a grid, and its sides, if the last axes have so many points.

    >>> [*_split_off_grid((5, 3, 4), points=12)]  # five copies of 3 × 4 patches
    [((5,), (3, 4))]
    """
    for first_side in range(len(axes) - 1):  # A grid has two sides, or more.
        sides = axes[first_side:]
        if math.prod(sides) == points:
            yield axes[:first_side], sides


def _single_row(unread: _UnreadArray) -> Iterator[Folding]:
    """Yield the shape of one row (D,) of a table, as of one token in decoding."""
    if unread.candidate.row_lengths == (None,) and unread.shape == unread.column_axes:
        yield Folding((1, *unread.shape), "a single row", is_guess=True)


FOLDINGS: tuple[Callable[[_UnreadArray], Iterator[Folding]], ...] = (
    _with_or_without_axes_of_length_1,
    _flat_vector,
    _heads_in_batch,
    _lines_of_text,
    _transposed_table,
)
"""The ways to fold axes, the likelier ones first."""

GUESSES: tuple[Callable[[_UnreadArray], Iterator[Folding]], ...] = (
    _heads_in_columns,
    _axes_of_grid,
    _single_row,
)
"""Ways that only values can confirm: other tables have such shapes, too."""
