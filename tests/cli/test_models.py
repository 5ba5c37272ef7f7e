"""Presets and configurations as the source of tables: `pecli rope --model`, and the list `pecli models`.

Also schemes that are made from words, as `pecli plot` parses them. Expected parameters are those of
the models' own config.json (Llama 3.1, Gemma 3, …), repeated in the tests.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import pecli
from pecli.cli.scheme_options import parse_scheme
from pecli.errors import ParameterError
from tests.exit_codes import SUCCESS

LLAMA = {
    "model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "rope_theta": 500000.0,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192},
}  # fmt: skip
GEMMA = {
    "model_type": "gemma3_text", "hidden_size": 256, "num_attention_heads": 4, "head_dim": 64, "rope_theta": 1e6,
    "rope_local_base_freq": 10000.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}  # fmt: skip


@pytest.fixture(autouse=True)
def configs(working_folder):
    for name, config in {"llama": LLAMA, "gemma": GEMMA}.items():
        Path(f"{name}.json").write_text(json.dumps(config))


def test_a_config_gives_the_scaled_tables(run_pecli) -> None:
    words = ("rope", "--config", "llama.json", "--seq-len", 40, "--offset", 9000)
    assert run_pecli(*words, "-o", "t.safetensors").exit_code == SUCCESS

    options = {key: value for key, value in LLAMA["rope_scaling"].items() if key != "rope_type"}
    expected = pecli.Rope(40, 64, 500000.0, 9000, scaling="llama3", **options).tables()
    found = load_file("t.safetensors")

    for name in ("cos", "sin", "inv_freq"):
        assert np.array_equal(found[name], expected[name])
    assert run_pecli("verify", "t.safetensors").exit_code == SUCCESS
    assert run_pecli(*words, "--verify", "t.safetensors").exit_code == SUCCESS


def test_several_kinds_of_layers_are_all_written_or_one(run_pecli) -> None:
    """Gemma 3's sliding layers have base 10000, and its full layers 1e6 with linear scaling by 8."""
    words = ["rope", "--config", "gemma.json", "--seq-len", 8]
    assert run_pecli(*words, "-o", "t.safetensors").exit_code == SUCCESS

    found = load_file("t.safetensors")
    assert np.array_equal(found["sliding_attention.cos"], pecli.Rope(8, 64).tables()["cos"])

    full = pecli.Rope(8, 64, 1e6, scaling="linear", factor=8.0)
    assert np.array_equal(found["full_attention.sin"], full.tables()["sin"])
    assert run_pecli("verify", "t.safetensors").exit_code == SUCCESS
    assert (
        run_pecli(*words, "--layer-type", "sliding_attention", "-o", "t.npy").exit_code == SUCCESS
    )
    assert np.array_equal(np.load("t.npy")[0], pecli.Rope(8, 64).tables()["cos"])

    shown = run_pecli(*words).out
    assert "full_attention\nrope " in shown
    assert "sliding_attention\nrope " in shown


def test_options_override_what_the_model_says(run_pecli) -> None:
    """A note on standard error states each difference from the model."""
    words = ("rope", "--model", "qwen2.5-7b", "--seq-len", 16)
    made = run_pecli(*words, "--theta", "500000", "-o", "t.npz")

    assert made.exit_code == SUCCESS
    assert made.err == "pecli: note: not as qwen2.5-7b has it: --theta 500000 instead of 1000000\n"

    expected = pecli.Rope(16, 128, 500000.0).tables()["cos"]
    assert np.array_equal(np.load("t.npz")["cos"], expected)

    scaled = run_pecli(*words, "--scaling", "yarn", "--factor", 4, "--json")
    parameters = scaled.json["parameters"]
    assert parameters["scaling"] == "yarn"
    assert parameters["factor"] == 4
    assert parameters["base"] == 1000000
    assert parameters["original_max_position_embeddings"] == 32768  # the model's own context
    assert "--scaling yarn instead of none, --factor 4" in scaled.err

    plain = run_pecli(
        "rope", "--model", "llama-3.1-8b", "--seq-len", 16, "--scaling", "none", "--json"
    ).json
    assert plain["parameters"]["scaling"] == "none"
    assert plain["parameters"]["factor"] is None


def test_one_object_names_all_presets_and_their_sources(run_pecli) -> None:
    outcome = run_pecli("models", "--json")
    assert outcome.exit_code == SUCCESS

    models = outcome.json["models"]
    by_name = {model["name"]: model for model in models}
    assert by_name["llama-3.1-8b"]["repository"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert by_name["llama-3.1-8b"]["context"] == 131072
    assert "meta-llama/Llama-3.1-8B" in by_name["llama-3.1-8b"]["aliases"]
    assert by_name["gpt2"]["encodings"][0]["parameters"]["max_len"] == 1024
    assert all(model["source"] for model in models)

    families = [model["family"] for model in models]
    assert families == [
        name for family in dict.fromkeys(families) for name in [family] * families.count(family)
    ]


def test_a_person_sees_a_table_by_family(run_pecli, monkeypatch) -> None:
    outcome = run_pecli("models")
    assert outcome.exit_code == SUCCESS
    assert "…" not in outcome.out

    (line,) = (
        line.split() for line in outcome.out.splitlines() if line.split()[0] == "llama-3.1-8b"
    )
    assert line[1:7] == ["131,072", "rope", "128,", "base", "500000", "llama3"]

    monkeypatch.setattr("pecli.views.screen.is_terminal", lambda: True)
    shown = run_pecli("models").out
    assert (
        shown.index("Llama ")
        < shown.index("llama-3.1-8b")
        < shown.index("Qwen ")
        < shown.index("qwen3-8b")
    )


def test_words_make_the_scheme_that_python_makes() -> None:
    words = ["--seq-len", "8", "--dim=4", "--theta", "500", "--layout", "halves"]
    parsed = parse_scheme("rope", words, {})

    assert parsed.scheme == pecli.Rope(8, 4, base=500.0, layout="halves")
    assert parsed.model is None
    assert parsed.layer_type is None


def test_the_words_for_one_of_several_schemes_fall_back_to_defaults() -> None:
    defaults = {"seq_len": "16", "heads": "4", "dim": "6"}
    sinusoidal = pecli.Sinusoidal(16, 4, cos_first=True)

    assert parse_scheme("sinusoidal", ["--dim", "4", "--cos-first"], defaults).scheme == sinusoidal
    assert parse_scheme("alibi", [], defaults).scheme == pecli.Alibi(4, 16)

    model = pecli.load_model("llama-3.1-8b").one()
    parsed = parse_scheme("rope", ["--model", "llama-3.1-8b"], defaults)
    assert parsed.scheme == model.rope(16)
    assert parsed.model == "llama-3.1-8b"
    assert parsed.layer_type is None
    with pytest.raises(ParameterError, match="dim is missing"):
        parse_scheme("sinusoidal", [], {})
