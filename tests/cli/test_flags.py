"""`--flags` of config, verify, runtimes and plot."""

from pathlib import Path

FLAGS = "llama-server -c 8192 --rope-scale 2"


def test_config_shows_what_flags_change(pecli_cli) -> None:
    outcome = pecli_cli("config", "llama-2-7b", "--flags", FLAGS)
    assert outcome.code == 0
    assert "flags of llama.cpp" in outcome.out
    assert "pecli rope --seq-len 4096 --dim 128 --scaling linear --factor 2" in outcome.out


def test_config_reports_flags_as_json(pecli_cli) -> None:
    found = pecli_cli("config", "llama-2-7b", "--flags", FLAGS, "--json").json
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


def test_wrong_flags_are_warnings(pecli_cli) -> None:
    flags = "--rope-freq-scale 8 -c 32768"
    outcome = pecli_cli("config", "llama-2-7b", "--flags", flags, "--strict")
    assert outcome.code == 1
    assert "--rope-freq-scale 8 speeds positions up by 8; 0.125 is meant" in outcome.out


def test_unknown_flag_is_an_error(pecli_cli) -> None:
    outcome = pecli_cli("config", "llama-2-7b", "--flags", "llama-server --rope-freqbase 1e6")
    assert outcome.code == 2
    assert "did you mean --rope-freq-base?" in outcome.err


def test_verify_expects_what_the_server_computes(pecli_cli) -> None:
    options = ("--scaling", "linear", "--factor", "2", "--seq-len", "64", "--dim", "128")
    pecli_cli("rope", *options, "-q", "-o", "cos.npz")
    with_flags = pecli_cli("verify", "cos.npz", "--model", "llama-2-7b", "--flags", FLAGS)
    without = pecli_cli("verify", "cos.npz", "--model", "llama-2-7b")
    assert with_flags.code == 0
    assert without.code == 1


def test_verify_needs_a_model_for_flags(pecli_cli) -> None:
    outcome = pecli_cli("verify", "cos.npz", "--flags", FLAGS)
    assert outcome.code == 2
    assert "it belongs to a model" in outcome.err


def test_runtimes_serve_the_context_of_the_flags(pecli_cli) -> None:
    outcome = pecli_cli("runtimes", "llama-2-7b", "--flags", FLAGS, "--runtime", "vllm")
    assert outcome.code == 0
    assert "served with a context of 8,192" in outcome.out


def test_plot_draws_a_model_and_the_model_with_flags(pecli_cli) -> None:
    outcome = pecli_cli("plot", "llama-2-7b", "--flags", FLAGS, "--kind", "wavelengths")
    assert outcome.code == 0
    assert "llama-2-7b with flags" in outcome.out


def test_plot_of_a_file_takes_no_flags(pecli_cli) -> None:
    pecli_cli("sinusoidal", "--seq-len", "8", "--dim", "8", "-q", "-o", "pe.npy")
    assert Path("pe.npy").exists()
    outcome = pecli_cli("plot", "pe.npy", "--flags", FLAGS)
    assert outcome.code == 2
    assert "flags belong to a model" in outcome.err
