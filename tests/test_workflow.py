"""The steps of the sample workflow, run as they stand: what pip installs is a wheel that is built here."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOW = yaml.safe_load((ROOT / "samples" / "ci" / "github-workflow.yml").read_text(encoding="utf-8"))


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, **environment}
    return subprocess.run(["sh", "-c", command], cwd=folder, env=given, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment of its own that has pip and the libraries which pecli needs, but not pecli."""
    folder = tmp_path_factory.mktemp("machine")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), "."]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=300)
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    libraries = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    (site / "libraries.pth").write_text("\n".join(libraries), encoding="utf-8")
    pip = folder / "venv" / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec "{folder}/venv/bin/python" -m pip "$@"\n', encoding="utf-8")
    pip.chmod(0o755)
    (wheel,) = folder.glob("pecli_posenc-*.whl")
    options = {"PIP_FORCE_REINSTALL": "1", "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1"}  # nothing is fetched
    return {
        "PATH": f"{folder}/venv/bin{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": "",
        "PECLI": str(wheel),
        **options,
    }


@pytest.mark.skipif(os.name == "nt", reason="the sample is for Linux")
def test_workflow_steps_run(machine: dict[str, str], tmp_path: Path) -> None:
    install, check = (step["run"] for step in WORKFLOW["jobs"]["pecli"]["steps"] if "run" in step)
    assert "PECLI" in WORKFLOW["env"]
    installed = shell(install, tmp_path, **machine)
    assert installed.returncode == 0, installed.stderr
    angles = np.arange(4)[:, None] * 10000.0 ** (-np.arange(4) / 4)
    np.save(tmp_path / "cos.npy", np.cos(angles))
    manifest = '[[check]]\nfile = "*.npy"\nscheme = "rope"\nseq_len = 4\ndim = 8\natol = 1e-6\n'
    (tmp_path / "pecli.toml").write_text(manifest, encoding="utf-8")
    passed = shell(check, tmp_path, **machine, GITHUB_ACTIONS="true")
    assert passed.returncode == 0, passed.stderr
    assert (tmp_path / "pecli.xml").exists()
    np.save(tmp_path / "cos.npy", np.ones((4, 4)))
    failed = shell(check, tmp_path, **machine, GITHUB_ACTIONS="true")
    assert failed.returncode == 1
    assert "::error file=cos.npy" in failed.stdout
