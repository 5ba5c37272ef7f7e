"""Numbers from somewhere else: rigorous balls (python-flint's arb), rounded by integer arithmetic alone.

Nothing here imports pecli. A value is computed as a ball that is sure to contain it; if the ball's ends do not agree on
the first 64 bits, it is computed again with more precision. The 64 bits, and whether anything follows them, then decide
how the value rounds to any dtype. Exact values (fractions over powers of two) have a ball of radius zero and are
treated as such.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from flint import arb, ctx

FORMATS = {"float64": (53, 11), "float32": (24, 8), "float16": (11, 5), "bfloat16": (8, 8)}
"""Bits of precision, the hidden one included, and bits of the exponent."""

DTYPES = {
    np.dtype(kind).name: np.dtype(kind)
    for kind in (np.float64, np.float32, np.float16, ml_dtypes.bfloat16)
}

FIRST_PRECISION, LAST_PRECISION = 192, 1 << 15


class UndecidedError(ArithmeticError):
    """The ball is too wide to know the first 64 bits of what it contains."""


class Digits(NamedTuple):
    """Exact values, as far as rounding can see: ± (top, and a bit if there is more) · 2**exponent.

    The highest of the 64 bits of `top` is set, except for zero.
    """

    negative: np.ndarray
    top: np.ndarray
    exponent: np.ndarray
    more: np.ndarray

    def round(self, dtype: str) -> np.ndarray:
        """The bit patterns of the values rounded to nearest, ties to even."""
        precision, exponent_bits = FORMATS[dtype]
        smallest = 2 - (1 << (exponent_bits - 1))  # the exponent of the smallest normal number
        leading = np.maximum(self.exponent + 63, smallest)
        shift = np.minimum(leading - precision + 1 - self.exponent, 65)
        safe = np.minimum(shift, 63).astype(np.uint64)
        kept = np.where(shift < 64, self.top >> safe, 0).astype(np.uint64)
        half = np.uint64(1) << np.minimum(shift - 1, 63).astype(np.uint64)
        rest = np.where(shift < 64, self.top & ((np.uint64(1) << safe) - np.uint64(1)), self.top)
        tie = np.where(self.more, True, kept & np.uint64(1) == 1)
        up = (shift < 65) & ((rest > half) | ((rest == half) & tie))
        pattern = (
            ((leading - smallest).astype(np.uint64) << np.uint64(precision - 1))
            + kept
            + up.astype(np.uint64)
        )
        infinity = np.uint64(((1 << exponent_bits) - 1) << (precision - 1))
        pattern = np.where(self.top == 0, np.uint64(0), np.minimum(pattern, infinity))
        pattern |= self.negative.astype(np.uint64) << np.uint64(precision + exponent_bits - 1)
        return pattern.astype(f"u{DTYPES[dtype].itemsize}")

    def take(self, index: Any) -> Digits:
        return Digits(*(part[index] for part in self))


def digits_of(values: Iterable[arb]) -> Digits:
    """The leading digits of balls; `UndecidedError` where a ball does not know them."""
    rows = [_first_bits(value) for value in values]
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    kinds = (bool, np.uint64, np.int64, bool)
    return Digits(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True)))


def _first_bits(value: arb) -> tuple[bool, int, int, bool]:
    man, exp = value.mid().man_exp()
    size, exponent = abs(int(man)), int(exp)
    if size == 0:
        if not value.is_exact():
            raise UndecidedError
        return False, 0, 0, False
    spare = size.bit_length() - 64
    if value.is_exact():
        more = spare > 0 and size & ((1 << spare) - 1) != 0
        return man < 0, size >> spare if spare > 0 else size << -spare, exponent + spare, more
    accuracy = value.rel_accuracy_bits() - 4
    if accuracy < 72:
        raise UndecidedError
    if spare < 64:  # a short midpoint: write zeros behind it
        size, exponent, spare = size << (128 - spare), exponent - (128 - spare), 128
    radius = 1 << max(0, spare + 64 - accuracy)
    tail = size & ((1 << spare) - 1)
    if not radius < tail < (1 << spare) - radius:
        raise UndecidedError
    return man < 0, size >> spare, exponent + spare, True


def settled(compute: Callable[[], Any], precision: int = FIRST_PRECISION) -> Any:
    """What `compute` returns, at the first precision at which it does not raise `UndecidedError`."""
    before = ctx.prec
    try:
        while precision <= LAST_PRECISION:
            ctx.prec = precision
            try:
                return compute()
            except UndecidedError:
                precision *= 2
    finally:
        ctx.prec = before
    raise ArithmeticError(f"not decided with {LAST_PRECISION} bits")


def rational(value: Fraction | float | int) -> arb:
    """A ball around a fraction (of radius zero where it is one over a power of two)."""
    value = Fraction(value)
    return arb(value.numerator) / arb(value.denominator)


def rounded(make: Callable[[], Sequence[arb]], dtype: str) -> np.ndarray:
    """The bit patterns of values that are computed anew at every precision."""
    return settled(lambda: digits_of(make())).round(dtype)


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def values(patterns: np.ndarray, dtype: str) -> np.ndarray:
    return patterns.view(DTYPES[dtype]).astype(np.float64)


def waves(
    base: float,
    denominator: Fraction | int,
    positions: Sequence[int],
    indices: Sequence[int],
    *,
    scale: float = 1.0,
    amplitude: Fraction | float = 1.0,
) -> tuple[Digits, Digits]:
    """amplitude · sin and · cos of position · scale · base^(−index/denominator), for pairs of positions and indices."""

    def compute() -> tuple[Digits, Digits]:
        known = {int(i): _frequency(base, denominator, int(i), scale) for i in set(indices)}
        factor = rational(amplitude)
        sines, cosines = [], []
        for position, index in zip(positions, indices, strict=True):
            sine, cosine = (known[int(index)] * int(position)).sin_cos()
            sines.append(sine * factor)
            cosines.append(cosine * factor)
        return digits_of(sines), digits_of(cosines)

    if len(positions) > 256:  # so that a hard element does not make all others slow
        parts = [
            waves(
                base,
                denominator,
                positions[k : k + 256],
                indices[k : k + 256],
                scale=scale,
                amplitude=amplitude,
            )
            for k in range(0, len(positions), 256)
        ]
        sines, cosines = zip(*parts, strict=True)
        return _joined(sines), _joined(cosines)
    return settled(compute)


def _frequency(base: float, denominator: Fraction | int, index: int, scale: float) -> arb:
    if index == 0:
        return arb(scale)
    return arb(base) ** rational(Fraction(-index) / Fraction(denominator)) * arb(scale)


def _joined(parts: Sequence[Digits]) -> Digits:
    return Digits(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def wave_bits(dtype: str, sine: Sequence[bool], *args: Any, **options: Any) -> np.ndarray:
    """The patterns of sines where `sine` says so, of cosines elsewhere; the rest as `waves` takes it."""
    sines, cosines = waves(*args, **options)
    return np.where(np.asarray(sine), sines.round(dtype), cosines.round(dtype))


def sinusoidal_channels(dim: int, layout: str, cos_first: bool) -> tuple[np.ndarray, np.ndarray]:
    """Of each channel the wave it shows (−1: it is zero) and whether as a sine."""
    channel = np.arange(dim)
    if layout == "interleaved":
        return channel // 2, (channel % 2 == 0) != cos_first
    half = dim // 2
    wave = np.where(channel < 2 * half, channel % max(1, half), -1)
    return wave, (channel < half) != cos_first


def sinusoidal_bits(
    rows: np.ndarray,
    columns: np.ndarray,
    *,
    dim: int,
    dtype: str = "float32",
    base: float = 10000.0,
    layout: str = "interleaved",
    cos_first: bool = False,
    freq_shift: float = 0.0,
    offset: int = 0,
    scale: float = 1.0,
    amplitude: float = 1.0,
) -> np.ndarray:
    """The elements of a sinusoidal table at (rows, columns), correctly rounded."""
    wave, sine = (of_channel[columns] for of_channel in sinusoidal_channels(dim, layout, cos_first))
    half = Fraction(dim, 2) if layout == "interleaved" else Fraction(dim // 2)
    positions = [int(row) + offset for row in rows]
    place = (base, half - Fraction(freq_shift), positions, np.maximum(wave, 0).tolist())
    found = wave_bits(dtype, sine, *place, scale=scale, amplitude=amplitude)
    return np.where(wave < 0, 0, found).astype(found.dtype)


def ulps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How many floats lie between, element by element, for finite arrays of one dtype."""
    return np.abs(_ordered(a) - _ordered(b))


