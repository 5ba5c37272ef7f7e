"""Atomic output: a file appears when it is complete, or not at all.

A regular file is written under a temporary name in its own folder, synced, and renamed over the
old one, so that a reader sees the old file or the new one, never a part. A pipe or a device is
written to directly.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TypeGuard

from pecli.engine.table import Table
from pecli.errors import FileError, PecliError, failure

try:
    import fcntl
except ImportError:  # Windows, where an open file can be neither renamed nor removed
    fcntl = None  # type: ignore[assignment]

MAX_NAME_BYTES = 255  # on every file system in common use
O_BINARY = getattr(os, "O_BINARY", 0)  # Windows only: without it, \n would become \r\n.
O_NOCTTY = getattr(os, "O_NOCTTY", 0)  # A terminal that is written to must not take over.
MIN_CHECKED_BYTES = 1 << 24  # Smaller outputs are written without asking for free space first.
KEY = "pecli"  # the metadata key of the spec


@contextmanager
def blamed_on(path: str) -> Iterator[None]:
    """Turn errors of the operating system into FileErrors about `path`.

    A broken pipe passes through: its reader has seen enough, which is not an error. So do errors
    of pecli, some of which are ValueErrors as well.
    """
    try:
        yield
    except (BrokenPipeError, PecliError):
        raise
    except (OSError, ValueError) as error:
        raise failure(path, error) from None


@dataclass
class Output:
    """An open file descriptor to write to; a seekable one can be patched."""

    path: str
    _descriptor: int
    seekable: bool

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append all of `data`; one system call may write less."""
        rest = memoryview(data).cast("B")
        size = rest.nbytes
        with blamed_on(self.path):
            while rest:
                rest = rest[self._write_some(rest) :]
        return size

    def _write_some(self, data: memoryview) -> int:
        """Write a part of `data` and return its size; 0 after waiting for a full pipe."""
        try:
            return os.write(self._descriptor, data)
        except BlockingIOError:
            # The other end made the pipe non-blocking, and it is full: wait until it has room.
            import select

            select.select([], [self._descriptor], [])
            return 0

    def flush(self) -> None:
        """Do nothing: no data is buffered. `zipfile` calls this method of every file."""

    def patch(self, offset: int, data: bytes) -> None:
        """Overwrite bytes that were written before."""
        with blamed_on(self.path):
            end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            self.write(data)
            os.lseek(self._descriptor, end, os.SEEK_SET)

    def close(self) -> None:
        descriptor = self._descriptor
        self._descriptor = -1
        # A regular file is synced already, so that closing it cannot lose data.
        with suppress(OSError):
            os.close(descriptor)


@contextmanager
def open_output(path: str, tables: Sequence[Table] = ()) -> Iterator[Output]:
    """Open `path` for writing, if the tables fit on the disk.

    A regular file is replaced when the block ends; the old one stays if the block raises an
    exception. Standard output, pipes and devices are written to directly.
    """
    check_free_space(path, tables)
    open_descriptor = _open_descriptor(path)
    if open_descriptor is not None:
        label = "standard output" if path == "-" else path
        yield Output(label, open_descriptor, seekable=False)
        return
    mode = _checked_mode(path)
    is_new_or_regular = mode == NO_FILE or stat.S_ISREG(mode)
    if is_new_or_regular:
        with _written_beside(path, mode) as output:
            yield output
        return
    with blamed_on(path):
        descriptor = os.open(path, os.O_WRONLY | O_BINARY | O_NOCTTY)
    with closing(Output(path, descriptor, seekable=False)) as output:
        yield output


NO_FILE = 0  # instead of the mode of a file; no file has this mode, which includes its kind


def _checked_mode(path: str) -> int:
    """Return the mode of the file at `path`, NO_FILE if there is none; refuse a folder.

    A regular file that its owner may write has the mode 0o100644.
    """
    if not path:
        raise FileError("''", "an output file needs a name")
    mode = _mode_of(path)
    if stat.S_ISDIR(mode) or path.endswith("/"):
        raise FileError(path, "is a folder", "name a file in it")
    return mode


def _mode_of(path: str) -> int:
    with blamed_on(path):
        try:
            return os.stat(path).st_mode
        except FileNotFoundError:
            return NO_FILE


def is_stream(path: str) -> bool:
    """Return True if `path` is standard output, a pipe or a device, which are never replaced."""
    if _open_descriptor(path) is not None:
        return True
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def is_text(name: object) -> TypeGuard[str]:
    """Return True if a name can be encoded: half a surrogate pair cannot."""
    return isinstance(name, str) and not any("\ud800" <= letter <= "\udfff" for letter in name)


def check_free_space(path: str, tables: Sequence[Table]) -> None:
    """Raise a FileError if the tables cannot fit on the disk.

    Text formats take more bytes than the tables, never fewer.
    """
    needed_bytes = sum(table.nbytes for table in tables)
    if needed_bytes < MIN_CHECKED_BYTES:
        return
    with suppress(OSError, ValueError, AttributeError):  # Windows lacks statvfs.
        disk = os.statvfs(os.path.dirname(os.path.realpath(path)))
        free_bytes = disk.f_bavail * disk.f_frsize
        if needed_bytes > free_bytes and not is_stream(path):
            problem = f"takes {needed_bytes:,} bytes, and the disk has {free_bytes:,}"
            raise FileError(path, problem, "free some space or write less")


_DESCRIPTOR_NAMES = {"-": "/dev/fd/1", "/dev/stdout": "/dev/fd/1", "/dev/stderr": "/dev/fd/2"}
_MAX_DESCRIPTOR_DIGITS = 9  # so that every number fits into a C int


