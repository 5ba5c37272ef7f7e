"""llama.cpp's load log as a dialect of configurations."""

import json
from pathlib import Path
from typing import Any

import pytest

import pecli
from pecli.models.encoding import ModelEncodings

LOGS = json.loads((Path(__file__).parent / "data" / "llama_cpp_logs.json").read_text())
INFO = """print_info: arch             = llama
print_info: n_ctx_train      = 4096
print_info: n_embd           = 4096
print_info: n_head           = 32
print_info: n_rot            = 128
print_info: rope type        = 0
print_info: rope scaling     = linear
print_info: freq_base_train  = 10000.0
print_info: freq_scale_train = 1
"""


def read(folder: Path, text: str) -> ModelEncodings:
    path = folder / "server.log"
    path.write_text(text)
    return pecli.load_model(path)


@pytest.fixture(params=LOGS, ids=lambda log: log["source"].rpartition("github.com/")[2][:48])
def log(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def test_model_of_a_public_log(log: dict[str, Any], tmp_path: Path) -> None:
    model = read(tmp_path, "\n".join(log["lines"]))
    assert model.model_type == log["model_type"]
    assert model.context == log.get("context")
    assert set(model.layer_types()) == set(log["layers"])


def test_encodings_of_a_public_log(log: dict[str, Any], tmp_path: Path) -> None:
    model = read(tmp_path, "\n".join(log["lines"]))
    for layer_type, expected in log["layers"].items():
        encoding = model.one(layer_type)
        found = {**encoding.described(), "layout": encoding.layout}
        assert {name: found.get(name) for name in expected} == expected


def test_sources_are_lines(tmp_path: Path) -> None:
    encoding = read(tmp_path, INFO).one()
    assert encoding.sources["base"] == "print_info: freq_base_train"
    assert encoding.sources["layout"] == "print_info: rope type"


def test_lines_about_positions_are_all_read(tmp_path: Path) -> None:
    assert read(tmp_path, INFO).warnings == ()


def test_info_lines_take_precedence_over_stored_keys(tmp_path: Path) -> None:
    stored = "llama_model_loader: - kv  12: llama.rope.freq_base f32 = 500000.000000\n"
    assert read(tmp_path, stored + INFO).one().parameters["base"] == 10000.0


def test_flags_of_the_server_are_noticed(tmp_path: Path) -> None:
    model = read(tmp_path, INFO + "llama_context: freq_scale    = 0.25\n")
    (warning,) = model.warnings
    assert "the server uses freq_scale 0.25, the model has 1" in warning


def test_the_same_scale_is_no_flag(tmp_path: Path) -> None:
    lines = "llama_context: freq_base     = 10000.0\nllama_context: freq_scale    = 1\n"
    assert read(tmp_path, INFO + lines).warnings == ()


def test_flags_apply_to_a_log(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(INFO)
    assert pecli.load_model(path, "--rope-scale 4").one().parameters["factor"] == 4.0


def test_factors_of_longrope_are_not_shown(tmp_path: Path) -> None:
    model = read(tmp_path, INFO.replace("= linear", "= longrope"))
    assert model.one().parameters["scaling"] == "none"
    assert "a log does not show its factors" in model.warnings[0]


def test_first_of_two_models_counts(tmp_path: Path) -> None:
    draft = INFO.replace("10000.0", "500000.0")
    assert read(tmp_path, INFO + draft).one().parameters["base"] == 10000.0


def test_log_without_sizes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pecli.FileError, match=r"rope\.dimension_count"):
        read(tmp_path, "print_info: arch = llama\nprint_info: freq_base_train = 10000.0\n")


@pytest.mark.parametrize("value", ["0", "-1", "Infinity", "[1, 2]", "null"])
def test_scale_that_is_no_number_above_zero_is_none(value: str, tmp_path: Path) -> None:
    lines = f"print_info: freq_scale_train = {value}\nllama_context: freq_scale = {value}\n"
    model = read(tmp_path, lines + INFO)
    assert model.one().parameters["scaling"] == "none"


def test_stored_key_names_the_architecture(tmp_path: Path) -> None:
    stored = "llama_model_loader: - kv   0: general.architecture str = llama\n"
    without_architecture = INFO.partition("\n")[2]
    assert read(tmp_path, stored + without_architecture).model_type == "llama"
