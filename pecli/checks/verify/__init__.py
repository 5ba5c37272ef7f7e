"""A file, or arrays, compared with what they should be: a scheme, a model, or the spec that the file carries."""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.verification import Checked, Verification, conclusion
from pecli.checks.verify.targets import real_dtype, scheme_targets
from pecli.compare.comparison import Comparison, compare_arrays
from pecli.compare.reading import Doubling, best_reading, doubling_problems
from pecli.compare.target import Target
from pecli.compare.tolerance import Tolerance, is_relative, tolerance_of
from pecli.engine.arrays import SIGNIFICAND_BITS, Array
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import raw_bytes
from pecli.errors import FileError, KindError, ParameterError, bracketed, listed
from pecli.files.contents import INDEX, LoadedFile, carried_spec
from pecli.files.load import NO_FILE, Given, opened, split_name
from pecli.files.tensor_roles import role_of

if TYPE_CHECKING:
    from pecli.models.find import Model

__all__ = ["Verification", "verify"]
OWN_FACTORS = "the header cannot tell these factors from others: compare with --config MODEL"


def verify(
    given: Given,
    spec: "Scheme | Model | Array | None" = None,
    tolerance: Tolerance | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    max_ulp: int | None = None,
    any_dtype: bool = True,
    reasons: bool = True,
    **model_options: Any,
) -> Verification:
    """Compare a file, an array, arrays by name or a torch module, which is searched for its tables, with those of a
    scheme, or with what a model asks for; without either, a file with the spec it carries, and a folder or an index
    with the configuration beside it.

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
    is_table = spec.applied_as == "rows" if isinstance(spec, Scheme) else hasattr(spec, "__array__")
    if model_options.get("before") is not None and (is_table or hasattr(spec, "__dlpack__")):
        from pecli.checks.verify.added import verify_added

        return verify_added(given, spec, allowed, reasons, **model_options)
    if spec is not None and not isinstance(spec, Scheme):
        found = _verify_model(given, spec, allowed, reasons, **model_options)
        if own is None or not own.lower().endswith(".gguf") or not found.passed:
            return found
        factors = any(
            tensor.name.endswith("/inv_freq") for tensor in found.tensors
        )  # which the header has no other of
        return replace(found, weak=(*found.weak, *[OWN_FACTORS] * factors))
    for name in model_options:
        raise KindError(
            name, "given", "it belongs to a model", "give one, or a config dict, to compare with"
        )
    label, file = opened(given)
    named = label not in (file.path, "-")  # one tensor was asked for, by FILE:NAME
    if spec is not None:
        return _verify_scheme(
            label, file.read_as(spec.dtype), spec, allowed, named, any_dtype, reasons
        )
    if file.path == NO_FILE:
        raise ParameterError("scheme", "missing", "arrays carry no spec", "say what they should be")
    return _verify_carried(label, file, allowed, complete=not named, reasons=reasons)


def _own_config(given: Given) -> str | None:
    """The configuration in a folder of tensors, beside an index of them, or in the header of a .gguf file, if any."""
    path = split_name(os.fspath(given))[0] if isinstance(given, (str, os.PathLike)) else ""
    if not (os.path.isdir(path) or path.lower().endswith((INDEX, ".gguf"))):
        return None
    from pecli.models.config_files import config_file

    return config_file(path) or None


def _verify_scheme(
    path: str,
    file: LoadedFile,
    scheme: Scheme,
    tolerance: Tolerance,
    named: bool,
    any_dtype: bool,
    reasons: bool,
) -> Verification:
    """Every tensor as that table of the scheme which its name says, or else which it is closest to."""

    @cache
    def targets(dtype: str) -> list[Target]:
        """What tensors of a dtype may be; frequencies and slopes in half precision only where that was asked for."""
        found = scheme_targets(scheme.in_dtype(dtype))
        if dtype in ("float64", "float32", scheme.dtype):
            return found
        wide = {target.names: target for target in scheme_targets(scheme.in_dtype("float32"))}
        return [wide[target.names] if is_relative(target.name) else target for target in found]

    names = [*dict.fromkeys(target.name for target in targets(scheme.dtype))]
    tensors = file.tensors

    def own_names(tensor: str, present: Collection[str]) -> list[str]:
        """What the scheme calls a tensor: its name, or what that means if no other has it; whose part, of a bundle."""
        if tensor in names:
            return [tensor]
        parts = [(name, *name.rpartition(".")[::2]) for name in names if name not in present]
        return [
            name
            for name, part, own in parts
            if role_of(tensor) == (role_of(own) or own) and part in tensor
        ]

    def checked(name: str, own: Collection[str], label: str) -> Checked:
        array, dtype = tensors[name], real_dtype(tensors[name])
        likely = targets(dtype if any_dtype and dtype in SIGNIFICAND_BITS else scheme.dtype)
        if own:
            likely = [
                target for target in likely if target.name in own and target.names != ("sin", "cos")
            ]
        reading = best_reading(array, likely, is_text=file.format == "csv")
        if reading is not None:
            part = reading.name.rpartition(".")[0]
            read.append(Doubling(part, reading, reading.form.doubled))
            return Checked.of(name, label or reading.name, reading, tolerance, any_dtype=any_dtype)
        shape = bracketed([length or 0 for length in likely[0].shape])
        result = Comparison.of_shape(label or likely[0].name, array.shape, shape)
        return Checked(name, result, scheme, {likely[0].name: array})

    known = {name: own for name in tensors if (own := own_names(name, tensors))}
    missing, read = [], list[Doubling]()
    if len(tensors) == 1 and (named or not known):
        results = [checked(name, own_names(name, ()), "") for name in tensors]
    else:
        ordered = sorted(known, key=lambda name: [*names, name].index(name))
        results = [checked(name, known[name], name) for name in ordered]
        # what follows from the other tensors may be absent, unless it is all there is
        there = {name for each in results for name in each.found} | scheme.derived_tensors
        held = listed(list(tensors), 8)
        advice = (
            f"the file has {held}, and FILE:NAME checks one alone"
            if held
            else "no tensor is there at all"
        )
        absent = [table.name for table in scheme.tensors() if table.name not in there]
        missing = [f"{name}: the tensor is missing; {advice}" for name in absent]
    problems = [*missing, *doubling_problems(read)]
    return conclusion(path, scheme.name, results, tolerance, problems, reasons, tensors)


def _verify_carried(
    path: str, file: LoadedFile, tolerance: Tolerance, complete: bool, reasons: bool
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
    tensors = {name: array for name, array in file.tensors.items() if name in expected}
    problems = [
        f"{name}: {scheme.name} has no such tensor" for name in file.tensors if name not in tensors
    ]
    problems += [
        f"{name}: the tensor is missing" for name in expected if complete and name not in tensors
    ]
    results = {
        name: compare_arrays(expected[name], array, tolerance, name=name)
        for name, array in tensors.items()
    }
    checked = [
        Checked(name, result, scheme, {name: tensors[name]}) for name, result in results.items()
    ]
    hashed = "sha256" in spec or file.format not in (
        "json",
        "h",
        "zarr",
    )  # those carry the spec alone
    if (
        complete
        and hashed
        and not problems
        and not any(result.problem for result in results.values())
    ):
        digest = sha256()
        for array in tensors.values():
            for rows in np.array_split(array, max(1, array.nbytes >> 22)):
                digest.update(raw_bytes(rows))
        if spec.get("sha256") != digest.hexdigest():
            problems.append(
                "the stored sha256 is not that of the data: the file was changed after it was written"
            )
    return conclusion(path, scheme.name, checked, tolerance, problems, reasons)


def _verify_model(
    given: Given, model: Any, tolerance: Tolerance, reasons: bool, **options: Any
) -> Verification:
    if (before := options.pop("before", None)) is not None:
        from pecli.checks.verify.rotated import verify_rotated

        return verify_rotated(given, before, model, tolerance, reasons, **options)
    from pecli.checks.verify.against_model import verify_tables

    for name in ("seq_axis", "shift"):
        if options.pop(name, None) is not None:
            raise ParameterError(
                name, "given", "it is about queries and keys", "give `before`, too"
            )
    return verify_tables(given, model, tolerance, reasons, **options)
