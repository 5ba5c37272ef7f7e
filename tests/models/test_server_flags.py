"""Server flags: command lines of public threads and documentation, and what the servers make of
them.

A row of server_flags.jsonl has a command line with its address (`source`), the model, and what the
server computes, read from its source by hand (see data/README.md): base, scaling, factor, and
problems, which are codes such as «inverted-scale» or «beyond-context». `Ggml` is llama.cpp's
formula, written again. Llama 2 7B has base 10000, heads of 128 channels, and 4,096 positions.
"""

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import pecli
from pecli.errors import ParameterError
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.flags.command_line import parse_command_line

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "server_flags.jsonl").read_text().splitlines()
]


def name_of(row: dict[str, Any]) -> str:
    thread = "/".join(row["source"].split("/")[-3:])
    return f"{row['server']}-{thread}-{row['flags'][-24:]}".replace(" ", "_")


@pytest.fixture(params=ROWS, ids=map(name_of, ROWS))
def row(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.param
    return found


def model_with_flags(row: dict[str, Any]) -> ModelEncodings:
    return model_of_line(json.dumps(row))


@cache
def model_of_line(line: str) -> ModelEncodings:
    """Read the flags of a row once for all its tests."""
    row = json.loads(line)
    return pecli.load_model(row["model"], row["flags"])


def full_layers(model: ModelEncodings) -> Encoding:
    return max(model.ropes(), key=lambda encoding: encoding.parameters["base"])


@dataclass(frozen=True)
class Ggml:
    """The arguments of `ggml_rope_ext`, of which every server's frequencies are a case.

    See rope_yarn and ggml_rope_yarn_corr_dims in ggml/src/ggml-cpu/ops.cpp of llama.cpp b10586.
    Linear scaling has ext_factor 0, an NTK base has freq_scale 1, and YaRN has ext_factor 1.
    """

    dim: int
    freq_base: float
    freq_scale: float
    ext_factor: float
    n_ctx_orig: int

    def frequencies(self, freq_factors: list[float]) -> list[float]:
        low = max(0.0, math.floor(self.corrected_dim(32)))
        high = min(self.dim - 1.0, math.ceil(self.corrected_dim(1)))
        frequencies = []
        for pair, factor in enumerate(freq_factors):
            extrapolated = self.freq_base ** (-2 * pair / self.dim) / factor
            interpolated = extrapolated * self.freq_scale
            ramp = 1 - min(1.0, max(0.0, (pair - low) / max(0.001, high - low)))
            mix = ramp * self.ext_factor
            frequencies.append(interpolated * (1 - mix) + extrapolated * mix)
        return frequencies

    def corrected_dim(self, turns: float) -> float:
        wavelengths = self.n_ctx_orig / (turns * 2 * math.pi)
        return self.dim * math.log(wavelengths) / (2 * math.log(self.freq_base))


def llama3_factors() -> list[float]:
    """Return the tensor rope_freqs.weight that llama.cpp's converter makes for Llama 3.1 8B."""
    factors = []
    for pair in range(64):
        wavelength = 2 * math.pi * 500000 ** (2 * pair / 128)
        if wavelength < 8192 / 4:
            factors.append(1.0)
        elif wavelength > 8192 / 1:
            factors.append(8.0)
        else:
            smooth = (8192 / wavelength - 1) / (4 - 1)
            factors.append(1 / ((1 - smooth) / 8 + smooth))
    return factors


def test_there_are_at_least_sixty_stored_command_lines() -> None:
    """The stored rows must not become fewer."""
    assert len(ROWS) >= 60


def test_flags_are_recognised_as_those_of_their_server(row: dict[str, Any]) -> None:
    """The row's command line is from a public thread or documentation; its server was read there."""
    report = model_with_flags(row).flags
    assert report is not None
    assert report.server == row["server"]


def test_flags_make_the_base_of_the_server(row: dict[str, Any]) -> None:
    """The base was read from the server's source (see data/README.md), for the layers with the
    largest base.
    """
    base = full_layers(model_with_flags(row)).parameters["base"]
    assert base == pytest.approx(row["base"], rel=2e-6)


def test_flags_make_the_scaling_of_the_server(row: dict[str, Any]) -> None:
    """Each row has a command line of a server and the scaling that the server computes from its
    flags, read from its source (see data/README.md).
    """
    assert full_layers(model_with_flags(row)).parameters["scaling"] == row["scaling"]


def test_flags_make_the_factor_of_the_server(row: dict[str, Any]) -> None:
    """The factor was read from the server's source (see data/README.md); None is no scaling by a
    factor.
    """
    factor = full_layers(model_with_flags(row)).parameters.get("factor")
    assert factor == (None if row["factor"] is None else pytest.approx(row["factor"]))


def test_flags_have_the_problems_that_were_found_by_hand(row: dict[str, Any]) -> None:
    """Problems are codes such as «inverted-scale», which the row lists by hand."""
    report = model_with_flags(row).flags
    assert report is not None
    assert {warning.problem for warning in report.warnings} == set(row["problems"])


def test_frequencies_are_those_of_the_runtime(row: dict[str, Any]) -> None:
    """The expected ones are computed by ggml's formula (`Ggml`), before any call: dynamic scaling
    is not applied there.
    """
    encoding = full_layers(model_with_flags(row))
    ggml = Ggml(row["dim"], row["base"], row["scale"], row["ext"], row["original"] or 4096)
    factors = llama3_factors() if row["own"] == "llama3" else [1.0] * (row["dim"] // 2)

    assert encoding.inverse_frequencies() == pytest.approx(ggml.frequencies(factors), rel=2e-5)


def problems_with_flags(model: str, flags: str) -> set[str]:
    report = pecli.load_model(model, flags).flags
    assert report is not None
    return {warning.problem for warning in report.warnings}


def test_alpha_is_noted_with_the_base_that_it_means() -> None:
    """text-generation-webui: theta = 10000 · alpha^(64/63), which is 25,366 for 2.5."""
    report = pecli.load_model("llama-2-7b", "alpha_value=2.5").flags
    assert report is not None
    assert report.notes == ("alpha 2.5 is theta 25,366 for heads of 128 with base 10000",)


def test_flags_for_yarn_have_the_attention_factor_of_the_paper() -> None:
    """YaRN's paper: 1 + 0.1 ln(factor)."""
    model = pecli.load_model("llama-2-7b", "--rope-scaling yarn --rope-scale 4")
    assert model.one().attention_factor() == pytest.approx(1 + 0.1 * math.log(4))


def test_an_ext_factor_of_one_half_blends_as_ggml_does() -> None:
    """`Ggml` computes ggml_rope_ext's frequencies from its arguments: dim, base, freq_scale,
    ext_factor, original length.
    """
    flags = "--rope-scaling yarn --rope-scale 4 --yarn-ext-factor 0.5"
    encoding = pecli.load_model("llama-2-7b", flags).one()
    expected = Ggml(128, 10000, 0.25, 0.5, 4096).frequencies([1.0] * 64)

    assert encoding.inverse_frequencies() == pytest.approx(expected, rel=1e-12)


def test_yarn_on_top_of_the_factors_of_a_tensor() -> None:
    """llama.cpp divides by the tensor rope_freqs.weight first, and then applies YaRN."""
    flags = "llama-server --rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 131072"
    encoding = pecli.load_model("llama-3.1-8b", flags).one()
    expected = Ggml(128, 500000, 0.5, 1, 131072).frequencies(llama3_factors())

    assert encoding.inverse_frequencies() == pytest.approx(expected, rel=1e-9)


def test_sliding_layers_keep_their_base() -> None:
    """llama.cpp applies --rope-freq-base to full-attention layers only."""
    model = pecli.load_model("gemma-3-4b", "--rope-freq-base 4000000")
    assert model.one("sliding_attention").parameters["base"] == 10000.0
    assert model.one("full_attention").parameters["base"] == 4000000.0


def test_the_source_of_a_value_is_its_flag() -> None:
    """Reports show it in place of a key."""
    encoding = pecli.load_model("llama-2-7b", "--rope-scale 2").one()
    assert encoding.sources["factor"] == "--rope-scale"


def test_the_source_of_an_overridden_value_names_flag_and_key() -> None:
    """vLLM accepts a key of the config after a dot: --hf-overrides.rope_scaling '{…}'. The source
    of the factor is the flag and the key within its JSON.
    """
    flags = """vllm serve --hf-overrides.rope_scaling '{"rope_type": "linear", "factor": 2}'"""
    encoding = pecli.load_model("llama-2-7b", flags).one()

    assert encoding.sources["factor"] == "--hf-overrides.rope_scaling.factor"


def test_an_override_that_drops_the_sections_of_images_is_a_problem() -> None:
    """vLLM replaces all of rope_scaling, so that mrope_section is lost."""
    flags = """vllm serve --hf-overrides '{"rope_scaling": {"rope_type": "yarn", "factor": 4}}'"""
    assert "keys-lost" in problems_with_flags("qwen2.5-vl-7b", flags)


def test_an_override_without_its_factor_is_refused() -> None:
    """`facto` is not `factor`."""
    flags = """vllm serve --hf-overrides '{"rope_scaling": {"rope_type": "linear", "facto": 2}}'"""
    with pytest.raises(pecli.PecliError, match="factor"):
        pecli.load_model("llama-2-7b", flags)


def test_self_extend_is_reported_as_having_no_table() -> None:
    """Self-extend of llama-cli (grp-attn-n) groups positions while it runs; no table shows it."""
    assert problems_with_flags(
        "llama-2-7b", "llama-cli -c 8192 --grp-attn-n 4 --grp-attn-w 2048"
    ) == {
        "no-table",
        "beyond-context",
    }


@pytest.mark.parametrize(
    ("flags", "advice"),
    [
        ("llama-server --rope-freqbase 20000", "did you mean --rope-freq-base"),
        ("llama-server --yarn-original-ctx 4096", "did you mean --yarn-orig-ctx"),
        ("vllm serve m --max-model-length 4096", "did you mean --max-model-len"),
        ("vllm serve m --rope-freq-base 20000", "llama.cpp"),
        ("koboldcpp.py --rope-scale 2", "it is a flag of llama.cpp"),
        ("llama-server --rope-scale", "without a value"),
        ("llama-server --rope-scale two", "it must be a number"),
        ("vllm serve m --hf-overrides yarn", "it must be a JSON object"),
        ("llama-server --override-kv llama.rope.freq_base=1", "KEY=TYPE:VALUE"),
        ("llama-server --rope-scale '2", "check its quotes"),
        ("--port 8000", "begin with the program"),
        ("  ", "it must be a command line"),
    ],
)
def test_wrong_flags_are_refused_with_advice(flags: str, advice: str) -> None:
    """Misspelled flags, flags of another server, values that are missing or no number, broken
    quotes, and no command line at all.
    """
    with pytest.raises(pecli.ParameterError, match=advice):
        pecli.load_model("llama-2-7b", flags)


def test_flags_about_other_matters_are_ignored() -> None:
    """None of these changes frequencies; -c 4096 is the model's own context."""
    flags = "llama-server -m m.gguf --context-shift --ctx-checkpoints 4 --temp 0.7 -ngl 99 -c 4096"
    assert problems_with_flags("llama-2-7b", flags) == set()


def test_overrides_need_a_configuration() -> None:
    """A model that was read already no longer has the keys that --hf-overrides replaces."""
    model = pecli.load_model("llama-2-7b")
    with pytest.raises(pecli.ParameterError, match=r"config\.json"):
        pecli.load_model(model, """--hf-overrides '{"rope_theta": 1}'""")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("--rope-scale 2", ("2",)),
        ("--rope-scale=2", ("2",)),
        ("rope_scale=2", ("2",)),
        ("model:\n  rope_scale: 2", ("2",)),
        ('{"rope_scale": 2}', ("2",)),
        ("llama-server ^\n --rope-scale ^\n 2", ("2",)),
        ('--rope-scale {"factor": 2}', ('{"factor": 2}',)),
        ('--rope-scale={"a": {"b": "it\'s"}} x', ('{"a": {"b": "it\'s"}}', "x")),
    ],
)
def test_a_flag_is_found_in_every_spelling(text: str, values: tuple[str, ...]) -> None:
    """Command lines, YAML, JSON, lines continued as in Windows (^), and JSON values with blanks:
    key and values are the same.
    """
    flag = parse_command_line(text, {"rope_scale"}).flags[-1]
    assert flag.key == "rope_scale"
    assert flag.values == values


