"""Frequencies as somebody may have computed them otherwise: every known mistake, alone and together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.diagnose.causes import DEAREST, FITTED, Cause
from pecli.engine.rope import Rope
from pecli.engine.rope_scaling import PARAMETERS
from pecli.engine.sinusoidal import Sinusoidal
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.arrays import Floats

Change = tuple[tuple[Cause, ...], Callable[["Rope"], "Rope"]]


@dataclass(frozen=True)
class Option:
    """Frequencies for some causes; computed when they are looked at."""

    causes: tuple[Cause, ...]
    compute: Callable[[], Floats]
    amplitude: float

    @cached_property
    def frequencies(self) -> Floats | None:
        """Radians per position; None where these causes do not go together."""
        try:
            with np.errstate(over="ignore"):
                return self.compute()
        except ParameterError:
            return None

    @property
    def cost(self) -> float:
        return sum(cause.cost for cause in self.causes)


def theta(value: float, spec: float, cost: float = 1.0) -> Cause:
    """Another base."""
    return Cause(f"theta is {value:.12g} (the spec says {spec:.12g})", cost)


def options(scheme: Rope | Sinusoidal, columns: int, bases: tuple[float, ...] = ()) -> list[Option]:
    """All combinations of mistakes in the frequencies, the scheme's own first; `bases` were fitted to the table."""
    every = rope_options(scheme, columns, bases) if isinstance(scheme, Rope) else waves_options(scheme, columns, bases)
    return [option for option in every if option.cost <= DEAREST]


def _bases(spec: float, fitted: tuple[float, ...]) -> list[tuple[tuple[Cause, ...], float]]:
    known: list[tuple[tuple[Cause, ...], float]] = [((), spec)]
    if spec != 10000.0:
        known.append(((theta(10000.0, spec),), 10000.0))
    return known + [((theta(base, spec, FITTED),), base) for base in fitted if base not in (spec, 10000.0)]


def waves_options(pe: Sinusoidal, columns: int, bases: tuple[float, ...] = ()) -> Iterator[Option]:
    """base^(−i / (D/2 − shift)) · scale, with each of them otherwise."""
    half = pe.dim // 2 if pe.layout == "halves" else pe.dim / 2
    shifts = [((), half - pe.freq_shift)]
    for shift in (0.0, 1.0):
        if shift != pe.freq_shift and half - shift >= 0.5:
            words = "D/2 − 1 instead of D/2" if shift else f"D/2 instead of D/2 − {pe.freq_shift:g}"
            shifts.append(((Cause(f"the exponent divides by {words}"),), half - shift))
    shifts.append(((Cause("the exponent is i/D instead of 2i/D"),), 2 * half))
    if columns != pe.dim // 2:
        shifts.append(((Cause(f"dim is {2 * columns} (the spec says {pe.dim})"),), columns - pe.freq_shift))
    scales = [((), pe.scale)]
    if pe.scale != 1:
        scales.append(((Cause(f"positions are not scaled by {pe.scale:g}"),), 1.0))
    if pe.scale != 1000:
        scales.append(((Cause(f"positions are scaled by 1000 (the spec says {pe.scale:g})"),), 1000.0))
    index = np.arange(columns)
    for (one, base), (two, below), (three, scale) in product(_bases(pe.base, bases), shifts, scales):
        yield Option((*one, *two, *three), _geometric(base, below, scale, index), pe.amplitude)


def _geometric(base: float, below: float, scale: float, index: Floats) -> Callable[[], Floats]:
    return lambda: scale * base ** (-index / below if below else 0.0 * index)


def rope_options(rope: Rope, columns: int, bases: tuple[float, ...] = ()) -> Iterator[Option]:
    """Base, exponent and scaling, each with what may be wrong about it."""
    known = [(causes, replace(rope, base=base)) for causes, base in _bases(rope.base, bases)]
    exponents = list(_exponents(rope, columns))
    for (one, based), (two, exponent), (three, change) in product(known, exponents, _scalings(rope)):
        plain = three and "ignored" in three[0].words
        amplitude = 1.0 if plain else rope.attention_factor_value()
        yield Option((*one, *two, *three), _composed(based, exponent, change, columns), amplitude)


Frequencies = Callable[[Rope], "Floats"]
Exponent = Callable[[Frequencies], Frequencies]


def _composed(rope: Rope, exponent: Exponent, change: Exponent, columns: int) -> Callable[[], Floats]:
    def compute() -> Floats:
        found = change(exponent(_floats))(rope)
        return np.concatenate([found[:columns], np.zeros(max(0, columns - len(found)))])

    return compute


def _floats(rope: Rope) -> Floats:
    return np.array(rope.frequencies().floats())


