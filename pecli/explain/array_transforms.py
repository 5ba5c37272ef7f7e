"""One array made of another, whatever its numbers mean: axes, copies, layouts, orders, signs, factors and masks."""

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, permutations
from typing import NamedTuple

import numpy as np

from pecli.compare.forms import DOUBLINGS, SEARCHED, Form, forms
from pecli.engine.arrays import Array, Flags, Floats, Indices, dtype_name, widened, widest
from pecli.engine.edits import (
    AddedRows,
    Channels,
    Dtype,
    Edit,
    Heads,
    Layout,
    Mask,
    Negated,
    Repeated,
    Rows,
    RowShift,
    Scaled,
    SomeRows,
    Swapped,
    Transposed,
)
from pecli.explain.array_making import (
    ArrayMaking,
    ArrayObservations,
    array_case,
    as_floats,
    as_matrix,
)
from pecli.explain.bias_making import MASKED
from pecli.explain.catalogue.damage import (
    DamagedColumns,
    DamagedElements,
    DamagedHeads,
    DamagedRows,
    Uninitialised,
)
from pecli.explain.explanation import Explanation, best
from pecli.explain.hypotheses import accepted, explain_cases, storages
from pecli.explain.hypothesis import Case, Mistake, accept
from pecli.explain.numbers import plain_numbers
from pecli.explain.storage import SIGNIFICANT_BITS
from pecli.explain.time_limit import check_time, limited

MAX_COMPARED = 1 << 24
"""Elements of two arrays that are compared with each other."""

MAX_LAID_OUT = 1 << 22
"""Elements of an array that is made in other layouts."""

MIN_ELEMENTS = 8
"""Elements of an array that a transform explains: fewer numbers are in some order of others by chance."""

MAX_MATCHED = 4096
"""Rows, channels or heads that are matched with each other."""

MATCHED_ELEMENTS = 2048
"""Elements of each row or channel that are compared to match it."""

FEW_MATCHED = 64
"""Rows that are matched before all are: if most have no source, there is no order."""

PROJECTIONS = 24
"""Random sums by which rows are compared: they find the nearest of thousands of rows."""

NEAR = 0.02
"""Share of the usual square of a row within which its source lies."""

SOME_ELEMENTS = 1 << 14
"""Elements from which factors are estimated."""

MAX_LOST = 0.25
"""Share of rows that may have no source: they are padding, which is one number."""

MIN_SOURCES = 4
"""Different rows that an order has to use: fewer repeat by chance."""

FACTOR_ERROR = 1e-6
"""Relative error of a factor that is estimated from float32 numbers."""

FACTOR_SIGMAS = 5.0
"""Standard errors within which a factor is replaced by a plainer number."""

EVEN = 0.01
"""Share of the largest constant added to a row by which these have to vary: one that is the same is an offset."""

MIN_SHIFTED = 0.25
"""Share of the rows to which a constant is added: fewer are wrong rows."""

DAMAGED: tuple[type[Mistake], ...] = (
    Uninitialised, DamagedElements, DamagedRows, DamagedColumns, DamagedHeads,
)  # fmt: skip
"""Parts of an array that may be wrong in an array that is right otherwise."""


class Candidate(NamedTuple):
    """An array in the shape of the other one, and the edits that make it."""

    edits: tuple[Edit, ...]
    array: Array
    is_computed: bool = False


def explain_pair(name: str, one: Array, other: Array, atol: float = 0.0) -> Explanation | None:
    """Return what makes the second array of the first; None if nothing is found in time.

    Args:
        name: The name of both.
        one: The array that was expected.
        other: The array at hand.
        atol: The tolerance, granted if nothing explains the array more closely.
    """
    if max(one.size, other.size) > MAX_COMPARED or not one.size or not other.size:
        return None
    with limited():
        pair = ArrayPair(name, one, other, atol)
        return pair.damaged() or pair.transformed()
    return None


def explain_rounding(name: str, one: Array, other: Array) -> Explanation | None:
    """Return that the second array is the first one rounded to its own dtype; None if it is not."""
    dtype = dtype_name(other.dtype)
    if one.shape != other.shape or one.dtype.kind == "c" or dtype not in SIGNIFICANT_BITS:
        return None
    with limited():
        case = array_case(ArrayMaking((one,)), ArrayObservations({name: other}), (Dtype(dtype),))
        return accept(case)
    return None


