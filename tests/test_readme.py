"""The README, the reference and the samples tell the same story as the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pecli.cli.app import COMMANDS
from tests.readme import README, REFERENCE, environment, written

ROOT = README.parent
TEXT = README.read_text(encoding="utf-8")


@pytest.mark.parametrize("document", [README, REFERENCE], ids=lambda path: path.name)
def test_the_generated_parts_are_up_to_date(document: Path) -> None:
    assert written(document) == document.read_text(encoding="utf-8"), "run python -m tests.readme"


def test_readme_is_short() -> None:
    assert len(TEXT.splitlines()) <= 180


def test_links_lead_somewhere() -> None:
    for document in (README, REFERENCE, *(ROOT / ".github").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)|src=\"([^\"]+)\"", document.read_text(encoding="utf-8")):
            assert (document.parent / "".join(target)).exists(), target


def test_continuous_integration_runs_the_test_command_of_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    start = script.read_text(encoding="utf-8").partition("bash -ec")[0]
    result = subprocess.run(["bash", "-c", start, str(script)], capture_output=True, text=True, timeout=60)
    _, block = re.findall(r"^```sh\n(.*?)^```", TEXT, re.S | re.M)[:2]
    assert (result.returncode, result.stdout) == (0, f"+ {block}")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"pecli {command}" in TEXT
    assert f"pecli {command}" in REFERENCE.read_text(encoding="utf-8")


def test_the_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.S | re.M)
    exec(code.replace("10_000_000", "10_000"), {})


SAMPLES = sorted(path for path in (ROOT / "samples").glob("*") if path.suffix in (".sh", ".py"))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_every_sample_runs(sample: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = environment(tmp_path_factory.mktemp("bin"))
    words = [sys.executable if sample.suffix == ".py" else "sh", str(sample)]
    result = subprocess.run(words, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout
