"""`pecli.toml`: a list of files, and what each of them should be (`pecli verify --help` has its keys)."""

import glob
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING
from functools import cache, partial
from typing import Any

from pecli.checks.run import Check
from pecli.checks.verification import Verification
from pecli.checks.verify import verify
from pecli.checks.verify.targets import PLACES
from pecli.compare.tolerance import Tolerance
from pecli.engine.schemes import SCHEMES, Choice, scheme_named
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import FileError, ParameterError, PecliError, nearest, quoted
from pecli.files.contents import read_contents
from pecli.models import presets
from pecli.models.encoding import ModelEncodings
from pecli.models.find import find_model
from pecli.tensors.apply import SHIFT
from pecli.tensors.inputs import read_numbers

TOLERANCES = ("max_ulp", "atol", "rtol")
_COMMON = ("name", "file", *TOLERANCES)
_TARGETS = ("model", "config", "scheme", "table")
MAX_DEPTH = 100  #: folders in a pattern: beyond, Python's recursion ends, and so do paths
MAX_BYTES = 512 << 10
"""Of a manifest: enough for thousands of checks. The standard library's parser takes up to 240 times as much memory."""
_KEYS = r"""(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
_NESTED = re.compile(rf"^[ \t]*+\[{{0,2}}+[ \t]*+{_KEYS}{{2}}|(?<![\w-]){_KEYS}{{32}}", re.M)
"""A key of three parts or more at the beginning of a line, or of very many anywhere: the standard parser takes time and
memory that grow with the square of them."""


def read_manifest(
    path: str, tolerances: Mapping[str, Any] | None = None, *, reasons: bool = True
) -> list[Check]:
    """The checks of a manifest. Tolerances given here win over its defaults, those of a check win over both."""
    data = _toml(path)
    checks: list[Check] = []
    models = cache(partial(_model, os.path.dirname(path)))
    with _located(path):
        _only_known(data, ("check", "defaults"))
        defaults, tables = data.get("defaults", {}), data.get("check", [])
        if not isinstance(defaults, dict):
            raise ParameterError(
                "defaults", quoted(defaults), "it must be a table of max_ulp, atol and rtol"
            )
        if not isinstance(tables, list):
            raise ParameterError(
                "check", quoted(tables), "it must be one or more tables: [[check]]"
            )
        with _located("defaults"):
            _only_known(defaults, TOLERANCES)
            common = {**defaults, **(tolerances or {})}
            Tolerance(**common)
        for number, given in enumerate(tables, 1):
            if not isinstance(given, dict):
                raise ParameterError("check", quoted(given), "it must be a table: [[check]]")
            with _located(f"check {number}"):
                name = _text(given, "name")
            with _located(f"check {quoted(name) if name else number}"):
                checks += _checks(path, name, {**common, **given}, models, reasons)
    if not checks:
        raise ParameterError(
            path, "empty", "a manifest has checks", "write [[check]] and file = … below it"
        )
    return checks


def _toml(path: str) -> dict[str, Any]:
    data = read_contents(path).data
    if len(data) > MAX_BYTES:
        rule = "a manifest has thousands of checks at most"
        raise ParameterError(
            path, f"larger than {MAX_BYTES >> 10} KB", rule, "split it: verify takes several"
        )
    try:
        text = bytes(data).decode()
        nested = _NESTED.search(text)
        if nested is None:
            return tomllib.loads(text)
    except UnicodeDecodeError:
        raise FileError(path, "is not UTF-8", "a manifest is TOML, in UTF-8") from None
    except (ValueError, RecursionError) as problem:
        raise FileError(path, f"is not TOML: {' '.join(str(problem).split())}") from None
    line = text.count("\n", 0, nested.start()) + 1
    raise ParameterError(
        path, f"nested too deep in line {line}", "a manifest has [defaults] and [[check]]"
    )


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Problems with parameters inside the block say where in the manifest they are."""
    try:
        yield
    except ParameterError as problem:
        raise ParameterError(
            f"{where}: {problem.name}", problem.given, problem.rule, problem.advice
        ) from None


def _only_known(given: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            shown = key if key.isidentifier() and len(key) < 60 else repr(key[:60])
            rule = nearest(key, (*known, *_TARGETS)) or f"known: {', '.join(known)}"
            raise ParameterError(shown, "unknown here", rule)


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key, "")
    if not isinstance(value, str) or (key in given and not value):
        raise ParameterError(key, quoted(value), "it must be a text that is not empty")
    return value


def _model(folder: str, kind: str, name: str) -> tuple[str, ModelEncodings | PecliError]:
    """What a check names as its model or config: its path, from the manifest's folder, and the model or the problem."""
    path = os.path.join(folder, name)
    path = (
        path if os.path.exists(path) or (kind == "config" and presets.find(name) is None) else name
    )
    try:
        return path, find_model(**{kind: path})
    except PecliError as problem:
        return path, problem


