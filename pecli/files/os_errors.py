"""What the operating system or Python reports, as an error of pecli: what went wrong, in plain words."""

from __future__ import annotations

import errno
import os

from pecli.errors import DefectError, FileError, PecliError, ResourceError

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


def translated(problem: Exception) -> PecliError:
    """Any exception as an error of pecli; what is not known here is a defect."""
    if isinstance(problem, PecliError):
        return problem
    cause = problem.__cause__
    if cause is not None and not isinstance(cause, Exception):
        raise cause  # Python before 3.12 wraps an interrupt that is raised while a class is being made
    text = str(problem)
    if isinstance(problem, OSError) and problem.filename is not None:
        path = os.fsdecode(problem.filename)
        return DefectError(problem) if path.endswith((".py", ".pyc")) else failure(path, problem)
    if isinstance(problem, MemoryError) or (isinstance(problem, RuntimeError) and "allocate lock" in text):
        advice = "make the table smaller, or write it to a file with -o, block by block"
        return ResourceError(f"there is not enough memory; {advice}")
    if isinstance(problem, ImportError) and "failed to map segment" in text:
        return ResourceError("there is not enough memory to load NumPy or matplotlib")
    if isinstance(problem, RuntimeError) and "thread" in text:
        return ResourceError("the system starts no more threads; set PECLI_THREADS=1")
    return DefectError(problem)
