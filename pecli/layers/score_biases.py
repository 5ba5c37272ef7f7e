"""Biases by distance, as layers that add them to attention scores: learned ones, and ALiBi's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pecli.engine.arrays import as_numpy, dtype_name, round_to
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.relative import Relative
from pecli.errors import ParameterError
from pecli.layers.input_checks import add_rounded, compute_dtype, float_name, floating, gradient, shape_error

_CHUNK = 1 << 14
"""Scores of a head that are dealt with at once."""


class _LookedUpBias(ABC):
    """Adds weight[index[i, j], head] to the score of query i and key j of a head.

    `weight` is the table itself: update it in place to train it.
    """

    def __init__(self, weight: ArrayLike, rows: int) -> None:
        given = floating("weight", weight)
        if given.ndim != 2 or len(given) != rows:
            raise shape_error("weight", given, f"it must be ({rows}, heads)")
        self.weight: NDArray[Any] = np.array(given, given.dtype.newbyteorder("="), order="C")
        self._shape: tuple[int, ...] | None = None

    @abstractmethod
    def _at(self, length: int) -> Relative:
        """The relative positions of so many queries and keys."""

    def get_bias(self, seq_len: int) -> NDArray[Any]:
        """The bias of that many queries and keys, (heads, seq_len, seq_len), as a new array in the weights' dtype."""
        index = self._at(seq_len).rows(0, seq_len)
        return np.stack([self.weight[index, head] for head in range(self.weight.shape[1])])

    def __call__(self, scores: ArrayLike) -> NDArray[Any]:
        """scores + bias, for scores of shape (…, H, L, L)."""
        scores = floating("scores", scores)
        heads = self.weight.shape[1]
        if scores.ndim < 3 or scores.shape[-1] != scores.shape[-2] or scores.shape[-3] != heads:
            raise shape_error("scores", scores, f"they must be (…, H, L, L) with H = {heads}")
        out = np.empty(scores.shape, scores.dtype)
        length = scores.shape[-1]
        step = max(1, _CHUNK // max(1, length))
        for start in range(0, length, step):
            stop = min(start + step, length)
            index = self._at(length).rows(start, stop)
            for head in range(heads):
                rows = (..., head, slice(start, stop), slice(None))
                add_rounded(scores[rows], self.weight[index, head], out[rows])
        self._shape = scores.shape
        return out

    def backward(self, grad: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """The gradients for the last scores and for the weights, given that for the last output.

        The second is summed over all pairs with one number in float64, rounded once.
        """
        grad = gradient(grad, self._shape)
        heads, length = self.weight.shape[1], grad.shape[-1]
        table: NDArray[np.float64] = np.zeros(self.weight.shape)
        if grad.size:
            summed = grad.reshape(-1, heads, length * length).sum(axis=0, dtype=np.float64)
            index = self._at(length).rows(0, length).reshape(-1)
            for head in range(heads):
                table[:, head] = np.bincount(index, summed[head], len(table))
        return grad.copy(), round_to(table, dtype_name(self.weight.dtype))


class T5RelativeBias(_LookedUpBias):
    """T5's relative position bias (Raffel et al., 2020, https://arxiv.org/abs/1910.10683).

    Args:
        weight: (buckets, heads), a checkpoint's `relative_attention_bias.weight`; it is copied.
        max_distance: distances from here on share the last bucket.
        causal: as in decoders, where keys after their query are all alike.

    >>> layer = T5RelativeBias(np.arange(32.0)[:, None])
    >>> layer(np.zeros((1, 3, 3)))[0].tolist()
    [[0.0, 17.0, 18.0], [1.0, 0.0, 17.0], [2.0, 1.0, 0.0]]
    """

    def __init__(self, weight: ArrayLike, max_distance: int = 128, *, causal: bool = False) -> None:
        self._scheme = Relative(
            "t5", 1, len(np.atleast_1d(np.asarray(as_numpy("weight", weight)))), max_distance, causal
        )
        super().__init__(weight, self._scheme.buckets or 0)

    def _at(self, length: int) -> Relative:
        if length != self._scheme.seq_len:
            self._scheme = replace(self._scheme, seq_len=length)
        return self._scheme


class SwinRelativeBias(_LookedUpBias):
    """The relative position bias of a window (Swin, Liu et al., 2021, https://arxiv.org/abs/2103.14030).

    Args:
        weight: ((2H − 1)(2W − 1), heads), a checkpoint's `relative_position_bias_table`; it is copied.
        window: H and W; scores have L = H·W queries and keys.

    >>> layer = SwinRelativeBias(np.arange(3.0)[:, None], (1, 2))
    >>> layer(np.zeros((1, 2, 2)))[0].tolist()
    [[1.0, 0.0], [2.0, 1.0]]
    """

    def __init__(self, weight: ArrayLike, window: tuple[int, int]) -> None:
        self._scheme = Relative("swin", grid=window)  # type: ignore[arg-type]
        height, width = self._scheme.grid or (1, 1)
        super().__init__(weight, (2 * height - 1) * (2 * width - 1))

    def _at(self, length: int) -> Relative:
        if length != self._scheme.length:
            height, width = self._scheme.grid or (1, 1)
            raise ParameterError("seq_len", length, f"a window of {height} x {width} has {self._scheme.length} points")
        return self._scheme


class DebertaRelativeBias:
    """DeBERTa's disentangled attention (He et al., 2021, https://arxiv.org/abs/2006.03654): content to position, and
    position to content.

    Args:
        buckets: `position_buckets`; there are 2·buckets embeddings of relative positions.
        max_distance: `max_relative_positions`.

    A score of query i and key j gets q_i · K_b(i−j) + k_j · Q_b(i−j), divided by √(3·D), K and Q being the projected
    embeddings; the scores themselves are divided by the same.

    >>> q = k = np.ones((1, 2, 4)); embeddings = np.zeros((1, 8, 4))
    >>> DebertaRelativeBias(4, 8)(np.zeros((1, 2, 2)), q, k, embeddings, embeddings).tolist()
    [[[0.0, 0.0], [0.0, 0.0]]]
    """

    def __init__(self, buckets: int = 256, max_distance: int = 512) -> None:
        self._scheme = Relative("deberta", 1, buckets, max_distance)
        self._last: tuple[NDArray[np.int32], dict[str, NDArray[np.float64]], float] | None = None

    def get_index(self, seq_len: int) -> NDArray[np.int32]:
        """The rows of the embeddings for every query and key, (seq_len, seq_len)."""
        buckets = self._scheme.buckets or 0
        found = Relative("deberta", seq_len, buckets, self._scheme.max_distance).tables()["index"]
        return np.clip(found.astype(np.int32) + buckets, 0, 2 * buckets - 1)

    def __call__(
        self, scores: ArrayLike, q: ArrayLike, k: ArrayLike, pos_key: ArrayLike, pos_query: ArrayLike
    ) -> NDArray[Any]:
        """scores (…, H, L, L) plus both terms; q and k are (…, H, L, D), the embeddings (H, 2·buckets, D)."""
        x = floating("scores", scores)
        if x.ndim < 3 or x.shape[-1] != x.shape[-2]:
            raise shape_error("scores", x, "they must be (…, H, L, L)")
        given = {name: floating(name, each) for name, each in (("q", q), ("k", k))}
        dim, count = given["q"].shape[-1] if given["q"].ndim else 0, 2 * (self._scheme.buckets or 0)
        given |= {name: floating(name, each) for name, each in (("pos_key", pos_key), ("pos_query", pos_query))}
        for name, array in given.items():
            shape = (*x.shape[:-1], dim) if len(name) == 1 else (x.shape[-3], count, dim)
            if array.shape != shape:
                raise shape_error(name, array, f"with scores of shape {x.shape} it must be of shape {shape}")
        wide = {name: array.astype(np.float64) for name, array in given.items()}
        index = np.broadcast_to(self.get_index(x.shape[-1]), x.shape)
        added = np.take_along_axis(wide["q"] @ _transposed(wide["pos_key"]), index, -1)
        turned = np.take_along_axis(wide["k"] @ _transposed(wide["pos_query"]), _transposed(index), -1)
        scale = 1 / np.sqrt(3.0 * dim)
        self._last = (index, wide, scale)
        return round_to(x.astype(np.float64) + (added + _transposed(turned)) * scale, dtype_name(x.dtype))

    def backward(self, grad: ArrayLike) -> dict[str, NDArray[Any]]:
        """The gradients for what the last call was given, by name, given that for its output; all but that of the
        scores in float64.
        """
        grad = gradient(grad, None if self._last is None else self._last[0].shape)
        assert self._last is not None
        index, wide, scale = self._last
        found = {"scores": grad.copy()}
        for x, rows, by_x, numbers in (
            ("q", "pos_key", grad, index),
            ("k", "pos_query", _transposed(grad), _transposed(index)),
        ):
            spread = np.zeros((*grad.shape[:-1], wide[rows].shape[-2]))
            places = np.indices(grad.shape, sparse=True)[:-1]
            np.add.at(spread, (*places, numbers), by_x.astype(np.float64) * scale)
            found[x] = spread @ wide[rows]
            each = _transposed(spread) @ wide[x]
            found[rows] = each.reshape(-1, *wide[rows].shape).sum(axis=0)
        return found


def _transposed(array: NDArray[Any]) -> NDArray[Any]:
    return np.swapaxes(array, -1, -2)


_HEADS, _SEQ_LEN = (Alibi.parameters()[name] for name in ("heads", "seq_len"))


class AlibiBias:
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
        self._shape: tuple[int, ...] | None = None

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
