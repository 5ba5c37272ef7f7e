"""The steps in which an implementation makes a table: frequencies, positions, phases, cosines and sines, columns.

A mistake changes one step of a `Computation`; rendering is the same for all of them, and `phasors` is its inverse.
A *phasor* is the complex number amplitude · (cos + i·sin) of one position and one pair of channels.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Complex, Flags, Floats, Indices, widened
from pecli.engine.schemes.scheme import Scheme, named_tensors
from pecli.engine.table import Table
from pecli.explain import measure
from pecli.explain.frequency_schedule import FrequencySchedule
from pecli.explain.measure import MeasuredFrequencies
from pecli.explain.storage import UNROUNDED, Storage, rounded_to
from pecli.explain.wave_measurement import MIN_RUN

FLOAT32_FUNCTION = 4 * 2.0**-24
"""Absolute error of a cosine computed in float32 and of the products of a rotation, per unit of amplitude."""

HALF_UNIT = 2.0**-24
"""Relative error of one float32 operation. A power loses |ln f| of these because its exponent is rounded; the power,
its reciprocal and the product with a position lose one each."""

EXACT_ERROR = 2.0**-48
"""Relative error of phases that are computed in float64: an exact table cannot be reproduced better than this."""

TINY = 1e-300

SLOW = 2 * np.pi / 8192
"""Frequency of a pair that turns less than once in 8,192 positions: it distinguishes all of them."""

MAX_TABLE_NOISE = 1e-4
"""Noise of a table, as a share of its amplitude, up to which it is one table: coarse storage or another one beyond."""

LESS_NOISE = 0.1
"""Share of a table's noise that a half of it has if the other half holds something else."""


@dataclass(frozen=True)
class Arithmetic:
    """Dtypes to which the steps of an implementation round; None means that a step is exact."""

    positions: str | None = None
    frequencies: str | None = None
    phases: str | None = None
    pi: float = math.pi  # by which arguments are reduced: 3.14159 moves them by 5.3e-6 per turn
    has_given_frequencies: bool = False  # they are those of one program, to the last bit

    def angles(self, positions: Floats, frequencies: Floats) -> Floats:
        """Return position · frequency of each row and pair, rounded at each step as an implementation does.

        In bfloat16, position 257 becomes 256. A fast sine that reduces its argument with a short π, say
        3.14159, is off by 2 · (π − 3.14159) = 5.3e-6 after each whole turn.

        Args:
            positions: (rows, 1), or (rows, pairs) if pairs follow several axes.
            frequencies: Radians per position, (pairs,).
        """
        rounded_positions = rounded_to(positions, self.positions)
        rounded_frequencies = rounded_to(frequencies, self.frequencies)
        angles = rounded_to(rounded_positions * rounded_frequencies, self.phases)
        if self.pi != math.pi:
            whole_turns = np.floor(angles / (2 * self.pi))
            angles = angles + whole_turns * 2 * (math.pi - self.pi)
        return np.asarray(angles)

    def bound(self, positions: Floats, frequencies: Floats) -> Floats:
        """Return how far angles may be off if another library computes the same steps.

        Another library may compute a frequency of 0.5 as 0.4999999 or 0.5000001. Angles are computed from
        both ends of that interval: since rounding keeps the order of numbers, all others lie between them.
        At position 70,000, that is 0.025 apart. If the frequencies are given to the last bit, nothing is.

        Args:
            positions: (rows, 1), or (rows, pairs) if pairs follow several axes.
            frequencies: Radians per position, (pairs,).
        """
        if self == EXACT:
            return np.asarray(EXACT_ERROR * np.abs(positions * frequencies))
        if self.has_given_frequencies:
            return np.zeros(np.broadcast_shapes(positions.shape, frequencies.shape))
        sizes = np.maximum(np.abs(frequencies), TINY)  # A frequency of 0 has no logarithm.
        relative_error = HALF_UNIT * (np.abs(np.log(sizes)) + 3)
        low = self.angles(positions, frequencies * (1 - relative_error))
        high = self.angles(positions, frequencies * (1 + relative_error))
        return np.abs(high - low)

    def without_float32(self) -> "Arithmetic":
        """Return the arithmetic with exact steps for those in float32."""
        return Arithmetic(
            _unless_float32(self.positions),
            _unless_float32(self.frequencies),
            _unless_float32(self.phases),
            self.pi,
            self.has_given_frequencies,
        )

    @property
    def turns_evenly(self) -> bool:
        """True if equal distances of positions turn by equal angles, so that frequencies can be measured."""
        return self.phases in (None, "float32") and self.pi == math.pi


