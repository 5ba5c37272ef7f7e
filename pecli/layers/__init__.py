"""The layers a model would use, over exact tables: NumPy in, NumPy out.

Every layer keeps the dtype of its input, leaves the input untouched, returns new arrays, and has `backward(grad)` for
its last call. float64 and float32 are computed as they are; float16 and bfloat16 in float32, rounded once at the end.
"""

from pecli.layers.additive import LearnedPosEmbedding, SinusoidalPosEmbedding, sinusoidal_pos_embedding
from pecli.layers.alibi import AlibiBias
from pecli.layers.rotary import RotaryPosEmbedding

__all__ = [
    "AlibiBias",
    "LearnedPosEmbedding",
    "RotaryPosEmbedding",
    "SinusoidalPosEmbedding",
    "sinusoidal_pos_embedding",
]
