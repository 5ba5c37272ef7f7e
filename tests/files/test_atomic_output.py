"""Output is atomic: a file has its old contents or its whole new ones, whenever a write fails or is
killed.

Data go to a hidden temporary file beside the output, which is renamed at the end. Links and modes
are kept; pipes, devices and standard output are written to as they are. The expected results are
those of POSIX: modes, errno, signals and resource limits are made to happen for real, or replaced
where root could not cause them.
"""

import os
import resource
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
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
    """What a process prints that runs these lines, with `put` as above and errors printed."""
    begin = "import os; from pecli.files.output import open_output; from pecli.errors import FileError\n"
    begin += (
        "def put(path, data=b'new'):\n    with open_output(path) as output: output.write(data)\n"
    )
    begin += "def tried(path, data=b'new'):\n    try: put(path, data)\n    except FileError as error: print(error)\n"
    done = subprocess.run(
        [sys.executable, "-c", begin + script],
        text=True,
        env=ENVIRONMENT,
        **{"stdout": subprocess.PIPE} | settings,
    )
    return str(done.stdout)


def test_a_new_file_has_the_mode_that_the_umask_leaves_and_a_replaced_one_keeps_its_own(
    working_folder: Path,
) -> None:
    """The umask 027 leaves 640 of the usual mode 666."""
    old = os.umask(0o027)
    try:
        write_output("a.bin")
    finally:
        os.umask(old)

    assert Path("a.bin").read_bytes() == b"new"
    assert stat.S_IMODE(os.stat("a.bin").st_mode) == 0o640
    for mode in (0o600, 0o664, 0o755):
        os.chmod("a.bin", mode)
        write_output("a.bin")
        assert stat.S_IMODE(os.stat("a.bin").st_mode) == mode
    assert names_in(working_folder) == ["a.bin"]


@pytest.mark.parametrize("old", [b"old", None])
def test_a_link_stays_and_its_target_is_replaced(working_folder: Path, old: bytes | None) -> None:
    """With and without a target: a link that leads to no file yet makes that file."""
    (working_folder / "store").mkdir()
    if old is not None:
        (working_folder / "store" / "real.bin").write_bytes(old)
    os.symlink("store/real.bin", "link.bin")
    write_output("link.bin")

    assert os.readlink("link.bin") == "store/real.bin"
    assert Path("store/real.bin").read_bytes() == b"new"
    assert names_in(working_folder / "store") == ["real.bin"]


@pytest.mark.parametrize("old", [None, b"old"])
def test_the_old_file_stays_until_the_end_and_after_an_exception(
    working_folder: Path, old: bytes | None
) -> None:
    """While data are written, they are in a temporary file `.a.bin.….tmp`; an error, Ctrl-C or exit
    removes it.
    """
    before = [] if old is None else ["a.bin"]
    if old is not None:
        Path("a.bin").write_bytes(old)

    for error in (RuntimeError, KeyboardInterrupt, SystemExit):
        with suppress(error), open_output("a.bin") as output:
            output.write(b"half")
            (temporary,) = [name for name in names_in(working_folder) if name != "a.bin"]
            assert temporary.startswith(".a.bin.")
            assert temporary.endswith(".tmp")
            assert old is None or Path("a.bin").read_bytes() == old
            raise error
        assert names_in(working_folder) == before
        assert old is None or Path("a.bin").read_bytes() == old


IMPOSSIBLE_PATHS = {
    "missing/deeper/a.bin": "the folder missing/deeper does not exist", ".": "is a folder", "a.bin/": "is a folder",
    "": "needs a name", "a\0b": "not a possible file name", "x" * 300 + ".npy": "name too long",
    "file/a.bin": "is a file, not a folder", "loop": "leads back to itself",
    "/proc/a.bin": "/proc/a.bin: no file can be made in this folder",
}  # fmt: skip


@pytest.mark.parametrize(("path", "problem"), IMPOSSIBLE_PATHS.items())
def test_an_impossible_output_is_refused_with_its_reason(
    working_folder: Path, path: str, problem: str
) -> None:
    """Each path cannot be written to for the reason that the error names; nothing is created in the
    working folder.
    """
    Path("file").write_bytes(b"")
    os.symlink("loop", "loop")

    with pytest.raises(FileError, match=problem):
        write_output(path)
    assert names_in(working_folder) == ["file", "loop"]


