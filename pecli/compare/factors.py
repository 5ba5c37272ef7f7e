"""Factors of an array: what counts its elements, and views of the tables that they make up.

The elements of an array lie one after the other, the last axis fastest. An axis may hold several things at once: 16
columns may be 8 frequencies twice. So an array is described by *factors*, the slowest first. (2, 12, 16), a batch of two
copies of 12 rows with 8 frequencies, each frequency twice as [c0 … c7 c0 … c7], is

    copy 2, row 12, double 2, frequency 8

and interleaved columns, [c0 c0 c1 c1 …], would be `frequency 8, double 2`. From the factors follow the views of the
tables, and the index of each of their elements in the array.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

import numpy as np

from pecli.engine.arrays import AnyArray

Shape = tuple[int, ...]
Index = tuple[int, ...]
Length = TypeVar("Length", int, int | None)
"""The length of an axis; None if it is not known."""


class Axis(IntEnum):
    """The things that a factor counts, in the order in which views have their axes."""

    MATRIX_ROW = 0  #: the row of a 2 × 2 rotation matrix
    MATRIX_COLUMN = 1
    FUNCTION = 2  #: the first function (usually cosines), then the second one
    SIGNED_DOUBLE = 3  #: the first column of a frequency, negated, and the second
    DOUBLE = 4  #: the first and the second column of a frequency
    COPY = 5  #: copies of the whole table, as for each sequence of a batch or each head
    ROW = 6  #: the rows of the table: positions, or heads and positions
    FREQUENCY = 7  #: the columns of the table


class Factor(NamedTuple):
    """One of the numbers whose product is the size of an array: 2 functions, 12 heads, 64 rows."""

    axis: Axis
    size: int


class View(NamedTuple):
    """A table in an array, and the places of its values there.

    Attributes:
        values: The values, (doubled columns, copies…, rows…, frequencies).
        array_shape: The shape of the array.
        start: The elements of the array before the first one of the view.
        steps: By axis of the view, the elements of the array from one value to the next.
    """

    values: AnyArray
    array_shape: Shape
    start: int
    steps: tuple[int, ...]

    def index_of(self, place: int) -> Index:
        """Return the index in the array of an element, given its place in the view.

        >>> table = np.arange(6).reshape(2, 3)
        >>> transposed = View(table.T, table.shape, 0, (1, 3))
        >>> transposed.index_of(1)  # the second element of the view's first row
        (1, 0)
        """
        coordinates = np.unravel_index(place, self.values.shape)
        element = self.start
        for coordinate, step in zip(coordinates, self.steps, strict=True):
            element += int(coordinate) * step
        return tuple(map(int, np.unravel_index(element, self.array_shape)))

    def at(self, index: Index) -> "View":
        """Return the part of a view at an index of its first axes: all sines, if (1,) selects them.

        >>> view_whole(np.zeros((2, 12, 8))).at((1,)).start  # the sines begin after 12 · 8 cosines
        96
        """
        indexed_axes = len(index)
        return View(
            values=self.values[index],
            array_shape=self.array_shape,
            start=self.start + sum(map(operator.mul, index, self.steps)),
            steps=self.steps[indexed_axes:],
        )

    def with_axis_moved(self, source: int, destination: int) -> "View":
        """Return the view with one of its axes at another place, as `np.moveaxis` does.

        >>> view_whole(np.zeros((4, 64, 3))).with_axis_moved(0, -2).steps
        (3, 192, 1)
        """
        axes = [*range(self.values.ndim)]
        moved_axis = axes.pop(source)
        axes.insert(destination % self.values.ndim, moved_axis)
        steps = tuple(self.steps[axis] for axis in axes)
        return self._replace(values=self.values.transpose(axes), steps=steps)


def view_whole(array: AnyArray) -> View:
    """Return an array as a view of itself."""
    return View(values=array, array_shape=array.shape, start=0, steps=find_steps(array.shape))


def find_steps(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return, by axis, the number of elements from one index to the next.

    >>> find_steps((2, 12, 16))
    (192, 16, 1)
    """
    return tuple(math.prod(sizes[k + 1 :]) for k in range(len(sizes)))


def first_along(array: AnyArray, axes: int) -> AnyArray:
    """Return an array at index 0 of its first axes.

    >>> first_along(np.zeros((2, 12, 64, 16)), 2).shape  # the first head of the first sequence
    (64, 16)
    """
    first: AnyArray = array[(0,) * axes]
    return first


