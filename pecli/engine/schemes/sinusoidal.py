"""Sinusoidal tables: the paper's, and every other project's idea of them.

angle = position · scale · base^(−i / (D/2 − freq_shift)), one sine and one cosine channel for each i.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pecli.engine.numerics import geometric
from pecli.engine.schemes.parameters import Choice, Flag, Parameter, Real, Whole
from pecli.engine.schemes.positions import LAST_POSITION, check_last
from pecli.engine.schemes.recipes import RECIPE, FrequencyRecipe, check_base, recipe_named
from pecli.engine.schemes.scheme import Axes, Neighbour, Scheme, unset
from pecli.engine.text import shown
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.numerics.phases import Waves
    from pecli.engine.schemes.by_position import ByPosition
    from pecli.engine.schemes.sinusoidal_tables import SinusoidalTable
    from pecli.engine.table import Table

_HALVES: Mapping[str, Any] = {"layout": "halves"}
_TENSOR2TENSOR = {**_HALVES, "freq_shift": 1.0}
_DIFFUSION = {**_HALVES, "cos_first": True}

STYLES: dict[str, Mapping[str, Any]] = {
    "paper": {},
    "lucid": {},
    "lightwatch": {},
    "roformer": _HALVES,
    "marian": _HALVES,
    "gptj": _HALVES,
    "ctrl": _HALVES,
    "tensor2tensor": _TENSOR2TENSOR,
    "whisper": _TENSOR2TENSOR,
    "fairseq": {**_TENSOR2TENSOR, "padding_idx": 1},
    "m2m100": {**_TENSOR2TENSOR, "padding_idx": 1},
    "fsmt": {**_TENSOR2TENSOR, "padding_idx": 1},
    "ddpm": _TENSOR2TENSOR,
    "stable-diffusion": _DIFFUSION,
    "dit": _DIFFUSION,
    "flux": {**_DIFFUSION, "scale": 1000.0},
    "mlx": {**_TENSOR2TENSOR, "amplitude": lambda dim: math.sqrt(2 / dim)},
    "x-transformers": {**_HALVES, "amplitude": lambda dim: 1 / math.sqrt(dim)},
}
"""What each project does; a value may depend on the dim."""

EVEN_ONLY = frozenset({"roformer", "marian", "gptj", "ctrl", "mlx", "x-transformers"})
"""Styles whose projects have no table of odd dim."""

STYLE = Choice(help="another project's conventions; options given beside it win", options=tuple(STYLES))


@dataclass(frozen=True)
class Sinusoidal(Scheme):
    """Sinusoidal positional encoding (Vaswani et al., 2017).

    >>> Sinusoidal(seq_len=2, dim=2, dtype="float64").tables()["pe"].tolist()
    [[0.0, 1.0], [0.8414709848078965, 0.5403023058681398]]
    """

    name = "sinusoidal"
    summary = "Make, show or check sinusoidal tables."
    examples = (
        "pecli sinusoidal --seq-len 512 --dim 64 -o pe.npy",
        "pecli sinusoidal --seq-len 1500 --dim 384 --style whisper -o pe.npz",
        "pecli sinusoidal --seq-len 512 --dim 64 --verify dump.npy --max-ulp 2",
    )

    seq_len: Annotated[int, Whole(help="rows of the table", high=LAST_POSITION)]
    dim: Annotated[int, Whole(help="channels of a row", high=65536)]
    base: Annotated[float, Real(help="wavelengths run from 2π to 2π times this", default=10000.0, above=0)] = unset()
    layout: Annotated[
        str,
        Choice(
            help="sin,cos,sin,cos,… or all sin, then all cos", default="interleaved", options=("interleaved", "halves")
        ),
    ] = unset()
    cos_first: Annotated[bool, Flag(help="cos before sin", default=False)] = unset()
    freq_shift: Annotated[float, Real(help="taken from D/2 in the exponent", default=0.0)] = unset()
    offset: Annotated[int, Whole(help="position of the first row", default=0, low=0, high=LAST_POSITION)] = unset()
    scale: Annotated[float, Real(help="multiplies the positions", default=1.0, above=0)] = unset()
    amplitude: Annotated[float, Real(help="multiplies the values", default=1.0, above=1e-30, up_to=1e30)] = unset()
    padding_idx: Annotated[int | None, Whole(help="the row of this position is zeros", low=0, high=LAST_POSITION)] = (
        unset()
    )
    style: InitVar[str | None] = None
    recipe: Annotated[str, RECIPE] = field(default="exact", kw_only=True)

    presets: ClassVar[Mapping[str, Parameter]] = {"style": STYLE}

    def __post_init__(self, style: str | None) -> None:
        if style is not None:
            STYLE.check("style", style)
        dim = type(self).parameters()["dim"].check("dim", self.dim)
        if style in EVEN_ONLY and dim % 2:
            raise ParameterError("dim", dim, f"the {style} style has even dims only")
        preset = {name: value(dim) if callable(value) else value for name, value in STYLES[style or "paper"].items()}
        self._settle(preset)

    def _check(self) -> None:
        check_last(self.offset, self.seq_len)
        if self._waves > 1 and self._denominator < Fraction(1, 2):
            rule = f"it must leave at least 0.5 of D/2 = {float(self._half):g}"
            raise ParameterError("freq_shift", shown(self.freq_shift), rule)
        largest = float((self._waves - 1) / self._denominator) if self._waves > 1 else 0.0
        geometric.check_base(self.base, largest, self.scale)
        check_base(self.recipe, self.base)

    @property
    def _half(self) -> Fraction:
        """D/2 in the exponent: with an odd dim the projects that pad a column count whole pairs, the others do not."""
        return Fraction(self.dim // 2) if self.layout == "halves" else Fraction(self.dim, 2)

    @property
    def half(self) -> float:
        """D/2 in the exponent, as a float."""
        return float(self._half)

    @property
    def _denominator(self) -> Fraction:
        return self._half - Fraction(self.freq_shift)

    @property
    def _waves(self) -> int:
        return self.dim // 2 if self.layout == "halves" else (self.dim + 1) // 2

    def inverse_frequencies(self) -> list[float]:
        """base^(−i / (D/2 − freq_shift)), as float64; a dim of one, in halves, has none."""
        return geometric.geometric(self.base, self._denominator, self._waves).floats()[: self._waves]

    def angular_frequencies(self) -> list[float]:
        return [self.scale * value for value in self.inverse_frequencies()]

    def waves(self) -> Waves:
        """The frequencies and the amplitude, in integers."""
        shape = geometric.geometric(self.base, self._denominator, self._waves, self.scale)
        return geometric.waves(shape, scale=self.scale, amplitude=self.amplitude)

    def frequency_recipe(self) -> FrequencyRecipe:
        """What a recipe needs to know."""
        denominator = self._denominator if self._waves > 1 else Fraction(1)  # one frequency is 1, even over zero
        return FrequencyRecipe(self.base, denominator, self._waves, self.scale, self.amplitude)

    def _table(self) -> SinusoidalTable:
        """What NumPy is needed for."""
        from pecli.engine.schemes.sinusoidal_tables import SinusoidalTable

        return SinusoidalTable(
            recipe_named(self.recipe),
            self.waves,
            self.frequency_recipe,
            self.seq_len,
            self.dim,
            self._waves,
            self.layout,
            self.cos_first,
            self.offset,
            self.padding_idx,
            self.dtype,
        )

    def tensors(self) -> tuple[Table, ...]:
        return (self._table().table(),)

    def axes_of(self, tensor: str) -> Axes:
        return Axes(("position", "channel"), self.offset, step=2 if self.layout == "interleaved" else 1)

    def by_position(self) -> ByPosition:
        return self._table().by_position(self.inverse_frequencies())

    def neighbours(self) -> tuple[Neighbour, ...]:
        """Besides parameters at their defaults: the other layout, order and exponent."""
        other = "halves" if self.layout == "interleaved" else "interleaved"
        changes: list[dict[str, Any]] = [
            {"layout": other},
            {"cos_first": not self.cos_first},
            {"freq_shift": 0.0 if self.freq_shift else 1.0},
        ]
        found = {each.scheme: each for change in changes if (each := self.neighbour(**change))}
        return (*found.values(), *(each for each in super().neighbours() if each.scheme not in found))
