"""System calls that fail, one after the other, under every command that writes.

Each writer runs under strace, one call that touches its folder fails, and the folder is examined:
the exit code is the usual one or 3, an error is one line, an output is the old file or the new one,
whole, and nothing else is in the folder.
"""

import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import pecli
from tests.tools.campaigns import Result

START = "import os; os.urandom = bytes; "
"""A temporary file then has a name that strace can be given."""
COMMAND = f"{START}from pecli.__main__ import main; main()"
RECORD = (
    START
    + """
import sys, pecli
from tests.record.fake_models import LLAMA, Transformer, token_ids
model = Transformer(LLAMA)
with pecli.record(model) as run:
    model(token_ids())
try:
    run.save(sys.argv[1])
except pecli.FileError as problem:
    print(f"pecli: error: {problem}", file=sys.stderr)
    sys.exit(3)
"""
)
"""A program that records a model and saves the run, with the exit codes of a command."""


class Writer(NamedTuple):
    """A command that writes, and the files that it writes.

    The files `in.npz`, `weights.safetensors` and `pecli.toml` are there.
    """

    command: str
    outputs: tuple[str, ...]
    program: str = COMMAND


def table_writer(suffix: str) -> Writer:
    output = f"out.{suffix}"
    return Writer(f"sinusoidal --seq-len 64 --dim 16 -q -o {output}", (output,))


WRITERS = {
    "npy": table_writer("npy"),
    "npz": table_writer("npz"),
    "safetensors": table_writer("safetensors"),
    "csv": table_writer("csv"),
    "json": table_writer("json"),
    "h": table_writer("h"),
    "convert": Writer("convert in.npz -o out.safetensors -q", ("out.safetensors",)),
    "copy": Writer(
        "convert weights.safetensors --from halves --to interleaved --heads 2"
        " -o out.safetensors -q",
        ("out.safetensors",),
    ),
    "apply": Writer("apply rope in.npz:q -o out.npy -q", ("out.npy",)),
    "resize": Writer("resize in.npz:q --to 9 -o out.npy -q", ("out.npy",)),
    "plot": Writer("plot in.npz:q -o out.png -q", ("out.png",)),
    "svg": Writer("plot in.npz:q -o out.svg -q", ("out.svg",)),
    "diff": Writer(
        "diff in.npz:q weights.safetensors:model.layers.0.self_attn.q_proj.weight -q -o out.png",
        ("out.png",),
    ),
    "junit": Writer("verify pecli.toml -q --junit out.xml", ("out.xml",)),
    "golden": Writer(
        "golden phi-2 --format all -q -o .",
        (
            "frequencies-phi-2.json",
            "frequencies-phi-2.safetensors",
            "frequencies-phi-2.h",
            "model-phi-2.json",
            "model-phi-2.safetensors",
            "model-phi-2.h",
            "index.json",
        ),
    ),
    "record": Writer("out.safetensors", ("out.safetensors",), RECORD),
    "record npz": Writer("out.npz", ("out.npz",), RECORD),
    "extend": Writer("extend qwen2.5-7b --to 65536 -q -o out.svg", ("out.svg",)),
    "report": Writer("report gpt2 -q -o out.html", ("out.html",)),
    "positions": Writer(
        "positions --model qwen2.5-vl-7b --segments text:4,image:1x4x4 -q -o out.npy",
        ("out.npy",),
    ),
    "gif": Writer("plot rope --dim 8 --seq-len 8 --kind circle -q -o out.gif", ("out.gif",)),
}
FAULTS = {
    "openat": "EIO EMFILE ENOSPC EACCES",
    "write": "ENOSPC EIO EINTR",
    "copy_file_range": "ENOSPC EIO EXDEV",
    "pwrite64": "ENOSPC EIO",
    "fsync": "EIO EINVAL",
    "newfstatat": "EIO EACCES",
    **dict.fromkeys(("rename", "renameat", "renameat2"), "EIO EACCES"),
    **dict.fromkeys(
        ("read", "pread64", "preadv", "fstat", "lseek", "close", "unlink", "unlinkat", "statfs"),
        "EIO",
    ),
    "fchmod": "EPERM",
    "faccessat2": "EACCES",
}
"""System calls, and the errors with which each may fail."""
MAX_CALLS = 6  # of one system call in one writer: the first and the last of them are tried


class Fault(NamedTuple):
    """The `number`th of the calls that touch the folder fails."""

    writer: str
    call: str
    error: str
    number: int


def prepare(folder: Path) -> None:
    """Write the files that writers read."""
    rng = np.random.default_rng(0)
    np.savez(folder / "in.npz", q=rng.normal(size=(6, 8)).astype(np.float32))
    weight = {
        f"model.layers.0.self_attn.{name}_proj.weight": rng.normal(size=(8, 8)) for name in "qkv"
    }
    pecli.save(folder / "weights.safetensors", weight)
    pecli.save(folder / "pe.npy", pecli.Sinusoidal(8, 4))
    check = "[[check]]\nfile = 'pe.npy'\nscheme = 'sinusoidal'\nseq_len = 8\ndim = 4\n"
    (folder / "pecli.toml").write_text(check)


