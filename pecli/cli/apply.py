"""`pecli apply`: apply an encoding to tensors, as a model's layer would."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from pecli.cli import options, scheme_options
from pecli.cli.answers import print_answer
from pecli.cli.commands import AnyCommand, SchemeGroup, command_of
from pecli.cli.options import Values
from pecli.engine.arrays import Array
from pecli.engine.named_values import JsonObject, MutableValues, NamedValues
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.given_positions import PositionList
from pecli.engine.schemes.parameters import ParameterRule
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError, listed
from pecli.files import save_tables
from pecli.files.formats import readable_suffixes
from pecli.tensors import row_positions, row_rotation
from pecli.tensors.apply import add_learned
from pecli.tensors.inputs import SEQ_AXIS, Input, open_inputs, read_numbers
from pecli.tensors.row_positions import RowPositions, given_options
from pecli.tensors.row_rotation import RowRotation
from pecli.views import progress, screen

MAX_LISTED = 4
"""Tensors that a line of text names."""

HELP = "Apply an encoding to tensors, as a model's layer would."
EXAMPLES = {
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

_FILES = (
    f"Files of tensors ({', '.join(readable_suffixes())}), or FILE:NAME for one tensor; "
    "- is standard input (.npy, JSON, text)."
)
_LAYOUT = (
    "Which channels make a pair: halves (NeoX, rotate_half), interleaved (GPT-J), or deepseek "
    "(reads the second, writes the first). (default: the model's, or halves)"
)
_POSITIONS = (
    "Numbers, or a file of them: (L,), (axes, L); if they are integers from 0 also (batch, L), "
    "(axes, batch, L)."
)
_MASK = "1 for tokens, 0 for padding, (batch, L); positions count the ones."
_SHIFT = "Move what was rotated already by this many positions, in one step."
_AXIS = "The axis of positions: -3 for q of shape (batch, L, heads, D). (default: -2)"
_DIM = "Rotary dimension: channels that rotate, in pairs. (default: all, or the model's)"
_MODEL = (
    f"Take --dim, --theta, --scaling, … from a model: {options.MODEL}. Options override it; "
    "--config is the same."
)

LEARNED_OPTIONS = (
    options.text(
        "--table", "FILE", "The table, (rows, D); or FILE:NAME.", default=options.REQUIRED
    ),
    options.text(
        "--offset",
        "INTEGER",
        "The row for the first position. (default: 0)",
        rule=row_positions.OFFSET,
    ),
)
CAUSAL = options.flag("--causal", "The same as --form causal.")
DIM = options.text("--dim", "INTEGER", _DIM)
ROPE_OPTIONS = (
    options.text("--layout", "NAME", _LAYOUT, rule=row_rotation.LAYOUT),
    options.flag("--trailing", "Rotate the trailing channels, if only some rotate."),
    options.text("--seq-axis", "INTEGER", _AXIS, rule=row_rotation.AXIS),
    options.text("--positions", "LIST|FILE", _POSITIONS),
    options.text("--attention-mask", "FILE", _MASK),
    options.flag("--inverse", "Undo the rotation, the attention factor included."),
    options.text("--shift", "INTEGER", _SHIFT, rule=row_positions.SHIFT),
    *options.model_options(_MODEL),
)
SHARED_OPTIONS = (
    options.text(
        "--tensor", "NAME", "Only the tensor of this name; may be repeated.", several=True
    ),
    *options.RAW,
    options.output(options.TABLES, default=options.REQUIRED),
    *options.WORK,
)

_DECIDED_BY_INPUT = frozenset({"seq_len", "dim", "heads", "slopes", "dtype", "relative"})
"""Parameters of added tables that the shape of the input decides, or that would change nothing."""

_ROTARY = options.without(Rope.parameters(), {"seq_len", "layout", "dtype", "recipe", "positions"})
"""Parameters of rope that the input does not decide, and that mean the same as for a table."""


class AppliedArrays(NamedTuple):
    """The results for all inputs, and how they were made."""

    arrays: Sequence[Array]  #: one per input
    parameters: NamedValues  #: for JSON
    words: str  #: the parameters in brief: «halves (the default), positions 0 … 7 along axis 1»


Apply = Callable[[Sequence[Input], Values], AppliedArrays]
"""A function that applies an encoding to inputs, with the options of its command."""


def command(name: str) -> AnyCommand:
    """Return the command, with a subcommand per scheme."""
    commands = list(map(_rows_command, _schemes_with_rows()))
    commands += [_learned_command("learned"), _learned_command("learned-init", hidden=True)]
    commands += [_alibi_command(), _rope_command()]
    first_examples = [lines[0] for lines in EXAMPLES.values()]
    return SchemeGroup(name, commands, HELP, first_examples)


def _schemes_with_rows() -> list[type[Scheme]]:
    """Return the schemes whose rows are computed and added; a learned table comes from a file."""
    kinds = map(scheme_named, SCHEMES)
    return [kind for kind in kinds if kind.applied_as == "rows" and kind.recipe_names()]


@cache
def _rows_command(scheme_type: type[Scheme]) -> AnyCommand:
    """Return the command of a scheme whose table is added, such as `pecli apply sinusoidal`."""
    summary = f"Add a {scheme_type.name} table to x (…, L, D)."
    special_options = scheme_options.parameter_options(scheme_type, _DECIDED_BY_INPUT)
    return _apply_command(
        scheme_type.name, partial(_add_rows, scheme_type), summary, special_options
    )


@cache
def _learned_command(name: str, *, hidden: bool = False) -> AnyCommand:
    """Return the command for learned tables.

    It has a hidden second name, `learned-init`: the scheme that generates such tables has this name.
    """
    summary = "Add rows of a learned table to x (…, L, D)."
    return _apply_command(name, _add_learned, summary, LEARNED_OPTIONS, hidden=hidden)


@cache
def _alibi_command() -> AnyCommand:
    summary = "Add ALiBi biases to scores (…, H, Lq, Lk), whose queries come last."
    special_options = scheme_options.parameter_options(Alibi, _DECIDED_BY_INPUT)
    return _apply_command("alibi", _add_alibi, summary, [*special_options, CAUSAL])


@cache
def _rope_command() -> AnyCommand:
    summary = "Rotate the channels of q and k (…, L, D) by their positions, rotate them back, or shift them."
    others = Rope.parameters().keys() - _ROTARY.keys()
    special_options = scheme_options.parameter_options(Rope, {*others, "dim"})
    return _apply_command("rope", _rotate_inputs, summary, [DIM, *special_options, *ROPE_OPTIONS])


def _apply_command(
    name: str,
    apply: Apply,
    summary: str,
    special_options: Sequence[inspect.Parameter],
    *,
    hidden: bool = False,
) -> AnyCommand:
    """Return a subcommand of `pecli apply`.

    Args:
        name: The name of the scheme.
        apply: The function that applies it.
        summary: One sentence for the help.
        special_options: The options that other subcommands do not have.
        hidden: Leave it out of the list of subcommands.
    """
    declared = [
        options.argument("files", "FILE…", _FILES, several=True),
        *special_options,
        *SHARED_OPTIONS,
    ]
    precision = "The output has the names and dtypes of the input; it is computed in float64 and rounded once."
    # `learned-init` is a second name of `learned`, and has the same examples.
    examples = EXAMPLES.get(name.removesuffix("-init"), ())
    return command_of(
        name,
        partial(_apply_and_write, name, apply),
        declared,
        examples,
        help=f"{summary} {precision}",
        short_help=summary,
        hidden=hidden,
    )


def _apply_and_write(scheme: str, apply: Apply, **values: Any) -> None:
    """Read the inputs, apply an encoding to them, write the results, and print what was done.

    Args:
        scheme: The name of the subcommand.
        apply: The function that applies its encoding.
        values: The values of its options: `files`, `tensor`, `output`, `json` and `quiet`, and
            those that only `apply` reads.
    """
    inputs, metadata = open_inputs(values["files"], values["tensor"])
    output: str = values["output"]
    options.check_output(output, json=values["json"])
    applied = apply(inputs, values)
    tables = [
        table_of(tensor.name, array) for tensor, array in zip(inputs, applied.arrays, strict=True)
    ]
    shows_progress = options.shows_progress(values)
    total_bytes = sum(table.nbytes for table in tables)
    with progress.counting(scheme, total_bytes, wanted=shows_progress) as advance:
        save_tables(output, tables, None, metadata=metadata, on_block=advance)
    as_json = partial(_as_json, scheme, output, tables, applied.parameters, shows_progress)
    show = partial(_show, scheme, output, tables, applied.words)
    print_answer(as_json, show, json=values["json"], quiet=values["quiet"])


def _as_json(
    scheme: str,
    path: str,
    tables: Sequence[Table],
    parameters: NamedValues,
    shows_progress: bool,
) -> JsonObject:
    """Return the answer of `--json`; large tensors take time to describe, hence the progress bar."""
    return {
        "scheme": scheme,
        "parameters": dict(parameters),
        "tensors": progress.described(scheme, tables, wanted=shows_progress),
        "output": path,
    }


def _show(scheme: str, path: str, tables: Sequence[Table], words: str) -> None:
    shapes = [f"{table.name} {screen.shape(table.shape)} {table.dtype}" for table in tables]
    screen.print_written(path, f"{listed(shapes, MAX_LISTED)}, ", f"; {scheme}: {words}")


def _span_in_words(first: int, stop: int) -> str:
    """Return the integers from `first` to before `stop`: «0 … 7», «3», «none»."""
    if stop <= first:
        return "none"
    return _from_to(first, stop - 1)


def _from_to(first: object, last: object) -> str:
    """Return «0 … 7», or «3» if both are equal."""
    if first == last:
        return str(first)
    return f"{first} … {last}"


def _listed_span(positions: PositionList) -> str:
    """Return the least and the largest of listed positions, of all axes: «-1 … 1», «1/3 … 2»."""
    typed = [*chain.from_iterable(positions.axes)]
    exact = [*chain.from_iterable(positions.exact())]
    least = typed[exact.index(min(exact))]
    largest = typed[exact.index(max(exact))]
    return _from_to(least, largest)


def _axis_in_words(tensor: Input, seq_axis: int = SEQ_AXIS) -> str:
    """Return the axis that was taken for positions, so that the user notices a wrong one.

    An input (2, 8, 64) with positions on axis −2 gives «along axis 1 of (2, 8, 64)».
    """
    return f"along axis {seq_axis % len(tensor.shape)} of {tensor.shape}"


def _added_parameters(scheme_type: type[Scheme]) -> dict[str, ParameterRule]:
    return options.without(scheme_type.parameters(), _DECIDED_BY_INPUT)


def _add_rows(scheme_type: type[Scheme], inputs: Sequence[Input], values: Values) -> AppliedArrays:
    """Add a table to each input (…, L, D); the table has L rows and D columns.

    Args:
        scheme_type: The scheme that makes the tables, such as sinusoidal.
        inputs: The inputs, at least one; each may have another L.
        values: The options of the command.
    """
    parameters = options.parsed(_added_parameters(scheme_type), values)
    schemes: list[Scheme] = []
    arrays: list[Array] = []
    for tensor in inputs:
        scheme = _scheme_for_input(scheme_type, tensor, parameters)
        schemes.append(scheme)
        arrays.append(scheme.applied_to(tensor.array))
    # The parameters that do not follow from an input are those of every scheme.
    first_scheme = schemes[0]
    spec = {name: getattr(first_scheme, name) for name in _added_parameters(scheme_type)}
    added_positions = _added_span(first_scheme, spec.get("positions"), inputs)
    words = f"positions {added_positions} {_axis_in_words(inputs[0])}"
    if "layout" in spec:
        words = f"{spec['layout']}, {words}"
    return AppliedArrays(arrays, spec, words)


def _added_span(
    scheme: Scheme, listed_positions: PositionList | None, inputs: Sequence[Input]
) -> str:
    """Return the positions whose rows were added, in words: «0 … 7» for inputs of at most 8 rows."""
    if listed_positions is not None:
        return _listed_span(listed_positions)
    longest = _longest(inputs, SEQ_AXIS)
    return _span_in_words(scheme.first_position, scheme.first_position + longest)


def _scheme_for_input(scheme_type: type[Scheme], tensor: Input, parameters: Values) -> Scheme:
    """Return the scheme whose table is added to an input (…, L, D).

    If the user gives positions or a grid, they define the rows of the table, and L must be their
    number. Otherwise L defines it.
    """
    if "positions" in parameters or "grid" in parameters:
        return _scheme_with_own_rows(scheme_type, tensor, parameters)
    return _scheme_of_length(scheme_type, tensor, parameters)


def _scheme_of_length(scheme_type: type[Scheme], tensor: Input, parameters: Values) -> Scheme:
    """Return a scheme with as many rows as a tensor; an empty one (L = 0) still gets one row."""
    length, dim = tensor.check_sequence()
    tensor.check_dim(scheme_type.parameters()["dim"])
    return scheme_type(**{"seq_len": max(1, length), "dim": dim, **parameters})


def _scheme_with_own_rows(scheme_type: type[Scheme], tensor: Input, parameters: Values) -> Scheme:
    """Return a scheme whose rows are those of the positions or the grid that the user gave.

    A grid 2x3 has 6 rows: an input (…, 6, D) gets one row per position, and (…, 5, D) is refused.
    """
    length, dim = tensor.check_sequence()
    tensor.check_dim(scheme_type.parameters()["dim"])
    # The scheme derives `seq_len` from its positions or its grid; a value would be refused.
    scheme = scheme_type(**{"seq_len": None, "dim": dim, **parameters})
    rows = scheme.single_array().rows
    if rows != length:
        raise tensor.wrong(
            f"{scheme_type.name} at these positions has {rows} rows", f"L is {length}"
        )
    return scheme


def _add_learned(inputs: Sequence[Input], values: Values) -> AppliedArrays:
    """Add rows of a table in a file, from `--offset` on."""
    offset = values["offset"] or 0
    table = Input(read_numbers("table", values["table"]), f"the table {values['table']}")
    arrays = [add_learned(tensor, table, offset) for tensor in inputs]
    longest = max(tensor.shape[-2] for tensor in inputs)
    rows = f"rows {_span_in_words(offset, offset + longest)} of {table.shape[0]}"
    parameters = {"table": values["table"], "offset": offset}
    return AppliedArrays(arrays, parameters, f"{rows} {_axis_in_words(inputs[0])}")


def _add_alibi(inputs: Sequence[Input], values: Values) -> AppliedArrays:
    """Add biases to scores (…, H, Lq, Lk), whose queries have the last positions of the keys.

    Inputs may have different numbers of heads and queries; the description is that of the last one.
    """
    parameters = _alibi_parameters(values)
    arrays: list[Array] = []
    for tensor in inputs:
        tensor.check_floating()
        scheme = Alibi(_score_shape(tensor).heads, **parameters)
        arrays.append(_biased(tensor.array, scheme))
    last_shape = _score_shape(inputs[-1])
    last_scheme = Alibi(last_shape.heads, **parameters)
    spec = {name: getattr(last_scheme, name) for name in ("heads", *_added_parameters(Alibi))}
    words = f"{last_scheme.form}, {last_scheme.rule} slopes of {last_shape.heads} heads"
    if last_shape.queries < last_shape.keys:
        words += f", queries are the last {last_shape.queries} of {last_shape.keys} positions"
    return AppliedArrays(arrays, spec, words)


def _biased(scores: Array, scheme: Alibi) -> Array:
    """Return scores with their biases; without scores (Lq = 0, say) there is nothing to add to."""
    if scores.size == 0:
        return scores
    return scheme.applied_to(scores)


def _alibi_parameters(values: Values) -> MutableValues:
    """Return the parameters of the biases; `--causal` is short for `--form causal`."""
    parameters = options.parsed(_added_parameters(Alibi), values)
    if values["causal"]:
        form = parameters.setdefault("form", "causal")
        if form != "causal":
            rule = f"--form is {form}"
            raise ParameterError("causal", "given", rule, "leave out one of them")
    return parameters


class _ScoreShape(NamedTuple):
    """The last three axes of attention scores."""

    heads: int
    queries: int
    keys: int


def _score_shape(tensor: Input) -> _ScoreShape:
    """Return the numbers of heads, queries and keys of attention scores (…, H, Lq, Lk).

    With a cache there are fewer queries than keys; more are impossible.
    """
    if len(tensor.shape) > 2:
        shape = _ScoreShape(*tensor.shape[-3:])
        if shape.queries <= shape.keys:
            return shape
    rule = "scores must be (…, H, Lq, Lk) with Lq ≤ Lk"
    raise tensor.wrong(rule, "queries have the last positions of the keys")


def _rotate_inputs(inputs: Sequence[Input], values: Values) -> AppliedArrays:
    """Rotate inputs (…, L, D) for `pecli apply rope`, by given parameters or as a model does.

    The layout is described with its source, because a wrong layout gives wrong numbers of the right
    shape: «halves (as config.json has it)», «interleaved (given)».
    """
    request = _rotation_request(inputs, values)
    model = options.model_name(values)
    if model is None:
        rotation = _scheme_rotation(request)
        layout_source = "the default"
    else:
        rotation, layout_source = _model_rotation(request, model, values)
    if "layout" in request.rotation_fields:
        layout_source = "given"
    arrays = [rotation.apply(tensor) for tensor in inputs]
    words = [f"{rotation.layout} ({layout_source})"]
    words += _rotated_channels(inputs[0], rotation)
    words.append(_rotated_positions(inputs, rotation, values))
    return AppliedArrays(arrays, _rotation_parameters(rotation, values), ", ".join(words))


class _RotationRequest(NamedTuple):
    """A rotation as options state it; what they leave out follows from the inputs or from a model."""

    inputs: Sequence[Input]
    rows: RowPositions
    rotation_fields: NamedValues  #: fields of `RowRotation`, such as its layout
    rope_parameters: NamedValues  #: parameters of `Rope`, such as its base

    @property
    def seq_axis(self) -> int:
        """The axis of positions in the inputs."""
        return int(self.rotation_fields.get("seq_axis", SEQ_AXIS))


def _rotation_request(inputs: Sequence[Input], values: Values) -> _RotationRequest:
    """Return the rotation that options state; raise ParameterError for inputs that do not fit it.

    `--positions` has one of two meanings. Whole numbers are row ids: the row of the rope's tables
    that each row of the input takes. Other positions, such as 0.5 or places in a grid, become the
    parameter `positions` of the rope, which then has a row for each of them.
    """
    fields = given_options(
        layout=values["layout"],
        trailing=values["trailing"],
        inverse=values["inverse"],
        shift=values["shift"],
        seq_axis=values["seq_axis"],
    )
    _check_same_dim(inputs, fields.get("seq_axis", SEQ_AXIS))
    rope_parameters = options.parsed(_ROTARY, values)
    stated = _stated_positions(values)
    rows = row_positions.row_positions(
        positions=stated.row_ids,
        attention_mask=stated.attention_mask,
        shift=values["shift"],
        offset=rope_parameters.get("offset"),
    )
    if stated.rope_positions is not None:
        rope_parameters["positions"] = stated.rope_positions
    return _RotationRequest(inputs, rows, fields, rope_parameters)


def _check_same_dim(inputs: Sequence[Input], seq_axis: int) -> None:
    """Raise an error unless all inputs have an axis of positions and the same last axis."""
    first = inputs[0]
    for tensor in inputs:
        tensor.check_sequence(seq_axis)
        if tensor.shape[-1] != first.shape[-1]:
            rule = f"{first.label} is of shape {first.shape}"
            raise tensor.wrong(rule, "they must share D, the last axis")


def _longest(inputs: Sequence[Input], seq_axis: int) -> int:
    return max(tensor.shape[seq_axis] for tensor in inputs)


class _StatedPositions(NamedTuple):
    """Positions of rows that options state.

    Attributes:
        row_ids: `--positions` if these are whole numbers, which may differ within a batch; else None.
        rope_positions: `--positions` if these are others, such as 0.5; else None.
        attention_mask: `--attention-mask`, None if it was not given.
    """

    row_ids: Array | None
    rope_positions: PositionList | None
    attention_mask: Array | None


def _stated_positions(values: Values) -> _StatedPositions:
    """Return the positions of rows that `--positions` and `--attention-mask` state.

    A file of whole numbers from 0 has position ids, unless options give positions several axes.
    A list, such as `--positions 0.5,1`, and files of other numbers are a parameter of the rope.
    """
    rule = Rope.parameters()["positions"]
    row_ids: Array | None = None
    rope_positions: PositionList | None = None
    if values["positions"] is not None:
        numbers = options.value_or_array("positions", rule, values["positions"])
        has_axes = values["style"] is not None or values["axes"] is not None
        if _are_ids(numbers) and not has_axes:
            row_ids = numbers
        else:
            rope_positions = rule.check("positions", numbers)
    attention_mask: Array | None = None
    if values["attention_mask"] is not None:
        attention_mask = read_numbers("attention_mask", values["attention_mask"])
    return _StatedPositions(row_ids, rope_positions, attention_mask)


def _are_ids(numbers: object) -> TypeGuard[Array]:
    """Return True for an array that can hold position ids: integers that are not negative."""
    if not isinstance(numbers, np.ndarray):
        return False
    are_integers = np.issubdtype(numbers.dtype, np.integer)
    return bool(are_integers and numbers.min(initial=0) >= 0)


def _scheme_rotation(request: _RotationRequest) -> RowRotation:
    """Return the rotation by a rope whose parameters the options state, without a model.

    What they leave out follows from the inputs. The rope is as long as the longest one, unless
    `--positions` or `--grid` states a row for each position. All channels rotate, unless `--dim`,
    `--axes` or `--inv-freq` states how many do.
    """
    parameters: MutableValues = dict(request.rope_parameters)
    leaves_out_dim = parameters.keys().isdisjoint(("dim", "axes", "inv_freq"))
    if leaves_out_dim:
        first = request.inputs[0]
        first.check_dim(Rope.parameters()["dim"], "or give the rotary dimension with --dim")
        parameters["dim"] = first.shape[-1]
    longest = _longest(request.inputs, request.seq_axis)
    parameters["seq_len"] = request.rows.seq_len(longest, request.rope_parameters)
    return RowRotation(Rope(**parameters), request.rows, **request.rotation_fields)


class _ModelRotation(NamedTuple):
    """The rotation of a model's layers."""

    rotation: RowRotation
    layout_source: str  #: «as config.json has it»


