"""The pickle inside a torch file, read as data: nothing is imported, nothing is called.

A state dict needs few opcodes and fewer constructors. The pickle runs on a machine that knows only those: a global is a
name on an allow-list, a call of one builds a record of ours, everything else refuses the file.
"""

from __future__ import annotations

import io
import math
import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

MAX_DEPTH, MAX_PATH = 32, 4096
MAX_NODES = 1_000_000
"""Containers are shared in a pickle, so that a few bytes can stand for a tree without end."""

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
_INERT = frozenset({"device", "Size", "float32", "float16", "bfloat16", "float64", "int64", "int32", "bool", "strided"})
"""Names of torch that checkpoints mention beside tensors; what is made of them is not looked at."""


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
    """A view of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def span(self) -> int:
        """How many elements lie between the first and the last, both included."""
        if not math.prod(self.shape):
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))

    @property
    def contiguous(self) -> bool:
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True


@dataclass(frozen=True)
class _Global:
    module: str
    name: str


class _Mark:
    """What MARK puts on the stack."""


_MARK = _Mark()
_IGNORED = object()
"""What stands for values that no tensor needs."""


def read_tensors(data: bytes) -> dict[str, StridedTensor]:
    """The tensors of a pickle by name; those in nested dicts and lists have their path, joined with dots."""
    try:
        root = _run(data)
    except (IndexError, KeyError, TypeError, UnicodeError, AttributeError) as problem:
        raise PickleError(f"is a broken pickle ({type(problem).__name__})") from None
    found: dict[str, StridedTensor] = {}
    for path, tensor in _walk(root):
        if path in found:
            raise PickleError(f"names the tensor {path[:60]!r} twice")
        found[path] = tensor
    return found


def _walk(root: Any) -> Iterator[tuple[str, StridedTensor]]:
    """The tensors in nested dicts and lists, in order, each with its path."""
    pending, seen = [("", root, 0)], 0
    while pending:
        path, value, depth = pending.pop()
        if isinstance(value, StridedTensor):
            yield path or "array", value
        items = list(value.items() if isinstance(value, dict) else enumerate(value) if _is_list(value) else ())
        seen += len(items)
        if seen > MAX_NODES or (items and depth == MAX_DEPTH) or len(path) > MAX_PATH:
            raise PickleError("nests its containers deeper or wider than any state dict does")
        pending.extend((f"{path}.{key}" if path else str(key), each, depth + 1) for key, each in reversed(items))


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _run(data: bytes) -> Any:
    machine = _Machine()
    try:
        for opcode, argument, _ in pickletools.genops(io.BytesIO(data)):
            if opcode.name == "STOP":
                return machine.pop()
            machine.step(opcode.name, argument)
    except PickleError:
        raise
    except ValueError as problem:
        raise PickleError(f"is a broken pickle ({str(problem)[:60]})") from None
    raise PickleError("is a broken pickle (it has no end)")


class _Machine:
    """A stack and a memo, and the opcodes that state dicts are made of."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise PickleError("is a broken pickle (a mark where a value should be)")
        return value

    def since_mark(self) -> list[Any]:
        items: list[Any] = []
        while (value := self.stack.pop()) is not _MARK:
            items.append(value)
        return items[::-1]

    def step(self, name: str, argument: Any) -> None:
        if name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _VALUES:
            self.stack.append(argument)
        elif name in _NO_EFFECT:
            pass
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        else:
            raise PickleError(f"holds a pickle with the opcode {name}, which no state dict needs; it is not run")

    def put(self, index: int | None) -> None:
        self.memo[len(self.memo) if index is None else index] = self.stack[-1]

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def make_tuple(self, count: int | None) -> None:
        items = self.since_mark() if count is None else [self.pop() for _ in range(count)][::-1]
        self.stack.append(tuple(items))

    def set_items(self, pairs: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, dict):
            raise PickleError("is a broken pickle (items of what is no dict)")
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if isinstance(key, str | int):
                target[key] = value

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise PickleError("is a broken pickle (items of what is no list)")
        self.stack[-1].extend(items)

    def push_global(self, module: Any, name: Any) -> None:
        if not _is_allowed(module, name):
            shown = f"{module}.{name}"[:60]
            raise PickleError(f"asks for {shown!r}, which no state dict needs; nothing of it is run")
        self.stack.append(_Global(module, name))

    def reduce(self) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, _Global) or not isinstance(arguments, tuple):
            raise PickleError("calls what is no known constructor; nothing of it is run")
        build: Callable[..., Any] = _CONSTRUCTORS.get(function.name, _ignored)
        self.stack.append(build(*arguments))

    def set_state(self) -> None:
        """The state of an OrderedDict is its `_metadata`, which no tensor needs."""
        self.pop()
        if not isinstance(self.stack[-1], dict):
            raise PickleError("sets the state of an object; nothing of it is run")

    def persistent(self) -> None:
        """A storage: ("storage", type, key, device, count)."""
        kind = self.pop()
        if not isinstance(kind, tuple) or len(kind) != 5 or kind[0] != "storage" or not isinstance(kind[1], _Global):
            raise PickleError("names a storage in an unknown way")
        _, storage_type, key, _, count = kind
        dtype = STORAGE_DTYPES.get(storage_type.name)
        if dtype is None or not isinstance(key, str) or not _is_length(count):
            raise PickleError(f"names a storage of an unknown type, {storage_type.name[:40]!r}")
        self.stack.append(Storage(dtype, key, count))


