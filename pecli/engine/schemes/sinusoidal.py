"""Sinusoidal tables: the paper's, and every other project's idea of them.

angle = position · scale · base^(−i / (D/2 − freq_shift)), one sine and one cosine channel for each i. On a grid every
axis has a share of the channels and its own angles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Array, Indices
from pecli.engine.numerics.phases import Waves
from pecli.engine.schemes import RECIPE, Choice, Flag, Real, Whole, check_base, recipe_named
from pecli.engine.schemes.positions import Positioned, check_last
from pecli.engine.schemes.scheme import Axes, Neighbour, WaveTable, unset
from pecli.engine.table import ByPosition, Table
from pecli.errors import ParameterError, bracketed, shown

if TYPE_CHECKING:
    from pecli.engine.numerics.axis_tables import Coordinates
    from pecli.engine.schemes.grid_styles import AxisBlock, GridStyle
    from pecli.engine.schemes.recipe_tables import AxisWaves, Filler, FrequencyRecipe

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

GRID_STYLES = ("mae", "vit-mae", "sd3", "cogvideox", "detr", "timm")
"""Styles of tables on grids, which `grid_styles.ADDED` describes."""

_LAYOUT = Choice("sin,cos,sin,cos,… or all sin, then all cos", default="interleaved", options=("interleaved", "halves"))
_RELATIVE = Flag("positions L−1, …, −(L−1), L being --seq-len", panel="Positions", omitted_default=False)
STYLE = Choice(
    "another project's conventions; options given beside it win", options=(*STYLES, *GRID_STYLES), omitted_default=None
)
"""Those on grids are part of the scheme; the others stand for other parameters, and leave no trace in the spec."""


@dataclass(frozen=True, repr=False)
class Sinusoidal(Positioned):
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

    seq_len: Annotated[int, Whole("rows of the table, unless --positions or --grid is given")] = unset()
    dim: Annotated[int, Whole("channels of a row", high=65536, default=MISSING)] = unset()
    base: Annotated[float, Real("base of the frequencies", default=10000.0, above=0)] = unset()
    layout: Annotated[str, _LAYOUT] = unset()
    cos_first: Annotated[bool, Flag("cos before sin", default=False)] = unset()
    freq_shift: Annotated[float, Real("taken from D/2 in the exponent", default=0.0)] = unset()
    offset: Annotated[int, Whole("position of the first row", default=0, low=0)] = unset()
    scale: Annotated[float, Real("multiplies the positions", default=1.0, above=0)] = unset()
    amplitude: Annotated[float, Real("multiplies the values", default=1.0, above=1e-30, up_to=1e30)] = unset()
    padding_idx: Annotated[int | None, Whole("the row of this position is zeros", low=0)] = unset()
    style: Annotated[str | None, STYLE] = None
    _: KW_ONLY
    relative: Annotated[bool, _RELATIVE] = False
    recipe: Annotated[str, RECIPE] = "exact"

    def __post_init__(self) -> None:
        style = self.style if self.style is None else STYLE.check("style", self.style)
        if self.dim is None:
            raise ParameterError("dim", "missing", self.parameters()["dim"].rule)
        dim = type(self).parameters()["dim"].check("dim", self.dim)
        if (on_grid := self.grid_style) is not None:
            self._complete({"layout": on_grid.layout, "base": on_grid.base, "keep": on_grid.keep})
            return
        if self.grid is not None and style is not None:
            rule = f"on grids it must be one of {', '.join(GRID_STYLES)}"
            raise ParameterError("style", repr(style), rule)
        if style in EVEN_ONLY and dim % 2:
            raise ParameterError("dim", dim, f"the {style} style has even dims only")
        object.__setattr__(self, "style", None)
        self._complete(
            {name: value(dim) if callable(value) else value for name, value in STYLES[style or "paper"].items()}
        )

    def _check(self) -> None:
        super()._check()
        check_last(self.offset, self.seq_len)
        if self.relative and (self.offset or self.positions is not None or self.grid is not None):
            raise ParameterError("relative", "true", "it has positions of its own", "give --seq-len alone")
        if self.padding_idx is not None and (self.relative or self.grid is not None):
            raise ParameterError("padding_idx", self.padding_idx, "such a table has no row of padding", "leave it out")
        self._check_axes()
        for pairs, half in self._pairs_and_halves():
            if pairs > 1 and half - Fraction(self.freq_shift) < Fraction(1, 2):
                rule = f"it must leave at least 0.5 of D/2 = {float(half):g}"
                raise ParameterError("freq_shift", shown(self.freq_shift), rule)
            largest = float((pairs - 1) / (half - Fraction(self.freq_shift))) if pairs > 1 else 0.0
            numerics.check_base(self.base, largest, self.scale)
        check_base(self.recipe, self.base)

    def _check_axes(self) -> None:
        """Given positions have as many axes as the style."""
        style = self.grid_style
        axes = "" if style is None else style.sorted_axes
        if self.positions is None or len(self.positions.axes) == max(1, len(axes)):
            return
        rule = "without a style of grids they must be of shape (L,)"
        if style is not None:
            rule = f"the {style.name} style has the axes {', '.join(axes)}: they must be of shape ({len(axes)}, L)"
        raise ParameterError("positions", f"of shape {bracketed(self.positions.shape)}", rule)

    @property
    def grid_style(self) -> GridStyle | None:
        if self.style not in GRID_STYLES:
            return None
        from pecli.engine.schemes.grid_styles import ADDED

        return ADDED[self.style]

    @property
    def is_range(self) -> bool:
        return super().is_range and not self.relative

    @property
    def inert_parameters(self) -> frozenset[str]:
        return super().inert_parameters - ({"seq_len"} if self.relative else set())

    @property
    def rows(self) -> int:
        """Of the table."""
        return 2 * self.seq_len - 1 if self.relative else self.seq_len

    @cached_property
    def axis_blocks(self) -> tuple[AxisBlock, ...]:
        """The frequencies of each axis; there is one, unless on a grid."""
        from pecli.engine.schemes.grid_styles import AxisBlock

        style = self.grid_style
        return style.blocks(self.dim) if style else (AxisBlock(0, 2 * self._pairs, self._half),)

    def _pairs_and_halves(self) -> list[tuple[int, Fraction]]:
        """Of each axis, its pairs of sines and cosines, and D/2 in its exponents."""
        if self.grid_style is None:
            return [(self._pairs, self._half)]
        return [(block.pairs, block.denominator) for block in self.axis_blocks]

    @property
    def _half(self) -> Fraction:
        """D/2 in the exponent: with an odd dim the projects that pad a column count whole pairs, the others do not."""
        return Fraction(self.dim // 2) if self.layout == "halves" else Fraction(self.dim, 2)

    @property
    def _denominator(self) -> Fraction:
        return self._half - Fraction(self.freq_shift)

    @property
    def _pairs(self) -> int:
        return self.dim // 2 if self.layout == "halves" else (self.dim + 1) // 2

    def inverse_frequencies(self) -> list[float]:
        """base^(−i / (D/2 − freq_shift)), as float64, axis by axis; a dim of one, in halves, has none."""
        if self.grid_style is None:
            return numerics.geometric(self.base, self._denominator, self._pairs).floats()[: self._pairs]
        from pecli.engine.schemes.recipe_tables import block_frequencies

        frequencies = block_frequencies(self.axis_blocks, self.base, self.freq_shift)
        return (numerics.in_radians(frequencies) if self.grid_style.in_turns else frequencies).floats()

    def angular_frequencies(self) -> list[float]:
        return [self.scale * value for value in self.inverse_frequencies()]

    def waves(self) -> Waves:
        frequencies = numerics.geometric(self.base, self._denominator, self._pairs, self.scale)
        return Waves.of(frequencies, scale=self.scale, amplitude=self.amplitude)

    def frequency_recipe(self) -> FrequencyRecipe:
        from pecli.engine.schemes.recipe_tables import FrequencyRecipe

        denominator = self._denominator if self._pairs > 1 else Fraction(1)  # one frequency is 1, even over zero
        return FrequencyRecipe(self.base, denominator, self._pairs, self.scale, self.amplitude)

    def axis_waves(self) -> AxisWaves:
        from pecli.engine.schemes.recipe_tables import block_waves

        in_turns = self.grid_style is not None and self.grid_style.in_turns
        numbers = self.base, self.freq_shift, self.scale, self.amplitude
        return block_waves(self.coordinates(), self.axis_blocks, *numbers, in_turns=in_turns)

    def coordinates(self) -> Coordinates:
        if not self.relative:
            return super().coordinates()
        from pecli.engine.numerics.axis_tables import listed_coordinates

        return listed_coordinates([range(self.seq_len - 1, -self.seq_len, -1)])

    def tensors(self) -> tuple[Table, ...]:
        filler = self.row_filler(recipe_named(self.recipe), self.rows)

        def fill(start: int, out: Array) -> None:
            self._fill(filler, start, out)

        return (Table("pe", self.dtype, (self.rows, self.dim), fill),)

    @property
    def _parts(self) -> tuple[str, str]:
        return ("cos", "sin") if self.cos_first else ("sin", "cos")

    def _blocks(self) -> list[int]:
        """Pairs of sines and cosines; in halves, those of each block follow each other."""
        pairs = [pairs for pairs, _ in self._pairs_and_halves()]
        return [sum(pairs)] if self.grid_style is None or self.grid_style.sines_first else pairs

    def _fill(self, filler: Filler, start: int, out: Array) -> None:
        first = self.offset + start
        if self.layout == "interleaved":
            filler.fill(",".join(self._parts), first, out, self.dtype)
        else:
            self._fill_halves(filler, first, out)
        out[: max(0, (self.keep or 0) - start)] = 0
        if self.padding_idx is not None:
            out[self._padding_rows(first, len(out))] = 0

    def _fill_halves(self, filler: Filler, first: int, out: Array) -> None:
        blocks = self._blocks()
        if self.dim % 2:
            out[:, -1] = 0
        if len(blocks) == 1:
            for k, part in enumerate(self._parts if blocks[0] else ()):
                filler.fill(part, first, out[:, k * blocks[0] : (k + 1) * blocks[0]], self.dtype)
            return
        pairs = np.empty((len(out), sum(blocks)), out.dtype)
        for k, part in enumerate(self._parts):
            filler.fill(part, first, pairs, self.dtype)
            done = 0
            for size in blocks:
                out[:, 2 * done + k * size : 2 * done + (k + 1) * size] = pairs[:, done : done + size]
                done += size

    def _padding_rows(self, first: int, count: int) -> Indices:
        if self.is_range:
            return np.flatnonzero(np.arange(first, first + count) == self.padding_idx)
        coordinates = self.coordinates()
        values, (index,) = coordinates.values[0], coordinates.index(first, first + count)
        return np.flatnonzero(np.isin(index, [k for k, value in enumerate(values) if value == self.padding_idx]))

    def axes_of(self, tensor: str) -> Axes:
        return Axes(("position", "channel"), self.offset, step=2 if self.layout == "interleaved" else 1)

    def by_position(self) -> ByPosition:
        """All columns but the zeros that pad an odd dim."""
        frequencies = self.inverse_frequencies()
        if not frequencies:
            raise ParameterError("dim", self.dim, "in halves, that leaves no frequency at all")
        (table,) = self.tensors()
        columns = np.arange(self.dim - (self.layout == "halves" and self.dim % 2))
        if self.layout == "interleaved":
            groups, second = columns // 2, columns % 2
        else:
            blocks = self._blocks()
            starts = np.cumsum((0, *blocks))
            groups = np.concatenate([np.tile(np.arange(*ends), 2) for ends in pairwise(starts)])
            second = np.concatenate([np.repeat([0, 1], size) for size in blocks])
        names = tuple(self._parts[k] for k in second)

        def read(start: int, stop: int) -> Array:
            return table.read(start, stop)[:, : len(columns)]

        return ByPosition(self.offset, self.rows, "frequencies", frequencies, groups, names, read)

    def neighbours(self) -> tuple[Neighbour, ...]:
        """Besides parameters at their defaults: the other layout, order and exponent."""
        from pecli.engine.schemes.grid_styles import ADDED

        other_layout = "halves" if self.layout == "interleaved" else "interleaved"
        changes: list[dict[str, Any]] = [
            {"layout": other_layout},
            {"cos_first": not self.cos_first},
            {"freq_shift": 0.0 if self.freq_shift else 1.0},
        ]
        first = {other.scheme: other for change in changes if (other := self.neighbour(**change))}
        more = [*filter(None, self.place_neighbours(ADDED)), *super().neighbours()]
        return (*first.values(), *(each for each in more if each.scheme not in first))

    def wave_table(self) -> WaveTable | None:
        from pecli.engine.scalings.scaling import Scaling

        if not self.is_range:
            return None
        exponent = float(self._denominator) if self._pairs > 1 else 1.0
        return WaveTable(
            self.dim, exponent, self.base, self.scale, Scaling(), self._pairs, self.amplitude, self.offset,
            self.seq_len, self.layout, self.cos_first, separate=False,
        )  # fmt: skip

    @classmethod
    def from_waves(cls, waves: WaveTable, **more: Any) -> Self | None:
        from pecli.engine.scalings.scaling import Scaling

        if waves.separate or waves.scaling != Scaling():
            return None
        half = waves.dim // 2 if waves.layout == "halves" else waves.dim / 2
        try:
            return cls(
                waves.length, waves.dim, waves.base, waves.layout, waves.cos_first, half - waves.exponent, waves.offset,
                waves.scale, waves.amplitude, **more,
            )  # fmt: skip
        except ParameterError:
            return None

    def wave_neighbours(self) -> Iterator[WaveTable]:
        """The other shifts of the exponent."""
        if (own := self.wave_table()) is not None:
            for shift in (0.0, 1.0):
                if shift != self.freq_shift:
                    yield own._replace(exponent=own.exponent + self.freq_shift - shift)

    def wave_edit(self, field: str, expected: float, found: float) -> tuple[str, float, float]:
        """An exponent goes by its shift, where that is a usual one."""
        shift = self.freq_shift + expected - found
        if field == "exponent" and shift in (0.0, 0.5, 1.0):
            return "freq_shift", self.freq_shift, shift
        return super().wave_edit(field, expected, found)
