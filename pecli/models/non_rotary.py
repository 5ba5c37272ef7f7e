"""Encodings other than rotary ones: kinds of them, with what each makes of a configuration. Which family has which is a
row of non_rotary.json beside this file: a kind with its fields, and the names that it is for; a row of `beside` where a
table comes beside a rotary encoding. Other classes of transformers have those of class_tables.json."""

import math
from dataclasses import dataclass, field
from operator import floordiv
from typing import Any, dataclass_transform

from pecli.engine.schemes.given_positions import GridSize
from pecli.engine.schemes.grid_styles import ADDED
from pecli.engine.schemes.sinusoidal import STYLES
from pecli.models.data import plain_name, stored
from pecli.models.encoding import Encoding
from pecli.models.heads import head_size, width_of
from pecli.models.key_names import HEADS
from pecli.models.keys import Keys, Setting

ROWS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_source_positions", "n_ctx")


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Kind:
    """A kind of encoding: what it makes of a configuration, and what there is to say about it. By itself it is none
    that pecli has a scheme for, which the note describes; without one, no encoding at all."""

    note: str = field(
        default="", kw_only=True
    )  #: What it cannot tell; `{rows}` and `{dim}` are patches and width

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def encodings(self, keys: Keys) -> list[Encoding]:
        return []

    def notes(self, keys: Keys) -> list[str]:
        sizes = (
            {"rows": _patches(keys).value, "dim": _dim(keys, ()).value} if "{" in self.note else {}
        )
        return [self.note.format(**sizes)] if self.note else []


def _patch_grid(keys: Keys) -> Setting[Any]:
    image, patch = keys.pair("image_size"), keys.pair("patch_size")
    return Setting(
        GridSize(map(floordiv, image.value, patch.value)), f"{image.source} // {patch.source}"
    )


def _patches(keys: Keys) -> Setting[Any]:
    """How many patches an image has, or a video; counted outright where images have sizes of their own."""
    counted = keys.whole("num_patches")
    if counted is not None and "image_size" not in keys:
        return counted
    height, width = keys.whole("init_pos_emb_height"), keys.whole("init_pos_emb_width")
    if height and width:
        return Setting(height.value * width.value, f"{height.source} · {width.source}")
    grid = _patch_grid(keys)
    found = Setting(math.prod(grid.value), f"({grid.source})²")
    frames, tube = keys.whole("num_frames"), keys.whole("tubelet_size")
    if frames is None or tube is None:
        return found
    return Setting(
        frames.value // tube.value * found.value,
        f"{frames.source} // {tube.source} · {found.source}",
    )


def _dim(keys: Keys, names: tuple[str, ...]) -> Setting[Any]:
    return keys.needed(
        keys.whole(*names) or width_of(keys), f"width ({(*names, 'hidden_size')[0]})"
    )


class _Rows(Kind):
    rows: tuple[str, ...] = (
        ROWS  #: Keys that hold the number of positions; empty for patches of images and videos
    )
    dim: tuple[str, ...] = ()
    name: str = ""

    def sizes(self, keys: Keys) -> tuple[Setting[Any], Setting[Any]]:
        dim = _dim(keys, self.dim)
        if not self.rows:
            return _patches(keys), dim
        return keys.needed(keys.whole(*self.rows), f"number of positions ({self.rows[0]})"), dim

    def padding(self, keys: Keys, low: int) -> tuple[Setting[Any], Setting[Any]]:
        """The padding token, and the row after its own, where the first position stands in fairseq's models."""
        padding = keys.whole("pad_token_id", low=low) or Setting(1, "default")
        return padding, Setting(padding.value + 1, f"{padding.source} + 1")