def _is_allowed(module: Any, name: Any) -> bool:
    if module == "torch":
        return name in STORAGE_DTYPES or name in _INERT
    return (module, name) in {
        ("collections", "OrderedDict"),
        ("torch._utils", "_rebuild_tensor_v2"),
        ("torch._utils", "_rebuild_parameter"),
    }


def _is_length(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**62


def _ordered_dict(*items: Any) -> dict[Any, Any]:
    if items:
        raise PickleError("makes an OrderedDict in an unknown way")
    return {}


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any) -> StridedTensor:
    numbers = (*shape, *strides)
    if not isinstance(storage, Storage) or len(shape) != len(strides) or not all(map(_is_length, (offset, *numbers))):
        raise PickleError("rebuilds a tensor in an unknown way")
    tensor = StridedTensor(storage, offset, tuple(shape), tuple(strides))
    if offset + tensor.span > storage.count:
        raise PickleError(f"has a tensor that reaches beyond its storage of {storage.count} elements")
    return tensor


def _parameter(tensor: Any, *rest: Any) -> Any:
    return tensor


def _ignored(*arguments: Any) -> object:
    return _IGNORED


_CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "OrderedDict": _ordered_dict,
    "_rebuild_tensor_v2": _tensor,
    "_rebuild_parameter": _parameter,
}
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "MARK": lambda: _MARK,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
}
_VALUES = frozenset({"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"})
_NO_EFFECT = frozenset({"PROTO", "FRAME"})
_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "BINPUT": _Machine.put,
    "LONG_BINPUT": _Machine.put,
    "MEMOIZE": lambda machine, _: machine.put(None),
    "BINGET": _Machine.get,
    "LONG_BINGET": _Machine.get,
    "TUPLE": lambda machine, _: machine.make_tuple(None),
    "TUPLE1": lambda machine, _: machine.make_tuple(1),
    "TUPLE2": lambda machine, _: machine.make_tuple(2),
    "TUPLE3": lambda machine, _: machine.make_tuple(3),
    "SETITEMS": lambda machine, _: machine.set_items(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.set_items([machine.pop(), machine.pop()][::-1]),
    "APPENDS": lambda machine, _: machine.extend(machine.since_mark()),
    "APPEND": lambda machine, _: machine.extend([machine.pop()]),
    "GLOBAL": lambda machine, text: machine.push_global(*text.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.push_global(*[machine.pop(), machine.pop()][::-1]),
    "REDUCE": lambda machine, _: machine.reduce(),
    "BINPERSID": lambda machine, _: machine.persistent(),
    "BUILD": lambda machine, _: machine.set_state(),
}
