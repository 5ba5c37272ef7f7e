"""Change the code in small ways, and list the changes that no test notices.

    python -m tests.tools.mutate --mutants 40 --seed 7 [--only pecli/files] [--processes 2]

A copy of the repository holds all changes at once, each behind a switch: `a < b` is `(a <= b if M(7) else (a < b))`.
One run of the suite records which tests pass which switch. Then every mutant is tried by a fork of a process that has
collected the tests already: those that pass its switch, the likeliest first, until one fails. Where code runs only
when it is imported, that is a process of its own. What survives is a gap in the tests, or an equivalent program: that
is for people to say.
"""

import argparse
import ast
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAIRS = "Lt LtE, Gt GtE, Eq NotEq, Is IsNot, In NotIn, And Or, Add Sub"
OPPOSITES: dict[Any, Any] = {}
for one, other in ([getattr(ast, name) for name in pair.split()] for pair in PAIRS.split(",")):
    OPPOSITES |= {one: other, other: one}
SLOWER = 10
"""How many times longer than when they were recorded tests may take, on a machine that does other things, too."""
SWITCH = """
import atexit, os
passed, chosen = set(), int(os.environ.get("MUTANT", "-1"))
def M(number):
    passed.add(number)
    return number == chosen
if folder := os.environ.get("MUTATE_PASSED"):
    atexit.register(lambda: print(*passed, file=open(f"{folder}/{os.getpid()}", "w")))
"""
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.tools.mutate"]


