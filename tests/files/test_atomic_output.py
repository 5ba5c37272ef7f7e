"""Output is atomic: a file has its old contents or its whole new ones, whenever a write fails or is
killed.

Data go to a hidden temporary file beside the output, which is renamed at the end. Links and modes
are kept; pipes, devices and standard output are written to as they are. The expected results are
those of POSIX: modes, errno, signals and resource limits are made to happen for real, or replaced
where root could not cause them.
"""

import errno
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import pecli
from pecli.engine.table import Table
from pecli.errors import FileError
from pecli.files.output import check_free_space, is_stream, open_output, temporary_name
from tests.exit_codes import FILE_ERROR, SUCCESS
from tests.files.conftest import ENVIRONMENT


def write_output(path: object, data: bytes = b"new") -> None:
    with open_output(str(path)) as output:
        output.write(data)


def names_in(working_folder: Path) -> list[str]:
    return sorted(entry.name for entry in working_folder.iterdir())


def printed_by_process(script: str, **settings: Any) -> str:
    """Return what a process prints that runs these lines.

    They may call `write_output` as above, and `print_error_of_writing`, which prints the FileError
    that it raises.
    """
    functions = """
import os
from pecli.errors import FileError
from pecli.files.output import open_output

def write_output(path, data=b"new"):
    with open_output(path) as output:
        output.write(data)

def print_error_of_writing(path, data=b"new"):
    try:
        write_output(path, data)
    except FileError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", f"{functions}\n{script}"],
        text=True,
        env=ENVIRONMENT,
        **{"stdout": subprocess.PIPE} | settings,
    )
    return str(done.stdout)


def test_a_new_file_has_the_mode_that_the_umask_leaves(working_folder: Path) -> None:
    """The umask 027 leaves 640 of the usual mode 666."""
    old_umask = os.umask(0o027)
    try:
        write_output("a.bin")
    finally:
        os.umask(old_umask)

    assert Path("a.bin").read_bytes() == b"new"
    assert stat.S_IMODE(os.stat("a.bin").st_mode) == 0o640
    assert names_in(working_folder) == ["a.bin"]


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o755], ids=oct)
def test_a_file_that_is_replaced_keeps_its_mode(working_folder: Path, mode: int) -> None:
    """The new data are written to a temporary file, which must get the mode of the old file."""
    Path("a.bin").write_bytes(b"old")
    os.chmod("a.bin", mode)
    write_output("a.bin")

    assert Path("a.bin").read_bytes() == b"new"
    assert stat.S_IMODE(os.stat("a.bin").st_mode) == mode
    assert names_in(working_folder) == ["a.bin"]


@pytest.mark.parametrize(
    "old", [b"old", None], ids=["the target exists", "the target does not exist"]
)
def test_a_link_stays_and_its_target_is_written(working_folder: Path, old: bytes | None) -> None:
    """Output to the link «link.bin» goes to the file «store/real.bin», to which it leads, whether
    the file exists (with the data `old`) or not. Nothing else may be left beside it.
    """
    (working_folder / "store").mkdir()
    if old is not None:
        (working_folder / "store" / "real.bin").write_bytes(old)
    os.symlink("store/real.bin", "link.bin")
    write_output("link.bin")

    assert os.readlink("link.bin") == "store/real.bin"
    assert Path("store/real.bin").read_bytes() == b"new"
    assert names_in(working_folder / "store") == ["real.bin"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_old_file_stays_while_a_new_one_is_written_and_after_an_exception(
    working_folder: Path, error: type[BaseException]
) -> None:
    """While data are written, they are in a temporary file `.a.bin.….tmp`; an error, Ctrl-C or exit
    removes it.
    """
    Path("a.bin").write_bytes(b"old")

    with suppress(error), open_output("a.bin") as output:
        output.write(b"half")
        temporary, name = names_in(working_folder)
        assert name == "a.bin"
        assert temporary.startswith(".a.bin.")
        assert temporary.endswith(".tmp")
        assert Path("a.bin").read_bytes() == b"old"
        raise error

    assert names_in(working_folder) == ["a.bin"]
    assert Path("a.bin").read_bytes() == b"old"


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_new_file_does_not_appear_after_an_exception(
    working_folder: Path, error: type[BaseException]
) -> None:
    """There is no old file. Half of the data were written to a temporary file `.a.bin.….tmp`, which
    an error, Ctrl-C or exit removes.
    """
    with suppress(error), open_output("a.bin") as output:
        output.write(b"half")
        (temporary,) = names_in(working_folder)
        assert temporary.startswith(".a.bin.")
        assert temporary.endswith(".tmp")
        raise error

    assert names_in(working_folder) == []


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("missing/deeper/a.bin", "the folder missing/deeper does not exist"),
        (".", "is a folder"),
        ("a.bin/", "is a folder"),
        ("", "needs a name"),
        ("a\0b", "not a possible file name"),
        ("x" * 300 + ".npy", "name too long"),
        ("file/a.bin", "is a file, not a folder"),
        ("link_to_itself", "leads back to itself"),
        ("/proc/a.bin", "/proc/a.bin: no file can be made in this folder"),
    ],
    ids=lambda text: text[:40].replace("\0", "NUL"),
)
def test_an_impossible_output_is_refused_with_its_reason(
    working_folder: Path, path: str, problem: str
) -> None:
    """Each path cannot be written to for the reason that the error names; nothing is created in the
    working folder.
    """
    Path("file").write_bytes(b"")
    os.symlink("link_to_itself", "link_to_itself")

    with pytest.raises(FileError, match=problem):
        write_output(path)
    assert names_in(working_folder) == ["file", "link_to_itself"]


def test_a_write_protected_file_is_not_replaced(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions do not bind root, as whom the tests may run, so `os.access` is replaced by a
    function that denies writing.
    """
    Path("mine.bin").write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)

    with pytest.raises(FileError, match="is write-protected"):
        write_output("mine.bin")
    assert Path("mine.bin").read_bytes() == b"old"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_missing_permissions_are_named_and_change_nothing(working_folder: Path) -> None:
    """A process of another user writes to a folder without write permission (mode 555), to a file
    that is write-protected (444), and to a folder that may be written but not listed (333), which
    works; then it reads that folder.
    """
    for name, mode in {"locked": 0o555, "unlisted": 0o333}.items():
        (working_folder / name).mkdir()
        os.chmod(name, mode)
    Path("protected.bin").write_bytes(b"old")
    os.chmod("protected.bin", 0o444)
    os.chmod(working_folder, 0o777)
    printed = printed_by_process("""
from pecli.files.load import load
os.setuid(65534)
print_error_of_writing("locked/a.bin")
print_error_of_writing("protected.bin")
print_error_of_writing("unlisted/a.bin")
try:
    load("unlisted")
except FileError as error:
    print(error)
""")
    error_of_locked, error_of_protected, error_of_reading = printed.splitlines()

    assert error_of_locked == "locked/a.bin: permission denied"
    assert error_of_protected.startswith("protected.bin: is write-protected;")
    assert error_of_reading == "unlisted: permission denied"
    assert names_in(working_folder / "locked") == []
    assert names_in(working_folder / "unlisted") == ["a.bin"]


