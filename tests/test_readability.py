"""Limits on what makes code hard to read, by folder: they hold, and they may only fall.

The rules are those of the project's style, such as one idea per statement. CEILINGS_BY_FOLDER has
the number of places that break each rule today; folders without a number have none.
"""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

import pecli
from tests.source_trees import nodes_of, tree_of

ROOT = Path(pecli.__file__).parent
FOLDERS = sorted({path.relative_to(ROOT).parts[0] for path in ROOT.rglob("*.py")})
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
QUESTION_WORDS = ("What ", "Which ", "How ", "Where ", "Whether ", "The same")
MAX_BRANCH_POINTS = 11

Rule = Callable[[ast.Module], Iterator[ast.AST]]
"""Yields the places in a module that break a rule."""


@cache
def trees(folder: str) -> dict[str, ast.Module]:
    """Return the modules of a folder, or of a file beside the folders."""
    paths = [ROOT / folder] if folder.endswith(".py") else sorted((ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): tree_of(path) for path in paths}


def branch_points(node: ast.AST) -> int:
    """Count the decisions below a node, those inside expressions included."""
    count = 0
    for child in ast.walk(node):
        match child:
            case ast.If() | ast.For() | ast.While() | ast.ExceptHandler() | ast.IfExp():
                count += 1
            case ast.BoolOp(values=values):
                count += len(values) - 1
            case ast.comprehension(ifs=conditions):
                count += 1 + len(conditions)
    return count


