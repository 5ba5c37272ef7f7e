"""One array made of another: axes, copies, layouts, orders, signs, factors and masks."""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import chain, combinations, permutations, product
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
from pecli.explain.array_computation import (
    ArrayComputation,
    ArrayObservations,
    array_case,
    as_floats,
    as_matrix,
)
from pecli.explain.bias_computation import is_unmasked
from pecli.explain.catalogue.damage import (
    DamagedColumns,
    DamagedElements,
    DamagedHeads,
    DamagedRows,
    Uninitialised,
)
from pecli.explain.explanation import Explanation, best
from pecli.explain.hypotheses import explain_by_kind, explain_cases, with_storages
from pecli.explain.hypothesis import Case, Mistake, accept
from pecli.explain.numbers import plain_numbers
from pecli.explain.storage import SIGNIFICANT_BITS
from pecli.explain.time_limit import check_time, limited

MAX_COMPARED = 1 << 24
"""Elements of two arrays that are compared with each other."""

MAX_LAID_OUT = 1 << 22
"""Elements of an array that is made in other layouts."""

MIN_ELEMENTS = 8
"""Elements of an array that a transform explains: fewer numbers are in some order of others by
chance.
"""

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

TINY = 1e-300

EVEN = 0.01
"""Share of the largest constant added to a row by which these have to vary: one that is the same is
an offset.
"""

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


def explain_pair(name: str, one: Array, other: Array, atol: float) -> Explanation | None:
    """Return what makes the second array of the first; None if nothing is found in time.

    Args:
        name: The name of both.
        one: The array that was expected.
        other: The array at hand.
        atol: The tolerance, granted if nothing explains the array more closely.
    """
    smaller, larger = sorted((one.size, other.size))
    if larger > MAX_COMPARED or smaller == 0:
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
        case = array_case(
            ArrayComputation((one,)), ArrayObservations({name: other}), (Dtype(dtype),)
        )
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
        computation = ArrayComputation((candidate.array,), candidate.is_computed)
        return replace(array_case(computation, self.observed, candidate.edits), measured=self.kept)

    def transformed(self) -> Explanation | None:
        """Return the first change of the expected array that makes every element of the found one.

        A change is a transposition, another layout, a factor, another order of rows, and so on;
        those that need fewer edits come first. None is returned if no change does.
        """
        if min(self.expected.size, self.found.size) < MIN_ELEMENTS:
            return None
        for candidate in self._changed_arrays():
            check_time()
            if candidate.edits:
                explanations = explain_cases([self.case(candidate)], self.atol, most_mistakes=0)
                if explanations:
                    return explanations[0]
        return None

    def damaged(self) -> Explanation | None:
        """Return how the expected array was stored, or else the small part of it that is wrong.

        A table that was printed with four decimals is stored coarsely; one whose rows 5 and 6 hold
        zeros is damaged. Damage is looked for without a tolerance first, then within the user's.
        """
        expected = _in_real_numbers(self.expected)
        found = _in_real_numbers(self.found)
        if expected.shape != found.shape:
            return None
        computation = ArrayComputation((expected,))
        case = array_case(computation, ArrayObservations({self.name: found}), ())
        explained_by_storage = explain_cases([case], self.atol, most_mistakes=0)
        explanations = [explanation for explanation in explained_by_storage if explanation.edits]
        if not explanations:
            explanations = self._explain_damage(case)
        return best(explanations)[0] if explanations else None

    def _explain_damage(self, case: Case) -> list[Explanation]:
        """Return the small parts of an array that may be the wrong ones."""
        for tolerance in dict.fromkeys((0.0, self.atol)):
            for stored_case in with_storages(case.within(tolerance)):
                explanations = [*_with_damage(stored_case)]
                if explanations:
                    return explanations
        return []

    def _changed_arrays(self) -> Iterator[Candidate]:
        """Yield the expected array, changed in every way in which it may be the found one.

        First come arrays that only lie differently (transposed, repeated, another layout), then
        these with other values (a factor, a constant per row, another mask), then rows, channels
        or heads in another order.
        """
        rearranged = self._rearranged_arrays()
        yield from rearranged
        for candidate in rearranged:
            yield from _scaled(candidate, self.found)
            yield from _with_row_constants(candidate, self.found)
            yield from _with_mask_of(self.found, candidate)
        yield from _with_slices_in_order_of(self.found, Candidate((), self.expected))
        for candidate in rearranged[:1]:
            if candidate.edits:
                yield from _with_slices_in_order_of(self.found, candidate)

    def _rearranged_arrays(self) -> list[Candidate]:
        """Return the expected array in every arrangement that has the shape of the found one.

        Complex numbers are compared with complex ones only, and real numbers with real ones.
        """
        candidates = []
        for candidate in _in_shape(self.found.shape, self.expected):
            if _is_complex(candidate.array) == _is_complex(self.found):
                candidates.append(candidate)
        return candidates


