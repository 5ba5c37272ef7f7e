"""Checks of one module in one call of a recorded run: its tables, rotated vectors, or learned rows.

A check compares when it is made. Reasons for a failure take long to find, so that they are searched
for only when they are asked for.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pecli.checks.diagnosis import Reasons, diagnose
from pecli.checks.doubts import AsManyHeads, Doubt
from pecli.checks.recorded.call_tokens import CallTokens
from pecli.checks.recorded.run_tensors import ROWS, layer_of
from pecli.checks.verification import Verification
from pecli.checks.verify.added import verify_added
from pecli.checks.verify.against_model import verify_tables
from pecli.checks.verify.rotated import check_pair
from pecli.checks.verify.rotation_job import RotationJob
from pecli.checks.verify.tensor_pairs import TensorPair
from pecli.compare.comparison import Comparison
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array, Floats, Indices
from pecli.engine.named_values import NamedValues
from pecli.models.encoding import ModelEncodings

POSITION_AXIS = -2  #: recorded queries and keys are (batch, heads, L, D)
HEAD_AXIS = -3


@dataclass(frozen=True)
class ModuleCheck(ABC):
    """Tensors of one module in one call, compared.

    Attributes:
        call: The number of the call.
        module: The path of the module, such as `model.layers.3`.
        layer_type: The layer type that it belongs to; None if it is not known, or the only one.
        results: The comparisons.
    """

    call: int
    module: str
    layer_type: str | None
    results: tuple[Comparison, ...]

    @property
    def passed(self) -> bool:
        return all(result.passed for result in self.results)

    @property
    def layer(self) -> int | None:
        """The number of the layer that the module is in; None if it is in none."""
        return layer_of(self.module)

    @property
    def order_key(self) -> tuple[int, float]:
        """The key that sorts checks: the number of the call, then that of the layer; modules in no layer are last.

        It is (0, 3) for `model.layers.3` in the first call, and (0, ∞) for `model.rotary_emb`.
        """
        return self.call, math.inf if self.layer is None else self.layer

    @property
    def label(self) -> str:
        """The module, with its layer type if that is known: `model.rotary_emb (sliding_attention)`."""
        return f"{self.module} ({self.layer_type})" if self.layer_type else self.module

    @property
    def size(self) -> int:
        """The number of elements that were compared."""
        return sum(result.size for result in self.results)

    @abstractmethod
    def explain(self) -> Reasons:
        """Search for the reasons of a failure."""

    @abstractmethod
    def find_weaknesses(self) -> Sequence[Doubt | str]:
        """Return known mistakes that the same data would have passed as well."""


class RecordedTables(NamedTuple):
    """Frequencies, or cosines and sines, and the model that they are compared with.

    Attributes:
        tensors: The tables by name.
        encodings: The model.
        tolerance: The errors that pass.
        options: Options of `verify`: the layer type, and the positions of rows.
    """

    tensors: Mapping[str, Array]
    encodings: ModelEncodings
    tolerance: Tolerance
    options: NamedValues

    def verify(self, *, reasons: bool) -> Verification:
        return verify_tables(self.tensors, self.encodings, self.tolerance, reasons, **self.options)


class RecordedRows(NamedTuple):
    """Rows that a learned table gave, and those that it should have given.

    Attributes:
        rows: The rows that were recorded, (batch, L, D).
        weight: The table.
        row_numbers: The rows of the table that the tokens need, (batch, L).
        tolerance: The errors that pass.
    """

    rows: Array
    weight: Array
    row_numbers: Indices
    tolerance: Tolerance

    def verify(self, *, reasons: bool) -> Verification:
        """Compare the recorded rows with those of the table that the tokens need.

        `verify_added` compares a sum, input + row, with the input before. The rows were recorded
        without an input, so that zeros stand for it: 0 + row is the row.

        Args:
            reasons: True if reasons for failures are searched for, which takes long.
        """
        no_inputs: Floats = np.zeros_like(self.rows)
        return verify_added(
            {ROWS: self.rows},
            self.weight,
            self.tolerance,
            reasons,
            before={ROWS: no_inputs},
            positions=self.row_numbers,
        )


@dataclass(frozen=True)
class TableCheck(ModuleCheck):
    """Tables of a module, or rows of a learned table, compared.

    Attributes:
        tables: What was compared.
        weak: What the comparison does not prove.
        known_reason: A reason that was found without a search; empty if there is none.
    """

    tables: RecordedTables | RecordedRows
    weak: Sequence[str]
    known_reason: str = ""

    def explain(self) -> Reasons:
        if self.known_reason:
            return Reasons((self.known_reason,))
        answer = self.tables.verify(reasons=True)
        return Reasons(answer.reasons, answer.explanations)

    def find_weaknesses(self) -> Sequence[str]:
        return self.weak


class RecordedRotation(NamedTuple):
    """Queries or keys before and after a rotation, and the model that they are compared with.

    Attributes:
        pair: The tensors, (batch, heads, L, D).
        encodings: The model.
        tolerance: The errors that pass.
        layer_type: The layers that they belong to; None if it is not known.
        tokens: The positions of the tokens.
        has_exchanged_axes: True if the axes of heads and positions were exchanged, because the
            rotation is right only so.
    """

    pair: TensorPair
    encodings: ModelEncodings
    tolerance: Tolerance
    layer_type: str | None
    tokens: CallTokens
    has_exchanged_axes: bool = False

    def passes_only_exchanged(self) -> bool:
        """Return True if the rotation is right only with heads and positions exchanged.

        Code that holds queries as (batch, L, heads, D) is recognised by the length L, unless there
        are as many heads: with 8 heads and 8 tokens, both orders are tried.
        """
        if not self._has_as_many_heads or self.compare().passed:
            return False
        return self.with_exchanged_axes().compare().passed

    @property
    def _has_as_many_heads(self) -> bool:
        """True if there are as many heads as positions: then shapes do not tell which is which."""
        shape = self.pair.before.shape
        return len(shape) > 2 and shape[POSITION_AXIS] == shape[HEAD_AXIS]

    def with_exchanged_axes(self) -> "RecordedRotation":
        """Return the rotation of the tensors with the axes of heads and positions exchanged."""
        before = np.swapaxes(self.pair.before, POSITION_AXIS, HEAD_AXIS)
        after = np.swapaxes(self.pair.after, POSITION_AXIS, HEAD_AXIS)
        pair = self.pair._replace(before=before, after=after)
        return self._replace(pair=pair, has_exchanged_axes=True)

    def _make_job(self, *, reasons: bool, positions: NamedValues) -> RotationJob:
        options = {"layer_type": self.layer_type, "seq_axis": POSITION_AXIS, **positions}
        return RotationJob.from_options(self.encodings, self.tolerance, reasons, options)

    def compare(self) -> Comparison:
        """Compare the tensor after with the exact rotation of the one before."""
        positions = self.tokens.options(self.pair.before)
        return check_pair(self.pair, self._make_job(reasons=False, positions=positions)).result

    def explain(self) -> Reasons:
        """Search for the reasons of a failure."""
        positions = self.tokens.options(self.pair.before)
        check = check_pair(self.pair, self._make_job(reasons=True, positions=positions))
        explanations = [reason.without_command() for reason in check.reasons]
        lines = diagnose(explanations, [check.result], self.tolerance)
        return Reasons([line.text for line in lines], explanations)

    def find_weaknesses(self) -> list[Doubt]:
        """Return what a pass does not prove.

        A mistake with which these vectors would have passed as well is one doubt; that there are as many
        heads as tokens, so that either axis may be the one that is rotated, is another.
        """
        # Positions are stated: equal rows at the beginning need not be padding.
        job = self._make_job(reasons=False, positions=self.tokens.options_of_all_tokens())
        weak: list[Doubt] = [*check_pair(self.pair, job).find_weaknesses()]
        if self.has_exchanged_axes:
            count = self.pair.before.shape[POSITION_AXIS]
            weak.append(AsManyHeads(count))
        return weak


@dataclass(frozen=True)
class RotationCheck(ModuleCheck):
    """Queries or keys of a module, compared with the rotation of those before."""

    rotation: RecordedRotation

    def explain(self) -> Reasons:
        return self.rotation.explain()

    def find_weaknesses(self) -> Sequence[Doubt]:
        return self.rotation.find_weaknesses()
