"""Quantiles of any number of values in flat memory, exact for float32 and narrower.

A float32 without its sign trick is an integer in the order of its values. One pass counts the upper halves of those
integers, a second one the lower halves of the few that matter. float64 values are seen as float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pecli.engine.arrays import Floats, Ints

SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)
_HALF = 1 << 16


class Quantiles:
    """The values below which the given shares lie: elements, not means of two."""

    def __init__(self) -> None:
        self._upper: Ints = np.zeros(_HALF, np.int64)
        self._lower: dict[int, Ints] = {}

    @property
    def open(self) -> bool:
        """Whether there is anything to look at a second time."""
        return bool(self._upper.any())

    def add(self, values: Floats) -> None:
        """Take finite values into account."""
        self._upper += np.bincount(_keys(values) >> np.uint32(16), minlength=_HALF)

    def refine(self, values: Floats) -> None:
        """The same values again, all of them, finite or not."""
        if not self._lower:
            self._lower = {self._place(share)[0]: np.zeros(_HALF, np.int64) for share in SHARES}
        keys = _keys(values[np.isfinite(values)])
        upper = keys >> np.uint32(16)
        for half, counts in self._lower.items():
            counts += np.bincount(keys[upper == half] & np.uint32(_HALF - 1), minlength=_HALF)

    def _place(self, share: float) -> tuple[int, int]:
        """In which upper half the quantile lies, and how many of its elements come before it."""
        rank = int(share * (int(self._upper.sum()) - 1))
        running = np.cumsum(self._upper)
        half = int(np.searchsorted(running, rank, side="right"))
        return half, rank - int(running[half] - self._upper[half])

    def values(self) -> dict[str, float] | None:
        """The quantiles by share; None where there are no finite values."""
        if not self._lower:
            return None
        found = {}
        for share in SHARES:
            half, rank = self._place(share)
            low = int(np.searchsorted(np.cumsum(self._lower[half]), rank, side="right"))
            found[f"{share:g}"] = _value(half << 16 | low)
        return found


def _keys(values: Floats) -> Ints:
    """float32 bits as integers in the order of the values."""
    with np.errstate(over="ignore"):
        bits = values.astype(np.float32).reshape(-1).view(np.uint32)
    return np.asarray(np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31)))


def _value(key: int) -> float:
    bits = key ^ (1 << 31) if key >> 31 else ~key & 0xFFFFFFFF
    return float(np.array(bits, np.uint32).view(np.float32))