def _is_complex(array: Array) -> bool:
    return array.dtype.kind == "c"


def _in_real_numbers(array: Array) -> Array:
    """Return an array; real and imaginary parts of complex numbers one after the other."""
    if not _is_complex(array):
        return array
    return np.stack([array.real, array.imag])


def _with_damage(case: Case) -> Iterator[Explanation]:
    for kind in DAMAGED:
        yield from explain_by_kind(case, kind)


def explain_swapped(pairs: Mapping[str, tuple[Array, Array]], atol: float) -> list[Explanation]:
    """Return that two tensors changed places: `cos` holds the sines, and `sin` the cosines.

    Args:
        pairs: The expected and the found array of each tensor, by its name.
        atol: The tolerance, granted if nothing explains the arrays more closely.

    Returns:
        One explanation for the first two tensors that did; an empty list if none did.
    """
    for first, second in combinations(pairs, 2):
        expected_first, found_first = pairs[first]
        expected_second, found_second = pairs[second]
        expected = (expected_second, expected_first)  # in the place of each other
        found = {first: found_first, second: found_second}
        if not _can_be_compared((*expected, *found.values())):
            continue
        case = array_case(ArrayComputation(expected), ArrayObservations(found), (Swapped(),))
        explanations = explain_cases([case], atol, most_mistakes=0)
        if explanations:
            return [explanations[0]]
    return []


def _can_be_compared(arrays: Sequence[Array]) -> bool:
    """Return True if arrays have one shape, are all real or all complex, and are not too large."""
    kinds = {(array.shape, _is_complex(array)) for array in arrays}
    return len(kinds) == 1 and 0 < arrays[0].size <= MAX_COMPARED


def _squeezed(array: Array) -> Array:
    """Return an array without axes of length 1."""
    return array.reshape(_squeezed_shape(array.shape))