class ArrayPair:
    """An expected array and the one at hand."""

    def __init__(self, name: str, expected: Array, found: Array, atol: float) -> None:
        self.name = name
        self.expected = expected
        self.found = found
        self.atol = atol
        self.observed = ArrayObservations({name: found})
        self.kept: dict[tuple[object, ...], object] = {}

    def case(self, candidate: Candidate) -> Case:
        making = ArrayMaking((candidate.array,), candidate.is_computed)
        return replace(array_case(making, self.observed, candidate.edits), measured=self.kept)

    def transformed(self) -> Explanation | None:
        """Return the first transform that makes every element: those with fewer edits are tried first."""
        if min(self.expected.size, self.found.size) < MIN_ELEMENTS:
            return None
        for candidate in self._candidates():
            check_time()
            if candidate.edits:
                found = explain_cases([self.case(candidate)], self.atol, most=0)
                if found:
                    return found[0]
        return None

    def damaged(self) -> Explanation | None:
        """Return how the expected array was stored, or the small part of it that is wrong."""
        expected = _in_real_numbers(self.expected)
        found = _in_real_numbers(self.found)
        if expected.shape != found.shape:
            return None
        making = ArrayMaking((expected,))
        case = array_case(making, ArrayObservations({self.name: found}), ())
        stored = explain_cases([case], self.atol, most=0)
        explanations = [each for each in stored if each.edits]
        for tolerance in dict.fromkeys((0.0, self.atol)):
            for damaged in storages(case.within(tolerance)):
                if not explanations:
                    explanations = [*_with_damage(damaged)]
        return best(explanations)[0] if explanations else None

    def _candidates(self) -> Iterator[Candidate]:
        """Yield what may make the array: in its shape, then with other values, then in another order."""
        is_complex = self.found.dtype.kind == "c"
        shaped = [
            candidate
            for candidate in _of_shape(self.expected, self.found.shape)
            if (candidate.array.dtype.kind == "c") == is_complex
        ]
        yield from shaped
        for candidate in shaped:
            for change in (_scaled, _shifted, _remasked):
                yield from change(candidate, self.found)
        starts = shaped[:1]
        if not starts or starts[0].edits:  # Rows may be missing or added, and not repeated.
            starts.insert(0, Candidate((), self.expected))
        for start in starts:
            yield from _in_order(start, self.found)


def _in_real_numbers(array: Array) -> Array:
    """Return an array; real and imaginary parts of complex numbers one after the other."""
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag])


def _with_damage(case: Case) -> Iterator[Explanation]:
    for kind in DAMAGED:
        yield from accepted(map(case.given, kind.proposals(case)))


