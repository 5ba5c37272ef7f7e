"""What a family of models means where its configuration is silent: one literal table.

A model_type is looked up by its exact name, then with suffixes that name a variant of the same text model taken off
(`qwen3_5_moe_text` → `qwen3_5_moe` → `qwen3_5`). Sizes and rotary settings that a configuration leaves out are those
of its class in transformers, which class_defaults.json beside this file holds.
Families whose keys say everything, in halves, need no entry of their own: they are listed in ORDINARY, whose only
effect is to silence the warning about an unknown model_type.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pecli.models.keys import NO_CLASS, ClassDefaults, plain_name

HALVES = "halves"
INTERLEAVED = "interleaved"
DEEPSEEK = "deepseek"  #: Interleaved input, halves output

TEXTS = (
    *("text_config", "llm_config", "llm_cfg", "language_config", "language_model_config"),
    *("text_model_config", "lm_config"),
)
"""Keys that hold a language model within a larger one."""
SUFFIXES = ("_text_model", "_text", "_moe", "_vl", "_thinker", "_talker", "_config")


@dataclass(frozen=True)
class Family:
    """What the family implies; None where it implies nothing."""

    name: str = ""
    theta: float | None = None
    local_theta: float | None = None
    """Base of the sliding layers, where these differ in the spelling without layer types."""
    partial: float | None = None
    """The fraction of a head that rotates; above 1 where the frequencies span several heads."""
    layout: str = HALVES
    tables_in_halves: bool = False
    """Tables are doubled as halves and interleaved only when they are used, where interleaved channels rotate."""
    axes: int = 0  #: 2 or 3: each axis of an image or a video rotates a share of the head
    style: str = ""  #: Whose conventions the axes follow, of the styles that `pecli rope` has for grids
    order: str = ""
    """How frequencies of the whole head are kept: `axes` for even ones, which are those of rows, then odd ones, those
    of columns; `ernie` for those and then time.
    """
    renamed: tuple[str, str] = ("", "")  #: A rope type whose name means another here, and that one
    sections: tuple[int, ...] = ()
    """How many frequencies follow time, rows and columns, where that fits the head and no key says it."""
    mixed_sections: bool = False  #: The sections are interleaved, whatever the keys say
    trailing: bool = False  #: The last channels of a head rotate, not the first
    ignores_rotary_dim: bool = False
    beside_text: str = ""  #: What rotates by the keys at the top, beside a language model in `text_config`
    head_dim_rotates: bool = False  #: With latent attention, a `head_dim` that is given is the rotary dimension
    partial_of_head: bool = False
    """With latent attention, a partial factor is one of the whole head, not of the part that rotates."""
    scales_all_layers: bool = False  #: Flat settings scale the sliding layers, too, which have a base of their own
    reads_alpha: bool = False  #: Dynamic scaling with an `alpha` is a fixed NTK one
    no_table: str = ""  #: Why no table over positions 0, 1, 2, … is what the model uses
    note: str = ""  #: A warning about what the keys do not say

    @property
    def source(self) -> str:
        return f"family default ({self.name})"


_GLM_SECTIONS = (8, 12, 12)
_QWEN2_SECTIONS = (16, 24, 24)
_QWEN3_SECTIONS = (24, 20, 20)
_YARN_IS_LONGROPE = ("yarn", "longrope")
_NTK_IS_FIXED = ("ntk", "ntk-fixed")
_CENTRES = "its positions are centres of patches, 2(i + ½)/n − 1 along each axis of n, times 2π"
_TILED = "it pairs channels 2i and 2i + 1, but repeats the angles as halves, so that no pair rotates by one angle"
_NOPE_FULL = "full attention layers of this family have no rope; only the sliding ones do"
_LIGHTNING = "linear attention layers of this family have no rope; only the full ones do"
_LAST = "this family rotates the last channels of a head, not the first"
_TIME = "the keys at the top rotate features of sound by window and by second, not by position"

_NAMES: dict[Family, str] = {
    Family(theta=1000.0): "nomic_bert",
    Family(theta=1e4): "dbrx",
    Family(theta=2e4): "jina_embeddings_v3 pe_audio_encoder pe_video_encoder pe_audio_video_encoder",
    Family(theta=150000.0): "gpt_oss",
    Family(theta=5e5): "bitnet csm csm_depth_decoder_model evolla flex_olmo higgs_audio_v2 mllama "
    "muse_glimmer_assistant muse_spark",
    Family(theta=1e6): "cwm emu3 lfm2 lfm2_moe ministral3 mixtral solar_open",
    Family(theta=2e6): "smollm3",
    Family(theta=5e6): "minimax_m2",
    Family(theta=11158840.0): "hy_v3",
    Family(theta=1.2e7): "apertus",
    Family(theta=5e6, ignores_rotary_dim=True): "minimax_m3",
    Family(theta=1e6, note=_LIGHTNING): "minimax minimax_m1",
    Family(theta=1e6, local_theta=1e4): "gemma3 gemma3n t5gemma2 t5gemma2_decoder",
    Family(theta=5e5, local_theta=5e5): "olmo3",
    Family(theta=160000.0, local_theta=1e4, scales_all_layers=True): "modernbert modernbert_decoder",
    Family(partial=0.25): "gpt_neox qwen3_next stablelm",
    Family(partial=0.5): "bamba glm4_moe glmasr_encoder nemotron persimmon phi recurrent_gemma",
    Family(partial=1.0): "gpt_neox_japanese",
    Family(theta=25000.0, partial=0.5): "fuyu",
    Family(layout=INTERLEAVED): "blt_patcher codegen deepseek_v2 gptj moonshine_streaming roformer",
    Family(layout=INTERLEAVED, note=_NOPE_FULL): "cohere2",
    Family(layout=INTERLEAVED, theta=150000.0): "openai_privacy_filter",
    Family(
        layout=INTERLEAVED, theta=5e5
    ): "blt blt_local_encoder blt_local_decoder blt_global_transformer cohere llama4",
    Family(layout=INTERLEAVED, theta=5e5, order="ernie"): "ernie4_5_vl_moe",
    Family(layout=INTERLEAVED, partial=0.5): "chatglm",
    Family(layout=INTERLEAVED, partial=4.0): "efficientloftr",
    Family(layout=INTERLEAVED, partial=0.125, partial_of_head=True, trailing=True, note=_LAST): "deepseek_v4",
    Family(layout=INTERLEAVED, theta=1200.0, partial=0.2, beside_text="audio", note=_TIME): "musicflamingo",
    Family(layout=INTERLEAVED, tables_in_halves=True): "glm_ocr",
    Family(layout=INTERLEAVED, tables_in_halves=True, partial=0.5): "glm glm4",
    Family(layout=INTERLEAVED, tables_in_halves=True, partial=0.9): "moonshine",
    Family(layout=INTERLEAVED, tables_in_halves=True, theta=1e5): "helium",
    Family(layout=INTERLEAVED, tables_in_halves=True, theta=5e5): "ernie4_5 ernie4_5_moe",
    Family(layout=INTERLEAVED, tables_in_halves=True, sections=_GLM_SECTIONS): "glm4v",
    Family(layout=DEEPSEEK): "axk2 deepseek_v32 glm_moe_dsa kimi_k2 mistral_large4",
    Family(layout=DEEPSEEK, theta=6e6): "bailing_hybrid",
    Family(layout=DEEPSEEK, partial_of_head=True): "mistral4",
    Family(layout=DEEPSEEK, head_dim_rotates=True): "axk1 deepseek_v3 glm4_moe_lite youtu",
    Family(layout=DEEPSEEK, head_dim_rotates=True, theta=1e7): "longcat_flash",
    Family(partial=0.5, sections=_GLM_SECTIONS): "glm4v_moe",
    Family(theta=5e5, sections=_QWEN2_SECTIONS): "paddleocr_vl",
    Family(theta=1e6, sections=_QWEN2_SECTIONS): "qwen2_vl qwen2_5_vl qwen2_5_omni",
    Family(partial=0.25, sections=(11, 11, 10), mixed_sections=True): "qwen3_5",
    Family(theta=5e5, sections=_QWEN3_SECTIONS, mixed_sections=True): "qwen3_vl",
    Family(theta=1e6, sections=_QWEN3_SECTIONS, mixed_sections=True): "qwen3_omni_moe",
    Family(theta=1e8, sections=_QWEN3_SECTIONS, mixed_sections=True): "cosmos3_edge",
    Family(renamed=_NTK_IS_FIXED): "new",
    Family(renamed=_NTK_IS_FIXED, theta=160000.0): "gte",
    Family(renamed=_YARN_IS_LONGROPE): "phi3 phi4_multimodal",
    Family(renamed=_YARN_IS_LONGROPE, theta=1e6): "phimoe",
    Family(reads_alpha=True): "hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl hunyuan",
    Family(note="with a sliding window, " + _NOPE_FULL): "exaone4",
    Family(note="this family has no rope unless position_embedding_type is rope"): "granitemoehybrid",
    Family(note="this family has no rope unless use_mem_rope is true"): "zamba2",
    Family(axes=2): "cohere_compass_vision deepseek_ocr_vision exaone4_5_vision glm5_next_vision kimi_k25_vision "
    "mlcd_vision_model mlcd muse_glimmer_vision muse_spark_vision paddleocr_vl_vision qwen4_exp_vision step3p5_vision "
    "video_llama_3_vision",
    Family(axes=2, style="qwen2-vl"): "ernie4_5_vl_moe_vision glm4v_vision glm4v_moe_vision glm_ocr_vision "
    "qwen2_vl_vision qwen2_5_vl_vision qwen2_5_omni_vision qwen2_5_omni_vision_encoder qwen3_5_vision "
    "qwen3_5_moe_vision qwen3_omni_moe_vision qwen3_omni_moe_vision_encoder qwen3_vl_vision qwen3_vl_moe_vision",
    Family(axes=2, theta=100.0): "gemma4_vision",
    Family(axes=2, theta=100.0, style="dinov3", no_table=_CENTRES): "dinov3 dinov3_vit eomt_dinov3 sapiens2",
    Family(axes=2, order="axes", style="pixtral"): "pixtral",
    Family(axes=2, layout=INTERLEAVED): "sam3_vit_model",
    Family(axes=2, layout=INTERLEAVED, style="sam2"): "edgetam_video sam2_video sam3_tracker_video",
    Family(axes=2, layout=INTERLEAVED, style="llama4-vision"): "llama4_vision_model",
    Family(axes=3): "minimax_m3_vl_vision",
    Family(axes=3, layout=INTERLEAVED, no_table=_TILED): "vjepa2",
}
FAMILIES = {name: replace(family, name=name) for family, names in _NAMES.items() for name in names.split()}

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


def family_of(model_type: str | None, *, vision: bool = False) -> Family | None:
    """The family of a model_type; None where the name says nothing."""
    name = plain_name(model_type)
    if not name:
        return None
    if vision and "vision" not in name and f"{name}_vision" in FAMILIES:
        name += "_vision"
    while True:
        if name in FAMILIES:
            return FAMILIES[name]
        if name in ORDINARY:
            return Family(name)
        suffix = next((each for each in SUFFIXES if name.endswith(each)), None)
        if suffix is None:
            return None
        name = name.removesuffix(suffix)


@cache
def class_parts() -> dict[str, tuple[str, dict[str, Any]]]:
    """The text model of each larger one at class defaults: its model_type, and what it has otherwise than its class."""
    return dict(json.loads((Path(__file__).parent / "class_parts.json").read_text(encoding="utf-8")))


@cache
def _classes() -> dict[str, ClassDefaults]:
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
    return _by_letters().get(ARCHITECTURE.sub("", architecture).lower().replace("_", "").replace("-", ""))


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
