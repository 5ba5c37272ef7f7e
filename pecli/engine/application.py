"""Encodings applied to arrays: rows and biases added, pairs of channels rotated.

A pair (u, v) is taken for the complex number u + iv and multiplied by amplitude · (cos + i·sin) of
position · frequency. The layout states which channels of a row of d are a pair: `interleaved`
(2i, 2i + 1), `halves` (i, i + d/2).

With float32 factors and products, a rotation is off by up to 1.8 ULPs of the pair's length, and a
rotation there and back by 3 (measured). In float64 only the last rounding counts: half a ULP, and
at most 1.21 there and back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import (
    FLOATS,
    AnyArray,
    Array,
    ArrayLike,
    Complex,
    Indices,
    dtype_name,
    floating,
    round_to,
    widened,
)
from pecli.engine.table import Table, thread_count, work_through
from pecli.errors import ParameterError, bracketed


class PairLayouts(NamedTuple):
    """The layout of pairs in the input, and in the result."""

    takes: str
    gives: str


LAYOUTS = {
    "halves": PairLayouts("halves", "halves"),
    "interleaved": PairLayouts("interleaved", "interleaved"),
    "deepseek": PairLayouts("interleaved", "halves"),
}
"""Layouts by name. DeepSeek-V3 reads interleaved pairs and writes them as halves."""

_BLOCK = 1 << 16
"""Numbers rotated at once: few enough for the second-level cache, many enough for threads."""
_MIN_THREADED_BYTES = 1 << 22
"""Size below which one thread is faster than several."""

MakeFactors = Callable[[int, int], AnyArray]
"""`factors(start, stop)` returns complex factors (stop − start, d/2) of those positions."""
RotateBlock = Callable[[AnyArray, AnyArray], None]
"""Writes its first argument, rotated, into its second, which may be the first itself."""


def reorder(channels: int, source: str, target: str) -> Indices:
    """Return the old channel at each new place, so that new = old[reorder(…)].

    >>> reorder(6, "interleaved", "halves").tolist()
    [0, 2, 4, 1, 3, 5]
    """
    order = np.arange(channels)
    if source == target:
        return order
    pairs = order.reshape(-1, 2) if source == "interleaved" else order.reshape(2, -1)
    return np.ascontiguousarray(pairs.T).reshape(-1)


def rotate(
    x: AnyArray,
    factors: MakeFactors,
    takes: str,
    gives: str,
    *,
    seq_axis: int = -2,
    first_channel: int = 0,
    out: AnyArray | None = None,
) -> AnyArray:
    """Return x with every pair of its rotary channels multiplied by its factor.

    Args:
        x: An array whose last axis holds the channels.
        factors: Returns the factors of positions along `seq_axis`. Their precision is that of the
            arithmetic; results are rounded once to the dtype of x.
        takes: The layout of pairs in x, "halves" or "interleaved".
        gives: The layout of pairs in the result.
        seq_axis: The axis of positions.
        first_channel: The first of the rotary channels; other channels stay as they are.
        out: The array for the result, which may be x; a new one by default.
    """
    if out is None:
        out = np.empty(x.shape, x.dtype)
    if not x.size:
        return out
    if not x.flags.c_contiguous:  # The result is contiguous, and can be rotated in place.
        out[...] = x
        x = out
    axis = seq_axis % x.ndim
    shape = (prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 : -1]), x.shape[-1])
    layouts = PairLayouts(takes, gives)
    job = _RotationJob(x.reshape(shape), out.reshape(shape), factors, layouts, first_channel)
    if x.nbytes < _MIN_THREADED_BYTES:
        for share in job.shares():
            job.rotate(share)
    else:
        work_through(job.rotate, job.shares())
    return out


class _Share(NamedTuple):
    """A block of rows of some batches, which one thread rotates."""

    first_row: int
    first_batch: int
    last_batch: int


@dataclass(frozen=True)
class _RotationJob:
    """The rotation of an array (batches, positions, heads, channels), cut into shares."""

    source: AnyArray
    target: AnyArray
    factors: MakeFactors
    layouts: PairLayouts
    first_channel: int

    @property
    def _rows(self) -> int:
        """Positions of a block."""
        _, length, heads, channels = self.source.shape
        rows: int = min(length, max(1, _BLOCK // (heads * channels)))
        return rows

    @property
    def _batches(self) -> int:
        """Batches of a block."""
        _, _, heads, channels = self.source.shape
        batches: int = max(1, _BLOCK // (self._rows * heads * channels))
        return batches

    def shares(self) -> list[_Share]:
        """Return at least two shares per thread, if there are as many blocks."""
        batches, length, _, _ = self.source.shape
        first_rows = range(0, length, self._rows)
        shares_per_row = -(-2 * thread_count() // len(first_rows))
        step = max(self._batches, -(-batches // shares_per_row))
        shares = []
        for row in first_rows:
            for batch in range(0, batches, step):
                shares.append(_Share(row, batch, min(batch + step, batches)))
        return shares

    def rotate(self, share: _Share) -> None:
        """Rotate a share, as many batches at once as fit the cache; the factors are made once."""
        start = share.first_row
        stop = min(start + self._rows, self.source.shape[1])
        factors = self.factors(start, stop)[:, None]
        rotate_block = _rotation_of(factors, self.layouts)
        step = self._batches
        # Infinities times zero are NaN, and products may be too large for the dtype.
        with np.errstate(invalid="ignore", over="ignore"):
            for batch in range(share.first_batch, share.last_batch, step):
                last = min(batch + step, share.last_batch)
                source = self.source[batch:last, start:stop]
                target = self.target[batch:last, start:stop]
                self._rotate_block(rotate_block, factors, source, target)

    def _rotate_block(
        self,
        rotate_block: RotateBlock,
        factors: AnyArray,
        source: AnyArray,
        target: AnyArray,
    ) -> None:
        """Rotate the rotary channels of a block in the factors' precision, and copy the others."""
        rotary_dim = 2 * factors.shape[-1]
        if rotary_dim < source.shape[-1]:
            target[...] = source
        channels = slice(self.first_channel, self.first_channel + rotary_dim)
        work_dtype = factors.real.dtype
        if source.dtype == work_dtype:
            rotate_block(source[..., channels], target[..., channels])
            return
        wide = source[..., channels].astype(work_dtype)
        rotate_block(wide, wide)
        _write(target[..., channels], wide)


