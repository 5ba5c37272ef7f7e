"""A file, or arrays, compared with what they should be: a scheme, a model, or the spec that the file carries."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.compare import Comparison, compare_arrays
from pecli.checks.reading import Target, best_reading
from pecli.checks.tensor_roles import role_of
from pecli.checks.tolerance import Tolerance, is_relative, tolerance_of
from pecli.checks.verify.targets import Place, real_dtype, scheme_targets
from pecli.checks.verify.verification import Checked, Verification, conclusion
from pecli.engine.arrays import SIGNIFICAND_BITS, Array, numbers
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import raw_bytes
from pecli.errors import FileError, KindError, ParameterError, begun, bracketed, quoted
from pecli.files import LoadedFile
from pecli.files.contents import INDEX, carried_spec
from pecli.files.load import NO_FILE, opened, split_name

if TYPE_CHECKING:
    from pecli.files.load import Given
    from pecli.models.encoding import ModelEncodings
    from pecli.models.find import Model

__all__ = ["Verification", "verify"]


def verify(
    given: Given,
    spec: Scheme | Model | Array | None = None,
    tolerance: Tolerance | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    max_ulp: int | None = None,
    any_dtype: bool = True,
    reasons: bool = True,
    **model_options: Any,
) -> Verification:
    """Compare a file, an array or arrays by name with a scheme's tables, or with what a model asks for; without
    either, a file with the spec it carries, and a folder or an index with the configuration beside it.

    A model is what `load_config` and `load_model` return or take; beside it may be given `layer_type`, `offset`,
    `length`, `recipe`, `runtime`, and `before`, with `seq_axis`: queries or keys before the rotation, those after it
    being compared; tokens stand at `positions`, where an `attention_mask` counts them, or are moved by `shift`. With a
    learned table (rows, D), or a scheme whose rows are added, `before` are the inputs without them. A scheme's tables
    are made in the dtype that was found; without `any_dtype`, one that differs is a finding. Without `reasons`, none
    are searched for.

    >>> import pecli
    >>> pecli.verify(pecli.Rope(seq_len=4, dim=8).tables(), pecli.Rope(seq_len=4, dim=8, theta=500000)).passed
    False
    """
    allowed = tolerance_of(tolerance, max_ulp, atol, rtol)
    own = _own_config(given) if spec is None else None
    spec = spec if own is None else own
    if isinstance(spec, Mapping) and {"scheme", "parameters"} <= spec.keys():
        spec = Scheme.from_spec(spec)
    table = _added_table(spec)
    if model_options.get("before") is not None and table is not None:
        return _verify_added(given, table, allowed, reasons, model_options)
    if spec is not None and not isinstance(spec, Scheme):
        from pecli.models.find import load_model

        model: Any = spec
        check = model_check(load_model(model), model, **model_options)
        found: Verification = check(given, tolerance=allowed, reasons=reasons)
        return found if own is None or not own.lower().endswith(".gguf") else _own_factors(found, own)
    for name in model_options:
        raise KindError(name, "given", "it belongs to a model", "leave it out")
    label, file = opened(given)
    with file:
        file.check()
        named = label not in (file.path, "-")  # one tensor was asked for, by FILE:NAME
        if spec is not None:
            return _SchemeCheck(spec, any_dtype, allowed).verified(label, file.read_as(spec.dtype), named, reasons)
        if file.path == NO_FILE:
            raise ParameterError("scheme", "missing", "arrays carry no spec", "say what they should be")
        return _verify_carried(label, file, allowed, complete=not named, reasons=reasons)


def _added_table(spec: Any) -> Any:
    """What makes the table that is added to inputs: a scheme, or its weights (rows, D); None for anything else."""
    if isinstance(spec, Scheme):
        return spec if spec.applied_as == "rows" else None
    return spec if hasattr(spec, "__array__") or hasattr(spec, "__dlpack__") else None


def _verify_added(
    given: Given, table: Any, tolerance: Tolerance, reasons: bool, options: dict[str, Any]
) -> Verification:
    from pecli.checks.verify.rotated import verify_added
    from pecli.tensors.apply import row_positions

    for other in options.keys() - {"before", "positions", "attention_mask", "offset"}:
        raise KindError(other, "given", "inputs have positions, an offset or an attention_mask", "leave it out")
    before, rows = options["before"], row_positions(**{name: options[name] for name in options if name != "before"})
    name = table.name if isinstance(table, Scheme) else "learned table"
    weight = table.single_array().array() if isinstance(table, Scheme) else numbers("table", table)
    return verify_added(given, before, weight, rows, tolerance, name, reasons)


def _own_config(given: Given) -> str | None:
    """The configuration in a folder of tensors, beside an index of them, or in the header of a .gguf file; None for
    anything else."""
    path = split_name(os.fspath(given))[0] if isinstance(given, (str, os.PathLike)) else ""
    if not (os.path.isdir(path) or path.lower().endswith((INDEX, ".gguf"))):
        return None
    from pecli.models.find import config_file

    return config_file(path) or None


def _own_factors(found: Verification, path: str) -> Verification:
    """The answer about a .gguf file whose own header is the model: factors are what its tensors say they are."""
    names = [tensor.name for tensor in found.tensors if tensor.name.endswith("/inv_freq")]
    if not names:
        return found
    from pecli.models.dialects.gguf import known_factors

    known = known_factors(path)
    weak = ("the header cannot tell these factors from others: compare with --config MODEL",) if found.passed else ()
    readings = {**found.readings, **{name: known for name in names if known}}
    return replace(found, readings=readings, weak=(*found.weak, *weak))


class _SchemeCheck:
    """A scheme that files are compared with."""

    def __init__(self, scheme: Scheme, any_dtype: bool, tolerance: Tolerance) -> None:
        self.scheme, self.any_dtype, self.tolerance = scheme, any_dtype, tolerance
        self.targets = cache(self._targets)
        self.names = [*dict.fromkeys(target.name for target in self.targets(scheme.dtype))]

    def _targets(self, dtype: str) -> list[Target]:
        """What tensors of a dtype may be; frequencies and slopes in half precision only where that was asked for."""
        targets = scheme_targets(self.scheme.in_dtype(dtype))
        if dtype in ("float64", "float32", self.scheme.dtype):
            return targets
        wide = {target.names: target for target in scheme_targets(self.scheme.in_dtype("float32"))}
        return [wide[target.names] if is_relative(target.name) else target for target in targets]

    def verified(self, path: str, file: LoadedFile, named: bool, reasons: bool) -> Verification:
        tensors, missing, lines = file.tensors, [], file.format == "csv"
        known = {name: own for name in tensors if (own := self._own_names(name, tensors))}
        if len(tensors) == 1 and (named or not known):
            (name,) = tensors
            checked = [self._checked(name, tensors[name], self._own_names(name, ()), "", lines)]
        else:
            ordered = sorted(known, key=lambda name: [*self.names, name].index(name))
            checked = [self._checked(name, tensors[name], known[name], name, lines) for name in ordered]
            # what follows from the other tensors may be absent, unless it is all there is
            there = {name for each in checked for name in each.found} | self.scheme.derived_tensors
            advice = f"the file has {begun(list(tensors), 8)}, and FILE:NAME checks one alone"
            absent = [table.name for table in self.scheme.tensors() if table.name not in there]
            missing = [f"{name}: the tensor is missing; {advice}" for name in absent]
        return conclusion(path, self.scheme.name, checked, self.tolerance, missing, tensors, reasons=reasons)

    def _checked(self, name: str, array: Array, own: Collection[str], label: str, lines: bool) -> Checked:
        """A tensor as one of these, or as any table of the scheme, whichever it is closest to."""
        dtype = real_dtype(array)
        likely = self.targets(dtype if self.any_dtype and dtype in SIGNIFICAND_BITS else self.scheme.dtype)
        if own:
            likely = [target for target in likely if target.name in own and target.names != ("sin", "cos")]
        reading = best_reading(array, likely, lines=lines)
        if reading is not None:
            return Checked.of(name, label or reading.name, reading, self.tolerance, any_dtype=self.any_dtype)
        shape = bracketed([length or 0 for length in likely[0].shape])
        result = Comparison.of_shape(label or likely[0].name, array.shape, shape)
        return Checked(name, result, self.scheme, {likely[0].name: array})

    def _own_names(self, tensor: str, present: Collection[str]) -> list[str]:
        """What the scheme calls a tensor of a file: its very name, or what that means and no other tensor has as its
        name; of a bundle, also whose part it is."""
        if tensor in self.names:
            return [tensor]
        parts = [(name, *name.rpartition(".")[::2]) for name in self.names if name not in present]
        return [name for name, part, own in parts if role_of(tensor) == (role_of(own) or own) and part in tensor]


def _verify_carried(
    path: str, file: LoadedFile, tolerance: Tolerance, *, complete: bool, reasons: bool
) -> Verification:
    """Every tensor against its spec; where the file is `complete`, also that none is missing, and the sha256."""
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
    for name, array in file.tensors.items():
        if name not in expected:
            problems.append(f"{name}: {scheme.name} has no such tensor")
            continue
        result = compare_arrays(expected.pop(name), array, tolerance, name=name)
        for rows in np.array_split(array, max(1, array.nbytes >> 22)) if hashed else ():
            digest.update(raw_bytes(rows))
        checked.append(Checked(name, result, scheme, {name: array}))
    if complete:
        problems += [f"{name}: the tensor is missing" for name in expected]
    sound = not problems and not any(each.result.problem for each in checked)
    if complete and hashed and sound and spec.get("sha256") != digest.hexdigest():
        problems.append("the stored sha256 is not that of the data: the file was changed after it was written")
    return conclusion(path, scheme.name, checked, tolerance, problems, may_be_weak=False, reasons=reasons)


def model_check(
    found: ModelEncodings, model: Model, before: Given | None = None, *, seq_axis: int | None = None, **options: Any
) -> Any:
    """What compares a file with a model, which was found already: its tables, or what was `before` the rotation."""
    layer_type = options.pop("layer_type", None)
    moved: dict[str, Any] = {name: options.pop(name, None) for name in ("attention_mask", "shift")}
    if before is not None:
        moved["positions"] = options.pop("positions", None)
    place = Place.of(options)
    if before is None:
        from pecli.checks.verify.against_model import verify_model

        for name, value in {"seq_axis": seq_axis, **moved}.items():
            if value is not None:
                raise ParameterError(name, "given", "it is about queries and keys", "give `before`, too")
        return partial(verify_model, model=found, layer_type=layer_type, place=place)
    from pecli.checks.verify.rotated import verify_rotated

    for name in place.own:
        raise ParameterError(name, quoted(options[name]), "with `before`, tokens have positions", "give `positions`")
    return partial(
        verify_rotated, before=before, model=model, layer_type=layer_type, seq_axis=seq_axis, place=place, tokens=moved
    )
