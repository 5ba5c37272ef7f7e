"""The house stands as it was drawn: layers import downwards only, and public names are what they claim to be."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import pecli
from pecli.engine.schemes import SCHEMES, scheme_named

ROOT = Path(pecli.__file__).parent
FLOORS = (
    "errors",
    "engine",
    "files explain layers",
    "models distributed",
    "tensors",
    "checks",
    "views golden",
    "cli",
    "__main__",
)
"""From the ground up: a folder imports what lies on floors below its own."""
MAY_IMPORT = {
    part: {below for lower in FLOORS[:height] for below in lower.split()}
    for height, floor in enumerate(FLOORS)
    for part in floor.split()
}

WITHIN_ENGINE = {
    "numerics": {"numerics", "arrays"},
    "scalings": {"scalings", "numerics", "arrays"},
    "runtimes": {"runtimes", "scalings", "numerics", "arrays"},
    "table": {"numerics", "arrays"},
}
"""What parts of the engine may import of it; the others import all but the schemes, and these import all."""

MAX_FILES = 196
"""Of the package."""
MAX_IN_FOLDER = 21
MAX_FUNCTION = 60
"""Lines, those of its signature included."""
MAX_MODULE = 400

NAMES = {*SCHEMES, "layers"}
CONCRETE = {scheme_named(name).__name__ for name in NAMES}

ASKED = {
    "pecli/models/encoding.py": 1,  # a configuration names its encodings; only the rotary ones have tables
    "pecli/checks/verify/targets.py": 1,  # as above: the tables that a named encoding leads to expect
}
"""Where it is asked which scheme something is, instead of what it answers; these numbers may only fall."""
MAX_ASKED = 2

SAME_THING = {
    # a scheme, its layer, its configuration, its application; a command, its work, its view
    *["additive", "alibi", "relative", "rope", "rotary"],
    *[
        "apply",
        "audit",
        "convert",
        "diff",
        "extend",
        "golden",
        "identify",
        "resize",
        "runtimes",
        "verification",
        "verify",
    ],
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


@cache
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


@cache
def imports() -> dict[str, set[str]]:
    return {name: imported(name) for name in MODULES}


def place(path: Path) -> str:
    return f"pecli/{path.relative_to(ROOT).as_posix()}"


def part_of(name: str) -> str:
    return name.split(".")[1] if "." in name else "__init__"


def test_layers_point_down() -> None:
    for name, needs in imports().items():
        part = part_of(name)
        assert part == "__init__" or {part_of(other) for other in needs} <= MAY_IMPORT[part] | {part}, name


def test_every_part_is_a_layer() -> None:
    assert {part_of(name) for name in MODULES} - {"__init__"} == set(MAY_IMPORT)


def test_layers_of_the_engine_point_down() -> None:
    inside = {name: name.split(".")[2] for name in MODULES if name.startswith("pecli.engine.")}
    for name, part in inside.items():
        others = {inside[each] for each in imports()[name] if each in inside}
        usual = {*inside.values()} - (set() if part == "schemes" else {"schemes"})
        assert others <= WITHIN_ENGINE.get(part, usual), name


def test_no_file_imports_itself_by_way_of_others() -> None:
    """Types alone count, too. The package's front imports whatever it offers, and nothing imports it."""
    assert not [name for name in MODULES if "pecli" in imports()[name]]
    left = dict(imports())
    while free := {name for name, needs in left.items() if not needs}:  # what imports nothing that is left
        left = {name: needs - free for name, needs in left.items() if name not in free}
    assert not left


