"""A tensor read as the tables that it should hold.

A name rarely states how a table lies in a tensor, and a shape often allows several ways. Each of them is a *reading*:
the shape (2, 64, 128) may be read as two copies of cosines (64, 128), or as cosines (64, 128) and then sines.
`find_best_reading` finds the one that is meant.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pecli.compare.arrangement import Arrangement, make_straight
from pecli.compare.candidate import CandidateTable, EncodingOrigin, Expected, candidate_of
from pecli.compare.comparison import Comparison, compare_parts
from pecli.compare.factors import first_along
from pecli.compare.forms import Form, joined
from pecli.compare.part import Part
from pecli.compare.probes import measure_mean_error, take_found_probes
from pecli.compare.problems import DoubledDifferently
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import AnyArray, row_blocks, widest
from pecli.engine.named_values import NamedValues

if TYPE_CHECKING:  # comparing two files needs no scheme
    from pecli.engine.schemes.scheme import Scheme

MAX_DISTANCE = 0.1
"""Largest mean error of a table that is recognised by its values: unrelated waves differ by 0.8 on average."""
MAX_SAME_DISTANCE = 1e-3  #: mean error below which a table is the expected one, apart from rounding
MAX_POWER_VARIATION = 0.1  #: how far cos² + sin² may vary, relative to its mean


class FoundTables(NamedTuple):
    """Tables that were found, by the names that a scheme has for them."""

    scheme: "Scheme | None"  #: None if no scheme makes such tables
    tables: dict[str, AnyArray]


@dataclass(frozen=True)
class Reading:
    """A tensor in one arrangement, beside the tables that it should then equal.

    Attributes:
        array: The tensor.
        candidate: The table, or the cosines and sines, that it is read as.
        arrangement: What its axes and columns count, such as «copy 2, row 64, frequency 128».
        parts: The places of the tensor that have to equal a table: one for cosines alone, two for
            cosines and sines, four for rotation matrices.
        scheme: The scheme that makes the tables; None if no scheme does.
        is_complex: True for complex numbers, which are read as pairs.
    """

    array: AnyArray
    candidate: CandidateTable
    arrangement: Arrangement
    parts: tuple[Part, ...]
    scheme: "Scheme | None"
    is_complex: bool

    @classmethod
    def straight(cls, name: str, expected: Expected, array: AnyArray, *, masked: bool) -> "Reading":
        """Return the reading of an array as it stands, without copies or doubled columns.

        Args:
            name: The name of the table.
            expected: The table, of the shape of the array.
            array: The tensor.
            masked: True if the most negative number of a dtype stands for −∞.
        """
        return cls(
            array=array,
            candidate=candidate_of({name: expected}),
            arrangement=make_straight(array.shape),
            parts=(Part.of_arrays(expected, array, masked=masked, name=name),),
            scheme=None,
            is_complex=False,
        )

    @property
    def name(self) -> str:
        """The name of the table, or `cos_sin`."""
        return self.candidate.name

    @property
    def form(self) -> Form:
        return self.arrangement.form

    @property
    def holds_both(self) -> bool:
        """True if the tensor holds cosines and sines."""
        return len(self.candidate.names) > 1

    @property
    def transposed(self) -> bool:
        return self.arrangement.folding.transposed

    @property
    def is_guess(self) -> bool:
        """True if values must confirm the arrangement, as other tables have such a shape, too."""
        return self.arrangement.folding.is_guess or self.form.is_signed

    @property
    def origin(self) -> EncodingOrigin:
        """The encoding of a model that the table belongs to; only tables of models have one."""
        assert self.candidate.origin is not None
        return self.candidate.origin

    @property
    def is_learned(self) -> bool:
        """True if the expected values are not known, as no scheme makes them."""
        return self.candidate.origin is not None and self.scheme is None

    @property
    def copy_count(self) -> int:
        """The number of copies of the table in the tensor; doubled columns are two copies."""
        return math.prod(self.parts[0].copies)

    @property
    def step(self) -> float:
        """The number that the integer 1 stands for; 0 if elements are numbers themselves."""
        return self.parts[0].step

    def compare(self, tolerance: Tolerance, *, name: str, any_dtype: bool) -> Comparison:
        """Compare all parts with their tables, and the order of doubled columns with the model's.

        A tensor may have each frequency twice, as c0 c1 … c0 c1 … or c0 c0 c1 c1 …. If the model
        rotates by the other order, every element is right, but the rotation would combine channels of
        two pairs. This is a finding, with which the comparison fails.

        Args:
            tolerance: The errors that pass.
            name: The name of the tensor.
            any_dtype: True if another floating dtype, or integers of another width, pass as well.
        """
        result = compare_parts(
            self.parts, tolerance, name=name, role=self.name, any_dtype=any_dtype
        )
        if result.finding is None and self._is_doubled_differently(result):
            finding = DoubledDifferently(self.form.doubled, self.candidate.layout)
            return replace(result, finding=finding)
        return result

    def _is_doubled_differently(self, result: Comparison) -> bool:
        """Return True if the tensor has two equal columns per frequency, in another order than the model.

        A tensor that is only read as if it had them, and whose columns differ, has wrong values
        instead, which the comparison reports.

        Args:
            result: The comparison of the values.
        """
        if not self.candidate.is_doubled_differently(self.form):
            return False
        has_right_values = not result.mismatched
        return has_right_values or self._has_equal_probed_copies()

    # The tables that were found

    @property
    def first_parts(self) -> Mapping[str, Part]:
        """The first part of each table, by its name; rotation matrices have two parts for each."""
        parts: dict[str, Part] = {}
        for part in self.parts:
            parts.setdefault(part.name, part)
        return parts

    def take_first_copies(self) -> dict[str, AnyArray]:
        """Return one copy of each table that was found, by its name."""
        return {name: part.first_copy for name, part in self.first_parts.items()}

    def take_found_tables_and_scheme(self) -> FoundTables:
        """Return one copy of the tables that were found, and the scheme that should have made them.

        A search for the reason of an error gets these: it changes parameters of the scheme until it
        makes the tables. A batch of 3 cosines, (3, 64, 128), gives one table (64, 128). Cosines alone
        may have an axis per axis of positions, (3, L, D): these are one table of 3·L rows. A bias
        (heads, L, L) stays as it is, since its heads differ.
        """
        found = self._take_first_copies_with_both_columns()
        is_one_table_of_frequencies = (
            self.candidate.has_frequencies and self.form.function_count == 1
        )
        if not is_one_table_of_frequencies:
            return found
        tables = {name: table.reshape(-1, table.shape[-1]) for name, table in found.tables.items()}
        return found._replace(tables=tables)

    def _take_first_copies_with_both_columns(self) -> FoundTables:
        """Return one copy of each table that was found, with both columns per frequency if possible.

        A tensor may have two columns for each of 64 frequencies, of which one may be wrong and the
        other right. So both are returned, (64, 128), and the scheme is set to make them in the same
        layout. A tensor that holds cosines and sines, or a scheme without a layout, has one column per
        frequency: only that is returned.
        """
        scheme = self.scheme
        if scheme is None or not self.explains_both_columns:
            return FoundTables(scheme, self.take_first_copies())
        doubling = self.form.doubled  # halves or interleaved
        layout: NamedValues = {"layout": doubling}
        both_columns = joined(self._take_both_columns(), doubling)
        return FoundTables(replace(scheme, **layout), {self.name: both_columns})

    @property
    def explains_both_columns(self) -> bool:
        """True if a search for a mistake gets both columns that a tensor has for each frequency.

        Only their order, c0 c0 c1 c1 or c0 c1 c0 c1, shows that the layout is wrong. So one column is
        enough if the scheme has no layout, or if the tensor holds cosines and sines together.
        """
        holds_one_function = self.form.function_count == 1
        is_doubled = self.form.doubled != ""
        has_layout = self.scheme is not None and "layout" in self.scheme.parameters()
        return is_doubled and holds_one_function and has_layout

    def _take_both_columns(self) -> list[AnyArray]:
        """Return one copy of the first and of the second columns of all frequencies.

        Of a batch of 3 tables (12, 16) with 8 frequencies, each is (12, 8): columns 0 … 7 and
        8 … 15 of the first table if they are doubled in halves. Signed columns [−s0 … s0 …] are
        two parts of the tensor, others are its first axis of copies.
        """
        if self.form.is_signed:
            return [part.first_copy for part in self.parts]
        both_columns = self.parts[0].found  # (2, copies…, rows…, frequencies)
        axes_of_other_copies = len(self.parts[0].copies) - 1
        return [first_along(columns, axes_of_other_copies) for columns in both_columns]

    def has_equal_copies(self, atol: float = 0.0, *, columns_may_differ: bool = False) -> bool:
        """Return True if all copies of a table, such as those of a batch, are the same.

        Args:
            atol: The absolute tolerance.
            columns_may_differ: True if the two columns of a frequency, [c0 c1 … c0 c1 …], do not
                count as copies of each other.
        """
        first_copy = self._locate_first_copy(both_columns=columns_may_differ)
        first_parts = self.first_parts
        return all(
            _are_copies_close(part, first_parts[part.name], first_copy, atol) for part in self.parts
        )

    def _locate_first_copy(self, *, both_columns: bool) -> tuple[slice, ...]:
        """Return the index of the copy that all others should equal, with a slice per axis of copies.

        A batch of 3 tables, (3, rows, frequencies), has one axis of copies: the index is [0:1]. If each
        frequency has two columns in it, the copies are (2, 3, rows, frequencies), and the index is
        [0:1, 0:1], or [:, 0:1] for both columns of the first table.

        Args:
            both_columns: True for both columns of each frequency, if they are an axis of copies.
        """
        first_along_all_axes = (slice(0, 1),) * len(self.parts[0].copies)
        # Signed columns, [−s0 s0 …], are two parts of the tensor instead of an axis.
        has_axis_of_columns = bool(self.form.doubled) and not self.form.is_signed
        if both_columns and has_axis_of_columns:
            return (slice(None), *first_along_all_axes[1:])
        return first_along_all_axes

    # What a few rows show

    @cached_property
    def distance(self) -> float:
        """The mean error, judging by a few positions."""
        if not self.array.size:
            return 0.0
        return _measure_mean_error(self.parts)

    @property
    def is_near(self) -> bool:
        return self.distance < MAX_DISTANCE

    @cached_property
    def is_negated(self) -> bool:
        """True if a few rows hold the opposite numbers of the table, as if a sign was forgotten."""
        opposite_parts = [replace(part, negated=not part.negated) for part in self.parts]
        return _measure_mean_error(opposite_parts) < MAX_SAME_DISTANCE

    @cached_property
    def is_plausible(self) -> bool:
        """True if the tensor looks like a table in this reading, even one with a wrong base.

        The copies of a batch are equal then, and cos² + sin² is the same in all elements.
        """
        if not self.holds_both:
            return self._has_equal_probed_copies()
        # The constant sum confirms copies as well; two columns per frequency may still differ.
        are_columns_equal = not self.form.doubled or self._has_equal_probed_copies()
        return are_columns_equal and self.has_constant_power

    def _has_equal_probed_copies(self) -> bool:
        """Return True if some rows are the same in the first and the last copies, doubled columns included.

        Rotation matrices [[cos, −sin], [sin, cos]] hold each function in two parts, one of them
        negated: these are copies of each other as well.
        """
        first_copy = (slice(1),) * len(self.parts[0].copies)
        first_rows_by_name: dict[str, AnyArray] = {}
        for part in self.parts:
            rows = part.as_in_table(take_found_probes(part))
            first_rows = first_rows_by_name.setdefault(part.name, rows[first_copy])
            if not np.array_equal(np.broadcast_to(first_rows, rows.shape), rows, equal_nan=True):
                return False
        return True

    @property
    def has_constant_power(self) -> bool:
        """True if the sum of the squares of both functions hardly varies."""
        first_function = self.parts[0]
        second_function = self.parts[-1]
        with np.errstate(all="ignore"):
            power = take_found_probes(first_function) ** 2 + take_found_probes(second_function) ** 2
            return bool(np.ptp(power) <= MAX_POWER_VARIATION * np.abs(power.mean()) < math.inf)


def _measure_mean_error(parts: Sequence[Part]) -> float:
    """Return the mean error of all parts of a tensor, judging by a few positions."""
    return float(np.mean([measure_mean_error(part) for part in parts]))


def _are_copies_close(part: Part, first: Part, first_copy: tuple[slice, ...], atol: float) -> bool:
    """Return True if every copy of a table in a tensor equals the first copy, within a tolerance.

    Rotation matrices [[cos, −sin], [sin, cos]] hold the cosines in two parts: the first copy of the
    first part counts for both. Rows are compared in blocks, since the float64 values of a large
    tensor may not fit into memory.

    Args:
        part: The copies of the table, (copies…, rows…, frequencies).
        first: The first part with the same table, which may be the part itself.
        first_copy: The index of the first copy in it, a slice per axis of copies: [0:1] of a batch.
        atol: The absolute tolerance.
    """
    row_count, *row_shape = part.found.shape[len(part.copies) :]
    elements_per_row = math.prod(row_shape) * math.prod(part.copies)
    for rows in row_blocks((row_count, elements_per_row)):
        values = _take_rows_of_copies(part, rows)
        values_of_first_copy = _take_rows_of_copies(first, rows)[first_copy]
        if not np.isclose(values, values_of_first_copy, rtol=0, atol=atol, equal_nan=True).all():
            return False
    return True


def _take_rows_of_copies(part: Part, rows: slice) -> AnyArray:
    """Return some rows of every copy of a table, (copies…, rows…, frequencies), as float64 numbers.

    They have the sign of the table also if the tensor holds the opposite numbers.
    """
    all_copies = [slice(None)] * len(part.copies)
    return part.as_in_table(widest(part.found[(*all_copies, rows)]))
