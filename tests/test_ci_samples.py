"""The hooks of pre-commit and the workflow run commands that exist, with options that they have."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).parents[1]
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a manifest of one table."""
    monkeypatch.chdir(tmp_path)
    angles = np.arange(4)[:, None] * 10000.0 ** (-np.arange(4) / 4)
    np.save("cos.npy", np.cos(angles))
    Path("pecli.toml").write_text('[[check]]\nfile = "*.npy"\nscheme = "rope"\nseq_len = 4\ndim = 8\natol = 1e-6\n')
    Path("config.json").write_text('{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}')
    return tmp_path


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_run(checked: Path, pecli_cli: Callable[..., Any], name: str) -> None:
    hook = HOOKS[name]
    files = [] if hook.get("pass_filenames") is False else ["config.json"]
    command, *words = shlex.split(hook["entry"])
    assert command == "pecli"
    assert pecli_cli(*words, *hook["args"], *files).code == 0
    assert re.search(hook["files"], "sub/pecli.toml" if "verify" in name else "sub/config.json")


def test_the_sample_names_hooks_that_there_are_and_templates_ask_for_something() -> None:
    sample = (ROOT / "samples" / "ci" / "pre-commit-config.yaml").read_text()
    assert re.findall(r"- id: (\S+)", sample) == list(HOOKS)
    templates = [*(ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")]
    forms = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in templates]
    assert len(forms) == 3
    assert all(any(part.get("validations", {}).get("required") for part in form["body"]) for form in forms)


def workflow_commands(job: str) -> list[str]:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))["jobs"]
    return [step["run"] for step in jobs[job]["steps"] if "run" in step]


def test_the_projects_own_workflow_runs_what_the_readme_says() -> None:
    _, block = re.findall(r"^```sh\n(.*?)\n```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S | re.M)[:2]
    assert workflow_commands("linux") == [".ci/run"]
    assert workflow_commands("macos") == [block]
    spelled = block.replace(".venv/bin", ".venv/Scripts").replace("python3", "python")
    assert workflow_commands("windows") == [spelled]
