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
from multiprocessing import get_context

from tests.tools import attack, sweep_exactness, sweep_identify

SWEEPS = {
    "exactness": sweep_exactness.attempt,
    "identify": sweep_identify.attempt,
    "verdicts": attack.verdict,
    "searches": attack.search,
}
"""Functions of a seed, which return the kind of its case and what is wrong with it."""
MAX_LOST = 0.005


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
        for seed, (kind, problem) in zip(seeds, pool.imap(SWEEPS[options.sweep], seeds, chunksize=4), strict=True):
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
