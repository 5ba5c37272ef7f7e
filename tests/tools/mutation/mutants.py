"""Small changes of the code: operators, boundaries, conditions, returned values, errors, defaults."""

import ast
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[3]
PAIRS = (
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
    (ast.And, ast.Or),
    (ast.Add, ast.Sub),
)
"""Operators that are replaced by each other."""
OPPOSITES: dict[Any, Any] = {}
for first, second in PAIRS:
    OPPOSITES[first] = second
    OPPOSITES[second] = first


class Mutant(NamedTuple):
    """One change of a file.

    Attributes:
        file: The path of the file from the root of the repository.
        line: The line of the change.
        start: The first byte that is replaced.
        end: The byte after the last one that is replaced.
        text: The new code.
        was: The old code.
        runs_late: True for code in a function. Code that runs when a module is imported, such as
            defaults, cannot be switched later.
    """

    file: str
    line: int
    start: int
    end: int
    text: str
    was: str
    runs_late: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {_in_one_line(self.was)} → {_in_one_line(self.text)}"


def _in_one_line(code: str) -> str:
    return " ".join(code.split())


class Change(NamedTuple):
    """A node of the syntax tree, and the node that replaces it."""

    old: Any
    new: Any


def changes(node: ast.AST) -> Iterator[Change]:
    """Yield the changes of one node."""
    match node:
        case ast.Compare(ops=[operator], comparators=[right]):
            yield Change(node, _with_fields(node, ops=[OPPOSITES[type(operator)]()]))
            yield from _other_constants([right])
        case ast.BoolOp(op=operator, values=values):
            yield Change(node, _with_fields(node, op=OPPOSITES[type(operator)]()))
            for index in range(len(values)):
                others = [*values[:index], *values[index + 1 :]]
                yield Change(node, _with_fields(node, values=others))
        case ast.BinOp(op=ast.Add() | ast.Sub() as operator, right=ast.Constant(value=int())):
            yield Change(node, _with_fields(node, op=OPPOSITES[type(operator)]()))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield Change(node, operand)
        case ast.Return(value=ast.Constant() as returned):
            yield from _other_constants([returned])
        case ast.Return(value=ast.expr() as returned):
            yield Change(returned, ast.Constant(None))
        case ast.Raise(exc=ast.expr()):
            yield Change(node, ast.Pass())
        case ast.arguments(defaults=defaults, kw_defaults=keyword_defaults):
            yield from _other_constants([*defaults, *keyword_defaults])
        case ast.AnnAssign(value=value):
            yield from _other_constants([value])


def _with_fields(node: ast.AST, **fields: Any) -> Any:
    changed = copy(node)
    vars(changed).update(fields)
    return changed


def _other_constants(nodes: Sequence[ast.AST | None]) -> Iterator[Change]:
    """Yield the opposite of each truth value, and each number plus 1."""
    for node in nodes:
        match node:
            case ast.Constant(value=bool() as value):
                yield Change(node, ast.Constant(not value))
            case ast.Constant(value=int() | float() as value):
                yield Change(node, ast.Constant(value + 1))


class File:
    """A source file, and the mutants of its code."""

    def __init__(self, path: Path) -> None:
        self.name = path.relative_to(ROOT).as_posix()
        self.source = path.read_bytes()
        self.line_starts = [0]
        for line in self.source.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))

    def mutants(self) -> Iterator[Mutant]:
        yield from self._visit(ast.parse(self.source), runs_late=False)

    def _visit(self, node: ast.AST, *, runs_late: bool) -> Iterator[Mutant]:
        if isinstance(node, ast.JoinedStr):
            return  # Positions within f-strings are not known before Python 3.12.
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        for change in changes(node):
            yield self._mutant(change, runs_late)
        is_function = isinstance(node, (ast.FunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            is_body = is_function and not isinstance(child, ast.arguments)
            yield from self._visit(child, runs_late=runs_late or is_body)

    def _mutant(self, change: Change, runs_late: bool) -> Mutant:
        old = change.old
        start = self.line_starts[old.lineno - 1] + old.col_offset
        end = self.line_starts[old.end_lineno - 1] + old.end_col_offset
        text = ast.unparse(change.new)
        if not isinstance(change.new, ast.stmt):
            text = f"({text})"
        was = self.source[start:end].decode()
        return Mutant(self.name, old.lineno, start, end, text, was, runs_late)


def choose_mutants(only: str, count: int, seed: int) -> list[Mutant]:
    """Return random mutants of files whose paths start with `only`, at most one for each line."""
    by_line: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for path in sorted(ROOT.glob("pecli/**/*.py")):
        file = File(path)
        if file.name.startswith(only):
            for mutant in file.mutants():
                by_line[file.name, mutant.line].append(mutant)
    generator = random.Random(seed)
    lines = generator.sample([*by_line], min(count, len(by_line)))
    return [generator.choice(by_line[line]) for line in lines]