def traced(
    writer: Writer, folder: Path, calls: Iterable[str], *options: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command under strace, which sees the calls that touch the folder or a file in it.

    Args:
        writer: The command.
        folder: The folder in which it runs.
        calls: The system calls that strace stops at. All others run at full speed: importing
            Python's modules makes thousands of them.
        options: Further options of strace.
    """
    temporaries = [f".{output}.00000000.tmp" for output in writer.outputs]
    names = sorted({*writer.outputs, *temporaries, *os.listdir(folder)})
    paths = [".", str(folder)]
    for name in names:
        paths += [name, f"./{name}", str(folder / name)]
    strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", str(folder.parent / "trace")]
    # A question mark lets strace ignore calls that this processor does not have.
    strace += ["-e", "trace=" + ",".join(f"?{call}" for call in calls)]
    for path in paths:
        strace += ["-P", path]
    environment = {**os.environ, "PECLI_THREADS": "1"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    # Modules are compiled once per writer, beside the folder that is watched.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(folder.parent / "bytecode")
    command = [sys.executable, "-P", "-c", writer.program, *writer.command.split()]
    return subprocess.run(
        [*strace, *options, *command],
        cwd=folder,
        capture_output=True,
        env=environment,
        timeout=120,
    )


def new_folder(root: Path, writer: Writer) -> Path:
    """Return a folder with the inputs, and an old file for every output."""
    folder = root / "work"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "inputs", folder)
    for output in writer.outputs:
        (folder / output).write_bytes(b"old")
    return folder


def contents_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def faults(root: Path, name: str) -> Iterator[Fault]:
    """Yield the failures of the calls that a writer has made in its folder."""
    trace = (root / "trace").read_text(errors="replace")
    counts = Counter(re.findall(r"^\d+ +(\w+)\(", trace, re.MULTILINE))
    for call, errors in FAULTS.items():
        numbers: Sequence[int] = range(1, counts[call] + 1)
        if len(numbers) > MAX_CALLS:
            numbers = [*numbers[: MAX_CALLS // 2], *numbers[-MAX_CALLS // 2 :]]
        for number in numbers:
            for error in errors.split():
                yield Fault(name, call, error, number)


def problems(root: Path, fault: Fault, complete: dict[str, bytes], usual: int) -> list[str]:
    """Run a writer with a fault, and return what is wrong afterwards.

    `complete` are the files after a run without a fault, and `usual` is its exit code.
    """
    writer = WRITERS[fault.writer]
    folder = new_folder(root, writer)
    before = contents_of(folder)
    option = f"inject={fault.call}:error={fault.error}:when={fault.number}"
    done = traced(writer, folder, [fault.call], "-e", option)
    after = contents_of(folder)
    found = [*_message_problems(done, usual)]
    litter = sorted({*after} - {*before})
    if litter and not fault.call.startswith("unlink"):
        found.append(f"litter {litter}")
    for name, old in before.items():
        if name not in writer.outputs:
            if after.get(name) != old:
                found.append(f"{name} changed")
            continue
        is_new = _is_complete(fault.writer, after.get(name, b""), complete[name])
        if done.returncode == usual and not is_new:
            found.append(f"{name} is not complete")
        if not is_new and after.get(name) != old:
            found.append(f"{name} is torn")
    return found


def _message_problems(done: subprocess.CompletedProcess[bytes], usual: int) -> Iterator[str]:
    lines = done.stderr.decode(errors="replace").splitlines(keepends=True)
    error = "".join(line for line in lines if not line.startswith("strace: "))
    if done.returncode not in (usual, 3):
        yield f"exit code {done.returncode}"
    expected_lines = 0 if done.returncode == usual else 1
    if "Traceback" in error or error.count("\n") > expected_lines:
        yield f"stderr {error!r}"
    if "standard output" in error:
        yield "standard output is blamed"


def _is_complete(writer: str, data: bytes, expected: bytes) -> bool:
    if writer == "junit":  # It holds times, and what went wrong.
        return data.endswith(b"</testsuites>\n")
    return data == expected


class Workshop:
    """A folder in which one writer runs, and what it leaves without a fault."""

    def __init__(self, root: Path, writer: str) -> None:
        self.root = root.resolve()
        self.writer = writer
        (root / "inputs").mkdir()
        prepare(root / "inputs")
        folder = new_folder(self.root, WRITERS[writer])
        done = traced(WRITERS[writer], folder, FAULTS)
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{writer} fails without a fault: {done.stderr.decode()}")
        self.complete = contents_of(folder)
        self.usual_code = done.returncode
        self.faults = list(faults(self.root, writer))

    def attempt(self, fault: Fault) -> Result:
        """Run the writer with a fault."""
        result = Result()
        found = problems(self.root, fault, self.complete, self.usual_code)
        result.add(str(fault), [f"{fault.call} {fault.error}"], found)
        return result


def attempt_writer(writer: str, most: int, seed: int) -> Result:
    """Try at most so many faults of a writer, drawn by a seed."""
    result = Result()
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(Path(folder), writer)
        chance = random.Random(f"{seed}/{writer}")
        for fault in chance.sample(workshop.faults, min(most, len(workshop.faults))):
            result.merge(workshop.attempt(fault))
    return result


def parts(count: int, seed: int) -> Iterator[Callable[[], Result]]:
    """Yield a part per writer. Together, they try at least `count` faults, if there are so many."""
    if shutil.which("strace") is None:
        sys.exit("strace is not installed")
    most = math.ceil(count / len(WRITERS))
    for writer in WRITERS:
        yield partial(attempt_writer, writer, most, seed)
