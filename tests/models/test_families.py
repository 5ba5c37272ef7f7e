"""What configurations of families mean, and what families imply where a configuration is silent.

A family is a model_type of transformers, such as gemma3_text: its code fixes the layout of pairs,
types of layers, and defaults. Expected values are those of transformers' configuration classes and
of published configs, written by hand; a source (`sources`) is the key or the default that a value
comes from.
"""

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
def test_a_configuration_has_these_layers_and_a_source_for_each_value(name: str) -> None:
    """Each row of family_layers.jsonl has a public config, and by layer type the rotary dim, base,
    scaling and layout, written by hand from the family's code.
    """
    config, expected = CONFIGS[name]
    model = load_config(config)

    assert {layer: [*sizes] for layer, sizes in facts_by_layer_type(config).items()} == expected
    assert not any("unknown" in warning for warning in model.warnings)
    for encoding in model:
        assert encoding.described().keys() <= encoding.sources.keys()
        assert all(encoding.sources.values())


SECTIONS = {
    **dict.fromkeys(
        ("qwen2_vl", "qwen2_5_vl", "qwen2_5_vl_text", "paddleocr_vl"), ([16, 24, 24], False)
    ),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe_text", "cohere_compass_text"), ([24, 20, 20], True)),
}


SIZES_OF_SECTIONS = {"hidden_size": 2048, "num_attention_heads": 16, "head_dim": 128}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_family_has_sections_of_time_rows_and_columns_by_default(name: str) -> None:
    """The sections are those of the families' published configs; «mixed» ones interleave the three
    axes.
    """
    section, mixed = SECTIONS[name]
    encoding = only_encoding({"model_type": name, **SIZES_OF_SECTIONS})

    assert has_facts(encoding, {"mrope_section": section, "mrope_interleaved": mixed})
    assert encoding.sources["mrope_section"].startswith("family default")
    assert encoding.rope(8).mrope_section == tuple(section)


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_of_a_configuration_replace_those_of_the_family(name: str) -> None:
    """Only the sections are replaced: whether they interleave is a property of the family's code."""
    scaling = {"type": "mrope", "mrope_section": [32, 16, 16]}
    encoding = only_encoding({"model_type": name, **SIZES_OF_SECTIONS, "rope_scaling": scaling})
    _, mixed = SECTIONS[name]

    assert has_facts(encoding, {"mrope_section": [32, 16, 16], "mrope_interleaved": mixed})


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_of_the_family_that_do_not_fit_the_head_are_left_out(name: str) -> None:
    """The family's sections add up to 64 pairs, but a head of 64 channels has 32: the encoding
    states none.
    """
    encoding = only_encoding({"model_type": name, **SIZES_OF_SECTIONS, "head_dim": 64})
    assert has_facts(encoding, {"mrope_section": None})


CLASSES_WITHOUT_POSITIONS = stored("tables.json")["nothing"]


def test_a_model_without_positions_has_a_warning_and_no_encoding() -> None:
    """tables.json lists configurations of classes whose code has no positions, such as Mamba, with
    a part of the warning.
    """
    for config, warning in CLASSES_WITHOUT_POSITIONS:
        model = load_config({"hidden_size": 64, "num_attention_heads": 4, **config})
        assert model.encodings == ()
        assert any(warning in each for each in model.warnings)


def test_phi3_divides_by_short_factors_up_to_the_original_length_and_by_long_ones_beyond() -> None:
    """The original length is 4096: without a length and at 4096, short factors divide the
    frequencies, and beyond, long ones. The published short_factor begins with 1.05, which divides
    the first frequency, 1.
    """
    encoding = only_encoding("phi-3-mini-128k-2024-04")
    before, at, beyond = (encoding.inverse_frequencies(length) for length in (None, 4096, 4097))

    assert before == at != beyond
    assert at[0] == pytest.approx(1 / 1.05)
    assert encoding.attention_factor() == pytest.approx(
        1.1902380714238083, rel=1e-12
    )  # sqrt(1 + ln 32 / ln 4096)


def test_gpt_oss_without_settings_has_yarn_with_limits_that_are_not_rounded() -> None:
    """gpt-oss at class defaults is YaRN by 32 from base 150000; its ramp goes from pair 8.0928 to
    17.398 of 32, which are not rounded as the paper does.
    """
    found = only_encoding({"model_type": "gpt_oss"})
    plain = [150000.0 ** (-i / 32) for i in range(32)]
    values = found.inverse_frequencies() or []

    assert values[:9] == pytest.approx(plain[:9], rel=1e-14)

    share_of_slow = (9 - 8.09281) / (17.39802 - 8.09281)  # with limits 8 and 18 it would be 1/10
    assert values[9] / plain[9] == pytest.approx(1 - share_of_slow * (1 - 1 / 32), rel=1e-5)
    assert values[18:] == pytest.approx([value / 32 for value in plain[18:]], rel=1e-14)
    assert found.sources["factor"] == "class default of GptOssConfig.rope_parameters.factor"


LINEAR_SCALING = {"rope_type": "linear", "factor": 8.0}
FULL, SLIDING = "full_attention", "sliding_attention"


