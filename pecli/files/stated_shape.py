"""Numbers in text whose shape `--shape` states: a column of 3,072 numbers is (4, 12, 64)."""

import math
from dataclasses import replace

from pecli.engine.arrays import Array
from pecli.errors import FileError, counted
from pecli.files.contents import LoadedFile
from pecli.files.raw_layout import Shape, current_layout, spelled


def in_stated_shape(file: LoadedFile) -> LoadedFile:
    """Return a file of text with the current shape for all tensors that have its size.

    Other files state their shapes themselves.

    Raises:
        FileError: no tensor has the size, and the shape is not meant for raw files.
    """
    layout = current_layout()
    if layout is None or layout.is_flat or file.printed is None or file.parts:
        return file
    tensors: dict[str, Array] = {}
    for name, array in file.tensors.items():
        if _fits(layout.shape, array.size):
            tensors[name] = array.reshape(layout.shape)
    if not tensors and layout.dtype is None:
        raise _wrong_size(file, layout.shape)
    return replace(file, tensors={**file.tensors, **tensors})


def _fits(shape: Shape, size: int) -> bool:
    """Return True if a shape, in which one length may be -1, can have so many elements."""
    stated = math.prod(length for length in shape if length != -1)
    if -1 in shape:
        return size % stated == 0
    return size == stated


def _wrong_size(file: LoadedFile, shape: Shape) -> FileError:
    name, array = max(file.tensors.items(), key=lambda item: item[1].size)
    stated = math.prod(length for length in shape if length != -1)
    needed = counted(stated, "number")
    if -1 in shape:
        needed = f"a multiple of {needed}"
    problem = f"{name} has {counted(array.size, 'number')}, and --shape {spelled(shape)} takes"
    return FileError(file.path, f"{problem} {needed}")
