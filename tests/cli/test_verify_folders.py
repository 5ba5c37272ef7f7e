"""`pecli verify` of what people have: folders, shards, several files of which some have no tables."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from safetensors.numpy import save_file

LLAMA = Path(__file__).parents[1] / "files" / "data" / "tiny_llama"
Run = Callable[..., Any]


@pytest.fixture
def folder(here: Path) -> Path:
    """A checkpoint of two files, the first without tables."""
    config = {
        "model_type": "llama",
        "hidden_size": 32,
        "num_attention_heads": 2,
        "rope_theta": 500000.0,
    }
    Path("config.json").write_text(json.dumps(config))
    save_file(
        {f"layers.{number}.weight": np.zeros(4, np.float32) for number in range(20)},
        "a.safetensors",
    )
    frequencies = (500000.0 ** (-np.arange(8) / 8)).astype(np.float32)
    save_file(
        {"rotary_emb.inv_freq": frequencies, "norm.weight": np.ones(32, np.float32)},
        "b.safetensors",
    )
    return here


@pytest.mark.parametrize("form", ["one_file", "shards", "bin", "onnx", "onnx_external"])
def test_every_form_of_a_model_has_one_answer(pecli_cli: Run, form: str) -> None:
    expected = pecli_cli("verify", LLAMA / "one_file", "--json").json
    found = pecli_cli("verify", LLAMA / form, "--json")
    assert found.code == 0
    assert found.json["passed"]
    assert {*found.json["unchecked"]} >= {*expected["unchecked"]}
    assert {**found.json, "file": "", "unchecked": []} == {**expected, "file": "", "unchecked": []}
    one, other = (pecli_cli("config", LLAMA / each, "--json").json for each in ("one_file", form))
    assert {**one, "file": ""} == {**other, "file": ""}
    one, other = (
        pecli_cli("inspect", LLAMA / each, "--json").json["tensors"] for each in ("one_file", form)
    )
    assert [each for each in other if each in one] == [
        each for each in other if not each["name"].startswith("val_")
    ]
    assert len([each for each in other if each in one]) == len(one) == 13


def test_a_folder_is_checked_by_its_own_config(pecli_cli: Run, folder: Path) -> None:
    assert pecli_cli("verify", ".").code == 0
    config = json.loads(Path("config.json").read_text()) | {"rope_theta": 10000.0}
    Path("config.json").write_text(json.dumps(config))
    assert pecli_cli("verify", ".").code == 1
    assert pecli_cli("verify", ".", "--config", LLAMA / "one_file").code == 1
    Path("config.json").unlink()
    outcome = pecli_cli("verify", ".")
    assert outcome.code == 3
    assert "carries no pecli spec" in outcome.err


BOTH = ("verify", "a.safetensors", "b.safetensors", "--config", "config.json")


def test_a_file_without_tables_is_an_answer_beside_others(
    pecli_cli: Run, folder: Path, monkeypatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    outcome = pecli_cli(*BOTH)
    assert outcome.code == 0
    assert outcome.err == ""
    assert "::error" not in outcome.out
    assert "skipped  a.safetensors: has no positional tables of rope (20 tensors" in outcome.out
    assert "modern checkpoints compute them: use a dump" in outcome.out
    lines = pecli_cli(*BOTH, "--json").out.splitlines()
    assert [json.loads(line)["status"] for line in lines] == ["skipped", "passed"]
    save_file({"rotary_emb.inv_freq": np.ones(8, np.float32)}, "b.safetensors")
    assert pecli_cli(*BOTH).code == 1


def test_it_is_an_error_alone_or_when_all_are_so(pecli_cli: Run, folder: Path) -> None:
    outcome = pecli_cli("verify", "a.safetensors", "--config", "config.json")
    assert outcome.code == 3
    assert outcome.out == ""
    assert "a.safetensors: has no positional tables of rope (20 tensors" in outcome.err
    outcome = pecli_cli("verify", "a.safetensors", "a.safetensors", "--config", "config.json")
    assert outcome.code == 3
    assert outcome.err.count("\n") == 1
    assert "the command line: none of 2 files has positional tables" in outcome.err


def manifest(**check: Any) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in check.items()]
    Path("pecli.toml").write_text("\n".join(["[[check]]", *lines]))
    return "pecli.toml"


def test_patterns_in_a_manifest(pecli_cli: Run, folder: Path) -> None:
    path = manifest(file="*.safetensors", config="config.json", name="shards")
    outcome = pecli_cli("verify", path, "--junit", "report.xml")
    assert outcome.code == 0
    assert "2 checks: 1 passed, 1 skipped" in outcome.out
    assert "shards: b.safetensors" in outcome.out
    report = ElementTree.parse("report.xml").getroot()
    assert [report.get(key) for key in ("tests", "failures", "errors", "skipped")] == [
        "2",
        "0",
        "0",
        "1",
    ]


def test_what_patterns_of_files_tensors_and_folders_match(pecli_cli: Run, folder: Path) -> None:
    Path("dumps/x").mkdir(parents=True)
    np.savez("dumps/x/b.npz", inv_freq=500000.0 ** (-np.arange(8) / 8), other=np.zeros(3))
    assert (
        pecli_cli("verify", manifest(file="dumps/**/*.npz:inv_freq", config="config.json")).code
        == 0
    )
    assert (
        pecli_cli("verify", manifest(file="dumps/**/*.npz:other", config="config.json")).code == 1
    )
    assert pecli_cli("verify", manifest(file=str(LLAMA / "shards"))).code == 0
    assert pecli_cli("verify", manifest(file=".", model="llama-3.1-8b")).code == 1
    problems = {
        "*.npz": "*.npz: matches no file",
        "a.*": "none of 1 files has positional tables",
        "a.safetensors": "",
    }
    for file, problem in problems.items():
        outcome = pecli_cli("verify", manifest(file=file, config="config.json"))
        assert outcome.code == 3
        assert problem in outcome.err
