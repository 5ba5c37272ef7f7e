"""One array made of another: axes, copies, layouts, orders, signs and factors, whatever the numbers mean.

A few rows rule most transforms out. Orders of rows, channels and heads are found by matching each to the nearest.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, islice, permutations

import numpy as np

from pecli.compare.forms import DOUBLINGS, SEARCHED, Form, forms
from pecli.engine.arrays import AnyArray, Array, Floats, Indices, dtype_name, widest
from pecli.explain import edits as kinds
from pecli.explain.acceptance import MASKED, MAX_SHARE, Judge, Located, rounding_mode
from pecli.explain.edits import Edit, Errors, Explanation
from pecli.explain.sample import Sample, plainest, rms, rounding_units, sample, samples_of
from pecli.explain.time_limit import check_time, limited

SHARE = 0.01  # of the difference, that a transform that is looked at closely may leave
MAX_MATCHED = 4096  # rows or channels that are matched with each other
FEW_MATCHED = 64  # those that are matched before all are
MATCHED_ELEMENTS = 2048  # of each row or channel, that are compared then
PROJECTIONS = 24
EVEN = 0.01  # of a constant that is added to each row: one that varies by less is none of a row
MAX_COMPARED = 1 << 24  # elements of two tables that are compared with each other
MAX_LAID_OUT = 1 << 22
MIN_ROWS, SOME_ELEMENTS = 16, 1 << 14  # what a transform is tried on before the whole array is made

Candidate = tuple[
    tuple[Edit, ...], AnyArray
]  # edits, and the array of the shape found that they make


@dataclass(frozen=True)
class Sides:
    """What is expected, what was found, and what may be left."""

    expected: AnyArray
    found: AnyArray
    limit: float  # absolute: the tolerance, or a few units of the last place

    @cached_property
    def most(self) -> float:
        """What a transform may leave, root mean square."""
        size = rms(self.found)
        apart = rms(self.expected - self.found) if self.expected.shape == self.found.shape else size
        return max(self.limit, SHARE * min(apart, size))

    def left(self, made: AnyArray) -> float:
        return rms(made - self.found)

    def some(self, array: AnyArray) -> AnyArray:
        """A few rows of an array of the shape that was found."""
        rows = array.reshape(-1, array.shape[-1]) if array.ndim else array.reshape(1, 1)
        return rows[:: max(1, len(rows) // max(MIN_ROWS, SOME_ELEMENTS // rows.shape[1]))]

    def is_near(self, some: AnyArray) -> bool:
        """Whether these rows may be some of an array that leaves little; that a few are wrong does not matter."""
        return bool(np.median(np.abs(some - self.some(self.found))) <= 2 * self.most)


def explain_pair(name: str, one: Array, other: Array, atol: float = 0.0) -> Explanation | None:
    """What makes the second array of the first."""
    if max(one.size, other.size) > MAX_COMPARED or not one.size or not other.size:
        return None
    with limited():
        ours, theirs, judge = _compared(name, one, other, atol)
        found = next(transform(ours.values, theirs, judge.atol, judge), None)
        if not theirs.whole and (found is not None or _is_small_part(one, other, judge.atol)):
            ours, theirs, judge = _compared(name, one, other, atol, whole=True)
            found = (
                next(transform(ours.values, theirs, judge.atol, judge), None)
                if found is not None
                else None
            )
        if found is None and ours.shape == theirs.shape and theirs.whole:
            left = np.where(ours.values == theirs.values, 0.0, theirs.values - ours.values)
            errors = Errors(left, theirs.values)
            part = Located(theirs, errors, ~(np.abs(left) <= judge.atol))
            stored = judge.accepted([Explanation((), None, (name,), errors)])
            exact = (
                each for each in stored if each.edits and not isinstance(each.edits[0], kinds.Noise)
            )
            found = next(chain(exact, judge.accepted(part.explanations())), None)
        return found
    return None


def _compared(
    name: str, one: Array, other: Array, atol: float, whole: bool = False
) -> tuple[Sample, Sample, Judge]:
    """Two arrays, or the same rows of both, and what accepts a reason for the second."""
    theirs = sample(name, other, whole)
    ours = sample(name, one, whole or theirs.whole)
    limit = max(atol, rounding_units(ours), rounding_units(theirs))
    return ours, theirs, Judge({name: theirs}, limit, theirs.float_dtype, {name: other})


def _is_small_part(one: Array, other: Array, atol: float) -> bool:
    """Whether few rows or columns differ, of so many that some are looked at."""
    if one.shape != other.shape:
        return False
    wrong = ~((one == other) | (np.abs(np.subtract(one, other)) <= atol)).reshape(
        -1, one.shape[-1]
    )  # −∞ of a mask
    return any(wrong.any(axis=axis).mean() <= MAX_SHARE for axis in (0, 1))


def explain_swapped(
    pairs: Mapping[str, tuple[Array, Array]], atol: float = 0.0
) -> list[Explanation]:
    """Two tensors that changed places, of pairs of arrays by name."""
    for (name, (one, its)), (second, (two, others)) in combinations(pairs.items(), 2):
        if not one.shape == its.shape == two.shape == others.shape or one.size > MAX_COMPARED:
            continue
        ours, theirs = (
            np.stack([widest(array) for array in each]) for each in ((one, two), (its, others))
        )
        swapped = Explanation(
            (kinds.Swapped(),), None, (name, second), Errors(theirs - ours[::-1], theirs)
        )
        judge = Judge(
            samples_of({name: its, second: others}, whole=True), atol, dtype_name(its.dtype)
        )
        if (right := judge(swapped)) is not None:
            return [right]
    return []


def transform(expected: AnyArray, one: Sample, limit: float, judge: Judge) -> Iterator[Explanation]:
    """The transforms of an array into that of a sample, the cheapest first."""
    if min(expected.size, one.values.size) < 8:
        return
    masks, ours, theirs = _unmasked(expected, one.values)
    sides = Sides(ours, theirs, limit)
    if not math.isfinite(rms(theirs)) or (
        ours.shape == theirs.shape and sides.left(ours) <= limit and not masks
    ):
        return
    proposals = []
    for edits, made in _candidates(sides):
        check_time()
        every = (*masks, *edits)
        if every and sides.left(made) <= sides.most:
            orders = [
                getattr(edit, "order", "") for edit in every
            ]  # one without a name says as many numbers as it has
            unnamed = sum(order == "permuted" or not isinstance(order, str) for order in orders)
            errors = Errors(theirs - made, theirs)
            proposals.append(Explanation(every, None, (one.name,), errors, extra=2.0 * unnamed))
    yield from judge.accepted(sorted(proposals, key=lambda each: each.cost))


def _unmasked(expected: AnyArray, found: AnyArray) -> tuple[tuple[Edit, ...], AnyArray, AnyArray]:
    """Both without their masks, where those are at the same places, and how their values differ."""
    if expected.shape != found.shape or np.iscomplexobj(expected) or np.iscomplexobj(found):
        return (), expected, found
    ours, theirs = (~np.isfinite(each) | (each <= MASKED) for each in (expected, found))
    if not ours.any() or (ours != theirs).any():
        return (), expected, found
    same = np.array_equal(expected[ours], found[ours])
    edits = () if same else (kinds.Mask(f"{float(found[ours][0]):.2g}"),)
    return edits, np.where(ours, 0.0, expected), np.where(ours, 0.0, found)


def _candidates(sides: Sides) -> Iterator[Candidate]:
    for candidate in _of_shape(sides.expected, sides.found.shape):
        yield from _with_values(*candidate, sides)
    for candidate in list(islice(_of_shape(sides.expected, sides.found.shape), 4)) or [
        ((), sides.expected)
    ]:
        yield from _in_order(*candidate, sides)


def _squeezed(array: AnyArray) -> AnyArray:
    return array.reshape([size for size in array.shape if size != 1] or [1])


def _of_shape(array: AnyArray, shape: tuple[int, ...]) -> Iterator[Candidate]:
    """The array with other axes, repeated, or laid out otherwise, where that gives it the shape."""
    plain, wanted = _squeezed(array), tuple(size for size in shape if size != 1) or (1,)
    for edits, made in chain([((), plain)], _rearranged(plain, wanted)):
        if made.shape == wanted:
            yield edits, made.reshape(shape)


def _rearranged(plain: AnyArray, wanted: tuple[int, ...]) -> Iterator[Candidate]:
    for axes in islice(permutations(range(plain.ndim)), 1, None) if 2 <= plain.ndim <= 3 else ():
        yield (kinds.Transposed(axes),), plain.transpose(axes)
    for axis, times in enumerate(wanted):
        if wanted[:axis] + wanted[axis + 1 :] == plain.shape:
            yield (
                (kinds.Repeated(axis, times),),
                np.broadcast_to(np.expand_dims(plain, axis), wanted),
            )
    times, rest = divmod(wanted[0], len(plain))
    if len(wanted) > 1 and wanted[1:] == plain.shape[1:] and times > 1 and not rest:
        yield (kinds.Repeated(0, times),), np.concatenate([plain] * times)
    if plain.ndim in (2, 3) and plain.size <= MAX_LAID_OUT:
        yield from _laid_out(plain, math.prod(wanted))


def _laid_out(plain: AnyArray, size: int) -> Iterator[Candidate]:
    """The two functions swapped, one of them negated, or both in another layout, of so many elements."""
    for source in forms(plain):
        is_odd = source.arrangement == "interleaved" and plain.shape[-1] % 2
        if is_odd or (parts := source.split(plain)) is None:
            continue
        if len(parts) == 2:
            yield (kinds.Swapped(),), source.join(*parts[::-1])
            yield (kinds.Negated("first"),), source.join(np.negative(parts[0]), parts[1])
            yield (kinds.Negated("second"),), source.join(parts[0], np.negative(parts[1]))
        for target in (
            Form(arrangement, doubled) for arrangement in SEARCHED for doubled in DOUBLINGS
        ):
            numbers = parts[0].size * (1 + bool(target.doubled))
            numbers *= 1 if target.arrangement in ("alone", "complex") else 2
            if (
                target == source
                or (len(parts) == 1) != (target.arrangement == "alone")
                or numbers != size
            ):
                continue
            layout = kinds.Layout(source.name, target.name)
            yield (layout,), target.join(*parts)
            if len(parts) == 2:
                yield (layout, kinds.Swapped()), target.join(*parts[::-1])


def scaled(made: AnyArray, found: AnyArray) -> Candidate | None:
    """Times the factor that least squares give, or the plain number that it may be, such as −1."""
    power = rms(made) ** 2
    factor = float((made.conj() * found).real.mean()) / power if power else math.nan
    if not 1e-6 < abs(factor) < 1e6 or abs(factor - 1) <= 1e-6:
        return None
    error = 5 * rms(found - factor * made) / math.sqrt(power * made.size) + 1e-7 * abs(factor)
    by = plainest(abs(factor), error)
    if by != 1 and rounding_mode(Errors(found - math.copysign(1.0, factor) * made, found), found):
        by = 1.0
    sign = (kinds.Negated("all"),) if factor < 0 else ()
    return (*sign, *((kinds.Scaled(by),) if by != 1 else ())), math.copysign(by, factor) * made


def _shifted(made: AnyArray, found: AnyArray) -> Candidate | None:
    """With a constant added to each row, where either has values."""
    if (
        made.ndim < 2
        or made.shape[-1] < 3
        or np.iscomplexobj(made - found)
        or not np.isfinite(made).all()
    ):
        return None
    use = (made != 0) | (found != 0)
    gap = np.where(use | ~use.any(axis=-1, keepdims=True), found - made, np.nan)
    shift = (
        np.nanmedian(gap, axis=-1, keepdims=True)
        if np.isnan(gap).any()
        else np.median(gap, axis=-1, keepdims=True)
    )
    least = EVEN * np.abs(shift).max()
    is_many = (
        np.ptp(shift) > least and np.mean(np.abs(shift) > least) > MAX_SHARE
    )  # a few rows are the wrong ones
    return ((kinds.RowShift(),), np.where(use, made + shift, made)) if is_many else None


def _with_values(edits: tuple[Edit, ...], made: AnyArray, sides: Sides) -> Iterator[Candidate]:
    """The same, negated, times a factor, or with a constant added to each row: a few rows first, then all."""
    for change in (lambda made, _: ((), made), scaled, _shifted):
        few = change(sides.some(made), sides.some(sides.found))
        whole = change(made, sides.found) if few is not None and sides.is_near(few[1]) else None
        is_noise = change is _shifted and whole is not None and rms(whole[1] - made) <= sides.limit
        if whole is not None and not is_noise:
            yield (*edits, *whole[0]), whole[1]


def _in_order(edits: tuple[Edit, ...], made: AnyArray, sides: Sides) -> Iterator[Candidate]:
    found, made = _squeezed(sides.found), _squeezed(made)
    if (
        made.ndim not in (2, 3)
        or found.ndim != made.ndim
        or np.iscomplexobj(made)
        or np.iscomplexobj(found)
    ):
        return
    for axis in range(made.ndim):
        ours, theirs = np.moveaxis(made, axis, 0), np.moveaxis(found, axis, 0)
        sizes = len(ours), len(theirs)
        if ours.shape[1:] != theirs.shape[1:] or max(sizes) > MAX_MATCHED or min(sizes) < 2:
            continue
        for sign, order in zip((1, -1), _matched(ours, theirs), strict=True):
            edit = _order_edit(order, len(ours), axis, made.ndim)
            if edit is None or (
                order.min() < 0 and np.ptp(theirs[order < 0])
            ):  # padding is one number
                continue
            moved = sign * ours[np.maximum(order, 0)]
            moved[order < 0] = theirs[order < 0]
            every = (*edits, *((kinds.Negated("all"),) if sign < 0 else ()), edit)
            yield every, np.moveaxis(moved, 0, axis).reshape(sides.found.shape)


def _matched(ours: Floats, theirs: Floats) -> tuple[Indices, Indices]:
    """For each of theirs the nearest of ours, and of ours negated, by a few random sums; −1 where none is near."""
    size = math.prod(ours.shape[1:])
    some = slice(None, None, max(1, size // MATCHED_ELEMENTS))
    ours, theirs = (each.reshape(len(each), size)[:, some] for each in (ours, theirs))
    weights = np.random.default_rng(0).normal(size=(ours.shape[1], PROJECTIONS)) / math.sqrt(
        ours.shape[1]
    )
    one, two = ours @ weights, theirs @ weights
    near = 0.02 * (float(np.mean((two**2).sum(axis=1))) or 1.0)

    def nearest(rows: Floats) -> Indices:
        apart = (one**2).sum(axis=1) + (rows**2).sum(axis=1)[:, None] - 2 * rows @ one.T
        order = apart.argmin(axis=1)
        return np.where(apart[np.arange(len(rows)), order] < near, order, -1)

    def every(rows: Floats) -> Indices:
        few = nearest(
            rows[np.linspace(0, len(rows) - 1, min(len(rows), FEW_MATCHED)).astype(np.intp)]
        )
        return (
            nearest(rows) if np.count_nonzero(few >= 0) >= len(few) / 2 else np.full(len(rows), -1)
        )

    return every(two), every(-two)


def _order_edit(order: Indices, count: int, axis: int, ndim: int) -> Edit | None:
    """What an order is called; None for the one that it should be, and for none at all."""
    there = order[order >= 0]
    rows = _row_order(order, count)
    if len(there) < 0.75 * len(order) or (len(np.unique(there)) < min(4, count) and np.ptp(order)):
        return None
    if rows is None or axis == ndim - 2:
        return rows
    if len(order) != count or len(np.unique(there)) < count:
        return None
    listed = rows.order if rows.order in ("reversed", "shifted") else tuple(order.tolist())
    return kinds.Channels(listed) if axis == ndim - 1 else kinds.Heads(listed)


def _row_order(order: Indices, count: int) -> kinds.Rows | None:
    here, first = np.arange(len(order)), int(order[0])
    lost = int(np.count_nonzero(order < 0))
    period = int((order[1:] == first).argmax()) + 1
    named = {
        kinds.Rows("cut", len(order)): here,
        kinds.Rows("padded", lost): np.where(here < lost, -1, here - lost),
        kinds.Rows("padded at the end", lost): np.where(here < len(order) - lost, here, -1),
        kinds.Rows("constant", first): np.full(len(order), first),
        kinds.Rows("shifted", first): here + first,
        kinds.Rows("reversed"): here[::-1] if len(order) == count else here[:0],
        kinds.Rows("wrapped", period): max(first, 0) + here % period,
        kinds.Rows("permuted"): order
        if not lost and len(np.unique(order)) == len(order)
        else here[:0],
    }
    found = next((rows for rows, places in named.items() if np.array_equal(order, places)), None)
    return found if found != kinds.Rows("cut", count) else None
