"""The .npy format: a short header that names dtype and shape, then the elements."""

import io
import warnings
from collections.abc import Container, Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.files.output import OnBlock, Spec, Texts, open_output, write_blocks

if TYPE_CHECKING:  # writing a file needs no reader
    from pecli.files.contents import Contents, LoadedFile

MAX_HEADER = 10_000  # bytes, as in numpy.load: more would keep Python's parser busy
_PARSER = (
    Lock()
)  # Python 3.11 has one count of depths for all threads that parse, and fails where they take turns
ARRAY_NAME = "array"  # what the one array of a .npy file is called, which has no name of its own
_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (64, 32, 16, 8)]
CODES = {
    name: np.dtype(name).newbyteorder("<").str
    for name in ("float64", "float32", "float16", *_INTEGERS, "bool", "complex64", "complex128")
}  #: What the format calls the dtypes that it can hold, their bytes in little-endian order


def check_storable(
    tables: Sequence[Table], suffix: str, dtypes: Container[str], *, empty: bool = True
) -> None:
    """Refuse tables that a format cannot hold, before the output is touched."""
    for table in tables:
        if table.dtype not in dtypes:
            other = ".npy or .npz" if table.dtype.startswith("complex") else ".safetensors"
            raise ParameterError("dtype", table.dtype, f"{suffix} cannot hold it", f"write {other}")
        if not table.size and not empty:
            rule = f"a table in {suffix} has at least one number"
            raise ParameterError("output", f"{suffix} for {table.shape}", rule, "write .npy")


def file_order(tables: Sequence[Table]) -> list[Table]:
    """Large elements first, so that tensors packed tightly are all aligned; names decide among equals."""
    return sorted(tables, key=lambda table: (-numpy_dtype(table.dtype).itemsize, table.name))


def write(
    path: str, tables: Sequence[Table], spec: Spec | None, texts: Texts, on_block: OnBlock
) -> None:
    """Write the one table there is; the format has no place for a spec."""
    (table,) = tables
    check_storable(tables, ".npy", CODES)
    with open_output(path, tables) as output:
        output.write(header(CODES[table.dtype], table.shape))
        write_blocks([table], [output.write], on_block)


def header(code: str, shape: tuple[int, ...]) -> bytes:
    """A version 1.0 header, as np.save writes it."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": code, "fortran_order": False, "shape": shape}
    )
    return file.getvalue()


def read(contents: "Contents") -> "LoadedFile":
    """The one array of a .npy file."""
    from pecli.files.contents import LoadedFile

    return LoadedFile(contents.path, "npy", {ARRAY_NAME: read_array(contents)})


def read_array(contents: "Contents") -> Array:
    """The array in a .npy file; nothing is unpickled."""
    name, shape, offset, orders = read_place(contents, len(contents.data))
    return contents.array(name, shape, offset, **orders)


def read_place(
    contents: "Contents", size: int
) -> tuple[str, tuple[int, ...], int, dict[str, bool]]:
    """Dtype, shape, offset and order of the array in a .npy file of so many bytes, of which the first are there."""
    dtype, shape, fortran, offset = read_header(contents)
    contents.refuse_if(dtype.hasobject, "holds Python objects (a pickle), which are never loaded")
    contents.refuse_if(
        dtype.fields or dtype.subdtype, "holds a structured array, only plain numbers are read"
    )
    name = "bfloat16" if dtype == np.dtype("V2") else dtype.name  # np.save has no other name for it
    other = f"holds elements of dtype {str(dtype)[:40]!r}, only plain numbers are read"
    contents.refuse_if(name not in (*CODES, "bfloat16"), other)
    contents.check_size(offset + contents.data_bytes(shape, dtype.itemsize), size)
    return name, shape, offset, {"big_endian": dtype.str[0] == ">", "fortran": fortran}


def read_header(contents: "Contents") -> tuple[np.dtype[np.generic], tuple[int, ...], bool, int]:
    """Dtype, shape and order of the axes, and where the elements begin."""
    start = bytes(contents.data[: MAX_HEADER + 12])
    contents.refuse_if(
        len(start) < 12 or not start.startswith(b"\x93NUMPY"), "is not a whole .npy file"
    )
    version, unknown = start[6], start[6] not in (1, 2, 3) or start[7]
    contents.refuse_if(
        unknown, f"has .npy version {version}.{start[7]}, only 1.0, 2.0 and 3.0 exist"
    )
    length = int.from_bytes(start[8 : 10 if version == 1 else 12], "little")
    contents.refuse_if(
        length > MAX_HEADER, f"claims a header of {length} bytes, more than {MAX_HEADER}"
    )
    file = io.BytesIO(start)
    file.seek(8)
    read = (
        np.lib.format.read_array_header_1_0 if version == 1 else np.lib.format.read_array_header_2_0
    )
    try:
        with _PARSER, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            shape, fortran, dtype = read(file, max_header_size=MAX_HEADER)
    except (
        Exception
    ):  # whatever parsing a hostile text leads to, RecursionError and MemoryError included
        raise contents.error(
            "has a broken .npy header: a dict of descr, fortran_order and shape is expected"
        ) from None
    no_lengths = any(type(side) is not int for side in shape)
    contents.refuse_if(no_lengths, "has a broken .npy header: its shape is not a tuple of lengths")
    return dtype, shape, fortran, file.tell()
