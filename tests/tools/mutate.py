"""Change the code in small ways, and list the changes that no test notices.

    python -m tests.tools.mutate --mutants 200 --seed 7 --processes 2

A first run of the tests records which of them enter which function (kept in --map for the next time). A mutant is then
tried with the tests that enter the function it changes, those that mirror its folder and the quick ones first. What
survives is a gap in the tests, or an equivalent program: that is for people to say.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAIRS = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn))
OPPOSITES: dict[Any, Any] = {}
for one, other in (*PAIRS, (ast.And, ast.Or), (ast.Add, ast.Sub)):
    OPPOSITES |= {one: other, other: one}
PROCESS = "a process of its own"
FIRST_BATCH = 40
"""Tests that are tried before all the others."""


class Mutant(NamedTuple):
    """One change: the bytes of a file from start to end become text."""

    file: str
    line: int
    start: int
    end: int
    text: str
    was: str
    function: int
    """The first line of the innermost function around it; 0 outside of all."""

    def __str__(self) -> str:
        was, text = (" ".join(part.split()) for part in (self.was, self.text))
        return f"{self.file}:{self.line}: {was} → {text}"


def changed(node: Any, **fields: Any) -> Any:
    other = copy(node)
    vars(other).update(fields)
    return other


def other_constants(*nodes: Any) -> Iterator[tuple[Any, Any]]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            yield node, ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)


def changes(node: ast.AST) -> Iterator[tuple[Any, Any]]:
    """What is replaced by what: operators, boundaries, parts of a condition, returned values, refusals, defaults."""
    match node:
        case ast.Compare(ops=[op], comparators=[right]):
            yield node, changed(node, ops=[OPPOSITES[type(op)]()])
            yield from other_constants(right)
        case ast.BoolOp(op=op, values=values):
            yield node, changed(node, op=OPPOSITES[type(op)]())
            for k in range(len(values)):
                yield node, changed(node, values=[*values[:k], *values[k + 1 :]])
        case ast.BinOp(op=ast.Add() | ast.Sub() as op, right=ast.Constant(value=int())):
            yield node, changed(node, op=OPPOSITES[type(op)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, operand
        case ast.Return(value=ast.Constant() as returned):
            yield from other_constants(returned)
        case ast.Return(value=ast.expr() as returned):
            yield returned, ast.Constant(None)
        case ast.Raise(exc=ast.expr()):
            yield node, ast.Pass()
        case ast.arguments(defaults=defaults, kw_defaults=named):
            yield from other_constants(*defaults, *named)
        case ast.AnnAssign(value=value):
            yield from other_constants(value)


def mutants_of(path: Path) -> Iterator[Mutant]:
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def visit(node: Any, function: int) -> Iterator[Mutant]:
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            return  # positions within f-strings are not known before Python 3.12
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            function = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
        for old, new in changes(node):
            begin, end = starts[old.lineno - 1] + old.col_offset, starts[old.end_lineno - 1] + old.end_col_offset
            text = ast.unparse(new) if isinstance(new, ast.stmt) else f"({ast.unparse(new)})"
            name = path.relative_to(ROOT).as_posix()
            yield Mutant(name, old.lineno, begin, end, text, source[begin:end].decode(), function)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function)

    yield from visit(ast.parse(source), 0)


class Recorder:
    """A plugin of pytest: which functions every test enters, whether it starts processes, and its CPU time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tests: dict[str, dict[str, Any]] = defaultdict(lambda: {"passed": True})
        self.entered: set[str] = set()

    def trace(self, frame: Any, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(f"{ROOT}/pecli/"):
            self.entered.add(f"{code.co_filename.removeprefix(f'{ROOT}/')}:{code.co_firstlineno}")
        elif code.co_name == "_execute_child":
            self.entered.add(f"{PROCESS}:0")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.entered = set()
        before = os.times()
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        yield
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        seconds = sum(os.times()[:4]) - sum(before[:4])
        self.tests[item.nodeid] |= {"seconds": seconds, "entered": sorted(self.entered)}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tests[report.nodeid]["passed"] &= not report.failed

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        tests = {name: record for name, record in self.tests.items() if "entered" in record}
        (self.folder / f"{os.getpid()}.json").write_text(json.dumps(tests), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """As a plugin, `-p tests.tools.mutate`, in every worker."""
    if folder := os.environ.get("MUTATE_MAP"):
        config.pluginmanager.register(Recorder(Path(folder)))


def record_tests(path: Path, processes: int, tests: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "pytest", "-p", "tests.tools.mutate", "-p", "no:cacheprovider"]
        subprocess.run([*words, "-n", str(processes), tests], cwd=ROOT, env={**os.environ, "MUTATE_MAP": folder})
        parts = [json.loads(part.read_text(encoding="utf-8")) for part in Path(folder).iterdir()]
    path.write_text(json.dumps({name: record for part in parts for name, record in part.items()}), encoding="utf-8")


class Tests:
    """The tests that pass, by the functions that they enter."""

    def __init__(self, path: Path) -> None:
        records = json.loads(path.read_text(encoding="utf-8"))
        self.seconds = {name: record["seconds"] for name, record in records.items() if record["passed"]}
        self.entering: dict[str, dict[str, None]] = defaultdict(dict)
        for name in self.seconds:
            for place in records[name]["entered"]:
                self.entering[place][name] = self.entering[place.rpartition(":")[0]][name] = None

    def of(self, mutant: Mutant) -> list[str]:
        """Those that enter its function, or any of its file where it is outside of all; the likeliest first."""
        names = self.entering[f"{mutant.file}:{mutant.function}" if mutant.function else mutant.file]
        if not names or mutant.file.startswith(("pecli/cli", "pecli/__")):
            names = names | self.entering[PROCESS]
        folder = str(Path(mutant.file).parent).replace("pecli", "tests", 1)
        mirror = f"{folder}/test_{Path(mutant.file).stem}.py"
        return sorted(names, key=lambda name: (mirror not in name, not name.startswith(folder), self.seconds[name]))


def killer(mutant: Mutant, tree: Path, names: list[str], seconds: float) -> str:
    """The test that fails with the mutant; nothing if none does."""
    path = tree / mutant.file
    source = path.read_bytes()
    write(path, source[: mutant.start] + mutant.text.encode() + source[mutant.end :])
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PECLI_THREADS": "2"}
    words = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "@names"]
    try:
        for batch in filter(None, (names[:FIRST_BATCH], names[FIRST_BATCH:])):
            (tree / "names").write_text("\n".join(batch), encoding="utf-8")
            done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, timeout=seconds)
            if done.returncode:
                failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
                return failed[0].split()[1] if failed else "an error"
    except subprocess.TimeoutExpired:
        return "the clock"
    finally:
        write(path, source)
    return ""


