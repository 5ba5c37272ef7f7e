"""`pecli verify`: check files against their own spec, a model, or a manifest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from pecli.checks.run import Check, Outcome, is_manifest, run_all, without_tables
from pecli.checks.verify import verify as verify_file
from pecli.checks.verify.table_settings import VECTOR_PARAMETERS
from pecli.cli import options
from pecli.cli.answers import print_answer, provenance
from pecli.cli.commands import command
from pecli.cli.messages import Exit, print_error
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array
from pecli.engine.named_values import MutableValues, NamedValues, without_none
from pecli.engine.runtimes import RUNTIMES
from pecli.engine.schemes.given_positions import GivenPositions
from pecli.errors import ParameterError, PecliError
from pecli.files.formats import readable_suffixes
from pecli.files.load import split_name
from pecli.models.encoding import ModelEncodings
from pecli.models.find import find_model
from pecli.views import check_results, outcomes, progress, screen
from pecli.views.screen import Styled

MANIFEST = """
A manifest, whose paths start from its folder:

[defaults]                # optional: max_ulp, atol, rtol
max_ulp = 2
[[check]]
file = "dumps/cos.npy"    # or FILE:NAME; name = "…" is optional
model = "llama-3.1-8b"    # or config = "config.json"
recipe = "float32"        # also runtime, offset, length, layer_type
[[check]]
file = "dumps/q_after.npy"
before = "dumps/q.npy"    # also attention_mask, shift, seq_axis
model = "llama-3.1-8b"    # or table = "wpe.npy"
[[check]]
file = "dumps/k.bin"      # raw numbers; these keys apply to before, too
before = "dumps/k_in.bin"
shape = [8, 24, 128]
raw_dtype = "f16"
model = "llama-3.1-8b"
[[check]]
file = "dumps/pe.npy"
scheme = "sinusoidal"     # with its parameters as keys
seq_len = 512
dim = 64
[[check]]                 # neither: the file carries its spec
file = "rope.safetensors"
"""

_PANEL = "Against a model"
_RESIZED = "Against the table it was resized from"
_FILES = f"Files ({', '.join(readable_suffixes())}), folders, FILE:NAME, and .toml manifests."
_MODEL = (
    f"{options.MODEL[0].upper()}{options.MODEL[1:]}; for a folder of tensors or a .gguf, its own "
    "unless given; --config is the same."
)
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
_RESIZED_FROM = (
    "The learned table before; --grid and --keep are about it. The interpolation is named."
)
_TO = "The new grid or number of rows. (default: what fits)"
_METHOD = "The interpolation that is required. (default: any that a project uses)"
_GOLDEN = "FILE… are a port's answers to the cases of this golden suite, by CASE.TENSOR; see pecli golden."


@command(
    options.argument("files", "FILE…", _FILES, several=True),
    *options.model_options(_MODEL, _PANEL, _LAYERS),
    options.server_flags(_PANEL),
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
    options.text("--resized-from", "FILE", _RESIZED_FROM, _RESIZED),
    options.text("--to", "N|HxW", _TO, _RESIZED),
    *options.interpolation(_METHOD, _RESIZED),
    *options.TOLERANCES,
    options.flag("--strict", "Fail checks too weak to rule out a known mistake.", options.CHECK),
    options.text("--golden", "FOLDER", _GOLDEN, options.CHECK),
    options.text("--junit", "FILE", "Write a JUnit report.", options.OUTPUT),
    *options.RAW,
    options.picture("Draw what was expected, what was found, and the difference to"),
    *options.WORK,
    shown=MANIFEST.splitlines(),
)
def verify(
    files: list[str],
    strict: bool,
    golden: str | None,
    junit: str | None,
    output: str | None,
    json: bool,
    quiet: bool,
    no_progress: bool,
    **values: Any,
) -> int:
    """Check files against a model, a manifest, or the spec that they carry; explain those that fail.

    Against a scheme with parameters of your own: pecli rope --seq-len … --dim … --verify FILE.

    Exit code 0: all passed; 1: at least one failed; 2: a manifest is wrong; 3: a file cannot be read.

    Examples:
      pecli verify tables/*.safetensors --json
      pecli verify model.gguf --model llama-3.1-8b
      pecli verify dump.npz:cos_cached --model llama-3.1-8b --recipe float32 --max-ulp 2
      pecli verify q_after.npy --before q_before.npy --model llama-3.1-8b --atol 1e-3
      pecli verify dump.npz --model llama-3.1-8b --atol 1e-3 -o fail.png
      pecli verify larger.npy --resized-from pos_embed.npy --grid 14x14 --keep 1
      pecli verify cos.npy --model qwen3-8b --flags '--rope-scaling yarn --rope-scale 4' --atol 1e-3
      pecli verify pecli.toml --junit report.xml
      pecli verify golden; pecli verify --golden golden answers.npz
    """
    tolerances = options.tolerances(values)
    target = options.without(without_none(values), tolerances)
    output_paths = without_none({"junit": junit, "output": output})
    _check_outputs(files, output_paths)
    needs_reasons = json or not quiet or bool(output_paths)
    checks = _checks_of_command_line(files, golden, target, tolerances, reasons=needs_reasons)
    has_manifest = any(map(is_manifest, files))
    report = _Report(json=json, quiet=quiet, as_table=has_manifest and not json)
    has_progress = options.shows_progress({"quiet": quiet, "no_progress": no_progress})
    shows_progress = report.as_table and has_progress
    with progress.counting("verify", len(checks), wanted=shows_progress) as advance:
        all_outcomes = run_all(checks, strict=strict)
        results = _show_each(all_outcomes, report, advance, keeps_arrays=output is not None)
    code = report.finish(results)
    if junit is not None:
        outcomes.write_junit(junit, results)
    if output is not None:
        metadata = provenance(["verify", *files], {"golden": golden, **values})
        report.draw(output, results, metadata)
    return max([code, *map(print_error, without_tables(results))])


def _show_each(
    all_outcomes: Iterable[Outcome],
    report: _Report,
    advance: Callable[[int], object],
    *,
    keeps_arrays: bool,
) -> list[Outcome]:
    """Print each outcome as soon as its check has run, and return all of them.

    Only a picture of failed checks needs the arrays that were compared: otherwise they are dropped.
    """
    results: list[Outcome] = []
    for outcome in all_outcomes:
        results.append(outcome if keeps_arrays else outcome.without_arrays())
        advance(1)
        report.show(outcome)
    return results


def _check_outputs(files: Sequence[str], output_paths: Mapping[str, str]) -> None:
    """Raise ParameterError if a file to write is one of the files to verify."""
    for option, path in output_paths.items():
        if any(_is_same(path, file) for file in files):
            raise ParameterError(option, path, "it is one of the files to verify", "name another")


def _is_same(path: str, file: str) -> bool:
    """Return True if FILE or FILE:NAME is the file at a path; False if one of them does not exist."""
    with suppress(PecliError):  # FILE:NAME of a file that does not exist
        return options.is_same_file(path, split_name(file)[0])
    return False


class _Report:
    """The output for each check: one after the other, or one table at the end if there is a manifest."""

    def __init__(self, *, json: bool, quiet: bool, as_table: bool) -> None:
        self.json = json
        self.quiet = quiet
        self.as_table = as_table
        self.codes: list[Exit] = [Exit.DONE]

    def show(self, outcome: Outcome) -> None:
        """Print the outcome of a check, unless a table will show it."""
        if self.as_table:
            return
        self.codes.append(_exit_code_of(outcome))
        print_answer(outcome.as_json, partial(_show, outcome), json=self.json, quiet=self.quiet)

    def finish(self, results: Sequence[Outcome]) -> Exit:
        """Print the table and GitHub's annotations, and return the exit code."""
        if self.as_table:
            if not self.quiet:
                outcomes.show_outcomes(results)
            self.codes += map(_exit_code_of, results)
        is_github_action = os.environ.get("GITHUB_ACTIONS") == "true"
        if is_github_action and not self.json:
            outcomes.annotate(results)
        return max(self.codes)

    def draw(self, path: str, results: Sequence[Outcome], metadata: dict[str, object]) -> None:
        """Write a figure of the checks that failed."""
        from pecli.views.pictures import mistakes

        mistakes.save(path, [outcome.result for outcome in results], metadata)
        if not self.json and not self.quiet:
            screen.print_written(path)


def _exit_code_of(outcome: Outcome) -> Exit:
    """Return the exit code of a check; if it could not be made, print the error.

    It is called once per check: errors go to standard error even if `--quiet` or JSON is chosen.
    """
    if outcome.status in ("passed", "skipped"):
        return Exit.DONE
    if isinstance(outcome.result, PecliError):
        return print_error(outcome.result)
    return Exit.CHECK_FAILED


def _show(outcome: Outcome) -> None:
    """Print a check that was skipped or made; an error is printed by `_exit_code_of`."""
    if outcome.status == "skipped":
        screen.print_styled(Styled("skipped", "dim"), Styled(f"  {outcome.result}"))
    elif not isinstance(outcome.result, PecliError):
        check_results.show_verification(outcome.result, outcome.status)


_DEFINED_BY_SUITE = "a manifest or a suite defines what its files should be"
"""Manifests and golden suites name a model per file, which options must not contradict."""
_MODELS = ("config", "model")
_INTERPOLATION = ("to", "method", "antialias", "align_corners", "scale_offset")
"""Options about a table that was resized."""


def _refuse_target_options(target: Mapping[str, str]) -> None:
    """Raise ParameterError for any option that describes the expected tensors."""
    every_option = target.keys()
    options.refuse(target, every_option, _DEFINED_BY_SUITE, "leave it out", repr)


def _checks_of_command_line(
    files: Sequence[str],
    golden: str | None,
    target: Mapping[str, str],
    tolerances: NamedValues,
    *,
    reasons: bool,
) -> list[Check]:
    """Return the checks that `pecli verify` makes for the files of a command line.

    Each file is one of three kinds: tensors (one check), a manifest (a .toml file that lists checks),
    or the folder of a golden suite (reference tensors that pecli wrote).

    Args:
        files: The files.
        golden: A golden suite with which all files are compared; None without `--golden`.
        target: Options that describe the expected tensors, such as `model`.
        tolerances: Tolerances that were given.
        reasons: Explain failures.
    """
    if golden is not None:
        _refuse_target_options(target)
        return _answer_checks(golden, files, tolerances)
    has_only_manifests = all(map(is_manifest, files))
    if has_only_manifests:
        # They state the expected tensors of every check: there is no file that needs the options.
        _refuse_target_options(target)
    verify_one = partial(
        verify_file,
        spec=_expected_spec(target),
        tolerance=Tolerance(**tolerances),
        reasons=reasons,
        **_arguments_of_verify(target),
    )
    group = "the command line" if len(files) > 1 else ""
    checks: list[Check] = []
    for file in files:
        if is_manifest(file):
            checks += _manifest_checks(file, tolerances, reasons=reasons)
        elif not target and _is_golden_suite(file):
            checks += _suite_checks(file)
        else:  # Tensors. If options describe what they should be, a suite is read as tensors, too.
            checks.append(Check(file, partial(verify_one, file), group=group))
    return checks


def _answer_checks(folder: str, files: Sequence[str], tolerances: NamedValues) -> list[Check]:
    """Return the checks of files that answer a golden suite, which has tolerances of its own."""
    from pecli.golden import answer_checks

    return answer_checks(folder, files, Tolerance(**tolerances) if tolerances else None)


def _manifest_checks(file: str, tolerances: NamedValues, *, reasons: bool) -> list[Check]:
    from pecli.checks.manifest import read_manifest

    return read_manifest(file, tolerances, reasons=reasons)


def _suite_checks(folder: str) -> list[Check]:
    from pecli.golden import suite_checks

    return suite_checks(folder)


def _is_golden_suite(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "index.json"))


def _expected_spec(target_options: Mapping[str, str]) -> str | ModelEncodings | Array | None:
    """Return what files are compared with: a learned table, or a model's name or encodings.

    It is None in two cases: `--resized-from` names the table, or nothing is named. In the latter
    case, every file is compared with the parameters in its own metadata, its spec.

    Args:
        target_options: The options that were given, by name.

    Raises:
        ParameterError: The model or its type of layers does not exist, or options contradict each
            other. No file has been read then.
    """
    if "table" in target_options:
        return _read_learned_table(target_options)
    _check_options_of_resizing(target_options)
    if "resized_from" in target_options:
        return None
    model = options.model_name(target_options)
    if model is None:
        _refuse_options_of_models(target_options)
        return None
    return _expected_model(model, target_options)


def _check_options_of_resizing(target_options: Mapping[str, str]) -> None:
    """Raise ParameterError for a model beside `--resized-from`, or for an interpolation without it."""
    if "resized_from" in target_options:
        rule = "--resized-from is what the table is compared with"
        options.refuse(target_options, (*_MODELS, "flags"), rule, "leave out one of them")
        return
    rule = "it is about a table that was resized"
    options.refuse(target_options, _INTERPOLATION, rule, "add --resized-from FILE")


def _refuse_options_of_models(target_options: Mapping[str, str]) -> None:
    """Raise ParameterError for any option: files with specs of their own need none of a model."""
    options.refuse(
        target_options,
        names=target_options,
        rule="it belongs to a model",
        advice="add --config or --model, or make the table: pecli rope … --verify FILE",
        show=repr,
    )


def _expected_model(model: str, target_options: Mapping[str, str]) -> str | ModelEncodings:
    """Return a model's name, or its encodings if server flags change them.

    By its name it is found again for each file. It is also found here, so that an error about the
    model or the type of its layers comes before any file is read.
    """
    flags = target_options.get("flags")
    encodings = find_model(target_options.get("config"), target_options.get("model"), flags)
    if "layer_type" in target_options:
        encodings.one(target_options["layer_type"])
    return model if flags is None else encodings


def _read_learned_table(target_options: Mapping[str, str]) -> Array:
    """Read the learned table whose rows were added to the tensors of `--before`."""
    options.refuse(target_options, _MODELS, "--table is what was added", "leave out one of them")
    if "before" not in target_options:
        rule = "it was added to what is given as --before"
        raise ParameterError("table", target_options["table"], rule, "add --before FILE")
    return _numbers("table", target_options["table"])


def _arguments_of_verify(target_options: Mapping[str, str]) -> MutableValues:
    """Return the options that place tensors (positions, masks, layers) as arguments of `verify`.

    Options are texts. `--positions 0,1,5` is parsed by the rule of its parameter, `--positions
    ids.npy` is read as an array if queries and keys are checked (`--before`).

    Args:
        target_options: The options of the command line that were given, by name.
    """
    array_options = {"attention_mask"}
    if "before" in target_options:
        array_options.add("positions")  # which can differ between the rows of a batch of queries
    texts = options.without(target_options, ("config", "model", "table", "flags"))
    arguments: MutableValues = {}
    for name, text in texts.items():
        arguments[name] = _numbers(name, text) if name in array_options else _parsed(name, text)
    return arguments


def _parsed(name: str, text: str) -> object:
    """Return the value of an option; a text without a rule here is parsed by `pecli.verify`."""
    if name == "shift":
        from pecli.tensors.row_positions import SHIFT

        return SHIFT.parse(name, text)
    if name in VECTOR_PARAMETERS:
        return options.parse(name, VECTOR_PARAMETERS[name], text)
    return text


def _numbers(name: str, text: str) -> Array:
    """Return an array from numbers on the command line, or from a file."""
    numbers: Array = np.asarray(options.value_or_array(name, GivenPositions(help=""), text))
    return numbers
