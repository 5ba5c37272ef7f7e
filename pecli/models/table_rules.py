"""Rules that make encodings other than rotary ones out of a configuration.

`LearnedRule(rows=("n_positions",))`, for example, reads a learned table of as many rows as
`n_positions` gives. Which family has which rule is data: `pecli.models.non_rotary` makes the rules
from it.
"""

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple, TypeVar

from pecli.engine.schemes.given_positions import GridSize
from pecli.engine.schemes.grid_styles import ADDED
from pecli.engine.schemes.sinusoidal import STYLES
from pecli.models.data import nonempty
from pecli.models.encoding import Encoding
from pecli.models.heads import head_size, width_of
from pecli.models.key_names import HEAD_COUNT_KEYS
from pecli.models.keys import (
    Keys,
    Setting,
    Settings,
    computed,
    derived,
    nonzero,
    origins_of,
    values_of,
)

#: Keys for the number of positions of a table.
ROWS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_source_positions", "n_ctx")

T = TypeVar("T")

#: DETR's backbone reduces an image to 1/32 of its sides.
PIXELS_PER_CELL = 32
#: The base of the frequencies of sinusoidal tables, unless a key states another one.
DEFAULT_BASE = 10000.0


def implied_by_family(value: T) -> Setting[T]:
    """Return a setting that follows from the model's family, because no key states it."""
    return Setting(value, source="family")


def implied_unless_zero(value: T) -> Setting[T] | None:
    """Return a setting that follows from the family; None, which leaves it out, for 0 and false."""
    return nonzero(implied_by_family(value))


def encoding_of(
    scheme: str, parameters: Settings, layer_type: str = "", part: str = ""
) -> Encoding:
    """Return an encoding with these parameters, each of which is a value with its source."""
    return Encoding(
        layer_type=layer_type,
        scheme=scheme,
        parameters=values_of(parameters),
        origins=origins_of(parameters),
        part=part,
    )


