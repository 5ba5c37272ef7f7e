"""`pecli.toml`: a list of files, and what each of them should be.

[defaults]                # optional: max_ulp, atol, rtol
atol = 1e-6

[[check]]
name = "llama cos"        # optional
file = "dumps/cos.npy"    # from the manifest's folder; FILE:NAME, a folder, and patterns such as dumps/*.npz
model = "llama-3.1-8b"    # or config = "config.json", with layer_type, offset, length, recipe, runtime
                          # before = "q.npy" if the file holds rotated queries or keys, with seq_axis
                          # or scheme = "rope" with its parameters as keys
                          # or nothing: the spec that the file carries
"""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import partial
from threading import Event
from typing import Any

from pecli.checks.tolerance import Tolerance
from pecli.checks.verify import verify
from pecli.checks.verify.against_model import verify_model
from pecli.checks.verify.rotated import verify_rotated
from pecli.checks.verify.verification import Verification, until
from pecli.engine.schemes import SCHEMES, scheme_named
from pecli.engine.schemes.parameters import Parameter, Whole
from pecli.engine.schemes.positions import LAST_POSITION
from pecli.engine.schemes.recipes import RECIPE, RUNTIME
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.text import nearest, quoted
from pecli.errors import FileError, NoTablesError, ParameterError, PecliError, translated
from pecli.models import presets
from pecli.models.encoding import ModelEncodings
from pecli.models.find import Model, find_model

TOLERANCES = ("max_ulp", "atol", "rtol")
_COMMON = ("name", "file", *TOLERANCES)
_TARGETS = ("model", "config", "scheme")
PLACES: Mapping[str, Parameter] = {
    "offset": Whole(help="position of the first row", low=0, high=LAST_POSITION),
    "length": Whole(help="the length that dynamic scalings are read at", high=LAST_POSITION),
    "recipe": RECIPE,
    "runtime": RUNTIME,
    "seq_axis": Whole(help="the axis of positions of queries or keys", low=-64, high=64),
    **{name: Rope.parameters()[name] for name in ("positions", "grid", "keep", "grid_base", "grid_scale")},
}
"""Where the tables of a model are read, and how they were computed."""
MAX_DEPTH = 100
MAX_MATCHES = 10_000
MAX_BYTES = 512 << 10
"""Of a manifest: room for thousands of checks. The standard library's parser takes up to 240 times as much memory."""
_DOTTED = re.compile(r"""^[ \t]*+\[{0,2}+[ \t]*+(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){2}""", re.M)
"""A key of three parts or more at the beginning of a line: of tables, each part takes half a kilobyte."""
_DEEP = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){32}""")
"""A key of so many parts: the standard library's parser takes time and memory that grow with the square of them."""


def is_manifest(path: str) -> bool:
    """Whether a file is a manifest, going by its name."""
    return path.lower().endswith(".toml")


def read_manifest(path: str, tolerances: Mapping[str, Any] | None = None) -> list[Check]:
    """The checks of a manifest. Tolerances given here win over its defaults, those of a check win over both."""
    data = _toml(path)
    _only_known(f"{path}: ", data, ("check", "defaults"))
    defaults = data.get("defaults", {})
    _must_be(f"{path}: ", "defaults", defaults, dict, "a table of max_ulp, atol and rtol")
    _only_known(f"{path}: defaults: ", defaults, TOLERANCES)
    common = {**defaults, **(tolerances or {})}
    _tolerance(f"{path}: defaults: ", common)
    checks = data.get("check", [])
    _must_be(f"{path}: ", "check", checks, list, "one or more tables: [[check]]")
    if not checks:
        raise ParameterError(path, "empty", "a manifest has checks", "write [[check]] and file = … below it")
    models = _Models(os.path.dirname(path))
    return [each for number, given in enumerate(checks, 1) for each in _checks(path, number, given, common, models)]


