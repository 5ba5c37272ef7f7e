"""Dialects of configurations other than Hugging Face's: what their own code computes, and what it defaults to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.models.find import load_config, load_model

CASES = json.loads((Path(__file__).parent / "data" / "dialects.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_dialect_means_what_its_own_code_computes(case: dict[str, Any]) -> None:
    ropes = {encoding.layer_type: encoding for encoding in load_config(case["config"]) if encoding.is_rotary}
    for expected in case["expected"]["encodings"]:
        encoding = ropes.pop(expected["layer"].partition("@")[0])
        np.testing.assert_allclose(encoding.inverse_frequencies(), expected["inv_freq"], rtol=2e-5)
        assert encoding.attention_factor() == pytest.approx(expected["attention_factor"], rel=1e-6)
        assert expected["layout"] in (None, encoding.layout)
    assert not ropes


PARAMS = {"dim": 4096, "n_heads": 32, "n_layers": 32}
LATENT = {"dim": 2048, "n_heads": 16, "inter_dim": 10944, "kv_lora_rank": 512}
NEOX = {"hidden_size": 768, "num_attention_heads": 12, "max_position_embeddings": 2048, "pipe_parallel_size": 1}
MOSHI = {"dim": 2560, "num_heads": 20, "max_period": 1e5}
OLMO = {"d_model": 2048, "n_heads": 16, "block_type": "sequential"}
GPT_OSS = {"hidden_size": 2880, "head_dim": 64, "num_attention_heads": 64, "initial_context_length": 4096}
YARN = {"factor": 16.0, "original_max_position_embeddings": 8192, "alpha": 1, "beta": 32}

READ: dict[str, tuple[dict[str, Any], str, str, dict[str, Any]]] = {
    "Meta": (PARAMS, "rope", "interleaved", {"dim": 128, "base": 10000.0, "scaling": "none"}),
    "Meta, Llama 3.1": (
        {**PARAMS, "rope_theta": 5e5, "use_scaled_rope": True, "rope_scale_factor": 32},
        "rope",
        "interleaved",
        {"base": 5e5, "scaling": "llama3", "factor": 32.0, "original_max_position_embeddings": 8192},
    ),
    "Mistral": (
        {**PARAMS, "head_dim": 64, "yarn": {**YARN, "apply_scale": False}},
        "rope",
        "interleaved",
        {"dim": 64, "scaling": "yarn", "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": 1.0},
    ),
    "DeepSeek within its first context": (
        {**LATENT, "max_seq_len": 4096, "rope_theta": 2e4},
        "rope",
        "interleaved",
        {"dim": 64, "base": 2e4, "scaling": "none"},
    ),
    "DeepSeek beyond it": (
        {**LATENT, "max_seq_len": 8192, "rope_factor": 2.0},
        "rope",
        "interleaved",
        {"scaling": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096, "attention_factor": 1.0},
    ),
    "executorch without halves": (
        {**PARAMS, "use_hf_rope": False, "use_scaled_rope": True, "high_freq_factor": 2},
        "rope",
        "interleaved",
        {"scaling": "llama3", "factor": 8.0, "high_freq_factor": 2.0},
    ),
    "NeoX": ({**NEOX, "pos_emb": "rotary", "rotary_emb_base": 5e5}, "rope", "halves", {"dim": 64, "base": 5e5}),
    "NeoX with hyphens": (
        {"hidden-size": 768, "num-attention-heads": 12, "pos-emb": "rotary", "rotary-pct": 0.25},
        "rope",
        "halves",
        {"dim": 64, "partial_rotary_factor": 0.25},
    ),
    "NeoX without a word": (NEOX, "learned", "", {"max_len": 2048, "dim": 768}),
    "NeoX with OPT's offset": ({**NEOX, "opt_pos_emb_offset": 2}, "learned", "", {"max_len": 2050}),
    "NeoX, ALiBi": ({**NEOX, "pos_emb": "alibi"}, "alibi", "", {"heads": 12, "rule": "paper", "max_bias": 8.0}),
    "NeoX, T5's buckets": ({**NEOX, "pos_emb": "rpe"}, "relative", "", {"buckets": 32, "max_distance": 128}),
    "Moshi": ({**MOSHI, "positional_embedding": "rope"}, "rope", "interleaved", {"dim": 128, "base": 1e5}),
    "Moshi, concatenated": ({**MOSHI, "positional_embedding": "rope_concat"}, "rope", "halves", {"base": 1e5}),
    "Moshi, added": (
        {**MOSHI, "positional_embedding": "sin", "context": 3000},
        "sinusoidal",
        "",
        {"seq_len": 3000, "dim": 2560, "base": 1e5, "cos_first": True, "freq_shift": 1.0, "layout": "halves"},
    ),
    "OLMo of a training run": ({"model": {**OLMO, "rope": True, "rope_theta": 5e5}}, "rope", "halves", {"base": 5e5}),
    "OLMo, ALiBi": ({**OLMO, "alibi": True}, "alibi", "", {"heads": 16, "rule": "naive"}),
    "OLMo, neither": ({**OLMO, "rope": False, "max_sequence_length": 2048}, "learned", "", {"max_len": 2048}),
    "gpt-oss": (
        {**GPT_OSS, "rope_theta": 150000, "rope_scaling_factor": 32.0, "rope_ntk_alpha": 1, "rope_ntk_beta": 32},
        "rope",
        "halves",
        {"dim": 64, "base": 150000.0, "scaling": "yarn", "factor": 32.0, "truncate": False},
    ),
    "MLC": (
        {
            "model_type": "llama",
            "context_window_size": 4096,
            "model_config": {"hidden_size": 4096, "num_attention_heads": 32, "position_embedding_base": 5e5},
        },
        "rope",
        "halves",
        {"dim": 128, "base": 5e5},
    ),
    "VILA": (
        {"model_type": "llava_llama", "llm_cfg": {"model_type": "qwen2", "head_dim": 128, "rope_theta": 1e6}},
        "rope",
        "halves",
        {"dim": 128, "base": 1e6},
    ),
    "architectures in place of a model_type": (
        {"architectures": ["CohereForCausalLM"], "hidden_size": 8192, "num_attention_heads": 64, "rope_theta": 8e6},
        "rope",
        "interleaved",
        {"dim": 128, "base": 8e6},
    ),
}


@pytest.mark.parametrize("name", READ)
def test_keys_of_a_dialect(name: str) -> None:
    config, scheme, layout, parameters = READ[name]
    (encoding,) = load_config(config)
    assert (encoding.scheme, encoding.layout or "") == (scheme, layout)
    assert {key: encoding.parameters.get(key) for key in parameters} == parameters


def test_layers_of_executorch_have_bases_of_their_own() -> None:
    model = load_config({**PARAMS, "use_hf_rope": True, "rope_theta": 1e6, "local_rope_theta": 1e4})
    assert {each.layer_type: each.parameters["base"] for each in model} == {
        "full_attention": 1e6,
        "sliding_attention": 1e4,
    }
    model = load_config({**PARAMS, "no_rope_layer_interval": 4})
    assert model.one().extra["nope_layers"] == [3, 7, 11, 15, 19, 23, 27, 31]


def test_yaml(tmp_path: Path) -> None:
    path = tmp_path / "OLMo-7B.yaml"
    path.write_text("run_name: x\nmodel:\n  d_model: 4096\n  n_heads: 32\n  rope: true\n  alibi: false  # no\n")
    assert load_model(path).one().parameters["dim"] == 128
    for text in ("a: [", "- 1\n- 2\n", "a: !!python/object/apply:os.system [x]\n"):
        path.write_text(text)
        with pytest.raises(pecli.FileError):
            load_model(path)


FREQUENCIES = json.loads((Path(__file__).parent / "data" / "diffusers_frequencies.json").read_text())


@pytest.mark.parametrize("name", FREQUENCIES)
def test_axes_of_diffusers_have_frequencies_of_their_own(name: str) -> None:
    config = {"_class_name": name}
    if name.startswith("HiDream"):
        config |= {"axes_dims_rope": [64, 32, 32]}
    (encoding,) = load_config(config)
    np.testing.assert_allclose(encoding.inverse_frequencies(), FREQUENCIES[name], rtol=2e-5)
    assert encoding.layout == "interleaved"
    (other,) = load_config({**config, "rope_theta": 3.0})
    assert other.inverse_frequencies() != encoding.inverse_frequencies()


def test_a_class_of_diffusers_that_rotates_otherwise_is_named() -> None:
    model = load_config({"_class_name": "LTXVideoTransformer3DModel"})
    assert not model.encodings
    assert "fractions of a video" in model.warnings[0]
