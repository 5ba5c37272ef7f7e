"""`pecli apply`: an encoding applied to tensors, as a model's layer would."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pecli.cli import SchemeGroup, command_of, examples, options
from pecli.engine.arrays import Array
from pecli.engine.schemes import SCHEMES, Parameter, scheme_named
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import table_of
from pecli.errors import ParameterError, listed
from pecli.files import save_tables
from pecli.tensors import apply as tensors
from pecli.tensors.apply import RowPositions
from pecli.tensors.inputs import SEQ_AXIS, Input, open_inputs, read_numbers
from pecli.views import progress, screen

MAX_LISTED = 4  #: Tensors that a line of text names
EXAMPLES = (
    "pecli apply sinusoidal x.npy -o y.npy",
    "pecli apply sinusoidal x.safetensors --style whisper --offset 10 -o y.safetensors",
    "pecli apply learned x.npy --table wpe.npy -o y.npy",
    "pecli apply learned x.npy --table model.safetensors:wpe.weight --offset 2 -o y.npy",
    "pecli apply alibi scores.npy --causal -o biased.npy",
    "pecli apply alibi scores.npz --form key --rule paper -o biased.npz",
    "pecli apply rope q.npy k.npy --theta 500000 -o rotated.safetensors",
    "pecli apply rope qk.safetensors --model llama-3.1-8b --offset 4096 -o rotated.safetensors",
    "pecli apply rope q.npy --model llama-3.1-8b --seq-axis 1 -o rotated.npy",
    "pecli apply rope q.npy --config config.json --positions ids.npy --inverse -o q0.npy",
    "pecli apply rope cache.safetensors --layout interleaved --shift -512 -o moved.safetensors",
)
_FILES = (
    ".npy, .npz or .safetensors files, or FILE:NAME for one tensor; - is a .npy on standard input."
)
_LAYOUT = "Which channels make a pair: halves (NeoX, rotate_half), interleaved (GPT-J), or deepseek (reads the second,"
_LAYOUT += " writes the first). (default: the model's, or halves)"
_POSITIONS = (
    "Numbers, or a file of them: (L,), (axes, L); where they are integers from 0 also (batch, L), "
)
_POSITIONS += "(axes, batch, L)."
_SHIFT = "Move what was rotated already by this many positions, in one step."
_AXIS = "The axis of positions: -3 for q of shape (batch, L, heads, D). (default: -2)"
_DIM = "Rotary dimension: channels that rotate, in pairs. (default: all, or the model's)"
_MODEL = f"Take --dim, --theta, --scaling, … from a model: {options.MODEL}. Options override it; --config is the same."
LEARNED_OPTIONS = (
    options.text(
        "--table", "FILE", "The table, (rows, D); or FILE:NAME.", default=options.REQUIRED
    ),
    options.text(
        "--offset", "INTEGER", "The row for the first position. (default: 0)", rule=tensors.OFFSET
    ),
)
ROPE_OPTIONS = (
    options.text("--layout", "NAME", _LAYOUT, rule=tensors.LAYOUT),
    options.flag("--trailing", "Rotate the trailing channels, where only some rotate."),
    options.text("--seq-axis", "INTEGER", _AXIS, rule=tensors.AXIS),
    options.text("--positions", "LIST|FILE", _POSITIONS),
    options.text(
        "--attention-mask",
        "FILE",
        "1 for tokens, 0 for padding, (batch, L); positions count the ones.",
    ),
    options.flag("--inverse", "Undo the rotation, the attention factor included."),
    options.text("--shift", "INTEGER", _SHIFT, rule=tensors.SHIFT),
    *options.model_options(_MODEL),
)
SHARED_OPTIONS = (
    options.text(
        "--tensor", "NAME", "Only the tensor of this name; may be repeated.", several=True
    ),
    options.output(options.TABLES, default=options.REQUIRED),
    *options.WORK,
)


Applied = tuple[
    Sequence[Array], Mapping[str, Any], str
]  #: Results, the parameters behind them, and these in few words
Apply = Callable[
    [Sequence[Input], Mapping[str, Any]], Applied
]  #: What a command does with its inputs and its options
_DECIDED = {"seq_len", "dim", "heads", "slopes", "dtype", "relative"}
_BY_THE_INPUT = {"seq_len", "layout", "dtype", "recipe", "positions"}
_ROTARY = {name: rule for name, rule in Rope.parameters().items() if name not in _BY_THE_INPUT}


def command(name: str) -> Any:
    """The group of commands, one per scheme."""
    commands = []
    for kind in map(scheme_named, SCHEMES):
        if (
            kind.applied_as == "rows" and kind.recipe_names()
        ):  # what is drawn comes from a file, by `learned`
            summary, own = (
                f"Add a {kind.name} table to x (…, L, D).",
                options.own_options(kind, _DECIDED),
            )
            commands.append(_command(kind.name, partial(_add_rows, kind), summary, own))
    summary = "Add rows of a learned table to x (…, L, D)."
    commands += [
        _command(word, _add_learned, summary, LEARNED_OPTIONS)
        for word in ("learned", "learned-init")
    ]
    causal = options.flag("--causal", "The same as --form causal.")
    summary = "Add ALiBi biases to scores (…, H, Lq, Lk), whose queries come last."
    commands.append(
        _command("alibi", _add_alibi, summary, [*options.own_options(Alibi, _DECIDED), causal])
    )
    summary = "Rotate the channels of q and k (…, L, D) by their positions, rotate them back, or shift them."
    own = options.own_options(Rope, _BY_THE_INPUT | {"dim"})
    commands.append(
        _command(
            "rope", _rotate, summary, [options.text("--dim", "INTEGER", _DIM), *own, *ROPE_OPTIONS]
        )
    )
    help = "Apply an encoding to tensors, as a model's layer would."
    firsts: dict[str, str] = {}
    for line in EXAMPLES:
        firsts.setdefault(line.split()[2], line)
    epilog = examples([*firsts.values()])
    return SchemeGroup(name=name, commands=commands, help=help, epilog=epilog, no_args_is_help=True)


def _command(name: str, apply: Apply, summary: str, own: Sequence[inspect.Parameter]) -> Any:
    help = f"{summary} The output has the names and dtypes of the input; it is computed in float64 and rounded once."
    declared = [options.argument("files", "FILE…", _FILES, several=True), *own, *SHARED_OPTIONS]
    about = {"help": help, "short_help": summary, "hidden": name == "learned-init"}
    shown = [line for line in EXAMPLES if line.split()[2] == name.removesuffix("-init")]
    return command_of(name, partial(_run, name, apply), declared, shown, **about)


def _run(scheme: str, apply: Apply, **values: Any) -> None:
    inputs, metadata = open_inputs(values["files"], values["tensor"] or ())
    path: str = values["output"]
    options.check_output(path, json=values["json"])
    arrays, parameters, words = apply(inputs, values)
    tables = [table_of(tensor.name, array) for tensor, array in zip(inputs, arrays, strict=True)]
    with progress.counting(
        scheme, sum(table.nbytes for table in tables), wanted=options.shows_progress(values)
    ) as advance:
        save_tables(path, tables, None, metadata=metadata, on_block=advance)
    if values["json"]:
        about = {"scheme": scheme, "parameters": dict(parameters)}
        screen.print_json(
            {
                **about,
                "tensors": progress.described(
                    scheme, tables, wanted=options.shows_progress(values)
                ),
                "output": path,
            }
        )
    elif not values["quiet"]:
        shown = [f"{table.name} {screen.shape(table.shape)} {table.dtype}" for table in tables]
        screen.print_written(path, f"{listed(shown, MAX_LISTED)}, ", f"; {scheme}: {words}")


def _span(low: int, high: int, first: Input, seq_axis: int = SEQ_AXIS, of: str = "") -> str:
    """The positions from low to below high, and the axis that was taken for them, for people."""
    span = f"{low} … {high - 1}" if high - low > 1 else str(low) if high > low else "none"
    return f"{span}{of} along axis {seq_axis % len(first.shape)} of {first.shape}"


def _own(kind: type[Scheme]) -> dict[str, Parameter]:
    return {name: rule for name, rule in kind.parameters().items() if name not in _DECIDED}


def _add_rows(kind: type[Scheme], inputs: Sequence[Input], values: Mapping[str, Any]) -> Applied:
    arrays = []
    given = options.parsed(_own(kind), values)
    own_rows = bool({"positions", "grid"} & given.keys())
    for tensor in inputs:
        length, dim = tensor.check_sequence()
        tensor.check_dim(kind.parameters()["dim"])
        scheme = kind(**{"seq_len": None if own_rows else max(1, length), "dim": dim, **given})
        rows = scheme.single_array().rows
        if own_rows and rows != length:
            raise tensor.wrong(f"{kind.name} at these positions has {rows} rows", f"L is {length}")
        arrays.append(scheme.applied_to(tensor.array))
    spec = {name: getattr(scheme, name) for name in _own(kind)}
    first, longest = scheme.first_position, max(tensor.shape[-2] for tensor in inputs)
    layout = f"{spec['layout']}, " if "layout" in spec else ""
    return arrays, spec, f"{layout}positions {_span(first, first + longest, inputs[0])}"


def _add_learned(inputs: Sequence[Input], values: Mapping[str, Any]) -> Applied:
    offset, table = (
        values["offset"] or 0,
        Input(read_numbers("table", values["table"]), f"the table {values['table']}"),
    )
    arrays = [tensors.add_learned(tensor, table, offset) for tensor in inputs]
    longest = max(tensor.shape[-2] for tensor in inputs)
    words = f"rows {_span(offset, offset + longest, inputs[0], of=f' of {table.shape[0]}')}"
    return arrays, {"table": values["table"], "offset": offset}, words


def _add_alibi(inputs: Sequence[Input], values: Mapping[str, Any]) -> Applied:
    given = options.parsed(_own(Alibi), values)
    if values["causal"] and given.setdefault("form", "causal") != "causal":
        raise ParameterError(
            "causal", "given", f"--form is {given['form']}", "leave out one of them"
        )
    arrays = []
    for tensor in inputs:
        tensor.check_floating()
        count, queries, keys = tensor.shape[-3:] if len(tensor.shape) > 2 else (0, 1, 0)
        if queries > keys:
            rule = "scores must be (…, H, Lq, Lk) with Lq ≤ Lk"
            raise tensor.wrong(rule, "queries have the last positions of the keys")
        scheme = Alibi(count, **given)
        arrays.append(scheme.applied_to(tensor.array) if tensor.array.size else tensor.array)
    spec = {name: getattr(scheme, name) for name in ("heads", *_own(Alibi))}
    last = f", queries are the last {queries} of {keys} positions" if queries < keys else ""
    return arrays, spec, f"{scheme.form}, {scheme.rule} slopes of {count} heads{last}"


def _rotate(inputs: Sequence[Input], values: Mapping[str, Any]) -> Applied:
    fields = tensors.given(
        **{name: values[name] for name in ("layout", "trailing", "inverse", "shift", "seq_axis")}
    )
    first, seq_axis, shift = inputs[0], fields.get("seq_axis", SEQ_AXIS), values["shift"]
    length, dim = first.check_sequence(seq_axis)
    for tensor in inputs[1:]:
        length = max(length, tensor.check_sequence(seq_axis)[0])
        if tensor.shape[-1] != dim:
            raise tensor.wrong(
                f"{first.label} is of shape {first.shape}", "they must share D, the last axis"
            )
    given = options.parsed(_ROTARY, values)
    rows = _positions(values, given)
    said = "the default"
    if (name := options.model_name(values)) is not None:
        model, (encoding,), given = options.model_encodings(values, given, one=True)
        said = f"as {model.file} has it"
        heads = tensors.head_counts(name, values["layer_type"])
        rotation = tensors.model_rotation(
            inputs, model.file, encoding, rows, heads, fields, **given
        )
    else:
        if "dim" not in given and "axes" not in given:
            first.check_dim(Rope.parameters()["dim"], "or give the rotary dimension with --dim")
            given["dim"] = dim
        rope = Rope(**{"seq_len": rows.seq_len(length, given), **given})
        rotation = tensors.RowRotation(rope, rows, **fields)
    arrays = [rotation.apply(tensor) for tensor in inputs]
    words = [f"{rotation.layout} ({'given' if 'layout' in fields else said})"]
    width = rotation.rope.rotary_dim
    if width < dim:
        words.append(f"the {'last' if rotation.trailing else 'first'} {width} of {dim} channels")
    file = f" of {values[rows.name]}" if rows.ids is not None else ""
    places = f"positions {_span(*rows.span(length), first, seq_axis, file)}"
    words.append(
        "undone at " * rotation.inverse
        + (places if shift is None else f"moved by {shift} positions")
    )
    parameters = {name: getattr(rotation.rope, name) for name in _ROTARY}
    parameters |= {
        name: getattr(rotation, name) for name in ("layout", "trailing", "inverse", "shift")
    }
    parameters["positions"] = values["positions"]
    return arrays, parameters, ", ".join(words)


def _positions(values: Mapping[str, Any], given: dict[str, Any]) -> RowPositions:
    """The positions of the rows: a range, or ids, also of a batch. Others become parameters of the scheme."""
    ids, mask = None, values["attention_mask"]
    if (text := values["positions"]) is not None:
        rule = Rope.parameters()["positions"]
        numbers = None if rule.is_value(text) else read_numbers("positions", text)
        is_whole = (
            numbers is not None and numbers.dtype.kind in "iu" and numbers.min(initial=0) >= 0
        )
        if is_whole and values["style"] is values["axes"] is None:
            ids = numbers
        else:
            given["positions"] = (
                rule.parse("positions", text)
                if numbers is None
                else rule.check("positions", numbers)
            )
    tokens = None if mask is None else read_numbers("attention_mask", mask)
    return tensors.row_positions(ids, tokens, values["shift"], given.get("offset"))
