"""`--flags`: the command line of a server changes the model that config, verify, runtimes and plot read.

The model is Llama 2 7B: 4,096 positions, base 10000, no scaling. Expected values follow from the
meaning of llama.cpp's flags: `--rope-scale 2` divides all frequencies by 2.
"""

from pathlib import Path

from tests.exit_codes import CHECK_FAILED, SUCCESS, USAGE_ERROR

SERVER_COMMAND = "llama-server -c 8192 --rope-scale 2"
"""The server of llama.cpp with 8,192 positions, and all frequencies divided by 2."""


def test_config_prints_the_scaling_that_a_server_adds_to_a_model(run_pecli) -> None:
    """llama.cpp's `--rope-scale 2` scales Llama 2's positions linearly by 2, which the printed
    command states. Printed commands make tables of at most 4,096 rows unless --seq-len asks for
    more; the longer context of the server, -c 8192, does not change that.
    """
    flags = "llama-server -c 8192 --rope-scale 2"
    outcome = run_pecli("config", "llama-2-7b", "--flags", flags)
    assert outcome.exit_code == SUCCESS
    assert "flags of llama.cpp" in outcome.out

    command = "pecli rope --seq-len 4096 --dim 128 --scaling linear --factor 2 -o rope.safetensors"
    assert outcome.out.splitlines()[-1] == command


def test_config_as_json_reports_what_the_flags_of_a_server_change(run_pecli) -> None:
    """SERVER_COMMAND is `llama-server -c 8192 --rope-scale 2`; Llama 2 has no scaling of its own.
    The first change is the scaling, the second its factor.
    """
    found = run_pecli("config", "llama-2-7b", "--flags", SERVER_COMMAND, "--json").json
    assert found["context"] == 8192
    assert found["flags"]["server"] == "llama.cpp"

    factor = found["flags"]["changes"][1]
    assert factor == {
        "layer_type": "",
        "name": "factor",
        "before": None,
        "after": 2.0,
        "source": "--rope-scale",
    }


def test_a_frequency_scale_above_1_is_a_warning_that_strict_makes_a_failure(run_pecli) -> None:
    """llama.cpp's --rope-freq-scale is one over the factor: who means a factor of 8 has to write
    1/8 = 0.125.
    """
    flags = "--rope-freq-scale 8 -c 32768"
    outcome = run_pecli("config", "llama-2-7b", "--flags", flags, "--strict")

    assert outcome.exit_code == CHECK_FAILED
    assert "--rope-freq-scale 8 speeds positions up by 8; 0.125 is meant" in outcome.out


def test_an_unknown_flag_of_a_server_is_an_error_with_a_hint(run_pecli) -> None:
    """--flags has the command line of a server; «--rope-freqbase» lacks a hyphen of llama.cpp's
    «--rope-freq-base».
    """
    outcome = run_pecli("config", "llama-2-7b", "--flags", "llama-server --rope-freqbase 1e6")
    assert outcome.exit_code == USAGE_ERROR
    assert "did you mean --rope-freq-base?" in outcome.err


def test_verify_expects_the_tables_that_the_server_computes(run_pecli) -> None:
    """The file has a table scaled linearly by 2, which is right for Llama 2 with the flags of
    SERVER_COMMAND (`--rope-scale 2`), and wrong without them.
    """
    options = ("--scaling", "linear", "--factor", "2", "--seq-len", "64", "--dim", "128")
    run_pecli("rope", *options, "-q", "-o", "cos.npz")
    with_flags = run_pecli("verify", "cos.npz", "--model", "llama-2-7b", "--flags", SERVER_COMMAND)
    without = run_pecli("verify", "cos.npz", "--model", "llama-2-7b")

    assert with_flags.exit_code == SUCCESS
    assert without.exit_code == CHECK_FAILED


def test_verify_needs_a_model_for_flags(run_pecli) -> None:
    """Flags of a server change the settings of a model; none is named."""
    outcome = run_pecli("verify", "cos.npz", "--flags", SERVER_COMMAND)
    assert outcome.exit_code == USAGE_ERROR
    assert "it belongs to a model" in outcome.err


def test_runtimes_states_the_context_with_which_the_server_runs(run_pecli) -> None:
    """llama-server's flag -c 8192 replaces the context of Llama 2, which is 4,096."""
    words = ("runtimes", "llama-2-7b", "--runtime", "llama.cpp")
    with_flags = run_pecli(*words, "--flags", "llama-server -c 8192")
    without_flags = run_pecli(*words)

    assert with_flags.exit_code == SUCCESS
    assert with_flags.out.startswith("llama-2-7b, served with a context of 8,192\n")
    assert without_flags.out.startswith("llama-2-7b, served with a context of 4,096\n")


def test_plot_draws_a_model_and_the_model_with_flags(run_pecli) -> None:
    """The flags scale positions by 2; the curve of the model as it is stands beside that with
    flags.
    """
    outcome = run_pecli("plot", "llama-2-7b", "--flags", SERVER_COMMAND, "--kind", "wavelengths")
    assert outcome.exit_code == SUCCESS
    assert "llama-2-7b with flags" in outcome.out


def test_plot_takes_flags_for_a_model_that_an_option_names(run_pecli) -> None:
    """`plot --model M --flags …` draws the same as `plot M --flags …`."""
    words = ("--flags", SERVER_COMMAND, "--kind", "wavelengths")
    expected = run_pecli("plot", "llama-2-7b", *words).out
    assert "llama-2-7b with flags" in expected
    assert run_pecli("plot", "--model", "llama-2-7b", *words).out == expected
    assert run_pecli("plot", "--model=llama-2-7b", *words).out == expected


def test_plot_of_a_scheme_with_a_model_names_the_command_that_takes_flags(run_pecli) -> None:
    """--flags has the options of a server, which replace settings of a model. `pecli plot rope
    --model` has settings of its own and refuses them; the error has the command that draws the
    model with flags.
    """
    words = ("plot", "rope", "--model", "llama-2-7b", "--seq-len", "64", "--flags", "-c 4096")
    outcome = run_pecli(*words)
    assert outcome.exit_code == USAGE_ERROR
    assert "pecli plot llama-2-7b --flags" in outcome.err


def test_plot_of_a_file_refuses_flags(run_pecli) -> None:
    """A file with a table has no model whose settings the flags could change."""
    run_pecli("sinusoidal", "--seq-len", "8", "--dim", "8", "-q", "-o", "pe.npy")
    assert Path("pe.npy").exists()

    outcome = run_pecli("plot", "pe.npy", "--flags", SERVER_COMMAND)
    assert outcome.exit_code == USAGE_ERROR
    assert "flags belong to a model" in outcome.err
