"""From a curve of frequencies to the parameters that give it: base, shift and scale, or a rotary scaling."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from pecli.checks.identify import blends, ramps
from pecli.checks.identify.bends import falls
from pecli.checks.identify.curve import FAR, LOOSENESS, Curve, Guess, Law, geometric
from pecli.checks.identify.heights import Height, usual_amplitudes
from pecli.checks.identify.numerals import digits, shorter, shortest

_SIGMAS = 5.0
_OFF = 1e-6
"""What the measured amplitude may be off, if a usual one is near."""
_BIASED = 4
"""Errors are larger by this where other programs computed: their cosines near one are all off the same way."""
_USUAL_BASES = tuple(
    float(f"{mantissa}e{power}")
    for power in range(2, 8)
    for mantissa in (1, 5, 1.5, 2, 1.6, 2.5, 3, 8, 1.2, 4, 6, 7, 9)
)
"""Bases that people choose, if the frequencies say that somebody stretched or divided one."""


def sinusoidal(curve: Curve, half: float, height: Height, dim: int) -> Iterator[Guess]:
    """Guesses at a sinusoidal table whose exponents count in D/2 = half."""
    amplitude = _amplitude(height, dim)
    for looser in _levels(curve):
        law = geometric(looser)
        if law is None:
            continue
        level_error = _SIGMAS * law.level_error + 1e-15
        for scale in islice(shorter(math.exp(law.level), math.exp(law.level) * level_error), 2):
            fixed = geometric(looser, math.log(scale)) or law
            for guess in _shifts(fixed, half):
                yield Guess(
                    {**guess.parameters, "scale": scale, "amplitude": amplitude}, guess.undetermined, guess.cost
                )


def _shifts(law: Law, half: float) -> list[Guess]:
    """The bases that give a step, for each usual shift; the roundest first."""
    if math.isinf(law.step_error):
        return [Guess({"base": 10000.0, "freq_shift": 0.0}, ("one channel turns visibly: any base gives this table",))]
    found = []
    for shift, fetched in ((0.0, 0.0), (1.0, 0.5), (0.5, 2.0)):
        found += [Guess(each.parameters, (), each.cost + fetched) for each in shifted(law, half, shift)]
    found.sort(key=lambda guess: guess.cost)
    return [_with_others(each, found) for each in found]


def round_levels(law: Law) -> list[float]:
    """Logarithms of a round first frequency, or of one over a round number."""
    if not law.level_error:
        return [law.level]
    first = math.exp(law.level)
    slack = _SIGMAS * law.level_error + 1e-15
    return [math.log(shortest(first, first * slack)), -math.log(shortest(1 / first, slack / first))]


def shifted(law: Law, half: float, shift: float) -> Iterator[Guess]:
    """The bases that give a step with that shift, the roundest first."""
    log_base, error = law.step * (half - shift), law.step_error * (half - shift)
    if half - shift >= 0.5 and abs(log_base) < 700:
        base = math.exp(min(log_base, 700.0))
        for k, value in enumerate(islice(shorter(base, base * (_SIGMAS * error + 4e-16)), 2)):
            yield Guess({"base": value, "freq_shift": shift}, (), digits(value) + 3 * k)


def _with_others(guess: Guess, others: list[Guess]) -> Guess:
    for other in others:
        if other.parameters["freq_shift"] != guess.parameters["freq_shift"]:
            said = "base {base:.9g} with freq_shift {freq_shift:g}"
            here, there = said.format(**guess.parameters), said.format(**other.parameters)
            return Guess(guess.parameters, (f"{here} and {there} give the same table",), guess.cost)
    return guess


def _amplitude(height: Height, dim: int) -> float:
    """The amplitude as somebody wrote it: one, or a root of the dim, or a short number."""
    for usual in usual_amplitudes(dim):
        if abs(height.value - usual) <= 4 * height.slack + _OFF * usual:
            return usual
    return shortest(height.value, height.slack)


def rope(curve: Curve, height: Height, free: bool = True) -> Iterator[Iterator[Guess]]:
    """Guesses at a rotary table; the simpler ones first, in tiers: the next one only where none of the last is it.

    With `free`, a curve that follows no law is read as divisors of its own.
    """
    levels = list(_levels(curve))
    yield _all_plain(levels[:-1], height)
    yield _all_bent(levels[:3], height)
    yield _all_plain(levels[-1:], height)
    if free:
        yield (divided(looser, height) for looser in (curve.loosened(LOOSENESS[1]), curve))


def _all_plain(levels: list[Curve], height: Height) -> Iterator[Guess]:
    for looser in levels:
        law = geometric(looser, 0.0) or geometric(looser)
        if law is not None:
            yield from _plain(looser, law, len(looser.frequency), height)
        yield from _still_ones(looser, len(looser.frequency), height)


def _all_bent(levels: list[Curve], height: Height) -> Iterator[Guess]:
    first, *others = levels
    found = list(bent(first, height))
    yield from found
    for looser in others if found else others[1:]:  # smaller errors of the same kind leave less
        yield from bent(looser, height)


def bent(curve: Curve, height: Height) -> Iterator[Guess]:
    """Every YaRN or Llama 3 scaling that gives the curve, the rounder ones first."""
    first = curve.known[0] and abs(curve.logs[0]) <= FAR * curve.log_errors[0]
    if curve.known.sum() < 3 or not first or not falls(curve):
        return
    found = list(ramps.guesses(curve, height))
    if height.near(1.0):
        found += list(blends.guesses(curve))
    yield from sorted(found, key=lambda guess: guess.cost)[:8]


def _levels(curve: Curve) -> Iterator[Curve]:
    """The curve with other errors: larger ones, since rounding is no chance; as measured; and as recipes make."""
    yield curve.inflated(12)
    for by in LOOSENESS:
        yield curve.inflated(_BIASED if by else 1).loosened(by)


def _plain(curve: Curve, law: Law, half: int, height: Height) -> Iterator[Guess]:
    """One geometric law: as it is, or all positions divided."""
    factor = 1.0
    if abs(law.level) > 700:  # beyond what float64 holds
        return
    if law.level_error:
        inverse = math.exp(-law.level)
        factor = shortest(inverse, inverse * (_SIGMAS * law.level_error + 1e-15))
        law = geometric(curve, -math.log(factor)) or law
    for guess in _bases(law, half):
        base = guess.parameters
        if height.near(1.0):
            if factor == 1:
                yield guess
            elif factor > 1:
                yield Guess({**base, "scaling": "linear", "factor": factor}, guess.undetermined, guess.cost)
        elif factor == 1:
            yield from ramps.unbent(base["base"], half, height)


def _bases(law: Law, half: int) -> list[Guess]:
    if math.isinf(law.step_error):
        return [Guess({"base": 10000.0}, ("one frequency turns visibly: any base gives this table",))]
    log_base, error = law.step * half, law.step_error * half
    if abs(log_base) > 700:
        return []
    base = math.exp(min(log_base, 700.0))
    values = list(islice(shorter(base, base * (_SIGMAS * error + 4e-16)), 3))
    said: tuple[str, ...] = ()
    if digits(values[0]) > 3:
        said = ("ntk or dynamic scaling of another base by some factor is the same table",)
    if error > 1e-6:
        said += (f"the base is known within {_SIGMAS * error * base:.1g}",)
    found = [Guess({"base": value}, said, digits(value) + 3 * k) for k, value in enumerate(values)]
    if half > 1 and digits(values[0]) > 4:
        found += _stretched(base, error, half)
    return sorted(found, key=lambda guess: guess.cost)


def _stretched(base: float, error: float, half: int) -> list[Guess]:
    """A base that is no round number may be a round one, stretched by NTK scaling with a round factor."""
    power = (half - 1) / half
    found = []
    for plain in _USUAL_BASES:
        if not plain * 1.01 < base < plain * 1000:
            continue
        factor = (base / plain) ** power
        slack = factor * (_SIGMAS * error * power + 1e-15)
        value, fetched = shortest(factor, slack), 0.0
        eighths = round(factor * 2048) / 2048  # as dynamic scaling has them, length over length
        if digits(value) > 3 and abs(eighths - factor) <= slack < 1e-6:
            value, fetched = eighths, 4.0
        if digits(value) <= 3 or fetched:
            said = f"base {base:.9g} without scaling is the same table, and so is dynamic scaling with that factor"
            parameters = {"base": plain, "scaling": "ntk", "factor": value}
            found.append(Guess(parameters, (said,), min(digits(value), 3) + digits(plain) + 0.5 + fetched))
    return sorted(found, key=lambda guess: guess.cost)[:4]


def _still_ones(curve: Curve, half: int, height: Height) -> Iterator[Guess]:
    """Proportional scaling: the last channels do not turn at all."""
    still = np.abs(curve.frequency) <= 6 * curve.error
    moving = half - int(np.argmin(still[::-1])) if not still.all() else 0
    if not 0 < moving < half or not height.near(1.0):
        return
    head = Curve(curve.frequency[:moving], curve.error[:moving])
    law = geometric(head, 0.0) or geometric(head)
    if law is None:
        return
    for guess in _plain(head, law, half, height):
        parameters = {name: value for name, value in guess.parameters.items() if name != "scaling"}
        if guess.parameters.get("scaling", "linear") != "linear":
            continue
        share = shortest(moving / half, 0.0)
        if int(2 * half * share // 2) != moving:
            share = math.nextafter(share, 2.0)
        yield Guess(
            {**parameters, "scaling": "proportional", "partial_rotary_factor": share},
            guess.undetermined,
            guess.cost,
        )


def divided(curve: Curve, height: Height) -> Guess:
    """Longrope: a divisor for each frequency, over the base that leaves the shortest ones."""
    base = max(_USUAL_BASES, key=lambda each: (_hundredths(curve, each), each == 10000))
    divisors = tuple(_divisors(curve, base))
    parameters: dict[str, Any] = {
        "base": base,
        "scaling": "longrope",
        "short_factor": divisors,
        "long_factor": divisors,
        "original_max_position_embeddings": 4096,
        "attention_factor": 1.0 if height.near(1.0) else shortest(height.value, height.slack),
    }
    said = (
        "the base and the divisors are known only together",
        "short and long divisors are not told apart, nor is the original length",
        "the attention factor is as measured; a factor may have given it",
    )
    return Guess(parameters, said, 1000.0)


def _hundredths(curve: Curve, base: float) -> int:
    """How many divisors are whole hundredths, of channels that are known well enough to say so."""
    half = len(curve.frequency)
    with np.errstate(divide="ignore"):
        divisors = np.exp(-np.arange(half) / half * math.log(base)) / np.where(curve.known, curve.frequency, np.nan)
    slack = 2 * divisors * curve.log_errors
    sharp = (slack < 5e-4) & (np.abs(divisors * 100 - np.rint(divisors * 100)) <= 100 * slack + 1e-9)
    return int(sharp.sum())


def _divisors(curve: Curve, base: float) -> Iterator[float]:
    half = len(curve.frequency)
    plain = np.exp(-np.arange(half) / half * math.log(base))
    for one, frequency, error in zip(plain.tolist(), curve.frequency.tolist(), curve.error.tolist(), strict=True):
        yield _divisor(one, frequency, error)


def _divisor(plain: float, frequency: float, error: float) -> float:
    if not frequency > 2 * error:  # no turn to be seen
        return 1.0 if error >= plain / 4 else 1e30
    value = plain / frequency
    return shortest(value, value * min(2.0 * error / frequency, 0.5))
