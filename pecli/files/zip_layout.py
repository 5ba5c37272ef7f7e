"""The ZIP structures that a .npz needs: members one after the other, then a directory of them, then where that is.

Sizes and offsets of 4 GiB and more, and more than 65,534 members, go into zip64 fields, there only when needed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR = struct.Struct("<4sIQI")

LOCAL_MARK, CENTRAL_MARK, END_MARK = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
END64_MARK, LOCATOR_MARK = b"PK\x06\x06", b"PK\x06\x07"

MANY = 0xFFFF
BIG = 0xFFFFFFFF
ZIP64, PADDING = 0x0001, 0xD935  # extra fields; the second is what zipalign pads with
ENCRYPTED, UTF8 = 0x0001, 0x0800
STORED, DEFLATED = 0, 8
FIRST_DAY = (1 << 5) | 1  # 1980-01-01, the earliest date there is
ALIGNMENT = 64
CRC_AT = 14
"""Where the checksum is in a member's own header."""


@dataclass(frozen=True)
class Member:
    """One stored file: its name, size and checksum, and where its own header begins."""

    name: str
    size: int
    crc: int
    offset: int

    def local_header(self) -> bytes:
        """What precedes the data, padded so that the data is aligned."""
        name = self.name.encode("utf-8")
        big = self.size >= BIG
        extra = struct.pack("<2H2Q", ZIP64, 16, self.size, self.size) if big else b""
        extra += _padding(self.offset + LOCAL.size + len(name) + len(extra))
        size = BIG if big else self.size
        lengths = (len(name), len(extra))
        fields = (_version(big), _flags(self.name), STORED, 0, FIRST_DAY, self.crc, size, size, *lengths)
        return LOCAL.pack(LOCAL_MARK, *fields) + name + extra

    def directory_entry(self) -> bytes:
        """What the directory says of it."""
        name = self.name.encode("utf-8")
        wide = [self.size, self.size] if self.size >= BIG else []
        wide += [self.offset] if self.offset >= BIG else []
        extra = struct.pack(f"<2H{len(wide)}Q", ZIP64, 8 * len(wide), *wide) if wide else b""
        size, version = min(self.size, BIG), _version(bool(wide))
        flags, lengths = _flags(self.name), (len(name), len(extra))
        fields = (version, version, flags, STORED, 0, FIRST_DAY, self.crc, size, size, *lengths)
        return CENTRAL.pack(CENTRAL_MARK, *fields, 0, 0, 0, 0, min(self.offset, BIG)) + name + extra


def directory(members: list[Member], offset: int) -> bytes:
    """The directory of all members, which begins at `offset`, and the end of the archive."""
    entries = b"".join(member.directory_entry() for member in members)
    end64 = b""
    if len(members) >= MANY or len(entries) >= BIG or offset >= BIG:
        count = len(members)
        end64 = END64.pack(END64_MARK, END64.size - 12, 45, 45, 0, 0, count, count, len(entries), offset)
        end64 += LOCATOR.pack(LOCATOR_MARK, 0, offset + len(entries), 1)
    count = min(len(members), MANY)
    return entries + end64 + END.pack(END_MARK, 0, 0, count, count, min(len(entries), BIG), min(offset, BIG), 0)


def _version(zip64: bool) -> int:
    return 45 if zip64 else 20


def _flags(name: str) -> int:
    return 0 if name.isascii() else UTF8


def _padding(end: int) -> bytes:
    """An extra field after which the next byte is aligned; it takes six bytes at least."""
    length = 6 + (-end - 6) % ALIGNMENT
    return struct.pack("<3H", PADDING, length - 4, ALIGNMENT) + bytes(length - 6)
