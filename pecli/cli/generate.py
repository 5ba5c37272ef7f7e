"""`pecli sinusoidal`, `rope`, `alibi`, `learned-init`: make tables, show them, or hold a file against them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.main

from pecli.cli import options, schemes
from pecli.cli.exits import Exit
from pecli.cli.scheme_options import keyword
from pecli.engine.registry import scheme_named
from pecli.engine.scheme import Scheme
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.checks.tolerance import Tolerance

Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write to .npy, .npz, .safetensors, .csv, .json or .h; - is standard output.",
        rich_help_panel=options.OUTPUT,
    ),
]
Verify = Annotated[
    str | None,
    typer.Option(
        "--verify",
        metavar="FILE",
        help="Hold this file (or FILE:NAME) against the table.",
        rich_help_panel=options.CHECK,
    ),
]


def command(name: str) -> Any:
    """The command that makes the tables of the named scheme."""
    kind = scheme_named(name)

    def run(**values: Any) -> int:
        return _act(schemes.scheme_from(kind, values), values)

    shared = [
        keyword(label, annotation, default)
        for label, annotation, default in (
            ("output", Output, None),
            ("verify", Verify, None),
            ("max_ulp", options.MaxUlp, None),
            ("atol", options.Atol, None),
            ("rtol", options.Rtol, None),
            ("plot", options.Plot, False),
            ("json", options.Json, False),
            ("quiet", options.Quiet, False),
            ("no_progress", options.NoProgress, False),
        )
    ]
    run.__signature__ = inspect.Signature([*schemes.options_of(kind), *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name, help=kind.summary, epilog=options.examples(kind.examples))(run)
    return typer.main.get_command(app)


def _act(scheme: Scheme, values: Mapping[str, Any]) -> int:
    output, file = values["output"], values["verify"]
    tolerances = values["max_ulp"], values["atol"], values["rtol"]
    if file is None and tolerances != (None, None, None):
        raise ParameterError("verify", "missing", "a tolerance is for checking a file")
    if output is not None and file is not None:
        raise ParameterError("verify", file, "a table is either written or checked", "leave out -o or --verify")
    if values["plot"]:
        _check_plot(output, file, values["json"])
    if file is not None:
        return _check(scheme, file, options.tolerance(*tolerances), values)
    if output is not None:
        _write(scheme, output, values)
    elif values["json"]:
        return _describe(scheme, values)
    if values["plot"] and not values["quiet"]:
        _draw(scheme)
    elif output is None and not values["quiet"]:
        from pecli.views import preview

        slopes_alone = [table.name for table in scheme.tensors()] == ["slopes"]
        preview.show_slopes(scheme) if slopes_alone else preview.show(scheme)
    return Exit.DONE


def _check_plot(output: str | None, file: str | None, json: bool) -> None:
    if file is not None:
        raise ParameterError("plot", "given with --verify", "a table is either drawn or checked", "see pecli plot FILE")
    if json or output == "-":
        other = "--json" if json else "-o -"
        raise ParameterError("plot", f"given with {other}", "standard output holds either a picture or data")


def _draw(scheme: Scheme) -> None:
    """The scheme's own picture, in the terminal."""
    from dataclasses import replace

    from pecli.views.pictures import kinds as figures
    from pecli.views.pictures import show, subjects
    from pecli.views.pictures.panels import Wish

    found = subjects.labelled(subjects.of_scheme(scheme))
    picture = figures.picture(figures.default_kind(found), found, Wish())
    show.show(replace(picture, title=subjects.title_of(found, picture.title)))


def _check(scheme: Scheme, file: str, tolerance: Tolerance, values: Mapping[str, Any]) -> int:
    from pecli.checks.verify import verify
    from pecli.views import report, screen

    result = verify(file, scheme, tolerance, any_dtype=values["dtype"] is None)
    if values["json"]:
        screen.say_json(result.as_json())
    elif not values["quiet"]:
        report.show(result)
    return Exit.DONE if result.passed else Exit.NO


def _write(scheme: Scheme, path: str, values: Mapping[str, Any]) -> int:
    from pecli.cli.watch import Watch
    from pecli.files import whole
    from pecli.files.output import is_stream
    from pecli.views import screen

    options.check_stream(path, values["json"])
    watch = Watch(scheme.name, whole.tables_written(path, scheme), values, scheme.tensors())
    with watch:
        whole.save_scheme(path, scheme, on_block=watch.see)
    if values["json"]:
        screen.say_json({**scheme.spec(), "tensors": watch.tensors(), "output": path})
    elif not values["quiet"] and not is_stream(path):
        tables = ", ".join(f"{table.name} {screen.shape(table.shape)} {table.dtype}" for table in watch.tables)
        screen.say(f"{path}: {tables}, {screen.size(os.path.getsize(path))}")
    return Exit.DONE


def _describe(scheme: Scheme, values: Mapping[str, Any]) -> int:
    from pecli.cli.watch import Watch
    from pecli.views import screen

    watch = Watch(scheme.name, [], values, scheme.tensors())
    screen.say_json({**scheme.spec(), "tensors": watch.tensors(), "output": None})
    return Exit.DONE