def _open_descriptor(path: str) -> int | None:
    """Return the open descriptor that `path` names: `-`, /dev/stdout, /dev/fd/N; else None.

    If a redirected file was opened again by such a name, it would be overwritten from its
    beginning; the descriptor continues at its current position.

    >>> _open_descriptor("-"), _open_descriptor("/dev/fd/3"), _open_descriptor("pe.npy")
    (1, 3, None)
    """
    folder, _, number = _DESCRIPTOR_NAMES.get(path, path).rpartition("/")
    if folder not in ("/dev/fd", "/proc/self/fd"):
        return None
    has_few_digits = len(number) <= _MAX_DESCRIPTOR_DIGITS
    is_number = has_few_digits and number.isascii() and number.isdigit()
    return int(number) if is_number else None


def _writable_target(path: str, *, replaces_file: bool) -> str:
    """Return the file that is written or replaced: that of a link, which stays.

    Raises:
        FileError: The file is there, and write-protected.
    """
    target = os.path.realpath(path) if os.path.islink(path) else path
    if replaces_file and not os.access(target, os.W_OK):
        raise FileError(path, "is write-protected", "make it writable or choose another name")
    return target


@contextmanager
def _written_beside(path: str, old_mode: int) -> Iterator[Output]:
    """Open a new file beside `path`, which takes the place of `path` when the block has ended.

    `pe.npy` is written as `.pe.npy.9f86d081.tmp`. If the block raises, this file is removed, and an
    old `pe.npy` stays as it was.

    Args:
        path: The file.
        old_mode: The mode of the file that is there, which the new one gets; or NO_FILE.
    """
    replaces_file = old_mode != NO_FILE
    target = _writable_target(path, replaces_file=replaces_file)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, temporary_name(name))
    _remove_leftovers(folder, temporary)
    # A new file gets 0666 less the umask. One that replaces another may have to be private: it
    # gets the old mode at the end, and nobody else can read it before.
    first_mode = 0o600 if replaces_file else 0o666
    try:
        # The lock shows other writers that the file is in use, and no leftover of a killed one.
        descriptor = _create_locked(path, temporary, first_mode)
        with closing(Output(path, descriptor, seekable=True)) as output:
            yield output  # The caller writes all bytes.
            with blamed_on(path):
                _set_mode_and_sync(output, descriptor, old_mode)
                os.replace(temporary, target)
            _sync_folder(folder or ".")  # so that the new name is on the disk as well
    except BaseException:  # An interrupt must leave no temporary file either.
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _set_mode_and_sync(output: Output, descriptor: int, old_mode: int) -> None:
    """Give a complete file the mode of the one that it replaces, and sync it to the disk."""
    if old_mode and hasattr(os, "fchmod"):  # Windows has no modes.
        # The set-user-ID bit must not pass to a file of another owner.
        os.fchmod(descriptor, old_mode & 0o777)
    os.fsync(descriptor)
    if fcntl is None:
        output.close()


def _sync_folder(folder: str) -> None:
    """Sync the new name; some systems cannot sync a folder."""
    with suppress(OSError), _opened(folder, os.O_RDONLY) as descriptor:
        os.fsync(descriptor)


_RANDOM_BYTES = 4
_ENDING_LENGTH = len(".12345678.tmp")


def temporary_name(name: str) -> str:
    """Return a hidden name beside an output that no file has yet: `.pe.npy.9f86d081.tmp`."""
    ending = f".{os.urandom(_RANDOM_BYTES).hex()}.tmp"
    room = MAX_NAME_BYTES - len(".") - _ENDING_LENGTH
    return "." + os.fsdecode(os.fsencode(name)[:room]) + ending


@contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | O_BINARY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _create_locked(path: str, temporary: str, mode: int) -> int:
    """Create a file, lock it as long as it is open, and return its descriptor.

    Writers remove files without a lock, which other writers that were killed have left. This one may
    be removed in the moment before it is locked: then it is created again.
    """
    while True:
        with blamed_on(path):
            descriptor = _create(path, temporary, mode)
            if fcntl is None:
                return descriptor
            with suppress(OSError):  # Some file systems have no locks.
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            was_removed = os.fstat(descriptor).st_nlink == 0  # It has no name any more.
            if not was_removed:
                return descriptor
            os.close(descriptor)


def _create(path: str, temporary: str, mode: int) -> int:
    """Create a file that does not exist, and return its descriptor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_BINARY
    try:
        return os.open(temporary, flags, mode)
    except FileNotFoundError:
        raise _no_folder(path, os.path.dirname(temporary)) from None


def _no_folder(path: str, folder: str) -> FileError:
    """Return the error for a folder in which no file can be made: it is absent, or one like /proc."""
    if os.path.isdir(folder or "."):
        return FileError(path, "no file can be made in this folder", "choose another")
    return FileError(path, f"the folder {folder} does not exist", "make it first")


def _remove_leftovers(folder: str, temporary: str) -> None:
    """Remove temporary files of the same output that killed writers left: nobody locks them.

    `.pe.npy.9f86d081.tmp` and `.pe.npy.1b4f0e98.tmp` are of the same output.
    """
    if fcntl is None:
        return
    names: list[str] = []
    with suppress(OSError):  # A folder may be writable and not readable.
        names = os.listdir(folder or ".")
    for name in names:
        path = os.path.join(folder, name)
        is_of_same_output = _without_random_part(path) == _without_random_part(temporary)
        if name.endswith(".tmp") and is_of_same_output:
            _remove_unlocked(path)


def _without_random_part(path: str) -> str:
    """Return the path of a temporary file up to its random digits: `.pe.npy.`."""
    return path[: -len("12345678.tmp")]


def _remove_unlocked(path: str) -> None:
    """Remove a regular file, unless a writer has locked it."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW
    with suppress(OSError), _opened(path, flags) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.unlink(path)
