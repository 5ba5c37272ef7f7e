"""A file, or arrays, compared with what they should be: a scheme, a model, or the spec that the file carries."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard, cast

from pecli.checks.doubts import FactorsOfHeader
from pecli.checks.printed import widen_for_printed
from pecli.checks.recorded.run_tensors import RecordedRun, is_recorded_run
from pecli.checks.verification import Verification
from pecli.checks.verify.against_scheme import verify_scheme
from pecli.checks.verify.against_spec import verify_carried
from pecli.checks.verify.named_pairs import RotatedFile, split_by_names
from pecli.checks.verify.table_settings import refuse_options
from pecli.compare.tolerance import Tolerance, tolerance_of
from pecli.engine.arguments import flag_of, within_limits
from pecli.engine.arrays import Array
from pecli.engine.named_values import NamedValues
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError
from pecli.files.contents import INDEX, LoadedFile
from pecli.files.load import NO_FILE, Given, Opened, opened, split_name
from pecli.files.tensor_roles import role_of

if TYPE_CHECKING:
    from pecli.models.find import Model

__all__ = ["Verification", "verify"]
ROTATION_OPTIONS = {"seq_axis", "shift"}
"""Options of queries and keys, which require the tensors before the rotation."""


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
        given: A file, one tensor of it with `FILE:NAME`, an array, arrays by name, or a torch
            module, which is searched for its tables. A file that `record` has saved is checked
            layer by layer.
        spec: A scheme; a model, as `load_config` and `load_model` return or accept it; or a learned
            table (rows, D), with `before`. Without it, a file is compared with the spec that it
            carries, and a folder or an index with the configuration beside it.
        tolerance: The errors that pass; exact by default.
        atol: Instead of `tolerance`, an absolute error.
        rtol: Instead of `tolerance`, a relative error.
        max_ulp: Instead of `tolerance`, an error in ULPs.
        any_dtype: Make a scheme's tables in the dtype that was found; if False, another dtype is a
            finding.
        reasons: Whether reasons for failures are searched for.
        strict: Fail a check that is too weak to rule out a known mistake; the result's `weak` names
            it.
        model_options: Options of one kind of check. For the tables of a model: `layer_type`,
            `offset`, `length`, `recipe`, `runtime`, `layout`, `positions`, `attention_mask` and
            `grid`.

            For queries or keys of a model: `before`, the same before the rotation, with `seq_axis`,
            their axis of positions, and `positions`, an `attention_mask` that counts tokens, or a
            `shift` that moves them.

            For inputs to which rows of a scheme or of a learned table were added: `before`, the
            inputs without them, with `positions`, an `attention_mask` or an `offset`.

            For a learned table that was resized, without a spec: `resized_from`, the table before,
            with its `grid`, the new grid `to`, and `keep`, the rows before the grid. The
            interpolation is named; `method`, `antialias`, `align_corners` and `scale_offset`
            require one.

    Returns:
        A result that is true if everything agrees.

    Raises:
        FileError: If a file cannot be read, or carries no spec.
        ParameterError: If an option breaks its rule, or does not go with the others.

    >>> import pecli
    >>> tables = pecli.Rope(seq_len=4, dim=8).tables()
    >>> pecli.verify(tables, pecli.Rope(seq_len=4, dim=8, theta=500000)).passed
    False
    """
    allowed = tolerance_of(tolerance, max_ulp, atol, rtol)
    any_dtype = flag_of("any_dtype", any_dtype)
    reasons = flag_of("reasons", reasons)
    strict = flag_of("strict", strict)
    options = {name: value for name, value in model_options.items() if value is not None}
    result = _verify_by_kind(given, spec, allowed, any_dtype, reasons, options)
    return replace(result, strict=strict)


def _verify_by_kind(
    given: Given,
    spec: "Scheme | Model | Array | None",
    allowed: Tolerance,
    any_dtype: bool,
    reasons: bool,
    options: NamedValues,
) -> Verification:
    """Choose the kind of check by the arguments of `verify`, and run it.

    The kinds are: a resized table; a file against its own spec or configuration; inputs with rows
    added; the tables of a scheme; and a model's tables, rotated vectors or recorded runs.
    """
    if "resized_from" in options:
        return _verify_resized(given, spec, allowed, options)
    if spec is None:
        return _verify_without_spec(given, allowed, reasons, options)
    target = spec
    # A scheme may be given as the JSON that a file carries.
    if isinstance(spec, Mapping) and {"scheme", "parameters"} <= spec.keys():
        target = Scheme.from_spec(spec)
    if "before" in options and _has_rows_to_add(target):
        from pecli.checks.verify.added import verify_added  # It imports all searches.

        return verify_added(given, target, allowed, reasons, **options)
    if isinstance(target, Scheme):
        _refuse_model_options(options)
        return _open_and_verify_scheme(given, target, allowed, any_dtype, reasons)
    model = cast("Model", target)  # An array is refused when the model is loaded.
    return _verify_model(given, model, allowed, reasons, options)


