"""Dialects of configurations other than Hugging Face's: which keys they have, and what their code defaults to."""

from pathlib import Path
from typing import Any

import pytest

import pecli
from pecli.models.find import load_config, load_model
from tests.models.facts import by_layer, check, one

ORIGINAL = "original_max_position_embeddings"
PARAMS = {"dim": 4096, "n_heads": 32, "n_layers": 32}
LATENT = {"dim": 2048, "n_heads": 16, "inter_dim": 10944, "kv_lora_rank": 512}
NEOX = {"hidden_size": 768, "num_attention_heads": 12, "max_position_embeddings": 2048, "pipe_parallel_size": 1}
MOSHI = {"dim": 2560, "num_heads": 20, "max_period": 1e5}
OLMO = {"d_model": 2048, "n_heads": 16, "block_type": "sequential"}
GPT_OSS = {"hidden_size": 2880, "head_dim": 64, "num_attention_heads": 64, "initial_context_length": 4096}
YARN = {"factor": 16.0, ORIGINAL: 8192, "alpha": 1, "beta": 32}
MLC = {"hidden_size": 4096, "num_attention_heads": 32}
HYPHENS = {"hidden-size": 768, "num-attention-heads": 12, "pos-emb": "rotary", "rotary-pct": 0.25}
LITGPT = {"n_embd": 4096, "n_head": 32, "rotary_percentage": 1.0, "rope_condense_ratio": 1, "rope_n_elem": 128}
BLEND = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
MEGATRON = {"hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128, "position_embedding_type": "rope"}
INTERLEAVED, HALVES = {"scheme": "rope", "layout": "interleaved"}, {"scheme": "rope", "layout": "halves"}
LISTS = {"rope_scaling_short_factor": [1.0] * 64, "rope_scaling_long_factor": [2.0] * 64}

READ: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "Meta": (PARAMS, {**INTERLEAVED, "base": 1e4, "scaling": "none", "source of dim": "dim // n_heads"}, ""),
    "Meta, Llama 3.1": (
        {**PARAMS, "rope_theta": 5e5, "use_scaled_rope": True, "rope_scale_factor": 32},
        {**INTERLEAVED, "base": 5e5, "scaling": "llama3", "factor": 32.0, ORIGINAL: 8192},
        "",
    ),
    "Meta, Llama 4": (
        {**PARAMS, "nope_layer_interval": 16},
        {"nope_layers": [15, 31], "source of nope_layers": "one layer in 16 (nope_layer_interval)"},
        "layers 15, 31 have no rope",
    ),
    "Meta, Llama 4 with its temperature": (
        {
            **PARAMS,
            "nope_layer_interval": 16,
            "attn_temperature_tuning": True,
            "attn_scale": 0.1,
            "floor_scale": 8192.0,
        },
        {"attn_scale": 0.1, "floor_scale": 8192},
        "1 + 0.1·ln(1 + ⌊(p + 1)/8192⌋)",
    ),
    "Meta, Llama 4 without a blend": (
        {**PARAMS, "use_scaled_rope": True, "rope_scaling_factor": 16.0, "rope_high_freq_factor": 1.0},
        {**INTERLEAVED, "scaling": "llama3", "factor": 16.0, "high_freq_factor": 1.0, "low_freq_factor": 1.0},
        "",
    ),
    "Meta, Llama 3.2 with images": ({**PARAMS, "vision_chunk_size": 560}, INTERLEAVED, "learned tables of patches"),
    "litgpt, Llama 3.1": (
        {**LITGPT, "rope_base": 500000, "rope_adjustments": {**BLEND, "original_max_seq_len": 8192}},
        {**HALVES, "dim": 128, "base": 5e5, "scaling": "llama3", "factor": 8.0, ORIGINAL: 8192},
        "",
    ),
    "litgpt, condensed": (
        {**LITGPT, "rotary_percentage": 0.25, "rope_condense_ratio": 8},
        {**HALVES, "partial_rotary_factor": 0.25, "scaling": "linear", "factor": 8.0},
        "",
    ),
    "litgpt, a factor alone": ({**LITGPT, "rope_adjustments": {"factor": 8.0}}, {"scaling": "linear"}, ""),
    "litgpt, YaRN": (
        {**LITGPT, "rope_adjustments": {"factor": 8.0, "beta_fast": 32, "beta_slow": 1}},
        {"scaling": "none"},
        "beta_fast",
    ),
    "Megatron": (
        {**MEGATRON, "rotary_base": 500000, "use_rope_scaling": True, "rope_scaling_factor": 8.0},
        {**HALVES, "dim": 128, "base": 5e5, "scaling": "llama3", "factor": 8.0, ORIGINAL: 8192},
        "",
    ),
    "Megatron, interpolated": (
        {**MEGATRON, "rotary_percent": 0.5, "rotary_interleaved": True, "rotary_seq_len_interpolation_factor": 4},
        {**INTERLEAVED, "partial_rotary_factor": 0.5, "scaling": "linear", "factor": 4.0},
        "",
    ),
    "NeMo": (
        {"model": {**MEGATRON, "rotary_percentage": 0.5, "seq_len_interpolation_factor": 2}},
        {
            **HALVES,
            "partial_rotary_factor": 0.5,
            "factor": 2.0,
            "source of factor": "model.seq_len_interpolation_factor",
        },
        "",
    ),
    "Megatron, latent": ({**MEGATRON, "rotary_base": 1e4, "multi_latent_attention": True}, HALVES, "no model_type"),
    "Mistral": (
        {**PARAMS, "head_dim": 64, "yarn": {**YARN, "apply_scale": False}},
        {**INTERLEAVED, "dim": 64, "scaling": "yarn", "factor": 16.0, "beta_fast": 32.0, "attention_factor": 1.0},
        "",
    ),
    "Mistral with a tuned temperature": (
        {**PARAMS, "yarn": YARN, "llama_4_scaling": {"beta": 0.1, ORIGINAL: 16384}, "qk_rope_head_dim": 64},
        {"llama_4_scaling_beta": 0.1, "attention_factor": None, "beta_slow": 1.0, "dim": 64},
        "1 + 0.1·ln(1 + ⌊p/16384⌋)",
    ),
    "DeepSeek within its first context": (
        {**LATENT, "max_seq_len": 4096, "rope_theta": 2e4},
        {**INTERLEAVED, "dim": 64, "head_dim": 192, "trailing": True, "base": 2e4, "scaling": "none"},
        "",
    ),
    "DeepSeek beyond it": (
        {**LATENT, "max_seq_len": 8192, "rope_factor": 2.0},
        {**INTERLEAVED, "scaling": "yarn", "factor": 2.0, ORIGINAL: 4096, "attention_factor": 1.0},
        "multiplied by 1.143434 (= 1.069315²)",  # (0.1 ln 2 + 1)²
    ),
    "DeepSeek's indexer": ({**LATENT, "index_n_heads": 64}, {"factor": 40.0, "beta_fast": 32.0}, "indexer rotate"),
    "executorch without halves": (
        {**PARAMS, "use_hf_rope": False, "use_scaled_rope": True, "high_freq_factor": 2, "partial_rotary_factor": 0.5},
        {**INTERLEAVED, "scaling": "llama3", "factor": 8.0, "high_freq_factor": 2.0, "partial_rotary_factor": None},
        "partial_rotary_factor",
    ),
    "executorch, longrope": (
        {**PARAMS, "use_hf_rope": True, **LISTS, ORIGINAL: 4096, "rope_scaling_attention_factor": 1.25},
        {**HALVES, "scaling": "longrope", "attention_factor": 1.25, "source of layout": "use_hf_rope"},
        "",
    ),
    "executorch, layers without rope": (
        {**PARAMS, "no_rope_layer_interval": 4},
        {"nope_layers": [3, 7, 11, 15, 19, 23, 27, 31]},
        "have no rope",
    ),
    "NeoX": ({**NEOX, "pos_emb": "rotary", "rotary_emb_base": 5e5}, {**HALVES, "dim": 64, "base": 5e5}, ""),
    "NeoX with hyphens": (HYPHENS, {**HALVES, "dim": 64, "partial_rotary_factor": 0.25}, ""),
    "NeoX without a word": (NEOX, {"scheme": "learned", "max_len": 2048, "dim": 768, "offset": None}, "is not given"),
    "NeoX with OPT's offset": ({**NEOX, "opt_pos_emb_offset": 2}, {"max_len": 2050, "offset": 2}, "is not given"),
    "NeoX, ALiBi": ({**NEOX, "pos_emb": "alibi"}, {"heads": 12, "rule": "paper", "form": "causal"}, ""),
    "NeoX, T5's buckets": ({**NEOX, "pos_emb": "rpe"}, {"buckets": 32, "max_distance": 128, "causal": True}, ""),
    "NeoX, sines": ({**NEOX, "pos_emb": "sinusoidal"}, {"seq_len": 2048, "dim": 768, "style": "roformer"}, ""),
    "Moshi": ({**MOSHI, "positional_embedding": "rope"}, {**INTERLEAVED, "dim": 128, "base": 1e5}, ""),
    "Moshi, concatenated": ({**MOSHI, "positional_embedding": "rope_concat"}, {**HALVES, "base": 1e5}, ""),
    "Moshi, added": (
        {**MOSHI, "positional_embedding": "sin", "positional_scale": 0.5},
        {"seq_len": 3000, "dim": 2560, "base": 1e5, "cos_first": True, "freq_shift": 1.0, "amplitude": 0.5},
        "",
    ),
    "OLMo of a training run": ({"model": {**OLMO, "rope": True, "rope_theta": 5e5}}, {**HALVES, "base": 5e5}, ""),
    "OLMo, ALiBi": ({**OLMO, "alibi": True}, {"heads": 16, "rule": "naive", "form": "symmetric"}, ""),
    "OLMo, neither": ({**OLMO, "rope": False}, {"scheme": "learned", "max_len": 1024, "dim": 2048}, "learned table"),
    "gpt-oss": (
        GPT_OSS,
        {**HALVES, "dim": 64, "base": 150000.0, "scaling": "yarn", "factor": 32.0, "truncate": False},
        "ggml and mlx-lm",
    ),
    "gpt-oss, unscaled": ({**GPT_OSS, "rope_scaling_factor": 1.0}, {"scaling": "none", "base": 150000.0}, ""),
    "MLC": (
        {"model_type": "llama", "context_window_size": 4096, "model_config": {**MLC, "position_embedding_base": 5e5}},
        {**HALVES, "dim": 128, "base": 5e5, "source of base": "model_config.position_embedding_base"},
        "",
    ),
    "MLC, GPT-NeoX": (
        {"model_type": "gpt_neox", "model_config": {**MLC, "position_embedding_base": 5e5}},
        {"base": 5e5, "partial_rotary_factor": 0.25},
        "",
    ),
    "MLC, 0": ({"model_type": "llama", "model_config": {**MLC, "position_embedding_base": 0}}, {"base": 1e4}, None),
    "VILA": (
        {"model_type": "llava_llama", "llm_cfg": {"model_type": "qwen2", "head_dim": 128, "rope_theta": 1e6}},
        {**HALVES, "dim": 128, "base": 1e6},
        "",
    ),
    "architectures in place of a model_type": (
        {"architectures": ["CohereForCausalLM"], "hidden_size": 8192, "num_attention_heads": 64, "rope_theta": 8e6},
        {**INTERLEAVED, "dim": 128, "base": 8e6},
        "",
    ),
}


