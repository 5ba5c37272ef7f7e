"""The parameters of rotary schemes, their rules, and the values that follow from them."""

from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import Annotated

import numpy as np

from pecli.engine import numerics
from pecli.engine.named_values import NamedValues
from pecli.engine.runtimes import RUNTIMES, runtime_named
from pecli.engine.runtimes.runtime import Definition, RuntimeReading
from pecli.engine.scalings import SCALINGS, new_parameters
from pecli.engine.scalings.scaling import RotaryDims, Scaling
from pecli.engine.schemes.axis_blocks import AxisBlock, Listed, Powers
from pecli.engine.schemes.given_frequencies import GivenFrequencies
from pecli.engine.schemes.grid_styles import PLAIN, ROTARY, GridStyle
from pecli.engine.schemes.parameters import Choice, ListOf, OptionalFlag, Real, Whole
from pecli.engine.schemes.positions import PLACED, Positioned
from pecli.engine.schemes.recipes import RECIPE, check_base_of_recipe
from pecli.engine.schemes.scheme import UNSET
from pecli.errors import ParameterError, UnsupportedError, spelled

_SCALING_PANEL = "Scaling"
"""The heading of the options that belong to scalings."""
_SHARE: NamedValues = {"panel": "Rotary dimension"}
_SHARED_FREQUENCIES = ("scaling", "partial_rotary_factor", "mrope_section")
"""Parameters that change the frequencies of the whole dim; axes with their own frequencies have
none of these.
"""
_NOT_WITH_INV_FREQ = (
    "scaling",
    "partial_rotary_factor",
    "mrope_section",
    "axes",
    "style",
    "axis_factors",
    "runtime",
)
"""Parameters that would define other frequencies than those that are given one by one."""
_DEFAULT_BASE = 1e4
_MIN_DIVISOR = 1e-19
"""The smallest divisor of a frequency, so that frequencies stay below 2^64 radians per position."""

_even = partial(Whole, low=2, high=65536, even=True)
_scaling_real = partial(Real, panel=_SCALING_PANEL)
_turns = partial(Real, above=0, panel=_SCALING_PANEL)
_scaling_whole = partial(Whole, panel=_SCALING_PANEL)
_scaling_flag = partial(OptionalFlag, panel=_SCALING_PANEL)
_divisors = partial(ListOf, each=Real("a divisor", above=_MIN_DIVISOR), panel=_SCALING_PANEL)

