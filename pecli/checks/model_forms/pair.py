"""A tensor of a model in two formats, and whether both are equal apart from rounding."""

import math
from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

import numpy as np

from pecli.checks.model_forms.stored import (
    Q8_0,
    StoredTensor,
    find_largest_q8_0_errors,
    sum_of_squares,
)
from pecli.compare.comparison import Comparison
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import AnyArray, Array, Indices

PIECE_ELEMENTS = 1 << 20
"""Elements that are compared at once: larger than a core's cache, but fewer calls weigh more."""
MAX_STEPS = 4
"""Rounding steps that one quantised element may be off, if its row is off by less than one step per
element: quantisers shift whole blocks to lower the error of the block."""
BLOCK = 32  #: quantised elements whose errors are bounded together


class RowErrors(NamedTuple):
    """The rows that are out of tolerance, and the error of each row.

    An error is the largest of the row; for quantised rows that all pass, a lower bound of it.
    """

    is_bad: AnyArray
    errors: AnyArray

    @classmethod
    def none_bad(cls, errors: AnyArray) -> "RowErrors":
        """Return errors that are all within tolerance."""
        return cls(np.zeros(len(errors), bool), errors)

    @classmethod
    def of_equal_rows(cls, errors: AnyArray) -> "RowErrors":
        """Return the errors of rows that have to be equal: any but 0 is bad, and so is NaN."""
        return cls(errors != 0, errors)


