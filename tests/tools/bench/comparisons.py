"""Two large files against each other, and against reading them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
from timing import PECLI, Row, Work, best


def compared(turns: int, folder: Path, size: int) -> list[Row]:
    """Whole commands on files that are in memory already: equal, and different in one way or another."""
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
        return run(PECLI, "diff", "-q", paths["a"], paths[other], *options)

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
