"""The layers a model would use, over exact tables: NumPy in, NumPy out.

Every layer keeps the dtype of its input, leaves the input untouched, returns new arrays, and has `backward(grad)` for
its last call. float64 and float32 are computed as they are; float16 and bfloat16 in float32, rounded once at the end.
"""

from pecli.layers.additive import AlibiBias as AlibiBias
from pecli.layers.additive import LearnedPosEmbedding as LearnedPosEmbedding
from pecli.layers.additive import SinusoidalPosEmbedding as SinusoidalPosEmbedding
from pecli.layers.additive import sinusoidal_pos_embedding as sinusoidal_pos_embedding
from pecli.layers.rotary import RotaryPosEmbedding as RotaryPosEmbedding
