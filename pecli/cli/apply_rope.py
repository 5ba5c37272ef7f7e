"""`pecli apply rope`: which scheme, channels and positions q and k are rotated by; and what any `apply` results in."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from pecli.cli import keyword, options
from pecli.cli.options import completer, option, parsed
from pecli.engine.schemes import Parameter, Whole
from pecli.engine.schemes.positions import GivenPositions, PositionList
from pecli.engine.schemes.rope import Rope
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.table import Table
    from pecli.tensors.inputs import Input, Inputs
    from pecli.tensors.rotary import RotationPlan, RowPositions


SUMMARY = "Rotate the channels of q and k (…, L, D) by their positions, rotate them back, or shift them."
EXAMPLES = (
    "pecli apply rope q.npy k.npy --theta 500000 -o rotated.safetensors",
    "pecli apply rope qk.safetensors --model llama-3.1-8b --offset 4096 -o rotated.safetensors",
    "pecli apply rope q.npy --model llama-3.1-8b --seq-axis 1 -o rotated.npy",
    "pecli apply rope q.npy --config config.json --positions ids.npy --inverse -o q0.npy",
    "pecli apply rope cache.safetensors --layout interleaved --shift -512 -o moved.safetensors",
)

_AXIS = Whole(help="the axis of positions", low=-64, high=64)

Layout = Annotated[
    str | None,
    options.text(
        "--layout",
        "[halves|interleaved|deepseek]",
        "A pair is channels i, i + d/2; or 2i, 2i + 1; or the second, written as the first."
        " (default: the model's, or halves)",
        autocompletion=completer(options.PAIRS.options),
    ),
]
Trailing = Annotated[bool, typer.Option("--trailing", help="Where only some channels rotate, the last ones do.")]
SeqAxis = Annotated[
    str | None,
    options.text(
        "--seq-axis", "INTEGER", "The axis of positions: -3 for q of shape (batch, L, heads, D). (default: -2)"
    ),
]
PositionsFile = Annotated[
    str | None,
    options.text(
        "--positions",
        "LIST|FILE",
        "Numbers, or a file of them: (L,), (axes, L); where they are integers from 0 also (batch, L),"
        " (axes, batch, L).",
    ),
]
Inverse = Annotated[bool, typer.Option("--inverse", help="Undo the rotation, the attention factor included.")]
Shift = Annotated[
    str | None,
    options.text("--shift", "INTEGER", "Move what was rotated already by this many positions, in one step."),
]


@dataclass(frozen=True)
class Applied:
    """The result, still to be made; the parameters behind it, and the same in a few words."""

    tables: Sequence[Table]
    parameters: Mapping[str, Any]
    words: str
    seq_axis: int | None = -2
    """The axis of positions in every tensor; None where a tensor has no such axis, or no position matters."""


def positions(low: int, high: int) -> str:
    """The positions from low to below high, for people."""
    return f"{low} … {high - 1}" if high - low > 1 else str(low) if high > low else "none"


def along(table: Table, seq_axis: int = -2) -> str:
    """Which axis of a tensor was taken for positions, for people."""
    return f"along axis {seq_axis % len(table.shape)} of {table.shape}"


class _Scheme(NamedTuple):
    """A rotary scheme, and what a model says besides."""

    rope: Rope
    layout: str
    why: str
    trailing: bool
    model: str = ""
    heads: tuple[int, ...] = ()
    """How many query and key heads the model has, as far as it says so."""


def own_options() -> list[inspect.Parameter]:
    """Those of `pecli rope` that the input does not decide, those of a model, and what is done with them."""
    own = [option(label, parameter, Rope) for label, parameter in _parameters().items() if label != "dim"]
    dim = Annotated[
        str | None,
        options.text("--dim", "INTEGER", "Rotary dimension: channels that rotate, in pairs. (default: all)"),
    ]
    ours = (
        ("layout", Layout, None),
        ("trailing", Trailing, False),
        ("seq_axis", SeqAxis, None),
        ("positions", PositionsFile, None),
        ("inverse", Inverse, False),
        ("shift", Shift, None),
        *options.MODEL_OPTIONS,
    )
    return [keyword("dim", dim, None), *own, *(keyword(*each) for each in ours)]


def _parameters() -> dict[str, Parameter]:
    decided = ("seq_len", "layout", "dtype", "recipe", "positions")
    return {label: each for label, each in Rope.parameters().items() if label not in decided}


def make(inputs: Inputs, values: Mapping[str, Any], held: ExitStack) -> Applied:
    """The tensors, rotated as the options ask for."""
    from pecli.tensors.apply import SHIFT, check_axis
    from pecli.tensors.inputs import SEQ_AXIS, check_sequence
    from pecli.tensors.rotary import RotationPlan, rotate_all

    _check_options(values)
    shift = None if values["shift"] is None else SHIFT.parse("shift", values["shift"])
    seq_axis = SEQ_AXIS if values["seq_axis"] is None else _AXIS.parse("seq_axis", values["seq_axis"])
    first, *others = inputs.tensors
    length, dim = check_sequence(first, seq_axis)
    for each in others:
        length = max(length, check_sequence(each, seq_axis)[0])
        if each.table.shape[-1] != dim:
            raise each.wrong(f"{first.label} is of shape {first.table.shape}", "they must share D, the last axis")
    rows = _positions(values)
    if rows.ids is None:
        for each in inputs.tensors:
            rows.check(each, seq_axis)
    scheme = _scheme(first, length, rows, values)
    if shift is None and values["seq_axis"] is None:
        for each in inputs.tensors:
            check_axis(each, scheme.heads, scheme.model)
    rows = rows.arranged(scheme.rope.position_axes)
    plan = RotationPlan(scheme.rope, rows, scheme.layout, scheme.trailing, values["inverse"], shift, seq_axis)
    tables = rotate_all(inputs.tensors, plan)
    done = f"positions {_span(rows, length)} {along(first.table, seq_axis)}"
    if shift is not None:
        done = f"moved by {shift} positions"
    words = [f"{plan.layout} ({scheme.why})", "undone at " * plan.inverse + done]
    if plan.rope.rotary_dim < dim:
        words.insert(1, f"the {'last' if plan.trailing else 'first'} {plan.rope.rotary_dim} of {dim} channels")
    parameters = _described(plan, values["positions"])
    return Applied(tables, parameters, ", ".join(words), seq_axis if shift is None else None)


def _described(plan: RotationPlan, file: str | None) -> dict[str, Any]:
    """What was done, as plain data."""
    scheme = {name: getattr(plan.rope, name) for name in _parameters()}
    own = {"layout": plan.layout, "trailing": plan.trailing, "inverse": plan.inverse, "shift": plan.shift}
    return {**scheme, **own, "positions": file}


def _check_options(values: Mapping[str, Any]) -> None:
    """Refuse options that contradict each other."""
    if values["positions"] is not None and values["offset"] is not None:
        raise ParameterError("offset", values["offset"], "--positions says where every row stands", "leave out one")
    if values["shift"] is None:
        return
    for name in ("inverse", "positions", "offset", "seq_axis"):
        if values[name] not in (None, False):
            given = "given" if values[name] is True else values[name]
            raise ParameterError(name, given, "a shift needs no positions", "leave out one of them")


def _positions(values: Mapping[str, Any]) -> RowPositions:
    """The positions of the rows; those of a scheme's own rows where it has a grid, or positions that are not ids."""
    from pecli.tensors.rotary import RowPositions, read_positions

    if values["positions"] is not None and not _own_rows(values):
        return read_positions(values["positions"])
    offset = values["offset"]
    return RowPositions(0 if offset is None else _parameters()["offset"].parse("offset", offset))


