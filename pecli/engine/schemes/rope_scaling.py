"""What models do to rotary frequencies to reach longer contexts, exactly.

A scaling is data: the parameters it needs and may take, what it does to the frequencies, and what cos and sin are
multiplied by. b is the base, d the rotary dim, f the factor, O the original length, M the length a model claims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from pecli.engine.numerics import fixed_point, geometric
from pecli.engine.numerics.geometric import Frequencies
from pecli.engine.schemes import yarn
from pecli.engine.schemes.parameters import spelled
from pecli.engine.schemes.rope_frequencies import Amplitude, changed, divided, given, plain
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.schemes.rope import Rope


@dataclass(frozen=True)
class Scaling:
    """One way to scale: which parameters belong to it, and its two effects."""

    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    frequencies: Callable[[Rope], Frequencies] = lambda rope: plain(rope)
    attention: Callable[[Rope], Amplitude] | None = None
    check: Callable[[Rope], None] | None = None


def _linear(rope: Rope) -> Frequencies:
    """Position interpolation (Chen et al., 2023): all positions divided by f."""
    return changed(plain(rope), lambda values, bits: divided(values, [given(rope.factor)] * len(values)))


def stretch(rope: Rope) -> tuple[Fraction, Fraction]:
    """By how much ntk and dynamic scaling stretch the base: a number, and the power it is raised to."""
    power, factor = Fraction(rope.exponent_dim, rope.exponent_dim - 2), given(rope.factor)
    if rope.scaling == "ntk":
        return factor, power
    longest = given(rope.max_position_embeddings)
    return factor * max(Fraction(rope.read_at), longest) / longest - (factor - 1), power


def _stretched(rope: Rope) -> Frequencies:
    """Base b · by^(d/(d−2)), which leaves the highest frequency alone and divides the lowest by `by`.

    With dynamic scaling, `by` grows with the length, once that exceeds M.
    """
    by, power = stretch(rope)

    def log_base(bits: int) -> int:
        stretch = fixed_point.log(by, bits + 8) * power.numerator // power.denominator
        return fixed_point.round_shift(fixed_point.log(Fraction(rope.base), bits + 8) + stretch, 8)

    return geometric.geometric(rope.base, Fraction(rope.exponent_dim, 2), rope.rotary_dim // 2, log_base=log_base)


def _check_pairs(rope: Rope) -> None:
    if rope.exponent_dim < 3:
        raise ParameterError("dim", rope.dim, f"{rope.scaling} scaling divides by d − 2, so d must be at least 3")


def divisors(rope: Rope) -> tuple[float, ...]:
    """Of longrope scaling: one of two kinds; at exactly O still the short one."""
    long = rope.read_at > given(rope.original_max_position_embeddings)
    return (rope.long_factor if long else rope.short_factor) or ()


def _longrope(rope: Rope) -> Frequencies:
    """LongRoPE (Ding et al., 2024): a divisor for every frequency."""
    by = [Fraction(each) for each in divisors(rope)]
    return changed(plain(rope), lambda values, bits: divided(values, by))


def _longrope_attention(rope: Rope) -> Amplitude:
    """sqrt(1 + ln f / ln O)."""
    factor, length = yarn.factor(rope), given(rope.original_max_position_embeddings)
    if factor <= 1:
        return lambda bits: 1 << bits

    def value(bits: int) -> int:
        from math import isqrt

        work = 2 * bits + 16
        ratio = (fixed_point.log(factor, work) << work) // fixed_point.log(length, work)
        return isqrt(((1 << work) + ratio) << work) >> (work - bits)

    return value


def _check_longrope(rope: Rope) -> None:
    for name in ("short_factor", "long_factor"):
        given = len(getattr(rope, name))
        if given != rope.rotary_dim // 2:
            raise ParameterError(
                name, f"{given} numbers", f"there must be one for each of {rope.rotary_dim // 2} frequencies"
            )
    if rope.attention_factor is None and rope.factor is None and rope.max_position_embeddings is None:
        raise ParameterError(
            "factor", "missing", "longrope scaling needs it, max_position_embeddings or attention_factor"
        )
    if rope.attention_factor is None and yarn.factor(rope) > 1 and rope.original_max_position_embeddings == 1:
        rule = "the attention factor divides by ln O, so O must be above 1"
        raise ParameterError("original_max_position_embeddings", 1, rule, "or give attention_factor")


def _llama3(rope: Rope) -> Frequencies:
    """Llama 3.1: by wavelength, long ones are interpolated, short ones stay, those between are blended."""
    factor, length = given(rope.factor), given(rope.original_max_position_embeddings)
    low, high = given(rope.low_freq_factor), given(rope.high_freq_factor)

    def blend(values: Sequence[int], bits: int) -> list[int]:
        one, turn, blended = 1 << bits, 2 * fixed_point.pi(bits), []
        for value in values:
            rotations = Fraction(value * length.numerator, turn * length.denominator)  # O/λ
            if low == high:
                keep = Fraction(rotations >= low)
            else:
                keep = min(max((rotations - low) / (high - low), Fraction(0)), Fraction(1))
            weight = fixed_point.fixed(keep, bits)
            scaled = value * factor.denominator // factor.numerator
            blended.append((scaled * (one - weight) + value * weight) >> bits)
        return blended

    return changed(plain(rope), blend)


def _check_llama3(rope: Rope) -> None:
    if given(rope.high_freq_factor) < given(rope.low_freq_factor):
        rule = f"it must not be below low_freq_factor, {rope.low_freq_factor:g}"
        raise ParameterError("high_freq_factor", spelled(rope.high_freq_factor), rule)


def _ntk_fixed(rope: Rope) -> Frequencies:
    """vLLM's and GTE's ntk: (b·f)^(−2i/d) / f^(2/d)."""
    factor, d = given(rope.factor), rope.exponent_dim

    def log_base(bits: int) -> int:
        whole = fixed_point.log(Fraction(rope.base), bits + 8) + fixed_point.log(factor, bits + 8)
        return fixed_point.round_shift(whole, 8)

    def slowed(values: Sequence[int], bits: int) -> list[int]:
        by = fixed_point.power(factor, Fraction(-2, d), bits)
        return [value * by >> bits for value in values]

    frequencies = geometric.geometric(rope.base, Fraction(d, 2), rope.rotary_dim // 2, log_base=log_base)
    return changed(frequencies, slowed)


def _proportional(rope: Rope) -> Frequencies:
    """Gemma 4: frequencies as for the whole head; those beyond the partial factor do not turn at all."""
    factor, moving = Fraction(rope.factor or 1.0), turning(rope)

    def stop(values: Sequence[int], bits: int) -> list[int]:
        return divided(values[:moving], [factor] * moving) + [0] * (len(values) - moving)

    return changed(plain(rope), stop)


def turning(rope: Rope) -> int:
    """How many pairs proportional scaling lets turn."""
    return int(rope.dim * (1.0 if rope.partial_rotary_factor is None else rope.partial_rotary_factor) // 2)


def _check_proportional(rope: Rope) -> None:
    if not turning(rope):
        raise ParameterError(
            "partial_rotary_factor", spelled(rope.partial_rotary_factor), "it leaves no pair that turns"
        )


_YARN = (
    "factor",
    "max_position_embeddings",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "truncate",
    "mscale",
    "mscale_all_dim",
)

SCALINGS: dict[str, Scaling] = {
    "none": Scaling(),
    "linear": Scaling(needs=("factor",), frequencies=_linear),
    "ntk": Scaling(needs=("factor",), frequencies=_stretched, check=_check_pairs),
    "dynamic": Scaling(
        needs=("factor", "max_position_embeddings"), takes=("length",), frequencies=_stretched, check=_check_pairs
    ),
    "yarn": Scaling(("original_max_position_embeddings",), _YARN, yarn.frequencies, yarn.attention, yarn.check),
    "longrope": Scaling(
        needs=("original_max_position_embeddings", "short_factor", "long_factor"),
        takes=("factor", "max_position_embeddings", "attention_factor", "length"),
        frequencies=_longrope,
        attention=_longrope_attention,
        check=_check_longrope,
    ),
    "llama3": Scaling(
        needs=("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
        frequencies=_llama3,
        check=_check_llama3,
    ),
    "ntk-fixed": Scaling(needs=("factor",), frequencies=_ntk_fixed),
    "proportional": Scaling(takes=("factor",), frequencies=_proportional, check=_check_proportional),
}

PARAMETERS = tuple(dict.fromkeys(name for scaling in SCALINGS.values() for name in (*scaling.needs, *scaling.takes)))
"""Every parameter that belongs to some scaling."""


def check(rope: Rope) -> None:
    """Everything that the scaling needs is there, nothing else is, and the values fit together."""
    scaling = SCALINGS[rope.scaling]
    for name in PARAMETERS:
        value, used = getattr(rope, name), name in scaling.needs or name in scaling.takes
        if value is not None and not used:
            users = ", ".join(kind for kind, each in SCALINGS.items() if name in (*each.needs, *each.takes))
            given = f"{len(value)} numbers" if isinstance(value, tuple) else spelled(value)
            raise ParameterError(name, given, f"{rope.scaling} scaling does not use it", f"it belongs to {users}")
        if value is None and name in scaling.needs:
            raise ParameterError(name, "missing", f"{rope.scaling} scaling needs it")
    if scaling.check is not None:
        scaling.check(rope)


def attention(rope: Rope) -> Amplitude:
    """What cos and sin are multiplied by: as given, by the scaling's rule, or one."""
    if rope.attention_factor is not None:
        exact = Fraction(rope.attention_factor)
        return lambda bits: fixed_point.fixed(exact, bits)
    rule = SCALINGS[rope.scaling].attention
    return rule(rope) if rule else lambda bits: 1 << bits