def test_a_full_disk_is_named() -> None:
    """Writes to the device /dev/full fail with ENOSPC, as on a full disk; the device stays."""
    with pytest.raises(FileError, match="/dev/full: the disk is full"):
        write_output("/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_file_beyond_the_limit_of_the_process_leaves_nothing_behind(
    working_folder: Path,
) -> None:
    """RLIMIT_FSIZE limits files to 20,000 bytes, and 100,000 are written."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    printed = printed_by_process(
        "print_error_of_writing('a.bin', bytes(100_000))",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard_limit)),
    )

    assert printed.startswith("a.bin: the file would be larger than the limit")
    assert names_in(working_folder) == []


def pretend_free_space(monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
    block = 4096
    statistics = Mock(f_bavail=free_bytes // block, f_frsize=block)
    monkeypatch.setattr(os, "statvfs", lambda path: statistics)


def table_of_bytes(size: int) -> Table:
    """A table of this many bytes, whose numbers are never computed."""
    return Table("a", "uint8", (size,), print)


MIB16 = 1 << 24


@pytest.mark.parametrize(
    ("free_bytes", "path", "size"),
    [
        pytest.param(0, "a", MIB16 - 1, id="below 16 MiB, which is just tried"),
        pytest.param(0, "/dev/null", MIB16, id="a device, which takes no space"),
        pytest.param(MIB16 + 4096, "a", MIB16 + 4096, id="as much as is free"),
    ],
)
def test_a_table_that_fits_into_the_free_space_is_accepted(
    monkeypatch: pytest.MonkeyPatch, free_bytes: int, path: str, size: int
) -> None:
    """Sizes are compared with the free space from 16 MiB on; the check raises nothing here."""
    pretend_free_space(monkeypatch, free_bytes)
    check_free_space(path, [table_of_bytes(size)])


@pytest.mark.parametrize(
    ("free_bytes", "size"),
    [
        pytest.param(0, MIB16, id="16 MiB for a full disk"),
        pytest.param(MIB16, MIB16 + 1, id="one byte more than is free"),
    ],
)
def test_a_table_that_is_larger_than_the_free_space_is_refused(
    monkeypatch: pytest.MonkeyPatch, free_bytes: int, size: int
) -> None:
    """The free space is what `os.statvfs` returns; 16 MiB are the smallest size that is checked."""
    pretend_free_space(monkeypatch, free_bytes)
    with pytest.raises(FileError, match="the disk has"):
        check_free_space("a", [table_of_bytes(size)])


def test_a_named_pipe_is_written_to_and_stays_a_pipe(working_folder: Path) -> None:
    """A named pipe holds 64 KiB on Linux, so that 300,000 bytes arrive only while a reader takes
    them; the pipe is not replaced by a file.
    """
    os.mkfifo("pipe")
    with ThreadPoolExecutor() as pool:
        received = pool.submit(Path("pipe").read_bytes)
        write_output("pipe", bytes(300000))

    assert received.result() == bytes(300000)
    assert names_in(working_folder) == ["pipe"]


def test_writing_to_a_pipe_whose_reader_left_raises_broken_pipe_error() -> None:
    """BrokenPipeError is passed on, because the command line ends quietly on it, as `head` expects."""
    read_end, write_end = os.pipe()
    os.close(read_end)

    with open(write_end, "wb"), pytest.raises(BrokenPipeError):
        write_output(f"/dev/fd/{write_end}")


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
def test_output_to_standard_output_is_appended_where_the_shell_opened_it(
    working_folder: Path, name: str
) -> None:
    """The shell's `>>` opens a file at its end. A process that writes its output to «-» or a path
    of standard output must append there, and not replace the file as it does with others.
    """
    with open("log", "wb") as log:
        log.write(b"before ")
        log.flush()
        printed_by_process(f"write_output({name!r})", stdout=log, check=True)

    assert Path("log").read_bytes() == b"before new"


def leave_temporary_file_of_killed_writer() -> None:
    """Kill a process (signal 9) while it writes a.bin."""
    printed_by_process("with open_output('a.bin'): os.kill(os.getpid(), 9)")


def test_the_temporary_file_of_a_killed_writer_is_removed_by_the_next_writer(
    working_folder: Path,
) -> None:
    """A killed writer of a.bin leaves its temporary file `.a.bin.….tmp`. Two killed writers leave
    one such file, because the second removed that of the first.
    """
    for _ in range(2):
        leave_temporary_file_of_killed_writer()
        (temporary,) = names_in(working_folder)
        assert temporary.startswith(".a.bin.")

    write_output("a.bin", b"new")
    assert names_in(working_folder) == ["a.bin"]


def test_files_that_only_resemble_those_of_killed_writers_are_kept(working_folder: Path) -> None:
    """A writer of a.bin writes to the file `.a.bin.` + eight hexadecimal digits + `.tmp`, and removes
    those of killed writers when it begins. Files of other names stay, and so do links, because a
    writer never leaves one.
    """
    leave_temporary_file_of_killed_writer()
    (left_by_killed_writer,) = names_in(working_folder)
    other_files = [
        ".b.bin.0123abcd.tmp",  # of another output, b.bin
        ".a.bin.tmp",  # without the eight digits
        ".a.bin.0123abcd.tmp.npy",  # with another ending
    ]
    for name in other_files:
        Path(name).touch()
    link = ".a.bin.00000001.tmp"
    os.symlink("a.bin", link)

    write_output("a.bin")
    assert left_by_killed_writer not in names_in(working_folder)
    assert names_in(working_folder) == sorted([*other_files, link, "a.bin"])


def test_the_temporary_file_of_a_writer_that_lives_is_kept(working_folder: Path) -> None:
    """A writer locks its temporary file, and the system drops the lock when the process ends: a
    second writer of a.bin removes only files without a lock. The writer that ends last wins.
    """
    with open_output("a.bin") as living_writer:
        living_writer.write(b"first")
        (temporary,) = names_in(working_folder)
        write_output("a.bin", b"second")
        assert names_in(working_folder) == sorted([temporary, "a.bin"])
        assert Path("a.bin").read_bytes() == b"second"

    assert names_in(working_folder) == ["a.bin"]
    assert Path("a.bin").read_bytes() == b"first"


def test_an_input_whose_properties_cannot_be_read_is_named_and_closed(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fstat` of the opened input fails with EIO; the number of open descriptors must be the same
    afterwards.
    """
    np.save("a.npy", np.arange(6.0))
    open_before = len(os.listdir("/dev/fd"))
    with monkeypatch.context() as patch:
        failure = OSError(errno.EIO, "Input/output error")
        patch.setattr(os, "fstat", Mock(side_effect=failure))
        with pytest.raises(FileError, match=r"a\.npy: input/output error"):
            pecli.load("a.npy")

    assert len(os.listdir("/dev/fd")) == open_before


