"""`pecli verify pecli.toml`: many checks in one process."""

from __future__ import annotations

import json
import os
from xml.etree import ElementTree

import numpy as np
import pytest

import pecli

BASES = range(1000, 51000, 1000)


@pytest.fixture
def fifty(tmp_path):
    """A manifest of fifty checks, each of a table with a base of its own."""
    lines = ["[defaults]", "atol = 1e-6"]
    for base in BASES:
        angles = np.arange(12)[:, None] * float(base) ** (-np.arange(0, 8, 2) / 8)
        np.save(tmp_path / f"{base}.npy", np.stack([np.cos(angles), np.sin(angles)]).astype(np.float32))
        lines += ["[[check]]", f'name = "base {base}"', f'file = "{base}.npy"', 'scheme = "rope"',
                  "seq_len = 12", "dim = 8", f"base = {base}"]  # fmt: skip
    (tmp_path / "pecli.toml").write_text("\n".join(lines))
    return tmp_path / "pecli.toml"


def test_fifty_checks_pass(pecli_cli, fifty, tmp_path) -> None:
    outcome = pecli_cli("verify", fifty, "--junit", tmp_path / "r.xml")
    assert outcome.code == 0
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["status", "check", "worst", "error"]
    assert [line.split()[:3] for line in lines[1:51]] == [["passed", "base", str(base)] for base in BASES]
    assert lines[51:] == ["50 checks: 50 passed"]
    suites = ElementTree.parse(tmp_path / "r.xml").getroot()
    cases = suites.findall("./testsuite/testcase")
    assert [case.get("name") for case in cases] == [f"base {base}" for base in BASES]
    assert (suites.get("tests"), suites.get("failures"), suites.get("errors")) == ("50", "0", "0")


def test_one_fails_then_one_is_missing(pecli_cli, fifty, tmp_path) -> None:
    table = np.load(tmp_path / "7000.npy")
    table[1, 11, 3] += 0.5
    np.save(tmp_path / "7000.npy", table)
    failed = pecli_cli("verify", fifty, "--junit", tmp_path / "r.xml")
    assert failed.code == 1
    assert failed.err == ""
    lines = failed.out.splitlines()
    assert lines[7].split()[:4] == ["FAILED", "base", "7000", "0.5"]
    assert any("1 of 96 out of tolerance" in line for line in lines[8:12])
    assert any("[1, 11, 3]" in line for line in lines)
    assert lines[-1] == "50 checks: 49 passed, 1 failed"
    (failure,) = ElementTree.parse(tmp_path / "r.xml").getroot().iter("failure")
    assert "[1, 11, 3]" in failure.text
    os.unlink(tmp_path / "9000.npy")
    missing = pecli_cli("verify", fifty, "--junit", tmp_path / "r.xml")
    assert missing.code == 3
    assert missing.err == f"pecli: error: {tmp_path / '9000.npy'}: does not exist\n"
    assert missing.out.splitlines()[-1] == "50 checks: 48 passed, 1 failed, 1 error"
    (error,) = ElementTree.parse(tmp_path / "r.xml").getroot().iter("error")
    assert "does not exist" in error.get("message")
    quiet = pecli_cli("verify", fifty, "-q")
    assert (quiet.code, quiet.out, quiet.err) == (3, "", missing.err)


def test_a_malformed_manifest_runs_nothing(pecli_cli, fifty, tmp_path) -> None:
    with open(fifty, "a") as file:
        file.write("\n[[check]]\nfile = 3\n")
    outcome = pecli_cli(
        "verify", tmp_path / "1000.npy", fifty, "--model", "llama-3.1-8b", "--junit", tmp_path / "r.xml"
    )
    assert outcome.code == 2
    assert outcome.out == ""
    assert "check 51: file is 3" in outcome.err
    assert not (tmp_path / "r.xml").exists()


