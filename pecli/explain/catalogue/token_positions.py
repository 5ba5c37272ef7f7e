"""Other positions of the tokens whose queries and keys are rotated."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Self

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.edits import Edit, Misplacement, Parameter, PositionMistake, Rows
from pecli.explain.catalogue.needs import show_positions
from pecli.explain.catalogue.rotation_mistakes import RotationMistake
from pecli.explain.hypothesis import Case, Stage
from pecli.explain.position_runs import count_runs
from pecli.explain.rotated_computation import RotatedComputation

STATED_COST = 0.8
"""Cost of positions with a known mistake, if somebody stated the right ones: these are what may be
wrong.
"""

KNOWN_COST = 1.05
"""Cost of positions with a known mistake, if nobody stated any: a mistake of the rotation comes
first.
"""

UNKNOWN_POSITIONS_COST = 1.5
"""Cost of positions that follow no known mistake."""

RUN_COST = 0.3
"""Cost of each further run of positions: rows that were overwritten are the shorter answer than
three runs.
"""

AT_ONE_POSITION = (Misplacement.ONE_POSITION, Misplacement.NOT_ROTATED)
"""Mistakes by which all rows have one position; it is 0 if nothing is rotated."""

MAX_RUNS = 4
"""Runs that are paid for: if all rows of a long list are right, there is no shorter answer."""


def are_supposed(rotated: RotatedComputation) -> bool:
    """Return True if nobody states the positions of tokens, so that 0, 1, 2, … are supposed."""
    return not rotated.tokens.are_stated


@dataclass(frozen=True, eq=False)
class OtherTokenPositions(RotationMistake):
    """Tokens at other positions: padding that is counted, packed sequences, stale caches, exchanged
    axes.
    """

    positions: Floats
    """The position of each token along each axis, (axes, rows)."""
    mistake: PositionMistake | None
    """The known mistake that leads to these positions, such as padding that is counted."""
    are_stated: bool
    """True if somebody stated the right positions, so that these are what may be wrong."""
    summary = (
        "other positions of tokens: padding that is counted, packing, stale caches, M-RoPE's axes"
    )
    seen_in = (
        "unsloth #3699 and transformers #22161 (left padding)",
        "LlamaFactory #7318 (packing)",
        "llama.cpp #3825 (moved caches)",
        "Liger-Kernel #276 (M-RoPE)",
    )
    stage = Stage.POSITIONS
    changes_reading = False
    example_needs = (are_supposed,)

    # Arrays have no hash, and the fields that the base class compares are none.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def plant_in_rotation(self, rotated: RotatedComputation) -> RotatedComputation:
        return replace(rotated, positions=self.positions)

    @classmethod
    def proposals_for_rotation(cls, case: Case, rotated: RotatedComputation) -> Iterator[Self]:
        """Yield mixed-up axes of M-RoPE, and the measured positions with the mistake behind them.

        Tokens that are measured at 3 4 5 6 and expected at 0 1 2 3 were shifted by 3, as with
        padding that is counted.
        """
        if rotated.has_several_axes:
            yield from cls._with_one_axis(case, rotated)
            yield from cls._with_exchanged_axes(rotated)
        if show_positions(case):
            yield from cls._at_measured_positions(case, rotated)

    @classmethod
    def _at_measured_positions(cls, case: Case, rotated: RotatedComputation) -> Iterator[Self]:
        """Yield the measured positions, if they follow some rule and are not the expected ones."""
        positions = _at_all_rows(case, rotated, case.positions)
        if not np.array_equal(positions, rotated.positions):
            mistake = rotated.tokens.mistake(positions)
            yield cls(positions, mistake, are_stated=rotated.tokens.are_stated)

    @classmethod
    def _with_one_axis(cls, case: Case, rotated: RotatedComputation) -> Iterator[Self]:
        """Yield the mistake of rotating by the position in time along the axes of height and width too.

        M-RoPE gives each token of an image three positions: (4, 0, 2) is time 4, height 0 and width 2.
        A port that was written for text knows only the first, and rotates as if at (4, 4, 4).
        """
        for times in _possible_times(case, rotated):
            yield cls(
                positions=np.broadcast_to(times, rotated.positions.shape),
                mistake=PositionMistake(Misplacement.ONE_AXIS),
                are_stated=rotated.tokens.are_stated,
            )

    @classmethod
    def _with_exchanged_axes(cls, rotated: RotatedComputation) -> Iterator[Self]:
        """Yield M-RoPE's positions with height, time, width for time, height, width, and so on."""
        _expected_order, *other_orders = permutations(range(len(rotated.positions)))
        for order in other_orders:
            yield cls(
                positions=rotated.positions[list(order)],
                mistake=PositionMistake(Misplacement.OTHER_AXES, axes=order),
                are_stated=rotated.tokens.are_stated,
            )

    @classmethod
    def examples_for_rotation(cls, rotated: RotatedComputation) -> Iterator[Self]:
        """Yield positions that are one too far or too low."""
        for by in (1, -1):
            if rotated.positions.min() + by >= 0:
                mistake = PositionMistake(Misplacement.SHIFTED, by=by)
                yield cls(rotated.positions + by, mistake, are_stated=False)

    @property
    def numbers(self) -> tuple[float, ...]:
        """The first position of each run."""
        return (0.0,) * count_runs(self.positions[0])

    @property
    def cost(self) -> float:
        if self.mistake is not None:
            return STATED_COST if self.are_stated else KNOWN_COST
        runs = min(MAX_RUNS, count_runs(self.positions[0]))
        return UNKNOWN_POSITIONS_COST + RUN_COST * (runs - 1)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        """Return the edit that states at which positions the tokens are.

        It lists them beside the right positions, such as 3–9 for 0–6. If nobody stated the right
        ones, they were only supposed to be 0, 1, 2, …, and a known mistake is stated more briefly.
        """
        rotated = case.specification
        assert isinstance(rotated, RotatedComputation)
        if self.mistake is not None and not rotated.tokens.are_stated:
            return (self._state_positions_briefly(rotated, self.mistake),)
        return (self._list_positions(rotated),)

    def _state_positions_briefly(
        self, rotated: RotatedComputation, mistake: PositionMistake
    ) -> Edit:
        """Return the shortest statement of the positions that a tensor was rotated by.

        It is «offset is 3» for 3, 4, 5, …, and «all rows are at position 7» for 7, 7, 7, …. Positions
        that follow no such rule are listed.

        Args:
            rotated: The rotation, with the positions that were expected: 0, 1, 2, ….
            mistake: The known mistake that leads from these to the used positions.
        """
        used_first_position = int(self.positions[0, 0])
        expected_first_position = int(rotated.positions[0, 0])
        is_shift_from_first_row = mistake.kind is Misplacement.SHIFTED and mistake.row == 0
        has_single_row = rotated.rows == 1
        if is_shift_from_first_row or has_single_row:
            return Parameter("offset", expected_first_position, used_first_position)
        are_all_rows_at_one_position = mistake.kind in AT_ONE_POSITION
        if are_all_rows_at_one_position:
            return Rows("constant", used_first_position)
        return self._list_positions(rotated)

    def _list_positions(self, rotated: RotatedComputation) -> Edit:
        """Return the edit that lists the used positions beside the right ones, and why they differ."""
        return rotated.tokens.edit(self.positions, self.mistake)


