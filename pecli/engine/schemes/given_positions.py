"""Positions as they are given: one by one, or as the sizes of a grid.

They are exact: a float is the number that it is, and a decimal that was typed is that decimal, not
the nearest float.
"""

import math
import operator
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, SupportsFloat, SupportsIndex, cast

import numpy as np

from pecli.engine.arguments import items_of
from pecli.engine.arrays import AnyArray, Positions, as_numpy
from pecli.engine.schemes.parameters import ParameterRule, whole_numbers_of
from pecli.errors import KindError, ParameterError, bracketed, quoted, spelled

LAST_POSITION = 2**40
"""Positions are at most this, and at least minus this."""
MAX_POSITIONS = 2**26
"""Positions that are given one by one; each takes some 40 bytes, so that these need 2.5 GiB."""
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?|[+-]?\d+/\d+")
_LIST_BEGINNING = re.compile(rf"({_DECIMAL.pattern}|(?i:[+-]?(nan|inf|infinity|)))\s*([,;]|$)")
"""The first number of a list, or a word that is refused as a number, and not taken for a file."""
_GRID = re.compile(r"\s*[0-9]{1,13}\s*([x×,]\s*[0-9]{1,13}\s*)*")
"""Sizes of a grid in small letters, such as 2x16x22."""
_SUFFIX = re.compile(r"\.[A-Za-z]\w*$")
_COMMA = re.compile(r"\s*,\s*")
NOT_REAL_NUMBERS = "cbOSU"
"""NumPy's letters for complex numbers, booleans, objects, and texts of bytes and of characters."""
_MAX_DIGITS = 48
MAX_LISTED = 8  # axes whose sizes a message names


Position = int | float | str
"""A text is a number that is neither an int nor a float: "0.1" and "1/3"."""


class PositionList(tuple[Any, ...]):
    """Positions that were checked: each a Position, or a tuple of them for each axis."""

    @property
    def _has_several_axes(self) -> bool:
        return isinstance(self[0], tuple)

    @property
    def axes(self) -> tuple[tuple[Position, ...], ...]:
        """Return the positions of each axis."""
        return tuple(self) if self._has_several_axes else (tuple(self),)

    @property
    def shape(self) -> tuple[int, ...]:
        """Return (L,) for a single axis, else (axes, L)."""
        return (len(self), len(self[0])) if self._has_several_axes else (len(self),)

    def exact(self) -> list[list[int | Fraction]]:
        """Return the exact numbers, axis by axis."""
        return [[_exact(value) for value in axis] for axis in self.axes]

    @staticmethod
    def number_or_text(exact: Fraction, text: str = "") -> Position:
        """Return a number as an int or a float if it is one, else as the text that was typed."""
        if exact.denominator == 1:
            return int(exact)
        if Fraction(float(exact)) == exact:
            return float(exact)
        return text or str(exact)

    def spelled(self) -> str:
        """Return the positions as the command line takes them: 0,1;2,3."""
        return ";".join(map(spelled, self.axes))


def _exact(value: Position) -> int | Fraction:
    return value if isinstance(value, int) else Fraction(value)


class GridSize(tuple[int, ...]):
    """Points along each axis of a grid: (H, W) or (T, H, W)."""

    def spelled(self) -> str:
        """Return the sizes as the command line takes them: 14x14."""
        return "x".join(map(str, self))


