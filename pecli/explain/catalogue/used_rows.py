"""Other positions than the expected ones. Proposals read the position at which each row was made."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.edits import Edit, Misplacement, Parameter, PositionMistake, Rows
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.catalogue.kinds import WaveMistake, waves_of
from pecli.explain.catalogue.needs import (
    has_one_axis,
    has_several_rows,
    places_rows,
    show_positions,
)
from pecli.explain.changed_schemes import permitted
from pecli.explain.computation import Columns, WaveComputation
from pecli.explain.hypothesis import MAX_LOST, Case, Needs, Stage
from pecli.explain.misplacements import NARROW_DTYPES, find_position_mistake, positions_edit
from pecli.explain.position_runs import count_runs

RUN_COST = 0.3
"""Cost of each further run of listed positions: rows that were overwritten are the shorter answer
than three runs.
"""

SHIFTS_OF_ONE_FUNCTION = (-1, 1, -2, 2)
"""Rows by which sines alone may be off: loops that begin one row too early or too late, or end so."""

MAX_LISTED_POSITIONS = 64
"""Positions in a list that may fit a command of 200 letters."""

TOO_FEW_ROWS = 8
"""Rows of a table that is too short for an example of rows that are moved."""


def has_many_rows(waves: WaveComputation) -> bool:
    """Return True unless a table is too short to show rows that are moved, as an example."""
    return waves.rows > TOO_FEW_ROWS


@dataclass(frozen=True, eq=False)
class RowMistake(WaveMistake):
    """Rows at other positions, which follow from the expected ones by a rule."""

    stage = Stage.POSITIONS
    computation_needs: ClassVar[Needs] = (places_rows,)

    @abstractmethod
    def used(self, expected: Floats) -> Floats:
        """Return the positions used instead of the expected ones, along one axis."""

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


def located_rows(case: Case) -> MeasuredRows:
    """Return the expected and the measured positions of the rows that were located."""
    expected = waves_of(case).positions[0, case.observations.located_rows]
    return MeasuredRows(expected=expected, used=case.positions[0])


def show_other_rows(case: Case) -> bool:
    """Return True if most rows are at some position, and not all at the expected one."""
    if not show_positions(case):
        return False
    rows = located_rows(case)
    is_lost = np.isnan(rows.used - rows.expected)
    are_found = bool(is_lost.mean() <= MAX_LOST)
    return are_found and not np.array_equal(rows.used, rows.expected)


@dataclass(frozen=True, eq=False)
class SolvedRowMistake(RowMistake):
    """A mistake of rows whose numbers follow from the measured positions."""

    data_needs = (show_other_rows,)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        rows = located_rows(case)
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
    example_needs = (has_one_axis,)  # Grids have `OtherPlacement`.
    fitted = ("by",)

    def used(self, expected: Floats) -> Floats:
        return expected + self.by

    @classmethod
    def proposals_for_positions(cls, used: Floats, expected: Floats) -> Iterator[Self]:
        """Yield the median shift: 2 of the positions 2 3 4 for 0 1 2."""
        shift = np.nanmedian(used - expected)
        is_whole = shift == round(shift)
        if is_whole and shift != 0:
            yield cls(int(shift))

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
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
    example_needs = (has_many_rows, has_one_axis)
    fitted = ("by",)

    def used(self, expected: Floats) -> Floats:
        return np.asarray(np.roll(expected, self.by))

    @classmethod
    def proposals_for_positions(cls, used: Floats, expected: Floats) -> Iterator[Self]:
        """Yield the row at which the table begins: 2 of the positions 8 9 0 1 … 7."""
        rows_of_first_position = np.flatnonzero(used == expected[0])
        if len(rows_of_first_position) != 1:
            return
        start = int(rows_of_first_position[0])
        if start > 0:
            yield cls(start)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        yield cls(3)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Rows("shifted", self.by),)


@dataclass(frozen=True)
class Wrapped(SolvedRowMistake):
    """Positions modulo the length of a cache."""

    period: int
    summary = "positions wrap at the length of a cache"
    seen_in = ("rolling KV caches of sliding-window models",)
    example_needs = (has_many_rows,)
    fitted = ("period",)

    def used(self, expected: Floats) -> Floats:
        return np.asarray(expected[0] + (expected - expected[0]) % self.period)

    @classmethod
    def proposals_for_positions(cls, used: Floats, expected: Floats) -> Iterator[Self]:
        """Yield the smallest number by which a row is too low.

        It is 4 for the positions 0 1 2 3 0 1 2 3 0, which are too low by 4 and by 8.
        """
        has_fallen = used < expected
        falls = (expected - used)[has_fallen]  # whole multiples of the period
        if len(falls):
            yield cls(int(falls.min()))

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
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
    computation_needs = (places_rows, has_several_rows)

    def used(self, expected: Floats) -> Floats:
        return np.full_like(expected, self.position)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the median measured position, or 0 if none is measured and all rows are equal."""
        yield cls(0)
        if show_other_rows(case):
            yield cls(int(np.nanmedian(located_rows(case).used)))

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        yield cls(0)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Rows("constant", self.position),)


