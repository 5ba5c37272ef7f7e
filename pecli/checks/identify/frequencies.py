"""What each channel of a table does: its frequency and phase, with how far the data leave them open.

A channel is amplitude · cos(frequency · row + phase). Where cosine and sine are both there, the frequency is read off
the angle between rows that lie 1, 2, 4, … apart, so that it is never ambiguous; where there is only one function, off
x[p+K] + x[p−K] = 2·cos(K·f)·x[p], and refined over windows that grow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pecli.engine.arrays import Complex, Flags, Floats

TURN = 2 * np.pi


@dataclass(frozen=True)
class Channels:
    """Frequencies (radians a row) and phases at the first row, with their errors; and the amplitude of all."""

    frequency: Floats
    frequency_error: Floats
    phase: Floats
    phase_error: Floats
    amplitude: float
    amplitude_error: float
    noise: Floats
    """How far the data are from pure waves, in radians."""

    @property
    def pure(self) -> bool:
        """Whether most channels are waves, if only still ones; fast ones may suffer from a recipe."""
        return bool((self.noise < 0.03).mean() > 0.4 and (self.noise < 0.3).any())


def turned_over(channels: Channels) -> Channels:
    """The channels with cosine and sine exchanged."""
    return replace(channels, frequency=-channels.frequency, phase=wrapped(np.pi / 2 - channels.phase))


def wrapped(angle: Floats) -> Floats:
    """Angles brought between −π and π."""
    return np.asarray(angle - TURN * np.rint(angle / TURN))


def silent_rows(*parts: Floats) -> Flags:
    """Rows in which every part is zero throughout, as at a padding position."""
    return np.asarray(~np.any([part.any(axis=1) for part in parts], axis=0))


def repetition(*parts: Floats) -> Floats:
    """How much less a channel tells whose values stay the same for many rows: rounding errs there all one way."""
    changes = np.max([np.count_nonzero(np.diff(part, axis=0), axis=0) for part in parts], axis=0)
    return np.asarray(np.sqrt(len(parts[0]) / np.maximum(1, changes)))


def constant_size(parts: tuple[Floats, Floats], unit: float) -> bool:
    """Whether two parts lie on a circle: c² + s² is the same everywhere, but for rows of zeros."""
    step = max(1, len(parts[0]) // 16)
    for rows in (slice(None, None, step), slice(None)):
        sizes = np.hypot(parts[0][rows], parts[1][rows])
        sizes = sizes[~silent_rows(sizes)]
        largest = sizes.max(initial=0.0)
        if largest == 0 or not np.isfinite(largest) or sizes.min() < largest * (1 - 6 * max(unit, 2.0**-52)):
            return False
    return True


def two_functions(cosine: Floats, sine: Floats, unit: float) -> Channels:
    """The channels of a table that has both functions."""
    z = cosine + 1j * sine
    silent = silent_rows(z.real, z.imag)
    count = len(z) - np.count_nonzero(silent)
    amplitude = float(np.abs(z[~silent]).mean())
    frequency = _by_doubling(z)
    rows = np.arange(len(z), dtype=np.float64)[:, None]
    turned = z * np.exp(-1j * rows * frequency)
    centre = turned.sum(axis=0)
    rest = np.angle(turned * np.exp(-1j * np.angle(centre)))
    rest[silent] = 0
    weights = (~silent).astype(np.float64)[:, None]
    middle = float((rows * weights).sum() / count)
    spread = float((weights * (rows - middle) ** 2).sum()) or 1.0
    level = (rest * weights).sum(axis=0) / count
    slope = (weights * (rows - middle) * rest).sum(axis=0) / spread if len(z) > 1 else np.zeros(z.shape[1])
    noise = np.sqrt((weights * (rest - level - slope * (rows - middle)) ** 2).sum(axis=0) / count)
    noise = np.maximum(noise, unit / 4)
    doubt = noise * repetition(z.real, z.imag)
    phase = wrapped(np.angle(centre) + level - slope * middle)
    frequency_error = doubt / np.sqrt(spread) if len(z) > 1 else np.full(z.shape[1], np.inf)
    phase_error = doubt * np.sqrt(1 / count + middle**2 / spread)
    scatter = unit / np.sqrt(count * z.shape[1])
    error = amplitude * scatter
    return Channels(wrapped(frequency + slope), frequency_error, phase, phase_error, amplitude, error, noise)


def _by_doubling(z: Complex) -> Floats:
    """Frequencies from pairs of rows that lie ever further apart; a channel stops where the pairs disagree."""
    width = z.shape[1]
    frequency = np.zeros(width)
    going = np.ones(width, bool)
    step = 1
    while step <= max(1, len(z) // 2) and step < len(z) and going.any():
        product = np.einsum("ph,ph->h", z[step:], z[:-step].conj())
        size = np.einsum("ph,ph->h", np.abs(z[step:]), np.abs(z[:-step]))
        going &= np.abs(product) > 0.8 * np.maximum(size, 1e-300)
        change = np.angle(product * np.exp(-1j * frequency * step)) / step
        frequency = np.where(going, frequency + change, frequency)
        step *= 2
    return frequency


def one_function(values: Floats, unit: float) -> Channels | None:
    """The channels of a table that has one function only; None where they are no waves.

    Channels that do not turn far enough to be read by themselves have infinite errors.
    """
    silent = silent_rows(values)
    frequency = _from_recurrences(values, silent)
    if frequency is None:
        return None
    window, fit = 16, None
    while True:
        window = min(window, len(values))
        fit = _fit(values[:window], silent[:window], frequency, unit)
        near = (np.abs(fit.change) < 2 / window) & (fit.frequency_error < 0.1 / window)
        frequency = np.where(near, frequency + fit.change, frequency)
        if window == len(values):
            break
        window *= 2
    for _ in range(3):
        fit = _fit(values, silent, frequency, unit)
        near = np.abs(fit.change) < 0.3 / window
        frequency = np.where(near, frequency + fit.change, frequency)
    known = (
        near
        & (fit.noise < 0.3 * fit.size)
        & (fit.size_error < 0.05 * fit.size)
        & (fit.frequency_error < 0.1 * frequency)
    )
    turning = known & (frequency * len(values) > 0.3)
    if not turning.any():
        return None
    weights = known / np.maximum(fit.size_error, 1e-100) ** 2
    amplitude = float((weights * np.where(known, fit.size, 0)).sum() / weights.sum())
    error = float(1 / np.sqrt(weights.sum()))
    frequency_error, phase_error = (np.where(known, each, np.inf) for each in (fit.frequency_error, fit.phase_error))
    return Channels(frequency, frequency_error, fit.phase, phase_error, amplitude, error, fit.noise)


@dataclass(frozen=True)
class _Fit:
    change: Floats
    frequency_error: Floats
    phase: Floats
    phase_error: Floats
    size: Floats
    size_error: Floats
    noise: Floats


def _from_recurrences(values: Floats, silent: Flags) -> Floats | None:
    """First frequencies, each from the smallest step over which its channel turns visibly."""
    length, width = values.shape
    frequency, found = np.zeros(width), np.zeros(width, bool)
    step = 1
    while 2 * step < length and not found.all():
        inner = slice(step, length - step)
        usable = ~(silent[inner] | silent[2 * step :] | silent[: length - 2 * step])
        middle = values[inner][usable]
        sums = (values[2 * step :] + values[: length - 2 * step])[usable]
        power = (middle**2).sum(axis=0)
        cosine = (middle * sums).sum(axis=0) / np.maximum(2 * power, 1e-300)
        if step == 1:
            rest = ((sums - 2 * cosine * middle) ** 2).sum(axis=0)
            if (rest > 0.05 * np.maximum(power, 1e-300) + 1e-300).any() or (np.abs(cosine) > 1.5).any():
                return None
        now = ~found & (cosine < 0.9) & (power > 0)
        frequency[now] = np.arccos(np.clip(cosine[now], -1, 1)) / step
        found |= now
        step *= 2
    return frequency


def _fit(values: Floats, silent: Flags, frequency: Floats, unit: float) -> _Fit:
    """One step of least squares for a·cos(f·row) + b·sin(f·row), all channels at once."""
    rows = np.arange(len(values), dtype=np.float64)[:, None]
    angle = rows * frequency
    cosine, sine = np.cos(angle), np.sin(angle)
    cosine[silent] = sine[silent] = 0
    plane = np.stack([cosine, sine])
    a, b = _solved(plane, values)[0]
    basis = np.stack([cosine, sine, rows * (b * cosine - a * sine) / len(values)])
    (a, b, change), spread = _solved(basis, values)
    rest = values - (a * cosine + b * sine + change * basis[2])
    rest[silent] = 0
    size = np.hypot(a, b)
    noise = np.maximum(np.sqrt((rest**2).mean(axis=0)), unit / 4 * size)
    errors = noise * repetition(values) * np.sqrt(np.maximum(spread, 0))
    return _Fit(
        change / len(values),
        errors[2] / len(values),
        np.arctan2(-b, a),
        np.maximum(errors[0], errors[1]) / np.maximum(size, 1e-300),
        size,
        np.maximum(errors[0], errors[1]),
        noise,
    )


def _solved(basis: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Least squares of every column over its own basis: the coefficients, and the diagonal of the inverse."""
    gram = np.einsum("kph,lph->hkl", basis, basis)
    gram += np.eye(len(basis)) * (1e-13 * np.trace(gram, axis1=1, axis2=2)[:, None, None] + 1e-200)
    inverse = np.linalg.inv(gram)
    right = np.einsum("kph,ph->hk", basis, values)
    return np.einsum("hkl,hl->kh", inverse, right), np.einsum("hkk->kh", inverse)
