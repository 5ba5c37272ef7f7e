"""Biases of attention scores."""

from __future__ import annotations

import numpy as np
import pytest

from pecli.layers import (
    AlibiBias,
)
from tests.layers.formulas import BF16, every_float, near, random, same_bits


class TestAlibi:
    @pytest.mark.parametrize(
        ("heads", "slopes"),
        [
            (1, [2**-8]),
            (2, [2**-4, 2**-8]),
            (8, [2.0**-i for i in range(1, 9)]),
            (6, [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]),
            (3, [2**-4, 2**-8, 2**-2]),
            (12, [*(2.0**-i for i in range(1, 9)), *(2.0 ** -(i + 0.5) for i in range(4))]),
        ],
    )
    def test_slopes(self, heads, slopes):
        found = AlibiBias(heads).slopes
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.array(slopes, np.float32))

    @pytest.mark.parametrize("dtype", [None, "float64", np.float16, BF16])
    def test_bias(self, dtype):
        bias = AlibiBias(3).get_bias(4, dtype)
        assert bias.dtype == np.dtype(dtype or np.float32)
        expected = [[[-m * abs(i - j) for j in range(4)] for i in range(4)] for m in (2**-4, 2**-8, 2**-2)]
        np.testing.assert_array_equal(bias.astype(float), expected)

    def test_new_arrays_every_time(self):
        layer = AlibiBias(2)
        layer.slopes[...] = 7
        layer.get_bias(3)[...] = 7
        assert layer.slopes[0] == 2**-4
        assert layer.get_bias(3)[0, 0, 1] == -(2**-4)

    @every_float
    @pytest.mark.parametrize("lead", [(), (2,), (2, 1, 3)])
    def test_added_to_scores(self, dtype, lead):
        scores = random(*lead, 3, 5, 5, dtype=dtype)
        bias = np.array([[[-m * abs(i - j) for j in range(5)] for i in range(5)] for m in (2**-4, 2**-8, 2**-2)])
        near(AlibiBias(3)(scores), scores.astype(float) + bias)

    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_to_zeros_it_is_the_bias_bit_for_bit(self, dtype):
        layer = AlibiBias(12)  # some of its slopes are no powers of two
        same_bits(layer(np.zeros((12, 40, 40), dtype)), layer.get_bias(40, dtype) + 0)  # −0 + 0 is 0

    def test_backward_of_scores_that_get_bias_was_added_to(self):
        layer, grad = AlibiBias(2), random(3, 2, 4, 4, dtype=np.float32)
        layer.get_bias(4)
        found = layer.backward(grad)
        same_bits(found, grad)
        assert not np.shares_memory(found, grad)
        with pytest.raises(ValueError, match=r"grad is of shape \(3, 4, 4\); this layer was made for H = 2"):
            layer.backward(np.zeros((3, 4, 4)))
        with pytest.raises(TypeError, match="grad is of dtype int64"):
            layer.backward(np.zeros((2, 4, 4), np.int64))

    def test_a_mask_stays(self):
        scores, seen = np.zeros((2, 4, 4)), np.tri(4, dtype=bool)
        scores[:, ~seen] = -np.inf
        out = AlibiBias(2)(scores)
        assert np.isneginf(out[:, ~seen]).all()
        assert np.isfinite(out[:, seen]).all()
