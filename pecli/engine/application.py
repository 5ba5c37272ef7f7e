"""Encodings applied to arrays: rows and biases added, pairs of channels rotated.

A pair is taken for a complex number and multiplied by amplitude · (cos + i·sin) of position · frequency. Layouts say
where a pair is in a row: `interleaved` in channels (2i, 2i + 1), `halves` in (i, i + d/2), and `deepseek` reads the
first and writes the second.

With float32 factors and products, a rotation is off by up to 1.8 units of the last place of the pair's length, and
undone again by 3 (measured); in float64 only the last rounding counts: half a unit, and at most 1.21 there and back.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pecli.engine.arrays import (
    FLOATS,
    Array,
    Complex,
    Indices,
    dtype_name,
    floating,
    round_to,
    widened,
)
from pecli.engine.table import Table, thread_count, work_through
from pecli.errors import ParameterError, bracketed

LAYOUTS = {
    "halves": ("halves", "halves"),
    "interleaved": ("interleaved", "interleaved"),
    "deepseek": ("interleaved", "halves"),
}
"""The layout of pairs in the input, and in the result."""

_BLOCK = (
    1 << 16
)  #: numbers worked on at once: few enough for the second-level cache, many enough for threads
_MIN_THREADED_BYTES = 1 << 22  #: bytes below which one thread is faster than several

RotateBlock = Callable[["NDArray[Any]", "NDArray[Any]"], None]
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
    x: NDArray[Any], factors: Callable[[int, int], NDArray[Any]], takes: str, gives: str, *, seq_axis: int = -2,
    first_channel: int = 0, out: NDArray[Any] | None = None,
) -> NDArray[Any]:  # fmt: skip
    """x with every pair of its d rotary channels multiplied by its factor; a new array, or `out`.

    `factors(start, stop)` gives the complex (stop − start, d/2) factors of those places along `seq_axis`; their
    precision is that of the arithmetic, and results are rounded once to the dtype of x.
    """
    out = np.empty(x.shape, x.dtype) if out is None else out
    if not x.size:
        return out
    if not x.flags.c_contiguous:  # the output is, and blocks may be rotated in place
        out[...] = x
        x = out
    axis = seq_axis % x.ndim
    shape = (prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 : -1]), x.shape[-1])
    source, target = x.reshape(shape), out.reshape(shape)
    batches, length, inner, dim = shape
    rows = min(length, max(1, _BLOCK // (inner * dim)))
    many = max(1, _BLOCK // (rows * inner * dim))
    dtype = dtype_name(x.dtype)

    def rotate_share(share: tuple[int, int, int]) -> None:
        start, first, last = share
        stop = min(start + rows, length)
        found = factors(start, stop)[:, None]
        rotate_block, work = _rotation_of(found, takes, gives), found.real.dtype
        channels = slice(first_channel, first_channel + 2 * found.shape[-1])
        with np.errstate(
            invalid="ignore", over="ignore"
        ):  # infinities times zero, and what is too large for the dtype
            for batch in range(first, last, many):
                part = slice(batch, min(batch + many, last)), slice(start, stop)
                if 2 * found.shape[-1] < dim:
                    target[part] = source[part]
                block, place = source[part][..., channels], target[part][..., channels]
                if x.dtype == work:
                    rotate_block(block, place)
                else:
                    wide = block.astype(work)
                    rotate_block(wide, wide)
                    _write(place, wide, dtype)

    starts = range(
        0, length, rows
    )  # enough pieces for all threads: a block of rows, and from which batch to which
    step = max(many, -(-batches // -(-2 * thread_count() // len(starts))))
    shares = [
        (start, batch, min(batch + step, batches))
        for start in starts
        for batch in range(0, batches, step)
    ]
    if x.nbytes < _MIN_THREADED_BYTES:
        for share in shares:
            rotate_share(share)
    else:
        work_through(rotate_share, shares)
    return out


def _rotation_of(factors: NDArray[Any], takes: str, gives: str) -> RotateBlock:
    if takes == gives == "halves":
        return _in_halves(factors)
    half, kind = factors.shape[-1], factors.dtype

    def rotate_block(block: NDArray[Any], out: NDArray[Any]) -> None:
        if takes == gives:
            np.multiply(block.view(kind), factors, out=out.view(kind))
        elif takes == "halves":
            pairs = np.empty((*block.shape[:-1], half), kind)
            pairs.real[...], pairs.imag[...] = block[..., :half], block[..., half:]
            np.multiply(pairs, factors, out=out.view(kind))
        else:
            pairs = block.view(kind) * factors
            out[..., :half], out[..., half:] = pairs.real, pairs.imag

    return rotate_block


def _in_halves(factors: NDArray[Any]) -> RotateBlock:
    """x·[c, c] + swapped(x)·[−s, s] over whole rows: NumPy pays for every inner loop, so they should be long."""
    half = factors.shape[-1]
    cosines = np.concatenate([factors.real, factors.real], axis=-1)
    sines = np.concatenate([-factors.imag, factors.imag], axis=-1)
    swapped = np.empty(0, cosines.dtype)

    def rotate_block(block: NDArray[Any], out: NDArray[Any]) -> None:
        nonlocal swapped
        if swapped.shape != block.shape:
            swapped = np.empty(block.shape, block.dtype)
        swapped[..., :half] = block[..., half:]
        swapped[..., half:] = block[..., :half]
        np.multiply(swapped, sines, out=swapped)
        np.multiply(block, cosines, out=out)
        np.add(out, swapped, out=out)

    return rotate_block


def _write(out: Array, values: NDArray[Any], dtype: str) -> None:
    if (
        dtype in ("float64", "float32", "float16") or values.dtype != np.float64
    ):  # whose own cast rounds once
        np.copyto(out, values, casting="unsafe")
    else:
        out[...] = round_to(values, dtype)


def rotated(x: ArrayLike, factors: Complex, layout: str) -> Array:
    """x (…, L, D) with its first d channels rotated by factors (L, d/2); `layout` is halves or interleaved."""
    length, dim = len(factors), 2 * factors.shape[1]
    rule = f"{length} positions of {dim} channels are to be rotated"
    values = _fitting("x", x, lambda shape: shape[-1] >= dim and shape[-2] == length, rule)
    return rotate(values, lambda start, stop: factors[start:stop], layout, layout)


def add_rows(x: ArrayLike, rows: Table, first: int = 0) -> Array:
    """x (…, L, D) plus rows first … first + L − 1 of a table of D columns."""
    rule = f"the table of {bracketed(rows.shape)} does not fit it"
    values = _fitting(
        "x", x, lambda shape: shape[-1] == rows.width and first + shape[-2] <= rows.rows, rule
    )
    out = np.empty(values.shape, values.dtype)
    _add(values, out, lambda start, stop: rows.read(first + start, first + stop))
    return out


def add_bias(scores: ArrayLike, bias: Table) -> Array:
    """Scores (…, H, Lq, Lk) plus a bias (H, L, Lk), of which the last Lq queries count, or (H, 1, Lk)."""
    heads, rows, keys = bias.shape

    def fits(shape: tuple[int, ...]) -> bool:
        return len(shape) > 2 and shape[-3] == heads and shape[-2] <= shape[-1] == keys

    values = _fitting(
        "scores", scores, fits, f"the bias of {bracketed(bias.shape)} does not fit them"
    )
    out, queries = np.empty(values.shape, values.dtype), values.shape[-2]
    for head in range(heads):

        def read(start: int, stop: int, head: int = head) -> Array:
            before = (head + 1) * rows - queries
            return (
                bias.read(head, head + 1) if rows == 1 else bias.read(before + start, before + stop)
            )

        _add(values[..., head, :, :], out[..., head, :, :], read)
    return out


def _add(x: Array, out: Array, read: Callable[[int, int], Array]) -> None:
    """Write x (…, L, D) plus rows that are read into `out`, some rows at a time: in float64, rounded once."""
    length, dim = x.shape[-2:]
    if not x.size:
        return
    step = max(1, _BLOCK // dim)
    dtype = dtype_name(x.dtype)

    def add_part(start: int) -> None:
        stop = min(start + step, length)
        addend = widened(read(start, stop))
        for place in np.ndindex(x.shape[:-2]):
            with np.errstate(invalid="ignore", over="ignore"):
                _write(out[place][start:stop], widened(x[place][start:stop]) + addend, dtype)

    work_through(add_part, range(0, length, step))


def _fitting(name: str, x: ArrayLike, fits: Callable[[tuple[int, ...]], bool], rule: str) -> Array:
    values: Array = floating(name, x, FLOATS)
    if values.ndim < 2 or not fits(values.shape):
        rule = rule if values.ndim > 1 else "it must be (…, L, D)"
        raise ParameterError(name, f"of shape {bracketed(values.shape)}", rule)
    return values