def test_a_write_protected_file_is_not_replaced(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions do not bind root, so the answer of the system is replaced."""
    Path("mine.bin").write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda path, mode: False)

    with pytest.raises(FileError, match="is write-protected"):
        write_output("mine.bin")
    assert Path("mine.bin").read_bytes() == b"old"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to be refused")
def test_missing_permissions_are_named_and_change_nothing(working_folder: Path) -> None:
    """As another user: a folder without write permission, a write-protected file, and a folder that
    may be written but not listed.
    """
    for name, mode in {"locked": 0o555, "drop": 0o333}.items():
        (working_folder / name).mkdir()
        os.chmod(name, mode)
    Path("mine.bin").write_bytes(b"old")
    os.chmod("mine.bin", 0o444)
    os.chmod(working_folder, 0o777)
    script = "from pecli.files.load import load\nos.setuid(65534)\n"
    script += "for name in ('locked/a.bin', 'mine.bin', 'drop/a.bin'): tried(name)\n"
    said = printed_by_process(
        script + "try: load('drop')\nexcept FileError as error: print(error)"
    ).splitlines()

    assert said[::2] == ["locked/a.bin: permission denied", "drop: permission denied"]
    assert said[1].startswith("mine.bin: is write-protected;")
    assert names_in(working_folder / "locked") == []
    assert names_in(working_folder / "drop") == ["a.bin"]
    assert len(said) == 3


def test_a_full_disk_or_a_limit_leaves_nothing_behind(working_folder: Path) -> None:
    """Writes to /dev/full fail with ENOSPC; RLIMIT_FSIZE limits files to 20,000 bytes."""
    with pytest.raises(FileError, match="/dev/full: the disk is full"):
        write_output("/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)

    limits = (20000, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    done = printed_by_process(
        "tried('a.bin', bytes(100_000))",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits),
    )
    assert done.startswith("a.bin: the file would be larger than the limit")
    assert names_in(working_folder) == []


def test_what_is_larger_than_the_free_space_is_refused(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes are compared with the free space from 16 MiB on (smaller files are just tried), and
    never for devices such as /dev/null. A table that just fits is accepted, one byte more refused.
    """
    least, block = 1 << 24, 4096
    fitting = [(0, "a", least - 1), (0, "/dev/null", least), (least + block, "a", least + block)]
    for free, path, size in (*fitting, (0, "a", least), (least, "a", least + 1)):
        monkeypatch.setattr(
            os, "statvfs", lambda path, free=free: Mock(f_bavail=free // block, f_frsize=block)
        )
        with (
            nullcontext()
            if (free, path, size) in fitting
            else pytest.raises(FileError, match="the disk has")
        ):
            check_free_space(path, [Table("a", "uint8", (size,), print)])


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
def test_standard_output_goes_on_where_it_is(working_folder: Path, name: str) -> None:
    """The shell's `>>` opens a file at its end. A process that writes its output to «-» or a path
    of standard output must append there, and not replace the file as it does with others.
    """
    with open("log", "wb") as log:
        log.write(b"before ")
        log.flush()
        printed_by_process(f"put({name!r})", stdout=log, check=True)
    assert Path("log").read_bytes() == b"before new"


def test_what_a_killed_writer_left_is_swept_by_the_next_one(working_folder: Path) -> None:
    """Temporary files of living writers, of other outputs, and links stay."""
    for _ in range(3):
        printed_by_process("with open_output('a.bin'): os.kill(os.getpid(), 9)")
    others = [".b.bin.0123abcd.tmp", ".a.bin.tmp", ".a.bin.0123abcd.tmp.npy"]
    for name in others:
        Path(name).touch()
    os.symlink("a.bin", ".a.bin.00000001.tmp")

    with open_output("a.bin") as living:
        living.write(b"1")
        write_output("a.bin", b"2")
        assert (
            len([name for name in names_in(working_folder) if name.startswith(".a.bin")]) == 4
        )  # the living writer's, too
    assert Path("a.bin").read_bytes() == b"1"
    assert names_in(working_folder) == sorted([*others, ".a.bin.00000001.tmp", "a.bin"])


def test_an_input_that_cannot_be_looked_at_is_named_and_closed(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fstat` of the opened input fails with EIO (5); the number of open descriptors must be the
    same afterwards.
    """
    np.save("a.npy", np.arange(6.0))
    before = len(os.listdir("/dev/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", Mock(side_effect=OSError(5, "Input/output error")))
        with pytest.raises(FileError, match=r"a\.npy: input/output error"):
            pecli.load("a.npy")

    assert len(os.listdir("/dev/fd")) == before


def test_a_command_with_too_few_descriptors_works_or_fails_in_one_line(
    working_folder: Path, process: Callable[..., Any]
) -> None:
    """How many descriptors a command needs depends on how Python was installed: with few of them it
    works, or says so in one line.
    """
    write = ("sinusoidal", "--seq-len", 8, "--dim", 4, "-o", working_folder / "b.npy")
    for limit in (5, 8):
        limits = (limit, limit)
        done = process(
            *write,
            preexec_fn=lambda limits=limits: resource.setrlimit(resource.RLIMIT_NOFILE, limits),
        )
        if done.returncode == SUCCESS:
            assert done.stderr == b""
        else:
            assert done.returncode == FILE_ERROR
            assert done.stderr.count(b"\n") == 1
            assert b"too many files are open" in done.stderr


def test_a_pipe_that_does_not_block_is_waited_for() -> None:
    """A pipe in non-blocking mode answers EAGAIN when its buffer is full; all 500,000 bytes must
    arrive nevertheless.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    with open(read_end, "rb") as reader, ThreadPoolExecutor() as pool:
        received = pool.submit(reader.read)
        with open(write_end, "wb"):
            write_output(f"/dev/fd/{write_end}", bytes(500000))
        assert received.result() == bytes(500000)


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


def test_temporary_names_are_hidden_and_no_longer_than_file_systems_allow() -> None:
    """They begin with a dot and the output's own name; 255 bytes are the longest name of usual file
    systems.
    """
    name = temporary_name("a")
    assert name.startswith(".a.")
    assert name.endswith(".tmp")
    assert len(temporary_name("x" * 300)) == 255


def test_without_locks_a_file_is_closed_before_it_is_renamed(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows has no fcntl, and renames no file that is open."""
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
