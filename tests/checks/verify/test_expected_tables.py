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
