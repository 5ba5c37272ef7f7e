"""An array in the shape of another one: with other axes, repeated, or with cosines and sines laid out differently."""

import math
from collections.abc import Iterator
from itertools import chain, permutations, product, starmap
from typing import NamedTuple

import numpy as np

from pecli.compare.factors import without_ones
from pecli.compare.forms import DOUBLINGS, SEARCHED, Form, forms
from pecli.engine.arrays import Array
from pecli.engine.edits import Edit, Layout, Negated, Repeated, Swapped, Transposed

MAX_LAID_OUT = 1 << 22
"""Elements of an array that is made in other layouts."""

LAYOUTS = tuple(starmap(Form, product(SEARCHED, DOUBLINGS)))
"""The layouts of cosines and sines: in halves, interleaved, in pairs, …, with every column once or
twice.
"""


class Candidate(NamedTuple):
    """An array in the shape of the other one, and the edits that make it."""

    edits: tuple[Edit, ...]
    array: Array
    is_computed: bool = False


def arranged_as(shape: tuple[int, ...], array: Array) -> Iterator[Candidate]:
    """Yield an array as it is, with other axes, repeated or laid out differently, if that gives it a shape.

    Axes of length 1 do not count: (1, 8, 64) and (8, 64) are the same shape.
    """
    wanted_shape = without_ones(shape)
    table = squeezed(array)
    as_it_is = Candidate((), table)
    arrangements = chain(
        [as_it_is],
        _transposed(table),
        _repeated_along_new_axis(table, wanted_shape),
        _repeated_below_each_other(table, wanted_shape),
        _in_other_layouts(table, wanted_shape),
    )
    for candidate in arrangements:
        if candidate.array.shape == wanted_shape:
            yield candidate._replace(array=candidate.array.reshape(shape))


def squeezed(array: Array) -> Array:
    """Return an array without axes of length 1."""
    return array.reshape(without_ones(array.shape))


def _transposed(plain: Array) -> Iterator[Candidate]:
    """Yield a table with its two or three axes in every other order."""
    if plain.ndim not in (2, 3):
        return
    _order_at_hand, *other_orders = permutations(range(plain.ndim))
    for axes in other_orders:
        yield Candidate((Transposed(axes),), plain.transpose(axes))


def _repeated_along_new_axis(table: Array, wanted_shape: tuple[int, ...]) -> Iterator[Candidate]:
    """Yield a table that is copied along one axis more, as (64, 32) is to (8, 64, 32) for 8 heads."""
    for new_axis, copy_count in enumerate(wanted_shape):
        # Without axis 0, (8, 64, 32) is (64, 32).
        shape_of_one_copy = wanted_shape[:new_axis] + wanted_shape[new_axis + 1 :]
        if shape_of_one_copy == table.shape:
            copies = np.broadcast_to(np.expand_dims(table, new_axis), wanted_shape)
            yield Candidate((Repeated(new_axis, copy_count),), copies)


def _repeated_below_each_other(table: Array, wanted_shape: tuple[int, ...]) -> Iterator[Candidate]:
    """Yield whole copies of a table one below the other: 8 of (64, 32) are (512, 32)."""
    copy_count = wanted_shape[0] // len(table)
    has_same_columns = wanted_shape[1:] == table.shape[1:]
    if has_same_columns and copy_count > 1:
        yield Candidate((Repeated(0, copy_count),), np.concatenate([table] * copy_count))


def _in_other_layouts(table: Array, wanted_shape: tuple[int, ...]) -> Iterator[Candidate]:
    """Yield a table with cosines and sines exchanged, one of them negated, or in another layout.

    [cos | sin] becomes [sin | cos], [−cos | sin], [cos | −sin], and cos and sin interleaved. An
    array does not state its layout, so each layout of its shape is supposed in turn.

    Args:
        table: The expected table, without axes of length 1.
        wanted_shape: The shape of the found one.
    """
    if table.ndim not in (2, 3) or table.size > MAX_LAID_OUT:
        return
    wanted_size = math.prod(wanted_shape)
    for layout in _possible_layouts(table):
        functions = layout.split(table)  # (cosines, sines), or only one of both
        if functions is None:
            continue
        if len(functions) == 2:
            cosines, sines = functions
            yield from _swapped_or_negated(layout, cosines, sines)
        yield from _laid_out_differently(layout, functions, wanted_size)


def _possible_layouts(table: Array) -> Iterator[Form]:
    """Yield the layouts of cosines and sines that a table of this shape may have, such as [cos | sin]."""
    has_odd_width = table.shape[-1] % 2 == 1
    for layout in forms(table):
        # In c0 s0 c1 s1 c2, the last cosine has no sine beside it.
        lacks_last_sine = layout.arrangement == "interleaved" and has_odd_width
        if not lacks_last_sine:
            yield layout


def _swapped_or_negated(layout: Form, cosines: Array, sines: Array) -> Iterator[Candidate]:
    """Yield cosines and sines in their layout, exchanged or one of them negated.

    [cos | sin] becomes [sin | cos], [−cos | sin] and [cos | −sin].
    """
    yield Candidate((Swapped(),), layout.join(sines, cosines))
    if cosines.dtype.kind == "b":
        return  # Masks of attention have no sign.
    yield Candidate((Negated("first"),), layout.join(np.negative(cosines), sines))
    yield Candidate((Negated("second"),), layout.join(cosines, np.negative(sines)))


def _laid_out_differently(
    expected_layout: Form, functions: tuple[Array, ...], wanted_size: int
) -> Iterator[Candidate]:
    """Yield cosines and sines in every layout of a size, except the expected one.

    Rows of all cosines, then all sines, c0 c1 s0 s1, become c0 s0 c1 s1 in the layout «interleaved»,
    and s0 c0 s1 c1 if both are exchanged as well.

    Args:
        expected_layout: The layout that the array should have.
        functions: Cosines and sines, (rows, frequencies) each, or only one of both.
        wanted_size: The number of elements of the found array. A layout that has each column twice
            makes twice as many, for example.
    """
    for layout in LAYOUTS:
        if layout == expected_layout or not _makes_size(wanted_size, layout, functions):
            continue
        change_of_layout = Layout(expected_layout.name, layout.name)
        yield Candidate((change_of_layout,), layout.join(*functions))
        if len(functions) == 2:
            cosines, sines = functions
            yield Candidate((change_of_layout, Swapped()), layout.join(sines, cosines))


def _makes_size(size: int, layout: Form, functions: tuple[Array, ...]) -> bool:
    """Return True if a layout of cosines, of sines or of both makes an array of `size` elements of these."""
    holds_as_many = layout.function_count == len(functions)
    return holds_as_many and _count_elements(layout, functions[0]) == size


def _count_elements(form: Form, function: Array) -> int:
    """Return the number of elements that cosines and sines of this size have in a layout.

    Cosines and sines of 64 × 32 elements each have 64 · 64 elements side by side, and 64 · 32 as
    complex numbers, of which each holds both.
    """
    columns_per_frequency = 2 if form.doubled else 1
    numbers_per_column = 1 if form.arrangement == "complex" else form.function_count
    return function.size * columns_per_frequency * numbers_per_column
