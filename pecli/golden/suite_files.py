"""Files of the golden suite: writing the tensors of a case, and reading them again."""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pecli.engine.arrays import SIGNIFICAND_BITS, round_to, widened
from pecli.engine.arrays import AnyArray as Array
from pecli.engine.named_values import JsonObject
from pecli.errors import FileError, failure
from pecli.files import save
from pecli.files.contents import Contents, read_contents
from pecli.files.load import load
from pecli.files.output import is_stream, open_output
from pecli.files.strict_json import MAX_DEPTH, parsed_json
from pecli.golden.cases import GoldenCase, cases
from pecli.golden.suite_index import INDEX, Entry, entry_json, is_shape, sha256_of, write_index

NARROW_DTYPES: tuple[str, ...] = ("float32", "float16", "bfloat16")
ALL_DTYPES = ("float64", *NARROW_DTYPES)
HEX = "hex"  # the list of float64 numbers as hexadecimal text
SMALLEST_FLOAT16 = 2.0**-24  # the step of the smallest numbers of float16
NO_NUMBERS = "has no shape and numbers"
NOT_FINITE = frozenset({"nan", "inf", "-inf"})  # texts for numbers that JSON lacks


def write(
    folder: str, models: Sequence[str] = (), formats: Sequence[str] = ("json",)
) -> list[JsonObject]:
    """Write a golden suite into a folder: one file per case and format, and index.json.

    Every file appears when it is complete. The index, which has the sha256 of each file, is written
    last. If the program stops before that, readers of an older suite in the folder notice it: the
    sha256 of the files that were written is not that of the older index.

    Args:
        folder: the folder, which is created if need be.
        models: only the cases of these models.
        formats: names of WRITERS.

    Returns:
        The entries of the index.
    """
    suite = list(cases(models))
    _make_folder(folder)
    for case in suite:
        for file in _file_names(case, formats).values():
            _refuse_pipe(os.path.join(folder, file))
    _refuse_pipe(os.path.join(folder, INDEX))
    entries = []
    for case in suite:
        digests = _write_case(folder, case, formats)
        entries.append(entry_json(case, digests))
    write_index(folder, entries)
    return entries


def _file_names(case: GoldenCase, formats: Sequence[str]) -> dict[str, str]:
    """Return the names of a case's files by format: {"json": "table-default.json"}."""
    return {name: f"{case.name}.{name}" for name in formats}


def _make_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except (OSError, ValueError) as problem:
        raise failure(folder, problem) from None


def _refuse_pipe(path: str) -> None:
    """Raise FileError for a pipe or a device; writing to a pipe would wait for its reader."""
    if is_stream(path):
        raise FileError(path, "is a pipe or a device", "remove it, or choose another folder")


def _write_case(folder: str, case: GoldenCase, formats: Sequence[str]) -> dict[str, str]:
    """Write a case in each format; return the sha256 of its files by name."""
    digests = {}
    for format_name, file in _file_names(case, formats).items():
        path = os.path.join(folder, file)
        write_file = WRITERS[format_name]
        write_file(path, case)
        digests[file] = sha256_of(path)
    return digests


def _write_json(path: str, case: GoldenCase) -> None:
    """Write the tensors of a case as JSON, with one list of correctly rounded numbers per dtype.

    A program that computes in float16 compares its results with the list of float16 numbers.
    """
    dtypes = _dtypes_in_json(case)
    tensors = {name: _numbers_by_dtype(array, dtypes) for name, array in case.tensors.items()}
    text = json.dumps({"name": case.name, "tensors": tensors}, separators=(",", ":"))
    with open_output(path) as output:
        output.write(f"{text}\n".encode())


def _dtypes_in_json(case: GoldenCase) -> tuple[str, ...]:
    """Return the dtypes in which the JSON of a case has its numbers."""
    if case.is_mistake:
        return ("float32",)  # Programs only have to reject these numbers, in any dtype.
    if case.is_rotation:
        # A rotation in float64 rounds more than once, so that its last digits may be wrong.
        return NARROW_DTYPES
    return ALL_DTYPES


