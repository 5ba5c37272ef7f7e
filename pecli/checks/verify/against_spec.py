"""A file compared with the spec that it carries."""

from collections.abc import Mapping
from hashlib import sha256

import numpy as np

from pecli.checks.verification import Checked, Verification, conclusion
from pecli.compare.comparison import compare_arrays
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import raw_bytes
from pecli.errors import FileError, ParameterError
from pecli.files.contents import LoadedFile, carried_spec

UNHASHED_FORMATS = ("json", "h", "zarr")  #: formats that carry the spec without a sha256
HASHED_BYTES = 1 << 22  #: bytes of a tensor that are hashed at once


def verify_carried(
    path: str, file: LoadedFile, tolerance: Tolerance, *, is_complete: bool, reasons: bool
) -> Verification:
    """Compare every tensor of a file with the spec that the file carries.

    Args:
        path: The file, as it was given.
        file: Its tensors.
        tolerance: The errors that pass.
        is_complete: True if no tensor may be missing, and the sha256 must agree; False for one tensor of a file.
        reasons: Whether reasons for failures are searched for.
    """
    spec = carried_spec(file.path, file.metadata)
    if spec is None:
        advice = "say what it should be: --config FILE, --model NAME, pecli rope … --verify FILE, or in Python a scheme"
        raise FileError(path, "carries no pecli spec", advice)
    try:
        scheme: Scheme = Scheme.from_spec(spec)
    except ParameterError as problem:
        raise FileError(path, f"carries a spec that makes no table ({problem})") from None
    expected = {table.name: table for table in scheme.tensors()}
    problems = [
        f"{name}: {scheme.name} has no such tensor" for name in file.tensors if name not in expected
    ]
    if is_complete:
        missing = [name for name in expected if name not in file.tensors]
        problems += [f"{name}: the tensor is missing" for name in missing]
    tensors = {name: array for name, array in file.tensors.items() if name in expected}
    checked = []
    for name, array in tensors.items():
        result = compare_arrays(expected[name], array, tolerance, name=name)
        checked.append(Checked(name, result, scheme, {name: array}))
    is_comparable = not problems and not any(each.result.finding for each in checked)
    is_hashed = "sha256" in spec or file.format not in UNHASHED_FORMATS
    if is_complete and is_hashed and is_comparable and spec.get("sha256") != _digest(tensors):
        problems.append(
            "the stored sha256 is not that of the data: the file was changed after it was written"
        )
    return conclusion(path, scheme.name, checked, tolerance, problems, reasons)


def _digest(tensors: Mapping[str, Array]) -> str:
    """Return the sha256 of the bytes of all tensors, in their order."""
    digest = sha256()
    for array in tensors.values():
        for rows in np.array_split(array, max(1, array.nbytes // HASHED_BYTES)):
            digest.update(raw_bytes(rows))
    return digest.hexdigest()
