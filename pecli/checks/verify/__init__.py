"""A file, or arrays, compared with what they should be: a scheme, a model, or the spec that the file carries."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from pecli.checks.doubts import FactorsOfHeader
from pecli.checks.printed import printed_tolerance
from pecli.checks.recorded.run_tensors import RecordedRun, is_recorded_run
from pecli.checks.verification import Verification
from pecli.checks.verify.against_scheme import verify_scheme
from pecli.checks.verify.against_spec import verify_carried
from pecli.checks.verify.named_pairs import RotatedFile, split_by_names
from pecli.compare.tolerance import Tolerance, tolerance_of
from pecli.engine.arguments import flag_of, within_limits
from pecli.engine.arrays import Array
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import KindError, ParameterError
from pecli.files.contents import INDEX, LoadedFile
from pecli.files.load import NO_FILE, Given, Opened, opened, split_name
from pecli.files.tensor_roles import role_of

if TYPE_CHECKING:
    from pecli.models.find import Model

__all__ = ["Verification", "verify"]
ROTATION_OPTIONS = ("seq_axis", "shift")  #: options that only go with tensors before a rotation


@within_limits
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
    strict: bool = False,
    **model_options: object,
) -> Verification:
    """Compare a file or arrays with what they should be.

    Args:
        given: A file, one tensor of it with `FILE:NAME`, an array, arrays by name, or a torch module, which is
            searched for its tables. A file that `record` has saved is checked layer by layer.
        spec: A scheme; a model, as `load_config` and `load_model` return or accept it; or a learned table (rows, D),
            with `before`. Without it, a file is compared with the spec that it carries, and a folder or an index with
            the configuration beside it.
        tolerance: The errors that pass; exact by default.
        atol: Instead of `tolerance`, an absolute error.
        rtol: Instead of `tolerance`, a relative error.
        max_ulp: Instead of `tolerance`, an error in ULPs.
        any_dtype: Make a scheme's tables in the dtype that was found; if False, another dtype is a finding.
        reasons: Whether reasons for failures are searched for.
        strict: Fail a check that is too weak to rule out a known mistake; the result's `weak` names it.
        model_options: Beside a model, `layer_type`, `offset`, `length`, `recipe` and `runtime`. With `before`, queries
            or keys before the rotation, those after it are compared: `seq_axis` is their axis of positions, and tokens
            stand at `positions`, where an `attention_mask` counts them, or are moved by `shift`. With a learned table,
            or a scheme whose rows are added, `before` are the inputs without them. Without a model,
            `resized_from` is the learned table that this one was resized from, on a `grid`, with
            `keep`, and `to`, if the new grid is not clear: the interpolation is named, and must be
            `method` with `antialias`, `align_corners` and `scale_offset`, if that is given.

    Returns:
        A result that is true if everything agrees.

    Raises:
        FileError: If a file cannot be read, or carries no spec.
        ParameterError: If an option breaks its rule, or does not go with the others.

    >>> import pecli
    >>> pecli.verify(pecli.Rope(seq_len=4, dim=8).tables(), pecli.Rope(seq_len=4, dim=8, theta=500000)).passed
    False
    """
    allowed = tolerance_of(tolerance, max_ulp, atol, rtol)
    any_dtype = flag_of("any_dtype", any_dtype)
    reasons = flag_of("reasons", reasons)
    strict = flag_of("strict", strict)
    result = _verified(given, spec, allowed, any_dtype, reasons, **model_options)
    return replace(result, strict=strict)


def _verified(
    given: Given,
    spec: "Scheme | Model | Array | None",
    allowed: Tolerance,
    any_dtype: bool,
    reasons: bool,
    **model_options: object,
) -> Verification:
    """Compare with the scheme, the model, the learned table or the spec that the arguments of `verify` name."""
    if model_options.get("resized_from") is not None:
        return _verify_resized(given, spec, allowed, **model_options)
    if spec is None:
        config = _config_beside(given)
        if config is not None:
            return _verify_by_config(given, config, allowed, reasons, **model_options)
        _refuse_model_options(model_options)
        return _verify_carried(given, allowed, reasons)
    if isinstance(spec, Mapping) and {"scheme", "parameters"} <= spec.keys():
        spec = Scheme.from_spec(spec)
    if model_options.get("before") is not None and _is_added(spec):
        from pecli.checks.verify.added import verify_added

        return verify_added(given, spec, allowed, reasons, **model_options)
    if not isinstance(spec, Scheme):
        model = cast("Model", spec)  # An array is refused when the model is loaded.
        return _verify_model(given, model, allowed, reasons, **model_options)
    _refuse_model_options(model_options)
    label, file = opened(given)
    return verify_scheme(
        label,
        file.read_as(spec.dtype),
        spec,
        printed_tolerance(label, allowed, file.rounding),
        is_one_tensor=_is_one_tensor(label, file),
        any_dtype=any_dtype,
        reasons=reasons,
    )


def _refuse_model_options(model_options: Iterable[str]) -> None:
    """Raise KindError for an option that only a model has."""
    for name in model_options:
        advice = "give one, or a config dict, to compare with"
        raise KindError(name, "given", "it belongs to a model", advice)


def _is_one_tensor(label: str, file: LoadedFile) -> bool:
    """Return True if one tensor of a file was asked for, by FILE:NAME."""
    return label not in (file.path, "-")


def _verify_carried(given: Given, tolerance: Tolerance, reasons: bool) -> Verification:
    """Compare a file with the spec that it carries.

    Raises:
        ParameterError: If arrays, or a recorded run, are given: they carry none.
    """
    label, file = opened(given)
    if is_recorded_run(file.tensors):
        rule = "a recorded run is compared with a model's configuration"
        raise ParameterError("model", "missing", rule, "give one")
    if file.path == NO_FILE:
        raise ParameterError("scheme", "missing", "arrays carry no spec", "say what they should be")
    is_complete = not _is_one_tensor(label, file)
    return verify_carried(label, file, tolerance, is_complete=is_complete, reasons=reasons)


def _verify_resized(
    given: Given, spec: object, tolerance: Tolerance, **options: Any
) -> Verification:
    """Compare a table with the one that it was resized from."""
    from pecli.checks.verify.resized import verify_resized

    if spec is not None:
        rule = "a table is compared with the one that it was resized from"
        raise ParameterError("spec", "given", rule, "leave it out, or resized_from")
    return verify_resized(given, tolerance, **options)


def _config_beside(given: Given) -> str | None:
    """Return the configuration in a folder of tensors, beside an index, or in the header of a .gguf file."""
    if not isinstance(given, (str, os.PathLike)):
        return None
    path = split_name(os.fspath(given))[0]
    if not os.path.isdir(path) and not path.lower().endswith((INDEX, ".gguf")):
        return None
    from pecli.models.config_files import config_file

    return config_file(path) or None


def _verify_by_config(
    given: Given, config: str, tolerance: Tolerance, reasons: bool, **options: Any
) -> Verification:
    """Compare tensors with the configuration beside them."""
    result = _verify_model(given, config, tolerance, reasons, **options)
    if not result.passed or not config.lower().endswith(".gguf"):
        return result
    # Factors of a .gguf file are all that its header states of a scaling.
    if any(tensor.name.endswith("/inv_freq") for tensor in result.tensors):
        return result.with_doubts([FactorsOfHeader()])
    return result


def _is_added(spec: object) -> "TypeGuard[Scheme | Array]":
    """Return True if rows of a scheme, or of a learned table, are added to inputs."""
    if isinstance(spec, Scheme):
        return spec.applied_as == "rows"
    return hasattr(spec, "__array__") or hasattr(spec, "__dlpack__")


def _verify_model(
    given: Given, model: "Model", tolerance: Tolerance, reasons: bool, **options: Any
) -> Verification:
    before = options.pop("before", None)
    if before is not None:
        from pecli.checks.verify.rotated import verify_rotated

        return verify_rotated(given, before, model, tolerance, reasons, **options)
    source = opened(given)
    if is_recorded_run(source.file.tensors):
        return _verify_recorded(source, model, tolerance, reasons, **options)
    rotated = split_by_names(source.file)
    if rotated is not None and _rotates(model):
        return _verify_pairs(source.label, rotated, model, tolerance, reasons, **options)
    from pecli.checks.verify.against_model import verify_tables

    for name in ROTATION_OPTIONS:
        if options.pop(name, None) is not None:
            rule = "it is about queries and keys"
            raise ParameterError(name, "given", rule, "give `before`, too")
    allowed = printed_tolerance(source.label, tolerance, source.file.rounding)
    return verify_tables(source, model, allowed, reasons, **options)


def _verify_recorded(
    source: Opened, model: "Model", tolerance: Tolerance, reasons: bool, **options: Any
) -> Verification:
    """Compare a run that `record` has saved with a model."""
    from pecli.checks.recorded.run_verification import verify_run

    for name, value in options.items():
        if value is not None:
            raise ParameterError(name, "given", "a recorded run states it itself", "leave it out")
    run = RecordedRun.of(source.file.tensors)
    return verify_run(run, model, tolerance, reasons, source.label or "arrays")


def _rotates(model: "Model") -> bool:
    from pecli.models.find import load_model

    return bool(load_model(model).ropes())


def _verify_pairs(
    label: str,
    file: RotatedFile,
    model: "Model",
    tolerance: Tolerance,
    reasons: bool,
    **options: Any,
) -> Verification:
    """Compare queries and keys of a file with those before, and its tables, if it has some."""
    if file.after.parts:
        from pecli.checks.verify.printed_elements import verify_printed

        return verify_printed(label, file.after, file.before, model, tolerance, **options)
    from pecli.checks.verify.rotated import verify_rotated

    after = Opened(label, file.after)
    before = Opened(label, file.before)
    result = verify_rotated(after, before, model, tolerance, reasons, **options)
    if not any(role_of(name) for name in file.others.tensors):
        return replace(result, unchecked=(*result.unchecked, *file.others.tensors))
    others = Opened(label, file.others)
    return _joined(result, _verify_model(others, model, tolerance, reasons, **options))


def _joined(first: Verification, second: Verification) -> Verification:
    """Return the answers about two parts of a file as one."""
    return replace(
        first,
        tensors=(*first.tensors, *second.tensors),
        problems=(*first.problems, *second.problems),
        reasons=(*first.reasons, *second.reasons),
        readings={**first.readings, **second.readings},
        explanations=(*first.explanations, *second.explanations),
        weak=(*first.weak, *second.weak),
        unchecked=(*first.unchecked, *second.unchecked),
    )
