"""Damaged golden suites: whatever is wrong with one, the command says so in one line.

A small suite is written, its index or one of its cases is damaged at random, and the suite and a
port's answers to it are checked. Every outcome must be a verdict (exit 0 or 1) or a file's error in
one line (exit 3).
"""

import copy
import hashlib
import json
import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pecli.golden import write
from pecli.golden.suite_index import INDEX
from tests.tools.campaigns import Result
from tests.tools.campaigns.answers import Answer, answer_to

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


@cache
def suite_of_process() -> Suite:
    """Return the cases, made once for all parts of a campaign in this process."""
    with tempfile.TemporaryDirectory() as folder:
        return small_suite(Path(folder))


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


def problem_of(answer: Answer) -> str:
    """Return what is wrong with an answer; nothing if it is a verdict or an error in one line."""
    if answer.code not in (0, 1, 3):
        return f"exit {answer.code}: {answer.error[:300]}"
    lines = answer.error.splitlines()
    if answer.code == 3 and len(lines) > len(CASES) + 1:
        return f"{len(lines)} lines: {answer.error[:300]}"
    if any(len(line) > MAX_LINE for line in lines):
        return f"a line of {max(map(len, lines))} letters: {answer.error[:300]}"
    return ""


def attempt(numbers: Iterable[int], seed: int) -> Iterator[Result]:
    """Damage a suite per number, and yield the answers to it."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        suite = suite_of_process()
        answers = root / "answers.npz"
        write_answers(answers)
        for number in numbers:
            folder = root / f"suite{number}"
            folder.mkdir()
            damage(suite, folder, random.Random(f"{seed}/{number}"))
            yield attempt_suite(folder, answers, f"suite {seed}/{number}")
            shutil.rmtree(folder)


def attempt_suite(folder: Path, answers: Path, label: str) -> Result:
    """Check a suite, and answers to it."""
    outcomes = []
    problems = []
    for words in (["verify", str(folder)], ["verify", "--golden", str(folder), str(answers)]):
        answer = answer_to(*words)
        outcomes.append(f"exit {answer.code:d}")
        problem = problem_of(answer)
        if problem:
            problems.append(f"{words[1]}: {problem}")
    result = Result()
    result.add(label, outcomes, problems)
    return result
