"""Writing the .npy format: a short header that names dtype and shape, then the elements."""

from __future__ import annotations

from collections.abc import Sequence

from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.files.output import Output
from pecli.files.tee_blocks import OnBlock, Spec, Write, pour

MAGIC = b"\x93NUMPY"
ALIGNMENT = 64
GROWTH_DIGITS = 21  # np.save leaves room for the first axis to grow in place
CODES = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint64": "<u8",
    "uint32": "<u4",
    "uint16": "<u2",
    "uint8": "|u1",
    "bool": "|b1",
    "complex64": "<c8",
    "complex128": "<c16",
}
"""What the format calls the dtypes it can hold, their bytes in little-endian order."""


def prepare(tables: Sequence[Table], spec: Spec | None) -> Write:
    """Writes the one table there is; the format has no place for a spec."""
    (table,) = tables
    header = table_header(table, ".npy")

    def write(output: Output, on_block: OnBlock | None) -> None:
        output.write(header)
        pour(table, [output.write], on_block)

    return write


def table_header(table: Table, suffix: str) -> bytes:
    """The bytes before a table's elements; refuses a dtype that the format has no name for."""
    if table.dtype not in CODES:
        raise ParameterError("dtype", table.dtype, f"{suffix} cannot hold it", "write .safetensors or .h")
    return header(CODES[table.dtype], table.shape)


def header(code: str, shape: tuple[int, ...]) -> bytes:
    """A version 1.0 header, byte for byte what np.save writes.

    >>> len(header("<f4", (512, 64)))
    128
    """
    room = GROWTH_DIGITS - len(str(shape[0])) if shape else 0
    text = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}" + " " * room
    length = len(MAGIC) + 4 + len(text) + 1
    text += " " * (ALIGNMENT - length % ALIGNMENT) + "\n"  # one to 64 spaces, never none
    return MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii")
