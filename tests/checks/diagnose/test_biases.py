"""ALiBi mistakes, made on purpose, are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pecli.engine.schemes.alibi import Alibi
from tests.checks.diagnose.conftest import Diagnosed
from tests.checks.diagnose.formulas import bias, naive_slopes, narrowed, paper_slopes

SPECS: list[Any] = [(6, 50, "float32"), (12, 128, "bfloat16"), (20, 33, "float64")]
POWERS: list[Any] = [(8, 50, "float32"), (16, 128, "float16"), (4, 300, "float64"), (12, 64, "float32")]


@pytest.mark.parametrize(("heads", "length", "dtype"), SPECS)
def test_naive_slopes(diagnosed: Diagnosed, heads: int, length: int, dtype: str) -> None:
    slopes = naive_slopes(heads)
    text = diagnosed(Alibi(heads, dtype=dtype), slopes=narrowed(slopes, dtype))
    assert text.startswith("slopes: matches if the slopes are naive, 2^(−max_bias·h/n) for any n; residual ")
    for form in ("symmetric", "causal", "key", "key-last"):
        wrong = narrowed(bias(slopes, length, form), dtype)
        text = diagnosed(Alibi(heads, length, form=form, dtype=dtype), bias=wrong)
        assert text.startswith("bias: matches if the slopes are naive, 2^(−max_bias·h/n) for any n; residual ")


@pytest.mark.parametrize(("heads", "length", "dtype"), POWERS)
@pytest.mark.parametrize("form", ["symmetric", "key", "key-last"])
def test_sign_flipped(diagnosed: Diagnosed, heads: int, length: int, dtype: str, form: str) -> None:
    wrong = narrowed(-bias(paper_slopes(heads), length, form), dtype)
    text = diagnosed(Alibi(heads, length, form=form, dtype=dtype), bias=wrong)
    assert text.startswith("bias: matches if the sign is flipped; residual ")


@pytest.mark.parametrize(("heads", "length", "dtype"), POWERS)
def test_causal_sign_flipped(diagnosed: Diagnosed, heads: int, length: int, dtype: str) -> None:
    wrong = bias(-paper_slopes(heads), length, "causal")
    text = diagnosed(Alibi(heads, length, form="causal", dtype=dtype), bias=narrowed(wrong, dtype))
    assert text.startswith("bias: matches if the sign is flipped; residual ")


@pytest.mark.parametrize(("heads", "length", "dtype"), POWERS)
@pytest.mark.parametrize("wanted", ["symmetric", "causal"])
def test_key_form_against_distance_form(diagnosed: Diagnosed, heads: int, length: int, dtype: str, wanted: str) -> None:
    for form in ("key", "key-last"):
        keys, distances = (narrowed(bias(paper_slopes(heads), length, each), dtype) for each in (form, wanted))
        text = diagnosed(Alibi(heads, length, form=wanted, dtype=dtype), bias=keys)
        assert text.startswith(
            f"bias: matches if the form is {form} (the spec says {wanted}; equal after a causal softmax"
        )
        text = diagnosed(Alibi(heads, length, form=form, dtype=dtype), bias=distances)
        assert text.startswith(f"bias: matches if the form is {wanted} (distances) (the spec says {form}; equal after")


@pytest.mark.parametrize(("heads", "mask"), [(8, -1e9), (12, float(np.finfo(np.float32).min)), (6, -10000.0)])
def test_masks_that_are_not_infinite(diagnosed: Diagnosed, heads: int, mask: float) -> None:
    wrong = bias(paper_slopes(heads), 100, "causal", mask).astype(np.float32)
    text = diagnosed(Alibi(heads, 100, form="causal"), bias=wrong)
    assert text.startswith(f"bias: matches if the mask above the diagonal is {mask:.6g} instead of −inf; residual ")


@pytest.mark.parametrize("heads", [8, 12, 40])
def test_other_slopes(diagnosed: Diagnosed, heads: int) -> None:
    slopes = paper_slopes(heads)
    text = diagnosed(Alibi(heads), slopes=slopes[::-1].astype(np.float32))
    assert text.startswith("slopes: matches if the heads are in reverse order; residual ")
    text = diagnosed(Alibi(heads), slopes=(-slopes).astype(np.float32))
    assert text.startswith("slopes: matches if the slopes are negated; residual ")
    text = diagnosed(Alibi(heads, 64), bias=bias(paper_slopes(heads, 16), 64).astype(np.float32))
    assert text.startswith("bias: matches if max_bias is 16 (the spec says 8); residual ")
    text = diagnosed(Alibi(heads, 64), bias=(bias(slopes, 64) * np.log2(np.e)).astype(np.float32))
    assert text.startswith("bias: matches if it is scaled by log2(e); residual ")


def test_two_causes(diagnosed: Diagnosed) -> None:
    text = diagnosed(Alibi(12, 64), bias=-bias(naive_slopes(12), 64).astype(np.float32))
    assert "the slopes are naive" in text
    assert " and the sign is flipped; residual" in text
    text = diagnosed(Alibi(12, 64, form="causal"), bias=bias(naive_slopes(12), 64, "key").astype(np.float32))
    assert "the slopes are naive" in text
    assert " and the form is key (the spec says causal; equal after a causal softmax" in text


def test_transposed_and_with_a_batch_axis(diagnosed: Diagnosed) -> None:
    right = bias(paper_slopes(12), 64).astype(np.float32)
    text = diagnosed(Alibi(12, 64), bias=right.transpose(1, 2, 0))
    assert text.startswith("bias: matches if the table is transposed (the heads come last); residual ")
    text = diagnosed(Alibi(12, 64), bias=-right[None])
    assert text.startswith("bias: matches if the sign is flipped; residual ")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_cast(diagnosed: Diagnosed, dtype: str) -> None:
    right = narrowed(bias(paper_slopes(12), 64), dtype)
    for found in (right, right.astype(np.float32)):
        text = diagnosed(Alibi(12, 64), bias=found)
        assert text.startswith(f"bias: matches if the table was cast to {dtype}; residual ")


def test_noise_is_not_explained(diagnosed: Diagnosed) -> None:
    noise = np.random.default_rng(0).normal(size=(8, 40, 40))
    assert diagnosed(Alibi(8, 40), bias=noise.astype(np.float32)) == ""
    assert diagnosed(Alibi(8), slopes=noise[:, 0, 0].astype(np.float32)) == ""