_DIM = _even("rotary dimension, in pairs of channels; or the sum of --axes")
_BASE = Real(
    "theta, the base of the frequencies", above=0, aliases=("--theta",), default=_DEFAULT_BASE
)
_OFFSET = Whole("position of the first row", low=0)
_LAYOUT = Choice(
    "one column per pair; or doubled, as c0 c1 … c0 c1 … or c0 c0 c1 c1 …",
    options=("compact", "halves", "interleaved"),
)
_SCALING = Choice(
    "method that extends the context a model was trained on",
    options=tuple(SCALINGS),
    panel=_SCALING_PANEL,
)
_FACTOR = _scaling_real("context extension factor", at_least=1)
_ORIGINAL = _scaling_whole("length before scaling (O)", aliases=("--original-len",))
_EXTENDED = _scaling_whole(
    "length after scaling, as the model states it (M)", aliases=("--max-len",)
)
_ATTENTION = _scaling_real("yarn, longrope: multiplies cos and sin", above=1e-30, up_to=10**6)
_BETA_FAST = _turns("yarn: rotations above which frequencies are unchanged (32)")
_BETA_SLOW = _turns("yarn: rotations below which frequencies are fully scaled (1)")
_TRUNCATE = _scaling_flag("yarn: round the limits to whole frequencies (true)")
_MSCALE = _scaling_real("yarn: scales the attention factor")
_MSCALE_ALL_DIM = _scaling_real("yarn: divides the attention factor")
_LOW_FREQ_FACTOR = _turns("llama3: rotations below which frequencies are fully scaled")
_HIGH_FREQ_FACTOR = _turns("llama3: rotations above which frequencies are unchanged")
_SHORT_FACTOR = _divisors("longrope: divisors up to the original length")
_LONG_FACTOR = _divisors("longrope: divisors beyond it")
_LENGTH = _scaling_whole("dynamic, longrope: length they are evaluated at (that of the table)")
_PARTIAL = Real("share of the dim that is rotary", above=0, up_to=1, **_SHARE)
_SECTION = ListOf(
    "how many frequencies follow each axis of positions (M-RoPE)",
    each=Whole("frequencies of an axis", low=0, high=32768),
    **_SHARE,
)
_SECTIONS_INTERLEAVED = OptionalFlag("interleave M-RoPE sections (Qwen3-VL)", **_SHARE)
_STYLE = Choice("project whose grid conventions are followed", options=tuple(ROTARY), **PLACED)
_AXES = ListOf(
    "channels that each axis of positions rotates", each=_even("channels of an axis"), **PLACED
)
_FACTORS = ListOf(
    "NTK factor of each axis: its base is base · factor^(d/(d − 2))",
    each=Real("a", above=0),
    **PLACED,
)
_INV_FREQ = GivenFrequencies(
    "frequencies of your own, one per pair, or a file of them, instead of --base",
    omitted_default=None,
)
RUNTIME = Choice(
    "the table that this runtime computes, length being its served context",
    options=("none", *RUNTIMES),
    default="none",
    omitted_default="none",
)


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
    """The parameters of a rotary scheme, and the values that follow from them."""

    dim: Annotated[int, _DIM] = UNSET
    base: Annotated[float, _BASE] = UNSET
    offset: Annotated[int, _OFFSET] = 0
    layout: Annotated[str, _LAYOUT] = "compact"

    scaling: Annotated[str, _SCALING] = "none"
    factor: Annotated[float | None, _FACTOR] = None
    original_max_position_embeddings: Annotated[int | None, _ORIGINAL] = None
    max_position_embeddings: Annotated[int | None, _EXTENDED] = None
    attention_factor: Annotated[float | None, _ATTENTION] = None
    beta_fast: Annotated[float | None, _BETA_FAST] = None
    beta_slow: Annotated[float | None, _BETA_SLOW] = None
    truncate: Annotated[bool | None, _TRUNCATE] = None
    mscale: Annotated[float | None, _MSCALE] = None
    mscale_all_dim: Annotated[float | None, _MSCALE_ALL_DIM] = None
    low_freq_factor: Annotated[float | None, _LOW_FREQ_FACTOR] = None
    high_freq_factor: Annotated[float | None, _HIGH_FREQ_FACTOR] = None
    short_factor: Annotated[tuple[float, ...] | None, _SHORT_FACTOR] = None
    long_factor: Annotated[tuple[float, ...] | None, _LONG_FACTOR] = None
    length: Annotated[int | None, _LENGTH] = None
    partial_rotary_factor: Annotated[float | None, _PARTIAL] = None
    mrope_section: Annotated[tuple[int, ...] | None, _SECTION] = None
    mrope_interleaved: Annotated[bool | None, _SECTIONS_INTERLEAVED] = None
    _: KW_ONLY
    style: Annotated[str | None, _STYLE] = None
    axes: Annotated[tuple[int, ...] | None, _AXES] = None
    axis_factors: Annotated[tuple[float, ...] | None, _FACTORS] = None
    inv_freq: Annotated[tuple[float, ...] | None, _INV_FREQ] = None
    runtime: Annotated[str, RUNTIME] = "none"
    recipe: Annotated[str, RECIPE] = "exact"

    def __post_init__(self) -> None:
        """Fill in the parameters that the user left out, and check all of them.

        Two of them may follow from others: the dim is the sum of `axes`, or twice the number of
        frequencies in `inv_freq`, and a style of grids has a base of its own. For example, axes of
        16, 24 and 24 channels make the dim 64, and the style hunyuan-video has the base 256.
        """
        self._check_and_convert("axes", "style", "inv_freq")  # Others follow from these three.
        if self.dim is None:
            self._set("dim", self._implied_dim())
        style = self.grid_style
        if style is None:
            self._fill_in_and_check({})
        else:
            self._fill_in_and_check({"base": style.base})

    def _implied_dim(self) -> int | None:
        """Return the dim that frequencies or the channels of axes add up to; None without them."""
        if self.inv_freq is not None:
            return 2 * len(self.inv_freq)
        if self.axes is not None:
            return sum(self.axes)
        return None

    def _check(self) -> None:
        """Raise ParameterError for parameters that do not fit each other."""
        super()._check()
        self._check_inv_freq()
        rotary_channels = self.exponent_dim
        rule = f"it leaves {rotary_channels} of {self.dim} channels, and channels rotate in pairs"
        self._refuse_if(rotary_channels < 2, "partial_rotary_factor", rule)
        # Frequencies are base^(−2i/d), with exponents below 1. They must not be too large.
        numerics.check_base(self.base, largest_exponent=1.0)
        # A recipe, a precision to imitate, may compute in float32, which cannot hold every base.
        check_base_of_recipe(self.recipe, self.base)
        self._check_scaling()
        self._check_runtime()
        self._check_axes()
        self._check_sections()

    def _check_inv_freq(self) -> None:
        """Raise ParameterError for parameters that contradict frequencies given one by one.

        32 frequencies are those of the dim 64, whatever the base; a scaling would change them.
        """
        if self.inv_freq is None:
            return
        dim = 2 * len(self.inv_freq)
        self._refuse_if(self.dim != dim, "dim", f"inv_freq states the dim {dim}", "leave it out")
        rule = "inv_freq states all frequencies"
        self._refuse_set(_NOT_WITH_INV_FREQ, rule, "leave it out")
        self._refuse_if(self.base != _DEFAULT_BASE, "base", rule, "leave it out")

    def _check_scaling(self) -> None:
        """Raise ParameterError if a parameter of the scaling is missing, wrong, or of another one.

        `beta_fast` belongs to yarn: with linear scaling it is refused. `length`, the context that
        dynamic scaling depends on, is also the context that a runtime serves.
        """
        scaling_type = SCALINGS[self.scaling]
        allowed_names = {*scaling_type.names()}
        if self.runtime != "none":
            allowed_names.add("length")
        for name in self._scaling_parameters():
            is_set = getattr(self, name) is not None
            if is_set and name not in allowed_names:
                raise self._of_other_scaling(name)
            if not is_set and name in scaling_type.required():
                raise ParameterError(name, "missing", f"{self.scaling} scaling needs it")
        self.defined_scaling.check(self.base, self.exponent_dim)

    def _of_other_scaling(self, name: str) -> ParameterError:
        """Return the error for a parameter that only other scalings use."""
        value = getattr(self, name)
        shown = f"{len(value)} numbers" if isinstance(value, tuple) else spelled(value)
        users = [scaling for scaling, kind in SCALINGS.items() if name in kind.names()]
        rule = f"only {', '.join(users)} scaling uses it"
        return ParameterError(name, shown, rule, f"`scaling` is {self.scaling}")

    def _check_runtime(self) -> None:
        """Raise ParameterError for parameters that a runtime cannot compute a table for."""
        if self.runtime == "none":
            return
        rule = f"{self.runtime} has an arithmetic of its own"
        self._refuse_if(self.recipe != "exact", "recipe", rule, "leave out `recipe` or `runtime`")
        rule = "what runtimes compute is known for one position after the other"
        self._refuse_if(not self.is_range, "runtime", rule, "leave out `runtime`, or the positions")
        check_base_of_recipe("float32", self.base)
        self._check_rows(self.offset + self.seq_len)

    def _check_rows(self, last: int) -> None:
        """Raise UnsupportedError if the runtime has fewer positions, as vLLM's cache does."""
        rows = self.runtime_reading.rows
        if rows is not None and last > rows:
            rule = (
                f"{self.runtime} has {rows:,} positions for these parameters, "
                f"and the table ends at {last:,}"
            )
            raise UnsupportedError("seq_len", self.seq_len, rule)

    def _check_axes(self) -> None:
        """Raise ParameterError for axes of positions that contradict other parameters.

        An image has two axes of positions, rows and columns, and `axes` states how many channels
        follow each, such as (32, 32). It must not be empty, and contradicts

        - a scaling or M-RoPE's sections, which define frequencies for all axes at once;
        - consecutive positions, which have only one axis;
        - positions with another number of axes, such as (time, row, column) for two.
        """
        if self.axes == ():
            rule = "it has a number of channels for each axis"
            raise ParameterError("axes", "empty", rule, "leave it out")
        if self.axis_blocks:  # Each axis has frequencies of its own.
            rule = "axes and styles have frequencies of their own"
            self._refuse_set(_SHARED_FREQUENCIES, rule, "leave it out")
        has_axes_of_range = self.axes is not None and self.is_range
        rule = "they are those of --positions or of a --grid"
        self._refuse_if(has_axes_of_range, "axes", rule)
        self._check_count_of_axes()

    def _check_count_of_axes(self) -> None:
        """Raise ParameterError unless positions have as many axes as the frequencies follow.

        Text has one number per position: (L,). An image has two, its row and column: (2, L).
        """
        if self.positions is None:
            return
        is_one_list = len(self.positions.shape) == 1
        axes_share_frequencies = not self.axis_blocks
        if is_one_list and axes_share_frequencies:
            # This is text. M-RoPE, which has three axes, takes its positions on all of them.
            return
        count = self.position_axes
        shape = "(L,)" if count == 1 else f"({count}, L)"
        rule = f"they must be of shape {shape}, with the axes that frequencies follow"
        self._refuse_if(len(self.positions.axes) != count, "positions", rule)

    def _check_sections(self) -> None:
        """Raise ParameterError unless the sections of M-RoPE have all pairs of the rotary dim.

        The 64 pairs of 128 channels may be 16 for time, 24 for rows and 24 for columns.
        """
        section = self.mrope_section
        if section is None:
            is_alone = self.mrope_interleaved is not None
            self._refuse_if(is_alone, "mrope_interleaved", "it belongs to mrope_section")
            return
        pairs = self.rotary_dim // 2
        rule = f"the sections must add up to {pairs}, d/2"
        self._refuse_if(sum(section) != pairs, "mrope_section", rule)

    @property
    def grid_style(self) -> GridStyle | None:
        """Return the conventions of a style; a grid without one has plain ones for its axes."""
        if self.style is not None:
            return ROTARY.get(self.style)
        if self.grid is not None and self.axes is not None:
            return PLAIN.get(len(self.axes))
        return None

    @cached_property
    def axis_blocks(self) -> tuple[AxisBlock, ...]:
        """The frequencies of each axis of positions, if each axis has its own; otherwise empty.

        An image has two axes, rows and columns. If each rotates 24 channels, each has a block of 12
        frequencies. Text has one list of frequencies for all channels.
        """
        # The user gave all frequencies. No style or axes are allowed beside them.
        if self.inv_freq is not None:
            return (self._block_of_inv_freq(self.inv_freq),)
        # A style, such as that of Flux, divides the channels among axes. `axes` may change that.
        style = self.grid_style
        if style is not None:
            blocks = style.blocks(self.dim, self.axes)
            factors = self.axis_factors or style.factors
            return self._with_ntk_factors(blocks, factors)
        # Without a style, `axes` states the channels of each axis.
        if self.axes is not None:
            blocks = self._blocks_of_axes(self.axes)
            return self._with_ntk_factors(blocks, self.axis_factors)
        # There are no axes that factors could stretch.
        rule = "they are those of --axes or of a --style"
        self._refuse_if(self.axis_factors, "axis_factors", rule)
        return ()

    def _block_of_inv_freq(self, frequencies: tuple[float, ...]) -> AxisBlock:
        """Return frequencies that were given one by one, as those of a single axis."""
        half_dim = Fraction(self.dim, 2)
        return AxisBlock(0, self.dim, half_dim, progression=Listed(frequencies))

    def _blocks_of_axes(self, axes: tuple[int, ...]) -> tuple[AxisBlock, ...]:
        """Return the frequencies of axes with so many channels, each as a head of its own has them.

        An axis of 16 channels has the 8 frequencies base^(−i/8), as a head of 16 channels has.
        """
        self._refuse_if(sum(axes) != self.dim, "axes", f"they must add up to dim, {self.dim}")
        blocks = []
        for axis, channels in enumerate(axes):
            blocks.append(AxisBlock(axis, channels, denominator=Fraction(channels, 2)))
        return tuple(blocks)

    def _with_ntk_factors(
        self, blocks: tuple[AxisBlock, ...], factors: tuple[float, ...] | None
    ) -> tuple[AxisBlock, ...]:
        """Return the frequencies of axes, stretched by NTK scaling: a larger base for each axis.

        The base of an axis of d channels becomes base · factor^(d/(d − 2)). Cosmos has the factor 2
        for time, and 1 for rows and columns.

        Args:
            blocks: The frequencies of each axis.
            factors: The factor of each axis; None or empty if all bases stay as they are.

        Raises:
            ParameterError: There is not one factor per axis, or an axis cannot be scaled.
        """
        if not factors:
            return blocks
        axis_count = len({block.axis for block in blocks})
        # Only powers have a base, and the exponent of 2 channels would be 2/0.
        can_be_scaled = all(block.has_all_powers and block.channels >= 4 for block in blocks)
        is_wrong = len(factors) != axis_count or not can_be_scaled
        rule = f"they must be {axis_count}, of axes of 4 channels or more with powers of a base"
        self._refuse_if(is_wrong, "axis_factors", rule)
        scaled_blocks = []
        for block in blocks:
            powers = Powers(ntk_factor=factors[block.axis])  # of the larger base
            scaled_blocks.append(block._replace(progression=powers))
        return tuple(scaled_blocks)

    @property
    def position_axes(self) -> int:
        """Return how many axes of positions the frequencies follow: 2 for an image, 1 for a text."""
        if self.axis_blocks:
            return len({block.axis for block in self.axis_blocks})
        return len(self.mrope_section) if self.mrope_section else 1

    @classmethod
    @cache
    def _scaling_parameters(cls) -> tuple[str, ...]:
        """Return the parameters of all scalings, in the order in which they are checked."""
        parameters = cls.parameters().items()
        names = [name for name, parameter in parameters if parameter.panel == _SCALING_PANEL]
        names.remove("scaling")
        return tuple(names)

    @cached_property
    def scaling_value(self) -> Scaling:
        """Return the scaling, as the runtime reads it if there is one."""
        return self.runtime_reading.scaling

    @property
    def runtime_reading(self) -> RuntimeReading[Scaling]:
        """Return the scaling as the runtime reads it, and why it departs from the definition."""
        if self.runtime == "none":
            return RuntimeReading(self.defined_scaling)
        return runtime_named(self.runtime).reading(self._definition(self.defined_scaling))

    def _definition(self, scaling: Scaling) -> Definition[Scaling]:
        """Return the parameters of the scheme as runtimes take them."""
        return Definition(
            scaling=scaling,
            base=self.base,
            dim=self.exponent_dim,
            pairs=self.rotating_pairs,
            head=self.dim,
        )

    @cached_property
    def defined_scaling(self) -> Scaling:
        """Return the scaling that the parameters define, without a runtime."""
        kind = SCALINGS[self.scaling]
        values = {name: getattr(self, name) for name in kind.names()}
        if "length" in values:
            values["length"] = self.effective_length
        return kind(**values)

    @property
    def pair_axes(self) -> list[int]:
        """Return the axis of positions that each frequency follows: 0 if there is a single one.

        M-RoPE divides the frequencies among axes by its section. For mrope_section (4, 2, 2),
        blocked sections (Qwen2-VL) give 0 0 0 0 1 1 2 2, and interleaved ones (Qwen3-VL)
        0 1 2 0 1 2 0 0.
        """
        if self.axis_blocks:
            return super().pair_axes
        pairs = self.rotary_dim // 2
        section = self.mrope_section or (pairs,)
        if self.mrope_interleaved:
            return _axes_in_turn(section, pairs)
        axes: list[int] = np.repeat(range(len(section)), section).tolist()
        return axes

    @property
    def _rotary(self) -> RotaryDims:
        return SCALINGS[self.scaling].rotary(self.dim, self.partial_rotary_factor or 1.0)

    @property
    def exponent_dim(self) -> int:
        """Return d of the exponent −2i/d, which a partial factor may leave odd."""
        return self._rotary.dim

    @property
    def rotary_dim(self) -> int:
        """Return the rotary dimension in whole pairs.

        Proportional scaling counts all channels, and rotates those beyond its share by the angle 0.
        """
        return self.exponent_dim + self.exponent_dim % 2

    @property
    def rotating_pairs(self) -> int:
        """Return how many pairs rotate; those that proportional scaling stops come last."""
        return self._rotary.pairs

    @property
    def effective_length(self) -> int:
        """Return the length at which dynamic and longrope scaling are evaluated."""
        if self.length is not None:
            return self.length
        return self._row_places.end(self.offset, self.seq_len)


def _axes_in_turn(section: tuple[int, ...], pairs: int) -> list[int]:
    """Return the axis of each pair if the axes take turns until each has its pairs.

    For the section (4, 2, 2) and 8 pairs these are 0 1 2, 0 1 2, 0 0: axis 0 has all pairs that the
    others leave.
    """
    axes = []
    for pair in range(pairs):
        turn, axis = divmod(pair, len(section))
        is_full = turn >= section[axis]
        axes.append(0 if is_full else axis)
    return axes
