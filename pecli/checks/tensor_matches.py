"""The tensors of two files that belong together, and how one of them is read as the other."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pecli.checks.array_reader import (
    ArrayReader,
    ReadingRules,
    Side,
    find_candidates_with_cos_and_sin,
)
from pecli.checks.checked_tensor import MAX_COPY_ERROR
from pecli.compare.best_reading import find_best_reading
from pecli.compare.candidate import cos_and_sin
from pecli.compare.comparison import Comparison
from pecli.compare.forms import columns
from pecli.compare.problems import OtherDtype
from pecli.compare.reading import Reading
from pecli.compare.reading_conflicts import find_lone_transposes
from pecli.compare.reading_notes import describe_arrangement
from pecli.compare.tolerance import EXACT, Tolerance
from pecli.engine.arrays import SIGNIFICAND_BITS, AnyArray, Array, dtype_name
from pecli.engine.grouping import grouped
from pecli.errors import bracketed
from pecli.files.contents import LoadedFile
from pecli.files.tensor_roles import ANYTHING, role_of

MATCHED_ROLES = ("cos", "sin", "inv_freq", "slopes", "bias")
"""Roles of tensors that belong together under other names."""
FREQUENCY_ROLES = ("cos", "sin", "both", ANYTHING, None)
"""Roles of tensors whose columns may belong to frequencies."""

Tensors = Mapping[str, Array]


class TablePair(NamedTuple):
    """One table as A and as B have it."""

    name: str
    a: AnyArray
    b: AnyArray

    def swapped(self) -> "TablePair":
        """Return the pair of a table that was read from A, and that B is expected to agree with."""
        return TablePair(self.name, a=self.b, b=self.a)


@dataclass(frozen=True)
class TensorMatch:
    """Tensors that belong together by their names; neither can be read as the other.

    Attributes:
        name: The name for both.
        names_in_a: Their names in A.
        names_in_b: Their names in B.
        arrays: Both as they are.
    """

    name: str
    names_in_a: Sequence[str]
    names_in_b: Sequence[str]
    arrays: tuple[Array, Array]

    @property
    def note(self) -> str:
        """A note on the arrangement in which both were read; empty if as they are."""
        return ""

    @property
    def is_near(self) -> bool:
        """True if one was read as the other, and a few rows have nearly the same values."""
        return False

    def compare(self, tolerance: Tolerance, *, any_dtype: bool) -> Comparison:
        """Compare B with A; without a reading, their shapes are what differs."""
        a, b = self.arrays
        return Comparison.of_shape(self.name, b.shape, bracketed(a.shape))

    @property
    def has_copies_that_differ(self) -> bool:
        """True if a table stands several times in a file, and not always with the same values."""
        return False

    def pairs(self) -> list[TablePair]:
        """Return each table as A has it and as B has it, to search for the reason of a difference."""
        return [TablePair(self.name, *self.arrays)]

    def without_reading(self) -> "TensorMatch":
        """Return the match of the same tensors as they are."""
        return TensorMatch(self.name, self.names_in_a, self.names_in_b, self.arrays)

    def read_one_as_other(
        self, read: Callable[[Side], Reading | None], sides: Sequence[Side]
    ) -> "TensorMatch":
        """Return the match with one array read as the other; unchanged if neither can be.

        Args:
            read: Reads one array as the other; returns None if it cannot.
            sides: A to be read as B, and B as A. The first one that can be read decides.
        """
        for side in sides:
            reading = read(side)
            if reading is not None:
                return ReadMatch(
                    name=self.name,
                    names_in_a=self.names_in_a,
                    names_in_b=self.names_in_b,
                    arrays=self.arrays,
                    reading=reading,
                    reads_a=side.reads_a,
                )
        return self


@dataclass(frozen=True)
class ReadMatch(TensorMatch):
    """Tensors that belong together, one of which was read as the other.

    Attributes:
        reading: How one is read as the other.
        reads_a: True if it is A that was read as B has it.
    """

    reading: Reading
    reads_a: bool

    @property
    def note(self) -> str:
        """A note on how each file has the table: «B: repeated 2× along axis 0»; empty if as it stands.

        The file that was read as the other has the note. If only the other has two columns per
        frequency, it has one as well.
        """
        read_file, other_file = ("A", "B") if self.reads_a else ("B", "A")
        notes = {read_file: describe_arrangement(self.reading)}
        doubling_in_other = self.reading.candidate.layout
        if doubling_in_other and not self.reading.form.doubled:
            notes[other_file] = columns(doubling_in_other)
        return "; ".join(f"{file}: {note}" for file, note in notes.items() if note)

    @property
    def is_near(self) -> bool:
        return self.reading.is_near

    def compare(self, tolerance: Tolerance, *, any_dtype: bool) -> Comparison:
        """Compare B with A, element by element."""
        kinds = {array.dtype.kind for array in self.arrays}
        result = self.reading.compare(tolerance, name=self.name, any_dtype=any_dtype)
        are_numbers = kinds.issubset("iufV")
        if any_dtype and are_numbers and isinstance(result.finding, OtherDtype):
            # Integers are compared with floats by their values.
            result = replace(result, finding=None)
        return result.swapped() if self.reads_a else result

    @property
    def has_copies_that_differ(self) -> bool:
        has_copies = any(part.copies for part in self.reading.parts)
        return has_copies and not self.reading.has_equal_copies(MAX_COPY_ERROR)

    def pairs(self) -> list[TablePair]:
        """Return each table as A has it and as B has it.

        Copies of a batch and doubled columns are left out: they would have the same reason.
        """
        pairs = []
        for name, part in self.reading.first_parts.items():
            pair = TablePair(name, a=np.asarray(part.expected), b=part.first_copy)
            pairs.append(pair.swapped() if self.reads_a else pair)
        return pairs


def match_tensors(a: LoadedFile, b: LoadedFile, tolerance: Tolerance) -> list[TensorMatch]:
    """Return the tensors of two files that belong together, to be compared with each other.

    Tensors with the same name belong together, or with names that mean the same, such as `cos` and
    `cos_cached`. But `cos_sin_cache` of one file belongs to both `cos` and `sin` of the other.

    Args:
        a: The first file.
        b: The second.
        tolerance: The errors that pass.
    """
    # A .csv file has no dtypes of its own: its numbers are taken as those of the other file.
    in_a = a.read_as(_find_float_dtype(b)).tensors
    in_b = b.read_as(_find_float_dtype(a)).tensors
    rules = _make_reading_rules(a, b, tolerance)
    joined_match = _match_cos_sin(in_a, in_b, rules)
    if joined_match is not None:
        # One file has a single array, so that no other tensor has anything to be compared with.
        return [joined_match]
    matches = {}
    for name, name_in_b in _match_names(in_a, in_b).items():
        arrays = (in_a[name], in_b[name_in_b])
        match = TensorMatch(name=name, names_in_a=[name], names_in_b=[name_in_b], arrays=arrays)
        matches[name] = _read_match(match, _choose_reader(name, name_in_b, rules))
    return [*_rematch_lone_transposes(matches, rules).values()]


def _make_reading_rules(a: LoadedFile, b: LoadedFile, tolerance: Tolerance) -> ReadingRules:
    """Return the rules by which an array of one file may be read as one of the other.

    A bias is masked by −∞ or by the most negative number of its dtype. If the tolerance is exact,
    these are two numbers, not two ways to write the same mask.
    """
    return ReadingRules(
        is_text=a.has_rows_only or b.has_rows_only,
        masks_alike=tolerance != EXACT,
        by_ulps=tolerance.max_ulp > 0,
    )


def _rematch_lone_transposes(
    matches: Mapping[str, TensorMatch], rules: ReadingRules
) -> dict[str, TensorMatch]:
    """Return the matches, with cosines and sines of a module either all transposed or none.

    A program that stores its tables transposed does so with both. If only the sines (64, 64) of B fit
    those of A transposed, this is a mistake. They are matched again as they stand, so that the
    comparison fails.

    Args:
        matches: The tensors of both files that belong together, by their names in A.
        rules: The rules of the comparison.
    """
    readings = {
        name: match.reading for name, match in matches.items() if isinstance(match, ReadMatch)
    }
    corrected = dict(matches)
    for name in find_lone_transposes(readings):
        match = matches[name]
        (name_in_b,) = match.names_in_b
        reader = replace(_choose_reader(name, name_in_b, rules), may_be_transposed=False)
        corrected[name] = _read_match(match.without_reading(), reader)
    return corrected


def _find_float_dtype(file: LoadedFile) -> str:
    """Return the first floating dtype of a file's tensors."""
    for array in file.tensors.values():
        dtype = dtype_name(array.dtype)
        if dtype in SIGNIFICAND_BITS:
            return dtype
    return "float64"


