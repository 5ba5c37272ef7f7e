"""A model is found by whatever describes it: a preset, a repository of Hugging Face in the local
cache, a path, a mapping or an object.

Nothing is downloaded: the cache is a folder that the fixture lays out as huggingface_hub does, with
one repository some-lab/Tiny-1B, a small Llama of base 500000 and heads of 64 / 4 = 16 channels.
Presets are models that come with pecli.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import pecli
from pecli.errors import FileError, PecliError
from pecli.models.find import load_config, load_model, named_model
from pecli.models.presets import _by_key, _key, find, presets
from tests.exit_codes import USAGE_ERROR
from tests.models.facts import stored


@pytest.mark.parametrize(
    ("config", "context"),
    [
        ({"n_positions": 1024}, 1024),
        ({"text_config": {"max_position_embeddings": 4096}}, 4096),
        ({"max_position_embeddings": "long"}, None),
        ({"dim": 4096, "n_layers": 32}, None),
    ],
)
@pytest.mark.parametrize("path", [".", "config.json", "model.safetensors.index.json"])
def test_a_model_is_found_by_its_folder_its_config_or_its_index_file(
    tmp_path: Path, path: str, config: dict[str, object], context: int | None
) -> None:
    """The context is the length that the config states, or None if it states no number."""
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_model(tmp_path / path).context == context


LLAMA_CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_theta": 500000.0,
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with one repository, as huggingface_hub 1.x lays it out: files are links to blobs."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    repository = tmp_path / "cache" / "models--some-lab--Tiny-1B"
    snapshot = repository / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "blobs" / "b1").write_text(json.dumps(LLAMA_CONFIG))
    (snapshot / "config.json").symlink_to("../../blobs/b1")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    return tmp_path / "cache"


def test_a_revision_of_a_repository_is_the_snapshot_that_its_ref_names(cache: Path) -> None:
    """A ref, such as main or v1, holds the name of a snapshot, whose base is 500000 or 7; a path in
    place of a name («astray») is not followed. Old repositories have no owner (models--tiny).
    """
    repository = cache / "models--some-lab--Tiny-1B"
    (repository / "snapshots" / ("b" * 40)).mkdir()
    (repository / "snapshots" / ("b" * 40) / "config.json").write_text(
        json.dumps({**LLAMA_CONFIG, "rope_theta": 7.0})
    )
    (repository / "refs" / "v1").write_text("b" * 40)
    (repository / "refs" / "astray").write_text("../snapshots/" + "b" * 40)
    bases = [
        load_model(f"some-lab/Tiny-1B{tag}").one().parameters["base"]
        for tag in ("", "@main", "@v1")
    ]

    assert bases == [500000.0, 500000.0, 7.0]
    with pytest.raises(PecliError, match="not in the Hugging Face cache"):
        load_model("some-lab/Tiny-1B@astray")

    repository.rename(cache / "models--tiny")
    assert load_model("tiny").one().parameters["base"] == 500000.0


def test_a_repository_is_found_in_the_cache_before_the_preset_of_that_name(
    cache: Path, run_pecli
) -> None:
    """Names that would lead out of the cache are refused, and a missing repository is answered with
    the command that downloads it.
    """
    for name in ("some-lab/Tiny-1B", "some-lab/Tiny-1B@main", "some-lab/Tiny-1B@" + "a" * 40):
        found = load_model(name)
        assert found.file == name
        assert found.one().parameters["base"] == 500000.0
        assert found.context is None

    for name in ("../../etc", "some-lab/..", "/etc", "a/b/c", "some-lab/Tiny-1B@../../x"):
        with pytest.raises(PecliError):
            load_model(name)
    outcome = run_pecli("config", "--model", "some-lab/Other-9B")
    assert outcome.exit_code == USAGE_ERROR
    assert f"not in the Hugging Face cache, {cache}" in outcome.err
    assert "hf download some-lab/Other-9B config.json" in outcome.err
    assert load_model("meta-llama/Llama-3.1-8B").one().parameters["dim"] == 128

    (cache / "models--some-lab--Tiny-1B").rename(cache / "models--meta-llama--Llama-3.1-8B")
    assert load_model("meta-llama/Llama-3.1-8B").one().parameters["dim"] == 16
    assert load_model("llama-3.1-8b").one().parameters["dim"] == 128


@pytest.mark.parametrize(
    ("variable", "folder"),
    [
        ("HUGGINGFACE_HUB_CACHE", "."),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
        ("HOME", ".cache/huggingface/hub"),
    ],
)
def test_the_cache_is_where_huggingface_hub_would_look(
    cache: Path, monkeypatch: pytest.MonkeyPatch, variable: str, folder: str
) -> None:
    """The variables and folders are those of huggingface_hub's constants.py, in its order of
    precedence.
    """
    (cache.parent / "home" / folder).parent.mkdir(parents=True, exist_ok=True)
    cache.rename(cache.parent / "home" / folder)
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv(variable, str(cache.parent / "home"))

    assert load_config("some-lab/Tiny-1B").model_type == "llama"


def test_a_repository_without_a_readable_ref_is_its_only_snapshot(cache: Path) -> None:
    """A download of one commit leaves no ref, and its only snapshot is taken; a ref that is a pipe
    would be waited for for ever, and is not opened.
    """
    ref = cache / "models--some-lab--Tiny-1B" / "refs" / "main"
    ref.unlink()

    assert load_model("some-lab/Tiny-1B").model_type == "llama"

    os.mkfifo(ref)
    assert load_model("some-lab/Tiny-1B").model_type == "llama"


def test_a_snapshot_without_a_config_is_refused_with_the_command_to_get_it(cache: Path) -> None:
    """`hf download` is the command of huggingface_hub."""
    (cache / "models--some-lab--Tiny-1B" / "snapshots" / ("a" * 40) / "config.json").unlink()
    with pytest.raises(
        FileError, match=r"holds no config.json; get it with hf download some-lab/Tiny-1B"
    ):
        load_model("some-lab/Tiny-1B")


class ConfigObject:
    def to_dict(self) -> dict:
        return LLAMA_CONFIG | {
            "id2label": {0: "LABEL_0"},
            "vision_config": {"id2label": {0: {1: "a"}}},
        }


def test_paths_dictionaries_and_objects_with_to_dict_all_describe_a_model(
    tmp_path: Path, monkeypatch
) -> None:
    """The expected frequencies are 500000^(-i/8), from the definition of RoPE; half of them must
    fail.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    encoding = load_model(LLAMA_CONFIG).one()
    table = {"inv_freq": 500000.0 ** (-np.arange(8) / 8)}
    (tmp_path / "config.yaml").write_text(
        json.dumps(LLAMA_CONFIG)[:-1] + ", id2label: {0: LABEL_0}}"
    )
    paths = (
        tmp_path,
        str(tmp_path),
        tmp_path / "config.json",
        tmp_path / "config.yaml",
        "x.safetensors.index.json",
    )

    for given in (
        *paths,
        LLAMA_CONFIG,
        ConfigObject(),
        ConfigObject().to_dict(),
        load_model(LLAMA_CONFIG),
        encoding,
    ):
        assert (
            load_model(given).one().parameters
            == load_config(given).one().parameters
            == encoding.parameters
        )
        assert pecli.verify(table, given).passed
        assert not pecli.verify({"inv_freq": table["inv_freq"] / 2}, given, reasons=False).passed


