"""Runtimes that read a RoPE scaling differently from transformers: their frequencies, attention
factors, and the sentence that reports it.

A departure is such a difference, and a cause is the sentence that says what the runtime does.
Expected frequencies and factors are written here in NumPy from the source of each runtime, for
heads of 64 channels and base 1e6: YaRN with factor 4 from 32,768 positions, LongRoPE from 4096 to
131,072.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest

import pecli
from pecli.checks.runtimes import RuntimeResult
from pecli.engine.runtimes import EMULATED, RUNTIMES
from pecli.engine.schemes.rope import Rope, as_read_by_runtime
from pecli.errors import UnsupportedError

DIM, BASE = 64, 1e6
FLOAT32_ROUNDINGS = 4e-7
"""A few roundings of float32, relative: runtimes compute frequencies in this dtype."""
UNSCALED_FREQUENCIES = BASE ** (-np.arange(0, DIM, 2) / DIM)
YARN: dict[str, Any] = {"scaling": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
BETAS: dict[str, Any] = {"beta_fast": 32.0, "beta_slow": 1.0}
SHORT, LONG = np.linspace(1, 2, 32), np.linspace(1, 8, 32)
LONGROPE: dict[str, Any] = {
    "scaling": "longrope", "original_max_position_embeddings": 4096, "max_position_embeddings": 131072,
    "short_factor": SHORT.tolist(), "long_factor": LONG.tolist(),
}  # fmt: skip
G4 = 1 + 0.1 * np.log(4)
"""YaRN's attention factor for a context that is extended by 4."""


