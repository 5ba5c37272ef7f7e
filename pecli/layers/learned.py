"""A learned table of positions, as a layer that adds its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pecli.engine.numerics.dtypes import dtype_name
from pecli.engine.numerics.rounding import round_to
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.parameters import Whole
from pecli.errors import ParameterError
from pecli.layers.input_checks import floating, gradient, plus, sequences, shape_error

_MAX_LEN, _DIM, _SEED = (LearnedInit.parameters()[name] for name in ("max_len", "dim", "seed"))
_OFFSET = Whole(help="the first row", low=0)


class LearnedPosEmbedding:
    """Adds rows of a learned table to its input, as in BERT (Devlin et al., 2019, https://arxiv.org/abs/1810.04805).

    Args:
        max_len: rows of the table.
        embed_dim: channels of a row.
        table: the weights, (max_len, embed_dim) and floating; they are copied. Without a table they are drawn from
            N(0, 0.02²), in float32, as `LearnedInit` does.
        seed: of those draws; the same seed gives the same weights everywhere.

    `weight` is the table itself: update it in place to train it.

    >>> layer = LearnedPosEmbedding(3, 2, table=np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]))
    >>> layer(np.ones((2, 2)), offset=1).tolist()
    [[3.0, 4.0], [5.0, 6.0]]
    >>> grad_x, grad_table = layer.backward(np.full((2, 2), 0.5))
    >>> grad_table.tolist()
    [[0.0, 0.0], [0.5, 0.5], [0.5, 0.5]]
    """

    def __init__(self, max_len: int, embed_dim: int, table: ArrayLike | None = None, seed: int = 0) -> None:
        self.max_len: int = _MAX_LEN.check("max_len", max_len)
        self.embed_dim: int = _DIM.check("embed_dim", embed_dim)
        seed = _SEED.check("seed", seed)
        if table is None:
            self.weight: NDArray[Any] = LearnedInit(self.max_len, self.embed_dim, seed=seed).tables()["weight"]
        else:
            given = floating("table", table)
            if given.shape != (self.max_len, self.embed_dim):
                rule = f"max_len and embed_dim ask for ({self.max_len}, {self.embed_dim})"
                raise shape_error("table", given, rule, "give them the table's own shape")
            self.weight = np.array(given, given.dtype.newbyteorder("="), order="C")
        self._shape: tuple[int, ...] | None = None
        self._offset = 0

    def __call__(self, x: ArrayLike, offset: int = 0) -> NDArray[Any]:
        """x + weight[offset : offset + L], for x of shape (L, D) or (N, L, D)."""
        x = sequences("x", x)
        length, dim = x.shape[-2:]
        if dim != self.embed_dim:
            raise shape_error(
                "x", x, f"this layer was made for D = {self.embed_dim}", f"D is the last axis, here {dim}"
            )
        offset = _OFFSET.check("offset", offset)
        if offset + length > self.max_len:
            rule = f"with L = {length} it asks for rows up to {offset + length} of a table of {self.max_len}"
            raise ParameterError(
                "offset", offset, rule, "give a shorter input, or make the layer with a larger max_len"
            )
        out = np.empty(x.shape, x.dtype)
        plus(x, self.weight[offset : offset + length], out)
        self._shape, self._offset = x.shape, offset
        return out

    def backward(self, grad: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """The gradients for the last input and for the whole table, given that for the last output.

        The first has the same numbers as `grad`. The second is (max_len, embed_dim) in the table's dtype: summed over
        the batch in float64, rounded once, and zero in the rows that were not used.
        """
        grad = gradient(grad, self._shape)
        batch = grad if grad.ndim == 3 else grad[None]
        rows = batch.sum(axis=0, dtype=np.float64)
        table = np.zeros_like(self.weight)
        table[self._offset : self._offset + len(rows)] = round_to(rows, dtype_name(table.dtype))
        return grad.copy(), table
