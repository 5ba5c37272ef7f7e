"""The reading of a tensor that is meant: the nearest to the expected table, or else the least doubtful.

A few rows of each reading are compared with the expected table, and only the chosen one is then compared whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pecli.compare.arrangement import Arrangement, find_arrangements
from pecli.compare.candidate import CandidateTable, Expected
from pecli.compare.factors import view_functions
from pecli.compare.forms import STEPS, Form, find_integer_for_1
from pecli.compare.part import Part, is_float_table
from pecli.compare.reading import MAX_SAME_DISTANCE, Reading
from pecli.engine.arrays import COMPLEX, AnyArray, dtype_name, numpy_dtype, widest

MAX_GUESS_DISTANCE = 0.01
"""Largest mean error of a guess whose copies differ, as when a few of its elements are wrong."""
MIN_FLAT_ROWS = 8
"""Rows of a table that a vector may be: shorter ones are rather the frequencies of another dim."""
CONSTANT_ELEMENTS = 1 << 16  #: elements that are compared with the first one at once


def find_best_reading(
    array: AnyArray,
    candidates: Iterable[CandidateTable],
    *,
    is_text: bool = False,
    upright: bool = False,
) -> Reading | None:
    """Return the way to read a tensor as an expected table that fits best; None if none makes sense.

    A tensor (8, 64, 128) may be 8 copies of a table (64, 128), or 64 copies of one with 8 rows, and
    the values of a few rows decide:

    1. The ways in which programs usually write tables are tried first. The first one in which the
       rows equal those of the table is returned, or else the nearest one, if rounding alone
       explains its errors.
    2. If there is none, guesses are tried in the same manner, such as heads that are folded into
       columns.
    3. If there is none either, the values are wrong. Of all ways, the one is returned that leaves
       the fewest doubts; a comparison in this way then shows which values are wrong.

    Args:
        array: The tensor.
        candidates: The tables that it may hold, the likelier ones first.
        is_text: True for the rows of a .csv file, which have no other axes.
        upright: True if rows must be positions, not frequencies.
    """
    tables = [*candidates]
    if upright:
        tables = [replace(table, transposable=False) for table in tables]
    tensor = _RealTensor(array, is_text=is_text)
    readings: list[Reading] = []
    for guesses in (False, True):
        for reading in tensor.find_readings_as_any(tables, guesses=guesses):
            if reading.distance == 0.0:
                return reading
            readings.append(reading)
        nearly_equal = _find_nearly_equal(readings)
        if nearly_equal is not None:
            return nearly_equal
    # If integers are wrong, the largest one is still a hint at their scale: 127 stands for 1.0.
    return _find_least_doubtful(readings, integer_for_1=find_integer_for_1(array))


def _find_nearly_equal(readings: Iterable[Reading]) -> Reading | None:
    """Return the reading whose values are nearest to its table; None if they are too far to be the same."""
    nearest = min(readings, key=lambda reading: reading.distance, default=None)
    if nearest is None or not nearest.distance < MAX_SAME_DISTANCE:
        return None
    return nearest


def find_readings(array: AnyArray, candidate: CandidateTable) -> Iterator[Reading]:
    """Yield all ways to read a tensor as an expected table that its shape allows, without guesses."""
    return _RealTensor(array, is_text=False).readings(candidate, guesses=False)


class _RealTensor:
    """A tensor of real numbers, made of any array when it is first needed.

    A transposed file stays a view of the file: readings only split and exchange its axes.
    """

    def __init__(self, array: AnyArray, *, is_text: bool) -> None:
        self._array = array
        self.is_text = is_text
        self.is_complex = dtype_name(array.dtype) in COMPLEX
        self.shape = (*array.shape, 2) if self.is_complex else array.shape

    @cached_property
    def values(self) -> AnyArray:
        """The numbers; complex ones (…,) are pairs (…, 2)."""
        return _as_pairs(self._array) if self.is_complex else self._array

    @cached_property
    def is_constant(self) -> bool:
        return _is_constant(self.values)

    def find_readings_as_any(
        self, candidates: Iterable[CandidateTable], *, guesses: bool
    ) -> Iterator[Reading]:
        """Yield all ways to read the tensor as one of several expected tables, the likelier tables first."""
        for candidate in candidates:
            yield from self.readings(candidate, guesses=guesses)

    def readings(self, candidate: CandidateTable, *, guesses: bool) -> Iterator[Reading]:
        """Yield all ways to read the tensor as an expected table that its shape allows.

        (2, 64, 128) may be cosines (64, 128) and then sines, a batch of two tables, or 64 copies of a
        table with two rows. Nothing is compared here: a reading measures its distance when it is asked.

        Args:
            candidate: The table, or the cosines and sines, that it may hold.
            guesses: True for the ways that only values can confirm, False for the others.
        """
        if not self._array.size:
            return
        for arrangement in self._find_arrangements(candidate, guesses=guesses):
            if guesses and self.is_constant:
                return  # Memory that was never written is as constant as cosines at position 0.
            yield from self._find_readings_by_scale(candidate, arrangement)

    def _find_arrangements(
        self, candidate: CandidateTable, *, guesses: bool
    ) -> Iterator[Arrangement]:
        """Yield the orders of axes and columns in which the tensor may hold a candidate's tables."""
        for form in candidate.forms(guesses=guesses):
            if self._may_have(form, candidate):
                yield from find_arrangements(
                    self.shape, candidate, form, is_text=self.is_text, guesses=guesses
                )

    def _may_have(self, form: Form, candidate: CandidateTable) -> bool:
        """Return True if the tensor may have a candidate's tables in a form.

        Complex numbers are always pairs. Their real parts, and the diagonal of rotation matrices, are
        cosines by definition, so that sines cannot come first.
        """
        if self.is_complex and form.arrangement != "pairs":
            return False
        is_rotation = self.is_complex or form.arrangement == "matrices"
        return not is_rotation or candidate.names != ("sin", "cos")

    def _find_readings_by_scale(
        self, candidate: CandidateTable, arrangement: Arrangement
    ) -> Iterator[Reading]:
        """Yield the tensor in one order of axes, beside the tables that it has to equal.

        Floats are yielded once. Integers may be quantised, and no file states their scale: an int8 table
        is yielded as whole numbers, then with 127, 128 and 64 standing for 1.0.
        """
        # One view per place of a function: [[cos, −sin], [sin, cos]] of rotation matrices are four.
        views = view_functions(self.values, arrangement.factors)
        view_shape = views[0].view.values.shape  # (copies…, rows…, frequencies)
        row_count = view_shape[-2] if len(view_shape) > 1 else 1
        expected = candidate.make(row_count)
        first_table = expected.tables[candidate.names[0]]
        copy_axes_of_view = len(view_shape) - len(first_table.shape)
        shape_of_one_copy = view_shape[copy_axes_of_view:]
        if shape_of_one_copy != first_table.shape:
            return  # (32, 1) is no table of (32, 0); tables of a grid may have another number of rows.
        copy_axes = arrangement.copy_axes
        for step in _find_steps(self.values, candidate, first_table):
            parts = [
                Part(
                    expected=expected.tables[candidate.names[function]],
                    view=view,
                    negated=negated,
                    step=step,
                    masked=candidate.masked,
                    name=candidate.names[function],
                    copy_axes=copy_axes,
                )
                for function, negated, view in views
            ]
            yield Reading(
                array=self.values,
                candidate=candidate,
                arrangement=arrangement,
                parts=tuple(parts),
                scheme=expected.scheme,
                is_complex=self.is_complex,
            )


