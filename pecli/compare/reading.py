"""A tensor read as the tables that it should hold: the best of all arrangements.

A name rarely states how a table lies in a tensor, and a shape often allows several ways. The values decide: a few
rows of each way are compared with the expected table, and the nearest one is then compared whole.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pecli.compare.arrangement import Arrangement, arrangements, straight
from pecli.compare.candidate import (
    PLURALS,
    CandidateTable,
    Expected,
    MadeTables,
    Origin,
    candidate_of,
)
from pecli.compare.comparison import Comparison, compare
from pecli.compare.factors import FunctionView, Shape
from pecli.compare.forms import ARRANGEMENTS, STEPS, Form, columns, joined, stands_for_one
from pecli.compare.part import Part, is_float_table
from pecli.compare.problems import DoubledDifferently
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import (
    COMPLEX,
    AnyArray,
    Indices,
    dtype_name,
    numpy_dtype,
    row_blocks,
    widest,
)
from pecli.engine.named_values import NamedValues
from pecli.files.tensor_roles import module_of, role_of

if TYPE_CHECKING:  # comparing two files needs no scheme
    from pecli.engine.schemes.scheme import Scheme

SAME = 1e-3  #: mean error below which a table is the expected one, apart from rounding
MAX_DISTANCE = 0.1  #: largest mean error of a table that is recognised by its values
MAX_GUESS_DISTANCE = 0.01  #: largest mean error of a guess that copies contradict
MAX_ERROR = 2.0  #: error that an element counts for if it is further off, or not a number
PROBE_ROWS = 4  #: first positions that are probed, beside one in the middle and the last
PROBE_GROUPS = 16  #: heads, or sequences of a batch, that are probed
PROBE_ELEMENTS = 1 << 16  #: elements of a vector that are probed
MIN_FLAT_ROWS = (
    8  #: rows of a table that a vector may be: shorter ones are frequencies of another dim
)
CONSTANT_ELEMENTS = 1 << 16  #: elements that are compared with the first one at once
MAX_POWER_VARIATION = 0.1  #: how far cos² + sin² may vary, relative to its mean


class FoundTables(NamedTuple):
    """Tables that were found, by the names that a scheme has for them."""

    scheme: "Scheme | None"  #: None if no scheme makes such tables
    tables: dict[str, AnyArray]


@dataclass(frozen=True)
class Reading:
    """A tensor in one arrangement, and its parts that have to equal tables."""

    array: AnyArray
    candidate: CandidateTable
    arrangement: Arrangement
    parts: tuple[Part, ...]
    scheme: "Scheme | None"
    is_complex: bool  #: complex numbers, which are read as pairs

    @classmethod
    def straight(cls, name: str, expected: Expected, array: AnyArray, *, masked: bool) -> "Reading":
        """Return the reading of an array as it stands."""
        part = Part.of_arrays(expected, array, masked=masked, name=name)
        candidate = candidate_of({name: expected})
        return cls(
            array=array,
            candidate=candidate,
            arrangement=straight(array.shape),
            parts=(part,),
            scheme=None,
            is_complex=False,
        )

    @property
    def name(self) -> str:
        return self.candidate.name

    @property
    def form(self) -> Form:
        return self.arrangement.form

    @property
    def transposed(self) -> bool:
        return self.arrangement.folding.transposed

    @property
    def is_guess(self) -> bool:
        return self.arrangement.folding.is_guess or self.form.is_signed

    @property
    def origin(self) -> Origin:
        """The encoding of a model that the table belongs to; only tables of models have one."""
        assert self.candidate.origin is not None
        return self.candidate.origin

    @property
    def is_learned(self) -> bool:
        """True if the expected values are not known, as no scheme makes them."""
        return self.candidate.origin is not None and self.scheme is None

    @cached_property
    def note(self) -> str:
        """A note on the arrangement; empty if the tensor was read as it stands."""
        return ", ".join(filter(None, self._notes()))

    def _notes(self) -> Iterator[str]:
        """Yield remarks on how the tensor was read: «two columns per frequency», «transposed».

        A remark that does not apply is an empty text.
        """
        yield self.candidate.words
        yield from self._notes_on_columns()
        yield self.arrangement.folding.note
        yield self._note_on_dropped_axes()
        for axis in self.arrangement.copy_axes:
            yield f"repeated {self.array.shape[axis]}× along axis {axis}"
        step = self.parts[0].step
        if step:
            yield f"integers with a scale of 1/{round(1 / step)}"
        yield self._words_for_masks()

    def _notes_on_columns(self) -> Iterator[str]:
        """Yield remarks on what the columns hold: «all cosines, then all sines», «one column per frequency».

        The number of columns goes without saying for two files that agree in it, but not for a
        table of a model: some runtimes store each frequency once, others twice.
        """
        candidate = self.candidate
        holds_both = len(candidate.names) > 1
        if holds_both:
            yield self._words_for_functions()
        is_table_of_model = (
            candidate.origin is not None and candidate.has_frequencies and not holds_both
        )
        if self.form.doubled or is_table_of_model:
            yield columns(self.form.doubled)
        if self.form.is_signed:
            yield "the first of them negated: the sign of the rotation is folded in"

    def _note_on_dropped_axes(self) -> str:
        has_dropped_axes = self.array.shape.count(1) > self.candidate.shape.count(1)
        return "axes of length 1 dropped" if has_dropped_axes else ""

    def _words_for_masks(self) -> str:
        """Return a note if two files write a mask in two ways; a model's own table has −∞."""
        part = self.parts[0]
        if not part.masked or not isinstance(part.expected, np.ndarray) or not part.found.size:
            return ""
        expected = float(widest(part.expected[(0,) * (part.expected.ndim - 1)]).min())
        found = float(widest(part.first_copy[(0,) * (part.expected.ndim - 1)]).min())
        return "" if found == expected else f"{found:.3g} stands for {expected:.3g}"

    def _words_for_functions(self) -> str:
        names = [PLURALS.get(name, name) for name in self.candidate.names]
        arrangement = "complex" if self.is_complex else self.form.arrangement
        return ARRANGEMENTS[arrangement].words.format(*names)

    def compared(self, tolerance: Tolerance, *, name: str, any_dtype: bool) -> Comparison:
        """Return the comparison of all parts.

        Columns that are doubled differently than the model rotates them are a problem: every element is right, but
        the rotation would combine channels of two pairs.
        """
        result = compare(self.parts, tolerance, name=name, role=self.name, any_dtype=any_dtype)
        if result.finding is not None or not self.candidate.is_doubled_differently(self.form):
            return result
        if not result.mismatched or self._has_alike_samples():
            result.finding = DoubledDifferently(self.form.doubled, self.candidate.layout)
        return result

    def pairs(self) -> dict[str, tuple[Expected, AnyArray]]:
        """Return, by the names of the tables, what is expected and one copy of what was found."""
        pairs: dict[str, tuple[Expected, AnyArray]] = {}
        for part in self.parts:
            pairs.setdefault(part.name, (part.expected, part.first_copy))
        return pairs

    def first_copies(self) -> dict[str, AnyArray]:
        """Return, by the names of the tables, one copy of what was found."""
        return {name: found for name, (_, found) in self.pairs().items()}

    def has_equal_copies(self, atol: float = 0.0, *, columns_may_differ: bool = False) -> bool:
        """Return True if all copies of a table, such as those of a batch, are the same.

        Args:
            atol: The absolute tolerance.
            columns_may_differ: True if the two columns of a frequency, [c0 c1 … c0 c1 …], do not
                count as copies of each other.
        """
        first_by_name: dict[str, Part] = {}
        for part in self.parts:
            first_copy = [slice(1)] * len(part.copies)
            if columns_may_differ and self.form.doubled and not self.form.is_signed:
                first_copy[0] = slice(None)  # The axis of doubled columns comes first.
            # Rotation matrices hold cosines twice, so that several parts may have the same name.
            first = first_by_name.setdefault(part.name, part)
            if not _copies_are_close(part, first, tuple(first_copy), atol):
                return False
        return True

    def tables_to_explain(self) -> FoundTables:
        """Return one copy of the tables that were found, and the scheme that should have made them.

        A search for the reason of an error gets these: it changes parameters of the scheme until it
        makes the tables. If a file has every frequency twice, one of the two columns may be wrong
        and the other right. So the search gets both columns, and the scheme in the same layout.
        """
        tables = self.first_copies()
        scheme = self.scheme
        if self.form.functions > 1:
            return FoundTables(scheme, tables)
        doubled = self.form.doubled
        if doubled and scheme is not None and "layout" in scheme.parameters():
            tables = {self.name: joined(self._both_columns(), doubled)}
            layout: NamedValues = {"layout": doubled}
            scheme = replace(scheme, **layout)
        if self.candidate.has_frequencies:
            # Tables of several axes of positions, (3, L, D), are one table of 3·L rows.
            tables = {name: table.reshape(-1, table.shape[-1]) for name, table in tables.items()}
        return FoundTables(scheme, tables)

    def _both_columns(self) -> list[AnyArray]:
        """Return one copy of the first and of the second columns of all frequencies."""
        if self.form.is_signed:
            first, second = self.parts
            return [-first.first_copy, second.first_copy]
        columns = self.parts[0].found  # (2, copies…, rows…, frequencies)
        for _ in self.parts[0].copies[1:]:
            columns = columns[:, 0]
        return [*columns]

    @cached_property
    def distance(self) -> float:
        """The mean error, judging by a few positions."""
        if not self.array.size:
            return 0.0
        return float(np.mean([_distance(part) for part in self.parts]))

    @property
    def is_near(self) -> bool:
        return self.distance < MAX_DISTANCE

    @cached_property
    def is_plausible(self) -> bool:
        """True if copies are alike, and cos² + sin² is constant, whatever the values are."""
        holds_both = len(self.candidate.names) > 1
        has_copies = any(part.copies for part in self.parts)
        must_be_alike = bool(self.form.doubled) or (has_copies and not holds_both)
        if must_be_alike and not self._has_alike_samples():
            return False
        return not holds_both or self.has_constant_power

    def _has_alike_samples(self) -> bool:
        """Return True if some rows are the same in the first and the last copies, doubled columns included."""
        copies = len(self.parts[0].copies)
        first_by_name: dict[str, AnyArray] = {}
        for part in self.parts:
            sample = part.as_in_table(_sample(part))
            first = first_by_name.setdefault(part.name, sample[(slice(1),) * copies])
            if not np.array_equal(np.broadcast_to(first, sample.shape), sample, equal_nan=True):
                return False
        return True

    @property
    def has_constant_power(self) -> bool:
        """True if the sum of the squares of both functions hardly varies."""
        with np.errstate(all="ignore"):
            power = _sample(self.parts[0]) ** 2 + _sample(self.parts[-1]) ** 2
            return bool(np.ptp(power) <= MAX_POWER_VARIATION * np.abs(power.mean()) < math.inf)

    @property
    def is_meaningful(self) -> bool:
        """True if a program may have written the table so, although its values are wrong.

        Shapes allow many ways to read a tensor that no program meant: (64, 64) may be a table, its
        transpose, or 64 copies of a vector. A report on wrong values needs the likely one.
        """
        if self.is_learned:
            return True  # There are no expected values that could contradict.
        if self.transposed:
            return begins_with_position_0(widest(self.parts[0].found))
        table_shape = self.parts[0].expected.shape
        is_vector_in_table = len(table_shape) < 2 and self.array.ndim > 1
        if is_vector_in_table:
            return math.prod(self.parts[0].copies) == 1
        is_table_in_vector = len(table_shape) > 1 and self.array.ndim < 2
        if is_table_in_vector:
            return table_shape[-2] >= MIN_FLAT_ROWS
        if self.candidate.origin is not None:
            return True  # The name of the tensor states that it is this table of a model.
        return self._is_plain or self.is_plausible

    @property
    def _is_plain(self) -> bool:
        """True if one table stands in the array once, its columns doubled as the model has them."""
        has_one_function = len(self.candidate.names) == 1
        has_all_axes = self.array.ndim >= len(self.parts[0].expected.shape)
        is_doubled_as_wanted = (
            bool(self.form.doubled) and self.form.doubled == self.candidate.layout
        )
        # Doubled columns count as two copies of the table.
        usual_copies = 2 if is_doubled_as_wanted else 1
        has_usual_copies = math.prod(self.parts[0].copies) == usual_copies
        return has_one_function and has_all_axes and has_usual_copies


