"""The structure of the package: imports point down, and public names are what they claim.

The rules are the project's own, listed in FLOORS and WITHIN_ENGINE: each folder of pecli lies on a
floor and imports only its own modules and lower floors. Imports are found in the source, as
statements and by `import_module`. FRONT is pecli/__init__.py, which offers the public names from
all floors. A branch on the scheme is code that asks which scheme it has, instead of calling its
methods; numbers of exceptions may only fall.
"""

import ast
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TypeGuard, TypeVar
from zipfile import PyZipFile

import pytest

import pecli
from pecli.engine.schemes import SCHEMES, scheme_named
from tests.source_trees import nodes_of, tree_of

ROOT = Path(pecli.__file__).parent
FLOORS = [
    {"errors", "display", "notes", "package_data"},
    {"engine"},
    {"files", "layers"},
    {"compare"},
    {"explain"},
    {"models", "distributed"},
    {"tensors"},
    {"checks"},
    {"live"},
    {"views", "golden"},
    {"cli"},
    {"__main__"},
]
"""From the ground up: a folder imports what lies on floors below its own."""
MAY_IMPORT = {
    part: set().union(*FLOORS[:height]) for height, floor in enumerate(FLOORS) for part in floor
}
FRONT = "pecli"
WITHIN_ENGINE = {
    "numerics": {"numerics", "arrays"},
    "scalings": {"scalings", "numerics", "arrays", "named_values"},
    "runtimes": {"runtimes", "scalings", "numerics", "arrays", "named_values"},
    "table": {"numerics", "arrays", "thread_pool"},
}
"""Parts of the engine that a part may import. Parts without a row import everything except the
schemes; the schemes import everything.
"""

NAMES = {*SCHEMES, "layers"}
CONCRETE = {scheme_named(name).__name__ for name in NAMES}
QUESTIONS_LEFT = {
    # A configuration names its encodings, and only the rotary ones have tables.
    "pecli/models/encoding.py": 1,
    # The tables that an encoding of a configuration leads to expect.
    "pecli/checks/verify/model_candidates.py": 1,
}
"""Files that branch on the class or the name of a scheme instead of calling its methods; these
numbers may only fall.
"""

SAME_THING = """
    additive alibi edits litgpt mlc relative rope rotary
    apply audit convert diff extend golden identify positions resize runtimes verification verify
"""
"""Names that files of several folders share because they hold the same thing: a scheme, its layer,
its configuration, its application; a command, its work, its view; a project's runtime and its
dialect of configurations.
"""


