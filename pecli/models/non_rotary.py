"""Encodings other than rotary ones: ALiBi, learned tables, sinusoidal tables. By family, then by telling keys.

A family is a row of `_NAMES`, or of `_BESIDE` where its table comes beside a rotary encoding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pecli.engine.schemes.sinusoidal import STYLES
from pecli.errors import FileError
from pecli.models.encoding import Encoding
from pecli.models.families import plain_name
from pecli.models.layer_types import HEADS, head_size, width_of
from pecli.models.values import Keys, Value

ROWS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_source_positions", "n_ctx")


def _needed(keys: Keys, found: Value | None, what: str) -> Value:
    if found is None:
        raise FileError(keys.path, f"{keys.prefix.rstrip('.') or 'it'} has no {what}", "it is needed")
    return found


def _padding(keys: Keys, low: int = 0) -> tuple[Value, Value]:
    """The padding token, and the row after its own, where the first position stands in fairseq's models."""
    padding = keys.whole("pad_token_id", low=low) or Value(1, "default")
    return padding, Value(padding.value + 1, f"{padding.source} + 1")


def _patches(keys: Keys) -> Value:
    """How many patches an image has, or a video; counted outright where images have sizes of their own."""
    counted = keys.whole("num_patches")
    if counted is not None and "image_size" not in keys:
        return counted
    (height, width), image = _pair(keys, "image_size")
    (tall, wide), patch = _pair(keys, "patch_size")
    found = Value((height // tall) * (width // wide), f"({image} // {patch})²")
    frames, tube = keys.whole("num_frames"), keys.whole("tubelet_size")
    if frames is None or tube is None:
        return found
    return Value(frames.value // tube.value * found.value, f"{frames.source} // {tube.source} · {found.source}")


def _pair(keys: Keys, name: str) -> tuple[tuple[int, int], str]:
    given = keys.value(name)
    if given is not None and isinstance(given.value, (list, tuple)):
        sizes = keys.numbers(name)
        if sizes and len(sizes.value) == 2 and all(isinstance(v, int) and v > 0 for v in sizes.value):
            return (sizes.value[0], sizes.value[1]), sizes.source
        raise keys.wrong(name, "it must be a whole number, or two")
    size = _needed(keys, keys.whole(name), name)
    return (size.value, size.value), size.source


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
        return [self.note.format(rows=_patches(keys).value, dim=_needed(keys, width_of(keys), "width").value)]


@dataclass(frozen=True)
class Learned(Kind):
    """A table of weights with one row per position."""

    rows: tuple[str, ...] = ROWS
    """Keys that hold the number of positions; empty for patches of images."""
    dim: tuple[str, ...] = ()
    more: int = 0
    """Rows beyond those of the positions."""
    padded: bool = False
    """Whether the first position has the row after that of the padding token."""
    name: str = ""

    def encodings(self, keys: Keys) -> list[Encoding]:
        dim = _needed(keys, keys.whole(*self.dim) or width_of(keys), "width (hidden_size)")
        rows = self._positions(keys)
        if self.more:
            rows = Value(rows.value + self.more, f"{rows.source} + {self.more}")
        found = {"max_len": rows, "dim": dim}
        std = keys.number("initializer_range", "init_std")
        if std is not None:
            found["std"] = std
        first = _padding(keys, low=-1)[1] if self.padded else Value(self.more if self.rows else 0, "family")
        return [Encoding.of("learned", found, {"offset": first} if first.value else {}, layer_type=self.name)]

    def _positions(self, keys: Keys) -> Value:
        if not self.rows:
            return _patches(keys)
        return _needed(keys, keys.whole(*self.rows), f"number of positions ({self.rows[0]})")


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

    def encodings(self, keys: Keys) -> list[Encoding]:
        said = {"layout": "interleaved", "freq_shift": 0.0, **STYLES[self.style]}
        found = {
            "seq_len": Learned(rows=self.rows)._positions(keys),
            "dim": _needed(keys, keys.whole(*self.dim) or width_of(keys), "width (d_model)"),
            "style": Value(self.style, "family"),
            "base": Value(10000.0, "default"),
            **{name: Value(said[name], f"style {self.style}") for name in ("layout", "freq_shift")},
        }
        if self.cos_first:
            found["cos_first"] = Value(True, "family")
        if self.style in ("fairseq", "m2m100", "fsmt"):
            padding, first = _padding(keys)
            found |= {"padding_idx": padding, "offset": first}
        return [Encoding.of("sinusoidal", found, layer_type=self.name)]


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
        heads = _needed(keys, keys.whole(*HEADS), "number of attention heads")
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
        known = [part for part in self.parts if keys.resolves(*part.rows)]
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
_RELATIVE_NOTE = "{} has relative positions of its own kind, which are none of rope, alibi, learned or sinusoidal"
_ROWS_AND_COLUMNS = (
    "it adds a fixed table of {rows} patches × {dim} that is sinusoidal in two axes, half of the channels for each"
)
_TILES = "learned tables by tile and aspect ratio come beside that of patches, each with a gate"
_FALCON = (
    "transformers rounds the slopes to bfloat16 and divides the bias by √head_dim, as it does the scores: "
    "the slopes that count are smaller than the paper's by that factor"
)
_SPEECH = "tables of text_encoder and speech_decoder are multiplied by learned scales; relative positions come beside"
_SOURCE, _TARGET = ("max_source_positions",), ("max_target_positions",)
_SPEECH_ROWS, _TEXT_ROWS = ("max_speech_positions",), ("max_text_positions",)
_NAMES: dict[Kind, str] = {
    Learned(): "bert gpt2 gpt_bigcode gpt_neo openai_gpt bert_generation clip_text_model clip_text clip "
    "xclip_text siglip_text_model siglip_text siglip2_text_model blip_text_model layoutlm layoutlmv2 visual_bert "
    "megatron_bert mobilebert blenderbot blenderbot_small git imagegpt decision_transformer ernie "
    "metaclip_2_text_model chinese_clip_text_model altclip_text_model groupvit_text_model owlvit_text_model "
    "clipseg_text_model align_text_model bridgetower_text_model splinter squeezebert aimv2_text_model "
    "realm nystromformer yoso big_bird tvp vilt",
    Learned(dim=("embedding_size",)): "albert electra convbert",
    Learned(padded=True): "roberta xlm_roberta xlm_roberta_xl camembert roberta_prelayernorm xmod longformer "
    "data2vec_text mpnet ibert lilt layoutlmv3 luke markuplm",
    Learned(more=2): "bart mbart opt biogpt plbart mvp",
    Choice(key="sinusoidal_pos_embds", then=Sinusoidal(), otherwise=Learned()): "distilbert",
    Choice(
        key="sinusoidal_embeddings",
        then=Sinusoidal(dim=("emb_dim",)),
        otherwise=Choice(
            key="sinusoidal_pos_embds", then=Sinusoidal(dim=("emb_dim",)), otherwise=Learned(dim=("emb_dim",))
        ),
    ): "xlm flaubert",
    patches(1): "vit clip_vision_model clip_vision dinov2 dinov2_with_registers vit_msn blip_vision_model "
    "chinese_clip_vision_model altclip_vision_model owlvit_vision_model clipseg_vision_model metaclip_2_vision_model",
    patches(2): "deit",
    patches(): "siglip_vision_model siglip_vision siglip2_vision_model idefics3_vision smolvlm_vision ijepa "
    "glm_image_vision phi4_multimodal_vision",
    patches(1, note=_TILES): "mllama_vision_model",
    Choice(key="use_absolute_position_embeddings", then=patches(1), otherwise=NOTHING, default=True): "internvl_vision",
    Choice(key="is_native", then=Unsupported(_ROWS_AND_COLUMNS), otherwise=patches()): "aimv2_vision_model aimv2",
    Unsupported(f"{_ROWS_AND_COLUMNS}, after a row of zeros for the class token"): "vit_mae",
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
    "qwen3_omni_moe_audio_encoder voxtral_encoder",
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
    t5 mt5 umt5 longt5 switch_transformers pix2struct deberta deberta_v2 xlnet transfo_xl wav2vec2 hubert wavlm swin
    swinv2 beit parakeet_encoder fastspeech2_conformer seamless_m4t gemma4_audio udop
"""
FAMILIES: dict[str, Kind] = {
    **{name: kind for kind, names in _NAMES.items() for name in names.split()},
    **{name: Unsupported(_RELATIVE_NOTE.format(name)) for name in _RELATIVE.split()},
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


def beside(model_type: str | None, *, vision: bool) -> Kind:
    """What a family has beside its rotary encoding."""
    name = plain_name(model_type)
    names = (name, f"{name}_vision", f"{name}_vision_model") if vision else (name,)
    return next((BESIDE[each] for each in names if each in BESIDE), NOTHING)


def kind_of(keys: Keys, model_type: str | None) -> Kind | None:
    """The kind of encoding that a family, or keys that say so outright, ask for; None where neither does."""
    kind = FAMILIES.get(plain_name(model_type))
    if isinstance(kind, Choice):
        kind = kind.chosen(keys)
    word, nope = _said(keys), keys.flag("mla_use_nope")
    if word == "alibi" or _has_alibi(keys):
        return kind if isinstance(kind, Biased) else Biased()
    if isinstance(kind, Biased):
        return kind
    if word in ("nope", "none") or (nope is not None and nope.value):
        return NOTHING
    if kind is None and word in ("absolute", "learned", "learned_absolute") and keys.any(*ROWS):
        return Learned()
    if word == "relative" or (kind is None and says_relative(keys)):
        return Unsupported(_RELATIVE_NOTE.format(plain_name(model_type) or "it"))
    return kind


def _said(keys: Keys) -> str:
    said = keys.word("position_embedding_type", "position_embeddings_type")
    return said.value.lower() if said else ""


def _has_alibi(keys: Keys) -> bool:
    """Whether keys ask for ALiBi, whatever the family: flags, or the length that MosaicBERT makes its bias for."""
    within = keys.part("attn_config")
    flag = keys.flag("alibi", "use_alibi") or (within.flag("alibi") if within else None)
    return bool(flag and flag.value) or "alibi_starting_size" in keys


def says_relative(keys: Keys) -> bool:
    """Whether it asks for relative positions outright, whatever bases stand beside."""
    return _said(keys).startswith("relative")


def is_known(model_type: str | None) -> bool:
    """Whether the family is one of those above."""
    return plain_name(model_type) in FAMILIES
