"""Memory of commands that read large files: little more than the file itself, which is mapped.

The file has 96 MiB of noise, which nothing identifies; the peak of a process of its own is
measured, mapped pages included.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import MEASURE

ROOT = Path(__file__).parents[2]
BYTES_OF_A_FILE = 96 << 20
BYTES_OF_THE_PROGRAM = 150 << 20
"""Bytes that Python, NumPy and matplotlib take."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "PECLI_THREADS": "1"}


def peak_memory(folder: Path, *words: str) -> int:
    """Return the most bytes that a command had in memory at a time, mapped files included."""
    command = [sys.executable, "-c", MEASURE, sys.executable, "-m", "pecli", *words]
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    status, mebibytes = map(int, done.stdout.split())
    assert os.waitstatus_to_exitcode(status) in (0, 1), done.stderr
    return mebibytes << 20


def write_noise(path: Path, *shape: int, dtype: str = "float32") -> None:
    """Write a table that nothing identifies, of BYTES in all; one side of the shape is -1."""
    count = BYTES_OF_A_FILE // np.dtype(dtype).itemsize
    noise = np.random.default_rng(0).random(count, np.float32)
    np.save(path, noise.astype(dtype).reshape(shape))


@pytest.mark.parametrize(
    ("words", "shape"),
    [
        ("identify a.npy", (-1, 1024)),
        pytest.param("identify a.npy", (512, -1), marks=pytest.mark.thorough),
        pytest.param("identify a.npy", (2, -1), marks=pytest.mark.thorough),
        pytest.param("identify a.npy", (-1, 512), marks=pytest.mark.thorough),
        pytest.param("identify a.npy", (64, 512, -1), marks=pytest.mark.thorough),
        pytest.param("identify a.npy", (-1,), marks=pytest.mark.thorough),
        pytest.param("inspect --stats a.npy", (-1, 1024), marks=pytest.mark.thorough),
        pytest.param("inspect --stats a.npy", (512, -1), marks=pytest.mark.thorough),
        pytest.param("inspect --stats a.npy", (-1,), marks=pytest.mark.thorough),
        pytest.param("report a.npy -o report.html", (-1, 1024), marks=pytest.mark.thorough),
        pytest.param("report a.npy -o report.html", (512, -1), marks=pytest.mark.thorough),
        pytest.param("report a.npy -o report.html", (2, -1), marks=pytest.mark.thorough),
        pytest.param("verify a.npy --model gpt2", (-1, 768), marks=pytest.mark.thorough),
        pytest.param("verify a.npy --model gpt2", (512, -1), marks=pytest.mark.thorough),
        pytest.param("verify a.npy --model llama-3.1-8b", (2, -1), marks=pytest.mark.thorough),
        pytest.param("verify a.npy --model llama-3.1-8b", (-1, 2), marks=pytest.mark.thorough),
        pytest.param("verify a.npy --model llama-3.1-8b", (-1,), marks=pytest.mark.thorough),
    ],
)
def test_reading_a_large_file_takes_little_more_memory_than_the_file(
    tmp_path: Path, words: str, shape: tuple[int, ...]
) -> None:
    """The file a.npy holds 96 MiB of noise in this shape (−1 is the axis that makes it so large).
    Half as much again is allowed beside Python and its libraries, which take 150 MiB.
    """
    write_noise(tmp_path / "a.npy", *shape)
    assert peak_memory(tmp_path, *words.split()) <= 1.5 * BYTES_OF_A_FILE + BYTES_OF_THE_PROGRAM


@pytest.mark.thorough
def test_a_large_file_of_a_wrong_shape_takes_at_most_400_mib_more(tmp_path: Path) -> None:
    """The file holds 96 MiB of noise, of which no table of Llama 3.1 has the shape. Mistakes that
    may explain it are looked for in a sample, whose size has a limit.
    """
    write_noise(tmp_path / "a.npy", 512, -1)
    peak = peak_memory(tmp_path, "verify", "a.npy", "--model", "llama-3.1-8b")

    assert peak <= BYTES_OF_A_FILE + (400 << 20)


@pytest.mark.thorough
def test_comparing_two_large_files_takes_little_more_memory_than_both(tmp_path: Path) -> None:
    """Both hold 96 MiB. Half as much again is allowed beside Python and its libraries, which take
    150 MiB.
    """
    write_noise(tmp_path / "a.npy", -1, 1024)
    write_noise(tmp_path / "b.npy", -1, 1024)
    peak = peak_memory(tmp_path, "diff", "a.npy", "b.npy")

    assert peak <= 1.5 * (2 * BYTES_OF_A_FILE) + BYTES_OF_THE_PROGRAM


@pytest.mark.thorough
@pytest.mark.parametrize("words", ["identify a.txt", "verify a.txt --model llama-3.1-8b"])
@pytest.mark.parametrize("columns", [1, 128])
def test_a_large_text_takes_at_most_four_times_its_size(
    tmp_path: Path, words: str, columns: int
) -> None:
    """6 million numbers of 6 decimals, in one column or 128. As float64 they take about as much
    memory as their text; four times its size are allowed beside Python and its libraries.
    """
    noise = np.random.default_rng(0).standard_normal((6_000_000 // columns, columns))
    text = tmp_path / "a.txt"
    np.savetxt(text, noise, fmt="%.6f")

    assert peak_memory(tmp_path, *words.split()) <= 4 * text.stat().st_size + BYTES_OF_THE_PROGRAM
