"""The bytes of a file, mapped into memory where it is a regular one and read where it is a pipe, and arrays over them.
A file that is cut short while it is mapped ends this process (SIGBUS); nothing is written then."""

import errno
import json
import math
import mmap
import os
import stat
from collections import Counter, UserDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from itertools import accumulate
from typing import Any

import numpy as np

from pecli.engine.arrays import Array, numpy_dtype, round_to, widened
from pecli.errors import FileError, PecliError, failure, quoted
from pecli.files.output import KEY

INDEX = ".index.json"  # how the name of a checkpoint's index ends
GGUF = b"GGUF"
JSON_FORM = 'a .json of tables has the form {"tensors": {"cos": {"data": [[1.0, 0.5]], "dtype": "float32", "shape": [1, 2]}}}'
MAX_STREAM = 4 << 30  # bytes that are read from a pipe, all of which are kept in memory
MAX_AXES = 32  # NumPy 1 has no more
MAX_BYTES = 2**62
MAX_EMPTY_ROWS = (
    2**31
)  # of a table without elements: they take no bytes of the file, but time to step through
CHUNK = 1 << 20
START = 512  # bytes that tell a file's format
MAX_DEPTH = 32  # levels of lists and objects in a spec or a configuration


def package(name: str, missing: PecliError) -> Any:
    """A package that does not come with pecli, or an error that says what it is for."""
    try:
        return import_module(name)
    except ImportError:
        raise missing from None


@dataclass(frozen=True)
class Contents:
    """The bytes of a file, or of a member of it, and the part of it that errors are about."""

    path: str
    data: memoryview
    part: str = ""

    def error(self, problem: str, advice: str = "") -> FileError:
        return FileError(self.path, f"{self.part} {problem}".lstrip(), advice)

    def refuse_if(self, wrong: object, problem: str, advice: str = "") -> None:
        if wrong:
            raise self.error(problem, advice)

    def tensor(self, name: str) -> "Contents":
        return replace(self, part=f"tensor {quoted(name)}")

    def check_size(self, expected: int, size: int | None = None) -> None:
        """Refuse the file unless it has, or unpacks to, exactly as many bytes as its header declares."""
        size = len(self.data) if size is None else size
        if size != expected:
            kind = "is truncated" if size < expected else "has trailing bytes"
            raise self.error(f"{kind}: its header declares {expected} bytes, the file has {size}")

    def array(
        self,
        dtype: str,
        shape: tuple[int, ...],
        offset: int,
        *,
        big_endian: bool = False,
        fortran: bool = False,
    ) -> Array:
        """The elements from `offset` on, which are all there; a copy only where they are of no use as they are."""
        stored = numpy_dtype(dtype).newbyteorder(">" if big_endian else "<")
        flat: Array = np.frombuffer(self.data, stored, math.prod(shape), offset)
        if stored == np.bool_:  # any byte but 0 and 1 would be a truth value that equals neither
            flat = flat.view(np.uint8) != 0
        elif not stored.isnative:
            flat = flat.astype(stored.newbyteorder("="))
        return flat.reshape(shape, order="F" if fortran else "C")

    def data_bytes(self, shape: tuple[int, ...], itemsize: int) -> int:
        """How many bytes a tensor of that shape takes; refuses a shape that no file can hold."""
        self.refuse_if(len(shape) > MAX_AXES, f"has {len(shape)} axes, more than {MAX_AXES}")
        size = math.prod(shape) * itemsize
        too_long = not size and math.prod(filter(None, shape)) > MAX_EMPTY_ROWS
        said = quoted(", ".join(map(str, shape)))
        self.refuse_if(
            min(shape, default=0) < 0 or size > MAX_BYTES or too_long,
            f"claims an impossible shape, {said}",
        )
        return size

    def path_beside(self, name: str) -> str:
        """The path of a file that this one names, in the same folder or below it. Links are followed, since snapshots
        of a Hugging Face cache hold nothing else; but to a file, since opening a pipe would wait for ever."""
        outside = (
            not name
            or os.path.isabs(name)
            or "\0" in name
            or "\\" in name
            or ".." in name.split("/")
        )
        path = os.path.join(os.path.dirname(self.path), name)
        self.refuse_if(
            not outside and not os.path.exists(path), f"names {quoted(name)}, which does not exist"
        )
        is_file = not outside and os.path.isfile(path)
        self.refuse_if(not is_file, f"names {quoted(name)}, which is not a file in its own folder")
        return path


