"""Positions in a few words: `0 × 9, then 0 … 14`."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats

SHOWN_RUNS = 6
"""Runs that a sentence lists before it breaks off."""


class Run(NamedTuple):
    """Positions that count up by one, or repeat."""

    first: float
    length: int
    step: int  # 1 for counting, 0 for repeating


def runs(positions: Floats) -> str:
    """Return positions as people write them.

    >>> runs(np.array([0, 0, 0, 0, 1, 2]))
    '0 × 3, then 0 … 2'
    """
    parts = [_written(run) for run in _runs(positions)]
    shown = parts[:SHOWN_RUNS]
    if len(parts) > SHOWN_RUNS:
        shown.append("…")
    return ", then ".join(shown)


def count_runs(positions: Floats) -> int:
    """Return how many runs positions consist of."""
    return sum(1 for _ in _runs(positions))


def _runs(positions: Floats) -> Iterator[Run]:
    """Yield the runs of positions, in their order: 0 × 3 and 0 … 2 of 0 0 0 0 1 2."""
    # No step leads on from the last position: NaN is neither 0 nor 1.
    steps = np.append(np.diff(positions), np.nan)
    start = 0
    while start < len(positions):
        run = _run_with(positions[start], steps[start:])
        yield run
        start += run.length


def _run_with(first: float, steps: Floats) -> Run:
    """Return the run that begins at a position: positions that count up by one, or that stay the same.

    5 6 7 9 begins with the run 5 6 7. And 0 0 0 0 1 2 begins with three zeros, not with four: they are
    padding, and the last zero is the first position of 0 1 2.

    Args:
        first: The position.
        steps: The differences of each later position from the one before, and NaN after the last one.
    """
    step = steps[0]  # 1 for counting, 0 for repeating
    if step not in (0, 1):
        return Run(first, length=1, step=0)
    equal_steps = int((steps != step).argmax())
    length = equal_steps + 1  # The two steps 1 1 lead through three positions, 5 6 7.
    is_padding = first == 0 and step == 0 and steps[equal_steps] == 1
    if is_padding:
        length -= 1
    return Run(first, length, int(step))


def _written(run: Run) -> str:
    """Return a run in words: «0 … 14» if it counts, «0 × 9» if it repeats, «7» if it is one position."""
    if np.isnan(run.first):
        return "unknown"
    first = f"{round(run.first, 6):,.15g}"
    if run.step == 1:
        return f"{first} … {int(run.first) + run.length - 1:,}"
    if run.length > 1:
        return f"{first} × {run.length:,}"
    return first
