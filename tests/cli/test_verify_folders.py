"""`pecli verify` of what people have: folders, shards, and several files of which some have no tables.

The fixture `folder` is a checkpoint of two files and a config.json with base 500000: a.safetensors
has 20 weights and no table, b.safetensors the frequencies 500000^(−i/8). TINY_LLAMA is one random
model that torch and transformers saved in several formats.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS

TINY_LLAMA = Path(__file__).parents[1] / "files" / "data" / "tiny_llama"
Run = Callable[..., Any]


@pytest.fixture
def folder(working_folder: Path) -> Path:
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
    return working_folder


@pytest.mark.parametrize("form", ["one_file", "shards", "bin", "onnx", "onnx_external"])
def test_every_form_of_a_model_has_one_answer(run_pecli: Run, form: str) -> None:
    """The same tiny Llama as one file, shards, PyTorch and ONNX; 13 is the number of its tensors."""
    expected = run_pecli("verify", TINY_LLAMA / "one_file", "--json").json
    found = run_pecli("verify", TINY_LLAMA / form, "--json")

    assert found.exit_code == SUCCESS
    assert found.json["passed"]
    assert {*found.json["unchecked"]} >= {*expected["unchecked"]}
    assert {**found.json, "file": "", "unchecked": []} == {**expected, "file": "", "unchecked": []}

    one, other = (
        run_pecli("config", TINY_LLAMA / each, "--json").json for each in ("one_file", form)
    )
    assert {**one, "file": ""} == {**other, "file": ""}

    one, other = (
        run_pecli("inspect", TINY_LLAMA / each, "--json").json["tensors"]
        for each in ("one_file", form)
    )
    assert [each for each in other if each in one] == [
        each for each in other if not each["name"].startswith("val_")
    ]
    assert len([each for each in other if each in one]) == len(one) == 13


def test_a_folder_is_checked_by_its_own_config(run_pecli: Run, folder: Path) -> None:
    """The stored frequencies have base 500000."""
    assert run_pecli("verify", ".").exit_code == SUCCESS

    config = json.loads(Path("config.json").read_text()) | {"rope_theta": 10000.0}
    Path("config.json").write_text(json.dumps(config))
    assert run_pecli("verify", ".").exit_code == CHECK_FAILED
    assert run_pecli("verify", ".", "--config", TINY_LLAMA / "one_file").exit_code == CHECK_FAILED

    Path("config.json").unlink()
    outcome = run_pecli("verify", ".")
    assert outcome.exit_code == FILE_ERROR
    assert "carries no pecli spec" in outcome.err


VERIFY_TWO_FILES = ("verify", "a.safetensors", "b.safetensors", "--config", "config.json")


def test_a_file_without_tables_is_skipped_beside_others(
    run_pecli: Run, folder: Path, monkeypatch
) -> None:
    """The first file has only weights, the second frequencies that are right, and then wrong."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    outcome = run_pecli(*VERIFY_TWO_FILES)

    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""
    assert "::error" not in outcome.out
    assert "skipped  a.safetensors: has no positional tables of rope (20 tensors" in outcome.out
    assert "modern checkpoints compute them: use a dump" in outcome.out

    lines = run_pecli(*VERIFY_TWO_FILES, "--json").out.splitlines()
    assert [json.loads(line)["status"] for line in lines] == ["skipped", "passed"]

    save_file({"rotary_emb.inv_freq": np.ones(8, np.float32)}, "b.safetensors")
    assert run_pecli(*VERIFY_TWO_FILES).exit_code == CHECK_FAILED


def test_a_file_without_tables_is_an_error_alone_or_if_all_are_so(
    run_pecli: Run, folder: Path
) -> None:
    outcome = run_pecli("verify", "a.safetensors", "--config", "config.json")
    assert outcome.exit_code == FILE_ERROR
    assert outcome.out == ""
    assert "a.safetensors: has no positional tables of rope (20 tensors" in outcome.err

    outcome = run_pecli("verify", "a.safetensors", "a.safetensors", "--config", "config.json")
    assert outcome.exit_code == FILE_ERROR
    assert outcome.err.count("\n") == 1
    assert "the command line: none of 2 files has positional tables" in outcome.err


def write_manifest(**check: Any) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in check.items()]
    Path("pecli.toml").write_text("\n".join(["[[check]]", *lines]))
    return "pecli.toml"


def test_a_pattern_in_a_manifest_is_one_check_per_file(run_pecli: Run, folder: Path) -> None:
    path = write_manifest(file="*.safetensors", config="config.json", name="shards")
    outcome = run_pecli("verify", path, "--junit", "report.xml")

    assert outcome.exit_code == SUCCESS
    assert "2 checks: 1 passed, 1 skipped" in outcome.out
    assert "shards: b.safetensors" in outcome.out

    report = ElementTree.parse("report.xml").getroot()
    assert [report.get(key) for key in ("tests", "failures", "errors", "skipped")] == [
        "2",
        "0",
        "0",
        "1",
    ]


def test_what_patterns_of_files_tensors_and_folders_match(run_pecli: Run, folder: Path) -> None:
    """Patterns may name a tensor after a colon; one that matches nothing is a file error."""
    Path("dumps/x").mkdir(parents=True)
    np.savez("dumps/x/b.npz", inv_freq=500000.0 ** (-np.arange(8) / 8), other=np.zeros(3))

    assert (
        run_pecli(
            "verify", write_manifest(file="dumps/**/*.npz:inv_freq", config="config.json")
        ).exit_code
        == SUCCESS
    )
    assert (
        run_pecli(
            "verify", write_manifest(file="dumps/**/*.npz:other", config="config.json")
        ).exit_code
        == CHECK_FAILED
    )
    assert run_pecli("verify", write_manifest(file=str(TINY_LLAMA / "shards"))).exit_code == SUCCESS
    assert (
        run_pecli("verify", write_manifest(file=".", model="llama-3.1-8b")).exit_code
        == CHECK_FAILED
    )

    problems = {
        "*.npz": "*.npz: matches no file",
        "a.*": "none of 1 files has positional tables",
        "a.safetensors": "",
    }
    for file, problem in problems.items():
        outcome = run_pecli("verify", write_manifest(file=file, config="config.json"))
        assert outcome.exit_code == FILE_ERROR
        assert problem in outcome.err