def patch_grid(keys: Keys) -> Setting[GridSize]:
    """Return rows and columns of patches: an image of 224 with patches of 16 has 14 x 14."""
    image = keys.pair("image_size")
    patch = keys.pair("patch_size")
    image_height, image_width = image.value
    patch_height, patch_width = patch.value
    sides = (image_height // patch_height, image_width // patch_width)
    return computed(GridSize(sides), "{} // {}", image, patch)


def patch_count(keys: Keys) -> Setting[int]:
    """Return the number of patches of an image or a video, with the keys that it comes from.

    An image of 224 × 224 pixels with patches of 16 × 16 has 14 · 14 = 196 patches.
    """
    # SigLIP 2 states the number. An `image_size` in the same file takes precedence.
    stated_count = keys.whole_number("num_patches")
    if stated_count is not None and "image_size" not in keys:
        return stated_count
    # MoonViT states the rows and the columns of patches.
    rows = keys.whole_number("init_pos_emb_height")
    columns = keys.whole_number("init_pos_emb_width")
    count_of_grid = derived(operator.mul, "{} · {}", rows, columns)
    if count_of_grid is not None:
        return count_of_grid
    grid = patch_grid(keys)
    # The text describes how it is computed: «(image_size // patch_size)²», as most images are square.
    patches_of_image = computed(math.prod(grid.value), "({})²", grid)
    return _times_frames_of_video(keys, patches_of_image)


def _times_frames_of_video(keys: Keys, patches: Setting[int]) -> Setting[int]:
    """Return the patches of a video, if the file has frames; otherwise those of an image.

    16 frames in tubes of 2, of 196 patches each, are 8 · 196 = 1568.
    """
    frames = keys.whole_number("num_frames")
    tube = keys.whole_number("tubelet_size")
    of_video = derived(_patches_of_video, "{} // {} · {}", frames, tube, patches)
    return of_video or patches


def _patches_of_video(frames: int, frames_per_tube: int, patches_of_frame: int) -> int:
    return frames // frames_per_tube * patches_of_frame


def table_width(keys: Keys, names: tuple[str, ...]) -> Setting[int]:
    """Return the width of a table: that of the named keys, or else the model's."""
    name = names[0] if names else "hidden_size"
    return keys.required(keys.whole_number(*names) or width_of(keys), f"width ({name})")


@dataclass(frozen=True)
class EncodingRule:
    """A rule that makes encodings of a configuration.

    By itself it makes none: the model has no positional encoding, or one that pecli has no scheme
    for, which the note describes.
    """

    #: What the encodings do not express.
    note: str = field(default="", kw_only=True)
    #: True if the rule holds even for a configuration with keys about rope. Files of models with
    #: ALiBi, and of models without any encoding, often have a `rope_theta` that their code ignores.
    overrides_rope: ClassVar[bool] = True

    def encodings(self, keys: Keys) -> list[Encoding]:
        return []

    def notes(self, keys: Keys) -> list[str]:
        return nonempty(self.note)


@dataclass(frozen=True)
class PatchNoteRule(EncodingRule):
    """A table of patches that no scheme makes; `{rows}` and `{dim}` in the note are its sizes
    (AIMv2).
    """

    def notes(self, keys: Keys) -> list[str]:
        rows = patch_count(keys).value
        return [self.note.format(rows=rows, dim=table_width(keys, ()).value)]


class TableSize(NamedTuple):
    """Rows and columns of a table."""

    rows: Setting[int]
    dim: Setting[int]


class Padding(NamedTuple):
    """The padding token, and the row of the first position."""

    token: Setting[int]
    first_row: Setting[int]


@dataclass(frozen=True)
class TableRule(EncodingRule):
    """A table with one row per position."""

    #: Keys for the number of positions; empty for patches of images and videos.
    rows: tuple[str, ...] = ROWS
    #: Keys for the width; the model's if they are empty or absent.
    dim: tuple[str, ...] = ()
    #: The layer type of the encoding, such as `encoder`.
    name: str = ""
    #: The part of the model that has the table, if it is not the main one: the decoder of ViT-MAE.
    part: str = ""
    overrides_rope: ClassVar[bool] = False

    def size(self, keys: Keys) -> TableSize:
        """Return the number of positions and the width of the table; other rows do not count."""
        dim = table_width(keys, self.dim)
        if not self.rows:
            return TableSize(rows=patch_count(keys), dim=dim)
        rows = keys.whole_number(*self.rows)
        stated_rows = keys.required(rows, f"number of positions ({self.rows[0]})")
        return TableSize(rows=stated_rows, dim=dim)

    def padding(self, keys: Keys, low: int) -> Padding:
        """Return the padding token, and the row of the first position, which is the one after it.

        fairseq numbers the positions of words from the padding token on: RoBERTa's is 1, so that
        its first word has row 2.

        Args:
            keys: The configuration.
            low: The least token that is accepted. −1 stands for no padding token, which makes the
                first row 0.
        """
        token = keys.whole_number_or(1, "pad_token_id", low=low)
        return Padding(token=token, first_row=computed(token.value + 1, "{} + 1", token))


@dataclass(frozen=True)
class LearnedRule(TableRule):
    """A table of weights with one row per position.

    `LearnedRule(rows=("max_position_embeddings",), extra_rows=2)` is OPT's: a model of 2048 positions has
    2050 rows, and position 0 has row 2.
    """

    #: Rows beyond those of the positions: 2 in OPT, 1 for the class token of ViT.
    extra_rows: int = 0
    #: The row of the first position, if the extra rows do not come first.
    offset: int | None = None
    #: The first position has the row after that of the padding token.
    padded: bool = False

    def encodings(self, keys: Keys) -> list[Encoding]:
        """Return the learned table: its rows, its width, and the row of position 0.

        OPT's table of 2048 positions has 2 rows more, and begins with them: position 0 is row 2.
        """
        position_count, width = self.size(keys)
        std = keys.number("initializer_range", "init_std")
        parameters = {"max_len": self._row_count(position_count), "dim": width, "std": std}
        table = encoding_of("learned", parameters, self.name)
        first_row = self._row_of_first_position(keys)
        if first_row.value == 0:
            return [table]
        # An encoding keeps, for each of its values, the key of the file that states it.
        origins = {**table.origins, **origins_of({"offset": first_row})}
        return [replace(table, offset=first_row.value, origins=origins)]

    def _row_count(self, positions: Setting[int]) -> Setting[int]:
        """Return the rows of the table: one per position, and the extra ones."""
        if not self.extra_rows:
            return positions
        count = positions.value + self.extra_rows
        return positions.implying(count, f"{positions.source} + {self.extra_rows}")

    def _row_of_first_position(self, keys: Keys) -> Setting[int]:
        """Return the row of the first position: 2 in OPT and RoBERTa, 0 in GPT-2."""
        if self.padded:
            return self.padding(keys, low=-1).first_row
        if not self.rows:
            # ViT counts its class token as position 0 and the first patch as position 1, so that
            # the table is used from its first row.
            return implied_by_family(0)
        return implied_by_family(self.extra_rows if self.offset is None else self.offset)


@dataclass(frozen=True)
class SinusoidalRule(TableRule):
    """A table of sines and cosines.

    `SinusoidalRule(style="fairseq")` is SpeechT5's: sines and cosines in halves, and the row of the
    padding token zero.
    """

    #: The project whose layout, frequencies and first position the table has: one of STYLES.
    style: str = "paper"
    cos_first: bool = False
    #: Positions run from L − 1 to −(L − 1), as in Conformers.
    relative: bool = False
    #: Keys for the base of the frequencies; 10000 if they are empty or absent.
    base_keys: tuple[str, ...] = ()
    #: Keys for a factor of all values; it is 1 if they are empty or absent.
    amplitude_keys: tuple[str, ...] = ()

    def encodings(self, keys: Keys) -> list[Encoding]:
        """Return the table of sines and cosines that a configuration describes.

        Each parameter of `pecli.Sinusoidal` is a value with its source, such as a key or the model
        family. A parameter that is None keeps its default.
        """
        size = self.size(keys)
        parameters: dict[str, Setting[object] | None] = {
            "seq_len": size.rows,
            "dim": size.dim,
            "style": implied_by_family(self.style),
            "base": keys.number_or(DEFAULT_BASE, *self.base_keys),
            **self._parameters_of_style(),
            "cos_first": implied_unless_zero(self.cos_first),
            "relative": implied_unless_zero(self.relative),
            "amplitude": keys.number(*self.amplitude_keys),
            **self._parameters_of_padding(keys),
        }
        return [encoding_of("sinusoidal", parameters, self.name, self.part)]

    def _parameters_of_style(self) -> Settings:
        """Return the layout and the shift of frequencies that the style stands for.

        fairseq has all sines before all cosines (`halves`), and a `freq_shift` of 1.
        """
        style = STYLES[self.style]
        source = f"style {self.style}"
        return {
            "layout": Setting(style.get("layout", "interleaved"), source),
            "freq_shift": Setting(style.get("freq_shift", 0.0), source),
        }

    def _parameters_of_padding(self, keys: Keys) -> Settings:
        """Return the row of zeros for the padding token, and the first position, which is after it.

        Only fairseq's styles have them.
        """
        has_padding = "padding_idx" in STYLES[self.style]
        if not has_padding:
            return {}
        padding = self.padding(keys, low=0)
        return {"padding_idx": padding.token, "offset": padding.first_row}


@dataclass(frozen=True)
class GridRule(TableRule):
    """A table of sines and cosines over the patches of an image."""

    rows: tuple[str, ...] = ()
    style: str = "mae"
    #: Rows of zeros for class and other tokens.
    keep: int = 0
    #: The sides of a usual image, if the configuration has no sizes.
    pixels: tuple[int, ...] = ()

    def encodings(self, keys: Keys) -> list[Encoding]:
        """Return the table of sines and cosines over an image's patches: ViT-MAE has 14 × 14.

        Each parameter of `pecli.Sinusoidal` is a value with its source, such as a key or the model
        family. A parameter that is None keeps its default.
        """
        # Models for images of any size, such as DETR, have a rule that names the size of one image.
        grid = _cells_of_image(self.pixels) if self.pixels else patch_grid(keys)
        base_of_style = ADDED[self.style].base
        parameters: Settings = {
            "grid": grid,
            "dim": table_width(keys, self.dim),
            "style": implied_by_family(self.style),
            "base": Setting(base_of_style, source=f"style {self.style}"),
            "keep": implied_unless_zero(self.keep),  # Rows of zeros, such as the class token's.
        }
        return [encoding_of("sinusoidal", parameters, self.name, self.part)]


def _cells_of_image(pixels: Iterable[int]) -> Setting[GridSize]:
    """Return the cells of an image, with a cell begun at its edge: 800 x 1066 pixels make 25 x 34."""
    sides = [math.ceil(side / PIXELS_PER_CELL) for side in pixels]
    return Setting(GridSize(sides), f"an image of {' x '.join(map(str, pixels))} pixels")


@dataclass(frozen=True)
class T5Rule(EncodingRule):
    """T5's buckets of relative positions, each with a learned bias per head."""

    rows: tuple[str, ...] = ("n_positions", "max_position_embeddings")
    #: What the keys of the buckets begin with.
    prefix: str = "relative_attention_"
    parts: tuple[str, ...] = ("encoder", "decoder")
    overrides_rope: ClassVar[bool] = False

    def encodings(self, keys: Keys) -> list[Encoding]:
        """Return an encoding for the encoder and one for the decoder, with parameters of `Relative`.

        The encoder divides its 32 buckets between keys before and after the query; the decoder,
        which is causal, has all of them for keys before it. Both have the same sizes, from keys of
        the configuration or by T5's defaults.
        """
        keys_of_length = self.rows
        shared_parameters: dict[str, Setting[object]] = {
            "style": implied_by_family("t5"),
            "seq_len": keys.whole_number_or(512, *keys_of_length),
            "buckets": keys.whole_number_or(32, f"{self.prefix}num_buckets"),
            "max_distance": keys.whole_number_or(128, f"{self.prefix}max_distance"),
        }
        encodings = []
        for part in self.parts:
            is_causal = part != "encoder"
            parameters = {**shared_parameters, "causal": implied_by_family(is_causal)}
            encodings.append(encoding_of("relative", parameters, layer_type=part))
        return encodings


@dataclass(frozen=True)
class DebertaRule(EncodingRule):
    """DeBERTa's buckets of relative positions, each with a learned embedding."""

    overrides_rope: ClassVar[bool] = False

    def notes(self, keys: Keys) -> list[str]:
        notes = super().notes(keys)
        if keys.is_false("relative_attention"):
            notes.append("relative_attention is false: the embeddings described here are not used")
        return notes

    def encodings(self, keys: Keys) -> list[Encoding]:
        """Return the buckets of distances; those beyond `max_relative_positions` share the last.

        DeBERTa v3 has 256 buckets for 512 positions: distances up to 128 have one each, larger ones
        share buckets whose width grows by the logarithm.
        """
        length = keys.required(
            keys.whole_number("max_position_embeddings"), "max_position_embeddings"
        )
        # All published models have −1 here, which stands for the length.
        stated_distance = keys.number_or(-1, "max_relative_positions")
        max_distance = stated_distance if stated_distance.value >= 1 else length
        buckets = keys.whole_number("position_buckets")
        parameters = {
            "style": implied_by_family("deberta"),
            "seq_len": length,
            "buckets": keys.required(buckets, "number of buckets (position_buckets)"),
            "max_distance": max_distance.with_value(int(max_distance.value)),
        }
        return [encoding_of("relative", parameters)]


@dataclass(frozen=True)
class SwinRule(EncodingRule):
    """Swin's index of the offsets in a window, each with a learned bias per head."""

    overrides_rope: ClassVar[bool] = False

    def encodings(self, keys: Keys) -> list[Encoding]:
        """Return the index of a window of 7 × 7 patches, which have 13 × 13 offsets."""
        size = Setting((7, 7), "default")
        if keys.has_value("window_size"):
            size = keys.pair("window_size")
        grid = size.with_value(GridSize(size.value))
        return [encoding_of("relative", {"style": implied_by_family("swin"), "grid": grid})]


@dataclass(frozen=True)
class AlibiRule(EncodingRule):
    """ALiBi, a bias that is added to the attention scores."""

    form: str = "symmetric"
    rule: str = "paper"
    #: The dtype to which the model rounds its slopes.
    slope_dtype: str = ""
    #: The bias is divided by √head_dim together with the scores, as in Falcon.
    scaled: bool = False

    def encodings(self, keys: Keys) -> list[Encoding]:
        """Return one encoding, with the origin of each of its values.

        A value is read as a `Setting`, which also has the key or the rule that it comes from;
        `pecli config` prints both. The smallest BLOOM has 16 heads, by `n_head`, and a largest
        bias of 8, by default.
        """
        parameters = self._parameters(keys)
        fields = self._fields(keys)
        origins = origins_of({**parameters, **fields})
        bias = encoding_of("alibi", parameters)
        return [replace(bias, origins=origins, **values_of(fields))]

    def _parameters(self, keys: Keys) -> Settings:
        """Return the parameters of `pecli.Alibi`, each a value with its source.

        The slopes of n heads are powers of 2^(−max_bias / n), with a max_bias of 8 in most models.
        """
        # MPT keeps `alibi_bias_max` with its other settings of attention.
        attention = keys.section("attn_config")
        max_bias = attention.number("alibi_bias_max")
        if max_bias is None:
            max_bias = keys.number_or(8.0, "alibi_bias_max")
        head_count = keys.whole_number(*HEAD_COUNT_KEYS)
        return {
            "heads": keys.required(head_count, "number of attention heads"),
            "rule": Setting(self.rule, source="default"),
            "max_bias": max_bias,
            "form": implied_by_family(self.form),  # Such as `causal`; no key states it.
        }

    def _fields(self, keys: Keys) -> Settings:
        """Return fields of an `Encoding` that change the bias of the scheme in this model.

        Falcon rounds the slopes to bfloat16, and divides the bias by √head_dim.
        """
        slope_dtype = Setting(self.slope_dtype, "as transformers computes them")
        return {"slope_dtype": nonzero(slope_dtype), "bias_divisor": self._divisor(keys)}

    def _divisor(self, keys: Keys) -> Setting[float] | None:
        if not self.scaled:
            return None
        size = head_size(keys)
        return computed(math.sqrt(size.value), "√({})", size)


@dataclass(frozen=True)
class SeveralRules(EncodingRule):
    """Tables of several parts, such as an encoder and a decoder; of those whose number of positions
    is given.
    """

    parts: tuple[TableRule, ...]
    overrides_rope: ClassVar[bool] = False

    def encodings(self, keys: Keys) -> list[Encoding]:
        encodings = []
        for part in self.parts:
            has_size = not part.rows or keys.has_value(*part.rows)
            if has_size:
                encodings += part.encodings(keys)
        return encodings


@dataclass(frozen=True)
class ChoiceRule(EncodingRule):
    """One rule if a key has a value, another one if it has not; None stands for a rotary encoding.

    `ChoiceRule("alibi", then=AlibiRule())` is Falcon's: ALiBi if `alibi` is true, else rope. A
    choice may lead to another choice.
    """

    #: A dot leads into an object: `attn_config.alibi`.
    key: str
    then: EncodingRule | None
    otherwise: EncodingRule | None = None
    value: object = True
    #: The value if the key is absent.
    default: object = None
    overrides_rope: ClassVar[bool] = False

    def chosen(self, keys: Keys) -> EncodingRule | None:
        """Return the rule that applies to a configuration."""
        setting = keys.value_at(self.key) or Setting(self.default, "default")
        rule = self.then if setting.value == self.value else self.otherwise
        if isinstance(rule, ChoiceRule):
            return rule.chosen(keys)
        return rule