def _ordered(array: np.ndarray) -> np.ndarray:
    pattern = bits(array).astype(np.int64)
    sign = np.int64(1) << (8 * array.dtype.itemsize - 1)
    return np.where(pattern < sign, pattern, sign - pattern)


def philox(key: int, counter: int) -> list[int]:
    """The four 64-bit words of Philox4x64-10 (Salmon et al., 2011), in plain integers."""
    mask = (1 << 64) - 1
    words = [counter >> (64 * k) & mask for k in range(4)]
    keys = [key & mask, key >> 64 & mask]
    for _ in range(10):
        left = 0xD2E7470EE14C6C93 * words[0]
        right = 0xCA5A826395121157 * words[2]
        words = [
            right >> 64 ^ words[1] ^ keys[0],
            right & mask,
            left >> 64 ^ words[3] ^ keys[1],
            left & mask,
        ]
        keys = [(keys[0] + 0x9E3779B97F4A7C15) & mask, (keys[1] + 0xBB67AE8584CAA73B) & mask]
    return words


def normal_quantile(u: Fraction) -> arb:
    """The x at which the normal distribution function is u."""
    if u < Fraction(1, 2):  # erfcinv keeps the digits of a small tail
        return -arb(2).sqrt() * (2 * rational(u)).erfcinv()
    return arb(2).sqrt() * (2 * rational(1 - u)).erfcinv()


