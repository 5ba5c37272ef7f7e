"""`pecli verify`: files checked against their own spec, a model, or what a manifest says of them."""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from pecli.checks.run import Check, Outcome, is_manifest, run_all, without_tables
from pecli.checks.verify import verify as verify_file
from pecli.checks.verify.targets import PLACES
from pecli.cli import Exit, command, made_by, options, print_error
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array
from pecli.engine.runtimes import RUNTIMES
from pecli.engine.schemes.given_positions import GivenPositions
from pecli.errors import ParameterError, PecliError
from pecli.files.load import split_name
from pecli.models.find import find_model
from pecli.views import check_results, progress, screen
from pecli.views import outcomes as outcome_views

MANIFEST = r"""
A manifest, whose paths start from its folder:

\[defaults]                # optional: max_ulp, atol, rtol
max_ulp = 2
[\[check]]
file = "dumps/cos.npy"    # or FILE:NAME; name = "…" is optional
model = "llama-3.1-8b"    # or config = "config.json"
recipe = "float32"        # also runtime, offset, length, layer_type
[\[check]]
file = "dumps/q_after.npy"
before = "dumps/q.npy"    # also attention_mask, shift, seq_axis
model = "llama-3.1-8b"    # or table = "wpe.npy"
[\[check]]
file = "dumps/pe.npy"
scheme = "sinusoidal"     # with its parameters as keys
seq_len = 512
dim = 64
[\[check]]                 # neither: the file carries its spec
file = "rope.safetensors"
"""
_PANEL = "Against a model"
_FILES = "Files (.npy, .npz, .safetensors, .gguf, .pt, .onnx, .csv, .txt, .json), folders, FILE:NAME, and .toml"
_OWN = "for a folder of tensors or a .gguf, its own unless given; --config is the same"
_MODEL = f"{options.MODEL[0].upper()}{options.MODEL[1:]}; {_OWN}."
_LAYERS = "Only layers of this type. (default: by a tensor's name, or the best match)"
_LENGTH = "Context length for dynamic and longrope. (default: the table's length)"
_LAYOUT = "Layout of doubled columns, if not the model's own (permuted weights)."
_RECIPE = "How the tables were computed, such as float32; see pecli audit. (default: exact)"
_RUNTIME = f"The runtime that computed them; --length is its served context: {', '.join(RUNTIMES)}."
_AXIS = "Their axis of positions: -3 for (batch, L, heads, D). (default: -2)"
_POSITIONS = "Positions of the rows, (L,) or (axes, L), if not consecutive; with --before also (…, batch, L)."
_TABLE = "With --before: the learned table (rows, D) whose rows were added, instead of a model."
_MASK = "1 for tokens, 0 for padding, (batch, L), of --before or of tables per batch; positions count the ones."
_SHIFT = "With --before: a cache that was rotated already is moved by this many positions."
_GOLDEN = "FILE… are a port's answers to the cases of this golden suite, by CASE.TENSOR; see pecli golden."


@command(
    options.argument("files", "FILE…", f"{_FILES} manifests.", several=True),
    *options.model_options(_MODEL, _PANEL, _LAYERS),
    options.text("--offset", "INTEGER", "Position of the first row.", _PANEL),
    options.text("--positions", "LIST|FILE", _POSITIONS, _PANEL),
    options.text("--grid", "[Tx]HxW", "One row per grid point, row-major.", _PANEL),
    options.text("--keep", "INTEGER", "Extra rows for non-patch tokens (CLS, registers).", _PANEL),
    options.text("--length", "INTEGER", _LENGTH, _PANEL),
    options.text("--layout", "NAME", _LAYOUT, _PANEL, choices=("halves", "interleaved")),
    options.text("--recipe", "NAME", _RECIPE, _PANEL),
    options.text("--runtime", "NAME", _RUNTIME, _PANEL, choices=tuple(RUNTIMES)),
    options.text(
        "--before", "FILE", "Queries or keys before rotation; FILE… holds them after.", _PANEL
    ),
    options.text("--seq-axis", "INTEGER", _AXIS, _PANEL),
    options.text("--table", "FILE", _TABLE, _PANEL),
    options.text("--attention-mask", "LIST|FILE", _MASK, _PANEL),
    options.text("--shift", "INTEGER", _SHIFT, _PANEL),
    *options.TOLERANCES,
    options.flag("--strict", "Fail checks too weak to rule out a known mistake.", options.CHECK),
    options.text("--golden", "FOLDER", _GOLDEN, options.CHECK),
    options.text("--junit", "FILE", "Write a JUnit report.", options.OUTPUT),
    options.picture("Draw what was expected, what was found, and the difference to"),
    *options.WORK,
    shown=MANIFEST.splitlines(),
)
def verify(
    files: list[str], strict: bool, golden: str | None, junit: str | None, output: str | None, json: bool, quiet: bool,
    no_progress: bool, **values: Any,
) -> int:  # fmt: skip
    """Check files against a model, a manifest, or the spec that they carry; say what is wrong with those that fail.

    Against a scheme with parameters of your own: pecli rope --seq-len … --dim … --verify FILE.

    Exit code 0: all passed; 1: at least one failed; 2: a manifest is wrong; 3: a file cannot be read.

    Examples:
      pecli verify tables/*.safetensors --json
      pecli verify model.gguf --model llama-3.1-8b
      pecli verify dump.npz:cos_cached --model llama-3.1-8b --recipe float32 --max-ulp 2
      pecli verify q_after.npy --before q_before.npy --model llama-3.1-8b --atol 1e-3
      pecli verify dump.npz --model llama-3.1-8b --atol 1e-3 -o fail.png
      pecli verify pecli.toml --junit report.xml
      pecli verify golden; pecli verify --golden golden answers.npz
    """
    allowed = options.tolerances(values)
    places = {
        name: value for name, value in values.items() if value is not None and name not in allowed
    }
    for name, path in (("junit", junit), ("output", output)):
        if path is not None and any(_is_same(path, file) for file in files):
            raise ParameterError(name, path, "it is one of the files to verify", "name another")
    checks = _checks(
        files, golden, places, allowed, reasons=json or not quiet or bool(junit or output)
    )
    as_table = any(map(is_manifest, files)) and not json
    outcomes, code = [], Exit.DONE
    wanted = as_table and not quiet and not no_progress
    with progress.counting("verify", len(checks), wanted=wanted) as advance:
        for outcome in run_all(checks, strict=strict):
            outcomes.append(outcome if output is not None else outcome.without_arrays())
            advance(1)
            if not as_table:
                code = max(code, _told(outcome, json, quiet))
    if as_table and not quiet:
        outcome_views.show_outcomes(outcomes)
    for outcome in outcomes if as_table else ():
        code = max(code, _told(outcome, json, quiet=True))
    if os.environ.get("GITHUB_ACTIONS") == "true" and not json:
        outcome_views.annotate(outcomes)
    if junit is not None:
        outcome_views.write_junit(junit, outcomes)
    if output is not None:
        from pecli.views.pictures import mistakes

        about = made_by(["verify", *files], {"golden": golden, **values})
        mistakes.save(output, [outcome.result for outcome in outcomes], about)
        if not (json or quiet):
            screen.print_written(output)
    return max([code, *map(print_error, without_tables(outcomes))])


