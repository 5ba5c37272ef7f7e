"""Settings of a longer context, against formulas of their own and against what runtimes make of them."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

import pecli
from pecli.errors import ParameterError
from pecli.models.presets import presets
from pecli.views.drift_pictures import extension_picture

MODELS = "llama-2-7b mistral-7b-v0.3 qwen2.5-7b qwen3-8b llama-3-8b gemma-2-9b olmo-2-7b tinyllama-1.1b smollm2-1.7b"
MODELS += " llama-3.1-8b gpt-neox-20b gpt-oss-20b deepseek-v3"
BARE = {
    "model_type": "llava",
    "text_config": {"model_type": "llama", "max_position_embeddings": 4096},
}  # no base
NESTED = (
    "bare qwen3-vl-2b devstral-small-2-24b qwen2.5-vl-7b gemma-3-4b ministral-3-3b voxtral-mini-3b"
)
LENGTH = 262144
FULL, SLIDING = "full_attention", "sliding_attention"
EXTENDED = np.load(Path(__file__).parent / "data" / "extended.npz")


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runtimes, whose tables take seconds, are left out."""
    nothing = SimpleNamespace(layers=defaultdict(tuple))
    monkeypatch.setattr("pecli.checks.extend.runtimes", lambda model, length: nothing)


@pytest.mark.parametrize("method", ["yarn", "linear", "ntk", "dynamic"])
@pytest.mark.parametrize("name", MODELS.split())
@pytest.mark.usefixtures("unmeasured")
@pytest.mark.sample(12)
def test_extend_printed_config_has_the_frequencies_of_transformers(name: str, method: str) -> None:
    """extended.npz: inv_freq and attention_scaling of the rotary modules of transformers 5.22.2, made of these configs
    by AutoConfig.for_model and called with the last position; float32."""
    found = pecli.extend(name, LENGTH, method)
    plain = {key: value for key, value in presets()[name].config.items() if key != "rope_scaling"}
    for config in ({**presets()[name].config, **found.config}, {**plain, **found.newer_config}):
        read = pecli.load_config(config).one()
        expected = EXTENDED[f"{name} {method} inv_freq"]
        np.testing.assert_allclose(read.inverse_frequencies(LENGTH), expected, rtol=1e-6)
        np.testing.assert_allclose(found.after.inverse_frequencies(LENGTH), expected, rtol=1e-6)
        attention = float(EXTENDED[f"{name} {method} attention_factor"])
        assert read.attention_factor(LENGTH) == pytest.approx(attention, rel=1e-9)


@pytest.mark.usefixtures("unmeasured")
def test_extend_prints_keys_of_hugging_face_for_configs_of_others() -> None:
    """The base times the factor to the power of d / (d − 2), under a name that goes with `rope_scaling`."""
    litgpt = {
        "n_embd": 256,
        "n_head": 4,
        "rotary_percentage": 1.0,
        "rope_base": 500,
        "rope_condense_ratio": 2,
    }
    found, base = (
        pecli.extend({**litgpt, "max_position_embeddings": 4096}, 16384, "ntk"),
        500 * 8 ** (64 / 62),
    )
    expected = {"rope_theta": pytest.approx(base), "rope_scaling": {"rope_type": "default"}}
    assert found.config == {**expected, "max_position_embeddings": 16384}
    assert found.gguf == {"rope.freq_base": pytest.approx(base), "context_length": 16384}
    gguf = Path(__file__).parents[1] / "files" / "data" / "tiny.gguf"
    assert pecli.extend(str(gguf), LENGTH, "linear").config.keys() == {"rope_scaling"}


