"""The command of each scheme, such as `pecli rope`: generate tables, preview them, or verify a file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

from pecli.cli import options, scheme_options
from pecli.cli.answers import answer, print_answer
from pecli.cli.commands import AnyCommand, command_of
from pecli.cli.messages import Exit
from pecli.cli.options import Values
from pecli.cli.scheme_help import help_of
from pecli.engine import __version__
from pecli.engine.named_values import JsonObject
from pecli.engine.schemes import scheme_named
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.errors import ParameterError

OPTIONS = (
    options.output(options.TABLES),
    options.NO_HEADER,
    options.PREFIX,
    options.text(
        "--verify", "FILE", "Compare this file (or FILE:NAME) with the table.", options.CHECK
    ),
    *options.RAW,
    *options.TOLERANCES,
    options.flag("--plot", "Draw the table in the terminal; see pecli plot.", options.OUTPUT),
    *options.WORK,
)


def command(name: str) -> AnyCommand:
    """Return the command of a scheme."""
    return _command_of_scheme(name, scheme_named(name))


@cache
def _command_of_scheme(name: str, scheme_type: type[Scheme]) -> AnyCommand:
    """Return the command; one process may run many command lines, as tests do."""
    declared = [*scheme_options.options_of(scheme_type), *OPTIONS]
    help = help_of(scheme_type)
    run = partial(_run_scheme, scheme_type)
    return command_of(name, run, declared, help.examples, help=help.summary)


def _run_scheme(scheme_type: type[Scheme], **values: Any) -> int:
    """Run the command of a scheme: check a file; or write the table, and print, draw or preview it."""
    scheme = scheme_options.scheme_from(scheme_type, values)
    _check_combination(values)
    if values["verify"] is not None:
        return _verify_file(scheme, values)
    if values["output"] is not None:
        _write_tables(scheme, values["output"], values)
    print_answer(
        partial(_as_json, scheme, values),
        partial(_show, scheme, values),
        json=values["json"],
        quiet=values["quiet"],
    )
    return Exit.DONE


def _check_combination(values: Values) -> None:
    """Raise ParameterError for options that exclude each other, or require one that is missing."""
    verified_file = values["verify"]
    has_tolerance = any(values[option.name] is not None for option in options.TOLERANCES)
    if has_tolerance and verified_file is None:
        raise ParameterError("verify", "missing", "tolerances require --verify")
    if values["output"] is not None:
        rule = "a table is either written or checked"
        options.refuse(values, ["verify"], rule, "leave out -o or --verify")
    if values["plot"]:
        _check_plot(values)


def _check_plot(values: Values) -> None:
    """Raise ParameterError for options that exclude a picture in the terminal."""
    if values["verify"] is not None:
        rule = "a table is either drawn or checked"
        raise ParameterError("plot", "given with --verify", rule, "see pecli plot FILE")
    rule = "standard output holds either a picture or data"
    if values["json"]:
        raise ParameterError("plot", "given with --json", rule)
    if values["output"] == "-":
        raise ParameterError("plot", "given with -o -", rule)


def _verify_file(scheme: Scheme, values: Values) -> Exit:
    """Compare a file with the table. Its dtype is only checked if the user gave one."""
    from pecli.checks.verify import verify
    from pecli.views.check_results import show_verification

    result = verify(
        values["verify"],
        scheme,
        any_dtype=values["dtype"] is None,
        reasons=values["json"] or not values["quiet"],
        **options.tolerances(values),
    )
    return answer(result, show_verification, json=values["json"], quiet=values["quiet"])


def _write_tables(scheme: Scheme, path: str, values: Values) -> None:
    """Write the tables of a scheme and their parameters (the spec); print their names, except for JSON."""
    from pecli.files import save_tables, tables_written
    from pecli.views import progress

    tables = tables_written(path, scheme)
    options.check_output(path, json=values["json"])
    config = values["config"] or ""
    if options.is_same_file(path, config):
        rule = "it would overwrite the input config"
        raise ParameterError("output", path, rule, "name another file")
    spec = {**scheme.spec(), "version": __version__}
    total_bytes = sum(table.nbytes for table in tables)
    shows_progress = options.shows_progress(values)
    with progress.counting(scheme.name, total_bytes, wanted=shows_progress) as advance:
        save_tables(
            path,
            tables,
            spec,
            on_block=advance,
            header=not values["no_header"],
            prefix=values["prefix"],
        )
    prints_names = not values["json"] and not values["quiet"]
    if prints_names:
        _print_names(path, tables)


def _print_names(path: str, tables: Sequence[Table]) -> None:
    """Print the names, shapes and dtypes of tables that were written: «cos (8, 32) float32»."""
    from pecli.views import screen

    names = [f"{table.name} {screen.shape(table.shape)} {table.dtype}" for table in tables]
    screen.print_written(path, f"{', '.join(names)}, ")


def _as_json(scheme: Scheme, values: Values) -> JsonObject:
    """Return a scheme for JSON: its spec, the statistics of its tables, and the file they are in."""
    from pecli.views import progress

    shows_progress = options.shows_progress(values)
    tensors = progress.described(scheme.name, scheme.tensors(), wanted=shows_progress)
    return {**scheme.spec(), "tensors": tensors, "output": values["output"]}


def _show(scheme: Scheme, values: Values) -> None:
    """Draw the tables if that is wanted; preview them if they were not written to a file."""
    if values["plot"]:
        _plot(scheme)
    elif values["output"] is None:
        _preview(scheme)


def _plot(scheme: Scheme) -> None:
    from pecli.views.pictures import kinds, plot_sources, terminal_render, titles

    labelled = titles.labelled(plot_sources.of_scheme(scheme))
    terminal_render.show(kinds.titled(labelled, plot_sources.PlotRequest()))


def _preview(scheme: Scheme) -> None:
    """Print the corners of the tables; ALiBi's slopes are a vector, of which all are printed."""
    from pecli.views import preview

    names = [table.name for table in scheme.tensors()]
    if names == ["slopes"]:
        preview.show_slopes(scheme)
    else:
        preview.show(scheme)
