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

FIELDS_OF_JSON = {
    "layer_type",
    "scheme",
    "parameters",
    "inv_freq",
    "attention_factor",
    "rotary_dim",
    "head_dim",
    "layout",
}
FIELDS_OF_JSON |= {"trailing", "sources"}
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "rope_theta": 5e5,
}


def write_config(name: str = "config.json", **changes: Any) -> str:
    Path(name).write_text(json.dumps({**LLAMA, **changes}))
    return name


def test_json_has_the_fields_of_the_contract(run_pecli) -> None:
    """Scripts rely on the fields: 8 heads of 64 channels have 32 frequencies; ALiBi has none."""
    outcome = run_pecli("config", write_config(), "--json")
    found = outcome.json

    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""
    assert found["warnings"] == []
    assert set(found) == {"file", "model_type", "context", "encodings", "warnings", "notes"}

    (encoding,) = found["encodings"]
    assert set(encoding) == FIELDS_OF_JSON
    assert encoding["layer_type"] == ""
    assert encoding["scheme"] == "rope"
    assert len(encoding["inv_freq"]) == 32
    assert encoding["attention_factor"] == 1.0
    assert encoding["sources"]["base"] == "rope_theta"
    assert encoding["rotary_dim"] == 64
    assert encoding["head_dim"] == 64
    assert encoding["layout"] == "halves"

    (encoding,) = run_pecli(
        "config", write_config(model_type="bloom", n_head=8, rope_theta=None), "--json"
    ).json["encodings"]
    assert encoding["scheme"] == "alibi"
    assert encoding["inv_freq"] is None
    assert encoding["attention_factor"] is None


def test_dynamic_scaling_is_read_at_the_given_length(run_pecli) -> None:
    """Dynamic NTK multiplies the longest wavelength by factor · length / context − (factor − 1) =
    4·256/128 − 3 = 5.
    """
    path = write_config(
        max_position_embeddings=128, rope_scaling={"type": "dynamic", "factor": 4.0}
    )
    before, at, beyond = (
        run_pecli("config", path, "--json", *words).json["encodings"][0]["inv_freq"]
        for words in ([], ["--seq-len", 128], ["--seq-len", 256])
    )

    assert before == at
    assert beyond[-1] == pytest.approx(at[-1] / 5)  # 4·256/128 − 3


def test_the_differences_of_several_configs_are_shown(run_pecli) -> None:
    outcome = run_pecli(
        "config",
        "none.json",
        write_config(),
        write_config("b.json", head_dim=15),
        write_config("c.json"),
        "--json",
    )

    assert outcome.exit_code == FILE_ERROR
    assert len(outcome.err.splitlines()) == 2
    assert [json.loads(line)["file"] for line in outcome.out.splitlines()] == [
        "config.json",
        "c.json",
    ]

    _, differences = run_pecli(
        "config", write_config("a.json"), write_config("b.json", rope_theta=1e4)
    ).out.split("differences\n")
    assert ["base", "500000", "10000"] in [line.split() for line in differences.splitlines()]
    assert "head_dim" not in differences
    assert (
        "no differences" in run_pecli("config", write_config("a.json"), write_config("c.json")).out
    )


LONGROPE_OF_FOURTHS = {
    "short_factor": [4.0] * 32,
    "long_factor": [4.0] * 32,
    "original_max_position_embeddings": 64,
}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (
            {"type": "linear", "factor": 4.0},
            {"type": "longrope", "attention_factor": 1.0, **LONGROPE_OF_FOURTHS},
            True,
        ),
        (
            {"type": "linear", "factor": 4.0},
            {"type": "longrope", "attention_factor": 1.1, **LONGROPE_OF_FOURTHS},
            False,
        ),
        (None, {"type": "dynamic", "factor": 4.0}, False),  # the same up to the context of 256
    ],
)
def test_configs_that_differ_in_words_but_not_in_frequencies_are_said_to_be_equal(
    run_pecli, one: Any, other: Any, same: bool
) -> None:
    """longrope with divisors of 4 is linear by 4, unless its attention factor is not 1."""
    files = [
        write_config(f"{k}.json", max_position_embeddings=256, rope_scaling=each)
        for k, each in enumerate((one, other))
    ]
    said = "differences; frequencies and attention factors are the same\n"

    assert (outcome := run_pecli("config", *files)).exit_code == SUCCESS
    assert (said in outcome.out) == same


def test_config_takes_presets_files_and_folders_with_or_without_an_option(run_pecli) -> None:
    path = write_config()
    assert run_pecli("config", ".", "--json").json["model_type"] == "llama"
    assert run_pecli("config", "--model", ".", "--json").json["model_type"] == "llama"
    assert run_pecli("config", "--config", path).out == run_pecli("config", path).out

    found = run_pecli("config", "--model", "llama-3.1-8b", "--json").json
    assert found["encodings"][0]["parameters"]["scaling"] == "llama3"
    assert (
        run_pecli("config", "Llama-3.1-8B").out
        == run_pecli("config", "--model", "Llama-3.1-8B").out
    )


def test_the_command_that_is_printed_reads_the_model_at_the_same_length(run_pecli) -> None:
    """Phi-3's frequencies change at 4096 positions, so the command must state the length."""
    words = ("config", "--model", "phi-3-mini-128k-2024-04")
    line = run_pecli(*words, "--seq-len", 8192).out.splitlines()[-1]

    assert line == "pecli rope --model phi-3-mini-128k-2024-04 --seq-len 8192 -o rope.safetensors"

    expected = run_pecli(*words, "--seq-len", 8192, "--json").json["encodings"][0]["inv_freq"]
    assert run_pecli(*words, "--length", 8192).out.splitlines()[-1] == line
    assert run_pecli(*line.split()[1:-1], "rope.safetensors", "-q").exit_code == SUCCESS
    assert load_file("rope.safetensors")["inv_freq"].tolist() == expected
    assert "--seq-len 4096 " in run_pecli(*words).out.splitlines()[-1]


def test_a_printed_command_with_flags_runs_as_it_is(run_pecli) -> None:
    """Musicgen's row 0: cosines first, cos(0) = 1 in 32 channels and sin(0) = 0 in 32."""
    path = write_config(
        model_type="musicgen_decoder", hidden_size=64, max_position_embeddings=8, rope_theta=None
    )
    line = run_pecli("config", path).out.splitlines()[-1].replace("sinusoidal.npy", "pe.npy")

    assert "--cos-first --freq-shift 1 -o" in line
    assert run_pecli(*line.split()[1:], "-q").exit_code == SUCCESS
    assert np.load("pe.npy")[0].tolist() == [1.0] * 32 + [0.0] * 32


@pytest.mark.parametrize(("theta", "warned"), [(5e5, False), (1e4, True)])
def test_frequencies_in_the_weights_of_a_folder_are_compared(
    run_pecli, theta: float, warned: bool
) -> None:
    """The config's base is 5e5; weights with frequencies of another base cause a warning."""
    write_config()
    stored = (theta ** (-np.arange(32) / 32)).astype(np.float32)
    save_file({"model.layers.0.self_attn.rotary_emb.inv_freq": stored}, "model.safetensors")
    outcome = run_pecli("config", ".", "--json")

    assert outcome.exit_code == SUCCESS
    assert any("inv_freq in the weights" in line for line in outcome.json["warnings"]) == warned
