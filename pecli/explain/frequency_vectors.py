"""Vectors of frequencies: explained by what they should be, or by any law."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from pecli.engine.arrays import Floats
from pecli.explain.acceptance import Judge
from pecli.explain.edits import Channels, Dtype, Edit, Errors, Explanation, Negated, Parameter, Uninitialised, best
from pecli.explain.frequency_fit import fit_laws, fit_longrope, fit_near_prior
from pecli.explain.frequency_laws import Curve, Fit
from pecli.explain.sample import precision, rounding
from pecli.explain.sinusoid_schemes import WaveScheme, expected_amplitude, law_edits, scheme_of
from pecli.explain.wave_measurement import DRIFT

MIN_FREQUENCIES = 4  # that every number of an explanation has to explain
MAX_UNINITIALISED = 1e-9  # radians per position: below it, even the fastest frequency is what memory happened to hold
MIN_RECOGNISED = 6
MIN_IMPROVEMENT = 8.0  # how many times smaller than the difference from the prior the residual has to be
ENOUGH = 3.0  # standard errors, root mean square, that a vector may be off its law
ROUNDING_NOISE = 0.6  # of half a step: the root mean square of what rounding leaves
INVERSES = {"wavelengths": 2 * math.pi, "1/inv_freq": 1.0}
"""What vectors hold instead of frequencies, which are these numbers over them."""


def explain_frequencies(judge: Judge, prior: WaveScheme) -> list[Explanation]:
    """Explanations of a vector of frequencies by what it should be."""
    ((name, one),) = judge.samples.items()
    values = one.values.reshape(-1)
    if np.isnan(values).any() or np.abs(values).max() < MAX_UNINITIALISED:
        return [Explanation((Uninitialised(),), None, (name,), residual=math.inf)]
    if not np.isfinite(values).all() or np.iscomplexobj(values) or len(values) < 2:
        return []
    signs: tuple[Edit, ...] = (Negated("all"),) if (values < 0).sum() > len(values) / 2 else ()
    values = -values if signs else values
    readings: list[tuple[tuple[Edit, ...], Floats]] = [(signs, values)]
    if (values > 0).all() and values[-1] > values[0]:
        readings += [((Parameter("inv_freq", "frequencies", name),), of / values) for name, of in INVERSES.items()]
        readings.append(((Channels("reversed"),), values[::-1]))
    stored = (Dtype(one.dtype),) if precision(one.dtype) > precision("float32") else ()
    found: list[Explanation] = []
    for edits, frequency in readings:
        floor = ROUNDING_NOISE * rounding(frequency)[1]
        noises = [floor, *(each for each in (1e-6, 1e-5, 1e-4, 1e-3) if each > floor)]
        curves = [Curve(frequency, np.hypot(DRIFT / 4 * np.abs(frequency), noise), aliased=False) for noise in noises]
        if any(fit.misfit <= ENOUGH for tier in fit_near_prior(prior, curves[-1]) for fit in tier):
            tiers = ((curve, tier) for curve in curves for tier in fit_near_prior(prior, curve))
            found += _by_tiers(tiers, judge, prior, (*edits, *stored))[:1]
    return best(found)


def recognise_frequencies(judge: Judge) -> list[Explanation]:
    """The rotary schemes of a vector of frequencies that falls from 1 or less."""
    (one,) = judge.samples.values()
    values = one.values.reshape(-1)
    if not one.is_vector or len(values) < MIN_RECOGNISED or not np.isfinite(values).all():
        return []
    if (values < 0).any() or values[0] <= 0:
        return []
    relative, absolute = rounding(values)
    exact = [4 * precision(one.dtype)] if one.dtype == "float64" and not (relative or absolute) else []
    slacks = (*exact, relative or DRIFT / 2)  # float64 may follow a law to the last place
    errors = (np.hypot(slack * np.abs(values), ROUNDING_NOISE * absolute) + 1e-300 for slack in slacks)
    curves = [Curve(values, error, aliased=False) for error in errors]
    half = float(len(values))
    tiers = (
        (curve, [*fit_laws(curve, half, scales=False), *fit_longrope(curve, half)])
        for curve in curves
        if curve.known.sum() >= MIN_RECOGNISED // 2
    )
    return _by_tiers(tiers, judge, None)[:3]


def _by_tiers(
    tiers: Iterable[tuple[Curve, list[Fit]]], judge: Judge, prior: WaveScheme | None, edits: tuple[Edit, ...] = ()
) -> list[Explanation]:
    """Explanations by the first laws that give a curve, the simplest first; the curves have larger errors each time."""
    for curve, tier in tiers:
        fits = sorted((fit for fit in tier if fit.misfit <= ENOUGH), key=lambda fit: fit.cost)
        proposals = (each for fit in fits for each in _proposed(fit, curve, prior, edits, tuple(judge.samples)))
        if found := list(judge.accepted(proposals)):
            return found
    return []


def _proposed(
    fit: Fit, curve: Curve, prior: WaveScheme | None, edits: tuple[Edit, ...], names: tuple[str, ...]
) -> Iterator[Explanation]:
    """The explanation, if all frequencies are within their errors and it earns its numbers."""
    law, values = fit.law, curve.frequency
    error = np.hypot(curve.error, rounding(values)[0] * np.abs(values))
    left = law.frequencies() - values
    told = law_edits(prior, law) if prior else ()
    if (np.abs(left) > 4 * error + 1e-15).any() or (prior and len(values) < MIN_FREQUENCIES * len(told)):
        return
    if prior is None:
        scheme = scheme_of(law, 0, 1, expected_amplitude(None, law))
    else:
        scheme = scheme_of(law, prior.offset, prior.length, prior.amplitude, prior.form, prior.rotary)
        if told and law.count == prior.law.count:
            change, misfit = (
                np.sqrt(np.mean((each / error) ** 2)) for each in (prior.law.frequencies() - values, left)
            )
            if change < MIN_IMPROVEMENT * min(misfit, 1.0):
                return
    if prior or scheme is not None:
        yield Explanation(
            (*edits, *told), scheme, names, Errors(left, values, 4 * error), fit.cost - len(told), fit.open
        )
