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


def test_the_base_of_an_object_that_is_no_part_does_not_count() -> None:
    """«teacher» does not end with _config, so it is no part. TEACHER has base 5; Llama's default is
    10000.
    """
    assert load_config({**LLAMA_CONFIG, "teacher": TEACHER}).one().parameters["base"] == 10000.0


def test_a_part_needs_only_a_base_and_the_width_of_its_heads() -> None:
    """An encoding can be made of them, without hidden_size. "" is the language model."""
    config = {**SMALL_CONFIG, "audio_config": {"rope_theta": 5.0, "head_dim": 8}}
    assert layer_types(config) == ["", "audio"]


def test_an_object_with_the_width_of_heads_but_no_base_is_no_part() -> None:
    """Without rope_theta or a model_type nothing tells that the audio part rotates."""
    assert layer_types({**SMALL_CONFIG, "audio_config": {"head_dim": 8}}) == [""]


def test_an_unknown_model_type_with_vision_in_its_name_rotates_along_two_axes() -> None:
    """A model of images has positions of rows and columns."""
    encoding = load_config({**SMALL_CONFIG, "model_type": "my_vision"}).one()
    assert encoding.grid.described() == {"axes": 2}


def test_an_unknown_model_type_that_ends_with_text_rotates_along_one_axis() -> None:
    """The suffix _text names the language part of a larger model, although «vision» is in the name."""
    encoding = load_config({**SMALL_CONFIG, "model_type": "wibble_vision_text"}).one()
    assert encoding.grid.described() == {}


def test_the_part_visual_config_has_two_axes() -> None:
    """It is the tower for images, with rows and columns; the text beside it counts along no grid."""
    text, visual = load_config({**SMALL_CONFIG, "visual_config": SMALL_CONFIG})
    assert text.grid.axes is None
    assert visual.layer_type == "visual"
    assert visual.grid.axes == 2


def test_a_tower_without_a_model_type_is_called_by_its_parent_and_vision() -> None:
    """Warnings call a tower without a model_type PARENT_vision, and a text model PARENT, as
    transformers names such classes; «foo» is the parent here.
    """
    config = {"model_type": "foo", "text_config": SMALL_CONFIG, "vision_config": SMALL_CONFIG}
    assert unknown_types(config) == ["text: model_type 'foo'", "vision: model_type 'foo_vision'"]


def test_an_empty_model_type_counts_as_missing() -> None:
    """text_config has an empty model_type, so it has that of the whole config, «foo», which no
    reader knows: the warning is about «foo».
    """
    config = {"model_type": "foo", "text_config": {**SMALL_CONFIG, "model_type": ""}}
    assert unknown_types(config) == ["text: model_type 'foo'"]


@pytest.mark.parametrize("key", ["again", "text_config"])
def test_a_mapping_that_holds_itself_is_read(key: str) -> None:
    """A dictionary of Python may hold itself, and must not be followed for ever: pecli reads as deep
    as in files, 32 levels. text_config is followed to the language model. SMALL_CONFIG has
    64 / 4 = 16 channels per head.
    """
    cycle: dict[str, Any] = {**SMALL_CONFIG}
    cycle[key] = cycle

    assert load_config(cycle).one().parameters["dim"] == 64 // 4


def test_a_text_config_in_the_file_replaces_the_default_one_of_the_class() -> None:
    """LLaVA's class has a Llama with heads of 128 channels by default. The text_config here has heads
    of 64 / 4 = 16 channels, and only that one is read.
    """
    by_default = load_config({"model_type": "llava"})
    assert by_default.one().parameters["dim"] == 128

    text_config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    (text,) = load_config({"model_type": "llava", "text_config": text_config})
    assert text.parameters["dim"] == 64 // 4


def test_a_text_config_in_the_place_of_the_default_one_is_no_reason_for_a_warning() -> None:
    """SMALL_CONFIG has the sizes and the base of a Llama: nothing is missing or unknown in it."""
    config = {"model_type": "llava", "text_config": {"model_type": "llama", **SMALL_CONFIG}}
    assert load_config(config).warnings == ()


def test_a_class_with_a_text_model_also_has_its_tower() -> None:
    """LLaVA at class defaults: a Llama with RoPE, and CLIP's tower with a learned table."""
    model = load_config({"model_type": "llava"})
    assert [encoding.scheme for encoding in model] == ["rope", "learned"]


def test_the_learned_tables_by_tile_of_mllama_are_named_in_a_warning() -> None:
    """Mllama (Llama 3.2 Vision) adds learned tables by tile of an image, which no scheme of pecli
    makes; its text model is read as usual.
    """
    (warning,) = load_config({"model_type": "mllama"}).warnings
    assert "learned tables by tile and aspect ratio" in warning


