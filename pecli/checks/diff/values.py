"""Changes of the values of a table that mistakes make, each with what it leaves of the difference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.engine.arrays import Indices
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import round_to, widened

if TYPE_CHECKING:
    from numpy.typing import NDArray


MASKED = -1e4
"""What is below is masked: −inf, −1e9, the lowest float16."""


FLIPPED = "the sign is flipped"
SCALED = " · A"
"""The end of «B = 2 · A»."""


@dataclass(frozen=True)
class Change:
    """A change in words, and the largest difference that it leaves."""

    words: str
    residual: float


def distance(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The largest difference of two arrays; infinite where one is not finite and the other is not the same."""
    if not a.size:
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(a - b)
        top = float(error.max())
        if np.isfinite(top):
            return top
        error[(a == b) | (np.isnan(a) & np.isnan(b))] = 0
        error[np.isnan(error)] = np.inf
        return float(error.max())


def changes(a: NDArray[Any], b: NDArray[Any], dtypes: tuple[str, str]) -> Iterator[Change]:
    """A sign, all signs, a factor, a rounding."""
    yield Change(FLIPPED, distance(-a, b))
    if not np.iscomplexobj(b) and (b >= 0).all() and (a < 0).any():
        yield Change("B = |A|, the signs are lost", distance(np.abs(a), b))
    factor = _factor(a, b)
    if factor is not None:
        yield Change(f"B = {factor:.8g}{SCALED}", distance(factor * a, b))
    if not (np.iscomplexobj(a) or np.iscomplexobj(b)) and _near(a, b):
        for dtype in ("float32", "float16", "bfloat16"):
            for words, side, other, held in (("B is A", a, b, dtypes[1]), ("A is B", b, a, dtypes[0])):
                if SIGNIFICAND_BITS.get(held, 0) > SIGNIFICAND_BITS[dtype] and _rounds_to(side, other, dtype):
                    yield Change(f"{words} rounded to {dtype}", 0.0)


def _near(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether a rounding to the shortest dtype can be all there is between two arrays."""
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(over="ignore"):
        return bool((np.abs(a[finite] - b[finite]) <= np.abs(a[finite]) * 2.0**-7 + 2.0**-24).all())


def _rounds_to(side: NDArray[Any], other: NDArray[Any], dtype: str) -> bool:
    rounded = widened(round_to(np.asarray(side, np.float64), dtype))
    lost = np.isfinite(side) & ~np.isfinite(rounded)
    return not lost.any() and np.array_equal(rounded, other, equal_nan=True)


def _factor(a: NDArray[Any], b: NDArray[Any]) -> float | None:
    """The factor of least squares; None where there is no sensible one."""
    finite = np.isfinite(a) & np.isfinite(b)
    x, y = a[finite], b[finite]
    if x.size < 8 or np.count_nonzero(x) < 4 or np.iscomplexobj(x) != np.iscomplexobj(y):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        power = float((x * x.conj()).real.sum())  # the threads of a dot product are slower than so few numbers
        factor = float((y * x.conj()).real.sum()) / power if power else 0.0
    return factor if np.isfinite(factor) and 1e-6 < abs(factor) < 1e6 and factor != 1 else None


def softmax_ignores(a: NDArray[Any], b: NDArray[Any], places: Indices) -> Iterator[tuple[str, float]]:
    """Biases that differ by what a softmax over each row takes no notice of: a constant a row, the value of a mask."""
    if a.ndim < 2 or a.ndim != b.ndim or np.iscomplexobj(a) or np.iscomplexobj(b):
        return
    if a.shape[-1] != b.shape[-1] or (a.ndim == 2 and a.shape[0] != a.shape[1]):
        return
    try:
        a, b = np.broadcast_arrays(a, b)
    except ValueError:
        return
    if a.shape[-1] < 3:
        return
    below = np.broadcast_to(np.arange(a.shape[-1]) <= places[:, None], a.shape) if len(places) == a.shape[-2] else None
    for start, where in (("", np.ones(a.shape, bool)), ("on and below the diagonal ", below)):
        if where is None:
            continue
        masked = where & (a <= MASKED), where & (b <= MASKED)
        shift = _row_shifts(a, b, where & ~masked[0] & ~masked[1])
        if shift is not None:
            offset, residual = shift
            parts = ["a constant a row, which softmax ignores"] if (np.abs(offset) > residual).any() else []
            if found := [*parts, *_masks(a, b, masked)]:
                yield start + ", ".join(found), residual


def _row_shifts(a: NDArray[Any], b: NDArray[Any], where: NDArray[Any]) -> tuple[NDArray[Any], float] | None:
    """The constant of each row and what it leaves; None if rows have too little to tell."""
    enough = np.count_nonzero(where, axis=-1) > 2
    if np.count_nonzero(enough) < 2:
        return None
    with np.errstate(invalid="ignore"):
        gap = np.where(where, b - a, np.nan)
    if not np.isfinite(gap[where]).all():
        return None
    gap = gap[enough]
    low, high = np.nanmin(gap, axis=-1), np.nanmax(gap, axis=-1)
    return (low + high) / 2, float(np.max(high - low))


def _masks(a: NDArray[Any], b: NDArray[Any], masked: tuple[NDArray[Any], NDArray[Any]]) -> Iterator[str]:
    """How the masks of two biases differ, in words."""
    for here, there, name in ((*masked, "A"), (*masked[::-1], "B")):
        if apart := int(np.count_nonzero(here & ~there)):
            yield f"{apart:,} element{'s are' if apart > 1 else ' is'} masked in {name} only"
    both = masked[0] & masked[1]
    if not np.array_equal(a[both], b[both]):
        yield f"the mask is {a[both].flat[0]:g} in A and {b[both].flat[0]:g} in B"
