"""Correct numbers that were stored coarsely: all values lie on a grid, as of three decimals."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from pecli.engine.edits import Edit, Recipe
from pecli.engine.schemes.recipes import RECIPES
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.bias_computation import BiasComputation, is_unmasked
from pecli.explain.computation import Computation, FrequencyComputation
from pecli.explain.hypothesis import Case, Mistake, Stage
from pecli.explain.storage import (
    MODES,
    FloatStorage,
    StepStorage,
    Storage,
    TruncatedStorage,
    TwiceRounded,
    storages_of,
)


@dataclass(frozen=True)
class Stored(Mistake):
    """Values rounded to a dtype, to some decimals or to a step."""

    storage: Storage
    summary = "values rounded to 16 bits, printed with few decimals, or quantised"
    stage = Stage.STORAGE
    weight = 0.1
    changes_reading = True

    def plant(self, computation: Computation) -> Computation:
        return replace(computation, storage=self.storage)

    @classmethod
    def proposals_for_case(cls, case: Case) -> Iterator[Self]:
        yield from map(cls, case.once(("storages",), lambda: _storages(case)))

    @property
    def roundings(self) -> Iterator["Stored"]:
        """The grid with other ways of rounding: toward zero, down, or twice."""
        for mode in MODES:
            yield Truncated(TruncatedStorage(self.storage, mode))
        if self.storage == FloatStorage("bfloat16"):
            yield Stored(TwiceRounded())

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        yield cls(FloatStorage("bfloat16"))
        yield cls(StepStorage(1e-4))

    def affected(self, case: Case) -> tuple[str, ...]:
        """Return all tensors if storage is all that there is to explain."""
        return tuple(case.observations.tensors) if len(case.mistakes) == 1 else ()

    def edits(self, case: Case) -> tuple[Edit, ...]:
        """Return the storage as an edit; for a vector of frequencies, the recipe that rounds them."""
        is_vector = isinstance(case.specification, FrequencyComputation)
        if is_vector and isinstance(self.storage, FloatStorage):
            recipe = f"{self.storage.dtype}-inv-freq"
            if recipe in RECIPES:  # Frequencies in 8 bits are no recipe of any runtime.
                return (Recipe(recipe),)
        return (self.storage.edit,)


class Truncated(Stored):
    """Values rounded toward zero or down."""

    summary = "values rounded toward zero or down, as by C's casts and shifts"
    weight = 0.2


def _storages(case: Case) -> list[Storage]:
    """Return the grids on which all values lie, such as the multiples of 0.01, or the numbers of float16."""
    values = case.observations.sample
    if isinstance(case.computation, BiasComputation):
        values = values[is_unmasked(values)]  # Infinite values of a mask lie on no grid.
    grids = storages_of(values, case.observations.dtype)
    if isinstance(case.computation, FrequencyComputation):
        return [grid for grid in grids if _is_recipe_or_step(grid)]
    return list(grids)


def _is_recipe_or_step(grid: Storage) -> bool:
    """Return True unless frequencies on a grid go without saying (float32), or are in a dtype that
    no recipe has.
    """
    return not isinstance(grid, FloatStorage) or grid.dtype in ("bfloat16", "float16")
