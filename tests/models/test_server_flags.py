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
"""A row is a command line of a public thread, and what the server makes of it by its source:

    {"source": "https://github.com/ggml-org/llama.cpp/pull/2054", "model": {…}, "dim": 128,
     "flags": "server --rope-freq-scale 0.25 -c 8192", "server": "llama.cpp",
     "base": 10000, "scaling": "linear", "factor": 4, "problems": [],
     "scale": 0.25, "ext": 0, "original": null, "own": null}

The last line has arguments of ggml_rope_ext: freq_scale, ext_factor (above 0 for YaRN), the original
length (null without YaRN); `own` is «llama3» for models with Llama 3.1's divisors.
"""


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


def rope_with_flags(row: dict[str, Any]) -> Encoding:
    """Return the only rope of a row's model, as the flags change it."""
    (rope,) = model_with_flags(row).ropes()
    return rope


@dataclass(frozen=True)
class Ggml:
    """Arguments of `ggml_rope_ext`, with the formula of its frequencies."""

    dim: int
    freq_base: float
    freq_scale: float
    ext_factor: float
    n_ctx_orig: int
    beta_fast: float = 32
    beta_slow: float = 1

    def frequencies(self, freq_factors: list[float]) -> list[float]:
        low = max(0.0, math.floor(self.corrected_dim(self.beta_fast)))
        high = min(self.dim - 1.0, math.ceil(self.corrected_dim(self.beta_slow)))
        frequencies = []
        for pair, factor in enumerate(freq_factors):
            extrapolated = self.freq_base ** (-2 * pair / self.dim) / factor
            interpolated = extrapolated * self.freq_scale
            ramp = 1 - min(1.0, max(0.0, (pair - low) / max(0.001, high - low)))
            mix = ramp * self.ext_factor
            frequencies.append(interpolated * (1 - mix) + extrapolated * mix)
        return frequencies

    def corrected_dim(self, turns: float) -> float:
        turns_of_one_radian = self.n_ctx_orig / (turns * 2 * math.pi)
        return self.dim * math.log(turns_of_one_radian) / (2 * math.log(self.freq_base))


"""rope_yarn and ggml_rope_yarn_corr_dims in ggml/src/ggml-cpu/ops.cpp of llama.cpp b10586.

Linear scaling has ext_factor 0, an NTK base has freq_scale 1, and YaRN has ext_factor 1. `low` and
`high` are the pairs that turn beta_fast and beta_slow times in the original length.
"""


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
    """server_flags.jsonl has command lines of public threads; they must not become fewer."""
    assert len(ROWS) >= 60


def test_flags_are_recognised_as_those_of_their_server(row: dict[str, Any]) -> None:
    """Each row has a command line of a public thread or documentation, such as «-c 16384
    --rope-freq-base 80000», and the server that is named there, such as llama.cpp.
    """
    report = model_with_flags(row).flags
    assert report is not None
    assert report.server == row["server"]


def test_flags_make_the_base_of_the_server(row: dict[str, Any]) -> None:
    """Each row has a command line of a server, the model, and the base that the server computes of
    them, read from its source (see data/README.md).
    """
    base = rope_with_flags(row).parameters["base"]
    assert base == pytest.approx(row["base"], rel=2e-6)


def test_flags_make_the_scaling_of_the_server(row: dict[str, Any]) -> None:
    """Each row has a command line of a server and the scaling that the server computes from its
    flags, read from its source (see data/README.md).
    """
    assert rope_with_flags(row).parameters["scaling"] == row["scaling"]


def test_flags_make_the_factor_of_the_server(row: dict[str, Any]) -> None:
    """Each row of ROWS has a command line, such as «server --rope-freq-scale 0.25», and the factor of
    the scaling that the server makes of it by its source, here 4; null is no scaling by a factor.
    """
    factor = rope_with_flags(row).parameters.get("factor")
    expected = row["factor"]
    assert factor == (None if expected is None else pytest.approx(expected))


def test_flags_have_the_problems_that_were_found_by_hand(row: dict[str, Any]) -> None:
    """Each row has a command line and the codes of its problems, such as «inverted-scale» or
    «beyond-context», which a person found in it. The warnings must have these codes and no others.
    """
    report = model_with_flags(row).flags
    assert report is not None
    assert {warning.problem for warning in report.warnings} == set(row["problems"])