def _squeezed_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without axes of length 1."""
    return tuple(size for size in shape if size != 1)


def _in_shape(shape: tuple[int, ...], array: Array) -> Iterator[Candidate]:
    """Yield an array with other axes, repeated or laid out differently, if that gives it a shape."""
    wanted_shape = _squeezed_shape(shape)
    plain = _squeezed(array)
    if plain.shape == wanted_shape:
        yield Candidate((), plain.reshape(shape))
    for rearrange in (_transposed, _repeated, _in_other_layouts):
        for candidate in rearrange(plain, wanted_shape):
            if candidate.array.shape == wanted_shape:
                yield candidate._replace(array=candidate.array.reshape(shape))


def _transposed(plain: Array, _: tuple[int, ...]) -> Iterator[Candidate]:
    """Yield a table with its two or three axes in every other order."""
    if plain.ndim not in (2, 3):
        return
    axes_in_order = tuple(range(plain.ndim))
    for axes in permutations(axes_in_order):
        if axes != axes_in_order:
            yield Candidate((Transposed(axes),), plain.transpose(axes))


def _repeated(plain: Array, wanted_shape: tuple[int, ...]) -> Iterator[Candidate]:
    """Yield copies of a table along one axis more, or one below the other.

    A table (64, 32) becomes (8, 64, 32) with a copy for each of 8 heads, or (512, 32) with 8 copies
    below each other.
    """
    for axis, times in enumerate(wanted_shape):
        shape_of_one_copy = wanted_shape[:axis] + wanted_shape[axis + 1 :]
        if shape_of_one_copy == plain.shape:
            copies = np.broadcast_to(np.expand_dims(plain, axis), wanted_shape)
            yield Candidate((Repeated(axis, times),), copies)
    times = wanted_shape[0] // len(plain)
    has_same_columns = len(wanted_shape) > 1 and wanted_shape[1:] == plain.shape[1:]
    if has_same_columns and times > 1:
        yield Candidate((Repeated(0, times),), np.concatenate([plain] * times))


def _in_other_layouts(plain: Array, wanted_shape: tuple[int, ...]) -> Iterator[Candidate]:
    """Yield a table with cosines and sines exchanged, one of them negated, or in another layout.

    [cos | sin] becomes [sin | cos], [−cos | sin], [cos | −sin], and cos and sin interleaved. An
    array does not state its layout: so every layout that it may have is supposed in turn.

    Args:
        plain: The expected table, without axes of length 1.
        wanted_shape: The shape of the found one.
    """
    if plain.ndim not in (2, 3) or plain.size > MAX_LAID_OUT:
        return
    has_odd_width = plain.shape[-1] % 2 == 1
    for layout in forms(plain):
        if layout.arrangement == "interleaved" and has_odd_width:
            continue
        functions = layout.split(plain)
        if functions is None:
            continue
        if len(functions) == 2:
            yield from _swapped_or_negated(layout, *functions)
        yield from _in_layouts_of_size(math.prod(wanted_shape), layout, functions)


def _swapped_or_negated(layout: Form, first: Array, second: Array) -> Iterator[Candidate]:
    yield Candidate((Swapped(),), layout.join(second, first))
    if first.dtype.kind == "b":
        return  # Masks of attention have no sign.
    yield Candidate((Negated("first"),), layout.join(np.negative(first), second))
    yield Candidate((Negated("second"),), layout.join(first, np.negative(second)))


def _in_layouts_of_size(
    size: int, source: Form, functions: tuple[Array, ...]
) -> Iterator[Candidate]:
    """Yield cosines and sines, or one of them, in every other layout that has so many elements.

    Args:
        size: The number of elements of the found array.
        source: The layout of the expected one, such as halves: [cos | sin].
        functions: The cosines and the sines in it, or only one of them.
    """
    has_both = len(functions) == 2
    for arrangement, doubled in product(SEARCHED, DOUBLINGS):
        target = Form(arrangement, doubled)
        takes_both = arrangement != "alone"
        if target == source or takes_both != has_both or _size(target, functions[0]) != size:
            continue
        edit = Layout(source.name, target.name)
        yield Candidate((edit,), target.join(*functions))
        if has_both:
            first, second = functions
            yield Candidate((edit, Swapped()), target.join(second, first))


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
        """Elements at which both are numbers, and one of them is not 0: others are beside the
        table.
        """
        return np.asarray(self.is_finite & ((self.expected != 0) | (self.found != 0)))


def _sample(made: Array, found: Array) -> Sides:
    """Return some rows of both arrays: about SOME_ELEMENTS elements, or one row if it is longer."""
    rows_made = as_matrix(made)
    rows_found = as_matrix(found)
    step = max(1, rows_found.size // SOME_ELEMENTS)
    return Sides(expected=as_floats(rows_made[::step]), found=as_floats(rows_found[::step]))


def _scaled(candidate: Candidate, found: Array) -> Iterator[Candidate]:
    """Yield an array times the plain number that the found one may be multiplied by, such as −1."""
    sides = _sample(candidate.array, found)
    factor = plain_factor(sides)
    if factor is not None and _is_near(factor * sides.expected, sides):
        edits = (*candidate.edits, *factor_edits(factor))
        yield Candidate(edits, factor * widest(candidate.array), is_computed=True)


def plain_factor(sides: Sides) -> float | None:
    """Return the factor that may make the found array of the expected one, such as −1 or 0.5.

    The factor of least squares is 0.50000003 if values were rounded: the plainest number within
    its error is returned. None is returned if that is 1, or if no factor of a usual size fits.
    """
    expected = np.where(sides.is_finite, sides.expected, 0.0)
    found = np.where(sides.is_finite, sides.found, 0.0)
    # The factor of least squares is Σ expected·found / Σ expected².
    power = float((expected**2).sum())
    factor = float((expected * found).sum()) / max(power, TINY)
    size = abs(factor)
    if not FACTOR_ERROR < size < 1 / FACTOR_ERROR:
        return None
    residual_power = float(((found - factor * expected) ** 2).sum())
    standard_error = math.sqrt(residual_power / power / expected.size)
    error = FACTOR_ERROR * size + FACTOR_SIGMAS * standard_error
    plain = math.copysign(next(plain_numbers(size, error), size), factor)
    return None if math.isclose(plain, 1, rel_tol=FACTOR_ERROR) else plain


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


def _with_row_constants(candidate: Candidate, found: Array) -> Iterator[Candidate]:
    """Yield an attention bias with a constant added to each row, which softmax does not notice.

    ALiBi's causal rows for three keys are [0 · ·], [−1 0 ·] and [−2 −1 0], masked at the dots. If
    keys are counted from the first one they are [0 · ·], [0 1 ·] and [0 1 2]: 0, 1 and 2 are added.
    The constants are measured as the median difference of each row. One constant for all rows is
    not yielded: it is an offset.
    """
    made = candidate.array
    if made.ndim < 2 or made.shape[-1] < 3 or not _may_be_biases(made, found):
        return
    sample = _sample(made, found)
    if not _is_near(sample.expected + _row_constants(sample), sample):
        return
    sides = Sides(widened(made), widened(found))
    constants = _row_constants(sides)
    if _vary_by_row(constants):
        moved = np.where(sides.is_used, sides.expected + constants, sides.expected)
        yield Candidate((*candidate.edits, RowShift()), moved, is_computed=True)


def _may_be_biases(made: Array, found: Array) -> bool:
    """Return True for floating-point numbers: integers are indices, and complex numbers phasors (cos + i·sin)."""
    return made.dtype.kind not in "ciu" and found.dtype.kind not in "ciu"


def _vary_by_row(constants: Floats) -> bool:
    """Return True if constants differ from row to row, and enough of them are not 0."""
    least = EVEN * np.abs(constants).max()
    share_of_rows = np.mean(np.abs(constants) > least)
    return bool(np.ptp(constants) > least and share_of_rows > MIN_SHIFTED)


def _row_constants(sides: Sides) -> Floats:
    """Return the constant that is added to each row, (…, rows, 1); 0 for rows without values."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # The median of a row that is masked as a whole is NaN.
        warnings.simplefilter("ignore", RuntimeWarning)
        gaps = np.where(sides.is_used, sides.found - sides.expected, np.nan)
        return np.nan_to_num(np.nanmedian(gaps, axis=-1, keepdims=True))


