"""Sinusoidal tables: the paper's, and every other project's idea of them.

angle = position · scale · base^(−i / (D/2 − freq_shift)), one sine and one cosine channel for each i. On a grid every
axis has a share of the channels and its own angles.
"""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Array, Indices
from pecli.engine.numerics.phases import Waves
from pecli.engine.schemes import RECIPE, Choice, Flag, Real, Whole, check_base, with_aliases
from pecli.engine.schemes.axis_blocks import AxisBlock
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.scheme import UNSET, Axes
from pecli.engine.table import Table

if TYPE_CHECKING:
    from pecli.engine.numerics.axis_tables import Coordinates
    from pecli.engine.schemes.grid_styles import GridStyle

_HALVES: Mapping[str, Any] = {"layout": "halves"}
_TENSOR2TENSOR = {**_HALVES, "freq_shift": 1.0}
_DIFFUSION = {**_HALVES, "cos_first": True}

STYLES: dict[str, Mapping[str, Any]] = {
    **{key: {} for key in ("paper", "lucid", "lightwatch")},
    **dict.fromkeys(("roformer", "marian", "gptj", "ctrl"), _HALVES),
    **dict.fromkeys(("tensor2tensor", "whisper"), _TENSOR2TENSOR),
    **{key: {**_TENSOR2TENSOR, "padding_idx": 1} for key in ("fairseq", "m2m100", "fsmt")},
    "ddpm": _TENSOR2TENSOR,
    **dict.fromkeys(("stable-diffusion", "dit"), _DIFFUSION),
    "flux": {**_DIFFUSION, "scale": 1000.0},
    "mlx": {**_TENSOR2TENSOR, "amplitude": lambda dim: math.sqrt(2 / dim)},
    "x-transformers": {**_HALVES, "amplitude": lambda dim: 1 / math.sqrt(dim)},
}
"""What each project does; a value may depend on the dim."""

EVEN_ONLY = frozenset({"roformer", "marian", "gptj", "ctrl", "mlx", "x-transformers"})
"""Styles whose projects have no table of odd dim."""

GRID_STYLES = (
    "mae", "vit-mae", "sd3", "cogvideox", "detr", "timm", "positional-encodings-2d", "positional-encodings-3d",
)  # fmt: skip
"""Styles of tables on grids, which `grid_styles.ADDED` describes."""

_LAYOUT = Choice(
    "sin and cos in turn, or all sin, then all cos",
    default="interleaved",
    options=("interleaved", "halves"),
)
_RELATIVE = Flag(
    "positions L−1, …, −(L−1), L being --seq-len", panel="Positions", omitted_default=False
)
STYLE = Choice(
    "another project's conventions; options given beside it win",
    options=(*STYLES, *GRID_STYLES),
    omitted_default=None,
)
"""Those on grids are part of the scheme; the others stand for other parameters, and leave no trace in the spec."""


