"""Cosines and sines in tensors whose frequencies are not known."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from pecli.compare.best_reading import MIN_FLAT_ROWS, begins_with_position_0, find_readings
from pecli.compare.candidate import PLURALS, CandidateTable, MadeTables
from pecli.compare.reading import Reading
from pecli.compare.reading_notes import describe_arrangement
from pecli.engine.arrays import AnyArray
from pecli.errors import bracketed
from pecli.files.tensor_roles import role_of

MAX_FLAT = 1 << 21  #: elements of a vector that may be a table


class SeparateTables(NamedTuple):
    """The tables of one tensor.

    Attributes:
        tables: The tables `cos` and `sin`, or the whole tensor under an empty name.
        note: How the tensor was read, such as «transposed»; empty if it was read as it stands.
    """

    tables: dict[str, AnyArray]
    note: str = ""

    @classmethod
    def of_whole(cls, array: AnyArray, note: str = "") -> "SeparateTables":
        """Return a tensor that is one table, of whatever function."""
        return cls({"": array}, note)


def separate_tables(name: str, array: AnyArray) -> SeparateTables:
    """Return the cosines and the sines of a tensor as two tables, with a row per position.

    `cos_sin_cache` (L, D) becomes `cos` and `sin` (L, D/2). A tensor that does not hold both becomes
    one table under an empty name. Frequencies need not be known: cos² + sin² is constant for any.

    Args:
        name: The name of the tensor; `cos_cached` holds cosines, `cos_sin_cache` both.
        array: The tensor.
    """
    return next(_find_separations(name, array))


def _find_separations(name: str, array: AnyArray) -> Iterator[SeparateTables]:
    """Yield the ways to separate the tables of a tensor, the likelier ones first.

    The last one is always possible: the tensor holds one function.
    """
    row_widths = find_row_widths(array)
    if row_widths:  # The tensor is a vector of all elements, row after row.
        yield from _separate_vector(array, row_widths)
    if _may_hold_both(name, array):
        yield from _separate_cos_and_sin([array])
    # A table of one function may be transposed. Only names such as `cos` or `sin` are trusted: in other
    # matrices, such as biases, a first column of ones or zeros shows nothing.
    holds_one_function = role_of(name) in ("cos", "sin")
    if holds_one_function and _is_transposed(array):
        yield SeparateTables.of_whole(array.T, "transposed")
    yield SeparateTables.of_whole(array)


def _may_hold_both(name: str, array: AnyArray) -> bool:
    """Return True if a tensor may hold cosines and sines, by its name or its axes.

    Most files store them apart, so that a matrix holds one function unless its name states both.
    Further axes and complex numbers, as in (L, D/2, 2), often distinguish cosines from sines.
    """
    return array.ndim > 2 or array.dtype.kind == "c" or role_of(name) == "both"


def _separate_vector(vector: AnyArray, row_widths: Sequence[int]) -> Iterator[SeparateTables]:
    """Yield the tables of a vector, which a program wrote without the axes of its table.

    Rows of 128 numbers may be 64 cosines and 64 sines. If they are not, rows are 64 numbers of one function.

    Args:
        vector: All elements, row by row.
        row_widths: The lengths that its rows may have, the shortest first.
    """
    widest_first = [vector.reshape(-1, width) for width in reversed(row_widths)]
    yield from _separate_cos_and_sin(widest_first)
    narrowest = widest_first[-1]
    yield SeparateTables.of_whole(narrowest, f"read as {bracketed(narrowest.shape)}")


def _separate_cos_and_sin(tables: Iterable[AnyArray]) -> Iterator[SeparateTables]:
    """Yield the cosines and sines of each table that holds both: cos² + sin² is constant in it."""
    for table in tables:
        for reading in find_readings_as_cos_and_sin(table):
            if reading.has_constant_power:
                yield SeparateTables(reading.take_first_copies(), describe_arrangement(reading))


def _is_transposed(array: AnyArray) -> bool:
    """Return True if the first column, and not the first row, holds all frequencies at position 0."""
    return array.ndim == 2 and bool(array.size) and begins_with_position_0(array.T)


def find_readings_as_cos_and_sin(array: AnyArray) -> Iterator[Reading]:
    """Yield the ways to read a tensor as cosines and sines whose frequencies are not known.

    One way reads 128 columns as 64 cosines, then 64 sines. A way is yielded if cos² + sin² is constant
    in it, and if columns that should be copies are alike. The most frequencies come first.
    """
    frequency_counts = sorted(_find_frequency_counts(array), reverse=True)
    for frequencies in frequency_counts:
        for reading in find_readings(array, _expect_zeros(frequencies)):
            # Zeros have a constant sum of squares and equal copies as well, but are no waves.
            holds_zeros = reading.is_near
            if not holds_zeros and reading.is_plausible:
                yield reading


def _expect_zeros(frequencies: int) -> CandidateTable:
    """Return what a tensor is to be read as: cosines and sines of so many frequencies, with unknown values.

    Only the ways to split the tensor into cosines and sines are wanted. Finding these requires expected
    values all the same: zeros stand in for them.
    """
    return CandidateTable(
        names=(*PLURALS,),
        shape=(None, frequencies),
        make=partial(_make_zero_tables, frequencies),
        has_frequencies=True,
    )


def _find_frequency_counts(array: AnyArray) -> set[int]:
    """Return the numbers of frequencies that a tensor may have, by the lengths of its last three axes.

    128 columns may be 128 frequencies, 64 as [cos | sin], or 32 as [cos cos | sin sin]. A number that
    does not divide the columns, such as 2 of 10 columns, is never found in them.
    """
    counts = set()
    for length in array.shape[-3:]:
        counts |= {length, length // 2, length // 4}
    return counts


def _make_zero_tables(frequencies: int, rows: int) -> MadeTables:
    """Return cosines and sines (rows, frequencies) that are all 0, without memory for each element."""
    zeros = np.broadcast_to(np.zeros(()), (rows, frequencies))
    return MadeTables(None, dict.fromkeys(PLURALS, zeros))


def find_row_widths(array: AnyArray) -> tuple[int, ...]:
    """Return the lengths that the rows of a table may have which was written as a vector.

    It is empty if no length is possible.

    At position 0 all cosines are 1 and all sines 0, so the first row begins with a run of equal values, one per
    frequency. If a vector begins with 64 ones, its rows are 64 cosines, or 64 cosines and 64 sines: 64 or 128 columns.
    """
    if array.ndim != 1 or not 0 < array.size <= MAX_FLAT:
        return ()
    differs_from_first = array != array[0]
    frequencies = int(differs_from_first.argmax())
    if frequencies < 2:  # A single equal number, as in 1, 0, 0, is no run.
        return ()
    widths = (frequencies, 2 * frequencies)
    return tuple(width for width in widths if _divides_into_rows(array, width))


def _divides_into_rows(array: AnyArray, width: int) -> bool:
    """Return True if a vector is made of whole rows of so many columns, and of enough of them."""
    rows, remaining_elements = divmod(array.size, width)
    return remaining_elements == 0 and rows >= MIN_FLAT_ROWS
