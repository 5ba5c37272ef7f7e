"""Rotary encodings: channels of q and k rotated by their positions, rotated back, or shifted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.application import LAYOUTS, RotationFactors, RowFactors, rotate_in_place, shift_of
from pecli.engine.arrays import Array, Complex
from pecli.engine.schemes.positions import LAST_POSITION
from pecli.engine.schemes.rope import Rope
from pecli.engine.table import Table
from pecli.errors import KindError, ParameterError
from pecli.tensors.inputs import SEQ_AXIS, Input, check_sequence, read_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pecli.engine.application import Positions


@dataclass(frozen=True, eq=False)
class RowPositions:
    """Positions from `offset` on, or those in `ids`: once arranged (axes, batch, L), where axes and batch may be 1."""

    offset: int = 0
    ids: NDArray[np.int64] | None = None
    source: str = ""

    def span(self, length: int) -> tuple[int, int]:
        """The first position, and the one after the last, of tensors up to that length."""
        if self.ids is None:
            return self.offset, self.offset + length
        return (int(self.ids.min()), int(self.ids.max()) + 1) if self.ids.size else (0, 0)

    def arranged(self, axes: int) -> RowPositions:
        """The ids with all three axes, from (L,) or (batch, L); for several axes from (axes, L) or (axes, batch, L)."""
        if self.ids is None:
            return self
        ids, known = self.ids, ("(L,)", "(axes, L)", "(axes, batch, L)") if axes > 1 else ("(L,)", "(batch, L)")
        if not 1 <= ids.ndim <= len(known) or (axes > 1 and ids.ndim > 1 and len(ids) not in (1, axes)):
            rule = f"they must be {', '.join(known[:-1])} or {known[-1]}" + (f" with {axes} axes" if axes > 1 else "")
            raise ParameterError("positions", f"of shape {ids.shape}", rule)
        sections = axes > 1 and ids.ndim > 1
        many, batch = len(ids) if sections else 1, ids.shape[-2] if ids.ndim - sections > 1 else 1
        return replace(self, ids=ids.reshape(many, batch, ids.shape[-1]))

    def check(self, each: Input, seq_axis: int = SEQ_AXIS) -> None:
        """Refuse a tensor whose rows are not those of the positions."""
        shape = each.table.shape
        rows = shape[seq_axis]
        if self.ids is None:
            if self.offset + rows - 1 > LAST_POSITION:
                raise ParameterError("offset", self.offset, f"with {each.label} of shape {shape} it goes beyond 2^40")
            return
        _, batch, length = self.ids.shape
        if length != rows:
            raise self._wrong(f"{each.label} is of shape {shape}, with L = {rows} rows")
        if batch != 1 and (seq_axis % len(shape) == 0 or batch != shape[0]):
            raise self._wrong(f"{each.label} is of shape {shape}", "the first axis of both must agree")

    def _wrong(self, rule: str, advice: str = "") -> ParameterError:
        assert self.ids is not None
        return ParameterError("positions", f"of shape {_shown(self.ids)}", rule, advice)

    def rows_of(self, shape: tuple[int, ...], seq_axis: int = SEQ_AXIS) -> Callable[[int, int], Positions]:
        """`positions(first, count)` of the rows of a tensor, all axes but the last run through in order."""
        length, ids, offset = shape[seq_axis], self.ids, self.offset
        repeats = math.prod(shape[seq_axis % len(shape) + 1 : -1])
        a_batch = math.prod(shape[1:-1]) if ids is not None and ids.shape[1] > 1 else math.prod(shape[:-1])

        def positions(first: int, count: int) -> Positions:
            start = first % length
            if ids is None and repeats == 1 and start + count <= length:
                return range(offset + start, offset + start + count)
            rows = np.arange(first, first + count)
            at = rows // repeats % length
            if ids is None:
                return offset + at
            found = ids[:, rows // a_batch, at]
            return found[0] if len(found) == 1 else found.T

        return positions


def read_positions(text: str) -> RowPositions:
    """The positions in a file of integers."""
    return position_ids(read_numbers("positions", text), text)


def position_ids(ids: Array, source: str = "") -> RowPositions:
    """Positions as an array of integers; `arranged` says what its axes are."""
    if ids.dtype.kind not in "iu":
        raise KindError("positions", f"of shape {ids.shape} and dtype {ids.dtype}", "positions are integers")
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) <= LAST_POSITION:
        given = f"{ids.min()} … {ids.max()}, of shape {ids.shape}"
        raise ParameterError("positions", given, "positions must be 0 or more and at most 2^40")
    return RowPositions(0, ids.astype(np.int64), source)


def _shown(ids: NDArray[np.int64]) -> tuple[int, ...]:
    """The shape as it was given, without axes that were added."""
    axes, batch, length = ids.shape
    return (*(count for count in (axes, batch) if count > 1), length)


_TILE = 1 << 15
"""Pairs rotated at once: 512 KiB of complex numbers, to stay in the second-level cache."""

Factors = Callable[[int, int], "Complex"]
"""`factors(first, count)`: what rows first, first + 1, … of a tensor are rotated by."""


@dataclass(frozen=True, eq=False)
class RotationPlan:
    """How tensors are rotated: by which scheme, at which positions along which axis, and which channels of a row.

    `shift` moves what was rotated already by so many positions; `inverse` undoes a rotation.
    """

    rope: Rope
    positions: RowPositions
    layout: str = "halves"
    trailing: bool = False
    inverse: bool = False
    shift: int | None = None
    seq_axis: int = SEQ_AXIS

    def sides(self) -> tuple[str, str]:
        """How pairs lie in the input and in the output."""
        takes, gives = LAYOUTS[self.layout]
        if self.shift is not None:  # the input is an output already
            return gives, gives
        return (gives, takes) if self.inverse else (takes, gives)


def rotate_all(inputs: tuple[Input, ...], plan: RotationPlan) -> list[Table]:
    """Every tensor (…, L, D), rotated: one product in float64, rounded once to the tensor's dtype."""
    for each in inputs:
        _check(each, plan)
    if plan.shift is not None:
        constant = shift_of(plan.rope, plan.shift)
        return [_rotated(each.table, plan, lambda first, count: constant) for each in inputs]
    if not plan.rope.is_range:
        own = plan.rope.row_factors(inverse=plan.inverse)
        return [_rotated(each.table, plan, _factors(each.table, plan, own)) for each in inputs]
    low, high = plan.positions.span(max(each.table.shape[plan.seq_axis] for each in inputs))
    exact = any(each.table.dtype == "float64" for each in inputs)
    factors = RotationFactors(plan.rope, low, high, exact=exact, inverse=plan.inverse)
    return [_rotated(each.table, plan, _factors(each.table, plan, factors)) for each in inputs]


