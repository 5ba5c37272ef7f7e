"""Parts of a configuration: which nested objects are parts of a model, what they are, and what
their encodings are called.

A part is a text model, a tower for images or sound, or another model within the file, such as
text_config or vision_config; the names of its encodings begin with its own («vision»,
«vision.patches»). Sizes without another source are those that transformers 5.23.0 makes of a
configuration. SMALL_CONFIG is a rotary model with heads of 16 channels, LLAMA_CONFIG a Llama of
usual size.
"""

from typing import Any

import pytest

from pecli.models.families import class_defaults, family_of
from pecli.models.find import load_config
from tests.models.configs import LLAMA_CONFIG, SMALL_CONFIG, Config

TEACHER: Config = {"hidden_size": 64, "num_attention_heads": 4, "rope_theta": 5.0}


def layer_types(config: Config) -> list[str]:
    return [encoding.layer_type for encoding in load_config(config)]


def unknown_types(config: Config) -> list[str]:
    """Return the beginnings of warnings about unknown model types."""
    return [warning.partition(" is unknown")[0] for warning in load_config(config).warnings]


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("teacher", [""]),
        ("teacher_config", ["", "teacher"]),
        ("quantization_config", [""]),
        ("rope_config", [""]),
    ],
)
def test_an_object_is_a_part_by_its_name(name: str, types: list[str]) -> None:
    """A nested object is a part of the model if its key ends with _config and is not about
    quantisation or rope itself.
    """
    assert layer_types({**LLAMA_CONFIG, name: TEACHER}) == types


def test_an_object_that_is_no_part_does_not_change_the_base() -> None:
    """«teacher» does not end with _config; its base is 5, Llama's default 10000."""
    assert load_config({**LLAMA_CONFIG, "teacher": TEACHER}).one().parameters["base"] == 10000.0


def test_a_base_without_a_width_makes_a_part() -> None:
    """An encoding can be made of a base and the width of a head, without hidden_size."""
    assert layer_types({**SMALL_CONFIG, "audio_config": {"rope_theta": 5.0, "head_dim": 8}}) == [
        "",
        "audio",
    ]


def test_a_width_of_heads_alone_makes_no_part() -> None:
    """A base is needed besides: the test before this one has both."""
    assert layer_types({**SMALL_CONFIG, "audio_config": {"head_dim": 8}}) == [""]


def test_a_model_type_that_reads_images_has_two_axes() -> None:
    """«vision» in the model_type of an unknown class says so: rows and columns."""
    assert load_config({**SMALL_CONFIG, "model_type": "my_vision"}).one().grid.described() == {
        "axes": 2
    }


def test_the_language_model_of_one_that_reads_images_has_no_axes() -> None:
    """The suffix _text names the language part of a larger model, although «vision» is in the name."""
    encoding = load_config({**SMALL_CONFIG, "model_type": "wibble_vision_text"}).one()
    assert encoding.grid.described() == {}


def test_a_visual_part_has_two_axes() -> None:
    """visual_config is the tower; the text beside it counts along no grid."""
    text, visual = load_config({**SMALL_CONFIG, "visual_config": SMALL_CONFIG})
    assert text.grid.axes is None
    assert visual.layer_type == "visual"
    assert visual.grid.axes == 2


def test_a_part_without_a_type_has_its_parents_name_and_its_own() -> None:
    """Warnings call a tower without a model_type PARENT_vision, and a text model PARENT, as
    transformers names such classes.
    """
    config = {"model_type": "foo", "text_config": SMALL_CONFIG, "vision_config": SMALL_CONFIG}
    assert unknown_types(config) == ["text: model_type 'foo'", "vision: model_type 'foo_vision'"]


def test_an_empty_type_counts_as_missing() -> None:
    """text_config has an empty model_type, so it has that of the whole config, «foo», which no
    reader knows: the warning is about «foo».
    """
    config = {"model_type": "foo", "text_config": {**SMALL_CONFIG, "model_type": ""}}
    assert unknown_types(config) == ["text: model_type 'foo'"]


def test_a_mapping_that_holds_itself_is_read_as_deep_as_a_file() -> None:
    """A file may be nested 32 levels deep; a mapping of Python without end is followed no deeper."""
    cycle: dict[str, Any] = {**SMALL_CONFIG}
    cycle["again"] = cycle

    assert load_config(cycle).one().parameters["dim"] == 16


def test_a_text_model_that_holds_itself_is_read_as_deep_as_a_file() -> None:
    """As above, by way of text_config, which is followed to the language model."""
    cycle: dict[str, Any] = {**SMALL_CONFIG}
    cycle["text_config"] = cycle

    assert load_config(cycle).one().parameters["dim"] == 16


def test_a_text_model_in_the_file_replaces_the_classs_own() -> None:
    """LLaVA's class has a Llama by default, which would be reported if it were read besides."""
    config = {"model_type": "llava", "text_config": {"model_type": "llama", **SMALL_CONFIG}}
    assert load_config(config).warnings == ()


def test_a_class_with_a_text_model_also_has_its_tower() -> None:
    """LLaVA at class defaults: a Llama with RoPE, and CLIP's tower with a learned table."""
    model = load_config({"model_type": "llava"})
    assert [encoding.scheme for encoding in model] == ["rope", "learned"]