def _unless_float32(dtype: str | None) -> str | None:
    return None if dtype == "float32" else dtype


EXACT = Arithmetic()
FLOAT32 = Arithmetic("float32", "float32", "float32")
"""The arithmetic of nearly all projects."""


def unit_phasors(angles: Floats) -> Complex:
    """Return exp(i · angle) of each angle, in half the time that NumPy's complex exponential takes."""
    phasors = np.empty(angles.shape, np.complex128)
    phasors.real = np.cos(angles)
    phasors.imag = np.sin(angles)
    return phasors


class PhasorForm(ABC):
    """An arrangement of phasors (cos + i·sin) in a matrix (rows, columns), and back."""

    @property
    def tensor_count(self) -> int:
        """The tensors whose columns lie side by side in the matrix."""
        return 1

    @property
    def has_both_functions(self) -> bool:
        """True if some columns show cosines, and others sines."""
        return True

    @abstractmethod
    def matrix_of(self, phasors: Complex, rows: Indices) -> Floats:
        """Return the matrix that holds the phasors, cos + i·sin (rows, pairs), of some rows."""

    @abstractmethod
    def phasors(self, matrix: Floats, rows: Indices) -> Complex | None:
        """Return the phasors that some rows of a matrix hold; None if it lacks the cosines or the sines."""

    @abstractmethod
    def errors(self, bound: Floats, rows: Indices) -> Floats:
        """Return how far elements may be off if phasors are off by a bound (rows, pairs)."""

    def one_function(self, matrix: Floats) -> Floats | None:
        """Return one column per pair if a matrix holds only cosines or only sines, else None."""
        return None


class ColumnMap(NamedTuple):
    """The number that each column of a table holds: a pair's cosine or sine, with a sign.

    [s0 c0 s1 c1] has the pairs 0 0 1 1, of which columns 0 and 2 are sines. A sign of 0 makes a column of zeros.
    """

    pair: Indices
    is_sine: Flags
    sign: Floats

    def in_width(self, width: int) -> "ColumnMap":
        """Return so many columns: those beyond are left out, and missing ones are zeros.

        An odd width needs it: s0 c0 s1 c1 becomes s0 c0 s1 in 3 columns, and s0 c0 s1 c1 0 in 5.
        """
        if width <= len(self.pair):
            return ColumnMap(self.pair[:width], self.is_sine[:width], self.sign[:width])
        missing = (0, width - len(self.pair))
        return ColumnMap(
            np.pad(self.pair, missing), np.pad(self.is_sine, missing), np.pad(self.sign, missing)
        )

    def with_other_sign(self, is_changed: Flags) -> "ColumnMap":
        """Return the columns, some of which have the other sign."""
        return self._replace(sign=np.where(is_changed, -self.sign, self.sign))


