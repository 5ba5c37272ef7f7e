"""Adding learned tables."""

from __future__ import annotations

import numpy as np
import pytest

from pecli.engine.schemes.learned import LearnedInit
from pecli.errors import KindError, ParameterError
from pecli.layers import (
    LearnedPosEmbedding,
)
from tests.layers.formulas import (
    BF16,
    FLOATS,
    NOT_FLOATS,
    NOT_POSITIVE,
    NOT_WHOLE,
    every_float,
    near,
    numerical_gradient,
    random,
    same_bits,
)


class TestLearned:
    table = np.arange(12.0).reshape(6, 2)

    @every_float
    @pytest.mark.parametrize("offset", [0, 1, 4])
    @pytest.mark.parametrize("batch", [(), (3,)])
    def test_adds_rows_from_the_offset(self, dtype, offset, batch):
        x = np.ones((*batch, 2, 2), dtype)
        out = LearnedPosEmbedding(6, 2, self.table)(x, offset=offset)
        expected = [[1.0 + 2 * (offset + row) + channel for channel in range(2)] for row in range(2)]
        assert out.dtype == dtype
        np.testing.assert_array_equal(out.astype(float), np.broadcast_to(expected, out.shape))

    def test_rows_up_to_the_last(self):
        layer = LearnedPosEmbedding(6, 2, self.table)
        assert layer(np.zeros((6, 2)))[-1].tolist() == [10.0, 11.0]
        assert layer(np.zeros((1, 2)), 5).tolist() == [[10.0, 11.0]]
        assert layer(np.zeros((0, 2)), 6).shape == (0, 2)

    @pytest.mark.parametrize(("length", "offset"), [(7, 0), (1, 6), (3, 4), (0, 7), (1, 2**41)])
    def test_rows_past_the_last(self, length, offset):
        with pytest.raises(ValueError, match="offset is"):
            LearnedPosEmbedding(6, 2)(np.zeros((length, 2)), offset=offset)

    def test_offset_below_zero(self):
        with pytest.raises(ValueError, match="offset is -1"):
            LearnedPosEmbedding(6, 2)(np.zeros((2, 2)), offset=-1)

    @pytest.mark.parametrize("offset", [True, 1.0, "1", None])
    def test_offset_of_another_kind(self, offset):
        with pytest.raises(KindError, match="offset is"):
            LearnedPosEmbedding(6, 2)(np.zeros((2, 2)), offset=offset)

    def test_dim(self):
        with pytest.raises(ValueError, match=r"x is of shape \(2, 3\); this layer was made for D = 2"):
            LearnedPosEmbedding(6, 2)(np.zeros((2, 3)))

    @pytest.mark.parametrize("shape", [(), (2,), (1, 1, 2, 2)])
    def test_rank(self, shape):
        with pytest.raises(ValueError, match="it must be"):
            LearnedPosEmbedding(6, 2)(np.zeros(shape))

    @pytest.mark.parametrize("name", ["max_len", "embed_dim"])
    def test_sizes(self, name):
        for bad in NOT_POSITIVE:
            with pytest.raises(ParameterError, match=f"^{name} is"):
                LearnedPosEmbedding(**{"max_len": 2, "embed_dim": 2, name: bad})
        for bad in NOT_WHOLE:
            with pytest.raises(KindError, match=f"^{name} is"):
                LearnedPosEmbedding(**{"max_len": 2, "embed_dim": 2, name: bad})

    @pytest.mark.parametrize("seed", [-1, 2**64])
    def test_seed(self, seed):
        with pytest.raises(ValueError, match="seed is"):
            LearnedPosEmbedding(2, 2, seed=seed)
        with pytest.raises(KindError, match="seed is"):
            LearnedPosEmbedding(2, 2, seed=0.5)

    def test_initial_weights(self):
        layer = LearnedPosEmbedding(200, 50)
        assert layer.weight.dtype == np.float32
        assert abs(layer.weight.std() - 0.02) < 0.001
        assert abs(layer.weight.mean()) < 0.001
        same_bits(layer.weight, LearnedInit(200, 50, init="normal", std=0.02, seed=0).tables()["weight"])
        same_bits(LearnedPosEmbedding(3, 4, seed=9).weight, LearnedInit(3, 4, seed=9).tables()["weight"])
        assert (LearnedPosEmbedding(3, 4, seed=1).weight != LearnedPosEmbedding(3, 4, seed=2).weight).all()

    @every_float
    def test_a_given_table_is_copied_in_its_dtype(self, dtype):
        table = self.table.astype(dtype)
        layer = LearnedPosEmbedding(6, 2, table)
        table[...] = 99
        same_bits(layer.weight, self.table.astype(dtype))

    @pytest.mark.parametrize("shape", [(2, 6), (6, 3), (5, 2), (12,), (1, 6, 2)])
    def test_table_of_another_shape(self, shape):
        with pytest.raises(ValueError, match=r"table is of shape .*ask for \(6, 2\)"):
            LearnedPosEmbedding(6, 2, np.zeros(shape))

    @pytest.mark.parametrize("dtype", NOT_FLOATS, ids=str)
    def test_table_of_another_kind(self, dtype):
        with pytest.raises(TypeError, match="table is of dtype"):
            LearnedPosEmbedding(6, 2, np.zeros((6, 2), dtype))

    @every_float
    def test_table_and_input_may_differ_in_dtype(self, dtype):
        for other in FLOATS:
            x, table = random(4, 2, dtype=dtype), random(4, 2, dtype=other, seed=3)
            near(LearnedPosEmbedding(4, 2, table)(x), x.astype(float) + table.astype(float))

    def test_a_float64_table_is_not_rounded_before_the_sum(self):
        out = LearnedPosEmbedding(1, 1, np.array([[1 + 2.0**-24 + 2.0**-30]]))(np.array([[-1]], np.float32))
        assert out[0, 0] == np.float32(2.0**-24 + 2.0**-30)

    def test_weight_can_be_trained(self):
        layer = LearnedPosEmbedding(6, 2, self.table)
        layer.weight -= 1
        np.testing.assert_array_equal(layer(np.zeros((6, 2))), self.table - 1)

    @pytest.mark.parametrize("shape", [(3, 2), (4, 3, 2)])
    @pytest.mark.parametrize("offset", [0, 2])
    def test_gradient_of_the_table(self, shape, offset):
        layer, x, weight = LearnedPosEmbedding(6, 2, self.table), random(*shape), random(*shape, seed=1)
        layer(x, offset)
        grad_x, grad_table = layer.backward(weight)
        np.testing.assert_array_equal(grad_x, weight)

        def loss(table):
            return (LearnedPosEmbedding(6, 2, table)(x, offset) * weight).sum()

        np.testing.assert_allclose(grad_table, numerical_gradient(loss, self.table), atol=1e-7)
        used = np.zeros(6, bool)
        used[offset : offset + 3] = True
        assert (grad_table[~used] == 0).all()
        assert (grad_table[used] != 0).all()

    @every_float
    @pytest.mark.parametrize("table_dtype", FLOATS, ids=str)
    def test_gradients_keep_their_dtypes(self, dtype, table_dtype):
        layer = LearnedPosEmbedding(6, 2, self.table.astype(table_dtype))
        layer(np.zeros((3, 4, 2), dtype), offset=1)
        grad_x, grad_table = layer.backward(np.ones((3, 4, 2), dtype))
        assert (grad_x.dtype, grad_table.dtype) == (dtype, table_dtype)
        assert grad_table.astype(float).tolist() == [[0, 0], *[[3, 3]] * 4, [0, 0]]

    def test_sums_over_the_batch_are_wide(self):
        layer = LearnedPosEmbedding(1, 1, np.zeros((1, 1), BF16))
        layer(np.zeros((1000, 1, 1), BF16))
        _, grad_table = layer.backward(np.ones((1000, 1, 1), BF16))  # in bfloat16, 256 + 1 is 256
        assert float(grad_table[0, 0]) == 1000

    def test_an_offset_belongs_to_its_call(self):
        layer = LearnedPosEmbedding(6, 2)
        layer(np.zeros((1, 2)), offset=5)
        layer(np.zeros((1, 2)))
        assert layer.backward(np.ones((1, 2)))[1][:, 0].tolist() == [1, 0, 0, 0, 0, 0]
