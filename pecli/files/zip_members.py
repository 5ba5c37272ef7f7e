"""The data of one member of a .npz, read like a file of its own."""

from __future__ import annotations

import threading
import zlib

from pecli.engine.text import quoted
from pecli.errors import FileError
from pecli.files.source import CHUNK, Source


class Checksum:
    """A running CRC-32."""

    def __init__(self) -> None:
        self.value = 0

    def update(self, data: bytes | memoryview) -> None:
        """Take in the next bytes."""
        self.value = zlib.crc32(data, self.value)


class MemberSource(Source):
    """`size` bytes with the checksum `crc`, kept in the `packed` bytes of an archive from `offset` on."""

    size: int

    def __init__(self, archive: Source, name: str, offset: int, packed: int, size: int, crc: int) -> None:
        self.path, self._archive, self._name = archive.path, archive, name
        self._offset, self._packed, self.size, self._crc = offset, packed, size, crc

    def error(self, problem: str, advice: str = "") -> FileError:
        return super().error(f"member {quoted(self._name)} {problem}", advice)

    def check(self) -> None:
        """Read it all and hold it against its checksum."""
        checksum = Checksum()
        buffer = memoryview(bytearray(min(CHUNK, self.size)))
        for offset in range(0, self.size, CHUNK):
            piece = buffer[: min(CHUNK, self.size - offset)]
            self.fill(offset, piece)
            checksum.update(piece)
        self._compare(checksum)

    def _compare(self, checksum: Checksum) -> None:
        if checksum.value != self._crc:
            raise self.error("is damaged: its checksum does not match")


class StoredMember(MemberSource):
    """A member that is not compressed."""

    def read_into(self, offset: int, out: memoryview) -> int:
        there = max(0, min(len(out), self.size - offset))
        return self._archive.read_into(self._offset + offset, out[:there])


class DeflatedMember(MemberSource):
    """A compressed member, unpacked on the way past and never kept: memory stays flat, going back starts over."""

    in_order = True

    def __init__(self, archive: Source, name: str, offset: int, packed: int, size: int, crc: int) -> None:
        super().__init__(archive, name, offset, packed, size, crc)
        self._lock = threading.Lock()
        self._rewind()

    def read_into(self, offset: int, out: memoryview) -> int:
        with self._lock:
            if offset < self._at:
                self._rewind()
            while self._at < offset and self._unpack(min(CHUNK, offset - self._at)):
                pass
            done = 0
            while done < len(out) and (piece := self._unpack(min(CHUNK, len(out) - done))):
                out[done : done + len(piece)] = piece
                done += len(piece)
            return done

    def _rewind(self) -> None:
        self._at = 0  # in the member
        self._taken = 0  # of the packed bytes
        self._tail = b""
        self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        self._checksum = Checksum()

    def _unpack(self, count: int) -> bytes:
        """Some of the next `count` bytes, at least one unless the member ends here."""
        piece = b""
        while not piece and self._at < self.size:
            if not self._tail and not self._stream.eof:
                self._tail = self._archive.read(self._offset + self._taken, min(CHUNK, self._packed - self._taken))
                self._taken += len(self._tail)
            piece = self._step(min(count, self.size - self._at))
        self._checksum.update(piece)
        self._at += len(piece)
        if piece and self._at == self.size:
            self._check_end()
        return piece

    def _step(self, count: int) -> bytes:
        tail = self._tail
        try:
            piece = self._stream.decompress(tail, count)
        except zlib.error:
            raise self.error("is damaged: it cannot be unpacked") from None
        self._tail = self._stream.unconsumed_tail
        if not piece and (self._stream.eof or not tail):
            raise self.error(f"is truncated: {self.size} bytes are expected, {self._at} are there")
        return piece

    def _check_end(self) -> None:
        """All bytes are here: the stream must say so too, and the checksum must match."""
        rest = self._tail + self._archive.read(self._offset + self._taken, min(CHUNK, self._packed - self._taken))
        try:
            more = b"" if self._stream.eof else self._stream.decompress(rest, 1)
        except zlib.error:
            more = b"?"
        if more or not self._stream.eof or self._stream.unused_data:
            raise self.error(f"is damaged: it does not end after the {self.size} bytes it should have")
        self._compare(self._checksum)