def without_ones(shape: tuple[Length, ...]) -> tuple[Length, ...]:
    """Return a shape without its axes of length 1, which programs add and drop at will.

    >>> without_ones((1, 1, 4096, 64))
    (4096, 64)
    """
    return tuple(length for length in shape if length != 1)


class FunctionView(NamedTuple):
    """One of the functions that an array holds, at one of the places where it is."""

    function: int  #: 0 for the first, 1 for the second
    negated: bool
    view: View


class _Place(NamedTuple):
    """A place of a function in an array: −sin of a rotation matrix is function 1, negated, at (0, 1)."""

    function: int  #: 0 for the first, 1 for the second
    negated: bool
    at_index: Index  #: along the axes of matrices, or of functions


_FIRST = 0
_SECOND = 1
_ALONE = (_Place(_FIRST, negated=False, at_index=()),)
_PLACES_BY_FIRST_AXIS: Mapping[Axis, tuple[_Place, ...]] = {
    Axis.MATRIX_ROW: (  # [[cos, -sin], [sin, cos]]
        _Place(_FIRST, negated=False, at_index=(0, 0)),
        _Place(_FIRST, negated=False, at_index=(1, 1)),
        _Place(_SECOND, negated=False, at_index=(1, 0)),
        _Place(_SECOND, negated=True, at_index=(0, 1)),
    ),
    Axis.FUNCTION: (
        _Place(_FIRST, negated=False, at_index=(0,)),
        _Place(_SECOND, negated=False, at_index=(1,)),
    ),
    Axis.SIGNED_DOUBLE: (
        _Place(_FIRST, negated=True, at_index=(0,)),
        _Place(_FIRST, negated=False, at_index=(1,)),
    ),
}
"""By the first axis of a view with an axis per factor, the places of the functions along it.

Views of copies, rows or frequencies only are not in it: they hold one function."""


def view_functions(array: AnyArray, factors: Sequence[Factor]) -> list[FunctionView]:
    """Return views of the cosines and of the sines that one array holds, without copying it.

    In the example, a row is cos, sin, cos, sin. The factors describe it: 1 row of 2 frequencies of 2
    functions. An array of one function is one view as a whole.

    >>> pairs = np.array([[1.0, 0.0, 0.5, 0.8]])
    >>> factors = (Factor(Axis.ROW, 1), Factor(Axis.FREQUENCY, 2), Factor(Axis.FUNCTION, 2))
    >>> [view.values.tolist() for _, _, view in view_functions(pairs, factors)]
    [[[1.0, 0.5]], [[0.0, 0.8]]]

    Args:
        array: The array.
        factors: What its elements count, the slowest first; their sizes multiply to its size.
    """
    whole = view_by_factors(array, factors)  # (functions, …, rows, frequencies)
    first_axis = min(factor.axis for factor in factors)
    # If the array holds several functions, an index of its first axis selects one of them.
    places = _PLACES_BY_FIRST_AXIS.get(first_axis, _ALONE)
    return [
        FunctionView(place.function, place.negated, whole.at(place.at_index)) for place in places
    ]


def view_by_factors(array: AnyArray, factors: Sequence[Factor]) -> View:
    """Return an array with an axis for each of its factors, in the order of `Axis`: functions first.

    Two rows of 8 frequencies, each with a cosine and a sine, (2, 16), become (2 functions, 2 rows,
    8 frequencies). From one function to the next is 1 element, to the next row 16, and to the next
    frequency 2.

    >>> factors = (Factor(Axis.ROW, 2), Factor(Axis.FREQUENCY, 8), Factor(Axis.FUNCTION, 2))
    >>> view = view_by_factors(np.zeros((2, 16)), factors)
    >>> view.values.shape, view.steps
    ((2, 2, 8), (1, 16, 2))

    Args:
        array: The array.
        factors: What its elements count, the slowest first; their sizes multiply to its size.
    """
    sizes = [factor.size for factor in factors]
    steps = find_steps(sizes)
    order = sorted(range(len(factors)), key=lambda index: factors[index].axis)
    return View(
        values=array.reshape(sizes).transpose(order),
        array_shape=array.shape,
        start=0,
        steps=tuple(steps[index] for index in order),
    )
