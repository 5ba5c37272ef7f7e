"""`pecli.apply`: an encoding applied to an array; rotations at any positions, as a model asks for them."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pecli.engine.application import LAYOUTS, add_rows, rotate
from pecli.engine.arrays import Array, like, numbers
from pecli.engine.schemes import Choice, Flag, Whole
from pecli.engine.schemes.given_positions import LAST_POSITION, whole_positions
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.rotation_factors import Positions, RotationFactors
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import table_of
from pecli.errors import KindError, ParameterError
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, find_model
from pecli.tensors.head_layout import attention_of
from pecli.tensors.inputs import SEQ_AXIS, Input

OFFSET = Whole(
    help="the position, or the row of a table, for the first row", low=0, high=LAST_POSITION
)
LAYOUT = Choice(help="which channels make a pair", options=tuple(LAYOUTS))
SHIFT = Whole(help="positions to move by", low=-LAST_POSITION, high=LAST_POSITION)
AXIS = Whole(help="the axis of positions", low=-64, high=64)
FLAG = Flag(help="yes or no")
Apply = Callable[[Array], Array]


def apply(
    x: ArrayLike,
    encoding: Scheme | Model | ArrayLike,
    *,
    offset: int | None = None,
    positions: ArrayLike | None = None,
    attention_mask: ArrayLike | None = None,
    layout: str | None = None,
    trailing: bool = False,
    inverse: bool = False,
    shift: int | None = None,
    seq_axis: int | None = None,
    layer_type: str | None = None,
) -> Any:
    """x with an encoding applied as a model's layer does: in float64, rounded once to the dtype of x.

    The result is of the kind of x: NumPy, torch, JAX or MLX. A torch tensor keeps its device and has a gradient.

    Args:
        x: (…, L, D); for ALiBi and relative biases scores (…, H, Lq, Lk), whose queries come last.
        encoding: a scheme; a model (as `load_model` takes it), which rotates x; or a learned table (rows, D).
        offset: the position of the first row (0, or the scheme's own), or the first row of a learned table.
        positions: for rope, integers (L,) or (batch, L), for M-RoPE (axes, L) or (axes, batch, L), instead.
        attention_mask: (L,) or (batch, L) of 1 for tokens and 0 for padding; positions count the ones.
        layout: for rope, `halves`, `interleaved` or `deepseek`; the model's or the scheme's own, or halves.
        trailing: for rope, rotate the trailing channels where only some rotate.
        inverse: undo the rotation.
        shift: move what was rotated already by so many positions.
        seq_axis: for rope, the axis of positions, -2 unless given: -3 for (batch, L, heads, D).
        layer_type: the layers of a model that has several kinds.

    >>> apply(np.ones((2, 4)), Rope(seq_len=2, dim=4), offset=1).round(3).tolist()
    [[-0.301, 0.99, 1.382, 1.01], [-1.325, 0.98, 0.493, 1.02]]
    """
    if isinstance(x, Scheme):
        raise KindError(
            "x",
            f"a {type(x).__name__}",
            "the array comes first, then the encoding",
            "exchange them",
        )
    rules = {"layout": LAYOUT, "trailing": FLAG, "inverse": FLAG, "shift": SHIFT, "seq_axis": AXIS}
    fields = given(
        layout=layout, trailing=trailing, inverse=inverse, shift=shift, seq_axis=seq_axis
    )
    fields = {name: rules[name].check(name, value) for name, value in fields.items()}
    for_rope = fields | given(
        positions=positions, attention_mask=attention_mask, layer_type=layer_type
    )
    applied: Any = encoding
    if isinstance(encoding, Scheme) and applied.applied_as != "rotation":
        _refuse(for_rope | given(offset=offset), applied.name)
        return _same_kind(x, applied.applied_to)
    if (
        hasattr(applied, "__array__")
        or hasattr(applied, "__dlpack__")
        or isinstance(applied, (list, tuple))
    ):
        _refuse(for_rope, "a learned table")
        first = 0 if offset is None else OFFSET.check("offset", offset)
        weight = Input(numbers("the table", applied), "the table")
        return _same_kind(
            x, lambda array: add_learned(Input(array, "x"), weight, first), None, applied, first
        )
    rows = row_positions(positions, attention_mask, shift, offset)
    if isinstance(applied, Scheme) and offset is None and rows.ids is None:
        rows = RowPositions(applied.first_position)
    rotation = _rotation(x, applied, rows, layer_type, fields)
    back = replace(rotation, transposed=True)
    return _same_kind(
        x,
        lambda array: rotation.apply(Input(array, "x")),
        lambda array: back.apply(Input(array, "x")),
    )


def given(**options: Any) -> dict[str, Any]:
    """Those of the options that somebody has given: all but None, and flags that are not set."""
    return {
        name: value for name, value in options.items() if value is not None and value is not False
    }


def _rotation(
    x: Any, applied: Any, rows: "RowPositions", layer_type: str | None, fields: dict[str, Any]
) -> "RowRotation":
    """How a rotary scheme or a model rotates x; `fields` are those of a RowRotation that were given."""
    if getattr(applied, "applied_as", "") == "rotation":
        _refuse(given(layer_type=layer_type), "a scheme")
        layout = applied.layout if applied.layout in LAYOUTS else "halves"
        return RowRotation(applied, rows, **{"layout": layout, **fields})
    model = find_model(model=applied)
    encoding = model.one(layer_type)
    heads = (
        () if isinstance(applied, (ModelEncodings, Encoding)) else head_counts(applied, layer_type)
    )
    return model_rotation(
        [Input(numbers("x", x), "x")], model.file, encoding, rows, heads, fields, offset=rows.offset
    )


def _same_kind(
    x: Any, forward: Apply, transposed: Apply | None = None, weight: Any = None, first: int = 0
) -> Any:
    """forward(x) in the library of x. For torch it has a gradient: `transposed` of the result's, or that itself where
    something is added; rows of `weight`, from the first on, get that, too."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return like(x, forward(numbers("x", x)))

    class Applied(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, value: Any, table: Any) -> Any:
            return like(value, forward(numbers("x", value)))

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            back = gradient if transposed is None else _same_kind(gradient, transposed, forward)
            if not context.needs_input_grad[1]:
                return back, None
            rows = gradient.reshape(-1, *gradient.shape[-2:]).sum(0).to(weight)
            return back, torch.nn.functional.pad(
                rows, (0, 0, first, len(weight) - first - len(rows))
            )

    return Applied.apply(x, weight if isinstance(weight, torch.Tensor) else None)


def _refuse(options: Collection[str], what: str) -> None:
    for name in options:
        raise ParameterError(name, "given", f"{what} has no use for it", "leave it out")


def add_learned(tensor: Input, weight: Input, offset: int) -> Array:
    """x (…, L, D) plus rows offset … offset + L − 1 of a table (rows, D)."""
    length, dim = tensor.check_sequence()
    weight.check_floating()
    if len(weight.shape) != 2:
        raise weight.wrong("a table must be (rows, D)")
    if dim != weight.shape[1]:
        raise tensor.wrong(
            f"{weight.label} is of shape {weight.shape}", "they must share D, the last axis"
        )
    if offset + length > weight.shape[0]:
        asked = f"it asks for rows up to {offset + length} of {weight.shape[0]}"
        rule = f"with {tensor.label} of shape {tensor.shape} {asked}"
        raise ParameterError("offset", offset, rule, "take a longer table, or resize it")
    return add_rows(tensor.array, table_of("the table", weight.array), offset)


@dataclass(frozen=True, eq=False)
class RowPositions:
    """Positions from `offset` on, or those in `ids`: (L,), (batch, L), (axes, L) or (axes, batch, L)."""

    offset: int = 0
    ids: NDArray[np.int64] | None = None
    name: str = "positions"  #: what they were given as
    seen: NDArray[np.bool_] | None = None  #: which are no padding, where a mask was given

    def span(self, length: int) -> tuple[int, int]:
        if self.ids is None:
            return self.offset, self.offset + length
        return (int(self.ids.min()), int(self.ids.max()) + 1) if self.ids.size else (0, 0)

    def seq_len(self, length: int, given: Collection[str]) -> int | None:
        """Rows of a table that has all these positions; none where a scheme is given positions of its own."""
        if {"positions", "grid"} & {*given}:
            return None
        return max(1, length if self.ids is None else self.span(length)[1])

    def arranged(self, axes: int) -> NDArray[np.int64] | None:
        """The ids as (axes, batch, L), where axes and batch may be 1."""
        ids = self.ids
        if ids is None:
            return None
        known = ("(L,)", "(axes, L)", "(axes, batch, L)") if axes > 1 else ("(L,)", "(batch, L)")
        several = axes > 1 and ids.ndim > 1
        if not 1 <= ids.ndim <= len(known) or (several and len(ids) not in (1, axes)):
            rule = f"they must be {', '.join(known[:-1])} or {known[-1]}" + (
                f" with {axes} axes" if axes > 1 else ""
            )
            raise ParameterError(self.name, f"of shape {ids.shape}", rule)
        batch = ids.shape[-2] if ids.ndim - several > 1 else 1
        return ids.reshape(len(ids) if several else 1, batch, ids.shape[-1])

    def places(
        self, tensor: Input, seq_axis: int, axes: int = 1
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The positions of a tensor's rows (axes, batch, L), where batch may be 1, and which are no padding."""
        rows, shape = tensor.shape[seq_axis], f"{tensor.label} is of shape {tensor.shape}"
        ids, given_as = self.arranged(axes), f"of shape {getattr(self.ids, 'shape', ())}"
        if ids is None:
            if self.offset + rows - 1 > LAST_POSITION:
                rule = f"with {tensor.label} of shape {tensor.shape} it goes beyond 2^40"
                raise ParameterError("offset", self.offset, rule)
            ids = np.arange(self.offset, self.offset + rows)[None, None]
        if ids.shape[2] != rows:
            advice = "give `seq_axis` -3" if ids.shape[2] in tensor.shape[-3:-2] else ""
            raise ParameterError(self.name, given_as, f"{shape}, with L = {rows} rows", advice)
        if ids.shape[1] != 1 and (
            seq_axis % len(tensor.shape) == 0 or ids.shape[1] != tensor.shape[0]
        ):
            raise ParameterError(self.name, given_as, shape, "the first axis of both must agree")
        seen = (
            np.ones(ids.shape[1:], bool) if self.seen is None else self.seen.reshape(ids.shape[1:])
        )
        return np.broadcast_to(ids, (axes, *ids.shape[1:])), seen


def row_positions(
    positions: Any = None,
    attention_mask: Any = None,
    shift: int | None = None,
    offset: int | None = None,
) -> RowPositions:
    """Where rows stand, by at most one of these; a shift is the same wherever they are."""
    names = [*given(positions=positions, attention_mask=attention_mask, shift=shift, offset=offset)]
    if len(names) > 1:
        raise ParameterError(
            names[1], "given", f"`{names[0]}` says where rows stand", "leave out one of them"
        )
    if shift is not None:
        SHIFT.check("shift", shift)
    if attention_mask is not None:
        mask = numbers("attention_mask", attention_mask)
        if ((mask != 0) & (mask != 1)).any():
            given_as = f"of shape {mask.shape} and dtype {mask.dtype}"
            raise ParameterError("attention_mask", given_as, "it is 1 for tokens and 0 for padding")
        if not mask.any():
            raise ParameterError(
                "attention_mask", f"of shape {mask.shape}", "it has no token at all"
            )
        counted = np.maximum(np.cumsum(mask != 0, axis=-1) - 1, 0)
        return RowPositions(0, counted, "attention_mask", mask != 0)
    if positions is not None:
        return RowPositions(0, whole_positions("positions", positions))
    return RowPositions(0 if offset is None else OFFSET.check("offset", offset))


@dataclass(frozen=True, eq=False)
class RowRotation:
    """How tensors are rotated: by which scheme, at which positions along which axis, and which channels of a row.
    `shift` moves what was rotated already, `inverse` undoes a rotation, and `transposed` takes a gradient back."""

    rope: Rope
    rows: RowPositions
    layout: str = "halves"
    trailing: bool = False
    inverse: bool = False
    shift: int | None = None
    seq_axis: int = SEQ_AXIS
    transposed: bool = False

    @cached_property
    def _factors(self) -> dict[bool, RotationFactors]:
        """Exact ones for float64, and those for all other dtypes, which take less time."""
        return {
            exact: RotationFactors(self.rope, exact=exact, inverse=self.inverse)
            for exact in (True, False)
        }

    def check(self, tensor: Input) -> None:
        length, dim = tensor.check_sequence(self.seq_axis)
        rope = self.rope
        if self.shift is not None and self.inverse:
            raise ParameterError(
                "inverse", "given", "a shift goes either way", "change the sign of `shift`"
            )
        if dim < rope.rotary_dim:
            raise tensor.wrong(
                f"the rotary dimension is {rope.rotary_dim}", f"D, the last axis, is {dim}"
            )
        if not rope.is_range and (self.shift is not None or self.rows.ids is not None):
            name = self.rows.name if self.shift is None else "shift"
            raise ParameterError(
                name, "given", f"{rope.place()} says where rows stand", "leave it out"
            )
        if not rope.is_range and length != rope.seq_len:
            raise tensor.wrong(f"{rope.place()} has {rope.seq_len} rows", f"L is {length}")
        if self.shift is None:
            self.rows.places(tensor, self.seq_axis, rope.position_axes)

    def apply(self, tensor: Input) -> Array:
        """The tensor, rotated: one product in float64, rounded once to the tensor's dtype."""
        self.check(tensor)
        x = tensor.array
        out = np.empty(x.shape, x.dtype.newbyteorder("="))
        factors = self._factors[x.dtype == np.float64]
        takes, gives = LAYOUTS[self.layout]
        if self.shift is not None:  # the input is an output already
            takes = gives
        if self.inverse != self.transposed:
            takes, gives = gives, takes
        axis = self.seq_axis % x.ndim - x.ndim
        first = x.shape[-1] - self.rope.rotary_dim if self.trailing else 0
        if self.shift is None and x.size:
            factors.reserve(*self.rows.span(x.shape[axis]))

        def turns(positions: Positions, start: int, stop: int) -> NDArray[Any]:
            some = (
                factors.at(positions[start:stop])
                if self.shift is None
                else factors.shift(self.shift)
            )
            return some.conj() if self.transposed else some

        batches: Sequence[Positions] = [range(self.rows.offset, self.rows.offset + x.shape[axis])]
        if (
            ids := self.rows.arranged(self.rope.position_axes)
        ) is not None:  # of each sequence (L,), or (L, axes)
            batches = list(ids[0] if len(ids) == 1 else np.moveaxis(ids, 0, -1))
        parts = [(x, out)] if len(batches) == 1 else zip(x, out, strict=True)
        for (part, place), positions in zip(parts, batches, strict=True):
            at = partial(turns, positions)
            rotate(part, at, takes, gives, seq_axis=axis, first_channel=first, out=place)
        return out


def model_rotation(
    inputs: Sequence[Input], file: str, encoding: Encoding, rows: RowPositions, heads: Collection[int],
    fields: Mapping[str, Any], **parameters: Any,
) -> RowRotation:  # fmt: skip
    """How a model rotates tensors, read at their last position; `fields` are those of a RowRotation that were given:
    they count more than the model's own. `heads` are numbers that are not positions, unless `seq_axis` was given."""
    if not encoding.is_rotary:
        raise ParameterError("model", file, f"its encoding is {encoding.scheme}, not rope")
    for is_unsupported, rule in (
        (encoding.grid.axes, "it rotates by places in an image"),
        (encoding.order, "its frequencies are in another order"),
    ):
        if is_unsupported and not {"positions", "grid"} & parameters.keys():
            raise ParameterError(
                "layer_type",
                f"{encoding.layer_type!r} of {file}",
                f"{rule}, which is not supported",
            )
    length = max(tensor.check_sequence(fields.get("seq_axis", SEQ_AXIS))[0] for tensor in inputs)
    rope = encoding.rope(rows.seq_len(length, parameters), **parameters)
    first, head = inputs[0], encoding.head_dim or rope.rotary_dim
    dim = first.shape[-1]
    if dim not in (head, rope.rotary_dim) and not ("trailing" in fields and dim > rope.rotary_dim):
        some = f", {rope.rotary_dim} of which rotate" if rope.rotary_dim < head else ""
        raise first.wrong(
            f"a head of {file} has {head} channels{some}", f"D, the last axis, is {dim}"
        )
    if (
        not {"seq_axis", "shift"} & fields.keys() and not encoding.part
    ):  # a shift is the same at all positions
        for tensor in inputs:
            shape, axis = tensor.shape, len(tensor.shape) - 2
            if axis > 0 and shape[-2] in heads and shape[-3] not in heads:
                rule = f"axis {axis} would be positions, and {shape[-2]} is a number of heads of {file}"
                advice = f"give `seq_axis` {axis - 1} for (…, L, heads, D), or {axis} if these are positions after all"
                raise tensor.wrong(rule, advice)
    return RowRotation(
        rope,
        rows,
        **{"layout": encoding.layout or "halves", "trailing": encoding.trailing, **fields},
    )


def head_counts(model: Model | None, layer_type: str | None) -> tuple[int, ...]:
    """How many query and key heads a model has, as far as it says so."""
    found = attention_of(model, layer_type)
    return tuple(found[name] for name in ("heads", "kv_heads") if name in found)
