"""The computation of rotated queries and keys, and their numbers as observations."""

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import NamedTuple

import numpy as np

from pecli.engine.application import PairLayouts
from pecli.engine.arrays import Array, Complex, Flags, Floats, Indices
from pecli.engine.schemes.rope import Rope
from pecli.explain import measure
from pecli.explain.computation import FLOAT32_FUNCTION, WaveComputation, unit_phasors
from pecli.explain.element_places import ElementPlaces
from pecli.explain.measure import MeasuredFrequencies
from pecli.explain.observations import Observations
from pecli.explain.rotated_heads import ConvertedHeads, RotaryChannels, RotatedHeads
from pecli.explain.storage import half_ulp
from pecli.explain.subject import computation_of
from pecli.explain.token_rows import TokenRows

CORNERS = (1 + 1j, 1 - 1j, -1 + 1j, -1 - 1j)
"""Signs of the errors of a cosine and a sine: 1 − 1i is a cosine that is too large, and a sine that is too small."""


MAX_MISFIT = 0.05
"""Share of rotated heads that phasors may leave unexplained: those of bfloat16 leave a tenth of this."""


NOISE_RATIO = 1.5
"""Noise that fitted phasors leave less of: one phasor per row takes a part 1/√heads of it, 0.7 at two heads."""


