"""What a family of models means where its configuration is silent: one literal table.

A model_type is looked up by its exact name, then with suffixes that name a variant of the same text model taken off
(`qwen3_5_moe_text` → `qwen3_5_moe` → `qwen3_5`). Sizes and rotary settings that a configuration leaves out are those
of its class in transformers, which class_defaults.json beside this file holds.
Families whose keys say everything, in halves, need no entry of their own: they are listed in ORDINARY, whose only
effect is to silence the warning about an unknown model_type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from pecli.models.values import NO_CLASS, ClassDefaults

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
    tables_in_halves: bool = False
    """Tables are doubled as halves and interleaved only when they are used, where interleaved channels rotate."""
    axes: int = 0
    """2 or 3: each axis of an image or a video rotates a share of the head."""
    whole_axes: bool = False
    """The axes share the frequencies of the whole head: even ones for rows, odd ones for columns."""
    style: str = ""
    """Whose conventions the axes follow, of the styles that `pecli rope` has for grids."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Rope types whose names mean others here."""
    wide_partial: bool = False
    """A partial factor above 1 is meant: the frequencies span several heads."""
    sections: tuple[int, ...] = ()
    """How many frequencies follow time, rows and columns, where that fits the head and no key says it."""
    mixed_sections: bool = False
    """The sections are interleaved, whatever the keys say."""
    trailing: bool = False
    """The last channels of a head rotate, not the first."""
    order: str | None = None
    """How the model keeps its frequencies: `axes` for rows, then columns; `ernie` for those and then time."""
    scales_full_layers: bool = False
    """Settings without layer types scale the full layers; the sliding ones keep the base as it is."""
    ignores_rotary_dim: bool = False
    beside_text: str = ""
    """What rotates by the keys at the top, beside a language model in `text_config`."""
    head_dim_rotates: bool = False
    """With latent attention, a `head_dim` that is given is the rotary dimension."""
    partial_of_head: bool = False
    """With latent attention, a partial factor is one of the whole head, not of the part that rotates."""
    scales_all_layers: bool = False
    """Flat settings scale the sliding layers, too, which have a base of their own."""
    reads_alpha: bool = False
    """Dynamic scaling with an `alpha` is a fixed NTK one."""
    no_table: str = ""
    """Why no table over positions 0, 1, 2, … is what the model uses."""
    note: str | None = None
    """A warning about what the keys do not say."""

    @property
    def source(self) -> str:
        """Where values come from that the family implies."""
        return f"family default ({self.name})"


def _f(**values: object) -> Family:
    return Family(**values)  # type: ignore[arg-type]


_AXIAL = _f(axes=2)
_MERGED = _f(axes=2, style="qwen2-vl")
_GLM_SECTIONS = (8, 12, 12)
_QWEN2_SECTIONS = (16, 24, 24)
_QWEN3_SECTIONS = (24, 20, 20)
_YARN_IS_LONGROPE = {"yarn": "longrope"}
_NTK_IS_FIXED = {"ntk": "ntk-fixed"}
_CENTRES = _f(
    theta=100.0,
    axes=2,
    style="dinov3",
    no_table="its positions are centres of patches, 2(i + ½)/n − 1 along each axis of n, times 2π",
)
_TILED = "it pairs channels 2i and 2i + 1, but repeats the angles as halves, so that no pair rotates by one angle"
_NOPE_FULL = "full attention layers of this family have no rope; only the sliding ones do"
_LIGHTNING = "linear attention layers of this family have no rope; only the full ones do"
_TIME = "the keys at the top rotate features of sound by window and by second, not by position"

