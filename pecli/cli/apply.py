"""`pecli apply`: an encoding applied to tensors, as a model's layer would."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.main

from pecli.cli import Command, Exit, apply_rope, examples, keyword, new_app, options, with_options
from pecli.cli.apply_rope import Applied, along, positions
from pecli.cli.options import option, parsed
from pecli.engine.schemes import SCHEMES, Parameter, Whole, scheme_named
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.tensors.inputs import Inputs

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE…",
        help=".npy, .npz or .safetensors files, or FILE:NAME for one tensor; - is a .npy on standard input.",
    ),
]
Tensor = Annotated[
    list[str] | None,
    options.text("--tensor", "NAME", "Only the tensor of this name; may be repeated."),
]
Output = Annotated[str, options.output(f"{options.FORMATS}.")]
Table = Annotated[str, typer.Option("--table", metavar="FILE", help="The table, (rows, D); or FILE:NAME.")]
Offset = Annotated[str | None, options.text("--offset", "INTEGER", "The row for the first position. (default: 0)")]
Causal = Annotated[bool, typer.Option("--causal", help="The same as --form causal.")]
Heads = Annotated[str | None, options.text("--heads", "INTEGER", "Refuse scores with another number of heads.")]

_OFFSET = Whole(help="the row for the first position", low=0)
_SHARED = (
    keyword("tensor", Tensor, None),
    keyword("output", Output),
    keyword("json", options.Json, False),
    keyword("quiet", options.Quiet, False),
    keyword("no_progress", options.NoProgress, False),
)

_ALIASES = {"learned": ("learned-init",)}
"""What a command goes by, too: the scheme's own name, where weights that were trained are hardly an init."""
_COMMON = "The output has the names and dtypes of the input; it is computed in float64 and rounded once."
_ROWS = {
    "sinusoidal": (
        "pecli apply sinusoidal x.npy -o y.npy",
        "pecli apply sinusoidal x.safetensors --style whisper --offset 10 -o y.safetensors",
    )
}
"""Examples of adding a scheme's own rows."""
_LEARNED = (
    "pecli apply learned x.npy --table wpe.npy -o y.npy",
    "pecli apply learned x.npy --table model.safetensors:wpe.weight --offset 2 -o y.npy",
)
_ALIBI = (
    "pecli apply alibi scores.npy --causal -o biased.npy",
    "pecli apply alibi scores.npz --form key --rule paper -o biased.npz",
)
_LEARNED_OPTIONS = [keyword("table", Table), keyword("offset", Offset, None)]

MAX_LISTED = 4
"""Tensors that a line of text names."""

Make = Callable[["Inputs", Mapping[str, Any], ExitStack], Applied]
"""What one of the commands does with its inputs and its options; the last closes files that it opens."""


def command(name: str) -> Any:
    """The group of commands, one per scheme."""
    app = new_app(
        name=name,
        no_args_is_help=True,
        help="Apply an encoding to tensors, as a model's layer would.",
        epilog=examples((_ROWS["sinusoidal"][0], _LEARNED[0], _ALIBI[0], *apply_rope.EXAMPLES[:2])),
    )
    for scheme in SCHEMES:
        kind = scheme_named(scheme)
        if kind.applied_as == "rows" and kind.recipe_names():  # what is drawn comes from a file, by `learned`
            summary = f"Add a {scheme} table to x (…, L, D)."
            _add(app, scheme, partial(_rows, kind), summary, _ROWS.get(scheme, ()), _own(scheme))
    _add(app, "learned", _learned, "Add rows of a learned table to x (…, L, D).", _LEARNED, _LEARNED_OPTIONS)
    _add(app, "alibi", _alibi, "Add ALiBi biases to scores (…, H, Lq, Lk), whose queries come last.", _ALIBI, _alibis())
    _add(app, "rope", apply_rope.make, apply_rope.SUMMARY, apply_rope.EXAMPLES, apply_rope.own_options())
    return typer.main.get_command(app)


def _add(
    app: typer.Typer, name: str, make: Make, summary: str, shown: tuple[str, ...], own: list[inspect.Parameter]
) -> None:
    def run(**values: Any) -> int:
        from pecli.tensors.inputs import open_inputs

        with ExitStack() as held:
            inputs = open_inputs(values["files"], values["tensor"] or [], held)
            return _write(name, make(inputs, values, held), inputs.metadata, values)

    declared = with_options(run, [keyword("files", Files), *own, *_SHARED])
    help, epilog = f"{summary} {_COMMON}", examples(shown)
    for word in (name, *_ALIASES.get(name, ())):
        app.command(word, cls=Command, help=help, short_help=summary, epilog=epilog, hidden=word != name)(declared)


