"""The layers a model would use, over exact tables: NumPy in, NumPy out.

Every layer keeps the dtype of its input, leaves the input untouched, returns new arrays, and has
`backward(grad)` for its last call. float64 and float32 are computed as they are; float16 and
bfloat16 in float32, rounded once at the end.
"""

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from pecli.engine.application import LAYOUTS, rotate
from pecli.engine.arguments import within_limits
from pecli.engine.arrays import AnyArray, as_numpy, dtype_name, floating, round_to
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.given_positions import LAST_POSITION
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.parameters import Flag, ParameterRule, Whole
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.rotation_factors import Positions, RotationFactors
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.errors import KindError, ParameterError, quoted

_SEQ_LEN = Sinusoidal.parameters()["seq_len"]
_DIM = Sinusoidal.parameters()["dim"]
_HEADS = Alibi.parameters()["heads"]
_KEYS = Alibi.parameters()["seq_len"]
_SEED = LearnedInit.parameters()["seed"]
_ROTARY_DIM = Rope.parameters()["dim"]
_BASE = Rope.parameters()["base"]
_DEFAULT_BASE = 10000.0
_INTERLEAVED = Flag("which channels make a pair")
_OFFSET = Whole("the position, or the row of a table, for the first row", low=0, high=LAST_POSITION)


@within_limits
def sinusoidal_pos_embedding(
    seq_len: int, embed_dim: int, dtype: DTypeLike | None = None
) -> AnyArray:
    """Return the sinusoidal table of «Attention Is All You Need» (Vaswani et al., 2017).

    Channel 2i is sin(p / 10000^(2i/D)), channel 2i + 1 the cosine of the same angle; an odd D ends
    on a sine (https://arxiv.org/abs/1706.03762).

    Args:
        seq_len: rows of the table, positions 0, 1, …
        embed_dim: channels of a row, D.
        dtype: float64, float32 (the default), float16 or bfloat16.

    Returns:
        A new array (seq_len, embed_dim); each number is the true value, rounded once to `dtype`.

    Raises:
        ValueError: seq_len or embed_dim is not positive, or too large.

    >>> sinusoidal_pos_embedding(2, 3, "float64").round(4).tolist()
    [[0.0, 1.0, 0.0], [0.8415, 0.5403, 0.0022]]
    """
    seq_len = _SEQ_LEN.check("seq_len", seq_len)
    embed_dim = _DIM.check("embed_dim", embed_dim)
    return Sinusoidal(seq_len, embed_dim, dtype=_or_float32(dtype)).tables()["pe"]


def _or_float32(dtype: DTypeLike | None) -> str:
    """Return a dtype for a scheme, which checks it and accepts every spelling that NumPy does."""
    return "float32" if dtype is None else cast(str, dtype)


def _optional(parameter: ParameterRule, name: str, value: int | None) -> int | None:
    """Return a checked number, None if there is none."""
    if value is None:
        return None
    number: int = parameter.check(name, value)
    return number


def _gradient(
    grad: ArrayLike,
    shape: tuple[int, ...] | None,
    name: str = "grad",
    advice: str = "call the layer first",
) -> AnyArray:
    """Return a gradient as an array, or raise ParameterError if it is not one of the last output.

    Args:
        grad: The gradient that the caller passed.
        shape: The shape of the last output; None if the layer has not been called.
        name: The argument's name, for the message.
        advice: What to do if there was no call.
    """
    if shape is None:
        raise ParameterError(name, "without a call", "gradients belong to the last call", advice)
    array = floating(name, grad)
    if array.shape != shape:
        rule = f"the last output was of shape {shape}"
        raise _shape_error(name, array, rule, "they must be the same")
    return array


def _shape_error(name: str, array: AnyArray, rule: str, advice: str = "") -> ParameterError:
    return ParameterError(name, f"of shape {array.shape}", rule, advice)


