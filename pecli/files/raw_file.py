"""Raw binary files: elements without a header, as fwrite, Rust's `write_all` and tofile leave them.

Their dtype and shape are the current layout; see `raw_layout.raw_files`.
"""

import math
from collections.abc import Iterator

import numpy as np

from pecli.engine.arrays import FLOATS, Array, numpy_dtype
from pecli.errors import FileError
from pecli.files.contents import Contents, LoadedFile
from pecli.files.npy import ARRAY_NAME
from pecli.files.raw_layout import DTYPE_NAMES, RawLayout, Shape, current_layout, spelled

MAX_OPTIONS = 4  # other shapes and dtypes that an error lists
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
    shape = _resolved_shape(contents, layout)
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
    if numbers.size == 0:
        return 0.0
    smallest, largest = USUAL_SIZES
    with np.errstate(invalid="ignore"):
        sizes = np.abs(numbers.astype(np.float64))
    is_usual = (sizes > smallest) & (sizes < largest)
    return float(is_usual.mean())


def _itemsize(layout: RawLayout) -> int:
    assert layout.dtype is not None
    return numpy_dtype(layout.dtype).itemsize


def _resolved_shape(contents: Contents, layout: RawLayout) -> Shape:
    """Return the shape with the length that -1 stands for; refuse a file of another size.

    With the shape (2, -1, 64) of float16, a file of 2,560 bytes is (2, 10, 64): 10 is 2,560
    divided by the 2 · 64 · 2 bytes of the other axes.
    """
    size = len(contents.data)
    stated_lengths = tuple(length for length in layout.shape if length != -1)
    stated_bytes = contents.data_bytes(stated_lengths, _itemsize(layout))
    if -1 not in layout.shape:
        if size != stated_bytes:
            raise _wrong_size(contents, layout, stated_bytes)
        return layout.shape
    length, remaining_bytes = divmod(size, stated_bytes)
    if remaining_bytes:
        raise _wrong_size(contents, layout, stated_bytes)
    axis = layout.shape.index(-1)
    return (*layout.shape[:axis], length, *layout.shape[axis + 1 :])


def _wrong_size(contents: Contents, layout: RawLayout, expected: int) -> FileError:
    """Return the error with both sizes, and the shapes and dtypes that have the size of the file.

    It begins «has 48 bytes, and 2,6 of float16 takes 24 bytes»: float32 and 4,6 would fit.
    """
    size = len(contents.data)
    needed = f"{expected:,} bytes"
    if -1 in layout.shape:
        needed = f"a multiple of {needed}"
    problem = f"has {size:,} bytes, and {spelled(layout.shape)} of {layout.dtype} takes {needed}"
    options = [f"--shape {spelled(shape)}" for shape in _fitting_shapes(layout, size)]
    options += [f"--raw-dtype {dtype}" for dtype in _fitting_dtypes(layout, size)]
    advice = ""
    if options:
        advice = f"what fits: {', '.join(options[:MAX_OPTIONS])}"
    return contents.error(problem, advice)


def _fitting_shapes(layout: RawLayout, size: int) -> Iterator[Shape]:
    """Yield the shapes that differ in one axis and have the size of the file.

    A file of 24,576 bytes, read as (2, 8, 24, 128) of float16, has 12,288 elements: (2, 8, 6, 128)
    and (2, 2, 24, 128) fit, and no other first axis does.
    """
    element_count, remaining_bytes = divmod(size, _itemsize(layout))
    if remaining_bytes:
        return
    for axis in range(len(layout.shape)):
        axes_before = layout.shape[:axis]
        axes_after = layout.shape[axis + 1 :]
        other_axes = (*axes_before, *axes_after)
        if -1 in other_axes:
            continue  # A second length would be open.
        length, remaining_elements = divmod(element_count, math.prod(other_axes))
        if remaining_elements == 0:
            yield (*axes_before, length, *axes_after)


def _fitting_dtypes(layout: RawLayout, size: int) -> Iterator[str]:
    """Yield a dtype of another width with which the shape has the size of the file.

    24 bytes, read as (2, 3) of float16, have room for elements of 4 bytes, such as float32.
    """
    if -1 in layout.shape:
        return
    width, remaining_bytes = divmod(size, math.prod(layout.shape))
    if remaining_bytes:
        return
    fitting = [dtype for dtype in DTYPE_NAMES if numpy_dtype(dtype).itemsize == width]
    yield from fitting[:1]
