"""The base that a table was made with, from the table itself.

Any wave obeys x(p+1) + x(p−1) = 2·cos f · x(p), whatever its phase and amplitude: neighbouring rows give the
frequency of every column, and each of those a base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.diagnose.readings import Reading
from pecli.engine.rope import Rope
from pecli.engine.sinusoidal import Sinusoidal

if TYPE_CHECKING:
    from pecli.engine.arrays import Floats

_ROUND = tuple(m * 10.0**k for k in range(1, 10) for m in (1.0, 1.2, 1.5, 1.6, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0))
"""Bases that people choose."""


def measured(reading: Reading) -> Floats | None:
    """The frequency of each column in radians per row, from 0 to π; None where there are too few rows."""
    run = int(np.argmax(np.append(np.diff(reading.rows) != 1, True))) + 1
    if run < 3:
        return None
    above, below = np.zeros(reading.columns), np.zeros(reading.columns)
    for part in reading.parts:
        x = part[:run]
        above += (x[1:-1] * (x[2:] + x[:-2])).sum(axis=0)
        below += (x[1:-1] ** 2).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.arccos(np.clip(above / (2 * below), -1, 1)))


def bases(scheme: Rope | Sinusoidal, reading: Reading) -> tuple[float, ...]:
    """Bases that come close to the measured frequencies, rounder ones first."""
    found = measured(reading)
    if found is None or len(found) < 2:
        return ()
    index, per_column = np.arange(len(found)), _per_column(scheme)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logs = -np.log(found / _scaled(scheme, len(found))) / (index * per_column)
        weights = (index * per_column * found * np.sin(found)) ** 2
    weights[~np.isfinite(logs) | (found < 0.02) | (found > 3.1)] = 0
    if not weights.sum():
        return ()
    log = float((logs[weights > 0] * weights[weights > 0]).sum() / weights.sum())
    if not 0 < log < 60:
        return ()
    about = float(np.exp(log))
    rounds = [float(f"{about:.{digits}e}") for digits in range(6)]
    return tuple(dict.fromkeys([*rounds, *(each for each in _ROUND if abs(each / about - 1) < 0.2)]))


def _per_column(scheme: Rope | Sinusoidal) -> float:
    """The exponent of the base falls by this from column to column."""
    if isinstance(scheme, Rope):
        return 2 / scheme.exponent_dim
    half = scheme.dim // 2 if scheme.layout == "halves" else scheme.dim / 2
    return 1 / (half - scheme.freq_shift)


def _scaled(scheme: Rope | Sinusoidal, columns: int) -> Floats:
    """What scaling multiplies the frequencies by."""
    if isinstance(scheme, Sinusoidal):
        return np.full(columns, scheme.scale)
    own = np.array(scheme.frequencies().floats())
    ratio = own * scheme.base ** (np.arange(len(own)) * _per_column(scheme))
    return np.concatenate([ratio, np.ones(columns)])[:columns]
