"""Damaged golden suites: whatever is wrong with one, the command says so in one line.

`python -m tests.tools.damage_golden [COUNT [SEED]]` writes a small suite, damages its index or one
of its cases at random, checks the suite and a port's answers to it, and reports every outcome that
is not a verdict (exit 0 or 1) or a file's error in one line (exit 3).
"""

import copy
import hashlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pecli.golden import write
from pecli.golden.suite_index import INDEX

CASES = (
    "table-dim-2",
    "frequencies-default",
    "rotate-interleaved",
    "t5-encoder",
    "mistake-swapped-functions",
)
VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, 2**70, 10**400, float("nan"), "", "x", "nan", "../x", "a" * 100_000),
    *([], {}, [[]], [1], {"a": 1}, ["x", 1], "index.json", "rope", "parameter"),
]
"""What takes the place of something in the JSON of a suite."""
MAX_LINE = 1200  # letters; the command cuts longer lines


class Suite(NamedTuple):
    """The files of a suite in memory: its index, and its cases by file name."""

    index: Any
    cases: dict[str, Any]

    def save(self, folder: Path, *, digests: bool) -> None:
        """Write the suite; with `digests`, the index has the sha256 of the cases as they are."""
        index = copy.deepcopy(self.index)
        for file, value in self.cases.items():
            data = json.dumps(value).encode()
            (folder / file).write_bytes(data)
            if digests:
                _set_digest(index, file, hashlib.sha256(data).hexdigest())
        (folder / INDEX).write_text(json.dumps(index))


def _set_digest(index: Any, file: str, digest: str) -> None:
    if not isinstance(index, dict) or not isinstance(index.get("cases"), list):
        return
    for entry in index["cases"]:
        files = entry.get("files") if isinstance(entry, dict) else None
        if isinstance(files, dict) and file in files:
            files[file] = digest


def small_suite(folder: Path) -> Suite:
    """Return some cases of the suite that `pecli golden` writes."""
    write(str(folder))
    index = json.loads((folder / INDEX).read_text())
    index["cases"] = [entry for entry in index["cases"] if entry["name"] in CASES]
    files = [file for entry in index["cases"] for file in entry["files"]]
    return Suite(index, {file: json.loads((folder / file).read_text()) for file in files})


def write_answers(path: Path) -> None:
    """Write a port's answers to two of the cases, both right."""
    frequencies = 10000.0 ** (-np.arange(16) / 16)
    factor = np.ones(())
    answers = {"frequencies-default.inv_freq": frequencies}
    np.savez(path, **answers, **{"frequencies-default.attention_factor": factor})


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container in nested JSON with every key or index of it."""
    found = []
    if isinstance(value, dict):
        found += [(value, key) for key in value]
    elif isinstance(value, list):
        found += [(value, number) for number in range(min(len(value), 20))]
    for container, key in list(found):
        found += places(container[key])
    return found


def change(value: Any, rng: random.Random) -> None:
    """Replace, remove or add something, somewhere."""
    container, key = rng.choice(places(value))
    action = rng.choice(("replace", "replace", "replace", "remove", "add"))
    if action == "replace":
        container[key] = copy.deepcopy(rng.choice(VALUES))
    elif action == "remove":
        del container[key]
    elif isinstance(container, dict):
        container[rng.choice(("more", "positions", "offset", "settings", "edits"))] = rng.choice(
            VALUES
        )
    else:
        container.append(rng.choice(VALUES))


def damage_bytes(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    return rng.choice(
        (
            data[:place],
            data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :],
            data[:place]
            + rng.choice((b"[" * 5000, b"\xff", b"\0", b'"', b"}", b"9" * 5000))
            + data[place:],
        )
    )


def damage(suite: Suite, folder: Path, rng: random.Random) -> None:
    """Write a damaged copy of a suite."""
    damaged = copy.deepcopy(suite)
    kind = rng.choice(("index", "index", "index", "case", "case", "index bytes", "case bytes"))
    if kind == "index":
        for _ in range(rng.randint(1, 2)):
            change(damaged.index, rng)
    elif kind == "case":
        change(damaged.cases[rng.choice(sorted(damaged.cases))], rng)
    damaged.save(folder, digests=rng.random() < 0.8)
    if kind.endswith("bytes"):
        file = INDEX if kind.startswith("index") else rng.choice(sorted(damaged.cases))
        data = damage_bytes((folder / file).read_bytes(), rng)
        (folder / file).write_bytes(data)


class Outcome(NamedTuple):
    code: int
    err: str


Run = Callable[[list[str]], Outcome]


def problem_of(outcome: Outcome) -> str:
    """Return what is wrong with an outcome; nothing if it is a verdict or an error in one line."""
    if outcome.code not in (0, 1, 3):
        return f"exit {outcome.code}: {outcome.err[:300]}"
    lines = outcome.err.splitlines()
    if outcome.code == 3 and len(lines) > len(CASES) + 1:
        return f"{len(lines)} lines: {outcome.err[:300]}"
    if any(len(line) > MAX_LINE for line in lines):
        return f"a line of {max(map(len, lines))} letters: {outcome.err[:300]}"
    return ""


def campaign(suite: Suite, root: Path, count: int, seed: int, run: Run) -> list[str]:
    """Damage a suite `count` times and return what went wrong."""
    answers = root / "answers.npz"
    write_answers(answers)
    problems = []
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        folder = root / f"suite{number}"
        folder.mkdir()
        damage(suite, folder, rng)
        for words in (["verify", str(folder)], ["verify", "--golden", str(folder), str(answers)]):
            problem = problem_of(run(words))
            if problem:
                problems.append(f"{seed}/{number} {words[1]}: {problem}")
    return problems


def run_command(words: list[str]) -> Outcome:
    """Run a command as a process of its own."""
    command = [sys.executable, "-m", "pecli", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return Outcome(done.returncode, done.stderr)


def main(count: int = 100, seed: int = 0) -> int:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "whole").mkdir()
        suite = small_suite(root / "whole")
        failures = campaign(suite, root, count, seed, run_command)
    print(*failures, f"{count} damaged suites, {len(failures)} failures", sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
