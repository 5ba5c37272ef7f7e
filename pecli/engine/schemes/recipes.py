"""What real pipelines compute, by name: where each of them rounds.

`exact` rounds once, at the end. The others do all their work in float32, as runtimes do (`float32`: the exponents,
the powers, their reciprocals and the products with the positions), except for the one thing that their name says.
Every function value is the correctly rounded one of its float32 argument, so that a recipe gives the same bytes on
every machine; the noise in the last bit of this or that library's own sines is not reproduced. Sinusoidal tables
take the same steps as rotary ones; projects that write exp(−i·ln b/…) get frequencies that differ in a last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pecli.engine.schemes.parameters import Choice
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.numerics.cos_sin_tables import Rotation
    from pecli.engine.schemes.recipe_tables import CastFiller, Computed, FrequencyRecipe
    from pecli.engine.schemes.scheme import Scheme

_SMALLEST, _LARGEST = 2.0**-126, (2 - 2.0**-23) * 2.0**127
"""The range of float32."""


class Recipe(NamedTuple):
    """What happens on the way to a table."""

    table: str = ""
    """The exact value is rounded to this dtype, and nothing else happens."""
    bfloat16: str = ""
    """What is rounded to bfloat16: inv_freq, positions or phases."""
    recurrence: bool = False
    """Each phase is the one before times a constant, in float32 (ggml)."""


RECIPES = {
    "float32": Recipe(),
    "float32-recurrence": Recipe(recurrence=True),
    "bfloat16-inv-freq": Recipe(bfloat16="inv_freq"),
    "bfloat16-positions": Recipe(bfloat16="positions"),
    "bfloat16-phases": Recipe(bfloat16="phases"),
    "float16-table": Recipe(table="float16"),
    "bfloat16-table": Recipe(table="bfloat16"),
}

_BIASES = ("float32", "float16-table", "bfloat16-table")


def _choice(names: tuple[str, ...]) -> Choice:
    """The parameter. Files that were made before there were recipes do not name one: exact goes without saying."""
    help = "how a runtime would compute the table, rounding on the way"
    return Choice(help=help, options=("exact", *names), default="exact", omitted_default="exact")


RECIPE = _choice(tuple(RECIPES))
BIAS_RECIPE = _choice(_BIASES)
"""For ALiBi, which has no frequencies: float32 rounds the slopes, and their products with the distances."""


def check_base(recipe: str, base: float) -> None:
    """Refuse a base that a recipe cannot hold."""
    if recipe != "exact" and not RECIPES[recipe].table and not _SMALLEST <= base <= _LARGEST:
        raise ParameterError("base", f"{base:g}", f"the recipe {recipe} computes in float32, which does not reach it")


def filler(recipe: str, exact: Rotation, course: Callable[[], FrequencyRecipe]) -> Rotation | Computed | CastFiller:
    """What fills the tables of cos and sin."""
    if recipe == "exact":
        return exact
    from pecli.engine.schemes.recipe_tables import CastFiller, Computed

    chosen = RECIPES[recipe]
    return CastFiller(exact, chosen.table) if chosen.table else Computed(chosen, course())


def recipe_names(scheme: Scheme | type[Scheme]) -> tuple[str, ...]:
    """The recipes of a scheme, but for the exact one; none where it has no such parameter."""
    parameter = scheme.parameters().get("recipe")
    return tuple(name for name in parameter.options if name != "exact") if isinstance(parameter, Choice) else ()
