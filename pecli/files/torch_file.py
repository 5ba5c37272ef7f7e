"""What torch.save writes: an archive of one pickle, and the bytes of every storage. The pickle's opcodes are looked
through before it is loaded; its classes are admitted by name, and stand-ins of ours take their place: nothing of torch
is imported, nothing that the file names is run."""

import io
import math
import pickle
import pickletools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np

from pecli.engine.arrays import Array, numpy_dtype
from pecli.errors import FileError, quoted
from pecli.files.contents import Contents, LoadedFile
from pecli.files.npz import Member, members_of
from pecli.files.safetensors import CODES

MAX_PICKLE = 64 << 20
MAX_OPCODES = 2_000_000  # about 25 for each tensor, and some microseconds each
MAX_DEPTH = 32  # of the containers that names are made of
MAX_NAME = 4096
MAX_LETTERS = (
    32 << 20
)  # of all names, and 32 for each: items are shared, and a few bytes can be a tree without end
MAX_REPEATED = (
    64 << 20
)  # bytes that a tensor may have beyond those of its storage, as an expanded one does
BYTES = "bytes"  # the dtype of a storage that leaves it to its tensors to say what the bytes are
STORAGES = {
    **{
        "FloatStorage": "float32",
        "DoubleStorage": "float64",
        "HalfStorage": "float16",
        "BFloat16Storage": "bfloat16",
    },
    **{
        "LongStorage": "int64",
        "IntStorage": "int32",
        "ShortStorage": "int16",
        "CharStorage": "int8",
    },
    **{"ByteStorage": "uint8", "BoolStorage": "bool", "UntypedStorage": BYTES},
    **{"ComplexFloatStorage": "complex64", "ComplexDoubleStorage": "complex128"},
}
DTYPES = frozenset((*CODES, "complex128"))


class PickleError(ValueError):
    """The pickle holds something that is not read, or is broken; the text says what."""


def read(contents: Contents) -> LoadedFile:
    """The tensors of a file of torch.save by name; in nested dicts and lists that is their path, joined with dots."""
    members = members_of(contents)
    root = next(name for name in members if name.endswith("/data.pkl")).removesuffix("data.pkl")
    order = _small_member(members, f"{root}byteorder", 16) or b"little"
    contents.refuse_if(order != b"little", "has another byte order than little-endian")
    data = _small_member(members, f"{root}data.pkl", MAX_PICKLE)
    storages = {name.removeprefix(f"{root}data/"): member for name, member in members.items()}
    try:
        check_opcodes(data)
        return LoadedFile(contents.path, "torch", _named(_Unpickler(data, storages).load()))
    except FileError:
        raise
    except Exception as problem:  # whatever a broken pickle leads to
        broken = f"holds a broken pickle ({type(problem).__name__})"
        known = str(problem) if isinstance(problem, PickleError) else broken
        raise contents.error(known, "write the tensors with safetensors.torch.save_file") from None


def _small_member(members: Mapping[str, Member], name: str, limit: int) -> bytes:
    if (member := members.get(name)) is None:
        return b""
    member.contents.refuse_if(
        member.compressed or member.size > limit, f"is compressed, or larger than {limit} bytes"
    )
    return bytes(member.contents.data)


def _named(root: Any) -> dict[str, Array]:
    """The tensors in nested dicts and lists, in order, each by its path."""
    tensors: dict[str, Array] = {}
    letters = 0

    def visit(name: str, value: Any, depth: int) -> None:
        nonlocal letters
        letters += len(name) + 32
        if len(name) > MAX_NAME or depth > MAX_DEPTH or letters > MAX_LETTERS:
            raise PickleError("nests its containers deeper or wider than any state dict does")
        if isinstance(value, _Tensor):
            if name in tensors:
                raise PickleError(f"names the tensor {quoted(name)} twice")
            tensors[name] = value.array
        is_list = isinstance(value, list | tuple)
        for key, inner in (
            value.items() if isinstance(value, dict) else enumerate(value) if is_list else ()
        ):
            visit(f"{name}.{key}" if name else f"{key}", inner, depth + 1)

    visit("array" if isinstance(root, _Tensor) else "", root, 0)
    return tensors


_OPCODES = """
    PROTO FRAME STOP MARK BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET NONE NEWTRUE NEWFALSE BININT BININT1 BININT2
    LONG1 BINFLOAT BINUNICODE SHORT_BINUNICODE EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE1 TUPLE2 TUPLE3 TUPLE APPEND
    APPENDS SETITEM SETITEMS GLOBAL STACK_GLOBAL REDUCE BINPERSID BUILD
"""
OPCODES = frozenset(_OPCODES.split())


def check_opcodes(data: bytes) -> None:
    """Refuse a pickle with opcodes that no state dict needs, or with too many."""
    for number, (opcode, _, _) in enumerate(pickletools.genops(data)):
        if number > MAX_OPCODES:
            raise PickleError(f"holds a pickle of more than {MAX_OPCODES:,} opcodes")
        if opcode.name not in OPCODES:
            raise PickleError(
                f"holds a pickle with the opcode {opcode.name}, which no state dict needs; it is not run"
            )


