"""Configurations that lie or break: one line, exit code 3 (the file) or 2 (a value), never a
traceback.

Each text or value is wrong in one way and was written by hand; PLAIN_LLAMA, a Llama with heads of
16 channels, is what they change. The largest configuration has 4 MB.
"""

import contextlib
import io
import json
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

import pecli
from pecli.models import config_files
from tests.exit_codes import FILE_ERROR, SUCCESS
from tests.models.facts import stored

PLAIN_LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "rope_theta": 1e4,
}
YARN_SCALING = {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}
LLAMA3 = {**YARN_SCALING, "type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LONG = {**YARN_SCALING, "type": "longrope", "short_factor": [1] * 8}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b'{"rope_theta": NaN}', "config.json: ", id="NaN"),
        pytest.param(b'{"rope_theta": -Infinity}', "config.json: ", id="Infinity"),
        pytest.param(b'{"rope_theta": 1e999}', "config.json: ", id="overflow"),
        pytest.param(b'{"head_dim": 64, "head_dim": 128}', "config.json: ", id="twice"),
        pytest.param(b"[1, 2]", "config.json: ", id="list"),
        pytest.param(b"3", "config.json: ", id="number"),
        pytest.param(b"", "config.json: ", id="empty"),
        pytest.param(b'{"a": ', "not JSON: ", id="cut"),
        pytest.param(b'{"a":' * 5000 + b"1" + b"}" * 5000, "config.json: ", id="deep"),
        pytest.param(b"[" * 100_000, "config.json: ", id="deep list"),
        pytest.param(b"\x00\x01\x02", "config.json: ", id="binary"),
        pytest.param(b'{"rope_theta": ' + b"9" * 5000 + b"}", "not JSON that", id="many digits"),
        pytest.param(b"\xff\xfe{}", "not UTF-8 text", id="no text"),
        pytest.param(b'{"a": "' + b"x" * (5 << 20) + b'"}', "4 MB", id="more than 4 MB"),
    ],
)
def test_text_that_is_no_configuration_is_a_file_error_of_one_line(
    run_pecli, tmp_path, content: bytes, problem: str
) -> None:
    """Such files are downloaded, cut off or edited by hand. `pecli config --json` must print nothing
    on standard output, and one line with the name of the file, not a traceback, on standard error.
    """
    path = tmp_path / "config.json"
    path.write_bytes(content)
    outcome = run_pecli("config", path, "--json")

    assert outcome.exit_code == FILE_ERROR
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert problem in outcome.err


