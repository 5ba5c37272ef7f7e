"""Encodings applied to arrays: rows and biases added, pairs of channels rotated.

A pair is taken for a complex number and multiplied by amplitude · (cos + i·sin) of position · frequency. Layouts say
where a pair is in a row: `interleaved` in channels (2i, 2i + 1), `halves` in (i, i + d/2), and `deepseek` reads the
first and writes the second.

Where float32 results have to go there and back, float32 factors and products are not enough: such a rotation is off
by up to 1.8 units of the last place of the pair's length, and undone again by 3 (measured). Factors and products in
float64 leave one rounding that counts, the last: half a unit there, and at most 1.21 there and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from pecli.engine.arrays import (
    SIGNIFICAND_BITS,
    Array,
    Complex,
    Floats,
    Indices,
    as_numpy,
    dtype_name,
    round_to,
    widened,
)
from pecli.engine.numerics import phases
from pecli.engine.numerics.float32_functions import waves_of
from pecli.engine.table import Table, thread_count, work_through
from pecli.errors import KindError, ParameterError, bracketed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pecli.engine.runtimes.runtime import Phases

    Positions = range | NDArray[np.int64]
    from numpy.typing import ArrayLike


MAX_CACHED_BYTES = 1 << 27
"""Bytes of factors that are kept; those of more positions are made anew for every block."""
_RUN = 256
"""Positions in a row whose factors are products of two."""
_CHUNK = 1 << 12
"""Factors computed directly at once, so that intermediate arrays stay in the first-level cache."""


class Rotary(Protocol):
    """What is asked of a rotary scheme."""

    @property
    def rotary_dim(self) -> int: ...
    @property
    def rotating_pairs(self) -> int: ...
    @property
    def pair_axes(self) -> Sequence[int]: ...
    def waves(self) -> phases.Waves: ...
    def runtime_phases(self) -> Phases | None: ...
    def attention_factor_value(self) -> float: ...


class RotationFactors:
    """The factors of a rotary scheme for positions from `low` to below `high`; used by any number of threads.

    Computed directly they are within 0.6·2**-53 of the true value, for amplitude 1. Where `exact` is not asked for,
    those of neighbouring positions are products of two such, within 4·2**-53. With `inverse` they undo the rotation,
    its amplitude included. As a runtime computes them, they are float32 numbers.
    """

    def __init__(self, rope: Rotary, low: int, high: int, *, exact: bool = False, inverse: bool = False) -> None:
        self.rope, self.low, self.high = rope, low, high
        self._exact, self._inverse = exact, inverse
        self._half, self._moving = rope.rotary_dim // 2, rope.rotating_pairs
        self.axes = np.array(rope.pair_axes, np.intp)
        self._lock = Lock()

    def at(self, positions: Positions) -> Complex:
        """The factors (n, d/2) of n positions: a range, an array (n,), or (n, axes) for a scheme with sections."""
        kept = self._kept()
        if isinstance(positions, range):
            if kept is not None:
                return kept[positions.start - self.low : positions.stop - self.low]
            return self._finished(self._along(positions))
        if positions.ndim == 2:
            positions = positions[:, self.axes]
        if kept is not None:
            rows = positions - self.low
            return kept[rows] if rows.ndim == 1 else kept[rows, np.arange(self._half)]
        return self._finished(self._direct(positions))

    def _kept(self) -> Complex | None:
        if (self.high - self.low) * self._half * 16 > MAX_CACHED_BYTES:
            return None
        with self._lock:
            return self._table

    @cached_property
    def _table(self) -> Complex:
        return self._finished(self._along(range(self.low, self.high)))

    @cached_property
    def _waves(self) -> phases.Waves:
        return self.rope.waves()

    @cached_property
    def _phases(self) -> Phases | None:
        return self.rope.runtime_phases()

    @cached_property
    def _small(self) -> Complex:
        return self._direct(np.arange(_RUN))

    def _along(self, positions: range) -> Complex:
        """Neighbours, in runs that begin at the same positions wherever a block does."""
        if self._exact or self._phases is not None or not len(positions):
            return self._direct(np.arange(positions.start, positions.stop))
        out = np.empty((len(positions), self._half), np.complex128)
        first = positions.start - positions.start % _RUN
        anchors = self._direct(np.arange(first, positions.stop, _RUN))
        for anchor, start in zip(anchors, range(first, positions.stop, _RUN), strict=True):
            begin, end = max(start, positions.start), min(start + _RUN, positions.stop)
            place = out[begin - positions.start : end - positions.start]
            np.multiply(anchor, self._small[begin - start : end - start], out=place)
        return out

    def _direct(self, positions: NDArray[np.int64]) -> Complex:
        """Each by itself: positions (n,), or (n, d/2) where every pair has its own."""
        out = np.ones((len(positions), self._half), np.complex128)
        if self._phases is not None:
            for axis in np.unique(self.axes[: self._moving]):
                pairs = np.flatnonzero(self.axes[: self._moving] == axis)
                places = positions.reshape(len(positions), -1)[:, pairs[0] if positions.ndim == 2 else 0]
                angles = self._phases.angles(places.astype(np.float32)[:, None])[:, pairs]
                out.real[:, pairs], out.imag[:, pairs] = waves_of(angles, ("cos", "sin"))
            return out
        limbs = np.ascontiguousarray(self._waves.limbs[:, None, :])
        wanted = positions.astype(np.uint64).reshape(len(positions), -1)[:, : self._moving]
        rows = max(1, _CHUNK // self._half)
        for row in range(0, len(out), rows):
            cosines, sines = phases.cos_sin(limbs, wanted[row : row + rows])
            out.real[row : row + rows, : self._moving] = cosines
            out.imag[row : row + rows, : self._moving] = sines
        return out

    def _finished(self, factors: Complex) -> Complex:
        """With the amplitude, or inverted."""
        if self._inverse:
            np.conjugate(factors, out=factors)
        if self._amplitude != 1:
            factors[:, : self._moving] *= self._amplitude
        return factors

    @cached_property
    def _amplitude(self) -> float:
        factor = self.rope.attention_factor_value()
        return 1 / factor if self._inverse else factor


class RowFactors:
    """The factors of a scheme's own rows, where their positions are not consecutive; `at` takes the numbers of rows."""

    def __init__(self, cos: Floats, sin: Floats, *, inverse: bool = False) -> None:
        """`cos` and `sin` are (rows, d/2); the amplitude that they share is undone, too, by `inverse`."""
        self._table: Complex = cos + 1j * sin
        if inverse:
            self._table = 1 / self._table

    def at(self, rows: Positions) -> Complex:
        """The factors (n, d/2) of n rows."""
        return self._table[rows.start : rows.stop] if isinstance(rows, range) else self._table[rows]


