"""`pecli.toml`: a list of files, and what each of them should be (`pecli verify --help`)."""

import os
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from types import NoneType

from pecli.checks.file_patterns import find_files
from pecli.checks.manifest_keys import (
    COMMON,
    TOLERANCES,
    Keys,
    located,
    require_kind,
    require_known,
    text_of,
)
from pecli.checks.manifest_targets import Models, Target, read_target
from pecli.checks.manifest_toml import read_toml
from pecli.checks.run import Check
from pecli.checks.verification import Verification
from pecli.compare.tolerance import Tolerance
from pecli.engine.named_values import NamedValues
from pecli.errors import FileError, ParameterError, quoted
from pecli.files.raw_layout import RawLayout, parse_layout, raw_files


def read_manifest(
    path: str, tolerances: NamedValues | None = None, *, reasons: bool = True
) -> list[Check]:
    """Return the checks that a manifest lists: files, and what each of them should be.

    Nothing is compared yet, but every mistake in the manifest is reported. The error states where it
    is: «pecli.toml: check 3: atol: …».

    Args:
        path: The .toml file. Paths in it start from its folder.
        tolerances: Tolerances that replace the manifest's defaults, but not those of a check.
        reasons: False if checks that fail need no reason.

    Raises:
        FileError: The manifest cannot be read, or names a pipe or a device.
        ParameterError: It is not a manifest, or a parameter in it breaks its rule.
    """
    data = read_toml(path)
    models = Models(os.path.dirname(path))
    checks: list[Check] = []
    with located(path):
        require_known(data, ("check", "defaults"))
        rule = "it must be a table of max_ulp, atol and rtol"
        defaults: Keys = require_kind("defaults", data.get("defaults", {}), dict, rule)
        rule = "it must be one or more tables: [[check]]"
        entries = require_kind("check", data.get("check", []), list, rule)
        common = _read_common_tolerances(defaults, tolerances or {})
        for number, entry in enumerate(entries, 1):
            keys: Keys = require_kind("check", entry, dict, "it must be a table: [[check]]")
            with located(_name_entry(number, keys)):
                checks += _read_checks_of_entry(path, {**common, **keys}, models, reasons=reasons)
    if not checks:
        advice = "write [[check]] and file = … below it"
        raise ParameterError(path, "empty", "a manifest has checks", advice)
    return checks


def _name_entry(number: int, keys: Keys) -> str:
    """Return what errors call a [[check]] table: «check 'cosines'», or «check 3» without a name."""
    by_number = f"check {number}"
    with located(by_number):
        name = text_of(keys, "name")
    return f"check {quoted(name)}" if name else by_number


def _read_common_tolerances(defaults: Keys, tolerances: Keys) -> Keys:
    """Return the tolerances of checks that have none of their own; the command line comes first."""
    with located("defaults"):
        require_known(defaults, TOLERANCES)
        common = {**defaults, **tolerances}
        Tolerance(**common)  # Raises ParameterError for a wrong number.
    return common


def _read_checks_of_entry(
    path: str, keys: Keys, models: Models, *, reasons: bool
) -> Iterator[Check]:
    """Yield the checks of one [[check]] table of a manifest, one per file.

    The key `file` names one file, or several by a pattern: `dumps/*.npz`. All keys are read now, and
    the files are compared later, when the checks run.

    Args:
        path: The manifest.
        keys: The keys of the table, with the default tolerances.
        models: The models that the manifest names.
        reasons: False if checks that fail need no reason.
    """
    pattern = _read_file_pattern(keys)
    tolerance = _read_tolerance(keys)
    _refuse_pipes(keys, models.folder)  # Opening one would wait for ever.
    raw_layout = _read_raw_layout(keys)
    target = _read_target_of_entry(keys, models, raw_layout)
    name = text_of(keys, "name")
    files = find_files(models.folder, pattern)
    is_single_file = files == [pattern]  # It is a name without wildcards.
    # Files of a pattern make a group: those without tables are skipped. A single file must have some.
    group = "" if is_single_file else f"{path}: {pattern}"
    for file in files:
        label = _choose_label(name, file, is_single_file=is_single_file)
        full_path = os.path.join(models.folder, file)
        verify_later = partial(_run, target, raw_layout, full_path, tolerance, reasons=reasons)
        yield Check(file=full_path, run=verify_later, name=label, manifest=path, group=group)


def _read_tolerance(keys: Keys) -> Tolerance:
    """Return the errors that a check lets pass, from its keys `max_ulp`, `atol` and `rtol`."""
    return Tolerance(**{key: keys[key] for key in TOLERANCES if key in keys})


def _read_target_of_entry(keys: Keys, models: Models, raw_layout: RawLayout) -> Target:
    """Return what the files of a [[check]] are compared with: a scheme, a model or a table.

    Args:
        keys: The keys of the check.
        models: The models that the manifest names.
        raw_layout: The dtype and shape of files without a header, which a table may be in.
    """
    # Keys that every check may have, such as `file` and `atol`, are not about the target.
    target_keys = {key: keys[key] for key in keys if key not in COMMON}
    with raw_files(raw_layout):
        return read_target(target_keys, models)


def _choose_label(name: str, file: str, *, is_single_file: bool) -> str:
    """Return what reports call a check: its name, and the file unless the name stands for one file."""
    if not name:
        return file
    return name if is_single_file else f"{name}: {file}"


def _read_raw_layout(keys: Keys) -> RawLayout:
    """Return the layout of raw files that a check states: `shape = [2, 8, 64]`, or a text."""
    shape = keys.get("shape")
    if not isinstance(shape, (str, list, NoneType)):
        raise ParameterError("shape", quoted(shape), "it must be a list of lengths")
    return parse_layout(shape, text_of(keys, "raw_dtype") or None)


def _run(
    target: Target, layout: RawLayout, file: str, tolerance: Tolerance, *, reasons: bool
) -> Verification:
    """Compare a file with its target, reading raw files as the check states."""
    with raw_files(layout):
        return target.verify(file, tolerance, reasons=reasons)


def _read_file_pattern(keys: Keys) -> str:
    """Return the file of a check, which may be a pattern: `dumps/*.npy`."""
    pattern = text_of(keys, "file")
    if pattern in ("", "-"):
        rule = "a check names the file that it is about, not standard input"
        raise ParameterError("file", pattern or "missing", rule)
    return pattern


def _refuse_pipes(keys: Keys, folder: str) -> None:
    """Raise FileError if a value of a check is the path of a pipe or a device."""
    for value in keys.values():
        if isinstance(value, str):
            _refuse_pipe(os.path.join(folder, value))


def _refuse_pipe(path: str) -> None:
    """Raise FileError if a path, or the file of FILE:NAME, is a pipe or a device.

    Opening a pipe would wait for ever. Of «a:b:c» the paths «a», «a:b» and «a:b:c» are examined.
    """
    # Names of files and tensors can hold colons: "a:b:c" may be the file "a" or "a:b".
    for file in accumulate(path.split(":"), lambda beginning, part: f"{beginning}:{part}"):
        is_file_or_folder = os.path.isfile(file) or os.path.isdir(file)
        if os.path.exists(file) and not is_file_or_folder:
            advice = "a manifest names files and folders"
            raise FileError(path, "is a pipe or a device", advice)
