"""Rotary encodings: channels of q and k, turned by their positions, turned back, or moved on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pecli.engine.apply_rotation import LAYOUTS, turn_in_place
from pecli.engine.arrays import Array, Complex
from pecli.engine.rotation_factors import RotationFactors, shift_of
from pecli.engine.schemes.rope import Rope
from pecli.engine.table import Table
from pecli.tensors.inputs import Input, check_sequence
from pecli.tensors.position_ids import RowPlaces

_TILE = 1 << 15
"""Pairs turned at once: 512 KiB of complex numbers, to stay in the second-level cache."""

Factors = Callable[[int, int], "Complex"]
"""`factors(first, count)`: what rows first, first + 1, … of a tensor are turned by."""


@dataclass(frozen=True, eq=False)
class Way:
    """How tensors are turned: by which scheme, at which positions, and which channels of a row.

    `shift` moves what was turned already by so many positions; `inverse` undoes a rotation.
    """

    rope: Rope
    places: RowPlaces
    layout: str = "halves"
    trailing: bool = False
    inverse: bool = False
    shift: int | None = None

    def sides(self) -> tuple[str, str]:
        """How pairs lie in the input and in the output."""
        takes, gives = LAYOUTS[self.layout]
        if self.shift is not None:  # the input is an output already
            return gives, gives
        return (gives, takes) if self.inverse else (takes, gives)


def turn_all(inputs: tuple[Input, ...], way: Way) -> list[Table]:
    """Every tensor (…, L, D), turned: one product in float64, rounded once to the tensor's dtype."""
    for each in inputs:
        _check(each, way)
    if way.shift is not None:
        constant = shift_of(way.rope, way.shift)
        return [_turned(each.table, way, lambda first, count: constant) for each in inputs]
    low, high = way.places.span(max(each.table.shape[-2] for each in inputs))
    exact = any(each.table.dtype == "float64" for each in inputs)
    turns = RotationFactors(way.rope, low, high, exact=exact, inverse=way.inverse)
    return [_turned(each.table, way, _factors(each.table, way.places, turns)) for each in inputs]


def _check(each: Input, way: Way) -> None:
    _, dim = check_sequence(each)
    if dim < way.rope.rotary_dim:
        raise each.wrong(f"{way.rope.rotary_dim} channels turn", f"D, the last axis, is {dim}")
    if way.shift is None:
        way.places.check(each)


def _factors(table: Table, places: RowPlaces, turns: RotationFactors) -> Factors:
    positions = places.rows_of(table.shape)
    return lambda first, count: turns.at(positions(first, count))


def _turned(table: Table, way: Way, factors: Factors) -> Table:
    width, dim = way.rope.rotary_dim, table.shape[-1]
    channels = slice(dim - width, dim) if way.trailing else slice(0, width)
    step = max(1, 2 * _TILE // width)
    takes, gives = way.sides()

    def fill(start: int, out: Array) -> None:
        table.fill(start, out)
        for row in range(0, len(out), step):
            rows = out[row : row + step, channels]
            turn_in_place(rows, np.broadcast_to(factors(start + row, len(rows)), (len(rows), width // 2)), takes, gives)

    return replace(table, fill=fill)
