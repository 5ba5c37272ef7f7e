"""Rotary position embedding, as a layer that rotates pairs of channels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pecli.engine.application import rotate
from pecli.engine.arrays import as_numpy, floating
from pecli.engine.schemes import Flag, Whole
from pecli.engine.schemes.given_positions import LAST_POSITION
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.rotation_factors import Positions, RotationFactors
from pecli.errors import KindError, ParameterError
from pecli.layers.input_checks import compute_dtype, gradient, layer_repr, shape_error

_DIM, _SEQ_LEN, _BASE = (Rope.parameters()[name] for name in ("dim", "seq_len", "base"))
_OFFSET = Whole(help="position of the first row", low=0, high=LAST_POSITION)
_FLAG = Flag(help="which channels make a pair")


def _rope_of(source: Any, length: int | None, interleaved: bool) -> tuple[Rope, int, bool, bool]:
    """Of a Rope, a model or an encoding: scheme, head dim, are pairs interleaved, do the last channels rotate."""
    encoding = source.one() if hasattr(source, "one") else source
    if hasattr(encoding, "frequency_rope"):
        if encoding.layout not in ("halves", "interleaved"):
            rule = f"its layout of pairs is {encoding.layout}, and this layer has halves and interleaved"
            raise ParameterError("rope", encoding.layer_type or "the model", rule)
        rope = encoding.frequency_rope(length)
        return rope, encoding.head_dim or rope.dim, encoding.layout == "interleaved", encoding.trailing
    if getattr(source, "applied_as", None) != "rotation":
        raise KindError("rope", repr(source)[:60], "it must be a Rope, a model, or an encoding of one")
    takes_length = "length" in source.scaling_value.optional() + source.scaling_value.required()
    rope = replace(source, length=length or source.effective_length) if takes_length else source
    return rope, source.dim, interleaved, False


_Rotated = tuple[tuple[int, ...] | None, Positions]  #: What was rotated: the shape, and the position of each row
_NOTHING: _Rotated = (None, range(0))


class RotaryPosEmbedding:
    """Rotary position embedding (Su et al., 2021, https://arxiv.org/abs/2104.09864).

    Pair i of the D channels is rotated by the angle position · base^(−2i/D).

    Args:
        embed_dim: D, even, that every input must have (the head dim, in attention); None takes any.
        max_seq_len: positions stay below this, and the first call makes the cos/sin table for all of them.
        interleaved: a pair is channels (2i, 2i + 1), as in Meta's Llama; else (i, i + D/2), as in Hugging Face's.
        base: theta, the base of the frequencies.
        rope: instead, a `Rope` with its scaling and partial rotation, a model, or one of its encodings: D, and of a
            model which channels make a pair, are its own. Scalings that depend on the length are read at max_seq_len;
            without one as the Rope says, or as a model is before any call.

    >>> layer = RotaryPosEmbedding()
    >>> x = np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> layer(x).round(4).tolist()
    [[1.0, 0.0], [0.5403, 0.8415]]
    >>> layer(x, position_ids=[0, 0]).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    >>> q, k = layer.apply(x, x, offset=7)
    >>> bool(np.isclose(q[1] @ k[0], np.cos(1.0)))
    True
    """

    def __init__(
        self, embed_dim: int | None = None, max_seq_len: int | None = None, interleaved: bool = True,
        base: float = 10000.0, *, rope: Any = None,
    ) -> None:  # fmt: skip
        self.embed_dim: int | None = None if embed_dim is None else _DIM.check("embed_dim", embed_dim)
        self.max_seq_len: int | None = None if max_seq_len is None else _SEQ_LEN.check("max_seq_len", max_seq_len)
        self.interleaved: bool = _FLAG.check("interleaved", interleaved)
        self._rope: Rope | None = None
        self._trailing = False
        if rope is not None:
            self._rope, dim, self.interleaved, self._trailing = _rope_of(rope, self.max_seq_len, self.interleaved)
            if self.embed_dim not in (None, dim):
                raise ParameterError("embed_dim", embed_dim, f"the rope is for D = {dim}", "leave it out")
            self.embed_dim, base = dim, self._rope.base
        self.base: float = Rope(1, self.embed_dim or 2, _BASE.check("base", base)).base
        self._cache: dict[tuple[Rope, str], RotationFactors] = {}
        self._called = _NOTHING
        self._applied = (_NOTHING, _NOTHING)

    __repr__ = layer_repr

    def __call__(self, x: ArrayLike, position_ids: ArrayLike | None = None) -> NDArray[Any]:
        """x (…, L, D), rotated: row l by the angles of position l, or of position_ids[l]."""
        x = self._input("x", x)
        positions = self._range("x", x, 0) if position_ids is None else self._ids(position_ids, x.shape[-2])
        out = self._rotate(x, positions)
        self._called = (x.shape, positions)
        return out

    def apply(self, q: ArrayLike, k: ArrayLike, offset: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
        """q and k, (…, L, D) each, rotated: row l by the angles of position offset + l. They share only D."""
        q, k = self._input("q", q), self._input("k", k)
        if q.shape[-1] != k.shape[-1]:
            raise shape_error("k", k, f"q is of shape {q.shape}", "they must share D, the last axis")
        offset = _OFFSET.check("offset", offset)
        q_positions, k_positions = self._range("q", q, offset), self._range("k", k, offset)
        rotated = self._rotate(q, q_positions), self._rotate(k, k_positions)
        self._applied = ((q.shape, q_positions), (k.shape, k_positions))
        return rotated

    def backward(self, grad: ArrayLike) -> NDArray[Any]:
        """The gradient for the input of the last `layer(x)`; `apply_backward` gives those of `apply`."""
        shape, positions = self._called
        advice = "call the layer first, or take apply_backward for the gradients of apply"
        return self._rotate(gradient(grad, shape, advice=advice), positions, back=True)

    def apply_backward(self, grad_q: ArrayLike, grad_k: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """The gradients for the q and k of the last `apply`, given those for its outputs."""
        (q_shape, q_positions), (k_shape, k_positions) = self._applied
        grad_q = gradient(grad_q, q_shape, "grad_q", "call apply first")
        grad_k = gradient(grad_k, k_shape, "grad_k", "call apply first")
        return self._rotate(grad_q, q_positions, back=True), self._rotate(grad_k, k_positions, back=True)

    def _input(self, name: str, value: ArrayLike) -> NDArray[Any]:
        x = floating(name, value)
        if x.ndim < 2:
            raise shape_error(name, x, "it must be (…, L, D)", "a single row is x[None, :]")
        dim = x.shape[-1]
        if self.embed_dim not in (None, dim):
            raise shape_error(name, x, f"this layer was made for D = {self.embed_dim}", "D is the last axis")
        if dim % 2:
            raise shape_error(name, x, "channels rotate in pairs", "D, the last axis, must be even")
        _DIM.check(f"D, the last axis of {name},", dim)
        return x

    def _range(self, name: str, x: NDArray[Any], offset: int) -> range:
        positions = range(offset, offset + x.shape[-2])
        given = f"of shape {x.shape}" + (f" at offset {offset}" if offset else "")
        last = max(0, positions.stop - 1)
        self._check_position(last, name, given, f", and the last of these would be {last}")
        return positions

    def _ids(self, position_ids: ArrayLike, length: int) -> NDArray[np.int64]:
        ids = as_numpy("position_ids", position_ids)
        if not ids.size and not isinstance(position_ids, np.ndarray):
            ids = ids.astype(np.int64)  # NumPy takes an empty list for floats
        if ids.dtype.kind not in "iu":
            raise KindError("position_ids", f"of dtype {ids.dtype}", "positions are integers")
        if ids.shape != (length,):
            raise shape_error("position_ids", ids, f"x has L = {length} rows", f"they must be of shape ({length},)")
        for index in (ids.argmin(), ids.argmax()) if ids.size else ():
            self._check_position(int(ids[index]), "position_ids", f"{ids[index]} at index {index}")
        return ids.astype(np.int64)

    def _check_position(self, position: int, name: str, given: str, which: str = "") -> None:
        last = LAST_POSITION if self.max_seq_len is None else self.max_seq_len - 1
        if not 0 <= position <= last:
            limit = "be at most 2^40" if self.max_seq_len is None else f"stay below max_seq_len = {self.max_seq_len}"
            raise ParameterError(name, given, f"positions must be 0 or more and {limit}{which}")

    def _rotate(self, x: NDArray[Any], positions: Positions, *, back: bool = False) -> NDArray[Any]:
        if not x.size:
            return np.empty(x.shape, x.dtype)
        rope = self._rope or Rope(1, x.shape[-1], self.base)
        key = (rope, compute_dtype(x.dtype))
        if key not in self._cache:
            self._cache[key] = RotationFactors(*key, exact=key[1] == "float64", limit=self.max_seq_len or 0)
        factors = self._cache[key].at(positions)
        factors = factors.conj() if back else factors
        layout = "interleaved" if self.interleaved else "halves"
        first = x.shape[-1] - rope.rotary_dim if self._trailing else 0
        return rotate(x, lambda start, stop: factors[start:stop], layout, layout, first_channel=first)
