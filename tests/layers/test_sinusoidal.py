"""Adding sinusoidal tables, and the tables alone."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from pecli.errors import KindError, ParameterError
from pecli.layers import (
    SinusoidalPosEmbedding,
    sinusoidal_pos_embedding,
)
from tests.layers.formulas import BF16, NOT_POSITIVE, NOT_WHOLE, every_float, near, random, same_bits, sinusoids


class TestSinusoidalFunction:
    @pytest.mark.parametrize(("length", "dim"), [(1, 1), (1, 2), (3, 4), (5, 7), (50, 6)])
    def test_closed_form(self, length, dim):
        near(sinusoidal_pos_embedding(length, dim, "float64"), sinusoids(length, dim))

    def test_float32_by_default_each_rounded_once(self):
        table = sinusoidal_pos_embedding(40, 6)
        assert table.dtype == np.float32
        np.testing.assert_array_equal(table, sinusoids(40, 6).astype(np.float32))

    def test_odd_dim_ends_on_a_sine(self):
        table = sinusoidal_pos_embedding(9, 5)
        np.testing.assert_allclose(table[:, 4], [math.sin(p / 10000 ** (4 / 5)) for p in range(9)], rtol=1e-6)

    @pytest.mark.parametrize(
        ("dtype", "expected"),
        [
            (None, "float32"),
            ("float64", "float64"),
            ("float16", "float16"),
            ("bfloat16", "bfloat16"),
            (np.float64, "float64"),
            (float, "float64"),
            ("f2", "float16"),
            (np.dtype("float32"), "float32"),
            (BF16, "bfloat16"),
            (ml_dtypes.bfloat16, "bfloat16"),
        ],
    )
    def test_dtypes(self, dtype, expected):
        table = sinusoidal_pos_embedding(4, 6, dtype)
        assert table.dtype.name == expected
        near(table, sinusoids(4, 6))

    @pytest.mark.parametrize(
        "dtype", [np.int32, "int8", "bool", complex, "no such", object, np.longdouble, "U3", 5, ""]
    )
    def test_other_dtypes(self, dtype):
        with pytest.raises(TypeError, match="dtype is"):
            sinusoidal_pos_embedding(2, 2, dtype)

    @pytest.mark.parametrize("bad", NOT_POSITIVE)
    def test_sizes_below_one(self, bad):
        with pytest.raises(ValueError, match=f"^seq_len is {bad}"):
            sinusoidal_pos_embedding(bad, 2)
        with pytest.raises(ValueError, match=f"^embed_dim is {bad}"):
            sinusoidal_pos_embedding(2, bad)

    @pytest.mark.parametrize("bad", NOT_WHOLE)
    def test_sizes_that_are_not_whole_numbers(self, bad):
        with pytest.raises(KindError, match=r"^seq_len is"):
            sinusoidal_pos_embedding(bad, 2)
        with pytest.raises(KindError, match=r"^embed_dim is"):
            sinusoidal_pos_embedding(2, bad)

    def test_a_new_array_every_time(self):
        a, b = sinusoidal_pos_embedding(3, 2), sinusoidal_pos_embedding(3, 2)
        a[...] = 7
        assert b[0, 1] == 1


class TestSinusoidalLayer:
    @every_float
    @pytest.mark.parametrize("shape", [(6, 4), (3, 6, 4), (6, 5)])
    def test_adds_the_table(self, shape, dtype):
        x = random(*shape, dtype=dtype)
        near(SinusoidalPosEmbedding()(x), x.astype(np.float64) + sinusoids(*shape[-2:]))

    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_to_zeros_it_is_the_table_bit_for_bit(self, dtype):
        layer = SinusoidalPosEmbedding()
        layer(np.zeros((3, 10), dtype))  # so that the table of the next call is grown
        same_bits(layer(np.zeros((700, 10), dtype)), sinusoidal_pos_embedding(700, 10, dtype))
        same_bits(layer(np.zeros((20, 10), dtype)), sinusoidal_pos_embedding(20, 10, dtype))

    def test_lengths_dims_and_dtypes_one_after_the_other(self):
        layer = SinusoidalPosEmbedding()
        for length, dim, dtype in [(4, 6, "f4"), (9, 6, "f8"), (2, 8, "f8"), (30, 6, "f4"), (3, 6, "f4"), (5, 7, "f2")]:
            near(layer(np.zeros((length, dim), dtype)), sinusoids(length, dim))

    @pytest.mark.parametrize("shape", [(), (4,), (1, 2, 3, 4)])
    def test_rank(self, shape):
        with pytest.raises(ValueError, match=r"x is of shape \(.*\); it must be \(L, D\) or \(N, L, D\)"):
            SinusoidalPosEmbedding()(np.zeros(shape))

    def test_fixed_sizes(self):
        layer = SinusoidalPosEmbedding(seq_len=5, embed_dim=4)
        assert layer(np.zeros((2, 5, 4))).shape == (2, 5, 4)
        for shape in [(4, 4), (2, 6, 4), (0, 4)]:
            with pytest.raises(ValueError, match="made for L = 5"):
                layer(np.zeros(shape))
        with pytest.raises(ValueError, match=r"x is of shape \(5, 3\); this layer was made for D = 4"):
            layer(np.zeros((5, 3)))

    def test_no_channels(self):
        with pytest.raises(ValueError, match="last axis of x, is 0"):
            SinusoidalPosEmbedding()(np.zeros((3, 0)))

    @pytest.mark.parametrize("name", ["seq_len", "embed_dim"])
    def test_parameters(self, name):
        for bad in NOT_POSITIVE:
            with pytest.raises(ParameterError, match=f"^{name} is"):
                SinusoidalPosEmbedding(**{name: bad})
        for bad in NOT_WHOLE:
            with pytest.raises(KindError, match=f"^{name} is"):
                SinusoidalPosEmbedding(**{name: bad})

    def test_get_encoding(self):
        layer = SinusoidalPosEmbedding(seq_len=5, embed_dim=6)
        same_bits(layer.get_encoding(3), sinusoidal_pos_embedding(3, 6))
        same_bits(layer.get_encoding(8), sinusoidal_pos_embedding(8, 6))
        same_bits(layer.get_encoding(), sinusoidal_pos_embedding(5, 6))

    def test_get_encoding_is_not_the_cache(self):
        layer = SinusoidalPosEmbedding(embed_dim=2)
        layer.get_encoding(3)[...] = 7
        same_bits(layer.get_encoding(3), sinusoidal_pos_embedding(3, 2))
        layer(np.zeros((3, 2), np.float32))[...] = 7
        same_bits(layer(np.zeros((3, 2), np.float32)), sinusoidal_pos_embedding(3, 2))

    def test_get_encoding_needs_sizes(self):
        with pytest.raises(ValueError, match="embed_dim is not set"):
            SinusoidalPosEmbedding(seq_len=4).get_encoding(4)
        with pytest.raises(ValueError, match="seq_len is not set"):
            SinusoidalPosEmbedding(embed_dim=4).get_encoding()
        with pytest.raises(ValueError, match="seq_len is 0"):
            SinusoidalPosEmbedding(embed_dim=4).get_encoding(0)
        with pytest.raises(KindError, match=r"seq_len is 2\.0"):
            SinusoidalPosEmbedding(embed_dim=4).get_encoding(2.0)

    def test_table_is_reused_and_grows(self):
        layer = SinusoidalPosEmbedding()
        layer(np.zeros((8, 4)))
        (rows,) = layer._cache.values()
        table = rows.table
        layer(np.zeros((3, 4)))
        layer(np.zeros((2, 8, 4)))
        assert rows.table is table
        layer(np.zeros((9, 4)))
        assert len(rows.table) == 16

    def test_an_empty_batch_of_long_sequences_makes_no_table(self):
        assert SinusoidalPosEmbedding()(np.zeros((0, 2**38, 4))).shape == (0, 2**38, 4)
