"""Tables that a runtime computes from the very parameters that were asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError
from pecli.explain import storage
from pecli.explain.edits import Decimals, Dtype, Edit, Explanation, FixedPoint, Recipe, Runtime
from pecli.explain.sample import Sample

MAX_ROWS = 256
UNITS = 4
"""Of the last place of float32, that the sines of other libraries and an attention factor may lose."""
MIN_IMPROVEMENT = 1.5
"""How many times nearer than the expected table that of a runtime has to be."""
ALIKE = 1.25
"""How many times further than the nearest another runtime may be, to compute the same."""


class Distance(NamedTuple):
    """How far tables are from a scheme's."""

    root_mean_square: float
    largest: float


NOWHERE = Distance(math.inf, math.inf)


def explain_by_runtime(prior: Scheme, samples: Mapping[str, Sample]) -> Explanation | None:
    """The runtimes that make all of these tables of the prior's parameters, where the prior's own are not they."""
    own, found = distance(prior, samples), matching_runtimes(prior, samples)
    if not found or own.root_mean_square < MIN_IMPROVEMENT * min(each.root_mean_square for each in found.values()):
        return None
    first, *also = found
    scheme, left = prior.computed_as(first), found[first]
    edits: tuple[Edit, ...] = (Runtime(first, tuple(also), scheme.runtime_causes()),)
    recipe = _recipe(prior, samples, left)
    noise = left.root_mean_square
    return Explanation((*edits, *recipe), scheme, left.largest, noise, tuple(samples))


def matching_runtimes(scheme: Scheme, samples: Mapping[str, Sample]) -> dict[str, Distance]:
    """The runtimes that make these tables of a scheme's parameters, and how far they are from theirs."""
    if not samples:
        return {}
    allowed = max(map(_allowed, samples.values()))
    own = getattr(scheme, "runtime", "none")
    found = {name: _of(scheme, name, samples) for name in scheme.runtime_names() if name != own}
    nearest = min((each.root_mean_square for each in found.values()), default=math.inf)
    return {
        name: each
        for name, each in found.items()
        if each.largest <= allowed and each.root_mean_square <= ALIKE * nearest
    }


def _recipe(prior: Scheme, samples: Mapping[str, Sample], left: Distance) -> tuple[Recipe, ...]:
    """The recipe that makes them just as well."""
    found = {name: _of(prior, name, samples) for name in prior.recipe_names()}
    name = min(found, key=lambda each: found[each].root_mean_square)
    return (Recipe(name),) if found[name].root_mean_square <= 1.05 * left.root_mean_square else ()


def _of(scheme: Scheme, way: str, samples: Mapping[str, Sample]) -> Distance:
    try:
        return distance(scheme.computed_as(way), samples)
    except ParameterError:  # which that runtime does not have
        return NOWHERE


def distance(scheme: Scheme, samples: Mapping[str, Sample]) -> Distance:
    """How far tables are from a scheme's, by its names for them; frequencies relatively."""
    made = {table.name: table for table in (*scheme.tensors(), scheme.single_array())}
    errors = []
    for name, one in samples.items():
        if name not in made or made[name].shape != one.shape or np.iscomplexobj(one.values):
            return NOWHERE
        if len(one.shape) == 1:
            expected = widened(made[name].array())
            errors.append(np.abs(one.values / np.where(expected == 0, 1, expected) - 1)[expected != 0])
            continue
        chosen = np.unique(np.linspace(0, len(one.rows) - 1, MAX_ROWS).astype(np.intp))
        leading = math.prod(one.shape[:-2])
        rows = (np.arange(leading)[:, None] * one.shape[-2] + one.rows[chosen]).reshape(-1)
        expected = widened(made[name].pick(rows)).reshape(*one.shape[:-2], len(chosen), one.shape[-1])
        errors.append(np.abs(one.values[..., chosen, :] - expected).reshape(-1))
    every: Floats = np.concatenate(errors)
    if not every.size or not np.isfinite(every).all():
        return NOWHERE
    return Distance(float(np.sqrt(np.mean(every**2))), float(every.max()))


def _allowed(one: Sample) -> float:
    """What rounding may leave: of float32 arithmetic, and of how the values were kept."""
    size = max(1.0, float(np.abs(one.values).max(initial=0)))
    kept = storage.grain(np.asarray(one.values)) if not np.iscomplexobj(one.values) else None
    coarse = 0.0
    if isinstance(kept, Dtype):
        coarse = storage.precision(kept.found) * size
    elif isinstance(kept, Decimals):
        coarse = 0.5 * 10.0**-kept.digits
    elif isinstance(kept, FixedPoint):
        coarse = kept.step / 2
    return UNITS * storage.precision("float32") * size + coarse
