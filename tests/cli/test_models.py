"""Presets and configurations as the source of tables: `pecli rope --model`, and the list `pecli models`.

Also schemes that are made from words, as `pecli plot` parses them. Expected parameters are those of
the models' own config.json (Llama 3.1, Gemma 3, …), repeated in the tests.
"""

import json
from itertools import groupby
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
    """llama.json has base 500000, 256 / 4 = 64 channels per head, and the scaling llama3; the
    expected tables are those of the Python class with these parameters.
    """
    words = ("rope", "--config", "llama.json", "--seq-len", 40, "--offset", 9000)
    assert run_pecli(*words, "-o", "t.safetensors").exit_code == SUCCESS

    scaling = {"scaling": "llama3", **LLAMA["rope_scaling"]}
    del scaling["rope_type"]
    expected = pecli.Rope(40, 256 // 4, base=500000.0, offset=9000, **scaling).tables()
    tables = load_file("t.safetensors")
    for name in ("cos", "sin", "inv_freq"):
        assert np.array_equal(tables[name], expected[name])


def test_a_table_of_a_config_is_verified_by_its_spec_and_by_the_config(run_pecli) -> None:
    """The file carries a spec, by which verify computes the tables again; --verify compares with
    those of the config.
    """
    words = ("rope", "--config", "llama.json", "--seq-len", 40, "--offset", 9000)
    run_pecli(*words, "-o", "t.safetensors")
    assert run_pecli("verify", "t.safetensors").exit_code == SUCCESS
    assert run_pecli(*words, "--verify", "t.safetensors").exit_code == SUCCESS


SLIDING = pecli.Rope(8, 64, base=10000.0)
FULL = pecli.Rope(8, 64, base=1e6, scaling="linear", factor=8.0)
"""The two encodings of GEMMA: its sliding layers have their own base, and no scaling."""
ROPE_OF_GEMMA = ("rope", "--config", "gemma.json", "--seq-len", 8)


def test_all_types_of_layers_are_written(run_pecli) -> None:
    """gemma.json has two encodings: sliding layers with base 10000, and full attention with base
    10^6 and linear scaling by 8. The expected tables, SLIDING and FULL, are made by the Python
    class.
    """
    assert run_pecli(*ROPE_OF_GEMMA, "-o", "t.safetensors").exit_code == SUCCESS

    tables = load_file("t.safetensors")
    assert np.array_equal(tables["sliding_attention.cos"], SLIDING.tables()["cos"])
    assert np.array_equal(tables["full_attention.sin"], FULL.tables()["sin"])
    assert run_pecli("verify", "t.safetensors").exit_code == SUCCESS


def test_one_type_of_layers_is_written(run_pecli) -> None:
    """gemma.json has sliding layers with base 10000. An .npy file holds one array, cosines and
    sines; the expected cosines are those of pecli.Rope with that base (SLIDING).
    """
    words = ("--layer-type", "sliding_attention", "-o", "t.npy")
    assert run_pecli(*ROPE_OF_GEMMA, *words).exit_code == SUCCESS

    cos, _ = np.load("t.npy")
    assert np.array_equal(cos, SLIDING.tables()["cos"])


def test_the_preview_names_each_type_of_layers(run_pecli) -> None:
    """gemma.json has full and sliding attention with different bases, so `pecli rope` makes tables
    for both.
    """
    text = run_pecli(*ROPE_OF_GEMMA).out
    assert "full_attention\nrope " in text
    assert "sliding_attention\nrope " in text


ROPE_OF_QWEN = ("rope", "--model", "qwen2.5-7b", "--seq-len", 16)
"""Qwen2.5 7B has base 1,000,000, a context of 32,768, heads of 128 channels, and no scaling."""


def test_an_option_overrides_a_parameter_of_the_model_with_a_note(run_pecli) -> None:
    """`pecli rope --model qwen2.5-7b --theta 500000`: the model has base 10^6 and heads of 128
    channels. The table must have base 500000, and a note on standard error says so.
    """
    outcome = run_pecli(*ROPE_OF_QWEN, "--theta", "500000", "-o", "t.npz")
    assert outcome.exit_code == SUCCESS
    note = "pecli: note: not as qwen2.5-7b has it: --theta 500000 instead of 1000000\n"
    assert outcome.err == note

    expected = pecli.Rope(16, 128, base=500000.0).tables()["cos"]
    assert np.array_equal(np.load("t.npz")["cos"], expected)


def test_an_option_that_states_what_the_model_has_is_no_change(run_pecli) -> None:
    """--dim 128 is the model's own; only the other option is in the note."""
    outcome = run_pecli(*ROPE_OF_QWEN, "--dim", 128, "--theta", "500000", "--json")
    assert (
        outcome.err == "pecli: note: not as qwen2.5-7b has it: --theta 500000 instead of 1000000\n"
    )


def test_options_that_state_all_as_the_model_has_it_get_no_note(run_pecli) -> None:
    assert run_pecli(*ROPE_OF_QWEN, "--dim", 128, "--theta", "1e6", "--json").err == ""


def test_a_scaling_that_is_given_stretches_the_context_of_the_model(run_pecli) -> None:
    """Qwen's config has base 10^6, 32,768 positions and no scaling; the command adds YaRN by 4."""
    outcome = run_pecli(*ROPE_OF_QWEN, "--scaling", "yarn", "--factor", 4, "--json")
    assert "--scaling yarn instead of none, --factor 4" in outcome.err

    parameters = outcome.json["parameters"]
    assert parameters["scaling"] == "yarn"
    assert parameters["factor"] == 4
    assert parameters["base"] == 1000000
    assert parameters["original_max_position_embeddings"] == 32768


def test_the_option_scaling_none_leaves_the_scaling_of_a_model_out(run_pecli) -> None:
    """Llama 3.1's own scaling is llama3 by a factor of 8."""
    words = ("rope", "--model", "llama-3.1-8b", "--seq-len", 16, "--scaling", "none", "--json")
    parameters = run_pecli(*words).json["parameters"]
    assert parameters["scaling"] == "none"
    assert parameters["factor"] is None


@pytest.fixture
def preset_models(run_pecli) -> list[dict]:
    """All presets, as `pecli models --json` lists them."""
    outcome = run_pecli("models", "--json")
    assert outcome.exit_code == SUCCESS
    return outcome.json["models"]


def test_presets_as_json_have_their_settings_and_sources(preset_models) -> None:
    """Llama 3.1 has 131,072 positions and GPT-2 a learned table of 1,024 rows, by their
    configurations.
    """
    by_name = {model["name"]: model for model in preset_models}
    llama = by_name["llama-3.1-8b"]

    assert llama["repository"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert llama["context"] == 131072
    assert "meta-llama/Llama-3.1-8B" in llama["aliases"]
    assert by_name["gpt2"]["encodings"][0]["parameters"]["max_len"] == 1024
    assert all(model["source"] for model in preset_models)


def test_presets_of_one_family_stand_together(preset_models) -> None:
    """`groupby` joins neighbours only: in the list of presets, no family may occur in two places."""
    families = [family for family, _ in groupby(model["family"] for model in preset_models)]
    assert len(families) == len(set(families))


def test_the_list_of_presets_in_a_pipe_has_a_line_per_model(run_pecli) -> None:
    """Columns: name, context, scheme, width, base, scaling. Nothing is cut for want of columns."""
    outcome = run_pecli("models")
    assert outcome.exit_code == SUCCESS
    assert "…" not in outcome.out

    lines = [line.split() for line in outcome.out.splitlines()]
    (llama,) = [line for line in lines if line[0] == "llama-3.1-8b"]
    assert llama[1:7] == ["131,072", "rope", "128,", "base", "500000", "llama3"]


def test_the_list_of_presets_on_a_terminal_has_a_table_per_family(run_pecli, monkeypatch) -> None:
    """`pecli models` on a terminal prints the name of each family before its models; Llama comes
    before Qwen.
    """
    monkeypatch.setattr("pecli.views.screen.is_terminal", lambda: True)
    text = run_pecli("models").out
    places = [text.index(word) for word in ("Llama ", "llama-3.1-8b", "Qwen ", "qwen3-8b")]
    assert places == sorted(places)


def test_words_make_the_scheme_that_python_makes() -> None:
    """`parse_scheme` reads the options of `pecli rope`: --theta is the parameter base, and
    «--dim=4» is «--dim 4».
    """
    words = ["--seq-len", "8", "--dim=4", "--theta", "500", "--layout", "halves"]
    parsed = parse_scheme("rope", words, {})

    assert parsed.scheme == pecli.Rope(8, 4, base=500.0, layout="halves")
    assert parsed.model is None
    assert parsed.layer_type is None


DEFAULTS = {"seq_len": "16", "heads": "4", "dim": "6"}
"""Sizes that `pecli plot` takes if no word states them."""


@pytest.mark.parametrize(
    ("name", "words", "scheme"),
    [
        ("sinusoidal", ["--dim", "4", "--cos-first"], pecli.Sinusoidal(16, 4, cos_first=True)),
        ("alibi", [], pecli.Alibi(4, 16)),
        ("rope", ["--model", "llama-3.1-8b"], pecli.load_model("llama-3.1-8b").one().rope(16)),
    ],
    ids=["one of two is stated", "none is stated", "a model states dim"],
)
def test_sizes_that_words_leave_out_are_the_defaults(
    name: str, words: list[str], scheme: pecli.Scheme
) -> None:
    """The defaults are a length of 16, 4 heads and 6 channels; the expected scheme states every
    size.
    """
    assert parse_scheme(name, words, DEFAULTS).scheme == scheme


def test_a_scheme_that_is_parsed_keeps_the_model_that_was_named() -> None:
    """`parse_scheme` reads the options of a scheme; --model is kept with the result, and no layer
    type was named.
    """
    parsed = parse_scheme("rope", ["--model", "llama-3.1-8b"], DEFAULTS)
    assert parsed.model == "llama-3.1-8b"
    assert parsed.layer_type is None


def test_a_size_that_neither_words_nor_defaults_state_is_refused() -> None:
    """`parse_scheme` reads the options of a scheme, of which there are none here."""
    with pytest.raises(ParameterError, match="dim is missing"):
        parse_scheme("sinusoidal", [], {})
