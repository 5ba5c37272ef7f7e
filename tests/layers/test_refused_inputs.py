"""What layers refuse: one table of calls, each with the beginning of its error."""

from __future__ import annotations

import math
import re

import ml_dtypes
import numpy as np
import pytest

from pecli.engine.schemes.rope import Rope
from pecli.errors import KindError, ParameterError
from pecli.layers import (
    AlibiBias,
    LearnedPosEmbedding,
    RotaryPosEmbedding,
    SinusoidalPosEmbedding,
    sinusoidal_pos_embedding,
)
from pecli.models.find import load_model
from tests.layers.test_every_layer import every_layer

X = np.zeros((2, 4))
NOT_FLOATS = [np.int64, np.uint8, np.bool_, np.complex64, np.dtype("U1"), object, ml_dtypes.float8_e5m2]
NOT_WHOLE = [True, 4.0, "4", np.float64(4), np.True_, [4]]
NOT_POSITIVE = [0, -1, np.int64(-3)]
SIZES = {
    "seq_len": [
        lambda size: sinusoidal_pos_embedding(size, 2),
        lambda size: SinusoidalPosEmbedding(embed_dim=4).get_encoding(size),
        lambda size: AlibiBias(2).get_bias(size),
    ],
    "embed_dim": [
        lambda size: sinusoidal_pos_embedding(2, size),
        lambda size: SinusoidalPosEmbedding(embed_dim=size),
        lambda size: LearnedPosEmbedding(2, size),
        lambda size: RotaryPosEmbedding(size),
    ],
    "max_len": [lambda size: LearnedPosEmbedding(size, 2)],
    "max_seq_len": [lambda size: RotaryPosEmbedding(max_seq_len=size)],
    "num_heads": [AlibiBias],
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_positive_whole_numbers(name):
    for call in SIZES[name]:
        for bad in NOT_POSITIVE:
            with pytest.raises(ParameterError, match=f"^{name} is {bad}"):
                call(bad)
        for bad in NOT_WHOLE:
            with pytest.raises(KindError, match=f"^{name} is"):
                call(bad)


FIXED = SinusoidalPosEmbedding(seq_len=5, embed_dim=4)
LEARNED = LearnedPosEmbedding(6, 2)
ROTARY, OF_FOUR, SHORT = RotaryPosEmbedding(), RotaryPosEmbedding(4), RotaryPosEmbedding(max_seq_len=50)
BELOW = "stay below max_seq_len = 50"
APPLIED = RotaryPosEmbedding()
APPLIED.apply(X, X)
VALUES = [
    *(
        ("dtype is", lambda dtype=dtype: sinusoidal_pos_embedding(2, 2, dtype))
        for dtype in [np.int32, "int8", "bool", complex, "no such", object, np.longdouble, "U3", 5, ""]
    ),
    ("dtype is 'int64'", lambda: AlibiBias(2).get_bias(2, np.int64)),
    ("seq_len is not set", lambda: SinusoidalPosEmbedding(embed_dim=4).get_encoding()),
    ("embed_dim is not set", lambda: SinusoidalPosEmbedding(seq_len=4).get_encoding(4)),
    ("D, the last axis of x, is 0", lambda: SinusoidalPosEmbedding()(np.zeros((3, 0)))),
    ("x is of shape (4, 4); this layer was made for L = 5", lambda: FIXED(np.zeros((4, 4)))),
    ("x is of shape (5, 3); this layer was made for D = 4", lambda: FIXED(np.zeros((5, 3)))),
    *((f"x is of shape {s}; it must be (L, D) or", lambda s=s: FIXED(np.zeros(s))) for s in [(), (4,), (1, 2, 3, 4)]),
    *((f"x is of shape {s}; it must be (L, D) or", lambda s=s: LEARNED(np.zeros(s))) for s in [(), (2,), (1, 1, 2, 2)]),
    ("x is of shape (2, 3); this layer was made for D = 2", lambda: LEARNED(np.zeros((2, 3)))),
    *(
        (f"offset is {at}", lambda rows=rows, at=at: LEARNED(np.zeros((rows, 2)), at))
        for rows, at in [(7, 0), (1, 6), (3, 4), (0, 7), (1, 2**41), (2, -1)]
    ),
    *((f"seed is {seed}", lambda seed=seed: LearnedPosEmbedding(2, 2, seed=seed)) for seed in (-1, 2**64)),
    *(
        (f"table is of shape {s}; max_len and embed_dim", lambda s=s: LearnedPosEmbedding(6, 2, np.zeros(s)))
        for s in [(2, 6), (6, 3), (5, 2), (12,), (1, 6, 2)]
    ),
    *((f"x is of shape {s}; it must be (…, L, D)", lambda s=s: ROTARY(np.zeros(s))) for s in [(), (4,)]),
    ("D, the last axis of x, is 0; it must be an even", lambda: ROTARY(np.zeros((2, 0)))),
    *((f"x is of shape (2, {d}); channels rotate in pairs", lambda d=d: ROTARY(np.zeros((2, d)))) for d in (1, 7)),
    *(("embed_dim is ", lambda dims=dims: LearnedPosEmbedding(6, **dims)) for dims in ({}, {"embed_dim": 2, "dim": 2})),
    ("embed_dim is 3", lambda: RotaryPosEmbedding(3)),
    ("x is of shape (2, 6); this layer was made for D = 4", lambda: OF_FOUR(np.zeros((2, 6)))),
    *(
        ("position_ids is of shape", lambda ids=ids: ROTARY(X, ids))
        for ids in [[0], [0, 1, 2], [[0, 1]], [[0], [1]], 0, []]
    ),
    ("position_ids is a list of lists of unlike lengths", lambda: ROTARY(X, [[0], [1, 2]])),
    ("position_ids is -1 at index 1; positions must be 0 or more", lambda: ROTARY(X, [0, -1])),
    (f"position_ids is {2**40 + 1} at index 0; positions must be 0 or more", lambda: ROTARY(X, [2**40 + 1, 0])),
    (f"position_ids is {2**64 - 1} at index 1", lambda: ROTARY(X, np.array([0, 2**64 - 1], np.uint64))),
    *(
        ("base is ", lambda base=base: RotaryPosEmbedding(base=base))
        for base in (0, -1.0, math.nan, math.inf, -math.inf, 1e-30, None)
    ),
    ("k is of shape (3, 6); q is of shape (3, 4)", lambda: ROTARY.apply(np.zeros((3, 4)), np.zeros((3, 6)))),
    ("q is of shape (4,)", lambda: OF_FOUR.apply(X[0], X)),
    ("k is of shape (2, 3)", lambda: OF_FOUR.apply(X, X[:, :3])),
    *(("", lambda at=at: ROTARY.apply(X, X, at)) for at in (-1, 2**40, 2**41)),
    ("grad_k is of shape (1, 4)", lambda: APPLIED.apply_backward(X, X[:1])),
    ("x is of shape (51, 4); positions must be 0 or more and " + BELOW, lambda: SHORT(np.zeros((51, 4)))),
    ("position_ids is 50 at index 1; positions must be 0 or more and " + BELOW, lambda: SHORT(X, [0, 50])),
    ("q is of shape (3, 4) at offset 48", lambda: SHORT.apply(np.zeros((3, 4)), X, offset=48)),
    ("k is of shape (3, 4) at offset 48", lambda: SHORT.apply(X, np.zeros((3, 4)), offset=48)),
    ("q is of shape (0, 4) at offset 51", lambda: SHORT.apply(np.zeros((0, 4)), np.zeros((0, 4)), offset=51)),
    ("embed_dim is 8; the rope is for D = 16", lambda: RotaryPosEmbedding(8, rope=Rope(4, 16))),
    ("rope is ", lambda: RotaryPosEmbedding(rope=load_model("deepseek-v3"))),
    *(
        (f"scores is of shape {s}; they must be (…, H, L, L)", lambda s=s: AlibiBias(2)(np.zeros(s)))
        for s in [(), (4,), (4, 4), (2, 3, 4), (1, 2, 4, 3)]
    ),
    ("scores is of shape (1, 3, 4, 4); this layer was made for H = 2", lambda: AlibiBias(2)(np.zeros((1, 3, 4, 4)))),
    *(
        ("grad is without a call; gradients belong to the last call; call", lambda make=make: make().backward(X))
        for make in (SinusoidalPosEmbedding, lambda: LearnedPosEmbedding(6, 4), RotaryPosEmbedding)
    ),
]
KINDS = [
    *(("offset is", lambda at=at: LEARNED(np.zeros((2, 2)), at)) for at in (True, 1.0, "1", None)),
    *(("offset is", lambda at=at: ROTARY.apply(X, X, at)) for at in (True, 1.0, "1", None)),
    ("seed is", lambda: LearnedPosEmbedding(2, 2, seed=0.5)),
    *(("table is of dtype", lambda d=d: LearnedPosEmbedding(6, 2, np.zeros((6, 2), d))) for d in NOT_FLOATS),
    *(
        ("position_ids is of dtype", lambda ids=ids: ROTARY(X, ids))
        for ids in [[0.0, 1.0], [True, False], ["0", "1"], np.zeros(2, complex), [2**70, 0], [None, 0]]
    ),
    *(("base is", lambda base=base: RotaryPosEmbedding(base=base)) for base in ("10000", True, [1.0])),
    *(("interleaved is", lambda flag=flag: RotaryPosEmbedding(interleaved=flag)) for flag in (1, 0, None, "yes")),
    ("q is of dtype int64", lambda: ROTARY.apply(X.astype(int), X)),
    ("k is of dtype int64", lambda: ROTARY.apply(X, X.astype(int))),
    ("grad_q is of dtype int64", lambda: APPLIED.apply_backward(X.astype(int), X)),
    ("rope is 'llama'; it must be a Rope, a model", lambda: RotaryPosEmbedding(rope="llama")),
]


@pytest.mark.parametrize(("error", "calls"), [(ParameterError, VALUES), (KindError, KINDS)])
def test_refused_calls(error, calls):
    for said, call in calls:
        with pytest.raises(error, match="^" + re.escape(said)):
            call()


@every_layer
def test_inputs_and_gradients_that_are_not_floating(make, shape):
    layer = make()
    layer(np.zeros(shape))
    for dtype in NOT_FLOATS:
        with pytest.raises(KindError, match=r"it must be float64, float32, float16 or bfloat16; convert"):
            layer(np.zeros(shape, dtype))
        with pytest.raises(KindError, match="grad is of dtype"):
            layer.backward(np.zeros(shape, dtype))
    with pytest.raises(ParameterError, match="unlike lengths"):
        layer([[1.0, 2.0], [3.0]])
    with pytest.raises(TypeError, match="is a masked array; its hidden values would count"):
        layer(np.ma.masked_greater(np.ones(shape), 0))
