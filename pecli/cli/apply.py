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
from pecli.engine.schemes.given_positions import GridSize, PositionList
from pecli.engine.schemes.parameters import ParameterRule
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme, stated_parameters
from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError, counted, listed
from pecli.files import save_tables
from pecli.files.formats import readable_suffixes
from pecli.tensors.apply import add_learned
from pecli.tensors.inputs import SEQ_AXIS, Input, open_inputs, read_numbers
from pecli.tensors.row_positions import (
    OFFSET,
    SHIFT,
    RowPositions,
    given_options,
    row_positions,
)
from pecli.tensors.row_rotation import AXIS, LAYOUT, RowRotation, head_counts, model_rotation
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
        rule=OFFSET,
    ),
)
CAUSAL = options.flag("--causal", "The same as --form causal.")
DIM = options.text("--dim", "INTEGER", _DIM)
ROPE_OPTIONS = (
    options.text("--layout", "NAME", _LAYOUT, rule=LAYOUT),
    options.flag("--trailing", "Rotate the trailing channels, if only some rotate."),
    options.text("--seq-axis", "INTEGER", _AXIS, rule=AXIS),
    options.text("--positions", "LIST|FILE", _POSITIONS),
    options.text("--attention-mask", "FILE", _MASK),
    options.flag("--inverse", "Undo the rotation, the attention factor included."),
    options.text("--shift", "INTEGER", _SHIFT, rule=SHIFT),
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

_ROPE_RULES = options.without(
    Rope.parameters(), {"seq_len", "layout", "dtype", "recipe", "positions"}
)
"""Parameters of rope that the input does not decide, and that mean the same as for a table."""


class AppliedArrays(NamedTuple):
    """The results for all inputs, and how they were made."""

    arrays: Sequence[Array]  #: one per input
    parameters: NamedValues  #: for JSON
    description: str  #: «halves (the default), positions 0 … 7 along axis 1»


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
    others = Rope.parameters().keys() - _ROPE_RULES.keys()
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
    """Encode the tensors of some files, write the results, and print what was done.

    Args:
        scheme: The subcommand, such as "rope".
        apply: Adds that encoding to tensors, or rotates them: `apply(tensors, values)`.
        values: The values of all options by name, such as `files` and `output`.
    """
    inputs, metadata = open_inputs(values["files"], values["tensor"])
    output: str = values["output"]
    options.check_output(output, json=values["json"])
    encoded = apply(inputs, values)
    tables = [
        table_of(tensor.name, array) for tensor, array in zip(inputs, encoded.arrays, strict=True)
    ]
    shows_progress = options.shows_progress(values)
    total_bytes = sum(table.nbytes for table in tables)
    with progress.counting(scheme, total_bytes, wanted=shows_progress) as advance:
        save_tables(output, tables, spec=None, metadata=metadata, on_block=advance)

    def answer_as_json() -> JsonObject:
        return {
            "scheme": scheme,
            "parameters": dict(encoded.parameters),
            # Large tensors take time to describe, hence another progress bar.
            "tensors": progress.described(scheme, tables, wanted=shows_progress),
            "output": output,
        }

    def show_answer() -> None:
        _print_written(scheme, output, tables, encoded.description)

    print_answer(answer_as_json, show_answer, json=values["json"], quiet=values["quiet"])


def _print_written(scheme: str, path: str, tables: Sequence[Table], description: str) -> None:
    """Print the file that was written, its tensors, and how they were made."""
    shapes = [f"{table.name} {screen.shape(table.shape)} {table.dtype}" for table in tables]
    screen.print_written(path, f"{listed(shapes, MAX_LISTED)}, ", f"; {scheme}: {description}")


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


def _grid_in_words(grid: GridSize, keep: int | None) -> str:
    """Return «grid 4x7», or «grid 4x7 with 1 row beside it» if a row is kept for another token.

    The points of a grid have coordinates: the number of a row is no position.
    """
    words = f"grid {grid.spelled()}"
    return f"{words} with {counted(keep, 'row')} beside it" if keep else words


def _rows_in_words(scheme: Scheme, first: int, stop: int) -> str:
    """Return the rows of a table: «grid 4x7», «positions 0.5 … 2», or «positions 0 … 7».

    Args:
        scheme: The scheme of the table.
        first: The position of the first row, unless the scheme has a grid or listed positions.
        stop: The position after the last row.
    """
    parameters = stated_parameters(scheme)
    if "grid" in parameters:
        return _grid_in_words(parameters["grid"], parameters.get("keep"))
    if "positions" in parameters:
        return f"positions {_listed_span(parameters['positions'])}"
    return f"positions {_span_in_words(first, stop)}"


def _axis_in_words(tensor: Input, seq_axis: int = SEQ_AXIS) -> str:
    """Return the axis that was taken for positions, so that the user notices a wrong one.

    An input (2, 8, 64) with positions on axis −2 gives «along axis 1 of (2, 8, 64)».
    """
    return f"along axis {seq_axis % len(tensor.shape)} of {tensor.shape}"


def _parameters_without_input(scheme_type: type[Scheme]) -> dict[str, ParameterRule]:
    """Return the parameters of a scheme that do not follow from the shape of an input."""
    return options.without(scheme_type.parameters(), _DECIDED_BY_INPUT)


def _add_rows(scheme_type: type[Scheme], inputs: Sequence[Input], values: Values) -> AppliedArrays:
    """Add positional encodings to tensors (…, L, D): row p of a table to the vector at position p.

    Args:
        scheme_type: The scheme of the table, such as sinusoidal.
        inputs: The tensors, at least one. Each gets a table of its own L rows and D columns.
        values: The options of the command.
    """
    rules = _parameters_without_input(scheme_type)
    given_parameters = options.parsed(rules, values)
    schemes: list[Scheme] = []
    arrays: list[Array] = []
    for tensor in inputs:
        scheme = _scheme_for_input(scheme_type, tensor, given_parameters)
        schemes.append(scheme)
        arrays.append(scheme.applied_to(tensor.array))

    # Only the shapes of the tables differ. All other parameters are reported from the first one.
    first_scheme = schemes[0]
    parameters = {name: getattr(first_scheme, name) for name in rules}
    first = first_scheme.first_position
    rows = _rows_in_words(first_scheme, first, first + _longest_length(inputs, SEQ_AXIS))
    description = f"{rows} {_axis_in_words(inputs[0])}"
    if "layout" in parameters:
        description = f"{parameters['layout']}, {description}"
    return AppliedArrays(arrays, parameters, description)


def _scheme_for_input(scheme_type: type[Scheme], tensor: Input, parameters: Values) -> Scheme:
    """Return the scheme whose table is added to an input (…, L, D).

    If the user gives positions or a grid, they define the rows of the table, and L must be their
    number: a grid 2x3 has 6 rows, and an input (…, 5, D) is refused. Otherwise L defines it; an empty
    input (L = 0) still gets one row.
    """
    length, dim = tensor.checked_sequence_shape()
    tensor.check_dim(scheme_type.parameters()["dim"])
    if parameters.keys().isdisjoint(("positions", "grid")):
        return scheme_type(**{"seq_len": max(1, length), "dim": dim, **parameters})
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
    """Add ALiBi's biases to attention scores (…, H, Lq, Lk): heads, queries and keys.

    The queries have the last positions of the keys, as if a cache held the keys before them.
    """
    parameters = _alibi_parameters(values)
    schemes: list[Alibi] = []
    arrays: list[Array] = []
    for tensor in inputs:
        tensor.check_floating()
        scheme = Alibi(_score_shape(tensor).heads, **parameters)
        schemes.append(scheme)
        arrays.append(_with_biases(tensor.array, scheme))

    # Inputs may have different numbers of heads and queries. The last input stands for all of them.
    last_scheme = schemes[-1]
    reported_names = ("heads", *_parameters_without_input(Alibi))
    reported_parameters = {name: getattr(last_scheme, name) for name in reported_names}
    description = _biases_in_words(last_scheme, _score_shape(inputs[-1]))
    return AppliedArrays(arrays, reported_parameters, description)


def _biases_in_words(scheme: Alibi, scores: _ScoreShape) -> str:
    """Return «symmetric, paper slopes of 8 heads», with the place of the queries if they are fewer."""
    words = f"{scheme.form}, {scheme.rule} slopes of {scores.heads} heads"
    if scores.queries < scores.keys:
        words += f", queries are the last {scores.queries} of {scores.keys} positions"
    return words


def _with_biases(scores: Array, scheme: Alibi) -> Array:
    """Return scores with their biases; without scores (Lq = 0, say) there is nothing to add to."""
    if scores.size == 0:
        return scores
    return scheme.applied_to(scores)


def _alibi_parameters(values: Values) -> MutableValues:
    """Return the parameters of the biases; `--causal` is short for `--form causal`."""
    parameters = options.parsed(_parameters_without_input(Alibi), values)
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
        rotation = _rotation_by_options(request)
        layout_source = "the default"
    else:
        rotation, layout_source = _rotation_by_model(request, model, values)
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
    rows: RowPositions  #: the positions of their rows
    rotation_fields: NamedValues  #: fields of `RowRotation`, such as its layout
    rope_parameters: NamedValues  #: parameters of `Rope`, such as its base

    @property
    def seq_axis(self) -> int:
        """The axis of positions in the inputs."""
        return int(self.rotation_fields.get("seq_axis", SEQ_AXIS))


def _rotation_request(inputs: Sequence[Input], values: Values) -> _RotationRequest:
    """Return the rotation of queries and keys (…, L, D) that the options describe.

    Raises:
        ParameterError: The inputs differ in D, or an option has a wrong value.
    """
    rotation_fields = given_options(
        layout=values["layout"],
        trailing=values["trailing"],
        inverse=values["inverse"],
        shift=values["shift"],
        seq_axis=values["seq_axis"],
    )
    _check_same_dim(inputs, rotation_fields.get("seq_axis", SEQ_AXIS))
    rope_parameters = options.parsed(_ROPE_RULES, values)
    position_options = _read_position_options(values)
    input_positions = row_positions(
        positions=position_options.position_ids,
        attention_mask=position_options.attention_mask,
        shift=values["shift"],
        offset=rope_parameters.get("offset"),  # the position of the first row of each input
    )
    if position_options.table_positions is not None:
        rope_parameters["positions"] = position_options.table_positions
    return _RotationRequest(inputs, input_positions, rotation_fields, rope_parameters)


def _check_same_dim(inputs: Sequence[Input], seq_axis: int) -> None:
    """Raise an error unless all inputs have an axis of positions and the same last axis."""
    first = inputs[0]
    for tensor in inputs:
        tensor.checked_sequence_shape(seq_axis)
        if tensor.shape[-1] != first.shape[-1]:
            rule = f"{first.label} is of shape {first.shape}"
            raise tensor.wrong(rule, "they must share D, the last axis")


def _longest_length(inputs: Sequence[Input], seq_axis: int) -> int:
    """Return the largest number of positions that an input has."""
    return max(tensor.shape[seq_axis] for tensor in inputs)


class _PositionOptions(NamedTuple):
    """The values of `--positions` and `--attention-mask`; None for what was not given.

    `--positions` gives one of the first two.

    Attributes:
        position_ids: Numbers of rows in tables over the positions 0, 1, 2, …: (L,) or (batch, L).
        table_positions: Positions such as 0.5, for each of which the tables get a row of their own.
        attention_mask: 1 for tokens, 0 for padding.
    """

    position_ids: Array | None
    table_positions: PositionList | None
    attention_mask: Array | None


def _read_position_options(values: Values) -> _PositionOptions:
    """Return the values of `--positions` and `--attention-mask`, which may be lists or files.

    Integers from 0 on in a file are position ids: the numbers of rows in tables of cosines and sines.
    For a list, or for other numbers such as 0.5, tables of just these positions are made.
    """
    position_ids: Array | None = None
    table_positions: PositionList | None = None
    if values["positions"] is not None:
        rule = Rope.parameters()["positions"]
        numbers = options.value_or_array("positions", rule, values["positions"])
        if _can_be_ids(numbers) and not _are_points_on_axes(values):
            position_ids = numbers
        else:
            table_positions = rule.check("positions", numbers)
    attention_mask: Array | None = None
    if values["attention_mask"] is not None:
        attention_mask = read_numbers("attention_mask", values["attention_mask"])
    return _PositionOptions(position_ids, table_positions, attention_mask)


def _are_points_on_axes(values: Values) -> bool:
    """Return True if options such as `--axes` make positions the points of an image.

    An array (2, L) then has the two coordinates of L points. Without these options it has the ids
    of two sequences.
    """
    return values["style"] is not None or values["axes"] is not None


def _can_be_ids(numbers: object) -> TypeGuard[Array]:
    """Return True for an array of integers from 0 on; a list from the command line is no array."""
    if not isinstance(numbers, np.ndarray):
        return False
    are_integers = np.issubdtype(numbers.dtype, np.integer)
    return bool(are_integers and numbers.min(initial=0) >= 0)


def _rotation_by_options(request: _RotationRequest) -> RowRotation:
    """Return the rotation that options describe without a model.

    Cos and sin tables need two sizes, which follow from the inputs if no option states them:

    - `dim`, the number of channels that rotate: all of them;
    - `seq_len`, the number of rows: the positions of the longest input.
    """
    parameters: MutableValues = dict(request.rope_parameters)
    is_dim_open = parameters.keys().isdisjoint(("dim", "axes", "inv_freq"))
    if is_dim_open:
        first_input = request.inputs[0]
        rule_of_dim = Rope.parameters()["dim"]
        first_input.check_dim(rule_of_dim, "or give the rotary dimension with --dim")
        parameters["dim"] = first_input.shape[-1]
    longest_length = _longest_length(request.inputs, request.seq_axis)
    # None if `--positions` or `--grid` states the rows.
    parameters["seq_len"] = request.rows.table_rows(longest_length, request.rope_parameters)
    return RowRotation(Rope(**parameters), request.rows, **request.rotation_fields)


class _SourcedRotation(NamedTuple):
    """A rotation, and the source of its pair layout in words."""

    rotation: RowRotation
    layout_source: str  #: «as config.json has it»


def _rotation_by_model(
    request: _RotationRequest, model_name: str, values: Values
) -> _SourcedRotation:
    """Return the rotation in a model's attention layers, with the source of its layout.

    Args:
        request: The inputs, and the options that change the rotation of the model.
        model_name: The value of `--model` or `--config`.
        values: All options; `layer_type` selects layers of the model.
    """
    ropes = scheme_options.only_model_encoding(values, request.rope_parameters)
    (encoding,) = ropes.encodings  # The call above refuses a model that has several.
    model_file = ropes.model.file
    rotation = model_rotation(
        request.inputs,
        file=model_file,
        encoding=encoding,
        rows=request.rows,
        heads=head_counts(model_name, values["layer_type"]),
        rotation_fields=request.rotation_fields,
        **ropes.table_parameters,  # such as `offset`, which no model defines
    )
    return _SourcedRotation(rotation, layout_source=f"as {model_file} has it")


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

    A shift moves all rows by the same number, wherever they are: «moved by -512 positions». The rows
    of a grid are its points: «grid 4x7 along axis 0 of (28, 64)».
    """
    if rotation.shift is not None:
        return f"moved by {rotation.shift} positions"
    rows = rotation.rows
    first, stop = rows.span(_longest_length(inputs, rotation.seq_axis))
    words = _rows_in_words(rotation.rope, first, stop)
    if rows.ids is not None:
        words += f" of {values[rows.name]}"  # the file of `--positions` or `--attention-mask`
    if rotation.inverse:
        preposition = "at" if rotation.rope.grid is None else "on"
        words = f"undone {preposition} {words}"
    return f"{words} {_axis_in_words(inputs[0], rotation.seq_axis)}"


def _rotation_parameters(rotation: RowRotation, values: Values) -> NamedValues:
    """Return the parameters of a rotation for JSON: those of the rope, and how it was applied."""
    rope_parameters = {name: getattr(rotation.rope, name) for name in _ROPE_RULES}
    return {
        **rope_parameters,
        "layout": rotation.layout,
        "trailing": rotation.trailing,
        "inverse": rotation.inverse,
        "shift": rotation.shift,
        "positions": values["positions"],  # as typed: a list, or the name of a file
    }
