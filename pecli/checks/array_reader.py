"""Reading an array of one file as another file has it: (2, 64, 128) as two copies of (64, 128)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pecli.compare.best_reading import find_best_reading
from pecli.compare.candidate import PLURALS, CandidateTable, Waves, candidate_of
from pecli.compare.factors import Shape, first_along, without_ones
from pecli.compare.forms import DOUBLED_LAYOUTS, halved
from pecli.compare.reading import Reading
from pecli.compare.waves import find_readings_as_cos_and_sin
from pecli.engine.arrays import FLOAT8, SIGNIFICAND_BITS, AnyArray, Array, dtype_name
from pecli.files.tensor_roles import role_of

AS_IT_STANDS = ""
"""The doubling of a table that is read with all its columns, beside «halves» and «interleaved»."""
LARGEST_MASK = -6e4
"""Value below which there are only masks; the most negative number of float16 is −65504."""


class ReadingRules(NamedTuple):
    """Rules by which one array may be read as another.

    Attributes:
        is_text: True if one of the files is a .csv file, which has no axes other than lines and columns.
        masks_alike: True if the most negative number of a dtype stands for −∞.
        by_ulps: True if errors are allowed in ULPs, which are those of the coarser dtype. An absolute error is one of
            the values as they are: rounding to the coarser dtype would hide it.
    """

    is_text: bool
    masks_alike: bool
    by_ulps: bool


class _SideDoubts(NamedTuple):
    """Doubts about reading one of two arrays as the other, the gravest first; the smaller ones win.

    Attributes:
        expects_integers: Integers stand for the floats of the other side, not the reverse.
        fewer_elements: The opposite of its size: copies and doubled columns make an array larger.
        fewer_axes: The opposite of its number of axes.
        unwanted_bits: Bits by which its dtype is finer, if errors are counted in ULPs, else coarser.
    """

    expects_integers: bool
    fewer_elements: int
    fewer_axes: int
    unwanted_bits: int


class Side(NamedTuple):
    """An array to be read as the other file has it.

    Attributes:
        expected: The array of the other file.
        found: The array to be read.
        reads_a: True if it is the array of A.
    """

    expected: Array
    found: Array
    reads_a: bool

    def find_doubts(self, *, by_ulps: bool) -> _SideDoubts:
        """Return what speaks against reading this array as the other one, and not the reverse.

        (2, 64, 128) is read as two copies of (64, 128): the larger array has the smaller doubts. They
        compare as tuples do, field by field.

        Args:
            by_ulps: True if errors are counted in ULPs, which are those of the coarser dtype.
        """
        added_bits = _count_significand_bits(self.found) - _count_significand_bits(self.expected)
        return _SideDoubts(
            expects_integers=self.expected.dtype.kind in "iu",
            fewer_elements=-self.found.size,
            fewer_axes=-self.found.ndim,
            unwanted_bits=added_bits if by_ulps else -added_bits,
        )


def _count_significand_bits(array: Array) -> int:
    """Return the precision of a floating dtype, or of the parts of a complex one; 0 for others."""
    return {**SIGNIFICAND_BITS, **FLOAT8}.get(dtype_name(array.real.dtype), 0)


@dataclass(frozen=True)
class ArrayReader:
    """Reads an array of one file as another file has it.

    Attributes:
        name: The name of the table that both hold.
        has_frequencies: True if its columns may belong to frequencies, so that they can be doubled.
        may_be_transposed: True if its rows may be frequencies.
        rules: The rules of the comparison.
    """

    name: str
    has_frequencies: bool
    may_be_transposed: bool
    rules: ReadingRules

    def read_as_table(self, side: Side) -> Reading | None:
        """Read an array as the table that another one is."""
        candidates = self._find_candidates(np.atleast_1d(side.expected))
        return find_best_reading(side.found, candidates, is_text=self.rules.is_text)

    def read_in_same_shape(self, side: Side) -> Reading:
        """Read an array as another of the same shape: element by element, or transposed if only that matches.

        Some programs store cosines and sines as (frequencies, positions). The shape does not show it if
        a table is square: 64 positions of 64 columns are (64, 64) both ways. Other tensors are not read
        so: a transposed bias exchanges queries and keys, which is a mistake to report, and frequencies
        and slopes have one axis.
        """
        as_it_stands = self._read_element_by_element(side)
        is_table_of_waves = role_of(self.name) in PLURALS and side.expected.ndim > 1
        # Only arrays with axes can be near, so that the axes are looked at first.
        if not is_table_of_waves or as_it_stands.is_near:
            return as_it_stands
        # No further order of axes or columns is accepted: an array of the same shape has that order only
        # by chance.
        best = self.read_as_table(side)
        if best is not None and best.transposed and best.is_near:
            return best
        return as_it_stands

    def _read_element_by_element(self, side: Side) -> Reading:
        """Read an array as another of the same shape, each element as the one at the same place.

        Two biases with a causal mask are equal even if one hides keys by −∞, and the other by −65504.
        """
        found = np.asarray(side.found, order="C")
        both_are_masked = _is_masked(side.expected) and _is_masked(found)
        masks_agree = self.rules.masks_alike and both_are_masked
        return Reading.straight(self.name, side.expected, found, masked=masks_agree)

    def read_as_cos_sin(self, side: Side) -> Reading | None:
        """Read an array as the cosines and sines of another, which has them in another order.

        One file may have all cosines before all sines, (L, D), the other pairs of both, (L, D/2, 2).
        Neither states its order. So the expected array is separated into a table of cosines and one of
        sines, and the found array is searched for both. The result is None if it does not hold them.
        """
        for expected in find_readings_as_cos_and_sin(side.expected):
            if not expected.has_equal_copies():
                continue  # Each sequence of a batch has other values: there is no single table.
            tables = expected.take_first_copies()  # of a batch of equal tables
            cosines_and_sines = Waves(tables["cos"], tables["sin"])
            candidates = find_candidates_with_cos_and_sin(cosines_and_sines)
            reading = find_best_reading(side.found, candidates, is_text=self.rules.is_text)
            if reading is not None and reading.is_near:
                return reading
        return None

    def _find_candidates(self, expected: AnyArray) -> Iterator[CandidateTable]:
        """Yield the tables to look for in the other file, which may have this array in other shapes.

        A table (1, 1, 4096, 128) whose columns are doubled yields itself, itself with 64 columns, and
        the same two as (4096, 128) and (4096, 64): the other file may have dropped axes of length 1, or
        have each frequency once.
        """
        masks_agree = self.rules.masks_alike and _is_masked(expected)
        for shape in _find_shapes_without_ones(expected.shape, is_text=self.rules.is_text):
            yield from self._find_column_forms(expected.reshape(shape), masked=masks_agree)

    def _find_column_forms(self, table: AnyArray, *, masked: bool) -> Iterator[CandidateTable]:
        """Yield what the other file may hold in place of a table: the same, or half of its columns.

        If cosines have every column twice, c0 c1 c0 c1, the other file may have c0 c1: both are
        yielded. Of any other table, such as a bias or a vector of frequencies, only itself is.

        Args:
            table: The table, in one of the shapes that the other file may have.
            masked: True if a key hidden by −∞ in one file may be hidden by −65504 in the other.
        """
        is_vector = table.ndim < 2
        if is_vector or not self.has_frequencies:
            yield self._make_candidate(table, masked=masked)
            return
        for doubling, columns in _find_columns_by_doubling(table).items():
            candidate = self._make_candidate(columns, masked=masked)
            # The doubling is kept, so that a note can state which file has columns twice.
            yield replace(candidate, has_frequencies=True, layout=doubling)

    def _make_candidate(self, table: AnyArray, *, masked: bool) -> CandidateTable:
        """Return a table to look for in the other file, which may store it as integers or transposed.

        Args:
            table: The table.
            masked: True if a key hidden by −∞ in one file may be hidden by −65504 in the other.
        """
        return candidate_of(
            {self.name: table},
            masked=masked,
            # Programs store cosines and sines as integers too, 127 for 1.0, but not biases.
            quantised=self.has_frequencies,
            transposable=self.may_be_transposed,
        )


def find_candidates_with_cos_and_sin(waves: Waves) -> Iterator[CandidateTable]:
    """Yield the tables of cosines and sines together that one array may hold.

    They are the two tables of another file. If both have the columns a b a b, the array may have
    these, or only a b.
    """
    cos_by_doubling = _find_columns_by_doubling(waves.cos)
    sin_by_doubling = _find_columns_by_doubling(waves.sin)
    for doubling, cos in cos_by_doubling.items():
        if doubling in sin_by_doubling:
            both = {"cos": cos, "sin": sin_by_doubling[doubling]}
            yield candidate_of(both, has_frequencies=True, layout=doubling, quantised=True)


def _find_columns_by_doubling(array: AnyArray) -> dict[str, AnyArray]:
    """Return an array as it is, and by the way in which its columns are doubled, one of each.

    Columns a b a b are doubled in halves, and the result is {"": a b a b, "halves": a b}. Of a a b b
    it is {"": a a b b, "interleaved": a b}, and of a b, which has no column twice, {"": a b}.
    """
    tables = {AS_IT_STANDS: array}
    if array.shape[-1] % 2:
        return tables
    for doubled in DOUBLED_LAYOUTS:
        first, second = halved(array, doubled)
        if np.array_equal(first, second, equal_nan=True):
            tables[doubled] = first
    return tables


def _find_shapes_without_ones(shape: Shape, *, is_text: bool) -> list[Shape]:
    """Return a shape, and the same without axes of length 1 if it has several longer ones.

    >>> _find_shapes_without_ones((1, 4096, 64), is_text=False)
    [(1, 4096, 64), (4096, 64)]
    >>> _find_shapes_without_ones((1, 64), is_text=False)
    [(1, 64)]

    The last one stays a row: as a vector (64,) it would be taken for frequencies. A .csv file with
    one number per line is a vector nevertheless, as text has no axes of length 1.
    """
    long_axes = without_ones(shape)
    is_column_of_text = is_text and shape[-1] == 1 and len(long_axes) == 1
    if len(long_axes) > 1 or is_column_of_text:
        return [*dict.fromkeys((shape, long_axes))]
    return [shape]


def _is_masked(array: AnyArray) -> bool:
    """Return True if the last key is hidden from the first query: by −∞, or by a dtype's most negative number."""
    is_square = array.ndim > 1 and array.shape[-1] == array.shape[-2] > 1
    if not is_square or array.dtype.kind not in "fV" or not array.size:
        return False
    first_row = first_along(array, array.ndim - 1)
    return bool(first_row[-1] <= LARGEST_MASK)
