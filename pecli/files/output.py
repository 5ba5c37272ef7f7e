"""Where a file's bytes go, block by block. A regular file is written under a temporary name in its own folder, synced,
and renamed over the old one, so that a reader sees either of them whole; a pipe or a device is written to directly."""

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import repeat
from operator import call
from typing import Any

from pecli.engine.table import Table, raw_bytes
from pecli.errors import FileError, failure

try:
    import fcntl
except ImportError:  # Windows, where what is open can be neither renamed nor removed
    fcntl = None  # type: ignore[assignment]

MAX_NAME_BYTES = 255  # bytes, on every file system in common use
BINARY = getattr(
    os, "O_BINARY", 0
)  #: else Windows writes a carriage return before what looks like a new line
MIN_CHECKED_BYTES = 1 << 24  # bytes from which on the disk is asked whether they fit
KEY = "pecli"  # the metadata key of the spec, one JSON text
MIN_THREADED_BYTES = 1 << 18  # tables of fewer bytes are hashed sooner than threads wake up


@contextmanager
def _blamed_on(path: str) -> Iterator[None]:
    """Errors of the operating system are those of a file; that a reader of a pipe has seen enough is none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        raise failure(path, error) from None


@dataclass
class Output:
    """Bytes on their way out, through a file descriptor; those of a seekable one can be patched."""

    path: str
    _descriptor: int
    seekable: bool

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append `data`, all of it: one call to the system may take less."""
        left = memoryview(data).cast("B")
        size = left.nbytes
        with _blamed_on(self.path):
            while left:
                try:
                    left = left[os.write(self._descriptor, left) :]
                except (
                    BlockingIOError
                ):  # the other end made the pipe non-blocking: it is full, not broken
                    import select

                    select.select([], [self._descriptor], [])
        return size

    def flush(self) -> None:
        """Nothing is held back; files have this."""

    def patch(self, offset: int, data: bytes) -> None:
        with _blamed_on(self.path):
            end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
            os.lseek(self._descriptor, offset, os.SEEK_SET)
            self.write(data)
            os.lseek(self._descriptor, end, os.SEEK_SET)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        with suppress(OSError):  # a synced file has nothing left to fail, a pipe nobody to tell
            os.close(descriptor)


@contextmanager
def open_output(path: str, tables: Sequence[Table] = ()) -> Iterator[Output]:
    """Open `path`, for tables that fit on the disk; what it held before stays whole unless the block ends without an
    exception."""
    check_free_space(path, tables)
    if (number := _open_descriptor(path)) is not None:
        yield Output("standard output" if path == "-" else path, number, seekable=False)
        return
    if not path:
        raise FileError("''", "an output file needs a name")
    with _blamed_on(path):
        try:
            existing = os.stat(path)
        except FileNotFoundError:
            existing = None
    if path.endswith("/") or (existing and stat.S_ISDIR(existing.st_mode)):
        raise FileError(path, "is a folder", "name a file in it")
    if existing is None or stat.S_ISREG(existing.st_mode):
        with _replacement(path, existing) as output:
            yield output
        return
    with _blamed_on(path):  # a pipe or a device, written to as it stands
        descriptor = os.open(path, os.O_WRONLY | BINARY | getattr(os, "O_NOCTTY", 0))
    with closing(Output(path, descriptor, seekable=False)) as output:
        yield output


def is_stream(path: str) -> bool:
    """Whether `path` is standard output, a pipe or a device: something that is written to, never replaced."""
    is_special = os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
    return is_special or _open_descriptor(path) is not None


def is_text(name: object) -> bool:
    """Whether a name can be written down: half a surrogate pair cannot."""
    return isinstance(name, str) and not any("\ud800" <= letter <= "\udfff" for letter in name)


def check_free_space(path: str, tables: Sequence[Table]) -> None:
    """Refuse what cannot fit on the disk before any of it is written; text takes more bytes than tables, never less."""
    if (size := sum(table.nbytes for table in tables)) < MIN_CHECKED_BYTES:
        return
    with suppress(OSError, ValueError, AttributeError):  # the last on Windows
        disk = os.statvfs(os.path.dirname(os.path.realpath(path)))
        if disk.f_bavail * disk.f_frsize < size and not is_stream(path):
            free = f"the disk has {disk.f_bavail * disk.f_frsize:,}"
            raise FileError(
                path, f"takes {size:,} bytes, and {free}", "free some space or write less"
            )


