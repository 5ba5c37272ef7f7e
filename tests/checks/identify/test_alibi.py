"""ALiBi slopes and biases, as several projects write them."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from pecli import Alibi, identify
from pecli.explain.edits import Mask, Negated, Repeated


def bloom_slopes(heads: int) -> np.ndarray:
    """As BLOOM's code computes them: powers of a base, in float32."""
    closest = 2 ** math.floor(math.log2(heads))
    base = np.float32(2 ** (-(2 ** -(math.log2(closest) - 3))))
    slopes = np.power(base, np.arange(1, 1 + closest, dtype=np.float32))
    if closest != heads:
        extra = np.float32(2 ** (-(2 ** -(math.log2(2 * closest) - 3))))
        many = min(closest, heads - closest)
        slopes = np.concatenate([slopes, np.power(extra, np.arange(1, 1 + 2 * many, 2, dtype=np.float32))])
    return slopes


@pytest.mark.parametrize("heads", [3, 6, 8, 12, 16, 20, 32, 40, 71, 112])
@pytest.mark.parametrize("shape", [(-1,), (-1, 1, 1), (1, -1, 1, 1)])
@pytest.mark.sample(8)
def test_slopes_of_bloom(heads: int, shape: tuple[int, ...]) -> None:
    match = identify(bloom_slopes(heads).reshape(shape)).matches[0]
    assert match.scheme == Alibi(heads, slopes=True, dtype="float32", recipe=match.recipe)
    assert match.max_abs_error < 1e-6


@pytest.mark.parametrize(("batch", "heads", "length"), [(1, 16, 64), (4, 12, 40), (2, 8, 7)])
def test_a_bias_as_bloom_writes_it(batch: int, heads: int, length: int) -> None:
    alibi = bloom_slopes(heads)[None, :, None] * np.arange(length, dtype=np.float32)[None, None]
    alibi = np.broadcast_to(alibi, (batch, heads, length)).reshape(batch * heads, 1, length)
    (match,) = identify(alibi).matches
    scheme = match.scheme
    assert (scheme.heads, scheme.seq_len, scheme.form, scheme.max_bias) == (heads, length, "key", 8.0)
    assert (Repeated(0, batch) in match.edits) == (batch > 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_naive_rule_is_told_from_the_papers(dtype: type) -> None:
    naive = 2.0 ** (-8 * np.arange(1, 13) / 12)
    match = identify(naive.astype(dtype)).matches[0]
    assert match.scheme.rule == "naive"
    assert not any(line.startswith("rule") for line in match.undetermined)


SLOPES = np.array([0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125])[:, None, None]
PLACES = np.arange(20)
DISTANCES = -SLOPES * np.abs(PLACES[:, None] - PLACES)


@pytest.mark.parametrize("mask", [-np.inf, -1e9, float(np.finfo(np.float32).min), 0.0])
def test_masks_above_the_diagonal(mask: float) -> None:
    bias = np.where(np.triu(np.ones((20, 20), bool), 1), mask, DISTANCES).astype(np.float32)
    (match,) = identify(bias).matches
    assert match.scheme == Alibi(6, 20, form="causal")
    assert match.max_abs_error == 0
    assert match.edits == (() if mask == -np.inf else (Mask(f"{mask:.2g}"),))


def test_other_signs_and_axes_are_said() -> None:
    linear = (SLOPES * (PLACES - PLACES[:, None])).astype(np.float32)
    mask = Mask("m·(j−i) above the diagonal")
    for bias, form, edit in ((-DISTANCES[None], "symmetric", Negated("all")), (linear, "causal", mask)):
        (match,) = identify(bias.astype(np.float32)).matches
        assert (match.scheme.form, match.edits) == (form, (edit,))


def test_key_last_as_mpt_writes_it() -> None:
    """slopes · arange(1 − L, 1), of shape (1, heads, 1, L), with other bounds than 8."""
    powers = 2.0 ** -(np.arange(1, 33) * 16 / 32)
    slopes = np.concatenate([powers[1::2], powers[::2]])[:24]
    bias = slopes[None, :, None, None] * np.arange(1 - 50, 1)
    (match,) = identify(bias.astype(np.float32)).matches
    assert (match.scheme.form, match.scheme.max_bias, match.scheme.heads) == ("key-last", 16.0, 24)


def test_a_bias_and_its_slopes_are_one() -> None:
    (match,) = identify(Alibi(12, 64, dtype="bfloat16").tables()).matches
    assert match.tensors == ("bias", "slopes")


@pytest.mark.parametrize(
    "table", [np.full((8, 16, 16), -0.5), np.zeros((8, 1, 1)), np.ones(8), np.linspace(0, 1, 8), np.full(8, 0.5)]
)
def test_what_is_no_bias(table: np.ndarray) -> None:
    assert all(match.scheme.name != "alibi" for match in identify(table).matches)


def test_a_batch_of_biases_with_a_wrong_element_is_not_claimed() -> None:
    batch = np.repeat(Alibi(heads=8, seq_len=40).tables()["bias"][None], 3, axis=0)
    assert identify(batch).identified
    batch[1, 0, 0, 7] += 1
    assert not identify(batch).identified
