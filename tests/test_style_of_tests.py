"""Rules for the tests themselves: ordinary code, one fact per assertion, the program's own limits.

The rules are the project's own, as functions over syntax trees. The examples below show what each
one forbids.
"""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Rule = Callable[[list[ast.AST]], Iterator[ast.AST]]
"""Yields the nodes of a module that break a rule."""

TESTS = Path(__file__).parent
TOOLS = TESTS / "tools"
MODULES = {
    path.relative_to(TESTS).as_posix(): path
    for path in sorted(TESTS.rglob("*.py"))
    if TOOLS not in path.parents
}
FIXTURES = [name for name in MODULES if name.endswith("conftest.py")]
CLOCKS = {"time", "perf_counter", "monotonic", "process_time"}


def evaluated_text(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """Yield calls of `eval` and `exec`: no formatter, type checker or debugger sees such code."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id="eval" | "exec")):
                yield node


def assertions_of_several_facts(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """Yield `assert (a, b) == (c, d)` and `assert f(x) == ("text", None)`.

    They fail with `(2, False) != (2, True)` instead of the values that explain it. Tuples of like
    things, such as shapes and names, are one fact.
    """
    for assertion in nodes:
        if not isinstance(assertion, ast.Assert):
            continue
        for node in ast.walk(assertion.test):
            if isinstance(node, ast.Compare) and has_unlike_facts(node):
                yield assertion


def has_unlike_facts(comparison: ast.Compare) -> bool:
    if not isinstance(comparison.ops[0], (ast.Eq, ast.NotEq, ast.In)):
        return False
    if isinstance(comparison.left, ast.Tuple) and not all(map(is_number, comparison.left.elts)):
        return True
    return any(is_of_unlike_constants(side) for side in comparison.comparators)


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def is_of_unlike_constants(node: ast.AST) -> bool:
    """Return True for `("learned", 577)` and `("a", None)`, but not for `(1, 2.5)`."""
    if not isinstance(node, ast.Tuple):
        return False
    kinds = set()
    for element in node.elts:
        if isinstance(element, ast.Constant):
            kinds.add("number" if is_number(element) else type(element.value))
    return len(kinds) > 1


def assertions_of_time(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """Yield assertions that read a clock: they fail when the machine is busy."""
    for assertion in nodes:
        if isinstance(assertion, ast.Assert):
            for node in ast.walk(assertion):
                if isinstance(node, ast.Attribute) and node.attr in CLOCKS:
                    yield assertion


RULES = [evaluated_text, assertions_of_several_facts, assertions_of_time]


def nodes_of(path: Path) -> list[ast.AST]:
    return [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]


@pytest.fixture(scope="module")
def places() -> dict[Rule, list[str]]:
    """Return the places that break each rule.

    A module is parsed once for all rules and then dropped: the trees of all modules would take
    more memory than all else that the tests hold.
    """
    places: dict[Rule, list[str]] = {rule: [] for rule in RULES}
    for module, path in MODULES.items():
        nodes = nodes_of(path)
        for rule in RULES:
            places[rule] += [f"{module}:{node.lineno}" for node in rule(nodes)]
    return places


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_test_module_breaks_a_rule_for_tests(places: dict[Rule, list[str]], rule: Rule) -> None:
    """A rule, such as «no eval», yields the places in a syntax tree that break it. `places` has those
    of all modules below tests/ except the tools, as MODULE:LINE.
    """
    assert places[rule] == []


FORBIDDEN_EXAMPLES = {
    "exec('x = 1')": evaluated_text,
    "assert (a, b) == (c, d)": assertions_of_several_facts,
    "assert (a, b) == expected": assertions_of_several_facts,
    "assert f(x) == ('learned', 577)": assertions_of_several_facts,
    "assert x or f(x) != ('a', None)": assertions_of_several_facts,
    "assert time.monotonic() < deadline": assertions_of_time,
}
HARMLESS_CODE = """
assert table.shape == (4, 2.0)
assert names == ("cos", "sin")
assert (3, 4) in shapes
assert f(x) == 1
model.eval()
"""


@pytest.mark.parametrize("code", FORBIDDEN_EXAMPLES)
def test_a_rule_for_tests_sees_what_it_forbids(code: str) -> None:
    """FORBIDDEN_EXAMPLES has a rule for each line of code, which must find one offence in it."""
    rule = FORBIDDEN_EXAMPLES[code]
    nodes = [*ast.walk(ast.parse(code))]

    assert len([*rule(nodes)]) == 1


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_rule_for_tests_allows_ordinary_assertions(rule: Rule) -> None:
    """HARMLESS_CODE has shapes and names as tuples, which are one fact, and PyTorch's
    `model.eval()`.
    """
    nodes = [*ast.walk(ast.parse(HARMLESS_CODE))]
    assert [*rule(nodes)] == []


def test_rows_of_tests_are_not_hidden_in_text_files() -> None:
    """The project once had its expected results in files answers.txt, in rows that tests evaluated.
    Neither the formatter nor the type checker saw them, so no folder of tests may have one.
    """
    assert [*TESTS.rglob("answers.txt")] == []


@pytest.mark.parametrize("module", FIXTURES)
def test_fixtures_change_nothing_of_the_program(module: str) -> None:
    """Tests run the program that users run: no conftest.py may patch a limit of pecli for all of them
    (a call of `monkeypatch.setattr` with «pecli» in its first argument).
    """
    patched = []
    for node in nodes_of(MODULES[module]):
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[target, *_]):
                patched.append(ast.unparse(target))

    assert not [target for target in patched if "pecli" in target]
