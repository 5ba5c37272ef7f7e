"""Frequencies once more, when the position of the first row and the amplitude are known.

Every row then tells the whole angle, not only its change; and small sines tell it to the last of their own digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.identify.frequencies import TURN, Channels, silent_rows

if TYPE_CHECKING:
    from pecli.engine.arrays import Floats

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
    return frequency, np.maximum(misfit, 0.3) / np.sqrt(np.maximum(power, 1e-300))


def from_one(
    values: Floats, sine: bool, offset: int, frequency: Floats, amplitude: float, unit: float
) -> tuple[Floats, Floats]:
    """Frequencies and their errors, from cosine or sine alone; channels that are not known yet are nan."""
    silent = silent_rows(values)
    places = offset + np.arange(len(values), dtype=np.float64)[:, None]
    values = values / amplitude
    unknown = ~np.isfinite(frequency)
    frequency = np.where(unknown, _started(values, sine, places), frequency)
    floor = unit * 1e-6 if sine else unit
    weights = 1 / np.maximum(unit * np.abs(values), floor) ** 2
    weights[silent] = 0
    count = max(1, len(values) - np.count_nonzero(silent))
    power = misfit = np.ones(len(frequency))
    for _ in range(6):
        angle = places * frequency
        model, slope = (np.sin(angle), np.cos(angle)) if sine else (np.cos(angle), -np.sin(angle))
        slope = slope * places
        power = (weights * slope**2).sum(axis=0) + 1e-300
        change = (weights * slope * (values - model)).sum(axis=0) / power
        misfit = np.sqrt((weights * (values - model) ** 2).sum(axis=0) / count)
        limit = np.maximum(0.5 * np.abs(frequency), 1e-12) if not offset else np.pi / (offset + len(values))
        frequency = np.abs(frequency + np.clip(change, -limit, limit))
    return frequency, np.maximum(misfit, 0.3) / np.sqrt(power)


def _started(values: Floats, sine: bool, places: Floats) -> Floats:
    """First frequencies of channels that turn less than half a turn, from the value and slope of the last rows."""
    last = np.clip(values[-1], -1, 1)
    angle = np.arcsin(last) if sine else np.arccos(last)
    end = float(places[-1, 0])
    start = np.clip(values[0], -1, 1)
    if places[0, 0] == 0:
        if sine and len(values) > 1:
            first = np.arcsin(np.clip(values[1], -1, 1))
            return np.asarray(np.where(first * end < 1.2, np.abs(angle) / end, first))
        return np.asarray(angle / end)
    count = max(1, len(values) - 1)
    slope = (last - start) / count
    middle = np.clip(values[len(values) // 2], -1, 1)
    if sine:
        angle = np.where(slope >= 0, np.arcsin(middle), np.pi - np.arcsin(middle))
        steep = np.cos(angle)
    else:
        angle = np.where(slope <= 0, np.arccos(middle), -np.arccos(middle))
        steep = -np.sin(angle)
    rough = np.abs(slope) / np.maximum(np.abs(steep), 1e-9)
    place = float(places[len(values) // 2, 0])
    turns = np.rint((rough * place - angle) / TURN)
    return np.asarray(np.abs(angle + TURN * turns) / place)


