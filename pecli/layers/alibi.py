"""ALiBi, as a layer that adds biases by distance to attention scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pecli.engine.schemes.alibi import Alibi
from pecli.layers.input_checks import Layer, add_rounded, compute_dtype, float_name, floating, gradient, shape_error

_HEADS, _SEQ_LEN = (Alibi.parameters()[name] for name in ("heads", "seq_len"))


class AlibiBias(Layer):
    """Attention with linear biases (Press et al., 2022, https://arxiv.org/abs/2108.12409).

    The bias of query i and key j is −slope·|i − j|, the same in both directions; a causal mask is not part of it.

    Args:
        num_heads: attention heads; slopes follow the paper's rule, also where heads are not a power of two.

    >>> layer = AlibiBias(2)
    >>> layer.slopes.tolist()
    [0.0625, 0.00390625]
    >>> layer.get_bias(3)[0].tolist()
    [[0.0, -0.0625, -0.125], [-0.0625, 0.0, -0.0625], [-0.125, -0.0625, 0.0]]
    >>> layer(np.ones((1, 2, 3, 3)))[0, 0, 0].tolist()
    [1.0, 0.9375, 0.875]
    """

    def __init__(self, num_heads: int) -> None:
        self.num_heads: int = _HEADS.check("num_heads", num_heads)

    @property
    def slopes(self) -> NDArray[np.float32]:
        """The slope of each head, (num_heads,), as a new array."""
        return Alibi(self.num_heads).tables()["slopes"].astype(np.float32, copy=False)

    def get_bias(self, seq_len: int, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """The bias of that many queries and keys, (num_heads, seq_len, seq_len), as a new array; float32 by default."""
        seq_len = _SEQ_LEN.check("seq_len", seq_len)
        return Alibi(self.num_heads, seq_len, dtype=float_name(dtype)).tensors()[0].array()

    def __call__(self, scores: ArrayLike) -> NDArray[Any]:
        """scores + bias, for scores of shape (…, H, L, L)."""
        scores = self._scores("scores", scores)
        heads, length = scores.shape[-3:-1]
        out = np.empty(scores.shape, scores.dtype)
        if scores.size:
            bias = Alibi(heads, _SEQ_LEN.check("L", length), dtype=compute_dtype(scores.dtype)).tensors()[0]
            for head in range(heads):
                add_rounded(
                    scores[..., head, :, :], bias.read(head * length, (head + 1) * length), out[..., head, :, :]
                )
        self._shape = scores.shape
        return out

    def backward(self, grad: ArrayLike) -> NDArray[Any]:
        """The gradient for the last scores, given that for the last output: the same, since the bias is constant.

        Whoever adds `get_bias` to scores without a call of the layer may give the gradient of any sums.
        """
        return (self._scores("grad", grad) if self._shape is None else gradient(grad, self._shape)).copy()

    def _scores(self, name: str, value: ArrayLike) -> NDArray[Any]:
        scores = floating(name, value)
        if scores.ndim < 3 or scores.shape[-1] != scores.shape[-2]:
            raise shape_error(name, scores, "they must be (…, H, L, L)", "queries and keys are the last two axes")
        if scores.shape[-3] != self.num_heads:
            rule = f"this layer was made for H = {self.num_heads}"
            raise shape_error(name, scores, rule, f"here H is {scores.shape[-3]}")
        return scores
