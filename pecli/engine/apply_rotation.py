"""Turning pairs of channels by angles, a block at a time.

A pair is taken for a complex number and multiplied by cos + i·sin of its angle. Layouts say where a pair is in a row:
`interleaved` in channels (2i, 2i + 1), `halves` in (i, i + d/2), and `deepseek` reads the first and writes the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.engine.arrays import Array, Complex, Indices
from pecli.engine.numerics.dtypes import dtype_name
from pecli.engine.numerics.rounding import round_to
from pecli.engine.numerics.threads import thread_count, work_through

if TYPE_CHECKING:
    from numpy.typing import NDArray


LAYOUTS = {
    "halves": ("halves", "halves"),
    "interleaved": ("interleaved", "interleaved"),
    "deepseek": ("interleaved", "halves"),
}
"""The layout of pairs in the input, and in the result."""

_BLOCK = 1 << 16
"""Numbers worked on at once: a block and its temporaries should stay in the second-level cache, and a step should
take long enough for threads not to wait for each other.
"""
_NATIVE = ("float64", "float32", "float16")
_WORTH_THREADS = 1 << 22
"""Bytes below which one thread is faster than several."""

Turn = Callable[["NDArray[Any]", "NDArray[Any]"], None]
"""Writes its first argument, rotated, into its second, which may be the first itself."""


def reorder(channels: int, source: str, target: str) -> Indices:
    """The old channel at each new place: new = old[reorder(…)].

    >>> reorder(6, "interleaved", "halves").tolist()
    [0, 2, 4, 1, 3, 5]
    """
    order = np.arange(channels)
    if source == target:
        return order
    pairs = order.reshape(-1, 2) if source == "interleaved" else order.reshape(2, -1)
    return np.ascontiguousarray(pairs.T).reshape(-1)


def rotate(
    x: NDArray[Any],
    factors: Callable[[int, int], NDArray[Any]],
    *,
    interleaved: bool,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """x (…, L, D) with every pair of channels multiplied, as a complex number, by its factor; a new array, or `out`.

    `factors(start, stop)` gives the complex (stop − start, D/2) factors of rows start … stop − 1; their precision is
    that of the arithmetic. Large arrays are rotated in threads.
    """
    out = np.empty(x.shape, x.dtype) if out is None else out
    if not x.size:
        return out
    if not x.flags.c_contiguous:  # the output is, and blocks may be rotated in place
        out[...] = x
        x = out
    length, dim = x.shape[-2:]
    source, target = x.reshape(-1, length, dim), out.reshape(-1, length, dim)
    rows = min(length, max(1, _BLOCK // dim))
    many = max(1, _BLOCK // (rows * dim))

    def turn_rows_of(share: tuple[int, int, int]) -> None:
        start, first, last = share
        stop = min(start + rows, length)
        found = factors(start, stop)
        turn_block, work = (_interleaved if interleaved else _halves)(found), found.real.dtype
        for head in range(first, last, many):
            block, place = (array[head : min(head + many, last), start:stop] for array in (source, target))
            if x.dtype == work:
                turn_block(block, place)
            else:
                wide = block.astype(work)
                turn_block(wide, wide)
                place[...] = wide

    shares = _shares(len(source), length, rows, many)
    if x.nbytes < _WORTH_THREADS:
        for share in shares:
            turn_rows_of(share)
    else:
        work_through(turn_rows_of, shares)
    return out


def _shares(heads: int, length: int, rows: int, many: int) -> list[tuple[int, int, int]]:
    """The work in pieces, enough of them for all threads: the first row of a block, and from which head to which."""
    starts = range(0, length, rows)
    cuts = -(-2 * thread_count() // len(starts))
    step = max(many, -(-heads // cuts))
    return [(start, head, min(head + step, heads)) for start in starts for head in range(0, heads, step)]


def _interleaved(factors: NDArray[Any]) -> Turn:
    def turn_block(block: NDArray[Any], out: NDArray[Any]) -> None:
        np.multiply(block.view(factors.dtype), factors, out=out.view(factors.dtype))

    return turn_block


def _halves(factors: NDArray[Any]) -> Turn:
    """x·[c, c] + swapped(x)·[−s, s] over whole rows: NumPy pays for every inner loop, so they should be long."""
    half = factors.shape[1]
    cosines = np.concatenate([factors.real, factors.real], axis=1)
    sines = np.concatenate([-factors.imag, factors.imag], axis=1)
    swapped = np.empty(0, cosines.dtype)

    def turn_block(block: NDArray[Any], out: NDArray[Any]) -> None:
        nonlocal swapped
        if swapped.shape != block.shape:
            swapped = np.empty(block.shape, block.dtype)
        swapped[..., :half] = block[..., half:]
        swapped[..., half:] = block[..., :half]
        np.multiply(swapped, sines, out=swapped)
        np.multiply(block, cosines, out=out)
        np.add(out, swapped, out=out)

    return turn_block


def turn_in_place(rows: Array, factors: Complex, takes: str, gives: str) -> None:
    """Turn the pairs of a few rows (n, d) by float64 factors (n, d/2): one product in float64, one rounding."""
    half, dtype = factors.shape[1], dtype_name(rows.dtype)
    pairs = np.empty(factors.shape, np.complex128)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities times zero, and what is too large for the dtype
        if takes == "halves":
            pairs.real[...], pairs.imag[...] = rows[:, :half], rows[:, half:]
        else:
            pairs.view(np.float64)[...] = rows
        np.multiply(pairs, factors, out=pairs)
        if gives == "halves":
            _write(rows[:, :half], pairs.real, dtype)
            _write(rows[:, half:], pairs.imag, dtype)
        else:
            _write(rows, pairs.view(np.float64), dtype)


def _write(out: Array, values: NDArray[np.float64], dtype: str) -> None:
    if dtype in _NATIVE:  # NumPy's own cast rounds once, and needs no array in between
        np.copyto(out, values, casting="same_kind")
    else:
        out[...] = round_to(values, dtype)