def _match_names(in_a: Tensors, in_b: Tensors) -> dict[str, str]:
    """Return, for tensors of A, the names of the tensors of B that they are compared with.

    Two files with one tensor each are compared whatever the names are. Otherwise the names must be
    the same, or the only ones with their role: `cos` in A is `rotary_emb.cos_cached` in B, if
    neither file has other cosines.
    """
    if len(in_a) == len(in_b) == 1:
        return dict(zip(in_a, in_b, strict=True))
    name_in_b_by_name = {name: name for name in in_a if name in in_b}
    names_in_a_by_role = _find_names_by_role(in_a, name_in_b_by_name)
    names_in_b_by_role = _find_names_by_role(in_b, name_in_b_by_name)
    for role, name in names_in_a_by_role.items():
        if role in names_in_b_by_role:
            name_in_b_by_name[name] = names_in_b_by_role[role]
    return name_in_b_by_name


def _find_names_by_role(names: Iterable[str], matched: Container[str]) -> dict[str | None, str]:
    """Return, by role, the tensors that are the only ones with it: {"cos": "rope.cos_cached"}.

    Args:
        names: The tensors of a file.
        matched: Those that have their name in the other file as well, and are left out.
    """
    by_role = grouped((name for name in names if name not in matched), role_of)
    return {role: by_role[role][0] for role in MATCHED_ROLES if len(by_role.get(role, ())) == 1}


