"""Rotary tables: the cosines and sines by which pairs of channels turn, and the inverse frequencies behind them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import permutations
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pecli.engine.arrays import Array, Singles
from pecli.engine.numerics import geometric
from pecli.engine.numerics.geometric import Frequencies
from pecli.engine.runtimes import runtime_named
from pecli.engine.scalings import SCALINGS, name_of
from pecli.engine.scalings.scaling import Scaling, transformed
from pecli.engine.schemes.grid_styles import ROTARY, AxisBlock, GridStyle
from pecli.engine.schemes.parameters import Choice, ListOf, OptionalFlag, Real, Whole
from pecli.engine.schemes.positions import LAST_POSITION, Positioned, check_last
from pecli.engine.schemes.recipes import RECIPE, RUNTIME, FrequencyRecipe, Recipe, check_base, recipe_named
from pecli.engine.schemes.scheme import ROW_NAMES, Axes, Neighbour, unset
from pecli.engine.text import bracketed, spelled
from pecli.errors import ParameterError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from pecli.engine.application import RowFactors
    from pecli.engine.numerics.cos_sin_tables import Rotation
    from pecli.engine.numerics.phases import Waves
    from pecli.engine.runtimes.runtime import Given, Phases, Reading
    from pecli.engine.schemes.recipe_tables import AxisWaves
    from pecli.engine.schemes.wave_tables import RopeTables
    from pecli.engine.table import ByPosition, Table

_PANEL, _ROTARY = "Scaling", "Rotary dimension"
"""All parameters of the first panel belong to scalings."""
_ONE_AXIS = ("scaling", "partial_rotary_factor", "mrope_section")
"""What concerns frequencies that are those of the whole dim."""
_DIVISOR = Real(help="a divisor", above=1e-19)  # frequencies stay below 2^64 radians a position
_CHANNELS = Whole(help="channels of an axis", low=2, high=65536, even=True)
_SECTION = Whole(help="frequencies of an axis", low=0, high=32768)


@dataclass(frozen=True)
class Rope(Positioned):
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

    seq_len: Annotated[int, Whole(help="rows of the tables, unless --positions or --grid are", high=LAST_POSITION)] = (
        unset()
    )
    dim: Annotated[
        int, Whole(help="rotary dimension, in pairs of channels; or the sum of --axes", low=2, high=65536, even=True)
    ] = unset()
    base: Annotated[
        float, Real(help="theta, the base of the frequencies", above=0, aliases=("--theta",), default=10000.0)
    ] = unset()
    offset: Annotated[int, Whole(help="position of the first row", low=0, high=LAST_POSITION)] = 0
    layout: Annotated[
        str,
        Choice(
            help="one column per pair; or doubled, as c0 c1 … c0 c1 … or c0 c0 c1 c1 …",
            options=("compact", "halves", "interleaved"),
        ),
    ] = "compact"

    scaling: Annotated[
        str,
        Choice(help="how a model reaches beyond the context it was trained on", options=tuple(SCALINGS), panel=_PANEL),
    ] = "none"
    factor: Annotated[float | None, Real(help="context extension factor", at_least=1, panel=_PANEL)] = None
    original_max_position_embeddings: Annotated[
        int | None, Whole(help="length before scaling (O)", aliases=("--original-len",), panel=_PANEL)
    ] = None
    max_position_embeddings: Annotated[
        int | None, Whole(help="length after scaling, as the model states it (M)", aliases=("--max-len",), panel=_PANEL)
    ] = None
    attention_factor: Annotated[
        float | None,
        Real(help="yarn, longrope: multiplies cos and sin", above=1e-30, up_to=10**6, panel=_PANEL),
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
        int | None, Whole(help="dynamic, longrope: length they are evaluated at (that of the table)", panel=_PANEL)
    ] = None
    partial_rotary_factor: Annotated[
        float | None, Real(help="share of the dim that is rotary", above=0, up_to=1, panel=_ROTARY)
    ] = None
    mrope_section: Annotated[
        tuple[int, ...] | None,
        ListOf(help="how many frequencies follow each axis of positions (M-RoPE)", each=_SECTION, panel=_ROTARY),
    ] = None
    mrope_interleaved: Annotated[
        bool | None, OptionalFlag(help="interleave M-RoPE sections (Qwen3-VL)", panel=_ROTARY)
    ] = None
    style: Annotated[
        str | None,
        Choice(help="whose conventions a grid follows", options=tuple(ROTARY), panel="Positions", omitted_default=None),
    ] = field(default=None, kw_only=True)
    axes: Annotated[
        tuple[int, ...] | None,
        ListOf(
            help="channels that each axis of positions rotates", each=_CHANNELS, panel="Positions", omitted_default=None
        ),
    ] = field(default=None, kw_only=True)
    recipe: Annotated[str, RECIPE] = field(default="exact", kw_only=True)
    runtime: Annotated[str, RUNTIME] = field(default="none", kw_only=True)

    checkpoint_names: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "both": (
            "cos_sin", "cos_sin_cache", "cos_sin_cached", "cos_sin_table", "freqs_cis", "freq_cis", "freqs_complex",
            "rope_cache", "rotary_cache", "rotary_table",
        ),
        "inv_freq": ("inv_freq", "inv_freqs", "inverse_frequencies"),
        "cos": ("cos", "cosine", "cosines", "cos_cached", "cos_cache", "cos_table", "cos_emb", "cos_freqs"),
        "sin": ("sin", "sine", "sines", "sin_cached", "sin_cache", "sin_table", "sin_emb", "sin_freqs"),
        "rows": ROW_NAMES,
    }  # fmt: skip
    applied_as = "rotation"
    is_configured = True

    def __post_init__(self) -> None:
        if self.axes is not None:
            object.__setattr__(self, "axes", type(self).parameters()["axes"].check("axes", self.axes))
            if self.dim is None:
                object.__setattr__(self, "dim", sum(self.axes or ()))
        if self.style is not None:
            type(self).parameters()["style"].check("style", self.style)
        style = self.grid_style
        self._settle({} if style is None else {"base": style.base, "keep": style.keep})

    def _check(self) -> None:
        super()._check()
        check_last(self.offset, self.seq_len)
        if self.exponent_dim < 2:
            rule = f"it leaves {self.exponent_dim} of {self.dim} channels, and channels turn in pairs"
            raise ParameterError("partial_rotary_factor", spelled(self.partial_rotary_factor), rule)
        geometric.check_base(self.base, 1.0)
        check_base(self.recipe, self.base)
        self._check_scaling()
        self._check_runtime()
        if not self.rotating_pairs:
            given = spelled(self.partial_rotary_factor)
            raise ParameterError("partial_rotary_factor", given, "it leaves no pair that turns")
        self._check_axes()

    def _check_scaling(self) -> None:
        """Everything that the scaling needs is there, nothing else is, and the values fit together."""
        kind = SCALINGS[self.scaling]
        for name in self.scaling_parameters():
            value = getattr(self, name)
            if name == "length" and self.runtime != "none":  # a served context, whether it matters or not
                continue
            if value is not None and name not in (*kind.required(), *kind.optional()):
                users = [word for word, each in SCALINGS.items() if name in (*each.required(), *each.optional())]
                given = f"{len(value)} numbers" if isinstance(value, tuple) else spelled(value)
                rule = f"{self.scaling} scaling does not use it"
                raise ParameterError(name, given, rule, f"it belongs to {', '.join(users)}")
            if value is None and name in kind.required():
                raise ParameterError(name, "missing", f"{self.scaling} scaling needs it")
        self.defined_scaling.check(self.base, self.exponent_dim)

    def _check_runtime(self) -> None:
        """The runtime has this scaling and these positions."""
        if self.runtime == "none":
            return
        if self.recipe != "exact":
            rule = f"{self.runtime} has an arithmetic of its own"
            raise ParameterError("recipe", repr(self.recipe), rule, "leave out `recipe` or `runtime`")
        if not self.is_range:
            rule = "what runtimes compute is known for one position after the other"
            raise ParameterError("runtime", repr(self.runtime), rule, "leave out `runtime`, or the positions")
        check_base("float32", self.base)
        rows, last = self.runtime_reading.rows, self.offset + self.seq_len
        if rows is not None and last > rows:
            rule = f"{self.runtime} has {rows:,} positions for these parameters, and the table ends at {last:,}"
            raise UnsupportedError("seq_len", self.seq_len, rule)

    def _check_axes(self) -> None:
        if self.axis_blocks:
            clash = next((name for name in _ONE_AXIS if getattr(self, name) not in (None, "none")), None)
            if clash is not None:
                rule = f"{'axes' if self.style is None else f'the {self.style} style'} has frequencies of its own"
                raise ParameterError(clash, spelled(getattr(self, clash)), rule, "leave it out")
        self._check_positions()
        if self.mrope_section is None:
            if self.mrope_interleaved is not None:
                raise ParameterError(
                    "mrope_interleaved", spelled(self.mrope_interleaved), "it belongs to mrope_section"
                )
        elif sum(self.mrope_section) != self.rotary_dim // 2:
            given = spelled(self.mrope_section)
            raise ParameterError("mrope_section", given, f"the sections must add up to {self.rotary_dim // 2}, d/2")

    def _check_positions(self) -> None:
        """Given positions have one axis, or as many as the frequencies follow."""
        if self.axes is not None and self.style is None and self.positions is None:
            raise ParameterError("axes", spelled(self.axes), "they are those of --positions or of a --style")
        count = self.position_axes
        if self.positions is None or len(self.positions.axes) == count:
            return
        if self.axis_blocks or len(self.positions.shape) > 1:
            one = "(L,)" if count == 1 else f"(L,) or ({count}, L)" if self.mrope_section else f"({count}, L)"
            rule = f"the frequencies follow {count} {'axes' if count > 1 else 'axis'}: they must be of shape {one}"
            raise ParameterError("positions", f"of shape {bracketed(self.positions.shape)}", rule)

    @property
    def grid_style(self) -> GridStyle | None:
        return None if self.style is None else ROTARY.get(self.style)

    @cached_property
    def axis_blocks(self) -> tuple[AxisBlock, ...]:
        """The frequencies of each axis, where these have their own; none where all axes share those of the dim."""
        if self.grid_style is not None:
            return self.grid_style.blocks(self.dim, self.axes)
        if self.axes is None:
            return ()
        if sum(self.axes) != self.dim:
            raise ParameterError("axes", spelled(self.axes), f"they must add up to dim, {self.dim}")
        return tuple(AxisBlock(axis, count, Fraction(count, 2)) for axis, count in enumerate(self.axes))

    @property
    def position_axes(self) -> int:
        """How many axes of positions the frequencies follow."""
        return len(self.axis_blocks) or len(self.mrope_section or (1,))

    @classmethod
    @cache
    def scaling_parameters(cls) -> tuple[str, ...]:
        """The parameters that belong to some scaling."""
        named = cls.parameters().items()
        return tuple(name for name, each in named if each.panel == _PANEL and name != "scaling")

    @cached_property
    def scaling_value(self) -> Scaling:
        """The scaling with its parameters, as the runtime takes them if one is given."""
        return self.defined_scaling if self.runtime == "none" else self.runtime_reading.scaling

    @property
    def runtime_reading(self) -> Reading:
        """The scaling as the runtime takes it, and why that departs from the definition."""
        return runtime_named(self.runtime).reading(self._given(self.defined_scaling))

    def runtime_causes(self) -> tuple[str, ...]:
        return () if self.runtime == "none" else self.runtime_reading.causes

    def _given(self, scaling: Scaling) -> Given:
        from pecli.engine.runtimes.runtime import Given

        return Given(scaling, self.base, self.exponent_dim, self.rotating_pairs)

    @cached_property
    def defined_scaling(self) -> Scaling:
        """The scaling with its parameters."""
        kind = SCALINGS[self.scaling]
        given = {name: getattr(self, name) for name in (*kind.required(), *kind.optional())}
        if "length" in given:
            given["length"] = self.effective_length
        return kind(**given)

    @property
    def pair_axes(self) -> list[int]:
        """Which axis of positions each frequency follows; all the first, unless there are sections or axes."""
        if self.axis_blocks:
            return [block.axis for block in self.axis_blocks for _ in block.indices]
        half, section = self.rotary_dim // 2, self.mrope_section or (self.rotary_dim // 2,)
        if self.mrope_interleaved:
            count = len(section)
            return [i % count if i < section[i % count] * count else 0 for i in range(half)]
        return [axis for axis, count in enumerate(section) for _ in range(count)]

    @property
    def _rotary(self) -> tuple[int, int]:
        share = 1.0 if self.partial_rotary_factor is None else self.partial_rotary_factor
        return SCALINGS[self.scaling].rotary(self.dim, share)

    @property
    def exponent_dim(self) -> int:
        """d in the formulas: the rotary dimension. A partial factor may leave an odd number."""
        return self._rotary[0]

    @property
    def rotary_dim(self) -> int:
        """The rotary dimension in whole pairs; with proportional scaling all of it, some of it by no angle."""
        return self.exponent_dim + self.exponent_dim % 2

    @property
    def rotating_pairs(self) -> int:
        """How many pairs rotate at all; those whose angle proportional scaling makes 0 come last."""
        return self._rotary[1]

    @property
    def effective_length(self) -> int:
        """The length that dynamic and longrope scaling go by."""
        if self.length is not None:
            return self.length
        if self.positions is None:
            return self.offset + self.seq_len
        return max(1, math.floor(max(map(max, self.positions.exact()))) + 1)

    def frequencies(self) -> Frequencies:
        """The inverse frequencies, exact, after scaling."""
        if self.axis_blocks:
            from pecli.engine.schemes.recipe_tables import block_frequencies

            found = block_frequencies(self.axis_blocks, self.base)
            return geometric.in_radians(found) if self._in_turns else found
        every, count = self.scaling_value.frequencies(self.base, self.exponent_dim), self.rotating_pairs
        if count == len(every.values):
            return every
        return transformed(every, lambda values, bits: [*values[:count], *[0] * (len(values) - count)])

    @property
    def _in_turns(self) -> bool:
        return self.grid_style is not None and self.grid_style.in_turns

    def _axis_waves(self) -> AxisWaves:
        """The waves at positions that are no range."""
        from pecli.engine.schemes.recipe_tables import AxisFrequencies, AxisWaves, block_waves, unit_waves

        if self.axis_blocks:
            return block_waves(self.coordinates(), self.axis_blocks, self.base, in_turns=self._in_turns)
        coordinates, count = self.coordinates(), self.rotating_pairs
        several = len(coordinates.values) > 1
        axes = [axis if several else 0 for axis in self.pair_axes[:count]]
        columns = [[k for k in range(count) if axes[k] == axis] for axis in range(len(coordinates.values))]
        recipe, waves = self.frequency_recipe(), self.frequencies().first(count)
        follow = [AxisFrequencies(recipe, each, axis, each) for axis, each in enumerate(columns)]
        return AxisWaves(coordinates, unit_waves(waves, amplitude=self.scaling_value.attention), follow)

    def attention_factor_value(self) -> float:
        """What cos and sin are multiplied by, as float64."""
        return self.scaling_value.attention(200) / (1 << 200)

    def waves(self) -> Waves:
        """The frequencies and the amplitude, in integers: what tables and rotations are made from."""
        return geometric.waves(self.frequencies().first(self.rotating_pairs), amplitude=self.scaling_value.attention)

    def runtime_phases(self) -> Phases | None:
        """The angles as the runtime computes them, if one is given."""
        return None if self.runtime == "none" else runtime_named(self.runtime).phases(self._given(self.scaling_value))

    def computed_as(self, way: str) -> Rope:
        if way in self.runtime_names():
            return replace(self, recipe="exact", runtime=way)
        length = self.length if "length" in SCALINGS[self.scaling].optional() else None
        return replace(self, recipe=way, runtime="none", length=length)

    def as_read(self) -> Rope:
        """What the runtime makes of the parameters, computed exactly."""
        scaling = self.scaling_value
        given = {**dict.fromkeys(self.scaling_parameters()), **vars(scaling), "scaling": name_of(scaling)}
        return replace(self, **given, runtime="none")

    def frequency_recipe(self) -> FrequencyRecipe:
        """What a recipe needs to know."""
        scaling, d = self.scaling_value, self.exponent_dim
        if (phases := self.runtime_phases()) is not None:
            return FrequencyRecipe(
                self.base, Fraction(d, 2), self.rotating_pairs, amplitude=self.attention_factor_value(), phases=phases
            )

        def steps(powers: Singles) -> Singles:
            return scaling.float32_steps(powers, self.base, d)

        one_by_one = scaling.per_frequency
        return FrequencyRecipe(
            scaling.float32_base(self.base, d),
            Fraction(d, 2),
            self.rotating_pairs,
            amplitude=self.attention_factor_value(),
            steps=steps if one_by_one else None,
            scaled=self.frequencies if one_by_one else None,
        )

    @property
    def _recipe(self) -> Recipe:
        """How it is computed."""
        return recipe_named(self.recipe) if self.runtime == "none" else Recipe()

    def _tables(self) -> RopeTables:
        """What NumPy is needed for."""
        from pecli.engine.schemes.wave_tables import RopeTables

        return RopeTables(
            self._recipe,
            self.waves,
            self.frequency_recipe,
            self.seq_len,
            self.offset,
            self.rotary_dim // 2,
            self.rotating_pairs,
            self.layout,
            self.dtype,
            None if self.is_range else self._axis_waves,
        )

    def rotation(self) -> Rotation:
        """What makes the exact cos and sin of any rows."""
        return self._tables().rotation()

    def at(self, position_ids: ArrayLike) -> dict[str, Array]:
        """cos and sin, one column per frequency, of positions (L,), or (axes, L) where there are sections."""
        return self._tables().at(position_ids, self.pair_axes, self.position_axes)

    def inverse_frequencies(self) -> list[float]:
        """As float64; where a recipe rounds them, as rounded."""
        return self.frequencies().floats() if self._recipe.is_exact else self._tables().inverse_frequencies()

    def angular_frequencies(self) -> list[float]:
        return self.frequencies().floats()

    def tensors(self) -> tuple[Table, ...]:
        from pecli.engine.schemes.wave_tables import vector

        half = self.rotary_dim // 2
        cos, sin = self._tables().cos_sin()
        inv_freq = vector("inv_freq", "float64", self.inverse_frequencies, half)
        if self.position_axes == 1:
            return cos, sin, inv_freq
        return cos, sin, inv_freq, vector("axis", "int32", lambda: self.pair_axes, half)

    def single_array(self) -> Table:
        """cos and sin, one after the other: (2, seq_len, width)."""
        from pecli.engine.table import stacked

        return stacked("cos_sin", self._tables().cos_sin())

    @property
    def derived_tensors(self) -> frozenset[str]:
        return frozenset({"inv_freq", "axis"})

    def axes_of(self, tensor: str) -> Axes:
        if tensor in ("inv_freq", "axis"):
            return Axes(("pair",), value="frequency" if tensor == "inv_freq" else "axis")
        column = "pair" if self.layout == "compact" else "channel"
        stack = ("part",) if tensor == "cos_sin" else ()
        value = {"cos": "cosine", "sin": "sine"}.get(tensor, "value")
        return Axes((*stack, "position", column), self.offset, value, 2 if self.layout == "interleaved" else 1)

    def by_position(self) -> ByPosition:
        return self._tables().by_position(self.angular_frequencies())

    def row_factors(self, *, inverse: bool = False) -> RowFactors:
        """What the rows of the tables rotate by, in float64."""
        from pecli.engine.application import RowFactors
        from pecli.engine.numerics.rounding import widened

        tables = replace(self, layout="compact", dtype="float64").tables()
        return RowFactors(widened(tables["cos"]), widened(tables["sin"]), inverse=inverse)

    def applied_to(self, x: ArrayLike) -> Array:
        """x (…, seq_len, D), its first channels rotated; compact tables are of pairs (i, i + d/2)."""
        from pecli.engine.application import RotationFactors, rotated

        last = self.offset + self.seq_len
        if self.is_range:
            factors = RotationFactors(self, self.offset, last, exact=True).at(range(self.offset, last))
        else:
            factors = self.row_factors().at(range(self.seq_len))
        return rotated(x, factors, "interleaved" if self.layout == "interleaved" else "halves")

    @property
    def picture_kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind in super().picture_kinds if kind != "histogram")

    def contexts(self, context: int | None = None) -> dict[float, str]:
        """What a model was trained on, and how far scaling takes it."""
        if self.scaling == "none":
            return {float(context): "context"} if context else super().contexts()
        trained = self.original_max_position_embeddings or self.max_position_embeddings
        if trained is None:
            return {float(self.effective_length): "length"}
        longest = context or self.max_position_embeddings or 0
        found = {float(trained): "trained on"}
        if longest > trained:
            found[float(longest)] = "extended to"
        elif self.factor is not None and self.factor > 1:
            found[float(trained * self.factor)] = f"{self.factor:g} times the original,"
        return found

    def neighbours(self) -> tuple[Neighbour, ...]:
        """Another base, layout or position; the exponent over the head; a scaling that is missing, applied twice or
        read otherwise; an attention factor that is dropped or squared.
        """
        changes: list[dict[str, Any]] = [{"base": 10000.0}, {"offset": self.offset - 1}, {"offset": self.offset + 1}]
        found = [self.neighbour(**each) for each in (*changes, *self._other_scalings())]
        d = self.exponent_dim
        if d != self.dim and self.scaling in ("none", "linear"):
            over = self.neighbour(base=self.base ** (d / self.dim))
            found += [Neighbour((self.edit("exponent_dim", d, self.dim),), over.scheme)] if over else []
        found += [*self.place_neighbours(ROTARY), *(self.neighbour(**each) for each in self._other_sections())]
        others = [each for each in found if each is not None]
        if self.runtime == "none":
            return tuple(others)
        read = self.as_read()  # of what the runtime reads alike, nothing would show
        return tuple(each for each in others if not (isinstance(each.scheme, Rope) and each.scheme.as_read() == read))

    def _other_sections(self) -> Iterator[dict[str, Any]]:
        """Sections that are interleaved or not, or of other axes."""
        if self.mrope_section is None or self.positions is None:
            return
        yield {"mrope_interleaved": None if self.mrope_interleaved else True}
        for order in permutations(self.mrope_section):
            yield {"mrope_section": order}

    def _other_scalings(self) -> Iterator[dict[str, Any]]:
        if self.scaling == "none":
            return
        given = {name: None for name in self.scaling_parameters() if getattr(self, name) is not None}
        yield {"scaling": "none", **given}
        if self.scaling in ("linear", "ntk", "ntk-fixed", "proportional") and self.factor is not None:
            yield {"factor": self.factor**2}
        if self.scaling in ("yarn", "longrope") and (attention := self.attention_factor_value()) != 1:
            yield {"attention_factor": 1.0}
            yield {"attention_factor": attention**2}
        if self.scaling == "yarn":
            yield {"truncate": self.truncate is False}
        original = self.original_max_position_embeddings
        if self.scaling == "longrope" and original is not None:
            yield {"length": original if self.effective_length > original else original + 1}
