"""Measure pecli with 1, 2, 4, … threads, as many as there are cores.

    python -m tests.tools.thread_bench [--turns 5] [--threads 1,2,4,8,16] [--json]

Every figure is the best of several turns. Numbers of threads take turns, so that other load of the
machine affects all alike. All works are measured with NumPy only and, if numba is installed, with
the compiled loops of the extra `fast`. Exits 1 if more threads are slower than fewer by more than
the margin. A run takes less than two minutes.
"""

import argparse
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

import pecli
from pecli.checks.statistics import profile
from pecli.engine import application
from pecli.engine.table import work_through

Work = Callable[[], object]

MARGIN = 1.1
"""A best time may be longer by this factor: that much two runs of the same program differ."""
NUMPY_ONLY = "NumPy only"
COMPILED = "compiled loops"


class Measured(NamedTuple):
    """The best time of a work by number of threads, in seconds."""

    work: str
    loops: str
    best: dict[int, float]

    def slower_counts(self) -> list[int]:
        """Return the numbers of threads that take longer than some smaller number."""
        slower = []
        fastest = math.inf
        for threads, seconds in self.best.items():
            if seconds > MARGIN * fastest:
                slower.append(threads)
            fastest = min(fastest, seconds)
        return slower

    def line(self) -> str:
        """Return the times in milliseconds as a line of a table."""
        times = "".join(f"{1000 * seconds:>9.1f}" for seconds in self.best.values())
        ratio = self.best[min(self.best)] / min(self.best.values())
        slower = ", ".join(map(str, self.slower_counts()))
        remark = f"  slower with {slower}" if slower else ""
        return f"{self.work:<34} {self.loops:<14} {times} {ratio:>8.1f}{remark}"


def works() -> dict[str, Work]:
    """Return functions to measure, by name."""
    draws = np.random.default_rng(0)
    x = draws.standard_normal((1, 32, 4096, 128)).astype(np.float32)
    target = np.empty_like(x)
    same = x.copy()
    part = x[:, :8]
    other = part * np.float32(1.001)
    rope = pecli.Rope(4096, 128)
    made = rope.tables()
    factors = (made["cos"] + 1j * made["sin"]).astype(np.complex64)
    table = pecli.Sinusoidal(65_536, 1024)
    room = np.empty((65_536, 1024), np.float32)

    def fill_room() -> None:
        tensor = table.tensors()[0]
        step = tensor.block_rows()
        starts = range(0, len(room), step)
        work_through(lambda start: tensor.fill(start, room[start : start + step]), starts)

    def rotated(layout: str) -> Work:
        return lambda: application.rotate(
            x, lambda start, stop: factors[start:stop], layout, layout, out=target
        )

    return {
        "table of 65,536 × 1,024": table.tables,
        "table, into existing memory": fill_room,
        "table, float64, 8,192 rows": pecli.Sinusoidal(8_192, 1024, dtype="float64").tables,
        "table, recipe float32, 16,384 rows": pecli.Sinusoidal(
            16_384, 1024, recipe="float32"
        ).tables,
        "rotation, interleaved": rotated("interleaved"),
        "rotation, halves": rotated("halves"),
        "apply, interleaved, to new memory": lambda: pecli.apply(x, rope, layout="interleaved"),
        "apply, halves, to new memory": lambda: pecli.apply(x, rope, layout="halves"),
        "alibi, 8 × 2,048 × 2,048": pecli.Alibi(8, 2048).tables,
        "diff of 64 MiB, equal": lambda: pecli.diff({"a": x}, {"a": same}),
        "diff of 16 MiB, all different": lambda: pecli.diff(
            {"a": part}, {"a": other}, reasons=False
        ),
        "statistics of 16 MiB": lambda: profile(part),
    }


def measure(name: str, work: Work, loops: str, counts: Sequence[int], turns: int) -> Measured:
    """Return the best time of a work with each number of threads, after one warm-up."""
    os.environ["PECLI_KERNELS"] = "1" if loops == COMPILED else "0"
    best = dict.fromkeys(counts, math.inf)
    for turn in range(turns + 1):
        for threads in counts:
            os.environ["PECLI_THREADS"] = str(threads)
            start = time.perf_counter()
            work()
            elapsed = time.perf_counter() - start
            if turn > 0:
                best[threads] = min(best[threads], elapsed)
    return Measured(name, loops, best)


def setting() -> dict[str, str | int]:
    """Return the machine and the versions of a run."""
    words: dict[str, str | int] = {
        "machine": platform.machine(),
        "cores": available_cores(),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
    }
    if find_spec("numba"):
        words["numba"] = version("numba")
    return words


def available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def numbers(text: str) -> list[int]:
    return sorted(int(word) for word in text.split(","))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=numbers, default=[1, 2, 4, 8, 16])
    parser.add_argument("--json", action="store_true", help="print JSON as well, in one line")
    options = parser.parse_args()
    counts = [count for count in options.threads if count <= available_cores()]
    kinds_of_loops = [NUMPY_ONLY, COMPILED] if find_spec("numba") else [NUMPY_ONLY]
    heads = "".join(f"{count:>9}" for count in counts)
    print(", ".join(f"{name} {value}" for name, value in setting().items()))
    print(f"{'milliseconds, by threads':<34} {'':<14} {heads}  speed-up")
    rows = []
    for loops in kinds_of_loops:
        for name, work in works().items():
            rows.append(measure(name, work, loops, counts, options.turns))
            print(rows[-1].line(), flush=True)
    if options.json:
        print(json.dumps({**setting(), "rows": [row._asdict() for row in rows]}))
    return 1 if any(row.slower_counts() for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
