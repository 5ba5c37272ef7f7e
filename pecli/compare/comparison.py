"""One comparison: how far a tensor is from what it has to equal, where, and whether that is within a tolerance.

What is expected is made once, some rows at a time, and compared with every place of the tensor that has to equal it:
copies along a batch or head axis, doubled columns, the two cosines of a rotation matrix. Those are views.
Most tables are equal, or differ in a few elements only: bits are compared first, and only what differs is measured.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from pecli.compare.json_values import plain_fields
from pecli.compare.tolerance import EXACT, Tolerance, is_relative
from pecli.engine import arrays
from pecli.engine.arrays import (
    SIGNIFICAND_BITS,
    AnyArray,
    Array,
    dtype_name,
    numpy_dtype,
    round_to,
    widened,
    widest,
)
from pecli.engine.table import Table, work_through
from pecli.errors import bracketed
from pecli.files.tensor_roles import role_of

READ_BYTES = (
    1 << 22
)  #: of a table, made and compared at once: fewer calls than one for each measured piece
PIECE_BYTES = (
    1 << 18
)  #: whose bits are compared at once: with its scratch arrays it stays in a core's own cache
MIN_DENSE = 1 / 8  #: of a piece's elements differ before they are screened for those that matter
LOWEST = {
    "float64": -3e38,
    "float32": -3e38,
    "bfloat16": -3e38,
    "float16": -6e4,
}  #: what only a mask is below
FLOAT32_SLACK = 2.0**-24  #: of a value, that float32 arithmetic may have changed it by
MAX_RANGES = 64  #: of rows, columns, heads or sequences, that are listed

Value = float | complex
Index = tuple[int, ...]
Ranges = list[tuple[int, int]]


@dataclass
class Comparison:
    """The result for one tensor. Errors of tensors that cannot be compared are None."""

    name: str
    shape: tuple[int, ...]
    size: int
    expected_dtype: str = ""
    dtype: str = ""
    mismatched: int | None = 0
    max_abs_error: float | None = 0.0
    max_rel_error: float | None = (
        0.0  #: of elements where 0 is not expected; None where only such ones differ
    )
    max_ulp_error: int | None = 0  #: in units of the dtype that was found; None for integers
    worst_ulp: int | None = None  #: of the element at worst_index
    worst_index: Index | None = None
    first_index: Index | None = None  #: the first element out of tolerance
    expected: Value | None = None
    found: Value | None = None
    strange_expected: int = 0  #: values that are not finite, where the two differ
    strange_found: int = 0
    where: Mapping[str, Ranges] = field(
        default_factory=dict
    )  #: `rows`, `columns`, `heads`, `batch` out of tolerance
    problem: str = ""
    parts: "Sequence[Part]" = field(
        default=(), repr=False, compare=False
    )  #: what was compared, where it differs
    allowed: Tolerance = EXACT  #: what was really applied
    sides_swapped: bool = False  #: whether `expected` is what the parts call found
    undecided: bool = False  #: True if inputs are not finite, so that equal values prove nothing

    @property
    def passed(self) -> bool:
        return self.mismatched == 0 and not self.problem

    @classmethod
    def impossible(cls, name: str, shape: tuple[int, ...], problem: str) -> "Comparison":
        return cls(name, shape, math.prod(shape), "", "", None, None, None, None, problem=problem)

    @classmethod
    def of_shape(cls, name: str, shape: tuple[int, ...], expected: str) -> "Comparison":
        return cls.impossible(
            name, shape, f"its shape is {bracketed(shape)} where {expected} is expected"
        )

    def as_json(self) -> dict[str, Any]:
        errors = (
            "mismatched",
            "max_abs_error",
            "max_rel_error",
            "max_ulp_error",
            "worst_index",
            "first_index",
        )
        return plain_fields(self, "name", "shape", *errors, "expected", "found", "where")


def ranges(numbers: AnyArray) -> Ranges:
    """The first and the last of those that follow each other, of numbers that rise; of too many, the last holds all."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1)[: MAX_RANGES - 1] + 1)
    return [(int(run[0]), int(run[-1])) for run in runs]


def where_json(tensors: Sequence[Comparison]) -> dict[str, list[list[int]] | None]:
    """What is out of tolerance in any of some tensors, as JSON has it."""
    found = dict[str, list[list[int]] | None]()
    for name in ("rows", "columns", "heads", "batch"):
        numbers = [
            np.arange(low, high + 1) for each in tensors for low, high in each.where.get(name, ())
        ]
        found[name] = (
            [[*pair] for pair in ranges(np.unique(np.concatenate(numbers)))] if numbers else None
        )
    return found


