"""Side by side in one run: pecli against NumPy, torch (where installed) and the limits of the machine.

    python tests/bench/bench.py [--quick]

Every figure is the best of several turns, taken in rotation, so that what else the machine does hits all alike.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from commands import converted, peak_memory, pictures, start_up
from rotations import rotating
from tables import DIM, ROWS, alibi, in_memory, to_disk
from timing import Work, best

SIZES = ("1 GiB", "256 MiB")


def compared(turns: int, folder: Path, size: int) -> list[tuple[str, float, str]]:
    """Whole commands on files that are in memory already: equal, and different in one way or another."""
    command = str(Path(sys.executable).with_name("pecli"))
    paths = {name: folder / f"{name}.npy" for name in ("a", "same", "few", "off", "noise")}
    random = np.random.default_rng(0)
    draw = random.standard_normal((size // 4096, 1024), dtype=np.float32)
    for name in ("a", "same"):
        np.save(paths[name], draw)
    np.save(paths["off"], (draw.view(np.int32) + 1).view(np.float32))
    flat = draw.reshape(-1)
    places = random.choice(flat.size, 1000, replace=False)
    flat[places] += np.float32(0.01)
    np.save(paths["few"], draw)
    flat[places] -= np.float32(0.01)
    for rows in np.array_split(draw, 64):
        rows *= 1 + np.float32(1e-4) * random.standard_normal(rows.shape, dtype=np.float32)
    np.save(paths["noise"], draw)

    def run(*words: str | Path) -> Work:
        return lambda: subprocess.run(words, check=False, stdout=subprocess.DEVNULL)

    def diff(other: str, *options: str) -> Work:
        return run(command, "diff", "-q", paths["a"], paths[other], *options)

    works: dict[str, Work] = {
        "cat a b > /dev/null": run("cat", paths["a"], paths["off"]),
        "pecli diff, equal": diff("same"),
        "pecli diff, 1,000 elements changed": diff("few"),
        "pecli diff, every element off by one unit": diff("off"),
        "pecli diff, noise on every element": diff("noise"),
        "pecli diff, noise, with --atol 1e-3": diff("noise", "--atol", "1e-3"),
    }
    times = best(works, turns)
    for path in paths.values():
        path.unlink()
    base = times["cat a b > /dev/null"]
    return [(name, value * 1000, f"ms  {value / base:.2f} × cat") for name, value in times.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer turns, and no 4 GiB table")
    quick = parser.parse_args().quick
    turns = 2 if quick else 7
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        sections = [
            (f"in memory, {ROWS:,} × {DIM:,} float32", in_memory(turns)),
            ("ALiBi", alibi(turns)),
            ("rotating 1 × 32 × 4096 × 128 float32 (× is how many times longer than the first line)", rotating(turns)),
            ("to disk, 268 MB", to_disk(turns, folder)),
            (f"comparing two files of {SIZES[quick]}", compared(turns, folder, 1 << (28 if quick else 30))),
            (
                "converting a checkpoint (× is how many times longer)",
                converted(folder, 3 if quick else 12),
            ),
            ("start-up", start_up(turns, folder)),
            ("pictures (× is how many times longer than the first line)", pictures(turns, folder)),
        ]
        if not quick:
            sections.append(("memory", peak_memory(folder)))
    print("× is how many times longer the first line of a part takes\n")
    for title, rows in sections:
        print(title)
        for label, value, unit in rows:
            print(f"  {label:<52} {value:>8.1f} {unit}")


if __name__ == "__main__":
    main()
