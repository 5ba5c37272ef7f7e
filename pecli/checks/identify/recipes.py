"""Holding a scheme against the table: how far apart they are, and by which recipe the table was computed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.identify.numerals import digits
from pecli.engine.arrays import Array, Floats
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import narrowest, widened
from pecli.engine.schemes.rope import Rope

if TYPE_CHECKING:
    from pecli.engine.schemes.scheme import Scheme


OTHERS = (
    "float32",
    "float32-recurrence",
    "float16-table",
    "bfloat16-table",
    "bfloat16-inv-freq",
    "bfloat16-positions",
    "bfloat16-phases",
)
"""Recipes that are tried where the exact one does not give the table."""
SPOILING = ("bfloat16-positions", "bfloat16-phases")
"""Recipes that leave no pure waves."""
_SINGLE = 2.0**-23
_MOST_DRIFT = 0.1
"""Of the amplitude, that float32 angles may be off by; what may be off by more, as far out, says nothing."""
_RARE = 3
_FEW = 256
_NOT_FAR = 0.05
_AS_NEAR = 1.5
"""Exact values that are not further off than this, relative to a recipe, are taken for exact."""


def unit(dtype: str) -> float:
    """The relative error of rounding to a dtype."""
    return float(2.0 ** -SIGNIFICAND_BITS[dtype])


def precision(values: Floats, dtype: str) -> str:
    """The narrowest dtype that has the values, going by some rows."""
    return narrowest(values[:: max(1, len(values) // 64)], dtype)


def held(values: Floats, dtype: str) -> str:
    """The dtype that numbers have: those of float32 keep it in a file of float64, such as a .csv."""
    return "float32" if dtype == "float64" and precision(values, dtype) == "float32" else dtype


@dataclass(frozen=True)
class Evidence:
    """The numbers to be explained: `pe` as (rows, dim), or cos and sin (or one of them) as (rows, frequencies)."""

    parts: dict[str, Floats]
    dtype: str
    narrow: str
    """The precision that the numbers have, which may be less than that of their dtype."""

    @property
    def rows(self) -> int:
        return len(next(iter(self.parts.values())))

    def first(self, rows: int) -> Evidence:
        """The first rows only."""
        return Evidence({name: part[:rows] for name, part in self.parts.items()}, self.dtype, self.narrow)

    def made(self, scheme: Scheme) -> dict[str, Floats]:
        """The same parts as the scheme makes them."""
        here = replace(scheme, seq_len=self.rows)  # type: ignore[call-arg]
        if isinstance(here, Rope):
            here = replace(here, layout="compact")
        tables: dict[str, Array] = {table.name: table.array() for table in here.tensors() if table.name in self.parts}
        return {name: widened(table) for name, table in tables.items()}

    def distance(self, scheme: Scheme, angles: Floats, amplitude: float) -> tuple[float, float, float]:
        """The largest error of the exact values or recipe, the same in units of what it may be, and that of most rows.

        `angles` is the largest angle of each row: float32 arithmetic errs in proportion to it.
        """
        made = self.made(scheme)
        slack = amplitude * 2 * unit(self.narrow)
        if self.dtype == "float64" and self.narrow == "float64":
            allowed = amplitude * (4e-16 + angles * 2.0**-51)
        else:
            allowed = slack + amplitude * np.minimum(_SINGLE * 6 * angles, _MOST_DRIFT)
        worst, share, usual = 0.0, 0.0, 0.0
        for name, values in self.parts.items():
            error = np.abs(made[name] - values)
            error[np.isnan(error)] = np.inf
            rows = error.max(axis=1)
            worst = max(worst, float(rows.max()))
            share = max(share, float((rows / allowed).max()))
            usual = max(usual, float(np.median(rows)))
        return worst, share, usual


@dataclass(frozen=True)
class Trial:
    """A scheme held against the numbers."""

    scheme: Scheme
    error: float
    share: float
    """The error over what is allowed."""
    usual: float
    """The error of most rows: recipes may spoil the others."""
    undetermined: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return getattr(self.scheme, "recipe", "exact") == "exact"

    @property
    def passed(self) -> bool:
        return self.share <= 1


def settled(
    candidates: Iterable[tuple[Scheme, tuple[str, ...]]],
    evidence: Evidence,
    angles: Floats,
    amplitude: float,
    only: str = "",
) -> Trial | None:
    """The first scheme that gives the very numbers, exactly or by a recipe; else the nearest that is near enough.

    Schemes are tried on the first rows, before all of them are made. `only` is a recipe that must have been.
    """
    few = evidence.first(_FEW)
    only = only or (f"{evidence.narrow}-table" if evidence.narrow != evidence.dtype else "")
    tried: list[Trial] = []
    for scheme, said in candidates:
        for variant in _variants(replace(scheme, recipe=only)) if only else [scheme]:  # type: ignore[call-arg]
            trial = Trial(variant, *few.distance(variant, angles[: few.rows], amplitude), said)
            if trial.passed and few.rows < evidence.rows:
                trial = Trial(variant, *evidence.distance(variant, angles, amplitude), said)
            if trial.error == 0:
                return trial
            tried.append(trial)
    others = [] if only in SPOILING else list(_by_other_recipes(_promising(tried), evidence, angles, amplitude))
    if others and others[-1].error == 0:
        return others[-1]
    return _simplest([trial for trial in (*tried, *others) if trial.passed])


def _promising(tried: Sequence[Trial]) -> list[Trial]:
    """Schemes that a recipe may bring nearer: the nearest, simpler ones first, and the simplest that are not far."""
    near = sorted(tried, key=lambda trial: round(2 * math.log2(trial.usual + 1e-300)))[:3]
    simple = sorted((trial for trial in tried if trial.usual < _NOT_FAR), key=lambda trial: _digits(trial.scheme))
    return near + [trial for trial in simple[:1] if trial not in near]


def _simplest(passed: Sequence[Trial]) -> Trial | None:
    """Of schemes that are all near enough the one with the shortest numbers; of its recipes the nearest, or exact."""
    if not passed:
        return None
    least = min(trial.error for trial in passed)
    first = min(passed, key=lambda trial: _digits(trial.scheme) + 4 * math.log10(trial.error / least + 1))
    same = [trial for trial in passed if _exactly(trial.scheme) == _exactly(first.scheme)]
    return min(same, key=lambda trial: trial.error / (_AS_NEAR if trial.exact else 1))


def _digits(scheme: Scheme) -> int:
    """How many digits the numbers of a scheme have together; a shift that hardly anybody has counts for more, and a
    base for less that is nearly the usual one, as where its logarithm was typed.
    """
    values = scheme.spec()["parameters"].values()
    rare = bool(getattr(scheme, "freq_shift", 0.0) not in (0.0, 1.0))
    typed = bool(0 < abs(getattr(scheme, "base", 1.0) / 10000 - 1) < 1e-3)
    return sum(digits(value) for value in values if isinstance(value, float)) + _RARE * (rare - typed)


def _exactly(scheme: Scheme) -> Scheme:
    return replace(scheme, recipe="exact")  # type: ignore[call-arg]


def _by_other_recipes(tried: Sequence[Trial], evidence: Evidence, angles: Floats, amplitude: float) -> Iterator[Trial]:
    """The nearest schemes once more, by each recipe that may be; until one gives the very numbers."""
    few, least = evidence.first(_FEW), math.inf
    for name in OTHERS:
        for trial in tried:
            if not _plausible(name, evidence, trial, amplitude):
                continue
            for scheme in _variants(replace(trial.scheme, recipe=name)):  # type: ignore[call-arg]
                again = Trial(scheme, *few.distance(scheme, angles[: few.rows], amplitude), trial.undetermined)
                if again.error > 2 * least or not again.passed:
                    continue
                least = min(least, again.error)
                if few.rows < evidence.rows:
                    again = Trial(scheme, *evidence.distance(scheme, angles, amplitude), trial.undetermined)
                if again.passed and (again.error == 0 or _exactly(scheme) == _exactly(trial.scheme)):
                    yield again
                if again.error == 0:
                    return


def _variants(scheme: Scheme) -> Iterator[Scheme]:
    """The scheme; and of a rotary one without scaling the same with frequencies that are rounded once, as after one."""
    yield scheme
    if isinstance(scheme, Rope) and scheme.scaling == "none" and not scheme.recipe.endswith("-table"):
        yield replace(scheme, scaling="linear", factor=1.0)


def _plausible(name: str, evidence: Evidence, trial: Trial, amplitude: float) -> bool:
    """Whether a recipe may explain the numbers at all; making tables takes time."""
    if name.startswith("bfloat16") and not name.endswith("-table"):
        return trial.error > 2.0**-9
    if trial.usual > _NOT_FAR * amplitude:
        return False
    if name.endswith("-table"):
        twice = name == "float16-table" and evidence.dtype == "bfloat16"
        return twice or (evidence.narrow != evidence.dtype and name.removesuffix("-table") == evidence.narrow)
    return evidence.dtype != "float64"