def shift_of(rope: Rotary, places: int) -> Complex:
    """The factors (1, d/2) that move what was rotated already by so many positions, its amplitude left as it is."""
    turns = RotationFactors(rope, abs(places), abs(places) + 1, exact=True)._direct(np.array([abs(places)]))
    return turns if places >= 0 else turns.conj()


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
_MIN_THREADED_BYTES = 1 << 22
"""Bytes below which one thread is faster than several."""

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

    def rotate_share(share: tuple[int, int, int]) -> None:
        start, first, last = share
        stop = min(start + rows, length)
        found = factors(start, stop)
        rotate_block, work = (_interleaved if interleaved else _halves)(found), found.real.dtype
        for head in range(first, last, many):
            block, place = (array[head : min(head + many, last), start:stop] for array in (source, target))
            if x.dtype == work:
                rotate_block(block, place)
            else:
                wide = block.astype(work)
                rotate_block(wide, wide)
                place[...] = wide

    shares = _shares(len(source), length, rows, many)
    if x.nbytes < _MIN_THREADED_BYTES:
        for share in shares:
            rotate_share(share)
    else:
        work_through(rotate_share, shares)
    return out


def _shares(heads: int, length: int, rows: int, many: int) -> list[tuple[int, int, int]]:
    """The work in pieces, enough of them for all threads: the first row of a block, and from which head to which."""
    starts = range(0, length, rows)
    cuts = -(-2 * thread_count() // len(starts))
    step = max(many, -(-heads // cuts))
    return [(start, head, min(head + step, heads)) for start in starts for head in range(0, heads, step)]


def _interleaved(factors: NDArray[Any]) -> RotateBlock:
    def rotate_block(block: NDArray[Any], out: NDArray[Any]) -> None:
        np.multiply(block.view(factors.dtype), factors, out=out.view(factors.dtype))

    return rotate_block


def _halves(factors: NDArray[Any]) -> RotateBlock:
    """x·[c, c] + swapped(x)·[−s, s] over whole rows: NumPy pays for every inner loop, so they should be long."""
    half = factors.shape[1]
    cosines = np.concatenate([factors.real, factors.real], axis=1)
    sines = np.concatenate([-factors.imag, factors.imag], axis=1)
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


def rotate_in_place(rows: Array, factors: Complex, takes: str, gives: str) -> None:
    """Rotate the pairs of a few rows (n, d) by float64 factors (n, d/2): one product in float64, one rounding."""
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


def add_rows(x: ArrayLike, rows: Table) -> Array:
    """x (…, L, D) plus the first L rows of a table of D columns."""
    values = _floating(x)
    length, dim = values.shape[-2:]
    if dim != rows.width or length > rows.rows:
        shape = bracketed(rows.shape)
        raise ParameterError("x", f"of shape {bracketed(values.shape)}", f"the table of {shape} does not fit it")
    return _sum(values, rows.read(0, length))


def add_bias(scores: ArrayLike, bias: Table) -> Array:
    """Scores (…, H, Lq, Lk) plus a bias (H, L, Lk), of which the last Lq queries count."""
    values = _floating(scores)
    heads, queries, keys = values.shape[-3:] if values.ndim > 2 else (0, 0, 0)
    if heads != bias.shape[0] or keys != bias.shape[2] or queries > keys:
        rule = f"the bias of {bracketed(bias.shape)} does not fit them"
        raise ParameterError("scores", f"of shape {bracketed(values.shape)}", rule)
    return _sum(values, bias.array()[:, -queries:])


def rotated(x: ArrayLike, factors: Complex, layout: str) -> Array:
    """x (…, L, D) with its first d channels rotated by factors (L, d/2); `layout` is halves or interleaved."""
    values = _floating(x)
    dim = 2 * factors.shape[1]
    if values.shape[-1] < dim or values.shape[-2] != len(factors):
        rule = f"{len(factors)} positions of {dim} channels are to be rotated"
        raise ParameterError("x", f"of shape {bracketed(values.shape)}", rule)
    out = values.copy()
    for block in out.reshape(-1, *out.shape[-2:]):
        rotate_in_place(block[:, :dim], factors, layout, layout)
    return out


def _floating(x: ArrayLike) -> Array:
    values: Array = np.asarray(as_numpy("x", x))
    if dtype_name(values.dtype) not in SIGNIFICAND_BITS:
        raise KindError("x", f"of dtype {values.dtype}", "it must be of a floating dtype")
    if values.ndim < 2:
        raise ParameterError("x", f"of shape {bracketed(values.shape)}", "it must be (…, L, D)")
    return values


def _sum(values: Array, addend: Array) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        return round_to(widened(values) + widened(addend), dtype_name(values.dtype))
