"""The initial weights of a learned table: drawn from pecli's own stream, or from torch's.

Random numbers are the same on every machine, for any range of elements. NumPy promises the raw streams of its
generators, not the distributions made from them; and logarithms differ in the last place from one machine to the next.
So the raw streams are used, and the normal distribution is made here from additions, multiplications, divisions and
square roots alone, which IEEE 754 defines to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array, Floats, Singles, as_dtype, dtype_name, round_to
from pecli.engine.table import Table, results_in_order

if TYPE_CHECKING:
    from numpy.typing import NDArray


_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_PHI_TWO = 0.022750131948179209
"""Φ(−2): the share of a normal distribution that truncation at ±2σ cuts off at each end."""


class Philox:
    """The seed's stream of numbers in the open interval (0, 1), from element `start` on: one draw for each."""

    def __init__(self, seed: int, start: int) -> None:
        self._generator = np.random.Philox(key=seed, counter=start // 4)
        self._generator.random_raw(start % 4)  # a counter yields four draws

    def uniform(self, count: int) -> Floats:
        """The next elements: 52 bits and a half, in units of 2**-52."""
        raw = self._generator.random_raw(count)
        raw >>= np.uint64(12)
        raw |= np.uint64(0x3FF << 52)  # from here on the bits of 1 + 52 bits · 2**-52
        u = raw.view(np.float64)
        u -= 1 - 2.0**-53
        return u


def uniform(seed: int, start: int, count: int) -> Floats:
    """Elements start … start + count − 1 of the seed's stream."""
    return Philox(seed, start).uniform(count)


def truncated(u: Floats) -> Floats:
    """Uniform numbers moved to where a normal distribution lies within ±2σ."""
    return _PHI_TWO + u * (1 - 2 * _PHI_TWO)


_SQRT_HALF = 0x3FE6A09E667F3BCD
"""The bits of √½."""


def log(x: Floats) -> Floats:
    """The natural logarithm of positive normal numbers, within 1e-16 or two units of the last place."""
    bits = x.view(np.int64) - _SQRT_HALF
    power: Floats = (bits >> 52).astype(np.float64)
    bits &= (1 << 52) - 1
    bits += _SQRT_HALF
    mantissa = bits.view(np.float64)  # from √½ to √2
    ratio: Floats = mantissa - 1
    mantissa += 1
    ratio /= mantissa
    square = ratio * ratio
    series: Floats = square * (1 / 23)
    for k in range(21, 1, -2):
        series += 1 / k
        series *= square
    ratio *= 2
    series *= ratio
    series += power * _LN2_LOW
    series += ratio
    power *= _LN2_HIGH
    power += series
    return power


# Wichura's AS 241 (PPND16): the inverse of the normal distribution function, to about 1e-16.
_CENTRE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
_MIDDLE = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
     3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
     0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0),
)  # fmt: skip
_TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
     0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
     0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0),
)  # fmt: skip


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: Floats) -> Floats:
    """One polynomial over another, by Horner's rule."""
    above, below = (x * row[0] for row in coefficients)
    for sums, row in zip((above, below), coefficients, strict=True):
        for term in row[1:-1]:
            sums += term
            sums *= x
        sums += row[-1]
    above /= below
    return above


def normal(u: Floats) -> Floats:
    """Uniform numbers in (0, 1) as numbers of the standard normal distribution."""
    q = u - 0.5
    square = q * q
    far = np.flatnonzero(np.abs(q) > 0.425)
    np.subtract(0.180625, square, out=square)
    out = _ratio(_CENTRE, square)
    out *= q
    if far.size:
        tail = u[far]
        r = log(np.minimum(tail, 1 - tail))
        np.negative(r, out=r)
        np.sqrt(r, out=r)
        value = _ratio(_MIDDLE, r - 1.6)
        if r.max() > 5:
            farther = r > 5
            value[farther] = _ratio(_TAIL, r[farther] - 5)
        np.copysign(value, q[far], out=value)
        out[far] = value
    return out


