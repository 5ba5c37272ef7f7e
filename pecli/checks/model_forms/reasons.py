"""The mistake of a converter that explains how a tensor differs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
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
from pecli.engine.arrays import Indices

FEW_ROWS = 16  #: rows that are compared before all rows are
FACTOR_SLACK = 1e-3
"""Relative error of a factor that is rounded to a few digits."""


class ValueMistake(NamedTuple):
    """A mistake, and the values that a tensor then has: those of the reference · factor + offset."""

    finding: Finding
    factor: float
    offset: float


@dataclass(frozen=True)
class Trial:
    """A tensor that differs, and both models that it is in."""

    pair: Pair
    reference: ModelFiles
    checked: ModelFiles
    tolerance: Tolerance

    def explains(self, stored: StoredTensor, order: Indices | None) -> bool:
        """Return True if the checked tensor has these rows of another one."""
        return self._explains(stored, order, 1, self.pair.added, self.tolerance)

    def explains_values(self, mistake: ValueMistake, order: Indices) -> bool:
        """Return True if the checked tensor has the values that a mistake leads to."""
        loose = replace(self.tolerance, rtol=self.tolerance.rtol + FACTOR_SLACK)
        return self._explains(self.pair.reference, order, mistake.factor, mistake.offset, loose)

    def _explains(
        self,
        stored: StoredTensor,
        order: Indices | None,
        factor: float,
        offset: float,
        tolerance: Tolerance,
    ) -> bool:
        """Return True if the checked tensor equals the rows of another one · factor + offset.

        Only the first columns are compared. A few rows refute most mistakes; only what passes there
        is compared whole.

        Args:
            stored: The other tensor.
            order: Its rows; None for all of them in order.
            factor: The factor.
            offset: The offset.
            tolerance: The errors that pass.
        """
        count = len(self.pair.checked.rows)
        few_rows = np.arange(0, count, 1 + count // FEW_ROWS)
        for checked_rows in (few_rows, np.arange(count)):
            rows = checked_rows if order is None else order[checked_rows]
            expected = stored.sample(rows) * np.float32(factor) + np.float32(offset)
            values = self.pair.checked.sample(checked_rows)
            if self.pair.judge_rows(expected, values, tolerance).is_bad.any():
                return False
        return True


@np.errstate(all="ignore")
def find_reason(
    pair: Pair, reference: ModelFiles, checked: ModelFiles, tolerance: Tolerance
) -> Finding:
    """Return the mistake of a converter that explains how a tensor differs, or that none does.

    Tried are, in this order: rows in a wrong order, wrong values (zeros, a factor), a transposed
    matrix, and the values of another tensor.
    """
    trial = Trial(pair=pair, reference=reference, checked=checked, tolerance=tolerance)
    for mistake in find_row_mistakes(pair, reference, checked):
        if trial.explains(pair.reference, mistake.order):
            return mistake.finding
    order = np.arange(len(pair.checked.rows)) if pair.order is None else pair.order
    for value_mistake in _find_value_mistakes(pair, order):
        if trial.explains_values(value_mistake, order):
            return value_mistake.finding
    if _is_transposed(trial):
        return ConverterMistake.TRANSPOSED
    return _find_swap(trial) or BeyondRounding(pair.checked.dtype)


def _find_value_mistakes(pair: Pair, order: Indices) -> Iterator[ValueMistake]:
    """Yield mistakes with the values of a tensor: zeros, norms with a wrong offset of 1, a factor.

    The factor is the least-squares one, rounded to 1, 2 and 4 digits: converters multiply by round
    numbers such as 0.5 or 16.
    """
    yield ValueMistake(finding=ConverterMistake.ALL_ZEROS, factor=0.0, offset=0.0)
    is_one_added = bool(pair.added)
    yield ValueMistake(finding=NormOffset(-1, is_one_added), factor=1.0, offset=pair.added - 1.0)
    yield ValueMistake(finding=NormOffset(1, is_one_added), factor=1.0, offset=pair.added + 1.0)
    expected = pair.reference.sample(order) + np.float32(pair.added)
    values = pair.checked.sample(np.arange(len(order)))
    ratio = np.vdot(expected, values) / (np.vdot(expected, expected) or 1)
    for factor in dict.fromkeys(float(f"{ratio:.{digits}g}") for digits in (1, 2, 4)):
        if factor != 1:
            yield ValueMistake(
                finding=Multiplied(factor), factor=factor, offset=factor * pair.added
            )


def _is_transposed(trial: Trial) -> bool:
    """Return True if a square matrix is that of the reference, transposed."""
    stored = trial.pair.reference
    if stored.is_quantised or stored.shards or len(stored.shape) != 2:
        return False
    rows, columns = stored.shape
    return rows == columns and trial.explains(StoredTensor.of(stored.values.T), None)


def _find_swap(trial: Trial) -> Finding | None:
    """Return the tensor that was stored instead; None if there is none.

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
            continue  # The tensor itself, or one that has nothing in common with it.
        stored = tensor.fitted(shape)
        if stored.shape != shape:
            continue
        order = find_expected_order(name, stored, trial.reference, trial.checked)
        if trial.explains(stored, order):
            if has_same_name:
                return SwappedLayer(candidate.layer)
            return SwappedTensor(candidate.short)
    return None