@dataclass(frozen=True)
class Columns(PhasorForm):
    """Tables whose columns each hold the cosines or the sines of one pair.

    `cos` and `sin` of two pairs in halves are [c0 c1 c0 c1 | s0 s1 s0 s1]; a sinusoidal `pe` of two pairs, interleaved,
    is [s0 c0 s1 c1].
    """

    tensors: tuple[str, ...]  # ("cos", "sin"), one of them, or ("pe",)
    layout: str  # compact, halves or interleaved
    pairs: int
    dim: int  # channels of `pe`; an odd one lacks its last cosine
    cos_first: bool = True
    blocks: tuple[int, ...] = ()  # pairs per axis, if each axis has its own halves
    swapped: bool = False
    negated: frozenset[str] = frozenset()  # of cos and sin: columns with the other sign
    reversed: bool = False
    has_pair_per_column: bool = False  # of `pe`: each column has a frequency of its own

    @property
    def tensor_count(self) -> int:
        return len(self.tensors)

    @cached_property
    def columns(self) -> ColumnMap:
        """The number that each column of a table holds: the cosine or the sine of a pair, with a sign.

        Two pairs without a mistake may be c0 c1 s0 s1, the cosines of the pairs 0 and 1 and their
        sines. With a mistake they are

        - c1 c0 s1 s0 if `reversed`: pairs are counted from the last one,
        - c0 c1 −s0 −s1 if `negated` has "sin",
        - s0 s1 c0 c1 if `swapped`.
        """
        # Rotary schemes make two tables, `cos` and `sin`. Sinusoidal ones make a single one, `pe`,
        # with both functions in it.
        is_sinusoidal = self.tensors == ("pe",)
        columns = self._added_columns() if is_sinusoidal else self._rotary_columns()
        if self.reversed:
            last_pair = self.pairs - 1
            columns = columns._replace(pair=last_pair - columns.pair)
        for function in self.negated:
            is_of_function = columns.is_sine == (function == "sin")
            columns = columns.with_other_sign(is_of_function)
        if self.swapped:  # The signs stay in their columns.
            columns = columns._replace(is_sine=~columns.is_sine)
        return columns

    def _rotary_columns(self) -> ColumnMap:
        """Return what each column of the tables `cos` and `sin`, side by side, holds.

        The columns of two pairs of channels are 0 1 in compact tables, which have one column per pair.
        Tables that are multiplied with all channels have each column twice: 0 1 0 1 in halves (NeoX,
        rotate_half), 0 0 1 1 in interleaved ones (GPT-J).
        """
        every_pair = np.arange(self.pairs)
        pairs_by_layout = {
            "compact": every_pair,
            "halves": np.tile(every_pair, 2),
            "interleaved": np.repeat(every_pair, 2),
        }
        pairs_of_one_table = pairs_by_layout[self.layout]
        pair = np.tile(pairs_of_one_table, len(self.tensors))
        is_sine = np.repeat([name == "sin" for name in self.tensors], len(pairs_of_one_table))
        return ColumnMap(pair, is_sine, sign=np.ones(len(pair)))

    def _added_columns(self) -> ColumnMap:
        """Return what each column of a sinusoidal table `pe` holds: a sine s or a cosine c of some pair.

        Two pairs are s0 c0 s1 c1 interleaved, and s0 s1 c0 c1 in halves. If each of two axes of a grid
        has its own halves, they are s0 c0 | s1 c1. An odd dim of 5 cuts the last cosine off three
        interleaved pairs, s0 c0 s1 c1 s2, and leaves a column of zeros in halves, s0 s1 c0 c1 0.
        By mistake, each column may have a frequency of its own: s0 c1 s2 c3.
        """
        if self.has_pair_per_column:
            pair = np.arange(self.pairs)  # 0 1 2 3
            is_second = pair % 2 == 1
        elif self.layout == "interleaved":
            pair = np.repeat(np.arange(self.pairs), 2)  # 0 0 1 1
            is_second = np.tile([False, True], self.pairs)
        else:
            pair, is_second = self._halves_of_blocks()
        is_sine = is_second == self.cos_first
        columns = ColumnMap(pair, is_sine, sign=np.ones(len(pair)))
        return columns.in_width(self.dim)

    def _halves_of_blocks(self) -> tuple[Indices, Flags]:
        """Return the pair of each column in halves, and whether it is the second column of that pair.

        Two blocks of two pairs and one pair have the pairs 0 1 0 1 | 2 2.
        """
        pairs_of_blocks = self.blocks or (self.pairs,)
        pair_by_block: list[Indices] = []
        is_second_by_block: list[Flags] = []
        first_pair = 0
        for size in pairs_of_blocks:
            pairs = np.arange(first_pair, first_pair + size)
            pair_by_block.append(np.tile(pairs, 2))  # 0 1 0 1
            is_second_by_block.append(np.repeat([False, True], size))  # False False True True
            first_pair += size
        return np.concatenate(pair_by_block), np.concatenate(is_second_by_block)

    def matrix_of(self, phasors: Complex, rows: Indices) -> Floats:
        pair, is_sine, sign = self.columns
        pairs = phasors[:, pair]
        return np.asarray(np.where(is_sine, pairs.imag, pairs.real) * sign)

    def phasors(self, matrix: Floats, rows: Indices) -> Complex | None:
        """Return cos + i·sin of each pair (rows, pairs), as some rows of a table hold them.

        They are read off the first column of each cosine and sine; some layouts repeat them. None is
        returned if some pair has no cosine or no sine, as in a table of cosines only.
        """
        cosine_columns = self._first_columns(sines=False)
        sine_columns = self._first_columns(sines=True)
        if min(len(cosine_columns), len(sine_columns)) < self.pairs:
            return None
        sign = self.columns.sign
        cosines = matrix[:, cosine_columns] * sign[cosine_columns]
        sines = matrix[:, sine_columns] * sign[sine_columns]
        return np.asarray(cosines + 1j * sines)

    @property
    def has_both_functions(self) -> bool:
        return len(np.unique(self.columns.is_sine)) > 1

    def _first_columns(self, *, sines: bool) -> Indices:
        """Return the first column that holds the sine (or the cosine) of each pair that has one.

        In [s0 c0 s1 c1] these are the columns 0 and 2 for sines, and 1 and 3 for cosines.
        """
        pair, is_sine, sign = self.columns
        columns = np.flatnonzero((is_sine == sines) & (sign != 0))
        _, first = np.unique(pair[columns], return_index=True)
        return np.asarray(columns[first], np.intp)

    def errors(self, bound: Floats, rows: Indices) -> Floats:
        pair, _, sign = self.columns
        return np.asarray(bound[:, pair] * np.abs(sign))

    def one_function(self, matrix: Floats) -> Floats | None:
        """Return the first column of each pair if the table holds only cosines or only sines."""
        if self.has_both_functions:
            return None
        _, first = np.unique(self.columns.pair, return_index=True)
        return np.asarray(matrix[:, first] * self.columns.sign[first])


