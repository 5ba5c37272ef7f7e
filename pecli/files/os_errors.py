"""What went wrong with a file, in plain words."""

from __future__ import annotations

import errno
import os

from pecli.errors import FileError

WORDS = {
    errno.ENOENT: ("does not exist", ""),
    errno.ENOTDIR: ("part of the path is a file, not a folder", ""),
    errno.EISDIR: ("is a folder", "name a file"),
    errno.EACCES: ("permission denied", ""),
    errno.EPERM: ("permission denied", ""),
    errno.EROFS: ("the file system is read-only", "choose another folder"),
    errno.ENOSPC: ("the disk is full", "free some space or choose another folder"),
    errno.EDQUOT: ("the disk quota is used up", "free some space or choose another folder"),
    errno.EFBIG: ("the file would be larger than the limit for files", "raise it (ulimit -f) or make a smaller table"),
    errno.EIO: ("the disk reports an error", ""),
    errno.ENAMETOOLONG: ("the name is too long", ""),
    errno.ELOOP: ("is a symbolic link that leads back to itself", ""),
    errno.EBADF: ("is not open", ""),
    errno.ENXIO: ("nothing is at the other end", ""),
}

JSON_FORM = (
    'a .json of tables has the form {"tensors": {"cos": {"data": [[1.0, 0.5]], "dtype": "float32", "shape": [1, 2]}}}'
)
"""What to do about JSON of another form."""


def failure(path: str, error: OSError | ValueError) -> FileError:
    """The operating system's error as a FileError; a ValueError is a path no system call would take."""
    if isinstance(error, ValueError):
        return FileError(repr(path), "is not a possible file name")
    known = WORDS.get(error.errno or 0)
    problem, advice = known or (os.strerror(error.errno).lower() if error.errno else str(error), "")
    return FileError(path, problem, advice)
