"""Encodings that turn nothing: ALiBi, learned tables, sinusoidal tables. By family, then by telling keys."""

from __future__ import annotations

from dataclasses import dataclass

from pecli.engine.schemes.sinusoidal import STYLES
from pecli.errors import FileError
from pecli.models.encoding import Encoding
from pecli.models.families import plain_name
from pecli.models.heads import HEADS, width_of
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


@dataclass(frozen=True)
class Learned:
    """A table of weights with a row a position."""

    rows: tuple[str, ...] = ROWS
    dim: tuple[str, ...] = ()
    more: int = 0
    """Rows beyond those of the positions, which come after them."""
    padded: bool = False
    """Whether the first position has the row after that of the padding token."""
    name: str = ""

    def encodings(self, keys: Keys) -> list[Encoding]:
        rows = _needed(keys, keys.whole(*self.rows), f"number of positions ({self.rows[0]})")
        dim = _needed(keys, keys.whole(*self.dim) or width_of(keys), "width (hidden_size)")
        if self.more:
            rows = Value(rows.value + self.more, f"{rows.source} + {self.more}")
        found = {"max_len": rows, "dim": dim}
        std = keys.number("initializer_range", "init_std")
        if std is not None:
            found["std"] = std
        first = _padding(keys, low=-1)[1] if self.padded else Value(self.more, "family")
        return [Encoding.of("learned", found, {"offset": first} if first.value else {}, layer_type=self.name)]