@pytest.mark.parametrize(
    ("name", "settings", "bases"),
    [
        ("gemma3_text", {FULL: {**LINEAR_SCALING, "rope_theta": 5e5}}, {FULL: 5e5, SLIDING: 1e4}),
        (
            "gemma3n_text",
            {SLIDING: {"rope_type": "default", "rope_theta": 777.0}},
            {FULL: 1e6, SLIDING: 777.0},
        ),
        ("olmo3", {FULL: LINEAR_SCALING, SLIDING: None}, {FULL: 5e5, SLIDING: 5e5}),
        ("modernbert", {FULL: LINEAR_SCALING}, {FULL: 16e4, SLIDING: 1e4}),
        ("ministral3", LINEAR_SCALING, {"": 1e4}),
        ("higgs_audio_v2", LINEAR_SCALING, {"": 1e4}),
    ],
)
def test_settings_that_are_left_out_are_those_of_transformers(name, settings, bases) -> None:
    """The bases are those that the configuration classes of transformers 5.22.2 fill in. A layer
    type is scaled only if its own settings say so.
    """
    model = load_config({"model_type": name, "rope_parameters": settings})
    assert {encoding.layer_type: encoding.parameters["base"] for encoding in model} == bases

    scaled = {
        encoding.layer_type for encoding in model if encoding.parameters["scaling"] == "linear"
    }
    assert scaled == ({FULL} if settings.get(FULL) else set() if SLIDING in settings else {""})
    assert model.warnings == ()


def test_music_flamingo_rotates_by_time_beside_its_language_model() -> None:
    """The table of time belongs to the audio part, so the encoding of the model is that of its
    text.
    """
    cases = stored("rope_families_more.jsonl")
    model = load_config(
        next(case["config"] for case in cases if case["case"].startswith("musicflamingo/"))
    )

    assert {each.layer_type: each.part for each in model.encodings} == {
        "": "audio",
        "text": "",
        "audio": "audio",
    }
    assert model.one().layer_type == "text"


def test_one_is_the_language_model_unless_a_part_is_named() -> None:
    """Qwen2-VL's tower has heads of 80 channels (1280 / 16)."""
    model = load_config(CONFIGS["qwen2-vl"][0])
    assert model.one().layer_type == ""
    assert model.one("vision").head_dim == 80

    compressed, _ = CONFIGS["compressed layers have a base of their own"]
    assert load_config(compressed).one("compress").attention_factor() == 1


@pytest.mark.parametrize(
    ("preset", "layer_type", "rule"),
    [
        ("gemma-3-1b", None, "full_attention"),
        ("gemma-3-1b", "wibble", "gemma-3-1b has 'full_attention', "),
        ("llama-3-8b", "full_attention", "llama-3-8b has a single layer type, without a name"),
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


def test_a_part_of_clip_takes_what_it_omits_from_class_defaults() -> None:
    """OpenAI's ViT-B/16 of CLIP: 77 tokens, 14² patches and one for the class; its class alone
    means ViT-B/32.
    """
    text, vision = map(facts, load_config(CLIP))
    assert text["max_len"] == 77
    assert text["dim"] == 768
    assert text["source of dim"] == "text_config.hidden_size"
    assert text["source of max_len"] == "class default of CLIPTextConfig.max_position_embeddings"

    image = "class default of CLIPVisionConfig.image_size"
    assert vision["max_len"] == 197
    assert vision["dim"] == 768
    assert vision["source of max_len"] == f"({image} // vision_config.patch_size)² + 1"
    for empty in ({}, {"initializer_factor": 1.0}):
        config = {"model_type": "clip", "text_config": empty, "vision_config": empty}
        assert facts_by_layer_type(config) == {
            "": ("learned", 77, 512),
            "vision": ("learned", 50, 768),
        }


def test_sam2_video_without_sizes_has_those_of_its_class() -> None:
    """Its memory attention has one head of 256 channels by class default, half of it for each axis;
    a downsample rate of 2 halves the head.
    """
    for vision in ({}, {"vision_config": {"model_type": "sam2_vision_model"}}):
        config = {"model_type": "sam2_video", **vision}
        assert has_facts(
            only_encoding(config),
            {"scheme": "rope", "head_dim": 256, "rotary_dim": 256, "axis_dim": 128},
        )
        halved = only_encoding({**config, "memory_attention_downsample_rate": 2})
        assert halved.head_dim == 128
        assert halved.sources["head_dim"].startswith(
            "class default of Sam2VideoConfig.memory_attention_hidden_size //"
        )


def test_layers_without_rope_are_named_although_no_key_states_them() -> None:
    """In transformers 5.22.2, the attention classes of these model types rotate only sliding
    layers, or leave out every fourth layer, whatever the config states: pecli warns about layers
    with no rope.
    """
    names = "afmoe cohere2 exaone4 exaone_moe kolibri1 muse_glimmer_text muse_spark_text smollm3"
    for name in names.split():
        assert any("no rope" in warning for warning in load_config({"model_type": name}).warnings)


def test_a_base_in_the_file_is_not_that_of_compressed_layers() -> None:
    """DeepSeek-V4's class has a base for each kind of layer; 160000 is its default for
    `compress_rope_theta`.
    """
    model = load_config({"model_type": "deepseek_v4", "head_dim": 64, "rope_theta": 2e5})
    bases = {encoding.layer_type: encoding.parameters["base"] for encoding in model}
    assert bases == {"main": 2e5, "compress": 1.6e5}


@pytest.mark.parametrize(("model_type", "is_unrotated"), [("afmoe", True), ("exaone4", False)])
def test_only_exaone_rotates_all_layers_without_a_window(
    model_type: str, is_unrotated: bool
) -> None:
    """AFMoE's class rotates by the type of a layer, whatever `sliding_window` is."""
    types = ["sliding_attention", "full_attention"]
    config = {**LLAMA_CONFIG, "model_type": model_type, "sliding_window": None}
    model = load_config({**config, "num_hidden_layers": 2, "layer_types": types})

    assert model.is_unrotated("model.layers.1.q") is is_unrotated
