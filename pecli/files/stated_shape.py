"""Numbers in text whose shape `--shape` states: a column of 3,072 numbers is (4, 12, 64)."""

import math
from dataclasses import replace

from pecli.errors import FileError, counted
from pecli.files.contents import LoadedFile
from pecli.files.raw_layout import RawLayout, current_layout, spelled


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
    reshaped = {}
    for name, array in file.tensors.items():
        shape = stated.filled_in(array.size)
        if math.prod(shape) == array.size:
            reshaped[name] = array.reshape(shape)
    # With --raw-dtype, the shape is one for raw files. This text may stand beside them.
    is_shape_for_text = stated.dtype is None
    if is_shape_for_text and not reshaped:
        raise _wrong_size(file, stated)
    return replace(file, tensors={**file.tensors, **reshaped})


def _is_whole_text(file: LoadedFile) -> bool:
    """Return True for tensors that were printed with all of their elements."""
    return file.printed.is_text and not file.parts


def _wrong_size(file: LoadedFile, stated: RawLayout) -> FileError:
    """Return the error for a shape that no tensor has, which names the largest one."""
    name, array = max(file.tensors.items(), key=lambda item: item[1].size)
    shape = stated.filled_in(array.size)
    needed = counted(math.prod(shape), "number")
    size = counted(array.size, "number")
    return FileError(file.path, f"{name} has {size}, and --shape {spelled(shape)} takes {needed}")
