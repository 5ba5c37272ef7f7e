"""The tensors of two files that belong together, and how one of them is read as the other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pecli.compare.best_reading import find_best_reading
from pecli.compare.candidate import PLURALS, CandidateTable, Waves, candidate_of, cos_and_sin
from pecli.compare.comparison import Comparison
from pecli.compare.factors import Shape, first_along, without_ones
from pecli.compare.forms import DOUBLED_LAYOUTS, columns, halved
from pecli.compare.problems import OtherDtype
from pecli.compare.reading import Reading
from pecli.compare.reading_conflicts import find_lone_transposes
from pecli.compare.reading_notes import note_on
from pecli.compare.tolerance import EXACT, Tolerance
from pecli.compare.waves import wave_readings
from pecli.engine.arrays import FLOAT8, SIGNIFICAND_BITS, AnyArray, Array, dtype_name
from pecli.engine.grouping import grouped
from pecli.engine.named_values import NamedValues
from pecli.errors import bracketed
from pecli.files.contents import LoadedFile
from pecli.files.tensor_roles import ANYTHING, role_of

MATCHED_ROLES = ("cos", "sin", "inv_freq", "slopes", "bias")
"""Roles of tensors that belong together under other names."""
FREQUENCY_ROLES = ("cos", "sin", "both", ANYTHING, None)
"""Roles of tensors whose columns may belong to frequencies."""
LARGEST_MASK = (
    -6e4
)  #: value below which there are only masks; the most negative number of float16 is −65504

Tensors = Mapping[str, Array]


class TablePair(NamedTuple):
    """One table as A and as B have it."""

    name: str
    a: AnyArray
    b: AnyArray


@dataclass(frozen=True)
class TensorMatch:
    """Tensors that belong together, and how one is read as the other.

    Attributes:
        name: The name for both.
        names_in_a: Their names in A.
        names_in_b: Their names in B.
        arrays: Both as they are.
        reading: How one is read as the other; None if it cannot be.
        reads_a: True if it is A that was read as B has it.
    """

    name: str
    names_in_a: Sequence[str]
    names_in_b: Sequence[str]
    arrays: tuple[Array, Array]
    reading: Reading | None = None
    reads_a: bool = False

    @property
    def note(self) -> str:
        """A note on the arrangement in which both were read; empty if as they are."""
        if self.reading is None:
            return ""
        other = ""
        if self.reading.candidate.layout and not self.reading.form.doubled:
            other = columns(self.reading.candidate.layout)
        sides = ("A", "B") if self.reads_a else ("B", "A")
        notes = zip(sides, (note_on(self.reading), other), strict=True)
        return "; ".join(f"{side}: {note}" for side, note in notes if note)

    def compare(self, tolerance: Tolerance, *, any_dtype: bool) -> Comparison:
        """Compare B with A."""
        a, b = self.arrays
        if self.reading is None:
            return Comparison.of_shape(self.name, b.shape, bracketed(a.shape))
        result = self.reading.compare(tolerance, name=self.name, any_dtype=any_dtype)
        are_numbers = {a.dtype.kind, b.dtype.kind}.issubset("iufV")
        if any_dtype and are_numbers and isinstance(result.finding, OtherDtype):
            result.finding = None  # Integers are compared with floats by their values.
        return result.swapped() if self.reads_a else result

    def pairs(self) -> list[TablePair]:
        """Return each table as A has it and as B has it, to search for the reason of a difference.

        Copies of a batch and doubled columns are left out: they would have the same reason.
        """
        if self.reading is None:
            return [TablePair(self.name, *self.arrays)]
        pairs = []
        for name, part in self.reading.first_parts.items():
            expected = np.asarray(part.expected)
            if self.reads_a:
                pairs.append(TablePair(name, a=part.first_copy, b=expected))
            else:
                pairs.append(TablePair(name, a=expected, b=part.first_copy))
        return pairs

    def read_from(
        self, sides: "Sequence[_Side]", read: "Callable[[_Side], Reading | None]"
    ) -> "TensorMatch":
        """Return the match with the first side that can be read as the other; unchanged if none can.

        Args:
            sides: A to be read as B, and B as A, the better one first.
            read: Reads a side; returns None if it cannot.
        """
        for side in sides:
            reading = read(side)
            if reading is not None:
                return replace(self, reading=reading, reads_a=side.reads_a)
        return self

    @property
    def is_near(self) -> bool:
        """True if one was read as the other, and a few rows have nearly the same values."""
        return self.reading is not None and self.reading.is_near


class _Rules(NamedTuple):
    """Rules by which one tensor may be read as another.

    Attributes:
        is_text: True if one of the files is a .csv file, which has no axes other than lines and columns.
        masks_alike: True if the most negative number of a dtype stands for −∞.
        by_ulps: True if errors are allowed in ULPs, which are those of the coarser dtype. An absolute error is one of
            the values as they are: rounding to the coarser dtype would hide it.
        upright: True if a table that fits only when transposed is not read so.
    """

    is_text: bool
    masks_alike: bool
    by_ulps: bool
    upright: bool = False


def match_tensors(a: LoadedFile, b: LoadedFile, tolerance: Tolerance) -> list[TensorMatch]:
    """Return the tensors of two files that belong together, and how one is read as the other.

    `cos_sin_cache` of B belongs to both `cos` and `sin` of A. Otherwise tensors belong together by
    their names: the same name, or names that mean the same, such as `cos` and `cos_cached`.

    Args:
        a: The first file.
        b: The second.
        tolerance: The errors that pass. If it is exact, −∞ and the most negative number of a dtype are two numbers,
            not two ways to write a mask.
    """
    in_a = a.read_as(_float_dtype(b)).tensors  # A .csv file has no dtypes of its own.
    in_b = b.read_as(_float_dtype(a)).tensors
    is_text = a.has_rows_only or b.has_rows_only
    rules = _Rules(is_text, masks_alike=tolerance != EXACT, by_ulps=tolerance.max_ulp > 0)
    cos_sin = _match_cos_sin(in_b, in_a, rules, reads_a=False)
    if cos_sin is None:
        cos_sin = _match_cos_sin(in_a, in_b, rules, reads_a=True)
    if cos_sin is not None:
        return [cos_sin]
    names = _matched_names(in_a, in_b)
    matches = {}
    for name, name_in_b in names.items():
        matches[name] = _match_two(name, name_in_b, in_a[name], in_b[name_in_b], rules)
    # A table that only matches transposed, unlike the table beside it, is wrong: it is compared as it stands.
    for name in find_lone_transposes({name: match.reading for name, match in matches.items()}):
        upright = rules._replace(upright=True)
        matches[name] = _match_two(name, names[name], *matches[name].arrays, upright)
    return [*matches.values()]


def _float_dtype(file: LoadedFile) -> str:
    """Return the first floating dtype of a file's tensors."""
    for array in file.tensors.values():
        dtype = dtype_name(array.dtype)
        if dtype in SIGNIFICAND_BITS:
            return dtype
    return "float64"


