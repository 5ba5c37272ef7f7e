"""Distances of numbers: ULPs by their bits, and exact errors for any pair of dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS, dtype_name
from pecli.engine.numerics.rounding import round_to, widened

if TYPE_CHECKING:
    from numpy.typing import NDArray


def ulps_apart(a: Array, b: Array) -> NDArray[Any]:
    """The distance of two arrays in floats of their dtype, element by element; the two zeros are one.

    >>> ulps_apart(np.array([1, -0.0], np.float16), np.array([1 + 2**-10, 0.0], np.float16)).tolist()
    [1, 0]
    """
    first, second = _ordinals(a), _ordinals(b)
    unsigned = f"u{a.dtype.itemsize}"  # the difference has one bit more than its signed parts
    return np.asarray(np.maximum(first, second).view(unsigned) - np.minimum(first, second).view(unsigned))


def _ordinals(a: Array) -> NDArray[Any]:
    """Floats numbered from zero, negative below; without branches, which random signs would make slow."""
    bits = a.view(f"i{a.dtype.itemsize}")
    below = bits >> (8 * a.dtype.itemsize - 1)  # −1 where negative, or else 0
    size = bits & np.iinfo(bits.dtype).max
    size ^= below
    size -= below
    return np.asarray(size)


def errors(ours: Array, theirs: Array) -> tuple[Flags, Floats, NDArray[Any] | None]:
    """Which elements are alike, their absolute errors, and the units of the last place between them, for floats."""
    if ours.dtype == theirs.dtype and ours.dtype.kind in "iub":
        return _integers_apart(ours, theirs)
    alike, error = absolute_errors(ours, theirs)
    units = _units(ours, theirs)
    if units is not None:
        units[alike] = 0
    return alike, error, units


def absolute_errors(ours: Array, theirs: Array) -> tuple[Flags, Floats]:
    """Which elements are alike, and absolute errors: infinite where only one side is finite, or is a number."""
    expected, found = widest(ours), widest(theirs)
    alike = np.asarray((expected == found) | (np.isnan(expected) & np.isnan(found)))  # one NaN is as good as another
    with np.errstate(invalid="ignore", over="ignore"):
        error: Floats = np.abs(expected - found)
    error[alike] = 0
    error[np.isnan(error)] = np.inf
    return alike, error


def _units(ours: Array, theirs: Array) -> NDArray[Any] | None:
    """Units of the last place of the dtype that was found, into which the expected value is rounded once."""
    if theirs.dtype.kind == "c":
        both = [np.asarray(part).astype(theirs.dtype) for part in (ours, theirs)]
        parts = [(each.real.copy(), each.imag.copy()) for each in both]
        return np.asarray(np.maximum(ulps_apart(parts[0][0], parts[1][0]), ulps_apart(parts[0][1], parts[1][1])))
    if theirs.dtype.kind in "iub" or ours.dtype.kind == "c":
        return None
    if ours.dtype != theirs.dtype:
        name = dtype_name(theirs.dtype)
        ours = round_to(widened(ours), name) if name in SIGNIFICAND_BITS else widened(ours).astype(theirs.dtype)
    return ulps_apart(ours, theirs)


def _integers_apart(ours: Array, theirs: Array) -> tuple[Flags, Floats, None]:
    a, b = (each.view(np.uint8) if each.dtype.kind == "b" else each for each in (ours, theirs))
    unsigned = f"u{a.dtype.itemsize}"
    larger, smaller = np.maximum(a, b).view(unsigned), np.minimum(a, b).view(unsigned)
    return np.asarray(a == b), (larger - smaller).astype(np.float64), None


def widest(values: Array) -> NDArray[Any]:
    """Numbers as float64, or as complex128."""
    return values.astype(np.complex128) if values.dtype.kind == "c" else widened(values)


def value_of(element: Any) -> float | complex:
    """An element as a Python number."""
    kind = element.dtype.kind
    return int(element) if kind in "iub" else complex(element) if kind == "c" else float(element)