class Mersenne:
    """The 32-bit draws of `torch.manual_seed(seed)` on the CPU, in order."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.RandomState(seed & 0xFFFFFFFF)

    def draw(self, count: int) -> NDArray[np.uint32]:
        return self._generator.randint(0, 2**32, count, dtype=np.uint32)

    def uniform(self, count: int) -> Singles:
        """Of 24 bits, as torch makes float32."""
        return (self.draw(count) & np.uint32(0xFFFFFF)).astype(np.float32) * np.float32(2.0**-24)


def box_muller(u: Singles, *, vectorised: bool) -> Singles:
    """Blocks of 16 uniform numbers as normal ones, as torch pairs them: element j with element j + 8.

    torch has two ways to the angle 2π·u: in float64, rounded to float32; and, `vectorised` (x86 with AVX2), in float32
    throughout. Near the zeros of cosine and sine they differ by thousands of units of the last place.
    """
    blocks = u.reshape(-1, 2, 8)
    logarithm = log(1 - blocks[:, 0].astype(np.float64)).astype(np.float32)
    radius = np.sqrt(np.float32(-2) * logarithm)
    if vectorised:
        angle = np.float32(2 * np.pi) * blocks[:, 1]
    else:
        angle = (2 * np.pi * blocks[:, 1].astype(np.float64)).astype(np.float32)
    cosine, sine = cos_sin(angle.astype(np.float64))
    out = np.empty_like(blocks)
    out[:, 0], out[:, 1] = radius * cosine.astype(np.float32), radius * sine.astype(np.float32)
    return out.reshape(-1)


def box_muller_few(draws: Mersenne, count: int) -> Floats:
    """What torch does for fewer than 16 numbers: in float64, from uniform numbers of 53 bits."""
    raw = draws.draw(4 * -(-count // 2)).astype(np.uint64).reshape(-1, 2, 2)
    u = ((raw[..., 0] << np.uint64(32) | raw[..., 1]) & np.uint64(2**53 - 1)).astype(np.float64) * 2.0**-53
    radius = np.sqrt(-2 * log(1 - u[:, 1]))
    cosine, sine = cos_sin(2 * np.pi * u[:, 0])
    return np.stack([radius * cosine, radius * sine], axis=1).reshape(-1)[:count]


def cos_sin(angle: Floats) -> tuple[Floats, Floats]:
    """Cosine and sine of angles in [0, 2π], good to float32."""
    quarter = np.rint(angle * (2 / np.pi))
    x = angle - quarter * 1.5707963267948966
    x -= quarter * 6.123233995736766e-17
    z = x * x
    sine, cosine = z / (-17 * 16), z / (-16 * 15)
    for k in range(15, 1, -2):
        sine += 1
        sine *= z
        sine /= -k * (k - 1)
        cosine += 1
        cosine *= z
        cosine /= -(k - 1) * (k - 2)
    sine += 1
    sine *= x
    cosine += 1
    turn = quarter.astype(np.int64)
    swap = (turn & 1).astype(np.bool_)
    c, s = np.where(swap, sine, cosine), np.where(swap, cosine, sine)
    c.view(np.int64)[...] ^= (turn + 1 & 2) << 62  # the sign bit, in the second and third quarter
    s.view(np.int64)[...] ^= (turn & 2) << 62
    return c, s


_SLICE = 1 << 14
"""Elements drawn at once, so that intermediate arrays stay in the cache."""
_CHUNK = 1 << 15
"""Elements that torch's stream is drawn in; a multiple of 16."""


@dataclass(frozen=True, eq=False, repr=False)
class InitialWeights:
    """What weights are drawn by."""

    max_len: int
    dim: int
    init: str
    std: float
    seed: int
    rng: str
    dtype: str

    def table(self) -> Table:
        """(max_len, dim)."""
        shape = (self.max_len, self.dim)
        if self.init == "zeros":
            return Table("weight", self.dtype, shape, lambda start, out: out.fill(0))
        if self.rng == "pecli":
            return Table("weight", self.dtype, shape, self._fill)
        return Table("weight", self.dtype, shape, _InOrder(self._torch_stream), in_order=True)

    @property
    def _bound(self) -> float:
        """Uniform numbers run from minus this to this."""
        return math.sqrt(6 / (self.max_len + self.dim)) if self.init == "xavier-uniform" else self.std * math.sqrt(3)

    def _fill(self, start: int, out: Array) -> None:
        flat = out.reshape(-1)
        stream = Philox(self.seed, start * self.dim)
        for place in range(0, flat.size, _SLICE):
            part = flat[place : place + _SLICE]
            self._fill_few(stream.uniform(part.size), part)
        if not np.shares_memory(flat, out):
            out[...] = flat.reshape(out.shape)

    def _fill_few(self, u: Floats, out: Array) -> None:
        """At most _SLICE elements."""
        if self.init == "normal":
            values = normal(u)
        elif self.init == "trunc-normal":
            values = normal(truncated(u))
        else:
            values = 2 * u - 1
        values *= self._bound if self.init.endswith("uniform") else self.std
        out[...] = round_to(values, self.dtype)

    def _torch_stream(self) -> Iterator[Singles]:
        """What torch's `normal_` or `uniform_` writes into a float32 table, in order."""
        draws, size = Mersenne(self.seed), self.max_len * self.dim
        if self.init == "normal" and size < 16:
            yield (box_muller_few(draws, size) * self.std).astype(np.float32)
            return
        whole = size - size % 16 if self.init == "normal" else size
        drawn = (draws.uniform(min(_CHUNK, whole - start)) for start in range(0, whole, _CHUNK))
        made = results_in_order(self._torch_values, drawn)  # draws are made here, one after the other
        if whole == size:
            yield from made
            return
        left = size - 16  # the last 16 are drawn anew where they are no whole block
        for values in made:
            yield values[: max(0, left)]
            left -= len(values)
        draws.uniform(size % 16)
        yield self._torch_values(draws.uniform(16))

    def _torch_values(self, u: Singles) -> Singles:
        vectorised = self.rng == "torch-avx2"
        if self.init == "normal":
            return box_muller(u, vectorised=vectorised) * np.float32(self.std)
        low, span = np.float32(-self._bound), np.float32(self._bound) - np.float32(-self._bound)
        if vectorised:  # one rounding for both steps
            return (u.astype(np.float64) * float(span) + float(low)).astype(np.float32)
        return u * span + low


class _InOrder:
    """Fills rows from a stream that can only be read from its beginning."""

    def __init__(self, stream: Callable[[], Iterator[Singles]]) -> None:
        self._stream, self._next = stream, 0
        self._chunks: Iterator[Singles] = iter(())
        self._left: Singles | None = None

    def __call__(self, start: int, out: Array) -> None:
        if self._left is None or start * out.shape[1] < self._next:
            self._chunks, self._next, self._left = self._stream(), 0, np.empty(0, np.float32)
        self._take(start * out.shape[1] - self._next)
        out[...] = as_dtype(self._take(out.size), dtype_name(out.dtype)).reshape(out.shape)

    def _take(self, count: int) -> Singles:
        parts, missing = [], count
        assert self._left is not None
        while missing > len(self._left):
            parts.append(self._left)
            missing -= len(self._left)
            self._left = next(self._chunks)
        parts.append(self._left[:missing])
        self._left, self._next = self._left[missing:], self._next + count
        return np.concatenate(parts)
