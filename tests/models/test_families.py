"""What configurations of families mean, and what families imply where a configuration is silent.

A family is a model_type of transformers, such as gemma3_text: its code fixes the layout of pairs,
types of layers, and defaults. Expected values are those of transformers' configuration classes and
of published configs, written by hand; a source (`sources`) is the key or the default that a value
comes from.
"""

import math

import pytest

from pecli.errors import ParameterError
from pecli.models.find import load_config, load_model
from tests.models.facts import facts, facts_by_layer_type, has_facts, only_encoding, stored

LLAMA_CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 8192,
}

CONFIGS = {name: (config, expected) for name, config, expected in stored("family_layers.jsonl")}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_public_config_has_the_layer_types_of_its_family_and_a_source_for_each_value(
    name: str,
) -> None:
    """Each row of family_layers.jsonl has a public config, and by layer type the rotary dim, base,
    scaling and layout, such as {"full_attention": [256, 1e6, "linear", "halves"]}, written by hand
    from the family's code. A source is the key or the default that a value comes from.
    """
    config, layers_by_hand = CONFIGS[name]
    model = load_config(config)
    layers = {layer: [*facts] for layer, facts in facts_by_layer_type(config).items()}

    assert layers == layers_by_hand
    assert not any("unknown" in warning for warning in model.warnings)
    for encoding in model:
        assert encoding.described().keys() <= encoding.sources.keys()
        assert all(encoding.sources.values())


#: The sections of a family by its published config, and whether they are interleaved.
SECTIONS = {
    **dict.fromkeys(
        ("qwen2_vl", "qwen2_5_vl", "qwen2_5_vl_text", "paddleocr_vl"), ([16, 24, 24], False)
    ),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe_text", "cohere_compass_text"), ([24, 20, 20], True)),
}


SIZES_OF_SECTIONS = {"hidden_size": 2048, "num_attention_heads": 16, "head_dim": 128}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_family_has_sections_of_time_rows_and_columns_by_default(name: str) -> None:
    """M-RoPE gives each pair of a head to time, rows or columns. The published configs of Qwen2-VL
    and its like have 16 + 24 + 24 pairs one after the other, those of Qwen3-VL 24 + 20 + 20
    interleaved; all are the 64 pairs of heads of 128 channels.
    """
    section, is_interleaved = SECTIONS[name]
    encoding = only_encoding({"model_type": name, **SIZES_OF_SECTIONS})

    assert has_facts(encoding, {"mrope_section": section, "mrope_interleaved": is_interleaved})
    assert encoding.sources["mrope_section"].startswith("family default")
    assert encoding.rope(8).mrope_section == tuple(section)


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_of_a_configuration_replace_those_of_the_family(name: str) -> None:
    """Only the sections are replaced: whether they interleave is a property of the family's code.
    32 + 16 + 16 pairs are no family's default.
    """
    scaling = {"type": "mrope", "mrope_section": [32, 16, 16]}
    encoding = only_encoding({"model_type": name, **SIZES_OF_SECTIONS, "rope_scaling": scaling})
    _, is_interleaved = SECTIONS[name]

    assert has_facts(encoding, {"mrope_section": [32, 16, 16], "mrope_interleaved": is_interleaved})


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_of_the_family_that_do_not_fit_the_head_are_left_out(name: str) -> None:
    """The family's sections add up to 64 pairs, but a head of 64 channels has 32: the encoding
    states none.
    """
    encoding = only_encoding({"model_type": name, **SIZES_OF_SECTIONS, "head_dim": 64})
    assert has_facts(encoding, {"mrope_section": None})


CLASSES_WITHOUT_POSITIONS = stored("tables.json")["nothing"]


def test_a_model_without_positions_has_a_warning_and_no_encoding() -> None:
    """tables.json lists keys of configs of classes whose code has no positions, such as
    {"model_type": "mamba"}, with a part of the warning, or "" if any warning is right.
    """
    for keys, part_of_warning in CLASSES_WITHOUT_POSITIONS:
        model = load_config({"hidden_size": 64, "num_attention_heads": 4, **keys})
        assert model.encodings == ()
        assert any(part_of_warning in warning for warning in model.warnings)


