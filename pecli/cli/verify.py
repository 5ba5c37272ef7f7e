"""`pecli verify`: files checked against their own spec, a model, or what a manifest says of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pecli.cli import Exit, code_of, options, print_error
from pecli.engine.runtimes import RUNTIMES
from pecli.errors import ParameterError, PecliError

if TYPE_CHECKING:
    from pecli.checks.run import Check, Outcome

EXAMPLES = (
    "pecli verify tables/*.safetensors --json",
    "pecli verify ./Llama-3.1-8B --atol 1e-3",
    "pecli verify dump.npz:cos_cached --model llama-3.1-8b --recipe float32 --max-ulp 2",
    "pecli verify q_after.npy --before q_before.npy --model llama-3.1-8b --atol 1e-3",
    "pecli verify pecli.toml --junit report.xml",
    "pecli verify golden; pecli verify --golden golden answers.npz",
    "",
    "A manifest, whose paths start from its folder:",
    "",
    r"\[defaults]                # optional: max_ulp, atol, rtol",
    "max_ulp = 2",
    r"[\[check]]",
    'file = "dumps/cos.npy"    # or FILE:NAME; name = "…" is optional',
    'model = "llama-3.1-8b"    # or config = "config.json"',
    'recipe = "float32"        # also runtime, offset, length, layer_type',
    r"[\[check]]",
    'file = "dumps/pe.npy"',
    'scheme = "sinusoidal"     # with its parameters as keys',
    "seq_len = 512",
    "dim = 64",
    r"[\[check]]                 # neither: the file carries its spec",
    'file = "rope.safetensors"',
)
_PANEL = "Against a model"

_HELP = f"{options.MODEL[0].upper()}{options.MODEL[1:]}; for a folder of tensors or a .gguf, its own unless given."
Config = Annotated[str | None, options.model(_HELP, _PANEL, "--config")]
Model = Annotated[str | None, options.model("The same; pecli models lists the presets.", _PANEL)]
_LAYERS = "Only layers of this type. (default: by a tensor's name, or the best match)"
LayerType = Annotated[str | None, options.text("--layer-type", "NAME", _LAYERS, _PANEL)]
Offset = Annotated[str | None, options.text("--offset", "INTEGER", "Position of the first row.", _PANEL)]
_GIVEN = "Positions of the rows, (L,) or (axes, L), if not consecutive."
Positions = Annotated[str | None, options.text("--positions", "LIST|FILE", _GIVEN, _PANEL)]
Grid = Annotated[str | None, options.text("--grid", "[Tx]HxW", "One row per grid point, row-major.", _PANEL)]
Keep = Annotated[
    str | None, options.text("--keep", "INTEGER", "Extra rows for non-patch tokens (CLS, registers).", _PANEL)
]
_LENGTH = "Context length for dynamic and longrope. (default: the table's length)"
Length = Annotated[str | None, options.text("--length", "INTEGER", _LENGTH, _PANEL)]
_RECIPE = "How the tables were computed, such as float32; see pecli audit. (default: exact)"
Recipe = Annotated[str | None, options.text("--recipe", "NAME", _RECIPE, _PANEL)]
_LAYOUT = "Layout of doubled columns, if not the model's own (permuted weights)."
Layout = Annotated[str | None, options.choice("--layout", ("halves", "interleaved"), _LAYOUT, _PANEL)]
_RUNTIME = f"The runtime that computed them; --length is its served context: {', '.join(RUNTIMES)}."
Runtime = Annotated[str | None, options.choice("--runtime", tuple(RUNTIMES), _RUNTIME, _PANEL)]
_STRICT = "Fail checks too weak to rule out a known mistake."
Strict = Annotated[bool, typer.Option("--strict", help=_STRICT, rich_help_panel=options.CHECK)]
_BEFORE = "Queries or keys before rotation; FILE… holds them after."
Before = Annotated[str | None, options.text("--before", "FILE", _BEFORE, _PANEL)]
_AXIS = "Their axis of positions: -3 for (batch, L, heads, D). (default: -2)"
SeqAxis = Annotated[str | None, options.text("--seq-axis", "INTEGER", _AXIS, _PANEL)]
_GOLDEN = "FILE… are a port's answers to the cases of this golden suite, by CASE.TENSOR; see pecli golden."
Golden = Annotated[str | None, options.text("--golden", "FOLDER", _GOLDEN, options.CHECK)]
Junit = Annotated[str | None, options.text("--junit", "FILE", "Write a JUnit report.", options.OUTPUT)]
Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE…",
        help="Files (.npy, .npz, .safetensors, .gguf, .pt, .onnx, .csv, .txt, .json), folders, FILE:NAME, and .toml"
        " manifests.",
    ),
]


def verify(
    files: Files,
    config: Config = None,
    model: Model = None,
    layer_type: LayerType = None,
    offset: Offset = None,
    positions: Positions = None,
    grid: Grid = None,
    keep: Keep = None,
    length: Length = None,
    layout: Layout = None,
    recipe: Recipe = None,
    runtime: Runtime = None,
    before: Before = None,
    seq_axis: SeqAxis = None,
    max_ulp: options.MaxUlp = None,
    atol: options.Atol = None,
    rtol: options.Rtol = None,
    strict: Strict = False,
    golden: Golden = None,
    junit: Junit = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    no_progress: options.NoProgress = False,
) -> int:
    """Check files against a model, a manifest, or the spec that they carry; say what is wrong with those that fail.

    Against a scheme with parameters of your own: pecli rope --seq-len … --dim … --verify FILE.

    Exit code 0: all passed; 1: at least one failed; 2: a manifest is wrong; 3: a file cannot be read.
    """
    from pecli.checks.run import is_manifest, run_all
    from pecli.views import counting

    places = {
        "config": config, "model": model, "layer_type": layer_type, "offset": offset, "length": length,
        "recipe": recipe, "runtime": runtime, "before": before, "seq_axis": seq_axis,
        "positions": positions, "grid": grid, "keep": keep, "layout": layout,
    }  # fmt: skip
    tolerances = options.tolerances(max_ulp, atol, rtol)
    if junit is not None and any(_same(junit, file) for file in files):
        raise ParameterError("junit", junit, "it is one of the files to verify", "name another")
    given = {name: value for name, value in places.items() if value is not None}
    if golden is None:
        checks = _checks(files, given, tolerances, reasons=json or not quiet or junit is not None)
    else:
        checks = _answers(golden, files, given, tolerances)
    as_table = any(map(is_manifest, files)) and not json
    outcomes = []
    watched = {"quiet": quiet or not as_table, "no_progress": no_progress}
    with counting("verify", len(checks), watched, bytes=False) as advance:
        for outcome in run_all(checks, strict=strict):
            outcomes.append(outcome)
            advance(1)
            if not as_table:
                _answer(outcome, json, quiet)
    return _summary(outcomes, as_table=as_table, json=json, quiet=quiet, junit=junit)


def _summary(outcomes: list[Outcome], *, as_table: bool, json: bool, quiet: bool, junit: str | None) -> int:
    """What there is to say of all checks together, and the exit code."""
    from pecli.checks.run import without_tables

    problems = without_tables(outcomes)
    annotated = os.environ.get("GITHUB_ACTIONS") == "true" and not json
    if as_table or annotated or junit is not None:
        from pecli.views import checklist

        if as_table and not quiet:
            checklist.show(outcomes)
        for outcome in outcomes if as_table else ():
            _answer(outcome, json, quiet=True)
        if annotated:
            checklist.annotate(outcomes)
        if junit is not None:
            checklist.write_junit(junit, outcomes)
    for problem in problems:
        print_error(problem)
    return max([*map(_code, outcomes), *map(code_of, problems)])


def _same(path: str, file: str) -> bool:
    """Whether two paths, or a path and FILE:NAME, are one file."""
    from pecli.files.load import split_name

    try:
        return os.path.samefile(path, split_name(file)[0])
    except (OSError, ValueError, PecliError):
        return False


def _answer(outcome: Outcome, json: bool, quiet: bool) -> None:
    """What there is to say of one check by itself; a problem goes to standard error."""
    from pecli.views import check_results, screen

    if isinstance(outcome.result, PecliError) and not outcome.skipped:
        print_error(outcome.result)
    if json:
        screen.say_json(outcome.as_json())
    elif not quiet and outcome.skipped:
        screen.say_styled(("skipped", "dim"), (f"  {outcome.result}", ""))
    elif not quiet and not isinstance(outcome.result, PecliError):
        check_results.show_verification(outcome.result, outcome.status)


def _code(outcome: Outcome) -> Exit:
    if isinstance(outcome.result, PecliError) and not outcome.skipped:
        return code_of(outcome.result)
    return Exit.DONE if outcome.passed or outcome.skipped else Exit.CHECK_FAILED


def _checks(
    files: list[str], places: Mapping[str, str], tolerances: Mapping[str, Any], *, reasons: bool
) -> list[Check]:
    """What the command line asks for; all of it is looked at before anything runs."""
    from pecli.checks.run import Check, is_manifest
    from pecli.checks.tolerance import Tolerance

    if places and all(map(is_manifest, files)):
        name, value = next(iter(places.items()))
        raise ParameterError(name, repr(value), "a manifest says itself what its files should be", "leave it out")
    run = partial(_against(places), tolerance=Tolerance(**tolerances), reasons=reasons)
    found: list[Check] = []
    group = "the command line" if len(files) > 1 else ""
    for file in files:
        if is_manifest(file):
            from pecli.checks.manifest import read_manifest

            found += read_manifest(file, tolerances, reasons=reasons)
        elif not places and os.path.isfile(os.path.join(file, "index.json")):
            from pecli.golden.verify import suite_checks

            found += suite_checks(file)
        else:
            found.append(Check(file, partial(run, file), group=group))
    return found


def _answers(folder: str, files: list[str], places: Mapping[str, str], tolerances: Mapping[str, Any]) -> list[Check]:
    """A port's answers to a golden suite."""
    from pecli.checks.tolerance import Tolerance
    from pecli.golden.verify import answer_checks

    for name, value in places.items():
        raise ParameterError(name, repr(value), "the suite says what its cases are", "leave it out")
    allowed = Tolerance(**tolerances) if tolerances else None
    return [check for file in files for check in answer_checks(folder, file, allowed)]


def _against(places: Mapping[str, str]) -> Any:
    """What compares a file with what the options name: a model, or the spec that it carries."""
    from pecli.checks.verify import model_check
    from pecli.checks.verify import verify as verify_carried
    from pecli.checks.verify.targets import PLACES
    from pecli.cli.options import check_one
    from pecli.models.find import find_model

    config, model = places.get("config"), places.get("model")
    if config is None and model is None:
        for name, value in places.items():
            raise ParameterError(name, repr(value), "it belongs to a model", "add --config or --model")
        return verify_carried
    check_one(config, model)
    given = {name: options.parse(name, rule, places[name]) for name, rule in PLACES.items() if name in places}
    found = find_model(config, model)
    layer_type = places.get("layer_type")
    if layer_type is not None:
        found.one(layer_type)
    return model_check(found, config or model or found, places.get("before"), layer_type=layer_type, **given)
