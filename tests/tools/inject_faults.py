"""System calls that fail, one after the other, under every command that writes.

`python -m tests.tools.inject_faults` runs each writer under strace, lets one call that touches its folder fail, and
checks what is left: the exit code is never 1, an error is one line, the output is the old file or the new one, whole,
and nothing else is in the folder. It takes some minutes; arguments are names of writers.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import pecli

START = "import os; os.urandom = bytes; from pecli.__main__ import main; main()"
"""So the temporary file has a name that strace can be told."""
TABLE = "sinusoidal --seq-len 64 --dim 16 -q -o {}"
WRITERS = {
    **{
        kind: TABLE.format(f"out.{kind}")
        for kind in ("npy", "npz", "safetensors", "csv", "json", "h")
    },
    "convert": "convert in.npz -o out.safetensors -q",
    "copy": "convert weights.safetensors --from halves --to interleaved --heads 2 -o out.safetensors -q",
    "apply": "apply rope in.npz:q -o out.npy -q",
    "resize": "resize in.npz:q --to 9 -o out.npy -q",
    "plot": "plot in.npz:q -o out.png -q",
    "svg": "plot in.npz:q -o out.svg -q",
    "diff": "diff in.npz:q weights.safetensors:model.layers.0.self_attn.q_proj.weight -q -o out.png",
    "junit": "verify pecli.toml -q --junit out.xml",
}
"""A command line for each; the output is called `out`, and `in`, `weights` and `pecli.toml` are there."""
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
MAX_CALLS = 6
"""Of one system call in one writer: the first and the last of them."""


class Fault(NamedTuple):
    """The `number`th of the calls that touch the folder fails."""

    writer: str
    call: str
    error: str
    number: int


def prepare(folder: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(folder / "in.npz", q=rng.normal(size=(6, 8)).astype(np.float32))
    weight = {
        f"model.layers.0.self_attn.{name}_proj.weight": rng.normal(size=(8, 8)) for name in "qkv"
    }
    pecli.save(folder / "weights.safetensors", weight)
    pecli.save(folder / "pe.npy", pecli.Sinusoidal(8, 4))
    check = "[[check]]\nfile = 'pe.npy'\nscheme = 'sinusoidal'\nseq_len = 8\ndim = 4\n"
    (folder / "pecli.toml").write_text(check)


def traced(words: Sequence[str], folder: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    """A command under strace, which sees what touches the folder and what is in it."""
    names = [
        name
        for writer in WRITERS
        for name in (output_of(writer), f".{output_of(writer)}.00000000.tmp")
    ]
    names = sorted({*names, *os.listdir(folder)})
    paths = [option for name in names for option in ("-P", name, "-P", str(folder / name))]
    strace = [
        "strace",
        "-f",
        "-qq",
        "-o",
        str(folder.parent / "trace"),
        "-P",
        ".",
        "-P",
        str(folder),
        *paths,
        *options,
    ]
    environment = {**os.environ, "PECLI_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = [*strace, sys.executable, "-P", "-c", START, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, env=environment, timeout=120)


def output_of(writer: str) -> str:
    return re.findall(r"out\.\w+", WRITERS[writer])[0]


def new_folder(root: Path, writer: str) -> Path:
    folder = root / "work"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "inputs", folder)
    (folder / output_of(writer)).write_bytes(b"old")
    return folder


def faults(root: Path, writer: str) -> Iterator[Fault]:
    """The calls that a writer has made in its folder, and how each may fail."""
    counts = Counter(
        re.findall(r"^\d+ +(\w+)\(", (root / "trace").read_text(errors="replace"), re.MULTILINE)
    )
    for call, errors in FAULTS.items():
        numbers = range(1, counts[call] + 1)
        if len(numbers) > MAX_CALLS:
            numbers = [*numbers[: MAX_CALLS // 2], *numbers[-MAX_CALLS // 2 :]]
        yield from (
            Fault(writer, call, error, number) for number in numbers for error in errors.split()
        )


def problems(root: Path, fault: Fault, complete: bytes, usual: int) -> list[str]:
    folder = new_folder(root, fault.writer)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    option = f"inject={fault.call}:error={fault.error}:when={fault.number}"
    done = traced(WRITERS[fault.writer].split(), folder, "-e", option)
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    lines = done.stderr.decode(errors="replace").splitlines(keepends=True)
    error = "".join(line for line in lines if not line.startswith("strace: "))
    output = output_of(fault.writer)
    found = []
    if done.returncode not in (usual, 3):
        found.append(f"exit code {done.returncode}")
    if "Traceback" in error or error.count("\n") > (done.returncode != usual):
        found.append(f"stderr {error!r}")
    if "standard output" in error:
        found.append("standard output is blamed")
    left = set(after) - set(before)
    if left and not fault.call.startswith("unlink"):
        found.append(f"litter {sorted(left)}")
    is_new = after.get(output) == complete
    if fault.writer == "junit":  # which holds times, and what went wrong
        is_new = after.get(output, b"").endswith(b"</testsuites>\n")
    if done.returncode == usual and not is_new:
        found.append("the output is not complete")
    if not is_new and after.get(output) != b"old":
        found.append("the output is torn")
    return found + [
        f"{name} changed" for name in before if name != output and after.get(name) != before[name]
    ]


def inject(writers: Sequence[str], most: int | None = None) -> tuple[int, dict[Fault, list[str]]]:
    """How many faults were tried, and those after which something was wrong."""
    tried, wrong = 0, {}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        (root / "inputs").mkdir()
        prepare(root / "inputs")
        for writer in writers:
            folder = new_folder(root, writer)
            done = traced(WRITERS[writer].split(), folder)
            assert done.returncode in (0, 1), (writer, done.stderr)
            complete = (folder / output_of(writer)).read_bytes()
            every = list(faults(root, writer))
            for fault in every[:: max(1, len(every) // most)] if most else every:
                tried += 1
                if found := problems(root, fault, complete, done.returncode):
                    wrong[fault] = found
                    print(fault, *found, sep="\n    ", flush=True)
    return tried, wrong


if __name__ == "__main__":
    if shutil.which("strace") is None:
        sys.exit("strace is not installed")
    count, failed = inject(sys.argv[1:] or list(WRITERS))
    print(f"{count} faults, {len(failed)} with something wrong")
    sys.exit(1 if failed else 0)
