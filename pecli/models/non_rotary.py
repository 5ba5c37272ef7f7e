"""Encodings other than rotary ones, by family: ALiBi, learned tables, sinusoidal tables.

A family is a row of `_NAMES`, or of `_BESIDE` where its table comes beside a rotary encoding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pecli.engine.schemes.grid_styles import ADDED
from pecli.engine.schemes.positions import GridSize
from pecli.engine.schemes.sinusoidal import STYLES
from pecli.models.encoding import Encoding
from pecli.models.families import plain_name
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
RELATIVE_NOTE = "{} has relative positions of its own kind, which are none of rope, alibi, learned or sinusoidal"
_ROWS_AND_COLUMNS = (
    "it adds a fixed table of {rows} patches × {dim} that is sinusoidal in two axes, half of the channels for each"
)
_IMAGE = "the grid is that of the image at 1/32; the one here is that of 800 x 1066 pixels"
_TILES = "learned tables by tile and aspect ratio come beside that of patches, each with a gate"
_FALCON = (
    "transformers rounds the slopes to bfloat16 and divides the bias by √head_dim, as it does the scores: "
    "the slopes that count are smaller than the paper's by that factor"
)
_SPEECH = "tables of text_encoder and speech_decoder are multiplied by learned scales; relative positions come beside"
_SOURCE, _TARGET = ("max_source_positions",), ("max_target_positions",)
_SPEECH_ROWS, _TEXT_ROWS = ("max_speech_positions",), ("max_text_positions",)
_XLM = Sinusoidal(dim=("emb_dim",))
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
    Choice(key="sinusoidal_pos_embds", then=Sinusoidal(), otherwise=Learned()): "distilbert",
    Choice(
        key="sinusoidal_embeddings",
        then=_XLM,
        otherwise=Choice(key="sinusoidal_pos_embds", then=_XLM, otherwise=Learned(dim=("emb_dim",))),
    ): "xlm flaubert",
    patches(1): "vit clip_vision_model clip_vision dinov2 dinov2_with_registers vit_msn blip_vision_model "
    "chinese_clip_vision_model altclip_vision_model owlvit_vision_model clipseg_vision_model metaclip_2_vision_model",
    patches(2): "deit",
    patches(): "siglip_vision_model siglip_vision siglip2_vision_model idefics3_vision smolvlm_vision ijepa "
    "glm_image_vision phi4_multimodal_vision",
    patches(1, note=_TILES): "mllama_vision_model",
    Choice(key="use_absolute_position_embeddings", then=patches(1), otherwise=NOTHING, default=True): "internvl_vision",
    Choice(key="is_native", then=Unsupported(_ROWS_AND_COLUMNS), otherwise=patches()): "aimv2_vision_model aimv2",
    OnGrid(style="vit-mae", keep=1): "vit_mae",
    Choice(
        key="position_embedding_type",
        value="learned",
        then=Unsupported("learned tables by row and column of the image are added"),
        otherwise=OnGrid(_IMAGE, style="detr", dim=("d_model",), pixels=(800, 1066, 32)),
    ): "detr conditional_detr table_transformer",
    RelativeBuckets(): "t5 mt5 umt5 switch_transformers",
    Choice(
        key="position_buckets",
        value=None,
        then=Unsupported("relative positions are clipped, not put into buckets"),
        otherwise=RelativeBuckets(style="deberta"),
    ): "deberta_v2",
    RelativeWindow(): "swin donut_swin maskformer_swin",
    Sinusoidal(rows=()): "videomae",
    Sinusoidal(style="marian"): "marian pegasus ctrl",
    Sinusoidal(style="m2m100"): "m2m_100 xglm nllb_moe fsmt",
    Sinusoidal(style="tensor2tensor", cos_first=True): "musicgen_decoder musicgen_melody_decoder",
    Several(
        parts=(
            Sinusoidal(style="whisper", rows=_SOURCE, dim=("d_model",), name="encoder"),
            Learned(rows=_TARGET, dim=("d_model",), name="decoder"),
        )
    ): "whisper",
    Several(
        parts=(
            Sinusoidal(style="m2m100", rows=_SOURCE, dim=("d_model",), name="encoder"),
            Sinusoidal(style="m2m100", rows=_TARGET, dim=("d_model",), name="decoder"),
        )
    ): "speech_to_text",
    Several(
        note=_SPEECH,
        parts=(
            Sinusoidal(style="fairseq", rows=_SPEECH_ROWS, name="speech_encoder"),
            Sinusoidal(rows=_TEXT_ROWS, name="text_encoder"),
            Sinusoidal(rows=_SPEECH_ROWS, name="speech_decoder"),
            Sinusoidal(style="fairseq", rows=_TEXT_ROWS, name="text_decoder"),
        ),
    ): "speecht5",
    Sinusoidal(style="whisper", rows=_SOURCE, dim=("d_model",)): "qwen2_audio_encoder qwen2_5_omni_audio_encoder "
    "qwen3_omni_moe_audio_encoder voxtral_encoder audioflamingo3_encoder moss_transcribe_diarize_audio",
    Sinusoidal(style="whisper", rows=("max_position_embeddings",), dim=("d_model",)): "qwen3_asr_encoder",
    Sinusoidal(relative=True, rows=("max_position_embeddings",), dim=("hidden_size",)): "parakeet_encoder "
    "nemotron_asr_streaming_encoder",
    Sinusoidal(style="x-transformers", dim=("hidden_size",)): "canary_decoder",
    Choice(
        key="position_embeddings_type",
        value="relative",
        then=Sinusoidal(relative=True, rows=_SOURCE, dim=("hidden_size",)),
        otherwise=None,
        default="relative",
    ): "wav2vec2_conformer wav2vec2_bert",
    Several(
        parts=(
            Sinusoidal(relative=True, rows=_SOURCE, dim=("hidden_size",), name="speech_encoder"),
            Sinusoidal(style="m2m100", rows=("max_position_embeddings",), dim=("hidden_size",), name="text"),
        )
    ): "seamless_m4t seamless_m4t_v2",
    Biased(form="key"): "bloom",
    Choice(
        key="alibi", then=Biased(_FALCON, form="key", slope_dtype="bfloat16", scaled=True), otherwise=None
    ): "falcon",
    Choice(key="num_hidden_layers", value=40, then=Biased(form="causal"), otherwise=None): "baichuan",
    Choice(
        key="attn_config.alibi",
        then=Biased(form="key-last"),
        otherwise=Choice(
            key="attn_config.rope",
            then=None,
            otherwise=Choice(
                key="learned_pos_emb", value=False, then=NOTHING, otherwise=Learned(rows=("max_seq_len",))
            ),
        ),
        default=True,
    ): "mpt",
    NOTHING: "jamba kimi_linear mamba mamba2 falcon_mamba rwkv xlstm nemotron_h zamba vits resnet convnext convnextv2 "
    "regnet bit mobilenet_v1 mobilenet_v2 efficientnet poolformer timm_backbone encodec dac",
}
_RELATIVE = """
    longt5 pix2struct deberta xlnet transfo_xl wav2vec2 hubert wavlm swinv2 beit fastspeech2_conformer gemma4_audio udop
"""
_OWN_KINDS = {
    "fastspeech2_conformer": "its encoder and decoder have `pecli sinusoidal --relative` of hidden_size channels",
    "gemma3n_audio": "its encoder has sines and cosines of relative positions within chunks, projected by a layer",
    "gemma4_audio": "its encoder has sines and cosines of relative positions within chunks, projected by a layer",
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
    patches(name="patches"): "glm4v_vision glm4v_moe_vision paddleocr_vl_vision",
    patches(1, name="patches"): "llama4_vision_model",
    Unsupported("a learned table by row and column of the image comes beside rope"): "kimi_k25_vision gemma4_vision",
}
BESIDE: dict[str, Kind] = {name: kind for kind, names in _BESIDE.items() for name in names.split()}
"""What comes beside a rotary encoding."""


def beside(model_type: str | None, *, vision: bool) -> Kind | None:
    """What a family has beside its rotary encoding; None where nothing is known."""
    name = plain_name(model_type)
    names = (name, f"{name}_vision", f"{name}_vision_model") if vision else (name,)
    return next((BESIDE[each] for each in names if each in BESIDE), None)
