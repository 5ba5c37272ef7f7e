"""What real pipelines compute, by name: where each of them rounds.

`exact` rounds once, at the end. The others do all their work in float32, as runtimes do (`float32`: the exponents,
the powers, their reciprocals and the products with the positions), except for the one thing that their name says.
Every function value is the correctly rounded one of its float32 argument, so that a recipe gives the same bytes on
every machine; the noise in the last bit of this or that library's own sines is not reproduced. Sinusoidal tables
take the same steps as rotary ones; projects that write exp(−i·ln b/…) get frequencies that differ in a last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pecli.engine.arrays import Singles
from pecli.engine.numerics.geometric import Frequencies
from pecli.engine.runtimes import RUNTIMES
from pecli.engine.schemes.parameters import Choice
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from fractions import Fraction

    from pecli.engine.runtimes.runtime import Phases

_MIN_NORMAL, _MAX_FLOAT32 = 2.0**-126, (2 - 2.0**-23) * 2.0**127
"""The range of float32."""


class Recipe(NamedTuple):
    """The dtypes of positions, frequencies, their product and the table: any combination of float32 and bfloat16,
    or exact for the first three; the table in any dtype, or, where it is empty, in the one that is asked for.
    """

    positions: str = "float32"
    frequencies: str = "float32"
    product: str = "float32"
    table: str = ""
    recurrence: bool = False
    """Each phase is the one before times a constant, in float32 (ggml)."""

    @property
    def is_exact(self) -> bool:
        """Whether nothing but the table is rounded."""
        return self.positions == self.frequencies == self.product == "exact"


def _stored(dtype: str) -> Recipe:
    """The exact values, kept in a dtype."""
    return Recipe("exact", "exact", "exact", dtype)


EXACT = _stored("")

RECIPES = {
    "float32": Recipe(),
    "float32-recurrence": Recipe(recurrence=True),
    "bfloat16-inv-freq": Recipe(frequencies="bfloat16"),
    "bfloat16-positions": Recipe(positions="bfloat16"),
    "bfloat16-phases": Recipe(product="bfloat16"),
    "bfloat16-autocast": Recipe("bfloat16", "bfloat16", "bfloat16"),
    "bfloat16-module": Recipe(frequencies="bfloat16", table="bfloat16"),
    "float32-bfloat16-table": Recipe(table="bfloat16"),
    "float16-table": _stored("float16"),
    "bfloat16-table": _stored("bfloat16"),
}
"""Points of that space, by name; the exact table is none of them. Autocast is PyTorch's, of an einsum of positions and
frequencies; a module is one that was cast with `.to(torch.bfloat16)`, its frequencies included.
"""

STORED = tuple(name for name, recipe in RECIPES.items() if recipe.is_exact)
"""The recipes that any computed table can follow."""


@dataclass(frozen=True, eq=False, repr=False)
class FrequencyRecipe:
    """What a recipe needs to know of a scheme: the frequencies base^(−i/denominator), and what else acts on them."""

    base: float
    denominator: Fraction
    count: int
    scale: float = 1.0
    amplitude: float = 1.0
    steps: Callable[[Singles], Singles] | None = None
    """From base^(i/denominator) to inverse frequencies, where that is more than a division."""
    scaled: Callable[[], Frequencies] | None = None
    """The exact frequencies after those steps."""
    phases: Phases | None = None
    """The angles as a runtime computes them, instead of all that."""


def _choice(names: tuple[str, ...]) -> Choice:
    """The parameter. Files that were made before there were recipes do not name one: exact goes without saying."""
    help = "how a runtime would compute the table, rounding on the way"
    return Choice(help=help, options=("exact", *names), default="exact", omitted_default="exact")


RECIPE = _choice(tuple(RECIPES))
RUNTIME = Choice(
    help="the table that this runtime computes, length being its served context",
    options=("none", *RUNTIMES),
    default="none",
    omitted_default="none",
)
BIAS_RECIPE = _choice(("float32", *STORED))
"""For ALiBi, which has no frequencies: float32 rounds the slopes, and their products with the distances."""


def recipe_named(name: str) -> Recipe:
    """The recipe of that name, `exact` included."""
    return EXACT if name == "exact" else RECIPES[name]


def check_base(recipe: str, base: float) -> None:
    """Refuse a base that a recipe cannot hold."""
    if not recipe_named(recipe).is_exact and not _MIN_NORMAL <= base <= _MAX_FLOAT32:
        raise ParameterError("base", f"{base:g}", f"the recipe {recipe} computes in float32, which cannot represent it")
