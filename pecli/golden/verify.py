"""A golden suite checked against its schemes, and a port's answers against the suite."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pecli.checks.diff import diff
from pecli.checks.run import Check
from pecli.checks.tolerance import Tolerance
from pecli.checks.verify import Verification, verify
from pecli.engine.arrays import AnyArray as Array
from pecli.engine.arrays import dtype_name
from pecli.engine.schemes import scheme_named
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import FileError, failure, nearest, quoted
from pecli.files.load import load
from pecli.golden import INDEX, TOLERANCES, sha256_of
from pecli.tensors.apply import apply

MISTAKE_TOLERANCE = 1e-5  #: at which a known mistake has to be seen: its tensors are kept in float32

Entry = Mapping[str, Any]


def suite_checks(folder: str) -> list[Check]:
    """A check for every case of a suite: its files are those of the index, and its numbers those of its scheme."""
    return [
        Check(entry["name"], partial(_verify_case, folder, entry), group=folder) for entry in _entries(folder).values()
    ]


def answer_checks(folder: str, answers: str, tolerance: Tolerance | None) -> list[Check]:
    """A check for every case that a port has answered, by the names CASE.TENSOR, CASE/TENSOR or CASE."""
    entries = _entries(folder)
    by_case: dict[str, dict[str, Array]] = {}
    for name, array in load(answers).items():
        case, tensor = _split(name, entries, answers)
        by_case.setdefault(case, {})[tensor] = array
    return [
        Check(case, partial(_verify_answer, folder, entries[case], arrays, tolerance), group=answers)
        for case, arrays in by_case.items()
    ]


def _entries(folder: str) -> dict[str, Entry]:
    path = os.path.join(folder, INDEX)
    try:
        with open(path, encoding="utf-8") as file:
            return {entry["name"]: entry for entry in json.load(file)["cases"]}
    except OSError as problem:
        raise failure(path, problem) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FileError(path, "is not the index of a golden suite", "pecli golden -o FOLDER writes one") from None


def _split(name: str, entries: Mapping[str, Entry], path: str) -> tuple[str, str]:
    if name in entries:
        shapes = entries[name]["tensors"]
        return name, "after" if "after" in shapes else max(shapes, key=lambda tensor: math.prod(shapes[tensor]))
    for mark in ("/", ".", ":"):
        case, _, tensor = name.rpartition(mark)
        if case in entries:
            return case, tensor
    raise FileError(path, f"has {quoted(name)}, which is no case of the suite", nearest(name, entries))


def _tensors(folder: str, entry: Entry) -> dict[str, Array]:
    """The tensors of a case, as its JSON spells them."""
    path = next((file for file in entry["files"] if file.endswith(".json")), "")
    if not path:
        return load(os.path.join(folder, next(iter(entry["files"]))))
    with open(os.path.join(folder, path), encoding="utf-8") as file:
        spelled = json.load(file)["tensors"]
    arrays = {}
    for name, texts in spelled.items():
        values = texts.get("int", texts.get("decimal", texts.get("float32")))
        kind = np.int32 if "int" in texts else np.float64 if "decimal" in texts else np.float32
        arrays[name] = np.array(values, kind).reshape(texts["shape"])
    return arrays


def _verify_case(folder: str, entry: Entry) -> Verification:
    changed = [
        f"{file}: its sha256 is not that of the index"
        for file, digest in entry["files"].items()
        if not os.path.isfile(os.path.join(folder, file)) or sha256_of(os.path.join(folder, file)) != digest
    ]
    scheme = _from_entry(entry)
    if changed:
        return Verification(entry["name"], scheme.name, (), tuple(changed))
    tensors = _tensors(folder, entry)
    if "edits" in entry:
        return _verify_mistake(entry, scheme, tensors)
    if "settings" in entry:
        return _verify_answer(folder, entry, {"after": _rotated(entry, scheme, tensors)}, None)
    tensors.pop("attention_factor", None)
    return replace(verify(_alone(tensors), scheme, max_ulp=0), file=entry["name"], weak=())


def _alone(tensors: Mapping[str, Array]) -> Any:
    """Tensors by name; one as it is, which is then checked alone."""
    return dict(tensors) if len(tensors) > 1 else next(iter(tensors.values()))


def _verify_mistake(entry: Entry, scheme: Scheme, tensors: Mapping[str, Array]) -> Verification:
    """A known mistake that has to be rejected for its reason."""
    found = verify(tensors, scheme, atol=MISTAKE_TOLERANCE)
    named = {_edit_key(edit.as_json()) for why in found.explanations for edit in why.edits}
    missing = [edit for edit in entry["edits"] if _edit_key(edit) not in named]
    problems = []
    if found.passed:
        problems.append("a known mistake passes")
    elif missing and named:
        problems.append(f"its reason is not {_edit_key(missing[0])}: {'; '.join(found.diagnosis)}")
    elif missing:
        problems.append("no reason is found for a known mistake")
    return Verification(entry["name"], scheme.name, (), tuple(problems))


def _edit_key(edit: Mapping[str, Any]) -> str:
    return str(edit["name"] if edit["edit"] == "parameter" else edit["edit"])


def _rotated(entry: Entry, scheme: Scheme, tensors: Mapping[str, Array]) -> Array:
    settings: dict[str, Any] = {
        key: np.array(value) if key == "positions" else value for key, value in entry["settings"].items()
    }
    return apply(tensors["before"], scheme, **settings)


def _verify_answer(folder: str, entry: Entry, arrays: Mapping[str, Array], tolerance: Tolerance | None) -> Verification:
    """A port's tensors of one case, within the tolerance of their dtype unless another is asked for."""
    scheme = _from_entry(entry)
    kinds = ["float32" if "settings" in entry else dtype_name(array.dtype) for array in arrays.values()]
    allowed = tolerance or Tolerance(atol=max(entry["tolerances"].get(kind, TOLERANCES["float32"]) for kind in kinds))
    if "settings" not in entry and "attention_factor" not in arrays:
        return replace(verify(_alone(arrays), scheme, allowed), file=entry["name"])
    golden = {name: array for name, array in _tensors(folder, entry).items() if name in arrays}
    found = diff(golden, dict(arrays), allowed)
    return Verification(entry["name"], scheme.name, found.tensors, found.diagnosis, weak=found.weak)


def _from_entry(entry: Entry) -> Scheme:
    """The scheme of an entry, whose parameters are those that are not None."""
    kind: type[Scheme] = scheme_named(entry["scheme"])
    return kind(**entry["parameters"])