class HeadRotation(NamedTuple):
    """The rotation that queries or keys should have."""

    rope: Rope
    layouts: PairLayouts
    trailing: bool  # whether the last channels of a head rotate, if only some do
    axis: int  # the axis of positions in the tensor as it was given

    def channels(self, width: int) -> RotaryChannels:
        """Return which channels of a head rotate: of a width of 128 and a rotary dim of 32, 0 … 31 or 96 … 127."""
        dim = self.rope.rotary_dim
        first = width - dim if self.trailing else 0
        return RotaryChannels(first, dim // 2, *self.layouts)


@dataclass(frozen=True, eq=False)
class RotatedComputation(WaveComputation):
    """The computation of rotated queries or keys: their phasors, applied to the values before."""

    _: KW_ONLY
    tokens: TokenRows
    dtype: str  # of the tensor: phasors that are measured in it are as uncertain
    places: ElementPlaces  # the heads and rows in the tensor as it was given

    @property
    def heads(self) -> RotatedHeads:
        """The form, which is that of rotated heads."""
        assert isinstance(self.form, RotatedHeads)
        return self.form

    @property
    def are_rows_tokens(self) -> bool:
        """True: other positions are those of tokens, not of the rows of a table."""
        return True

    @property
    def has_several_axes(self) -> bool:
        """True if tokens have different positions along time, height and width.

        Tokens of text have the same position along all axes, as if there were only one.
        """
        return bool((self.positions != self.positions[0]).any())

    def at_rows(self, rows: slice) -> "RotatedComputation":
        """Return the computation of some rows: their positions, and their heads before the rotation."""
        before = ConvertedHeads(self.heads.before.array[:, :, rows])
        form = replace(self.heads, before=before)
        return replace(self, positions=self.positions[:, rows], form=form)

    @property
    def _rounding(self) -> float:
        stored = super()._rounding
        return max(stored, float(half_ulp(np.ones(1), self.dtype)[0]))

    def phasors_at(self, rows: Indices) -> Complex:
        """Return the phasors of some rows, one per pair."""
        angles = self.arithmetic.angles(self.row_positions(rows), self.frequencies)
        return np.asarray(self.amplitude * unit_phasors(angles))

    def bound(self, rows: Indices) -> Floats:
        """Return how far each element may be off if another library rotates the same heads.

        Returns:
            The errors (rows, heads · channels). Without rounded products, a channel of size 5 is off
            by 5e-6 if the cosines are off by 1e-6.
        """
        if not self.heads.formula.rounds:
            return super().bound(rows)
        # The sums of two products are at best as precise as those of float32.
        error_of_sums = np.full(
            (len(rows), len(self.frequencies)), abs(self.amplitude) * FLOAT32_FUNCTION
        )
        spread = self._spread_by_rounding(rows)
        return np.asarray(spread + self.form.errors(error_of_sums, rows))

    def _spread_by_rounding(self, rows: Indices) -> Floats:
        """Return how far rounded products (rows, heads · channels) of slightly wrong cosines may lie apart.

        If products are rounded to bfloat16, a cosine of 0.500001 for 0.5 mostly changes nothing, but
        tips some products over to the next number, 0.4 % away. Rounding keeps the order of numbers.
        So the largest and the smallest product are those of the largest and the smallest cosine and
        sine: heads are rotated with all four combinations, which are compared.
        """
        errors = self.phasor_errors(rows)  # of cosines and of sines, (rows, pairs)
        phasors = self.phasors_at(rows)  # cos + i·sin, (rows, pairs)
        rotated = [self.form.matrix_of(phasors + signs * errors, rows) for signs in CORNERS]
        return np.asarray(np.max(rotated, axis=0) - np.min(rotated, axis=0))

    def measured_frequencies(self, sample: Floats, rows: Indices) -> MeasuredFrequencies | None:
        """Measure the frequencies of rows that are not zeros, which show no rotation."""
        has_values = sample.any(axis=1)
        if np.count_nonzero(has_values) < 2:
            return None
        return super().measured_frequencies(sample[has_values], rows[has_values])

    def measured_positions(self, matrix: Floats, rows: Indices) -> Floats | None:
        """Return the positions by which some rows of heads were rotated.

        A phasor cos + i·sin is the rotation of one pair of channels in one row. At position p it is
        that of the angle p · frequency, so that a row's phasors show its position.

        Args:
            matrix: Some rows of rotated heads, (rows, heads · channels).
            rows: The indices of these rows.

        Returns:
            The positions, (axes, rows), with NaN for a row that no position explains; None if no
            phasors can be measured.
        """
        phasors = self.form.phasors(matrix, rows)  # (rows, pairs)
        if phasors is None:
            return None
        expected = self.positions[:, rows]  # (axes, rows)
        are_axes_alike = bool((expected == expected[0]).all())
        if are_axes_alike:
            return self._positions_of_text(phasors, expected)
        return self._positions_by_axis(phasors, expected)

    def _positions_of_text(self, phasors: Complex, expected: Floats) -> Floats:
        """Return the positions (axes, rows) of rows that have the same one on every axis, like text.

        All pairs together show one position per row, such as 5 6 7. It counts for time, height and
        width, which makes three rows of 5 6 7.

        Args:
            phasors: The rotation of each row and pair, cos + i·sin.
            expected: The expected positions, (axes, rows), equal on all axes.
        """
        axis_count = len(expected)
        positions = measure.solve_positions(phasors, self.frequencies, expected[0])
        return np.tile(positions, (axis_count, 1))

    def _positions_by_axis(self, phasors: Complex, expected: Floats) -> Floats:
        """Return the positions (axes, rows) of rows that have different ones on each axis.

        Axes are solved one after the other, that with the slowest pairs first. Fast pairs show a position
        only up to whole turns, so it is looked for where the axis before suggests: if rows are 9 too
        far along the time axis, they are probably 9 too far along height and width as well.

        Args:
            phasors: The rotation of each row and pair, cos + i·sin.
            expected: The expected positions, (axes, rows). An axis that no pair follows keeps them.
        """
        solved = np.array(expected)
        shift_of_axis_before: Floats = np.zeros(expected.shape[1])
        for axis in self._axes_with_slowest_first():
            pairs = self.axes == axis
            guess = expected[axis] + shift_of_axis_before
            solved[axis] = measure.solve_positions(
                phasors[:, pairs], self.frequencies[pairs], guess
            )
            # Rows at no position (NaN) are looked for at their expected position next.
            shift_of_axis_before = np.nan_to_num(solved[axis] - expected[axis])
        return solved

    def _axes_with_slowest_first(self) -> list[int]:
        """Return the axes that some pairs follow, the one with the slowest pair first."""
        followed = [axis for axis in range(len(self.positions)) if (self.axes == axis).any()]
        return sorted(
            followed, key=lambda axis: float(np.abs(self.frequencies[self.axes == axis]).min())
        )

    def by_head(self, flags: Flags) -> Flags:
        """Return flags of the matrix (rows, heads · channels) as (heads, rows, channels)."""
        rows = len(flags)
        return flags.reshape(rows, -1, self.heads.before.channels).transpose(1, 0, 2)

    def from_heads(self, flags: Flags) -> Flags:
        """Return flags (heads, rows, channels) as those of the matrix (rows, heads · channels)."""
        return np.asarray(flags.transpose(1, 0, 2).reshape(flags.shape[1], -1))

    def head_index(self, head: int) -> tuple[int, ...]:
        """Return the index of a head in the axes of the tensor: (1, 0) for head 8 of (2, 8) heads."""
        return self.places.heads[head]

    def row_number(self, row: int) -> int:
        """Return the number of a row in the tensor, in which rows of padding are counted as well."""
        return self.places.rows[row]

    def element_index(self, head: int, row: int, column: int) -> tuple[int, ...]:
        """Return the index of an element in the tensor: (0, 2, 10, 7) for row 10 of head 2."""
        return self.places.element(head, row, column)


def rotated_computation(
    plan: HeadRotation,
    before: ConvertedHeads,
    tokens: TokenRows,
    dtype: str,
    places: ElementPlaces,
) -> RotatedComputation:
    """Return the computation of queries or keys that are rotated without a mistake.

    Nothing is rotated here. A computation describes the steps by which numbers are made (frequencies,
    positions, amplitude, the formula for a pair of channels), so that a search can change one of them, such
    as the base, and compare the result with a file.

    Args:
        plan: The rotary scheme, the layout of pairs, and the channels that rotate.
        before: Queries or keys before the rotation, without rows of padding.
        tokens: The expected position of each row, and which rows are padding.
        dtype: The dtype of the tensor after the rotation.
        places: The heads and rows in the tensor as it was given.
    """
    waves = computation_of(plan.rope, ("cos", "sin"))
    assert waves is not None  # A rotary scheme has cosines and sines.
    return RotatedComputation(
        frequencies=waves.frequencies,
        axes=waves.axes,
        positions=tokens.expected[:, tokens.is_token],
        amplitude=waves.amplitude,
        form=RotatedHeads(before, plan.channels(before.channels)),
        schedule=waves.schedule,
        tokens=tokens,
        dtype=dtype,
        places=places,
    )


class RotationFit(NamedTuple):
    """The norm of some rows of a few rotated heads, and the norms of their differences from two rotations."""

    norm_of_heads: float
    error_of_best: float  # of the rotation of each row and pair that fits best
    error_of_expected: float  # of the rotation that should have been used

    @property
    def shows_rotation(self) -> bool:
        """True if a rotation of each row and pair explains all heads.

        Some rotation always explains a single head. Several heads agree on one only if they were rotated
        by it.
        """
        return self.error_of_best <= MAX_MISFIT * self.norm_of_heads

    @property
    def is_noise(self) -> bool:
        """True if no other rotation explains notably more than the expected one: what is left is noise."""
        return self.shows_rotation and self.error_of_expected <= NOISE_RATIO * self.error_of_best


def rotation_fit(computation: RotatedComputation, matrix: Floats, rows: Indices) -> RotationFit:
    """Return the errors of two rotations of a few heads: the expected one, and the one that fits best.

    They show whether the heads were rotated at all, and whether as expected.

    Args:
        computation: The steps by which the heads should have been rotated.
        matrix: Some rows of the first few heads after the rotation, (rows, heads · channels).
        rows: The indices of these rows.
    """
    heads_before = computation.heads.of_first_few  # the same eight heads before the rotation
    expected_phasors = computation.phasors_at(rows)  # cos + i·sin of the angle of each row and pair
    return RotationFit(
        norm_of_heads=float(np.linalg.norm(matrix)),
        error_of_best=_error_of_best_rotation(heads_before, matrix, rows),
        error_of_expected=_error_of_rotation(heads_before, expected_phasors, matrix, rows),
    )


def _error_of_best_rotation(heads_before: RotatedHeads, matrix: Floats, rows: Indices) -> float:
    """Return the smallest distance of any rotation of some heads from the heads that were found.

    Every pair of channels may turn by another angle in every row, but all heads turn alike.

    Args:
        heads_before: The heads before the rotation.
        matrix: The heads that were found after it, (rows, heads · channels).
        rows: The indices of these rows.
    """
    best_phasors = heads_before.phasors(matrix, rows)
    if best_phasors is None:
        # The heads show no angles: a single head does not, if only half of each pair is rotated.
        return math.inf
    return _error_of_rotation(heads_before, best_phasors, matrix, rows)


def _error_of_rotation(
    heads_before: RotatedHeads, phasors: Complex, matrix: Floats, rows: Indices
) -> float:
    """Return the norm of the difference between rotated heads and the heads that were found.

    Args:
        heads_before: The heads before the rotation.
        phasors: cos + i·sin of the angle by which each row and pair is rotated.
        matrix: The heads that were found after it, (rows, heads · channels).
        rows: The indices of these rows.
    """
    rotated = heads_before.matrix_of(phasors, rows)
    return float(np.linalg.norm(matrix - rotated))


class HeadObservations(Observations):
    """Rotated heads as a matrix with one row per position."""

    def __init__(self, after: ConvertedHeads, dtype: str) -> None:
        self.after = after
        self.tensors: dict[str, Array] = {"after": after.array}
        self.dtype = dtype
        self.rows = after.rows
        self.columns = after.columns

    def matrix(self, rows: Indices | slice) -> Floats:
        return self.after.matrix(rows)

    def measured(self, rows: Indices | slice) -> Floats:
        return self.after.first_few.matrix(rows)

    @property
    def measured_columns(self) -> int:
        return self.after.first_few.columns

    def at_rows(self, rows: slice) -> "HeadObservations":
        return HeadObservations(ConvertedHeads(self.after.array[:, :, rows]), self.dtype)

    def by_tensor(self, flags: Flags) -> dict[str, Flags]:
        return {"after": flags}