@dataclass(frozen=True, eq=False)
class Computation(ABC):
    """Everything that determines the numbers of some tensors: a matrix with one row per position."""

    _: KW_ONLY
    arithmetic: Arithmetic = EXACT
    damaged: Flags | None = None  # (rows, columns), elements that may hold anything
    filler: float = 0.0  # which damaged elements hold in an example
    storage: Storage = UNROUNDED

    @property
    @abstractmethod
    def rows(self) -> int: ...

    @abstractmethod
    def rendered(self, rows: Indices) -> Floats:
        """Return the numbers of some rows, before they are stored."""

    def as_stored(self, values: Floats, rows: Indices) -> Floats:
        """Return computed numbers of some rows as a file holds them: rounded, then damaged."""
        return np.where(self.damage_in(rows), self.filler, self.storage.rounded(values))

    def damage_in(self, rows: Indices) -> Flags:
        """Return the elements of some rows that may hold anything: (rows, columns), or (rows, 1) if
        there are none.
        """
        if self.damaged is None:
            return np.zeros((len(rows), 1), bool)
        return np.asarray(self.damaged[rows])

    @abstractmethod
    def bound(self, rows: Indices) -> Floats:
        """Return how far arithmetic may move each element of some rows."""

    @property
    def tensor_count(self) -> int:
        """The tensors whose columns lie side by side in the matrix."""
        return 1

    @property
    def are_rows_tokens(self) -> bool:
        """True if rows are tokens, whose positions somebody states, and not rows of a table."""
        return False

    @property
    def column_count(self) -> int:
        """The columns of all tensors together, counted in the first row."""
        first_row = self.rendered(np.arange(1))
        return int(first_row.shape[1])

    def exactly(self) -> "Computation":
        """Return the computation with exact steps in place of those in float32."""
        return replace(self, arithmetic=self.arithmetic.without_float32())

    def measured_frequencies(self, sample: Floats, rows: Indices) -> MeasuredFrequencies | None:
        """Return the frequencies of data whose columns are in the order of this computation.

        None is returned if they cannot be measured, as for biases, which have no frequencies.

        Args:
            sample: Some rows of the data, (rows, columns).
            rows: Their indices.
        """
        return None

    def measured_positions(self, matrix: Floats, rows: Indices) -> Floats | None:
        """Return the positions (axes, rows) at which rows of data are, if form and frequencies are right.

        A row that is at no position has NaN; None is returned if no positions can be solved.
        """
        return None

    @property
    def float64_error(self) -> float:
        """The largest error of rendering exact arithmetic in float64."""
        return 0.0

    def by_head(self, flags: Flags) -> Flags:
        """Return flags (rows, columns) of one tensor as (heads, rows, columns)."""
        return flags[None]

    def from_heads(self, flags: Flags) -> Flags:
        """Return flags (heads, rows, columns) as (rows, columns): the inverse of `by_head`."""
        return np.asarray(flags[0])

    def head_index(self, head: int) -> tuple[int, ...]:
        """Return the index of a head along the axes of sequences and heads that a tensor has: a table has none."""
        return ()

    def row_number(self, row: int) -> int:
        """Return the number of a row in the whole tensor: the same, unless rows were left out."""
        return row

    def element_index(self, head: int, row: int, column: int) -> tuple[int, ...]:
        """Return the index of an element in the array of a file: (3, 5) in row 3 of a table."""
        return (*self.head_index(head), self.row_number(row), column)

    @property
    def reading(self) -> tuple[object, ...]:
        """The key under which measured frequencies are kept: everything that they depend on."""
        return ()


