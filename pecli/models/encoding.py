"""The positional encodings of a model, with the source of every value."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import NamedTuple, Self

from pecli.display import Printed
from pecli.engine.named_values import JsonObject, MutableValues, NamedValues, without_none
from pecli.engine.runtimes import runtime_named
from pecli.engine.runtimes.runtime import StatedLengths
from pecli.engine.scalings import SCALINGS
from pecli.engine.schemes.given_positions import PositionList
from pecli.engine.schemes.grid_styles import ROTARY
from pecli.engine.schemes.rope import Rope
from pecli.errors import KindError, ParameterError, quoted
from pecli.files.tensor_roles import layer_named, layer_number
from pecli.models.flag_report import FlagReport
from pecli.models.key_names import FULL
from pecli.models.keys import Origin

#: Rows and columns of a small image, to read frequencies that do not depend on its size.
SMALL_GRID = (2, 2)
NO_ORIGIN = Origin("")

SCALINGS_BY_CONTEXT = ("yarn", "longrope")
"""Scalings that have a factor, or factors, which some runtimes derive from the context of the model."""


class _Described:
    """Fields that JSON and tables show under their own names, unless they are None."""

    def described(self) -> dict[str, object]:
        """Return the fields that are not None, by name."""
        return without_none({name: getattr(self, name) for name in self.names()})

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(item.name for item in fields(cls))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Grid(_Described):
    """The axes of positions that a rotary encoding follows: of an image, a video, or tokens of both.

    All fields are None for an encoding of text. Flux, for example, has `axes=3` (index, row,
    column), `axis_channels=(16, 56, 56)` and `style="flux"`; the vision tower of Qwen2-VL has only
    `axes=2`: each axis rotates half of a head.
    """

    axes: int | None = None
    #: Channels of each axis, if the axes do not share a head equally.
    axis_channels: tuple[int, ...] | None = None
    #: The project whose conventions the axes follow, one of `pecli rope --style`.
    style: str | None = None
    #: "alternating" if even frequencies follow rows and odd ones columns, as in Pixtral.
    axis_frequencies: str | None = None
    #: Rows and columns of the image that positions are scaled to.
    grid_base: tuple[float, ...] | None = None
    #: What multiplies the positions of each axis.
    axis_factors: tuple[float, ...] | None = None

    @property
    def counts_all_axes(self) -> bool:
        """True if the frequencies of an encoding are those of all axes, not those of one."""
        return self.axis_channels is not None or self.axis_frequencies is not None


@dataclass(frozen=True)
class Sections(_Described):
    """The sections of M-RoPE: how many frequencies follow time, rows and columns.

    Qwen2-VL has (16, 24, 24), one after the other; in Qwen3-VL they are interleaved.
    """

    mrope_section: tuple[float, ...] | None = None
    mrope_interleaved: bool | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """The sections as whole numbers; empty without M-RoPE."""
        return tuple(int(count) for count in self.mrope_section or ())

    @property
    def count(self) -> int:
        """The number of axes that the frequencies follow; 0 without M-RoPE."""
        return len(self.counts)


@dataclass(frozen=True)
class UnrotatedLayers(_Described):
    """Layers without rope (NoPE), as every fourth layer of Llama 4.

    Their queries may be multiplied by `1 + attn_scale · ln(1 + ⌊(p + 1) / floor_scale⌋)` at
    position p instead.
    """

    nope_layers: tuple[int, ...] | None = None
    attn_scale: float | None = None
    floor_scale: int | None = None


@dataclass(frozen=True)
class Indexer(_Described):
    """The indexer of sparse attention, whose queries and keys have heads of their own.

    In DeepSeek-V3.2 they have 128 channels, of which the first 64 rotate as halves, by the
    frequencies that the last 64 of the 192 channels of a head have.
    """

    index_head_dim: int | None = None
    index_layout: str | None = None


class Mscales(NamedTuple):
    """Attention factors of longrope: one up to the original context length, one beyond it
    (Phi-3.5-MoE).
    """

    short: float
    long: float


@dataclass(frozen=True)
class Encoding:
    """One positional encoding of a model.

    Attributes:
        layer_type: The layers that use it, such as `sliding_attention`; empty if all layers do.
        scheme: `rope`, `sinusoidal`, `learned`, `alibi` or `relative`.
        parameters: Parameters of that scheme, except the length of the table.
        origins: The key or the default that each value comes from, by the value's name.
        layout: How the model pairs the channels that it rotates: `halves`, `interleaved`, or
            `deepseek`.
        head_dim: Channels of a head, rotating or not.
        part: The part of the model, such as `vision`; empty for the language model itself.
        family: The family of models whose rules were applied; empty if none is known.
        prefix: The object of the configuration that it was read from, such as `text_config.`.
    """

    layer_type: str
    scheme: str
    parameters: NamedValues
    origins: Mapping[str, Origin] = field(default_factory=dict)
    layout: str | None = None
    head_dim: int | None = None
    part: str = ""
    #: The rotary channels are the last of a head, not the first, as with latent attention
    #: (DeepSeek-V3).
    trailing: bool = False
    #: Tables are doubled as halves although interleaved channels rotate: GLM interleaves
    #: them only when it applies them.
    tables_in_halves: bool = False
    family: str = ""
    prefix: str = ""
    #: The `alpha` of dynamic scaling, if the model's own code ignores it; SGLang reads it
    #: nevertheless.
    alpha: float | None = None
    #: The config requests Fourier position embeddings, which transformers ignores and SGLang
    #: applies.
    use_fope: bool = False
    #: The config has `rope_traditional`, with which mlx-lm rotates neighbouring channels;
    #: transformers ignores it.
    rope_traditional: bool = False
    #: The config omits original_max_position_embeddings, so that its context length stands in.
    lacks_original_length: bool = False
    #: The original lengths that the config states, for runtimes that read only one of them; None if
    #: the scaling has none, or was not read from a config.
    stated_lengths: StatedLengths | None = None
    #: The context that the model states. Some runtimes compute YaRN and longrope from it, also if the
    #: scaling has a factor, by which the model itself goes.
    model_context: int | None = None
    #: Why the model has no table over positions 0, 1, 2, …; empty if it has one. Its frequencies
    #: are right in any case.
    no_table: str = ""
    grid: Grid = Grid()
    sections: Sections = Sections()
    unrotated: UnrotatedLayers = UnrotatedLayers()
    #: The layer type of the model that has no rope: `full_attention` in Cohere 2.
    unrotated_type: str = ""
    indexer: Indexer = Indexer()
    #: The order in which the model stores its frequencies, as indices into the table's; None if it
    #: is the same.
    order: tuple[int, ...] | None = None
    mscales: Mscales | None = None
    #: Queries are multiplied by `1 + beta · ln(1 + ⌊p / original length⌋)` at position p, as in
    #: Llama 4.
    llama_4_scaling_beta: float | None = None
    #: The row of a learned table that position 0 has, if it is not the first: 2 in OPT, whose table
    #: begins with padding.
    offset: int | None = None
    #: The dtype to which the model rounds the slopes of ALiBi.
    slope_dtype: str | None = None
    #: What the bias of ALiBi is divided by together with the scores: √head_dim in Falcon.
    bias_divisor: float | None = None

    @property
    def is_rotary(self) -> bool:
        """Return True if the encoding rotates; only then it has frequencies."""
        return self.scheme == "rope"

    @property
    def is_rope_of_text(self) -> bool:
        """Return True if the language model itself rotates by it, not a tower for images or sound."""
        return self.is_rotary and not self.part

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """The key or the default that each value comes from, in words, by the value's name."""
        return {name: origin.source for name, origin in self.origins.items()}

    def stated_by(self, name: str) -> tuple[str, ...]:
        """Return the keys, flags and tensors that a value was read or computed from.

        A value that is a default, or that the encoding does not have, is stated by none.

        >>> from pecli import load_model
        >>> load_model("llama-3.1-8b").one().stated_by("head_dim")
        ('hidden_size', 'num_attention_heads')
        """
        return self.origins.get(name, NO_ORIGIN).stated_by

    @property
    def takes_places(self) -> bool:
        """True if whole numbers state the places in an image by which it rotates, as in Flux."""
        if self.grid.style is None:
            return False
        is_resampled = self.grid.grid_base is not None or self.grid.axis_factors is not None
        return ROTARY[self.grid.style].counts_points and not is_resampled

    def of_indexer(self) -> "Encoding | None":
        """Return the encoding of the indexer's queries and keys; None if the model has no indexer."""
        if self.indexer.index_head_dim is None:
            return None
        return replace(
            self,
            layer_type="indexer",
            layout=self.indexer.index_layout,
            head_dim=self.indexer.index_head_dim,
            trailing=False,
        )

    def rope(
        self, seq_len: int | None = None, *, length: int | None = None, **options: object
    ) -> Rope:
        """Return the rotary scheme (`pecli.Rope`) that makes a table of this encoding.

        Args:
            seq_len: Rows of the table.
            length: The context length at which dynamic and longrope scaling are read; by default
                the end of the table.
            options: Other parameters of the scheme, such as `offset`, `dtype`, `layout`, `recipe`
                or `runtime`; or `positions` or `grid` instead of rows.

        Raises:
            ParameterError: The encoding is not rotary, or the model has no table over positions 0,
            1, 2, ….
        """
        name = repr(self.layer_type or "the model")
        if not self.is_rotary:
            raise ParameterError("layer_type", name, f"its encoding is {self.scheme}, not rope")
        states_positions = not options.keys().isdisjoint(("positions", "grid"))
        if self.grid.style and states_positions:
            return self._rope_over_patches(options)
        reason_for_no_table = self.no_table  # It is empty if there is a table.
        if reason_for_no_table:
            rule = f"it has no table over positions 0, 1, 2, …: {reason_for_no_table}"
            raise ParameterError("layer_type", name, rule)
        return self._rope_over_tokens(seq_len, context_length=length, **options)

    def frequency_rope(self, length: int | None = None, **options: object) -> Rope:
        """Return a scheme with the model's frequencies at a context length; by default as before
        any call.
        """
        return self._rope_over_tokens(1, context_length=length, **options)

    def _rope_over_patches(self, options: NamedValues) -> Rope:
        """Return the scheme that rotates a whole head by the positions of image patches.

        Flux has 16 + 56 + 56 channels for its axes. Styles whose axes are not listed in the
        configuration divide the channels of a head themselves.
        """
        parameters: MutableValues = {
            "base": self.parameters["base"],
            "style": self.grid.style,
            "grid_base": self.grid.grid_base,
            "axis_factors": self.grid.axis_factors,
        }
        axis_channels = self.grid.axis_channels
        channels_fill_head = axis_channels is not None and sum(axis_channels) == self.head_dim
        if channels_fill_head:
            parameters["axes"] = axis_channels
        else:
            parameters["dim"] = self.head_dim
        parameters = {**without_none(parameters), **without_none(options)}
        # An offset counts tokens of text, which a grid does not have.
        parameters.pop("offset", None)
        if "positions" in parameters:
            parameters["positions"] = self._positions_by_axis(parameters["positions"])
        return Rope(**parameters)

    def _positions_by_axis(self, given: object) -> PositionList:
        """Return positions of a grid as (axes, L), in which diffusion models have (L, axes).

        Flux's own ids of 20 tokens are (20, 3): frame, row and column of each. Three tokens, (3, 3),
        are read as (axes, L).
        """
        positions: PositionList = Rope.parameters()["positions"].check("positions", given)
        axes = self.grid.axes
        is_token_by_token = len(positions.axes) != axes and len(positions.axes[0]) == axes
        if not is_token_by_token:
            return positions
        return PositionList(zip(*positions.axes, strict=True))

    def _rope_over_tokens(
        self, seq_len: int | None, *, context_length: int | None, **options: object
    ) -> Rope:
        """Return the rotary scheme of a table over positions 0, 1, 2, … of the tokens of a text.

        Args:
            seq_len: Rows of the table.
            context_length: The context for which a scaling that depends on it (dynamic, longrope)
                makes frequencies. It may be longer than the table.
            options: Parameters of the scheme, such as `offset`, and a `runtime`.
        """
        # If two of these lines have the same parameter, the later one counts.
        parameters: MutableValues = {
            **self._section_parameters(),
            **self.parameters,
            **options,
            "seq_len": seq_len,
        }
        runtime = parameters.get("runtime", "none")
        has_runtime = runtime != "none"
        if has_runtime:
            parameters = self._as_runtime_reads(parameters, runtime)
        # Rope refuses a context length unless its frequencies depend on it. With a runtime, they may
        # always do.
        if self.follows_length or has_runtime:
            parameters["length"] = context_length
        if self.mscales is not None:
            # Phi-3.5-MoE has one attention factor for short and one for long contexts.
            parameters["attention_factor"] = self._attention_factor_for(
                context_length, self.mscales, parameters
            )
        return Rope(**parameters)

    def _as_runtime_reads(self, parameters: NamedValues, runtime: str) -> MutableValues:
        """Return the parameters from which a runtime, such as vLLM, computes its table.

        Its own values replace those of the model and of the user.
        """
        return {
            **self._model_context_for(parameters["scaling"]),
            **parameters,
            **self._parameters_of_runtime(runtime),
        }

    def _model_context_for(self, scaling: object) -> NamedValues:
        """Return the context of the model as a parameter, if runtimes may compute a scaling from it.

        exllamav3 takes the factor 40,960 / 32,768 = 1.25 for a YaRN of Qwen3 with factor 4.
        """
        if self.model_context is None or scaling not in SCALINGS_BY_CONTEXT:
            return {}
        return {"max_position_embeddings": self.model_context}

    def _parameters_of_runtime(self, runtime: str) -> NamedValues:
        """Return the parameters for which a runtime has other values than the model's own code.

        Most runtimes have none. TensorRT-LLM, for example, takes an original context of 1,024 for
        YaRN if the file has none.
        """
        return runtime_named(runtime).adapted(self).parameters

    def _attention_factor_for(
        self, length: int | None, mscales: Mscales, parameters: NamedValues
    ) -> float:
        """Return the attention factor for a context length, of one for short and one for long ones.

        Phi-3.5-MoE has one factor up to its original context of 4096 positions, and one beyond it.

        Args:
            length: The context length; None for the end of the table.
            mscales: Both factors.
            parameters: All other parameters of the scheme, which decide where the table ends.
        """
        if length is None:
            # The end of the table does not depend on the factor that is still missing.
            length = Rope(**{**parameters, "attention_factor": 1.0}).effective_length
        is_long = length > parameters["original_max_position_embeddings"]
        return mscales.long if is_long else mscales.short

    def _section_parameters(self) -> MutableValues:
        """Return the parameters of M-RoPE; none if the sections do not fit the frequencies."""
        if not self._sections_fit():
            return {}
        return {
            "mrope_section": self.sections.counts,
            "mrope_interleaved": self.sections.mrope_interleaved or None,
        }

    def _sections_fit(self) -> bool:
        """Return True if the sections of M-RoPE have as many frequencies as the encoding.

        Sections that do not were reported by a warning when the file was read.
        """
        counts = self.sections.counts
        without_sections = {**self.parameters, **dict.fromkeys(Sections.names())}
        return bool(counts) and sum(counts) == Rope(1, **without_sections).rotary_dim // 2

    @property
    def follows_length(self) -> bool:
        """Return True if the frequencies depend on the context length, as with dynamic and longrope
        scaling.
        """
        return self.is_rotary and "length" in SCALINGS[self.parameters["scaling"]].names()

    def checked(self, path: str) -> Self:
        """Return the encoding after the engine has accepted its values.

        Raises:
            ParameterError: A value is wrong; the error names the file and the key that the value
            comes from, such as `config.json: rope_scaling.short_factor[3]`.
        """
        try:
            self.frequency_rope()
        except ParameterError as problem:
            place = f"{path}: {self._key_of_parameter(problem.name)}"
            raise ParameterError(place, problem.given, problem.rule, problem.advice) from None
        return self

    def _key_of_parameter(self, parameter: str) -> str:
        """Return the key that a parameter's value comes from, with the index of an item.

        `short_factor[3]` comes from `rope_scaling.short_factor[3]`.
        """
        name, bracket, index = parameter.partition("[")
        key = self.sources.get(name, name)
        return f"{key}{bracket}{index}"

    def inverse_frequencies(self, seq_len: int | None = None) -> list[float] | None:
        """Return the frequencies in radians per position; None unless the encoding is rotary.

        They are in the order in which the model stores them. Image models whose axes (row, column)
        have channels of their own, such as Flux with 16, 56 and 56, have the frequencies of one axis
        after those of another. All other models have one list.

        Args:
            seq_len: The context length, on which dynamic and longrope scaling depend.
        """
        if not self.is_rotary:
            return None
        channels_of_axes = self.grid.axis_channels
        if channels_of_axes is None:
            return self._frequencies_in_stored_order(seq_len)
        if self.grid.style:  # The conventions of a project, such as Flux, which the engine knows.
            return self._frequencies_of_style()
        return self._frequencies_by_axis(channels_of_axes)

    def _frequencies_in_stored_order(self, seq_len: int | None) -> list[float]:
        """Return the frequencies as the model stores them: those of rows before columns in Pixtral."""
        frequencies = self.frequency_rope(seq_len).frequencies().floats()
        if self.order is None:
            return frequencies
        return [frequencies[index] for index in self.order]

    def _frequencies_of_style(self) -> list[float]:
        """Return the frequencies of all axes by the grid's style, such as Flux's.

        They are the same for images of any size, so that a small one will do.
        """
        return self.rope(grid=SMALL_GRID).inverse_frequencies()

    def _frequencies_by_axis(self, channels: tuple[int, ...]) -> list[float]:
        """Return the frequencies of each axis, as if it were an encoding with so many channels."""
        frequencies: list[float] = []
        for count in channels:
            rope_of_axis = self._rope_over_tokens(1, context_length=1, dim=count)
            frequencies += rope_of_axis.frequencies().floats()
        return frequencies

    def attention_factor(self, seq_len: int | None = None) -> float | None:
        """Return what cos and sin are multiplied by; None unless it is rotary."""
        if not self.is_rotary:
            return None
        return self.frequency_rope(seq_len).attention_factor_value()

    @cached_property
    def axis_dim(self) -> int | None:
        """The channels of a head that rotate; per axis, if every axis has the same number of them."""
        if not self.is_rotary:
            return None
        return self.frequency_rope().rotary_dim

    @property
    def rotary_dim(self) -> int | None:
        """The channels of a head that rotate, by all axes together.

        The vision tower of Qwen2-VL rotates 40 of 80 channels by rows and 40 by columns: `axis_dim`
        is 40, this is 80.
        """
        if not self.axis_dim or self.grid.axes is None or self.grid.counts_all_axes:
            return self.axis_dim
        return self.axis_dim * self.grid.axes

    def described(self) -> dict[str, object]:
        """Return everything that `pecli config` prints of an encoding, by name.

        That is the parameters of the scheme, and what the model does beyond it: sections of M-RoPE,
        axes of images, layers without rope, factors of queries. Left out is what it does not have.
        """
        beyond_scheme = {
            **self.sections.described(),
            **self.grid.described(),
            "llama_4_scaling_beta": self.llama_4_scaling_beta,
            "mscales": self.mscales,
            **self.unrotated.described(),
            **self.indexer.described(),
            "offset": self.offset,
            "slope_dtype": self.slope_dtype,
            "bias_divisor": self.bias_divisor,
        }
        values = {**self.parameters, **without_none(beyond_scheme)}
        return {name: _as_list(value) for name, value in values.items()}

    def as_json(self, seq_len: int | None = None) -> JsonObject:
        """Return the encoding for JSON.

        Args:
            seq_len: The context for which the frequencies are those of dynamic and longrope
                scaling; by default those before any call.
        """
        described = self.described()
        if seq_len is not None and self.follows_length:
            described["length"] = seq_len
        return {
            "layer_type": self.layer_type,
            "scheme": self.scheme,
            "parameters": described,
            "inv_freq": self.inverse_frequencies(seq_len),
            "attention_factor": self.attention_factor(seq_len),
            "rotary_dim": self.rotary_dim,
            "head_dim": self.head_dim,
            "layout": self.layout,
            "trailing": self.trailing,
            "sources": dict(self.sources),
        }