def test_a_folder_with_one_gguf_file_is_that_model() -> None:
    """The stored file is a header of Llama 3, whose base is 500000."""
    data = Path(__file__).parents[1] / "files" / "data"
    assert load_model(data).one().parameters["base"] == 500000.0


def test_a_word_is_told_to_be_a_model_a_configuration_or_a_file(cache: Path) -> None:
    """The same word of a command line may be a model (--model), a configuration (--config) or a
    file of tensors (None); a file of a preset's name hides the preset.
    """
    Path("tensors").mkdir()
    np.save("x.npy", np.zeros(3))
    options = {
        "llama-3.1-8b": "--model",
        "some-lab/Tiny-1B": "--model",
        str(cache): None,
        "x.npy": None,
    }

    for name, option in options.items():
        found = named_model(name)
        assert (found.option if found else None) == option
    assert named_model("tensors") is None

    Path("tensors/config.json").write_text(json.dumps(LLAMA_CONFIG))
    assert named_model("tensors").option == "--config"
    for name, config in {
        "my-config.json": LLAMA_CONFIG,
        "params.json": {"dim": 64, "n_heads": 4, "n_layers": 2},
    }.items():
        Path(name).write_text(json.dumps(config))
        assert named_model(name).option == "--config"

    Path("llama-3-8b").write_bytes(b"a file of that name")
    assert named_model("llama-3-8b") is None

    Path("dangling").symlink_to("nowhere")
    with pytest.raises(FileError, match="dangling: does not exist"):
        load_model("dangling")


