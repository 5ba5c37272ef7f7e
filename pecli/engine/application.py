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
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import (
    FLOATS,
    AnyArray,
    Array,
    ArrayLike,
    Complex,
    Indices,
    aligned_buffer,
    dtype_name,
    floating,
    round_to,
    widened,
)
from pecli.engine.numerics.kernels import RotationLoop, compiled_loops
from pecli.engine.table import (
    MAX_THREADS,
    MAX_THREADS_OF_SHORT_STEPS,
    Table,
    new_array,
    thread_count,
    work_through,
)
from pecli.errors import ParameterError, bracketed


class PairLayouts(NamedTuple):
    """The layout of pairs in the input, and in the result."""

    before: str
    after: str


LAYOUTS = {
    "halves": PairLayouts("halves", "halves"),
    "interleaved": PairLayouts("interleaved", "interleaved"),
    "deepseek": PairLayouts("interleaved", "halves"),
}
"""Layouts by name. DeepSeek-V3 reads interleaved pairs and writes them as halves."""

_SHARE_NUMBERS = 1 << 16
"""Numbers whose factors are made at once. Larger pieces of work cost fewer calls, in each of which
threads wait for the interpreter."""
_BLOCK_NUMBERS = 1 << 14
"""Numbers that are computed in several steps, whose cosines and sines stay in the cache."""
_BLOCK_BYTES = 1 << 17
"""Bytes rotated at once: few enough for the second-level cache, many enough for threads."""
_MIN_THREADED_BYTES = 1 << 22
"""Size below which one thread is faster than several."""

