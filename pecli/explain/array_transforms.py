"""Explanations of one array by another: stored differently, damaged, or changed as a whole."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np

from pecli.engine.arrays import Array, Floats, dtype_name, widened
from pecli.engine.edits import Dtype, Edit, ExpectedDtype, Swapped
from pecli.explain.array_arrangements import Candidate, arranged_as
from pecli.explain.array_computation import ArrayComputation, ArrayObservations, case_of_arrays
from pecli.explain.array_values import scaled, with_mask_value_of, with_row_constants
from pecli.explain.catalogue import DAMAGE
from pecli.explain.explanation import Explanation, best
from pecli.explain.first_choice import explain_by_first
from pecli.explain.hypotheses import accepted, explain_by_kind, explain_cases, with_storages
from pecli.explain.hypothesis import Case, accept
from pecli.explain.slice_orders import reordered_as_found
from pecli.explain.storage import SIGNIFICANT_BITS, FloatStorage, Storage, storages_of
from pecli.explain.time_limit import limited

MAX_COMPARED = 1 << 24
"""Elements of two arrays that are compared with each other."""

MIN_ELEMENTS = 8
"""Elements of an array that a transform explains: fewer numbers are in some order of others by
chance.
"""

MIN_CHANGED_BY_ROUNDING = 0.25
"""Share of the numbers that have to differ from the rounded ones: fewer are wrong elements. Zeros and
ones, which are in all tables of cosines and sines, are never changed.
"""

BITS_OF_INTEGERS = 64
"""Bits of whole numbers, which no rounding to a floating-point dtype is finer than."""


def explain_pair(name: str, expected: Array, found: Array, atol: float) -> list[Explanation]:
    """Return how an array differs from the expected one: stored coarsely, damaged, or changed as a whole.

    The list has one explanation at most. It is empty if one of the arrays is empty or too large, or if
    nothing is found in time.

    Args:
        name: The name of both.
        expected: The array that was expected.
        found: The array at hand.
        atol: The tolerance, granted if nothing explains the array more closely.
    """
    smaller, larger = sorted((expected.size, found.size))
    if larger > MAX_COMPARED or smaller == 0:
        return []
    explanations: list[Explanation] = []
    with limited():  # It ends the block without an error if the time is up.
        explanations = ArrayPair(name, expected, found, atol).explanations()
    return explanations[:1]


def explain_rounding(name: str, exact: Array, rounded: Array) -> Explanation | None:
    """Return the explanation «stored in float16», or another dtype, if each element was only rounded to it.

    `pecli diff` gives it as the reason why two tensors of one name differ. 0.1 in float32 became
    0.09997559 in float16, for example, and so did every other element. None is returned if some
    element differs by more.

    Args:
        name: The name of both arrays.
        exact: The array before it was rounded.
        rounded: The array that is to be explained.
    """
    exact = _in_real_numbers(exact)
    rounded = _in_real_numbers(rounded)
    if exact.shape != rounded.shape or not _has_fewer_bits(rounded, than=exact):
        return None
    explanation: Explanation | None = None
    with limited():  # It ends the block without an error if the time is up.
        dtype = dtype_name(rounded.dtype)
        explanation = accept(_case_of_rounding(name, exact, rounded, Dtype(dtype)))
    return explanation


def _case_of_rounding(name: str, exact: Array, rounded: Array, edit: Edit) -> Case:
    """Return what is to be tested: that an array holds the elements of another one, rounded to its dtype.

    Args:
        name: The name of both arrays.
        exact: The array before it was rounded.
        rounded: The array after it.
        edit: The statement about them, if it is true.
    """
    computation = ArrayComputation((exact,))
    observations = ArrayObservations({name: rounded})
    return case_of_arrays(computation, observations, (edit,))


class ArrayPair:
    """An expected array and the one at hand.

    Attributes:
        name: The name of both.
        expected: The expected array.
        found: The array at hand.
        atol: The tolerance, granted if nothing explains the array more closely.
        is_complex: True if the found array has complex numbers.
        observed: The found array as data of a search.
        kept: Measurements of the found array, which all suppositions about it share.
    """

    def __init__(self, name: str, expected: Array, found: Array, atol: float) -> None:
        self.name = name
        self.expected = expected
        self.found = found
        self.atol = atol
        self.is_complex = _is_complex(found)
        self.observed = ArrayObservations({name: found})
        self.kept: dict[tuple[object, ...], object] = {}

    def case(self, candidate: Candidate) -> Case:
        computation = ArrayComputation((candidate.array,), candidate.is_computed)
        return replace(
            case_of_arrays(computation, self.observed, candidate.edits), measured=self.kept
        )

    def explanations(self) -> list[Explanation]:
        """Return why the arrays differ, the likeliest reason first; an empty list if none is found."""
        expected = _in_real_numbers(self.expected)
        found = _in_real_numbers(self.found)
        if expected.shape != found.shape:
            return self.explain_by_change()
        unchanged = case_of_arrays(
            ArrayComputation((expected,)), ArrayObservations({self.name: found}), ()
        )
        # Of numbers that are only rounded, any tiny change would be confirmed, such as a constant in
        # each row: none is tried.
        if accept(unchanged.within(self.atol)) is not None:
            return self._explain_by_dtype(unchanged)
        return (
            self._explain_by_coarser_array(expected, found)
            or self._explain_by_coarser_numbers(expected, found)
            or self._explain_storage(unchanged)
            or self._explain_damaged_part(unchanged)
            or self.explain_by_change()
        )

    def _explain_by_dtype(self, unchanged: Case) -> list[Explanation]:
        """Return the explanation «stored in float16», or another dtype with fewer bits than expected."""
        if not _has_fewer_bits(self.found, than=self.expected):
            return []
        rounded = replace(unchanged, arranged=(Dtype(dtype_name(self.found.dtype)),))
        return [*accepted([rounded.within(self.atol)])]

    def _explain_by_coarser_array(self, expected: Array, found: Array) -> list[Explanation]:
        """Return the explanation that the expected array has the found numbers, rounded to its dtype.

        If A holds cosines in float32 and B those in float64, A is the one that was rounded.
        """
        if not _has_fewer_bits(expected, than=found):
            return []
        edit = ExpectedDtype(dtype_name(expected.dtype))
        # The sides are exchanged: the found numbers are exact, and the expected ones were rounded.
        return [*accepted([_case_of_rounding(self.name, found, expected, edit)])]

    def _explain_by_coarser_numbers(self, expected: Array, found: Array) -> list[Explanation]:
        """Return the explanation that the expected array holds the found one, rounded to another dtype.

        An array of float64 may hold numbers that were in float32 before: 0.10000000149011612 for 0.1.
        """
        rounded = widened(expected)
        exact = widened(found)
        cases = []
        for storage in storages_of(rounded, dtype_name(expected.dtype)):
            if isinstance(storage, FloatStorage) and _is_rounded_to(storage, rounded, exact):
                computation = ArrayComputation((found,), storage=storage)
                observations = ArrayObservations({self.name: expected})
                edit = ExpectedDtype(storage.dtype)
                cases.append(case_of_arrays(computation, observations, (edit,)))
        return [*accepted(cases)]

    def explain_by_change(self) -> list[Explanation]:
        """Return the explanation by the first change of the expected array that makes the found one.

        A change is a transposition, another layout, a factor, another order of rows, and so on;
        those that need fewer edits come first.
        """
        if min(self.expected.size, self.found.size) < MIN_ELEMENTS:
            return []
        return explain_by_first(self._changed_arrays(), self._explain_change)

    def _explain_change(self, candidate: Candidate) -> list[Explanation]:
        """Return the explanation by one change; an array without a change explains nothing."""
        if not candidate.edits:
            return []
        return explain_cases([self.case(candidate)], self.atol, most_mistakes=0)

    def _explain_storage(self, case: Case) -> list[Explanation]:
        """Return the explanations by storage: rounded to decimals, to steps or to 16 bits."""
        explanations = explain_cases([case], self.atol, most_mistakes=0)
        # Without an edit, the arrays are equal within the tolerance, which explains nothing.
        return [explanation for explanation in best(explanations) if explanation.edits]

    def _explain_damaged_part(self, case: Case) -> list[Explanation]:
        """Return the parts that may be wrong, if the rest is exact, or else within the tolerance."""
        tolerances = dict.fromkeys((0.0, self.atol))  # only 0.0 if the user states none
        return best(explain_by_first(tolerances, partial(_explain_damage, case)))

    def _changed_arrays(self) -> Iterator[Candidate]:
        """Yield the expected array, changed in every way in which it may be the found one.

        An expected (64, 32) may have become (32, 64) by a transposition. Arrays that only lie differently
        (transposed, repeated, another layout) come first, then these with other values (a factor, a
        constant per row, another mask), then rows, channels or heads in another order.
        """
        arrangements = self._find_arrangements()
        yield from arrangements
        for arrangement in arrangements:
            yield from self._with_other_values(arrangement)
        # To look for an order takes long, so that it is done in two arrays only: in the expected one as
        # it is, and in the likeliest arrangement of it if that is another one.
        unchanged = Candidate((), self.expected)
        yield from reordered_as_found(unchanged, self.found)
        likeliest = next(iter(arrangements), unchanged)
        is_rearranged = bool(likeliest.edits)
        if is_rearranged:
            yield from reordered_as_found(likeliest, self.found)

    def _find_arrangements(self) -> list[Candidate]:
        """Return the expected array in every arrangement with the shape and kind of the found one."""
        return [
            candidate
            for candidate in arranged_as(self.found.shape, self.expected)
            if _is_complex(candidate.array) == self.is_complex
        ]

    def _with_other_values(self, arrangement: Candidate) -> Iterator[Candidate]:
        """Yield an array times a factor, with a constant added to each row, or with another mask.

        Factor, constants and mask are those by which the found array seems to differ. Complex
        numbers have neither constants nor masks.
        """
        yield from scaled(arrangement, self.found)
        if not self.is_complex:
            yield from with_row_constants(arrangement, self.found)
            yield from with_mask_value_of(arrangement, self.found)


def _is_complex(array: Array) -> bool:
    return array.dtype.kind == "c"


def _has_fewer_bits(array: Array, *, than: Array) -> bool:
    """Return True if an array holds floating-point numbers, and the other one numbers with more bits."""
    return _significant_bits(array) < _significant_bits(than)


def _significant_bits(array: Array) -> int:
    """Return the bits of an array's numbers: 11 of float16. Integers have more than any other dtype."""
    return SIGNIFICANT_BITS.get(dtype_name(array.dtype), BITS_OF_INTEGERS)