@dataclass(frozen=True)
class UnreadTensor:
    """A tensor in a type that is named and not read, such as the quantised ones of a .gguf file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int | None
    blocks: Array | None = None  #: the bytes of each row, where they are quantised


class LazyTensors(UserDict[str, Array]):
    """Tensors by name that are read, and their checksums compared, when they are asked for; `data` are outlines, which
    have their dtypes and shapes."""

    def __init__(self, outlines: Mapping[str, Array], read: Callable[[str], Array]) -> None:
        self.data = dict(outlines)
        self._read = cache(read)

    def __getitem__(self, name: str) -> Array:
        return self._read(name) if name in self else self.data[name]


@dataclass(frozen=True)
class LoadedFile:
    """The tensors of a file by name, mapped where their bytes lie plainly in a regular file, and its texts. Nothing is
    held open: a mapping goes with its arrays."""

    path: str
    format: str
    tensors: Mapping[str, Array]
    metadata: dict[str, str] = field(default_factory=dict)
    unread: tuple[UnreadTensor, ...] = ()  # tensors that are only named, such as quantised ones
    contents: Contents | None = field(default=None, repr=False)

    @property
    def outlines(self) -> Mapping[str, Array]:
        """Arrays of the tensors' dtypes and shapes, for which nothing more is read; their elements mean nothing."""
        return self.tensors.data if isinstance(self.tensors, LazyTensors) else self.tensors

    def only(self, name: str) -> "LoadedFile":
        return replace(
            self,
            tensors=LazyTensors({name: self.outlines[name]}, self.tensors.__getitem__),
            unread=(),
        )

    def read_as(self, dtype: str) -> "LoadedFile":
        """The file with its numbers in a dtype, where its format has none of its own: .csv holds decimals alone."""
        if self.format != "csv":
            return self
        ((name, array),) = self.tensors.items()
        return (
            replace(self, tensors={name: round_to(widened(array), dtype)})
            if array.dtype == np.float64
            else self
        )


def parsed_json(
    data: bytes | str,
    error: Callable[[str], FileError],
    *,
    finite: bool = True,
    max_depth: int | None = None,
) -> Any:
    """JSON in which no object has a key twice and, unless said, numbers are finite. `error` makes that of another text:
    of what is wrong with it, in words that follow its name."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            ((repeated, _),) = Counter(name for name, _ in pairs).most_common(1)
            raise error(f"names {quoted(repeated)} twice")
        return entries

    def number(literal: str) -> float:
        if not math.isfinite(value := float(literal)):
            raise error(f"holds {quoted(literal)}, a number out of range")
        return value

    hooks: Any = {"parse_float": number, "parse_constant": number} if finite else {}
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        if max_depth is not None:  # brackets in texts count, too
            steps = ({"{": 1, "[": 1, "}": -1, "]": -1}.get(letter, 0) for letter in text)
            if max(accumulate(steps), default=0) > max_depth:
                raise error(f"is nested more than {max_depth} levels deep")
        return json.loads(text, object_pairs_hook=unique, **hooks)
    except RecursionError:
        raise error("is nested too deeply") from None
    except json.JSONDecodeError as problem:
        raise error(f"is not JSON: {problem.msg} in line {problem.lineno}") from None
    except UnicodeDecodeError:
        raise error("is not UTF-8 text") from None
    except ValueError:  # thousands of digits
        raise error("is not JSON that can be read") from None


def read_contents(
    path: str, check_start: Callable[[str, bytes], object] = lambda name, start: None
) -> Contents:
    """The bytes of a file, a pipe, or with `-` of standard input. `check_start` is shown the name and the first bytes,
    and may refuse them before a pipe is read to its end."""
    label = "standard input" if path == "-" else path
    try:
        with open(os.dup(0) if path == "-" else path, "rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size and file.tell() == 0:
                with suppress(OSError):  # some file systems cannot map
                    mapped = mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ)
                    check_start(label, mapped[:START])
                    return Contents(label, memoryview(mapped))
            data, piece = bytearray(), file.read(START)
            if piece is not None:  # from a pipe that does not wait
                check_start(label, piece)
            while piece:
                data += piece
                piece = file.read(CHUNK)
                if len(data) > MAX_STREAM:
                    raise FileError(
                        label,
                        f"is a pipe of more than {MAX_STREAM >> 30} GiB",
                        "save it to a file first",
                    )
            if piece is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            return Contents(label, memoryview(data))
    except (OSError, ValueError) as error:
        raise failure(label, error) from None


def carried_spec(path: str, metadata: Mapping[str, str]) -> dict[str, Any] | None:
    """The spec in a file's metadata, if there is one: scheme, parameters, version and sha256."""
    if KEY not in metadata:
        return None
    spec = parsed_json(
        metadata[KEY],
        lambda said: FileError(path, f"its pecli metadata {said}"),
        max_depth=MAX_DEPTH,
    )
    if not isinstance(spec, dict) or not isinstance(spec.get("parameters", {}), dict):
        part = "the parameters in " if isinstance(spec, dict) else ""
        raise FileError(path, f"{part}its pecli metadata are not a JSON object")
    return spec
