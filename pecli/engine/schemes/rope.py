"""Rotary tables: the cosines and sines by which pairs of channels turn, and the inverse frequencies behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

from pecli.engine.arrays import Array
from pecli.engine.numerics import geometric
from pecli.engine.schemes import recipes, rope_scaling, yarn
from pecli.engine.schemes.parameters import Choice, ListOf, OptionalFlag, Real, Whole, spelled
from pecli.engine.schemes.positions import LAST_POSITION, check_last
from pecli.engine.schemes.recipes import RECIPE
from pecli.engine.schemes.rope_scaling import SCALINGS
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from pecli.engine.numerics.cos_sin_tables import Rotation
    from pecli.engine.numerics.phases import Waves
    from pecli.engine.schemes.recipe_tables import CastFiller, Computed, FrequencyRecipe
    from pecli.engine.table import Table


_PANEL = "Scaling"
_DIVISOR = Real(help="a divisor", above=1e-19)  # frequencies stay below 2^64 radians a position
_SECTION = Whole(help="frequencies of an axis", low=0, high=32768)


@dataclass(frozen=True)
class Rope(Scheme):
    """Rotary position embedding (Su et al., 2021): angle = position · base^(−2i/dim).

    >>> sorted(Rope(seq_len=4, dim=8).tables())
    ['cos', 'inv_freq', 'sin']
    """

    name = "rope"
    summary = "Make, show or check rotary (RoPE) tables: cos, sin and inv_freq."
    examples = (
        "pecli rope --seq-len 4096 --dim 128 -o rope.safetensors",
        "pecli rope --seq-len 8192 --dim 128 --theta 500000 --layout halves -o llama.npz",
        "pecli rope --model llama-3.1-8b --seq-len 131072 -o rope.safetensors",
        "pecli rope --config config.json --seq-len 4096 --verify dump.npy --atol 1e-6",
    )

    seq_len: Annotated[int, Whole(help="rows of the tables", high=LAST_POSITION)]
    dim: Annotated[int, Whole(help="channels that turn, in pairs", low=2, high=65536, even=True)]
    base: Annotated[float, Real(help="theta, the base of the frequencies", above=0, aliases=("--theta",))] = 10000.0
    offset: Annotated[int, Whole(help="position of the first row", low=0, high=LAST_POSITION)] = 0
    layout: Annotated[
        str,
        Choice(
            help="a column a pair; or doubled, as c0 c1 … c0 c1 … or c0 c0 c1 c1 …",
            options=("compact", "halves", "interleaved"),
        ),
    ] = "compact"

    scaling: Annotated[
        str,
        Choice(help="how a model reaches beyond the context it was trained on", options=tuple(SCALINGS), panel=_PANEL),
    ] = "none"
    factor: Annotated[float | None, Real(help="how many times longer", at_least=1, panel=_PANEL)] = None
    original_max_position_embeddings: Annotated[
        int | None, Whole(help="the length before scaling", aliases=("--original-len",), panel=_PANEL)
    ] = None
    max_position_embeddings: Annotated[
        int | None, Whole(help="the length that the model claims", aliases=("--max-len",), panel=_PANEL)
    ] = None
    attention_factor: Annotated[
        float | None,
        Real(help="yarn, longrope: multiplies cos and sin", above=yarn.LEAST, up_to=yarn.LARGEST, panel=_PANEL),
    ] = None
    beta_fast: Annotated[
        float | None, Real(help="yarn: rotations above which nothing changes (32)", above=0, panel=_PANEL)
    ] = None
    beta_slow: Annotated[
        float | None, Real(help="yarn: rotations below which all is scaled (1)", above=0, panel=_PANEL)
    ] = None
    truncate: Annotated[
        bool | None, OptionalFlag(help="yarn: round the limits to whole frequencies (true)", panel=_PANEL)
    ] = None
    mscale: Annotated[float | None, Real(help="yarn: scales the attention factor", panel=_PANEL)] = None
    mscale_all_dim: Annotated[float | None, Real(help="yarn: divides the attention factor", panel=_PANEL)] = None
    low_freq_factor: Annotated[
        float | None, Real(help="llama3: rotations below which all is scaled", above=0, panel=_PANEL)
    ] = None
    high_freq_factor: Annotated[
        float | None, Real(help="llama3: rotations above which nothing changes", above=0, panel=_PANEL)
    ] = None
    short_factor: Annotated[
        tuple[float, ...] | None,
        ListOf(help="longrope: divisors up to the original length", each=_DIVISOR, panel=_PANEL),
    ] = None
    long_factor: Annotated[
        tuple[float, ...] | None, ListOf(help="longrope: divisors beyond it", each=_DIVISOR, panel=_PANEL)
    ] = None
    length: Annotated[
        int | None, Whole(help="dynamic, longrope: read at this length; else that of the table", panel=_PANEL)
    ] = None
    partial_rotary_factor: Annotated[
        float | None, Real(help="share of the dim that turns", above=0, up_to=1, panel=_PANEL)
    ] = None
    mrope_section: Annotated[
        tuple[int, ...] | None,
        ListOf(help="how many frequencies follow each axis of positions (M-RoPE)", each=_SECTION, panel=_PANEL),
    ] = None
    mrope_interleaved: Annotated[
        bool | None, OptionalFlag(help="axes take turns (Qwen3-VL), not one after the other", panel=_PANEL)
    ] = None
    recipe: Annotated[str, RECIPE] = field(default="exact", kw_only=True)

    def _check(self) -> None:
        check_last(self.offset, self.seq_len)
        if self.exponent_dim < 2:
            rule = f"it leaves {self.exponent_dim} of {self.dim} channels, and channels turn in pairs"
            raise ParameterError("partial_rotary_factor", spelled(self.partial_rotary_factor), rule)
        geometric.check_base(self.base, 1.0)
        recipes.check_base(self.recipe, self.base)
        rope_scaling.check(self)
        self._check_axes()

    def _check_axes(self) -> None:
        if self.mrope_section is None:
            if self.mrope_interleaved is not None:
                raise ParameterError(
                    "mrope_interleaved", spelled(self.mrope_interleaved), "it belongs to mrope_section"
                )
        elif sum(self.mrope_section) != self.rotary_dim // 2:
            given = spelled(self.mrope_section)
            raise ParameterError("mrope_section", given, f"the sections must add up to {self.rotary_dim // 2}, d/2")

    @property
    def axes(self) -> list[int]:
        """Which axis of positions each frequency follows; all the first, unless there are sections."""
        half, section = self.rotary_dim // 2, self.mrope_section or (self.rotary_dim // 2,)
        if self.mrope_interleaved:
            count = len(section)
            return [i % count if i < section[i % count] * count else 0 for i in range(half)]
        return [axis for axis, count in enumerate(section) for _ in range(count)]

    def at(self, position_ids: ArrayLike) -> dict[str, Array]:
        """cos and sin, a column a frequency, of the given positions: (L,), or (axes, L) where there are sections."""
        import numpy as np

        ids = np.atleast_2d(np.asarray(position_ids))
        count = len(self.mrope_section or (1,))
        if ids.dtype.kind not in "iu" or ids.ndim != 2 or len(ids) not in (1, count):
            rule = f"they must be integers of shape (L,) or ({count}, L)"
            raise ParameterError("position_ids", f"of shape {ids.shape} and dtype {ids.dtype}", rule)
        if ids.size and not 0 <= ids.min() <= ids.max() <= LAST_POSITION:
            raise ParameterError("position_ids", f"{ids.min()} … {ids.max()}", "positions are from 0 to 2^40")
        axes = np.array(self.axes)[: self.rotating_pairs] if len(ids) > 1 else np.zeros(self.rotating_pairs, np.intp)
        filler, found = self.filler(), {}
        for name in ("cos", "sin"):
            table = filler.at(name, ids.astype(np.int64), axes, self.dtype)
            still = np.full((len(table), self.rotary_dim // 2 - self.rotating_pairs), 1 - (name == "sin")).astype(
                table.dtype
            )
            found[name] = np.concatenate([table, still], axis=1)
        return found

    @property
    def derived_tensors(self) -> frozenset[str]:
        return frozenset({"inv_freq", "axis"})

    @property
    def exponent_dim(self) -> int:
        """d in the formulas: the channels that turn. A partial factor may leave an odd number of them."""
        if self.partial_rotary_factor is None or self.scaling == "proportional":
            return self.dim
        return int(self.dim * self.partial_rotary_factor)

    @property
    def rotary_dim(self) -> int:
        """How many channels turn, in whole pairs; with proportional scaling all do, some of them by no angle."""
        return self.exponent_dim + self.exponent_dim % 2

    @property
    def effective_length(self) -> int:
        """The length that dynamic and longrope scaling go by."""
        return self.offset + self.seq_len if self.length is None else self.length

    def frequencies(self) -> geometric.Frequencies:
        """The inverse frequencies, exact, after scaling."""
        return rope_scaling.SCALINGS[self.scaling].frequencies(self)

    def attention_factor_value(self) -> float:
        """What cos and sin are multiplied by, as float64."""
        return rope_scaling.attention(self)(200) / (1 << 200)

    @property
    def rotating_pairs(self) -> int:
        """How many pairs turn at all; the others, which proportional scaling leaves still, come last."""
        if self.scaling != "proportional":
            return self.rotary_dim // 2
        return rope_scaling.turning(self)

    def waves(self) -> Waves:
        """The frequencies and the amplitude, in integers: what tables and rotations are made from."""
        moving = self.frequencies().first(self.rotating_pairs)
        return geometric.waves(moving, amplitude=rope_scaling.attention(self))

    def rotation(self) -> Rotation:
        from pecli.engine.numerics.cos_sin_tables import Rotation

        return Rotation(self.waves, self.seq_len)

    def _course(self) -> FrequencyRecipe:
        from pecli.engine.schemes import rope_steps

        return rope_steps.course(self, Fraction(self.exponent_dim, 2))

    def filler(self) -> Rotation | Computed | CastFiller:
        """What makes cos and sin, by the recipe."""
        return recipes.filler(self.recipe, self.rotation(), self._course)

    def inverse_frequencies(self) -> list[float]:
        """As float64; where a recipe rounds them, as rounded."""
        if self.recipe == "exact" or recipes.RECIPES[self.recipe].table:
            return self.frequencies().floats()
        from pecli.engine.schemes.recipe_tables import Computed

        still = [0.0] * (self.rotary_dim // 2 - self.rotating_pairs)
        return [float(value) for value in Computed(recipes.RECIPES[self.recipe], self._course()).inv_freq] + still

    def tensors(self) -> tuple[Table, ...]:
        from pecli.engine.table import Table

        rotation = self.filler()
        shape = (self.seq_len, self._width)

        def inverse_frequencies(start: int, out: Array) -> None:
            out[:, 0] = self.inverse_frequencies()[start : start + len(out)]

        def axis(start: int, out: Array) -> None:
            out[:, 0] = self.axes[start : start + len(out)]

        def part(name: str) -> Table:
            return Table(name, self.dtype, shape, lambda start, out: self._fill(rotation, name, start, out))

        tables = [part("cos"), part("sin"), Table("inv_freq", "float64", (self.rotary_dim // 2,), inverse_frequencies)]
        if self.mrope_section is not None:
            tables.append(Table("axis", "int32", (self.rotary_dim // 2,), axis))
        return tuple(tables)

    def single_array(self) -> Table:
        """cos and sin, one after the other: (2, seq_len, width)."""
        from pecli.engine.reshape import stacked

        return stacked("cos_sin", self.tensors()[:2])

    @property
    def _width(self) -> int:
        return self.rotary_dim // 2 if self.layout == "compact" else self.rotary_dim

    def _fill(self, rotation: Rotation | Computed | CastFiller, part: str, start: int, out: Array) -> None:
        half = self.rotary_dim // 2
        if self.layout == "interleaved":
            single, double = out[:, 0::2], out[:, 1::2]
        else:
            single, double = out[:, :half], out[:, half:]
        moving = self.rotating_pairs
        rotation.fill(part, self.offset + start, single[:, :moving], self.dtype)
        single[:, moving:] = 1 if part == "cos" else 0
        if self.layout != "compact":
            double[...] = single
