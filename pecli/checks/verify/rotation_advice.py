"""Advice on a rotation that was explained: where positions seem to be, or the command that rotates so."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from pecli.checks.verify.head_tensors import HeadTensor
from pecli.engine.application import LAYOUTS
from pecli.engine.edits import Edit, Layout, Misplacement, Parameter, PositionMistake, Positions
from pecli.engine.schemes.command_options import options
from pecli.engine.schemes.rope import Rope
from pecli.errors import bracketed
from pecli.explain.explanation import Explanation
from pecli.explain.rotated_computation import HeadRotation
from pecli.explain.words import is_readable
from pecli.files.raw_layout import current_layout, layout_options
from pecli.tensors.inputs import SEQ_AXIS

DEEPSEEK = "interleaved before, halves after"
"""DeepSeek's rotation takes interleaved channels and leaves halves; `pecli apply` has a name for it."""
TABLE_ONLY = ("seq_len", "layout", "dtype", "recipe")
"""Parameters of a table that a rotation takes from its input, or has options of its own for."""
DEFAULT_LAYOUT = "halves"  #: the layout of pairs that `pecli apply` has without an option


class ModelOptions(NamedTuple):
    """The model and the layers that options of a command select."""

    name: str  #: a file, or a preset; empty for a configuration in memory
    layer_type: str  #: empty if all layers have the same encoding

    def words(self) -> list[str]:
        """Return the options: `--model gemma-3-4b --layer-type full_attention`."""
        words = ["--model", self.name]
        if self.layer_type:
            words += ["--layer-type", self.layer_type]
        return words


class WrongRotation(NamedTuple):
    """A tensor that is not rotated as expected, and the expected rotation.

    Attributes:
        tensor: The tensor before and after.
        plan: The expected rotation.
        layout: The channels that should make a pair, halves or interleaved.
        model: The model that requires it.
    """

    tensor: HeadTensor
    plan: HeadRotation
    layout: str
    model: ModelOptions


class _TensorAsFound(NamedTuple):
    """The axes and the pairs that a tensor seems to have.

    Attributes:
        position_axis: The axis of positions, as a negative number.
        pair_layout: The channels that make a pair, as `pecli apply` names them.
        rows_per_restart: The rows between two restarts of positions: 6 if 24 rows count 0 … 5 four
            times; 0 if positions do not restart.
    """

    position_axis: int
    pair_layout: str
    rows_per_restart: int

    @classmethod
    def of(cls, wrong: WrongRotation, reason: Explanation) -> "_TensorAsFound":
        """Return the axes and the pairs that a reason states, and the expected ones otherwise.

        The edits «position_axis is −3» and «layout is interleaved» give the axis −3 and that layout.
        """
        position_axis = wrong.tensor.axis
        pair_layout = wrong.layout
        rows_per_restart = 0
        for edit in reason.edits:
            match edit:
                case Parameter(name="position_axis", found=axis):
                    position_axis = int(axis)
                case Layout(found=layout):
                    pair_layout = "deepseek" if layout == DEEPSEEK else layout
                case Positions(mistake=PositionMistake(kind=Misplacement.RESTARTED, by=rows)):
                    rows_per_restart = rows
        return cls(position_axis, pair_layout, rows_per_restart)


def find_advice(wrong: WrongRotation, reasons: Sequence[Explanation]) -> Iterator[str]:
    """Yield advice on the reason for which a tensor is wrong, if there is exactly one.

    It is the option that reads the tensor rightly (`--seq-axis 1`), and the command that makes the
    same wrong tensor again: «reproduce with pecli apply rope q.npy --base 500000 …».
    """
    if len(reasons) == 1:
        (reason,) = reasons
        as_found = _TensorAsFound.of(wrong, reason)
        yield from _advise_on_position_axis(wrong, as_found)
        yield from _advise_on_unstated_heads(wrong, as_found)
        yield from _advise_on_command(wrong, reason, as_found)


def _advise_on_position_axis(wrong: WrongRotation, as_found: _TensorAsFound) -> Iterator[str]:
    """Yield the option that names the axis of positions, if the reason found another one."""
    if as_found.position_axis != wrong.tensor.axis:
        # Of (batch, L, heads, D), axis −3 is number −3 + 4 = 1.
        number = as_found.position_axis + wrong.tensor.before.ndim
        shape = bracketed(wrong.tensor.pair.after.shape)
        yield f"if positions are along axis {number} of {shape}, verify with --seq-axis {number}"