class Mutant(NamedTuple):
    """One change: the bytes of a file from start to end become text."""

    file: str
    line: int
    start: int
    end: int
    text: str
    was: str
    runs_late: bool  #: in a function: what runs when a module is imported, such as defaults, is not switched later

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
            yield (
                node,
                ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1),
            )


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

    def visit(node: Any, late: bool) -> Iterator[Mutant]:
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        ):
            return  # positions within f-strings are not known before Python 3.12
        for old, new in changes(node):
            begin, end = (
                starts[old.lineno - 1] + old.col_offset,
                starts[old.end_lineno - 1] + old.end_col_offset,
            )
            text = ast.unparse(new) if isinstance(new, ast.stmt) else f"({ast.unparse(new)})"
            name = path.relative_to(ROOT).as_posix()
            yield Mutant(name, old.lineno, begin, end, text, source[begin:end].decode(), late)
        is_function = isinstance(node, (ast.FunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            yield from visit(child, late or (is_function and not isinstance(child, ast.arguments)))

    yield from visit(ast.parse(source), False)


def chosen(only: str, count: int, seed: int) -> list[Mutant]:
    lines: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for mutant in (
        mutant for path in sorted(ROOT.glob("pecli/**/*.py")) for mutant in mutants_of(path)
    ):
        if mutant.file.startswith(only):
            lines[mutant.file, mutant.line].append(mutant)
    rng = random.Random(seed)
    return [rng.choice(lines[line]) for line in rng.sample([*lines], min(count, len(lines)))]


def put_switches(tree: Path, mutants: list[Mutant]) -> Iterator[Mutant]:
    """Write the changed files, and give the mutants that are no part of another."""
    (tree / "pecli/mutant_switch.py").write_text(SWITCH, encoding="utf-8")
    files: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in sorted(mutants, key=lambda each: (each.file, each.start, -each.end)):
        if not files[mutant.file] or mutant.start >= files[mutant.file][-1].end:
            files[mutant.file].append(mutant)
    for name, inside in files.items():
        source = (tree / name).read_bytes()
        body = ast.parse(source).body
        first = next(
            k for k, node in enumerate(body) if k and getattr(node, "module", "") != "__future__"
        )
        begin = sum(map(len, source.splitlines(keepends=True)[: body[first].lineno - 1]))
        for mutant in reversed(inside):
            number, was = mutants.index(mutant), source[mutant.start : mutant.end]
            text = b"(%b if M(%d) else (%b))" % (mutant.text.encode(), number, was)
            text = b"while not M(%d): %b" % (number, was) if mutant.text == "pass" else text
            source = source[: mutant.start] + text + source[mutant.end :]
        (tree / name).write_bytes(
            source[:begin] + b"from pecli.mutant_switch import M\n" + source[begin:]
        )
        yield from inside


class Recorder:
    """A plugin of pytest: which switches each test passes, in this process and in others, and its CPU time."""

    def __init__(self) -> None:
        from pecli import mutant_switch

        self.switch: Any = mutant_switch
        self.folder = Path(tempfile.mkdtemp(dir=os.environ["MUTATE_RECORDS"]))
        self.records: dict[str, Any] = {}
        self.failed: set[str] = (
            set()
        )  # by the switches themselves, such as a test that reads the source
        os.environ["MUTATE_PASSED"] = str(self.folder)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.switch.passed.clear()
        before = sum(os.times()[:4])
        yield
        seconds, elsewhere = sum(os.times()[:4]) - before, set[int]()
        for path in self.folder.iterdir():
            elsewhere.update(map(int, path.read_text(encoding="utf-8").split()))
            path.unlink()
        self.records[item.nodeid] = seconds, sorted(self.switch.passed), sorted(elsewhere)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        records = {name: record for name, record in self.records.items() if name not in self.failed}
        (self.folder / "records").write_text(json.dumps(records), encoding="utf-8")


class Trials:
    """A plugin of pytest: instead of running the tests that it collected, it tries mutants by forks of itself."""

    pipe = -1

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        path = Path(os.environ["MUTATE_TRIALS"])
        for number, said, names, seconds, runs_late in json.loads(path.read_text(encoding="utf-8")):
            os.environ["MUTANT"] = str(number)
            verdict = (
                self.by_fork(number, [items[name] for name in names], seconds)
                if runs_late
                else by_process(names)
            )
            os.write(int(os.environ["MUTATE_VERDICTS"]), f"{said}  {verdict}\n".encode())
        return True

    def by_fork(self, number: int, items: list[pytest.Item], seconds: float) -> str:
        reader, self.pipe = os.pipe()
        child = os.fork()
        if child == 0:
            self.run(number, items)
        os.close(self.pipe)
        ready, _, _ = select.select([reader], [], [], 60 + SLOWER * seconds)
        verdict = (
            (os.read(reader, 4096).decode() or "killed by its end")
            if ready
            else "killed by the clock"
        )
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        for path in Path(tempfile.gettempdir()).iterdir():
            shutil.rmtree(path, ignore_errors=True)
        return verdict

    def run(self, number: int, items: list[pytest.Item]) -> None:
        from pecli import mutant_switch

        os.setpgid(0, 0)
        mutant_switch.chosen = number  # type: ignore[attr-defined]
        try:
            for item, following in zip(items, [*items[1:], None], strict=False):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            self.end("SURVIVED")
        except BaseException as problem:
            self.end(f"killed by {type(problem).__name__}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.end(f"killed by {report.nodeid}")

    def end(self, verdict: str) -> None:
        os.write(self.pipe, verdict.encode())
        os._exit(0)


def by_process(names: list[str]) -> str:
    """What becomes of a mutant where the package is imported anew: defaults and constants of modules."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("MUTATE")}
    done = subprocess.run([*PYTEST, "-x", *names], env=settings, capture_output=True, text=True)
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    return f"killed by {[*failed, 'an error'][0]}" if done.returncode else "SURVIVED"


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("MUTATE_TRIALS"):
        config.pluginmanager.register(Trials())
    elif os.environ.get("MUTATE_RECORDS"):
        config.pluginmanager.register(Recorder())


def jobs(mutants: list[Mutant], switched: Iterable[Mutant], folder: Path) -> Iterator[list[Any]]:
    """Of each mutant its number, words, tests, their CPU time, and whether it can be switched when all is imported."""
    seconds: dict[str, float] = {}
    tests: dict[int, set[str]] = defaultdict(set)
    of_files: dict[str, set[str]] = defaultdict(set)
    for path in folder.glob("*/records"):
        for name, (cost, here, elsewhere) in json.loads(path.read_text(encoding="utf-8")).items():
            seconds[name] = cost
            for number in {*here, *elsewhere}:
                tests[number].add(name)
                of_files[mutants[number].file].add(name)
    for mutant in switched:
        number, path = mutants.index(mutant), Path(mutant.file)
        own, mirror = f"/test_{path.stem}.py", f"tests/{'/'.join(path.parts[1:-1])}/"
        near = (name for name in seconds if name.startswith((mirror, "tests/test_answers")))
        names = tests[number] if mutant.runs_late else of_files[mutant.file].union(near)
        names = sorted(
            names, key=lambda name: (own not in name, not name.startswith(mirror), seconds[name])
        )
        yield [number, str(mutant), names, sum(map(seconds.__getitem__, names)), mutant.runs_late]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mutants", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="pecli", help="mutate files whose path starts with this")
    options = parser.parse_args()
    mutants = chosen(options.only, options.mutants, options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
        tree = shutil.copytree(ROOT, folder / "tree", ignore=ignored)
        switched = [*put_switches(tree, mutants)]
        settings: Any = {**os.environ, "PYTHONPATH": str(tree), "PECLI_THREADS": "2"}
        recorded = {**settings, "MUTATE_RECORDS": name}
        subprocess.run([*PYTEST, "-n", str(options.processes)], cwd=tree, env=recorded)
        every = [*jobs(mutants, switched, folder)]
        reader, writer = os.pipe()
        for k in range(options.processes):
            path, place = folder / f"jobs{k}", folder / f"tmp{k}"
            path.write_text(json.dumps(every[k :: options.processes]), encoding="utf-8")
            place.mkdir()
            own = {
                **settings,
                "MUTATE_TRIALS": str(path),
                "MUTATE_VERDICTS": str(writer),
                "TMPDIR": str(place),
            }
            words = [*PYTEST, "-p", "no:xdist"]
            subprocess.Popen(words, cwd=tree, env=own, stdout=subprocess.DEVNULL, pass_fds=[writer])
        os.close(writer)
        survivors = []
        with open(reader, encoding="utf-8") as verdicts:
            for line in verdicts:
                print(line, end="", flush=True)
                survivors += [line.rstrip()] * line.endswith("SURVIVED\n")
    print(f"{len(survivors)} of {len(switched)} mutants survived:", *sorted(survivors), sep="\n")


if __name__ == "__main__":
    main()