def _verify_without_spec(
    given: Given, tolerance: Tolerance, reasons: bool, options: NamedValues
) -> Verification:
    """Compare a file with the configuration beside it, or else with the spec that it carries."""
    config = _find_config_beside(given)
    if config:
        return _verify_by_config(given, config, tolerance, reasons, options)
    _refuse_model_options(options)
    return _verify_carried(given, tolerance, reasons)


def _open_and_verify_scheme(
    given: Given, scheme: Scheme, tolerance: Tolerance, any_dtype: bool, reasons: bool
) -> Verification:
    """Read a file, if arrays are not given, and compare it with the tables of a scheme.

    Args:
        given: A file, or arrays.
        scheme: The expected scheme.
        tolerance: The errors that pass.
        any_dtype: True if tables are expected in the dtype that is found.
        reasons: True if reasons for failures are searched for.
    """
    label, file = opened(given)
    typed_file = file.read_as(scheme.dtype)  # Text states no dtype of its numbers.
    # Numbers that were printed with 4 decimals cannot equal a table exactly.
    allowed = widen_for_printed(label, tolerance, file.rounding)
    return verify_scheme(
        label,
        typed_file,
        scheme,
        allowed,
        is_one_tensor=_is_one_tensor(label, file),
        any_dtype=any_dtype,
        reasons=reasons,
    )


def _refuse_model_options(options: Iterable[str]) -> None:
    """Raise KindError for an option that only goes with a model."""
    refuse_options(options, "it belongs to a model", "give one, or a config dict, to compare with")


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
    given: Given, spec: object, tolerance: Tolerance, options: NamedValues
) -> Verification:
    """Compare a table with the one that it was resized from."""
    from pecli.checks.verify.resized import verify_resized

    if spec is not None:
        rule = "a table is compared with the one that it was resized from"
        raise ParameterError("spec", "given", rule, "leave it out, or resized_from")
    return verify_resized(given, tolerance, **options)


def _find_config_beside(given: Given) -> str:
    """Return the file that is the configuration of a folder of tensors, an index, or a .gguf file.

    The header of a .gguf file is its own configuration: `m.gguf` for `m.gguf`. Of the folder
    `llama`, it is `llama/config.json`. The result is empty if there is none, or arrays are given.
    """
    if not isinstance(given, (str, os.PathLike)):
        return ""
    path = split_name(os.fspath(given))[0]
    if not os.path.isdir(path) and not path.lower().endswith((INDEX, ".gguf")):
        return ""
    from pecli.models.config_files import config_file

    return config_file(path)


def _verify_by_config(
    given: Given, config: str, tolerance: Tolerance, reasons: bool, options: NamedValues
) -> Verification:
    """Compare tensors with the configuration beside them.

    A .gguf file is its own configuration. Of a scaling such as llama3's it states only the factors
    of the frequencies, and the same factors are then checked: such a pass is weak, as a converter
    that computed wrong factors would pass as well.
    """
    result = _verify_model(given, config, tolerance, reasons, options)
    has_factors = any(tensor.name.endswith("/inv_freq") for tensor in result.tensors)
    if config.lower().endswith(".gguf") and has_factors:
        return result.with_doubts([FactorsOfHeader()])
    return result


def _has_rows_to_add(spec: object) -> "TypeGuard[Scheme | Array]":
    """Return True if rows of a scheme, or of a learned table, are added to inputs."""
    if isinstance(spec, Scheme):
        return spec.applied_as == "rows"
    return hasattr(spec, "__array__") or hasattr(spec, "__dlpack__")