def _matched_names(in_a: Tensors, in_b: Tensors) -> dict[str, str]:
    """Return, for tensors of A, the names of the tensors of B that they are compared with.

    Two files with one tensor each are compared whatever the names are. Otherwise the names must be
    the same, or the only ones with their role: `cos` in A is `rotary_emb.cos_cached` in B, if
    neither file has other cosines.
    """
    if len(in_a) == len(in_b) == 1:
        return dict(zip(in_a, in_b, strict=True))
    names = {name: name for name in in_a if name in in_b}
    roles_in_a = _by_role([name for name in in_a if name not in names])
    roles_in_b = _by_role([name for name in in_b if name not in names])
    for role, name in roles_in_a.items():
        if role in roles_in_b:
            names[name] = roles_in_b[role]
    return names


def _by_role(names: Sequence[str]) -> dict[str | None, str]:
    """Return, by role, the tensors that are the only ones with it: {"cos": "rope.cos_cached"}."""
    with_role = [name for name in names if role_of(name) in MATCHED_ROLES]
    by_role = grouped(with_role, role_of)
    return {role: members[0] for role, members in by_role.items() if len(members) == 1}


def _match_cos_sin(
    joined: Tensors, apart: Tensors, rules: _Rules, *, reads_a: bool
) -> TensorMatch | None:
    """Match one array that holds cosines and sines with two arrays of the other file.

    vLLM, for example, has `cos_sin_cache` (L, D) where transformers has `cos` and `sin`. The result
    is None unless one file has a single array, and the other one table of cosines and one of sines.

    Args:
        joined: The tensors of the file with one array.
        apart: The tensors of the file with `cos` and `sin`.
        rules: The rules of the comparison.
        reads_a: True if A is the file with one array.
    """
    waves = cos_and_sin(apart)
    if len(joined) != 1 or waves is None:
        return None
    ((name, array),) = joined.items()
    reading = find_best_reading(array, _candidates_of_both(waves), is_text=rules.is_text)
    if reading is None:
        return None
    if reads_a:
        return TensorMatch(
            name="cos_sin",
            names_in_a=[name],
            names_in_b=[*apart],
            arrays=(array, array),
            reading=reading,
            reads_a=reads_a,
        )
    return TensorMatch(
        name="cos_sin",
        names_in_a=[*apart],
        names_in_b=[name],
        arrays=(array, array),
        reading=reading,
        reads_a=reads_a,
    )


