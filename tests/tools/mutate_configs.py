"""Read random mutations of configurations: nothing but errors of pecli's own may be raised.

    python -m tests.tools.mutate_configs [--count 20000] [--seed 0]

The configurations are those of tests.tools.compare_configs: presets, test data, and every known
model_type, mutated by keys and values of one another and by odd values. Defects are printed, and the
exit code is 1 if there are any.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator

from tests.tools.compare_configs import Case, Mutator, answer, make_cases

MAX_SHOWN = 10


def cases(count: int, seed: int) -> Iterator[Case]:
    """Yield mutated configurations, without keeping them in memory."""
    mutator = Mutator(make_cases(0, seed, []), random.Random(seed))
    for _ in range(count):
        yield mutator.case()


def defect_of(case: Case) -> str:
    """Return the exception that is not one of pecli's own; empty if there is none."""
    try:
        answer(case)
    except Exception as problem:  # the defects that are looked for
        return f"{type(problem).__name__}: {problem}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    defects = 0
    for case in cases(options.count, options.seed):
        defect = defect_of(case)
        if defect:
            defects += 1
            if defects <= MAX_SHOWN:
                print(f"{defect}\n    {case.label} {json.dumps(case.config)[:1000]}")
    print(f"{options.count} configurations: {defects} defects")
    sys.exit(1 if defects else 0)


if __name__ == "__main__":
    main()
