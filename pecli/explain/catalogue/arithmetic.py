"""Steps of the computation in too small a dtype, each of which is rendered."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.edits import Edit, Parameter, Recipe
from pecli.engine.schemes.rope import Rope
from pecli.explain.catalogue.kinds import WaveMistake
from pecli.explain.catalogue.needs import are_right_near_zero, has_angles, is_inexact
from pecli.explain.changed_schemes import permitted
from pecli.explain.computation import FLOAT32, Arithmetic, WaveComputation
from pecli.explain.hypothesis import Case, Stage

RECIPES = {
    "bfloat16-inv-freq": replace(FLOAT32, frequencies="bfloat16"),
    "bfloat16-positions": replace(FLOAT32, positions="bfloat16"),
    "bfloat16-phases": replace(FLOAT32, phases="bfloat16"),
    "float16-inv-freq": replace(FLOAT32, frequencies="float16"),
    "float16-positions": replace(FLOAT32, positions="float16"),
    "float16-phases": replace(FLOAT32, phases="float16"),
    "bfloat16-autocast": Arithmetic("bfloat16", "bfloat16", "bfloat16"),
    "float16-all": Arithmetic("float16", "float16", "float16"),
}
"""Arithmetic of each recipe that rounds steps to 16 bits, by the recipe's name."""

COARSE_PIS = (3.1415927, 3.1415926, 3.141593, 3.14159, 3.1416, 3.14)
"""Values of π that people write, the closest first."""


@dataclass(frozen=True)
class RoundedSteps(WaveMistake):
    """Positions, inverse frequencies or phases in 16 bits."""

    recipe: str
    summary = "positions, inverse frequencies or phases in bfloat16 or float16"
    seen_in = ("transformers before 4.36 (bfloat16 inv_freq)", "vLLM #1535", "DeepSpeed's .half()")
    stage = Stage.ARITHMETIC
    weight = 0.5
    changes_reading = True
    data_needs = (is_inexact, are_right_near_zero)  # Rounded steps hardly change the first rows.

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        return replace(waves, arithmetic=RECIPES[self.recipe])

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        """Yield all recipes; for a vector, those by which its frequencies are rounded."""
        for name, arithmetic in RECIPES.items():
            changes_frequencies = arithmetic.frequencies != "float32"
            if changes_frequencies or has_angles(waves):
                yield cls(name)

    @classmethod
    def suppositions_for_case(cls, case: Case) -> Iterator[Self]:
        """Yield rounded frequencies and positions: after phases were rounded, nothing else can be
        measured.
        """
        for mistake in cls.examples(case.computation, case.scheme):
            if RECIPES[mistake.recipe].turns_evenly:
                yield mistake

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Recipe(self.recipe),)


@dataclass(frozen=True)
class CoarsePi(WaveMistake):
    """Arguments reduced by a π of few digits, so that errors grow with every turn."""

    pi: float
    summary = "arguments of cosines and sines are reduced with a π of few digits"
    seen_in = ("fast sines of embedded and shader code",)
    stage = Stage.ARITHMETIC
    computation_needs = (has_angles,)
    data_needs = (is_inexact, are_right_near_zero)  # A coarse π hardly changes the first rows.
    is_found_last = True  # After it, no frequencies can be measured.

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        return replace(waves, arithmetic=replace(waves.arithmetic, pi=self.pi))

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        yield from map(cls, COARSE_PIS)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter("pi", f"{math.pi:.9g}", f"{self.pi:.9g}"),)


@dataclass(frozen=True, eq=False)
class Float32Recipe(WaveMistake):
    """The recipe float32, with the very frequencies that it computes.

    It is no mistake that a search tries, since nearly every model computes in float32. Once a search has
    found this, it confirms that `--recipe float32` makes the numbers.
    """

    frequencies: Floats
    """The frequencies of all pairs, to the last bit."""
    summary = "every step is computed in float32, as in PyTorch"
    stage = Stage.ARITHMETIC

    @classmethod
    def of_scheme(cls, scheme: Rope) -> Self | None:
        """Return the recipe with the frequencies of a scheme; None if the scheme refuses a recipe.

        A scheme with a runtime refuses it, since the runtime has arithmetic of its own. Places in an image
        have no recipe here, as they may be fractions of a turn.
        """
        in_float32 = permitted(scheme, recipe="float32")
        if in_float32 is None or not in_float32.is_range:
            return None
        return cls(np.array(in_float32.inverse_frequencies()))

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        arithmetic = replace(FLOAT32, has_given_frequencies=True)
        return replace(waves, frequencies=self.frequencies, arithmetic=arithmetic)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Recipe("float32"),)
