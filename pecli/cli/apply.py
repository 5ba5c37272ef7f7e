"""`pecli apply`: an encoding applied to tensors, as a model's layer would."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer
import typer.main

from pecli.cli import Command, Exit, examples, keyword, new_app, options, with_options
from pecli.engine.arrays import Array
from pecli.engine.schemes import SCHEMES, Parameter, scheme_named
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.positions import GivenPositions, PositionList
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import table_of
from pecli.errors import ParameterError
from pecli.tensors.apply import (
    AXIS,
    LAYOUT,
    OFFSET,
    SHIFT,
    Rotation,
    RowPositions,
    add_learned,
    check_axis,
    check_head,
    head_counts,
    position_ids,
)
from pecli.tensors.inputs import SEQ_AXIS, Input, only_tensor, open_inputs, read_numbers

_FILES = ".npy, .npz or .safetensors files, or FILE:NAME for one tensor; - is a .npy on standard input."
Files = Annotated[list[str], typer.Argument(metavar="FILE…", help=_FILES)]
Tensor = Annotated[list[str] | None, options.text("--tensor", "NAME", "Only the tensor of this name; may be repeated.")]
Output = Annotated[str, options.output(f"{options.FORMATS}.")]
Table = Annotated[str, typer.Option("--table", metavar="FILE", help="The table, (rows, D); or FILE:NAME.")]
Offset = Annotated[str | None, options.text("--offset", "INTEGER", "The row for the first position. (default: 0)")]
Causal = Annotated[bool, typer.Option("--causal", help="The same as --form causal.")]
Heads = Annotated[str | None, options.text("--heads", "INTEGER", "Refuse scores with another number of heads.")]
_DIM = "Rotary dimension: channels that rotate, in pairs. (default: all, or the model's)"
Dim = Annotated[str | None, options.text("--dim", "INTEGER", _DIM)]
_LAYOUT = "Which channels make a pair: halves (NeoX, rotate_half), interleaved (GPT-J), or deepseek, which takes the"
_LAYOUT += " second and gives the first. (default: the model's, or halves)"
Layout = Annotated[str | None, options.choice("--layout", LAYOUT.options, _LAYOUT)]
Trailing = Annotated[bool, typer.Option("--trailing", help="Rotate the trailing channels, where only some rotate.")]
_AXIS = "The axis of positions: -3 for q of shape (batch, L, heads, D). (default: -2)"
SeqAxis = Annotated[str | None, options.text("--seq-axis", "INTEGER", _AXIS)]
_POSITIONS = (
    "Numbers, or a file of them: (L,), (axes, L); where they are integers from 0 also (batch, L), (axes, batch, L)."
)
Positions = Annotated[str | None, options.text("--positions", "LIST|FILE", _POSITIONS)]
Inverse = Annotated[bool, typer.Option("--inverse", help="Undo the rotation, the attention factor included.")]
_SHIFT = "Move what was rotated already by this many positions, in one step."
Shift = Annotated[str | None, options.text("--shift", "INTEGER", _SHIFT)]

_SHARED = (
    keyword("tensor", Tensor, None),
    keyword("output", Output),
    keyword("json", options.Json, False),
    keyword("quiet", options.Quiet, False),
    keyword("no_progress", options.NoProgress, False),
)
_COMMON = "The output has the names and dtypes of the input; it is computed in float64 and rounded once."
_EXAMPLES = {
    "sinusoidal": (
        "pecli apply sinusoidal x.npy -o y.npy",
        "pecli apply sinusoidal x.safetensors --style whisper --offset 10 -o y.safetensors",
    ),
    "learned": (
        "pecli apply learned x.npy --table wpe.npy -o y.npy",
        "pecli apply learned x.npy --table model.safetensors:wpe.weight --offset 2 -o y.npy",
    ),
    "alibi": (
        "pecli apply alibi scores.npy --causal -o biased.npy",
        "pecli apply alibi scores.npz --form key --rule paper -o biased.npz",
    ),
    "rope": (
        "pecli apply rope q.npy k.npy --theta 500000 -o rotated.safetensors",
        "pecli apply rope qk.safetensors --model llama-3.1-8b --offset 4096 -o rotated.safetensors",
        "pecli apply rope q.npy --model llama-3.1-8b --seq-axis 1 -o rotated.npy",
        "pecli apply rope q.npy --config config.json --positions ids.npy --inverse -o q0.npy",
        "pecli apply rope cache.safetensors --layout interleaved --shift -512 -o moved.safetensors",
    ),
}
MAX_LISTED = 4
"""Tensors that a line of text names."""


@dataclass(frozen=True)
class Applied:
    """The results, the parameters behind them, and the same in a few words."""

    arrays: Sequence[Array]
    parameters: Mapping[str, Any]
    words: str
    seq_axis: int | None = SEQ_AXIS
    """The axis of positions in every tensor; None where a tensor has no such axis, or no position matters."""


Make = Callable[[Sequence[Input], Mapping[str, Any]], Applied]
"""What one of the commands does with its inputs and its options."""


def command(name: str) -> Any:
    """The group of commands, one per scheme."""
    shown = tuple(lines[0] for lines in _EXAMPLES.values())
    summary = "Apply an encoding to tensors, as a model's layer would."
    app = new_app(name=name, no_args_is_help=True, help=summary, epilog=examples(shown))
    for scheme in SCHEMES:
        kind = scheme_named(scheme)
        if kind.applied_as == "rows" and kind.recipe_names():  # what is drawn comes from a file, by `learned`
            _add(app, scheme, partial(_rows, kind), f"Add a {scheme} table to x (…, L, D).", _own(scheme))
    learned = [keyword("table", Table), keyword("offset", Offset, None)]
    _add(app, "learned", _learned, "Add rows of a learned table to x (…, L, D).", learned, also="learned-init")
    alibi = [*_own("alibi"), keyword("causal", Causal, False), keyword("heads", Heads, None)]
    _add(app, "alibi", _alibi, "Add ALiBi biases to scores (…, H, Lq, Lk), whose queries come last.", alibi)
    rotary = "Rotate the channels of q and k (…, L, D) by their positions, rotate them back, or shift them."
    _add(app, "rope", _rope, rotary, _rope_options())
    return typer.main.get_command(app)


def _add(
    app: typer.Typer, name: str, make: Make, summary: str, own: Sequence[inspect.Parameter], also: str = ""
) -> None:
    def run(**values: Any) -> int:
        inputs, metadata = open_inputs(values["files"], values["tensor"] or ())
        options.check_output(values["output"], json=values["json"], example="y.npy")
        return _write(name, inputs, make(inputs, values), metadata, values)

    declared = with_options(run, [keyword("files", Files), *own, *_SHARED])
    help, epilog = f"{summary} {_COMMON}", examples(_EXAMPLES.get(name, ()))
    for word in filter(None, (name, also)):
        app.command(word, cls=Command, help=help, short_help=summary, epilog=epilog, hidden=word != name)(declared)


def _write(
    scheme: str, inputs: Sequence[Input], applied: Applied, metadata: Mapping[str, str], values: Mapping[str, Any]
) -> int:
    """Write the results, and say so."""
    from pecli.files import save_tables
    from pecli.views import BlockObserver, screen

    path: str = values["output"]
    tables = [table_of(each.name, array) for each, array in zip(inputs, applied.arrays, strict=True)]
    observer = BlockObserver(scheme, tables, values)
    with observer:
        save_tables(path, tables, None, metadata=metadata, on_block=observer.see)
    if values["json"]:
        tensors = observer.tensors()
        if applied.seq_axis is not None:
            for table in tables:
                tensors[table.name]["seq_axis"] = applied.seq_axis % len(table.shape)
        screen.say_json({"scheme": scheme, "parameters": dict(applied.parameters), "tensors": tensors, "output": path})
    elif not values["quiet"]:
        shown = [f"{table.name} {screen.shape(table.shape)} {table.dtype}" for table in tables[:MAX_LISTED]]
        if len(tables) > MAX_LISTED:
            shown.append(f"and {len(tables) - MAX_LISTED} more")
        screen.say_written(path, f"{', '.join(shown)}, ", f"; {scheme}: {applied.words}")
    return Exit.DONE


def _span(low: int, high: int) -> str:
    """The positions from low to below high, for people."""
    return f"{low} … {high - 1}" if high - low > 1 else str(low) if high > low else "none"


def _along(each: Input, seq_axis: int = SEQ_AXIS) -> str:
    """Which axis of a tensor was taken for positions, for people."""
    return f"along axis {seq_axis % len(each.shape)} of {each.shape}"


def _parameters(name: str) -> dict[str, Parameter]:
    """The parameters that the input does not decide."""
    decided = ("seq_len", "dim", "heads", "slopes", "dtype", "relative")
    return {label: each for label, each in scheme_named(name).parameters().items() if label not in decided}


def _own(name: str) -> list[inspect.Parameter]:
    kind = scheme_named(name)
    return [options.option(label, parameter, kind) for label, parameter in _parameters(name).items()]


def _rows(kind: type[Scheme], inputs: Sequence[Input], values: Mapping[str, Any]) -> Applied:
    """Add the rows of a scheme with one table (seq_len, dim)."""
    known, arrays = _parameters(kind.name), []
    given = options.parsed(known, values)
    own_rows = bool({"positions", "grid"} & given.keys())
    for each in inputs:
        length, dim = each.check_sequence()
        each.check_dim(kind.parameters()["dim"])
        scheme = kind(**{"seq_len": None if own_rows else max(1, length), "dim": dim, **given})
        if own_rows and scheme.single_array().rows != length:
            raise each.wrong(f"{kind.name} at these positions has {scheme.single_array().rows} rows", f"L is {length}")
        arrays.append(scheme.applied_to(each.array))
    spec = {name: getattr(scheme, name) for name in known}
    first, longest = scheme.first_position, max(each.shape[-2] for each in inputs)
    layout = f"{spec['layout']}, " if "layout" in spec else ""
    return Applied(arrays, spec, f"{layout}positions {_span(first, first + longest)} {_along(inputs[0])}")


def _learned(inputs: Sequence[Input], values: Mapping[str, Any]) -> Applied:
    offset = 0 if values["offset"] is None else OFFSET.parse("offset", values["offset"])
    found, _ = open_inputs([values["table"]])
    only_tensor("table", values["table"], {each.name: each.array for each in found})
    arrays = [add_learned(each, found[0], offset) for each in inputs]
    longest = max(each.shape[-2] for each in inputs)
    rows = f"rows {_span(offset, offset + longest)} of {found[0].shape[0]}"
    return Applied(arrays, {"table": values["table"], "offset": offset}, f"{rows} {_along(inputs[0])}")


def _alibi(inputs: Sequence[Input], values: Mapping[str, Any]) -> Applied:
    given, heads = options.parsed(_parameters("alibi"), values), values["heads"]
    if values["causal"] and given.setdefault("form", "causal") != "causal":
        raise ParameterError("causal", "given", f"--form is {given['form']}", "leave out one of them")
    wanted = None if heads is None else Alibi.parameters()["heads"].parse("heads", heads)
    arrays = []
    for each in inputs:
        each.check_floating()
        if len(each.shape) < 3:
            raise each.wrong("scores must be (…, H, Lq, Lk)", "queries and keys are the last two axes")
        count, queries, keys = each.shape[-3:]
        if wanted not in (None, count):
            raise each.wrong(f"`heads` is {wanted}, and H is {count}", "H is the axis before the last two")
        if queries > keys:
            raise each.wrong(f"Lq = {queries} is more than Lk = {keys}", "queries have the last positions of the keys")
        scheme = Alibi(count, **given)
        arrays.append(scheme.applied_to(each.array) if each.array.size else each.array)
    spec = {name: getattr(scheme, name) for name in ("heads", *_parameters("alibi"))}
    last = f", queries are the last {queries} of {keys} positions" if queries < keys else ""
    return Applied(arrays, spec, f"{scheme.form}, {scheme.rule} slopes of {count} heads{last}", seq_axis=None)


def _rotary() -> dict[str, Parameter]:
    decided = ("seq_len", "layout", "dtype", "recipe", "positions")
    return {label: each for label, each in Rope.parameters().items() if label not in decided}


def _rope_options() -> list[inspect.Parameter]:
    """Those of `pecli rope` that the input does not decide, those of a model, and what is done with them."""
    own = [options.option(label, each, Rope) for label, each in _rotary().items() if label != "dim"]
    ours = (
        ("layout", Layout, None),
        ("trailing", Trailing, False),
        ("seq_axis", SeqAxis, None),
        ("positions", Positions, None),
        ("inverse", Inverse, False),
        ("shift", Shift, None),
        *options.MODEL_OPTIONS,
    )
    return [keyword("dim", Dim, None), *own, *(keyword(*each) for each in ours)]


def _rope(inputs: Sequence[Input], values: Mapping[str, Any]) -> Applied:
    """The tensors, rotated as the options ask for."""
    _check_rope_options(values)
    shift = None if values["shift"] is None else SHIFT.parse("shift", values["shift"])
    seq_axis = SEQ_AXIS if values["seq_axis"] is None else AXIS.parse("seq_axis", values["seq_axis"])
    first, *others = inputs
    length, dim = first.check_sequence(seq_axis)
    for each in others:
        length = max(length, each.check_sequence(seq_axis)[0])
        if each.shape[-1] != dim:
            raise each.wrong(f"{first.label} is of shape {first.shape}", "they must share D, the last axis")
    own = _own_positions(values)
    rows = _row_positions(values, own)
    if rows.ids is None:
        for each in inputs:
            rows.check(each, seq_axis, 1)
    rotation, why = _rotation(inputs, length, rows, own, values)
    rotation = Rotation(
        rotation.rope, rows, rotation.layout, rotation.trailing, values["inverse"], shift, seq_axis
    )  # made anew, with what the command line says of it
    for each in inputs:
        rotation.check(each)
    file = f" of {values['positions']}" if rows.ids is not None else ""
    done = f"positions {_span(*rows.span(length))}{file} {_along(first, seq_axis)}"
    if shift is not None:
        done = f"moved by {shift} positions"
    words = [f"{rotation.layout} ({why})", "undone at " * rotation.inverse + done]
    width = rotation.rope.rotary_dim
    if width < dim:
        words.insert(1, f"the {'last' if rotation.trailing else 'first'} {width} of {dim} channels")
    parameters = {name: getattr(rotation.rope, name) for name in _rotary()}
    parameters |= {name: getattr(rotation, name) for name in ("layout", "trailing", "inverse", "shift")}
    arrays = [rotation.apply(each) for each in inputs]
    axis = seq_axis if shift is None else None
    return Applied(arrays, {**parameters, "positions": values["positions"]}, ", ".join(words), axis)


def _check_rope_options(values: Mapping[str, Any]) -> None:
    """Refuse options that contradict each other."""
    if values["positions"] is not None and values["offset"] is not None:
        raise ParameterError("offset", values["offset"], "--positions says where every row stands", "leave out one")
    if values["shift"] is None:
        return
    for name in ("inverse", "positions", "offset", "seq_axis"):
        if values[name] not in (None, False):
            given = "given" if values[name] is True else values[name]
            raise ParameterError(name, given, "a shift needs no positions", "leave out one of them")


def _row_positions(values: Mapping[str, Any], own: PositionList | None) -> RowPositions:
    """The positions of the rows; those of a scheme's own rows where it has a grid, or positions that are not ids."""
    if values["positions"] is not None and own is None:
        return position_ids(read_numbers("positions", values["positions"]))
    offset = values["offset"]
    return RowPositions(0 if offset is None else _rotary()["offset"].parse("offset", offset))


