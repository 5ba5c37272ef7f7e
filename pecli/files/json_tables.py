"""The .json format: the spec, and every tensor as nested lists; infinities and NaN, which JSON lacks, are strings.

{"pecli": {"scheme": "rope", …},
 "tensors": {"cos": {"data": [[1.0, 0.5]], "dtype": "float32", "shape": [1, 2]}}}
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from pecli.engine.arrays import SIGNIFICAND_BITS, Array, numpy_dtype, round_to
from pecli.engine.table import Table
from pecli.errors import FileError, ParameterError, quoted
from pecli.files.contents import Contents, LoadedFile, data_bytes, unique
from pecli.files.number_text import check_real, decimal_rows
from pecli.files.output import KEY, OnBlock, Output, Spec, Write, compact, is_text
from pecli.files.text_tables import whole_text, write_nested

JSON_FORM = (
    'a .json of tables has the form {"tensors": {"cos": {"data": [[1.0, 0.5]], "dtype": "float32", "shape": [1, 2]}}}'
)
"""What to do about JSON of another form."""
MAX_EMPTY = 1 << 20
"""How long the axes of a table without elements may be."""
MAX_LISTS = 4 << 20
"""Brackets, braces and quotes in a file: what they enclose becomes Python objects of a hundred bytes."""
MAX_TENSORS = 10_000
WORDS = {b"nan": b'"NaN"', b"-inf": b'"-Infinity"', b"inf": b'"Infinity"'}


def prepare(tables: Sequence[Table], spec: Spec | None) -> Write:
    """Writes all the tables, one row per line, and the spec that made them."""
    ordered = sorted(tables, key=lambda table: table.name)
    for table in ordered:
        check_real(table, ".json")
        if not table.size and math.prod(filter(None, table.shape)) > MAX_EMPTY:
            raise ParameterError("output", f".json for {table.shape}", "so many lists would all be empty", "write .npy")
    beginning = "{" if spec is None else f'{{"{KEY}":{compact(dict(spec))},\n'

    def write(output: Output, on_block: OnBlock | None) -> None:
        output.write((beginning + '"tensors":{').encode("ascii"))
        for place, table in enumerate(ordered):
            output.write(f'{"," if place else ""}\n{compact(table.name)}:{{"data":'.encode("ascii"))
            if table.size:
                write_nested(output, table, _literals, b"[]", on_block)
            else:
                output.write(compact(np.empty(table.shape).tolist()).encode("ascii"))
            output.write(f',"dtype":"{table.dtype}","shape":{compact(table.shape)}}}'.encode("ascii"))
        output.write(b"}}\n")

    return write


def _literals(block: Array) -> list[bytes]:
    if block.dtype == np.bool_:
        return [compact(row).encode("ascii")[1:-1] for row in block.tolist()]
    return decimal_rows(block, WORDS)


def read(contents: Contents) -> LoadedFile:
    """What pecli's own .json files hold: every tensor with its dtype and shape, and the spec."""
    text = whole_text(contents)
    if sum(text.count(mark) for mark in (b"[", b"{", b'"')) > MAX_LISTS:
        raise contents.error(f"has more than {MAX_LISTS:,} lists and texts", "write .npz or .safetensors")
    try:
        value = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError):
        raise contents.error("is broken, has a name twice, or is not JSON at all", JSON_FORM) from None
    match value:
        case {"tensors": dict(tensors)} if len(tensors) <= MAX_TENSORS:
            arrays = {name: _array(contents, name, tensor) for name, tensor in tensors.items()}
        case {"tensors": dict(_)}:
            raise contents.error(f"has more than {MAX_TENSORS} tensors")
        case _:
            raise contents.error("is not a .json file of tables", JSON_FORM)
    return LoadedFile(contents.path, "json", arrays, {KEY: json.dumps(value[KEY])} if KEY in value else {})


def _array(contents: Contents, name: str, tensor: Any) -> Array:
    def complain(problem: str) -> FileError:
        return contents.error(f"tensor {quoted(name)} {problem}")

    match tensor:
        case {"data": data, "dtype": str(dtype), "shape": [*sides]} if len(tensor) == 3 and is_text(name):
            shape = tuple(sides)
        case _:
            raise contents.error("has a tensor that is not one", JSON_FORM)
    if dtype not in (*SIGNIFICAND_BITS, "bool") and not re.fullmatch(r"u?int(8|16|32|64)", dtype):
        raise complain(f"has dtype {quoted(dtype)}, which is not known")
    if not all(type(side) is int and 0 <= side < 1 << 63 for side in shape):
        raise complain("has a shape that is not a list of lengths")
    data_bytes(shape, numpy_dtype(dtype).itemsize, complain)
    flat = [data]
    for side in shape:
        if not all(type(part) is list and len(part) == side for part in flat):
            raise complain(f"is not nested as its shape, {shape}, asks for")
        flat = list(chain.from_iterable(flat))
    return _numbers(dtype, flat, complain).reshape(shape)


def _numbers(dtype: str, flat: list[Any], complain: Any) -> Array:
    kinds = set(map(type, flat))
    is_float = dtype in SIGNIFICAND_BITS
    if str in kinds and is_float:
        special = {literal.decode().strip('"'): float(word) for word, literal in WORDS.items()}
        flat = [special.get(value, value) if type(value) is str else value for value in flat]
        kinds = set(map(type, flat))
    if not kinds <= ({float, int} if is_float else {bool} if dtype == "bool" else {int}):
        raise complain(f"holds something that is not a number of {dtype}")
    try:
        return round_to(np.array(flat, np.float64), dtype) if is_float else np.array(flat, dtype)
    except OverflowError:
        raise complain(f"holds a number that {dtype} does not hold") from None