def problems_of(tensors: Sequence[Comparison]) -> tuple[str, ...]:
    """Why tensors cannot be compared, or differ in more than their values."""
    return tuple(f"{tensor.name}: {tensor.problem}" for tensor in tensors if tensor.problem)


@dataclass(frozen=True)
class Part:
    """A table, or an array, and the places of a tensor that have to equal it: a view (copies…, *shape)."""

    expected: Table | Array
    found: Array
    negated: bool = False
    step: float = 0.0  #: what one means, where integers were found that stand for numbers
    masked: bool = False  #: whether the most negative number of a dtype stands for −∞
    name: str = ""  #: of the table, where a tensor holds several

    @property
    def copies(self) -> tuple[int, ...]:
        return self.found.shape[: self.found.ndim - len(self.expected.shape)]

    @property
    def dtypes(self) -> tuple[np.dtype[Any], np.dtype[Any]]:
        expected = self.expected.dtype
        return numpy_dtype(expected) if isinstance(expected, str) else expected, self.found.dtype

    def decoded(self, values: AnyArray) -> AnyArray:
        if self.step:
            return np.multiply(values, self.step, dtype=np.float64)
        if self.masked and values.dtype.kind in "fV":
            low = values <= LOWEST.get(dtype_name(values.dtype), -np.inf)
            return np.where(low, np.asarray(-np.inf, values.dtype), values) if low.any() else values
        return values

    def rows(self, index: tuple[int | slice, ...], start: int, count: int) -> AnyArray:
        """Rows of what is expected, as a new array unless they lie in one already."""
        if isinstance(self.expected, Table):
            ours = self.expected.read(start, start + count)
        else:
            ours = np.ascontiguousarray(self.expected[index].reshape(count, -1))
        ours = widened(ours) if self.step else self.decoded(ours)
        return np.negative(ours) if self.negated else ours

    def in_steps(self, ours: AnyArray, theirs: AnyArray) -> AnyArray:
        """What is expected, rounded to steps; where float32 may round either way, to those that were found."""
        allowed = 0.5 * self.step + FLOAT32_SLACK * np.abs(ours)
        return np.where(
            np.abs(theirs - ours) <= allowed, theirs, np.rint(ours / self.step) * self.step
        )


def compare_arrays(
    expected: Table | Array,
    found: Array,
    tolerance: Tolerance = EXACT,
    *,
    name: str,
    **options: Any,
) -> Comparison:
    """Compare an array with a table or an array element by element; another shape is a finding, not an error."""
    if found.shape != expected.shape:
        return Comparison.of_shape(name, found.shape, bracketed(expected.shape))
    found = np.asarray(found, order="C")
    return compare([Part(expected, found)], found, tolerance, name=name, **options)


