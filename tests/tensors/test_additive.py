"""What is added: sinusoidal tables, learned tables, biases; each sum rounded once."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from flint import arb

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError
from pecli.tensors.apply import add_learned, apply
from pecli.tensors.inputs import Input
from tests.oracle import bits, rational, rounded

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def given(array: np.ndarray, name: str = "x") -> Input:
    return Input(array, f"{name} of a test", name)


def random(*shape: int, dtype=np.float32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sinusoidal_sum_is_the_true_one_rounded_once(dtype):
    x, offset, dim = random(2, 20, 8, dtype=DTYPES[dtype]), 1000, 8
    found = apply(x, Sinusoidal(20, dim, offset=offset))

    def make() -> list[arb]:
        out = []
        for batch in x:
            for row, values in enumerate(batch):
                for channel, value in enumerate(values):
                    angle = arb(10000) ** rational(Fraction(-(channel // 2), dim // 2)) * (offset + row)
                    wave = angle.cos() if channel % 2 else angle.sin()
                    out.append(rational(Fraction(float(value))) + wave)
        return out

    np.testing.assert_array_equal(bits(found).reshape(-1), rounded(make, dtype))


@pytest.mark.parametrize("shape", [(3, 5, 4), (5, 4), (2, 2, 1, 4), (7, 5, 4)])
@pytest.mark.parametrize("block", [1 << 16, 8])
def test_rows_of_a_learned_table(shape, block, monkeypatch):
    monkeypatch.setattr("pecli.engine.application._BLOCK", block)
    x, weight = random(*shape), random(9, 4, seed=1, dtype=np.float64)
    expected = (x.astype(np.float64) + weight[3 : 3 + shape[-2]]).astype(np.float32)
    np.testing.assert_array_equal(add_learned(given(x), given(weight, "w"), 3), expected)


def written_out(heads: list[float], queries: int, keys: int, form: str) -> np.ndarray:
    """The biases by the words of the papers."""
    out = np.empty((len(heads), queries, keys))
    for h, slope in enumerate(heads):
        for i in range(queries):
            for j in range(keys):
                distance = (keys - queries + i) - j
                bias = {"key": slope * j, "key-last": slope * (j - keys + 1)}.get(form, -slope * abs(distance))
                out[h, i, j] = -math.inf if form == "causal" and distance < 0 else bias
    return out


@pytest.mark.parametrize("form", ["symmetric", "causal", "key", "key-last"])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (2, 7), (1, 6)])
@pytest.mark.parametrize("dtype", [*DTYPES.values(), np.float64])
@pytest.mark.sample(16)
def test_biases(form, queries, keys, dtype):
    scores = random(2, 4, queries, keys, dtype=dtype)
    found = apply(scores, Alibi(4, form=form))
    expected = scores.astype(np.float64) + written_out([0.25, 0.0625, 2**-6, 2**-8], queries, keys, form)
    expected = expected.astype(np.float32) if dtype == ml_dtypes.bfloat16 else expected
    np.testing.assert_array_equal(found, expected.astype(dtype))


def test_a_table_that_is_too_short_or_of_another_dim():
    x = given(random(2, 5, 4))
    with pytest.raises(ParameterError, match=r"offset is 5; with x of a test of shape \(2, 5, 4\) .* up to 10 of 9"):
        add_learned(x, given(random(9, 4), "w"), 5)
    with pytest.raises(ParameterError, match=r"x of a test is of shape \(2, 5, 4\); w of a test is of shape \(9, 6\)"):
        add_learned(x, given(random(9, 6), "w"), 0)
    with pytest.raises(ParameterError, match=r"w of a test is of shape \(9, 4, 1\)"):
        add_learned(x, given(random(9, 4, 1), "w"), 0)


NARROW = {"float32": np.float32, "float16-table": np.float16, "bfloat16-table": ml_dtypes.bfloat16}


@pytest.mark.parametrize("form", ["symmetric", "causal", "key", "key-last"])
@pytest.mark.parametrize("recipe", NARROW)
def test_biases_by_a_recipe(recipe, form):
    """A table of another dtype holds the products rounded to it, not products of rounded slopes."""
    dtype, slopes = NARROW[recipe], [2.0 ** (-8 * j / 6) for j in (1, 2, 3, 4, 5, 6)]
    if recipe == "float32":
        slopes = [float(np.float32(slope)) for slope in slopes]
    found = apply(np.zeros((6, 40, 50)), Alibi(6, rule="naive", form=form, recipe=recipe))
    np.testing.assert_array_equal(found, written_out(slopes, 40, 50, form).astype(dtype).astype(np.float64))