def _find_steps(array: AnyArray, candidate: CandidateTable, expected: Expected) -> Sequence[float]:
    """Return the numbers that the integer 1 may stand for; 0 first, for values that are numbers themselves.

    An int8 table of cosines may hold whole numbers, or 127, 128 or 64 may stand for 1.0: the steps
    are 0, 1/127, 1/128 and 1/64.
    """
    if not candidate.quantised or not is_float_table(expected):
        return (0.0,)
    integers_for_1 = STEPS.get(dtype_name(array.dtype), ())
    return (0.0, *(1 / integer for integer in integers_for_1))


def _is_constant(array: AnyArray) -> bool:
    """Return True if all elements are the same number; most arrays differ in the first few."""
    elements = array.reshape(-1, order="A")  # in the order of memory, so that nothing is copied
    for start in range(0, elements.size, CONSTANT_ELEMENTS):
        if (elements[start : start + CONSTANT_ELEMENTS] != elements[0]).any():
            return False
    return True


def _as_pairs(array: AnyArray) -> AnyArray:
    """Return complex numbers (…,) as real ones (…, 2), the real parts first."""
    kind = dtype_name(array.dtype)
    column = np.asarray(array, order="C").astype(kind, copy=False).reshape(*array.shape, 1)
    return column.view(numpy_dtype(COMPLEX[kind]))


