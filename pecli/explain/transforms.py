"""One array made of another: axes, copies, layouts, orders, signs and factors, whatever the numbers mean.

A transform is claimed only where it explains the array: what it leaves is within the tolerance, or a hundredth of the
difference at most. Orders of rows, channels and heads are found by matching, each to the nearest of the other array.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from pecli.engine.application import reorder
from pecli.engine.arrays import AnyArray, Floats, Indices
from pecli.explain.edits import (
    Channels,
    ColumnsWrong,
    Edit,
    Explanation,
    Heads,
    Layout,
    Mask,
    Negated,
    Repeated,
    Rows,
    RowShift,
    RowsWrong,
    Scaled,
    Swapped,
    Transposed,
)
from pecli.explain.forms import Form, forms
from pecli.explain.sample import plain

SHARE = 0.01
"""Of the difference, that an explanation may leave."""
MASKED = -1e4
MAX_WRONG = 0.2
"""Of the rows or columns, that may be wrong in an array that is right otherwise."""
MAX_MATCHED = 4096
"""Rows or channels that are matched with each other."""
FEW_MATCHED = 64
"""Those that are matched before all are."""
MAX_LISTED = 64
PROJECTIONS = 24


@dataclass(frozen=True)
class Sides:
    """What is expected, what was found, and what may be left."""

    expected: AnyArray
    found: AnyArray
    limit: float
    """Absolute: the tolerance, or a few units of the last place."""

    def left(self, made: AnyArray) -> float:
        return _rms(made - self.found)

    @property
    def most(self) -> float:
        """What an explanation may leave, root mean square."""
        size = _rms(self.found)
        apart = _rms(self.expected - self.found) if self.expected.shape == self.found.shape else size
        return max(self.limit, SHARE * min(apart, size))


def _rms(values: AnyArray) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(values)
        top = float(size.max(initial=0.0))
        if not math.isfinite(top):
            return math.inf
        return float(np.sqrt(np.mean(size**2))) if values.size else 0.0


def transform(expected: AnyArray, found: AnyArray, limit: float, tensors: tuple[str, ...]) -> Explanation | None:
    """The cheapest transform of one array into the other; None where there is none."""
    if min(expected.size, found.size) < 8:
        return None
    masks, ours, theirs = _unmasked(expected, found)
    sides = Sides(ours, theirs, limit)
    best: tuple[float, tuple[Edit, ...], float] | None = None
    if not math.isfinite(_rms(theirs)) or (ours.shape == theirs.shape and sides.left(ours) <= limit and not masks):
        return None
    for edits, made in _candidates(sides):
        cost = sum(map(_cost, (*masks, *edits)))
        if best is not None and cost >= best[0]:
            continue
        left = sides.left(made)
        if left <= sides.most and (edits or masks):
            largest = float(np.abs(made - sides.found).max())
            best = cost, (*masks, *edits), largest
    if best is None:
        return None
    return Explanation(best[1], None, best[2], 0.0, tensors)


def _cost(edit: Edit) -> float:
    """An order that has no name says as many numbers as there are channels: anything named is likelier."""
    unnamed = isinstance(edit, (Channels, Heads)) and not isinstance(edit.order, str)
    return edit.cost + 2 * (unnamed or (isinstance(edit, Rows) and edit.order == "permuted"))


def _unmasked(expected: AnyArray, found: AnyArray) -> tuple[tuple[Edit, ...], AnyArray, AnyArray]:
    """Both without their masks, and how those differ."""
    if expected.shape != found.shape or np.iscomplexobj(expected) or np.iscomplexobj(found):
        return (), expected, found
    ours, theirs = (~np.isfinite(each) | (each <= MASKED) for each in (expected, found))
    if not ours.any() and not theirs.any():
        return (), expected, found
    edits: tuple[Edit, ...] = ()
    both = ours & theirs
    if (ours != theirs).any():
        return (), expected, found
    if both.any() and not np.array_equal(expected[both], found[both]):
        edits = (Mask(f"{float(found[both][0]):.2g}"),)
    return edits, np.where(ours, 0.0, expected), np.where(theirs, 0.0, found)


def _candidates(sides: Sides) -> Iterator[tuple[tuple[Edit, ...], AnyArray]]:
    """Arrays of the shape that was found, made of the expected one."""
    straight = list(_of_shape(sides.expected, sides.found.shape))
    for edits, made in straight:
        yield from _with_values(edits, made, sides)
    for edits, made in straight[:4]:
        yield from _in_order(edits, made, sides)
    if not straight:
        yield from _in_order((), _squeezed(sides.expected), sides)
    for edits, made in straight[:2]:
        yield from _in_part(edits, made, sides)


def _squeezed(array: AnyArray) -> AnyArray:
    return array.reshape([size for size in array.shape if size != 1] or [1])


def _of_shape(array: AnyArray, shape: tuple[int, ...]) -> Iterator[tuple[tuple[Edit, ...], AnyArray]]:
    """The array with other axes, repeated, or laid out otherwise, where that gives it the shape."""
    plain, wanted = _squeezed(array), tuple(size for size in shape if size != 1) or (1,)
    if plain.shape == wanted:
        yield (), plain.reshape(shape)
    if 2 <= plain.ndim <= 3:
        for axes in permutations(range(plain.ndim)):
            if axes != tuple(range(plain.ndim)) and tuple(plain.shape[axis] for axis in axes) == wanted:
                yield (Transposed(axes),), plain.transpose(axes).reshape(shape)
    if len(wanted) == plain.ndim + 1:
        for axis in range(len(wanted)):
            if wanted[:axis] + wanted[axis + 1 :] == plain.shape:
                copies = np.broadcast_to(np.expand_dims(plain, axis), wanted)
                yield (Repeated(axis, wanted[axis]),), copies.reshape(shape)
    if (
        len(wanted) == plain.ndim
        and len(wanted) > 1
        and wanted[1:] == plain.shape[1:]
        and wanted[0] % plain.shape[0] == 0
        and wanted[0] > plain.shape[0]
    ):
        times = wanted[0] // plain.shape[0]
        yield (Repeated(0, times),), np.concatenate([plain] * times).reshape(shape)
    yield from _laid_out(plain, wanted, shape)


_ARRANGEMENTS = ("interleaved", "halves", "stacked", "pairs", "complex", "alone")


def _laid_out(
    plain: AnyArray, wanted: tuple[int, ...], shape: tuple[int, ...]
) -> Iterator[tuple[tuple[Edit, ...], AnyArray]]:
    if plain.ndim not in (2, 3) or plain.size > 1 << 22:
        return
    for source in forms(plain):
        if source.arrangement == "interleaved" and plain.shape[-1] % 2:
            continue
        parts = source.split(plain)
        if parts is None:
            continue
        if len(parts) == 2 and plain.shape == wanted:
            yield (Swapped(),), source.join(*parts[::-1]).reshape(shape)
            yield (Negated("first"),), source.join(np.negative(parts[0]), parts[1]).reshape(shape)
            yield (Negated("second"),), source.join(parts[0], np.negative(parts[1])).reshape(shape)
        for arrangement in _ARRANGEMENTS:
            for doubled in ("", "halves", "interleaved"):
                target = Form(arrangement, doubled)
                if target == source or (len(parts) == 1) != (arrangement == "alone"):
                    continue
                told = Layout(source.name, target.name)
                made = target.join(*parts)
                if made.shape == wanted:
                    yield (told,), made.reshape(shape)
                    if len(parts) == 2:
                        yield (told, Swapped()), target.join(*parts[::-1]).reshape(shape)


def _with_values(edits: tuple[Edit, ...], made: AnyArray, sides: Sides) -> Iterator[tuple[tuple[Edit, ...], AnyArray]]:
    """The same, negated, times a factor, or with a constant added to each row."""
    yield edits, made
    yield (*edits, Negated("all")), -made
    power = float((np.abs(made) ** 2).sum())
    if power and math.isfinite(power):
        factor = float((sides.found * made.conj()).real.sum()) / power
        if math.isfinite(factor) and 1e-6 < abs(factor) < 1e6 and abs(factor - 1) > 1e-6:
            error = 5 * _rms(sides.found - factor * made) * math.sqrt(made.size / power) / math.sqrt(
                made.size
            ) + 1e-7 * abs(factor)
            by = next(plain(abs(factor), error)) * math.copysign(1, factor)
            yield (*edits, *((Negated("all"),) if by < 0 else ()), Scaled(abs(by))), by * made
    if made.ndim >= 2 and made.shape[-1] > 2 and not np.iscomplexobj(made) and not np.iscomplexobj(sides.found):
        if not (np.isfinite(made).all() and np.isfinite(sides.found).all()):
            return
        use = (made != 0) | (sides.found != 0)
        gap = np.where(use | ~use.any(axis=-1, keepdims=True), sides.found - made, np.nan)
        shift = np.nanmedian(gap, axis=-1, keepdims=True)
        if np.abs(shift).max() > 0 and np.ptp(shift) > 0:
            yield (*edits, RowShift()), np.where(use, made + shift, made)


def _in_order(edits: tuple[Edit, ...], made: AnyArray, sides: Sides) -> Iterator[tuple[tuple[Edit, ...], AnyArray]]:
    """Rows, channels or heads in another order."""
    found = _squeezed(sides.found)
    made = _squeezed(made)
    if made.ndim not in (2, 3) or found.ndim != made.ndim or np.iscomplexobj(made) or np.iscomplexobj(found):
        return
    for axis in range(made.ndim):
        if made.shape[:axis] + made.shape[axis + 1 :] != found.shape[:axis] + found.shape[axis + 1 :]:
            continue
        ours = np.moveaxis(made, axis, 0).reshape(made.shape[axis], -1)
        theirs = np.moveaxis(found, axis, 0).reshape(found.shape[axis], -1)
        if max(len(ours), len(theirs)) > MAX_MATCHED or min(len(ours), len(theirs)) < 2:
            continue
        for sign in (1, -1):
            order = _matched(sign * ours, theirs)
            edit = _order_edit(order, len(ours), axis, made.ndim)
            if edit is None:
                continue
            moved = np.moveaxis(
                (sign * ours)[np.maximum(order, 0)].reshape(len(theirs), *np.moveaxis(made, axis, 0).shape[1:]), 0, axis
            )
            if isinstance(edit, Rows) and edit.order.startswith("padded"):
                view = moved.reshape(found.shape).copy()
                view[order < 0] = found[order < 0]
                moved = view
            yield (*edits, *((Negated("all"),) if sign < 0 else ()), edit), moved.reshape(sides.found.shape)


def _matched(ours: Floats, theirs: Floats) -> Indices:
    """For each row of the second the nearest of the first, by a few random sums; −1 where none is near."""
    weights = np.random.default_rng(0).normal(size=(ours.shape[1], PROJECTIONS)) / math.sqrt(ours.shape[1])
    one, two = ours @ weights, theirs @ weights
    size = float(np.mean((two**2).sum(axis=1))) or 1.0

    def nearest(rows: Floats) -> Indices:
        apart = (one**2).sum(axis=1) + (rows**2).sum(axis=1)[:, None] - 2 * rows @ one.T
        order = apart.argmin(axis=1)
        return np.where(apart[np.arange(len(rows)), order] < 0.02 * size, order, -1)

    some = np.linspace(0, len(two) - 1, min(len(two), FEW_MATCHED)).astype(np.intp)
    if np.count_nonzero(nearest(two[some]) >= 0) < len(some) / 2:  # all of them would take long
        return np.full(len(two), -1)
    return nearest(two)


def _order_edit(order: Indices, count: int, axis: int, ndim: int) -> Edit | None:
    """What an order is called; None for the one that it should be, and for none at all."""
    lost = int((order < 0).sum())
    there = order[order >= 0]
    if len(there) < 0.75 * len(order) or len(np.unique(there)) < min(4, count):
        return None
    positions = ndim - 2
    word = _word(order, count, lost)
    if word is None:
        return None
    if axis == positions:
        return _in_heads(order) or Rows(*word)
    if lost or len(order) != count or len(np.unique(order)) < count:
        return None
    listed = word[0] if word[0] in ("reversed", "shifted") else tuple(order.tolist())
    return Channels(listed) if axis == ndim - 1 else Heads(listed)


def _in_heads(order: Indices) -> Edit | None:
    """Rows of query and key weights: the pairs of every head in halves here, interleaved there."""
    rows = len(order)
    for head in (each for each in range(4, min(rows, MAX_MATCHED) + 1, 2) if rows % each == 0):
        for source, target in (("interleaved", "halves"), ("halves", "interleaved")):
            here = np.arange(rows)
            if np.array_equal(order, here // head * head + reorder(head, source, target)[here % head]):
                return Layout(f"{source} in heads of {head}", f"{target} in heads of {head}")
    return None


def _word(order: Indices, count: int, lost: int) -> tuple[str, int | None] | None:
    here = np.arange(len(order))
    good = order >= 0
    moved = order - here
    if not lost and np.array_equal(order, here):
        return None if len(order) == count else ("shifted", 0)
    if not lost and len(order) == count and np.array_equal(order, here[::-1]):
        return "reversed", None
    first = np.flatnonzero(good)[0]
    if lost and (moved[good] == -lost).all() and first == lost:
        return "padded", lost
    if lost and (moved[good] == 0).all() and not good[-lost:].any():
        return "padded at the end", lost
    if not lost and len(np.unique(moved)) == 1:
        return "shifted", int(moved[0])
    wraps = np.flatnonzero(order == order[0])
    if not lost and len(wraps) > 1 and np.array_equal(order, order[0] + here % wraps[1]):
        return "wrapped", int(wraps[1])
    if not lost and len(np.unique(order)) == len(order):
        return "permuted", None
    return None


def _in_part(edits: tuple[Edit, ...], made: AnyArray, sides: Sides) -> Iterator[tuple[tuple[Edit, ...], AnyArray]]:
    """All but a few rows, or columns."""
    found = sides.found
    if made.ndim < 2 or found.ndim < 2:
        return
    with np.errstate(invalid="ignore"):
        off = np.abs(np.nan_to_num(made - found, nan=np.inf, posinf=np.inf, neginf=np.inf)) ** 2
    for axis, kind in ((found.ndim - 2, RowsWrong), (found.ndim - 1, ColumnsWrong)):
        others = tuple(k for k in range(found.ndim) if k != axis)
        each = np.sqrt(off.mean(axis=others))
        usual = float(np.median(each))
        finite = found[np.isfinite(found)]
        if usual > max(sides.limit, SHARE * _rms(finite)):
            continue
        wrong = np.flatnonzero(~(each <= 8 * usual + sides.limit))
        if 0 < len(wrong) <= max(1, MAX_WRONG * len(each)):
            index: list[Any] = [slice(None)] * found.ndim
            index[axis] = wrong
            right = made.copy()
            right[tuple(index)] = found[tuple(index)]
            yield (
                (*edits, kind(tuple(wrong.tolist()[:MAX_LISTED]))),
                np.nan_to_num(right) if np.isfinite(found).all() else right,
            )