def _check(each: Input, plan: RotationPlan) -> None:
    length, dim = check_sequence(each, plan.seq_axis)
    if dim < plan.rope.rotary_dim:
        raise each.wrong(f"the rotary dimension is {plan.rope.rotary_dim}", f"D, the last axis, is {dim}")
    if not plan.rope.is_range and length != plan.rope.seq_len:
        raise each.wrong(f"{plan.rope.place()} has {plan.rope.seq_len} rows", f"L is {length}")
    if plan.shift is None:
        plan.positions.check(each, plan.seq_axis)


def _factors(table: Table, plan: RotationPlan, factors: RotationFactors | RowFactors) -> Factors:
    positions = plan.positions.rows_of(table.shape, plan.seq_axis)
    return lambda first, count: factors.at(positions(first, count))


def _rotated(table: Table, plan: RotationPlan, factors: Factors) -> Table:
    width, dim = plan.rope.rotary_dim, table.shape[-1]
    channels = slice(dim - width, dim) if plan.trailing else slice(0, width)
    step = max(1, 2 * _TILE // width)
    takes, gives = plan.sides()

    def fill(start: int, out: Array) -> None:
        table.fill(start, out)
        for row in range(0, len(out), step):
            rows = out[row : row + step, channels]
            rotate_in_place(
                rows, np.broadcast_to(factors(start + row, len(rows)), (len(rows), width // 2)), takes, gives
            )

    return replace(table, fill=fill)
