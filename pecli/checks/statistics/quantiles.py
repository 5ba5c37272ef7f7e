"""Quantiles of any number of values in flat memory, exact.

The bits of a float, its sign turned to fit, are an integer in the order of the values. Each pass over the values counts
how often the next 16 bits come, among those that share the bits before with a quantile: two passes settle a float32,
four a float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pecli.engine.arrays import Floats, Ints

SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)
_STEP = 16
"""Bits that a pass settles."""
_LAST = (1 << _STEP) - 1


class Quantiles:
    """The values below which the given shares lie: elements, not means of two.

    Hand all values to `add`, and once more as long as `settle` says so. `double` keeps what float32 does not hold.
    """

    def __init__(self, *, double: bool = False) -> None:
        self._bits = self._left = 64 if double else 32
        self._counts: dict[int, Ints] = {0: np.zeros(1 << _STEP, np.int64)}
        self._found: dict[float, tuple[int, int]] = {}

    def add(self, values: Floats) -> None:
        """Take finite values into account."""
        keys = self._keys(values) >> (self._left - _STEP)
        first = self._left == self._bits
        for known, counts in self._counts.items():
            chosen = keys if first else keys[keys >> _STEP == known]
            counts += np.bincount((chosen & _LAST).astype(np.int64), minlength=1 << _STEP)

    def settle(self) -> bool:
        """The next bits of every quantile; whether there are more, for which all values are needed again."""
        if self._left == self._bits:
            count = int(self._counts[0].sum())
            self._found = {share: (0, int(share * (count - 1))) for share in SHARES} if count else {}
        for share, (known, rank) in self._found.items():
            running = np.cumsum(self._counts[known])
            half = int(np.searchsorted(running, rank, side="right"))
            before = int(running[half] - self._counts[known][half])
            self._found[share] = (known << _STEP | half, rank - before)
        self._left -= _STEP
        self._counts = {known: np.zeros(1 << _STEP, np.int64) for known, _ in self._found.values()}
        return bool(self._found) and self._left > 0

    def values(self) -> dict[str, float] | None:
        """The quantiles by share; None where there are no finite values."""
        return {f"{share:g}": self._value(key) for share, (key, _) in self._found.items()} or None

    def _keys(self, values: Floats) -> Any:
        """The bits of the values as integers in their order."""
        bits = values.astype(f"f{self._bits // 8}").reshape(-1).view(f"u{self._bits // 8}")
        sign = 1 << (self._bits - 1)
        return np.where(bits & sign, ~bits, bits | sign)

    def _value(self, key: int) -> float:
        sign = 1 << (self._bits - 1)
        bits = key ^ sign if key & sign else ~key & (2 * sign - 1)
        return float(np.array(bits, f"u{self._bits // 8}").view(f"f{self._bits // 8}"))
