"""What a model uses: its positional encodings, each value with its source."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from pecli.display import Printed
from pecli.engine.runtimes import runtime_named
from pecli.engine.scalings import SCALINGS
from pecli.engine.schemes.rope import Rope
from pecli.errors import KindError, ParameterError, quoted
from pecli.files.tensor_roles import LAYER, layer_named
from pecli.models.keys import Value


@dataclass(frozen=True)
class Encoding:
    """One positional encoding of a model.

    `parameters` are those of pecli's scheme, without the length of the table; `extra` is what the model does with it
    beyond that, such as sections for several axes. `layout` is how a model pairs the channels that it rotates.
    """

    layer_type: str
    scheme: str
    parameters: Mapping[str, Any]
    sources: Mapping[str, str] = field(default_factory=dict)
    layout: str | None = None
    head_dim: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    part: str = ""  #: The part of the model it belongs to, such as `vision`; empty for the language model itself
    trailing: bool = (
        False  #: Whether the rotary channels are the last of a head, as with latent attention
    )
    tables_in_halves: bool = (
        False  #: Whether tables may be doubled as halves, though interleaved channels rotate
    )
    family: str = ""
    prefix: str = ""  #: In front of the names of the keys that ask for it, such as `text_config.`
    alpha: float | None = None  #: of dynamic scaling, where the family's own code does not read it
    use_fope: bool = False  #: whether the config asks for Fourier position embeddings, which transformers does not read
    lacks_original_length: bool = False  #: Whether the config omits original_max_position_embeddings, so that its context length stands in
    no_table: str = ""  #: Why no table over positions 0, 1, 2, … is what it uses; its frequencies are right, though

    @classmethod
    def of(
        cls,
        scheme: str,
        found: Mapping[str, Value],
        extra: Mapping[str, Value] | None = None,
        **more: Any,
    ) -> Self:
        """An encoding from values that come with their sources, as those of other fields may."""
        fields = {name: each for name, each in more.items() if isinstance(each, Value)}
        every = {**found, **(extra or {}), **fields}
        return cls(
            **{"layer_type": "", **more, **{name: each.value for name, each in fields.items()}},
            scheme=scheme,
            parameters={name: each.value for name, each in found.items()},
            sources={name: each.source for name, each in every.items() if each.source},
            extra={name: each.value for name, each in (extra or {}).items()},
        )

    @property
    def is_rotary(self) -> bool:
        """Whether there are tables of it; the other encodings of models are only described."""
        return self.scheme == "rope"

    def rope(self, seq_len: int | None = None, *, length: int | None = None, **others: Any) -> Rope:
        """The rotary scheme for a table of that many rows; others are its parameters, such as `offset`, `dtype`,
        `layout`, `recipe`, `runtime`, and `positions` or `grid` instead of rows.

        Dynamic and longrope scaling are read at `length`, or else where the table ends.
        """
        name = repr(self.layer_type or "the model")
        if not self.is_rotary:
            raise ParameterError("layer_type", name, f"its encoding is {self.scheme}, not rope")
        if "style" in self.extra and others.keys() & {
            "positions",
            "grid",
        }:  # the whole head at the points of an image
            given = {
                name: value
                for name, value in others.items()
                if value is not None and name != "offset"
            }
            split = self.extra.get("axis_channels", ())
            shares = (
                {"axes": tuple(split)}
                if split and sum(split) == self.head_dim
                else {"dim": self.head_dim}
            )
            own = {
                name: self.extra[name]
                for name in ("grid_base", "axis_factors")
                if name in self.extra
            }
            return Rope(
                base=self.parameters["base"],
                **{"style": self.extra["style"], **shares, **own, **given},
            )
        if self.no_table:
            raise ParameterError(
                "layer_type", name, f"it has no table over positions 0, 1, 2, …: {self.no_table}"
            )
        return self._rope(seq_len, length=length, **others)

    def frequency_rope(self, length: int | None = None, **others: Any) -> Rope:
        """A scheme whose frequencies are the model's, read at a length; without one, as before any call."""
        return self._rope(1, length=length, **others)

    def _rope(self, seq_len: int | None, *, length: int | None, **others: Any) -> Rope:
        given = {**self.parameters, **others, "seq_len": seq_len}
        runtime = given.get("runtime", "none")
        if runtime != "none":
            given |= runtime_named(runtime).adapted(self)[0]
        if self.follows_length or runtime != "none":
            given["length"] = length
        if "mscales" in self.extra:
            at = (
                length
                if length is not None
                else Rope(**{**given, "attention_factor": 1.0}).effective_length
            )
            given["attention_factor"] = self.extra["mscales"][
                at > given["original_max_position_embeddings"]
            ]
        section = tuple(int(count) for count in self.extra.get("mrope_section", ()))
        if (
            section and sum(section) == Rope(1, **self.parameters).rotary_dim // 2
        ):  # a warning speaks of others
            given |= {
                "mrope_section": section,
                "mrope_interleaved": self.extra.get("mrope_interleaved") or None,
            }
        return Rope(**given)

    @property
    def follows_length(self) -> bool:
        """Whether the frequencies are others at another length, as with dynamic and longrope scaling."""
        return self.is_rotary and "length" in SCALINGS[self.parameters["scaling"]].names()

    def checked(self, path: str) -> Self:
        """The same, after the engine has judged the values; an error names the key of the file that is at fault."""
        try:
            self.frequency_rope()
        except ParameterError as problem:
            name, bracket, index = problem.name.partition("[")
            source = self.sources.get(name, name) + bracket + index
            raise ParameterError(
                f"{path}: {source}", problem.given, problem.rule, problem.advice
            ) from None
        return self

    def inverse_frequencies(self, seq_len: int | None = None) -> list[float] | None:
        """Radians per position, in the order that the model keeps them; None unless it is rotary."""
        if not self.is_rotary:
            return None
        if "style" in self.extra and "axis_channels" in self.extra:
            return self.rope(grid=(2, 2)).inverse_frequencies()
        if channels := self.extra.get("axis_channels"):
            ropes = [self._rope(1, length=1, dim=count) for count in channels]
            return [value for rope in ropes for value in rope.frequencies().floats()]
        values = self.frequency_rope(seq_len).frequencies().floats()
        order = self.extra.get("order")
        return values if order is None else [values[k] for k in order]

    def attention_factor(self, seq_len: int | None = None) -> float | None:
        return self.frequency_rope(seq_len).attention_factor_value() if self.is_rotary else None

    @cached_property
    def axis_dim(self) -> int | None:
        """The rotary dimension, that of one axis where each has its own channels."""
        return self.frequency_rope().rotary_dim if self.is_rotary else None

    @property
    def rotary_dim(self) -> int | None:
        """How many channels of a head rotate, those of all axes together."""
        together = "axis_channels" in self.extra or "axis_frequencies" in self.extra
        return self.axis_dim and self.axis_dim * (1 if together else self.extra.get("axes", 1))

    def described(self) -> dict[str, Any]:
        both = {
            **self.parameters,
            **{name: value for name, value in self.extra.items() if name != "order"},
        }
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in both.items()
        }

    def as_json(self, seq_len: int | None = None) -> dict[str, Any]:
        parameters = self.described()
        if seq_len is not None and self.follows_length:
            parameters["length"] = seq_len
        numbers = {
            "inv_freq": self.inverse_frequencies(seq_len),
            "attention_factor": self.attention_factor(seq_len),
        }
        others = {
            name: getattr(self, name) for name in ("rotary_dim", "head_dim", "layout", "trailing")
        }
        about = {"layer_type": self.layer_type, "scheme": self.scheme, "parameters": parameters}
        return {**about, **numbers, **others, "sources": dict(self.sources)}


