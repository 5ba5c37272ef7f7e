"""Try random cases of one kind, and print those that go wrong.

    python -m tests.tools.sweep exactness|identify|verdicts|searches|attack|unrelated|pairs|triples
        [--cases 2000] [--seed 1] [--shard 3/16] [--json]

A case of `exactness` is 4,096 elements of a random table, compared with the oracle; one of `identify`
is a table of a random scheme, which has to be identified and made again; `verdicts` and `searches`
are random dumps of right and wrong tables (tests/tools/sweeps/judging.py); one of `attack` is a table
with a planted mistake, whose reason has to come first (tests/tools/sweeps/attack.py); one of
`unrelated` is an array of which nothing may be claimed; one of `pairs` or `triples` has two or three
mistakes of the catalogue at once (tests/tools/sweeps/combinations.py). `--shard 3/16` tries the third of 16 parts,
`--json` prints one object instead of lines. Exits 1 if anything is wrong, except that `identify` may
lose one table in 200, `searches`, `attack` and `pairs` one reason in 20, and `triples` three in 20.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from typing import NamedTuple

from tests.tools.sweeps import Attempt
from tests.tools.sweeps.attack import attempt_attack
from tests.tools.sweeps.combinations import attempt_pair, attempt_triple
from tests.tools.sweeps.exactness import attempt_exactness
from tests.tools.sweeps.identification import attempt_identification
from tests.tools.sweeps.judging import attempt_search, attempt_verdict
from tests.tools.sweeps.unrelated import attempt_unrelated

SWEEPS: dict[str, Callable[[int], Attempt]] = {
    "exactness": attempt_exactness,
    "identify": attempt_identification,
    "verdicts": attempt_verdict,
    "searches": attempt_search,
    "attack": attempt_attack,
    "unrelated": attempt_unrelated,
    "pairs": attempt_pair,
    "triples": attempt_triple,
}
"""Functions of a seed that try one case."""
MAX_WRONG = {"identify": 0.005, "searches": 0.05, "attack": 0.05, "pairs": 0.05, "triples": 0.15}
"""The share of cases that may go wrong, if it is not none."""


class Shard(NamedTuple):
    """One of several parts of the cases: every `of`-th, from `number` on, which counts from 1."""

    number: int
    of: int


def shard(text: str) -> Shard:
    """Return the shard that a text such as 3/16 names."""
    number, of = map(int, text.split("/"))
    if not 1 <= number <= of:
        raise argparse.ArgumentTypeError("give the number of a part and of all parts, as in 3/16")
    return Shard(number, of)


def seeds_of(cases: int, seed: int, part: Shard) -> list[int]:
    """Return the seeds of the cases of a part."""
    return [seed * 10**9 + number for number in range(part.number - 1, cases, part.of)]


def attempts(sweep: str, seeds: list[int], processes: int) -> Iterator[tuple[int, Attempt]]:
    """Yield the seed of each case, and what came of it."""
    os.environ["PECLI_THREADS"] = "1"  # The processes are the threads here.
    with get_context("spawn").Pool(processes) as pool:
        yield from zip(seeds, pool.imap(SWEEPS[sweep], seeds, chunksize=4), strict=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sweep", choices=SWEEPS)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", type=shard, default=Shard(1, 1))
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


class Tally:
    """The cases of each kind, and what went wrong."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.failures: list[dict[str, int | str]] = []

    def add(self, seed: int, attempt: Attempt) -> None:
        self.cases[attempt.kind] += 1
        if attempt.problem:
            self.wrong[attempt.kind] += 1
            failure = {"seed": seed, "kind": attempt.kind, "problem": attempt.problem}
            self.failures.append(failure)

    def lines(self) -> Iterator[str]:
        """Yield a line per kind of case, and one for all."""
        for kind in sorted(self.cases):
            yield f"{kind:24} {self.cases[kind]:8,} cases {self.wrong[kind]:6,} wrong"
        yield f"{'together':24} {self.cases.total():8,} cases {self.wrong.total():6,} wrong"

    def as_json(self) -> dict[str, object]:
        return {
            "cases": self.cases.total(),
            "wrong": self.wrong.total(),
            "cases_by_kind": dict(self.cases),
            "wrong_by_kind": dict(self.wrong),
            "failures": self.failures,
        }


def main() -> int:
    options = parse_arguments()
    tally = Tally()
    seeds = seeds_of(options.cases, options.seed, options.shard)
    for seed, attempt in attempts(options.sweep, seeds, options.processes):
        tally.add(seed, attempt)
        if attempt.problem and not options.json:
            print(f"{seed}: {attempt.problem}", flush=True)
    if options.json:
        print(json.dumps({"sweep": options.sweep, "seed": options.seed, **tally.as_json()}))
    else:
        print("\n".join(tally.lines()))
    allowed = MAX_WRONG.get(options.sweep, 0.0) * tally.cases.total()
    return int(tally.wrong.total() > allowed)


if __name__ == "__main__":
    sys.exit(main())
