"""The command of each scheme, such as `pecli rope`: make its tables, show them, or check a file against them."""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from pecli.cli import Exit, answer, command_of, options
from pecli.cli.scheme_help import help_of
from pecli.engine import __version__
from pecli.engine.schemes import scheme_named
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError

OPTIONS = (
    options.output(options.TABLES),
    options.NO_HEADER,
    options.text(
        "--verify", "FILE", "Compare this file (or FILE:NAME) with the table.", options.CHECK
    ),
    *options.TOLERANCES,
    options.flag("--plot", "Draw the table in the terminal; see pecli plot.", options.OUTPUT),
    *options.WORK,
)


def command(name: str) -> Any:
    """The command that makes the tables of the named scheme."""
    kind: type[Scheme] = scheme_named(name)
    declared = [*options.options_of(kind), *OPTIONS]
    summary, examples = help_of(kind)
    return command_of(name, partial(_generate, kind), declared, examples, help=summary)


def _generate(kind: type[Scheme], **values: Any) -> int:
    scheme = options.scheme_from(kind, values)
    output, file, json, quiet = (values[name] for name in ("output", "verify", "json", "quiet"))
    if file is None and any(values[option.name] is not None for option in options.TOLERANCES):
        raise ParameterError("verify", "missing", "tolerances require --verify")
    if output is not None and file is not None:
        raise ParameterError(
            "verify", file, "a table is either written or checked", "leave out -o or --verify"
        )
    if values["plot"] and file is not None:
        raise ParameterError(
            "plot",
            "given with --verify",
            "a table is either drawn or checked",
            "see pecli plot FILE",
        )
    if values["plot"] and (json or output == "-"):
        other = "--json" if json else "-o -"
        raise ParameterError(
            "plot", f"given with {other}", "standard output holds either a picture or data"
        )
    if file is not None:
        from pecli.checks.verify import verify

        more = {
            **options.tolerances(values),
            "any_dtype": values["dtype"] is None,
            "reasons": json or not quiet,
        }
        result = verify(file, scheme, **more)
        from pecli.views.check_results import show_verification

        return answer(result, json, quiet, show_verification)
    if output is not None or json:
        _write(scheme, output, values)
    if values["plot"] and not quiet:
        from pecli.views.pictures import kinds, subjects, terminal_render, titles

        terminal_render.show(
            kinds.titled(titles.labelled(subjects.of_scheme(scheme)), subjects.PlotRequest())
        )
    elif output is None and not quiet and not json:
        from pecli.views import preview

        slopes_alone = [table.name for table in scheme.tensors()] == ["slopes"]
        (preview.show_slopes if slopes_alone else preview.show)(scheme)
    return Exit.DONE


def _write(scheme: Scheme, path: str | None, values: Mapping[str, Any]) -> None:
    from pecli.files import save_tables, tables_written
    from pecli.views import progress, screen

    if path is not None:
        written = tables_written(path, scheme)
        options.check_output(path, json=values["json"])
        config = values.get("config")
        if (
            config is not None
            and os.path.exists(path)
            and os.path.exists(config)
            and os.path.samefile(path, config)
        ):
            raise ParameterError(
                "output", path, "it would overwrite the input config", "name another file"
            )
        with progress.counting(
            scheme.name,
            sum(table.nbytes for table in written),
            wanted=options.shows_progress(values),
        ) as advance:
            spec = {**scheme.spec(), "version": __version__}
            save_tables(path, written, spec, on_block=advance, header=not values["no_header"])
    if values["json"]:
        tensors = progress.described(
            scheme.name, scheme.tensors(), wanted=options.shows_progress(values)
        )
        screen.print_json({**scheme.spec(), "tensors": tensors, "output": path})
    elif path is not None and not values["quiet"]:
        tables = (f"{table.name} {screen.shape(table.shape)} {table.dtype}" for table in written)
        screen.print_written(path, f"{', '.join(tables)}, ")