def _match_cos_sin(in_a: Tensors, in_b: Tensors, rules: ReadingRules) -> TensorMatch | None:
    """Match one array that holds cosines and sines with two arrays of the other file.

    vLLM, for example, has `cos_sin_cache` (L, D) where transformers has `cos` and `sin`. The result
    is None unless one file has a single array, and the other one table of cosines and one of sines.
    """
    for joined, apart, reads_a in ((in_b, in_a, False), (in_a, in_b, True)):
        reading = _read_joined(joined, apart, rules)
        if reading is not None:
            (array,) = joined.values()
            return ReadMatch(
                name="cos_sin",
                names_in_a=[*in_a],
                names_in_b=[*in_b],
                # A match holds one array per file, but one of the files has two. With a reading, these
                # arrays only show whether dtypes are numbers: values are compared as it has them.
                arrays=(array, array),
                reading=reading,
                reads_a=reads_a,
            )
    return None


def _read_joined(joined: Tensors, apart: Tensors, rules: ReadingRules) -> Reading | None:
    """Read the single array of one file as both cosines and sines of the other; None if it is not.

    Args:
        joined: The tensors of the file that may have one array, such as `cos_sin_cache`.
        apart: The tensors of the file that may have `cos` and `sin`.
        rules: The rules of the comparison.
    """
    waves = cos_and_sin(apart)
    if len(joined) != 1 or waves is None:
        return None
    (array,) = joined.values()
    return find_best_reading(array, find_candidates_with_cos_and_sin(waves), is_text=rules.is_text)


def _read_match(match: TensorMatch, reader: ArrayReader) -> TensorMatch:
    """Return how two tensors can be compared although their axes or columns may differ.

    For example, (2, 64, 128) in one file is read as two copies of (64, 128) in the other. If neither
    can be read as the other, the comparison reports that the shapes differ.

    Args:
        match: The two tensors.
        reader: Reads one of them as the other.
    """
    a, b = match.arrays
    sides = _order_sides(a, b, reader.rules)  # A to be read as B, and B as A
    # An integer 127 in one file may stand for 1.0 in the other: then values differ by that factor.
    is_one_quantised = reader.has_frequencies and _holds_integers(a) != _holds_integers(b)
    if a.shape == b.shape and not is_one_quantised:
        return match.read_one_as_other(reader.read_in_same_shape, sides)
    # One may have other axes than the other, copies of its table, or a factor.
    match_as_table = match.read_one_as_other(reader.read_as_table, sides)
    if match_as_table.is_near or not reader.has_frequencies:
        return match_as_table
    # The values disagree. Both may hold cosines and sines in different orders: (L, 64) has 32 cosines
    # and then 32 sines in a row, (L, 32, 2) has pairs. If they do not, `match_as_table` is returned.
    return match_as_table.read_one_as_other(reader.read_as_cos_sin, sides)


def _choose_reader(name: str, name_in_b: str, rules: ReadingRules) -> ArrayReader:
    """Return the reader of a table that has these names in both files, by what the names state."""
    has_frequencies = role_of(name) in FREQUENCY_ROLES and role_of(name_in_b) in FREQUENCY_ROLES
    may_be_transposed = has_frequencies and role_of(name) in MATCHED_ROLES
    return ArrayReader(
        name, has_frequencies=has_frequencies, may_be_transposed=may_be_transposed, rules=rules
    )


def _order_sides(a: Array, b: Array, rules: ReadingRules) -> list[Side]:
    """Return A to be read as B, and B as A, the one with fewer doubts about its reading first.

    The order of the files does not matter, so that `diff A B` and `diff B A` count the same errors.
    """
    b_as_a = Side(expected=a, found=b, reads_a=False)
    a_as_b = Side(expected=b, found=a, reads_a=True)
    return sorted((b_as_a, a_as_b), key=lambda side: side.find_doubts(by_ulps=rules.by_ulps))


def _holds_integers(array: Array) -> bool:
    return array.dtype.kind in "iu"
