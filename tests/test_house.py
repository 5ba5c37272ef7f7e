"""The house stands as it was drawn: layers import downwards only, and public names are what they claim to be."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pecli
from pecli.cli.app import COMMANDS
from pecli.engine.schemes import SCHEMES

ROOT = Path(pecli.__file__).parent
MAY_IMPORT = {
    "errors": set(),
    "version": set(),
    "engine": {"errors"},
    "layers": {"engine", "errors"},
    "files": {"engine", "errors", "version"},
    "models": {"files", "engine", "errors"},
    "explain": {"models", "files", "engine", "errors"},
    "checks": {"explain", "models", "files", "engine", "errors"},
    "tensors": {"files", "engine", "errors"},
    "distributed": {"files", "engine", "errors"},
    "views": {"tensors", "checks", "explain", "models", "files", "engine", "errors", "version"},
    "cli": {"views", "tensors", "checks", "explain", "models", "files", "layers", "engine", "errors", "version"},
    "__main__": {"cli"},
}


WITHIN_ENGINE = {
    "numerics": {"numerics", "arrays"},
    "scalings": {"scalings", "numerics", "arrays", "text"},
    "runtimes": {"runtimes", "scalings", "numerics", "arrays"},
    "table": {"numerics", "arrays", "text"},
}
"""What parts of the engine may import of it; the others import all but the schemes, and these import all."""

REPLACED = ("pecli.checks.diagnose", "pecli.checks.identify", "pecli.checks.diff")
"""Folders that are on their way out: nothing new is built on them, and they are not measured."""


MAX_FILES = 20
"""Of a folder."""

CONCRETE = ("Alibi", "Bundle", "LearnedInit", "Rope", "Sinusoidal")

ASKED = {
    "pecli/models/encoding.py": 1,  # a model's encodings are described by name; only the rotary ones have tables
    "pecli/checks/verify/against_model.py": 1,  # as above
    "pecli/explain/given_positions.py": 1,  # a debt: which axis a pair of channels turns by
}
"""Where it is asked which scheme something is, instead of what it answers; these numbers may only fall."""

SAME_THING = {
    *("additive", "alibi", "relative", "rope", "rotary"),  # a scheme, its layer, its configuration, its application
    *("audit", "convert", "diff", "identify", "resize", "verification"),  # a command, its work, its view
    "runtimes",  # as above, and the descriptions of runtimes
}
"""Names that files of several folders share because they hold the same thing."""


def modules() -> dict[str, Path]:
    """The files of the package by module name."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = ("pecli", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(name: str) -> set[str]:
    """The modules of pecli that a module imports anywhere in it, for types alone included."""
    found = set()
    for node in ast.walk(tree(MODULES[name])):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inner & {*MODULES}) or {node.module}
    return (found & {*MODULES}) - {name}


IMPORTS = {name: imported(name) for name in MODULES}


def is_replaced(name: str) -> bool:
    return name.startswith(REPLACED)


def part_of(name: str) -> str:
    return name.split(".")[1] if "." in name else "__init__"


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_layers_point_down(part: str) -> None:
    allowed = MAY_IMPORT[part] | {part}
    used = {name: {part_of(each) for each in IMPORTS[name]} for name in MODULES if part_of(name) == part}
    assert not {name: parts - allowed for name, parts in used.items() if parts - allowed}


def test_every_part_is_a_layer() -> None:
    assert {part_of(name) for name in MODULES} - {"__init__"} == set(MAY_IMPORT)


def test_layers_of_the_engine_point_down() -> None:
    inside = {name: name.split(".")[2] for name in MODULES if name.startswith("pecli.engine.")}
    for name, part in inside.items():
        others = {inside[each] for each in IMPORTS[name] if each in inside}
        usual = {*inside.values()} - (set() if part == "schemes" else {"schemes"})
        assert others <= WITHIN_ENGINE.get(part, usual), name


def test_no_file_imports_itself_by_way_of_others() -> None:
    """Types alone count, too. The package's front imports whatever it offers, and nothing imports it."""
    assert not [name for name in MODULES if "pecli" in IMPORTS[name]]
    left = {name: needs for name, needs in IMPORTS.items() if not is_replaced(name)}
    left = {name: {each for each in needs if each in left} for name, needs in left.items()}
    while free := {name for name, needs in left.items() if not needs}:  # what imports nothing that is left
        left = {name: needs - free for name, needs in left.items() if name not in free}
    assert not left


def is_question(node: ast.AST) -> bool:
    """isinstance(…, Rope), or name == "rope"."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
        return any(isinstance(each, ast.Name) and each.id in CONCRETE for each in ast.walk(node.args[1]))
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        return False
    asked = isinstance(node.left, ast.Attribute) and node.left.attr in ("name", "scheme", "kind")
    return asked and any(isinstance(each, ast.Constant) and each.value in SCHEMES for each in node.comparators)


def test_nobody_asks_which_scheme_it_is() -> None:
    found = {}
    for name, path in MODULES.items():
        where = f"pecli/{path.relative_to(ROOT).as_posix()}"
        if not name.startswith("pecli.engine.schemes") and not is_replaced(name):
            found[where] = sum(is_question(node) for node in ast.walk(tree(path)))
    assert {where: count for where, count in found.items() if count > ASKED.get(where, 0)} == {}


def test_folders_show_their_plan() -> None:
    kept = [path for name, path in MODULES.items() if not is_replaced(name) and path.stem != "__init__"]
    folders = [path.parent.relative_to(ROOT).as_posix() for path in kept]
    assert {folder for folder in folders if folders.count(folder) > MAX_FILES} == set()


def test_a_file_name_stands_for_one_thing() -> None:
    names = [path.stem for name, path in MODULES.items() if not is_replaced(name) and path.stem != "__init__"]
    assert {name for name in names if names.count(name) > 1} <= SAME_THING


def test_public_names_exist_and_are_all_named() -> None:
    assert sorted(pecli.__all__) == pecli.__all__
    assert set(pecli._HOMES) == set(pecli.__all__) - {"__version__"}
    for name in pecli.__all__:
        assert getattr(pecli, name).__doc__ or name == "__version__"


def loaded_by(code: str) -> set[str]:
    """The modules in memory after running some code."""
    script = f"import sys\n{code}\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(result.stdout.splitlines()[-1].split())


def test_importing_pecli_is_cheap() -> None:
    assert not loaded_by("import pecli") & {"numpy", "typer", "rich", "matplotlib"}


def test_the_library_needs_no_command_line() -> None:
    code = "import pecli; [getattr(pecli, name) for name in pecli.__all__]; pecli.Rope(4, 4).tables()"
    assert not loaded_by(code) & {"typer", "rich", "matplotlib", "ml_dtypes"}


def test_help_does_not_import_numpy() -> None:
    helps = [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)]
    quietly = "with contextlib.redirect_stdout(io.StringIO())"
    code = f"""import contextlib, io\nfrom pecli.cli.app import run
for words in {helps}:
    {quietly}: run(words)
    assert "numpy" not in sys.modules, words"""
    assert "typer" in loaded_by(code)


def test_making_a_table_imports_nothing_slow(tmp_path: Path) -> None:
    words = ["sinusoidal", "--seq-len", "8", "--dim", "4", "-q", "-o", str(tmp_path / "pe.npy")]
    slow = {"rich", "matplotlib", "ml_dtypes", "zipfile", "hashlib", "tempfile", "numpy.typing", "concurrent.futures"}
    assert not loaded_by(f"from pecli.cli.app import run; run({words})") & slow