@pytest.mark.usefixtures("unmeasured")
def test_extend_takes_what_the_makers_use() -> None:
    found = pecli.extend("qwen2.5-7b", 131072)
    assert found.rope_scaling == {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
    }
    assert "model card" in found.reason
    assert pecli.extend("qwen2.5-7b", 131072, "yarn").reason == ""
    assert pecli.extend("gemma-3-12b", 262144).rope_scaling == {
        "rope_type": "linear",
        "factor": 16.0,
    }
    found = pecli.extend("llama-3.1-8b", 262144)
    assert found.rope_scaling == {
        "rope_type": "yarn",
        "factor": 32.0,
        "original_max_position_embeddings": 8192,
    }
    assert found.notes[0].startswith("this replaces the model's own llama3 scaling")
    turns = (
        8192 / (2 * np.pi) * 500000.0 ** (-np.arange(64) / 64)
    )  # yarn's ramp is from 32 turns down to 1
    whole = int((turns < 1).sum())
    assert (found.wavelengths()["stretched"], found.wavelengths()["largest"]) == (
        whole,
        pytest.approx(32.0),
    )


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize(
    ("name", "method", "expected"),
    [
        ("phi-2", "yarn", {"": ("yarn", 10000.0, 0.4)}),
        ("minimax-m2", "yarn", {"": ("yarn", 5e6, 0.5)}),
        ("phi-4-mini", "ntk", {"": ("default", 10000.0 * 64 ** (96 / 94), 0.75)}),
        ("gemma-3-12b", "linear", {FULL: ("linear", 1e6, None), SLIDING: ("default", 1e4, None)}),
        ("olmo-3.1-32b", "yarn", {FULL: ("yarn", 5e5, None), SLIDING: ("default", 5e5, None)}),
        ("modernbert-base", "yarn", {FULL: ("yarn", 16e4, None), SLIDING: ("default", 1e4, None)}),
    ],
)
def test_extend_vllm_overrides_hold_all_that_they_replace(
    name: str, method: str, expected: dict[str, Any]
) -> None:
    """--hf-overrides sets `rope_parameters` whole; what vLLM's maximum is derived from has to reach the length."""
    found = pecli.extend(name, LENGTH, method)
    settings = json.loads(found.commands["vllm"].split("'")[1])
    layers = settings["rope_parameters"] if len(expected) > 1 else {"": settings["rope_parameters"]}
    read = {
        key: (own["rope_type"], own["rope_theta"], own.get("partial_rotary_factor"))
        for key, own in layers.items()
    }
    assert read == {
        key: (kind, pytest.approx(base), part) for key, (kind, base, part) in expected.items()
    }
    assert settings["max_position_embeddings"] == LENGTH
    config = pasted({**presets()[name].config, "rope_scaling": None}, found.newer_config)
    assert len(pecli.load_config(config)) == len(expected)


def test_extend_of_a_model_whose_gguf_keeps_factors_asks_for_another_conversion() -> None:
    found = pecli.extend("llama-3.1-8b", LENGTH)
    assert str(found).startswith(
        "llama-3.1-8b: 131,072 → 262,144 positions by yarn, factor 32 of the original 8,192\n"
    )
    assert found.commands["llama.cpp"].startswith("convert_hf_to_gguf.py ")
    assert "--rope" not in found.commands["llama.cpp"]
    assert "rope_freqs.weight" in found.notes[-1]
    figure = extension_picture(found)
    assert f"{found.model}: wavelength of each rotary pair" in [
        text.get_text() for text in figure.findobj(Text)
    ]
    labels = [text.get_text().split() for axes in figure.axes for text in axes.texts]
    assert {label[-1] for label in labels} >= {"131,072", "262,144"}
    assert "262,144" in found._repr_html_()
    (notes,) = (result.notes for result in found.runtimes if result.runtime == "llama.cpp")
    assert notes[-1] == "of a .gguf that is converted again"


