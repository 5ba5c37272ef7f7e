"""Change the code in small ways, and list the changes that no test notices.

    python -m tests.tools.mutate --mutants 40 --seed 7 [--only pecli/files] [--processes 2]
                                 [--tests tests/files] [--shard 1/4] [--json survivors.json]

A copy of the repository holds all changes at once, each behind a switch. One run of the suite
records which tests pass which switch. Then every mutant is tried by a fork of a process that has
collected the tests already: those that pass its switch, the likeliest first, until one fails. Code
that runs only when it is imported is tried by a process of its own.

A mutant that survives is a gap in the tests, or an equivalent program: that is for people to decide.

`--processes` try mutants at the same time. `--shard 1/4` tries a quarter of the mutants, for machines
that end long commands; each shard runs the suite once. `--tests` tries a part of the suite only, which
is quick, and leaves survivors that other tests would notice. `--json` writes the survivors, each with
its line before the change.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.tools.mutation.mutants import ROOT, Mutant, choose_mutants
from tests.tools.mutation.plugin import PYTEST, SURVIVED, Record, Trial, Verdict
from tests.tools.mutation.switches import put_switches

NOT_COPIED = (".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
OTHER_FOLDERS = {
    "pecli/golden/": "tests/test_golden",
    "pecli/live/": "tests/record/",
    "pecli/checks/recorded/": "tests/record/",
}
"""Folders whose tests have other names: the beginnings of the names of their tests."""


def beginning_of_tests(file: str) -> str:
    """Return the beginning of the names of the tests of a file.

    >>> beginning_of_tests("pecli/files/npz.py")
    'tests/files/'
    >>> beginning_of_tests("pecli/layers.py"), beginning_of_tests("pecli/errors.py")
    ('tests/layers/', 'tests/test_errors.py')
    >>> beginning_of_tests("pecli/models/flags/servers/vllm.py")
    'tests/models/'
    """
    for folder, beginning in OTHER_FOLDERS.items():
        if file.startswith(folder):
            return beginning
    path = Path(file.replace("pecli/", "tests/", 1))
    own_folder = path.with_suffix("")
    if any((ROOT / own_folder).glob("test_*.py")):
        return f"{own_folder}/"
    if len(path.parts) == 2:
        return f"tests/test_{path.name}"
    folder = path.parent
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    return f"{folder}/"


class Records:
    """The tests that pass each switch, and their CPU time."""

    def __init__(self, folder: Path, mutants: Sequence[Mutant]) -> None:
        self.seconds: dict[str, float] = {}
        self.by_mutant: dict[Mutant, set[str]] = defaultdict(set)
        self.by_file: dict[str, set[str]] = defaultdict(set)
        for path in folder.glob("*/records"):
            records = json.loads(path.read_text(encoding="utf-8"))
            for name, fields in records.items():
                record = Record(*fields)
                self.seconds[name] = record.seconds
                for number in {*record.here, *record.elsewhere}:
                    self.by_mutant[mutants[number]].add(name)
                    self.by_file[mutants[number].file].add(name)

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the tests that may notice a mutant, the likeliest and fastest first.

        Code that runs when a module is imported passes its switch once, in whatever test comes
        first: all tests of its file and of the folder that mirrors it may notice it.
        """
        path = Path(mutant.file)
        mirror = beginning_of_tests(mutant.file)
        names = self.by_mutant[mutant]
        if not mutant.runs_late:
            near = {name for name in self.seconds if name.startswith(mirror)}
            names = self.by_file[mutant.file] | near
        own_module = f"/test_{path.stem}.py"

        def rank(name: str) -> tuple[bool, bool, float]:
            return own_module not in name, not name.startswith(mirror), self.seconds[name]

        return sorted(names, key=rank)

    def trials(self, mutants: Sequence[Mutant], switched: Sequence[Mutant]) -> Iterator[Trial]:
        numbers = {mutant: number for number, mutant in enumerate(mutants)}
        for mutant in switched:
            names = self.tests_of(mutant)
            seconds = sum(self.seconds[name] for name in names)
            yield Trial(numbers[mutant], names, seconds, mutant.runs_late)


