"""Try random cases of one kind, and print those that go wrong.

    python -m tests.tools.sweep exactness|identify|verdicts|searches [--cases 2000] [--seed 1]

A case of `exactness` is 4,096 elements of a random table, compared with the oracle; one of `identify`
is a table of a random scheme, which has to be identified and made again; `verdicts` and `searches`
are random dumps of right and wrong tables (tests/tools/sweeps/judging.py). Exits 1 if anything is
wrong, except that `identify` may lose one table in 200.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import get_context

from tests.tools.sweeps import Attempt
from tests.tools.sweeps.exactness import attempt_exactness
from tests.tools.sweeps.identification import attempt_identification
from tests.tools.sweeps.judging import attempt_search, attempt_verdict

SWEEPS: dict[str, Callable[[int], Attempt]] = {
    "exactness": attempt_exactness,
    "identify": attempt_identification,
    "verdicts": attempt_verdict,
    "searches": attempt_search,
}
"""Functions of a seed that try one case."""
MAX_WRONG = {"identify": 0.005}
"""The share of cases that may go wrong, if it is not none."""


def attempts(sweep: str, cases: int, seed: int, processes: int) -> Iterator[tuple[int, Attempt]]:
    """Yield the seed of each case, and what came of it."""
    os.environ["PECLI_THREADS"] = "1"  # The processes are the threads here.
    seeds = [seed * 10**9 + number for number in range(cases)]
    with get_context("spawn").Pool(processes) as pool:
        yield from zip(seeds, pool.imap(SWEEPS[sweep], seeds, chunksize=4), strict=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sweep", choices=SWEEPS)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    cases: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for seed, (kind, problem) in attempts(
        options.sweep, options.cases, options.seed, options.processes
    ):
        cases[kind] += 1
        if problem:
            wrong[kind] += 1
            print(f"{seed}: {problem}", flush=True)
    for kind in sorted(cases):
        print(f"{kind:24} {cases[kind]:8,} cases {wrong[kind]:6,} wrong")
    print(f"{'together':24} {cases.total():8,} cases {wrong.total():6,} wrong")
    allowed = MAX_WRONG.get(options.sweep, 0.0) * cases.total()
    return int(wrong.total() > allowed)


if __name__ == "__main__":
    sys.exit(main())
