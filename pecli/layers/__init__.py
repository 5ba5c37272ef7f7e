"""The layers a model would use, over exact tables: NumPy in, NumPy out.

Every layer keeps the dtype of its input, leaves the input untouched, returns new arrays, and has `backward(grad)` for
its last call. float64 and float32 are computed as they are; float16 and bfloat16 in float32, rounded once at the end.
"""

from pecli.layers.additive import LearnedPosEmbedding, SinusoidalPosEmbedding, sinusoidal_pos_embedding
from pecli.layers.rotary import RotaryPosEmbedding
from pecli.layers.score_biases import AlibiBias, DebertaRelativeBias, SwinRelativeBias, T5RelativeBias

__all__ = [
    "AlibiBias",
    "DebertaRelativeBias",
    "LearnedPosEmbedding",
    "RotaryPosEmbedding",
    "SinusoidalPosEmbedding",
    "SwinRelativeBias",
    "T5RelativeBias",
    "sinusoidal_pos_embedding",
]