def _exponents(rope: Rope, columns: int) -> Iterator[tuple[tuple[Cause, ...], Exponent]]:
    d, own = rope.exponent_dim, rope.rotary_dim // 2
    yield (), lambda frequencies: frequencies
    if rope.dim != d:
        words = f"the exponent is over the head dim, {rope.dim}, instead of the {d} channels that turn"
        yield (Cause(words),), _over(rope.dim)
    dims = {2 * d, 4 * d, *(each for each in (d // 2, d // 4, 2 * rope.turning) if each >= 2)} - {d, rope.dim}
    simple = rope.scaling in ("none", "linear", "proportional")
    for dim in sorted(each for each in dims if each > d or simple):
        yield (Cause(f"the exponent is over {dim} instead of {d}"),), _over(dim)
    if d > 2 and simple:
        yield (Cause("the exponent divides by d/2 − 1 instead of d/2"),), _over(d - 2)
    if columns != own:
        yield (Cause(f"dim is {2 * columns} (the spec says {rope.rotary_dim})"),), _over(2 * columns)
    elif own % 2 == 0:
        words = "an {} table was read as {} (columns are there twice, others are missing)"
        each = np.arange(own)
        yield (Cause(words.format("interleaved", "halves")),), _picked(each // 2)
        yield (Cause(words.format("halves", "interleaved").replace("an h", "a h")),), _picked(2 * each % own)


def _picked(columns: Floats) -> Exponent:
    return lambda frequencies: lambda rope: frequencies(rope)[columns]


def _over(dim: int) -> Exponent:
    """Frequencies of the same channels with another d in the exponent."""

    def over(frequencies: Frequencies) -> Frequencies:
        def found(rope: Rope) -> Floats:
            index = np.arange(max(rope.rotary_dim, dim) // 2)
            if rope.scaling in ("none", "linear", "proportional"):
                moving = rope.turning if rope.scaling == "proportional" else len(index)
                return np.where(index < moving, rope.base ** (-2 * index / dim) / (rope.factor or 1.0), 0.0)
            changes: dict[str, object] = {"dim": dim, "partial_rotary_factor": None}
            changes |= {"mrope_section": None, "mrope_interleaved": None}
            for name in ("short_factor", "long_factor"):
                if (given := getattr(rope, name)) is not None:
                    changes[name] = (*given, *(1.0,) * (dim // 2))[: dim // 2]
            return frequencies(replace(rope, **changes))  # type: ignore[arg-type]

        return found

    return over


def unscaled(rope: Rope) -> Rope:
    """The same without scaling."""
    partial = None if rope.scaling == "proportional" else rope.partial_rotary_factor
    changes = {**dict.fromkeys(PARAMETERS), "scaling": "none", "partial_rotary_factor": partial}
    return replace(rope, **changes)  # type: ignore[arg-type]


def _scalings(rope: Rope) -> Iterator[tuple[tuple[Cause, ...], Exponent]]:
    yield (), lambda frequencies: frequencies
    if rope.scaling == "none":
        return
    kind = rope.scaling
    yield (Cause(f"the {kind} scaling is ignored"),), lambda frequencies: lambda rope: frequencies(unscaled(rope))
    yield (Cause(f"the {kind} scaling is applied twice"),), _twice
    if kind == "yarn":
        ignored = "ignored" if rope.truncate is False else "false"
        words = f"truncate is {ignored} (the spec says {str(rope.truncate is not False).lower()})"
        other = rope.truncate is False
        yield (Cause(words),), lambda frequencies: lambda rope: frequencies(replace(rope, truncate=other))
    if kind == "longrope":
        yield _other_factors(rope)
    for simple in ("linear", "ntk"):
        if simple != kind and rope.factor is not None:
            yield (Cause(f"the scaling is {simple} (the spec says {kind})"),), _as(simple)


def _as(kind: str) -> Exponent:
    return lambda frequencies: lambda rope: frequencies(replace(unscaled(rope), scaling=kind, factor=rope.factor))


def _twice(frequencies: Frequencies) -> Frequencies:
    def found(rope: Rope) -> Floats:
        once, plain = frequencies(rope), frequencies(unscaled(rope))
        return np.asarray(once * once / np.where(plain > 0, plain, 1.0))

    return found


def _other_factors(rope: Rope) -> tuple[tuple[Cause, ...], Exponent]:
    original = rope.original_max_position_embeddings or 0
    long = rope.read_at > original
    place = "at exactly" if rope.read_at == original else "above" if long else "below"
    used = "short" if long else "long"
    words = f"the {used} factors are used at length {rope.read_at}, {place} the original {original}"
    length = original if long else original + 1
    return (Cause(words),), lambda frequencies: lambda rope: frequencies(replace(rope, length=length))
