"""Input files that may be named pipes, whose writer may never come."""

import io
import os
import stat
from typing import BinaryIO

from pecli.errors import FileError

WRITER_SECONDS = 10.0
"""Time in which a program must have opened a named pipe for writing. A shell does so at once, before
it starts the program; that may then take as long as it likes."""


def open_to_read(path: str | int) -> BinaryIO:
    """Open a file, a pipe or a descriptor for reading."""
    if isinstance(path, str) and _is_pipe(path):
        return io.BufferedReader(_NamedPipe(path))
    return open(path, "rb")


def _is_pipe(path: str) -> bool:
    """Return True for a named pipe; False if the file cannot be examined, which opening it reports."""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


class _NamedPipe(io.FileIO):
    """A pipe that is read like a file, except that nobody waits for ever for its writer.

    `open` would wait until a writer comes. With O_NONBLOCK it returns at once, and the first read
    tells the cases apart: no bytes if there is no writer, None if the writer has sent nothing yet.
    """

    def __init__(self, path: str) -> None:
        super().__init__(
            path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
        )
        self._path = path

    def readinto(self, buffer: memoryview | bytearray) -> int | None:  # type: ignore[override]
        """Read into a buffer, and return the number of bytes; 0 at the end.

        Until its writer has come, the pipe does not block, and `select` waits for WRITER_SECONDS.
        After that it blocks, so that a slow writer may take as long as it likes. A read without
        blocking returns

            the number of bytes      the writer has sent some
            None                     the writer has sent nothing yet
            0                        there is no writer; it has come and gone if `select` saw it
        """
        has_writer = os.get_blocking(self.fileno())  # The pipe blocks once a writer has come.
        if has_writer:
            return super().readinto(buffer)
        import select

        ready, _, _ = select.select([self], [], [], WRITER_SECONDS)
        count = super().readinto(buffer)
        if count == 0 and not ready:
            problem = f"is a pipe that no program has opened to write within {WRITER_SECONDS:.0f} s"
            raise FileError(self._path, problem)
        os.set_blocking(self.fileno(), True)
        if count is None:
            return super().readinto(buffer)
        return count
