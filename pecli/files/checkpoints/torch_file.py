"""What torch.save writes: an archive of one pickle, and the bytes of every storage.

The pickle's opcodes are looked through before it is loaded; its classes are admitted by name, and stand-ins of ours
take their place: nothing of torch is imported, nothing that the file names is run.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from pecli.engine.arrays import Array, numpy_dtype
from pecli.errors import FileError, quoted
from pecli.files.contents import Contents, data_bytes
from pecli.files.npz import Member

MAX_PICKLE = 64 << 20
MAX_OPCODES = 2_000_000
"""About 25 for each tensor, and some microseconds each."""
MAX_NESTING = 100
"""Of tuples, lists and dicts in the pickle: Python hashes and frees them recursively."""
MAX_DEPTH = 32
"""Of the containers that names are made of."""
MAX_NAME = 4096
MAX_NODES = 1_000_000
MAX_NAMES = 32 << 20
"""Items of containers that are looked at, and letters of all names together: containers are shared in a pickle, so that
a few bytes can stand for a tree without end.
"""
MAX_REPEATED = 64 << 20
"""Bytes that a tensor may have beyond those of its storage, as an expanded one does."""
SAFETENSORS = "write the tensors with safetensors.torch.save_file"

STORAGE_DTYPES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
BYTES = "bytes"
"""The dtype of a storage that leaves it to its tensors to say what the bytes are."""
_SMALL_DTYPES = {"float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"}
_DTYPES = frozenset({*STORAGE_DTYPES.values(), "uint16", "uint32", "uint64", *_SMALL_DTYPES})


class PickleError(ValueError):
    """The pickle holds something that is not read, or is broken; the text says what."""


class _Stateless:
    """A record whose fields a pickle cannot set: BUILD asks for `__setstate__` first."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> NoReturn:
        raise PickleError("sets the state of an object; it is not run")


@dataclass(frozen=True)
class Storage(_Stateless):
    """A run of numbers in a member of its own: its dtype, the member's key, and how many elements it has."""

    dtype: str
    key: str
    count: int


@dataclass(frozen=True)
class StridedTensor(_Stateless):
    """A view of a storage; offset and strides count elements of the tensor's dtype."""

    storage: Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def span(self) -> int:
        """How many elements lie between the first and the last, both included."""
        if not math.prod(self.shape):
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))


def read(contents: Contents, members: Mapping[str, Member]) -> dict[str, Array]:
    """The tensors of a file of torch.save by name; in nested dicts and lists that is their path, joined with dots."""
    root = next(name for name in members if name.endswith("/data.pkl")).removesuffix("data.pkl")
    order = _small_member(members, f"{root}byteorder", 16) or b"little"
    if order not in (b"little", b"big"):
        raise contents.error("has an unknown byte order")
    try:
        tensors = read_tensors(_small_member(members, f"{root}data.pkl", MAX_PICKLE) or b"")
    except PickleError as problem:
        raise contents.error(str(problem), SAFETENSORS) from None
    storages = {name.removeprefix(f"{root}data/"): member for name, member in members.items()}
    return {name: _array(contents, storages, name, tensor, order == b"big") for name, tensor in tensors.items()}


def _small_member(members: Mapping[str, Member], name: str, limit: int) -> bytes | None:
    """The bytes of a small member; None where there is none."""
    member = members.get(name)
    if member is None:
        return None
    if member.compressed or member.size > limit:
        raise member.contents.error(f"is compressed, or larger than {limit} bytes")
    return bytes(member.contents.data)


