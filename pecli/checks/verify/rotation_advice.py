"""Advice on a rotation that was explained: where positions seem to be, or the command that rotates so."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from pecli.checks.verify.head_tensors import HeadTensor
from pecli.engine.application import LAYOUTS
from pecli.engine.edits import Layout, Parameter
from pecli.engine.named_values import NamedValues
from pecli.engine.schemes.command_options import options
from pecli.engine.schemes.rope import Rope
from pecli.errors import bracketed
from pecli.explain.explanation import Explanation
from pecli.explain.rotated_making import HeadRotation
from pecli.explain.words import is_readable
from pecli.files.raw_layout import current_layout, layout_options
from pecli.tensors.inputs import SEQ_AXIS

DEEPSEEK = "interleaved before, halves after"
"""DeepSeek's rotation takes interleaved channels and leaves halves; `pecli apply` has a name for it."""


class Found(NamedTuple):
    """A tensor that is not rotated as expected."""

    tensor: HeadTensor
    plan: HeadRotation  #: how it should be rotated
    layout: str  #: which channels should make a pair
    model: Sequence[str]  #: options that select the model


class _Applied(NamedTuple):
    """The rotation of the tensor."""

    rope: Rope
    layout: str
    axis: int


def advice(found: Found, reasons: Sequence[Explanation]) -> Iterator[str]:
    """Yield lines of advice on the only reason that a tensor has."""
    if len(reasons) != 1:
        return
    (reason,) = reasons
    axis = _position_axis(reason)
    if axis is not None:
        number = axis + found.tensor.before.ndim
        shape = bracketed(found.tensor.pair.after.shape)
        yield f"if positions are along axis {number} of {shape}, verify with --seq-axis {number}"
    applied = _applied(found, reason)
    pair = found.tensor.pair
    # `pecli apply` rotates arrays as they are in the file, and has no option for folded heads.
    has_own_axes = found.tensor.before.shape == pair.before.shape
    if applied is None or not pair.source or not has_own_axes:
        return
    command = shlex.join(_command(found, applied))
    if is_readable(command):
        yield f"reproduce with {command}"


def _position_axis(reason: Explanation) -> int | None:
    """Return the axis of positions that an explanation found instead of the expected one."""
    axis = None
    for edit in reason.edits:
        if isinstance(edit, Parameter) and edit.name == "position_axis":
            axis = int(edit.found)
    return axis


def _pair_layout(reason: Explanation, expected: str) -> str:
    """Return the layout of pairs that an explanation found, by the name that `pecli apply` has for it."""
    layout = expected
    for edit in reason.edits:
        if isinstance(edit, Layout):
            layout = "deepseek" if edit.found == DEEPSEEK else edit.found
    return layout


def _applied(found: Found, reason: Explanation) -> _Applied | None:
    """Return the rotation that an explanation describes; None if `pecli apply` cannot make it.

    It has options for parameters of the scheme and for layouts of pairs, and none for recipes,
    exchanged heads or wrong rows.
    """
    layout = _pair_layout(reason, found.layout)
    has_options = all(isinstance(edit, (Layout, Parameter)) for edit in reason.mistakes)
    rope = cast("Rope | None", reason.scheme)
    if layout not in LAYOUTS or not has_options:
        return None
    if rope is None or rope.recipe != "exact":
        return None
    axis = _position_axis(reason)
    return _Applied(rope, layout, found.tensor.axis if axis is None else axis)


def _command(found: Found, applied: _Applied) -> list[str]:
    pair = found.tensor.pair
    words = _scheme_options(found, applied)
    if applied.axis != SEQ_AXIS:
        words += ["--seq-axis", str(applied.axis + found.tensor.before.ndim)]
    words += layout_options(current_layout())
    output = "again.safetensors" if pair.dtype == "bfloat16" else "again.npy"
    return ["pecli", "apply", "rope", pair.source, *words, "-o", output]


def _scheme_options(found: Found, applied: _Applied) -> list[str]:
    """Return the options of the model if it rotates so from some position on, or those of the scheme that does."""
    _, model = found.model[:2]
    is_rope_of_model = replace(applied.rope, offset=found.plan.rope.offset) == found.plan.rope
    if is_rope_of_model and model:
        words = [*found.model]
        if applied.rope.offset:
            words += ["--offset", str(applied.rope.offset)]
        if applied.layout != found.layout:
            words += ["--layout", applied.layout]
        return words
    plain: NamedValues = {
        "seq_len": 1,
        "layout": "compact",
        "dtype": "float32",
        "recipe": "exact",
    }
    # Queries have a length and a dtype of their own, and their layout is that of pairs of channels.
    words = [*options(replace(applied.rope, **plain), without=("seq_len",))]
    if applied.layout != "halves":
        words += ["--layout", applied.layout]
    if found.plan.trailing:
        words.append("--trailing")
    return words
