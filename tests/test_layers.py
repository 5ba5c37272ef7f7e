"""The layers: every rule of the contract's table, against values written out in plain Python."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pecli.engine.learned import LearnedInit
from pecli.engine.rope import Rope
from pecli.errors import KindError, ParameterError
from pecli.layers import (
    AlibiBias,
    LearnedPosEmbedding,
    RotaryPosEmbedding,
    SinusoidalPosEmbedding,
    sinusoidal_pos_embedding,
)

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16), BF16]
NOT_FLOATS = [np.int64, np.uint8, np.bool_, np.complex64, np.dtype("U1"), object, ml_dtypes.float8_e5m2]
TOLERANCE = {"float64": 1e-14, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}

NOT_WHOLE = [True, 4.0, "4", np.float64(4), np.True_, [4]]
NOT_POSITIVE = [0, -1, np.int64(-3)]


def sinusoid(position: int, channel: int, dim: int) -> float:
    angle = position / 10000 ** (2 * (channel // 2) / dim)
    return math.cos(angle) if channel % 2 else math.sin(angle)


def sinusoids(length: int, dim: int) -> np.ndarray:
    return np.array([[sinusoid(p, c, dim) for c in range(dim)] for p in range(length)])


def pairs(dim: int, interleaved: bool) -> list[tuple[int, int]]:
    return [(2 * i, 2 * i + 1) if interleaved else (i, i + dim // 2) for i in range(dim // 2)]


def rotated(x: np.ndarray, positions, interleaved: bool = True, base: float = 10000.0, sign: int = 1) -> np.ndarray:
    """Rotation written out, element by element."""
    x = x.astype(np.float64)
    out = np.empty_like(x)
    dim = x.shape[-1]
    for lead in np.ndindex(x.shape[:-2]):
        for row, position in enumerate(positions):
            for i, (a, b) in enumerate(pairs(dim, interleaved)):
                angle = sign * position * base ** (-2 * i / dim)
                u, v = x[(*lead, row, a)], x[(*lead, row, b)]
                out[(*lead, row, a)] = u * math.cos(angle) - v * math.sin(angle)
                out[(*lead, row, b)] = v * math.cos(angle) + u * math.sin(angle)
    return out


def random(*shape: int, dtype=np.float64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(dtype)


def near(found: np.ndarray, expected: np.ndarray, dtype=None) -> None:
    tolerance = TOLERANCE[np.dtype(dtype or found.dtype).name]
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance, atol=4 * tolerance)


def same_bits(a: np.ndarray, b: np.ndarray) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def numerical_gradient(loss, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    out = np.empty_like(x)
    for index in np.ndindex(x.shape):
        above, below = x.copy(), x.copy()
        above[index] += step
        below[index] -= step
        out[index] = (loss(above) - loss(below)) / (2 * step)
    return out


LAYERS = {
    "sinusoidal": (lambda: SinusoidalPosEmbedding(), (2, 5, 4)),
    "learned": (lambda: LearnedPosEmbedding(6, 4), (2, 5, 4)),
    "rotary": (lambda: RotaryPosEmbedding(), (2, 5, 4)),
    "rotary halves": (lambda: RotaryPosEmbedding(interleaved=False), (2, 5, 4)),
    "alibi": (lambda: AlibiBias(2), (3, 2, 4, 4)),
}
every_layer = pytest.mark.parametrize(("make", "shape"), LAYERS.values(), ids=LAYERS)
every_float = pytest.mark.parametrize("dtype", FLOATS, ids=str)
both_layouts = pytest.mark.parametrize("interleaved", [True, False], ids=["interleaved", "halves"])


def first(result):
    """backward of the learned layer gives two gradients."""
    return result[0] if isinstance(result, tuple) else result


class TestEveryLayer:
    @every_layer
    @every_float
    def test_dtype_is_kept_and_the_input_untouched(self, make, shape, dtype):
        layer, x = make(), random(*shape, dtype=dtype)
        before = x.tobytes()
        out = layer(x)
        grad = first(layer.backward(x))
        assert out.dtype == grad.dtype == dtype
        assert out.shape == grad.shape == shape
        assert x.tobytes() == before
        assert not np.shares_memory(out, x)
        assert not np.shares_memory(grad, x)
        assert (out != x).any()

    @every_layer
    def test_read_only_input_is_enough(self, make, shape):
        x = random(*shape)
        x.flags.writeable = False
        layer = make()
        assert layer(x).flags.writeable
        assert first(layer.backward(x)).flags.writeable

    @every_layer
    @every_float
    def test_any_strides(self, make, shape, dtype):
        layer, x = make(), random(*shape, dtype=dtype)
        expected = layer(x)
        gradient = first(layer.backward(x))
        spaced = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
        reverse = np.empty(shape, dtype)[::-1, ..., ::-1]
        moved = np.empty((shape[-2], *shape[:-2], shape[-1]), dtype)
        moved = np.moveaxis(moved, 0, -2)
        for view in (spaced, reverse, moved, np.asfortranarray(np.empty(shape, dtype))):
            view[...] = x
            near(layer(view), expected.astype(np.float64))
            near(first(layer.backward(view)), gradient.astype(np.float64))

    @every_layer
    def test_repeated_rows_of_a_broadcast_input(self, make, shape):
        layer, x = make(), random(*shape[1:])
        wide = np.broadcast_to(x, (3, *shape[1:]))
        np.testing.assert_array_equal(layer(wide)[2], layer(np.stack([x]))[0])

    @every_layer
    def test_other_byte_order(self, make, shape):
        layer, x = make(), random(*shape, dtype=np.float32)
        out = layer(x.astype(">f4"))
        assert out.dtype == np.dtype(">f4")
        np.testing.assert_array_equal(out, layer(x))

    @every_layer
    @pytest.mark.parametrize("dtype", [np.float16, BF16], ids=str)
    def test_small_dtypes_are_rounded_once_from_float32(self, make, shape, dtype):
        layer, x = make(), random(*shape, dtype=dtype)
        same_bits(layer(x), layer(x.astype(np.float32)).astype(dtype))

    @every_layer
    def test_lists_are_arrays(self, make, shape):
        x = random(*shape)
        same_bits(make()(x.tolist()), make()(x))

    @every_layer
    def test_ragged_lists_are_refused(self, make, shape):
        with pytest.raises(ParameterError, match="ragged"):
            make()([[1.0, 2.0], [3.0]])

    @every_layer
    @pytest.mark.parametrize("dtype", NOT_FLOATS, ids=str)
    def test_type_error_on_other_dtypes(self, make, shape, dtype):
        layer = make()
        with pytest.raises(TypeError, match=r"it must be float64, float32, float16 or bfloat16; convert") as caught:
            layer(np.zeros(shape, dtype))
        assert isinstance(caught.value, KindError)
        layer(np.zeros(shape))
        with pytest.raises(TypeError, match="grad is of dtype"):
            layer.backward(np.zeros(shape, dtype))

    @pytest.mark.parametrize("name", [name for name in LAYERS if name != "alibi"])
    def test_backward_needs_a_call(self, name):
        make, shape = LAYERS[name]
        with pytest.raises(ValueError, match="grad is without a call; gradients belong to the last call; call"):
            make().backward(np.zeros(shape))

    @every_layer
    def test_backward_needs_the_shape_of_the_last_output(self, make, shape):
        layer = make()
        layer(np.zeros(shape))
        with pytest.raises(ValueError, match=r"grad is of shape \(1, .*the last output was of shape"):
            layer.backward(np.zeros((1, *shape)))

    @every_layer
    def test_a_refused_call_does_not_count(self, make, shape):
        layer = make()
        layer(np.zeros(shape))
        with pytest.raises(ValueError, match="shape"):
            layer(np.zeros(()))
        assert first(layer.backward(np.zeros(shape))).shape == shape

    @every_layer
    def test_empty_batch(self, make, shape):
        layer = make()
        assert layer(np.zeros((0, *shape[1:]), np.float32)).shape == (0, *shape[1:])
        assert first(layer.backward(np.zeros((0, *shape[1:])))).shape == (0, *shape[1:])

    @every_layer
    def test_empty_sequence(self, make, shape):
        shape = (3, 2, 0, 0) if len(shape) == 4 else (2, 0, 4)
        for at in (shape, shape[1:]):
            layer = make()
            assert layer(np.zeros(at)).shape == at
            assert first(layer.backward(np.zeros(at))).shape == at

    @every_layer
    def test_gradient_against_finite_differences(self, make, shape):
        layer, x, weight = make(), random(*shape), random(*shape, seed=1)
        layer(x)
        found = first(layer.backward(weight))
        np.testing.assert_allclose(found, numerical_gradient(lambda x: (layer(x) * weight).sum(), x), atol=1e-8)

    @every_layer
    def test_copies_and_pickles(self, make, shape):
        layer, x = make(), random(*shape)
        out = layer(x)
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            same_bits(other(x), out)

    @every_layer
    def test_nothing_several_times_the_size_of_the_input(self, make, shape):
        layer = LearnedPosEmbedding(4096, 64) if isinstance(layer := make(), LearnedPosEmbedding) else layer
        x = np.zeros((2, 512, 512) if isinstance(layer, AlibiBias) else (4, 4096, 64), np.float32)
        layer(x)
        for view in (x, x[..., ::-1]):
            tracemalloc.start()
            layer(view)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 1.6 * x.nbytes


def test_importing_layers_is_cheap():
    code = "import sys, pecli.layers; print(*sorted({'typer', 'rich', 'matplotlib', 'ml_dtypes'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""


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


class TestRotary:
    @both_layouts
    @every_float
    @pytest.mark.parametrize("shape", [(5, 2), (5, 6), (2, 5, 4), (2, 1, 3, 5, 8), (1, 4)])
    def test_closed_form(self, interleaved, dtype, shape):
        x = random(*shape, dtype=dtype)
        found = RotaryPosEmbedding(interleaved=interleaved)(x)
        near(found, rotated(x, range(shape[-2]), interleaved))

    @both_layouts
    def test_one_pair_by_hand(self, interleaved):
        layer = RotaryPosEmbedding(4, interleaved=interleaved, base=100.0)
        x = np.zeros((3, 4))
        x[2] = [1, 0, 0, 0]
        expected = [0.0] * 4
        expected[0], expected[1 if interleaved else 2] = math.cos(2), math.sin(2)
        np.testing.assert_allclose(layer(x)[2], expected, atol=1e-15)
        x[2] = [0, 0, 0, 1]
        expected = [0.0] * 4
        expected[3], expected[2 if interleaved else 1] = math.cos(0.2), -math.sin(0.2)
        np.testing.assert_allclose(layer(x)[2], expected, atol=1e-15)

    @both_layouts
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_of_unit_vectors_it_is_the_exact_table(self, interleaved, dtype):
        dim, length = 8, 300
        x = np.zeros((length, dim), dtype)
        for a, _ in pairs(dim, interleaved):
            x[:, a] = 1
        out = RotaryPosEmbedding(interleaved=interleaved)(x)
        tables = Rope(length, dim, dtype=dtype).tables()
        for i, (a, b) in enumerate(pairs(dim, interleaved)):
            np.testing.assert_array_equal(out[:, a], tables["cos"][:, i])
            np.testing.assert_array_equal(out[:, b], tables["sin"][:, i])

    def test_position_zero_turns_nothing(self):
        x = random(3, 1, 8)
        np.testing.assert_array_equal(RotaryPosEmbedding()(x), x)

    @both_layouts
    def test_more_than_a_block(self, interleaved, monkeypatch):
        monkeypatch.setattr("pecli.engine.turning._BLOCK", 24)
        for shape in [(7, 4), (5, 7, 4), (9, 1, 4), (3, 2, 13, 4)]:
            for dtype in FLOATS:
                x = random(*shape, dtype=dtype)
                layer = RotaryPosEmbedding(interleaved=interleaved)
                near(layer(x), rotated(x, range(shape[-2]), interleaved))
                ids = np.arange(shape[-2])[::-1]
                near(layer(x, ids), rotated(x, ids, interleaved))
                near(layer.backward(x), rotated(x, ids, interleaved, sign=-1))

    @both_layouts
    @settings(max_examples=20, deadline=None)
    @given(data=st.data())
    def test_norms_are_kept(self, interleaved, data):
        *lead, half = data.draw(hnp.array_shapes(min_dims=2, max_dims=4, max_side=5))
        x = data.draw(hnp.arrays(np.float64, (*lead, 2 * half), elements=st.floats(-1e3, 1e3)))
        out = RotaryPosEmbedding(interleaved=interleaved)(x)
        np.testing.assert_allclose(np.linalg.norm(out, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-13, atol=1e-12)

    @both_layouts
    @settings(max_examples=20, deadline=None)
    @given(distance=st.integers(0, 50), start=st.integers(0, 10**6), far=st.integers(0, 10**6))
    def test_scores_depend_on_distance_alone(self, interleaved, distance, start, far):
        layer, q, k = RotaryPosEmbedding(interleaved=interleaved), random(1, 8), random(1, 8, seed=1)
        scores = [float((layer(q, [at + distance]) @ layer(k, [at]).T).item()) for at in (start, far)]
        assert math.isclose(*scores, rel_tol=1e-12, abs_tol=1e-12)

    @both_layouts
    @settings(max_examples=20, deadline=None)
    @given(ids=st.lists(st.integers(0, 500), min_size=1, max_size=12))
    def test_position_ids_choose_rows(self, interleaved, ids):
        x = random(2, len(ids), 6)
        near(RotaryPosEmbedding(interleaved=interleaved)(x, ids), rotated(x, ids, interleaved))

    @pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64])
    def test_permuted_ids_permute_the_rows(self, dtype):
        layer, x = RotaryPosEmbedding(), random(3, 9, 4)
        order = np.random.default_rng(5).permutation(9)
        same_bits(layer(x[:, order], order.astype(dtype)), layer(x)[:, order])

    @pytest.mark.parametrize(
        "ids", [[0.0, 1.0], [True, False], ["0", "1"], np.zeros(2, complex), [2**70, 0], [None, 0]]
    )
    def test_ids_that_are_not_integers(self, ids):
        with pytest.raises(TypeError, match=r"position_ids is of dtype .*; positions are integers"):
            RotaryPosEmbedding()(np.zeros((2, 4)), ids)

    @pytest.mark.parametrize("ids", [[0], [0, 1, 2], [[0, 1]], [[0], [1]], 0, []])
    def test_ids_of_another_shape(self, ids):
        with pytest.raises(ValueError, match=r"position_ids is of shape .*x has L = 2 rows"):
            RotaryPosEmbedding()(np.zeros((2, 4)), ids)

    def test_ragged_ids(self):
        with pytest.raises(ParameterError, match="position_ids is ragged"):
            RotaryPosEmbedding()(np.zeros((2, 4)), [[0], [1, 2]])

    def test_no_ids_for_no_rows(self):
        assert RotaryPosEmbedding()(np.zeros((0, 4)), []).shape == (0, 4)

    @pytest.mark.parametrize("ids", [[0, -1], [-(2**60), 0]])
    def test_negative_ids(self, ids):
        with pytest.raises(ValueError, match=rf"position_ids is {min(ids)} at index {ids.index(min(ids))}"):
            RotaryPosEmbedding()(np.zeros((2, 4)), ids)

    @pytest.mark.parametrize("ids", [[2**40 + 1, 0], np.array([0, 2**64 - 1], np.uint64)])
    def test_ids_past_all_positions(self, ids):
        with pytest.raises(ValueError, match="be at most 2\\^40"):
            RotaryPosEmbedding()(np.zeros((2, 4)), ids)

    def test_the_last_position(self):
        x = random(2, 4)
        by_id, by_offset = RotaryPosEmbedding()(x, [2**40 - 1, 2**40]), RotaryPosEmbedding().apply(x, x, 2**40 - 1)[0]
        np.testing.assert_array_equal(by_id, by_offset)
        with pytest.raises(ValueError, match="be at most 2\\^40, and the last of these would be 1099511627777"):
            RotaryPosEmbedding().apply(x, x, 2**40)

    def test_ids_are_copied_for_backward(self):
        layer, ids = RotaryPosEmbedding(), np.array([3, 5])
        grad = random(2, 4)
        layer(np.zeros((2, 4)), ids)
        ids[...] = 0
        near(layer.backward(grad), rotated(grad, [3, 5], sign=-1))

    @pytest.mark.parametrize("shape", [(), (4,)])
    def test_rank(self, shape):
        with pytest.raises(ValueError, match=r"x is of shape .*it must be \(…, L, D\)"):
            RotaryPosEmbedding()(np.zeros(shape))

    @pytest.mark.parametrize("dim", [1, 3, 7])
    def test_odd_dim(self, dim):
        with pytest.raises(ValueError, match=rf"x is of shape \(2, {dim}\); channels turn in pairs"):
            RotaryPosEmbedding()(np.zeros((2, dim)))
        with pytest.raises(ValueError, match="embed_dim is"):
            RotaryPosEmbedding(dim)

    def test_no_channels(self):
        with pytest.raises(ValueError, match="last axis of x, is 0"):
            RotaryPosEmbedding()(np.zeros((2, 0)))

    def test_dim_differs(self):
        with pytest.raises(ValueError, match=r"x is of shape \(2, 6\); this layer was made for D = 4"):
            RotaryPosEmbedding(4)(np.zeros((2, 6)))

    @pytest.mark.parametrize("name", ["embed_dim", "max_seq_len"])
    def test_sizes(self, name):
        for bad in NOT_POSITIVE:
            with pytest.raises(ParameterError, match=f"^{name} is"):
                RotaryPosEmbedding(**{name: bad})
        for bad in NOT_WHOLE:
            with pytest.raises(KindError, match=f"^{name} is"):
                RotaryPosEmbedding(**{name: bad})

    @pytest.mark.parametrize("base", [0, -1.0, math.nan, math.inf, -math.inf, 1e-30, None])
    def test_base(self, base):
        with pytest.raises(ValueError, match=r"^base is"):
            RotaryPosEmbedding(base=base)

    @pytest.mark.parametrize("base", ["10000", True, [1.0]])
    def test_base_of_another_kind(self, base):
        with pytest.raises(KindError, match=r"^base is"):
            RotaryPosEmbedding(base=base)

    @pytest.mark.parametrize("interleaved", [1, 0, None, "yes"])
    def test_interleaved_is_true_or_false(self, interleaved):
        with pytest.raises(KindError, match=r"^interleaved is"):
            RotaryPosEmbedding(interleaved=interleaved)


class TestRotaryApply:
    @both_layouts
    @pytest.mark.parametrize("offset", [0, 3, np.int64(1000)])
    def test_both_from_the_offset(self, interleaved, offset):
        q, k = random(2, 4, 5, 6), random(2, 2, 5, 6, seed=1)
        found = RotaryPosEmbedding(interleaved=interleaved).apply(q, k, offset=offset)
        for turned, x in zip(found, (q, k), strict=True):
            near(turned, rotated(x, range(offset, offset + 5), interleaved))

    def test_without_offset_it_is_two_calls(self):
        layer, q, k = RotaryPosEmbedding(), random(2, 5, 6), random(5, 6)
        found = layer.apply(q, k)
        same_bits(found[0], layer(q))
        same_bits(found[1], layer(k))

    def test_dtypes_and_lengths_may_differ(self):
        q, k = random(1, 6, dtype=np.float64), random(4, 6, dtype=BF16)
        new_q, new_k = RotaryPosEmbedding().apply(q, k, 2)
        near(new_q, rotated(q, [2]))
        near(new_k, rotated(k, range(2, 6)))
        assert (new_q.dtype, new_k.dtype) == (np.float64, BF16)

    def test_token_by_token_is_the_same_as_at_once(self):
        layer, q, k = RotaryPosEmbedding(), random(3, 40, 8, dtype=np.float32), random(3, 40, 8, dtype=np.float32)
        at_once = RotaryPosEmbedding().apply(q, k)
        steps = [layer.apply(q[:, i : i + 1], k[:, i : i + 1], offset=i) for i in range(40)]
        for whole, parts in zip(at_once, zip(*steps, strict=True), strict=True):
            np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-6, atol=1e-6)

    def test_inputs_are_untouched(self):
        q, k = random(3, 4), random(3, 4, seed=1)
        before = q.tobytes(), k.tobytes()
        new_q, new_k = RotaryPosEmbedding().apply(q, k, 1)
        assert (q.tobytes(), k.tobytes()) == before
        assert not np.shares_memory(new_q, q)
        assert not np.shares_memory(new_k, k)

    def test_dims_must_agree(self):
        with pytest.raises(ValueError, match=r"k is of shape \(3, 6\); q is of shape \(3, 4\)"):
            RotaryPosEmbedding().apply(np.zeros((3, 4)), np.zeros((3, 6)))

    def test_each_is_checked(self):
        good = np.zeros((3, 4))
        layer = RotaryPosEmbedding(4)
        for name, pair in {"q": lambda bad: (bad, good), "k": lambda bad: (good, bad)}.items():
            with pytest.raises(TypeError, match=f"{name} is of dtype int64"):
                layer.apply(*pair(good.astype(int)))
            with pytest.raises(ValueError, match=f"{name} is of shape"):
                layer.apply(*pair(good[0]))
            with pytest.raises(ValueError, match=f"{name} is of shape"):
                layer.apply(*pair(good[:, :3]))

    @pytest.mark.parametrize("offset", [1.0, True, "1", None])
    def test_offset_of_another_kind(self, offset):
        with pytest.raises(KindError, match="offset is"):
            RotaryPosEmbedding().apply(np.zeros((3, 4)), np.zeros((3, 4)), offset)

    @pytest.mark.parametrize("offset", [-1, 2**40 - 1, 2**41])
    def test_offset_out_of_range(self, offset):
        with pytest.raises(ValueError, match="2\\^40"):
            RotaryPosEmbedding().apply(np.zeros((3, 4)), np.zeros((3, 4)), offset)

    @both_layouts
    def test_gradients(self, interleaved):
        layer = RotaryPosEmbedding(interleaved=interleaved)
        q, k, dq, dk = (random(*shape, seed=s) for s, shape in enumerate([(2, 3, 4), (3, 4), (2, 3, 4), (3, 4)]))
        layer.apply(q, k, offset=7)
        layer(random(1, 2))  # a call does not disturb the gradients of apply
        grad_q, grad_k = layer.apply_backward(dq, dk)

        def loss(q, k):
            new_q, new_k = RotaryPosEmbedding(interleaved=interleaved).apply(q, k, offset=7)
            return (new_q * dq).sum() + (new_k * dk).sum()

        np.testing.assert_allclose(grad_q, numerical_gradient(lambda q: loss(q, k), q), atol=1e-8)
        np.testing.assert_allclose(grad_k, numerical_gradient(lambda k: loss(q, k), k), atol=1e-8)

    def test_backward_is_of_calls_and_apply_backward_of_apply(self):
        layer, x = RotaryPosEmbedding(), random(3, 4)
        with pytest.raises(ValueError, match=r"grad_q is without a call.*call apply first"):
            layer.apply_backward(x, x)
        layer.apply(x, x)
        with pytest.raises(ValueError, match="call the layer first, or take apply_backward"):
            layer.backward(x)
        layer(x, [4, 5, 6])
        layer.apply(x, x, offset=1)
        near(layer.backward(x), rotated(x, [4, 5, 6], sign=-1))
        near(layer.apply_backward(x, x)[1], rotated(x, [1, 2, 3], sign=-1))

    def test_gradients_are_checked(self):
        layer, x = RotaryPosEmbedding(), random(3, 4)
        layer.apply(x, x)
        with pytest.raises(ValueError, match=r"grad_k is of shape \(2, 4\)"):
            layer.apply_backward(x, x[:2])
        with pytest.raises(TypeError, match="grad_q is of dtype int64"):
            layer.apply_backward(x.astype(int), x)


class TestRotaryCache:
    def tables(self, layer):
        return [rows.table for rows in layer._cache.kept.values()]

    def test_reused_while_it_covers_the_call(self):
        layer = RotaryPosEmbedding()
        layer(np.zeros((16, 4)))
        (table,) = self.tables(layer)
        layer(np.zeros((16, 4)))
        layer(np.zeros((2, 3, 4)))
        layer(np.zeros((2, 4)), [15, 0])
        layer.apply(np.zeros((4, 4)), np.zeros((2, 4)), offset=12)
        layer.backward(np.zeros((2, 4)))
        assert self.tables(layer)[0] is table
        assert len(table) == 16

    @pytest.mark.parametrize(
        "call",
        [
            lambda layer, x: layer(np.concatenate([x] * 17)),
            lambda layer, x: layer(x, [16]),
            lambda layer, x: layer.apply(x, x, offset=16)[0],
        ],
        ids=["length", "ids", "offset"],
    )
    def test_grows_when_it_must_and_doubles(self, call):
        layer, x = RotaryPosEmbedding(), random(1, 4)
        layer(np.zeros((16, 4)))
        near(call(layer, x)[-1:], rotated(x, [16]))
        (table,) = self.tables(layer)
        assert len(table) == 32
        same_bits(table[:, ::2], Rope(32, 4, dtype="float64").tables()["cos"])
        same_bits(table[:, 1::2], Rope(32, 4, dtype="float64").tables()["sin"])

    def test_growing_step_by_step_is_rare(self):
        layer, seen = RotaryPosEmbedding(), set()
        for i in range(300):
            layer.apply(np.zeros((1, 4)), np.zeros((1, 4)), offset=i)
            seen.add(len(self.tables(layer)[0]))
        assert len(seen) <= 10

    def test_built_at_max_seq_len(self):
        layer = RotaryPosEmbedding(max_seq_len=50)
        layer(np.zeros((3, 4)))
        (table,) = self.tables(layer)
        assert len(table) == 50
        x = random(50, 4)
        near(layer(x), rotated(x, range(50)))
        assert self.tables(layer)[0] is table

    @pytest.mark.parametrize(
        "call",
        [
            lambda layer: layer(np.zeros((51, 4))),
            lambda layer: layer(np.zeros((2, 4)), [0, 50]),
            lambda layer: layer.apply(np.zeros((3, 4)), np.zeros((1, 4)), offset=48),
            lambda layer: layer.apply(np.zeros((1, 4)), np.zeros((3, 4)), offset=48),
            lambda layer: layer.apply(np.zeros((0, 4)), np.zeros((0, 4)), offset=51),
        ],
    )
    @pytest.mark.parametrize("warm", [False, True])
    def test_past_max_seq_len(self, call, warm):
        layer = RotaryPosEmbedding(max_seq_len=50)
        if warm:
            layer(np.zeros((50, 4)))
        with pytest.raises(ValueError, match="stay below max_seq_len = 50"):
            call(layer)

    def test_a_limit_without_end_costs_nothing(self):
        layer, x = RotaryPosEmbedding(max_seq_len=2**40), random(3, 4)
        near(layer(x), rotated(x, range(3)))
        assert len(self.tables(layer)[0]) == 3

    def test_dims_and_dtypes_in_one_layer(self):
        layer = RotaryPosEmbedding()
        for _ in range(2):
            for dim in (4, 2, 8):
                for dtype in FLOATS:
                    for length in (3, 9):
                        x = random(length, dim, dtype=dtype)
                        near(layer(x), rotated(x, range(length)))
        kinds = {(rope.dim, rope.dtype) for rope in layer._cache.kept}
        assert kinds == {(dim, kind) for dim in (2, 4, 8) for kind in ("float64", "float32")}

    def test_bases_and_layouts_across_layers(self):
        layers = [RotaryPosEmbedding(base=b, interleaved=i) for b in (10000.0, 500000, 10) for i in (True, False)]
        for length in (3, 12, 5):
            for layer in layers:
                x = random(length, 6)
                near(layer(x), rotated(x, range(length), layer.interleaved, layer.base))

    def test_even_a_base_changed_by_hand_does_not_mix(self):
        layer, x = RotaryPosEmbedding(), random(5, 4)
        layer(x)
        layer.base = 50.0
        near(layer(x), rotated(x, range(5), base=50.0))

    def test_results_are_not_the_cache(self):
        layer = RotaryPosEmbedding()
        x = np.tile([1.0, 0.0], (4, 2))
        layer(x)[...] = 7
        near(layer(x), rotated(x, range(4)))
        with pytest.raises(ValueError, match="read-only"):
            self.tables(layer)[0][...] = 0

    @both_layouts
    @every_float
    def test_a_few_positions_far_out_make_no_table(self, interleaved, dtype):
        ids = [2**39, 5, 2**39 + 1, 2**40 - 1, 5, 2**39]
        layer, x = RotaryPosEmbedding(interleaved=interleaved), random(2, 6, 4, dtype=dtype)
        out = layer(x, ids)
        assert self.tables(layer)[0].size == 0
        # base 10000 and D = 4: the frequencies are 1 and 1/100; angles reduced exactly
        turn = 2 * PI_DIGITS
        expected = np.empty(x.shape)
        for row, position in enumerate(ids):
            for i, (a, b) in enumerate(pairs(4, interleaved)):
                angle = float((position * 10**60 // 100**i) % turn) / 1e60
                u, v = x[:, row, a].astype(float), x[:, row, b].astype(float)
                expected[:, row, a] = u * math.cos(angle) - v * math.sin(angle)
                expected[:, row, b] = v * math.cos(angle) + u * math.sin(angle)
        near(out, expected)
        near(layer.backward(out), x.astype(float))

    def test_a_run_far_out_is_the_engines_table(self):
        offset, length = 2**39 + 7, 200
        layer, x = RotaryPosEmbedding(), np.tile(np.array([1, 0], np.float32), (length, 4))
        q, _ = layer.apply(x, x[:1], offset=offset)
        tables = Rope(length, 8, offset=offset).tables()
        np.testing.assert_array_equal(q[:, ::2], tables["cos"])
        np.testing.assert_array_equal(q[:, 1::2], tables["sin"])
        same_bits(layer(x, np.arange(offset, offset + length)), q)
        assert self.tables(layer)[0].size == 0

    def test_many_positions_may_have_a_large_table(self, monkeypatch):
        monkeypatch.setattr("pecli.layers.rows._SMALL", 64)
        layer, x = RotaryPosEmbedding(), random(100, 2)
        near(layer(x[:1], [99]), rotated(x[:1], [99]))
        assert self.tables(layer)[0].size == 0
        layer(x)
        assert len(self.tables(layer)[0]) == 100
        layer(x[:1], [150])
        assert len(self.tables(layer)[0]) == 200

    def test_an_empty_batch_of_long_sequences_makes_no_table(self):
        assert RotaryPosEmbedding()(np.zeros((0, 2**38, 4))).shape == (0, 2**38, 4)


PI_DIGITS = 3141592653589793238462643383279502884197169399375105820974944
"""π · 10^60."""


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

    @pytest.mark.parametrize("bad", NOT_POSITIVE)
    def test_below_one(self, bad):
        with pytest.raises(ValueError, match="num_heads is"):
            AlibiBias(bad)
        with pytest.raises(ValueError, match="seq_len is"):
            AlibiBias(2).get_bias(bad)

    @pytest.mark.parametrize("bad", [*NOT_WHOLE, None])
    def test_not_whole(self, bad):
        with pytest.raises(KindError, match="num_heads is"):
            AlibiBias(bad)
        with pytest.raises(KindError, match="seq_len is"):
            AlibiBias(2).get_bias(bad)

    def test_other_dtypes(self):
        with pytest.raises(TypeError, match="dtype is int64"):
            AlibiBias(2).get_bias(2, np.int64)

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

    @pytest.mark.parametrize("shape", [(), (4,), (4, 4), (2, 3, 4), (1, 2, 4, 3)])
    def test_shape(self, shape):
        with pytest.raises(ValueError, match=r"scores is of shape .*they must be \(…, H, L, L\)"):
            AlibiBias(2)(np.zeros(shape))

    def test_heads(self):
        with pytest.raises(ValueError, match=r"scores is of shape \(1, 3, 4, 4\); this layer was made for H = 2"):
            AlibiBias(2)(np.zeros((1, 3, 4, 4)))