def _with_mask_of(found: Array, candidate: Candidate) -> Iterator[Candidate]:
    """Yield an array with the found array's mask, if that hides the same elements.

    A causal mask is −inf in one program and −65504 in another; both hide the same keys.
    """
    if _is_complex(candidate.array) or _is_complex(found):
        return
    expected = widened(candidate.array)
    is_masked = ~is_unmasked(expected)
    if not is_masked.any():
        return
    observed = widened(found)
    has_same_places = np.array_equal(is_masked, ~is_unmasked(observed))
    if has_same_places and not np.array_equal(expected[is_masked], observed[is_masked]):
        first_masked = float(observed[is_masked][0])
        edits = (*candidate.edits, Mask(f"{first_masked:.2g}"))
        yield Candidate(edits, np.where(is_masked, observed, expected))


class Slices(Enum):
    """The kinds of slices of an array along one of its axes (…, rows, channels)."""

    HEADS = "heads"
    ROWS = "rows"
    CHANNELS = "channels"

    @classmethod
    def along(cls, axis: int, ndim: int) -> "Slices":
        """Return what lies along an axis of an array: channels along the last, rows along the one before."""
        if axis == ndim - 1:
            return cls.CHANNELS
        return cls.ROWS if axis == ndim - 2 else cls.HEADS


