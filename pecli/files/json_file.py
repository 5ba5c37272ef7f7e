"""The .json format of pecli: every tensor with its data, dtype and shape, and the spec.

Infinities and NaN, which JSON lacks, are strings.
"""

import json
import re

import numpy as np

from pecli.engine.arrays import SIGNIFICAND_BITS, AnyArray, Array, numpy_dtype, round_to
from pecli.errors import FileError, quoted
from pecli.files.contents import Contents, LoadedFile
from pecli.files.decimals import (
    REAL,
    decimal_rows,
    spell_not_finite,
    whole_text,
    write_nested,
)
from pecli.files.formats import JSON_FORM
from pecli.files.output import KEY, is_text, open_output
from pecli.files.strict_json import parsed_json
from pecli.files.writing import WriteRequest, check_storable, compact

WORDS = {b"nan": b'"NaN"', b"-inf": b'"-Infinity"', b"inf": b'"Infinity"'}
NOT_FINITE = {"NaN": float("nan"), "-Infinity": -float("inf"), "Infinity": float("inf")}
MAX_LISTS = 4 << 20
"""Brackets, braces and quotes of a file: Python makes an object of a hundred bytes of each."""
MAX_TENSORS = 10_000
MAX_SIDE = 1 << 63
_OWN_FORM = re.compile(rb'"tensors"\s*:\s*\{')
_INTEGER = re.compile(r"u?int(8|16|32|64)")


def write(request: WriteRequest) -> None:
    """Write all tables, one row per line, and the spec that made them.

    Apart from line breaks, the file of a vector `a` is
    `{"tensors":{"a":{"data":[1.0,0.5],"dtype":"float32","shape":[2]}}}`.
    """
    check_storable(request.tables, ".json", REAL, empty=False)
    beginning = "{"
    if request.spec is not None:
        beginning = f'{{"{KEY}":{compact(dict(request.spec))},\n'
    with open_output(request.path, request.tables) as output:
        output.write(f'{beginning}"tensors":{{'.encode("ascii"))
        separator = "\n"
        for table in sorted(request.tables, key=lambda table: table.name):
            output.write(f'{separator}{compact(table.name)}:{{"data":'.encode("ascii"))
            write_nested(output, table, _literals, b"[]", request.on_block)
            dtype_and_shape = f',"dtype":"{table.dtype}","shape":{compact(table.shape)}}}'
            output.write(dtype_and_shape.encode("ascii"))
            separator = ",\n"
        output.write(b"}}\n")


def _literals(block: Array) -> list[bytes]:
    """Return the rows of a block as JSON has them, without brackets."""
    if block.dtype == np.bool_:
        return [compact(row).encode("ascii")[1:-1] for row in block.tolist()]
    return spell_not_finite(decimal_rows(block), WORDS)


def read(contents: Contents) -> LoadedFile:
    """Return the tensors of a .json file: one that pecli wrote, or an object of lists."""
    if _OWN_FORM.search(contents.data) is None:
        from pecli.files.plain_json import read_plain

        return read_plain(contents)
    return _read_pecli_json(contents)


def _read_pecli_json(contents: Contents) -> LoadedFile:
    """Return the tensors of a .json file that pecli wrote, and the parameters that made them.

    Raises:
        FileError: the file is too large for Python's parser, or is not of the form JSON_FORM.
    """
    text = whole_text(contents)
    # Each list, object and text has one of these marks, so that their count bounds the parser's memory.
    mark_count = sum(text.count(mark) for mark in (b"[", b"{", b'"'))
    contents.refuse_if(
        mark_count > MAX_LISTS,
        f"has more than {MAX_LISTS:,} lists and texts",
        "write .npz or .safetensors",
    )

    def error(problem: str) -> FileError:
        return contents.error(problem, JSON_FORM)

    match parsed_json(text, error, finite=False):
        case {"tensors": dict(tensors), **other_values}:
            pass
        case _:
            raise error("is not a .json file of tables")
    contents.refuse_if(len(tensors) > MAX_TENSORS, f"has more than {MAX_TENSORS} tensors")
    arrays = {name: _array_of_json(contents, name, tensor) for name, tensor in tensors.items()}
    has_parameters = KEY in other_values  # those of the scheme, as `write` adds them
    metadata = {KEY: json.dumps(other_values[KEY])} if has_parameters else {}
    return LoadedFile(contents.path, "json", arrays, metadata)


