"""The layer that rotates queries and keys by position: (u, v) → (u cos − v sin, v cos + u sin).

The angle of pair i at position p is p · 10000^(-2i/dim). Expected values are this formula in
float64 (`rotated` in formulas.py), the tables of Rope, which are held against arbitrary precision
elsewhere, and finite differences for gradients. Pairs are channels (0, 1), (2, 3), … if
interleaved, else (i, i + dim/2).
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pecli
from pecli.engine.schemes.rope import Rope
from pecli.layers import RotaryPosEmbedding
from tests.layers.formulas import (
    BF16,
    assert_near,
    assert_same_bits,
    both_layouts,
    every_float,
    gradient,
    pairs,
    random_uniform,
    rotated,
)


class TestRotary:
    """Calls of the layer: positions from 0 on, or position ids."""

    @both_layouts
    @every_float
    @pytest.mark.parametrize("shape", [(5, 2), (5, 6), (2, 5, 4), (2, 1, 3, 5, 8), (1, 4)])
    @pytest.mark.sample(10)
    def test_the_rotary_layer_rotates_as_the_closed_form(self, interleaved, dtype, shape):
        """`rotated` is (u, v) → (u cos − v sin, v cos + u sin) with the angles
        position · 10000^(-2i/dim), in float64, for interleaved pairs or halves. The positions of the
        last axis but one are 0, 1, 2, …
        """
        x = random_uniform(*shape, dtype=dtype)
        result = RotaryPosEmbedding(interleaved=interleaved)(x)

        assert_near(result, rotated(x, range(shape[-2]), interleaved))

    @both_layouts
    @pytest.mark.parametrize("dtype", ["float64", "float32"])
    def test_the_rotary_layer_turns_unit_vectors_into_the_exact_table(self, interleaved, dtype):
        """Every pair is (1, 0), which becomes (cos, sin). Float32 has exactly the bits of Rope's table,
        float64 may be off by 2^-53.
        """
        dim, length = 8, 300
        x = np.zeros((length, dim), dtype)
        for a, _ in pairs(dim, interleaved):
            x[:, a] = 1
        out = RotaryPosEmbedding(interleaved=interleaved)(x)
        tables = Rope(length, dim, dtype=dtype).tables()
        for i, (a, b) in enumerate(pairs(dim, interleaved)):
            bound = 0 if dtype == "float32" else 2**-53
            np.testing.assert_allclose(out[:, a], tables["cos"][:, i], rtol=0, atol=bound)
            np.testing.assert_allclose(out[:, b], tables["sin"][:, i], rtol=0, atol=bound)

    @both_layouts
    @given(ids=st.lists(st.integers(0, 500), min_size=1, max_size=12))
    @pytest.mark.sample(1)
    def test_position_ids_choose_the_rows_of_a_rotation(self, interleaved, ids):
        """Up to 12 random ids, also as arrays of unsigned and signed integers. `rotated` is the closed
        form in float64, at these positions.
        """
        x = random_uniform(2, len(ids), 6)
        layer = RotaryPosEmbedding(interleaved=interleaved)
        assert_near(layer(x, ids), rotated(x, ids, interleaved))

        for dtype in (np.uint16, np.int32, np.uint64):
            assert_same_bits(layer(x, np.array(ids, dtype)), layer(x, ids))

    def test_position_ids_choose_points_of_a_grid(self):
        """Points 0 and 60000 of a grid of 256 × 256 are rotated by their ids, which must be what
        rotating all 65536 points of the grid does to these two.
        """
        layer = RotaryPosEmbedding(rope=Rope(dim=128, grid=(256, 256), axes=(64, 64)))
        ids = [0, 60000]
        whole_grid = layer(np.ones((65536, 128)))

        np.testing.assert_array_equal(layer(np.ones((2, 128)), ids), whole_grid[ids])

    def test_the_first_axis_of_a_grid_is_the_row_of_a_point(self):
        """Point 60000 of a grid of 256 × 256 is in row 60000 // 256 = 234. The first 64 of 128
        channels follow the row: their first pair is rotated as at position 234 of a text.
        """
        layer = RotaryPosEmbedding(rope=Rope(dim=128, grid=(256, 256), axes=(64, 64)))
        found = layer(np.ones((1, 128)), [60000])
        expected = rotated(np.ones((1, 64)), [60000 // 256], interleaved=False)

        assert found[0, 0] == pytest.approx(expected[0, 0])

    def test_position_two_to_the_40_is_rotated_by_id_as_by_offset(self):
        """2^40 is the last position that pecli computes; two rows have the positions 2^40 − 1 and 2^40,
        as ids or from the offset 2^40 − 1 on.
        """
        x = random_uniform(2, 4)
        by_id = RotaryPosEmbedding()(x, [2**40 - 1, 2**40])
        by_offset, _ = RotaryPosEmbedding().apply(x, x, 2**40 - 1)

        np.testing.assert_array_equal(by_id, by_offset)

    def test_position_ids_are_copied_for_the_gradient(self):
        """The gradient of a rotation is the rotation by the negative angle, here of positions 3 and 5.
        The caller overwrites its array of ids before `backward`, which must rotate by −3 and −5 all
        the same.
        """
        layer, ids = RotaryPosEmbedding(), np.array([3, 5])
        grad = random_uniform(2, 4)
        layer(np.zeros((2, 4)), ids)
        ids[...] = 0

        assert_near(layer.backward(grad), rotated(grad, [3, 5], sign=-1))


class TestRotaryApply:
    """`apply` rotates queries and keys together, from an offset on."""

    @both_layouts
    @pytest.mark.parametrize("offset", [0, 3, np.int64(1000)])
    def test_apply_rotates_queries_and_keys_from_the_offset_on(self, interleaved, offset):
        """Inputs are (batch, heads, positions, channels): 4 heads of queries and 2 of keys, with 5
        positions from `offset` on. `rotated` is the closed form in float64.
        """
        q = random_uniform(2, 4, 5, 6)
        k = random_uniform(2, 2, 5, 6, seed=1)
        layer = RotaryPosEmbedding(interleaved=interleaved)
        rotated_q, rotated_k = layer.apply(q, k, offset=offset)
        positions = range(offset, offset + 5)

        assert_near(rotated_q, rotated(q, positions, interleaved))
        assert_near(rotated_k, rotated(k, positions, interleaved))

    def test_queries_and_keys_may_differ_in_dtype_and_length(self):
        """One query in float64 and four keys in bfloat16 from position 2 on; without an offset they
        begin at 0. `rotated` is the closed form in float64.
        """
        q = random_uniform(1, 6, dtype=np.float64)
        k = random_uniform(4, 6, dtype=BF16)
        new_q, new_k = RotaryPosEmbedding().apply(q, k, 2)

        assert_near(new_q, rotated(q, [2]))
        assert_near(new_k, rotated(k, range(2, 6)))
        assert new_q.dtype == np.float64
        assert new_k.dtype == BF16
        assert_near(RotaryPosEmbedding().apply(q, k)[0], rotated(q, [0]))

    @both_layouts
    @pytest.mark.sample(1)
    def test_gradients_of_apply_are_those_of_finite_differences(self, interleaved):
        """The loss is Σ dq · q′ + Σ dk · k′, where q′ and k′ are q and k rotated from position 7 on;
        `gradient` takes central differences. A call of the layer in between must not matter.
        """
        layer = RotaryPosEmbedding(interleaved=interleaved)
        q, k, dq, dk = (
            random_uniform(*shape, seed=s)
            for s, shape in enumerate([(2, 3, 4), (3, 4), (2, 3, 4), (3, 4)])
        )
        layer.apply(q, k, offset=7)
        layer(random_uniform(1, 2))
        grad_q, grad_k = layer.apply_backward(dq, dk)

        def loss(q, k):
            new_q, new_k = RotaryPosEmbedding(interleaved=interleaved).apply(q, k, offset=7)
            return (new_q * dq).sum() + (new_k * dk).sum()

        np.testing.assert_allclose(grad_q, gradient(lambda q: loss(q, k), q), atol=1e-8)
        np.testing.assert_allclose(grad_k, gradient(lambda k: loss(q, k), k), atol=1e-8)

    def test_backward_follows_the_last_call_and_apply_backward_the_last_apply(self):
        """The gradient of a rotation is the rotation by the negative angle (`rotated` with sign −1, the
        closed form): positions 4, 5, 6 for the call and 1, 2, 3 for `apply`.
        """
        layer, x = RotaryPosEmbedding(), random_uniform(3, 4)
        layer(x, [4, 5, 6])
        layer.apply(x, x, offset=1)

        assert_near(layer.backward(x), rotated(x, [4, 5, 6], sign=-1))
        assert_near(layer.apply_backward(x, x)[1], rotated(x, [1, 2, 3], sign=-1))


SCALED = {
    "llama3": Rope(
        4, 16, base=5e5, scaling="llama3", factor=8.0, original_max_position_embeddings=64, low_freq_factor=1.0,
        high_freq_factor=4.0,
    ),
    "yarn, with an attention factor": Rope(4, 16, scaling="yarn", factor=4.0, original_max_position_embeddings=64),
    "partial": Rope(4, 16, partial_rotary_factor=0.5),
    "proportional": Rope(4, 16, scaling="proportional", partial_rotary_factor=0.5),
    "dynamic": Rope(4, 16, scaling="dynamic", factor=4.0, max_position_embeddings=8),
}  # fmt: skip


class TestGivenRope:
    """A layer made from a scheme or a model, with its scaling and layout."""

    @both_layouts
    @pytest.mark.parametrize("name", SCALED)
    def test_the_rotary_layer_rotates_by_the_tables_of_a_given_scheme(self, name, interleaved):
        """Each case of SCALED is a scheme with a scaling or a partial rotation. The rotation is
        written out with its float64 tables; channels beyond the rotary dimension stay. For dynamic
        scaling the length is max_seq_len.
        """
        x = random_uniform(2, 40, 16, dtype=np.float64)
        rope = SCALED[name]
        layer = RotaryPosEmbedding(rope=rope, interleaved=interleaved, max_seq_len=40)
        length = {"length": 40} if name == "dynamic" else {}
        tables = replace(rope, seq_len=40, dtype="float64", **length).tables()
        d = rope.rotary_dim
        if interleaved:
            first, second = slice(0, d, 2), slice(1, d, 2)
        else:
            first, second = slice(0, d // 2), slice(d // 2, d)
        expected = x.copy()
        expected[..., first] = x[..., first] * tables["cos"] - x[..., second] * tables["sin"]
        expected[..., second] = x[..., second] * tables["cos"] + x[..., first] * tables["sin"]

        np.testing.assert_allclose(layer(x), expected, rtol=1e-14, atol=1e-14)
        np.testing.assert_array_equal(layer(x)[..., d:], x[..., d:])

        # The gradient is the transpose of a linear map: ⟨layer(x), g⟩ = ⟨x, backward(g)⟩.
        grad = random_uniform(2, 40, 16, dtype=np.float64)
        assert np.sum(layer(x) * grad) == pytest.approx(np.sum(x * layer.backward(grad)), rel=1e-12)

    @both_layouts
    def test_a_layer_rotates_the_pairs_that_the_columns_of_a_given_scheme_state(self, interleaved):
        """A Rope with a column per channel is for pairs (2i, 2i + 1) or (i, i + 2) of 4 channels. At
        position 1 the first pair turns by 1 radian, in whichever channel its second member is.
        """
        layout = "interleaved" if interleaved else "halves"
        layer = RotaryPosEmbedding(rope=Rope(4, 4, layout=layout))
        x = np.array([[1.0, 0.0, 0.0, 0.0]])
        second_channel = 1 if interleaved else 2

        assert layer(x, [1])[0, second_channel] == pytest.approx(np.sin(1.0))

    def test_a_layer_made_from_a_model_has_its_layout_dim_and_base(self):
        """Llama 3.1 rotates halves of 128 channels with base 500000, by its config; the rotation
        is written out with the tables of its scheme.
        """
        from pecli.models.find import load_model

        layer = RotaryPosEmbedding(rope=load_model("llama-3.1-8b"))

        assert layer.embed_dim == 128
        assert layer.interleaved is False
        assert layer.base == 5e5

        x = random_uniform(1, 300, 128, dtype=np.float64)
        tables = load_model("llama-3.1-8b").one().rope(300, dtype="float64").tables()
        first_half = x[..., :64] * tables["cos"] - x[..., 64:] * tables["sin"]

        np.testing.assert_allclose(layer(x)[..., :64], first_half, rtol=1e-13, atol=1e-13)

    def test_a_layer_made_from_a_model_takes_whole_heads_of_which_some_channels_rotate(self):
        """By GPT-J's config, heads have 256 channels, of which 64 rotate: inputs have 256."""
        from pecli.models.find import load_model

        assert RotaryPosEmbedding(rope=load_model("gpt-j-6b")).embed_dim == 256