def frequencies(given: Mapping[str, Any]) -> tuple[list[arb], arb]:
    """Inverse frequencies and attention factor of a spec of rope, as balls, from the papers' formulas."""
    scaling = given.get("scaling", "none")
    dim = given["dim"]
    base = rational(given["base"])
    given = {name: value for name, value in given.items() if value is not None}
    rotary = (
        dim if scaling == "proportional" else int(dim * given.get("partial_rotary_factor", 1.0))
    )
    factor = rational(given.get("factor", 1.0))
    original = given.get("original_max_position_embeddings")
    length = given.get("length") or max(given.get("positions", [0])) + 1
    one = arb(1)
    if scaling in ("ntk", "dynamic"):
        grown = factor
        if scaling == "dynamic":
            trained = given["max_position_embeddings"]
            grown = factor * max(length, trained) / trained - (factor - 1)
        base = base * grown ** (arb(rotary) / (rotary - 2))
    over = rational(given.get("exponent_dim", rotary))
    inverse = [base ** (arb(-2 * k) / over) if k else one for k in range(rotary // 2)]
    if scaling == "proportional":
        turning = int(given["partial_rotary_factor"] * dim) // 2
        return [value if k < turning else arb(0) for k, value in enumerate(inverse)], one
    if scaling == "ntk-fixed":
        return [value / factor ** (arb(2 * k + 2) / rotary) for k, value in enumerate(inverse)], one
    if scaling == "linear":
        return [value / factor for value in inverse], one
    if scaling == "longrope":
        chosen = given["long_factor" if length > original else "short_factor"]
        stretch = rational(given["max_position_embeddings"]) / original
        magnitude = (1 + stretch.log() / arb(original).log()).sqrt()
        if "attention_factor" in given:
            magnitude = rational(given["attention_factor"])
        return [value / rational(by) for value, by in zip(inverse, chosen, strict=True)], magnitude
    if scaling == "llama3":
        low = rational(given["low_freq_factor"])
        high = rational(given["high_freq_factor"])
        turns = [original * value / (2 * arb.pi()) for value in inverse]
        clipped = [
            one if t > high else arb(0) if t < low else (t - low) / (high - low) for t in turns
        ]
        return [
            (1 - s) * value / factor + s * value for s, value in zip(clipped, inverse, strict=True)
        ], one
    if scaling == "yarn":
        return _yarn(given, inverse, rotary, base, factor)
    return inverse, one


def _yarn(
    given: Mapping[str, Any], inverse: list[arb], dim: int, base: arb, factor: arb
) -> tuple[list[arb], arb]:
    original = given["original_max_position_embeddings"]
    if "factor" not in given:
        factor = rational(given["max_position_embeddings"]) / original

    def pair_of(turns: float) -> arb:
        return dim * (original / ((2 * arb.pi()) * rational(turns))).log() / (2 * base.log())

    low = pair_of(given.get("beta_fast", 32.0))
    high = pair_of(given.get("beta_slow", 1.0))
    if given.get("truncate", True):
        low, high = low.floor(), high.ceil()
    low, high = (arb(0) if low < 0 else low), (arb(dim - 1) if high > dim - 1 else high)
    high += arb(1) / 1000 if (high - low).contains(0) else 0
    ramps = [(k - low) / (high - low) for k in range(len(inverse))]
    clipped = [arb(1) if ramp > 1 else arb(0) if ramp < 0 else ramp for ramp in ramps]

    def magnitude(scale: float) -> arb:
        return rational(scale) / 10 * factor.log() + 1

    amplitude = magnitude(1.0)
    if given.get("mscale") and given.get("mscale_all_dim"):
        same = given["mscale"] == given["mscale_all_dim"]
        amplitude = (
            arb(1) if same else magnitude(given["mscale"]) / magnitude(given["mscale_all_dim"])
        )
    if "attention_factor" in given:
        amplitude = rational(given["attention_factor"])
    return [
        value / factor * ramp + value * (1 - ramp)
        for value, ramp in zip(inverse, clipped, strict=True)
    ], amplitude


def get_slopes(heads: int, max_bias: Fraction = Fraction(8)) -> list[Fraction]:
    """The paper's function, as its authors wrote it, in exponents: a slope is 2 to minus one of these."""
    power = math.log2(heads)
    if power.is_integer():
        first = max_bias / heads  # start = ratio = 2 ** −(2 ** −(log2(n) − 3)), for a max_bias of 8
        return [first * (i + 1) for i in range(heads)]
    closest = 2 ** math.floor(power)
    return (
        get_slopes(closest, max_bias) + get_slopes(2 * closest, max_bias)[0::2][: heads - closest]
    )


def turned(
    x: np.ndarray, angles: np.ndarray, layout: str = "halves", factor: float = 1.0
) -> np.ndarray:
    """The textbook rotation, in float64: as many pairs as there are angles, as complex numbers; the rest stays."""
    half = angles.shape[-1]
    first, second = slice(half), slice(half, 2 * half)
    if layout == "interleaved":
        first = slice(0, 2 * half, 2)
        second = slice(1, 2 * half, 2)
    pairs = (x[..., first] + 1j * x[..., second].astype(np.float64)) * factor * np.exp(1j * angles)
    out = x.astype(np.float64)
    out[..., first], out[..., second] = pairs.real, pairs.imag
    return out
