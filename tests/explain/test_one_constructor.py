"""`accept` is the only constructor of explanations: no search may claim what was not compared."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import pecli
from pecli.explain.explanation import Explanation

ROOT = Path(pecli.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FIELDS = {field.name for field in fields(Explanation)}

OTHER_COPIES = {
    "checks/identify.py": "Match",
    "checks/verify/__init__.py": "Verification",
    "checks/verify/named_pairs.py": "LoadedFile",
    "explain/catalogue/scheme_parameters.py": "SchemeMaking",
    "explain/law_priors.py": "LawPrior",
    "explain/shapes.py": "Shaped",
    "explain/wave_readings.py": "WaveReading",
    "files/contents.py": "LoadedFile",
    "views/check_results.py": "Verification",
}
"""Files that copy a dataclass of another name with fields that an explanation has as well."""


def calls(code: str, name: str) -> Iterator[ast.Call]:
    """Yield the calls of a function or a class, as `name(…)` or `module.name(…)`."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call):
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
            if called == name:
                yield node


def copies(code: str) -> list[str]:
    """Return the calls of `dataclasses.replace` that set a field of explanations."""
    found = []
    for call in calls(code, "replace"):
        names = {keyword.arg for keyword in call.keywords}
        if names & FIELDS:
            found.append(ast.unparse(call))
    return found


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_only_accept_constructs_an_explanation() -> None:
    constructors = [named(path) for path in FILES if [*calls(path.read_text(), "Explanation")]]
    assert constructors == ["explain/hypothesis.py"]


def test_accept_is_the_function_that_does() -> None:
    tree = ast.parse((ROOT / "explain/hypothesis.py").read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    names = [node.name for node in functions if [*calls(ast.unparse(node), "Explanation")]]
    assert names == ["accept"]


def test_only_its_methods_copy_an_explanation() -> None:
    copying = {named(path) for path in FILES if copies(path.read_text())}
    assert copying == {"explain/explanation.py", *OTHER_COPIES}


def test_no_copy_sets_what_was_measured() -> None:
    """A residual may only grow when two explanations are merged; the noise and the rows stay."""
    tree = ast.parse((ROOT / "explain/explanation.py").read_text())
    copied = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for call in calls(ast.unparse(node), "replace"):
                copied[node.name] = {keyword.arg for keyword in call.keywords}
    measured = {"residual", "recipe_residual", "noise", "compared"}
    touching = {name: sets & measured for name, sets in copied.items() if sets & measured}
    assert touching == {"merged_with": {"residual"}}


@pytest.mark.parametrize(
    "code", ["replace(each, noise=0)", "dataclasses.replace(reason, scheme=None)"]
)
def test_a_copy_is_seen(code: str) -> None:
    assert copies(code)


@pytest.mark.parametrize("code", ["text.replace('a', 'b')", "replace(rope, base=1e4)"])
def test_other_copies_are_not(code: str) -> None:
    assert not copies(code)
