"""Quantiles of any number of values in flat memory, exact.

The bits of a float, its sign turned to fit, are an integer in the order of the values. Each pass over the values counts
how often the next 16 bits come, among those that share the bits before with a quantile: two passes settle a float32,
four a float64.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pecli.engine.arrays import Array, Positions

SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)
_STEP = 16
"""Bits that a pass settles."""
_LAST = (1 << _STEP) - 1


Counts = dict[int, "Positions"]
"""How often the next bits come, by the bits before."""


class Quantiles:
    """The values below which the given shares lie: elements, not means of two.

    Count all values, and merge the counts; and again as long as `settle` says so. `double` keeps what float32 does not
    hold.
    """

    def __init__(self, *, double: bool = False) -> None:
        self._bits = self._left = 64 if double else 32
        self._counts: Counts = {0: np.zeros(1 << _STEP, np.int64)}
        self._wanted = np.empty(0, np.bool_)
        self._found: dict[float, tuple[int, int]] = {}

    def counted(self, pieces: Iterable[Array]) -> Counts:
        """The counts of finite values; any thread may ask for them."""
        counts = {known: np.zeros(1 << _STEP, np.int64) for known in self._counts}
        first = self._left == self._bits
        for values in pieces:
            bits = values.astype(f"f{self._bits // 8}", copy=False).view(f"u{self._bits // 8}")
            top = (bits >> (self._bits - _STEP)).astype(np.intp)
            if first:
                counts[0] += np.bincount(top, minlength=1 << _STEP)
                continue
            keys = _keys(bits[self._wanted[top]], self._bits) >> (self._left - _STEP)
            for known in counts:
                chosen = keys[keys >> _STEP == known] & _LAST
                counts[known] += np.bincount(chosen.astype(np.intp), minlength=1 << _STEP)
        return counts

    def merge(self, counts: Counts) -> None:
        """Take counts into account."""
        for known, found in counts.items():
            self._counts[known] += found

    def settle(self) -> bool:
        """The next bits of every quantile; whether there are more, for which all values are needed again."""
        if self._left == self._bits:
            tops = np.arange(1 << _STEP, dtype=np.uint16)
            self._counts[0] = self._counts[0][np.argsort(_keys(tops, _STEP))]
            count = int(self._counts[0].sum())
            self._found = {share: (0, int(share * (count - 1))) for share in SHARES} if count else {}
        for share, (known, rank) in self._found.items():
            running = np.cumsum(self._counts[known])
            half = int(np.searchsorted(running, rank, side="right"))
            before = int(running[half] - self._counts[known][half])
            self._found[share] = (known << _STEP | half, rank - before)
        if self._left == self._bits:
            self._wanted = np.isin(_keys(tops, _STEP), [known for known, _ in self._found.values()])
        self._left -= _STEP
        self._counts = {known: np.zeros(1 << _STEP, np.int64) for known, _ in self._found.values()}
        return bool(self._found) and self._left > 0

    def values(self) -> dict[str, float] | None:
        """The quantiles by share; None where there are no finite values."""
        return {f"{share:g}": self._value(key) for share, (key, _) in self._found.items()} or None

    def _value(self, key: int) -> float:
        sign = 1 << (self._bits - 1)
        bits = key ^ sign if key & sign else ~key & (2 * sign - 1)
        return float(np.array(bits, f"u{self._bits // 8}").view(f"f{self._bits // 8}"))


def _keys(bits: Any, size: int) -> Any:
    """The bits of floats as integers in their order."""
    sign = 1 << (size - 1)
    return np.where(bits & sign, ~bits, bits | sign)
