"""Scalings of rotary frequencies, and the frequencies before any scaling.

In formulas, b is the base, d the rotary dim, i a pair's index, f the factor, O the
original_max_position_embeddings and M the max_position_embeddings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from functools import cache
from typing import ClassVar, NamedTuple, Self

from pecli.engine import numerics
from pecli.engine.arrays import Floats, Singles
from pecli.engine.named_values import NamedValues, required
from pecli.engine.numerics import Frequencies
from pecli.errors import ParameterError

_ATTENTION_BITS = 200


class RotaryDims(NamedTuple):
    """The dimensions of a head of which only a part may rotate.

    Attributes:
        dim: d in the formulas, which may be odd.
        pairs: The number of pairs that rotate.
    """

    dim: int
    pairs: int


class NewParameter(NamedTuple):
    """A number that `Rope` accepts because a scaling declares it.

    Attributes:
        help: The text of the command's help.
        above: The number must exceed this one.
    """

    help: str
    above: float = 0.0


def new_parameter(declaration: NewParameter) -> object:
    """Return the field of a parameter that `Rope` does not declare itself.

    For example: `sharpness: float | None = new_parameter(NewParameter("toy: how steep it is"))`.
    """
    return field(default=None, metadata={_DECLARATION: declaration})


_DECLARATION = "declaration"


@dataclass(frozen=True)
class Scaling:
    """No scaling, and the base class of all scalings.

    A scaling is a frozen value. Its fields are parameters of `Rope`; those without a default are
    required. A scaling that depends on the length of the sequence has a field `length`. A field
    that `Rope` does not have yet is declared with `new_parameter`.
    """

    per_frequency: ClassVar[bool] = False
    """True if each frequency is scaled by itself, False if only the base changes."""
    defaults: ClassVar[NamedValues] = {}
    """Values of parameters that are None."""

    @classmethod
    @cache
    def names(cls) -> tuple[str, ...]:
        """Return the names of all parameters."""
        return tuple(parameter.name for parameter in fields(cls))

    @classmethod
    @cache
    def required(cls) -> tuple[str, ...]:
        """Return the names of the parameters that have no default."""
        every = fields(cls)
        return tuple(parameter.name for parameter in every if parameter.default is MISSING)

    @classmethod
    def frequency_parameters(cls) -> tuple[str, ...]:
        """Return the names of the parameters that change frequencies, for searches."""
        return cls.names()

    @classmethod
    def new_parameters(cls) -> dict[str, NewParameter]:
        """Return the parameters that `Rope` has because of this scaling."""
        declarations = {}
        for parameter in fields(cls):
            if _DECLARATION in parameter.metadata:
                declarations[parameter.name] = parameter.metadata[_DECLARATION]
        return declarations

    def with_defaults(self) -> Self:
        """Return the scaling with defaults instead of None."""
        missing = {
            name: value for name, value in self.defaults.items() if getattr(self, name) is None
        }
        return replace(self, **missing)

    def brief(self) -> Self:
        """Return the scaling with None instead of values that are the defaults."""
        redundant = [name for name, value in self.defaults.items() if getattr(self, name) == value]
        return replace(self, **dict.fromkeys(redundant))

    @classmethod
    def rotary(cls, dim: int, share: float) -> RotaryDims:
        """Return the dimensions of a head of `dim` channels, of which a share is rotary.

        An odd number of rotary channels counts as one more: 21 channels are 11 pairs (GLM-4.5).
        """
        rotary_dim = int(dim * share)
        return RotaryDims(rotary_dim, (rotary_dim + 1) // 2)

    def check(self, base: float, dim: int) -> None:
        """Raise ParameterError if parameters do not fit together."""

    def frequencies(self, base: float, dim: int) -> Frequencies:
        """Return the inverse frequencies of all pairs, in radians per position, exact."""
        return unscaled(base, dim)

    def approximate(self, plain: Floats, base: float | Floats, half: float) -> Floats:
        """Return the frequencies in float64, for searches, which compute thousands of them.

        The search for the parameters of an unknown table tries many at once: a field of the scaling
        may be a column of numbers, such as (1000, 1) factors, and each gives a row of frequencies.
        No field may be None.

        Args:
            plain: The unscaled frequencies b^(−i/half).
            base: The base, b.
            half: Half of the rotary dim.
        """
        return plain

    def attention(self, bits: int) -> int:
        """Return the attention factor, which multiplies cos and sin, as an integer over 2**bits."""
        return numerics.fixed(required(self.exact_attention), bits)

    @property
    def exact_attention(self) -> Fraction | None:
        """The attention factor if it is rational, otherwise None.

        At position 0 a table holds the factor itself, which may be a tie between two floats.
        """
        return Fraction(1)

    @property
    def attention_value(self) -> float:
        """The attention factor, rounded to float64."""
        return self.attention(_ATTENTION_BITS) / (1 << _ATTENTION_BITS)

    def known_mistakes(self) -> tuple[Scaling, ...]:
        """Return scalings that ports confuse with this one and that no single number describes."""
        return ()

    def float32_base(self, base: float, dim: int) -> float:
        """Return the base of the powers that transformers computes in float32."""
        return base

    def float32_frequencies(self, powers: Singles, base: float, dim: int) -> Singles:
        """Return the inverse frequencies as transformers computes them in float32.

        Every step rounds to float32. Values that transformers computes in float64 before that are
        exact here, then rounded.

        Args:
            powers: b^(2i/d) in float32.
            base: The base, b.
            dim: The rotary dim, d.
        """
        return reciprocal(powers)


def reciprocal(powers: Singles) -> Singles:
    """Return 1 / p, in the dtype of the powers."""
    return powers.dtype.type(1) / powers


def unscaled(base: float, dim: int) -> Frequencies:
    """Return b^(−2i/d) for all pairs."""
    return numerics.geometric(base, Fraction(dim, 2), (dim + 1) // 2)


def divided(frequencies: Frequencies, divisors: Sequence[Fraction]) -> Frequencies:
    """Return each frequency divided by its divisor."""
    pairs = zip(frequencies.values, divisors, strict=True)
    quotients = tuple(value * divisor.denominator // divisor.numerator for value, divisor in pairs)
    return Frequencies(quotients, frequencies.bits)


def blended(frequency: int, factor: Fraction, keep: int, bits: int) -> int:
    """Return frequency · keep + frequency / factor · (1 − keep).

    The frequency, the share that is kept, and the result are integers over 2**bits. With a share of
    1/4 and factor 2, a frequency of 1 becomes 1/4 + 3/8.
    """
    one = 1 << bits
    divided = frequency * factor.denominator // factor.numerator
    return (frequency * keep + divided * (one - keep)) >> bits


def extension(factor: float | None, longest: int | None, original: int) -> Fraction:
    """Return f, or M/O if f is not given.

    Raises:
        ParameterError: Neither f nor M is given.
    """
    if factor is not None:
        return Fraction(factor)
    if longest is None:
        rule = "the scaling needs it, or max_position_embeddings to divide by the original length"
        raise ParameterError("factor", "missing", rule)
    return Fraction(longest, original)
