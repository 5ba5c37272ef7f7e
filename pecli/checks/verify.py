"""Holding a file against what it should be: a scheme, or the spec that the file carries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pecli.checks.compare import Comparison, as_json, compare
from pecli.checks.tolerance import EXACT, Tolerance
from pecli.engine.scheme import Scheme
from pecli.engine.table import Table, raw_bytes
from pecli.errors import FileError, KindError, ParameterError
from pecli.files import LoadedFile, open_tensors
from pecli.files.provenance import carried_spec

if TYPE_CHECKING:
    from pecli.engine.arrays import Array


@dataclass(frozen=True)
class Verification:
    """The answer, tensor by tensor, and in words what is wrong."""

    file: str
    scheme: str
    tensors: tuple[Comparison, ...]
    diagnosis: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.diagnosis and all(tensor.passed for tensor in self.tensors)

    def as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "scheme": self.scheme,
            "passed": self.passed,
            "tensors": [as_json(tensor) for tensor in self.tensors],
            "diagnosis": list(self.diagnosis),
        }


def verify(path: str | os.PathLike[str], scheme: Scheme | None = None, tolerance: Tolerance = EXACT) -> Verification:
    """Compare a file with a scheme's tables; without a scheme, with the spec it carries."""
    path = os.fspath(path)
    if not isinstance(tolerance, Tolerance):
        raise KindError("tolerance", repr(tolerance), "it must be a Tolerance", "such as Tolerance(atol=1e-6)")
    with open_tensors(path) as file:
        file.check()
        if scheme is None:
            return _verify_spec(path, file, tolerance)
        pairs = _match(scheme, file.tables)
        if len(file.tables) == 1 and (not pairs or _names_a_tensor(path, file)):
            alone = _compare_alone(scheme, file.tables[0], tolerance)
            return Verification(path, scheme.name, (alone,), _problems((alone,)))
        found = tuple(compare(expected, table, tolerance) for expected, table in pairs)
        problems = (*_missing(scheme, found, file.tables), *_problems(found))
    return Verification(path, scheme.name, found, problems)


def _names_a_tensor(path: str, file: LoadedFile) -> bool:
    """Whether one tensor of the file was asked for, by FILE:NAME."""
    return path not in (file.path, "-")


def _match(scheme: Scheme, tables: Sequence[Table]) -> list[tuple[Table, Table]]:
    """Which tensors of the file are which of the scheme, by name."""
    by_name = {table.name: table for table in tables}
    return [(expected, by_name[expected.name]) for expected in scheme.tensors() if expected.name in by_name]


def _compare_alone(scheme: Scheme, table: Table, tolerance: Tolerance) -> Comparison:
    """A single tensor: the one of its name, or else the one of its shape that it is closest to."""
    likely = [each for each in scheme.tensors() if each.name == table.name]
    if not likely:
        plain = scheme.plain()
        others = [each for each in scheme.tensors() if each.name != plain.name]
        likely = [each for each in (plain, *others) if each.shape == table.shape] or [plain]
    results = [compare(each, table, tolerance) for each in likely]
    return min(results, key=lambda result: (not result.passed, bool(result.problem), result.max_abs_error or 0.0))


def _missing(scheme: Scheme, found: Sequence[Comparison], tables: Sequence[Table]) -> list[str]:
    """Tensors that the file should hold; what follows from the others may be absent, unless it is all there is."""
    there = {result.name for result in found}
    missing = [
        table.name for table in scheme.tensors() if table.name not in there and table.name not in scheme.byproducts
    ]
    if not missing:
        return []
    names = ", ".join(table.name for table in tables[:8]) + (" …" if len(tables) > 8 else "")
    return [f"{name}: the tensor is missing; the file has {names}, and FILE:NAME checks one alone" for name in missing]


def _problems(found: Sequence[Comparison]) -> tuple[str, ...]:
    return tuple(f"{tensor.name}: {tensor.problem}" for tensor in found if tensor.problem)


def _verify_spec(path: str, file: LoadedFile, tolerance: Tolerance) -> Verification:
    spec = carried_spec(file.path, file.metadata)
    if spec is None:
        advice = "name the scheme: pecli sinusoidal … --verify FILE"
        raise FileError(path, "carries no pecli spec", advice)
    try:
        scheme: Scheme = Scheme.from_spec(spec)
    except ParameterError as problem:
        raise FileError(path, f"carries a spec that makes no table ({problem})") from None
    expected = {table.name: table for table in scheme.tensors()}
    hashes = _Hashed()
    found, problems = [], []
    for table in file.tables:
        if table.name not in expected:
            problems.append(f"{table.name}: {scheme.name} has no such tensor")
        else:
            found.append(compare(expected.pop(table.name), hashes.of(table), tolerance))
    whole = not _names_a_tensor(path, file)
    if whole:
        problems += [f"{name}: the tensor is missing" for name in expected]
    problems += _problems(found)
    if whole and not problems and spec.get("sha256") != hashes.hexdigest():
        problems.append("the stored sha256 is not that of the data: the file was changed after it was written")
    return Verification(path, scheme.name, tuple(found), tuple(problems))


class _Hashed:
    """Hashes tables as they are read, block after block."""

    def __init__(self) -> None:
        from hashlib import sha256

        self._hash = sha256()
        self.hexdigest = self._hash.hexdigest

    def of(self, table: Table) -> Table:
        def fill(start: int, out: Array) -> None:
            table.fill(start, out)
            self._hash.update(raw_bytes(out))

        return replace(table, fill=fill, in_order=True)