def _checks(
    path: str, name: str, given: Mapping[str, Any], models: Callable[[str, str], Any], reasons: bool
) -> Iterator[Check]:
    folder, pattern = os.path.dirname(path), _text(given, "file")
    if pattern in ("", "-"):
        rule = "a check names the file that it is about, not standard input"
        raise ParameterError("file", pattern or "missing", rule)
    tolerance = Tolerance(**{key: given[key] for key in TOLERANCES if key in given})
    for value in (
        os.path.join(folder, value) for value in given.values() if isinstance(value, str)
    ):
        for file in (
            value,
            *(value[:at] for at, letter in enumerate(value) if letter == ":"),
        ):  # FILE:NAME
            if os.path.exists(file) and not (os.path.isfile(file) or os.path.isdir(file)):
                raise FileError(
                    value, "is a pipe or a device", "a manifest names files and folders"
                )
    rest = {key: value for key, value in given.items() if key not in _COMMON}
    run = partial(_target(folder, rest, models), tolerance=tolerance, reasons=reasons)
    files = _matching(folder, pattern)
    group = "" if files == [pattern] else f"{path}: {pattern}"
    for each in files:
        label = ": ".join(filter(None, (name, each if group else ""))) or each
        file = os.path.join(folder, each)
        yield Check(file, partial(run, file), label, path, group)


def _matching(folder: str, name: str) -> list[str]:
    """The files that a pattern such as `dumps/**/*.npz` or `*.npz:cos` stands for; anything else is a name."""
    drive, rest = os.path.splitdrive(name)
    pattern, colon, tensor = rest.partition(":")
    pattern = drive + pattern
    is_name = not glob.has_magic(name) or os.path.lexists(os.path.join(folder, name))
    if is_name or pattern.count("/") > MAX_DEPTH:
        return [name]
    found = sorted(glob.glob(pattern, root_dir=folder or None, recursive=True))
    files = [
        each
        for each in found
        if pattern.endswith("/") or not os.path.isdir(os.path.join(folder, each))
    ]
    return [f"{each}{colon}{tensor}" for each in files] or [name]


def _target(folder: str, given: dict[str, Any], models: Callable[[str, str], Any]) -> Any:
    """What checks a file: against a scheme, a model, or the spec that it carries."""
    targets = [key for key in _TARGETS if key in given]
    if len(targets) > 1:
        rule = f"a check has one of {', '.join(_TARGETS)}, or none of them"
        raise ParameterError(targets[1], f"beside {targets[0]}", rule)
    if targets == ["scheme"]:
        return partial(verify, spec=_scheme(given), any_dtype="dtype" not in given)
    rules = {**PLACES, "shift": SHIFT}
    known, of_models = (*_COMMON, *_TARGETS), ("layer_type", "before", "attention_mask", *rules)
    if not targets:
        for key in given:
            if key in of_models or any(key in scheme_named(name).parameters() for name in SCHEMES):
                raise ParameterError(
                    key, "given", "it belongs to a model, a config or a scheme", "name one"
                )
        _only_known(given, known)
        return verify
    (kind,) = targets
    name = _text(given, kind)
    of_tables = ("before", "positions", "attention_mask", "offset")
    _only_known(given, (*known, *(of_tables if kind == "table" else of_models)))
    layer_type, before = _text(given, "layer_type") or None, _text(given, "before")
    names = ("table", "attention_mask", "positions") if before else ("table", "attention_mask")
    arrays = {key: given[key] for key in names if key in given}
    for key, value in arrays.items():
        if not isinstance(value, (list, str)):
            raise ParameterError(
                key, quoted(value), "it must be a list of numbers, or a file of them"
            )
        if isinstance(value, str):
            arrays[key] = os.path.join(folder, _text(given, key))
    places = {
        key: rule.check(key, given[key])
        for key, rule in rules.items()
        if key in given and key not in arrays
    }
    if before:
        places["before"] = os.path.join(folder, before)
    compare = partial(_with_arrays, arrays) if arrays else verify
    if kind == "table":
        if not before:
            raise ParameterError(
                kind, name, "it was added to what is given as before", "give that, too"
            )
        return partial(compare, **places)
    path, model = models(kind, name)
    if isinstance(model, PecliError):
        if kind == "model":
            raise model
        return partial(_fail, model)
    if layer_type is not None:
        model.one(layer_type)
    return partial(compare, spec=path if before else model, layer_type=layer_type, **places)


def _with_arrays(arrays: Mapping[str, Any], file: str, **options: Any) -> Verification:
    """Verify with arrays that are lists, or are read from files now; a table is what was added."""
    for name, each in arrays.items():
        options["spec" if name == "table" else name] = (
            read_numbers(name, each) if isinstance(each, str) else each
        )
    return verify(file, **options)


def _fail(problem: PecliError, file: str, **options: Any) -> Verification:
    raise problem


def _scheme(given: Mapping[str, Any]) -> Scheme:
    name = Choice(help="a scheme", options=(*SCHEMES,)).check("scheme", _text(given, "scheme"))
    kind: type[Scheme] = scheme_named(name)
    values = kind.by_own_names({key: value for key, value in given.items() if key != "scheme"})
    _only_known(values, (*_COMMON, "scheme", *kind.parameters()))
    for key, parameter in kind.parameters().items():
        if key not in values and kind.default_of(key) is MISSING:
            raise ParameterError(key, "missing", parameter.rule)
    return kind(**values)