def begins_with_position_0(table: AnyArray) -> bool:
    """Return True if all frequencies are alike in the first row of a table, and only there.

    At position 0 every cosine is 1 and every sine 0. If it is the first column that is alike, the
    table was transposed.

    Args:
        table: Cosines or sines, (…, rows, frequencies).
    """
    first_row = table[..., 0, :]
    first_column = table[..., 0]
    is_alike_in_row = bool((first_row == first_row[..., :1]).all())
    is_alike_in_column = bool((first_column == first_column[..., :1]).all())
    return is_alike_in_row and not is_alike_in_column


class Doubling(NamedTuple):
    """The way a reading doubles columns, and the layers that it belongs to."""

    layers: str
    reading: Reading
    doubled: str


def doubling_problems(doublings: Iterable[Doubling]) -> list[str]:
    """Return a sentence for all layers whose cosines are doubled in one way and whose sines in another."""
    ways: dict[str, set[str]] = {}
    for layers, reading, doubled in doublings:
        if role_of(reading.name) in PLURALS and doubled and reading.is_plausible:
            ways.setdefault(layers, set()).add(doubled)
    problem = "cos and sin are doubled in two ways: no rotation takes both"
    return [f"{layers} {problem}".strip() for layers, found in ways.items() if len(found) > 1]


