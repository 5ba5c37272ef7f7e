"""`pecli audit SCHEME`: how far tables drift when they are computed as runtimes compute them."""

from functools import partial
from typing import Any

from pecli.checks.audit import audit
from pecli.cli import SchemeGroup, answer, command_of, examples, made_by, options
from pecli.compare.tolerance import DRIFT, ERROR
from pecli.engine.schemes import SCHEMES, Choice, ListOf, scheme_named
from pecli.engine.schemes.scheme import Scheme
from pecli.views import drift, drift_pictures, progress
from pecli.views.pictures import figure_files

SUMMARY = "Say how far each way to compute a table (float32 phases, bfloat16 positions, …) drifts from the exact one."
EXAMPLES = (
    "pecli audit sinusoidal --seq-len 5000 --dim 512 -o drift.png",
    "pecli audit rope --seq-len 131072 --dim 128",
    "pecli audit rope --model llama-3.1-8b --seq-len 131072 --recipes float32,float32-recurrence",
    "pecli audit alibi --heads 12 --seq-len 4096 --tolerance 0.01",
)
_OMITTED = ("recipe", "slopes")  #: Options of a generator that would change nothing here
_TOLERANCE = f"An absolute error that a context may have. (default: {DRIFT:g})"
OPTIONS = (
    options.text("--recipes --recipe", "NAME,…", "Look at these alone. (default: all)", "Audit"),
    options.text("--tolerance", "NUMBER", _TOLERANCE, "Audit", default=f"{DRIFT:g}", rule=ERROR),
    options.flag("--details", "Print errors by position and by frequency, too.", "Audit"),
    options.DRIFT_PICTURE,
    *options.WORK,
)


def command(name: str) -> Any:
    """The group of commands, one per scheme."""
    commands = []
    for kind in map(scheme_named, SCHEMES):
        if kind.recipe_names():
            own = [option for option in options.options_of(kind) if option.name not in _OMITTED]
            help, short = (
                f"{SUMMARY} Recipes: {', '.join(kind.recipe_names())}.",
                f"Audit {kind.name} tables.",
            )
            shown, run = (
                [line for line in EXAMPLES if line.split()[2] == kind.name],
                partial(_audit, kind),
            )
            commands.append(
                command_of(kind.name, run, [*own, *OPTIONS], shown, help=help, short_help=short)
            )
    return SchemeGroup(
        name=name, commands=commands, help=SUMMARY, epilog=examples(EXAMPLES), no_args_is_help=True
    )


def _audit(kind: type[Scheme], **values: Any) -> None:
    scheme = options.scheme_from(kind, {**dict.fromkeys(_OMITTED), **values})
    path = values["output"]
    parts = dict(scheme.named_parts())
    first, recipes = next(iter(parts.values())), None
    if values["recipes"] is not None:
        known = ("exact", *first.recipe_names(), *first.runtime_names())
        rule = ListOf(help="recipes", each=Choice(help="a recipe", options=known))
        recipes = tuple(rule.parse("recipes", values["recipes"]))
    positions = sum(part.by_position().count for part in parts.values())
    with progress.counting("audit", positions, wanted=options.shows_progress(values)) as advance:
        audits = {
            name: audit(part, recipes, values["tolerance"], advance) for name, part in parts.items()
        }
    if path is not None:
        ways = ("output", "details", "json", "quiet", "no_progress")
        about = made_by(
            ["audit", first.name], {name: values[name] for name in values if name not in ways}
        )
        about["specs"] = [part.spec() for part in parts.values()]
        figure_files.save(drift_pictures.audits_picture(audits), path, about=about)
    found = {name: result.as_json() for name, result in audits.items()}
    described = found[""] if "" in found else {**scheme.spec(), "layers": found}
    show = partial(drift.show_audits, audits, details=values["details"])
    answer(described, values["json"], values["quiet"], lambda _: show(), output=path)
