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
    """The order of axes in which an array after a rotation agrees with the one before.

    Attributes:
        shape: The array with an axis for each thing that it counts.
        order: The axes of `shape` in the order of a view: copies first, then the axes before.
        note: What was assumed; empty if nothing was.
    """

    shape: Shape
    order: tuple[int, ...]
    note: str = ""

    def view_as_before(self, array: AnyArray) -> View:
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
    """Return which axis of rotated queries or keys is which axis before; None if their shapes do not fit.

    Both are compared element by element, which needs the same order of axes. But programs may dump
    (batch, heads, L, D) before the rotation and (batch, L, heads, D) after it. They may also repeat
    each head of keys for several heads of queries. If several orders have the right shape, as with 8
    heads and 8 positions, that one is returned in which vectors are as long (√Σx²) as before.

    Args:
        after: The array after the rotation.
        before: The array before it, (…, L, D) or with positions on another axis.
        after_shape: The shape of `after`, with an axis of its own for heads that were folded into columns.
        position_axis: The axis of positions in `before`, as a negative number: they are not repeated.
    """
    has_same_axes = after.shape == after_shape == before.shape
    if has_same_axes:
        return HeadAxes(after_shape, tuple(range(after.ndim)))
    orders = list(_find_orders_of_axes(after_shape, before.shape, position_axis))
    if not orders:
        return None
    if len(orders) == 1:
        return orders[0]
    return _find_order_by_lengths(orders, after, before)


def _find_order_by_lengths(
    candidates: Sequence[HeadAxes], after: AnyArray, before: AnyArray
) -> HeadAxes:
    """Return the order of axes in which vectors are as long as before: a rotation changes no length.

    With 8 heads and 8 positions, (8, 8, D) may have its first two axes exchanged or not. Exchanged by
    mistake, the vector of head 1 at position 0 would be compared with that of head 0 at position 1.
    """
    lengths_before = _measure_vector_lengths(before)

    def measure_distance(candidate: HeadAxes) -> float:
        """Return the mean difference of lengths; a candidate may have an axis of copies first."""
        lengths_after = _measure_vector_lengths(candidate.view_as_before(after).values)
        return float(np.abs(lengths_after - lengths_before).mean())

    return min(candidates, key=measure_distance)


def _find_orders_of_axes(after: Shape, before: Shape, position_axis: int) -> Iterator[HeadAxes]:
    """Yield the ways to reorder the axes of a shape, and repeat its heads, that give another shape.

    The order 0 2 1 3 takes (1, 2, 512, 128) to (1, 512, 2, 128): axes 1 and 2 are exchanged. If each of
    its 2 key heads is repeated for three query heads, it gives (1, 512, 6, 128).

    Args:
        after: The shape after the rotation.
        before: The shape before it, of which the last axis has the channels.
        position_axis: The axis of positions in `before`, as a negative number.
    """
    axis_count = len(before)
    # The number of orders grows fast: 5 axes have 120, and 8 axes 40,320.
    if len(after) != axis_count or axis_count > MAX_PERMUTED_AXES:
        return
    channel_axis = axis_count - 1
    positions_and_channels = (position_axis % axis_count, channel_axis)
    for order in permutations(range(axis_count)):
        reordered = tuple(before[axis] for axis in order)
        yield from _find_repeated_heads(after, reordered, order, positions_and_channels)


def _find_repeated_heads(
    after: Shape, reordered: Shape, order: Sequence[int], never_repeated: Sequence[int]
) -> Iterator[HeadAxes]:
    """Yield the ways in which heads are repeated, or are not, if that is all in which two shapes differ.

    (1, 512, 2, 128) and (1, 512, 6, 128) differ in one axis, and 6 is a multiple of 2: there are 2
    key heads, which are repeated for 6 query heads. An axis of positions or of channels that differs
    is no axis of heads, and nothing is yielded.

    Args:
        after: The shape after the rotation.
        reordered: The shape before it, with its axes in the order that is tried.
        order: That order: axis k of `reordered` is axis order[k] of the array before.
        never_repeated: The axes of the array before that have positions and channels.
    """
    axes = _reorder_axes(after, order)
    differing = [axis for axis in range(len(after)) if after[axis] != reordered[axis]]
    if not differing:
        yield axes
    elif len(differing) == 1 and order[differing[0]] not in never_repeated:
        (heads_axis,) = differing
        for repetition in _find_repetitions(reordered[heads_axis], after[heads_axis], heads_axis):
            yield _with_repeated_heads(axes, repetition)


def _reorder_axes(after: Shape, order: Sequence[int]) -> HeadAxes:
    """Return the axes of an array whose axis k was axis order[k] before the rotation.

    A view of the array needs the way back: the axis that each axis of before has become. If axes
    (2, 0, 1) of before are the axes 0, 1 and 2 now, axis 0 of before is axis 1 now, and so on:

    >>> _reorder_axes((8, 2, 64), (2, 0, 1)).order
    (1, 2, 0)
    """
    unchanged = range(len(order))
    order_back = tuple(order.index(axis) for axis in unchanged)
    note = "" if order_back == tuple(unchanged) else f"axes {bracketed(order)} of before"
    return HeadAxes(shape=after, order=order_back, note=note)


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


def _with_repeated_heads(axes: HeadAxes, repetition: _Repetition) -> HeadAxes:
    """Return axes of which that of heads is split in two, and the new one of copies comes first.

    Keys (1, 512, 6, 128) in which 2 heads are repeated 3 times are split into (1, 512, 2, 3, 128),
    where axis 3 counts copies. The axes 0, 1, 2 and 3 of the keys are its other axes, 0, 1, 2 and 4:

    >>> keys = HeadAxes(shape=(1, 512, 6, 128), order=(0, 2, 1, 3))
    >>> three_times = _Repetition(axis=2, lengths=(2, 3), copies_axis=3, words="repeated")
    >>> _with_repeated_heads(keys, three_times)
    HeadAxes(shape=(1, 512, 2, 3, 128), order=(3, 0, 2, 1, 4), note='repeated')

    Args:
        axes: The axes after the rotation, as if heads were not repeated.
        repetition: How they are repeated.
    """
    heads_axis = repetition.axis
    copies_axis = repetition.copies_axis
    shape = (*axes.shape[:heads_axis], *repetition.lengths, *axes.shape[heads_axis + 1 :])
    other_axes = [*range(copies_axis), *range(copies_axis + 1, len(shape))]  # 0, 1, 2 and 4
    order = (copies_axis, *(other_axes[axis] for axis in axes.order))
    note = f"{axes.note}, {repetition.words}" if axes.note else repetition.words
    return HeadAxes(shape=shape, order=order, note=note)


def _measure_vector_lengths(array: AnyArray) -> Floats:
    """Return the lengths of all vectors (the last axis), relative to their mean."""
    with np.errstate(invalid="ignore", over="ignore"):
        wide = np.nan_to_num(widened(array))
        lengths = np.sqrt((wide**2).sum(axis=-1))
    relative: Floats = lengths / max(float(lengths.mean()), TINY)
    return relative
