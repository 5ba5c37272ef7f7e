"""Compare many elements with the oracle: `python -m tests.tools.sweep_exactness --elements 10000000 [--seed N]`.

Not part of the test suite (ten million take about two minutes on one core). Tables of many shapes are made by the
engine, pairs of (position, wave) are drawn from them, and both the sine and the cosine must have the bits that the
oracle says. Prints a table of counts; exits 1 if a single element is misrounded.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from multiprocessing import get_context

import numpy as np

from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.sinusoidal import Sinusoidal
from tests import oracle

DTYPES = ("float32", "bfloat16", "float16")
BASES = (10000.0, 500000.0, 1e6, 100.0, 2.0, 1e20, 0.5, 150000.0, 10000.000001)
DIMS = (2, 64, 96, 127, 128, 512, 1024, 4096, 65536)
REGIONS = {"0 …": (0, 1), "… 2^20": (0, 2**20), "≈ 10^6": (10**6 - 2048, 10**6), "≈ 2^40": (2**40 - 2**21, 2**40)}
PAIRS = 2048
"""Pairs drawn from a table: 4,096 elements."""


Job = tuple[int, str, str]
"""The seed by which elements are drawn from a table, its dtype and where its positions are."""


def jobs(elements: int, seed: int) -> Iterator[Job]:
    kinds = [(dtype, region) for dtype in DTYPES for region in REGIONS]
    for k in range(-(-elements // (2 * PAIRS))):
        yield seed * 10**9 + k, *kinds[k % len(kinds)]


def run(job: Job) -> tuple[Job, int, list[str]]:
    """How many elements were compared, and the misrounded ones in words."""
    seed, dtype, region = job
    rng = np.random.default_rng(seed)
    base, dim = float(rng.choice(BASES)), int(rng.choice(DIMS))
    rows = int(rng.integers(1, 1 + min(1024, max(8, 2**21 // dim))))
    low, high = REGIONS[region]
    offset = int(rng.integers(low, max(low + 1, high - rows)))
    half = (dim + 1) // 2
    row = np.sort(rng.integers(0, rows, PAIRS))
    wave = rng.choice(rng.integers(0, half, 64), PAIRS)
    sine, cosine = _tables(rng, rows, dim, base, offset, dtype)
    sines, cosines = oracle.waves(base, Fraction(dim, 2), (row + offset).tolist(), wave.tolist())
    wrong, compared = [], 0
    for name, found, digits in (("sin", sine, sines), ("cos", cosine, cosines)):
        there = np.flatnonzero(wave < found.shape[1])
        got = oracle.bits(found[row[there], wave[there]])
        compared += len(there)
        wrong += [
            f"{dtype} base {base!r} dim {dim} position {row[k] + offset} wave {wave[k]} {name}"
            for k in there[got != digits.take(there).round(dtype)]
        ]
    return job, compared, wrong


def _tables(
    rng: np.random.Generator, rows: int, dim: int, base: float, offset: int, dtype: str
) -> tuple[np.ndarray, np.ndarray]:
    """The sines and cosines of a table, a column a wave, by one of the ways there are to have them."""
    way = rng.integers(0, 3)
    given = {"base": base, "offset": offset, "dtype": dtype}
    if dim % 2 == 0 and way == 2:
        cosine, sine, _ = Rope(rows, dim, **given).tensors()
        return sine.read(0, rows), cosine.read(0, rows)
    halves = dim % 2 == 0 and way == 1
    (table,) = Sinusoidal(rows, dim, layout="halves" if halves else "interleaved", **given).tensors()
    pe = table.read(0, rows)
    return (pe[:, : dim // 2], pe[:, dim // 2 :]) if halves else (pe[:, 0::2], pe[:, 1::2])


def main() -> int:
    parser = argparse.ArgumentParser(description="Hold many elements of the engine's tables against the oracle.")
    parser.add_argument("--elements", type=int, default=10**7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    os.environ["PECLI_THREADS"] = "1"  # the processes are the threads here
    compared: Counter[tuple[str, str]] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    shown, begin, last = 0, time.monotonic(), 0.0
    with get_context("spawn").Pool(options.processes) as pool:
        for job, count, problems in pool.imap_unordered(run, jobs(options.elements, options.seed), chunksize=4):
            compared[job[1:]] += count
            wrong[job[1:]] += len(problems)
            for problem in problems[: max(0, 20 - shown)]:
                print(f"misrounded: {problem}", file=sys.stderr)
                shown += 1
            if time.monotonic() - last > 5:
                last = time.monotonic()
                print(f"{compared.total():,} elements, {wrong.total()} wrong, {last - begin:.0f} s", file=sys.stderr)
    print(f"{'dtype':10} {'positions':10} {'elements':>12} {'misrounded':>10}")
    for key, count in sorted(compared.items()):
        print(f"{key[0]:10} {key[1]:10} {count:12,} {wrong[key]:10}")
    seconds = time.monotonic() - begin
    print(f"{'total':21} {compared.total():12,} {wrong.total():10}   seed {options.seed}, {seconds:.0f} s")
    return 1 if wrong.total() else 0


if __name__ == "__main__":
    sys.exit(main())