def test_phi3_divides_by_short_factors_up_to_the_original_length_and_by_long_ones_beyond() -> None:
    """The original length is 4096: without a length and at 4096, short factors divide the
    frequencies, and beyond, long ones. The published short_factor begins with 1.05, which divides
    the first frequency, 1.
    """
    encoding = only_encoding("phi-3-mini-128k-2024-04")
    without_length = encoding.inverse_frequencies(None)
    at_the_original = encoding.inverse_frequencies(4096)
    beyond = encoding.inverse_frequencies(4097)

    assert without_length == at_the_original
    assert beyond != at_the_original
    assert at_the_original[0] == pytest.approx(1 / 1.05)


def test_the_attention_factor_of_phi3_is_that_of_longrope_for_a_32_fold_context() -> None:
    """The paper's formula is sqrt(1 + ln(stretch) / ln(original length)); 131072 / 4096 = 32."""
    encoding = only_encoding("phi-3-mini-128k-2024-04")
    expected = math.sqrt(1 + math.log(131072 / 4096) / math.log(4096))
    assert encoding.attention_factor() == pytest.approx(expected, rel=1e-12)


def test_gpt_oss_without_settings_has_yarn_with_limits_that_are_not_rounded() -> None:
    """gpt-oss at class defaults is YaRN by 32 from base 150000 and 4096 positions, with heads of 64
    channels. The paper rounds the two pairs between which the frequencies blend (8 and 18 here);
    gpt-oss does not, which only the pairs between them show.
    """
    encoding = only_encoding({"model_type": "gpt_oss"})
    values = encoding.inverse_frequencies() or []
    unscaled = [150000.0 ** (-i / 32) for i in range(32)]

    def pair_with_turns(turns: float) -> float:
        """The pair that turns so many times within 4096 positions (YaRN's paper, section 3.2)."""
        return 64 * math.log(4096 / (turns * 2 * math.pi)) / (2 * math.log(150000))

    low = pair_with_turns(32)  # 8.0928
    high = pair_with_turns(1)  # 17.398
    share_of_slow = (9 - low) / (high - low)

    assert values[:9] == pytest.approx(unscaled[:9], rel=1e-14)
    assert values[9] / unscaled[9] == pytest.approx(1 - share_of_slow * (1 - 1 / 32), rel=1e-5)
    assert values[18:] == pytest.approx([value / 32 for value in unscaled[18:]], rel=1e-14)


def test_the_source_of_a_factor_that_no_key_states_is_the_class_default() -> None:
    """gpt-oss's class in transformers has YaRN settings by default."""
    encoding = only_encoding({"model_type": "gpt_oss"})
    assert encoding.sources["factor"] == "class default of GptOssConfig.rope_parameters.factor"


LINEAR_SCALING = {"rope_type": "linear", "factor": 8.0}
FULL, SLIDING = "full_attention", "sliding_attention"


@pytest.mark.parametrize(
    ("name", "settings", "bases", "scaled_layers"),
    [
        pytest.param(
            "gemma3_text",
            {FULL: {**LINEAR_SCALING, "rope_theta": 5e5}},
            {FULL: 5e5, SLIDING: 1e4},
            {FULL},
            id="gemma3: full layers only",
        ),
        pytest.param(
            "gemma3n_text",
            {SLIDING: {"rope_type": "default", "rope_theta": 777.0}},
            {FULL: 1e6, SLIDING: 777.0},
            set(),
            id="gemma3n: sliding layers only",
        ),
        pytest.param(
            "olmo3",
            {FULL: LINEAR_SCALING, SLIDING: None},
            {FULL: 5e5, SLIDING: 5e5},
            {FULL},
            id="olmo3: none for sliding layers",
        ),
        pytest.param(
            "modernbert",
            {FULL: LINEAR_SCALING},
            {FULL: 16e4, SLIDING: 1e4},
            {FULL},
            id="modernbert: full layers only",
        ),
        pytest.param("ministral3", LINEAR_SCALING, {"": 1e4}, {""}, id="ministral3: no base"),
        pytest.param(
            "higgs_audio_v2", LINEAR_SCALING, {"": 1e4}, {""}, id="higgs_audio_v2: no base"
        ),
    ],
)
def test_settings_that_rope_parameters_leave_out_are_those_of_transformers(
    name, settings, bases, scaled_layers
) -> None:
    """Bases that `settings` do not state are those that the configuration classes of transformers
    5.22.2 fill in. A layer type is scaled only if its own settings say so; "" is the layer type of
    models with a single one.
    """
    model = load_config({"model_type": name, "rope_parameters": settings})
    linear = {each.layer_type for each in model if each.parameters["scaling"] == "linear"}

    assert {encoding.layer_type: encoding.parameters["base"] for encoding in model} == bases
    assert linear == scaled_layers
    assert model.warnings == ()


