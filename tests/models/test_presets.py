"""The presets: found by every name that people have for them, each with where its values were read."""

from __future__ import annotations

import pytest

from pecli.cli.options import preset_names
from pecli.models.find import load_model
from pecli.models.presets import _by_key, _key, advice, find, presets

FAMILIES = {
    *("Llama", "Qwen", "Gemma", "DeepSeek", "gpt-oss", "Mistral", "Phi", "SmolLM", "OLMo", "GLM", "Kimi", "Granite"),
    *("Command", "MiniMax", "Falcon", "EXAONE", "Whisper", "Embedders", "Vision towers", "Diffusion transformers"),
}


def test_eighty_models_of_the_families_that_people_run() -> None:
    assert len(presets()) >= 80
    assert {preset.family for preset in presets().values()} >= FAMILIES


def test_no_two_presets_share_a_name() -> None:
    """A name of one that is an alias of another would be found or not by the order of the list."""
    seen: dict[str, str] = {}
    for preset in presets().values():
        for name in (preset.name, preset.repository, *preset.aliases):
            assert seen.setdefault(_key(name), preset.name) == preset.name, name
            assert find(name) is preset
    assert len(_by_key()) >= len(seen)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("llama3.1", "llama-3.1-8b"),
        ("llama3.1:8b", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("META-LLAMA/LLAMA-3.3-70B-INSTRUCT", "llama-3.3-70b"),
        ("Qwen/Qwen3-Next-80B-A3B-Thinking", "qwen3-next-80b-a3b"),
        ("qwen3_0.6b", "qwen3-0.6b"),
        ("gpt-oss", "gpt-oss-20b"),
        ("google/gemma-3-27b-it", "gemma-3-27b"),
        ("phi4", "phi-4"),
        ("DeepSeek-R1", "deepseek-r1"),
        ("command-r+", "command-r-plus"),
        ("CohereForAI/c4ai-command-r-v01", "command-r"),
        ("granite3.1:2b", "granite-3.1-2b"),
        ("MiniMaxAI/MiniMax-M2", "minimax-m2"),
        ("Ministral-8B-Instruct-2410", "ministral-8b-2410"),
        ("flux.1-schnell", "flux.1-dev"),
        ("Wan-AI/Wan2.1-T2V-14B", "wan2.1-t2v-14b"),
    ],
)
def test_names_as_people_type_them(word: str, name: str) -> None:
    found = find(word)
    assert found is not None
    assert found.name == name


def test_the_nearest_is_offered() -> None:
    assert advice("lama-3.1-8b") == "did you mean 'llama-3.1-8b'?"
    assert advice("Qwen/Qwen3-VL") == "these have it: qwen3-vl-2b, qwen3-vl-4b, qwen3-vl-30b-a3b"
    assert advice("tiiuae/Falcon-H1-7B-Instruct") == "did you mean 'falcon-h1-0.5b'?"
    assert advice("minimax") == "these have it: minimax-text-01, minimax-m1, minimax-m2"
    assert advice("xyzzy") == ""


READ_ELSEWHERE = {
    # slime, scripts/models: --kv-channels, --rotary-base, --max-position-embeddings
    "llama-3.1-8b": (128, 500000, 131072),
    "llama-3.2-3b": (128, 500000, 131072),
    # fairseq2 0.8.1, models/qwen/config.py
    "qwen3-0.6b": (128, 1000000, 40960),
    # config.json quoted in citsjtu2020/LLM-Prof
    "qwen2.5-3b": (128, 1000000, 32768),
    "qwen2.5-14b": (128, 1000000, 131072),
    "qwen3-14b": (128, 1000000, 40960),
    "qwen3-32b": (128, 1000000, 40960),
    "qwen3-30b-a3b": (128, 1000000, 40960),
    # AI-Hypercomputer/maxtext, hf_model_configs.py
    "deepseek-v3": (64, 10000, 163840),
    "qwen3-30b-a3b-2507": (128, 10000000, 262144),
    "qwen3-235b-a22b-2507": (128, 5000000, 262144),
    "mixtral-8x22b": (128, 1000000, 65536),
    # litgpt 0.5.13, config.py
    "phi-4": (128, 250000, 16384),
    "mistral-7b-v0.3": (128, 1000000, 32768),
    # ibm-fms 1.13.1, fms/models/ministral3.py, for the context; megatron-bridge 0.3.1 for the rest
    "ministral-3-14b": (128, 1000000000, 262144),
    # config.json of DeepSeek-V3, of which DeepSeek-R1 has the architecture
    "deepseek-r1": (64, 10000, 163840),
}
"""Rotary dimension, base and context, as another file than the preset's source has them."""


@pytest.mark.parametrize("name", READ_ELSEWHERE)
def test_values_agree_with_another_source(name: str) -> None:
    encoding = load_model(name).one()
    context = load_model(name).context
    assert (encoding.rotary_dim, encoding.parameters["base"], context) == READ_ELSEWHERE[name]


def test_a_shell_completes_names_and_repositories() -> None:
    assert preset_names("llama-3.1") == ["llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b"]
    assert preset_names("Whisper") == ["whisper-tiny", "whisper-large-v3"]
    assert "Qwen/Qwen3-8B" in preset_names("qwen/")
    assert preset_names("nothing-") == []