@dataclass(frozen=True, eq=False)
class WaveComputation(Computation):
    """The computation of cosines and sines: frequencies, positions, an amplitude, and a form."""

    frequencies: Floats  # radians per position, one per pair
    axes: Indices  # the axis of positions that each pair follows
    positions: Floats  # (axes, rows)
    amplitude: float
    form: PhasorForm
    schedule: FrequencySchedule | None = (
        None  # which the frequencies follow; None on grids, where each axis has its own
    )
    empty_rows: Flags | None = None  # rows that hold zeros, if there are any

    @property
    def rows(self) -> int:
        return int(self.positions.shape[1])

    @cached_property
    def is_row_empty(self) -> Flags:
        """True for each row that holds zeros: that of padding, for example."""
        if self.empty_rows is None:
            return np.zeros(self.rows, bool)
        return self.empty_rows

    @property
    def tensor_count(self) -> int:
        return len(self.form.tensors) if isinstance(self.form, Columns) else 1

    @property
    def are_rows_tokens(self) -> bool:
        """True if rows are tokens, whose positions somebody states, and not rows of a table."""
        return False

    @property
    def reading(self) -> tuple[object, ...]:
        """Everything on which measured frequencies depend: the form, and the positions of the rows."""
        positions = self._computed_positions
        is_run = self.rows >= MIN_RUN and bool((np.diff(positions) == 1).all())
        if is_run:  # Frequencies are the same, wherever the run starts.
            return self.form, self.rows
        return self.form, self._rounding, positions.tobytes(), self.axes.tobytes()

    @cached_property
    def _computed_positions(self) -> Floats:
        """Positions (axes, rows) as they are rounded: in bfloat16, 257 is 256."""
        return rounded_to(self.positions, self.arithmetic.positions)

    @property
    def float64_error(self) -> float:
        return EXACT_ERROR * float(np.abs(self.positions).max(initial=0.0))

    def at_rows(self, rows: slice) -> "WaveComputation":
        """Return the computation of some rows."""
        return replace(self, positions=self.positions[:, rows], empty_rows=self.is_row_empty[rows])

    def with_schedule(self, schedule: FrequencySchedule) -> "WaveComputation":
        """Return the computation with the frequencies of another schedule.

        If the scaling is another one, its attention factor replaces the one before: YaRN's 1.139
        multiplies an amplitude of 1 that had no scaling.
        """
        amplitude = self.amplitude
        before = self.schedule
        if before is not None and schedule.scaling != before.scaling:
            amplitude *= schedule.scaling.attention_value / before.scaling.attention_value
        return replace(
            self, schedule=schedule, frequencies=schedule.frequencies, amplitude=amplitude
        )

    def row_positions(self, rows: Indices) -> Floats:
        """Return the position of each of some rows, as (rows, 1), or (rows, pairs) on several axes.

        A row at the height 2 and the width 5 has the positions 2 2 5 5 if two pairs follow each.
        """
        positions = self.positions[:, rows]  # (axes, rows)
        if len(positions) == 1:
            (only_axis,) = positions
            return np.asarray(only_axis[:, None])
        positions_of_pairs = positions[self.axes]  # (pairs, rows)
        return np.asarray(positions_of_pairs.T)

    def rendered(self, rows: Indices) -> Floats:
        angles = self.arithmetic.angles(self.row_positions(rows), self.frequencies)
        phasors = self.amplitude * unit_phasors(angles)
        matrix = self.form.matrix_of(phasors, rows)
        matrix[self.is_row_empty[rows]] = 0.0
        return matrix

    def bound(self, rows: Indices) -> Floats:
        return self.form.errors(self.phasor_errors(rows), rows)

    def phasor_errors(self, rows: Indices) -> Floats:
        """Return how far each cosine and sine (rows, pairs) may be off if another library computes it.

        An angle that is off by 1e-4 moves them by at most 1e-4, and cosines of float32 are off by
        2.4e-7 themselves. No error is larger than 2, from −1 to 1.
        """
        angles = self.arithmetic.bound(self.row_positions(rows), self.frequencies)
        if self.arithmetic != EXACT:
            angles = angles + FLOAT32_FUNCTION
        return abs(self.amplitude) * np.minimum(angles, 2.0)

    def measured_frequencies(self, sample: Floats, rows: Indices) -> MeasuredFrequencies | None:
        """Measure the frequencies of some rows of a table whose columns are those of this computation.

        If the rows are noisy, their first or last half may hold something else, such as zeros: the half
        that has less than a tenth of the noise is measured instead.

        Args:
            sample: Some rows of the table, (rows, columns).
            rows: Their indices.
        """
        of_all_rows = self._frequencies_in(sample, rows)
        is_noisy = of_all_rows is None or of_all_rows.noise > MAX_TABLE_NOISE
        has_long_halves = len(sample) >= 2 * MIN_RUN
        if not is_noisy or not has_long_halves:
            return of_all_rows
        middle = len(sample) // 2
        for half in (slice(None, middle), slice(middle, None)):
            of_half = self._frequencies_in(sample[half], rows[half])
            if of_half is not None and _is_less_noisy(of_half, of_all_rows):
                return of_half
        return of_all_rows

    def _frequencies_in(self, sample: Floats, rows: Indices) -> MeasuredFrequencies | None:
        """Measure the frequencies of some rows of a table; None if they cannot be measured.

        Args:
            sample: Some rows of the table, (rows, columns).
            rows: Their indices.
        """
        if not np.isfinite(sample).all():
            return None
        if self._has_one_axis:
            return self._frequencies_on_line(sample, rows)
        return self._frequencies_on_grid(sample, rows)

    @property
    def _has_one_axis(self) -> bool:
        """True if all axes have the same positions, as those of a table for text: 0 1 2 … on each."""
        first_axis, *_ = self._computed_positions
        return bool((self._computed_positions == first_axis).all())

    def _frequencies_on_line(self, sample: Floats, rows: Indices) -> MeasuredFrequencies | None:
        """Measure the frequencies of all pairs along the same positions.

        They are measured from cos + i·sin, or from one of the two if a table holds no more. None is
        returned if some pair has neither, or if the columns are no waves.
        """
        positions, *_ = self._computed_positions[:, rows]  # (rows,) on each axis
        columns: Complex | Floats | None = self.form.phasors(sample, rows)
        if columns is None:
            columns = self.form.one_function(sample)
        if columns is None:
            return None
        return measure.frequencies_of(columns, positions, self._rounding)

    def _frequencies_on_grid(self, sample: Floats, rows: Indices) -> MeasuredFrequencies | None:
        """Measure the frequency of each pair along its own axis of a grid, such as height or width.

        None is returned if only cosines or only sines are there: places on a grid show in angles, for
        which both are needed.
        """
        phasors = self.form.phasors(sample, rows)  # cos + i·sin, (rows, pairs)
        if phasors is None:
            return None
        positions = self._computed_positions[:, rows]  # (axes, rows)
        return measure.frequencies_on_grid(
            phasors, positions, self.axes, self.frequencies, self._rounding
        )

    @property
    def _rounding(self) -> float:
        """The largest change of a cosine or sine by float32 arithmetic or by storage."""
        return max(FLOAT32_FUNCTION, float(self.storage.half_unit(np.ones(1))[0]))

    def measured_positions(self, matrix: Floats, rows: Indices) -> Floats | None:
        """Return the positions (axes, rows) at which rows of data are; NaN for a row that is at none.

        Angles show them, if the data have both cosines and sines. From one function alone, rows are
        compared with those of positions around the expected ones; that is done for one axis only.
        """
        expected = self.positions[:, rows]
        phasors = self.form.phasors(matrix, rows)
        with np.errstate(all="ignore"):  # Rows may hold anything.
            if phasors is not None:
                return self._positions_of_phasors(phasors, expected)
            if len(expected) > 1:
                return None
            return measure.match_positions(matrix, self._rendered_at, expected[0])[None]

    def _positions_of_phasors(self, phasors: Complex, expected: Floats) -> Floats:
        """Return the position of each row on each axis, (axes, rows), from the angles of its pairs.

        The angle of a pair is position · frequency: 0.37 with the frequency 0.01 is position 37. On a
        grid, some pairs follow the height and others the width. So each axis is solved from its own pairs.

        Args:
            phasors: cos + i·sin of each row and pair, as the data hold them.
            expected: The positions at which the rows should be, (axes, rows).
        """
        positions = np.array(expected)
        axis_of_pair = self.axes
        is_intact = measure.are_intact(phasors)  # False for a pair whose columns were overwritten
        for axis, expected_on_axis in enumerate(expected):
            pairs = np.flatnonzero(is_intact & (axis_of_pair == axis))
            if len(pairs):  # An axis without pairs keeps the expected positions.
                positions[axis] = _positions_on_axis(
                    phasors[:, pairs], self.frequencies[pairs], expected_on_axis
                )
        return positions

    def _rendered_at(self, positions: Floats) -> Floats:
        """Return the rows of positions that the table may not have."""
        angles = np.multiply.outer(positions, self.frequencies)
        phasors = self.amplitude * unit_phasors(angles)
        return self.form.matrix_of(phasors, np.arange(len(positions)))


