"""llama.cpp's load log, which it prints when it starts, as a dialect of configurations.

It lists the stored keys of the .gguf file («kv» lines), what llama.cpp makes of them (print_info),
and what the server uses (llama_context). LOG_OF_LLAMA is such a log, shortened: heads of 128
channels, base 10000, no scaling. Logs of llama_cpp_logs.json come from public threads, and what
they mean was read from the same lines by hand.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import pecli
from pecli.models.encoding import ModelEncodings

LOGS = json.loads((Path(__file__).parent / "data" / "llama_cpp_logs.json").read_text())
LOG_OF_LLAMA = """print_info: arch             = llama
print_info: n_ctx_train      = 4096
print_info: n_embd           = 4096
print_info: n_head           = 32
print_info: n_rot            = 128
print_info: rope type        = 0
print_info: rope scaling     = linear
print_info: freq_base_train  = 10000.0
print_info: freq_scale_train = 1
"""


def model_of_log(folder: Path, text: str) -> ModelEncodings:
    path = folder / "server.log"
    path.write_text(text)
    return pecli.load_model(path)


@pytest.fixture(params=LOGS, ids=lambda log: log["source"].rpartition("github.com/")[2][:48])
def public_log(request: pytest.FixtureRequest) -> dict[str, Any]:
    row: dict[str, Any] = request.param
    return row


def test_the_model_and_context_of_a_log_are_read_from_its_lines(
    public_log: dict[str, Any], tmp_path: Path
) -> None:
    """Rows of llama_cpp_logs.json have lines of a load log from a public thread, and what a person
    read in them: the model type, the context and the layer types.
    """
    model = model_of_log(tmp_path, "\n".join(public_log["lines"]))
    assert model.model_type == public_log["model_type"]
    assert model.context == public_log.get("context")
    assert set(model.layer_types()) == set(public_log["layers"])


def test_the_encodings_of_a_log_are_read_from_its_lines(
    public_log: dict[str, Any], tmp_path: Path
) -> None:
    """Rows of llama_cpp_logs.json have lines of a load log from a public thread, and for each layer
    type some facts that a person read in them, such as {"base": 500000, "layout": "interleaved"}.
    """
    model = model_of_log(tmp_path, "\n".join(public_log["lines"]))
    for layer_type, facts_by_hand in public_log["layers"].items():
        encoding = model.one(layer_type)
        facts = {**encoding.described(), "layout": encoding.layout}
        assert {name: facts.get(name) for name in facts_by_hand} == facts_by_hand


def test_the_source_of_a_value_of_a_log_is_the_beginning_of_its_line(tmp_path: Path) -> None:
    """A source is the key that a value came from; reports show it. A log has lines in place of keys,
    such as «print_info: freq_base_train  = 10000.0».
    """
    encoding = model_of_log(tmp_path, LOG_OF_LLAMA).one()
    assert encoding.sources["base"] == "print_info: freq_base_train"
    assert encoding.sources["layout"] == "print_info: rope type"


def test_a_usual_log_of_llama_has_no_warning(tmp_path: Path) -> None:
    """A line about positions that nothing reads has a warning. LOG_OF_LLAMA has the usual lines of
    print_info: sizes, rope type, scaling and base.
    """
    assert model_of_log(tmp_path, LOG_OF_LLAMA).warnings == ()


def test_lines_of_print_info_take_precedence_over_stored_keys(tmp_path: Path) -> None:
    """Stored keys are the .gguf file's, with base 500000 here; print_info lines, with base 10000 in
    LOG_OF_LLAMA, are what llama.cpp uses.
    """
    stored_key = "llama_model_loader: - kv  12: llama.rope.freq_base f32 = 500000.000000\n"
    assert model_of_log(tmp_path, stored_key + LOG_OF_LLAMA).one().parameters["base"] == 10000.0


def test_a_scale_that_the_server_overrides_is_warned_about(tmp_path: Path) -> None:
    """llama.cpp multiplies positions by freq_scale: 0.25 divides them by four. The model's own is 1, as
    LOG_OF_LLAMA states in freq_scale_train.
    """
    model = model_of_log(tmp_path, LOG_OF_LLAMA + "llama_context: freq_scale    = 0.25\n")
    (warning,) = model.warnings

    assert "the server uses freq_scale 0.25, the model has 1" in warning


def test_a_server_that_uses_the_models_own_scale_is_not_warned_about(tmp_path: Path) -> None:
    """The lines of llama_context state what the server uses: here base 10000 and scale 1, which are
    also the model's in LOG_OF_LLAMA.
    """
    lines = "llama_context: freq_base     = 10000.0\nllama_context: freq_scale    = 1\n"
    assert model_of_log(tmp_path, LOG_OF_LLAMA + lines).warnings == ()


def test_a_model_that_states_no_base_has_the_base_of_llama_cpp(tmp_path: Path) -> None:
    """llama.cpp computes with base 10000 if a file has no `rope.freq_base`, so that a server which
    uses 10000 uses the model's own.
    """
    log = LOG_OF_LLAMA.replace("print_info: freq_base_train  = 10000.0\n", "")
    served = "llama_context: freq_base     = 10000.0\n"
    assert model_of_log(tmp_path, log + served).warnings == ()


def test_flags_that_are_given_beside_a_log_change_its_model(tmp_path: Path) -> None:
    """LOG_OF_LLAMA has no scaling; llama.cpp's flag --rope-scale 4 divides positions by 4."""
    path = tmp_path / "server.log"
    path.write_text(LOG_OF_LLAMA)

    assert pecli.load_model(path, "--rope-scale 4").one().parameters["factor"] == 4.0


