"""Well-known models, each explained as its makers mean it."""

from __future__ import annotations

from typing import Any

import pytest

from pecli.errors import ParameterError
from pecli.models.encoding import ModelEncodings
from pecli.models.find import load_config, load_model
from pecli.models.presets import presets


def summary(model: ModelEncodings) -> dict[str, tuple[Any, ...]]:
    """Layer type → rotary dim, base, scaling, layout; or the sizes of what turns nothing."""
    found: dict[str, tuple[Any, ...]] = {}
    for each in model.encodings:
        given = each.parameters
        if each.scheme == "rope":
            found[each.layer_type] = (each.rotary_dim, given["base"], given["scaling"], each.layout)
        else:
            sizes = [given[name] for name in ("heads", "max_len", "seq_len", "dim") if name in given]
            found[each.layer_type] = (each.scheme, *sizes)
    return found


PRESETS = {
    "gemma-3-12b": {
        "full_attention": (256, 1e6, "linear", "halves"),
        "sliding_attention": (256, 1e4, "none", "halves"),
    },
    "modernbert-base": {
        "full_attention": (64, 160000.0, "none", "halves"),
        "sliding_attention": (64, 10000.0, "none", "halves"),
    },
    "deepseek-v3": {"": (64, 10000.0, "yarn", "deepseek")},
    "gpt-oss-20b": {"": (64, 150000.0, "yarn", "halves")},
    "phi-3-mini-128k-2024-04": {"": (96, 10000.0, "longrope", "halves")},
    "gpt-j-6b": {"": (64, 10000.0, "none", "interleaved")},
    "gpt-neox-20b": {"": (24, 10000.0, "none", "halves")},
    "llama-3.1-8b": {"": (128, 500000.0, "llama3", "halves")},
    "phi-2": {"": (32, 10000.0, "none", "halves")},
    "gpt2": {"": ("learned", 1024, 768)},
    "bert-base": {"": ("learned", 512, 768)},
    "vit-base-patch16-224": {"": ("learned", 197, 768)},
    "clip-vit-base-patch32": {"": ("learned", 77, 512), "vision": ("learned", 50, 768)},
}

