"""A model by whatever says what it is, and how long a context it claims."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.errors import FileError, PecliError
from pecli.models.find import load_config, load_model, named_model


@pytest.mark.parametrize(
    ("name", "expected"),
    [("llama-3.1-8b", 131072), ("deepseek-ai/DeepSeek-V3", 163840), ("qwen2.5-7b", 32768), ("gpt-oss-20b", 131072)],
)
def test_presets(name: str, expected: int) -> None:
    assert load_model(name).context == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"n_positions": 1024}, 1024),
        ({"text_config": {"max_position_embeddings": 4096}}, 4096),
        ({"max_position_embeddings": "long"}, None),
        ({"dim": 4096, "n_layers": 32}, None),
    ],
)
def test_files_and_folders(tmp_path: Path, config: dict, expected: int | None) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_model(tmp_path / "config.json").context == expected
    assert load_model(tmp_path).context == expected


def test_gguf(tmp_path: Path) -> None:
    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    values = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    values += text("llama.context_length") + struct.pack("<II", 4, 8192)
    values += text("llama.rope.dimension_count") + struct.pack("<II", 4, 128)
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 3) + values)
    assert load_model(tmp_path / "x.gguf").context == 8192


# whatever says what a model is

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 500000.0}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with one repository, as huggingface_hub 1.x lays it out: files are links to blobs."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.chdir(tmp_path)
    repository = tmp_path / "cache" / "models--some-lab--Tiny-1B"
    snapshot = repository / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "blobs" / "b1").write_text(json.dumps(LLAMA))
    (snapshot / "config.json").symlink_to("../../blobs/b1")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    return tmp_path / "cache"


@pytest.mark.parametrize("name", ["some-lab/Tiny-1B", "some-lab/Tiny-1B@main", "some-lab/Tiny-1B@" + "a" * 40])
def test_repositories_of_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    found = load_model(name)
    assert (found.file, found.one().parameters["base"]) == (name, 500000.0)
    assert load_model(name).context is None


@pytest.mark.parametrize(
    ("variable", "folder"),
    [("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub"), ("HOME", ".cache/huggingface/hub")],
)
def test_where_the_cache_is(cache: Path, monkeypatch: pytest.MonkeyPatch, variable: str, folder: str) -> None:
    (cache.parent / "home" / folder).parent.mkdir(parents=True)
    cache.rename(cache.parent / "home" / folder)
    monkeypatch.setenv(variable, str(cache.parent / "home"))
    assert load_config("some-lab/Tiny-1B").model_type == "llama"


def test_a_cache_without_a_ref(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A download of one commit leaves no ref."""
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    (cache / "models--some-lab--Tiny-1B" / "refs" / "main").unlink()
    assert load_model("some-lab/Tiny-1B").model_type == "llama"


@pytest.mark.parametrize("name", ["../../etc", "some-lab/..", "/etc", "a/b/c", "some-lab/Tiny-1B@../../x"])
def test_what_names_no_repository(cache: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    with pytest.raises(PecliError):
        load_model(name)


def test_what_is_not_in_the_cache_is_not_fetched(cache: Path, monkeypatch: pytest.MonkeyPatch, pecli_cli) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    outcome = pecli_cli("config", "--model", "some-lab/Other-9B")
    assert outcome.code == 2
    assert f"not in the Hugging Face cache, {cache}" in outcome.err
    assert "hf download some-lab/Other-9B config.json" in outcome.err


def test_a_snapshot_without_a_config(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    (cache / "models--some-lab--Tiny-1B" / "snapshots" / ("a" * 40) / "config.json").unlink()
    with pytest.raises(FileError, match=r"holds no config.json; get it with hf download some-lab/Tiny-1B"):
        load_model("some-lab/Tiny-1B")


def test_the_copy_in_the_cache_speaks_before_a_preset(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    assert load_model("meta-llama/Llama-3.1-8B").one().parameters["dim"] == 128
    (cache / "models--some-lab--Tiny-1B").rename(cache / "models--meta-llama--Llama-3.1-8B")
    assert load_model("meta-llama/Llama-3.1-8B").one().parameters["dim"] == 16
    assert load_model("llama-3.1-8b").one().parameters["dim"] == 128


class ConfigObject:
    def to_dict(self) -> dict:
        return LLAMA


def test_all_that_says_what_a_model_is_is_taken_everywhere(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    encoding = load_model(LLAMA).one()
    table = {"inv_freq": 500000.0 ** (-np.arange(8) / 8)}
    for given in (
        tmp_path,
        str(tmp_path),
        tmp_path / "config.json",
        LLAMA,
        ConfigObject(),
        load_model(LLAMA),
        encoding,
    ):
        assert load_model(given).one().parameters == load_config(given).one().parameters == encoding.parameters
        assert pecli.verify(table, given).passed
        assert not pecli.verify({"inv_freq": table["inv_freq"] / 2}, given).passed


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("nowhere/config.json", 3, "does not exist"),
        ("./llama", 3, "does not exist"),
        ("empty", 3, "is a folder without a config.json"),
        ("lama-3.1-8b", 2, "did you mean 'llama-3.1-8b'?"),
        ("qqqq", 2, "pecli models lists presets"),
    ],
)
@pytest.mark.parametrize("option", ["--config", "--model"])
def test_names_of_nothing(
    pecli_cli, tmp_path: Path, monkeypatch, option: str, name: str, code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    outcome = pecli_cli("rope", "--seq-len", "4", option, name)
    assert (outcome.code, outcome.err.count("\n")) == (code, 1)
    assert words in outcome.err


def test_a_preset_in_the_place_of_a_config_and_back(pecli_cli, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    one = [
        pecli_cli("rope", "--seq-len", 4, option, "llama-3.1-8b", "--json").json for option in ("--config", "--model")
    ]
    assert one[0] == one[1]
    two = [pecli_cli("rope", "--seq-len", 4, option, tmp_path, "--json").json for option in ("--config", "--model")]
    assert two[0] == two[1]


def test_a_folder_with_one_gguf_file() -> None:
    data = Path(__file__).parents[1] / "files" / "data"
    assert load_model(data).one().parameters["base"] == 500000.0


def test_names_of_models_and_of_files(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a report is given may be either."""
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    Path("tensors").mkdir()
    np.save("x.npy", np.zeros(3))
    for name, option in {
        "llama-3.1-8b": "--model",
        "some-lab/Tiny-1B": "--model",
        str(cache): None,
        "x.npy": None,
    }.items():
        found = named_model(name)
        assert (found.option if found else None) == option
    assert named_model("tensors") is None
    Path("tensors/config.json").write_text(json.dumps(LLAMA))
    assert named_model("tensors").option == "--config"