def test_a_class_with_a_text_model_also_reports_tables_that_no_scheme_has() -> None:
    """Mllama (Llama 3.2 Vision) adds learned tables by tile of an image."""
    (warning,) = load_config({"model_type": "mllama"}).warnings
    assert "learned tables by tile and aspect ratio" in warning


@pytest.mark.parametrize(("vision", "axes"), [(False, 0), (True, 2)])
def test_a_tower_has_a_family_of_its_own(vision: bool, axes: int) -> None:
    """Qwen2-VL's text counts along no grid (0 axes), its tower along rows and columns."""
    family = family_of("qwen2_vl", vision=vision)
    assert family.is_known
    assert family.axes == axes


@pytest.mark.parametrize(
    ("vision", "name"), [(False, "clip_text_model"), (True, "clip_vision_model")]
)
def test_a_tower_has_a_class_of_its_own(vision: bool, name: str) -> None:
    """In transformers, clip has a class for its text and one for its images, with other defaults."""
    assert class_defaults("clip", vision=vision).model_type == name


@pytest.mark.parametrize(
    ("keys", "rows"),
    [
        ({}, 1024),
        ({"init_pos_emb_width": 64}, 1024),
        ({"init_pos_emb_height": 64}, 1024),
        ({"init_pos_emb_height": 64, "init_pos_emb_width": 32}, 2048),
        ({"tubelet_size": 2}, 1024),
        ({"num_frames": 4}, 1024),
        ({"num_frames": 4, "tubelet_size": 2}, 2048),
    ],
)
def test_the_patches_of_a_tower_are_counted(keys: Config, rows: int) -> None:
    """(448 / 14)² = 1024 patches, unless the config has a height and a width of its table; times
    frames / tubelet_size of a video.
    """
    tower = {
        "model_type": "moonvit",
        "hidden_size": 64,
        "image_size": 448,
        "patch_size": 14,
        "num_attention_heads": 4,
    }
    model = load_config({"model_type": "kimi_vl", "vision_config": {**tower, **keys}})

    assert model.one("vision.patches").parameters["max_len"] == rows


@pytest.mark.parametrize("vision", [None, {}])
def test_an_empty_tower_is_that_of_the_class(vision: dict[str, object] | None) -> None:
    """Transformers makes a SigLIP tower of 14 x 14 patches and 768 channels for Gemma 3."""
    model = load_config({"model_type": "gemma3", "text_config": {}, "vision_config": vision})
    (table,) = [encoding for encoding in model if encoding.part == "vision"]

    assert table.parameters["max_len"] == 196
    assert table.parameters["dim"] == 768


def test_a_null_tower_has_the_values_of_the_larger_model() -> None:
    """Transformers makes LLaVA's tower of 336 pixels in patches of 14 and 1024 channels."""
    model = load_config({"model_type": "llava", "text_config": {}, "vision_config": None})
    (table,) = [encoding for encoding in model if encoding.part == "vision"]

    assert table.parameters["max_len"] == 24 * 24 + 1
    assert table.parameters["dim"] == 1024


def test_the_one_table_of_a_model_without_rotation_is_that_of_its_text() -> None:
    """CLIP has a learned table for 77 tokens, and one for the 50 patches of an image."""
    assert load_config({"model_type": "clip"}).one().parameters["max_len"] == 77


def test_a_file_that_only_names_a_model_has_all_of_its_parts() -> None:
    """The config has only the model_type «clip». At the defaults of transformers' classes, its text
    part has 77 tokens, and its vision part 7² patches and a class token, 50.
    """
    model = load_config({"model_type": "clip"})
    sizes = {encoding.part: encoding.parameters["max_len"] for encoding in model}

    assert sizes == {"": 77, "vision": 50}


@pytest.mark.parametrize(
    ("model_type", "layer_type", "frequencies"),
    [
        ("evolla", "protein_encoder", 32),
        ("mlcd", "", 26),
        ("nemo_speechlm", "audio.asr", 32),
        ("nemo_speechlm", "audio.diarization.audio", 32),
        ("qwen2_5_omni", "token2wav.dit", 32),
        ("sam3", "vision.backbone", 16),
    ],
)
def test_parts_within_parts_of_a_file_that_only_names_a_model(
    model_type: str, layer_type: str, frequencies: int
) -> None:
    """The numbers of frequencies are those of the models of transformers 5.23.0."""
    encoding = load_config({"model_type": model_type}).one(layer_type)
    assert len(encoding.inverse_frequencies() or []) == frequencies


def test_a_tower_without_a_width_has_the_windows_of_its_class() -> None:
    """CLAP's audio tower has biases of 15 x 15 relative positions in transformers 5.23.0."""
    assert load_config({"model_type": "clap"}).one("audio").parameters["grid"] == (8, 8)


def test_tables_of_a_class_that_no_encoding_describes_are_named() -> None:
    """Grounding DINO has 900 queries in transformers 5.23.0, beside BERT's positions."""
    (warning,) = load_config({"model_type": "grounding-dino"}).warnings
    assert "query_position_embeddings (900 × 256)" in warning
    assert "512 × 768" not in warning
