"""Encodings other than rotary ones, by family: ALiBi, learned tables, sinusoidal tables.

A family is a row of `_NAMES`, or of `_BESIDE` where its table comes beside a rotary encoding. Other classes of
transformers have the tables of class_tables.json beside this file.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from pecli.engine.schemes.positions import GridSize
from pecli.models import table_kinds
from pecli.models.keys import Value, plain_name, stored
from pecli.models.table_kinds import (
    NOTHING,
    Biased,
    Kind,
    Learned,
    OnGrid,
    Sinusoidal,
    Unsupported,
    patches,
    several,
    when,
)

RELATIVE_NOTE = "{} has relative positions of its own kind, which are none of rope, alibi, learned or sinusoidal"
_ROWS_AND_COLUMNS = (
    "it adds a fixed table of {rows} patches × {dim} that is sinusoidal in two axes, half of the channels for each"
)
_IMAGE = "the grid is that of the image at 1/32; the one here is that of 800 x 1066 pixels"
_AT_800_X_1066 = Value(GridSize((25, 34)), "an image of 800 x 1066 pixels")
_TILES = "learned tables by tile and aspect ratio come beside that of patches, each with a gate"
_FALCON = (
    "transformers rounds the slopes to bfloat16 and divides the bias by √head_dim, as it does the scores: "
    "the slopes that count are smaller than the paper's by that factor"
)
_SPEECH = "tables of text_encoder and speech_decoder are multiplied by learned scales; relative positions come beside"
_SOURCE, _TARGET = ("max_source_positions",), ("max_target_positions",)
_SPEECH_ROWS, _TEXT_ROWS = ("max_speech_positions",), ("max_text_positions",)
_XLM = Sinusoidal(dim=("emb_dim",))
_WIDTH, _D_MODEL, _LENGTH = ("hidden_size",), ("d_model",), ("max_position_embeddings",)
_BY_AXIS = Unsupported("learned tables by row and column of the image are added")
_DETR = OnGrid(_IMAGE, style="detr", dim=_D_MODEL, grid=_AT_800_X_1066)
_CONFORMER = Sinusoidal(relative=True, rows=_SOURCE, dim=_WIDTH)
_CLIPPED = Unsupported("relative positions are clipped, not put into buckets")
_MPT = when("learned_pos_emb", NOTHING, Learned(rows=("max_seq_len",)), value=False)
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
    when("sinusoidal_pos_embds", Sinusoidal(), Learned()): "distilbert",
    when("sinusoidal_embeddings", _XLM, when("sinusoidal_pos_embds", _XLM, Learned(dim=("emb_dim",)))): "xlm flaubert",
    patches(1): "vit clip_vision_model clip_vision dinov2 dinov2_with_registers vit_msn blip_vision_model "
    "chinese_clip_vision_model altclip_vision_model owlvit_vision_model clipseg_vision_model metaclip_2_vision_model",
    patches(2): "deit",
    patches(): "siglip_vision_model siglip_vision siglip2_vision_model idefics3_vision smolvlm_vision ijepa "
    "glm_image_vision phi4_multimodal_vision",
    patches(1, note=_TILES): "mllama_vision_model",
    when("use_absolute_position_embeddings", patches(1), NOTHING, default=True): "internvl_vision",
    when("is_native", Unsupported(_ROWS_AND_COLUMNS), patches()): "aimv2_vision_model aimv2",
    OnGrid(style="vit-mae", keep=1): "vit_mae",
    when("position_embedding_type", _BY_AXIS, _DETR, value="learned"): "detr conditional_detr table_transformer",
    table_kinds.RelativeBuckets(): "t5 mt5 umt5 switch_transformers",
    when("position_buckets", _CLIPPED, table_kinds.DebertaBuckets(), value=None): "deberta_v2",
    table_kinds.RelativeWindow(): "swin donut_swin maskformer_swin",
    Sinusoidal(rows=()): "videomae",
    Sinusoidal(style="marian"): "marian pegasus ctrl",
    Sinusoidal(style="m2m100"): "m2m_100 xglm nllb_moe fsmt",
    Sinusoidal(style="tensor2tensor", cos_first=True): "musicgen_decoder musicgen_melody_decoder",
    several(
        Sinusoidal(style="whisper", rows=_SOURCE, dim=_D_MODEL, name="encoder"),
        Learned(rows=_TARGET, dim=_D_MODEL, name="decoder"),
    ): "whisper",
    several(
        Sinusoidal(style="m2m100", rows=_SOURCE, dim=_D_MODEL, name="encoder"),
        Sinusoidal(style="m2m100", rows=_TARGET, dim=_D_MODEL, name="decoder"),
    ): "speech_to_text",
    several(
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
    when("position_embeddings_type", _CONFORMER, value="relative", default="relative"): "wav2vec2_conformer "
    "wav2vec2_bert",
    several(
        replace(_CONFORMER, name="speech_encoder"),
        Sinusoidal(style="m2m100", rows=_LENGTH, dim=_WIDTH, name="text"),
    ): "seamless_m4t seamless_m4t_v2",
    Biased(form="key"): "bloom",
    when("alibi", Biased(_FALCON, form="key", slope_dtype="bfloat16", scaled=True)): "falcon",
    when("num_hidden_layers", Biased(form="causal"), value=40): "baichuan",
    when("attn_config.alibi", Biased(form="key-last"), when("attn_config.rope", None, _MPT), default=True): "mpt",
    NOTHING: "jamba kimi_linear mamba mamba2 falcon_mamba rwkv xlstm nemotron_h zamba vits resnet convnext convnextv2 "
    "regnet bit mobilenet_v1 mobilenet_v2 efficientnet poolformer timm_backbone encodec dac",
}
_RELATIVE = "longt5 pix2struct deberta xlnet transfo_xl wav2vec2 hubert beit udop"
_CHUNKS = "its encoder has sines and cosines of relative positions within chunks, projected by a layer"
_OWN_KINDS = {
    "fastspeech2_conformer": "its encoder and decoder have `pecli sinusoidal --relative` of hidden_size channels",
    "gemma3n_audio": _CHUNKS,
    "gemma4_audio": _CHUNKS,
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


@cache
def class_tables() -> dict[str, list[list[Any]]]:
    """Tables by model_type. A row is a tensor with the rule for its rows and its width, [name, key, more, key]: as many
    rows as a key says and some more, or as an image has patches where that key is empty. Or it is a tensor that no
    scheme describes, [name, shape at class defaults]."""
    return dict(stored("class_tables.json"))


def tables_of(model_type: str | None) -> Kind | None:
    """The tables of a model_type; None where its class has none, or is not known."""
    rows = class_tables().get(plain_name(model_type), [])
    ruled, others = [row for row in rows if len(row) == 4], [row for row in rows if len(row) == 2]
    named = ", ".join(f"{tensor} ({shape})" for tensor, shape in others)
    note = f"it has tables of positions that are none of pecli's schemes, at class defaults: {named}" if named else ""
    if not ruled:
        return Unsupported(note) if note else None
    parts = (
        Learned(rows=(key,) if key else (), more=more, dim=(dim,), name=tensor if len(ruled) > 1 else "", offset=0)
        for tensor, key, more, dim in ruled
    )
    return several(*parts, note=note)
