"""A runtime is one object and one line of the registry: with both added here, every command knows
it.

A runtime is a program that runs models. The toy takes half of a linear factor, so a configuration
with factor 8 has frequencies divided by 4; its tables are computed by NumPy in float32. Commands
run in a process in which the toy is registered.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.exit_codes import CHECK_FAILED, SUCCESS
from tests.toy_process import Run, process_with

TOY = """
import sys, types
from dataclasses import replace
from pecli.engine.runtimes import RUNTIMES
from pecli.engine.runtimes.runtime import RuntimeProfile, RuntimeReading, as_defined
from pecli.engine.runtimes.transformers import torch_angles

def halved(definition):
    scaling = replace(definition.scaling, factor=definition.scaling.factor / 2)
    return RuntimeReading(scaling, ("takes half of a linear factor",))

module = types.ModuleType("pecli.engine.runtimes.toy")
module.RUNTIME = RuntimeProfile("toy", "1.0", "this test", {"none": as_defined, "linear": halved}, torch_angles)
sys.modules[module.__name__] = module
RUNTIMES["toy"] = module.__name__
"""
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a config of factor 8, and with the toy's tables for it.

    The toy divides float32 frequencies by 4.
    """
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    frequencies = np.float32(1) / (1e4 ** (np.arange(8) / 8)).astype(np.float32) / np.float32(4)
    angles = np.outer(np.arange(256, dtype=np.float32), frequencies).astype(np.float64)
    np.savez(
        tmp_path / "dump.npz",
        cos=np.cos(angles).astype(np.float32),
        sin=np.sin(angles).astype(np.float32),
    )
    return tmp_path


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with process_with(TOY) as run:
        yield run


def test_rope_makes_the_tables_of_an_added_runtime(run: Run, folder: Path) -> None:
    """The toy is a runtime that takes half of a linear factor, here of 8; it is registered in the
    process that `run` uses. dump.npz has what it must make: NumPy's tables in float32, with
    frequencies divided by 4.
    """
    code, output = run(
        folder, "rope --config config.json --seq-len 256 --runtime toy -o made.npz -q"
    )
    assert code == SUCCESS
    assert output == ""

    with np.load(folder / "made.npz") as made, np.load(folder / "dump.npz") as expected:
        for name in ("cos", "sin"):
            np.testing.assert_allclose(made[name], expected[name], rtol=0, atol=1e-7)


def test_verify_accepts_the_tables_of_an_added_runtime(run: Run, folder: Path) -> None:
    """The toy is a runtime that takes half of a linear factor. The config has the factor 8, and the
    dump NumPy's tables with frequencies divided by 4: with --runtime toy they pass, within one unit
    in the last place.
    """
    code, output = run(folder, "verify dump.npz --config config.json --runtime toy --max-ulp 1")
    assert code == SUCCESS, output


def test_verify_explains_the_tables_of_an_added_runtime(run: Run, folder: Path) -> None:
    """The toy is a runtime that takes half of a linear factor. Without --runtime the dump is wrong: its
    frequencies are divided by 4, and the config says 8. The explanation is the toy, with the cause
    that its registration states.
    """
    code, output = run(folder, "verify dump.npz --config config.json --atol 1e-4")
    assert code == CHECK_FAILED
    assert "as toy computes it" in output
    assert "takes half of a linear factor" in output


def test_runtimes_lists_an_added_runtime_with_the_cause_of_its_departure(
    run: Run, folder: Path
) -> None:
    """A runtime departs if it computes something else than the configuration says: the toy takes half
    of the factor 8. Its version and the cause are those that it was registered with.
    """
    code, output = run(folder, "runtimes config.json --json")
    assert code == SUCCESS

    runtimes = json.loads(output)["layers"][0]["runtimes"]
    (toy,) = [runtime for runtime in runtimes if runtime["runtime"] == "toy"]
    assert toy["version"] == "1.0"
    assert toy["departs"] is True
    assert toy["causes"] == ["takes half of a linear factor"]


def test_a_departure_fails_a_strict_comparison(run: Run, folder: Path) -> None:
    """The toy, a runtime, takes half of the config's factor 8; --strict makes that a failed check."""
    code, _ = run(folder, "runtimes config.json --runtime toy --strict -q")
    assert code == CHECK_FAILED


def test_a_scaling_that_an_added_runtime_lacks_is_refused(run: Run, tmp_path: Path) -> None:
    """TOY registers the scalings «none» and «linear», so that `pecli rope` cannot make a table with
    YaRN. The command line is right: the exit code is that of the answer «no», and not of wrong usage.
    """
    yarn = "--scaling yarn --factor 2 --original-len 64"
    code, output = run(tmp_path, f"rope --seq-len 4 --dim 8 {yarn} --runtime toy")

    assert code == CHECK_FAILED
    assert "--runtime is toy; it has no yarn scaling" in output
