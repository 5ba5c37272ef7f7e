"""The commands below a configuration: they run, and make the tables that the configuration defines.

Expected shapes are the numbers of heads, channels and positions in the configurations of the tests.
"""

import json
import os
import shlex
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.views import encodings
from tests.exit_codes import SUCCESS

CONFIGS: dict[str, tuple[dict[str, Any], dict[str, tuple[int, ...]]]] = {
    "gpt2": ({"model_type": "gpt2", "n_positions": 64, "n_embd": 32, "n_head": 4}, {"learned-init.npy": (64, 32)}),
    "bloom": ({"model_type": "bloom", "n_head": 12, "hidden_size": 768}, {"alibi.npy": (12, 1, 512)}),
    "whisper": ({"model_type": "whisper", "max_source_positions": 150, "max_target_positions": 44, "d_model": 32},
        {"sinusoidal.npy": (150, 32), "learned-init.npy": (44, 32)}),
    "speech": ({"model_type": "speech_to_text", "max_source_positions": 60, "max_target_positions": 10, "d_model": 8},
        {"sinusoidal-encoder.npy": (60, 8), "sinusoidal-decoder.npy": (10, 8)}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_printed_commands_make_tables_of_the_configs_sizes(
    run_pecli, tmp_path, monkeypatch, name: str
) -> None:
    """CONFIGS has configurations, and the shapes that the files must have: positions or heads, and
    channels, of the configuration, or 512 positions if it states none. Each command is run as it is
    printed by `pecli config`.
    """
    monkeypatch.chdir(tmp_path)
    config, shapes = CONFIGS[name]
    (tmp_path / "config.json").write_text(json.dumps(config))

    for line in _commands(run_pecli("config", "config.json").out):
        assert run_pecli(*shlex.split(line)[1:]).exit_code == SUCCESS
    assert {file: np.load(file).shape for file in os.listdir() if file.endswith(".npy")} == shapes


@pytest.mark.parametrize(
    ("model", "length"),
    [
        ("--config 'my model.json'", 4096),
        ("--model gemma-3-1b", 4096),
        ("--model phi-2", 2048),  # max_position_embeddings of Phi-2
    ],
)
def test_the_command_for_rotary_tables_names_the_model_as_the_user_did(
    run_pecli, tmp_path, monkeypatch, model: str, length: int
) -> None:
    """The printed command has the words that named the model, quotes included, and as many rows as
    the context of the model, but at most 4,096.
    """
    monkeypatch.chdir(tmp_path)
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    (tmp_path / "my model.json").write_text(json.dumps(config))

    (line,) = _commands(run_pecli("config", *shlex.split(model)).out)
    assert line == f"pecli rope {model} --seq-len {length} -o rope.safetensors"


def test_biases_are_made_in_the_form_of_the_model(run_pecli, tmp_path, monkeypatch) -> None:
    """`pecli config config.json --seq-len 5` prints a command; run as it is printed, it writes the
    bias of a Bloom with 8 heads to alibi.npy. Bloom's bias is slope · position of the key (one row
    per head), and the slope of the first of 8 heads is 2^(-8/8) = 1/2.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "bloom", "n_head": 8, "hidden_size": 64})
    )
    (line,) = _commands(run_pecli("config", "config.json", "--seq-len", 5).out)

    assert run_pecli(*shlex.split(line)[1:]).exit_code == SUCCESS
    assert np.load("alibi.npy")[0].tolist() == [[0.0, 0.5, 1.0, 1.5, 2.0]]


def _commands(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith("pecli ")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "true"),
        (0.1, "0.1"),
        ([1.0, 2.0, 3.0], "1 2 3"),
        ((1.0, 2.0, 3.0, 4.0), "1 2 … 4"),
        ("x", "x"),
    ],
)
def test_cells_of_the_table_of_encodings_are_short(value: Any, text: str) -> None:
    """Constants are written as in JSON, and lists of more than three numbers lose their middle."""
    assert encodings.cell(value) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("llama-3.1-8b", "<ModelEncodings of llama-3.1-8b: rope>"),
        (
            "gemma-3-1b",
            "<ModelEncodings of gemma-3-1b: full_attention rope, sliding_attention rope>",
        ),
    ],
)
def test_the_repr_of_a_model_names_its_encodings(name: str, text: str) -> None:
    """Gemma 3 has two types of layers, each with a rope of its own; Llama has one for all
    layers.
    """
    assert repr(pecli.load_model(name)) == text


def test_the_str_of_a_model_is_its_table(capsys) -> None:
    """`str(model)` is what `encodings.show` prints."""
    model = pecli.load_model("gemma-3-1b")
    encodings.show(model)

    assert capsys.readouterr().out == f"{model}\n"