def test_longrope_in_a_log_is_read_as_unscaled_with_a_warning(tmp_path: Path) -> None:
    """The divisors of longrope are tensors, which a log does not print. The line of LOG_OF_LLAMA
    about scaling is changed to longrope.
    """
    model = model_of_log(tmp_path, LOG_OF_LLAMA.replace("= linear", "= longrope"))
    assert model.one().parameters["scaling"] == "none"
    assert "a log does not show its factors" in model.warnings[0]


def test_the_first_of_two_models_in_a_log_counts(tmp_path: Path) -> None:
    """The log of speculative decoding shows the draft model, here with base 500000, after the main
    one with base 10000.
    """
    draft = LOG_OF_LLAMA.replace("10000.0", "500000.0")
    assert model_of_log(tmp_path, LOG_OF_LLAMA + draft).one().parameters["base"] == 10000.0


def test_a_log_without_sizes_is_refused(tmp_path: Path) -> None:
    """Without n_rot or the width of a head there is no number of frequencies."""
    with pytest.raises(pecli.FileError, match=r"rope\.dimension_count"):
        model_of_log(tmp_path, "print_info: arch = llama\nprint_info: freq_base_train = 10000.0\n")


def log_with_scale(scale: str) -> str:
    """Return LOG_OF_LLAMA with another scale of positions in its own line and in llama_context's."""
    log = LOG_OF_LLAMA.replace("freq_scale_train = 1\n", f"freq_scale_train = {scale}\n")
    return f"{log}llama_context: freq_scale = {scale}\n"


def test_a_scale_of_a_log_divides_positions_by_its_inverse(tmp_path: Path) -> None:
    """llama.cpp multiplies positions by freq_scale: 0.25 is linear scaling by the factor 4."""
    encoding = model_of_log(tmp_path, log_with_scale("0.25")).one()
    assert encoding.parameters["scaling"] == "linear"
    assert encoding.parameters["factor"] == 4.0


@pytest.mark.parametrize("scale", ["0", "-1", "Infinity", "[1, 2]", "null"])
def test_a_scale_of_a_log_that_is_no_number_above_zero_is_ignored(
    scale: str, tmp_path: Path
) -> None:
    """Damaged lines of a llama.cpp log must neither be an error nor make a scaling. «rope scaling =
    linear» in LOG_OF_LLAMA is llama.cpp's default, and without a scale it scales nothing.
    """
    encoding = model_of_log(tmp_path, log_with_scale(scale)).one()
    assert encoding.parameters["scaling"] == "none"


def test_a_stored_key_names_the_architecture_if_no_info_line_does(tmp_path: Path) -> None:
    """The first line of LOG_OF_LLAMA, «print_info: arch = llama», is cut off, so that
    general.architecture of the stored keys counts.
    """
    stored_key = "llama_model_loader: - kv   0: general.architecture str = llama\n"
    without_architecture = LOG_OF_LLAMA.partition("\n")[2]

    assert model_of_log(tmp_path, stored_key + without_architecture).model_type == "llama"


def test_the_largest_bias_of_alibi_is_read_from_a_log(tmp_path: Path) -> None:
    """A log of llama.cpp for an MPT has rope type −1, which is none, and states f_max_alibi_bias =
    8.0e+00, the maximum of ALiBi's paper.
    """
    log = LOG_OF_LLAMA.replace("= llama", "= mpt").replace("rope type        = 0", "rope type = -1")
    encoding = model_of_log(tmp_path, log + "print_info: f_max_alibi_bias = 8.0e+00\n").one()

    assert encoding.scheme == "alibi"
    assert encoding.parameters["max_bias"] == 8.0