class TestRotaryCache:
    """The layer keeps a table of cos + i·sin for positions from 0 on, and lengthens it as needed."""

    def tables(self, layer):
        return [factors.kept for factors in layer._cache.values()]

    def test_the_cached_table_is_reused_while_it_covers_the_call(self):
        """The layer keeps a table of cos + i·sin (`self.tables`). One of 16 rows serves all calls with
        positions below 16; writing 7 into a result does not change it.
        """
        layer = RotaryPosEmbedding()
        layer(np.zeros((16, 4)))
        (table,) = self.tables(layer)
        layer(np.zeros((16, 4)))
        layer(np.zeros((2, 3, 4)))
        layer(np.zeros((2, 4)), [15, 0])
        layer.apply(np.zeros((4, 4)), np.zeros((2, 4)), offset=12)
        layer.backward(np.zeros((2, 4)))
        layer(np.zeros((16, 4)))[...] = 7

        assert self.tables(layer)[0] is table
        assert len(table) == 16
        assert not table.flags.writeable

    @pytest.mark.parametrize(
        "rotate_at_16",
        [
            lambda layer, x: layer(np.concatenate([x] * 17)),
            lambda layer, x: layer(x, [16]),
            lambda layer, x: layer.apply(x, x, offset=16)[0],
        ],
        ids=["17 positions", "by its id", "by offset"],
    )
    def test_the_cached_table_doubles_when_it_must_grow(self, rotate_at_16):
        """The layer keeps a table of cos + i·sin (`self.tables`). Position 16 is beyond its 16 rows: it
        then has 32, those of Rope in float64. `rotated` is the closed form in float64.
        """
        x = random_uniform(1, 4)
        exact = Rope(32, 4, dtype="float64").tables()
        layer = RotaryPosEmbedding()
        layer(np.zeros((16, 4)))
        result = rotate_at_16(layer, x)
        (table,) = self.tables(layer)

        assert_near(result[-1:], rotated(x, [16]))
        assert len(table) == 32
        np.testing.assert_allclose(
            [table.real, table.imag], [exact["cos"], exact["sin"]], rtol=0, atol=2**-53
        )

    def test_a_few_positions_far_out_make_no_table(self):
        """A table up to 2^40 would not fit into memory, so none is kept (`self.tables`); each row is as
        if it were rotated by itself, from its id on.
        """
        ids = [2**39, 5, 2**40 - 1, 5]
        x = random_uniform(2, 4, 4)
        layer = RotaryPosEmbedding()
        result = layer(x, ids)

        assert self.tables(layer)[0].size == 0

        for row, position in enumerate(ids):
            one_row = x[:, row : row + 1]
            rotated_row, _ = RotaryPosEmbedding().apply(one_row, one_row, offset=position)
            assert_near(result[:, row], rotated_row[:, 0])

    def test_backward_undoes_a_rotation_far_out(self):
        """The gradient of a rotation is its inverse: `backward` of a rotated input is the input, at
        positions up to 2^40.
        """
        layer, x = RotaryPosEmbedding(), random_uniform(2, 4, 4)
        assert_near(layer.backward(layer(x, [2**39, 5, 2**40 - 1, 5])), x)

    def test_the_cached_table_is_built_at_max_seq_len(self):
        """The first call has 3 positions, and the table that the layer keeps (`self.tables`) 50 rows,
        which serve a call of 50. `rotated` is the closed form in float64.
        """
        layer = RotaryPosEmbedding(max_seq_len=50)
        layer(np.zeros((3, 4)))
        (table,) = self.tables(layer)

        assert len(table) == 50

        x = random_uniform(50, 4)
        assert_near(layer(x), rotated(x, range(50)))
        assert self.tables(layer)[0] is table

    def test_a_table_is_not_built_at_a_max_seq_len_that_does_not_fit_into_memory(self):
        """2^40 rows would not fit: the table that the layer keeps (`self.tables`) has the 50 rows that
        were needed. An empty batch of 2^38 positions needs none.
        """
        x = random_uniform(50, 4)
        layer = RotaryPosEmbedding(max_seq_len=2**40)
        assert_near(layer(x), rotated(x, range(50)))
        assert len(self.tables(layer)[0]) == 50
        assert layer(np.zeros((0, 2**38, 4))).shape == (0, 2**38, 4)

    def test_a_run_of_positions_far_out_is_rotated_by_the_engines_table(self):
        """(1, 0) becomes (cos, sin), exactly as in the float32 tables of Rope. The layer keeps no
        table, which would have to begin at position 0.
        """
        offset, length = 2**39 + 7, 200
        layer = RotaryPosEmbedding()
        x = np.tile(np.array([1, 0], np.float32), (length, 4))
        q, _ = layer.apply(x, x[:1], offset=offset)
        tables = Rope(length, 8, offset=offset).tables()

        np.testing.assert_array_equal(q[:, ::2], tables["cos"])
        np.testing.assert_array_equal(q[:, 1::2], tables["sin"])
        assert_same_bits(layer(x, np.arange(offset, offset + length)), q)
        assert len(self.tables(layer)[0]) == 0


def test_a_repr_of_a_layer_has_the_scheme_that_it_was_made_from() -> None:
    """Both texts are Python code that makes the object again; defaults are left out."""
    rope = pecli.Rope(8, 64, scaling="linear", factor=2.0)
    assert (
        repr(pecli.RotaryPosEmbedding(rope=rope))
        == f"RotaryPosEmbedding(embed_dim=64, rope={rope!r})"
    )
    assert repr(rope) == "Rope(seq_len=8, dim=64, scaling='linear', factor=2.0)"