class Learned(_Rows):
    """A table of weights with one row per position."""

    more: int = 0  #: Rows beyond those of the positions
    offset: int | None = (
        None  #: The row of the first position, where the rows beyond do not come first
    )
    padded: bool = False  #: Whether the first position has the row after that of the padding token

    def encodings(self, keys: Keys) -> list[Encoding]:
        rows, dim = self.sizes(keys)
        rows = (
            Setting(rows.value + self.more, f"{rows.source} + {self.more}") if self.more else rows
        )
        std = keys.number("initializer_range", "init_std")
        more = self.more if self.offset is None else self.offset
        first = (
            self.padding(keys, low=-1)[1]
            if self.padded
            else Setting(more if self.rows else 0, "family")
        )
        found = {"max_len": rows, "dim": dim, **({"std": std} if std else {})}
        return [
            Encoding.of(
                "learned", found, {"offset": first} if first.value else {}, layer_type=self.name
            )
        ]


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
        found = {"seq_len": rows, "dim": dim, "style": Setting(self.style, "family")}
        found["base"] = keys.number(*self.base) or Setting(10000.0, "default")
        found |= {
            name: Setting(said[name], f"style {self.style}") for name in ("layout", "freq_shift")
        }
        found |= {
            name: Setting(True, "family")
            for name in ("cos_first", "relative")
            if getattr(self, name)
        }
        if amplitude := keys.number(*self.amplitude):
            found["amplitude"] = amplitude
        if "padding_idx" in said:
            found["padding_idx"], found["offset"] = self.padding(keys, low=0)
        return [Encoding.of("sinusoidal", found, layer_type=self.name)]


