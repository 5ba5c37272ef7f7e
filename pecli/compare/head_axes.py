"""The axes of rotated queries or keys, compared with those before the rotation.

Programs dump them at different places: before the rotation as a projection returns them, (batch, L, heads · D), and
after it as attention takes them, (batch, heads, L, D), with the keys of grouped-query attention repeated for every
query head. What lies in which axis is found by the shapes; if several ways fit, by the lengths of the vectors, which a
rotation does not change.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np

from pecli.compare.factors import Shape, View, find_steps
from pecli.engine.arrays import AnyArray, Floats, widened
from pecli.errors import bracketed

MAX_PERMUTED_AXES = 5  #: axes of tensors whose orders are tried
TINY = 1e-300  #: keeps quotients of zeros finite


class HeadAxes(NamedTuple):
    """The axes of the array after the rotation, as axes of the one before.

    Attributes:
        shape: The array with an axis for each thing that it counts.
        order: The axes of `shape` in the order of a view: copies first, then the axes before.
        note: What was assumed; empty if nothing was.
    """

    shape: Shape
    order: tuple[int, ...]
    note: str = ""

    def view(self, array: AnyArray) -> View:
        """Return the array with copies and then the axes before the rotation.

        Keys (1, 512, 6, 128) in which 2 heads are repeated 3 times have the shape (1, 512, 2, 3, 128).
        By the order 3 0 2 1 4, their view is (3, 1, 2, 512, 128): three copies of the keys before,
        (1, 2, 512, 128).
        """
        steps = find_steps(self.shape)
        values = array.reshape(self.shape).transpose(self.order)
        return View(
            values=values,
            array_shape=array.shape,
            start=0,
            steps=tuple(steps[axis] for axis in self.order),
        )


def find_head_axes(
    after: AnyArray, before: AnyArray, after_shape: Shape, position_axis: int
) -> HeadAxes | None:
    """Return how rotated queries have the axes of those before the rotation; None if they cannot.

    Programs dump (batch, heads, L, D) before the rotation and (batch, L, heads, D) after it, say. If
    several orders of axes have the right shape, as with 8 heads and 8 positions, the lengths of the
    vectors decide.

    Args:
        after: The array after the rotation.
        before: The array before it, (…, L, D) or with positions on another axis.
        after_shape: The shape of `after`, with an axis of its own for heads that were folded into columns.
        position_axis: The axis of positions in `before`, as a negative number. It is never taken for copies.
    """
    has_same_axes = after.shape == after_shape == before.shape
    if has_same_axes:
        return HeadAxes(after_shape, tuple(range(after.ndim)))
    candidates = list(_find_orders_of_axes(after_shape, before.shape, position_axis))
    if not candidates:
        return None
    if len(candidates) == 1:
        return candidates[0]
    return _find_order_by_lengths(candidates, after, before)


def _find_order_by_lengths(
    candidates: Sequence[HeadAxes], after: AnyArray, before: AnyArray
) -> HeadAxes:
    """Return the order of axes in which vectors are as long as before: a rotation changes no length."""
    lengths_before = _measure_vector_lengths(before)
    distances = []
    for candidate in candidates:
        lengths_after = _measure_vector_lengths(candidate.view(after).values)
        distances.append(_measure_distance(lengths_after, lengths_before))
    nearest = int(np.argmin(distances))
    return candidates[nearest]


def _find_orders_of_axes(after: Shape, before: Shape, position_axis: int) -> Iterator[HeadAxes]:
    """Yield the orders of the axes of `before`, with heads repeated or not, that have the shape `after`.

    (1, 2, 512, 128) has the shape (1, 512, 2, 128) if heads and positions are exchanged, and
    (1, 512, 6, 128) if each of the two key heads is repeated for three query heads as well.
    """
    if len(after) != len(before) or len(before) > MAX_PERMUTED_AXES:
        return
    unchanged = tuple(range(len(before)))
    channel_axis = len(before) - 1
    never_repeated = (position_axis % len(before), channel_axis)
    for order in permutations(unchanged):
        note = "" if order == unchanged else f"axes {bracketed(order)} of before"
        reordered_before = tuple(before[axis] for axis in order)
        axes_of_other_length = [axis for axis in unchanged if after[axis] != reordered_before[axis]]
        if not axes_of_other_length:
            # `order` makes `after` of `before`; a view of `after` needs the way back.
            order_back = tuple(np.argsort(order).tolist())
            yield HeadAxes(shape=after, order=order_back, note=note)
            continue
        if len(axes_of_other_length) > 1:
            continue  # A program repeats one axis only, that of heads.
        (heads_axis,) = axes_of_other_length
        may_be_heads = order[heads_axis] not in never_repeated
        if may_be_heads:
            heads_before = reordered_before[heads_axis]
            yield from _find_repeated_axes(after, order, heads_axis, heads_before, note)


def _find_repeated_axes(
    after: Shape, order: Sequence[int], heads_axis: int, heads_before: int, note: str
) -> Iterator[HeadAxes]:
    """Yield the axes of an array whose heads are repeated, for each way to repeat them."""
    for repetition in _find_repetitions(heads_before, after[heads_axis], heads_axis):
        yield _make_repeated_axes(after, order, repetition, note)


class _Repetition(NamedTuple):
    """A way in which the axis of heads holds copies of each head.

    Attributes:
        axis: The axis of heads after the rotation.
        lengths: What it counts, the slower first: heads and copies, or copies and heads.
        copies_axis: The axis of copies, once both have an axis of their own.
        words: A note on it.
    """

    axis: int
    lengths: tuple[int, int]
    copies_axis: int
    words: str


def _find_repetitions(heads: int, repeated: int, axis: int) -> Iterator[_Repetition]:
    """Yield the ways to repeat heads; none if the new number of heads is no multiple of the old one.

    With 2 key heads for 6 query heads, programs write k0 k0 k0 k1 k1 k1 (`repeat_kv`), which is an
    axis of 2 heads and then one of 3 copies, or k0 k1 k0 k1 k0 k1 (`tile`), which is an axis of 3
    copies and then one of 2 heads.

    Args:
        heads: The number of heads before the rotation.
        repeated: The length of the axis of heads after it.
        axis: That axis.
    """
    times, heads_over = divmod(repeated, max(1, heads))
    is_multiple = times > 1 and heads_over == 0
    if not is_multiple:
        return
    words = f"{heads} heads repeated {times}× along axis {axis}"
    yield _Repetition(
        axis=axis, lengths=(heads, times), copies_axis=axis + 1, words=f"{words}, each in a row"
    )
    yield _Repetition(
        axis=axis,
        lengths=(times, heads),
        copies_axis=axis,
        words=f"{words}, one round after the other",
    )


def _make_repeated_axes(
    after: Shape, order: Sequence[int], repetition: _Repetition, note: str
) -> HeadAxes:
    """Return the axes of an array in which heads are repeated: copies first, then those of before.

    (1, 512, 6, 128) after the rotation of (1, 2, 512, 128), whose axes it has in the order 0 2 1 3,
    is split into (1, 512, 2, 3, 128), in which axis 3 counts copies. The axes of before have become
    its axes 0, 2, 1 and 4, so that the view has the axes 3 0 2 1 4.

    Args:
        after: The shape after the rotation.
        order: The axes of before, in the order of after.
        repetition: How heads are repeated.
        note: A note on the order of axes.
    """
    heads_axis = repetition.axis
    split_shape = (*after[:heads_axis], *repetition.lengths, *after[heads_axis + 1 :])
    split_axes_without_copies = [*range(len(split_shape))]
    split_axes_without_copies.remove(repetition.copies_axis)
    # By axis of before, the axis of `split_shape` that it has become: {0: 0, 2: 1, 1: 2, 3: 4}.
    split_axis_by_axis_before = dict(zip(order, split_axes_without_copies, strict=True))
    split_axes_in_order_before = [split_axis_by_axis_before[axis] for axis in range(len(order))]
    note_on_heads = f"{note}, {repetition.words}" if note else repetition.words
    return HeadAxes(
        shape=split_shape,
        order=(repetition.copies_axis, *split_axes_in_order_before),
        note=note_on_heads,
    )


def _measure_vector_lengths(array: AnyArray) -> Floats:
    """Return the lengths of all vectors (the last axis), relative to their mean."""
    with np.errstate(invalid="ignore", over="ignore"):
        wide = np.nan_to_num(widened(array))
        lengths = np.sqrt((wide**2).sum(axis=-1))
    relative: Floats = lengths / max(float(lengths.mean()), TINY)
    return relative


def _measure_distance(after: Floats, before: Floats) -> float:
    """Return the mean difference of lengths; `after` may have an axis of copies first."""
    return float(np.abs(after - before).mean())
