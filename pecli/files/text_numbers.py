"""The numbers in text: between commas, or in brackets that are nested as a shape asks for.

Only whole texts are looked at, by what is written in C; hostile ones may hold a hundred million elements.
"""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array
from pecli.files.source import Source

if TYPE_CHECKING:
    Dtype = np.dtype[np.generic]


SPACE = b" \t\r\n"
_NOT_STRUCTURE = bytes(set(range(256)) - set(b"[],"))
_MISPLACED = re.compile(rb"[^\[,]\[|\][^\],]")
"""A bracket that opens behind a number, or closes before one."""
_APART = re.compile(rb"[^\[\], \t\r\n][ \t\r\n]++[^\[\], \t\r\n]")
"""Two numbers with no comma between them."""

_BARE_SIGN = re.compile(rb"[-+](?![0-9])")
"""A sign of no integer, which NumPy takes for 0."""


def numbers(source: Source, text: bytes, dtype: Dtype, count: int) -> Array:
    """Numbers between commas; exactly as many as there should be."""
    if text.count(b",") + 1 != count and (count or text):
        raise source.error(f"holds {text.count(b',') + 1} numbers where {count} are announced")
    if not count:
        return np.empty(0, dtype)
    wide = np.dtype(np.uint64 if dtype == np.uint64 else np.int64) if dtype.kind in "iu" else dtype
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy only warns of text that is no number
        try:
            values: Array = np.fromstring(text, wide, sep=",")
        except (DeprecationWarning, ValueError):
            raise source.error("holds something that is not a number") from None
    if len(values) != count or (dtype.kind in "iu" and _BARE_SIGN.search(text)):
        raise source.error("holds something that is not a number")
    if dtype.kind in "iu" and not _fit(text, values, dtype):
        raise source.error(f"holds an integer that {dtype} has no room for")
    return values.astype(dtype, copy=False)


def _fit(text: bytes, values: Array, dtype: Dtype) -> bool:
    """Whether integers are what their text says: NumPy takes the largest, or the smallest, for those beyond it."""
    least, most = np.iinfo(dtype.str).min, np.iinfo(dtype.str).max
    if values.min() < least or values.max() > most or (dtype.kind == "u" and b"-" in text):
        return False
    return all(
        len(re.findall(rb"(?<![0-9])0*+%d(?![0-9])" % abs(limit), text)) >= np.count_nonzero(values == limit)
        for limit in (least, most)
        if limit and dtype.itemsize == 8
    )


def unnested(source: Source, label: str, text: bytes, shape: tuple[int, ...]) -> bytes:
    """The numbers between commas, out of brackets; they must be nested as the shape says, and stand inside."""
    if _APART.search(text):
        raise source.error(f"{label} has numbers with no comma between them")
    text = text.translate(None, SPACE)
    structure = text.translate(None, _NOT_STRUCTURE)
    if 0 in shape:
        shape = shape[: shape.index(0) + 1]
    length = 0
    for side in reversed(shape):
        length = side * length + max(side - 1, 0) + 2
    if len(structure) != length or structure != _structure(shape) or _MISPLACED.search(text):
        raise source.error(f"{label} is not nested as its shape, {shape}, asks for")
    numbers = text.translate(None, b"[]")
    return b"" if 0 in shape and not numbers.strip(b",") else numbers


def _structure(shape: tuple[int, ...]) -> bytes:
    """The brackets and commas of a shape, such as [[,],[,]]."""
    text = b""
    for side in reversed(shape):
        text = b"[" + ((text + b",") * side)[:-1] + b"]"
    return text