FAMILIES: dict[str, Family] = {
    "apertus": _f(theta=1.2e7),
    "axk1": _f(layout=DEEPSEEK, head_dim_rotates=True),
    "axk2": _f(layout=DEEPSEEK),
    "bailing_hybrid": _f(theta=6e6, layout=DEEPSEEK),
    "bamba": _f(partial=0.5),
    "bitnet": _f(theta=5e5),
    **dict.fromkeys(
        ("blt", "blt_local_encoder", "blt_local_decoder", "blt_global_transformer"),
        _f(theta=5e5, layout=INTERLEAVED),
    ),
    "blt_patcher": _f(layout=INTERLEAVED),
    "chatglm": _f(partial=0.5, layout=INTERLEAVED),
    "codegen": _f(layout=INTERLEAVED),
    "cohere": _f(theta=5e5, layout=INTERLEAVED),
    "cohere2": _f(layout=INTERLEAVED, note=_NOPE_FULL),
    "cosmos3_edge": _f(theta=1e8, sections=_QWEN3_SECTIONS, mixed_sections=True),
    "csm": _f(theta=5e5),
    "csm_depth_decoder_model": _f(theta=5e5),
    "cwm": _f(theta=1e6),
    "dbrx": _f(theta=1e4),
    "deepseek_v2": _f(layout=INTERLEAVED),
    "deepseek_v3": _f(layout=DEEPSEEK, head_dim_rotates=True),
    "deepseek_v32": _f(layout=DEEPSEEK),
    "deepseek_v4": _f(
        partial=0.125,
        partial_of_head=True,
        layout=INTERLEAVED,
        trailing=True,
        note="this family rotates the last channels of a head, not the first",
    ),
    "dinov3": _CENTRES,
    "dinov3_vit": _CENTRES,
    "edgetam_video": _f(axes=2, layout=INTERLEAVED, style="sam2"),
    "efficientloftr": _f(partial=4.0, wide_partial=True, layout=INTERLEAVED),
    "emu3": _f(theta=1e6),
    "eomt_dinov3": _CENTRES,
    "ernie4_5": _f(theta=5e5, layout=INTERLEAVED, tables_in_halves=True),
    "ernie4_5_moe": _f(theta=5e5, layout=INTERLEAVED, tables_in_halves=True),
    "ernie4_5_vl_moe": _f(theta=5e5, layout=INTERLEAVED, order="ernie"),
    "evolla": _f(theta=5e5),
    "exaone4": _f(note="with a sliding window, " + _NOPE_FULL),
    "flex_olmo": _f(theta=5e5),
    "fuyu": _f(partial=0.5, theta=25000.0),
    "gemma3": _f(theta=1e6, local_theta=1e4),
    "gemma3n": _f(theta=1e6, local_theta=1e4),
    "gemma4_vision": _f(theta=100.0, axes=2),
    "glm": _f(partial=0.5, layout=INTERLEAVED, tables_in_halves=True),
    "glm4": _f(partial=0.5, layout=INTERLEAVED, tables_in_halves=True),
    "glm4_moe": _f(partial=0.5),
    "glm4_moe_lite": _f(layout=DEEPSEEK, head_dim_rotates=True),
    "glm4v": _f(layout=INTERLEAVED, tables_in_halves=True, sections=_GLM_SECTIONS),
    "glm4v_moe": _f(partial=0.5, sections=_GLM_SECTIONS),
    "glm_moe_dsa": _f(layout=DEEPSEEK),
    "glm_ocr": _f(layout=INTERLEAVED, tables_in_halves=True),
    "gpt_neox": _f(partial=0.25),
    "gpt_neox_japanese": _f(partial=1.0),
    "gpt_oss": _f(theta=150000.0),
    "gptj": _f(layout=INTERLEAVED),
    "glmasr_encoder": _f(partial=0.5),
    "granitemoehybrid": _f(note="this family has no rope unless position_embedding_type is rope"),
    "gte": _f(theta=160000.0, renamed=_NTK_IS_FIXED),
    "helium": _f(theta=1e5, layout=INTERLEAVED, tables_in_halves=True),
    "higgs_audio_v2": _f(theta=5e5),
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl", "hunyuan"), _f(reads_alpha=True)),
    "hy_v3": _f(theta=11158840.0),
    "jina_embeddings_v3": _f(theta=2e4),
    "kimi_k2": _f(layout=DEEPSEEK),
    "lfm2": _f(theta=1e6),
    "lfm2_moe": _f(theta=1e6),
    "llama4": _f(theta=5e5, layout=INTERLEAVED),
    "llama4_vision_model": _f(layout=INTERLEAVED, axes=2, style="llama4-vision"),
    "longcat_flash": _f(theta=1e7, layout=DEEPSEEK, head_dim_rotates=True),
    "minimax": _f(theta=1e6, note=_LIGHTNING),
    "minimax_m1": _f(theta=1e6, note=_LIGHTNING),
    "minimax_m2": _f(theta=5e6),
    "minimax_m3": _f(theta=5e6, ignores_rotary_dim=True),
    "minimax_m3_vl_vision": _f(axes=3),
    "ministral3": _f(theta=1e6),
    "mistral4": _f(layout=DEEPSEEK, partial_of_head=True),
    "mistral_large4": _f(layout=DEEPSEEK),
    "mixtral": _f(theta=1e6),
    "mllama": _f(theta=5e5),
    "modernbert": _f(theta=160000.0, local_theta=1e4, scales_all_layers=True),
    "modernbert_decoder": _f(theta=160000.0, local_theta=1e4, scales_all_layers=True),
    "moonshine": _f(partial=0.9, layout=INTERLEAVED, tables_in_halves=True),
    "moonshine_streaming": _f(layout=INTERLEAVED),
    "muse_glimmer_assistant": _f(theta=5e5),
    "muse_spark": _f(theta=5e5),
    "musicflamingo": _f(theta=1200.0, partial=0.2, layout=INTERLEAVED, beside_text="audio", note=_TIME),
    "nemotron": _f(partial=0.5),
    "new": _f(renamed=_NTK_IS_FIXED),
    "nomic_bert": _f(theta=1000.0),
    "olmo3": _f(theta=5e5, local_theta=5e5, scales_full_layers=True),
    "openai_privacy_filter": _f(theta=150000.0, layout=INTERLEAVED),
    "paddleocr_vl": _f(theta=5e5, sections=_QWEN2_SECTIONS),
    **dict.fromkeys(("pe_audio_encoder", "pe_video_encoder", "pe_audio_video_encoder"), _f(theta=2e4)),
    "persimmon": _f(partial=0.5),
    "phi": _f(partial=0.5),
    "phi3": _f(renamed=_YARN_IS_LONGROPE),
    "phi4_multimodal": _f(renamed=_YARN_IS_LONGROPE),
    "phimoe": _f(theta=1e6, renamed=_YARN_IS_LONGROPE),
    "pixtral": _f(axes=2, whole_axes=True, order="axes", style="pixtral"),
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni"), _f(theta=1e6, sections=_QWEN2_SECTIONS)),
    "qwen3_5": _f(partial=0.25, sections=(11, 11, 10), mixed_sections=True),
    "qwen3_next": _f(partial=0.25),
    "qwen3_vl": _f(theta=5e5, sections=_QWEN3_SECTIONS, mixed_sections=True),
    "qwen3_omni_moe": _f(theta=1e6, sections=_QWEN3_SECTIONS, mixed_sections=True),
    "recurrent_gemma": _f(partial=0.5),
    "roformer": _f(layout=INTERLEAVED),
    "sam2_video": _f(axes=2, layout=INTERLEAVED, style="sam2"),
    "sam3_tracker_video": _f(axes=2, layout=INTERLEAVED, style="sam2"),
    "sam3_vit_model": _f(axes=2, layout=INTERLEAVED),
    "sapiens2": _CENTRES,
    "smollm3": _f(theta=2e6),
    "solar_open": _f(theta=1e6),
    "stablelm": _f(partial=0.25),
    "t5gemma2": _f(theta=1e6, local_theta=1e4),
    "t5gemma2_decoder": _f(theta=1e6, local_theta=1e4),
    "vjepa2": _f(axes=3, layout=INTERLEAVED, no_table=_TILED),
    "youtu": _f(layout=DEEPSEEK, head_dim_rotates=True),
    "zamba2": _f(note="this family has no rope unless use_mem_rope is true"),
    **dict.fromkeys(
        (
            "ernie4_5_vl_moe_vision",
            "glm4v_vision",
            "glm4v_moe_vision",
            "glm_ocr_vision",
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
        ),
        _MERGED,
    ),
    **dict.fromkeys(
        (
            "cohere_compass_vision",
            "deepseek_ocr_vision",
            "exaone4_5_vision",
            "glm5_next_vision",
            "kimi_k25_vision",
            "mlcd_vision_model",
            "mlcd",
            "muse_glimmer_vision",
            "muse_spark_vision",
            "paddleocr_vl_vision",
            "qwen4_exp_vision",
            "step3p5_vision",
            "video_llama_3_vision",
        ),
        _AXIAL,
    ),
}

