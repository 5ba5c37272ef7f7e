"""A base that gives the very table, among the numbers that people write, where the measured one only comes near."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pecli.checks.identify.numerals import digits
from pecli.checks.identify.recipes import Trial
from pecli.engine.arrays import Floats
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.checks.identify.recipes import Evidence
    from pecli.engine.schemes.scheme import Scheme


_CHOSEN = 2
"""Digits of a base that leaves no doubt."""
_PLACES = 5
"""Digits that people write."""
_DOUBT = 4e-3
"""How far the measured base may be off, relatively, in the coarsest dtype."""
_SIDE = 50
"""Numbers that are tried on each side."""
_SHIFTS = (0.0, 1.0, 0.5)
_ROWS = 128


def sharpened(trial: Trial, evidence: Evidence, angles: Floats, amplitude: float) -> Trial:
    """The trial with another base, and the shift that goes with it, if those make every element of the table."""
    if not trial.error or not trial.exact or evidence.dtype not in ("float16", "bfloat16"):
        return trial
    if digits(getattr(trial.scheme, "base", 1.0)) <= _CHOSEN:
        return trial
    few = evidence.first(_ROWS)
    for changes in _changes(trial.scheme):
        try:
            scheme = replace(trial.scheme, **changes)
        except ParameterError:
            continue
        if few.distance(scheme, angles[: few.rows], amplitude)[0] == 0:
            measured = evidence.distance(scheme, angles, amplitude)
            if measured[0] == 0:
                return Trial(scheme, *measured, trial.undetermined)
    return trial


def _changes(scheme: Scheme) -> Iterator[dict[str, Any]]:
    if isinstance(scheme, Sinusoidal):
        half = scheme.half
        for shift in dict.fromkeys((scheme.freq_shift, *_SHIFTS)):
            if half - max(shift, scheme.freq_shift) >= 1:
                base = scheme.base ** ((half - shift) / (half - scheme.freq_shift))
                yield from ({"base": value, "freq_shift": shift} for value in _near(base))
    elif isinstance(scheme, Rope):
        yield from ({"base": value} for value in _near(scheme.base))


def _near(base: float) -> Iterator[float]:
    """Numbers of few digits about a base, shorter ones first."""
    seen = set()
    for places in range(1, _PLACES):
        step = 10.0 ** (math.floor(math.log10(base)) - places)
        reach = min(_SIDE, int(base * _DOUBT / step))
        for k in sorted(range(-reach, reach + 1), key=abs):
            value = float(f"{base + k * step:.{places}e}")
            if value > 1 and value not in seen:
                seen.add(value)
                yield value
