"""Turning pairs of channels by angles, a block at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pecli.engine.dtypes import numpy_dtype
from pecli.layers.inputs import arithmetic

_BLOCK = 1 << 17
"""Numbers worked on at once: a block and its temporaries should stay in the second-level cache."""

Turn = Callable[[NDArray[Any], NDArray[Any]], None]
"""Writes its first argument, turned, into its second, which may be the first itself."""


def turn(x: NDArray[Any], factors: Callable[[int, int], NDArray[Any]], *, interleaved: bool) -> NDArray[Any]:
    """x (…, L, D) with every pair of channels multiplied, as a complex number, by its factor; a new array.

    `factors(start, stop)` gives the complex (stop − start, D/2) factors of rows start … stop − 1, in the precision of
    the arithmetic. A pair is channels (2i, 2i + 1), or else (i, i + D/2).
    """
    out = np.empty(x.shape, x.dtype)
    if not x.size:
        return out
    if not x.flags.c_contiguous:  # the output is, and blocks may be turned where they are
        out[...] = x
        x = out
    length, dim = x.shape[-2:]
    source, target = x.reshape(-1, length, dim), out.reshape(-1, length, dim)
    work = numpy_dtype(arithmetic(x.dtype))
    rows = min(length, max(1, _BLOCK // dim))
    many = max(1, _BLOCK // (rows * dim))
    for start in range(0, length, rows):
        stop = min(start + rows, length)
        turn_block = (_interleaved if interleaved else _halves)(factors(start, stop))
        for first in range(0, len(source), many):
            block, place = (array[first : first + many, start:stop] for array in (source, target))
            if x.dtype == work:
                turn_block(block, place)
            else:
                wide = block.astype(work)
                turn_block(wide, wide)
                place[...] = wide
    return out


def _interleaved(factors: NDArray[Any]) -> Turn:
    def turn_block(block: NDArray[Any], out: NDArray[Any]) -> None:
        np.multiply(block.view(factors.dtype), factors, out=out.view(factors.dtype))

    return turn_block


def _halves(factors: NDArray[Any]) -> Turn:
    """x·[c, c] + swapped(x)·[−s, s] over whole rows: NumPy pays for every inner loop, so they should be long."""
    half = factors.shape[1]
    cosines = np.concatenate([factors.real, factors.real], axis=1)
    sines = np.concatenate([-factors.imag, factors.imag], axis=1)

    def turn_block(block: NDArray[Any], out: NDArray[Any]) -> None:
        swapped = np.empty(block.shape, block.dtype)
        swapped[..., :half] = block[..., half:]
        swapped[..., half:] = block[..., :half]
        swapped *= sines
        np.multiply(block, cosines, out=out)
        out += swapped

    return turn_block