def _advise_on_unstated_heads(wrong: WrongRotation, as_found: _TensorAsFound) -> Iterator[str]:
    """Yield advice to state a shape with heads, if positions restart within the rows of a tensor.

    A loop over 4 heads and 6 positions prints 24 rows of 64 numbers: (24, 64), in which positions
    are 0 … 5 four times. The advice is `--shape 4,6,64`. Tensors with more axes have theirs for heads.
    """
    shape = wrong.tensor.pair.after.shape
    positions = as_found.rows_per_restart
    if not positions or len(shape) != 2:
        return
    rows, width = shape
    heads = rows // positions
    advice = f"--shape {heads},{positions},{width} states it in text and raw files"
    yield f"if these are {heads} heads of {positions} positions, {advice}"


def _advise_on_command(
    wrong: WrongRotation, reason: Explanation, as_found: _TensorAsFound
) -> Iterator[str]:
    """Yield a command that makes the same mistake, if `pecli apply` has an option for it.

    For queries that are rotated from position 1 on instead of 0, it is «reproduce with pecli apply
    rope q.npy --model llama-3-8b --offset 1 -o again.npy». The tensor before the rotation has to be in
    a file, and the command must not be too long to be read.
    """
    # All tensors here are rotated, so that a reason has a rotary scheme, or none.
    rope = cast("Rope | None", reason.scheme)
    if rope is None:
        return
    has_options = _has_apply_options_for(rope, reason.mistakes, as_found.pair_layout)
    if has_options and _is_array_of_file(wrong.tensor):
        command = shlex.join(_make_command(wrong, rope, as_found))
        if is_readable(command):
            yield f"reproduce with {command}"


def _is_array_of_file(tensor: HeadTensor) -> bool:
    """Return True if a tensor before is in a file, in the shape in which it is compared.

    `pecli apply` rotates arrays as they are in a file, and has no option that makes (L, 4, 64) of
    (L, 256).
    """
    has_file = bool(tensor.pair.source)
    return has_file and tensor.before.shape == tensor.pair.before.shape


def _has_apply_options_for(rope: Rope, mistakes: Iterable[Edit], layout: str) -> bool:
    """Return True if `pecli apply` can make the rotation that was made by some mistakes.

    It has `--base` and the like for parameters, and `--layout` for pairs, but nothing for exchanged
    heads or wrong rows, and none for recipes such as float32, since it computes exactly.
    """
    have_options = all(isinstance(mistake, (Layout, Parameter)) for mistake in mistakes)
    return have_options and rope.recipe == "exact" and layout in LAYOUTS


def _make_command(wrong: WrongRotation, rope: Rope, as_found: _TensorAsFound) -> list[str]:
    """Return the words of a command: `pecli apply rope q.npy --base 500000 -o again.npy`."""
    pair = wrong.tensor.pair
    words = _list_scheme_options(wrong, rope, as_found)
    if as_found.position_axis != SEQ_AXIS:
        words += ["--seq-axis", str(as_found.position_axis + wrong.tensor.before.ndim)]
    words += layout_options(current_layout())
    output = "again.safetensors" if pair.dtype == "bfloat16" else "again.npy"
    return ["pecli", "apply", "rope", pair.source, *words, "-o", output]


def _list_scheme_options(wrong: WrongRotation, rope: Rope, as_found: _TensorAsFound) -> list[str]:
    """Return the options of `pecli apply` that select the rotation that was used.

    If it is the model's own, at most from another position on or in another layout, these are
    `--model NAME --offset 5`; otherwise `--dim 64 --base 500000` and so on.
    """
    expected = wrong.plan.rope
    differs_in_offset_only = replace(rope, offset=expected.offset) == expected
    if differs_in_offset_only and wrong.model.name:
        words = wrong.model.words()
        usual_layout = wrong.layout
        if rope.offset:
            words += ["--offset", str(rope.offset)]
    else:
        words = [*options(rope, without=TABLE_ONLY)]
        usual_layout = DEFAULT_LAYOUT
        last_channels_rotate = wrong.plan.trailing  # The first ones do by default.
        if last_channels_rotate:
            words.append("--trailing")
    if as_found.pair_layout != usual_layout:
        words += ["--layout", as_found.pair_layout]
    return words