def lone_transposes(readings: "Mapping[str, Reading | None]") -> set[str]:
    """Return the names of cosines or sines that fit only when transposed, unlike those beside them.

    A table of 64 positions × 64 columns has the same shape when it is transposed, so that only its
    values show it. If `cos` and `sin` of a module are both transposed, that is how the file stores
    tables. If one of them is, or there is no other to confirm it, a program exchanged its axes by
    mistake.

    Args:
        readings: By tensor, how its values fit the expected table; None if they do not.
    """
    lone: set[str] = set()
    for tables in _cos_and_sin_by_module(readings):
        transposed = [name for name, reading in tables.items() if reading.transposed]
        has_upright_table = len(transposed) < len(tables)
        is_single_square = len(tables) == 1 and all(map(_is_square, tables.values()))
        if has_upright_table or is_single_square:
            lone.update(transposed)
    return lone


def _cos_and_sin_by_module(
    readings: "Mapping[str, Reading | None]",
) -> "Iterable[dict[str, Reading]]":
    """Return tables of cosines or sines only, those of one module (`layers.3.rotary_emb`) together."""
    modules: dict[str | None, dict[str, Reading]] = {}
    for tensor, reading in readings.items():
        if reading is not None and _is_one_function(reading):
            modules.setdefault(module_of(tensor), {})[tensor] = reading
    return modules.values()


