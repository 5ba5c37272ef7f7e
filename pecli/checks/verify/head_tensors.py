"""Queries or keys before and after a rotation, with an axis for heads and one for positions."""

import math
from collections.abc import Collection, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from pecli.checks.verify.tensor_pairs import TensorPair
from pecli.compare.factors import Index, Shape, View, first_along
from pecli.compare.head_axes import find_head_axes
from pecli.compare.part import Part
from pecli.engine.arrays import AnyArray, Array
from pecli.errors import ParameterError, counted
from pecli.notes import note
from pecli.tensors.inputs import SEQ_AXIS


class HeadTensor(NamedTuple):
    """Queries or keys before and after a rotation, whose axes of heads and positions are known.

    Attributes:
        pair: The tensors as they were given.
        before: The tensor before the rotation, (…, L, D) or with positions on another axis.
        view: The tensor after it, with the axes of `before`, and with copies first if heads are repeated.
        axis: The axis of positions, as a negative number.
        note: What was assumed about the axes.
    """

    pair: TensorPair
    before: Array
    view: View
    axis: int
    note: str = ""

    @property
    def is_unfolded(self) -> bool:
        """True if heads were folded into columns of the tensor before."""
        return self.before.ndim > self.pair.before.ndim

    @property
    def after(self) -> AnyArray:
        """The first copy of the tensor after the rotation."""
        copies = self.view.values.ndim - self.before.ndim
        return first_along(self.view.values, copies)

    def part(self, expected: Array) -> Part:
        """Return the tensor after the rotation beside the expected one, so that they can be compared.

        The axis before the channels counts the rows of a result, which are to be positions. So of a
        dump (L, heads, D), (heads, L, D) is compared.
        """
        view = self.view.with_axis_moved(self.axis, SEQ_AXIS)
        return Part(np.moveaxis(expected, self.axis, SEQ_AXIS), view)

    @property
    def has_folded_heads(self) -> bool:
        """True if the columns of the tensor after the rotation hold all heads."""
        columns: int = self.view.array_shape[-1]
        width: int = self.before.shape[-1]
        return columns != width

    @property
    def has_repeated_heads(self) -> bool:
        """True if the tensor after the rotation has each head several times."""
        return bool(self._shape_of_copies)

    @property
    def _shape_of_copies(self) -> Shape:
        copy_axes = self.view.values.ndim - self.before.ndim
        return self.view.values.shape[:copy_axes]

    def at_head(self, values: AnyArray, head: int) -> AnyArray:
        """Return one head (…, L, D) of all sequences of an array that has the axes of `before`."""
        with_rows_last: AnyArray = np.moveaxis(values, self.axis, SEQ_AXIS)
        return with_rows_last[..., head, :, :]

    def copies_of_head(self, head: int) -> Iterator[AnyArray]:
        """Yield a head after the rotation as often as the file repeats it."""
        for copy in np.ndindex(self._shape_of_copies):
            yield self.at_head(self.view.values[copy], head)

    def find_element(self, index: Index) -> Iterator[Index]:
        """Yield the indices in the file of an element of (…, L, D), one for each copy of its head.

        In a dump (L, heads · 64), the element (20, 3, 7) of (heads, L, 64) is (3, 1287), since
        20 · 64 + 7 is 1287.
        """
        *heads, position, channel = index
        index_in_view = [*heads, channel]
        index_in_view.insert(self.axis % len(index), position)
        for copy in np.ndindex(self._shape_of_copies):
            place = np.ravel_multi_index((*copy, *index_in_view), self.view.values.shape)
            yield self.view.index_of(int(place))

    def find_head(self, head: int) -> Iterator[int]:
        """Yield the numbers of a head in the file, one for each copy.

        If 2 heads are repeated as 0 0 0 1 1 1, head 1 is 3, 4 and 5.
        """
        outer_axes = self.before.ndim - 3
        first_element = (*[0] * outer_axes, head, 0, 0)
        for index in self.find_element(first_element):
            # All other indices are 0, unless the columns hold all heads.
            yield max(index) // self.before.shape[-1] if self.has_folded_heads else max(index)

    def find_channel(self, channel: int) -> range:
        """Return the columns of the file that hold a channel of some head: 5, 69, … of heads of 64."""
        return range(channel, self.view.array_shape[-1], self.before.shape[-1])


class HeadSizes(NamedTuple):
    """The sizes of a model's heads.

    Attributes:
        widths: The channels that a head may have.
        counts: The numbers of heads that the model has; empty if they are not known.
    """

    widths: Collection[int]
    counts: Collection[int]

    def unfold_shape(self, shape: Shape) -> Shape:
        """Return the shape of queries or keys with an axis for heads that were folded into columns.

        >>> HeadSizes([16], [4, 2]).unfold_shape((2, 5, 64))
        (2, 5, 4, 16)
        >>> HeadSizes([16], [4, 2]).unfold_shape((2, 4, 5, 16))
        (2, 4, 5, 16)
        """
        columns = shape[-1]
        if columns in self.widths:
            return shape
        for width in self.widths:
            count, rest = divmod(columns, width)
            if rest == 0 and count > 1 and (not self.counts or count in self.counts):
                return (*shape[:-1], count, width)
        return shape

    def describe_folding(self, shape: Shape) -> str:
        """Return «4 heads of 64 folded into columns»; empty if columns are those of one head."""
        unfolded = self.unfold_shape(shape)
        if unfolded == shape:
            return ""
        return f"{counted(unfolded[-2], 'head')} of {unfolded[-1]} folded into columns"

    def are_folded(self, shape: Shape) -> bool:
        """Return True if the last axis holds the channels of several heads."""
        return self.unfold_shape(shape) != shape

    def are_columns(self, shape: Shape) -> bool:
        """Return True if the last axis holds the channels of one head, or of several."""
        return shape[-1] in self.widths or self.are_folded(shape)


