"""The registry of file formats.

A format is one module and one row of FORMATS. Its module has the functions

    read(contents: Contents) -> LoadedFile
    write(request: WriteRequest) -> None

or one of them. It is imported when a file of the format is read or written, not before: start-up
would be slower with all of them. Sentences that list formats are made from the registry.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING

from pecli.errors import FileError, ParameterError
from pecli.files.raw_layout import NO_LAYOUT, current_layout, missing_dtype_error

if TYPE_CHECKING:
    from pecli.files.contents import Contents, LoadedFile
    from pecli.files.writing import WriteRequest

JSON_FORM = (
    'a .json has the form {"cos": [[1.0, 0.5]]}, or with dtypes '
    '{"tensors": {"cos": {"data": [[1.0, 0.5]], "dtype": "float32", "shape": [1, 2]}}}'
)

_NOT_TEXT = re.compile(rb"[^\t\n\f\r\x1b -~\x80-\xff]")
"""A byte that text does not have; escapes of terminals, and letters of any language, it has."""
_TEXT_SUFFIXES = (".txt", ".log")
_DIGIT = re.compile(rb"[0-9]")
_LIST_OF_OBJECTS = re.compile(rb'\[[\[\s]*\{\s*"')
_BEGINNING_OF_HEADER = re.compile(rb"^(?:/\* pecli: \{|#ifndef PECLI_)", re.MULTILINE)

Signature = Callable[[str, bytes], bool]
"""Returns True for the lower-case suffix and the first bytes of a file of the format."""


def begins_with(magic: bytes) -> Signature:
    """Return the signature of a format that begins with these bytes."""
    return lambda suffix, first_bytes: first_bytes.startswith(magic)


def has_suffix(*suffixes: str) -> Signature:
    """Return the signature of a format that only its suffix identifies."""
    return lambda suffix, first_bytes: suffix in suffixes


def is_not_read(suffix: str, first_bytes: bytes) -> bool:
    """Recognise no file: the format is only written, or its tables are folders."""
    return False


def is_torch_archive(suffix: str, first_bytes: bytes) -> bool:
    """Recognise a ZIP archive whose first member is a pickle called `…/data.pkl`.

    The local header of a ZIP member has the length of its name at offset 26 and the name at 30.
    """
    name_length = int.from_bytes(first_bytes[26:28], "little")
    name = first_bytes[30 : 30 + name_length]
    return first_bytes.startswith(b"PK\x03\x04") and name.endswith(b"/data.pkl")


def is_npz(suffix: str, first_bytes: bytes) -> bool:
    """Recognise any other ZIP archive; an empty one begins with its end record."""
    is_archive = first_bytes.startswith((b"PK\x03\x04", b"PK\x05\x06"))
    return is_archive and not is_torch_archive(suffix, first_bytes)


def is_raw(suffix: str, first_bytes: bytes) -> bool:
    """Recognise a raw file: its layout is stated, and its suffix is not that of another format.

    Formats with a magic number come first in FORMATS, so that `--shape` leaves a .npy beside a
    raw file what it is. A .bin is torch's only if it is an archive.
    """
    return current_layout().dtype is not None and suffix not in _OWN_SUFFIXES


def is_json(suffix: str, first_bytes: bytes) -> bool:
    """Recognise a JSON object, which begins with a brace and a quoted key, or a list of objects.

    A .safetensors file can begin with the same byte, if its header has a length of 123 bytes:
    `{` is 123, and the upper half of the length is zero. An initialiser in C has no quotes.
    """
    text = first_bytes.lstrip()
    if _LIST_OF_OBJECTS.match(text):
        return True
    begins_with_key = text[1:].lstrip().startswith((b'"', b"}"))
    is_object = text.startswith(b"{") and (begins_with_key or suffix == ".json")
    return is_object and first_bytes[4:8] != bytes(4)


def is_header_of_pecli(suffix: str, first_bytes: bytes) -> bool:
    """Recognise a C header that pecli wrote, by its spec or its include guard.

    A licence may have been put before it. Other headers are read as text.
    """
    return _BEGINNING_OF_HEADER.search(first_bytes) is not None


def is_number_text(suffix: str, first_bytes: bytes) -> bool:
    """Recognise text with a digit in it, unless the file claims to be something else.

    A file called .txt may begin with a title that is longer than what is looked at here.
    """
    is_text = _NOT_TEXT.search(first_bytes) is None
    has_digit = _DIGIT.search(first_bytes) is not None
    if suffix in _TEXT_SUFFIXES:
        return is_text
    return is_text and has_digit and suffix not in _OWN_SUFFIXES - {".json", ".h"}


def is_safetensors(suffix: str, first_bytes: bytes) -> bool:
    """Recognise a JSON object after the eight bytes of its length, some of which are zero."""
    return first_bytes[8:9] == b"{" and _NOT_TEXT.search(first_bytes[:8]) is not None


@dataclass(frozen=True)
class Format:
    """A file format: how it is recognised, read and written.

    Attributes:
        name: its name in `LoadedFile.format`; a format that is written has the suffix `.name`.
        module: the module with its functions `read` and `write`.
        suffixes: the suffixes of its files, the most common first; empty if they have any.
        signature: recognises the files that are read; `is_not_read` if none are.
        is_written: whether the module has a function `write`.
        holds_one_array: whether a file holds a single array, without a name.
        is_tried_last: whether every other format is more likely; any text may hold numbers.
        is_text: whether numbers are written in decimal, of which only so much is read.
    """

    name: str
    module: str
    suffixes: tuple[str, ...]
    signature: Signature = is_not_read
    is_written: bool = False
    holds_one_array: bool = False
    is_tried_last: bool = False
    is_text: bool = False

    def recognises(self, suffix: str, first_bytes: bytes) -> bool:
        """Return True for the suffix and the first bytes of a file of this format."""
        return self.signature(suffix, first_bytes)

    def read(self, contents: "Contents") -> "LoadedFile":
        """Read a file of this format."""
        loaded: LoadedFile = import_module(self.module).read(contents)
        return loaded

    def write(self, request: "WriteRequest") -> None:
        """Write a file of this format."""
        import_module(self.module).write(request)


FORMATS = [
    Format(
        "npy",
        "pecli.files.npy",
        (".npy",),
        begins_with(b"\x93NUMPY"),
        is_written=True,
        holds_one_array=True,
    ),
    Format("npz", "pecli.files.npz", (".npz",), is_npz, is_written=True),
    Format("torch", "pecli.files.torch_file", (".pt", ".pth", ".bin"), is_torch_archive),
    Format("gguf", "pecli.files.gguf_file", (".gguf",), begins_with(b"GGUF")),
    Format("raw", "pecli.files.raw_file", (), is_raw),
    Format(
        "csv",
        "pecli.files.csv_file",
        (".csv", ".tsv"),
        has_suffix(".csv", ".tsv"),
        is_written=True,
        holds_one_array=True,
        is_text=True,
    ),
    Format("json", "pecli.files.json_file", (".json",), is_json, is_written=True, is_text=True),
    Format(
        "safetensors",
        "pecli.files.safetensors",
        (".safetensors",),
        is_safetensors,
        is_written=True,
    ),
    Format("onnx", "pecli.files.onnx_file", (".onnx",), has_suffix(".onnx")),
    Format("h", "pecli.files.c_header", (".h",), is_header_of_pecli, is_written=True, is_text=True),
    Format(
        "text",
        "pecli.files.text_file",
        _TEXT_SUFFIXES,
        is_number_text,
        is_tried_last=True,
        is_text=True,
    ),
    Format("zarr", "pecli.files.zarr_store", (".zarr",), is_written=True),
]
"""All formats, in the order in which their signatures are tried: those with a magic number first.
A Zarr store is a folder, which `load_file` recognises by its suffix."""

_OWN_SUFFIXES = {*chain(*(candidate.suffixes for candidate in FORMATS))} - {".bin"}
_BARE_PICKLE = re.compile(rb"\x80[\x02-\x05]")
"""The opcode with which a pickle begins, and its protocol. Raw bfloat16 begins with 80 3f for 1.0."""
_COMPRESSIONS = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
"""Programs that compress single files, by the first bytes of what they write."""
_RAW_ADVICE = "if it holds raw numbers, state them: --shape 2,8,24,128 --raw-dtype f16"
ADVICE = {
    ".json": JSON_FORM,
}
"""Advice for a file that no format recognises, by its suffix."""


def suffix_of(path: str) -> str:
    """Return the suffix of a path in lower case, with its dot."""
    return os.path.splitext(path)[1].lower()


def format_of_bytes(path: str, first_bytes: bytes) -> Format:
    """Return the format of a file, by its first bytes and for some formats by its suffix.

    Raises:
        FileError: no format recognises the file.
        ParameterError: it may be raw, and only its shape is stated.
    """
    if not first_bytes:
        raise FileError(path, "is empty")
    suffix = suffix_of(path)
    for candidate in sorted(FORMATS, key=lambda candidate: candidate.is_tried_last):
        if candidate.recognises(suffix, first_bytes):
            return candidate
    raise _not_recognised(path, first_bytes)


def _not_recognised(path: str, first_bytes: bytes) -> FileError | ParameterError:
    """Return the error for a file that no format recognises, with advice for the likely reason."""
    for magic, program in _COMPRESSIONS.items():
        if first_bytes.startswith(magic):
            return FileError(path, f"is compressed by {program}", f"unpack it: {program} -dk FILE")
    if _BARE_PICKLE.match(first_bytes):
        problem = "is a pickle without an archive around it, and those are never loaded"
        advice = "write the tensors with safetensors.torch.save_file or numpy.save"
        return FileError(path, problem, advice)
    # A file of no format is read as raw numbers if --raw-dtype and --shape are given.
    raw_layout = current_layout()
    states_only_shape = raw_layout.dtype is None and raw_layout != NO_LAYOUT
    if states_only_shape:
        return missing_dtype_error()
    suffixes = one_of(readable_suffixes())
    advice = ADVICE.get(suffix_of(path), _RAW_ADVICE)
    return FileError(path, f"is not a {suffixes} file of tables", advice)


def readable_suffixes() -> list[str]:
    """Return the most common suffix of every format that is read from a single file."""
    readable = [candidate for candidate in FORMATS if candidate.signature is not is_not_read]
    suffixes = chain(*(candidate.suffixes[:1] for candidate in readable))
    return list(suffixes)


def written_formats() -> list[Format]:
    """Return the formats that are written."""
    return [candidate for candidate in FORMATS if candidate.is_written]


def written_suffixes() -> list[str]:
    """Return the suffixes that select the format of an output."""
    return [f".{candidate.name}" for candidate in written_formats()]


def one_of(words: Sequence[str]) -> str:
    """Return alternatives as text.

    >>> one_of([".npy", ".npz", ".h"])
    '.npy, .npz or .h'
    """
    *others, last = words
    if not others:
        return last
    return f"{', '.join(others)} or {last}"
