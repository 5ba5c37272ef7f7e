"""Holding a scheme against the table: how far apart they are, and by which recipe the table was computed."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.dtypes import KINDS
from pecli.engine.rope import Rope
from pecli.engine.rounding import round_to, widened

if TYPE_CHECKING:
    from pecli.engine.arrays import Array, Floats
    from pecli.engine.scheme import Scheme

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
_SINGLE = 2.0**-23


def unit(dtype: str) -> float:
    """The relative error of rounding to a dtype."""
    return float(2.0 ** -KINDS[dtype])


def precision(values: Floats, dtype: str) -> str:
    """The narrowest dtype that holds the values: a float32 file may hold bfloat16 numbers."""
    some = values[:: max(1, len(values) // 64)]
    for narrow in ("bfloat16", "float16", "float32"):
        if KINDS[narrow] >= KINDS[dtype]:
            continue
        if np.array_equal(widened(round_to(some, narrow)), some):
            return narrow
    return dtype


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

    def made(self, scheme: Scheme) -> dict[str, Floats]:
        """The same parts as the scheme makes them."""
        here = replace(scheme, seq_len=self.rows)  # type: ignore[call-arg]
        if isinstance(here, Rope):
            here = replace(here, layout="compact")
        tables: dict[str, Array] = {table.name: table.array() for table in here.tensors() if table.name in self.parts}
        return {name: widened(table) for name, table in tables.items()}

    def distance(self, scheme: Scheme, angles: Floats, amplitude: float) -> tuple[float, float]:
        """The largest error of the exact values or recipe, and the same in units of what it may be.

        `angles` is the largest angle of each row: float32 arithmetic errs in proportion to it.
        """
        made = self.made(scheme)
        slack = amplitude * 2 * unit(self.narrow)
        if self.dtype == "float64" and self.narrow == "float64":
            allowed = amplitude * (4e-16 + angles * 2.0**-51)
        else:
            allowed = slack + amplitude * _SINGLE * 6 * angles
        worst, share = 0.0, 0.0
        for name, values in self.parts.items():
            error = np.abs(made[name] - values)
            error[np.isnan(error)] = np.inf
            rows = error.max(axis=1)
            worst = max(worst, float(rows.max()))
            share = max(share, float((rows / allowed).max()))
        return worst, share


def has_recipes(scheme: Scheme) -> bool:
    return any(field.name == "recipe" for field in fields(scheme))


def explained(scheme: Scheme, evidence: Evidence, angles: Floats, amplitude: float) -> tuple[Scheme, float] | None:
    """The scheme with the recipe that comes nearest to the table, and its largest error; None where none is near.

    Exact values that are within two units of the last place are exact, whatever a recipe would give.
    """
    worst, share = evidence.distance(scheme, angles, amplitude)
    if worst <= amplitude * 2 * unit(evidence.narrow) and evidence.narrow == evidence.dtype:
        return scheme, worst
    best = (scheme, worst) if share <= 1 else None
    if has_recipes(scheme):
        for name in OTHERS:
            if not _plausible(name, evidence, worst):
                continue
            other = replace(scheme, recipe=name)  # type: ignore[call-arg]
            error, share = evidence.distance(other, angles, amplitude)
            close = error <= amplitude * 2 * unit(evidence.dtype)
            if (share <= 1 or close) and (best is None or error < best[1]):
                best = other, error
            if close:
                break
    return best


def _plausible(name: str, evidence: Evidence, worst: float) -> bool:
    """Whether a recipe may explain the numbers at all; making tables takes time."""
    if name.endswith("-table"):
        return evidence.narrow != evidence.dtype and name.removesuffix("-table") == evidence.narrow
    if name.startswith("bfloat16"):
        return worst > 2.0**-9
    return evidence.dtype != "float64"
