"""How other runtimes read a config, a row each, with what their formulas give in NumPy."""

from typing import Any

import numpy as np
import pytest

import pecli
from pecli.engine.runtimes import EMULATED, RUNTIMES
from pecli.engine.schemes.rope import Rope
from pecli.errors import UnsupportedError

DIM, BASE = 64, 1e6
PLAIN = BASE ** (-np.arange(0, DIM, 2) / DIM)
YARN: dict[str, Any] = {"scaling": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
BETAS: dict[str, Any] = {"beta_fast": 32.0, "beta_slow": 1.0}
SHORT, LONG = np.linspace(1, 2, 32), np.linspace(1, 8, 32)
LONGROPE: dict[str, Any] = {
    "scaling": "longrope", "original_max_position_embeddings": 4096, "max_position_embeddings": 131072,
    "short_factor": SHORT.tolist(), "long_factor": LONG.tolist(),
}  # fmt: skip
G4 = 1 + 0.1 * np.log(4)


def yarn(
    factor: float = 4.0, truncate: bool = True, fast: float = 32, slow: float = 1, head: int = DIM
) -> np.ndarray:
    low, high = (
        head * np.log(32768 / (2 * np.pi * beta)) / (2 * np.log(BASE)) for beta in (fast, slow)
    )
    low, high = (np.floor(low), np.ceil(high)) if truncate else (low, high)
    ramp = np.clip((np.arange(DIM // 2) - low) / (high - low), 0, 1)
    return PLAIN * (1 - ramp) + PLAIN / factor * ramp


CASES: dict[str, tuple[str, dict[str, Any], np.ndarray, float, str]] = {
    "SGLang's dynamic NTK is that of f² − f + 1": ("sglang",
        {"scaling": "dynamic", "factor": 2.0, "max_position_embeddings": 4096, "length": 4096},
        (BASE * 3 ** (DIM / (DIM - 2))) ** (-np.arange(0, DIM, 2) / DIM), 1.0, "NTK with factor 3"),
    "exllamav3 takes YaRN's factor from the context": ("exllamav3", {**YARN, "max_position_embeddings": 40960},
        yarn(1.25), 1 + 0.1 * np.log(1.25), "1.25; it ignores factor, 4"),
    "exllamav3 takes the long factors from position 0 on": ("exllamav3", {**LONGROPE, "length": 2048}, PLAIN / LONG,
        np.sqrt(1 + np.log(32) / np.log(4096)), "the long factors from position 0 on"),
    "ONNX Runtime GenAI knows YaRN by beta_fast": ("onnxruntime-genai", YARN, PLAIN, 1.0, "nothing is scaled"),
    "ONNX Runtime GenAI rounds nothing": ("onnxruntime-genai", {**YARN, **BETAS, "attention_factor": 2.0},
        yarn(truncate=False), G4, "does not round YaRN's limits"),
    "ONNX Runtime GenAI multiplies by a lone mscale": ("onnxruntime-genai",
        {**YARN, **BETAS, "truncate": False, "mscale": 0.7}, yarn(truncate=False), 0.7, "attention factor 0.7"),
    "candle multiplies by LongRoPE's factors": (
        "candle",
        {**LONGROPE, "length": 8192},
        PLAIN * SHORT,  # which are those of position 1 at any length
        1.0,
        "those of positions from 4,096 on by the long ones",
    ),
    "ONNX Runtime GenAI computes limits over the head": ("onnxruntime-genai",
        {**YARN, **BETAS, "dim": 2 * DIM, "partial_rotary_factor": 0.5, "truncate": False},
        yarn(truncate=False, head=2 * DIM), G4, "over the head size, 128, not the rotary dimension, 64"),
    "TensorRT-LLM always rounds": ("tensorrt-llm", {**YARN, "truncate": False, "attention_factor": 2.0}, yarn(), G4,
        "rounds YaRN's limits"),
    "litgpt's ramp is inverted": ("litgpt", YARN, yarn(fast=1, slow=32), 1.0, "ramp is inverted"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_frequencies_attention_and_cause(case: str) -> None:
    runtime, scaling, frequencies, attention, cause = CASES[case]
    rope = Rope(1, **{"dim": DIM, "base": BASE, **scaling}, runtime=runtime)
    np.testing.assert_allclose(
        rope.inverse_frequencies(), frequencies, rtol=4e-7
    )  # which are float32
    assert rope.attention_factor_value() == pytest.approx(attention, rel=1e-12)
    assert cause in " ".join(rope.runtime_causes())


@pytest.mark.parametrize("runtime", [name for name in RUNTIMES if name not in EMULATED])
def test_what_they_read_alike_is_as_transformers_computes_it(runtime: str) -> None:
    for scaling in ({}, {"scaling": "linear", "factor": 8.0}):
        ropes = [Rope(64, DIM, BASE, runtime=name, **scaling) for name in (runtime, "transformers")]
        ours, theirs = (rope.tables()["cos"] for rope in ropes)
        assert np.array_equal(ours, theirs)
        assert not ropes[0].runtime_causes()


def test_exllamav3_has_no_dynamic_ntk() -> None:
    with pytest.raises(UnsupportedError, match="it raises an error"):
        Rope(
            1, DIM, scaling="dynamic", factor=2.0, max_position_embeddings=4096, runtime="exllamav3"
        )


def test_candle_takes_each_positions_own_factors() -> None:
    places = np.arange(4090, 4102)
    rope = Rope(1, DIM, BASE, runtime="candle", length=131072, **LONGROPE)
    assert rope.as_read() == rope  # which no scaling says
    tables = rope.at(places)
    angles = places[:, None] * np.where(places[:, None] < 4096, PLAIN * SHORT, PLAIN * LONG)
    np.testing.assert_allclose(
        tables["cos"], np.cos(angles), atol=2e-3
    )  # of float32 angles up to 30,000


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
        ("exllamav3", "mistral", MAGNITUDES, None, 1 + 0.1 * np.log(4), "in DeepSeek-V3 alone"),
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
        ("candle", "qwen2", MAGNITUDES, BASE, 1, "reads no rope_scaling of qwen2"),
        ("candle", "qwen3", MAGNITUDES, BASE, 1, "reads no rope_scaling of qwen3"),
        ("candle", "mistral", MAGNITUDES, None, RATIO, ""),
        (
            "mlc",
            "gemma3_text",
            {"rope_type": "linear", "factor": 8.0},
            BASE,
            1,
            "reads no rope_scaling of gemma3",
        ),
    ],
)
def test_what_depends_on_the_model(
    runtime: str,
    model_type: str,
    scaling: dict[str, Any],
    base: float | None,
    attention: float,
    cause: str,
) -> None:
    config = {"model_type": model_type, **SIZES, "rope_theta": BASE, "rope_scaling": scaling}
    encoding = pecli.load_config(config).ropes()[0]
    rope = encoding.rope(1, length=32768, runtime=runtime)
    if base is not None:
        np.testing.assert_allclose(
            rope.inverse_frequencies(), base ** (-np.arange(0, DIM, 2) / DIM), rtol=4e-7
        )
    assert rope.attention_factor_value() == pytest.approx(attention, rel=1e-9)
    (found,) = pecli.runtimes(config, 4096, names=[runtime]).layers[encoding.layer_type]
    assert (cause in " ".join(found.causes), found.departs, found.causes != ()) == (
        True,
        bool(cause),
        bool(cause),
    )


@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
def test_fope_is_told_and_not_computed(place: str) -> None:
    asked = {"rope_type": "default", "rope_theta": BASE, "use_fope": True}
    config = {"model_type": "llama", **SIZES, "rope_theta": BASE, place: asked}
    found = pecli.runtimes(config, 4096)
    (sglang,) = [each for each in found.layers[""] if each.departs]
    assert (sglang.runtime, sglang.causes, "reads use_fope: cos and sin are" in sglang.lacks) == (
        "sglang",
        (),
        True,
    )
    assert "sglang (2026)             not computed\n  it reads use_fope" in str(found)
    assert pecli.runtimes({**config, place: {**asked, "use_fope": False}}, 4096).agree


def test_tensorrt_llm_takes_1024_for_a_missing_original_length() -> None:
    config = {
        "model_type": "llama",
        **SIZES,
        "rope_theta": BASE,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
    }
    found = pecli.load_config(config).one().rope(1, runtime="tensorrt-llm").inverse_frequencies()
    low, high = (DIM * np.log(1024 / (2 * np.pi * beta)) / (2 * np.log(BASE)) for beta in (32, 1))
    ramp = np.clip((np.arange(DIM // 2) - np.floor(low)) / (np.ceil(high) - np.floor(low)), 0, 1)
    np.testing.assert_allclose(found, PLAIN * (1 - ramp) + PLAIN / 4 * ramp, rtol=4e-7)
    (result,) = pecli.runtimes(config, 4096, names=["tensorrt-llm"]).layers[""]
    assert "takes 1,024 for original_max_position_embeddings" in result.causes[0]


def test_a_dump_of_one_of_them_is_known_by_its_reading() -> None:
    dump = Rope(256, DIM, BASE, runtime="litgpt", **YARN).tables()
    result = pecli.verify(dump, Rope(256, DIM, BASE, **YARN), atol=1e-4)
    assert "litgpt" in " ".join(result.diagnosis), result
