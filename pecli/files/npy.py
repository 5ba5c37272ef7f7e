"""The .npy format: a short header that names dtype and shape, then the elements."""

import io
import warnings
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pecli.engine.arrays import Array
from pecli.files.output import open_output
from pecli.files.writing import WriteRequest, check_storable, write_blocks

if TYPE_CHECKING:  # Writing a file needs no reader.
    from pecli.files.contents import Contents, LoadedFile, Place

MAGIC = b"\x93NUMPY"
VERSION_END = 8  # the offset after the magic and two bytes of version
MAX_HEADER = 10_000  # bytes, as in numpy.load: more would keep Python's parser busy
MIN_FILE = 12  # bytes of the magic, the version and the length of the header
ARRAY_NAME = "array"  # the name given to the array of a .npy file, which has none
DTYPES = (
    *("float64", "float32", "float16"),
    *("int64", "int32", "int16", "int8"),
    *("uint64", "uint32", "uint16", "uint8"),
    *("bool", "complex64", "complex128"),
)
CODES = {name: np.dtype(name).newbyteorder("<").str for name in DTYPES}
"""The format's name of every dtype that it holds, little-endian: float32 is `<f4`."""

_parser_lock = Lock()
"""Python 3.11 counts the parser's depth for all threads together, and fails if they alternate."""


def write(request: WriteRequest) -> None:
    """Write the only table; the format has no place for a spec."""
    (table,) = request.tables
    check_storable(request.tables, ".npy", CODES)
    with open_output(request.path, request.tables) as output:
        output.write(header(CODES[table.dtype], table.shape))
        write_blocks([table], [output.write], request.on_block)


def header(code: str, shape: tuple[int, ...]) -> bytes:
    """Return a version 1.0 header, as np.save writes it."""
    file = io.BytesIO()
    fields = {"descr": code, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue()


class NpyHeader(NamedTuple):
    """The header of a .npy file as it stands, before anything in it is checked."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    fortran: bool
    end: int  #: the offset of the first element


def read(contents: "Contents") -> "LoadedFile":
    """Return the array of a .npy file."""
    from pecli.files.contents import LoadedFile

    place = read_entry(contents, contents.size)
    return LoadedFile(contents.path, "npy", contents.tensors({ARRAY_NAME: place}))


def read_array(contents: "Contents") -> Array:
    """Return the array of an archive member that is a .npy file; nothing is unpickled."""
    return contents.array_at(read_entry(contents, contents.size))


def read_entry(contents: "Contents", size: int) -> "Place":
    """Return the place of the array in a .npy file of `size` bytes.

    `contents` may be only the beginning of the file, as for a compressed archive member.
    """
    from pecli.files.contents import Place

    array = read_header(contents)
    dtype_name = _plain_dtype_name(contents, array.dtype)
    data_bytes = contents.data_bytes(array.shape, array.dtype.itemsize)
    contents.check_size(array.end + data_bytes, size)
    is_big_endian = array.dtype.str.startswith(">")
    return Place(
        dtype_name, array.shape, array.end, big_endian=is_big_endian, fortran=array.fortran
    )


def _plain_dtype_name(contents: "Contents", dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype of plain numbers; refuse all other dtypes."""
    contents.refuse_if(dtype.hasobject, "holds Python objects (a pickle), which are never loaded")
    is_structured = dtype.fields is not None
    contents.refuse_if(is_structured, "holds a structured array, only plain numbers are read")
    # np.save has no name for bfloat16: it writes elements of two raw bytes.
    name = "bfloat16" if dtype == np.dtype("V2") else dtype.name
    is_plain = name == "bfloat16" or name in CODES
    problem = f"holds elements of dtype {str(dtype)[:40]!r}, only plain numbers are read"
    contents.require(is_plain, problem)
    return name


def read_header(contents: "Contents") -> NpyHeader:
    """Parse the header of a .npy file: the magic, a version, its length, and a Python dict as text.

        \\x93NUMPY | 1 0 | length (2 bytes) | {'descr': '<f4', 'fortran_order': False, 'shape': (4, 6)}

    Raises:
        FileError: the file is not a whole .npy file, or NumPy does not accept its header.
    """
    beginning = bytes(contents.data[: MAX_HEADER + MIN_FILE])
    is_whole = len(beginning) >= MIN_FILE and beginning.startswith(MAGIC)
    contents.require(is_whole, "is not a whole .npy file")
    major = _checked_version(contents, beginning)
    parsed = _parsed_header(contents, beginning, major)
    has_lengths = all(type(side) is int for side in parsed.shape)
    contents.require(has_lengths, "has a broken .npy header: its shape is not a tuple of lengths")
    # NumPy 2.0 lets the size of '<U999999999' overflow; later versions raise an error above.
    overflows = parsed.dtype.itemsize < 0
    contents.refuse_if(overflows, "has a broken .npy header: its elements are too large")
    return parsed


def _checked_version(contents: "Contents", beginning: bytes) -> int:
    """Return the major version in a header; refuse another version, or a header that is too long."""
    major, minor = beginning[len(MAGIC) : VERSION_END]
    is_known_version = major in (1, 2, 3) and minor == 0
    contents.require(
        is_known_version,
        f"has .npy version {major}.{minor}, only 1.0, 2.0 and 3.0 exist",
    )
    # Version 1 has two bytes for the length of its header, the others have four.
    length_end = VERSION_END + (2 if major == 1 else 4)
    length = int.from_bytes(beginning[VERSION_END:length_end], "little")
    is_too_long = length > MAX_HEADER
    contents.refuse_if(is_too_long, f"claims a header of {length} bytes, more than {MAX_HEADER}")
    return major


def _parsed_header(contents: "Contents", beginning: bytes, major: int) -> NpyHeader:
    """Return a header as NumPy parses it.

    Args:
        contents: The file, for errors.
        beginning: Its first bytes, which hold the header.
        major: The version, on which the width of the header's length depends.
    """
    if major == 1:
        numpy_parser = np.lib.format.read_array_header_1_0
    else:
        numpy_parser = np.lib.format.read_array_header_2_0
    file = io.BytesIO(beginning)
    file.seek(VERSION_END)
    try:
        with _parser_lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of headers that Python 2 wrote.
            shape, fortran, dtype = numpy_parser(file, max_header_size=MAX_HEADER)
    except Exception:  # A hostile header can cause any, RecursionError and MemoryError included.
        raise contents.error(
            "has a broken .npy header: a dict of descr, fortran_order and shape is expected"
        ) from None
    return NpyHeader(dtype=dtype, shape=shape, fortran=fortran, end=file.tell())
