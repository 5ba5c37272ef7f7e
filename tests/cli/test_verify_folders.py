"""`pecli verify` of what people have: folders, shards, and several files of which some have no tables.

The fixture `checkpoint_of_base_500000` is a folder of two files and a config.json with base 500000:
a.safetensors has 20 weights and no table, b.safetensors the frequencies 500000^(−i/8). TINY_LLAMA is
one random model that torch and transformers saved in several formats.
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
def checkpoint_of_base_500000(working_folder: Path) -> Path:
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
@pytest.mark.sample(4)
def test_every_form_of_a_model_has_the_same_verdict(run_pecli: Run, form: str) -> None:
    """TINY_LLAMA holds one small model as one file, in shards, as PyTorch's .bin and as ONNX. Only
    the tensors that are not compared may be more: ONNX files also hold constants.
    """
    expected = run_pecli("verify", TINY_LLAMA / "one_file", "--json").json
    outcome = run_pecli("verify", TINY_LLAMA / form, "--json")

    assert outcome.exit_code == SUCCESS
    assert outcome.json["passed"]
    assert {*outcome.json["unchecked"]} >= {*expected["unchecked"]}
    for field in expected.keys() - {"file", "unchecked"}:
        assert outcome.json[field] == expected[field]


@pytest.mark.parametrize("form", ["shards", "bin", "onnx", "onnx_external"])
def test_every_form_of_a_model_has_the_same_configuration(run_pecli: Run, form: str) -> None:
    """TINY_LLAMA holds one small model as one file, in shards, as PyTorch's .bin and as ONNX."""
    expected = run_pecli("config", TINY_LLAMA / "one_file", "--json").json
    config = run_pecli("config", TINY_LLAMA / form, "--json").json
    assert {**config, "file": ""} == {**expected, "file": ""}


@pytest.mark.parametrize("form", ["one_file", "shards", "bin", "onnx", "onnx_external"])
def test_every_form_of_a_model_has_the_same_tensors(run_pecli: Run, form: str) -> None:
    """The tiny Llama has 13 tensors; torch names the constants in its ONNX files val_0, val_1, …"""
    expected = run_pecli("inspect", TINY_LLAMA / "one_file", "--json").json["tensors"]
    listed = run_pecli("inspect", TINY_LLAMA / form, "--json").json["tensors"]
    weights = [tensor for tensor in listed if not tensor["name"].startswith("val_")]

    assert len(weights) == 13
    assert all(tensor in expected for tensor in weights)


def test_a_folder_is_checked_by_its_own_config(
    run_pecli: Run, checkpoint_of_base_500000: Path
) -> None:
    """The folder has weights, the frequencies 500000^(−i/8), and a config.json that states this
    base.
    """
    assert run_pecli("verify", ".").exit_code == SUCCESS


def test_a_folder_whose_config_has_another_base_fails(
    run_pecli: Run, checkpoint_of_base_500000: Path
) -> None:
    """The stored frequencies have base 500000; the config.json beside them, which `pecli verify .`
    takes as expected, is changed to base 10000.
    """
    config = json.loads(Path("config.json").read_text()) | {"rope_theta": 10000.0}
    Path("config.json").write_text(json.dumps(config))
    assert run_pecli("verify", ".").exit_code == CHECK_FAILED


def test_a_model_that_is_named_replaces_the_config_of_the_folder(
    run_pecli: Run, checkpoint_of_base_500000: Path
) -> None:
    """The tiny Llama has the same base, but its llama3 scaling slows the low frequencies down by 8."""
    outcome = run_pecli("verify", ".", "--config", TINY_LLAMA / "one_file")
    assert outcome.exit_code == CHECK_FAILED


def test_a_folder_without_a_config_needs_a_model(
    run_pecli: Run, checkpoint_of_base_500000: Path
) -> None:
    """The folder's config.json is removed; its files were not written by pecli."""
    Path("config.json").unlink()
    outcome = run_pecli("verify", ".")
    assert outcome.exit_code == FILE_ERROR
    assert "carries no pecli spec" in outcome.err


VERIFY_WEIGHTS_AND_TABLES = (
    *("verify", "a.safetensors", "b.safetensors"),
    *("--config", "config.json"),
)
"""a.safetensors has 20 weights and no table, b.safetensors has the frequencies of config.json."""


def test_a_file_without_tables_is_skipped_beside_others(
    run_pecli: Run, checkpoint_of_base_500000: Path
) -> None:
    """a.safetensors has 20 weights and no table, b.safetensors the frequencies of config.json,
    which pass.
    """
    outcome = run_pecli(*VERIFY_WEIGHTS_AND_TABLES)

    assert outcome.exit_code == SUCCESS
    assert outcome.err == ""
    assert "skipped  a.safetensors: has no positional tables of rope (20 tensors" in outcome.out
    assert "modern checkpoints compute them: use a dump" in outcome.out


