"""The pickle inside a torch file, read as data: nothing is imported, nothing is called.

A state dict needs few opcodes and fewer constructors. The pickle runs on a machine that knows only those: a global is a
name on an allow-list, a call of one builds a record of ours, anything else rejects the file. The standard library's
disassembler is not used: it decodes the arguments of every opcode there is, and loads codecs for some of them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

MAX_OPCODES = 4_000_000
"""About 25 for each tensor; a few microseconds each."""
MAX_DEPTH, MAX_NAME = 32, 4096
MAX_NODES, MAX_NAMES = 1_000_000, 32 << 20
"""Items of containers that are looked at, and letters of all names together: containers are shared in a pickle, so that
a few bytes can stand for a tree without end.
"""

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
_INERT = frozenset({"device", "Size"})
"""Constructors of torch that checkpoints mention beside tensors; what they would make is not looked at."""


class PickleError(ValueError):
    """The pickle holds something that is not read, or is broken; the text says what."""


@dataclass(frozen=True)
class Storage:
    """A run of numbers in a member of its own: its dtype, the member's key, and how many elements it has."""

    dtype: str
    key: str
    count: int


@dataclass(frozen=True)
class StridedTensor:
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

    def is_contiguous(self, *, fortran: bool = False) -> bool:
        """Whether the elements lie one after the other, the last axis (or with `fortran` the first) the fastest."""
        axes = list(zip(self.shape, self.strides, strict=True))
        expected = 1
        for size, stride in axes if fortran else axes[::-1]:
            if size != 1 and stride != expected:
                return not self.span
            expected *= size
        return True


@dataclass(frozen=True)
class _Global:
    module: str
    name: str


_MARK = object()
_IGNORED = object()
"""What stands for values that no tensor needs."""


def read_tensors(data: bytes) -> dict[str, StridedTensor]:
    """The tensors of a pickle by name; those in nested dicts and lists have their path, joined with dots."""
    try:
        root = _run(data)
    except PickleError:
        raise
    except (IndexError, KeyError, TypeError, ValueError) as problem:
        raise PickleError(f"holds a broken pickle ({type(problem).__name__})") from None
    found: dict[str, StridedTensor] = {}
    letters = 0
    for path, tensor in _walk(root):
        if path in found:
            raise PickleError(f"names the tensor {path[:60]!r} twice")
        found[path] = tensor
        letters += len(path)
        if letters > MAX_NAMES:
            raise _too_nested()
    return found


def _walk(root: Any) -> Iterator[tuple[str, StridedTensor]]:
    """The tensors in nested dicts and lists, in order, each with its path."""
    if isinstance(root, StridedTensor):
        yield "array", root
    pending, seen = [("", iter(_items(root)))], 0
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


def _run(data: bytes) -> Any:
    machine = _Machine(data)
    for _ in range(MAX_OPCODES):
        opcode = data[machine.at : machine.at + 1]
        machine.at += 1
        if opcode == b".":
            return machine.pop()
        if opcode not in _OPCODES:
            shown = repr(opcode)[1:] if opcode else "none, where it breaks off"
            raise PickleError(f"holds a pickle with the opcode {shown}, which no state dict needs; it is not run")
        _OPCODES[opcode](machine)
    raise PickleError(f"holds a pickle of more than {MAX_OPCODES:,} opcodes")


