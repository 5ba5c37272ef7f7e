"""Rotary settings: what is left out, what is said twice, layers without rope, names with two
meanings.

Unscaled frequencies are base^(−2i/d); the expected ones apply each paper's or class's formula to
them by hand. The original length (ORIGINAL) is that of training before a model was stretched;
sources name the key that a value came from.
"""

import math
from typing import Any

import pytest

import pecli
from pecli.models.find import load_config
from pecli.models.presets import presets
from tests.models.facts import has_facts, only_encoding

ORIGINAL = "original_max_position_embeddings"
LLAMA_CONFIG = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 8192,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 16.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 1.0,
    ORIGINAL: 8192,
}
SIZES = {"hidden_size": 5120, "num_attention_heads": 40, "head_dim": 128, "num_hidden_layers": 48}
SCOUT = {"model_type": "llama4_text", **SIZES, "rope_theta": 5e5, "rope_scaling": LLAMA3}
LONGROPE_FACTORS = {"short_factor": [1.0] * 64, "long_factor": [2.0] * 64}


def test_the_softmax_scale_of_deepseek_is_in_a_warning() -> None:
    """DeepSeek multiplies the softmax scale by (0.1 ln(factor) + 1)², which no table shows; the factor
    of DeepSeek-V3 is 40. The warning has it with six decimals, and its root, for runtimes that
    multiply queries and keys instead.
    """
    magnitude = 0.1 * math.log(40) + 1  # 1.368888
    warnings = load_config("deepseek-v3").warnings
    assert any(f"{magnitude**2:.6f}" in text and f"{magnitude:.6f}" in text for text in warnings)


def test_limits_of_yarn_that_gpt_oss_does_not_round_are_in_a_warning() -> None:
    """`truncate` is false in gpt-oss's config; runtimes that do not read it round the limits."""
    warnings = load_config("gpt-oss-20b").warnings
    assert any("rope_scaling.truncate is false" in warning for warning in warnings)


def test_an_unknown_class_needs_the_width_of_its_heads() -> None:
    """The config has a base and nothing else, from which the number of frequencies does not follow."""
    with pytest.raises(pecli.FileError, match="has no head_dim"):
        load_config({"model_type": "wibble", "rope_theta": 1e4})


def test_the_scaling_type_yarn_of_phi_3_means_longrope() -> None:
    """Some configs of Phi-3 of 2024 call longrope «yarn»; its lists of factors show what is meant."""
    config = presets()["phi-3-mini-128k-2024-04"].config
    spelled_yarn = {**config, "rope_scaling": {**config["rope_scaling"], "type": "yarn"}}
    assert only_encoding(spelled_yarn).parameters == only_encoding(config).parameters


def test_llama_4_scales_by_a_step() -> None:
    """SCOUT has llama3 scaling by 16 with equal low and high factors (1): frequencies of wavelengths
    above 8192 / 1 are divided, others are not, and none are blended. Base 500000, heads of 128.
    """
    encoding = only_encoding({"model_type": "llama4", "text_config": SCOUT})
    unscaled = [5e5 ** (-i / 64) for i in range(64)]
    expected = [value / 16 if 2 * math.pi / value > 8192 else value for value in unscaled]

    assert encoding.inverse_frequencies() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    "no_rope_layers",
    [None, [], [int((layer + 1) % 4 != 0) for layer in range(48)]],
    ids=["null", "empty", "listed"],
)
def test_every_fourth_layer_of_llama_4_has_no_rope_whether_the_config_lists_them_or_not(
    no_rope_layers: list[int] | None,
) -> None:
    """By the published config of Scout (48 layers) and its class: 0 in `no_rope_layers` means no
    rope. Queries of these layers are multiplied by the temperature that the second warning states.
    """
    model = load_config({**SCOUT, "no_rope_layers": no_rope_layers})
    layers, temperature = model.warnings

    assert model.one().unrotated.nope_layers == tuple(range(3, 48, 4))
    assert layers.startswith("layers 3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47 have no rope: ")
    assert "1 + 0.1·ln(1 + ⌊(p + 1)/8192⌋)" in temperature


