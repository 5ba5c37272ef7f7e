"""What a family of models means where its configuration is silent: one literal table.

A model_type is looked up by its exact name, then with suffixes that name a variant of the same text model taken off
(`qwen3_5_moe_text` → `qwen3_5_moe` → `qwen3_5`). Values are the class defaults of the public implementations.
Families whose keys say everything, in halves, need no entry of their own: they stand in ORDINARY, and all that this
does is to silence the warning about an unknown model_type.
"""

from __future__ import annotations

from dataclasses import dataclass

HALVES = "halves"
INTERLEAVED = "interleaved"
DEEPSEEK = "deepseek"
"""Interleaved input, halves output."""

SUFFIXES = ("_text_model", "_text", "_moe", "_vl", "_thinker", "_talker", "_config")


@dataclass(frozen=True)
class Family:
    """What the family implies; None where it implies nothing."""

    name: str = ""
    theta: float | None = None
    local_theta: float | None = None
    """Base of the sliding layers, where these differ in the spelling without layer types."""
    partial: float | None = None
    layout: str = HALVES
    head_dim: int | None = None
    hidden: int | None = None
    heads: int | None = None
    axes: int = 0
    """2 or 3: each axis of an image or a video turns a share of the head."""
    whole_axes: bool = False
    """The axes share the frequencies of the whole head: even ones for rows, odd ones for columns."""
    yarn_is_longrope: bool = False
    wide_partial: bool = False
    """A partial factor above 1 is meant: the frequencies span several heads."""
    order: str | None = None
    note: str | None = None
    """A warning about what the keys do not say."""


def _f(**values: object) -> Family:
    return Family(**values)  # type: ignore[arg-type]


_AXIAL = _f(axes=2)
_GEMMA = _f(head_dim=256)
_NOPE_FULL = "full attention layers of this family turn nothing; only the sliding ones do"

FAMILIES: dict[str, Family] = {
    "apertus": _f(theta=1.2e7),
    "axk1": _f(layout=DEEPSEEK),
    "bamba": _f(partial=0.5),
    **dict.fromkeys(
        ("blt", "blt_local_encoder", "blt_local_decoder", "blt_global_transformer", "blt_patcher"),
        _f(theta=5e5, layout=INTERLEAVED),
    ),
    "chatglm": _f(partial=0.5, layout=INTERLEAVED),
    "codegen": _f(layout=INTERLEAVED),
    "cohere": _f(theta=5e5, layout=INTERLEAVED),
    "cohere2": _f(layout=INTERLEAVED, note=_NOPE_FULL),
    "csm": _f(theta=5e5),
    "dbrx": _f(theta=1e4),
    "deepseek_v2": _f(layout=INTERLEAVED),
    "deepseek_v3": _f(layout=DEEPSEEK),
    "deepseek_v32": _f(layout=DEEPSEEK),
    "deepseek_v4": _f(layout=INTERLEAVED, note="this family turns the last channels of a head, not the first"),
    "dinov3_vit": _f(theta=100.0, axes=2),
    "efficientloftr": _f(wide_partial=True, layout=INTERLEAVED),
    "eomt_dinov3": _f(theta=100.0, axes=2),
    "ernie4_5": _f(theta=5e5, layout=INTERLEAVED),
    "ernie4_5_vl_moe": _f(theta=5e5, layout=INTERLEAVED, order="ernie"),
    "exaone4": _f(theta=1e6, note="with a sliding window, " + _NOPE_FULL),
    "fuyu": _f(partial=0.5),
    "gemma": _GEMMA,
    "gemma2": _GEMMA,
    "gemma3": _f(theta=1e6, local_theta=1e4, head_dim=256, heads=8),
    "gemma3n": _f(theta=1e6, local_theta=1e4, head_dim=256),
    "gemma4_vision": _f(theta=100.0, axes=2),
    "glm": _f(partial=0.5, layout=INTERLEAVED),
    "glm4": _f(partial=0.5, layout=INTERLEAVED),
    "glm4_moe": _f(partial=0.5),
    "glm4_moe_lite": _f(layout=DEEPSEEK),
    "glm4v": _f(partial=0.5, layout=INTERLEAVED),
    "glm4v_moe": _f(partial=0.5),
    "glm_moe_dsa": _f(layout=DEEPSEEK),
    "glm_ocr": _f(layout=INTERLEAVED),
    "gpt_neox": _f(partial=0.25),
    "gpt_neox_japanese": _f(partial=1.0),
    "gpt_oss": _f(theta=150000.0),
    "gptj": _f(layout=INTERLEAVED),
    "granitemoehybrid": _f(note="this family turns nothing unless position_embedding_type is rope"),
    "helium": _f(theta=1e5, layout=INTERLEAVED),
    "kimi_k2": _f(layout=DEEPSEEK),
    "lfm2": _f(theta=1e6),
    "llama": _f(hidden=4096, heads=32),
    "llama4": _f(theta=5e5, layout=INTERLEAVED),
    "llama4_vision_model": _f(layout=INTERLEAVED, axes=2),
    "longcat_flash": _f(theta=1e7, layout=DEEPSEEK),
    "minimax_m3_vl_vision": _f(axes=3),
    "mistral": _f(hidden=4096, heads=32),
    "mistral4": _f(layout=DEEPSEEK),
    "mixtral": _f(theta=1e6, hidden=4096, heads=32),
    "mllama": _f(theta=5e5, hidden=4096, heads=32),
    "modernbert": _f(theta=160000.0, local_theta=1e4),
    "modernbert_decoder": _f(theta=160000.0, local_theta=1e4),
    "moonshine": _f(partial=0.9, layout=INTERLEAVED),
    "moonshine_streaming": _f(partial=0.8, layout=INTERLEAVED),
    "nemotron": _f(partial=0.5),
    "nomic_bert": _f(theta=1000.0),
    "persimmon": _f(partial=0.5),
    "phi": _f(partial=0.5),
    "phi3": _f(yarn_is_longrope=True),
    "phi4_multimodal": _f(yarn_is_longrope=True),
    "phimoe": _f(theta=1e6, yarn_is_longrope=True),
    "pixtral": _f(axes=2, whole_axes=True),
    "qwen2_vl": _f(theta=1e6),
    "qwen2_5_vl": _f(theta=1e6),
    "qwen2_5_omni": _f(theta=1e6),
    "qwen3_5": _f(partial=0.25),
    "qwen3_next": _f(partial=0.25),
    "qwen3_vl": _f(theta=5e5),
    "qwen3_omni_moe": _f(theta=1e6),
    "recurrent_gemma": _f(partial=0.5),
    "roformer": _f(layout=INTERLEAVED),
    "smollm3": _f(theta=2e6),
    "solar_open": _f(theta=1e6),
    "stablelm": _f(partial=0.25),
    "vjepa2": _f(axes=3),
    "zamba2": _f(note="this family turns nothing unless use_mem_rope is true"),
    **dict.fromkeys(
        (
            "deepseek_ocr_vision",
            "ernie4_5_vl_moe_vision",
            "glm4v_vision",
            "glm4v_moe_vision",
            "glm5_next_vision",
            "glm_image_vision",
            "glm_ocr_vision",
            "kimi_k25_vision",
            "mlcd_vision_model",
            "mlcd",
            "paddleocr_vl_vision",
            "qwen2_vl_vision",
            "qwen2_5_vl_vision",
            "qwen2_5_omni_vision",
            "qwen2_5_omni_vision_encoder",
            "qwen3_5_vision",
            "qwen3_5_moe_vision",
            "qwen3_omni_moe_vision",
            "qwen3_omni_moe_vision_encoder",
            "qwen3_vl_vision",
            "qwen3_vl_moe_vision",
            "step3p5_vision",
            "video_llama_3_vision",
        ),
        _AXIAL,
    ),
}

