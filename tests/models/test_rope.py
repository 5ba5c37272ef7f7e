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


def test_presets_warn_of_factors_that_no_table_shows_and_unknown_classes_need_a_head_dim() -> None:
    """DeepSeek's softmax factors: (0.1 ln 40 + 1)² = 1.873854, and its root 1.368888. gpt-oss does
    not round YaRN's limits. An unknown class needs the width of its heads. Phi-3's spelling «yarn»
    of 2024 means longrope.
    """
    assert any(
        "1.873854" in said and "1.368888" in said for said in load_config("deepseek-v3").warnings
    )
    assert any(
        "rope_scaling.truncate is false" in said for said in load_config("gpt-oss-20b").warnings
    )
    with pytest.raises(pecli.FileError, match="has no head_dim"):
        load_config({"model_type": "wibble", "rope_theta": 1e4})

    config = presets()["phi-3-mini-128k-2024-04"].config
    spelled = {**config, "rope_scaling": {**config["rope_scaling"], "type": "yarn"}}
    assert only_encoding(spelled).parameters == only_encoding(config).parameters


def test_llama_4_scales_by_a_step_and_names_its_layers_without_rope() -> None:
    """With equal low and high factors, llama3 scaling is a step at wavelength 8192; every fourth
    layer has no RoPE, by the published config of Scout.
    """
    found = only_encoding({"model_type": "llama4", "text_config": SCOUT})
    plain = [5e5 ** (-i / 64) for i in range(64)]
    expected = [value / 16 if 2 * math.pi / value > 8192 else value for value in plain]

    assert found.inverse_frequencies() == pytest.approx(expected, rel=1e-14)
    for flags in (None, [], [int((k + 1) % 4 != 0) for k in range(48)]):
        model = load_config({**SCOUT, "no_rope_layers": flags})
        assert model.one().unrotated.nope_layers == tuple(range(3, 48, 4))
        layers, temperature = model.warnings
        assert layers.startswith(
            "layers 3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47 have no rope: "
        )
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


def test_ntk_elsewhere_multiplies_the_base_by_a_power_of_the_factor() -> None:
    """The base is multiplied by factor^(dim / (dim − 2)), with dim 128; the other meaning is
    mentioned.
    """
    model = load_config({**LLAMA_CONFIG, "rope_scaling": NTK_BY_8})
    expected = [(1e4 * 8 ** (128 / 126)) ** (-i / 64) for i in range(64)]
    assert model.one().inverse_frequencies() == pytest.approx(expected, rel=1e-14)

    (warning,) = model.warnings
    assert "ntk-fixed" in warning


def test_telechat_3_has_a_smaller_attention_factor_than_yarn() -> None:
    """Its code has 0.07 in place of YaRN's 0.1 in the attention factor."""
    scaling = {"factor": 8.0, ORIGINAL: 8192}
    found, plain = (
        only_encoding({**LLAMA_CONFIG, "rope_scaling": {"type": kind, **scaling}})
        for kind in ("telechat3-yarn", "yarn")
    )

    assert found.attention_factor() == pytest.approx(1 + 0.07 * math.log(8), rel=1e-15)
    assert found.inverse_frequencies() == plain.inverse_frequencies()

    derived = only_encoding(
        {**LLAMA_CONFIG, "rope_scaling": {"type": "telechat3-yarn", ORIGINAL: 3000}}
    )
    assert derived.attention_factor() == pytest.approx(1 + 0.07 * math.log(8192 / 3000), rel=1e-15)


NO_TABLES = {
    "dinov3_vit": "centres of",
    "sapiens2": "centres of",
    "vjepa2": "no pair rotates by one angle",
}


@pytest.mark.parametrize(("name", "said"), NO_TABLES.items())
def test_no_table_is_made_that_a_model_never_uses(name: str, said: str) -> None:
    """These vision models rotate by fractions of the image, so a table over positions 0, 1, 2, … is
    refused.
    """
    model = load_config({"model_type": name, "hidden_size": 768, "num_attention_heads": 12})

    assert any(said in warning for warning in model.warnings)
    assert model.one().inverse_frequencies() is not None
    with pytest.raises(pecli.ParameterError, match=said):
        model.one().rope(8)


def llama_encoding_scaled_by(scaling: dict[str, Any]) -> Any:
    return only_encoding({**LLAMA_CONFIG, "max_position_embeddings": 4096, "rope_scaling": scaling})


def test_the_betas_of_yarn_are_32_and_1_and_limits_are_rounded() -> None:
    """The defaults of YaRN's paper, whether they are given or not; given values replace them."""
    said = {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True}
    found = llama_encoding_scaled_by({"type": "yarn", "factor": 4.0, ORIGINAL: 1024})

    assert has_facts(found, {**said, **{f"source of {name}": "default" for name in said}})
    assert (
        llama_encoding_scaled_by({"type": "yarn", "factor": 4.0, ORIGINAL: 1024, **said}).parameters
        == found.parameters
    )

    given = llama_encoding_scaled_by(
        {"type": "yarn", "factor": 4.0, ORIGINAL: 1024, "beta_fast": 16, "truncate": False}
    )
    source = {"source of beta_fast": "rope_scaling.beta_fast"}
    assert has_facts(given, {"beta_fast": 16.0, "beta_slow": 1.0, "truncate": False, **source})


def test_a_factor_left_out_is_the_lengths_quotient() -> None:
    """4096 / 1024 = 4.

    The attention factors are those of the papers: 0.1 ln 4 + 1, and sqrt(1 + ln 4 / ln 1024).
    """
    by_hand = {
        "yarn": 0.1 * math.log(4) + 1,
        "longrope": math.sqrt(1 + math.log(4) / math.log(1024)),
    }

    for kind, lists in {"yarn": {}, "longrope": LONGROPE_FACTORS}.items():
        found = llama_encoding_scaled_by({"type": kind, ORIGINAL: 1024, **lists})
        assert has_facts(
            found,
            {
                "factor": 4.0,
                "source of factor": f"max_position_embeddings / rope_scaling.{ORIGINAL}",
            },
        )
        assert found.attention_factor() == pytest.approx(by_hand[kind], rel=1e-15)
        given = llama_encoding_scaled_by({"type": kind, ORIGINAL: 1024, "factor": 4.0, **lists})
        assert found.inverse_frequencies() == given.inverse_frequencies()

    broken = llama_encoding_scaled_by(
        {"type": "yarn", ORIGINAL: 3000}
    )  # no whole number, which is left to the scheme
    assert "factor" not in broken.parameters
    assert broken.attention_factor() == pytest.approx(0.1 * math.log(4096 / 3000) + 1, rel=1e-15)


def test_magnitudes_of_phimoe_are_others_beyond_the_original_length() -> None:
    """short_mscale holds up to 1024 positions, long_mscale beyond."""
    found = llama_encoding_scaled_by(
        {
            "type": "longrope",
            ORIGINAL: 1024,
            **LONGROPE_FACTORS,
            "short_mscale": 1.25,
            "long_mscale": 1.5,
        }
    )

    assert [found.attention_factor(length) for length in (None, 1024, 1025)] == [1.25, 1.25, 1.5]
    assert [found.rope(rows).attention_factor_value() for rows in (1024, 1025)] == [1.25, 1.5]
