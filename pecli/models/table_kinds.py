"""Kinds of encodings other than rotary ones, and what each makes of a configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pecli.engine.schemes.grid_styles import ADDED
from pecli.engine.schemes.positions import GridSize
from pecli.engine.schemes.sinusoidal import STYLES
from pecli.models.encoding import Encoding
from pecli.models.keys import Keys, Value
from pecli.models.layer_types import HEADS, head_size, width_of

ROWS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_source_positions", "n_ctx")


@dataclass(frozen=True)
class Kind:
    """A kind of encoding: what it makes of a configuration, and what there is to say about it."""

    note: str = ""  #: A warning about what the encoding cannot tell; `{rows}` and `{dim}` are patches and width

    def encodings(self, keys: Keys) -> list[Encoding]:
        return []

    def notes(self, keys: Keys) -> list[str]:
        sizes = {"rows": _patches(keys).value, "dim": _dim(keys, ()).value} if "{" in self.note else {}
        return [self.note.format(**sizes)] if self.note else []


@dataclass(frozen=True)
class Unsupported(Kind):
    """Something that pecli has no scheme for, which the note describes; without one, no encoding at all."""


NOTHING = Unsupported()


def _patch_grid(keys: Keys) -> Value:
    image, patch = keys.pair("image_size"), keys.pair("patch_size")
    sides = (side // part for side, part in zip(image.value, patch.value, strict=True))
    return Value(GridSize(sides), f"{image.source} // {patch.source}")


def _patches(keys: Keys) -> Value:
    """How many patches an image has, or a video; counted outright where images have sizes of their own."""
    counted = keys.whole("num_patches")
    if counted is not None and "image_size" not in keys:
        return counted
    grid = _patch_grid(keys)
    found = Value(math.prod(grid.value), f"({grid.source})²")
    frames, tube = keys.whole("num_frames"), keys.whole("tubelet_size")
    if frames is None or tube is None:
        return found
    return Value(frames.value // tube.value * found.value, f"{frames.source} // {tube.source} · {found.source}")


def _dim(keys: Keys, names: tuple[str, ...]) -> Value:
    return keys.needed(keys.whole(*names) or width_of(keys), f"width ({(*names, 'hidden_size')[0]})")


@dataclass(frozen=True)
class _Rows(Kind):
    """A table with one row per position."""

    rows: tuple[str, ...] = ROWS  #: Keys that hold the number of positions; empty for patches of images and videos
    dim: tuple[str, ...] = ()
    name: str = ""

    def sizes(self, keys: Keys) -> tuple[Value, Value]:
        dim = _dim(keys, self.dim)
        if not self.rows:
            return _patches(keys), dim
        return keys.needed(keys.whole(*self.rows), f"number of positions ({self.rows[0]})"), dim

    def padding(self, keys: Keys, low: int) -> tuple[Value, Value]:
        """The padding token, and the row after its own, where the first position stands in fairseq's models."""
        padding = keys.whole("pad_token_id", low=low) or Value(1, "default")
        return padding, Value(padding.value + 1, f"{padding.source} + 1")


@dataclass(frozen=True)
class Learned(_Rows):
    """A table of weights with one row per position."""

    more: int = 0  #: Rows beyond those of the positions
    offset: int | None = None  #: The row of the first position, where the rows beyond do not come first
    padded: bool = False  #: Whether the first position has the row after that of the padding token

    def encodings(self, keys: Keys) -> list[Encoding]:
        rows, dim = self.sizes(keys)
        if self.more:
            rows = Value(rows.value + self.more, f"{rows.source} + {self.more}")
        std = keys.number("initializer_range", "init_std")
        more = self.more if self.offset is None else self.offset
        first = self.padding(keys, low=-1)[1] if self.padded else Value(more if self.rows else 0, "family")
        found = {"max_len": rows, "dim": dim, **({"std": std} if std else {})}
        return [Encoding.of("learned", found, {"offset": first} if first.value else {}, layer_type=self.name)]


def patches(more: int = 0, name: str = "", note: str = "") -> Learned:
    """A learned table with one row per patch of an image, after rows for class and other tokens."""
    return Learned(rows=(), more=more, name=name, note=note)


@dataclass(frozen=True)
class Sinusoidal(_Rows):
    """A table of sines and cosines, in another project's style."""

    style: str = "paper"
    cos_first: bool = False
    relative: bool = False  #: At positions L − 1 … −(L − 1), as Conformers have it
    base: tuple[str, ...] = ()
    amplitude: tuple[str, ...] = ()

    def encodings(self, keys: Keys) -> list[Encoding]:
        rows, dim = self.sizes(keys)
        said = {"layout": "interleaved", "freq_shift": 0.0, **STYLES[self.style]}
        found = {
            "seq_len": rows,
            "dim": dim,
            "style": Value(self.style, "family"),
            "base": keys.number(*self.base) or Value(10000.0, "default"),
            **{name: Value(said[name], f"style {self.style}") for name in ("layout", "freq_shift")},
            **{name: Value(True, "family") for name in ("cos_first", "relative") if getattr(self, name)},
        }
        if amplitude := keys.number(*self.amplitude):
            found["amplitude"] = amplitude
        if "padding_idx" in said:
            found["padding_idx"], found["offset"] = self.padding(keys, low=0)
        return [Encoding.of("sinusoidal", found, layer_type=self.name)]


