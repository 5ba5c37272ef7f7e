"""Layers that add: sinusoidal and learned tables to embeddings, and ALiBi's biases to attention
scores.

Expected values are the paper's formulas in plain Python (`sinusoids` in formulas.py, and
TestAlibi.bias), the rows of a table of the numbers 0 to 11, and finite differences for gradients.
`assert_near` allows a rounding error of the dtype: 1e-14 in float64, 1e-6, 2e-3 and 2e-2 in
float32, float16 and bfloat16.
"""

import ml_dtypes
import numpy as np
import pytest

from pecli.engine.schemes.learned import LearnedInit
from pecli.layers import (
    AlibiBias,
    LearnedPosEmbedding,
    SinusoidalPosEmbedding,
    sinusoidal_pos_embedding,
)
from tests.layers.formulas import (
    BF16,
    FLOATS,
    assert_near,
    assert_same_bits,
    every_float,
    gradient,
    random_uniform,
    sinusoids,
)


class TestSinusoidal:
    """The layer adds sin and cos of position · 10000^(-2i/dim), in turns; it keeps its last table."""

    def test_each_number_of_a_sinusoidal_table_is_rounded_once_to_float32(self):
        """`sinusoids` is the formula of the Transformer's paper, sin and cos of
        position / 10000^(2i/dim) in turns, in Python's float64; NumPy rounds it to float32.
        """
        table = sinusoidal_pos_embedding(40, 6)
        assert_same_bits(table, sinusoids(40, 6).astype(np.float32))

    @pytest.mark.parametrize(
        ("dtype", "expected"),
        [
            (None, "float32"),
            ("float64", "float64"),
            ("float16", "float16"),
            ("bfloat16", "bfloat16"),
            ("f2", "float16"),
            (float, "float64"),
            (np.float64, "float64"),
            (BF16, "bfloat16"),
            (ml_dtypes.bfloat16, "bfloat16"),
        ],
        ids=str,
    )
    def test_the_dtype_of_a_sinusoidal_table_may_be_a_name_or_a_type(self, dtype, expected):
        """Names of NumPy, Python's float, and bfloat16 of ml_dtypes; the table is the paper's
        formula within the dtype's rounding.
        """
        table = sinusoidal_pos_embedding(4, 6, dtype)
        assert table.dtype.name == expected
        assert_near(table, sinusoids(4, 6))

    @every_float
    @pytest.mark.parametrize("shape", [(6, 4), (3, 6, 4), (6, 5)])
    def test_the_sinusoidal_layer_adds_the_table(self, shape, dtype):
        """`sinusoids` is the formula of the Transformer's paper in plain Python. The sum is near the
        one in float64, within a rounding error of the input's dtype.
        """
        x = random_uniform(*shape, dtype=dtype)
        length, dim = shape[-2:]
        expected = x.astype(np.float64) + sinusoids(length, dim)
        assert_near(SinusoidalPosEmbedding()(x), expected)

    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_the_sinusoidal_layer_on_zeros_is_the_table_bit_for_bit(self, dtype):
        """One layer is called with several shapes in turn, whose tables it keeps: none may show in a
        later result. Zeros of float16 are compared with the paper's formula in plain Python
        (`sinusoids`).
        """
        layer = SinusoidalPosEmbedding()
        for length, dim in ((3, 10), (700, 10), (20, 10), (2, 8), (5, 7)):
            zeros = np.zeros((length, dim), dtype)
            assert_same_bits(layer(zeros), sinusoidal_pos_embedding(length, dim, dtype))
            assert_near(layer(zeros.astype("f2")), sinusoids(length, dim))

    def test_writing_into_a_table_or_result_of_the_layer_changes_no_later_one(self):
        """A layer keeps its table for later calls. `get_encoding` returns a copy of it, and a call a
        new array: writing 7 into them changes no later result.
        """
        layer = SinusoidalPosEmbedding(seq_len=5, embed_dim=6)
        assert layer(np.zeros((2, 5, 6))).shape == (2, 5, 6)

        layer.get_encoding(3)[...] = 7
        for length in (3, 8):
            assert_same_bits(layer.get_encoding(length), sinusoidal_pos_embedding(length, 6))
        assert_same_bits(layer.get_encoding(), sinusoidal_pos_embedding(5, 6))

        layer(np.zeros((5, 6), np.float32))[...] = 7
        assert_same_bits(layer(np.zeros((5, 6), np.float32)), sinusoidal_pos_embedding(5, 6))

    def test_the_table_of_the_sinusoidal_layer_is_reused_and_doubles_when_it_must_grow(self):
        """The layer keeps its table in `_cache`. 8 rows are enough for 3 and 8 positions; the 9th
        doubles them to 16. An empty batch of 2^38 positions makes no table, which would not fit into
        memory.
        """
        layer = SinusoidalPosEmbedding()
        layer(np.zeros((8, 4)))
        (table,) = layer._cache.values()
        layer(np.zeros((3, 4)))
        layer(np.zeros((2, 8, 4)))

        assert next(iter(layer._cache.values())) is table

        layer(np.zeros((9, 4)))
        assert len(next(iter(layer._cache.values()))) == 16
        assert layer(np.zeros((0, 2**38, 4))).shape == (0, 2**38, 4)