class GivenPositions(ParameterRule):
    """Numbers one by one: (L,), or (axes, L)."""

    metavar = "LIST|FILE"
    rule = "they must be numbers from −2^40 to 2^40, of shape (L,) or (axes, L)"

    def is_value(self, text: str) -> bool:
        """Return True for a list, False for the name of a file."""
        return looks_like_list(text)

    def parse(self, name: str, text: str) -> PositionList:
        """Return the positions of `0,0.5,1`, or of `0,1;2,3` for two axes."""
        axes = [_COMMA.split(axis.strip()) for axis in text.split(";")]
        has_several_axes = len(axes) > 1
        return self.check(name, axes if has_several_axes else axes[0])

    def check(self, name: str, value: object) -> PositionList:
        """Return positions from a list (L,), or from one list per axis, (axes, L), or an array.

        Numbers are kept exactly: 0.1 in a text is the fraction 1/10, not the nearest float.
        """
        if isinstance(value, PositionList):
            return value
        if not hasattr(value, "tolist"):
            return self._check_list(name, value)
        array = self._array_of_axes(name, value)
        if _are_plain_positions(array):
            return _positions_of_array(array)
        return self._check_list(name, array.tolist())

    def _check_list(self, name: str, value: object) -> PositionList:
        """Return positions from a list (L,), or from a list of axes, (axes, L)."""
        items = items_of(name, value, self.rule, MAX_POSITIONS)
        if not items:
            raise ParameterError(name, "empty", self.rule)
        has_axes = any(isinstance(item, (list, tuple)) for item in items)
        if has_axes:
            return self._several_axes(name, items)
        return PositionList(_checked_positions(name, items))

    def _several_axes(self, name: str, items: Sequence[object]) -> PositionList:
        """Return the positions (axes, L) of several axes, which must be equally long.

        [[0, 1], [2, 3]] are two axes of two positions; [[0, 1], [2]] is refused.
        """
        axes = [items_of(name, item, self.rule, MAX_POSITIONS) for item in items]
        sizes = [len(axis) for axis in axes]
        if len({*sizes}) > 1 or 0 in sizes:
            description = f"axes of {', '.join(map(str, sizes[:MAX_LISTED]))} positions"
            raise ParameterError(name, description, self.rule)
        numbered_axes = enumerate(axes)
        return PositionList(
            _checked_positions(f"{name}[{index}]", axis) for index, axis in numbered_axes
        )

    def _array_of_axes(self, name: str, value: object) -> AnyArray:
        """Return an array of positions (L,) or (axes, L), or raise an error if it has another shape.

        Position ids of Qwen2-VL are (axes, batch, L). If all prompts of the batch have the same ids,
        those of the first one are returned; if not, there is no single list, and they are refused.
        """
        array = as_numpy(name, value)
        description = f"of shape {bracketed(array.shape)}"
        if array.dtype.kind in NOT_REAL_NUMBERS:
            raise KindError(name, f"{description} and dtype {array.dtype}", self.rule)
        if array.ndim == 3:
            first_prompt = array[:, :1]  # (axes, 1, L)
            if (array == first_prompt).all():
                array = first_prompt[:, 0]
        if array.ndim not in (1, 2) or not array.size:
            raise ParameterError(name, description, self.rule)
        return array


def _are_plain_positions(array: AnyArray) -> bool:
    """Return True for integers or floats that are all positions; NaN is not below any limit."""
    is_long_double = array.dtype.itemsize > 8  # Python has no such number.
    if array.dtype.kind not in "iuf" or is_long_double:
        return False
    lowest = float(array.min())
    highest = float(array.max())
    return lowest >= -LAST_POSITION and highest <= LAST_POSITION


def _positions_of_array(array: AnyArray) -> PositionList:
    """Return the positions of an array (L,) or (axes, L) that are plain.

    There may be millions, and making a fraction of each takes a minute. Whole numbers are kept as
    integers: [0.0, 0.5] becomes (0, 0.5).
    """
    if array.ndim == 2:
        return PositionList(tuple(_positions_of_array(axis)) for axis in array)
    return PositionList(map(_whole_as_integer, array.tolist()))


def _whole_as_integer(number: int | float) -> int | float:
    whole = int(number)
    return whole if number == whole else number


def looks_like_list(text: str) -> bool:
    """Return True for a list of numbers, False for the name of a file.

    A text that begins with a number and a comma is a list, perhaps with a typing error, as 0,5,x.
    Files whose names begin so have a suffix, as 1,x.npy.
    """
    return _LIST_BEGINNING.match(text) is not None and _SUFFIX.search(text) is None