NTK_BY_8 = {"type": "ntk", "factor": 8.0}


@pytest.mark.parametrize("name", ["gte", "new"])
def test_ntk_in_gte_multiplies_the_base_and_divides_frequencies(name: str) -> None:
    """GTE's code, whose model_type is also «new», multiplies the base by the factor 8 itself, and
    divides frequencies by 8^(2/64) for heads of 64 channels.
    """
    model = load_config(
        {"model_type": name, "head_dim": 64, "rope_theta": 2e4, "rope_scaling": NTK_BY_8}
    )
    expected = [(2e4 * 8) ** (-2 * i / 64) / 8 ** (2 / 64) for i in range(32)]

    assert model.one().inverse_frequencies() == pytest.approx(expected, rel=1e-14)
    assert model.one().sources["scaling"] == f"rope_scaling.type (ntk means ntk-fixed in {name})"
    assert model.warnings == ()


def test_ntk_in_llama_multiplies_the_base_by_a_power_of_the_factor() -> None:
    """The usual meaning of «ntk»: the base, 10000, is multiplied by factor^(dim / (dim − 2)), with
    factor 8 and dim 128. A warning mentions the meaning that it has in GTE (ntk-fixed).
    """
    model = load_config({**LLAMA_CONFIG, "rope_scaling": NTK_BY_8})
    expected = [(1e4 * 8 ** (128 / 126)) ** (-i / 64) for i in range(64)]
    assert model.one().inverse_frequencies() == pytest.approx(expected, rel=1e-14)

    (warning,) = model.warnings
    assert "ntk-fixed" in warning


def test_telechat_3_has_a_smaller_attention_factor_than_yarn() -> None:
    """TeleChat 3's code has 0.07 in place of YaRN's 0.1 in the attention factor 1 + 0.1 ln(factor);
    its frequencies are YaRN's.
    """
    settings = {"factor": 8.0, ORIGINAL: 8192}
    yarn = only_encoding({**LLAMA_CONFIG, "rope_scaling": {"type": "yarn", **settings}})
    telechat = only_encoding(
        {**LLAMA_CONFIG, "rope_scaling": {"type": "telechat3-yarn", **settings}}
    )

    assert telechat.attention_factor() == pytest.approx(1 + 0.07 * math.log(8), rel=1e-15)
    assert telechat.inverse_frequencies() == yarn.inverse_frequencies()


def test_the_attention_factor_of_telechat_3_without_a_factor_follows_from_the_lengths() -> None:
    """TeleChat 3's code has 1 + 0.07 ln(factor) for its attention factor, and takes the quotient of the
    lengths for a factor that is missing: here 8192 positions over 3000 original ones.
    """
    scaling = {"type": "telechat3-yarn", "original_max_position_embeddings": 3000}
    config = {**LLAMA_CONFIG, "max_position_embeddings": 8192, "rope_scaling": scaling}
    encoding = only_encoding(config)

    factor = 8192 / 3000
    assert encoding.attention_factor() == pytest.approx(1 + 0.07 * math.log(factor), rel=1e-15)


@pytest.mark.parametrize(
    ("model_type", "reason"),
    [
        ("dinov3_vit", "centres of"),
        ("sapiens2", "centres of"),
        ("vjepa2", "no pair rotates by one angle"),
    ],
)
def test_a_table_over_positions_is_refused_for_models_that_rotate_by_places_of_an_image(
    model_type: str, reason: str
) -> None:
    """DINOv3 and Sapiens 2 rotate by the centres of patches as fractions of the image, and V-JEPA 2
    rotates no pair by one angle: they never use a table over positions 0, 1, 2, …
    """
    model = load_config({"model_type": model_type, "hidden_size": 768, "num_attention_heads": 12})

    assert any(reason in warning for warning in model.warnings)
    assert model.one().inverse_frequencies() is not None
    with pytest.raises(pecli.ParameterError, match=reason):
        model.one().rope(8)


