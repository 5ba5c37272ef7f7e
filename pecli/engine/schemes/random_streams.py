"""Random numbers that are the same on every machine, for any range of elements.

NumPy promises the raw streams of its generators, not the distributions made from them; and logarithms differ in the
last place from one machine to the next. So the raw streams are used, and the normal distribution is made here from
additions, multiplications, divisions and square roots alone, which IEEE 754 defines to the last bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Floats, Singles

if TYPE_CHECKING:
    from numpy.typing import NDArray


_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_PHI_TWO = 0.022750131948179209
"""Φ(−2): the share of a normal distribution that truncation at ±2σ cuts off at each end."""


def uniform(seed: int, start: int, count: int) -> Floats:
    """Elements start … start + count − 1 of the seed's stream, in the open interval (0, 1): Philox, one draw an
    element.
    """
    lead = start % 4  # a Philox counter yields four draws
    generator = np.random.Philox(key=seed, counter=start // 4)
    raw = generator.random_raw(lead + count)[lead:]
    draws: Floats = (raw >> np.uint64(12)).astype(np.float64)
    return (draws + 0.5) * 2.0**-52


def truncated(u: Floats) -> Floats:
    """Uniform numbers moved to where a normal distribution lies within ±2σ."""
    return _PHI_TWO + u * (1 - 2 * _PHI_TWO)


def log(x: Floats) -> Floats:
    """The natural logarithm of positive normal numbers, within 1e-16 or two units of the last place."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < 0.7071067811865476
    mantissa = np.where(low, mantissa * 2, mantissa)
    power: Floats = (exponent - low).astype(np.float64)
    ratio: Floats = (mantissa - 1) / (mantissa + 1)
    square = ratio * ratio
    series: Floats = np.zeros_like(x)
    for k in range(23, 1, -2):
        series = (series + 1 / k) * square
    return power * _LN2_HIGH + (2 * ratio + (2 * ratio * series + power * _LN2_LOW))


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
    above, below = (np.full_like(x, row[0]) for row in coefficients)
    for over, under in zip(coefficients[0][1:], coefficients[1][1:], strict=True):
        above, below = above * x + over, below * x + under
    return above / below


def normal(u: Floats) -> Floats:
    """Uniform numbers in (0, 1) as numbers of the standard normal distribution."""
    q = u - 0.5
    out = q * _ratio(_CENTRE, 0.180625 - q * q)
    far = np.flatnonzero(np.abs(q) > 0.425)
    if far.size:
        r = np.sqrt(-log(np.where(q[far] < 0, u[far], 1 - u[far])))
        value = np.where(r <= 5, _ratio(_MIDDLE, r - 1.6), _ratio(_TAIL, r - 5))
        out[far] = np.where(q[far] < 0, -value, value)
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
    x = (angle - quarter * 1.5707963267948966) - quarter * 6.123233995736766e-17
    z = x * x
    sine, cosine = np.zeros_like(x), np.zeros_like(x)
    for k in range(17, 1, -2):
        sine = (sine + 1) * z / (-k * (k - 1))
        cosine = (cosine + 1) * z / (-(k - 1) * (k - 2))
    sine, cosine = x * (sine + 1), cosine + 1
    turn = quarter.astype(np.int64) % 4
    swap = turn % 2 == 1
    c, s = np.where(swap, sine, cosine), np.where(swap, cosine, sine)
    return np.where((turn == 1) | (turn == 2), -c, c), np.where(turn >= 2, -s, s)