def _is_less_noisy(part: MeasuredFrequencies, whole: MeasuredFrequencies | None) -> bool:
    """Return True if a part of a table has a fraction of the noise of all, or all of it shows nothing."""
    return whole is None or part.noise < LESS_NOISE * whole.noise


def _positions_on_axis(phasors: Complex, frequencies: Floats, expected: Floats) -> Floats:
    """Return the position of each row of cos + i·sin (rows, pairs) along one axis; NaN for a row at none.

    A pair that turns less than once in thousands of rows shows where each row is. Fast pairs alone
    show a position only up to whole turns, so rows are then compared with those of many positions.
    """
    slowest_frequency = np.abs(frequencies[frequencies != 0]).min(initial=np.inf)
    are_all_fast = slowest_frequency >= SLOW
    if are_all_fast:
        cosines_and_sines = np.hstack([phasors.real, phasors.imag])
        render = partial(_cos_and_sin, frequencies)
        return measure.match_positions(cosines_and_sines, render, expected)
    return _positions_near_expected_or_0(phasors, frequencies, expected)


def _positions_near_expected_or_0(
    phasors: Complex, frequencies: Floats, expected: Floats
) -> Floats:
    """Return the position of each row, looked for near the expected one, and else near 0; NaN if at neither.

    Far out, even the slowest pair has turned several times, so that it shows a position only near a
    guess. Rows that are not where they should be are often near 0, as those of a counter that began again.
    """
    positions = measure.solve_positions(phasors, frequencies, expected)
    is_lost = np.isnan(positions)
    near_zero = np.zeros(np.count_nonzero(is_lost))
    positions[is_lost] = measure.solve_positions(phasors[is_lost], frequencies, near_zero)
    return positions


