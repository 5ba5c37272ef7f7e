"""Tables that a runtime or a recipe computes from the very parameters that were asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.recipes import STORED
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError
from pecli.explain import storage
from pecli.explain.edits import Decimals, Dtype, Edit, Explanation, FixedPoint, Recipe, Runtime
from pecli.explain.numbers import plainest
from pecli.explain.sample import Sample

MAX_ROWS = 256
UNITS = 4
"""Of the last place of float32, that the sines of other libraries and an attention factor may lose."""
MIN_SHARE = 0.5
"""Of the squared error of one table, that another has to explain. Errors of one library go together, so that a smaller
share means nothing, however many the elements."""


class Distance(NamedTuple):
    """How far tables are from a scheme's."""

    root_mean_square: float
    largest: float
    elements: int = 1

    def exceeds(self, other: Distance) -> bool:
        """Whether another table is nearer: by most of the squared error, and by more than one element may lose."""
        more = self.root_mean_square**2 - other.root_mean_square**2
        loss = UNITS * storage.precision("float32")
        return more >= MIN_SHARE * self.root_mean_square**2 and self.elements * more > loss**2


NOWHERE = Distance(math.inf, math.inf)


def explain_computed(prior: Scheme, samples: Mapping[str, Sample]) -> Explanation | None:
    """The runtimes and the recipe that make these tables of the prior's parameters, where its own are not they."""
    if "recipe" not in prior.parameters() or not samples or prior.holds_several:
        return None
    own, allowed = distance(prior, samples), max(map(_allowed, samples.values()))
    found = {name: _of(prior, name, samples) for name in (*prior.runtime_names(), *prior.recipe_names())}
    nearest = min(found.values(), key=lambda each: each.root_mean_square)
    near = [name for name, each in found.items() if not each.exceeds(nearest)]
    if (
        not found[near[0]].largest <= allowed
        or not own.exceeds(nearest)
        or {*STORED} & {*near}  # which says no more than the dtype does
    ):
        return None
    scheme, left = prior.computed_as(near[0]), found[near[0]]
    runtimes = [name for name in near if name in prior.runtime_names()]
    recipes = [name for name in near if name not in runtimes]
    edits: list[Edit] = [Recipe(name) for name in recipes[:1]]
    if runtimes:
        edits.insert(0, Runtime(runtimes[0], tuple(runtimes[1:]), scheme.runtime_causes()))
    return Explanation(tuple(edits), scheme, left.largest, left.root_mean_square, tuple(samples))


def recognise_narrow(samples: Mapping[str, Sample]) -> Explanation | None:
    """Rotary tables from position 0 on whose angles went through bfloat16: no law has such frequencies, and the base is
    the plain number that the slowest of them leaves room for.
    """
    if {*samples} != {"cos", "sin"} or len({one.shape for one in samples.values()}) != 1:
        return None
    cos, sin = (np.asarray(samples[name].values) for name in ("cos", "sin"))
    if cos.ndim != 2 or len(cos) < 2 or cos.shape[1] < 2 or np.iscomplexobj(cos) or not (cos[0] == 1).all():
        return None
    slowest, dim = math.atan2(sin[1, -1], cos[1, -1]), 2 * cos.shape[1]
    if not 0 < slowest < 1:
        return None
    base = slowest ** (-dim / (dim - 2))
    plain_base = plainest(base, base * 2.0**-7)
    try:
        prior = Rope(cos.shape[0], dim, plain_base)
        found = explain_computed(prior, samples)
    except ParameterError:
        return None
    narrow = found is not None and any(isinstance(edit, Recipe) and "bfloat16" in edit.found for edit in found.edits)
    return found if narrow else None


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
    return Distance(float(np.sqrt(np.mean(every**2))), float(every.max()), every.size)


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
