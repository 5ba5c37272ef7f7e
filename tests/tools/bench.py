"""Side by side in one run: pecli against NumPy, torch (where installed) and the limits of the machine.

    pip install torch==2.13.0
    python -m tests.tools.bench [--quick] [--cpu] [--write] [FOLDER]

Every figure is the best of several turns, taken in rotation, so that what else the machine does hits all alike. On a
busy machine --cpu compares the time of the processors instead of the clock's. --write puts the figures in the reference
and the README. The folder takes 6 GiB; all of it takes less than ten minutes.
"""

import argparse
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import pecli
from pecli.engine import application
from tests.conftest import MEASURE

Work = Callable[[], object]
Works = dict[str, Work]
"""What is done, in words, and the doing of it; the first of them is what the others are compared with."""
Row = tuple[str, float, str]
"""What was done, a number, and its unit."""

ROOT = Path(__file__).parents[2]
FIGURES = re.compile(r"(<!-- begin figures.*? -->\n)(.*?)(<!-- end figures -->)", re.DOTALL)
PECLI = str(Path(sys.executable).with_name("pecli"))
ROWS, DIM = 65_536, 1_024
SUMMARY = """
65,536 × 1,024 float32 in memory, exact | pecli, every element correctly rounded | torch, float32, 2 threads
rotating 32 × 4,096 × 128 in halves | pecli, halves | torch, halves, as Hugging Face writes it
comparing two files of 1 GiB | pecli diff, equal | cat a b > /dev/null
a small table, start-up included | pecli sinusoidal --seq-len 512 --dim 64 -o pe.npy | import numpy, typer
"""
"""The README's rows: what is done, the line of pecli, and the line that it is compared with."""

clock = time.perf_counter


def cpu_time() -> float:
    """Of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def run(*words: object, check: bool = True) -> Work:
    return lambda: subprocess.run([*map(str, words)], check=check, stdout=subprocess.DEVNULL)


def best(works: Works, turns: int) -> list[Row]:
    """The shortest time of each after one warm-up, and how many times longer than the first it takes."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns + 1):
        for name, work in works.items():
            start = clock()
            work()
            if turn:
                times[name].append(clock() - start)
    base = min(next(iter(times.values())))
    return [
        (name, 1000 * min(spent), f"ms  × {min(spent) / base:.2f}") for name, spent in times.items()
    ]


def plain_table(library: Any, dtype: str, kept: str = "float32") -> object:
    dtype, kept = getattr(library, dtype), getattr(library, kept)
    positions = library.arange(ROWS, dtype=dtype)[:, None]
    angles = positions * library.exp(
        library.arange(0, DIM, 2, dtype=dtype) * (-math.log(10000.0) / DIM)
    )
    table = library.empty((ROWS, DIM), dtype=kept)
    table[:, 0::2] = library.sin(angles)
    table[:, 1::2] = library.cos(angles)
    return table


def tables(torch: Any) -> Iterator[Works]:
    source = np.ones((ROWS, DIM), np.float32)
    target = np.empty_like(source)
    works: Works = {"pecli, every element correctly rounded": pecli.Sinusoidal(ROWS, DIM).tables}
    if torch:  # whose threads go on spinning for a while: NumPy comes before the next turn of pecli
        works["torch, float32, 2 threads"] = lambda: plain_table(torch, "float32")
    works["NumPy, float32 throughout"] = lambda: plain_table(np, "float32")
    works["NumPy, float64 then cast"] = lambda: plain_table(np, "float64")
    works["memcpy of the same bytes"] = lambda: np.copyto(target, source)
    yield works
    yield {
        "NumPy, float64, not exact": lambda: plain_table(np, "float64", "float64"),
        "pecli --dtype float64": pecli.Sinusoidal(ROWS, DIM, dtype="float64").tables,
    }
    yield {
        "NumPy, float32, again": lambda: plain_table(np, "float32"),
        "pecli --recipe float32": pecli.Sinusoidal(ROWS, DIM, recipe="float32").tables,
    }
    alibi = pecli.Alibi(32, 2048)
    bias = alibi.tables()["bias"]
    room = np.empty_like(bias)
    yield {
        "memcpy of a bias": lambda: np.copyto(room, bias),
        "pecli alibi, 32 × 2048 × 2048": alibi.tables,
    }
    draws = np.random.default_rng(0)
    works = {
        "NumPy, standard_normal in float32": lambda: (
            0.02 * draws.standard_normal((ROWS, DIM), np.float32)
        ),
        "pecli learned-init": pecli.LearnedInit(ROWS, DIM).tables,
    }
    if torch:
        works["torch, normal_"] = lambda: torch.empty(ROWS, DIM).normal_(0, 0.02)
    yield works


