"""Side by side in one run: pecli against NumPy, torch (where installed) and the limits of the machine.

    python tests/bench/bench.py [--quick]

Every figure is the best of several turns, taken in rotation, so that what else the machine does hits all alike.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from commands import converted, peak_memory, pictures, start_up
from comparisons import compared
from learned import drawn, looked_at, resized
from rotations import rotating
from tables import DIM, ROWS, alibi, in_memory, other_numbers, to_disk
from text_files import text_files

SIZES = ("1 GiB", "256 MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer turns, and no 4 GiB table")
    quick = parser.parse_args().quick
    turns = 2 if quick else 7
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        sections = [
            (f"in memory, {ROWS:,} × {DIM:,} float32", in_memory(turns)),
            ("float64, and a recipe (× is how many times longer than the line before)", other_numbers(turns)),
            ("ALiBi", alibi(turns)),
            ("rotating 1 × 32 × 4096 × 128 float32 (× is how many times longer than the first line)", rotating(turns)),
            ("to disk, 268 MB", to_disk(turns, folder)),
            ("2 M numbers as text (× is how many times longer than the first of its part)", text_files(turns, folder)),
            ("learned tables, 268 MB (× is how many times longer than the first line)", drawn(turns)),
            ("resized to 537 MB (× is how many times longer than torch)", resized(turns, folder)),
            ("statistics of 268 MB (× is how many times longer than NumPy)", looked_at(turns, folder)),
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
