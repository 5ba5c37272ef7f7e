"""The bytes of a file and the tensors that lie in them.

A regular file is mapped into memory, a pipe is read. If a file is truncated by somebody else while
it is mapped, the system ends this process (SIGBUS); no output has been written then."""

import errno
import math
import mmap
import os
from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import BinaryIO, NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Indices, numpy_dtype, round_in_blocks
from pecli.engine.named_values import JsonObject
from pecli.errors import FileError, PecliError, quoted
from pecli.files.named_pipe import open_to_read
from pecli.files.output import KEY, blamed_on
from pecli.files.strict_json import MAX_DEPTH, parsed_json

INDEX = ".index.json"  # how the name of a checkpoint's index ends
GGUF = b"GGUF"
STANDARD_INPUT = "standard input"  # the path of a LoadedFile that was read from `-`
MAX_STREAM = 4 << 30  # bytes that are read from a pipe: all of them are kept in memory
MAX_TEXT = 256 << 20  # bytes of a file of text; its numbers take about as much memory
MAX_AXES = 32  # as in NumPy 1
MAX_BYTES = 2**62
MAX_EMPTY_ROWS = 2**31  # A table without elements can still have many rows to step through.
MAX_READ = 64 << 20  # bytes of a file that is read if it cannot be mapped for want of memory
CHUNK = 1 << 20
START = 512  # bytes that are enough to recognise a format


def package(name: str, missing: PecliError) -> ModuleType:
    """Import an optional package; raise `missing` if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        raise missing from None


class Place(NamedTuple):
    """The place of an array in a file, and the form of its elements."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    big_endian: bool = False
    fortran: bool = False


@dataclass(frozen=True)
class Contents:
    """The bytes of a file or of an archive member.

    Attributes:
        path: the file.
        data: the bytes.
        part: the part of the file that errors are about, such as «tensor 'cos'»; empty for all.
    """

    path: str
    data: memoryview
    part: str = ""

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.data)

    def error(self, problem: str, advice: str = "") -> FileError:
        return FileError(self.path, f"{self.part} {problem}".lstrip(), advice)

    def refuse_if(self, wrong: object, problem: str, advice: str = "") -> None:
        """Raise a FileError about this file if something is wrong with it."""
        if wrong:
            raise self.error(problem, advice)

    def require(self, condition: object, problem: str, advice: str = "") -> None:
        """Raise a FileError about this file unless a condition holds."""
        if not condition:
            raise self.error(problem, advice)

    def tensor(self, name: str) -> "Contents":
        """Return the same bytes, with errors about one tensor."""
        return replace(self, part=f"tensor {quoted(name)}")

    def check_size(self, expected: int, size: int | None = None) -> None:
        """Raise a FileError unless the file has exactly the size that its header declares.

        `size` is the size of a compressed member once unpacked, instead of that of the bytes.
        """
        if size is None:
            size = self.size
        sizes = f"its header declares {expected} bytes, the file has {size}"
        self.refuse_if(size < expected, f"is truncated: {sizes}")
        self.refuse_if(size > expected, f"has trailing bytes: {sizes}")

    def tensors(self, places: Mapping[str, Place]) -> dict[str, Array]:
        """Return the tensors at these places, which the caller knows to be within the file.

        They are views of the file.

        Args:
            places: The place of each tensor by its name.
        """
        return {name: self.array_at(place) for name, place in places.items()}

    def array_at(self, place: Place) -> Array:
        """Return the elements at a place, which the caller knows to be within the file."""
        return self.array(
            place.dtype,
            place.shape,
            place.offset,
            big_endian=place.big_endian,
            fortran=place.fortran,
        )

    def array(
        self,
        dtype: str,
        shape: tuple[int, ...],
        offset: int,
        *,
        big_endian: bool = False,
        fortran: bool = False,
    ) -> Array:
        """Return the elements from `offset` on, which the caller knows to be within the file.

        The array is a view of the file where that is possible. Big-endian numbers and booleans
        are copied.
        """
        stored_dtype = numpy_dtype(dtype).newbyteorder(">" if big_endian else "<")
        flat = np.frombuffer(self.data, stored_dtype, math.prod(shape), offset)
        return _with_usual_bytes(flat).reshape(shape, order="F" if fortran else "C")

    def data_bytes(self, shape: tuple[int, ...], itemsize: int) -> int:
        """Return the size of a tensor in bytes; refuse a shape that no file can hold."""
        self.refuse_impossible_shape(shape, itemsize)
        return math.prod(shape) * itemsize

    def refuse_impossible_shape(self, shape: tuple[int, ...], itemsize: int) -> None:
        """Raise FileError for a shape of a tensor that no file can hold.

        Args:
            shape: The shape that the file states.
            itemsize: The bytes of an element, or more.
        """
        self.refuse_if(len(shape) > MAX_AXES, f"has {len(shape)} axes, more than {MAX_AXES}")
        is_too_large = math.prod(shape) * itemsize > MAX_BYTES
        is_impossible = is_too_large or min(shape, default=0) < 0 or _has_endless_rows(shape)
        sides = quoted(", ".join(map(str, shape)))
        self.refuse_if(is_impossible, f"claims an impossible shape, {sides}")

    def path_beside(self, name: str) -> str:
        """Return the path of a file that this one names, in its own folder or below.

        Links are followed, since a snapshot in the Hugging Face cache consists of links. They
        must lead to a regular file, since opening a pipe would wait for ever.
        """
        outside = f"names {quoted(name)}, which is not a file in its own folder"
        self.refuse_if(leaves_folder(name), outside)
        path = os.path.join(os.path.dirname(self.path), name)
        self.require(os.path.exists(path), f"names {quoted(name)}, which does not exist")
        self.require(os.path.isfile(path), outside)
        return path


