"""Change the code in small ways, and list the changes that no test notices.

    python -m tests.tools.mutate --mutants 40 --seed 7 --only pecli/files [--processes 2] [--wider tests/cli …]

In copies of the repository: a first run of the tests that mirror a folder records which of them enter which function.
A mutant is then tried with those that enter the function it changes, the quick ones first, and where it survives with
all of the wider tests. What is left is a gap in the tests, or an equivalent program: that is for people to say.
"""

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
PAIRS = "Lt LtE, Gt GtE, Eq NotEq, Is IsNot, In NotIn, And Or, Add Sub"
OPPOSITES: dict[Any, Any] = {}
for one, other in ([getattr(ast, name) for name in pair.split()] for pair in PAIRS.split(",")):
    OPPOSITES |= {one: other, other: one}
PROCESS = "a process of its own"
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin"]
SLOWER = 10
"""How many times longer than when they were recorded tests may take, on a machine that does other things, too."""


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

    @property
    def mirror(self) -> str:
        """The folder of tests that mirrors its folder, or the nearest one above that there is."""
        folder = Path("tests", *Path(self.file).parts[1:-1])
        return next(str(each) for each in (folder, *folder.parents) if (ROOT / each).is_dir())

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
    """A plugin of pytest: which functions a test that passes enters, whether it starts processes, and its CPU time."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.records: dict[str, tuple[float, list[str]]] = {}
        self.entered: set[str] = set()

    def trace(self, frame: Any, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename.startswith(f"{ROOT}/pecli/"):
            self.entered.add(f"{code.co_filename.removeprefix(f'{ROOT}/')}:{code.co_firstlineno}")
        elif code.co_name == "_execute_child":
            self.entered.add(PROCESS)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.entered = set()
        before = sum(os.times()[:4])
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        yield
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        self.records[item.nodeid] = sum(os.times()[:4]) - before, sorted(self.entered)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.entered.clear()

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.path.write_text(json.dumps(self.records), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if path := os.environ.get("MUTATE_RECORDS"):
        config.pluginmanager.register(Recorder(path))


def environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PECLI_THREADS": "2"}


class Tests:
    """The tests of a folder, by the functions that they enter."""

    def __init__(self, tree: Path, folder: str) -> None:
        path = tree / "records"
        words = [*PYTEST, "-p", "tests.tools.mutate", folder]
        subprocess.run(words, cwd=tree, env={**environment(tree), "MUTATE_RECORDS": str(path)})
        records = json.loads(path.read_text(encoding="utf-8"))
        self.seconds = {name: seconds for name, (seconds, _) in records.items()}
        self.entering: dict[str, set[str]] = defaultdict(set)
        for name, (_, places) in records.items():
            for place in places:
                self.entering[place].add(name)
                self.entering[place.rpartition(":")[0]].add(name)

    def of(self, mutant: Mutant) -> list[str]:
        """Those that enter its function, or any of its file where it is outside of all; the likeliest first."""
        names = self.entering[f"{mutant.file}:{mutant.function}" if mutant.function else mutant.file]
        if not names or mutant.file.startswith(("pecli/cli", "pecli/__")):
            names = names | self.entering[PROCESS]
        own = f"/test_{Path(mutant.file).stem}.py"
        return sorted(names, key=lambda name: (own not in name, self.seconds[name]))


def failing(tree: Path, tests: list[str], seconds: float) -> str:
    (tree / "names").write_text("\n".join(tests), encoding="utf-8")
    settings: Any = {"cwd": tree, "env": environment(tree), "capture_output": True, "text": True}
    try:
        done = subprocess.run([*PYTEST, "-x", "@names"], **settings, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "the clock"
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    return "" if done.returncode == 0 else failed[0] if failed else "an error"


def killer(mutant: Mutant, tree: Path, tests: Tests, wider: list[str]) -> str:
    path = tree / mutant.file
    source = path.read_bytes()
    write(path, source[: mutant.start] + mutant.text.encode() + source[mutant.end :])
    try:
        names = tests.of(mutant)
        by = failing(tree, names, 120 + SLOWER * sum(tests.seconds[name] for name in names)) if names else ""
        return by or (failing(tree, wider, 3600) if wider else "")
    finally:
        write(path, source)


def write(path: Path, source: bytes) -> None:
    """Source whose bytecode is not mistaken for that of a mutant of the same size and second."""
    path.write_bytes(source)
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def chosen(only: str, count: int, seed: int) -> list[Mutant]:
    lines: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for mutant in (mutant for path in sorted(ROOT.glob("pecli/**/*.py")) for mutant in mutants_of(path)):
        if mutant.file.startswith(only):
            lines[mutant.file, mutant.line].append(mutant)
    rng = random.Random(seed)
    return [rng.choice(lines[line]) for line in rng.sample([*lines], min(count, len(lines)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="pecli", help="mutate files whose path starts with this")
    parser.add_argument("--wider", nargs="*", default=["tests"], help="what survivors of their folder are tried with")
    options = parser.parse_args()
    mutants = chosen(options.only, options.mutants, options.seed)
    tests: dict[str, Tests] = {}
    trees: SimpleQueue[Path] = SimpleQueue()

    def survives(mutant: Mutant) -> bool:
        tree = trees.get()
        by = killer(mutant, tree, tests[mutant.mirror], options.wider)
        trees.put(tree)
        print(f"{mutant}  {f'killed by {by}' if by else 'SURVIVED'}", flush=True)
        return not by

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.processes) as pool:
        for k in range(options.processes):
            ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
            trees.put(tree := Path(shutil.copytree(ROOT, Path(folder) / str(k), ignore=ignored)))
        tests |= {mirror: Tests(tree, mirror) for mirror in sorted({mutant.mirror for mutant in mutants})}
        survivors = [mutant for mutant, lives in zip(mutants, pool.map(survives, mutants), strict=True) if lives]
    print(f"{len(survivors)} of {len(mutants)} mutants survived:", *sorted(map(str, survivors)), sep="\n")


if __name__ == "__main__":
    main()
