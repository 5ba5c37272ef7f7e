"""The commands below a configuration: they run, and make the tables that the configuration defines.

Expected shapes are the numbers of heads, channels and positions in the configurations of the tests.
"""

import json
import os
import re
import shlex
from functools import partial
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.views import encodings
from tests.exit_codes import SUCCESS
from tests.views.conftest import said

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
    "model",
    ["--config 'my model.json'", "--model phi-2"],
    ids=["a file with a space in its name", "a preset"],
)
def test_the_command_for_rotary_tables_names_the_model_as_the_user_did(
    run_pecli, tmp_path, monkeypatch, model: str
) -> None:
    """The printed command has the words that named the model, quotes included. The file has Phi-2's
    context, 2,048 positions, which are the rows of the table.
    """
    monkeypatch.chdir(tmp_path)
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "max_position_embeddings": 2048,
    }
    (tmp_path / "my model.json").write_text(json.dumps(config))

    (line,) = _commands(run_pecli("config", *shlex.split(model)).out)
    assert line == f"pecli rope {model} --seq-len 2048 -o rope.safetensors"


@pytest.mark.parametrize(
    ("context", "rows"),
    [
        pytest.param({"max_position_embeddings": 512}, 512, id="context of 512"),
        pytest.param({"max_position_embeddings": 32_768}, 4096, id="context of 32,768"),
        pytest.param({}, 4096, id="no context"),
    ],
)
def test_the_command_for_rotary_tables_has_the_context_of_the_model_up_to_4096(
    run_pecli, tmp_path, monkeypatch, context: dict[str, int], rows: int
) -> None:
    """A table has a row per position of the context, but the printed command asks for 4,096 at
    most, which are quick to make; the same if the configuration states no context.
    """
    monkeypatch.chdir(tmp_path)
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, **context}
    (tmp_path / "config.json").write_text(json.dumps(config))

    (line,) = _commands(run_pecli("config", "config.json").out)
    assert line == f"pecli rope --config config.json --seq-len {rows} -o rope.safetensors"


def test_the_command_for_a_preset_of_a_long_context_has_4096_rows(run_pecli) -> None:
    """The preset gemma-3-1b has a context of 32,768."""
    (line,) = _commands(run_pecli("config", "--model", "gemma-3-1b").out)
    assert line == "pecli rope --model gemma-3-1b --seq-len 4096 -o rope.safetensors"


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
    ids=["no value", "flag", "number", "three numbers", "four numbers", "text"],
)
def test_cells_of_the_table_of_encodings_are_short(value: Any, text: str) -> None:
    """`pecli config` prints None, True and False in small letters, numbers without a decimal point if
    they are whole, and of a list of more than three numbers the first two and the last one.
    """
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


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}


def shown_lines(*arguments: Any, **options: Any) -> list[list[str]]:
    """Return the words of each line that `encodings.show` prints; columns are 2 blanks apart."""
    lines = said(partial(encodings.show, *arguments, **options)).splitlines()
    return [re.split(r"  +", line.strip()) for line in lines]


def test_a_model_is_a_table_of_values_with_their_sources() -> None:
    """LLAMA has 64 / 4 = 16 channels per head, and so 8 pairs, whose frequencies are 1,
    10000^(−1/8) = 0.316, …, 10000^(−7/8) = 3.16e-4. A line has a value and the key of the config
    from which it is.
    """
    lines = shown_lines(pecli.load_config(LLAMA))
    assert lines == [
        ["config", "llama", "1 encoding"],
        ["all layers: rope", "value", "source"],
        ["dim", "16", "hidden_size // num_attention_heads"],
        ["base", "10000", "rope_theta"],
        ["scaling", "none", "default: no scaling is asked for"],
        ["head_dim", "16", "hidden_size // num_attention_heads"],
        ["rotary_dim", "16"],
        ["layout", "halves", "family default (llama)"],
        ["attention_factor", "1", "multiplies cos and sin"],
        ["inv_freq", "1 0.316228 … 3.16228e-4", "8 values"],
    ]


def test_values_that_depend_on_a_length_state_it() -> None:
    """Some scalings change the attention factor and the frequencies with the length of the prompt.
    If a length is requested, the last column of these two lines states it, whatever the scaling.

    YARN scales by 4: its attention factor is 0.1 · ln 4 + 1 = 1.138629436, the first frequencies,
    1 and 10000^(−1/8) = 0.316228, are kept, and the last one is 10000^(−7/8) / 4 = 7.90569e-5.
    """
    model = pecli.load_config({**LLAMA, "rope_scaling": YARN})
    rows = {name: columns for name, *columns in shown_lines(model, 8192)}

    assert rows["attention_factor"] == ["1.138629436", "at length 8192"]
    assert rows["inv_freq"] == ["1 0.316228 … 7.90569e-5", "at length 8192"]


def test_a_note_on_a_configuration_is_the_last_line_of_its_table() -> None:
    """The scaling stands under `rope_scaling`, which transformers 5 has replaced by
    `rope_parameters`: code that reads only the new key would miss it.
    """
    label, note = shown_lines(pecli.load_config({**LLAMA, "rope_scaling": YARN}))[-1]
    assert label == "note"
    assert note.startswith("scaling is only in rope_scaling: code that reads only rope_parameters")


def test_a_further_model_is_separated_by_a_blank_line() -> None:
    """`shown_lines` are the words of each printed line; the first model has no line before it."""
    assert shown_lines(pecli.load_config(LLAMA), first=False)[0] == [""]


def test_a_model_without_encodings_has_a_warning() -> None:
    """Mamba has no positional encodings: there is nothing that pecli could make or check."""
    heading, warning = shown_lines(pecli.load_config({"model_type": "mamba"}))
    assert heading == ["config", "mamba", "no encodings"]
    assert warning[0] == "warning"


def differences(seq_len: int | None, *configs: dict[str, Any]) -> list[str]:
    models = [pecli.load_config(config) for config in configs]
    return said(encodings.show_differences, models, seq_len).strip().splitlines()


def test_models_that_agree_have_no_differences() -> None:
    """LLAMA and the same config as a Mistral differ in the name of their family only."""
    assert differences(None, LLAMA, {**LLAMA, "model_type": "mistral"}) == ["no differences"]


def test_values_that_differ_stand_side_by_side() -> None:
    """LLAMA has no scaling; with YARN, it has parameters such as truncate, which LLAMA lacks («–»).
    Values that agree, such as the base, are left out.
    """
    title, heads, scaling, *_, last = differences(None, LLAMA, {**LLAMA, "rope_scaling": YARN})
    assert title == "differences"
    assert heads.split() == ["config", "config"]
    assert scaling.split() == ["scaling", "none", "yarn"]
    assert last.split() == ["truncate", "–", "true"]


@pytest.mark.parametrize(
    ("seq_len", "title"),
    [
        (None, "differences"),
        (1000, "differences; frequencies and attention factors are the same"),
    ],
)
def test_dynamic_scaling_rotates_alike_up_to_its_context_only(
    seq_len: int | None, title: str
) -> None:
    """LLAMA has a context of 4096, up to which dynamic scaling changes nothing: at length 1000 both
    rotate alike, although their parameters differ.
    """
    dynamic = {**LLAMA, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}
    assert differences(seq_len, LLAMA, dynamic)[0] == title