@pytest.mark.parametrize("name", READ)
def test_keys_of_a_dialect(name: str) -> None:
    check(*READ[name])


def test_llama_3_1_in_meta_s_spelling_is_its_preset() -> None:
    given = {**PARAMS, "n_kv_heads": 8, "rope_theta": 500000.0, "use_scaled_rope": True}
    assert one(given).inverse_frequencies() == one("llama-3.1-8b").inverse_frequencies()


def test_layers_and_parts_have_bases_of_their_own() -> None:
    model = load_config({**PARAMS, "use_hf_rope": True, "rope_theta": 1e6, "local_rope_theta": 1e4})
    bases = {each.layer_type: each.parameters["base"] for each in model}
    assert bases == {"full_attention": 1e6, "sliding_attention": 1e4}
    depth = {"depformer_dim": 1024, "depformer_num_heads": 16, "depformer_max_period": 8, "depformer_pos_emb": "rope"}
    model = load_config({**MOSHI, "positional_embedding": "rope", **depth})
    found = {(each.layer_type, each.part): (each.head_dim, each.parameters["base"]) for each in model}
    assert found == {("", ""): (128, 1e5), ("depformer", "depformer"): (64, 8.0)}
    compressed = {"compress_rope_theta": 1.6e5, "original_seq_len": 65536, "rope_factor": 16}
    model = load_config({"dim": 4096, "n_heads": 64, "head_dim": 512, "rope_head_dim": 64, **compressed})
    assert {
        each.layer_type: (each.parameters["base"], each.parameters["scaling"], each.trailing) for each in model
    } == {
        "main": (1e4, "none", True),
        "compress": (1.6e5, "yarn", True),
    }
    tower = {"hidden_size": 1024, "num_attention_heads": 16, "rope_theta": 1e4, "image_size": 1024, "patch_size": 16}
    assert by_layer({**PARAMS, "vision_encoder": tower})["vision"] == (64, 1e4, "none", "interleaved")
    sizes = {"image_size": {"height": 336, "width": 336}, "patch_size": {"height": 14, "width": 14}}
    found = by_layer({**PARAMS, "vision_args": {"dim": 1408, "n_heads": 16, **sizes}})
    assert (found["vision"], found["vision.patches"]) == ((88, 1e4, "none", "interleaved"), ("learned", 577, 1408))


