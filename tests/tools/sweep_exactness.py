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
from fractions import Fraction
from itertools import product
from multiprocessing import get_context

import numpy as np

import pecli
from tests import oracle

DTYPES = ("float32", "bfloat16", "float16")
BASES = (10000.0, 500000.0, 1e6, 100.0, 2.0, 1e20, 0.5, 150000.0, 10000.000001)
DIMS = (2, 64, 96, 127, 128, 512, 1024, 4096, 65536)
REGIONS = {"0 …": (0, 1), "… 2^20": (0, 2**20), "≈ 10^6": (10**6 - 2048, 10**6), "≈ 2^40": (2**40 - 2**21, 2**40)}
PAIRS = 2048
"""Pairs drawn from a table: 4,096 elements."""
MAX_SHOWN = 20
Job = tuple[int, tuple[str, str]]
"""The seed by which elements are drawn from a table; its dtype and where its positions are."""


def run(job: Job) -> tuple[Job, int, list[str]]:
    """How many elements were compared, and the misrounded ones in words."""
    seed, (dtype, region) = job
    rng = np.random.default_rng(seed)
    base, dim = float(rng.choice(BASES)), int(rng.choice(DIMS))
    rows = int(rng.integers(1, 1 + min(1024, max(8, 2**21 // dim))))
    low, high = REGIONS[region]
    offset = int(rng.integers(low, max(low + 1, high - rows)))
    row = np.sort(rng.integers(0, rows, PAIRS))
    wave = rng.choice(rng.integers(0, (dim + 1) // 2, 64), PAIRS)
    given = {"base": base, "offset": offset, "dtype": dtype}
    way = rng.choice(["rope", "halves", "interleaved"]) if dim % 2 == 0 else "interleaved"
    if way == "rope":
        made = pecli.Rope(rows, dim, **given).tables()
        tables = {"sin": made["sin"], "cos": made["cos"]}
    else:
        pe = pecli.Sinusoidal(rows, dim, layout=way, **given).tables()["pe"]
        first, second = (pe[:, : dim // 2], pe[:, dim // 2 :]) if way == "halves" else (pe[:, 0::2], pe[:, 1::2])
        tables = {"sin": first, "cos": second}
    right = oracle.waves(base, Fraction(dim, 2), (row + offset).tolist(), wave.tolist())
    wrong, compared = [], 0
    for (name, table), digits in zip(tables.items(), right, strict=True):
        there = np.flatnonzero(wave < table.shape[1])
        compared += len(there)
        differs = oracle.bits(table[row[there], wave[there]]) != digits.take(there).round(dtype)
        place = f"{dtype} base {base!r} dim {dim} {name}"
        wrong += [f"{place} position {row[k] + offset} wave {wave[k]}" for k in there[differs]]
    return job, compared, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=10**7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    os.environ["PECLI_THREADS"] = "1"  # the processes are the threads here
    kinds = list(product(DTYPES, REGIONS))
    count = -(-options.elements // (2 * PAIRS))
    jobs = [(options.seed * 10**9 + k, kinds[k % len(kinds)]) for k in range(count)]
    compared: Counter[tuple[str, str]] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    begin = time.monotonic()
    with get_context("spawn").Pool(options.processes) as pool:
        for (_, kind), elements, problems in pool.imap_unordered(run, jobs, chunksize=4):
            for problem in problems[: max(0, MAX_SHOWN - wrong.total())]:
                print(f"misrounded: {problem}", file=sys.stderr)
            compared[kind] += elements
            wrong[kind] += len(problems)
    print(f"{'dtype':10} {'positions':10} {'elements':>12} {'misrounded':>10}")
    for kind, elements in sorted(compared.items()):
        print(f"{kind[0]:10} {kind[1]:10} {elements:12,} {wrong[kind]:10}")
    seconds = time.monotonic() - begin
    print(f"{'total':21} {compared.total():12,} {wrong.total():10}   seed {options.seed}, {seconds:.0f} s")
    return 1 if wrong.total() else 0


if __name__ == "__main__":
    sys.exit(main())