def rotations(torch: Any) -> Iterator[Works]:
    """(1, 32, 4096, 128) float32 into memory that is there already; torch, as Hugging Face writes it, makes its own."""
    x = np.random.default_rng(0).standard_normal((1, 32, 4096, 128)).astype(np.float32)
    target = np.empty_like(x)
    made = pecli.Rope(4096, 128).tables()
    factors = (made["cos"] + 1j * made["sin"]).astype(np.complex64)

    def rotated(layout: str) -> Work:
        return lambda: application.rotate(
            x, lambda start, stop: factors[start:stop], layout, layout, out=target
        )

    works: Works = {
        "memcpy": lambda: np.copyto(target, x),
        "pecli, interleaved": rotated("interleaved"),
        "pecli, halves": rotated("halves"),
    }
    if torch:
        q, room = torch.from_numpy(x), torch.empty(x.shape)
        cos, sin = (
            torch.from_numpy(np.concatenate([made[name]] * 2, axis=1)) for name in ("cos", "sin")
        )
        turns = torch.complex(cos[:, :64].contiguous(), sin[:, :64].contiguous())
        pairs, into = (
            torch.view_as_complex(tensor.view(*x.shape[:-1], 64, 2)) for tensor in (q, room)
        )
        works["torch, interleaved, as a complex product"] = lambda: torch.mul(
            pairs, turns, out=into
        )
        works["torch, halves, as Hugging Face writes it"] = lambda: (
            (q * cos) + (torch.cat((-q[..., 64:], q[..., :64]), dim=-1) * sin)
        )
    yield works


def to_disk(folder: Path) -> Iterator[Works]:
    scheme = pecli.Sinusoidal(ROWS, DIM)
    table = scheme.tables()["pe"]

    def save_and_sync() -> None:
        with open(folder / "ready.npy", "wb") as file:
            np.save(file, table)
            file.flush()
            os.fsync(file.fileno())

    yield {
        "np.save + fsync of a ready array": save_and_sync,
        "pecli.save to .npy, made and synced": lambda: pecli.save(folder / "made.npy", scheme),
        "pecli.save to .safetensors, hashed too": lambda: pecli.save(
            folder / "made.safetensors", scheme
        ),
    }


def text_files(folder: Path) -> Iterator[Works]:
    table = pecli.Sinusoidal(2_000, 1_000).tables()["pe"]
    paths = {suffix: folder / f"t.{suffix}" for suffix in ("csv", "json", "h")}

    def json_dump() -> None:
        with open(folder / "other.json", "w") as file:
            json.dump({"pe": table.tolist()}, file)

    works: Works = {
        "np.savetxt, nine digits": lambda: np.savetxt(folder / "other.csv", table, "%.9g", ","),
        "json.dump": json_dump,
    }
    for suffix, path in paths.items():
        works[f"pecli.save to .{suffix}"] = lambda path=path: pecli.save(path, {"pe": table})
    yield works
    yield {
        "np.loadtxt": lambda: np.loadtxt(paths["csv"], delimiter=",", skiprows=1),
        "pecli.load of .csv": lambda: pecli.load(paths["csv"]),
        "pecli.load of .json": lambda: pecli.load(paths["json"]),
    }