def _own_rows(values: Mapping[str, Any]) -> PositionList | None:
    """The positions that a scheme takes as its own; None where there are none, or they are ids of a batch."""
    text = values["positions"]
    if text is None:
        return None
    rule = GivenPositions(help="")
    if rule.is_value(text):
        return rule.parse("positions", text)
    from pecli.tensors.inputs import read_numbers

    found = read_numbers("positions", text)
    ids = found.dtype.kind in "iu" and values["style"] is None and values["axes"] is None
    return None if ids and found.min(initial=0) >= 0 else rule.check("positions", found)


def _span(rows: RowPositions, length: int) -> str:
    between = positions(*rows.span(length))
    return f"{between} of {rows.source}" if rows.source else between


def _scheme(first: Input, length: int, rows: RowPositions, values: Mapping[str, Any]) -> _Scheme:
    """The rotary scheme that the options, or a model, ask for, read at the last position."""
    seq_len: int | None = max(1, length if rows.ids is None else rows.span(length)[1])
    layout = None if values["layout"] is None else options.PAIRS.check("layout", values["layout"])
    own = _own_rows(values)
    if own is not None or values["grid"] is not None:
        seq_len = None
    if options.names_model(values):
        from pecli.models.find import find_model
        from pecli.tensors.apply import check_head, head_counts

        given = options.given_beside(values, _parameters())
        model = find_model(values["config"], values["model"])
        encoding = model.one(values["layer_type"])
        if not encoding.is_rotary:
            given_as = "config" if values["config"] else "model"
            raise ParameterError(given_as, model.file, f"its encoding is {encoding.scheme}, not rope")
        rope = encoding.rope(seq_len, positions=own, **given)
        check_head(first, rope, encoding, model.file, trailing=values["trailing"])
        why, trailing = "given" if layout else f"as {model.file} has it", values["trailing"] or encoding.trailing
        named = values["model"] if values["config"] is None else values["config"]
        heads = () if encoding.part else head_counts(named, values["layer_type"])
        return _Scheme(rope, layout or encoding.layout or "halves", why, trailing, model.file, heads)
    from pecli.tensors.inputs import check_dim

    given = parsed(_parameters(), values)
    if "dim" not in given and "axes" not in given:
        check_dim(first, Rope.parameters()["dim"], "or give the rotary dimension with --dim")
        given["dim"] = first.table.shape[-1]
    rope = Rope(**{**given, "seq_len": seq_len, "positions": own})
    return _Scheme(rope, layout or "halves", "given" if layout else "the default", values["trailing"])