def _check_size(
    name: str, array: AnyArray, letter: str, expected: int | None, size: int, advice: str
) -> None:
    """Raise ParameterError if an axis of an input is not as long as a layer was made for.

    Args:
        name: The argument's name.
        array: The argument.
        letter: The letter for the axis in the documentation: L, D or H.
        expected: The size that the layer was made for; None accepts any.
        size: The size of the axis.
        advice: What to do, for the message.
    """
    if expected not in (None, size):
        raise _shape_error(name, array, f"this layer was made for {letter} = {expected}", advice)


def _compute_dtype(*dtypes: np.dtype[np.generic]) -> str:
    """Return the dtype of the arithmetic: float64 if one of the operands is, else float32."""
    is_double = any(dtype_name(dtype) == "float64" for dtype in dtypes)
    return "float64" if is_double else "float32"


class _LayerWithRepr:
    """A layer whose repr has the arguments that are not at their defaults."""

    def __repr__(self) -> str:
        """Return the call that makes the layer, without arguments that have their defaults."""
        parts = []
        for name, parameter in signature(type(self)).parameters.items():
            # Arguments such as `table` become weights, and are not shown.
            if not hasattr(self, name):
                continue
            value = getattr(self, name)
            if value != parameter.default:
                parts.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


class _Additive(_LayerWithRepr):
    """A layer that adds a table: the gradient of its input is that of its last output."""

    _shape: tuple[int, ...] | None = None

    def _sum(self, x: AnyArray, table: AnyArray) -> AnyArray:
        """Return x + table, each sum computed in the wider dtype and rounded once."""
        self._shape = x.shape
        out = np.empty(x.shape, x.dtype)
        np.add(x, table, out=out, dtype=_compute_dtype(x.dtype, table.dtype), casting="unsafe")
        return out


def _sequences(value: ArrayLike) -> AnyArray:
    """Return the input of a layer as an array (L, D) or (N, L, D), or raise ParameterError."""
    array = floating("x", value)
    if array.ndim not in (2, 3):
        raise _shape_error("x", array, "it must be (L, D) or (N, L, D)")
    return array


class SinusoidalPosEmbedding(_Additive):
    """A layer that adds sinusoidal encodings to its input (Vaswani et al., 2017).

    The paper is https://arxiv.org/abs/1706.03762.

    Args:
        seq_len: the length L of every input; None accepts any length.
        embed_dim: the channels D of every input; None accepts any number.

    Raises:
        ValueError: seq_len or embed_dim is not positive, or too large.

    >>> layer = SinusoidalPosEmbedding(embed_dim=4)
    >>> x = np.zeros((1, 2, 4), np.float32)
    >>> bool((layer(x) == sinusoidal_pos_embedding(2, 4)).all())
    True
    """

    def __init__(self, seq_len: int | None = None, embed_dim: int | None = None) -> None:
        self.seq_len: int | None = _optional(_SEQ_LEN, "seq_len", seq_len)
        self.embed_dim: int | None = _optional(_DIM, "embed_dim", embed_dim)
        self._cache: dict[tuple[int, str], AnyArray] = {}

    def __call__(self, x: ArrayLike) -> AnyArray:
        """Return x + PE[:L].

        Args:
            x: a floating array (L, D) or (N, L, D).

        Raises:
            ValueError: x has another shape than the layer was made for.
            TypeError: x is not floating.
        """
        x = _sequences(x)
        *_, length, dim = x.shape
        _check_size("x", x, "L", self.seq_len, length, "seq_len=None takes any length")
        _check_size("x", x, "D", self.embed_dim, dim, "embed_dim=None takes any D")
        _DIM.check("D, the last axis of x,", dim)
        if not x.size:
            return self._sum(x, x)
        return self._sum(x, self._rows(length, dim, _compute_dtype(x.dtype)))

    def backward(self, grad: ArrayLike) -> AnyArray:
        """Return the gradient for the last input: that of the output, as the table is constant."""
        return _gradient(grad, self._shape).copy()

    def get_encoding(self, seq_len: int | None = None) -> NDArray[np.float32]:
        """Return the float32 table (seq_len, embed_dim) as a new array.

        Args:
            seq_len: the number of positions, by default the layer's own.

        Raises:
            ValueError: the layer has no embed_dim, or neither it nor the call has a length.
        """
        rule = "a table without input needs it"
        if self.embed_dim is None:
            advice = "make the layer with embed_dim, or call sinusoidal_pos_embedding"
            raise ParameterError("embed_dim", "not set", rule, advice)
        if seq_len is None:
            seq_len = self.seq_len
        if seq_len is None:
            raise ParameterError("seq_len", "not set", rule, "give it here or to the layer")
        return self._rows(_SEQ_LEN.check("seq_len", seq_len), self.embed_dim, "float32").copy()

    def _rows(self, length: int, dim: int, dtype: str) -> AnyArray:
        """Return the first rows of the table, which is kept, and at least doubled when it grows.

        Inputs that grow by a row per call, as in generation, then make few tables.
        """
        key = (dim, dtype)
        no_rows = np.empty((0, dim))
        table = self._cache.get(key, no_rows)
        if length > len(table):
            rows = max(length, 2 * len(table))
            table = Sinusoidal(rows, dim, dtype=dtype).tables()["pe"]
            self._cache[key] = table
        return table[:length]