def _is_rounded_to(storage: Storage, rounded: Floats, exact: Floats) -> bool:
    """Return True if a storage holds numbers, and rounding to it shows: in many of them, some by nearly half a unit.

    With one decimal, 0.54 and 0.38 became 0.5 and 0.4: they are off by 0.04 and 0.02 of at most 0.05.
    If all numbers of a table are equal except for one, or are off by 0.001 at most, it has another
    reason that half of the numbers have one decimal.

    Args:
        storage: That to which they may have been rounded.
        rounded: The numbers that may have been rounded.
        exact: The numbers from which they may have been made.
    """
    errors = np.abs(
        np.where(rounded == exact, 0.0, rounded - exact)
    )  # Equal masks of −∞ have none.
    are_many_changed = np.mean(errors > 0) >= MIN_CHANGED_BY_ROUNDING
    # To round to one bit more would be enough for smaller errors.
    is_half_unit_needed = (errors > storage.half_unit(rounded) / 2).any()
    return bool(are_many_changed and is_half_unit_needed and storage.holds(rounded))


def _in_real_numbers(array: Array) -> Array:
    """Return an array; real and imaginary parts of complex numbers one after the other."""
    if not _is_complex(array):
        return array
    return np.stack([array.real, array.imag])


def _explain_damage(case: Case, tolerance: float) -> list[Explanation]:
    """Return the explanations by a small part that is wrong, with a tolerance for all other elements.

    The numbers are first taken as they are, then as rounded to each grid on which they lie.
    """
    return explain_by_first(with_storages(case.within(tolerance)), _explain_by_damage)