def module_name(path: Path) -> str:
    return ".".join(("pecli", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    )


MODULES = {module_name(path): path for path in ROOT.rglob("*.py")}


Node = TypeVar("Node", bound=ast.AST)


def nodes(name: str, *kinds: type[Node]) -> list[Node]:
    return nodes_of(tree_of(MODULES[name]), *kinds)


@cache
def imported(name: str) -> set[str]:
    """Return the modules of pecli that a module imports by statements, those for types included."""
    found = set()
    for node in nodes(name, ast.Import):
        found |= {alias.name for alias in node.names}
    for node in nodes(name, ast.ImportFrom):
        inner = {f"{node.module}.{alias.name}" for alias in node.names}
        found |= (inner & MODULES.keys()) or {node.module}
    return (found & MODULES.keys()) - {name}


def loaded_by_name(name: str) -> set[str]:
    """Return the modules of pecli that a module may load with `import_module`."""
    loaded = set()
    for call in nodes(name, ast.Call):
        if is_call_of(call, "import_module"):
            loaded |= stated_in_texts(name) | modules_that_begin_as(call.args[0], name)
    return loaded - {name}


def stated_in_texts(name: str) -> set[str]:
    """Return the modules whose names are texts in a module, such as rows of a table of names.

    One of them may be loaded by `import_module("pecli.views.notebook")` or `import_module(TABLE[key])`.
    """
    texts = {node.value for node in nodes(name, ast.Constant) if is_text(node)}
    return texts & ({*MODULES} - {FRONT})


def modules_that_begin_as(argument: ast.expr, name: str) -> set[str]:
    """Return the modules that `import_module` may load if its argument is an f-string.

    f"pecli.cli.{command}" is all modules of that folder, and f"{__name__}.{dialect}" in the module
    pecli.models.dialects all of pecli/models/dialects. Of another argument it is the empty set.
    """
    match argument:
        case ast.JoinedStr(values=[ast.Constant(value=str(beginning)), *_]):
            pass
        case ast.JoinedStr(values=[ast.FormattedValue(value=ast.Name(id="__name__")), *_]):
            beginning = f"{name}."
        case ast.JoinedStr():
            raise AssertionError(f"{name} loads a module of an unknown folder")
        case _:
            return set()
    return {module for module in MODULES if module.startswith(beginning)}


def test_modules_loaded_by_name_are_found_in_a_table_and_by_the_beginning_of_names() -> None:
    """pecli/engine/schemes has a table of module names, pecli/cli/app.py loads f"pecli.cli.{name}",
    and pecli/models/dialects f"{__name__}.{…}". A module without `import_module` loads nothing.
    """
    assert "pecli.engine.schemes.rope" in loaded_by_name("pecli.engine.schemes")
    assert "pecli.cli.audit" in loaded_by_name("pecli.cli.app")
    assert "pecli.models.dialects.gguf" in loaded_by_name("pecli.models.dialects")
    assert loaded_by_name("pecli.engine.schemes.rope") == set()


def is_call_of(node: ast.AST, function: str) -> bool:
    return isinstance(node, ast.Call) and function in (
        getattr(node.func, "id", ""),
        getattr(node.func, "attr", ""),
    )


def is_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def place(name: str) -> str:
    return f"pecli/{MODULES[name].relative_to(ROOT).as_posix()}"


def part_of(name: str) -> str:
    return name.split(".")[1] if "." in name else "__init__"


def test_every_folder_has_a_floor() -> None:
    """FLOORS lists the folders of the package from the ground up, and a folder may import those on
    lower floors (MAY_IMPORT). A new folder must be given a floor, and one that is gone taken out.
    """
    folders = {part_of(name) for name in MODULES}
    assert folders == {"__init__", *MAY_IMPORT}


@pytest.mark.parametrize("name", sorted({*MODULES} - {FRONT}))
def test_a_module_imports_only_its_own_part_and_lower_floors(name: str) -> None:
    """A part is a folder of pecli, or a module beside the folders, and FLOORS lists them from the
    ground up: models may import compare, and compare not models. Imports by statements count, and
    those by `import_module`. The front, pecli itself, is exempt, because it imports what it offers.
    """
    part = part_of(name)
    imported_parts = {part_of(module) for module in imported(name) | loaded_by_name(name)}

    assert imported_parts <= {part, *MAY_IMPORT[part]}


def test_parts_of_the_engine_import_only_those_that_they_may() -> None:
    """Schemes may import everything else of the engine, and nothing else may import schemes.
    WITHIN_ENGINE lists parts that may import less, such as scalings.
    """
    part_of_module = {
        name: name.split(".")[2] for name in MODULES if name.startswith("pecli.engine.")
    }
    parts = {*part_of_module.values()}
    for module, part in part_of_module.items():
        imported_parts = {part_of_module[name] for name in imported(module) & {*part_of_module}}
        allowed = parts if part == "schemes" else parts - {"schemes"}
        assert imported_parts <= WITHIN_ENGINE.get(part, allowed), module


@pytest.mark.parametrize("name", sorted({*MODULES} - {FRONT}))
def test_a_registry_loads_only_modules_of_its_own_folder(name: str) -> None:
    """`import_module` is for registries, tables of modules that are loaded when they are needed. The
    modules that a file loads so must lie in its folder: any others are to be imported by statements.
    """
    folder = name if MODULES[name].stem == "__init__" else name.rpartition(".")[0]
    assert all(module.startswith(f"{folder}.") for module in loaded_by_name(name))


def test_no_file_imports_itself_by_way_of_others() -> None:
    """The imports between modules of the package, those for types included, have no cycle: removing
    modules without imports again and again leaves none. The front imports whatever it offers, and
    nothing imports it.
    """
    imports = {name: imported(name) for name in MODULES}
    assert not [name for name, needed in imports.items() if FRONT in needed]

    while free := {name for name, needed in imports.items() if not needed}:
        imports = {name: needed - free for name, needed in imports.items() if name not in free}
    in_a_cycle = {*imports}
    assert in_a_cycle == set()


def words(*parts: ast.AST | None) -> set[str]:
    """Return the names, attributes and texts in expressions."""
    found = set()
    for part in parts:
        if part is None:
            continue
        for node in ast.walk(part):
            if is_text(node):
                found.add(node.value)
            elif isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
    return found


QUESTION_KINDS = (ast.Call, ast.MatchClass, ast.MatchValue, ast.Compare, ast.Dict)
"""Kinds of nodes that `is_question` looks at."""


def is_question(node: ast.AST) -> bool:
    """Return True if code branches on the class or the name of a scheme.

    A table of functions by scheme is such a branch; a function that is registered for a class with
    `singledispatch` is not.
    """
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
            return bool(words(kinds) & CONCRETE)
        case ast.MatchClass(cls=kind):
            return bool(words(kind) & CONCRETE)
        case ast.MatchValue(value=value):
            return bool(words(value) & NAMES)
        case ast.Compare():
            return is_comparison_with_a_scheme(node)
        case ast.Dict(keys=keys, values=values):
            by_scheme = bool(words(*keys) & {*CONCRETE, *SCHEMES})
            functions = (ast.Name, ast.Attribute, ast.Lambda)
            return by_scheme and all(isinstance(value, functions) for value in values)
    return False


def is_comparison_with_a_scheme(node: ast.Compare) -> bool:
    """Return True for `type(x) is Rope`, `x.name == "rope"` and `x.name in ("rope", …)`."""
    names = set(CONCRETE)
    literals = []
    for side in (node.left, *node.comparators):
        if isinstance(side, ast.Attribute) and side.attr in ("name", "scheme", "kind"):
            names |= NAMES
        elif isinstance(side, (ast.Name, ast.Constant, ast.Tuple, ast.Set, ast.List)):
            literals.append(side)
    return bool(words(*literals) & names)


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(x, (Rope, int))",
        "match x:\n case Rope(): pass",
        "match x.name:\n case 'rope': pass",
        "type(x) in (Alibi, Rope)",
        "x.name in ('rope', 'other')",
        "{'rope': _rope, 'alibi': lambda: 0}",
    ],
)
def test_a_branch_on_the_scheme_is_seen(code: str) -> None:
    """Code outside of the schemes may not branch on the class or the name of a scheme, and
    `is_question` finds such branches in syntax trees. Each line is one in another shape.
    """
    tree = ast.parse(code)
    assert any(is_question(node) for node in ast.walk(tree))


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("isinstance(x, Scheme)", id="the base class, which all schemes have"),
        pytest.param("word == 'alibi'", id="a variable that is no .name, .scheme or .kind"),
        pytest.param("{'rope': ('rotary', 'yarn')}", id="a table of words, not of functions"),
    ],
)
def test_code_that_resembles_a_branch_on_the_scheme_is_allowed(code: str) -> None:
    """`is_question` finds code that branches on the class or the name of a scheme, such as
    `isinstance(x, Rope)`, `x.name == 'alibi'` or `{'rope': draw_rope}`. It must not find these.
    """
    tree = ast.parse(code)
    assert not any(is_question(node) for node in ast.walk(tree))