@pytest.mark.parametrize(("vision", "axes"), [(False, 0), (True, 2)])
def test_text_and_tower_of_qwen2_vl_are_of_two_families(vision: bool, axes: int) -> None:
    """The text counts along no grid (0 axes), the tower along rows and columns."""
    family = family_of("qwen2_vl", vision=vision)
    assert family.is_known
    assert family.axes == axes


@pytest.mark.parametrize(
    ("vision", "name"), [(False, "clip_text_model"), (True, "clip_vision_model")]
)
def test_text_and_tower_of_clip_have_defaults_of_two_classes(vision: bool, name: str) -> None:
    """In transformers, CLIP has a class for its text and one for its images, with other defaults."""
    assert class_defaults("clip", vision=vision).model_type == name


@pytest.mark.parametrize(
    ("keys", "rows"),
    [
        pytest.param({}, (448 // 14) ** 2, id="images"),
        pytest.param({"init_pos_emb_width": 64}, (448 // 14) ** 2, id="a width without a height"),
        pytest.param({"init_pos_emb_height": 64}, (448 // 14) ** 2, id="a height without a width"),
        pytest.param(
            {"init_pos_emb_height": 64, "init_pos_emb_width": 32},
            64 * 32,
            id="a height and a width",
        ),
        pytest.param({"tubelet_size": 2}, (448 // 14) ** 2, id="tubes without frames"),
        pytest.param({"num_frames": 4}, (448 // 14) ** 2, id="4 frames"),
        pytest.param(
            {"num_frames": 4, "tubelet_size": 2},
            (448 // 14) ** 2 * 4 // 2,
            id="4 frames in tubes of 2",
        ),
    ],
)
def test_the_table_of_a_tower_has_a_row_for_each_patch(keys: Config, rows: int) -> None:
    """Images of 448 pixels have (448 / 14)² patches of 14 pixels. A height and a width of the table
    replace them if both are given, and a video has them num_frames / tubelet_size times.
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
def test_an_empty_or_null_vision_config_of_gemma_3_is_the_tower_of_its_class(
    vision: dict[str, object] | None,
) -> None:
    """Transformers makes a SigLIP tower of 14 x 14 patches and 768 channels for Gemma 3."""
    model = load_config({"model_type": "gemma3", "text_config": {}, "vision_config": vision})
    (table,) = [encoding for encoding in model if encoding.part == "vision"]

    assert table.parameters["max_len"] == 14 * 14
    assert table.parameters["dim"] == 768


def test_a_null_vision_config_of_llava_is_the_tower_that_llavas_own_class_makes() -> None:
    """CLIP's class has images of 224 pixels, but LLaVA's makes a CLIP tower of 336 pixels in patches
    of 14, with a class token and 1024 channels.
    """
    model = load_config({"model_type": "llava", "text_config": {}, "vision_config": None})
    (table,) = [encoding for encoding in model if encoding.part == "vision"]

    assert table.parameters["max_len"] == (336 // 14) ** 2 + 1
    assert table.parameters["dim"] == 1024


def test_the_method_one_returns_the_table_of_the_text_if_nothing_rotates() -> None:
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
def test_a_file_that_only_names_a_model_also_has_the_parts_within_parts(
    model_type: str, layer_type: str, frequencies: int
) -> None:
    """The config has only this model_type; layer types join the names of nested parts by dots. The
    counts of frequencies are those that transformers 5.23.0 makes of the same config.
    """
    encoding = load_config({"model_type": model_type}).one(layer_type)
    assert len(encoding.inverse_frequencies() or []) == frequencies


def test_the_audio_tower_of_clap_has_windows_of_8_x_8_by_class_default() -> None:
    """In transformers 5.23.0 its biases have 15 x 15 relative positions: distances from −7 to 7 of a
    window of 8 x 8.
    """
    assert load_config({"model_type": "clap"}).one("audio").parameters["grid"] == (8, 8)


def test_the_learned_queries_of_grounding_dino_are_named_in_a_warning() -> None:
    """Grounding DINO has 900 learned queries in transformers 5.23.0, which no scheme makes. Its text
    model is a BERT of 512 x 768 positions, which is read as an encoding and not warned about.
    """
    (warning,) = load_config({"model_type": "grounding-dino"}).warnings
    assert "query_position_embeddings (900 × 256)" in warning
    assert "512 × 768" not in warning


def test_a_tower_that_states_its_sizes_has_no_table_of_the_default_size() -> None:
    """CLIP, the tower of VipLlava, has a learned position for each patch and one for the image. By
    default it has 577 × 1024; of 28 x 28 pixels in patches of 14 x 14 there are 2 · 2 + 1.
    """
    vision = {"hidden_size": 64, "image_size": 28, "patch_size": 14}
    model = load_config({"model_type": "vipllava", "vision_config": vision})

    assert model.one("vision").parameters["max_len"] == 2 * 2 + 1
    assert model.warnings == ()
