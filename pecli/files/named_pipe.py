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

    `open` would wait until a writer comes. With O_NONBLOCK it returns at once, so that the first
    read can wait for a limited time. All reads after it wait as long as the writer takes.
    """

    def __init__(self, path: str) -> None:
        super().__init__(
            path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)
        )
        self._path = path
        self._has_writer_come = False

    def readinto(self, buffer: memoryview | bytearray) -> int | None:  # type: ignore[override]
        """Read into a buffer, and return the number of bytes; 0 at the end."""
        if self._has_writer_come:
            return super().readinto(buffer)
        early_count = self._read_when_writer_comes(buffer)
        self._has_writer_come = True
        os.set_blocking(self.fileno(), True)
        if early_count is None:
            return super().readinto(buffer)  # This read waits for the first bytes.
        return early_count

    def _read_when_writer_comes(self, buffer: memoryview | bytearray) -> int | None:
        """Read what the writer sends within WRITER_SECONDS, and return the number of bytes.

        Returns None if a writer has opened the pipe, and has sent nothing so far. The number is 0 if
        it has closed the pipe already, but also if none has come. Only `select` distinguishes the
        two: a closed pipe is ready at once, and a pipe without a writer is never.

        Raises:
            FileError: No writer has come.
        """
        import select

        ready, _, _ = select.select([self], [], [], WRITER_SECONDS)
        count = super().readinto(buffer)
        if count == 0 and not ready:
            problem = f"is a pipe that no program has opened to write within {WRITER_SECONDS:.0f} s"
            raise FileError(self._path, problem)
        return count