@pytest.mark.parametrize(
    "name", sorted(name for name in MODULES if not name.startswith("pecli.engine.schemes"))
)
def test_nobody_branches_on_the_scheme(name: str) -> None:
    """Code outside of the schemes calls their methods instead of branching on their class or name.
    QUESTIONS_LEFT has the number of branches that are left in a file; files without one have none.
    """
    questions = sum(map(is_question, nodes(name, *QUESTION_KINDS)))
    assert questions <= QUESTIONS_LEFT.get(place(name), 0)


MAX_MEMBERS = 40
"""Public members of Rope beside its parameters: tables, frequencies and application."""


def test_rope_has_few_members_beside_its_parameters() -> None:
    """A scheme is mathematics: what pictures, files or commands need of it lives with them. MAX_MEMBERS
    is the number of public members that are left, and may only fall.
    """
    members = {name for name in dir(pecli.Rope) if not name.startswith("_")}
    members_beside_parameters = members - {*pecli.Rope.parameters()}

    assert len(members_beside_parameters) <= MAX_MEMBERS


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_help_of_a_scheme_explains_every_parameter(scheme: str) -> None:
    """`help` shows the docstring, whose Args must list each parameter as «name: …»."""
    kind = scheme_named(scheme)
    explained = {line.split(":")[0].strip() for line in (kind.__doc__ or "").splitlines()}

    assert {*kind.parameters()} <= explained