def crowded_functions(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield functions with more than MAX_BRANCH_POINTS branch points."""
    for node in nodes_of(tree, *FUNCTIONS):
        if branch_points(node) > MAX_BRANCH_POINTS:
            yield node


def loops_over_a_ternary(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield `for item in items if flag else ():`."""
    for node in nodes_of(tree, ast.For, ast.comprehension):
        if isinstance(node.iter, ast.IfExp):
            yield node.iter


def products_with_a_flag(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield `text * (count > 1)` and `(item,) * (not same)`."""
    for node in nodes_of(tree, ast.BinOp):
        match node:
            case ast.BinOp(
                left=ast.Constant(value=str()) | ast.JoinedStr() | ast.Tuple() | ast.List(),
                op=ast.Mult(),
                right=ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()),
            ):
                yield node


def parallel_assignments(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield `a, b = x, y`, except for exchanges: `a, b = b, a`."""
    for node in nodes_of(tree, ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                if {*map(ast.unparse, targets)} != {*map(ast.unparse, values)}:
                    yield node


def nested_ternaries(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield `a if x else b if y else c`."""
    for node in nodes_of(tree, ast.IfExp):
        ternaries = [part for part in ast.walk(node) if isinstance(part, ast.IfExp)]
        if len(ternaries) > 1:
            yield node


def comprehensions_that_do_two_things(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield comprehensions with a ternary or a walrus in them."""
    for node in nodes_of(tree, *COMPREHENSIONS):
        kinds = {type(part) for part in ast.walk(node)}
        if kinds & {ast.NamedExpr, ast.IfExp}:
            yield node


def getattr_with_a_default(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield `getattr(x, "name", default)`: the base class should have the attribute."""
    for node in nodes_of(tree, ast.Call):
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, _, _]):
                yield node


def docstrings_that_ask(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield owners of docstrings that begin with What, Which, How, Where, Whether or «The same»."""
    for node in nodes_of(tree, *DOCUMENTED):
        docstring = ast.get_docstring(node)
        if docstring is not None and docstring.startswith(QUESTION_WORDS):
            yield node


CEILINGS_BY_FOLDER: dict[Rule, dict[str, int]] = {
    crowded_functions: {},
    loops_over_a_ternary: {},
    products_with_a_flag: {},
    parallel_assignments: {"engine": 1, "views": 2},
    nested_ternaries: {},
    comprehensions_that_do_two_things: {"cli": 1, "compare": 1, "golden": 1, "views": 1},
    getattr_with_a_default: {"files": 2},
    docstrings_that_ask: {},
}
"""The places that are left in each folder; folders without a number have none."""


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("rule", CEILINGS_BY_FOLDER, ids=lambda rule: rule.__name__)
def test_no_folder_breaks_a_rule_of_style_more_often_than_before(rule: Rule, folder: str) -> None:
    """A rule of style, such as «no nested ternaries», yields the places in a syntax tree that break
    it. CEILINGS_BY_FOLDER has the number that is left per rule and folder of the package, 0 if none
    is stated; a failure lists the places as PATH:LINE.
    """
    places = [
        f"{path}:{getattr(node, 'lineno', 1)}"
        for path, tree in trees(folder).items()
        for node in rule(tree)
    ]
    assert len(places) <= CEILINGS_BY_FOLDER[rule].get(folder, 0), places


FORBIDDEN_EXAMPLES = {
    loops_over_a_ternary: "for x in items if flag else ():\n    pass",
    products_with_a_flag: "'s' * (count != 1)",
    parallel_assignments: "size, name = len(rows), 'rows'",
    nested_ternaries: "a if x else b if y else c",
    comprehensions_that_do_two_things: "[y for x in items if (y := f(x))]",
    getattr_with_a_default: "getattr(x, 'name', None)",
    docstrings_that_ask: "def f():\n    'What it is.'",
}
HARMLESS_CODE = """
for x in items:
    a, b = b, a
    c, d = pair
    text = '-' * width if x else ''
    names = [getattr(x, 'name') for x in items if x]
"""


@pytest.mark.parametrize("rule", FORBIDDEN_EXAMPLES, ids=lambda rule: rule.__name__)
def test_a_rule_of_style_sees_its_example_and_nothing_in_harmless_code(rule: Rule) -> None:
    """A rule of style yields the nodes of a syntax tree that break it: one in its line of
    FORBIDDEN_EXAMPLES, and none in HARMLESS_CODE, which has what is nearly forbidden.
    """
    example = ast.parse(FORBIDDEN_EXAMPLES[rule])
    harmless = ast.parse(HARMLESS_CODE)

    assert len([*rule(example)]) == 1
    assert [*rule(harmless)] == []


def test_branch_points_in_expressions_are_counted() -> None:
    """A comprehension with a condition, a ternary, and two boolean operators: 2 + 1 + 2 = 5."""
    code = "def f(x):\n    return [a if b else c for a in x if a and b or c]"
    assert branch_points(ast.parse(code)) == 5


def test_a_class_name_has_one_meaning() -> None:
    """Two classes of one name, in different modules of the package, would have to be distinguished
    by the module that they come from. A failure lists them with their modules.
    """
    modules_of_class: dict[str, list[str]] = {}
    for folder in FOLDERS:
        for module, tree in trees(folder).items():
            for node in nodes_of(tree, ast.ClassDef):
                modules_of_class.setdefault(node.name, []).append(module)
    ambiguous = {name: modules for name, modules in modules_of_class.items() if len(modules) > 1}

    assert ambiguous == {}


def test_a_tuned_number_of_the_search_has_one_value() -> None:
    """A limit that is 7.5 in one file and 12 in another, under one name, is two limits."""
    values_by_name: dict[str, set[str]] = {}
    for folder in ("explain", "checks", "compare"):
        for tree in trees(folder).values():
            for name, value in numeric_constants(tree):
                values_by_name.setdefault(name, set()).add(value)

    names_of_several = {name: values for name, values in values_by_name.items() if len(values) > 1}
    assert names_of_several == {}


def numeric_constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names, without a leading underscore, and the values of a module's numbers.

    >>> list(numeric_constants(ast.parse("_MAX = 1 << 16; NAME = 'x'; HALF = MAX / 2")))
    [('MAX', '1 << 16')]
    """
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id.lstrip("_")
            if name.isupper() and is_number(node.value):
                yield name, ast.unparse(node.value)


def is_number(node: ast.expr) -> bool:
    """Return True for a number such as 0.05, -6e4 or 1 << 16, False for anything with a name."""
    match node:
        case ast.Constant(value=int() | float()):
            return True
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
    return False
