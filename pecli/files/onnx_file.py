"""The initialisers and constants of an .onnx file, with their data inside or in a file beside it.

The `onnx` package parses the file; the sizes that it claims are checked first.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import Array, dtype_name
from pecli.errors import quoted
from pecli.files.contents import Contents, LoadedFile, UnreadTensor, package, read_contents

ProtobufMessage = Any
"""A ModelProto, GraphProto or TensorProto; the package that defines them may be missing."""

_UNREAD = frozenset({0, 8, 21, 22, 23, 24, 25, 26})
"""Types without a NumPy dtype: undefined, texts, and those of less than a byte."""
MAX_TENSORS = 1 << 17  # A tensor takes much more memory than it may take in the file.


def read(contents: Contents) -> LoadedFile:
    """Return the tensors that a model holds (initialisers and constants), and a list of unread ones.

    Raises:
        FileError: the onnx package is not installed, the file is no model, or a tensor is not as
            large as it claims.
    """
    missing = contents.error("is an .onnx file, which the onnx package reads", "pip install onnx")
    onnx = package("onnx", missing)
    model = _parsed_model(onnx, contents)
    readable_types = set(onnx.TensorProto.DataType.values()) - _UNREAD
    tensors: dict[str, Array] = {}
    unread: dict[str, UnreadTensor] = {}
    open_once = cache(read_contents)  # One file beside the model can hold many tensors.
    for name, tensor in _tensors_by_name(contents, model.graph).items():
        if tensor.data_type in readable_types:
            tensors[name] = _array_of_tensor(onnx, contents.tensor(name), tensor, open_once)
        else:
            dtype = f"onnx type {tensor.data_type}"
            unread[name] = UnreadTensor(name, dtype, shape=tuple(tensor.dims), nbytes=None)
    return LoadedFile(contents.path, "onnx", tensors, unread=tuple(unread.values()))


def _tensors_by_name(contents: Contents, graph: ProtobufMessage) -> dict[str, ProtobufMessage]:
    """Return the TensorProtos of a graph; refuse two of one name, and too many."""
    tensors: dict[str, ProtobufMessage] = {}
    for name, tensor in _named_tensors(graph):
        contents.refuse_if(len(tensors) >= MAX_TENSORS, f"has more than {MAX_TENSORS} tensors")
        contents.refuse_if(name in tensors, f"names the tensor {quoted(name)} twice")
        tensors[name] = tensor
    return tensors


def _parsed_model(onnx: ModuleType, contents: Contents) -> ProtobufMessage:
    """Return the model in an .onnx file, which is a protobuf message (a ModelProto)."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(bytes(contents.data))
    except Exception:  # protobuf's DecodeError, which has another module in every version
        raise contents.error("is truncated, or not an .onnx file") from None
    contents.require(
        model.HasField("graph"),
        "is an .onnx file without a graph, or another file of that name",
    )
    return model


def _named_tensors(graph: ProtobufMessage) -> Iterator[tuple[str, ProtobufMessage]]:
    """Yield the names and TensorProtos of a graph: initialisers, then values of constants."""
    for tensor in graph.initializer:
        yield _text(tensor.name), tensor
    for node in graph.node:
        if node.op_type == "Constant":
            name = node.output[0] if node.output else node.name
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield _text(name), attribute.t


def _text(value: str | bytes) -> str:
    """Return a text of the message; protobuf leaves a text that is not UTF-8 as bytes."""
    if isinstance(value, str):
        return value
    return value.decode("utf-8", "replace")


def _array_of_tensor(
    onnx: ModuleType,
    contents: Contents,
    tensor: ProtobufMessage,
    open_once: Callable[[str], Contents],
) -> Array:
    """Return the elements of a TensorProto, which are in the model or in a file beside it.

    Args:
        onnx: The package.
        contents: The model's file; its errors name this tensor.
        tensor: The TensorProto.
        open_once: Returns the contents of a file beside the model.
    """
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    shape = tuple(tensor.dims)
    size = contents.data_bytes(shape, dtype.itemsize)  # This refuses shapes beyond all limits.
    is_inside_model = tensor.data_location != onnx.TensorProto.EXTERNAL
    if is_inside_model:
        with _any_error_refused(contents):
            return np.asarray(onnx.numpy_helper.to_array(tensor))
    with _any_error_refused(contents):
        place = _place_beside(tensor, size)
    file = open_once(contents.path_beside(place.file))
    has_stated_size = place.length == size
    contents.require(
        has_stated_size,
        f"needs {size} bytes, and its entry states {place.length} in {quoted(place.file)}",
    )
    available = len(file.data)
    is_within_file = 0 <= place.offset <= available - size
    contents.require(
        is_within_file,
        f"needs {size} bytes from byte {place.offset} of {quoted(place.file)}, which has {available}",
    )
    return file.array(dtype_name(dtype), shape, place.offset)


@contextmanager
def _any_error_refused(contents: Contents) -> Iterator[None]:
    """Turn any exception into a FileError about a tensor: a wrong count of numbers can cause any."""
    try:
        yield
    except Exception as problem:
        raise contents.error(f"cannot be read: {' '.join(str(problem).split())}") from None


class _PlaceBeside(NamedTuple):
    """A place in a file beside the model."""

    file: str
    offset: int
    length: int


def _place_beside(tensor: ProtobufMessage, size: int) -> _PlaceBeside:
    """Return where the bytes of a tensor are in a file beside the model, as its entry states.

    The entry has texts such as location: weights.bin, offset: 4096. Without an offset and a length,
    they are `size` bytes from the beginning.
    """
    texts = {_text(entry.key): _text(entry.value) for entry in tensor.external_data}
    return _PlaceBeside(
        file=texts.get("location", ""),
        offset=int(texts.get("offset") or 0),
        length=int(texts.get("length") or size),
    )