@pytest.mark.parametrize("config", [{**NEOX, "pos_emb": "none"}, {**MOSHI, "positional_embedding": "none"}])
def test_no_encoding_is_said_and_unknown_kinds_are_refused(config: dict[str, Any]) -> None:
    model = load_config(config)
    assert not model.encodings
    assert any("is none: the model has no positional encoding" in warning for warning in model.warnings)
    key = "pos_emb" if "pos_emb" in config else "positional_embedding"
    with pytest.raises(pecli.FileError, match="is 'wibble'; known are "):
        load_config({**config, key: "wibble"})


def test_yaml(tmp_path: Path) -> None:
    path = tmp_path / "OLMo-7B.yaml"
    path.write_text("run_name: x\nmodel:\n  d_model: 4096\n  n_heads: 32\n  rope: true\n  alibi: false  # no\n")
    assert load_model(path).one().parameters["dim"] == 128
    for text in ("a: [", "- 1\n- 2\n", "a: !!python/object/apply:os.system [x]\n"):
        path.write_text(text)
        with pytest.raises(pecli.FileError):
            load_model(path)


def test_a_class_of_diffusers_that_rotates_otherwise_is_named() -> None:
    for name, said in {"MochiTransformer3DModel": "learned frequencies", "UNet2DModel": "is none of Flux"}.items():
        model = load_config({"_class_name": name})
        assert (model.encodings, name in model.warnings[0], said in model.warnings[0]) == ((), True, True)