def _numbers(name: str, text: str) -> Array:
    """An array: numbers on the command line, as positions are spelled, or those in a file."""
    from pecli.tensors.inputs import read_numbers

    rule = GivenPositions(help="")
    return np.array(rule.parse(name, text)) if rule.is_value(text) else read_numbers(name, text)


def _is_same(path: str, file: str) -> bool:
    try:
        return os.path.samefile(path, split_name(file)[0])
    except (OSError, ValueError, PecliError):
        return False


def _told(outcome: Outcome, json: bool, quiet: bool) -> Exit:
    """Say what there is to say of one check by itself; the exit code that it stands for."""
    code = Exit.DONE if outcome.status in ("passed", "skipped") else Exit.CHECK_FAILED
    if isinstance(outcome.result, PecliError) and outcome.status != "skipped":
        code = print_error(outcome.result)
    if json:
        screen.print_json(outcome.as_json())
    elif not quiet and outcome.status == "skipped":
        screen.print_styled(screen.Styled("skipped", "dim"), screen.Styled(f"  {outcome.result}"))
    elif not quiet and not isinstance(outcome.result, PecliError):
        check_results.show_verification(outcome.result, outcome.status)
    return code


def _checks(
    files: list[str],
    golden: str | None,
    places: Mapping[str, str],
    allowed: Mapping[str, Any],
    *,
    reasons: bool,
) -> list[Check]:
    """What the command line asks for; all of it is looked at before anything runs."""
    for name, value in places.items() if golden is not None or all(map(is_manifest, files)) else ():
        rule = "a manifest or a suite says itself what its files should be"
        raise ParameterError(name, repr(value), rule, "leave it out")
    if golden is not None:
        from pecli.golden import answer_checks

        return answer_checks(golden, files, Tolerance(**allowed) if allowed else None)
    run = partial(_against(places), tolerance=Tolerance(**allowed), reasons=reasons)
    checks: list[Check] = []
    group = "the command line" if len(files) > 1 else ""
    for file in files:
        if is_manifest(file):
            from pecli.checks.manifest import read_manifest

            checks += read_manifest(file, allowed, reasons=reasons)
        elif not places and os.path.isfile(os.path.join(file, "index.json")):
            from pecli.golden import suite_checks

            checks += suite_checks(file)
        else:
            checks.append(Check(file, partial(run, file), group=group))
    return checks


def _against(places: Mapping[str, str]) -> Any:
    """What compares a file with what the options name: a model, a learned table, or the spec that it carries."""
    spec: Any = None
    if "table" in places:
        for name in ("config", "model"):
            if name in places:
                raise ParameterError(
                    name, places[name], "--table is what was added", "leave out one of them"
                )
        if "before" not in places:
            rule = "it was added to what is given as --before"
            raise ParameterError("table", places["table"], rule, "give that, too")
        spec = _numbers("table", places["table"])
    elif (spec := options.model_name(places)) is not None:
        model = find_model(spec)
        if "layer_type" in places:
            model.one(places["layer_type"])
    else:
        for name, value in places.items():
            advice = "add --config or --model, or make the table: pecli rope … --verify FILE"
            raise ParameterError(name, repr(value), "it belongs to a model", advice)
    is_array = {"attention_mask", "positions"} if "before" in places else {"attention_mask"}
    given: dict[str, Any] = {
        name: text for name, text in places.items() if name not in ("config", "model", "table")
    }
    for name, text in given.items():
        if name in is_array:
            given[name] = _numbers(name, text)
        elif name == "shift":
            from pecli.tensors.apply import SHIFT

            given[name] = SHIFT.parse(name, text)
        elif name in PLACES:
            given[name] = options.parse(name, PLACES[name], text)
    return partial(verify_file, spec=spec, **given)
