"""The positions of a tensor's rows: one after the other, or those that a file lists."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.schemes.positions import LAST_POSITION
from pecli.errors import KindError, ParameterError
from pecli.files.load import open_tensors
from pecli.tensors.inputs import SEQ_AXIS, Input, check_alone

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pecli.engine.rotation_factors import Positions


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


def read_numbers(name: str, text: str) -> Array:
    """The one array of a file that is given for a parameter; float64 where the file has no dtype of its own."""
    with open_tensors(text) as loaded:
        check_alone(name, text, loaded.tables)
        loaded.check()
        return loaded.read_as("float64").tables[0].array()


def read_positions(text: str) -> RowPositions:
    """The positions in a file of integers; `arranged` says what their axes are."""
    ids = read_numbers("positions", text)
    if ids.dtype.kind not in "iu":
        raise KindError("positions", f"of shape {ids.shape} and dtype {ids.dtype}", "positions are integers")
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) <= LAST_POSITION:
        given = f"{ids.min()} … {ids.max()}, of shape {ids.shape}"
        raise ParameterError("positions", given, "positions must be 0 or more and at most 2^40")
    return RowPositions(0, ids.astype(np.int64), text)


def _shown(ids: NDArray[np.int64]) -> tuple[int, ...]:
    """The shape as it was given, without axes that were added."""
    axes, batch, length = ids.shape
    return (*(count for count in (axes, batch) if count > 1), length)