MakeFactors = Callable[[int, int], AnyArray]
"""`factors(start, stop)` returns complex factors (stop − start, d/2) of those positions."""
BlockRotation = Callable[[AnyArray, AnyArray], None]
"""`rotation(block, out)` writes the rotated block into `out`, which may be the block itself.

Both are (batches, positions, heads, d) with the rotary channels only.
"""


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
    layout_before: str,
    layout_after: str,
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
        layout_before: The layout of pairs in x, "halves" or "interleaved".
        layout_after: The layout of pairs in the result.
        seq_axis: The axis of positions.
        first_channel: The first of the rotary channels; other channels stay as they are.
        out: The array for the result, which may be x; a new one by default.
    """
    if out is None:
        out = new_array(x.shape, x.dtype)
    if not x.size:
        return out
    if not x.flags.c_contiguous:  # The result is contiguous, and can be rotated in place.
        out[...] = x
        x = out
    axis = seq_axis % x.ndim
    batches = prod(x.shape[:axis])
    heads = prod(x.shape[axis + 1 : -1])
    shape = (batches, x.shape[axis], heads, x.shape[-1])
    layouts = PairLayouts(layout_before, layout_after)
    source = x.reshape(shape)
    target = source if out is x else out.reshape(shape)
    job = _RotationJob(source, target, factors, layouts, first_channel)
    if x.nbytes < _MIN_THREADED_BYTES:
        for share in job.shares():
            job.rotate_share(share)
    else:
        work_through(job.rotate_share, job.shares(), job.max_threads())
    return out


class _Share(NamedTuple):
    """The rows that one thread rotates: neighbouring positions of neighbouring batches."""

    positions: slice
    batches: range


@dataclass(frozen=True)
class _RotationJob:
    """The rotation of an array (batches, positions, heads, channels), cut into shares.

    A share has as many positions as fit _SHARE_NUMBERS with their channels: 512 of 128 channels.
    It is rotated at once by a compiled loop or a complex product, and block by block otherwise. A
    block has at most _BLOCK_NUMBERS: 128 positions of 128 channels. It has all heads, and so fewer
    positions if there are several: 64 with 2 heads. And it has as many batches as fit _BLOCK_BYTES:
    one in float64, two in float32.
    """

    source: AnyArray
    target: AnyArray
    factors: MakeFactors
    layouts: PairLayouts
    first_channel: int
    """The first of the channels that rotate."""

    @property
    def _positions_per_share(self) -> int:
        _, length, _, channels = self.source.shape
        positions: int = min(length, max(1, _SHARE_NUMBERS // channels))
        return positions

    @property
    def _positions_per_block(self) -> int:
        _, length, heads, channels = self.source.shape
        positions: int = min(length, max(1, _BLOCK_NUMBERS // (heads * channels)))
        return positions

    def _batches_per_block(self, itemsize: int) -> int:
        """Return how many batches are rotated at once in numbers of so many bytes."""
        _, _, heads, channels = self.source.shape
        bytes_per_batch: int = self._positions_per_block * heads * channels * itemsize
        return max(1, _BLOCK_BYTES // bytes_per_batch)

    def shares(self) -> list[_Share]:
        """Divide the rows into shares, the pieces of work that threads take one after the other.

        With 4 batches of 1,024 positions, and shares of 512 positions of 2 batches, there are 4
        shares.
        """
        batches, length, _, _ = self.source.shape
        positions_per_share = self._positions_per_share
        starts = range(0, length, positions_per_share)
        batches_per_share = self._batches_per_share(len(starts))
        shares = []
        for start in starts:
            positions = slice(start, min(start + positions_per_share, length))
            for first_batch in range(0, batches, batches_per_share):
                end_batch = min(first_batch + batches_per_share, batches)
                shares.append(_Share(positions, range(first_batch, end_batch)))
        return shares

    def _batches_per_share(self, pieces: int) -> int:
        """Return how many batches a share has, if the positions are divided into so many pieces.

        There are at least two shares per thread, if there are as many batches, so that no thread
        waits long for the last one. With 4 threads, 16 batches and 3 pieces, 8 shares are needed:
        the batches of every piece are divided among ⌈8 / 3⌉ = 3 shares, of 6, 6 and 4 batches.

        A share has at least the batches of a block, which are rotated at once.
        """
        batches: int = self.source.shape[0]
        wanted_shares = 2 * thread_count()
        shares_per_piece = -(-wanted_shares // pieces)  # rounded up
        batches_per_share = -(-batches // shares_per_piece)
        return max(batches_per_share, self._batches_per_block(self.source.itemsize))

    def max_threads(self) -> int:
        """Return how many threads are of use.

        Without a compiled loop, halves are rotated in several short NumPy calls per block.
        """
        is_interleaved = self.layouts == LAYOUTS["interleaved"]
        if is_interleaved or compiled_loops(0) is not None:
            return MAX_THREADS
        return MAX_THREADS_OF_SHORT_STEPS

    def rotate_share(self, share: _Share) -> None:
        """Rotate the rows of a share: neighbouring positions of neighbouring batches.

        The batches have the same positions, so that their factors are made once. A compiled loop is
        fastest. A complex product is one NumPy call. Otherwise, several calls rotate a block at a
        time, small enough for the cache.
        """
        factors = self.factors(share.positions.start, share.positions.stop)
        loop = self._loop_for(share, factors)
        # Infinities times zero are NaN, and products may be too large for the dtype.
        with np.errstate(invalid="ignore", over="ignore"):
            if loop is not None:
                self._copy_other_channels(share, factors)
                self._rotate_compiled(loop, share, factors)
            elif self._is_complex_product(factors):
                self._copy_other_channels(share, factors)
                self._multiply_pairs(share, factors)
            else:
                self._rotate_in_blocks(share, factors)

    def _rotate_in_blocks(self, share: _Share, factors: AnyArray) -> None:
        """Rotate the rows of a share block by block, so that the steps of a block find it in the
        cache.

        Args:
            share: The positions and the batches.
            factors: The complex factors (positions, d/2), or (1, d/2) for all positions.
        """
        positions = share.positions
        step = self._positions_per_block
        has_one_row = len(factors) == 1
        for start in range(positions.start, positions.stop, step):
            block = slice(start, min(start + step, positions.stop))
            first_row = start - positions.start
            block_factors = factors if has_one_row else factors[first_row : first_row + step]
            self._rotate_positions(_Share(block, share.batches), block_factors)

    def _rotate_positions(self, share: _Share, factors: AnyArray) -> None:
        """Rotate some positions in all batches of a share, a few batches at a time.

        The factors are prepared once, for all batches. So many batches are rotated at once as stay
        in the cache: two of 64 KiB each, for example.

        Args:
            share: The positions and the batches.
            factors: The complex factors (positions, d/2), or (1, d/2) for all positions.
        """
        rotation = self._block_rotation(factors)
        rotary_dim = 2 * factors.shape[-1]  # A factor turns a pair of channels.
        batches_at_once = self._batches_per_block(factors.real.itemsize)
        for first_batch in share.batches[::batches_at_once]:
            end_batch = min(first_batch + batches_at_once, share.batches.stop)
            batches = slice(first_batch, end_batch)
            source = self.source[batches, share.positions]
            target = self.target[batches, share.positions]
            self._rotate_block(rotation, rotary_dim, source, target)

    def _block_rotation(self, factors: AnyArray) -> BlockRotation:
        """Return the function that rotates blocks of this array by factors (positions, d/2).

        It computes in the dtype of the factors, and rounds to that of the array.
        """
        prepare_rotation = _ROTATIONS[self.layouts]
        rotation = prepare_rotation(_for_all_heads(factors))
        work_dtype = factors.real.dtype
        if self.source.dtype == work_dtype:
            return rotation
        return _rounded_once(rotation, work_dtype)

    def _is_complex_product(self, factors: AnyArray) -> bool:
        """Return True if pairs lie in memory as complex numbers that NumPy can multiply.

        Neighbouring channels u, v do, as u + iv. Halves, which are d/2 channels apart, do not.
        """
        return self.layouts == LAYOUTS["interleaved"] and self._has_dtype_for(factors)

    def _has_dtype_for(self, factors: AnyArray) -> bool:
        """Return True if the source has the dtype of the factors' parts, or float32 to be widened.

        There are no complex numbers of float16 or bfloat16, nor in another byte order.
        """
        return self.source.dtype in (np.float32, factors.real.dtype)

    def _loop_for(self, share: _Share, factors: AnyArray) -> RotationLoop | None:
        """Return the compiled loop that rotates a share, some rows of the array; None for NumPy.

        NumPy is used if it is as fast, if no loop makes the same bytes, or if the loops are not
        loaded. Loading takes half a second, and only pays off for large arrays.
        """
        if not self._is_faster_compiled(factors):
            return None
        loops = compiled_loops(self._count_numbers(share))
        if loops is None:
            return None
        loop: RotationLoop | None = loops.rotation_loop(self.layouts.before)
        return loop

    def _is_faster_compiled(self, factors: AnyArray) -> bool:
        """Return True if there is a compiled loop for such pairs that is faster than NumPy.

        Loops rotate float32 and float64, and keep the layout. For halves, they are always faster.
        Interleaved pairs are complex numbers, which NumPy multiplies as fast, unless it has to
        convert them: from float32 to the float64 of the factors, for example.
        """
        if not self._has_dtype_for(factors):
            return False
        if self.layouts == LAYOUTS["interleaved"]:
            needs_conversion: bool = self.source.dtype != factors.real.dtype
            return needs_conversion
        return self.layouts == LAYOUTS["halves"]

    def _count_numbers(self, share: _Share) -> int:
        """Return how many numbers the rows of a share have: 512 positions of 128 channels, 65,536."""
        _, _, heads, channels = self.source.shape
        positions = share.positions.stop - share.positions.start
        count: int = len(share.batches) * positions * heads * channels
        return count

    def _copy_other_channels(self, share: _Share, factors: AnyArray) -> None:
        """Copy the rows of a share if some of their channels do not rotate.

        The channels that rotate are overwritten later. With 128 channels and factors for 32 pairs,
        64 channels stay as they are.
        """
        rotary_dim = 2 * factors.shape[-1]
        is_rotated_in_place = self.target is self.source
        if not is_rotated_in_place and rotary_dim < self.source.shape[-1]:
            batches = slice(share.batches.start, share.batches.stop)
            self.target[batches, share.positions] = self.source[batches, share.positions]

    def _rotate_compiled(self, loop: RotationLoop, share: _Share, factors: AnyArray) -> None:
        """Rotate the rows of a share by a loop such as `rotate_halves`, which takes whole arrays."""
        loop(
            self.source,
            self.target,
            np.ascontiguousarray(factors),
            share.positions.start,
            share.positions.stop,
            share.batches.start,
            share.batches.stop,
            self.first_channel,
        )

    def _multiply_pairs(self, share: _Share, factors: AnyArray) -> None:
        """Rotate interleaved pairs of a share by one complex product.

        A pair (u, v) of neighbouring channels lies in memory as the complex number u + iv does. So
        the channels are viewed as complex numbers, half as many, without a copy.

        Args:
            share: The positions and the batches.
            factors: The complex factors cos + i·sin (positions, d/2), or (1, d/2) for all
                positions.
        """
        batches = slice(share.batches.start, share.batches.stop)
        rotary_dim = 2 * factors.shape[-1]  # A factor turns a pair of channels.
        channels = slice(self.first_channel, self.first_channel + rotary_dim)
        complex_dtype = np.complex64 if self.source.dtype == np.float32 else np.complex128
        source = self.source[batches, share.positions, :, channels]
        target = self.target[batches, share.positions, :, channels]
        # For complex64 pairs and complex128 factors, NumPy multiplies in complex128, some thousand
        # numbers at a time, and "same_kind" allows it to round the products to complex64.
        np.multiply(
            source.view(complex_dtype),
            _for_all_heads(factors),
            out=target.view(complex_dtype),
            casting="same_kind",
        )

    def _rotate_block(
        self, rotation: BlockRotation, rotary_dim: int, source: AnyArray, target: AnyArray
    ) -> None:
        """Rotate the rotary channels of a block, and copy the others.

        Args:
            rotation: Rotates an array of the rotary channels.
            rotary_dim: How many channels rotate.
            source: The block (batches, positions, heads, channels).
            target: The place for the result, which may be the source.
        """
        if rotary_dim < source.shape[-1]:
            target[...] = source
        channels = slice(self.first_channel, self.first_channel + rotary_dim)
        rotation(source[..., channels], target[..., channels])


class _ReusedMemory:
    """Memory for a block, which is used again for the next one of the same shape.

    New memory for every block would be cleared by the system and evict the block from the cache.
    """

    def __init__(self, dtype: "np.dtype[Any]", place: int) -> None:
        """Prepare memory of a dtype; the first block determines its shape.

        Arrays that one loop uses begin at different places of a page, 0 to 3 (see `aligned_buffer`).
        """
        self._memory = np.empty(0, dtype)
        self._place = place

    def of_shape(self, shape: tuple[int, ...]) -> AnyArray:
        """Return uninitialised memory of a shape, the same again if the last block had that shape."""
        if self._memory.shape != shape:
            memory = aligned_buffer(prod(shape), self._memory.dtype, place=self._place)
            self._memory = memory.reshape(shape)
        return self._memory


def _rounded_once(rotation: BlockRotation, work_dtype: "np.dtype[Any]") -> BlockRotation:
    """Return a rotation of narrow blocks, such as float16, that computes in a wider dtype.

    A rotated channel is u·c − v·s. In float16, both products and the difference would be rounded.
    Here, a block is copied to the wider dtype, rotated there, and rounded once at the end.

    Args:
        rotation: Rotates blocks of the wider dtype.
        work_dtype: The wider dtype.
    """
    # Arrays that one loop uses should begin at different quarters of a memory page (see
    # `aligned_buffer`). Those of `_rotation_in_halves` begin at 1, 2 and 3; this one begins at 0.
    reused_memory = _ReusedMemory(work_dtype, place=0)

    def widen_rotate_round(block: AnyArray, out: AnyArray) -> None:
        wide_block = reused_memory.of_shape(block.shape)
        wide_block[...] = block
        rotation(wide_block, wide_block)  # in place
        _write_rounded(wide_block, out)

    return widen_rotate_round


def _for_all_heads(factors: AnyArray) -> AnyArray:
    """Return factors (positions, d/2) as (positions, 1, d/2): all heads have the same."""
    return factors[:, None]


def _rotation_in_halves(factors: AnyArray) -> BlockRotation:
    """Return the function that rotates blocks whose pairs are halves, channels (i, i + d/2).

    A row x = [u, v] of two halves becomes

        [u·c − v·s, v·c + u·s] = x · [c, c] + [v, u] · [−s, s],

    with the cosines c and the sines s. By 90 degrees, c = 0 and s = 1, and [1, 2] becomes [−2, 1].
    The right-hand side has two products and a sum of whole rows. That is faster than four products
    of half rows, because NumPy takes a fixed time for every row of every operation.

    The arrays of the products begin at different quarters of a memory page, which is faster (see
    `aligned_buffer`): a block that `_rounded_once` widened at 0, the swapped halves at 1, the
    cosines at 2, the sines at 3.

    Args:
        factors: The complex factors c + i·s (positions, 1, d/2).
    """
    cosines = _joined_halves(factors.real, factors.real, place=2)  # (positions, 1, d)
    signed_sines = _joined_halves(-factors.imag, factors.imag, place=3)
    reused_memory = _ReusedMemory(cosines.dtype, place=1)

    def rotation(block: AnyArray, out: AnyArray) -> None:
        swapped = reused_memory.of_shape(block.shape)
        _swap_halves(block, out=swapped)
        np.multiply(swapped, signed_sines, out=swapped)
        np.multiply(block, cosines, out=out)
        np.add(out, swapped, out=out)

    return rotation


def _swap_halves(block: AnyArray, *, out: AnyArray) -> None:
    """Write rows with their halves exchanged: [v, u] for [u, v].

    (…, d) is viewed as (…, 2, d/2), with an axis of halves, which is reversed. One copy to a
    reversed axis takes less time than two copies of half the length.
    """
    by_half = (*block.shape[:-1], 2, block.shape[-1] // 2)
    np.copyto(out.reshape(by_half)[..., ::-1, :], block.reshape(by_half))


def _joined_halves(first: AnyArray, second: AnyArray, *, place: int) -> AnyArray:
    """Return rows that begin with those of one array and end with those of another."""
    shape = (*first.shape[:-1], 2 * first.shape[-1])
    rows = aligned_buffer(prod(shape), first.dtype, place=place).reshape(shape)
    return np.concatenate([first, second], axis=-1, out=rows)


def _rotation_in_pairs(factors: AnyArray) -> BlockRotation:
    """Return the function that rotates blocks whose pairs are neighbours, channels (2i, 2i + 1).

    Neighbours u, v lie in memory as the complex number u + iv does, so that rows of d channels are
    viewed as d/2 complex numbers, and multiplied.

    Args:
        factors: The complex factors c + i·s (positions, 1, d/2).
    """
    complex_dtype = factors.dtype  # Its parts have the dtype of the blocks.

    def rotation(block: AnyArray, out: AnyArray) -> None:
        np.multiply(block.view(complex_dtype), factors, out=out.view(complex_dtype))

    return rotation


def _rotation_halves_to_pairs(factors: AnyArray) -> BlockRotation:
    """Return the function that rotates pairs (i, i + d/2) and writes them to (2i, 2i + 1).

    A pair u, v is the complex number u + iv, which lies in memory as two neighbours: rows
    [u0, u1, v0, v1] become [u0', v0', u1', v1'].

    Args:
        factors: The complex factors c + i·s (positions, 1, d/2).
    """
    half = factors.shape[-1]
    complex_dtype = factors.dtype  # Its parts have the dtype of the blocks.

    def rotation(block: AnyArray, out: AnyArray) -> None:
        pairs = np.empty((*block.shape[:-1], half), complex_dtype)
        pairs.real[...] = block[..., :half]
        pairs.imag[...] = block[..., half:]
        np.multiply(pairs, factors, out=out.view(complex_dtype))

    return rotation


def _rotation_pairs_to_halves(factors: AnyArray) -> BlockRotation:
    """Return the function that rotates pairs (2i, 2i + 1) and writes them to (i, i + d/2).

    The code of DeepSeek-V3 does so: it moves the pairs of q and k to halves, and then rotates them.
    Rows [u0, v0, u1, v1] become [u0', u1', v0', v1'], with u' = u·c − v·s and v' = v·c + u·s.

    Args:
        factors: The complex factors c + i·s (positions, 1, d/2), of cosines c and sines s.
    """
    half = factors.shape[-1]
    complex_dtype = factors.dtype  # Its parts have the dtype of the blocks.

    def rotation(block: AnyArray, out: AnyArray) -> None:
        # Neighbours u, v lie in memory as the complex number u + iv does.
        pairs = block.view(complex_dtype)  # (…, d/2)
        rotated_pairs = pairs * factors  # u' + iv' = (u + iv)·(c + i·s)
        out[..., :half] = rotated_pairs.real
        out[..., half:] = rotated_pairs.imag

    return rotation


_ROTATIONS: dict[PairLayouts, Callable[[AnyArray], BlockRotation]] = {
    PairLayouts("halves", "halves"): _rotation_in_halves,
    PairLayouts("interleaved", "interleaved"): _rotation_in_pairs,
    PairLayouts("halves", "interleaved"): _rotation_halves_to_pairs,
    PairLayouts("interleaved", "halves"): _rotation_pairs_to_halves,
}
"""Functions that take complex factors (positions, 1, d/2), prepare them once, and return the
function that rotates blocks by them."""


def _write_rounded(values: AnyArray, out: Array) -> None:
    """Write values into an array of another dtype, rounded once."""
    numpy_rounds_once = out.dtype.kind == "f"  # bfloat16 is a dtype of another library.
    if numpy_rounds_once or values.dtype != np.float64:
        np.copyto(out, values, casting="unsafe")
    else:
        out[...] = round_to(values, dtype_name(out.dtype))


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
    values = _floats_of_fitting_shape("x", x, fits, rule)
    return rotate(values, lambda start, stop: factors[start:stop], layout, layout)


def add_rows(x: ArrayLike, rows: Table, first: int = 0) -> Array:
    """Return x (…, L, D) plus rows first … first + L − 1 of a table of D columns."""

    def fits(shape: tuple[int, ...]) -> bool:
        return shape[-1] == rows.width and first + shape[-2] <= rows.rows

    rule = f"the table of {bracketed(rows.shape)} does not fit it"
    values = _floats_of_fitting_shape("x", x, fits, rule)
    out = new_array(values.shape, values.dtype)
    _add_in_blocks(values, out, _rows_from(rows, first))
    return out


def add_bias(scores: ArrayLike, bias: Table) -> Array:
    """Return attention scores plus a bias.

    Args:
        scores: An array (…, H, Lq, Lk). The queries are the last Lq tokens of a text, and the keys
            all of them.
        bias: A table (H, L, Lk), whose last Lq rows of each head are added, or (H, 1, Lk), whose
            row is added to all queries.
    """
    heads, _, keys = bias.shape

    def fits(shape: tuple[int, ...]) -> bool:
        if len(shape) < 3:
            return False
        score_heads, queries, score_keys = shape[-3:]
        return (score_heads, score_keys) == (heads, keys) and queries <= keys

    rule = f"the bias of {bracketed(bias.shape)} does not fit them"
    values = _floats_of_fitting_shape("scores", scores, fits, rule)
    out = new_array(values.shape, values.dtype)
    queries = values.shape[-2]
    for head in range(heads):
        rows_of_head = _bias_of_head(bias, head, queries)
        _add_in_blocks(values[..., head, :, :], out[..., head, :, :], rows_of_head)
    return out


def _bias_of_head(bias: Table, head: int, queries: int) -> "ReadRows":
    """Return a function that reads a head's bias for the last queries, or for all at once.

    The table has the rows of head 0, then those of head 1, … With 3 rows per head, those of head 1
    for the last 2 queries are the rows 4 and 5.
    """
    _, rows_per_head, _ = bias.shape
    if rows_per_head == 1:
        return _same_row(bias, head)
    end_of_head = (head + 1) * rows_per_head
    return _rows_from(bias, end_of_head - queries)


ReadRows = Callable[[int, int], Array]
"""`read_rows(start, stop)` returns what is added to rows start … stop − 1: as many rows, or one."""


def _same_row(table: Table, row: int) -> ReadRows:
    return lambda start, stop: table.read(row, row + 1)


def _rows_from(table: Table, first: int) -> ReadRows:
    return lambda start, stop: table.read(first + start, first + stop)


def _add_in_blocks(x: Array, out: Array, read_rows: ReadRows) -> None:
    """Write x (…, L, D) plus rows (L, D) or (1, D) into `out`: in float64, rounded once."""
    if not x.size:
        return
    length, dim = x.shape[-2:]
    step = max(1, _BLOCK_NUMBERS // dim)

    def add_block(start: int) -> None:
        """Add the rows start … start + step − 1 to all batches."""
        stop = min(start + step, length)
        addend = widened(read_rows(start, stop))
        for batch in np.ndindex(x.shape[:-2]):
            with np.errstate(invalid="ignore", over="ignore"):
                total = widened(x[batch][start:stop]) + addend
                _write_rounded(total, out[batch][start:stop])

    work_through(add_block, range(0, length, step))


def _floats_of_fitting_shape(
    name: str, values: ArrayLike, fits: Callable[[tuple[int, ...]], bool], rule: str
) -> Array:
    """Return values as an array of floats, or raise ParameterError if their shape does not fit.

    Args:
        name: The argument's name, for the message.
        values: An array, or numbers of which one can be made.
        fits: Returns True if a shape of two or more axes fits.
        rule: The sentence of the message if it does not.
    """
    array: Array = floating(name, values, FLOATS)
    if array.ndim < 2:
        rule = "it must be (…, L, D)"
    elif fits(array.shape):
        return array
    raise ParameterError(name, f"of shape {bracketed(array.shape)}", rule)
