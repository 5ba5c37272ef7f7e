"""ALiBi: a slope for every head, and the bias it makes over distances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pecli.engine.arrays import Array
from pecli.engine.schemes import BIAS_RECIPE, Choice, Flag, Real, Whole, recipe_named
from pecli.engine.schemes.scheme import Axes, Neighbour, Scheme
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from pecli.engine.schemes.alibi_tables import AlibiTables
    from pecli.engine.table import ByPosition, Table

_MAX_KEYS = 2**24


@dataclass(frozen=True)
class Alibi(Scheme):
    """Attention with linear biases (Press et al., 2022).

    >>> Alibi(heads=8).tables()["slopes"].tolist()
    [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]
    """

    name = "alibi"
    summary = "Make, show or check ALiBi slopes and biases."
    examples = (
        "pecli alibi --heads 12 --slopes",
        "pecli alibi --heads 32 --seq-len 2048 --form causal -o bias.safetensors",
        "pecli alibi --heads 8 --slopes | while read m; do echo slope $m; done",
    )

    heads: Annotated[int, Whole(help="attention heads", high=65536)]
    seq_len: Annotated[int | None, Whole(help="keys and queries; slopes alone without it", high=_MAX_KEYS)] = None
    rule: Annotated[
        str,
        Choice(
            help="how slopes are chosen; naive is wrong for heads that are not a power of two",
            options=("paper", "naive"),
        ),
    ] = "paper"
    max_bias: Annotated[float, Real(help="the smallest slope is 2^(−max_bias)", above=1e-30, up_to=256)] = 8.0
    form: Annotated[
        str,
        Choice(
            help="−m·|i−j|; the same with −inf above the diagonal; +m·j; m·(j−(L−1))",
            options=("symmetric", "causal", "key", "key-last"),
        ),
    ] = "symmetric"
    slopes: Annotated[bool, Flag(help="the slopes alone")] = False
    recipe: Annotated[str, BIAS_RECIPE] = field(default="exact", kw_only=True)

    checkpoint_names: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "slopes": ("slopes", "alibi_slopes", "slope"),
        "bias": ("alibi", "alibi_bias", "attn_bias"),
    }
    applied_as = "bias"

    @property
    def _alone(self) -> bool:
        """Whether there are slopes, and no bias."""
        return self.slopes or self.seq_len is None

    @property
    def inert_parameters(self) -> frozenset[str]:
        return frozenset({"form"}) if self._alone else frozenset()

    @property
    def derived_tensors(self) -> frozenset[str]:
        return frozenset() if self._alone else frozenset({"slopes"})

    @property
    def compute_dtype(self) -> str:
        """The dtype in which values are made, before they are given in their own."""
        recipe = recipe_named(self.recipe)
        return recipe.table or (self.dtype if recipe.is_exact else "float32")

    @cached_property
    def _tables(self) -> AlibiTables:
        """What NumPy is needed for."""
        from pecli.engine.schemes.alibi_tables import AlibiTables

        exact = recipe_named(self.recipe).is_exact
        return AlibiTables(self.heads, self.rule, self.max_bias, exact, self.form, self.compute_dtype, self.dtype)

    def slope_values(self) -> list[float]:
        """What distances are multiplied by, in float64."""
        return self._tables.slope_values()

    def tensors(self) -> tuple[Table, ...]:
        slopes = self._tables.slopes_table()
        if self.slopes or self.seq_len is None:
            return (slopes,)
        return self._tables.bias_table(self.seq_len), slopes

    def at(self, first: int, count: int) -> Array:
        """slope · distance for the distances first, first + 1, …: one row per distance, one column per head."""
        return self._tables.at(first, count)

    def axes_of(self, tensor: str) -> Axes:
        return Axes(("head",), value="slope") if tensor == "slopes" else Axes(("head", "query", "key"), value="bias")

    def by_position(self) -> ByPosition:
        if self.seq_len is None:
            raise ParameterError("seq_len", "missing", "an audit runs over distances", "say how far")
        return self._tables.by_distance(self.seq_len, replace(self, recipe="exact", dtype="float64").slope_values())

    def applied_to(self, x: ArrayLike) -> Array:
        """Scores (…, H, Lq, Lk) plus the bias; the queries are the last. Lk is seq_len, where there is one."""
        import numpy as np

        from pecli.engine.application import add_bias

        keys = self.seq_len or (np.shape(x) or (1,))[-1]
        return add_bias(x, replace(self, seq_len=keys, slopes=False, dtype="float64").tensors()[0])

    @property
    def picture_kinds(self) -> tuple[str, ...]:
        return "heatmap", "curves", "decay", "slopes"

    def neighbours(self) -> tuple[Neighbour, ...]:
        """The other rule where it differs, other forms, and max_bias at its default."""
        changes: list[dict[str, Any]] = [{"max_bias": 8.0}]
        if self.heads & (self.heads - 1):
            changes.append({"rule": "naive" if self.rule == "paper" else "paper"})
        if "form" not in self.inert_parameters:
            changes += [{"form": form} for form in ("symmetric", "causal", "key", "key-last")]
        return tuple(filter(None, (self.neighbour(**each) for each in changes)))
