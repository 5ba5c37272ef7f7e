"""Frequencies of more than half a turn a row, which show up as slower ones: how many turns they really make."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pecli.checks.identify.curve import FAR, Curve, geometric
from pecli.checks.identify.frequencies import TURN, Channels, wrapped
from pecli.engine.arrays import Floats

_MOST = 1e6


def unfolded(channels: Channels, scale: float | None = None) -> Channels:
    """The channels with their true frequencies, by the law of the slow ones, or by a round scale."""
    f, error = channels.frequency, channels.frequency_error
    known = np.flatnonzero((np.abs(f) > 8 * error) & np.isfinite(error))
    if len(known) < 4 or (np.diff(f[known]) < 0).all() or (np.diff(f[known]) > 0).all():
        return channels
    for end in range(len(known), 2, -1):
        last = known[end - 3 : end]
        if (f[last] <= 0).any() or last[-1] - last[0] != 2:
            continue
        logs, doubt = np.log(f[last]), float((np.array([1, 2, 1]) * error[last] / f[last]).sum())
        if abs(logs[0] - 2 * logs[1] + logs[2]) > FAR * doubt + 1e-6:
            continue
        climbed = _climbed(channels, int(last[0]))
        if climbed is not None:
            return climbed
    found = _by_scale(f, error, scale)
    return channels if found is None else replace(channels, frequency=found)


def _climbed(channels: Channels, lowest: int) -> Channels | None:
    """From a channel on that is slow enough, upwards: each faster one is near what the law of those below says."""
    f, error = channels.frequency.copy(), channels.frequency_error
    for index in range(lowest - 1, -1, -1):
        law = geometric(Curve(f[index + 1 :], error[index + 1 :]).inflated(3).loosened(1e-7))
        if law is None:
            return None
        expected = float(np.exp(min(law.level + law.step, 700.0)))
        f[index] += TURN * np.rint((expected - f[index]) / TURN)
    return replace(channels, frequency=f) if geometric(Curve(f, error).inflated(3).loosened(1e-7)) else None


def _by_scale(f: Floats, error: Floats, given: float | None) -> Floats | None:
    """All channels turn too fast to be told: try round scales, and the ratios that the next channel leaves."""
    scales = np.unique([m * 10.0**k for k in range(6) for m in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 7.5, 8, 9)])
    scales = np.union1d(scales, 2.0 ** np.arange(1, 18))
    scales = scales[(scales > np.pi) & (np.abs(wrapped(scales - f[0])) < FAR * error[0] + 1e-6)]
    index = np.arange(len(f))
    for scale in scales[scales < _MOST] if given is None else [given]:
        turns = np.arange(np.ceil(-f[1] / TURN), (scale - f[1]) / TURN + 1)
        second = f[1] + TURN * turns
        ratios = np.sort(second[second > 0] / scale)
        for k in range(2, len(f)):
            doubt = (
                FAR * error[k]
                + 1e-6
                + scale * ratios**k * k * (2 * error[k - 1] / (scale * ratios ** (k - 1)) / (k - 1))
            )
            expected = scale * ratios**k
            apart = wrapped(expected - f[k])
            kept = (np.abs(apart) <= doubt) | (doubt > 2)
            sure = kept & (doubt < 1)
            better = np.where(sure, ((expected - apart) / scale).clip(1e-300) ** (1 / k), ratios)
            ratios = better[kept]
            if not len(ratios):
                break
        if len(ratios):
            true = scale * ratios[0] ** index
            return np.asarray(f + TURN * np.rint((true - f) / TURN))
    return None
