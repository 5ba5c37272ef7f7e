"""Vectors of inverse frequencies: a law alone, with neither positions nor phases to help."""

from __future__ import annotations

import math

import numpy as np

from pecli.engine.arrays import Floats
from pecli.explain.edits import Decimals, Dtype, Edit, Explanation, FixedPoint, Negated, Uninitialised
from pecli.explain.laws import Curve, Fit, divided, laws
from pecli.explain.sample import Sample
from pecli.explain.storage import grain, precision
from pecli.explain.wave_schemes import WaveScheme, found_scheme, law_edits, rope_of, yarn_height
from pecli.explain.wave_search import DRIFT, _with_prior

MIN_FREQUENCIES = 4
MIN_RECOGNISED = 6
MIN_IMPROVEMENT = 8.0
"""How many times smaller than the difference from the prior the residual has to be."""
ENOUGH = 3.0


def explain_frequencies(one: Sample, prior: WaveScheme) -> list[Explanation]:
    """Explanations of a vector of frequencies by what it should be."""
    values = one.values.reshape(-1)
    if np.isnan(values).any() or not values.any() or len(values) < 2:
        return [Explanation((Uninitialised(),), None, math.inf, 0.0, (one.name,))]
    if not np.isfinite(values).all() or np.iscomplexobj(values):
        return []
    signs: tuple[Edit, ...] = (Negated("all"),) if (values < 0).sum() > len(values) / 2 else ()
    values = -values if signs else values
    if found := _explained(one, values, prior, signs):
        return found
    if len(values) == prior.law.count and abs(values[0] / prior.law.frequencies()[0] - 1) > 0.5:
        return [Explanation((Uninitialised(),), None, math.inf, 0.0, (one.name,))]
    return []


def _explained(one: Sample, values: Floats, prior: WaveScheme, edits: tuple[Edit, ...]) -> list[Explanation]:
    floor = noise_floor(values, one.dtype)
    for noise in dict.fromkeys((floor, *(each for each in (1e-6, 1e-5, 1e-4, 1e-3) if each > floor))):
        curve = Curve(values, np.hypot(DRIFT / 4 * np.abs(values), noise), aliased=False)
        for tier in _with_prior(prior, curve):
            for fit in sorted((fit for fit in tier if math.isfinite(fit.misfit)), key=lambda fit: fit.cost):
                if found := _checked(one, values, prior, fit, curve, edits):
                    return [found]
    return []


def noise_floor(values: Floats, dtype: str) -> float:
    """What rounding leaves of numbers of order one, as decimals, steps or bits say."""
    found = grain(values)
    if isinstance(found, Decimals):
        return 0.3 * 10.0**-found.digits
    if isinstance(found, FixedPoint):
        return 0.3 * found.step
    if isinstance(found, Dtype):
        return 0.0
    return 0.0 * precision(dtype)


def _checked(
    one: Sample, values: Floats, prior: WaveScheme, fit: Fit, curve: Curve, edits: tuple[Edit, ...]
) -> Explanation | None:
    """The explanation, if all frequencies are within their errors and it earns its numbers."""
    law = fit.law
    found = law.frequencies()
    kind = grain(values)
    error = curve.error
    if isinstance(kind, Dtype):
        error = np.hypot(error, precision(kind.found) * np.abs(values))
    left = np.abs(found - values)
    if (left > 4 * error + 1e-12).any() or np.sqrt(np.mean((left / error) ** 2)) > ENOUGH:
        return None
    told = law_edits(prior, law)
    if told and len(values) < MIN_FREQUENCIES * len(told):
        return None
    if told and law.count == prior.law.count:
        before = prior.law.frequencies()
        change, rest = (float(np.sqrt(np.mean(((each - values) / error) ** 2))) for each in (before, found))
        if change < MIN_IMPROVEMENT * min(rest, 1.0):
            return None
    scheme = found_scheme(prior, law, prior.offset, prior.length, prior.height, prior.form, cos_first=True, more={})
    noise = float(np.sqrt(np.mean(left**2)))
    return Explanation((*edits, *told), scheme, float(left.max()), noise, (one.name,), fit.open, fit.cost - len(told))


def recognise_frequencies(one: Sample) -> list[Explanation]:
    """The rotary scheme of a vector of frequencies that falls from 1 or less."""
    values = one.values.reshape(-1)
    if len(values) < MIN_RECOGNISED or not np.isfinite(values).all() or (values < 0).any() or values[0] <= 0:
        return []
    kind = grain(values)
    relative = precision(kind.found) if isinstance(kind, Dtype) else DRIFT / 2
    curve = Curve(values, np.hypot(relative * np.abs(values), noise_floor(values, one.dtype)) + 1e-300, aliased=False)
    found = []
    count = float(len(values))
    every = [*laws(curve, [count], scales=False), *divided(curve, count)]
    for fit in sorted(every, key=lambda each: each.cost):
        left = np.abs(fit.law.frequencies() - values)
        if (left <= 4 * curve.error + 1e-12).all() and curve.known.sum() >= MIN_RECOGNISED // 2:
            scheme = rope_of(
                fit.law, 0, 1, yarn_height(fit.law.factor) if fit.law.scaling == "yarn" else 1.0, "compact"
            )
            if scheme is not None:
                noise = float(np.sqrt(np.mean(left**2)))
                found.append(Explanation((), scheme, float(left.max()), noise, (one.name,), fit.open, fit.cost))
    return found[:3]