class TestLearned:
    """The layer adds rows of a table that can be trained; here it counts from 0 to 11 in rows of
    two.
    """

    table = np.arange(12.0).reshape(6, 2)

    @every_float
    @pytest.mark.parametrize("offset", [0, 1, 4])
    @pytest.mark.parametrize("batch", [(), (3,)])
    def test_the_learned_layer_adds_rows_from_the_offset_on(self, dtype, offset, batch):
        """The table has the rows (0, 1), (2, 3), … (10, 11). Inputs are ones, and get the rows
        `offset` and `offset` + 1; small integers have no rounding error.
        """
        x = np.ones((*batch, 2, 2), dtype)
        result = LearnedPosEmbedding(6, 2, self.table)(x, offset=offset)
        expected = np.broadcast_to(1 + self.table[offset : offset + 2], result.shape)

        assert_same_bits(result, expected.astype(dtype))

    def test_the_learned_layer_adds_rows_up_to_the_last(self):
        """The table has the rows (0, 1), (2, 3), … (10, 11), of which row 5 is the last; from offset 6
        on an empty input is still accepted.
        """
        layer = LearnedPosEmbedding(6, 2, self.table)
        assert layer(np.zeros((6, 2)))[-1].tolist() == [10.0, 11.0]
        assert layer(np.zeros((1, 2)), 5).tolist() == [[10.0, 11.0]]
        assert layer(np.zeros((0, 2)), 6).shape == (0, 2)

    def test_initial_weights_are_those_of_learned_init(self):
        """A normal distribution of deviation 0.02, as LearnedInit draws it from a seed; the mean of
        10,000 draws is within 0.001, five of its standard errors.
        """
        weight = LearnedPosEmbedding(200, 50).weight
        assert weight.dtype == np.float32
        assert abs(weight.std() - 0.02) < 0.001
        assert abs(weight.mean()) < 0.001
        assert_same_bits(
            weight, LearnedInit(200, 50, init="normal", std=0.02, seed=0).tables()["weight"]
        )
        assert_same_bits(
            LearnedPosEmbedding(3, 4, seed=9).weight, LearnedInit(3, 4, seed=9).tables()["weight"]
        )

    @every_float
    def test_a_learned_table_of_another_dtype_is_added_in_the_dtype_of_the_input(self, dtype):
        """An input of each of four dtypes, and tables of all four. The output has the input's
        dtype, and is the sum in float64 within a rounding error of that dtype.
        """
        for other in FLOATS:
            x = random_uniform(4, 2, dtype=dtype)
            table = random_uniform(4, 2, dtype=other, seed=3)
            out = LearnedPosEmbedding(4, 2, table)(x)

            assert out.dtype == x.dtype
            assert_near(out, x.astype(float) + table.astype(float))

    def test_a_learned_table_is_not_rounded_before_the_sum(self):
        """A weight in float64 is added to an input of float32: −1 + (1 + 2^-24 + 2^-30) is
        2^-24 + 2^-30. Rounded to float32 first, the weight would be 1 + 2^-23, and the sum twice too
        large.
        """
        weight = np.array([[1 + 2.0**-24 + 2.0**-30]])
        result = LearnedPosEmbedding(1, 1, weight)(np.array([[-1]], np.float32))

        assert result[0, 0] == np.float32(2.0**-24 + 2.0**-30)

    @every_float
    def test_a_given_table_is_copied_in_its_dtype_and_can_be_trained(self, dtype):
        """Subtracting 1 from the layer's weight changes its output, and not the caller's table."""
        table = self.table.astype(dtype)
        layer = LearnedPosEmbedding(6, 2, table)
        layer.weight -= 1

        assert layer.weight.dtype == dtype
        np.testing.assert_array_equal(table, self.table)
        np.testing.assert_array_equal(layer(np.zeros((6, 2))), self.table - 1)

    @pytest.mark.parametrize("shape", [(3, 2), (4, 3, 2)])
    @pytest.mark.parametrize("offset", [0, 2])
    def test_the_gradient_of_a_learned_table_is_that_of_finite_differences(self, shape, offset):
        """The loss is Σ weight · layer(x) with random weights and inputs of 3 positions. Rows `offset`
        to `offset` + 2 of the table have gradients, all others none; `gradient` takes central
        differences.
        """
        layer = LearnedPosEmbedding(6, 2, self.table)
        x = random_uniform(*shape)
        weight = random_uniform(*shape, seed=1)
        layer(x[..., :1, :], offset=5)  # The offset of an earlier call has no effect.
        layer(x, offset)
        grad_x, grad_table = layer.backward(weight)

        np.testing.assert_array_equal(grad_x, weight)

        def loss(table):
            return (LearnedPosEmbedding(6, 2, table)(x, offset) * weight).sum()

        np.testing.assert_allclose(grad_table, gradient(loss, self.table), atol=1e-7)

        used = np.isin(np.arange(6), range(offset, offset + 3))
        assert ((grad_table != 0) == used[:, None]).all()

    def test_gradients_of_a_batch_are_summed_in_more_than_bfloat16(self):
        """The gradient of a table is the sum over the batch, here of a thousand ones. Summed in
        bfloat16 it would stop at 256, as 256 + 1 is rounded to 256.
        """
        layer = LearnedPosEmbedding(1, 1, np.zeros((1, 1), BF16))
        layer(np.zeros((1000, 1, 1), BF16))
        _, grad_table = layer.backward(np.ones((1000, 1, 1), BF16))

        assert float(grad_table[0, 0]) == 1000


