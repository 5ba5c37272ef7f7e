"""Compare two versions of pecli on random inputs: every outcome must be the same.

    python -m tests.tools.compare_versions OLD NEW [--inputs 20000] [--seed 1] [--kinds verify,diff]
    python -m tests.tools.compare_versions OLD NEW --only verify:1000000123

OLD and NEW are checkouts, each with its `.venv` (the running Python is used if there is none). A
case is a random input through a public function or a command: tables of random schemes,
configurations, dumps with planted mistakes, tensors, two forms of a model, command lines. The
outcome is the bytes of arrays and files, JSON, the exit code, or the exception.

Sentences may differ: a text with blanks in it is compared only with `--with-text`, apart from
commands that reproduce a table. Each difference is printed with its input and with the words that
repeat it alone (`--only KIND:SEED`, which also shows both outcomes). Exits 1 if anything differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

TOOLS = Path(__file__).parent
WEIGHTS = {
    "scheme": 20,
    "config": 20,
    "verify": 12,
    "rotated": 6,
    "diff": 8,
    "identify": 5,
    "tensors": 8,
    "runtimes": 2,
    "extend": 4,
    "audit": 2,
    "forms": 2,
    "manifest": 2,
    "command": 9,
}
"""The share of each kind of input, in percent: fast kinds are drawn more often than slow ones."""
VERBATIM = ("command", "input", "repr")
"""Fields that are compared to the letter, although they have blanks in them."""
MAX_SHOWN = 5


@dataclass(frozen=True)
class Input:
    """A random input; its kind and seed are all that is needed to make it again."""

    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}"

    @classmethod
    def parse(cls, text: str) -> "Input":
        kind, _, seed = text.partition(":")
        return cls(kind, int(seed))


class Version:
    """A checkout, and the process in which its package computes outcomes."""

    def __init__(self, checkout: Path, configs: Path) -> None:
        self.checkout = checkout
        self.configs = configs
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        python = self.checkout / ".venv" / "bin" / "python"
        interpreter = str(python) if python.exists() else sys.executable
        settings = {
            **os.environ,
            "PYTHONPATH": f"{self.checkout}{os.pathsep}{TOOLS}",
            "PYTHONWARNINGS": "ignore",
            "PECLI_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MPLBACKEND": "agg",
            "COLUMNS": "100",
            "NO_COLOR": "1",
        }
        return subprocess.Popen(
            [interpreter, "-m", "versions.worker", str(self.configs)],
            cwd=self.configs.parent,
            env=settings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, case: Input) -> None:
        request = json.dumps({"kind": case.kind, "seed": case.seed})
        assert self.process.stdin is not None
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Return the input, described, and its outcome. A worker that died is started again."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        code = self.process.wait()
        self.process = self._start()
        return {"input": "", "outcome": {"died": f"exit code {code}"}}

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@dataclass(frozen=True)
class Comparison:
    """The outcomes of one input in both versions, and the places where they differ."""

    description: str
    old: Any
    new: Any
    differences: list[str]


def compare(case: Input, old: Version, new: Version, with_text: bool) -> Comparison:
    """Compute an input in both versions, at the same time."""
    for version in (old, new):
        version.send(case)
    before = old.receive()
    after = new.receive()
    differences = [*differing(before, after, with_text)]
    return Comparison(before["input"], before["outcome"], after["outcome"], differences)


def differing(old: Any, new: Any, with_text: bool, place: str = "") -> Iterator[str]:
    """Yield each place at which two outcomes differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            inside = f"{place}.{key}" if place else key
            yield from differing(old.get(key), new.get(key), with_text, inside)
        return
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differing(before, after, with_text, f"{place}[{index}]")
        return
    if old == new:
        return
    if not with_text and not place.endswith(VERBATIM) and is_sentence(old) and is_sentence(new):
        return
    yield f"{place}: {shortened(old)} became {shortened(new)}"


def is_sentence(value: Any) -> bool:
    return isinstance(value, str) and (" " in value or "\n" in value)


