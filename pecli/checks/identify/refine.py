"""Frequencies once more, when the position of the first row and the amplitude are known.

Every row then tells the whole angle, not only its change; and small sines tell it to the last of their own digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pecli.checks.identify.frequencies import TURN, Channels, repetition, silent_rows
from pecli.engine.arrays import Flags, Floats

_SMALLEST = 1e-12
"""Angles below this say nothing more."""


def at_offset(channels: Channels, offset: int) -> Floats:
    """The frequencies nearest to the measured ones that give the phases at that offset."""
    if not offset:
        return channels.frequency
    turns = np.rint((channels.frequency * offset - channels.phase) / TURN)
    exact = (channels.phase + TURN * turns) / offset
    better = channels.phase_error / offset < channels.frequency_error
    return np.where(better & (channels.frequency_error * offset < 1), exact, channels.frequency)


def from_both(cosine: Floats, sine: Floats, offset: int, frequency: Floats, unit: float) -> tuple[Floats, Floats]:
    """Frequencies and their errors, from cosine and sine."""
    silent = silent_rows(cosine, sine)
    places = offset + np.arange(len(cosine), dtype=np.float64)[:, None]
    z = cosine + 1j * sine
    for _ in range(2):
        rest = np.angle(z * np.exp(-1j * places * frequency))
        size = np.minimum(1.0, np.abs(places * frequency)) + _SMALLEST
        weights = 1 / (unit * size) ** 2
        weights[silent] = 0
        power = (weights * places**2).sum(axis=0)
        change = (weights * places * rest).sum(axis=0) / np.maximum(power, 1e-300)
        frequency = frequency + change
    rest = rest - change * places
    count = max(1, len(z) - np.count_nonzero(silent))
    misfit = np.sqrt((weights * rest**2).sum(axis=0) / count)
    alike = repetition(cosine, sine)
    return frequency, np.maximum(misfit, 0.3) * alike / np.sqrt(np.maximum(power, 1e-300))


@dataclass(frozen=True)
class _Descent:
    frequency: Floats
    error: Floats
    misfit: Floats


def from_one(
    values: Floats, sine: bool, offset: int, starts: Floats, unknown: Flags, unit: float
) -> tuple[Floats, Floats]:
    """Frequencies and their errors, from cosine or sine alone, of amplitude 1.

    Channels that did not tell their frequency by themselves start where the law of the others has them, or from the
    value and slope in the middle, whichever ends nearer to the data.
    """
    best = _descended(values, sine, offset, starts, unit)
    if unknown.any():
        columns = values[:, unknown]
        chosen = _Descent(best.frequency[unknown], best.error[unknown], best.misfit[unknown])
        for start in _slow_starts(columns, sine, offset):
            other = _descended(columns, sine, offset, start, unit)
            better = other.misfit < 0.9 * chosen.misfit
            chosen = _Descent(*(np.where(better, b, a) for a, b in zip(_all(chosen), _all(other), strict=True)))
        for mine, found in zip(_all(best), _all(chosen), strict=True):
            mine[unknown] = found
    error = best.error * repetition(values)
    if not sine:  # a cosine near 1 tells the square of its angle
        error = np.minimum(error, np.sqrt(unit) / (offset + len(values)))
    return best.frequency, error


def _all(descent: _Descent) -> tuple[Floats, Floats, Floats]:
    return descent.frequency, descent.error, descent.misfit


def _descended(values: Floats, sine: bool, offset: int, frequency: Floats, unit: float) -> _Descent:
    """Least squares for one frequency a channel."""
    silent = silent_rows(values)
    places = offset + np.arange(len(values), dtype=np.float64)[:, None]
    weights = 1 / np.maximum(np.abs(values), 1e-6 if sine else 1.0) ** 2 / unit**2
    weights[silent] = 0
    count = max(1, len(values) - np.count_nonzero(silent))
    end = float(places[-1, 0])
    for _ in range(6):
        angle = places * frequency
        model, slope = (np.sin(angle), np.cos(angle)) if sine else (np.cos(angle), -np.sin(angle))
        slope = slope * places
        power = (weights * slope**2).sum(axis=0) + 1e-300
        change = (weights * slope * (values - model)).sum(axis=0) / power
        misfit = np.sqrt((weights * (values - model) ** 2).sum(axis=0) / count)
        limit = np.minimum(np.maximum(0.5 * np.abs(frequency), 1e-12), np.pi / end)
        frequency = np.abs(frequency + np.clip(change, -limit, limit))
    return _Descent(frequency, np.maximum(misfit, 0.3) / np.sqrt(power), misfit)


def _slow_starts(values: Floats, sine: bool, offset: int) -> Iterator[Floats]:
    """First frequencies of channels that turn little: from the value in the middle, and about the slope there."""
    end = offset + len(values) - 1
    if not offset:
        if sine:
            yield np.abs(np.arcsin(np.clip(values[1], -1, 1)))
            yield np.abs(np.arcsin(np.clip(values[-1], -1, 1))) / end
        yield np.arccos(np.clip(values[-1], -1, 1)) / end
        return
    middle = len(values) // 2
    here = np.clip(values[middle], -1, 1)
    reach = max(1, len(values) // 4)
    slope = (values[middle + reach - 1] - values[middle - reach]) / max(1, 2 * reach - 1)
    if sine:
        angle = np.where(slope >= 0, np.arcsin(here), np.pi - np.arcsin(here))
    else:
        angle = np.where(slope <= 0, np.arccos(here), -np.arccos(here))
    steep = np.sqrt(np.maximum(1 - here**2, 1e-12))
    place = offset + middle
    turns = np.rint((np.abs(slope) / steep * place - angle) / TURN)
    for more in (0, -1, 1, -2, 2):
        yield np.abs(angle + TURN * (turns + more)) / place
