"""Ways to read tensors as tables of cosines and sines, whatever their frequencies are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pecli.compare.forms import halved
from pecli.engine.arrays import Array, widened
from pecli.engine.edits import ONLY_FUNCTION_BY_EDIT, Edit, Layout, Repeated, Transposed
from pecli.explain.computation import Columns, WaveComputation
from pecli.explain.measure import MeasuredFrequencies
from pecli.explain.observations import Observations
from pecli.explain.tables import observed_dtype

MIN_ELEMENTS = 8
"""Elements of a tensor that may be a table: fewer fit anything."""

CONSTANT = 0.12
"""Share of its median by which cos² + sin² may vary: float8 rounds to 6 %."""

MIN_CONSTANT = 0.8
"""Share of the elements at which it has to be constant: some rows may be wrong or empty."""

SOME_ROWS = 512
"""Rows that are looked at to see whether columns belong together."""

MAX_TRANSPOSED = 1 << 21
"""Elements of a tensor that is also read transposed: more are not copied into memory."""

CACHE = ("halves", "interleaved")
"""Arrangements of both functions in one row, of an added table or of a cache of rotary ones."""


@dataclass(frozen=True)
class WaveReading:
    """Tensors as matrices (rows, columns), by a scheme's names for them.

    Attributes:
        tensors: «cos» and «sin», one of them, or «pe».
        layout: How columns of a pair lie: compact, halves or interleaved.
        edits: How the tensors lie in the file.
        cos_first: Whether cosines come before sines in «pe».
    """

    tensors: Mapping[str, Array]
    layout: str
    edits: tuple[Edit, ...] = ()
    cos_first: bool = True

    @property
    def is_added(self) -> bool:
        """True if one tensor has both functions side by side, as tables that are added have them."""
        return tuple(self.tensors) == ("pe",)

    @property
    def has_only_one_function(self) -> bool:
        """True if there are only cosines, or only sines."""
        return len(self.tensors) == 1 and not self.is_added

    @property
    def rows(self) -> int:
        return len(next(iter(self.tensors.values())))

    @property
    def width(self) -> int:
        return int(next(iter(self.tensors.values())).shape[1])

    @property
    def pairs(self) -> int:
        return self.width if self.layout == "compact" else self.width // 2

    @property
    def dtype(self) -> str:
        """The dtype of a scheme that makes such tables."""
        return observed_dtype(self.tensors)

    @property
    def even(self) -> "WaveReading":
        """The reading without the last of an odd number of columns, which has no partner."""
        if self.width <= 2 * self.pairs:
            return self
        tensors = {name: array[:, : 2 * self.pairs] for name, array in self.tensors.items()}
        return replace(self, tensors=tensors)

    def first_rows(self, rows: int) -> "WaveReading":
        """Return the reading of the first rows."""
        tensors = {name: array[:rows] for name, array in self.tensors.items()}
        return replace(self, tensors=tensors)

    @property
    def flipped(self) -> "WaveReading":
        """The reading of an added table with the other function first."""
        return replace(self, cos_first=not self.cos_first)

    @cached_property
    def observations(self) -> Observations:
        return Observations(self.tensors, observed_dtype(self.tensors))

    @cached_property
    def measurements(self) -> dict[tuple[object, ...], object]:
        """Measurements of these tensors by their keys, which all cases about them share."""
        return {}

    @property
    def columns(self) -> Columns:
        """The cosine or the sine that each column holds."""
        return Columns(
            tensors=tuple(self.tensors),
            layout=self.layout,
            pairs=self.pairs,
            dim=self.width,
            cos_first=self.cos_first,
        )

    @property
    def unmeasured_computation(self) -> WaveComputation:
        """The steps that make a table with these columns, at positions 0, 1, 2, ….

        Its frequencies are zeros until they are measured.
        """
        return WaveComputation(
            frequencies=np.zeros(self.pairs),
            axes=np.zeros(self.pairs, np.intp),
            positions=np.arange(self.rows, dtype=np.float64)[None],
            amplitude=1.0,
            form=self.columns,
        )

    def measured_frequencies(self) -> tuple[MeasuredFrequencies, ...]:
        """Return one measurement of the frequencies of all pairs; none if the columns are not waves."""
        even = self.even
        rows = even.observations
        measured = even.unmeasured_computation.measured_frequencies(rows.sample, rows.sampled_rows)
        return () if measured is None else (measured,)


Readings = tuple[WaveReading, ...]
"""Readings of the same columns, which share their frequencies."""


def wave_readings(tensors: Mapping[str, Array]) -> Iterator[Readings]:
    """Yield the ways to read one tensor, or two, as tables of cosines and sines (rows, columns).

    Programs store them as two tensors, as complex numbers (L, D/2), as 2 × 2 matrices [[c, −s], [s, c]],
    as pairs (L, D/2, 2), stacked (2, L, D), or side by side in one matrix. Each reading carries the edits
    that say so. Columns are read only if cos² + sin² is constant, as far as both are there.
    """
    if len(tensors) == 2:
        yield from _readings_of_two_tensors(*tensors.values())
        return
    (tensor,) = tensors.values()
    for array, edits in without_copies(tensor):
        if array.size >= MIN_ELEMENTS:
            yield from _readings_of_one_tensor(array, edits)


def _readings_of_one_tensor(array: Array, edits: tuple[Edit, ...]) -> Iterator[Readings]:
    """Yield the ways to take one tensor for cosines and sines, by its shape.

    A matrix may hold both or one of them. Other tensors hold both: complex numbers, 2 × 2 matrices
    [[c, −s], [s, c]], pairs along the last axis, or one table above the other.
    """
    if array.dtype.kind == "c":
        layout = Layout("compact", "complex")
        yield from _readings_of_cos_and_sin(array.real, array.imag, (layout, *edits))
        return
    match array.shape:
        case (_, _):
            yield from _readings_of_matrix(array, edits)
        case (_, _, 2, 2):
            if _are_rotations(array):
                layout = Layout("compact", "matrices")
                cos = array[..., 0, 0]
                sin = array[..., 1, 0]
                yield from _readings_of_cos_and_sin(cos, sin, (layout, *edits))
        case (_, _, 2):
            layout = Layout("compact", "pairs")
            yield from _readings_of_cos_and_sin(array[..., 0], array[..., 1], (layout, *edits))
        case (2, _, _):
            yield from _readings_of_cos_and_sin(array[0], array[1], edits)


def _are_rotations(matrices: Array) -> bool:
    """Return True if all 2 × 2 matrices are [[c, −s], [s, c]]: both elements of a diagonal say the same."""
    has_cosine_twice = np.array_equal(matrices[..., 0, 0], matrices[..., 1, 1])
    minus_sine = np.negative(matrices[..., 1, 0])
    return has_cosine_twice and np.array_equal(matrices[..., 0, 1], minus_sine)


class Arranged(NamedTuple):
    """An array as it is to be read, and the edits that say how it lies in the file."""

    array: Array
    edits: tuple[Edit, ...]


def without_copies(array: Array) -> Iterator[Arranged]:
    """Yield an array without axes of length 1 and without copies along an axis, straight and transposed.

    A dump (1, 32, 100, 64) that repeats one table for each of 32 heads becomes the table (100, 64), with
    the edit «repeated 32× along axis 1», and its transpose (64, 100).
    """
    single = _single_copy(array)
    yield single
    if single.array.ndim == 2 and single.array.size <= MAX_TRANSPOSED:
        yield Arranged(single.array.T, (*single.edits, Transposed((1, 0))))


def _single_copy(array: Array) -> Arranged:
    """Return one copy of what an array holds, as a matrix if possible.

    (1, 32, 100, 64) whose 32 heads are equal becomes (100, 64), «repeated 32× along axis 1».
    """
    single = array
    edits: list[Edit] = []
    for axis, size in enumerate(array.shape):
        is_matrix = np.count_nonzero(np.array(single.shape) > 1) <= 2
        if size > 1 and not is_matrix and _are_copies(single, axis):
            edits.append(Repeated(axis, times=size))
            single = single.take([0], axis=axis)
    return Arranged(single.squeeze(), tuple(edits))


def _are_copies(array: Array, axis: int) -> bool:
    """Return True if an array holds the same at all places of an axis."""
    first = array.take([0], axis=axis)
    second = array.take([1], axis=axis)
    # Most axes differ in the second place already.
    return np.array_equal(first, second, equal_nan=True) and bool((array == first).all())


def _readings_of_two_tensors(first: Array, second: Array) -> Iterator[Readings]:
    """Yield two tensors as cosines and sines, straight and transposed, if both lie in the same way."""
    if first.dtype.kind == "c":
        return
    for cos, sin in zip(without_copies(first), without_copies(second), strict=False):
        if cos.array.size >= MIN_ELEMENTS and cos.edits == sin.edits:
            yield from _readings_of_cos_and_sin(cos.array, sin.array, cos.edits)


def _readings_of_cos_and_sin(cos: Array, sin: Array, edits: tuple[Edit, ...]) -> Iterator[Readings]:
    """Yield cosines and sines in two matrices, if their squares add up to a constant.

    In the rows [1 1], [0.5 0.99] of cosines and [0 0], [0.87 0.14] of sines they do: cos² + sin² is 1.

    Args:
        cos: The matrix (rows, columns) that may hold cosines.
        sin: The one that may hold sines.
        edits: How they lie in the file.
    """
    if cos.ndim != 2 or not _is_power_constant(cos, sin):
        return
    tensors = {"cos": cos, "sin": sin}
    layout = _layout_of_copies(cos)
    if layout == _layout_of_copies(sin):
        yield (WaveReading(tensors, layout, edits),)


def _readings_of_matrix(array: Array, edits: tuple[Edit, ...]) -> Iterator[Readings]:
    """Yield the ways to read one matrix (rows, columns) as cosines and sines.

    1. Each row holds cosines beside sines, as [c0 c1 | s0 s1] or [c0 s0 c1 s1]. If so, no other way is
       tried.
    2. The upper half of the rows holds cosines, and the lower half sines.
    3. All rows hold cosines, or all hold sines.

    Args:
        array: The matrix.
        edits: How it lies in the file, such as transposed; each reading adds how it was read.
    """
    layout = _layout_of_copies(array)
    has_each_column_twice = layout != "compact"
    # In c0 c0 c1 c1, both copies are cosines (or both are sines), so that each row holds one function.
    side_by_side = [] if has_each_column_twice else _find_side_by_side(array)
    if side_by_side:
        for arrangement in side_by_side:
            yield _read_side_by_side(array, arrangement, edits)
        return
    yield from _readings_one_above_other(array, edits)
    yield _read_as_one_function(array, layout, edits)


def _read_as_one_function(array: Array, layout: str, edits: tuple[Edit, ...]) -> Readings:
    """Return a matrix as cosines only, and as sines only.

    Args:
        array: The matrix.
        layout: How each column is there twice, or «compact» if it is there once.
        edits: How it lies in the file.
    """
    readings = []
    for edit, name in ONLY_FUNCTION_BY_EDIT.items():
        readings.append(WaveReading({name: array}, layout, (*edits, edit)))
    return tuple(readings)


def _readings_one_above_other(array: Array, edits: tuple[Edit, ...]) -> Iterator[Readings]:
    """Yield a matrix of 2·L rows as L rows of cosines above L rows of sines, if cos² + sin² is constant."""
    half_of_rows, odd_row = divmod(len(array), 2)
    if not odd_row:
        upper = array[:half_of_rows]
        lower = array[half_of_rows:]
        yield from _readings_of_cos_and_sin(upper, lower, (*edits, Layout("stacked", "rows")))


def _find_side_by_side(array: Array) -> list[str]:
    """Return the arrangements, «halves» or «interleaved», in which columns hold cosines and sines.

    The squares of both halves, or of the even and the odd columns, then add up to a constant, as
    cos² + sin² does.
    """
    if array.shape[1] < 2:
        return []
    return [name for name in CACHE if _is_power_constant(*_split_columns(array, name))]


def _read_side_by_side(array: Array, arrangement: str, edits: tuple[Edit, ...]) -> Readings:
    """Return an added table, and a cache of rotary tables if no column is without a partner.

    The row [c0 c1 | s0 s1] may belong to a table that is added to embeddings, or hold the cosines c0 c1
    and the sines s0 s1 of a rotary cache. With 5 columns it is no cache.
    """
    added = WaveReading({"pe": array}, arrangement, edits, cos_first=False)
    cos, sin = _split_columns(array, arrangement)
    layout = _layout_of_copies(cos)
    has_odd_column = array.shape[1] % 2 == 1
    if has_odd_column or layout != _layout_of_copies(sin):
        return (added,)
    edits_of_cache = (*edits, Layout("stacked", arrangement))
    return added, WaveReading({"cos": cos, "sin": sin}, layout, edits_of_cache)


def _split_columns(array: Array, arrangement: str) -> tuple[Array, Array]:
    """Return the two functions of one matrix, without the last of an odd number of columns.

    Of «halves», these are the first and the second half of the columns; of «interleaved», columns
    0, 2, 4, … and 1, 3, 5, …
    """
    paired_columns = array.shape[1] // 2 * 2
    return halved(array[:, :paired_columns], arrangement)


def _layout_of_copies(array: Array) -> str:
    """Return how each column is there twice: «halves» for c0 c1 c0 c1, «interleaved» for c0 c0 c1 c1.

    «compact» is returned if it is there once, as in c0 c1 c2 c3.
    """
    if array.shape[1] % 2:
        return "compact"
    for layout in CACHE:
        first, second = _split_columns(array, layout)
        if _has_equal_columns(first, second):
            return layout
    return "compact"


def _has_equal_columns(first: Array, second: Array) -> bool:
    """Return True if each column equals its copy in nearly all rows: a few rows may be wrong."""
    is_equal = (first == second).mean(axis=0)
    return bool(is_equal.min(initial=1.0) >= MIN_CONSTANT)


def _is_power_constant(first: Array, second: Array) -> bool:
    """Return True if the sum of squares of two functions hardly varies in some of their rows.

    cos² + sin² is 1 in every element of a table, and 1.3 if its amplitude is 1.14. A few rows may be wrong.
    """
    step = max(1, len(first) // SOME_ROWS)
    power = widened(first[::step]) ** 2 + widened(second[::step]) ** 2
    with np.errstate(all="ignore"):
        usual = float(np.median(power))
        is_near = np.abs(power - usual) <= CONSTANT * usual
    return usual > 0 and bool(is_near.mean() >= MIN_CONSTANT)