def _model_rotation(request: _RotationRequest, model: str, values: Values) -> _ModelRotation:
    """Return the rotation that the layers of a model apply, with what options replace in it.

    Args:
        request: The inputs, their positions, and the layout or other values that options state.
        model: The model's name.
        values: All options, some of which name the model and the type of its layers.
    """
    resolved = scheme_options.only_model_encoding(values, request.rope_parameters)
    (encoding,) = resolved.encodings
    file = resolved.model.file
    rotation = row_rotation.model_rotation(
        request.inputs,
        file=file,
        encoding=encoding,
        rows=request.rows,
        heads=row_rotation.head_counts(model, values["layer_type"]),
        rotation_fields=request.rotation_fields,
        **resolved.other_parameters,
    )
    return _ModelRotation(rotation, layout_source=f"as {file} has it")


def _rotated_channels(tensor: Input, rotation: RowRotation) -> list[str]:
    """Return «the first 32 of 64 channels» if only some channels of an input rotate, else nothing."""
    rotary_dim = rotation.rope.rotary_dim
    dim = tensor.shape[-1]
    if rotary_dim >= dim:
        return []
    end = "last" if rotation.trailing else "first"
    return [f"the {end} {rotary_dim} of {dim} channels"]


def _rotated_positions(inputs: Sequence[Input], rotation: RowRotation, values: Values) -> str:
    """Return the positions of a rotation in words, such as «positions 0 … 7 along axis 1 of (2, 8, 64)».

    A shift moves all rows by the same number, wherever they are: «moved by -512 positions».
    """
    if rotation.shift is not None:
        return f"moved by {rotation.shift} positions"
    span = _rotated_span(inputs, rotation)
    rows = rotation.rows
    if rows.ids is not None:
        span += f" of {values[rows.name]}"  # the file of `--positions` or `--attention-mask`
    words = f"positions {span} {_axis_in_words(inputs[0], rotation.seq_axis)}"
    return f"undone at {words}" if rotation.inverse else words


def _rotated_span(inputs: Sequence[Input], rotation: RowRotation) -> str:
    """Return the least and the largest position of a rotation: «0 … 7», or «0.5 … 2».

    The rope has listed positions if some are no whole numbers. Otherwise rows have ids, or
    consecutive positions.
    """
    if rotation.rope.positions is not None:
        return _listed_span(rotation.rope.positions)
    first, stop = rotation.rows.span(_longest(inputs, rotation.seq_axis))
    return _span_in_words(first, stop)


def _rotation_parameters(rotation: RowRotation, values: Values) -> NamedValues:
    """Return the parameters of a rotation for JSON: those of the rope, and how it was applied."""
    rope_parameters = {name: getattr(rotation.rope, name) for name in _ROTARY}
    return {
        **rope_parameters,
        "layout": rotation.layout,
        "trailing": rotation.trailing,
        "inverse": rotation.inverse,
        "shift": rotation.shift,
        "positions": values["positions"],  # as typed: a list, or the name of a file
    }
