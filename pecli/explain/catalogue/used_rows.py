"""Other positions than the expected ones. Proposals read the position at which each row was made."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.edits import Edit, Misplacement, Parameter, PositionMistake, Rows
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError
from pecli.explain.catalogue.kinds import WaveMistake
from pecli.explain.computation import Computation, WaveComputation
from pecli.explain.hypothesis import MAX_LOST, Case, Stage
from pecli.explain.misplacements import NARROW_DTYPES, find_position_mistake, positions_edit
from pecli.explain.position_runs import count_runs

RUN_COST = 0.3
"""Cost of each further run of listed positions: rows that were overwritten are the shorter answer
than three runs.
"""

MAX_LISTED = 64
"""Positions in a list that may fit a command of 200 letters."""

FEW_ROWS = 8
"""Rows of a table that is too short for an example of rows that are moved."""


@dataclass(frozen=True, eq=False)
class RowMistake(WaveMistake):
    """Rows at other positions, which follow from the expected ones by a rule."""

    stage = Stage.POSITIONS

    @abstractmethod
    def used(self, expected: Floats) -> Floats:
        """Return the positions used instead of the expected ones, along one axis."""

    @classmethod
    def proposals(cls, case: Case) -> Iterator[Self]:
        """Yield the instances worth testing for tables; tokens have mistakes of their own."""
        if case.waves is not None and not case.waves.places_tokens:
            yield from cls.proposals_for_waves(case, case.waves)

    @classmethod
    def examples(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        if isinstance(computation, WaveComputation) and not computation.places_tokens:
            yield from cls.examples_for_waves(computation)

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        used = np.stack([self.used(axis) for axis in waves.positions])
        return replace(waves, positions=used)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        expected = case.expected_waves.positions[0]
        return (positions_edit(expected, self.used(expected), self.known_mistake),)

    @property
    def known_mistake(self) -> PositionMistake | None:
        """The mistake as data, if it is one that tokens of a sequence may have as well."""
        return None


class MeasuredRows(NamedTuple):
    """Expected and measured positions of the located rows, along the first axis."""

    expected: Floats
    used: Floats  # NaN for a row that is at no position


def misplaced_rows(case: Case, waves: WaveComputation) -> MeasuredRows | None:
    """Return the positions of rows; None if most are at no position, or all at the expected one."""
    if case.measured_positions is None:
        return None
    used, *_ = case.measured_positions
    expected = waves.positions[0, case.observations.located_rows]
    is_lost = np.isnan(used - expected)
    if is_lost.all() or is_lost.mean() > MAX_LOST or np.array_equal(used, expected):
        return None
    return MeasuredRows(expected, used)


@dataclass(frozen=True, eq=False)
class SolvedRowMistake(RowMistake):
    """A mistake of rows whose numbers follow from the measured positions."""

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        rows = misplaced_rows(case, waves)
        if rows is not None:
            yield from cls.proposals_for_positions(used=rows.used, expected=rows.expected)

    @classmethod
    @abstractmethod
    def proposals_for_positions(cls, used: Floats, expected: Floats) -> Iterator[Self]:
        """Yield the instances that may have led to measured positions; NaN stands for a row that is
        at none.
        """


@dataclass(frozen=True)
class OtherStart(SolvedRowMistake):
    """Positions that start at another number: 1 for 0, or the number of cached tokens."""

    by: int
    rank = 0
    summary = "positions start at another number: 1 for 0, or the number of cached tokens"
    seen_in = ("RoBERTa's offset of 2", "decoding with a KV cache in many ports")
    fitted = ("by",)

    def used(self, expected: Floats) -> Floats:
        return expected + self.by

    @classmethod
    def proposals_for_positions(cls, used: Floats, expected: Floats) -> Iterator[Self]:
        by = np.nanmedian(used - expected)
        if by == round(by) and by:
            yield cls(int(by))

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        if len(waves.positions) == 1:  # Grids have `OtherPlacement`.
            yield cls(1)
            yield cls(-1)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        if not case.scheme.is_range:
            return (Parameter("all positions", 0, self.by),)
        first = int(case.expected_waves.positions[0, 0])
        return (Parameter("offset", first, first + self.by),)

    def scheme_after(self, scheme: Scheme) -> Scheme | None:
        """Return the scheme, whose offset follows from its rows; None if no offset moves listed
        rows.
        """
        return scheme if scheme.is_range else None

    @property
    def cost(self) -> float:
        return self.weight


@dataclass(frozen=True)
class ReversedRows(RowMistake):
    """Rows in reverse order."""

    summary = "rows in reverse order"
    changes_reading = True

    def used(self, expected: Floats) -> Floats:
        return np.asarray(expected[::-1])

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        yield cls()

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Rows("reversed"),)


@dataclass(frozen=True)
class RolledRows(SolvedRowMistake):
    """Rows moved cyclically: the first ones come last."""

    by: int
    summary = "rows are rolled: the first ones come last"
    fitted = ("by",)

    def used(self, expected: Floats) -> Floats:
        return np.asarray(np.roll(expected, self.by))

    @classmethod
    def proposals_for_positions(cls, used: Floats, expected: Floats) -> Iterator[Self]:
        """Yield the row at which the table begins: 2 of the positions 8 9 0 1 … 7."""
        starts = np.flatnonzero(used == expected[0])
        if len(starts) == 1 and starts[0]:
            yield cls(int(starts[0]))

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        if waves.rows > FEW_ROWS and len(waves.positions) == 1:
            yield cls(3)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Rows("shifted", self.by),)


@dataclass(frozen=True)
class Wrapped(SolvedRowMistake):
    """Positions modulo the length of a cache."""

    period: int
    summary = "positions wrap at the length of a cache"
    seen_in = ("rolling KV caches of sliding-window models",)
    fitted = ("period",)

    def used(self, expected: Floats) -> Floats:
        return np.asarray(expected[0] + (expected - expected[0]) % self.period)

    @classmethod
    def proposals_for_positions(cls, used: Floats, expected: Floats) -> Iterator[Self]:
        """Yield the smallest difference of a row that falls back: 4 of 0 1 2 3 0 1 2 3 0, which
        fall by 4 and 8.
        """
        whole_periods = (expected - used)[used < expected]
        if len(whole_periods):
            yield cls(int(whole_periods.min()))

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        if waves.rows > FEW_ROWS:
            yield cls(3 * waves.rows // 4)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Rows("wrapped", self.period),)


@dataclass(frozen=True)
class OnePosition(RowMistake):
    """All rows at one position, as if every token were decoded alone."""

    position: int
    summary = "all rows at one position, as if every token were decoded alone"
    seen_in = ("position_ids of shape (1, 1) broadcast over the sequence",)
    shows_in_few_values = True

    def used(self, expected: Floats) -> Floats:
        return np.full_like(expected, self.position)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the median measured position, or 0 if none is measured and all rows are equal."""
        if case.observations.rows == 1:
            return
        rows = misplaced_rows(case, waves)
        if rows is not None:
            yield cls(int(np.nanmedian(rows.used)))
        elif (case.observations.sample == case.observations.sample[0]).all():
            yield cls(0)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        if waves.rows > 1:
            yield cls(0)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Rows("constant", self.position),)


