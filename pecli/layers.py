"""The layers a model would use, over exact tables: NumPy in, NumPy out.

Every layer keeps the dtype of its input, leaves the input untouched, returns new arrays, and has `backward(grad)` for
its last call. float64 and float32 are computed as they are; float16 and bfloat16 in float32, rounded once at the end.
"""

from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pecli.engine.application import rotate
from pecli.engine.arrays import as_numpy, dtype_name, floating, round_to
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.given_positions import LAST_POSITION
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.parameters import Flag, Whole
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.rotation_factors import Positions, RotationFactors
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import KindError, ParameterError

_SEQ_LEN, _DIM = (Sinusoidal.parameters()[name] for name in ("seq_len", "dim"))
_HEADS, _LENGTH = (Alibi.parameters()[name] for name in ("heads", "seq_len"))
_ROTARY_DIM, _BASE = (Rope.parameters()[name] for name in ("dim", "base"))
_OFFSET = Whole("the position, or the row of a table, for the first row", low=0, high=LAST_POSITION)
_Rotated = tuple[
    tuple[int, ...] | None, Positions
]  #: What was rotated: its shape, and the position of each row


def sinusoidal_pos_embedding(
    seq_len: int, embed_dim: int, dtype: DTypeLike | None = None
) -> NDArray[Any]:
    """The sinusoidal table of «Attention Is All You Need» (Vaswani et al., 2017, https://arxiv.org/abs/1706.03762).

    Channel 2i is sin(p / 10000^(2i/D)), channel 2i + 1 the cosine of the same angle; an odd D ends on a sine. Each
    number of the new (seq_len, embed_dim) array is the true value, rounded once to `dtype`: float64, float32 (unless
    given), float16 or bfloat16.

    >>> sinusoidal_pos_embedding(2, 3, "float64").round(4).tolist()
    [[0.0, 1.0, 0.0], [0.8415, 0.5403, 0.0022]]
    """
    seq_len, embed_dim = _SEQ_LEN.check("seq_len", seq_len), _DIM.check("embed_dim", embed_dim)
    kind: Any = "float32" if dtype is None else dtype
    return Sinusoidal(seq_len, embed_dim, dtype=kind).tables()["pe"]


def _gradient(
    grad: ArrayLike,
    shape: tuple[int, ...] | None,
    name: str = "grad",
    advice: str = "call the layer first",
) -> NDArray[Any]:
    """The gradient of the last output, which had that shape; None where there was no call yet."""
    if shape is None:
        raise ParameterError(name, "without a call", "gradients belong to the last call", advice)
    array = floating(name, grad)
    if array.shape != shape:
        raise _shape_error(
            name, array, f"the last output was of shape {shape}", "they must be the same"
        )
    return array


def _shape_error(name: str, array: NDArray[Any], rule: str, advice: str = "") -> ParameterError:
    return ParameterError(name, f"of shape {array.shape}", rule, advice)


def _compute_dtype(*dtypes: np.dtype[Any]) -> str:
    return "float64" if any(dtype_name(dtype) == "float64" for dtype in dtypes) else "float32"


class _Layer:
    def __repr__(self) -> str:
        rules = signature(type(self)).parameters
        values = {name: getattr(self, name) for name in rules if hasattr(self, name)}
        said = [
            f"{name}={value!r}" for name, value in values.items() if value != rules[name].default
        ]
        return f"{type(self).__name__}({', '.join(said)})"


class _Additive(_Layer):
    """A layer that adds what is constant: the gradient of its input is that of its last output."""

    _shape: tuple[int, ...] | None = None

    def backward(self, grad: ArrayLike) -> Any:
        """The gradient for the last input, given that for the last output: the same, since the table is constant."""
        return _gradient(grad, self._shape).copy()

    def _sum(self, x: NDArray[Any], table: NDArray[Any]) -> NDArray[Any]:
        """x + table, each sum computed in the wider dtype and rounded once."""
        self._shape, out = x.shape, np.empty(x.shape, x.dtype)
        np.add(x, table, out=out, dtype=_compute_dtype(x.dtype, table.dtype), casting="unsafe")
        return out


