"""The position of the first row: the whole number p with phase = frequency · p, up to turns, in every channel.

A slow channel leaves few candidates, the others sort them out. What the data cannot tell apart is left in the list.
"""

from __future__ import annotations

import numpy as np

from pecli.checks.identify.frequencies import TURN, Channels, wrapped
from pecli.engine.arrays import Floats
from pecli.engine.schemes.positions import LAST_POSITION

SINGLE = 1.2e-7
"""What computing in float32 does to an angle, relative to it."""
NEAR = tuple(1 << k for k in (10, 12, 14, 15, 16, 17, 18, 19, 20))
FAR_OFF = tuple(1 << k for k in range(20, LAST_POSITION.bit_length(), 2))
_MOST = 400_000
"""Candidates that are looked at."""
_SURVIVORS = 16
PATIENCE = 500_000
"""Candidates that are looked at in all, for one table."""
_WIDE = 1.5
"""Radians; a channel that is known no better says nothing."""


class OffsetSearch:
    """The search for a table's first position: it gives up after so many candidates, whatever is left to try."""

    def __init__(self, reaches: tuple[int, ...] = NEAR, patience: int = PATIENCE) -> None:
        self.reaches = reaches
        self.patience = patience

    def offsets(self, channels: Channels, relative: float = SINGLE) -> list[int]:
        """Positions at which the phases are what they are, the nearest to the data first; those in the first reach that
        has any.
        """
        each = (channels.frequency, channels.frequency_error, channels.phase, channels.phase_error)
        known = np.isfinite(each[1]) & np.isfinite(each[3]) & (each[0] != 0)
        f, df, phi, dphi = (values[known] for values in each)
        below = self.reaches[0] if self.reaches is FAR_OFF else 0
        for reach in self.reaches if len(f) else ():
            candidates = _candidates(np.abs(f), df + relative * np.abs(f), np.sign(f) * phi, dphi, below, reach)
            if candidates is None or self.patience <= 0:
                return []
            self.patience -= len(candidates)
            found = _sifted(candidates, f, df + relative / 4 * np.abs(f), phi, dphi)
            if len(found):
                return [int(each) for each in found[:_SURVIVORS]]
            below = reach
        return []


def offsets(channels: Channels, reaches: tuple[int, ...] = NEAR, relative: float = SINGLE) -> list[int]:
    """The positions that one search finds."""
    return OffsetSearch(reaches).offsets(channels, relative)


def _candidates(f: Floats, df: Floats, phi: Floats, dphi: Floats, below: int, reach: int) -> Floats | None:
    """Positions that one channel allows: the channel that allows the fewest; None where there are too many."""
    slack = 5 * dphi + (5 * df + 4e-16 * f) * reach
    around = np.ceil(slack / f)
    turns = (reach - below) * f / TURN + 2
    counts = np.where(slack < _WIDE, turns * (2 * around + 1), np.inf)
    best = int(counts.argmin())
    if counts[best] > min(_MOST, 2 * (reach - below)):
        return np.arange(below, reach, dtype=np.float64) if reach - below <= _MOST and (slack < _WIDE).any() else None
    first = np.floor((below * f[best] - phi[best]) / TURN) - 1
    numbers = np.arange(first, first + turns[best] + 3)
    centres = np.rint((phi[best] + TURN * numbers) / f[best])
    near = np.arange(-around[best], around[best] + 1)
    found = np.unique((centres[:, None] + near).ravel())
    return np.asarray(found[(found >= below) & (found < reach)])


def _sifted(candidates: Floats, f: Floats, df: Floats, phi: Floats, dphi: Floats) -> Floats:
    """Candidates that every channel allows, the best first."""
    cost = np.zeros(len(candidates))
    for each in np.argsort(-f / np.maximum(dphi, 1e-12)):
        slack = dphi[each] + (df[each] + 1e-16 * abs(f[each])) * candidates
        apart = np.abs(wrapped(f[each] * candidates - phi[each]))
        kept = (apart <= 5 * slack + 1e-12) | (5 * slack > _WIDE)
        cost = (cost + np.where(5 * slack > _WIDE, 1, (apart / (slack + 1e-13)) ** 2))[kept]
        candidates = candidates[kept]
        if not len(candidates):
            break
    return np.asarray(candidates[np.lexsort((candidates, np.rint(cost)))])