def _verify_model(
    given: Given, model: "Model", tolerance: Tolerance, reasons: bool, options: NamedValues
) -> Verification:
    """Compare with a model: rotated vectors with those before, a recorded run, or tables.

    Names decide what a file holds: `calls.0.positions` a recorded run, `q_before` and `q_after`
    vectors. Anything else is compared with the model's tables.
    """
    other_options = dict(options)
    vectors_before = other_options.pop("before", None)
    if vectors_before is not None:
        from pecli.checks.verify.rotated import verify_rotated

        return verify_rotated(given, vectors_before, model, tolerance, reasons, other_options)
    source = opened(given)
    if is_recorded_run(source.file.tensors):
        return _verify_recorded(source, model, tolerance, reasons, other_options)
    vectors = split_by_names(source.file)
    if vectors is not None and _has_rotary_encoding(model):
        return _verify_vectors(source.label, vectors, model, tolerance, reasons, other_options)
    return _verify_tables(source, model, tolerance, reasons, other_options)


def _verify_tables(
    source: Opened, model: "Model", tolerance: Tolerance, reasons: bool, options: NamedValues
) -> Verification:
    """Compare the tables of a file with those of a model.

    Raises:
        KindError: If an option is given that only goes with queries and keys.
    """
    from pecli.checks.verify.against_model import verify_tables  # It imports all schemes.

    rotation_options = sorted(ROTATION_OPTIONS & options.keys())
    refuse_options(rotation_options, "it is about queries and keys", "give `before`, too")
    # Numbers that were printed in a text are as coarse as their digits, which must not fail them.
    allowed = widen_for_printed(source.label, tolerance, source.file.rounding)
    return verify_tables(source, model, allowed, reasons, **options)


def _verify_recorded(
    source: Opened, model: "Model", tolerance: Tolerance, reasons: bool, options: NamedValues
) -> Verification:
    """Compare a run that `record` has saved with a model, module by module.

    Raises:
        KindError: If an option is given, as a run holds its own positions and layers.
    """
    from pecli.checks.recorded.run_verification import verify_run

    refuse_options(options, "a recorded run states it itself", "leave it out")
    run = RecordedRun.of(source.file.tensors)
    return verify_run(run, model, tolerance, reasons, source.label or "arrays")


def _has_rotary_encoding(model: "Model") -> bool:
    from pecli.models.find import load_model

    return bool(load_model(model).ropes())


def _verify_vectors(
    label: str,
    file: RotatedFile,
    model: "Model",
    tolerance: Tolerance,
    reasons: bool,
    options: NamedValues,
) -> Verification:
    """Compare queries and keys of a file with the rotation of those before, in the same file.

    Its tables, `cos` and `sin`, are compared as well, if there are some. Without tables, its other
    tensors are listed as not checked.

    Args:
        label: The file, as it was given.
        file: Its tensors before the rotation, after it, and the others.
        model: The model that rotates them.
        tolerance: The errors that pass.
        reasons: True if reasons for failures are searched for.
        options: The options of the user, which hold for vectors and for tables.
    """
    holds_only_some_elements = bool(file.after.parts)  # as a log of llama.cpp does
    if holds_only_some_elements:
        from pecli.checks.verify.printed_elements import verify_printed

        return verify_printed(label, file.after, file.before, model, tolerance, options)
    from pecli.checks.verify.rotated import verify_rotated

    after = Opened(label, file.after)
    before = Opened(label, file.before)
    vectors_answer = verify_rotated(after, before, model, tolerance, reasons, options)
    names_of_others = tuple(file.others.tensors)
    has_tables = any(map(role_of, names_of_others))
    if not has_tables:
        return replace(vectors_answer, unchecked=(*vectors_answer.unchecked, *names_of_others))
    others = Opened(label, file.others)
    tables_answer = _verify_model(others, model, tolerance, reasons, options)
    return _join_answers(vectors_answer, tables_answer)


def _join_answers(of_vectors: Verification, of_tables: Verification) -> Verification:
    """Return one answer about a file that holds both rotated vectors and tables."""
    return replace(
        of_vectors,
        tensors=(*of_vectors.tensors, *of_tables.tensors),
        problems=(*of_vectors.problems, *of_tables.problems),
        reasons=(*of_vectors.reasons, *of_tables.reasons),
        readings={**of_vectors.readings, **of_tables.readings},
        explanations=(*of_vectors.explanations, *of_tables.explanations),
        weak=(*of_vectors.weak, *of_tables.weak),
        unchecked=(*of_vectors.unchecked, *of_tables.unchecked),
    )