def shortened(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"


def draw_inputs(kinds: list[str], count: int, seed: int) -> Iterator[Input]:
    """Yield inputs of all kinds in turn, each kind as often as its weight."""
    random = Random(seed)
    weights = [WEIGHTS[kind] for kind in kinds]
    for number in range(count):
        (kind,) = random.choices(kinds, weights)
        yield Input(kind, seed * 10**9 + number)


def write_configs(checkout: Path, path: Path) -> None:
    """Write the configurations of a checkout's presets and test data, which cases start from."""
    presets = json.loads((checkout / "pecli/models/presets.json").read_text(encoding="utf-8"))
    configs = [preset["config"] for preset in presets.values()]
    data = checkout / "tests/models/data"
    for model in json.loads((data / "dialects.json").read_text(encoding="utf-8")):
        configs.append(model["config"])
    for line in (data / "configurations.jsonl").read_text(encoding="utf-8").splitlines():
        configs.append(json.loads(line)[1])
    path.write_text(json.dumps(configs), encoding="utf-8")


def report_progress(done: int, count: int, wrong: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done:,} of {count:,} inputs, {wrong:,} differ", end="", file=sys.stderr)


def show(case: Input, comparison: Comparison) -> None:
    print(f"\n{case}  {comparison.description}")
    for difference in comparison.differences[:MAX_SHOWN]:
        print(f"    {difference}")
    if len(comparison.differences) > MAX_SHOWN:
        print(f"    and {len(comparison.differences) - MAX_SHOWN} more")
    sys.stdout.flush()


def show_outcomes(comparison: Comparison) -> None:
    for name, outcome in (("old", comparison.old), ("new", comparison.new)):
        print(f"{name}: {json.dumps(outcome, indent=2, ensure_ascii=False)}")


def summarise(counts: Counter[str], wrong: Counter[str]) -> None:
    for kind in sorted(counts):
        print(f"{kind:12} {counts[kind]:8,} inputs {wrong[kind]:6,} differ")
    print(f"{'together':12} {counts.total():8,} inputs {wrong.total():6,} differ")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="checkout of the version to keep to")
    parser.add_argument("new", type=Path, metavar="NEW", help="checkout of the version to check")
    parser.add_argument("--inputs", type=int, default=20_000, help="number of inputs (20000)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other inputs (1)")
    parser.add_argument(
        "--kinds", default=",".join(WEIGHTS), help=f"only these, with commas: {', '.join(WEIGHTS)}"
    )
    parser.add_argument("--only", metavar="KIND:SEED", help="repeat one input, show both outcomes")
    parser.add_argument("--with-text", action="store_true", help="compare sentences as well")
    options = parser.parse_args()
    unknown = {*options.kinds.split(",")} - {*WEIGHTS}
    if unknown:
        parser.error(f"unknown kinds: {', '.join(sorted(unknown))}")
    return options


def main() -> int:
    options = parse_arguments()
    inputs = [*draw_inputs(options.kinds.split(","), options.inputs, options.seed)]
    if options.only:
        inputs = [Input.parse(options.only)]
    counts: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        configs = Path(folder) / "configs.json"
        write_configs(options.old, configs)
        old = Version(options.old.resolve(), configs)
        new = Version(options.new.resolve(), configs)
        for case in inputs:
            comparison = compare(case, old, new, options.with_text)
            if comparison.differences:
                # A search for reasons ends after two seconds of CPU, so that a busy machine may
                # find less: only what differs twice is a difference.
                comparison = compare(case, old, new, options.with_text)
            counts[case.kind] += 1
            if comparison.differences:
                wrong[case.kind] += 1
                show(case, comparison)
            if options.only:
                show_outcomes(comparison)
            report_progress(counts.total(), len(inputs), wrong.total())
        old.close()
        new.close()
    summarise(counts, wrong)
    return int(wrong.total() > 0)


if __name__ == "__main__":
    sys.exit(main())
