"""Measure pecli with 1, 2, 4, … threads, as many as there are cores, and print JSON.

    python -m tests.tools.thread_bench [--turns 5] [--threads 1,2,4,8,16] [--kernels]

Each number of threads is a process of its own, and the processes take turns, so that other load of
the machine affects all alike. The best time of each counts. Exits 1 if more threads are slower than
fewer by more than the margin.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import pecli

MARGIN = 1.1
"""A best time may be longer by this factor: that much two runs of the same program differ."""
WORKS = (
    "table",
    "float64 table",
    "recipe float32",
    "rotation",
    "apply",
    "alibi",
    "diff",
    "statistics",
)


class Slower(NamedTuple):
    """A work that took longer with more threads."""

    work: str
    threads: int
    best_with_fewer: float
    seconds: float


def works() -> dict[str, Callable[[], object]]:
    """Return functions to measure, by name."""
    from pecli.checks.statistics import profile

    draws = np.random.default_rng(0)
    x = draws.standard_normal((1, 32, 4096, 128)).astype(np.float32)
    layer = pecli.RotaryPosEmbedding(128)
    rope = pecli.Rope(4096, 128)
    same = x.copy()
    functions: tuple[Callable[[], object], ...] = (
        pecli.Sinusoidal(65_536, 1024).tables,
        pecli.Sinusoidal(65_536, 1024, dtype="float64").tables,
        pecli.Sinusoidal(65_536, 1024, recipe="float32").tables,
        lambda: layer(x),
        lambda: pecli.apply(x, rope),
        pecli.Alibi(32, 2048).tables,
        lambda: pecli.diff({"a": x}, {"a": same}),
        lambda: profile(x),
    )
    return dict(zip(WORKS, functions, strict=True))


def measure() -> dict[str, float]:
    """Return the better of two times of each work, in seconds, after one warm-up."""
    best = {}
    for name, work in works().items():
        work()
        times = []
        for _ in range(2):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        best[name] = min(times)
    return best


def measured_in_process(threads: int, kernels: bool) -> dict[str, float]:
    """Return the times of a process with so many threads."""
    environment = {**os.environ, "PECLI_THREADS": str(threads)}
    environment["PECLI_KERNELS"] = "1" if kernels else "0"
    command = [sys.executable, "-m", "tests.tools.thread_bench", "--measure"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    times: dict[str, float] = json.loads(done.stdout)
    return times


def slower_works(best: dict[int, dict[str, float]]) -> list[Slower]:
    """Return the works that are slower with some number of threads than with fewer."""
    slower = []
    for work in WORKS:
        fastest = float("inf")
        for threads in sorted(best):
            seconds = best[threads][work]
            if seconds > MARGIN * fastest:
                slower.append(Slower(work, threads, fastest, seconds))
            fastest = min(fastest, seconds)
    return slower


def numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=numbers, default=[1, 2, 4, 8, 16])
    parser.add_argument("--kernels", action="store_true", help="with the loops of the extra `fast`")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure()))
        return 0
    counts = [count for count in options.threads if count <= len(os.sched_getaffinity(0))]
    best: dict[int, dict[str, float]] = {}
    for _ in range(options.turns):
        for count in counts:
            times = measured_in_process(count, options.kernels)
            known = best.setdefault(count, times)
            for name, seconds in times.items():
                known[name] = min(known[name], seconds)
    slower = slower_works(best)
    report = {
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernels": options.kernels,
        "milliseconds": {
            work: {str(count): round(1000 * best[count][work], 1) for count in counts}
            for work in WORKS
        },
        "slower": [entry._asdict() for entry in slower],
    }
    print(json.dumps(report))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
