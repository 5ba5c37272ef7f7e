"""Holding a file against what it should be: a scheme, or the spec that the file carries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pecli.checks.compare import Comparison, as_json, compare
from pecli.checks.tolerance import EXACT, Tolerance
from pecli.engine.scheme import Scheme
from pecli.engine.table import Table
from pecli.errors import FileError, ParameterError
from pecli.files import LoadedFile, open_tensors
from pecli.files.pour import raw_bytes

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


def verify(path: str, scheme: Scheme | None = None, tolerance: Tolerance = EXACT) -> Verification:
    """Compare a file with a scheme's tables; without a scheme, with the spec it carries."""
    with open_tensors(path) as file:
        file.check()
        if scheme is None:
            return _verify_spec(path, file, tolerance)
        pairs = _match(scheme, file.tables)
        found = tuple(compare(expected, table, tolerance) for expected, table in pairs)
    if not pairs:
        names = ", ".join(table.name for table in scheme.tensors())
        return Verification(path, scheme.name, (), (f"none of its tensors is one of {names}",))
    return Verification(path, scheme.name, found, _problems(found))


def _match(scheme: Scheme, tables: Sequence[Table]) -> list[tuple[Table, Table]]:
    """Which tensor of the file is which of the scheme: by name, or, if it is alone, by being alone."""
    by_name = {table.name: table for table in tables}
    pairs = [(expected, by_name[expected.name]) for expected in scheme.tensors() if expected.name in by_name]
    if pairs or len(tables) != 1:
        return pairs
    return [(scheme.plain(), tables[0])]


def _problems(found: Sequence[Comparison]) -> tuple[str, ...]:
    return tuple(f"{tensor.name}: {tensor.problem}" for tensor in found if tensor.problem)


def carried_spec(file: LoadedFile) -> dict[str, Any] | None:
    """The spec in a file's metadata, if there is one: scheme, parameters, version and sha256."""
    text = file.metadata.get("pecli")
    if text is None:
        return None
    try:
        spec = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise FileError(file.path, "its pecli metadata is not JSON") from None
    if not isinstance(spec, dict):
        raise FileError(file.path, "its pecli metadata is not a JSON object")
    return spec


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _verify_spec(path: str, file: LoadedFile, tolerance: Tolerance) -> Verification:
    spec = carried_spec(file)
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
    problems += [f"{name}: the tensor is missing" for name in expected]
    problems += _problems(found)
    if not problems and spec.get("sha256") != hashes.hexdigest():
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
