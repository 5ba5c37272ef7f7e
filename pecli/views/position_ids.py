"""Position ids, and checks of them, as text."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

import numpy as np

from pecli.checks.verify_positions import PositionCheck
from pecli.engine.arrays import Indices
from pecli.errors import span
from pecli.views import screen
from pecli.views.check_results import VERDICTS, status_of
from pecli.views.screen import Styled

MAX_RUNS = 12
"""Runs of ids that are shown of each axis."""


def show_ids(ids: Indices, output: str | None) -> None:
    """Print the shape of ids, and the ids of each axis in runs: «0–11 12 × 88 23–27».

    Args:
        ids: Position ids of tokens, on one axis or several (time, height and width).
        output: The file that they were written to; then only its name and size are printed.
    """
    shape = " × ".join(map(str, ids.shape))
    if output is not None:
        screen.print_written(output, f"{shape} ids, ")
        return
    screen.print_styled(Styled(f"{shape} ids", "bold"))
    for ids_on_axis in _ids_by_axis(ids):
        screen.print_line(f"  {in_runs(ids_on_axis)}")


def _ids_by_axis(ids: Indices) -> Indices:
    """Return ids with a row per axis: (L,) becomes (1, L), (L, 3) and (3, 1, L) become (3, L)."""
    if _is_per_token(ids):
        return ids.T
    return ids.reshape(-1, ids.shape[-1])


def _is_per_token(ids: Indices) -> bool:
    """Return True for (L, axes), as diffusion models have ids; (3, L) is M-RoPE's, for any L."""
    return ids.ndim == 2 and ids.shape[1] in (2, 3, 4) and ids.shape[0] != 3


def in_runs(row: Indices) -> str:
    """Return ids in runs: «0–11 12 × 88 23–27» counts up, stays at 12 for 88 tokens, counts on.

    >>> import numpy as np
    >>> in_runs(np.array([0, 1, 2, 3, 3, 3, 7, 8]))
    '0–2 3 × 3 7–8'
    """
    runs: list[_Run] = []
    for value, equal_ids in groupby(row.tolist()):
        copies = len(list(equal_ids))
        if runs and runs[-1].counts_on_to(value, copies):
            runs[-1] = runs[-1]._replace(last=value)
        else:
            runs.append(_Run(value, value, copies))
    texts = [run.text for run in runs[:MAX_RUNS]]
    if len(runs) > MAX_RUNS:
        texts.append("…")
    return " ".join(texts)


class _Run(NamedTuple):
    """Ids that count up from `first` to `last`, or copies of one id."""

    first: int
    last: int
    copies: int  #: Only single ids count up.

    def counts_on_to(self, value: int, copies: int) -> bool:
        """Return True if the next id is single, and larger by 1 than the last one."""
        return self.copies == copies == 1 and value == self.last + 1

    @property
    def text(self) -> str:
        if self.copies > 1:
            return f"{self.first} × {self.copies}"
        return span(self.first, self.last)


def show_check(check: PositionCheck) -> None:
    """Print a verdict, what explains a failure, and the first wrong id."""
    verdict = VERDICTS[status_of(check)]
    shape = " × ".join(map(str, check.shape))
    screen.print_styled(verdict, Styled(f"  {check.subject}  {shape} ids"))
    for reason in check.reasons:
        screen.print_wrapped(f"  {reason}")
    if check.first is not None:  # the index of the first wrong id
        index = ", ".join(map(str, check.first))
        total = int(np.prod(check.shape))
        screen.print_line(
            f"  {check.mismatched:,} of {total:,} differ, the first at [{index}]:"
            f" expected {check.expected}, found {check.found}"
        )
    for note in check.notes:
        screen.print_wrapped(f"  {note}")
