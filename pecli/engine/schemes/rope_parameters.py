"""The parameters of rotary schemes: their rules, alone and together, and the dimensions and scaling that follow."""

import math
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import Annotated, Any

from pecli.engine import numerics
from pecli.engine.runtimes import RUNTIMES, runtime_named
from pecli.engine.runtimes.runtime import Definition, RuntimeReading
from pecli.engine.scalings import SCALINGS, new_parameters
from pecli.engine.scalings.scaling import Scaling
from pecli.engine.schemes import RECIPE, Choice, ListOf, OptionalFlag, Real, Whole, check_base
from pecli.engine.schemes.axis_blocks import AxisBlock
from pecli.engine.schemes.grid_styles import PLAIN, ROTARY, GridStyle
from pecli.engine.schemes.positions import PLACED, Positioned
from pecli.engine.schemes.scheme import UNSET
from pecli.errors import ParameterError, UnsupportedError, spelled

_PANEL = "Scaling"  #: all parameters of this panel belong to scalings
_SHARE: dict[str, Any] = {"panel": "Rotary dimension"}
_ONE_AXIS = ("scaling", "partial_rotary_factor", "mrope_section")
"""What concerns frequencies that are those of the whole dim."""
_even = partial(Whole, low=2, high=65536, even=True)
_BASE = Real("theta, the base of the frequencies", above=0, aliases=("--theta",), default=1e4)
_scaling_real = partial(Real, panel=_PANEL)
_edge = partial(Real, above=0, panel=_PANEL)  # of a ramp between frequencies
_scaling_whole = partial(Whole, panel=_PANEL)
_scaling_flag = partial(OptionalFlag, panel=_PANEL)
_divisors = partial(
    ListOf, each=Real("a divisor", above=1e-19), panel=_PANEL
)  # at most 2^64 radians per position
_LAYOUT = Choice(
    "one column per pair; or doubled, as c0 c1 … c0 c1 … or c0 c0 c1 c1 …",
    options=("compact", "halves", "interleaved"),
)
_ORIGINAL = _scaling_whole("length before scaling (O)", aliases=("--original-len",))
_EXTENDED = _scaling_whole(
    "length after scaling, as the model states it (M)", aliases=("--max-len",)
)
_ATTENTION = _scaling_real("yarn, longrope: multiplies cos and sin", above=1e-30, up_to=10**6)
_LENGTH = _scaling_whole("dynamic, longrope: length they are evaluated at (that of the table)")
_PARTIAL = Real("share of the dim that is rotary", above=0, up_to=1, **_SHARE)
_SCALING = Choice(
    "method that extends the context a model was trained on", options=tuple(SCALINGS), panel=_PANEL
)
_PAIRS = Whole("frequencies of an axis", low=0, high=32768)
_SECTION = ListOf(
    "how many frequencies follow each axis of positions (M-RoPE)", each=_PAIRS, **_SHARE
)
_STYLE = Choice("project whose grid conventions are followed", options=tuple(ROTARY), **PLACED)
_FACTORS = ListOf(
    "NTK factor of each axis: its base is base · factor^(d/(d − 2))",
    each=Real("a", above=0),
    **PLACED,
)
_AXES = ListOf(
    "channels that each axis of positions rotates", each=_even("channels of an axis"), **PLACED
)
RUNTIME = Choice(
    "the table that this runtime computes, length being its served context",
    options=("none", *RUNTIMES), default="none", omitted_default="none",
)  # fmt: skip


def _with_new_parameters(kind: type[Positioned]) -> type[Positioned]:
    """Add the parameters that scalings declare themselves, as keyword-only fields."""
    for name, new in new_parameters().items():
        rule = _scaling_real(new.help, above=new.above)
        kind.__annotations__[name] = Annotated[float | None, rule]
        setattr(kind, name, None)
    return kind