@pytest.mark.parametrize("most_open_files", [5, 8])
def test_a_command_with_too_few_descriptors_works_or_fails_in_one_line(
    working_folder: Path, process: Callable[..., Any], most_open_files: int
) -> None:
    """RLIMIT_NOFILE limits how many files a process may open. How many a command needs depends on
    how Python was installed: the command works, or it reports the limit in one line.
    """
    limits = (most_open_files, most_open_files)
    done = process(
        *("sinusoidal", "--seq-len", 8, "--dim", 4, "-o", working_folder / "b.npy"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limits),
    )

    if done.returncode == SUCCESS:
        assert done.stderr == b""
    else:
        assert done.returncode == FILE_ERROR
        assert done.stderr.count(b"\n") == 1
        assert b"too many files are open" in done.stderr


def test_all_bytes_arrive_in_a_full_pipe_that_does_not_block() -> None:
    """Writing to a full pipe in non-blocking mode fails with EAGAIN; a writer must wait for room
    instead. A pipe of Linux has room for 65,536 bytes, so that 500,000 fill it several times.
    """
    data = bytes(500_000)
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    with open(read_end, "rb") as reader, ThreadPoolExecutor() as pool:
        received = pool.submit(reader.read)  # It returns when the write end is closed.
        try:
            # /dev/fd/N is written to by the descriptor N itself, which does not block.
            write_output(f"/dev/fd/{write_end}", data)
        finally:
            os.close(write_end)
        assert received.result() == data


