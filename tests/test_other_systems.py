"""The README's tour without what only POSIX has, and the paths of Windows.

The names that Windows lacks are hidden from a process of its own (posix_names.json), and what
remains is as strict as it is there: folders cannot be opened, nothing is relative to a descriptor,
a file that is open or mapped cannot be replaced, files are binary only where that is said, and no
text is read or written in the locale's encoding. Paths are those of ntpath, Python's rules for
Windows; a drive (C:) has a colon, as FILE:NAME has before the name of a tensor.
"""

import glob
import json
import ntpath
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pecli.checks.file_patterns import find_files
from pecli.errors import FileError
from pecli.files import load
from tests.exit_codes import SUCCESS

ROOT = Path(__file__).parents[1]
HIDDEN = json.loads(Path(__file__).with_name("posix_names.json").read_text(encoding="utf-8"))
MODULES = ["fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"]
HIDE = f"""
import asyncio, mmap, multiprocessing, os, shutil, signal, subprocess, sys, tempfile, warnings
import matplotlib.backends.backend_agg, matplotlib.figure, rich.console, typer, zarr  # which may use all there is

for module, names in {HIDDEN}.items():
    for name in names.split():
        if hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
for name in {MODULES}:
    sys.modules[name] = None
warnings.filterwarnings("error", category=EncodingWarning, module=r"pecli($|\\.)")
os.O_BINARY = 1 << 28
os.supports_dir_fd.clear()
shutil._use_fd_functions = False  # shutil decides it when it is imported; on Windows it has no dir_fd

def ours():
    return sys._getframe(2).f_globals.get("__name__", "").startswith("pecli")

def open_as_windows(path, flags, mode=0o777, *, dir_fd=None, real=os.open):
    if not ours():
        return real(path, flags, mode, dir_fd=dir_fd)
    if dir_fd is not None:
        raise NotImplementedError("dir_fd unavailable on this platform")
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    assert flags & os.O_BINARY, (path, "is opened as text")
    return real(path, flags & ~os.O_BINARY, mode)

def in_use(path):
    held = [os.path.realpath(f"/proc/self/fd/{{name}}") for name in os.listdir("/proc/self/fd")]
    with open("/proc/self/maps", encoding="utf-8") as file:
        held += [line.split(maxsplit=5)[-1].strip() for line in file]
    return os.path.realpath(path) in held

def replace_as_windows(source, target, *, src_dir_fd=None, dst_dir_fd=None, real=os.replace):
    if src_dir_fd is not None or dst_dir_fd is not None:
        raise NotImplementedError("src_dir_fd and dst_dir_fd unavailable on this platform")
    if in_use(source) or in_use(target):
        raise PermissionError(13, "The process cannot access the file because it is being used", source)
    real(source, target)

def unlink_as_windows(path, *, dir_fd=None, real=os.unlink):
    if dir_fd is not None and ours():
        raise NotImplementedError("dir_fd unavailable on this platform")
    if ours() and in_use(path):
        raise PermissionError(13, "The process cannot access the file because it is being used", path)
    real(path, dir_fd=dir_fd)

os.open, os.replace, os.unlink = open_as_windows, replace_as_windows, unlink_as_windows
"""
needs_proc = pytest.mark.skipif(
    not os.path.exists("/proc/self/fd"), reason="what a process holds is seen in /proc"
)