@dataclass(frozen=True)
class ModelEncodings(Printed):
    """What a model's configuration asks for: its encodings, one for each kind of layer."""

    file: str
    model_type: str | None
    encodings: tuple[Encoding, ...]
    warnings: tuple[str, ...] = ()
    context: int | None = None  #: The longest context that the model says it takes
    window: int | None = None  #: That of its sliding layers
    layers: tuple[str, ...] = ()  #: The type of each layer, where that is known

    def __repr__(self) -> str:
        kinds = [f"{encoding.layer_type} {encoding.scheme}".strip() for encoding in self.encodings]
        return f"<ModelEncodings of {self.file}: {', '.join(kinds) or 'none'}>"

    def __iter__(self) -> Iterator[Encoding]:
        return iter(self.encodings)

    def __len__(self) -> int:
        return len(self.encodings)

    def ropes(self) -> tuple[Encoding, ...]:
        """The rotary encodings of the language model; of the other parts where it has none."""
        found = tuple(encoding for encoding in self.encodings if encoding.is_rotary)
        return tuple(encoding for encoding in found if not encoding.part) or found

    def layer_named(self, tensor: str, *, by_number: bool = True) -> str | None:
        """The layer type that a tensor's name says, by a word or by the number of its layer."""
        name, types = (
            tensor.replace("visual", "vision"),
            [encoding.layer_type for encoding in self.encodings],
        )
        number = (
            LAYER.search(name)
            if by_number and "vision" not in name and "audio" not in name
            else None
        )
        numbered = self.layers[int(number[1]) : int(number[1]) + 1] if number else ()
        return layer_named(name, types) or next((each for each in numbered if each in types), None)

    def one(self, layer_type: str | None = None) -> Encoding:
        """The encoding of a layer type; without a name, the only rotary one of the language model."""
        if layer_type is not None:
            if not isinstance(layer_type, str):
                raise KindError("layer_type", quoted(layer_type), "it must be a text")
            types = [encoding.layer_type for encoding in self.encodings]
            if layer_type in types:
                return self.encodings[types.index(layer_type)]
            if types == [""]:
                rule, advice = (
                    f"all layers of {self.file} are of one kind, which has no name",
                    "leave it out",
                )
                raise ParameterError("layer_type", repr(layer_type), rule, advice)
            names = ", ".join(map(repr, types)) or "none at all"
            raise ParameterError("layer_type", quoted(layer_type), f"{self.file} has {names}")
        ropes = self.ropes() or self.encodings
        if len(ropes) != 1:
            names = ", ".join(repr(encoding.layer_type) for encoding in ropes) or "no encodings"
            raise ParameterError("layer_type", "missing", f"{self.file} has {names}", "name one")
        return ropes[0]

    def as_json(self, seq_len: int | None = None) -> dict[str, Any]:
        encodings = [encoding.as_json(seq_len) for encoding in self.encodings]
        about = {"file": self.file, "model_type": self.model_type, "context": self.context}
        return {**about, "encodings": encodings, "warnings": list(self.warnings)}
