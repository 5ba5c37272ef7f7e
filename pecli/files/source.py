"""Where a file's bytes come from: a regular file, read at any place by any thread, or a pipe, kept as far as read."""

from __future__ import annotations

import os
import stat
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from pecli.errors import FileError
from pecli.files.os_errors import failure

if TYPE_CHECKING:
    from pecli.files.output import Output

CHUNK = 1 << 20


class Source(ABC):
    """Bytes that can be read at any offset; `size` is how many there are, None while that is not known."""

    path: str
    size: int | None
    in_order = False  #: whether reading backwards is slow and threads gain nothing

    def error(self, problem: str, advice: str = "") -> FileError:
        """The problem, as one of this file."""
        return FileError(self.path, problem, advice)

    @abstractmethod
    def read_into(self, offset: int, out: memoryview) -> int:
        """Fill `out` with the bytes from `offset` on; how many were there, fewer only where the bytes end."""

    def read(self, offset: int, count: int) -> bytes:
        """The `count` bytes from `offset` on, or as many as there are; memory for `count` is taken at once."""
        buffer = bytearray(count)
        return bytes(buffer[: self.read_into(offset, memoryview(buffer))])

    def fill(self, offset: int, out: memoryview) -> None:
        """Fill all of `out`, from bytes that were there when the file was opened."""
        if self.read_into(offset, out) < len(out):
            raise self.error("changed while it was read: bytes are missing now")

    def copy_to(self, output: Output, offset: int, count: int) -> None:
        """Append the `count` bytes from `offset` on to an output."""
        buffer = memoryview(bytearray(min(count, CHUNK)))
        while count > 0:
            piece = buffer[: min(count, len(buffer))]
            self.fill(offset, piece)
            output.write(piece)
            offset, count = offset + len(piece), count - len(piece)

    def check_size(self, expected: int) -> None:
        """Refuse the file unless it has exactly as many bytes as its header says."""
        found = self.size if self.size is not None else self.available(expected + 1)
        if found < expected:
            raise self.error(f"is truncated: its header asks for {expected} bytes in all, {found} are there")
        if found > expected:
            more = "more" if self.size is None else str(found)
            raise self.error(f"has trailing bytes: its header asks for {expected} bytes in all, {more} are there")

    def available(self, count: int) -> int:
        """How many of the first `count` bytes there are."""
        return min(self.size or 0, count)

    def close(self) -> None:  # noqa: B027  (most sources hold nothing of their own)
        """Let go of the file; reading ends here."""


class _OpenSource(Source):
    """A source behind a descriptor."""

    _descriptor = -1

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):  # all that was wanted of it is read
                os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class FileSource(_OpenSource):
    """A regular file."""

    def __init__(self, path: str, descriptor: int, size: int) -> None:
        self.path, self._descriptor, self.size = path, descriptor, size

    def read_into(self, offset: int, out: memoryview) -> int:
        if self._descriptor < 0:
            raise self.error("is closed already")
        done = 0
        try:
            while done < len(out):
                count = os.preadv(self._descriptor, [out[done:]], offset + done)
                if not count:
                    break
                done += count
        except OSError as error:
            raise failure(self.path, error) from None
        return done

    def copy_to(self, output: Output, offset: int, count: int) -> None:
        while count > 0 and (copied := output.copy(self._descriptor, offset, count)):
            offset, count = offset + copied, count - copied
        super().copy_to(output, offset, count)


class PipeSource(_OpenSource):
    """A pipe or a terminal: read as far as was ever asked for, and no further."""

    size = None

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._kept = bytearray()
        self._descriptor = descriptor

    def available(self, count: int) -> int:
        """Read on until `count` bytes are here; memory grows with what arrives, not with what is claimed."""
        try:
            while len(self._kept) < count:
                piece = os.read(self._descriptor, min(CHUNK, count - len(self._kept)))
                if not piece:
                    break
                self._kept += piece
        except OSError as error:
            raise failure(self.path, error) from None
        return min(len(self._kept), count)

    def read_into(self, offset: int, out: memoryview) -> int:
        there = max(0, self.available(offset + len(out)) - offset)
        with memoryview(self._kept) as kept:
            out[:there] = kept[offset : offset + there]
        return there


class KeptSource(Source):
    """Another source, read whole at the first call: for bytes that come in order and are wanted crosswise."""

    def __init__(self, source: Source, size: int) -> None:
        self.path, self._source, self.size = source.path, source, size

    @cached_property
    def _kept(self) -> memoryview:
        kept = memoryview(bytearray(self.size or 0))
        self._source.fill(0, kept)
        return kept

    def read_into(self, offset: int, out: memoryview) -> int:
        piece = self._kept[offset : offset + len(out)]
        out[: len(piece)] = piece
        return len(piece)


class SourceGroup(Source):
    """Several sources that are let go of together; it has no bytes of its own."""

    size = 0

    def __init__(self, path: str, *sources: Source) -> None:
        self.path, self._sources = path, [*sources]

    def add(self, source: Source) -> None:
        """One more that `close` closes."""
        self._sources.append(source)

    def read_into(self, offset: int, out: memoryview) -> int:
        return 0

    def close(self) -> None:
        for source in self._sources:
            source.close()


def open_source(path: str) -> Source:
    """Open a file, a pipe, or with `-` standard input, for reading."""
    label = "standard input" if path == "-" else path
    try:
        descriptor = os.dup(0) if path == "-" else os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise failure(label, error) from None
    try:
        found = os.fstat(descriptor)
        at_start = path != "-" or not stat.S_ISREG(found.st_mode) or os.lseek(descriptor, 0, os.SEEK_CUR) == 0
        if stat.S_ISDIR(found.st_mode):
            raise FileError(label, "is a folder", "name a file in it")
    except (OSError, FileError) as error:
        with suppress(OSError):
            os.close(descriptor)
        raise (failure(label, error) if isinstance(error, OSError) else error) from None
    if stat.S_ISREG(found.st_mode) and at_start:
        return FileSource(label, descriptor, found.st_size)
    return PipeSource(label, descriptor)