def test_flags_make_the_frequencies_that_ggml_computes(row: dict[str, Any]) -> None:
    """Each row of ROWS has a command line, and the arguments of `ggml_rope_ext` that it leads to by the
    server's source, such as a scale of 0.25; `Ggml` is ggml's formula. Models with llama3 scaling
    have divisors in a tensor besides. Dynamic scaling, which depends on the prompt, is not applied.
    """
    ggml = Ggml(
        dim=row["dim"],
        freq_base=row["base"],
        freq_scale=row["scale"],
        ext_factor=row["ext"],
        # Without YaRN (ext 0) no original length is stated, and it has no effect: 4096 is any.
        n_ctx_orig=row["original"] or 4096,
    )
    divisors = llama3_factors() if row["own"] == "llama3" else [1.0] * (row["dim"] // 2)

    frequencies = rope_with_flags(row).inverse_frequencies()
    # Servers compute bases and scales in float32.
    assert frequencies == pytest.approx(ggml.frequencies(divisors), rel=2e-5)


def problems_with_flags(model: str, flags: str) -> set[str]:
    report = pecli.load_model(model, flags).flags
    assert report is not None
    return {warning.problem for warning in report.warnings}


def test_alpha_is_noted_with_the_base_that_it_means() -> None:
    """text-generation-webui computes theta = 10000 · alpha^(128 / 126) for heads of 128 channels."""
    theta = 10000 * 2.5 ** (128 / 126)  # 25,366
    report = pecli.load_model("llama-2-7b", "alpha_value=2.5").flags
    assert report is not None
    assert report.notes == (f"alpha 2.5 is theta {theta:,.0f} for heads of 128 with base 10000",)


def test_alpha_keeps_the_attention_factors_of_a_longrope_scaling() -> None:
    """Alpha changes the base only. Phi-3.5-MoE states its two attention factors, short_mscale and
    long_mscale, which longrope's own formula (1.19 here) does not replace.
    """
    longrope = {
        "type": "longrope",
        "short_factor": [1.0] * 64,
        "long_factor": [2.0] * 64,
        "short_mscale": 1.25,
        "long_mscale": 1.5,
    }
    config = {
        "model_type": "phimoe",
        "hidden_size": 512,
        "num_attention_heads": 4,
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "rope_scaling": longrope,
    }
    encoding = pecli.load_model(config, "alpha_value=2.5").one()

    assert encoding.attention_factor(4096) == 1.25
    assert encoding.attention_factor(131072) == 1.5


def test_flags_for_yarn_have_the_attention_factor_of_the_paper() -> None:
    """YaRN's paper: 1 + 0.1 ln(factor)."""
    model = pecli.load_model("llama-2-7b", "--rope-scaling yarn --rope-scale 4")
    assert model.one().attention_factor() == pytest.approx(1 + 0.1 * math.log(4))


@pytest.mark.parametrize("base", [1.5, 2, 10000])
def test_an_ext_factor_of_one_half_blends_half_of_yarn_as_ggml_does(base: float) -> None:
    """`Ggml` is the formula of llama.cpp's ggml_rope_ext, written again in this module. Llama 2 7B
    has heads of 128 channels and 4096 positions; --rope-scale 4 is freq_scale 1 / 4.
    """
    flags = f"--rope-freq-base {base} --rope-scaling yarn --rope-scale 4 --yarn-ext-factor 0.5"
    encoding = pecli.load_model("llama-2-7b", flags).one()
    ggml = Ggml(dim=128, freq_base=base, freq_scale=1 / 4, ext_factor=0.5, n_ctx_orig=4096)
    no_divisors = [1.0] * 64

    assert encoding.inverse_frequencies() == pytest.approx(ggml.frequencies(no_divisors), rel=1e-12)


@pytest.mark.parametrize(
    "betas",
    [
        pytest.param("", id="no flags of betas"),
        pytest.param("--yarn-beta-fast -1 --yarn-beta-slow -1", id="negative betas"),
    ],
)
def test_betas_that_no_flag_states_are_those_of_the_model(betas: str) -> None:
    """YaRN's ramp begins at the pair that turns beta_fast times in the original length, and ends at that
    of beta_slow. llama.cpp takes the model's betas, 16 and 2 here, if a flag is absent or negative.
    --yarn-ext-factor 0.5 halves the blend, and `Ggml` is llama.cpp's formula, written again in this
    module.
    """
    config = {
        "model_type": "llama",
        "hidden_size": 512,
        "num_attention_heads": 4,
        "max_position_embeddings": 16384,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "original_max_position_embeddings": 4096,
        },
    }
    encoding = pecli.load_model(config, f"llama-server --yarn-ext-factor 0.5 {betas}").one()
    ggml = Ggml(
        dim=512 // 4,
        freq_base=10000,
        freq_scale=1 / 4,
        ext_factor=0.5,
        n_ctx_orig=4096,
        beta_fast=16,
        beta_slow=2,
    )
    no_divisors = [1.0] * 64

    assert encoding.inverse_frequencies() == pytest.approx(ggml.frequencies(no_divisors), rel=1e-12)


