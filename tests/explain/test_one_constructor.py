"""`accepted_explanation` is the only function of the package that constructs an explanation, so that none is
claimed without comparing it with the table.

The package's source is parsed: calls of `Explanation`, and of `dataclasses.replace` with one of its
fields.
"""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import pecli
from pecli.explain.explanation import Explanation
from tests.source_trees import nodes_of, tree_of

ROOT = Path(pecli.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FIELDS = {field.name for field in fields(Explanation)}

OTHER_COPIES = {
    "checks/identify.py": "Match",
    "checks/verify/__init__.py": "Verification",
    "checks/verify/named_pairs.py": "LoadedFile",
    "explain/catalogue/scheme_parameters.py": "SchemeComputation",
    "explain/schedule_priors.py": "SchedulePrior",
    "explain/shapes.py": "SchemeTables",
    "explain/wave_readings.py": "WaveReading",
    "files/contents.py": "LoadedFile",
    "files/stated_shape.py": "LoadedFile",
    "views/check_results.py": "Verification",
}
"""Files that copy a dataclass of another name with fields that an explanation has as well."""


def calls(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Yield the calls of a function or a class, as `name(…)` or `module.name(…)`."""
    for node in nodes_of(tree, ast.Call):
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
        if called == name:
            yield node


def copies(tree: ast.Module) -> list[str]:
    """Return the calls of `dataclasses.replace` that set a field of explanations."""
    found = []
    for call in calls(tree, "replace"):
        names = {keyword.arg for keyword in call.keywords}
        if names & FIELDS:
            found.append(ast.unparse(call))
    return found


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_only_the_module_of_accept_constructs_an_explanation() -> None:
    """`accepted_explanation`, in explain/hypothesis.py, compares an explanation with the table before it makes
    one. No other file of the package may call Explanation(…), so that none is claimed without that.
    """
    candidates = [path for path in FILES if "Explanation(" in path.read_text(encoding="utf-8")]
    constructors = [named(path) for path in candidates if [*calls(tree_of(path), "Explanation")]]

    assert constructors == ["explain/hypothesis.py"]


def test_accept_is_the_only_function_that_constructs_an_explanation() -> None:
    """`accepted_explanation` compares an explanation with the table before it makes one. In the syntax tree of its
    module, no other function calls Explanation(…).
    """
    tree = tree_of(ROOT / "explain/hypothesis.py")
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    names = [node.name for node in functions if [*calls(node, "Explanation")]]

    assert names == ["accepted_explanation"]


def test_an_explanation_is_copied_only_by_its_own_methods() -> None:
    """Explanations are immutable, and a copy with other edits may lose what was measured. So only
    explanation.py may call `replace` on one; OTHER_COPIES lists the files that copy another
    dataclass with a field of the same name.
    """
    candidates = [path for path in FILES if "replace(" in path.read_text(encoding="utf-8")]
    copying = {named(path) for path in candidates if copies(tree_of(path))}

    assert copying == {"explain/explanation.py", *OTHER_COPIES}


def test_no_copy_sets_what_was_measured() -> None:
    """The methods of Explanation copy it by `replace`. None may set a measured field (residual,
    noise, compared rows), except that the residual may grow when two explanations are merged.
    """
    tree = tree_of(ROOT / "explain/explanation.py")
    measured = {"residual", "recipe_residual", "noise", "compared"}
    measured_fields_set_by = {}
    for method in ast.walk(tree):
        if isinstance(method, ast.FunctionDef):
            for call in calls(method, "replace"):
                fields_set = {keyword.arg for keyword in call.keywords}
                if fields_set & measured:
                    measured_fields_set_by[method.name] = fields_set & measured

    assert measured_fields_set_by == {"merged_with": {"residual"}}


@pytest.mark.parametrize(
    "code", ["replace(each, noise=0)", "dataclasses.replace(reason, scheme=None)"]
)
def test_a_copy_of_an_explanation_is_found_in_code(code: str) -> None:
    """`copies` returns the calls of `dataclasses.replace` that set a field which explanations have,
    such as noise or scheme. test_an_explanation_is_copied_only_by_its_own_methods relies on it.
    """
    assert copies(ast.parse(code))


@pytest.mark.parametrize("code", ["text.replace('a', 'b')", "replace(rope, base=1e4)"])
def test_other_calls_of_replace_are_no_copies_of_an_explanation(code: str) -> None:
    """A method of strings, and a copy that sets `base`, which is no field of explanations."""
    assert not copies(ast.parse(code))