@dataclass(frozen=True)
class Patches:
    """A table of weights with a row a patch of an image, after rows for class and other tokens."""

    more: int = 1

    def encodings(self, keys: Keys) -> list[Encoding]:
        dim = _needed(keys, width_of(keys), "width (hidden_size)")
        patches = self._patches(keys)
        text = patches.source + (f" + {self.more}" if self.more else "")
        found = {"max_len": Value(patches.value + self.more, text), "dim": dim}
        std = keys.number("initializer_range")
        if std is not None:
            found["std"] = std
        return [Encoding.of("learned", found)]

    def _patches(self, keys: Keys) -> Value:
        """How many patches; counted outright where images have sizes of their own."""
        counted = keys.whole("num_patches")
        if counted is not None and "image_size" not in keys:
            return counted
        (height, width), image = self._pair(keys, "image_size")
        (tall, wide), patch = self._pair(keys, "patch_size")
        return Value((height // tall) * (width // wide), f"({image} // {patch})²")

    @staticmethod
    def _pair(keys: Keys, name: str) -> tuple[tuple[int, int], str]:
        given = keys.data.get(name)
        if isinstance(given, (list, tuple)):
            sizes = keys.numbers(name)
            if sizes and len(sizes.value) == 2 and all(isinstance(v, int) and v > 0 for v in sizes.value):
                return (sizes.value[0], sizes.value[1]), sizes.source
            raise keys.wrong(name, "it must be a whole number, or two")
        size = _needed(keys, keys.whole(name), name)
        return (size.value, size.value), size.source


@dataclass(frozen=True)
class Sinusoidal:
    """A table of sines and cosines, in another project's style."""

    style: str
    rows: tuple[str, ...] = ROWS
    dim: tuple[str, ...] = ()
    name: str = ""

    def encodings(self, keys: Keys) -> list[Encoding]:
        found = {
            "seq_len": _needed(keys, keys.whole(*self.rows), f"number of positions ({self.rows[0]})"),
            "dim": _needed(keys, keys.whole(*self.dim) or width_of(keys), "width (d_model)"),
            "style": Value(self.style, "family"),
            "base": Value(10000.0, "default"),
        }
        said = {"layout": "interleaved", "freq_shift": 0.0, **STYLES[self.style]}
        found |= {name: Value(said[name], f"style {self.style}") for name in ("layout", "freq_shift")}
        if self.style in ("fairseq", "m2m100", "fsmt"):
            padding, first = _padding(keys)
            found |= {"padding_idx": padding, "offset": first}
        return [Encoding.of("sinusoidal", found, layer_type=self.name)]


@dataclass(frozen=True)
class Biased:
    """ALiBi, added to the scores."""

    form: str = "symmetric"

    def encodings(self, keys: Keys) -> list[Encoding]:
        within = keys.section("attn_config")
        most = (within and within.number("alibi_bias_max")) or keys.number("alibi_bias_max") or Value(8.0, "default")
        found = {
            "heads": _needed(keys, keys.whole(*HEADS), "number of attention heads"),
            "rule": Value("paper", "default"),
            "max_bias": most,
            "form": Value(self.form, "family"),
        }
        return [Encoding.of("alibi", found)]


@dataclass(frozen=True)
class Both:
    """Encodings of several parts, such as an encoder and a decoder; of those whose number of positions is given."""

    parts: tuple[Learned | Sinusoidal, ...]

    def encodings(self, keys: Keys) -> list[Encoding]:
        given = [part for part in self.parts if keys.any(*part.rows)]
        return [each for part in given or self.parts for each in part.encodings(keys)]


class Nothing:
    """No encoding at all: the order comes from recurrence, convolution or the mask."""

    def encodings(self, keys: Keys) -> list[Encoding]:
        return []


Kind = Learned | Patches | Sinusoidal | Biased | Both | Nothing

_SOURCE, _TARGET = ("max_source_positions",), ("max_target_positions",)
_EMBEDDING = Learned(dim=("embedding_size",))
_ROBERTA = Learned(padded=True)
_BART = Learned(more=2)
_NAMES: dict[Kind, str] = {
    Learned(): "bert gpt2 gpt_bigcode gpt_neo openai_gpt distilbert bert_generation clip_text_model clip_text clip "
    "xclip_text siglip_text_model siglip_text siglip2_text_model blip_text_model layoutlm layoutlmv2 visual_bert "
    "megatron_bert mobilebert blenderbot blenderbot_small git imagegpt decision_transformer ernie "
    "metaclip_2_text_model chinese_clip_text_model altclip_text_model groupvit_text_model owlvit_text_model "
    "clipseg_text_model align_text_model bridgetower_text_model splinter squeezebert "
    "realm nystromformer yoso big_bird tvp vilt",
    _EMBEDDING: "albert electra convbert",
    _ROBERTA: "roberta xlm_roberta xlm_roberta_xl camembert roberta_prelayernorm xmod longformer data2vec_text mpnet "
    "ibert lilt layoutlmv3 luke markuplm",
    _BART: "bart mbart opt biogpt plbart mvp",
    Patches(1): "vit clip_vision_model clip_vision dinov2 vit_msn blip_vision_model chinese_clip_vision_model "
    "altclip_vision_model owlvit_vision_model clipseg_vision_model metaclip_2_vision_model",
    Patches(2): "deit",
    Patches(0): "siglip_vision_model siglip_vision siglip2_vision_model idefics3_vision smolvlm_vision ijepa",
    Sinusoidal("marian"): "marian pegasus ctrl",
    Sinusoidal("m2m100"): "m2m_100 xglm nllb_moe fsmt",
    Both(
        (
            Sinusoidal("whisper", rows=_SOURCE, dim=("d_model",), name="encoder"),
            Learned(rows=_TARGET, dim=("d_model",), name="decoder"),
        )
    ): "whisper",
    Both(
        (
            Sinusoidal("m2m100", rows=_SOURCE, dim=("d_model",), name="encoder"),
            Sinusoidal("m2m100", rows=_TARGET, dim=("d_model",), name="decoder"),
        )
    ): "speech_to_text",
    Sinusoidal("whisper", rows=_SOURCE, dim=("d_model",)): "qwen2_audio_encoder qwen2_5_omni_audio_encoder "
    "qwen3_omni_moe_audio_encoder voxtral_encoder",
    Biased("key"): "bloom",
    Biased("key-last"): "mpt",
}

FAMILIES: dict[str, Kind] = {name: kind for kind, names in _NAMES.items() for name in names.split()}
NOTHING = Nothing()
_STILL = """
    jamba kimi_linear mamba mamba2 falcon_mamba rwkv xlstm nemotron_h zamba vits resnet convnext convnextv2 regnet bit
    mobilenet_v1 mobilenet_v2 efficientnet poolformer timm_backbone encodec dac
"""
STILL = frozenset(_STILL.split())
_RELATIVE = """
    t5 mt5 umt5 longt5 switch_transformers pix2struct deberta deberta_v2 xlnet transfo_xl wav2vec2 hubert wavlm swin
    swinv2 beit parakeet_encoder fastspeech2_conformer seamless_m4t gemma4_audio udop
"""
RELATIVE = frozenset(_RELATIVE.split())


def kind_of(keys: Keys, model_type: str | None) -> Kind | None:
    """The kind of encoding that a family, or keys that say so outright, ask for; None where neither does."""
    name = plain_name(model_type)
    said = keys.word("position_embedding_type", "position_embeddings_type")
    word = said.value.lower() if said else ""
    within = keys.part("attn_config")
    flag = keys.flag("alibi") or keys.flag("use_alibi") or (within.flag("alibi") if within else None)
    if name == "mpt":
        return _mpt(keys, within)
    if (flag is not None and flag.value) or word == "alibi":
        return Biased("key" if name == "falcon" else "symmetric")
    nope = keys.flag("mla_use_nope")
    if word in ("nope", "none", "relative") or (nope is not None and nope.value):
        return NOTHING
    if name in FAMILIES:
        return FAMILIES[name]
    if name in STILL or name in RELATIVE:
        return NOTHING
    if word in ("absolute", "learned", "learned_absolute") and keys.any(*ROWS):
        return Learned()
    return None


def says_relative(keys: Keys) -> bool:
    """Whether it asks for relative positions outright, whatever bases stand beside."""
    said = keys.word("position_embedding_type", "position_embeddings_type")
    return said is not None and said.value.lower().startswith("relative")


def _mpt(keys: Keys, within: Keys | None) -> Kind | None:
    alibi = within.flag("alibi") if within else None
    if alibi is None or not alibi.value:
        if within is not None and within.flag("rope") and within.data["rope"]:
            return None
        learned = keys.flag("learned_pos_emb")
        return NOTHING if learned is not None and not learned.value else Learned(rows=("max_seq_len",))
    return Biased("key-last")


def reason(keys: Keys, model_type: str | None) -> str:
    """Why nothing was found, as far as the family and the keys tell."""
    name = plain_name(model_type)
    if name in RELATIVE or says_relative(keys):
        name = name or "it"
        return f"{name} has relative positions of its own kind, which are none of rope, alibi, learned or sinusoidal"
    return "no positional encoding was found: no key names one"


def is_known(model_type: str | None) -> bool:
    """Whether the family is one of those above."""
    name = plain_name(model_type)
    return name in FAMILIES or name in STILL or name in RELATIVE
