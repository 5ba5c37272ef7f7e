"""`pecli identify`: the scheme, parameters and command that made an unknown table.

Every test starts in a folder with slopes.npy, the twelve numbers 2^(−8k/12) for k from 1 to 12, and
noise.npy, random numbers that no scheme makes. Other tables are written in the tests, from formulas.
"""

import json
import shlex

import numpy as np
import pytest

import pecli
from tests.conftest import Outcome
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS


@pytest.fixture(autouse=True)
def files(working_folder):
    np.save("slopes.npy", 2.0 ** (-8 * np.arange(1, 13) / 12))
    np.save("noise.npy", np.random.default_rng(8).normal(size=(64, 32)).astype(np.float32))


def test_identify_names_the_rule_of_slopes(run_pecli) -> None:
    """slopes.npy is 2^(−8k/12) for 12 heads, the rule that pecli calls naive; the paper's rule
    differs for 12, which is no power of two.
    """
    outcome = run_pecli("identify", "slopes.npy")

    assert outcome.exit_code == SUCCESS
    assert outcome.out.splitlines()[0] == "identified  slopes.npy"
    assert "rule=naive" in outcome.out


def test_the_command_that_identify_prints_makes_the_table_again(run_pecli) -> None:
    """`pecli identify` prints a command, which is run as printed and writes again.npy: the slopes
    of the file within 1e-15.
    """
    lines = run_pecli("identify", "slopes.npy").out.splitlines()
    command = next(line for line in lines if line.startswith("pecli "))

    assert run_pecli(*shlex.split(command)[1:]).exit_code == SUCCESS
    assert np.allclose(np.load("again.npy"), np.load("slopes.npy"), rtol=1e-15, atol=0)


def test_identify_reports_scheme_heads_recipe_and_command_as_json(run_pecli) -> None:
    """slopes.npy has the slopes of ALiBi for 12 heads by the rule that is called naive."""
    (match,) = run_pecli("identify", "slopes.npy", "--json").json["matches"]
    assert match["scheme"] == "alibi"
    assert match["parameters"]["heads"] == 12
    assert match["recipe"] == "exact"
    assert match["max_abs_error"] < 1e-15
    assert match["command"].startswith("pecli alibi --heads 12 --rule naive --slopes")


def test_a_bias_of_alibi_with_the_other_sign_is_identified(run_pecli) -> None:
    """Up to a constant, ALiBi's bias of key j is m·j with the slope m = 2^−k of head k; in the file
    it is −m·j.
    """
    slopes = 2.0 ** -np.arange(1, 9)
    np.save("t.npy", -slopes[:, None, None] * np.arange(40.0))
    assert "in the file: the sign is flipped" in run_pecli("identify", "t.npy").out


def test_noise_is_not_identified_but_described_with_exit_code_1(run_pecli) -> None:
    """The description has the standard deviation of the numbers."""
    outcome = run_pecli("identify", "noise.npy")
    assert outcome.exit_code == CHECK_FAILED
    assert outcome.out.startswith("not identified  noise.npy\n")
    assert ", std" in outcome.out


def test_a_quiet_identification_has_only_an_exit_code(run_pecli) -> None:
    """`pecli identify -q` of noise, which no scheme makes."""
    outcome = run_pecli("identify", "noise.npy", "-q")
    assert outcome.exit_code == CHECK_FAILED
    assert outcome.out == ""


def test_identify_prints_a_line_of_json_per_file(run_pecli) -> None:
    """`pecli identify --json` of two files: slopes.npy has the slopes of ALiBi, noise.npy random
    numbers. One that is not identified makes the command fail.
    """
    outcome = run_pecli("identify", "slopes.npy", "noise.npy", "--json")
    assert outcome.exit_code == CHECK_FAILED
    assert [json.loads(line)["identified"] for line in outcome.out.splitlines()] == [True, False]


