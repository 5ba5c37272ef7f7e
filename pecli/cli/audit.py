"""`pecli audit SCHEME`: how far tables drift when they are computed as runtimes compute them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from pecli.checks.tolerance import DRIFT, ERROR
from pecli.cli import Exit, command_line, command_of, examples, keyword, new_app, options, with_options
from pecli.engine import __version__
from pecli.engine.schemes import SCHEMES, Choice, ListOf, scheme_named
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError, nearest

SUMMARY = "Say how far each way to compute a table (float32 phases, bfloat16 positions, …) drifts from the exact one."
EXAMPLES = {
    "sinusoidal": ("pecli audit sinusoidal --seq-len 5000 --dim 512 -o drift.png",),
    "rope": (
        "pecli audit rope --seq-len 131072 --dim 128",
        "pecli audit rope --model llama-3.1-8b --seq-len 131072 --recipes float32,float32-recurrence",
    ),
    "alibi": ("pecli audit alibi --heads 12 --seq-len 4096 --tolerance 0.01",),
}
_OMITTED = ("recipe", "slopes")
"""Options of a generator that would change nothing here."""

Recipes = Annotated[
    str | None,
    typer.Option(
        "--recipes", "--recipe", metavar="NAME,…", help="Look at these alone. (default: all)", rich_help_panel="Audit"
    ),
]
Limit = Annotated[
    str,
    options.text("--tolerance", "NUMBER", f"An absolute error that a context may have. (default: {DRIFT:g})", "Audit"),
]
Output = Annotated[str | None, options.output("Draw the errors over positions: .png, .svg or .pdf.")]
_SHARED = (
    keyword("recipes", Recipes, None),
    keyword("tolerance", Limit, f"{DRIFT:g}"),
    keyword("output", Output, None),
    keyword("json", options.Json, False),
    keyword("quiet", options.Quiet, False),
    keyword("no_progress", options.NoProgress, False),
)


class Audits(typer.core.TyperGroup):
    """A command a scheme, made on demand."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in SCHEMES if scheme_named(name).recipe_names()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        known = self.list_commands(ctx)
        if cmd_name in SCHEMES and cmd_name not in known:
            raise ParameterError("the scheme", cmd_name, "it has no recipes: its numbers are random, not computed")
        if cmd_name not in known:
            rule = f"it must be one of {', '.join(known)}"
            raise ParameterError("the scheme", repr(cmd_name), rule, nearest(cmd_name, known))
        return _command(scheme_named(cmd_name))


def command(name: str) -> Any:
    """The group of commands, one per scheme."""
    app = new_app(name=name, cls=Audits, no_args_is_help=True)
    every = tuple(line for lines in EXAMPLES.values() for line in lines)
    app.callback(help=SUMMARY, epilog=examples(every))(lambda: None)
    return typer.main.get_command(app)


def _command(kind: type[Scheme]) -> Any:
    def run(**values: Any) -> int:
        scheme = options.scheme_from(kind, {**dict.fromkeys(_OMITTED), **values})
        return _audit(scheme, values)

    own = [option for option in options.options_of(kind) if option.name not in _OMITTED]
    return command_of(
        with_options(run, [*own, *_SHARED]),
        kind.name,
        EXAMPLES.get(kind.name, ()),
        help=f"{SUMMARY} Recipes: {', '.join(kind.recipe_names())}.",
        short_help=f"Audit {kind.name} tables.",
    )


def _audit(scheme: Scheme, values: Mapping[str, Any]) -> int:
    from pecli.checks.audit import audit
    from pecli.views import counting, drift, screen
    from pecli.views.pictures import figure

    path, tolerance = values["output"], ERROR.parse("tolerance", values["tolerance"])
    if path is not None:
        figure.check_suffix(path)
    parts = dict(scheme.named_parts())
    recipes = _recipes(next(iter(parts.values())), values["recipes"])
    positions = sum(part.by_position().count for part in parts.values())
    with counting("audit", positions, values, bytes=False) as advance:
        audits = {name: audit(part, recipes, tolerance, advance) for name, part in parts.items()}
    if path is not None:
        given = {
            name: value for name, value in values.items() if name not in ("output", "json", "quiet", "no_progress")
        }
        command = command_line(["audit", next(iter(parts.values())).name], given)
        about = {"command": command, "specs": [part.spec() for part in parts.values()], "version": __version__}
        figure.save(drift.audit_picture(audits), path, about=about)
    if values["json"]:
        found = {name: each.as_json() for name, each in audits.items()}
        described = found[""] if "" in found else {**scheme.spec(), "layers": found}
        screen.say_json({**described, "output": path})
    elif not values["quiet"]:
        drift.show_audit(audits)
        if path is not None:
            screen.say()
            screen.say_written(path)
    return Exit.DONE


def _recipes(scheme: Scheme, text: str | None) -> tuple[str, ...] | None:
    """The recipes and runtimes that the option names; None where it names none."""
    if text is None:
        return None
    each = Choice(help="a recipe", options=("exact", *scheme.recipe_names(), *scheme.runtime_names()))
    return tuple(ListOf(help="recipes", each=each).parse("recipes", text))