_ORDINARY = """
    afmoe arcee aria baichuan beam chameleon colqwen2 deepseek_ocr2 deepseek_ocr2_encoder deepseek_vl dia
    dia_decoder dia_encoder diffllama diffusion_gemma doge dots1 embedding_gemma2 esm esmc eurobert exaone
    exaone_moe falcon falcon_h1 flint fuyu_text gemma gemma2 gemma4 gemma4_unified glm4_moe_text glm_image glmasr
    gradium_phonon_tts granite granite4_vision granite_swa granitemoe granitemoe_swa granitemoeshared hrm_text
    hy_v4 hyperclovax idefics idefics2 idefics3 internlm internlm2
    internlm3 jais2 jetmoe kolibri1 kosmos2_5 kyutai_speech_to_text laguna lasr_encoder lfm2_vl llama llava
    llava_next mellum mimi mimi_decoder mimi_encoder mimo_v2 mimo_v2_flash minicpm minicpm3 ministral mistral
    mistral3 molmo2 moshi muse_glimmer muse_glimmer_text nanochat nemotron3_5_transcribe_asr_audio
    nemotron3_5_transcribe_word_timestamp nemotron3_diarization_audio neomme neucodec olmo olmo2 olmo_hybrid olmoe
    orion ovis2 paligemma phi4 pocket_tts pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder
    pocket_tts_audio_tokenizer_encoder qwen qwen2 qwen2_5_omni_dit qwen2_audio qwen2_moe qwen3 qwen3_moe
    qwen3_omni_moe_talker_code_predictor qwen4_exp seed_oss smolvlm starcoder2 step3p5 t5_gemma_module t5gemma
    timesfm2_5 ultrabert unlimited_ocr vaultgemma voxtral voxtral_realtime voxtral_realtime_encoder xcodec2 xverse
    yi zaya
"""
ORDINARY = frozenset(_ORDINARY.split())