@dataclass(frozen=True)
class Clamped(SolvedRowMistake):
    """Positions beyond the end of a table use its last row."""

    last: int
    summary = "positions beyond the table use its last row"
    example_needs = (has_many_rows,)
    fitted = ("last",)

    def used(self, expected: Floats) -> Floats:
        return np.minimum(expected, self.last)

    @classmethod
    def proposals_for_positions(cls, used: Floats, expected: Floats) -> Iterator[Self]:
        yield cls(int(np.nanmax(used)))

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
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
    example_needs = (has_many_rows, has_one_axis)
    fitted = ("padding",)

    def used(self, expected: Floats) -> Floats:
        rows = np.arange(len(expected))
        return np.where(rows < self.padding, self.filler, expected - self.padding)

    @classmethod
    def proposals_for_positions(cls, used: Floats, expected: Floats) -> Iterator[Self]:
        """Yield left padding of as many rows as the last position is too low.

        It is 2 for the positions 1 1 0 1 2 … 7, which should end at 9.
        """
        first = expected[0]
        last = expected[-1]
        padding = last - used[-1]
        leaves_a_token = 0 < padding <= last - first
        if leaves_a_token and np.isfinite(used[0]):
            yield cls(padding=int(padding), filler=int(used[0]))

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        yield cls(padding=5, filler=1)


def are_all_located(case: Case) -> bool:
    """Return True if the positions of all rows were looked up, as they are in tables of usual size."""
    return len(case.observations.located_rows) == case.observations.rows


@dataclass(frozen=True, eq=False)
class UsedPositions(RowMistake):
    """Positions that follow no rule of the catalogue; they are listed in runs."""

    positions: Floats  # (axes, rows)
    known_mistake: PositionMistake | None = None
    summary = "other positions: restarts of packed sequences, repeated or skipped ones"
    seen_in: ClassVar[tuple[str, ...]] = (
        "packed sequences without reset positions",
        "sliding caches",
    )
    example_needs = (has_many_rows, has_one_axis)
    data_needs: ClassVar[Needs] = (show_positions, are_all_located)

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
        # Zeros are at no position, and keep the expected one.
        used = np.where(waves.is_row_empty, waves.positions, case.positions)
        if np.isfinite(used).all() and not np.array_equal(used, waves.positions):
            yield cls.at(used, waves)

    @classmethod
    def at(cls, used: Floats, waves: WaveComputation) -> Self:
        """Return positions (axes, rows) with the known mistake that leads to them, if there is one."""
        mistake = find_position_mistake(waves.positions[0], used[0], rotated=False)
        return cls(used, mistake)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        """Yield positions that restart, as those of two packed sequences of unequal length."""
        first = 3 * waves.rows // 8
        second = waves.rows - first
        packed = np.concatenate([np.arange(first), np.arange(second)]).astype(np.float64)
        yield cls.at(packed[None], waves)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        """Return the positions in runs; of a grid or a list, only that they are others."""
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
        """True if the rows are at 0, 1, 2, … along each axis."""
        return bool((self.positions == np.arange(self.positions.shape[1])).all())

    def scheme_after(self, scheme: Scheme) -> Scheme | None:
        """Return the scheme with the found positions, for the command that makes the table again.

        - The rows of a grid of 3 × 4 that count 0, 1, 2, … become `--seq-len 12`.
        - Up to 64 other positions become a list, `--positions`, if they follow no known mistake.
        - None is returned for all others.
        """
        were_given_positions_ignored = self.counts_from_0 and not scheme.is_range
        if were_given_positions_ignored:
            return _with_rows(scheme, "seq_len", self.positions.shape[1])
        if self.known_mistake is not None:
            return None  # The explanation names it, such as «all 5 too far», which says more.
        if self.positions.shape[1] > MAX_LISTED_POSITIONS:
            return None  # Nobody reads so long a command.
        return _with_rows(scheme, "positions", self._listed_positions())

    def _listed_positions(self) -> list[float] | list[list[float]]:
        """Return the positions as a scheme has them: one list, or one per axis if there are several.

        Those of a text are whole numbers, such as 3, and those of some grids are not: DETR has rows at
        1.25664 and 2.51327.
        """
        are_whole = bool((self.positions == np.rint(self.positions)).all())
        positions_of_axes: list[list[float]] = self.positions.tolist()
        if are_whole:
            positions_of_axes = self.positions.astype(int).tolist()
        if len(positions_of_axes) > 1:
            return positions_of_axes
        (positions,) = positions_of_axes
        return positions


def show_no_phase(case: Case) -> bool:
    """Return True if the data are only cosines, or only sines: the position of a row is not measured."""
    return case.measured_phasors is None


def may_be_one_function(waves: WaveComputation) -> bool:
    """Return True for tables of columns that each hold a cosine or a sine; rotated heads hold both."""
    return isinstance(waves.form, Columns)


