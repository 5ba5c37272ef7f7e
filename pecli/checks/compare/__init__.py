"""One comparison of two tables: how far apart they are, where, and whether that is within a tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pecli.checks.compare import fork_pool
from pecli.checks.compare.element_errors import Ruler
from pecli.checks.compare.error_summary import Tally, Value, merged
from pecli.checks.compare.ulp import ulps_apart as ulps_apart
from pecli.checks.tensor_roles import role_of
from pecli.checks.tolerance import EXACT, Tolerance, is_relative
from pecli.engine.arrays import Array
from pecli.engine.cast import cast
from pecli.engine.numerics.aligned_buffer import room_for
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS, numpy_dtype
from pecli.engine.numerics.threads import thread_count, work_through
from pecli.engine.table import Table
from pecli.engine.text import bracketed
from pecli.files.raw_tensors import mapped_rows

READ_BYTES = 1 << 22
"""How much of a table is made or read before it is measured; making more at once is faster."""


@dataclass
class Comparison:
    """What comparing one tensor found. Errors of tensors that cannot be compared at all are None."""

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
    problem: str = ""

    @property
    def passed(self) -> bool:
        return self.mismatched == 0 and not self.problem

    @property
    def first_row(self) -> int | None:
        """The row of the first element out of tolerance, all axes but the last run through in order."""
        if self.first_index is None:
            return None
        leading = self.shape[:-1] if len(self.shape) > 1 else self.shape
        return int(np.ravel_multi_index(self.first_index[: len(leading)], leading)) if leading else 0


def compare(expected: Table, found: Table, tolerance: Tolerance = EXACT, *, any_dtype: bool = False) -> Comparison:
    """Compare two tables piece by piece; differences of shape and dtype are findings, not errors. With `any_dtype`,
    another floating dtype is none.

    Values of unlike dtypes are compared as float64, and units of the last place are those of the dtype found, into
    which the expected value is rounded once. Frequencies and slopes are never rounded to half precision for that.
    """
    names = expected.name, found.name
    tolerance, both = tolerance.for_tensor(*names), {expected.dtype, found.dtype}
    any_dtype = (any_dtype or "inv_freq" in map(role_of, names)) and both <= {*SIGNIFICAND_BITS}
    if any_dtype and is_relative(*names) and len(both) > 1:
        expected, found = cast(expected, "float32"), cast(found, "float32")
    result = Comparison(expected.name, found.shape, expected.size, expected.dtype, found.dtype)
    if found.shape != expected.shape:
        result.problem = f"its shape is {bracketed(found.shape)} where {bracketed(expected.shape)} is expected"
        result.mismatched = result.max_abs_error = result.max_rel_error = result.max_ulp_error = None
        return result
    if found.dtype != expected.dtype and not any_dtype:
        result.problem = f"its dtype is {found.dtype} where {expected.dtype} is expected"
    _fill_in(result, _measure(expected, found, tolerance))
    return result


def _fill_in(result: Comparison, tally: Tally) -> None:
    def index(place: int | None) -> tuple[int, ...] | None:
        return None if place is None else tuple(int(k) for k in np.unravel_index(place, result.shape))

    result.mismatched, result.first_index = tally.mismatched, index(tally.first)
    result.max_abs_error, result.worst_index, result.worst_ulp = tally.error, index(tally.worst), tally.worst_ulp
    result.expected, result.found = tally.expected, tally.found
    result.max_rel_error = tally.relative if tally.relative or not tally.error else None
    whole = numpy_dtype(result.dtype).kind in "iub"
    result.max_ulp_error = None if whole else tally.ulp
    result.strange_expected, result.strange_found = tally.strange_expected, tally.strange_found


def _measure(expected: Table, found: Table, tolerance: Tolerance) -> Tally:
    """The errors of all elements, block by block in processes or threads; what must be read in order is read here."""
    step = min(expected.block_rows(), found.block_rows())
    starts = range(0, expected.rows if expected.size else 0, step)
    bench = _Bench(expected, found, tolerance)

    def block(start: int) -> tuple[int, int, Array | None, Array | None]:
        stop = min(start + step, expected.rows)
        ours, theirs = (table.read(start, stop) if table.in_order else None for table in (expected, found))
        return start, stop, ours, theirs

    several = len(starts) > 1 and thread_count() > 1 and not (expected.in_order or found.in_order)
    if several and expected.nbytes >= fork_pool.WORTH_IT and fork_pool.may_fork():
        tallies = fork_pool.shared_out(lambda start: bench.look_at(start, step), starts, bench.tally, thread_count())
        if tallies is not None:
            return merged(tallies)
    work_through(lambda given: bench.measure(*given), map(block, starts))
    return bench.tally()


class _Bench:
    """Reads both tables and measures them; its rulers and buffers are used again, each by one thread at a time."""

    def __init__(self, expected: Table, found: Table, tolerance: Tolerance) -> None:
        self._tables, self._tolerance = (expected, found), tolerance
        self._dtypes = numpy_dtype(expected.dtype), numpy_dtype(found.dtype)
        self._rows = max(1, READ_BYTES // max(1, expected.width * max(dtype.itemsize for dtype in self._dtypes)))
        self._spare: list[tuple[Ruler, list[Array]]] = []

    def measure(self, start: int, stop: int, *given: Array | None) -> None:
        """Measure rows start … stop − 1; a table's block that is given is not read."""
        ruler, buffers = self._spare.pop() if self._spare else self._new(stop - start)
        for row in range(start, stop, self._rows):
            count = min(self._rows, stop - row)
            pieces = []
            for table, block, buffer in zip(self._tables, given, buffers, strict=True):
                if block is None:
                    piece = buffer[:count]
                    table.fill(row, piece)
                else:
                    piece = block[row - start : row - start + count]
                pieces.append(piece.reshape(-1))
            ruler.measure(pieces[0], pieces[1], row * self._tables[0].width)
        self._spare.append((ruler, buffers))

    def look_at(self, start: int, rows: int) -> None:
        """Measure some rows where they lie in their files; in a process that may be ended."""
        stop = min(start + rows, self._tables[0].rows)
        self.measure(start, stop, *(mapped_rows(table, start, stop) for table in self._tables))

    def _new(self, rows: int) -> tuple[Ruler, list[Array]]:
        shape = min(rows, self._rows), self._tables[0].width
        return Ruler(*self._dtypes, self._tolerance), [
            room_for(math.prod(shape), dtype).reshape(shape) for dtype in self._dtypes
        ]

    def tally(self) -> Tally:
        """The errors of all that was measured; the same however the threads shared the work."""
        return merged(ruler.tally() for ruler, _ in self._spare)


def problems_of(tensors: Sequence[Comparison]) -> tuple[str, ...]:
    """What keeps tensors from being compared at all, or is wrong beside their values."""
    return tuple(f"{tensor.name}: {tensor.problem}" for tensor in tensors if tensor.problem)


def as_json(result: Comparison) -> dict[str, Any]:
    """The comparison as JSON data; what is not finite becomes null, a complex number a pair."""
    return {
        "name": result.name,
        "shape": list(result.shape),
        "mismatched": result.mismatched,
        "max_abs_error": _number(result.max_abs_error),
        "max_rel_error": _number(result.max_rel_error),
        "max_ulp_error": result.max_ulp_error,
        "worst_index": None if result.worst_index is None else list(result.worst_index),
        "first_index": None if result.first_index is None else list(result.first_index),
        "expected": _number(result.expected),
        "found": _number(result.found),
    }


def _number(value: Value | None) -> float | list[float | None] | None:
    if isinstance(value, complex):
        return [value.real if math.isfinite(value.real) else None, value.imag if math.isfinite(value.imag) else None]
    return value if value is not None and math.isfinite(value) else None