@dataclass(frozen=True)
class Clamped(SolvedRowMistake):
    """Positions beyond the end of a table use its last row."""

    last: int
    summary = "positions beyond the table use its last row"
    fitted = ("last",)

    def used(self, expected: Floats) -> Floats:
        return np.minimum(expected, self.last)

    @classmethod
    def proposals_for_positions(cls, used: Floats, expected: Floats) -> Iterator[Self]:
        yield cls(int(np.nanmax(used)))

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        if waves.rows > FEW_ROWS:
            yield cls(int(waves.positions[0, 3 * waves.rows // 4]))

    @property
    def known_mistake(self) -> PositionMistake:
        return PositionMistake(Misplacement.CLAMPED, by=self.last)


@dataclass(frozen=True)
class Overflowed(RowMistake):
    """Positions that overflow a narrow integer dtype."""

    dtype: str
    summary = "positions overflow int8, uint8, int16 or uint16"
    changes_reading = True

    def used(self, expected: Floats) -> Floats:
        return expected.astype(np.int64).astype(self.dtype).astype(np.float64)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        expected = waves.positions[0]
        for dtype in NARROW_DTYPES:
            if not np.array_equal(cls(dtype).used(expected), expected):
                yield cls(dtype)

    @property
    def known_mistake(self) -> PositionMistake:
        return PositionMistake(Misplacement.OVERFLOW, dtype=self.dtype)


@dataclass(frozen=True)
class LeftPadded(SolvedRowMistake):
    """Positions that count from the first token after padding on the left."""

    padding: int
    """The number of rows before the first token."""
    filler: int
    """The position that all these rows have."""
    summary = "positions count from the first token after left padding"
    seen_in = ("generate() with left-padded batches",)
    fitted = ("padding",)

    def used(self, expected: Floats) -> Floats:
        rows = np.arange(len(expected))
        return np.where(rows < self.padding, self.filler, expected - self.padding)

    @classmethod
    def proposals_for_positions(cls, used: Floats, expected: Floats) -> Iterator[Self]:
        """Yield the distance of the last row: 2 of the positions 1 1 0 1 2 … 7, which should end at
        9.
        """
        padding = expected[-1] - used[-1]
        if 0 < padding <= expected[-1] - expected[0] and np.isfinite(used[0]):
            yield cls(padding=int(padding), filler=int(used[0]))

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        if waves.rows > FEW_ROWS and len(waves.positions) == 1:
            yield cls(padding=5, filler=1)


@dataclass(frozen=True, eq=False)
class UsedPositions(RowMistake):
    """Positions that follow no rule of the catalogue; they are listed in runs."""

    positions: Floats  # (axes, rows)
    known_mistake: PositionMistake | None = None
    summary = "other positions: restarts of packed sequences, repeated or skipped ones"
    seen_in = ("packed sequences without reset positions", "sliding caches")

    def used(self, expected: Floats) -> Floats:
        return np.asarray(self.positions[0])

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        return replace(waves, positions=self.positions)

    @property
    def cost(self) -> float:
        """Each run of positions is stated, and has to explain something."""
        return 1.5 + RUN_COST * (count_runs(self.positions[0]) - 1)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the measured positions if every row has one, and they are not the expected ones."""
        used = case.measured_positions
        if used is None or len(case.observations.located_rows) < case.observations.rows:
            return
        if waves.empty_rows is not None:
            used = np.where(waves.empty_rows, waves.positions, used)  # Zeros are at no position.
        if np.isnan(used).any() or np.array_equal(used, waves.positions):
            return
        yield cls.at(used, waves)

    @classmethod
    def at(cls, used: Floats, waves: WaveComputation) -> Self:
        """Return positions (axes, rows) with the known mistake that leads to them, if there is one."""
        mistake = find_position_mistake(waves.positions[0], used[0], rotated=False)
        return cls(used, mistake)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        """Yield positions that restart, as those of two packed sequences of unequal length."""
        if waves.rows > FEW_ROWS and len(waves.positions) == 1:
            first = 3 * waves.rows // 8
            lengths = (first, waves.rows - first)
            packed = np.concatenate([np.arange(length, dtype=float) for length in lengths])[None]
            yield cls.at(packed, waves)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        scheme = case.scheme
        assert isinstance(scheme, Positioned)
        if not scheme.is_range:
            expected = "those given" if scheme.grid is None else "those of the grid"
            used = "0, 1, 2, …" if self.counts_from_0 else "others"
            return (Parameter("positions", expected, used),)
        expected_axes = case.expected_waves.positions
        return (positions_edit(expected_axes, self.positions, self.known_mistake),)

    @property
    def counts_from_0(self) -> bool:
        return bool((self.positions == np.arange(self.positions.shape[1])).all())

    def scheme_after(self, scheme: Scheme) -> Scheme | None:
        """Return the scheme at these positions, for the command that reproduces the table.

        None is returned if a command cannot name them: neither counted from 0 nor a short list.
        """
        changes: dict[str, Any] = {"positions": None, "grid": None, "seq_len": None}
        rows = self.positions.shape[1]
        if self.counts_from_0 and not scheme.is_range:
            changes["seq_len"] = rows
        elif self.known_mistake is None and rows <= MAX_LISTED:
            changes["positions"] = self._listed_positions()
        else:
            return None
        try:
            return replace(scheme, **changes)
        except ParameterError:  # some parameters go only with consecutive positions or a grid
            return None

    def _listed_positions(self) -> list[int] | list[list[int]]:
        """Return the positions as a scheme has them: one list, or one per axis if there are several."""
        positions_of_axes: list[list[int]] = self.positions.astype(int).tolist()
        if len(positions_of_axes) > 1:
            return positions_of_axes
        (positions,) = positions_of_axes
        return positions


@dataclass(frozen=True)
class PaddedRows(WaveMistake):
    """The table starts after rows of zeros, or zeros follow it."""

    rows: int
    at_end: bool
    summary = "rows of zeros before or after the table"
    seen_in = ("fairseq's padding row", "caches that are allocated longer than they are filled")
    stage = Stage.POSITIONS
    changes_reading = True
    shows_in_few_values = True

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        rows = np.arange(waves.rows)
        if self.at_end:
            return replace(waves, empty_rows=rows >= waves.rows - self.rows)
        moved = waves.positions[:, np.maximum(rows - self.rows, 0)]
        return replace(waves, positions=moved, empty_rows=rows < self.rows)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Count the rows of zeros at the start and at the end of a table, and yield each count.

        fairseq puts rows of zeros before its table, and a cache that is longer than the prompt ends
        with them. Nothing is yielded if all rows are zeros, or if some should be.
        """
        if waves.places_tokens or waves.empty_rows is not None:
            return
        is_zero = case.observations.rows_of_zeros()
        if is_zero.all():
            return
        if is_zero[0]:
            yield cls(int(np.argmin(is_zero)), at_end=False)
        if is_zero[-1]:
            yield cls(int(np.argmin(is_zero[::-1])), at_end=True)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        has_no_padding = waves.empty_rows is None and not waves.places_tokens
        if waves.rows > FEW_ROWS and has_no_padding:
            yield cls(3, at_end=False)
            yield cls(3, at_end=True)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Rows("padded at the end" if self.at_end else "padded", self.rows),)


@dataclass(frozen=True)
class OtherPaddingRow(WaveMistake):
    """Zeros at another position than that of padding, or none there."""

    index: int | None
    expected: int | None
    summary = "the row of padding is not zeros, or another one is"
    seen_in = ("fairseq's padding_idx of 1, which OPT and M2M100 have",)
    stage = Stage.POSITIONS
    changes_reading = True

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        positions = waves.positions[0]
        empty = np.zeros(waves.rows, bool) if waves.empty_rows is None else waves.empty_rows.copy()
        empty[positions == self.expected] = False
        empty[positions == self.index] = True
        return replace(waves, empty_rows=empty)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the position of the only row of zeros, or None if the expected one holds values.

        fairseq reserves one position for padding tokens, whose row is zeros. Rows that are zeros
        for another supposed reason do not count.
        """
        if "padding_idx" not in case.scheme.parameters():
            return
        expected = case.scheme.value_of("padding_idx")
        is_zero = case.observations.rows_of_zeros()
        if waves.empty_rows is not None:
            is_zero &= ~waves.empty_rows
        if np.count_nonzero(is_zero) == 1:
            yield cls(int(waves.positions[0, is_zero][0]), expected)
        elif expected is not None and not is_zero.any():
            yield cls(None, expected)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter("padding_idx", self.expected, self.index),)