# The choice among readings whose values are wrong


class _Doubts(NamedTuple):
    """Doubts about a reading whose values are wrong, the weightiest first; 0 and False are no doubt.

    Of two readings, the first field in which they differ decides: a transposed table with equal
    copies is preferred to an upright one whose copies differ.

    Attributes:
        is_implausible: Copies differ, or cos² + sin² is not constant.
        is_guess: Other tables have such a shape, too.
        is_transposed: Rows are frequencies.
        has_other_mistakes: More is wrong than the sign of all values.
        is_far: The values are not near.
        has_other_scale: The largest integer is 127, say, and is read with 64 standing for 1.0.
        copies: (2, 12, 64) is rather 12 rows than 2, which would have 12 copies.
        distance: The mean error.
    """

    is_implausible: bool
    is_guess: bool
    is_transposed: bool
    has_other_mistakes: bool
    is_far: bool
    has_other_scale: bool
    copies: int
    distance: float

    @classmethod
    def from_reading(cls, reading: Reading, integer_for_1: int) -> "_Doubts":
        """Return the reasons against a way to read a tensor, the weightiest first.

        They are compared as a tuple. Of all ways to read the tensor, the smallest tuple is chosen.

        Args:
            reading: The tensor, read as copies of a table in some order of axes.
            integer_for_1: The integer that most likely stands for 1.0 in the tensor, such as 127 in int8.
        """
        return cls(
            # Equal copies, and cos² + sin² = 1, are the best sign: even a table of a wrong base has them.
            is_implausible=not reading.is_plausible,
            # (2, 12, 64) may be 2 copies of 12 rows, but other tables have such a shape as well.
            is_guess=reading.is_guess,
            # Programs rarely store frequencies as rows.
            is_transposed=reading.transposed,
            # BLOOM's −slope · j is the bias slope · j with a wrong sign. The bias slope · (j − 29) may
            # be nearer, but would be of another form as well.
            has_other_mistakes=not reading.is_negated,
            # The values of a few rows are not those of the expected table.
            is_far=not reading.is_near,
            has_other_scale=_has_other_scale(reading, integer_for_1),
            copies=reading.copy_count,
            distance=reading.distance,
        )


def _has_other_scale(reading: Reading, integer_for_1: int) -> bool:
    """Return True if a tensor is read with another integer standing for 1.0 than the likeliest one.

    With the step 1/64, 64 stands for 1.0. If the largest integer of the tensor is 127, that is the
    likeliest one. Numbers that stand for themselves have the step 0.
    """
    return reading.step > 0 and round(1 / reading.step) != integer_for_1


def _find_least_doubtful(readings: Iterable[Reading], integer_for_1: int) -> Reading | None:
    """Return the likeliest way to read a tensor whose values are wrong; None if none makes sense.

    `integer_for_1` is the one that most likely stands for 1.0 in the tensor; 0 if none does.
    """
    possible = [reading for reading in readings if _is_possible(reading)]
    return min(
        possible, key=lambda reading: _Doubts.from_reading(reading, integer_for_1), default=None
    )


