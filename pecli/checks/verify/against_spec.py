"""A file held against the spec that it carries."""

from __future__ import annotations

from dataclasses import replace

from pecli.checks.compare import compare, problems_of
from pecli.checks.tolerance import Tolerance
from pecli.checks.verify.explain_failures import diagnosis, explanations
from pecli.checks.verify.verification import Verification
from pecli.engine.arrays import Array
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table, raw_bytes
from pecli.errors import FileError, ParameterError
from pecli.files import LoadedFile
from pecli.files.provenance import carried_spec


def verify_spec(path: str, file: LoadedFile, tolerance: Tolerance, *, whole: bool) -> Verification:
    """Every tensor against its spec; where the file is `whole`, also that none is missing, and the sha256."""
    spec = carried_spec(file.path, file.metadata)
    if spec is None:
        advice = "say what it should be: --config FILE, --model NAME, pecli rope … --verify FILE, or in Python a scheme"
        raise FileError(path, "carries no pecli spec", advice)
    try:
        scheme: Scheme = Scheme.from_spec(spec)
    except ParameterError as problem:
        raise FileError(path, f"carries a spec that makes no table ({problem})") from None
    expected = {table.name: table for table in scheme.tensors()}
    hashes = _Hashed()
    hashed = "sha256" in spec or file.format not in ("json", "h", "zarr")  # those carry the spec alone
    found, problems = [], []
    for table in file.tables:
        if table.name not in expected:
            problems.append(f"{table.name}: {scheme.name} has no such tensor")
        else:
            found.append(compare(expected.pop(table.name), hashes.of(table) if hashed else table, tolerance))
    if whole:
        problems += [f"{name}: the tensor is missing" for name in expected]
    problems += problems_of(found)
    if whole and hashed and not problems and spec.get("sha256") != hashes.hexdigest():
        problems.append("the stored sha256 is not that of the data: the file was changed after it was written")
    failed = {result.name for result in found if not result.passed}
    suspects = ((scheme, table.name, table) for table in file.tables if table.name in failed)
    why = explanations(suspects, tolerance)
    said = diagnosis(why, found, [scheme])
    return Verification(path, scheme.name, tuple(found), tuple(problems), said, explanations=why)


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