def words(node: ast.AST) -> set[str]:
    """The names and attributes in an expression, and the texts, those in a display of several included."""
    each = [*ast.walk(node)]
    texts = {part.value for part in each if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return (
        texts | {part.id for part in each if isinstance(part, ast.Name)} | {getattr(part, "attr", "") for part in each}
    )


def is_question(node: ast.AST) -> bool:
    """isinstance(…, Rope), case Rope(), type(…) is Rope; name == "rope", name in ("rope", …), case "rope"; a table of
    functions by class or by name. A function that is registered for a class is the scheme's own facet.
    """
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, kinds]):
            return bool(words(kinds) & CONCRETE)
        case ast.MatchClass(cls=kind):
            return bool(words(kind) & CONCRETE)
        case ast.MatchValue(value=value):
            return bool(words(value) & NAMES)
        case ast.Compare(left=left, comparators=others):
            every = [left, *others]
            named = any(isinstance(each, ast.Attribute) and each.attr in ("name", "scheme", "kind") for each in every)
            plain = [each for each in every if isinstance(each, (ast.Name, ast.Constant, ast.Tuple, ast.Set, ast.List))]
            return any(words(each) & (CONCRETE | NAMES if named else CONCRETE) for each in plain)
        case ast.Dict(keys=keys, values=values):
            by_scheme = any(words(key) & {*CONCRETE, *SCHEMES} for key in keys if key is not None)
            return by_scheme and all(isinstance(each, (ast.Name, ast.Attribute, ast.Lambda)) for each in values)
    return False


@pytest.mark.parametrize(
    ("code", "asks"),
    [
        ("isinstance(x, (Rope, int))", True),
        ("match x:\n case Rope(): pass", True),
        ("match x.name:\n case 'rope': pass", True),
        ("type(x) in (Alibi, Rope)", True),
        ("x.name in ('rope', 'other')", True),
        ("{'rope': _rope, 'alibi': lambda: 0}", True),
        ("isinstance(x, Scheme)", False),
        ("word == 'alibi'", False),
        ("{'rope': ('rotary', 'yarn')}", False),
    ],
)
def test_every_way_of_asking_is_seen(code: str, asks: bool) -> None:
    assert any(map(is_question, ast.walk(ast.parse(code)))) == asks


def test_nobody_asks_which_scheme_it_is() -> None:
    outside = [path for name, path in MODULES.items() if not name.startswith("pecli.engine.schemes")]
    found = {place(path): sum(map(is_question, ast.walk(tree(path)))) for path in outside}
    assert {where: count for where, count in found.items() if count > ASKED.get(where, 0)} == {}
    assert sum(ASKED.values()) <= MAX_ASKED


def test_folders_show_their_plan() -> None:
    folders = [path.parent.relative_to(ROOT).as_posix() for path in MODULES.values() if path.stem != "__init__"]
    assert {folder for folder in folders if folders.count(folder) > MAX_IN_FOLDER} == set()
    assert len(MODULES) <= MAX_FILES


def test_functions_fit_a_screen_and_modules_hold_one_idea() -> None:
    long = []
    for path in MODULES.values():
        long += [place(path)] * (len(path.read_text(encoding="utf-8").splitlines()) > MAX_MODULE)
        functions = [node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef)]
        long += [f"{place(path)} {node.name}" for node in functions if node.end_lineno - node.lineno >= MAX_FUNCTION]
    assert long == []


def test_a_file_name_stands_for_one_thing() -> None:
    names = [path.stem for path in MODULES.values() if path.stem != "__init__"]
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
    helps = [["--version"], ["--help"]]
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


ENTERED = """
import importlib.util, os, sys, threading
root, entered = os.path.dirname(importlib.util.find_spec("pecli").origin), set()
def enter(frame, event, argument):
    if event == "call" and frame.f_code.co_filename.startswith(root):
        entered.add(frame.f_code.co_filename)
sys.setprofile(enter)
threading.setprofile(enter)
from pecli.cli.app import run
run(sys.argv[1:])
sys.setprofile(None)
print(len(entered))
"""
MAX_ENTERED = {
    "sinusoidal --seq-len 512 --dim 64 -q -o pe.npy": 22,
    "verify dump.npz --model llama-3.1-8b --atol 1e-3 -q": 75,
}
"""Files of the package that a newcomer has to read to follow a command; these numbers may only fall."""


@pytest.mark.parametrize("command", MAX_ENTERED)
def test_few_files_tell_what_a_command_does(tmp_path: Path, command: str) -> None:
    pecli.save(tmp_path / "dump.npz", pecli.Rope(512, 128, base=500_000.0))
    words = [sys.executable, "-c", ENTERED, *command.split()]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert 1 < int(done.stdout) <= MAX_ENTERED[command]