def _is_one_function(reading: Reading) -> bool:
    """Return True for cosines or sines by themselves."""
    return len(reading.candidate.names) == 1 and role_of(reading.name) in PLURALS


def _is_square(reading: Reading) -> bool:
    return len(set(reading.arrangement.folding.shape)) == 1


def _probes(shape: Shape) -> tuple[Indices, ...]:
    """Return some indices along each axis except the last: the first rows, one in the middle, the last.

    Of a bias (32, 4096, 4096), these are 16 of the heads, and the rows 0, 1, 2, 3, 2048 and 4095. Of a vector, they
    are its first elements.
    """
    if len(shape) < 2:
        return (np.arange(min(math.prod(shape), PROBE_ELEMENTS)),)
    *outer, length, _ = shape
    rows = np.unique(np.r_[: min(PROBE_ROWS, length), length // 2, length - 1])
    groups = [_spread_indices(count) for count in outer]
    return (*groups, rows)


def _spread_indices(count: int) -> Indices:
    """Return some of the first `count` indices, at equal distances, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, PROBE_GROUPS)).astype(np.intp))


def _sample(part: Part) -> AnyArray:
    """Return some rows of the first and the last copies."""
    ends = part.found[tuple(slice(None, None, max(1, count - 1)) for count in part.copies)]
    table_shape = part.expected.shape
    probes: list[Any] = [..., *np.ix_(*_probes(table_shape))]
    if len(table_shape) > 1:
        probes.append(slice(None))
    return widest(part.decoded(ends[tuple(probes)]))


def _expected_sample(part: Part) -> AnyArray:
    """Return the same rows of the table."""
    shape = part.expected.shape
    probes = np.ix_(*_probes(shape))
    if isinstance(part.expected, np.ndarray):
        return widest(part.expected[probes])
    rows = np.ravel_multi_index(probes, shape[:-1] or shape)
    values = widest(part.expected.pick(rows.reshape(-1)))
    return values.reshape(*rows.shape, *shape[len(probes) :])


def _distance(part: Part) -> float:
    """Return the mean error of some rows.

    Elements that are infinite on both sides are right; those that are not numbers count as MAX_ERROR.
    """
    expected = _expected_sample(part)
    with np.errstate(invalid="ignore", over="ignore"):
        found = part.as_in_table(_sample(part))
        error = np.where(expected == found, 0.0, np.abs(expected - found))
    if not error.size:
        return 0.0  # A table of (32, 0) has rows without elements.
    return float(np.minimum(np.nan_to_num(error, nan=MAX_ERROR), MAX_ERROR).mean())


def best_reading(
    array: AnyArray,
    candidates: Iterable[CandidateTable],
    *,
    is_text: bool = False,
    upright: bool = False,
) -> Reading | None:
    """Return the way to read a tensor as an expected table that fits best; None if none makes sense.

    A tensor (8, 64, 128) may be 8 copies of a table (64, 128), or 64 copies of one with 8 rows, and
    the values of a few rows decide:

    1. If the tensor lies as programs usually write tables, and its rows equal the table, that is it.
    2. If none fits, guesses are tried as well, such as heads that are folded into columns.
    3. If none of them fits either, the values are wrong, and the reading is chosen that leaves
       the fewest doubts. The comparison then shows which values are wrong.

    Args:
        array: The tensor.
        candidates: The tables that it may hold, the likelier ones first.
        is_text: True for the rows of a .csv file, which have no other axes.
        upright: True if rows must be positions, not frequencies.
    """
    likely = [*candidates]
    if upright:
        likely = [replace(candidate, transposable=False) for candidate in likely]
    tried: list[Reading] = []
    tensor = _RealTensor(array)
    for guesses in (False, True):
        for reading in _readings_as_any(tensor, likely, is_text=is_text, guesses=guesses):
            if reading.distance == 0.0:
                return reading
            tried.append(reading)
        nearest = min(tried, key=lambda reading: reading.distance, default=None)
        if nearest is not None and nearest.distance < SAME:
            return nearest
    return _least_doubtful(tried, array)


def _least_doubtful(tried: Iterable[Reading], array: AnyArray) -> Reading | None:
    """Return the likeliest way to read a tensor whose values are wrong; None if none makes sense."""
    one = stands_for_one(array)
    possible = [reading for reading in tried if _is_possible(reading)]
    return min(possible, key=lambda reading: _doubts_by_weight(reading, one), default=None)


def _readings_as_any(
    tensor: "_RealTensor", candidates: Iterable[CandidateTable], *, is_text: bool, guesses: bool
) -> Iterator[Reading]:
    """Yield the readings of a tensor as each of several candidates."""
    for candidate in candidates:
        yield from _readings_of(tensor, candidate, is_text=is_text, guesses=guesses)


def _is_possible(reading: Reading) -> bool:
    """Return True if a reading may be meant although no reading fits.

    Slow frequencies are nearly alike at all positions, so that a guess may be near by accident: its copies must be
    alike as well, unless nearly all elements are right.
    """
    if reading.form.is_signed:
        return reading.is_plausible
    if reading.is_guess:
        is_confirmed = reading.is_near and reading.is_plausible
        return is_confirmed or reading.distance < MAX_GUESS_DISTANCE
    return reading.is_near or reading.is_meaningful


def _doubts_by_weight(reading: Reading, one: int) -> tuple[float, ...]:
    """Return what speaks against a way to read a tensor, as a key for `min`: 0 is no doubt.

    If the values of a tensor are wrong, several ways to read it remain. The first item that differs
    decides: a transposed table with equal copies is preferred to an upright one whose copies differ.

    Args:
        reading: The tensor, read as copies of a table in some order of axes.
        one: The integer that most likely stands for 1.0 in the tensor, such as 127 in int8.
    """
    step = reading.parts[0].step  # what the integer 1 stands for; 0 in a table of floats
    is_other_scale = bool(step) and round(1 / step) != one
    return (
        not reading.is_plausible,  # Its copies differ, or cos² + sin² is not constant.
        reading.is_guess,
        reading.transposed,
        not reading.is_near,
        is_other_scale,
        math.prod(reading.parts[0].copies),  # (2, 12, 64) is rather 12 rows than 2.
        reading.distance,
    )


def readings(array: AnyArray, candidate: CandidateTable) -> Iterator[Reading]:
    """Yield all ways to read a tensor as an expected table that its shape allows, without guesses."""
    yield from _readings_of(_RealTensor(array), candidate, is_text=False, guesses=False)


class _RealTensor:
    """A tensor of real numbers, made of any array when it is first needed.

    A transposed file stays a view of the file: readings only split and exchange its axes.
    """

    def __init__(self, array: AnyArray) -> None:
        self._array = array
        self.size = array.size
        self.is_complex = dtype_name(array.dtype) in COMPLEX
        self.shape = (*array.shape, 2) if self.is_complex else array.shape

    @cached_property
    def values(self) -> AnyArray:
        """The numbers; complex ones (…,) are pairs (…, 2)."""
        return _as_pairs(self._array) if self.is_complex else self._array

    @cached_property
    def is_constant(self) -> bool:
        return _is_constant(self.values)


def _readings_of(
    tensor: _RealTensor, candidate: CandidateTable, *, is_text: bool, guesses: bool
) -> Iterator[Reading]:
    """Yield all ways to read a tensor as an expected table that its shape allows.

    (2, 64, 128) may be cosines (64, 128) and then sines, a batch of two tables, or 64 copies of a
    table with two rows. Nothing is compared here: a reading measures its distance when it is asked.

    Args:
        tensor: The tensor.
        candidate: The table, or the cosines and sines, that it may hold.
        is_text: True for the rows of a .csv file.
        guesses: True for the ways that only values can confirm, False for the others.
    """
    if not tensor.size:
        return
    is_complex = tensor.is_complex
    for arrangement in _arrangements_in_all_forms(
        tensor.shape, candidate, is_complex=is_complex, is_text=is_text, guesses=guesses
    ):
        if guesses and tensor.is_constant:
            return  # Memory that was never written is as constant as cosines at position 0.
        yield from _readings_by_scale(tensor.values, candidate, arrangement, is_complex=is_complex)


def _arrangements_in_all_forms(
    shape: Shape, candidate: CandidateTable, *, is_complex: bool, is_text: bool, guesses: bool
) -> Iterator[Arrangement]:
    """Yield the orders of axes and columns in which an array of a shape may hold a candidate's tables."""
    for form in candidate.forms(guesses=guesses):
        if _can_hold(candidate, form, is_complex=is_complex):
            yield from arrangements(shape, candidate, form, is_text=is_text, guesses=guesses)


def _copies_are_close(part: Part, first: Part, first_copy: tuple[slice, ...], atol: float) -> bool:
    """Return True if every copy of a table in a tensor equals the first copy, within a tolerance.

    Rotation matrices [[cos, −sin], [sin, cos]] hold the cosines in two parts: the first copy of the
    first part counts for both. Rows are compared in blocks, since the float64 values of a large
    tensor may not fit into memory.

    Args:
        part: The copies of the table, (copies…, rows…, frequencies).
        first: The first part with the same table, which may be the part itself.
        first_copy: The index of the first copy in it.
        atol: The absolute tolerance.
    """
    copies = len(part.copies)
    table_shape = part.found.shape[copies:]
    elements_per_row = math.prod(table_shape[1:]) * math.prod(part.found.shape[:copies])
    for rows in row_blocks((table_shape[0], elements_per_row)):
        at_rows = (*[slice(None)] * copies, rows)
        values = part.as_in_table(widest(part.found[at_rows]))
        expected = first.as_in_table(widest(first.found[at_rows]))[first_copy]
        if not np.isclose(values, expected, rtol=0, atol=atol, equal_nan=True).all():
            return False
    return True


def _is_constant(array: AnyArray) -> bool:
    """Return True if all elements are the same number; most arrays differ in the first few."""
    elements = array.reshape(-1, order="A")  # in the order of memory, so that nothing is copied
    for start in range(0, elements.size, CONSTANT_ELEMENTS):
        if (elements[start : start + CONSTANT_ELEMENTS] != elements[0]).any():
            return False
    return True


def _as_pairs(array: AnyArray) -> AnyArray:
    """Return complex numbers (…,) as real ones (…, 2), the real parts first."""
    kind = dtype_name(array.dtype)
    column = np.asarray(array, order="C").astype(kind, copy=False).reshape(*array.shape, 1)
    return column.view(numpy_dtype(COMPLEX[kind]))


def _can_hold(candidate: CandidateTable, form: Form, *, is_complex: bool) -> bool:
    """Return True if an array can have a candidate's tables in a form.

    Complex numbers are always pairs. Their real parts, and the diagonal of rotation matrices, are
    cosines by definition, so that sines cannot come first.
    """
    if is_complex and form.arrangement != "pairs":
        return False
    is_rotation = is_complex or form.arrangement == "matrices"
    return not (is_rotation and candidate.names == ("sin", "cos"))


def _readings_by_scale(
    array: AnyArray, candidate: CandidateTable, arrangement: Arrangement, *, is_complex: bool
) -> Iterator[Reading]:
    """Yield an array in one order of axes, beside the tables that it has to equal.

    Floats are yielded once. Integers may be quantised, and no file states their scale: an int8 table
    is yielded as whole numbers, then with 127, 128 and 64 standing for 1.0.
    """
    # One view per place of a function: [[cos, −sin], [sin, cos]] of rotation matrices are four.
    views = arrangement.views(array, candidate.row_lengths)
    shape = views[0].view.values.shape  # (copies…, rows…, frequencies)
    row_count = shape[-2] if len(shape) > 1 else 1
    made = candidate.make(row_count)
    first_table = made.tables[candidate.names[0]]
    table_axes = len(first_table.shape)
    if shape[len(shape) - table_axes :] != first_table.shape:
        return  # (32, 1) is no table of (32, 0); tables of a grid may have another number of rows.
    copy_axes = arrangement.copy_axes
    for step in _steps(array, candidate, first_table):
        parts = [_part(view, candidate, made, step, copy_axes) for view in views]
        yield Reading(
            array=array,
            candidate=candidate,
            arrangement=arrangement,
            parts=tuple(parts),
            scheme=made.scheme,
            is_complex=is_complex,
        )


def _part(
    function: FunctionView,
    candidate: CandidateTable,
    made: MadeTables,
    step: float,
    copy_axes: tuple[int, ...],
) -> Part:
    """Return the elements that hold one function (cosines, say), beside the table of it."""
    name = candidate.names[function.function]
    table = made.tables[name]
    return Part(table, function.view, function.negated, step, candidate.masked, name, copy_axes)


def _steps(array: AnyArray, candidate: CandidateTable, expected: Expected) -> Sequence[float]:
    """Return what the integer 1 may stand for; 0 if values are numbers themselves, which comes first."""
    ones = STEPS.get(dtype_name(array.dtype), ())
    if not candidate.quantised or not is_float_table(expected):
        return (0.0,)
    return (0.0, *(1 / one for one in ones))
