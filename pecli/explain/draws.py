"""Learned tables before learning: which generator, distribution and seed drew them, out of a list of likely seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from pecli.engine.arrays import Floats, widened
from pecli.engine.schemes.learned import LearnedInit
from pecli.explain.computed_tables import constructed
from pecli.explain.edits import Explanation, parameter_edits
from pecli.explain.sample import Sample, plainest, rms

SEEDS = (
    *range(257), 314, 321, 333, 420, 512, 666, 777, 999, 1000, 1024, 1111, 1234, 1337, 2000, *range(2017, 2031),
    3407, 4242, 12345, 31337, 42424, 54321, 123456, 1234567,
)  # fmt: skip
"""Seeds that people choose."""
MAX_DIM = 65536
SOME = 24
"""Elements that tell draws apart."""
MIN_DRAWN = 64
CLOSE = 0.03
"""Of the standard deviation: draws that are not the same are further off."""
MAX_DEVIATIONS = 6.0
"""By how many of its standard deviations a mean of draws may be off zero."""


def explain_draws(one: Sample, prior: LearnedInit | None = None) -> list[Explanation]:
    """The init, generator and seed that draw a table; none where no likely seed does."""
    values = one.values
    if values.ndim < 2 or math.prod(values.shape[:-2]) != 1 or values.shape[-1] > MAX_DIM or values.size < SOME:
        return []
    values = values.reshape(values.shape[-2:])
    spread = float(values.std())
    if np.iscomplexobj(values) or not math.isfinite(spread):
        return []
    shape: dict[str, Any] = {"max_len": one.shape[-2], "dim": one.shape[-1], "dtype": one.float_dtype}
    if not values.any():
        return [_explanation(one, LearnedInit(init="zeros", **shape), prior, 0.0, 0.0)]
    if not spread or not independent(values):
        return []
    first = values.reshape(-1)[:SOME]
    for scheme in _candidates(prior, shape, spread, float(np.abs(values).max())):
        drawn = _first(scheme)
        if drawn is None or _factor(first, drawn) <= 0 or _are_far(first - _factor(first, drawn) * drawn, spread):
            continue
        if (found := _matched(one, values, scheme, prior)) is not None:
            again = _matched(one, values, replace(scheme, rng="torch-avx2"), prior) if scheme.rng == "torch" else None
            return [again if again and again.noise < found.noise / 2 else found]  # few decimals do not tell
    return []


def independent(values: Floats) -> bool:
    """Whether neighbours are as unlike each other as draws are, whose mean is zero."""
    values = values / values.std()
    products = (values, values[:, 1:] * values[:, :-1], values[1:] * values[:-1])
    return all(abs(each.mean()) * math.sqrt(each.size) < MAX_DEVIATIONS for each in products if each.size)


def _candidates(
    prior: LearnedInit | None, shape: dict[str, Any], spread: float, largest: float
) -> Iterator[LearnedInit]:
    """The prior with one thing changed first; then everything, the distribution going by the largest number."""
    if prior is not None:
        base = replace(prior, **shape)
        yield base
        yield from (replace(base, seed=seed) for seed in SEEDS)
    inits: tuple[str, ...] = ("trunc-normal", "normal") if largest < 2.4 * spread else ("normal",)
    inits = ("xavier-uniform", "uniform") if largest < 1.8 * spread else inits
    for rng, init, seed in product(("pecli", "torch"), inits, SEEDS):
        std = None if init == "xavier-uniform" else spread
        yield from constructed(LearnedInit, init=init, rng=rng, seed=seed, std=std, **shape)


def _matched(one: Sample, values: Floats, scheme: LearnedInit, prior: LearnedInit | None) -> Explanation | None:
    """The explanation, if the first rows and the last are those of the scheme, whatever the standard deviation."""
    (table,), spread = scheme.tensors(), float(values.std())
    rows = np.append(one.rows[:64], table.rows - 1)
    expected, found = widened(table.pick(rows)), values[[*range(len(rows) - 1), -1]]
    by = _factor(found, expected)
    left = found - by * expected
    noise, fixed = rms(left), "std" in scheme.inert_parameters
    if noise > CLOSE * spread or _are_far(left[-1], spread) or (fixed and abs(by - 1) > 2e-3):
        return None
    if not fixed:
        error = 6 * noise / spread / math.sqrt(found.size) + 2e-5
        std = plainest(scheme.std * by, scheme.std * by * error)
        scheme = replace(scheme, std=prior.std if prior is not None and abs(prior.std / std - 1) < 1e-4 else std)
    return _explanation(one, scheme, prior, float(np.abs(left).max()), noise)


def _are_far(left: Floats, spread: float) -> bool:
    return bool(np.abs(left).max() > CLOSE * spread)


def _explanation(
    one: Sample, scheme: LearnedInit, prior: LearnedInit | None, residual: float, noise: float
) -> Explanation:
    edits = parameter_edits(prior, scheme, scheme.inert_parameters) if prior is not None else ()
    return Explanation(tuple(edits), scheme, residual, noise, (one.name,))


def _factor(found: Floats, drawn: Floats) -> float:
    return float((found * drawn).sum() / max(float((drawn**2).sum()), 1e-300))


def _first(scheme: LearnedInit) -> Floats | None:
    """The first numbers that a scheme draws; torch draws small tables otherwise, hence 64 elements at least."""
    if scheme.max_len * scheme.dim < MIN_DRAWN:
        return None
    rows = scheme.max_len if scheme.init == "xavier-uniform" else min(scheme.max_len, -(-MIN_DRAWN // scheme.dim))
    (table,) = replace(scheme, max_len=rows).tensors()
    return np.asarray(widened(table.read(0, -(-SOME // scheme.dim))).reshape(-1)[:SOME])