class _StandIn:
    """What takes the place of something that a pickle names; its state cannot be set."""

    def __setstate__(self, state: Any) -> NoReturn:
        raise PickleError("sets the state of an object; it is not run")


@dataclass(frozen=True, eq=False)
class _Tensor(_StandIn):
    array: Array


@dataclass(frozen=True, eq=False)
class _Storage(_StandIn):
    contents: Contents
    dtype: str


@dataclass(frozen=True, eq=False)
class _Name(_StandIn):
    name: str

    def __call__(self, *arguments: Any) -> Any:
        match self.name, arguments:
            case "OrderedDict", ():
                return _Dict()
            case (("device" | "Size"), _):
                return None
            case "_rebuild_parameter", (_Tensor() as tensor, *_):
                return tensor
            case "_rebuild_tensor_v2", (
                _Storage() as storage,
                offset,
                tuple(shape),
                tuple(strides),
                *_,
            ):
                return _Tensor(_array(storage, storage.dtype, offset, shape, strides))
            case "_rebuild_tensor_v3", (
                _Storage() as storage,
                offset,
                tuple(shape),
                tuple(strides),
                _,
                _,
                dtype,
                *_,
            ):
                return _Tensor(_array(storage, getattr(dtype, "name", ""), offset, shape, strides))
            case _:
                raise PickleError(f"calls {self.name} in an unknown way; it is not run")


class _Dict(dict[Any, Any]):
    """A dict of names; other keys are not even hashed. The state of an OrderedDict is `_metadata`, which none needs."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if key is not None and not isinstance(key, (str, int, float)):
            raise PickleError("holds a dict whose keys are not names")
        super().__setitem__(key, value)

    def __setstate__(self, state: Any) -> None:
        """Leave it."""


_ADMITTED = frozenset(
    {"collections.OrderedDict", "torch.device", "torch.Size", "torch.storage.UntypedStorage"}
    | {
        f"torch._utils.{name}"
        for name in ("_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter")
    }
    | {f"torch.{name}" for name in [*STORAGES, *DTYPES] if name != "UntypedStorage"}
)
_PythonUnpickler: Any = pickle._Unpickler


class _Unpickler(_PythonUnpickler):  # type: ignore[misc]
    """One that knows the few constructors of state dicts. It is Python's own in Python: that in C fills the memo's
    gaps, and hashes whatever a pickle calls a key; tuples that are nested deeply would end the process."""

    dispatch: ClassVar[dict[int, Any]] = dict(_PythonUnpickler.dispatch)

    def __init__(self, data: bytes, storages: Mapping[str, Member]) -> None:
        super().__init__(io.BytesIO(data))
        self._storages = storages

    def load_empty_dictionary(self) -> None:
        self.append(_Dict())

    dispatch[pickle.EMPTY_DICT[0]] = load_empty_dictionary

    def find_class(self, module: str, name: str) -> _Name:
        if f"{module}.{name}" not in _ADMITTED:
            shown = quoted(f"{module}.{name}")
            raise PickleError(
                f"asks for {shown}, which is none of the few constructors of state dicts; it is not run"
            )
        return _Name(name)

    def persistent_load(self, pid: Any) -> _Storage:
        """A storage: ("storage", type, key, device, count)."""
        match pid:
            case ("storage", _Name(name=kind), str(key), _, int(count)) if kind in STORAGES:
                dtype = STORAGES[kind]
            case _:
                raise PickleError("names a storage in an unknown way")
        if (member := self._storages.get(key)) is None:
            raise PickleError(f"has no member for the storage {quoted(key)}")
        if member.compressed or member.size != count * (
            1 if dtype == BYTES else numpy_dtype(dtype).itemsize
        ):
            raise PickleError(f"the storage {quoted(key)} has not the size that it claims")
        return _Storage(member.contents, dtype)


def _array(
    storage: _Storage, dtype: str, offset: Any, shape: tuple[Any, ...], strides: tuple[Any, ...]
) -> Array:
    """A view of a storage; offset and strides count elements of the tensor's dtype."""
    if not all(type(number) is int and number >= 0 for number in (offset, *shape, *strides)):
        raise PickleError("rebuilds a tensor in an unknown way")
    available = len(storage.contents.data)
    itemsize = numpy_dtype(dtype).itemsize
    size = storage.contents.data_bytes(shape, itemsize)
    span = (
        1 + sum((side - 1) * stride for side, stride in zip(shape, strides, strict=True))
        if math.prod(shape)
        else 0
    )
    if (offset + span) * itemsize > available or size > available + MAX_REPEATED:
        raise PickleError(
            f"holds a tensor of {size} bytes that reaches beyond its storage of {available}"
        )
    flat = storage.contents.array(dtype, (span,), offset * itemsize)
    return np.lib.stride_tricks.as_strided(
        flat, shape, [stride * itemsize for stride in strides], writeable=False
    )
