"""`pecli runtimes`, and `--runtime` of the other commands."""

import json
from pathlib import Path

import numpy as np

import pecli
from tests.explain.test_recipe_search import config, dump


def written(case: str) -> str:
    Path("config.json").write_text(json.dumps(config(case)))
    return "config.json"


def test_a_table_that_carries_its_runtime(pecli_cli) -> None:
    """The numbers are the runtime's own; the file verifies by itself, against the model, and against the options."""
    path, model = "rope.safetensors", ("--config", written("gpt-oss-20b"))
    assert pecli_cli("rope", *model, "--seq-len", 32, "--runtime", "llama.cpp", "-o", path).code == 0
    np.testing.assert_allclose(pecli.load(path)["cos"], dump("gpt-oss-20b", "llama.cpp")["cos"], rtol=0, atol=1.3e-7)
    assert pecli_cli("verify", path).code == 0
    assert pecli_cli("verify", path, *model, "--runtime", "llama.cpp").code == 0
    assert pecli_cli("verify", path, *model, "--runtime", "vllm", "--atol", "1e-5").code == 1
    assert pecli_cli("rope", *model, "--seq-len", 32, "--runtime", "llama.cpp", "--verify", path).code == 0
    Path("pecli.toml").write_text(f'[[check]]\nfile = "{path}"\nconfig = "config.json"\nruntime = "llama.cpp"\n')
    assert pecli_cli("verify", "pecli.toml").code == 0


def test_apply_rotates_by_the_runtime_s_table(pecli_cli) -> None:
    """A unit vector comes out as a row of cosines and sines."""
    x = np.zeros((32, 64), np.float32)
    x[:, :32] = 1
    np.save("x.npy", x)
    words = ("--config", written("gpt-oss-20b"), "--runtime", "mlx-lm")
    assert pecli_cli("apply", "rope", "x.npy", *words, "-o", "y.npy").code == 0
    expected = dump("gpt-oss-20b", "mlx-lm")
    rotated = np.load("y.npy")
    np.testing.assert_allclose(rotated[:, :32], expected["cos"], rtol=0, atol=2e-7)
    np.testing.assert_allclose(rotated[:, 32:], expected["sin"], rtol=0, atol=2e-7)
    pecli_cli("apply", "rope", "y.npy", *words, "--inverse", "-o", "z.npy")
    np.testing.assert_allclose(np.load("z.npy"), x, rtol=0, atol=3e-7)