@pytest.mark.parametrize(
    ("model", "flags", "rule"),
    [
        ("llama-2-7b", "--rope-freq-base -1", "it must not be negative"),
        ("llama-2-7b", "--rope-scale nan", "it must be a number"),
        ("gemma-4-e2b", "--rope-scaling linear --rope-scale 2", "proportional frequencies"),
    ],
)
def test_values_that_no_server_computes_are_refused(model: str, flags: str, rule: str) -> None:
    """A negative base, NaN, and a linear factor for Gemma 4's proportional frequencies."""
    with pytest.raises(pecli.ParameterError, match=rule):
        pecli.load_model(model, flags)


def test_the_last_of_two_overrides_counts() -> None:
    """The factors are 2 and 4; rope_scaling and rope_parameters are two spellings of one key."""
    first = """--hf-overrides '{"rope_scaling": {"rope_type": "linear", "factor": 2}}'"""
    last = """--hf-overrides '{"rope_parameters": {"rope_type": "linear", "factor": 4}}'"""
    encoding = pecli.load_model("llama-2-7b", f"vllm serve m {first} {last}").one()

    assert encoding.parameters["factor"] == 4


def notes_about_flags(model: str, flags: str) -> tuple[str, ...]:
    report = pecli.load_model(model, flags).flags
    assert report is not None
    return report.notes


