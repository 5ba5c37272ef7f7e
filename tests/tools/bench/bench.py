"""Side by side in one run: pecli against NumPy, torch (where installed) and the limits of the machine.

    pip install -e '.[dask,zarr]' torch==2.13.0
    python tests/tools/bench/bench.py [--quick] [--cpu] [--write] [FOLDER]

Every figure is the best of several turns, taken in rotation, so that what else the machine does hits all alike. On a
busy machine --cpu compares the time of the processors instead of the clock's. --write puts the figures in the reference
and the README. The folder takes 6 GiB; all of it takes less than ten minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from importlib.util import find_spec
from pathlib import Path

import timing
from cluster import scaled
from commands import converted, peak_memory, pictures, start_up
from comparisons import compared
from learned import drawn, looked_at, resized
from rotations import rotating
from tables import DIM, ROWS, alibi, in_memory, other_numbers, to_disk
from text_files import text_files
from timing import Row

ROOT = Path(__file__).parents[3]
FIGURES = re.compile(r"(<!-- begin figures.*? -->\n)(.*?)(<!-- end figures -->)", re.DOTALL)

SUMMARY = """
65,536 × 1,024 float32 in memory, exact | pecli, every element correctly rounded | torch, float32, 2 threads
the same, by what the machine can do | pecli, every element correctly rounded | memcpy of the same bytes
the same in float64 | pecli --dtype float64 | NumPy, float64, not exact
the same as `--recipe float32` computes it | pecli --recipe float32 | NumPy, float32 throughout
the same, to disk and synced | pecli.save to .npy, made and synced | np.save + fsync of a ready array
ALiBi, 32 × 2,048 × 2,048 | pecli alibi, 32 × 2048 × 2048 | memcpy of the same bytes
rotating 32 × 4,096 × 128 in halves | pecli, halves | torch, halves, as Hugging Face writes it
2 M numbers written as .csv | pecli.save to .csv | np.savetxt, nine digits
2 M numbers written as .json | pecli.save to .json | json.dump
2 M numbers written as a C header | pecli.save to .h | pecli.save to .json
2 M numbers read from .csv | pecli.load of .csv | np.loadtxt
`inspect` of that .csv | pecli inspect of .csv | np.loadtxt, a process of its own
`identify` of that .csv | pecli identify of .csv | np.loadtxt, a process of its own
`learned-init`, 65,536 × 1,024 | pecli learned-init | NumPy, standard_normal in float32
`resize` to 131,072 rows, file to file | pecli resize, linear, written and synced | torch, interpolate, in memory
`inspect --stats` of 268 MB | pecli inspect --stats | NumPy: min, max, mean, std, norms, quantiles
comparing two files of 1 GiB | pecli diff, equal | cat a b > /dev/null
a small table, start-up included | pecli sinusoidal --seq-len 512 --dim 64 -o pe.npy | import numpy, typer
"""
"""The README's rows: what is done, the line of pecli, and the line of the same part that it is compared with."""

Section = tuple[str, list[Row]]


def sections(folder: Path, turns: int, *, quick: bool) -> list[Section]:
    found = [
        (f"in memory, {ROWS:,} × {DIM:,} float32", in_memory(turns)),
        ("float64, and a recipe (× is how many times longer than the line before)", other_numbers(turns)),
        ("ALiBi", alibi(turns)),
        ("rotating 1 × 32 × 4096 × 128 float32 (× is how many times longer than the first line)", rotating(turns)),
        ("to disk, 268 MB", to_disk(turns, folder)),
        ("2 M numbers as text (× is how many times longer than the first of its part)", text_files(turns, folder)),
        ("learned tables, 268 MB (× is how many times longer than the first line)", drawn(turns)),
        ("resized to 537 MB (× is how many times longer than torch)", resized(turns, folder)),
        ("statistics of 268 MB (× is how many times longer than NumPy)", looked_at(turns, folder)),
        (
            f"comparing two files of {'256 MiB' if quick else '1 GiB'}",
            compared(turns, folder, 1 << 28 + 2 * (not quick)),
        ),
        ("converting a checkpoint (× is how many times longer)", converted(folder, 3 if quick else 12)),
        ("start-up", start_up(turns, folder)),
        ("pictures (× is how many times longer than the first line)", pictures(turns, folder)),
    ]
    if not quick:
        found.append(("memory", peak_memory(folder)))
    if find_spec("dask") and find_spec("zarr"):
        found.append(("a Dask cluster writes a Zarr store", scaled(folder, 0.25 if quick else 2.0)))
    return found


def text_of(found: list[Section]) -> str:
    lines = ["× is how many times longer the first line of a part takes", ""]
    for title, rows in found:
        lines += [title, *(f"  {label:<52} {value:>8.1f} {unit}" for label, value, unit in rows)]
    return "\n".join(lines)


def table_of(found: list[Section]) -> str:
    """The README's table."""
    lines = ["| | pecli | instead | | × |", "|---|---|---|---|---|"]
    for each in SUMMARY.strip().splitlines():
        label, ours, other = each.split(" | ")
        for _, rows in found:
            times = {name.strip(): value for name, value, _ in rows}
            if ours in times and other in times:
                one, two = times[ours], times[other]
                lines.append(f"| {label} | {one:,.0f} ms | {other} | {two:,.0f} ms | {one / two:.2f} |")
    return "\n".join(lines)


def write(path: Path, figures: str) -> None:
    path.write_text(FIGURES.sub(lambda part: part[1] + figures + part[3], path.read_text(), count=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer turns, smaller files, no 4 GiB table")
    parser.add_argument("--cpu", action="store_true", help="time of the processors, not of the clock")
    parser.add_argument("--write", action="store_true", help="put the figures in samples/reference.md and README.md")
    parser.add_argument("folder", nargs="?", default=".", help="where to write tables")
    given = parser.parse_args()
    if given.cpu:
        timing.clock = timing.cpu_time
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # commands start as they do where they are installed
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(name) / "pycache")
        found = sections(Path(name), 2 if given.quick else 7, quick=given.quick)
    text, table = text_of(found), table_of(found)
    print(f"{text}\n\n{table}")
    if given.write:
        about = "The last run of `python tests/tools/bench/bench.py --write`, torch 2.13.0 beside it:"
        write(ROOT / "samples" / "reference.md", f"\n{about}\n\n```text\n{text}\n```\n\n")
        write(ROOT / "README.md", f"\n{table}\n\n")


if __name__ == "__main__":
    main()