def test_no_two_presets_share_a_name() -> None:
    """A name of one that is an alias of another would be found or not by the order of the list."""
    seen: dict[str, str] = {}
    for preset in presets().values():
        for name in (preset.name, preset.repository, *preset.aliases):
            assert seen.setdefault(_key(name), preset.name) == preset.name, name
            assert find(name) is preset
    assert len(_by_key()) >= len(seen) >= len(presets()) >= 80


NAMES_OF_PRESETS = stored("tables.json")["names"]


@pytest.mark.parametrize("word", NAMES_OF_PRESETS)
def test_other_names_of_presets_are_understood(word: str) -> None:
    """Names as people type them, with the preset that each means: repositories, nicknames, other
    spellings.
    """
    assert find(word).name == NAMES_OF_PRESETS[word]


READ_ELSEWHERE = {
    (128, 500000, 131072): "llama-3.1-8b llama-3.2-3b",
    (128, 1000000, 40960): "qwen3-0.6b qwen3-14b qwen3-32b qwen3-30b-a3b",
    (128, 1000000, 32768): "qwen2.5-3b mistral-7b-v0.3",
    (128, 1000000, 131072): "qwen2.5-14b",
    (128, 10000000, 262144): "qwen3-30b-a3b-2507",
    (128, 5000000, 262144): "qwen3-235b-a22b-2507",
    (128, 1000000, 65536): "mixtral-8x22b",
    (128, 250000, 16384): "phi-4",
    (128, 1000000000, 262144): "ministral-3-14b",
    (64, 10000, 163840): "deepseek-v3 deepseek-r1",
}
"""Rotary dimension, base and context, as another file than the preset's source has them: slime, scripts/models (Llama);
fairseq2 0.8.1, models/qwen/config.py (Qwen3 0.6B); config.json quoted in citsjtu2020/LLM-Prof (Qwen);
AI-Hypercomputer/maxtext, hf_model_configs.py (DeepSeek, Qwen3 2507, Mixtral); litgpt 0.5.13, config.py (Phi, Mistral);
ibm-fms 1.13.1, fms/models/ministral3.py, and megatron-bridge 0.3.1 (Ministral 3).
"""


@pytest.mark.parametrize(
    ("name", "rotary_dim", "base", "context"),
    [(name, *values) for values, names in READ_ELSEWHERE.items() for name in names.split()],
)
def test_values_of_presets_agree_with_another_source(
    name: str, rotary_dim: int, base: float, context: int
) -> None:
    """Another public project states the same rotary dimension, base and context as the config.json
    that the preset was made from; READ_ELSEWHERE names the files.
    """
    model = load_model(name)
    assert model.one().rotary_dim == rotary_dim
    assert model.one().parameters["base"] == base
    assert model.context == context