def _write(scheme: str, applied: Applied, metadata: Mapping[str, str], values: Mapping[str, Any]) -> int:
    """Write the tables block by block, and say so."""
    from pecli.files.save import save_tables
    from pecli.views import screen
    from pecli.views.progress import BlockObserver

    path: str = values["output"]
    options.check_output(path, json=values["json"], example="y.npy")
    observer = BlockObserver(scheme, applied.tables, values)
    with observer:
        save_tables(path, applied.tables, None, metadata=metadata, on_block=observer.see)
    if values["json"]:
        tensors = observer.tensors()
        if applied.seq_axis is not None:
            for table in applied.tables:
                tensors[table.name]["seq_axis"] = applied.seq_axis % len(table.shape)
        screen.say_json({"scheme": scheme, "parameters": dict(applied.parameters), "tensors": tensors, "output": path})
    elif not values["quiet"]:
        shown = [f"{table.name} {screen.shape(table.shape)} {table.dtype}" for table in applied.tables[:MAX_LISTED]]
        if len(applied.tables) > MAX_LISTED:
            shown.append(f"and {len(applied.tables) - MAX_LISTED} more")
        screen.say_written(path, f"{', '.join(shown)}, ", f"; {scheme}: {applied.words}")
    return Exit.DONE


def _parameters(name: str) -> dict[str, Parameter]:
    """The parameters that the input does not decide."""
    decided = ("seq_len", "dim", "heads", "slopes", "dtype", "relative")
    return {label: each for label, each in scheme_named(name).settings().items() if label not in decided}


def _own(name: str) -> list[inspect.Parameter]:
    kind = scheme_named(name)
    return [option(label, parameter, kind) for label, parameter in _parameters(name).items()]


def _alibis() -> list[inspect.Parameter]:
    return [*_own("alibi"), keyword("causal", Causal, False), keyword("heads", Heads, None)]


def _rows(kind: type[Scheme], inputs: Inputs, values: Mapping[str, Any], held: ExitStack) -> Applied:
    """Add the rows of a scheme with one table (seq_len, dim)."""
    from pecli.tensors.additive import Rows, add_rows, scheme_rows
    from pecli.tensors.inputs import check_dim, check_sequence

    known, tables = _parameters(kind.name), []
    given, shared = parsed(known, values), dict[Scheme, Rows]()
    own_rows = bool({"positions", "grid"} & given.keys())
    for each in inputs.tensors:
        length, dim = check_sequence(each)
        check_dim(each, kind.parameters()["dim"])
        scheme = kind(**{"seq_len": None if own_rows else max(1, length), "dim": dim, **given})
        if own_rows and scheme.single_array().rows != length:
            raise each.wrong(f"{kind.name} at these positions has {scheme.single_array().rows} rows", f"L is {length}")
        if scheme not in shared:
            shared[scheme] = scheme_rows(scheme)
        tables.append(add_rows(each, shared[scheme]))
    spec = {name: getattr(scheme, name) for name in known if name not in kind.presets}
    first, longest = scheme.first_position, max(each.table.shape[-2] for each in inputs.tensors)
    layout = f"{spec['layout']}, " if "layout" in spec else ""
    return Applied(tables, spec, f"{layout}positions {positions(first, first + longest)} {along(tables[0])}")


def _learned(inputs: Inputs, values: Mapping[str, Any], held: ExitStack) -> Applied:
    from pecli.tensors.additive import add_learned
    from pecli.tensors.inputs import check_alone, open_inputs

    offset = 0 if values["offset"] is None else _OFFSET.parse("offset", values["offset"])
    found = open_inputs([values["table"]], [], held).tensors
    check_alone("table", values["table"], [each.table for each in found])
    (weight,) = found
    tables = [add_learned(each, weight, offset) for each in inputs.tensors]
    longest = max(each.table.shape[-2] for each in inputs.tensors)
    spec = {"table": values["table"], "offset": offset}
    rows = f"rows {positions(offset, offset + longest)} of {weight.table.shape[0]}"
    return Applied(tables, spec, f"{rows} {along(tables[0])}")


def _alibi(inputs: Inputs, values: Mapping[str, Any], held: ExitStack) -> Applied:
    from pecli.engine.schemes.alibi import Alibi
    from pecli.tensors.additive import add_alibi, check_scores

    given, heads = parsed(_parameters("alibi"), values), values["heads"]
    if values["causal"] and given.setdefault("form", "causal") != "causal":
        raise ParameterError("causal", "given", f"--form is {given['form']}", "leave out one of them")
    wanted = None if heads is None else Alibi.parameters()["heads"].parse("heads", heads)
    tables = []
    for each in inputs.tensors:
        found, queries, keys = check_scores(each, wanted)
        scheme = Alibi(found, **given)
        tables.append(add_alibi(each, scheme))
    spec = {name: getattr(scheme, name) for name in ("heads", *_parameters("alibi"))}
    last = f", queries are the last {queries} of {keys} positions" if queries < keys else ""
    return Applied(tables, spec, f"{scheme.form}, {scheme.rule} slopes of {found} heads{last}", seq_axis=None)