def _as_list(value: object) -> object:
    """Return a tuple as a list, as JSON has it; any other value as it is."""
    return list(value) if isinstance(value, tuple) else value


class ParsedEncodings(NamedTuple):
    """The encodings that were read from a configuration, and warnings about it."""

    encodings: list[Encoding]
    warnings: list[str]

    def with_earlier_warnings(self, warnings: list[str]) -> "ParsedEncodings":
        """Return the same encodings, with more warnings before their own."""
        return ParsedEncodings(self.encodings, [*warnings, *self.warnings])


def joined(results: Iterable[ParsedEncodings]) -> ParsedEncodings:
    """Return the encodings and the warnings of several parts of a model, such as a tower, in order."""
    encodings: list[Encoding] = []
    warnings: list[str] = []
    for parsed in results:
        encodings += parsed.encodings
        warnings += parsed.warnings
    return ParsedEncodings(encodings, warnings)


@dataclass(frozen=True)
class ModelEncodings(Printed):
    """The positional encodings of a model, one per layer type.

    Attributes:
        file: The file, the preset or the repository that it was read from.
        model_type: The model type that the configuration names.
        encodings: The encodings, the language model's first.
        warnings: What the configuration leaves open, contradicts, or gives in vain.
        context: The longest context that the model is made for.
        window: The window of its sliding layers.
        layers: The type of each layer by number, if it is known.
        flags: The report about server flags that were applied; None if there were none.
        notes: Values that stand only where some programs look for them.
    """

    file: str
    model_type: str | None
    encodings: tuple[Encoding, ...]
    warnings: tuple[str, ...] = ()
    context: int | None = None
    window: int | None = None
    layers: tuple[str, ...] = ()
    flags: FlagReport | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Give each encoding the context of the model, which runtimes read beside the encoding."""
        if self.context is not None:
            encodings = [
                replace(encoding, model_context=self.context) for encoding in self.encodings
            ]
            object.__setattr__(self, "encodings", tuple(encodings))

    def __repr__(self) -> str:
        kinds = [f"{encoding.layer_type} {encoding.scheme}".strip() for encoding in self.encodings]
        return f"<ModelEncodings of {self.file}: {', '.join(kinds) or 'none'}>"

    def __iter__(self) -> Iterator[Encoding]:
        return iter(self.encodings)

    def __len__(self) -> int:
        return len(self.encodings)

    def layer_types(self) -> list[str]:
        return [encoding.layer_type for encoding in self.encodings]

    def ropes(self) -> tuple[Encoding, ...]:
        """Return the rotary encodings of the language model; those of other parts if it has none."""
        rotary = [encoding for encoding in self.encodings if encoding.is_rotary]
        of_text = [encoding for encoding in rotary if not encoding.part]
        return tuple(of_text or rotary)

    def ropes_of(self, layer_type: str | None) -> tuple[Encoding, ...]:
        """Return the encoding of a layer type; all that `ropes` returns if the type is None."""
        return self.ropes() if layer_type is None else (self.one(layer_type),)

    def of_layers_named(
        self, tensor: str, encodings: Sequence[Encoding], *, by_number: bool
    ) -> Sequence[Encoding]:
        """Return the encodings of the layer that a tensor's name states; all if it states none.

        Args:
            tensor: The name, such as `layers.5.q` or `sliding.cos`.
            encodings: The encodings that the tensor may belong to.
            by_number: True if the number of a layer in the name counts.
        """
        layer_type = self.layer_named(tensor, by_number=by_number)
        of_layer = [encoding for encoding in encodings if encoding.layer_type == layer_type]
        return of_layer or encodings

    def layer_named(self, tensor: str, *, by_number: bool = True) -> str | None:
        """Return the layer type that a tensor's name contains, as a word or as the number of a
        layer.

        Layer numbers of towers for images and audio count from 0 again, so that they identify no
        layer here.
        """
        name = tensor.replace("visual", "vision")
        by_word = layer_named(name, self.layer_types())
        if by_word:
            return by_word
        if not by_number or _is_of_tower(name):
            return None
        return self._layer_numbered(name)

    @property
    def position_axes(self) -> int:
        """The axes of a token's position: 3 for M-RoPE (time, row, column) and Flux, else 1."""
        axes = [rope.grid.axes or rope.sections.count for rope in self.ropes()]
        return max([1, *axes])

    @property
    def has_unrotated_layers(self) -> bool:
        """True if some layers of the language model have no rope (NoPE)."""
        return any(rope.unrotated_type or rope.unrotated.nope_layers for rope in self.ropes())

    def is_unrotated(self, tensor: str) -> bool:
        """Return True if a tensor's name states a layer without rope (NoPE).

        >>> from pecli import load_model
        >>> load_model("smollm3-3b").is_unrotated("model.layers.3.q")
        True
        """
        number = layer_number(tensor)
        if number is None or _is_of_tower(tensor):
            return False
        return any(self._leaves_out(encoding, number) for encoding in self.ropes())

    def _leaves_out(self, encoding: Encoding, number: int) -> bool:
        """Return True if an encoding does not rotate a layer, by its number or by its type."""
        if number in (encoding.unrotated.nope_layers or ()):
            return True
        type_of_layer = self.layers[number : number + 1]  # empty if it is not known
        return encoding.unrotated_type in type_of_layer

    def _layer_numbered(self, name: str) -> str | None:
        """Return the type of the layer whose number is in a tensor's name: `model.layers.5.…`."""
        number = layer_number(name)
        if number is None:
            return self._layer_of_module(name)
        if number >= len(self.layers) or self.layers[number] not in self.layer_types():
            return None
        return self.layers[number]

    def _layer_of_module(self, name: str) -> str | None:
        """Return the layer type of a table in a module that all layers of a type share.

        In Hugging Face's Gemma 3, `model.rotary_emb.inv_freq` belongs to the layers with full
        attention. The module of the sliding layers is `rotary_emb_local`, which names them itself.
        """
        *modules, _ = re.split(r"[./]", name)
        if FULL in self.layer_types() and "rotary_emb" in modules:
            return FULL
        return None

    def one(self, layer_type: str | None = None) -> Encoding:
        """Return the encoding of a layer type.

        Args:
            layer_type: The name; None for the only rotary encoding of the language model.

        Raises:
            ParameterError: No encoding has the name, or there are several and none is named.

        >>> from pecli import load_model
        >>> load_model("gemma-3-1b").one("sliding_attention").parameters["base"]
        10000.0
        """
        if layer_type is not None:
            return self._of_layer_type(layer_type)
        candidates = self.ropes() or self._of_text() or self.encodings
        if len(candidates) == 1:
            return candidates[0]
        names = ", ".join(repr(encoding.layer_type) for encoding in candidates)
        rule = f"{self.file} has {names or 'no encodings'}"
        raise ParameterError("layer_type", "missing", rule, "name one")

    def _of_text(self) -> tuple[Encoding, ...]:
        """Return the encodings of the language model itself."""
        return tuple(encoding for encoding in self.encodings if not encoding.part)

    def _of_layer_type(self, layer_type: str) -> Encoding:
        """Return the encoding of a layer type; raise ParameterError if there is none of this name."""
        if not isinstance(layer_type, str):
            raise KindError("layer_type", quoted(layer_type), "it must be a text")
        layer_types = self.layer_types()
        if layer_type in layer_types:
            return self.encodings[layer_types.index(layer_type)]
        has_one_unnamed_type = layer_types == [""]
        if has_one_unnamed_type:
            rule = f"{self.file} has a single layer type, without a name"
            raise ParameterError("layer_type", quoted(layer_type), rule, "omit layer_type")
        names = ", ".join(map(repr, layer_types)) or "none at all"
        raise ParameterError("layer_type", quoted(layer_type), f"{self.file} has {names}")

    def as_json(self, seq_len: int | None = None) -> JsonObject:
        """Return the model for JSON, with what server flags change if there are any."""
        values: JsonObject = {
            "file": self.file,
            "model_type": self.model_type,
            "context": self.context,
            "encodings": [encoding.as_json(seq_len) for encoding in self.encodings],
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }
        if self.flags is not None:
            values["flags"] = self.flags.as_json()
        return values


def _is_of_tower(tensor: str) -> bool:
    """Return True if a tensor's name states that it belongs to a tower for images or audio."""
    return any(word in tensor for word in ("vision", "visual", "audio"))