def _rotation_of(factors: AnyArray, layouts: PairLayouts) -> RotateBlock:
    """Return the function that rotates blocks of rows by these factors."""
    takes, gives = layouts
    if takes == gives == "halves":
        return _in_halves(factors)
    if takes == gives:
        return _in_pairs(factors)
    if takes == "halves":
        return _halves_to_pairs(factors)
    return _pairs_to_halves(factors)


def _in_halves(factors: AnyArray) -> RotateBlock:
    """Rotate by x·[c, c] + swapped(x)·[−s, s], where swapped(x) exchanges the halves of a row.

    That is (u·c − v·s, v·c + u·s) of all pairs. NumPy pays for every inner loop, and whole rows
    make them long.
    """
    half = factors.shape[-1]
    cosines = np.concatenate([factors.real, factors.real], axis=-1)
    sines = np.concatenate([-factors.imag, factors.imag], axis=-1)
    swapped = np.empty(0, cosines.dtype)

    def rotate_block(block: AnyArray, out: AnyArray) -> None:
        nonlocal swapped
        if swapped.shape != block.shape:
            swapped = np.empty(block.shape, block.dtype)
        swapped[..., :half] = block[..., half:]
        swapped[..., half:] = block[..., :half]
        np.multiply(swapped, sines, out=swapped)
        np.multiply(block, cosines, out=out)
        np.add(out, swapped, out=out)

    return rotate_block


def _in_pairs(factors: AnyArray) -> RotateBlock:
    """Rotate interleaved pairs, which lie in memory as complex numbers do."""
    kind = factors.dtype

    def rotate_block(block: AnyArray, out: AnyArray) -> None:
        np.multiply(block.view(kind), factors, out=out.view(kind))

    return rotate_block


def _halves_to_pairs(factors: AnyArray) -> RotateBlock:
    """Rotate channels (i, i + d/2) into (2i, 2i + 1), by way of an array of complex numbers."""
    half = factors.shape[-1]
    kind = factors.dtype

    def rotate_block(block: AnyArray, out: AnyArray) -> None:
        pairs = np.empty((*block.shape[:-1], half), kind)
        pairs.real[...] = block[..., :half]
        pairs.imag[...] = block[..., half:]
        np.multiply(pairs, factors, out=out.view(kind))

    return rotate_block