def outline(dtype: str, shape: tuple[int, ...]) -> Array:
    """Return an array of a dtype and shape that takes no memory; its elements mean nothing."""
    zero = np.zeros((), numpy_dtype(dtype))
    return np.broadcast_to(zero, shape)


def _has_endless_rows(shape: tuple[int, ...]) -> bool:
    """Return True for an empty tensor of too many rows, which would be stepped through for ever.

    A tensor of the shape (10**12, 0) needs no bytes, so that its size is no limit.
    """
    nonzero_sides = filter(None, shape)
    return 0 in shape and math.prod(nonzero_sides) > MAX_EMPTY_ROWS


def leaves_folder(name: str) -> bool:
    """Return True if a file of that name could be written or read outside of its folder."""
    if not name or os.path.isabs(name):
        return True
    return "\0" in name or "\\" in name or ".." in name.split("/")


def _with_usual_bytes(stored: Array) -> Array:
    """Return numbers in the byte order of this machine, and booleans as 0 or 1.

    A byte other than 0 and 1 would be a truth value that equals neither.
    """
    if stored.dtype == np.bool_:
        truths: Array = stored.view(np.uint8) != 0
        return truths
    if stored.dtype.isnative:
        return stored
    return stored.astype(stored.dtype.newbyteorder("="))