def _with_slices_in_order_of(found: Array, candidate: Candidate) -> Iterator[Candidate]:
    """Yield an array with its rows, channels or heads in the order that they have in the found one.

    A table whose rows are reversed, or whose heads 0 and 1 are exchanged, is such an array. Each
    axis is looked at alone: its slices are matched with the nearest ones of the found array.
    """
    expected = _squeezed(candidate.array)
    wanted = _squeezed(found)
    if _is_complex(expected) or _is_complex(wanted):
        return
    if expected.ndim not in (2, 3) or expected.ndim != wanted.ndim:
        return
    for axis in range(expected.ndim):
        for moved in _with_slices_along(axis, expected, wanted):
            edits = (*candidate.edits, *moved.edits)
            yield Candidate(edits, moved.array.reshape(found.shape))


def _with_slices_along(axis: int, expected: Array, wanted: Array) -> Iterator[Candidate]:
    """Yield the expected array with its slices along one axis in the order of the wanted one."""
    sources = np.moveaxis(expected, axis, 0)
    targets = np.moveaxis(wanted, axis, 0)
    if not _can_be_matched(sources, targets):
        return
    slices = Slices.along(axis, expected.ndim)
    reordered = _reordered(sources, targets, slices)
    extended = _with_added_rows(sources, targets, slices)
    for moved in chain(reordered, extended):
        yield moved._replace(array=np.moveaxis(moved.array, 0, axis))


def _can_be_matched(sources: Array, targets: Array) -> bool:
    """Return True if slices along the first axis have one shape, and are not too many."""
    more = max(len(sources), len(targets))
    return sources.shape[1:] == targets.shape[1:] and more <= MAX_MATCHED


def _reordered(expected: Array, found: Array, slices: Slices) -> Iterator[Candidate]:
    """Yield the expected slices in the order in which they were found, as they are or all negated.

    Found slices that are near to no expected one are padding, if all of them hold one number.

    Args:
        expected: The slices along the first axis, in their right order.
        found: Those of the other array, whose number may differ.
        slices: What they are: rows, channels or heads.
    """
    for sign in (1, -1):
        sources = _matching_slices(expected, found, sign)
        edit = _order_edit(sources, len(expected), slices)
        if edit is None:
            continue
        is_lost = sources < 0
        lost_slices = widened(found[is_lost])
        if lost_slices.size and np.ptp(lost_slices):
            continue  # They hold several numbers, so that they are no padding.
        first_or_source = np.maximum(
            sources, 0
        )  # Lost slices have no source, and are replaced below.
        reordered = sign * widened(expected[first_or_source])
        reordered[is_lost] = lost_slices
        edits = (edit,) if sign > 0 else (Negated("all"), edit)
        yield Candidate(edits, reordered)