def run_without_posix(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process that lacks what Windows lacks."""
    words = [sys.executable, "-X", "warn_default_encoding", "-c", HIDE + code]
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": "utf-8",
    }
    settings = {"capture_output": True, "text": True, "encoding": "utf-8", "timeout": 120}
    return subprocess.run(words, cwd=folder, env=environment, **settings)


FORMATS = """
from pecli.cli.app import run
from tests.exit_codes import FILE_ERROR, SUCCESS

table = ["sinusoidal", "--seq-len", "64", "--dim", "16"]
for suffix in ("npy", "npz", "safetensors", "csv", "json", "h", "zarr"):
    path = f"t.{suffix}"
    write = [*table, "-q", "-o", path]
    assert run(write) == SUCCESS, path
    # A file is replaced; pecli never replaces a folder, as .zarr is one.
    assert run(write) == (FILE_ERROR if suffix == "zarr" else SUCCESS), path
    assert run([*table, "--verify", path, "-q"]) == SUCCESS, path

for path in ("t.npy", "t.npz", "t.safetensors"):
    # They are mapped into memory while they are read. Windows replaces no mapped file: it stays,
    # with its number, size and times.
    before = os.stat(path)
    assert run(["convert", path, "-q", "-o", path]) == FILE_ERROR, path
    assert os.stat(path) == before

temporary_files = [name for name in os.listdir() if name.startswith(".")]
assert temporary_files == []
"""
TOUR = """
from tests.readme import README, console

text = README.read_text(encoding="utf-8")
shown = console(text)
for number, (expected, found) in enumerate(zip(text.splitlines(), shown.splitlines()), 1):
    assert found == expected, (number, expected, found)
assert shown == text
"""
TWO_SLOPES = """
from pecli.__main__ import main

sys.argv = ["pecli", "alibi", "--heads", "2"]
main()
"""
"""Prints ALiBi's slopes of two heads, 2^-4 and 2^-8, after all other code."""


def assert_runs_to_the_end_without_posix(code: str, folder: Path) -> None:
    """Run code whose assertions must hold in a process that lacks what Windows lacks (HIDE)."""
    done = run_without_posix(code + TWO_SLOPES, folder)
    assert done.returncode == SUCCESS, done.stderr[-3000:]
    assert done.stdout == "0.0625\n0.00390625\n", done.stderr[-3000:]


@needs_proc
def test_files_of_every_format_are_written_verified_and_replaced_without_posix(
    tmp_path: Path,
) -> None:
    """FORMATS runs commands of pecli, and asserts their exit codes, in a process without the modules
    and functions that Windows lacks (fcntl, for example), in which files behave as there: one that
    is open or mapped cannot be replaced.
    """
    assert_runs_to_the_end_without_posix(FORMATS, tmp_path)


@pytest.mark.thorough
@needs_proc
def test_the_tour_of_the_readme_needs_nothing_of_posix(tmp_path: Path) -> None:
    """TOUR runs the sessions of the README, and asserts that they print what is shown there, in a
    process without the modules and functions that Windows lacks.
    """
    assert_runs_to_the_end_without_posix(TOUR, tmp_path)


WINDOWS_PATHS = {
    r"C:\dumps\rope.npz:cos": (r"C:\dumps\rope.npz", "cos"),
    r"C:\dumps\rope.npz": (r"C:\dumps\rope.npz", None),
    "C:/dumps/rope.npz:model.layers.0:weight": ("C:/dumps/rope.npz", "model.layers.0:weight"),
    r"c:rope.npz:cos": ("c:rope.npz", "cos"),
    r"\\server\share\rope.npz:cos": (r"\\server\share\rope.npz", "cos"),
    "rope.npz:cos": ("rope.npz", "cos"),
    "-:cos": ("-", "cos"),
    "-": ("-", None),
}


def test_a_drive_is_no_file_before_a_tensor_name(monkeypatch: pytest.MonkeyPatch) -> None:
    r"""A tensor of a file is FILE:NAME, and a path of Windows begins with a drive, C:\dumps\a.npz.
    WINDOWS_PATHS has texts with the file and the name that are meant; drives are split as Windows
    does, all these files exist, and even one that is called C.
    """
    existing_files = {path for path, _ in WINDOWS_PATHS.values()} | {"C"}
    monkeypatch.setattr(os.path, "splitdrive", ntpath.splitdrive)
    monkeypatch.setattr(os.path, "exists", existing_files.__contains__)

    assert {text: load.split_name(text) for text in WINDOWS_PATHS} == WINDOWS_PATHS
    with pytest.raises(FileError, match=r"C:\\missing\.npz:cos: does not exist"):
        load.split_name(r"C:\missing.npz:cos")

    path, tensor = load.split_name(r"C:\missing.npz")
    assert path == r"C:\missing.npz"
    assert tensor is None


def test_a_drive_in_a_pattern_is_not_taken_for_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pattern C:/dumps/*.npz is that of files, and :cos the name of a tensor, which is added again
    to each file. `glob` is replaced by a function that finds one file, as on Windows.
    """
    patterns: list[str] = []

    def found_on_windows(pattern: str, **_: object) -> list[str]:
        patterns.append(pattern)
        return ["C:/dumps/a.npz"]

    monkeypatch.setattr(os.path, "splitdrive", ntpath.splitdrive)
    monkeypatch.setattr(glob, "glob", found_on_windows)

    assert find_files("", "C:/dumps/*.npz:cos") == ["C:/dumps/a.npz:cos"]
    assert patterns == ["C:/dumps/*.npz"]