class LearnedPosEmbedding(_Additive):
    """A layer that adds rows of a learned table, as in BERT (Devlin et al., 2019).

    Update `weight` in place to train.

    Args:
        max_len: rows of the table.
        embed_dim: channels of a row; `dim` is the same argument.
        table: floating weights (max_len, embed_dim), which are copied. Without them, weights are
            drawn from N(0, 0.02²) in float32, as `LearnedInit` does: the same seed gives the same
            weights on every machine.
        seed: seed of the random numbers; left out if a `table` is given.

    Raises:
        ValueError: a number is out of range, the table has another shape, or it is given with a
            seed.

    >>> layer = LearnedPosEmbedding(3, 2, table=np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]))
    >>> layer(np.ones((2, 2)), offset=1).tolist()
    [[3.0, 4.0], [5.0, 6.0]]
    >>> grad_x, grad_table = layer.backward(np.full((2, 2), 0.5))
    >>> grad_table.tolist()
    [[0.0, 0.0], [0.5, 0.5], [0.5, 0.5]]
    """

    def __init__(
        self,
        max_len: int,
        embed_dim: int | None = None,
        table: ArrayLike | None = None,
        seed: int = 0,
        *,
        dim: int | None = None,
    ) -> None:
        """Take a copy of the table, or make the initial weights of the seed."""
        is_given_once = (embed_dim is None) != (dim is None)
        if not is_given_once:
            rule = "it must be given, by this name or as `dim`"
            raise ParameterError("embed_dim", embed_dim, rule)
        self.max_len: int = _SEQ_LEN.check("max_len", max_len)
        self.embed_dim: int = _DIM.check("embed_dim", dim if embed_dim is None else embed_dim)
        seed = _SEED.check("seed", seed)
        self.weight: AnyArray
        if table is None:
            initial = LearnedInit(self.max_len, self.embed_dim, seed=seed)
            self.weight = initial.tables()["weight"]
        elif seed:
            raise ParameterError(
                "seed", seed, "weights of a `table` are not random", "leave it out"
            )
        else:
            self.weight = self._copied_weights(table)
        self._offset = 0  # of the last call, whose gradient `backward` returns

    def _copied_weights(self, table: ArrayLike) -> AnyArray:
        """Return the user's weights as a new array in C order, with the machine's byte order."""
        weights = floating("table", table)
        if weights.shape != (self.max_len, self.embed_dim):
            rule = f"max_len and embed_dim ask for ({self.max_len}, {self.embed_dim})"
            raise _shape_error("table", weights, rule, "give them the table's own shape")
        return np.array(weights, weights.dtype.newbyteorder("="), order="C")

    def __call__(self, x: ArrayLike, offset: int = 0) -> AnyArray:
        """Return x + weight[offset : offset + L].

        Args:
            x: a floating array (L, D) or (N, L, D).
            offset: the row of the table for the first position of x.

        Raises:
            ValueError: x has another D, or the rows end beyond the table.
            TypeError: x is not floating.
        """
        x = _sequences(x)
        *_, length, dim = x.shape
        _check_size("x", x, "D", self.embed_dim, dim, f"D is the last axis, here {dim}")
        offset = _OFFSET.check("offset", offset)
        end = offset + length
        if end > self.max_len:
            rule = f"with L = {length} it asks for rows up to {end} of a table of {self.max_len}"
            advice = "give a shorter input, or a layer with a larger max_len"
            raise ParameterError("offset", offset, rule, advice)
        self._offset = offset
        return self._sum(x, self.weight[offset:end])

    def backward(self, grad: ArrayLike) -> tuple[AnyArray, AnyArray]:
        """Return the gradients for the last input, the same as `grad`, and for the whole table.

        The gradient for the table has its dtype. It is summed over the batch in float64, rounded
        once, and zero in the rows that were not used.
        """
        grad = _gradient(grad, self._shape)
        batches = grad if grad.ndim == 3 else grad[None]
        rows = batches.sum(axis=0, dtype=np.float64)
        table = np.zeros_like(self.weight)
        table[self._offset : self._offset + len(rows)] = round_to(rows, dtype_name(table.dtype))
        return grad.copy(), table