def _with_added_rows(expected: Array, found: Array, slices: Slices) -> Iterator[Candidate]:
    """Yield the found rows if all expected ones are among them, in their order.

    If rows 0, 4, 8 and 12 are expected and rows 0 to 12 found, then 1–3, 5–7 and 9–11 are added.
    """
    if slices is not Slices.ROWS or not MIN_SOURCES <= len(expected) < len(found):
        return
    places = _matching_slices(found, expected, 1)
    if places.min() < 0 or (np.diff(places) <= 0).any():
        return
    rows = widened(found).copy()
    rows[places] = widened(expected)
    added = np.setdiff1d(np.arange(len(found)), places)
    yield Candidate((AddedRows(tuple(added.tolist())),), rows)


def _matching_slices(expected: Array, found: Array, sign: int) -> Indices:
    """Return for each found slice the index of the nearest expected slice; −1 if none is near.

    If the rows of a table are reversed, the indices of four rows are 3 2 1 0. Comparing thousands
    of rows with each other number by number takes minutes. So rows are compared by some random
    weighted sums: equal rows have equal sums, and other rows practically never do.

    Args:
        expected: The slices along the first axis that are looked for.
        found: The slices that should be some of them.
        sign: −1 if the found slices are supposed to be negated, or else 1.
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


def _order_edit(sources: Indices, count: int, slices: Slices) -> Edit | None:
    """Return the order of rows, channels or heads in the vocabulary of results, such as «reversed».

    Rows may also be cut off, repeated or left out; channels and heads can only be permuted. None
    is returned for the expected order, and if too few slices were recognised.

    Args:
        sources: The index of the expected slice that each found one is; −1 for none: 3 2 1 0.
        count: The number of expected slices.
        slices: What they are.
    """
    if not _are_enough(sources, count):
        return None
    named = _row_order(sources, count)
    if slices is Slices.ROWS:
        return named or _some_rows(sources, count)
    is_permutation = np.array_equal(np.sort(sources), np.arange(count))
    if named is None or not is_permutation:
        return None
    order: str | tuple[int, ...] = tuple(sources.tolist())
    if named.order == "reversed":
        order = "reversed"
    return Channels(order) if slices is Slices.CHANNELS else Heads(order)


def _are_enough(sources: Indices, count: int) -> bool:
    """Return True if most found slices have a source, and these are several, or all the same."""
    matched = sources[sources >= 0]
    is_constant = not np.ptp(sources)
    are_several = is_constant or len(np.unique(matched)) >= min(MIN_SOURCES, count)
    return are_several and len(matched) >= (1 - MAX_LOST) * len(sources)


def _row_order(sources: Indices, count: int) -> Rows | None:
    """Return the name of an order of rows; None for the expected one, and for one without a name.

    Of six expected rows, 0 1 2 3 are cut, −1 −1 0 1 2 3 padded, 4 4 4 4 constant, 0 1 2 0 1 2
    wrapped, 5 4 3 2 1 0 reversed, and 0 2 1 3 5 4 permuted. −1 stands for a row of padding.
    """
    length = len(sources)
    here = np.arange(length)
    first = int(sources[0])
    lost = int(np.count_nonzero(sources < 0))
    period = int((sources[1:] == first).argmax()) + 1
    sources_by_name = {
        Rows("cut", length): here,
        Rows("padded", lost): np.where(here < lost, -1, here - lost),
        Rows("padded at the end", lost): np.where(here < length - lost, here, -1),
        Rows("constant", first): np.full(length, first),
        Rows("wrapped", period): max(first, 0) + here % period,
    }
    if length == count:
        sources_by_name[Rows("reversed")] = here[::-1]
    for rows, expected in sources_by_name.items():
        if np.array_equal(sources, expected):
            return None if rows == Rows("cut", count) else rows
    is_permutation = np.array_equal(np.sort(sources), np.arange(count))
    return Rows("permuted") if is_permutation else None


def _some_rows(order: Indices, count: int) -> SomeRows | None:
    """Return the expected rows that are there, if others are missing; None unless each is there
    once.
    """
    is_part = len(order) < count and len(np.unique(order)) == len(order)
    if not is_part or order.min() < 0:
        return None
    return SomeRows(tuple(order.tolist()))
