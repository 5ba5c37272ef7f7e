"""A Dask cluster writes one Zarr store: with 1, 2 and 4 processes; then a large one, where a worker is killed.

    python tests/tools/bench/cluster.py [GIB] [FOLDER]        20 GiB by default

The small tables are 2 GiB. Every chunk is compared with the rows that this process makes. Those of the large table are
compared as they appear, and their blocks are given back to the disk at once (a hole is punched): its files have their
full size, and the folder needs a few GiB only.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from timing import Row

import pecli
from pecli.distributed import save
from pecli.engine.table import Table, raw_bytes, share_of_threads
from pecli.files.zarr_store import Chunk, chunks_of

DIM = 4096
SMALL = 2.0
MAX_WAITING = 256
"""Chunks, of 8 MiB each, that wait to be compared before the workers are stopped for a while."""
PUNCH_HOLE, KEEP_SIZE = 2, 1


def sized(gib: float) -> pecli.Scheme:
    return pecli.Sinusoidal(max(1, int(gib * 2**30) // (4 * DIM)), DIM)


def memory() -> int:
    """The largest resident size of this process so far, in MiB; ru_maxrss counts that of the process it came from."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) // 1024


class Checker:
    """Compares the chunks of a store with the rows that one process makes; `give_back` frees the blocks of each."""

    def __init__(self, store: Path, scheme: pecli.Scheme, *, give_back: bool = False) -> None:
        self.table: Table = scheme.single_array()
        self.store, self.give_back = store, give_back
        self.left: list[Chunk] = list(chunks_of(self.table))
        self.count, self.different = len(self.left), 0
        self.appeared = self.waiting = self.most_waiting = 0

    def path(self, chunk: Chunk) -> Path:
        return self.store.joinpath(self.table.name, "c", *map(str, chunk.place))

    def check_those_there(self, most: int | None = None) -> None:
        """Compare the chunks that have appeared since the last time, or the first of them."""
        there = [chunk for chunk in self.left if self.path(chunk).exists()]
        self.appeared = self.count - len(self.left) + len(there)
        self.waiting = len(there)
        self.most_waiting = max(self.most_waiting, self.waiting)
        for chunk in there[:most]:
            self.left.remove(chunk)
            with share_of_threads(1), open(self.path(chunk), "r+b") as file:
                self.different += file.read() != raw_bytes(self.table.read(chunk.start, chunk.stop))
                if self.give_back:
                    punch(file.fileno(), os.fstat(file.fileno()).st_size)

    def __str__(self) -> str:
        if self.left or self.different:
            return f"{len(self.left)} CHUNKS MISSING, {self.different} DIFFERENT"
        return f"all {self.count} chunks have the bytes of one process"


def punch(descriptor: int, size: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = descriptor, PUNCH_HOLE | KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(size)
    if libc.fallocate(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "this file system cannot punch holes")


def yield_to_checker() -> int:
    """Lets the process that compares chunks keep up with those that write them."""
    return os.nice(5)


@contextmanager
def cluster(processes: int, folder: Path) -> Iterator[Callable[[Callable[[], int]], list[int]]]:
    """A cluster of single-threaded workers; yields what runs a function in each."""
    import dask
    from dask.distributed import Client, LocalCluster

    dask.config.set({"distributed.worker.profile.enabled": False})  # whose history grows with time
    options = {"threads_per_worker": 1, "dashboard_address": None, "local_directory": str(folder)}
    with LocalCluster(n_workers=processes, **options) as workers, Client(workers) as client:
        yield lambda work: list(client.run(work).values())


def scaled(folder: Path, gib: float) -> list[Row]:
    """The same table by 1, 2 and 4 processes, and without a cluster."""
    scheme, store, rows = sized(gib), folder / "small.zarr", []
    for workers in (0, 1, 2, 4):
        if workers:
            with cluster(workers, folder) as in_each:
                start = time.perf_counter()
                save(str(store), scheme)
                seconds, largest = time.perf_counter() - start, in_each(memory)
        else:
            start = time.perf_counter()
            pecli.save(store, scheme)
            seconds, largest = time.perf_counter() - start, [memory()]
        checker = Checker(store, scheme)
        checker.check_those_there()
        label = f"{workers} processes" if workers else "no cluster, all threads"
        rows.append(row(f"{gib:g} GiB, {label}", seconds, max(largest), checker))
        shutil.rmtree(store)
    return rows


def row(label: str, seconds: float, largest: int, checker: Checker) -> Row:
    return label, seconds * 1000, f"ms  at most {largest} MiB a worker; {checker}"


def killed(folder: Path, gib: float, workers: int = 4) -> list[Row]:
    """A large table, written while its chunks are compared; a worker is killed when half of them are there."""
    scheme, store = sized(gib), folder / "large.zarr"
    checker, done, peaks = Checker(store, scheme, give_back=True), threading.Event(), []
    with cluster(workers, folder) as in_each:
        in_each(yield_to_checker)

        def watch() -> None:
            is_killed = False
            while not done.wait(0.05):
                checker.check_those_there(16)
                if checker.waiting > MAX_WAITING:
                    processes = in_each(os.getpid)
                    for process in processes:
                        os.kill(process, signal.SIGSTOP)
                    checker.check_those_there()
                    for process in processes:
                        os.kill(process, signal.SIGCONT)
                share = checker.appeared / checker.count
                if share >= 0.1 * (len(peaks) + 1):
                    peaks.append(in_each(memory))
                    print(f"  {share:.0%} are there: largest memory of each worker {peaks[-1]} MiB", flush=True)
                if share >= 0.5 and not is_killed:
                    os.kill(in_each(os.getpid)[0], signal.SIGKILL)
                    is_killed = True
                    print("  a worker is killed", flush=True)

        watcher = threading.Thread(target=watch)
        watcher.start()
        start = time.perf_counter()
        save(str(store), scheme)
        seconds = time.perf_counter() - start
        done.set()
        watcher.join()
        peaks.append(in_each(memory))
    checker.check_those_there()
    largest = max(max(each) for each in peaks)
    shutil.rmtree(store)
    return [row(f"{gib:g} GiB, {workers} processes, one killed", seconds, largest, checker)]


def main() -> None:
    gib = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else ".") as name:
        for label, value, unit in (*scaled(Path(name), SMALL), *killed(Path(name), gib)):
            print(f"{label:<40} {value:>9.1f} {unit}")


if __name__ == "__main__":
    main()
