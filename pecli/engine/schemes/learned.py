"""Learned tables before learning: the initial values that frameworks give them, reproducible everywhere.

NumPy promises the raw streams of its generators, not the distributions made from them; and logarithms differ in the
last place from one machine to the next. So the raw stream is used, and the normal distribution is made here from
additions, multiplications, divisions and square roots alone, which IEEE 754 defines to the last bit.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from pecli.engine.arrays import Array, Floats, round_to
from pecli.engine.schemes import Choice, Real, Whole, with_aliases
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import ByPosition, Table
from pecli.errors import ParameterError

_DRAWN = frozenset({"std", "seed"})
_INERT = {"xavier-uniform": frozenset({"std"}), "zeros": _DRAWN, "sinusoidal": _DRAWN}
"""What makes no difference to some ways to begin."""
_INIT = Choice(
    "distribution; trunc-normal is cut at ±2 std, the last three have no std",
    options=("normal", "trunc-normal", "uniform", "xavier-uniform", "zeros", "sinusoidal"),
)
_SLICE = 1 << 14  #: elements drawn at once, so that intermediate arrays stay in the cache


@with_aliases
@dataclass(frozen=True, repr=False)
class LearnedInit(Scheme):
    """The initial weights of a learned positional embedding.

    >>> LearnedInit(max_len=2, dim=2, init="zeros").tables()["weight"].tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """

    name = "learned-init"

    max_len: Annotated[int, Whole("rows of the table")]
    dim: Annotated[int, Whole("channels of a row", high=65536)]
    init: Annotated[str, _INIT] = "normal"
    std: Annotated[float, Real("standard deviation", above=0, up_to=1e30)] = 0.02
    seed: Annotated[int, Whole("seed of the random numbers", low=0, high=2**64 - 1)] = 0

    former_parameters = (("rng", "pecli"),)

    @property
    def inert_parameters(self) -> frozenset[str]:
        return _INERT.get(self.init, frozenset())

    def tensors(self) -> tuple[Table, ...]:
        if self.init == "sinusoidal":
            (table,) = Sinusoidal(self.max_len, self.dim, dtype=self.dtype).tensors()
            return (replace(table, name="weight"),)
        fill = (lambda start, out: out.fill(0)) if self.init == "zeros" else self._fill
        return (Table("weight", self.dtype, (self.max_len, self.dim), fill),)

    def _fill(self, start: int, out: Array) -> None:
        step = max(1, _SLICE // self.dim)
        for row in range(0, len(out), step):
            part = out[row : row + step]
            u = uniform(self.seed, (start + row) * self.dim, part.size)
            if self.init.endswith("uniform"):
                xavier = self.init == "xavier-uniform"
                values = (2 * u - 1) * (
                    math.sqrt(6 / (self.max_len + self.dim)) if xavier else self.std * math.sqrt(3)
                )
            else:  # a truncated one is moved to where a normal distribution lies within ±2σ
                values = (
                    normal(_PHI_TWO + u * (1 - 2 * _PHI_TWO) if self.init == "trunc-normal" else u)
                    * self.std
                )
            part[...] = round_to(values, self.dtype).reshape(part.shape)

    @classmethod
    def recipe_names(cls) -> tuple[str, ...]:
        return ()

    def by_position(self) -> ByPosition:
        raise ParameterError(
            "the scheme", repr(self.name), "it has no recipes: its numbers are random, not computed"
        )


_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_SQRT_HALF = 0x3FE6A09E667F3BCD  #: the bits of √½
_PHI_TWO = 0.022750131948179209
"""Φ(−2): the share of a normal distribution that truncation at ±2σ cuts off at each end."""


def uniform(seed: int, start: int, count: int) -> Floats:
    """Elements of the seed's stream of numbers in the open interval (0, 1): 52 bits and a half, in units of 2**-52."""
    generator = np.random.Philox(key=seed, counter=start // 4)
    generator.random_raw(start % 4)  # a counter yields four draws
    raw = generator.random_raw(count)
    raw >>= np.uint64(12)
    raw |= np.uint64(0x3FF << 52)  # from here on the bits of 1 + 52 bits · 2**-52
    u = raw.view(np.float64)
    u -= 1 - 2.0**-53
    return u


def log(x: Floats) -> Floats:
    """The natural logarithm of positive normal numbers, within 1e-16 or two units of the last place."""
    bits = x.view(np.int64) - _SQRT_HALF
    power: Floats = (bits >> 52).astype(np.float64)
    mantissa = ((bits & (1 << 52) - 1) + _SQRT_HALF).view(np.float64)  # from √½ to √2
    ratio = (mantissa - 1) / (mantissa + 1)
    square = ratio * ratio
    series = square * (1 / 23)
    for k in range(21, 1, -2):
        series = (series + 1 / k) * square
    double: Floats = 2 * ratio
    return power * _LN2_HIGH + (series * double + power * _LN2_LOW + double)


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
    out = q * _ratio(_CENTRE, 0.180625 - q * q)
    far = np.flatnonzero(np.abs(q) > 0.425)
    r = np.sqrt(-log(np.minimum(u[far], 1 - u[far])))
    value, farther = _ratio(_MIDDLE, r - 1.6), np.flatnonzero(r > 5)
    value[farther] = _ratio(_TAIL, r[farther] - 5)
    out[far] = np.copysign(value, q[far])
    return out
