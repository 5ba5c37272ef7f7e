"""Learned tables before training: initial values as in frameworks, the same everywhere.

NumPy promises the raw streams of its generators, not the distributions made from them; and
logarithms differ in the last place from one machine to the next. So this module takes the raw
stream, and makes the normal distribution of additions, multiplications, divisions and square roots
only, which IEEE 754 defines to the last bit.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Floats, Ints, round_to
from pecli.engine.schemes.aliases import with_aliases
from pecli.engine.schemes.parameters import Choice, Real, Whole
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import ByPosition, Table
from pecli.errors import ParameterError

_UNUSED = {
    "xavier-uniform": frozenset({"std"}),
    "zeros": frozenset({"std", "seed"}),
    "sinusoidal": frozenset({"std", "seed"}),
}
"""Parameters that have no effect on some distributions."""
_INIT = Choice(
    "distribution; trunc-normal is cut at ±2 std, the last three have no std",
    options=("normal", "trunc-normal", "uniform", "xavier-uniform", "zeros", "sinusoidal"),
)
_SLICE = 1 << 14
"""Elements that are drawn at once, so that intermediate arrays stay in the cache."""


@with_aliases
@dataclass(frozen=True, repr=False)
class LearnedInit(Scheme):
    """The initial weights of a learned positional embedding, before training.

    The tensor is `weight` (max_len, dim). The same seed gives the same table on every machine, for
    any range of rows.

    Args:
        max_len: rows of the table.
        dim: channels of a row.
        init: distribution of the weights: normal, trunc-normal (cut at ±2 std), uniform (of that
            std), xavier-uniform, zeros, or sinusoidal (Vaswani et al., 2017).
        std: standard deviation of normal, trunc-normal before it is cut, and uniform.
        seed: seed of the random numbers.
        dtype: type of the numbers in the table: float64, float32, float16 or bfloat16.

    Raises:
        ParameterError: a value breaks the rule of its parameter.

    >>> LearnedInit(max_len=2, dim=2, init="zeros").tables()["weight"].tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """

    name = "learned-init"

    max_len: Annotated[int, Whole("rows of the table")]
    dim: Annotated[int, Whole("channels of a row", high=65536)]
    init: Annotated[str, _INIT] = "normal"
    std: Annotated[float, Real("standard deviation", above=0, up_to=1e30)] = 0.02
    seed: Annotated[int, Whole("seed of the random numbers", low=0, high=2**64 - 1)] = 0

    _former_parameters = (("rng", "pecli"),)

    @property
    def inert_parameters(self) -> frozenset[str]:
        return _UNUSED.get(self.init, frozenset())

    def tensors(self) -> tuple[Table, ...]:
        """Return the table `weight` (max_len, dim)."""
        if self.init == "sinusoidal":
            (table,) = Sinusoidal(self.max_len, self.dim, dtype=self.dtype).tensors()
            return (replace(table, name="weight"),)
        fill = _fill_zeros if self.init == "zeros" else self._fill_drawn
        return (Table("weight", self.dtype, (self.max_len, self.dim), fill),)

    def _fill_drawn(self, start: int, out: Array) -> None:
        """Write rows start, start + 1, … of random numbers into `out`.

        A seed defines a stream of numbers, and row r of a table of dim 8 has the numbers 8·r …
        8·r + 7 of it. So a row is the same whichever rows are made together.
        """
        step = max(1, _SLICE // self.dim)
        for row in range(0, len(out), step):
            part = out[row : row + step]
            first_number = (start + row) * self.dim
            uniform_numbers = uniform(self.seed, first_number, part.size)
            values = self._from_uniform(uniform_numbers)
            part[...] = round_to(values, self.dtype).reshape(part.shape)

    def _from_uniform(self, u: Floats) -> Floats:
        """Return random numbers of the distribution `init`, made from uniform ones in (0, 1).

        The smallest uniform number becomes the smallest number of the distribution, and ½ its middle.
        """
        match self.init:
            case "xavier-uniform":
                limit = math.sqrt(6 / (self.max_len + self.dim))
                return (2 * u - 1) * limit
            case "uniform":
                # Numbers from −a to a have the standard deviation a/√3.
                return (2 * u - 1) * (self.std * math.sqrt(3))
            case "trunc-normal":
                between_two_sigmas = _PHI_MINUS_TWO + u * (1 - 2 * _PHI_MINUS_TWO)
                return normal(between_two_sigmas) * self.std
        return normal(u) * self.std

    @classmethod
    def recipe_names(cls) -> tuple[str, ...]:
        return ()

    def audited_rows(self) -> ByPosition:
        """Raise ParameterError: there is nothing that a recipe could compute differently."""
        rule = "it has no recipes: its numbers are random, not computed"
        raise ParameterError("the scheme", repr(self.name), rule)


def _fill_zeros(start: int, out: Array) -> None:
    out.fill(0)


_LN2_HIGH = 0.6931471803691238
"""The upper bits of ln 2: multiples of it by an exponent of float64 are exact."""
_LN2_LOW = 1.9082149292705877e-10
"""The rest of ln 2."""
_SQRT_HALF = 0x3FE6A09E667F3BCD
"""The bits of √½ as float64."""
_PHI_MINUS_TWO = 0.022750131948179209
"""Φ(−2): the share of a normal distribution below −2σ."""
_BITS_OF_ONE = np.float64(1).view(np.uint64)
"""The bits of 1.0: its exponent, above 52 zeros."""


def uniform(seed: int, start: int, count: int) -> Floats:
    """Return numbers start, start + 1, … of the seed's stream, in the open interval (0, 1).

    A number is (n + ½) / 2^52 with a random integer n of 52 bits, so that it is never 0 or 1.
    """
    return _in_unit_interval(_random_integers(seed, start, count))


def _random_integers(seed: int, start: int, count: int) -> Ints:
    """Return integers start, start + 1, … of the seed's stream, of 64 random bits each.

    Philox can begin anywhere: it makes four integers from the seed and a counter. Those from 6 on
    begin with the third of the counter 1, which also makes 4 and 5.
    """
    counter, unused_integers = divmod(start, 4)
    generator = np.random.Philox(key=seed, counter=counter)
    generator.random_raw(unused_integers)
    integers: Ints = generator.random_raw(count)
    return integers


def _in_unit_interval(integers: Ints) -> Floats:
    """Return (n + ½) / 2^52 for each integer of 64 bits, with its upper 52 bits as n.

    A float64 number from 1 to 2 consists of the bits of the exponent 0, which are those of 1.0, and
    52 bits of its fraction: 1 + n / 2^52. So the number is made without a conversion, which takes
    longer. The integers are overwritten.
    """
    integers >>= np.uint64(64 - 52)
    integers |= _BITS_OF_ONE
    numbers: Floats = integers.view(np.float64)  # 1 + n / 2^52
    numbers -= 1 - 0.5 / 2**52
    return numbers


def log(x: Floats) -> Floats:
    """Return the natural logarithm of positive normal numbers, within 1e-16 or two ULPs.

    NumPy's own differs between machines in the last bit, and a seed has to give the same table
    everywhere: only sums and products are used here, which are the same on all.

    x is split into 2^k · m with m from √½ to √2, so that ln x = k · ln 2 + ln m. For x = 5 these are
    k = 2 and m = 1.25. ln m is 2·artanh(r) with r = (m − 1)/(m + 1), by its series in r².
    """
    k, m = _split_at_root_of_half(x)
    r = (m - 1) / (m + 1)
    square = r * r
    # 2·artanh(r) = 2r · (1 + r²/3 + r⁴/5 + … + r²²/23), the smallest terms first.
    series = square * (1 / 23)
    for divisor in range(21, 1, -2):
        series = (series + 1 / divisor) * square
    two_r: Floats = 2 * r
    # The small terms are added first. k · _LN2_HIGH is exact, as _LN2_HIGH has few bits.
    small_terms = series * two_r + k * _LN2_LOW + two_r
    return k * _LN2_HIGH + small_terms


def _split_at_root_of_half(x: Floats) -> tuple[Floats, Floats]:
    """Return k and m of x = 2^k · m, with whole k and m from √½ to √2: 5 is 2^2 · 1.25.

    The bits of a float64, read as an integer, are its exponent above the 52 bits of its fraction.
    Less the bits of √½, the exponent of a number from √½ to √2 is 0, and that of a number 2^k times
    as large is k. With the exponent set to 0, adding the bits of √½ again gives m.
    """
    bits_above_root = x.view(np.int64) - _SQRT_HALF
    k: Floats = (bits_above_root >> 52).astype(np.float64)
    fraction = bits_above_root & ((1 << 52) - 1)
    m: Floats = (fraction + _SQRT_HALF).view(np.float64)
    return k, m


class Quotient(NamedTuple):
    """The coefficients of two polynomials, the highest power first."""

    numerator: tuple[float, ...]
    denominator: tuple[float, ...]


# Wichura's AS 241 (PPND16, 1988): the inverse of the normal distribution function, to about 1e-16.
_CENTRE = Quotient(
    (
        2509.0809287301226727,
        33430.575583588128105,
        67265.770927008700853,
        45921.953931549871457,
        13731.693765509461125,
        1971.5909503065514427,
        133.14166789178437745,
        3.387132872796366608,
    ),
    (
        5226.495278852545925,
        28729.085735721942674,
        39307.89580009271061,
        21213.794301586595867,
        5394.1960214247511077,
        687.1870074920579083,
        42.313330701600911252,
        1.0,
    ),
)
_MIDDLE = Quotient(
    (
        7.7454501427834140764e-4,
        0.0227238449892691845833,
        0.24178072517745061177,
        1.27045825245236838258,
        3.64784832476320460504,
        5.7694972214606914055,
        4.6303378461565452959,
        1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9,
        5.475938084995344946e-4,
        0.0151986665636164571966,
        0.14810397642748007459,
        0.68976733498510000455,
        1.6763848301838038494,
        2.05319162663775882187,
        1.0,
    ),
)
_TAIL = Quotient(
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        0.0012426609473880784386,
        0.026532189526576123093,
        0.29656057182850489123,
        1.7848265399172913358,
        5.4637849111641143699,
        6.6579046435011037772,
    ),
    (
        2.04426310338993978564e-15,
        1.4215117583164458887e-7,
        1.8463183175100546818e-5,
        7.868691311456132591e-4,
        0.0148753612908506148525,
        0.13692988092273580531,
        0.59983220655588793769,
        1.0,
    ),
)


def _value(quotient: Quotient, x: Floats) -> Floats:
    """Return one polynomial over the other."""
    value = _polynomial(quotient.numerator, x)
    value /= _polynomial(quotient.denominator, x)
    return value


def _polynomial(coefficients: tuple[float, ...], x: Floats) -> Floats:
    """Return a polynomial by Horner's rule, in one order of additions on every machine."""
    first, *between, last = coefficients
    value = x * first
    for coefficient in between:
        value += coefficient
        value *= x
    value += last
    return value


