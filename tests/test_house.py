"""The house stands as it was drawn: layers import downwards only, and public names are what they claim to be."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pecli
from pecli.cli.app import COMMANDS

ROOT = Path(pecli.__file__).parent
MAY_IMPORT = {
    "errors": set(),
    "version": set(),
    "engine": {"errors"},
    "layers": {"engine", "errors"},
    "files": {"engine", "errors", "version"},
    "models": {"files", "engine", "errors"},
    "checks": {"models", "files", "engine", "errors"},
    "tensors": {"files", "engine", "errors"},
    "views": {"tensors", "checks", "models", "files", "engine", "errors"},
    "cli": {"views", "tensors", "checks", "models", "files", "layers", "engine", "errors", "version"},
    "__main__": {"cli"},
}


def imports(path: Path) -> set[str]:
    """The parts of pecli that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "pecli" else [f"pecli.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("pecli.")}
    return found


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_layers_point_down(part: str) -> None:
    paths = sorted((ROOT / part).rglob("*.py")) or [ROOT / f"{part}.py"]
    wrong = {str(path): up for path in paths if (up := imports(path) - MAY_IMPORT[part] - {part})}
    assert not wrong


def file_of(module: str) -> Path | None:
    path = ROOT.parent / module.replace(".", "/")
    return next((found for found in (path.with_suffix(".py"), path / "__init__.py") if found.exists()), None)


def imported_files(path: Path) -> set[Path]:
    """The files that a file imports, anywhere in it, for type checkers included."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            members = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name for name in members if file_of(name)} or {node.module}
    return {found for name in names if name.startswith("pecli.") and (found := file_of(name))}


@pytest.mark.parametrize("part", ["files", "cli"])
def test_no_file_imports_itself_by_way_of_others(part: str) -> None:
    left = {path: imported_files(path) for path in (ROOT / part).rglob("*.py")}
    left = {path: {each for each in found if each in left} for path, found in left.items()}
    while free := {path for path, found in left.items() if not found}:  # what imports nothing that is left
        left = {path: found - free for path, found in left.items() if path not in free}
    assert not left


def test_every_part_is_a_layer() -> None:
    parts = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")}
    assert parts - {"__init__"} == set(MAY_IMPORT)


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