def test_a_missing_file_does_not_keep_the_next_one_from_being_identified(run_pecli) -> None:
    """none.npy does not exist. There is one line of JSON per file, also for the missing one."""
    outcome = run_pecli("identify", "none.npy", "slopes.npy", "--json")
    assert outcome.exit_code == FILE_ERROR
    assert "does not exist" in outcome.err

    missing, present = map(json.loads, outcome.out.splitlines())
    assert missing["matches"] == []
    assert present["identified"]


@pytest.fixture
def checkpoint(working_folder) -> str:
    """A file with 12 weights that are no tables, and one sinusoidal table."""
    weights = {f"h.{layer}.weight": np.ones((4, 4), np.float32) for layer in range(12)}
    table = pecli.Sinusoidal(64, 32).tables()["pe"]
    pecli.save("model.safetensors", {**weights, "wpe.weight": table})
    return "model.safetensors"


def test_a_checkpoint_is_identified_by_its_positional_tensor(run_pecli, checkpoint: str) -> None:
    """The checkpoint has weights of layers, and sinusoids as wpe.weight; `pecli identify` finds the
    scheme of the latter.
    """
    outcome = run_pecli("identify", checkpoint)
    assert outcome.exit_code == SUCCESS
    assert "wpe.weight: sinusoidal" in outcome.out


def test_a_weight_that_is_selected_by_its_name_is_not_identified(
    run_pecli, checkpoint: str
) -> None:
    """FILE:NAME selects one tensor of the checkpoint, here a weight of ones, which is no table of a
    scheme.
    """
    assert run_pecli("identify", f"{checkpoint}:h.3.weight").exit_code == CHECK_FAILED


def test_a_tensor_that_the_file_lacks_is_a_file_error(run_pecli, checkpoint: str) -> None:
    """FILE:NAME selects one tensor of the checkpoint, which has no layer 33."""
    assert run_pecli("identify", f"{checkpoint}:h.33.weight").exit_code == FILE_ERROR


DIVISORS = [1 + k / 8 for k in range(32)]  # 1, 1.125, 1.25, …, 4.875


def identify_a_table_with_32_divisors(run_pecli, *options: str) -> Outcome:
    """Run `pecli identify` on cosines and sines whose frequencies 10000^(−i/32) are divided by
    DIVISORS, as scaling longrope divides them: its short and its long factors are found as DIVISORS.
    """
    angles = np.outer(np.arange(512), 10000.0 ** (-np.arange(32) / 32) / DIVISORS)
    np.savez("t.npz", cos=np.cos(angles).astype(np.float32), sin=np.sin(angles).astype(np.float32))
    return run_pecli("identify", "t.npz", *options)


def test_a_long_list_of_parameters_is_shortened_in_the_text_of_identify(run_pecli) -> None:
    """Of 32 numbers, the text has the first three, the last and their count. The command, which
    would have both lists of 32 numbers, is left out; the last line names the option that prints it.
    """
    lines = identify_a_table_with_32_divisors(run_pecli).out.splitlines()
    (parameters,) = [line for line in lines if line.startswith("  seq_len=512")]

    assert "short_factor=1,1.125,1.25,…,4.875 (32 numbers)" in parameters
    assert "long_factor=1,1.125,1.25,…,4.875 (32 numbers)" in parameters
    assert not [line for line in lines if line.startswith("pecli ")]
    assert lines[-1].startswith("  its command has ")
    assert lines[-1].endswith(" letters: --json prints it")


def test_a_long_list_of_parameters_is_whole_in_the_json_of_identify(run_pecli) -> None:
    """The command of the JSON can be run: it has all 32 numbers of both lists, with 2 · 31 commas."""
    outcome = identify_a_table_with_32_divisors(run_pecli, "--json")
    (match,) = outcome.json["matches"]
    whole_list = ",".join(f"{divisor:g}" for divisor in DIVISORS)

    assert f"--short-factor {whole_list} " in match["command"]
    assert f"--long-factor {whole_list} " in match["command"]
    assert match["command"].count(",") == 2 * 31