class AlibiBias(_Additive):
    """A layer that adds linear biases to attention scores (ALiBi; Press et al., 2022).

    The paper is https://arxiv.org/abs/2108.12409.

    The bias of query i and key j is −slope·|i − j|, the same in both directions; a causal mask is
    not part of it. Slopes follow the paper's rule, also if heads are not a power of two.

    Args:
        num_heads: attention heads, H.

    Raises:
        ValueError: num_heads is not positive, or too large.

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

    def get_bias(self, seq_len: int, dtype: DTypeLike | None = None) -> AnyArray:
        """Return the bias (num_heads, seq_len, seq_len) as a new array.

        Args:
            seq_len: queries and keys.
            dtype: float64, float32 (the default), float16 or bfloat16.
        """
        keys = _KEYS.check("seq_len", seq_len)
        scheme = Alibi(self.num_heads, keys, dtype=_or_float32(dtype))
        return scheme.single_array().array()

    def __call__(self, scores: ArrayLike) -> AnyArray:
        """Return scores + bias.

        Args:
            scores: a floating array (…, H, L, L).

        Raises:
            ValueError: the scores have another shape.
            TypeError: the scores are not floating.
        """
        scores = self._scores("scores", scores)
        self._shape = scores.shape
        out = np.empty(scores.shape, scores.dtype)
        length = scores.shape[-1]
        _KEYS.check("L", length or 1)
        if length:
            self._add_bias(scores, out)
        return out

    def _add_bias(self, scores: AnyArray, out: AnyArray) -> None:
        """Write scores + bias into `out`, both (…, heads, L, L): in the wider dtype, rounded once.

        Only the bias of one head is in memory at a time.
        """
        length = scores.shape[-1]
        dtype = _compute_dtype(scores.dtype)
        bias, _slopes = Alibi(self.num_heads, length, dtype=dtype).tensors()
        for head in range(self.num_heads):
            first_row = head * length  # The table has the rows of head 0, then those of head 1, …
            np.add(
                scores[..., head, :, :],
                # The bias of a head has no name, so that it is freed before the next one is made.
                bias.read(first_row, first_row + length),
                out=out[..., head, :, :],
                dtype=dtype,
                casting="unsafe",
            )

    def backward(self, grad: ArrayLike) -> AnyArray:
        """Return the gradient for the last scores: the same.

        Without a call, gradients of any sums with `get_bias` are accepted.
        """
        if self._shape is None:
            return self._scores("grad", grad).copy()
        return _gradient(grad, self._shape).copy()

    def _scores(self, name: str, value: ArrayLike) -> AnyArray:
        """Return attention scores as an array (…, H, L, L), or raise ParameterError."""
        scores = floating(name, value)
        if scores.ndim < 3 or scores.shape[-1] != scores.shape[-2]:
            advice = "queries and keys are the last two axes"
            raise _shape_error(name, scores, "they must be (…, H, L, L)", advice)
        heads = scores.shape[-3]
        _check_size(name, scores, "H", self.num_heads, heads, f"here H is {heads}")
        return scores


class _HeadRope(NamedTuple):
    """A rotary scheme, and the channels of a head that it rotates."""

    rope: Rope
    head_dim: int
    interleaved: bool | None  #: None if it does not state which channels make a pair
    trailing: bool  #: True if the last channels of the head rotate, not the first


@runtime_checkable
class EncodingOfModel(Protocol):
    """A rotary encoding of a model, as `pecli.load_model` reads it."""

    @property
    def layer_type(self) -> str: ...
    @property
    def layout(self) -> str | None: ...
    @property
    def head_dim(self) -> int | None: ...
    @property
    def trailing(self) -> bool: ...

    def frequency_rope(self, length: int | None = None) -> Rope: ...


@runtime_checkable
class ModelOfOneEncoding(Protocol):
    """A model; `one` returns its only encoding, or raises an error if it has several."""

    def one(self) -> object: ...


def _rope_of_source(source: object, length: int | None) -> _HeadRope:
    """Return the scheme of a Rope, of a model with one encoding, or of an encoding of a model.

    Args:
        source: The argument `rope` of a layer.
        length: The context for which a scaling is evaluated; None for the one that `source` states.

    Raises:
        KindError: It is none of these.
        ParameterError: A layer cannot rotate as it states.
    """
    encoding = source.one() if isinstance(source, ModelOfOneEncoding) else source
    if isinstance(encoding, EncodingOfModel):
        return _rope_of_encoding(encoding, length)
    if isinstance(source, Scheme) and source.applied_as == "rotation":
        return _rope_of_scheme(cast(Rope, source), length)
    rule = "it must be a Rope, a model, or an encoding of one"
    raise KindError("rope", quoted(source), rule)


def _rope_of_scheme(scheme: Rope, length: int | None) -> _HeadRope:
    """Return the rope of a scheme, for a context of `length` positions.

    Only tables with a column per channel state which channels make a pair: `halves` and
    `interleaved` do, `compact` does not. A table may begin at any position, and a layer at 0.
    """
    if scheme.offset:
        rule = "the layer counts positions from 0"
        advice = "leave it out of the Rope, and give `offset` to apply, or position_ids"
        raise ParameterError("rope", f"a Rope with the offset {scheme.offset}", rule, advice)
    states_pairs = scheme.layout in LAYOUTS
    return _HeadRope(
        _rope_for_length(scheme, length),
        head_dim=scheme.dim,
        interleaved=scheme.layout == "interleaved" if states_pairs else None,
        trailing=False,
    )


def _rope_for_length(rope: Rope, length: int | None) -> Rope:
    """Return a rope whose scaling is evaluated for a context; its own if the length is None."""
    depends_on_length = "length" in rope.scaling_value.names()
    if not depends_on_length:
        return rope
    return replace(rope, length=length or rope.effective_length)


def _rope_of_encoding(encoding: EncodingOfModel, length: int | None) -> _HeadRope:
    """Return the rope of a model's encoding, for a context of `length` positions.

    DeepSeek's layout, which reads pairs and writes halves, is refused: this layer keeps a layout.
    """
    if encoding.layout not in ("halves", "interleaved"):
        rule = (
            f"its layout of pairs is {encoding.layout}, and this layer has halves and interleaved"
        )
        raise ParameterError("rope", encoding.layer_type or "the model", rule)
    rope = encoding.frequency_rope(length)
    return _HeadRope(
        rope,
        head_dim=encoding.head_dim or rope.dim,
        interleaved=encoding.layout == "interleaved",
        trailing=encoding.trailing,
    )


def _base_for(dim: int, base: float) -> float:
    """Return a checked base: a scheme refuses one whose frequencies are too large or too small."""
    return Rope(1, dim, _BASE.check("base", base)).base


class _LastCall(NamedTuple):
    """The shape of a rotated array, None before any call, and the position of each row."""

    shape: tuple[int, ...] | None = None
    positions: Positions = range(0)


class RotaryPosEmbedding(_LayerWithRepr):
    """A layer that rotates queries and keys (RoPE; Su et al., 2021).

    The paper is https://arxiv.org/abs/2104.09864.

    Pair i of the D channels is rotated by the angle position · base^(−2i/D).

    Args:
        embed_dim: D, even, that every input must have (the head dim, in attention); None accepts
            any.
        max_seq_len: positions stay below this, and the first call computes the cos/sin table for
            all of them.
        interleaved: a pair is channels (2i, 2i + 1), as in Meta's Llama; otherwise (i, i + D/2), as
            in Hugging Face's.
        base: theta, the base of the frequencies.
        rope: instead of the base, a `Rope` with its scaling and partial rotation, a model, or one
            of its encodings. D and the base are its own, and so is which channels make a pair,
            unless the Rope is `compact` (the default). Scalings that depend on the length are
            evaluated at max_seq_len; without one, as the Rope states, or as a model is before any
            call.

    Raises:
        ValueError: an argument is out of range, or contradicts `rope`; or the Rope has an offset.

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
        self,
        embed_dim: int | None = None,
        max_seq_len: int | None = None,
        interleaved: bool = True,
        base: float = _DEFAULT_BASE,
        *,
        rope: Rope | EncodingOfModel | ModelOfOneEncoding | None = None,
    ) -> None:
        """Check the arguments, which the class documents; no table is computed before a call."""
        self.embed_dim: int | None = _optional(_ROTARY_DIM, "embed_dim", embed_dim)
        self.max_seq_len: int | None = _optional(_SEQ_LEN, "max_seq_len", max_seq_len)
        self.interleaved: bool = _INTERLEAVED.check("interleaved", interleaved)
        self.rope: Rope | None = None
        self._trailing = False  # True if the last channels of a head rotate, not the first
        self.base: float = _base_for(self.embed_dim or 2, base)
        if rope is not None:
            self._adopt(_rope_of_source(rope, self.max_seq_len))
        self._cache: dict[tuple[Rope, str], RotationFactors] = {}
        # The shapes and positions of the last calls, for gradients: of the layer, and of `apply`.
        self._called = _LastCall()
        self._applied = (_LastCall(), _LastCall())

    def _adopt(self, head: _HeadRope) -> None:
        """Set the scheme, D, the base and the layout of pairs of this layer.

        Raises ParameterError if an argument of the layer is neither at its default nor the same.
        """
        if self.embed_dim not in (None, head.head_dim):
            rule = f"the rope is for D = {head.head_dim}"
            raise ParameterError("embed_dim", self.embed_dim, rule, "leave it out")
        if self.base not in (_DEFAULT_BASE, head.rope.base):
            rule = f"the rope has the base {head.rope.base}"
            raise ParameterError("base", self.base, rule, "leave it out")
        if head.interleaved and not self.interleaved:
            raise ParameterError("interleaved", False, "the rope is interleaved", "leave it out")
        self.rope = head.rope
        self.embed_dim = head.head_dim
        self.base = head.rope.base
        if head.interleaved is not None:
            self.interleaved = head.interleaved
        self._trailing = head.trailing

    def __call__(self, x: ArrayLike, position_ids: ArrayLike | None = None) -> AnyArray:
        """Return x rotated: row l by the angles of position l, or of position_ids[l].

        Args:
            x: a floating array (…, L, D).
            position_ids: integers (L,).

        Raises:
            ValueError: x has another D, or a position is out of range.
            TypeError: x is not floating, or positions are not integers.
        """
        x = self._input("x", x)
        positions: Positions
        if position_ids is None:
            positions = self._consecutive_positions("x", x, 0)
        else:
            positions = self._checked_ids(position_ids, x.shape[-2])
        out = self._rotated(x, positions)
        self._called = _LastCall(x.shape, positions)
        return out

    def apply(self, q: ArrayLike, k: ArrayLike, offset: int = 0) -> tuple[AnyArray, AnyArray]:
        """Return q and k rotated: row l by the angles of position offset + l.

        Args:
            q: a floating array (…, L, D).
            k: a floating array (…, L, D); it shares only D with q.
            offset: the position of the first rows.

        Raises:
            ValueError: D differs, or a position is out of range.
            TypeError: q or k is not floating.
        """
        q = self._input("q", q)
        k = self._input("k", k)
        if q.shape[-1] != k.shape[-1]:
            advice = "they must share D, the last axis"
            raise _shape_error("k", k, f"q is of shape {q.shape}", advice)
        offset = _OFFSET.check("offset", offset)
        q_positions = self._consecutive_positions("q", q, offset)
        k_positions = self._consecutive_positions("k", k, offset)
        rotated_q = self._rotated(q, q_positions)
        rotated_k = self._rotated(k, k_positions)
        self._applied = (_LastCall(q.shape, q_positions), _LastCall(k.shape, k_positions))
        return rotated_q, rotated_k

    def backward(self, grad: ArrayLike) -> AnyArray:
        """Return the gradient for the input of the last `layer(x)`, not of `apply`."""
        advice = "call the layer first, or take apply_backward for the gradients of apply"
        grad = _gradient(grad, self._called.shape, advice=advice)
        return self._rotated_back(grad, self._called.positions)

    def apply_backward(self, grad_q: ArrayLike, grad_k: ArrayLike) -> tuple[AnyArray, AnyArray]:
        """Return the gradients for the q and k of the last `apply`, given those for its outputs."""
        last_q, last_k = self._applied
        grad_q = _gradient(grad_q, last_q.shape, "grad_q", "call apply first")
        grad_k = _gradient(grad_k, last_k.shape, "grad_k", "call apply first")
        return (
            self._rotated_back(grad_q, last_q.positions),
            self._rotated_back(grad_k, last_k.positions),
        )

    def _input(self, name: str, value: ArrayLike) -> AnyArray:
        """Return an input as an array (…, L, D) with an even D, or raise ParameterError."""
        x = floating(name, value)
        if x.ndim < 2:
            raise _shape_error(name, x, "it must be (…, L, D)", "a single row is x[None, :]")
        dim = x.shape[-1]
        _check_size(name, x, "D", self.embed_dim, dim, "D is the last axis")
        if dim % 2:
            advice = "D, the last axis, must be even"
            raise _shape_error(name, x, "channels rotate in pairs", advice)
        _ROTARY_DIM.check(f"D, the last axis of {name},", dim)
        return x

    def _consecutive_positions(self, name: str, x: AnyArray, offset: int) -> range:
        """Return the positions offset, offset + 1, … of the rows of x (…, L, D).

        Raises ParameterError if the last of them is out of range; `name` is the argument's name.
        """
        length = x.shape[-2]
        last = max(0, offset + length - 1)
        description = f"of shape {x.shape}"
        if offset:
            description += f" at offset {offset}"
        self._check_position(last, name, description, f", and the last of these would be {last}")
        return range(offset, offset + length)

    def _checked_ids(self, position_ids: ArrayLike, length: int) -> NDArray[np.int64]:
        """Return position_ids as integers (length,), or raise an error if they are not positions.

        Only the least and the largest are compared with the limits: all others lie between them.
        """
        ids = as_numpy("position_ids", position_ids)
        if ids.size and ids.dtype.kind not in "iu":  # NumPy takes an empty list for floats.
            raise KindError("position_ids", f"of dtype {ids.dtype}", "positions are integers")
        if ids.shape != (length,):
            rule = f"x has L = {length} rows"
            raise _shape_error("position_ids", ids, rule, f"they must be of shape ({length},)")
        if ids.size:
            self._check_id(ids, int(ids.argmin()))
            self._check_id(ids, int(ids.argmax()))
        return ids.astype(np.int64)

    def _check_id(self, ids: AnyArray, index: int) -> None:
        """Raise ParameterError if the position id of a row is out of range."""
        position = int(ids[index])
        self._check_position(position, "position_ids", f"{position} at index {index}")

    def _check_position(
        self, position: int, name: str, description: str, explanation: str = ""
    ) -> None:
        """Raise ParameterError if a position is negative, or beyond what this layer accepts.

        Args:
            position: The position.
            name: The argument that it comes from.
            description: The value of that argument, for the message.
            explanation: The end of the message, if the argument does not show the position.
        """
        if self.max_seq_len is None:
            last = LAST_POSITION
            limit = "be at most 2^40"
        else:
            last = self.max_seq_len - 1
            limit = f"stay below max_seq_len = {self.max_seq_len}"
        if not 0 <= position <= last:
            rule = f"positions must be 0 or more and {limit}{explanation}"
            raise ParameterError(name, description, rule)

    def _rotated(self, x: AnyArray, positions: Positions) -> AnyArray:
        """Return x (…, L, D), of which row l is rotated by the angles of positions[l]."""
        return self._multiplied(x, positions, lambda factors: factors)

    def _rotated_back(self, grad: AnyArray, positions: Positions) -> AnyArray:
        """Return the gradient (…, L, D) of the input of a rotation, given that of its output.

        The transpose of a rotation is the rotation by minus the angle, whose factors are
        conjugated.
        """
        return self._multiplied(grad, positions, np.conj)

    def _rope_for(self, x: AnyArray) -> Rope:
        """Return the layer's own scheme, or the plain one for the channels of x (…, L, D)."""
        return self.rope or Rope(1, x.shape[-1], self.base)

    def _multiplied(
        self, x: AnyArray, positions: Positions, changed: Callable[[AnyArray], AnyArray]
    ) -> AnyArray:
        """Return x (…, L, D) with its rotary channels multiplied by the factors of positions.

        A pair of channels is multiplied as a complex number; other channels are copied.

        Args:
            x: The array.
            positions: The position of each row.
            changed: Returns the factors (L, d/2) by which pairs are multiplied, from those that
                rotate them.
        """
        if not x.size:
            return np.empty(x.shape, x.dtype)
        rope = self._rope_for(x)
        factors = changed(self._factors(rope, _compute_dtype(x.dtype)).at(positions))
        layout = "interleaved" if self.interleaved else "halves"
        first_channel = x.shape[-1] - rope.rotary_dim if self._trailing else 0
        return rotate(
            x,
            lambda start, stop: factors[start:stop],
            layout,
            layout,
            first_channel=first_channel,
        )

    def _factors(self, rope: Rope, dtype: str) -> RotationFactors:
        """Return the factors of a scheme, which are kept for the next calls."""
        key = (rope, dtype)
        if key not in self._cache:
            is_exact = dtype == "float64"
            limit = self.max_seq_len or 0
            self._cache[key] = RotationFactors(rope, dtype, exact=is_exact, limit=limit)
        return self._cache[key]