@dataclass(frozen=True)
class OnGrid(Kind):
    """A table of sines and cosines over the patches of an image."""

    style: str = "mae"
    keep: int = 0  #: Rows of zeros for class and other tokens
    dim: tuple[str, ...] = ()
    grid: Value | None = None  #: That of the project's own images, where the configuration has no sizes

    def encodings(self, keys: Keys) -> list[Encoding]:
        found = {
            "grid": self.grid or _patch_grid(keys),
            "dim": _dim(keys, self.dim),
            "style": Value(self.style, "family"),
            "base": Value(ADDED[self.style].base, f"style {self.style}"),
            **({"keep": Value(self.keep, "family")} if self.keep else {}),
        }
        return [Encoding.of("sinusoidal", found)]


@dataclass(frozen=True)
class RelativeBuckets(Kind):
    """T5's buckets of relative positions, by which biases are looked up."""

    rows: tuple[str, ...] = ("n_positions", "max_position_embeddings")
    prefix: str = "relative_attention_"
    parts: tuple[str, ...] = ("encoder", "decoder")

    def encodings(self, keys: Keys) -> list[Encoding]:
        found = {
            "style": Value("t5", "family"),
            "seq_len": keys.whole(*self.rows) or Value(512, "default"),
            "buckets": keys.whole(f"{self.prefix}num_buckets") or Value(32, "default"),
            "max_distance": keys.whole(f"{self.prefix}max_distance") or Value(128, "default"),
        }
        causal = {name: {"causal": Value(name != "encoder", "family")} for name in self.parts}
        return [Encoding.of("relative", {**found, **causal[name]}, layer_type=name) for name in self.parts]


@dataclass(frozen=True)
class DebertaBuckets(Kind):
    """DeBERTa's buckets of relative positions, by which embeddings are looked up."""

    def encodings(self, keys: Keys) -> list[Encoding]:
        length = keys.whole("n_positions", "max_position_embeddings") or Value(512, "default")
        limit = keys.number("max_relative_positions")
        far = limit if limit and limit.value >= 1 else length
        found = {
            "style": Value("deberta", "family"),
            "seq_len": length,
            "buckets": keys.needed(keys.whole("position_buckets"), "number of buckets (position_buckets)"),
            "max_distance": Value(int(far.value), far.source),
        }
        return [Encoding.of("relative", found)]


@dataclass(frozen=True)
class RelativeWindow(Kind):
    """Swin's numbers of the offsets in a window."""

    def encodings(self, keys: Keys) -> list[Encoding]:
        size = keys.pair("window_size") if "window_size" in keys else Value((7, 7), "default")
        found = {"style": Value("swin", "family"), "grid": Value(GridSize(size.value), size.source)}
        return [Encoding.of("relative", found)]


@dataclass(frozen=True)
class Biased(Kind):
    """ALiBi, added to the scores."""

    form: str = "symmetric"
    rule: str = "paper"
    slope_dtype: str = ""  #: What the model rounds its slopes to
    scaled: bool = False  #: Whether the bias is divided by √head_dim together with the scores

    def encodings(self, keys: Keys) -> list[Encoding]:
        within = keys.section("attn_config")
        most = (within and within.number("alibi_bias_max")) or keys.number("alibi_bias_max") or Value(8.0, "default")
        found = {
            "heads": keys.needed(keys.whole(*HEADS), "number of attention heads"),
            "rule": Value(self.rule, "default"),
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

    parts: tuple[_Rows, ...] = ()

    def encodings(self, keys: Keys) -> list[Encoding]:
        known = [part for part in self.parts if not part.rows or keys.resolves(*part.rows)]
        return [each for part in known or self.parts for each in part.encodings(keys)]


def several(*parts: _Rows, note: str = "") -> Several:
    """Encodings of these parts."""
    return Several(note, parts)


@dataclass(frozen=True)
class Choice(Kind):
    """One kind where a key has a value, another one where it has not; None stands for a rotary encoding."""

    key: str = ""  #: Dots lead into objects
    value: Any = True
    then: Kind | None = None
    otherwise: Kind | None = None
    default: Any = None  #: What the key is where it is left out

    def chosen(self, keys: Keys) -> Kind | None:
        """The kind, whatever choices it takes."""
        *sections, last = self.key.split(".")
        within: Keys | None = keys
        for name in sections:
            within = within.part(name) if within else None
        said = within.value(last) if within else None
        kind = self.then if (said.value if said else self.default) == self.value else self.otherwise
        return kind.chosen(keys) if isinstance(kind, Choice) else kind


def when(key: str, then: Kind | None, otherwise: Kind | None = None, value: Any = True, default: Any = None) -> Choice:
    """One kind where a key has a value, which it has by default or not, another one elsewhere."""
    return Choice("", key, value, then, otherwise, default)
