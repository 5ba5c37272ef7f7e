"""Where tokens stand: positions that are given, those that an attention mask counts, or a cache that is moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pecli.engine.arrays import Array, Indices, as_numpy
from pecli.engine.schemes import Whole
from pecli.engine.schemes.positions import LAST_POSITION
from pecli.errors import KindError, ParameterError, bracketed

SHIFT = Whole(help="positions by which a cache is moved", low=-LAST_POSITION, high=LAST_POSITION)


@dataclass(frozen=True, eq=False)
class TokenPositions:
    """One of `positions` (L,), (batch, L), (axes, L) or (axes, batch, L); `attention_mask` (L,) or (batch, L), whose
    ones are counted; `shift`, the same for all."""

    positions: Any = None
    attention_mask: Any = None
    shift: int | None = None

    def __post_init__(self) -> None:
        given = [name for name, value in vars(self).items() if value is not None]
        if len(given) > 1:
            raise ParameterError(given[1], "given", f"{given[0]} says where tokens stand", "leave out one of them")
        if self.shift is not None:
            SHIFT.check("shift", self.shift)

    def __bool__(self) -> bool:
        return any(value is not None for value in vars(self).values())

    def places(self, shape: tuple[int, ...], axis: int, axes: int) -> tuple[Indices, Array]:
        """Positions (axes, batch, L) of a tensor whose positions lie along an axis, and which are no padding."""
        length = shape[axis]
        if self.shift is not None:
            return np.full((axes, 1, length), self.shift), np.ones((1, length), bool)
        name = "attention_mask" if self.positions is None else "positions"
        given = as_numpy(name, getattr(self, name))
        said = f"of shape {bracketed(given.shape)}"
        if given.dtype.kind not in "iub":
            raise KindError(name, f"{said} and dtype {given.dtype}", "it holds integers")
        several = name == "positions" and axes > 1 and given.ndim > 1 and len(given) == axes
        known = f"(L,) or (batch, L){f', or ({axes}, …) of these' if axes > 1 else ''}"
        if not 1 <= given.ndim - several <= 2 or given.shape[-1] != length:
            raise ParameterError(name, said, f"it must be {known}, with L = {length} as in {bracketed(shape)}")
        rows = given.reshape(axes if several else 1, -1, length)
        batch = rows.shape[1]
        if batch > 1 and (len(shape) < 3 or batch != shape[0] or axis == -len(shape)):
            raise ParameterError(
                name, said, f"the tensor is of shape {bracketed(shape)}", "its first axis is the batch"
            )
        if name == "positions":
            return np.broadcast_to(rows.astype(np.int64), (axes, batch, length)), np.ones((batch, length), bool)
        seen = rows[0].astype(bool)
        if ((rows[0] != 0) & (rows[0] != 1)).any():
            raise ParameterError(name, f"{rows.min()} … {rows.max()}", "it must be 0 for padding and 1 for tokens")
        counted = np.maximum(np.cumsum(seen, axis=-1) - 1, 0)
        return np.broadcast_to(counted, (axes, batch, length)), seen