def test_a_configuration_of_as_many_bytes_as_the_limit_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`{}` has two bytes, and the limit is set to two."""
    monkeypatch.setattr(config_files, "MAX_CONFIG_BYTES", 2)
    assert config_files.parse_config("config.json", b"{}") == {}


@pytest.mark.parametrize(("end", "exit_code"), [(b"", SUCCESS), (b"\n", FILE_ERROR)])
@pytest.mark.parametrize("source", ["config.json", "-"])
def test_the_limit_of_bytes_is_the_same_for_files_and_standard_input(
    run_pecli, tmp_path, monkeypatch, source: str, end: bytes, exit_code: int
) -> None:
    """One byte beyond the limit is refused, even if the configuration is whole without it."""
    config = json.dumps(PLAIN_LLAMA).encode()
    monkeypatch.setattr(config_files, "MAX_CONFIG_BYTES", len(config))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(config + end)))
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_bytes(config + end)

    assert run_pecli("config", source).exit_code == exit_code


def test_an_infinity_is_refused_only_in_a_key_that_is_read(run_pecli, tmp_path) -> None:
    """Falcon-H1 and Mamba-2 save `time_step_limit` with Python's word Infinity, and it is not about
    positions; as a base it is refused.
    """
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**PLAIN_LLAMA, "time_step_limit": [0.0, float("inf")]}))

    assert "Infinity" in path.read_text()
    assert run_pecli("config", path).exit_code == SUCCESS

    path.write_text(json.dumps({**PLAIN_LLAMA, "rope_theta": float("inf")}))
    assert "rope_theta is inf; it must be a finite number" in run_pecli("config", path).err


REFUSED_CHANGES = stored("tables.json")["refused"] | {
    "20,000 layer types": (
        {"rope_parameters": {str(k): {"rope_type": "default"} for k in range(20_000)}},
        3,
    )
}


@pytest.mark.parametrize("name", REFUSED_CHANGES)
def test_an_impossible_value_in_a_config_is_refused_in_one_line(
    run_pecli, tmp_path, name: str
) -> None:
    """Each row of tables.json has keys that replace those of a small Llama config, such as a base of
    0, and the exit code: 3 for a broken file, 2 for a wrong value.
    """
    change, exit_code = REFUSED_CHANGES[name]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**PLAIN_LLAMA, **change}))
    outcome = run_pecli("config", path)

    assert outcome.exit_code == exit_code, outcome.err
    assert outcome.err.count("\n") == 1
    assert "config.json" in outcome.err


JUNK_VALUES: list[Any] = [None, True, "x", -1, 0, 1.5, 1e308, 10**30, [], [1], {}, {"a": 1}]
LAYERS = {
    "no_rope_layers": [1, 0],
    "no_rope_layer_interval": 2,
    "num_hidden_layers": 4,
    "attn_scale": 0.1,
}
CONFIGS_TO_MUTATE: list[dict[str, Any]] = [
    {
        **PLAIN_LLAMA,
        "head_dim": 16,
        "partial_rotary_factor": 0.5,
        "max_position_embeddings": 128,
        "layer_types": ["a"],
    },
    {"model_type": "llama4_text", "floor_scale": 8, **LAYERS},
    {
        "model_type": "llama4_vision_model",
        "image_size": 448,
        "patch_size": 14,
        "hidden_size": 64,
        "num_heads": 4,
    },
    {"model_type": "falcon", "alibi": True, "hidden_size": 64, "num_attention_heads": 4},
    {
        "model_type": "videomae",
        "num_frames": 4,
        "tubelet_size": 2,
        "image_size": [32, 32],
        "patch_size": 8,
    },
]
OPTIONAL_SETTINGS = ("attention_factor", "mscale", "mscale_all_dim", "mrope_section", "alpha")
ROPE_SCALINGS: list[dict[str, Any]] = [YARN_SCALING, LLAMA3, {**LONG, "long_factor": [2] * 8}]


def with_each_key_replaced_by_junk(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a copy of the config for each of its keys and each value of JUNK_VALUES."""
    return [{**config, name: value} for name in config for value in JUNK_VALUES]


def configs_with_a_junk_key() -> list[dict[str, Any]]:
    """Return CONFIGS_TO_MUTATE (Llama 4, Falcon, VideoMAE, …) with one key replaced in each copy."""
    mutated = []
    for config in CONFIGS_TO_MUTATE:
        mutated += with_each_key_replaced_by_junk(config)
    return mutated


def configs_with_a_junk_setting() -> list[dict[str, Any]]:
    """Return Llamas with YaRN, llama3 or longrope, one setting of rope_scaling replaced in each."""
    mutated = []
    for scaling in ROPE_SCALINGS:
        settings = {**dict.fromkeys(OPTIONAL_SETTINGS, None), **scaling}
        for junk_settings in with_each_key_replaced_by_junk(settings):
            mutated.append({**PLAIN_LLAMA, "rope_scaling": junk_settings})
    return mutated


def public_configs_with_a_junk_key() -> list[dict[str, Any]]:
    """Return the configs of configurations.jsonl with one key replaced in each copy.

    Five values take turns: the same keys are in many of these configs, so that one value for each
    is enough.
    """
    values = cycle([None, "8", [1], 1e308, 0])
    mutated = []
    for _, config, *_ in stored("configurations.jsonl"):
        for name in config:
            mutated.append({**config, name: next(values)})
    return mutated


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(7, id="every 7th"),
        pytest.param(1, id="all", marks=pytest.mark.thorough),
    ],
)
def test_a_config_with_a_value_of_the_wrong_kind_raises_nothing_but_pecli_errors(
    step: int,
) -> None:
    """In each config one key has a value such as null, a text, a list or 10^30. pecli may read it or
    refuse it with a PecliError; any other exception, such as TypeError, fails the test.
    """
    configs = [
        *configs_with_a_junk_key(),
        *configs_with_a_junk_setting(),
        *public_configs_with_a_junk_key(),
    ]
    for config in configs[::step]:
        with contextlib.suppress(pecli.PecliError):
            pecli.load_config(config).as_json()


