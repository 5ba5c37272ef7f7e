"""Run a campaign of hostile inputs in several processes, and print what goes wrong.

    python -m tests.tools.campaign readers|texts|commands|calls|golden|faults
        [--cases 1000] [--cpu-minutes 20] [--seed 0] [--processes 16] [--json]

A case of `readers` is a damaged file of any format, one of `texts` a file of text, JSON or raw
numbers, one of `commands` a random command line, one of `calls` a wrong call of a public name, one
of `golden` a damaged golden suite, and one of `faults` a system call that fails under a command that
writes, for which strace has to be installed. What must never happen is a traceback, exit code 70, an error of several lines, a torn file or much memory.

The same seed gives the same cases, for any number of processes. `--cpu-minutes` stops when the
processes together have used so much time; the number of cases is then the most that are tried.
`--json` prints one object. Exits 1 if anything is wrong.
"""

import argparse
import importlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context

from tests.tools.campaigns import Result

Part = Callable[[], Result]
CAMPAIGNS = ("readers", "texts", "commands", "calls", "golden", "faults")
"""Modules of `tests.tools.campaigns`. All except `faults` have a function
`attempt(numbers, seed) -> Iterator[Result]`, which yields the result of one case at a time."""
PARTS_PER_PROCESS = 8
"""Some cases take longer than others, so that the parts are smaller than the share of a process."""


def attempt_part(campaign: str, numbers: range, seed: int, cpu_seconds: float) -> Result:
    """Try the cases of these numbers until the CPU time of this part is used up."""
    module = importlib.import_module(f"tests.tools.campaigns.{campaign}")
    result = Result()
    stop = time.process_time() + cpu_seconds
    for case in module.attempt(numbers, seed):
        result.merge(case)
        if time.process_time() > stop:
            break
    return result


def parts_of(options: argparse.Namespace) -> Iterator[Part]:
    """Yield the parts of a campaign."""
    if options.campaign == "faults":
        from tests.tools.campaigns import faults

        yield from faults.parts(options.cases, options.seed)
        return
    count = PARTS_PER_PROCESS * options.processes
    cpu_seconds = 60 * options.cpu_minutes / count
    for first in range(min(count, options.cases)):
        numbers = range(first, options.cases, count)
        yield partial(attempt_part, options.campaign, numbers, options.seed, cpu_seconds)


def run(parts: Iterator[Part], processes: int) -> Iterator[Result]:
    """Yield the result of each part when it is there. A process that dies ends the campaign."""
    os.environ["PECLI_THREADS"] = "1"  # The processes are the threads here.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(part) for part in parts]):
            yield future.result()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaign", choices=CAMPAIGNS)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--cpu-minutes", type=float, default=math.inf)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> int:
    options = parse_arguments()
    result = Result()
    start = time.monotonic()
    for part in run(parts_of(options), options.processes):
        result.merge(part)
        if not options.json:
            print(*part.problems, sep="\n", end="\n" if part.problems else "", flush=True)
    report = {
        "campaign": options.campaign,
        "seed": options.seed,
        "cases": result.cases,
        "outcomes": dict(result.outcomes.most_common()),
        "seconds": round(time.monotonic() - start),
        "wrong": len(result.problems),
    }
    if options.json:
        print(json.dumps({**report, "problems": sorted(result.problems)}))
    else:
        print(*(f"{key}: {value}" for key, value in report.items()), sep="\n")
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