def llama_encoding_scaled_by(scaling: dict[str, Any]) -> Any:
    return only_encoding({**LLAMA_CONFIG, "max_position_embeddings": 4096, "rope_scaling": scaling})


def test_the_betas_of_yarn_are_32_and_1_and_limits_are_rounded_by_default() -> None:
    """These are the values of YaRN's paper; a config that states them is read as one that does not."""
    defaults = {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True}
    settings = {"type": "yarn", "factor": 4.0, ORIGINAL: 1024}
    encoding = llama_encoding_scaled_by(settings)
    sources = {f"source of {name}": "default" for name in defaults}

    assert has_facts(encoding, {**defaults, **sources})
    assert llama_encoding_scaled_by({**settings, **defaults}).parameters == encoding.parameters


def test_betas_and_truncate_of_a_config_replace_the_defaults_of_yarn() -> None:
    """YaRN's paper has beta_fast 32, beta_slow 1 and rounded limits (truncate). The config states 16
    and no rounding; beta_slow, which it leaves out, stays 1.
    """
    settings = {"type": "yarn", "factor": 4.0, ORIGINAL: 1024, "beta_fast": 16, "truncate": False}
    encoding = llama_encoding_scaled_by(settings)

    assert has_facts(encoding, {"beta_fast": 16.0, "beta_slow": 1.0, "truncate": False})
    assert encoding.sources["beta_fast"] == "rope_scaling.beta_fast"


@pytest.mark.parametrize(
    ("scaling", "attention_factor"),
    [
        ({"type": "yarn"}, 0.1 * math.log(4) + 1),
        ({"type": "longrope", **LONGROPE_FACTORS}, math.sqrt(1 + math.log(4) / math.log(1024))),
    ],
    ids=["yarn", "longrope"],
)
def test_a_factor_that_is_left_out_is_the_quotient_of_the_lengths(
    scaling: dict[str, Any], attention_factor: float
) -> None:
    """`llama_encoding_scaled_by` has max_position_embeddings 4096, and 4096 / 1024 = 4. The attention
    factors are the formulas of the papers of YaRN and LongRoPE for 4.
    """
    settings = {**scaling, ORIGINAL: 1024}
    derived = llama_encoding_scaled_by(settings)
    stated = llama_encoding_scaled_by({**settings, "factor": 4.0})

    assert derived.parameters["factor"] == 4.0
    assert derived.sources["factor"] == f"max_position_embeddings / rope_scaling.{ORIGINAL}"
    assert derived.attention_factor() == pytest.approx(attention_factor, rel=1e-15)
    assert derived.inverse_frequencies() == stated.inverse_frequencies()


def test_a_quotient_of_lengths_that_is_no_whole_number_is_not_rounded() -> None:
    """4096 / 3000 has no exact decimals, so the lengths become parameters in place of a factor."""
    encoding = llama_encoding_scaled_by({"type": "yarn", ORIGINAL: 3000})
    assert "factor" not in encoding.parameters
    assert encoding.attention_factor() == pytest.approx(0.1 * math.log(4096 / 3000) + 1, rel=1e-15)


def test_the_attention_factor_of_phi_3_5_moe_changes_beyond_the_original_length() -> None:
    """Its config states short_mscale, which holds up to the original 1024 positions here, and
    long_mscale for longer prompts.
    """
    mscales = {"short_mscale": 1.25, "long_mscale": 1.5}
    settings = {"type": "longrope", ORIGINAL: 1024, **LONGROPE_FACTORS, **mscales}
    encoding = llama_encoding_scaled_by(settings)

    assert encoding.attention_factor(None) == 1.25
    assert encoding.attention_factor(1024) == 1.25
    assert encoding.attention_factor(1025) == 1.5
    assert encoding.rope(1024).attention_factor_value() == 1.25
    assert encoding.rope(1025).attention_factor_value() == 1.5
