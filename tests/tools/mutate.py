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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
    **{ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add},
}
PROCESS = "a process of its own"
FIRST_BATCH = 40
"""Tests that are tried before all the others."""


@dataclass(frozen=True)
class Mutant:
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

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def changed(node: ast.AST, **fields: Any) -> ast.AST:
    other = deepcopy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def other_constant(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.Constant(value=bool(value)):
            return [ast.Constant(not value)]
        case ast.Constant(value=int(value) | float(value)):
            return [ast.Constant(value + 1)]
    return []


def changes(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What is replaced by what: operators, boundaries, parts of a condition, returned values, refusals, defaults."""
    match node:
        case ast.Compare(ops=[op], comparators=[right]):
            yield node, changed(node, ops=[OPERATORS[type(op)]()])
            yield from ((right, other) for other in other_constant(right))
        case ast.BoolOp(op=op, values=values):
            yield node, changed(node, op=OPERATORS[type(op)]())
            for k in range(len(values)):
                yield node, changed(node, values=[*values[:k], *values[k + 1 :]])
        case ast.BinOp(op=ast.Add() | ast.Sub() as op, right=ast.Constant(value=int())):
            yield node, changed(node, op=OPERATORS[type(op)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, operand
        case ast.Return(value=ast.Constant(value=bool(value)) as returned):
            yield returned, ast.Constant(not value)
        case ast.Return(value=ast.expr() as returned) if not isinstance(returned, ast.Constant):
            yield returned, ast.Constant(None)
        case ast.Raise(exc=ast.expr()):
            yield node, ast.Pass()
        case ast.arguments(defaults=defaults, kw_defaults=named):
            yield from ((old, new) for old in [*defaults, *named] if old for new in other_constant(old))
        case ast.AnnAssign(value=ast.expr() as value):
            yield from ((value, other) for other in other_constant(value))


def mutants_of(path: Path) -> list[Mutant]:
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []

    def visit(node: ast.AST, function: int) -> None:
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            return  # positions within f-strings are not known before Python 3.12
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            function = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
        for old, new in changes(node):
            begin, end = starts[old.lineno - 1] + old.col_offset, starts[old.end_lineno - 1] + old.end_col_offset
            text = ast.unparse(new) if isinstance(new, ast.stmt) else f"({ast.unparse(new)})"
            place = path.relative_to(ROOT).as_posix()
            found.append(Mutant(place, old.lineno, begin, end, text, source[begin:end].decode(), function))
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(ast.parse(source), 0)
    return found


class Recorder:
    """A plugin of pytest: which functions every test enters, whether it starts processes, and its CPU time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tests: dict[str, dict[str, Any]] = {}
        self.entered: set[tuple[str, int]] = set()
        self.root = f"{ROOT}{os.sep}"
        self.prefix = f"{ROOT / 'pecli'}{os.sep}"

    def trace(self, frame: Any, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(self.prefix):
            self.entered.add((code.co_filename, code.co_firstlineno))
        elif code.co_name == "_execute_child":
            self.entered.add((PROCESS, 0))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.entered = set()
        before = os.times()
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        yield
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        record = self.tests.setdefault(item.nodeid, {})
        record["seconds"] = sum(os.times()[:4]) - sum(before[:4])
        record["entered"] = sorted(f"{name.removeprefix(self.root)}:{line}" for name, line in self.entered)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = self.tests.setdefault(report.nodeid, {})
        record["passed"] = record.get("passed", True) and not report.failed

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        tests = {name: record for name, record in self.tests.items() if "entered" in record}
        (self.folder / f"{os.getpid()}.json").write_text(json.dumps(tests), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """As a plugin, `-p tests.tools.mutate`, in every worker."""
    if folder := os.environ.get("MUTATE_MAP"):
        config.pluginmanager.register(Recorder(Path(folder)))


def record_tests(path: Path, processes: int, names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "pytest", "-p", "tests.tools.mutate", "-p", "no:cacheprovider", *names]
        environment = {**os.environ, "MUTATE_MAP": folder}
        subprocess.run([*words, "-n", str(processes)], cwd=ROOT, env=environment)
        parts = [json.loads(part.read_text(encoding="utf-8")) for part in Path(folder).iterdir()]
    path.write_text(json.dumps({name: record for part in parts for name, record in part.items()}), encoding="utf-8")


class Tests:
    """The tests that pass, by the functions that they enter."""

    def __init__(self, path: Path) -> None:
        records = json.loads(path.read_text(encoding="utf-8"))
        self.seconds = {name: record["seconds"] for name, record in records.items() if record.get("passed")}
        self.of_function: dict[str, list[str]] = {}
        self.of_file: dict[str, dict[str, None]] = {}
        for name in self.seconds:
            for place in records[name]["entered"]:
                self.of_function.setdefault(place, []).append(name)
                self.of_file.setdefault(place.rpartition(":")[0], {})[name] = None

    def of(self, mutant: Mutant) -> list[str]:
        """Those that enter its function, or any of its file where it is outside of all; the likeliest first."""
        if mutant.function:
            found = self.of_function.get(f"{mutant.file}:{mutant.function}", [])
        else:
            found = [*self.of_file.get(mutant.file, ())]
        if not found or mutant.file.startswith(("pecli/cli", "pecli/__")):
            found = [*found, *self.of_file.get(PROCESS, ())]
        folder = str(Path(mutant.file).parent).replace("pecli", "tests", 1)
        mirror = f"{folder}/test_{Path(mutant.file).stem}.py"
        return sorted(
            dict.fromkeys(found),
            key=lambda name: (not name.startswith(mirror), not name.startswith(folder), self.seconds[name]),
        )


def noticed(mutant: Mutant, tree: Path, names: list[str], seconds: float) -> str:
    """Which batch of tests fails with the mutant; nothing if none does."""
    path = tree / mutant.file
    source = path.read_bytes()
    write(path, mutant.applied(source))
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PECLI_THREADS": "2"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        for batch in (names[:FIRST_BATCH], names[FIRST_BATCH:]):
            if batch:
                (tree / "names").write_text("\n".join(batch), encoding="utf-8")
                words = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "@names"]
                done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, timeout=seconds)
                if done.returncode:
                    failed = [line for line in done.stdout.decode().splitlines() if line.startswith("FAILED ")]
                    return f"killed by {failed[0].split()[1] if failed else 'an error'}"
    except subprocess.TimeoutExpired:
        return "killed by the clock"
    finally:
        write(path, source)
    return ""


def write(path: Path, source: bytes) -> None:
    """Source whose bytecode is not mistaken for that of a mutant of the same size and second."""
    path.write_bytes(source)
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="pecli", help="mutate files whose path starts with this")
    parser.add_argument("--map", type=Path, default=Path(tempfile.gettempdir()) / "pecli-tests-by-function.json")
    parser.add_argument("tests", nargs="*", help="the tests to record and to try, by default all")
    options = parser.parse_args()
    if not options.map.exists():
        record_tests(options.map, options.processes, options.tests)
    tests = Tests(options.map)
    paths = [
        path for path in sorted(ROOT.glob("pecli/**/*.py")) if str(path.relative_to(ROOT)).startswith(options.only)
    ]
    every = [mutant for path in paths for mutant in mutants_of(path)]
    lines: dict[tuple[str, int], list[Mutant]] = {}
    for mutant in every:
        lines.setdefault((mutant.file, mutant.line), []).append(mutant)
    rng = random.Random(options.seed)
    chosen = [rng.choice(lines[line]) for line in rng.sample([*lines], min(options.mutants, len(lines)))]
    trees: SimpleQueue[Path] = SimpleQueue()
    survivors: list[Mutant] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.processes) as pool:
        for k in range(options.processes):
            ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
            trees.put(Path(shutil.copytree(ROOT, Path(folder) / str(k), ignore=ignored)))

        def tried(mutant: Mutant) -> None:
            names = tests.of(mutant)
            tree = trees.get()
            result = noticed(mutant, tree, names, 60 + 4 * sum(tests.seconds[name] for name in names))
            trees.put(tree)
            if not result:
                survivors.append(mutant)
            print(f"{mutant}  {result or f'SURVIVED {len(names)} tests'}", flush=True)

        list(pool.map(tried, chosen))
    print(f"{len(chosen)} of {len(every)} mutants, {len(survivors)} survived:")
    print(*sorted(map(str, survivors)), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
