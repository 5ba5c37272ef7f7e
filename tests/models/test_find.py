"""A model is found by whatever describes it: a preset, a repository of Hugging Face in the local
cache, a path, a mapping or an object.

Nothing is downloaded: the cache is a folder that the fixture lays out as huggingface_hub does, with
one repository some-lab/Tiny-1B, a small Llama of base 500000 and heads of 64 / 4 = 16 channels.
Presets are models that come with pecli.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from pecli.errors import FileError, PecliError
from pecli.models.find import load_config, load_model, named_model
from pecli.models.presets import _key, find, presets
from tests.exit_codes import USAGE_ERROR
from tests.models.facts import stored


@pytest.mark.parametrize(
    ("config", "context"),
    [
        pytest.param({"n_positions": 1024}, 1024, id="n_positions"),
        pytest.param({"text_config": {"max_position_embeddings": 4096}}, 4096, id="text_config"),
        pytest.param({"max_position_embeddings": "long"}, None, id="no number"),
        pytest.param({"dim": 4096, "n_layers": 32}, None, id="no length"),
    ],
)
@pytest.mark.parametrize("path", [".", "config.json", "model.safetensors.index.json"])
def test_a_model_is_found_by_its_folder_its_config_or_its_index_file(
    tmp_path: Path, path: str, config: dict[str, object], context: int | None
) -> None:
    """A folder (.), its config.json, and the index of its weights all lead to the config.json. The
    context, the length that the config states, shows that it was read; None is no stated number.
    """
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {}}')

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
    """A ref, such as main or v1, is a file that holds the name of a snapshot. The snapshot of main
    is the fixture's, with base 500000; the one of v1 is made here, with base 7.
    """
    repository = cache / "models--some-lab--Tiny-1B"
    snapshot = repository / "snapshots" / ("b" * 40)
    snapshot.mkdir()
    (snapshot / "config.json").write_text(json.dumps({**LLAMA_CONFIG, "rope_theta": 7.0}))
    (repository / "refs" / "v1").write_text("b" * 40)

    bases = [
        load_model(f"some-lab/Tiny-1B{revision}").one().parameters["base"]
        for revision in ("", "@main", "@v1")
    ]
    assert bases == [500000.0, 500000.0, 7.0]


def test_a_ref_that_holds_a_path_is_not_followed(cache: Path) -> None:
    """A ref must hold the name of a snapshot: a path could lead out of the cache."""
    repository = cache / "models--some-lab--Tiny-1B"
    (repository / "refs" / "astray").write_text("../snapshots/" + "a" * 40)
    with pytest.raises(PecliError, match="not in the Hugging Face cache"):
        load_model("some-lab/Tiny-1B@astray")


def test_a_repository_without_an_owner_is_found_in_the_cache(cache: Path) -> None:
    """Old repositories, such as «gpt2», have no owner: their folder is models--gpt2."""
    (cache / "models--some-lab--Tiny-1B").rename(cache / "models--tiny")
    assert load_model("tiny").one().parameters["base"] == 500000.0


@pytest.mark.parametrize("revision", ["", "@main", "@" + "a" * 40])
def test_a_repository_is_found_in_the_cache_by_its_name_and_revision(
    cache: Path, revision: str
) -> None:
    """The fixture's repository is a Llama of base 500000 without max_position_embeddings, the
    context; a revision is a ref or the name of a snapshot.
    """
    model = load_model(f"some-lab/Tiny-1B{revision}")
    assert model.file == f"some-lab/Tiny-1B{revision}"
    assert model.one().parameters["base"] == 500000.0
    assert model.context is None


@pytest.mark.parametrize(
    "name", ["../../etc", "some-lab/..", "/etc", "a/b/c", "some-lab/Tiny-1B@../../x"]
)
@pytest.mark.usefixtures("cache")
def test_a_name_that_would_lead_out_of_the_cache_is_refused(name: str) -> None:
    """The parts of a name become folders of the cache, so «..» or a path could reach any file."""
    with pytest.raises(PecliError):
        load_model(name)


def test_a_repository_that_is_not_in_the_cache_is_refused_with_the_command_to_get_it(
    cache: Path, run_pecli
) -> None:
    """pecli downloads nothing itself; `hf download` is the command of huggingface_hub."""
    outcome = run_pecli("config", "--model", "some-lab/Other-9B")
    assert outcome.exit_code == USAGE_ERROR
    assert f"not in the Hugging Face cache, {cache}" in outcome.err
    assert "hf download some-lab/Other-9B config.json" in outcome.err


def test_a_repository_in_the_cache_hides_the_preset_of_that_name(cache: Path) -> None:
    """The preset of Llama 3.1 8B has heads of 128 channels; the repository that the fixture puts
    under its name has heads of 64 / 4 = 16. The short name still means the preset.
    """
    assert load_model("meta-llama/Llama-3.1-8B").one().parameters["dim"] == 128

    (cache / "models--some-lab--Tiny-1B").rename(cache / "models--meta-llama--Llama-3.1-8B")
    assert load_model("meta-llama/Llama-3.1-8B").one().parameters["dim"] == 64 // 4
    assert load_model("llama-3.1-8b").one().parameters["dim"] == 128


@pytest.mark.parametrize(
    ("variable", "cache_below_it"),
    [
        ("HUGGINGFACE_HUB_CACHE", "."),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
        ("HOME", ".cache/huggingface/hub"),
    ],
)
def test_the_cache_is_in_the_folder_that_a_variable_of_huggingface_hub_names(
    cache: Path, monkeypatch: pytest.MonkeyPatch, variable: str, cache_below_it: str
) -> None:
    """By huggingface_hub's constants.py, each variable names a folder, and the cache is there or
    below it: HF_HOME=/data means /data/hub. Here each variable is set alone.
    """
    named_folder = cache.parent / "named"
    new_cache = named_folder / cache_below_it
    new_cache.mkdir(parents=True)
    cache.rename(new_cache)
    # The fixture has set this one, which comes before all others, and removed the rest.
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv(variable, str(named_folder))

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
    """The cache may hold a repository of which only the weights were downloaded; `hf download` is the
    command of huggingface_hub that gets the file.
    """
    (cache / "models--some-lab--Tiny-1B" / "snapshots" / ("a" * 40) / "config.json").unlink()
    with pytest.raises(
        FileError, match=r"holds no config.json; get it with hf download some-lab/Tiny-1B"
    ):
        load_model("some-lab/Tiny-1B")


class ConfigObject:
    """A configuration as transformers has it: LLAMA_CONFIG and labels with numbers for keys."""

    def to_dict(self) -> dict:
        return LLAMA_CONFIG | {
            "id2label": {0: "LABEL_0"},
            "vision_config": {"id2label": {0: {1: "a"}}},
        }


DESCRIPTIONS_OF_A_LLAMA: dict[str, Callable[[Path], Any]] = {
    "the path of a folder": lambda folder: folder,
    "the text of a folder": str,
    "a JSON file": lambda folder: folder / "config.json",
    "a YAML file": lambda folder: folder / "config.yaml",
    "an index of weights beside config.json": lambda folder: "x.safetensors.index.json",
    "a dictionary": lambda folder: LLAMA_CONFIG,
    "an object with to_dict": lambda folder: ConfigObject(),
    "a dictionary with numbers for keys": lambda folder: ConfigObject().to_dict(),
    "a model that was read": lambda folder: load_model(LLAMA_CONFIG),
    "an encoding that was read": lambda folder: load_model(LLAMA_CONFIG).one(),
}


@pytest.fixture(params=DESCRIPTIONS_OF_A_LLAMA.values(), ids=DESCRIPTIONS_OF_A_LLAMA)
def description(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """One of the forms in which LLAMA_CONFIG may be given, with its files in the working folder."""
    monkeypatch.chdir(tmp_path)
    in_json = json.dumps(LLAMA_CONFIG)
    (tmp_path / "config.json").write_text(in_json)
    (tmp_path / "config.yaml").write_text(in_json[:-1] + ", id2label: {0: LABEL_0}}")
    return request.param(tmp_path)


def test_a_model_may_be_given_as_a_path_a_dictionary_or_an_object(description: Any) -> None:
    """LLAMA_CONFIG has base 500000 and heads of 64 / 4 = 16 channels, and no scaling."""
    expected = {"dim": 16, "base": 500000.0, "scaling": "none"}
    assert load_model(description).one().parameters == expected
    assert load_config(description).one().parameters == expected


def test_verify_accepts_a_model_as_a_path_a_dictionary_or_an_object(description: Any) -> None:
    """By the definition of RoPE, LLAMA_CONFIG has the frequencies 500000^(-i/8). They pass, and half
    of each fails.
    """
    frequencies = 500000.0 ** (-np.arange(8) / 8)
    assert pecli.verify({"inv_freq": frequencies}, description).passed
    assert not pecli.verify({"inv_freq": frequencies / 2}, description, reasons=False).passed


def test_a_folder_with_one_gguf_file_is_read_as_the_model_of_that_file() -> None:
    """tests/files/data holds one .gguf file, a header of Llama 3, whose base is 500000."""
    folder = Path(__file__).parents[1] / "files" / "data"
    assert load_model(folder).one().parameters["base"] == 500000.0


@pytest.mark.parametrize("name", ["llama-3.1-8b", "some-lab/Tiny-1B"])
@pytest.mark.usefixtures("cache")
def test_the_name_of_a_preset_or_a_repository_is_a_value_of_the_option_model(name: str) -> None:
    """`named_model` finds out whether a word of a command line is a model (--model), a
    configuration (--config) or a file of tensors (None). The fixture has the repository.
    """
    model = named_model(name)
    assert model is not None
    assert model.option == "--model"


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("my-config.json", LLAMA_CONFIG),
        ("params.json", {"dim": 64, "n_heads": 4, "n_layers": 2}),
    ],
    ids=["config.json of Hugging Face", "params.json of Meta"],
)
@pytest.mark.usefixtures("cache")
def test_a_configuration_file_is_a_value_of_the_option_config(
    name: str, config: dict[str, object]
) -> None:
    """`named_model` finds out whether a word of a command line is a model (--model), a
    configuration (--config) or a file of tensors (None).
    """
    Path(name).write_text(json.dumps(config))
    model = named_model(name)
    assert model is not None
    assert model.option == "--config"


def test_a_folder_is_a_configuration_only_if_it_holds_config_json(cache: Path) -> None:
    """Other folders, such as the cache itself, may hold tensors: `named_model` returns None, because
    they name no model. The base of LLAMA_CONFIG, 500000, shows that config.json was read.
    """
    Path("my-folder").mkdir()
    assert named_model("my-folder") is None
    assert named_model(str(cache)) is None

    Path("my-folder/config.json").write_text(json.dumps(LLAMA_CONFIG))
    model = named_model("my-folder")
    assert model is not None
    # The command line with the same meaning is --config my-folder.
    assert model.option == "--config"
    assert model.encodings.one().parameters["base"] == 500000.0


@pytest.mark.usefixtures("cache")
def test_a_file_of_tensors_is_no_model_even_if_it_has_the_name_of_a_preset() -> None:
    """`named_model` returns None for a file of tensors. A file that exists hides the preset of its
    name: llama-3-8b is a preset until a file is called so.
    """
    preset = named_model("llama-3-8b")
    assert preset is not None
    assert preset.option == "--model"

    np.save("x.npy", np.zeros(3))
    Path("x.npy").rename("llama-3-8b")
    assert named_model("llama-3-8b") is None

    np.save("x.npy", np.zeros(3))
    assert named_model("x.npy") is None


@pytest.mark.usefixtures("cache")
def test_a_link_to_nowhere_is_a_missing_file() -> None:
    """The name exists, and its target does not."""
    Path("dangling").symlink_to("nowhere")
    with pytest.raises(FileError, match="dangling: does not exist"):
        load_model("dangling")


def test_no_two_presets_share_a_name() -> None:
    """If the name of a preset were an alias of another, the order of the list would decide which of
    them is found. `_key` returns a name without case and signs, by which names are compared.
    """
    owner_of_name: dict[str, str] = {}
    for preset in presets().values():
        for name in (preset.name, preset.repository, *preset.aliases):
            owner = owner_of_name.setdefault(_key(name), preset.name)
            assert owner == preset.name, name
            assert find(name) is preset


def test_a_preset_is_found_by_its_repository_without_the_owner() -> None:
    """meta-llama/Llama-2-7b-hf may be written Llama-2-7b-hf: no other owner's repository among the
    presets, of which there are at least 80, has that name.
    """
    assert len(presets()) >= 80
    for preset in presets().values():
        without_owner = preset.repository.rpartition("/")[2]
        assert find(without_owner) is preset


NAMES_OF_PRESETS = stored("tables.json")["names"]


@pytest.mark.parametrize("word", NAMES_OF_PRESETS)
def test_a_preset_is_found_by_the_names_that_people_type(word: str) -> None:
    """tables.json has words with the preset that each means, chosen by hand: repositories,
    nicknames and other spellings.
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
def test_a_preset_agrees_with_what_another_project_states_of_the_model(
    name: str, rotary_dim: int, base: float, context: int
) -> None:
    """Presets were made from the config.json of each model. READ_ELSEWHERE has the rotary dimension,
    base and context as another public project states them, such as 128, 500000 and 131072 for
    Llama 3.1 in slime's scripts/models, and names these files.
    """
    model = load_model(name)
    assert model.one().rotary_dim == rotary_dim
    assert model.one().parameters["base"] == base
    assert model.context == context
