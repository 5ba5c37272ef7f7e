"""A runtime is one object and one line of the registry: with both added here, every command knows it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TOY = """
import sys, types
from dataclasses import replace
from pecli.engine.runtimes import RUNTIMES
from pecli.engine.runtimes.runtime import Given, Reading, Runtime
from pecli.engine.runtimes.transformers import torch_phases

def halved(given):
    scaling = replace(given.scaling, factor=given.scaling.factor / 2)
    return Reading(scaling, ("takes half of a linear factor",))

module = types.ModuleType("pecli.engine.runtimes.toy")
module.RUNTIME = Runtime("toy", "1.0", "this test", {"none": Given.as_defined, "linear": halved}, torch_phases)
sys.modules[module.__name__] = module
RUNTIMES["toy"] = "toy"

from pecli.cli.app import run
sys.exit(run(sys.argv[1:]))
"""
CONFIG = {
    **{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 256},
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the toy computes for a model with a factor of 8: frequencies in float32, divided by 4."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    frequencies = np.float32(1) / (1e4 ** (np.arange(8) / 8)).astype(np.float32) / np.float32(4)
    angles = np.outer(np.arange(256, dtype=np.float32), frequencies).astype(np.float64)
    np.savez(folder / "dump.npz", cos=np.cos(angles).astype(np.float32), sin=np.sin(angles).astype(np.float32))
    return folder


def command(folder: Path, *words: str) -> tuple[int, str]:
    result = subprocess.run([sys.executable, "-c", TOY, *words], capture_output=True, text=True, cwd=folder)
    assert "Traceback" not in result.stderr
    return result.returncode, result.stdout + result.stderr


def test_its_tables_are_made(folder: Path) -> None:
    made = "rope", "--config", "config.json", "--seq-len", "256", "--runtime", "toy", "-o", "made.npz", "-q"
    assert command(folder, *made) == (0, "")
    with np.load(folder / "made.npz") as found, np.load(folder / "dump.npz") as expected:
        for name in ("cos", "sin"):
            np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-7)
    words = "verify", "dump.npz", "--config", "config.json", "--runtime", "toy", "--max-ulp", "1"
    assert command(folder, *words)[0] == 0


def test_runtimes_lists_it(folder: Path) -> None:
    code, out = command(folder, "runtimes", "config.json", "--json")
    (toy,) = [each for each in json.loads(out)["layers"][0]["runtimes"] if each["runtime"] == "toy"]
    found = code, toy["version"], toy["departs"], toy["causes"]
    assert found == (0, "1.0", True, ["takes half of a linear factor"])
    assert command(folder, "runtimes", "config.json", "--runtime", "toy", "--strict", "-q")[0] == 1


def test_verify_names_it_and_what_it_lacks_is_said(folder: Path) -> None:
    code, out = command(folder, "verify", "dump.npz", "--config", "config.json", "--atol", "1e-4")
    assert (code, "as toy computes it" in out, "takes half of a linear factor" in out) == (1, True, True)
    yarn = "rope", "--seq-len", "4", "--dim", "8", "--scaling", "yarn", "--factor", "2", "--original-len", "64"
    code, out = command(folder, *yarn, "--runtime", "toy")
    assert (code, "--runtime is toy; it has no yarn scaling" in out) == (1, True)