@pytest.mark.parametrize(
    ("flag", "rule"),
    [
        pytest.param("--rope-freq-base 1", "b must be above 1", id="base 1"),
        pytest.param("--yarn-beta-slow 0", "it must be a finite number above 0", id="beta 0"),
    ],
)
def test_half_of_yarn_is_refused_if_it_has_no_limits(flag: str, rule: str) -> None:
    """The pair that turns β times over L positions is d · ln(L / (2π β)) / (2 ln base): there is
    none for base 1 or for β = 0.
    """
    flags = f"llama-server --rope-scaling yarn --rope-scale 4 --yarn-ext-factor 0.5 {flag}"
    with pytest.raises(ParameterError, match=rule):
        pecli.load_model("llama-2-7b", flags)


def test_yarn_comes_on_top_of_the_divisors_of_llama_3_1() -> None:
    """llama.cpp divides by the tensor rope_freqs.weight (`llama3_factors`, Meta's formula) first, and
    then applies YaRN; `Ggml` is its formula, written again in this module.
    """
    flags = "llama-server --rope-scaling yarn --rope-scale 2 --yarn-orig-ctx 131072"
    encoding = pecli.load_model("llama-3.1-8b", flags).one()
    ggml = Ggml(dim=128, freq_base=500000, freq_scale=1 / 2, ext_factor=1, n_ctx_orig=131072)

    expected = ggml.frequencies(llama3_factors())
    assert encoding.inverse_frequencies() == pytest.approx(expected, rel=1e-9)


def test_sliding_layers_keep_their_base_beside_a_flag() -> None:
    """llama.cpp applies --rope-freq-base to full-attention layers only; sliding layers of Gemma 3
    have base 10000.
    """
    model = pecli.load_model("gemma-3-4b", "--rope-freq-base 4000000")
    assert model.one("sliding_attention").parameters["base"] == 10000.0
    assert model.one("full_attention").parameters["base"] == 4000000.0


def test_the_source_of_a_value_that_a_flag_states_is_the_flag() -> None:
    """Reports show the source of each parameter: the flag --rope-scale for the factor of Llama 2, which
    is unscaled by itself.
    """
    encoding = pecli.load_model("llama-2-7b", "--rope-scale 2").one()
    assert encoding.sources["factor"] == "--rope-scale"


def test_the_source_of_an_overridden_value_names_flag_and_key() -> None:
    """vLLM accepts a key of the config after a dot: --hf-overrides.rope_scaling '{…}'. The source
    of the factor is the flag and the key within its JSON.
    """
    flags = """vllm serve --hf-overrides.rope_scaling '{"rope_type": "linear", "factor": 2}'"""
    encoding = pecli.load_model("llama-2-7b", flags).one()

    assert encoding.sources["factor"] == "--hf-overrides.rope_scaling.factor"


def test_a_warning_that_flags_put_right_is_no_longer_given(tmp_path: Path) -> None:
    """YaRN of the configuration lacks its original length, which is warned of. The flag states it."""
    path = tmp_path / "config.json"
    yarn = {"rope_type": "yarn", "factor": 4.0}
    llama = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    path.write_text(json.dumps({**llama, "max_position_embeddings": 4096, "rope_scaling": yarn}))
    complete = json.dumps({**yarn, "original_max_position_embeddings": 1024})

    model = pecli.load_model(path)
    with_flags = pecli.load_model(path, f"vllm serve --hf-overrides.rope_scaling '{complete}'")

    assert any("is missing" in warning for warning in model.warnings)
    assert not any("is missing" in warning for warning in with_flags.warnings)


