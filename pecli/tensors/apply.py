"""`pecli.apply`: an encoding applied to an array; rotations at any positions, as a model asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pecli.engine.application import LAYOUTS, add_rows, rotate
from pecli.engine.arrays import Array, as_numpy, numbers
from pecli.engine.schemes import Choice, Flag, Whole
from pecli.engine.schemes.positions import LAST_POSITION
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.rotation_factors import RotationFactors
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import table_of
from pecli.errors import KindError, ParameterError
from pecli.models.attention import attention_of
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, find_model
from pecli.tensors.inputs import SEQ_AXIS, Input

OFFSET = Whole(help="the position, or the row of a table, for the first row", low=0, high=LAST_POSITION)
LAYOUT = Choice(help="which channels make a pair", options=tuple(LAYOUTS))
SHIFT = Whole(help="positions to move by", low=-LAST_POSITION, high=LAST_POSITION)
AXIS = Whole(help="the axis of positions", low=-64, high=64)
FLAG = Flag(help="yes or no")


def apply(
    x: ArrayLike,
    encoding: Scheme | Model | ArrayLike,
    *,
    offset: int | None = None,
    positions: ArrayLike | None = None,
    layout: str | None = None,
    trailing: bool = False,
    inverse: bool = False,
    shift: int | None = None,
    seq_axis: int = SEQ_AXIS,
    layer_type: str | None = None,
) -> Array:
    """x with an encoding applied as a model's layer does: in float64, rounded once to the dtype of x.

    Args:
        x: (…, L, D); for ALiBi and relative biases scores (…, H, Lq, Lk), whose queries come last.
        encoding: a scheme; a model (as `load_model` takes it), which rotates x; or a learned table (rows, D).
        offset: the position of the first row (0, or the scheme's own), or the first row of a learned table.
        positions: for rope, integers (L,) or (batch, L), for M-RoPE (axes, L) or (axes, batch, L), instead.
        layout: for rope, `halves`, `interleaved` or `deepseek`; the model's or the scheme's own, or halves.
        trailing: for rope, rotate the trailing channels where only some rotate.
        inverse: undo the rotation.
        shift: move what was rotated already by so many positions.
        seq_axis: for rope, the axis of positions: -3 for (batch, L, heads, D).
        layer_type: the layers of a model that has several kinds.

    >>> apply(np.ones((2, 4)), Rope(seq_len=2, dim=4), offset=1).round(3).tolist()
    [[-0.301, 0.99, 1.382, 1.01], [-1.325, 0.98, 0.493, 1.02]]
    """
    each = Input(numbers("x", x), "x")
    seq_axis = AXIS.check("seq_axis", seq_axis)
    given = {"positions": positions, "layout": layout, "shift": shift, "layer_type": layer_type}
    given |= {"trailing": FLAG.check("trailing", trailing), "inverse": FLAG.check("inverse", inverse)}
    given["seq_axis"] = seq_axis if seq_axis != SEQ_AXIS else None
    if isinstance(encoding, Scheme) and encoding.applied_as != "rotation":
        _refuse({**given, "offset": offset}, encoding.name)
        return encoding.applied_to(each.array)
    if _is_array(encoding):
        _refuse(given, "a learned table")
        weight = Input(numbers("the table", encoding), "the table")
        return add_learned(each, weight, 0 if offset is None else OFFSET.check("offset", offset))
    rows = _row_positions(offset, positions, shift)
    if isinstance(encoding, Scheme):
        _refuse({"layer_type": layer_type}, "a scheme")
        rope: Any = encoding
        is_given = offset is not None or rows.ids is not None
        pairs = "halves" if rope.layout == "compact" else rope.layout
        rotation = Rotation(rope, rows if is_given else RowPositions(rope.offset), pairs)
    else:
        rotation = _of_model(each, encoding, layer_type, rows, trailing, seq_axis, shift)  # type: ignore[arg-type]
    return replace(
        rotation,
        layout=rotation.layout if layout is None else LAYOUT.check("layout", layout),
        trailing=trailing or rotation.trailing,
        inverse=inverse,
        shift=shift,
        seq_axis=seq_axis,
    ).apply(each)


def _is_array(value: Any) -> bool:
    """Whether it is numbers, and nothing that says what a model is."""
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__") or isinstance(value, (list, tuple))


def _refuse(given: Mapping[str, Any], what: str) -> None:
    for name, value in given.items():
        if value is not None and value is not False:
            raise ParameterError(name, "given", f"{what} has no use for it", "leave it out")


def add_learned(each: Input, weight: Input, offset: int) -> Array:
    """x (…, L, D) plus rows offset … offset + L − 1 of a table (rows, D)."""
    length, dim = each.check_sequence()
    weight.check_floating()
    if len(weight.shape) != 2:
        raise weight.wrong("a table must be (rows, D)")
    if dim != weight.shape[1]:
        raise each.wrong(f"{weight.label} is of shape {weight.shape}", "they must share D, the last axis")
    if offset + length > weight.shape[0]:
        rule = f"with {each.label} of shape {each.shape} it asks for rows up to {offset + length} of {weight.shape[0]}"
        raise ParameterError("offset", offset, rule, "take a longer table, or resize it")
    return add_rows(each.array, table_of("the table", weight.array), offset)


@dataclass(frozen=True, eq=False)
class RowPositions:
    """Positions from `offset` on, or those in `ids`: (L,), (batch, L), (axes, L) or (axes, batch, L)."""

    offset: int = 0
    ids: NDArray[np.int64] | None = None

    def span(self, length: int) -> tuple[int, int]:
        """The first position, and the one after the last, of tensors up to that length."""
        if self.ids is None:
            return self.offset, self.offset + length
        return (int(self.ids.min()), int(self.ids.max()) + 1) if self.ids.size else (0, 0)

    def arranged(self, axes: int) -> NDArray[np.int64] | None:
        """The ids as (axes, batch, L), where axes and batch may be 1."""
        if self.ids is None:
            return None
        ids, known = self.ids, ("(L,)", "(axes, L)", "(axes, batch, L)") if axes > 1 else ("(L,)", "(batch, L)")
        if not 1 <= ids.ndim <= len(known) or (axes > 1 and ids.ndim > 1 and len(ids) not in (1, axes)):
            rule = f"they must be {', '.join(known[:-1])} or {known[-1]}" + (f" with {axes} axes" if axes > 1 else "")
            raise ParameterError("positions", f"of shape {ids.shape}", rule)
        several = axes > 1 and ids.ndim > 1
        batch = ids.shape[-2] if ids.ndim - several > 1 else 1
        return ids.reshape(len(ids) if several else 1, batch, ids.shape[-1])

    def check(self, each: Input, seq_axis: int, axes: int) -> None:
        """Refuse a tensor whose rows are not those of the positions."""
        rows = each.shape[seq_axis]
        ids = self.arranged(axes)
        if ids is None or self.ids is None:
            if self.offset + rows - 1 > LAST_POSITION:
                rule = f"with {each.label} of shape {each.shape} it goes beyond 2^40"
                raise ParameterError("offset", self.offset, rule)
            return
        given = f"of shape {self.ids.shape}"
        if ids.shape[2] != rows:
            rule = f"{each.label} is of shape {each.shape}, with L = {rows} rows"
            raise ParameterError("positions", given, rule)
        if ids.shape[1] != 1 and (seq_axis % len(each.shape) == 0 or ids.shape[1] != each.shape[0]):
            rule = f"{each.label} is of shape {each.shape}"
            raise ParameterError("positions", given, rule, "the first axis of both must agree")


def position_ids(ids: Array) -> RowPositions:
    """Positions as an array of integers."""
    if ids.dtype.kind not in "iu":
        raise KindError("positions", f"of shape {ids.shape} and dtype {ids.dtype}", "positions are integers")
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) <= LAST_POSITION:
        given = f"{ids.min()} … {ids.max()}, of shape {ids.shape}"
        raise ParameterError("positions", given, "positions must be 0 or more and at most 2^40")
    return RowPositions(0, ids.astype(np.int64))


def _row_positions(offset: int | None, positions: ArrayLike | None, shift: int | None) -> RowPositions:
    if positions is not None and offset is not None:
        raise ParameterError("offset", offset, "positions say where every row stands", "leave out one")
    if shift is not None:
        SHIFT.check("shift", shift)
        if offset is not None or positions is not None:
            raise ParameterError("shift", shift, "a shift needs no positions", "leave out one of them")
    if positions is not None:
        return position_ids(as_numpy("positions", positions))
    return RowPositions(0 if offset is None else OFFSET.check("offset", offset))


@dataclass(frozen=True, eq=False)
class Rotation:
    """How tensors are rotated: by which scheme, at which positions along which axis, and which channels of a row.

    `shift` moves what was rotated already by so many positions; `inverse` undoes a rotation.
    """

    rope: Rope
    rows: RowPositions
    layout: str = "halves"
    trailing: bool = False
    inverse: bool = False
    shift: int | None = None
    seq_axis: int = SEQ_AXIS

    @property
    def _sides(self) -> tuple[str, str]:
        """How pairs lie in the input and in the output."""
        takes, gives = LAYOUTS[self.layout]
        if self.shift is not None:  # the input is an output already
            return gives, gives
        return (gives, takes) if self.inverse else (takes, gives)

    @cached_property
    def _factors(self) -> dict[bool, RotationFactors]:
        """Exact ones for float64, and those for all other dtypes, which take less time."""
        return {exact: RotationFactors(self.rope, exact=exact, inverse=self.inverse) for exact in (True, False)}

    def check(self, each: Input) -> None:
        """Refuse a tensor that does not fit."""
        length, dim = each.check_sequence(self.seq_axis)
        rope = self.rope
        if dim < rope.rotary_dim:
            raise each.wrong(f"the rotary dimension is {rope.rotary_dim}", f"D, the last axis, is {dim}")
        if not rope.is_range and length != rope.seq_len:
            raise each.wrong(f"{rope.place()} has {rope.seq_len} rows", f"L is {length}")
        if self.shift is None:
            self.rows.check(each, self.seq_axis, rope.position_axes)

    def apply(self, each: Input) -> Array:
        """The tensor, rotated: one product in float64, rounded once to the tensor's dtype."""
        self.check(each)
        x, axis = each.array, self.seq_axis % len(each.shape) - len(each.shape)
        factors = self._factors[x.dtype == np.float64]
        out = np.empty(x.shape, x.dtype.newbyteorder("="))

        def rotate_part(part: Array, place: Array, ids: NDArray[np.int64] | None) -> None:
            def at(start: int, stop: int) -> NDArray[Any]:
                if self.shift is not None:
                    return factors.shift(self.shift)
                offset = self.rows.offset
                return factors.at(range(offset + start, offset + stop) if ids is None else ids[start:stop])

            first = x.shape[-1] - self.rope.rotary_dim if self.trailing else 0
            rotate(part, at, *self._sides, seq_axis=axis, first_channel=first, out=place)

        ids = self.rows.arranged(self.rope.position_axes) if self.shift is None else None
        if self.shift is None and x.size:
            factors.reserve(*self.rows.span(x.shape[axis]))
        if ids is None:
            rotate_part(x, out, None)
            return out
        by_batch = np.moveaxis(ids, 0, -1)[..., 0] if len(ids) == 1 else np.moveaxis(ids, 0, -1)
        if len(by_batch) == 1:
            rotate_part(x, out, by_batch[0])
        else:
            for part, place, rows in zip(x, out, by_batch, strict=True):
                rotate_part(part, place, rows)
        return out


def _of_model(
    each: Input,
    model: Model,
    layer_type: str | None,
    rows: RowPositions,
    trailing: bool,
    seq_axis: int,
    shift: int | None,
) -> Rotation:
    """How a model rotates a tensor, read at the last position."""
    length, _ = each.check_sequence(seq_axis)
    found = find_model(model=model)
    encoding = found.one(layer_type)
    seq_len = max(1, length if rows.ids is None else rows.span(length)[1])
    rope = encoding.rope(seq_len, offset=rows.offset)
    check_head(each, rope, encoding, found.file, trailing=trailing)
    is_said = seq_axis != SEQ_AXIS or shift is not None  # which is the same at all positions
    if not (is_said or encoding.part or isinstance(model, (ModelEncodings, Encoding))):
        check_axis(each, head_counts(model, layer_type), found.file)
    return Rotation(rope, rows, encoding.layout or "halves", encoding.trailing)


def head_counts(model: Model | None, layer_type: str | None) -> tuple[int, ...]:
    """How many query and key heads a model has, as far as it says so."""
    found = attention_of(None, model, layer_type)
    return tuple(count for count in (found.heads, found.kv_heads) if count is not None)


def check_axis(each: Input, heads: tuple[int, ...], model: str) -> None:
    """Refuse a tensor that has the model's heads where positions should be, and no heads where heads should be."""
    shape = each.shape
    if len(shape) > 2 and shape[-2] in heads and shape[-3] not in heads:
        axis = len(shape) - 2
        rule = f"axis {axis} would be positions, and {shape[-2]} is a number of heads of {model}"
        advice = f"give `seq_axis` {axis - 1} for (…, L, heads, D), or {axis} if these are positions after all"
        raise each.wrong(rule, advice)


def check_head(first: Input, rope: Rope, encoding: Encoding, file: str, *, trailing: bool) -> None:
    """A tensor with a model's encoding has the channels of a whole head, or its rotary ones."""
    for name, rule in (("axes", "it rotates by places in an image"), ("order", "its frequencies are in another order")):
        if name in encoding.extra and rope.is_range:
            raise ParameterError("layer_type", f"{encoding.layer_type!r} of {file}", f"{rule}, which apply cannot do")
    head, dim = encoding.head_dim or rope.rotary_dim, first.shape[-1]
    if dim not in (head, rope.rotary_dim) and not (trailing and dim > rope.rotary_dim):
        some = f", {rope.rotary_dim} of which rotate" if rope.rotary_dim < head else ""
        raise first.wrong(f"a head of {file} has {head} channels{some}", f"D, the last axis, is {dim}")