def test_json_lines_in_order_and_no_annotations(pecli_cli, fifty, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    os.unlink(tmp_path / "2000.npy")
    outcome = pecli_cli("verify", fifty, "--json")
    assert outcome.code == 3
    found = [json.loads(line) for line in outcome.out.splitlines()]
    assert [each["name"] for each in found] == [f"base {base}" for base in BASES]
    assert [each["passed"] for each in found] == [base != 2000 for base in BASES]
    assert "does not exist" in found[1]["diagnosis"][0]
    keys = {"name", "file", "scheme", "passed", "tensors", "diagnosis"}
    assert all(keys <= set(each) for each in found)


def test_annotations_where_github_runs_it(pecli_cli, fifty, tmp_path, monkeypatch) -> None:
    os.unlink(tmp_path / "2000.npy")
    assert "::error" not in pecli_cli("verify", fifty).out
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for words in ((), ("-q",)):
        outcome = pecli_cli("verify", fifty, *words)
        (line,) = (line for line in outcome.out.splitlines() if line.startswith("::"))
        file = str(tmp_path / "2000.npy")
        assert line == f"::error file={file},title=pecli verify%3A base 2000::{file}: does not exist"


def test_manifests_and_files_together(pecli_cli, fifty, tmp_path) -> None:
    pecli.save(tmp_path / "own.safetensors", pecli.Alibi(4, 5))
    other = tmp_path / "other.toml"
    other.write_text('[[check]]\nfile = "own.safetensors"\n')
    outcome = pecli_cli("verify", fifty, tmp_path / "own.safetensors", other, "--junit", tmp_path / "r.xml")
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == "52 checks: 52 passed"
    suites = ElementTree.parse(tmp_path / "r.xml").getroot()
    assert [suite.get("tests") for suite in suites] == ["50", "1", "1"]


def test_it_is_one_process_with_few_threads(process, tmp_path) -> None:
    pecli.save(tmp_path / "own.safetensors", pecli.Rope(4, 4))
    (tmp_path / "pecli.toml").write_text('[[check]]\nfile = "own.safetensors"\n' * 20)
    for threads in ("1", "3"):
        settings = {**os.environ, "PECLI_THREADS": threads}
        done = process("verify", "pecli.toml", env=settings)
        assert done.returncode == 0
        assert done.stdout.decode().splitlines()[-1] == "20 checks: 20 passed"


def test_a_report_that_cannot_be_written(pecli_cli, fifty, tmp_path) -> None:
    outcome = pecli_cli("verify", fifty, "--junit", tmp_path / "no" / "r.xml")
    assert outcome.code == 3
    assert "make it first" in outcome.err


def test_hostile_names_do_not_act(pecli_cli, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    name = 'x\x1b[2J,:%"<&>.npy'
    (tmp_path / "pecli.toml").write_text(f"[[check]]\nfile = {json.dumps(name)}\n")
    outcome = pecli_cli("verify", tmp_path / "pecli.toml", "--junit", tmp_path / "r.xml")
    assert outcome.code == 3
    assert "\x1b" not in outcome.out + outcome.err
    (case,) = ElementTree.parse(tmp_path / "r.xml").getroot().iter("testcase")
    assert case.get("name") == name.replace("\x1b", "\\x1b")


MODEL_WORDS = [
    (["--model", "llama-3.1-8b", "--config", "c.json"], "not both"),
    (["--offset", "3"], "add --config or --model"),
    (["--layer-type", "full_attention"], "add --config or --model"),
    (["--model", "gemma-3-1b", "--layer-type", "no"], "--layer-type is 'no'"),
    (["--model", "lama-3.1-8b"], "did you mean 'llama-3.1-8b'?"),
    (["--model", "llama-3.1-8b", "--offset", "x"], "--offset is 'x'"),
    (["--model", "llama-3.1-8b", "--length", "0"], "--length is 0"),
    (["--model", "llama-3.1-8b", "--atol", "x"], "--atol is 'x'"),
]


@pytest.mark.parametrize(("words", "problem"), MODEL_WORDS)
def test_options_that_make_no_sense(pecli_cli, tmp_path, words, problem) -> None:
    np.save(tmp_path / "t.npy", np.ones((2, 64), np.float32))
    outcome = pecli_cli("verify", tmp_path / "t.npy", *words)
    assert outcome.code == 2
    assert problem in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_model_beside_nothing_but_manifests(pecli_cli, fifty) -> None:
    outcome = pecli_cli("verify", fifty, "--model", "llama-3.1-8b")
    assert outcome.code == 2
    assert "a manifest says itself" in outcome.err


def test_files_against_a_configuration(pecli_cli, tmp_path) -> None:
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    angles = np.arange(9)[:, None] * 10000.0 ** (-np.arange(0, 16, 2) / 16)
    doubled = {name: np.concatenate([part, part], 1).astype(np.float32)
               for name, part in (("cos_cached", np.cos(angles)), ("sin_cached", np.sin(angles)))}  # fmt: skip
    np.savez(tmp_path / "t.npz", **doubled)
    words = ["--config", tmp_path / "config.json", "--atol", "1e-6"]
    outcome = pecli_cli("verify", tmp_path / "t.npz", *words)
    assert outcome.code == 0
    assert outcome.out.splitlines()[1].startswith("  cos_cached  9 × 16, two columns per frequency (c0 c1 … c0 c1 …), ")
    outcome = pecli_cli("verify", f"{tmp_path / 't.npz'}:sin_cached", *words, "--offset", 1, "--json")
    assert outcome.code == 1
    assert [tensor["name"] for tensor in outcome.json["tensors"]] == ["sin_cached"]
    assert outcome.json["readings"] == {"sin_cached": "two columns per frequency (c0 c1 … c0 c1 …)"}
    missing = pecli_cli("verify", tmp_path / "t.npz", "--config", tmp_path / "no.json")
    assert missing.code == 3
    nothing = pecli_cli("verify", tmp_path / "t.npz", "--model", "gpt2")
    assert nothing.code == 3
    assert "FILE:NAME" in nothing.err


def test_a_pass_that_proves_little_says_so(pecli_cli, tmp_path) -> None:
    """A factor of 1.001 changes the fastest angle by 0.001 from one row to the next, which is within the tolerance."""
    angles = np.arange(2)[:, None] * 10000.0 ** (-np.arange(64) / 64)
    np.savez(tmp_path / "t.npz", cos=np.cos(angles), sin=np.sin(angles))
    keys = 'scheme = "rope"\nseq_len = 2\ndim = 128\nscaling = "linear"\nfactor = 1.001\natol = 0.01\n'
    (tmp_path / "pecli.toml").write_text(f'[[check]]\nfile = "t.npz"\n{keys}')
    outcome = pecli_cli("verify", tmp_path / "pecli.toml")
    assert (outcome.code, "passed  t.npz" in outcome.out) == (0, True)
    assert "        weak: 2 rows cannot tell linear scaling from none: compare " in outcome.out
    assert "ulp" not in outcome.out
    report = tmp_path / "report.xml"
    strict = pecli_cli("verify", tmp_path / "pecli.toml", "--strict", "--junit", report)
    assert (strict.code, strict.out.splitlines()[-1]) == (1, "1 check: 1 weak")
    assert strict.out.splitlines()[1].startswith("WEAK    t.npz")
    (suite,) = ElementTree.parse(report).getroot()
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
    (failure,) = suite[0]
    assert (failure.tag, (failure.text or "").startswith("weak: 2 rows cannot tell")) == ("failure", True)
    found = pecli_cli("verify", tmp_path / "pecli.toml", "--strict", "--json").json
    assert (found["status"], found["passed"], bool(found["weak"])) == ("weak", True, True)


def test_a_strict_check_of_one_file_is_weak_or_passed(pecli_cli, tmp_path) -> None:
    """Of position 0, every cosine is 1 whatever the base is."""
    np.save(tmp_path / "cos.npy", np.ones((1, 64)))
    words = "verify", tmp_path / "cos.npy", "--model", "llama-3.1-8b", "--atol", 1e-3
    assert (pecli_cli(*words).code, pecli_cli(*words).out.split()[0]) == (0, "passed")
    strict = pecli_cli(*words, "--strict")
    assert (strict.code, strict.out.split()[0], "  weak: 1 row cannot tell" in strict.out) == (1, "WEAK", True)