@with_aliases
@dataclass(frozen=True, repr=False)
class Sinusoidal(Positioned):
    """Sinusoidal positional encoding (Vaswani et al., 2017).

    >>> Sinusoidal(seq_len=2, dim=2, dtype="float64").tables()["pe"].tolist()
    [[0.0, 1.0], [0.8414709848078965, 0.5403023058681398]]
    """

    name = "sinusoidal"

    layout: Annotated[str, _LAYOUT] = UNSET
    cos_first: Annotated[bool, Flag("cos before sin", default=False)] = UNSET
    freq_shift: Annotated[float, Real("subtracted from D/2 in the exponent", default=0.0)] = UNSET
    offset: Annotated[int, Whole("position of the first row", default=0, low=0)] = UNSET
    scale: Annotated[float, Real("multiplies the positions", default=1.0, above=0)] = UNSET
    amplitude: Annotated[
        float, Real("multiplies the values", default=1.0, above=1e-30, up_to=1e30)
    ] = UNSET
    padding_idx: Annotated[int | None, Whole("the row of this position is zeros", low=0)] = UNSET
    style: Annotated[str | None, STYLE] = None
    _: KW_ONLY
    relative: Annotated[bool, _RELATIVE] = False
    recipe: Annotated[str, RECIPE] = "exact"

    def __post_init__(self) -> None:
        self._check_first("style", "dim")
        self.refuse_if(self.dim is None, "dim", self.parameters()["dim"].rule)
        style, dim = self.style, self.dim
        if (on_grid := self.grid_style) is not None:
            self._complete({"layout": on_grid.layout, "base": on_grid.base, "keep": on_grid.keep})
            return
        self.refuse_if(
            self.grid is not None and style,
            "style",
            f"on grids it must be one of {', '.join(GRID_STYLES)}",
        )
        self.refuse_if(
            style in EVEN_ONLY and dim % 2, "dim", f"the {style} style has even dims only"
        )
        object.__setattr__(self, "style", None)
        preset = STYLES[style or "paper"].items()
        self._complete({name: value(dim) if callable(value) else value for name, value in preset})

    def _check(self) -> None:
        super()._check()
        placed = self.positions is not None or self.grid is not None
        self.refuse_if(
            self.relative and placed,
            "relative",
            "it has positions of its own",
            "give --seq-len alone",
        )
        padded = self.padding_idx is not None and (self.relative or self.grid is not None)
        self.refuse_if(padded, "padding_idx", "such a table has no row of padding", "leave it out")
        style = self.grid_style
        axes = "" if style is None else style.sorted_axes
        if self.positions is not None and len(self.positions.axes) != max(1, len(axes)):
            rule = "without a style of grids they must be of shape (L,)"
            if style is not None:
                rule = f"the {style.name} style has the axes {', '.join(axes)}: they must be of shape ({len(axes)}, L)"
            raise self.wrong("positions", rule)
        cut = 2 * self.rotating_pairs > self.dim + 1 and self.layout == "halves"
        self.refuse_if(
            cut, "layout", f"the {self.style} style leaves out channels, which are interleaved"
        )
        for block in self.axis_blocks:
            half = float(block.denominator + Fraction(self.freq_shift))
            left = block.pairs < 2 or block.denominator >= Fraction(1, 2)
            self.refuse_if(not left, "freq_shift", f"it must leave at least 0.5 of D/2 = {half:g}")
            numerics.check_base(self.base, float(block.last / block.denominator), self.scale)
        check_base(self.recipe, self.base)

    @property
    def grid_style(self) -> "GridStyle | None":
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
        return 2 * self.seq_len - 1 if self.relative else self.seq_len

    @cached_property
    def axis_blocks(self) -> tuple[AxisBlock, ...]:
        """With an odd dim the projects that pad a column count whole pairs in the exponent, the others do not."""
        halves = self.layout == "halves"
        pairs = self.dim // 2 if halves else (self.dim + 1) // 2
        half = Fraction(self.dim // 2) if halves else Fraction(self.dim, 2)
        blocks = (
            self.grid_style.blocks(self.dim)
            if self.grid_style
            else (AxisBlock(0, 2 * pairs, half),)
        )
        shift = Fraction(self.freq_shift)  # one frequency is 1, even over zero
        return tuple(
            b._replace(denominator=b.denominator - shift if b.pairs > 1 else Fraction(1))
            for b in blocks
        )

    def inverse_frequencies(self) -> list[float]:
        """base^(−i / (D/2 − freq_shift)), as float64, axis by axis; a dim of one, in halves, has none."""
        return self.frequencies().floats()

    def waves(self, unit: Fraction = Fraction(1)) -> Waves:
        frequencies, scale = self.block_frequencies(self.scale), unit * Fraction(self.scale)
        return Waves.of(frequencies, scale=scale, amplitude=self.amplitude, in_turns=self.in_turns)

    def coordinates(self) -> "Coordinates":
        if not self.relative:
            return super().coordinates()
        from pecli.engine.numerics.axis_tables import listed_coordinates

        return listed_coordinates([range(self.seq_len - 1, -self.seq_len, -1)])

    def tensors(self) -> tuple[Table, ...]:
        filler, parts, blocks = self.row_filler(self._recipe), self.parts, self._blocks

        def fill(start: int, out: Array) -> None:
            first = self.offset + start
            if self.layout == "interleaved":
                filler.fill(",".join(parts), first, out, self.dtype)
            else:
                out[:, 2 * self.rotating_pairs :] = 0
                for part, columns in (
                    zip(parts, zip(*blocks, strict=True), strict=True)
                    if self.rotating_pairs
                    else ()
                ):
                    if len(blocks) == 1:
                        filler.fill(part, first, out[:, columns[0]], self.dtype)
                        continue
                    pairs = np.empty((len(out), self.rotating_pairs), out.dtype)
                    filler.fill(part, first, pairs, self.dtype)
                    out[:, np.r_[columns]] = pairs
            out[: max(0, (self.keep or 0) - start)] = 0
            out[self.padding_rows(first, len(out))] = 0

        return (Table("pe", self.dtype, (self.rows, self.dim), fill),)

    @property
    def parts(self) -> tuple[str, str]:
        return ("cos", "sin") if self.cos_first else ("sin", "cos")

    @property
    def _blocks(self) -> list[tuple[slice, slice]]:
        """In halves, the columns of the first and of the second part of each block of pairs."""
        whole = self.grid_style is None or self.grid_style.sines_first
        pairs = [self.rotating_pairs] if whole else [block.pairs for block in self.axis_blocks]
        blocks = zip(accumulate((2 * size for size in pairs), initial=0), pairs, strict=False)
        return [
            (slice(start, start + size), slice(start + size, start + 2 * size))
            for start, size in blocks
        ]

    def padding_rows(self, first: int, count: int) -> Indices:
        if self.padding_idx is None:
            return super().padding_rows(first, count)
        if self.is_range:
            return np.flatnonzero(np.arange(first, first + count) == self.padding_idx)
        coordinates = self.coordinates()
        values, (index,) = coordinates.values[0], coordinates.index(first, first + count)
        return np.flatnonzero(
            np.isin(index, [k for k, value in enumerate(values) if value == self.padding_idx])
        )

    def axes_of(self, tensor: str) -> Axes:
        return Axes(
            ("position", "channel"), self.offset, step=2 if self.layout == "interleaved" else 1
        )