_ORDINARY = """
    afmoe arcee aria baichuan beam bitnet chameleon colqwen2 cwm deepseek_vl dia diffllama doge dots1 emu3
    ernie4_5_moe esm eurobert evolla exaone exaone_moe falcon falcon_h1 flex_olmo flint fuyu_text gemma4 gemma4_text
    glm4_moe_text glmasr granite granite_swa granitemoe granitemoe_swa granitemoeshared hunyuan_v1_dense
    hunyuan_v1_moe idefics idefics2 idefics3 internlm internlm2 internlm3 jais2 jetmoe jina_embeddings_v3 kosmos2_5
    kyutai_speech_to_text laguna lfm2_moe lfm2_vl llava llava_next mimi mimo_v2 mimo_v2_flash minicpm minicpm3 minimax
    minimax_m2 ministral ministral3 mistral3 moshi muse_glimmer muse_glimmer_text nanochat olmo olmo2 olmo3 olmoe orion
    ovis2 paligemma phi4 pocket_tts qwen qwen2 qwen2_audio qwen2_moe qwen3 qwen3_moe seed_oss smolvlm starcoder2
    t5_gemma_module t5gemma t5gemma2 timesfm2_5 vaultgemma voxtral xverse yi youtu zaya
"""
ORDINARY = frozenset(_ORDINARY.split())


def family_of(model_type: str | None, *, vision: bool = False) -> Family | None:
    """The family of a model_type; None where the name says nothing."""
    if not model_type:
        return None
    name = model_type.lower().replace("-", "_")
    if vision and "vision" not in name and f"{name}_vision" in FAMILIES:
        name += "_vision"
    while True:
        if name in FAMILIES:
            return _named(FAMILIES[name], name)
        if name in ORDINARY:
            return Family(name)
        suffix = next((each for each in SUFFIXES if name.endswith(each)), None)
        if suffix is None:
            return None
        name = name.removesuffix(suffix)


def _named(family: Family, name: str) -> Family:
    from dataclasses import replace

    return replace(family, name=name)
