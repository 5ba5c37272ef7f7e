"""Tables of two regimes: right in some rows, and with one mistake in all others."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from pecli.engine.arrays import Flags
from pecli.engine.edits import Edit, RowRange
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.catalogue.kinds import waves_of
from pecli.explain.catalogue.scalings import (
    MissingScaling,
    OtherFactor,
    OtherLength,
    OtherScaling,
    ScalingReadDifferently,
)
from pecli.explain.catalogue.schedule_numbers import OtherAmplitude, OtherBase
from pecli.explain.computation import Computation, RegimeComputation, WaveComputation
from pecli.explain.hypothesis import Case, Mistake, Stage

MIN_ROWS = 16
"""Rows of each regime: fewer are damaged rows."""

KINDS: tuple[type[Mistake], ...] = (
    MissingScaling, ScalingReadDifferently, OtherLength, OtherFactor, OtherBase, OtherScaling, OtherAmplitude,
)  # fmt: skip
"""Mistakes that depend on the length: a table that was extended with other settings than it began
with.
"""


@dataclass(frozen=True)
class OnlyInRows(Mistake):
    """Another mistake, in a range of rows only."""

    mistake: Mistake
    first: int
    last: int
    summary = "two regimes: a table that was extended with other settings than it began with"
    seen_in = ("dynamic NTK caches that grow", "LongRoPE at the original length")
    stage = Stage.DAMAGE  # Both regimes have the form of the whole table.
    rank = 0
    computation_type = WaveComputation

    def plant(self, computation: Computation) -> Computation:
        """Return a computation with the mistake in its rows, and without it in all others."""
        return RegimeComputation(
            inside=self.mistake.plant(computation),
            outside=computation,
            first=self.first,
            last=self.last,
            arithmetic=computation.arithmetic,
            storage=computation.storage,
        )

    @classmethod
    def proposals_for_case(cls, case: Case) -> Iterator[Self]:
        """Yield mistakes of the wrong rows, if these are all rows from one on, or up to one.

        A dynamic cache may have rows 0–4095 without scaling and later ones with it. The wrong rows
        are searched as a table of their own.
        """
        wrong = wrong_range(case)
        if wrong is None:
            return
        only_wrong_rows = _at_rows(slice(wrong.first, wrong.last + 1), case)
        for kind in KINDS:
            for mistake in kind.proposals(only_wrong_rows):
                yield cls(mistake, first=wrong.first, last=wrong.last)

    def scheme_after(self, scheme: Scheme) -> None:
        """Return None: no scheme has two regimes."""

    def edits(self, case: Case) -> tuple[Edit, ...]:
        row_number = case.specification.row_number
        rows = RowRange(row_number(self.first), row_number(self.last))
        return *self.mistake.edits(case), rows

    @property
    def numbers(self) -> tuple[float, ...]:
        return self.mistake.numbers

    @property
    def cost(self) -> float:
        return self.mistake.cost + 0.5


def _at_rows(rows: slice, case: Case) -> Case:
    """Return some rows as a case of their own, as if a file held no other rows."""
    return replace(
        case,
        specification=case.expected_waves.at_rows(rows),
        computation=waves_of(case).at_rows(rows),
        observations=case.observations.at_rows(rows),
        measured={},  # The frequencies of all rows are not those of some.
        computations=(),
    )


class WrongRange(NamedTuple):
    """The first and the last of neighbouring rows that are wrong."""

    first: int
    last: int


def wrong_range(case: Case) -> WrongRange | None:
    """Return the wrong rows of a table if they are its beginning or its end, and all others are right.

    If the rows 4096 to 8191 of 8192 are wrong, it is WrongRange(4096, 8191). None is returned if the
    wrong or the right rows are fewer than MIN_ROWS.
    """
    # Comparing all rows takes long. A few of them, spread over the table, reject most tables.
    is_wrong_in_few = np.asarray(case.wrong_in_few_rows.any(axis=1))
    if _only_change(is_wrong_in_few) is None:
        return None
    is_wrong = np.asarray(case.wrong_elements.any(axis=1))  # (rows,)
    # At position 0, values are right at any frequency. So row 0 counts as row 1 does.
    is_wrong[0] = is_wrong[1]
    first_of_end = _only_change(is_wrong)
    if first_of_end is None:
        return None
    rows = len(is_wrong)
    if not MIN_ROWS <= first_of_end <= rows - MIN_ROWS:
        return None
    is_end_wrong = is_wrong[-1]
    if is_end_wrong:
        return WrongRange(first_of_end, rows - 1)
    return WrongRange(0, first_of_end - 1)


def _only_change(is_wrong: Flags) -> int | None:
    """Return the only row that is wrong after a right one, or right after a wrong one.

    Of the rows right, right, right, wrong and wrong, it is row 3. None is returned if there is no such
    row, or several.
    """
    differs_from_row_before = np.diff(is_wrong)  # of the rows 1, 2, …
    changes: list[int] = (1 + np.flatnonzero(differs_from_row_before)).tolist()
    if len(changes) != 1:
        return None
    return changes[0]
