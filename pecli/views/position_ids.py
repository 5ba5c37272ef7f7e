"""Position ids, and checks of them, as text."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from pecli.views import screen
from pecli.views.check_results import VERDICTS, status_of
from pecli.views.screen import Styled

if TYPE_CHECKING:
    from pecli.checks.verify_positions import PositionCheck
    from pecli.engine.arrays import Indices

MAX_RUNS = 12
"""Runs of ids that are shown of each axis."""


def show_ids(ids: Indices, output: str | None) -> None:
    """Print the shape of ids, and each axis in runs; only the file's name if they were written."""
    shape = " × ".join(map(str, ids.shape))
    if output is not None:
        screen.print_written(output, f"{shape} ids, ")
        return
    screen.print_styled(Styled(f"{shape} ids", "bold"))
    axes = ids if ids.ndim > 1 else ids[None]
    if _is_per_token(ids):
        axes = ids.T
    for row in axes.reshape(-1, axes.shape[-1]):
        screen.print_line(f"  {in_runs(row)}")


def _is_per_token(ids: Indices) -> bool:
    """Return True for (L, axes), as diffusion models have ids."""
    return ids.ndim == 2 and ids.shape[1] in (2, 3, 4) and ids.shape[0] != 3


def in_runs(row: Indices) -> str:
    """Return ids in runs: «0–11 12 × 88 23–27» counts up, stays at 12 for 88 tokens, counts on.

    >>> import numpy as np
    >>> in_runs(np.array([0, 1, 2, 3, 3, 3, 7, 8]))
    '0–2 3 × 3 7–8'
    """
    texts = []
    for value, same in groupby(row.tolist()):
        count = len(list(same))
        texts.append((value, count))
    runs: list[str] = []
    start = 0
    while start < len(texts):
        end = start
        while end + 1 < len(texts) and _continues(texts[end], texts[end + 1]):
            end += 1
        first, count = texts[start]
        if end > start:
            runs.append(f"{first}–{texts[end][0]}")
        else:
            runs.append(f"{first} × {count}" if count > 1 else str(first))
        start = end + 1
    if len(runs) > MAX_RUNS:
        return f"{' '.join(runs[:MAX_RUNS])} …"
    return " ".join(runs)


def _continues(run: tuple[int, int], following: tuple[int, int]) -> bool:
    """Return True if two single ids follow each other."""
    return run[1] == following[1] == 1 and following[0] == run[0] + 1


def show_check(check: PositionCheck) -> None:
    """Print a verdict, what explains a failure, and the first wrong id."""
    verdict = VERDICTS[status_of(check)]
    shape = " × ".join(map(str, check.shape))
    screen.print_styled(verdict, Styled(f"  {check.subject}  {shape} ids"))
    for reason in check.reasons:
        screen.print_wrapped(f"  {reason}")
    if check.first is not None:
        place = ", ".join(map(str, check.first))
        total = int(np.prod(check.shape))
        screen.print_line(
            f"  {check.mismatched:,} of {total:,} differ, the first at [{place}]:"
            f" expected {check.expected}, found {check.found}"
        )
    for note in check.notes:
        screen.print_wrapped(f"  {note}")