def _own_positions(values: Mapping[str, Any]) -> PositionList | None:
    """The positions that a scheme takes as its own; None where there are none, or they are ids of a batch."""
    text = values["positions"]
    if text is None:
        return None
    rule = GivenPositions(help="")
    if rule.is_value(text):
        return rule.parse("positions", text)
    numbers = read_numbers("positions", text)
    ids = numbers.dtype.kind in "iu" and values["style"] is None and values["axes"] is None
    return None if ids and numbers.min(initial=0) >= 0 else rule.check("positions", numbers)


def _rotation(
    inputs: Sequence[Input], length: int, rows: RowPositions, own: PositionList | None, values: Mapping[str, Any]
) -> tuple[Rotation, str]:
    """How the options or a model ask for tensors to be rotated, read at the last position; and who says the layout."""
    first = inputs[0]
    seq_len: int | None = max(1, length if rows.ids is None else rows.span(length)[1])
    layout = None if values["layout"] is None else options.parse("layout", LAYOUT, values["layout"])
    why = "given" if layout else "the default"
    if own is not None or values["grid"] is not None:
        seq_len = None
    given = options.parsed(_rotary(), values)
    if not options.names_model(values):
        if "dim" not in given and "axes" not in given:
            first.check_dim(Rope.parameters()["dim"], "or give the rotary dimension with --dim")
            given["dim"] = first.shape[-1]
        rope = Rope(**{**given, "seq_len": seq_len, "positions": own})
        return Rotation(rope, rows, layout or "halves", values["trailing"]), why
    model, (encoding,), given = options.model_encodings(values, given, one=True)
    if not encoding.is_rotary:
        given_as = "config" if values["config"] else "model"
        raise ParameterError(given_as, model.file, f"its encoding is {encoding.scheme}, not rope")
    rope = encoding.rope(seq_len, positions=own, **given)
    check_head(first, rope, encoding, model.file, trailing=values["trailing"])
    if values["shift"] is None and values["seq_axis"] is None and not encoding.part:
        named = values["model"] if values["config"] is None else values["config"]
        for each in inputs:
            check_axis(each, head_counts(named, values["layer_type"]), model.file)
    pairs = layout or encoding.layout or "halves"
    why = why if layout else f"as {model.file} has it"
    return Rotation(rope, rows, pairs, values["trailing"] or encoding.trailing), why
