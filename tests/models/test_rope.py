"""Rotary settings: what is left out, what is said twice, layers without rope, names with two meanings."""

import math
from typing import Any

import pytest

import pecli
from pecli.models.find import load_config
from pecli.models.presets import presets
from tests.models.facts import agrees, check, one

ORIGINAL = "original_max_position_embeddings"
LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 8192}
LLAMA3 = {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0, ORIGINAL: 8192}
SIZES = {"hidden_size": 5120, "num_attention_heads": 40, "head_dim": 128, "num_hidden_layers": 48}
SCOUT = {"model_type": "llama4_text", **SIZES, "rope_theta": 5e5, "rope_scaling": LLAMA3}
LONG = {"short_factor": [1.0] * 64, "long_factor": [2.0] * 64}
ERNIE = {"model_type": "ernie4_5_vl_moe_text", "hidden_size": 512, "num_attention_heads": 4}
QWEN3_VL = {"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True}
MINISTRAL = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, ORIGINAL: 16384}
NESTED = {name: {"rope_type": "default", "rope_theta": 1e4} for name in ("full_attention", "sliding_attention")}
NONE, GLM = {"rope_type": "default"}, "family default (glm)"
YARN = {"type": "yarn", "factor": 2.0, ORIGINAL: 2048}
TEXT = {"model_type": "qwen3_vl_text", "head_dim": 128, "rope_scaling": QWEN3_VL}

RULES: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "the top length wins": ({ORIGINAL: 4096, "rope_scaling": YARN}, {ORIGINAL: 4096}, f" is 4096; {ORIGINAL} wins"),
    "two bases": (
        {"rope_theta": 1e6, "rope_parameters": {**NONE, "rope_theta": 1e4}},
        {"base": 1e4},
        "10000; rope_parameters.rope_theta wins",
    ),
    "equal bases": ({"rope_theta": 1e6, "rope_parameters": {**NONE, "rope_theta": 1e6}}, {"base": 1e6}, ""),
    "two types": ({"rope_scaling": {**YARN, "rope_type": "linear"}}, {"scaling": "linear"}, "rope_type wins"),
    "equal types": (
        {"rope_scaling": {"type": "mrope", **NONE, "mrope_section": [16, 24, 24]}},
        {"scaling": "none"},
        "",
    ),
    "rope_scaling wins over rope_parameters": (
        {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"type": "linear", "factor": 4.0}},
        {"factor": 2.0},
        "rope_scaling wins",
    ),
    "leftover scaling values": ({"rope_scaling": {**NONE, "factor": 8.0}}, {"factor": None}, "not used"),
    "an explicit attention factor": (
        {"rope_scaling": {**YARN, "attention_factor": 0.9}},
        {"attention_factor": 0.9},
        "rope_scaling.attention_factor is given",
    ),
    "a key that says what the family does": (
        {"model_type": "qwen3_vl", "text_config": TEXT},
        {"source of mrope_interleaved": "text_config.rope_scaling.mrope_interleaved"},
        None,
    ),
    "a family implies a share": ({"model_type": "glm"}, {"source of partial_rotary_factor": GLM}, ""),
    "a family implies a layout": ({"model_type": "glm"}, {"source of layout": GLM, "source of base": "default"}, ""),
    "an unknown family": (
        {"model_type": "wibble", "rope_theta": 5e5},
        {"rotary_dim": 128, "layout": "halves", "source of dim": "hidden_size // num_attention_heads"},
        "'wibble' is unknown",
    ),
    "sections that are none": (
        {**ERNIE, "rope_parameters": {"rope_theta": 5e5, "mrope_section": []}},
        {"order": [*range(0, 44, 2), *range(1, 44, 2), *range(44, 64)]},
        None,
    ),
    "Ernie keeps rows, columns and time apart": (
        {**ERNIE, "head_dim": 16, "rope_parameters": {"rope_theta": 5e5, "mrope_section": [2, 2, 4]}},
        {"order": [0, 2, 1, 3, 4, 5, 6, 7]},
        "stored axis by axis",
    ),
    "three axes share an even third each": (
        {"model_type": "minimax_m3_vl_vision", "hidden_size": 1280, "num_attention_heads": 16},
        {"axis_dim": 26, "rotary_dim": 78, "head_dim": 80},
        None,
    ),
    "layers that no one has": (
        {"layer_types": ["full_attention"] * 4, "rope_parameters": NESTED},
        {"base": 1e4},
        "settings of sliding_attention are not used",
    ),
    "ernie4_5_moe": ({"model_type": "ernie4_5_moe"}, {"layout": "interleaved"}, None),
    "openai_privacy_filter": ({"model_type": "openai_privacy_filter"}, {"layout": "interleaved"}, None),
    "hy_v4": ({"model_type": "hy_v4", "qk_rope_head_dim": 64, "kv_lora_rank": 512}, {"layout": "halves"}, None),
    "mistral_large4": ({"model_type": "mistral_large4_text", "qk_rope_head_dim": 64}, {"layout": "deepseek"}, None),
    **{
        f"the length stands in for the original one, {kind}": (
            {"rope_scaling": {"rope_type": kind, "factor": 2.0, **more}},
            {ORIGINAL: 8192},
            "max_position_embeddings is used instead",
        )
        for kind, more in {"yarn": {}, "llama3": {**LLAMA3, ORIGINAL: None}, "longrope": LONG}.items()
    },
    "Llama 4, all layers": ({**SCOUT, "no_rope_layers": [1] * 48}, {"nope_layers": None, "attn_scale": None}, ""),
    "Llama 4 without a temperature": (
        {**SCOUT, "attn_temperature_tuning": False, "num_hidden_layers": 4},
        {"nope_layers": [3], "attn_scale": None},
        "layers 3 have no rope",
    ),
    "SmolLM3 by its interval": (
        {"model_type": "smollm3", "num_hidden_layers": 8, "no_rope_layer_interval": 2},
        {"nope_layers": [1, 3, 5, 7], "source of nope_layers": "one layer in 2 (no_rope_layer_interval)"},
        None,
    ),
    "Ministral 3 multiplies its queries": (
        {"model_type": "ministral3", "rope_parameters": {**MINISTRAL, "llama_4_scaling_beta": 0.1}},
        {"llama_4_scaling_beta": 0.1},
        "1 + 0.1·ln(1 + ⌊p/16384⌋)",
    ),
    "Ministral 3 without": (
        {"model_type": "ministral3", "max_position_embeddings": 262144, "rope_parameters": MINISTRAL},
        {"llama_4_scaling_beta": None},
        "",
    ),
    "a temperature without an original length": (
        {"rope_scaling": {"rope_type": "default", "llama_4_scaling_beta": 0.1}},
        {"llama_4_scaling_beta": 0.1},
        "",
    ),
    "two bases of layers": ({"layer_rope_theta": [1e4, 5e5]}, {}, "layers have bases of their own"),
    "one base for all": ({"layer_rope_theta": [1e4, 1e4]}, {}, ""),
    "mixed ntk": ({"model_type": "gte", "rope_scaling": {"type": "ntk", "factor": 8.0, "mixed_b": 0.5}}, {}, "mixed_b"),
    "a key wins over the class": ({"model_type": "qwen3", "head_dim": 64}, {"head_dim": 64}, ""),
    "the class wins over a quotient": ({"model_type": "qwen3", "hidden_size": 2048}, {"head_dim": 128}, ""),
    "a key of a dialect": ({"model_type": "qwen2", "rotary_pct": 0.5}, {"rotary_dim": 64}, ""),
    "a key that a class ignores": (
        {"model_type": "qwen2", "partial_rotary_factor": 0.5},
        {"rotary_dim": 128},
        "the code of Qwen2Config ignores",
    ),
    "the nearest known key": ({"rope_scaling": {**YARN, "attn_factor": 0.878}}, {}, "did you mean 'attention_factor'?"),
    "lengths that do not fit": (
        {"rope_scaling": {"type": "yarn", "factor": 8.0, ORIGINAL: 4096}},
        {},
        "make 32768, but the model says 8192",
    ),
    "a scaling that was lost": (
        {"rope_theta": 5e5, "max_position_embeddings": 131072},
        {"base": 5e5},
        "rope_scaling may have been lost",
    ),
    "no scaling to be lost": ({"rope_theta": 5e5, "max_position_embeddings": 131073}, {"base": 5e5}, ""),
}