def test_music_flamingo_rotates_by_time_beside_its_language_model() -> None:
    """Music Flamingo's config leads to three encodings: the rotation of sound frames by their time,
    at the top level; the rope of the text model; and the sinusoidal table of the audio encoder. The
    first belongs to the audio part, so `one()`, the encoding of the language model, is the second.
    """
    cases = stored("rope_families_more.jsonl")
    config = next(case["config"] for case in cases if case["case"].startswith("musicflamingo/"))
    model = load_config(config)
    rotation_by_time, text, audio_encoder = model.encodings

    assert rotation_by_time.scheme == "rope"
    assert rotation_by_time.part == "audio"
    assert rotation_by_time.layer_type == ""
    assert text.scheme == "rope"
    assert text.part == ""
    assert text.layer_type == "text"
    assert audio_encoder.scheme == "sinusoidal"
    assert audio_encoder.part == "audio"
    assert audio_encoder.layer_type == "audio"
    assert model.one() == text


def test_the_method_one_returns_the_language_model_unless_a_part_is_named() -> None:
    """Qwen2-VL has a text model, whose layer type has no name, and a tower for images with heads of
    1280 / 16 = 80 channels.
    """
    config, _ = CONFIGS["qwen2-vl"]
    model = load_config(config)
    assert model.one().layer_type == ""
    assert model.one("vision").head_dim == 1280 // 16


def test_compressed_layers_of_deepseek_have_no_attention_factor() -> None:
    """DeepSeek-V4's code applies YaRN to the frequencies of these layers, but not to magnitudes."""
    config, _ = CONFIGS["compressed layers have a base of their own"]
    assert load_config(config).one("compress").attention_factor() == 1


@pytest.mark.parametrize(
    ("preset", "layer_type", "rule"),
    [
        pytest.param("gemma-3-1b", None, "full_attention", id="none of two"),
        pytest.param(
            "gemma-3-1b", "wibble", "gemma-3-1b has 'full_attention', ", id="an unknown one of two"
        ),
        pytest.param(
            "llama-3-8b",
            "full_attention",
            "llama-3-8b has a single layer type, without a name",
            id="one where there are no types",
        ),
    ],
)
def test_a_missing_or_unknown_layer_type_is_refused_with_those_that_exist(
    preset: str, layer_type: str | None, rule: str
) -> None:
    """Gemma 3 has two types of layers, so that one must be named; Llama 3 has one, without a name."""
    with pytest.raises(ParameterError, match=rule):
        load_model(preset).one(layer_type)


def test_the_rope_of_a_model_with_a_learned_table_is_refused() -> None:
    """GPT-2 adds a learned table and rotates nothing."""
    with pytest.raises(ParameterError, match="not rope"):
        load_model("gpt2").one().rope(8)


CLIP = {
    "model_type": "clip",
    "text_config": {"hidden_size": 768},
    "vision_config": {"patch_size": 16},
}


def test_the_text_of_clip_takes_what_it_omits_from_class_defaults() -> None:
    """CLIP's config here states the width 768 and no length; CLIPTextConfig has 77 tokens."""
    text, _ = map(facts, load_config(CLIP))
    assert text["dim"] == 768
    assert text["source of dim"] == "text_config.hidden_size"
    assert text["max_len"] == 77
    assert text["source of max_len"] == "class default of CLIPTextConfig.max_position_embeddings"