def compare(
    parts: Sequence[Part],
    array: Array,
    tolerance: Tolerance,
    *,
    name: str,
    role: str = "",
    any_dtype: bool = False,
) -> Comparison:
    """Compare the parts of a tensor, views of one array in C order, with what they should be; another dtype is a
    finding, unless with `any_dtype` it is another floating one, or holds integers of another width.

    Values of unlike dtypes are compared as float64, and units of the last place are those of the dtype found, into
    which the expected value is rounded once. Frequencies and slopes are never rounded to half precision for that.
    """
    names = (name, role or name)
    first = parts[0]
    wanted, given = (dtype_name(dtype) for dtype in first.dtypes)
    kinds = {dtype.kind for dtype in first.dtypes}
    alike = (
        {wanted, given} <= {*SIGNIFICAND_BITS}
        or kinds <= {*"iu"}
        or kinds == {"c"}
        or bool(first.step)
    )
    any_dtype = (any_dtype or "inv_freq" in map(role_of, names)) and alike
    single = any_dtype and is_relative(*names) and wanted != given
    result = Comparison(
        name, array.shape, array.size, wanted, given, allowed=tolerance.for_tensor(*names)
    )
    if wanted != given and not any_dtype:
        result.problem = f"its dtype is {given} where {wanted} is expected"
    shape = first.expected.shape
    errors = _Errors(result, shape)
    width, size = errors.width, first.found.size
    itemsize = 8 if first.step else max(dtype.itemsize for dtype in first.dtypes)
    step = max(1, READ_BYTES // max(1, width * itemsize))

    def measure(work: tuple[int, tuple[int | slice, ...], int, int]) -> None:
        number, index, start, count = work
        part = parts[number]
        ours = part.rows(index, start, count)
        ours = round_to(widened(ours), "float32") if single else ours
        for copy, at in enumerate(np.ndindex(part.copies)):
            theirs = part.decoded(part.found[(*at, *index)].reshape(count, width))
            theirs = (
                round_to(widened(theirs), "float32") if single else np.ascontiguousarray(theirs)
            )
            own = part.in_steps(ours, theirs) if part.step else ours
            errors.measure(own, theirs, number * size + (copy * errors.rows.size + start) * width)

    pieces = (
        (number, *slab) for number in range(len(parts)) for slab in slabs(shape[:-1] or shape, step)
    )
    if size:
        work_through(measure, pieces)
    errors.conclude(parts, array)
    result.parts = () if result.worst_index is None else parts
    return result


def slabs(axes: tuple[int, ...], step: int) -> Iterator[tuple[tuple[int | slice, ...], int, int]]:
    """Indices that take up to `step` rows each, with the number of the first row and how many they are."""
    if not axes:
        yield (), 0, 1
        return
    inner = [math.prod(axes[k + 1 :]) for k in range(len(axes))]
    depth = next(k for k, rows in enumerate(inner) if rows <= step)
    several = max(1, step // max(1, inner[depth]))
    for number, prefix in enumerate(np.ndindex(axes[:depth])):
        for low in range(0, axes[depth], several):
            count = min(several, axes[depth] - low)
            start = (number * axes[depth] + low) * inner[depth]
            yield (*prefix, slice(low, low + count)), start, count * inner[depth]


class _Errors:
    """The errors of elements as threads measure them; the place of one is its number in all parts, copy by copy."""

    def __init__(self, result: Comparison, shape: tuple[int, ...]) -> None:
        self.result, self.tolerance, self.shape, self.lock = result, result.allowed, shape, Lock()
        self.rows = np.zeros(math.prod(shape[:-1] or shape), bool)
        self.width = shape[-1] if len(shape) > 1 else 1
        self.columns: dict[int, arrays.Flags] = {}  # by copy, those out of tolerance
        self.firsts: dict[int, int] = {}  # by copy, the first place out of tolerance
        self.worst: int | None = None
        result.max_ulp_error = (
            None if result.dtype and numpy_dtype(result.dtype).kind in "iub" else 0
        )

    def measure(self, ours: AnyArray, theirs: AnyArray, start: int) -> None:
        """Add the errors of rows, the first of whose elements has the place `start`."""
        ours, theirs = ours.reshape(-1), theirs.reshape(-1)
        if not _differing(ours, theirs, word=math.gcd(8, ours.nbytes)).any():
            return
        floats = {dtype_name(ours.dtype), dtype_name(theirs.dtype)} <= {*SIGNIFICAND_BITS}
        step = PIECE_BYTES // max(4, ours.itemsize, theirs.itemsize)
        off, places, dense = np.zeros(ours.size, bool), np.empty(0, np.intp), False
        with np.errstate(all="ignore"):
            for low in range(0, ours.size, step):
                piece = slice(low, low + step)
                if not dense:
                    looked_at = _differing(ours[piece], theirs[piece])
                    dense = floats and bool(
                        np.count_nonzero(looked_at) > MIN_DENSE * looked_at.size
                    )
                if dense:  # and what follows is likely to be
                    looked_at = self._screen(ours[piece], theirs[piece], start + low, off[piece])
                places = np.append(places, np.flatnonzero(looked_at) + low)
                if places.size > MIN_DENSE * step or (places.size and low + step >= ours.size):
                    off[places] = self._add(ours[places], theirs[places], places + start)
                    places = places[:0]
        if off.any():
            self._fail(off.reshape(-1, self.width), start)

    def _screen(self, ours: Array, theirs: Array, start: int, off: Array) -> AnyArray:
        """Set what is out of tolerance, and say which elements to look at one by one: where rounding decides that,
        where errors may be the largest so far; all that differ, where units decide, or errors are not finite.
        Floats that are n units of p bits apart have a relative error of more than n / (2^p + n).

        Floats of 32 bits are screened in such. Their differences, products and ratios are rounded, by less than
        `margin`, or `tiny` where they are subnormal (as no ratio of a difference is); and rounding keeps their order.
        """
        tolerance, result = self.tolerance, self.result
        single = max(ours.itemsize, theirs.itemsize) <= 4
        floats, margin, tiny = (
            (np.float32, 2.0**-20, 2.0**-126) if single else (np.float64, 2.0**-49, 2.0**-1022)
        )
        expected = ours.astype(floats, copy=False)
        error = np.subtract(expected, theirs, dtype=floats)
        np.abs(error, out=error)
        largest = error.max()
        if not np.isfinite(largest):
            return _differing(ours, theirs)
        size = np.abs(expected)
        looked_at = np.zeros(ours.size, bool)
        if tolerance.atol or tolerance.rtol:
            allowed = tolerance.rtol * size + tolerance.atol if tolerance.rtol else tolerance.atol
            np.greater(error, allowed * (1 + margin) + tiny, out=off)
            np.greater(error, allowed * (1 - margin) - tiny, out=looked_at)
            looked_at ^= off
        else:
            np.greater(error, 0, out=off)
        if (tolerance.max_ulp or ours.dtype != theirs.dtype) and (off.any() or looked_at.any()):
            return _differing(ours, theirs)  # they may be as near as the dtype has them
        units = (result.max_ulp_error or 0) + (
            ours.dtype == theirs.dtype
        )  # else what is expected is rounded first
        limit = min(
            result.max_rel_error or 0.0,
            units / (2 ** SIGNIFICAND_BITS[dtype_name(theirs.dtype)] + units),
        )
        looked_at |= np.divide(error, size, out=size) > limit * (1 - margin)
        known, earlier = result.max_abs_error or 0.0, self.worst is None or start < self.worst
        if largest >= known:
            large = np.flatnonzero(error >= known)
            exact = np.abs(widened(ours[large]) - widened(theirs[large]))
            looked_at[large] |= exact >= known if earlier else exact > known
        return looked_at

    def _add(self, ours: Array, theirs: Array, places: Array) -> AnyArray:
        """Add errors of elements, and say which are out of tolerance."""
        tolerance, result = self.tolerance, self.result
        expected, found = widest(ours), widest(theirs)
        alike, error, ulps = _element_errors(ours, theirs)
        size = np.abs(expected)
        passes = alike | (np.isfinite(error) & (error <= tolerance.atol + tolerance.rtol * size))
        if ulps is not None:
            within = ulps <= min(tolerance.max_ulp, int(np.iinfo(ulps.dtype).max))
            passes |= within & ~(np.isnan(expected) | np.isnan(found))
        ratio = error / size  # where 0 is expected there is none
        relative = float(np.max(ratio, initial=0, where=np.isfinite(ratio)))
        at = int(error.argmax())
        largest, place = float(error[at]), int(places[at])
        with self.lock:
            if ulps is not None:
                result.max_ulp_error = max(result.max_ulp_error or 0, int(ulps.max()))
            known = result.max_abs_error or 0.0
            if largest > known or (
                largest == known > 0 and self.worst is not None and place < self.worst
            ):
                self.worst, result.max_abs_error = place, largest
                result.worst_ulp = None if ulps is None else int(ulps[at])
                result.expected, result.found = (
                    +ours[at].item(),
                    +theirs[at].item(),
                )  # booleans are counted
            result.max_rel_error = max(result.max_rel_error or 0.0, relative)
            result.strange_expected += int(np.count_nonzero(~(alike | np.isfinite(expected))))
            result.strange_found += int(np.count_nonzero(~(alike | np.isfinite(found))))
        return ~passes

    def _fail(self, off: Array, start: int) -> None:
        """Note what is out of tolerance in rows, or in a part of one, that begin at the place `start`."""
        copy, within = divmod(start, self.rows.size * self.width)
        row, column = divmod(within, self.width)
        first = start + int(off.argmax())
        with self.lock:
            self.result.mismatched = (self.result.mismatched or 0) + int(np.count_nonzero(off))
            self.firsts[copy] = min(first, self.firsts.get(copy, first))
            self.rows[row : row + len(off)] |= off.any(axis=1)
            columns = self.columns.setdefault(copy, np.zeros(self.width, bool))
            columns[column : column + off.shape[1]] |= off.any(axis=0)

    def conclude(self, parts: Sequence[Part], array: Array) -> None:
        def index_of(place: int) -> Index:
            number, within = divmod(place, parts[0].found.size)
            found = parts[number].found
            first, begin = (each.__array_interface__["data"][0] for each in (found, array))
            offset = (
                int(np.dot(np.unravel_index(within, found.shape), found.strides))
                if found.ndim
                else 0
            )
            return tuple(
                int(k)
                for k in np.unravel_index((first - begin + offset) // array.itemsize, array.shape)
            )

        result = self.result
        if result.max_rel_error == 0 and result.max_abs_error:
            result.max_rel_error = None
        result.worst_index = None if self.worst is None else index_of(self.worst)
        if not self.firsts:
            return
        firsts = [index_of(place) for place in self.firsts.values()]
        result.first_index = min(firsts)
        if len(self.shape) < 2:
            where = {"columns": ranges(np.flatnonzero(self.rows))}
        else:
            rows = self.rows.reshape(-1, (1, *self.shape)[-3], self.shape[-2])
            flags = {
                "rows": rows.any(axis=(0, 1)),
                "heads": rows.any(axis=(0, 2)),
                "batch": rows.any(axis=(1, 2)),
            }
            where = {
                name: ranges(np.flatnonzero(each))
                for name, each in [*flags.items()][: len(self.shape) - 1]
            }
            step = parts[0].found.strides[-1]
            columns = [np.flatnonzero(each) for each in self.columns.values()]
            if (
                array.ndim > 1 and step < array.strides[-2]
            ):  # else frequencies have an axis of their own, and are told
                starts = [index_of(copy * self.rows.size * self.width)[-1] for copy in self.columns]
                columns = [
                    start + each * step // array.itemsize
                    for start, each in zip(starts, columns, strict=True)
                ]
            where["columns"] = ranges(np.unique(np.concatenate(columns)))
        names = [name for name in ("batch", "heads") if name not in where]
        for name, axis in zip(names, copy_axes(parts[0], array), strict=False):
            where[name] = ranges(np.unique([index[axis] for index in firsts]))
        result.where = where


def copy_axes(part: Part, array: Array) -> list[int]:
    """The axes of a tensor along which a table is repeated."""
    copies = [
        (size, step)
        for size, step in zip(part.copies, part.found.strides, strict=False)
        if size > 1
    ]
    return [
        axis
        for axis, pair in enumerate(zip(array.shape, array.strides, strict=True))
        if pair in copies
    ]


def _differing(ours: Array, theirs: Array, word: int = 0) -> AnyArray:
    """Whether bits of elements, or of words of so many bytes, differ (a NaN is like itself); always where dtypes do."""
    if ours.dtype != theirs.dtype:
        return np.ones(ours.size, bool)
    bits = np.dtype(f"u{word or min(8, ours.itemsize)}")
    differ = ours.view(bits) != theirs.view(bits)
    return np.asarray(
        differ.reshape(ours.size, -1).any(axis=1) if differ.size > ours.size else differ
    )


def _element_errors(ours: Array, theirs: Array) -> tuple[AnyArray, AnyArray, AnyArray | None]:
    """Which elements are alike, their absolute errors, and the units of the last place between them, for floats."""
    if ours.dtype == theirs.dtype and ours.dtype.kind in "iub":
        a, b = (each.view(np.uint8) if each.dtype.kind == "b" else each for each in (ours, theirs))
        unsigned = f"u{a.dtype.itemsize}"
        apart = np.maximum(a, b).view(unsigned) - np.minimum(a, b).view(unsigned)
        return np.asarray(a == b), apart.astype(np.float64), None
    alike, error = arrays.absolute_errors(ours, theirs)
    if theirs.dtype.kind in "iub" or (ours.dtype.kind == "c" != theirs.dtype.kind):
        return alike, error, None
    if theirs.dtype.kind == "c":
        ours = ours.astype(theirs.dtype)
        parts = [
            (one.copy(), other.copy())
            for one, other in ((ours.real, theirs.real), (ours.imag, theirs.imag))
        ]
        units = np.maximum(arrays.ulps_apart(*parts[0]), arrays.ulps_apart(*parts[1]))
    else:
        name = dtype_name(theirs.dtype)
        if ours.dtype != theirs.dtype:
            ours = (
                round_to(widened(ours), name)
                if name in SIGNIFICAND_BITS
                else widened(ours).astype(theirs.dtype)
            )
        units = arrays.ulps_apart(ours, theirs)
    units[alike] = 0
    return alike, error, units