def test_a_skipped_file_has_no_annotation_on_github(
    run_pecli: Run, checkpoint_of_base_500000: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GITHUB_ACTIONS makes problems annotations; a file without tables, named beside another, is no
    problem.
    """
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert "::error" not in run_pecli(*VERIFY_WEIGHTS_AND_TABLES).out


def test_a_skipped_file_has_its_status_in_json(
    run_pecli: Run, checkpoint_of_base_500000: Path
) -> None:
    """`pecli verify` of two files: the first has weights only and is skipped, the second has
    tables.
    """
    lines = run_pecli(*VERIFY_WEIGHTS_AND_TABLES, "--json").out.splitlines()
    assert [json.loads(line)["status"] for line in lines] == ["skipped", "passed"]


def test_a_skipped_file_does_not_hide_the_failure_of_another(
    run_pecli: Run, checkpoint_of_base_500000: Path
) -> None:
    """`pecli verify` of two files: one has weights only and is skipped, the other has frequencies
    that are all 1, wrong for every model.
    """
    save_file({"rotary_emb.inv_freq": np.ones(8, np.float32)}, "b.safetensors")
    assert run_pecli(*VERIFY_WEIGHTS_AND_TABLES).exit_code == CHECK_FAILED


def test_a_single_file_without_tables_is_a_file_error(
    run_pecli: Run, checkpoint_of_base_500000: Path
) -> None:
    """a.safetensors holds 20 weights and no table: `pecli verify` has nothing to check."""
    outcome = run_pecli("verify", "a.safetensors", "--config", "config.json")
    assert outcome.exit_code == FILE_ERROR
    assert outcome.out == ""
    assert "a.safetensors: has no positional tables of rope (20 tensors" in outcome.err


def test_several_files_none_of_which_has_tables_are_one_file_error(
    run_pecli: Run, checkpoint_of_base_500000: Path
) -> None:
    """The file, which has weights only, is named twice; one line says that neither can be checked."""
    outcome = run_pecli("verify", "a.safetensors", "a.safetensors", "--config", "config.json")
    assert outcome.exit_code == FILE_ERROR
    assert outcome.err.count("\n") == 1
    assert "the command line: none of 2 files has positional tables" in outcome.err


def write_manifest(**check: Any) -> str:
    """Write pecli.toml with one check of these settings."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in check.items()]
    Path("pecli.toml").write_text("\n".join(["[[check]]", *lines]))
    return "pecli.toml"


def test_a_pattern_in_a_manifest_is_one_check_per_file(
    run_pecli: Run, checkpoint_of_base_500000: Path
) -> None:
    """*.safetensors is a.safetensors, which is skipped, and b.safetensors."""
    path = write_manifest(file="*.safetensors", config="config.json", name="shards")
    outcome = run_pecli("verify", path, "--junit", "report.xml")

    assert outcome.exit_code == SUCCESS
    assert "2 checks: 1 passed, 1 skipped" in outcome.out
    assert "shards: b.safetensors" in outcome.out

    report = ElementTree.parse("report.xml").getroot()
    assert report.get("tests") == "2"
    assert report.get("failures") == "0"
    assert report.get("errors") == "0"
    assert report.get("skipped") == "1"


@pytest.mark.parametrize(
    ("tensor", "code"), [("inv_freq", SUCCESS), ("other", CHECK_FAILED)], ids=["right", "wrong"]
)
def test_a_pattern_in_a_manifest_may_name_a_tensor_of_each_file(
    run_pecli: Run, checkpoint_of_base_500000: Path, tensor: str, code: int
) -> None:
    """The file dumps/x/b.npz holds the right frequencies and three zeros; ** is any folder."""
    Path("dumps/x").mkdir(parents=True)
    np.savez("dumps/x/b.npz", inv_freq=500000.0 ** (-np.arange(8) / 8), other=np.zeros(3))
    path = write_manifest(file=f"dumps/**/*.npz:{tensor}", config="config.json")

    assert run_pecli("verify", path).exit_code == code


def test_a_folder_in_a_manifest_is_checked_by_its_own_config(run_pecli: Run) -> None:
    """A check of the manifest names a folder of shards with a config.json, and no model."""
    path = write_manifest(file=str(TINY_LLAMA / "shards"))
    assert run_pecli("verify", path).exit_code == SUCCESS


def test_a_folder_in_a_manifest_is_checked_by_the_model_that_is_named(
    run_pecli: Run, checkpoint_of_base_500000: Path
) -> None:
    """The tables in the folder have 8 frequencies; Llama 3.1, which the check names, has 64."""
    path = write_manifest(file=".", model="llama-3.1-8b")
    assert run_pecli("verify", path).exit_code == CHECK_FAILED


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("*.npz", "*.npz: matches no file"),
        ("a.*", "none of 1 files has positional tables"),
        ("a.safetensors", "a.safetensors: has no positional tables"),
    ],
)
def test_a_pattern_in_a_manifest_without_any_table_is_a_file_error(
    run_pecli: Run, checkpoint_of_base_500000: Path, file: str, problem: str
) -> None:
    """a.safetensors holds weights and no table; no file ends in .npz."""
    outcome = run_pecli("verify", write_manifest(file=file, config="config.json"))
    assert outcome.exit_code == FILE_ERROR
    assert problem in outcome.err