@dataclass(frozen=True, repr=False)
@_with_new_parameters
class RotaryParameters(Positioned):
    """What a rotary scheme is made of."""

    dim: Annotated[int, _even("rotary dimension, in pairs of channels; or the sum of --axes")] = (
        UNSET
    )
    base: Annotated[float, _BASE] = UNSET
    offset: Annotated[int, Whole("position of the first row", low=0)] = 0
    layout: Annotated[str, _LAYOUT] = "compact"

    scaling: Annotated[str, _SCALING] = "none"
    factor: Annotated[float | None, _scaling_real("context extension factor", at_least=1)] = None
    original_max_position_embeddings: Annotated[int | None, _ORIGINAL] = None
    max_position_embeddings: Annotated[int | None, _EXTENDED] = None
    attention_factor: Annotated[float | None, _ATTENTION] = None
    beta_fast: Annotated[
        float | None, _edge("yarn: rotations above which frequencies are unchanged (32)")
    ] = None
    beta_slow: Annotated[
        float | None, _edge("yarn: rotations below which frequencies are fully scaled (1)")
    ] = None
    truncate: Annotated[
        bool | None, _scaling_flag("yarn: round the limits to whole frequencies (true)")
    ] = None
    mscale: Annotated[float | None, _scaling_real("yarn: scales the attention factor")] = None
    mscale_all_dim: Annotated[float | None, _scaling_real("yarn: divides the attention factor")] = (
        None
    )
    low_freq_factor: Annotated[
        float | None, _edge("llama3: rotations below which frequencies are fully scaled")
    ] = None
    high_freq_factor: Annotated[
        float | None, _edge("llama3: rotations above which frequencies are unchanged")
    ] = None
    short_factor: Annotated[
        tuple[float, ...] | None, _divisors("longrope: divisors up to the original length")
    ] = None
    long_factor: Annotated[tuple[float, ...] | None, _divisors("longrope: divisors beyond it")] = (
        None
    )
    length: Annotated[int | None, _LENGTH] = None
    partial_rotary_factor: Annotated[float | None, _PARTIAL] = None
    mrope_section: Annotated[tuple[int, ...] | None, _SECTION] = None
    mrope_interleaved: Annotated[
        bool | None, OptionalFlag("interleave M-RoPE sections (Qwen3-VL)", **_SHARE)
    ] = None
    _: KW_ONLY
    style: Annotated[str | None, _STYLE] = None
    axes: Annotated[tuple[int, ...] | None, _AXES] = None
    axis_factors: Annotated[tuple[float, ...] | None, _FACTORS] = None
    recipe: Annotated[str, RECIPE] = "exact"
    runtime: Annotated[str, RUNTIME] = "none"

    def __post_init__(self) -> None:
        self._check_first("axes", "style")
        if self.axes is not None and self.dim is None:
            object.__setattr__(self, "dim", sum(self.axes))
        style = self.grid_style
        self._complete({} if style is None else {"base": style.base, "keep": style.keep})

    def _check(self) -> None:
        super()._check()
        rule = f"it leaves {self.exponent_dim} of {self.dim} channels, and channels rotate in pairs"
        self.refuse_if(self.exponent_dim < 2, "partial_rotary_factor", rule)
        numerics.check_base(self.base, 1.0)
        check_base(self.recipe, self.base)
        self._check_scaling()
        self._check_runtime()
        self.refuse_if(
            not self.rotating_pairs, "partial_rotary_factor", "it leaves no pair that rotates"
        )
        self._check_axes()

    def _check_scaling(self) -> None:
        kind = SCALINGS[self.scaling]
        for name in self.scaling_parameters():
            value = getattr(self, name)
            if value is None and name in kind.required():
                raise ParameterError(name, "missing", f"{self.scaling} scaling needs it")
            if (
                name == "length" and self.runtime != "none"
            ):  # a served context, whether it matters or not
                continue
            if value is not None and name not in kind.names():
                users = ", ".join(word for word, other in SCALINGS.items() if name in other.names())
                said = f"{len(value)} numbers" if isinstance(value, tuple) else spelled(value)
                raise ParameterError(
                    name, said, f"only {users} scaling uses it", f"`scaling` is {self.scaling}"
                )
        self.defined_scaling.check(self.base, self.exponent_dim)

    def _check_runtime(self) -> None:
        if self.runtime == "none":
            return
        rule = f"{self.runtime} has an arithmetic of its own"
        self.refuse_if(self.recipe != "exact", "recipe", rule, "leave out `recipe` or `runtime`")
        rule = "what runtimes compute is known for one position after the other"
        self.refuse_if(not self.is_range, "runtime", rule, "leave out `runtime`, or the positions")
        check_base("float32", self.base)
        self.check_rows(self.offset + self.seq_len)

    def check_rows(self, last: int) -> None:
        rows = None if self.runtime == "none" else self.runtime_reading.rows
        if rows is not None and last > rows:
            rule = f"{self.runtime} has {rows:,} positions for these parameters, and the table ends at {last:,}"
            raise UnsupportedError("seq_len", self.seq_len, rule)

    def _check_axes(self) -> None:
        clash = [name for name in _ONE_AXIS if getattr(self, name) not in (None, "none")]
        if self.axis_blocks and clash:
            rule = f"{'axes' if self.style is None else f'the {self.style} style'} has frequencies of its own"
            raise self.wrong(clash[0], rule, "leave it out")
        self.refuse_if(
            self.axes and self.is_range, "axes", "they are those of --positions or of a --grid"
        )
        count, positions = self.position_axes, self.positions
        several = positions is not None and (self.axis_blocks or len(positions.shape) > 1)
        if positions is not None and several and len(positions.axes) != count:
            one = (
                "(L,)"
                if count == 1
                else f"(L,) or ({count}, L)"
                if self.mrope_section
                else f"({count}, L)"
            )
            rule = f"the frequencies follow {count} {'axes' if count > 1 else 'axis'}: they must be of shape {one}"
            raise self.wrong("positions", rule)
        section, half = self.mrope_section, self.rotary_dim // 2
        alone = section is None and self.mrope_interleaved is not None
        self.refuse_if(alone, "mrope_interleaved", "it belongs to mrope_section")
        other = section is not None and sum(section) != half
        self.refuse_if(other, "mrope_section", f"the sections must add up to {half}, d/2")

    @property
    def grid_style(self) -> GridStyle | None:
        if self.style is None and self.grid is not None and self.axes is not None:
            return PLAIN.get(len(self.axes))
        return None if self.style is None else ROTARY.get(self.style)

    @cached_property
    def axis_blocks(self) -> tuple[AxisBlock, ...]:
        """The frequencies of each axis, where these have their own; none where all axes share those of the dim."""
        style, factors = self.grid_style, self.axis_factors
        if style is None and self.axes is None:
            self.refuse_if(factors, "axis_factors", "they are those of --axes or of a --style")
            return ()
        if style is not None:
            blocks, factors = style.blocks(self.dim, self.axes), factors or style.factors
        elif sum(self.axes or ()) != self.dim:
            raise self.wrong("axes", f"they must add up to dim, {self.dim}")
        else:
            blocks = tuple(
                AxisBlock(axis, count, Fraction(count, 2))
                for axis, count in enumerate(self.axes or ())
            )
        if not factors:
            return blocks
        count = len({block.axis for block in blocks})
        other = len(factors) != count or any(
            b.channels < 4 or b.law or b.step > 1 or b.start for b in blocks
        )
        rule = f"they must be {count}, of axes of 4 channels or more with powers of a base"
        self.refuse_if(other, "axis_factors", rule)
        return tuple(block._replace(factor=factors[block.axis]) for block in blocks)

    @property
    def position_axes(self) -> int:
        """How many axes of positions the frequencies follow."""
        return len({block.axis for block in self.axis_blocks}) or len(self.mrope_section or (1,))

    @classmethod
    @cache
    def scaling_parameters(cls) -> tuple[str, ...]:
        parameters = cls.parameters().items()
        return tuple(
            name
            for name, parameter in parameters
            if parameter.panel == _PANEL and name != "scaling"
        )

    @cached_property
    def scaling_value(self) -> Scaling:
        return self.defined_scaling if self.runtime == "none" else self.runtime_reading.scaling

    @property
    def runtime_reading(self) -> RuntimeReading[Scaling]:
        """The scaling as the runtime takes it, and why that departs from the definition."""
        return runtime_named(self.runtime).reading(self._given(self.defined_scaling))

    def runtime_causes(self) -> tuple[str, ...]:
        return () if self.runtime == "none" else self.runtime_reading.causes

    def _given(self, scaling: Scaling) -> Definition[Scaling]:
        return Definition(scaling, self.base, self.exponent_dim, self.rotating_pairs, self.dim)

    @cached_property
    def defined_scaling(self) -> Scaling:
        kind = SCALINGS[self.scaling]
        values = {name: getattr(self, name) for name in kind.names()}
        if "length" in values:
            values["length"] = self.effective_length
        return kind(**values)

    @property
    def pair_axes(self) -> list[int]:
        """Which axis of positions each frequency follows; all the first, unless there are sections or axes."""
        if self.axis_blocks:
            return super().pair_axes
        half, section = self.rotary_dim // 2, self.mrope_section or (self.rotary_dim // 2,)
        if self.mrope_interleaved:
            count = len(section)
            return [i % count if i < section[i % count] * count else 0 for i in range(half)]
        return [axis for axis, count in enumerate(section) for _ in range(count)]

    @property
    def _rotary(self) -> tuple[int, int]:
        return SCALINGS[self.scaling].rotary(self.dim, self.partial_rotary_factor or 1.0)

    @property
    def exponent_dim(self) -> int:
        """d in the formulas: the rotary dimension. A partial factor may leave an odd number."""
        return self._rotary[0]

    @property
    def rotary_dim(self) -> int:
        """The rotary dimension in whole pairs; with proportional scaling all of it, part of it by angle 0."""
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