def _cos_and_sin(frequencies: Floats, positions: Floats) -> Floats:
    """Return the rows [cos | sin] of some positions."""
    angles = np.multiply.outer(positions, frequencies)
    return np.hstack([np.cos(angles), np.sin(angles)])


INVERSES = {"wavelengths": 2 * np.pi, "1/inv_freq": 1.0}
"""Vectors that hold a number divided by the frequencies, and that number."""

FREQUENCY_RTOL = 1e-5
"""Relative error of frequencies that other programs compute: powers in float32, at worst."""

FREQUENCY_SIGMA = 0.25 * FREQUENCY_RTOL
"""Relative standard error of such frequencies: FREQUENCY_RTOL, the worst error, is four of these."""


def standard_errors_of_powers(frequencies: Floats) -> Floats:
    """Return the standard error of each frequency that another program computed as a power in float32."""
    return np.asarray(FREQUENCY_SIGMA * np.abs(frequencies) + TINY)


@dataclass(frozen=True, eq=False)
class FrequencyComputation(WaveComputation):
    """A vector of frequencies: one row, one column per pair."""

    holds: str = "frequencies"  # or wavelengths, or 1/inv_freq

    def with_schedule(self, schedule: FrequencySchedule) -> "FrequencyComputation":
        """Return the computation with another schedule; an attention factor does not show in frequencies."""
        return replace(self, schedule=schedule, frequencies=schedule.frequencies)

    def rendered(self, rows: Indices) -> Floats:
        """Return the numbers of the vector, (1, pairs): frequencies, or wavelengths if it holds these."""
        # The rounding of float32 is within `bound`: only that of coarser dtypes is imitated.
        coarse_dtype = self.arithmetic.without_float32().frequencies
        frequencies = rounded_to(self.amplitude * self.frequencies, coarse_dtype)
        one_row = self._inverted_for_wavelengths(frequencies)[None]
        # Forms arrange complex numbers: the cosines and sines of tables. These have no imaginary part.
        return self.form.matrix_of(one_row.astype(np.complex128), rows)

    def _inverted_for_wavelengths(self, values: Floats) -> Floats:
        """Return 2π / values if the vector holds wavelengths, and the values if it holds frequencies.

        A wavelength is 2π / frequency, and a frequency is 2π / wavelength. So this leads from
        frequencies to the numbers of the vector, and from these back to frequencies.
        """
        if self.holds not in INVERSES:
            return values
        with np.errstate(divide="ignore"):
            # Pairs that do not turn (partial rotation) have an infinite wavelength.
            return np.asarray(INVERSES[self.holds] / values)

    def bound(self, rows: Indices) -> Floats:
        return np.asarray(FREQUENCY_RTOL * np.abs(self.rendered(rows)))

    def measured_frequencies(self, sample: Floats, rows: Indices) -> MeasuredFrequencies | None:
        """Return the frequencies that a vector holds, each with the error that it may have.

        A vector of wavelengths w shows the frequencies 2π / w. None is returned if it holds NaN or
        infinity.

        Args:
            sample: The numbers of the vector, (1, columns).
            rows: The index of its only row.
        """
        if not np.isfinite(sample).all():
            return None
        numbers = self._number_of_each_pair(sample, rows)
        # By mistake, all frequencies may have been multiplied by a factor, such as 2. It is divided out.
        factor_of_all = self.amplitude
        frequencies = self._inverted_for_wavelengths(numbers) / factor_of_all
        # Another program may have computed powers in float32, and rounded them to a dtype.
        error_of_powers = standard_errors_of_powers(frequencies)
        error_of_rounding = self.storage.half_unit(frequencies)
        return MeasuredFrequencies(
            values=frequencies,
            errors=error_of_powers + error_of_rounding,
            amplitude=1.0,  # of cosines and sines, which a vector does not have
            is_folded=False,  # Signs are there. They are lost only if frequencies come from cosines.
        )

    def _number_of_each_pair(self, sample: Floats, rows: Indices) -> Floats:
        """Return the numbers of a vector (1, columns) in the order of pairs, which its columns may not have."""
        one_row = self.form.phasors(sample, rows)  # complex numbers without imaginary parts
        assert one_row is not None  # A vector holds every frequency.
        return np.asarray(one_row[0].real)

    def measured_positions(self, matrix: Floats, rows: Indices) -> Floats | None:
        return None

    @property
    def reading(self) -> tuple[object, ...]:
        return self.form, self.holds, self.amplitude, self.storage