@pytest.mark.parametrize(
    "path",
    ["-", "/dev/stdout", "/dev/stderr", "/dev/fd/3", "/proc/self/fd/0", "/dev/fd/123456789"],
)
def test_names_of_open_descriptors_are_streams(path: str) -> None:
    """A stream is written to as it is; «-» is standard output, and a descriptor has up to nine
    digits.
    """
    assert is_stream(path)


@pytest.mark.parametrize(
    "path", ["/dev/fd/x", "/dev/fd/1234567890", "/dev/fd/\u0661", "/dev/1", "1", "fd/1"]
)
def test_names_that_only_resemble_descriptors_are_files(path: str) -> None:
    """Not a number, ten digits, an Arabic digit, and paths outside /dev/fd: these are names of
    ordinary files.
    """
    assert not is_stream(path)


def test_a_temporary_name_is_hidden_and_begins_with_the_name_of_the_output() -> None:
    """A name that begins with a dot is hidden on POSIX systems."""
    name = temporary_name("a")
    assert name.startswith(".a.")
    assert name.endswith(".tmp")


def test_a_temporary_name_is_no_longer_than_file_systems_allow() -> None:
    """255 bytes are the longest name of usual file systems."""
    assert len(temporary_name("x" * 300)) == 255


def test_without_file_locks_a_file_is_closed_before_it_is_renamed(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows has no `fcntl` for locks, and renames no file that is open. Writing to the output
    fails at the moment of renaming, which shows that it is closed.
    """
    monkeypatch.setattr("pecli.files.output.fcntl", None)
    replace = os.replace

    def replace_if_closed(source: str, target: str) -> None:
        with pytest.raises(FileError):
            output.write(b"more")
        replace(source, target)

    monkeypatch.setattr("os.replace", replace_if_closed)
    with open_output("a.bin") as output:
        output.write(b"new")

    assert Path("a.bin").read_bytes() == b"new"