def record(tree: Path, folder: Path, processes: int, tests: str) -> None:
    """Run the suite of the copy once, and record which tests pass which switch.

    Raises:
        SystemExit: If the suite did not run, which would make all mutants survivors. Tests may fail,
            in a copy without a package that they need, say; these kill no mutant.
    """
    settings = {**settings_of(tree), "MUTATE_RECORDS": str(folder)}
    suite = subprocess.run([*PYTEST, "-n", str(processes), tests], cwd=tree, env=settings)
    if suite.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"the suite did not run: pytest ended with {suite.returncode}")


def settings_of(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree), "PECLI_THREADS": "2"}


def try_mutants(
    tree: Path, folder: Path, trials: Sequence[Trial], processes: int
) -> Iterator[Verdict]:
    """Try mutants in several processes; yield their verdicts as they come."""
    reader, writer = os.pipe()
    for number in range(processes):
        jobs = folder / f"jobs{number}"
        jobs.write_text(json.dumps(trials[number::processes]), encoding="utf-8")
        scratch = folder / f"tmp{number}"
        scratch.mkdir()
        settings = {
            **settings_of(tree),
            "MUTATE_TRIALS": str(jobs),
            "MUTATE_VERDICTS": str(writer),
            "TMPDIR": str(scratch),
        }
        command = [*PYTEST, "-p", "no:xdist"]
        subprocess.Popen(
            command, cwd=tree, env=settings, stdout=subprocess.DEVNULL, pass_fds=[writer]
        )
    os.close(writer)
    with open(reader, encoding="utf-8") as verdicts:
        for line in verdicts:
            yield Verdict(*json.loads(line))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutants", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="pecli", help="mutate files whose path starts with this")
    parser.add_argument("--tests", default="tests", help="the tests that are tried")
    parser.add_argument("--shard", default="1/1", help="INDEX/COUNT: try one part of the mutants")
    parser.add_argument("--json", type=Path, help="write the survivors to this file")
    return parser.parse_args()


def shard_of(mutants: Sequence[Mutant], shard: str) -> list[Mutant]:
    """Return one part of the mutants.

    >>> shard_of([1, 2, 3, 4, 5], "2/2")
    [2, 4]
    """
    index, count = map(int, shard.split("/"))
    return [*mutants[index - 1 :: count]]


def summary(tried: int, survivors: Sequence[Mutant]) -> dict[str, object]:
    """Return the numbers, and the survivors with their lines before the change."""
    rows = []
    for mutant in survivors:
        lines = (ROOT / mutant.file).read_text(encoding="utf-8").splitlines()
        place = f"{mutant.file}:{mutant.line}"
        change = {"was": mutant.was, "became": mutant.text}
        rows.append({"place": place, "line": lines[mutant.line - 1].strip(), **change})
    return {"tried": tried, "killed": tried - len(survivors), "survivors": rows}


def main() -> None:
    options = parse_arguments()
    mutants = choose_mutants(options.only, options.mutants, options.seed)
    mutants = shard_of(mutants, options.shard)
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tree = folder / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*NOT_COPIED))
        switched = put_switches(tree, mutants)
        record(tree, folder, options.processes, options.tests)
        trials = [*Records(folder, mutants).trials(mutants, switched)]
        for verdict in try_mutants(tree, folder, trials, options.processes):
            mutant = mutants[verdict.number]
            print(mutant, verdict.outcome, sep="  ", flush=True)
            if verdict.outcome == SURVIVED:
                survivors.append(mutant)
    print(f"{len(survivors)} of {len(switched)} mutants survived:", *sorted(survivors), sep="\n")
    if options.json:
        result = summary(len(switched), sorted(survivors))
        options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
