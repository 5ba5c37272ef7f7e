"""The ways in which programs lay out the cosines and sines of positions × frequencies, and how to read them all.

Whatever the layout, behind it are one or two parts of shape (positions, frequencies): the cosine or the sine of every
angle, or both. Which part is the cosine is not a matter of layout; the numbers tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pecli.engine.arrays import Array

ARRANGEMENTS: Mapping[str, str] = {
    "alone": "{0}",
    "halves": "all {0}, then all {1}",
    "interleaved": "{0} and {1} interleaved",
    "stacked": "the {0}, then the {1}",
    "pairs": "pairs of {0} and {1}",
    "complex": "complex numbers",
}
"""How the two functions lie beside each other, with their names."""

DOUBLINGS: Mapping[str, str] = {"": "", "halves": "c0 c1 … c0 c1 …", "interleaved": "c0 c0 c1 c1 …"}
"""How often each column of a part is there: once, or twice, in that order."""


def columns(way: str) -> str:
    """The columns of a part, in words."""
    return f"two columns per frequency ({DOUBLINGS[way]})" if way else "one column per frequency"


@dataclass(frozen=True)
class Form:
    """One layout: how the functions lie, whether columns are doubled, whether positions run along the rows."""

    arrangement: str
    doubled: str = ""
    transposed: bool = False
    padded: bool = False
    """A column of zeros at the end, which makes an odd dim."""

    @property
    def name(self) -> str:
        """What users call it: a layout of one function, or how two lie."""
        if self.arrangement == "alone":
            return self.doubled or "compact"
        return f"{self.arrangement}, columns doubled: {self.doubled}" if self.doubled else self.arrangement

    def split(self, array: Array) -> tuple[Array, ...] | None:
        """The parts of an array in this form, each (positions, frequencies); None where it cannot be."""
        array = _straight(array, self)
        if self.padded:
            if array.ndim != 2 or not array.shape[1] % 2 or array[:, -1].any():
                return None
            array = array[:, :-1]
        parts = _parts(array, self.arrangement)
        if parts is None or not all(part.ndim == 2 and part.size for part in parts):
            return None
        singles = [_single(part, self.doubled) for part in parts]
        found = tuple(part for part in singles if part is not None)
        return found if len(found) == len(parts) else None

    def join(self, *parts: Array) -> Array:
        """The array in this form that has these parts."""
        wide = [_double(part, self.doubled) for part in parts]
        array = _arranged(wide, self.arrangement)
        if self.padded:
            array = np.concatenate([array, np.zeros_like(array[:, :1])], axis=1)
        return _straight(array, self)


def forms(array: Array) -> Iterator[Form]:
    """Every form that an array of such a shape can have, and whose doublings it has; the likelier ones first."""
    kinds = ["complex"] if array.dtype.kind == "c" else ["interleaved", "halves", "alone"]
    if array.ndim == 3 and array.dtype.kind != "c":
        kinds = ["stacked", "pairs"]
    for transposed in (False, True):
        for arrangement in kinds:
            for doubled in DOUBLINGS:
                for padded in (False, True):
                    form = Form(arrangement, doubled, transposed, padded)
                    if form.split(array) is not None:
                        yield form


def _straight(array: Array, form: Form) -> Array:
    """Transposed back or forth: the two axes of positions and frequencies change places."""
    if not form.transposed or array.ndim < 2:
        return array
    first = 0 if form.arrangement == "pairs" else array.ndim - 2
    return np.swapaxes(array, first, first + 1)


def _parts(array: Array, arrangement: str) -> tuple[Array, ...] | None:
    width = array.shape[-1] if array.ndim else 0
    if arrangement == "complex":
        return (array.real, array.imag) if array.dtype.kind == "c" else None
    if array.dtype.kind == "c":
        return None
    if arrangement == "stacked":
        return (array[0], array[1]) if array.ndim == 3 and len(array) == 2 else None
    if arrangement == "pairs":
        return (array[..., 0], array[..., 1]) if array.ndim == 3 and width == 2 else None
    if array.ndim != 2:
        return None
    if arrangement == "alone":
        return (array,)
    if arrangement == "halves":
        return (array[:, : width // 2], array[:, width // 2 :]) if width % 2 == 0 else None
    if width % 2:  # the odd column has a sine and no cosine: read without it
        array = array[:, :-1]
    return array[:, 0::2], array[:, 1::2]


def _arranged(parts: list[Array], arrangement: str) -> Array:
    if arrangement == "alone":
        return parts[0]
    if arrangement == "complex":
        return np.asarray(parts[0] + np.multiply(parts[1], 1j))
    if arrangement == "stacked":
        return np.stack(parts)
    if arrangement == "halves":
        return np.concatenate(parts, axis=-1)
    pairs = np.stack(parts, axis=-1)
    return pairs if arrangement == "pairs" else pairs.reshape(len(pairs), -1)


def _single(part: Array, doubled: str) -> Array | None:
    """Each column once; None where the doubled columns are not the same."""
    if not doubled:
        return part
    if part.shape[1] % 2:
        return None
    half = part.shape[1] // 2
    one, other = (part[:, :half], part[:, half:]) if doubled == "halves" else (part[:, 0::2], part[:, 1::2])
    alike = all(np.array_equal(one[rows], other[rows], equal_nan=True) for rows in (slice(1), slice(1, None)))
    return one if alike else None


def _double(part: Array, doubled: str) -> Array:
    if not doubled:
        return part
    return np.concatenate([part, part], axis=-1) if doubled == "halves" else np.repeat(part, 2, axis=-1)
