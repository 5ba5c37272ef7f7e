"""`pecli identify`: what made an unknown table."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest

import pecli


@pytest.fixture
def slopes(tmp_path):
    path = tmp_path / "slopes.npy"
    np.save(path, 2.0 ** (-8 * np.arange(1, 13) / 12))
    return path


@pytest.fixture
def noise(tmp_path):
    path = tmp_path / "noise.npy"
    np.save(path, np.random.default_rng(8).normal(size=(64, 32)).astype(np.float32))
    return path


def test_the_command_stands_on_a_line_of_its_own_and_works(pecli_cli, slopes, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = pecli_cli("identify", slopes)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0] == f"identified  {slopes}"
    assert "rule=naive" in outcome.out
    command = next(line for line in lines if line.startswith("pecli "))
    assert pecli_cli(*shlex.split(command)[1:]).code == 0
    assert np.allclose(np.load("again.npy"), np.load(slopes), rtol=1e-15, atol=0)


def test_json_has_the_fields_of_the_contract(pecli_cli, slopes) -> None:
    found = pecli_cli("identify", slopes, "--json").json
    match = found["matches"][0]
    assert match["scheme"] == "alibi"
    assert match["parameters"]["heads"] == 12
    assert match["recipe"] == "exact"
    assert match["max_abs_error"] < 1e-15
    assert match["command"].startswith("pecli alibi --heads 12 --rule naive --slopes")


def test_no_is_exit_code_one(pecli_cli, noise) -> None:
    outcome = pecli_cli("identify", noise)
    assert outcome.code == 1
    assert outcome.out.startswith(f"not identified  {noise}\n")
    assert "normal, std" in outcome.out
    assert pecli_cli("identify", noise, "-q").out == ""


def test_several_files_give_json_lines_and_the_worst_code(pecli_cli, slopes, noise, tmp_path) -> None:
    outcome = pecli_cli("identify", slopes, noise, "--json")
    assert outcome.code == 1
    assert [json.loads(line)["identified"] for line in outcome.out.splitlines()] == [True, False]
    outcome = pecli_cli("identify", tmp_path / "none.npy", slopes, "--json")
    assert outcome.code == 3
    assert "does not exist" in outcome.err
    first, second = map(json.loads, outcome.out.splitlines())
    assert first["matches"] == []
    assert second["identified"]


def test_what_is_open_and_otherwise_is_said(pecli_cli, tmp_path) -> None:
    np.save(tmp_path / "t.npy", (-(2.0 ** -np.arange(1, 9)))[:, None, None] * np.arange(40.0))
    out = pecli_cli("identify", tmp_path / "t.npy").out
    assert "in the file: the sign is flipped" in out


def test_a_tensor_of_a_checkpoint(pecli_cli, tmp_path) -> None:
    path = tmp_path / "model.safetensors"
    tensors = {f"h.{k}.weight": np.ones((4, 4), np.float32) for k in range(12)}
    pecli.save(path, {**tensors, "wpe.weight": pecli.Sinusoidal(64, 32).tables()["pe"]})
    outcome = pecli_cli("identify", path)
    assert outcome.code == 0
    assert "wpe.weight: sinusoidal" in outcome.out
    assert pecli_cli("identify", f"{path}:h.3.weight").code == 1
    assert pecli_cli("identify", f"{path}:h.33.weight").code == 3


def test_standard_input(process, slopes) -> None:
    outcome = process("identify", "-", "--json", input=slopes.read_bytes())
    assert outcome.returncode == 0
    assert json.loads(outcome.stdout)["matches"][0]["scheme"] == "alibi"


def test_long_lists_are_told_once_and_in_full_by_the_command(pecli_cli, tmp_path) -> None:
    by = [1 + k / 8 for k in range(32)]
    angles = np.outer(np.arange(512), 10000.0 ** (-np.arange(32) / 32) / by)
    np.savez(tmp_path / "t.npz", cos=np.cos(angles).astype(np.float32), sin=np.sin(angles).astype(np.float32))
    outcome = pecli_cli("identify", tmp_path / "t.npz")
    parameters, command = (
        next(line for line in outcome.out.splitlines() if line.startswith(start)) for start in ("  seq_len", "pecli ")
    )
    assert "(32 numbers)" in parameters
    assert len(parameters) < 400
    assert command.count(",") == 62
