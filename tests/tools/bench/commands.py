"""Whole commands: converting a checkpoint, starting up, drawing, and the memory that they take."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from timing import PECLI, Row, Work, against_first, best, run

import pecli

MEASURE = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(child.pid, 0)
assert status == 0, status
print(usage.ru_maxrss / 1024)
"""
"""A small process of its own: a child's peak counts that of the process it was forked from."""


def converted(folder: Path, layers: int) -> list[Row]:
    """A checkpoint whose q and k move, against a copy of it; each into a new file, on a disk that is at rest."""
    source, target = folder / "model.safetensors", folder / "out.safetensors"
    shapes = {"q_proj": 4096, "k_proj": 1024, "v_proj": 1024, "o_proj": 4096, "up_proj": 11008}
    tensors = {
        f"layers.{k}.{name}": np.ones((rows, 4096), np.float16) for k in range(layers) for name, rows in shapes.items()
    }
    pecli.save(source, tensors)
    command = [PECLI, "convert", str(source), "-q", "-o", str(target)]
    command += ["--from", "halves", "--to", "interleaved", "--heads", "32"]
    times: dict[str, list[float]] = {"cp": [], "pecli convert, written and synced": []}
    for _ in range(4):
        for name, words in zip(times, (["cp", str(source), str(target)], command), strict=True):
            os.sync()
            start = time.perf_counter()
            subprocess.run(words, check=True)
            times[name].append(time.perf_counter() - start)
            target.unlink()
    source.unlink()
    return against_first({name: min(each) for name, each in times.items()}, of_first=True)


def start_up(turns: int, folder: Path) -> list[Row]:
    python = sys.executable
    small = [PECLI, "sinusoidal", "--seq-len", "512", "--dim", "64", "-o", str(folder / "pe.npy")]
    rows = []
    for works in (
        {
            "pecli sinusoidal --seq-len 512 --dim 64 -o pe.npy": run(*small),
            "import numpy, typer": run(python, "-c", "import numpy, typer"),
        },
        {"pecli --version": run(PECLI, "--version"), "import typer": run(python, "-c", "import typer")},
    ):
        rows += against_first(best(works, turns * 3))
    return rows


def pictures(turns: int, folder: Path) -> list[Row]:
    """Figures against importing what draws them; a picture in the terminal against the same command without."""

    table = ["sinusoidal", "--seq-len", "512", "--dim", "64"]
    model = ["rope", "--model", "llama-3.1-8b", "--kind", "wavelengths"]
    works: dict[str, Work] = {
        "import matplotlib.figure, …backend_agg": run(
            sys.executable, "-c", "import matplotlib.figure, matplotlib.backends.backend_agg"
        ),
        "pecli plot, a heatmap, to .png": run(PECLI, "plot", *table, "-o", str(folder / "x.png")),
        "pecli plot, wavelengths, to .png": run(PECLI, "plot", *model, "-o", str(folder / "x.png")),
    }
    rows = against_first(best(works, turns * 2), of_first=True)
    plain = [PECLI, *table, "-o", str(folder / "pe.npy")]
    shown = best({"without": run(*plain), "with": run(*plain, "--plot")}, turns * 3)
    return [*rows, ("--plot in the terminal, beside -o pe.npy", 1000 * (shown["with"] - shown["without"]), "ms more")]


def peak_of(words: list[str]) -> float:
    """The largest resident size of a command, in MiB."""
    result = subprocess.run([sys.executable, "-c", MEASURE, *words], check=True, capture_output=True, text=True)
    return float(result.stdout)


def peak_memory(folder: Path) -> list[Row]:
    """The largest resident size of whole commands."""
    rows = []
    for label, length in (("4 MiB", 1024), ("4 GiB", 1024 * 1024)):
        output = folder / "large.npy"
        words = [PECLI, "sinusoidal", "--seq-len", str(length), "--dim", "1024", "-o", str(output)]
        rows.append((f"peak memory of a {label} table", peak_of(words), "MiB"))
        output.unlink()
    return [*rows, ("  the difference", rows[1][1] - rows[0][1], "MiB")]
