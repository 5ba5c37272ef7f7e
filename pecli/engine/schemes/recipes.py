"""Precision recipes: the points at which a real pipeline rounds.

`exact` rounds once, at the end. The other recipes work in float32 (exponents, powers, reciprocals,
products with positions), except for the one thing that their name states. Every function value is
the correctly rounded one of its float32 argument, so that a recipe gives the same bytes on every
machine. Sinusoidal tables take the steps of rotary ones; projects that compute exp(−i·ln b/…)
instead of a power differ in a last bit.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pecli.engine.schemes.parameters import Choice
from pecli.errors import ParameterError

_MIN_NORMAL_FLOAT32 = 2.0**-126
_MAX_FLOAT32 = (2 - 2.0**-23) * 2.0**127


class PrecisionRecipe(NamedTuple):
    """The precision with which a program computes a table, to be imitated.

    Attributes:
        position_dtype: The dtype of positions: float32, bfloat16, float16 or exact.
        frequency_dtype: The dtype of frequencies, likewise.
        product_dtype: The dtype of the angles, position · frequency, likewise.
        table_dtype: The dtype to which cosines and sines are rounded before they get the requested
            one; empty if only the requested one counts.
        recurrence: True if each angle is the one before times a constant in float32, as in ggml.
    """

    position_dtype: str = "float32"
    frequency_dtype: str = "float32"
    product_dtype: str = "float32"
    table_dtype: str = ""
    recurrence: bool = False

    @property
    def is_exact(self) -> bool:
        """Return True if only the table is rounded."""
        return self.position_dtype == self.frequency_dtype == self.product_dtype == "exact"


EXACT = PrecisionRecipe("exact", "exact", "exact")

RECIPES: Mapping[str, PrecisionRecipe] = {
    "float32": PrecisionRecipe(),
    "float32-recurrence": PrecisionRecipe(recurrence=True),
    "bfloat16-inv-freq": PrecisionRecipe(frequency_dtype="bfloat16"),
    "bfloat16-positions": PrecisionRecipe(position_dtype="bfloat16"),
    "bfloat16-phases": PrecisionRecipe(product_dtype="bfloat16"),
    "float16-inv-freq": PrecisionRecipe(frequency_dtype="float16"),
    "float16-positions": PrecisionRecipe(position_dtype="float16"),
    "float16-phases": PrecisionRecipe(product_dtype="float16"),
    # PyTorch's autocast of an einsum of positions and frequencies.
    "bfloat16-autocast": PrecisionRecipe("bfloat16", "bfloat16", "bfloat16"),
    # A model that was cast with .half(), which computes positions and phases in float16 as well.
    "float16-all": PrecisionRecipe("float16", "float16", "float16", "float16"),
    # A module that was cast with .to(torch.bfloat16), its frequencies included.
    "bfloat16-module": PrecisionRecipe(frequency_dtype="bfloat16", table_dtype="bfloat16"),
    "float32-bfloat16-table": PrecisionRecipe(table_dtype="bfloat16"),
    "float16-table": EXACT._replace(table_dtype="float16"),
    "bfloat16-table": EXACT._replace(table_dtype="bfloat16"),
}
"""The recipes by name, except for exact."""

STORED = tuple(name for name, recipe in RECIPES.items() if recipe.is_exact)
"""The recipes that every computed table can follow: they only store it in another dtype."""


def _recipe_parameter(*names: str) -> Choice:
    """Return the parameter that chooses a recipe, a precision to imitate, or `exact`."""
    # Files that were made before there were recipes do not name one: they are exact.
    return Choice(
        "emulate this precision recipe",
        options=("exact", *names),
        default="exact",
        omitted_default="exact",
    )


RECIPE = _recipe_parameter(*RECIPES)
BIAS_RECIPE = _recipe_parameter("float32", *STORED)
"""The recipes of ALiBi, which has no frequencies: float32 rounds the slopes, and their products
with the distances.
"""


STORED_RECIPE = _recipe_parameter(*STORED)
"""The recipes of schemes that are not computed in floating point, such as T5's buckets."""


def recipe_named(name: str) -> PrecisionRecipe:
    """Return the recipe of that name, `exact` included."""
    return EXACT if name == "exact" else RECIPES[name]


def check_base_of_recipe(recipe: str, base: float) -> None:
    """Raise ParameterError if a recipe computes in float32, which cannot represent the base."""
    if recipe_named(recipe).is_exact:
        return
    if not _MIN_NORMAL_FLOAT32 <= base <= _MAX_FLOAT32:
        rule = f"the recipe {recipe} computes in float32, which cannot represent it"
        raise ParameterError("base", f"{base:g}", rule)