def test_a_server_that_caps_a_stretched_context_is_noted() -> None:
    """llama-server limits -c to the trained context, 4096 here, whatever the scale is."""
    flags = "llama-server -c 16384 --rope-scaling yarn --rope-scale 4"
    assert "caps the context at the trained one" in notes_about_flags("llama-2-7b", flags)[-1]


def test_a_server_whose_trained_context_is_replaced_too_needs_no_note() -> None:
    """4 · 4096 positions of Llama 2 are the 16,384 that the key now states."""
    flags = "llama-server -c 16384 --rope-scale 4 --override-kv llama.context_length=int:16384"
    assert notes_about_flags("llama-2-7b", flags) == ()


@pytest.mark.parametrize("word", ["foo", "YARN2", "dynamic"])
def test_a_scaling_that_llama_cpp_does_not_know_is_an_error(word: str) -> None:
    """Its --help lists these four words, in lower case."""
    with pytest.raises(ParameterError, match="one of none, linear, yarn, longrope"):
        pecli.load_model("qwen3-8b", f"llama-server --rope-scaling {word}")


@pytest.mark.parametrize("scale", ["1", "1.5"])
def test_a_scale_of_one_or_more_is_not_reported_as_inverted(scale: str) -> None:
    """llama.cpp divides positions by --rope-scale: from 1 on they are stretched, as is usual."""
    assert "inverted-scale" not in problems_with_flags(
        "llama-2-7b", f"--rope-scaling linear --rope-scale {scale}"
    )


def test_a_scale_below_one_is_reported_as_inverted() -> None:
    """0.5 doubles positions, which is meant for --rope-freq-scale, the inverse."""
    assert "inverted-scale" in problems_with_flags(
        "llama-2-7b", "--rope-scaling linear --rope-scale 0.5"
    )


def test_the_base_of_a_model_of_text_and_images_is_that_of_its_text() -> None:
    """Its configuration has the text model's settings in `text_config`, where the flag's value goes."""
    config = {
        "model_type": "mistral3",
        "text_config": {
            "model_type": "mistral",
            "hidden_size": 64,
            "num_attention_heads": 4,
            "max_position_embeddings": 4096,
            "rope_theta": 1e6,
        },
    }
    encoding = pecli.load_model(config, "vllm serve m --rope-theta 500000").one()

    assert encoding.parameters["base"] == 500000.0
