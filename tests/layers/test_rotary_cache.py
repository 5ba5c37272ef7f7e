"""The cosines and sines that a rotary layer keeps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pecli.engine.schemes.rope import Rope
from pecli.layers import (
    RotaryPosEmbedding,
)
from tests.layers.formulas import FLOATS, both_layouts, every_float, near, pairs, random, rotated, same_bits

PI_DIGITS = 3141592653589793238462643383279502884197169399375105820974944
"""π · 10^60."""


class TestRotaryCache:
    def tables(self, layer):
        return [factors.kept for factors in layer._cache.values()]

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
        true = Rope(32, 4, dtype="float64").tables()
        np.testing.assert_allclose([table.real, table.imag], [true["cos"], true["sin"]], rtol=0, atol=2**-53)

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
        kinds = {(rope.dim, dtype) for rope, dtype in layer._cache}
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
        assert len(self.tables(layer)[0]) == length
        layer(x)
        assert len(self.tables(layer)[0]) == length  # the rows from 0 on took its place

    def test_many_positions_may_have_a_large_table(self, monkeypatch):
        monkeypatch.setattr("pecli.engine.schemes.rotation_factors.ALWAYS_CACHED_BYTES", 64)
        layer, x = RotaryPosEmbedding(), random(100, 2)
        near(layer(x[:2], [9, 99]), rotated(x[:2], [9, 99]))
        assert self.tables(layer)[0].size == 0
        layer(x)
        assert len(self.tables(layer)[0]) == 100

    def test_an_empty_batch_of_long_sequences_makes_no_table(self):
        assert RotaryPosEmbedding()(np.zeros((0, 2**38, 4))).shape == (0, 2**38, 4)
