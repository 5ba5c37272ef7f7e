"""One comparison: how far a tensor is from what it has to equal, where, and whether that is within a tolerance.

What is expected is made once, some rows at a time, and compared with every place of the tensor that has to equal it:
copies along a batch or head axis, doubled columns, the two cosines of a rotation matrix. Those are views.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from pecli.compare.candidate import Expected
from pecli.compare.element_errors import ElementErrors, WorstElement
from pecli.compare.factors import Index, Shape, View
from pecli.compare.json_values import plain_fields
from pecli.compare.part import Part, RowBlock, split_into_row_blocks
from pecli.compare.problems import NotFinite, OtherDtype, OtherShape, Problem
from pecli.compare.tolerance import EXACT, Tolerance, is_relative
from pecli.engine.arrays import (
    FLOAT8,
    SIGNIFICAND_BITS,
    AnyArray,
    Array,
    Floats,
    Indices,
    dtype_name,
    round_to,
    widened,
)
from pecli.engine.named_values import JsonObject
from pecli.engine.table import work_through
from pecli.errors import bracketed
from pecli.files.tensor_roles import role_of

READ_BYTES = 1 << 22
"""Bytes of a table that are made and compared at once: fewer calls than one for each measured piece."""
FLOAT64_BYTES = 8
COARSEST_UNIT = 2.0**-7
"""The unit of the last place of bfloat16, relative to a value: no dtype of tables has a larger one."""
FLOAT_DTYPES = {*SIGNIFICAND_BITS, *FLOAT8}
MAX_RANGES = 64  #: ranges of rows, columns, heads or sequences that are listed

Value = float | complex
Ranges = list[tuple[int, int]]


@dataclass
class Comparison:
    """The result for one tensor. Errors of tensors that cannot be compared are None.

    Attributes:
        max_rel_error: Of elements for which 0 is not expected; None if only such elements differ.
        max_ulp_error: In ULPs of the dtype that was found; None for integers.
        worst_ulp: The error in ULPs of the element at `worst_index`.
        first_index: The first element out of tolerance.
        nonfinite_expected: Expected values that are not finite, of elements that differ.
        nonfinite_found: Found values that are not finite, of elements that differ.
        where: `rows`, `columns`, `heads` and `batch` that have elements out of tolerance.
        finding: What is wrong beside the values.
        parts: What was compared, if it differs.
        allowed: The tolerance that was applied.
        sides_swapped: True if `expected` is what the parts call found.
    """

    name: str
    shape: Shape
    size: int
    expected_dtype: str = ""
    dtype: str = ""
    mismatched: int | None = 0
    max_abs_error: float | None = 0.0
    max_rel_error: float | None = 0.0
    max_ulp_error: int | None = 0
    worst_ulp: int | None = None
    worst_index: Index | None = None
    first_index: Index | None = None
    expected: Value | None = None
    found: Value | None = None
    nonfinite_expected: int = 0
    nonfinite_found: int = 0
    where: Mapping[str, Ranges] = field(default_factory=dict)
    finding: Problem | None = None
    parts: Sequence[Part] = field(default=(), repr=False, compare=False)
    allowed: Tolerance = EXACT
    sides_swapped: bool = False

    @property
    def passed(self) -> bool:
        return self.mismatched == 0 and self.finding is None

    @property
    def problem(self) -> str:
        """The sentence for what is wrong beside the values; empty if nothing is."""
        return str(self.finding or "")

    @property
    def largest_error(self) -> float:
        """The largest absolute error; 0 if no values were compared."""
        return self.max_abs_error or 0.0

    @property
    def undecided(self) -> bool:
        """True if values before an encoding are not finite, so that nothing follows about those after it."""
        return isinstance(self.finding, NotFinite)

    def swapped(self) -> "Comparison":
        """Return the result with the expected and the found side exchanged.

        `diff A B` states what A has as expected. But if A is two copies of B, each of these is
        compared with B, which is the expected side then: that result has to be exchanged.
        """
        finding = self.finding
        if isinstance(finding, OtherDtype):
            finding = OtherDtype(dtype=finding.expected, expected=finding.dtype)
        return replace(
            self,
            finding=finding,
            expected=self.found,
            found=self.expected,
            expected_dtype=self.dtype,
            dtype=self.expected_dtype,
            nonfinite_expected=self.nonfinite_found,
            nonfinite_found=self.nonfinite_expected,
            sides_swapped=not self.sides_swapped,
        )

    @classmethod
    def impossible(cls, name: str, shape: Shape, problem: Problem | None) -> "Comparison":
        """Return the failed result for a tensor without comparable elements, as of another shape.

        Its counts and errors are None, since 0 would mean that all elements are right.
        """
        return cls(
            name=name,
            shape=shape,
            size=math.prod(shape),
            mismatched=None,
            max_abs_error=None,
            max_rel_error=None,
            max_ulp_error=None,
            finding=problem,
        )

    @classmethod
    def learned(cls, name: str, shape: Shape, problem: Problem | None) -> "Comparison":
        """Return the result for a learned table, which nothing else determines."""
        no_errors_known = cls.impossible(name, shape, problem)
        return replace(no_errors_known, mismatched=0)

    @classmethod
    def of_shape(cls, name: str, shape: Shape, expected: str) -> "Comparison":
        """Return the result for a tensor whose shape no arrangement of the expected table has."""
        return cls.impossible(name, shape, OtherShape(shape, expected))

    def as_json(self) -> JsonObject:
        """Return the fields of `tensors` in the output of `pecli verify --json`."""
        return plain_fields(
            self,
            "name",
            "shape",
            "mismatched",
            "max_abs_error",
            "max_rel_error",
            "max_ulp_error",
            "worst_index",
            "first_index",
            "expected",
            "found",
            "where",
        )


def ranges(numbers: AnyArray) -> Ranges:
    """Return the first and the last of every run of consecutive numbers.

    Of more than MAX_RANGES runs, the last range reaches to the last number.

    >>> ranges(np.array([0, 1, 2, 4, 7, 8]))
    [(0, 2), (4, 4), (7, 8)]
    """
    last_of_runs = np.flatnonzero(np.diff(numbers) > 1)[: MAX_RANGES - 1]
    runs = np.split(numbers, last_of_runs + 1)
    return [(int(run[0]), int(run[-1])) for run in runs]


def where_json(tensors: Sequence[Comparison]) -> dict[str, list[list[int]] | None]:
    """Return the rows, columns, heads and sequences in which any tensor is out of tolerance.

    Each is a list of ranges, [[0, 2], [7, 7]] for 0, 1, 2 and 7; None if nothing is wrong there, or
    if the tensors have no such axis.
    """
    names = ("rows", "columns", "heads", "batch")
    return {name: _merge_ranges(tensors, name) for name in names}


def _merge_ranges(tensors: Sequence[Comparison], name: str) -> list[list[int]] | None:
    """Return the places along one axis at which any of several tensors is wrong; None if none is.

    If rows 0–2 are wrong in the cosines and rows 2–5 in the sines, it is [[0, 5]].

    Args:
        tensors: The comparisons.
        name: The axis: rows, columns, heads or batch.
    """
    wrong_numbers = []
    for tensor in tensors:
        for first, last in tensor.where.get(name, ()):
            wrong_numbers.append(np.arange(first, last + 1))
    if not wrong_numbers:
        return None
    merged = np.unique(np.concatenate(wrong_numbers))
    return [[first, last] for first, last in ranges(merged)]


def problems_of(tensors: Sequence[Comparison]) -> tuple[str, ...]:
    """Return the sentences for tensors that cannot be compared, or differ in more than their values."""
    return tuple(f"{tensor.name}: {tensor.problem}" for tensor in tensors if tensor.problem)


def compare_arrays(
    expected: Expected,
    found: Array,
    tolerance: Tolerance = EXACT,
    *,
    name: str,
    role: str = "",
    any_dtype: bool = False,
) -> Comparison:
    """Compare an array with the expected one element by element.

    An array of another shape fails with that as its problem; it is not an error of the caller.

    >>> compare_arrays(np.zeros(3), np.array([0, 0, 0.5]), name="x").worst_index
    (2,)

    Args:
        expected: An array, or a table whose rows are computed when they are compared.
        found: The array.
        tolerance: The errors that pass.
        name: The name of the array in the result.
        role: What it holds, such as `inv_freq`, if its name does not tell.
        any_dtype: True if another floating dtype, or integers of another width, pass as well.
    """
    if found.shape != expected.shape:
        return Comparison.of_shape(name, found.shape, bracketed(expected.shape))
    part = Part.of_arrays(expected, np.asarray(found, order="C"))
    return compare_parts([part], tolerance, name=name, role=role, any_dtype=any_dtype)


def are_far_apart(expected: Floats, found: Floats, allowed: Tolerance) -> bool:
    """Return True if arrays differ so much that no comparison is needed to see it.

    Far apart is an error of twice what the tolerance allows for the largest value, where ULPs are taken
    for those of bfloat16. A comparison, which also finds where arrays differ, takes much longer.

    >>> are_far_apart(np.array([1.0, 2.0]), np.array([1.0, 2.5]), Tolerance(atol=0.01))
    True

    Args:
        expected: Values of which only finite ones are compared, since masks are infinite.
        found: As many values.
        allowed: The tolerance for the tensor.
    """
    with np.errstate(all="ignore"):  # The difference of two infinite values is NaN.
        errors = np.abs(found - expected)
    is_number = np.isfinite(errors)
    if not is_number.all():
        errors = errors[is_number]
        expected = expected[is_number]
    size = float(np.abs(expected).max(initial=0.0))
    units = (allowed.max_ulp + 1) * COARSEST_UNIT
    limit = allowed.atol + (allowed.rtol + units) * size
    return bool(errors.max(initial=0.0) > 2 * limit)


def compare_parts(
    parts: Sequence[Part],
    tolerance: Tolerance,
    *,
    name: str,
    role: str = "",
    any_dtype: bool = False,
) -> Comparison:
    """Compare a tensor with the tables that it has to equal, element by element.

    A tensor that holds one table has one part. [cos | sin] has two: the left half of its columns has
    to equal a table of cosines, and the right half one of sines.

    Values of unlike dtypes are compared as float64. ULPs are those of the dtype found, to which the
    expected value is rounded once. Frequencies and slopes are never rounded to half precision for
    that.

    Args:
        parts: Views of one array that have the same shape, each with its table; all tables have one
            dtype.
        tolerance: The errors that pass.
        name: The name of the tensor.
        role: What the tensor holds, if its name does not tell.
        any_dtype: True if another floating dtype, or integers of another width, pass as well.
    """
    any_part = parts[0]  # They have the same shape and dtypes.
    names = (name, role)  # Either may state that the tensor holds frequencies.
    dtypes = _choose_dtypes(any_part, names, any_dtype=any_dtype)
    errors = _measure_all_errors(parts, tolerance.for_tensor(*names), as_float32=dtypes.as_float32)
    result = _make_result(name, any_part, errors, dtypes)
    return _with_wrong_places(result, parts, errors)


def _make_result(name: str, part: Part, errors: ElementErrors, dtypes: "_Dtypes") -> Comparison:
    """Return the result for a tensor, without the places where it is wrong.

    Args:
        name: The name of the tensor.
        part: One of its parts, which all have the same shape and dtypes.
        errors: The errors of all elements.
        dtypes: The dtypes of both sides.
    """
    shape = part.view.array_shape
    max_ulp_error = errors.max_ulp_error
    is_quantised = part.step > 0
    if is_quantised:
        max_ulp_error = None  # Integers that stand for numbers have no last place.
    return Comparison(
        name=name,
        shape=shape,
        size=math.prod(shape),
        expected_dtype=dtypes.expected,
        dtype=dtypes.found,
        mismatched=errors.mismatched,
        max_abs_error=errors.max_abs_error,
        max_rel_error=_find_largest_relative_error(errors),
        max_ulp_error=max_ulp_error,
        nonfinite_expected=errors.nonfinite_expected,
        nonfinite_found=errors.nonfinite_found,
        finding=dtypes.finding,
        allowed=errors.tolerance,
    )


def _find_largest_relative_error(errors: ElementErrors) -> float | None:
    """Return the largest relative error; None if 0 is expected of every element that differs.

    An error of 0.1 is 20 % of 0.5, but no share of 0. A result of 0 would mean that nothing differs.
    """
    has_errors = errors.max_abs_error != 0
    if has_errors and errors.max_rel_error == 0:
        return None
    return errors.max_rel_error


class _Dtypes(NamedTuple):
    """The dtypes of both sides of a comparison.

    Attributes:
        expected: The dtype of the tables.
        found: The dtype of the tensor.
        finding: The problem that they differ; None if they may.
        as_float32: True if the values of both sides are rounded to float32 before.
    """

    expected: str
    found: str
    finding: OtherDtype | None = None
    as_float32: bool = False


def _choose_dtypes(part: Part, names: Sequence[str], *, any_dtype: bool) -> _Dtypes:
    """Return the dtypes of both sides, with a finding if they differ and may not.

    Frequencies may always be floats of another dtype, other tensors only if `any_dtype` is given.

    Args:
        part: The table, and its elements in the tensor.
        names: The names that the tensor has, from which follows what it holds.
        any_dtype: True if another floating dtype, or integers of another width, pass as well.
    """
    expected = dtype_name(part.expected_dtype)
    found = dtype_name(part.found.dtype)
    if expected == found:
        return _Dtypes(expected, found)
    holds_frequencies = any(role_of(name) == "inv_freq" for name in names)
    may_differ = (any_dtype or holds_frequencies) and _are_of_one_kind(part)
    if not may_differ:
        return _Dtypes(expected, found, finding=OtherDtype(dtype=found, expected=expected))
    return _Dtypes(expected, found, as_float32=_are_computed_in_float32(part, names))


def _are_computed_in_float32(part: Part, names: Sequence[str]) -> bool:
    """Return True for frequencies and for ALiBi's slopes, as real numbers.

    Models compute them in float32. The further digits of a file in float64 are not the model's.

    Args:
        part: The frequencies or slopes, or another table.
        names: The names that the tensor has, from which follows what it holds.
    """
    is_complex = part.found.dtype.kind == "c"
    holds_frequencies_or_slopes = is_relative(*names)
    return holds_frequencies_or_slopes and not is_complex


def _are_of_one_kind(part: Part) -> bool:
    """Return True if both sides are floats, integers or complex numbers, or integers stand for floats."""
    kinds = {part.expected_dtype.kind, part.found.dtype.kind}
    if part.step or kinds.issubset("iu") or kinds == {"c"}:
        return True
    return FLOAT_DTYPES.issuperset(map(dtype_name, (part.expected_dtype, part.found.dtype)))


def _measure_all_errors(
    parts: Sequence[Part], allowed: Tolerance, *, as_float32: bool
) -> ElementErrors:
    """Return the errors of all elements of a tensor, found in threads, a block of rows at a time.

    Expected rows are computed while they are compared, so that a table of 10^9 elements is never in
    memory as a whole.

    Args:
        parts: The tables that the tensor holds, such as cosines and sines, with the copies of each:
            one per sequence of a batch, say.
        allowed: The errors that pass.
        as_float32: True if both sides are rounded to float32 before.
    """
    any_part = parts[0]  # All parts have the same shape and dtypes.
    errors = ElementErrors(allowed, any_part.expected.shape, any_part.found.dtype)
    if not any_part.found.size:
        return errors
    copies_per_part = math.prod(any_part.copies)

    def add_errors(part_and_rows: tuple[int, RowBlock]) -> None:
        part_number, rows = part_and_rows
        # Copies are numbered through all parts: two copies of cosines are 0 and 1, of sines 2 and 3.
        first_copy = part_number * copies_per_part
        _add_errors_of_rows(errors, parts[part_number], rows, first_copy, as_float32=as_float32)

    blocks_of_rows = _split_rows(any_part, errors)
    work_through(add_errors, product(range(len(parts)), blocks_of_rows))
    return errors


def _split_rows(part: Part, errors: ElementErrors) -> Iterator[RowBlock]:
    """Yield the rows of a table in pieces of READ_BYTES, or of one row if that is larger.

    Args:
        part: The table, and its elements in the tensor.
        errors: Its errors, which have the axes of its rows and their width.
    """
    itemsize = max(part.expected_dtype.itemsize, part.found.dtype.itemsize)
    if part.step:  # Integers that stand for numbers are compared as float64.
        itemsize = FLOAT64_BYTES
    bytes_per_row = max(1, errors.width * itemsize)
    rows_at_once = max(1, READ_BYTES // bytes_per_row)
    return split_into_row_blocks(errors.row_lengths, rows_at_once)


def _add_errors_of_rows(
    errors: ElementErrors, part: Part, block: RowBlock, first_copy: int, *, as_float32: bool
) -> None:
    """Add the errors of some rows of a table, in every copy of it, to those of the whole tensor.

    The expected rows are computed once, and compared with the same rows of each sequence or head.

    Args:
        errors: The errors of the whole tensor.
        part: The table, and the copies of it that were found.
        block: The rows.
        first_copy: The number of the table's first copy, counting the copies of all tables.
        as_float32: True if both sides are rounded to float32 before.
    """
    expected_rows = _as_compared(part.rows(block), as_float32=as_float32)
    for copy, copy_index in enumerate(np.ndindex(part.copies), start=first_copy):
        found_rows = _as_compared(
            _read_rows_of_copy(part, copy_index, block), as_float32=as_float32
        )
        storable_rows = expected_rows
        if part.step:
            # Integers hold multiples of a step, such as 1/127. If the one found is a nearest one to
            # the expected number, it is right.
            storable_rows = part.in_steps(expected_rows, found_rows)
        errors.measure(storable_rows, found_rows, copy=copy, first_row=block.start)


def _as_compared(rows: AnyArray, *, as_float32: bool) -> AnyArray:
    """Return rows of either side rounded to float32, or as they are."""
    return round_to(widened(rows), "float32") if as_float32 else rows


def _read_rows_of_copy(part: Part, copy_index: Index, block: RowBlock) -> AnyArray:
    """Return the numbers that were found for some rows of one copy of a table, (rows, columns).

    Args:
        part: The table, and the copies of it that were found, (copies…, rows…, columns).
        copy_index: The index of the copy along the axes of copies: (sequence, head), say.
        block: The rows.
    """
    rows = part.found[(*copy_index, *block.at)].reshape(block.length, -1)
    return np.ascontiguousarray(part.decoded(rows))


def _with_wrong_places(
    result: Comparison, parts: Sequence[Part], errors: ElementErrors
) -> Comparison:
    """Return a result that also states where the wrong elements of a tensor are.

    It gets the indices of the worst and of the first wrong element in the tensor, and the rows, columns,
    heads and sequences that have wrong elements.

    Args:
        result: The result without them.
        parts: The tables that the tensor holds, such as cosines and sines, with the copies of each.
        errors: The errors of all elements. Each has a number: the elements of all copies of the first
            table are counted from 0, then those of the next table.
    """
    if errors.worst is not None:
        result = _with_worst_element(result, parts, errors.worst)
    # Each copy with wrong elements has the number of its first one.
    first_number_by_copy = errors.first_wrong_places
    if not first_number_by_copy:
        return result  # All errors are within the tolerance.
    first_index_per_copy = [
        _find_index_in_tensor(parts, number) for number in first_number_by_copy.values()
    ]
    wrong_in_table = _find_wrong_places(parts, errors)  # rows and columns, in any copy
    copy_axes = parts[0].copy_axes  # All tables of a tensor have their copies along the same axes.
    wrong_copies = _find_wrong_copies(copy_axes, first_index_per_copy, axes_of_table=wrong_in_table)
    return replace(
        result, first_index=min(first_index_per_copy), where=wrong_in_table | wrong_copies
    )


def _with_worst_element(
    result: Comparison, parts: Sequence[Part], worst: WorstElement
) -> Comparison:
    """Return a result with the element that has the largest error, and its index in the tensor."""
    return replace(
        result,
        worst_index=_find_index_in_tensor(parts, worst.place),
        worst_ulp=worst.ulps,
        expected=worst.expected,
        found=worst.found,
        parts=parts,
    )


def _find_index_in_tensor(parts: Sequence[Part], place: int) -> Index:
    """Return the index of an element, given its number when all parts are counted one after another."""
    part_number, place_in_part = divmod(place, parts[0].found.size)
    return parts[part_number].view.index_of(place_in_part)


def _find_wrong_copies(
    copy_axes: Sequence[int], first_indices: Sequence[Index], *, axes_of_table: Collection[str]
) -> dict[str, Ranges]:
    """Return the sequences and heads that have wrong elements, if the tensor has copies of the table.

    The first axis of copies counts sequences and the second one heads, unless the table itself has
    such an axis: two copies (2, 12, L, L) of ALiBi's biases are a batch.

    Args:
        copy_axes: The axes of the tensor along which the table is repeated.
        first_indices: The index of the first wrong element in each copy that has one.
        axes_of_table: The names of the axes that the table itself has.
    """
    names_of_copies = [name for name in ("batch", "heads") if name not in axes_of_table]
    indices = np.array(first_indices)  # (copies, axes of the tensor)
    # A tensor may have fewer axes of copies than there are names, or more.
    names_and_axes = zip(names_of_copies, copy_axes, strict=False)
    return {name: ranges(np.unique(indices[:, axis])) for name, axis in names_and_axes}


def _find_wrong_places(parts: Sequence[Part], errors: ElementErrors) -> dict[str, Ranges]:
    """Return the rows, columns, heads and sequences that have elements out of tolerance."""
    places = _find_wrong_rows(errors)
    if len(errors.shape) > 1:
        places["columns"] = _find_wrong_columns(parts, errors)
    return places


def _find_wrong_rows(errors: ElementErrors) -> dict[str, Ranges]:
    """Return the rows that have elements out of tolerance, and their heads and sequences.

    A table (64, 128) has rows; a bias (12, 64, 64) has heads and rows, and (2, 12, 64, 64) has
    sequences, heads and rows. The elements of a vector are columns of its only row.
    """
    if len(errors.shape) < 2:
        return {"columns": ranges(np.flatnonzero(errors.wrong_rows))}
    is_wrong = errors.wrong_rows.reshape(
        errors.shape[:-1]
    )  # (sequences, heads, rows), or fewer axes
    indices_by_axis = reversed(np.nonzero(is_wrong))
    names = ("rows", "heads", "batch")
    return {
        name: ranges(np.unique(indices))
        for name, indices in zip(names, indices_by_axis, strict=False)
    }


def _find_wrong_columns(parts: Sequence[Part], errors: ElementErrors) -> Ranges:
    """Return the columns of the file that have elements out of tolerance in any copy of the table.

    Columns 0 to 2 are wrong if column 0 is wrong in the first copy and columns 1 and 2 in the second.
    """
    elements_per_copy = errors.row_count * errors.width
    columns_of_copies = []
    for copy, is_wrong in errors.wrong_columns.items():
        first_element_of_copy = copy * elements_per_copy
        columns = np.flatnonzero(is_wrong)
        columns_of_copies.append(_number_columns_in_file(columns, parts, first_element_of_copy))
    return ranges(np.unique(np.concatenate(columns_of_copies)))


def _number_columns_in_file(columns: Indices, parts: Sequence[Part], place_of_copy: int) -> Indices:
    """Return the numbers that columns of a table have in the file, for one copy of the table.

    A row [c0 c0 c1 c1 c2 c2 c3 c3] of a file holds a table of 4 columns twice. The second copy begins
    in column 1 of the file, and its columns are 2 apart, 1 3 5 7: its last one, number 3, is column
    1 + 3 · 2 = 7. In an array of pairs (L, 4, 2), columns have an axis of their own: their numbers
    along that one are those of the table.

    Args:
        columns: Columns of the table.
        parts: The parts of the tensor, whose columns are equally far apart.
        place_of_copy: The number of the copy's first element, counting the elements of all parts.
    """
    view = parts[0].view
    if not _are_columns_in_last_axis(view):
        return columns
    *_, first_column = _find_index_in_tensor(parts, place_of_copy)
    step = view.steps[-1]
    return first_column + columns * step


def _are_columns_in_last_axis(view: View) -> bool:
    """Return True if the columns of a table follow each other in the last axis of a file's array.

    In pairs (12, 8, 2), the 8 columns of a table are an axis before the last. From one to the next
    are 2 elements, as many as the last axis has; a step within the last axis is shorter.
    """
    is_vector = len(view.array_shape) < 2
    step = view.steps[-1]
    return not is_vector and step < view.array_shape[-1]