def test_two_overrides_with_keys_after_dots_make_one_object_of_settings() -> None:
    """vLLM makes {"rope_scaling": {"rope_type": "linear", "factor": 2}} of two flags, one per key."""
    flags = (
        "vllm serve --hf-overrides.rope_scaling.rope_type linear"
        " --hf-overrides.rope_scaling.factor 2"
    )
    encoding = pecli.load_model("llama-2-7b", flags).one()
    assert encoding.parameters["scaling"] == "linear"
    assert encoding.parameters["factor"] == 2


def test_of_overrides_by_a_number_and_by_an_object_the_last_one_counts() -> None:
    """vLLM updates one object by each flag in turn (`recursive_dict_update` in its utilities), which
    replaces a value unless both are objects.
    """
    factor_of_2 = (
        "--hf-overrides.rope_scaling.rope_type linear --hf-overrides.rope_scaling.factor 2"
    )
    number = "--hf-overrides.rope_scaling 5"
    encoding = pecli.load_model("llama-2-7b", f"vllm serve {number} {factor_of_2}").one()

    assert encoding.parameters["factor"] == 2
    with pytest.raises(pecli.PecliError, match="rope_scaling is 5; it must be an object"):
        pecli.load_model("llama-2-7b", f"vllm serve {factor_of_2} {number}")


def test_an_override_that_drops_the_sections_of_images_is_a_problem() -> None:
    """vLLM replaces all of rope_scaling, so that Qwen2.5-VL's mrope_section is lost."""
    flags = """vllm serve --hf-overrides '{"rope_scaling": {"rope_type": "yarn", "factor": 4}}'"""
    assert "keys-lost" in problems_with_flags("qwen2.5-vl-7b", flags)


def test_an_override_without_its_factor_is_refused() -> None:
    """`facto` is misspelled, and linear scaling needs a factor."""
    flags = """vllm serve --hf-overrides '{"rope_scaling": {"rope_type": "linear", "facto": 2}}'"""
    with pytest.raises(pecli.PecliError, match="factor"):
        pecli.load_model("llama-2-7b", flags)


def test_self_extend_is_reported_as_having_no_table() -> None:
    """Self-extend of llama-cli (grp-attn-n) groups positions while it runs; no table shows it. The
    8192 positions are also beyond the 4096 of Llama 2.
    """
    flags = "llama-cli -c 8192 --grp-attn-n 4 --grp-attn-w 2048"
    assert problems_with_flags("llama-2-7b", flags) == {"no-table", "beyond-context"}