class OnGrid(Kind):
    """A table of sines and cosines over the patches of an image."""

    style: str = "mae"
    keep: int = 0  #: Rows of zeros for class and other tokens
    dim: tuple[str, ...] = ()
    pixels: tuple[
        int, ...
    ] = ()  #: A usual image, where the configuration has no sizes; the grid is 1/32 of it

    def encodings(self, keys: Keys) -> list[Encoding]:
        base = Setting(ADDED[self.style].base, f"style {self.style}")
        keep = {"keep": Setting(self.keep, "family")} if self.keep else {}
        sides = GridSize(-(-pixels // 32) for pixels in self.pixels)
        usual = (
            Setting(sides, f"an image of {' x '.join(map(str, self.pixels))} pixels")
            if sides
            else None
        )
        found = {"grid": usual or _patch_grid(keys), "dim": _dim(keys, self.dim)}
        return [
            Encoding.of(
                "sinusoidal",
                {**found, "style": Setting(self.style, "family"), "base": base, **keep},
            )
        ]


class RelativeBuckets(Kind):
    """T5's buckets of relative positions, by which biases are looked up."""

    rows: tuple[str, ...] = ("n_positions", "max_position_embeddings")
    prefix: str = "relative_attention_"
    parts: tuple[str, ...] = ("encoder", "decoder")

    def encodings(self, keys: Keys) -> list[Encoding]:
        found = {
            "style": Setting("t5", "family"),
            "seq_len": keys.whole(*self.rows) or Setting(512, "default"),
        }
        found["buckets"] = keys.whole(f"{self.prefix}num_buckets") or Setting(32, "default")
        found["max_distance"] = keys.whole(f"{self.prefix}max_distance") or Setting(128, "default")
        causal = {name: {"causal": Setting(name != "encoder", "family")} for name in self.parts}
        return [
            Encoding.of("relative", {**found, **causal[name]}, layer_type=name)
            for name in self.parts
        ]


class DebertaBuckets(Kind):
    """DeBERTa's buckets of relative positions, by which embeddings are looked up."""

    def encodings(self, keys: Keys) -> list[Encoding]:
        length = keys.needed(keys.whole("max_position_embeddings"), "max_position_embeddings")
        limit = keys.number("max_relative_positions")
        far = limit if limit and limit.value >= 1 else length
        found = {"style": Setting("deberta", "family"), "seq_len": length}
        found["buckets"] = keys.needed(
            keys.whole("position_buckets"), "number of buckets (position_buckets)"
        )
        found["max_distance"] = Setting(int(far.value), far.source)
        return [Encoding.of("relative", found)]


class RelativeWindow(Kind):
    """Swin's numbers of the offsets in a window."""

    def encodings(self, keys: Keys) -> list[Encoding]:
        size = keys.pair("window_size") if "window_size" in keys else Setting((7, 7), "default")
        found = {
            "style": Setting("swin", "family"),
            "grid": Setting(GridSize(size.value), size.source),
        }
        return [Encoding.of("relative", found)]


class Biased(Kind):
    """ALiBi, added to the scores."""

    form: str = "symmetric"
    rule: str = "paper"
    slope_dtype: str = ""  #: What the model rounds its slopes to
    scaled: bool = False  #: Whether the bias is divided by √head_dim together with the scores

    def encodings(self, keys: Keys) -> list[Encoding]:
        within = keys.section("attn_config")
        most = (
            (within and within.number("alibi_bias_max"))
            or keys.number("alibi_bias_max")
            or Setting(8.0, "default")
        )
        heads = keys.needed(keys.whole(*HEADS), "number of attention heads")
        said = {
            "rule": Setting(self.rule, "default"),
            "max_bias": most,
            "form": Setting(self.form, "family"),
        }
        extra: dict[str, Setting[Any]] = (
            {"slope_dtype": Setting(self.slope_dtype, "as transformers computes them")}
            if self.slope_dtype
            else {}
        )
        if self.scaled:
            size = head_size(keys)
            extra["bias_divisor"] = Setting(math.sqrt(size.value), f"√({size.source})")
        return [Encoding.of("alibi", {"heads": heads, **said}, extra)]


class Several(Kind):
    """Encodings of several parts, such as an encoder and a decoder; of those whose number of positions is known."""

    parts: tuple[_Rows, ...]

    def encodings(self, keys: Keys) -> list[Encoding]:
        known = [part for part in self.parts if not part.rows or keys.resolves(*part.rows)]
        return [each for part in known for each in part.encodings(keys)]


class Choice(Kind):
    """One kind where a key has a value, another one where it has not; None stands for a rotary encoding."""

    key: str  #: A dot leads into an object
    then: Kind | None
    otherwise: Kind | None = None
    value: Any = True
    default: Any = None  #: What the key is where it is left out

    def chosen(self, keys: Keys) -> Kind | None:
        section, _, name = self.key.rpartition(".")
        within = keys.part(section) if section else keys
        said = within.value(name) if within else None
        kind = self.then if (said.value if said else self.default) == self.value else self.otherwise
        return kind.chosen(keys) if isinstance(kind, Choice) else kind


RELATIVE_NOTE = "it has relative positions of its own kind, which are none of rope, alibi, learned or sinusoidal"
_KINDS = {kind.__name__: kind for kind in (*Kind.__subclasses__(), *_Rows.__subclasses__())}


def _made(row: Any) -> Any:
    """A kind from its row of data, and so of all that it holds; lists are tuples."""
    if isinstance(row, list):
        return tuple(map(_made, row))
    if not isinstance(row, dict):
        return row
    fields = {name: _made(value) for name, value in row.items() if name not in ("kind", "names")}
    return (_KINDS[row["kind"]] if "kind" in row else Kind)(**fields)


def _families(rows: list[dict[str, Any]]) -> dict[str, Kind]:
    return {name: kind for row in rows for kind in [_made(row)] for name in row["names"].split()}


FAMILIES = _families(stored("non_rotary.json")["families"])
BESIDE = _families(stored("non_rotary.json")["beside"])
PROJECTS: dict[str, dict[str, Kind]] = {
    project: {word: _made(row) for word, row in rows.items()}
    for project, rows in stored("non_rotary.json")["projects"].items()
}


def beside(model_type: str | None, *, vision: bool) -> Kind | None:
    """What a family has beside its rotary encoding; None where nothing is known."""
    names = [
        plain_name(model_type) + ending
        for ending in ("", "_vision", "_vision_model")[: None if vision else 1]
    ]
    return next((BESIDE[name] for name in names if name in BESIDE), None)


def tables_of(model_type: str | None) -> Kind | None:
    """The tables of a model_type; None where its class has none, or is not known. A row is a tensor with the rule for
    its rows and its width, [name, key, more, key]: as many rows as a key says and some more, or as an image has patches
    where that key is empty. Or it is one that no scheme describes, [name, shape at class defaults]."""
    rows = stored("class_tables.json").get(plain_name(model_type), [])
    ruled, others = [row for row in rows if len(row) == 4], [row for row in rows if len(row) == 2]
    named = ", ".join(f"{tensor} ({shape})" for tensor, shape in others)
    note = (
        f"it has tables of positions that are none of pecli's schemes, at class defaults: {named}"
        if named
        else ""
    )
    if not ruled:
        return Kind(note=note) if note else None
    parts = tuple(
        Learned(
            rows=(key,) if key else (),
            more=more,
            dim=(dim,),
            name=tensor if len(ruled) > 1 else "",
            offset=0,
        )
        for tensor, key, more, dim in ruled
    )
    return Several(parts, note=note)