def explain_swapped(
    pairs: Mapping[str, tuple[Array, Array]], atol: float = 0.0
) -> list[Explanation]:
    """Return the two tensors that changed places, of pairs of arrays by name."""
    for first, second in combinations(pairs, 2):
        expected = (pairs[second][0], pairs[first][0])
        found = {first: pairs[first][1], second: pairs[second][1]}
        arrays = (*expected, *found.values())
        alike = {(array.shape, array.dtype.kind == "c") for array in arrays}
        if len(alike) > 1 or expected[0].size > MAX_COMPARED or not expected[0].size:
            continue
        case = array_case(ArrayMaking(expected), ArrayObservations(found), (Swapped(),))
        explanations = explain_cases([case], atol, most=0)
        if explanations:
            return [explanations[0]]
    return []


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without axes of length 1."""
    return tuple(size for size in shape if size != 1) or (1,)


def _of_shape(array: Array, shape: tuple[int, ...]) -> Iterator[Candidate]:
    """Yield an array with other axes, repeated or laid out differently, if that gives it a shape."""
    wanted = _squeezed(shape)
    plain = array.reshape(_squeezed(array.shape))
    if plain.shape == wanted:
        yield Candidate((), plain.reshape(shape))
    for rearrange in (_transposed, _repeated, _laid_out):
        for edits, made, _ in rearrange(plain, wanted):
            if made.shape == wanted:
                yield Candidate(edits, made.reshape(shape))


def _transposed(plain: Array, wanted: tuple[int, ...]) -> Iterator[Candidate]:
    if plain.ndim not in (2, 3):
        return
    straight = tuple(range(plain.ndim))
    for axes in permutations(straight):
        if axes != straight:
            yield Candidate((Transposed(axes),), plain.transpose(axes))


def _repeated(plain: Array, wanted: tuple[int, ...]) -> Iterator[Candidate]:
    for axis, times in enumerate(wanted):
        if wanted[:axis] + wanted[axis + 1 :] == plain.shape:
            copies = np.broadcast_to(np.expand_dims(plain, axis), wanted)
            yield Candidate((Repeated(axis, times),), copies)
    times, rest = divmod(wanted[0], len(plain))
    if len(wanted) > 1 and wanted[1:] == plain.shape[1:] and times > 1 and not rest:
        yield Candidate((Repeated(0, times),), np.concatenate([plain] * times))


def _laid_out(plain: Array, wanted: tuple[int, ...]) -> Iterator[Candidate]:
    """Yield two functions swapped, one of them negated, or both in another layout."""
    if plain.ndim not in (2, 3) or plain.size > MAX_LAID_OUT:
        return
    for source in forms(plain):
        is_odd = source.arrangement == "interleaved" and plain.shape[-1] % 2
        parts = None if is_odd else source.split(plain)
        if parts is None:
            continue
        if len(parts) == 2:
            first, second = parts
            yield Candidate((Swapped(),), source.join(second, first))
            yield Candidate((Negated("first"),), source.join(np.negative(first), second))
            yield Candidate((Negated("second"),), source.join(first, np.negative(second)))
        yield from _in_other_forms(source, parts, math.prod(wanted))


def _in_other_forms(source: Form, parts: tuple[Array, ...], size: int) -> Iterator[Candidate]:
    for arrangement in SEARCHED:
        for doubled in DOUBLINGS:
            target = Form(arrangement, doubled)
            holds_one = arrangement == "alone"
            if target == source or holds_one != (len(parts) == 1):
                continue
            if _size(target, parts[0]) != size:
                continue
            layout = Layout(source.name, target.name)
            yield Candidate((layout,), target.join(*parts))
            if len(parts) == 2:
                yield Candidate((layout, Swapped()), target.join(*parts[::-1]))


def _size(form: Form, part: Array) -> int:
    """Return the number of elements of parts in a form; complex numbers hold two parts in one."""
    copies = 2 if form.doubled else 1
    functions = 1 if form.arrangement in ("alone", "complex") else 2
    return part.size * copies * functions


class Sides(NamedTuple):
    """Some elements of the expected array and of the one at hand, in float64."""

    expected: Floats
    found: Floats

    @property
    def is_finite(self) -> Flags:
        return np.asarray(np.isfinite(self.expected) & np.isfinite(self.found))

    @property
    def is_used(self) -> Flags:
        """Elements at which both are numbers, and one of them is not 0: others are beside the table."""
        return np.asarray(self.is_finite & ((self.expected != 0) | (self.found != 0)))


def _some(made: Array, found: Array) -> Sides:
    """Return about as many elements as a factor is estimated from, in whole rows."""
    rows = as_matrix(found)
    step = max(1, rows.size // SOME_ELEMENTS)
    return Sides(as_floats(as_matrix(made)[::step]), as_floats(rows[::step]))


def _scaled(candidate: Candidate, found: Array) -> Iterator[Candidate]:
    """Yield an array times the factor of least squares, or the plain number that it may be, such as −1."""
    sides = _some(candidate.array, found)
    factor = plain_factor(sides)
    if factor is not None and _is_near(factor * sides.expected, sides):
        edits = (*candidate.edits, *factor_edits(factor))
        yield Candidate(edits, factor * widest(candidate.array), is_computed=True)


def plain_factor(sides: Sides) -> float | None:
    """Return the plainest number that the found array may be times the expected one; None if it is 1, or there is none."""
    expected = np.where(sides.is_finite, sides.expected, 0.0)
    observed = np.where(sides.is_finite, sides.found, 0.0)
    power = float((expected**2).sum())
    factor = float((expected * observed).sum()) / power if power else 0.0
    size = abs(factor)
    if not FACTOR_ERROR < size < 1 / FACTOR_ERROR:
        return None
    left = float(((observed - factor * expected) ** 2).sum())
    error = FACTOR_ERROR * size + FACTOR_SIGMAS * math.sqrt(left / power / expected.size)
    plain = math.copysign(next(plain_numbers(size, error), size), factor)
    return None if abs(plain - 1) <= FACTOR_ERROR else plain


def factor_edits(factor: float) -> tuple[Edit, ...]:
    """Return a factor in the vocabulary of results: a sign, and a number if it is not 1."""
    edits: tuple[Edit, ...] = ()
    if factor < 0:
        edits = (Negated("all"),)
    if abs(factor) != 1:
        edits = (*edits, Scaled(abs(factor)))
    return edits


def _is_near(made: Floats, sides: Sides) -> bool:
    """Return True if most elements are nearly right: only then is the whole array made."""
    size = float(np.abs(sides.found[sides.is_finite]).max(initial=0.0))
    with np.errstate(all="ignore"):
        off = np.abs(made - sides.found)[sides.is_finite]
    return bool(off.size) and float(np.median(off)) <= EVEN * size


def _shifted(candidate: Candidate, found: Array) -> Iterator[Candidate]:
    """Yield a bias with a constant added to each row, where either has values; integers are no biases."""
    made = candidate.array
    are_real = made.dtype.kind not in "ciu" and found.dtype.kind not in "ciu"
    if made.ndim < 2 or made.shape[-1] < 3 or not are_real:
        return
    some = _some(made, found)
    if not _is_near(some.expected + _row_shifts(some), some):
        return
    sides = Sides(widened(made), widened(found))
    shifts = _row_shifts(sides)
    least = EVEN * np.abs(shifts).max()
    varies = np.ptp(shifts) > least
    if varies and np.mean(np.abs(shifts) > least) > MIN_SHIFTED:
        shifted = np.where(sides.is_used, sides.expected + shifts, sides.expected)
        yield Candidate((*candidate.edits, RowShift()), shifted, is_computed=True)


def _row_shifts(sides: Sides) -> Floats:
    """Return the constant that is added to each row, (…, rows, 1); 0 for rows without values."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", RuntimeWarning
        )  # Of rows that are masked, the median is NaN.
        gaps = np.where(sides.is_used, sides.found - sides.expected, np.nan)
        return np.nan_to_num(np.nanmedian(gaps, axis=-1, keepdims=True))


