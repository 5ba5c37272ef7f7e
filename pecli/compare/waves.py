"""Cosines and sines in tensors whose frequencies are not known."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from pecli.compare.best_reading import MIN_FLAT_ROWS, begins_with_position_0, find_readings
from pecli.compare.candidate import PLURALS, CandidateTable, MadeTables
from pecli.compare.reading import Reading
from pecli.compare.reading_notes import note_on
from pecli.engine.arrays import AnyArray
from pecli.errors import bracketed
from pecli.files.tensor_roles import role_of

MAX_FLAT = 1 << 21  #: elements of a vector that may be a table


class SeparateTables(NamedTuple):
    """The tables of one tensor by the part of it that they are, and how it was read if not as it stands."""

    tables: dict[str, AnyArray]
    note: str = ""


def separate_tables(name: str, array: AnyArray) -> SeparateTables:
    """Return the cosines and the sines of a tensor apart, with a row per position.

    It is for tensors whose frequencies are not known, as in plots of a file: `cos_sin_cache` (L, D)
    becomes `cos` and `sin` (L, D/2), since cos² + sin² is constant.

    Args:
        name: The name of the tensor; `cos_cached` holds cosines, `cos_sin_cache` both.
        array: The tensor.

    Returns:
        The tables `cos` and `sin`, or the tensor itself under an empty name.
    """
    widths = find_row_widths(array)
    if widths:
        return _separate_vector(array, widths)
    role = role_of(name)
    if array.ndim > 2 or array.dtype.kind == "c" or role == "both":
        both = _find_both_functions([array])
        if both is not None:
            return both
    if role in PLURALS and _is_transposed(array):
        return SeparateTables({"": array.T}, "transposed")
    return SeparateTables({"": array})


def _separate_vector(array: AnyArray, widths: Sequence[int]) -> SeparateTables:
    """Return the tables of a vector that was a table: cosines and sines if wider rows hold both."""
    unfolded = [array.reshape(-1, width) for width in reversed(widths)]
    both = _find_both_functions(unfolded)
    if both is not None:
        return both
    narrow = unfolded[-1]
    return SeparateTables({"": narrow}, f"read as {bracketed(narrow.shape)}")


def _find_both_functions(tables: list[AnyArray]) -> SeparateTables | None:
    """Return the cosines and sines of the first table that holds both: cos² + sin² is constant."""
    for table in tables:
        for reading in find_wave_readings(table):
            if reading.has_constant_power:
                return SeparateTables(reading.take_first_copies(), note_on(reading))
    return None


def _is_transposed(array: AnyArray) -> bool:
    """Return True if the first column, and not the first row, holds all frequencies at position 0."""
    return array.ndim == 2 and bool(array.size) and begins_with_position_0(array.T)


def find_wave_readings(array: AnyArray) -> Iterator[Reading]:
    """Yield the readings of a tensor as cosines and sines of any number of frequencies.

    They are recognised by a constant sum cos² + sin², or by copies that are alike. As nothing is
    known about their values, they are read as tables of zeros; a tensor that is near zero is none.
    """
    for width in sorted(_find_widths(array), reverse=True):
        make = partial(_make_zero_tables, width)
        candidate = CandidateTable(
            names=(*PLURALS,), shape=(None, width), make=make, has_frequencies=True
        )
        for reading in find_readings(array, candidate):
            is_zero = reading.is_near
            if not is_zero and reading.is_plausible:
                yield reading


def _find_widths(array: AnyArray) -> set[int]:
    """Return the numbers of frequencies that the last axes may have: each comes once, twice or four times.

    128 columns may be 128 frequencies, 64 as [cos | sin], or 32 as [cos cos | sin sin]. A number that
    does not divide the columns, such as 2 of 10 columns, is never found in them.
    """
    widths = set()
    for columns in array.shape[-3:]:
        widths |= {columns, columns // 2, columns // 4}
    return widths


def _make_zero_tables(width: int, rows: int) -> MadeTables:
    """Return cosines and sines (rows, width) that are all 0, for readings that do not compare values."""
    zeros = np.broadcast_to(np.zeros(()), (rows, width))
    return MadeTables(None, dict.fromkeys(PLURALS, zeros))


def find_row_widths(array: AnyArray) -> tuple[int, ...]:
    """Return the numbers of columns that a flat table may have.

    At position 0 all cosines are 1 and all sines 0, so the first row begins with a run of equal values, one per
    frequency. If a vector begins with 64 ones, its rows are 64 cosines, or 64 cosines and 64 sines: 64 or 128 columns.
    """
    if array.ndim != 1 or array.size > MAX_FLAT:
        return ()
    frequencies = int((array != array[:1]).argmax()) if array.size else 0
    if frequencies < 2:
        return ()
    widths = (frequencies, 2 * frequencies)
    return tuple(width for width in widths if _divides_into_rows(array, width))


def _divides_into_rows(array: AnyArray, width: int) -> bool:
    """Return True if a vector is made of enough rows of so many columns."""
    rows, rest = divmod(array.size, width)
    return rest == 0 and rows >= MIN_FLAT_ROWS
