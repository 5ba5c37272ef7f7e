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
    start = 0
    while start < len(positions):
        run = _run_at(positions, start)
        yield run
        start += run.length


def _run_at(positions: Floats, start: int) -> Run:
    """Return the run that begins at a row: positions that count up by one, or that stay the same.

    0 0 0 0 1 2 begins with «0 × 3», not with four zeros: the last zero is the first of 0 … 2, as the
    rows before it are padding.
    """
    first = positions[start]
    is_last = start + 1 == len(positions)
    if is_last or positions[start + 1] - first not in (0, 1):
        return Run(first, length=1, step=0)
    steps = np.diff(positions[start:])
    step = int(steps[0])  # 1 for counting, 0 for repeating
    is_other_step = steps != step
    if not is_other_step.any():
        return Run(first, length=len(steps) + 1, step=step)
    equal_steps = int(is_other_step.argmax())
    next_step = steps[equal_steps]
    repeats_zero_before_counting = first == 0 and step == 0 and next_step == 1
    if repeats_zero_before_counting:
        return Run(first, length=equal_steps, step=step)  # The last zero is the next run's.
    return Run(first, length=equal_steps + 1, step=step)


def _written(run: Run) -> str:
    """Return a run in words: «0 … 14» if it counts, «0 × 9» if it repeats, «7» if it is one position."""
    if np.isnan(run.first):
        return "unknown"
    first = f"{run.first:,.6g}" if run.first % 1 else f"{int(run.first):,}"
    if run.step == 1:
        return f"{first} … {int(run.first) + run.length - 1:,}"
    if run.length > 1:
        return f"{first} × {run.length:,}"
    return first