def yarn_frequencies(
    factor: float = 4.0,
    truncate: bool = True,
    fast: float = 32,
    slow: float = 1,
    head: int = DIM,
    original: int = 32768,
) -> np.ndarray:
    """Return YaRN's frequencies: unscaled up to the pair `low`, divided by the factor from the pair
    `high` on, and a mixture of both between them.

    Args:
        factor: The factor by which the context is extended.
        truncate: Round the limits to whole pairs, outwards.
        fast: The turns within the original context that pair `low` makes (beta_fast).
        slow: The turns within it that pair `high` makes (beta_slow).
        head: The channels that the limits are computed for.
        original: The context that the model was trained on.
    """
    low, high = (
        head * np.log(original / (2 * np.pi * beta)) / (2 * np.log(BASE)) for beta in (fast, slow)
    )
    low, high = (np.floor(low), np.ceil(high)) if truncate else (low, high)
    ramp = np.clip((np.arange(DIM // 2) - low) / (high - low), 0, 1)
    return UNSCALED_FREQUENCIES * (1 - ramp) + UNSCALED_FREQUENCIES / factor * ramp


class Departure(NamedTuple):
    """A runtime's frequencies and attention factor, and a part of the sentence that reports it."""

    runtime: str
    scaling: dict[str, Any]
    frequencies: np.ndarray
    attention: float
    cause: str


DEPARTURES_OF_RUNTIMES = {
    "SGLang's dynamic NTK is that of f² − f + 1": Departure(
        "sglang",
        {"scaling": "dynamic", "factor": 2.0, "max_position_embeddings": 4096, "length": 4096},
        (BASE * 3 ** (DIM / (DIM - 2))) ** (-np.arange(0, DIM, 2) / DIM),
        1.0,
        "NTK with factor 3",
    ),
    "exllamav3 computes YaRN's factor from the context": Departure(
        "exllamav3",
        {**YARN, "max_position_embeddings": 40960},
        yarn_frequencies(1.25),
        1 + 0.1 * np.log(1.25),
        "1.25; it ignores factor, 4",
    ),
    "exllamav3 uses the long factors from position 0 on": Departure(
        "exllamav3",
        {**LONGROPE, "length": 2048},
        UNSCALED_FREQUENCIES / LONG,
        np.sqrt(1 + np.log(32) / np.log(4096)),
        "the long factors from position 0 on",
    ),
    "exllamav3 uses the short factors if the context of the model is the original length": Departure(
        "exllamav3",
        {**LONGROPE, "max_position_embeddings": 4096, "length": 8192},
        UNSCALED_FREQUENCIES / SHORT,
        1.0,
        "the short factors at any length",
    ),
    "exllamav3 ignores the attention factor of LongRoPE": Departure(
        "exllamav3",
        {**LONGROPE, "attention_factor": 2.0, "length": 8192},
        UNSCALED_FREQUENCIES / LONG,
        np.sqrt(1 + np.log(32) / np.log(4096)),
        "computes it only from max_position_embeddings",
    ),
    "ONNX Runtime GenAI recognises YaRN by beta_fast": Departure(
        "onnxruntime-genai", YARN, UNSCALED_FREQUENCIES, 1.0, "nothing is scaled"
    ),
    "ONNX Runtime GenAI rounds no limits": Departure(
        "onnxruntime-genai",
        {**YARN, **BETAS, "attention_factor": 2.0},
        yarn_frequencies(truncate=False),
        G4,
        "does not round YaRN's limits",
    ),
    "ONNX Runtime GenAI multiplies by an mscale without mscale_all_dim": Departure(
        "onnxruntime-genai",
        {**YARN, **BETAS, "truncate": False, "mscale": 0.7},
        yarn_frequencies(truncate=False),
        0.7,
        "attention factor 0.7",
    ),
    "ONNX Runtime GenAI computes limits over the head": Departure(
        "onnxruntime-genai",
        {**YARN, **BETAS, "dim": 2 * DIM, "partial_rotary_factor": 0.5, "truncate": False},
        yarn_frequencies(truncate=False, head=2 * DIM),
        G4,
        "over the head size, 128, not the rotary dimension, 64",
    ),
    "candle multiplies by LongRoPE's factors": Departure(
        "candle",
        {**LONGROPE, "length": 8192},
        # The frequencies asked for are those of position 1, which has the short factors.
        UNSCALED_FREQUENCIES * SHORT,
        1.0,
        "by the long ones from position 4,096 on",
    ),
    "TensorRT-LLM always rounds": Departure(
        "tensorrt-llm",
        {**YARN, "truncate": False, "attention_factor": 2.0},
        yarn_frequencies(),
        G4,
        "rounds YaRN's limits",
    ),
    "litgpt's ramp is inverted": Departure(
        "litgpt", YARN, yarn_frequencies(fast=1, slow=32), 1.0, "ramp is inverted"
    ),
}


def departing_rope(case: Departure) -> Rope:
    return Rope(1, **{"dim": DIM, "base": BASE, **case.scaling}, runtime=case.runtime)


@pytest.mark.parametrize("name", DEPARTURES_OF_RUNTIMES)
def test_a_runtime_that_departs_has_the_frequencies_of_its_source(name: str) -> None:
    """Each name of DEPARTURES_OF_RUNTIMES states what the runtime does, such as «litgpt's ramp is
    inverted», and its row has the frequencies in NumPy, written from the runtime's source. The
    runtime computes them in float32.
    """
    case = DEPARTURES_OF_RUNTIMES[name]
    found = departing_rope(case).inverse_frequencies()

    np.testing.assert_allclose(found, case.frequencies, rtol=FLOAT32_ROUNDINGS)


@pytest.mark.parametrize("name", DEPARTURES_OF_RUNTIMES)
def test_a_runtime_that_departs_has_the_attention_factor_of_its_source(name: str) -> None:
    """The attention factor multiplies cos and sin; the expected one is a formula of the runtime's
    source, such as 1 + 0.1 ln(factor).
    """
    case = DEPARTURES_OF_RUNTIMES[name]
    found = departing_rope(case).attention_factor_value()

    assert found == pytest.approx(case.attention, rel=1e-12)


@pytest.mark.parametrize("name", DEPARTURES_OF_RUNTIMES)
def test_the_departure_of_a_runtime_is_reported_with_its_reading_of_the_scaling(name: str) -> None:
    """Each row of DEPARTURES_OF_RUNTIMES has a scheme with a runtime that departs from transformers,
    and a part of the sentence that reports it, written by hand: «ramp is inverted» for litgpt, for
    example.
    """
    case = DEPARTURES_OF_RUNTIMES[name]
    assert case.cause in " ".join(departing_rope(case).runtime_reading.causes)


@pytest.mark.parametrize("runtime", [name for name in RUNTIMES if name not in EMULATED])
@pytest.mark.parametrize(
    "scaling", [{}, {"scaling": "linear", "factor": 8.0}], ids=["unscaled", "linear"]
)
def test_runtimes_have_the_bytes_of_transformers_without_scaling_and_with_linear_scaling(
    scaling: dict[str, Any], runtime: str
) -> None:
    """By their source, these runtimes compute both as transformers does. The runtimes in EMULATED
    are compared in test_runtimes.py with tables that they computed.
    """
    rope = Rope(64, DIM, BASE, runtime=runtime, **scaling)
    by_transformers = Rope(64, DIM, BASE, runtime="transformers", **scaling)

    assert np.array_equal(rope.tables()["cos"], by_transformers.tables()["cos"])
    assert not rope.runtime_reading.causes


def test_dynamic_ntk_is_refused_for_exllamav3() -> None:
    """exllamav3 itself raises an error for dynamic scaling, so no table can be what it computes."""
    with pytest.raises(UnsupportedError, match="it raises an error"):
        Rope(
            1, DIM, scaling="dynamic", factor=2.0, max_position_embeddings=4096, runtime="exllamav3"
        )


def test_candle_switches_the_factors_of_longrope_at_the_original_length() -> None:
    """By its source, candle multiplies frequencies by the factors, where others divide: by the short
    ones at positions below the original length, 4096, and by the long ones from there on. It has no
    attention factor, so that the table is the cosine itself. float32 angles of up to 30,000 are off
    by up to 2e-3.
    """
    positions = np.arange(4090, 4102)
    frequencies = np.where(
        positions[:, None] < 4096, UNSCALED_FREQUENCIES * SHORT, UNSCALED_FREQUENCIES * LONG
    )
    expected = np.cos(positions[:, None] * frequencies)

    rope = Rope(1, DIM, BASE, runtime="candle", length=131072, **LONGROPE)
    np.testing.assert_allclose(rope.at(positions)["cos"], expected, atol=2e-3)


def test_no_scaling_of_all_positions_describes_the_longrope_of_candle() -> None:
    """`as_read_by_runtime` returns a scheme whose scaling is what the runtime computes. candle's factors depend
    on the position, so that there is no such scheme, and the given one is returned.
    """
    rope = Rope(1, DIM, BASE, runtime="candle", length=131072, **LONGROPE)
    assert as_read_by_runtime(rope) == rope


SIZES = {
    "head_dim": DIM,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "max_position_embeddings": 32768,
}
DYNAMIC_BY_2 = {"rope_type": "dynamic", "factor": 2.0}
LINEAR_BY_8 = {"rope_type": "linear", "factor": 8.0}
YARN_WITH_MSCALES = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 8192,
    "mscale": 1.0,
    "mscale_all_dim": 0.5,
}
YARN_OF_8192 = yarn_frequencies(factor=4, original=8192)
"""The frequencies of YARN_WITH_MSCALES, by the formula in NumPy; mscales do not change them."""
RATIO_OF_MSCALES = (1 + 0.1 * 1.0 * np.log(4)) / (1 + 0.1 * 0.5 * np.log(4))
"""The attention factor of YARN_WITH_MSCALES: 1 + 0.1 · mscale · ln(factor), divided by the same of
mscale_all_dim. Without one of both numbers it is G4, 1 + 0.1 · ln(factor).
"""


def ntk_frequencies(factor: float) -> np.ndarray:
    """Return the frequencies of a base that NTK multiplies by factor^(d / (d − 2))."""
    base = BASE * factor ** (DIM / (DIM - 2))
    return base ** (-np.arange(0, DIM, 2) / DIM)


class ScaledModel(NamedTuple):
    """A model with a rope_scaling, in a runtime."""

    runtime: str
    model_type: str
    rope_scaling: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        return {
            "model_type": self.model_type,
            **SIZES,
            "rope_theta": BASE,
            "rope_scaling": self.rope_scaling,
        }

    def rope(self) -> Rope:
        """Return the rotation of the first type of layer, as the runtime computes it."""
        return pecli.load_config(self.config).ropes()[0].rope(1, runtime=self.runtime)

    def result(self) -> RuntimeResult:
        """Return how the runtime differs from transformers at 4096 positions of these layers."""
        layers = pecli.runtimes(self.config, 4096, names=[self.runtime]).layers
        (result,) = next(iter(layers.values()))
        return result


MODELS_READ_DIFFERENTLY = {
    "SGLang takes alpha as NTK's factor": ScaledModel(
        "sglang", "llama", {**DYNAMIC_BY_2, "alpha": 8.0}
    ),
    "SGLang's dynamic NTK is that of f² − f + 1": ScaledModel("sglang", "llama", DYNAMIC_BY_2),
    "exllamav3 ignores both mscales of Mistral": ScaledModel(
        "exllamav3", "mistral", YARN_WITH_MSCALES
    ),
    "candle scales no Qwen 2": ScaledModel("candle", "qwen2", YARN_WITH_MSCALES),
    "candle scales no Qwen 3": ScaledModel("candle", "qwen3", YARN_WITH_MSCALES),
    "MLC scales no Gemma 3": ScaledModel("mlc", "gemma3_text", LINEAR_BY_8),
}
"""The rule in a runtime's source, and a model for which it differs from transformers."""


@pytest.mark.parametrize(
    ("rule", "frequencies"),
    {
        "SGLang takes alpha as NTK's factor": ntk_frequencies(factor=8),
        "SGLang's dynamic NTK is that of f² − f + 1": ntk_frequencies(factor=2**2 - 2 + 1),
        "exllamav3 ignores both mscales of Mistral": YARN_OF_8192,
        "candle scales no Qwen 2": UNSCALED_FREQUENCIES,
        "candle scales no Qwen 3": UNSCALED_FREQUENCIES,
        "MLC scales no Gemma 3": UNSCALED_FREQUENCIES,
    }.items(),
    ids=MODELS_READ_DIFFERENTLY,
)
def test_a_runtime_that_reads_a_model_differently_has_the_frequencies_of_its_rule(
    rule: str, frequencies: np.ndarray
) -> None:
    """`rule` is what the runtime's source does with a scaling of this model type, and `frequencies`
    are the same in NumPy. Gemma 3's scaling is that of its full layers, the first of `ropes()`.
    """
    rope = MODELS_READ_DIFFERENTLY[rule].rope()
    np.testing.assert_allclose(rope.inverse_frequencies(), frequencies, rtol=FLOAT32_ROUNDINGS)


@pytest.mark.parametrize(
    ("rule", "attention"),
    {
        "SGLang takes alpha as NTK's factor": 1.0,
        "SGLang's dynamic NTK is that of f² − f + 1": 1.0,
        "exllamav3 ignores both mscales of Mistral": 1 + 0.1 * np.log(4),
        "candle scales no Qwen 2": 1.0,
        "candle scales no Qwen 3": 1.0,
        "MLC scales no Gemma 3": 1.0,
    }.items(),
    ids=MODELS_READ_DIFFERENTLY,
)
def test_a_runtime_that_reads_a_model_differently_has_the_attention_factor_of_its_rule(
    rule: str, attention: float
) -> None:
    """The factor multiplies cos and sin: 1 without YaRN, and 1 + 0.1 · ln(4) for YaRN by 4 without its
    mscales.
    """
    rope = MODELS_READ_DIFFERENTLY[rule].rope()
    assert rope.attention_factor_value() == pytest.approx(attention, rel=1e-9)


@pytest.mark.parametrize(
    ("rule", "words"),
    {
        "SGLang takes alpha as NTK's factor": "reads alpha, 8",
        "SGLang's dynamic NTK is that of f² − f + 1": "NTK with factor 3",
        "exllamav3 ignores both mscales of Mistral": "only for DeepSeek-V3",
        "candle scales no Qwen 2": "ignores the rope_scaling of qwen2",
        "candle scales no Qwen 3": "ignores the rope_scaling of qwen3",
        "MLC scales no Gemma 3": "ignores the rope_scaling of gemma3",
    }.items(),
    ids=MODELS_READ_DIFFERENTLY,
)
def test_a_runtime_that_reads_a_model_differently_is_reported(rule: str, words: str) -> None:
    """transformers reads these scalings in full for every model type, so that the runtime departs,
    for one cause: a sentence with `words`, which are those of this project for the rule.
    """
    result = MODELS_READ_DIFFERENTLY[rule].result()
    assert result.departs

    (cause,) = result.causes
    assert words in cause


YARN_WITH_MSCALE_ONLY = {**YARN_WITH_MSCALES, "mscale_all_dim": None}
YARN_WITH_MSCALE_ALL_DIM_ONLY = {**YARN_WITH_MSCALES, "mscale": None}
MODELS_READ_ALIKE = {
    "exllamav3 reads both mscales of DeepSeek-V3": ScaledModel(
        "exllamav3", "deepseek_v3", YARN_WITH_MSCALES
    ),
    "candle reads the rope_scaling of Mistral": ScaledModel("candle", "mistral", YARN_WITH_MSCALES),
    "exllamav3 has no mscale to ignore": ScaledModel(
        "exllamav3", "mistral", YARN_WITH_MSCALE_ALL_DIM_ONLY
    ),
    "exllamav3 has no mscale_all_dim to ignore": ScaledModel(
        "exllamav3", "mistral", YARN_WITH_MSCALE_ONLY
    ),
}
"""Models for which a runtime's own rule makes no difference: exllamav3 ignores mscales except those of
DeepSeek-V3, candle ignores the rope_scaling of Qwen 2 and 3, and transformers uses mscales of any
model, but only if both are there.
"""


@pytest.mark.parametrize(
    ("case", "attention"),
    {
        "exllamav3 reads both mscales of DeepSeek-V3": RATIO_OF_MSCALES,
        "candle reads the rope_scaling of Mistral": RATIO_OF_MSCALES,
        "exllamav3 has no mscale to ignore": 1 + 0.1 * np.log(4),
        "exllamav3 has no mscale_all_dim to ignore": 1 + 0.1 * np.log(4),
    }.items(),
    ids=MODELS_READ_ALIKE,
)
def test_yarn_that_a_runtime_reads_as_transformers_does_has_the_ordinary_numbers(
    case: str, attention: float
) -> None:
    """YaRN by 4 from 8192 positions, in NumPy by the paper's formula. The attention factor is
    transformers': the ratio of both mscales if both are there, or else 1 + 0.1 · ln(4).
    """
    rope = MODELS_READ_ALIKE[case].rope()
    np.testing.assert_allclose(rope.inverse_frequencies(), YARN_OF_8192, rtol=FLOAT32_ROUNDINGS)
    assert rope.attention_factor_value() == pytest.approx(attention, rel=1e-9)


@pytest.mark.parametrize("case", MODELS_READ_ALIKE)
def test_yarn_that_a_runtime_reads_as_transformers_does_is_not_reported(case: str) -> None:
    """exllamav3 and candle read YaRN differently for other models or other parameters (see
    MODELS_READ_ALIKE), but not here: a report would have a cause, a sentence.
    """
    result = MODELS_READ_ALIKE[case].result()
    assert not result.departs
    assert result.causes == ()


def fope_config(place: str, *, use_fope: bool) -> dict[str, Any]:
    settings = {"rope_type": "default", "rope_theta": BASE, "use_fope": use_fope}
    return {"model_type": "llama", **SIZES, "rope_theta": BASE, place: settings}


@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_only_sglang_departs_for_use_fope(place: str) -> None:
    """use_fope requests Fourier position embeddings, which SGLang alone of the runtimes implements.
    Their coefficients were learned and are not in a config, so that pecli computes no table: it is
    in `lacks`, with the reason, and there is no table that could have causes.
    """
    comparison = pecli.runtimes(fope_config(place, use_fope=True), 4096)
    (results,) = comparison.layers.values()  # All layers are of one type.
    (departing,) = [result for result in results if result.departs]

    assert departing.runtime == "sglang"
    assert "reads use_fope: cos and sin are" in departing.lacks
    assert departing.causes == ()


def test_a_table_that_is_not_computed_is_a_line_of_the_comparison() -> None:
    """SGLang's Fourier position embeddings (use_fope) are not computed. Each runtime has a line, and
    below it, indented, what it does differently.
    """
    lines = str(pecli.runtimes(fope_config("rope_scaling", use_fope=True), 4096)).splitlines()
    (number,) = [number for number, line in enumerate(lines) if line.startswith("sglang")]

    assert lines[number].split() == ["sglang", "(2026)", "not", "computed"]
    assert lines[number + 1].startswith("  it reads use_fope")


@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_all_runtimes_agree_if_use_fope_is_false(place: str) -> None:
    """SGLang, which alone reads use_fope, takes false for the ordinary rotation."""
    assert pecli.runtimes(fope_config(place, use_fope=False), 4096).agree


def test_tensorrt_llm_takes_1024_for_a_missing_original_length() -> None:
    """The limits of YaRN depend on the length that the model was trained on. TensorRT-LLM has 1024 by
    default, as its source shows.
    """
    config = {
        "model_type": "llama",
        **SIZES,
        "rope_theta": BASE,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
    }
    rope = pecli.load_config(config).one().rope(1, runtime="tensorrt-llm")
    expected = yarn_frequencies(factor=4, original=1024)
    np.testing.assert_allclose(rope.inverse_frequencies(), expected, rtol=FLOAT32_ROUNDINGS)

    (result,) = pecli.runtimes(config, 4096, names=["tensorrt-llm"]).layers[""]
    assert "assumes 1,024 for original_max_position_embeddings" in result.causes[0]


def test_verify_names_the_runtime_whose_reading_made_a_table() -> None:
    """The table is as litgpt computes it, with YaRN's ramp inverted; verify, given the ordinary
    YaRN, names litgpt.
    """
    dump = Rope(256, DIM, BASE, runtime="litgpt", **YARN).tables()
    result = pecli.verify(dump, Rope(256, DIM, BASE, **YARN), atol=1e-4)

    assert "litgpt" in " ".join(result.diagnosis), result