@dataclass(frozen=True)
class Vector(PhasorForm):
    """Numbers in a single row, one per pair."""

    reversed: bool = False

    def matrix_of(self, phasors: Complex, rows: Indices) -> Floats:
        return phasors.real[:, self._order]

    def phasors(self, matrix: Floats, rows: Indices) -> Complex:
        return matrix[:, self._order].astype(np.complex128)

    @property
    def _order(self) -> slice:
        """The order of the columns: from the first to the last, or the other way round."""
        return slice(None, None, -1 if self.reversed else 1)

    def errors(self, bound: Floats, rows: Indices) -> Floats:
        return bound


@dataclass(frozen=True, eq=False)
class SchemeComputation(Computation):
    """Tensors as the engine makes them, for schemes of which no more is known than their parameters."""

    scheme: Scheme
    tensors: tuple[str, ...]

    @cached_property
    def tables(self) -> list[Table]:
        made = named_tensors(self.scheme.in_dtype("float64"))
        return [made[name] for name in self.tensors]

    @property
    def rows(self) -> int:
        return self.tables[0].rows

    @property
    def tensor_count(self) -> int:
        return len(self.tensors)

    def rendered(self, rows: Indices) -> Floats:
        return np.concatenate([widened(table.pick(rows)) for table in self.tables], axis=1)

    def bound(self, rows: Indices) -> Floats:
        return np.asarray(FLOAT32_FUNCTION * np.maximum(np.abs(self.rendered(rows)), 1.0))


@dataclass(frozen=True, eq=False)
class RegimeComputation(Computation):
    """Two computations, one for a range of rows and one for all others."""

    inside: Computation
    outside: Computation
    first: int
    """The first row of the range."""
    last: int
    """The last row of the range."""

    @property
    def rows(self) -> int:
        return self.outside.rows

    def rendered(self, rows: Indices) -> Floats:
        return self._chosen(rows, self.inside.rendered(rows), self.outside.rendered(rows))

    def bound(self, rows: Indices) -> Floats:
        return self._chosen(rows, self.inside.bound(rows), self.outside.bound(rows))

    def exactly(self) -> Computation:
        return replace(self, inside=self.inside.exactly(), outside=self.outside.exactly())

    def _chosen(self, rows: Indices, inside: Floats, outside: Floats) -> Floats:
        is_inside = (rows >= self.first) & (rows <= self.last)
        return np.where(is_inside[:, None], inside, outside)
