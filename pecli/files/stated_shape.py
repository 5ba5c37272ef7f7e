"""Numbers in text whose shape `--shape` states: a column of 3,072 numbers is (4, 12, 64)."""

import math
from dataclasses import replace

from pecli.errors import FileError, counted
from pecli.files.contents import LoadedFile
from pecli.files.raw_layout import Shape, current_layout, spelled


def in_stated_shape(file: LoadedFile) -> LoadedFile:
    """Return a file whose printed tensors have the shape that the user states.

    With `--shape 2,-1,64`, a tensor of 1,280 numbers becomes (2, 10, 64). Tensors of another size
    keep their shape, and so do those of other files than text.

    Raises:
        FileError: No tensor has the size, and the shape cannot be meant for raw files.
    """
    layout = current_layout()  # --shape and --raw-dtype
    if layout.is_flat or not _is_whole_text(file):
        return file
    reshaped = {
        name: array.reshape(layout.shape)
        for name, array in file.tensors.items()
        if _fits(layout.shape, array.size)
    }
    is_for_raw_files = layout.dtype is not None  # --raw-dtype is stated for raw files only.
    if not reshaped and not is_for_raw_files:
        raise _wrong_size(file, layout.shape)
    return replace(file, tensors={**file.tensors, **reshaped})


def _is_whole_text(file: LoadedFile) -> bool:
    """Return True for tensors that were printed with all of their elements."""
    return file.printed is not None and not file.parts


def _fits(shape: Shape, size: int) -> bool:
    """Return True if a shape, in which one length may be -1, can have so many elements."""
    if -1 in shape:
        return size % _stated_size(shape) == 0
    return size == _stated_size(shape)


def _stated_size(shape: Shape) -> int:
    """Return the product of the lengths of a shape, without that of -1."""
    return math.prod(length for length in shape if length != -1)


def _wrong_size(file: LoadedFile, shape: Shape) -> FileError:
    """Return the error for a shape that no tensor has, which names the largest one."""
    name, array = max(file.tensors.items(), key=lambda item: item[1].size)
    needed = counted(_stated_size(shape), "number")
    if -1 in shape:
        needed = f"a multiple of {needed}"
    problem = f"{name} has {counted(array.size, 'number')}, and --shape {spelled(shape)} takes"
    return FileError(file.path, f"{problem} {needed}")
