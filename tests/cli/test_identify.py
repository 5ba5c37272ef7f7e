"""`pecli identify`: the scheme, parameters and command that made an unknown table.

Every test starts in a folder with slopes.npy, the twelve numbers 2^(−8k/12) for k from 1 to 12, and
noise.npy, random numbers that no scheme makes. Other tables are written in the tests, from formulas.
"""

import json
import shlex

import numpy as np
import pytest

import pecli
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS


@pytest.fixture(autouse=True)
def files(working_folder):
    np.save("slopes.npy", 2.0 ** (-8 * np.arange(1, 13) / 12))
    np.save("noise.npy", np.random.default_rng(8).normal(size=(64, 32)).astype(np.float32))


def test_identify_prints_a_command_that_makes_the_table_again(run_pecli) -> None:
    """The file holds 2^(-8k/12), slopes by the naive rule for 12 heads."""
    outcome = run_pecli("identify", "slopes.npy")
    lines = outcome.out.splitlines()

    assert outcome.exit_code == SUCCESS
    assert lines[0] == "identified  slopes.npy"
    assert "rule=naive" in outcome.out

    command = next(line for line in lines if line.startswith("pecli "))
    assert run_pecli(*shlex.split(command)[1:]).exit_code == SUCCESS
    assert np.allclose(np.load("again.npy"), np.load("slopes.npy"), rtol=1e-15, atol=0)

    match = run_pecli("identify", "slopes.npy", "--json").json["matches"][0]
    assert match["scheme"] == "alibi"
    assert match["parameters"]["heads"] == 12
    assert match["recipe"] == "exact"
    assert match["max_abs_error"] < 1e-15
    assert match["command"].startswith("pecli alibi --heads 12 --rule naive --slopes")


def test_a_table_that_is_not_identified_is_exit_code_1(run_pecli) -> None:
    np.save("t.npy", (-(2.0 ** -np.arange(1, 9)))[:, None, None] * np.arange(40.0))
    assert "in the file: the sign is flipped" in run_pecli("identify", "t.npy").out

    outcome = run_pecli("identify", "noise.npy")
    assert outcome.exit_code == CHECK_FAILED
    assert ", std" in outcome.out
    assert outcome.out.startswith("not identified  noise.npy\n")
    assert run_pecli("identify", "noise.npy", "-q").out == ""


def test_several_files_give_json_lines_and_the_worst_code(run_pecli) -> None:
    outcome = run_pecli("identify", "slopes.npy", "noise.npy", "--json")
    assert outcome.exit_code == CHECK_FAILED
    assert [json.loads(line)["identified"] for line in outcome.out.splitlines()] == [True, False]

    outcome = run_pecli("identify", "none.npy", "slopes.npy", "--json")
    assert outcome.exit_code == FILE_ERROR
    assert "does not exist" in outcome.err

    first, second = map(json.loads, outcome.out.splitlines())
    assert first["matches"] == []
    assert second["identified"]


def test_a_checkpoint_is_identified_by_its_positional_tensor(run_pecli) -> None:
    tensors = {f"h.{k}.weight": np.ones((4, 4), np.float32) for k in range(12)}
    pecli.save(
        "model.safetensors", {**tensors, "wpe.weight": pecli.Sinusoidal(64, 32).tables()["pe"]}
    )
    outcome = run_pecli("identify", "model.safetensors")

    assert outcome.exit_code == SUCCESS
    assert "wpe.weight: sinusoidal" in outcome.out
    assert run_pecli("identify", "model.safetensors:h.3.weight").exit_code == CHECK_FAILED
    assert run_pecli("identify", "model.safetensors:h.33.weight").exit_code == FILE_ERROR


def test_a_list_of_32_divisors_is_counted_in_text_and_whole_in_the_command(run_pecli) -> None:
    """62 commas: two lists of 32 divisors."""
    by = [1 + k / 8 for k in range(32)]
    angles = np.outer(np.arange(512), 10000.0 ** (-np.arange(32) / 32) / by)
    np.savez("t.npz", cos=np.cos(angles).astype(np.float32), sin=np.sin(angles).astype(np.float32))
    lines = run_pecli("identify", "t.npz").out.splitlines()
    parameters = next(line for line in lines if line.startswith("  seq_len"))

    assert "(32 numbers)" in parameters
    assert len(parameters) < 400
    assert lines[-1].endswith("letters: --json prints it")

    (match,) = run_pecli("identify", "t.npz", "--json").json["matches"]
    assert match["command"].count(",") == 62
