"""The mistake of a converter that explains how a tensor differs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from pecli.checks.model_forms.findings import (
    BeyondRounding,
    ConverterMistake,
    Finding,
    Multiplied,
    NormOffset,
    SwappedLayer,
    SwappedTensor,
)
from pecli.checks.model_forms.matching import find_expected_order
from pecli.checks.model_forms.model_files import ModelFiles
from pecli.checks.model_forms.pair import Pair
from pecli.checks.model_forms.row_mistakes import find_row_mistakes
from pecli.checks.model_forms.stored import StoredTensor
from pecli.checks.model_forms.tensor_names import TensorName
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import AnyArray, Indices

FEW_ROWS = 16  #: rows that are compared before all rows are
ROWS_AT_ONCE = 4096  #: rows that are compared at once; 256 columns of them are 4 MiB of float32
MAX_ROWS_OF_FACTOR = 4096
"""Rows from which a factor is measured. Their 256 columns are a million values: rounding to steps of
1 % of the largest value leaves an error of about 1e-5, and four digits are wanted."""
FACTOR_SLACK = 1e-3
"""Relative error of a factor that is rounded to a few digits."""


class ValueMistake(NamedTuple):
    """A mistake with values, and what it makes of them: reference · factor + offset."""

    finding: Finding
    factor: float
    offset: float


class _ExpectedValues(NamedTuple):
    """The values that a mistake may have stored: rows of the reference, times factor, plus offset.

    Attributes:
        stored: The tensor of the reference.
        order: Its rows; None for all of them in order.
        factor: The factor.
        offset: The offset.
    """

    stored: StoredTensor
    order: Indices | None
    factor: float
    offset: float

    def sample(self, row_numbers: Indices) -> AnyArray:
        """Return the first columns of some rows, (row numbers, columns)."""
        stored_rows = row_numbers if self.order is None else self.order[row_numbers]
        values = self.stored.sample(stored_rows)
        return np.asarray(values * np.float32(self.factor) + np.float32(self.offset))


@dataclass(frozen=True)
class Trial:
    """A tensor that differs, and both models that it is in."""

    pair: Pair
    reference: ModelFiles
    checked: ModelFiles
    tolerance: Tolerance

    def has_rows_of(self, stored: StoredTensor, order: Indices | None) -> bool:
        """Return True if the checked tensor has some rows of another one; all in order for None."""
        expected = _ExpectedValues(stored, order, factor=1.0, offset=self.pair.added_by_converter)
        return self._has_values(expected, self.tolerance)

    def has_values_of(self, mistake: ValueMistake, order: Indices) -> bool:
        """Return True if the checked tensor has the values that a mistake makes of rows of the reference."""
        expected = _ExpectedValues(self.pair.reference, order, mistake.factor, mistake.offset)
        loose = replace(self.tolerance, rtol=self.tolerance.rtol + FACTOR_SLACK)
        return self._has_values(expected, loose)

    def _has_values(self, expected: _ExpectedValues, tolerance: Tolerance) -> bool:
        """Return True if the checked tensor has the values that a mistake makes.

        About 16 rows are compared first: they refute most mistakes, so that reading all rows is
        rarely needed.
        """
        row_count = len(self.pair.checked.rows)
        few_rows = np.arange(0, row_count, 1 + row_count // FEW_ROWS)
        pieces = np.array_split(np.arange(row_count), math.ceil(row_count / ROWS_AT_ONCE))
        return all(self._has_rows(expected, rows, tolerance) for rows in (few_rows, *pieces))

    def _has_rows(
        self, expected: _ExpectedValues, row_numbers: Indices, tolerance: Tolerance
    ) -> bool:
        """Return True if the first columns of some rows have the values that a mistake makes."""
        values = self.pair.checked.sample(row_numbers)
        errors = self.pair.judge_rows(expected.sample(row_numbers), values, tolerance)
        return not errors.is_bad.any()


@np.errstate(all="ignore")  # Weights may be infinite, or overflow when they are multiplied.
def find_reason(
    pair: Pair, reference: ModelFiles, checked: ModelFiles, tolerance: Tolerance
) -> Finding:
    """Return the mistake of a converter that explains how a tensor differs, or that none does.

    Each known mistake is made with the tensor of the reference. The first one that gives the checked
    tensor is returned, `BeyondRounding` if none does.

    Args:
        pair: The tensor in both models, which are one model in two formats.
        reference: The model that defines what is right.
        checked: The model that may have the mistake.
        tolerance: The errors that pass.
    """
    trial = Trial(pair=pair, reference=reference, checked=checked, tolerance=tolerance)
    reasons = chain(
        _find_wrong_rows(trial),
        _find_wrong_values(trial),
        _find_transposition(trial),
        _find_swaps(trial),
    )
    return next(reasons, BeyondRounding(pair.checked.dtype))


def _find_wrong_rows(trial: Trial) -> Iterator[Finding]:
    """Yield the mistakes in the order of rows, such as exchanged halves, that make the checked tensor."""
    for mistake in find_row_mistakes(trial.pair, trial.reference, trial.checked):
        if trial.has_rows_of(trial.pair.reference, mistake.order):
            yield mistake.finding


def _find_wrong_values(trial: Trial) -> Iterator[Finding]:
    """Yield the mistakes with values, such as zeros or a factor, that make the checked tensor."""
    order = trial.pair.expected_rows
    for mistake in _find_value_mistakes(trial.pair, order):
        if trial.has_values_of(mistake, order):
            yield mistake.finding


def _find_value_mistakes(pair: Pair, order: Indices) -> Iterator[ValueMistake]:
    """Yield mistakes that converters make with the values of a tensor, whether they fit or not.

    They are zeros, norms whose weights are 1 too small or too large, and a constant factor.

    Args:
        pair: The tensor in both formats.
        order: The rows of the reference that the checked tensor should have.
    """
    yield ValueMistake(finding=ConverterMistake.ALL_ZEROS, factor=0.0, offset=0.0)
    added = pair.added_by_converter
    is_one_added = bool(added)
    too_small = NormOffset(-1, is_one_added)
    too_large = NormOffset(1, is_one_added)
    yield ValueMistake(finding=too_small, factor=1.0, offset=added - 1.0)
    yield ValueMistake(finding=too_large, factor=1.0, offset=added + 1.0)
    yield from _find_wrong_factors(pair, order)


def _find_wrong_factors(pair: Pair, order: Indices) -> Iterator[ValueMistake]:
    """Yield the factor by which a tensor differs most likely, rounded to 1, 2 and 4 digits.

    Converters multiply by round numbers such as 0.5 or 16, and the values are rounded: a measured
    factor of 0.50003 is tried as 0.5 only, and one of 0.70711 as 0.7, 0.71 and 0.7071.

    Args:
        pair: The tensor in both formats.
        order: For each row of the checked tensor, the row of the reference that it should have.
    """
    added = pair.added_by_converter
    stride = math.ceil(len(order) / MAX_ROWS_OF_FACTOR)
    checked_rows = np.arange(0, len(order), stride)
    expected = pair.reference.sample(order[checked_rows]) + np.float32(added)
    values = pair.checked.sample(checked_rows)
    # By least squares. Zeros have no factor: it is NaN, with which no tensor is made.
    measured_factor = np.vdot(expected, values) / np.vdot(expected, expected)
    rounded_factors = dict.fromkeys(float(f"{measured_factor:.{digits}g}") for digits in (1, 2, 4))
    for factor in rounded_factors:
        if factor != 1:
            # (reference + added) · factor is reference · factor + added · factor.
            offset = factor * added
            yield ValueMistake(finding=Multiplied(factor), factor=factor, offset=offset)


def _find_transposition(trial: Trial) -> Iterator[Finding]:
    """Yield the mistake of a transposed matrix if the checked tensor is a square one of the reference, transposed."""
    stored = trial.pair.reference
    is_square = stored.shape[:1] == stored.shape[1:]
    if is_square and not stored.is_quantised:
        transposed = StoredTensor.of(stored.values.T)
        if trial.has_rows_of(transposed, None):
            yield ConverterMistake.TRANSPOSED


def _find_swaps(trial: Trial) -> Iterator[Finding]:
    """Yield the mistake to store another tensor, for each of the reference that the checked one equals."""
    for swap in _find_possible_swaps(trial):
        order = find_expected_order(swap.name, swap.stored, trial.reference, trial.checked)
        if trial.has_rows_of(swap.stored, order):
            yield swap.finding


class _PossibleSwap(NamedTuple):
    """A tensor of the reference that may have been stored under the name of another."""

    name: str
    stored: StoredTensor
    finding: Finding


def _find_possible_swaps(trial: Trial) -> Iterator[_PossibleSwap]:
    """Yield tensors of the same shape that may have been stored instead of the one that differs.

    Two kinds of mistakes happen: `blk.3.attn_k` has the values of `blk.3.attn_v`, or those of
    `blk.4.attn_k`. Tensors that share neither the layer nor the name are not tried.
    """
    wrong = TensorName.parse(trial.pair.name)
    shape = trial.pair.reference.shape
    for name, tensor in trial.reference.tensors.items():
        candidate = TensorName.parse(name)
        is_same_layer = candidate.layer == wrong.layer
        has_same_name = candidate.short == wrong.short
        if is_same_layer == has_same_name:
            continue  # It is the tensor itself, or nobody confuses it with the tensor.
        stored = tensor.with_shape(shape)
        finding: Finding = SwappedLayer(candidate.layer)
        if is_same_layer:
            finding = SwappedTensor(candidate.short)
        if stored.shape == shape:
            yield _PossibleSwap(name=name, stored=stored, finding=finding)