def plain_name(model_type: str | None) -> str:
    """A model_type as the tables of families spell it; empty where there is none.

    >>> plain_name("XLM-RoBERTa")
    'xlm_roberta'
    """
    return (model_type or "").lower().replace("-", "_")


def family_of(model_type: str | None, *, vision: bool = False) -> Family | None:
    """The family of a model_type; None where the name says nothing."""
    name = plain_name(model_type)
    if not name:
        return None
    if vision and "vision" not in name and f"{name}_vision" in FAMILIES:
        name += "_vision"
    while True:
        if name in FAMILIES:
            return replace(FAMILIES[name], name=name)
        if name in ORDINARY:
            return Family(name)
        suffix = next((each for each in SUFFIXES if name.endswith(each)), None)
        if suffix is None:
            return None
        name = name.removesuffix(suffix)


@cache
def _classes() -> dict[str, ClassDefaults]:
    import json

    data = json.loads((Path(__file__).parent / "class_defaults.json").read_text(encoding="utf-8"))
    return {
        name: ClassDefaults(config, values, name, frozenset(*ignored))
        for name, (config, values, *ignored) in data.items()
    }


ARCHITECTURE = re.compile(r"(For[A-Z]\w*|LMHeadModel\w*|PreTrainedModel|Model|Decoder|Encoder)$")
"""How the name of a model's class ends."""


def model_type_of(architecture: str) -> str | None:
    """The model_type of a class of models; None where no name is known that is spelled with the same letters.

    >>> model_type_of("Qwen2_5_VLForConditionalGeneration"), model_type_of("GPTNeoXForCausalLM")
    ('qwen2_5_vl', 'gpt_neox')
    """
    letters = ARCHITECTURE.sub("", architecture).lower().replace("_", "").replace("-", "")
    return _by_letters().get(letters)


@cache
def _by_letters() -> dict[str, str]:
    return {name.replace("_", ""): name for name in (*_classes(), *ORDINARY, *FAMILIES)}


def class_defaults(model_type: str | None, *, vision: bool = False) -> ClassDefaults:
    """What the configuration class of a model_type means by what is left out; nothing for unknown ones.

    >>> class_defaults("clip_text_model").values["max_position_embeddings"]
    77
    """
    name = plain_name(model_type)
    more = [f"{name}_vision", f"{name}_vision_model"] if vision else [f"{name}_text", f"{name}_text_model"]
    names = [*more, name] if vision else [name, *more]
    return next((_classes()[each] for each in names if each in _classes()), NO_CLASS)
