"""The tensors of an .onnx file: initialisers and constants, with their data inside or in a file beside it.

The `onnx` package reads the message, and comes with the extra `pecli[onnx]`; what the message says is not trusted.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.table import Table, table_of
from pecli.errors import FileError, quoted
from pecli.files.checkpoints import path_beside
from pecli.files.source import Source, UnreadTensor, data_bytes, open_source, stored_table

MAX_BYTES = (1 << 31) - 1
"""Of a message, by the rules of protobuf."""
MAX_TENSORS, MAX_DEPTH = 1 << 17, 16

DTYPES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
}
"""By the number that a tensor has for them."""
_FIELDS = {
    "float32": "float_data",
    "complex64": "float_data",
    "float64": "double_data",
    "complex128": "double_data",
    "int64": "int64_data",
    "uint32": "uint64_data",
    "uint64": "uint64_data",
}
"""Where the numbers are that are not given as bytes; all others are in int32_data, small floats as their bits."""
_CONSTANTS = {"value_float": "float32", "value_floats": "float32", "value_int": "int64", "value_ints": "int64"}
"""Attributes of a Constant that are plain numbers."""


@dataclass
class OnnxFile:
    """What was found: tables, tensors that are only named, and the files beside that their data is in."""

    tables: list[Table] = field(default_factory=list)
    unread: list[UnreadTensor] = field(default_factory=list)
    beside: dict[str, Source] = field(default_factory=dict)


def read(source: Source) -> OnnxFile:
    """The initialisers and constants of a model, those of inner graphs included."""
    model = _parse(source)
    found = OnnxFile()
    try:
        names: set[str] = set()
        for name, tensor in _tensors(model.graph, ""):
            if name in names:
                raise source.error(f"names the tensor {quoted(name)} twice")
            names.add(name)
            if len(names) > MAX_TENSORS:
                raise source.error(f"has more than {MAX_TENSORS} tensors")
            if isinstance(tensor, np.ndarray):
                found.tables.append(table_of(name, tensor))
            elif tensor.data_type in DTYPES:
                found.tables.append(_table(source, name, tensor, found.beside))
            else:
                kind = f"onnx type {tensor.data_type}"
                found.unread.append(UnreadTensor(name, kind, tuple(tensor.dims), None))
    except BaseException:
        for other in found.beside.values():
            other.close()
        raise
    return found


def _parse(source: Source) -> Any:
    try:
        onnx, message = import_module("onnx"), import_module("google.protobuf.message")
    except ImportError:
        raise source.error(
            "is an .onnx file, which the onnx package reads", "install it with pip install 'pecli[onnx]'"
        ) from None
    size = source.size if source.size is not None else source.available(MAX_BYTES + 1)
    if size > MAX_BYTES:
        raise source.error("has more than 2 GiB, which no .onnx file has", "its data may be in files of its own")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(source.read(0, size))
    except message.DecodeError:
        raise source.error("is truncated, or not an .onnx file") from None
    if not model.HasField("graph"):
        raise source.error("is an .onnx file without a graph, or another file of that name")
    return model


def _tensors(graph: Any, prefix: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The tensors of a graph by name; those of inner graphs after the name of the node that holds them."""
    for tensor in graph.initializer:
        yield prefix + _text(tensor.name), tensor
    for node in graph.node:
        output = _text(next(iter(node.output), node.name))
        for attribute in node.attribute:
            if depth < MAX_DEPTH:
                for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                    yield from _tensors(inner, f"{prefix}{output}.{_text(attribute.name)}.", depth + 1)
            if node.op_type == "Constant" and attribute.name == "value" and attribute.HasField("t"):
                yield prefix + output, attribute.t
            elif node.op_type == "Constant" and attribute.name in _CONSTANTS:
                short = {"value_float": attribute.f, "value_int": attribute.i}
                long = attribute.floats if attribute.name == "value_floats" else attribute.ints
                yield prefix + output, np.array(short.get(attribute.name, long), _CONSTANTS[attribute.name])


def _text(value: str | bytes) -> str:
    """A text of the message; protobuf leaves those that are not UTF-8 as bytes."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _table(source: Source, name: str, tensor: Any, beside: dict[str, Source]) -> Table:
    def complain(problem: str) -> FileError:
        return source.error(f"tensor {quoted(name)} {problem}")

    dtype, shape = DTYPES[tensor.data_type], tuple(int(size) for size in tensor.dims)
    if any(size < 0 for size in shape):
        raise complain("has a negative length")
    size = data_bytes(shape, numpy_dtype(dtype).itemsize, complain)
    if tensor.data_location == 1:
        return _external(source, name, dtype, shape, size, tensor.external_data, beside)
    if tensor.HasField("raw_data"):
        if len(tensor.raw_data) != size:
            raise complain(f"needs {size} bytes, {len(tensor.raw_data)} are there")
    elif len(_field(tensor, dtype)) != math.prod(shape) * (2 if dtype.startswith("complex") else 1):
        raise complain(f"has {math.prod(shape)} elements, {len(_field(tensor, dtype))} are there")
    table = Table(name, dtype, shape, lambda start, out: None)

    @cache
    def rows() -> Array:
        return _numbers(tensor, dtype).reshape(table.rows, table.width)

    def fill(start: int, out: Array) -> None:
        out[...] = rows()[start : start + len(out)]

    return Table(name, dtype, shape, fill)


def _field(tensor: Any, dtype: str) -> Any:
    return getattr(tensor, _FIELDS.get(dtype, "int32_data"))


def _numbers(tensor: Any, dtype: str) -> Array:
    wanted = numpy_dtype(dtype)
    if tensor.HasField("raw_data"):
        raw: Array = np.frombuffer(tensor.raw_data, np.uint8)
        if dtype == "bool":
            return raw.astype(bool)
        return raw.view(wanted) if sys.byteorder == "little" else raw.view(wanted).byteswap()
    if dtype.startswith("complex"):
        return np.array(_field(tensor, dtype), np.float64).view(np.complex128).astype(wanted)
    if dtype in _FIELDS:
        return np.array(_field(tensor, dtype)).astype(wanted)
    values = np.array(_field(tensor, dtype), np.int64)
    if wanted.kind in "iub":
        return values.astype(wanted)
    return values.astype(f"u{wanted.itemsize}").view(wanted)


def _external(
    source: Source, name: str, dtype: str, shape: tuple[int, ...], size: int, entries: Any, beside: dict[str, Source]
) -> Table:
    """A tensor whose data is in a file of the same folder."""

    def complain(problem: str) -> FileError:
        return source.error(f"tensor {quoted(name)} {problem}")

    said = {_text(entry.key): _text(entry.value) for entry in entries}
    path = path_beside(os.path.dirname(source.path), said.get("location", ""), complain)
    if path not in beside:
        beside[path] = open_source(path)
    there = beside[path].size or 0
    try:
        offset, length = int(said.get("offset") or 0), int(said.get("length") or size)
    except ValueError:
        raise complain("has an offset or a length that is no number") from None
    if offset < 0 or length != size or offset + size > there:
        raise complain(f"needs {size} bytes from byte {offset} of {quoted(said['location'])}, which has {there}")
    return stored_table(beside[path], name, dtype, shape, offset)
