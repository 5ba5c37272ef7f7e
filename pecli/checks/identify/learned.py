"""Learned tables before learning: the seed, the distribution and the standard deviation that draw a table again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.identify import recipes, seeds
from pecli.checks.identify.intervals import Interval, spacing
from pecli.checks.identify.match import Match
from pecli.engine.arrays import Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes import random_streams
from pecli.engine.schemes.learned import LearnedInit

if TYPE_CHECKING:
    from pecli.checks.identify.beginning import Beginning


_FIRST = 16
"""Elements that tell a seed."""
_DIFFERENT = 12
"""How many of them differ, at least, even in a coarse dtype."""
_SOME = 1 << 12
"""Elements that tell the standard deviation."""
_MANY = 1 << 18
"""Elements that are held against the scheme."""
_LONG = 6
"""Letters of a number that nobody chooses."""
_BLOCK = 32
"""From that size on, torch draws the first sixteen elements as a block."""


_WIDEST = 1 << 16
"""Channels that a table may have."""


def recognise(sample: Beginning) -> list[Match]:
    """The initial table that a tensor is, if its seed is one of those tried."""
    shape = sample.shape
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) != 2 or not sample.floating or not sample.array.size or shape[1] > _WIDEST:
        return []
    table = sample.array.astype(np.float64).reshape(sample.array.shape[-2:])
    form = "" if shape == sample.shape else f"of shape {' × '.join(map(str, sample.shape))}"
    if not table.any():
        scheme = LearnedInit(*shape, init="zeros", dtype=sample.dtype)
        return [Match(scheme, 0.0, (sample.name,), form)]
    if not _like_draws(table):
        return []
    found = [
        (error, scheme, limits)
        for scheme, limits in _candidates(table, shape, recipes.held(table, sample.dtype))
        if (error := _error(scheme, table)) is not None
    ]
    if not found:
        return []
    error, scheme, limits = min(found, key=lambda each: each[0])
    same = {other.rng for off, other, _ in found if off == error}
    return [Match(scheme, error, (sample.name,), form, tuple(_open_questions(scheme, limits, same)))]


def _like_draws(table: Floats) -> bool:
    """Whether it is worth trying seeds: independent draws have no neighbours that are alike, and no large mean."""
    some = table.reshape(-1)[:_SOME]
    spread = float(some.std())
    if not np.isfinite(some).all() or not spread or len(some) < _FIRST or abs(float(some.mean())) > 0.5 * spread:
        return False
    if len(np.unique(np.abs(some[:_FIRST]))) < _DIFFERENT:
        return False
    rows = table[: max(2, _SOME // table.shape[1])]
    for one, next_one in ((some[:-1], some[1:]), (rows[:-1], rows[1:])):
        alike = float(np.sum((one - some.mean()) * (next_one - some.mean()))) / spread**2
        if abs(alike) > 8 * math.sqrt(max(1, one.size)):
            return False
    return bool(np.abs(some).max() < 8 * spread)


def _candidates(table: Floats, shape: tuple[int, ...], dtype: str) -> Iterator[tuple[LearnedInit, Interval]]:
    """Schemes that draw the first elements, with the standard deviations that do."""
    elements = table.reshape(-1)[:_SOME] if table.shape[1] == shape[1] else table[0, :_SOME]
    first, flat = elements[:_FIRST], np.abs(elements).max() < 1.9 * elements.std()
    size = math.prod(shape)
    kinds = ("uniform",) if flat else ("normal", "trunc-normal")
    for seed in seeds.philox_seeds(first):
        for kind in kinds:
            drawn = _standard(random_streams.uniform(seed, 0, len(elements)), kind)
            yield from _fitted(drawn, elements, shape, dtype, init=kind, seed=seed, rng="pecli")
    if size < _BLOCK:
        return
    for seed in seeds.mersenne_seeds(first, normal=not flat):
        for rng in ("torch", "torch-avx2"):
            kind = kinds[0]
            many = len(elements) // 16 * 16
            u = random_streams.Mersenne(seed).uniform(many)
            normal = random_streams.box_muller(u, vectorised=rng == "torch-avx2")
            drawn = widened(normal) if kind == "normal" else _standard(widened(u), kind)
            kept = min(many, size - _BLOCK)  # the last ones may have been drawn anew
            yield from _fitted(drawn[:kept], elements[:kept], shape, dtype, init=kind, seed=seed, rng=rng)


def _standard(u: Floats, init: str) -> Floats:
    """The draws of a standard deviation of one."""
    if init == "uniform":
        return math.sqrt(3) * (2 * u - 1)
    return random_streams.normal(u if init == "normal" else random_streams.truncated(u))


def _fitted(
    drawn: Floats, elements: Floats, shape: tuple[int, ...], dtype: str, *, init: str, seed: int, rng: str
) -> Iterator[tuple[LearnedInit, Interval]]:
    """The scheme with a standard deviation that makes these elements of the draws, if there is one."""
    single = rng != "pecli"  # torch reckons in float32, whatever the table is stored in
    kind = "float32" if single and dtype == "float64" else dtype
    slack = 2.0**-23 if single else 1e-15
    for room in (0.51, 4.0, 64.0):
        off = room * spacing(elements, kind) + slack * np.abs(elements).max()
        with np.errstate(divide="ignore"):  # a draw of zero says nothing
            ends = np.stack([(elements - off) / drawn, (elements + off) / drawn])
        limits = Interval(float(ends.min(axis=0).max()) * (1 - slack), float(ends.max(axis=0).min()) * (1 + slack))
        if not limits.empty and limits.low > 0:
            break
    else:
        return
    rows, dim = shape
    if init == "uniform" and limits.low <= math.sqrt(2 / (rows + dim)) <= limits.high:
        yield LearnedInit(rows, dim, init="xavier-uniform", seed=seed, rng=rng, dtype=dtype), limits
        return
    yield LearnedInit(rows, dim, init=init, std=limits.plainest(), seed=seed, rng=rng, dtype=dtype), limits


def _error(scheme: LearnedInit, table: Floats) -> float | None:
    """The largest distance from the scheme's table over many elements; None where they are not the same draws."""
    rows = max(1, min(len(table), _MANY // scheme.dim))
    expected = widened(scheme.single_array().read(0, rows))[:, : table.shape[1]]
    off = np.abs(expected - table[:rows])
    allowed = 4 * spacing(expected, scheme.dtype) + 1e-6 * scheme.std * (scheme.rng != "pecli")
    return float(off.max()) if np.mean(off <= allowed) > 0.999 else None


def _open_questions(scheme: LearnedInit, limits: Interval, same: set[str]) -> Iterator[str]:
    if scheme.init == "xavier-uniform":
        if len(f"{limits.plainest():g}") < _LONG:
            yield f"init: uniform with std {limits.plainest():g} would be the same"
    elif limits.high - limits.low > 1e-4 * scheme.std:
        yield f"std: the data allow {limits.words()}"
    if len(same) > 1:
        yield f"rng: {' and '.join(sorted(same))} make the same table"