def test_a_file_name_stands_for_one_thing() -> None:
    """If modules of two folders have one name, readers take them for the same thing. SAME_THING lists
    the names that folders share on purpose, such as a command and its view.
    """
    uses = Counter(path.stem for path in MODULES.values() if path.stem != "__init__")
    shared_names = {name for name, count in uses.items() if count > 1}

    assert shared_names <= {*SAME_THING.split()}


def test_public_names_are_sorted_and_listed() -> None:
    """`dir(pecli)` is what users and editors see: the names of __all__, which is in order."""
    assert sorted(pecli.__all__) == pecli.__all__
    assert dir(pecli) == pecli.__all__


@pytest.mark.parametrize("name", sorted({*pecli.__all__} - {"__version__"}))
def test_a_public_name_has_a_docstring(name: str) -> None:
    """`help(pecli.NAME)` shows it; names are those of __all__ except for the version, a text."""
    assert getattr(pecli, name).__doc__


def test_the_stub_has_the_same_names_from_the_same_modules() -> None:
    """A public name is imported when it is needed, from the module in the table _MODULE_OF. The stub
    __init__.pyi has the same for type checkers, as «from MODULE import NAME as NAME»; without the
    second NAME they take an import for a private one.
    """
    stub = ast.parse((ROOT / "__init__.pyi").read_text(encoding="utf-8"))
    module_in_stub = {}
    for statement in stub.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            assert alias.asname == alias.name
            module_in_stub[alias.name] = statement.module

    assert module_in_stub == pecli._MODULE_OF


DATA_FILES = ("*.json", "*.toml", "*.html", "*.css", "*.js")


def test_the_package_is_imported_from_a_zip_archive(tmp_path: Path) -> None:
    """Zipapps and frozen programs have a package in a zip archive: compiled modules and data files, no
    stub and no folders. A table is computed there (cos 0 = 1), a model, a golden case and texts are
    read.
    """
    data = [path for kind in DATA_FILES for path in ROOT.rglob(kind)]
    with PyZipFile(tmp_path / "pecli.zip", "w") as archive:
        archive.writepy(str(ROOT))
        for path in data:
            archive.write(path, path.relative_to(ROOT.parent))
    script = """
import sys
sys.path.insert(0, "pecli.zip")
import pecli
print(pecli.__file__)
print(pecli.Rope(seq_len=1, dim=2).tables()["cos"])
print(pecli.load_model("gpt-j-6b").one().rotary_dim)
from pecli.golden.cases import cases
print(next(cases()).name)
FILES = [
    ("pecli.views.report", "page.html"),
    ("pecli.views.interactive", "page.js"),
    ("pecli.cli", "synonyms.toml"),
]
from pecli.package_data import package_text
for package, name in FILES:
    assert package_text(package, name)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    file, cosines, rotary_dim, golden_case = done.stdout.splitlines()

    assert "pecli.zip" in file
    assert cosines == "[[1.]]"
    assert rotary_dim == "64"
    assert golden_case == "frequencies-default"


TABLE = "sinusoidal --seq-len 8 --dim 4 -q -o pe.npy"
NOT_IMPORTED = {
    "import pecli": "numpy typer rich matplotlib",
    "import pecli; [getattr(pecli, name) for name in pecli.__all__]; pecli.Rope(4, 4).tables()": (
        "typer rich matplotlib ml_dtypes"
    ),
    "from pecli.cli.app import run; run(['--version'])": "numpy",
    "from pecli.cli.app import run; run(['--help'])": "numpy",
    "from pecli.cli.app import run; run(['plot', '--help']), run(['plot', 'sinusoidal', '--dim', '16'])": "matplotlib",
    f"from pecli.cli.app import run; run({TABLE.split()})": (
        "rich matplotlib ml_dtypes zipfile hashlib tempfile numpy.typing concurrent.futures"
    ),
}
"""Code, and the modules that are not in memory after it."""


@pytest.mark.parametrize("code", NOT_IMPORTED)
def test_code_does_not_import_the_slow_modules_that_it_can_do_without(
    tmp_path: Path, code: str
) -> None:
    """Start-up is a feature: NumPy alone takes longer to import than `pecli --version`. NOT_IMPORTED
    has the modules that may not be in sys.modules after each piece of code.
    """
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = {*done.stdout.splitlines()[-1].split()}

    assert "pecli" in loaded
    assert not loaded & {*NOT_IMPORTED[code].split()}
