"""Rotary frequencies with another base, another exponent or another scaling than asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from pecli.checks.diagnose.angles import TYPED, Option, bases
from pecli.checks.diagnose.causes import Cause, cost_of
from pecli.checks.diagnose.exchanged import exchanged_betas, exchanged_factors
from pecli.engine.arrays import Floats, Indices
from pecli.engine.scalings import PARAMETERS
from pecli.engine.schemes.rope import Rope

Frequencies = Callable[[Rope], "Floats"]


@dataclass(frozen=True)
class Mistake:
    """A mistake: from the way to frequencies, another way."""

    causes: tuple[Cause, ...] = ()
    apply: Callable[[Frequencies], Frequencies] = lambda frequencies: frequencies
    attention: bool = True
    """Whether the attention factor is still there."""


def rope_options(rope: Rope, columns: int, fitted: tuple[float, ...]) -> Iterator[Option]:
    """Base, exponent and scaling, each with what may be wrong about it."""
    factor = rope.attention_factor_value()
    yield Option((), _composed(rope, rope.base, Mistake(), Mistake(), columns), factor)
    changes = list(product(_exponents(rope, columns), _scalings(rope)))
    for causes, base in bases(rope.base, fitted):
        for exponent, scaling in changes:
            if cost_of(causes) <= 1 or not exponent.causes:  # a fitted base takes the usual exponent for granted
                amplitude = factor if scaling.attention else 1.0
                every = (*causes, *exponent.causes, *scaling.causes)
                if every:
                    yield Option(every, _composed(rope, base, exponent, scaling, columns), amplitude)


def _composed(rope: Rope, base: float, exponent: Mistake, scaling: Mistake, columns: int) -> Callable[[], Floats]:
    def compute() -> Floats:
        found = scaling.apply(exponent.apply(_floats))(replace(rope, base=base))
        return np.concatenate([found[:columns], np.zeros(max(0, columns - len(found)))])

    return compute


def _floats(rope: Rope) -> Floats:
    return np.array(rope.frequencies().floats())


def _simple(rope: Rope) -> bool:
    """Whether a formula holds for any number of columns."""
    return rope.scaling in ("none", "linear", "proportional")


def _exponents(rope: Rope, columns: int) -> Iterator[Mistake]:
    d, own = rope.exponent_dim, rope.rotary_dim // 2
    yield Mistake()
    if rope.dim != d:
        words = f"the exponent is over the head dim, {rope.dim}, instead of the {d} channels that turn"
        yield Mistake((Cause(words),), _over(rope.dim))
    if rope.rotating_pairs < own:
        words = f"the exponent is over the {2 * rope.rotating_pairs} channels that turn instead of the head dim, {d}"
        yield Mistake((Cause(words),), _over(2 * rope.rotating_pairs))
    for dim in (2 * d, 4 * d, d // 2, d // 4):
        if dim >= 2 and dim not in (rope.dim, 2 * rope.rotating_pairs) and (dim > d or _simple(rope)):
            yield Mistake((Cause(f"the exponent is over {dim} instead of {d}"),), _over(dim))
    if d > 2:  # where frequencies are scaled all the same, one is missing and nothing matches
        yield Mistake((Cause("the exponent divides by d/2 − 1 instead of d/2"),), _over(d - 2))
    if columns == own and rope.scaling in ("none", "linear", "llama3"):
        words = "the exponent is 0 for all, as where whole numbers are divided"
        yield Mistake((Cause(words),), _over_nothing(own))
    if columns == own > 1 and rope.scaling in ("none", "linear"):
        words = "the exponent has the wrong sign: frequencies grow from pair to pair"
        yield Mistake((Cause(words),), _over(-d))
    if columns != own:
        words = f"dim is {2 * columns} (the spec says {rope.rotary_dim})"
        yield Mistake((Cause(words),), _over(2 * columns))
        return
    yield Mistake((Cause("the frequencies are in reverse order, the slowest first"),), _picked(np.arange(own)[::-1]))
    if own % 2 == 0:
        yield from _misread(own, alike=rope.scaling in ("none", "linear", "llama3"))


def _misread(columns: int, alike: bool) -> Iterator[Mistake]:
    """Doubled tables that were cut in half the wrong way; where frequencies are scaled one by one, half a head's."""
    small = f", or is the doubled one of a dim of {columns}" if alike else ""
    each, end = np.arange(columns), "(columns are there twice, others are missing)"
    yield Mistake((Cause(f"an interleaved table was read as halves {end}"),), _picked(each // 2))
    yield Mistake((Cause(f"a table of halves was read as interleaved{small} {end}"),), _picked(2 * each % columns))


def _picked(columns: Indices) -> Callable[[Frequencies], Frequencies]:
    return lambda frequencies: lambda rope: frequencies(rope)[columns]


def _over(dim: int) -> Callable[[Frequencies], Frequencies]:
    """Frequencies of the same channels with another d in the exponent."""

    def found(frequencies: Frequencies, rope: Rope) -> Floats:
        if _simple(rope):
            index = np.arange(max(rope.rotary_dim, abs(dim)) // 2)
            moving = rope.rotating_pairs if rope.scaling == "proportional" else len(index)
            return np.where(index < moving, rope.base ** (-2 * index / dim) / (rope.factor or 1.0), 0.0)
        changes: dict[str, object] = {"dim": dim, "partial_rotary_factor": None}
        changes |= {"mrope_section": None, "mrope_interleaved": None}
        for name in ("short_factor", "long_factor"):
            if (given := getattr(rope, name)) is not None:
                changes[name] = (*given, *(1.0,) * (dim // 2))[: dim // 2]
        return frequencies(replace(rope, **changes))  # type: ignore[arg-type]

    return lambda frequencies: lambda rope: found(frequencies, rope)


def _over_nothing(columns: int) -> Callable[[Frequencies], Frequencies]:
    """All frequencies as the first: too fast for Llama 3 to scale."""
    return lambda _: lambda rope: np.full(columns, 1 / (rope.factor or 1.0) if rope.scaling == "linear" else 1.0)


def unscaled(rope: Rope) -> Rope:
    """The same without scaling."""
    partial = None if rope.scaling == "proportional" else rope.partial_rotary_factor
    changes = {**dict.fromkeys(PARAMETERS), "scaling": "none", "partial_rotary_factor": partial}
    return replace(rope, **changes)  # type: ignore[arg-type]


def _scalings(rope: Rope) -> Iterator[Mistake]:
    yield Mistake()
    kind = rope.scaling
    if kind == "none":
        return
    yield Mistake((Cause(f"the {kind} scaling is ignored"),), _of(unscaled), attention=False)
    yield Mistake((Cause(f"the {kind} scaling is applied twice"),), _twice)
    if kind == "llama3":  # whose second time may go by the wavelengths that the first one left
        yield Mistake((Cause("the llama3 scaling is applied twice"),), _of_itself)
    if kind in ("llama3", "yarn"):
        yield from (Mistake((Cause(f"π is typed as {pi:g} in the {kind} scaling"),), _of(_with(pi))) for pi in TYPED)
    if kind == "yarn":
        truncated = rope.truncate is not False
        words = "truncate is false (the spec says true)" if truncated else "truncate=false is ignored"
        yield Mistake((Cause(words),), _of(lambda rope: replace(rope, truncate=not truncated)))
        yield Mistake((Cause("beta_fast and beta_slow are exchanged"),), _blended(exchanged_betas))
    if kind == "llama3":
        original = rope.original_max_position_embeddings or 1
        for limit in (rope.high_freq_factor or 1.0, rope.low_freq_factor or 1.0):
            words = "low_freq_factor and high_freq_factor are exchanged"
            yield Mistake((Cause(words),), _blended(_cut(original / limit)))
        words = "the blend between both limits is the wrong way round"
        yield Mistake((Cause(words),), _blended(_blend_reversed))
    if kind == "longrope":
        yield _other_factors(rope)
    for simple in ("linear", "ntk"):
        if simple != kind and rope.factor is not None:
            yield Mistake(
                (Cause(f"the scaling is {simple} (the spec says {kind})"),), _of(_as(simple)), attention=False
            )


def _of(change: Callable[[Rope], Rope]) -> Callable[[Frequencies], Frequencies]:
    return lambda frequencies: lambda rope: frequencies(change(rope))


def _blended(blend: Callable[[Floats, Floats, Rope], Floats]) -> Callable[[Frequencies], Frequencies]:
    """Frequencies from those without scaling and those with it."""
    return lambda frequencies: lambda rope: blend(frequencies(unscaled(rope)), frequencies(rope), rope)


def _blend_reversed(plain: Floats, scaled: Floats, rope: Rope) -> Floats:
    """Llama 3's blend with the shares of the plain and the scaled frequency in each other's place."""
    by, count = rope.factor or 1.0, min(len(plain), len(scaled))  # of another exponent there may be fewer
    plain, scaled = plain[:count], scaled[:count]
    between = (scaled > plain / by * (1 + 1e-12)) & (scaled < plain * (1 - 1e-12))
    return np.where(between, plain + plain / by - scaled, scaled)


def _cut(wavelength: float) -> Callable[[Floats, Floats, Rope], Floats]:
    return lambda plain, scaled, _: exchanged_factors(plain, scaled, wavelength)


def _with(pi: float) -> Callable[[Rope], Rope]:
    """The limits that another π comes to: they are multiplied by it."""

    def changed(rope: Rope) -> Rope:
        usual = {"beta_fast": 32.0, "beta_slow": 1.0}
        if rope.scaling == "llama3":
            usual = {"low_freq_factor": 1.0, "high_freq_factor": 1.0}
        limits = {name: (getattr(rope, name) or value) * pi / np.pi for name, value in usual.items()}
        return replace(rope, **limits)  # type: ignore[arg-type]

    return changed


def _as(kind: str) -> Callable[[Rope], Rope]:
    return lambda rope: replace(unscaled(rope), scaling=kind, factor=rope.factor)


def _twice(frequencies: Frequencies) -> Frequencies:
    """What scaling did to each frequency, done again; to a base that was stretched, stretching it again."""

    def found(rope: Rope) -> Floats:
        once, plain = frequencies(rope), frequencies(unscaled(rope))
        plain = plain[: len(once)]
        return np.asarray(once * once / np.where(plain > 0, plain, 1.0))

    return found


def _of_itself(frequencies: Frequencies) -> Frequencies:
    """Llama 3's rule for the frequencies that it has made."""

    def found(rope: Rope) -> Floats:
        once, factor = frequencies(rope), rope.factor or 1.0
        low, high = rope.low_freq_factor or 1.0, rope.high_freq_factor or 1.0
        turns = once * (rope.original_max_position_embeddings or 1) / (2 * np.pi)
        keep = np.clip((turns - low) / (high - low), 0.0, 1.0)
        return np.asarray(once * (keep + (1 - keep) / factor))

    return found


def _other_factors(rope: Rope) -> Mistake:
    """Long factors where short ones belong, or the other way round."""
    original = rope.original_max_position_embeddings or 0
    long = rope.effective_length > original
    place = "above" if long else "at exactly" if rope.effective_length == original else "below"
    words = (
        f"the {'short' if long else 'long'} factors are used at length {rope.effective_length}, {place} the original "
    )
    length = original if long else original + 1
    return Mistake((Cause(f"{words}{original}"),), _of(lambda rope: replace(rope, length=length)))