def test_the_tower_of_clip_takes_what_it_omits_from_class_defaults() -> None:
    """CLIP's config here states patches of 16 pixels, as in ViT-B/16, and no size of images;
    CLIPVisionConfig has images of 224 pixels and the width 768.
    """
    _, vision = map(facts, load_config(CLIP))
    image = "class default of CLIPVisionConfig.image_size"
    patches = (224 // 16) ** 2
    class_token = 1

    assert vision["max_len"] == patches + class_token
    assert vision["dim"] == 768
    assert vision["source of max_len"] == f"({image} // vision_config.patch_size)² + 1"


@pytest.mark.parametrize("part", [{}, {"initializer_factor": 1.0}], ids=["empty", "another key"])
def test_parts_of_clip_that_state_no_size_are_those_of_vit_b_32(part: dict[str, float]) -> None:
    """CLIPTextConfig has 77 tokens and 512 channels; CLIPVisionConfig has (224 / 32)² patches, a
    class token, and 768 channels.
    """
    config = {"model_type": "clip", "text_config": part, "vision_config": part}
    assert facts_by_layer_type(config) == {
        "": ("learned", 77, 512),
        "vision": ("learned", (224 // 32) ** 2 + 1, 768),
    }


WITH_OR_WITHOUT_A_VISION_CONFIG = pytest.mark.parametrize(
    "config",
    [
        pytest.param({"model_type": "sam2_video"}, id="no vision_config"),
        pytest.param(
            {"model_type": "sam2_video", "vision_config": {"model_type": "sam2_vision_model"}},
            id="a vision_config without sizes",
        ),
    ],
)
"""Short and saved configs of SAM 2; the tower for images has no part in the memory attention."""


@WITH_OR_WITHOUT_A_VISION_CONFIG
def test_sam2_video_without_sizes_rotates_the_head_that_its_class_has_by_default(
    config: dict[str, object],
) -> None:
    """By Sam2VideoConfig of transformers, the memory attention has one head of 256 channels. All
    of them rotate, half by rows and half by columns of the image.
    """
    encoding = only_encoding(config)
    assert encoding.scheme == "rope"
    assert encoding.head_dim == 256
    assert encoding.rotary_dim == 256
    assert encoding.axis_dim == 256 // 2


@WITH_OR_WITHOUT_A_VISION_CONFIG
def test_the_downsample_rate_of_sam2_video_divides_its_head(config: dict[str, object]) -> None:
    """The head has memory_attention_hidden_size // memory_attention_downsample_rate channels, which
    is also the stated source of its width. Sam2VideoConfig has 256 by default.
    """
    encoding = only_encoding({**config, "memory_attention_downsample_rate": 2})
    assert encoding.head_dim == 256 // 2
    assert encoding.sources["head_dim"].startswith(
        "class default of Sam2VideoConfig.memory_attention_hidden_size"
        " // memory_attention_downsample_rate"
    )


def test_layers_without_rope_are_named_although_no_key_states_them() -> None:
    """In transformers 5.22.2, the attention classes of these model types rotate only sliding
    layers, or leave out every fourth layer, whatever the config states: pecli warns about layers
    with no rope.
    """
    names = "afmoe cohere2 exaone4 exaone_moe kolibri1 muse_glimmer_text muse_spark_text smollm3"
    for name in names.split():
        assert any("no rope" in warning for warning in load_config({"model_type": name}).warnings)


def test_rope_theta_of_deepseek_v4_is_not_the_base_of_compressed_layers() -> None:
    """DeepSeek-V4's class has a base for each kind of layer: `rope_theta`, 200000 here, and
    `compress_rope_theta`, which is 160000 by class default.
    """
    model = load_config({"model_type": "deepseek_v4", "head_dim": 64, "rope_theta": 2e5})
    bases = {encoding.layer_type: encoding.parameters["base"] for encoding in model}
    assert bases == {"main": 2e5, "compress": 1.6e5}


@pytest.mark.parametrize(
    ("model_type", "is_unrotated"),
    [pytest.param("afmoe", True, id="AFMoE"), pytest.param("exaone4", False, id="EXAONE 4")],
)
def test_full_attention_of_exaone_rotates_if_the_model_has_no_window_and_that_of_afmoe_never(
    model_type: str, is_unrotated: bool
) -> None:
    """Layer 1 has full attention, and `sliding_window` is null. By the classes of transformers, AFMoE
    rotates only layers of sliding attention, whatever the window is; EXAONE 4 rotates all layers if
    there is no window.
    """
    types = ["sliding_attention", "full_attention"]
    config = {**LLAMA_CONFIG, "model_type": model_type, "sliding_window": None}
    model = load_config({**config, "num_hidden_layers": 2, "layer_types": types})

    assert model.is_unrotated("model.layers.1.q") is is_unrotated