def _explain_by_damage(case: Case) -> Iterator[Explanation]:
    """Yield explanations of an array by wrong elements, rows, columns or heads in it."""
    for kind in DAMAGE:
        yield from explain_by_kind(case, kind)


def explain_exchanged_names(
    pairs: Mapping[str, tuple[Array, Array]], atol: float
) -> list[Explanation]:
    """Return the explanation that two arrays were stored under each other's names.

    The array named `cos` then holds the sines, and the one named `sin` the cosines.

    Args:
        pairs: The expected and the found array of each name.
        atol: The tolerance, granted if nothing explains the arrays more closely.

    Returns:
        One explanation, for the first two names that were exchanged; an empty list if none were.
    """
    explain = partial(_explain_exchange, pairs, atol)
    return explain_by_first(combinations(pairs, 2), explain)[:1]


def _explain_exchange(
    pairs: Mapping[str, tuple[Array, Array]], atol: float, names: tuple[str, str]
) -> list[Explanation]:
    """Return the explanations by an exchange of two names; an empty list if they were not exchanged."""
    name, other_name = names
    expected, found = pairs[name]
    expected_of_other, found_of_other = pairs[other_name]
    if not _can_be_compared((expected, expected_of_other, found, found_of_other)):
        return []
    # `name` comes first in both. After an exchange, it has the array of the other name.
    expected_if_exchanged = ArrayComputation((expected_of_other, expected))
    found_arrays = ArrayObservations({name: found, other_name: found_of_other})
    case = case_of_arrays(expected_if_exchanged, found_arrays, (Swapped(),))
    # No further mistake is tried: the exchange has to explain every number.
    return explain_cases([case], atol, most_mistakes=0)


def _can_be_compared(arrays: Sequence[Array]) -> bool:
    """Return True if arrays have one shape, are all real or all complex, and are not too large."""
    kinds = {(array.shape, _is_complex(array)) for array in arrays}
    return len(kinds) == 1 and 0 < arrays[0].size <= MAX_COMPARED
