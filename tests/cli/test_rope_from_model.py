"""`pecli rope --config` and `--model`: tables as a model uses them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import pecli

LLAMA = {
    "model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "rope_theta": 500000.0,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192},
}  # fmt: skip
GEMMA = {
    "model_type": "gemma3_text", "hidden_size": 256, "num_attention_heads": 4, "head_dim": 64, "rope_theta": 1e6,
    "rope_local_base_freq": 10000.0, "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}  # fmt: skip


@pytest.fixture
def config(tmp_path):
    def write(value) -> str:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(value))
        return str(path)

    return write


def test_a_config_gives_the_scaled_tables(pecli_cli, config, tmp_path) -> None:
    path = tmp_path / "t.safetensors"
    assert pecli_cli("rope", "--config", config(LLAMA), "--seq-len", 40, "--offset", 9000, "-o", path).code == 0
    options = {key: value for key, value in LLAMA["rope_scaling"].items() if key != "rope_type"}
    expected = pecli.Rope(40, 64, 500000.0, 9000, scaling="llama3", **options).tables()
    found = load_file(path)
    for name in ("cos", "sin", "inv_freq"):
        assert np.array_equal(found[name], expected[name])
    assert pecli_cli("verify", path).code == 0
    assert pecli_cli("rope", "--config", config(LLAMA), "--seq-len", 40, "--offset", 9000, "--verify", path).code == 0


def test_several_kinds_of_layers_are_all_written(pecli_cli, config, tmp_path) -> None:
    path = tmp_path / "t.safetensors"
    assert pecli_cli("rope", "--config", config(GEMMA), "--seq-len", 8, "-o", path).code == 0
    found = load_file(path)
    assert np.array_equal(found["sliding_attention.cos"], pecli.Rope(8, 64).tables()["cos"])
    full = pecli.Rope(8, 64, 1e6, scaling="linear", factor=8.0)
    assert np.array_equal(found["full_attention.sin"], full.tables()["sin"])
    assert pecli_cli("verify", path).code == 0


def test_one_kind_can_be_picked(pecli_cli, config, tmp_path) -> None:
    words = ["rope", "--config", config(GEMMA), "--seq-len", 8]
    assert pecli_cli(*words, "--layer-type", "sliding_attention", "-o", tmp_path / "t.npy").code == 0
    assert np.array_equal(np.load(tmp_path / "t.npy")[0], pecli.Rope(8, 64).tables()["cos"])
    wrong = pecli_cli(*words, "--layer-type", "global")
    assert wrong.code == 2
    assert "sliding_attention" in wrong.err
    single = pecli_cli(*words, "-o", tmp_path / "t.npy")
    assert single.code == 2
    assert "--layer-type is missing" in single.err


def test_a_preset_is_taken_by_name(pecli_cli) -> None:
    outcome = pecli_cli("rope", "--model", "llama-3.1-8b", "--seq-len", 16, "--json")
    assert outcome.code == 0
    parameters = outcome.json["parameters"]
    assert (parameters["dim"], parameters["base"], parameters["scaling"]) == (128, 500000.0, "llama3")
    wrong = pecli_cli("rope", "--model", "llama-3.1-8c", "--seq-len", 16)
    assert wrong.code == 2
    assert "llama-3.1-8b" in wrong.err


REFUSED = [
    ("--config llama --seq-len 4 --model gpt2", "not both"),
    ("--config llama", "--seq-len is missing"),
    ("--model gpt2 --seq-len 4", "no rotary encoding (found: learned"),
    ("--seq-len 4 --dim 4 --layer-type full_attention", "add --config or --model"),
    ("--config dinov3 --seq-len 4", "no table over positions 0, 1, 2, …: its positions are centres of patches"),
]


def test_what_makes_no_table_is_refused(pecli_cli, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("llama").write_text(json.dumps(LLAMA))
    Path("dinov3").write_text(json.dumps({"model_type": "dinov3_vit"}))
    for words, message in REFUSED:
        outcome = pecli_cli("rope", *words.split())
        assert (outcome.code, message in outcome.err) == (2, True), words


def test_options_override_what_the_model_says(pecli_cli, tmp_path) -> None:
    words = ("rope", "--model", "qwen2.5-7b", "--seq-len", 16)
    made = pecli_cli(*words, "--theta", "500000", "-o", tmp_path / "t.npz")
    assert (made.code, made.err) == (0, "pecli: note: not as qwen2.5-7b has it: --theta 500000 instead of 1000000\n")
    expected = pecli.Rope(16, 128, 500000.0).tables()["cos"]
    assert np.array_equal(np.load(tmp_path / "t.npz")["cos"], expected)
    scaled = pecli_cli(*words, "--scaling", "yarn", "--factor", 4, "--json")
    parameters = scaled.json["parameters"]
    assert (parameters["scaling"], parameters["factor"], parameters["base"]) == ("yarn", 4, 1000000)
    assert parameters["original_max_position_embeddings"] == 32768  # the model's own context
    assert "--scaling yarn instead of none, --factor 4" in scaled.err
    plain = pecli_cli("rope", "--model", "llama-3.1-8b", "--seq-len", 16, "--scaling", "none", "--json").json
    assert (plain["parameters"]["scaling"], plain["parameters"]["factor"]) == ("none", None)


def test_the_config_itself_is_not_written_over(pecli_cli, config) -> None:
    path = config(LLAMA)
    outcome = pecli_cli("rope", "--config", path, "--seq-len", "4", "-o", path)
    assert outcome.code == 2
    assert "it would overwrite the input config" in outcome.err
    assert json.loads(Path(path).read_text()) == LLAMA


def test_a_preview_shows_every_kind(pecli_cli, config) -> None:
    outcome = pecli_cli("rope", "--config", config(GEMMA), "--seq-len", 4)
    assert "full_attention\nrope " in outcome.out
    assert "sliding_attention\nrope " in outcome.out