class _Machine:
    """A stack, a memo, and the opcodes that state dicts are made of."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def number(self, code: str) -> Any:
        """The argument of an opcode, as `struct` spells it."""
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def take(self, count: int) -> bytes:
        piece = self.data[self.at : self.at + count]
        if len(piece) < count:
            raise PickleError("holds a broken pickle (it breaks off)")
        self.at += count
        return piece

    def line(self) -> str:
        end = self.data.index(b"\n", self.at)
        text, self.at = self.data[self.at : end], end + 1
        return text.decode()

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise PickleError("holds a broken pickle (a mark where a value should be)")
        return value

    def since_mark(self) -> list[Any]:
        items: list[Any] = []
        while (value := self.stack.pop()) is not _MARK:
            items.append(value)
        return items[::-1]

    def put(self, index: int) -> None:
        value = self.pop()
        self.memo[index] = value
        self.push(value)

    def make_tuple(self, count: int) -> None:
        self.push(tuple([self.pop() for _ in range(count)][::-1]))

    def set_items(self, pairs: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise PickleError("holds a broken pickle (items of what is no dict)")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if not isinstance(key, str | int | float | None):
                raise PickleError("holds a dict whose keys are not names")
            if isinstance(key, str) and len(key) > MAX_NAME:
                raise _too_nested()
            target[key] = value

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise PickleError("holds a broken pickle (items of what is no list)")
        self.stack[-1].extend(items)

    def push_global(self, module: Any, name: Any) -> None:
        if not _is_allowed(module, name):
            shown = repr(f"{module}.{name}"[:60])
            raise PickleError(f"asks for {shown}, which is none of the few constructors of state dicts; it is not run")
        self.push(_Global(module, name))

    def reduce(self) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, _Global) or not isinstance(arguments, tuple):
            raise PickleError("calls what is no known constructor; it is not run")
        if function.name in _INERT:
            self.push(_IGNORED)
        elif function.name in _CONSTRUCTORS:
            self.push(_CONSTRUCTORS[function.name](*arguments))
        else:
            raise PickleError(f"calls {function.name!r}, which is no constructor; it is not run")

    def set_state(self) -> None:
        """The state of an OrderedDict is its `_metadata`, which no tensor needs."""
        self.pop()
        if not isinstance(self.stack[-1], dict):
            raise PickleError("sets the state of an object; it is not run")

    def persistent(self) -> None:
        """A storage: ("storage", type, key, device, count)."""
        kind = self.pop()
        if not isinstance(kind, tuple) or len(kind) != 5 or kind[0] != "storage" or not isinstance(kind[1], _Global):
            raise PickleError("names a storage in an unknown way")
        _, storage_type, key, _, count = kind
        dtype = BYTES if storage_type.name == "UntypedStorage" else STORAGE_DTYPES.get(storage_type.name)
        if dtype is None or not isinstance(key, str) or not _is_length(count):
            raise PickleError(f"names a storage of an unknown type, {storage_type.name[:40]!r}")
        self.push(Storage(dtype, key, count))


def _is_allowed(module: Any, name: Any) -> bool:
    if module == "torch":
        return name in STORAGE_DTYPES or name in _DTYPES or name in _INERT
    return (module, name) in {
        ("collections", "OrderedDict"),
        ("torch.storage", "UntypedStorage"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch._utils", "_rebuild_tensor_v3"),
        ("torch._utils", "_rebuild_parameter"),
    }


def _is_length(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _ordered_dict(*items: Any) -> dict[Any, Any]:
    if items:
        raise PickleError("makes an OrderedDict in an unknown way")
    return {}


def _tensor_v2(storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any) -> StridedTensor:
    return _tensor(storage, offset, shape, strides, storage.dtype if isinstance(storage, Storage) else BYTES)


def _tensor_v3(
    storage: Any, offset: Any, shape: Any, strides: Any, grad: Any, hooks: Any, dtype: Any, *rest: Any
) -> StridedTensor:
    if not isinstance(dtype, _Global) or dtype.name not in _DTYPES:
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
    "OrderedDict": _ordered_dict,
    "_rebuild_tensor_v2": _tensor_v2,
    "_rebuild_tensor_v3": _tensor_v3,
    "_rebuild_parameter": _parameter,
}
_OPCODES: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": lambda machine: _ignore(machine.take(1)),  # PROTO
    b"\x95": lambda machine: _ignore(machine.take(8)),  # FRAME
    b"(": lambda machine: machine.push(_MARK),
    b"N": lambda machine: machine.push(None),
    b"\x88": lambda machine: machine.push(True),
    b"\x89": lambda machine: machine.push(False),
    b"}": lambda machine: machine.push({}),
    b"]": lambda machine: machine.push([]),
    b")": lambda machine: machine.push(()),
    b"J": lambda machine: machine.push(machine.number("i")),
    b"K": lambda machine: machine.push(machine.number("B")),
    b"M": lambda machine: machine.push(machine.number("H")),
    b"\x8a": lambda machine: machine.push(int.from_bytes(machine.take(machine.number("B")), "little", signed=True)),
    b"G": lambda machine: machine.push(struct.unpack(">d", machine.take(8))[0]),
    b"X": lambda machine: machine.push(machine.take(machine.number("I")).decode()),
    b"\x8c": lambda machine: machine.push(machine.take(machine.number("B")).decode()),
    b"q": lambda machine: machine.put(machine.number("B")),
    b"r": lambda machine: machine.put(machine.number("I")),
    b"\x94": lambda machine: machine.put(len(machine.memo)),
    b"h": lambda machine: machine.push(machine.memo[machine.number("B")]),
    b"j": lambda machine: machine.push(machine.memo[machine.number("I")]),
    b"t": lambda machine: machine.push(tuple(machine.since_mark())),
    b"\x85": lambda machine: machine.make_tuple(1),
    b"\x86": lambda machine: machine.make_tuple(2),
    b"\x87": lambda machine: machine.make_tuple(3),
    b"u": lambda machine: machine.set_items(machine.since_mark()),
    b"s": lambda machine: machine.set_items([machine.pop(), machine.pop()][::-1]),
    b"e": lambda machine: machine.extend(machine.since_mark()),
    b"a": lambda machine: machine.extend([machine.pop()]),
    b"c": lambda machine: machine.push_global(machine.line(), machine.line()),
    b"\x93": lambda machine: machine.push_global(*[machine.pop(), machine.pop()][::-1]),
    b"R": lambda machine: machine.reduce(),
    b"Q": lambda machine: machine.persistent(),
    b"b": lambda machine: machine.set_state(),
}


def _ignore(argument: bytes) -> None:
    """The protocol's version and the length of a frame: the opcodes themselves say what is there."""
