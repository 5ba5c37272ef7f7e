"""Learned tables before learning: which generator, distribution and seed drew them, out of a list of likely seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pecli.engine.arrays import Array, Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.explain.edits import Edit, Explanation, Parameter
from pecli.explain.sample import Sample, plainest

SEEDS = (
    *range(257), 314, 321, 333, 420, 512, 666, 777, 999, 1000, 1024, 1111, 1234, 1337, 2000, *range(2017, 2031),
    3407, 4242, 12345, 31337, 42424, 54321, 123456, 1234567,
)  # fmt: skip
"""Seeds that people choose."""
MAX_DIM = 65536
SOME = 24
"""Elements that tell draws apart."""
CLOSE = 0.03
"""Of the standard deviation: draws that are not the same are further off."""
MAX_DEVIATIONS = 8.0
"""By how many of its standard deviations a mean of draws may be off zero."""


def explain_draws(one: Sample, prior: LearnedInit | None) -> list[Explanation]:
    """The init, generator and seed that draw a table; none where no likely seed does."""
    one = _without_ones(one)
    values = one.values
    if (
        values.ndim != 2
        or max(values.shape[1:]) > MAX_DIM
        or values.size < SOME
        or not np.isfinite(values).all()
        or np.iscomplexobj(values)
    ):
        return []
    dtype = one.dtype if one.dtype in ("float64", "float32", "float16", "bfloat16") else "float32"
    shape: dict[str, Any] = {"max_len": one.shape[-2], "dim": one.shape[-1], "dtype": dtype}
    if not values.any():
        return [_explanation(one, prior, LearnedInit(init="zeros", **shape), 0.0, 0.0)]
    spread = float(values.std())
    if not spread or not _independent(values, spread):
        return []
    for scheme in _candidates(prior, shape, spread, _likely(values, spread)):
        if (found := _matched(one, prior, scheme, spread)) is not None:
            other = replace(scheme, rng="torch-avx2") if scheme.rng == "torch" else scheme
            again = _matched(one, prior, other, spread)
            return [min((each for each in (found, again) if each), key=lambda each: each.noise)]
    return []


def _independent(values: Floats, spread: float) -> bool:
    """Whether neighbours are as unlike each other as draws are, whose mean is zero."""
    after, below = values[:, 1:] * values[:, :-1], values[1:] * values[:-1]
    means = (values.mean() / spread, *(each.mean() / spread**2 for each in (after, below) if each.size))
    return all(abs(mean) * math.sqrt(values.size) < MAX_DEVIATIONS for mean in means)


def _without_ones(one: Sample) -> Sample:
    """The tensor without leading axes of length 1."""
    while len(one.shape) > 2 and one.shape[0] == 1:
        one = replace(one, shape=one.shape[1:], values=one.values[0])
    return one


def _candidates(
    prior: LearnedInit | None, shape: dict[str, Any], spread: float, inits: tuple[str, ...]
) -> Iterator[LearnedInit]:
    """The prior with one thing changed first; then everything."""
    if prior is not None:
        base = replace(prior, **shape)
        yield base
        yield from (replace(base, seed=seed) for seed in SEEDS)
    for rng in ("pecli", "torch"):
        for init in inits:
            for seed in SEEDS:
                try:
                    std: dict[str, Any] = {} if init == "xavier-uniform" else {"std": spread}
                    yield LearnedInit(init=init, rng=rng, seed=seed, **std, **shape)
                except ParameterError:
                    break


def _likely(values: Floats, spread: float) -> tuple[str, ...]:
    """The distributions that numbers may follow, by the largest of them."""
    top = float(np.abs(values).max()) / spread
    if top < 1.8:
        return "xavier-uniform", "uniform"
    return ("trunc-normal", "normal") if top < 2.4 else ("normal",)


def _matched(one: Sample, prior: LearnedInit | None, scheme: LearnedInit, spread: float) -> Explanation | None:
    """The explanation, if the first elements, and then all, are those of the scheme, whatever the deviation."""
    first = one.values.reshape(-1)[:SOME]
    drawn = _first(scheme, SOME)
    if drawn is None:
        return None
    by = float((first @ drawn) / max(float(drawn @ drawn), 1e-300))
    if by <= 0 or np.abs(first - by * drawn).max() > CLOSE * spread:
        return None
    rows = one.rows[:64]
    (table,) = scheme.tensors()
    expected = widened(_rows(table, int(rows[-1]) + 1))[rows]
    found = one.values[: len(rows)]
    by = float((found * expected).sum() / (expected**2).sum())
    if "std" in scheme.inert_parameters and abs(by - 1) > 2e-3:
        return None
    left = found - by * expected
    noise = float(np.sqrt(np.mean(left**2)))
    last = widened(table.pick(np.array([table.rows - 1])))
    if noise > CLOSE * spread or np.abs(one.values[-1] - by * last[0]).max() > CLOSE * spread:
        return None
    std = scheme.std
    if "std" not in scheme.inert_parameters:
        std = plainest(scheme.std * by, scheme.std * by * (6 * noise / spread / math.sqrt(found.size) + 2e-5))
        if prior is not None and abs(prior.std / std - 1) < 1e-4:
            std = prior.std
    return _explanation(one, prior, replace(scheme, std=std), float(np.abs(left).max()), noise)


def _first(scheme: LearnedInit, count: int) -> Floats | None:
    """The first numbers that a scheme draws; torch draws small tables otherwise, hence 16 elements at least."""
    rows = -(-count // scheme.dim)
    if scheme.max_len * scheme.dim < max(count, 64):
        return None
    least = max(rows, -(-64 // scheme.dim))
    bound: dict[str, Any] = {} if scheme.init == "xavier-uniform" else {"max_len": min(scheme.max_len, least)}
    (table,) = replace(scheme, **bound).tensors()
    return np.asarray(widened(_rows(table, rows)).reshape(-1)[:count])


def _rows(table: Table, count: int) -> Array:
    return np.asarray(table.read(0, min(count, table.rows)))


def _explanation(
    one: Sample, prior: LearnedInit | None, scheme: LearnedInit, residual: float, noise: float
) -> Explanation:
    edits: list[Edit] = []
    if prior is not None:
        for name in ("max_len", "dim", "init", "std", "seed", "rng"):
            ours, theirs = getattr(prior, name), getattr(scheme, name)
            if ours != theirs and name not in scheme.inert_parameters:
                edits.append(Parameter(name, ours, theirs))
    return Explanation(tuple(edits), scheme, residual, noise, (one.name,))
