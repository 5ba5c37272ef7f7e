"""Rules for the shapes and dtypes of a recorded run, which may come from a damaged file."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pecli.checks.recorded.run_tensors import (
    AFTER,
    BEFORE,
    MASK,
    POSITIONS,
    ROWS,
    USED_IDS,
    RecordedCall,
    RecordedRun,
)
from pecli.engine.arrays import FLOATS, Array, dtype_name
from pecli.engine.schemes.given_positions import LAST_POSITION
from pecli.errors import FileError, bracketed

ADVICE = "record the run again"


def check_shapes(run: RecordedRun, label: str) -> None:
    """Raise FileError if tensors of a run do not belong together.

    Args:
        run: The run.
        label: The file, for the error.
    """
    for module, weight in run.weights.items():
        table = _RunTensor(label=label, name=f"{module}.weight", array=weight)
        table.require_floats(weight.ndim == 2, "(rows, D), floats")
    for number, call in enumerate(run.calls):
        _CallRules(label=label, prefix=f"calls.{number}.", call=call, weights=run.weights).check()


class _RunTensor(NamedTuple):
    """A tensor of a run, and the file and the name by which errors call it."""

    label: str
    name: str
    array: Array

    def require(self, is_right: bool, rule: str) -> None:
        """Raise FileError with the rule that the tensor breaks, unless it is right."""
        if not is_right:
            array = f"{bracketed(self.array.shape)}, {dtype_name(self.array.dtype)}"
            problem = f"{self.name} is {array}; it must be {rule}"
            raise FileError(self.label, problem, ADVICE)

    def require_floats(self, has_right_shape: bool, rule: str) -> None:
        """Raise FileError unless the tensor has such a shape, and holds floats."""
        is_float = dtype_name(self.array.dtype) in FLOATS
        self.require(has_right_shape and is_float and self.array.size > 0, rule)

    def require_positions(self, has_right_shape: bool, rule: str) -> None:
        """Raise FileError unless the tensor has such a shape, and holds positions that are supported."""
        self.require(has_right_shape and self._holds_positions(), f"{rule}, whole numbers ≥ 0")

    def _holds_positions(self) -> bool:
        if self.array.dtype.kind not in "iu":
            return False
        positions = self.array.astype(np.int64)
        is_supported = (positions >= 0) & (positions <= LAST_POSITION)
        return positions.size > 0 and bool(is_supported.all())


class _CallRules(NamedTuple):
    """The rules for the tensors of one call."""

    label: str
    prefix: str  #: of the names that its tensors have in the file: `calls.0.`
    call: RecordedCall
    weights: Mapping[str, Array]  #: the learned tables of the run, by module

    def check(self) -> None:
        """Raise FileError for the first tensor that breaks a rule."""
        if self.call.positions is None:
            raise self._missing(f"{POSITIONS} is missing")
        self._check_positions(self.call.positions)
        for name, array in self.call.tensors.items():
            self._tensor(name, array).require_floats(array.ndim > 0, "an array of floats")
            self._check_role(name, array, batch=self.call.positions.shape[-2])

    def _tensor(self, name: str, array: Array) -> _RunTensor:
        """Return a tensor of the call, with its name in the file for errors."""
        return _RunTensor(label=self.label, name=f"{self.prefix}{name}", array=array)

    def _missing(self, problem: str) -> FileError:
        return FileError(self.label, f"{self.prefix}{problem}", ADVICE)

    def _check_positions(self, positions: Array) -> None:
        """Raise FileError unless positions, mask and used ids have shapes of the same batch of tokens.

        Two sequences of 5 tokens have positions (2, 5), or (3, 2, 5) with M-RoPE's three axes, and a mask
        (2, 5). The ids that the model's code used are (3, 2, 5), (2, 5), (1, 5) or (5,).

        Args:
            positions: The positions that tokens should have.
        """
        has_batch = positions.ndim in (2, 3)
        shape_rule = "(batch, L) or (axes, batch, L)"
        self._tensor(POSITIONS, positions).require_positions(has_batch, shape_rule)
        batch, length = positions.shape[-2:]
        batch_shape = bracketed((batch, length))
        mask = self.call.attention_mask
        if mask is not None:
            has_shape_of_batch = mask.shape == (batch, length)
            self._tensor(MASK, mask).require(has_shape_of_batch, batch_shape)
        used_ids = self.call.position_ids
        if used_ids is not None:
            fit_batch = _is_shape_of_ids(used_ids.shape, batch, length)
            self._tensor(USED_IDS, used_ids).require_positions(fit_batch, batch_shape)

    def _check_role(self, name: str, array: Array, batch: int) -> None:
        """Raise FileError if a tensor does not have the shape that its role requires.

        The role is the end of its name: `q_after` of `layers.0.q_after`, or `cos`.
        """
        module, _, role = name.rpartition(".")
        if name.endswith((BEFORE, AFTER)):
            self._check_vector(name, array)
        elif role == ROWS:
            self._check_rows(name, array, module, batch)
        elif role in ("cos", "sin"):
            self._tensor(name, array).require(array.ndim > 1, "(…, L, D)")

    def _check_vector(self, name: str, array: Array) -> None:
        """Raise FileError unless q_before has a q_after of the same shape, and the reverse; k likewise."""
        vector = name.removesuffix(BEFORE).removesuffix(AFTER)
        for side in (vector + BEFORE, vector + AFTER):
            if side not in self.call.tensors:
                raise self._missing(f"{name} is there, and {side.rpartition('.')[2]} is missing")
            shape = self.call.tensors[side].shape
            is_alike = array.ndim > 1 and array.shape == shape
            self._tensor(name, array).require(is_alike, f"(…, L, D), as {bracketed(shape)}")

    def _check_rows(self, name: str, rows: Array, module: str, batch: int) -> None:
        """Raise FileError unless rows (batch, L, D) are as wide as the learned table that gave them."""
        if module not in self.weights:
            raise self._missing(f"{name} is there, and the table with its weight is missing")
        width = self.weights[module].shape[-1]
        # All sequences may share the rows: (L, D) or (1, L, D).
        is_alike = rows.shape[:-2] in ((), (1,), (batch,)) and rows.shape[-1] == width
        has_rows = rows.ndim > 1
        self._tensor(name, rows).require(is_alike and has_rows, f"({batch}, L, {width})")


def _is_shape_of_ids(ids_shape: tuple[int, ...], batch: int, length: int) -> bool:
    """Return True for the shape of ids (L,), (batch, L) or (axes, batch, L) of a batch.

    One sequence may stand for all: (L,), or (1, L).
    """
    batch_shapes = ((length,), (1, length), (batch, length))
    return len(ids_shape) <= 3 and ids_shape[-2:] in batch_shapes