def _possible_times(case: Case, rotated: RotatedComputation) -> Iterator[Floats]:
    """Yield the positions of all tokens in time: the expected ones, then those measured in the data.

    Measured positions are yielded only if every token shows one.
    """
    yield rotated.positions[0]  # Time is the first axis.
    measured = case.measured_positions
    if measured is None or measured.shape != rotated.positions.shape:
        return
    measured_times = measured[0]
    if not np.isnan(measured_times).any():
        yield measured_times


def _at_all_rows(case: Case, rotated: RotatedComputation, measured: Floats) -> Floats:
    """Return the positions of all rows, from those of the rows that were measured.

    Long tensors are measured in some rows, for which three rules are tried: all rows are shifted by
    one number, all are at one position, or every row was measured. If none holds, the expected
    positions are returned: then something else has to explain the tensor.

    Args:
        case: The data, of which `located_rows` were measured.
        rotated: The rotation, with the expected positions (axes, rows).
        measured: The positions of these rows, (axes, located rows); NaN for a row that is at none.
    """
    rows = case.observations.located_rows
    expected = rotated.positions[:, rows]
    is_known = ~np.isnan(measured)
    if not is_known.any():
        return rotated.positions
    shifts = (measured - expected)[is_known]
    if _are_equal(shifts):
        return np.asarray(rotated.positions + shifts[0])
    known_positions = measured[is_known]
    if _are_equal(known_positions):
        return np.full_like(rotated.positions, known_positions[0])
    are_all_measured = len(rows) == rotated.rows
    if are_all_measured:
        return np.where(is_known, measured, expected)
    return rotated.positions


def _are_equal(values: Floats) -> bool:
    return bool((values == values[0]).all())