def _array_of_json(contents: Contents, name: str, tensor: object) -> Array:
    """Return a tensor of the form {"data": [[1.0]], "dtype": "float32", "shape": [1, 1]}.

    The shape is checked before an array is made of the data, and no other key is accepted.
    """
    match tensor:
        case {"data": data, "dtype": str(dtype), "shape": [*sides], **other_values} if (
            not other_values and is_text(name)
        ):
            shape = tuple(sides)
        case _:
            raise contents.error("has a tensor that is not one", JSON_FORM)
    tensor_contents = contents.tensor(name)  # Its errors name the tensor.
    _check_form(tensor_contents, dtype, shape)
    elements = _elements(tensor_contents, data, shape)
    if dtype in SIGNIFICAND_BITS:
        return _float_array(tensor_contents, elements, dtype).reshape(shape)
    return _integer_array(tensor_contents, elements, dtype).reshape(shape)


def _check_form(tensor_contents: Contents, dtype: str, shape: tuple[object, ...]) -> None:
    """Refuse a dtype that is not known, and a shape that no file can hold."""
    is_integer = dtype == "bool" or _INTEGER.fullmatch(dtype) is not None
    is_known = dtype in SIGNIFICAND_BITS or is_integer
    tensor_contents.require(is_known, f"has dtype {quoted(dtype)}, which is not known")
    lengths = [side for side in shape if type(side) is int and 0 <= side < MAX_SIDE]
    are_lengths = len(lengths) == len(shape)
    tensor_contents.require(are_lengths, "has a shape that is not a list of lengths")
    tensor_contents.refuse_impossible_shape(tuple(lengths), numpy_dtype(dtype).itemsize)


def _elements(tensor_contents: Contents, data: object, shape: tuple[int, ...]) -> AnyArray:
    """Return the elements of nested lists as a vector of Python objects."""
    nested = np.array(data, object)  # It leaves lists of unequal lengths as they are.
    tensor_contents.refuse_if(
        nested.shape != shape, f"is not nested as its shape, {shape}, asks for"
    )
    return nested.reshape(-1)


def _float_array(tensor_contents: Contents, elements: AnyArray, dtype: str) -> Array:
    """Return Python numbers and the texts "NaN", "Infinity" and "-Infinity" as an array.

    Any other text stays a text, which is refused.
    """
    if str in _types_of(elements):
        for index, element in enumerate(elements):
            if type(element) is str:
                elements[index] = NOT_FINITE.get(element, element)
    _check_types(tensor_contents, elements, {float, int}, dtype)
    numbers = np.asarray(_converted(tensor_contents, elements, "float64", dtype), np.float64)
    return round_to(numbers, dtype)


def _integer_array(tensor_contents: Contents, elements: AnyArray, dtype: str) -> Array:
    """Return Python integers or truth values as an array."""
    python_type = bool if dtype == "bool" else int
    _check_types(tensor_contents, elements, {python_type}, dtype)
    return _converted(tensor_contents, elements, dtype, dtype)


def _converted(
    tensor_contents: Contents, elements: AnyArray, dtype: str, stated_dtype: str
) -> Array:
    """Return Python numbers as an array; refuse those that the dtype of the file does not hold."""
    try:
        return elements.astype(dtype)
    except OverflowError:
        raise tensor_contents.error(f"holds a number that {stated_dtype} does not hold") from None


def _types_of(elements: AnyArray) -> set[type]:
    return set(map(type, elements))


def _check_types(
    tensor_contents: Contents, elements: AnyArray, accepted: set[type], dtype: str
) -> None:
    """Refuse elements of other types than those accepted; a truth value is no integer."""
    are_numbers = _types_of(elements) <= accepted
    tensor_contents.require(are_numbers, f"holds something that is not a number of {dtype}")