def pasted(config: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The config with these settings, each where it belongs."""
    parts = {
        key: pasted(config[key], value)
        for key, value in settings.items()
        if key.endswith("_config")
    }
    return {**config, **settings, **parts}


@pytest.mark.parametrize("method", ["yarn", "linear", "ntk", "dynamic"])
@pytest.mark.parametrize("name", NESTED.split())
@pytest.mark.usefixtures("unmeasured")
@pytest.mark.sample(12)
def test_extend_settings_are_printed_where_the_config_has_its_own(name: str, method: str) -> None:
    """In the part of the language model, as rope_parameters where these are in use, with M-RoPE's sections."""
    config = BARE if name == "bare" else presets()[name].config
    found = pecli.extend(config, 2**23, method)
    before = pecli.load_config(config).one(found.before.layer_type)
    read = pecli.load_config(pasted(config, found.config)).one(found.before.layer_type)
    ours, after, given = (
        encoding.inverse_frequencies(2**23) for encoding in (read, found.after, before)
    )
    assert ours == after != given
    assert read.sections.mrope_section == before.sections.mrope_section


@pytest.mark.parametrize(
    ("name", "method", "rule"),
    [("phi-4", "yarn", "longrope"), ("gemma-4-e2b", None, "proportional")],
)
def test_extend_refuses_what_the_config_cannot_say(
    name: str, method: str | None, rule: str
) -> None:
    with pytest.raises(ParameterError, match=rule):
        pecli.extend(name, 2**23, method)


def by_flags(
    flags: dict[str, str], positions: np.ndarray, pairs: int
) -> tuple[np.ndarray, np.ndarray]:
    """What llama.cpp makes of its flags: ggml_rope_yarn, rope_yarn_ramp and ggml_rope_yarn_corr_dims, in float64."""
    base, scale = float(flags["--rope-freq-base"]), float(flags.get("--rope-freq-scale", 1))
    theta = positions[:, None] * base ** (-np.arange(pairs) / pairs)
    if flags["--rope-scaling"] != "yarn":
        return np.cos(scale * theta), np.sin(scale * theta)
    context = float(flags["--yarn-orig-ctx"])
    fast, slow = (pairs * np.log(context / (beta * 2 * np.pi)) / np.log(base) for beta in (32, 1))
    low, high = max(0, np.floor(fast)), min(2 * pairs - 1, np.ceil(slow))
    mix = 1 - np.clip((np.arange(pairs) - low) / max(0.001, high - low), 0, 1)
    angle, magnitude = scale * theta * (1 - mix) + theta * mix, 1 + 0.1 * np.log(1 / scale)
    return magnitude * np.cos(angle), magnitude * np.sin(angle)


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize("method", ["yarn", "linear", "ntk"])
@pytest.mark.parametrize("name", ["qwen2.5-7b", "llama-2-7b", "gemma-2-9b"])
def test_extend_llama_cpp_flags_say_what_its_runtime_computes(name: str, method: str) -> None:
    found = pecli.extend(name, LENGTH, method)
    words = found.commands["llama.cpp"].split()
    flags = dict(pairwise(words))
    assert (flags["-c"], flags["--rope-scaling"]) == (
        str(LENGTH),
        "none" if method == "ntk" else method,
    )
    read = pecli.load_config({**presets()[name].config, **found.config}).one()
    tables = read.rope(64, length=LENGTH, runtime="llama.cpp").tables()
    cos, sin = by_flags(flags, np.arange(64), read.rotary_dim // 2)
    np.testing.assert_allclose(tables["cos"], cos, atol=3e-5)
    np.testing.assert_allclose(tables["sin"], sin, atol=3e-5)


def test_extend_says_which_runtimes_do_not_honour_it() -> None:
    results = {
        result.runtime: result for result in pecli.extend("llama-2-7b", 16384, "dynamic").runtimes
    }
    assert results["vllm"].departs
    assert results["llama.cpp"].lacks
    assert not results["transformers"].departs


def test_extend_command(pecli_cli, tmp_path, monkeypatch) -> None:
    picture = tmp_path / "waves.png"
    outcome = pecli_cli("extend", "qwen2.5-7b", "--to", 65536, "--json", "-o", picture)
    assert outcome.json["rope_scaling"]["factor"] == 2.0
    assert outcome.json["method"] == "yarn"
    assert {result["runtime"] for result in outcome.json["runtimes"]} >= {
        "transformers",
        "vllm",
        "llama.cpp",
        "mlx-lm",
    }
    assert picture.read_bytes()[:4] == b"\x89PNG"
    monkeypatch.setattr(
        "pecli.checks.extend.runtimes", lambda model, length: SimpleNamespace(layers={"": ()})
    )
    said, found = (
        pecli_cli("extend", "qwen2.5-7b", "--to", 131072).out,
        pecli.extend("qwen2.5-7b", 131072),
    )
    assert '"rope_scaling": {"rope_type": "yarn", "factor": 4.0' in said
    assert "--yarn-orig-ctx 32768" in said
    assert repr(found) == "<Extension of qwen2.5-7b to 131,072 positions by yarn, factor 4>"
