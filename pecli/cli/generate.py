"""The command of each scheme, such as `pecli rope`: make its tables, show them, or check a file against them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pecli.cli import Exit, command_of, keyword, options, with_options
from pecli.engine.schemes import scheme_named
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.checks.tolerance import Tolerance

Output = Annotated[str | None, options.output(f"{options.FORMATS}.")]
Verify = Annotated[
    str | None, options.text("--verify", "FILE", "Compare this file (or FILE:NAME) with the table.", options.CHECK)
]
_SHARED = (
    keyword("output", Output, None),
    keyword("verify", Verify, None),
    keyword("max_ulp", options.MaxUlp, None),
    keyword("atol", options.Atol, None),
    keyword("rtol", options.Rtol, None),
    keyword("plot", options.Plot, False),
    keyword("json", options.Json, False),
    keyword("quiet", options.Quiet, False),
    keyword("no_progress", options.NoProgress, False),
)


def command(name: str) -> Any:
    """The command that makes the tables of the named scheme."""
    kind: type[Scheme] = scheme_named(name)

    def run(**values: Any) -> int:
        return _act(options.scheme_from(kind, values), values)

    return command_of(with_options(run, [*options.options_of(kind), *_SHARED]), name, kind.examples, help=kind.summary)


def _act(scheme: Scheme, values: Mapping[str, Any]) -> int:
    output, file = values["output"], values["verify"]
    tolerances = values["max_ulp"], values["atol"], values["rtol"]
    if file is None and tolerances != (None, None, None):
        raise ParameterError("verify", "missing", "tolerances require --verify")
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
        show = preview.show_slopes if slopes_alone else preview.show
        show(scheme)
    return Exit.DONE


def _check_plot(output: str | None, file: str | None, json: bool) -> None:
    if file is not None:
        raise ParameterError("plot", "given with --verify", "a table is either drawn or checked", "see pecli plot FILE")
    if json or output == "-":
        other = "--json" if json else "-o -"
        raise ParameterError("plot", f"given with {other}", "standard output holds either a picture or data")


def _draw(scheme: Scheme) -> None:
    """The scheme's own picture, in the terminal."""
    from pecli.views.pictures import kinds, subjects, terminal_render
    from pecli.views.pictures.panels import PlotRequest

    terminal_render.show(kinds.titled(subjects.labelled(subjects.of_scheme(scheme)), PlotRequest()))


def _check(scheme: Scheme, file: str, tolerance: Tolerance, values: Mapping[str, Any]) -> int:
    from pecli.checks.verify import verify
    from pecli.views import check_results, screen

    reasons = values["json"] or not values["quiet"]
    result = verify(file, scheme, tolerance, any_dtype=values["dtype"] is None, reasons=reasons)
    if values["json"]:
        screen.say_json(result.as_json())
    elif not values["quiet"]:
        check_results.show_verification(result)
    return Exit.DONE if result.passed else Exit.CHECK_FAILED


def _write(scheme: Scheme, path: str, values: Mapping[str, Any]) -> None:
    from pecli.files import format_of, save_scheme, tables_written
    from pecli.views import BlockObserver, screen

    options.check_output(path, json=values["json"], example="pe.npy")
    config = values.get("config")
    if config is not None and os.path.exists(path) and os.path.exists(config) and os.path.samefile(path, config):
        raise ParameterError("output", path, "it would overwrite the input config", "name another file")
    parts = format_of(path) == "zarr"  # of which --json still describes the whole
    observer = BlockObserver(scheme.name, [] if parts else tables_written(path, scheme), values, scheme.tensors())
    with observer:
        save_scheme(path, scheme, on_block=observer.see)
    if values["json"]:
        screen.say_json({**scheme.spec(), "tensors": observer.tensors(), "output": path})
    elif not values["quiet"]:
        tables = ", ".join(
            f"{table.name} {screen.shape(table.shape)} {table.dtype}" for table in tables_written(path, scheme)
        )
        screen.say_written(path, f"{tables}, ")


def _describe(scheme: Scheme, values: Mapping[str, Any]) -> int:
    from pecli.views import BlockObserver, screen

    observer = BlockObserver(scheme.name, [], values, scheme.tensors())
    screen.say_json({**scheme.spec(), "tensors": observer.tensors(), "output": None})
    return Exit.DONE