def test_a_json_file_that_cannot_be_opened_is_no_configuration(tmp_path, monkeypatch) -> None:
    """`is_config` must not fail for any file that a user names. The file is a config until `open` is
    made to raise PermissionError.
    """
    path = tmp_path / "model.json"
    path.write_text(json.dumps(PLAIN_LLAMA))

    assert config_files.is_config(str(path))

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("builtins.open", refuse)
    assert not config_files.is_config(str(path))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"model_type": "llama"}', id="a model_type"),
        pytest.param('{"hidden_size": 64}', id="an object of numbers"),
        pytest.param(
            '{"model_type": "llava", "image_grid": [[336, 672]]}',
            id="lists of numbers beside a model_type",
        ),
        pytest.param(
            '{"_class_name": "Flux", "pairs": {"a": [[1, 2]]}}',
            id="lists of numbers beside a _class_name",
        ),
        pytest.param(
            '{"head_groups": [["a"]], "model_type": "llama"}',
            id="lists of texts beside a model_type",
        ),
    ],
)
def test_a_json_file_of_an_object_without_tables_is_a_configuration(
    tmp_path: Path, text: str
) -> None:
    """The file may have any name. Lists of lists of numbers are tables, unless a key names the type of
    the model: LLaVA's config has such a list of image sizes.
    """
    path = tmp_path / "my-model.json"
    path.write_text(text)
    assert config_files.is_config(str(path))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"cos": [[1, 0.5]], "sin": [[0, 0.8]]}', id="tables"),
        pytest.param('{"layers": {"0": {"cos": [[1, 0.5]]}}}', id="tables by layer"),
        pytest.param(
            '{"status": "ok", "data": [{"q": [ [[1, 0.5]] ]}]}',
            id="tables in the answer of a server",
        ),
        pytest.param('{"tensors": {}}', id="tables that pecli wrote"),
        pytest.param('{"pecli": 1}', id="a spec that pecli wrote"),
        pytest.param("[]", id="a list"),
    ],
)
def test_a_json_file_of_tables_or_of_a_list_is_no_configuration(tmp_path: Path, text: str) -> None:
    """Lists of lists of numbers are tables of cos, sin or activations, and no key names the type of a
    model here. Configurations are objects.
    """
    path = tmp_path / "my-tables.json"
    path.write_text(text)
    assert not config_files.is_config(str(path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param(
            "model.safetensors.index.json", '{"weight_map": {}}', id="an index of shards of weights"
        ),
        pytest.param("llama.txt", '{"model_type": "llama"}', id="another suffix than .json"),
    ],
)
def test_a_file_with_the_name_of_something_else_is_no_configuration(
    tmp_path: Path, name: str, text: str
) -> None:
    """The suffixes .index.json and .txt decide, whatever the file holds."""
    (tmp_path / name).write_text(text)
    assert not config_files.is_config(str(tmp_path / name))


def test_a_folder_called_llama_json_is_no_configuration(tmp_path: Path) -> None:
    """`is_config` reads the contents of files called *.json; a folder cannot be opened as a file."""
    (tmp_path / "llama.json").mkdir()
    assert not config_files.is_config(str(tmp_path / "llama.json"))


@pytest.mark.parametrize("name", ["config.json", "params.json", "model.gguf"])
def test_a_file_with_a_usual_name_of_configurations_is_one_without_being_opened(
    name: str,
) -> None:
    """Hugging Face, Meta and llama.cpp call their files so. The file need not exist: the error about
    a missing file comes later, when it is read.
    """
    assert config_files.is_config(f"nowhere/{name}")
