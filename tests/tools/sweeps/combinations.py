"""Two or three mistakes of the catalogue at once, in a scheme and a storage drawn at random.

A case is wrong if there is no explanation, or if the first one has more mistakes than were planted. One with as few
that are others makes the same table, every element of it: that is what `accepted_explanation` compares.
"""

import traceback
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

import pecli
from pecli.engine.schemes.scheme import named_tensors
from pecli.explain import catalogue
from pecli.explain.computation import FLOAT32
from pecli.explain.hypothesis import Case, Mistake, Stage
from pecli.explain.observations import Observations
from pecli.explain.planting import Tensors, tensors_made_together
from pecli.golden.mistake_cases import SCHEMES
from tests.tools.sweeps import Attempt

Random = np.random.Generator
STORAGES = ("float64", "float32", "float16", "6 decimals", "4 decimals")
MAX_DRAWS = 5000
"""Draws until mistakes go together: a grid that was replaced has no law of which the base could be another one."""

SMALLEST = 0.01
"""Share of the largest value by which each mistake has to show beside the others."""


def attempt_pair(seed: int) -> Attempt:
    return _attempt(seed, 2)


def attempt_triple(seed: int) -> Attempt:
    return _attempt(seed, 3)


def _attempt(seed: int, count: int) -> Attempt:
    rng = np.random.default_rng([seed, 10 + count])
    storage = STORAGES[seed % len(STORAGES)]
    try:
        problem = _problem(rng, count, storage)
    except Exception:
        problem = f"raised {traceback.format_exc(limit=-2)}"
    return Attempt(storage, problem)


def _problem(rng: Random, count: int, storage: str) -> str:
    tensors, mistakes = _drawn(rng, count)
    wrong = _tables(tensors, mistakes)
    arrays = {}
    for name, array in wrong.items():
        shape = named_tensors(tensors.scheme)[name].shape
        arrays[name] = _stored(array, storage).reshape(shape)
    answer = pecli.verify(arrays, tensors.scheme, atol=1e-6)
    planted = ", ".join(map(str, mistakes))
    if answer.passed:
        return f"passed: {tensors.scheme}, {planted}"
    if not answer.explanations:
        return f"no reason: {tensors.scheme}, {planted}"
    found = [edit for edit in answer.explanations[0].edits if not edit.storage]
    if len(found) <= _edits(tensors, mistakes, wrong):
        return ""
    return f"{answer.diagnosis[0]}: {tensors.scheme}, {planted}"


def _stored(array: np.ndarray, storage: str) -> np.ndarray:
    if storage.endswith("decimals"):
        return np.round(array, int(storage[0]))
    return array.astype(storage)


def _drawn(rng: Random, count: int) -> tuple[Tensors, Sequence[Mistake]]:
    """Return tensors of a scheme, and mistakes of different kinds that all show in them."""
    for _ in range(MAX_DRAWS):
        specimen = _specimens()[int(rng.integers(len(SCHEMES)))]
        chosen = rng.choice(len(specimen.examples), count, replace=False)
        examples = [specimen.examples[kind] for kind in chosen]
        if not all(examples):
            continue
        mistakes = [each[int(rng.integers(len(each)))] for each in examples]
        if _all_show(specimen.tensors, mistakes):
            return specimen.tensors, mistakes
    raise LookupError("no mistakes go together")


class Specimen(NamedTuple):
    """Tensors, and typical mistakes in them: a list per kind, which is empty if they cannot have it."""

    tensors: Tensors
    examples: list[list[Mistake]]


@cache
def _specimens() -> list[Specimen]:
    kinds = [
        kind
        for kind in catalogue.every_kind()
        if kind.stage not in (Stage.STORAGE, Stage.ARITHMETIC, Stage.DAMAGE)
    ]
    specimens = []
    for scheme in SCHEMES:
        names = [name for name in named_tensors(scheme) if name not in scheme.derived_tensors]
        tensors = next(iter(tensors_made_together(scheme, names)))
        examples = [list(kind.examples(tensors.computation, scheme)) for kind in kinds]
        specimens.append(Specimen(tensors, examples))
    return specimens


def _all_show(tensors: Tensors, mistakes: Sequence[Mistake]) -> bool:
    """Return True if mistakes can be planted together, do not cancel, and leaving any out makes another table."""
    try:
        together = _tables(tensors, mistakes)
        right = _tables(tensors, [])
        without = [_tables(tensors, [m for m in mistakes if m is not each]) for each in mistakes]
    except TypeError:
        return False
    return all(_differ(together, others) for others in (right, *without))


def _tables(tensors: Tensors, mistakes: Sequence[Mistake]) -> dict[str, np.ndarray]:
    computation = replace(tensors.computation, arithmetic=FLOAT32)
    for mistake in sorted(mistakes, key=lambda each: (each.stage, each.rank)):
        computation = mistake.plant(computation)
    return tensors._replace(computation=computation).rows(np.arange(tensors.computation.rows))


def _differ(tables: dict[str, np.ndarray], others: dict[str, np.ndarray]) -> bool:
    with np.errstate(invalid="ignore"):
        return any(
            np.nanmax(np.abs(table - others[name])) > SMALLEST * np.nanmax(np.abs(table))
            for name, table in tables.items()
        )


def _edits(tensors: Tensors, mistakes: Sequence[Mistake], wrong: dict[str, np.ndarray]) -> int:
    """Return how many edits name the mistakes."""
    case = Case.of(tensors.scheme, tensors.computation, Observations(wrong, "float64"))
    for mistake in mistakes:
        case = case.supposing(mistake)
    return sum(len(mistake.edits(case)) for mistake in mistakes)