def compared(folder: Path, size: int) -> Iterator[Works]:
    """Whole commands on files that are in memory already: equal, and different in one way or another."""
    random = np.random.default_rng(0)
    draw = random.standard_normal((size // 4096, 1024), dtype=np.float32)
    noise = draw * (1 + np.float32(1e-4) * random.standard_normal(draw.shape, dtype=np.float32))
    files = {
        "a": draw,
        "same": draw,
        "off": (draw.view(np.int32) + 1).view(np.float32),
        "noise": noise,
    }
    paths = {name: folder / f"{name}.npy" for name in files}
    for name, table in files.items():
        np.save(paths[name], table)

    def diff(other: str, *options: str) -> Work:
        return run(PECLI, "diff", "-q", paths["a"], paths[other], *options, check=False)

    yield {
        "cat a b > /dev/null": run("cat", paths["a"], paths["off"]),
        "pecli diff, equal": diff("same"),
        "pecli diff, every element off by one unit": diff("off"),
        "pecli diff, noise on every element": diff("noise"),
        "pecli diff, noise, with --atol 1e-3": diff("noise", "--atol", "1e-3"),
    }
    for path in paths.values():
        path.unlink()


def start_up(folder: Path) -> Iterator[Works]:
    python = sys.executable
    table = ("sinusoidal", "--seq-len", "512", "--dim", "64")
    small = (PECLI, *table, "-o", folder / "pe.npy")
    yield {
        "import numpy, typer": run(python, "-c", "import numpy, typer"),
        "pecli sinusoidal --seq-len 512 --dim 64 -o pe.npy": run(*small),
        "  the same with --plot, in the terminal": run(*small, "--plot"),
    }
    yield {
        "import typer": run(python, "-c", "import typer"),
        "pecli --version": run(PECLI, "--version"),
    }
    model = ("rope", "--model", "llama-3.1-8b", "--kind", "wavelengths")
    imports = "import matplotlib.figure, matplotlib.backends.backend_agg"
    yield {
        "import matplotlib.figure, …backend_agg": run(python, "-c", imports),
        "pecli plot, a heatmap, to .png": run(PECLI, "plot", *table, "-o", folder / "x.png"),
        "pecli plot, wavelengths, to .png": run(PECLI, "plot", *model, "-o", folder / "x.png"),
    }


def peak_memory(folder: Path) -> list[Row]:
    rows = []
    for label, length in (("4 MiB", 1024), ("4 GiB", 1024 * 1024)):
        output = folder / "large.npy"
        words = [PECLI, "sinusoidal", "--seq-len", str(length), "--dim", "1024", "-o", str(output)]
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *words], check=True, capture_output=True, text=True
        )
        rows.append((f"peak memory of a {label} table", float(done.stdout.split()[1]), "MiB"))
        output.unlink()
    return [*rows, ("  the difference", rows[1][1] - rows[0][1], "MiB")]


def sections(folder: Path, *, quick: bool) -> dict[str, list[Row]]:
    torch = import_module("torch") if find_spec("torch") else None
    if torch:
        torch.set_num_threads(2)
    turns = 2 if quick else 7
    parts = {
        f"tables of {ROWS:,} × {DIM:,} in memory": tables(torch),
        "rotating 1 × 32 × 4096 × 128 float32": rotations(torch),
        "to disk, 268 MB": to_disk(folder),
        "2 M numbers as text": text_files(folder),
        f"comparing two files of {'256 MiB' if quick else '1 GiB'}": compared(
            folder, 1 << (28 if quick else 30)
        ),
        "start-up and pictures": start_up(folder),
    }
    figures = {
        title: [row for works in part for row in best(works, turns)]
        for title, part in parts.items()
    }
    if not quick:
        figures["memory"] = peak_memory(folder)
    return figures


def text_of(figures: dict[str, list[Row]]) -> str:
    lines = ["× is how many times longer than the last line with × 1.00"]
    for title, rows in figures.items():
        lines += [
            "",
            title,
            *(f"  {label:<52} {value:>8.1f} {unit}" for label, value, unit in rows),
        ]
    return "\n".join(lines)


def table_of(figures: dict[str, list[Row]]) -> str:
    times = {label: value for rows in figures.values() for label, value, _ in rows}
    lines = ["| | pecli | instead | | × |", "|---|---|---|---|---|"]
    for row in SUMMARY.strip().splitlines():
        label, ours, other = row.split(" | ")
        if ours in times and other in times:
            ratio = times[ours] / times[other]
            lines.append(
                f"| {label} | {times[ours]:,.0f} ms | {other} | {times[other]:,.0f} ms | {ratio:.2f} |"
            )
    return "\n".join(lines)


def main() -> None:
    global clock
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="fewer turns, smaller files, no 4 GiB table"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="time of the processors, not of the clock"
    )
    parser.add_argument(
        "--write", action="store_true", help="put the figures in samples/reference.md and README.md"
    )
    parser.add_argument("folder", nargs="?", default=".", help="where to write tables")
    options = parser.parse_args()
    if options.cpu:
        clock = cpu_time
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        os.environ.pop(
            "PYTHONDONTWRITEBYTECODE", None
        )  # commands start as they do where they are installed
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(name) / "pycache")
        figures = sections(Path(name), quick=options.quick)
    text, table = text_of(figures), table_of(figures)
    print(f"{text}\n\n{table}")
    if options.write:
        about = "The last run of `python -m tests.tools.bench --write`, torch 2.13.0 beside it:"
        for path, written in (
            ("samples/reference.md", f"{about}\n\n```text\n{text}\n```"),
            ("README.md", table),
        ):
            page = (ROOT / path).read_text(encoding="utf-8")
            page = FIGURES.sub(
                lambda part, written=written: f"{part[1]}\n{written}\n\n{part[3]}", page, count=1
            )
            (ROOT / path).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
