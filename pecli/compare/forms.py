"""The ways in which programs lay out the cosines and sines of positions × frequencies beside each other.

Behind every form are one or two parts (positions, frequencies): cosines, sines or both. A form does not state which.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from pecli.compare.doubled_columns import EMPTY, FormError, take_one_column
from pecli.compare.factors import Axis, Factor, FunctionView, Shape, view_functions
from pecli.engine.arrays import AnyArray, Array, dtype_name, widened

Factors = tuple[Factor, ...]


class Pattern(NamedTuple):
    """The last axes of a tensor, and the words for them.

    An axis is a product of factors, the slowest first: frequencies f, the two functions p, the columns d that every
    frequency has twice, rows r and columns c of a matrix. `p f` is one axis of all cosines, then all sines; `f, p` is
    an axis of frequencies and another of two functions.
    """

    axes: str
    words: str  #: for the names of both functions


ARRANGEMENTS: Mapping[str, Pattern] = {
    "alone": Pattern("f", "{0}"),
    "signed": Pattern("f", "{0}"),  # alone, the first column of a frequency negated
    "halves": Pattern("p f", "all {0}, then all {1}"),  # vLLM's cos_sin_cache
    "interleaved": Pattern("f p", "{0} and {1} interleaved"),
    "stacked": Pattern("f", "the {0}, then the {1}"),  # the first axis of all: (2, L, d)
    "rows": Pattern("f", "rows of {0}, then rows of {1}"),  # twice as many rows: (2·L, d)
    "pairs": Pattern("f, p", "pairs of {0} and {1}"),  # torchtune's cache: (L, d/2, 2)
    "complex": Pattern("f, p", "complex numbers"),  # Meta's freqs_cis
    "matrices": Pattern("f, r, c", "2 × 2 rotation matrices"),  # Flux
}
"""The ways in which two functions lie beside each other; `stacked` and `rows` have p before the last axes."""

DOUBLINGS: Mapping[str, str] = {"": "", "halves": "c0 c1 … c0 c1 …", "interleaved": "c0 c0 c1 c1 …"}
"""The times that each column of a part is there: once, or twice, in that order."""

DOUBLED_LAYOUTS = ("halves", "interleaved")
"""The ways in which each column is there twice."""

_DOUBLED_FACTORS: Mapping[str, str] = {"": "f", "halves": "d f", "interleaved": "f d"}
"""The letters that replace f in a pattern if columns are doubled."""

_SIGNED_FACTORS: Mapping[str, str] = {"halves": "s f", "interleaved": "f s"}
"""The letters that replace f if the first of two columns is negated."""

_AXES: Mapping[str, Axis] = {
    "f": Axis.FREQUENCY,
    "p": Axis.FUNCTION,
    "d": Axis.DOUBLE,
    "s": Axis.SIGNED_DOUBLE,
    "r": Axis.MATRIX_ROW,
    "c": Axis.MATRIX_COLUMN,
}

STEPS: Mapping[str, tuple[int, ...]] = {
    "int8": (127, 128, 64),
    "uint8": (255, 128),
    "int16": (32767, 32768, 16384),
    "int32": (2**31 - 1, 2**31, 2**30),
}
"""By dtype, the integers that stand for 1 in quantised tables."""
MIN_LARGEST = 0.99
"""The largest cosine of a table is at least this, so the integer that stands for 1 is at most 1 % above the largest."""
MAX_CACHED = 256  #: forms × numbers of frequencies whose axes are kept: every tensor asks for them


def find_integer_for_1(array: Array) -> int:
    """Return the integer that stands for 1.0 in a table of integers; 0 if none does.

    Cosines reach 1, so that the largest of their integers is the one for 1, or hardly less.

    >>> find_integer_for_1(np.array([0, -127, 90], np.int8))
    127
    """
    if array.dtype.kind not in "iu":
        return 0
    largest = int(np.abs(array.astype(np.int64)).max(initial=0))
    candidates = STEPS.get(dtype_name(array.dtype), ())
    fitting = [integer for integer in candidates if MIN_LARGEST * integer <= largest <= integer]
    return min(fitting, default=0)


def from_integers(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the numbers that integers stand for in tensors that belong together.

    The result is empty unless the same integer stands for 1 in all of them.
    """
    integers_for_1 = {find_integer_for_1(array) for array in arrays.values()}
    if len(integers_for_1) != 1 or 0 in integers_for_1:
        return {}
    (integer,) = integers_for_1
    return {name: (widened(array) / integer).astype(np.float32) for name, array in arrays.items()}