@pytest.mark.parametrize("name", RULES)
def test_rules(name: str) -> None:
    change, expected, said = RULES[name]
    check({**LLAMA, **change}, expected, said)


def test_what_presets_say_of_themselves() -> None:
    assert any("1.873854" in said and "1.368888" in said for said in load_config("deepseek-v3").warnings)
    assert any("rope_scaling.truncate is false" in said for said in load_config("gpt-oss-20b").warnings)


def test_an_unknown_class_has_no_defaults() -> None:
    with pytest.raises(pecli.FileError, match="has no head_dim"):
        load_config({"model_type": "wibble", "rope_theta": 1e4})


def test_phi3_spells_longrope_yarn() -> None:
    config = presets()["phi-3-mini-128k-2024-04"].config
    spelled = {**config, "rope_scaling": {**config["rope_scaling"], "type": "yarn"}}
    assert one(spelled).parameters == one(config).parameters


def test_llama_4_scout_scales_by_a_step() -> None:
    found = one({"model_type": "llama4", "text_config": SCOUT})
    plain = [5e5 ** (-i / 64) for i in range(64)]
    expected = [value / 16 if 2 * math.pi / value > 8192 else value for value in plain]
    assert found.inverse_frequencies() == pytest.approx(expected, rel=1e-14)


