"""Raw binary files: elements without a header, as fwrite, Rust's `write_all` and tofile leave them.

Their dtype and shape are the current layout; see `raw_layout.raw_files`.
"""

import numpy as np

from pecli.engine.arrays import FLOATS, Array, numpy_dtype
from pecli.files.contents import Contents, LoadedFile
from pecli.files.npy import ARRAY_NAME
from pecli.files.raw_layout import RawLayout, Shape, current_layout, spelled

SAMPLE = 4096  # elements whose byte order is judged
USUAL_SIZES = (1e-4, 1e3)
MIN_DIFFERENCE = 0.2  # by which the share of usual sizes must be larger in the other byte order


def read(contents: Contents) -> LoadedFile:
    """Return the only array of a raw file.

    Raises:
        FileError: the file has another size than its layout.
    """
    layout = current_layout()
    assert layout.dtype is not None  # Otherwise no file is taken for a raw one.
    shape = _resolved_shape(contents, layout, numpy_dtype(layout.dtype).itemsize)
    array = contents.array(layout.dtype, shape, 0, big_endian=layout.big_endian)
    notes = []
    if array.dtype in FLOATS and _seems_swapped(array.reshape(-1)[:SAMPLE]):
        order = "" if layout.big_endian else ">"
        notes.append(
            f"the byte order seems wrong; --raw-dtype '{order}{layout.dtype}' is the other"
        )
    return LoadedFile(contents.path, "raw", {ARRAY_NAME: array}, notes=tuple(notes))


def _seems_swapped(numbers: Array) -> bool:
    """Return True if many more numbers have a usual size once their bytes are reversed.

    The exponents of swapped float32 numbers are bits of their significands: one of ten has a usual
    size.
    """
    swapped = numbers.view(f"u{numbers.itemsize}").byteswap().view(numbers.dtype)
    return _usual_share(swapped) > _usual_share(numbers) + MIN_DIFFERENCE


def _usual_share(numbers: Array) -> float:
    """Return the share of numbers within USUAL_SIZES, as nearly all of queries, keys and tables are."""
    smallest, largest = USUAL_SIZES
    with np.errstate(invalid="ignore"):
        sizes = np.abs(numbers.astype(np.float64))
    is_usual = (sizes > smallest) & (sizes < largest)
    return float(is_usual.sum()) / max(1, numbers.size)


def _resolved_shape(contents: Contents, layout: RawLayout, itemsize: int) -> Shape:
    """Return the shape with the length that -1 stands for; refuse a file of another size.

    With the shape (2, -1, 64) of float16, a file of 2,560 bytes is (2, 10, 64): 10 is 2,560
    divided by the 2 · 64 · 2 bytes of the other axes.
    """
    shape = layout.filled_in(contents.size // itemsize)
    needed = contents.data_bytes(shape, itemsize)
    stated = f"{spelled(shape)} of {layout.dtype}"
    problem = f"has {contents.size:,} bytes, and {stated} takes {needed:,} bytes"
    contents.require(contents.size == needed, problem)
    return shape
