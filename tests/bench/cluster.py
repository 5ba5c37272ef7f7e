"""A Dask cluster of 1, 2 and 4 processes writes one Zarr store; one worker is killed on the way.

    python tests/bench/cluster.py [GIB] [FOLDER]        20 GiB by default; the folder takes twice as much

Shown are the time of each, the largest memory of a worker, and that every chunk has the bytes of the single process.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import pecli
from pecli.distributed import save

DIM = 4096


def memory() -> float:
    """The largest resident size of this process, in MiB; unlike ru_maxrss, not that of the process it came from."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def same(one: Path, other: Path) -> bool:
    """Whether two stores have the same files with the same bytes, compared chunk by chunk."""
    names = [{str(path.relative_to(store)) for path in store.rglob("*") if path.is_file()} for store in (one, other)]
    names = [{name for name in each if not name.endswith(".partial")} for each in names]  # of a worker that was killed
    return names[0] == names[1] and all((one / name).read_bytes() == (other / name).read_bytes() for name in names[0])


def run(path: Path, scheme: pecli.Scheme, processes: int, *, kill: bool = False) -> tuple[float, float]:
    """Seconds, and the memory of the largest worker."""
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=processes, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as c,
    ):
        victim = next(iter(c.run(os.getpid).values()))
        if kill:
            threading.Timer(2, os.kill, (victim, signal.SIGKILL)).start()
        start = time.perf_counter()
        save(str(path), scheme)
        return time.perf_counter() - start, max(c.run(memory).values())


def main() -> None:
    size = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    scheme = pecli.Sinusoidal(max(1, int(size * 2**30) // (4 * DIM)), DIM)
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else ".") as name:
        alone, store = Path(name) / "alone.zarr", Path(name) / "t.zarr"
        start = time.perf_counter()
        pecli.save(alone, scheme)
        print(f"{size:g} GiB, no cluster: {time.perf_counter() - start:.1f} s, {memory():.0f} MiB", flush=True)
        for processes, kill in ((1, False), (2, False), (4, False), (4, True)):
            seconds, largest = run(store, scheme, processes, kill=kill)
            about = ", one killed on the way" if kill else ""
            equal = "same bytes" if same(alone, store) else "OTHER BYTES"
            print(
                f"{processes} processes{about}: {seconds:.1f} s, largest worker {largest:.0f} MiB, {equal}", flush=True
            )
            if kill:
                passed = pecli.verify(store).passed
                print(f"verify: {'passed' if passed else 'FAILED'}")
            shutil.rmtree(store)


if __name__ == "__main__":
    main()
