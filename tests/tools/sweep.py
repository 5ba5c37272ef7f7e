"""Try random cases of one kind, and print those that go wrong.

    python -m tests.tools.sweep exactness|identify|verdicts|searches [--cases 2000] [--seed 1] [--processes 2]

A case of `exactness` is 4,096 elements of a random table, compared with the oracle; one of `identify` a table of a
random scheme, which has to be found and made again; `verdicts` and `searches` are random dumps of right and wrong
tables (tests/tools/attack.py). Exits 1 if anything is wrong, with more than one table in 200 that `identify` loses.
"""

import argparse
import os
import sys
from collections import Counter
from fractions import Fraction
from multiprocessing import get_context

import numpy as np

import pecli
from tests import oracle
from tests.tools import attack, sweep_identify

DTYPES = ("float32", "bfloat16", "float16")
BASES = (10000.0, 500000.0, 1e6, 100.0, 2.0, 1e20, 0.5, 150000.0, 10000.000001)
DIMS = (2, 64, 96, 127, 128, 512, 1024, 4096, 65536)
REGIONS = {
    "0 …": (0, 1),
    "… 2^20": (0, 2**20),
    "≈ 10^6": (10**6 - 2048, 10**6),
    "≈ 2^40": (2**40 - 2**21, 2**40),
}
PAIRS = 2048


def exactness(seed: int) -> tuple[str, str]:
    rng = np.random.default_rng(seed)
    dtype, region = str(rng.choice(DTYPES)), str(rng.choice([*REGIONS]))
    base, dim = float(rng.choice(BASES)), int(rng.choice(DIMS))
    rows = int(rng.integers(1, 1 + min(1024, max(8, 2**21 // dim))))
    low, high = REGIONS[region]
    offset = int(rng.integers(low, max(low + 1, high - rows)))
    row = np.sort(rng.integers(0, rows, PAIRS))
    wave = rng.choice(rng.integers(0, (dim + 1) // 2, 64), PAIRS)
    given = {"base": base, "offset": offset, "dtype": dtype}
    way = str(rng.choice(["rope", "halves", "interleaved"])) if dim % 2 == 0 else "interleaved"
    if way == "rope":
        made = pecli.Rope(rows, dim, **given).tables()
        tables = {"sin": made["sin"], "cos": made["cos"]}
    else:
        pe = pecli.Sinusoidal(rows, dim, layout=way, **given).tables()["pe"]
        first, second = (
            (pe[:, : dim // 2], pe[:, dim // 2 :])
            if way == "halves"
            else (pe[:, 0::2], pe[:, 1::2])
        )
        tables = {"sin": first, "cos": second}
    right = oracle.waves(base, Fraction(dim, 2), (row + offset).tolist(), wave.tolist())
    wrong = []
    for (name, table), digits in zip(tables.items(), right, strict=True):
        there = np.flatnonzero(wave < table.shape[1])
        differs = oracle.bits(table[row[there], wave[there]]) != digits.take(there).round(dtype)
        wrong += [f"{name} at position {row[k] + offset}, wave {wave[k]}" for k in there[differs]]
    problem = (
        f"{len(wrong)} misrounded, base {base!r}, dim {dim}, {way}: {wrong[0]}" if wrong else ""
    )
    return f"{dtype}, {region}", problem


SWEEPS = {
    "exactness": exactness,
    "identify": sweep_identify.attempt,
    "verdicts": attack.verdict,
    "searches": attack.search,
}
"""Functions of a seed, which return the kind of its case and what is wrong with it."""
MAX_LOST = 0.005


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sweep", choices=SWEEPS)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    os.environ["PECLI_THREADS"] = "1"  # the processes are the threads here
    cases: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    seeds = [options.seed * 10**9 + k for k in range(options.cases)]
    with get_context("spawn").Pool(options.processes) as pool:
        for seed, (kind, problem) in zip(
            seeds, pool.imap(SWEEPS[options.sweep], seeds, chunksize=4), strict=True
        ):
            cases[kind] += 1
            if problem:
                wrong[kind] += 1
                print(f"{seed}: {problem}", flush=True)
    for kind in (*sorted(cases), None):
        count, failures = (cases[kind], wrong[kind]) if kind else (cases.total(), wrong.total())
        print(f"{kind or 'together':24} {count:8,} cases {failures:6,} wrong")
    return int(wrong.total() > (MAX_LOST * cases.total() if options.sweep == "identify" else 0))


if __name__ == "__main__":
    sys.exit(main())
