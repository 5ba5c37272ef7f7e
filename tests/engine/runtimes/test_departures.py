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
from pecli.engine.runtimes import EMULATED, RUNTIMES
from pecli.engine.schemes.rope import Rope, as_read
from pecli.errors import UnsupportedError

DIM, BASE = 64, 1e6
UNSCALED_FREQUENCIES = BASE ** (-np.arange(0, DIM, 2) / DIM)
YARN: dict[str, Any] = {"scaling": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
BETAS: dict[str, Any] = {"beta_fast": 32.0, "beta_slow": 1.0}
SHORT, LONG = np.linspace(1, 2, 32), np.linspace(1, 8, 32)
LONGROPE: dict[str, Any] = {
    "scaling": "longrope", "original_max_position_embeddings": 4096, "max_position_embeddings": 131072,
    "short_factor": SHORT.tolist(), "long_factor": LONG.tolist(),
}  # fmt: skip
G4 = 1 + 0.1 * np.log(4)


def yarn_frequencies(
    factor: float = 4.0, truncate: bool = True, fast: float = 32, slow: float = 1, head: int = DIM
) -> np.ndarray:
    low, high = (
        head * np.log(32768 / (2 * np.pi * beta)) / (2 * np.log(BASE)) for beta in (fast, slow)
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

    np.testing.assert_allclose(found, case.frequencies, rtol=4e-7)  # They are float32.


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
    """By its source, candle multiplies frequencies by the short factors at positions below the
    original length, 4096, and by the long ones from there on. No scaling of all positions describes
    this, so `as_read` leaves the scheme as it is. float32 angles of up to 30,000 are off by up to
    2e-3.
    """
    positions = np.arange(4090, 4102)[:, None]
    rope = Rope(1, DIM, BASE, runtime="candle", length=131072, **LONGROPE)
    frequencies = np.where(
        positions < 4096, UNSCALED_FREQUENCIES * SHORT, UNSCALED_FREQUENCIES * LONG
    )

    assert as_read(rope) == rope
    cos = rope.at(positions[:, 0])["cos"]
    np.testing.assert_allclose(cos, np.cos(positions * frequencies), atol=2e-3)


SIZES = {
    "head_dim": DIM,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "max_position_embeddings": 32768,
}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
MAGNITUDES = {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5}
MAGNITUDES["original_max_position_embeddings"] = 8192
RATIO = (1 + 0.1 * np.log(4)) / (1 + 0.05 * np.log(4))


@pytest.mark.parametrize(
    ("runtime", "model_type", "scaling", "base", "attention", "cause"),
    [
        (
            "sglang",
            "llama",
            {**DYNAMIC, "alpha": 8.0},
            BASE * 8 ** (DIM / (DIM - 2)),
            1,
            "reads alpha, 8",
        ),
        ("sglang", "llama", DYNAMIC, BASE * 3 ** (DIM / (DIM - 2)), 1, "NTK with factor 3"),
        ("exllamav3", "mistral", MAGNITUDES, None, 1 + 0.1 * np.log(4), "only for DeepSeek-V3"),
        ("exllamav3", "deepseek_v3", MAGNITUDES, None, RATIO, ""),
        ("exllamav3", "mistral", {**MAGNITUDES, "mscale": None}, None, 1 + 0.1 * np.log(4), ""),
        (
            "exllamav3",
            "mistral",
            {**MAGNITUDES, "mscale_all_dim": None},
            None,
            1 + 0.1 * np.log(4),
            "",
        ),
        ("candle", "qwen2", MAGNITUDES, BASE, 1, "ignores the rope_scaling of qwen2"),
        ("candle", "qwen3", MAGNITUDES, BASE, 1, "ignores the rope_scaling of qwen3"),
        ("candle", "mistral", MAGNITUDES, None, RATIO, ""),
        (
            "mlc",
            "gemma3_text",
            {"rope_type": "linear", "factor": 8.0},
            BASE,
            1,
            "ignores the rope_scaling of gemma3",
        ),
    ],
)
def test_how_a_runtime_reads_a_scaling_may_depend_on_the_model_type(
    runtime: str,
    model_type: str,
    scaling: dict[str, Any],
    base: float | None,
    attention: float,
    cause: str,
) -> None:
    """The bases and attention factors are formulas of the runtimes' source: `base` makes all
    frequencies, or None if they are as in transformers, and `attention` multiplies cos and sin.
    MAGNITUDES is YaRN by 4 with mscale and mscale_all_dim, for which transformers has RATIO,
    (1 + 0.1 · mscale · ln 4) / (1 + 0.1 · mscale_all_dim · ln 4). `cause` is a part of the sentence
    that reports a departure, and empty if there is none.
    """
    config = {"model_type": model_type, **SIZES, "rope_theta": BASE, "rope_scaling": scaling}
    encoding = pecli.load_config(config).ropes()[0]
    rope = encoding.rope(1, length=32768, runtime=runtime)
    if base is not None:
        np.testing.assert_allclose(
            rope.inverse_frequencies(), base ** (-np.arange(0, DIM, 2) / DIM), rtol=4e-7
        )

    assert rope.attention_factor_value() == pytest.approx(attention, rel=1e-9)

    (found,) = pecli.runtimes(config, 4096, names=[runtime]).layers[encoding.layer_type]
    assert cause in " ".join(found.causes)
    assert found.departs == bool(cause)
    assert (found.causes != ()) == bool(cause)


def fope_config(place: str, use_fope: bool) -> dict[str, Any]:
    settings = {"rope_type": "default", "rope_theta": BASE, "use_fope": use_fope}
    return {"model_type": "llama", **SIZES, "rope_theta": BASE, place: settings}


@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_sglang_reads_fope_which_is_reported_and_not_computed(place: str) -> None:
    """use_fope requests Fourier position embeddings. Of the runtimes only SGLang implements them, and
    their learned coefficients are not in a config: pecli reports them and computes no table.
    """
    comparison = pecli.runtimes(fope_config(place, True), 4096)
    (departing,) = [result for result in comparison.layers[""] if result.departs]

    assert departing.runtime == "sglang"
    assert departing.causes == ()
    assert "reads use_fope: cos and sin are" in departing.lacks
    assert "sglang (2026)             not computed\n  it reads use_fope" in str(comparison)


@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_all_runtimes_agree_if_use_fope_is_false(place: str) -> None:
    """SGLang, which alone reads use_fope, takes false for the ordinary rotation."""
    assert pecli.runtimes(fope_config(place, False), 4096).agree


def test_tensorrt_llm_takes_1024_for_a_missing_original_length() -> None:
    """YaRN by 4 keeps the frequencies of pairs below a lower limit and divides those above an upper
    one; between them it blends linearly. The limits are dim · ln(L / 2πβ) / (2 ln base) for β = 32
    and 1, rounded outwards. TensorRT-LLM has L = 1024 by default, as its source shows.
    """
    config = {
        "model_type": "llama",
        **SIZES,
        "rope_theta": BASE,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
    }
    rope = pecli.load_config(config).one().rope(1, runtime="tensorrt-llm")
    low, high = (DIM * np.log(1024 / (2 * np.pi * beta)) / (2 * np.log(BASE)) for beta in (32, 1))
    ramp = np.clip((np.arange(DIM // 2) - np.floor(low)) / (np.ceil(high) - np.floor(low)), 0, 1)
    expected = UNSCALED_FREQUENCIES * (1 - ramp) + UNSCALED_FREQUENCIES / 4 * ramp

    np.testing.assert_allclose(rope.inverse_frequencies(), expected, rtol=4e-7)

    (result,) = pecli.runtimes(config, 4096, names=["tensorrt-llm"]).layers[""]
    assert "assumes 1,024 for original_max_position_embeddings" in result.causes[0]


def test_verify_names_the_runtime_whose_reading_made_a_table() -> None:
    """The table is as litgpt computes it, with YaRN's ramp inverted; verify, given the ordinary
    YaRN, names litgpt.
    """
    dump = Rope(256, DIM, BASE, runtime="litgpt", **YARN).tables()
    result = pecli.verify(dump, Rope(256, DIM, BASE, **YARN), atol=1e-4)

    assert "litgpt" in " ".join(result.diagnosis), result
