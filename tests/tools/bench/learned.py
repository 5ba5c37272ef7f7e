"""Learned tables: drawn, resized, and looked at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import timing
from commands import peak_of
from tables import DIM, ROWS
from timing import PECLI, Row, Work, against_first, best, run

import pecli

SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)


def drawn(turns: int) -> list[Row]:
    """Normal numbers in memory; × is how many times longer than NumPy's."""
    numpy_draws = np.random.default_rng(0)
    works: dict[str, Work] = {
        "NumPy, standard_normal in float32": lambda: 0.02 * numpy_draws.standard_normal((ROWS, DIM), np.float32),
        "pecli learned-init": pecli.LearnedInit(ROWS, DIM).tables,
    }
    if torch := timing.torch():
        works["torch, normal_"] = lambda: torch.empty(ROWS, DIM).normal_(0, 0.02)
    return against_first(best(works, turns), of_first=True)


def resized(turns: int, folder: Path) -> list[Row]:
    """65,536 rows to 131,072: the whole command, from file to file, against torch on a table in memory."""
    source, target = folder / "learned.npy", folder / "longer.npy"
    table = pecli.LearnedInit(ROWS, DIM).tables()["weight"]
    np.save(source, table)
    words = [PECLI, "resize", str(source), "--to", str(2 * ROWS), "-q", "-o", str(target)]
    works: dict[str, Work] = {}
    if torch := timing.torch():
        given = torch.from_numpy(table)
        works["torch, interpolate, in memory"] = lambda: torch.nn.functional.interpolate(
            given.T[None], size=2 * ROWS, mode="linear"
        )[0].T.contiguous()
    works["pecli resize, linear, written and synced"] = run(*words)
    rows = against_first(best(works, turns), of_first=True)
    return [*rows, ("pecli resize, its memory", peak_of(words), "MiB")]


def looked_at(turns: int, folder: Path) -> list[Row]:
    """inspect --stats of 268 MB, the whole command, against what NumPy takes for the same in memory."""
    source = folder / "learned.npy"
    table = np.load(source)

    def with_numpy() -> None:
        table.min(), table.max(), table.mean(dtype=float), table.std(dtype=float)
        np.linalg.norm(table, axis=1)
        np.quantile(table, SHARES, method="lower")

    works: dict[str, Work] = {
        "NumPy: min, max, mean, std, norms, quantiles": with_numpy,
        "pecli inspect --stats": run(PECLI, "inspect", "--stats", str(source)),
    }
    return against_first(best(works, turns), of_first=True)
