"""The base that a table was made with, from the table itself.

Any wave obeys x(p+1) + x(p−1) = 2·cos f · x(p), whatever its phase and amplitude: neighbouring rows give the
frequency of every column, and each of those a base.
"""

from __future__ import annotations

import numpy as np

from pecli.checks.diagnose.angles import Fitted
from pecli.checks.diagnose.readings import WaveReading
from pecli.engine.arrays import Flags, Floats
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal

_ROUND = tuple(m * 10.0**k for k in range(1, 10) for m in (1.0, 1.2, 1.5, 1.6, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0))
"""Bases that people choose."""


_CLEAR, _SEVERAL = 0.02, 4
"""Radians a row from which a frequency is measured well, and how many such make a rule."""

_FAST = 0.1
"""Radians a row from which a frequency is measured well in any dtype."""

_MEASURED = 0.002
"""Radians a row from which a frequency is measured at all, where values have the bits of float32."""

_WAVY = 0.02
"""How far a measured wave may be off, over the first rows."""


def measured(reading: WaveReading) -> Floats | None:
    """The frequency of each column in radians per row, from 0 to π; None where there are too few rows."""
    run = int(np.argmax(np.append(np.diff(reading.rows) != 1, True))) + 1
    if run < 3:
        return None
    above, below = np.zeros(reading.columns), np.zeros(reading.columns)
    for part in reading.parts:
        x = part[:run]
        above += (x[1:-1] * (x[2:] + x[:-2])).sum(axis=0)
        below += (x[1:-1] ** 2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.asarray(np.arccos(np.clip(above / (2 * below), -1, 1)))


def garbage(scheme: Rope, reading: WaveReading) -> str:
    """What to say of waves whose frequencies follow no rule; nothing where the first one is right, or no wave."""
    found, own = measured(reading), scheme.frequencies().floats()[0]
    run = int(np.argmax(np.append(np.diff(reading.rows) != 1, True))) + 1
    if found is None or run < 8 or not np.isfinite(found).all() or abs(found[0] - own) < 0.01 * own:
        return ""
    if len(reading.parts) == 2 and not found.any():
        return "nothing turns: inv_freq is zero, as if it was never initialised"
    clear = found[found > _CLEAR]
    if (np.diff(clear) <= 0).all() and len(clear) >= _SEVERAL:  # frequencies of some rule, if not of a known one
        return ""
    slow = found[found > _MEASURED][-_SEVERAL:]
    steps = slow[1:] / slow[:-1]
    if len(slow) == _SEVERAL and (steps < 1).all() and np.ptp(steps) < 0.1 * (1 - steps).min():
        return ""  # the slow ones follow a rule: the fast ones turn by more than half a turn a row, and seem slower
    angles = np.outer(reading.rows[:run] + scheme.offset, found)
    for name, part in zip(reading.functions, reading.parts, strict=True):
        wave = np.cos(angles) if name == "cos" else np.sin(angles)
        if np.abs(np.abs(part[:run]) - np.abs(wave)).max() > _WAVY:  # beyond π a sine turns the other way
            return ""
    words = f"waves of no order, the first of {found[0]:.4g} where {own:.4g} is expected"
    return f"as if inv_freq was never initialised: {words}"


def fitted(scheme: Rope | Sinusoidal, reading: WaveReading) -> Fitted:
    """Bases, and factors of the positions, that come close to the measured frequencies; rounder ones first."""
    found = measured(reading)
    if found is None:
        return Fitted()
    index, exponent = np.arange(len(found)), _exponent(scheme) * np.arange(len(found))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logs = np.log(found / _scaled(scheme, len(found)))
        clear = np.isfinite(logs) & (found > _CLEAR) & (found < 3.1) & (index >= _slower_from(found))
        sharp: Floats = np.where(clear, found * np.sin(found), 0.0)
        base = _mean(-logs / exponent, np.square(exponent * sharp), clear & (index > 0))
        stretch = _mean(logs + exponent * np.log(scheme.base), np.square(sharp), clear)
    return Fitted(_bases(base), _stretches(stretch))


def _slower_from(found: Floats) -> int:
    """The column from which on frequencies fall; what turns by more than half a turn a row seems slower than it is."""
    risen = np.flatnonzero((np.diff(found) > _CLEAR) & (found[1:] > _FAST))
    return int(risen[-1]) + 1 if risen.size else 0


def _mean(values: Floats, weights: Floats, where: Flags) -> float | None:
    total = float(weights[where].sum())
    return float((values[where] * weights[where]).sum()) / total if total > 0 else None


def _bases(log: float | None) -> tuple[float, ...]:
    if log is None or not 0 < log < 60:
        return ()
    about = float(np.exp(log))
    known = [each for each in _ROUND if abs(each / about - 1) < 0.2]
    return tuple(dict.fromkeys(each for each in [*_rounder(about), *known] if each > 1))


def _stretches(log: float | None) -> tuple[float, ...]:
    if log is None or not 1e-3 < abs(log) < 20:
        return ()
    by = float(np.exp(log))
    return tuple(dict.fromkeys(_rounder(by) if by > 1 else [1 / each for each in _rounder(1 / by)]))


def _rounder(value: float) -> list[float]:
    """The value to one digit, two, and so on."""
    return [float(f"{value:.{digits}e}") for digits in range(6)]


def _exponent(scheme: Rope | Sinusoidal) -> float:
    """The exponent of the base falls by this from column to column."""
    if isinstance(scheme, Rope):
        return 2 / scheme.exponent_dim
    return 1 / ((scheme.half - scheme.freq_shift) or 1.0)


def _scaled(scheme: Rope | Sinusoidal, columns: int) -> Floats:
    """What scaling multiplies the frequencies by."""
    if isinstance(scheme, Sinusoidal):
        return np.full(columns, scheme.scale)
    own = np.array(scheme.frequencies().floats())
    ratio = own * scheme.base ** (np.arange(len(own)) * _exponent(scheme))
    return np.concatenate([ratio, np.ones(columns)])[:columns]
