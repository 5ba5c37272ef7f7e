"""A Dask cluster writes a Zarr store: with 1, 2 and 4 processes, each compared with the rows that one process makes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import zarr
from timing import Row

import pecli
from pecli.distributed import save

DIM = 4096


@contextmanager
def cluster(processes: int, folder: Path) -> Iterator[None]:
    """Single-threaded workers."""
    from dask.distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "dashboard_address": None, "local_directory": str(folder)}
    with LocalCluster(n_workers=processes, **options) as workers, Client(workers):
        yield


def is_right(store: Path, scheme: pecli.Scheme) -> bool:
    written = zarr.open(store, mode="r")["pe"]
    row = 0
    for block in scheme.blocks("pe"):
        if not np.array_equal(written[row : row + len(block)], block):
            return False
        row += len(block)
    return row == written.shape[0]


def scaled(folder: Path, gib: float) -> list[Row]:
    scheme = pecli.Sinusoidal(int(gib * 2**30) // (4 * DIM), DIM)
    store = folder / "small.zarr"
    rows = []
    for workers in (0, 1, 2, 4):
        if workers:
            with cluster(workers, folder):
                start = time.perf_counter()
                save(str(store), scheme)
                seconds = time.perf_counter() - start
        else:
            start = time.perf_counter()
            pecli.save(store, scheme)
            seconds = time.perf_counter() - start
        verdict = "the same table" if is_right(store, scheme) else "ANOTHER TABLE"
        label = f"{workers} processes" if workers else "no cluster, all threads"
        rows.append((f"{gib:g} GiB, {label}", seconds * 1000, f"ms  {verdict}"))
        shutil.rmtree(store)
    return rows
