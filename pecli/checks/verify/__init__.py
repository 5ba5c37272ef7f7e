"""Holding a file against what it should be: a scheme, or the spec that the file carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pecli.checks.compare import Comparison, compare, problems_of
from pecli.checks.tolerance import EXACT, Tolerance, check_tolerance
from pecli.checks.verify.against_spec import verify_spec
from pecli.checks.verify.cancellation import open_for_checks
from pecli.checks.verify.explain_failures import reasons
from pecli.checks.verify.tensor_roles import role_of
from pecli.checks.verify.verification import Verification
from pecli.engine.cast import cast
from pecli.engine.numerics.dtypes import COMPLEX, SIGNIFICAND_BITS
from pecli.engine.reshape import rows_of, views
from pecli.engine.schemes.bundle import Bundle
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.engine.text import begun
from pecli.errors import ParameterError
from pecli.files import LoadedFile
from pecli.files.in_memory import NO_FILE, opened

if TYPE_CHECKING:
    from pecli.files.in_memory import Given

__all__ = ["Verification", "verify"]

_ROLES = {"pe": "rows", "weight": "rows", "cos_sin": "both"}
"""What the names of other programs say that a scheme's tensors hold, where that is not their own name."""


def verify(
    path: Given,
    scheme: Scheme | None = None,
    tolerance: Tolerance = EXACT,
    *,
    any_dtype: bool = False,
) -> Verification:
    """Compare a file with a scheme's tables; without a scheme, with the spec it carries. Arrays, alone or by name, are
    compared with a scheme in the same way.

    With `any_dtype` the tables are made in the file's dtype; else one that differs is a finding.
    """
    check_tolerance(tolerance)
    label, file = opened(path, open_for_checks)
    with file:
        file.check()
        named = label not in (file.path, "-")  # one tensor was asked for, by FILE:NAME
        if scheme is not None:
            return _Held(scheme, any_dtype, tolerance).verified(label, _readable(file, scheme), named)
        if file.path == NO_FILE:
            raise ParameterError("scheme", "missing", "arrays carry no spec", "say what they should be")
        return verify_spec(label, file, tolerance, whole=not named)


def _readable(file: LoadedFile, scheme: Scheme) -> LoadedFile:
    """The file; what .csv says of neither dtype nor axes is that of the scheme."""
    if file.format != "csv" or isinstance(scheme, Bundle):
        return file.read_as(scheme.dtype)
    return replace(
        file, tables=tuple(rows_of(table, scheme.single_array()) for table in file.read_as(scheme.dtype).tables)
    )


class _Held:
    """A scheme that files are held against."""

    def __init__(self, scheme: Scheme, any_dtype: bool, tolerance: Tolerance) -> None:
        self.scheme, self.any_dtype, self.tolerance = scheme, any_dtype, tolerance

    def verified(self, path: str, file: LoadedFile, named: bool) -> Verification:
        pairs, missing = self._matched(file.tables), []
        if len(file.tables) == 1 and (not pairs or named):
            table = file.tables[0]
            name = self._nearest(table)
            pairs, results = [(name, table)], [self._compared(name, table)]
        else:
            results = [self._compared(name, table, label=table.name) for name, table in pairs]
            missing = self._missing([name for name, _ in pairs], file.tables)
        failed = [pair for pair, result in zip(pairs, results, strict=True) if not result.passed]
        suspects = ((self._like(table), name, table) for name, table in failed)
        why = reasons(suspects, results, self.tolerance)
        return Verification(path, self.scheme.name, tuple(results), (*missing, *problems_of(results)), why)

    def _matched(self, tables: Sequence[Table]) -> list[tuple[str, Table]]:
        """Which tensors of the file are which of the scheme: by the very name, or by what their names mean."""
        names = [table.name for table in self.scheme.tensors()]
        there = {table.name: table for table in tables}
        found = [(name, there[name]) for name in names if name in there]
        missing = [name for name in names if name not in there]
        meant = [
            (name, table) for table in tables if table.name not in names for name in missing if _means(table, name)
        ]
        if isinstance(self.scheme, Bundle):
            return found + meant
        both = [("cos_sin", table) for table in tables if role_of(table.name) == "both"] if "cos" in missing else []
        return found + meant + both

    def _like(self, table: Table) -> Scheme:
        """The scheme; in the dtype of a table if it may be."""
        dtype = COMPLEX.get(table.dtype, table.dtype)
        return in_dtype(self.scheme, dtype) if self.any_dtype and dtype in SIGNIFICAND_BITS else self.scheme

    def _tables(self, like: Table) -> dict[str, Table]:
        """The scheme's tables by name, the one that stands for them all first."""
        scheme = self._like(like)
        tables = {table.name: table for table in scheme.tensors()}
        if not isinstance(scheme, Bundle):
            plain = scheme.single_array()
            tables = {plain.name: plain, **tables}
        return {name: _converted(table, like) for name, table in tables.items()}

    def _compared(self, name: str, table: Table, label: str = "") -> Comparison:
        expected = self._tables(table)[name]
        return compare(replace(expected, name=label or name), _fitting(table, expected), self.tolerance)

    def _nearest(self, table: Table) -> str:
        """What a single tensor is: the one of its name, or else the one of its shape that it is closest to."""
        tables = self._tables(table)
        likely = [name for name in tables if name == table.name] or [name for name in tables if _means(table, name)]
        if not likely:
            plain = next(iter(tables)) if not isinstance(self.scheme, Bundle) else self.scheme.single_array().name
            likely = [name for name in tables if _fitting(table, tables[name]).shape == tables[name].shape] or [plain]
        if len(likely) == 1:
            return likely[0]
        results = {name: self._compared(name, table) for name in likely}
        return min(results, key=lambda name: (not results[name].passed, results[name].max_abs_error or 0.0))

    def _missing(self, found: Sequence[str], tables: Sequence[Table]) -> list[str]:
        """Tensors that the file should hold; what follows from the others may be absent, unless it is all there is."""
        there = {*found, *(("cos", "sin") if "cos_sin" in found else ())} | self.scheme.derived_tensors
        missing = [table.name for table in self.scheme.tensors() if table.name not in there]
        names = begun([table.name for table in tables], 8)
        advice = f"the file has {names}, and FILE:NAME checks one alone"
        return [f"{name}: the tensor is missing; {advice}" for name in missing]


def in_dtype(scheme: Scheme, dtype: str) -> Scheme:
    """The same scheme with tables of another dtype."""
    if isinstance(scheme, Bundle):
        return replace(scheme, parts=tuple((name, in_dtype(part, dtype)) for name, part in scheme.parts), dtype=dtype)
    return scheme if scheme.dtype == dtype else replace(scheme, dtype=dtype)


def _means(table: Table, name: str) -> bool:
    """Whether the name of a file's tensor means what a scheme calls so; of a bundle, also whose part it is."""
    part, _, tensor = name.rpartition(".")
    return role_of(table.name) == _ROLES.get(tensor, tensor) and part in table.name


def _fitting(table: Table, expected: Table) -> Table:
    """The table without axes of length 1, where that gives it the expected shape."""
    return next((view for view in views(table) if view.shape == expected.shape), table)


def _converted(expected: Table, like: Table) -> Table:
    """inv_freq in the dtype that the file has it in: elsewhere it is hardly ever float64."""
    tail = expected.name.rpartition(".")[2]
    if tail != "inv_freq" or like.dtype == expected.dtype or like.dtype not in SIGNIFICAND_BITS:
        return expected
    return cast(expected, like.dtype)