def write(path: Path, source: bytes) -> None:
    """Source whose bytecode is not mistaken for that of a mutant of the same size and second."""
    path.write_bytes(source)
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="pecli", help="mutate files whose path starts with this")
    parser.add_argument("--tests", default="tests", help="the tests that are recorded: all, or those of a folder")
    parser.add_argument("--map", type=Path, default=Path(tempfile.gettempdir()) / "pecli-tests-by-function.json")
    options = parser.parse_args()
    if not options.map.exists():
        record_tests(options.map, options.processes, options.tests)
    tests = Tests(options.map)
    lines: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for path in sorted(ROOT.glob("pecli/**/*.py")):
        if path.relative_to(ROOT).as_posix().startswith(options.only):
            for mutant in mutants_of(path):
                lines[mutant.file, mutant.line].append(mutant)
    rng = random.Random(options.seed)
    chosen = [rng.choice(lines[line]) for line in rng.sample([*lines], min(options.mutants, len(lines)))]
    trees: SimpleQueue[Path] = SimpleQueue()

    def survives(mutant: Mutant) -> bool:
        names = tests.of(mutant)
        tree = trees.get()
        by = killer(mutant, tree, names, 60 + 4 * sum(tests.seconds[name] for name in names))
        trees.put(tree)
        print(f"{mutant}  {f'killed by {by}' if by else f'SURVIVED {len(names)} tests'}", flush=True)
        return not by

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.processes) as pool:
        for k in range(options.processes):
            ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
            trees.put(Path(shutil.copytree(ROOT, Path(folder) / str(k), ignore=ignored)))
        survivors = [mutant for mutant, lives in zip(chosen, pool.map(survives, chosen), strict=True) if lives]
    print(f"{len(survivors)} of {len(chosen)} mutants survived:")
    print(*sorted(map(str, survivors)), sep="\n")


if __name__ == "__main__":
    main()