def _candidates_of_both(waves: Waves) -> Iterator[CandidateTable]:
    """Yield cosines and sines in one array, with columns as they are, and once if they are doubled."""
    cos = _single_columns(waves.cos)
    sin = _single_columns(waves.sin)
    for doubled in cos:
        if doubled in sin:
            both = {"cos": cos[doubled], "sin": sin[doubled]}
            yield candidate_of(both, has_frequencies=True, layout=doubled, quantised=True)


def _single_columns(array: AnyArray) -> dict[str, AnyArray]:
    """Return an array as it is, and, by the way columns are doubled, with one of two columns per frequency."""
    tables = {"": array}
    if array.shape[-1] % 2:
        return tables
    for doubled in DOUBLED_LAYOUTS:
        first, second = halved(array, doubled)
        if np.array_equal(first, second, equal_nan=True):
            tables[doubled] = first
    return tables


def _match_two(name: str, name_in_b: str, a: Array, b: Array, rules: _Rules) -> TensorMatch:
    """Find how one of two tensors is read as the other: (2, 64, 128) as two copies of (64, 128).

    Either may have the copies. Which of the two is read does not depend on their order, so that
    `diff A B` and `diff B A` count the same errors. If neither can be read as the other, they are
    returned as they are, and differ in their shape.
    """
    match = TensorMatch(name=name, names_in_a=[name], names_in_b=[name_in_b], arrays=(a, b))
    has_frequencies = role_of(name) in FREQUENCY_ROLES and role_of(name_in_b) in FREQUENCY_ROLES
    is_quantised = (a.dtype.kind in "iu") != (b.dtype.kind in "iu")
    sides = [_Side(a, b, reads_a=False), _Side(b, a, reads_a=True)]
    sides.sort(key=lambda side: side.doubts(by_ulps=rules.by_ulps))
    if a.shape == b.shape and not (has_frequencies and is_quantised):
        return match.read_from(
            sides, lambda side: _read_upright_or_transposed(name, side, has_frequencies, rules)
        )
    as_table = match.read_from(
        sides, lambda side: _read_as_table(name, has_frequencies, rules, side)
    )
    if as_table.is_near or not has_frequencies:
        return as_table
    return as_table.read_from(sides, lambda side: _read_as_cos_sin(rules, side))


class _Side(NamedTuple):
    """An array to be read as the other has it."""

    expected: Array
    found: Array
    reads_a: bool

    def doubts(self, *, by_ulps: bool) -> tuple[int, ...]:
        """Return what speaks against reading this array, the gravest first.

        Integers stand for the floats of the other side, and copies and doubled columns make an array larger.
        """
        expects_integers = self.expected.dtype.kind in "iu"
        added_bits = _significand_bits(self.found) - _significand_bits(self.expected)
        return (
            expects_integers,
            -self.found.size,
            -self.found.ndim,
            added_bits if by_ulps else -added_bits,
        )


