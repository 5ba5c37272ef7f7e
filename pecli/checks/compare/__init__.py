"""One comparison: how far a tensor is from what it has to equal, where, and whether that is within a tolerance.

What is expected is made once, some rows at a time, and compared with every place of the tensor that has to equal it:
copies along a batch or head axis, doubled columns, the two cosines of a rotation matrix. Those are views.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from pecli.checks.compare.element_errors import ErrorSummary, Misses, Value, absolute_errors
from pecli.checks.compare.element_errors import ulps_apart as ulps_apart
from pecli.checks.tensor_roles import role_of
from pecli.checks.tolerance import EXACT, Tolerance, is_relative
from pecli.engine.arrays import (
    SIGNIFICAND_BITS,
    AnyArray,
    Array,
    Flags,
    Floats,
    Indices,
    dtype_name,
    numpy_dtype,
    round_to,
    widened,
)
from pecli.engine.table import Table, work_through
from pecli.errors import bracketed

READ_BYTES = 1 << 22
"""Of a table, made and compared at once: fewer calls than one for each measured piece."""
LOWEST = {"float64": -3e38, "float32": -3e38, "bfloat16": -3e38, "float16": -6e4}
"""By dtype, what only a mask is below."""
MAX_RANGES = 64
"""Ranges of rows or columns out of tolerance that are listed."""

Ranges = list[tuple[int, int]]


@dataclass
class Comparison:
    """The result for one tensor. Errors of tensors that cannot be compared are None."""

    name: str
    shape: tuple[int, ...]
    size: int
    expected_dtype: str = ""
    dtype: str = ""
    mismatched: int | None = 0
    max_abs_error: float | None = 0.0
    max_rel_error: float | None = 0.0  #: of elements where 0 is not expected; None where only such ones differ
    max_ulp_error: int | None = 0  #: in units of the dtype that was found; None for integers
    worst_ulp: int | None = 0  #: of the element at worst_index
    worst_index: tuple[int, ...] | None = None
    first_index: tuple[int, ...] | None = None  #: the first element out of tolerance
    expected: Value | None = None
    found: Value | None = None
    strange_expected: int = 0  #: values that are not finite, where the two differ
    strange_found: int = 0
    where: Mapping[str, Ranges] = field(default_factory=dict)
    """What is out of tolerance: `rows`, `columns`, `heads`, `batch`, each by its first and last numbers."""
    problem: str = ""

    @property
    def passed(self) -> bool:
        return self.mismatched == 0 and not self.problem

    @classmethod
    def impossible(cls, name: str, shape: tuple[int, ...], problem: str) -> Comparison:
        """The result for a tensor whose values cannot be compared."""
        size = math.prod(shape)
        return cls(name, shape, size, "", "", None, None, None, None, problem=problem)


@dataclass(frozen=True)
class Part:
    """A table, or an array, and the places of a tensor that have to equal it: a view (copies…, *shape)."""

    expected: Table | Array
    found: Array
    places: Array
    """The same view of `numbered` elements of the tensor."""
    negated: bool = False
    step: float = 0.0
    """What one means, where integers were found that stand for numbers."""
    masked: bool = False
    """Whether the most negative number of a dtype stands for −∞."""

    def decoded(self, values: AnyArray) -> AnyArray:
        """What values of the tensor stand for."""
        if self.step:
            return np.multiply(values, self.step, dtype=np.float64)
        if self.masked and values.dtype.kind in "fV":
            low = values <= LOWEST.get(dtype_name(values.dtype), -np.inf)
            return np.where(low, np.asarray(-np.inf, values.dtype), values) if low.any() else values
        return values

    @property
    def copies(self) -> tuple[int, ...]:
        return self.found.shape[: self.found.ndim - len(self.expected.shape)]

    @property
    def dtypes(self) -> tuple[np.dtype[Any], np.dtype[Any]]:
        expected = self.expected.dtype
        return numpy_dtype(expected) if isinstance(expected, str) else expected, self.found.dtype

    def numbers(self, index: tuple[int, ...]) -> int:
        """The number of an element in the tensor, by its place in the view."""
        first = self.places.__array_interface__["data"][0] - _NOTHING.__array_interface__["data"][0]
        return int(first + np.dot(index, self.places.strides)) if index else int(first)


_NOTHING = np.empty(1, np.uint8)


def numbered(shape: tuple[int, ...]) -> Array:
    """An array that has no memory and is never read: strides of its views say which elements of a tensor of this shape
    they have.
    """
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return as_strided(_NOTHING, shape, strides)


def compare_arrays(
    expected: Table | Array, found: Array, tolerance: Tolerance = EXACT, *, name: str, any_dtype: bool = False
) -> Comparison:
    """Compare an array with a table or an array element by element; another shape is a finding, not an error."""
    if found.shape != expected.shape:
        rule = f"its shape is {bracketed(found.shape)} where {bracketed(expected.shape)} is expected"
        return Comparison.impossible(name, found.shape, rule)
    parts = [Part(expected, found, numbered(found.shape))]
    return compare(parts, found.shape, tolerance, name=name, any_dtype=any_dtype)


def compare(
    parts: Sequence[Part],
    shape: tuple[int, ...],
    tolerance: Tolerance = EXACT,
    *,
    name: str,
    role: str = "",
    any_dtype: bool = False,
) -> Comparison:
    """Compare the parts of a tensor of this shape with what they should be; another dtype is a finding, unless with
    `any_dtype` it is another floating one, or holds integers of another width.

    Values of unlike dtypes are compared as float64, and units of the last place are those of the dtype found, into
    which the expected value is rounded once. Frequencies and slopes are never rounded to half precision for that.
    """
    names = (name, role or name)
    tolerance = tolerance.for_tensor(*names)
    dtypes = parts[0].dtypes
    both = {dtype_name(dtype) for dtype in dtypes}
    alike = both <= {*SIGNIFICAND_BITS} or {dtype.kind for dtype in dtypes} <= {*"iu"} or bool(parts[0].step)
    any_dtype = (any_dtype or "inv_freq" in map(role_of, names)) and alike
    single = any_dtype and is_relative(*names) and len(both) > 1
    result = Comparison(name, shape, math.prod(shape), dtype_name(dtypes[0]), dtype_name(dtypes[1]))
    if len(both) > 1 and not any_dtype:
        result.problem = f"its dtype is {dtype_name(dtypes[1])} where {dtype_name(dtypes[0])} is expected"
    misses = Misses(*_rows_and_width(parts[0].expected.shape))
    summary = _measured(parts, tolerance, misses, np.dtype(np.float32) if single else None)
    _fill_in(result, summary, parts)
    if summary.mismatched:
        result.where = _where(misses, summary, parts, shape)
    return result


def _rows_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
    return (math.prod(shape[:-1]), shape[-1]) if len(shape) > 1 else (math.prod(shape), 1)


def _measured(
    parts: Sequence[Part], tolerance: Tolerance, misses: Misses, single: np.dtype[Any] | None
) -> ErrorSummary:
    """The errors of all elements, some rows at a time, in threads."""
    rows, width = _rows_and_width(parts[0].expected.shape)
    size = rows * width
    common = np.dtype(np.float64) if parts[0].step else single
    dtypes = parts[0].dtypes if common is None else (common, common)
    step = max(1, READ_BYTES // max(1, width * max(each.itemsize for each in dtypes)))
    spare: list[ErrorSummary] = []  # each is used by one thread at a time

    def measure(work: tuple[int, Part, tuple[int | slice, ...], int, int]) -> None:
        number, part, index, start, count = work
        try:
            summary = spare.pop()
        except IndexError:
            summary = ErrorSummary(misses, tolerance)
        ours = _expected(part, index, start, count, single)
        for copy, at in enumerate(np.ndindex(part.copies)):
            theirs = part.found[(*at, *index)].reshape(count, width)
            theirs = part.decoded(theirs)
            if single is not None:
                theirs = round_to(widened(theirs), single.name)
            summary.measure(ours, np.ascontiguousarray(theirs), (number + copy) * size + start * width)
        spare.append(summary)

    if size:
        work_through(measure, _work(parts, step))
    total = ErrorSummary(misses, tolerance)
    for summary in spare:
        total.merge(summary)
    return total


def _work(parts: Sequence[Part], step: int) -> Iterator[tuple[int, Part, tuple[int | slice, ...], int, int]]:
    """Pieces of the parts: the number of the first copy, the part, and which rows."""
    number = 0
    for part in parts:
        shape = part.expected.shape
        for index, start, count in _slabs(shape[:-1] if len(shape) > 1 else shape, step):
            yield number, part, index, start, count
        number += math.prod(part.copies)


def _slabs(
    axes: tuple[int, ...], step: int, prefix: tuple[int, ...] = (), start: int = 0
) -> Iterator[tuple[tuple[int | slice, ...], int, int]]:
    """Indices that take up to `step` rows each, with the number of the first row and how many they are."""
    if not axes:
        yield prefix, start, 1
        return
    inner = math.prod(axes[1:])
    if inner > step:
        for k in range(axes[0]):
            yield from _slabs(axes[1:], step, (*prefix, k), start + k * inner)
        return
    for low in range(0, axes[0], max(1, step // max(1, inner))):
        high = min(low + max(1, step // max(1, inner)), axes[0])
        yield (*prefix, slice(low, high)), start + low * inner, (high - low) * inner


def _expected(
    part: Part, index: tuple[int | slice, ...], start: int, count: int, single: np.dtype[Any] | None
) -> AnyArray:
    """Rows of what is expected, as a new array unless they lie in one already."""
    if isinstance(part.expected, np.ndarray):
        ours: AnyArray = np.ascontiguousarray(part.expected[index].reshape(count, -1))
        ours = ours if part.step else np.asarray(part.decoded(ours))
    else:
        ours = part.expected.read(start, start + count)
    if part.step:
        ours = np.rint(widened(ours) / part.step) * part.step
    elif single is not None:
        ours = round_to(widened(ours), single.name)
    return np.negative(ours) if part.negated else ours


def _fill_in(result: Comparison, summary: ErrorSummary, parts: Sequence[Part]) -> None:
    def index(place: int | None) -> tuple[int, ...] | None:
        if place is None:
            return None
        return tuple(int(k) for k in np.unravel_index(_number(parts, place), result.shape))

    result.mismatched = summary.mismatched
    firsts = [_number(parts, place) for place in summary.firsts.values()]
    result.first_index = tuple(int(k) for k in np.unravel_index(min(firsts), result.shape)) if firsts else None
    result.max_abs_error, result.worst_index, result.worst_ulp = summary.error, index(summary.worst), summary.worst_ulp
    result.expected, result.found = summary.expected, summary.found
    result.max_rel_error = summary.relative if summary.relative or not summary.error else None
    whole = numpy_dtype(result.dtype).kind in "iub"
    result.max_ulp_error = None if whole else summary.ulp
    result.strange_expected, result.strange_found = summary.strange_expected, summary.strange_found


def _number(parts: Sequence[Part], place: int) -> int:
    """The number of an element in the tensor, by its place: copy by copy, part by part."""
    copy, within = divmod(place, math.prod(parts[0].expected.shape))
    for part in parts:
        count = math.prod(part.copies)
        if copy < count:
            shape = part.expected.shape
            return part.numbers((*_unravelled(copy, part.copies), *_unravelled(within, shape)))
        copy -= count
    raise IndexError(place)


def _unravelled(number: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(k) for k in np.unravel_index(number, shape)) if shape else ()


def _where(misses: Misses, summary: ErrorSummary, parts: Sequence[Part], shape: tuple[int, ...]) -> dict[str, Ranges]:
    """The rows, columns, heads and copies of a batch in which elements are out of tolerance."""
    axes = parts[0].expected.shape
    if len(axes) < 2:
        found = {"columns": _ranges(misses.rows)}
    else:
        rows = misses.rows.reshape(-1, axes[-2])
        found = {"rows": _ranges(np.asarray(rows.any(axis=0))), "columns": _ranges(misses.columns)}
        if len(axes) > 2:
            found["heads"] = _ranges(np.asarray(rows.any(axis=1)))
    size = math.prod(axes)
    firsts = [np.unravel_index(_number(parts, key * size), shape) for key in summary.firsts] if shape else []
    repeated = copy_axes(parts[0], shape)
    for name, axis in zip(("batch", "heads") if "heads" not in found else ("batch",), repeated, strict=False):
        flags = np.zeros(shape[axis], bool)
        flags[[int(index[axis]) for index in firsts]] = True
        found[name] = _ranges(flags)
    return found


def copy_axes(part: Part, shape: tuple[int, ...]) -> list[int]:
    """The axes of a tensor along which a table is repeated."""
    strides = numbered(shape).strides
    whole = [(size, stride) for size, stride in zip(part.copies, part.places.strides, strict=False) if size > 1]
    return [axis for axis, length in enumerate(shape) if (length, strides[axis]) in whole]


def _ranges(flags: Flags) -> Ranges:
    edges = np.flatnonzero(np.diff(np.r_[False, flags, False])).tolist()
    return [(low, high - 1) for low, high in zip(edges[::2], edges[1::2], strict=True)][:MAX_RANGES]


def problems_of(tensors: Sequence[Comparison]) -> tuple[str, ...]:
    """Why tensors cannot be compared, or differ in more than their values."""
    return tuple(f"{tensor.name}: {tensor.problem}" for tensor in tensors if tensor.problem)


def as_json(result: Comparison) -> dict[str, Any]:
    """The comparison as JSON data: numbers that are not finite are null, complex ones are pairs."""
    return {
        "name": result.name,
        "shape": list(result.shape),
        "mismatched": result.mismatched,
        "max_abs_error": _finite(result.max_abs_error),
        "max_rel_error": _finite(result.max_rel_error),
        "max_ulp_error": result.max_ulp_error,
        "worst_index": None if result.worst_index is None else list(result.worst_index),
        "first_index": None if result.first_index is None else list(result.first_index),
        "expected": _finite(result.expected),
        "found": _finite(result.found),
        "where": {name: [list(each) for each in ranges] for name, ranges in result.where.items()},
    }


def where_json(tensors: Sequence[Comparison]) -> dict[str, list[list[int]] | None]:
    """What is out of tolerance in any tensor: ranges of rows, columns, heads and batch; None where that is nothing."""
    found: dict[str, list[list[int]] | None] = {}
    for name in ("rows", "columns", "heads", "batch"):
        numbers = {k for tensor in tensors for low, high in tensor.where.get(name, ()) for k in range(low, high + 1)}
        flags = np.zeros(max(numbers, default=-1) + 1, bool)
        flags[list(numbers)] = True
        found[name] = [list(each) for each in _ranges(flags)] or None
    return found


def _finite(value: Value | None) -> float | list[float | None] | None:
    if isinstance(value, complex):
        return [value.real if math.isfinite(value.real) else None, value.imag if math.isfinite(value.imag) else None]
    return value if value is not None and math.isfinite(value) else None


MAX_MAP_ROWS, MAX_MAP_COLUMNS = 512, 512


@dataclass(frozen=True)
class ErrorMap:
    """The largest |A − B| by position and channel, over all other axes; a vector is one row."""

    name: str
    positions: int
    channels: int
    cells: Floats


def error_map(name: str, part: Part) -> ErrorMap:
    """The map of one part of a tensor."""
    shape = part.expected.shape
    rows, width = _rows_and_width(shape)
    positions = shape[-2] if len(shape) > 1 else rows
    down, across = min(positions, MAX_MAP_ROWS), min(width, MAX_MAP_COLUMNS)
    cells = np.zeros((down, across))
    columns = _starts(width, across)
    step = max(1, READ_BYTES // (8 * width))
    for _, _, index, start, count in _work([part], step):
        ours = _expected(part, index, start, count, None)
        lines = np.arange(start, start + count) % positions * down // positions
        firsts = np.concatenate([[0], np.flatnonzero(np.diff(lines)) + 1])
        for at in np.ndindex(part.copies):
            theirs = part.found[(*at, *index)].reshape(count, width)
            error = np.maximum.reduceat(absolute_errors(ours, theirs)[1], columns, axis=1)
            np.maximum.at(cells, lines[firsts], np.maximum.reduceat(error, firsts, axis=0))
    return ErrorMap(name, positions, width, cells) if len(shape) > 1 else ErrorMap(name, 1, positions, cells.T)


def _starts(length: int, groups: int) -> Indices:
    """Where each group of elements begins."""
    return np.unique(-(-np.arange(groups) * length // groups))