@dataclass(frozen=True, eq=False)
class ShiftedRowsOfOneFunction(UsedPositions):
    """Sines, or cosines, whose rows are too far or too low by one or two from some row on.

    Cosines and sines together show the position of each row. One of them alone does not, so that a few
    shifts are tried, from the first wrong row on.
    """

    summary = "only sines, or only cosines, are a row too low or too far from some row on"
    seen_in: ClassVar[tuple[str, ...]] = ()
    computation_needs = (places_rows, may_be_one_function)
    data_needs: ClassVar[Needs] = (show_no_phase,)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield shifts by one and two of all rows from the first wrong one on, after right ones."""
        is_wrong = case.wrong_elements.any(axis=1)
        first_wrong = int(is_wrong.argmax())  # 0 if no row is wrong
        if first_wrong == 0:
            return
        is_shifted = np.arange(waves.rows) >= first_wrong
        for by in SHIFTS_OF_ONE_FUNCTION:
            yield cls.at(waves.positions + by * is_shifted, waves)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        """Yield nothing: an example has both functions, whose positions `UsedPositions` measures."""
        yield from ()


def _with_rows(scheme: Scheme, name: str, value: object) -> Scheme | None:
    """Return the scheme with its rows placed by one parameter: «positions», «grid» or «seq_len».

    The two others are removed, since a scheme has only one of them. None is returned if the scheme
    refuses the value.
    """
    row_parameters: dict[str, Any] = {"positions": None, "grid": None, "seq_len": None}
    row_parameters[name] = value
    return permitted(scheme, **row_parameters)


def has_no_empty_rows(waves: WaveComputation) -> bool:
    """Return True if no row should be zeros."""
    return not waves.is_row_empty.any()


def may_have_padding(scheme: Scheme) -> bool:
    """Return True for schemes that can reserve a position for padding tokens."""
    return "padding_idx" in scheme.parameters()


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
    computation_needs = (places_rows, has_no_empty_rows)
    example_needs = (has_many_rows,)

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        """Return the table with rows of zeros in the place of its last rows, or before its first one.

        After two rows of zeros, the rows 0 1 2 3 are at the positions – – 0 1.
        """
        rows = np.arange(waves.rows)
        if self.at_end:
            first_empty_row = waves.rows - self.rows
            return replace(waves, empty_rows=rows >= first_empty_row)
        expected_rows = np.maximum(rows - self.rows, 0)  # Rows of zeros have any: here, the first.
        positions = waves.positions[:, expected_rows]
        return replace(waves, positions=positions, empty_rows=rows < self.rows)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the rows of zeros at the start of a table as padding, then those at its end.

        fairseq puts rows of zeros before its table. A cache that is longer than the prompt ends with
        rows of zeros.
        """
        rows_with_values = np.flatnonzero(~case.observations.rows_of_zeros())
        if not len(rows_with_values):
            return
        zeros_at_start = int(rows_with_values[0])
        last_row = case.observations.rows - 1
        zeros_at_end = last_row - int(rows_with_values[-1])
        # Sines at position 0 are zeros too: a table may begin there by mistake, instead of at 1.
        begins_one_earlier = zeros_at_start == 1 and _is_row_before_first_zeros(waves)
        if zeros_at_start > 0 and not begins_one_earlier:
            yield cls(zeros_at_start, at_end=False)
        if zeros_at_end > 0:
            yield cls(zeros_at_end, at_end=True)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        yield cls(3, at_end=False)
        yield cls(3, at_end=True)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Rows("padded at the end" if self.at_end else "padded", self.rows),)


def _is_row_before_first_zeros(waves: WaveComputation) -> bool:
    """Return True if a table would begin with zeros one position earlier, as sines at position 0 do."""
    one_earlier = replace(waves, positions=waves.positions - 1)
    return not one_earlier.rendered(np.array([0])).any()


@dataclass(frozen=True)
class OtherPaddingRow(WaveMistake):
    """Zeros at another position than that of padding, or none there."""

    index: int | None
    expected: int | None
    summary = "the row of padding is not zeros, or another one is"
    seen_in = ("fairseq's padding_idx of 1, which OPT and M2M100 have",)
    stage = Stage.POSITIONS
    changes_reading = True
    scheme_needs = (may_have_padding,)

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        """Return the table with zeros at the found position, and values at the expected one.

        A position that is None is that of no row: nothing changes there.
        """
        positions = waves.positions[0]
        is_empty = waves.is_row_empty.copy()
        is_empty[positions == self.expected] = False
        is_empty[positions == self.index] = True
        return replace(waves, empty_rows=is_empty)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield the position of the only row of zeros, or None if the expected one holds values.

        fairseq reserves one position for padding tokens, whose row is zeros. Rows that are zeros
        for another supposed reason do not count.
        """
        expected = case.scheme.value_of("padding_idx")
        is_zero = case.observations.rows_of_zeros() & ~waves.is_row_empty
        if np.count_nonzero(is_zero) == 1:
            yield cls(int(waves.positions[0, is_zero][0]), expected)
        elif expected is not None and not is_zero.any():
            yield cls(None, expected)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter("padding_idx", self.expected, self.index),)
