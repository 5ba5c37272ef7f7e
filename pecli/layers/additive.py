"""Layers that add what is constant: rows of a sinusoidal or learned table, or biases to attention scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pecli.engine.arrays import dtype_name, floating, round_to
from pecli.engine.schemes import Whole
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import ParameterError
from pecli.layers.input_checks import compute_dtype, gradient, layer_repr, shape_error

_SEQ_LEN, _DIM = (Sinusoidal.parameters()[name] for name in ("seq_len", "dim"))
_MAX_LEN, _LEARNED_DIM, _SEED = (LearnedInit.parameters()[name] for name in ("max_len", "dim", "seed"))
_HEADS, _LENGTH = (Alibi.parameters()[name] for name in ("heads", "seq_len"))
_OFFSET = Whole(help="the first row", low=0)


def sinusoidal_pos_embedding(seq_len: int, embed_dim: int, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """The sinusoidal table of «Attention Is All You Need» (Vaswani et al., 2017, https://arxiv.org/abs/1706.03762).

    Channel 2i is sin(p / 10000^(2i/D)), channel 2i + 1 the cosine of the same angle; an odd D ends on a sine. Each
    number of the new (seq_len, embed_dim) array is the true value, rounded once to `dtype`: float64, float32 (unless
    given), float16 or bfloat16.

    >>> sinusoidal_pos_embedding(2, 3, "float64").round(4).tolist()
    [[0.0, 1.0, 0.0], [0.8415, 0.5403, 0.0022]]
    """
    seq_len, embed_dim = _SEQ_LEN.check("seq_len", seq_len), _DIM.check("embed_dim", embed_dim)
    return Sinusoidal(seq_len, embed_dim, **_in(dtype)).tables()["pe"]


def _in(dtype: DTypeLike | None) -> dict[str, Any]:
    return {} if dtype is None else {"dtype": dtype}


class _Additive:
    """A layer that adds what is constant: the gradient of its input is that of its last output."""

    _shape: tuple[int, ...] | None = None
    __repr__ = layer_repr

    def backward(self, grad: ArrayLike) -> Any:
        """The gradient for the last input, given that for the last output: the same, since the table is constant."""
        return gradient(grad, self._shape).copy()

    def _sum(self, x: NDArray[Any], table: NDArray[Any]) -> NDArray[Any]:
        """x + table, each sum computed in the wider dtype and rounded once."""
        self._shape, out = x.shape, np.empty(x.shape, x.dtype)
        np.add(x, table, out=out, dtype=compute_dtype(x.dtype, table.dtype), casting="unsafe")
        return out


def _sequences(value: ArrayLike) -> NDArray[Any]:
    """The input as a floating array, (L, D) or (N, L, D)."""
    array = floating("x", value)
    if array.ndim not in (2, 3):
        raise shape_error("x", array, "it must be (L, D) or (N, L, D)")
    return array


class SinusoidalPosEmbedding(_Additive):
    """Adds sinusoidal encodings (Vaswani et al., 2017, https://arxiv.org/abs/1706.03762) to its input.

    Every input must have the length and the channels that are given; None takes any.

    >>> layer = SinusoidalPosEmbedding(embed_dim=4)
    >>> x = np.zeros((1, 2, 4), np.float32)
    >>> bool((layer(x) == sinusoidal_pos_embedding(2, 4)).all())
    True
    """

    def __init__(self, seq_len: int | None = None, embed_dim: int | None = None) -> None:
        self.seq_len: int | None = None if seq_len is None else _SEQ_LEN.check("seq_len", seq_len)
        self.embed_dim: int | None = None if embed_dim is None else _DIM.check("embed_dim", embed_dim)
        self._cache: dict[tuple[int, str], NDArray[Any]] = {}

    def __call__(self, x: ArrayLike) -> NDArray[Any]:
        """x + PE[:L], for x of shape (L, D) or (N, L, D)."""
        x = _sequences(x)
        length, dim = x.shape[-2:]
        if self.seq_len not in (None, length):
            raise shape_error("x", x, f"this layer was made for L = {self.seq_len}", "seq_len=None takes any length")
        if self.embed_dim not in (None, dim):
            raise shape_error("x", x, f"this layer was made for D = {self.embed_dim}", "embed_dim=None takes any D")
        _DIM.check("D, the last axis of x,", dim)
        return self._sum(x, self._rows(length, dim, compute_dtype(x.dtype)) if x.size else x)

    def get_encoding(self, seq_len: int | None = None) -> NDArray[np.float32]:
        """The float32 table of that many positions, or of the layer's own, (seq_len, embed_dim), as a new array."""
        if self.embed_dim is None:
            advice = "make the layer with embed_dim, or call sinusoidal_pos_embedding"
            raise ParameterError("embed_dim", "not set", "a table without input needs it", advice)
        seq_len = self.seq_len if seq_len is None else seq_len
        if seq_len is None:
            raise ParameterError("seq_len", "not set", "a table without input needs it", "give it here or to the layer")
        return self._rows(_SEQ_LEN.check("seq_len", seq_len), self.embed_dim, "float32").copy()

    def _rows(self, length: int, dim: int, dtype: str) -> NDArray[Any]:
        """The first rows of the table, which is kept, and at least doubled when it grows."""
        kept = self._cache.get((dim, dtype), np.empty((0, dim)))
        if length > len(kept):
            kept = Sinusoidal(max(length, 2 * len(kept)), dim, dtype=dtype).tables()["pe"]
            self._cache[dim, dtype] = kept
        return kept[:length]


class LearnedPosEmbedding(_Additive):
    """Adds rows of a learned table to its input, as in BERT (Devlin et al., 2019, https://arxiv.org/abs/1810.04805).

    The weights are a copy of `table`, (max_len, embed_dim) and floating; without one they are drawn from N(0, 0.02²) in
    float32, as `LearnedInit` does: the same seed gives the same weights everywhere. Update `weight` in place to train.

    >>> layer = LearnedPosEmbedding(3, 2, table=np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]))
    >>> layer(np.ones((2, 2)), offset=1).tolist()
    [[3.0, 4.0], [5.0, 6.0]]
    >>> grad_x, grad_table = layer.backward(np.full((2, 2), 0.5))
    >>> grad_table.tolist()
    [[0.0, 0.0], [0.5, 0.5], [0.5, 0.5]]
    """

    def __init__(
        self, max_len: int, embed_dim: int | None = None, table: ArrayLike | None = None, seed: int = 0, *,
        dim: int | None = None,
    ) -> None:  # fmt: skip
        if (embed_dim is None) == (dim is None):
            raise ParameterError("embed_dim", embed_dim, "it must be given, by this name or as `dim`")
        self.max_len: int = _MAX_LEN.check("max_len", max_len)
        self.embed_dim: int = _LEARNED_DIM.check("embed_dim", dim if embed_dim is None else embed_dim)
        seed = _SEED.check("seed", seed)
        if table is None:
            self.weight: NDArray[Any] = LearnedInit(self.max_len, self.embed_dim, seed=seed).tables()["weight"]
        else:
            given = floating("table", table)
            if given.shape != (self.max_len, self.embed_dim):
                rule = f"max_len and embed_dim ask for ({self.max_len}, {self.embed_dim})"
                raise shape_error("table", given, rule, "give them the table's own shape")
            self.weight = np.array(given, given.dtype.newbyteorder("="), order="C")
        self._offset = 0

    def __call__(self, x: ArrayLike, offset: int = 0) -> NDArray[Any]:
        """x + weight[offset : offset + L], for x of shape (L, D) or (N, L, D)."""
        x = _sequences(x)
        length, dim = x.shape[-2:]
        if dim != self.embed_dim:
            rule = f"this layer was made for D = {self.embed_dim}"
            raise shape_error("x", x, rule, f"D is the last axis, here {dim}")
        offset = _OFFSET.check("offset", offset)
        if offset + length > self.max_len:
            rule = f"with L = {length} it asks for rows up to {offset + length} of a table of {self.max_len}"
            raise ParameterError("offset", offset, rule, "give a shorter input, or a layer with a larger max_len")
        self._offset = offset
        return self._sum(x, self.weight[offset : offset + length])

    def backward(self, grad: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """The gradients for the last input, the same as `grad`, and for the whole table, in its dtype: summed over the
        batch in float64, rounded once, and zero in the rows that were not used."""
        grad = gradient(grad, self._shape)
        rows = (grad if grad.ndim == 3 else grad[None]).sum(axis=0, dtype=np.float64)
        table = np.zeros_like(self.weight)
        table[self._offset : self._offset + len(rows)] = round_to(rows, dtype_name(table.dtype))
        return grad.copy(), table


class AlibiBias(_Additive):
    """Attention with linear biases (Press et al., 2022, https://arxiv.org/abs/2108.12409).

    The bias of query i and key j is −slope·|i − j|, the same in both directions; a causal mask is not part of it.
    Slopes follow the paper's rule, also where heads are not a power of two.

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
        seq_len = _LENGTH.check("seq_len", seq_len)
        return Alibi(self.num_heads, seq_len, **_in(dtype)).tensors()[0].array()

    def __call__(self, scores: ArrayLike) -> NDArray[Any]:
        """scores + bias, for scores of shape (…, H, L, L)."""
        scores = self._scores("scores", scores)
        self._shape, out = scores.shape, np.empty(scores.shape, scores.dtype)
        length, kind = scores.shape[-1], compute_dtype(scores.dtype)
        bias = Alibi(self.num_heads, _LENGTH.check("L", length or 1), dtype=kind).tensors()[0]
        for head in range(self.num_heads) if length else ():
            part, rows = (..., head, slice(None), slice(None)), range(head * length, (head + 1) * length)
            np.add(scores[part], bias.read(rows.start, rows.stop), out=out[part], dtype=kind, casting="unsafe")
        return out

    def backward(self, grad: ArrayLike) -> NDArray[Any]:
        """The gradient for the last scores: the same. Who adds `get_bias` without a call may give that of any sums."""
        return (self._scores("grad", grad) if self._shape is None else gradient(grad, self._shape)).copy()

    def _scores(self, name: str, value: ArrayLike) -> NDArray[Any]:
        scores = floating(name, value)
        if scores.ndim < 3 or scores.shape[-1] != scores.shape[-2]:
            raise shape_error(name, scores, "they must be (…, H, L, L)", "queries and keys are the last two axes")
        if scores.shape[-3] != self.num_heads:
            rule = f"this layer was made for H = {self.num_heads}"
            raise shape_error(name, scores, rule, f"here H is {scores.shape[-3]}")
        return scores
