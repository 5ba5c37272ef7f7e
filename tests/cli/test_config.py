"""`pecli config`: the encodings of a model by its config.json, as text and as JSON.

Expected values are what the configurations in the tests state, and formulas of scalings (dynamic
NTK, longrope) that are repeated in the tests.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.exit_codes import FILE_ERROR, SUCCESS

FIELDS_OF_AN_ENCODING = {
    "layer_type",
    "scheme",
    "parameters",
    "inv_freq",
    "attention_factor",
    "rotary_dim",
    "head_dim",
    "layout",
    "trailing",
    "sources",
}
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "rope_theta": 5e5,
}


def write_config(name: str = "config.json", **changes: Any) -> str:
    """Write the configuration LLAMA, with some keys changed, and return its path."""
    Path(name).write_text(json.dumps({**LLAMA, **changes}))
    return name


def test_config_as_json_has_the_fields_that_scripts_rely_on(run_pecli) -> None:
    """Scripts rely on the fields of `pecli config --json` and of its encodings that the reference
    lists: none may be missing or new.
    """
    outcome = run_pecli("config", write_config(), "--json")
    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""
    assert set(outcome.json) == {"file", "model_type", "context", "encodings", "warnings", "notes"}
    assert outcome.json["warnings"] == []

    (encoding,) = outcome.json["encodings"]
    assert set(encoding) == FIELDS_OF_AN_ENCODING


def test_config_as_json_describes_a_rotary_encoding(run_pecli) -> None:
    """The configuration has 512 / 8 = 64 channels per head, so 32 frequencies; its base is the key
    rope_theta.
    """
    (encoding,) = run_pecli("config", write_config(), "--json").json["encodings"]
    assert encoding["layer_type"] == ""
    assert encoding["scheme"] == "rope"
    assert len(encoding["inv_freq"]) == 32
    assert encoding["attention_factor"] == 1.0
    assert encoding["sources"]["base"] == "rope_theta"
    assert encoding["rotary_dim"] == 64
    assert encoding["head_dim"] == 64
    assert encoding["layout"] == "halves"


def test_config_as_json_has_no_frequencies_for_alibi(run_pecli) -> None:
    """`pecli config --json` of a BLOOM, whose encoding is ALiBi."""
    path = write_config(model_type="bloom", n_head=8, rope_theta=None)
    (encoding,) = run_pecli("config", path, "--json").json["encodings"]
    assert encoding["scheme"] == "alibi"
    assert encoding["inv_freq"] is None
    assert encoding["attention_factor"] is None


def test_dynamic_scaling_is_read_at_the_given_length(run_pecli) -> None:
    """Dynamic NTK multiplies the longest wavelength by factor · length / context − (factor − 1) =
    4·256/128 − 3 = 5. Up to the context of 128 it changes nothing.
    """
    scaling = {"type": "dynamic", "factor": 4.0}
    path = write_config(max_position_embeddings=128, rope_scaling=scaling)

    def frequencies(*words: object) -> list[float]:
        (encoding,) = run_pecli("config", path, "--json", *words).json["encodings"]
        return encoding["inv_freq"]

    assert frequencies() == frequencies("--seq-len", 128)
    assert frequencies("--seq-len", 256)[-1] == pytest.approx(frequencies()[-1] / 5)


def test_a_config_that_cannot_be_read_does_not_hide_the_others(run_pecli) -> None:
    """none.json does not exist, and no rotation has 15 channels: each is an error of one line."""
    write_config("odd.json", head_dim=15)
    write_config("a.json")
    write_config("b.json")
    outcome = run_pecli("config", "none.json", "a.json", "odd.json", "b.json", "--json")

    assert outcome.exit_code == FILE_ERROR
    assert len(outcome.err.splitlines()) == 2
    files = [json.loads(line)["file"] for line in outcome.out.splitlines()]
    assert files == ["a.json", "b.json"]


def test_the_differences_of_two_configs_are_printed(run_pecli) -> None:
    """a.json has base 500000, b.json base 10000; equal settings such as head_dim are left out."""
    write_config("a.json")
    write_config("b.json", rope_theta=1e4)
    _, differences = run_pecli("config", "a.json", "b.json").out.split("differences\n")

    assert ["base", "500000", "10000"] in [line.split() for line in differences.splitlines()]
    assert "head_dim" not in differences


def test_equal_configs_have_no_differences(run_pecli) -> None:
    """`pecli config` compares two files with the same content."""
    write_config("a.json")
    write_config("b.json")
    assert "no differences" in run_pecli("config", "a.json", "b.json").out


LINEAR_BY_4 = {"type": "linear", "factor": 4.0}
LONGROPE_BY_4 = {
    "type": "longrope",
    "short_factor": [4.0] * 32,
    "long_factor": [4.0] * 32,
    "original_max_position_embeddings": 64,
}


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (LINEAR_BY_4, {**LONGROPE_BY_4, "attention_factor": 1.0}, True),
        (LINEAR_BY_4, {**LONGROPE_BY_4, "attention_factor": 1.1}, False),
        (None, {"type": "dynamic", "factor": 4.0}, False),
    ],
    ids=["same rotation", "another attention factor", "same rotation up to the context"],
)
def test_configs_with_other_settings_but_the_same_frequencies_are_reported_as_equal(
    run_pecli, first: Any, second: Any, is_same: bool
) -> None:
    """`pecli config a.json b.json` compares two configs. LongRoPE with all divisors 4 has the
    frequencies of linear scaling by 4, and is equal unless its attention factor is not 1. Dynamic
    NTK equals no scaling only up to the context, so it counts as different.
    """
    write_config("a.json", max_position_embeddings=256, rope_scaling=first)
    write_config("b.json", max_position_embeddings=256, rope_scaling=second)
    outcome = run_pecli("config", "a.json", "b.json")

    assert outcome.exit_code == SUCCESS
    heading = "differences; frequencies and attention factors are the same\n"
    assert (heading in outcome.out) == is_same


@pytest.mark.parametrize(
    "words",
    [(".",), ("--model", "."), ("--config", "config.json")],
    ids=["folder", "folder as --model", "file as --config"],
)
def test_a_config_may_be_named_in_several_ways(run_pecli, words: tuple[str, ...]) -> None:
    """The same config.json by its path, by its folder, and by either option."""
    path = write_config()
    expected = run_pecli("config", path, "--json").json
    found = run_pecli("config", *words, "--json").json
    assert found["encodings"] == expected["encodings"]
    assert found["model_type"] == "llama"


def test_a_preset_may_be_named_with_or_without_an_option(run_pecli) -> None:
    """Llama 3.1 has the scaling llama3; names of presets have no case."""
    named = run_pecli("config", "--model", "llama-3.1-8b", "--json").json
    assert named["encodings"][0]["parameters"]["scaling"] == "llama3"

    by_option = run_pecli("config", "--model", "Llama-3.1-8B").out
    assert run_pecli("config", "Llama-3.1-8B").out == by_option


CONFIG_OF_PHI_3 = ("config", "--model", "phi-3-mini-128k-2024-04")


@pytest.mark.parametrize("option", ["--seq-len", "--length"])
def test_the_command_that_is_printed_states_the_length(run_pecli, option: str) -> None:
    """`pecli config` prints, as its last line, the command that makes the model's tables. The
    length that the user gave, by either option, is the number of its rows.
    """
    line = run_pecli(*CONFIG_OF_PHI_3, option, 8192).out.splitlines()[-1]
    assert line == "pecli rope --model phi-3-mini-128k-2024-04 --seq-len 8192 -o rope.safetensors"


def test_the_command_that_is_printed_makes_the_frequencies_of_that_length(run_pecli) -> None:
    """Phi-3 has longrope: other frequencies beyond 4,096 positions. The last line that `pecli
    config` prints is a command; the file that it writes has the frequencies of the JSON.
    """
    line = run_pecli(*CONFIG_OF_PHI_3, "--seq-len", 8192).out.splitlines()[-1]
    config = run_pecli(*CONFIG_OF_PHI_3, "--seq-len", 8192, "--json").json

    assert run_pecli(*line.split()[1:], "-q").exit_code == SUCCESS
    tables = load_file("rope.safetensors")
    assert tables["inv_freq"].tolist() == config["encodings"][0]["inv_freq"]


def test_without_a_length_the_command_makes_4096_rows(run_pecli) -> None:
    """`pecli config` of a model with 131,072 positions prints a command for DEFAULT_ROWS = 4096
    rows.
    """
    line = run_pecli(*CONFIG_OF_PHI_3).out.splitlines()[-1]
    assert "--seq-len 4096 " in line


def test_the_command_that_is_printed_for_musicgen_makes_its_table(run_pecli) -> None:
    """The last line that `pecli config` prints is a command. It is run as it is and must write
    Musicgen's table by the formula of transformers: cosines before sines, with 32 frequencies
    10000^(−i/31). Its denominator is one less than their number, which is --freq-shift 1.
    """
    config = {
        "model_type": "musicgen_decoder",
        "hidden_size": 64,
        "num_attention_heads": 8,
        "max_position_embeddings": 8,
    }
    Path("musicgen.json").write_text(json.dumps(config))
    line = run_pecli("config", "musicgen.json").out.splitlines()[-1]

    assert line.endswith("--cos-first --freq-shift 1 -o sinusoidal.npy")
    assert run_pecli(*line.split()[1:], "-q").exit_code == SUCCESS

    table = np.load("sinusoidal.npy")
    angles = np.outer(np.arange(8), 10000.0 ** (-np.arange(32) / 31))
    expected = np.concatenate([np.cos(angles), np.sin(angles)], axis=1)
    np.testing.assert_allclose(table, expected, rtol=0, atol=1e-7)  # The table is in float32.
    assert table[0].tolist() == [1.0] * 32 + [0.0] * 32


@pytest.mark.parametrize(
    ("base_of_weights", "is_warned"), [(5e5, False), (1e4, True)], ids=["the same", "another"]
)
def test_frequencies_in_the_weights_of_a_folder_are_compared(
    run_pecli, base_of_weights: float, is_warned: bool
) -> None:
    """The configuration's base is 5e5, and its heads have 64 channels, so 32 frequencies
    base^(−i/32). Weights with frequencies of another base cause a warning.
    """
    write_config()
    stored = (base_of_weights ** (-np.arange(32) / 32)).astype(np.float32)
    save_file({"model.layers.0.self_attn.rotary_emb.inv_freq": stored}, "model.safetensors")
    outcome = run_pecli("config", ".", "--json")

    assert outcome.exit_code == SUCCESS
    warnings = [line for line in outcome.json["warnings"] if "inv_freq in the weights" in line]
    assert bool(warnings) == is_warned


def test_all_frequencies_in_the_weights_that_are_not_configured_are_named(run_pecli) -> None:
    """The configuration's base is 5e5, that of layer 2. Layers 0, 1, 3 and 4 have base 1e4, and
    layer 5 has base 1e6: copies share a warning, which names the first two of them.
    """
    write_config()
    tensors = {}
    for layer, base in enumerate([1e4, 1e4, 5e5, 1e4, 1e4, 1e6]):
        frequencies = (base ** (-np.arange(32) / 32)).astype(np.float32)
        tensors[f"layers.{layer}.inv_freq"] = frequencies
    save_file(tensors, "model.safetensors")
    warnings = run_pecli("config", ".", "--json").json["warnings"]

    assert [line for line in warnings if "in the weights" in line] == [
        "layers.0.inv_freq, layers.1.inv_freq and 2 more in the weights, 32 frequencies each, "
        "differ from the configuration",
        "layers.5.inv_freq in the weights, 32 frequencies, differs from the configuration",
    ]