def _array(
    contents: Contents, storages: Mapping[str, Member], name: str, tensor: StridedTensor, big_endian: bool
) -> Array:
    def complain(problem: str) -> FileError:
        return contents.error(f"tensor {quoted(name)} {problem}")

    storage = tensor.storage
    itemsize = numpy_dtype(tensor.dtype).itemsize
    size = data_bytes(tensor.shape, itemsize, complain)
    member = storages.get(storage.key)
    if member is None:
        raise contents.error(f"has no member for the storage {quoted(storage.key)} of {quoted(name)}")
    if member.compressed or member.size != storage.count * (1 if storage.dtype == BYTES else itemsize):
        raise contents.error(f"the storage {quoted(storage.key)} of {quoted(name)} has not the size that it claims")
    if (tensor.offset + tensor.span) * itemsize > member.size:
        raise complain(f"reaches beyond its storage of {member.size} bytes")
    if size > member.size + MAX_REPEATED:
        raise complain(f"claims {size} bytes, of a storage of {member.size}")
    flat = member.contents.array(tensor.dtype, (tensor.span,), tensor.offset * itemsize, big_endian=big_endian)
    strides = [stride * itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(flat, tensor.shape, strides, writeable=False)


def read_tensors(data: bytes) -> dict[str, StridedTensor]:
    """The tensors of a pickle by name."""
    try:
        check_opcodes(data)
        root = _Unpickler(io.BytesIO(data)).load()
    except PickleError:
        raise
    except Exception as problem:  # whatever a broken pickle leads to
        raise PickleError(f"holds a broken pickle ({type(problem).__name__})") from None
    tensors: dict[str, StridedTensor] = {}
    letters = 0
    for path, tensor in _walk(root):
        if path in tensors:
            raise PickleError(f"names the tensor {quoted(path)} twice")
        tensors[path] = tensor
        letters += len(path)
        if letters > MAX_NAMES:
            raise _too_nested()
    return tensors


def _walk(root: Any) -> Iterator[tuple[str, StridedTensor]]:
    """The tensors in nested dicts and lists, in order, each with its path."""
    if isinstance(root, StridedTensor):
        yield "array", root
    pending = [("", iter(_items(root)))]
    seen = 0
    while pending:
        path, items = pending[-1]
        for key, value in items:
            seen += 1
            name = f"{path}.{key}" if path else f"{key}"
            if seen > MAX_NODES or len(name) > MAX_NAME or len(pending) > MAX_DEPTH:
                raise _too_nested()
            if isinstance(value, StridedTensor):
                yield name, value
            elif inner := _items(value):
                pending.append((name, iter(inner)))
                break
        else:
            pending.pop()


def _items(value: Any) -> Any:
    """The keys and values of a dict, or of a list with its places as keys; of anything else, none."""
    return value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()


def _too_nested() -> PickleError:
    return PickleError("nests its containers deeper or wider than any state dict does")


_SCALARS = frozenset(
    {"NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"}
    | {"BINUNICODE", "SHORT_BINUNICODE"}
)


def check_opcodes(data: bytes) -> None:
    """Refuse a pickle with opcodes that no state dict needs, with deep nesting, or with keys that are no scalars."""
    depths = _Depths()
    for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if number > MAX_OPCODES:
            raise PickleError(f"holds a pickle of more than {MAX_OPCODES:,} opcodes")
        if opcode.name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            index = len(depths.memo) if opcode.name == "MEMOIZE" else int(argument or 0)
            if index > number:  # Python's memo is an array, however few there are in it
                raise PickleError("holds a broken pickle (a memo with gaps)")
            depths.memo[index] = depths.stack[-1]
        elif opcode.name in ("BINGET", "LONG_BINGET"):
            depths.stack.append(depths.memo[int(argument or 0)])
        elif opcode.name not in ("PROTO", "FRAME", "STOP"):
            depths.step(opcode.name)
        if depths.stack and depths.stack[-1] > MAX_NESTING:
            raise _too_nested()


class _Depths:
    """The stack and the memo of an unpickler with depths for values: 0 is a scalar, a container is one deeper than what
    is put into it.
    """

    def __init__(self) -> None:
        self.stack: list[int] = []
        self.memo: dict[int, int] = {}
        self._marks: list[int] = []

    def step(self, name: str) -> None:
        stack = self.stack
        match name:
            case name if name in _SCALARS:
                stack.append(0)
            case "MARK":
                self._marks.append(len(stack))
            case "EMPTY_DICT" | "EMPTY_LIST" | "EMPTY_TUPLE" | "GLOBAL":
                stack.append(1)
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(name[-1])
                stack[-count:] = [1 + max(stack[-count:])]
            case "TUPLE":
                stack.append(1 + max(self._since_mark(), default=0))
            case "APPEND":
                self._put([stack.pop()], [])
            case "APPENDS":
                self._put(self._since_mark(), [])
            case "SETITEM":
                self._put([stack.pop()], [stack.pop()])
            case "SETITEMS":
                items = self._since_mark()
                self._put(items[1::2], items[::2])
            case "STACK_GLOBAL":
                if stack.pop() or stack.pop():
                    raise PickleError("asks for a class whose name is no text; it is not run")
                stack.append(1)
            case "REDUCE":
                stack[-2:] = [1]
            case "BINPERSID":
                stack[-1] = 1
            case "BUILD":
                stack.pop()
            case _:
                raise PickleError(f"holds a pickle with the opcode {name}, which no state dict needs; it is not run")

    def _since_mark(self) -> list[int]:
        place = self._marks.pop()
        items = self.stack[place:]
        del self.stack[place:]
        return items

    def _put(self, items: list[int], keys: list[int]) -> None:
        if any(keys):
            raise PickleError("holds a dict whose keys are not names")
        self.stack[-1] = max([self.stack[-1], *(depth + 1 for depth in items)])


class _Name(_Stateless):
    """A class or function that a pickle names: it can be called if its stand-in can, and has no state to be set."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self.call = call

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)


class _Dict(dict[Any, Any]):
    """An OrderedDict, whose state is its `_metadata`, which no tensor needs."""

    def __setstate__(self, state: Any) -> None:
        """Leave it."""


class _Unpickler(pickle.Unpickler):
    """An unpickler that knows the few constructors of state dicts, and no others."""

    def find_class(self, module: str, name: str) -> Any:
        known = _GLOBALS.get(f"{module}.{name}")
        if known is None:
            shown = quoted(f"{module}.{name}")
            raise PickleError(f"asks for {shown}, which is none of the few constructors of state dicts; it is not run")
        return known

    def persistent_load(self, pid: Any) -> Storage:
        """A storage: ("storage", type, key, device, count)."""
        match pid:
            case ("storage", _Name(name=kind), str(key), _, count) if _is_length(count):
                dtype = BYTES if kind == "UntypedStorage" else STORAGE_DTYPES.get(kind)
            case _:
                raise PickleError("names a storage in an unknown way")
        if dtype is None:
            raise PickleError(f"names a storage of an unknown type, {quoted(kind)}")
        return Storage(dtype, key, count)


def _is_length(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _no_call(*arguments: Any) -> NoReturn:
    raise PickleError("calls what is no constructor; it is not run")


def _ordered_dict(*items: Any) -> _Dict:
    if items:
        raise PickleError("makes an OrderedDict in an unknown way")
    return _Dict()


def _tensor_v2(storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any) -> StridedTensor:
    return _tensor(storage, offset, shape, strides, storage.dtype if isinstance(storage, Storage) else BYTES)


def _tensor_v3(
    storage: Any, offset: Any, shape: Any, strides: Any, grad: Any, hooks: Any, dtype: Any, *rest: Any
) -> StridedTensor:
    if not isinstance(dtype, _Name) or dtype.name not in _DTYPES:
        raise PickleError("rebuilds a tensor of an unknown dtype")
    return _tensor(storage, offset, shape, strides, dtype.name)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, dtype: str) -> StridedTensor:
    """A tensor whose numbers make sense; whether it lies in its storage, the file knows."""
    numbers = (offset, *shape, *strides)
    same_dtype = isinstance(storage, Storage) and storage.dtype in (dtype, BYTES)
    if not same_dtype or dtype == BYTES or len(shape) != len(strides) or not all(map(_is_length, numbers)):
        raise PickleError("rebuilds a tensor in an unknown way")
    return StridedTensor(storage, dtype, offset, tuple(shape), tuple(strides))


def _parameter(tensor: Any, *rest: Any) -> StridedTensor:
    if not isinstance(tensor, StridedTensor):
        raise PickleError("makes a parameter of what is no tensor")
    return tensor


_CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _ordered_dict,
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_parameter": _parameter,
    "torch.device": lambda *arguments: None,
    "torch.Size": lambda *arguments: None,
}
_PLAIN = ["torch.storage.UntypedStorage", *(f"torch.{name}" for name in [*STORAGE_DTYPES, *_DTYPES])]
_GLOBALS = {
    name: _Name(name.rpartition(".")[2], _CONSTRUCTORS.get(name, _no_call)) for name in [*_CONSTRUCTORS, *_PLAIN]
}
