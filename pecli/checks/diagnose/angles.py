"""Frequencies as somebody may have computed them otherwise: every known mistake, alone and together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from pecli.checks.diagnose.causes import DEAREST, FITTED, LISTED, ODD, Cause, cost_of
from pecli.engine.arrays import Floats
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError

TYPED = (3.14, 3.1416, 3.14159)
"""What is typed for π."""


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

    @cached_property
    def cost(self) -> float:
        return cost_of(self.causes)


@dataclass(frozen=True)
class Fitted:
    """What the table itself suggests."""

    bases: tuple[float, ...] = ()
    stretches: tuple[float, ...] = ()
    """What positions may have been multiplied by."""


def usual(scheme: Rope | Sinusoidal, columns: int) -> Option:
    """The scheme's own frequencies."""
    from pecli.checks.diagnose.rope_angles import rope_options

    if isinstance(scheme, Rope):
        return next(rope_options(scheme, columns, ()))
    return next(sinusoidal_options(scheme, columns, ()))


def options(scheme: Rope | Sinusoidal, columns: int, fitted: Fitted) -> list[Option]:
    """All combinations of mistakes in the frequencies, the scheme's own first."""
    from pecli.checks.diagnose.rope_angles import rope_options

    if isinstance(scheme, Rope):
        every = rope_options(scheme, columns, fitted.bases)
    else:
        every = sinusoidal_options(scheme, columns, fitted.bases)
    found = [option for option in every if option.cost <= DEAREST]
    others = [by for by in fitted.stretches if not np.isclose(by, [unit for unit, _ in _units()], rtol=1e-6).any()]
    return [*found, *_other_units(found[0]), *(_stretched(found[0], by) for by in others)]


def bases(spec: float, fitted: tuple[float, ...]) -> list[tuple[tuple[Cause, ...], float]]:
    """The base of the spec, the one that is always forgotten, and those that the table suggests."""
    known: list[tuple[tuple[Cause, ...], float]] = [((), spec)]
    if spec != 10000.0:
        known.append(((_theta(10000.0, spec),), 10000.0))
    return known + [((_theta(base, spec, FITTED),), base) for base in fitted if base not in (spec, 10000.0)]


def _theta(value: float, spec: float, cost: float = LISTED) -> Cause:
    if cost == FITTED and value != float(f"{value:.2e}"):
        return Cause(f"theta is about {value:.12g} (the spec says {spec:.12g})", ODD)
    return Cause(f"theta is {value:.12g} (the spec says {spec:.12g})", cost)


def _other_units(own: Option) -> Iterator[Option]:
    for by, cause in _units():
        yield Option((cause,), _times(own, by), own.amplitude)


def _units() -> Iterator[tuple[float, Cause]]:
    """Angles in degrees or turns, or taken for such; with π, and as it is typed by those who type it."""
    for pi in (np.pi, *TYPED):
        told, cost = ("", LISTED) if pi == np.pi else (f", with π typed as {pi:g}", FITTED)
        for by, words in (
            (180 / pi, "angles are in degrees, where sine and cosine take radians"),
            (2 * pi, "angles are multiplied by 2π, as if frequencies were turns a position, not radians"),
            (0.5 / pi, "angles are divided by 2π, as where they are counted in turns"),
            (pi / 180, "angles are multiplied by π/180, as if frequencies were degrees a position"),
            (pi, "angles are multiplied by π"),
        ):
            yield by, Cause(words + told, cost)


def _times(own: Option, by: float) -> Callable[[], Floats]:
    return lambda: np.asarray(own.compute() * by)


def _stretched(own: Option, by: float) -> Option:
    words = f"multiplied by {by:.7g}" if by > 1 else f"divided by {1 / by:.7g}"
    return Option((Cause(f"positions are {words}", FITTED),), _times(own, by), own.amplitude)


def sinusoidal_options(pe: Sinusoidal, columns: int, fitted: tuple[float, ...]) -> Iterator[Option]:
    """base^(−i / (D/2 − shift)) · scale, with each of them otherwise."""
    index = np.arange(columns)
    for (one, base), (two, below), (three, scale) in product(
        bases(pe.base, fitted), _denominators(pe, columns), _scales(pe)
    ):
        exponent = -index / below if below else np.zeros(columns)
        yield Option((*one, *two, *three), _geometric(base, exponent, scale), pe.amplitude)


def _geometric(base: float, exponent: Floats, scale: float) -> Callable[[], Floats]:
    return lambda: np.asarray(scale * base**exponent)


def _denominators(pe: Sinusoidal, columns: int) -> Iterator[tuple[tuple[Cause, ...], float]]:
    """What the index is divided by in the exponent."""
    half = pe.half
    yield (), half - pe.freq_shift
    for shift in (0.0, 1.0):
        if shift != pe.freq_shift and half - shift >= 0.5:
            words = "D/2 − 1 instead of D/2" if shift else f"D/2 instead of D/2 − {pe.freq_shift:g}"
            yield (Cause(f"the exponent divides by {words}"),), half - shift
    yield (Cause("the exponent is i/D instead of 2i/D"),), 2 * half
    if half > 1:
        yield (Cause("the exponent is 0 for all, as where whole numbers are divided"),), math.inf
        yield (Cause("the exponent has the wrong sign: frequencies grow from channel to channel"),), -half
    if columns != pe.dim // 2:
        yield (Cause(f"dim is {2 * columns} (the spec says {pe.dim})"),), columns - pe.freq_shift


def _scales(pe: Sinusoidal) -> Iterator[tuple[tuple[Cause, ...], float]]:
    yield (), pe.scale
    if pe.scale != 1:
        yield (Cause(f"positions are not scaled by {pe.scale:g}"),), 1.0
    if pe.scale != 1000:
        yield (Cause(f"positions are scaled by 1000 (the spec says {pe.scale:g})"),), 1000.0