class TestAlibi:
    """The layer adds −slope · |i − j| for query i and key j; the slopes of 3 heads are 2^-4, 2^-8
    and 2^-2 by the paper.
    """

    bias = np.array(
        [
            [[0.0 - m * abs(i - j) for j in range(5)] for i in range(5)]
            for m in (2**-4, 2**-8, 2**-2)
        ]
    )

    @pytest.mark.parametrize("dtype", [None, "float64", np.float16, BF16])
    def test_biases_are_new_arrays_of_slopes_times_distances(self, dtype):
        """`self.bias` is −slope · |i − j| written out in Python, with the slopes 2^-4, 2^-8 and 2^-2 of
        3 heads by the paper's rule. Writing 7 into what was returned changes no later result.
        """
        layer = AlibiBias(3)
        assert_same_bits(layer.get_bias(5, dtype), self.bias.astype(dtype or np.float32))

        layer.get_bias(5, dtype)[...] = 7
        layer.slopes[...] = 7
        assert layer.slopes[0] == 2**-4
        assert layer.get_bias(5, dtype)[0, 0, 1] == -(2**-4)

    @every_float
    @pytest.mark.parametrize("lead", [(), (2,), (2, 1, 3)])
    def test_the_alibi_layer_adds_its_bias_to_scores(self, dtype, lead):
        """Scores of 3 heads, 5 queries and 5 keys, with none to three axes before them; `self.bias` is
        −slope · |i − j| written out in Python, with the slopes of ALiBi's paper.
        """
        scores = random_uniform(*lead, 3, 5, 5, dtype=dtype)
        assert_near(AlibiBias(3)(scores), scores.astype(float) + self.bias)

    def test_the_gradient_of_added_biases_is_passed_through(self):
        """The derivative of x + bias is 1, so the gradient of the scores is that of the result; the
        caller gets an array of its own.
        """
        layer = AlibiBias(2)
        grad = random_uniform(3, 2, 4, 4, dtype=np.float32)
        grad_of_scores = layer.backward(grad)

        assert_same_bits(grad_of_scores, grad)
        assert not np.shares_memory(grad_of_scores, grad)

    def test_the_alibi_layer_leaves_masked_scores_at_minus_infinity(self):
        """A causal mask makes the scores of later keys −∞, which stay −∞; other scores are 0, and
        become the bias, −slope · |i − j|, written out in `self.bias`.
        """
        is_visible = np.tri(5, dtype=bool)
        masked_scores = np.where(is_visible, np.zeros((3, 5, 5)), -np.inf)
        expected = np.where(is_visible, self.bias, -np.inf)

        np.testing.assert_array_equal(AlibiBias(3)(masked_scores), expected)
