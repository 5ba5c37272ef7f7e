"""`pecli audit SCHEME`: how far tables drift if they are computed with less precision."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from pecli.checks.audit import Audit, audit
from pecli.cli import options, scheme_options
from pecli.cli.answers import answer_with_figure, provenance
from pecli.cli.commands import AnyCommand, SchemeGroup, command_of
from pecli.compare.tolerance import DRIFT, ERROR
from pecli.engine.named_values import JsonObject
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.engine.schemes.parameters import Choice, ListOf
from pecli.engine.schemes.scheme import Scheme, runtime_names
from pecli.views import drift, drift_pictures, progress
from pecli.views.pictures import figure_files

SUMMARY = (
    "Measure how far each way to compute a table (float32 phases, bfloat16 positions, …) drifts "
    "from the exact one."
)
EXAMPLES = (
    "pecli audit sinusoidal --seq-len 5000 --dim 512 -o drift.png",
    "pecli audit rope --seq-len 131072 --dim 128",
    "pecli audit rope --model llama-3.1-8b --seq-len 131072 --recipes float32,float32-recurrence",
    "pecli audit alibi --heads 12 --seq-len 4096 --tolerance 0.01",
)
_OPTIONS_OF_GENERATORS_ONLY = ("recipe", "slopes")
"""Options of `pecli rope`, … that `pecli audit rope`, … does not have: it measures all recipes."""
_TOLERANCE = f"Absolute error up to which a position counts as right. (default: {DRIFT:g})"
OPTIONS = (
    options.text("--recipes --recipe", "NAME,…", "Only these recipes. (default: all)", "Audit"),
    options.text("--tolerance", "NUMBER", _TOLERANCE, "Audit", default=f"{DRIFT:g}", rule=ERROR),
    options.flag("--details", "Also print the errors by position and by frequency.", "Audit"),
    options.DRIFT_PICTURE,
    *options.WORK,
)


def command(name: str) -> AnyCommand:
    """Return the command, with a subcommand per scheme that can be computed in several ways."""
    scheme_types = map(scheme_named, SCHEMES)
    commands = [_audit_command(kind) for kind in scheme_types if kind.recipe_names()]
    return SchemeGroup(name, commands, SUMMARY, EXAMPLES)


@cache
def _audit_command(scheme_type: type[Scheme]) -> AnyCommand:
    """Return the subcommand of a scheme, such as `pecli audit rope`."""
    declared = [
        option
        for option in scheme_options.options_of(scheme_type)
        if option.name not in _OPTIONS_OF_GENERATORS_ONLY
    ]
    return command_of(
        scheme_type.name,
        partial(_run_audit, scheme_type),
        [*declared, *OPTIONS],
        [line for line in EXAMPLES if line.startswith(f"pecli audit {scheme_type.name} ")],
        help=f"{SUMMARY} Recipes: {', '.join(scheme_type.recipe_names())}.",
        short_help=f"Audit {scheme_type.name} tables.",
    )


@dataclass
class _AuditResult:
    """The audits of a scheme, one per layer type; the name is empty if there is only one."""

    scheme: Scheme
    audit_of_layer_type: dict[str, Audit]

    def as_json(self) -> JsonObject:
        layers = {name: result.as_json() for name, result in self.audit_of_layer_type.items()}
        if "" in layers:
            return layers[""]
        return {**self.scheme.spec(), "layers": layers}


def _run_audit(scheme_type: type[Scheme], **values: Any) -> None:
    """Run `pecli audit`: print and draw the rounding errors of less precise ways to compute a table.

    A model may have several types of layers, which are audited one after the other.

    Args:
        scheme_type: The scheme, such as rope.
        values: The values of the options by name, such as `seq_len` and `tolerance`.
    """
    scheme = _scheme_to_audit(scheme_type, values)
    audits = _audit_layer_types(scheme, values)

    def show(result: _AuditResult) -> None:
        drift.show_audits(result.audit_of_layer_type, details=values["details"])

    def save_figure(path: str) -> None:
        specs = [layer_scheme.spec() for _, layer_scheme in scheme.by_layer_type()]
        metadata = {**_provenance(scheme_type, values), "specs": specs}
        figure_files.save(drift_pictures.audits_figure(audits), path, about=metadata)

    answer_with_figure(
        result=_AuditResult(scheme, audits),
        show=show,
        output=values["output"],
        save=save_figure,
        json=values["json"],
        quiet=values["quiet"],
    )


def _scheme_to_audit(scheme_type: type[Scheme], values: options.Values) -> Scheme:
    """Return the scheme that options such as `--dim 64` or `--model llama-3.1-8b` describe."""
    # `pecli rope` and `pecli audit rope` share `scheme_from`. It also reads options that only the
    # first command has: here they are None, as if a user had left them out.
    options_left_out = dict.fromkeys(_OPTIONS_OF_GENERATORS_ONLY)
    return scheme_options.scheme_from(scheme_type, {**values, **options_left_out})


def _audit_layer_types(scheme: Scheme, values: options.Values) -> dict[str, Audit]:
    """Return the audit of each layer type of a scheme, with one progress bar for all of them."""
    scheme_by_layer_type = dict(scheme.by_layer_type())
    layer_schemes = list(scheme_by_layer_type.values())
    recipes = _recipes(layer_schemes[0], values["recipes"])
    total_positions = sum(layer.audited_rows().count for layer in layer_schemes)
    shows_progress = options.shows_progress(values)
    audits: dict[str, Audit] = {}
    with progress.counting("audit", total_positions, wanted=shows_progress) as advance:
        for layer_type, layer_scheme in scheme_by_layer_type.items():
            audits[layer_type] = audit(layer_scheme, recipes, values["tolerance"], advance)
    return audits


def _recipes(scheme: Scheme, text: str | None) -> tuple[str, ...] | None:
    """Parse `--recipes`, such as «float32,vllm»: recipes and runtimes; None means all recipes."""
    if text is None:
        return None
    names = ("exact", *scheme.recipe_names(), *runtime_names(type(scheme)))
    rule = ListOf(help="recipes", each=Choice(help="a recipe", options=names))
    return tuple(rule.parse("recipes", text))


def _provenance(scheme_type: type[Scheme], values: options.Values) -> dict[str, object]:
    """Return the command that draws the figure again, without the options that do not change it."""
    omitted = ("output", "details", "json", "quiet", "no_progress")
    return provenance(["audit", scheme_type.name], options.without(values, omitted))
