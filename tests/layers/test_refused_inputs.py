"""What layers refuse: one table of calls, each with the beginning of its error."""

import ml_dtypes
import numpy as np
import pytest

from pecli import layers
from pecli.errors import KindError, ParameterError
from tests.layers.test_every_layer import every_layer

NOT_FLOATS = [np.int64, np.uint8, np.bool_, np.complex64, np.dtype("U1"), object, ml_dtypes.float8_e5m2]
NOT_WHOLE = [True, 4.0, "4", np.float64(4), np.True_, [4]]
NOT_POSITIVE = [0, -1, np.int64(-3)]
SIZES = {
    "seq_len": [lambda size: layers.sinusoidal_pos_embedding(size, 2), lambda size: layers.AlibiBias(2).get_bias(size),
        lambda size: layers.SinusoidalPosEmbedding(embed_dim=4).get_encoding(size)],
    "embed_dim": [lambda size: layers.sinusoidal_pos_embedding(2, size), layers.RotaryPosEmbedding,
        lambda size: layers.SinusoidalPosEmbedding(embed_dim=size), lambda size: layers.LearnedPosEmbedding(2, size)],
    "max_len": [lambda size: layers.LearnedPosEmbedding(size, 2)],
    "max_seq_len": [lambda size: layers.RotaryPosEmbedding(max_seq_len=size)],
    "num_heads": [layers.AlibiBias],
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_positive_whole_numbers(name):
    for call in SIZES[name]:
        for bad in NOT_POSITIVE:
            with pytest.raises(ParameterError, match=f"^{name} is {bad}"):
                call(bad)
        for bad in NOT_WHOLE:
            with pytest.raises(KindError, match=f"^{name} is"):
                call(bad)


@every_layer
def test_inputs_and_gradients_that_are_not_floating(make, shape):
    layer = make()
    layer(np.zeros(shape))
    for dtype in NOT_FLOATS:
        advice = "$" if np.dtype(dtype).kind == "c" else "; convert"
        with pytest.raises(KindError, match=rf"it must be float64, float32, float16 or bfloat16{advice}"):
            layer(np.zeros(shape, dtype))
        with pytest.raises(KindError, match="grad is of dtype"):
            layer.backward(np.zeros(shape, dtype))
    with pytest.raises(ParameterError, match="unlike lengths"):
        layer([[1.0, 2.0], [3.0]])
    with pytest.raises(TypeError, match="is a masked array; its hidden values would count"):
        layer(np.ma.masked_greater(np.ones(shape), 0))
