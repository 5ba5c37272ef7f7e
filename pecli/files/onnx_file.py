"""The initialisers and constants of an .onnx file, with their data inside or in a file beside it. The `onnx` package
reads them; what they claim is compared with what is there first."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from pecli.engine.arrays import Array, dtype_name
from pecli.errors import quoted
from pecli.files.contents import Contents, LoadedFile, UnreadTensor, package, read_contents

_UNREAD = frozenset({0, 8, 21, 22, 23, 24, 25, 26})  # no type, texts, and types of less than a byte
MAX_TENSORS = 1 << 17  # each of which takes much more memory than it may take in the file


def read(contents: Contents) -> LoadedFile:
    """The initialisers and constants of a model, and those that are only named."""
    onnx = package(
        "onnx", contents.error("is an .onnx file, which the onnx package reads", "pip install onnx")
    )
    model = onnx.ModelProto()
    try:
        model.ParseFromString(bytes(contents.data))
    except Exception:  # protobuf's own DecodeError
        raise contents.error("is truncated, or not an .onnx file") from None
    contents.refuse_if(
        not model.HasField("graph"),
        "is an .onnx file without a graph, or another file of that name",
    )
    tensors: dict[str, Array] = {}
    unread: dict[str, UnreadTensor] = {}
    opened = cache(read_contents)  # of a file beside it, which may hold many tensors
    for name, tensor in _tensors(model.graph):
        contents.refuse_if(
            len(tensors) + len(unread) >= MAX_TENSORS, f"has more than {MAX_TENSORS} tensors"
        )
        contents.refuse_if(
            name in tensors or name in unread, f"names the tensor {quoted(name)} twice"
        )
        if (
            tensor.data_type in _UNREAD
            or tensor.data_type not in onnx.TensorProto.DataType.values()
        ):
            unread[name] = UnreadTensor(
                name, f"onnx type {tensor.data_type}", tuple(tensor.dims), None
            )
        else:
            tensors[name] = _array(onnx, contents.tensor(name), tensor, opened)
    return LoadedFile(contents.path, "onnx", tensors, unread=tuple(unread.values()))


def _tensors(graph: Any) -> Iterator[tuple[str, Any]]:
    for tensor in graph.initializer:
        yield _text(tensor.name), tensor
    for node in graph.node:
        for attribute in node.attribute:
            if (node.op_type, attribute.name) == ("Constant", "value") and attribute.HasField("t"):
                yield _text(next(iter(node.output), node.name)), attribute.t


def _text(value: str | bytes) -> str:
    """A text of the message; protobuf leaves those that are not UTF-8 as bytes."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _array(onnx: Any, contents: Contents, tensor: Any, opened: Callable[[str], Contents]) -> Array:
    dtype, shape = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type), tuple(tensor.dims)
    size = contents.data_bytes(shape, dtype.itemsize)
    said = {_text(entry.key): _text(entry.value) for entry in tensor.external_data}
    try:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            return np.asarray(onnx.numpy_helper.to_array(tensor))
        offset, length = int(said.get("offset") or 0), int(said.get("length") or size)
    except Exception as problem:  # whatever a wrong count of numbers leads to
        raise contents.error(f"cannot be read: {' '.join(str(problem).split())}") from None
    data = opened(contents.path_beside(said.get("location", "")))
    beyond = offset < 0 or length != size or offset + size > len(data.data)
    there = f"{quoted(said['location'])}, which has {len(data.data)}"
    contents.refuse_if(beyond, f"needs {size} bytes from byte {offset} of {there}")
    return data.array(dtype_name(dtype), shape, offset)