def _numbers_by_dtype(array: Array, dtypes: Iterable[str]) -> dict[str, object]:
    """Return the shape of an array and its elements by dtype, for JSON.

    {"shape": [2], "decimal": [1.0, 0.1], "hex": ["0x1.0000000000000p+0",
    "0x1.999999999999ap-4"], "float32": [1.0, 0.1], …}; integers are there once, as "int".
    """
    values = array.reshape(-1)
    numbers: JsonObject = {"shape": list(array.shape)}
    if _is_integer(values):
        numbers["int"] = values.tolist()
        return numbers
    for dtype in dtypes:
        if dtype == "float64":
            doubles = values.tolist()
            numbers["decimal"] = _json_numbers(doubles)
            numbers[HEX] = [*map(float.hex, doubles)]
        else:
            rounded = round_to(values, dtype)
            numbers[dtype] = _json_numbers(_shortest_decimals(rounded))
    return numbers


def _shortest_decimals(values: Array) -> list[float]:
    """Return numbers of a narrow dtype as the float64 numbers with their shortest decimals.

    As a float64, the float32 number 0.1 is 0.10000000149011612, which JSON would have in full.
    """
    return [float(str(value)) for value in values]


def _is_integer(array: Array) -> bool:
    return array.dtype.kind in "iu"


def _json_numbers(values: Iterable[float]) -> list[float | str]:
    """Return numbers for JSON, which has no word for NaN and the infinities."""
    return [value if math.isfinite(value) else str(value) for value in values]


def _write_safetensors(path: str, case: GoldenCase) -> None:
    _save(path, case.tensors)


def _write_header(path: str, case: GoldenCase) -> None:
    """Write a C header: the tensors in float32, and what a test in C needs beside them.

    These are the positions and the base of the scheme, if it has them, and the tolerance.
    """
    arrays: dict[str, Array] = {}
    for name, array in case.tensors.items():
        arrays[name] = array if _is_integer(array) else round_to(array, "float32")
    for name in ("positions", "base"):
        value = case.scheme.value_of(name)
        if value is not None:
            arrays[name] = np.array(value, np.float64)
    arrays["tolerance"] = np.array(case.tolerances()["float32"])
    _save(path, arrays)


def _save(path: str, arrays: Mapping[str, Array]) -> None:
    """Save arrays, those without axes as vectors of one element."""
    save(path, {name: np.atleast_1d(array) for name, array in arrays.items()})


Writer = Callable[[str, GoldenCase], None]
WRITERS: dict[str, Writer] = {
    "json": _write_json,
    "safetensors": _write_safetensors,
    "h": _write_header,
}


DTYPES_WIDEST_FIRST: dict[str, type[np.generic]] = {
    "int": np.int32,
    "decimal": np.float64,
    "float32": np.float32,
}
"""Lists of numbers that a case may have, and the dtype of each; the first that is there is read."""


def read_tensors(entry: Entry) -> dict[str, Array]:
    """Return the tensors of a case, from its .json file or else from its first file."""
    for file in entry.files:
        if file.endswith(".json"):
            return _read_json(read_contents(entry.path(file)))
    return load(entry.path(next(iter(entry.files))))


def _read_json(contents: Contents) -> dict[str, Array]:
    """Return the tensors of a case from {"tensors": {NAME: {"shape": …, "decimal": …}, …}}."""
    match parsed_json(bytes(contents.data), contents.error, max_depth=MAX_DEPTH):
        case {"tensors": dict(entries)}:
            return {name: _read_tensor(contents.tensor(name), entries[name]) for name in entries}
        case _:
            raise contents.error("is not a case of a golden suite")


