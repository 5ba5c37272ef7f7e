"""Settings of well-known models: all of them are read, and say what the models' papers and cards say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pecli.models.find import load_config
from pecli.models.presets import presets

MODELS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "models.json").read_text())

PLAIN = {  # head dim and base, all of it turning in halves, unscaled
    "meta-llama/Llama-2-7b-hf": (128, 1e4),
    "meta-llama/Meta-Llama-3-8B": (128, 5e5),
    "mistralai/Mistral-7B-v0.1": (128, 1e4),
    "mistralai/Mistral-7B-Instruct-v0.2": (128, 1e6),
    "mistralai/Mixtral-8x7B-v0.1": (128, 1e6),
    "Qwen/Qwen2.5-7B-Instruct": (128, 1e6),
    "Qwen/Qwen3-8B": (128, 1e6),
    "Qwen/Qwen2.5-VL-7B-Instruct": (128, 1e6),
    "microsoft/Phi-3-mini-4k-instruct": (96, 1e4),
    "google/gemma-2-2b": (256, 1e4),
    "tiiuae/falcon-7b": (64, 1e4),
}
TURNING: dict[str, dict[str, tuple[Any, ...]]] = {
    **{name: {"": (size, base, "none", "halves")} for name, (size, base) in PLAIN.items()},
    "meta-llama/Llama-3.1-8B-Instruct": {"": (128, 5e5, "llama3", "halves")},
    "meta-llama/Llama-3.2-1B-Instruct": {"": (64, 5e5, "llama3", "halves")},
    "microsoft/phi-2": {"": (32, 1e4, "none", "halves")},
    "microsoft/Phi-3-mini-128k-instruct@2024-04": {"": (96, 1e4, "longrope", "halves")},
    "google/gemma-3-1b-it": {
        "full_attention": (256, 1e6, "none", "halves"),
        "sliding_attention": (256, 1e4, "none", "halves"),
    },
    "google/gemma-3-12b-it": {
        "full_attention": (256, 1e6, "linear", "halves"),
        "sliding_attention": (256, 1e4, "none", "halves"),
    },
    "EleutherAI/gpt-j-6B": {"": (64, 1e4, "none", "interleaved")},
    "EleutherAI/gpt-neox-20b": {"": (24, 1e4, "none", "halves")},
    "EleutherAI/pythia-160m": {"": (16, 1e4, "none", "halves")},
    "deepseek-ai/DeepSeek-V3": {"": (64, 1e4, "yarn", "deepseek")},
    "NousResearch/Yarn-Llama-2-7b-64k": {"": (128, 1e4, "yarn", "halves")},
    "openai/gpt-oss-20b": {"": (64, 150000.0, "yarn", "halves")},
    "THUDM/glm-4-9b-chat": {"": (64, 5e6, "none", "interleaved")},
    "answerdotai/ModernBERT-base": {
        "full_attention": (64, 160000.0, "none", "halves"),
        "sliding_attention": (64, 1e4, "none", "halves"),
    },
}
OTHERS: dict[str, dict[str, dict[str, Any]]] = {
    "tiiuae/falcon-rw-1b": {"": {"scheme": "alibi", "heads": 32, "max_bias": 8, "form": "key"}},
    "bigscience/bloom": {"": {"scheme": "alibi", "heads": 112, "max_bias": 8, "form": "key"}},
    "bigscience/bloom-560m": {"": {"scheme": "alibi", "heads": 16, "max_bias": 8, "form": "key"}},
    "mosaicml/mpt-7b": {"": {"scheme": "alibi", "heads": 32, "max_bias": 8, "form": "key-last"}},
    "openai-community/gpt2": {"": {"scheme": "learned", "max_len": 1024, "dim": 768, "std": 0.02}},
    "google-bert/bert-base-uncased": {"": {"scheme": "learned", "max_len": 512, "dim": 768, "std": 0.02}},
    "google/vit-base-patch16-224": {"": {"scheme": "learned", "max_len": 14 * 14 + 1, "dim": 768}},
    "openai/clip-vit-base-patch32": {
        "": {"scheme": "learned", "max_len": 77, "dim": 512},
        "vision": {"scheme": "learned", "max_len": 7 * 7 + 1, "dim": 768},
    },
    "openai/whisper-tiny": {
        "encoder": {"scheme": "sinusoidal", "seq_len": 1500, "dim": 384},
        "decoder": {"scheme": "learned", "max_len": 448, "dim": 384},
    },
}


def test_every_model_is_expected() -> None:
    assert {*TURNING, *OTHERS} == {*MODELS}


@pytest.mark.parametrize("name", TURNING)
def test_what_turns(name: str) -> None:
    found = {
        each.layer_type: (each.rotary_dim, each.parameters["base"], each.parameters["scaling"], each.layout)
        for each in load_config(MODELS[name]["config"]).encodings
    }
    assert found == TURNING[name]


@pytest.mark.parametrize("name", OTHERS)
def test_what_turns_nothing(name: str) -> None:
    found = load_config(MODELS[name]["config"]).encodings
    assert [each.layer_type for each in found] == [*OTHERS[name]]
    for each in found:
        expected = OTHERS[name][each.layer_type]
        assert {key: {"scheme": each.scheme, **each.parameters}[key] for key in expected} == expected


def test_presets_are_those_settings_and_none_is_from_memory() -> None:
    confirmed = {name: model["config"] for name, model in MODELS.items() if "memory" not in model["source"]}
    found = {preset.repository: preset for preset in presets().values()}
    assert {name: found[name].config for name in confirmed} == confirmed
    assert all(preset.source and "memory" not in preset.source for preset in found.values())
