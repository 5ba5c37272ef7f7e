"""The arrays that a text may have been printed from: a text states no dtype, and no more than two axes."""

from collections.abc import Iterator, Mapping

import numpy as np

from pecli.engine.arrays import Array, round_to, widened
from pecli.files.contents import LoadedFile
from pecli.files.decimals import numerals

NARROW_DTYPES = ("float32", "float16", "bfloat16")
"""Dtypes that numbers in a text may have had before they were printed, the likeliest first.

A text is loaded as float64, so that it need not be read as float64 again.
"""

ROUNDING_SLACK = 1e-3
"""Share by which half a unit of the last decimal may be exceeded: decimals are not exact in float64."""

DIGITS = {"float32": 9, "float16": 5, "bfloat16": 4}
"""Significant digits that are enough to tell all numbers of a dtype apart, as C's `%.9g` prints float32."""

MAX_REPRINTED = 4096
"""Numbers of a text that are printed again, to test whether they are the shortest decimals of a dtype."""


def find_readings_of_text(file: LoadedFile) -> Iterator[Mapping[str, Array]]:
    """Yield the tensors that a text file may have been printed from, by name.

    Lines of a .csv file state neither a dtype nor axes: four lines "0.33333334,0.25" may be float32 or
    float64. Their shape may be (4, 2), or (2, 2, 2), as of the biases of two heads. Other texts state
    their axes, and binary files, for which nothing is yielded, also their dtypes.
    """
    if not file.printed.is_text:
        return
    for dtype in NARROW_DTYPES:
        tensors = file.read_as(dtype).tensors
        if _may_be_printed_from(tensors, dtype, file):
            yield from _find_shapes(tensors, file)
    if _holds_only_lines(file):
        yield from _find_shapes(file.tensors, file)


def _find_shapes(tensors: Mapping[str, Array], text: LoadedFile) -> Iterator[Mapping[str, Array]]:
    """Yield the tensors of a text as they are, and a table of lines in other shapes, since it states no axes."""
    yield tensors
    if _holds_only_lines(text):
        ((name, lines),) = tensors.items()
        for array in _read_shapes_of_lines(lines):
            yield {name: array}


def _may_be_printed_from(tensors: Mapping[str, Array], dtype: str, text: LoadedFile) -> bool:
    """Return True if a text may be a print of tensors in a dtype.

    Args:
        tensors: For each number of the text, the nearest one of the dtype.
        dtype: The dtype.
        text: The text, with a few decimals of each number, or with all digits.
    """
    has_few_decimals = text.rounding > 0
    if has_few_decimals:
        return _may_show_rounded(tensors, text)
    # Numbers without fractions or exponents are loaded as integers, which any dtype may have.
    return all(
        _may_show_all_digits(dtype, array)
        for array in text.tensors.values()
        if array.dtype == np.float64
    )


def _may_show_rounded(originals: Mapping[str, Array], text: LoadedFile) -> bool:
    """Return True if a text may be a print of tensors in a narrow dtype, such as bfloat16.

    A text with four decimals does not state the dtype of its numbers. But printing moves a number by
    5e-5 at most, so that a dtype is possible only if it has a number so near to each of them. The
    numbers of bfloat16 beside 0.5403 are 0.5391 and 0.543: it was not printed from bfloat16.

    Args:
        originals: The tensors that may have been printed: for each number of the text, the nearest
            one of the dtype.
        text: The text. Its `rounding` is the error of its decimals, 5e-5 for four of them.
    """
    largest_error = text.rounding * (1 + ROUNDING_SLACK)
    return all(
        _are_near(originals[name], printed, largest_error) for name, printed in text.tensors.items()
    )


def _are_near(numbers: Array, printed: Array, largest_error: float) -> bool:
    """Return True if no number differs by more than an error from the one that was printed for it.

    Infinities and NaN are printed as words, which have no decimals.
    """
    wide = widened(printed)
    is_finite = np.isfinite(wide)
    errors = np.abs(widened(numbers)[is_finite] - wide[is_finite])
    return not (errors > largest_error).any()


def _may_show_all_digits(dtype: str, array: Array) -> bool:
    """Return True if numbers of a text may be those of a dtype, printed with all their digits.

    A third in float32 is 0.3333333432674408. `%.9g` prints it as 0.333333343, and other programs as
    0.33333334, with the fewest digits that identify it. Numbers of float64 are no such numbers.
    """
    numbers = widened(array).reshape(-1)[:MAX_REPRINTED]
    finite = numbers[np.isfinite(numbers)]
    distances = np.abs(widened(round_to(finite, dtype)) - finite)
    with np.errstate(divide="ignore"):  # The logarithm of 0 is −inf, and its unit is 0.
        place_of_first_digit = np.floor(np.log10(np.abs(finite)))
    half_unit_of_last_digit = 0.5 * 10.0 ** (place_of_first_digit + 1 - DIGITS[dtype])
    have_enough_digits = distances <= half_unit_of_last_digit * (1 + ROUNDING_SLACK)
    return bool(have_enough_digits.all()) or _prints_as(dtype, np.atleast_2d(numbers))


def _holds_only_lines(file: LoadedFile) -> bool:
    """Return True if a text holds one table of lines and columns, and states no other axes."""
    if not file.has_rows_only or len(file.tensors) != 1:
        return False
    (lines,) = file.tensors.values()
    return lines.ndim == 2


def _prints_as(dtype: str, lines: Array) -> bool:
    """Return True if the shortest decimals of a dtype are the numbers of a text, in its first lines.

    Programs print the fewest digits that identify a number: a third is 0.33333334 in float32, and
    0.3333 in float16. So a text with 0.33333334 is not a print of float16, whose digits are fewer.
    """
    width = lines.shape[1]
    first = lines[: max(1, MAX_REPRINTED // max(1, width))]
    reprinted = [float(text) for text in numerals(round_to(widened(first), dtype))]
    return np.array_equal(reprinted, first.reshape(-1), equal_nan=True)


def _read_shapes_of_lines(array: Array) -> Iterator[Array]:
    """Yield an array of lines as it is, as cosines above sines, and as square biases of heads.

    A text has no third axis: the biases of 4 heads for 8 positions, (4, 8, 8), have 32 lines.
    """
    rows, width = array.shape
    yield array
    if rows % 2 == 0:
        yield array.reshape(2, rows // 2, width)
    if width and rows % width == 0:
        yield array.reshape(rows // width, width, width)