class Pair(NamedTuple):
    """A tensor in both formats.

    Attributes:
        name: Its name in GGUF.
        reference: The tensor in the files that define the model.
        checked: The tensor in the other files.
        order: The rows of the reference that the checked tensor should have; None for all in order.
        added_by_converter: The number that a converter from one format to the other adds to all
            values: 1 for norms of Gemma, which llama.cpp stores as 1 + weight, otherwise 0.
    """

    name: str
    reference: StoredTensor
    checked: StoredTensor
    order: Indices | None
    added_by_converter: int

    @property
    def expected_rows(self) -> Indices:
        """The rows of the reference that the checked tensor should have, one by one."""
        return np.arange(len(self.reference.rows)) if self.order is None else self.order

    @property
    def is_empty(self) -> bool:
        """True if the tensor has no elements to compare."""
        return 0 in self.reference.shape

    @property
    def is_quantised(self) -> bool:
        return self.reference.is_quantised or self.checked.is_quantised

    @property
    def differs_by_rounding(self) -> bool:
        """True if a right converter rounds the values, so that both need not be equal."""
        return bool(self.added_by_converter) or self.reference.dtype != self.checked.dtype

    @property
    def elements_for_compiled_loops(self) -> int:
        """The elements that compiled loops compare faster than NumPy: those of two tensors in Q8_0."""
        are_both_q8_0 = self.reference.dtype == self.checked.dtype == Q8_0
        return math.prod(self.checked.shape) if are_both_q8_0 else 0

    @np.errstate(all="ignore")  # Weights may be infinite, or overflow when they are rounded.
    def compare(self, tolerance: Tolerance) -> Comparison:
        """Compare all elements, a piece of some rows at a time; the weights may exceed memory.

        A row passes or fails as a whole: if one of its elements is wrong, all of them count as wrong.
        """
        mismatched = 0
        largest_error = 0.0
        for piece in self._compare_pieces(tolerance):
            bad_rows = int(piece.is_bad.sum())
            mismatched += bad_rows * self._elements_per_row
            largest_error = max(largest_error, _find_largest(piece.errors))
        shape = self.checked.shape
        return Comparison(
            name=self.name,
            shape=shape,
            size=math.prod(shape),
            expected_dtype=self.reference.dtype,
            dtype=self.checked.dtype,
            mismatched=mismatched,
            max_abs_error=largest_error,
        )

    @property
    def _elements_per_row(self) -> int:
        """The elements of a row, which may be stored as fewer bytes."""
        return math.prod(self.checked.shape) // len(self.checked.rows)

    def _compare_pieces(self, tolerance: Tolerance) -> Iterator[RowErrors]:
        """Yield the errors of some rows at a time, except those that have the same bytes in both files."""
        reference_rows = self.reference.rows
        checked_rows = self.checked.rows
        rows_at_once = max(1, PIECE_ELEMENTS // self._elements_per_row)
        buffers = self._make_buffers(min(rows_at_once, len(checked_rows)))
        for start in range(0, len(checked_rows), rows_at_once):
            piece = slice(start, start + rows_at_once)
            expected_rows = piece if self.order is None else self.order[piece]
            expected = reference_rows[expected_rows]
            stored_rows = checked_rows[piece]
            if self.differs_by_rounding or not _have_same_bytes(expected, stored_rows):
                yield self._compare_stored_rows(expected, stored_rows, buffers, tolerance)

    def _make_buffers(self, rows: int) -> "_Buffers":
        """Return memory for the floats of as many rows of both tensors."""
        dtypes = (self.reference.dtype, self.checked.dtype)
        compared_dtype = np.float64 if "float64" in dtypes else np.float32
        shape = (rows, self._elements_per_row)
        return _Buffers(np.empty(shape, compared_dtype), np.empty(shape, compared_dtype))

    def _compare_stored_rows(
        self, expected: Array, stored_rows: Array, buffers: "_Buffers", tolerance: Tolerance
    ) -> RowErrors:
        """Return the errors of some rows, by the numbers that their bytes stand for.

        In Q8_0, for example, a number is a signed byte times the scale of its block.

        Args:
            expected: The bytes of rows of the reference, in the order of the checked tensor.
            stored_rows: The bytes of these rows in the checked tensor.
            buffers: Memory for the numbers.
            tolerance: The errors that pass beside those of rounding.
        """
        must_be_equal = not self.differs_by_rounding and not _allows_errors(tolerance)
        if must_be_equal and self.checked.dtype == Q8_0:
            # Compiled code compares blocks much faster than floats. The result is None without it.
            largest_errors = find_largest_q8_0_errors(expected, stored_rows)
            if largest_errors is not None:
                return RowErrors.of_equal_rows(largest_errors)
        expected_values = self._read_expected_values(expected, out=buffers.expected)
        values = self.checked.floats(stored_rows, out=buffers.found)
        return self.judge_rows(expected_values, values, tolerance, stored_rows)

    def _read_expected_values(self, rows: Array, out: AnyArray) -> AnyArray:
        """Return the numbers that the checked tensor should have for some rows of the reference.

        llama.cpp stores Gemma's norms as 1 + weight: for a weight of 0.25, it should have 1.25.

        Args:
            rows: The bytes of the rows.
            out: Memory for the numbers.
        """
        values = self.reference.floats(rows, out)
        if self.added_by_converter:
            values += np.float32(self.added_by_converter)
        return values

    def judge_rows(
        self,
        expected: AnyArray,
        values: AnyArray,
        tolerance: Tolerance,
        stored_rows: Array | None = None,
    ) -> RowErrors:
        """Return which rows have errors that neither rounding nor the tolerance explains.

        Rows of the same dtype have to be equal. In two dtypes, each element may be off by rounding. Rows
        of a quantised format are judged as a whole: a quantiser rounds the elements of a block together.

        Args:
            expected: What the values should be, (rows, columns); the columns may be a sample. Their
                memory is used again: they are overwritten.
            values: Rows of the checked tensor as floats, (rows, columns).
            tolerance: The errors that pass beside those of rounding.
            stored_rows: The bytes of these rows as they are stored, if all columns are there. Those of
                Q8_0 state the step of each block.
        """
        # A share of the expected values may be tolerated: it is computed before these are overwritten.
        tolerated = _find_tolerated_errors(expected, tolerance)
        error = np.subtract(expected, values, out=expected)
        must_be_equal = tolerated is None and not self.differs_by_rounding
        if must_be_equal:
            return RowErrors.of_equal_rows(_find_largest_errors(error))
        if not self.is_quantised:
            return self._judge_elements(error, values, tolerated)
        # Quantised values are multiples of a step, which is the error that rounding may make.
        steps_by_format = self._find_allowed_errors(values, tolerated, stored_rows)
        return _judge_quantised_rows(error, steps_by_format)

    def _judge_elements(
        self, error: AnyArray, values: AnyArray, tolerated: AnyArray | None
    ) -> RowErrors:
        """Return which rows have an element that is off by more than rounding allows.

        If one file has bfloat16, an element of 1.0 may be off by 2^-7.

        Args:
            error: The differences, (rows, columns).
            values: The rows of the checked tensor as floats, (rows, columns).
            tolerated: What the tolerance allows for each element in addition; None if nothing.
        """
        largest_errors = _find_largest_errors(error)  # (rows,)
        if not largest_errors.any():  # The limits of the elements take long to compute.
            return RowErrors.none_bad(largest_errors)
        # The rounding of either dtype may explain an error, so that the larger limit counts.
        limits = reduce(
            np.maximum, self._find_allowed_errors(values, tolerated)
        )  # (rows, columns or 1)
        is_within = np.abs(error) <= limits  # False for NaN
        # The limit of a value that overflows is infinite, and an infinite error must not pass by it.
        is_good = is_within.all(axis=1) & np.isfinite(largest_errors)
        return RowErrors(~is_good, largest_errors)

    def _find_allowed_errors(
        self, values: AnyArray, tolerated: AnyArray | None, stored_rows: Array | None = None
    ) -> list[AnyArray]:
        """Return the largest allowed errors, one array per format whose rounding causes them.

        An error passes if one of the arrays allows it.

        Args:
            values: Rows of the checked tensor as floats.
            tolerated: What the tolerance allows for each element in addition; None if nothing.
            stored_rows: The bytes of these rows in the checked files, which hold the scales of Q8_0.
                Other formats do not need them.
        """
        limits = self._find_rounding_limits(values, stored_rows)
        if tolerated is None:
            return limits
        columns = values.shape[1]
        return [_repeat_columns(limit, columns) + tolerated for limit in limits]

    def _find_rounding_limits(self, values: AnyArray, stored_rows: Array | None) -> list[AnyArray]:
        """Return the largest errors that the rounding of each format causes.

        Quantising changes values far more than the rounding to a dtype does, so that a quantised form
        decides alone: of a float16 tensor and its Q8_0 form, only the steps of Q8_0 count.
        """
        if not self.differs_by_rounding:
            return [np.zeros((len(values), 1), np.float32)]
        if self.is_quantised:
            return [*self._find_quantisation_steps(values, stored_rows)]
        return [tensor.rounding_of_dtype(values) for tensor in (self.reference, self.checked)]

    def _find_quantisation_steps(
        self, values: AnyArray, stored_rows: Array | None
    ) -> Iterator[AnyArray]:
        """Yield the steps of each format that is quantised."""
        if self.reference.is_quantised:
            yield self.reference.quantisation_steps(values)
        if self.checked.is_quantised:
            yield self.checked.quantisation_steps(values, stored_rows)


class _Buffers(NamedTuple):
    """Memory for the floats of some rows, (rows, elements of a row), which is used again and again.

    Attributes:
        expected: Memory for those of the reference.
        found: Memory for those of the checked tensor.
    """

    expected: AnyArray
    found: AnyArray


def _repeat_columns(limits: AnyArray, columns: int) -> AnyArray:
    """Return limits with one column per element.

    Quantised limits have a column per block of elements that share a scale: for rows of 64 elements
    in blocks of 32, the two columns a b become 32 times a and 32 times b.
    """
    return np.repeat(limits, columns // limits.shape[1], axis=1)


def _allows_errors(tolerance: Tolerance) -> bool:
    """Return True if a tolerance lets errors pass that rounding does not explain."""
    return bool(tolerance.atol or tolerance.rtol)


def _find_tolerated_errors(expected: AnyArray, tolerance: Tolerance) -> AnyArray | None:
    """Return what a tolerance allows for each element; None if nothing."""
    if not _allows_errors(tolerance):
        return None
    relative = np.float32(tolerance.rtol) * np.abs(expected)
    return np.asarray(np.float32(tolerance.atol) + relative)


def _judge_quantised_rows(error: AnyArray, steps_by_format: list[AnyArray]) -> RowErrors:
    """Return which rows of a quantised tensor differ by more than quantising explains.

    A block of 32 elements holds multiples of one step, such as 0.01. A row is good if two rules hold:

    1. The sum of its squared errors is at most what it is if each element is off by one step.
    2. Its largest error is at most MAX_STEPS times the largest step of the row.

    Args:
        error: The differences, (rows, columns).
        steps_by_format: The steps of every format that is quantised: one per block, (rows, blocks),
            or one per element, (rows, columns), if a tolerance is added to them.

    Returns:
        The bad rows, and the largest error of each row. If no row is bad, lower bounds take the place
        of these errors, so that a report never shows a larger error than there is.
    """
    block_sums = _sum_squares_by_block(error)  # (rows, blocks)
    allowed_sums = _sum_squared_steps(steps_by_format, error.shape[1])  # (rows,)
    obeys_rule_1 = block_sums.sum(axis=1) <= allowed_sums
    largest_allowed = MAX_STEPS * _find_largest_step(steps_by_format)  # (rows,)
    # To find the largest errors takes longer than all of the above. But √sum is an upper bound of the
    # errors of a block. In most tensors, all of these bounds obey rule 2 already.
    bounds = _ErrorBounds.of(block_sums)
    is_surely_good = obeys_rule_1 & _are_at_most(largest_allowed, bounds.upper)
    if is_surely_good.all():
        return RowErrors.none_bad(bounds.lower)
    largest_errors = _find_largest_errors(error)  # (rows,)
    is_good = obeys_rule_1 & _are_at_most(largest_allowed, largest_errors)
    return RowErrors(~is_good, largest_errors)


def _sum_squares_by_block(error: AnyArray) -> AnyArray:
    """Return the sum of the squared errors of each block of 32 columns, (rows, blocks)."""
    rows = len(error)
    return sum_of_squares(error.reshape(-1, BLOCK)).reshape(rows, -1)


class _ErrorBounds(NamedTuple):
    """Two numbers per row, (rows,), between which the largest error of the row is."""

    lower: AnyArray
    upper: AnyArray

    @classmethod
    def of(cls, block_sums: AnyArray) -> "_ErrorBounds":
        """Return the bounds that follow from the sums of squared errors of blocks, (rows, blocks).

        If the 32 squared errors of a block sum up to s, the largest error is √s if one element has
        all of the sum, and √(s / 32) if all elements have the same share; otherwise it is between
        them. For s = 0.32, it is between 0.1 and 0.57.
        """
        upper = np.sqrt(block_sums.max(axis=1))
        return cls(lower=upper / np.float32(math.sqrt(BLOCK)), upper=upper)


def _are_at_most(largest_allowed: AnyArray, errors: AnyArray) -> AnyArray:
    """Return, for each row, whether its error is finite, and at most as large as allowed."""
    # Steps of numbers that overflow are infinite, so that an infinite error would be within them.
    return np.asarray(np.isfinite(errors) & (errors <= largest_allowed))


def _find_largest_step(steps_by_format: list[AnyArray]) -> AnyArray:
    """Return the largest step that any block of a row has in any of the formats, (rows,)."""
    largest_steps = [steps.max(axis=1) for steps in steps_by_format]
    return np.asarray(reduce(np.maximum, largest_steps))


def _sum_squared_steps(steps_by_format: list[AnyArray], width: int) -> AnyArray:
    """Return the sum of squared errors of rows whose elements are all off by one step, (rows,).

    A block of 32 elements has one step, whose square counts 32 times. Of several formats, the one
    with the larger sum decides.

    Args:
        steps_by_format: The steps of each format, (rows, blocks) or (rows, columns).
        width: The number of columns.
    """
    sums = []
    for steps in steps_by_format:
        elements_per_step = np.float32(width / steps.shape[1])
        sums.append(sum_of_squares(steps) * elements_per_step)
    return np.asarray(reduce(np.maximum, sums))


def _find_largest_errors(error: AnyArray) -> AnyArray:
    """Return the largest absolute value of each row."""
    return np.asarray(np.maximum(error.max(axis=1), -error.min(axis=1)))


def _find_largest(errors: AnyArray) -> float:
    """Return the largest error; infinity for one that is not a number."""
    largest = float(errors.max(initial=0))
    return math.inf if math.isnan(largest) else largest


def _have_same_bytes(rows: Array, others: Array) -> bool:
    """Return True if two arrays hold the same bytes, compared in the largest words that fit."""
    row_bytes = rows.shape[1] * rows.itemsize
    size = math.gcd(row_bytes, 8)  # 8, 4, 2 or 1
    words = np.ascontiguousarray(rows).view(f"u{size}")
    other_words = np.ascontiguousarray(others).view(f"u{size}")
    # The first rows tell most tensors that differ; comparing all words takes longer than the rest of it.
    have_same_first_row = np.array_equal(words[:1], other_words[:1])
    return have_same_first_row and np.array_equal(words, other_words)
