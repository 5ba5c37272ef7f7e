"""Settings of a longer context, against formulas of their own and against what runtimes make of them."""

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

import pecli
from pecli.models.presets import presets
from tests.tools.attack import Waves

MODELS = "llama-2-7b mistral-7b-v0.3 qwen2.5-7b qwen3-8b llama-3-8b gemma-2-9b olmo-2-7b tinyllama-1.1b smollm2-1.7b"


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runtimes, whose tables take seconds, are left out."""
    nothing = SimpleNamespace(layers=defaultdict(tuple))
    monkeypatch.setattr("pecli.checks.extend.runtimes", lambda model, length: nothing)


def intended(dim: int, base: float, method: str, factor: float, original: int, length: int) -> Waves:
    """The model with that scaling, by the papers' formulas."""
    if method == "dynamic":
        stretched = base * (factor * length / original - (factor - 1)) ** (dim / (dim - 2))
        return Waves(dim, stretched)
    return Waves(dim, base, {"type": method, "factor": factor, "original_max_position_embeddings": original})


@pytest.mark.parametrize("method", ["yarn", "linear", "ntk", "dynamic"])
@pytest.mark.parametrize("name", MODELS.split())
@pytest.mark.usefixtures("unmeasured")
@pytest.mark.sample(12)
def test_extend_printed_config_has_the_intended_frequencies(name: str, method: str) -> None:
    plain = pecli.load_model(name).one()
    found = pecli.extend(name, 131072 * 2, method)
    config = {**presets()[name].config, **found.config}
    config.setdefault("max_position_embeddings", found.original)
    for spelled in (config, {**presets()[name].config, "rope_parameters": found.rope_parameters}):
        read = pecli.load_config(spelled).one()
        waves = intended(plain.rotary_dim, plain.parameters["base"], method, found.factor, found.original, found.to)
        frequencies, amplitude = waves.frequencies()
        np.testing.assert_allclose(read.inverse_frequencies(found.to), frequencies, rtol=1e-12)
        assert read.attention_factor(found.to) == pytest.approx(amplitude, rel=1e-12)


@pytest.mark.usefixtures("unmeasured")
def test_extend_takes_what_the_makers_use() -> None:
    found = pecli.extend("qwen2.5-7b", 131072)
    assert found.rope_scaling == {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    assert "model card" in found.reason
    assert pecli.extend("gemma-3-12b", 262144).rope_scaling == {"rope_type": "linear", "factor": 16.0}
    found = pecli.extend("llama-3.1-8b", 262144)
    assert found.rope_scaling == {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 8192}
    assert found.notes[0].startswith("this replaces the model's own llama3 scaling")
    turns = 8192 / (2 * np.pi) * 500000.0 ** (-np.arange(64) / 64)  # yarn's ramp is from 32 turns down to 1
    whole = int((turns < 1).sum())
    assert (found.wavelengths()["stretched"], found.wavelengths()["largest"]) == (whole, pytest.approx(32.0))


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("yarn", "--rope-scaling yarn --rope-freq-base 1000000 --rope-freq-scale 0.125 --yarn-orig-ctx 32768"),
        ("linear", "--rope-scaling linear --rope-freq-base 1000000 --rope-freq-scale 0.125"),
        ("ntk", "--rope-scaling none --rope-freq-base 8268462.26406"),
    ],
)
def test_extend_llama_cpp_flags_say_what_its_runtime_computes(method: str, words: str) -> None:
    """The flags hold the numbers with which llama.cpp's own arithmetic makes the same table."""
    found = pecli.extend("qwen2.5-7b", 262144, method)
    assert found.commands["llama.cpp"].endswith(words)
    rope = found.after.rope(64, length=found.to, runtime="llama.cpp")
    waves = intended(128, 1e6, method, 8.0, 32768, found.to)
    cos, sin = waves.tables(64)
    tables = rope.tables()
    np.testing.assert_allclose(tables["cos"], cos, atol=1e-5)
    np.testing.assert_allclose(tables["sin"], sin, atol=1e-5)


def test_extend_says_which_runtimes_do_not_honour_it() -> None:
    results = {result.runtime: result for result in pecli.extend("llama-2-7b", 16384, "dynamic").runtimes}
    assert results["vllm"].departs
    assert results["llama.cpp"].lacks
    assert not results["transformers"].departs


def test_extend_command(pecli_cli, tmp_path, monkeypatch) -> None:
    picture = tmp_path / "waves.png"
    outcome = pecli_cli("extend", "qwen2.5-7b", "--to", 65536, "--json", "-o", picture)
    assert outcome.json["rope_scaling"]["factor"] == 2.0
    assert outcome.json["method"] == "yarn"
    assert {result["runtime"] for result in outcome.json["runtimes"]} >= {"transformers", "vllm", "llama.cpp", "mlx-lm"}
    assert picture.read_bytes()[:4] == b"\x89PNG"
    monkeypatch.setattr("pecli.checks.extend.runtimes", lambda model, length: SimpleNamespace(layers={"": ()}))
    said = pecli_cli("extend", "qwen2.5-7b", "--to", 131072).out
    assert '"rope_scaling": {"rope_type": "yarn", "factor": 4.0' in said


def test_an_extension_reads_as_the_command_prints_it() -> None:
    found = pecli.extend("qwen2.5-7b", 131072)
    assert repr(found) == "<Extension of qwen2.5-7b to 131,072 positions by yarn, factor 4>"
    assert "--yarn-orig-ctx 32768" in str(found)
    assert "131,072" in found._repr_html_()