def test_llama_4_names_its_layers_without_rope() -> None:
    for flags in (None, [], [int((k + 1) % 4 != 0) for k in range(48)]):
        model = load_config({**SCOUT, "no_rope_layers": flags})
        assert model.one().extra["nope_layers"] == [*range(3, 48, 4)]
        layers, temperature = model.warnings
        assert layers.startswith("layers 3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47 have no rope: ")
        assert "1 + 0.1·ln(1 + ⌊(p + 1)/8192⌋)" in temperature


def test_ntk_has_two_meanings() -> None:
    scaling = {"type": "ntk", "factor": 8.0}
    for name in ("gte", "new"):
        model = load_config({"model_type": name, "head_dim": 64, "rope_theta": 2e4, "rope_scaling": scaling})
        expected = [(2e4 * 8) ** (-2 * i / 64) / 8 ** (2 / 64) for i in range(32)]
        assert model.one().inverse_frequencies() == pytest.approx(expected, rel=1e-14)
        assert model.one().sources["scaling"] == f"rope_scaling.type (ntk means ntk-fixed in {name})"
        assert model.warnings == ()
    model = load_config({**LLAMA, "rope_scaling": scaling})
    expected = [(1e4 * 8 ** (128 / 126)) ** (-i / 64) for i in range(64)]
    assert model.one().inverse_frequencies() == pytest.approx(expected, rel=1e-14)
    (warning,) = model.warnings
    assert "ntk-fixed" in warning


def test_telechat_3_sharpens_less() -> None:
    scaling = {"factor": 8.0, ORIGINAL: 8192}
    found, plain = (one({**LLAMA, "rope_scaling": {"type": kind, **scaling}}) for kind in ("telechat3-yarn", "yarn"))
    assert found.attention_factor() == pytest.approx(1 + 0.07 * math.log(8), rel=1e-15)
    assert found.inverse_frequencies() == plain.inverse_frequencies()
    derived = one({**LLAMA, "rope_scaling": {"type": "telechat3-yarn", ORIGINAL: 3000}})
    assert derived.attention_factor() == pytest.approx(1 + 0.07 * math.log(8192 / 3000), rel=1e-15)


NO_TABLES = {"dinov3_vit": "centres of", "sapiens2": "centres of", "vjepa2": "no pair rotates by one angle"}


def test_no_table_is_made_that_a_model_never_uses() -> None:
    for name, said in NO_TABLES.items():
        model = load_config({"model_type": name, "hidden_size": 768, "num_attention_heads": 12})
        assert any(said in warning for warning in model.warnings)
        assert model.one().inverse_frequencies() is not None
        with pytest.raises(pecli.ParameterError, match=said):
            model.one().rope(8)


KEYS: dict[str, Any] = {
    "dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192},
    "rotary_scaling_factor": 2,
    "use_dynamic_ntk": True,
    "use_logn_attn": True,
}


def test_keys_that_change_positions_are_told() -> None:
    for key, value in KEYS.items():
        (warning,) = load_config({**LLAMA, "rope_theta": 1e4, key: value}).warnings
        assert warning.startswith(f"{key} is given: ")
        off = None if isinstance(value, dict) else False
        assert load_config({**LLAMA, "rope_theta": 1e4, key: off}).warnings == ()


def of(scaling: dict[str, Any]) -> Any:
    return one({**LLAMA, "max_position_embeddings": 4096, "rope_scaling": scaling})


def test_the_betas_of_yarn_are_32_and_1_and_limits_are_rounded() -> None:
    said = {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True}
    found = of({"type": "yarn", "factor": 4.0, ORIGINAL: 1024})
    assert agrees(found, {**said, **{f"source of {name}": "default" for name in said}})
    assert of({"type": "yarn", "factor": 4.0, ORIGINAL: 1024, **said}).parameters == found.parameters
    given = of({"type": "yarn", "factor": 4.0, ORIGINAL: 1024, "beta_fast": 16, "truncate": False})
    source = {"source of beta_fast": "rope_scaling.beta_fast"}
    assert agrees(given, {"beta_fast": 16.0, "beta_slow": 1.0, "truncate": False, **source})


def test_a_factor_left_out_is_the_lengths_quotient() -> None:
    by_hand = {"yarn": 0.1 * math.log(4) + 1, "longrope": math.sqrt(1 + math.log(4) / math.log(1024))}
    for kind, lists in {"yarn": {}, "longrope": LONG}.items():
        found = of({"type": kind, ORIGINAL: 1024, **lists})
        assert agrees(found, {"factor": 4.0, "source of factor": f"max_position_embeddings / rope_scaling.{ORIGINAL}"})
        assert found.attention_factor() == pytest.approx(by_hand[kind], rel=1e-15)
        given = of({"type": kind, ORIGINAL: 1024, "factor": 4.0, **lists})
        assert found.inverse_frequencies() == given.inverse_frequencies()
    broken = of({"type": "yarn", ORIGINAL: 3000})  # no whole number, which is left to the scheme
    assert "factor" not in broken.parameters
    assert broken.attention_factor() == pytest.approx(0.1 * math.log(4096 / 3000) + 1, rel=1e-15)
