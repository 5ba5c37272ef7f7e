"""`pecli audit` and `pecli runtimes`: JSON, text and pictures; and the option `--runtime` of other commands.

An audit measures how far tables drift from the exact one if they are computed in less precision (by
a recipe). Expected numbers are what bfloat16 can hold (257 rounds to 256), the frequencies
10000^(−2i/d), and tables that llama.cpp and mlx-lm themselves computed.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.engine.schemes.recipes import RECIPES
from pecli.engine.schemes.rope import Rope
from tests.exit_codes import CHECK_FAILED, SUCCESS
from tests.explain.test_recipe_search import config_of_case, dump_of_runtime

AUDIT_OF_ROPE = ("audit", "rope", "--seq-len", 300, "--dim", 32)


def test_the_audit_as_json_has_every_recipe_and_decade(run_pecli) -> None:
    """In bfloat16, with 8 bits of precision, 257 rounds to 256: the recipe with bfloat16 positions
    repeats a row there.
    """
    found = run_pecli(*AUDIT_OF_ROPE, "--json").json
    assert found["scheme"] == "rope"
    assert found["parameters"] == Rope(300, 32).spec()["parameters"]
    assert found["tolerance"] == 0.001
    assert found["first_position"] == 0
    assert found["positions"] == 300
    assert found["frequencies"] == pytest.approx([10000 ** (-2 * i / 32) for i in range(16)])
    assert found["output"] is None
    assert [each["recipe"] for each in found["recipes"]] == list(RECIPES)
    for each in found["recipes"]:
        measured = "max_abs_error mean_abs_error kept_positions first_beyond_tolerance first_equal_neighbours"
        assert set(each) == {"recipe", *measured.split(), "by_decade", "by_frequency"}
        assert [(decade["first"], decade["last"]) for decade in each["by_decade"]] == [
            (0, 9),
            (10, 99),
            (100, 299),
        ]
        assert max(decade["max_abs_error"] for decade in each["by_decade"]) == each["max_abs_error"]
        assert max(each["by_frequency"]) == each["max_abs_error"]

    collided = found["recipes"][3]
    assert (
        collided["first_equal_neighbours"]
        == collided["first_beyond_tolerance"]
        == collided["kept_positions"]
        == 257
    )


def test_an_audit_in_a_pipe_is_plain_text(run_pecli) -> None:
    """257 is the first position that bfloat16 cannot hold; it rounds to 256."""
    words = (*AUDIT_OF_ROPE, "--recipes", "bfloat16-positions,float32", "--tolerance", "0.5")
    outcome = run_pecli(*words)
    lines = outcome.out.splitlines()

    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""
    assert lines[0] == "rope seq_len=300 dim=32 base=10000 dtype=float32"
    assert lines[1].startswith("  within 0.5 at all 300 positions: float32 (")
    assert lines[2].startswith("  within 0.5 to position 256: bfloat16-positions (")
    assert len(lines) == 4

    outcome = run_pecli(*words, "--details")
    lines = [outcome.out.splitlines()[0], *outcome.out.splitlines()[3:]]
    assert lines[2] == "kept: positions before the error exceeds 0.5; equal: first repeated row"
    assert [lines[4].split()[k] for k in (0, 3, 4)] == ["bfloat16-positions", "257", "257"]
    assert lines[5].split()[3:5] == ["all", "–"]
    assert "float32-recurrence" not in outcome.out


def test_an_audit_of_a_model_covers_each_layer_type(run_pecli) -> None:
    """Gemma 3 has full and sliding layers, with bases 1e6 and 1e4."""
    words = ("audit", "rope", "--model", "gemma-3-1b", "--seq-len", 40, "--recipes", "float32")
    found = run_pecli(*words, "--json").json

    assert list(found["layers"]) == ["full_attention", "sliding_attention"]
    assert found["layers"]["full_attention"]["parameters"]["base"] == 1e6

    shown = run_pecli(*words, "-o", "two.svg").out
    assert "full_attention rope" in shown
    assert "sliding_attention rope" in shown
    assert shown.splitlines()[-1].startswith("two.svg: ")
    assert Path("two.svg").read_text().startswith("<?xml")

    single = run_pecli(*words, "--layer-type", "sliding_attention", "--json").json
    assert single["recipes"] == found["layers"]["sliding_attention"]["recipes"]
    assert run_pecli(*words, "-q").out == ""


def write_config_of(case: str) -> str:
    Path("config.json").write_text(json.dumps(config_of_case(case)))
    return "config.json"


def test_a_table_that_carries_its_runtime(run_pecli) -> None:
    """The numbers are a dump of llama.cpp itself; the file verifies by itself, against the model,
    and against the options.
    """
    path, model = "rope.safetensors", ("--config", write_config_of("gpt-oss-20b"))
    assert (
        run_pecli("rope", *model, "--seq-len", 32, "--runtime", "llama.cpp", "-o", path).exit_code
        == SUCCESS
    )
    np.testing.assert_allclose(
        pecli.load(path)["cos"],
        dump_of_runtime("gpt-oss-20b", "llama.cpp")["cos"],
        rtol=0,
        atol=1.3e-7,
    )
    assert run_pecli("verify", path).exit_code == SUCCESS
    assert run_pecli("verify", path, *model, "--runtime", "llama.cpp").exit_code == SUCCESS
    assert (
        run_pecli("verify", path, *model, "--runtime", "vllm", "--atol", "1e-5").exit_code
        == CHECK_FAILED
    )
    assert (
        run_pecli(
            "rope", *model, "--seq-len", 32, "--runtime", "llama.cpp", "--verify", path
        ).exit_code
        == SUCCESS
    )

    Path("pecli.toml").write_text(
        f'[[check]]\nfile = "{path}"\nconfig = "config.json"\nruntime = "llama.cpp"\n'
    )
    assert run_pecli("verify", "pecli.toml").exit_code == SUCCESS


def test_apply_rotates_by_the_runtime_s_table(run_pecli) -> None:
    """A unit vector comes out as a row of cosines and sines, here those of a dump of mlx-lm."""
    x = np.zeros((32, 64), np.float32)
    x[:, :32] = 1
    np.save("x.npy", x)
    words = ("--config", write_config_of("gpt-oss-20b"), "--runtime", "mlx-lm")

    assert run_pecli("apply", "rope", "x.npy", *words, "-o", "y.npy").exit_code == SUCCESS

    expected = dump_of_runtime("gpt-oss-20b", "mlx-lm")
    rotated = np.load("y.npy")
    np.testing.assert_allclose(rotated[:, :32], expected["cos"], rtol=0, atol=2e-7)
    np.testing.assert_allclose(rotated[:, 32:], expected["sin"], rtol=0, atol=2e-7)

    run_pecli("apply", "rope", "y.npy", *words, "--inverse", "-o", "z.npy")
    np.testing.assert_allclose(np.load("z.npy"), x, rtol=0, atol=3e-7)
