"""Tensors of a check in words: shapes, errors, the worst element."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pecli.errors import listed, number, span
from pecli.views import screen

if TYPE_CHECKING:
    from pecli.checks.diff import Difference
    from pecli.checks.verification import Verification
    from pecli.compare.comparison import Comparison

MAX_LISTED = 4
"""Names or numbers of a list that are shown; the others are counted."""

MAX_ULP = 1_000_000
"""ULPs that are shown: a larger count says nothing that the absolute error does not."""

_LAYER_NUMBER = re.compile(r"\.\d+\.")


LineParts = list[str]
"""A line about a tensor, in the parts between which it may be broken: its name, its errors, …."""


class SideNames(NamedTuple):
    """The words for the two sides of a comparison."""

    expected: str
    found: str
    equality: str = "every element is equal"  #: A sentence about a tensor without errors.


VERIFIED = SideNames("expected", "found", "every element is exact")
COMPARED = SideNames("A", "B")


def failed_tensor_lines(
    tensors: Sequence[Comparison], result: Verification | Difference, sides: SideNames
) -> list[LineParts]:
    """Return a line for each tensor: name, shape, reading, errors.

    A reading states how an array was read, such as «all cosines, then all sines». Cosines
    and sines are usually read alike, and only the first of their lines states it.
    """
    with_ranges = _names_only_ranges(result)
    lines: list[LineParts] = []
    stated_readings = {""}
    for tensor in tensors:
        head, *errors = line_parts(tensor, sides, with_ranges=with_ranges)
        reading = result.readings.get(tensor.name, "")
        if reading not in stated_readings:
            head += f", {reading}"
            stated_readings.add(reading)
        lines.append([head, *errors])
    return lines


def _names_only_ranges(result: Verification | Difference) -> bool:
    """Return True if no mistake is known except which rows, columns or heads are wrong.

    Then the place of the errors is the best clue; otherwise the mistake itself is.
    """
    if not result.explanations:
        return True
    # Defining all kinds of edits takes a sixth of the time of a small comparison.
    from pecli.engine.edits import ColumnsWrong, ElementsWrong, HeadsWrong, RowsWrong

    places_only = (RowsWrong, ColumnsWrong, HeadsWrong, ElementsWrong)
    mistakes = chain.from_iterable(explanation.mistakes for explanation in result.explanations)
    return all(isinstance(mistake, places_only) for mistake in mistakes)


def line_parts(tensor: Comparison, sides: SideNames, *, with_ranges: bool = False) -> LineParts:
    """Return a line about one tensor: its name and shape, its problem if it has one, its errors.

    For example «cos  4 × 8», «3 of 32 out of tolerance», «max error 0.25 at [1, 7]: …».

    Args:
        tensor: The comparison of the tensor with its other side.
        sides: The words for both sides, such as «expected» and «found».
        with_ranges: Also state in which rows and columns the errors are.
    """
    parts = [f"{tensor.name}  {screen.shape(tensor.shape)}"]
    if tensor.problem:
        parts.append(tensor.problem)
    if tensor.mismatched is None:  # The elements were not compared: the shape is wrong, say.
        return parts
    has_no_error = tensor.mismatched == 0 and tensor.worst_index is None
    if has_no_error:
        return parts + _equality(tensor, sides)
    return parts + _error_parts(tensor, sides, with_ranges=with_ranges)


def _error_parts(tensor: Comparison, sides: SideNames, *, with_ranges: bool) -> LineParts:
    """Return what is wrong with the elements of a tensor: how many, the worst, and any infinite ones."""
    parts = [_mismatches(tensor, with_ranges=with_ranges)]
    if tensor.worst_index is not None:
        parts.append(worst_element(tensor, sides) + _worse_in_ulps(tensor))
    if tensor.nonfinite_expected:
        parts.append(f"{tensor.nonfinite_expected:,} not finite ({sides.expected})")
    if tensor.nonfinite_found:
        parts.append(f"{tensor.nonfinite_found:,} not finite ({sides.found})")
    return parts


def _equality(tensor: Comparison, sides: SideNames) -> LineParts:
    """Return a sentence about a tensor without errors; none if its values were not compared."""
    has_expected_values = tensor.max_abs_error is not None  # a learned table has none
    if not has_expected_values or tensor.undecided:
        return []
    if tensor.problem:
        return ["the values themselves are equal"]
    return [sides.equality]


def _mismatches(tensor: Comparison, *, with_ranges: bool) -> str:
    """Return «3 of 64 out of tolerance, all in column 5, the first at [0, 5]».

    The first index is left out if it is the worst, which another part of the line shows.
    """
    text = f"{tensor.mismatched:,} of {tensor.size:,} out of tolerance"
    if with_ranges:
        text += _wrong_ranges(tensor)
    if tensor.first_index is not None and tensor.first_index != tensor.worst_index:
        text += f", the first at {list(tensor.first_index)}"
    return text


def _wrong_ranges(tensor: Comparison) -> str:
    """Return the rows, columns, heads or sequences that are wrong: «, all in rows 4–7, column 2».

    An axis is left out if more than half of it is wrong: then the place says nothing.
    """
    ranges: list[str] = []
    axes_from_last = ("columns", "rows", "heads", "batch")
    sizes_from_last = reversed(tensor.shape)
    for axis, size in zip(axes_from_last, sizes_from_last, strict=False):  # a table has two axes
        wrong_runs = list(tensor.where.get(axis, ()))  # rows 4–7 and 9: (4, 7), (9, 9)
        wrong_count = sum(last - first + 1 for first, last in wrong_runs)
        if 0 < wrong_count <= size / 2:
            noun = axis if wrong_count > 1 else axis.removesuffix("s")
            spans = [span(first, last) for first, last in wrong_runs]
            ranges.append(f"{noun} {listed(spans, MAX_LISTED)}")
    if not ranges:
        return ""
    ranges.reverse()  # rows before columns
    return f", all in {', '.join(ranges)}"


def worst_element(tensor: Comparison, sides: SideNames) -> str:
    """Return the largest error, its index, and the values of both sides there.

    For example «max error 0.25 (3 ulp) at [1, 7]: expected 0.5, found 0.75».
    """
    expected, found = _distinct_digits(tensor.expected, tensor.found)
    error = error_in_words(tensor.largest_error, tensor.worst_ulp)
    assert tensor.worst_index is not None  # Tensors without an error have no such line.
    values = f"{sides.expected} {expected}, {sides.found} {found}"
    return f"max error {error} at {[*tensor.worst_index]}: {values}"


def error_in_words(error: float, ulp: int | None) -> str:
    """Return an absolute error, with its ULPs if they are known and few.

    >>> error_in_words(0.5, 7), error_in_words(0.5, None)
    ('0.5 (7 ulp)', '0.5')
    """
    return number(error, 3) + units(ulp, " ({})")


def _worse_in_ulps(tensor: Comparison) -> str:
    """Return a remark if another element than the worst has the most ULPs: a small value, say."""
    if not units(tensor.worst_ulp) or tensor.worst_ulp == tensor.max_ulp_error:
        return ""
    return units(tensor.max_ulp_error, "  (elsewhere up to {})")


def units(count: int | None, form: str = "{}") -> str:
    """Return a number of ULPs; empty if it is unknown or too large to mean anything.

    Args:
        count: The number.
        form: The words around it, with a pair of braces for it.

    >>> units(7, " ({})"), units(None, " ({})")
    (' (7 ulp)', '')
    """
    if count is None or count > MAX_ULP:
        return ""
    return form.format(f"{count:,} ulp")


def _distinct_digits(*values: object) -> list[str]:
    """Format values with as many digits as it takes to distinguish them, at least six.

    >>> _distinct_digits(0.12345678, 0.12345679)
    ['0.12345678', '0.12345679']
    """
    for digits in range(6, 18):  # 17 digits distinguish any two numbers of float64
        texts = [_with_digits(value, digits) for value in values]
        if len(set(texts)) > 1:
            break
    return texts


def _with_digits(value: object, digits: int) -> str:
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    return repr(value)


class _PassedTensor(NamedTuple):
    """A passed tensor without the number of its layer: those of identical layers are equal."""

    pattern: str  #: its name, such as `model.layers.N.rotary_emb.inv_freq`
    shape: str
    reading: str
    verdict: str


class _WordsOfLine(NamedTuple):
    """The words about passed tensors, except their names: tensors that have them in common share a line."""

    before_names: str  #: «80 layers: »; empty for tensors of one layer
    behind_names: str  #: «  4 × 8», the shape of tensors of one layer; empty for those of several
    reading: str
    verdict: str


def passed_tensor_lines(result: Verification) -> list[str]:
    """Return lines about tensors that passed: «80 layers: inv_freq, exact», «cos, sin  4 × 8, exact».

    A model of 80 layers would have 80 equal lines. So tensors that differ only in the number of
    their layer are counted first, then different tensors with the same verdict are listed.
    """
    names_by_tensor: dict[_PassedTensor, list[str]] = {}
    for tensor in result.tensors:
        if tensor.passed:
            reading = result.readings.get(tensor.name, "")
            names_by_tensor.setdefault(_without_layer_number(tensor, reading), []).append(
                tensor.name
            )
    names_by_words: dict[_WordsOfLine, list[str]] = {}
    for passed_tensor, names in names_by_tensor.items():
        shown_name, words = _name_and_words(passed_tensor, names)
        names_by_words.setdefault(words, []).append(shown_name)
    lines = []
    for words, names in names_by_words.items():
        head = f"{words.before_names}{listed(names, MAX_LISTED)}{words.behind_names}"
        lines.append(", ".join(filter(None, [head, words.reading, words.verdict])))
    return lines


def _name_and_words(tensor: _PassedTensor, names: Sequence[str]) -> tuple[str, _WordsOfLine]:
    """Return the name by which a line calls a tensor, and the other words of the line.

    Args:
        tensor: The tensor.
        names: Its names in all layers that have it. If they are several, the line has their number,
            and calls `model.layers.N.rotary_emb.inv_freq` by its own name, `inv_freq`.
    """
    if len(names) == 1:
        return names[0], _WordsOfLine("", f"  {tensor.shape}", tensor.reading, tensor.verdict)
    own_name = tensor.pattern.removesuffix(".weight").rpartition(".")[2]
    words = _WordsOfLine(f"{len(names)} layers: ", "", tensor.reading, tensor.verdict)
    return own_name, words


def _without_layer_number(tensor: Comparison, reading: str) -> _PassedTensor:
    """Return a tensor that passed without the number of its layer; `reading` states how it was read."""
    pattern = _LAYER_NUMBER.sub(".N.", tensor.name)
    verdict = _passed_verdict(tensor)
    return _PassedTensor(pattern, screen.shape(tensor.shape), reading, verdict)


def _passed_verdict(tensor: Comparison) -> str:
    if tensor.max_abs_error is None:  # a learned table: there is nothing to compare its values with
        return ""
    if tensor.worst_index is None:
        return "exact"
    return f"max error {number(tensor.max_abs_error, 3)}"