def _toml(path: str) -> dict[str, Any]:
    import tomllib

    from pecli.errors import failure

    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as problem:
        raise failure(path, problem) from None
    if len(text) > MAX_BYTES:
        rule = "a manifest has thousands of checks at most"
        raise ParameterError(path, f"larger than {MAX_BYTES >> 10} KB", rule, "split it: verify takes several")
    try:
        decoded = text.decode()
        if _DEEP.search(decoded):
            raise ParameterError(path, "nested more than 32 levels deep", "a manifest has [defaults] and [[check]]")
        if found := _DOTTED.search(decoded):
            line = decoded.count("\n", 0, found.start()) + 1
            raise ParameterError(path, f"nested too deep in line {line}", "a manifest has [defaults] and [[check]]")
        return tomllib.loads(decoded)
    except UnicodeDecodeError:
        raise ParameterError(path, "not UTF-8", "a manifest is TOML, in UTF-8") from None
    except ParameterError:
        raise
    except (ValueError, RecursionError) as problem:
        raise ParameterError(path, "not TOML", " ".join(str(problem).split())) from None


def _only_known(where: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            advice = nearest(key, known) or f"known: {', '.join(known)}"
            raise ParameterError(f"{where}{_shown(key)}", "unknown", "there is no such key here", advice)


def _shown(key: str) -> str:
    return key if key.isidentifier() and len(key) < 60 else repr(key[:60])


def _must_be(where: str, key: str, value: Any, kind: type, rule: str) -> None:
    if not isinstance(value, kind):
        raise ParameterError(f"{where}{key}", quoted(value), f"it must be {rule}")


def _text(where: str, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ParameterError(f"{where}{key}", quoted(value), "it must be a text that is not empty")
    return value


def _tolerance(where: str, given: Mapping[str, Any]) -> Tolerance:
    try:
        return Tolerance(**{name: given[name] for name in TOLERANCES if name in given})
    except ParameterError as problem:
        raise _placed(where, problem) from None


def _placed(where: str, problem: ParameterError) -> ParameterError:
    """The problem, as one of a check."""
    return ParameterError(f"{where}{problem.name}", problem.given, problem.rule, problem.advice)


class _Models:
    """The models that checks name, each read once, or the problem with it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._read: dict[tuple[str, str], ModelEncodings | PecliError] = {}

    def of(self, kind: str, name: str) -> ModelEncodings | PecliError:
        if (kind, name) not in self._read:
            try:
                self._read[kind, name] = find_model(**{kind: self.path(kind, name)})
            except PecliError as problem:
                self._read[kind, name] = problem
        return self._read[kind, name]

    def path(self, kind: str, name: str) -> str:
        """The name, or what it is from the manifest's folder."""
        path = os.path.join(self.folder, name)
        return path if os.path.exists(path) or (kind == "config" and presets.find(name) is None) else name


def _checks(path: str, number: int, given: Any, common: Mapping[str, Any], models: _Models) -> list[Check]:
    """One check for each file that a table of the manifest names."""
    where = f"{path}: check {number}: "
    _must_be(f"{path}: ", "check", given, dict, "a table: [[check]]")
    if "name" in given:
        where = f"{path}: check {quoted(_text(where, 'name', given['name']))}: "
    if "file" not in given:
        raise ParameterError(f"{where}file", "missing", "a check names the file that it is about")
    name = _text(where, "file", given["file"])
    if name == "-":
        raise ParameterError(f"{where}file", "-", "a manifest names files, not standard input")
    targets = [key for key in _TARGETS if key in given]
    if len(targets) > 1:
        rule = f"a check has one of {', '.join(_TARGETS)}, or none of them"
        raise ParameterError(f"{where}{targets[1]}", f"beside {targets[0]}", rule)
    tolerance = _tolerance(where, {**common, **{key: given[key] for key in TOLERANCES if key in given}})
    rest = {key: value for key, value in given.items() if key not in _COMMON}
    files = _matching(where, models.folder, name)
    try:
        paths = [os.path.join(models.folder, file) for file in files]
        runs = [_target(where, file, dict(rest), tolerance, models) for file in paths]
    except ParameterError as problem:
        raise (problem if problem.name.startswith(path) else _placed(where, problem)) from None
    if files == [name]:
        return [Check(paths[0], runs[0], given.get("name", name), path)]
    prefix, group = f"{given['name']}: " if "name" in given else "", f"{path}: {name}"
    rows = zip(paths, runs, files, strict=True)
    return [Check(file, run, prefix + label, path, group) for file, run, label in rows]


def _matching(where: str, folder: str, name: str) -> list[str]:
    """The files that a pattern such as `dumps/**/*.npz` or `*.npz:cos` stands for; anything else is a name."""
    if not glob.has_magic(name) or os.path.lexists(os.path.join(folder, name)):
        return [name]
    pattern, colon, tensor = name.partition(":")
    if pattern.count("/") > MAX_DEPTH:
        raise ParameterError(f"{where}file", quoted(name), f"a pattern has at most {MAX_DEPTH} folders")
    found = sorted(glob.glob(pattern, root_dir=folder or None, recursive=True))
    files = [each for each in found if pattern.endswith("/") or not os.path.isdir(os.path.join(folder, each))]
    if len(files) > MAX_MATCHES:
        raise ParameterError(f"{where}file", quoted(name), f"more than {MAX_MATCHES:,} files match it")
    return [f"{each}{colon}{tensor}" for each in files] or [name]


def _target(where: str, file: str, given: dict[str, Any], tolerance: Tolerance, models: _Models) -> Any:
    """What runs the check."""
    if "scheme" in given:
        name = _text(where, "scheme", given.pop("scheme"))
        scheme = _scheme(where, name, given)
        return partial(verify, file, scheme, tolerance, any_dtype="dtype" not in given)
    kind = next((key for key in ("model", "config") if key in given), None)
    if kind is None:
        if (key := next(iter(given), None)) is not None and key in (
            "layer_type",
            "before",
            *PLACES,
            *_every_parameter(),
        ):
            raise ParameterError(f"{where}{key}", "given", "it belongs to a model, a config or a scheme", "name one")
        _only_known(where, given, (*_COMMON, *_TARGETS))
        return partial(verify, file, None, tolerance)
    name = _text(where, kind, given.pop(kind))
    _only_known(where, given, (*_COMMON, *_TARGETS, "layer_type", "before", *PLACES))
    places = {key: rule.check(key, given[key]) for key, rule in PLACES.items() if key in given}
    layer_type = _text(where, "layer_type", given["layer_type"]) if "layer_type" in given else None
    model = models.of(kind, name)
    if isinstance(model, PecliError):
        if kind == "model":
            raise model
        return partial(_fail, model)
    if layer_type is not None:
        model.one(layer_type)
    before = os.path.join(models.folder, _text(where, "before", given["before"])) if "before" in given else None
    run = model_check(model, models.path(kind, name), before, layer_type=layer_type, **places)
    return partial(run, file, tolerance=tolerance)


def model_check(found: ModelEncodings, model: Model, before: str | None, **places: Any) -> Any:
    """What compares a file with a model, which was found already: its tables, or what was `before` the rotation."""
    if before is None and "seq_axis" in places:
        raise ParameterError("seq_axis", places["seq_axis"], "it is the axis of queries or keys", "give `before`, too")
    if before is None:
        return partial(verify_model, model=found, **places)
    for name in ("positions", "grid", "keep", "grid_base", "grid_scale"):
        if name in places:
            rule = "with `before`, one position follows the other"
            raise ParameterError(name, quoted(places[name]), rule, "leave it out")
    return partial(verify_rotated, before=before, model=model, **places)


def _fail(problem: PecliError) -> Verification:
    raise problem


def _every_parameter() -> set[str]:
    return {key for name in SCHEMES for key in scheme_named(name).settings()}


def _scheme(where: str, name: str, given: Mapping[str, Any]) -> Scheme:
    """The scheme that the keys of a check describe."""
    if name not in SCHEMES:
        rule = f"it must be one of {', '.join(SCHEMES)}"
        raise ParameterError(f"{where}scheme", quoted(name), rule, nearest(name, SCHEMES))
    kind: type[Scheme] = scheme_named(name)
    known = kind.settings()
    given = _by_own_names(where, given, known)
    _only_known(where, given, (*_COMMON, "scheme", *known))
    for key, parameter in known.items():
        if key not in given and kind.default_of(key) is MISSING:
            raise ParameterError(key, "missing", parameter.rule)
    return kind(**given)


def _by_own_names(where: str, given: Mapping[str, Any], known: Mapping[str, Parameter]) -> dict[str, Any]:
    """The keys with options' other names, such as theta, turned into those of the parameters."""
    aliases = {alias.lstrip("-").replace("-", "_"): name for name in known for alias in known[name].aliases}
    for key, name in aliases.items():
        if key in given and name in given:
            raise ParameterError(f"{where}{key}", f"beside {name}", "they are one and the same")
    return {aliases.get(key, key): value for key, value in given.items()}


@dataclass(frozen=True)
class Check:
    """A file, what checks it, and the name and manifest that the check has, if any."""

    file: str
    run: Callable[[], Verification]
    name: str = ""
    manifest: str = ""
    group: str = ""
    """What names the files that this one was given with, where they are several."""

    @property
    def label(self) -> str:
        return self.name or self.file


@dataclass(frozen=True)
class Outcome:
    """What became of a check: a result, or the problem that there is none."""

    check: Check
    result: Verification | PecliError
    seconds: float
    strict: bool = False
    """Whether a check that known mistakes would have passed, too, counts as failed."""

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    @property
    def status(self) -> str:
        """`passed`, `failed`, `weak` (which only a strict check is), `skipped` or `error`."""
        if not isinstance(self.result, Verification):
            return "skipped" if self.skipped else "error"
        if not self.result.passed:
            return "failed"
        return "weak" if self.strict and self.result.weak else "passed"

    @property
    def skipped(self) -> bool:
        """Whether it is one of several files, and has no positional tables."""
        return isinstance(self.result, NoTablesError) and bool(self.check.group)

    def as_json(self) -> dict[str, Any]:
        name = {"name": self.check.label} if self.check.manifest else {}
        if isinstance(self.result, Verification):
            return {**name, **self.result.as_json(), "status": self.status}
        problem: dict[str, Any] = {
            "scheme": None,
            "passed": False,
            "tensors": [],
            "diagnosis": [str(self.result)],
            "readings": {},
            "explanations": [],
            "weak": [],
            "unchecked": [],
            "status": self.status,
        }
        return {**name, "file": self.check.file, **problem}


def without_tables(outcomes: Sequence[Outcome]) -> list[FileError]:
    """A problem for each group of files none of which has positional tables: something was to be checked."""
    groups = dict.fromkeys(outcome.check.group for outcome in outcomes if outcome.skipped)
    own = {group: [outcome for outcome in outcomes if outcome.check.group == group] for group in groups}
    return [
        FileError(
            group, f"none of {len(found)} files has positional tables", "modern checkpoints compute them: use a dump"
        )
        for group, found in own.items()
        if all(outcome.skipped for outcome in found)
    ]


def run_all(checks: Sequence[Check], *, strict: bool = False) -> Iterator[Outcome]:
    """The outcomes in the order of the checks, as soon as they are there."""
    from pecli.engine.numerics.threads import share_of_threads, thread_count

    threads = thread_count()
    workers = min(threads, len(checks))
    if workers < 2:
        yield from (_run(check, strict) for check in checks)
        return
    from concurrent.futures import ThreadPoolExecutor

    stop = Event()

    def run(check: Check) -> Outcome:
        with share_of_threads(max(1, threads // workers)), until(stop):
            return _run(check, strict)

    with ThreadPoolExecutor(workers) as pool:
        try:
            for running in [pool.submit(run, check) for check in checks]:
                yield running.result()
        finally:  # an interrupt waits for no check
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


def _run(check: Check, strict: bool) -> Outcome:
    start = time.perf_counter()
    result: Verification | PecliError
    try:
        result = check.run()
    except Exception as problem:  # whatever becomes of one check, the others go on
        result = translated(problem)
    return Outcome(check, result, time.perf_counter() - start, strict)