def _read_tensor(contents: Contents, entry: object) -> Array:
    """Return a tensor from JSON that lists its numbers once per dtype.

    {"shape": [2], "decimal": [1.0, 0.1], "float32": [1.0, 0.1]} becomes a float64 array, from
    `decimal`.

    Raises:
        FileError: There is no shape or no list, or two lists hold different numbers.
    """
    if not isinstance(entry, Mapping) or not is_shape(entry.get("shape")):
        raise contents.error(NO_NUMBERS)
    shape = tuple(entry["shape"])
    widest_list = next((name for name in DTYPES_WIDEST_FIRST if name in entry), None)
    if widest_list is None:
        raise contents.error(NO_NUMBERS)
    values = _list_of(contents, entry, widest_list)
    numbers = _read_array(contents, values, DTYPES_WIDEST_FIRST[widest_list], shape)
    # The other lists must be these numbers, each rounded to the list's dtype.
    _check_other_lists(contents, entry, numbers, widest_list)
    return numbers


def _list_of(contents: Contents, entry: Mapping[Any, object], name: str) -> list[object]:
    """Return one list of a tensor, such as its `hex` numbers."""
    values = entry[name]
    if not isinstance(values, list):
        raise contents.error(f"has no list of {name} numbers")
    return values


def _check_other_lists(
    contents: Contents, entry: Mapping[Any, object], numbers: Array, name: str
) -> None:
    """Raise a FileError unless the lists of all dtypes hold the same numbers, rounded.

    A port reads whichever list suits its language: a wrong one would fail a right port.

    Args:
        contents: The file, for the error.
        entry: The lists of a tensor by dtype, as JSON has them.
        numbers: The numbers of the widest list.
        name: The name of that list.
    """
    for list_name in (HEX, *NARROW_DTYPES):
        if list_name in entry:
            values = _list_of(contents, entry, list_name)
            is_right = _are_same_numbers(contents, values, numbers, list_name)
            problem = f"has {list_name} numbers that are not its {name} numbers"
            contents.require(is_right, problem)


def _are_same_numbers(
    contents: Contents, values: list[object], numbers: Array, list_name: str
) -> bool:
    """Return True if a list holds some numbers in hexadecimal, or in a narrower dtype.

    Lists narrower than float32 may be off by an ULP if the widest one is float32: its numbers were
    rounded from float64, which the file does not have, and rounding twice differs.

    Args:
        contents: The file, for errors.
        values: The list.
        numbers: The numbers of the widest list.
        list_name: `hex`, or the dtype of the list.
    """
    if list_name == HEX:
        return values == [*map(float.hex, numbers.reshape(-1).tolist())]
    stored = widened(round_to(_read_array(contents, values, np.float64, numbers.shape), list_name))
    rounded = widened(round_to(widened(numbers), list_name))
    if numbers.dtype == np.float64:
        return np.array_equal(stored, rounded, equal_nan=True)
    ulp = 2.0 ** (1 - SIGNIFICAND_BITS[list_name])  # relative to a power of two
    return bool(np.isclose(stored, rounded, rtol=ulp, atol=SMALLEST_FLOAT16, equal_nan=True).all())


def _read_array(
    contents: Contents, values: Sequence[object], dtype: type[np.generic], shape: tuple[int, ...]
) -> Array:
    """Return numbers of JSON as an array of a dtype and shape.

    Args:
        contents: The file, for the error.
        values: The numbers; texts such as "nan" stand for those that JSON lacks.
        dtype: The dtype.
        shape: The shape.

    Raises:
        FileError: If one is not a number, the dtype cannot hold it, or they do not fill the shape.
    """
    contents.require(all(map(_is_number, values)), "holds something that is not a number")
    fills_shape = math.prod(shape) == len(values)
    contents.require(fills_shape, f"has {len(values)} numbers, which is not its shape")
    contents.refuse_impossible_shape(shape, np.dtype(dtype).itemsize)
    try:
        return np.array(values, dtype).reshape(shape)
    except (OverflowError, ValueError):
        raise contents.error(f"holds a number that {np.dtype(dtype)} does not hold") from None


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return value in NOT_FINITE
    return type(value) in (int, float)
