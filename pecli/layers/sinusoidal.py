"""Sinusoidal encodings, as a function and as a layer that adds them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError
from pecli.layers.input_checks import arithmetic, gradient, kind_of, plus, sequences, shape_error
from pecli.layers.table_cache import FirstRows

_SEQ_LEN, _DIM = (Sinusoidal.parameters()[name] for name in ("seq_len", "dim"))


def sinusoidal_pos_embedding(seq_len: int, embed_dim: int, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """The sinusoidal table of «Attention Is All You Need» (Vaswani et al., 2017, https://arxiv.org/abs/1706.03762).

    Channel 2i is sin(p / 10000^(2i/D)), channel 2i + 1 the cosine of the same angle; an odd D ends on a sine.

    Args:
        seq_len: how many positions, from 0.
        embed_dim: D, how many channels.
        dtype: float64, float32, float16 or bfloat16, as a name or a NumPy dtype; float32 by default.

    Returns:
        A new (seq_len, embed_dim) array. Each number is the true value, rounded once.

    >>> sinusoidal_pos_embedding(2, 3, "float64").round(4).tolist()
    [[0.0, 1.0, 0.0], [0.8415, 0.5403, 0.0022]]
    """
    seq_len, embed_dim = _SEQ_LEN.check("seq_len", seq_len), _DIM.check("embed_dim", embed_dim)
    return Sinusoidal(seq_len, embed_dim, dtype=kind_of(dtype)).tables()["pe"]


class SinusoidalPosEmbedding:
    """Adds sinusoidal encodings (Vaswani et al., 2017, https://arxiv.org/abs/1706.03762) to its input.

    Args:
        seq_len: the length that every input must have; None takes any.
        embed_dim: the channels that every input must have; None takes any.

    >>> layer = SinusoidalPosEmbedding(embed_dim=4)
    >>> x = np.zeros((1, 2, 4), np.float32)
    >>> bool((layer(x) == sinusoidal_pos_embedding(2, 4)).all())
    True
    """

    def __init__(self, seq_len: int | None = None, embed_dim: int | None = None) -> None:
        self.seq_len: int | None = None if seq_len is None else _SEQ_LEN.check("seq_len", seq_len)
        self.embed_dim: int | None = None if embed_dim is None else _DIM.check("embed_dim", embed_dim)
        self._cache: dict[tuple[int, str], FirstRows] = {}
        self._shape: tuple[int, ...] | None = None

    def __call__(self, x: ArrayLike) -> NDArray[Any]:
        """x + PE[:L], for x of shape (L, D) or (N, L, D)."""
        x = sequences("x", x)
        length, dim = x.shape[-2:]
        if self.seq_len not in (None, length):
            raise shape_error("x", x, f"this layer was made for L = {self.seq_len}", "seq_len=None takes any length")
        if self.embed_dim not in (None, dim):
            raise shape_error("x", x, f"this layer was made for D = {self.embed_dim}", "embed_dim=None takes any D")
        _DIM.check("D, the last axis of x,", dim)
        out = np.empty(x.shape, x.dtype)
        if x.size:
            plus(x, self._rows(length, dim, arithmetic(x.dtype)), out)
        self._shape = x.shape
        return out

    def get_encoding(self, seq_len: int | None = None) -> NDArray[np.float32]:
        """The float32 table of that many positions, (seq_len, embed_dim), as a new array; any length may be asked for.

        Without a length it has the layer's own.
        """
        if self.embed_dim is None:
            advice = "make the layer with embed_dim, or call sinusoidal_pos_embedding"
            raise ParameterError("embed_dim", "not set", "a table without input needs it", advice)
        if seq_len is None:
            seq_len = self.seq_len
        if seq_len is None:
            raise ParameterError("seq_len", "not set", "a table without input needs it", "give it here or to the layer")
        return self._rows(_SEQ_LEN.check("seq_len", seq_len), self.embed_dim, "float32").copy()

    def backward(self, grad: ArrayLike) -> NDArray[Any]:
        """The gradient for the last input, given that for the last output: the same, since the table is constant."""
        return gradient(grad, self._shape).copy()

    def _rows(self, length: int, dim: int, dtype: str) -> NDArray[Any]:
        key = (dim, dtype)
        if key not in self._cache:
            self._cache[key] = FirstRows(dim, dtype, partial(_fill, dim, dtype))
        return self._cache[key].up_to(length)[:length]


def _fill(dim: int, dtype: str, start: int, out: NDArray[Any]) -> None:
    Sinusoidal(len(out), dim, offset=start, dtype=dtype).tensors()[0].fill(0, out)
