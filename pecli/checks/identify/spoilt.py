"""Tables whose positions or angles went through bfloat16 on the way: no pure waves, yet read as what they were.

Positions in bfloat16 stand still for some rows and then jump: the rows that differ are waves over longer steps.
Angles in bfloat16 are known to be within half a unit of the true ones, in every row: together they leave little room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pecli.checks.identify import aliases, positions, refine
from pecli.checks.identify.curve import Curve
from pecli.checks.identify.frequencies import Channels, silent_rows, turned_over, two_functions
from pecli.engine.arrays import Floats

_HALF_UNIT = 2.0**-8
"""Of a number in [0.5, 1), times two: half the distance of neighbours in bfloat16, relative to its power of two."""
_ENOUGH = 16


def filled(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """The parts with a row of zeros, as at a padding position, replaced by its neighbour."""
    silent = np.flatnonzero(silent_rows(first, second))
    if len(silent) != 1 or len(first) < 2:
        return first, second
    row = int(silent[0])
    parts = first.copy(), second.copy()
    for part in parts:
        part[row] = part[row - 1 if row else 1]
    return parts


def repeated(first: Floats, second: Floats) -> int | None:
    """The first row that the next one repeats, if any."""
    same = (first[1:] == first[:-1]).all(axis=1) & (second[1:] == second[:-1]).all(axis=1)
    return int(same.argmax()) if same.any() else None


def by_steps(first: Floats, second: Floats, unit: float) -> Iterator[tuple[Curve, int, bool]]:
    """Frequencies, offset, and whether the sine comes first, of a table whose positions jump from the start."""
    new = np.flatnonzero(np.r_[True, ((first[1:] != first[:-1]) | (second[1:] != second[:-1])).any(axis=1)])
    if len(new) < 3:
        return
    step = 2 ** round(np.log2((new[-1] - new[1]) / max(1, len(new) - 2)))
    measured = two_functions(first[new], second[new], unit)
    for sine_first in (True, False):
        channels = aliases.unfolded(turned_over(measured) if sine_first else measured, float(step))
        parts = (second[new], first[new]) if sine_first else (first[new], second[new])
        for place in positions.offsets(channels, (256,)):
            if place < 128:  # bfloat16 has eight bits
                continue
            start = step * place + step // 2 + (1 - place % 2) - int(new[1])
            frequency, error = refine.from_both(*parts, place, refine.at_offset(channels, place), unit)
            yield Curve(frequency / step, error / step), start, sine_first


def by_rounded_angles(first: Floats, second: Floats, unit: float) -> Iterator[tuple[Curve, int, bool]]:
    """The same of a table whose angles were rounded."""
    rows = min(len(first), 64)
    measured = two_functions(first[:rows], second[:rows], max(unit, 2.0**-9))
    slow = np.abs(measured.frequency) * rows < 3
    if slow.sum() < 2:
        return
    backwards = float(np.median(measured.frequency[slow])) < 0
    size = np.abs(measured.frequency) * 2.0**-9
    measured = replace(
        measured,
        frequency_error=np.maximum(measured.frequency_error, size),
        phase_error=np.maximum(measured.phase_error, size * rows),
    )
    channels = turned_over(measured) if backwards else measured
    cosine, sine = (second, first) if backwards else (first, second)
    for place in positions.offsets(channels, relative=2.0**-8):
        curve = _squeezed(np.arctan2(sine, cosine), place, channels, unit)
        if curve is not None:
            yield curve, place, backwards


def _squeezed(angle: Floats, offset: int, channels: Channels, unit: float) -> Curve | None:
    """Frequencies that every rounded angle allows."""
    places = offset + np.arange(len(angle), dtype=np.float64)[:, None]
    frequency = channels.frequency.copy()
    doubt = np.maximum(3 * channels.frequency_error / np.maximum(np.abs(frequency), 1e-12), _HALF_UNIT)
    low, high = frequency * 0.5, frequency * 2
    for _ in range(6):
        expected = places * frequency
        whole = angle + 2 * np.pi * np.rint((expected - angle) / (2 * np.pi))
        half = np.ldexp(_HALF_UNIT / 2, np.frexp(np.abs(whole) * (1 + unit))[1]) * 1.001
        half += 2 * unit * np.minimum(1, np.abs(whole)) + 1e-12
        usable = (places > 0) & (doubt * np.abs(expected) + half < 2.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            low = np.where(usable, (whole - half) / places, -np.inf).max(axis=0)
            high = np.where(usable, (whole + half) / places, np.inf).min(axis=0)
        good = np.isfinite(low) & np.isfinite(high) & (low <= high)
        if good.mean() < 0.5:
            return None
        frequency = np.where(good, (low + high) / 2, frequency)
        doubt = np.where(good, np.maximum((high - low) / 2 / np.maximum(np.abs(frequency), 1e-300), 1e-7), doubt)
    error = np.where(good, (high - low) / 4 + 1e-8 * np.abs(frequency), np.inf)
    return Curve(frequency, error)


def enough_rows(row: int | None) -> bool:
    """Whether the rows before the first repetition tell the table by themselves."""
    return row is not None and row + 1 >= _ENOUGH
