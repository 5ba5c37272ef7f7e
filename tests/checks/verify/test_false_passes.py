"""Wrong data that once passed, and right data that once failed, with verdicts that follow from closed forms."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli

HEADS, LENGTH = 8, 16
SLOPES = 2.0 ** -np.arange(1, HEADS + 1)
DISTANCES = np.abs(np.arange(LENGTH)[:, None] - np.arange(LENGTH))
BLOOM = pecli.load_config({"model_type": "bloom", "n_head": HEADS})
LLAMA = "llama-2-7b"


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_mask_may_be_the_most_negative_number(dtype: Any) -> None:
    lowest = float(ml_dtypes.finfo(dtype).min)
    bias = -SLOPES[:, None, None] * DISTANCES
    scheme = pecli.Alibi(heads=HEADS, seq_len=LENGTH, form="causal")
    for mask in (-np.inf, lowest):
        dump = np.where(np.tri(LENGTH) > 0, bias, mask).astype(dtype)
        for spec in (BLOOM, scheme):
            assert pecli.verify(dump, spec, atol=1e-6, max_ulp=1, reasons=False).passed
        assert pecli.diff(scheme.in_dtype(str(dump.dtype)).tables()["bias"], dump, max_ulp=1, reasons=False).passed
        assert pecli.diff(dump, dump).passed
        dump[3, 5, 2] = mask
        assert not pecli.verify(dump, BLOOM, atol=1e-6, max_ulp=1, reasons=False).passed


def test_a_bias_of_keras() -> None:
    bias = (SLOPES[:, None, None] * np.arange(1 - LENGTH, 1)).astype(np.float32)  # (heads, 1, length)
    scheme = pecli.Alibi(heads=HEADS, seq_len=LENGTH, form="key-last")
    for dump in (bias, bias[None], np.stack([bias] * 3)):
        assert pecli.verify(dump, BLOOM).passed
        assert pecli.verify(dump, scheme).passed
        assert pecli.diff(scheme.tables()["bias"], dump).passed


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, 0.25])
def test_a_learned_table_that_is_constant_or_not_finite_fails(value: float) -> None:
    table = np.random.default_rng(0).normal(size=(1024, 768)).astype(np.float32)
    assert pecli.verify({"wpe.weight": table}, "gpt2").passed
    table[...] = value
    assert not pecli.verify({"wpe.weight": table}, "gpt2").passed
    table[1:] = 1
    assert pecli.verify({"wpe.weight": table}, "gpt2").passed == bool(np.isfinite(value))


def test_a_table_under_an_unknown_name_makes_a_pass_weak() -> None:
    angles = np.arange(64)[:, None] * 10000.0 ** (-np.arange(64) / 64)
    dump = {"cos": np.cos(angles), "foo": np.sin(angles), "ids": np.arange(64)}
    assert "foo looks like a table, and no name says of what" in pecli.verify(dump, LLAMA, atol=1e-3).weak


def test_a_tolerance_that_a_dtype_cannot_hold_names_the_one_that_fits() -> None:
    angles = np.arange(256)[:, None] * 10000.0 ** (-np.arange(64) / 64)
    table = np.cos(angles).astype(ml_dtypes.bfloat16)
    bits = table.view(np.int16)
    bits[::3, ::5] += 1
    result = pecli.verify({"cos": table}, LLAMA, atol=1e-3)
    assert not result.passed
    assert result.diagnosis[0].startswith("bfloat16 cannot hold 0.001: near 1 its steps are 0.0078; allow --max-ulp 1")
    assert pecli.verify({"cos": table}, LLAMA, max_ulp=1).passed


def test_a_flat_dump_of_four_rows() -> None:
    angles = np.arange(4)[:, None] * 10000.0 ** (-np.arange(64) / 64)
    dump = {"cos": np.cos(angles).ravel(), "sin": np.sin(angles).ravel()}
    assert pecli.verify(dump, LLAMA, atol=1e-6).passed


def test_identify_of_long_vectors_and_of_angles() -> None:
    """Vectors longer than any model's frequencies are only described; angles are what they will be."""
    for vector in (np.ones(1_000_000), np.exp(-np.arange(60_000) / 1000), np.arange(1_000_000)):
        assert not pecli.identify(vector).identified
    angles = np.arange(64)[:, None] * 10000.0 ** (-np.arange(16) / 16)
    both = np.concatenate([np.cos(angles), np.sin(angles)], -1)
    for dump, edits in ((angles, ["incomplete"]), ({"cos_sin_cache": both}, ["layout"])):
        match = pecli.identify(dump).matches[0]
        assert match.command.startswith("pecli rope --seq-len 64 --dim 32 ")
        assert [edit.kind for edit in match.edits] == edits
    grid = pecli.Sinusoidal(dim=32, grid=(8, 8), style="mae")
    assert pecli.identify(grid.tables()["pe"][None, :, None]).matches[0].scheme == grid


def test_swapped_rotation_matrices_and_complex_numbers_fail() -> None:
    angles = np.arange(16)[:, None] * 10000.0 ** (-np.arange(32) / 32)
    cos, sin = np.cos(angles), np.sin(angles)
    matrices = np.stack([np.stack([sin, -cos], -1), np.stack([cos, sin], -1)], -2)
    config = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "rope_theta": 10000.0}
    for wrong in (matrices, sin + 1j * cos):
        for spec in (config, pecli.Rope(seq_len=16, dim=64)):
            assert not pecli.verify({"freqs": wrong}, spec, atol=1e-4).passed
