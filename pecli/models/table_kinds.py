"""Kinds of encodings other than rotary ones, and what each makes of a configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pecli.engine.schemes.grid_styles import ADDED
from pecli.engine.schemes.positions import GridSize
from pecli.engine.schemes.sinusoidal import STYLES
from pecli.models.encoding import Encoding
from pecli.models.layer_types import HEADS, head_size, width_of
from pecli.models.values import Keys, Value

ROWS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_source_positions", "n_ctx")


def _padding(keys: Keys, low: int = 0) -> tuple[Value, Value]:
    """The padding token, and the row after its own, where the first position stands in fairseq's models."""
    padding = keys.whole("pad_token_id", low=low) or Value(1, "default")
    return padding, Value(padding.value + 1, f"{padding.source} + 1")


def _patch_grid(keys: Keys) -> tuple[int, int, str]:
    """Rows and columns of the patches of an image, and where they are from."""
    (height, width), image = keys.pair("image_size")
    (tall, wide), patch = keys.pair("patch_size")
    return height // tall, width // wide, f"{image} // {patch}"


def _patches(keys: Keys) -> Value:
    """How many patches an image has, or a video; counted outright where images have sizes of their own."""
    counted = keys.whole("num_patches")
    if counted is not None and "image_size" not in keys:
        return counted
    rows, columns, source = _patch_grid(keys)
    found = Value(rows * columns, f"({source})²")
    frames, tube = keys.whole("num_frames"), keys.whole("tubelet_size")
    if frames is None or tube is None:
        return found
    return Value(frames.value // tube.value * found.value, f"{frames.source} // {tube.source} · {found.source}")


def _positions(keys: Keys, names: tuple[str, ...]) -> Value:
    return keys.needed(keys.whole(*names), f"number of positions ({names[0]})") if names else _patches(keys)


def _dim(keys: Keys, names: tuple[str, ...]) -> Value:
    return keys.needed(keys.whole(*names) or width_of(keys), "width (hidden_size)")


@dataclass(frozen=True)
class Kind:
    """A kind of encoding: what it makes of a configuration, and what there is to say about it."""

    note: str = ""
    """A warning about what the encoding cannot tell; `{rows}` and `{dim}` are patches and width."""

    def encodings(self, keys: Keys) -> list[Encoding]:
        """The encodings that the configuration then asks for."""
        return []

    def notes(self, keys: Keys) -> list[str]:
        """Warnings."""
        if "{" not in self.note:
            return [self.note] if self.note else []
        return [self.note.format(rows=_patches(keys).value, dim=_dim(keys, ()).value)]


@dataclass(frozen=True)
class Learned(Kind):
    """A table of weights with one row per position."""

    rows: tuple[str, ...] = ROWS
    """Keys that hold the number of positions; empty for patches of images."""
    dim: tuple[str, ...] = ()
    more: int = 0
    """Rows beyond those of the positions."""
    offset: int | None = None
    """The row of the first position, where the rows beyond do not come first."""
    padded: bool = False
    """Whether the first position has the row after that of the padding token."""
    name: str = ""

    def encodings(self, keys: Keys) -> list[Encoding]:
        dim = _dim(keys, self.dim)
        rows = _positions(keys, self.rows)
        if self.more:
            rows = Value(rows.value + self.more, f"{rows.source} + {self.more}")
        found = {"max_len": rows, "dim": dim}
        std = keys.number("initializer_range", "init_std")
        if std is not None:
            found["std"] = std
        more = self.more if self.offset is None else self.offset
        first = _padding(keys, low=-1)[1] if self.padded else Value(more if self.rows else 0, "family")
        return [Encoding.of("learned", found, {"offset": first} if first.value else {}, layer_type=self.name)]


def patches(more: int = 0, name: str = "", note: str = "") -> Learned:
    """A learned table with one row per patch of an image, after rows for class and other tokens."""
    return Learned(rows=(), more=more, name=name, note=note)


@dataclass(frozen=True)
class Sinusoidal(Kind):
    """A table of sines and cosines, in another project's style."""

    style: str = "paper"
    rows: tuple[str, ...] = ROWS
    """Keys that hold the number of positions; empty for patches of images and videos."""
    dim: tuple[str, ...] = ()
    name: str = ""
    cos_first: bool = False
    relative: bool = False
    """At positions L − 1 … −(L − 1), as Conformers have it."""

    def encodings(self, keys: Keys) -> list[Encoding]:
        said = {"layout": "interleaved", "freq_shift": 0.0, **STYLES[self.style]}
        found = {
            "seq_len": _positions(keys, self.rows),
            "dim": _dim(keys, self.dim),
            "style": Value(self.style, "family"),
            "base": Value(10000.0, "default"),
            **{name: Value(said[name], f"style {self.style}") for name in ("layout", "freq_shift")},
        }
        for name in ("cos_first", "relative"):
            if getattr(self, name):
                found[name] = Value(True, "family")
        if self.style in ("fairseq", "m2m100", "fsmt"):
            padding, first = _padding(keys)
            found |= {"padding_idx": padding, "offset": first}
        return [Encoding.of("sinusoidal", found, layer_type=self.name)]


@dataclass(frozen=True)
class OnGrid(Kind):
    """A table of sines and cosines over the patches of an image."""

    style: str = "mae"
    keep: int = 0
    """Rows of zeros for class and other tokens."""
    dim: tuple[str, ...] = ()
    pixels: tuple[int, int, int] | None = None
    """Height, width and stride of an image as the project has them, where the configuration has no sizes."""

    def encodings(self, keys: Keys) -> list[Encoding]:
        found = {
            "grid": self._grid(keys),
            "dim": _dim(keys, self.dim),
            "style": Value(self.style, "family"),
            "base": Value(ADDED[self.style].base, f"style {self.style}"),
        }
        if self.keep:
            found["keep"] = Value(self.keep, "family")
        return [Encoding.of("sinusoidal", found)]

    def _grid(self, keys: Keys) -> Value:
        if self.pixels is None:
            rows, columns, source = _patch_grid(keys)
            return Value(GridSize((rows, columns)), source)
        height, width, stride = self.pixels
        return Value(GridSize((-(-height // stride), -(-width // stride))), f"an image of {height} x {width} pixels")


@dataclass(frozen=True)
class RelativeBuckets(Kind):
    """Buckets of relative positions, by which biases or embeddings are looked up."""

    style: str = "t5"

    def encodings(self, keys: Keys) -> list[Encoding]:
        length = keys.whole("n_positions", "max_position_embeddings") or Value(512, "default")
        if self.style == "deberta":
            limit = keys.number("max_relative_positions")
            far = limit if limit and limit.value >= 1 else length
            buckets = keys.needed(keys.whole("position_buckets"), "number of buckets (position_buckets)")
            return [self._of({"buckets": buckets, "max_distance": Value(int(far.value), far.source)}, length)]
        found = {
            "buckets": keys.whole("relative_attention_num_buckets") or Value(32, "default"),
            "max_distance": keys.whole("relative_attention_max_distance") or Value(128, "default"),
        }
        parts = ("encoder", "decoder")
        return [self._of({**found, "causal": Value(name == "decoder", "family")}, length, name) for name in parts]

    def _of(self, found: dict[str, Value], length: Value, name: str = "") -> Encoding:
        every = {"style": Value(self.style, "family"), "seq_len": length, **found}
        return Encoding.of("relative", every, layer_type=name)


@dataclass(frozen=True)
class RelativeWindow(Kind):
    """Swin's numbers of the offsets in a window."""

    def encodings(self, keys: Keys) -> list[Encoding]:
        (height, width), source = keys.pair("window_size") if "window_size" in keys else ((7, 7), "default")
        found = {"style": Value("swin", "family"), "grid": Value(GridSize((height, width)), source)}
        return [Encoding.of("relative", found)]


@dataclass(frozen=True)
class Biased(Kind):
    """ALiBi, added to the scores."""

    form: str = "symmetric"
    slope_dtype: str = ""
    """What the model rounds its slopes to."""
    scaled: bool = False
    """Whether the bias is divided by √head_dim together with the scores."""

    def encodings(self, keys: Keys) -> list[Encoding]:
        within = keys.section("attn_config")
        most = (within and within.number("alibi_bias_max")) or keys.number("alibi_bias_max") or Value(8.0, "default")
        heads = keys.needed(keys.whole(*HEADS), "number of attention heads")
        found = {
            "heads": heads,
            "rule": Value("paper", "default"),
            "max_bias": most,
            "form": Value(self.form, "family"),
        }
        extra = {"slope_dtype": Value(self.slope_dtype, "as transformers computes them")} if self.slope_dtype else {}
        if self.scaled:
            size = head_size(keys)
            extra["bias_divisor"] = Value(math.sqrt(size.value), f"√({size.source})")
        return [Encoding.of("alibi", found, extra)]


@dataclass(frozen=True)
class Several(Kind):
    """Encodings of several parts, such as an encoder and a decoder; of those whose number of positions is known."""

    parts: tuple[Learned | Sinusoidal, ...] = ()

    def encodings(self, keys: Keys) -> list[Encoding]:
        known = [part for part in self.parts if not part.rows or keys.resolves(*part.rows)]
        return [each for part in known or self.parts for each in part.encodings(keys)]


@dataclass(frozen=True)
class Unsupported(Kind):
    """Something that pecli has no scheme for, which the note describes; without one, no encoding at all."""


@dataclass(frozen=True)
class Choice(Kind):
    """One kind where a key has a value, another one where it has not; None stands for a rotary encoding."""

    key: str = ""
    """Dots lead into objects."""
    value: Any = True
    then: Kind | None = None
    otherwise: Kind | None = None
    default: Any = None
    """What the key is where it is left out."""

    def chosen(self, keys: Keys) -> Kind | None:
        """The kind, whatever choices it takes."""
        *sections, last = self.key.split(".")
        within: Keys | None = keys
        for name in sections:
            within = within.part(name) if within else None
        said = within.value(last) if within else None
        kind = self.then if (said.value if said else self.default) == self.value else self.otherwise
        return kind.chosen(keys) if isinstance(kind, Choice) else kind


NOTHING = Unsupported()