def _pairs_to_halves(factors: AnyArray) -> RotateBlock:
    """Rotate channels (2i, 2i + 1) into (i, i + d/2), as DeepSeek-V3 does."""
    half = factors.shape[-1]
    kind = factors.dtype

    def rotate_block(block: AnyArray, out: AnyArray) -> None:
        pairs = block.view(kind) * factors
        out[..., :half] = pairs.real
        out[..., half:] = pairs.imag

    return rotate_block


def _write(out: Array, values: AnyArray) -> None:
    """Write values into an array of another dtype, rounded once."""
    dtype = dtype_name(out.dtype)
    numpy_rounds_once = dtype in ("float64", "float32", "float16")
    if numpy_rounds_once or values.dtype != np.float64:
        np.copyto(out, values, casting="unsafe")
    else:
        out[...] = round_to(values, dtype)


def rotated(x: ArrayLike, factors: Complex, layout: str) -> Array:
    """Return x with its first channels rotated.

    Args:
        x: An array (…, L, D).
        factors: Complex factors (L, d/2), with d ≤ D.
        layout: "halves" or "interleaved".
    """
    length = len(factors)
    dim = 2 * factors.shape[1]

    def fits(shape: tuple[int, ...]) -> bool:
        return shape[-1] >= dim and shape[-2] == length

    rule = f"it must have {length} positions and at least {dim} channels"
    values = _fitting("x", x, fits, rule)
    return rotate(values, lambda start, stop: factors[start:stop], layout, layout)


def add_rows(x: ArrayLike, rows: Table, first: int = 0) -> Array:
    """Return x (…, L, D) plus rows first … first + L − 1 of a table of D columns."""

    def fits(shape: tuple[int, ...]) -> bool:
        return shape[-1] == rows.width and first + shape[-2] <= rows.rows

    rule = f"the table of {bracketed(rows.shape)} does not fit it"
    values = _fitting("x", x, fits, rule)
    out = np.empty(values.shape, values.dtype)
    _add(values, out, _rows_from(rows, first))
    return out


def add_bias(scores: ArrayLike, bias: Table) -> Array:
    """Return attention scores plus a bias.

    Args:
        scores: An array (…, H, Lq, Lk).
        bias: A table (H, L, Lk), whose last Lq rows of each head are added, or (H, 1, Lk), whose
            row is added to all queries.
    """
    heads, rows, keys = bias.shape

    def fits(shape: tuple[int, ...]) -> bool:
        return len(shape) > 2 and shape[-3] == heads and shape[-2] <= shape[-1] == keys

    rule = f"the bias of {bracketed(bias.shape)} does not fit them"
    values = _fitting("scores", scores, fits, rule)
    out = np.empty(values.shape, values.dtype)
    queries = values.shape[-2]
    for head in range(heads):
        read = _same_row(bias, head)
        if rows > 1:
            first_query = (head + 1) * rows - queries
            read = _rows_from(bias, first_query)
        _add(values[..., head, :, :], out[..., head, :, :], read)
    return out


ReadRows = Callable[[int, int], Array]


def _same_row(table: Table, row: int) -> ReadRows:
    return lambda start, stop: table.read(row, row + 1)


def _rows_from(table: Table, first: int) -> ReadRows:
    return lambda start, stop: table.read(first + start, first + stop)


def _add(x: Array, out: Array, read: ReadRows) -> None:
    """Write x (…, L, D) plus rows that are read into `out`: in float64, rounded once."""
    if not x.size:
        return
    length, dim = x.shape[-2:]
    step = max(1, _BLOCK // dim)

    def add_rows_from(start: int) -> None:
        stop = min(start + step, length)
        addend = widened(read(start, stop))
        for index in np.ndindex(x.shape[:-2]):
            with np.errstate(invalid="ignore", over="ignore"):
                total = widened(x[index][start:stop]) + addend
                _write(out[index][start:stop], total)

    work_through(add_rows_from, range(0, length, step))


def _fitting(
    name: str, values: ArrayLike, fits: Callable[[tuple[int, ...]], bool], rule: str
) -> Array:
    """Return an array of floats, or raise ParameterError with a rule if its shape does not fit."""
    array: Array = floating(name, values, FLOATS)
    if array.ndim < 2:
        rule = "it must be (…, L, D)"
    elif fits(array.shape):
        return array
    raise ParameterError(name, f"of shape {bracketed(array.shape)}", rule)