def _sequences(value: ArrayLike) -> NDArray[Any]:
    array = floating("x", value)
    if array.ndim not in (2, 3):
        raise _shape_error("x", array, "it must be (L, D) or (N, L, D)")
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
        self.embed_dim: int | None = (
            None if embed_dim is None else _DIM.check("embed_dim", embed_dim)
        )
        self._cache: dict[tuple[int, str], NDArray[Any]] = {}

    def __call__(self, x: ArrayLike) -> NDArray[Any]:
        """x + PE[:L], for x of shape (L, D) or (N, L, D)."""
        x = _sequences(x)
        length, dim = x.shape[-2:]
        if self.seq_len not in (None, length):
            raise _shape_error(
                "x",
                x,
                f"this layer was made for L = {self.seq_len}",
                "seq_len=None takes any length",
            )
        if self.embed_dim not in (None, dim):
            raise _shape_error(
                "x",
                x,
                f"this layer was made for D = {self.embed_dim}",
                "embed_dim=None takes any D",
            )
        _DIM.check("D, the last axis of x,", dim)
        return self._sum(x, self._rows(length, dim, _compute_dtype(x.dtype)) if x.size else x)

    def get_encoding(self, seq_len: int | None = None) -> NDArray[np.float32]:
        """The float32 table of that many positions, or of the layer's own, (seq_len, embed_dim), as a new array."""
        if self.embed_dim is None:
            advice = "make the layer with embed_dim, or call sinusoidal_pos_embedding"
            raise ParameterError("embed_dim", "not set", "a table without input needs it", advice)
        seq_len = self.seq_len if seq_len is None else seq_len
        if seq_len is None:
            raise ParameterError(
                "seq_len",
                "not set",
                "a table without input needs it",
                "give it here or to the layer",
            )
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
            raise ParameterError(
                "embed_dim", embed_dim, "it must be given, by this name or as `dim`"
            )
        self.max_len: int = _SEQ_LEN.check("max_len", max_len)
        self.embed_dim: int = _DIM.check("embed_dim", dim if embed_dim is None else embed_dim)
        seed = LearnedInit.parameters()["seed"].check("seed", seed)
        if table is None:
            self.weight: NDArray[Any] = LearnedInit(
                self.max_len, self.embed_dim, seed=seed
            ).tables()["weight"]
        else:
            given = floating("table", table)
            if given.shape != (self.max_len, self.embed_dim):
                rule = f"max_len and embed_dim ask for ({self.max_len}, {self.embed_dim})"
                raise _shape_error("table", given, rule, "give them the table's own shape")
            self.weight = np.array(given, given.dtype.newbyteorder("="), order="C")
        self._offset = 0

    def __call__(self, x: ArrayLike, offset: int = 0) -> NDArray[Any]:
        """x + weight[offset : offset + L], for x of shape (L, D) or (N, L, D)."""
        x = _sequences(x)
        length, dim = x.shape[-2:]
        if dim != self.embed_dim:
            rule = f"this layer was made for D = {self.embed_dim}"
            raise _shape_error("x", x, rule, f"D is the last axis, here {dim}")
        offset = _OFFSET.check("offset", offset)
        if offset + length > self.max_len:
            rule = f"with L = {length} it asks for rows up to {offset + length} of a table of {self.max_len}"
            raise ParameterError(
                "offset", offset, rule, "give a shorter input, or a layer with a larger max_len"
            )
        self._offset = offset
        return self._sum(x, self.weight[offset : offset + length])

    def backward(self, grad: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        """The gradients for the last input, the same as `grad`, and for the whole table, in its dtype: summed over the
        batch in float64, rounded once, and zero in the rows that were not used."""
        grad = _gradient(grad, self._shape)
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
        kind: Any = "float32" if dtype is None else dtype
        return (
            Alibi(self.num_heads, _LENGTH.check("seq_len", seq_len), dtype=kind)
            .tensors()[0]
            .array()
        )

    def __call__(self, scores: ArrayLike) -> NDArray[Any]:
        """scores + bias, for scores of shape (…, H, L, L)."""
        scores = self._scores("scores", scores)
        self._shape, out = scores.shape, np.empty(scores.shape, scores.dtype)
        length, kind = scores.shape[-1], _compute_dtype(scores.dtype)
        bias = Alibi(self.num_heads, _LENGTH.check("L", length or 1), dtype=kind).tensors()[0]
        for head in range(self.num_heads) if length else ():
            part, rows = (
                (..., head, slice(None), slice(None)),
                range(head * length, (head + 1) * length),
            )
            np.add(
                scores[part],
                bias.read(rows.start, rows.stop),
                out=out[part],
                dtype=kind,
                casting="unsafe",
            )
        return out

    def backward(self, grad: ArrayLike) -> NDArray[Any]:
        """The gradient for the last scores: the same. Who adds `get_bias` without a call may give that of any sums."""
        return (
            self._scores("grad", grad) if self._shape is None else _gradient(grad, self._shape)
        ).copy()

    def _scores(self, name: str, value: ArrayLike) -> NDArray[Any]:
        scores = floating(name, value)
        if scores.ndim < 3 or scores.shape[-1] != scores.shape[-2]:
            raise _shape_error(
                name, scores, "they must be (…, H, L, L)", "queries and keys are the last two axes"
            )
        if (heads := scores.shape[-3]) != self.num_heads:
            raise _shape_error(
                name, scores, f"this layer was made for H = {self.num_heads}", f"here H is {heads}"
            )
        return scores


def _rope_of(source: Any, length: int | None, interleaved: bool) -> tuple[Rope, int, bool, bool]:
    """Of a Rope, a model or an encoding: scheme, head dim, are pairs interleaved, do the last channels rotate."""
    encoding = source.one() if hasattr(source, "one") else source
    if hasattr(encoding, "frequency_rope"):
        if encoding.layout not in ("halves", "interleaved"):
            rule = f"its layout of pairs is {encoding.layout}, and this layer has halves and interleaved"
            raise ParameterError("rope", encoding.layer_type or "the model", rule)
        rope = encoding.frequency_rope(length)
        return (
            rope,
            encoding.head_dim or rope.dim,
            encoding.layout == "interleaved",
            encoding.trailing,
        )
    if getattr(source, "applied_as", None) != "rotation":
        raise KindError(
            "rope", repr(source)[:60], "it must be a Rope, a model, or an encoding of one"
        )
    takes_length = "length" in source.scaling_value.names()
    rope = replace(source, length=length or source.effective_length) if takes_length else source
    return rope, source.dim, interleaved, False


class RotaryPosEmbedding(_Layer):
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
        self.embed_dim: int | None = (
            None if embed_dim is None else _ROTARY_DIM.check("embed_dim", embed_dim)
        )
        self.max_seq_len: int | None = (
            None if max_seq_len is None else _SEQ_LEN.check("max_seq_len", max_seq_len)
        )
        self.interleaved: bool = Flag("which channels make a pair").check(
            "interleaved", interleaved
        )
        self.rope: Rope | None = None
        self._trailing = False
        if rope is not None:
            self.rope, dim, self.interleaved, self._trailing = _rope_of(
                rope, self.max_seq_len, self.interleaved
            )
            if self.embed_dim not in (None, dim):
                raise ParameterError(
                    "embed_dim", embed_dim, f"the rope is for D = {dim}", "leave it out"
                )
            self.embed_dim, base = dim, self.rope.base
        self.base: float = Rope(1, self.embed_dim or 2, _BASE.check("base", base)).base
        self._cache: dict[tuple[Rope, str], RotationFactors] = {}
        self._called: _Rotated = (None, range(0))
        self._applied: tuple[_Rotated, _Rotated] = (self._called, self._called)

    def __call__(self, x: ArrayLike, position_ids: ArrayLike | None = None) -> NDArray[Any]:
        """x (…, L, D), rotated: row l by the angles of position l, or of position_ids[l]."""
        x = self._input("x", x)
        positions = (
            self._range("x", x, 0) if position_ids is None else self._ids(position_ids, x.shape[-2])
        )
        out = self._rotate(x, positions)
        self._called = (x.shape, positions)
        return out

    def apply(
        self, q: ArrayLike, k: ArrayLike, offset: int = 0
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """q and k, (…, L, D) each, rotated: row l by the angles of position offset + l. They share only D."""
        q, k = self._input("q", q), self._input("k", k)
        if q.shape[-1] != k.shape[-1]:
            raise _shape_error(
                "k", k, f"q is of shape {q.shape}", "they must share D, the last axis"
            )
        offset = _OFFSET.check("offset", offset)
        q_positions, k_positions = self._range("q", q, offset), self._range("k", k, offset)
        rotated = self._rotate(q, q_positions), self._rotate(k, k_positions)
        self._applied = ((q.shape, q_positions), (k.shape, k_positions))
        return rotated

    def backward(self, grad: ArrayLike) -> NDArray[Any]:
        """The gradient for the input of the last `layer(x)`; `apply_backward` gives those of `apply`."""
        shape, positions = self._called
        advice = "call the layer first, or take apply_backward for the gradients of apply"
        return self._rotate(_gradient(grad, shape, advice=advice), positions, back=True)

    def apply_backward(
        self, grad_q: ArrayLike, grad_k: ArrayLike
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The gradients for the q and k of the last `apply`, given those for its outputs."""
        (q_shape, q_positions), (k_shape, k_positions) = self._applied
        grad_q = _gradient(grad_q, q_shape, "grad_q", "call apply first")
        grad_k = _gradient(grad_k, k_shape, "grad_k", "call apply first")
        return self._rotate(grad_q, q_positions, back=True), self._rotate(
            grad_k, k_positions, back=True
        )

    def _input(self, name: str, value: ArrayLike) -> NDArray[Any]:
        x = floating(name, value)
        if x.ndim < 2:
            raise _shape_error(name, x, "it must be (…, L, D)", "a single row is x[None, :]")
        dim = x.shape[-1]
        if self.embed_dim not in (None, dim):
            raise _shape_error(
                name, x, f"this layer was made for D = {self.embed_dim}", "D is the last axis"
            )
        if dim % 2:
            raise _shape_error(
                name, x, "channels rotate in pairs", "D, the last axis, must be even"
            )
        _ROTARY_DIM.check(f"D, the last axis of {name},", dim)
        return x

    def _range(self, name: str, x: NDArray[Any], offset: int) -> range:
        last = max(0, offset + x.shape[-2] - 1)
        given = f"of shape {x.shape}" + (f" at offset {offset}" if offset else "")
        self._check_position(last, name, given, f", and the last of these would be {last}")
        return range(offset, offset + x.shape[-2])

    def _ids(self, position_ids: ArrayLike, length: int) -> NDArray[np.int64]:
        ids = as_numpy("position_ids", position_ids)
        if not ids.size and not isinstance(position_ids, np.ndarray):
            ids = ids.astype(np.int64)  # NumPy takes an empty list for floats
        if ids.dtype.kind not in "iu":
            raise KindError("position_ids", f"of dtype {ids.dtype}", "positions are integers")
        if ids.shape != (length,):
            raise _shape_error(
                "position_ids",
                ids,
                f"x has L = {length} rows",
                f"they must be of shape ({length},)",
            )
        for index in (ids.argmin(), ids.argmax()) if ids.size else ():
            self._check_position(int(ids[index]), "position_ids", f"{ids[index]} at index {index}")
        return ids.astype(np.int64)

    def _check_position(self, position: int, name: str, given: str, which: str = "") -> None:
        last = LAST_POSITION if self.max_seq_len is None else self.max_seq_len - 1
        if not 0 <= position <= last:
            limit = (
                "be at most 2^40"
                if self.max_seq_len is None
                else f"stay below max_seq_len = {self.max_seq_len}"
            )
            raise ParameterError(name, given, f"positions must be 0 or more and {limit}{which}")

    def _rotate(self, x: NDArray[Any], positions: Positions, *, back: bool = False) -> NDArray[Any]:
        if not x.size:
            return np.empty(x.shape, x.dtype)
        rope = self.rope or Rope(1, x.shape[-1], self.base)
        key = (rope, _compute_dtype(x.dtype))
        if key not in self._cache:
            self._cache[key] = RotationFactors(
                *key, exact=key[1] == "float64", limit=self.max_seq_len or 0
            )
        factors = self._cache[key].at(positions)
        factors = factors.conj() if back else factors
        layout = "interleaved" if self.interleaved else "halves"
        first = x.shape[-1] - rope.rotary_dim if self._trailing else 0
        return rotate(
            x, lambda start, stop: factors[start:stop], layout, layout, first_channel=first
        )
