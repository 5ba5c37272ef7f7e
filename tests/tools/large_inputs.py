"""Measure the memory that commands take for text, JSON and raw files of 60 MB.

python -m tests.tools.large_inputs

Prints the resident memory of each command as a multiple of the file's size, and exits 1 if one takes
more than four times as much. The memory for a file of two lines is subtracted: that of Python and of
the modules.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import NamedTuple

import numpy as np

MAX_FACTOR = 4
NUMBERS = 6_000_000
COMMANDS = (
    ("inspect", "--stats"),
    ("identify",),
    ("verify", "--model", "llama-3.1-8b"),
)


class LargeFile(NamedTuple):
    """A file, and the options that it needs."""

    path: str
    options: tuple[str, ...] = ()


def large_files() -> Iterator[LargeFile]:
    """Write files of about 60 MB, one at a time, and yield them."""
    numbers = np.random.default_rng(0).standard_normal((NUMBERS // 128, 128))
    np.savetxt("rows.txt", numbers, fmt="%.6f")
    yield LargeFile("rows.txt")
    with open("labels.txt", "w") as file:
        for row, values in enumerate(numbers):
            file.write(f"q[{row}] = {' '.join(f'{value:.6f}' for value in values)}\n")
    yield LargeFile("labels.txt")
    np.savetxt("column.txt", numbers.reshape(-1), fmt="%.6f")
    yield LargeFile("column.txt")
    Path("lists.json").write_text(json.dumps({"q": numbers.round(6).tolist()}))
    yield LargeFile("lists.json")
    np.concatenate([numbers.astype(np.float32)] * 3).tofile("numbers.raw")
    yield LargeFile("numbers.raw", ("--shape", "-1,128", "--raw-dtype", "f32"))


MEASURE = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, _, usage = os.wait4(process.pid, 0)
print(usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""
"""Starts a command from a small process: the peak of a child includes that of its parent."""


def peak_memory(*words: str) -> int:
    """Return the most bytes that a command has resident at a time."""
    command = [sys.executable, "-c", MEASURE, sys.executable, "-m", "pecli", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


def main() -> int:
    largest = 0.0
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("small.txt").write_text("1 2\n3 4\n")
        base = {name: peak_memory(name, "small.txt", *options) for name, *options in COMMANDS}
        for file in large_files():
            size = Path(file.path).stat().st_size
            for name, *options in COMMANDS:
                peak = peak_memory(name, file.path, *options, *file.options)
                factor = (peak - base[name]) / size
                largest = max(largest, factor)
                print(f"{name} {file.path}: {factor:.2f} × {size / 1e6:.0f} MB", flush=True)
            Path(file.path).unlink()
    return 1 if largest > MAX_FACTOR else 0


if __name__ == "__main__":
    sys.exit(main())