CONFIGS: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "glm": (
        {"model_type": "glm", "hidden_size": 4096, "num_attention_heads": 32, "head_dim": 128, "rope_theta": 1e4},
        {"": (64, 1e4, "none", "interleaved")},
    ),
    "chatglm": (
        {
            "model_type": "chatglm",
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "kv_channels": 128,
            "rope_ratio": 500,
        },
        {"": (64, 5e6, "none", "interleaved")},
    ),
    "qwen2-vl": (
        {
            "model_type": "qwen2_vl",
            "hidden_size": 3584,
            "num_attention_heads": 28,
            "rope_theta": 1e6,
            "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
            "vision_config": {"depth": 32, "embed_dim": 1280, "num_heads": 16, "hidden_size": 3584, "patch_size": 14},
        },
        {"": (128, 1e6, "none", "halves"), "vision": (80, 1e4, "none", "halves")},
    ),
    "bloom": ({"model_type": "bloom", "hidden_size": 14336, "n_head": 112}, {"": ("alibi", 112)}),
    "mpt": (
        {"model_type": "mpt", "d_model": 4096, "n_heads": 32, "attn_config": {"alibi": True, "alibi_bias_max": 8}},
        {"": ("alibi", 32)},
    ),
    "mpt-learned": (
        {"model_type": "mpt", "d_model": 64, "n_heads": 4, "max_seq_len": 128, "attn_config": {"alibi": False}},
        {"": ("learned", 128, 64)},
    ),
    "falcon-alibi": (
        {"model_type": "falcon", "hidden_size": 2048, "num_attention_heads": 32, "alibi": True},
        {"": ("alibi", 32)},
    ),
    "falcon-rope": (
        {"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "alibi": False},
        {"": (64, 1e4, "none", "halves")},
    ),
    "opt": (
        {"model_type": "opt", "hidden_size": 768, "max_position_embeddings": 2048},
        {"": ("learned", 2050, 768)},
    ),
    "whisper": (
        {"model_type": "whisper", "d_model": 384, "max_source_positions": 1500, "max_target_positions": 448},
        {"encoder": ("sinusoidal", 1500, 384), "decoder": ("learned", 448, 384)},
    ),
    "gemma-3-4b: sizes that the hub leaves out": (
        {
            "model_type": "gemma3",
            "text_config": {
                "hidden_size": 2560,
                "model_type": "gemma3_text",
                "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            },
            "vision_config": {
                "hidden_size": 1152,
                "image_size": 896,
                "model_type": "siglip_vision_model",
                "num_attention_heads": 16,
                "patch_size": 14,
            },
        },
        {
            "full_attention": (256, 1e6, "linear", "halves"),
            "sliding_attention": (256, 1e4, "none", "halves"),
            "vision": ("learned", 4096, 1152),
        },
    ),
    "dbrx": (
        {"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "attn_config": {"rope_theta": 500000}},
        {"": (128, 5e5, "none", "halves")},
    ),
    "pixtral: even frequencies for rows, odd ones for columns": (
        {
            "model_type": "mistral3",
            "text_config": {"model_type": "mistral", "head_dim": 128, "rope_theta": 1e9},
            "vision_config": {"model_type": "pixtral", "head_dim": 64, "rope_theta": 10000.0},
        },
        {"": (128, 1e9, "none", "halves"), "vision": (64, 1e4, "none", "halves")},
    ),
    "hunyuan: dynamic with alpha is ntk": (
        {"model_type": "hunyuan_v1_dense", "head_dim": 128, "rope_scaling": {"type": "dynamic", "alpha": 1000.0}},
        {"": (128, 1e4, "ntk", "halves")},
    ),
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_explained(name: str) -> None:
    assert summary(load_model(name)) == PRESETS[name]


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations_are_explained(name: str) -> None:
    config, expected = CONFIGS[name]
    model = load_config(config)
    assert summary(model) == expected
    assert not any("unknown" in warning for warning in model.warnings)


def test_every_preset_says_where_it_was_read_and_none_is_from_memory() -> None:
    assert len(presets()) > 20
    for preset in presets().values():
        assert preset.source
        assert "from memory" not in preset.source
        assert load_model(preset.name).encodings


def test_deepseek_reports_the_softmax_scale_outside_the_table() -> None:
    model = load_model("deepseek-v3")
    assert model.encodings[0].attention_factor() == 1.0
    assert any("1.873854" in warning and "1.368888" in warning for warning in model.warnings)  # (0.1·ln 40 + 1)²


def test_gpt_oss_warns_of_truncate() -> None:
    assert any("truncate" in warning for warning in load_model("gpt-oss-20b").warnings)


def test_phi3_reads_short_up_to_the_original_length_and_long_beyond() -> None:
    (encoding,) = load_model("phi-3-mini-128k-2024-04").encodings
    before, at, beyond = (encoding.inverse_frequencies(length) for length in (None, 4096, 4097))
    assert before == at
    assert at != beyond
    assert at is not None
    assert at[0] == pytest.approx(1 / 1.05)
    assert encoding.attention_factor() == pytest.approx(1.1902380714238083, rel=1e-12)  # sqrt(1 + ln 32 / ln 4096)


def test_phi3_spells_longrope_yarn() -> None:
    config = presets()["phi-3-mini-128k-2024-04"].config
    spelled = {**config, "rope_scaling": {**config["rope_scaling"], "type": "yarn"}}
    assert load_config(spelled).encodings[0].parameters == load_config(config).encodings[0].parameters


def test_the_length_at_the_top_wins_and_a_contradiction_is_told() -> None:
    config = {
        "model_type": "llama",
        "head_dim": 64,
        "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 2048},
    }
    model = load_config(config)
    assert model.encodings[0].parameters["original_max_position_embeddings"] == 4096
    assert any("4096" in warning and "2048" in warning for warning in model.warnings)


def test_two_bases_are_a_contradiction() -> None:
    config = {"model_type": "llama", "head_dim": 64, "rope_theta": 1e6}
    model = load_config({**config, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}})
    assert model.one().parameters["base"] == 1e4
    (warning,) = model.warnings
    assert warning.startswith(
        "rope_theta is 1000000 and rope_parameters.rope_theta is 10000; rope_parameters.rope_theta"
    )
    assert load_config({**config, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}).warnings == ()


def test_two_types_are_a_contradiction_unless_they_mean_the_same() -> None:
    config = {"model_type": "llama", "head_dim": 64}
    model = load_config({**config, "rope_scaling": {"type": "dynamic", "rope_type": "linear", "factor": 4.0}})
    assert model.one().parameters["scaling"] == "linear"
    (warning,) = model.warnings
    assert warning.startswith(
        "rope_scaling.type is dynamic and rope_scaling.rope_type is linear; rope_scaling.rope_type"
    )
    both = {"type": "mrope", "rope_type": "default", "mrope_section": [8, 12, 12]}
    assert load_config({**config, "rope_scaling": both}).warnings == ()


def test_what_a_key_says_as_the_family_does_comes_from_the_key() -> None:
    rope = {"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True}
    text = {"model_type": "qwen3_vl_text", "head_dim": 128, "rope_scaling": rope}
    source = load_config({"model_type": "qwen3_vl", "text_config": text}).one().sources["mrope_interleaved"]
    assert source == "text_config.rope_scaling.mrope_interleaved"


def test_rope_scaling_wins_over_rope_parameters() -> None:
    config = {
        "model_type": "llama",
        "head_dim": 64,
        "rope_scaling": {"type": "linear", "factor": 2.0},
        "rope_parameters": {"rope_type": "linear", "factor": 4.0},
    }
    model = load_config(config)
    assert model.encodings[0].parameters["factor"] == 2.0
    assert any("rope_scaling wins" in warning for warning in model.warnings)


def test_an_unknown_family_with_ordinary_keys_is_read_with_a_warning() -> None:
    config = {"model_type": "wibble", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 5e5}
    model = load_config(config)
    assert summary(model) == {"": (128, 5e5, "none", "halves")}
    assert model.encodings[0].sources["dim"] == "hidden_size // num_attention_heads"
    assert any("wibble" in warning for warning in model.warnings)
    assert not load_config({**config, "model_type": "llama"}).warnings


@pytest.mark.parametrize("name", ["jamba", "mamba", "longt5", "wibble"])
def test_no_encoding_at_all_is_said(name: str) -> None:
    model = load_config({"model_type": name, "hidden_size": 64, "num_attention_heads": 4})
    assert model.encodings == ()
    assert model.warnings


def test_sources_name_what_a_family_implies() -> None:
    (encoding,) = load_config({"model_type": "glm", "head_dim": 128}).encodings
    assert encoding.sources["partial_rotary_factor"] == "family default (glm)"
    assert encoding.sources["base"] == "default"
    assert encoding.sources["layout"] == "family default (glm)"


@pytest.mark.parametrize(
    ("given", "offset", "source"),
    [
        ({"model_type": "roberta"}, 2, "class default of RobertaConfig.pad_token_id + 1"),
        ({"model_type": "camembert", "pad_token_id": 0}, 1, "pad_token_id + 1"),
        ({"model_type": "xlm-roberta", "pad_token_id": -1}, None, None),
        ({"model_type": "opt"}, 2, "family"),
        ({"model_type": "bert", "pad_token_id": 0}, None, None),
    ],
)
def test_the_row_of_the_first_position(given: dict[str, Any], offset: int | None, source: str | None) -> None:
    (encoding,) = load_config({**given, "max_position_embeddings": 514, "hidden_size": 768}).encodings
    assert (encoding.described().get("offset"), encoding.sources.get("offset")) == (offset, source)


@pytest.mark.parametrize("name", [*CONFIGS, *PRESETS])
def test_every_value_has_a_source(name: str) -> None:
    model = load_config(CONFIGS[name][0]) if name in CONFIGS else load_model(name)
    for encoding in model:
        assert encoding.described().keys() <= encoding.sources.keys()
        assert all(encoding.sources.values())


def test_sections_that_are_none() -> None:
    given = {"model_type": "ernie4_5_vl_moe_text", "hidden_size": 512, "num_attention_heads": 4}
    (encoding,) = load_config({**given, "rope_parameters": {"rope_theta": 5e5, "mrope_section": []}}).encodings
    assert sorted(encoding.extra["order"]) == list(range(64))


def test_leftover_scaling_values_are_told() -> None:
    config = {"model_type": "llama", "head_dim": 64, "rope_scaling": {"rope_type": "default", "factor": 8.0}}
    assert any("not used" in warning for warning in load_config(config).warnings)


def test_an_explicit_attention_factor_is_told() -> None:
    scaling = {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64, "attention_factor": 0.9}
    model = load_config({"model_type": "llama", "head_dim": 64, "rope_scaling": scaling})
    assert model.encodings[0].attention_factor() == 0.9
    assert any("vLLM" in warning for warning in model.warnings)


def test_ernie_keeps_rows_columns_and_time_apart() -> None:
    settings = {"rope_type": "default", "rope_theta": 5e5, "mrope_section": [2, 2, 4]}
    (encoding,) = load_config(
        {"model_type": "ernie4_5_vl_moe_text", "head_dim": 16, "rope_parameters": settings}
    ).encodings
    plain = [5e5 ** (-i / 8) for i in range(8)]
    assert encoding.inverse_frequencies() == pytest.approx([plain[k] for k in (0, 2, 1, 3, 4, 5, 6, 7)], rel=1e-12)


def test_three_axes_share_an_even_third_each() -> None:
    config = {"model_type": "minimax_m3_vl_vision", "hidden_size": 1280, "num_attention_heads": 16}
    (encoding,) = load_config({**config, "rope_parameters": {"rope_type": "axial", "rope_theta": 1e4}}).encodings
    assert (encoding.axis_dim, encoding.rotary_dim, encoding.head_dim) == (26, 78, 80)


def test_a_model_is_gone_through_by_its_encodings() -> None:
    model = load_model("gemma-3-12b")
    assert [each.layer_type for each in model] == ["full_attention", "sliding_attention"]
    assert len(model) == 2
    assert not load_config({"model_type": "mamba", "hidden_size": 512})


def test_one_is_the_language_model_unless_a_part_is_named() -> None:
    model = load_config(CONFIGS["qwen2-vl"][0])
    assert model.one().layer_type == ""
    assert model.one("vision").head_dim == 80
    assert [each.layer_type for each in load_model("gemma-3-1b").ropes()] == ["full_attention", "sliding_attention"]
    with pytest.raises(ParameterError, match="full_attention"):
        load_model("gemma-3-1b").one()
    with pytest.raises(ParameterError, match="not rope"):
        load_model("gpt2").one().rope(8)
    with pytest.raises(ParameterError, match="all layers of llama-3-8b are of one kind, which has no name"):
        load_model("llama-3-8b").one("full_attention")
