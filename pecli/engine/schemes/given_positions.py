"""Positions as they are given: one by one, or as the sizes of a grid.

They are exact: a float is the number it is, and a decimal that was typed is that decimal, not the float nearest to it.
"""

import math
import operator
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.engine.arrays import as_numpy
from pecli.engine.schemes import Parameter
from pecli.errors import KindError, ParameterError, bracketed, quoted, spelled

if TYPE_CHECKING:
    from numpy.typing import NDArray

LAST_POSITION = 2**40  #: positions go up to this, and down to minus this
_DECIMAL = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2})?|[+-]?\d+/\d+"
_NO_NUMBER = r"(?i)[+-]?(nan|inf|infinity|)"
"""What nobody calls a file in a list of numbers: it is refused as a number."""
_SEPARATOR = r"\s*[,;]\s*"
_MAX_DIGITS = 48


class PositionList(tuple[Any, ...]):
    """Positions that were checked: numbers, or a tuple of them for each axis. What no float is, is kept as text."""

    @property
    def axes(self) -> tuple[tuple[Any, ...], ...]:
        return tuple(self) if isinstance(self[0], tuple) else (tuple(self),)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), len(self[0])) if isinstance(self[0], tuple) else (len(self),)

    def exact(self) -> list[list[int | Fraction]]:
        """The numbers themselves, axis by axis."""
        return [
            [value if isinstance(value, int) else Fraction(value) for value in axis]
            for axis in self.axes
        ]

    @staticmethod
    def kept(exact: Fraction, text: str = "") -> int | float | str:
        if exact.denominator == 1:
            return int(exact)
        return float(exact) if Fraction(float(exact)) == exact else text or str(exact)

    def spelled(self) -> str:
        return ";".join(map(spelled, self.axes))


class GridSize(tuple[int, ...]):
    """Points along each axis of a grid: (H, W) or (T, H, W)."""

    def spelled(self) -> str:
        return "x".join(map(str, self))


class GivenPositions(Parameter):
    """Numbers one by one: (L,), or (axes, L)."""

    metavar = "LIST|FILE"
    rule = "they must be numbers from −2^40 to 2^40, of shape (L,) or (axes, L)"

    def is_value(self, text: str) -> bool:
        """Whether it is a list, and no name of a file: all parts are numbers, or the first two of three or more."""
        kinds, parts = (_DECIMAL, _NO_NUMBER), re.split(_SEPARATOR, text)
        are_numbers = [any(re.fullmatch(kind, part) for kind in kinds) for part in parts]
        return all(are_numbers) or are_numbers[:2] == [True, True]

    def parse(self, name: str, text: str) -> PositionList:
        """`0,0.5,1`, or `0,1;2,3` for two axes."""
        axes = [[part.strip() for part in axis.split(",")] for axis in text.split(";")]
        return self.check(name, axes if len(axes) > 1 else axes[0])

    def check(self, name: str, value: Any) -> PositionList:
        if isinstance(value, PositionList):
            return value
        if hasattr(value, "tolist"):
            value = as_numpy(name, value)
            said = f"of shape {bracketed(value.shape)}"
            if value.dtype.kind in "cbOSU":
                raise KindError(name, f"{said} and dtype {value.dtype}", self.rule)
            if (
                value.ndim == 3 and (value == value[:, :1]).all()
            ):  # (axes, batch, L), the same in all of the batch
                value = value[:, 0]
            if value.ndim not in (1, 2) or not value.size:
                raise ParameterError(name, said, self.rule)
            value = value.tolist()
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise KindError(name, quoted(value), self.rule)
        items = list(value)
        if not items:
            raise ParameterError(name, "empty", self.rule)
        if not any(isinstance(item, (list, tuple)) for item in items):
            return PositionList(_position(f"{name}[{k}]", item) for k, item in enumerate(items))
        sizes = [len(item) if isinstance(item, (list, tuple)) else 0 for item in items]
        if len({*sizes}) > 1 or not sizes[0]:
            raise ParameterError(
                name, f"axes of {', '.join(map(str, sizes[:8]))} positions", self.rule
            )
        rows = enumerate(items)
        return PositionList(
            tuple(_position(f"{name}[{a}][{k}]", x) for k, x in enumerate(axis)) for a, axis in rows
        )


def _position(name: str, value: Any) -> int | float | str:
    rule = "a position is a finite number from −2^40 to 2^40"
    if type(value).__name__ == "bool":
        raise KindError(name, quoted(value), rule)
    try:
        if isinstance(value, str) and (
            len(value) > _MAX_DIGITS or not re.fullmatch(_DECIMAL, value)
        ):
            raise ValueError(value)
        is_exact = isinstance(value, (str, Fraction))
        exact = Fraction(
            value
            if is_exact
            else operator.index(value)
            if hasattr(value, "__index__")
            else float(value)
        )
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise ParameterError(name, quoted(value), rule) from None
    if abs(exact) > LAST_POSITION:
        raise ParameterError(name, quoted(value), rule)
    return PositionList.kept(exact, str(value))


def whole_positions(name: str, given: Any) -> "NDArray[np.int64]":
    """Positions as an array of integers, of any shape."""
    ids = as_numpy(name, given)
    if ids.dtype.kind not in "iu":
        raise KindError(
            name, f"of shape {ids.shape} and dtype {ids.dtype}", "positions are integers"
        )
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) <= LAST_POSITION:
        said = f"{ids.min()} … {ids.max()}, of shape {ids.shape}"
        raise ParameterError(name, said, "positions must be 0 or more and at most 2^40")
    return ids.astype(np.int64)


class GridParameter(Parameter):
    """HxW or TxHxW."""

    metavar = "[Tx]HxW"
    rule = "it must be HxW or TxHxW, whole numbers from 1 to 2^20 whose product is at most 2^40"

    def parse(self, name: str, text: str) -> GridSize:
        parts = re.split("[x×,]", text.strip().lower())
        if not all(re.fullmatch(r"\s*[0-9]{1,13}\s*", part) for part in parts):
            raise ParameterError(name, quoted(text), self.rule)
        return self.check(name, [int(part) for part in parts])

    def check(self, name: str, value: Any) -> GridSize:
        if isinstance(value, (GridSize, str)):
            return self.parse(name, value) if isinstance(value, str) else value
        try:
            sizes = [operator.index(each) for each in value]
        except TypeError:
            raise KindError(name, quoted(value), self.rule) from None
        if (
            len(sizes) not in (2, 3)
            or not 1 <= min(sizes) <= max(sizes) <= 2**20
            or math.prod(sizes) > LAST_POSITION
        ):
            raise ParameterError(name, quoted(value), self.rule)
        return GridSize(sizes)
