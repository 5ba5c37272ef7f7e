"""How long work takes, and how that is told."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Work = Callable[[], object]
Row = tuple[str, float, str]
"""What was done, a number, and its unit."""

PECLI = str(Path(sys.executable).with_name("pecli"))


def cpu_time() -> float:
    """Of this process and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def torch() -> Any:
    """With two threads, where it is installed."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(2)
    return torch


clock = time.perf_counter


def best(works: dict[str, Work], turns: int) -> dict[str, float]:
    """The shortest time of each, after one warm-up."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(turns + 1):
        for name, work in works.items():
            start = clock()
            work()
            if turn:
                times[name].append(clock() - start)
    return {name: min(each) for name, each in times.items()}


def run(*words: str) -> Work:
    """A command, its output thrown away."""
    return lambda: subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def against_first(times: dict[str, float], *, of_first: bool = False) -> list[Row]:
    """With `of_first` the factor is how many times longer than the first line each takes, not the other way round."""
    (first, base), *others = times.items()
    rows = [(first, base * 1000, "ms")]
    ratios = [value / base if of_first else base / value for _, value in others]
    return rows + [(name, value * 1000, f"ms  × {k:.2f}") for (name, value), k in zip(others, ratios, strict=True)]
