"""Making tables: in memory, and on the way to a disk."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import timing
from timing import Row, Work, against_first, best

import pecli

ROWS, DIM = 65_536, 1_024


def with_numpy(dtype: type[np.floating], kept: type[np.floating] = np.float32) -> np.ndarray:
    """As one would write it."""
    positions = np.arange(ROWS, dtype=dtype)[:, None]
    angles = positions * (10000.0 ** (-np.arange(0, DIM, 2) / DIM)).astype(dtype)
    table = np.empty((ROWS, DIM), kept)
    table[:, 0::2], table[:, 1::2] = np.sin(angles), np.cos(angles)
    return table


def torch_work() -> Work | None:
    if not (torch := timing.torch()):
        return None

    def work() -> object:
        positions = torch.arange(ROWS, dtype=torch.float32)[:, None]
        angles = positions * torch.exp(torch.arange(0, DIM, 2, dtype=torch.float32) * (-np.log(10000.0) / DIM))
        table = torch.empty(ROWS, DIM)
        table[:, 0::2], table[:, 1::2] = torch.sin(angles), torch.cos(angles)
        return table

    return work


def in_memory(turns: int) -> list[Row]:
    source = np.ones((ROWS, DIM), np.float32)
    target = np.empty_like(source)
    scheme = pecli.Sinusoidal(ROWS, DIM)
    works: dict[str, Work] = {"pecli, every element correctly rounded": scheme.tables}
    if work := torch_work():  # whose threads go on spinning for a while: NumPy comes before the next turn of pecli
        works["torch, float32, 2 threads"] = work
    works["NumPy, float32 throughout"] = lambda: with_numpy(np.float32)
    works["NumPy, float64 then cast"] = lambda: with_numpy(np.float64)
    works["memcpy of the same bytes"] = lambda: np.copyto(target, source)
    return against_first(best(works, turns))


def other_numbers(turns: int) -> list[Row]:
    """In memory too; × is how many times longer than the line before takes."""
    pairs: list[dict[str, Work]] = [
        {
            "NumPy, float64, not exact": lambda: with_numpy(np.float64, np.float64),
            "pecli --dtype float64": pecli.Sinusoidal(ROWS, DIM, dtype="float64").tables,
        },
        {
            "NumPy, float32 throughout": lambda: with_numpy(np.float32),
            "pecli --recipe float32": pecli.Sinusoidal(ROWS, DIM, recipe="float32").tables,
        },
    ]
    return [row for works in pairs for row in against_first(best(works, turns), of_first=True)]


def alibi(turns: int) -> list[Row]:
    scheme = pecli.Alibi(32, 2048)
    source = scheme.tables()["bias"]
    target = np.empty_like(source)
    works: dict[str, Work] = {
        "pecli alibi, 32 × 2048 × 2048": scheme.tables,
        "memcpy of the same bytes ": lambda: np.copyto(target, source),
    }
    return against_first(best(works, turns))


def to_disk(turns: int, folder: Path) -> list[Row]:
    table = pecli.Sinusoidal(ROWS, DIM).tables()["pe"]

    def save_and_sync() -> None:
        with open(folder / "ready.npy", "wb") as file:
            np.save(file, table)
            file.flush()
            os.fsync(file.fileno())

    scheme = pecli.Sinusoidal(ROWS, DIM)
    works: dict[str, Work] = {
        "pecli.save to .npy, made and synced": lambda: pecli.save(folder / "made.npy", scheme),
        "pecli.save to .safetensors, hashed too": lambda: pecli.save(folder / "made.safetensors", scheme),
        "np.save + fsync of a ready array": save_and_sync,
    }
    return against_first(best(works, turns))