def columns(doubled: str) -> str:
    """Return the words for the columns of a part."""
    if doubled:
        return f"two columns per frequency ({DOUBLINGS[doubled]})"
    return "one column per frequency"


@dataclass(frozen=True)
class Form:
    """One layout: how the functions lie beside each other, and how columns are doubled."""

    arrangement: str  #: one of ARRANGEMENTS
    doubled: str = ""  #: one of DOUBLINGS
    padded: bool = False  #: a column of zeros at the end makes an odd dim, as in fairseq

    @property
    def name(self) -> str:
        if self.arrangement == "alone":
            return self.doubled or "compact"
        if self.doubled:
            return f"{self.arrangement}, columns doubled: {self.doubled}"
        return self.arrangement

    @property
    def function_count(self) -> int:
        """The number of functions that an array in this form holds."""
        return 1 if self.arrangement in ("alone", "signed") else 2

    @property
    def is_signed(self) -> bool:
        """True if sines have the sign of the rotation folded in.

        x·cos + swap(x)·[−sin | sin] needs no rotate_half: SpeechBrain and fused kernels store such sines.
        """
        return self.arrangement == "signed"

    def column_factors(self, frequencies: int) -> Factors:
        """Return what the elements of one row count, the slowest factor first.

        With all cosines and then all sines, each column twice, the row is c0 c0 c1 c1 … s0 s0 s1 s1 …:

        >>> [(factor.axis.name, factor.size) for factor in Form("halves", "interleaved").column_factors(8)]
        [('FUNCTION', 2), ('FREQUENCY', 8), ('DOUBLE', 2)]
        """
        return tuple(chain(*_make_column_axes(self.arrangement, self.doubled, frequencies)))

    def column_lengths(self, frequencies: int) -> Shape:
        """Return the lengths of the last axes of a tensor, which hold the columns of so many frequencies.

        >>> Form("alone", "halves").column_lengths(8), Form("matrices").column_lengths(8)
        ((16,), (8, 2, 2))
        """
        return _make_column_lengths(self.arrangement, self.doubled, frequencies)

    def factors_before_columns(self, shape: Shape, frequencies: int) -> list[Factor]:
        """Return what the axes of an array count, except those of its columns.

        Its last axes must have the lengths that so many frequencies take in this form: 16 columns
        for 8 frequencies in two halves. Which of the rows are copies is found later.

        >>> Form("halves").factors_before_columns((2, 12, 16), 8)
        [Factor(axis=<Axis.ROW: 6>, size=2), Factor(axis=<Axis.ROW: 6>, size=12)]

        Raises:
            FormError: The axes do not have such lengths.
        """
        column_lengths = self.column_lengths(frequencies)
        first_column_axis = len(shape) - len(column_lengths)
        if shape[first_column_axis:] != column_lengths:
            raise FormError
        return self._count_along_row_axes(shape[:first_column_axis])

    def _count_along_row_axes(self, lengths: Shape) -> list[Factor]:
        """Return the things that the axes before the columns count.

        In most forms, each of these axes counts rows: 2 heads of 12 rows, (2, 12), are
        `row 2, row 12`. In two forms, one of the axes holds both cosines and sines.

        Args:
            lengths: The lengths of these axes.
        """
        if self.arrangement == "stacked":
            return _count_stacked_functions(lengths)
        if self.arrangement == "rows":
            return _count_functions_in_rows(lengths)
        return _count_rows(lengths)

    def view_cosines_and_sines(self, array: AnyArray) -> list[FunctionView]:
        """Return the cosines and the sines of a table as views.

        A table (12, 16) in the form `halves` has 8 cosines and then 8 sines in each row: the result
        is two views (12, 8).

        Raises:
            FormError: The table cannot have this form.
        """
        is_complex = array.dtype.kind == "c"
        if is_complex != (self.arrangement == "complex"):
            raise FormError
        numbers = self._real_values(array)
        return view_functions(numbers, self._count_in_one_table(numbers.shape))

    def _count_in_one_table(self, shape: Shape) -> list[Factor]:
        """Return what a single table of this shape counts.

        A table (12, 16) in the form `halves` has 12 rows, each with 2 functions of 8 frequencies: 8
        cosines, then 8 sines.

        >>> [(axis.name, size) for axis, size in Form("halves")._count_in_one_table((12, 16))]
        [('ROW', 12), ('FUNCTION', 2), ('FREQUENCY', 8)]

        These shapes cannot have this form: (16,) has no rows, (3, 12, 16) two axes of them, as a batch
        has, and the 15 columns of (12, 15) are not two halves.

        Raises:
            FormError: The table cannot have this form.
        """
        frequencies = self._find_frequency_count(shape)
        before_columns = self.factors_before_columns(shape, frequencies)
        if _count_axes_of_rows(before_columns) != 1:
            raise FormError
        return [*before_columns, *self.column_factors(frequencies)]

    def _find_frequency_count(self, shape: Shape) -> int:
        """Return the frequencies for which a table has columns beside an axis of rows.

        >>> Form("halves")._find_frequency_count((12, 16))  # 8 cosines, then 8 sines
        8
        >>> Form("pairs")._find_frequency_count((12, 8, 2))  # 8 pairs of a cosine and a sine
        8
        """
        lengths_of_one_frequency = self.column_lengths(1)  # (2,) and (1, 2)
        first_column_axis = len(shape) - len(lengths_of_one_frequency)
        if first_column_axis < 1:
            raise FormError
        # Only the first axis of columns grows with the frequencies.
        return shape[first_column_axis] // lengths_of_one_frequency[0]

    def _real_values(self, array: AnyArray) -> AnyArray:
        """Return an array of this form as real numbers that make whole pairs.

        Complex numbers (…,) become pairs (…, 2). An odd last column of the form `interleaved` is left
        out: it has a sine and no cosine, as in sinusoidal tables of an odd width.
        """
        if self.arrangement == "complex":
            return np.stack([array.real, array.imag], axis=-1)
        if self.arrangement == "interleaved":
            return array[..., : array.shape[-1] // 2 * 2]
        return array

    def split(self, array: Array, noise: float = 0.0) -> tuple[Array, ...] | None:
        """Return the cosines and the sines of a table in this form as separate arrays, or None.

        In the form [cos cos | sin sin], (12, 32) becomes two tables (12, 8), since each frequency has two
        columns. In a form of cosines only, the result is a tuple of one table. It is None for an array
        that is not in this form.

        Args:
            array: The table.
            noise: The error, root mean square, by which doubled columns may differ, as a share of
                the largest value. A few elements that differ by more become NaN.
        """
        try:
            return tuple(self._split_tables(array, noise))
        except FormError:
            return None

    def _split_tables(self, array: Array, noise: float) -> Iterator[Array]:
        """Yield the cosines and the sines of a table, as `split` returns them."""
        if self.padded:  # A column of zeros makes the number of columns odd.
            array = _without_padding(array, noise)
        for function in self.view_cosines_and_sines(array):
            table = function.view.values
            if self.doubled:
                table = take_one_column(table, noise)
            if not table.size:
                raise FormError
            yield table

    def join(self, *parts: Array) -> Array:
        """Return the array that holds cosines and sines in this form, the inverse of `split`.

        With doubled columns in halves, c0 c1 and s0 s1 become c0 c1 c0 c1 s0 s1 s0 s1.

        Args:
            parts: The cosines and the sines, (rows, frequencies) each, or only one of them.
        """
        if self.doubled:
            parts = tuple(joined([part, part], self.doubled) for part in parts)
        array = joined(parts, self.arrangement)
        if self.padded:
            return np.concatenate([array, np.zeros_like(array[:, :1])], axis=1)
        return array


def _count_axes_of_rows(factors: Iterable[Factor]) -> int:
    return sum(factor.axis == Axis.ROW for factor in factors)


def _count_rows(lengths: Shape) -> list[Factor]:
    """Return axes that each count rows: (2, 12) is `row 2, row 12`."""
    return [Factor(Axis.ROW, length) for length in lengths]


def _count_stacked_functions(lengths: Shape) -> list[Factor]:
    """Return axes of which the first counts cosines and sines: its length must be 2.

    >>> _count_stacked_functions((2, 12))  # 12 rows of cosines, and 12 rows of sines
    [Factor(axis=<Axis.FUNCTION: 2>, size=2), Factor(axis=<Axis.ROW: 6>, size=12)]
    """
    if lengths[:1] != (2,):
        raise FormError
    return [Factor(Axis.FUNCTION, 2), *_count_rows(lengths[1:])]


def _count_functions_in_rows(lengths: Shape) -> list[Factor]:
    """Return axes of which the last holds rows of cosines, then rows of sines: it must be even.

    >>> _count_functions_in_rows((24,))  # 12 rows of cosines above 12 rows of sines
    [Factor(axis=<Axis.FUNCTION: 2>, size=2), Factor(axis=<Axis.ROW: 6>, size=12)]
    """
    if not lengths or lengths[-1] % 2:
        raise FormError
    *outer_lengths, rows_of_both = lengths
    outer_rows = _count_rows(tuple(outer_lengths))
    return [*outer_rows, Factor(Axis.FUNCTION, 2), Factor(Axis.ROW, rows_of_both // 2)]


@lru_cache(MAX_CACHED)
def _make_column_axes(arrangement: str, doubled: str, frequencies: int) -> tuple[Factors, ...]:
    """Return the factors of each of the last axes of a tensor, which hold its columns.

    The pattern of `pairs` is `f, p`: an axis of frequencies and one of two functions. With columns
    doubled in halves, f is replaced by `d f`, and 8 frequencies have the axes (2 · 8, 2).

    Args:
        arrangement: One of ARRANGEMENTS.
        doubled: One of DOUBLINGS.
        frequencies: The number of frequencies; every other factor is 2.
    """
    letters_of_columns = _SIGNED_FACTORS if arrangement == "signed" else _DOUBLED_FACTORS
    pattern = ARRANGEMENTS[arrangement].axes.replace("f", letters_of_columns[doubled])
    sizes = {"f": frequencies}
    axes = []
    for axis in pattern.split(", "):
        axes.append(tuple(Factor(_AXES[letter], sizes.get(letter, 2)) for letter in axis.split()))
    return tuple(axes)


@lru_cache(MAX_CACHED)
def _make_column_lengths(arrangement: str, doubled: str, frequencies: int) -> Shape:
    """Return the lengths of the last axes of a tensor: the products of their factors' sizes."""
    axes = _make_column_axes(arrangement, doubled, frequencies)
    return tuple(math.prod(factor.size for factor in axis) for axis in axes)


def _make_doublings(arrangement: str) -> tuple[Form, ...]:
    """Return an arrangement with every way to double columns, undoubled first."""
    return tuple(Form(arrangement, doubled) for doubled in DOUBLINGS)


READABLE = (
    *_make_doublings("alone"),
    *_make_doublings("halves"),
    Form("interleaved"),
    *_make_doublings("stacked"),
    *_make_doublings("rows"),
    *_make_doublings("pairs"),
    Form("matrices"),
)
"""The forms that every check reads, the likelier ones first; complex numbers are read as pairs."""

SIGNED = (Form("signed", "halves"), Form("signed", "interleaved"))
"""The forms of sines with a sign folded in, which only values can confirm."""

SEARCHED = ("interleaved", "halves", "alone", "stacked", "pairs", "complex")
"""The arrangements that values can tell apart without a spec, the likelier ones first."""


def forms(array: Array) -> Iterator[Form]:
    """Yield the forms that an array of such a shape may have, the likelier ones first."""
    for arrangement in SEARCHED:
        with suppress(FormError):
            Form(arrangement).view_cosines_and_sines(array)
            yield from _make_doublings(arrangement)


def halved(array: AnyArray, layout: str) -> tuple[AnyArray, AnyArray]:
    """Return the two parts of the last axis: its halves, or its elements 0 2 4 … and 1 3 5 …"""
    if layout == "halves":
        half = array.shape[-1] // 2
        return array[..., :half], array[..., half:]
    return array[..., 0::2], array[..., 1::2]


def joined(parts: Sequence[Array], arrangement: str) -> Array:
    """Return cosines and sines, each (rows, frequencies), side by side in one array.

    >>> cos = np.array([[1, 2]])
    >>> sin = np.array([[3, 4]])
    >>> joined([cos, sin], "halves"), joined([cos, sin], "interleaved")
    (array([[1, 2, 3, 4]]), array([[1, 3, 2, 4]]))
    """
    match arrangement:
        case "alone":
            return parts[0]
        case "complex":
            return np.asarray(parts[0] + np.multiply(parts[1], 1j))
        case "stacked":
            return np.stack(parts)
        case "halves":
            return np.concatenate(parts, axis=-1)
        case "pairs":
            return np.stack(parts, axis=-1)  # (rows, frequencies, 2)
        case _:  # interleaved
            pairs = np.stack(parts, axis=-1)
            return pairs.reshape(*pairs.shape[:-2], -1)


def _without_padding(array: Array, noise: float) -> Array:
    """Return a table with an odd number of columns without the last one, which must hold zeros only.

    If there is noise, it makes small numbers of zeros: up to 0.1 % of the largest value passes.
    """
    if array.ndim != 2 or not array.shape[1] % 2:
        raise FormError
    largest_zero = EMPTY * np.abs(array).max() if noise else 0.0
    is_zero = np.abs(array[:, -1]).max(initial=0) <= largest_zero  # False for NaN
    if not is_zero:
        raise FormError
    return array[:, :-1]