def normal(u: Floats) -> Floats:
    """Return uniform numbers in (0, 1) as numbers of the standard normal distribution.

    This is its inverse distribution function by algorithm AS 241 (Wichura, 1988): 0.975 becomes
    1.96. It uses only sums, products and roots, so that every machine gets the same bits. In the
    centre, up to 0.425 from ½, it is a quotient of polynomials in the distance from ½.
    """
    from_centre = u - 0.5
    # 0.180625 is 0.425².
    quantiles = from_centre * _value(_CENTRE, 0.180625 - from_centre * from_centre)
    tails = np.flatnonzero(np.abs(from_centre) > 0.425)
    distance_to_end = np.minimum(u[tails], 1 - u[tails])
    quantiles[tails] = np.copysign(_tail_quantiles(distance_to_end), from_centre[tails])
    return quantiles


def _tail_quantiles(distance_to_end: Floats) -> Floats:
    """Return |z| of the normal distribution so that it has the share `distance_to_end` beyond z.

    For 0.025 it is 1.96. Algorithm AS 241 has two quotients of polynomials in r = √(−ln distance)
    for such tails, up to r = 5 and beyond.
    """
    r = np.sqrt(-log(distance_to_end))
    quantiles = _value(_MIDDLE, r - 1.6)
    far = np.flatnonzero(r > 5)
    quantiles[far] = _value(_TAIL, r[far] - 5)
    return quantiles
