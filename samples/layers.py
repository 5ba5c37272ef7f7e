"""The layers of a model in NumPy: add a sinusoidal table, rotate queries and keys, bias the scores."""

import numpy as np

import pecli

rng = np.random.default_rng(0)
x = rng.standard_normal((2, 16, 64)).astype(np.float32)

added = pecli.SinusoidalPosEmbedding()(x)
print("added     ", added.shape, added.dtype)

rotary = pecli.RotaryPosEmbedding(interleaved=False, base=500000.0)
q, k = rng.standard_normal((2, 4, 16, 64)).astype(np.float32)
early = np.einsum("hid,hjd->hij", *rotary.apply(q, k))
late = np.einsum("hid,hjd->hij", *rotary.apply(q, k, offset=100_000))
print(
    "rotated   ", "scores depend on the distance alone:", bool(np.allclose(early, late, atol=1e-4))
)

biased = early + pecli.AlibiBias(4).get_bias(16)
print("biased    ", biased.shape)
