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
    """A mistake with values, and what it makes of them: reference · factor + offset."""

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
        """Return True if the checked tensor equals some rows of another one, times factor, plus offset.

        Only the first columns are compared, first in about 16 rows: they refute most mistakes, and
        only what passes there is compared in all rows.

        Args:
            stored: The other tensor.
            order: Its rows; None for all of them in order.
            factor: The factor.
            offset: The offset.
            tolerance: The errors that pass.
        """
        row_count = len(self.pair.checked.rows)
        few_rows = np.arange(0, row_count, 1 + row_count // FEW_ROWS)
        all_rows = np.arange(row_count)
        for checked_rows in (few_rows, all_rows):
            stored_rows = checked_rows if order is None else order[checked_rows]
            expected = stored.sample(stored_rows) * np.float32(factor) + np.float32(offset)
            values = self.pair.checked.sample(checked_rows)
            errors = self.pair.judge_rows(expected, values, tolerance)
            if errors.is_bad.any():
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
    """Yield mistakes that converters make with the values of a tensor, whether they fit or not.

    They are zeros, norms whose weights are 1 too small or too large, and a constant factor.

    Args:
        pair: The tensor in both formats. `pair.added` is what the checked format adds to the
            weights of norms: 1 for Gemma in GGUF, and 0 for all other tensors.
        order: The rows of the reference that the checked tensor should have.
    """
    yield ValueMistake(finding=ConverterMistake.ALL_ZEROS, factor=0.0, offset=0.0)
    is_one_added = bool(pair.added)
    too_small = NormOffset(-1, is_one_added)
    too_large = NormOffset(1, is_one_added)
    yield ValueMistake(finding=too_small, factor=1.0, offset=pair.added - 1.0)
    yield ValueMistake(finding=too_large, factor=1.0, offset=pair.added + 1.0)
    yield from _find_wrong_factors(pair, order)


def _find_wrong_factors(pair: Pair, order: Indices) -> Iterator[ValueMistake]:
    """Yield the factor by which a tensor differs most likely, rounded to 1, 2 and 4 digits.

    Converters multiply by round numbers such as 0.5 or 16, and the values are rounded: a measured
    factor of 0.50003 is tried as 0.5 only, and one of 0.70711 as 0.7, 0.71 and 0.7071.
    """
    expected = pair.reference.sample(order) + np.float32(pair.added)
    values = pair.checked.sample(np.arange(len(order)))
    expected_energy = np.vdot(expected, expected) or 1  # Zeros have no factor: then it is 0.
    measured_factor = np.vdot(expected, values) / expected_energy  # by least squares
    rounded_factors = dict.fromkeys(float(f"{measured_factor:.{digits}g}") for digits in (1, 2, 4))
    for factor in rounded_factors:
        if factor != 1:
            # (reference + added) · factor is reference · factor + added · factor.
            offset = factor * pair.added
            yield ValueMistake(finding=Multiplied(factor), factor=factor, offset=offset)


def _is_transposed(trial: Trial) -> bool:
    """Return True if a square matrix is that of the reference, transposed."""
    stored = trial.pair.reference
    if stored.is_quantised or stored.shards or len(stored.shape) != 2:
        return False
    rows, columns = stored.shape
    return rows == columns and trial.explains(StoredTensor.of(stored.values.T), None)


def _find_swap(trial: Trial) -> Finding | None:
    """Return the tensor that was stored instead; None if there is none."""
    for swap in _find_possible_swaps(trial):
        order = find_expected_order(swap.name, swap.stored, trial.reference, trial.checked)
        if trial.explains(swap.stored, order):
            return swap.finding
    return None


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
            continue  # The tensor itself, or one that has nothing in common with it.
        stored = tensor.with_shape(shape)
        if stored.shape != shape:
            continue
        finding: Finding = SwappedTensor(candidate.short)
        if has_same_name:
            finding = SwappedLayer(candidate.layer)
        yield _PossibleSwap(name=name, stored=stored, finding=finding)