def _significand_bits(array: Array) -> int:
    """Return the precision of a floating dtype; 0 for others."""
    return {**SIGNIFICAND_BITS, **FLOAT8}.get(dtype_name(array.dtype), 0)


def _read_as_table(name: str, has_frequencies: bool, rules: _Rules, side: _Side) -> Reading | None:
    """Read an array as the table that another one is."""
    candidates = _candidates_of_table(name, side.expected, has_frequencies, rules)
    return find_best_reading(side.found, candidates, is_text=rules.is_text)


def _read_upright_or_transposed(
    name: str, side: _Side, has_frequencies: bool, rules: _Rules
) -> Reading:
    """Read an array as another of the same shape: element by element, or transposed if only that matches.

    Some programs store cosines and sines as (frequencies, positions). The shape does not show it if
    a table is square: 64 positions of 64 columns are (64, 64) both ways. Other tensors are not read
    so: a transposed bias exchanges queries and keys, which is a mistake to report, and frequencies
    and slopes have one axis.
    """
    expected = side.expected
    found = np.asarray(side.found, order="C")
    masked = rules.masks_alike and _is_masked(expected) and _is_masked(found)
    straight = Reading.straight(name, expected, found, masked=masked)
    is_cos_or_sin = role_of(name) in PLURALS
    has_two_axes = expected.ndim > 1
    may_be_transposed = is_cos_or_sin and has_two_axes
    if not may_be_transposed or straight.is_near:
        return straight
    # The shapes agree, so that no other order of axes or columns is accepted than a transposed one.
    best = _read_as_table(name, has_frequencies, rules, side)
    if best is not None and best.transposed and best.is_near:
        return best
    return straight


def _candidates_of_table(
    name: str, expected: AnyArray, has_frequencies: bool, rules: _Rules
) -> Iterator[CandidateTable]:
    """Yield the tables to look for in the other file, which may have this array in other shapes.

    A table (1, 1, 4096, 128) whose columns are doubled yields itself, itself with 64 columns, and
    the same two as (4096, 128) and (4096, 64): the other file may have dropped axes of length 1, or
    have each frequency once.

    Args:
        name: The name of the table.
        expected: The array.
        has_frequencies: True if its columns may belong to frequencies, so that they can be doubled.
        rules: The rules of the comparison.
    """
    expected = np.atleast_1d(expected)
    options: NamedValues = {
        "quantised": has_frequencies,
        "masked": rules.masks_alike and _is_masked(expected),
        "transposable": has_frequencies and role_of(name) in MATCHED_ROLES and not rules.upright,
    }
    for shape in _shapes_without_ones(expected.shape, is_text=rules.is_text):
        table = expected.reshape(shape)
        has_columns = has_frequencies and table.ndim > 1
        tables = _single_columns(table) if has_columns else {"": table}
        for doubled, single in tables.items():
            yield candidate_of(
                {name: single}, has_frequencies=has_columns, layout=doubled, **options
            )


def _shapes_without_ones(shape: Shape, *, is_text: bool) -> list[Shape]:
    """Return a shape, and the same without axes of length 1 if it has several longer ones.

    >>> _shapes_without_ones((1, 4096, 64), is_text=False)
    [(1, 4096, 64), (4096, 64)]
    >>> _shapes_without_ones((1, 64), is_text=False)
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


def _read_as_cos_sin(rules: _Rules, side: _Side) -> Reading | None:
    """Read an array as the cosines and sines that another array holds in a different order.

    One file may have (L, D) with all cosines and then all sines, and the other (L, D/2, 2) with
    pairs. Nothing states that, so the expected array is first separated by its values.
    """
    for cos_sin in wave_readings(side.expected):
        if not cos_sin.has_equal_copies():
            continue
        tables = cos_sin.first_copies()
        candidates = _candidates_of_both(Waves(tables["cos"], tables["sin"]))
        reading = find_best_reading(side.found, candidates, is_text=rules.is_text)
        if reading is not None and reading.is_near:
            return reading
    return None