@dataclass(frozen=True)
class UnreadTensor:
    """A tensor of a type that is listed but not read, such as a quantised one of a .gguf file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int | None
    read_blocks: Callable[[], Array] | None = None  #: reads the blocks, if it is quantised

    @property
    def blocks(self) -> Array | None:
        """The bytes of each row, if the tensor is quantised; else None."""
        return None if self.read_blocks is None else self.read_blocks()


class LazyTensors(UserDict[str, Array]):
    """Tensors by name that are read, and their checksums compared, on first access.

    `data` holds their outlines: arrays of the right dtype and shape whose elements mean nothing.
    """

    def __init__(self, outlines: Mapping[str, Array], read: Callable[[str], Array]) -> None:
        self.data = dict(outlines)
        self._read = cache(read)

    def __getitem__(self, name: str) -> Array:
        if name not in self:
            raise KeyError(name)
        return self._read(name)


class PrintedText(NamedTuple):
    """Text that numbers were read from. It states no dtype, and has as many digits as were printed.

    Attributes:
        decimals: the digits after the decimal point, if printing rounded the numbers; else 0.
        are_rows: whether lines are the only axes, so that a column may stand for a vector.
        states_dtype: whether numbers were rounded to a small dtype that the text states.
        is_text: whether there is a text; False only for NOT_PRINTED.
    """

    decimals: int = 0
    are_rows: bool = True
    states_dtype: bool = False
    is_text: bool = True

    @property
    def rounding(self) -> float:
        """The largest error of numbers that were rounded to so many decimals: 5e-5 for 4.

        It is twice as large if the reader rounded them to a dtype again: 0.3333 in print becomes
        0.33325 in float16, which it was before. That second rounding finds the number before
        printing if numbers of the dtype are far apart, and adds as much as the first one at most if
        they are close.
        """
        if not self.decimals:
            return 0.0
        largest_error = 0.5 * 10.0**-self.decimals
        return 2 * largest_error if self.states_dtype else largest_error


NOT_PRINTED = PrintedText(are_rows=False, is_text=False)
"""The text of a file that holds numbers in their dtypes."""


class PrintedPart(NamedTuple):
    """The elements of a tensor (heads, tokens, D) that were printed.

    Attributes:
        shape: the shape of the whole tensor.
        heads: the indices of the heads that are there.
        tokens: the indices of the tokens that are there.
        channels: the indices of the channels that are there; others are NaN.
    """

    shape: tuple[int, int, int]
    heads: Indices
    tokens: Indices
    channels: Indices

    @property
    def size(self) -> int:
        """The number of elements of the whole tensor."""
        return math.prod(self.shape)

    @property
    def printed_size(self) -> int:
        """The number of elements that were printed."""
        return len(self.heads) * len(self.tokens) * len(self.channels)

    @property
    def is_whole(self) -> bool:
        """True if no element is missing."""
        return (len(self.heads), len(self.tokens), len(self.channels)) == self.shape


@dataclass(frozen=True)
class LoadedFile:
    """The tensors of a file by name, and its metadata.

    Tensors are views of the mapped file where possible. Nothing is held open: the mapping ends
    with its last array.

    Attributes:
        path: the file, or `standard input`.
        format: the name of the format, as in `formats.FORMATS`; or `folder` or `arrays`.
        tensors: the tensors by name.
        metadata: texts by name.
        unread: tensors that are listed only.
        printed: the text that the numbers were read from.
        notes: what was assumed while it was read.
        renamed: by name, a tensor's name in the file, if it is called differently here.
        parts: by name, the elements that are there of tensors that were not printed as a whole.
        contents: the bytes of a .safetensors file, of which `convert` copies the header.
    """

    path: str
    format: str
    tensors: Mapping[str, Array]
    metadata: dict[str, str] = field(default_factory=dict)
    unread: tuple[UnreadTensor, ...] = ()
    printed: PrintedText = NOT_PRINTED
    notes: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, PrintedPart] = field(default_factory=dict)
    contents: Contents | None = field(default=None, repr=False)

    @property
    def outlines(self) -> Mapping[str, Array]:
        """Arrays with the tensors' dtypes and shapes. No data is read; elements mean nothing."""
        if isinstance(self.tensors, LazyTensors):
            return self.tensors.data
        return self.tensors

    def only(self, name: str) -> "LoadedFile":
        """Return the file with one of its tensors."""
        outline = {name: self.outlines[name]}
        tensors = LazyTensors(outline, self.tensors.__getitem__)
        return replace(self, tensors=tensors, unread=())

    def read_as(self, dtype: str) -> "LoadedFile":
        """Return the file with decimals, which have no dtype in text, rounded to a dtype."""
        if not self.printed.is_text:
            return self
        tensors: dict[str, Array] = {}
        for name, array in self.tensors.items():
            is_decimal = array.dtype == np.float64
            tensors[name] = round_in_blocks(array, dtype) if is_decimal else array
        return replace(self, tensors=tensors)

    @property
    def rounding(self) -> float:
        """The largest error that printing the numbers made; 0 if they were not printed as text."""
        return self.printed.rounding

    @property
    def has_rows_only(self) -> bool:
        """True if lines of text are the only axes, so that a column may stand for a vector."""
        return self.printed.are_rows