def _remasked(candidate: Candidate, found: Array) -> Iterator[Candidate]:
    """Yield an array with the mask of the other one, if it is at the same places."""
    made = candidate.array
    if "c" in (made.dtype.kind, found.dtype.kind):
        return
    expected = widened(made)
    is_masked = ~(expected > MASKED)
    if not is_masked.any():
        return
    observed = widened(found)
    has_same_places = np.array_equal(is_masked, ~(observed > MASKED))
    if has_same_places and not np.array_equal(expected[is_masked], observed[is_masked]):
        edits = (*candidate.edits, Mask(f"{float(observed[is_masked][0]):.2g}"))
        yield Candidate(edits, np.where(is_masked, observed, expected))


def _in_order(candidate: Candidate, found: Array) -> Iterator[Candidate]:
    """Yield rows, channels or heads in the order in which they are nearest to those of the other array."""
    made = candidate.array.reshape(_squeezed(candidate.array.shape))
    wanted = found.reshape(_squeezed(found.shape))
    if made.ndim not in (2, 3) or made.ndim != wanted.ndim:
        return
    if "c" in (made.dtype.kind, wanted.dtype.kind):
        return
    for axis in range(made.ndim):
        ours = np.moveaxis(made, axis, 0)
        theirs = np.moveaxis(wanted, axis, 0)
        sizes = (len(ours), len(theirs))
        if ours.shape[1:] == theirs.shape[1:] and min(sizes) >= 2 and max(sizes) <= MAX_MATCHED:
            for edits, moved, _ in _ordered(ours, theirs, axis, made.ndim):
                array = np.moveaxis(moved, 0, axis).reshape(found.shape)
                yield Candidate((*candidate.edits, *edits), array)
            if axis == made.ndim - 2 and len(ours) < len(theirs):
                for edits, moved, _ in _with_added_rows(ours, theirs):
                    array = np.moveaxis(moved, 0, axis).reshape(found.shape)
                    yield Candidate((*candidate.edits, *edits), array)


def _ordered(expected: Array, found: Array, axis: int, axes: int) -> Iterator[Candidate]:
    """Yield the expected slices along the first axis in the order in which they were found, with either sign.

    Slices without a source are padding, if all of them hold one number.
    """
    for sign in (1, -1):
        sources = _matching_slices(expected, found, sign)
        edit = _order_edit(sources, len(expected), axis, axes)
        is_lost = sources < 0
        is_padding = not is_lost.any() or not np.ptp(widened(found[is_lost]))
        if edit is None or not is_padding:
            continue
        moved = sign * widened(expected[np.maximum(sources, 0)])
        moved[is_lost] = widened(found[is_lost])
        signs: tuple[Edit, ...] = (Negated("all"),) if sign < 0 else ()
        yield Candidate((*signs, edit), moved)


def _with_added_rows(expected: Array, found: Array) -> Iterator[Candidate]:
    """Yield the found rows if all expected ones are among them, in their order.

    The rows 0, 4 and 8 of a table, compared with the rows 0 to 8: 1–3 and 5–7 are added.
    """
    places = _matching_slices(found, expected, 1)
    are_all_there = places.min() >= 0 and bool((np.diff(places) > 0).all())
    if len(expected) < MIN_SOURCES or not are_all_there:
        return
    moved = widened(found).copy()
    moved[places] = widened(expected)
    added = np.setdiff1d(np.arange(len(found)), places)
    yield Candidate((AddedRows(tuple(added.tolist())),), moved)


