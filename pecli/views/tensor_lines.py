"""Tensors of a check in words: shapes, errors, the worst element."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pecli.engine.grouping import grouped
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


class SideNames(NamedTuple):
    """The words for the two sides of a comparison."""

    expected: str
    found: str
    equality: str = "every element is equal"  #: A sentence about a tensor without errors.


VERIFIED = SideNames("expected", "found", "every element is exact")
COMPARED = SideNames("A", "B")


def failed_tensor_lines(
    tensors: Sequence[Comparison], result: Verification | Difference, sides: SideNames
) -> list[list[str]]:
    """Return the parts of a line for each tensor: name, shape, reading, errors.

    A reading states how an array was read, such as «all cosines, then all sines». Cosines
    and sines are usually read alike, and only the first of their lines states it.
    """
    with_ranges = _names_only_ranges(result)
    lines: list[list[str]] = []
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

    for explanation in result.explanations:
        for edit in explanation.mistakes:
            if not isinstance(edit, (RowsWrong, ColumnsWrong, HeadsWrong, ElementsWrong)):
                return False
    return True


def line_parts(tensor: Comparison, sides: SideNames, *, with_ranges: bool = False) -> list[str]:
    """Return a tensor's name and shape, its problem if it has one, and its errors."""
    parts = [f"{tensor.name}  {screen.shape(tensor.shape)}"]
    if tensor.problem:
        parts.append(tensor.problem)
    is_compared = tensor.mismatched is not None
    if not is_compared:
        return parts
    if tensor.worst_index is None and tensor.mismatched == 0:
        return parts + _equality(tensor, sides)
    return parts + _error_parts(tensor, sides, with_ranges=with_ranges)


def _error_parts(tensor: Comparison, sides: SideNames, *, with_ranges: bool) -> list[str]:
    """Return what is wrong with the elements of a tensor: how many, the worst, and any infinite ones."""
    parts = [_mismatches(tensor, with_ranges=with_ranges)]
    if tensor.worst_index is not None:
        parts.append(worst_element(tensor, sides) + _worse_in_ulps(tensor))
    if tensor.strange_expected:
        parts.append(f"{tensor.strange_expected:,} not finite ({sides.expected})")
    if tensor.strange_found:
        parts.append(f"{tensor.strange_found:,} not finite ({sides.found})")
    return parts


def _equality(tensor: Comparison, sides: SideNames) -> list[str]:
    """Return a sentence about a tensor without errors; none if its values were not compared."""
    is_compared = tensor.max_abs_error is not None  # a learned table has no expected values
    if not is_compared or tensor.undecided:
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
    axes = ("columns", "rows", "heads", "batch")  # from the last axis; a table has only two
    for axis, size in zip(axes, reversed(tensor.shape), strict=False):
        runs = list(tensor.where.get(axis, ()))
        wrong_count = sum(last - first + 1 for first, last in runs)
        if 0 < 2 * wrong_count <= size:
            noun = axis if wrong_count > 1 else axis.removesuffix("s")
            spans = [span(first, last) for first, last in runs]
            ranges.append(f"{noun} {listed(spans, MAX_LISTED)}")
    if not ranges:
        return ""
    return f", all in {', '.join(reversed(ranges))}"


def worst_element(tensor: Comparison, sides: SideNames) -> str:
    """Return the largest error, its index, and the values of both sides there.

    For example «max error 0.25 (3 ulp) at [1, 7]: expected 0.5, found 0.75».
    """
    expected, found = _distinct_digits(tensor.expected, tensor.found)
    error = error_in_words(tensor.largest_error, tensor.worst_ulp)
    index = list(tensor.worst_index or ())
    values = f"{sides.expected} {expected}, {sides.found} {found}"
    return f"max error {error} at {index}: {values}"


def error_in_words(error: float, ulp: int | None) -> str:
    """Return an absolute error, with its ULPs if they are known and few.

    >>> error_in_words(0.5, 7), error_in_words(0.5, None)
    ('0.5 (7 ulp)', '0.5')
    """
    in_ulps = units(ulp)
    if not in_ulps:
        return number(error, 3)
    return f"{number(error, 3)} ({in_ulps})"


def _worse_in_ulps(tensor: Comparison) -> str:
    """Return a remark if another element than the worst has the most ULPs: a small value, say."""
    worst = units(tensor.worst_ulp)
    most = units(tensor.max_ulp_error)
    if not worst or not most or tensor.worst_ulp == tensor.max_ulp_error:
        return ""
    return f"  (elsewhere up to {most})"


def units(count: int | None) -> str:
    """Return a number of ULPs; empty if it is unknown or too large to mean anything."""
    if count is None or count > MAX_ULP:
        return ""
    return f"{count:,} ulp"


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


class _Pass(NamedTuple):
    """A passed tensor without its layer number; those of identical layers are equal."""

    pattern: str
    shape: str
    reading: str
    verdict: str


class _PassedLine(NamedTuple):
    """The part of a line that tensors have in common."""

    shape: str
    reading: str
    verdict: str
    layers: str


def passed_tensor_lines(result: Verification) -> list[str]:
    """Return a line for the tensors that passed alike: «80 layers: inv_freq, exact», «cos, sin  4 × 8, exact».

    A model of 80 layers would have 80 equal lines. So tensors that differ only in the number of
    their layer are counted first, then different tensors with the same verdict are listed.
    """
    passed = [tensor for tensor in result.tensors if tensor.passed]
    tensors_of_layers = grouped(
        passed, lambda tensor: _passed(tensor, result.readings.get(tensor.name, ""))
    )
    labels_by_line: dict[_PassedLine, list[str]] = {}
    for common, tensors in tensors_of_layers.items():
        shape = common.shape
        layers = ""
        label = tensors[0].name
        if len(tensors) > 1:
            shape = ""
            layers = f"{len(tensors)} layers"
            label = _name_in_layer(common.pattern)
        line = _PassedLine(shape, common.reading, common.verdict, layers)
        labels_by_line.setdefault(line, []).append(label)
    return [_passed_line(line, labels) for line, labels in labels_by_line.items()]


def _name_in_layer(pattern: str) -> str:
    """Return a tensor's own name: `inv_freq` for `model.layers.N.rotary_emb.inv_freq`."""
    return pattern.removesuffix(".weight").rpartition(".")[2]


def _passed(tensor: Comparison, reading: str) -> _Pass:
    """Return what tensors of identical layers have in common; `reading` states how it was read."""
    pattern = _LAYER_NUMBER.sub(".N.", tensor.name)
    return _Pass(pattern, screen.shape(tensor.shape), reading, _passed_verdict(tensor))


def _passed_verdict(tensor: Comparison) -> str:
    if tensor.max_abs_error is None:  # a learned table: there is nothing to compare its values with
        return ""
    if tensor.worst_index is None:
        return "exact"
    return f"max error {number(tensor.max_abs_error, 3)}"


def _passed_line(line: _PassedLine, labels: Sequence[str]) -> str:
    """Return the labels of tensors, and what they have in common, as a line."""
    names = listed(labels, MAX_LISTED)
    head = f"{line.layers}: {names}" if line.layers else f"{names}  {line.shape}"
    return ", ".join(filter(None, [head, line.reading, line.verdict]))
