"""`pecli.apply`: an encoding applied to an array; and what a model's heads must be like to be rotated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pecli.engine.application import LAYOUTS
from pecli.engine.arrays import Array, as_numpy
from pecli.engine.schemes import Choice, Whole
from pecli.engine.schemes.positions import LAST_POSITION
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError
from pecli.files.load import table_in_memory
from pecli.models.attention import attention_of
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.find import Model, find_model
from pecli.tensors.additive import add_learned
from pecli.tensors.inputs import SEQ_AXIS, Input, check_sequence
from pecli.tensors.rotary import RotationPlan, RowPositions, position_ids, rotate_all

OFFSET = Whole(help="the position, or the row of a table, for the first row", low=0, high=LAST_POSITION)
LAYOUT = Choice(help="which channels make a pair", options=tuple(LAYOUTS))
SHIFT = Whole(help="positions to move by", low=-LAST_POSITION, high=LAST_POSITION)


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
        trailing: for rope, where only some channels rotate, the last ones do.
        inverse: undo the rotation.
        shift: move what was rotated already by so many positions.
        seq_axis: for rope, the axis of positions: -3 for (batch, L, heads, D).
        layer_type: the layers of a model that has several kinds.

    >>> apply(np.ones((2, 4)), Rope(seq_len=2, dim=4), offset=1).round(3).tolist()
    [[-0.301, 0.99, 1.382, 1.01], [-1.325, 0.98, 0.493, 1.02]]
    """
    each = Input(table_in_memory("x", x), "x")
    given = {"positions": positions, "layout": layout, "trailing": trailing, "inverse": inverse, "shift": shift}
    given |= {"layer_type": layer_type, "seq_axis": seq_axis if seq_axis != SEQ_AXIS else None}
    rows = _row_positions(offset, positions, shift)
    if isinstance(encoding, Scheme) and encoding.applied_as != "rotation":
        _refuse({**given, "offset": offset}, encoding.name)
        return encoding.applied_to(each.table.array())
    if _is_array(encoding):
        _refuse(given, "a learned table")
        weight = Input(table_in_memory("the table", encoding), "the table")
        return add_learned(each, weight, rows.offset).array()
    pairs = None if layout is None else LAYOUT.check("layout", layout)
    if isinstance(encoding, Scheme):
        _refuse({"layer_type": layer_type}, "a scheme")
        plan = _of_scheme(encoding, rows if offset is not None or rows.ids is not None else None)
    else:
        plan = _of_model(each, encoding, layer_type, rows, trailing, seq_axis, shift)  # type: ignore[arg-type]
    arranged = plan.positions.arranged(plan.rope.position_axes)
    plan = RotationPlan(plan.rope, arranged, pairs or plan.layout, trailing or plan.trailing, inverse, shift, seq_axis)
    return rotate_all((each,), plan)[0].array()


def _is_array(value: Any) -> bool:
    """Whether it is numbers, and nothing that says what a model is."""
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__") or isinstance(value, (list, tuple))


def _refuse(given: Mapping[str, Any], what: str) -> None:
    for name, value in given.items():
        if value is not None and value is not False:
            raise ParameterError(name, "given", f"{what} has no use for it", "leave it out")


def _row_positions(offset: int | None, positions: ArrayLike | None, shift: int | None) -> RowPositions:
    if positions is not None and offset is not None:
        raise ParameterError("offset", offset, "positions say where every row stands", "leave out one")
    if shift is not None:
        SHIFT.check("shift", shift)
        if offset is not None or positions is not None:
            raise ParameterError("shift", shift, "a shift needs no positions", "leave out one of them")
    if positions is not None:
        return position_ids(np.asarray(as_numpy("positions", positions)))
    return RowPositions(0 if offset is None else OFFSET.check("offset", offset))


def _of_scheme(rope: Any, rows: RowPositions | None) -> RotationPlan:
    """How a rotary scheme rotates: from its own offset on, unless positions are given."""
    layout = "halves" if rope.layout == "compact" else rope.layout
    return RotationPlan(rope, RowPositions(rope.offset) if rows is None else rows, layout)


def _of_model(
    each: Input,
    model: Model,
    layer_type: str | None,
    rows: RowPositions,
    trailing: bool,
    seq_axis: int,
    shift: int | None,
) -> RotationPlan:
    """How a model rotates a tensor, read at the last position."""
    length, _ = check_sequence(each, seq_axis)
    found = find_model(model=model)
    encoding = found.one(layer_type)
    seq_len = max(1, length if rows.ids is None else rows.span(length)[1])
    rope = encoding.rope(seq_len, offset=rows.offset)
    check_head(each, rope, encoding, found.file, trailing=trailing)
    is_said = seq_axis != SEQ_AXIS or shift is not None  # which is the same at all positions
    if not (is_said or encoding.part or isinstance(model, (ModelEncodings, Encoding))):
        check_axis(each, head_counts(model, layer_type), found.file)
    return RotationPlan(rope, rows, encoding.layout or "halves", encoding.trailing)


def head_counts(model: Model | None, layer_type: str | None) -> tuple[int, ...]:
    """How many query and key heads a model has, as far as it says so."""
    found = attention_of(None, model, layer_type)
    return tuple(count for count in (found.heads, found.kv_heads) if count is not None)


def check_axis(each: Input, heads: tuple[int, ...], model: str) -> None:
    """Refuse a tensor that has the model's heads where positions should be, and no heads where heads should be."""
    shape = each.table.shape
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
    head, dim = encoding.head_dim or rope.rotary_dim, first.table.shape[-1]
    if dim not in (head, rope.rotary_dim) and not (trailing and dim > rope.rotary_dim):
        some = f", {rope.rotary_dim} of which rotate" if rope.rotary_dim < head else ""
        raise first.wrong(f"a head of {file} has {head} channels{some}", f"D, the last axis, is {dim}")
