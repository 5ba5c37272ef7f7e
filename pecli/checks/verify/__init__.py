"""A file, or arrays, compared with what they should be: a scheme, a model, or the spec that the file carries."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pecli.checks.compare import compare
from pecli.checks.same_table import Reading, fitted
from pecli.checks.tensor_roles import role_of
from pecli.checks.tolerance import Tolerance, is_relative, tolerance_of
from pecli.checks.verify.rotated import model_check
from pecli.checks.verify.verification import Checked, Verification, compared, conclusion, tables_of
from pecli.engine.arrays import COMPLEX, SIGNIFICAND_BITS, Array
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table, raw_bytes
from pecli.errors import FileError, KindError, ParameterError, begun
from pecli.files import LoadedFile
from pecli.files.checkpoints import INDEX
from pecli.files.load import NO_FILE, opened, split_name
from pecli.files.provenance import carried_spec
from pecli.models.dialects.gguf import known_factors
from pecli.models.find import Model, config_file, load_model

if TYPE_CHECKING:
    from pecli.files.load import Given

__all__ = ["Verification", "verify"]


def verify(
    given: Given,
    spec: Scheme | Model | None = None,
    tolerance: Tolerance | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    max_ulp: int | None = None,
    any_dtype: bool = True,
    **model_options: Any,
) -> Verification:
    """Compare a file, an array or arrays by name with a scheme's tables, or with what a model asks for; without
    either, a file with the spec it carries, and a folder or an index with the configuration beside it.

    A model is what `load_config` and `load_model` return or take; beside it may be given `layer_type`, `offset`,
    `length`, `recipe`, `runtime`, and `before`, with `seq_axis`: queries or keys before the rotation, those after it
    being compared. A scheme's tables are made in the dtype that was found; without `any_dtype`, one that differs is a
    finding.

    >>> import pecli
    >>> pecli.verify(pecli.Rope(seq_len=4, dim=8).tables(), pecli.Rope(seq_len=4, dim=8, theta=500000)).passed
    False
    """
    allowed = tolerance_of(tolerance, max_ulp, atol, rtol)
    own = _own_config(given) if spec is None else None
    spec = spec if own is None else own
    if isinstance(spec, Mapping) and {"scheme", "parameters"} <= spec.keys():
        spec = Scheme.from_spec(spec)
    if spec is not None and not isinstance(spec, Scheme):
        check = model_check(load_model(spec), spec, **model_options)
        found: Verification = check(given, tolerance=allowed)
        return found if own is None or not own.lower().endswith(".gguf") else _own_factors(found, own)
    for name in model_options:
        raise KindError(name, "given", "it belongs to a model", "leave it out")
    label, file = opened(given)
    with file:
        file.check()
        named = label not in (file.path, "-")  # one tensor was asked for, by FILE:NAME
        if spec is not None:
            return _SchemeCheck(spec, any_dtype, allowed).verified(label, file.read_as(spec.dtype), named)
        if file.path == NO_FILE:
            raise ParameterError("scheme", "missing", "arrays carry no spec", "say what they should be")
        return verify_spec(label, file, allowed, complete=not named)


def _own_config(given: Given) -> str | None:
    """The configuration in a folder of tensors, beside an index of them, or in the header of a .gguf file; None for
    anything else.
    """
    if not isinstance(given, (str, os.PathLike)):
        return None
    path = split_name(os.fspath(given))[0]
    has_model = os.path.isdir(path) or path.lower().endswith((INDEX, ".gguf"))
    return (config_file(path) or None) if has_model else None


def _own_factors(found: Verification, path: str) -> Verification:
    """The answer about a .gguf file whose own header is the model: factors are what its tensors say they are."""
    names = [tensor.name for tensor in found.tensors if tensor.name.endswith("/inv_freq")]
    known = known_factors(path) if names else ""
    weak = "the header cannot tell these factors from others: compare with --config MODEL"
    return replace(
        found,
        readings={**found.readings, **{name: known for name in names if known}},
        weak=(*found.weak, weak) if names and found.passed else found.weak,
    )


class _SchemeCheck:
    """A scheme that files are compared with."""

    def __init__(self, scheme: Scheme, any_dtype: bool, tolerance: Tolerance) -> None:
        self.scheme, self.any_dtype, self.tolerance = scheme, any_dtype, tolerance

    def verified(self, path: str, file: LoadedFile, named: bool) -> Verification:
        present, missing, lines = {table.name for table in file.tables}, [], file.format == "csv"
        names = [table.name for table in self.scheme.tensors()]
        if not self.scheme.holds_several and names[0] not in present:
            names.append(self.scheme.single_array().name)
        known = [(table, found) for table in file.tables if (found := _own_names(table.name, names, present))]
        if len(file.tables) == 1 and (named or not known):
            (table,) = file.tables
            checked = [self._checked(table, _own_names(table.name, names, ()), "", lines)]
        else:
            known.sort(key=lambda each: [*names, each[0].name].index(each[0].name))  # those first that it names
            checked = [self._checked(table, found, table.name, lines) for table, found in known]
            missing = self._missing([each.reading.expected.name for each in checked], file.tables)
        return conclusion(path, self.scheme.name, checked, self.tolerance, missing, file.tables)

    def _checked(self, table: Table, names: Sequence[str], label: str, lines: bool) -> Checked:
        """A tensor as one of these, or as any table of the scheme, whichever it is closest to."""
        dtype = COMPLEX.get(table.dtype, table.dtype)
        scheme = self.scheme.in_dtype(dtype) if self.any_dtype and dtype in SIGNIFICAND_BITS else self.scheme
        tables = tables_of(scheme)
        if scheme.dtype not in ("float64", "float32", self.scheme.dtype):  # half precision, unasked
            wide = tables_of(self.scheme.in_dtype("float32"))
            tables |= {name: made for name, made in wide.items() if is_relative(name)}
        reading = fitted(table, [tables[name] for name in names or tables], scheme, lines=lines)
        if reading is None:
            expected = next(tables[name] for name in (*names, *tables))
            reading = Reading(table, expected, {expected.name: table}, scheme=scheme)
        result = compared(label or reading.expected.name, reading, self.tolerance, any_dtype=self.any_dtype)
        return Checked(reading, result)

    def _missing(self, found: Sequence[str], tables: Sequence[Table]) -> list[str]:
        """Tensors that the file should hold; what follows from the others may be absent, unless it is all there is."""
        there = {*found, *(("cos", "sin") if "cos_sin" in found else ())} | self.scheme.derived_tensors
        missing = [table.name for table in self.scheme.tensors() if table.name not in there]
        names = begun([table.name for table in tables], 8)
        advice = f"the file has {names}, and FILE:NAME checks one alone"
        return [f"{name}: the tensor is missing; {advice}" for name in missing]


def _own_names(tensor: str, names: Sequence[str], present: Collection[str]) -> list[str]:
    """What a scheme calls a tensor of a file: its very name, or what that means and no other tensor has as its name; of
    a bundle, also whose part it is.
    """
    if tensor in names:
        return [tensor]
    parts = [(name, *name.rpartition(".")[::2]) for name in names if name not in present]
    return [name for name, part, own in parts if role_of(tensor) == (role_of(own) or own) and part in tensor]


def verify_spec(path: str, file: LoadedFile, tolerance: Tolerance, *, complete: bool) -> Verification:
    """Every tensor against its spec; where the file is `complete`, also that none is missing, and the sha256."""
    from hashlib import sha256

    spec = carried_spec(file.path, file.metadata)
    if spec is None:
        advice = "say what it should be: --config FILE, --model NAME, pecli rope … --verify FILE, or in Python a scheme"
        raise FileError(path, "carries no pecli spec", advice)
    try:
        scheme: Scheme = Scheme.from_spec(spec)
    except ParameterError as problem:
        raise FileError(path, f"carries a spec that makes no table ({problem})") from None
    expected = {table.name: table for table in scheme.tensors()}
    digest = sha256()
    hashed = "sha256" in spec or file.format not in ("json", "h", "zarr")  # those carry the spec alone
    checked, problems = [], []
    for table in file.tables:
        if table.name not in expected:
            problems.append(f"{table.name}: {scheme.name} has no such tensor")
        else:
            right = expected.pop(table.name)
            result = compare(right, _hashed(table, digest) if hashed else table, tolerance)
            checked.append(Checked(Reading(table, right, {table.name: table}, scheme=scheme), result))
    if complete:
        problems += [f"{name}: the tensor is missing" for name in expected]
    sound = not problems and not any(each.result.problem for each in checked)
    if complete and hashed and sound and spec.get("sha256") != digest.hexdigest():
        problems.append("the stored sha256 is not that of the data: the file was changed after it was written")
    return conclusion(path, scheme.name, checked, tolerance, problems, may_be_weak=False)


def _hashed(table: Table, digest: Any) -> Table:
    """The table, hashed as it is read, block after block."""

    def fill(start: int, out: Array) -> None:
        table.fill(start, out)
        digest.update(raw_bytes(out))

    return replace(table, fill=fill, in_order=True)
