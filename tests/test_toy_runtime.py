"""A runtime is one object and one line of the registry: with both added here, every command knows it."""

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
from pecli.engine.runtimes.runtime import Runtime, RuntimeReading, as_defined
from pecli.engine.runtimes.transformers import torch_phases

def halved(definition):
    scaling = replace(definition.scaling, factor=definition.scaling.factor / 2)
    return RuntimeReading(scaling, ("takes half of a linear factor",))

module = types.ModuleType("pecli.engine.runtimes.toy")
module.RUNTIME = Runtime("toy", "1.0", "this test", {"none": as_defined, "linear": halved}, torch_phases)
sys.modules[module.__name__] = module
RUNTIMES["toy"] = module.__name__

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pecli.cli.app import run

for words in json.loads(sys.argv[1]):
    with redirect_stdout(StringIO()) as out, redirect_stderr(out):
        code = run(words)
    print(json.dumps([code, out.getvalue()]))
"""
CONFIG = {
    **{
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "max_position_embeddings": 256,
    },
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the toy computes for a model with a factor of 8: frequencies in float32, divided by 4."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    frequencies = np.float32(1) / (1e4 ** (np.arange(8) / 8)).astype(np.float32) / np.float32(4)
    angles = np.outer(np.arange(256, dtype=np.float32), frequencies).astype(np.float64)
    np.savez(
        tmp_path / "dump.npz",
        cos=np.cos(angles).astype(np.float32),
        sin=np.sin(angles).astype(np.float32),
    )
    return tmp_path


def test_every_command_knows_it(folder: Path) -> None:
    config, model = ("--config", "config.json"), ("runtimes", "config.json")
    yarn = (
        "rope",
        "--seq-len",
        "4",
        "--dim",
        "8",
        "--scaling",
        "yarn",
        "--factor",
        "2",
        "--original-len",
        "64",
    )
    commands = [
        ("rope", *config, "--seq-len", "256", "--runtime", "toy", "-o", "made.npz", "-q"),
        ("verify", "dump.npz", *config, "--runtime", "toy", "--max-ulp", "1"),
        (*model, "--json"),
        (*model, "--runtime", "toy", "--strict", "-q"),
        ("verify", "dump.npz", *config, "--atol", "1e-4"),
        (*yarn, "--runtime", "toy"),
    ]
    words = [sys.executable, "-c", TOY, json.dumps(commands)]
    result = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=True)
    made, verified, listed, strict, explained, lacking = map(json.loads, result.stdout.splitlines())
    assert (made, verified[0], strict[0]) == ([0, ""], 0, 1)
    with np.load(folder / "made.npz") as found, np.load(folder / "dump.npz") as expected:
        for name in ("cos", "sin"):
            np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-7)
    (toy,) = [
        each for each in json.loads(listed[1])["layers"][0]["runtimes"] if each["runtime"] == "toy"
    ]
    assert (toy["version"], toy["departs"], toy["causes"]) == (
        "1.0",
        True,
        ["takes half of a linear factor"],
    )
    assert (listed[0], explained[0]) == (0, 1)
    assert "as toy computes it" in explained[1]
    assert "takes half of a linear factor" in explained[1]
    assert (lacking[0], "--runtime is toy; it has no yarn scaling" in lacking[1]) == (1, True)