def _matching_slices(expected: Array, found: Array, sign: int) -> Indices:
    """Return for each found slice the index of the expected slice that is nearest to it; −1 if none is near.

    If the rows of a table are reversed, the indices of four rows are 3 2 1 0. Comparing thousands of rows with each
    other number by number takes minutes. So rows are compared by some random weighted sums: equal rows have equal
    sums, and other rows practically never do.
    """
    sources = sign * _as_rows(expected)
    targets = _as_rows(found)
    weights = np.random.default_rng(0).normal(size=(sources.shape[1], PROJECTIONS))
    source_sums = sources @ weights
    target_sums = targets @ weights
    few = target_sums[:: max(1, len(targets) // FEW_MATCHED)]
    share_lost = np.mean(_nearest(source_sums, few) < 0)
    if share_lost > 0.5:
        return np.full(len(targets), -1)
    return _nearest(source_sums, target_sums)


def _as_rows(slices: Array) -> Floats:
    """Return some numbers of each slice as a row in float64, with 0 for a mask."""
    rows = slices.reshape(len(slices), -1)
    step = max(1, rows.shape[1] // MATCHED_ELEMENTS)
    wide = widened(rows[:, ::step])
    return np.where(np.isfinite(wide), wide, 0.0)


def _nearest(sources: Floats, targets: Floats) -> Indices:
    """Return the index of the source that is nearest to each target; −1 if none is near.

    Distances follow from |s − t|² = |s|² + |t|² − 2·s·t, which needs one product of matrices.
    """
    source_squares = (sources**2).sum(axis=1)
    target_squares = (targets**2).sum(axis=1)
    distances = source_squares + target_squares[:, None] - 2 * targets @ sources.T
    nearest = distances.argmin(axis=1)
    usual_square = float(target_squares.mean()) or 1.0
    is_near = distances[np.arange(len(targets)), nearest] < NEAR * usual_square
    return np.where(is_near, nearest, -1)


def _order_edit(sources: Indices, count: int, axis: int, axes: int) -> Edit | None:
    """Return the order of slices along an axis as an edit; None for the expected one, or without enough evidence.

    Args:
        sources: The index of the expected slice that each found one is; −1 for none.
        count: The number of expected slices.
        axis: The axis along which slices were taken.
        axes: The number of axes: the last are channels, those before them rows, and others heads.
    """
    matched = sources[sources >= 0]
    is_constant = not np.ptp(sources)
    has_few_sources = len(np.unique(matched)) < min(MIN_SOURCES, count) and not is_constant
    if len(matched) < (1 - MAX_LOST) * len(sources) or has_few_sources:
        return None
    rows = _row_order(sources, count)
    if axis == axes - 2:
        return rows or _some_rows(sources, count)
    if rows is None:
        return None
    is_permutation = len(sources) == count and len(np.unique(matched)) == count
    if not is_permutation:
        return None
    listed: str | tuple[int, ...] = tuple(sources.tolist())
    if rows.order == "reversed":
        listed = "reversed"
    return Channels(listed) if axis == axes - 1 else Heads(listed)


def _row_order(order: Indices, count: int) -> Rows | None:
    """Return an order of rows in words; None for the expected one, and for one without a name."""
    here = np.arange(len(order))
    first = int(order[0])
    lost = int(np.count_nonzero(order < 0))
    period = int((order[1:] == first).argmax()) + 1
    named = {
        Rows("cut", len(order)): here,
        Rows("padded", lost): np.where(here < lost, -1, here - lost),
        Rows("padded at the end", lost): np.where(here < len(order) - lost, here, -1),
        Rows("constant", first): np.full(len(order), first),
        Rows("wrapped", period): max(first, 0) + here % period,
    }
    if len(order) == count:
        named[Rows("reversed")] = here[::-1]
    for rows, places in named.items():
        if np.array_equal(order, places):
            return None if rows == Rows("cut", count) else rows
    is_permuted = len(order) == count and not lost and len(np.unique(order)) == count
    return Rows("permuted") if is_permuted else None


def _some_rows(order: Indices, count: int) -> SomeRows | None:
    """Return the expected rows that are there, if others are missing; None unless each is there once."""
    is_part = len(order) < count and len(np.unique(order)) == len(order)
    if not is_part or order.min() < 0:
        return None
    return SomeRows(tuple(order.tolist()))
