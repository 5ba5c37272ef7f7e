"""Files that torch.save writes: an archive of one pickle, and the bytes of every storage.

Nothing of torch is imported, and nothing that a file names is run. The opcodes of the pickle are
checked before it is loaded; the classes that it names must be known, and placeholders take their
place.
"""

import io
import pickle
import pickletools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import numpy as np

from pecli.engine.arrays import Array, numpy_dtype
from pecli.errors import FileError, quoted
from pecli.files.contents import Contents, LoadedFile
from pecli.files.npy import ARRAY_NAME
from pecli.files.safetensors import CODES
from pecli.files.zip_archive import Member, members_of

PICKLE_NAME = "data.pkl"
MAX_PICKLE = 64 << 20  # bytes
MAX_OPCODES = 2_000_000  # about 25 per tensor; each takes some microseconds
MAX_DEPTH = 32  # of nested containers
MAX_NAME = 4096  # letters of a tensor's name
MAX_LETTERS = 32 << 20
"""Letters of all names, and NAME_COST per item. Items of a pickle can be shared: a few bytes can
be a tree without end."""
NAME_COST = 32
MAX_REPEATED = 64 << 20
"""Bytes that a tensor may have beyond those of its storage: an expanded one repeats elements."""
BYTES = "bytes"  # the dtype of an untyped storage, whose tensors have dtypes of their own
STORAGES = {
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
    "UntypedStorage": BYTES,
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
DTYPES = frozenset((*CODES, "complex128"))


class PickleError(ValueError):
    """The pickle is broken or holds something that is not read; the message is a predicate."""


def read(contents: Contents) -> LoadedFile:
    """Return the tensors of a file of torch.save by name.

    The name of a tensor in nested dicts and lists is its path, joined with dots.
    """
    # The members are archive/data.pkl, archive/byteorder, archive/data/0, archive/data/1, …
    members = members_of(contents)
    pickle_path = next(name for name in members if name.endswith(f"/{PICKLE_NAME}"))
    folder = pickle_path.removesuffix(PICKLE_NAME)
    byte_order = _small_member(members, f"{folder}byteorder", limit=16) or b"little"
    contents.refuse_if(byte_order != b"little", "has another byte order than little-endian")
    pickled = _small_member(members, pickle_path, limit=MAX_PICKLE)
    storages = {name.removeprefix(f"{folder}data/"): member for name, member in members.items()}
    tensors = _unpickled_tensors(contents, pickled, storages)
    return LoadedFile(contents.path, "torch", tensors)


def _unpickled_tensors(
    contents: Contents, pickled: bytes, storages: Mapping[str, Member]
) -> dict[str, Array]:
    """Return the tensors of a pickle; all that can go wrong becomes a FileError about the file."""
    try:
        check_opcodes(pickled)
        return _named_tensors(_Unpickler(pickled, storages).load())
    except FileError:
        raise
    except PickleError as problem:
        raise contents.error(str(problem), _ADVICE) from None
    except Exception as problem:  # A broken pickle can cause any.
        broken = f"holds a broken pickle ({type(problem).__name__})"
        raise contents.error(broken, _ADVICE) from None


_ADVICE = "write the tensors with safetensors.torch.save_file"


def _small_member(members: Mapping[str, Member], name: str, limit: int) -> bytes:
    """Return the bytes of a member, none if it is missing."""
    member = members.get(name)
    if member is None:
        return b""
    is_unusual = member.compressed or member.size > limit
    member.contents.refuse_if(is_unusual, f"is compressed, or larger than {limit} bytes")
    return bytes(member.contents.data)


def _named_tensors(root: object) -> dict[str, Array]:
    """Return the tensors in nested dicts and lists by their paths.

    {"model": {"pe": [a, b]}} has the tensors model.pe.0 and model.pe.1. A tensor that is not in a
    container has the name of an array without one.
    """
    collector = _TensorCollector()
    root_name = ARRAY_NAME if isinstance(root, _TorchTensor) else ""
    collector.visit(root_name, root, depth=0)
    return collector.tensors


@dataclass
class _TensorCollector:
    """A walk through nested dicts and lists that collects tensors by their paths, in order."""

    tensors: dict[str, Array] = field(default_factory=dict)
    letters: int = 0

    def visit(self, name: str, value: object, depth: int) -> None:
        """Collect a value that is a tensor, or the tensors of a container.

        Args:
            name: The path of the value, such as `model.pe`; empty for the outermost container.
            value: A tensor, a container, or anything else, which is ignored.
            depth: The number of containers around it.
        """
        self._count(name, depth)
        if isinstance(value, _TorchTensor):
            self._add(name, value.array)
        for key, inner in _items(value):
            inner_name = f"{name}.{key}" if name else f"{key}"
            self.visit(inner_name, inner, depth + 1)

    def _count(self, name: str, depth: int) -> None:
        """Count the letters of all names; refuse containers that would take too much time or memory."""
        self.letters += len(name) + NAME_COST
        is_too_deep = depth > MAX_DEPTH or len(name) > MAX_NAME
        if is_too_deep or self.letters > MAX_LETTERS:
            raise PickleError("nests its containers deeper or wider than any state dict does")

    def _add(self, name: str, array: Array) -> None:
        """Add a tensor; the keys 1 and "1" of a dict would give two of them one name."""
        if name in self.tensors:
            raise PickleError(f"names the tensor {quoted(name)} twice")
        self.tensors[name] = array


def _items(container: object) -> Iterable[tuple[object, object]]:
    """Return the keys or indices of a container and its values; none for another value."""
    if isinstance(container, dict):
        return container.items()
    if isinstance(container, list | tuple):
        return enumerate(container)
    return ()


_OPCODES = """
    PROTO FRAME STOP MARK BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET
    NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE
    EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 TUPLE APPEND APPENDS SETITEM SETITEMS
    GLOBAL STACK_GLOBAL REDUCE BINPERSID BUILD
"""
OPCODES = frozenset(_OPCODES.split())


def check_opcodes(data: bytes) -> None:
    """Raise a PickleError for instructions that no state dict needs, or too many of them.

    A pickle is a program of opcodes, such as BININT, which makes a number. Some could run any code
    of Python; only those are accepted that make dicts, lists, texts, numbers and tensors.
    """
    for number, (opcode, _, _) in enumerate(pickletools.genops(data)):
        if number >= MAX_OPCODES:
            raise PickleError(f"holds a pickle of more than {MAX_OPCODES:,} opcodes")
        if opcode.name not in OPCODES:
            raise PickleError(
                f"holds a pickle with the opcode {opcode.name}, which no state dict needs; "
                "it is not run"
            )


class _Placeholder:
    """Placeholder for a pickled global; __setstate__ is refused."""

    def __setstate__(self, state: object) -> NoReturn:
        raise PickleError("sets the state of an object; it is not run")


@dataclass(frozen=True, eq=False)
class _TorchTensor(_Placeholder):
    array: Array


@dataclass(frozen=True, eq=False)
class _Storage(_Placeholder):
    contents: Contents
    dtype: str


@dataclass(frozen=True, eq=False)
class _Global(_Placeholder):
    """Placeholder for a class or function of torch; a pickle calls it to build a tensor."""

    name: str

    def __call__(self, *arguments: object) -> object:
        """Return what torch's function of this name would, without running it.

        The arguments are those that torch.save writes. A tensor in a pickle is, for example,

            _rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, backward_hooks)

        of which the first four place it in its storage. Version 3, for dtypes that have no storage
        class of their own, adds the dtype as its seventh argument. A Parameter is a tensor and its
        flags. Devices and sizes mean nothing here.
        """
        match self.name, arguments:
            case "OrderedDict", ():
                return _Dict()
            case (("device" | "Size"), _):
                return None
            case "_rebuild_parameter", (_TorchTensor() as tensor, *_):
                return tensor
            case (
                "_rebuild_tensor_v2",
                (_Storage() as storage, offset, tuple(shape), tuple(strides), *_),
            ):
                return _TorchTensor(
                    _view_of_storage(storage, storage.dtype, offset, shape, strides)
                )
            case (
                "_rebuild_tensor_v3",
                (_Storage() as storage, offset, tuple(shape), tuple(strides), _, _, dtype, *_),
            ):
                # The pickle names a dtype such as torch.uint16, which is a placeholder too.
                dtype_name = dtype.name if isinstance(dtype, _Global) else ""
                return _TorchTensor(_view_of_storage(storage, dtype_name, offset, shape, strides))
            case _:
                raise PickleError(f"calls {self.name} in an unknown way; it is not run")


class _Dict(dict[object, object]):
    """A dict with simple keys; others are not even hashed.

    The state of an OrderedDict is its `_metadata`, the versions of modules, which is ignored.
    """

    def __setitem__(self, key: object, value: object) -> None:
        if key is not None and not isinstance(key, (str, int, float)):
            raise PickleError("holds a dict whose keys are not names")
        super().__setitem__(key, value)

    def __setstate__(self, state: object) -> None:
        """Ignore the state."""


_REBUILDERS = ("_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter")
_ADMITTED = frozenset(
    {"collections.OrderedDict", "torch.device", "torch.Size", "torch.storage.UntypedStorage"}
    | {f"torch._utils.{name}" for name in _REBUILDERS}
    | {f"torch.{name}" for name in STORAGES if name != "UntypedStorage"}
    | {f"torch.{name}" for name in DTYPES}
)
_PythonUnpickler: Any = pickle._Unpickler


class _Unpickler(_PythonUnpickler):  # type: ignore[misc]
    """An unpickler that knows only the few constructors of state dicts.

    It derives from the one in Python. The one in C fills gaps of the memo, and hashes any key that
    a pickle names: a deeply nested tuple would end the process.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(_PythonUnpickler.dispatch)

    def __init__(self, data: bytes, storages: Mapping[str, Member]) -> None:
        super().__init__(io.BytesIO(data))
        self._storages = storages

    def load_empty_dictionary(self) -> None:
        self.append(_Dict())

    dispatch[pickle.EMPTY_DICT[0]] = load_empty_dictionary

    def find_class(self, module: str, name: str) -> _Global:
        """Return a placeholder for a class or function that a pickle names; `pickle` calls this."""
        path = f"{module}.{name}"
        if path not in _ADMITTED:
            raise PickleError(
                f"asks for {quoted(path)}, which is none of the few constructors of state dicts; "
                "it is not run"
            )
        return _Global(name)

    def persistent_load(self, pid: object) -> _Storage:
        """Return the storage that a pickle names instead of containing it.

        It names ("storage", type, key, device, count): ("storage", torch.FloatStorage, "0", "cpu",
        64) is the member `data/0` with 64 numbers of float32. `pickle` calls this method.
        """
        match pid:
            case ("storage", _Global(name=class_name), str(key), _, int(count)) if (
                class_name in STORAGES
            ):
                dtype = STORAGES[class_name]
            case _:
                raise PickleError("names a storage in an unknown way")
        member = self._storages.get(key)
        if member is None:
            raise PickleError(f"has no member for the storage {quoted(key)}")
        itemsize = 1 if dtype == BYTES else numpy_dtype(dtype).itemsize
        has_other_size = member.size != count * itemsize
        if member.compressed or has_other_size:
            raise PickleError(f"the storage {quoted(key)} has not the size that it claims")
        return _Storage(contents=member.contents, dtype=dtype)


def _view_of_storage(
    storage: _Storage, dtype: str, offset: Any, shape: tuple[Any, ...], strides: tuple[Any, ...]
) -> Array:
    """Return a tensor as a view of its storage.

    Offset and strides count elements of the tensor's dtype. An expanded tensor, such as one with
    strides (0, 1) whose rows are all the same elements, has more bytes than its storage: at most
    MAX_REPEATED more, so that no small file becomes an array that fills the memory.
    """
    if not all(map(_is_count, (offset, *shape, *strides))):
        raise PickleError("rebuilds a tensor in an unknown way")
    available_bytes = len(storage.contents.data)
    itemsize = numpy_dtype(dtype).itemsize
    expanded_bytes = storage.contents.data_bytes(shape, itemsize)
    spanned_elements = _span(shape, strides)
    is_beyond_storage = (offset + spanned_elements) * itemsize > available_bytes
    repeats_too_much = expanded_bytes > available_bytes + MAX_REPEATED
    if is_beyond_storage or repeats_too_much:
        problem = f"of {expanded_bytes} bytes that reaches beyond its storage of {available_bytes}"
        raise PickleError(f"holds a tensor {problem}")
    flat = storage.contents.array(dtype, (spanned_elements,), offset * itemsize)
    byte_strides = [stride * itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(flat, shape, byte_strides, writeable=False)


def _is_count(value: object) -> bool:
    """Return True for a whole number that is not negative; a pickle may hold anything else."""
    return type(value) is int and value >= 0


def _span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Return how many elements of a storage lie from the first to the last element of a tensor.

    >>> _span((2, 3), (3, 1)), _span((2, 3), (0, 1)), _span((2, 0), (1, 1))
    (6, 3, 0)
    """
    if 0 in shape:
        return 0
    steps = [(side - 1) * stride for side, stride in zip(shape, strides, strict=True)]
    return 1 + sum(steps)