def _is_possible(reading: Reading) -> bool:
    """Return True if a tensor with wrong values may be meant to be read in this way.

    To read (64, 512) as 4 copies of (64, 128) in each row is a guess: other tables have that shape as well.
    Its values have to be near and its copies equal, unless nearly all elements are right.
    """
    if reading.form.is_signed:
        return reading.is_plausible
    if reading.is_guess:
        # Slow cosines are nearly equal at all positions, so that near values alone may be chance.
        is_confirmed = reading.is_near and reading.is_plausible
        return is_confirmed or reading.distance < MAX_GUESS_DISTANCE
    return reading.is_near or _is_likely(reading)


def _is_likely(reading: Reading) -> bool:
    """Return True if a tensor with wrong values likely holds a table in this arrangement of axes.

    (64, 64) may be a table, its transpose, or 64 copies of a vector. Wrong values do not decide. So
    an unusual arrangement needs another sign that it is meant.
    """
    if reading.is_learned:
        return True  # No values are expected, so none are wrong.
    # Transposed tables, and vectors for tables, are unusual: each has its own sign.
    if reading.transposed:
        return _is_transposed_wave(reading)
    is_vector = reading.array.ndim < 2
    expects_vector = len(reading.parts[0].expected.shape) < 2
    if is_vector != expects_vector:
        return _is_likely_with_other_axes(reading)
    # Upright tables are usual if a model requires them, or if the tensor holds nothing else.
    is_required_by_model = reading.candidate.origin is not None
    if is_required_by_model or _holds_one_table_once(reading):
        return True
    # Otherwise it holds several copies. The sign is that they are equal, as even wrong copies are.
    return reading.is_plausible


def _is_transposed_wave(reading: Reading) -> bool:
    """Return True if a tensor that is read transposed begins with position 0 in that direction only.

    All cosines are 1 there, and all sines 0, whatever the frequencies are. Nothing else shows the
    direction of a table whose values are wrong.
    """
    upright_table = widest(reading.parts[0].found)
    return begins_with_position_0(upright_table)


def _is_likely_with_other_axes(reading: Reading) -> bool:
    """Return True if a vector is likely a table without its axes, or an array with axes a vector.

    512 numbers may be 8 rows of 64, as a C program dumps them. But 128 numbers are hardly 2 rows of
    64: they are rather 128 frequencies. An array (1, 64) may be 64 frequencies. But (12, 64) is a
    table of its own rather than 12 copies of them.
    """
    is_vector = reading.array.ndim < 2
    if is_vector:
        row_count = reading.parts[0].expected.shape[-2]
        return row_count >= MIN_FLAT_ROWS
    return reading.copy_count == 1


def _holds_one_table_once(reading: Reading) -> bool:
    """Return True if the array is read as a single copy of a single table.

    The two columns per frequency of (64, 128), c0 … c63 c0 … c63, are no copies if the model doubles
    columns in the same order. Cosines and then sines are two tables, and the two tables of a batch
    (2, 64, 128) are copies.
    """
    has_all_axes = reading.array.ndim >= len(reading.parts[0].expected.shape)
    if reading.holds_both or not has_all_axes:
        return False
    doubled = reading.form.doubled
    is_doubled_as_in_model = doubled != "" and doubled == reading.candidate.layout
    # `copy_count` counts doubled columns as two copies.
    copies_of_one_table = 2 if is_doubled_as_in_model else 1
    return reading.copy_count == copies_of_one_table


def begins_with_position_0(table: AnyArray) -> bool:
    """Return True if all frequencies are alike in the first row of a table, and only there.

    At position 0 every cosine is 1 and every sine 0. If it is the first column that is alike, the
    table was transposed.

    Args:
        table: Cosines or sines, (…, rows, frequencies).
    """
    first_row = table[..., 0, :]
    first_column = table[..., 0]
    is_alike_in_row = bool((first_row == first_row[..., :1]).all())
    is_alike_in_column = bool((first_column == first_column[..., :1]).all())
    return is_alike_in_row and not is_alike_in_column
