"""Waves whose frequencies are right, and whose angles or sines are reckoned in a way that loses more than it need."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pecli.checks.diagnose.angles import TYPED, usual
from pecli.checks.diagnose.beside import Beside, beside
from pecli.checks.diagnose.precision import grain, places
from pecli.engine.arrays import Flags, Floats
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import Table

_MUCH = 4.0
"""An explanation is better than none by this factor at least."""
_FIT = 0.995
"""Of all elements, that must fit: float32 decides a few otherwise."""
_ALIKE, _NEAR, _ENOUGH = 0.9, 2e-4, 32
"""Of the elements whose angles are as near as this, so many are off alike; and as many there must be."""
_LOOP = 1 << 14
"""Rows that are made one by one."""
_LARGEST = 0.1
"""What an approximation may be off by, of the amplitude."""


def reckoned_otherwise(scheme: Scheme, name: str, table: Table) -> str:
    """How right frequencies were made into wrong waves; nothing where that is not what is wrong."""
    if not isinstance(scheme, (Rope, Sinusoidal)) or scheme.recipe != "exact":
        return ""
    each = next(beside(scheme, name, table), None)
    columns = None if each is None else _columns(scheme, name, table.width)
    if each is None or columns is None or each.layout or each.own.shape != each.raw.shape or len(each.own) < 8:
        return ""
    frequencies, sines = columns
    found = each.found
    error = np.abs(found - each.own)
    if not np.isfinite(found).all() or error.max() <= _MUCH * 2.0**-22 * each.height:
        return ""
    for words, waves, allowed in _models(scheme.offset, len(found), frequencies, sines):
        off = np.abs(found - each.height * waves)
        if (off <= each.height * allowed).mean() >= _FIT and _MUCH * np.quantile(off, _FIT) <= error.max():
            return words
    return _approximated(each, scheme.offset, frequencies, sines)


def _columns(scheme: Rope | Sinusoidal, name: str, width: int) -> tuple[Floats, Flags] | None:
    """The frequency of every column, and whether it is a sine."""
    half = width // 2
    if isinstance(scheme, Rope):
        each = np.array(scheme.frequencies().floats())
        wide = {"halves": np.tile(each, 2), "interleaved": np.repeat(each, 2)}.get(scheme.layout, each)
        return (wide, np.full(width, name == "sin")) if len(wide) == width and name in ("cos", "sin") else None
    own = usual(scheme, half).frequencies if width % 2 == 0 and name == "pe" else None
    if own is None or scheme.padding_idx is not None:
        return None
    first = np.arange(width) % 2 == 0 if scheme.layout == "interleaved" else np.arange(width) < half
    return np.repeat(own, 2) if scheme.layout == "interleaved" else np.tile(own, 2), first != scheme.cos_first


def _models(first: int, rows: int, frequencies: Floats, sines: Flags) -> Iterator[tuple[str, Floats, Floats | float]]:
    """Waves of other ways to reckon, with what they may be off by."""
    positions = first + np.arange(rows, dtype=np.float64)[:, None]
    angles = positions * frequencies
    added = "each angle is the one before plus the frequency, in float32, whose errors add up; multiply the position"
    yield added, _waves(_added_up(first, rows, frequencies), sines), 2.0**-20
    turned = "each row is the one before turned by one step, in float32, whose errors add up; multiply the position"
    if rows <= _LOOP:
        yield turned, _turned(first, rows, frequencies, sines), 2.0**-22 * (1 + np.sqrt(positions))
    for pi in TYPED:
        reduced = angles - 2 * pi * np.floor(angles / (2 * pi))
        yield f"angles are brought into one turn with π typed as {pi:g}", _waves(reduced, sines), 2.0**-21
        reduced = angles - 2 * pi * np.rint(angles / (2 * pi))
        yield f"angles are brought into one turn with π typed as {pi:g}", _waves(reduced, sines), 2.0**-21
        quarter = np.where(sines, np.sin(angles), np.sin(angles + pi / 2))
        yield f"cosines are sines a quarter of a turn later, with π typed as {pi:g}", quarter, 2.0**-21


def _waves(angles: Floats, sines: Flags) -> Floats:
    return np.where(sines, np.sin(angles), np.cos(angles))


def _turned(first: int, rows: int, frequencies: Floats, sines: Flags) -> Floats:
    """One complex product a row."""
    step = np.cos(frequencies).astype(np.float32), np.sin(frequencies).astype(np.float32)
    cos, sin = np.cos(first * frequencies).astype(np.float32), np.sin(first * frequencies).astype(np.float32)
    out = np.empty((rows, len(frequencies)))
    for row in range(rows):
        out[row] = np.where(sines, sin, cos)
        cos, sin = cos * step[0] - sin * step[1], sin * step[0] + cos * step[1]
    return out


def _added_up(first: int, rows: int, frequencies: Floats) -> Floats:
    """The sum of as many frequencies, one after the other; the first row's angle is a product."""
    steps = np.empty((rows, len(frequencies)), np.float32)
    steps[:] = frequencies
    steps[0] = first * frequencies
    return np.add.accumulate(steps, axis=0, dtype=np.float32).astype(np.float64)


def _approximated(each: Beside, first: int, frequencies: Floats, sines: Flags) -> str:
    """Whether elements are off by as much wherever the angle is the same: then it is the sine that is not one."""
    error = (each.found - each.own) / each.height
    most = float(np.abs(error).max())
    rows = int(min(len(error), 1024, max(0.0, most / (_MUCH * 2.0**-22) - first)))
    if rows < 8 or most > _LARGEST or places(grain(each.raw)) < places("float32"):  # which are off alike, too
        return ""
    angles = np.mod((first + np.arange(rows, dtype=np.float64))[:, None] * frequencies, 2 * np.pi)
    most = float(np.abs(error[:rows]).max())
    for kind in (sines, ~sines):
        if not kind.any():
            continue
        where, off = angles[:, kind].reshape(-1), error[:rows, kind].reshape(-1)
        order = np.argsort(where, kind="stable")
        where, off = where[order], off[order]
        telling = (np.diff(where) < _NEAR) & (np.abs(off[1:]) > 0.2 * most)
        alike = np.abs(np.diff(off))[telling] < 0.2 * most
        if len(alike) < _ENOUGH or alike.mean() < _ALIKE:
            return ""
    return (
        f"the angles are right, but sine and cosine are approximations: off by up to {most:.2g}, "
        "and by as much wherever the angle is the same"
    )