def unfold_positions(pair: TensorPair, heads: HeadSizes) -> TensorPair:
    """Return tensors (heads, L · D), a line of all positions per head, as (heads, L, D).

    With 4 heads of 64 channels, (4, 768) becomes (4, 12, 64): it cannot be (L, heads · D), as the
    model has no 12 heads. Tensors of any other shape are returned as they are.
    """
    if not _has_row_per_head(pair, heads):
        return pair
    *outer_shape, row_length = pair.before.shape
    fitting_widths = [width for width in heads.widths if row_length % width == 0]
    if not fitting_widths:
        return pair
    width = fitting_widths[0]
    positions = row_length // width
    note(f"{pair.label}: a row per head, of {counted(positions, 'position')} of {width}")
    unfolded = (*outer_shape, positions, width)
    return pair._replace(
        before=pair.before.reshape(unfolded),
        after=pair.after.reshape(unfolded),
        source="",  # `pecli apply` rotates arrays as they are in the file.
    )


def _has_row_per_head(pair: TensorPair, heads: HeadSizes) -> bool:
    """Return True for tensors (…, heads, numbers) whose numbers are not the channels of heads."""
    shape = pair.before.shape
    if len(shape) < 2 or not pair.has_equal_shapes:
        return False
    return shape[-2] in heads.counts and not heads.are_columns(shape)


def refuse_flat(pair: TensorPair, heads: HeadSizes) -> None:
    """Raise ParameterError for a line of numbers that may be several heads at several positions.

    With 4 heads of 64, 768 numbers may be (4, 3, 64) or (3, 4, 64): the error asks for the shape. A
    line of 64 numbers is one head, and one of 256 is all heads at one position; both are accepted.
    """
    shape = pair.before.shape
    size = math.prod(shape)
    is_line = size == max(shape)  # (768,), or (1, 768)
    is_one_position = heads.are_columns(shape)
    if not is_line or is_one_position:
        return
    for width, count in product(heads.widths, heads.counts):
        positions, rest = divmod(size, width * count)
        if rest == 0:
            raise _make_flat_error(pair, (count, positions, width))


def _make_flat_error(pair: TensorPair, shape: tuple[int, int, int]) -> ParameterError:
    """Return the error for a list of numbers that may be of a shape (heads, positions, D)."""
    heads, positions, width = shape
    advice = (
        f"state it: --shape {heads},{positions},{width} for (heads, positions, D), "
        f"or --shape {positions},{heads},{width} for (positions, heads, D)"
    )
    rule = "a list of numbers does not state the axes of heads and positions"
    return ParameterError(pair.label, f"of shape {pair.before.shape}", rule, advice)


def arrange_heads(pair: TensorPair, heads: HeadSizes, axis: int) -> HeadTensor:
    """Return queries or keys before and after a rotation with their axes in the same order.

    Heads get an axis of their own: with 4 heads of 64, (L, 256) becomes (L, 4, 64). If the tensor
    after is (4, L, 64), it is transposed to (L, 4, 64) as well. If it repeats 2 key heads for 4 query
    heads (GQA), it becomes two copies, (2, L, 2, 64).

    Args:
        pair: The tensors as they were given.
        heads: The sizes of the model's heads.
        axis: The axis of positions in the tensor before.

    Raises:
        ParameterError: If the tensor after cannot have the axes of the one before.
    """
    with_rows = _add_axis_to_vectors(pair)  # A vector (D,) is a single row (1, D).
    before_shape = with_rows.before.shape
    after_shape = with_rows.after.shape
    before = with_rows.before.reshape(heads.unfold_shape(before_shape))
    position_axis = _count_axis_from_end(axis, len(before_shape), before.ndim)
    axes_of_after = find_head_axes(
        with_rows.after, before, heads.unfold_shape(after_shape), position_axis
    )
    if axes_of_after is None:
        raise with_rows.make_shape_error()
    notes = _join_notes(
        "a single row" if pair.before.ndim < len(before_shape) else "",
        heads.describe_folding(before_shape),
        heads.describe_folding(after_shape),
        axes_of_after.note,
    )
    return HeadTensor(
        pair=with_rows,
        before=before,
        view=axes_of_after.view_as_before(with_rows.after),
        axis=position_axis,
        note=notes,
    )


def _add_axis_to_vectors(pair: TensorPair) -> TensorPair:
    """Return two vectors (D,) as rows (1, D), and other tensors as they are."""
    if pair.before.ndim == pair.after.ndim == 1:
        return pair._replace(before=pair.before[None], after=pair.after[None])
    return pair


def _join_notes(*notes: str) -> str:
    """Return notes with commas between them, each different one once, without those that are empty."""
    return ", ".join(dict.fromkeys(filter(None, notes)))


def _count_axis_from_end(axis: int, axes: int, unfolded_axes: int) -> int:
    """Return an axis as a negative number, after heads got an axis of their own.

    Of (L, 256), positions are axis 0, or -2. As (L, 4, 64), they are axis -3: 0 − 3 or −2 − (3 − 2),
    since heads have an axis between positions and channels.

    Args:
        axis: The axis, which may be counted from the beginning, 0, 1, …
        axes: The number of axes before.
        unfolded_axes: The number of axes now, which is one more if heads were unfolded.
    """
    if axis >= 0:
        return axis - unfolded_axes
    return axis - (unfolded_axes - axes)
