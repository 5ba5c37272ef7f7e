"""Steps of the computation in too small a dtype. The steps are rendered, so that no error has to be guessed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from pecli.engine.edits import Edit, Recipe
from pecli.explain.catalogue.kinds import WaveMistake
from pecli.explain.hypothesis import Case, Stage
from pecli.explain.making import FLOAT32, Arithmetic, FrequencyMaking, WaveMaking

RECIPES = {
    f"{dtype}-{recipe}": replace(FLOAT32, **{step: dtype})
    for dtype in ("bfloat16", "float16")
    for recipe, step in (
        ("inv-freq", "frequencies"),
        ("positions", "positions"),
        ("phases", "phases"),
    )
}
"""Arithmetic of each recipe that rounds one step to 16 bits, by the recipe's name."""

RECIPES["bfloat16-autocast"] = Arithmetic("bfloat16", "bfloat16", "bfloat16")


@dataclass(frozen=True)
class RoundedSteps(WaveMistake):
    """Positions, inverse frequencies or phases in 16 bits."""

    recipe: str
    summary = "positions, inverse frequencies or phases in bfloat16 or float16"
    seen_in = ("transformers before 4.36 (bfloat16 inv_freq)", "vLLM #1535", "DeepSpeed's .half()")
    stage = Stage.ARITHMETIC
    weight = 0.5

    def in_waves(self, waves: WaveMaking) -> WaveMaking:
        return replace(waves, arithmetic=RECIPES[self.recipe])

    @classmethod
    def examples_for(cls, waves: WaveMaking) -> Iterator[Self]:
        for name, arithmetic in RECIPES.items():
            changes_frequencies = arithmetic.frequencies != "float32"
            if changes_frequencies or not isinstance(waves, FrequencyMaking):
                yield cls(name)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Recipe(self.recipe),)
