"""Encodings other than rotary ones: kinds of them, with what each makes of a configuration, and which family has which.

A family is a row of `_NAMES`, or of `_BESIDE` where its table comes beside a rotary encoding. Other classes of
transformers have the tables of class_tables.json beside this file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from operator import floordiv
from typing import Any

from pecli.engine.schemes.given_positions import GridSize
from pecli.engine.schemes.grid_styles import ADDED
from pecli.engine.schemes.sinusoidal import STYLES
from pecli.models.encoding import Encoding
from pecli.models.keys import Keys, Value, plain_name, stored
from pecli.models.layer_types import HEADS, head_size, width_of

ROWS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_source_positions", "n_ctx")


@dataclass(frozen=True)
class Kind:
    """A kind of encoding: what it makes of a configuration, and what there is to say about it."""

    note: str = field(default="", kw_only=True)
    """A warning about what the encoding cannot tell; `{rows}` and `{dim}` are patches and width."""

    def encodings(self, keys: Keys) -> list[Encoding]:
        return []

    def notes(self, keys: Keys) -> list[str]:
        sizes = {"rows": _patches(keys).value, "dim": _dim(keys, ()).value} if "{" in self.note else {}
        return [self.note.format(**sizes)] if self.note else []


@dataclass(frozen=True)
class Unsupported(Kind):
    """Something that pecli has no scheme for, which the note describes; without one, no encoding at all."""

    note: str = ""


NOTHING = Unsupported()


def _patch_grid(keys: Keys) -> Value:
    image, patch = keys.pair("image_size"), keys.pair("patch_size")
    sides = map(floordiv, image.value, patch.value)
    return Value(GridSize(sides), f"{image.source} // {patch.source}")


def _patches(keys: Keys) -> Value:
    """How many patches an image has, or a video; counted outright where images have sizes of their own."""
    counted = keys.whole("num_patches")
    if counted is not None and "image_size" not in keys:
        return counted
    height, width = keys.whole("init_pos_emb_height"), keys.whole("init_pos_emb_width")
    if height and width:
        return Value(height.value * width.value, f"{height.source} · {width.source}")
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
        base = Value(ADDED[self.style].base, f"style {self.style}")
        keep = {"keep": Value(self.keep, "family")} if self.keep else {}
        found = {"grid": self.grid or _patch_grid(keys), "dim": _dim(keys, self.dim)}
        return [Encoding.of("sinusoidal", {**found, "style": Value(self.style, "family"), "base": base, **keep})]


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

    parts: tuple[_Rows, ...]

    def encodings(self, keys: Keys) -> list[Encoding]:
        known = [part for part in self.parts if not part.rows or keys.resolves(*part.rows)]
        return [each for part in known or self.parts for each in part.encodings(keys)]


def _several(*parts: _Rows, note: str = "") -> Several:
    return Several(parts, note=note)


@dataclass(frozen=True)
class Choice(Kind):
    """One kind where a key has a value, another one where it has not; None stands for a rotary encoding."""

    key: str  #: A dot leads into an object
    then: Kind | None
    otherwise: Kind | None = None
    value: Any = True
    default: Any = None  #: What the key is where it is left out

    def chosen(self, keys: Keys) -> Kind | None:
        """The kind, whatever choices it takes."""
        section, _, name = self.key.rpartition(".")
        within = keys.part(section) if section else keys
        said = within.value(name) if within else None
        kind = self.then if (said.value if said else self.default) == self.value else self.otherwise
        return kind.chosen(keys) if isinstance(kind, Choice) else kind


RELATIVE_NOTE = "{} has relative positions of its own kind, which are none of rope, alibi, learned or sinusoidal"
_ROWS_AND_COLUMNS = "it adds a fixed table of {rows} patches × {dim} that is sinusoidal in two axes, half for each"
_IMAGE = "the grid is that of the image at 1/32; the one here is that of 800 x 1066 pixels"
_AT_800_X_1066 = Value(GridSize((25, 34)), "an image of 800 x 1066 pixels")
_TILES = "learned tables by tile and aspect ratio come beside that of patches, each with a gate"
_FALCON = "transformers rounds the slopes to bfloat16 and divides the bias by √head_dim, as it does the scores"
_SPEECH = "tables of text_encoder and speech_decoder are multiplied by learned scales; relative positions come beside"
_SOURCE, _TARGET = ("max_source_positions",), ("max_target_positions",)
_SPEECH_ROWS, _TEXT_ROWS = ("max_speech_positions",), ("max_text_positions",)
_XLM = Sinusoidal(dim=("emb_dim",))
_WIDTH, _D_MODEL, _LENGTH = ("hidden_size",), ("d_model",), ("max_position_embeddings",)
_BY_AXIS = Unsupported("learned tables by row and column of the image are added")
_DETR = OnGrid(note=_IMAGE, style="detr", dim=_D_MODEL, grid=_AT_800_X_1066)
_CONFORMER = Sinusoidal(relative=True, rows=_SOURCE, dim=_WIDTH)
_CLIPPED = Unsupported("relative positions are clipped, not put into buckets")
_MPT = Choice("learned_pos_emb", NOTHING, Learned(rows=("max_seq_len",)), value=False)
_NAMES: dict[Kind, str] = {
    Learned(): "bert gpt2 gpt_bigcode gpt_neo openai_gpt bert_generation clip_text_model clip_text clip "
    "xclip_text siglip_text_model siglip_text siglip2_text_model blip_text_model layoutlm layoutlmv2 visual_bert "
    "megatron_bert mobilebert blenderbot blenderbot_small git imagegpt decision_transformer ernie "
    "metaclip_2_text_model chinese_clip_text_model altclip_text_model groupvit_text_model owlvit_text_model "
    "clipseg_text_model align_text_model bridgetower_text_model splinter squeezebert aimv2_text_model "
    "realm big_bird tvp vilt",
    Learned(dim=("embedding_size",)): "albert electra convbert",
    Learned(padded=True): "roberta xlm_roberta xlm_roberta_xl camembert roberta_prelayernorm xmod longformer "
    "data2vec_text mpnet ibert lilt layoutlmv3 luke markuplm",
    Learned(more=2): "bart mbart opt biogpt plbart mvp nystromformer yoso mra",
    Choice("sinusoidal_pos_embds", Sinusoidal(), Learned()): "distilbert",
    Choice(
        "sinusoidal_embeddings", _XLM, Choice("sinusoidal_pos_embds", _XLM, Learned(dim=("emb_dim",)))
    ): "xlm flaubert",
    patches(
        1
    ): "vit clip_vision_model clip_vision dinov2 dinov2_with_registers vit_msn blip_vision_model intern_vit_6b "
    "chinese_clip_vision_model altclip_vision_model owlvit_vision_model clipseg_vision_model metaclip_2_vision_model",
    patches(2): "deit",
    patches(): "siglip_vision_model siglip_vision siglip2_vision_model idefics3_vision smolvlm_vision ijepa "
    "glm_image_vision phi4_multimodal_vision minicpmv4_6_vision",
    patches(1, note=_TILES): "mllama_vision_model",
    Choice("use_absolute_position_embeddings", patches(1), NOTHING, default=True): "internvl_vision",
    Choice("is_native", Unsupported(_ROWS_AND_COLUMNS), patches()): "aimv2_vision_model aimv2",
    OnGrid(style="vit-mae", keep=1): "vit_mae",
    Choice("position_embedding_type", _BY_AXIS, _DETR, value="learned"): "detr conditional_detr table_transformer",
    RelativeBuckets(): "t5 mt5 umt5 switch_transformers",
    Choice("position_buckets", _CLIPPED, DebertaBuckets(), value=None): "deberta_v2",
    RelativeWindow(): "swin donut_swin maskformer_swin",
    Sinusoidal(rows=()): "videomae",
    Sinusoidal(style="marian"): "marian pegasus ctrl",
    Sinusoidal(style="m2m100"): "m2m_100 xglm nllb_moe fsmt",
    Sinusoidal(style="tensor2tensor", cos_first=True): "musicgen_decoder musicgen_melody_decoder",
    _several(
        Sinusoidal(style="whisper", rows=_SOURCE, dim=_D_MODEL, name="encoder"),
        Learned(rows=_TARGET, dim=_D_MODEL, name="decoder"),
    ): "whisper",
    _several(
        Sinusoidal(style="m2m100", rows=_SOURCE, dim=_D_MODEL, name="encoder"),
        Sinusoidal(style="m2m100", rows=_TARGET, dim=_D_MODEL, name="decoder"),
    ): "speech_to_text",
    _several(
        Sinusoidal(style="fairseq", rows=_SPEECH_ROWS, name="speech_encoder"),
        Sinusoidal(rows=_TEXT_ROWS, name="text_encoder"),
        Sinusoidal(rows=_SPEECH_ROWS, name="speech_decoder"),
        Sinusoidal(style="fairseq", rows=_TEXT_ROWS, name="text_decoder"),
        note=_SPEECH,
    ): "speecht5",
    Sinusoidal(style="whisper", rows=_SOURCE, dim=_D_MODEL): "qwen2_audio_encoder qwen2_5_omni_audio_encoder "
    "qwen3_omni_moe_audio_encoder voxtral_encoder audioflamingo3_encoder moss_transcribe_diarize_audio",
    Sinusoidal(style="whisper", rows=_LENGTH, dim=_D_MODEL): "qwen3_asr_encoder",
    Sinusoidal(relative=True, rows=_LENGTH, dim=_WIDTH): "parakeet_encoder nemotron_asr_streaming_encoder",
    Sinusoidal(style="x-transformers", dim=_WIDTH): "canary_decoder",
    Choice("position_embeddings_type", _CONFORMER, value="relative", default="relative"): "wav2vec2_conformer "
    "wav2vec2_bert",
    _several(
        replace(_CONFORMER, name="speech_encoder"),
        Sinusoidal(style="m2m100", rows=_LENGTH, dim=_WIDTH, name="text"),
    ): "seamless_m4t seamless_m4t_v2",
    Biased(form="key"): "bloom",
    Choice("alibi", Biased(note=_FALCON, form="key", slope_dtype="bfloat16", scaled=True)): "falcon",
    Choice("num_hidden_layers", Biased(form="causal"), value=40): "baichuan",
    Choice("attn_config.alibi", Biased(form="key-last"), Choice("attn_config.rope", None, _MPT), default=True): "mpt",
    NOTHING: "jamba kimi_linear mamba mamba2 falcon_mamba rwkv xlstm nemotron_h phi4flash glm5_next_text zamba vits "
    "resnet convnext convnextv2 regnet bit mobilenet_v1 mobilenet_v2 efficientnet poolformer timm_backbone encodec dac",
}
_RELATIVE = "longt5 pix2struct deberta xlnet transfo_xl wav2vec2 hubert beit udop"
_CHUNKS = "its encoder has sines and cosines of relative positions within chunks, projected by a layer"
_OWN_KINDS = {
    "fastspeech2_conformer": "its encoder and decoder have `pecli sinusoidal --relative` of hidden_size channels",
    "gemma3n_audio": _CHUNKS,
    "gemma4_audio": _CHUNKS,
    **dict.fromkeys(("inkling_text", "inkling_mm_model"), "each token mixes a bias by distance from learned profiles"),
    "swinv2": "its windows have a bias by a small network of log-spaced coordinates, not a table",
    "wavlm": "its first layer has T5's buckets of relative positions, gated by the queries; a convolution comes before",
}
"""What families have that no scheme describes."""
FAMILIES: dict[str, Kind] = {
    **{name: kind for kind, names in _NAMES.items() for name in names.split()},
    **{name: Unsupported(RELATIVE_NOTE.format(name)) for name in _RELATIVE.split()},
    **{name: Unsupported(note) for name, note in _OWN_KINDS.items()},
}
_BESIDE: dict[Kind, str] = {
    Learned(rows=("num_position_embeddings",), name="patches"): "qwen3_vl_vision qwen3_vl_moe_vision qwen3_5_vision "
    "qwen3_5_moe_vision qwen3_omni_moe_vision qwen3_omni_moe_vision_encoder qwen4_exp_vision cohere_compass_vision",
    patches(name="patches"): "glm4v_vision glm4v_moe_vision paddleocr_vl_vision moonvit",
    patches(1, name="patches"): "llama4_vision_model",
    Unsupported("a learned table by row and column of the image comes beside rope"): "kimi_k25_vision gemma4_vision",
}
BESIDE = {name: kind for kind, names in _BESIDE.items() for name in names.split()}


def beside(model_type: str | None, *, vision: bool) -> Kind | None:
    """What a family has beside its rotary encoding; None where nothing is known."""
    names = [plain_name(model_type) + ending for ending in ("", "_vision", "_vision_model")[: None if vision else 1]]
    return next((BESIDE[name] for name in names if name in BESIDE), None)


def tables_of(model_type: str | None) -> Kind | None:
    """The tables of a model_type; None where its class has none, or is not known.

    A row is a tensor with the rule for its rows and its width, [name, key, more, key]: as many rows as a key says and
    some more, or as an image has patches where that key is empty. Or it is a tensor that no scheme describes, [name,
    shape at class defaults].
    """
    rows = stored("class_tables.json").get(plain_name(model_type), [])
    ruled, others = [row for row in rows if len(row) == 4], [row for row in rows if len(row) == 2]
    named = ", ".join(f"{tensor} ({shape})" for tensor, shape in others)
    note = f"it has tables of positions that are none of pecli's schemes, at class defaults: {named}" if named else ""
    if not ruled:
        return Unsupported(note) if note else None
    parts = (
        Learned(rows=(key,) if key else (), more=more, dim=(dim,), name=tensor if len(ruled) > 1 else "", offset=0)
        for tensor, key, more, dim in ruled
    )
    return _several(*parts, note=note)
