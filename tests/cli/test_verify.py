"""`pecli verify`: files that carry their spec."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import pecli

SPECS = [
    pecli.Sinusoidal(9, 6, dtype="float16"),
    pecli.Sinusoidal(9, 7, style="fairseq"),
    pecli.Rope(9, 6, base=500000.0, layout="halves"),
    pecli.Alibi(5, 7, form="causal"),
    pecli.Alibi(6, slopes=True, dtype="float64"),
    pecli.LearnedInit(9, 6, init="trunc-normal", seed=3),
]


def rewrite(path, change) -> None:
    """Write a safetensors file again with the official library, after a change to tensors and metadata."""
    with safe_open(path, "np") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
        metadata = dict(file.metadata())
    change(tensors, metadata)
    save_file(tensors, path, metadata)


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
@pytest.mark.parametrize("scheme", SPECS, ids=lambda scheme: scheme.name)
def test_what_was_saved_verifies(pecli_cli, tmp_path, scheme, suffix) -> None:
    path = tmp_path / f"t.{suffix}"
    pecli.save(path, scheme)
    outcome = pecli_cli("verify", path, "--json")
    assert outcome.code == 0
    assert outcome.json["passed"] is True
    assert pecli.verify(str(path)).passed


@pytest.mark.parametrize("file", ["x.safetensors", "x.safetensors:pe", "link.safetensors", "pecli.toml"])
def test_a_report_never_replaces_what_is_verified(pecli_cli, tmp_path, monkeypatch, file) -> None:
    monkeypatch.chdir(tmp_path)
    pecli.save("x.safetensors", pecli.Sinusoidal(4, 8))
    (tmp_path / "link.safetensors").symlink_to("x.safetensors")
    (tmp_path / "pecli.toml").write_text('[[check]]\nfile = "x.safetensors"\n')
    report = "pecli.toml" if file == "pecli.toml" else "x.safetensors"
    before = (tmp_path / report).read_bytes()
    refused = pecli_cli("verify", file, "--junit", report)
    assert (refused.code, refused.out) == (2, "")
    assert "one of the files to verify" in refused.err
    assert (tmp_path / report).read_bytes() == before


def test_one_changed_element_fails(pecli_cli, tmp_path) -> None:
    path = tmp_path / "t.safetensors"
    pecli.save(path, pecli.Rope(9, 6))

    def change(tensors, metadata) -> None:
        tensors["cos"][3, 1] += 2.0**-20

    rewrite(path, change)
    outcome = pecli_cli("verify", path, "--json")
    assert outcome.code == 1
    by_name = {tensor["name"]: tensor for tensor in outcome.json["tensors"]}
    assert by_name["cos"]["mismatched"] == 1
    assert by_name["cos"]["worst_index"] == [3, 1]
    assert by_name["cos"]["max_abs_error"] == pytest.approx(2.0**-20, rel=0.1)
    assert by_name["sin"]["mismatched"] == 0
    text = pecli_cli("verify", path)
    assert text.out.startswith("FAILED")
    assert "[3, 1]" in text.out


def negative_zero(tensors, metadata) -> None:
    tensors["sin"][0, 0] = -0.0  # which breaks the hash, but no value


def rename(tensors, metadata) -> None:
    tensors["tan"] = tensors.pop("sin")


def claim_a_huge_table(tensors, metadata) -> None:
    spec = json.loads(metadata["pecli"])
    spec["parameters"]["seq_len"] = 2**40
    metadata["pecli"] = json.dumps(spec)


CHANGES = {negative_zero: ["sha256"], claim_a_huge_table: ["1099511627776"]}
CHANGES[rename] = ["tan: rope has no such tensor", "sin: the tensor is missing"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_is_not_what_its_spec_says_fails(pecli_cli, tmp_path, change) -> None:
    path = tmp_path / "t.safetensors"
    pecli.save(path, pecli.Rope(4, 4))
    alone = pecli_cli("verify", f"{path}:cos", "--json")
    assert (alone.code, [tensor["name"] for tensor in alone.json["tensors"]]) == (0, ["cos"])
    rewrite(path, change)
    outcome = pecli_cli("verify", path, "--json")
    assert outcome.code == 1
    assert all(said in " ".join(outcome.json["diagnosis"]) for said in CHANGES[change])
    if change is negative_zero:
        assert not any(tensor["mismatched"] for tensor in outcome.json["tensors"])


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"scheme": NaN}', "[" * 100_000, '{"scheme": "rope"}',
     '{"scheme": "rope", "parameters": 3}',
     '{"scheme": "rope", "parameters": {"dim": 4}}', '{"scheme": "rope", "parameters": {"seq_len": -1}}',
     '{"scheme": ["rope"], "parameters": {}}', '{"scheme": "sinusoidal", "parameters": {"style": "paper"}}'],
)  # fmt: skip
def test_a_spec_that_makes_no_table_is_a_broken_file(pecli_cli, tmp_path, text) -> None:
    path = tmp_path / "t.safetensors"
    save_file({"pe": np.zeros((2, 2), np.float32)}, path, {"pecli": text})
    outcome = pecli_cli("verify", path)
    assert outcome.code == 3
    assert outcome.err.count("\n") == 1
    assert outcome.err.startswith(f"pecli: error: {path}: ")


def test_a_file_without_spec_says_what_to_do(pecli_cli, tmp_path) -> None:
    np.save(tmp_path / "t.npy", np.zeros((2, 2), np.float32))
    outcome = pecli_cli("verify", tmp_path / "t.npy")
    assert outcome.code == 3
    assert "carries no pecli spec" in outcome.err
    assert "--verify" in outcome.err


def test_several_files_give_json_lines_and_the_worst_code(pecli_cli, tmp_path) -> None:
    good, bad = tmp_path / "good.npz", tmp_path / "bad.safetensors"
    pecli.save(good, pecli.Alibi(4, 4))
    pecli.save(bad, pecli.Alibi(4, 4))

    def change(tensors, metadata) -> None:
        tensors["slopes"][0] = 1

    rewrite(bad, change)
    both = pecli_cli("verify", good, bad, "--json")
    assert both.code == 1
    assert [json.loads(line)["passed"] for line in both.out.splitlines()] == [True, False]
    missing = pecli_cli("verify", tmp_path / "no.npz", good, bad, "-q")
    assert missing.code == 3
    assert missing.out == ""
    assert missing.err.count("\n") == 1


def test_python_takes_paths_and_refuses_bare_numbers(tmp_path) -> None:
    pecli.save(tmp_path / "t.npz", pecli.Rope(4, 4))
    assert pecli.verify(tmp_path / "t.npz").passed
    with pytest.raises(TypeError, match="Tolerance"):
        pecli.verify(tmp_path / "t.npz", tolerance=1e-3)


def test_a_single_frequency_gives_no_base_away(pecli_cli, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama", "head_dim": 2, "hidden_size": 8}')
    np.save(tmp_path / "inv_freq.npy", np.array([0.125]))
    outcome = pecli_cli("verify", tmp_path / "inv_freq.npy", "--config", tmp_path / "config.json")
    assert (outcome.code, outcome.err) == (1, "")
    assert "base" not in outcome.out


def test_a_scalar_is_held_against_the_one_frequency_there_is(pecli_cli, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama", "head_dim": 2, "hidden_size": 8}')
    for value, code in ((1.0, 0), (0.125, 1)):
        np.save(tmp_path / "t.npy", np.array(value))
        outcome = pecli_cli("verify", tmp_path / "t.npy", "--config", tmp_path / "config.json")
        assert (outcome.code, outcome.err) == (code, "")


def test_advice_is_not_to_do_what_was_done(pecli_cli, tmp_path) -> None:
    """HF computes angles in float32, and so does the recipe; what is left is the last place of other sines."""
    path = tmp_path / "cos.npy"
    table = pecli.Rope(64, 128, base=500_000.0, recipe="float32").tables()["cos"]
    np.save(path, np.nextafter(table, np.float32(0)))
    words = ("verify", path, "--model", "llama-3-8b")
    assert "verify with --recipe float32" in pecli_cli(*words).out
    assert "the last place differs, as sines and powers of other libraries do; allow --max-ulp 1\n" in (
        pecli_cli(*words, "--recipe", "float32").out
    )
