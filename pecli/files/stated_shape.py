"""Numbers in text whose shape `--shape` states: a column of 3,072 numbers is (4, 12, 64)."""

import math
from dataclasses import replace

from pecli.errors import FileError, counted
from pecli.files.contents import LoadedFile
from pecli.files.raw_layout import Shape, current_layout, spelled


def in_stated_shape(file: LoadedFile) -> LoadedFile:
    """Return a text file whose tensors have the shape that `--shape` states.

    With `--shape 2,-1,64`, a tensor of 1,280 numbers becomes (2, 10, 64). Tensors of another size
    keep their shape, and other files than text are returned as they are.

    Raises:
        FileError: The shape is one for text, and no tensor has its size.
    """
    stated = current_layout()  # by --shape and --raw-dtype, for all files of the command
    if stated.is_flat or not _is_whole_text(file):
        return file
    reshaped = {
        name: array.reshape(stated.shape)
        for name, array in file.tensors.items()
        if _fits(stated.shape, array.size)
    }
    # With --raw-dtype, the shape is one for raw files. This text may stand beside them.
    is_shape_for_text = stated.dtype is None
    if is_shape_for_text and not reshaped:
        raise _wrong_size(file, stated.shape)
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