@pytest.mark.parametrize(
    ("flags", "advice"),
    [
        ("llama-server --rope-freqbase 20000", "did you mean --rope-freq-base"),
        ("llama-server --yarn-original-ctx 4096", "did you mean --yarn-orig-ctx"),
        ("vllm serve m --max-model-length 4096", "did you mean --max-model-len"),
        ("vllm serve m --rope-freq-base 20000", "vLLM 0.26.1 has no such flag"),
        ("koboldcpp.py --rope-scale 2", "koboldcpp 1.76 has no such flag"),
        ("llama-server --rope-scale", "without a value"),
        ("llama-server --rope-scale.x 4", "--rope-scale.x; its value has no keys"),
        ("vllm serve m --max-model-len.x=8", "--max-model-len.x; its value has no keys"),
        ("LLM(rope_theta={1, 2})", "it must be a number"),
        (f"vllm serve m --hf-overrides '{'[' * 5000}'", "it must be a JSON object"),
        ("llama-server --rope-scale two", "it must be a number"),
        ("vllm serve m --hf-overrides yarn", "it must be a JSON object"),
        ("llama-server --override-kv llama.rope.freq_base=1", "KEY=TYPE:VALUE"),
        ("llama-server --override-kv llama.rope.freq_base=str:x", "it must be a number"),
        ("llama-server --override-kv llama.rope.freq_base=float:-1", "must not be negative"),
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
    ("text", "value"),
    [
        pytest.param("--rope-scale 2", "2", id="a blank"),
        pytest.param("--rope-scale=2", "2", id="an equals sign"),
        pytest.param("rope_scale=2", "2", id="no dashes"),
        pytest.param("model:\n  rope_scale: 2", "2", id="YAML"),
        pytest.param('{"rope_scale": 2}', "2", id="JSON"),
        pytest.param("llama-server ^\n --rope-scale ^\n 2", "2", id="lines of Windows, ended by ^"),
        pytest.param('--rope-scale {"factor": 2}', '{"factor": 2}', id="a value of JSON"),
        pytest.param("--rope-scale {a,b}", "{a,b}", id="braces that are no JSON"),
    ],
)
def test_a_flag_is_found_in_every_spelling(text: str, value: str) -> None:
    """Users paste command lines and files of settings. However rope_scale is spelled there, its key and
    value are the same, and blanks within JSON do not end the value.
    """
    (flag,) = parse_command_line(text, {"rope_scale"}).flags
    assert flag.key == "rope_scale"
    assert flag.values == (value,)


def test_all_words_up_to_the_next_flag_are_values_of_a_flag() -> None:
    """A flag may have several values. JSON is one word, with quotes and braces in it or not."""
    text = """--rope-scale={"a": {"b": "it's"}} x"""
    (flag,) = parse_command_line(text, {"rope_scale"}).flags
    assert flag.key == "rope_scale"
    assert flag.values == ("""{"a": {"b": "it's"}}""", "x")


@pytest.mark.parametrize(
    ("model", "flags", "rule"),
    [
        pytest.param(
            "llama-2-7b", "--rope-freq-base -1", "it must not be negative", id="a negative base"
        ),
        pytest.param("llama-2-7b", "--rope-scale nan", "it must be a number", id="no number"),
        pytest.param(
            "gemma-4-e2b",
            "--rope-scaling linear --rope-scale 2",
            "proportional frequencies",
            id="proportional frequencies",
        ),
    ],
)
def test_values_that_no_server_computes_are_refused(model: str, flags: str, rule: str) -> None:
    """A base must not be negative, a scale must be a number, and Gemma 4's proportional frequencies
    cannot be scaled linearly.
    """
    with pytest.raises(pecli.ParameterError, match=rule):
        pecli.load_model(model, flags)


def test_the_last_of_two_overrides_counts() -> None:
    """rope_scaling (transformers 4) and rope_parameters (5) are two spellings of one key; the first
    override has the factor 2, the last one 4.
    """
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


def test_no_cap_is_noted_if_a_flag_also_replaces_the_trained_context() -> None:
    """llama-server caps -c at the trained context of the .gguf file. --override-kv replaces that by
    16,384 = 4 · 4096 positions, as many as -c has.
    """
    flags = "llama-server -c 16384 --rope-scale 4 --override-kv llama.context_length=int:16384"
    assert notes_about_flags("llama-2-7b", flags) == ()


@pytest.mark.parametrize("word", ["foo", "YARN2", "dynamic"])
def test_a_scaling_that_llama_cpp_does_not_know_is_an_error(word: str) -> None:
    """llama-server's --help lists these four words, in lower case."""
    with pytest.raises(ParameterError, match="one of none, linear, yarn, longrope"):
        pecli.load_model("qwen3-8b", f"llama-server --rope-scaling {word}")


@pytest.mark.parametrize("scale", ["1", "1.5"])
def test_a_scale_of_one_or_more_is_not_reported_as_inverted(scale: str) -> None:
    """llama.cpp divides positions by --rope-scale: from 1 on they are stretched, as is usual."""
    flags = f"--rope-scaling linear --rope-scale {scale}"
    assert "inverted-scale" not in problems_with_flags("llama-2-7b", flags)


def test_a_scale_below_one_is_reported_as_inverted() -> None:
    """--rope-scale 0.5 doubles positions, which nobody wants; --rope-freq-scale 0.5, the inverse, is
    meant.
    """
    flags = "--rope-scaling linear --rope-scale 0.5"
    assert "inverted-scale" in problems_with_flags("llama-2-7b", flags)


def test_the_base_of_a_flag_replaces_that_of_the_text_model_in_text_config() -> None:
    """The config of a model of text and images has the text model's settings in `text_config`."""
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


def test_a_file_whose_name_begins_with_a_flag_is_no_flag() -> None:
    """`alpha` is a flag of exllama without dashes. A model's file may be called alpha.gguf."""
    flags = "python server.py --model alpha.gguf --rope_freq_base 20000"
    assert pecli.load_model("llama-2-7b", flags).one().parameters["base"] == 20000


def test_a_path_of_thousands_of_keys_is_read() -> None:
    """The keys a.a.a… lead to a value that no encoding reads: the model keeps its base, 10000."""
    flags = f"vllm serve m --hf-overrides{'.a' * 3000}=4"
    assert pecli.load_model("llama-2-7b", flags).one().parameters["base"] == 10000
