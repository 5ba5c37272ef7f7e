"""What a model's tensors have to equal where the model does more than its scheme."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks.verify.against_model import verify_model
from pecli.models.find import load_config

FALCON = load_config({"model_type": "falcon", "hidden_size": 768, "num_attention_heads": 12, "alibi": True})
SLOPES = np.array([*(2.0 ** -np.arange(1, 9)), *(2.0 ** -(np.arange(4) + 0.5))])


def bfloat16(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)


ROUNDED = bfloat16(bfloat16(SLOPES)[:, None] * bfloat16(np.arange(300))[None])
"""As `build_alibi_tensor` of transformers' Falcon computes it: slopes, positions and products in bfloat16."""


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("slopes", SLOPES.astype(np.float32), None),
        ("slopes", bfloat16(SLOPES), "rounded to bfloat16"),
        ("bias", ROUNDED, "in the key form, slopes and products rounded to bfloat16"),
        ("bias", ROUNDED[:, None], "in the key form, slopes and products rounded to bfloat16"),
        (
            "bias",
            ROUNDED / np.float32(8),
            "in the key form, slopes and products rounded to bfloat16, divided by √head_dim",
        ),
        ("bias", (SLOPES[:, None] * np.arange(300) / 8).astype(np.float32), "in the key form, divided by √head_dim"),
    ],
    ids=["exact", "rounded", "bias", "three axes", "divided", "exact, divided"],
)
def test_falcon_as_transformers_computes_it(tmp_path: Path, name: str, values: np.ndarray, words: str | None) -> None:
    np.savez(tmp_path / "t.npz", **{name: values})
    found = verify_model(tmp_path / "t.npz", FALCON)
    assert found.passed
    assert found.readings.get(name) == words


def test_other_models_do_not_round_their_slopes(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", slopes=bfloat16(SLOPES))
    assert not verify_model(tmp_path / "t.npz", load_config({"model_type": "bloom", "n_head": 12})).passed


def test_frequencies_of_a_model_without_a_table(tmp_path: Path) -> None:
    model = load_config({"model_type": "dinov3_vit", "hidden_size": 768, "num_attention_heads": 12})
    right = (100.0 ** -(np.arange(16) / 16)).astype(np.float32)
    for values, passes in ((right, True), (right[::-1], False)):
        np.savez(tmp_path / "t.npz", inv_freq=values)
        assert verify_model(tmp_path / "t.npz", model).passed is passes
    np.savez(tmp_path / "t.npz", cos=np.ones((8, 64), np.float32), inv_freq=right)
    assert not verify_model(tmp_path / "t.npz", model).passed


def test_buckets_of_another_shape_are_no_crash() -> None:
    """T5's index has neither heads nor channels."""
    found = pecli.verify({"index": np.zeros((3, 4), np.int32)}, {"model_type": "t5", "d_model": 64, "num_heads": 4})
    assert found.problems == ("index: its shape is (3, 4) where (positions, positions) is expected",)


@pytest.mark.parametrize("dtype", ["int64", "int16", "uint8"])
def test_buckets_are_right_in_integers_of_any_width(dtype) -> None:
    """T5's own formula: 8 exact distances, then logarithms up to 128; keys after the query have the other 16."""
    distance = np.arange(40) - np.arange(40)[:, None]
    far = np.abs(distance)
    grown = 8 + np.floor(np.log(np.maximum(far, 1) / 8) / np.log(16) * 8 + 1e-9).astype(int)
    index = (16 * (distance > 0) + np.where(far < 8, far, np.minimum(grown, 15))).astype(dtype)
    found = pecli.verify({"index": index}, {"model_type": "t5", "d_model": 64, "num_heads": 4})
    assert (found.passed, found.problems) == (True, ())
    assert pecli.verify({"index": index}, pecli.Relative("t5", 40)).passed
    index[3, 5] += 1
    assert not pecli.verify({"index": index}, {"model_type": "t5", "d_model": 64, "num_heads": 4}).passed


@pytest.mark.parametrize("batch", [1, 2])
def test_a_table_for_each_axis_of_positions_as_the_rotary_module_of_qwen2_vl_returns_it(batch: int) -> None:
    """`Qwen2VLRotaryEmbedding` multiplies every axis of positions with all frequencies; sections are taken later."""
    places = np.array([[0, 1, 2, 2, 2, 2, 4], [0, 1, 2, 2, 3, 3, 4], [0, 1, 2, 3, 2, 3, 4]])

    def dump(base: float) -> dict[str, np.ndarray]:
        half = places[:, None, :, None] * base ** (-np.arange(64) / 64)
        angles = np.repeat(np.concatenate([half, half], axis=-1), batch, axis=1)
        return {"cos": np.cos(angles), "sin": np.sin(angles)}

    for given in (places, np.repeat(places[:, None], batch, axis=1)):
        found = pecli.verify(dump(1e6), "qwen2.5-vl-7b", positions=given, atol=1e-12)
        assert found.passed, found.sentences
        assert found.readings["cos"].startswith("one table per axis of positions: sections do not show, ")
    others = pecli.verify(dump(1e6), "qwen2.5-vl-7b", positions=places[[0, 2, 1]], atol=1e-12)
    assert not others.passed
    wrong = pecli.verify(dump(1e5), "qwen2.5-vl-7b", positions=places, atol=1e-12)
    assert wrong.diagnosis[0].startswith("cos, sin: base is 100000 (the spec says 1000000); ")


def test_positions_that_differ_within_a_batch_are_refused() -> None:
    with pytest.raises(pecli.ParameterError, match=r"of shape \(3, 2, 2\)"):
        pecli.verify({"cos": np.ones((2, 4))}, "qwen2.5-vl-7b", positions=np.arange(12).reshape(3, 2, 2))
