"""A file compared with the spec that it carries."""

from collections.abc import Mapping

from pecli.checks.checked_tensor import CheckedTensor
from pecli.checks.conclusion import make_answer
from pecli.checks.digest import compute_digest
from pecli.checks.file_problems import (
    ChangedAfterWriting,
    FileProblem,
    MissingTensor,
    UnexpectedTensor,
)
from pecli.checks.verification import Verification
from pecli.compare.comparison import compare_arrays
from pecli.compare.tolerance import Tolerance
from pecli.engine.schemes.scheme import Scheme, tensors_by_name
from pecli.errors import FileError, ParameterError
from pecli.files.contents import LoadedFile, carried_spec

UNHASHED_FORMATS = ("json", "h", "zarr")  #: formats that carry the spec without a sha256


def verify_carried(
    path: str, file: LoadedFile, tolerance: Tolerance, *, is_complete: bool, reasons: bool
) -> Verification:
    """Compare every tensor of a file with the spec that the file carries.

    A file that pecli wrote has the scheme in its metadata, with the parameters and the sha256 of
    all tensors. The hash also detects changes that a tolerance lets pass.

    Args:
        path: The file, as it was given.
        file: Its tensors.
        tolerance: The errors that pass.
        is_complete: True if no tensor may be missing, and the sha256 must agree; False for one
            tensor of a file.
        reasons: Whether reasons for failures are searched for.
    """
    spec = _read_carried_spec(path, file)
    scheme = _read_scheme(path, spec)
    checked = _check_tensors(file, scheme, tolerance)
    problems = _find_other_tensors(file, scheme, is_complete=is_complete)
    # Of a tensor that is missing, or of another shape, the hash differs as well.
    is_comparable = not problems and not any(tensor.result.finding for tensor in checked)
    if is_complete and is_comparable and not _has_stored_hash(spec, file):
        problems.append(ChangedAfterWriting())
    return make_answer(path, scheme.name, checked, tolerance, problems, search_reasons=reasons)


def _check_tensors(file: LoadedFile, scheme: Scheme, tolerance: Tolerance) -> list[CheckedTensor]:
    """Compare the tensors of a file that have the name of a table of a scheme with that table."""
    expected = tensors_by_name(scheme)
    checked = []
    for name, array in file.tensors.items():
        if name in expected:
            result = compare_arrays(expected[name], array, tolerance, name=name)
            checked.append(
                CheckedTensor(tensor=name, result=result, scheme=scheme, found_tables={name: array})
            )
    return checked


def _find_other_tensors(
    file: LoadedFile, scheme: Scheme, *, is_complete: bool
) -> list[FileProblem]:
    """Return a problem for each tensor that the scheme does not make, and for each that the file lacks.

    Args:
        file: The file.
        scheme: The scheme that it carries.
        is_complete: False if the user named one tensor of the file: then none is missing.
    """
    expected = tensors_by_name(scheme)
    names = sorted(file.tensors.keys() - expected.keys())
    problems: list[FileProblem] = [UnexpectedTensor(name, scheme.name) for name in names]
    if is_complete:
        problems += map(MissingTensor, sorted(expected.keys() - file.tensors.keys()))
    return problems


def _has_stored_hash(spec: Mapping[str, object], file: LoadedFile) -> bool:
    """Return True if the sha256 in a spec is that of a file's tensors, or its format has none."""
    if "sha256" not in spec and file.format in UNHASHED_FORMATS:
        return True
    return spec.get("sha256") == compute_digest(file.tensors.values())


def _read_carried_spec(path: str, file: LoadedFile) -> Mapping[str, object]:
    """Return the spec that a file carries; raise FileError if there is none."""
    spec = carried_spec(file.path, file.metadata)
    if spec is None:
        advice = "say what it should be: --config FILE, --model NAME, pecli rope … --verify FILE, or in Python a scheme"
        raise FileError(path, "carries no pecli spec", advice)
    return spec


def _read_scheme(path: str, spec: Mapping[str, object]) -> Scheme:
    """Return the scheme of a carried spec; raise FileError if it makes no table."""
    try:
        scheme: Scheme = Scheme.from_spec(spec)
    except ParameterError as problem:
        raise FileError(path, f"carries a spec that makes no table ({problem})") from None
    return scheme
