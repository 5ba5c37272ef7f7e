"""Rotary encodings: channels of q and k rotated by their positions, rotated back, or shifted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pecli.engine.apply_rotation import LAYOUTS, turn_in_place
from pecli.engine.arrays import Array, Complex
from pecli.engine.rotation_factors import RotationFactors, RowFactors, shift_of
from pecli.engine.schemes.rope import Rope
from pecli.engine.table import Table
from pecli.tensors.inputs import SEQ_AXIS, Input, check_sequence
from pecli.tensors.position_ids import RowPositions

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
            turn_in_place(rows, np.broadcast_to(factors(start + row, len(rows)), (len(rows), width // 2)), takes, gives)

    return replace(table, fill=fill)