def _checked_positions(name: str, values: Iterable[object]) -> tuple[Position, ...]:
    """Return the positions of one axis; an error names the position, such as `positions[3]`."""
    items = enumerate(values)
    return tuple(_checked_position(f"{name}[{index}]", value) for index, value in items)


def _checked_position(name: str, value: object) -> Position:
    """Return a number as a position, or raise an error if it is not one.

    3.0 becomes 3, and 0.5 stays. The text "0.1" stays a text, because no float is exactly 1/10.

    Args:
        name: The name of the number, for the message, such as `positions[3]`.
        value: A number of any library, or a text.

    Raises:
        KindError: It is True or False. Python takes these for 1 and 0, so that they are refused by
            their type.
        ParameterError: It is no number, or too large.
    """
    rule = "a position is a finite number from −2^40 to 2^40"
    if _is_bool(value):
        raise KindError(name, quoted(value), rule)
    try:
        exact = _exact_fraction(value)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise ParameterError(name, quoted(value), rule) from None
    if abs(exact) > LAST_POSITION:
        raise ParameterError(name, quoted(value), rule)
    return PositionList.number_or_text(exact, str(value))


def _is_bool(value: object) -> bool:
    """Return True for True and False of Python or NumPy, both of whose types are named `bool`."""
    return type(value).__name__ == "bool"


def _exact_fraction(value: object) -> Fraction:
    """Return the exact number of a text, a fraction, an integer or a float of any library.

    The text "0.1" is 1/10, while the float 0.1 is the nearest multiple of a power of two.

    Raises:
        ValueError: It is a text that is not a number or too long, or a float that is not finite.
        TypeError: It is none of these.
    """
    if isinstance(value, str):
        if len(value) > _MAX_DIGITS or not _DECIMAL.fullmatch(value):
            raise ValueError(value)
        return Fraction(value)
    if isinstance(value, Fraction):
        return value
    if isinstance(value, SupportsIndex):  # integers of Python, NumPy and torch
        return Fraction(operator.index(value))
    return Fraction(float(cast(SupportsFloat, value)))


def whole_positions(name: str, value: object) -> Positions:
    """Return positions as an array of integers, of any shape.

    Raises:
        ParameterError: they are not integers, negative, or beyond 2^40.
    """
    ids = as_numpy(name, value)
    if ids.dtype.kind not in "iu":
        description = f"of shape {ids.shape} and dtype {ids.dtype}"
        raise KindError(name, description, "positions are integers")
    if not 0 <= int(ids.min(initial=0)) <= int(ids.max(initial=0)) <= LAST_POSITION:
        description = f"{ids.min()} … {ids.max()}, of shape {ids.shape}"
        raise ParameterError(name, description, "positions must be 0 or more and at most 2^40")
    return ids.astype(np.int64)


class GridParameter(ParameterRule):
    """HxW or TxHxW."""

    metavar = "[Tx]HxW"
    rule = "it must be HxW or TxHxW, whole numbers from 1 to 2^20 whose product is at most 2^40"

    def parse(self, name: str, text: str) -> GridSize:
        sizes = text.lower()
        if not _GRID.fullmatch(sizes):
            raise ParameterError(name, quoted(text), self.rule)
        return self.check(name, [int(size) for size in re.findall("[0-9]+", sizes)])

    def check(self, name: str, value: object) -> GridSize:
        """Return the sizes of a grid from a text such as "16x22", or from 2 or 3 whole numbers."""
        if isinstance(value, str):
            return self.parse(name, value)
        sizes = whole_numbers_of(name, value, self.rule, most=4)
        if not _is_grid(sizes):
            raise ParameterError(name, quoted(value), self.rule)
        return GridSize(sizes)


def _is_grid(sizes: list[int]) -> bool:
    """Return True for 2 or 3 sizes of a grid whose points are not too many."""
    if len(sizes) not in (2, 3):
        return False
    return 1 <= min(sizes) <= max(sizes) <= 2**20 and math.prod(sizes) <= LAST_POSITION
