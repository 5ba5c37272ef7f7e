"""Configurations against what transformers computes from them, and against published values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pecli.models.find import load_config

DATA = Path(__file__).parent / "data"
CASES = [
    json.loads(line)
    for name in ("rope_families.jsonl", "rope_random.jsonl")
    for line in (DATA / name).read_text().splitlines()
]


def llama3_in_double(config: dict[str, Any], inverse: np.ndarray) -> np.ndarray:
    """Llama 3.1's formula in float64, for the band where float32 cancels."""
    given = config.get("rope_scaling") or config["rope_parameters"]
    low, high = given["low_freq_factor"], given["high_freq_factor"]
    turns = given["original_max_position_embeddings"] * inverse / (2 * np.pi)
    keep = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - keep) * inverse / given["factor"] + keep * inverse


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_transformers_computes_the_same(case: dict[str, Any]) -> None:
    model = load_config(case["config"])
    found = {encoding.layer_type: encoding for encoding in model.encodings if encoding.scheme == "rope"}
    assert set(found) == set(case["tables"])
    length = case.get("seq_len")
    for layer_type, table in case["tables"].items():
        encoding = found[layer_type]
        blended = encoding.parameters["scaling"] == "llama3"
        assert encoding.inverse_frequencies(length) == pytest.approx(
            table["inv_freq"], rel=5e-6 if blended else 1e-6, abs=0
        )
        assert encoding.attention_factor(length) == pytest.approx(table["attention_scaling"], abs=1e-6)
        assert encoding.axis_dim == 2 * len(table["inv_freq"])
        scheme = encoding.rope(8, length=length or 1)
        assert scheme.tables()["inv_freq"].tolist() == encoding.inverse_frequencies(length)


@pytest.mark.parametrize("case", [c for c in CASES if "llama3" in c["case"]], ids=lambda case: case["case"])
def test_where_float32_cancels_float64_agrees(case: dict[str, Any]) -> None:
    (encoding,) = load_config(case["config"]).encodings
    dim = encoding.rotary_dim or 0
    inverse = encoding.parameters["base"] ** (-np.arange(0, dim, 2) / dim)
    expected = llama3_in_double(case["config"], inverse)
    assert encoding.inverse_frequencies() == pytest.approx(expected.tolist(), rel=1e-12)


BASE = {"model_type": "llama", "head_dim": 128, "max_position_embeddings": 2048, "rope_theta": 10000.0}


@pytest.mark.parametrize(
    ("scaling", "length", "values"),
    [
        (None, None, {62: 1.3335e-04, 63: 1.1548e-04}),
        ({"type": "dynamic", "factor": 10.0}, 16384, {1: 8.0931e-01, 63: 1.6265e-06}),
        (
            {"type": "yarn", "factor": 10.0, "original_max_position_embeddings": 2048},
            None,
            {17: 8.3479e-02, 41: 2.7384e-04},
        ),
        (
            {
                "rope_type": "llama3",
                "factor": 10.0,
                "original_max_position_embeddings": 2048,
                "low_freq_factor": 1,
                "high_freq_factor": 4,
            },
            None,
            {31: 1.0730e-02, 40: 3.4539e-04},
        ),
    ],
    ids=["default", "dynamic", "yarn", "llama3"],
)
def test_published_values(scaling: dict[str, Any] | None, length: int | None, values: dict[int, float]) -> None:
    (encoding,) = load_config({**BASE, "rope_scaling": scaling}).encodings
    found = encoding.inverse_frequencies(length)
    assert found is not None
    for index, value in values.items():
        assert found[index] == pytest.approx(value, rel=1e-4)


def test_the_published_attention_factor_of_yarn() -> None:
    scaling = {"type": "yarn", "factor": 10.0, "original_max_position_embeddings": 2048}
    (encoding,) = load_config({**BASE, "rope_scaling": scaling}).encodings
    assert encoding.attention_factor() == pytest.approx(1.2302585092994045, rel=1e-15)


@pytest.mark.parametrize("case", [c for c in CASES if c["case"].endswith("/rope_parameters")], ids=lambda c: c["case"])
def test_the_old_spelling_is_equal(case: dict[str, Any]) -> None:
    new = case["config"]
    settings = dict(new["rope_parameters"])
    old = {name: value for name, value in new.items() if name != "rope_parameters"}
    for name in ("rope_theta", "partial_rotary_factor"):
        if name in settings:
            old[name] = settings.pop(name)
    for word in ("type", "rope_type"):
        spelled = {word if name == "rope_type" else name: value for name, value in settings.items()}
        (one,), (other,) = load_config(new).encodings, load_config({**old, "rope_scaling": spelled}).encodings
        assert one.parameters == other.parameters
        assert one.layout == other.layout