def _open_descriptor(path: str) -> int | None:
    """The descriptor that `path` stands for, when this process holds it already: `-`, /dev/stdout, /dev/fd/N. Opened
    anew, a redirected file would be written from its beginning; the descriptor goes on where it is."""
    named = {"-": "/dev/fd/1", "/dev/stdout": "/dev/fd/1", "/dev/stderr": "/dev/fd/2"}.get(
        path, path
    )
    folder, _, number = named.rpartition("/")
    held = (
        folder in ("/dev/fd", "/proc/self/fd")
        and number.isascii()
        and number.isdigit()
        and len(number) < 10
    )
    return int(number) if held else None


@contextmanager
def _replacement(path: str, existing: os.stat_result | None) -> Iterator[Output]:
    """A new file beside `path`, which takes its place at the end."""
    target = (
        os.path.realpath(path) if os.path.islink(path) else path
    )  # the link stays, its target is replaced
    if existing and not os.access(target, os.W_OK):
        raise FileError(path, "is write-protected", "make it writable or choose another name")
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, temporary_name(name))
    _sweep(folder, temporary)
    try:
        # A new file gets 0666 less the umask; one that is to replace another is nobody else's to read yet.
        descriptor = _create(path, temporary, 0o600 if existing else 0o666)
        with closing(Output(path, descriptor, seekable=True)) as output:
            yield output
            with _blamed_on(path):
                if existing is not None and hasattr(os, "fchmod"):  # Windows has no modes
                    os.fchmod(
                        descriptor, existing.st_mode & 0o777
                    )  # set-user-ID must not pass to another owner
                os.fsync(descriptor)
                if fcntl is None:
                    output.close()
                os.replace(temporary, target)
            with (
                suppress(OSError),
                _opened(folder or ".", os.O_RDONLY) as opened,
            ):  # some systems cannot sync a folder
                os.fsync(opened)
    except BaseException:  # an interrupt too must leave no litter
        with suppress(OSError):
            os.unlink(temporary)
        raise


def temporary_name(name: str) -> str:
    """A hidden name beside that of an output, which is not taken yet."""
    ending = f".{os.urandom(4).hex()}.tmp"
    return "." + os.fsdecode(os.fsencode(name)[: MAX_NAME_BYTES - 1 - len(ending)]) + ending


@contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | BINARY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _create(path: str, temporary: str, mode: int) -> int:
    """A new file, locked as long as it is open, so that nobody sweeps it."""
    while True:
        with _blamed_on(path):
            try:
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, mode)
            except FileNotFoundError:
                folder = os.path.dirname(temporary)
                if os.path.isdir(folder or "."):  # such as /proc
                    raise FileError(
                        path, "no file can be made in this folder", "choose another"
                    ) from None
                raise FileError(
                    path, f"the folder {folder} does not exist", "make it first"
                ) from None
            if fcntl is None:
                return descriptor
            with suppress(OSError):  # some file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                return descriptor
            os.close(descriptor)  # swept before it was locked


def _sweep(folder: str, temporary: str) -> None:
    """Remove the temporary files that killed writers of the same output left behind, which nobody has locked."""
    names: list[str] = []
    with suppress(OSError):  # a folder may be written in and not read
        names = os.listdir(folder or ".") if fcntl else []
    for path in (os.path.join(folder, name) for name in names if name.endswith(".tmp")):
        if path[:-12] == temporary[:-12]:
            with (
                suppress(OSError),
                _opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW) as descriptor,
            ):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    os.unlink(path)


OnBlock = Callable[[int], None]  # told of the bytes of every block that was written
Spec = Mapping[str, object]  # what made the tables: scheme, parameters, version
Texts = Mapping[str, str] | None  # metadata, for formats that have a place for it


def write_blocks(
    tables: Sequence[Table], sinks: Sequence[Callable[[memoryview], object]], on_block: OnBlock
) -> None:
    """Hand every block of the tables to all the sinks, in order; the sinks work side by side where that is worth it."""
    threads: AbstractContextManager[Any] = nullcontext()
    if len(sinks) > 1 and sum(table.nbytes for table in tables) >= MIN_THREADED_BYTES:
        from concurrent.futures import ThreadPoolExecutor

        threads = ThreadPoolExecutor(len(sinks))
    with threads as pool:
        for table in tables:
            for block in table.blocks():
                list((pool.map if pool else map)(call, sinks, repeat(raw_bytes(block))))
                on_block(block.nbytes)


def compact(value: object) -> str:
    """JSON without spaces, dates or chance: keys sorted, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def provenance(spec: Spec, digest: str = "0" * 64) -> str:
    """What made the tensors, and the sha256 of their bytes, or zeros in its place until that is known."""
    return compact({**spec, "sha256": digest})
