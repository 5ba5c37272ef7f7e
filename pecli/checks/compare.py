"""One comparison of two tables: how far apart they are, where, and whether that is within a tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.tolerance import EXACT, Tolerance
from pecli.engine.dtypes import KINDS
from pecli.engine.rounding import differ, widened
from pecli.engine.table import Table

if TYPE_CHECKING:
    from pecli.engine.arrays import Array, Flags, Ints


@dataclass
class Comparison:
    """What comparing one tensor found. Errors of tensors that cannot be compared at all are None."""

    name: str
    shape: tuple[int, ...]
    size: int
    mismatched: int | None = 0
    max_abs_error: float | None = 0.0
    max_ulp_error: int | None = 0
    worst_ulp: int = 0  #: of the element at worst_index
    worst_index: tuple[int, ...] | None = None
    expected: float | None = None
    found: float | None = None
    problem: str = ""

    @property
    def passed(self) -> bool:
        return self.mismatched == 0 and not self.problem


def ulps_apart(a: Array, b: Array) -> Ints:
    """How many floats of their dtype lie between two arrays, element by element; the two zeros are one.

    >>> ulps_apart(np.array([1, -0.0], np.float16), np.array([1 + 2**-10, 0.0], np.float16)).tolist()
    [1, 0]
    """
    negative_a, size_a = _sign_and_size(a)
    negative_b, size_b = _sign_and_size(b)
    together = np.where(size_a > size_b, size_a - size_b, size_b - size_a)
    return np.asarray(np.where(negative_a == negative_b, together, size_a + size_b))


def _sign_and_size(a: Array) -> tuple[Flags, Ints]:
    bits = a.view(f"u{a.dtype.itemsize}").astype(np.uint64)
    sign = np.uint64(1 << (8 * a.dtype.itemsize - 1))
    return (bits & sign) != 0, bits & (sign - np.uint64(1))


def compare(expected: Table, found: Table, tolerance: Tolerance = EXACT) -> Comparison:
    """Compare two tables block by block; differences of shape and dtype are findings, not errors."""
    result = Comparison(expected.name, found.shape, expected.size)
    if found.shape != expected.shape:
        return _unlike(result, f"its shape is {_shape(found.shape)} where {_shape(expected.shape)} is expected")
    if found.dtype != expected.dtype:
        return _unlike(
            result, f"its dtype is {found.dtype} where {expected.dtype} is expected; choose another dtype to compare"
        )
    row = 0
    for ours, theirs in _pairs(expected, found):
        _compare_block(result, ours, theirs, row, tolerance)
        row += len(ours)
    return result


def _unlike(result: Comparison, problem: str) -> Comparison:
    result.problem = problem
    result.mismatched = result.max_abs_error = result.max_ulp_error = None
    return result


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))})"


def _pairs(expected: Table, found: Table) -> Iterator[tuple[Array, Array]]:
    rows = expected.block_rows()
    return zip(expected.blocks(rows), found.blocks(rows), strict=True)


def _compare_block(result: Comparison, ours: Array, theirs: Array, row: int, tolerance: Tolerance) -> None:
    if ours.dtype.name not in KINDS:  # integers, complex numbers: equal or not
        result.mismatched = (result.mismatched or 0) + int(np.count_nonzero(ours != theirs))
        return
    alike = ~differ(ours, theirs)
    if alike.all():
        return
    expected, found = widened(ours), widened(theirs)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(expected - found)
        error[alike | (expected == found)] = 0
        error[np.isnan(error)] = np.inf
        near = error <= tolerance.atol + tolerance.rtol * np.abs(expected)
    ulps = ulps_apart(ours, theirs)
    passes = alike | (near & np.isfinite(error)) | ((ulps <= np.uint64(tolerance.max_ulp)) & ~np.isnan(found))
    result.mismatched = (result.mismatched or 0) + int(np.count_nonzero(~passes))
    worst = int(error.argmax())
    peak = float(error.flat[worst])
    if peak > (result.max_abs_error or 0.0):
        result.max_abs_error = peak
        place = worst + row * ours.shape[1]
        result.worst_index = tuple(int(k) for k in np.unravel_index(place, result.shape))
        result.expected, result.found = float(expected.flat[worst]), float(found.flat[worst])
        result.worst_ulp = int(ulps.flat[worst])
    result.max_ulp_error = max(result.max_ulp_error or 0, int(ulps.max()))


def as_json(result: Comparison) -> dict[str, Any]:
    """The comparison as JSON data; what is not finite becomes null."""
    finite = {
        name: value if value is not None and math.isfinite(value) else None
        for name, value in (
            ("max_abs_error", result.max_abs_error),
            ("expected", result.expected),
            ("found", result.found),
        )
    }
    return {
        "name": result.name,
        "shape": list(result.shape),
        "mismatched": result.mismatched,
        "max_abs_error": finite["max_abs_error"],
        "max_ulp_error": result.max_ulp_error,
        "worst_index": None if result.worst_index is None else list(result.worst_index),
        "expected": finite["expected"],
        "found": finite["found"],
    }