PipeLimit = Callable[[str, bytes], int]
"""Takes a pipe's name and its first bytes, and returns the most bytes of it that are read.

It raises a FileError for bytes with which no file begins that can be read."""


def _limit_of_any_pipe(name: str, first_bytes: bytes) -> int:
    """Return one limit for all pipes, whatever they begin with."""
    return MAX_STREAM


def read_contents(path: str, pipe_limit: PipeLimit = _limit_of_any_pipe) -> Contents:
    """Return the bytes of a file or a pipe; `-` is standard input.

    `pipe_limit` can refuse a pipe by its first bytes, before all of it is read into memory. A file
    is not read but mapped, and so may have any length.
    """
    if path == "-":
        with blamed_on(STANDARD_INPUT):
            return _map_or_read(os.dup(0), STANDARD_INPUT, pipe_limit)
    with blamed_on(path):
        return _map_or_read(path, path, pipe_limit)


def _map_or_read(source: str | int, name: str, pipe_limit: PipeLimit) -> Contents:
    """Return the bytes of an input: a file is mapped into memory, a pipe is read to its end.

    Args:
        source: The path of the input, or its descriptor.
        name: The name of the input in errors.
        pipe_limit: Returns the most bytes of a pipe that are read, by its first bytes.
    """
    try:
        with open_to_read(source) as file:
            mapped = _mapped_file(file, name)
            if mapped is not None:
                return Contents(name, memoryview(mapped))
            return Contents(name, _read_stream(file, name, pipe_limit))
    except MemoryError:
        problem = "does not fit into the memory that this process may use"
        raise FileError(name, problem, "save it to a file first, which is mapped") from None


def _mapped_file(file: BinaryIO, name: str) -> mmap.mmap | None:
    """Map a file into memory; return None if it has to be read as a stream, such as a pipe.

    Raises:
        FileError: the process may not have that much address space (`ulimit -v`), and so could not
            read it either.
    """
    size = os.fstat(file.fileno()).st_size
    is_pipe_or_empty = size == 0
    if is_pipe_or_empty:
        return None
    is_partly_read = file.tell() > 0  # A redirected standard input goes on where it stands.
    if is_partly_read:
        return None
    try:
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except OSError as problem:
        if problem.errno == errno.ENOMEM and size > MAX_READ:
            size_in_mib = f"{size / (1 << 20):,.0f} MiB"
            fact = f"its {size_in_mib} do not fit into the address space of this process"
            raise FileError(name, fact, "raise the limit (ulimit -v)") from None
        return None  # Some file systems cannot map files.


def _read_stream(file: BinaryIO, name: str, pipe_limit: PipeLimit) -> memoryview:
    """Read a pipe or standard input to its end, into memory.

    Its size is not known before. `pipe_limit` returns the limit, by the first bytes: text takes
    much more memory than its size when it is parsed.
    """
    data = bytearray()
    piece = _next_piece(file, START)
    limit = pipe_limit(name, piece)
    while piece:
        data += piece
        if len(data) > limit:
            problem = f"is a pipe of more than {limit >> 20:,} MiB"
            raise FileError(name, problem, "save it to a file first")
        piece = _next_piece(file, CHUNK)
    return memoryview(data)


def _next_piece(file: BinaryIO, size: int) -> bytes:
    """Return the next bytes of a pipe, at most `size`; none at its end.

    Raises:
        BlockingIOError: the other end made the pipe non-blocking, and it has no data now.
    """
    piece: bytes | None = file.read(size)
    if piece is None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return piece


def carried_spec(path: str, metadata: Mapping[str, str]) -> JsonObject | None:
    """Return the spec in a file's metadata: scheme, parameters, version and sha256.

    Returns None if the file carries none.
    """
    if KEY not in metadata:
        return None

    def error(problem: str) -> FileError:
        return FileError(path, f"its pecli metadata {problem}")

    spec = parsed_json(metadata[KEY], error, max_depth=MAX_DEPTH)
    if not isinstance(spec, dict):
        raise error("are not a JSON object")
    parameters = spec.get("parameters", {})
    if not isinstance(parameters, dict):
        raise FileError(path, "the parameters in its pecli metadata are not a JSON object")
    return spec
