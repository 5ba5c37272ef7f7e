"""Learned tables before learning: which generator, distribution and seed drew them, out of a list of likely seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pecli.engine.arrays import Floats, Indices
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.learned import LearnedInit
from pecli.errors import ParameterError
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
    drawn = Drawn(one.name, values, one.rows, spread, prior)
    if not values.any():
        return [drawn.explanation(LearnedInit(init="zeros", **shape), 0.0, 0.0)]
    if not spread or not independent(values):
        return []
    for scheme in _candidates(prior, shape, spread, _likely(values, spread)):
        if (found := drawn.matched(scheme)) is not None:
            again = drawn.matched(replace(scheme, rng="torch-avx2")) if scheme.rng == "torch" else None
            return [again if again and again.noise < found.noise / 2 else found]  # few decimals do not tell
    return []


def independent(values: Floats) -> bool:
    """Whether neighbours are as unlike each other as draws are, whose mean is zero."""
    values = values / values.std()
    products = (values, values[:, 1:] * values[:, :-1], values[1:] * values[:-1])
    return all(abs(each.mean()) * math.sqrt(each.size) < MAX_DEVIATIONS for each in products if each.size)


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


@dataclass(frozen=True)
class Drawn:
    """Rows of a table, whose standard deviation is `spread`."""

    name: str
    values: Floats
    rows: Indices
    spread: float
    prior: LearnedInit | None

    def matched(self, scheme: LearnedInit) -> Explanation | None:
        """The explanation, if the first elements, and then all, are those of the scheme, whatever the deviation."""
        first, drawn = self.values.reshape(-1)[:SOME], _first(scheme)
        if drawn is None or _factor(first, drawn) <= 0 or self._are_far(first - _factor(first, drawn) * drawn):
            return None
        (table,) = scheme.tensors()
        rows = np.append(self.rows[:64], table.rows - 1)
        expected, found = widened(table.pick(rows)), self.values[[*range(len(rows) - 1), -1]]
        by = _factor(found, expected)
        left = found - by * expected
        noise = rms(left)
        fixed = "std" in scheme.inert_parameters
        if noise > CLOSE * self.spread or self._are_far(left[-1]) or (fixed and abs(by - 1) > 2e-3):
            return None
        if not fixed:
            error = 6 * noise / self.spread / math.sqrt(found.size) + 2e-5
            std = plainest(scheme.std * by, scheme.std * by * error)
            near = self.prior is not None and abs(self.prior.std / std - 1) < 1e-4
            scheme = replace(scheme, std=self.prior.std if near and self.prior else std)
        return self.explanation(scheme, float(np.abs(left).max()), noise)

    def _are_far(self, left: Floats) -> bool:
        return bool(np.abs(left).max() > CLOSE * self.spread)

    def explanation(self, scheme: LearnedInit, residual: float, noise: float) -> Explanation:
        edits = parameter_edits(self.prior, scheme, scheme.inert_parameters) if self.prior is not None else ()
        return Explanation(tuple(edits), scheme, residual, noise, (self.name,))


def _factor(found: Floats, drawn: Floats) -> float:
    return float((found * drawn).sum() / max(float((drawn**2).sum()), 1e-300))


def _first(scheme: LearnedInit) -> Floats | None:
    """The first numbers that a scheme draws; torch draws small tables otherwise, hence 64 elements at least."""
    if scheme.max_len * scheme.dim < MIN_DRAWN:
        return None
    rows = scheme.max_len if scheme.init == "xavier-uniform" else min(scheme.max_len, -(-MIN_DRAWN // scheme.dim))
    (table,) = replace(scheme, max_len=rows).tensors()
    return np.asarray(widened(table.read(0, -(-SOME // scheme.dim))).reshape(-1)[:SOME])
